//! A node that is not alone: its mesh, its members of replica sets and what it agrees on with the others, put together.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use cluster::{Identity, Mesh, MeshBounds, MeshOptions, PeerStatus, Receiver};
use coordinator::{Agreement, Catalog};
use parking_lot::Mutex;
use protocol::{Event, NodeStatus};
use replica::group::{
    Driver, Groups, HostOptions, MemberStatus, NodeMessage, Now, Replaced, Role, SharedDocuments,
    TICK_MS, Told, Transport,
};
use schema::system::{ClusterFacts, PeerFacts, ReplicaFacts};
use storage::Storage;
use types::NodeId;

use crate::auth::{RoleKeeper, SharedRoles};
use crate::config::{CommitMode, Config};
use crate::door;
use crate::events::EventHub;
use crate::facts::RELEASE_VERSION;
use crate::membership::Membership;
use crate::metrics::Gauge;
use crate::node::StartError;
use crate::world;

/// How often it is looked which nodes are alive.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How often somebody who waits is told for what.
const TOLD_INTERVAL: Duration = Duration::from_secs(5);
/// So long nobody is asked again after nobody answered.
const FIRST_ROUND: Duration = Duration::from_millis(50);

/// What a node has that is not alone.
pub(crate) struct ClusterNode {
    pub(crate) membership: Membership,
    pub(crate) groups: Groups,
    pub(crate) agreement: Arc<Agreement>,
    /// Taken when it starts.
    driver: Mutex<Option<(Driver, Identity)>>,
    mesh: Mutex<Option<Arc<Mesh>>>,
    data_center: String,
    rack: String,
    bounds: MeshBounds,
    storage: Arc<Storage>,
}

/// Hands what other nodes say to the members.
struct Ears(Groups);

impl Receiver for Ears {
    fn receive(&self, from: NodeId, messages: Vec<NodeMessage>) {
        self.0.receive(from, messages);
    }

    fn link_broke(&self, node: NodeId) {
        self.0.link_broke(node);
    }
}

struct Voice(Arc<Mesh>);

impl Transport for Voice {
    fn send_all(&self, messages: Vec<(NodeId, NodeMessage)>) {
        if !messages.is_empty() {
            self.0.send_all(messages);
        }
    }
}

fn clock() -> Now {
    Now { ms: world::steady_us() / 1000, clock_us: world::now_us() }
}

/// A frame holds the largest write there can be, and a queue several of them.
fn bounds(config: &Config) -> MeshBounds {
    let defaults = MeshBounds::default();
    let segment = usize::try_from(config.storage.log_segment).unwrap_or(usize::MAX);
    let frame_bytes_max = defaults.frame_bytes_max.max(segment);
    let queue_bytes_max = defaults.queue_bytes_max.max(frame_bytes_max.saturating_mul(2));
    MeshBounds { frame_bytes_max, queue_bytes_max, ..defaults }
}

impl ClusterNode {
    /// Opens the members that storage has. Nothing moves before [`ClusterNode::start`].
    pub(crate) fn open(
        membership: Membership,
        identity: Identity,
        storage: &Arc<Storage>,
        config: &Config,
    ) -> Result<ClusterNode, StartError> {
        if config.storage.commit == CommitMode::Periodic {
            return Err(StartError::Cluster(
                "storage.commit = \"periodic\" is for nodes that run alone: what a replica set acknowledges is on the disks of a quorum".to_owned(),
            ));
        }
        let seed = world::random_bytes();
        let seed = seed.map_err(|error| StartError::Cluster(format!("no randomness: {error}")))?;
        let options = HostOptions {
            seed: u64::from_be_bytes(seed),
            log_bytes_kept: config.storage.log_max / 2,
            log_bytes_max: config.storage.log_max,
            ..HostOptions::default()
        };
        let timeouts = &config.timeouts;
        let longest = timeouts.write.max(timeouts.cas).max(timeouts.counter_write);
        let request_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        let (groups, driver) =
            Groups::open(membership.own, Arc::clone(storage), options, Arc::new(clock), request_ms)
                .map_err(StartError::Cluster)?;
        let documents = SharedDocuments::new(groups.clone(), Arc::clone(storage));
        let nodes = membership.members.iter().map(|member| member.node).collect();
        let agreement = Agreement::new(documents, groups.clone(), nodes);
        Ok(ClusterNode {
            membership,
            groups,
            agreement,
            driver: Mutex::new(Some((driver, identity))),
            mesh: Mutex::new(None),
            data_center: config.server.data_center.clone(),
            rack: config.server.rack.clone(),
            bounds: bounds(config),
            storage: Arc::clone(storage),
        })
    }

