//! The way of a request that holds statements.
//!
//! Everything that is quick runs inline, in the turn of its connection. A change waits for the log
//! as a future. What may take long (scans, definitions, passwords) goes to threads of its own.

use std::cell::Cell;
use std::net::SocketAddr;
use std::slice;
use std::sync::Arc;

use bytes::BytesMut;
use coordinator::{Answer, Bounds, ExecuteError, Executed, Executor, RequestContext};
use cql::ast::BatchKind;
use plan::expression::bound_count;
use plan::{BatchItem, BatchLimits, BindContext, Plan, WriteWatch};
use protocol::{
    ErrorResponse, Frame, QueryParameters, Request, RequestMessage, ResponseHead, StatementSource,
    Version, WriteType,
};
use replica::{Asking, CommitError, Reach, WithoutRoom};
use schema::{Schema, SchemaError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use units::{Charge, ReadStrength, Work};

use super::apart::OwnTask;
use super::bounds::{Apart, InTurn, OwnThread};
use super::cache::{PreparedStatements, Statement};
use super::call::{self, AnswerPayload, Call, strength};
use super::counting::Spent;
use super::guardrails::GuardCounts;
use super::plans::Patience;
use super::promised::PromisedCall;
use super::running::RunningQueries;
use super::slow::{SlowStatements, Thresholds};
use super::table_counters::Traffic;
use super::traces::TraceKeeper;
use super::values::Bound;
use super::{access, audited, consistency, encode, held_back, plans, role_statements};
use crate::audit::Audit;
use crate::auth::{LoginGate, RoleKeeper, Seats};
use crate::config::{Guardrails, Payload, ServerRetry, Timeouts};
use crate::connection::Wait;
use crate::gather::Gatherer;
use crate::load::{GRAIN_BYTES, Load, Overload};
use crate::reply::{Failure, Needs, login_refused};
use crate::session::{Client, Effect, LoggedIn, Statements, Step, Turn};
use crate::spans::Tracer;
use crate::world::{self, Uuids};

/// How often a statement whose table is altered again and again is planned anew before its client is told to
/// come back.
const PLANS_MAX: u32 = 10;

/// Reads that wait for rows of other nodes at once, each on a thread.
const ELSEWHERE_MAX: usize = 256;

/// Scans that were begun and not ended; of these a few run at a time, in turns.
pub(super) const SCANS_BEGUN_MAX: usize = 32;

/// What an engine is made of.
pub(crate) struct Parts {
    pub(crate) executor: Arc<Executor>,
    pub(crate) roles: Arc<RoleKeeper>,
    pub(crate) gate: Arc<LoginGate>,
    pub(crate) uuids: Arc<Uuids>,
    pub(crate) timeouts: Timeouts,
    pub(crate) batch_limits: BatchLimits,
    /// Memory for prepared statements.
    pub(crate) prepared_bytes_max: u64,
    /// Scans at once.
    pub(crate) scans_max: usize,
    /// Whether and how requests are charged.
    pub(crate) charging: Charging,
    /// Requests that may wait at once; the newest are refused.
    pub(crate) waiting_max: usize,
    /// Where clients connect, for traces.
    pub(crate) address: SocketAddr,
    /// How loaded the node is.
    pub(crate) load: Arc<Load>,
    /// The profile is that of Azure Cosmos DB.
    pub(crate) is_cosmos: bool,
    /// Which statements are told of because they took long or cost much.
    pub(crate) slow: Thresholds,
    /// What people may do.
    pub(crate) rules: Rules,
    /// Where the node stands.
    pub(crate) data_center: Arc<str>,
    /// Asks other nodes for what they compute; a node that runs alone asks nobody.
    pub(crate) gatherer: Option<Arc<Gatherer>>,
}

/// What people may do, and what is kept of it.
pub(crate) struct Rules {
    /// What statements may ask for.
    pub(crate) guardrails: Guardrails,
    /// Who did what, if that is kept.
    pub(crate) audit: Option<Audit>,
    /// What roles may have at once.
    pub(crate) seats: Arc<Seats>,
    /// Takes spans of requests, if somebody collects them.
    pub(crate) tracer: Option<Arc<Tracer>>,
}

/// Whether and how requests are charged.
#[derive(Clone, Debug)]
pub(crate) struct Charging {
    /// What requests do is counted.
    pub(crate) counts: bool,
    /// Which clients are told what their requests cost.
    pub(crate) payload: Payload,
    /// In which keyspaces a request waits on the server when the budget is spent.
    pub(crate) retries: ServerRetry,
}

/// Runs the statements of all clients.
pub(crate) struct Engine(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) executor: Arc<Executor>,
    pub(super) roles: Arc<RoleKeeper>,
    pub(super) gate: Arc<LoginGate>,
    uuids: Arc<Uuids>,
    pub(super) timeouts: Timeouts,
    batch_limits: BatchLimits,
    pub(super) prepared: PreparedStatements,
    pub(super) traffic: Traffic,
    pub(super) spent: Spent,
    pub(super) slow: SlowStatements,
    /// What statements may ask for, if that is looked at.
    pub(super) guardrails: Option<Box<Guardrails>>,
    pub(super) guarded: GuardCounts,
    /// Who did what, if that is kept.
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) seats: Arc<Seats>,
    pub(super) running: Arc<RunningQueries>,
    /// Turns of scans: so many run at a time.
    pub(super) scans: Arc<Semaphore>,
    pub(super) scans_begun: Arc<Semaphore>,
    pub(super) elsewhere: Arc<Semaphore>,
    pub(super) traces: TraceKeeper,
    pub(super) charging: Charging,
    /// Places for requests that wait: for the log, for a thread, for their budget.
    pub(super) waiting: Arc<Semaphore>,
    pub(super) waiting_max: usize,
    pub(super) scans_max: usize,
    /// Of these, how many may wait for their budget.
    pub(super) waiting_for_budget: Arc<Semaphore>,
    pub(super) load: Arc<Load>,
    pub(super) is_cosmos: bool,
    /// Where the node stands.
    pub(super) data_center: Arc<str>,
    /// Asks other nodes for what they compute; a node that runs alone asks nobody.
    pub(super) gatherer: Option<Arc<Gatherer>>,
    pub(super) tracer: Option<Arc<Tracer>>,
}

