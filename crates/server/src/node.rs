//! The wiring: opens what was kept, puts the rooms together, and takes them apart again.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use coordinator::{Catalog, ExecuteError, Executor, PagingSecret, Settings};
use partition::PartitionMap;
use partition::decide::NodeState;
use replica::group::{SYSTEM_TABLE, system_table};
use replica::{Budgets, NodeStore, ReplicaSets};
use roles::DEFAULT_SUPERUSER;
use schema::Schema;
use storage::{DataDir, OpenError, Storage};
use types::{NodeId, TableId};

use crate::audit::Audit;
use crate::auth::{LoginGate, RoleKeeper, Seats};
use crate::clients::Clients;
use crate::cluster_node::ClusterNode;
use crate::config::{CommitMode, Config, Loaded, Payload, Profile};
use crate::events::EventHub;
use crate::facts::NodeWorld;
use crate::load::Load;
use crate::membership::{self, Member, Membership};
use crate::metrics::Metrics;
use crate::spans::Tracer;
use crate::statements::{Charging, Engine, Parts, Rules, Thresholds};
use crate::status::{self, Started};
use crate::views::{self, Views};
use crate::world::{self, Uuids};

/// The document with who this node is.
const IDENTITY_DOCUMENT: &str = "node";
const ROLES_DOCUMENT: &str = "roles";
/// Random bytes of an account key: written out they are as long as a password that is checked to its end may be.
const ACCOUNT_KEY_BYTES: usize = 32;
/// The first byte of the identity.
const IDENTITY_VERSION: u8 = 1;

/// What a row may take in the `cosmos` profile (D6).
const COSMOS_ROW_BYTES_MAX: u64 = 2 << 20;
/// What a partition key may take in the `cosmos` profile (D6).
const COSMOS_KEY_BYTES_MAX: u64 = 2048;
/// A cache or buffer is never sized below this.
const MEMORY_SHARE_BYTES_MIN: u64 = 16 << 20;
/// The parts of the memory that a node takes by itself. Together they are a thirtieth: what is not taken
/// serves the operating system's page cache, which holds the files of the node.
const ROW_CACHE_SHARE: u64 = 256;
const ROW_CACHE_SHARE_MAX: u64 = 4;
const BLOCK_CACHE_SHARE: u64 = 384;
const HEAD_CACHE_SHARE: u64 = 512;
const MEMTABLE_SHARE: u64 = 128;
const MEMTABLE_SHARE_GROWN: u64 = 32;
/// Writes kept in memory are never sized above this by themselves: more only delays the work, and a
/// node that is written to for a while always has about half of it in use.
const MEMTABLE_BYTES_MAX: u64 = 1 << 30;
/// Appended and not yet written bytes of the log are never bounded below this.
const LOG_BUFFER_BYTES_MIN: usize = 4 << 20;
/// Descriptors that are left for everything but clients and sorted files: the log, documents, compactions, readers
/// of the metrics, questions.
const DESCRIPTORS_RESERVED: u64 = 192;
/// Sorted files that may be open at once, at least and at most. What clients leave is theirs.
const OPEN_FILES_MIN: u64 = 128;
const OPEN_FILES_MAX: u64 = 16 * 1024;
/// Where clients want more than there is, files keep a quarter, and no more than this.
const OPEN_FILES_KEPT_MAX: u64 = 2048;
/// So many clients are let in however few descriptors there are.
const CONNECTIONS_MIN: u64 = 8;

/// Who gets how many of the descriptors of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    pub(crate) connections_max: usize,
    pub(crate) files_max: usize,
}

impl Descriptors {
    /// Files come first: a client that is turned away finds another moment, a file that cannot be opened is a write
    /// that is refused.
    pub(crate) fn of(limit: u64, connections: usize) -> Descriptors {
        let free = limit.saturating_sub(DESCRIPTORS_RESERVED);
        let connections = u64::try_from(connections).unwrap_or(u64::MAX);
        let fitting = free
            .saturating_sub((free / 4).clamp(OPEN_FILES_MIN, OPEN_FILES_KEPT_MAX))
            .max(CONNECTIONS_MIN);
        let connections = connections.min(fitting);
        let files = free.saturating_sub(connections).clamp(OPEN_FILES_MIN, OPEN_FILES_MAX);
        let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Descriptors { connections_max: count(connections), files_max: count(files) }
    }
}

