//! What operators ask of nodes: each is checked first, and refused with the reason; then the node's state says it, and everybody does
//! his part.

use std::time::Duration;

use partition::decide::NodeState;
use partition::decide::{may_drain, may_leave, may_remove};
use types::NodeId;

use super::{Job, JobKind, Steward};
use crate::world;

/// An order is to be found in the journal within this time, and is written again after this one.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
const WRITTEN_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// What a node is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeOrder {
    /// It leads nothing any more, so that it can be stopped.
    Drain,
    /// It is emptied, and goes.
    Leave,
    /// It is not drained any more.
    EndDrain,
    /// It stays.
    Stay,
}

impl NodeOrder {
    /// What it is called among those who ask.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NodeOrder::Drain => "drain",
            NodeOrder::Leave => "leave",
            NodeOrder::EndDrain => "end-drain",
            NodeOrder::Stay => "stay",
        }
    }

    pub(crate) fn named(name: &str) -> Option<NodeOrder> {
        let all = [NodeOrder::Drain, NodeOrder::Leave, NodeOrder::EndDrain, NodeOrder::Stay];
        all.into_iter().find(|order| order.name() == name)
    }

    /// The job that it begins or ends.
    fn job(self) -> JobKind {
        match self {
            NodeOrder::Drain | NodeOrder::EndDrain => JobKind::Drain,
            NodeOrder::Leave | NodeOrder::Stay => JobKind::Decommission,
        }
    }
}

/// What became of an order.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    /// What the node is asked to be from now on.
    pub(crate) state: NodeState,
    /// The job that does it, or that was ended.
    pub(crate) job: Option<Job>,
}

/// What a node is asked to be when it is asked for something; an error if that does not go together.
fn next_state(order: NodeOrder, state: NodeState) -> Result<NodeState, String> {
    match (order, state) {
        (_, NodeState::Joining) => {
            Err("this node is still joining; try again in a moment".to_owned())
        }
        (NodeOrder::Drain, NodeState::Up) => Ok(NodeState::Draining),
        (NodeOrder::Leave, NodeState::Up | NodeState::Draining) => Ok(NodeState::Leaving),
        (NodeOrder::EndDrain, NodeState::Draining) | (NodeOrder::Stay, NodeState::Leaving) => {
            Ok(NodeState::Up)
        }
        (NodeOrder::Drain | NodeOrder::EndDrain, NodeState::Leaving) => {
            Err("this node is leaving; `helenus decommission --cancel` ends that".to_owned())
        }
        (NodeOrder::Stay, NodeState::Draining) => {
            Err("this node is draining; `helenus drain --cancel` ends that".to_owned())
        }
        (_, state) => Ok(state),
    }
}

impl Steward {
    /// Asks this node for something. What it was asked for already goes on, and its job is told again.
    pub(crate) fn order(&self, order: NodeOrder) -> Result<Ordered, String> {
        let own = self.nodes.own();
        let is_under_way = next_state(order, self.nodes.own_state())? == self.nodes.own_state();
        if !is_under_way {
            let (nodes, sets) = self.views();
            match order {
                NodeOrder::Drain => may_drain(&nodes, &sets, own)?,
                NodeOrder::Leave => may_leave(&nodes, &sets, own)?,
                NodeOrder::EndDrain | NodeOrder::Stay => {}
            }
        }
        let last_job = self.last_job();
        let running = self.running(own, order.job());
        let state = self.nodes.change(&mut |roster| {
            let member = roster.node_mut(own).ok_or("this node was removed from its cluster")?;
            member.state = next_state(order, member.state)?;
            Ok(member.state)
        })?;
        let job = match (order, running) {
            (NodeOrder::Drain | NodeOrder::Leave, _) => self.write_down(|| {
                let latest = self.latest(own, order.job());
                latest.filter(|job| is_under_way || job.id > last_job)
            }),
            // As it was ended.
            (NodeOrder::EndDrain | NodeOrder::Stay, Some(id)) => {
                let ended = || self.job(id).filter(|job| !job.is_running());
                self.write_down(ended).or_else(|| self.job(id))
            }
            (NodeOrder::EndDrain | NodeOrder::Stay, None) => {
                self.write_down(|| Some(()));
                None
            }
        };
        Ok(Ordered { state, job })
    }