/// How far a call came, and how long its client waits for the rest.
pub(super) struct Ran {
    pub(super) executed: Executed,
    pub(super) patience: Patience,
}

/// Where a call runs.
#[derive(Clone, Copy)]
pub(super) enum Pace<'a> {
    /// In the turn of its connection.
    Inline,
    /// On a thread of its own.
    Own(&'a OwnThread),
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Engine {
        let traces = TraceKeeper::new(
            Arc::clone(&parts.executor),
            Arc::clone(&parts.uuids),
            parts.address,
            parts.timeouts.write,
        );
        let Rules { guardrails, audit, seats, tracer } = parts.rules;
        let audit = audit.map(Arc::new);
        let told = audit.clone();
        parts.gate.set_witness(Box::new(move |client, name, error| {
            audited::login(told.as_deref(), client, name, Some(error));
        }));
        Engine(Arc::new(Inner {
            traces,
            executor: parts.executor,
            roles: parts.roles,
            gate: parts.gate,
            uuids: parts.uuids,
            timeouts: parts.timeouts,
            batch_limits: parts.batch_limits,
            prepared: PreparedStatements::new(parts.prepared_bytes_max),
            traffic: Traffic::default(),
            spent: Spent::default(),
            slow: SlowStatements::new(parts.slow),
            guarded: GuardCounts::default(),
            audit,
            seats,
            guardrails: (guardrails != Guardrails::off()).then(|| Box::new(guardrails)),
            running: Arc::default(),
            waiting_max: parts.waiting_max,
            scans_max: parts.scans_max,
            scans: Arc::new(Semaphore::new(parts.scans_max)),
            scans_begun: Arc::new(Semaphore::new(SCANS_BEGUN_MAX)),
            elsewhere: Arc::new(Semaphore::new(ELSEWHERE_MAX)),
            waiting: Arc::new(Semaphore::new(parts.waiting_max)),
            waiting_for_budget: Arc::new(Semaphore::new(parts.waiting_max / 2)),
            charging: parts.charging,
            load: parts.load,
            is_cosmos: parts.is_cosmos,
            data_center: parts.data_center,
            gatherer: parts.gatherer,
            tracer,
        }))
    }

    /// The first step of a call whose statements are planned. `place`: among all that wait, if it has one already; it
    /// stays there when the call is over.
    fn begin(
        &self,
        call: Call<'_>,
        schema: &Schema,
        place: &mut Option<OwnedSemaphorePermit>,
        throws: bool,
        out: &mut BytesMut,
    ) -> Step {
        if call.frame.body.len() >= GRAIN_BYTES && self.0.load.is_full() {
            let failure = self.0.too_much(Overload::Memory);
            return self.0.refused(&call, &failure, out);
        }
        // A change that is in the log waits whether there is a place for it or not: so it has one before.
        let is_change = match call.statements {
            [one] => one.plan.is_modification(),
            _ => true,
        };
        if is_change && place.is_none() {
            *place = self.0.place();
            if place.is_none() {
                return self.0.without_place(&call, throws, out);
            }
        }
        if let Some(groups) = self.0.executor.groups() {
            let first = self.gather_first(&call, place, throws, out);
            let first = first.or_else(|| self.confirm_first(groups, &call, place, throws, out));
            if let Some(step) = first {
                return step;
            }
        }
        let Ran { executed, patience } = match self.0.run(&call, schema, Pace::Inline) {
            Ok(ran) => ran,
            Err(Failure::Execute(ExecuteError::Throttled(wait)))
                if self.0.waits_for_budget(call.statements) =>
            {
                let Some(place) = place.take().or_else(|| self.0.place()) else {
                    return self.0.without_place(&call, throws, out);
                };
                let (inner, call) = (Arc::clone(&self.0), call.to_owned());
                return Step::Waits(Box::pin(async move {
                    let _place = place;
                    inner.wait_for_budget(call, wait).await
                }));
            }
            Err(failure) => {
                return Step::Answered(self.0.answer_call(&call, &Err(failure), out));
            }
        };
        match executed {
            Executed::Done(answer) => Step::Answered(self.0.answer_call(&call, &Ok(answer), out)),
            Executed::Pending(pending, None) => {
                let (inner, call, place) = (Arc::clone(&self.0), call.to_owned(), place.take());
                call.is_owed.set(true);
                Step::Promised(Box::new(PromisedCall { inner, call, pending, patience, place }))
            }
            // Not here: its outcome was promised to the connection.
            Executed::Pending(pending, outcome) => {
                let call = call.to_owned();
                call.is_owed.set(true);
                Step::Waits(Box::pin(Arc::clone(&self.0).finish(call, pending, outcome, patience)))
            }
            Executed::NoRoom(_) if throws => {
                let failure = self.0.too_much(Overload::Memory);
                self.0.refused(&call, &failure, out)
            }
            Executed::NoRoom(busy) => {
                let (inner, place) = (Arc::clone(&self.0), place.take());
                Step::HeldBack(Box::pin(async move {
                    held_back::wait_for_room(&inner.executor, busy, patience.until).await;
                    place
                }))
            }
            Executed::TooLong | Executed::Elsewhere => {
                let Some(place) = place.take().or_else(|| self.0.place()) else {
                    return self.0.without_place(&call, throws, out);
                };
                let head = call.bare_head();
                let (inner, call) = (Arc::clone(&self.0), call.to_owned());
                // In a task of its own: a client that does not take its answers must not keep the
                // threads from others that wait for one.
                let task = OwnTask(tokio::spawn(async move {
                    let _place = place;
                    inner.run_apart(call, patience).await
                }));
                Step::Waits(Box::pin(task.finished(head)))
            }
        }
    }
}