/// A node whose rooms are put together.
pub(crate) struct Node {
    pub(crate) storage: Arc<Storage>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) roles: Arc<RoleKeeper>,
    /// The password of the first superuser, where it was made at this start.
    pub(crate) account_key: Option<String>,
    pub(crate) world: Arc<NodeWorld>,
    pub(crate) hub: Arc<EventHub>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) load: Arc<Load>,
    /// Where it is not alone.
    pub(crate) cluster: Option<Arc<ClusterNode>>,
    /// It ran alone, and starts again as the first node of a cluster.
    pub(crate) begins_cluster: AtomicBool,
    /// Clients are let in.
    pub(crate) is_open: AtomicBool,
    /// Somebody asked it to stop.
    pub(crate) stop_asked: tokio::sync::Notify,
    lone: LoneNode,
}

/// What a node is called where it becomes the first of a cluster.
struct LoneNode {
    mesh: SocketAddr,
    /// Where it is to listen for other nodes.
    mesh_listens: SocketAddr,
    clients: SocketAddr,
    rack: String,
    data_center: String,
    /// Whether what it acknowledges is on its disk.
    is_synced: bool,
}

impl LoneNode {
    fn of(config: &Config, address: SocketAddr) -> LoneNode {
        let reached = |listens: SocketAddr| {
            let ip = config.server.broadcast_address.unwrap_or(listens.ip());
            SocketAddr::new(ip, listens.port())
        };
        let mesh = SocketAddr::new(address.ip(), membership::MESH_PORT);
        let mesh_listens = config.cluster.listen.unwrap_or(mesh);
        LoneNode {
            mesh: reached(mesh_listens),
            mesh_listens,
            clients: reached(address),
            rack: config.server.rack.clone(),
            data_center: config.server.data_center.clone(),
            is_synced: config.storage.commit == crate::config::CommitMode::Group,
        }
    }
}

/// Why a node does not start. Each is one clear line.
#[derive(Debug)]
pub(crate) enum StartError {
    Data(OpenError),
    Schema(String),
    Partitions(String),
    Catalog(ExecuteError),
    Roles(String),
    Identity(String),
    Cluster(String),
    Listen {
        setting: &'static str,
        address: SocketAddr,
        error: io::Error,
    },
    Tls(crate::tls::TlsError),
    Runtime(io::Error),
    Audit(io::Error),
    /// The data folder went while the node ran.
    FolderGone(std::path::PathBuf),
    /// A node of a cluster whose data is damaged.
    Replaceable(NodeId, Box<StartError>),
    /// What is kept cannot be relied on.
    Poisoned(Arc<str>),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Data(error) => error.fmt(f),
            StartError::Schema(text) => write!(f, "the kept schema cannot be used: {text}"),
            StartError::Partitions(text) => {
                write!(f, "the kept partition map cannot be used: {text}")
            }
            StartError::Catalog(error) => write!(f, "cannot start: {error}"),
            StartError::Roles(text) | StartError::Identity(text) | StartError::Cluster(text) => {
                f.write_str(text)
            }
            StartError::Listen { setting, address, error } => match error.kind() {
                io::ErrorKind::AddrInUse => write!(
                    f,
                    "{address} is in use by another process; stop it, or choose another address with {setting}"
                ),
                _ => write!(f, "cannot listen on {address} ({setting}): {error}"),
            },
            StartError::Tls(error) => write!(f, "tls: {error}"),
            StartError::FolderGone(path) => write!(
                f,
                "the data folder {} was removed, moved or replaced while the node ran: the node stopped, and what was in it last is lost unless the folder still is elsewhere",
                path.display()
            ),
            StartError::Poisoned(why) => write!(
                f,
                "what is kept cannot be relied on ({why}): the node stopped, so that nothing wrong is answered and no change is applied without those before it. The next start tries again; if it fails, `helenus check` tells what is damaged"
            ),
            StartError::Replaceable(node, error) => write!(
                f,
                "{error}. This is node {node} of a cluster, and the other nodes have what it had: have it removed by one of them \
                 (`helenus remove {node}`), and join a new one with an empty folder (`helenus token`, `helenus start --join`)",
                node = node.0
            ),
            StartError::Audit(error) => {
                write!(f, "the audit log cannot be opened (audit.directory): {error}")
            }
            StartError::Runtime(error) => write!(f, "cannot start threads: {error}"),
        }
    }
}

