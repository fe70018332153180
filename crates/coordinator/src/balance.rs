//! Once a second: how full and how busy are the physical partitions, what should change, and the
//! change itself. What is decided is `partition`'s business, and pure.

use partition::{
    Action, BalanceLimits, Halving, PartitionMap, PhysicalLoad, PhysicalPartition, Space,
    SpaceLoad, decide, halve,
};
use replica::ReplicaSets;
use schema::{Schema, Throughput};
use types::{RingRange, RingToken, SetId, TableId};

use crate::catalog::Catalog;
use crate::partitions::start_count;
use crate::traffic::Traffic;

/// Bytes and rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
}

/// One round: what should change, and the change itself.
pub(crate) fn balance(catalog: &Catalog) {
    let now_us = catalog.world.now_us();
    let limits = &catalog.settings.limits;
    catalog.traffic.tick(now_us, limits.merge_age_ms);
    let map = catalog.view.maps.load_full();
    let schema = catalog.schema();
    let loads: Vec<SpaceLoad> =
        map.spaces().map(|(space, _)| space_load(catalog, &map, &schema, space)).collect();
    for action in decide(&map, &loads, limits, now_us / 1000) {
        if !is_for_this_node(&action, catalog.agreement.is_some(), |set| catalog.leads(set)) {
            continue;
        }
        let done = match &action {
            Action::Split { space, set, at, reason } => {
                catalog.split_set(space, *set, *at, *reason)
            }
            Action::Merge { space, set } => {
                catalog.merge(space, *set, partition::Reason::Cold).map(drop)
            }
        };
        if let Err(error) = done {
            tracing::warn!(?action, %error, "a physical partition could not be changed");
        }
    }
    catalog.tidy_changes();
}

/// Whether a node carries out what was decided: a set of several members is split by whoever leads it, and never merged (D14).
fn is_for_this_node(action: &Action, is_one_of_many: bool, leads: impl Fn(SetId) -> bool) -> bool {
    match action {
        Action::Split { set, .. } => leads(*set),
        Action::Merge { .. } => !is_one_of_many,
    }
}

fn space_load(catalog: &Catalog, map: &PartitionMap, schema: &Schema, space: &Space) -> SpaceLoad {
    let partitions = map.partitions(space);
    let tables = tables_of(schema, space);
    let stored = stored(&catalog.replicas, &tables, partitions);
    let limits = &catalog.settings.limits;
    // Smaller ones are not split for their size, so where they would be halved is not computed.
    let much = limits.physical_bytes_max / 200;
    let loads = partitions.iter().zip(stored).map(|(partition, stored)| {
        let bytes_halved = match stored.bytes >= much.max(1) {
            true => halve(partition.range, &weights(&catalog.replicas, &tables, partition.range)),
            false => None,
        };
        partition_load(&catalog.traffic, limits, *partition, stored.bytes, bytes_halved)
    });
    let throughput = throughput_of(schema, space);
    SpaceLoad {
        space: space.clone(),
        provisioned_ru_s: throughput.map(ru_of),
        partition_count_min: start_count(throughput, &catalog.settings) as usize,
        partitions: loads.collect(),
    }
}

/// What some tables hold in each of some physical partitions.
pub(crate) fn stored(
    replicas: &ReplicaSets,
    tables: &[TableId],
    partitions: &[PhysicalPartition],
) -> Vec<Stored> {
    let mut all = vec![Stored::default(); partitions.len()];
    for table in tables {
        let ranges = partitions.iter().map(|partition| partition.range);
        let sizes = replicas.range_sizes(*table, ranges);
        for (stored, size) in all.iter_mut().zip(sizes) {
            stored.bytes += size.bytes;
            stored.rows += size.rows;
        }
    }
    all
}

