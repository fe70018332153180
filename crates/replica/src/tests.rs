//! Sets over real storage: what is read and committed through them, and what they hold.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use storage::{Clock, DataDir, Options, SchemaSource};
use types::{
    CellAction, CellChange, ColumnId, CorruptRow, CqlType, Flow, LiveRow, Liveness, Operation,
    RowChange, RowPosition, RowSelection, Statics,
};

use super::*;

const TABLE: TableId = TableId(0xab);
const OLD: SetId = SetId(1);
const VALUE_BYTES: usize = 100;

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helenus-replica-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Still;

impl Clock for Still {
    fn now_s(&self) -> u32 {
        1_000
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

struct OneTable(Arc<Table>);

impl SchemaSource for OneTable {
    fn table(&self, id: TableId) -> Option<Arc<Table>> {
        (id == self.0.id).then(|| Arc::clone(&self.0))
    }
}

fn table() -> Table {
    let column = |id, name: &str, kind| Column {
        id: ColumnId(id),
        name: name.into(),
        cql_type: CqlType::Blob,
        kind,
        mask: None,
        is_hidden: false,
    };
    Table {
        id: TABLE,
        version: 0,
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column(100, "k", ColumnKind::PartitionKey),
            column(101, "c", ColumnKind::Clustering { descending: false }),
            column(1, "v", ColumnKind::Regular),
        ],
        partition_key_count: 1,
        clustering_count: 1,
        static_count: 0,
        shape: TableShape::Ordinary,
        is_counter: false,
        is_virtual: false,
        options: TableOptions::default(),
        indexes: Default::default(),
        dropped_columns: Default::default(),
        next_column_id: 200,
    }
}

/// A node with one table, and its sets.
struct Node {
    sets: ReplicaSets,
    store: NodeStore,
    _folder: Folder,
}

fn node() -> Node {
    let folder = Folder::new();
    let dir = DataDir::lock(&folder.0).unwrap();
    let source = Arc::new(OneTable(Arc::new(table())));
    let options = Options { weigh: Some(weigh), ..Options::default() };
    let storage = Arc::new(Storage::open(dir, options, source, Arc::new(Still)).unwrap());
    let store = NodeStore::new(Arc::clone(&storage));
    store.create_table(&table());
    let sets = ReplicaSets::new(storage, Arc::new(Budgets::new(|| 0)));
    Node { sets, store, _folder: folder }
}

fn key(number: u8) -> PartitionKey {
    PartitionKey::new(Bytes::from(vec![number]))
}

fn put(key: PartitionKey, at_us: i64) -> Mutation {
    let value = Bytes::from(vec![7; VALUE_BYTES]);
    let action = CellAction::Set { path: None, value, expiry: None };
    Mutation {
        table: TABLE,
        table_version: 0,
        now_s: None,
        key,
        condition: None,
        operations: vec![Operation::Row(RowChange {
            position: RowPosition::Clustered(Bytes::from_static(b"c")),
            original_clustering: None,
            liveness: Some(Liveness { timestamp_us: at_us, expiry: None }),
            deletion: None,
            cells: vec![CellChange { column: ColumnId(1), timestamp_us: at_us, action }],
        })],
    }
}

fn commit(sets: &ReplicaSets, set: SetId, mutation: Mutation) -> CommitResult {
    sets.commit_many([(set, mutation)], Atomicity::All, None, None, None, WithoutRoom::Waits).wait()
}

#[derive(Default)]
struct Keys(Vec<Vec<u8>>);

impl RowSink for Keys {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        self.0.push(row.partition_key.to_vec());
        Ok(Flow::Continue)
    }
}

fn command(scope: ReadScope) -> ReadCommand {
    ReadCommand {
        table: TABLE,
        scope,
        rows: RowSelection::All,
        index: None,
        reversed: false,
        statics: Statics::Skip,
        hidden: Vec::new(),
        columns: None,
        after: None,
        now_s: 1_000,
    }
}

fn read(sets: &ReplicaSets, partition: PhysicalPartition, scope: ReadScope) -> Vec<Vec<u8>> {
    let mut keys = Keys::default();
    sets.read(partition, &command(scope), Reach::default(), &mut keys).unwrap();
    keys.0
}

/// The ring in two, between the keys `one` and `other`, as the sets 2 and 3 would hold it.
fn halves(at: RingToken) -> [PhysicalPartition; 2] {
    let first = RingRange { start: RingToken(0), last: RingToken(at.0 - 1) };
    let second = RingRange { start: at, last: RingToken(u128::MAX) };
    [(2, first), (3, second)].map(|(set, range)| PhysicalPartition { set: SetId(set), range })
}

/// Two keys in the order of the ring.
fn two_keys() -> (PartitionKey, PartitionKey) {
    let (one, other) = (key(1), key(2));
    if one.ring() < other.ring() { (one, other) } else { (other, one) }
}

