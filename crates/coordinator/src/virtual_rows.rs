//! Tables that are computed when they are read: their rows are put into the form of stored ones,
//! and read by the same commands.

use bytes::Bytes;

use schema::system::VirtualRow;
use schema::{Column, Table};
use types::value::{ListIter, MapIter, encode_ordered};
use types::{
    CellRef, CellState, CorruptRow, CqlType, Flow, LiveCells, LiveRow, Liveness, PartitionKey,
    ReadCommand, ReadScope, RowSelection, RowSink, RowView, RowWriter, map_cell,
};

/// One computed row in stored form.
pub(crate) struct ComputedRow {
    key: PartitionKey,
    clustering: Vec<u8>,
    row: Vec<u8>,
}

/// All rows of a virtual table, in the order of the ring.
pub(crate) fn stored(table: &Table, rows: &[VirtualRow]) -> Vec<ComputedRow> {
    let mut rows: Vec<ComputedRow> = rows.iter().map(|row| to_stored(table, &row.values)).collect();
    rows.sort_by(|a, b| {
        (a.key.ring(), a.key.bytes(), &a.clustering).cmp(&(
            b.key.ring(),
            b.key.bytes(),
            &b.clustering,
        ))
    });
    rows
}

fn to_stored(table: &Table, values: &[Option<Vec<u8>>]) -> ComputedRow {
    let value_of = |index: usize| values.get(index).and_then(|value| value.as_deref());
    let key_count = table.partition_key_count;
    let key = if key_count == 1 {
        Bytes::copy_from_slice(value_of(0).unwrap_or_default())
    } else {
        let mut key = Vec::new();
        for index in 0..key_count {
            PartitionKey::push_component(&mut key, value_of(index).unwrap_or_default());
        }
        Bytes::from(key)
    };
    let mut clustering = Vec::new();
    for (index, column) in table.clustering().iter().enumerate() {
        let value = value_of(key_count + index).unwrap_or_default();
        encode_ordered(&column.cql_type, value, column.is_descending(), &mut clustering);
    }
    let liveness = Liveness { timestamp_us: 0, expiry: None };
    let mut writer = RowWriter::new(Vec::new(), Some(liveness), None, None);
    let mut cells: Vec<(&Column, &[u8])> = table
        .columns
        .iter()
        .enumerate()
        .skip(key_count + table.clustering_count)
        .filter_map(|(index, column)| Some((column, value_of(index)?)))
        .collect();
    cells.sort_by_key(|(column, _)| column.id);
    for (column, value) in cells {
        push_column(column, value, &mut writer);
    }
    ComputedRow { key: PartitionKey::new(key), clustering, row: writer.finish() }
}

/// A column's value as cells: one, or one per element of a collection that is not frozen.
fn push_column(column: &Column, value: &[u8], writer: &mut RowWriter) {
    let mut push = |path: Option<&[u8]>, value: &[u8]| {
        let state = CellState::Value { value, expiry: None };
        writer.push(&CellRef { column: column.id, path, timestamp_us: 0, state });
    };
    let mut path = Vec::new();
    match &column.cql_type {
        CqlType::Set { element, frozen: false } => {
            for item in ListIter::set(value).flatten().flatten() {
                path.clear();
                encode_ordered(element, item, false, &mut path);
                push(Some(&path), &[]);
            }
        }
        CqlType::Map { key, frozen: false, .. } => {
            for (entry_key, entry_value) in MapIter::new(value).flatten() {
                path.clear();
                encode_ordered(key, entry_key, false, &mut path);
                push(Some(&path), &map_cell(key, entry_key, entry_value));
            }
        }
        CqlType::List { frozen: false, .. } => {
            for (index, item) in ListIter::new(value).flatten().flatten().enumerate() {
                push(Some(&(index as u64).to_be_bytes()), item);
            }
        }
        _ => push(None, value),
    }
}

/// Hands the rows that a command asks for to the sink.
pub(crate) fn read(
    rows: &[ComputedRow],
    command: &ReadCommand,
    sink: &mut dyn RowSink,
) -> Result<(), CorruptRow> {
    let mut skipped_key: Option<&PartitionKey> = None;
    let mut start = 0;
    while let Some(first) = rows.get(start) {
        let length = rows.iter().skip(start).take_while(|row| row.key == first.key).count();
        let partition = rows.get(start..start + length).unwrap_or_default();
        start += length;
        let in_scope = match &command.scope {
            ReadScope::Partition(key) => *key == first.key,
            ReadScope::Ring(range) => range.contains(first.key.ring()),
        };
        if !in_scope || !is_after(command, first) {
            continue;
        }
        let forward = partition.iter();
        let ordered: Box<dyn Iterator<Item = &ComputedRow>> =
            if command.reversed { Box::new(forward.rev()) } else { Box::new(forward) };
        for row in ordered {
            if skipped_key == Some(&row.key) || !is_selected(command, row) {
                continue;
            }
            let cells = LiveCells::new(RowView::decode(&row.row)?, i64::MIN, command.now_s);
            let live = LiveRow {
                partition_key: row.key.bytes(),
                ring: row.key.ring(),
                clustering: Some(&row.clustering),
                row: Some(&cells),
                static_row: None,
            };
            match sink.on_row(&live)? {
                Flow::Continue => {}
                Flow::NextPartition => skipped_key = Some(&row.key),
                Flow::Stop => return Ok(()),
            }
        }
    }
    Ok(())
}

/// Whether rows of that logical partition may lie after the position the read goes on from.
fn is_after(command: &ReadCommand, row: &ComputedRow) -> bool {
    command.after.as_ref().is_none_or(|after| {
        let order = |key: &PartitionKey| (key.ring(), key.bytes().clone());
        order(&row.key) > order(&after.key) || (row.key == after.key && after.clustering.is_some())
    })
}

fn is_selected(command: &ReadCommand, row: &ComputedRow) -> bool {
    let clustering = row.clustering.as_slice();
    if let Some(after) = &command.after
        && after.key == row.key
        && let Some(last) = &after.clustering
    {
        let is_done = if command.reversed {
            clustering >= last.as_ref()
        } else {
            clustering <= last.as_ref()
        };
        if is_done {
            return false;
        }
    }
    match &command.rows {
        RowSelection::All => true,
        RowSelection::Points(points) => points.iter().any(|point| point.as_ref() == clustering),
        RowSelection::Ranges(ranges) => ranges.iter().any(|range| range.contains(clustering)),
        RowSelection::None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use types::value::write_set;
    use types::{ColumnId, assemble};

    use super::*;

    #[test]
    fn a_set_becomes_a_cell_per_element() {
        let cql_type = CqlType::Set { element: Arc::new(CqlType::Text), frozen: false };
        let column = Column {
            id: ColumnId(3),
            name: "tokens".into(),
            cql_type: cql_type.clone(),
            kind: schema::ColumnKind::Regular,
            mask: None,
            is_hidden: false,
        };
        let mut value = Vec::new();
        write_set(&CqlType::Text, &mut vec![b"a".to_vec(), b"b".to_vec()], &mut value);
        let mut writer = RowWriter::new(Vec::new(), None, None, None);
        push_column(&column, &value, &mut writer);
        let row = writer.finish();
        let mut found = Vec::new();
        let cells = RowView::decode(&row).unwrap().cells().map(Result::unwrap);
        assert!(assemble(&cql_type, cells, &mut found).unwrap());
        assert_eq!(found, value);
    }
}
