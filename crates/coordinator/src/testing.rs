//! What the tests of this room share: an executor and a catalog over real storage in a folder that goes with its test, and statements
//! as text.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use partition::PartitionMap;
use plan::{BatchLimits, BindContext, NoValues, SessionContext, UuidSource};
use replica::{Asking, Budgets, NodeStore, ReplicaSets, WithoutRoom};
use schema::{NodeFacts, Profile, Schema, SchemaEvent};
use storage::{Clock, DataDir, Options, SchemaSource, Storage};
use types::TableId;
use units::Work;
use units::budget::ClientId;
use units::price::Prices;

use crate::{
    Answer, Bounds, Catalog, ExecuteError, Executed, Executor, OutOfBounds, PagingSecret, Reply,
    RequestContext, Rows, Settings, World,
};

/// When tests happen: microseconds since the epoch.
const START_US: i64 = 1_700_000_000_000_000;

/// A folder that goes with its test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helenus-coordinator-{}-{number}", std::process::id());
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

struct Tables(Arc<ArcSwap<Schema>>);

impl SchemaSource for Tables {
    fn table(&self, id: TableId) -> Option<Arc<schema::Table>> {
        self.0.load().table_by_id(id).cloned()
    }
}

struct Still;

impl Clock for Still {
    fn now_s(&self) -> u32 {
        (START_US / 1_000_000) as u32
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// A world whose time is what the test says, a microsecond later with each look.
pub(crate) struct TestWorld {
    now_us: AtomicI64,
    ids: AtomicU64,
    /// What was told of changes of the schema.
    pub(crate) events: Mutex<Vec<SchemaEvent>>,
}

impl World for TestWorld {
    fn now_us(&self) -> i64 {
        self.now_us.fetch_add(1, Ordering::SeqCst)
    }

    fn fresh_id(&self) -> u128 {
        0x1000 + u128::from(self.ids.fetch_add(1, Ordering::SeqCst))
    }

    fn facts(&self, _with_clients: bool) -> NodeFacts {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        NodeFacts {
            host_id: 1,
            cluster_name: "test".into(),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            listen_address: address,
            listen_port: 7000,
            broadcast_address: address,
            broadcast_port: 7000,
            rpc_address: address,
            rpc_port: 9042,
            tokens: vec!["0".into()],
            release_version: "5.0.5".into(),
            cql_version: "3.4.7".into(),
            native_protocol_version: "5".into(),
            partitioner: String::new(),
            gossip_generation: 1,
            truncated_at: Default::default(),
            helenus_version: "0".into(),
            data_dir: String::new(),
            profile: "default".into(),
            started_at_ms: START_US / 1000,
            now_ms: START_US / 1000,
            settings: Vec::new(),
            clients: Vec::new(),
            view: Vec::new(),
            estimates: Vec::new(),
            partitions: Default::default(),
            index_builds: Vec::new(),
            units: Default::default(),
            auth: Default::default(),
            cluster: Default::default(),
            journal: Default::default(),
        }
    }

    fn on_schema_change(&self, event: &SchemaEvent) {
        self.events.lock().push(event.clone());
    }
}

impl UuidSource for TestWorld {
    fn time_uuid(&self) -> [u8; 16] {
        self.fresh_id().to_be_bytes()
    }

    fn random_uuid(&self) -> [u8; 16] {
        self.fresh_id().to_be_bytes()
    }
}

/// The keyspace of tests.
pub(crate) const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Enough of everything.
pub(crate) struct Boundless;

impl Bounds for Boundless {
    fn go_on(&self) -> Result<(), OutOfBounds> {
        Ok(())
    }

    fn grow(&self, _bytes: usize) -> Result<usize, OutOfBounds> {
        Ok(usize::MAX)
    }
}

/// A node without a server.
pub(crate) struct Node {
    pub(crate) executor: Executor,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) world: Arc<TestWorld>,
    storage: Arc<Storage>,
    folder: Folder,
}

/// What does not change, where a test does not say otherwise.
pub(crate) fn settings() -> Settings {
    Settings {
        data_center: "datacenter1".into(),
        physical_per_space: 1,
        profile: Profile::Default,
        limits: partition::BalanceLimits::default(),
        row_bytes_max: None,
        partition_key_bytes_max: None,
        logical_bytes_max: u64::MAX,
        prices: Prices::default(),
        saves_bursts: false,
        autoscales: false,
        counts_work: true,
        paging_secret: PagingSecret([7; 16]),
        auto_snapshot: false,
    }
}

impl Node {
    pub(crate) fn new(settings: Settings) -> Node {
        Node::open(Folder::new(), settings, START_US)
    }

