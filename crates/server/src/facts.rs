//! What the coordinator and the system tables ask of the node's surroundings.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use protocol::Event;
use schema::system::{
    AuthFacts, ClientFacts, ClusterFacts, JournalFacts, NamedRow, StatementFacts,
};
use schema::{NodeFacts, SchemaEvent};

use crate::clients::{Card, Clients};
use crate::config::{Loaded, Profile};
use crate::events::EventHub;
use crate::membership::Member;
use crate::session::CQL_VERSION;
use crate::statements::schema_change;
use crate::version::VERSION;
use crate::views::Views;
use crate::world::{self, Uuids};

/// The Cassandra version that we are compatible with.
pub(crate) const RELEASE_VERSION: &str = "5.0.5";
const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// Tokens of a node that is alone: it owns the whole ring whatever they are; several of them let
/// tools read in parallel.
const TOKEN_COUNT: i64 = 16;
/// Where other nodes would connect; nobody listens there while a node is alone, but drivers are told.
const INTERNODE_PORT: u16 = 7000;

/// The node as its system tables show it.
pub(crate) struct NodeWorld {
    /// What does not change while it runs.
    lasting: NodeFacts,
    uuids: Arc<Uuids>,
    hub: Arc<EventHub>,
    clients: Arc<Clients>,
    statements: OnceLock<StatementSource>,
    auth: OnceLock<AuthSource>,
    cluster: OnceLock<ClusterSource>,
    journal: OnceLock<JournalSource>,
    views: OnceLock<Views>,
    status: OnceLock<StatusSource>,
}

/// Tells the rows of `system_helenus.status`.
type StatusSource = Box<dyn Fn() -> Vec<NamedRow> + Send + Sync>;

/// Tells roles and permissions.
type AuthSource = Box<dyn Fn() -> AuthFacts + Send + Sync>;

/// Tells of the other nodes.
type ClusterSource = Box<dyn Fn() -> ClusterFacts + Send + Sync>;

/// Tells what happened in the cluster.
type JournalSource = Box<dyn Fn() -> JournalFacts + Send + Sync>;

/// Tells what prepared statements cost.
type StatementSource = Box<dyn Fn() -> Vec<StatementFacts> + Send + Sync>;

impl NodeWorld {
    pub(crate) fn new(
        loaded: &Loaded,
        address: SocketAddr,
        host_id: u128,
        own: Option<&Member>,
        uuids: Arc<Uuids>,
        hub: Arc<EventHub>,
        clients: Arc<Clients>,
    ) -> NodeWorld {
        let config = &loaded.config;
        let told = config.server.broadcast_address.unwrap_or_else(|| reachable(address.ip()));
        let started_us = world::now_us();
        let lasting = NodeFacts {
            host_id,
            cluster_name: config.server.cluster_name.clone(),
            data_center: config.server.data_center.clone(),
            rack: config.server.rack.clone(),
            listen_address: own.map_or(told, |own| own.mesh.ip()),
            listen_port: own.map_or(INTERNODE_PORT, |own| own.mesh.port()),
            broadcast_address: own.map_or(told, |own| own.mesh.ip()),
            broadcast_port: own.map_or(INTERNODE_PORT, |own| own.mesh.port()),
            rpc_address: told,
            rpc_port: address.port(),
            tokens: own.map_or_else(tokens, |own| own.tokens.iter().map(i64::to_string).collect()),
            release_version: RELEASE_VERSION.to_owned(),
            cql_version: CQL_VERSION.to_owned(),
            native_protocol_version: "5".to_owned(),
            partitioner: PARTITIONER.to_owned(),
            gossip_generation: i32::try_from(started_us / 1_000_000).unwrap_or(i32::MAX),
            truncated_at: BTreeMap::new(),
            helenus_version: VERSION.to_owned(),
            data_dir: config.server.data_dir.display().to_string(),
            profile: match config.profile {
                Profile::Default => "default".to_owned(),
                Profile::Cosmos => "cosmos".to_owned(),
            },
            started_at_ms: started_us / 1000,
            now_ms: started_us / 1000,
            settings: loaded
                .pairs()
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .collect(),
            clients: Vec::new(),
            view: Vec::new(),
            estimates: Vec::new(),
            partitions: Default::default(),
            index_builds: Vec::new(),
            units: Default::default(),
            auth: Default::default(),
            cluster: Default::default(),
            journal: Default::default(),
        };
        let (statements, auth, cluster, journal, views, status) = Default::default();
        NodeWorld {
            lasting,
            uuids,
            hub,
            clients,
            statements,
            auth,
            cluster,
            journal,
            views,
            status,
        }
    }

    /// From now on prepared statements can be shown.
    pub(crate) fn set_statements(&self, source: StatementSource) {
        let _ = self.statements.set(source);
    }

