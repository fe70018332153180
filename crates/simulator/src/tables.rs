//! The tables of a simulation, what clients ask of them, and how an answer is read.

use std::sync::Arc;

use bytes::Bytes;
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use storage::{SchemaSource, Storage};
use types::travel::{PartBounds, ReadOn, ReadRequest, RowsPart, encode_read_request};
use types::value::timeuuid::{lower_half, timeuuid_at_micros};
use types::{
    CellAction, CellChange, CellState, Check, ColumnId, ColumnPart, Comparison, Condition,
    CorruptRow, CqlType, CurrentRow, Deletion, Flow, ListId, LiveRow, Liveness, Mutation,
    Operation, PartitionKey, ReadCommand, ReadScope, RingRange, RingToken, RowChange, RowCondition,
    RowPosition, RowSelection, RowSink, RowView, SetId, Statics, TableId,
};

use crate::clients::Told;

pub(crate) const REGISTERS: TableId = TableId(0xa1);
pub(crate) const COUNTERS: TableId = TableId(0xa2);
const LISTS: TableId = TableId(0xa3);
pub(crate) const TABLES: [TableId; 3] = [REGISTERS, COUNTERS, LISTS];
const VALUE: ColumnId = ColumnId(1);

fn table(id: TableId, name: &str, value: CqlType) -> Table {
    let is_counter = value == CqlType::Counter;
    let column = |id, name: &str, cql_type, kind| Column {
        id,
        name: name.into(),
        cql_type,
        kind,
        mask: None,
        is_hidden: false,
    };
    Table {
        id,
        version: 0,
        keyspace: "k".into(),
        name: name.into(),
        columns: vec![
            column(ColumnId(100), "k", CqlType::Blob, ColumnKind::PartitionKey),
            column(VALUE, "v", value, ColumnKind::Regular),
        ],
        partition_key_count: 1,
        clustering_count: 0,
        static_count: 0,
        shape: TableShape::Ordinary,
        is_counter,
        is_virtual: false,
        options: TableOptions::default(),
        indexes: Default::default(),
        dropped_columns: Default::default(),
        next_column_id: 200,
    }
}

/// The tables as every node knows them.
pub(crate) struct Tables(Vec<Arc<Table>>);

impl Tables {
    pub(crate) fn new() -> Tables {
        let list = CqlType::List { element: Arc::new(CqlType::BigInt), frozen: false };
        let tables = [
            table(REGISTERS, "registers", CqlType::BigInt),
            table(COUNTERS, "counters", CqlType::Counter),
            table(LISTS, "lists", list),
        ];
        Tables(tables.map(Arc::new).to_vec())
    }
}

impl SchemaSource for Tables {
    fn table(&self, id: TableId) -> Option<Arc<Table>> {
        self.0.iter().find(|table| table.id == id).cloned()
    }
}

/// Which logical partition: its number is its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u8);

/// Keys from here on are counters, up to lists.
pub(crate) const FIRST_COUNTER: u8 = 100;
/// Keys from here on are lists.
const FIRST_LIST: u8 = 200;
/// So many lists there are.
const LIST_COUNT: u8 = 2;

/// Keys from here on are written by batches alone: as many registers, and so many counters further on, as there are batches' groups.
const FIRST_OF_BATCHES: u8 = 40;
const FIRST_COUNTER_OF_BATCHES: u8 = 140;
/// So many groups of registers, and as many of counters, are written by batches.
pub(crate) const BATCH_GROUPS: u8 = 2;

/// The keys that batches write together, in several sets if there are several of them.
pub(crate) fn batch_keys(group: u8, is_counter: bool, set_count: usize) -> Vec<Key> {
    let first = if is_counter { FIRST_COUNTER_OF_BATCHES } else { FIRST_OF_BATCHES } + group * 20;
    let of_set = |wanted: usize| {
        let mut all = (first..first + 20).map(Key);
        all.find(|key| set_number(*key, set_count) == wanted).unwrap_or(Key(first))
    };
    let place = usize::from(group);
    let mut keys = vec![of_set(place % set_count), of_set((place + 1) % set_count)];
    // One more, wherever it lies.
    keys.push(Key(first + 19));
    keys.dedup();
    keys
}

