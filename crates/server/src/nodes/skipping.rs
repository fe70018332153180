//! `helenus skip`: the members of a set differ, no majority tells who is right, and an operator says whose rows count. Asked of any node,
//! which has all others do their part; neither the set itself nor the system set is needed for it.
//!
//! 1. Every node that is alive is asked what it has; `replica::group::plan_skip` checks it, and tells what is to be done.
//! 2. With `--unsafe` every node is told. Each keeps it in its log before it answers; said twice it is done once, so who was not reached is
//!    told by the same command again.
//! 3. The rest is the set's: its leader replaces the others' members, as any that differ.

use std::collections::{BTreeMap, BTreeSet};

use replica::group::{SkipPlan, plan_skip};
use types::{NodeId, SetId};

use super::recovery::Step;
use super::{Nodes, Steward};
use crate::world;

impl Nodes {
    /// What would become of a set that is frozen at an entry, with the rows of one node; with `is_unsafe` it does.
    pub(crate) fn skip(
        &self,
        (set, index): (SetId, u64),
        kept: NodeId,
        is_unsafe: bool,
    ) -> Result<SkipPlan, String> {
        let alive = self.groups.told().alive.clone();
        let membership = self.membership();
        let members = membership.members.iter().map(|it| it.node);
        let nodes: BTreeSet<NodeId> = members.collect();
        if !nodes.contains(&kept) {
            return Err(format!(
                "there is no node {}; `helenus nodes` shows those there are",
                kept.0
            ));
        }
        let silent: Vec<NodeId> = nodes.into_iter().filter(|it| !alive.contains(it)).collect();
        if silent.contains(&kept) {
            return Err(format!("node {} does not answer: start it, or keep another one", kept.0));
        }
        let told = self.ask_all(&silent, &Step::Look)?;
        let told: BTreeMap<_, _> = told.into_iter().map(|(node, it)| (node, it.members)).collect();
        let plan = plan_skip(&told, (set, index), kept)?;
        if is_unsafe {
            let done = self.ask_all(&silent, &Step::Skip(plan.skip.clone()));
            done.map_err(|why| format!("{why}; ask again, until all nodes did their part"))?;
        }
        Ok(plan)
    }
}

impl Steward {
    /// It is told to everybody that an operator said so, if it can be: the set may be the one that keeps what is told.
    pub(crate) fn tell_skip(&self, set: SetId, index: u64, kept: NodeId) {
        let now_ms = world::now_us() / 1000;
        let told = self.record(false, &mut |journal| journal.skip(now_ms, set, index, kept));
        if let Err(error) = told {
            tracing::warn!(%error, "that a set goes on cannot be written down");
        }
    }
}
