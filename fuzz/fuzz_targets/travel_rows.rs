//! Parts of reads from another node: an error, or rows that a sink can look at.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use types::travel::{PartBounds, PartWriter, RowsPart};
use types::{
    CorruptRow, Flow, LiveRow, ReadCommand, ReadScope, RingRange, RowSelection, RowSink, Statics,
    TableId,
};

/// Looks at every cell, and sends on what it sees.
struct Reader<'r, 'w> {
    row_count: u32,
    again: &'r mut PartWriter<'w>,
}

impl RowSink for Reader<'_, '_> {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        for cells in [row.row, row.static_row].into_iter().flatten() {
            for cell in cells.cells() {
                let _ = cells.view().spilled_bytes(&cell?)?;
            }
        }
        self.row_count += 1;
        self.again.on_row(row)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(part) = RowsPart::decode(Bytes::copy_from_slice(bytes)) else { return };
    let command = ReadCommand {
        table: TableId(1),
        scope: ReadScope::Ring(RingRange::FULL),
        rows: RowSelection::All,
        index: None,
        reversed: false,
        statics: Statics::AttachOrAlone,
        hidden: Vec::new(),
        columns: None,
        after: None,
        now_s: 1_000,
    };
    let bounds = PartBounds {
        rows_max: PartBounds::ROWS_MAX,
        bytes_max: PartBounds::BYTES_MAX,
        time_ms_max: 0,
        partition_rows_max: None,
    };
    let mut always = || true;
    let mut again = PartWriter::new(bounds, &mut always);
    let mut reader = Reader { row_count: 0, again: &mut again };
    if part.hand_to(&command, &mut reader).is_ok() {
        assert!(reader.row_count <= part.row_count());
        RowsPart::decode(Bytes::from(again.finish())).expect("ours");
    }
});