impl StartError {
    /// Whether what the folder keeps cannot be relied on.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            StartError::Poisoned(_) => true,
            StartError::Data(error) => matches!(
                error,
                OpenError::Damaged { .. } | OpenError::LogMissing { .. } | OpenError::Tree { .. }
            ),
            _ => false,
        }
    }
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> StartError {
        StartError::Data(error)
    }
}

/// Storage asks for tables here; the catalog changes what is behind it.
pub(crate) struct CurrentSchema(pub(crate) Arc<ArcSwap<Schema>>);

impl storage::SchemaSource for CurrentSchema {
    fn table(&self, id: TableId) -> Option<Arc<schema::Table>> {
        let known = self.0.load().table_by_id(id).cloned();
        known.or_else(|| (id == SYSTEM_TABLE).then(system_table))
    }
}

/// The real clock, as storage wants it.
pub(crate) struct StorageClock;

impl storage::Clock for StorageClock {
    fn now_s(&self) -> u32 {
        u32::try_from(world::now_s()).unwrap_or(u32::MAX)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(world::steady_us())
    }
}

impl Node {
    /// Opens the data folder and everything in it. `address` is where clients will connect.
    pub(crate) fn open(
        loaded: &Loaded,
        data_dir: DataDir,
        address: SocketAddr,
        descriptor_limit: u64,
    ) -> Result<Node, StartError> {
        let config = &loaded.config;
        let identity = Identity::of(&data_dir)?;
        let membership = membership::of_folder(&data_dir)?;
        let schema = Arc::new(ArcSwap::from_pointee(kept_schema(&data_dir)?));
        let map = kept_map(&data_dir)?;
        let options = storage_options(config, descriptor_limit);
        let source = Arc::new(CurrentSchema(Arc::clone(&schema)));
        let storage = Storage::open(data_dir, options, source, Arc::new(StorageClock))?;
        let storage = Arc::new(storage);
        let uuids = Arc::new(Uuids::new().map_err(|error| no_randomness(&error))?);
        let hub = Arc::new(EventHub::default());
        let clients = Arc::new(Clients::default());
        let world = Arc::new(NodeWorld::new(
            loaded,
            address,
            identity.host_id,
            membership.as_ref().and_then(|(membership, _)| membership.own()),
            Arc::clone(&uuids),
            Arc::clone(&hub),
            Arc::clone(&clients),
        ));
        let (roles, account_key) = open_roles(config, &storage, identity.paging_secret)?;
        let paging_secret = paging_secret(membership.as_ref(), &roles, &identity);
        let lone_map = lone_map(membership.is_some(), &storage, &map)?;
        let cluster = open_cluster(membership, &storage, config, lone_map.as_ref())?;
        let mut settings = coordinator_settings(config, paging_secret);
        let mut replicas =
            ReplicaSets::new(Arc::clone(&storage), Arc::new(Budgets::new(world::steady_us)));
        if let Some(cluster) = &cluster {
            replicas = replicas.with_groups(cluster.groups.clone());
            // A set lives on all nodes: more of them than asked for would only be more to do.
            let count = config.partitions.per_space.unwrap_or(1);
            settings.physical_per_space = u32::try_from(count).unwrap_or(1);
        }
        let agreement = cluster.as_ref().map(|cluster| Arc::clone(&cluster.agreement));
        let store = NodeStore::new(Arc::clone(&storage));
        let coordinator_world: Arc<dyn coordinator::World> = Arc::clone(&world) as _;
        let catalog =
            Catalog::open(replicas, store, schema, map, settings, coordinator_world, agreement)
                .map_err(StartError::Catalog)?;
        let catalog = Arc::new(catalog);
        if let Some(cluster) = &cluster {
            cluster.start(&catalog, &roles, &hub)?;
            world.set_cluster(cluster.teller(), cluster.journal_teller());
        }
        let load = Arc::new(new_load(config));
        let engine = Arc::new(Engine::new(Parts {
            executor: Arc::new(Executor::new(&catalog)),
            roles: Arc::clone(&roles),
            gate: login_gate(&roles)?,
            uuids,
            timeouts: config.timeouts,
            batch_limits: batch_limits(config),
            prepared_bytes_max: config.memory.prepared_statements,
            scans_max: world::core_count().max(2),
            waiting_max: config.limits.waiting_requests,
            charging: charging(config),
            address,
            load: Arc::clone(&load),
            is_cosmos: config.profile == Profile::Cosmos,
            slow: slow_thresholds(config),
            rules: rules(config, address, cluster.as_deref())?,
            data_center: config.server.data_center.as_str().into(),
            gatherer: cluster.as_ref().map(|cluster| cluster.gatherer(&catalog)),
        }));
        tell_of(&world, &engine, &roles);
        let metrics = Arc::new(Metrics::default());
        world.set_views(Views {
            storage: Arc::clone(&storage),
            catalog: Arc::downgrade(&catalog),
            engine: Arc::downgrade(&engine),
            metrics: Arc::clone(&metrics),
            load: Arc::clone(&load),
            properties: views::properties(loaded),
            cache_rates: Default::default(),
        });
        Ok(Node {
            storage,
            catalog,
            engine,
            roles,
            account_key,
            world,
            hub,
            clients,
            metrics,
            load,
            cluster,
            begins_cluster: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            stop_asked: tokio::sync::Notify::new(),
            lone: LoneNode::of(config, address),
        })
    }

