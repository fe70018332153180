//! How busy physical partitions and single keys are: counted at each request in fixed memory, turned
//! into rates once a round. What several nodes count of one set comes together at its leader: see `shared_traffic`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;

use partition::{PartitionMap, PhysicalPartition, Space};
use types::{PartitionKey, RingRange, RingToken, SetId, TableId};

use crate::locks::{Rank, Ranked};

/// Each physical partition's ring is counted in so many parts, to find where its traffic halves.
pub(crate) const PARTS: usize = 32;
/// Time constant of the one-minute moving average, in seconds.
const MINUTE_S: f64 = 30.0;
/// Time constant of the moving average that is shown, in seconds.
const NOW_S: f64 = 2.5;
/// Rates below this count as zero, in millionths of a request unit per second.
const RATE_LEAST: f64 = 1.0;
/// Peaks are kept by time span, and so many spans of them.
const PEAK_SPANS: usize = 12;
/// Hot keys that are followed for each table.
const KEYS_PER_TABLE: usize = 64;
/// Shards of the map of sets.
const SHARDS: usize = 64;
/// Tables whose keys are followed.
const TABLES_MAX: usize = 4096;
/// One request in so many is looked at for its key.
const KEY_SAMPLING: u64 = 8;
/// A key that is colder than this is forgotten, in millionths of a request unit per second.
const KEY_RATE_MIN: f64 = 10_000.0;

/// The traffic of a node.
#[derive(Default)]
pub(crate) struct Traffic {
    sets: SetShards,
    keys: ArcSwap<HashMap<TableId, Arc<Ranked<HotKeys>>, FixedState>>,
    requests: AtomicU64,
    /// When counts last became rates, in microseconds; zero: never.
    ticked_us: AtomicI64,
    /// Whether the leaders of sets are told what is counted here.
    is_shared: AtomicBool,
}

/// The traffic of every set, sharded and copied on write: a change of one set copies one shard.
struct SetShards([ArcSwap<SetMap>; SHARDS]);

type SetMap = HashMap<SetId, Arc<SetTraffic>, FixedState>;

impl Default for SetShards {
    fn default() -> SetShards {
        SetShards(std::array::from_fn(|_| ArcSwap::default()))
    }
}

impl SetShards {
    fn shard_of(set: SetId) -> usize {
        set.0 as usize % SHARDS
    }

    /// Looks at a set.
    fn with<T>(&self, set: SetId, look: impl FnOnce(&Arc<SetTraffic>) -> T) -> Option<T> {
        let shard = self.0.get(SetShards::shard_of(set))?.load();
        shard.get(&set).map(look)
    }

    fn for_each(&self, mut look: impl FnMut(SetId, &Arc<SetTraffic>)) {
        for shard in &self.0 {
            shard.load().iter().for_each(|(set, traffic)| look(*set, traffic));
        }
    }

    /// Inserts and removes sets. Must not run twice at once.
    fn change(&self, gone: &[SetId], made: Vec<(SetId, Arc<SetTraffic>)>) {
        let mut changed: [Option<SetMap>; SHARDS] = std::array::from_fn(|_| None);
        let mut of = |set: SetId, change: &mut dyn FnMut(&mut SetMap)| {
            let index = SetShards::shard_of(set);
            if let (Some(place), Some(shard)) = (changed.get_mut(index), self.0.get(index)) {
                change(place.get_or_insert_with(|| SetMap::clone(&shard.load())));
            }
        };
        for (set, traffic) in made {
            of(set, &mut |sets| drop(sets.insert(set, Arc::clone(&traffic))));
        }
        for set in gone {
            of(*set, &mut |sets| drop(sets.remove(set)));
        }
        for (shard, changed) in self.0.iter().zip(changed) {
            if let Some(sets) = changed {
                shard.store(Arc::new(sets));
            }
        }
    }
}

/// The weight of the newest sample in an exponential moving average with this time constant.
fn share_of_new(passed_s: f64, follows_s: f64) -> f64 {
    1.0 - (-passed_s / follows_s).exp()
}

/// One call of `tick`: how long after the last one, and into which span its peaks go.
#[derive(Clone, Copy)]
struct Round {
    passed_s: f64,
    span: usize,
    /// Spans that began since the last round.
    new_spans: usize,
}

