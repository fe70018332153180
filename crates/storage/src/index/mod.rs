//! Secondary indexes: a tree of its own for each, in the folder of its table.
//!
//! **An index is a function of its table.** What it holds for a row follows from the bytes of the
//! row and the deletions over it, and from nothing else ([`shape`]). Whoever changes a row, or lays
//! a deletion over rows, makes the same change to every index of the table, in the same apply and
//! under the same sequence number ([`maintain`]): table and indexes draw from one counter, so a
//! snapshot of the table is one of its indexes. Expiry needs no change: an entry carries its end,
//! is not followed after it, and goes in a compaction. Sweeps and purges drop only what is covered
//! or expired, which has no entry any more or one that ends too.
//!
//! **Crash rule.** An index has no replay points. Its memtable is frozen in the same moment as that
//! of its table, while no change is being applied, and is flushed *before* it. So on the disk an
//! index is never behind its table. Recovery replays from the replay points of the *table*, which
//! also hold the log, and works out the same puts and removes again, in the order of the log. An
//! index that was ahead ends in the right state all the same: for every entry the last put or
//! remove decides, and what no replayed record touches was as the table is. Conditions and counters
//! are judged by the table's rows, which are those of the first time.
//!
//! **Building.** An index of a table that has rows is filled in the background ([`build`]), a few
//! rows at a time while no change is applied; changes maintain it from its first moment on. How far
//! it came is a key in the index itself, so it is exactly as durable as the entries before it. Until
//! it is done nobody is answered from it.
//!
//! **Reading** is `read/lookup.rs`: an entry is a hint, the row decides.
//!
//! **A deletion of very many rows** takes their entries away in steps ([`leftovers`]).
//!
//! Reading order: [`keys`], [`shape`], [`tree`], [`set`], [`maintain`], [`leftovers`], [`build`], [`check`].

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod keys;
pub(crate) mod leftovers;
pub(crate) mod maintain;
pub(crate) mod set;
pub(crate) mod shape;
pub(crate) mod tree;
