//! Calls that somebody looks at, beside those who count: guardrails and traces. Most are not, which takes one look.

use coordinator::Executed;
use plan::Plan;
use schema::Schema;

use super::access;
use super::call::Call;
use super::engine::{Inner, Pace, Ran};
use super::guardrails::Guard;
use crate::reply::Failure;

impl Inner {
    /// Whether anybody looks at what a call does, beside those who count.
    #[inline]
    pub(super) fn is_watched(&self, call: &Call<'_>) -> bool {
        self.guardrails.is_some() | call.traced.is_some()
    }

    /// As [`Inner::run`], for those who look: the guardrails, and the log, whose lines have the ids of what is traced.
    #[inline(never)]
    pub(super) fn run_watched(
        &self,
        call: &Call<'_>,
        schema: &Schema,
        pace: Pace<'_>,
    ) -> Result<Ran, Failure> {
        let _log = call.traced.map(|traced| traced.log_span().entered());
        let guard = self.guard_of(call.client);
        let run = |plan: Plan<'_>, given_us| {
            self.run_guarded(call, guard.as_ref(), plan, given_us, schema, pace)
        };
        self.with_plan(call, guard.as_ref().map(Guard::watch), run)
    }

    /// Runs a plan that its client may run, and that asks for no more than it may.
    fn run_guarded(
        &self,
        call: &Call<'_>,
        guard: Option<&Guard<'_>>,
        mut plan: Plan<'_>,
        given_us: Option<i64>,
        schema: &Schema,
        pace: Pace<'_>,
    ) -> Result<Ran, Failure> {
        access::ensure(&self.roles, call.client, &plan, schema)?;
        let Some(guard) = guard else { return self.run_plan(call, plan, given_us, schema, pace) };
        let warnings = guard.check(call, &mut plan, schema)?;
        let mut ran = self.run_plan(call, plan, given_us, schema, pace)?;
        if let Executed::Done(answer) = &mut ran.executed {
            answer.warnings.splice(0..0, warnings);
        }
        // What could not run here runs again.
        if matches!(ran.executed, Executed::Done(_) | Executed::Pending(..)) {
            guard.count_warnings();
        }
        Ok(ran)
    }
}