/// The traffic of one physical partition. Charges are in millionths of a request unit. A request touches
/// a single counter: with ten thousand physical partitions every other field would be one more cache miss.
struct SetTraffic {
    counts: [AtomicU64; PARTS],
    space: Space,
    range: RingRange,
    rates: Ranked<Rates>,
}

/// Rates in millionths of a request unit per second.
#[derive(Clone, Default)]
struct Rates {
    now: f64,
    minute: f64,
    parts: [f64; PARTS],
    peaks: [f64; PEAK_SPANS],
    /// What the leader of the set is not told of yet.
    untold: [u64; PARTS],
}

impl Rates {
    /// Nothing is going on, and nothing was for so long that it is forgotten.
    fn is_cold(&self) -> bool {
        self.now == 0.0 && self.minute == 0.0 && self.peaks.iter().all(|peak| *peak == 0.0)
    }
}

/// An exponential average never reaches zero by itself.
fn forget_least(rate: f64) -> f64 {
    if rate < RATE_LEAST { 0.0 } else { rate }
}

fn no_keys() -> Arc<Ranked<HotKeys>> {
    Arc::new(Ranked::new(Rank::Traffic, HotKeys { keys: Vec::new() }))
}

/// How busy a physical partition is, in request units per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SetHeat {
    pub(crate) now_ru_s: f64,
    pub(crate) minute_ru_s: f64,
    pub(crate) peak_ru_s: f64,
}

struct HotKeys {
    keys: Vec<HotKey>,
}

struct HotKey {
    key: PartitionKey,
    count: u64,
    /// What the leader of its set is not told of yet.
    untold: u64,
    rate: f64,
}

impl SetTraffic {
    fn new(space: Space, range: RingRange, rates: Rates) -> SetTraffic {
        SetTraffic {
            space,
            range,
            counts: Default::default(),
            rates: Ranked::new(Rank::Traffic, rates),
        }
    }

    fn part_start(&self, part: usize) -> RingToken {
        part_start(self.range, part)
    }

    fn tick(&self, round: Round, is_shared: bool) {
        let mut rates = self.rates.lock();
        let rates = &mut *rates;
        // There may be thousands, most of them idle.
        let is_idle = self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0);
        if is_idle && rates.is_cold() {
            return;
        }
        let new_of_minute = share_of_new(round.passed_s, MINUTE_S);
        let mut total = 0.0;
        let untold = rates.untold.iter_mut();
        for ((count, rate), untold) in self.counts.iter().zip(&mut rates.parts).zip(untold) {
            let counted = count.swap(0, Ordering::Relaxed);
            if is_shared {
                *untold = untold.saturating_add(counted);
            }
            let of_second = counted as f64 / round.passed_s;
            total += of_second;
            *rate = forget_least(*rate + (of_second - *rate) * new_of_minute);
        }
        let new_of_now = share_of_new(round.passed_s, NOW_S);
        rates.now = forget_least(rates.now + (total - rates.now) * new_of_now);
        rates.minute = forget_least(rates.minute + (total - rates.minute) * new_of_minute);
        for back in 0..round.new_spans.min(PEAK_SPANS) {
            if let Some(peak) = rates.peaks.get_mut((round.span + PEAK_SPANS - back) % PEAK_SPANS) {
                *peak = 0.0;
            }
        }
        if let Some(peak) = rates.peaks.get_mut(round.span) {
            *peak = peak.max(rates.minute);
        }
    }

    fn heat(&self) -> SetHeat {
        let rates = self.rates.lock();
        let ru = |rate: f64| rate / 1e6;
        SetHeat {
            now_ru_s: ru(rates.now),
            minute_ru_s: ru(rates.minute),
            peak_ru_s: ru(rates.peaks.iter().copied().fold(0.0, f64::max)),
        }
    }

    /// First position and rate of each part.
    fn parts(&self) -> Vec<(RingToken, u64)> {
        let rates = self.rates.lock();
        let parts = rates.parts.iter().enumerate();
        parts.map(|(part, rate)| (self.part_start(part), *rate as u64)).collect()
    }

    /// What a new physical partition inherits of this one: the traffic of the parts that it takes
    /// over, and of the busiest moments the same share.
    fn leave_to(&self, range: RingRange, heir: &mut Rates) {
        let rates = self.rates.lock();
        let width = |range: RingRange| (range.last.0 - range.start.0) as f64 + 1.0;
        let mut inherited = 0.0;
        for (part, rate) in rates.parts.iter().enumerate() {
            let start = self.part_start(part);
            let last = match self.part_start(part + 1).0.checked_sub(1) {
                Some(last) if part + 1 < PARTS => RingToken(last).min(self.range.last),
                _ => self.range.last,
            };
            // Of a range of a few tokens the last parts are empty.
            if start > last {
                continue;
            }
            let whole = RingRange { start, last };
            let Some(common) = whole.intersect(&range) else { continue };
            let rate = rate * width(common) / width(whole);
            inherited += rate;
            spread(&mut heir.parts, range, common, rate);
        }
        let total: f64 = rates.parts.iter().sum();
        let common = self.range.intersect(&range).map_or(0.0, width);
        // Of what is quiet now nobody knows where its peaks were.
        let share = if total > 0.0 { inherited / total } else { common / width(self.range) };
        heir.now += rates.now * share;
        heir.minute += rates.minute * share;
        for (peak, old) in heir.peaks.iter_mut().zip(&rates.peaks) {
            *peak += old * share;
        }
    }
}