impl Statements for Engine {
    fn serve(
        &self,
        client: &Client,
        frame: &Frame,
        message: &RequestMessage<'_>,
        turn: Turn<'_>,
        out: &mut BytesMut,
    ) -> Step {
        let Turn { arrived: started, answer_to, throws, was_slowed, place, is_again } = turn;
        let trace = message.tracing.then(|| self.0.traces.begin(started));
        let traced = self.0.tracer.as_ref().and_then(|tracer| tracer.begin(message));
        let work = Cell::default();
        let mut call = Call {
            client,
            frame,
            message,
            statements: &[],
            started,
            trace: trace.as_ref(),
            traced: traced.as_ref(),
            work: &work,
            tells_charge: match self.0.charging.payload {
                Payload::Asked => call::asks_for_charge(message),
                Payload::Always => true,
                Payload::Never => false,
            },
            has_waited: false,
            was_slowed,
            confirmed: &[],
            gathered: None,
            answer_to: Some(answer_to),
            route: None,
            audit: self.0.audit.as_ref(),
        };
        if let Some(parameters) = call.parameters() {
            work.set(Work::new(strength(parameters.consistency)));
            if let Some(state) = parameters.paging_state
                && let Err(error) = self.0.executor.check_paging_state(state)
            {
                return self.0.refused(&call, &Failure::from(error), out);
            }
        }
        let seat = client.seat.as_ref().filter(|_| !is_again);
        if let Some(seat) = seat
            && let Err(failure) = call.pay(seat)
        {
            return self.0.refused(&call, &failure, out);
        }
        let schema = self.0.executor.schema();
        let found: Vec<Arc<Statement>>;
        let one: Arc<Statement>;
        let statements = match &message.request {
            Request::Batch(_) => self.0.batch_statements(&call, &schema).map(Found::Batch),
            _ => self.0.statement(&call, &schema).map(Found::One),
        };
        match statements {
            Err(failure) => {
                let paid = seat.map_or(Ok(()), |seat| call.pay_found(seat));
                return self.0.refused(&call, paid.as_ref().err().unwrap_or(&failure), out);
            }
            Ok(Found::One(statement)) => {
                one = statement;
                call.statements = slice::from_ref(&one);
                if let Some(seat) = seat
                    && let Err(failure) = call.pay_found(seat)
                {
                    return self.0.refused(&call, &failure, out);
                }
                if let Request::Prepare { .. } = message.request {
                    let warnings = match self.0.guard_prepared(client, &one, &schema) {
                        Ok(warnings) => warnings,
                        Err(failure) => return self.0.refused(&call, &failure, out),
                    };
                    // Not before: whoever knows its id could run what was refused.
                    self.0.prepared.put(&one);
                    encode::prepared(&call, &one, &warnings, out);
                    self.0.audit_prepared(client, &one);
                    self.0.traces.keep(&call);
                    return Step::Answered(Effect::none());
                }
            }
            Ok(Found::Batch(statements)) => {
                found = statements;
                call.statements = &found;
            }
        }
        let learned = if client.learns_routes { self.0.route_payload(&call) } else { None };
        call.route = learned.as_ref();
        self.0.traces.note(&call, "The statement is planned");
        self.begin(call, &schema, place, throws, out)
    }

