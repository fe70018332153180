//! When a physical partition is split, and when two become one: pure, so that every decision can be
//! told again.
//!
//! A split has one of three reasons. **Storage**: it holds a share of what it may hold, early enough
//! that it is done in time. **Throughput**: the space may spend more request units per second than
//! its physical partitions may. **Heat**: it has stayed hot while the others were not, and its traffic
//! is not that of one key, which no split can help. What one logical partition fills is left alone: it
//! cannot be cut.
//!
//! A merge asks for more than the opposite of a split: both halves old enough, the two together far
//! from what splits, and so for the busiest moment of hours. So load that goes up and down does not
//! make the map swing.

use std::collections::BTreeSet;

use types::{RingRange, RingToken, SetId};

use crate::map::{PartitionMap, Reason, Space};

/// What physical partitions may hold and spend, and how eagerly they change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalanceLimits {
    /// Bytes a physical partition may hold.
    pub physical_bytes_max: u64,
    /// It is split when it holds this share of them.
    pub split_share: f64,
    /// Request units per second that a physical partition may spend.
    pub partition_ru_max: u32,
    /// Traffic below this is never hot, in request units per second.
    pub hot_ru_min: f64,
    /// Hot means so many times the mean of the others.
    pub hot_factor: f64,
    /// After a split for heat the halves are left in peace this long, in milliseconds.
    pub hot_age_ms: i64,
    /// Whether there are merges: the `cosmos` profile has none.
    pub merges: bool,
    /// A physical partition younger than this is not merged, in milliseconds.
    pub merge_age_ms: i64,
    /// A space has no more physical partitions than this.
    pub partitions_max: usize,
}

impl Default for BalanceLimits {
    fn default() -> BalanceLimits {
        BalanceLimits {
            physical_bytes_max: 30_000_000_000,
            split_share: 0.85,
            partition_ru_max: 10_000,
            hot_ru_min: 2_000.0,
            hot_factor: 4.0,
            hot_age_ms: 60_000,
            merges: true,
            merge_age_ms: 2 * 3_600_000,
            partitions_max: 100_000,
        }
    }
}

/// Two that together hold less than this share of a full one are small.
const SMALL_SHARE: f64 = 0.4;
/// Two that together spend less than this share of what one may are cold.
const COLD_SHARE: f64 = 0.25;
/// Two that together reach this share of what splits for heat are warm.
const WARM_SHARE: f64 = 0.5;
/// A split that leaves more than this on one side helps nobody.
const LARGER_SHARE_MAX: f64 = 0.9;
/// Splits and merges of one round.
const ACTIONS_MAX: usize = 64;

/// A place that cuts something in two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Halving {
    /// The first position of the second half.
    pub at: RingToken,
    /// How much of it lies in the larger half.
    pub larger_share: f64,
}

/// What is known of one physical partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhysicalLoad {
    pub set: SetId,
    /// Bytes it holds.
    pub bytes: u64,
    /// Request units per second, over the last minute.
    pub ru_s: f64,
    /// The most it spent in the last hours.
    pub peak_ru_s: f64,
    /// Where its bytes are halved.
    pub bytes_halved: Option<Halving>,
    /// Where its traffic is halved.
    pub heat_halved: Option<Halving>,
}

/// What is known of one space. Its loads are in the order of the ring, one for each physical
/// partition of the map.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceLoad {
    pub space: Space,
    /// Request units per second that it may spend, where they were provisioned.
    pub provisioned_ru_s: Option<u32>,
    /// It has no fewer physical partitions than this.
    pub partition_count_min: usize,
    /// Its physical partitions.
    pub partitions: Vec<PhysicalLoad>,
}

/// What should happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// One becomes two.
    Split {
        space: Space,
        set: SetId,
        /// The first position of the second half.
        at: RingToken,
        reason: Reason,
    },
    /// One and the one behind it become one.
    Merge {
        space: Space,
        /// The first of the two.
        set: SetId,
    },
}

