//! Traffic of sets that have members on several nodes. Each node counts what it coordinates and tells the leaders of the sets once a
//! second, with the keys that cost most; a leader counts that as its own, so that its rates are those of the set, and tells the
//! others. On a node that runs alone nobody tells anything, and what is shown is what was counted.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use replica::group::load::{Counted, Heat, KEYS_MAX, KeyLoad, Traffic as Exchange};
use types::{PartitionKey, SetId, TableId};

use crate::locks::{Rank, Ranked};
use crate::traffic::{SetHeat, Traffic};
use crate::view::View;

/// So many sets of other leaders are known.
const TOLD_MAX: usize = 65_536;

/// What the leaders of sets told.
pub(crate) struct SharedTraffic {
    traffic: Arc<Traffic>,
    view: View,
    told: Ranked<HashMap<SetId, Heat, FixedState>>,
}

impl SharedTraffic {
    pub(crate) fn new(traffic: Arc<Traffic>, view: View) -> SharedTraffic {
        SharedTraffic { traffic, view, told: Ranked::new(Rank::Told, HashMap::default()) }
    }

    /// How busy a physical partition is: as its leader told, or as was counted here.
    pub(crate) fn heat(&self, set: SetId) -> SetHeat {
        let ru = |micros: u64| micros as f64 / 1e6;
        match self.told.lock().get(&set) {
            Some(heat) => SetHeat {
                now_ru_s: ru(heat.now),
                minute_ru_s: ru(heat.minute),
                peak_ru_s: ru(heat.peak),
            },
            None => self.traffic.heat(set),
        }
    }

    /// The hottest keys of a table, with their request units per second.
    pub(crate) fn hot_keys(&self, table: TableId) -> Vec<(PartitionKey, f64)> {
        let own = self.traffic.hot_keys(table);
        let told = self.told.lock();
        if told.is_empty() {
            return own;
        }
        let map = self.view.map();
        let is_told = |key: &PartitionKey| {
            map.locate(table, key.ring()).is_some_and(|it| told.contains_key(&it.set))
        };
        let mut keys: Vec<_> = own.into_iter().filter(|(key, _)| !is_told(key)).collect();
        let of_others = told.values().flat_map(|heat| &heat.keys).filter(|it| it.table == table);
        keys.extend(
            of_others.map(|it| (PartitionKey::new(it.key.clone()), it.micros as f64 / 1e6)),
        );
        keys
    }

    fn keys_by_set(&self, keys: Vec<(TableId, PartitionKey, u64)>) -> KeysBySet {
        let map = self.view.map();
        let mut found = KeysBySet::default();
        for (table, key, micros) in keys {
            if let Some(partition) = map.locate(table, key.ring()) {
                let key = Bytes::copy_from_slice(key.bytes());
                found.entry(partition.set).or_default().push(KeyLoad { table, key, micros });
            }
        }
        found
    }
}

type KeysBySet = HashMap<SetId, Vec<KeyLoad>, FixedState>;

/// The keys that cost most, as many as are told.
fn hottest(mut keys: Vec<KeyLoad>) -> Vec<KeyLoad> {
    keys.sort_by(|one, other| other.micros.cmp(&one.micros).then_with(|| one.key.cmp(&other.key)));
    keys.truncate(KEYS_MAX);
    keys
}

impl Exchange for SharedTraffic {
    fn take_counted(&self, wants: &dyn Fn(SetId) -> bool) -> Vec<Counted> {
        let mut keys = self.keys_by_set(self.traffic.take_untold_keys());
        let counted = self.traffic.take_untold().into_iter();
        let mut counted: Vec<Counted> = counted
            .filter(|(set, _)| wants(*set))
            .map(|(set, parts)| Counted {
                set,
                parts: parts.to_vec(),
                keys: hottest(keys.remove(&set).unwrap_or_default()),
            })
            .collect();
        counted.sort_unstable_by_key(|it| it.set);
        counted
    }

