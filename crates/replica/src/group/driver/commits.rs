//! Changes that somebody on this node wants: named, timed and handed to the thread.

use super::*;
use crate::witness::{Step, TraceContext};

impl Groups {
    /// Commits mutations of one set through its leader, wherever that is. `given_us`: the time that this node gave them.
    pub fn commit(
        &self,
        set: SetId,
        mutations: Vec<Mutation>,
        given_us: Option<i64>,
        trace: Option<TraceContext>,
        answer_to: Option<AnswerTo<'_>>,
    ) -> Committed {
        let asks = Asks { mutations, trace, ..Asks::default() };
        self.submit(set, asks, given_us, answer_to)
    }

    /// Empties a table in a set, as one change among the others.
    pub fn truncate(&self, set: SetId, table: TableId, range: RingRange) -> Committed {
        let truncates = Some(Truncate { table, range });
        self.submit(set, Asks { truncates, ..Asks::default() }, None, None)
    }

    /// Commits mutations of any sets: all of them or none.
    pub fn commit_batch(
        &self,
        mutations: Vec<Mutation>,
        given_us: Option<i64>,
        trace: Option<TraceContext>,
        answer_to: Option<AnswerTo<'_>>,
    ) -> Committed {
        let (request, deadline_ms) =
            self.request(Asks { mutations, ..Asks::default() }, given_us, true);
        let (done, committed) = self.answered(answer_to);
        let (_, done) = self.0.traced.around(trace, Step::CommitBatch, None, done);
        let request = Box::new(request);
        match self.ask(Question::SubmitBatch { request, deadline_ms, done }) {
            Ok(()) => committed,
            Err(_) => Committed::Now(Err(CommitError::Overloaded)),
        }
    }

    /// Commits mutations of several sets, each set's for itself. `change`: the mutations of each set, with where they stood; so many
    /// stood there. Answered when all of it is done.
    pub fn commit_apart(
        &self,
        change: Vec<(SetId, Vec<(usize, Mutation)>)>,
        given_us: Option<i64>,
        trace: Option<TraceContext>,
        answer_to: Option<AnswerTo<'_>>,
    ) -> Committed {
        let (done, committed) = self.answered(answer_to);
        let apart = Arc::new(Mutex::new(Apart::new(change.len(), done)));
        for (set, mutations) in change {
            let (slots, mutations): (Vec<usize>, Vec<Mutation>) = mutations.into_iter().unzip();
            // Several keys may be in several sets before they get there, as those of a batch may.
            let are_several = mutations.len() > 1;
            let (request, deadline_ms) =
                self.request(Asks { mutations, ..Asks::default() }, given_us, are_several);
            let told = Arc::clone(&apart);
            let done: WriteDone = Box::new(move |outcome| Apart::take(&told, &slots, outcome));
            let (trace, done) = self.0.traced.around(trace, Step::Commit, Some(set), done);
            let request = Box::new(request);
            let question = match are_several {
                true => Question::SubmitBatch { request, deadline_ms, done },
                false => Question::Submit { set, request, deadline_ms, trace, done },
            };
            if let Err(question) = self.ask(question)
                && let Question::Submit { done, .. } | Question::SubmitBatch { done, .. } =
                    *question
            {
                done(WriteOutcome::Done(Err(CommitError::Overloaded)));
            }
        }
        committed
    }

    pub(super) fn submit(
        &self,
        set: SetId,
        asks: Asks,
        given_us: Option<i64>,
        answer_to: Option<AnswerTo<'_>>,
    ) -> Committed {
        let trace = asks.trace;
        let (request, deadline_ms) = self.request(asks, given_us, false);
        // Whoever has a mailbox says when nothing more comes: [`Groups::ring`].
        let is_gathered = answer_to.is_some();
        let (done, committed) = self.answered(answer_to);
        let (trace, done) = self.0.traced.around(trace, Step::Commit, Some(set), done);
        let request = Box::new(request);
        let question = Question::Submit { set, request, deadline_ms, trace, done };
        let asked = match is_gathered {
            true => self.put(question).map(|_| ()),
            false => self.ask(question),
        };
        match asked {
            Ok(()) => committed,
            Err(_) => Committed::Now(Err(CommitError::Overloaded)),
        }
    }

    /// A request, and until when it is tried. It gets a name where it must not be done twice, or must be known again.
    fn request(&self, asks: Asks, given_us: Option<i64>, is_named: bool) -> (Request, u64) {
        let Asks { mutations, truncates, splits, trace: _ } = asks;
        let now = (self.0.clock)();
        let is_timed = given_us.is_some_and(|us| mutations.iter().all(|it| it.is_timed_at(us)));
        let is_same = |it: &Mutation| it.is_idempotent() && !it.may_extend_lists();
        let is_idempotent = !is_timed && mutations.iter().all(is_same);
        let number = self.0.next_request.fetch_add(1, Ordering::Relaxed);
        let id = u128::from(self.0.node.0) << 96 | u128::from(self.0.epoch) << 64;
        let deadline_ms = now.ms + self.0.request_ms;
        let cluster_us = match self.0.told.load().time_offset_us {
            Some(offset_us) => now.steady_us().saturating_add(offset_us),
            None => now.clock_us,
        };
        let cluster_s = u32::try_from(cluster_us / 1_000_000).unwrap_or(u32::MAX);
        let tried_s = u32::try_from(self.0.request_ms.div_ceil(1000)).unwrap_or(u32::MAX);
        let request = Request {
            id: (is_named || truncates.is_some() || splits.is_some() || !is_idempotent)
                .then_some(RequestId(id | u128::from(number))),
            not_after_s: cluster_s.saturating_add(tried_s).saturating_add(LATE_S),
            timed_us: given_us.filter(|_| is_timed),
            truncates,
            splits,
            mutations,
            step: None,
        };
        (request, deadline_ms)
    }

    /// Who is told what became of a request, and what its caller gets now.
    fn answered(&self, answer_to: Option<AnswerTo<'_>>) -> (WriteDone, Committed) {
        match answer_to {
            Some(AnswerTo { mailbox, number }) => {
                let (mailbox, shared) = (Arc::clone(mailbox), Arc::clone(&self.0));
                let done = move |outcome| {
                    if let Some(waker) = mailbox.put(number, result_of(outcome)) {
                        shared.wakers.lock().push(waker);
                    }
                };
                (Box::new(done), Committed::Promised)
            }
            None => {
                let (sender, receiver) = oneshot::channel();
                let done = move |outcome| {
                    let _ = sender.send(result_of(outcome));
                };
                (Box::new(done), Committed::Later(receiver))
            }
        }
    }
}
