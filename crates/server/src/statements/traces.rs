//! Writing traces into `system_traces`, beside the requests that they are of.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coordinator::{Executed, Executor, RequestContext};
use plan::{BatchLimits, BindContext};
use protocol::{Consistency, Version, WriteType};
use replica::{Asking, CommitError, Reach, WithoutRoom};
use tokio::sync::Semaphore;
use units::budget::ClientId;

use super::bounds::InTurn;
use super::cache::Statement;
use super::call::Call;
use super::held_back;
use super::trace::Trace;
use crate::reply::{Failure, Needs};
use crate::world::{self, Uuids};

/// Traces that are being written at once; one more is not kept, and the log says so.
const WRITING_MAX: usize = 1024;

/// Keeps the traces of requests.
pub(super) struct TraceKeeper {
    writer: Arc<Writer>,
    writing: Arc<Semaphore>,
    /// Where clients connect.
    address: SocketAddr,
}

struct Writer {
    executor: Arc<Executor>,
    uuids: Arc<Uuids>,
    timeout: Duration,
}

impl TraceKeeper {
    pub(super) fn new(
        executor: Arc<Executor>,
        uuids: Arc<Uuids>,
        address: SocketAddr,
        timeout: Duration,
    ) -> TraceKeeper {
        let writer = Arc::new(Writer { executor, uuids, timeout });
        TraceKeeper { writer, writing: Arc::new(Semaphore::new(WRITING_MAX)), address }
    }

    pub(super) fn begin(&self, started: Instant) -> Arc<Trace> {
        Arc::new(Trace::begin(&self.writer.uuids, started))
    }

    /// Adds to the trace of a call, if it has one.
    pub(super) fn note(&self, call: &Call<'_>, activity: &str) {
        if let Some(trace) = call.trace {
            trace.note(&self.writer.uuids, activity);
        }
    }

    /// Writes the trace of a call that is done, if it has one. The client does not wait for it.
    pub(super) fn keep(&self, call: &Call<'_>) {
        let Some(trace) = call.trace else { return };
        trace.note(&self.writer.uuids, format!("Request charge: {} RU", call.charge()));
        trace.note(&self.writer.uuids, "Request complete");
        let Ok(permit) = Arc::clone(&self.writing).try_acquire_owned() else {
            tracing::warn!("a trace is not kept: too many are being written");
            return;
        };
        let statements = trace.statements(call, self.address);
        let writer = Arc::clone(&self.writer);
        tokio::spawn(async move {
            let _permit = permit;
            for statement in statements {
                if let Err(failure) = writer.write(&statement).await {
                    tracing::warn!(?failure, "a trace could not be kept");
                    return;
                }
            }
        });
    }
}

impl Writer {
    async fn write(&self, text: &str) -> Result<(), Failure> {
        let until = world::now() + self.timeout;
        let mut was_slowed = false;
        let waiting = loop {
            match self.begin_write(text, until, was_slowed)? {
                Executed::Done(_) => return Ok(()),
                Executed::Pending(_, outcome) => break outcome.ok_or(Failure::Bug)?,
                Executed::TooLong | Executed::Elsewhere => return Err(Failure::Bug),
                Executed::NoRoom(_) if world::now() >= until => {
                    return Err(Failure::WriteTimedOut(
                        WriteType::Simple,
                        Needs::alone(Consistency::Any),
                    ));
                }
                Executed::NoRoom(busy) => {
                    held_back::wait_for_room(&self.executor, busy, until).await;
                }
            }
            was_slowed = true;
        };
        match waiting.await {
            Ok(outcome) => outcome.map(drop).map_err(|error| Failure::Execute(error.into())),
            Err(_) => Err(Failure::Execute(CommitError::Closed.into())),
        }
    }

    fn begin_write(
        &self,
        text: &str,
        until: Instant,
        was_slowed: bool,
    ) -> Result<Executed, Failure> {
        let schema = self.executor.schema();
        let statement = Statement::plan(text, &schema, None)?;
        let context = BindContext {
            now_us: world::write_us(),
            now_s: None,
            default_timestamp_us: None,
            page_size: None,
            uuids: &*self.uuids,
            protocol_version: Version::NEWEST.number(),
            batch_limits: BatchLimits::default(),
            watch: None,
        };
        let plan = statement.plan.bind(&plan::NoValues, &context)?;
        let request = RequestContext {
            gathered: None,
            given_us: None,
            paging_state: None,
            reach: Reach::default(),
            bounds: &InTurn::new(until),
            keyspace: None,
            answer_to: None,
            without_room: WithoutRoom::ComesBack { was_slowed },
            work: &Cell::default(),
            throughput: None,
            asking: Asking { client: ClientId(0), waits: false, has_waited: true },
        };
        Ok(self.executor.execute(plan, &request)?)
    }
}
