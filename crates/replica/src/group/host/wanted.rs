//! Who is to belong to the sets that this node leads, as the map says. A leader goes there by itself, step by step; whoever leads
//! next goes on.

use std::collections::BTreeSet;

use types::{NodeId, ReplicaId, SetId};

use super::Host;
use crate::group::changes::{ChangeState, Goal};

/// So many ticks pass between two looks at what is wanted.
const LOOK_TICKS: u64 = 20;

/// The nodes that are to have the members of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedMembers {
    /// Whose members decide.
    pub voters: Vec<NodeId>,
    /// Whose members only follow.
    pub learners: Vec<NodeId>,
}

/// Tells who is to belong to a set; `None` where nobody wants anything.
pub type Wanted = Box<dyn Fn(SetId) -> Option<WantedMembers> + Send>;

impl WantedMembers {
    /// Members of nodes that have one stay what they are, unless they are `wrong`; others get numbers that nobody had.
    fn goal(&self, now: &storage::Configuration, wrong: &BTreeSet<ReplicaId>) -> Goal {
        let mut next = now.highest().0;
        let mut member = |node: &NodeId| {
            // While a wrong member is replaced on its own node that node has two, of which the newer one counts.
            let known = now.replica_on(*node).filter(|replica| !wrong.contains(replica));
            let replica = known.unwrap_or_else(|| {
                next += 1;
                ReplicaId(next)
            });
            (replica, *node)
        };
        let voters = self.voters.iter().map(&mut member).collect();
        Goal { voters, learners: self.learners.iter().map(&mut member).collect() }
    }
}

impl Host {
    /// From now on the leaders of this node see to it that sets have the members that are wanted.
    pub fn set_wanted(&mut self, wanted: Wanted) {
        self.wanted = Some(wanted);
    }

    pub(super) fn follow_wanted(&mut self) {
        // At once when the map or the nodes changed, and now and then, because a set may have got another leader.
        let version = self.batches.map.as_ref().map_or(0, |map| map.version());
        let is_new = version != self.wanted_version;
        if !is_new && !self.ticks.is_multiple_of(LOOK_TICKS) {
            return;
        }
        self.wanted_version = version;
        let Some(wanted) = self.wanted.take() else { return };
        let led: Vec<SetId> = self.core.sets().filter(|set| self.core.leads(*set)).collect();
        for set in led {
            let Some(members) = wanted(set).filter(|it| !it.voters.is_empty()) else { continue };
            if let ChangeState::Refused(why) = self.change_nodes(set, &members) {
                tracing::warn!(set = set.0, why, "members that are wanted cannot be");
            }
        }
        self.wanted = Some(wanted);
    }

    /// Which nodes are to have the members of a set, as [`Host::change_members`]. Members that are wrong are replaced by new ones.
    pub fn change_nodes(&mut self, set: SetId, wanted: &WantedMembers) -> ChangeState {
        let Some(state) = self.core.state(set) else { return ChangeState::NotLeader(None) };
        let wrong = self.wrong_members().into_iter();
        let wrong: BTreeSet<ReplicaId> = wrong.filter(|it| it.0 == set).map(|it| it.1).collect();
        // Who is replaced must not be needed to decide it.
        let voters = &state.configuration.voters;
        let left = voters.iter().filter(|voter| !wrong.contains(voter)).count();
        let wrong = if left * 2 > voters.len() { wrong } else { BTreeSet::new() };
        let goal = wanted.goal(&state.configuration, &wrong);
        self.change_members(set, goal)
    }

    /// Whether the members of a set are being changed by this node.
    pub(super) fn is_changing(&self, set: SetId) -> bool {
        let is_joint = |state: &storage::GroupState| state.configuration.is_joint();
        self.goals.contains_key(&set) || self.core.state(set).is_some_and(is_joint)
    }
}
