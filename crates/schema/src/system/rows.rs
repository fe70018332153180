//! What a computed table holds.

use super::facts::{ClientFacts, NodeFacts, PeerFacts, RangeEstimate, ReplicaFacts};
use super::values::{self, Value};
use super::{job_rows, partition_rows, role_rows, schema_rows, unit_rows, virtual_schema_rows};
use crate::model::{Schema, Table};

/// A row of a computed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualRow {
    /// One value for each of the table's `columns`, in their order, encoded as the protocol has
    /// them; a collection is one value, frozen or not. `None` is null.
    pub values: Vec<Option<Vec<u8>>>,
}

/// All rows of a computed table, in no particular order. A table that has nothing to show, or is
/// not computed, has none.
pub fn virtual_rows(table: &Table, schema: &Schema, facts: &NodeFacts) -> Vec<VirtualRow> {
    let rows = match (&*table.keyspace, &*table.name) {
        ("system", "local") => vec![local(schema, facts)],
        ("system", "peers") => facts.cluster.peers.iter().map(|it| peer(schema, it)).collect(),
        ("system", "peers_v2") => {
            facts.cluster.peers.iter().map(|it| peer_v2(schema, it)).collect()
        }
        ("system_helenus", "replicas") => facts.cluster.replicas.iter().map(replica).collect(),
        ("system", "IndexInfo") => schema_rows::built_indexes(schema, facts),
        ("system", "size_estimates") => facts.estimates.iter().map(size_estimate).collect(),
        ("system", "table_estimates") => facts.estimates.iter().flat_map(table_estimates).collect(),
        ("system_auth", name) => role_rows::rows(name, &facts.auth),
        ("system_schema", name) => schema_rows::rows(name, schema),
        ("system_virtual_schema", name) => virtual_schema_rows::rows(name, schema),
        ("system_views", "clients") => facts.clients.iter().map(client).collect(),
        ("system_views", "settings") => facts
            .settings
            .iter()
            .map(|(name, value)| vec![("name", values::text(name)), ("value", values::text(value))])
            .collect(),
        ("system_views", _) | ("system_helenus", "status" | "slow_statements") => {
            facts.view.clone()
        }
        ("system_helenus", "index_builds") => schema_rows::index_builds(schema, facts),
        ("system_helenus", "node") => vec![node(facts)],
        ("system_helenus", name) => unit_rows::rows(name, &facts.units)
            .or_else(|| job_rows::rows(name, &facts.journal, &facts.cluster_name))
            .unwrap_or_else(|| partition_rows::rows(name, &facts.partitions)),
        _ => Vec::new(),
    };
    rows.into_iter().map(|row| ordered(table, row)).collect()
}

