//! The map itself.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::placement::voter_count;
use types::{NodeId, RingRange, RingToken, SetId, TableId};

use crate::history::{MapChange, Step};

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
    /// One table with its own throughput.
    Table {
        keyspace: Arc<str>,
        /// Its name.
        table: Arc<str>,
    },
}

impl Space {
    /// The keyspace it belongs to.
    pub fn keyspace(&self) -> &Arc<str> {
        match self {
            Space::Keyspace(keyspace) | Space::Table { keyspace, .. } => keyspace,
        }
    }
}

/// `KEYSPACE` or `KEYSPACE.TABLE`.
impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Space::Keyspace(keyspace) => f.write_str(keyspace),
            Space::Table { keyspace, table } => write!(f, "{keyspace}.{table}"),
        }
    }
}

/// Why a physical partition was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its space was made.
    Created,
    /// The one before came near the limit of its storage.
    Storage,
    /// The space has more request units per second than its physical partitions may spend.
    Throughput,
    /// The one before was hot while others were idle.
    Heat,
    /// Somebody asked for it.
    Hand,
    /// Two small and cold ones became one.
    Cold,
    /// The tables of its space changed: one of them got or lost its own throughput.
    Regrouped,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 7] = [
        Reason::Created,
        Reason::Storage,
        Reason::Throughput,
        Reason::Heat,
        Reason::Hand,
        Reason::Cold,
        Reason::Regrouped,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Reason::Created => "created",
            Reason::Storage => "storage",
            Reason::Throughput => "throughput",
            Reason::Heat => "heat",
            Reason::Hand => "hand",
            Reason::Cold => "cold",
            Reason::Regrouped => "regrouped",
        }
    }

    /// The reason with that word.
    pub fn of_word(word: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.word() == word)
    }
}

/// When and why a physical partition was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Milliseconds since the epoch; zero where it is not known.
    pub made_at_ms: i64,
    pub reason: Reason,
}

/// The physical partitions of one space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    /// In the order of the ring; together they cover it once.
    pub(crate) partitions: Arc<[PhysicalPartition]>,
    /// Where to begin to look: for each value of a token's first `guide_bits` bits the first physical
    /// partition that does not end before it.
    guide: Arc<[u32]>,
    guide_bits: u32,
}

impl Cover {
    pub(crate) fn new(partitions: Vec<PhysicalPartition>) -> Cover {
        // Twice as many places as partitions: mostly one look is enough.
        let guide_bits = (partitions.len() * 2).next_power_of_two().trailing_zeros().min(20);
        let mut guide = Vec::with_capacity((1 << guide_bits) + 1);
        let mut index = 0u32;
        for place in 0..1u128 << guide_bits {
            let first = if guide_bits == 0 { 0 } else { place << (128 - guide_bits) };
            while partitions.get(index as usize).is_some_and(|part| part.range.last.0 < first) {
                index += 1;
            }
            guide.push(index);
        }
        guide.push(u32::try_from(partitions.len()).unwrap_or(u32::MAX));
        Cover { partitions: Arc::from(partitions), guide: Arc::from(guide), guide_bits }
    }

    /// Which one holds a token.
    fn index_of(&self, token: RingToken) -> usize {
        let place = token.0.checked_shr(128 - self.guide_bits).unwrap_or(0) as usize;
        let first = self.guide.get(place).copied().unwrap_or(0) as usize;
        let end = self.guide.get(place + 1).map_or(first, |next| *next as usize + 1);
        let part = self.partitions.get(first..end.min(self.partitions.len())).unwrap_or_default();
        match part.first() {
            // The first one that does not end before the token holds it: together they cover the ring.
            Some(one) if token <= one.range.last => first,
            _ => first + part.partition_point(|partition| partition.range.last < token),
        }
    }
}

/// The nodes that have a set's members, those that decide first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) nodes: Arc<[NodeId]>,
    /// So many of them decide; the others only follow.
    pub(crate) voters: usize,
    /// It begins with these: none of them came or went since.
    pub(crate) are_first: bool,
}

