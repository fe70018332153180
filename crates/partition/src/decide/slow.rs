//! Which nodes are slow: how each works beside the others, and for how long it did.
//!
//! A leader answers when its own disk has what it leads, so that a slow disk slows down all that ask it. Behind a quick leader nobody
//! waits for a slow member, unless another one is dead.

use std::collections::BTreeMap;

use types::NodeId;

/// Up to these nothing is slow, and differences do not count.
const EVEN_SYNC_US: f64 = 20_000.0;
const EVEN_QUEUE_US: f64 = 5_000.0;
const EVEN_UNAPPLIED: f64 = 1_000.0;
/// So many times as much as the middle one of the others is slow …
pub const SLOW_TIMES: f64 = 5.0;
/// … and with so many a node that was slow still is.
const STILL_SLOW_TIMES: f64 = 2.0;
/// For so long it works like that before it counts as slow, and before it does not any more: leaders do not come and go.
const SLOW_AFTER_MS: u64 = 20_000;
const WELL_AFTER_MS: u64 = 60_000;

/// How quickly a node works, as it tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// All but one in a hundred syncs of its log took no longer, if there were any.
    pub sync_p99_us: Option<u64>,
    /// How long a task waits for its turn.
    pub queue_us: u64,
    /// Entries that are committed and that its members did not apply yet.
    pub unapplied: u64,
}

/// How slow a node is beside the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowness {
    /// As the middle one of the others.
    pub times: f64,
    /// By what of all that is measured it is worst.
    pub by: &'static str,
}

type Measure = (&'static str, f64, fn(&Pace) -> Option<f64>);

const MEASURES: [Measure; 3] = [
    ("syncs of its log", EVEN_SYNC_US, |pace| pace.sync_p99_us.map(|us| us as f64)),
    ("its queue", EVEN_QUEUE_US, |pace| Some(pace.queue_us as f64)),
    ("entries that it did not apply yet", EVEN_UNAPPLIED, |pace| Some(pace.unapplied as f64)),
];

/// For each node how many times as much it takes as the middle one of the others, by the worst of what is measured. None of one that told
/// nothing, and of one that is alone.
pub fn slowness(paces: &[Option<Pace>]) -> Vec<Option<Slowness>> {
    let score = |place: usize, pace: &Pace| {
        let times = |(by, even, measure): Measure| {
            let others = paces.iter().enumerate().filter(|(at, _)| *at != place);
            let mut others: Vec<f64> = others.filter_map(|(_, it)| measure(it.as_ref()?)).collect();
            others.sort_by(f64::total_cmp);
            let middle = others.get(others.len() / 2)?;
            Some(Slowness { times: measure(pace)?.max(even) / middle.max(even), by })
        };
        let known = MEASURES.into_iter().filter_map(times);
        known.max_by(|left, right| left.times.total_cmp(&right.times))
    };
    paces.iter().enumerate().map(|(place, pace)| score(place, pace.as_ref()?)).collect()
}

/// Nodes that are slow, or may be: nobody is for a moment.
#[derive(Clone, Debug, Default)]
pub struct SlowNodes(BTreeMap<NodeId, Watched>);

#[derive(Clone, Copy, Debug)]
struct Watched {
    /// What it is taken for.
    slow: Option<Slowness>,
    /// Since when it works as if it were otherwise.
    otherwise_since_ms: Option<u64>,
}

impl SlowNodes {
    /// Nodes as they work now. Who tells nothing is not known to be slow.
    pub fn look(&mut self, now_ms: u64, nodes: &[(NodeId, Option<Pace>)]) {
        let paces: Vec<Option<Pace>> = nodes.iter().map(|(_, pace)| *pace).collect();
        self.0.retain(|known, _| nodes.iter().any(|(node, _)| node == known));
        for ((node, _), seen) in nodes.iter().zip(slowness(&paces)) {
            let it =
                self.0.entry(*node).or_insert(Watched { slow: None, otherwise_since_ms: None });
            let (bound, after_ms) = match it.slow {
                None => (SLOW_TIMES, SLOW_AFTER_MS),
                Some(_) => (STILL_SLOW_TIMES, WELL_AFTER_MS),
            };
            let seems = seen.filter(|it| it.times >= bound);
            if seems.is_some() == it.slow.is_some() {
                *it = Watched { slow: seems, otherwise_since_ms: None };
                continue;
            }
            let since_ms = *it.otherwise_since_ms.get_or_insert(now_ms);
            if now_ms.saturating_sub(since_ms) >= after_ms {
                *it = Watched { slow: seems, otherwise_since_ms: None };
            }
        }
    }

    /// Whether a node is slow, and by what.
    pub fn get(&self, node: NodeId) -> Option<Slowness> {
        self.0.get(&node)?.slow
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]
mod tests {
    use super::*;

    fn pace(sync_ms: u64, queue_ms: u64) -> Option<Pace> {
        let sync_p99_us = Some(sync_ms * 1000);
        Some(Pace { sync_p99_us, queue_us: queue_ms * 1000, unapplied: 3 })
    }

    #[test]
    fn a_slow_node_stands_out_and_an_even_cluster_does_not() {
        let times = |paces: &[Option<Pace>]| -> Vec<Option<f64>> {
            slowness(paces).into_iter().map(|it| it.map(|it| it.times)).collect()
        };
        assert_eq!(times(&[pace(90, 0)]), [None], "it is alone");
        // What differs by little is even.
        assert_eq!(times(&[pace(1, 0), pace(19, 4)]), [Some(1.0), Some(1.0)]);
        let paces = [pace(20, 0), pace(400, 0), pace(24, 50), None];
        assert_eq!(times(&paces), [Some(1.0), Some(400.0 / 24.0), Some(10.0), None]);
        assert_eq!(slowness(&paces)[1].unwrap().by, "syncs of its log");
        assert_eq!(slowness(&paces)[2].unwrap().by, "its queue");
    }

    #[test]
    fn nobody_is_slow_for_a_moment_or_well_at_once() {
        let mut slow = SlowNodes::default();
        let mut look = |now_ms, sync_ms| {
            let paces = [pace(10, 0), pace(sync_ms, 0), pace(12, 0), pace(9, 0)];
            let nodes: Vec<_> = (1..).map(NodeId).zip(paces).collect();
            slow.look(now_ms, &nodes);
            let found: Vec<u64> =
                (1..=4).filter(|node| slow.get(NodeId(*node)).is_some()).collect();
            found
        };
        assert_eq!(look(0, 200), [0; 0]);
        assert_eq!(look(19_999, 200), [0; 0]);
        // A moment without trouble, and it begins anew.
        assert_eq!(look(20_000, 30), [0; 0]);
        assert_eq!(look(21_000, 200), [0; 0]);
        assert_eq!(look(40_999, 200), [0; 0]);
        assert_eq!(look(41_000, 200), [2]);
        // A little better is not well.
        assert_eq!(look(42_000, 50), [2]);
        assert_eq!(look(143_000, 50), [2]);
        assert_eq!(look(144_000, 30), [2]);
        assert_eq!(look(203_999, 30), [2]);
        assert_eq!(look(204_000, 30), [0; 0]);
        // Who is gone, or tells nothing, is not slow.
        slow.look(0, &[(NodeId(1), None)]);
        assert_eq!(slow.get(NodeId(2)), None);
    }
}