    fn refuse(
        &self,
        (version, stream): (Version, i16),
        overload: Overload,
        out: &mut BytesMut,
    ) -> Effect {
        // The request was not looked into: whether it asks is not known.
        let tells = self.0.charging.payload == Payload::Always;
        let payload = AnswerPayload::of(Charge::ZERO, tells, None);
        let mut space = Default::default();
        let custom_payload = payload.pairs(&mut space);
        let head = ResponseHead { custom_payload, ..ResponseHead::new(version, stream) };
        let failure = self.0.too_much(overload);
        Effect::error(&head, &failure.response(protocol::Consistency::One), out)
    }

    fn end_turn(&self) {
        self.0.executor.write_group();
    }

    fn tells_routes(&self) -> bool {
        self.0.executor.groups().is_some()
    }

    fn requires_login(&self) -> bool {
        self.0.roles.requires_login()
    }

    fn log_in(
        &self,
        address: SocketAddr,
        name: &str,
        password: &str,
    ) -> Wait<Result<LoggedIn, ErrorResponse>> {
        let (inner, name) = (Arc::clone(&self.0), name.to_owned());
        let checked = Arc::clone(&inner.gate).log_in(address, name.clone(), password.to_owned());
        Box::pin(async move {
            // The gate tells of what fails by itself.
            let role = checked.await.map_err(|error| login_refused(&error))?;
            let outcome = inner.seat(role);
            audited::login(inner.audit.as_deref(), address, &name, outcome.as_ref().err());
            outcome.map_err(|error| login_refused(&error))
        })
    }
}

