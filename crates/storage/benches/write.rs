//! What the steps of a write cost in memory: `cargo xtask microbench`.
#![allow(clippy::unwrap_used, reason = "a measurement may stop")]

use bytes::Bytes;
use divan::{Bencher, black_box};
use storage::measured::{append_record, merge_row};
use types::{
    CellAction, CellChange, ColumnId, Liveness, Mutation, Operation, PartitionKey, RowChange,
    RowPosition, TableId,
};

fn main() {
    divan::main();
}

fn change(columns: &[u16], timestamp_us: i64) -> RowChange {
    let cell = |column: &u16| CellChange {
        column: ColumnId((*column).into()),
        timestamp_us,
        action: CellAction::Set { path: None, value: Bytes::from(vec![b'a'; 80]), expiry: None },
    };
    RowChange {
        position: RowPosition::Clustered(Bytes::new()),
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us, expiry: None }),
        deletion: None,
        cells: columns.iter().map(cell).collect(),
    }
}

#[divan::bench]
fn merge_new_row(bencher: Bencher<'_, '_>) {
    let insert = change(&[1, 2, 3], 1);
    bencher.bench(|| merge_row(None, black_box(&insert)).unwrap());
}

#[divan::bench]
fn merge_one_column(bencher: Bencher<'_, '_>) {
    let row = merge_row(None, &change(&[1, 2, 3], 1)).unwrap();
    let update = change(&[2], 2);
    bencher.bench(|| merge_row(Some(black_box(&row)), &update).unwrap());
}

#[divan::bench]
fn log_append(bencher: Bencher<'_, '_>) {
    const BUFFER_BYTES: usize = 1 << 20;
    let mutation = Mutation {
        table_version: 0,
        now_s: None,
        table: TableId(1),
        key: PartitionKey::new(Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 7])),
        condition: None,
        operations: vec![Operation::Row(change(&[1, 2, 3], 1))],
    };
    let (mut body, mut out, mut chain) = (Vec::new(), Vec::with_capacity(BUFFER_BYTES * 2), 0);
    bencher.bench_local(|| {
        if out.len() > BUFFER_BYTES {
            out.clear();
        }
        chain = append_record(black_box(&mutation), chain, &mut body, &mut out);
    });
}