    /// From now on roles can be shown.
    pub(crate) fn set_auth(&self, source: AuthSource) {
        let _ = self.auth.set(source);
    }

    /// From now on the other nodes can be shown, and what happened among them.
    pub(crate) fn set_cluster(&self, source: ClusterSource, journal: JournalSource) {
        let _ = self.cluster.set(source);
        let _ = self.journal.set(journal);
    }

    /// Works out what `system_views` tells as rates.
    pub(crate) fn tick(&self) {
        if let Some(views) = self.views.get() {
            views.tick();
        }
    }

    /// From now on it can be shown how the node is doing.
    pub(crate) fn set_status(&self, source: StatusSource) {
        let _ = self.status.set(source);
    }

    /// From now on what is counted can be shown.
    pub(crate) fn set_views(&self, views: Views) {
        let _ = self.views.set(views);
    }

    /// The host id, as text.
    pub(crate) fn host_id(&self) -> String {
        types::UuidText(self.lasting.host_id).to_string()
    }

    /// The host id.
    pub(crate) fn host_number(&self) -> u128 {
        self.lasting.host_id
    }

    pub(crate) fn started_at_ms(&self) -> i64 {
        self.lasting.started_at_ms
    }
}

impl coordinator::World for NodeWorld {
    fn now_us(&self) -> i64 {
        world::now_us()
    }

    fn fresh_id(&self) -> u128 {
        u128::from_be_bytes(self.uuids.time_uuid())
    }

    fn facts(&self, with_clients: bool) -> NodeFacts {
        NodeFacts {
            cluster: self.cluster.get().map(|tell| tell()).unwrap_or_default(),
            now_ms: world::now_us() / 1000,
            clients: if with_clients {
                self.clients.all().iter().map(|card| client_facts(card)).collect()
            } else {
                Vec::new()
            },
            ..self.lasting.clone()
        }
    }

    fn view(&self, table: &str) -> Vec<NamedRow> {
        match table {
            "status" => self.status.get().map(|tell| tell()).unwrap_or_default(),
            _ => self.views.get().map(|views| views.rows(table)).unwrap_or_default(),
        }
    }

    fn statements(&self) -> Vec<StatementFacts> {
        self.statements.get().map(|tell| tell()).unwrap_or_default()
    }

    fn auth(&self) -> AuthFacts {
        self.auth.get().map(|tell| tell()).unwrap_or_default()
    }

    fn journal(&self) -> JournalFacts {
        self.journal.get().map(|tell| tell()).unwrap_or_default()
    }

    fn on_schema_change(&self, event: &SchemaEvent) {
        let SchemaEvent { kind, target, keyspace, name } = event;
        tracing::info!(change = ?kind, of = ?target, %keyspace, %name, "a definition changed");
        self.hub.publish(Event::SchemaChange(schema_change(event)));
    }
}

impl plan::UuidSource for Uuids {
    fn time_uuid(&self) -> [u8; 16] {
        Uuids::time_uuid(self)
    }

    fn random_uuid(&self) -> [u8; 16] {
        Uuids::random_uuid(self)
    }
}

fn client_facts(card: &Card) -> ClientFacts {
    let details = card.details();
    ClientFacts {
        address: card.address.ip(),
        port: card.address.port(),
        options: details.options,
        stage: if details.is_ready { "ready".to_owned() } else { "established".to_owned() },
        keyspace: details.keyspace.map(|name| name.to_string()),
        protocol_version: details.version.map_or(0, |version| i32::from(version.number())),
        request_count: i64::try_from(card.request_count.load(Ordering::Relaxed))
            .unwrap_or(i64::MAX),
        ssl_cipher_suite: card.encryption.as_ref().map(|encryption| encryption.cipher.clone()),
        ssl_protocol: card.encryption.as_ref().map(|encryption| encryption.protocol.clone()),
        username: details.role.map_or_else(|| "anonymous".to_owned(), |name| name.to_string()),
    }
}

/// A node that listens everywhere is told to be here.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) if v6.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => address,
    }
}

/// In the middle of equal parts of the ring.
fn tokens() -> Vec<String> {
    let part = (1_i128 << 64) / i128::from(TOKEN_COUNT);
    (0..i128::from(TOKEN_COUNT))
        .map(|index| i128::from(i64::MIN) + index * part + part / 2)
        .map(|token| token.to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lie_on_the_ring_in_order() {
        let tokens: Vec<i64> = tokens().iter().map(|token| token.parse().unwrap()).collect();
        assert_eq!(tokens.len(), 16);
        assert!(tokens.is_sorted());
        assert!(tokens[0] > i64::MIN);
    }
}
