//! The map itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use types::{RingRange, RingToken, SetId, TableId};

/// One contiguous part of a space's ring, held by one replica set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalPartition {
    /// Its replica set, which is also its name.
    pub set: SetId,
    /// The keys it holds.
    pub range: RingRange,
}

/// The name of a partition space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// All tables of a keyspace that have no space of their own.
    Keyspace(Arc<str>),
}

/// Where everything is, at one epoch.
#[derive(Clone, Debug, Default)]
pub struct PartitionMap {
    pub(crate) epoch: u64,
    pub(crate) next_set: u32,
    pub(crate) spaces: BTreeMap<Space, Arc<[PhysicalPartition]>>,
    tables: HashMap<TableId, Arc<[PhysicalPartition]>, foldhash::fast::FixedState>,
}

impl PartitionMap {
    /// How often the map has changed.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The spaces and their physical partitions, each in the order of the ring.
    pub fn spaces(&self) -> impl Iterator<Item = (&Space, &[PhysicalPartition])> {
        self.spaces.iter().map(|(space, partitions)| (space, partitions.as_ref()))
    }

    /// The physical partition of a table's key; `None` when the table is not in the map.
    pub fn locate(&self, table: TableId, token: RingToken) -> Option<PhysicalPartition> {
        let partitions = self.tables.get(&table)?;
        // The first one that does not end before the token holds it: together they cover the ring.
        let index = partitions.partition_point(|partition| partition.range.last < token);
        partitions.get(index).copied()
    }

    /// The physical partitions that share keys with a part of the ring, in its order.
    pub fn overlapping(
        &self,
        table: TableId,
        range: RingRange,
    ) -> impl Iterator<Item = PhysicalPartition> + '_ {
        let partitions = self.tables.get(&table).map(AsRef::as_ref).unwrap_or_default();
        let first = partitions.partition_point(|partition| partition.range.last < range.start);
        partitions
            .iter()
            .skip(first)
            .take_while(move |partition| partition.range.start <= range.last)
            .copied()
    }

    /// A map that has the space too, cut into equal parts of the ring. A space that exists stays.
    pub fn with_space(&self, space: Space, partition_count: u32) -> PartitionMap {
        let mut map = self.clone();
        if map.spaces.contains_key(&space) {
            return map;
        }
        let count = partition_count.max(1);
        let step = u128::MAX / u128::from(count);
        let partitions: Arc<[PhysicalPartition]> = (0..count)
            .map(|index| {
                let start = RingToken(step * u128::from(index));
                let last = if index + 1 == count {
                    RingToken(u128::MAX)
                } else {
                    RingToken(step * u128::from(index + 1) - 1)
                };
                let set = SetId(map.next_set + index);
                PhysicalPartition { set, range: RingRange { start, last } }
            })
            .collect();
        map.next_set += count;
        map.epoch += 1;
        map.spaces.insert(space, partitions);
        map
    }

    /// A map without the space. Its sets' numbers are not used again.
    pub fn without_space(&self, space: &Space) -> PartitionMap {
        let mut map = self.clone();
        if map.spaces.remove(space).is_some() {
            map.epoch += 1;
        }
        map
    }

    /// The map with every table of a schema placed in its space. Tables of a space that the map
    /// does not have are left out: they are not stored.
    pub fn with_tables(&self, tables: impl Iterator<Item = (TableId, Space)>) -> PartitionMap {
        let mut map = self.clone();
        map.tables = tables
            .filter_map(|(table, space)| Some((table, Arc::clone(self.spaces.get(&space)?))))
            .collect();
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId(7);

    fn map_of(count: u32) -> PartitionMap {
        let space = Space::Keyspace("ks".into());
        PartitionMap::default()
            .with_space(space.clone(), count)
            .with_tables([(TABLE, space)].into_iter())
    }

    #[test]
    fn every_token_lies_in_exactly_one() {
        for count in [1, 2, 3, 7, 10_000] {
            let map = map_of(count);
            let all: Vec<_> = map.overlapping(TABLE, RingRange::FULL).collect();
            assert_eq!(all.len(), count as usize);
            assert_eq!(all[0].range.start, RingToken(0));
            assert_eq!(all[all.len() - 1].range.last, RingToken(u128::MAX));
            for pair in all.windows(2) {
                assert_eq!(pair[0].range.last.0 + 1, pair[1].range.start.0);
            }
            for partition in &all {
                assert_eq!(map.locate(TABLE, partition.range.start), Some(*partition));
                assert_eq!(map.locate(TABLE, partition.range.last), Some(*partition));
            }
        }
    }

    #[test]
    fn overlapping_is_clamped_to_the_range() {
        let map = map_of(4);
        let all: Vec<_> = map.overlapping(TABLE, RingRange::FULL).collect();
        let inner = RingRange { start: all[1].range.last, last: all[2].range.start };
        let found: Vec<_> = map.overlapping(TABLE, inner).map(|p| p.set).collect();
        assert_eq!(found, [all[1].set, all[2].set]);
    }

    #[test]
    fn set_numbers_are_never_used_twice() {
        let space = |name: &str| Space::Keyspace(name.into());
        let map = PartitionMap::default().with_space(space("a"), 2);
        let map = map.without_space(&space("a")).with_space(space("b"), 1);
        let (_, partitions) = map.spaces().next().unwrap();
        assert_eq!(partitions[0].set, SetId(2));
        assert_eq!(map.epoch(), 3);
    }
}