/// Keys from here on are written alone and by batches, up to those that clients give times to.
const FIRST_SHARED: u8 = 80;
/// Keys from here on get their times from clients.
const FIRST_TIMED: u8 = 97;

/// A key of each set, as far as there are three, that is written alone and by batches.
pub(crate) fn shared_keys(set_count: usize) -> Vec<Key> {
    let of_set = |wanted: usize| {
        let mut all = (FIRST_SHARED..FIRST_TIMED).map(Key);
        all.find(|key| set_number(*key, set_count) == wanted)
    };
    let mut keys: Vec<Key> = (0..set_count).filter_map(of_set).collect();
    if keys.len() < 2 {
        keys.push(Key(FIRST_TIMED - 1));
    }
    keys.dedup();
    keys
}

/// Keys whose times clients give.
pub(crate) fn timed_keys() -> impl Iterator<Item = Key> {
    (FIRST_TIMED..FIRST_COUNTER).map(Key)
}

/// Lists that clients append to.
pub(crate) fn list_keys() -> impl Iterator<Item = Key> {
    (FIRST_LIST..FIRST_LIST + LIST_COUNT).map(Key)
}

impl Key {
    /// Whether clients give the times.
    pub(crate) fn is_timed_by_clients(self) -> bool {
        (FIRST_TIMED..FIRST_COUNTER).contains(&self.0)
    }

    pub(crate) fn is_counter(self) -> bool {
        (FIRST_COUNTER..FIRST_LIST).contains(&self.0)
    }

    pub(crate) fn is_list(self) -> bool {
        self.0 >= FIRST_LIST
    }

    pub(crate) fn table(self) -> TableId {
        match self.0 {
            FIRST_LIST.. => LISTS,
            FIRST_COUNTER.. => COUNTERS,
            _ => REGISTERS,
        }
    }

    pub(crate) fn partition(self) -> PartitionKey {
        PartitionKey::new(Bytes::from(vec![self.0]))
    }
}

/// The part of the ring that each of so many sets holds.
pub(crate) fn set_range(number: usize, count: usize) -> RingRange {
    let width = u128::MAX / count as u128;
    let last = if number + 1 == count { u128::MAX } else { (number as u128 + 1) * width - 1 };
    RingRange { start: RingToken(number as u128 * width), last: RingToken(last) }
}

/// Which of so many sets holds a key, before any was split.
fn set_number(key: Key, count: usize) -> usize {
    let ring = key.partition().ring();
    (0..count).find(|number| set_range(*number, count).contains(ring)).expect("the ring is covered")
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Write(i64),
    Delete,
    CompareAndSet {
        expected: Option<i64>,
        new: i64,
    },
    Add(i64),
    /// An element behind all others of a list.
    Append(i64),
}

/// The mutation for something other than a read.
pub(crate) fn mutation(key: Key, ask: Ask, timestamp_us: i64, now_s: u32) -> Mutation {
    let bytes = |value: i64| Bytes::copy_from_slice(&value.to_be_bytes());
    let set = |value| CellAction::Set { path: None, value: bytes(value), expiry: None };
    let mut change = RowChange {
        position: RowPosition::Clustered(Bytes::new()),
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us, expiry: None }),
        deletion: None,
        cells: Vec::new(),
    };
    let mut cell = |action| change.cells.push(CellChange { column: VALUE, timestamp_us, action });
    let mut condition = None;
    match ask {
        Ask::Read => {}
        Ask::Write(value) => cell(set(value)),
        Ask::Delete => {
            change.liveness = None;
            change.deletion = Some(Deletion { timestamp_us, deleted_at_s: now_s });
        }
        Ask::CompareAndSet { expected, new } => {
            cell(set(new));
            let check = Check::Column {
                column: VALUE,
                part: ColumnPart::Whole,
                operator: Comparison::Equal,
                values: vec![expected.map(bytes)],
            };
            let position = RowPosition::Clustered(Bytes::new());
            let rows = vec![RowCondition { position, checks: vec![check] }];
            condition = Some(Box::new(Condition { rows }));
        }
        Ask::Add(amount) => {
            change.liveness = None;
            cell(CellAction::CounterAdd(amount));
        }
        Ask::Append(element) => {
            // As a coordinator names it: by its time, and so that no two are called alike.
            let [_, _, own @ ..] = element.to_be_bytes();
            let id = ListId::back(timeuuid_at_micros(timestamp_us, lower_half(0, own)));
            let path = Some(Bytes::from(id.path()));
            cell(CellAction::Set { path, value: bytes(element), expiry: None });
        }
    }
    // A row that is its whole partition goes either way; of the two only deletions of partitions have to be swept.
    let operation = match change.deletion {
        Some(deletion) if timestamp_us % 2 == 0 => Operation::DeletePartition(deletion),
        _ => Operation::Row(change),
    };
    Mutation {
        table: key.table(),
        table_version: 0,
        key: key.partition(),
        now_s: None,
        condition,
        operations: vec![operation],
    }
}

