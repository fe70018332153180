//! What a compaction leaves out, said without the library's words.

use std::fmt;
use std::panic::RefUnwindSafe;
use std::sync::Arc;

use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

use crate::engine::TreeBytes;

/// Judges keys for compactions.
pub trait Sieve: Send + Sync + fmt::Debug {
    /// For one compaction: what it is judged by does not change on the way.
    fn begin(&self) -> Box<dyn Sieving>;
}

/// Judges the keys of one compaction.
pub trait Sieving: Send {
    /// Whether a key is of a kind that is judged at all; its value is not read else.
    fn is_judged(&mut self, key: &[u8]) -> bool;
    /// What is left of a value.
    fn judge(&mut self, key: &[u8], value: &[u8]) -> Kept;
}

/// What is left of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    All,
    Part(Vec<u8>),
    Nothing,
}

/// A sieve as the library wants it.
pub(crate) struct LibrarySieve(pub(crate) Arc<dyn Sieve>);

// The library asks for it; a panic in a filter leaves nothing of ours half changed.
impl RefUnwindSafe for LibrarySieve {}

impl Factory for LibrarySieve {
    fn name(&self) -> &str {
        "sieve"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(LibrarySieving(self.0.begin()))
    }
}

struct LibrarySieving(Box<dyn Sieving>);

impl CompactionFilter for LibrarySieving {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if !self.0.is_judged(item.key()) {
            return Ok(Verdict::Keep);
        }
        let value = item.value()?;
        Ok(match self.0.judge(item.key(), &value) {
            Kept::All => Verdict::Keep,
            Kept::Part(part) => Verdict::ReplaceValue(TreeBytes::from(part)),
            Kept::Nothing => Verdict::Remove,
        })
    }
}
