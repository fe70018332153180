//! Whoever reads many rows reads them as of one moment, while others write over them, flush, and hand
//! their keys to other sets: what was overwritten is kept for them, and for nobody else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop"
)]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bytes::Bytes;
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use storage::{CommitMode, Committed, Storage};
use support::*;
use types::{
    CellAction, CellChange, ColumnId, CqlType, Liveness, Mutation, Operation, RowChange,
    RowPosition, SetId,
};

const VALUE: ColumnId = ColumnId(1);
const KEYS: u8 = 60;
const ROUNDS: u32 = 160;
/// So often the set that holds the keys is replaced by the next one.
const ROUNDS_PER_SET: u32 = 20;
const ROUNDS_PER_FLUSH: u32 = 35;

fn table(clustering_count: usize) -> Arc<Table> {
    let column = |id: u32, name: &str, kind| Column {
        id: ColumnId(id),
        name: name.into(),
        cql_type: CqlType::Blob,
        kind,
        mask: None,
        is_hidden: false,
    };
    let mut columns = vec![column(100, "k", ColumnKind::PartitionKey)];
    if clustering_count == 1 {
        columns.push(column(101, "c", ColumnKind::Clustering { descending: false }));
    }
    columns.push(column(VALUE.0, "v", ColumnKind::Regular));
    Arc::new(Table {
        id: TABLE,
        version: 0,
        keyspace: "k".into(),
        name: "t".into(),
        columns,
        partition_key_count: 1,
        clustering_count,
        static_count: 0,
        shape: TableShape::Ordinary,
        is_counter: false,
        is_virtual: false,
        options: TableOptions::default(),
        indexes: Default::default(),
        dropped_columns: Default::default(),
        next_column_id: 200,
    })
}

fn put(number: u8, round: u32) -> Mutation {
    let timestamp_us = i64::from(round);
    let value = Bytes::copy_from_slice(&round.to_be_bytes());
    let action = CellAction::Set { path: None, value, expiry: None };
    let change = RowChange {
        position: RowPosition::Clustered(Bytes::new()),
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us, expiry: None }),
        deletion: None,
        cells: vec![CellChange { column: VALUE, timestamp_us, action }],
    };
    let operations = vec![Operation::Row(change)];
    Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: key(number),
        condition: None,
        operations,
    }
}

/// Every key in its order, again and again.
fn write(storage: &Storage, current: &AtomicU32) {
    for round in 1..=ROUNDS {
        for number in 0..KEYS {
            let set = SetId(current.load(Ordering::SeqCst));
            match storage.commit(vec![(set, put(number, round))]) {
                Committed::Moved(_) => panic!("only this thread ends sets"),
                committed => committed.wait().map(|_| ()).unwrap(),
            }
        }
        if round % ROUNDS_PER_SET == 0 {
            let ended = current.load(Ordering::SeqCst);
            let hand_over = || current.store(ended + 1, Ordering::SeqCst);
            storage.end_sets(&[SetId(ended)], hand_over, || {}).unwrap();
        }
        if round % ROUNDS_PER_FLUSH == 0 {
            storage.flush(None).unwrap();
        }
    }
}

/// Scans through a set; panics unless the rows are of one moment.
fn scan(storage: &Storage, set: SetId) {
    let mut sink = Remember::default();
    storage.read(set, &everything(), &mut sink).unwrap();
    let mut rounds = vec![None; usize::from(KEYS)];
    for row in &sink.rows {
        let round = u32::from_be_bytes(row.cells[0].3.clone().try_into().unwrap());
        rounds[usize::from(row.partition[0])] = Some(round);
    }
    let rounds: Vec<u32> =
        rounds.into_iter().map(|round| round.expect("no row is missed")).collect();
    // Those before some key are of one round, those from it on of the round before.
    let is_one_moment =
        rounds.is_sorted_by(|a, b| a >= b) && rounds[0] - rounds.last().unwrap() <= 1;
    assert!(is_one_moment, "through {set:?}: {rounds:?}");
}

#[test]
fn a_scan_sees_one_moment_while_every_row_is_written_over() {
    for (mode, clustering_count) in
        [(CommitMode::PERIODIC, 0), (CommitMode::PERIODIC, 1), (CommitMode::Group, 0)]
    {
        let folder = Folder::new("isolation");
        let tables = Tables(vec![table(clustering_count)]);
        let storage = open_with(&folder.0, small_options(mode), tables, NOW_S);
        let (current, is_done) = (AtomicU32::new(1), AtomicBool::new(false));
        for number in 0..KEYS {
            storage.commit(vec![(SetId(1), put(number, 0))]).wait().unwrap();
        }
        std::thread::scope(|scope| {
            // One reads through the set that holds the keys, one through the set that held them before.
            for age in [0, 1] {
                let (storage, current, is_done) = (&storage, &current, &is_done);
                scope.spawn(move || {
                    while !is_done.load(Ordering::Relaxed) {
                        let set = current.load(Ordering::SeqCst).saturating_sub(age).max(1);
                        scan(storage, SetId(set));
                    }
                });
            }
            write(&storage, &current);
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
