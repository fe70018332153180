//! The figures of storage: `cargo xtask storage-figures [PART]...`.
//!
//! Parts: `writers` (commits against plain appends with fsync), `amplification` (bytes written and kept per
//! byte of row data), `stalls` (the longest wait of a reader and a writer during flush and compaction),
//! `queue` (a table that inserts and deletes everything), `large` (small changes beside large values),
//! `start` (opening, against the size). With `--scale N` everything is N times as large (0.1: a tenth).
//! CPU is that of the whole process: what flushes and compacts is part of the price.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a tool that prints, owns its clock and may stop"
)]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use schema::Table;
use storage::{Clock, CommitMode, DataDir, Options, SchemaSource, Storage};
use types::{
    CellAction, CellChange, ColumnId, CorruptRow, Deletion, Flow, LiveRow, Liveness, Mutation,
    Operation, PartitionKey, ReadCommand, ReadScope, RowChange, RowPosition, RowSelection, RowSink,
    SetId, Statics, TableId,
};

const TABLE: TableId = TableId(1);
const MIB: u64 = 1024 * 1024;
/// A row of `amplification` and `writers`: partition 4, clustering 4, values 40, 40 and 8.
const ROW_BYTES: u64 = 96;

#[derive(Default)]
struct Now(AtomicU32);

impl Clock for Now {
    fn now_s(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.now_s().into())
    }
}

struct NoSchema;

impl SchemaSource for NoSchema {
    fn table(&self, _: TableId) -> Option<Arc<Table>> {
        None
    }
}

/// Counts rows, and stops at some.
struct Count {
    rows: usize,
    rows_max: usize,
    bytes: usize,
}

impl RowSink for Count {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        self.rows += 1;
        if let Some(cells) = &row.row {
            for cell in cells.cells() {
                self.bytes += cell?.value().len();
            }
        }
        Ok(if self.rows >= self.rows_max { Flow::Stop } else { Flow::Continue })
    }
}

