//! Two steps of a write on their own, for `benches/write.rs` alone.

use types::{CorruptRow, Mutation, RowChange, RowView};

use types::codec::{MUTATION_FORM, encode_mutation, push_length};

use crate::merge::row::{Before, merge};
use node_log::frame::{ENTRY_HEAD_BYTES, RecordKind, push_record};

/// Merges a change into a stored row, as applying it does; nothing when it cannot be merged.
pub fn merge_row(row: Option<&[u8]>, change: &RowChange) -> Result<Vec<u8>, CorruptRow> {
    let row = row.map(RowView::decode).transpose()?;
    let before = Before {
        row,
        first_row: row,
        first_covering_us: i64::MIN,
        covering_us: i64::MIN,
        now_s: 1,
        horizon_s: 0,
        hidden: &[],
        measure: None,
    };
    merge(&before, change, Vec::new()).map(|after| after.bytes).map_err(|_| CorruptRow)
}

/// Appends the record of a change to a buffer, as the log does before it writes; returns the next
/// link of the chain.
pub fn append_record(
    mutation: &Mutation,
    chain: u32,
    body: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> u32 {
    body.clear();
    body.push(MUTATION_FORM as u8);
    push_length(body, 1);
    encode_mutation(mutation, body);
    let head = [0; ENTRY_HEAD_BYTES];
    push_record(out, chain, RecordKind::Entries, &head, body, crc32fast::hash(body))
}
