//! Decoders of what comes from a disk, for the targets in `fuzz/` alone: any bytes are an error or
//! something readable, and what was read is written as it was.

use bytes::Bytes;
use types::{RowView, RowWriter};

use crate::index::keys::EntryValue;
use types::codec::{Decoder, MUTATION_FORM, encode_mutation};

use crate::apply::once::decode_answer;
use crate::batch::KeptIntent;
use crate::entry::{EntryBody, Request, decode_first_form};
use crate::image::{Chunk, ImageHead};
use crate::tree::deletions::decode_range;
use crate::tree::keys::{
    cells_prefix, row_of_cell, split_cut_key, split_deletion, split_intent_key, split_prefix,
    split_row_key,
};
use node_log::EntryId;
use node_log::frame::{
    ENTRY_ID_BYTES, EntryHead, Frame, Mark, SegmentHead, decode_states, read_frame, split_record,
};
use tree::engine::TreeBytes;

/// Kinds of entries below this are storage's.
const ENTRY_KINDS: u8 = 6;

/// A record of the log, as a whole and as the body of one; a head and a mark.
pub fn log_record(bytes: &[u8]) {
    let mut rest = bytes;
    let mut chain = 0;
    while let Frame::Record(record) = read_frame(rest, chain) {
        assert!(record.bytes() <= rest.len(), "a record ends where its bytes do");
        chain = record.checksum;
        rest = rest.get(record.bytes()..).unwrap_or_default();
    }
    let mut rest = bytes;
    while let Some((_, body, behind)) = split_record(rest) {
        let _ = Mark::decode(body);
        rest = behind;
    }
    let _ = SegmentHead::decode(bytes);
    let _ = Mark::search(bytes).count();
    // A checksum keeps chance away from the body, so it is also handed over on its own.
    let entries: Vec<EntryId> = bytes
        .iter()
        .take(1)
        .flat_map(|count| 0..u32::from(count % 3))
        .map(|set| EntryId { set: types::SetId(set), index: ENTRY_ID_BYTES as u64 })
        .collect();
    let _ = decode_first_form(&entries, Bytes::copy_from_slice(bytes));
    let _ = decode_states(bytes);
    let _ = EntryHead::decode_all(bytes, bytes.len());
    if let Some((kind, body)) = bytes.split_first()
        && let Ok(body) = EntryBody::decode(kind % ENTRY_KINDS, Bytes::copy_from_slice(body))
    {
        let mut again = Vec::new();
        body.encode(&mut again);
        assert!(
            EntryBody::decode(kind % ENTRY_KINDS, Bytes::from(again)).is_ok(),
            "what was read is written"
        );
    }
    let mut decoder = Decoder::new(Bytes::copy_from_slice(bytes));
    if let Ok(mutation) = decoder.mutation(MUTATION_FORM) {
        let mut again = Vec::new();
        encode_mutation(&mutation, &mut again);
        let mut decoder = Decoder::new(Bytes::from(again.clone()));
        let reread = decoder.mutation(MUTATION_FORM);
        assert!(
            reread.is_ok_and(|reread| reread == mutation),
            "what was read is written as it was"
        );
        assert!(decoder.is_done(), "all of it was read");
    }
}

/// What is kept of a batch over several sets, and a step of one.
pub fn batch(bytes: &[u8]) {
    if let Ok(kept) = KeptIntent::from_bytes(Bytes::copy_from_slice(bytes)) {
        let again = KeptIntent::from_bytes(Bytes::from(kept.to_bytes()));
        assert!(
            again.is_ok_and(|again| again.to_bytes() == kept.to_bytes()),
            "what was read is written"
        );
    }
    if let Ok(request) = Request::from_bytes(Bytes::copy_from_slice(bytes)) {
        let again = Request::from_bytes(request.to_bytes());
        assert!(
            again.is_ok_and(|again| again.to_bytes() == request.to_bytes()),
            "what was read is written"
        );
        let _ = (request.rings().count(), request.batch_place(), request.given_us());
    }
}

/// The head of an image and a chunk of it, from a peer or from the file in which they are kept; what became of a request, as an image
/// brings it.
pub fn image(bytes: &[u8]) {
    if let Ok(head) = ImageHead::from_bytes(Bytes::copy_from_slice(bytes)) {
        let again = ImageHead::from_bytes(head.to_bytes());
        assert!(
            again.is_ok_and(|again| again.to_bytes() == head.to_bytes()),
            "what was read is written"
        );
        let _ = head.tables().count();
    }
    let _ = Chunk::decode(Bytes::copy_from_slice(bytes));
    let _ = decode_answer(Bytes::copy_from_slice(bytes));
}

/// The value of a row, with what was spilled from it.
pub fn row_value(bytes: &[u8]) {
    let _ = split_cut_key(bytes);
    let Ok(view) = RowView::decode(bytes) else { return };
    let _ = view.spilled().count();
    let Ok(cells) = view.cells().collect::<Result<Vec<_>, _>>() else { return };
    for cell in &cells {
        let _ = (cell.is_live(1), cell.value().len(), view.spilled_bytes(cell));
    }
    let mut writer =
        RowWriter::new(Vec::new(), view.liveness(), view.deletion(), view.original_clustering());
    cells.iter().for_each(|cell| writer.push(cell));
    let again = writer.finish();
    let reread =
        RowView::decode(&again).and_then(|view| view.cells().collect::<Result<Vec<_>, _>>());
    assert!(reread.is_ok_and(|reread| reread == cells), "what was read is written as it was");
}

/// A key of a tree or an index, and the small values beside rows.
pub fn key(bytes: &[u8]) {
    if let Some(row) = split_row_key(bytes) {
        assert!(row.prefix.len() <= bytes.len(), "a prefix is part of its key");
        if let Some(prefix) = cells_prefix(bytes) {
            let back = row_of_cell(&prefix);
            let is_same = back.is_some_and(|(row_key, length)| {
                length == prefix.len() && row_key.get(1..) == bytes.get(1..)
            });
            assert!(is_same, "the row of a cell is where the cell came from");
        }
    }
    if let Some((_, rest)) = split_prefix(bytes) {
        let _ = split_deletion(rest);
    }
    let _ = row_of_cell(bytes);
    let _ = split_intent_key(bytes);
    let _ = EntryValue::decode(bytes);
    let (key, value) = bytes.split_at(bytes.len() / 2);
    let _ = decode_range((TreeBytes::from(key), TreeBytes::from(value)));
}