#[test]
fn keys_that_moved_are_handed_back_and_found_in_their_new_set() {
    let node = node();
    let (first, second) = two_keys();
    commit(&node.sets, OLD, put(first.clone(), 1)).unwrap();
    let [left, right] = halves(second.ring());
    let shown = Arc::new(AtomicU32::new(0));
    let (told, shows) = (Arc::clone(&shown), Arc::clone(&shown));
    let hand_over = move || assert_eq!(told.load(Ordering::SeqCst), 0, "shown before it was safe");
    node.sets.end_sets(&[OLD], hand_over, move || shows.store(1, Ordering::SeqCst)).unwrap();
    assert_eq!(shown.load(Ordering::SeqCst), 1);
    // Nothing of a change is done whose set has ended, also where another set of it goes on.
    let change = [(right.set, put(second.clone(), 2)), (OLD, put(first.clone(), 2))];
    let Committed::Moved(back) =
        node.sets.commit_many(change, Atomicity::All, None, None, None, WithoutRoom::Waits)
    else {
        panic!("an ended set took a change");
    };
    let sets: Vec<SetId> = back.iter().map(|(set, _)| *set).collect();
    assert_eq!(sets, [right.set, OLD]);
    assert_eq!(read(&node.sets, right, ReadScope::Ring(right.range)), Vec::<Vec<u8>>::new());
    // What was written before the split is read through the new set.
    assert_eq!(
        read(&node.sets, left, ReadScope::Partition(first.clone())),
        [first.bytes().to_vec()]
    );
    commit(&node.sets, right.set, put(second.clone(), 3)).unwrap();
    assert_eq!(read(&node.sets, right, ReadScope::Ring(right.range)), [second.bytes().to_vec()]);
    assert_eq!(read(&node.sets, left, ReadScope::Ring(left.range)), [first.bytes().to_vec()]);
}

#[test]
fn a_set_is_only_asked_for_its_own_keys() {
    let (first, second) = two_keys();
    let [left, right] = halves(second.ring());
    let is_held = |partition, scope| is_held(partition, &command(scope));
    assert!(is_held(left, ReadScope::Partition(first.clone())));
    assert!(!is_held(right, ReadScope::Partition(first)));
    assert!(is_held(right, ReadScope::Partition(second)));
    assert!(is_held(left, ReadScope::Ring(left.range)));
    assert!(!is_held(left, ReadScope::Ring(RingRange::FULL)));
}

#[test]
fn what_a_table_holds_is_told_by_range_and_by_key() {
    let node = node();
    let (first, second) = two_keys();
    for key in [&first, &second] {
        commit(&node.sets, OLD, put(key.clone(), 1)).unwrap();
    }
    let parts = halves(second.ring()).map(|partition| partition.range);
    let sizes = node.sets.range_sizes(TABLE, parts);
    let rows: Vec<u64> = sizes.iter().map(|size| size.rows).collect();
    assert_eq!(rows, [1, 1]);
    assert!(sizes.iter().all(|size| size.bytes >= VALUE_BYTES as u64), "{sizes:?}");
    let known: Vec<RangeSize> =
        [&first, &second].map(|key| node.sets.logical_size(TABLE, key).unwrap()).to_vec();
    assert_eq!(known, sizes);
    assert_eq!(node.sets.logical_size(TABLE, &key(9)).map_or(0, |size| size.rows), 0);
    let mut largest: Vec<Vec<u8>> = node
        .sets
        .largest_partitions(TABLE, 10)
        .into_iter()
        .map(|large| large.key.bytes().to_vec())
        .collect();
    largest.sort();
    assert_eq!(largest, [vec![1], vec![2]]);
    let mut sum = 0;
    node.sets.range_weights(TABLE, RingRange::FULL, |_, bytes| sum += bytes);
    assert_eq!(sum, sizes.iter().map(|size| size.bytes).sum::<u64>());
    // A table that nobody knows holds nothing.
    assert_eq!(node.sets.range_sizes(TableId(1), [RingRange::FULL]), [RangeSize::default()]);
}

#[test]
fn a_write_is_charged_for_what_it_replaces_and_for_what_it_writes() {
    let node = node();
    let inserted = charge_of(&commit(&node.sets, OLD, put(key(1), 1)).unwrap());
    let replaced = charge_of(&commit(&node.sets, OLD, put(key(1), 2)).unwrap());
    assert!(inserted >= table::write(VALUE_BYTES as u64), "{inserted}");
    assert_eq!(replaced, inserted.times(2));
    assert_eq!(charge_of(&[]), Charge::ZERO);
    let weight = |touched| Charge::from_micros(weigh(touched));
    assert_eq!(weight(Touched::IndexTerms(3)), rules::INDEX_TERM.times(3));
    assert_eq!(weight(Touched::RangeDeletion), rules::RANGE_DELETION);
    assert_eq!(
        weight(Touched::Condition(None)),
        table::point_read(0).times(rules::STRONG_READ_TIMES)
    );
}

#[test]
fn the_node_keeps_documents_and_empties_tables() {
    let node = node();
    assert_eq!(node.store.load_document("schema").unwrap(), None);
    node.store.save_document("schema", b"one").unwrap();
    node.store.save_document("schema", b"two").unwrap();
    assert_eq!(node.store.load_document("schema").unwrap().as_deref(), Some(b"two".as_slice()));
    commit(&node.sets, OLD, put(key(1), 1)).unwrap();
    let whole = PhysicalPartition { set: OLD, range: RingRange::FULL };
    let facts = node.store.snapshot_tables("kept", &[TABLE], "a test").unwrap();
    assert!(facts.is_some());
    node.store.truncate(TABLE).unwrap();
    assert_eq!(read(&node.sets, whole, ReadScope::Ring(whole.range)), Vec::<Vec<u8>>::new());
    node.store.drop_table(TABLE).unwrap();
    assert_eq!(node.sets.range_sizes(TABLE, [RingRange::FULL]), [RangeSize::default()]);
}
