//! Changes of several sets, each set's part for itself, and what their callers get.

use super::*;

/// A change of several sets, each set's part for itself.
pub(super) struct Apart {
    remaining: usize,
    result: CommitResult,
    /// Something was done, or may be.
    has_effect: bool,
    done: Option<WriteDone>,
}

impl Apart {
    pub(super) fn new(count: usize, done: WriteDone) -> Apart {
        Apart { remaining: count, result: Ok(AllDone::new()), has_effect: false, done: Some(done) }
    }

    /// A set answered for the mutations that stood there.
    pub(super) fn take(apart: &Mutex<Apart>, slots: &[usize], outcome: WriteOutcome) {
        let mut apart = apart.lock();
        let result = result_of(outcome);
        let is_refused =
            matches!(result, Err(CommitError::Unavailable { .. } | CommitError::Overloaded));
        apart.has_effect |= !is_refused;
        match (&mut apart.result, result) {
            (Ok(all), Ok(dones)) => {
                for (slot, done) in slots.iter().zip(dones) {
                    if all.len() <= *slot {
                        let applied = Done { outcome: Outcome::Applied, weight: 0 };
                        all.resize(slot + 1, applied);
                    }
                    if let Some(place) = all.get_mut(*slot) {
                        *place = done;
                    }
                }
            }
            (Ok(_), Err(error)) => apart.result = Err(error),
            (Err(_), _) => {}
        }
        apart.remaining = apart.remaining.saturating_sub(1);
        if apart.remaining == 0
            && let Some(done) = apart.done.take()
        {
            let mut result = std::mem::replace(&mut apart.result, Ok(AllDone::new()));
            // Nobody is told that nothing was done where something was.
            if apart.has_effect
                && matches!(result, Err(CommitError::Unavailable { .. } | CommitError::Overloaded))
            {
                result = Err(CommitError::TimedOut);
            }
            drop(apart);
            done(WriteOutcome::Done(result));
        }
    }
}

pub(super) fn result_of(outcome: WriteOutcome) -> CommitResult {
    match outcome {
        WriteOutcome::Done(result) => result,
        WriteOutcome::Unavailable { required, alive } => {
            Err(CommitError::Unavailable { required, alive })
        }
        WriteOutcome::TimedOut => Err(CommitError::TimedOut),
    }
}
