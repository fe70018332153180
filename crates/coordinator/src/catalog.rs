//! The keeper of what is defined and where it lies: the schema, the partition map, and what was provisioned.
//!
//! Everybody may look, through the handles of a [`View`]; what changes them is here, in `definitions` (what a
//! statement asks for) and `partitions` (splits and merges), one change at a time. How busy and how full the physical
//! partitions are is counted beside, because that is what changes of the map are decided by.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use partition::{History, PartitionMap, Space};
use replica::budgets::Allowance;
use replica::group::SplitOff;
use replica::{NodeStore, ReplicaSets, Slots};
use schema::system::{
    LogicalPartitionFacts, MapChangeFacts, PhysicalPartitionFacts, ThroughputFacts, UsageFacts,
    VirtualRow,
};
use schema::{IndexBuildFacts, KeyspaceKind, NodeFacts, Schema, Table, Throughput};
use types::SetId;

use crate::admission::share_of;
use crate::agreement::Agreement;
use crate::balance::{self, throughput_of};
use crate::error::ExecuteError;
use crate::locks::{Rank, Ranked};
use crate::partitions::{CHANGES, kept_changes, place};
use crate::shared_traffic::SharedTraffic;
use crate::traffic::Traffic;
use crate::usage::Ledger;
use crate::view::View;
use crate::world::{Settings, World};
use crate::{partition_facts, unit_facts};

/// Keeps the schema and the partition map.
pub struct Catalog {
    pub(crate) view: View,
    pub(crate) replicas: ReplicaSets,
    /// The chores of this node.
    pub(crate) store: NodeStore,
    pub(crate) definition: Ranked<()>,
    pub(crate) saving: Ranked<()>,
    pub(crate) moving: Ranked<()>,
    /// Sets that were split off others on this node, whatever is agreed on.
    pub(crate) split_off: Ranked<Vec<SplitOff>>,
    pub(crate) history: Ranked<History>,
    /// Changes of the map that are not yet in the one that is kept as a whole.
    pub(crate) changes: Slots,
    /// The last change that the kept map and the kept history have; later ones are kept apart.
    pub(crate) saved_changes: AtomicU64,
    pub(crate) traffic: Arc<Traffic>,
    /// What the leaders of sets told of theirs.
    pub(crate) shared_traffic: Arc<SharedTraffic>,
    pub(crate) ledger: Ledger,
    pub(crate) settings: Settings,
    pub(crate) world: Arc<dyn World>,
    /// With the other nodes; `None` on a node that runs alone.
    pub(crate) agreement: Option<Arc<Agreement>>,
}

impl Catalog {
    /// The catalog of opened storage. `map` is the one that was kept, or an empty one; keyspaces it does not know get
    /// their physical partitions now.
    pub fn open(
        replicas: ReplicaSets,
        store: NodeStore,
        schemas: Arc<ArcSwap<Schema>>,
        map: PartitionMap,
        settings: Settings,
        world: Arc<dyn World>,
        agreement: Option<Arc<Agreement>>,
    ) -> Result<Catalog, ExecuteError> {
        let changes = store.open_slots(CHANGES).map_err(crate::error::failed)?;
        let kept = kept_changes(&store, &changes)?;
        let recent = kept.made_to(&map)?;
        let nodes = agreement.as_ref().map(|agreement| agreement.nodes()).unwrap_or_default();
        let next = match &agreement {
            // Physical partitions are made by agreement.
            Some(_) if recent.spaces().next().is_none() => recent,
            _ => place(&recent, &schemas.load(), &settings, &nodes, world.now_us() / 1000),
        };
        let next = Arc::new(next);
        let view = View::new(schemas, next);
        let writing = Arc::clone(&view.writing);
        store.locate_with(move |table, token| {
            writing.load().locate(table, token).map(|partition| partition.set)
        });
        let traffic: Arc<Traffic> = Arc::default();
        let shared_traffic = SharedTraffic::new(Arc::clone(&traffic), view.clone());
        let catalog = Catalog {
            ledger: Ledger::open(&store),
            view,
            replicas,
            store,
            definition: Ranked::new(Rank::Definition, ()),
            saving: Ranked::new(Rank::Saving, ()),
            moving: Ranked::new(Rank::Moving, ()),
            split_off: Ranked::new(Rank::Mapping, Vec::new()),
            history: Ranked::new(Rank::History, kept.history),
            changes,
            saved_changes: AtomicU64::new(kept.saved_number),
            traffic,
            shared_traffic: Arc::new(shared_traffic),
            settings,
            world,
            agreement,
        };
        if let Some(agreement) = &catalog.agreement {
            catalog.tell_ranges(agreement);
            catalog.share_load(agreement);
        }
        catalog.follow_map();
        if catalog.view.map().epoch() != map.epoch() {
            catalog.save_whole_map()?;
        }
        catalog.share_budgets();
        Ok(catalog)
    }

