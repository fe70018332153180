//! What surrounds the coordinator: the clock, the node, and what was set.

use schema::system::{AuthFacts, JournalFacts, NamedRow, StatementFacts};
use schema::{NodeFacts, Profile, SchemaEvent};
use units::price::Prices;

use crate::page_state::PagingSecret;

/// What the coordinator needs from the world around it.
pub trait World: Send + Sync {
    /// Microseconds since the epoch.
    fn now_us(&self) -> i64;

    /// A time uuid that was never given out before.
    fn fresh_id(&self) -> u128;

    /// What the system tables tell of this node. Who is connected is asked for apart, because there
    /// may be many.
    fn facts(&self, with_clients: bool) -> NodeFacts;

    /// The rows of a table of `system_views` that tells what the server counted.
    fn view(&self, _table: &str) -> Vec<NamedRow> {
        Vec::new()
    }

    /// What prepared statements cost.
    fn statements(&self) -> Vec<StatementFacts> {
        Vec::new()
    }

    /// Roles and permissions.
    fn auth(&self) -> AuthFacts {
        AuthFacts::default()
    }

    /// Jobs and events of the cluster.
    fn journal(&self) -> JournalFacts {
        JournalFacts::default()
    }

    /// Told after a change of the schema can be seen.
    fn on_schema_change(&self, event: &SchemaEvent);
}

/// What does not change while a node runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of this data center.
    pub data_center: String,
    /// How many physical partitions a space without provisioning starts with.
    pub physical_per_space: u32,
    /// Whose behaviour to follow where Cassandra and Cosmos DB differ.
    pub profile: Profile,
    /// When physical partitions are split and merged.
    pub limits: partition::BalanceLimits,
    /// What a row may take, in bytes.
    pub row_bytes_max: Option<u64>,
    /// What a partition key may take, in bytes.
    pub partition_key_bytes_max: Option<u64>,
    /// What a logical partition may hold, in bytes.
    pub logical_bytes_max: u64,
    /// What throughput costs.
    pub prices: Prices,
    /// Whether budgets save what is not spent, for bursts.
    pub saves_bursts: bool,
    /// Whether spaces may have autoscale.
    pub autoscales: bool,
    /// Whether what requests do is counted, to be charged.
    pub counts_work: bool,
    /// Seals paging states.
    pub paging_secret: PagingSecret,
    /// Whether TRUNCATE and DROP keep what they remove.
    pub auto_snapshot: bool,
}