/// Where everything is, at one epoch.
#[derive(Clone, Debug, Default)]
pub struct PartitionMap {
    pub(crate) epoch: u64,
    pub(crate) next_set: u32,
    pub(crate) spaces: BTreeMap<Space, Cover>,
    pub(crate) origins: BTreeMap<SetId, Origin>,
    /// Of a node that runs alone: none.
    pub(crate) placed: BTreeMap<SetId, Placed>,
    tables: HashMap<TableId, Cover, foldhash::fast::FixedState>,
}

/// A change of the map that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapRefusal {
    /// There is no such space.
    NoSpace(Space),
    /// The space has no such physical partition.
    NoPartition(SetId),
    /// A physical partition must hold at least one token on each side of the place.
    NotInside {
        /// The partition.
        set: SetId,
        /// The place.
        at: RingToken,
    },
    /// It has no neighbour behind it.
    NoNeighbour(SetId),
}

impl fmt::Display for MapRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapRefusal::NoSpace(space) => write!(f, "there is no partition space {space}"),
            MapRefusal::NoPartition(set) => write!(f, "there is no physical partition {}", set.0),
            MapRefusal::NotInside { set, at } => write!(
                f,
                "physical partition {} cannot be split at token {}: nothing would be left on one side",
                set.0,
                at.token().0
            ),
            MapRefusal::NoNeighbour(set) => {
                write!(f, "physical partition {} is the last of its ring", set.0)
            }
        }
    }
}

impl std::error::Error for MapRefusal {}

impl PartitionMap {
    /// How often the map has changed.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The spaces and their physical partitions, each in the order of the ring.
    pub fn spaces(&self) -> impl Iterator<Item = (&Space, &[PhysicalPartition])> {
        self.spaces.iter().map(|(space, cover)| (space, cover.partitions.as_ref()))
    }

    /// The physical partitions of one space, in the order of the ring; none if there is no such space.
    pub fn partitions(&self, space: &Space) -> &[PhysicalPartition] {
        self.spaces.get(space).map(|cover| cover.partitions.as_ref()).unwrap_or_default()
    }

    /// When and why a physical partition was made.
    pub fn origin(&self, set: SetId) -> Option<Origin> {
        self.origins.get(&set).copied()
    }

    /// The nodes that have the members of a set, or are to have them; those that decide first. None on a node that runs alone.
    pub fn members(&self, set: SetId) -> &[NodeId] {
        self.placed.get(&set).map(|placed| placed.nodes.as_ref()).unwrap_or_default()
    }

    /// The same, if the set begins with them: none came or went since it was made.
    pub fn first_members(&self, set: SetId) -> Option<&[NodeId]> {
        let placed = self.placed.get(&set).filter(|placed| placed.are_first)?;
        Some(placed.nodes.as_ref())
    }

    /// Where a physical partition lies on the ring, and of which space it is.
    pub fn find_set(&self, set: SetId) -> Option<(&Space, PhysicalPartition)> {
        self.spaces().find_map(|(space, partitions)| {
            let found = partitions.iter().find(|partition| partition.set == set)?;
            Some((space, *found))
        })
    }

    /// The physical partition of a table's key; `None` when the table is not in the map.
    pub fn locate(&self, table: TableId, token: RingToken) -> Option<PhysicalPartition> {
        let cover = self.tables.get(&table)?;
        cover.partitions.get(cover.index_of(token)).copied()
    }

    /// The physical partition of a space that holds a token.
    pub fn locate_in(&self, space: &Space, token: RingToken) -> Option<PhysicalPartition> {
        let cover = self.spaces.get(space)?;
        cover.partitions.get(cover.index_of(token)).copied()
    }