    /// A node that runs alone becomes the first of a cluster: what it is called there is kept, and it starts again.
    pub(crate) fn begin_cluster(&self) -> Result<(), StartError> {
        if !self.lone.is_synced {
            return Err(StartError::Cluster(
                "storage.commit = \"periodic\" is for nodes that run alone: what a replica set acknowledges is on the disks of a quorum".to_owned(),
            ));
        }
        let LoneNode { mesh, clients, rack, data_center, mesh_listens, .. } = &self.lone;
        // Nothing is kept that the next start could not do.
        crate::door::listen(*mesh_listens).map_err(|error| StartError::Listen {
            setting: "cluster.listen",
            address: *mesh_listens,
            error,
        })?;
        std::env::current_exe().ok().filter(|program| program.exists()).ok_or_else(|| {
            StartError::Cluster(
                "the program of this node was replaced while it ran: start it again first"
                    .to_owned(),
            )
        })?;
        if mesh.ip().is_unspecified() || clients.ip().is_unspecified() {
            return Err(StartError::Cluster(format!(
                "other nodes cannot reach {clients}: start this node with an address of its own (--listen), or tell it with server.broadcast_address"
            )));
        }
        let data_dir = self.storage.data_dir();
        let paging_secret =
            self.roles.paging_secret().unwrap_or(Identity::of(data_dir)?.paging_secret);
        let own = Member {
            node: NodeId(1),
            host_id: self.world.host_number(),
            mesh: *mesh,
            clients: *clients,
            key: membership::own_key(data_dir)?.fingerprint(),
            tokens: membership::tokens_of(0, 1),
            rack: rack.clone(),
            data_center: data_center.clone(),
            state: NodeState::Up,
        };
        let membership = Membership {
            cluster_id: membership::fresh_number()?,
            own: own.node,
            paging_secret,
            members: vec![own],
            is_first: true,
        };
        let kept = membership.save(data_dir);
        kept.map_err(|error| {
            StartError::Cluster(format!("the list of nodes cannot be kept: {error}"))
        })?;
        self.begins_cluster.store(true, Ordering::Release);
        Ok(())
    }

    /// From now on `system_helenus.status` tells how the node is doing.
    pub(crate) fn tell_status(self: &Arc<Self>, started: &Started) {
        let (node, started) = (Arc::downgrade(self), started.clone());
        self.world.set_status(Box::new(move || match node.upgrade() {
            Some(node) => status::rows(&status::facts(&node, &started)),
            None => Vec::new(),
        }));
    }

    /// Makes everything durable. What comes after is refused.
    pub(crate) fn close(&self) -> Result<(), String> {
        self.catalog.record_usage(true);
        if let Some(cluster) = &self.cluster {
            cluster.close();
        }
        self.storage.close().map_err(|error| error.to_string())
    }
}

/// Statements and roles can be shown from now on.
fn tell_of(world: &NodeWorld, engine: &Arc<Engine>, roles: &Arc<RoleKeeper>) {
    let source = Arc::downgrade(engine);
    world.set_statements(Box::new(move || {
        source.upgrade().map(|engine| engine.statement_facts()).unwrap_or_default()
    }));
    let keeper = Arc::clone(roles);
    world.set_auth(Box::new(move || keeper.facts()));
}