/// How the bytes of some tables are distributed over a range: first position and bytes of each part, as fine as the
/// finest of the tables knows them.
pub(crate) fn weights(
    replicas: &ReplicaSets,
    tables: &[TableId],
    range: RingRange,
) -> Vec<(RingToken, u64)> {
    let mut all: Vec<(RingToken, u64)> = Vec::new();
    for table in tables {
        replicas.range_weights(*table, range, |token, bytes| {
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

/// What is known of a physical partition that holds so much.
fn partition_load(
    traffic: &Traffic,
    limits: &BalanceLimits,
    partition: PhysicalPartition,
    bytes: u64,
    bytes_halved: Option<Halving>,
) -> PhysicalLoad {
    let heat = traffic.heat(partition.set);
    let heat_halved = match heat.minute_ru_s >= limits.hot_ru_min {
        true => halve(partition.range, &traffic.parts(partition.set)),
        false => None,
    };
    PhysicalLoad {
        set: partition.set,
        bytes,
        ru_s: heat.minute_ru_s,
        peak_ru_s: heat.peak_ru_s,
        bytes_halved,
        heat_halved,
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

/// What was provisioned, or the maximum of autoscale, in request units per second.
pub(crate) fn ru_of(throughput: Throughput) -> u32 {
    match throughput {
        Throughput::Manual(ru) | Throughput::Autoscale(ru) => ru,
    }
}

#[cfg(test)]
mod tests {
    use partition::{Origin, Reason};

    use super::*;

    const SECOND_US: i64 = 1_000_000;
    const MINUTE_S: i64 = 60;
    const HOUR_S: i64 = 60 * MINUTE_S;
    const START_COUNT: u32 = 2;
    /// Positions that are asked for in a second, spread over a part of the ring.
    const PLACES: u128 = 256;

    /// A space without storage: its map, its traffic, and what was decided about them each second.
    struct Simulated {
        space: Space,
        map: PartitionMap,
        traffic: Traffic,
        limits: BalanceLimits,
        splits: u32,
        merges: u32,
    }

    impl Simulated {
        fn new() -> Simulated {
            let space = Space::Keyspace("ks".into());
            let map = PartitionMap::default().with_space(space.clone(), START_COUNT, 0);
            let traffic = Traffic::default();
            traffic.follow(&map, [].into_iter());
            let limits = BalanceLimits::default();
            Simulated { space, map, traffic, limits, splits: 0, merges: 0 }
        }

        /// One second with so many request units, evenly over the first `width` of 16 parts of the ring.
        fn second(&mut self, now_s: i64, ru_s: f64, width: u128) {
            let each = (ru_s * 1e6 / PLACES as f64) as u64;
            for place in (0..PLACES).filter(|_| each > 0) {
                let ring = RingToken(u128::MAX / 16 * width / PLACES * place);
                if let Some(partition) = self.map.locate_in(&self.space, ring) {
                    self.traffic.note_ring(partition, ring, each);
                }
            }
            self.traffic.tick(now_s * SECOND_US, self.limits.merge_age_ms);
            let partitions = self.map.partitions(&self.space).iter();
            let load = |it: &PhysicalPartition| {
                partition_load(&self.traffic, &self.limits, *it, 1_000_000, None)
            };
            let load = SpaceLoad {
                space: self.space.clone(),
                provisioned_ru_s: None,
                partition_count_min: START_COUNT as usize,
                partitions: partitions.map(load).collect(),
            };
            for action in decide(&self.map, &[load], &self.limits, now_s * 1000) {
                self.carry_out(&action, now_s);
            }
        }

        fn carry_out(&mut self, action: &Action, now_s: i64) {
            let origin = |reason| Origin { made_at_ms: now_s * 1000, reason };
            let next = match action {
                Action::Split { space, set, at, reason } => {
                    self.splits += 1;
                    self.map.with_split(space, *set, *at, origin(*reason))
                }
                Action::Merge { space, set } => {
                    self.merges += 1;
                    self.map.with_merge(space, *set, origin(Reason::Cold))
                }
            };
            let next = next.unwrap();
            let gone = self.map.sets_gone_in(&next);
            let is_new = |it: &&PhysicalPartition| self.map.origin(it.set).is_none();
            let made: Vec<PhysicalPartition> =
                next.partitions(&self.space).iter().filter(is_new).copied().collect();
            self.traffic.follow_step(&self.space, &gone, &made);
            self.map = next;
        }
    }

    #[test]
    fn sets_of_several_members_are_split_by_their_leaders_and_never_merged() {
        let (space, set) = (Space::Keyspace("ks".into()), SetId(3));
        let merge = Action::Merge { space: space.clone(), set };
        assert!(is_for_this_node(&merge, false, |_| true), "a node alone does");
        assert!(!is_for_this_node(&merge, true, |_| true), "also not by its leader");
        let (at, reason) = (RingToken(7), Reason::Heat);
        let split = Action::Split { space, set, at, reason };
        assert!(is_for_this_node(&split, true, |led| led == set));
        assert!(!is_for_this_node(&split, true, |_| false));
    }

    /// The real counters, the real decisions and the real map, second by second.
    #[test]
    fn an_hour_of_load_that_goes_up_and_down_does_not_make_the_map_swing() {
        for period_s in [2 * MINUTE_S, 10 * MINUTE_S, 30 * MINUTE_S] {
            let mut space = Simulated::new();
            let begin_s = 400_000 * HOUR_S;
            for passed_s in 0..HOUR_S {
                // From nothing to 8,000 RU/s on a sixteenth of the ring and back, like a tide.
                let part = (passed_s % period_s) as f64 / period_s as f64;
                let ru_s = 4_000.0 * (1.0 - (part * std::f64::consts::TAU).cos());
                space.second(begin_s + passed_s, ru_s, 1);
            }
            let told =
                format!("period {period_s} s: {} splits, {} merges", space.splits, space.merges);
            assert_eq!(space.merges, 0, "{told}");
            assert!((1..=12).contains(&space.splits), "{told}");
            // Each tide made it finer at most once more: a second hour like the first changes little.
            let after_one = space.splits;
            for passed_s in HOUR_S..2 * HOUR_S {
                let part = (passed_s % period_s) as f64 / period_s as f64;
                let ru_s = 4_000.0 * (1.0 - (part * std::f64::consts::TAU).cos());
                space.second(begin_s + passed_s, ru_s, 1);
            }
            assert_eq!(space.merges, 0, "{told}");
            assert!(space.splits - after_one <= 4, "{told}, then {}", space.splits);
            // When it stays quiet for hours, it becomes what it was, one merge at a time.
            for passed_s in 2 * HOUR_S..7 * HOUR_S {
                space.second(begin_s + passed_s, 0.0, 1);
            }
            assert_eq!(space.map.partitions(&space.space).len(), START_COUNT as usize, "{told}");
            assert_eq!(space.merges, space.splits, "{told}");
        }
    }
}
