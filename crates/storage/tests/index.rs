//! Indexes against their table: after any history, with flushes and crashes at any moment, every
//! index holds what the rows say, nothing less and nothing more.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use schema::{Column, ColumnKind, Index, IndexTarget, Table, TableOptions, TableShape};
use storage::{CommitMode, Storage};
use support::*;
use types::value::encode_ordered;
use types::{
    CellAction, CellChange, Check, ClusteringRange, ColumnId, ColumnPart, Comparison, Condition,
    CqlType, Deletion, Expiry, IndexQuestion, Liveness, Mutation, Operation, PartitionKey,
    ReadPosition, ReadScope, RingRange, RowChange, RowCondition, RowPosition, TableId,
};

const STATIC: ColumnId = ColumnId(5);
const VALUE: ColumnId = ColumnId(6);
const LIST: ColumnId = ColumnId(7);
const SET_COLUMN: ColumnId = ColumnId(8);
const MAP: ColumnId = ColumnId(9);
const FROZEN: ColumnId = ColumnId(10);

fn table(indexes: &[Index]) -> Arc<Table> {
    let int = || Arc::new(CqlType::Int);
    let column = |id, name: &str, cql_type, kind| Column {
        id,
        name: name.into(),
        cql_type,
        kind,
        mask: None,
        is_hidden: false,
    };
    let key = ColumnKind::PartitionKey;
    let clustering = |descending| ColumnKind::Clustering { descending };
    let regular = ColumnKind::Regular;
    let list = |frozen| CqlType::List { element: int(), frozen };
    let mut table = Table {
        id: TABLE,
        version: 0,
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column(ColumnId(1), "p", CqlType::Int, key),
            column(ColumnId(2), "q", CqlType::Text, key),
            column(ColumnId(3), "c", CqlType::Text, clustering(false)),
            column(ColumnId(4), "d", CqlType::Int, clustering(true)),
            column(STATIC, "s", CqlType::Int, ColumnKind::Static),
            column(FROZEN, "f", list(true), regular),
            column(LIST, "l", list(false), regular),
            column(MAP, "m", CqlType::Map { key: int(), value: int(), frozen: false }, regular),
            column(SET_COLUMN, "st", CqlType::Set { element: int(), frozen: false }, regular),
            column(VALUE, "v", CqlType::Text, regular),
        ],
        partition_key_count: 2,
        clustering_count: 2,
        static_count: 1,
        shape: TableShape::Ordinary,
        is_counter: false,
        is_virtual: false,
        options: TableOptions::default(),
        indexes: Default::default(),
        dropped_columns: Default::default(),
        next_column_id: 200,
    };
    for index in indexes {
        table.indexes.insert(Arc::clone(&index.name), Arc::new(index.clone()));
    }
    Arc::new(table)
}

fn indexes() -> Vec<Index> {
    use IndexTarget::{Entries, Full, Keys, Value, Values};
    let on = [
        (ColumnId(2), Value),
        (ColumnId(4), Value),
        (STATIC, Value),
        (VALUE, Value),
        (LIST, Values),
        (SET_COLUMN, Values),
        (MAP, Keys),
        (MAP, Values),
        (MAP, Entries),
        (FROZEN, Full),
    ];
    on.into_iter()
        .enumerate()
        .map(|(number, (column, target))| Index {
            name: format!("index{number}").into(),
            id: TableId(0x1000 + number as u128),
            column,
            target,
            class: None,
            options: Default::default(),
        })
        .collect()
}

fn open_indexed(path: &Path, mode: CommitMode, indexes: &[Index]) -> Storage {
    // Half of the runs with nearly everything outside of rows.
    let options = match mode {
        CommitMode::Group => small_options(mode),
        CommitMode::Periodic { .. } => spilling(small_options(mode)),
    };
    open_with(path, options, Tables(vec![table(indexes)]), NOW_S)
}

fn partition(number: u8) -> PartitionKey {
    let mut bytes = Vec::new();
    PartitionKey::push_component(&mut bytes, &i32::from(number).to_be_bytes());
    PartitionKey::push_component(
        &mut bytes,
        if number.is_multiple_of(2) { b"even" } else { b"odd" },
    );
    if number == 3 {
        // Too long for the keys of the trees.
        bytes.clear();
        PartitionKey::push_component(&mut bytes, &i32::from(number).to_be_bytes());
        PartitionKey::push_component(&mut bytes, &[b'x'; 40_000]);
    }
    PartitionKey::new(Bytes::from(bytes))
}