/// What paging states are sealed with.
fn paging_secret(
    membership: Option<&(Membership, cluster::Identity)>,
    roles: &RoleKeeper,
    identity: &Identity,
) -> [u8; 16] {
    match membership {
        Some((membership, _)) => membership.paging_secret,
        None => roles.paging_secret().unwrap_or(identity.paging_secret),
    }
}

/// What a node had alone is known by its own map until something was agreed on.
fn lone_map(
    is_in_cluster: bool,
    storage: &Arc<Storage>,
    map: &PartitionMap,
) -> Result<Option<PartitionMap>, StartError> {
    match storage.load_document(coordinator::FOLLOWED_DOCUMENT) {
        Ok(None) if is_in_cluster => {
            let store = NodeStore::new(Arc::clone(storage));
            let whole = coordinator::map_with_changes(&store, map);
            Ok(Some(whole.map_err(StartError::Catalog)?))
        }
        Ok(_) => Ok(None),
        Err(error) => Err(StartError::Partitions(error.to_string())),
    }
}

/// What a node has that is not alone.
fn open_cluster(
    membership: Option<(Membership, cluster::Identity)>,
    storage: &Arc<Storage>,
    config: &Config,
    lone_map: Option<&PartitionMap>,
) -> Result<Option<Arc<ClusterNode>>, StartError> {
    match membership {
        Some((membership, key)) => {
            Ok(Some(Arc::new(ClusterNode::open(membership, key, storage, config, lone_map)?)))
        }
        None => Ok(None),
    }
}

/// Who this node is: made at the first start, kept for good.
pub(crate) struct Identity {
    pub(crate) host_id: u128,
    /// What paging states are sealed with until the roles have a secret of their own.
    paging_secret: [u8; 16],
}

impl Identity {
    pub(crate) fn of(data_dir: &DataDir) -> Result<Identity, StartError> {
        if let Some(bytes) = data_dir.load_document(IDENTITY_DOCUMENT)? {
            let Some((&[IDENTITY_VERSION], rest)) = bytes.split_first_chunk::<1>() else {
                return Err(unknown_identity());
            };
            let (host_id, secret) = rest.split_first_chunk::<16>().ok_or_else(unknown_identity)?;
            let paging_secret = secret.try_into().map_err(|_| unknown_identity())?;
            return Ok(Identity { host_id: u128::from_be_bytes(*host_id), paging_secret });
        }
        let host_id = Uuids::new().map_err(|error| no_randomness(&error))?.random_uuid();
        let paging_secret: [u8; 16] =
            world::random_bytes().map_err(|error| no_randomness(&error))?;
        let mut bytes = vec![IDENTITY_VERSION];
        bytes.extend_from_slice(&host_id);
        bytes.extend_from_slice(&paging_secret);
        data_dir
            .save_document(IDENTITY_DOCUMENT, &bytes)
            .map_err(|error| StartError::Identity(format!("cannot keep the host id: {error}")))?;
        Ok(Identity { host_id: u128::from_be_bytes(host_id), paging_secret })
    }
}

fn unknown_identity() -> StartError {
    StartError::Identity("the kept host id has a form that this version does not know".to_owned())
}

fn no_randomness(error: &getrandom::Error) -> StartError {
    StartError::Identity(format!("the system gives no randomness: {error}"))
}

/// Whether a node ran alone on a folder.
pub(crate) fn has_tables(data_dir: &DataDir) -> Result<bool, StartError> {
    // A node that ran has a map, and may have written to tables of its own.
    Ok(data_dir.load_document(coordinator::PARTITIONS_DOCUMENT)?.is_some())
}

pub(crate) fn kept_schema(data_dir: &DataDir) -> Result<Schema, StartError> {
    let system = schema::initial_schema();
    match data_dir.load_document(coordinator::SCHEMA_DOCUMENT)? {
        Some(bytes) => schema::persist::decode(&bytes, &system)
            .map_err(|error| StartError::Schema(error.to_string())),
        None => Ok(system.with_fresh_version()),
    }
}

fn kept_map(data_dir: &DataDir) -> Result<PartitionMap, StartError> {
    let Some(bytes) = data_dir.load_document(coordinator::PARTITIONS_DOCUMENT)? else {
        return Ok(PartitionMap::default());
    };
    let text =
        String::from_utf8(bytes).map_err(|error| StartError::Partitions(error.to_string()))?;
    PartitionMap::decode(&text).map_err(|error| StartError::Partitions(error.to_string()))
}

