//! From a configuration to a running node, and to a stopped one.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use roles::DEFAULT_SUPERUSER;
use serde_json::{Value, json};
use storage::{AutoSnapshots, DataDir};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::admin::{self, Answerer, Question};
use crate::config::{Config, Loaded, TlsMode};
use crate::connection::ConnectionLimits;
use crate::dashboard::Dashboard;
use crate::demo;
use crate::door::{self, Door};
use crate::estimate;
use crate::greeting::Greeting;
use crate::jobs;
use crate::kept_time::{self, KeptTime};
use crate::membership::{self, MESH_PORT, Membership};
use crate::metrics;
use crate::node::{Descriptors, Node, StartError};
use crate::node_gauges::gauges;
use crate::nodes::joining::{Join, JoinRequest, read_answer};
use crate::partitions;
use crate::recover;
use crate::sets;
use crate::skip;
use crate::statements::TICK;
use crate::status::{self, Started};
use crate::tls::{self, Certificates, OwnNames, TlsError};
use crate::upkeep;
use crate::world;

/// Whoever lets in fewer clients than this is warned, whatever was asked for.
const CONNECTIONS_FEW: usize = 2_000;

/// What a node says that forgot what it promised.
const OLD_IMAGE: &str = "the data folder is an old image of this node: the others know that its log held more. It was restored, or its disk lost what it had synced. It may have forgotten what it promised, so nobody listens to it: `helenus remove` it on another node, and join it again with an empty folder (--data-dir) and a new token";

/// How often it is looked whether the data folder still is there.
const FOLDER_INTERVAL: Duration = Duration::from_millis(200);

/// How often it is looked for snapshots whose time has come.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(60);

/// How often the usage of budgets is recorded.
const USAGE_INTERVAL: Duration = Duration::from_secs(10);

/// Runs a node until it is told to stop.
pub(crate) fn run(loaded: &Loaded, join: Option<&Join>) -> Result<(), StartError> {
    let config = &loaded.config;
    let descriptor_limit = world::raise_descriptor_limit();
    // Before anything else, so that a second node on the same folder is told so.
    let data_dir = DataDir::lock(&config.server.data_dir)?;
    let threads = match config.server.threads {
        0 => (world::core_count() * 2).max(4),
        threads => threads,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("helenus")
        .enable_all()
        .build()
        .map_err(StartError::Runtime)?;
    let result = runtime.block_on(async {
        if let Some(join) = join {
            join_cluster(loaded, &data_dir, join).await?;
        }
        let own = Membership::load(&data_dir)?.map(|membership| membership.own);
        let served = serve(loaded, data_dir, descriptor_limit).await;
        served.map_err(|error| match own {
            Some(node) if error.is_damage() => StartError::Replaceable(node, Box::new(error)),
            _ => error,
        })
    });
    // What still runs are scans whose clients are gone.
    runtime.shutdown_background();
    result
}

/// Where others reach what listens here.
fn reached(loaded: &Loaded, listens: SocketAddr) -> SocketAddr {
    let broadcast = loaded.config.server.broadcast_address;
    SocketAddr::new(broadcast.unwrap_or(listens.ip()), listens.port())
}

/// Asks a cluster to take this node in, and keeps what it answers: the next start needs neither flag.
async fn join_cluster(loaded: &Loaded, data_dir: &DataDir, join: &Join) -> Result<(), StartError> {
    let refused = |why: String| StartError::Cluster(format!("this node cannot join: {why}"));
    if let Some(known) = Membership::load(data_dir)? {
        let is_of = known.members.iter().any(|it| it.key == join.token.key);
        return match is_of {
            true => Ok(()),
            false => {
                Err(refused("its data folder is that of a node of another cluster".to_owned()))
            }
        };
    }
    if crate::node::has_tables(data_dir)? {
        return Err(refused(
            "a node ran alone on its data folder; choose an empty one with --data-dir".to_owned(),
        ));
    }
    let config = &loaded.config;
    let listens = config.server.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9042)));
    let mesh = config.cluster.listen.unwrap_or(SocketAddr::new(listens.ip(), MESH_PORT));
    // Whoever is taken in must be able to listen.
    door::listen(mesh).map_err(|error| StartError::Listen {
        setting: "cluster.listen",
        address: mesh,
        error,
    })?;
    let identity = membership::own_key(data_dir)?;
    let request = JoinRequest {
        secret: join.token.secret,
        host_id: crate::node::Identity::of(data_dir)?.host_id,
        mesh: reached(loaded, mesh),
        clients: reached(loaded, listens),
        rack: config.server.rack.clone(),
        data_center: config.server.data_center.clone(),
    };
    let request = request.encode();
    let answer = cluster::ask_to_join(join.address, join.token.key, &identity, &request);
    let answer = answer.await.map_err(|error| refused(error.to_string()))?;
    let membership = read_answer(&answer).map_err(refused)?;
    membership.save(data_dir).map_err(|error| refused(error.to_string()))?;
    tracing::info!(node = membership.own.0, "this node joined a cluster");
    Ok(())
}