fn number(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.last_chunk::<8>().copied().expect("values have eight bytes"))
}

/// The value in a row that a condition looked at.
pub(crate) fn current_value(rows: &[CurrentRow]) -> Option<i64> {
    let row = rows.first()?.row.as_ref()?;
    let view = RowView::decode(row).expect("a row that was answered is readable");
    let cell = view.cells().next()?.expect("a row that was answered is readable");
    match cell.state {
        CellState::Value { value, .. } => Some(number(value)),
        _ => None,
    }
}

/// The values of a row's cells, in their order.
#[derive(Default)]
struct Seen(Vec<i64>);

impl Seen {
    fn told(self, key: Key) -> Told {
        if key.is_list() { Told::List(self.0) } else { Told::Value(self.0.last().copied()) }
    }
}

impl RowSink for Seen {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        for cell in row.row.into_iter().flat_map(|row| row.cells()) {
            if let CellState::Value { value, .. } = cell?.state {
                self.0.push(number(value));
            }
        }
        Ok(Flow::Continue)
    }
}

/// What a node's member holds for a key.
pub(crate) fn read(storage: &Storage, set: SetId, key: Key, now_s: u32) -> Told {
    let found = [ReadScope::Partition(key.partition()), ring_of(key)].map(|scope| {
        let mut seen = Seen::default();
        let command = command(key, scope, now_s);
        storage.read(set, &command, &mut seen).expect("a simulated tree is readable");
        seen.told(key)
    });
    // A table has one row for each place of the ring. Who reads many rows sees what is shown to be whole; who reads one, the latest.
    let [of_key, of_ring] = found;
    assert_eq!(of_key, of_ring, "set {} is read alike by a key and by its ring", set.0);
    of_key
}

fn ring_of(key: Key) -> ReadScope {
    let ring = key.partition().ring();
    ReadScope::Ring(RingRange { start: ring, last: ring })
}

/// The same as a question to another node.
pub(crate) fn read_request(key: Key, now_s: u32) -> Bytes {
    let bounds =
        PartBounds { rows_max: 8, bytes_max: 4096, time_ms_max: 100, partition_rows_max: None };
    let mut body = Vec::new();
    encode_read_request(
        &ReadRequest { command: command(key, ring_of(key), now_s), bounds },
        &mut body,
    );
    Bytes::from(body)
}

/// What another node answered.
pub(crate) fn value_in(part: Bytes, key: Key, now_s: u32) -> Told {
    let part = RowsPart::decode(part).expect("what was encoded");
    let mut seen = Seen::default();
    let read_on =
        part.hand_to(&command(key, ring_of(key), now_s), &mut seen).expect("rows that were read");
    assert_eq!(read_on, ReadOn::Over, "one row is one part");
    seen.told(key)
}

fn command(key: Key, scope: ReadScope, now_s: u32) -> ReadCommand {
    ReadCommand {
        table: key.table(),
        scope,
        rows: RowSelection::All,
        index: None,
        reversed: false,
        statics: Statics::AttachOrAlone,
        hidden: Vec::new(),
        columns: None,
        after: None,
        now_s,
    }
}
