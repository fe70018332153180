//! A write from the log to its answer: the one place where it is finished, whether its outcome is there at once or comes
//! when the log is durable.

use std::cell::Cell;

use plan::modify::ConditionalResult;
use replica::{CommitResult, Reach, Ticket};
use types::{Outcome, SetId};
use units::{Charge, Work};

use crate::error::ExecuteError;
use crate::executor::Executor;
use crate::request::{Answer, Reply};
use crate::rows::Rows;

/// A write whose outcome is not known yet. It borrows nothing, so that it can wait without the request it came with.
pub struct PendingWrite {
    /// What was taken from budgets for it.
    ticket: Ticket,
    warnings: Vec<String>,
    /// How it answers, if it has a condition. In a box: most writes have none.
    conditional: Option<Box<ConditionalResult>>,
}

impl PendingWrite {
    pub(crate) fn new(
        ticket: Ticket,
        warnings: Vec<String>,
        conditional: Option<ConditionalResult>,
    ) -> PendingWrite {
        PendingWrite { ticket, warnings, conditional: conditional.map(Box::new) }
    }

    /// What the client gets when the write came to this outcome. What it cost is settled with the budgets and added to
    /// `work`; after a failure it is not known what was done, and the estimate stays spent. `reach`: for rows that are read for the answer.
    pub fn finish(
        self,
        executor: &Executor,
        outcome: CommitResult,
        reach: Reach<'_>,
        work: &Cell<Work>,
    ) -> Result<Answer, ExecuteError> {
        let PendingWrite { ticket, warnings, conditional } = self;
        let done = outcome?;
        let mut sum = work.get();
        sum.written += replica::charge_of(&done);
        work.set(sum);
        executor.replicas.budgets().settle(ticket, |place, _| {
            Charge::from_micros(done.get(place).map_or(0, |done| done.weight))
        });
        let reply = match conditional {
            None => Reply::Void,
            Some(conditional) => {
                let outcome = done.first().map_or(&Outcome::Applied, |done| &done.outcome);
                Reply::Rows(conditional_rows(executor, &conditional, outcome, reach)?)
            }
        };
        Ok(Answer { reply, warnings })
    }

    /// The set whose rows are read for the answer, beside the outcome.
    pub fn set_read(&self, executor: &Executor, outcome: &CommitResult) -> Option<SetId> {
        let conditional = self.conditional.as_deref()?;
        let outcome = &outcome.as_ref().ok()?.first()?.outcome;
        conditional.wants_first_row(outcome).then(|| executor.set_of_condition(conditional))?
    }

    /// Gives back what was taken from budgets: nothing was done.
    pub(crate) fn cancel(self, executor: &Executor) {
        executor.replicas.budgets().settle(self.ticket, |_, _| Charge::ZERO);
    }
}

fn conditional_rows(
    executor: &Executor,
    conditional: &ConditionalResult,
    outcome: &Outcome,
    reach: Reach<'_>,
) -> Result<Rows, ExecuteError> {
    let first_row = match conditional.wants_first_row(outcome) {
        true => executor.first_row(conditional, reach)?,
        false => None,
    };
    let result = conditional.rows(outcome, first_row)?;
    Ok(Rows::from_values(result.columns, result.rows))
}

#[cfg(test)]
mod tests {
    use replica::CommitError;

    use crate::testing::{Node, settings};

    use super::*;

    fn node() -> Node {
        let node = Node::new(settings());
        node.run_all(&[
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (p int, c int, s int static, v int, PRIMARY KEY (p, c))",
        ]);
        node
    }

    const NO: Option<&[u8]> = Some(&[0]);
    const YES: Option<&[u8]> = Some(&[1]);

    /// A conditional write is answered from what its plan left behind; nothing is bound again.
    #[test]
    fn a_condition_is_answered_with_the_row_it_looked_at() {
        let node = node();
        let applied = |text: &str| node.rows(text).remove(0).remove(0);
        assert_eq!(
            applied("INSERT INTO k.t (p, c, v) VALUES (1, 2, 3) IF NOT EXISTS").as_deref(),
            YES
        );
        let row = node.rows("UPDATE k.t SET v = 9 WHERE p = 1 AND c = 2 IF v = 4").remove(0);
        assert_eq!(row[0].as_deref(), NO);
        assert_eq!(row[1].as_deref(), Some(3i32.to_be_bytes().as_slice()));
        // The static row shows beside the first row of its partition, which is read after the commit.
        let row = node.rows("UPDATE k.t SET s = 9 WHERE p = 1 IF s = 4").remove(0);
        assert_eq!(row[0].as_deref(), NO);
        assert_eq!(node.numbers("SELECT v FROM k.t"), [3]);
    }

    /// A static row is shown by what the conditions read of it, also where another one asks whether a row is there.
    #[test]
    fn a_static_column_that_nobody_asked_for_makes_no_row() {
        let node = node();
        node.run_all(&[
            "CREATE TABLE k.s (p int, c int, a int static, b int static, v int, PRIMARY KEY (p, c))",
            "INSERT INTO k.s (p, a) VALUES (2, 5)",
        ]);
        let batch = |condition: &str| {
            node.rows(&format!(
                "BEGIN BATCH UPDATE k.s SET v = 1 WHERE p = 2 AND c = 1 IF EXISTS; \
                 UPDATE k.s SET v = 2 WHERE p = 2 AND c = 2 IF {condition}; APPLY BATCH"
            ))
            .remove(0)
        };
        assert_eq!(batch("b = 3").len(), 1);
        assert_eq!(batch("a = 3").len(), 6);
    }

    #[test]
    fn a_write_is_charged_when_it_is_done_and_not_when_it_failed() {
        let node = node();
        let (answer, work) = node.run_counted("INSERT INTO k.t (p, c, v) VALUES (1, 1, 1)");
        assert!(matches!(answer.unwrap().reply, Reply::Void));
        assert!(work.written > Charge::ZERO);
        let pending = PendingWrite::new(Ticket::default(), vec!["told".into()], None);
        let work = Cell::default();
        let failed =
            pending.finish(&node.executor, Err(CommitError::Closed), Reach::default(), &work);
        assert!(matches!(failed, Err(ExecuteError::Commit(CommitError::Closed))));
        assert_eq!(work.get().written, Charge::ZERO);
    }

    #[test]
    fn warnings_come_with_the_answer() {
        let node = node();
        let pending = PendingWrite::new(Ticket::default(), vec!["told".into()], None);
        let done = pending.finish(
            &node.executor,
            Ok(Default::default()),
            Reach::default(),
            &Cell::default(),
        );
        assert_eq!(done.unwrap().warnings, ["told"]);
    }
}
