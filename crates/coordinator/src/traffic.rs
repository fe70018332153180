//! How busy physical partitions and single keys are: counted at each request in fixed memory, turned
//! into rates once a second.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use partition::{PartitionMap, PhysicalPartition};
use types::{PartitionKey, RingRange, RingToken, SetId, TableId};

/// Each physical partition's ring is counted in so many parts, to find where its traffic halves.
const PARTS: usize = 32;
/// The rate of a minute: how much of it is new after a second.
const MINUTE_WEIGHT: f64 = 1.0 / 30.0;
/// The rate that is shown: how much of it is new after a second.
const NOW_WEIGHT: f64 = 1.0 / 3.0;
/// The most of the last hours is kept for each of so many spans.
const PEAK_SPANS: usize = 12;
/// Ticks of one span: ten minutes.
const PEAK_SPAN_TICKS: u64 = 600;
/// Hot keys that are followed for each table.
const KEYS_PER_TABLE: usize = 64;
/// Tables whose keys are followed.
const TABLES_MAX: usize = 4096;
/// One request in so many is looked at for its key.
const KEY_SAMPLING: u64 = 8;
/// A key that is colder than this is forgotten, in millionths of a request unit per second.
const KEY_RATE_MIN: f64 = 10_000.0;

/// The traffic of a node.
#[derive(Default)]
pub(crate) struct Traffic {
    sets: ArcSwap<HashMap<SetId, Arc<SetTraffic>, FixedState>>,
    keys: ArcSwap<HashMap<TableId, Arc<Mutex<HotKeys>>, FixedState>>,
    requests: AtomicU64,
    ticks: AtomicU64,
}

/// The traffic of one physical partition. Charges are in millionths of a request unit.
struct SetTraffic {
    range: RingRange,
    counts: [AtomicU64; PARTS],
    rates: Mutex<Rates>,
}

/// Rates in millionths of a request unit per second.
#[derive(Clone, Default)]
struct Rates {
    now: f64,
    minute: f64,
    parts: [f64; PARTS],
    peaks: [f64; PEAK_SPANS],
}

/// How busy a physical partition is, in request units per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SetHeat {
    pub(crate) now_ru_s: f64,
    pub(crate) minute_ru_s: f64,
    pub(crate) peak_ru_s: f64,
    /// First position and rate of each part.
    pub(crate) parts: Vec<(RingToken, u64)>,
}

#[derive(Default)]
struct HotKeys {
    keys: Vec<HotKey>,
}

struct HotKey {
    key: PartitionKey,
    count: u64,
    rate: f64,
}

impl SetTraffic {
    fn new(range: RingRange, rates: Rates) -> SetTraffic {
        SetTraffic { range, counts: Default::default(), rates: Mutex::new(rates) }
    }

    fn part_of(&self, ring: RingToken) -> usize {
        let offset = ring.0.saturating_sub(self.range.start.0);
        let width = (self.range.last.0 - self.range.start.0) / PARTS as u128 + 1;
        ((offset / width) as usize).min(PARTS - 1)
    }

    fn part_start(&self, part: usize) -> RingToken {
        let width = (self.range.last.0 - self.range.start.0) / PARTS as u128 + 1;
        RingToken(self.range.start.0.saturating_add(width.saturating_mul(part as u128)))
    }

    fn tick(&self, span: usize, is_new_span: bool) {
        let mut rates = self.rates.lock();
        let rates = &mut *rates;
        let mut total = 0;
        for (count, rate) in self.counts.iter().zip(&mut rates.parts) {
            let count = count.swap(0, Ordering::Relaxed);
            total += count;
            *rate += (count as f64 - *rate) * MINUTE_WEIGHT;
        }
        rates.now += (total as f64 - rates.now) * NOW_WEIGHT;
        rates.minute += (total as f64 - rates.minute) * MINUTE_WEIGHT;
        if let Some(peak) = rates.peaks.get_mut(span) {
            *peak = if is_new_span { rates.minute } else { peak.max(rates.minute) };
        }
    }

    fn heat(&self) -> SetHeat {
        let rates = self.rates.lock();
        let ru = |rate: f64| rate / 1e6;
        let parts = rates.parts.iter().enumerate();
        SetHeat {
            now_ru_s: ru(rates.now),
            minute_ru_s: ru(rates.minute),
            peak_ru_s: ru(rates.peaks.iter().copied().fold(0.0, f64::max)),
            parts: parts.map(|(part, rate)| (self.part_start(part), *rate as u64)).collect(),
        }
    }

