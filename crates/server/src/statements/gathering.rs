//! Reads of computed tables that tell of all nodes: the others are asked first, then the read is run over the rows of all.

use std::sync::Arc;

use bytes::BytesMut;
use coordinator::Executed;
use plan::{Plan, PreparedKind};
use schema::Table;
use schema::system::is_gathered;
use tokio::sync::OwnedSemaphorePermit;

use super::access;
use super::call::{Call, OwnedCall};
use super::engine::{Engine, Inner, Pace, Ran};
use crate::gather::Gatherer;
use crate::reply::Failure;
use crate::session::{Finished, Step};

impl Engine {
    /// The step of a read for which other nodes are asked; `None` for everything else.
    pub(super) fn gather_first(
        &self,
        call: &Call<'_>,
        place: &mut Option<OwnedSemaphorePermit>,
        throws: bool,
        out: &mut BytesMut,
    ) -> Option<Step> {
        let [statement] = call.statements else { return None };
        let PreparedKind::Select(select) = &statement.plan.kind else { return None };
        if !select.table.is_virtual || !is_gathered(&select.table) {
            return None;
        }
        let gatherer = self.0.gatherer.as_ref()?;
        // Nobody is asked for what the client may not see, or what cannot be.
        let allowed = self.0.with_plan(call, None, |plan, _| match &plan {
            Plan::Select(_) => self.0.may_read(call, &plan),
            _ => Err(Failure::Bug),
        });
        if let Err(failure) = allowed {
            return Some(Step::Answered(self.0.answer_call(call, &Err(failure), out)));
        }
        let Some(place) = place.take().or_else(|| self.0.place()) else {
            return Some(self.0.without_place(call, throws, out));
        };
        let (inner, gatherer) = (Arc::clone(&self.0), Arc::clone(gatherer));
        let table = Arc::clone(&select.table);
        let gathered = inner.run_gathered((*call).to_owned(), gatherer, table, place);
        Some(Step::Waits(Box::pin(gathered)))
    }
}

impl Inner {
    fn may_read(&self, call: &Call<'_>, plan: &Plan<'_>) -> Result<(), Failure> {
        access::ensure(&self.roles, call.client, plan, &self.executor.schema())
    }

    /// Asks all nodes, then runs the call.
    async fn run_gathered(
        self: Arc<Self>,
        mut call: OwnedCall,
        gatherer: Arc<Gatherer>,
        table: Arc<Table>,
        place: OwnedSemaphorePermit,
    ) -> Finished {
        let _place = place;
        call.gathered = Some(Arc::new(gatherer.gather(&table).await));
        let schema = self.executor.schema();
        match call.with(|call| self.run(&call, &schema, Pace::Inline)) {
            Ok(Ran { executed: Executed::Done(answer), .. }) => self.finished(&call, Ok(answer)),
            Ok(Ran { executed: Executed::TooLong, patience }) => {
                Box::pin(self.run_apart(call, patience)).await
            }
            Ok(_) => self.finished(&call, Err(Failure::Bug)),
            Err(failure) => self.finished(&call, Err(failure)),
        }
    }
}
