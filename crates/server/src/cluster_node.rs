//! A node that is not alone: its mesh, its members of replica sets and what it agrees on with the others, put together.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use cluster::{Identity, Mesh, MeshBounds, MeshOptions, PeerStatus, Receiver};
use coordinator::{Agreement, Catalog};
use parking_lot::Mutex;
use partition::PartitionMap;
use partition::decide::NodeState;
use protocol::{Event, NodeStatus, TopologyChange};
use replica::group::{
    Driver, Groups, HostOptions, NodeMessage, Now, Replaced, Role, SYSTEM_SET, SharedDocuments,
    TICK_MS, Told, Transport, Wanted, WantedMembers,
};
use schema::system::{ClusterFacts, JournalFacts, PeerFacts, ReplicaFacts};
use storage::{Configuration, Storage};
use types::{NodeId, ReplicaId};

use crate::auth::{RoleKeeper, SharedRoles};
use crate::config::{CommitMode, Config};
use crate::door;
use crate::events::EventHub;
use crate::facts::RELEASE_VERSION;
use crate::gather::Gatherer;
use crate::membership::{Member, Membership};
use crate::node::StartError;
use crate::nodes::{Nodes, Steward, recovery};
use crate::world;

/// How often it is looked which nodes are alive.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How often somebody who waits is told for what.
const TOLD_INTERVAL: Duration = Duration::from_secs(5);
/// So long it is waited for others to say what time it is.
const TIME_WITHIN: Duration = Duration::from_secs(2);
/// So long nobody is asked again after nobody answered.
const FIRST_ROUND: Duration = Duration::from_millis(50);

/// What a node has that is not alone.
pub(crate) struct ClusterNode {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) groups: Groups,
    pub(crate) agreement: Arc<Agreement>,
    steward: OnceLock<Arc<Steward>>,
    gatherer: OnceLock<Arc<Gatherer>>,
    /// Taken when it starts.
    driver: Mutex<Option<(Driver, Identity)>>,
    mesh: Mutex<Option<Arc<Mesh>>>,
    bounds: MeshBounds,
    /// Where it listens for other nodes, where somebody said so.
    listens: Option<SocketAddr>,
    storage: Arc<Storage>,
}

/// Hands what other nodes say to the members.
struct Ears(Groups);

impl Receiver for Ears {
    fn receive(&self, from: NodeId, messages: Vec<NodeMessage>) {
        self.0.receive(from, messages);
    }

    fn attend(&self) {
        self.0.attend();
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

    fn knows(&self, node: NodeId, kind: u8) -> bool {
        self.0.knows(node, kind)
    }
}

fn clock() -> Now {
    Now { ms: world::steady_us() / 1000, clock_us: world::machine_us() }
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
        mut membership: Membership,
        identity: Identity,
        storage: &Arc<Storage>,
        config: &Config,
        lone_map: Option<&PartitionMap>,
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
        adopt_sets(&membership, storage, lone_map)?;
        let recovery = recovery::carry_out(&mut membership, storage)?;
        let timeouts = &config.timeouts;
        let longest = timeouts.write.max(timeouts.cas).max(timeouts.counter_write);
        let request_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        let (groups, driver) =
            Groups::open(membership.own, Arc::clone(storage), options, Arc::new(clock), request_ms)
                .map_err(StartError::Cluster)?;
        let documents = SharedDocuments::new(groups.clone(), Arc::clone(storage));
        let up = membership.members.iter().filter(|it| it.state == NodeState::Up);
        let places = up.map(Member::place).collect();
        let host_ids = membership.members.iter().map(|it| (it.node, it.host_id)).collect();
        let is_first = membership.is_first;
        let nodes = Nodes::new(
            membership,
            identity.clone(),
            documents.clone(),
            groups.clone(),
            Arc::clone(storage),
            config.cluster.heal_after,
            recovery,
        );
        let agreement = Agreement::new(documents, groups.clone(), places, host_ids, is_first);
        groups.meet(nodes.membership().members.iter().map(|it| it.node).collect());
        Ok(ClusterNode {
            nodes,
            groups,
            agreement,
            steward: OnceLock::new(),
            gatherer: OnceLock::new(),
            driver: Mutex::new(Some((driver, identity))),
            mesh: Mutex::new(None),
            bounds: bounds(config),
            listens: config.cluster.listen,
            storage: Arc::clone(storage),
        })
    }

