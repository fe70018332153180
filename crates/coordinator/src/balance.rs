//! Once a second: how full and how busy are the physical partitions, what should change, and the
//! change itself. What is decided is `partition`'s business, and pure.

use partition::{
    Action, NodeLoad, PartitionLoad, PartitionMap, PhysicalPartition, Space, SpaceLoad, decide,
    halve,
};
use schema::{Schema, Throughput};
use types::{RingRange, RingToken, TableId};

use crate::coordinator::Coordinator;
use crate::error::ExecuteError;
use crate::partitions::start_count;

/// Bytes and rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
}

impl Coordinator {
    /// One round. Called every second by one thread, or as often as it is set.
    pub fn balance(&self) {
        let now_us = self.world.now_us();
        self.traffic.tick(now_us, self.settings.limits.merge_age_ms);
        let map = self.map.load_full();
        let schema = self.schema.load_full();
        let loads: Vec<SpaceLoad> =
            map.spaces().map(|(space, _)| self.space_load(&map, &schema, space)).collect();
        let bytes = loads.iter().flat_map(|load| &load.partitions).map(|it| it.bytes).sum();
        let nodes =
            [NodeLoad { host_id: self.world.facts(false).host_id, bytes, is_writable: true }];
        for action in decide(&map, &loads, &self.settings.limits, &nodes, now_us / 1000) {
            let done = match &action {
                Action::Split { space, set, at, reason } => {
                    self.split_set(space, *set, *at, *reason)
                }
                Action::Merge { space, set } => {
                    self.merge(space, *set, partition::Reason::Cold).map(drop)
                }
            };
            if let Err(error) = done {
                tracing::warn!(?action, %error, "a physical partition could not be changed");
            }
        }
        self.tidy_changes();
    }

    fn split_set(
        &self,
        space: &Space,
        set: types::SetId,
        at: RingToken,
        reason: partition::Reason,
    ) -> Result<(), ExecuteError> {
        let _guard = self.definition.lock();
        let map = self.map.load_full();
        let found = map.partitions(space).iter().find(|partition| partition.set == set).copied();
        match found {
            Some(partition) => self.split_at(&map, space, partition, at, reason).map(drop),
            // Somebody was faster.
            None => Ok(()),
        }
    }

    fn space_load(&self, map: &PartitionMap, schema: &Schema, space: &Space) -> SpaceLoad {
        let partitions = map.partitions(space);
        let tables = tables_of(schema, space);
        let stored = self.stored(&tables, partitions);
        let limits = &self.settings.limits;
        // Below this nobody asks where the bytes are halved.
        let much = limits.physical_bytes_max / 200;
        let loads = partitions.iter().zip(stored).map(|(partition, stored)| {
            let heat = self.traffic.heat(partition.set);
            let bytes_halved = match stored.bytes >= much.max(1) {
                true => halve(partition.range, &self.weights(&tables, partition.range)),
                false => None,
            };
            let heat_halved = match heat.minute_ru_s >= limits.hot_ru_min {
                true => halve(partition.range, &self.traffic.parts(partition.set)),
                false => None,
            };
            PartitionLoad {
                set: partition.set,
                bytes: stored.bytes,
                ru_s: heat.minute_ru_s,
                peak_ru_s: heat.peak_ru_s,
                bytes_halved,
                heat_halved,
            }
        });
        let throughput = throughput_of(schema, space);
        SpaceLoad {
            space: space.clone(),
            provisioned_ru_s: throughput.map(ru_of),
            partition_count_min: start_count(throughput, &self.settings) as usize,
            partitions: loads.collect(),
        }
    }

    /// What some tables hold in each of some physical partitions.
    pub(crate) fn stored(
        &self,
        tables: &[TableId],
        partitions: &[PhysicalPartition],
    ) -> Vec<Stored> {
        let mut all = vec![Stored::default(); partitions.len()];
        for table in tables {
            let ranges = partitions.iter().map(|partition| partition.range);
            let sizes = self.replicas.storage().range_sizes(*table, ranges);
            for (stored, size) in all.iter_mut().zip(sizes) {
                stored.bytes += size.bytes;
                stored.rows += size.rows;
            }
        }
        all
    }

    /// How the bytes of some tables lie in a range, by the finest parts that any of them knows.
    pub(crate) fn weights(&self, tables: &[TableId], range: RingRange) -> Vec<(RingToken, u64)> {
        let mut all: Vec<(RingToken, u64)> = Vec::new();
        for table in tables {
            self.replicas.storage().range_weights(*table, range, |token, bytes| {
                all.push((token, bytes));
            });
        }
        all.sort_unstable_by_key(|(token, _)| *token);
        all.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 += next.1;
            }
            is_same
        });
        all
    }
}

/// The tables whose keys lie in a space.
pub(crate) fn tables_of(schema: &Schema, space: &Space) -> Vec<TableId> {
    let Some(keyspace) = schema.keyspace(space.keyspace()) else { return Vec::new() };
    let tables = keyspace.tables.values().filter(|table| !table.is_virtual);
    let is_in = |table: &&std::sync::Arc<schema::Table>| match space {
        Space::Keyspace(_) => table.options.throughput.is_none(),
        Space::Table { table: name, .. } => table.name == *name,
    };
    tables.filter(is_in).map(|table| table.id).collect()
}

/// What was provisioned for a space.
pub(crate) fn throughput_of(schema: &Schema, space: &Space) -> Option<Throughput> {
    let keyspace = schema.keyspace(space.keyspace())?;
    match space {
        Space::Keyspace(_) => keyspace.options.throughput,
        Space::Table { table, .. } => keyspace.tables.get(table)?.options.throughput,
    }
}

/// The most request units per second.
pub(crate) fn ru_of(throughput: Throughput) -> u32 {
    match throughput {
        Throughput::Manual(ru) | Throughput::Autoscale(ru) => ru,
    }
}