/// Columns of a row by name; those left out are null.
pub type NamedRow = Vec<(&'static str, Value)>;

fn ordered(table: &Table, mut row: NamedRow) -> VirtualRow {
    let values = table
        .columns
        .iter()
        .map(|column| {
            let named = row.iter_mut().find(|(name, _)| *name == &*column.name);
            named.and_then(|(_, value)| value.take())
        })
        .collect();
    VirtualRow { values }
}

fn local(schema: &Schema, facts: &NodeFacts) -> NamedRow {
    use values::{inet, int, map, port, set, text, uuid};
    let truncated =
        facts.truncated_at.iter().map(|(id, record)| (id.0.to_be_bytes().to_vec(), record.clone()));
    vec![
        ("key", text("local")),
        ("bootstrapped", text("COMPLETED")),
        ("broadcast_address", inet(facts.broadcast_address)),
        ("broadcast_port", port(facts.broadcast_port)),
        ("cluster_name", text(&facts.cluster_name)),
        ("cql_version", text(&facts.cql_version)),
        ("data_center", text(&facts.data_center)),
        ("gossip_generation", int(facts.gossip_generation)),
        ("host_id", uuid(facts.host_id)),
        ("listen_address", inet(facts.listen_address)),
        ("listen_port", port(facts.listen_port)),
        ("native_protocol_version", text(&facts.native_protocol_version)),
        ("partitioner", text(&facts.partitioner)),
        ("rack", text(&facts.rack)),
        ("release_version", text(&facts.release_version)),
        ("rpc_address", inet(facts.rpc_address)),
        ("rpc_port", port(facts.rpc_port)),
        ("schema_version", uuid(schema.version)),
        ("tokens", set(&facts.tokens)),
        ("truncated_at", if facts.truncated_at.is_empty() { None } else { map(truncated) }),
    ]
}

/// What both tables of peers tell of one.
fn peer_columns(schema: &Schema, peer: &PeerFacts) -> NamedRow {
    use values::{inet, set, text, uuid};
    // The version of another schema is not known here; that it is another one is what drivers ask.
    let version = if peer.is_agreed { schema.version } else { !schema.version };
    vec![
        ("peer", inet(peer.address)),
        ("data_center", text(&peer.data_center)),
        ("host_id", uuid(peer.host_id)),
        ("rack", text(&peer.rack)),
        ("release_version", text(&peer.release_version)),
        ("schema_version", uuid(version)),
        ("tokens", set(&peer.tokens)),
    ]
}

fn peer(schema: &Schema, peer: &PeerFacts) -> NamedRow {
    let mut row = peer_columns(schema, peer);
    row.push(("rpc_address", values::inet(peer.rpc_address)));
    row
}

fn peer_v2(schema: &Schema, peer: &PeerFacts) -> NamedRow {
    let mut row = peer_columns(schema, peer);
    row.push(("peer_port", values::port(peer.port)));
    row.push(("native_address", values::inet(peer.rpc_address)));
    row.push(("native_port", values::port(peer.rpc_port)));
    row
}

fn replica(replica: &ReplicaFacts) -> NamedRow {
    use values::{bigint, optional_text, text};
    let number = |number: u64| bigint(i64::try_from(number).unwrap_or(i64::MAX));
    vec![
        ("set_id", bigint(i64::from(replica.set))),
        ("node", number(replica.node)),
        ("replica", number(replica.replica)),
        ("role", text(&replica.role)),
        ("term", replica.term.and_then(bigint)),
        ("leader", replica.leader.and_then(number)),
        ("commit_index", replica.commit_index.and_then(bigint)),
        ("applied_index", replica.applied_index.and_then(bigint)),
        ("last_index", bigint(replica.last_index)),
        ("lag", bigint(replica.lag)),
        ("silent_ms", replica.silent_ms.and_then(bigint)),
        ("frozen", optional_text(replica.frozen.as_deref())),
    ]
}

fn size_estimate(estimate: &RangeEstimate) -> NamedRow {
    use values::{bigint, text};
    vec![
        ("keyspace_name", text(&estimate.keyspace)),
        ("table_name", text(&estimate.table)),
        ("range_start", text(&estimate.range_start)),
        ("range_end", text(&estimate.range_end)),
        ("mean_partition_size", bigint(estimate.mean_partition_bytes)),
        ("partitions_count", bigint(estimate.partition_count)),
    ]
}

/// What is the node's own is all that is primary to it, until it has neighbours.
fn table_estimates(estimate: &RangeEstimate) -> Vec<NamedRow> {
    ["local_primary", "primary"]
        .map(|range_type| {
            let mut row = size_estimate(estimate);
            row.push(("range_type", values::text(range_type)));
            row
        })
        .to_vec()
}

fn client(client: &ClientFacts) -> NamedRow {
    use values::{bigint, boolean, inet, int, optional_text, port, text, text_map};
    let option = |name: &str| optional_text(client.options.get(name).map(String::as_str));
    vec![
        ("address", inet(client.address)),
        ("port", port(client.port)),
        ("client_options", text_map(&client.options)),
        ("connection_stage", text(&client.stage)),
        ("driver_name", option("DRIVER_NAME")),
        ("driver_version", option("DRIVER_VERSION")),
        ("hostname", text(&client.address.to_string())),
        ("keyspace_name", optional_text(client.keyspace.as_deref())),
        ("protocol_version", int(client.protocol_version)),
        ("request_count", bigint(client.request_count)),
        ("ssl_cipher_suite", optional_text(client.ssl_cipher_suite.as_deref())),
        ("ssl_enabled", boolean(client.ssl_protocol.is_some())),
        ("ssl_protocol", optional_text(client.ssl_protocol.as_deref())),
        ("username", text(&client.username)),
    ]
}

fn node(facts: &NodeFacts) -> NamedRow {
    use values::{bigint, text, uuid};
    let uptime_ms = facts.now_ms.saturating_sub(facts.started_at_ms).max(0);
    vec![
        ("key", text("local")),
        ("cluster_name", text(&facts.cluster_name)),
        ("compatible_with", text(&facts.release_version)),
        ("data_dir", text(&facts.data_dir)),
        ("host_id", uuid(facts.host_id)),
        ("node", facts.cluster.own.and_then(|own| bigint(i64::try_from(own).unwrap_or(i64::MAX)))),
        ("profile", text(&facts.profile)),
        ("started_at", bigint(facts.started_at_ms)),
        ("uptime_s", bigint(uptime_ms / 1000)),
        ("version", text(&facts.helenus_version)),
    ]
}