fn clustering_of(c: u8, d: i32) -> Bytes {
    let mut out = Vec::new();
    encode_ordered(&CqlType::Text, &[b'a' + c], false, &mut out);
    encode_ordered(&CqlType::Int, &d.to_be_bytes(), true, &mut out);
    Bytes::from(out)
}

fn ordered_int(number: i32) -> Bytes {
    let mut out = Vec::new();
    encode_ordered(&CqlType::Int, &number.to_be_bytes(), false, &mut out);
    Bytes::from(out)
}

fn int(number: i32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn timestamp() -> impl Strategy<Value = i64> {
    1..12i64
}

fn deletion() -> impl Strategy<Value = Deletion> {
    (timestamp(), 300..1000u32)
        .prop_map(|(timestamp_us, deleted_at_s)| Deletion { timestamp_us, deleted_at_s })
}

fn expiry() -> impl Strategy<Value = Option<Expiry>> {
    prop_oneof![
        3 => Just(None),
        1 => prop_oneof![Just(200u32), Just(NOW_S - 1), Just(NOW_S + 1), Just(NOW_S + 100)]
            .prop_map(|expires_at_s| Some(Expiry { ttl_s: 3, expires_at_s })),
    ]
}

fn clustering() -> impl Strategy<Value = Bytes> {
    (0..3u8, 0..2i32).prop_map(|(c, d)| clustering_of(c, d))
}

fn cell(is_static: bool) -> BoxedStrategy<CellChange> {
    let set = |path, value, expiry| CellAction::Set { path, value, expiry };
    let seconds = 300..1000u32;
    let plain = |column, value: BoxedStrategy<Bytes>| {
        (value, expiry(), 0..6u8, seconds.clone()).prop_map(move |(value, expiry, kind, at)| {
            let action = match kind {
                0 => CellAction::Delete { path: None, deleted_at_s: at },
                _ => set(None, value, expiry),
            };
            (column, action)
        })
    };
    if is_static {
        return (timestamp(), plain(STATIC, (0..3i32).prop_map(int).boxed()))
            .prop_map(|(timestamp_us, (column, action))| CellChange {
                column,
                timestamp_us,
                action,
            })
            .boxed();
    }
    let long = Bytes::from(vec![b'z'; 3_000]);
    let text = prop_oneof![
        Just(Bytes::from_static(b"")),
        Just(Bytes::from_static(b"a")),
        Just(Bytes::from_static(b"a\0b")),
        Just(long),
    ];
    let list = (0..3i32).prop_map(|n| {
        let mut out = 1i32.to_be_bytes().to_vec();
        out.extend_from_slice(&4i32.to_be_bytes());
        out.extend_from_slice(&n.to_be_bytes());
        Bytes::from(out)
    });
    let element = (0..3u8, 0..3i32, 0..3i32, expiry(), 0..8u8, seconds.clone()).prop_map(
        move |(which, key, value, expiry, kind, at)| {
            let (column, path, value) = match which {
                0 => (LIST, Bytes::from(vec![key as u8; 16]), int(value)),
                1 => (SET_COLUMN, ordered_int(key), Bytes::new()),
                _ => (MAP, ordered_int(key), int(value)),
            };
            let action = match kind {
                0 => CellAction::DeleteElements { deleted_at_s: at },
                1 => CellAction::Delete { path: Some(path), deleted_at_s: at },
                2 if column == LIST => {
                    CellAction::ListRemoveValues { values: vec![value], deleted_at_s: at }
                }
                _ => set(Some(path), value, expiry),
            };
            (column, action)
        },
    );
    (timestamp(), prop_oneof![plain(VALUE, text.boxed()), plain(FROZEN, list.boxed()), element])
        .prop_map(|(timestamp_us, (column, action))| CellChange { column, timestamp_us, action })
        .boxed()
}

fn row_change() -> impl Strategy<Value = RowChange> {
    let of = |position: RowPosition| {
        let is_static = position == RowPosition::Static;
        let liveness = (timestamp(), expiry())
            .prop_map(|(timestamp_us, expiry)| Liveness { timestamp_us, expiry });
        let cells = prop::collection::vec(cell(is_static), 0..4);
        (prop::option::of(liveness), prop::option::weighted(0.15, deletion()), cells).prop_map(
            move |(liveness, deletion, cells)| RowChange {
                position: position.clone(),
                original_clustering: None,
                liveness: liveness.filter(|_| !is_static),
                deletion,
                cells,
            },
        )
    };
    prop_oneof![
        1 => Just(RowPosition::Static),
        5 => clustering().prop_map(RowPosition::Clustered),
    ]
    .prop_flat_map(of)
}

fn operation() -> impl Strategy<Value = Operation> {
    let range = prop_oneof![
        (clustering(), prop::option::of(clustering()))
            .prop_map(|(start, end)| ClusteringRange { start, end }),
        (0..3u8).prop_map(|c| {
            let mut prefix = Vec::new();
            encode_ordered(&CqlType::Text, &[b'a' + c], false, &mut prefix);
            ClusteringRange::of_prefix(Bytes::from(prefix))
        }),
    ];
    prop_oneof![
        12 => row_change().prop_map(Operation::Row),
        1 => deletion().prop_map(Operation::DeletePartition),
        2 => (range, deletion())
            .prop_map(|(range, deletion)| Operation::DeleteRange { range, deletion }),
    ]
}

/// `IF v = 'a'` on some row, or that the row is there or not.
fn condition() -> impl Strategy<Value = Option<Box<Condition>>> {
    let check = prop_oneof![
        Just(Check::Exists),
        Just(Check::NotExists),
        Just(Check::Column {
            column: VALUE,
            part: ColumnPart::Whole,
            operator: Comparison::Equal,
            values: vec![Some(Bytes::from_static(b"a"))],
        }),
    ];
    let condition = (clustering(), check).prop_map(|(clustering, check)| {
        let row =
            RowCondition { position: RowPosition::Clustered(clustering), checks: vec![check] };
        Box::new(Condition { rows: vec![row] })
    });
    prop::option::weighted(0.15, condition)
}

fn mutation() -> impl Strategy<Value = Mutation> {
    (0..4u8, condition(), prop::collection::vec(operation(), 1..4)).prop_map(
        |(number, condition, operations)| Mutation {
            table_version: 0,
            now_s: None,
            table: TABLE,
            key: partition(number),
            condition,
            operations,
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Mutation>),
    Flush,
    Compact,
    Reopen,
    Crash,
    /// The indexes are flushed, the table is not.
    CrashInFlush,
    Truncate,
    /// Drops an index and makes it anew.
    Rebuild(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => prop::collection::vec(mutation(), 1..4).prop_map(Step::Commit),
        3 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        2 => Just(Step::Crash),
        2 => Just(Step::CrashInFlush),
        1 => Just(Step::Truncate),
        2 => (0..10usize).prop_map(Step::Rebuild),
    ]
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Puts the tables' own files of an earlier copy in place of those that are there.
fn restore_tables(earlier: &Path, now: &Path) {
    for entry in fs::read_dir(now.join("trees")).unwrap() {
        let folder = entry.unwrap();
        for file in fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            if file.file_name().to_str().unwrap().starts_with("index-") {
                continue;
            }
            if file.file_type().unwrap().is_dir() {
                fs::remove_dir_all(file.path()).unwrap();
            } else {
                fs::remove_file(file.path()).unwrap();
            }
        }
        let before = earlier.join("trees").join(folder.file_name());
        if !before.exists() {
            continue;
        }
        for file in fs::read_dir(before).unwrap() {
            let file = file.unwrap();
            let target = folder.path().join(file.file_name());
            if file.file_name().to_str().unwrap().starts_with("index-") {
                continue;
            }
            if file.file_type().unwrap().is_dir() {
                copy_folder(&file.path(), &target);
            } else {
                fs::copy(file.path(), target).unwrap();
            }
        }
    }
}

fn wait_built(storage: &Storage) {
    for _ in 0..60_000 {
        if storage.index_builds().iter().all(|build| build.is_built) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("an index was not built: {:?}", storage.index_builds());
}

fn check_indexes(storage: &Storage, is_compacted: bool) {
    wait_built(storage);
    for comparison in storage.compare_indexes(TABLE).unwrap() {
        assert!(comparison.is_exact(), "{comparison:?}");
        assert!(!is_compacted || comparison.ended_count == 0, "{comparison:?}");
    }
}

/// A lookup gives, in the order of the table, every row that a scan gives and that matches.
fn check_lookups(storage: &Storage, indexes: &[Index]) {
    let all = read_all(storage, &everything());
    for (number, value) in [(0, 0), (1, 1), (2, 2)] {
        let ask = |index: usize, value: Bytes, entry_value: Option<Bytes>| {
            let mut command = everything();
            command.index = Some(IndexQuestion { index: indexes[index].id, value, entry_value });
            command
        };
        let with_cell = |column: ColumnId, wanted: &[u8]| {
            let has =
                |row: &SeenRow| row.cells.iter().any(|cell| cell.0 == column.0 && cell.3 == wanted);
            all.iter().filter(|row| has(row)).cloned().collect::<Vec<SeenRow>>()
        };
        let text: &[u8] = [b"".as_slice(), b"a", b"a\0b"][number];
        let by_value = ask(3, Bytes::copy_from_slice(text), None);
        check_answer(storage, &by_value, &with_cell(VALUE, text));
        check_answer(storage, &ask(4, int(value), None), &with_cell(LIST, &int(value)));
        check_answer(storage, &ask(7, int(value), None), &with_cell(MAP, &int(value)));
        let with_static: Vec<SeenRow> = all
            .iter()
            .filter(|row| row.statics.iter().any(|cell| cell.3 == int(value)))
            .cloned()
            .collect();
        check_answer(storage, &ask(2, int(value), None), &with_static);
    }
}

/// A read may bring more than the wanted rows, which the caller filters; never fewer, and in order.
fn check_answer(storage: &Storage, command: &types::ReadCommand, wanted: &[SeenRow]) {
    let seen = read_all(storage, command);
    let kept: Vec<SeenRow> = seen.into_iter().filter(|row| wanted.contains(row)).collect();
    assert_eq!(kept, wanted);
    // Row by row, each time going on after the last one.
    let mut paged = Vec::new();
    let mut page = command.clone();
    loop {
        let mut sink = Remember { row_count_max: Some(1), ..Remember::default() };
        storage.read(SET, &page, &mut sink).unwrap();
        let Some(row) = sink.rows.pop() else { break };
        page.after = Some(ReadPosition {
            key: PartitionKey::new(Bytes::from(row.partition.clone())),
            clustering: row.clustering.clone().map(Bytes::from),
        });
        paged.push(row);
    }
    paged.retain(|row| wanted.contains(row));
    assert_eq!(paged, wanted, "in pages");
    // Partition by partition, and in two halves of the ring.
    let mut by_partition = Vec::new();
    let mut numbers: Vec<u8> = (0..4).collect();
    numbers.sort_by_key(|number| partition(*number).ring());
    for number in numbers {
        let mut one = command.clone();
        one.scope = ReadScope::Partition(partition(number));
        by_partition.extend(read_all(storage, &one));
    }
    by_partition.retain(|row| wanted.contains(row));
    assert_eq!(by_partition, wanted, "by partition");
    let mut halves = Vec::new();
    let middle = partition(1).ring();
    let end = types::RingToken(middle.0.wrapping_sub(1));
    for range in [
        RingRange { start: RingRange::FULL.start, last: end },
        RingRange { start: middle, last: RingRange::FULL.last },
    ] {
        let mut half = command.clone();
        half.scope = ReadScope::Ring(range);
        halves.extend(read_all(storage, &half));
    }
    halves.retain(|row| wanted.contains(row));
    assert_eq!(halves, wanted, "in halves");
}

fn run(steps: Vec<Step>, mode: CommitMode) {
    let folder = Folder::new("index");
    let mut indexes = indexes();
    let mut storage = open_indexed(&folder.0, mode, &indexes);
    for step in steps {
        let mut is_compacted = false;
        match step {
            Step::Commit(mutations) => {
                let change = mutations.into_iter().map(|mutation| (SET, mutation));
                storage.commit(change).wait().unwrap();
            }
            Step::Flush => storage.flush(None).unwrap(),
            Step::Compact => {
                storage.compact(None).unwrap();
                is_compacted = true;
            }
            Step::Reopen => {
                storage.close().unwrap();
                drop(storage);
                storage = open_indexed(&folder.0, mode, &indexes);
            }
            Step::Crash | Step::CrashInFlush if mode != CommitMode::Group => continue,
            Step::Crash => {
                storage.abandon();
                storage = open_indexed(&folder.0, mode, &indexes);
            }
            Step::CrashInFlush => {
                let earlier = Folder::new("earlier");
                storage.abandon();
                for part in ["trees", "log"] {
                    copy_folder(&folder.0.join(part), &earlier.0.join(part));
                }
                storage = open_indexed(&folder.0, mode, &indexes);
                storage.flush(None).unwrap();
                storage.abandon();
                restore_tables(&earlier.0, &folder.0);
                // Nothing of it is let go before the table is flushed.
                fs::remove_dir_all(folder.0.join("log")).unwrap();
                copy_folder(&earlier.0.join("log"), &folder.0.join("log"));
                storage = open_indexed(&folder.0, mode, &indexes);
            }
            Step::Truncate => storage.truncate(TABLE).unwrap(),
            Step::Rebuild(number) => {
                storage.drop_index(TABLE, indexes[number].id);
                // An id is never used twice.
                indexes[number].id.0 += 0x1000;
                storage.create_index(&table(&indexes), &indexes[number]).unwrap();
            }
        }
        check_indexes(&storage, is_compacted);
        check_lookups(&storage, &indexes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    #[test]
    fn indexes_equal_their_table(steps in prop::collection::vec(step(), 1..20)) {
        run(steps, CommitMode::Group);
    }

    #[test]
    fn indexes_equal_their_table_in_periodic_mode(steps in prop::collection::vec(step(), 1..20)) {
        run(steps, CommitMode::PERIODIC);
    }
}

fn put(number: i32, value: &str, timestamp_us: i64) -> Mutation {
    let mut key = Vec::new();
    PartitionKey::push_component(&mut key, &number.to_be_bytes());
    PartitionKey::push_component(&mut key, b"q");
    let cell = CellChange {
        column: VALUE,
        timestamp_us,
        action: CellAction::Set {
            path: None,
            value: Bytes::copy_from_slice(value.as_bytes()),
            expiry: None,
        },
    };
    let change = RowChange {
        position: RowPosition::Clustered(clustering_of(0, 0)),
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells: vec![cell],
    };
    Mutation {
        table_version: 0,
        now_s: None,
        table: TABLE,
        key: PartitionKey::new(Bytes::from(key)),
        condition: None,
        operations: vec![Operation::Row(change)],
    }
}

fn by_value(index: &Index, value: &str) -> types::ReadCommand {
    let mut command = everything();
    command.index = Some(IndexQuestion {
        index: index.id,
        value: Bytes::copy_from_slice(value.as_bytes()),
        entry_value: None,
    });
    command
}

/// An index on rows that are there, while others write, with a crash in the middle of the build.
#[test]
fn a_build_goes_on_after_a_crash_and_misses_no_write() {
    const ROWS: i32 = 20_000;
    let folder = Folder::new("build");
    let storage = open_indexed(&folder.0, CommitMode::Group, &[]);
    let change = |from: i32, count: i32, value: &str, timestamp_us: i64| {
        (from..from + count).map(|n| (SET, put(n, value, timestamp_us))).collect::<Vec<_>>()
    };
    for from in (0..ROWS).step_by(500) {
        storage.commit(change(from, 500, "old", 1)).wait().unwrap();
    }
    storage.flush(None).unwrap();
    let index = indexes().remove(3);
    let defined = std::slice::from_ref(&index);
    storage.create_index(&table(defined), &index).unwrap();
    // While it is built: the first half is written again, and the noted position is flushed.
    for from in (0..ROWS / 2).step_by(500) {
        storage.commit(change(from, 500, "new", 2)).wait().unwrap();
    }
    storage.flush(None).unwrap();
    storage.abandon();
    let storage = open_indexed(&folder.0, CommitMode::Group, defined);
    wait_built(&storage);
    let seen = |storage: &Storage, value: &str| read_all(storage, &by_value(&index, value)).len();
    for comparison in storage.compare_indexes(TABLE).unwrap() {
        assert!(comparison.is_exact(), "{comparison:?}");
        assert_eq!(comparison.entry_count, ROWS as u64);
    }
    assert_eq!((seen(&storage, "old"), seen(&storage, "new")), (10_000, 10_000));
    // What is built stays so.
    storage.close().unwrap();
    drop(storage);
    let storage = open_indexed(&folder.0, CommitMode::Group, defined);
    assert!(storage.index_builds().iter().all(|build| build.is_built && build.share == 1.0));
    assert_eq!(seen(&storage, "new"), 10_000);
}

/// An index whose files are damaged answers no more, and is built anew.
#[test]
fn a_damaged_index_is_built_anew() {
    let folder = Folder::new("damaged");
    let index = indexes().remove(3);
    let defined = std::slice::from_ref(&index);
    let storage = open_indexed(&folder.0, CommitMode::Group, defined);
    let change = (0..2_000).map(|number| (SET, put(number, "v", 1)));
    storage.commit(change).wait().unwrap();
    storage.flush(None).unwrap();
    storage.close().unwrap();
    drop(storage);
    let tree = fs::read_dir(folder.0.join("trees")).unwrap().next().unwrap().unwrap().path();
    let files = tree.join(format!("index-{:032x}", index.id.0)).join("tables");
    for file in fs::read_dir(files).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        for byte in bytes.iter_mut().skip(50_000).take(2_000) {
            *byte ^= 0x55;
        }
        fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
    }
    let storage = open_indexed(&folder.0, CommitMode::Group, defined);
    let mut sink = Remember::default();
    assert!(storage.read(SET, &by_value(&index, "v"), &mut sink).is_err());
    assert_eq!(read_all(&storage, &by_value(&index, "v")).len(), 2_000, "by a scan");
    assert!(storage.statistics().damaged.is_empty(), "the table is whole");
    // Without a restart, and under writes.
    storage.commit(vec![(SET, put(2_000, "v", 1))]).wait().unwrap();
    wait_built(&storage);
    for _ in 0..2 {
        check_indexes(&storage, false);
        assert_eq!(storage.compare_indexes(TABLE).unwrap()[0].entry_count, 2_001);
        assert_eq!(read_all(&storage, &by_value(&index, "v")).len(), 2_001);
        storage.compact(None).unwrap();
    }
    storage.close().unwrap();
    drop(storage);
    let storage = open_indexed(&folder.0, CommitMode::Group, defined);
    assert!(storage.index_builds().iter().all(|build| build.is_built));
    check_indexes(&storage, false);
    let left = fs::read_dir(tree).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("index-")).collect();
    assert_eq!(left.len(), 1, "the damaged one is gone: {left:?}");
}

/// One partition of more rows than a deletion takes from the indexes at once.
const MANY_ROWS: i32 = 3_000;

/// Waits until what a deletion of very many rows left behind is gone.
fn wait_exact(storage: &Storage) {
    for _ in 0..1_500 {
        if storage.compare_indexes(TABLE).unwrap().iter().all(|it| it.is_exact()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    check_indexes(storage, false);
}

fn row_of_many(row: i32, value: &str, timestamp_us: i64) -> Mutation {
    let mut mutation = put(1, value, timestamp_us);
    for operation in &mut mutation.operations {
        if let Operation::Row(change) = operation {
            change.position = RowPosition::Clustered(clustering_of(0, row));
        }
    }
    mutation
}

/// A deletion of very many rows takes their entries away in steps. Whatever happens between, in the
/// end indexes and table say the same, and answers are right all the time.
#[test]
fn a_deletion_of_very_many_rows_leaves_no_entries() {
    for crashes in [false, true] {
        let folder = Folder::new("many");
        let defined = [3, 1, 0].map(|number| indexes().remove(number));
        let by_v = &defined[0];
        let storage = open_indexed(&folder.0, CommitMode::Group, &defined);
        for first in (0..MANY_ROWS).step_by(500) {
            let rows = first..first + 500;
            let change: Vec<_> = rows.map(|row| (SET, row_of_many(row, "old", 1))).collect();
            storage.commit(change).wait().unwrap();
        }
        let deletion = Deletion { timestamp_us: 10, deleted_at_s: NOW_S };
        let mut delete = put(1, "", 0);
        delete.operations = vec![Operation::DeletePartition(deletion)];
        storage.commit(vec![(SET, delete.clone())]).wait().unwrap();
        assert_eq!(read_all(&storage, &by_value(by_v, "old")).len(), 0);
        // Rows come back over dead ones: with the same value, with another one, and go again.
        for row in (0..MANY_ROWS).step_by(3) {
            let value = if row % 2 == 0 { "old" } else { "new" };
            storage.commit(vec![(SET, row_of_many(row, value, 20))]).wait().unwrap();
        }
        let mut delete_row = row_of_many(6, "", 0);
        if let Some(Operation::Row(change)) = delete_row.operations.first_mut() {
            change.cells.clear();
            change.deletion = Some(Deletion { timestamp_us: 30, deleted_at_s: NOW_S });
        }
        storage.commit(vec![(SET, delete_row)]).wait().unwrap();
        let storage = match crashes {
            true => {
                storage.flush(None).unwrap();
                storage.abandon();
                open_indexed(&folder.0, CommitMode::Group, &defined)
            }
            false => storage,
        };
        assert_eq!(read_all(&storage, &by_value(by_v, "old")).len(), 499);
        assert_eq!(read_all(&storage, &by_value(by_v, "new")).len(), 500);
        wait_exact(&storage);
        let comparisons = storage.compare_indexes(TABLE).unwrap();
        assert!(comparisons.iter().all(|it| it.entry_count == 999), "{comparisons:?}");
        // Once more, with other timestamps: nothing was noted for good.
        delete.operations =
            vec![Operation::DeletePartition(Deletion { timestamp_us: 40, deleted_at_s: NOW_S })];
        storage.commit(vec![(SET, delete)]).wait().unwrap();
        wait_exact(&storage);
        assert_eq!(storage.compare_indexes(TABLE).unwrap()[0].entry_count, 0);
    }
}

/// A dropped index leaves no files, nor does one that a crash kept from being removed.
#[test]
fn dropped_indexes_leave_nothing() {
    let folder = Folder::new("dropped");
    let index = indexes().remove(3);
    let defined = std::slice::from_ref(&index);
    let storage = open_indexed(&folder.0, CommitMode::Group, defined);
    storage.commit(vec![(SET, put(1, "v", 1))]).wait().unwrap();
    storage.flush(None).unwrap();
    let tree = fs::read_dir(folder.0.join("trees")).unwrap().next().unwrap().unwrap().path();
    let files = tree.join(format!("index-{:032x}", index.id.0));
    assert!(files.exists());
    storage.drop_index(TABLE, index.id);
    assert!(!files.exists());
    assert_eq!(read_all(&storage, &by_value(&index, "v")).len(), 1, "by a scan");
    storage.create_index(&table(defined), &index).unwrap();
    wait_built(&storage);
    storage.flush(None).unwrap();
    storage.abandon();
    assert!(files.exists());
    let storage = open_indexed(&folder.0, CommitMode::Group, &[]);
    assert_eq!(read_all(&storage, &everything()).len(), 1);
    assert!(!files.exists());
}

/// Rows change places under an index in one mutation: a lookup sees all of it or nothing.
#[test]
fn a_lookup_sees_a_mutation_as_a_whole() {
    let folder = Folder::new("whole");
    let index = indexes().remove(3);
    let storage = open_indexed(&folder.0, CommitMode::PERIODIC, std::slice::from_ref(&index));
    let swap = |round: i64| {
        let mut mutation = put(1, if round % 2 == 0 { "a" } else { "b" }, round);
        let mut other = put(1, if round % 2 == 0 { "b" } else { "a" }, round);
        if let Operation::Row(change) = &mut other.operations[0] {
            change.position = RowPosition::Clustered(clustering_of(1, 0));
        }
        mutation.operations.append(&mut other.operations);
        mutation
    };
    storage.commit(vec![(SET, swap(0))]).wait().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..3_000 {
                storage.commit(vec![(SET, swap(round))]).wait().unwrap();
            }
        });
        // Also when it fails.
        while !writer.is_finished() {
            let is_a = |row: &SeenRow| row.cells.iter().any(|cell| cell.3 == b"a");
            let rows = read_all(&storage, &by_value(&index, "a"));
            assert_eq!(rows.iter().filter(|row| is_a(row)).count(), 1);
        }
    });
}