    /// Listens for the others, and has the members move. Inside a runtime.
    pub(crate) fn start(
        &self,
        catalog: &Arc<Catalog>,
        roles: &Arc<RoleKeeper>,
    ) -> Result<(), StartError> {
        let Some((driver, identity)) = self.driver.lock().take() else { return Ok(()) };
        catalog.hear_of_splits();
        roles.share(self.shared_roles()).map_err(StartError::Roles)?;
        roles.follow().map_err(StartError::Roles)?;
        let Some(own) = self.membership.own() else { return Ok(()) };
        let address = own.mesh;
        let listening = door::listen(address).and_then(|listener| listener.into_std());
        let listener: TcpListener = listening.map_err(|error| StartError::Listen {
            setting: "helenus demo --mesh-port",
            address,
            error,
        })?;
        let options = MeshOptions {
            cluster_id: self.membership.cluster_id,
            own: self.membership.own,
            identity,
            bounds: self.bounds,
        };
        let mesh = Mesh::open(options, listener, Arc::new(Ears(self.groups.clone())))
            .map_err(StartError::Runtime)?;
        mesh.set_peers(self.membership.peers());
        *self.mesh.lock() = Some(Arc::clone(&mesh));
        driver.start(Arc::new(Voice(mesh))).map_err(StartError::Runtime)?;
        catalog.follow_agreed().map_err(StartError::Catalog)?;
        let (agreement, catalog) = (Arc::clone(&self.agreement), Arc::downgrade(catalog));
        let roles = Arc::downgrade(roles);
        std::thread::Builder::new()
            .name("helenus-follow".into())
            .spawn(move || follow(&agreement, &catalog, &roles))
            .map_err(StartError::Runtime)?;
        Ok(())
    }

