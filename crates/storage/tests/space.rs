//! Room on the disk comes back when nobody writes any more.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::fs;

use bytes::Bytes;
use storage::{CommitMode, Storage};
use support::*;
use types::{CellAction, CellChange, ColumnId, Mutation, Operation, RowChange, RowPosition};

fn write(storage: &Storage, number: u32, timestamp_us: i64) {
    let value = Bytes::from(vec![number as u8; 100]);
    let action = CellAction::Set { path: None, value, expiry: None };
    let row = RowChange {
        position: RowPosition::Clustered(Bytes::copy_from_slice(&number.to_be_bytes())),
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells: vec![CellChange { column: ColumnId(1), timestamp_us, action }],
    };
    let operations = vec![Operation::Row(row)];
    let mutation = Mutation { table: TABLE, key: key(1), condition: None, operations };
    storage.commit(vec![(SET, mutation)]).wait().unwrap();
}

#[test]
fn a_compaction_leaves_no_file_that_it_replaced() {
    let folder = Folder::new("space");
    let storage = open(&folder.0, small_options(CommitMode::Group));
    for round in 0..3 {
        for number in 0..500 {
            write(&storage, number, round);
        }
        storage.flush(None).unwrap();
    }
    storage.compact(None).unwrap();
    let mut files = Vec::new();
    for tree in fs::read_dir(folder.0.join("trees")).unwrap() {
        for file in fs::read_dir(tree.unwrap().path().join("tables")).unwrap() {
            files.push(file.unwrap().metadata().unwrap().len());
        }
    }
    let counted: u64 = storage.statistics().tables.iter().map(|table| table.disk_bytes).sum();
    assert_eq!(files.iter().sum::<u64>(), counted, "{files:?}");
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(read_all(&storage, &everything()).len(), 500);
}