/// Decides what should happen to a map.
pub fn decide(
    map: &PartitionMap,
    loads: &[SpaceLoad],
    limits: &BalanceLimits,
    now_ms: i64,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for load in loads {
        let partitions = map.partitions(&load.space);
        // Numbers from before the last change say nothing about the map as it is.
        let is_current = partitions.len() == load.partitions.len()
            && partitions.iter().zip(&load.partitions).all(|(one, load)| one.set == load.set);
        if !is_current {
            continue;
        }
        let space = SpaceView { map, load, limits, now_ms };
        space.decide(&mut actions);
        if actions.len() >= ACTIONS_MAX {
            actions.truncate(ACTIONS_MAX);
            break;
        }
    }
    actions
}

struct SpaceView<'d> {
    map: &'d PartitionMap,
    load: &'d SpaceLoad,
    limits: &'d BalanceLimits,
    now_ms: i64,
}

impl SpaceView<'_> {
    fn decide(&self, actions: &mut Vec<Action>) {
        let mut splits: Vec<(SetId, RingToken, Reason)> = Vec::new();
        let room = self.limits.partitions_max.saturating_sub(self.load.partitions.len());
        let full = (self.limits.physical_bytes_max as f64 * self.limits.split_share) as u64;
        for partition in self.load.partitions.iter().filter(|it| it.bytes >= full.max(1)) {
            if let Some(halving) = partition.bytes_halved.filter(is_worth_it) {
                splits.push((partition.set, halving.at, Reason::Storage));
            }
        }
        self.add_throughput_splits(&mut splits);
        if splits.is_empty() {
            splits.extend(self.heat_split());
        }
        if !splits.is_empty() {
            let space = &self.load.space;
            actions.extend(splits.into_iter().take(room).map(|(set, at, reason)| Action::Split {
                space: space.clone(),
                set,
                at,
                reason,
            }));
            return;
        }
        if self.limits.merges {
            actions.extend(self.merge());
        }
    }

    /// How many physical partitions the throughput of the space needs.
    fn needed_count(&self) -> usize {
        let provisioned = self.load.provisioned_ru_s.unwrap_or(0);
        provisioned.div_ceil(self.limits.partition_ru_max.max(1)) as usize
    }

    /// The widest are split first, so that all get the same share in the end.
    fn add_throughput_splits(&self, splits: &mut Vec<(SetId, RingToken, Reason)>) {
        let have = self.load.partitions.len() + splits.len();
        let missing = self.needed_count().saturating_sub(have);
        if missing == 0 {
            return;
        }
        let taken: BTreeSet<SetId> = splits.iter().map(|(set, _, _)| *set).collect();
        let mut others: Vec<(u128, SetId, RingToken)> = self
            .map
            .partitions(&self.load.space)
            .iter()
            .zip(&self.load.partitions)
            .filter(|(partition, _)| !taken.contains(&partition.set))
            .filter_map(|(partition, load)| {
                let at = self.even_place(partition.range, load)?;
                Some((partition.range.last.0 - partition.range.start.0, partition.set, at))
            })
            .collect();
        others.sort_by_key(|(width, set, _)| (std::cmp::Reverse(*width), *set));
        let wanted = others.into_iter().take(missing);
        splits.extend(wanted.map(|(_, set, at)| (set, at, Reason::Throughput)));
    }

    /// Where its bytes are halved if it has many, else the middle.
    fn even_place(&self, range: RingRange, load: &PhysicalLoad) -> Option<RingToken> {
        let has_much = load.bytes >= self.limits.physical_bytes_max / 100;
        let halving = load.bytes_halved.filter(is_worth_it).filter(|_| has_much);
        halving.map(|halving| halving.at).or_else(|| middle(range))
    }

    /// The hottest, if it has been hot for a minute while the others are not.
    fn heat_split(&self) -> Option<(SetId, RingToken, Reason)> {
        let loads = &self.load.partitions;
        let hottest = loads.iter().max_by(|a, b| a.ru_s.total_cmp(&b.ru_s))?;
        let halving = hottest.heat_halved.filter(is_worth_it)?;
        let total: f64 = loads.iter().map(|load| load.ru_s).sum();
        let others = (total - hottest.ru_s) / (loads.len() as f64 - 1.0).max(1.0);
        let budget = self.load.provisioned_ru_s.map(|ru| f64::from(ru) / loads.len() as f64);
        let is_hot = match budget {
            Some(budget) => hottest.ru_s >= budget * 0.9 && others < budget * 0.5,
            None => hottest.ru_s >= others * self.limits.hot_factor,
        };
        let is_settled = loads.iter().all(|load| self.age_ms(load.set) >= self.limits.hot_age_ms);
        (is_hot && is_settled && loads.len() > 1 && hottest.ru_s >= self.limits.hot_ru_min)
            .then_some((hottest.set, halving.at, Reason::Heat))
    }

    fn age_ms(&self, set: SetId) -> i64 {
        self.map
            .origin(set)
            .map_or(i64::MAX, |origin| self.now_ms.saturating_sub(origin.made_at_ms))
    }

    /// The smallest pair of neighbours that may be one, if any.
    fn merge(&self) -> Option<Action> {
        let loads = &self.load.partitions;
        let count_min = self.load.partition_count_min.max(self.needed_count()).max(1);
        if loads.len() <= count_min {
            return None;
        }
        let full = self.limits.physical_bytes_max as f64 * self.limits.split_share;
        let budget =
            f64::from(self.limits.partition_ru_max).min(match self.load.provisioned_ru_s {
                Some(ru) => f64::from(ru) / (loads.len() - 1) as f64,
                None => f64::INFINITY,
            });
        let is_old = |load: &PhysicalLoad| self.age_ms(load.set) >= self.limits.merge_age_ms;
        let total_ru_s: f64 = loads.iter().map(|load| load.ru_s).sum();
        // Together they would be on the way to being split for heat again.
        let is_warm = |one: &PhysicalLoad, other: &PhysicalLoad| {
            let peak_ru_s = one.peak_ru_s + other.peak_ru_s;
            let others = loads.len().saturating_sub(2).max(1) as f64;
            let others_ru_s = (total_ru_s - one.ru_s - other.ru_s).max(0.0) / others;
            peak_ru_s >= self.limits.hot_ru_min * WARM_SHARE
                && peak_ru_s > others_ru_s * self.limits.hot_factor * WARM_SHARE
        };
        let may_merge = |pair: &&[PhysicalLoad]| match pair {
            [one, other] => {
                is_old(one)
                    && is_old(other)
                    && ((one.bytes + other.bytes) as f64) < full * SMALL_SHARE
                    && one.peak_ru_s + other.peak_ru_s < budget * COLD_SHARE
                    && !is_warm(one, other)
            }
            _ => false,
        };
        // The smallest; of the same size the coldest.
        let weight = |pair: &&[PhysicalLoad]| {
            let bytes: u64 = pair.iter().map(|load| load.bytes).sum();
            let peak_ru_s: f64 = pair.iter().map(|load| load.peak_ru_s).sum();
            (bytes, peak_ru_s as u64)
        };
        let smallest = loads.windows(2).filter(may_merge).min_by_key(weight)?;
        let set = smallest.first()?.set;
        Some(Action::Merge { space: self.load.space.clone(), set })
    }
}

