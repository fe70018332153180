//! Hosts over real storage, in one thread: what is on its way, what time it is and what is on the disk is in the test's hands. Nodes
//! that a fleet does not have are played by the test.

mod batches;
mod between;
mod broken;
mod doubts;
mod driving;
mod members;
mod splits;
mod transfers;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use raft::eraftpb::{Message, MessageType};
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use storage::{Clock, Configuration, DataDir, Driver, Options, RequestId, SchemaSource, Split};
use types::{
    CellAction, CellChange, CellState, ColumnId, CorruptRow, CqlType, Deletion, Flow, LiveRow,
    Mutation, Operation, PartitionKey, ReadCommand, ReadScope, RingToken, RowChange, RowPosition,
    RowSelection, RowSink, Statics, TableId,
};

use super::*;
use crate::group::{PeerMessage, TICK_MS};

const SET: SetId = SetId(1);
const RIGHT: SetId = SetId(2);
const COUNTERS: TableId = TableId(0xa2);
const OTHERS: TableId = TableId(0xa3);
const VALUE: ColumnId = ColumnId(1);
/// When everything begins.
const EPOCH_S: u32 = 1_000_000;
/// What is dead stays for so long.
const RETENTION_S: u32 = 4;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helenus-hosts-{}-{number}", std::process::id());
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

/// The second of a node's own clock.
struct Seconds(AtomicU32);

impl Clock for Seconds {
    fn now_s(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.now_s().into())
    }
}

/// A table of counters and one of values; the second one loses its column in a later version.
struct Tables {
    version: Arc<AtomicU32>,
}

impl SchemaSource for Tables {
    fn table(&self, id: TableId) -> Option<Arc<Table>> {
        let is_counter = id == COUNTERS;
        let version = if is_counter { 0 } else { self.version.load(Ordering::Relaxed) };
        let column = |id, name: &str, cql_type, kind| Column {
            id,
            name: name.into(),
            cql_type,
            kind,
            mask: None,
            is_hidden: false,
        };
        let value = if is_counter { CqlType::Counter } else { CqlType::BigInt };
        let mut columns = vec![
            column(ColumnId(100), "k", CqlType::Blob, ColumnKind::PartitionKey),
            column(VALUE, "v", value, ColumnKind::Regular),
        ];
        if version > 0 {
            columns[1] = column(ColumnId(2), "w", CqlType::BigInt, ColumnKind::Regular);
        }
        (is_counter || id == OTHERS).then(|| {
            Arc::new(Table {
                id,
                version: version.into(),
                keyspace: "k".into(),
                name: if is_counter { "counters".into() } else { "others".into() },
                columns,
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
            })
        })
    }
}

/// Which set holds what of which table, as the test says: not before it is told, and only what is known.
#[derive(Clone, Default)]
struct SharedMap(Arc<Mutex<(u64, Vec<Held>)>>);

/// Of which table, which part of the ring, by which set.
type Held = (TableId, RingRange, SetId);

impl RingMap for SharedMap {
    fn version(&self) -> u64 {
        self.0.lock().0
    }

    fn locate(&self, table: TableId, ring: RingToken) -> Option<SetId> {
        let map = self.0.lock();
        let mut found =
            map.1.iter().filter(|(known, range, _)| *known == table && range.contains(ring));
        found.next().map(|(_, _, set)| *set)
    }
}

struct Machine {
    folder: Folder,
    seconds: Arc<Seconds>,
    version: Arc<AtomicU32>,
    boots: u64,
    running: Option<(Arc<Storage>, Host)>,
}

/// Nodes 1 to so many.
struct Fleet {
    machines: Vec<Machine>,
    options: HostOptions,
    map: SharedMap,
    now_ms: u64,
    on_their_way: VecDeque<(NodeId, NodeId, NodeMessage)>,
    /// What was said to nodes that the fleet does not have.
    said: Vec<(NodeId, NodeId, NodeMessage)>,
    /// What is lost on its way: from whom, to whom, what.
    loses: fn(NodeId, NodeId, &NodeMessage) -> bool,
    /// Nodes whose disks do nothing for now.
    slow_disks: Vec<NodeId>,
    next_request: u128,
}

fn replica_on(node: NodeId) -> ReplicaId {
    ReplicaId(node.0 * 10)
}

