//! Reads of sets with several members: before a strong one this node's member must know everything that was committed before
//! (D12). Where it leads under a lease it does; otherwise it asks the leader once for all that wait. The rows are then read here.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use coordinator::{ExecuteError, Executed};
use plan::Plan;
use replica::group::Groups;
use tokio::sync::OwnedSemaphorePermit;
use types::SetId;
use units::ReadStrength;

use super::call::{Call, OwnedCall, strength};
use super::consistency::{Kind, check};
use super::engine::{Engine, Inner, Pace, Ran};
use super::plans::Patience;
use crate::reply::Failure;
use crate::session::{Finished, Step};
use crate::world;

/// While a set has no leader it is asked again so often.
const ASKED_AGAIN: Duration = Duration::from_millis(20);

/// So long a weak read waits for what this node knows to be committed; a disk that takes longer does not hold it up.
const BEHIND_WAIT: Duration = Duration::from_millis(200);

/// Whether a read looks at sets that were not asked.
enum Moved {
    Nothing,
    To(Vec<SetId>),
    /// The map of this node does not know where yet.
    Somewhere,
}

/// What a read waits for.
pub(super) struct Confirmation {
    sets: Vec<SetId>,
    patience: Patience,
    /// What this node knows is enough, where its members may answer.
    is_weak: bool,
}

impl Engine {
    /// The step of a read that must know first what was committed before it; `None` for everything else.
    #[cold]
    pub(super) fn confirm_first(
        &self,
        groups: &Groups,
        call: &Call<'_>,
        place: &mut Option<OwnedSemaphorePermit>,
        throws: bool,
        out: &mut BytesMut,
    ) -> Option<Step> {
        match self.0.read_confirmation(groups, call) {
            Ok(None) => None,
            Ok(Some(confirmation)) => {
                let Some(place) = place.take().or_else(|| self.0.place()) else {
                    return Some(self.0.without_place(call, throws, out));
                };
                let confirmed =
                    Arc::clone(&self.0).run_confirmed((*call).to_owned(), confirmation, place);
                Some(Step::Waits(Box::pin(confirmed)))
            }
            Err(failure) => Some(Step::Answered(self.0.answer_call(call, &Err(failure), out))),
        }
    }
}

impl Inner {
    /// What a call waits for before it is run; `None` for everything that is no strong read.
    pub(super) fn read_confirmation(
        &self,
        groups: &Groups,
        call: &Call<'_>,
    ) -> Result<Option<Confirmation>, Failure> {
        let [statement] = call.statements else { return Ok(None) };
        let Some(parameters) = call.parameters() else { return Ok(None) };
        if statement.plan.is_modification() {
            return Ok(None);
        }
        let consistency = parameters.consistency;
        let is_weak = strength(consistency) == ReadStrength::One;
        if is_weak && groups.may_read_all_locally() {
            return Ok(None);
        }
        self.with_plan(call, None, |plan, _| {
            let Plan::Select(select) = &plan else { return Ok(None) };
            let mut sets = self.executor.sets_of(select);
            if is_weak {
                let may_wait = |set| groups.is_behind(set) || !groups.may_read_locally(set);
                sets.retain(|set| groups.has_member(*set) && may_wait(*set));
            }
            if sets.is_empty() {
                return Ok(None);
            }
            check(Kind::Read, consistency, parameters.serial_consistency)?;
            self.ensure_alive(groups, &plan, parameters)?;
            // Members on other nodes are asked when their rows are, and who has a lease is not asked at all.
            sets.retain(|set| groups.has_rows(*set) && (is_weak || !groups.has_lease(*set)));
            if sets.is_empty() {
                return Ok(None);
            }
            // One that is not weak, or was and may not be answered here.
            let needs = self.needs(&plan, parameters);
            let patience =
                Patience::of(&plan, &self.timeouts, call.started, needs).as_said(call.statements);
            Ok(Some(Confirmation { sets, patience, is_weak }))
        })
    }