    /// The schema as it is now.
    pub fn schema(&self) -> Arc<Schema> {
        self.view.schemas.load_full()
    }

    /// Waits while writes are located with a map that names ended sets.
    pub(crate) fn wait_for_map(&self) {
        drop(self.moving.lock());
    }

    /// One round of splits and merges. Called every second by one thread, or as often as it is set.
    pub fn balance(&self) {
        if let Some(agreement) = &self.agreement {
            self.record_splits(agreement);
        }
        balance::balance(self);
    }

    /// Adds what the budgets were used for since the last time, and keeps it if asked to. To be called every few
    /// seconds, and at the end.
    pub fn record_usage(&self, keeps: bool) {
        self.ledger.record(self, keeps);
    }

    /// Every physical partition, in the order of spaces and rings.
    pub fn physical_partitions(&self, host_id: u128) -> Vec<PhysicalPartitionFacts> {
        partition_facts::physical_partitions(self, host_id)
    }

    /// The largest and hottest keys of every table of users.
    pub fn logical_partitions(&self) -> Vec<LogicalPartitionFacts> {
        partition_facts::logical_partitions(self)
    }

    /// Every split and merge that is remembered.
    pub fn map_changes(&self) -> Vec<MapChangeFacts> {
        partition_facts::map_changes(self)
    }

    /// What was provisioned, and what of it is used.
    pub fn throughput(&self) -> Vec<ThroughputFacts> {
        unit_facts::throughput_facts(self)
    }

    /// What was used by the hour, and what that costs.
    pub fn usage(&self) -> Vec<UsageFacts> {
        self.ledger.facts(self)
    }

    /// The spaces that have throughput, with it.
    pub(crate) fn provisioned(&self) -> Vec<(Space, Throughput, Vec<SetId>)> {
        let (schema, map) = (self.view.schema(), self.view.map());
        map.spaces()
            .filter_map(|(space, partitions)| {
                let throughput = throughput_of(&schema, space)?;
                let sets = partitions.iter().map(|partition| partition.set).collect();
                Some((space.clone(), throughput, sets))
            })
            .collect()
    }

    /// Gives each set of a provisioned space its share. Asked after every change of schema or map.
    pub(crate) fn share_budgets(&self) {
        let saves_bursts = self.settings.saves_bursts;
        let mut allowances = Vec::new();
        for (_, throughput, sets) in self.provisioned() {
            let rate = share_of(throughput, sets.len());
            allowances.extend(sets.into_iter().map(|set| Allowance { set, rate, saves_bursts }));
        }
        self.replicas.budgets().set(&allowances);
    }

    /// Counts traffic by the map as it is now.
    pub(crate) fn follow_map(&self) {
        let schema = self.view.schema();
        let keyspaces = schema.keyspaces.values();
        let stored = keyspaces.filter(|keyspace| keyspace.kind != KeyspaceKind::Virtual);
        let tables = stored.flat_map(|keyspace| keyspace.tables.values());
        let tables = tables.filter(|table| !table.is_virtual).map(|table| table.id);
        self.traffic.follow(&self.view.map(), tables);
    }

    /// The rows of a computed table, as this node computes them.
    pub fn virtual_rows(&self, table: &Table) -> Vec<VirtualRow> {
        schema::system::virtual_rows(table, &self.view.schema(), &self.facts(table))
    }

    /// What a table that the node computes is made from.
    pub(crate) fn facts(&self, table: &Table) -> NodeFacts {
        let mut facts = self.world.facts(table.name.as_ref() == "clients");
        partition_facts::add(self, table, &mut facts);
        if matches!(table.name.as_ref(), "index_builds" | "IndexInfo") {
            let builds = self.store.index_builds().into_iter();
            facts.index_builds = builds
                .map(|build| IndexBuildFacts {
                    index: build.index,
                    is_built: build.is_built,
                    row_count: build.row_count,
                    share: build.share,
                    started_at_ms: i64::from(build.started_s) * 1000,
                    finished_at_ms: i64::from(build.finished_s) * 1000,
                })
                .collect();
        }
        if table.keyspace.as_ref() == "system_helenus"
            && matches!(table.name.as_ref(), "jobs" | "events")
        {
            facts.journal = self.world.journal();
        }
        if table.keyspace.as_ref() == "system_views"
            || table.keyspace.as_ref() == "system_helenus"
                && matches!(table.name.as_ref(), "status" | "slow_statements")
        {
            facts.view = self.world.view(&table.name);
        }
        if table.keyspace.as_ref() == "system_auth" {
            facts.auth = self.world.auth();
        }
        unit_facts::add(self, table, &mut facts);
        facts
    }
}