    /// As after `kill -9`: nothing is flushed, and nobody is told.
    pub(crate) fn restarted(self) -> Node {
        let settings = self.catalog.settings.clone();
        let Node { executor, catalog, world, storage, folder } = self;
        let now_us = world.now_us();
        drop((executor, catalog));
        let Ok(storage) = Arc::try_unwrap(storage) else {
            panic!("somebody else holds the storage")
        };
        storage.abandon();
        Node::open(folder, settings, now_us)
    }

    fn open(folder: Folder, settings: Settings, now_us: i64) -> Node {
        let dir = DataDir::lock(&folder.0).unwrap();
        let system = schema::initial_schema();
        let kept = match dir.load_document(crate::SCHEMA_DOCUMENT).unwrap() {
            Some(bytes) => schema::persist::decode(&bytes, &system).unwrap(),
            None => system.with_fresh_version(),
        };
        let map = match dir.load_document(crate::PARTITIONS_DOCUMENT).unwrap() {
            Some(bytes) => PartitionMap::decode(&String::from_utf8(bytes).unwrap()).unwrap(),
            None => PartitionMap::default(),
        };
        let schema = Arc::new(ArcSwap::from_pointee(kept));
        let options = Options { weigh: Some(replica::weigh), ..Options::default() };
        let source = Arc::new(Tables(Arc::clone(&schema)));
        let storage = Arc::new(Storage::open(dir, options, source, Arc::new(Still)).unwrap());
        let replicas = ReplicaSets::new(Arc::clone(&storage), Arc::new(Budgets::new(|| 1)));
        let store = NodeStore::new(Arc::clone(&storage));
        let world = Arc::new(TestWorld {
            now_us: AtomicI64::new(now_us),
            ids: AtomicU64::new(0),
            events: Mutex::default(),
        });
        let outside = Arc::clone(&world) as Arc<dyn World>;
        let catalog = Catalog::open(replicas, store, schema, map, settings, outside, None).unwrap();
        let catalog = Arc::new(catalog);
        Node { executor: Executor::new(&catalog), catalog, world, storage, folder }
    }

    /// The names of snapshots.
    pub(crate) fn snapshots(&self) -> Vec<String> {
        let facts = storage::snapshots(&self.folder.0).unwrap();
        facts.into_iter().map(|facts| facts.name).collect()
    }

    /// Runs a statement to its end, and tells what it did.
    pub(crate) fn run_counted(&self, text: &str) -> (Result<Answer, ExecuteError>, Work) {
        let work = Cell::default();
        (self.run_page(text, None, None, &work), work.get())
    }

    pub(crate) fn run(&self, text: &str) -> Result<Answer, ExecuteError> {
        self.run_counted(text).0
    }