/// The width of a part of a range. The upper half of the ring's bits is fine enough, and quicker to
/// divide by: this is asked with every request.
fn part_width(range: RingRange) -> u64 {
    ((range.last.0 - range.start.0) >> 64) as u64 / PARTS as u64 + 1
}

/// Where a part of a range begins.
fn part_start(range: RingRange, part: usize) -> RingToken {
    let offset = (u128::from(part_width(range)) << 64).saturating_mul(part as u128);
    RingToken(range.start.0.saturating_add(offset))
}

/// Which part of a range a token lies in.
fn part_of(range: RingRange, ring: RingToken) -> usize {
    let offset = (ring.0.saturating_sub(range.start.0) >> 64) as u64;
    ((offset / part_width(range)) as usize).min(PARTS - 1)
}

/// Adds the rate of a piece to the part of a range that it begins in: what was counted together may be
/// one key, and must not look as if it could be cut.
fn spread(parts: &mut [f64; PARTS], range: RingRange, piece: RingRange, rate: f64) {
    if let Some(part) = parts.get_mut(part_of(range, piece.start)) {
        *part += rate;
    }
}

/// What is counted for a new physical partition, with what it inherits of those of its space that are
/// gone.
fn heir(
    space: &Space,
    partition: PhysicalPartition,
    gone: &[&Arc<SetTraffic>],
) -> (SetId, Arc<SetTraffic>) {
    let mut rates = Rates::default();
    for old in gone {
        if old.range.intersect(&partition.range).is_some() {
            old.leave_to(partition.range, &mut rates);
        }
    }
    let traffic = SetTraffic::new(space.clone(), partition.range, rates);
    (partition.set, Arc::new(traffic))
}

impl Traffic {
    /// Counts a request to a key.
    pub(crate) fn note(
        &self,
        partition: PhysicalPartition,
        table: TableId,
        key: &PartitionKey,
        millionths: u64,
    ) {
        self.note_ring(partition, key.ring(), millionths);
        if !self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(KEY_SAMPLING) {
            return;
        }
        if let Some(keys) = self.keys.load().get(&table)
            && let Some(mut keys) = keys.try_lock()
        {
            keys.note(key, millionths * KEY_SAMPLING);
        }
    }

    /// Counts what a request did at a place of the ring.
    pub(crate) fn note_ring(&self, partition: PhysicalPartition, ring: RingToken, millionths: u64) {
        self.sets.with(partition.set, |set| {
            if let Some(count) = set.counts.get(part_of(partition.range, ring)) {
                count.fetch_add(millionths, Ordering::Relaxed);
            }
        });
    }