struct Place {
    folder: PathBuf,
    clock: Arc<Now>,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder =
            std::env::temp_dir().join(format!("helenus-figures-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let clock = Arc::new(Now(AtomicU32::new(1_000)));
        Place { folder, clock }
    }

    fn open(&self, options: Options) -> Storage {
        let dir = DataDir::lock(&self.folder).unwrap();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Storage::open(dir, options, Arc::new(NoSchema), clock).unwrap()
    }

    /// Bytes of all files, as `du` counts them.
    fn disk_bytes(&self) -> u64 {
        folder_bytes(&self.folder)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn folder_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// CPU of all threads of the process so far, exact to nanoseconds.
fn cpu() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let times = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

/// Bytes that this process gave the disk to write so far.
fn written_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn partition(number: u32) -> PartitionKey {
    PartitionKey::new(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn clustering(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Spreads numbers without repeating one.
fn scatter(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761).rotate_left(7)
}

fn set(column: u32, path: Option<Bytes>, value: Vec<u8>, timestamp_us: i64) -> CellChange {
    let action = CellAction::Set { path, value: Bytes::from(value), expiry: None };
    CellChange { column: ColumnId(column), timestamp_us, action }
}

fn change(
    at: (u32, u32),
    cells: Vec<CellChange>,
    deletion: Option<Deletion>,
) -> Vec<(SetId, Mutation)> {
    let timestamp_us = cells.first().map_or(0, |cell| cell.timestamp_us);
    let row = RowChange {
        position: RowPosition::Clustered(clustering(at.1)),
        original_clustering: None,
        liveness: deletion.is_none().then_some(Liveness { timestamp_us, expiry: None }),
        deletion,
        cells,
    };
    let operations = vec![Operation::Row(row)];
    let mutation = Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: partition(at.0),
        condition: None,
        operations,
    };
    vec![(SetId(at.0 % 4), mutation)]
}

fn row(at: (u32, u32), timestamp_us: i64) -> Vec<(SetId, Mutation)> {
    // Values that compress about as well as text does.
    let text = |seed: u32| format!("{:010x}", scatter(seed)).repeat(4).into_bytes();
    let cells = vec![
        set(1, None, text(at.1), timestamp_us),
        set(2, None, text(at.0 ^ at.1), timestamp_us),
        set(3, None, vec![1; 8], timestamp_us),
    ];
    change(at, cells, None)
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
        now_s: 1_000,
    }
}

fn read(storage: &Storage, at: u32, command: &ReadCommand, rows_max: usize) -> Count {
    let mut sink = Count { rows: 0, rows_max, bytes: 0 };
    storage.read(SetId(at % 4), command, &mut sink).unwrap();
    sink
}

/// Commits many with so many on their way at once.
fn commit_all(storage: &Storage, count: u32, make: impl Fn(u32) -> Vec<(SetId, Mutation)>) {
    let mut waiting = Vec::new();
    for number in 0..count {
        waiting.push(storage.commit(make(number)));
        if waiting.len() >= 512 {
            waiting.drain(..).for_each(|committed| drop(committed.wait().unwrap()));
        }
    }
    waiting.drain(..).for_each(|committed| drop(committed.wait().unwrap()));
}

/// Plain appends of a row's bytes with fsync, per second: so many threads, a file each.
fn plain_appends(threads: u32, for_time: Duration) -> f64 {
    let place = Place::new("appends");
    fs::create_dir_all(&place.folder).unwrap();
    let total = AtomicU64::new(0);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (place, total) = (&place, &total);
            scope.spawn(move || {
                let path = place.folder.join(number.to_string());
                let file = OpenOptions::new().create_new(true).write(true).open(path).unwrap();
                let bytes = [7; 200];
                let mut offset = 0;
                while begin.elapsed() < for_time {
                    file.write_all_at(&bytes, offset).unwrap();
                    file.sync_data().unwrap();
                    offset += bytes.len() as u64;
                    total.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    total.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64()
}

fn writers(scale: f64) {
    let for_time = Duration::from_secs_f64(3.0 * scale.clamp(0.1, 4.0));
    let alone = plain_appends(1, for_time);
    println!(
        "| writers | plain appends + fsync, a file each | group | of one appender | periodic | of one appender |"
    );
    println!("|---|---|---|---|---|---|");
    for count in [1, 8, 64, 512] {
        let plain = plain_appends(count.min(64), for_time);
        let rates = [CommitMode::Group, CommitMode::PERIODIC].map(|commit| {
            let place = Place::new("writers");
            let storage = place.open(Options { commit, ..Options::default() });
            let total = AtomicU64::new(0);
            let begin = Instant::now();
            std::thread::scope(|scope| {
                for writer in 0..count {
                    let (storage, total) = (&storage, &total);
                    scope.spawn(move || {
                        let mut number = 0;
                        while begin.elapsed() < for_time {
                            storage.commit(row((writer, number), 1)).wait().unwrap();
                            number += 1;
                        }
                        total.fetch_add(u64::from(number), Ordering::Relaxed);
                    });
                }
            });
            total.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64()
        });
        println!(
            "| {count} | {plain:.0}/s | {:.0}/s | {:.2} | {:.0}/s | {:.2} |",
            rates[0],
            rates[0] / alone,
            rates[1],
            rates[1] / alone
        );
    }
}

fn amplification(scale: f64) {
    let rows = (1_000_000.0 * scale) as u32;
    let place = Place::new("amplification");
    let options =
        Options { memtable_bytes_max: 64 * MIB, log_bytes_max: 64 * MIB, ..Options::default() };
    let storage = place.open(options);
    let raw = u64::from(rows) * ROW_BYTES;
    println!(
        "| {rows} rows of {ROW_BYTES} bytes | written per byte | kept per byte | CPU per row |"
    );
    println!("|---|---|---|---|");
    for (what, timestamp_us) in [("inserted", 1), ("all of them updated once", 2)] {
        let (before, cpu_before) = (written_bytes(), cpu());
        commit_all(&storage, rows, |number| {
            // Each row once, in no order.
            let at = (u64::from(number) * 2_654_435_761 % u64::from(rows)) as u32;
            row((at % 1000, at / 1000), timestamp_us)
        });
        storage.flush(None).unwrap();
        let written = (written_bytes() - before) as f64 / raw as f64;
        storage.compact(None).unwrap();
        let used = (cpu() - cpu_before).as_secs_f64() * 1e6 / f64::from(rows);
        let kept: u64 = storage.statistics().tables.iter().map(|table| table.disk_bytes).sum();
        println!("| {what} | {written:.2} | {:.2} | {used:.1} µs |", kept as f64 / raw as f64);
    }
}

/// How long each call took, sorted.
fn waits(is_done: &AtomicBool, mut work: impl FnMut(u32)) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut number = 0;
    while !is_done.load(Ordering::Relaxed) {
        let begin = Instant::now();
        work(number);
        waits.push(begin.elapsed());
        number += 1;
    }
    waits.sort_unstable();
    waits
}

fn stalls(scale: f64) {
    let for_time = Duration::from_secs_f64(20.0 * scale.clamp(0.1, 4.0));
    let place = Place::new("stalls");
    let options =
        Options { memtable_bytes_max: 16 * MIB, log_bytes_max: 32 * MIB, ..Options::default() };
    let storage = place.open(options);
    commit_all(&storage, 200_000, |number| row((number % 1000, number / 1000), 1));
    let is_done = AtomicBool::new(false);
    let mut told = Vec::new();
    std::thread::scope(|scope| {
        let (storage, is_done) = (&storage, &is_done);
        let read_one = move |number: u32| {
            let at = scatter(number) % 200_000;
            let point = RowSelection::point(clustering(at / 1000));
            assert_eq!(read(storage, at % 1000, &command(at % 1000, point), 1).rows, 1);
        };
        let write_one = move |number: u32| {
            let at = scatter(number) % 1_000_000;
            storage.commit(row((at % 1000, at / 1000), i64::from(number) + 2)).wait().unwrap();
        };
        // Seven more writers keep flushes and compactions going.
        for offset in 1..8 {
            scope.spawn(move || {
                let mut number = offset * 10_000_000;
                while !is_done.load(Ordering::Relaxed) {
                    write_one(number);
                    number += 1;
                }
            });
        }
        let reader = scope.spawn(move || waits(is_done, read_one));
        let writer = scope.spawn(move || waits(is_done, write_one));
        std::thread::sleep(for_time);
        is_done.store(true, Ordering::Relaxed);
        told.push(("reader", reader.join().unwrap()));
        told.push(("writer, one of eight", writer.join().unwrap()));
    });
    println!("| during flushes and compactions | requests | median | 99.9 % | longest |");
    println!("|---|---|---|---|---|");
    for (who, waits) in told {
        let at = |share: f64| waits.get(((waits.len() - 1) as f64 * share) as usize).unwrap();
        println!(
            "| {who} | {} | {:.2?} | {:.2?} | {:.2?} |",
            waits.len(),
            at(0.5),
            at(0.999),
            at(1.0)
        );
    }
}

fn queue(scale: f64) {
    let rows = (10_000_000.0 * scale) as u32;
    let place = Place::new("queue");
    let options = Options { commit: CommitMode::PERIODIC, ..Options::default() };
    let storage = place.open(options.clone());
    let item = |number: u32| change((0, number), vec![set(1, None, vec![7; 40], 1)], None);
    commit_all(&storage, rows, item);
    let full = place.disk_bytes();
    let gone = Some(Deletion { timestamp_us: 2, deleted_at_s: 1_000 });
    commit_all(&storage, rows, |number| change((0, number), Vec::new(), gone));
    commit_all(&storage, 100, |number| item(rows + number));
    let head = |storage: &Storage| {
        let begin = Instant::now();
        let found = read(storage, 0, &command(0, RowSelection::All), 10).rows;
        assert_eq!(found, 10);
        begin.elapsed()
    };
    let within = head(&storage);
    println!("{rows} rows inserted and deleted: {:.0} MB on the disk when full", full as f64 / 1e6);
    let rate = f64::from(rows) / within.as_secs_f64();
    println!("within the horizon: head in {within:.2?}, {rate:.0} dead rows skipped per second");
    // The horizon passes; nobody asks for anything.
    place.clock.0.store(1_000 + options.tombstone_retention_s + 1, Ordering::Relaxed);
    let begin = Instant::now();
    let mut reads = Vec::new();
    let left = loop {
        let bytes: u64 = storage.statistics().tables.iter().map(|table| table.disk_bytes).sum();
        reads.push(head(&storage));
        let settled = bytes < MIB && reads.last().is_some_and(|it| *it < Duration::from_millis(2));
        if settled || begin.elapsed() > Duration::from_secs(300) {
            break bytes;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    println!(
        "after it: {:.1} s until {left} bytes of sorted files were left",
        begin.elapsed().as_secs_f64()
    );
    let many = |storage: &Storage| {
        let mut times: Vec<_> = (0..200).map(|_| head(storage)).collect();
        times.sort_unstable();
        times.get(100).copied().unwrap()
    };
    let used = many(&storage);
    let fresh_place = Place::new("fresh");
    let fresh = fresh_place.open(options);
    commit_all(&fresh, 100, item);
    println!("head then {used:.2?}, of a fresh table {:.2?}", many(&fresh));
}

fn large(scale: f64) {
    let count = (40_000.0 * scale.max(0.05)) as u32;
    let place = Place::new("large");
    let storage = place.open(Options { commit: CommitMode::PERIODIC, ..Options::default() });
    let element = |number: u32| Bytes::copy_from_slice(&number.to_be_bytes());
    // Row 0: an int. 1: beside a blob. 2: beside a set. 3: beside a map.
    for number in 0..4 {
        storage
            .commit(change((0, number), vec![set(1, None, vec![0; 4], 1)], None))
            .wait()
            .unwrap();
    }
    let blob = vec![9; MIB as usize];
    storage.commit(change((0, 1), vec![set(2, None, blob, 1)], None)).wait().unwrap();
    for first in (0..100_000).step_by(1_000) {
        let cells = |column, value: usize| {
            let numbers = first..first + 1_000;
            numbers.map(|it| set(column, Some(element(it * 2)), vec![5; value], 1)).collect()
        };
        storage.commit(change((0, 2), cells(3, 0), None)).wait().unwrap();
        storage.commit(change((0, 3), cells(4, 20), None)).wait().unwrap();
    }
    storage.flush(None).unwrap();
    storage.compact(None).unwrap();
    println!("| {count} times | CPU each | of a plain update |");
    println!("|---|---|---|");
    let mut plain = None;
    type Cells<'a> = &'a dyn Fn(u32) -> (u32, Vec<CellChange>);
    let int = |number: u32| set(1, None, number.to_be_bytes().to_vec(), i64::from(number) + 2);
    let parts: [(&str, Cells<'_>); 4] = [
        ("an int", &|number| (0, vec![int(number)])),
        ("an int beside a blob of 1 MB", &|number| (1, vec![int(number)])),
        ("one more element of a set of 100,000", &|number| {
            let path = Some(element(200_001 + number * 2));
            (2, vec![set(3, path, Vec::new(), i64::from(number) + 2)])
        }),
        ("an entry in the middle of a map of 100,000", &|number| {
            let path = Some(element(100_000 + number % 1_000 * 2));
            (3, vec![set(4, path, vec![6; 20], i64::from(number) + 2)])
        }),
    ];
    for (what, make) in parts {
        let mut best = f64::MAX;
        for round in 0..3 {
            let before = cpu();
            for number in 0..count {
                let (at, cells) = make(number + round * count);
                storage.commit(change((0, at), cells, None)).wait().unwrap();
            }
            best = best.min((cpu() - before).as_secs_f64() * 1e6 / f64::from(count));
        }
        let plain = *plain.get_or_insert(best);
        println!("| {what} | {best:.1} µs | {:.2} |", best / plain);
    }
    for (what, at) in [("read an int alone", 0), ("read the int beside the blob", 1)] {
        let mut command = command(0, RowSelection::point(clustering(at)));
        command.columns = Some(Arc::from([ColumnId(1)]));
        let before = Instant::now();
        let bytes: usize = (0..count).map(|_| read(&storage, 0, &command, 1).bytes).sum();
        let each = before.elapsed().as_secs_f64() * 1e6 / f64::from(count);
        println!("{what}: {each:.2} µs, {} bytes of values handed out", bytes as u32 / count);
    }
}

fn start(scale: f64) {
    println!("| data | clean stop | start and first read | after a crash |");
    println!("|---|---|---|---|");
    for share in [0.1, 1.0] {
        let rows = (3_000_000.0 * scale * share) as u32;
        let place = Place::new("start");
        let options = Options { commit: CommitMode::PERIODIC, ..Options::default() };
        let storage = place.open(options.clone());
        commit_all(&storage, rows, |number| {
            let value: Vec<u8> =
                (0..250u32).flat_map(|it| scatter(number ^ it << 20).to_be_bytes()).collect();
            change((number % 1000, number / 1000), vec![set(1, None, value, 1)], None)
        });
        let begin = Instant::now();
        storage.close().unwrap();
        let stop = begin.elapsed();
        drop(storage);
        let bytes = place.disk_bytes();
        let opened = || {
            let begin = Instant::now();
            let storage = place.open(options.clone());
            assert_eq!(
                read(&storage, 7, &command(7, RowSelection::point(clustering(1))), 1).rows,
                1
            );
            (begin.elapsed(), storage)
        };
        let (clean, storage) = opened();
        storage.abandon();
        let (crashed, storage) = opened();
        println!("| {:.2} GB | {stop:.1?} | {clean:.1?} | {crashed:.1?} |", bytes as f64 / 1e9);
        drop(storage);
    }
}

fn main() {
    let mut scale = 1.0;
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--scale" => scale = arguments.next().and_then(|it| it.parse().ok()).unwrap(),
            _ => wanted.push(argument),
        }
    }
    type Part = fn(f64);
    let parts: [(&str, Part); 6] = [
        ("writers", writers),
        ("amplification", amplification),
        ("stalls", stalls),
        ("queue", queue),
        ("large", large),
        ("start", start),
    ];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|it| it == name) {
            println!("\n## {name}\n");
            part(scale);
        }
    }
}