/// Whether a call was planned by a definition that is not in force any more; nothing was done then.
fn is_stale(ran: &Result<Ran, Failure>) -> bool {
    matches!(ran, Err(Failure::Write(CommitError::Stale, ..)))
}

enum Found {
    One(Arc<Statement>),
    Batch(Vec<Arc<Statement>>),
}

impl Inner {
    /// The statement that a request means.
    fn statement(&self, call: &Call<'_>, schema: &Schema) -> Result<Arc<Statement>, Failure> {
        match &call.message.request {
            Request::Execute { id, parameters, .. } => {
                let kept = self.prepared.get(id, schema);
                let statement = kept.ok_or_else(|| Failure::Unprepared(id.to_vec()))?;
                parameters.check_page_size()?;
                Ok(statement)
            }
            Request::Query { text, parameters } => {
                parameters.check_page_size()?;
                Ok(Arc::new(self.plan_text(call, text, schema, call.keyspace())?))
            }
            Request::Prepare { text, keyspace } => {
                let keyspace = keyspace.or(call.client.keyspace.as_deref());
                Ok(Arc::new(self.plan_text(call, text, schema, keyspace)?))
            }
            Request::Batch(_)
            | Request::Startup(_)
            | Request::Options
            | Request::Register(_)
            | Request::AuthResponse(_) => Err(Failure::Bug),
        }
    }

    fn plan_text(
        &self,
        call: &Call<'_>,
        text: &str,
        schema: &Schema,
        keyspace: Option<&str>,
    ) -> Result<Statement, plan::PlanError> {
        let plan = if self.is_cosmos { Statement::plan_as_original } else { Statement::plan };
        match plan(text, schema, keyspace) {
            Err(plan::PlanError::Syntax(refused)) if call.client.learns_routes => {
                let timed = Statement::plan_timed(text, schema, keyspace);
                timed.unwrap_or(Err(plan::PlanError::Syntax(refused)))
            }
            planned => planned,
        }
    }

    fn batch_statements(
        &self,
        call: &Call<'_>,
        schema: &Schema,
    ) -> Result<Vec<Arc<Statement>>, Failure> {
        let Request::Batch(batch) = &call.message.request else { return Err(Failure::Bug) };
        let mut found = Vec::with_capacity(batch.statements.count());
        for item in batch.statements.iter() {
            let statement = match item.source {
                StatementSource::Prepared(id) => {
                    self.prepared.get(id, schema).ok_or_else(|| Failure::Unprepared(id.to_vec()))?
                }
                StatementSource::Text(text) => {
                    Arc::new(Statement::plan(text, schema, call.keyspace())?)
                }
            };
            let (markers, values) = (statement.bind.len(), item.values.count());
            if markers != values {
                return Err(plan::PlanError::invalid(format!(
                    "There were {markers} markers(?) in CQL but {values} bound variables"
                ))
                .into());
            }
            found.push(statement);
        }
        Ok(found)
    }

