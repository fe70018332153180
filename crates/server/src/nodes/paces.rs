//! How quickly this node works, and which nodes are slow beside the others by what all of them tell. Every node judges, so that whoever
//! decides next knows as much.

use parking_lot::Mutex;
use partition::decide::{Pace, SlowNodes, Slowness};
use replica::group::MemberStatus;
use storage::{TIMING_BOUNDS_US, TimingSum};
use types::NodeId;

use super::Nodes;
use crate::metrics::{grown_by, percentile};
use crate::world;

/// What is known of how nodes work.
#[derive(Default)]
pub(super) struct Paces {
    /// The syncs of this node's log up to the last look.
    counted: Mutex<Option<TimingSum>>,
    own: Mutex<Option<Pace>>,
    slow: Mutex<SlowNodes>,
}

impl Nodes {
    /// Measures how this node worked since the last time.
    pub(super) fn measure_pace(&self) {
        let syncs = self.storage.statistics().chores.syncs;
        let before = self.paces.counted.lock().replace(syncs.clone());
        let Some(before) = before else { return };
        let grown = grown_by(&before.classes, &syncs.classes);
        let behind = |it: &MemberStatus| it.commit.saturating_sub(it.applied);
        *self.paces.own.lock() = Some(Pace {
            sync_p99_us: percentile(&TIMING_BOUNDS_US, &grown, 0.99).map(|us| us as u64),
            queue_us: self.health.lock().as_ref().map_or(0, |it| it.queue_us),
            unapplied: self.groups.told().members.iter().map(behind).sum(),
        });
    }

    /// How this node worked when it was looked last.
    pub(super) fn own_pace(&self) -> Option<Pace> {
        *self.paces.own.lock()
    }

    /// Judges all nodes by what they told; who is down tells nothing.
    pub(super) fn judge_paces(&self) {
        let alive = self.groups.told().alive.clone();
        let told = self.heard_facts().into_iter().filter(|(node, _)| alive.contains(node));
        let told: Vec<(NodeId, Option<Pace>)> = told.map(|(node, it)| (node, it.pace)).collect();
        let mut slow = self.paces.slow.lock();
        let was_slow = |node: &NodeId| slow.get(*node).is_some();
        let before: Vec<NodeId> = told.iter().map(|it| it.0).filter(was_slow).collect();
        slow.look(world::steady_us() / 1000, &told);
        for (node, _) in told {
            match (before.contains(&node), slow.get(node)) {
                (false, Some(Slowness { times, by })) => {
                    tracing::warn!(node = node.0, times, by, "a node is slow beside the others");
                }
                (true, None) => tracing::info!(node = node.0, "a node is slow no more"),
                (true, Some(_)) | (false, None) => {}
            }
        }
    }

    /// Whether a node is slow, and by what.
    pub(crate) fn slowness(&self, node: NodeId) -> Option<Slowness> {
        self.paces.slow.lock().get(node)
    }
}