    /// What a new physical partition inherits of this one.
    fn inherited(&self, range: RingRange) -> Rates {
        let Some(common) = self.range.intersect(&range) else { return Rates::default() };
        let width = |range: RingRange| (range.last.0 - range.start.0) as f64 + 1.0;
        let share = width(common) / width(self.range);
        let rates = self.rates.lock();
        let scaled = |rate: &f64| rate * share;
        Rates {
            now: scaled(&rates.now),
            minute: scaled(&rates.minute),
            parts: [rates.minute * share / PARTS as f64; PARTS],
            peaks: rates.peaks.each_ref().map(scaled),
        }
    }
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
        if let Some(set) = self.sets.load().get(&partition.set)
            && let Some(count) = set.counts.get(set.part_of(ring))
        {
            count.fetch_add(millionths, Ordering::Relaxed);
        }
    }

    /// Follows a new map. What is new inherits from what it replaces.
    pub(crate) fn follow(&self, map: &PartitionMap, tables: impl Iterator<Item = TableId>) {
        let before = self.sets.load_full();
        let mut sets = HashMap::default();
        let gone: Vec<&Arc<SetTraffic>> = before
            .iter()
            .filter(|(set, _)| map.origin(**set).is_none())
            .map(|(_, traffic)| traffic)
            .collect();
        for (_, partitions) in map.spaces() {
            for partition in partitions {
                let traffic = match before.get(&partition.set) {
                    Some(known) => Arc::clone(known),
                    None => {
                        let mut rates = Rates::default();
                        // Sets end together only where they are neighbours of one space.
                        for old in gone.iter().take(2) {
                            let more = old.inherited(partition.range);
                            rates.now += more.now;
                            rates.minute += more.minute;
                            for (peak, other) in rates.peaks.iter_mut().zip(more.peaks) {
                                *peak += other;
                            }
                            for (part, other) in rates.parts.iter_mut().zip(more.parts) {
                                *part += other;
                            }
                        }
                        Arc::new(SetTraffic::new(partition.range, rates))
                    }
                };
                sets.insert(partition.set, traffic);
            }
        }
        self.sets.store(Arc::new(sets));
        let known = self.keys.load_full();
        let keys = tables
            .take(TABLES_MAX)
            .map(|table| (table, known.get(&table).cloned().unwrap_or_default()))
            .collect();
        self.keys.store(Arc::new(keys));
    }

    /// Called once a second: counts become rates.
    pub(crate) fn tick(&self) {
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed);
        let span = (tick / PEAK_SPAN_TICKS) as usize % PEAK_SPANS;
        for set in self.sets.load().values() {
            set.tick(span, tick.is_multiple_of(PEAK_SPAN_TICKS));
        }
        for keys in self.keys.load().values() {
            keys.lock().tick();
        }
    }

    /// How busy a physical partition is.
    pub(crate) fn heat(&self, set: SetId) -> SetHeat {
        self.sets.load().get(&set).map(|traffic| traffic.heat()).unwrap_or_default()
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
    /// Space saving: the coldest makes room, and its count stays as the error.
    fn note(&mut self, key: &PartitionKey, millionths: u64) {
        if let Some(known) = self.keys.iter_mut().find(|hot| hot.key.ring() == key.ring()) {
            known.count += millionths;
            return;
        }
        let bytes = bytes::Bytes::copy_from_slice(key.bytes());
        let key = PartitionKey::from_parts(bytes, key.ring());
        if self.keys.len() < KEYS_PER_TABLE {
            self.keys.push(HotKey { key, count: millionths, rate: 0.0 });
            return;
        }
        let coldness = |hot: &&mut HotKey| (hot.rate * 10.0) as u64 + hot.count;
        if let Some(coldest) = self.keys.iter_mut().min_by_key(coldness) {
            *coldest = HotKey { key, count: coldest.count + millionths, rate: coldest.rate };
        }
    }

    fn tick(&mut self) {
        for hot in &mut self.keys {
            let count = std::mem::take(&mut hot.count) as f64;
            hot.rate += (count - hot.rate) * NOW_WEIGHT;
        }
        self.keys.retain(|hot| hot.rate >= KEY_RATE_MIN);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use partition::{Origin, Reason, Space};

    use super::*;

    #[test]
    fn rates_follow_the_traffic_and_are_inherited() {
        let space = Space::Keyspace("ks".into());
        let map = PartitionMap::default().with_space(space.clone(), 1, 0);
        let table = TableId(4);
        let traffic = Traffic::default();
        traffic.follow(&map, [table].into_iter());
        let partition = map.partitions(&space)[0];
        let hot = PartitionKey::new(Bytes::from_static(b"hot"));
        for _ in 0..100 {
            for number in 0..80u32 {
                traffic.note(partition, table, &hot, 1_000_000);
                let cold = PartitionKey::new(Bytes::from(number.to_be_bytes().to_vec()));
                traffic.note(partition, table, &cold, 10_000);
            }
            traffic.tick();
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
        let halves: Vec<f64> =
            next.partitions(&space).iter().map(|it| traffic.heat(it.set).now_ru_s).collect();
        assert!((39.0..42.0).contains(&halves[0]) && (39.0..42.0).contains(&halves[1]));
    }
}