async fn serve(
    loaded: &Loaded,
    data_dir: DataDir,
    descriptor_limit: u64,
) -> Result<(), StartError> {
    let config = &loaded.config;
    let folder = data_dir.path().to_owned();
    data_dir.make_private();
    // Before the door is open: whoever finds it open finds the certificate beside it.
    let certificates = open_certificates(config, &folder).map_err(StartError::Tls)?.map(Arc::new);
    let wanted = wanted_address(loaded, &data_dir)?;
    let listener = door::listen(wanted).map_err(|error| StartError::Listen {
        setting: "server.listen",
        address: wanted,
        error,
    })?;
    let address = listener.local_addr().unwrap_or(wanted);
    let mut signals = Signals::install().map_err(StartError::Runtime)?;
    // Of a node of a cluster others know the time, and leaders the last times of their sets.
    let kept_time = match Membership::load(&data_dir)? {
        Some(_) => None,
        None => Some(Arc::new(Mutex::new(KeptTime::open(&data_dir)?))),
    };
    let descriptors = Descriptors::of(descriptor_limit, config.limits.connections);
    tell_of_descriptors(loaded, descriptor_limit, descriptors.connections_max);
    let node = Arc::new(Node::open(loaded, data_dir, address, descriptor_limit)?);
    let door = Arc::new(Door {
        limits: ConnectionLimits {
            message_bytes_max: usize::try_from(config.limits.frame_bytes).unwrap_or(usize::MAX),
            in_flight_max: config.limits.in_flight_per_connection,
            startup_timeout: config.server.startup_timeout,
        },
        load: Arc::clone(&node.load),
        connections_max: descriptors.connections_max,
        refusal_told_us: AtomicU64::new(0),
        metrics: Arc::clone(&node.metrics),
        hub: Arc::clone(&node.hub),
        clients: Arc::clone(&node.clients),
        statements: Arc::clone(&node.engine) as _,
        tls_mode: config.tls.mode,
        certificates: certificates.clone(),
    });
    let (stop, stopping) = watch::channel(false);
    // Whoever waits for others can be asked for whom, and what is to become of sets whose others never come.
    let started = Started { folder: folder.clone(), address, tls: config.tls.mode };
    serve_questions(&node, &started);
    node.tell_status(&started);
    let dashboard = serve_metrics(loaded, &node, &started)?;
    if let Some(cluster) = &node.cluster {
        tokio::spawn(cluster.steward(&node.catalog, node.world.host_number()).run());
    }
    if let Some(ended) = ends_before(&node, &mut signals, certificates.as_deref()).await {
        admin::remove(&folder);
        return finish(node, kept_time, ended, folder).await;
    }
    let open_door = tokio::spawn(door.open(listener, stopping));
    node.is_open.store(true, Ordering::Release);
    node.load.start_heartbeat().map_err(StartError::Runtime)?;
    let balancing = tokio::spawn(balance(Arc::clone(&node), config.partitions.interval));
    warn_of_default_password(&node);
    warn_of_open_doors(&node, address, config.tls.key.as_deref());
    record_usage(&node);
    let counting = tokio::spawn(count_rates(Arc::clone(&node)));
    let keeping_time = kept_time.clone().map(|kept| tokio::spawn(keep_time(kept)));
    expire_snapshots(&node, config);
    greet(&node, config, &started, dashboard);
    let ended = tokio::select! {
        () = signals.wait(certificates.as_deref()) => Ending::Stopped,
        () = node.stop_asked.notified() => Ending::Stopped,
        why = ends_by_itself(&node) => why,
    };
    if ended.is_sudden() {
        admin::remove(&folder);
        return finish(node, kept_time, ended, folder).await;
    }
    node.is_open.store(false, Ordering::Release);
    tracing::info!("stopping");
    balancing.abort();
    counting.abort();
    tell_of_end(&node, matches!(ended, Ending::Removed));
    let _ = stop.send(true);
    let _ = open_door.await;
    let everybody_left = tokio::time::timeout(config.server.shutdown_timeout, stop.closed()).await;
    if everybody_left.is_err() {
        tracing::warn!("some requests were not finished in server.shutdown_timeout");
    }
    admin::remove(&folder);
    if let Some(keeping_time) = keeping_time {
        keeping_time.abort();
    }
    finish(node, kept_time, ended, folder).await
}

