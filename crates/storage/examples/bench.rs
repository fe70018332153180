//! What storage costs, in microseconds of one thread: `cargo run --release -p storage --example bench`.
//!
//! A million rows of about 100 bytes in 10,000 partitions, periodic commit unless `group` is given.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a tool that prints and may stop")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use schema::Table;
use storage::{Clock, CommitMode, DataDir, Options, SchemaSource, Storage};
use types::{
    CellAction, CellChange, ColumnId, CorruptRow, Flow, LiveRow, Liveness, Mutation, Operation,
    PartitionKey, ReadCommand, ReadScope, RowChange, RowPosition, RowSelection, RowSink, SetId,
    Statics, TableId,
};

const TABLE: TableId = TableId(1);
const PARTITION_COUNT: u32 = 10_000;
const ROWS_PER_PARTITION: u32 = 100;
const ROUND_COUNT: u32 = 200_000;

struct Zero;

impl Clock for Zero {
    fn now_s(&self) -> u32 {
        1
    }

    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.now_s().into())
    }
}

impl SchemaSource for Zero {
    fn table(&self, _: TableId) -> Option<Arc<Table>> {
        None
    }
}

#[derive(Default)]
struct Count(usize);

impl RowSink for Count {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        if let Some(cells) = &row.row {
            for cell in cells.cells() {
                self.0 += cell?.value().len().min(1);
            }
        }
        Ok(Flow::Continue)
    }
}

/// Prints the time of the clock and of this thread's CPU.
#[expect(clippy::disallowed_methods, reason = "a benchmark owns its clock")]
fn timed(what: &str, count: u32, mut work: impl FnMut(u32)) {
    let (start, cpu_start) = (Instant::now(), cpu_ns());
    (0..count).for_each(&mut work);
    let elapsed: Duration = start.elapsed();
    let cpu_us = (cpu_ns() - cpu_start) / 1e3 / f64::from(count);
    let wall_us = elapsed.as_secs_f64() * 1e6 / f64::from(count);
    println!("{what:40} {wall_us:10.2} µs, {cpu_us:10.2} µs of CPU");
}

fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn partition(number: u32) -> PartitionKey {
    PartitionKey::new(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn clustering(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Spreads numbers without repeating too soon.
fn scatter(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761).rotate_left(7)
}

fn set_of(partition: u32) -> SetId {
    SetId(partition % 4)
}

fn write(partition_number: u32, row: u32, timestamp_us: i64) -> Vec<(SetId, Mutation)> {
    let cell = |column, value: Vec<u8>| CellChange {
        column: ColumnId(column),
        timestamp_us,
        action: CellAction::Set { path: None, value: Bytes::from(value), expiry: None },
    };
    let change = RowChange {
        position: RowPosition::Clustered(clustering(row)),
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us, expiry: None }),
        deletion: None,
        cells: vec![cell(1, vec![row as u8; 40]), cell(2, vec![7; 40]), cell(3, vec![1; 8])],
    };
    let mutation = Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: partition(partition_number),
        condition: None,
        operations: vec![Operation::Row(change)],
    };
    vec![(set_of(partition_number), mutation)]
}

fn command(partition_number: u32, rows: RowSelection) -> ReadCommand {
    ReadCommand {
        table: TABLE,
        scope: ReadScope::Partition(partition(partition_number)),
        rows,
        index: None,
        reversed: false,
        statics: Statics::Skip,
        hidden: Vec::new(),
        columns: None,
        after: None,
        now_s: 1,
    }
}

fn main() {
    let group = std::env::args().any(|argument| argument == "group");
    let folder = std::env::temp_dir().join(format!("helenus-bench-{}", std::process::id()));
    let options = Options {
        commit: if group { CommitMode::Group } else { CommitMode::PERIODIC },
        ..Options::default()
    };
    let mut storage = None;
    timed("open an empty node", 1, |_| {
        let dir = DataDir::lock(&folder).unwrap();
        storage =
            Some(Storage::open(dir, options.clone(), Arc::new(Zero), Arc::new(Zero)).unwrap());
    });
    let storage = storage.unwrap();
    let rows = PARTITION_COUNT * ROWS_PER_PARTITION;
    let window = if group { 512 } else { 1 };
    let mut waiting = Vec::new();
    timed("insert, new rows", rows, |number| {
        let (partition, row) = (number % PARTITION_COUNT, number / PARTITION_COUNT);
        waiting.push(storage.commit(write(partition, row, 1)));
        if waiting.len() >= window {
            waiting.drain(..).for_each(|committed| drop(committed.wait().unwrap()));
        }
    });
    waiting.drain(..).for_each(|committed| drop(committed.wait().unwrap()));
    let get = |number: u32, spread: u32| {
        let at = scatter(number) % spread;
        let row = RowSelection::point(clustering(at / PARTITION_COUNT));
        let partition = at % PARTITION_COUNT;
        let mut sink = Count::default();
        storage.read(set_of(partition), &command(partition, row), &mut sink).unwrap();
        assert_eq!(sink.0, 3);
    };
    timed("get, any row, before compaction", ROUND_COUNT, |number| get(number, rows));
    storage.compact(None).unwrap();
    timed("get, any row", ROUND_COUNT, |number| get(number, rows));
    timed("get, a thousand hot rows", ROUND_COUNT, |number| get(number, 1000));
    timed("get, an absent row", ROUND_COUNT, |number| {
        let partition = scatter(number) % PARTITION_COUNT;
        let row = RowSelection::point(clustering(number + ROWS_PER_PARTITION));
        let mut sink = Count::default();
        storage.read(set_of(partition), &command(partition, row), &mut sink).unwrap();
        assert_eq!(sink.0, 0);
    });
    timed("slice of 100 rows", ROUND_COUNT / 20, |number| {
        let partition = scatter(number) % PARTITION_COUNT;
        let mut sink = Count::default();
        let command = command(partition, RowSelection::All);
        storage.read(set_of(partition), &command, &mut sink).unwrap();
        assert_eq!(sink.0, 300);
    });
    let update_count = if group { 2_000 } else { ROUND_COUNT };
    timed("update, any row", update_count, |number| {
        let at = scatter(number) % rows;
        let change = write(at % PARTITION_COUNT, at / PARTITION_COUNT, 2);
        storage.commit(change).wait().unwrap();
    });
    timed("update, a thousand hot rows", update_count, |number| {
        let at = scatter(number) % 1000;
        let change = write(at % PARTITION_COUNT, at / PARTITION_COUNT, 3 + i64::from(number));
        storage.commit(change).wait().unwrap();
    });
    println!("{:?}", storage.statistics());
    timed("first write to a new table", 100, |number| {
        let mut change = write(1, 1, 1);
        for (_, mutation) in &mut change {
            mutation.table = TableId(1000 + u128::from(number));
        }
        storage.commit(change).wait().unwrap();
    });
    timed("close", 1, |_| storage.close().unwrap());
    drop(storage);
    timed("open with data", 1, |_| {
        let dir = DataDir::lock(&folder).unwrap();
        let storage = Storage::open(dir, options.clone(), Arc::new(Zero), Arc::new(Zero)).unwrap();
        let mut sink = Count::default();
        let row = RowSelection::point(clustering(0));
        storage.read(set_of(0), &command(0, row), &mut sink).unwrap();
        assert_eq!(sink.0, 3);
        std::mem::forget(storage);
    });
    let _ = std::fs::remove_dir_all(&folder);
}