    /// Binds the values of a call and hands the plan over, with the time that was given to it if its client said none.
    pub(super) fn with_plan<T>(
        &self,
        call: &Call<'_>,
        watch: Option<&dyn WriteWatch>,
        use_plan: impl FnOnce(Plan<'_>, Option<i64>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(parameters) = call.parameters() else { return Err(Failure::Bug) };
        let context = BindContext { watch, ..self.context(Some(parameters), call.frame.version) };
        let given_us = context.default_timestamp_us.is_none().then_some(context.now_us);
        match (&call.message.request, call.statements) {
            (Request::Batch(batch), statements) => {
                let mut bound: Vec<Bound<'_>> = Vec::with_capacity(batch.statements.count());
                for item in batch.statements.iter() {
                    bound.push(Bound::default());
                    bound.last_mut().into_iter().for_each(|bound| bound.fill(&item.values));
                }
                let items: Vec<BatchItem<'_>> = statements
                    .iter()
                    .zip(&bound)
                    .map(|(statement, values)| BatchItem { prepared: &statement.plan, values })
                    .collect();
                let kind = match batch.kind {
                    protocol::BatchKind::Logged => BatchKind::Logged,
                    protocol::BatchKind::Unlogged => BatchKind::Unlogged,
                    protocol::BatchKind::Counter => BatchKind::Counter,
                };
                use_plan(Plan::Batch(plan::bind_batch(kind, &items, &context)?), given_us)
            }
            (_, [statement]) => {
                let mut bound = Bound::default();
                bound.fill(&parameters.values);
                let variables = &statement.plan.bind_variables;
                let is_text = matches!(call.message.request, Request::Query { .. });
                // A prepared statement is told the numbers.
                if is_text && bound_count(&bound, variables) != variables.len() {
                    let text = "Invalid amount of bind variables";
                    return Err(plan::PlanError::invalid(text).into());
                }
                use_plan(statement.plan.bind(&bound, &context)?, given_us)
            }
            _ => Err(Failure::Bug),
        }
    }

    /// The world that values are bound in.
    pub(super) fn context(
        &self,
        parameters: Option<&QueryParameters<'_>>,
        version: Version,
    ) -> BindContext<'_> {
        let positive = |number: i32| u32::try_from(number).ok();
        BindContext {
            now_us: world::write_us(),
            now_s: parameters
                .and_then(|parameters| parameters.now_in_seconds)
                .and_then(|seconds| i32::try_from(seconds).ok()),
            default_timestamp_us: parameters.and_then(|parameters| parameters.timestamp),
            page_size: parameters.and_then(|parameters| parameters.page_size).and_then(positive),
            uuids: &*self.uuids,
            protocol_version: version.number(),
            batch_limits: self.batch_limits,
            watch: None,
        }
    }

    pub(super) fn run(
        &self,
        call: &Call<'_>,
        schema: &Schema,
        pace: Pace<'_>,
    ) -> Result<Ran, Failure> {
        let mut ran = match self.is_watched(call) {
            false => self.with_plan(call, None, |plan, given_us| {
                access::ensure(&self.roles, call.client, &plan, schema)?;
                self.run_plan(call, plan, given_us, schema, pace)
            }),
            true => self.run_watched(call, schema, pace),
        };
        if is_stale(&ran) {
            return self.run_again(call, pace);
        }
        if let Some(gathered) = call.gathered
            && let Ok(Ran { executed: Executed::Done(answer), .. }) = &mut ran
        {
            answer.warnings.extend_from_slice(&gathered.warnings);
        }
        ran
    }

    /// Plans and runs a call again whose table was altered meanwhile.
    #[cold]
    fn run_again(&self, call: &Call<'_>, pace: Pace<'_>) -> Result<Ran, Failure> {
        let mut tries = 1;
        loop {
            let schema = self.executor.schema();
            let statements = match &call.message.request {
                Request::Batch(_) => self.batch_statements(call, &schema)?,
                _ => vec![self.statement(call, &schema)?],
            };
            let call = Call { statements: &statements, ..*call };
            let ran = self.run_watched(&call, &schema, pace);
            if tries == PLANS_MAX || !is_stale(&ran) {
                return ran;
            }
            tries += 1;
        }
    }