/// What becomes of a node that ends.
async fn finish(
    node: Arc<Node>,
    kept_time: Option<Arc<Mutex<KeptTime>>>,
    ended: Ending,
    folder: PathBuf,
) -> Result<(), StartError> {
    node.engine.close_audit();
    if ended.is_sudden() {
        // Nothing that is in memory has a place any more, and nothing more may be promised.
        std::mem::forget(node);
        return Err(match ended {
            Ending::Poisoned(why) => StartError::Poisoned(why),
            Ending::OldImage => StartError::Cluster(OLD_IMAGE.to_owned()),
            _ => StartError::FolderGone(folder),
        });
    }
    close(node, kept_time).await?;
    match ended {
        Ending::StartsAgain => Err(start_again()),
        _ => Ok(()),
    }
}

/// The same process with the same words begins anew; what was open is closed by that. Comes back only if it cannot.
fn start_again() -> StartError {
    let mut words = std::env::args_os();
    let again = std::env::current_exe().map(|program| {
        let _ = words.next();
        std::process::Command::new(program).args(words).exec()
    });
    let (Ok(error) | Err(error)) = again;
    StartError::Runtime(error)
}

/// Where clients are to connect. A node of a cluster listens where the others were told, unless somebody says otherwise.
fn wanted_address(loaded: &Loaded, data_dir: &DataDir) -> Result<SocketAddr, StartError> {
    let set = loaded.config.server.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9042)));
    if loaded.is_given("server.listen") {
        return Ok(set);
    }
    let membership = Membership::load(data_dir)?;
    Ok(membership.as_ref().and_then(Membership::own).map_or(set, |own| own.clients))
}

/// Waits until the nodes of a cluster agree for the first time. Returns why the node ends before, if it does.
async fn ends_before(
    node: &Arc<Node>,
    signals: &mut Signals,
    certificates: Option<&Certificates>,
) -> Option<Ending> {
    let cluster = node.cluster.as_ref()?;
    tokio::spawn(Arc::clone(cluster).watch(Arc::clone(&node.hub)));
    tokio::select! {
        () = cluster.ready(&node.catalog, &node.roles) => None,
        () = signals.wait(certificates) => Some(Ending::Stopped),
        () = node.stop_asked.notified() => Some(Ending::Stopped),
        why = ends_by_itself(node) => Some(why),
    }
}

/// Clients of a node of a cluster are told that it goes.
fn tell_of_end(node: &Node, is_removed: bool) {
    if let Some(cluster) = &node.cluster {
        cluster.tell_of_end(&node.hub, is_removed);
    }
}

/// Makes everything durable.
async fn close(node: Arc<Node>, kept_time: Option<Arc<Mutex<KeptTime>>>) -> Result<(), StartError> {
    let closed = tokio::task::spawn_blocking(move || {
        let closed = node.close();
        if let Some(kept_time) = kept_time {
            kept_time.lock().finish();
        }
        closed
    })
    .await;
    if let Ok(Err(error)) = closed {
        tracing::error!(%error, "the log will be replayed at the next start");
    }
    Ok(())
}