/// The set's members are on nodes 1 to so many, and it holds everything.
fn born(set: SetId, node: NodeId, count: u64) -> GroupState {
    let nodes = (1..=count).map(NodeId);
    let configuration = Configuration::of_voters(nodes.map(|it| (replica_on(it), it)));
    let state = GroupState::born(set, replica_on(node), configuration);
    GroupState { range: Some(RingRange::FULL), ..state }
}

impl Fleet {
    fn new(count: u64) -> Fleet {
        Fleet::with(count, HostOptions::default())
    }

    fn with(count: u64, options: HostOptions) -> Fleet {
        let machine = |_| Machine {
            folder: Folder::new(),
            seconds: Arc::new(Seconds(AtomicU32::new(EPOCH_S))),
            version: Arc::default(),
            boots: 0,
            running: None,
        };
        let mut fleet = Fleet {
            machines: (0..count).map(machine).collect(),
            options,
            map: SharedMap::default(),
            now_ms: 0,
            on_their_way: VecDeque::new(),
            said: Vec::new(),
            loses: |_, _, _| false,
            slow_disks: Vec::new(),
            next_request: 0,
        };
        let everything = [COUNTERS, OTHERS].map(|table| (table, RingRange::FULL, SET));
        *fleet.map.0.lock() = (1, everything.to_vec());
        fleet.nodes().into_iter().for_each(|node| fleet.start(node));
        fleet
    }

    /// With a set that has a member on every node, and a leader.
    fn led(count: u64) -> (Fleet, NodeId) {
        let mut fleet = Fleet::new(count);
        fleet.begin(SET, count);
        fleet.tick(20);
        let leader = fleet.leader(SET).expect("somebody leads");
        (fleet, leader)
    }

    fn nodes(&self) -> Vec<NodeId> {
        (1..=self.machines.len() as u64).map(NodeId).collect()
    }

    fn machine(&mut self, node: NodeId) -> &mut Machine {
        &mut self.machines[node.0 as usize - 1]
    }

    fn host(&mut self, node: NodeId) -> &mut Host {
        &mut self.machine(node).running.as_mut().unwrap().1
    }

    fn storage(&self, node: NodeId) -> &Arc<Storage> {
        &self.machines[node.0 as usize - 1].running.as_ref().unwrap().0
    }

    fn now(&self) -> Now {
        let us = i64::from(EPOCH_S) * 1_000_000 + self.now_ms as i64 * 1_000;
        Now { ms: self.now_ms, clock_us: us }
    }

    fn start(&mut self, node: NodeId) {
        let (now, map, mut options, nodes) =
            (self.now(), self.map.clone(), self.options, self.nodes());
        let machine = self.machine(node);
        machine.boots += 1;
        options.seed = node.0 << 32 | machine.boots;
        let settings = Options {
            driver: Driver::Steps,
            segment_bytes: 256 * 1024,
            tombstone_retention_s: RETENTION_S,
            ..Options::default()
        };
        let dir = DataDir::lock(&machine.folder.0).unwrap();
        let clock = Arc::clone(&machine.seconds) as Arc<dyn Clock>;
        let tables = Arc::new(Tables { version: Arc::clone(&machine.version) });
        let storage = Arc::new(Storage::open(dir, settings, tables, clock).unwrap());
        let located = map.clone();
        storage.locate_with(move |table, ring| located.locate(table, ring));
        let wake = Arc::new(|| ());
        let mut host = Host::open(node, Arc::clone(&storage), options, now, wake).unwrap();
        host.set_ranges(Box::new(|_| Some((vec![COUNTERS, OTHERS], RingRange::FULL))));
        host.set_map(Box::new(map));
        nodes.iter().filter(|it| **it != node).for_each(|it| assert!(host.meet(*it)));
        machine.running = Some((storage, host));
    }

    /// Ends a node at once: what is not on its disk is lost.
    fn stop(&mut self, node: NodeId) {
        let (storage, host) = self.machine(node).running.take().unwrap();
        drop(host);
        Arc::into_inner(storage).expect("the host had the only other handle").abandon();
        self.on_their_way.retain(|(from, to, _)| *from != node && *to != node);
        for other in self.nodes() {
            if self.machine(other).running.is_some() {
                self.host(other).link_broke(node);
            }
        }
    }

