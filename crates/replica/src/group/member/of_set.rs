//! Entries that say something of the set itself: who belongs to it, and where it was split.

use bytes::Bytes;
use raft::eraftpb::Entry;
use storage::{EntryPlace, Split};

use crate::group::changes::{Change, KIND_MEMBERS};
use crate::group::entries::{head_of, into_parts};

/// An entry that says something of the set itself.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) place: EntryPlace,
    pub(crate) kind: u8,
    pub(crate) now_s: u32,
    pub(crate) body: Bytes,
}

/// Whether entries of a kind say something of the set itself.
pub(crate) fn is_of_set(kind: u8) -> bool {
    kind == KIND_MEMBERS || Split::is_kind(kind)
}

/// Whether an entry is one that a leader writes.
pub(super) fn is_sound_entry(entry: &Entry) -> bool {
    let body = || into_parts(entry.clone()).map(|(_, _, body)| body).unwrap_or_default();
    head_of(entry).is_some_and(|(kind, _)| match kind {
        KIND_MEMBERS => Change::decode(body()).is_ok(),
        kind if Split::is_kind(kind) => Split::from_entry(body()).is_ok(),
        _ => true,
    })
}