    /// The physical partitions that share keys with a part of the ring, in its order.
    pub fn overlapping(
        &self,
        table: TableId,
        range: RingRange,
    ) -> impl Iterator<Item = PhysicalPartition> + '_ {
        let (partitions, first) = match self.tables.get(&table) {
            Some(cover) => (cover.partitions.as_ref(), cover.index_of(range.start)),
            None => (&[] as &[PhysicalPartition], 0),
        };
        partitions
            .iter()
            .skip(first)
            .take_while(move |partition| partition.range.start <= range.last)
            .copied()
    }

    /// Whether the keys of a table lie in that space.
    pub fn is_in(&self, table: TableId, space: &Space) -> bool {
        match (self.tables.get(&table), self.spaces.get(space)) {
            (Some(one), Some(other)) => Arc::ptr_eq(&one.partitions, &other.partitions),
            _ => false,
        }
    }

    /// The sets that this map has and the other has not.
    pub fn sets_gone_in(&self, other: &PartitionMap) -> Vec<SetId> {
        self.origins.keys().filter(|set| !other.origins.contains_key(set)).copied().collect()
    }

    /// A map that has the space too, cut into equal parts of the ring. A space that exists stays.
    pub fn with_space(&self, space: Space, partition_count: u32, now_ms: i64) -> PartitionMap {
        let mut map = self.clone();
        if map.spaces.contains_key(&space) {
            return map;
        }
        let origin = Origin { made_at_ms: now_ms, reason: Reason::Created };
        let partitions = even_ranges(partition_count)
            .map(|range| PhysicalPartition { set: map.give_set(origin), range })
            .collect();
        map.spaces.insert(space, Cover::new(partitions));
        map.epoch += 1;
        map
    }

    /// A map without the space. Its sets' numbers are not used again.
    pub fn without_space(&self, space: &Space) -> PartitionMap {
        let mut map = self.clone();
        if let Some(cover) = map.spaces.remove(space) {
            for partition in cover.partitions.iter() {
                map.forget(partition.set);
            }
            map.epoch += 1;
        }
        map
    }

    /// The same ranges under new numbers: what the old sets were asked for before and the new ones
    /// after can be told apart.
    pub fn with_fresh_sets(&self, space: &Space, now_ms: i64) -> PartitionMap {
        let Some(cover) = self.spaces.get(space) else { return self.clone() };
        let mut map = self.without_space(space);
        let origin = Origin { made_at_ms: now_ms, reason: Reason::Regrouped };
        let fresh = cover.partitions.iter().map(|partition| partition.range);
        let partitions =
            fresh.map(|range| PhysicalPartition { set: map.give_set(origin), range }).collect();
        map.spaces.insert(space.clone(), Cover::new(partitions));
        map
    }

    /// A map in which a physical partition is two: all before `at`, and the rest. Both get new
    /// numbers, so that a request that was located before is recognised. A logical partition is one
    /// position of the ring, so no place cuts one.
    pub fn with_split(
        &self,
        space: &Space,
        set: SetId,
        at: RingToken,
        origin: Origin,
    ) -> Result<PartitionMap, MapRefusal> {
        let (index, partition) = self.find(space, set)?;
        let RingRange { start, last } = partition.range;
        let before = match at.0.checked_sub(1) {
            Some(before) if start < at && at <= last => RingToken(before),
            _ => return Err(MapRefusal::NotInside { set, at }),
        };
        let halves = [RingRange { start, last: before }, RingRange { start: at, last }];
        Ok(self.with_replaced(space, index, 1, &halves, origin))
    }

    /// A number for a set that is to be split off another one, and a map that gives it to nobody else.
    pub fn with_reserved_set(&self) -> (PartitionMap, SetId) {
        let mut map = self.clone();
        let set = SetId(map.next_set);
        map.next_set += 1;
        map.epoch += 1;
        (map, set)
    }

    /// A map in which a set of several members was split: it keeps its number and what lies before `at`, and another set has the
    /// rest. The same map if that is so already; `None` if there is no such set, or the place is where another one begins.
    ///
    /// Splits of one set are not always heard of in their order: the place may lie in what was split off it later, and is known already.
    /// Sets are only cut, so each one has what lies from its own beginning to the next one's, in whatever order they come.
    pub fn with_split_off(
        &self,
        left: SetId,
        at: RingToken,
        right: SetId,
        origin: Origin,
    ) -> Option<PartitionMap> {
        if self.origins.contains_key(&right) {
            return Some(self.clone());
        }
        let has_left = |space: &&Space| self.find(space, left).is_ok();
        let space = self.spaces.keys().find(has_left)?.clone();
        let holds = |it: &PhysicalPartition| it.range.start < at && at <= it.range.last;
        let index = self.partitions(&space).iter().position(holds)?;
        let PhysicalPartition { set: holder, range: RingRange { start, last } } =
            *self.partitions(&space).get(index)?;
        let before = RingToken(at.0.checked_sub(1)?);
        let mut map = self.clone();
        map.next_set = map.next_set.max(right.0.checked_add(1)?);
        map.origins.insert(right, origin);
        // It begins where the other one is, by the split, and not by itself.
        if let Some(placed) = map.placed.get(&left).cloned() {
            map.placed.insert(right, Placed { are_first: false, ..placed });
        }
        let halves = [
            PhysicalPartition { set: holder, range: RingRange { start, last: before } },
            PhysicalPartition { set: right, range: RingRange { start: at, last } },
        ];
        map.replace(&space, index..index + 1, &halves);
        Some(map)
    }

    /// A map in which it is known why a physical partition was made.
    pub fn with_origin(mut self, set: SetId, origin: Origin) -> PartitionMap {
        if let Some(known) = self.origins.get_mut(&set) {
            *known = origin;
        }
        self
    }

    /// A map in which a physical partition and the one behind it are one, under a new number.
    pub fn with_merge(
        &self,
        space: &Space,
        set: SetId,
        origin: Origin,
    ) -> Result<PartitionMap, MapRefusal> {
        let (index, partition) = self.find(space, set)?;
        let neighbour =
            self.partitions(space).get(index + 1).ok_or(MapRefusal::NoNeighbour(set))?;
        let whole = RingRange { start: partition.range.start, last: neighbour.range.last };
        Ok(self.with_replaced(space, index, 2, &[whole], origin))
    }

    /// A map with a change that was made to one like it; `None` if this one has it already: numbers of
    /// sets are given once.
    pub fn with_change(&self, change: &MapChange) -> Result<Option<PartitionMap>, MapRefusal> {
        let (space, origin) =
            (&change.space, Origin { made_at_ms: change.at_ms, reason: change.reason });
        let (Step::Split { from: old, .. } | Step::Merge { from: [old, _], .. }) = &change.step;
        if self.find(space, *old).is_err() {
            return Ok(None);
        }
        let (next, made) = match &change.step {
            Step::Split { from, at, into } => {
                (self.with_split(space, *from, *at, origin)?, into.as_slice())
            }
            Step::Merge { from: [from, _], into } => {
                (self.with_merge(space, *from, origin)?, std::slice::from_ref(into))
            }
        };
        match made.iter().find(|set| next.origin(**set).is_none()) {
            Some(missing) => Err(MapRefusal::NoPartition(*missing)),
            None => Ok(Some(next)),
        }
    }

    fn find(&self, space: &Space, set: SetId) -> Result<(usize, PhysicalPartition), MapRefusal> {
        let cover = self.spaces.get(space).ok_or_else(|| MapRefusal::NoSpace(space.clone()))?;
        let mut partitions = cover.partitions.iter().enumerate();
        let found = partitions.find(|(_, partition)| partition.set == set);
        found.map(|(index, partition)| (index, *partition)).ok_or(MapRefusal::NoPartition(set))
    }

    fn with_replaced(
        &self,
        space: &Space,
        index: usize,
        count: usize,
        ranges: &[RingRange],
        origin: Origin,
    ) -> PartitionMap {
        let mut map = self.clone();
        let fresh: Vec<PhysicalPartition> = ranges
            .iter()
            .map(|range| PhysicalPartition { set: map.give_set(origin), range: *range })
            .collect();
        for old in map.replace(space, index..index + count, &fresh) {
            map.forget(old.set);
        }
        map
    }

    /// Other physical partitions take the place of some of a space. Returns those.
    fn replace(
        &mut self,
        space: &Space,
        places: std::ops::Range<usize>,
        fresh: &[PhysicalPartition],
    ) -> Vec<PhysicalPartition> {
        let mut partitions = self.partitions(space).to_vec();
        let end = places.end.min(partitions.len());
        let old = partitions.splice(places.start..end, fresh.iter().copied()).collect();
        let cover = Cover::new(partitions);
        let before = self.spaces.insert(space.clone(), cover.clone());
        for known in self.tables.values_mut() {
            if before.as_ref().is_some_and(|old| Arc::ptr_eq(&old.partitions, &known.partitions)) {
                *known = cover.clone();
            }
        }
        self.epoch += 1;
        old
    }

    fn forget(&mut self, set: SetId) {
        self.origins.remove(&set);
        self.placed.remove(&set);
    }

    /// A map in which other nodes are to have the members of a set.
    pub fn with_members(
        mut self,
        set: SetId,
        voters: &[NodeId],
        learners: &[NodeId],
    ) -> PartitionMap {
        let nodes: Vec<NodeId> = voters.iter().chain(learners).copied().collect();
        let next = Placed { nodes: Arc::from(nodes), voters: voters.len(), are_first: false };
        let before = self.placed.get(&set);
        if before.is_none_or(|it| (&it.nodes, it.voters) != (&next.nodes, next.voters)) {
            self.placed.insert(set, next);
            self.epoch += 1;
        }
        self
    }

    /// The nodes whose members of a set decide, and those whose members follow.
    pub fn roles(&self, set: SetId) -> (&[NodeId], &[NodeId]) {
        let Some(placed) = self.placed.get(&set) else { return (&[], &[]) };
        placed.nodes.split_at_checked(placed.voters).unwrap_or((&placed.nodes, &[]))
    }

    pub(crate) fn put_first_members(&mut self, set: SetId, nodes: Vec<NodeId>) {
        let voters = voter_count(nodes.len());
        self.placed.insert(set, Placed { nodes: Arc::from(nodes), voters, are_first: true });
    }

    fn give_set(&mut self, origin: Origin) -> SetId {
        let set = SetId(self.next_set);
        self.next_set += 1;
        self.origins.insert(set, origin);
        set
    }

    /// The map with every table of a schema placed in its space. Tables of a space that the map
    /// does not have are left out: they are not stored.
    pub fn with_tables(&self, tables: impl Iterator<Item = (TableId, Space)>) -> PartitionMap {
        let mut map = self.clone();
        map.tables = tables
            .filter_map(|(table, space)| Some((table, self.spaces.get(&space)?.clone())))
            .collect();
        map
    }
}

