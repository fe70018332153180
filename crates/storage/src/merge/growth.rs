//! What a change of a row costs grows with its length and no faster.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use types::{
    CellAction, CellChange, CellRef, CellState, ColumnId, LiveCells, RowChange, RowPosition,
    RowView, RowWriter,
};

use super::MergeError;
use super::row::{Before, merge};
use crate::steps::check_growth;

const SIZE: usize = 1024;
const LIST: ColumnId = ColumnId(1);

fn name(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap().to_be_bytes()
}

/// A row with that many elements in one list; each is its place.
fn row_with_list(element_count: usize) -> Vec<u8> {
    let mut writer = RowWriter::new(Vec::new(), None, None, None);
    for number in 0..element_count {
        let name = name(number);
        let state = CellState::Value { value: &name, expiry: None };
        writer.push(&CellRef { column: LIST, path: Some(&name), timestamp_us: 1, state });
    }
    writer.finish()
}

fn changed(row: &[u8], cells: Vec<CellChange>) -> Result<Vec<u8>, MergeError> {
    let row = Some(RowView::decode(row).unwrap());
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
    let change = RowChange {
        position: RowPosition::Clustered(Bytes::new()),
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells,
    };
    merge(before, &change, Vec::new()).map(|after| after.bytes)
}

fn of_list(action: CellAction) -> CellChange {
    CellChange { column: LIST, timestamp_us: 2, action }
}

/// The live values of a row.
fn values(row: &[u8]) -> Vec<Vec<u8>> {
    let live = LiveCells::new(RowView::decode(row).unwrap(), i64::MIN, 1);
    live.cells().map(|cell| cell.unwrap().value().to_vec()).collect()
}

fn removal(values: impl Iterator<Item = usize>) -> CellChange {
    let values = values.map(|number| Bytes::copy_from_slice(&name(number))).collect();
    of_list(CellAction::ListRemoveValues { values, deleted_at_s: 1 })
}

#[test]
fn values_are_removed_from_a_list() {
    check_growth("removed values", SIZE, |size| {
        let row = row_with_list(size);
        // Every second one is there.
        let after = changed(&row, vec![removal((0..size).rev().map(|number| 2 * number))]).unwrap();
        let left: Vec<_> = (0..size).filter(|it| it % 2 == 1).map(|it| name(it).to_vec()).collect();
        assert_eq!(values(&after), left);
    });
}