    fn add_counted(&self, counted: Counted) {
        self.traffic.add_counted(counted.set, &counted.parts);
        for key in counted.keys {
            let (table, micros) = (key.table, key.micros);
            self.traffic.add_counted_key(table, &PartitionKey::new(key.key), micros);
        }
    }

    fn heat_of_led(&self, leads: &dyn Fn(SetId) -> bool) -> Vec<Heat> {
        let mut keys = self.keys_by_set(self.traffic.all_hot_keys());
        // Who leads knows by itself.
        self.told.lock().retain(|set, _| !leads(*set));
        let sets = self.traffic.sets().into_iter().filter(|set| leads(*set));
        let told = sets.filter_map(|set| {
            let heat = self.traffic.heat(set);
            let micros = |ru: f64| (ru * 1e6) as u64;
            let (now, minute, peak) =
                (micros(heat.now_ru_s), micros(heat.minute_ru_s), micros(heat.peak_ru_s));
            let keys = hottest(keys.remove(&set).unwrap_or_default());
            (peak > 0).then_some(Heat { set, now, minute, peak, keys })
        });
        told.collect()
    }

    fn hear_heat(&self, heat: Heat) {
        let mut told = self.told.lock();
        let map = self.view.map();
        if told.len() >= TOLD_MAX {
            told.retain(|set, _| map.origin(*set).is_some());
        }
        if map.origin(heat.set).is_some() && told.len() < TOLD_MAX {
            told.insert(heat.set, heat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{KEYSPACE, Node, settings};

    const SECOND_US: i64 = 1_000_000;

    #[test]
    fn a_leader_knows_what_others_counted_and_tells_them() {
        let nodes = [Node::new(settings()), Node::new(settings())];
        for node in &nodes {
            node.run_all(&[KEYSPACE, "CREATE TABLE k.t (p int PRIMARY KEY)"]);
            node.catalog.traffic.share();
            node.catalog.traffic.tick(SECOND_US, 60_000);
        }
        let [own, leader] = nodes.each_ref().map(|node| &node.catalog);
        for _ in 0..800 {
            nodes[0].run_all(&["INSERT INTO k.t (p) VALUES (7)"]);
        }
        let space = own.space_named("k", None).unwrap();
        let key = PartitionKey::new(Bytes::copy_from_slice(&7i32.to_be_bytes()));
        let map = own.view.map();
        let parts = map.partitions(&space);
        let set = parts.iter().find(|it| it.range.contains(key.ring())).unwrap().set;
        own.traffic.tick(2 * SECOND_US, 60_000);
        let counted = own.shared_traffic.take_counted(&|_| true);
        let of_set: Vec<&Counted> = counted.iter().filter(|it| it.set == set).collect();
        assert_eq!((of_set.len(), of_set[0].keys.len()), (1, 1));
        assert_eq!(of_set[0].keys[0].key, key.bytes());
        assert!(own.shared_traffic.take_counted(&|_| true).is_empty(), "it is told once");
        counted.into_iter().for_each(|counted| leader.shared_traffic.add_counted(counted));
        leader.traffic.tick(2 * SECOND_US, 60_000);
        let (here, there) = (own.traffic.heat(set), leader.traffic.heat(set));
        assert!(here.now_ru_s > 100.0 && here == there, "{here:?} {there:?}");
        // Another second passes at the leader alone; what it tells is what is shown.
        leader.traffic.tick(3 * SECOND_US, 60_000);
        let told = leader.shared_traffic.heat_of_led(&|it| it == set);
        told.into_iter().for_each(|heat| own.shared_traffic.hear_heat(heat));
        let shown = own.shared_traffic.heat(set).now_ru_s;
        assert!((shown - leader.traffic.heat(set).now_ru_s).abs() < 0.01, "{shown}");
        assert!(shown < here.now_ru_s);
    }
}