    /// Follows a new map. What is new inherits from what it replaces.
    pub(crate) fn follow(&self, map: &PartitionMap, tables: impl Iterator<Item = TableId>) {
        let mut gone: Vec<(SetId, Arc<SetTraffic>)> = Vec::new();
        self.sets.for_each(|set, traffic| {
            if map.origin(set).is_none() {
                gone.push((set, Arc::clone(traffic)));
            }
        });
        let mut made = Vec::new();
        for (space, partitions) in map.spaces() {
            let gone = || gone.iter().map(|(_, traffic)| traffic);
            let gone: Vec<_> = gone().filter(|traffic| traffic.space == *space).collect();
            let is_new = |it: &&PhysicalPartition| self.sets.with(it.set, |_| ()).is_none();
            made.extend(partitions.iter().filter(is_new).map(|it| heir(space, *it, &gone)));
        }
        let gone: Vec<SetId> = gone.iter().map(|(set, _)| *set).collect();
        self.sets.change(&gone, made);
        let known = self.keys.load_full();
        let keys = tables
            .take(TABLES_MAX)
            .map(|table| (table, known.get(&table).cloned().unwrap_or_else(no_keys)))
            .collect();
        self.keys.store(Arc::new(keys));
    }

    /// Follows one change of a map: the time it takes does not grow with the map.
    pub(crate) fn follow_step(&self, space: &Space, gone: &[SetId], made: &[PhysicalPartition]) {
        let old: Vec<Arc<SetTraffic>> =
            gone.iter().filter_map(|set| self.sets.with(*set, Arc::clone)).collect();
        let old: Vec<&Arc<SetTraffic>> = old.iter().collect();
        let made = made.iter().map(|partition| heir(space, *partition, &old)).collect();
        self.sets.change(gone, made);
    }

    /// Counts become rates. What was the busiest moment is remembered for `peaks_for_ms`.
    pub(crate) fn tick(&self, now_us: i64, peaks_for_ms: i64) {
        let before_us = self.ticked_us.swap(now_us, Ordering::Relaxed);
        // The first round, or a clock that was set back: what was counted belongs to no known time.
        if before_us == 0 || now_us <= before_us {
            return;
        }
        let span_us = (peaks_for_ms.max(1).saturating_mul(1000) / PEAK_SPANS as i64).max(1);
        let new_spans = now_us / span_us - before_us / span_us;
        let round = Round {
            passed_s: (now_us - before_us) as f64 / 1e6,
            span: (now_us / span_us).rem_euclid(PEAK_SPANS as i64) as usize,
            new_spans: usize::try_from(new_spans).unwrap_or(0),
        };
        let is_shared = self.is_shared.load(Ordering::Relaxed);
        self.sets.for_each(|_, set| set.tick(round, is_shared));
        for keys in self.keys.load().values() {
            keys.lock().tick(round.passed_s, is_shared);
        }
    }

    /// From now on the leaders of sets are told what is counted here.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// What was counted of each set since this was last asked.
    pub(crate) fn take_untold(&self) -> Vec<(SetId, [u64; PARTS])> {
        let mut found = Vec::new();
        self.sets.for_each(|set, traffic| {
            let untold = std::mem::replace(&mut traffic.rates.lock().untold, [0; PARTS]);
            if untold.iter().any(|count| *count > 0) {
                found.push((set, untold));
            }
        });
        found
    }

    /// What was counted of each key since this was last asked.
    pub(crate) fn take_untold_keys(&self) -> Vec<(TableId, PartitionKey, u64)> {
        let mut found = Vec::new();
        for (table, keys) in self.keys.load().iter() {
            for hot in keys.lock().keys.iter_mut().filter(|hot| hot.untold > 0) {
                found.push((*table, hot.key.clone(), std::mem::take(&mut hot.untold)));
            }
        }
        found
    }

    /// The hot keys of all tables, with their rates in millionths of a request unit per second.
    pub(crate) fn all_hot_keys(&self) -> Vec<(TableId, PartitionKey, u64)> {
        let mut found = Vec::new();
        for (table, keys) in self.keys.load().iter() {
            for hot in keys.lock().keys.iter().filter(|hot| hot.rate >= KEY_RATE_MIN) {
                found.push((*table, hot.key.clone(), hot.rate as u64));
            }
        }
        found
    }

    /// The sets that are counted, in order.
    pub(crate) fn sets(&self) -> Vec<SetId> {
        let mut sets = Vec::new();
        self.sets.for_each(|set, _| sets.push(set));
        sets.sort_unstable();
        sets
    }