    pub(super) fn run_plan(
        &self,
        call: &Call<'_>,
        plan: Plan<'_>,
        given_us: Option<i64>,
        schema: &Schema,
        pace: Pace<'_>,
    ) -> Result<Ran, Failure> {
        let Some(parameters) = call.parameters() else { return Err(Failure::Bug) };
        if let Some(kind) = plans::level_kind(&plan) {
            consistency::check(kind, parameters.consistency, parameters.serial_consistency)?;
        }
        if let Plan::Batch(batch) = &plan {
            self.traffic.add_batch(batch.kind, batch.mutations.len());
        }
        let needs = self.needs(&plan, parameters);
        let mut patience =
            Patience::of(&plan, &self.timeouts, call.started, needs).as_said(call.statements);
        let (write_type, until) = (patience.write_type, patience.until);
        let mut answer_to = call.answer_to;
        if let Some(groups) = self.executor.groups() {
            if plans::is_change(&plan) {
                self.ensure_alive(groups, &plan, parameters)?;
            }
            if plans::may_read_after(&plan) {
                // It is confirmed first what is read here, which takes a wait of its own.
                answer_to = None;
            }
        }
        if matches!(pace, Pace::Inline) && plans::takes_long(&plan, &self.executor) {
            return Ok(Ran { executed: Executed::TooLong, patience });
        }
        if let Plan::Roles(statement) = &plan {
            let executed =
                Executed::Done(role_statements::run(&self.roles, call, statement, schema)?);
            return Ok(Ran { executed, patience });
        }
        // Whoever asks what runs is shown too. On a thread of its own a call is shown in any case.
        let is_computed = matches!(&plan, Plan::Select(select) if select.table.is_virtual);
        let _shown =
            (is_computed && matches!(pace, Pace::Inline)).then(|| self.running.show_call(call));
        let in_turn = InTurn::new(until);
        let apart;
        let bounds: &dyn Bounds = match pace {
            Pace::Inline => &in_turn,
            Pace::Own(thread) => {
                apart = Apart { until, thread };
                &apart
            }
        };
        let trace = call.traced.map(|traced| traced.running());
        let request = RequestContext {
            paging_state: parameters.paging_state,
            reach: Reach {
                is_strong: strength(parameters.consistency) == ReadStrength::Strong,
                confirmed: call.confirmed,
                may_wait: matches!(pace, Pace::Own(_)),
                trace: trace.as_ref(),
            },
            given_us,
            bounds,
            keyspace: call.keyspace(),
            answer_to,
            gathered: call.gathered.map(|gathered| gathered.rows.as_slice()),
            without_room: WithoutRoom::ComesBack { was_slowed: call.was_slowed },
            work: call.work,
            throughput: call.throughput()?,
            asking: Asking {
                client: call.client_id(),
                waits: self.waits_for_budget(call.statements),
                has_waited: call.has_waited,
            },
        };
        let is_truncate = matches!(plan, Plan::Truncate(_));
        let executed = match self.executor.execute(plan, &request) {
            Err(ExecuteError::Crowded) => return Err(self.too_much(Overload::Memory)),
            Err(error) if is_truncate => {
                return Err(self.truncate_failure(error, write_type, needs));
            }
            executed => executed.map_err(|error| self.failure(error, write_type, needs))?,
        };
        match &executed {
            Executed::Done(answer) => {
                role_statements::after_definition(&self.roles, call.client, &answer.reply)
            }
            Executed::NoRoom(_) if world::now() >= until => {
                return Err(Failure::WriteTimedOut(write_type, needs));
            }
            Executed::Elsewhere => {
                // A few rows of another node are no scan.
                (patience.is_scan, patience.is_elsewhere) = (false, true);
                return Ok(Ran { executed: Executed::TooLong, patience });
            }
            Executed::NoRoom(_) | Executed::Pending(..) | Executed::TooLong => {}
        }
        Ok(Ran { executed, patience })
    }

    fn truncate_failure(
        &self,
        error: ExecuteError,
        write_type: WriteType,
        needs: Needs,
    ) -> Failure {
        match error {
            ExecuteError::Commit(CommitError::Unavailable { .. }) => Failure::TruncateUnavailable,
            ExecuteError::Commit(CommitError::TimedOut) => Failure::TruncateTimedOut,
            ExecuteError::Schema(SchemaError::Server(why)) => Failure::TruncateFailed(why),
            error => self.failure(error, write_type, needs),
        }
    }

    /// Why a plan could not be run.
    pub(super) fn failure(
        &self,
        error: ExecuteError,
        write_type: WriteType,
        needs: Needs,
    ) -> Failure {
        match error {
            ExecuteError::Commit(CommitError::Unavailable { required, alive }) => {
                let needs = Needs { required: needs.required.max(required), ..needs };
                let data_center = self.data_center.clone();
                Failure::Unavailable { needs, alive, data_center }
            }
            error => Failure::of_execution(error, write_type, needs),
        }
    }

    /// Appends the answer of a call that is done, and accounts for it.
    pub(super) fn answer_call(
        self: &Arc<Self>,
        call: &Call<'_>,
        outcome: &Result<Answer, Failure>,
        out: &mut BytesMut,
    ) -> Effect {
        let to = call.addressee();
        let effect = encode::answer(&to, outcome, out);
        let latency = self.count(&to, call.client, call.started, outcome);
        self.traces.keep(call);
        Effect { latency, ..effect }
    }
}
