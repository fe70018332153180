//! What a secondary index costs: `cargo run --release -p storage --example bench_index`.
//!
//! 500,000 rows in as many partitions, ten rows for each indexed value; the same writes to a table without and
//! one with an index.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a tool that prints, times and may stop"
)]

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use schema::{Column, ColumnKind, Index, IndexTarget, Table, TableOptions, TableShape};
use storage::{Clock, CommitMode, DataDir, Options, SchemaSource, Storage};
use types::{
    CellAction, CellChange, ColumnId, CorruptRow, CqlType, Flow, IndexQuestion, LiveRow, Liveness,
    Mutation, Operation, PartitionKey, ReadCommand, ReadScope, RingRange, RowChange, RowPosition,
    RowSelection, RowSink, SetId, Statics, TableId,
};

const PLAIN: TableId = TableId(1);
const INDEXED: TableId = TableId(2);
const BUILT_LATER: TableId = TableId(1001);
const ROW_COUNT: u32 = 500_000;
const VALUE_COUNT: u32 = 50_000;
const ROUND_COUNT: u32 = 100_000;
const SET: SetId = SetId(1);

struct World;

impl Clock for World {
    fn now_s(&self) -> u32 {
        1
    }

    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.now_s().into())
    }
}

impl SchemaSource for World {
    fn table(&self, id: TableId) -> Option<Arc<Table>> {
        Some(Arc::new(table(id)))
    }
}

fn table(id: TableId) -> Table {
    let column = |number, name: &str, cql_type, kind| Column {
        id: ColumnId(number),
        name: name.into(),
        cql_type,
        kind,
        mask: None,
        is_hidden: false,
    };
    let mut table = Table {
        id,
        version: 0,
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column(1, "k", CqlType::Int, ColumnKind::PartitionKey),
            column(2, "v", CqlType::Int, ColumnKind::Regular),
            column(3, "w", CqlType::Blob, ColumnKind::Regular),
        ],
        partition_key_count: 1,
        clustering_count: 0,
        static_count: 0,
        shape: TableShape::Ordinary,
        is_counter: false,
        is_virtual: false,
        options: TableOptions::default(),
        indexes: Default::default(),
        dropped_columns: Default::default(),
        next_column_id: 4,
    };
    if id == INDEXED {
        table.indexes.insert("i".into(), Arc::new(index(TableId(1000))));
    }
    table
}

fn index(id: TableId) -> Index {
    Index {
        name: "i".into(),
        id,
        column: ColumnId(2),
        target: IndexTarget::Value,
        class: None,
        options: Default::default(),
    }
}

#[derive(Default)]
struct Count(usize);

impl RowSink for Count {
    fn on_row(&mut self, _: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        self.0 += 1;
        Ok(Flow::Continue)
    }
}

/// Prints the time of the clock and of this thread's CPU.
fn timed(what: &str, count: u32, mut work: impl FnMut(u32)) {
    let (start, cpu_start) = (Instant::now(), cpu_ns());
    (0..count).for_each(&mut work);
    let wall_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    let cpu_us = (cpu_ns() - cpu_start) / 1e3 / f64::from(count);
    println!("{what:45} {wall_us:10.2} µs, {cpu_us:10.2} µs of CPU");
}

fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn write(table: TableId, number: u32, value: u32, timestamp_us: i64) -> Vec<(SetId, Mutation)> {
    let cell = |column, value: Vec<u8>| CellChange {
        column: ColumnId(column),
        timestamp_us,
        action: CellAction::Set { path: None, value: Bytes::from(value), expiry: None },
    };
    let change = RowChange {
        position: RowPosition::Clustered(Bytes::new()),
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us, expiry: None }),
        deletion: None,
        cells: vec![cell(2, value.to_be_bytes().to_vec()), cell(3, vec![7; 80])],
    };
    let key = PartitionKey::new(Bytes::copy_from_slice(&number.to_be_bytes()));
    let operations = vec![Operation::Row(change)];
    vec![(SET, Mutation { table_version: 0, now_s: None, table, key, condition: None, operations })]
}

fn scatter(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761).rotate_left(7)
}

fn main() {
    let folder = std::env::temp_dir().join(format!("helenus-bench-index-{}", std::process::id()));
    let options = Options { commit: CommitMode::PERIODIC, ..Options::default() };
    let dir = DataDir::lock(&folder).unwrap();
    let storage = Storage::open(dir, options, Arc::new(World), Arc::new(World)).unwrap();
    for (name, table) in [("without an index", PLAIN), ("with an index", INDEXED)] {
        timed(&format!("insert {name}"), ROW_COUNT, |number| {
            let change = write(table, number, number % VALUE_COUNT, 1);
            storage.commit(change).wait().unwrap();
        });
    }
    storage.compact(None).unwrap();
    for (name, table) in [("without an index", PLAIN), ("with an index", INDEXED)] {
        timed(&format!("update, another value, {name}"), ROUND_COUNT, |round| {
            let number = scatter(round) % ROW_COUNT;
            let change = write(table, number, (number + 1) % VALUE_COUNT, 2);
            storage.commit(change).wait().unwrap();
        });
        timed(&format!("update, the same value, {name}"), ROUND_COUNT, |round| {
            let number = scatter(round) % ROW_COUNT;
            let change = write(table, number, (number + 1) % VALUE_COUNT, 3);
            storage.commit(change).wait().unwrap();
        });
    }
    storage.compact(None).unwrap();
    let look_up = |scope, value: u32| {
        let command = ReadCommand {
            table: INDEXED,
            scope,
            rows: RowSelection::All,
            index: Some(IndexQuestion {
                index: TableId(1000),
                value: Bytes::copy_from_slice(&value.to_be_bytes()),
                entry_value: None,
            }),
            reversed: false,
            statics: Statics::Skip,
            hidden: Vec::new(),
            columns: None,
            after: None,
            now_s: 1,
        };
        let mut sink = Count::default();
        storage.read(SET, &command, &mut sink).unwrap();
        sink.0
    };
    let all = || ReadScope::Ring(RingRange::FULL);
    let mut seen = 0;
    timed("lookup, ten rows, any value", ROUND_COUNT, |round| {
        seen += look_up(all(), scatter(round) % VALUE_COUNT);
    });
    println!("{:45} {:10.2} rows", "", seen as f64 / f64::from(ROUND_COUNT));
    timed("lookup, ten rows, a hundred hot values", ROUND_COUNT, |round| {
        look_up(all(), scatter(round) % 100);
    });
    timed("lookup with the partition key", ROUND_COUNT, |round| {
        let number = scatter(round) % ROW_COUNT;
        let key = PartitionKey::new(Bytes::copy_from_slice(&number.to_be_bytes()));
        look_up(ReadScope::Partition(key), number % VALUE_COUNT);
    });
    timed("lookup of a value that is not there", ROUND_COUNT, |round| {
        look_up(all(), VALUE_COUNT + round);
    });
    timed("build of an index on 500,000 rows", 1, |_| {
        storage.create_index(&table(PLAIN), &index(BUILT_LATER)).unwrap();
        while !storage.index_builds().iter().all(|build| build.is_built) {
            sleep(Duration::from_millis(1));
        }
    });
    storage.close().unwrap();
    drop(storage);
    let _ = std::fs::remove_dir_all(&folder);
}