    /// Waits until the nodes agreed on something for the first time; a node that did before goes on with what it knows.
    pub(crate) async fn ready(&self, catalog: &Arc<Catalog>, roles: &Arc<RoleKeeper>) {
        let mut told = world::now();
        while self.agreement.followed() == 0 || !roles.is_agreed() {
            let (asked, roles) = (Arc::clone(catalog), Arc::clone(roles));
            let agree = move || {
                let is_agreed = asked.agree_first().map_err(|error| error.to_string())?;
                if is_agreed {
                    roles.agree_first()?;
                }
                Ok::<bool, String>(is_agreed)
            };
            match tokio::task::spawn_blocking(agree).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "nothing is agreed on yet"),
                Err(_) => tracing::error!("agreeing panicked"),
            }
            if world::now().duration_since(told) >= TOLD_INTERVAL {
                told = world::now();
                let (alive, nodes) =
                    (self.groups.told().alive.len(), self.membership.members.len());
                tracing::warn!(alive, nodes, "waiting for the other nodes of the cluster");
            }
            tokio::time::sleep(FIRST_ROUND).await;
        }
    }

    /// Tells clients of nodes that come and go.
    pub(crate) async fn watch(self: Arc<ClusterNode>, hub: Arc<EventHub>) {
        let mut rounds = tokio::time::interval(LOOK_INTERVAL);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut known: Option<BTreeSet<NodeId>> = None;
        loop {
            rounds.tick().await;
            let alive = self.groups.told().alive.clone();
            if let Some(before) = &known {
                for member in self.membership.others() {
                    let status = match (before.contains(&member.node), alive.contains(&member.node))
                    {
                        (false, true) => NodeStatus::Up,
                        (true, false) => NodeStatus::Down,
                        _ => continue,
                    };
                    tracing::info!(node = member.node.0, ?status, "another node");
                    hub.publish(Event::StatusChange { status, address: member.clients });
                }
            }
            known = Some(alive);
        }
    }

    /// What the system tables show.
    pub(crate) fn facts(&self) -> ClusterFacts {
        let told = self.groups.told();
        let shown = u64::try_from(self.agreement.followed()).unwrap_or(0);
        let peers = self.membership.others().map(|member| PeerFacts {
            address: member.mesh.ip(),
            port: member.mesh.port(),
            rpc_address: member.clients.ip(),
            rpc_port: member.clients.port(),
            host_id: member.host_id,
            data_center: self.data_center.clone(),
            rack: self.rack.clone(),
            release_version: RELEASE_VERSION.to_owned(),
            tokens: member.tokens.iter().map(i64::to_string).collect(),
            is_agreed: !told.alive.contains(&member.node) || told.others_show >= shown,
        });
        ClusterFacts { peers: peers.collect(), replicas: replicas(self.membership.own, &told) }
    }

    /// Tells what the system tables show, as long as the node runs.
    pub(crate) fn teller(self: &Arc<ClusterNode>) -> Box<dyn Fn() -> ClusterFacts + Send + Sync> {
        let told = Arc::downgrade(self);
        Box::new(move || told.upgrade().map(|cluster| cluster.facts()).unwrap_or_default())
    }

    /// The roles, as all nodes agree on them.
    fn shared_roles(&self) -> Box<dyn SharedRoles> {
        Box::new(RolesDocument {
            documents: self.agreement.documents().clone(),
            storage: Arc::clone(&self.storage),
        })
    }

    /// How the links are.
    pub(crate) fn links(&self) -> Vec<PeerStatus> {
        self.mesh.lock().as_ref().map(|mesh| mesh.peers()).unwrap_or_default()
    }

    /// What is counted of members and links.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let told = self.groups.told();
        let links = self.links();
        let gauge =
            |name, help, value: u64| Gauge { name, help, is_counter: false, value: value as f64 };
        let counter =
            |name, help, value: u64| Gauge { name, help, is_counter: true, value: value as f64 };
        let count = |test: &dyn Fn(&MemberStatus) -> bool| {
            told.members.iter().filter(|member| test(member)).count() as u64
        };
        let sum = |of: &dyn Fn(&PeerStatus) -> u64| links.iter().map(of).sum();
        let lag = told.members.iter().map(|it| it.commit.saturating_sub(it.applied)).max();
        let short = |it: &MemberStatus| it.voters.iter().any(|node| !told.alive.contains(node));
        vec![
            gauge(
                "helenus_cluster_nodes_alive",
                "Nodes that are alive, this one included.",
                told.alive.len() as u64,
            ),
            gauge(
                "helenus_replica_members",
                "Members of replica sets on this node.",
                told.members.len() as u64,
            ),
            gauge(
                "helenus_replica_leaders",
                "Replica sets that this node leads.",
                count(&|it| it.role == Role::Leader),
            ),
            gauge(
                "helenus_replica_without_leader",
                "Members that know of no leader.",
                count(&|it| it.leader.is_none()),
            ),
            gauge(
                "helenus_replica_short",
                "Replica sets with members on nodes that are not alive.",
                count(&short),
            ),
            gauge(
                "helenus_replica_frozen",
                "Members that take part in nothing any more.",
                count(&|it| it.frozen.is_some()),
            ),
            gauge(
                "helenus_replica_lag_entries",
                "Entries that are committed and not applied, of the member that is furthest behind.",
                lag.unwrap_or(0),
            ),
            gauge(
                "helenus_mesh_connected",
                "Nodes that this one has a connection to.",
                sum(&|it| u64::from(it.connected)),
            ),
            gauge(
                "helenus_mesh_queued_bytes",
                "Bytes that wait to be sent to other nodes.",
                sum(&|it| it.queued_bytes),
            ),
            gauge(
                "helenus_mesh_round_trip_microseconds",
                "The longest time to another node and back.",
                links.iter().filter_map(|it| it.round_trip_us).max().unwrap_or(0),
            ),
            counter(
                "helenus_mesh_sent_bytes_total",
                "Bytes that were sent to other nodes.",
                sum(&|it| it.sent_bytes),
            ),
            counter(
                "helenus_mesh_received_bytes_total",
                "Bytes that came from other nodes.",
                sum(&|it| it.received_bytes),
            ),
            counter(
                "helenus_mesh_dropped_total",
                "Messages to other nodes that were not sent.",
                sum(&|it| it.dropped),
            ),
        ]
    }

    /// Ends everything that moves.
    pub(crate) fn close(&self) {
        self.agreement.close();
        self.groups.close();
        if let Some(mesh) = self.mesh.lock().take() {
            mesh.close();
        }
    }
}