/// Why a node ends.
enum Ending {
    /// It is told to.
    Stopped,
    FolderGone,
    Poisoned(Arc<str>),
    /// Others know that its disk held more than it does.
    OldImage,
    /// The cluster goes on without it.
    Removed,
    /// It ran alone and is to be the first node of a cluster, or its sets are to go on without nodes that are lost.
    StartsAgain,
}

impl Ending {
    /// Nothing of it is closed.
    fn is_sudden(&self) -> bool {
        matches!(self, Ending::FolderGone | Ending::Poisoned(_) | Ending::OldImage)
    }
}

/// Waits until the data folder is not where it was, or something in the log could not be applied.
async fn ends_by_itself(node: &Arc<Node>) -> Ending {
    let mut rounds = tokio::time::interval(FOLDER_INTERVAL);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        if let Some(why) = node.storage.poisoned() {
            return Ending::Poisoned(why);
        }
        if node.cluster.as_ref().is_some_and(|cluster| cluster.nodes.is_removed()) {
            return Ending::Removed;
        }
        if node.cluster.as_ref().is_some_and(|cluster| cluster.groups.is_old_image()) {
            return Ending::OldImage;
        }
        let recovers = node.cluster.as_ref().is_some_and(|cluster| cluster.nodes.starts_again());
        if recovers || node.begins_cluster.load(Ordering::Acquire) {
            return Ending::StartsAgain;
        }
        let storage = Arc::clone(&node.storage);
        let looked = tokio::task::spawn_blocking(move || storage.data_dir().is_in_place());
        if let Ok(false) = looked.await {
            return Ending::FolderGone;
        }
    }
}

/// Keeps the rates that `system_views` tells.
async fn count_rates(node: Arc<Node>) {
    let mut rounds = tokio::time::interval(TICK);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        node.engine.tick();
        node.world.tick();
    }
}

/// Keeps the bound of the times that are given ahead of them.
async fn keep_time(kept: Arc<Mutex<KeptTime>>) {
    let mut rounds = tokio::time::interval(kept_time::ROUND);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let kept = Arc::clone(&kept);
        if tokio::task::spawn_blocking(move || kept.lock().renew()).await.is_err() {
            tracing::error!("keeping the time panicked");
        }
    }
}

/// A limit that does not fit is told at start: as a warning where somebody asked for it.
fn tell_of_descriptors(loaded: &Loaded, limit: u64, accepted: usize) {
    let wanted = loaded.config.limits.connections;
    let text = "the limit of open files (ulimit -n) has no room for limits.connections; fewer clients are let in";
    if accepted >= wanted {
    } else if loaded.is_given("limits.connections") || accepted < CONNECTIONS_FEW {
        tracing::warn!(limit, wanted, accepted, "{text}");
    } else {
        tracing::info!(limit, wanted, accepted, "{text}");
    }
}

/// Splits and merges physical partitions as they need it.
async fn balance(node: Arc<Node>, interval: std::time::Duration) {
    let mut rounds = tokio::time::interval(interval);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let catalog = Arc::clone(&node.catalog);
        if tokio::task::spawn_blocking(move || catalog.balance()).await.is_err() {
            tracing::error!("a round of splits and merges failed");
        }
    }
}