/// The ring in so many parts of the same length, cut between tokens that clients see.
pub(crate) fn even_ranges(count: u32) -> impl Iterator<Item = RingRange> {
    let count = count.max(1);
    let start_of = move |index: u32| ((u128::from(index) << 64) / u128::from(count)) << 64;
    (0..count).map(move |index| {
        let last = if index + 1 == count { u128::MAX } else { start_of(index + 1) - 1 };
        RingRange { start: RingToken(start_of(index)), last: RingToken(last) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId(7);

    fn map_of(count: u32) -> PartitionMap {
        let space = Space::Keyspace("ks".into());
        PartitionMap::default()
            .with_space(space.clone(), count, 0)
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
        let map = PartitionMap::default().with_space(space("a"), 2, 0);
        let map = map.without_space(&space("a")).with_space(space("b"), 1, 0);
        let (_, partitions) = map.spaces().next().unwrap();
        assert_eq!(partitions[0].set, SetId(2));
        assert_eq!(map.epoch(), 3);
    }

    #[test]
    fn changes_are_made_again_once() {
        let space = Space::Keyspace("ks".into());
        let base = map_of(1);
        let change = |number, step| MapChange {
            number,
            at_ms: 9,
            space: space.clone(),
            step,
            reason: Reason::Storage,
            bytes: 1,
            took_us: 0,
            writes_waited_us: 0,
        };
        let [first, second, third] = [1u128 << 127, 1 << 126, 1 << 125].map(RingToken);
        let split =
            |from, at, into: [u32; 2]| Step::Split { from: SetId(from), at, into: into.map(SetId) };
        let changes = [
            change(1, split(0, first, [1, 2])),
            change(2, split(1, second, [3, 4])),
            change(3, Step::Merge { from: [SetId(3), SetId(4)], into: SetId(5) }),
        ];
        let mut map = base.clone();
        // All of them twice, as after a crash between two documents.
        for change in changes.iter().chain(&changes) {
            map = map.with_change(change).unwrap().unwrap_or(map);
        }
        let sets: Vec<u32> = map.partitions(&space).iter().map(|it| it.set.0).collect();
        assert_eq!((sets.as_slice(), map.epoch()), ([5, 2].as_slice(), 4));
        assert_eq!(map.origin(SetId(5)).unwrap().made_at_ms, 9);
        // One that does not follow.
        let stranger = change(4, split(5, third, [9, 10]));
        assert_eq!(map.with_change(&stranger).unwrap_err(), MapRefusal::NoPartition(SetId(9)));
    }

    /// A set was split twice, and whoever made the first split stopped before all agreed on it: the second one was heard of first, and
    /// nobody ever found the keys of the first one's half.
    #[test]
    fn splits_come_to_the_same_in_whatever_order_they_are_heard_of() {
        let space = Space::Keyspace("ks".into());
        let origin = Origin { made_at_ms: 5, reason: Reason::Hand };
        let base = map_of(1);
        let left = base.partitions(&space)[0].set;
        // The first three are cut off the same set, from behind; the fourth off the second of them.
        let sets = [11, 12, 13, 14].map(SetId);
        let places = [12u128 << 124, 8 << 124, 4 << 124, 10 << 124].map(RingToken);
        let from = [left, left, left, sets[1]];
        let learn = |order: &[usize]| {
            order.iter().fold(base.clone(), |map, &it| {
                map.with_split_off(from[it], places[it], sets[it], origin).unwrap()
            })
        };
        let parts = |map: &PartitionMap| map.partitions(&space).to_vec();
        let expected = learn(&[0, 1, 2, 3]);
        assert_eq!(
            parts(&expected).iter().map(|it| it.set).collect::<Vec<_>>(),
            [left, sets[2], sets[1], sets[3], sets[0]]
        );
        for order in [[2, 1, 0, 3], [1, 3, 0, 2], [1, 2, 3, 0], [2, 0, 1, 3]] {
            assert_eq!(parts(&learn(&order)), parts(&expected), "{order:?}");
        }
        // Of a set that nobody heard of yet, and where another one begins.
        assert!(base.with_split_off(sets[1], places[3], sets[3], origin).is_none());
        assert!(expected.with_split_off(left, places[0], SetId(20), origin).is_none());
    }

    #[test]
    fn a_split_needs_a_place_inside_and_a_merge_a_neighbour() {
        let space = Space::Keyspace("ks".into());
        let map = map_of(2);
        let [left, right] = [0, 1].map(|index| map.partitions(&space)[index]);
        let origin = Origin { made_at_ms: 5, reason: Reason::Hand };
        let split = |at| map.with_split(&space, left.set, at, origin);
        for at in [left.range.start, right.range.start] {
            assert_eq!(split(at).unwrap_err(), MapRefusal::NotInside { set: left.set, at });
        }
        let last = split(left.range.last).unwrap();
        assert_eq!(last.partitions(&space)[1].range.start, left.range.last);
        assert_eq!(map.sets_gone_in(&last), [left.set]);
        assert_eq!(last.origin(SetId(2)), Some(origin));
        let refused = map.with_merge(&space, right.set, origin).unwrap_err();
        assert_eq!(refused, MapRefusal::NoNeighbour(right.set));
        let one = map.with_merge(&space, left.set, origin).unwrap();
        assert_eq!(one.partitions(&space)[0].range, RingRange::FULL);
        assert_eq!(one.locate(TABLE, RingToken(u128::MAX)).unwrap().set, SetId(2));
    }
}