    fn restart(&mut self, node: NodeId) {
        self.stop(node);
        self.start(node);
    }

    /// A set begins, with members on nodes 1 to so many.
    fn begin(&mut self, set: SetId, count: u64) {
        for node in self.nodes().into_iter().filter(|node| node.0 <= count) {
            self.host(node).begin(born(set, node, count)).unwrap();
        }
    }

    /// A node does what it can, and its disk writes.
    fn turn(&mut self, node: NodeId) {
        if self.machine(node).running.is_none() {
            return;
        }
        let is_slow = self.slow_disks.contains(&node);
        loop {
            let sent = self.host(node).turn();
            let storage = self.storage(node);
            let synced = storage.synced_position();
            if !is_slow {
                storage.step_log();
            }
            let is_over = sent.is_empty() && storage.synced_position() == synced;
            self.send(node, sent);
            if is_over {
                return;
            }
        }
    }

    fn send(&mut self, from: NodeId, sent: Vec<(NodeId, NodeMessage)>) {
        for (to, message) in sent {
            if (self.loses)(from, to, &message) {
                continue;
            }
            match to.0 as usize <= self.machines.len() {
                true => self.on_their_way.push_back((from, to, message)),
                false => self.said.push((from, to, message)),
            }
        }
    }

    /// Until nothing is on its way.
    fn settle(&mut self) {
        self.nodes().into_iter().for_each(|node| self.turn(node));
        while let Some((from, to, message)) = self.on_their_way.pop_front() {
            if self.machine(to).running.is_some() {
                self.host(to).receive(from, message);
                self.turn(to);
            }
        }
    }

    fn tick(&mut self, count: usize) {
        for _ in 0..count {
            self.now_ms += TICK_MS;
            let now = self.now();
            for node in self.nodes() {
                if self.machine(node).running.is_some() {
                    self.host(node).set_now(now);
                    self.host(node).tick();
                }
            }
            self.settle();
        }
    }

    /// So many seconds pass at once, as if nobody had looked.
    fn pass(&mut self, seconds: u32) {
        self.now_ms += u64::from(seconds) * 1_000;
        for machine in &self.machines {
            machine.seconds.0.fetch_add(seconds, Ordering::Relaxed);
        }
    }

    /// A node that the fleet does not have says something.
    fn hear(&mut self, node: NodeId, from: NodeId, message: NodeMessage) {
        self.host(node).receive(from, message);
        self.settle();
    }

    /// Such a node is connected, and its log holds so much.
    fn connect(&mut self, node: NodeId, from: NodeId, synced: u64) {
        self.host(node).link_broke(from);
        self.hear(node, from, NodeMessage::Standing { synced, start: None });
        let ping = NodeMessage::Ping { clock_us: self.now().clock_us, shown: 1 };
        self.hear(node, from, ping);
    }

    fn leader(&mut self, set: SetId) -> Option<NodeId> {
        let nodes = self.nodes();
        let leads =
            |it: &NodeId| self.machine(*it).running.is_some() && self.host(*it).core.leads(set);
        nodes.into_iter().find(leads)
    }

    fn status(&mut self, node: NodeId, set: SetId) -> MemberStatus {
        self.host(node).core.status_of(set).unwrap()
    }

    fn request(&mut self, mutations: Vec<Mutation>) -> Request {
        self.next_request += 1;
        Request {
            id: Some(RequestId(self.next_request)),
            not_after_s: u32::MAX,
            timed_us: None,
            truncates: None,
            splits: None,
            mutations,
            step: None,
        }
    }

    /// Asks the member of a node, which is to lead.
    fn ask(&mut self, node: NodeId, set: SetId, request: Request) -> Answered {
        let answered = Answered::default();
        let told = Arc::clone(&answered.0);
        let body = request.to_bytes();
        let done = Box::new(move |answer| *told.lock() = Some(answer));
        self.host(node).write(set, (request, body), done);
        self.settle();
        answered
    }

    fn add(&mut self, node: NodeId, set: SetId, key: u8, amount: i64) {
        let request = self.request(vec![add(key, amount)]);
        let answered = self.ask(node, set, request);
        assert!(answered.is_done(), "{answered:?}");
    }