/// The roles, and the account key if it was made just now. The original has one for each account; elsewhere the first
/// password is Cassandra's.
fn open_roles(
    config: &Config,
    storage: &Arc<Storage>,
    new_secret: [u8; 16],
) -> Result<(Arc<RoleKeeper>, Option<String>), StartError> {
    let document = storage.load_document(ROLES_DOCUMENT)?;
    let save_to = Arc::clone(storage);
    let save = Box::new(move |bytes: &[u8]| {
        save_to.save_document(ROLES_DOCUMENT, bytes).map_err(|error| error.to_string())
    });
    let account_key = match config.profile {
        Profile::Default => None,
        Profile::Cosmos => {
            let bytes: [u8; ACCOUNT_KEY_BYTES] =
                world::random_bytes().map_err(|error| no_randomness(&error))?;
            Some(types::value::format::to_hex(&bytes))
        }
    };
    let first_password = account_key.as_deref().unwrap_or(DEFAULT_SUPERUSER);
    let auth = config.auth.clone();
    let roles = RoleKeeper::open(document.as_deref(), save, auth, first_password, new_secret)
        .map_err(StartError::Roles)?;
    let account_key = account_key.filter(|_| roles.is_new());
    Ok((Arc::new(roles), account_key))
}

/// What people may do, and what is kept of it.
fn rules(
    config: &Config,
    address: SocketAddr,
    cluster: Option<&ClusterNode>,
) -> Result<Rules, StartError> {
    let limits = &config.limits;
    // The node is known to whoever collects spans by the address of its clients.
    let tracer =
        Tracer::start(&config.traces, &address.to_string()).map_err(StartError::Runtime)?;
    if let Some((tracer, cluster)) = tracer.as_ref().zip(cluster) {
        cluster.groups.set_witness(Arc::clone(tracer) as _);
    }
    Ok(Rules {
        guardrails: config.guardrails.clone(),
        audit: Audit::open(&config.audit, &config.server.data_dir, address)
            .map_err(StartError::Audit)?,
        seats: Seats::new(limits.sessions_per_role, limits.statements_per_second_per_role),
        tracer,
    })
}

fn login_gate(roles: &Arc<RoleKeeper>) -> Result<Arc<LoginGate>, StartError> {
    let key = world::random_bytes().map_err(|error| no_randomness(&error))?;
    // One core in two is left for requests, whoever guesses passwords.
    let checks_max = world::core_count() / 2;
    Ok(Arc::new(LoginGate::new(Arc::clone(roles), checks_max, key)))
}

fn coordinator_settings(config: &Config, paging_secret: [u8; 16]) -> Settings {
    Settings {
        data_center: config.server.data_center.clone(),
        physical_per_space: physical_per_space(config),
        profile: match config.profile {
            Profile::Default => schema::Profile::Default,
            Profile::Cosmos => schema::Profile::Cosmos,
        },
        prices: config.units.prices,
        saves_bursts: config.units.burst,
        autoscales: config.units.autoscale,
        counts_work: config.units.charge,
        paging_secret: PagingSecret(paging_secret),
        auto_snapshot: config.storage.auto_snapshot,
        limits: partition_limits(config),
        row_bytes_max: config.limits.row_bytes.or(cosmos_only(config, COSMOS_ROW_BYTES_MAX)),
        partition_key_bytes_max: config
            .limits
            .partition_key_bytes
            .or(cosmos_only(config, COSMOS_KEY_BYTES_MAX)),
        logical_bytes_max: config.limits.logical_partition_bytes,
    }
}

/// What requests and answers may hold.
fn new_load(config: &Config) -> Load {
    let share = (world::memory_bytes() / 8).max(MEMORY_SHARE_BYTES_MIN);
    Load::new(config.memory.requests.unwrap_or(share), config.limits.queue_delay)
}

/// From when on statements are slow or costly.
fn slow_thresholds(config: &Config) -> Thresholds {
    Thresholds {
        slow_after: config.log.slow_after,
        costly: units::Charge::from_units(config.log.costly_ru as u64),
        shows_values: config.log.statement_values,
    }
}

fn batch_limits(config: &Config) -> plan::BatchLimits {
    let bytes = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    plan::BatchLimits {
        warn_bytes: bytes(config.limits.batch_size_warn),
        fail_bytes: bytes(config.limits.batch_size_fail),
        unlogged_partitions_warn: config.limits.unlogged_batch_partitions_warn,
    }
}