    /// Another node counted something of a set.
    pub(crate) fn add_counted(&self, set: SetId, parts: &[u64]) {
        self.sets.with(set, |traffic| {
            for (count, more) in traffic.counts.iter().zip(parts) {
                count.fetch_add(*more, Ordering::Relaxed);
            }
        });
    }

    /// Another node counted something of a key.
    pub(crate) fn add_counted_key(&self, table: TableId, key: &PartitionKey, millionths: u64) {
        if let Some(keys) = self.keys.load().get(&table) {
            keys.lock().note(key, millionths);
        }
    }

    /// How busy a physical partition is.
    pub(crate) fn heat(&self, set: SetId) -> SetHeat {
        self.sets.with(set, |traffic| traffic.heat()).unwrap_or_default()
    }

    /// How its traffic lies in a physical partition: first position and rate of each part.
    pub(crate) fn parts(&self, set: SetId) -> Vec<(RingToken, u64)> {
        self.sets.with(set, |traffic| traffic.parts()).unwrap_or_default()
    }

    /// The hottest keys of a table, with their request units per second.
    pub(crate) fn hot_keys(&self, table: TableId) -> Vec<(PartitionKey, f64)> {
        let keys = self.keys.load();
        let Some(keys) = keys.get(&table) else { return Vec::new() };
        let keys = keys.lock();
        let hot = keys.keys.iter().filter(|hot| hot.rate >= KEY_RATE_MIN);
        hot.map(|hot| (hot.key.clone(), hot.rate / 1e6)).collect()
    }
}

impl HotKeys {
    /// The space-saving algorithm: a new key takes the place of the coldest one, and its count as the error.
    fn note(&mut self, key: &PartitionKey, millionths: u64) {
        if let Some(known) = self.keys.iter_mut().find(|hot| hot.key.ring() == key.ring()) {
            known.count += millionths;
            return;
        }
        let bytes = bytes::Bytes::copy_from_slice(key.bytes());
        let key = PartitionKey::from_parts(bytes, key.ring());
        if self.keys.len() < KEYS_PER_TABLE {
            self.keys.push(HotKey { key, count: millionths, untold: 0, rate: 0.0 });
            return;
        }
        let coldness = |hot: &&mut HotKey| (hot.rate * 10.0) as u64 + hot.count;
        if let Some(coldest) = self.keys.iter_mut().min_by_key(coldness) {
            let (count, rate) = (coldest.count + millionths, coldest.rate);
            *coldest = HotKey { key, count, untold: 0, rate };
        }
    }

