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
    let mutation = Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: key(1),
        condition: None,
        operations,
    };
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
    // Flushes have asked for compactions of their own, which may still be under way.
    let files = || -> usize {
        let trees = fs::read_dir(folder.0.join("trees")).unwrap();
        trees.map(|tree| fs::read_dir(tree.unwrap().path().join("tables")).unwrap().count()).sum()
    };
    let mut rounds = 0;
    loop {
        storage.compact(None).unwrap();
        if files() == 1 {
            break;
        }
        rounds += 1;
        assert!(rounds < 20, "{} files are left", files());
    }
    assert_eq!(read_all(&storage, &everything()).len(), 500);
}