    /// Waits for what is to be known, then runs the call.
    pub(super) async fn run_confirmed(
        self: Arc<Self>,
        mut call: OwnedCall,
        confirmation: Confirmation,
        place: OwnedSemaphorePermit,
    ) -> Finished {
        let _place = place;
        let Confirmation { mut sets, patience, is_weak } = confirmation;
        // A set may have been split since it was asked: then its halves are asked, too.
        loop {
            if !self.confirm(&sets, patience, is_weak).await {
                return self.finished(&call, Err(Failure::ReadTimedOut(patience.needs)));
            }
            let moved = call.with(|call| Ok(self.moved_since(&call, &sets)));
            match moved.unwrap_or(Moved::Nothing) {
                Moved::Nothing => break,
                Moved::To(others) => sets.extend(others),
                Moved::Somewhere => tokio::time::sleep(ASKED_AGAIN).await,
            }
        }
        call.confirmed = sets;
        let schema = self.executor.schema();
        let ran = call.with(|call| self.run(&call, &schema, Pace::Inline));
        match ran {
            Ok(Ran { executed: Executed::Done(answer), .. }) => self.finished(&call, Ok(answer)),
            Ok(Ran { executed: Executed::TooLong, patience }) => {
                Box::pin(self.run_apart(call, patience)).await
            }
            Ok(Ran {
                executed: Executed::Pending(..) | Executed::NoRoom(_) | Executed::Elsewhere,
                ..
            }) => self.finished(&call, Err(Failure::Bug)),
            Err(Failure::Execute(ExecuteError::Throttled(wait)))
                if self.waits_for_budget(call.statements()) =>
            {
                Box::pin(self.wait_for_budget(call, wait)).await
            }
            Err(failure) => self.finished(&call, Err(failure)),
        }
    }

    /// What a read looks at and was not asked about, by the map of now.
    fn moved_since(&self, call: &Call<'_>, asked: &[SetId]) -> Moved {
        let moved = self.with_plan(call, None, |plan, _| {
            let Plan::Select(select) = &plan else { return Ok(Moved::Nothing) };
            let mut others = self.executor.sets_of(select);
            let groups = self.executor.groups();
            others.retain(|set| !asked.contains(set) && groups.is_some_and(|it| it.has_rows(*set)));
            Ok(match others.is_empty() {
                false => Moved::To(others.into_iter().collect()),
                true if self.executor.is_held_here(select) => Moved::Nothing,
                true => Moved::Somewhere,
            })
        });
        // What cannot be planned any more is told when it is run.
        moved.unwrap_or(Moved::Nothing)
    }

    /// Waits until this node's members of some sets have everything that was committed before, or, for a weak read, that this node
    /// knows to be; `false` if the time is up.
    pub(super) async fn confirm(&self, sets: &[SetId], patience: Patience, is_weak: bool) -> bool {
        let Some(groups) = self.executor.groups() else { return true };
        let (strong, weak): (Vec<SetId>, Vec<SetId>) =
            sets.iter().partition(|set| !is_weak || !groups.may_read_locally(**set));
        let all = async {
            // All are asked before any is waited for.
            let asked: Vec<_> = strong.iter().map(|set| (*set, groups.confirmed(*set))).collect();
            let caught_up: Vec<_> = weak.iter().map(|set| groups.caught_up(*set)).collect();
            for (set, mut asked) in asked {
                while !matches!((&mut asked).await, Ok(true)) {
                    tokio::time::sleep(ASKED_AGAIN).await;
                    asked = groups.confirmed(set);
                }
            }
            let caught_up = async {
                for set in caught_up {
                    let _ = set.await;
                }
            };
            let _ = tokio::time::timeout(BEHIND_WAIT, caught_up).await;
        };
        world::now() < patience.until
            && tokio::time::timeout_at(patience.until.into(), all).await.is_ok()
    }
}