    /// Runs statements that must succeed.
    pub(crate) fn run_all(&self, texts: &[&str]) {
        for text in texts {
            self.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    pub(crate) fn run_page(
        &self,
        text: &str,
        page_size: Option<u32>,
        paging_state: Option<&[u8]>,
        work: &Cell<Work>,
    ) -> Result<Answer, ExecuteError> {
        match self.execute(text, page_size, paging_state, &Boundless, work)? {
            Executed::Elsewhere => unreachable!("a node that runs alone has all rows"),
            Executed::Done(answer) => Ok(answer),
            Executed::Pending(pending, outcome) => {
                let outcome = outcome.unwrap().blocking_recv().unwrap();
                pending.finish(&self.executor, outcome, replica::Reach::default(), work)
            }
            Executed::NoRoom(_) | Executed::TooLong => panic!("{text}: it was not run"),
        }
    }

    /// Runs a statement as far as it goes without waiting.
    pub(crate) fn execute(
        &self,
        text: &str,
        page_size: Option<u32>,
        paging_state: Option<&[u8]>,
        bounds: &dyn Bounds,
        work: &Cell<Work>,
    ) -> Result<Executed, ExecuteError> {
        let schema = self.executor.schema();
        let parsed = cql::parse(text).unwrap();
        let prepared = plan::prepare(&parsed, text, &schema, &SessionContext { keyspace: None })?;
        self.execute_prepared(&prepared, page_size, paging_state, bounds, work)
    }

    fn execute_prepared(
        &self,
        prepared: &plan::Prepared,
        page_size: Option<u32>,
        paging_state: Option<&[u8]>,
        bounds: &dyn Bounds,
        work: &Cell<Work>,
    ) -> Result<Executed, ExecuteError> {
        let context = BindContext {
            now_us: self.world.now_us(),
            now_s: None,
            default_timestamp_us: None,
            page_size,
            uuids: &*self.world,
            protocol_version: 5,
            batch_limits: BatchLimits::default(),
            watch: None,
        };
        let plan = prepared.bind(&NoValues, &context)?;
        let request = RequestContext {
            gathered: None,
            reach: replica::Reach::default(),
            given_us: None,
            paging_state,
            bounds,
            keyspace: None,
            throughput: None,
            asking: Asking { client: ClientId(1), waits: false, has_waited: false },
            answer_to: None,
            without_room: WithoutRoom::Waits,
            work,
        };
        self.executor.execute(plan, &request)
    }

    /// Runs what was planned before.
    pub(crate) fn run_prepared(&self, prepared: &plan::Prepared) -> Result<Answer, ExecuteError> {
        let work = Cell::default();
        match self.execute_prepared(prepared, None, None, &Boundless, &work)? {
            Executed::Done(answer) => Ok(answer),
            _ => panic!("it was not run to its end"),
        }
    }

    /// Waits until every index is built.
    pub(crate) fn wait_for_indexes(&self) {
        while self.storage.index_builds().iter().any(|build| !build.is_built) {
            std::thread::yield_now();
        }
    }

    /// The pages of a read, each as the numbers of its only column.
    pub(crate) fn pages(&self, text: &str, page_size: u32) -> Vec<Vec<i32>> {
        let mut pages = Vec::new();
        let mut state: Option<Vec<u8>> = None;
        loop {
            let answer = self.run_page(text, Some(page_size), state.as_deref(), &Cell::default());
            let rows = rows_of(text, answer);
            pages.push(numbers_of(&rows));
            state = rows.paging_state;
            if state.is_none() {
                return pages;
            }
        }
    }

    /// The rows of a read, or of a conditional write, each value as bytes.
    pub(crate) fn rows(&self, text: &str) -> Vec<Vec<Option<Vec<u8>>>> {
        values_of(&rows_of(text, self.run(text)))
    }

    /// The only column of a read, as numbers.
    pub(crate) fn numbers(&self, text: &str) -> Vec<i32> {
        numbers_of(&rows_of(text, self.run(text)))
    }
}

/// The rows of an answer that must be some.
pub(crate) fn rows_of(text: &str, answer: Result<Answer, ExecuteError>) -> Rows {
    match answer.unwrap_or_else(|error| panic!("{text}: {error}")).reply {
        Reply::Rows(rows) => rows,
        reply => panic!("{text}: {reply:?}"),
    }
}

/// The only column of some rows.
pub(crate) fn numbers_of(rows: &Rows) -> Vec<i32> {
    let number = |row: &Vec<Option<Vec<u8>>>| {
        i32::from_be_bytes(row[0].clone().unwrap().try_into().unwrap())
    };
    values_of(rows).iter().map(number).collect()
}

/// The values of rows in the form of the protocol.
pub(crate) fn values_of(rows: &Rows) -> Vec<Vec<Option<Vec<u8>>>> {
    let mut body = rows.body.as_slice();
    let mut value = || {
        let (length, rest) = body.split_first_chunk::<4>().unwrap();
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (value, rest) = rest.split_at(length.unwrap_or(0));
        body = rest;
        length.map(|_| value.to_vec())
    };
    let mut row = |_| rows.columns.iter().map(|_| value()).collect();
    (0..rows.row_count).map(&mut row).collect()
}
