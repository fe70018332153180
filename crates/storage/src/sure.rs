//! What is there because of what was done before. Anything else is a bug, and is told by a panic: it ends the request,
//! or, where something is applied, the node. What a client or a disk brings is never asked this way.

/// The bytes from a place on.
#[inline]
#[track_caller]
pub(crate) fn tail(bytes: &[u8], from: usize) -> &[u8] {
    bytes.split_at(from).1
}

/// The bytes between two places.
#[inline]
#[track_caller]
pub(crate) fn part(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    bytes.split_at(to).0.split_at(from).1
}

/// A value that is there.
#[inline]
#[track_caller]
#[expect(clippy::panic, reason = "it is what this function is for")]
pub(crate) fn sure<T>(value: Option<T>, why: &str) -> T {
    match value {
        Some(value) => value,
        None => panic!("a bug: {why}"),
    }
}