    /// Listens for the others, and has the members move. Inside a runtime.
    pub(crate) fn start(
        &self,
        catalog: &Arc<Catalog>,
        roles: &Arc<RoleKeeper>,
        hub: &Arc<EventHub>,
    ) -> Result<(), StartError> {
        let Some((driver, identity)) = self.driver.lock().take() else { return Ok(()) };
        catalog.hear_of_splits();
        roles.share(self.shared_roles()).map_err(StartError::Roles)?;
        roles.follow().map_err(StartError::Roles)?;
        let membership = self.nodes.membership();
        let Some(own) = membership.own() else { return Ok(()) };
        // Others may know it by another address than the one it has.
        let address = self.listens.unwrap_or(own.mesh);
        let listening = door::listen(address).and_then(|listener| listener.into_std());
        let listener: TcpListener = listening.map_err(|error| StartError::Listen {
            setting: "cluster.listen",
            address,
            error,
        })?;
        let options = MeshOptions {
            cluster_id: membership.cluster_id,
            own: membership.own,
            identity,
            bounds: self.bounds,
        };
        let mesh = Mesh::open(options, listener, Arc::new(Ears(self.groups.clone())))
            .map_err(StartError::Runtime)?;
        mesh.set_peers(membership.peers());
        mesh.set_join_desk(Arc::clone(&self.nodes) as _);
        *self.mesh.lock() = Some(Arc::clone(&mesh));
        self.groups.set_wanted(self.wanted(catalog));
        driver.start(Arc::new(Voice(Arc::clone(&mesh)))).map_err(StartError::Runtime)?;
        catalog.follow_agreed().map_err(StartError::Catalog)?;
        let (agreement, catalog) = (Arc::clone(&self.agreement), Arc::downgrade(catalog));
        let roles = Arc::downgrade(roles);
        let (nodes, hub) = (Arc::clone(&self.nodes), Arc::clone(hub));
        std::thread::Builder::new()
            .name("helenus-follow".into())
            .spawn(move || follow(&agreement, (&nodes, &mesh, &hub), &catalog, &roles))
            .map_err(StartError::Runtime)?;
        Ok(())
    }

    /// Who is to belong to sets: the map says it, and of what all agree on the list of nodes.
    fn wanted(&self, catalog: &Arc<Catalog>) -> Wanted {
        let (nodes, catalog) = (Arc::downgrade(&self.nodes), Arc::downgrade(catalog));
        Box::new(move |set| {
            if set == SYSTEM_SET {
                return nodes.upgrade()?.system_members();
            }
            // A map that may be old wants nothing.
            if !nodes.upgrade()?.has_caught_up() {
                return None;
            }
            let (voters, learners) = catalog.upgrade()?.members_of(set);
            // One that still names nodes that went is about to be changed.
            let membership = nodes.upgrade()?.membership();
            let is_there = |node: &NodeId| membership.members.iter().any(|it| it.node == *node);
            if !voters.iter().chain(&learners).all(is_there) {
                return None;
            }
            Some(WantedMembers { voters, learners })
        })
    }