fn is_worth_it(halving: &Halving) -> bool {
    halving.larger_share <= LARGER_SHARE_MAX
}

/// The position that cuts a range in two; none if it is a single one.
pub fn middle(range: RingRange) -> Option<RingToken> {
    let half = range.start.0 + (range.last.0 - range.start.0) / 2 + 1;
    // Between tokens that clients see, where there is room for that.
    let rounded = half & !u128::from(u64::MAX);
    let at = if rounded > range.start.0 { rounded } else { half };
    (range.start.0 < at && at <= range.last.0).then_some(RingToken(at))
}

/// The place between parts of a range that halves their weight best. A part begins at its token; the
/// parts are in the order of the ring.
pub fn halve(range: RingRange, parts: &[(RingToken, u64)]) -> Option<Halving> {
    let total: u64 = parts.iter().map(|(_, weight)| weight).sum();
    if total == 0 {
        return None;
    }
    let mut before = 0;
    let mut best: Option<(u64, RingToken)> = None;
    for (token, weight) in parts {
        let larger = before.max(total - before);
        let is_inside = range.start < *token && *token <= range.last;
        if is_inside && best.is_none_or(|(least, _)| larger < least) {
            best = Some((larger, *token));
        }
        before += weight;
    }
    best.map(|(larger, at)| Halving { at, larger_share: larger as f64 / total as f64 })
}
