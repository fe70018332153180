//! Who is to belong to the sets that this node leads, as the map says. A leader goes there by itself, step by step; whoever leads
//! next goes on.

use std::collections::BTreeSet;

use storage::Configuration;
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

/// What becomes of members that are wrong.
enum Replaced {
    /// New ones take their places.
    Members(BTreeSet<ReplicaId>),
    /// What is on this node goes.
    Goes(NodeId),
}

impl WantedMembers {
    fn without(&self, node: NodeId) -> WantedMembers {
        let mut left = self.clone();
        left.voters.retain(|it| *it != node);
        left.learners.retain(|it| *it != node);
        left
    }

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
        let goal = match self.replaced_now(set, &state.configuration) {
            Replaced::Members(wrong) => wanted.goal(&state.configuration, &wrong),
            Replaced::Goes(node) => wanted.without(node).goal(&state.configuration, &[].into()),
        };
        self.change_members(set, goal)
    }

    /// Which wrong members of a set are replaced next. A member goes as soon as the one that takes its place is spoken to, so those
    /// who are left must be able to decide without it: where most are wrong, but vote, one after the other is replaced.
    fn replaced_now(&self, set: SetId, configuration: &Configuration) -> Replaced {
        let wrong = self.wrong_members().into_iter();
        let wrong: BTreeSet<ReplicaId> = wrong.filter(|it| it.0 == set).map(|it| it.1).collect();
        let voters = &configuration.voters;
        let answers = |replica: ReplicaId| {
            // One whose node has a newer member went when that was spoken to.
            let node = configuration.node_of(replica);
            let node = node.filter(|node| configuration.replica_on(*node) == Some(replica));
            let has_answered = self.core.ask(set, |member| Some(member.has_answered(replica)));
            node.is_some_and(|node| self.is_alive(node)) && has_answered == Some(true)
        };
        let mut replaced: BTreeSet<ReplicaId> =
            wrong.iter().copied().filter(|it| !voters.contains(it)).collect();
        for voter in wrong.iter().copied().filter(|it| voters.contains(it)) {
            let left = voters.iter().copied().filter(|it| *it != voter && !replaced.contains(it));
            if left.filter(|it| answers(*it)).count() * 2 > voters.len() {
                replaced.insert(voter);
            }
        }
        // Of two neither can do without the other: it goes first, and comes again as a new one.
        let is_pair = |voter: &&ReplicaId| voters.len() == 2 && answers(**voter);
        let goes = voters.iter().find(|it| wrong.contains(it)).filter(is_pair);
        match goes.and_then(|voter| configuration.node_of(*voter)) {
            Some(node) => Replaced::Goes(node),
            None => Replaced::Members(replaced),
        }
    }

    /// Whether the members of a set are being changed by this node.
    pub(super) fn is_changing(&self, set: SetId) -> bool {
        let is_joint = |state: &storage::GroupState| state.configuration.is_joint();
        self.goals.contains_key(&set) || self.core.state(set).is_some_and(is_joint)
    }
}