    /// Waits until the nodes agreed on something for the first time; a node that did before goes on with what it knows.
    pub(crate) async fn ready(&self, catalog: &Arc<Catalog>, roles: &Arc<RoleKeeper>) {
        let mut told = world::now();
        while self.agreement.followed() == 0 || !roles.is_agreed() || !self.nodes.are_agreed() {
            let (asked, roles) = (Arc::clone(catalog), Arc::clone(roles));
            let nodes = Arc::clone(&self.nodes);
            let agree = move || {
                let is_agreed = asked.agree_first().map_err(|error| error.to_string())?;
                if is_agreed {
                    roles.agree_first()?;
                    nodes.agree_first()?;
                }
                Ok::<bool, String>(is_agreed)
            };
            match tokio::task::spawn_blocking(agree).await {
                Ok(Ok(true)) => break,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "nothing is agreed on yet"),
                Err(_) => tracing::error!("agreeing panicked"),
            }
            if world::now().duration_since(told) >= TOLD_INTERVAL {
                told = world::now();
                let (alive, nodes) =
                    (self.groups.told().alive.len(), self.nodes.membership().members.len());
                tracing::warn!(alive, nodes, "waiting for the other nodes of the cluster");
            }
            tokio::time::sleep(FIRST_ROUND).await;
        }
        // Whoever is asked for something gives it a time. Where too few tell the time, nothing can be written either.
        let begun = world::now();
        while self.groups.told().time_offset_us.is_none()
            && world::now().duration_since(begun) < TIME_WITHIN
        {
            tokio::time::sleep(FIRST_ROUND).await;
        }
        self.groups.told().time_offset_us.into_iter().for_each(world::follow_cluster);
    }

    /// This node's own clients are told that it goes, as Cassandra's are.
    pub(crate) fn tell_of_end(&self, hub: &EventHub, is_removed: bool) {
        let membership = self.nodes.membership();
        let Some(address) = membership.own().map(|own| own.clients) else { return };
        hub.publish(match is_removed {
            true => Event::TopologyChange { change: TopologyChange::RemovedNode, address },
            false => Event::StatusChange { status: NodeStatus::Down, address },
        });
    }

    /// Tells clients of nodes that come and go.
    pub(crate) async fn watch(self: Arc<ClusterNode>, hub: Arc<EventHub>) {
        let mut rounds = tokio::time::interval(LOOK_INTERVAL);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut known: Option<BTreeSet<NodeId>> = None;
        loop {
            rounds.tick().await;
            let told = self.groups.told();
            told.time_offset_us.into_iter().for_each(world::follow_cluster);
            let alive = told.alive.clone();
            if let Some(before) = &known {
                for member in self.nodes.membership().others() {
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

    /// Who looks after the sets here.
    pub(crate) fn steward(&self, catalog: &Arc<Catalog>, host_id: u128) -> Arc<Steward> {
        let make = || Steward::new(Arc::clone(&self.nodes), Arc::clone(catalog), host_id);
        Arc::clone(self.steward.get_or_init(make))
    }

    /// What the system tables show.
    pub(crate) fn facts(&self) -> ClusterFacts {
        let told = self.groups.told();
        let shown = u64::try_from(self.agreement.followed()).unwrap_or(0);
        let membership = self.nodes.membership();
        let peers = membership.others().map(|member| PeerFacts {
            address: member.mesh.ip(),
            port: member.mesh.port(),
            rpc_address: member.clients.ip(),
            rpc_port: member.clients.port(),
            host_id: member.host_id,
            data_center: member.data_center.clone(),
            rack: member.rack.clone(),
            release_version: RELEASE_VERSION.to_owned(),
            tokens: member.tokens.iter().map(i64::to_string).collect(),
            is_agreed: !told.alive.contains(&member.node) || told.others_show >= shown,
        });
        let own = membership.own;
        ClusterFacts { own: Some(own.0), peers: peers.collect(), replicas: replicas(own, &told) }
    }

    /// Tells what the system tables show, as long as the node runs.
    pub(crate) fn teller(self: &Arc<ClusterNode>) -> Box<dyn Fn() -> ClusterFacts + Send + Sync> {
        let told = Arc::downgrade(self);
        Box::new(move || told.upgrade().map(|cluster| cluster.facts()).unwrap_or_default())
    }

    /// Who gathers rows of all nodes. Called once, inside a tokio runtime.
    pub(crate) fn gatherer(&self, catalog: &Arc<Catalog>) -> Arc<Gatherer> {
        let make = || Arc::new(Gatherer::new(&self.nodes, self.groups.clone(), catalog));
        let gatherer = self.gatherer.get_or_init(make);
        self.nodes.set_gatherer(Arc::clone(gatherer));
        Arc::clone(gatherer)
    }

    /// Tells of jobs and events, as long as the node runs.
    pub(crate) fn journal_teller(&self) -> Box<dyn Fn() -> JournalFacts + Send + Sync> {
        let told = Arc::downgrade(&self.nodes);
        Box::new(move || {
            let journal = told.upgrade().and_then(|nodes| nodes.journal().ok());
            journal.map(|journal| journal.facts()).unwrap_or_default()
        })
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

    /// Ends everything that moves.
    pub(crate) fn close(&self) {
        self.agreement.close();
        self.groups.close();
        if let Some(mesh) = self.mesh.lock().take() {
            mesh.close();
        }
    }
}

/// The sets of a node that ran alone go on as sets of which it has the only member.
fn adopt_sets(
    membership: &Membership,
    storage: &Storage,
    lone_map: Option<&PartitionMap>,
) -> Result<(), StartError> {
    // Who joins is handed everything.
    if !membership.is_first {
        return Ok(());
    }
    let own = membership.own;
    for partition in lone_map.iter().flat_map(|map| map.spaces()).flat_map(|(_, it)| it) {
        let configuration = Configuration::of_voters([(ReplicaId(own.0), own)]);
        let replica = ReplicaId(own.0);
        let adopted = storage.adopt_group(partition.set, replica, configuration, partition.range);
        adopted.map_err(|error| {
            StartError::Cluster(format!(
                "the sets of this node cannot get members elsewhere: {error}"
            ))
        })?;
    }
    Ok(())
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
fn follow(
    agreement: &Agreement,
    (nodes, mesh, hub): (&Nodes, &Arc<Mesh>, &EventHub),
    catalog: &Weak<Catalog>,
    roles: &Weak<RoleKeeper>,
) {
    while agreement.wait() {
        let (Some(catalog), Some(roles)) = (catalog.upgrade(), roles.upgrade()) else { return };
        if let Err(error) = nodes.follow(agreement, Some(mesh), hub) {
            tracing::error!(%error, "the nodes that the cluster agreed on cannot be followed");
        }
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