/// Tells what runs, where, and how to go on.
fn greet(node: &Node, config: &Config, started: &Started, dashboard: Option<SocketAddr>) {
    let folder = started.folder.canonicalize().unwrap_or_else(|_| started.folder.clone());
    let own = tls::own_certificate_path(&folder);
    let certificate = match (started.tls, &config.tls.certificate) {
        (TlsMode::Required, Some(given)) => Some(given.as_path()),
        (TlsMode::Required, None) => Some(own.as_path()),
        (TlsMode::Off | TlsMode::Optional, _) => None,
    };
    let text = Greeting {
        listens: started.address,
        from_elsewhere: config.server.broadcast_address.or_else(world::outward_address),
        folder: &folder,
        certificate,
        requires_login: node.roles.requires_login(),
        account_key: node.account_key.as_deref(),
        dashboard,
    }
    .text();
    // Nobody may be there to read it.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

/// The certificates that clients are shown, where they may speak TLS; made if none are given.
fn open_certificates(config: &Config, folder: &Path) -> Result<Option<Certificates>, TlsError> {
    let mut tls = config.tls.clone();
    if tls.mode == TlsMode::Off {
        return Ok(None);
    }
    if tls.certificate.is_none() {
        let made = tls::own_certificate(folder, &own_names(config), world::now_s())?;
        (tls.certificate, tls.key) = (Some(made.0), Some(made.1));
    }
    Certificates::open(&tls, world::now())
}

/// Who a certificate is about that the node makes for itself.
fn own_names(config: &Config) -> OwnNames {
    let listens = config.server.listen.map(|address| address.ip());
    let outward = listens.filter(IpAddr::is_unspecified).and_then(|_| world::outward_address());
    let addresses = [listens, config.server.broadcast_address, outward];
    OwnNames { host: world::host_name(), addresses: addresses.into_iter().flatten().collect() }
}

/// The signals that concern a node.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn install() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the one to stop.
    async fn wait(&mut self, certificates: Option<&Certificates>) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hang_up.recv() => {
                    if let Some(certificates) = certificates {
                        certificates.reload();
                    }
                }
            }
        }
    }
}

/// Serves metrics and the dashboard. Where that is, if there is one.
fn serve_metrics(
    loaded: &Loaded,
    node: &Arc<Node>,
    started: &Started,
) -> Result<Option<SocketAddr>, StartError> {
    let Some(address) = loaded.config.metrics.listen else { return Ok(None) };
    // A node of `helenus demo` that is started again by hand has its dashboard where it was.
    let is_free_to_choose = node.cluster.is_some() && !loaded.is_given("metrics.listen");
    let beside = demo::dashboard_beside(started.address).filter(|_| is_free_to_choose);
    let address = beside.unwrap_or(address);
    let listener = match door::listen(address) {
        Ok(listener) => listener,
        // Several nodes on one machine are no reason to fail, unless this one was asked for.
        Err(error) if !loaded.is_given("metrics.listen") => {
            tracing::info!(%address, %error, "no metrics and no dashboard: the default address is not free");
            return Ok(None);
        }
        Err(error) => {
            return Err(StartError::Listen { setting: "metrics.listen", address, error });
        }
    };
    let started_at_s = u64::try_from(node.world.started_at_ms() / 1000).unwrap_or_default();
    let (told, well, open) = (Arc::clone(node), Arc::clone(node), Arc::clone(node));
    let folder = started.folder.clone();
    let per_table = loaded.config.metrics.per_table;
    let address = listener.local_addr().unwrap_or(address);
    let site = loaded.config.metrics.dashboard.then(|| {
        let is_asked_for = loaded.is_given("metrics.dashboard");
        let cluster_name = &loaded.config.server.cluster_name;
        let dashboard = Dashboard::new(node, started, cluster_name, address, is_asked_for);
        tokio::spawn(Arc::clone(&dashboard).watch());
        dashboard as _
    });
    let shown_at = site.is_some().then_some(address);
    let pages = metrics::Pages {
        metrics: Box::new(move |wants_tables| {
            let gauges = gauges(&told, &folder, per_table || wants_tables);
            metrics::render(&told.metrics, started_at_s, &gauges)
        }),
        health: Box::new(move || status::health(&well)),
        readiness: Box::new(move || status::readiness(&open)),
        site,
    };
    tokio::spawn(metrics::serve(listener, Arc::new(pages)));
    Ok(shown_at)
}

fn serve_questions(node: &Arc<Node>, started: &Started) {
    match admin::listen(&started.folder) {
        Ok(listener) => {
            let (node, started) = (Arc::clone(node), started.clone());
            let answerer: Answerer = Arc::new(move |question| answer(&node, &started, question));
            tokio::spawn(admin::serve(listener, answerer));
        }
        Err(error) => tracing::warn!(%error, "helenus status, flush and compact will not work"),
    }
}