    /// A node that will not come back is removed; what it held is made anew on others, which is a job.
    pub(crate) fn remove(&self, node: NodeId) -> Result<Option<Job>, String> {
        if node == self.nodes.own() {
            return Err(
                "a node does not remove itself: `helenus decommission` empties it first".to_owned()
            );
        }
        let is_member = self.nodes.known()?.is_some_and(|(_, roster)| roster.node(node).is_some());
        if let Some(job) = self.latest(node, JobKind::Remove)
            && !is_member
        {
            // It was asked for already: the numbers of nodes are not used again.
            return Ok(Some(job));
        }
        let (nodes, sets) = self.views();
        may_remove(&nodes, &sets, node)?;
        self.nodes.change(&mut |roster| {
            if roster.node(node).is_none() {
                return Err(format!(
                    "there is no node {}; `helenus nodes` shows those there are",
                    node.0
                ));
            }
            roster.remove(node);
            Ok(())
        })?;
        Ok(self.write_down(|| self.latest(node, JobKind::Remove)))
    }

    /// What was asked for is written into the journal, and found there. Others may write at the same time, or answer late: it is tried
    /// for a while. If all of that fails, whoever leads the system set does it in its next round.
    fn write_down<T>(&self, found: impl Fn() -> Option<T>) -> Option<T> {
        let begun = world::now();
        loop {
            // What was agreed on is known here, before and after.
            let documents = &self.nodes.documents;
            if documents.catch_up()
                && let Err(error) = self.record(false, &mut |_| {})
            {
                tracing::debug!(%error, "an order cannot be written down yet");
            }
            documents.catch_up();
            let found = found();
            if found.is_some() || world::now().duration_since(begun) >= WRITTEN_WITHIN {
                return found;
            }
            std::thread::sleep(WRITTEN_AGAIN_AFTER);
        }
    }

    fn last_job(&self) -> u64 {
        self.nodes.journal().ok().and_then(|it| it.jobs.last().map(|job| job.id)).unwrap_or(0)
    }

    /// The job with an id, as this node knows it.
    pub(crate) fn job(&self, id: u64) -> Option<Job> {
        self.nodes.journal().ok()?.job(id).cloned()
    }

    fn running(&self, node: NodeId, kind: JobKind) -> Option<u64> {
        self.nodes.journal().ok()?.running_for(node, kind).map(|job| job.id)
    }

    /// The latest job of a kind for a node, whether it runs or not.
    pub(crate) fn latest(&self, node: NodeId, kind: JobKind) -> Option<Job> {
        let journal = self.nodes.journal().ok()?;
        let is_it = |job: &&Job| job.kind == kind && job.node == Some(node);
        journal.jobs.iter().rev().find(is_it).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_go_together_with_what_was_asked_before_or_are_refused() {
        use NodeOrder::{Drain, EndDrain, Leave, Stay};
        use NodeState::{Draining, Joining, Leaving, Up};
        let asked = |order, state| next_state(order, state).ok();
        for order in [Drain, Leave, EndDrain, Stay] {
            assert_eq!(NodeOrder::named(order.name()), Some(order));
            assert_eq!(asked(order, Joining), None);
        }
        assert_eq!(
            [Up, Draining, Leaving].map(|it| asked(Drain, it)),
            [Some(Draining), Some(Draining), None]
        );
        assert_eq!([Up, Draining, Leaving].map(|it| asked(Leave, it)), [Some(Leaving); 3]);
        assert_eq!(
            [Up, Draining, Leaving].map(|it| asked(EndDrain, it)),
            [Some(Up), Some(Up), None]
        );
        assert_eq!([Up, Draining, Leaving].map(|it| asked(Stay, it)), [Some(Up), None, Some(Up)]);
    }
}