    fn split(&mut self, right: SetId, at: RingToken) -> Request {
        let split = Split { right, at, whole: RingRange::FULL, tables: Vec::new() };
        Request { splits: Some(Box::new(split)), ..self.request(Vec::new()) }
    }

    fn read(&self, node: NodeId, set: SetId, key: u8) -> Option<i64> {
        self.read_of(node, set, COUNTERS, key)
    }

    fn read_of(&self, node: NodeId, set: SetId, table: TableId, key: u8) -> Option<i64> {
        let mut seen = Seen::default();
        let command = ReadCommand {
            table,
            scope: ReadScope::Partition(partition(key)),
            rows: RowSelection::All,
            index: None,
            reversed: false,
            statics: Statics::AttachOrAlone,
            hidden: Vec::new(),
            columns: None,
            after: None,
            now_s: EPOCH_S,
        };
        self.storage(node).read(set, &command, &mut seen).unwrap();
        seen.0
    }
}

#[derive(Clone, Debug, Default)]
struct Answered(Arc<Mutex<Option<ProposalAnswer>>>);

impl Answered {
    fn is_done(&self) -> bool {
        matches!(&*self.0.lock(), Some(ProposalAnswer::Done(Ok(_))))
    }

    fn is_busy(&self) -> bool {
        matches!(&*self.0.lock(), Some(ProposalAnswer::Busy))
    }

    fn is_none(&self) -> bool {
        self.0.lock().is_none()
    }
}

fn partition(key: u8) -> PartitionKey {
    PartitionKey::new(Bytes::from(vec![key]))
}

fn ring(key: u8) -> RingToken {
    partition(key).ring()
}

/// Two keys, in the order of the ring.
fn two_keys() -> (u8, u8) {
    if ring(1) < ring(2) { (1, 2) } else { (2, 1) }
}

fn mutation(table: TableId, key: u8, operation: Operation) -> Mutation {
    Mutation {
        table,
        table_version: 0,
        key: partition(key),
        now_s: None,
        condition: None,
        operations: vec![operation],
    }
}

fn row(timestamp_us: i64, action: CellAction) -> Operation {
    Operation::Row(RowChange {
        position: RowPosition::Clustered(Bytes::new()),
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells: vec![CellChange { column: VALUE, timestamp_us, action }],
    })
}

fn add(key: u8, amount: i64) -> Mutation {
    mutation(COUNTERS, key, row(1, CellAction::CounterAdd(amount)))
}

fn put(key: u8, timestamp_us: i64, value: i64) -> Mutation {
    let value = Bytes::copy_from_slice(&value.to_be_bytes());
    let action = CellAction::Set { path: None, value, expiry: None };
    mutation(OTHERS, key, row(timestamp_us, action))
}

fn delete(table: TableId, key: u8, timestamp_us: i64) -> Mutation {
    let deletion = Deletion { timestamp_us, deleted_at_s: EPOCH_S };
    mutation(table, key, Operation::DeletePartition(deletion))
}

#[derive(Default)]
struct Seen(Option<i64>);

impl RowSink for Seen {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        for cell in row.row.into_iter().flat_map(|row| row.cells()) {
            if let CellState::Value { value, .. } = cell?.state {
                let bytes = value.last_chunk::<8>().copied().unwrap();
                self.0 = Some(i64::from_be_bytes(bytes));
            }
        }
        Ok(Flow::Continue)
    }
}

/// What a member on one node says to that on another, as consensus sends it.
fn consensus(
    set: SetId,
    kind: MessageType,
    (from, to, term): (ReplicaId, ReplicaId, u64),
    change: impl FnOnce(&mut Message),
) -> NodeMessage {
    let mut message = Message { from: from.0, to: to.0, term, ..Message::default() };
    message.set_msg_type(kind);
    change(&mut message);
    NodeMessage::Consensus(PeerMessage { set, message })
}

/// The kinds of what consensus said of a set to a node.
fn kinds_said(fleet: &Fleet, to: NodeId, set: SetId) -> Vec<(MessageType, bool)> {
    let of_set = |(_, node, message): &(NodeId, NodeId, NodeMessage)| match message {
        NodeMessage::Consensus(it) if *node == to && it.set == set => {
            Some((it.message.get_msg_type(), it.message.reject))
        }
        _ => None,
    };
    fleet.said.iter().filter_map(of_set).collect()
}