    fn tick(&mut self, passed_s: f64, is_shared: bool) {
        let new = share_of_new(passed_s, NOW_S);
        for hot in &mut self.keys {
            let counted = std::mem::take(&mut hot.count);
            if is_shared {
                hot.untold = hot.untold.saturating_add(counted);
            }
            let of_second = counted as f64 / passed_s;
            hot.rate += (of_second - hot.rate) * new;
        }
        self.keys.retain(|hot| hot.rate >= KEY_RATE_MIN);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use partition::{Origin, Reason, Space};

    use super::*;

    const SECOND_US: i64 = 1_000_000;
    const TWO_HOURS_MS: i64 = 2 * 3_600_000;

    #[test]
    fn rates_follow_the_traffic_and_are_inherited() {
        let space = Space::Keyspace("ks".into());
        let map = PartitionMap::default().with_space(space.clone(), 1, 0);
        let table = TableId(4);
        let traffic = Traffic::default();
        traffic.follow(&map, [table].into_iter());
        let partition = map.partitions(&space)[0];
        let hot = PartitionKey::new(Bytes::from_static(b"hot"));
        let begin_us = 1_700_000_000 * SECOND_US;
        traffic.tick(begin_us, TWO_HOURS_MS);
        // Rounds of half a second: rates are those of a second all the same.
        for round in 1..=200 {
            for number in 0..40u32 {
                traffic.note(partition, table, &hot, 1_000_000);
                let cold = PartitionKey::new(Bytes::from(number.to_be_bytes().to_vec()));
                traffic.note(partition, table, &cold, 10_000);
            }
            traffic.tick(begin_us + round * SECOND_US / 2, TWO_HOURS_MS);
        }
        let heat = traffic.heat(partition.set);
        assert!((79.0..82.0).contains(&heat.now_ru_s), "{heat:?}");
        assert!(heat.peak_ru_s > 70.0);
        let keys = traffic.hot_keys(table);
        let found = keys.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert_eq!(found.0, hot);
        assert!((40.0..=160.0).contains(&found.1), "{}", found.1);
        let origin = Origin { made_at_ms: 0, reason: Reason::Hand };
        let next = map.with_split(&space, partition.set, RingToken(1 << 127), origin).unwrap();
        traffic.follow(&next, [table].into_iter());
        let is_left = hot.ring().0 < 1 << 127;
        let halves: Vec<f64> =
            next.partitions(&space).iter().map(|it| traffic.heat(it.set).now_ru_s).collect();
        let (with_hot, without) =
            if is_left { (halves[0], halves[1]) } else { (halves[1], halves[0]) };
        assert!(with_hot > 78.0 && without < 2.0, "the heat stays where it is: {halves:?}");
        // A single key still looks like one: it is not cut again and again.
        let parts = traffic.parts(next.locate_in(&space, hot.ring()).unwrap().set);
        let all: u64 = parts.iter().map(|(_, rate)| rate).sum();
        let hottest = parts.iter().map(|(_, rate)| *rate).max().unwrap();
        assert!(hottest * 10 >= all * 9, "{parts:?}");
        let one = next.with_merge(&space, next.partitions(&space)[0].set, origin).unwrap();
        traffic.follow(&one, [table].into_iter());
        let whole = traffic.heat(one.partitions(&space)[0].set);
        assert!((79.0..82.0).contains(&whole.now_ru_s), "{whole:?}");
        let parts = traffic.parts(one.partitions(&space)[0].set);
        let parts: u64 = parts.iter().map(|(_, rate)| rate).sum();
        assert!((74_000_000..82_000_000).contains(&parts), "{parts}");
    }

    #[test]
    fn heat_of_one_space_is_not_inherited_by_another() {
        let (shared, own) = (
            Space::Keyspace("ks".into()),
            Space::Table { keyspace: "ks".into(), table: "t".into() },
        );
        let map = PartitionMap::default().with_space(shared.clone(), 4, 0);
        let table = TableId(4);
        let traffic = Traffic::default();
        traffic.follow(&map, [table].into_iter());
        traffic.tick(SECOND_US, TWO_HOURS_MS);
        for partition in map.partitions(&shared) {
            traffic.note_ring(*partition, partition.range.start, 8_000_000);
        }
        traffic.tick(2 * SECOND_US, TWO_HOURS_MS);
        let before: Vec<SetHeat> =
            map.partitions(&shared).iter().map(|it| traffic.heat(it.set)).collect();
        let next = map.with_fresh_sets(&shared, 0).with_space(own.clone(), 2, 0);
        traffic.follow(&next, [table].into_iter());
        for (partition, before) in next.partitions(&shared).iter().zip(before) {
            let after = traffic.heat(partition.set);
            assert!((after.now_ru_s - before.now_ru_s).abs() < 0.01, "{after:?} was {before:?}");
        }
        for partition in next.partitions(&own) {
            assert_eq!(traffic.heat(partition.set).now_ru_s, 0.0);
        }
    }

    #[test]
    fn busy_moments_are_forgotten_after_their_time() {
        let space = Space::Keyspace("ks".into());
        let map = PartitionMap::default().with_space(space.clone(), 1, 0);
        let traffic = Traffic::default();
        traffic.follow(&map, [].into_iter());
        let partition = map.partitions(&space)[0];
        traffic.tick(SECOND_US, 60_000);
        traffic.note_ring(partition, RingToken(5), 900_000_000);
        traffic.tick(2 * SECOND_US, 60_000);
        let peak = traffic.heat(partition.set).peak_ru_s;
        assert!(peak > 10.0);
        traffic.tick(40 * SECOND_US, 60_000);
        assert_eq!(traffic.heat(partition.set).peak_ru_s, peak);
        // A long pause, as of a machine that slept, ends it too.
        traffic.tick(4_000 * SECOND_US, 60_000);
        assert!(traffic.heat(partition.set).peak_ru_s < 0.001);
    }
}