fn answer(node: &Node, started: &Started, question: Question) -> Value {
    let outcome = match question {
        Question::Status => return status::facts(node, started),
        Question::Stop => {
            node.stop_asked.notify_one();
            return json!({ "process": std::process::id() });
        }
        Question::Workload => return estimate::recorded(node),
        Question::Flush => node.storage.flush(None),
        Question::Compact => node.storage.compact(None),
        Question::Snapshot(name) => return upkeep::take_snapshot(node, &name),
        Question::Partitions(space) => return partitions::list(node, space.as_deref()),
        Question::Split(split) => return partitions::split(node, &split),
        Question::Sets(set) => return sets::list_sets(node, set),
        Question::Nodes => return sets::list_nodes(node),
        Question::Token => return sets::make_token(node),
        Question::Order(order) => return jobs::take_order(node, order),
        Question::Remove(other) => return jobs::remove_node(node, other),
        Question::Job(id) => return jobs::tell_job(node, id),
        Question::Recover { lost, is_unsafe } => return recover::answer(node, &lost, is_unsafe),
        Question::Skip(asked) => return skip::answer(node, asked),
    };
    match outcome {
        Ok(()) => json!({ "done": true }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

/// Removes snapshots of TRUNCATE and DROP when their time has come, as long as the node is there.
fn expire_snapshots(node: &Arc<Node>, config: &Config) {
    let storage = Arc::downgrade(&node.storage);
    let bounds = AutoSnapshots {
        retention_s: u32::try_from(config.storage.auto_snapshot_retention.as_secs())
            .unwrap_or(u32::MAX),
        count_max: config.storage.auto_snapshots_max,
    };
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(SNAPSHOT_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(storage) = storage.upgrade() else { return };
            let removed = tokio::task::spawn_blocking(move || storage.expire_snapshots(bounds));
            match removed.await {
                Ok(Ok(removed)) if removed.is_empty() => {}
                Ok(Ok(removed)) => {
                    tracing::info!(
                        count = removed.len(),
                        "snapshots of TRUNCATE and DROP were removed: their time had come"
                    );
                }
                Ok(Err(error)) => tracing::warn!(%error, "old snapshots cannot be removed"),
                Err(_) => tracing::error!("removing old snapshots panicked"),
            }
        }
    });
}

/// Records every few seconds what budgets were used for, as long as the node is there.
fn record_usage(node: &Arc<Node>) {
    let catalog = Arc::downgrade(&node.catalog);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(USAGE_INTERVAL);
        loop {
            ticks.tick().await;
            let Some(catalog) = catalog.upgrade() else { return };
            let recorded = tokio::task::spawn_blocking(move || catalog.record_usage(true));
            if recorded.await.is_err() {
                tracing::error!("recording the usage panicked");
            }
        }
    });
}

/// Everybody knows the first password. Checking it is slow, so nobody waits for it.
fn warn_of_default_password(node: &Arc<Node>) {
    if !node.roles.requires_login() {
        return;
    }
    let roles = Arc::clone(&node.roles);
    tokio::task::spawn_blocking(move || {
        if roles.has_default_password() {
            tracing::warn!(
                "the superuser {DEFAULT_SUPERUSER} still has its first password: ALTER ROLE {DEFAULT_SUPERUSER} WITH PASSWORD = '...'"
            );
        }
    });
}

/// Tells of doors that are open to everybody.
fn warn_of_open_doors(node: &Node, address: SocketAddr, key: Option<&Path>) {
    if !node.roles.requires_login() && !address.ip().to_canonical().is_loopback() {
        tracing::warn!(
            %address,
            "everybody who reaches this address may read and change everything: set auth.authenticator = \"password\", or listen on 127.0.0.1"
        );
    }
    let mode = key.and_then(|key| std::fs::metadata(key).ok()).map(|key| key.mode());
    if let (Some(key), Some(mode)) = (key, mode)
        && mode & 0o077 != 0
    {
        tracing::warn!(key = %key.display(), "others than its owner may read the key of the certificate: chmod 600");
    }
}