fn charging(config: &Config) -> Charging {
    Charging {
        counts: config.units.charge,
        payload: if config.units.charge { config.units.payload } else { Payload::Never },
        retries: config.units.server_side_retry.clone(),
    }
}

fn cosmos_only(config: &Config, bytes: u64) -> Option<u64> {
    (config.profile == Profile::Cosmos).then_some(bytes)
}

fn physical_per_space(config: &Config) -> u32 {
    let count = config.partitions.per_space.unwrap_or_else(world::core_count);
    u32::try_from(count).unwrap_or(1)
}

fn partition_limits(config: &Config) -> partition::BalanceLimits {
    let milliseconds = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    partition::BalanceLimits {
        physical_bytes_max: config.limits.physical_partition_bytes,
        split_share: config.partitions.split_percent as f64 / 100.0,
        hot_ru_min: config.partitions.hot_ru as f64,
        merges: config.profile != Profile::Cosmos,
        hot_age_ms: milliseconds(config.partitions.hot_age),
        merge_age_ms: milliseconds(config.partitions.merge_age),
        ..partition::BalanceLimits::default()
    }
}

pub(crate) fn storage_options(config: &Config, descriptor_limit: u64) -> storage::Options {
    let defaults = storage::Options::default();
    let memory_bytes = world::memory_bytes();
    let share = |part: u64| (memory_bytes / part).max(MEMORY_SHARE_BYTES_MIN);
    let memtables = |part| share(part).min(MEMTABLE_BYTES_MAX);
    let of_memtables = |part| config.memory.memtables.unwrap_or_else(|| memtables(part));
    let memtable_bytes_max = of_memtables(MEMTABLE_SHARE);
    let cores = world::core_count();
    storage::Options {
        commit: match config.storage.commit {
            CommitMode::Group => storage::CommitMode::Group,
            CommitMode::Periodic => {
                storage::CommitMode::Periodic { sync_interval: config.storage.commit_interval }
            }
        },
        row_cache_bytes: config.memory.row_cache.unwrap_or_else(|| share(ROW_CACHE_SHARE)),
        row_cache_bytes_max: config.memory.row_cache.unwrap_or_else(|| share(ROW_CACHE_SHARE_MAX)),
        head_cache_bytes: config.memory.head_cache.unwrap_or_else(|| share(HEAD_CACHE_SHARE)),
        block_cache_bytes: config.memory.block_cache.unwrap_or_else(|| share(BLOCK_CACHE_SHARE)),
        memtable_bytes_max,
        memtable_bytes_grown: of_memtables(MEMTABLE_SHARE_GROWN),
        // What waits for the disk becomes memtables next: no more of it than of them.
        log_buffer_bytes_max: usize::try_from(memtable_bytes_max)
            .unwrap_or(usize::MAX)
            .clamp(LOG_BUFFER_BYTES_MIN, defaults.log_buffer_bytes_max),
        open_files_max: Descriptors::of(descriptor_limit, config.limits.connections).files_max,
        weigh: config.units.charge.then_some(replica::weigh),
        apply_threads: cores.max(1),
        compaction_threads: (cores / 2).max(1),
        tombstone_retention_s: u32::try_from(config.storage.tombstone_retention.as_secs())
            .unwrap_or(u32::MAX),
        segment_bytes: config.storage.log_segment,
        log_bytes_max: config.storage.log_max,
        logical_partition_bytes_max: config.limits.logical_partition_bytes,
        physical_partition_bytes_max: config.limits.physical_partition_bytes,
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_never_take_the_descriptors_of_files() {
        let shares = |limit, connections| {
            let shares = Descriptors::of(limit, connections);
            (shares.connections_max, shares.files_max)
        };
        assert_eq!(shares(1024, 20_000), (624, 208));
        assert_eq!(shares(1024, 100), (100, 732));
        assert_eq!(shares(1 << 20, 20_000), (20_000, 16 * 1024));
        assert_eq!(shares(u64::MAX, 20_000), (20_000, 16 * 1024));
        // Too few for anything: it is tried all the same.
        assert_eq!(shares(64, 20_000), (8, 128));
        for limit in 400..5000 {
            let (connections, files) = shares(limit, 20_000);
            assert!(connections + files + 192 <= usize::try_from(limit).unwrap(), "{limit}");
        }
    }
}