/// The document of the roles.
struct RolesDocument {
    documents: SharedDocuments,
    storage: Arc<Storage>,
}

const ROLES: &str = "roles";
/// The version of them that this node shows, in its folder.
const ROLES_SHOWN: &str = "roles-agreed";

impl SharedRoles for RolesDocument {
    fn replace(&self, known: i64, bytes: &[u8]) -> Result<bool, String> {
        let known = (known > 0).then_some(known);
        let body = Bytes::copy_from_slice(bytes);
        let replaced = self.documents.replace(ROLES, known, body, world::write_us());
        replaced.map(|it| it == Replaced::Done).map_err(|error| error.to_string())
    }

    fn newest(&self) -> Result<(i64, Vec<u8>), String> {
        if !self.documents.catch_up() {
            return Err("too few nodes of the cluster answer".to_owned());
        }
        self.known()
    }

    fn known(&self) -> Result<(i64, Vec<u8>), String> {
        let document = self.documents.read(ROLES).map_err(|error| error.to_string())?;
        Ok(document.map_or((0, Vec::new()), |it| (it.version, it.body.to_vec())))
    }

    fn shown(&self) -> Result<i64, String> {
        let kept = self.storage.load_document(ROLES_SHOWN).map_err(|error| error.to_string())?;
        let Some(bytes) = kept else { return Ok(0) };
        let version = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
        version.ok_or_else(|| "the kept version of the roles cannot be read".to_owned())
    }

    fn show(&self, version: i64) -> Result<(), String> {
        let text = version.to_string();
        let saved = self.storage.save_document(ROLES_SHOWN, text.as_bytes());
        saved.map_err(|error| error.to_string())
    }
}

/// Has the catalog become what was agreed on, again and again.
fn follow(agreement: &Agreement, catalog: &Weak<Catalog>, roles: &Weak<RoleKeeper>) {
    while agreement.wait() {
        let (Some(catalog), Some(roles)) = (catalog.upgrade(), roles.upgrade()) else { return };
        if let Err(error) = roles.follow() {
            tracing::error!(%error, "the roles that the cluster agreed on cannot be followed");
        }
        if let Err(error) = catalog.follow_agreed() {
            tracing::error!(%error, "what the cluster agreed on cannot be followed");
        }
    }
}

/// The members of this node, and those of others where this one leads.
fn replicas(own: NodeId, told: &Told) -> Vec<ReplicaFacts> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut rows = Vec::new();
    for member in &told.members {
        let role = match member.role {
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
        };
        rows.push(ReplicaFacts {
            set: member.set.0,
            node: own.0,
            replica: member.replica.0,
            role: role.to_owned(),
            term: Some(number(member.term)),
            leader: member.leader.map(|leader| leader.0),
            commit_index: Some(number(member.commit)),
            applied_index: Some(number(member.applied)),
            last_index: number(member.last),
            lag: number(member.commit.saturating_sub(member.applied)),
            silent_ms: Some(number(member.silent_ticks * TICK_MS)),
            frozen: member.frozen.clone(),
        });
        for (node, matched) in member.matched.iter().filter(|(node, _)| *node != own) {
            rows.push(ReplicaFacts {
                set: member.set.0,
                node: node.0,
                replica: node.0,
                role: "follower".to_owned(),
                term: None,
                leader: Some(own.0),
                commit_index: None,
                applied_index: None,
                last_index: number(*matched),
                lag: number(member.commit.saturating_sub(*matched)),
                silent_ms: None,
                frozen: None,
            });
        }
    }
    rows
}
