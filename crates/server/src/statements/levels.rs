//! What the level of a request needs of the members of its replica sets (D13): a quorum for every write and every strong read, all of
//! them at ALL. Where too few are alive nothing is begun.

use plan::{BatchPlan, ModifyPlan, Plan};
use protocol::{Consistency, QueryParameters};
use replica::group::Groups;
use types::SetId;
use units::ReadStrength;

use super::call::strength;
use super::engine::Inner;
use crate::reply::{Failure, Needs};

/// The level of a write's condition, if it has one.
fn serial_level(plan: &Plan<'_>, parameters: &QueryParameters<'_>) -> Option<Consistency> {
    let (Plan::Modify(ModifyPlan { conditional, .. }) | Plan::Batch(BatchPlan { conditional, .. })) =
        plan
    else {
        return None;
    };
    conditional.as_ref()?;
    Some(parameters.serial_consistency.unwrap_or(Consistency::Serial))
}

/// The level that errors of a plan name: that of its condition first.
fn level_of(plan: &Plan<'_>, parameters: &QueryParameters<'_>) -> Consistency {
    serial_level(plan, parameters).unwrap_or(parameters.consistency)
}

/// How many of a set's voters a level needs, and how many are alive.
fn members(groups: &Groups, set: SetId, level: Consistency) -> (usize, usize) {
    let (quorum, voters, alive) = groups.alive(set);
    (if level == Consistency::All { voters } else { quorum }, alive)
}

impl Inner {
    /// The sets that a plan reads or writes.
    pub(super) fn sets_of(&self, plan: &Plan<'_>) -> Vec<SetId> {
        match plan {
            Plan::Select(select) => self.executor.sets_of(select),
            Plan::Modify(ModifyPlan { mutations, .. })
            | Plan::Batch(BatchPlan { mutations, .. }) => self.executor.sets_of_changes(mutations),
            _ => Vec::new(),
        }
    }

    /// What a plan waits for.
    #[inline]
    pub(super) fn needs(&self, plan: &Plan<'_>, parameters: &QueryParameters<'_>) -> Needs {
        match (self.executor.groups(), plan) {
            (None, Plan::Select(_)) => Needs::alone(parameters.consistency),
            (None, _) => Needs::alone(level_of(plan, parameters)),
            (Some(groups), _) => self.needs_of_sets(groups, plan, parameters),
        }
    }

    #[cold]
    fn needs_of_sets(
        &self,
        groups: &Groups,
        plan: &Plan<'_>,
        parameters: &QueryParameters<'_>,
    ) -> Needs {
        let level = level_of(plan, parameters);
        if matches!(plan, Plan::Select(_)) && strength(level) == ReadStrength::One {
            return Needs::alone(level);
        }
        let of_set = |set| members(groups, set, level).0;
        let required = self.sets_of(plan).into_iter().map(of_set).max();
        Needs { level, required: required.unwrap_or(1) }
    }

    /// Refuses a plan for which too few members of some set are alive. A condition needs them for its serial level first.
    pub(super) fn ensure_alive(
        &self,
        groups: &Groups,
        plan: &Plan<'_>,
        parameters: &QueryParameters<'_>,
    ) -> Result<(), Failure> {
        let levels = [serial_level(plan, parameters), Some(parameters.consistency)];
        for set in self.sets_of(plan) {
            for level in levels.into_iter().flatten() {
                let (required, alive) = members(groups, set, level);
                if alive < required {
                    let needs = Needs { level, required };
                    let data_center = self.data_center.clone();
                    return Err(Failure::Unavailable { needs, alive, data_center });
                }
            }
        }
        Ok(())
    }
}
