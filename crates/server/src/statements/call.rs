//! One execution: who asked for what, with which statements. Borrowed while it runs inline, owned
//! when it must wait.

use std::cell::Cell;
use std::net::IpAddr;
use std::slice;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use coordinator::Executed;
use protocol::{
    Consistency, Frame, QueryParameters, Request, RequestMessage, ResponseHead, Version,
};
use replica::AnswerTo;
use types::SetId;
use units::budget::ClientId;
use units::{Charge, ReadStrength, Work};

use super::audited;
use super::cache::Statement;
use super::engine::Ran;
use super::routing::ROUTE_KEY;
use super::trace::Trace;
use crate::audit::Audit;
use crate::auth::Seat;
use crate::gather::Gathered;
use crate::reply::Failure;
use crate::session::Client;
use crate::spans::TracedCall;

/// A request with the statements it means.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) client: &'a Client,
    pub(super) frame: &'a Frame,
    pub(super) message: &'a RequestMessage<'a>,
    /// One, or those of a batch in order.
    pub(super) statements: &'a [Arc<Statement>],
    pub(super) started: Instant,
    /// Its trace, if one is kept.
    pub(super) trace: Option<&'a Arc<Trace>>,
    /// Its spans, if somebody collects them.
    pub(super) traced: Option<&'a Arc<TracedCall>>,
    /// What it did so far.
    pub(super) work: &'a Cell<Work>,
    /// Whether its client is told what it cost.
    pub(super) tells_charge: bool,
    /// Whether it waited on the server for its budget.
    pub(super) has_waited: bool,
    /// Whether it was slowed down because storage was behind.
    pub(super) was_slowed: bool,
    /// Sets whose members here have everything that was committed before it came.
    pub(super) confirmed: &'a [SetId],
    /// The rows of all nodes, of a table that tells of all.
    pub(super) gathered: Option<&'a Arc<Gathered>>,
    /// Where the outcome of its change is wanted, while it runs in the turn of its connection.
    pub(super) answer_to: Option<AnswerTo<'a>>,
    /// The better nodes to ask, if its client is to learn of them.
    pub(super) route: Option<&'a Bytes>,
    /// Where it is kept who did what, if it is.
    pub(super) audit: Option<&'a Arc<Audit>>,
}

/// The key of a charge in the custom payload of an answer (cosmos-facts 2.2), and of a request that
/// wants to be told.
const CHARGE_KEY: &str = "RequestCharge";

/// Whether a request wants to be told its charge. Whoever can send a payload can read one; a driver
/// that never sends any may take it for the beginning of the answer.
pub(super) fn asks_for_charge(message: &RequestMessage<'_>) -> bool {
    let payload = message.custom_payload.as_ref();
    payload.is_some_and(|payload| payload.iter().any(|(key, _)| key == CHARGE_KEY))
}

/// The key of the throughput of a new table in the custom payload of a request.
const THROUGHPUT_KEY: &str = "cosmosdb_provisioned_throughput";
/// The most that a table or keyspace may be given (cosmos-facts 2.4).
const THROUGHPUT_MAX: u32 = 1_000_000;

/// The custom payload of an answer.
pub(super) struct AnswerPayload<'a> {
    charge: [u8; 8],
    is_told: bool,
    route: Option<&'a [u8]>,
}

impl<'a> AnswerPayload<'a> {
    /// What an answer tells of a charge, if it does, and of nodes to ask.
    pub(super) fn of(charge: Charge, is_told: bool, route: Option<&'a [u8]>) -> AnswerPayload<'a> {
        AnswerPayload { charge: charge.to_payload(), is_told, route }
    }

    /// As the head of an answer wants it; `space` is where it lies meanwhile.
    pub(super) fn pairs<'w>(
        &'w self,
        space: &'w mut [(&'w str, &'w [u8]); 2],
    ) -> &'w [(&'w str, &'w [u8])] {
        match (self.is_told, self.route) {
            (false, None) => return &[],
            (true, None) => space[0] = (CHARGE_KEY, &self.charge),
            (false, Some(route)) => space[0] = (ROUTE_KEY, route),
            (true, Some(route)) => {
                *space = [(CHARGE_KEY, &self.charge), (ROUTE_KEY, route)];
                return space;
            }
        }
        &space[..1]
    }
}

/// How many replicas a level asks: two above ONE (cosmos-facts 4.2).
pub(super) fn strength(consistency: Consistency) -> ReadStrength {
    match consistency {
        Consistency::Any | Consistency::One | Consistency::LocalOne | Consistency::NodeLocal => {
            ReadStrength::One
        }
        Consistency::Two
        | Consistency::Three
        | Consistency::Quorum
        | Consistency::All
        | Consistency::LocalQuorum
        | Consistency::EachQuorum
        | Consistency::Serial
        | Consistency::LocalSerial => ReadStrength::Strong,
    }
}

impl<'a> Call<'a> {
    /// What accompanies the request; `None` for one that has nothing to run.
    pub(super) fn parameters(&self) -> Option<&'a QueryParameters<'a>> {
        match &self.message.request {
            Request::Query { parameters, .. } | Request::Execute { parameters, .. } => {
                Some(parameters)
            }
            Request::Batch(batch) => Some(&batch.parameters),
            Request::Prepare { .. }
            | Request::Startup(_)
            | Request::Options
            | Request::Register(_)
            | Request::AuthResponse(_) => None,
        }
    }

    /// The keyspace of unqualified names.
    pub(super) fn keyspace(&self) -> Option<&'a str> {
        let own = self.parameters().and_then(|parameters| parameters.keyspace);
        own.or(self.client.keyspace.as_deref())
    }

    /// What it cost so far.
    pub(super) fn charge(&self) -> Charge {
        units::charge(&self.work.get())
    }

    /// The throughput that its custom payload asks for (cosmos-facts 2.2): a number as text.
    pub(super) fn throughput(&self) -> Result<Option<u32>, Failure> {
        let Some(payload) = &self.message.custom_payload else { return Ok(None) };
        let mut pairs = payload.iter();
        let Some((_, value)) = pairs.find(|(key, _)| *key == THROUGHPUT_KEY) else {
            return Ok(None);
        };
        let number = value.and_then(|value| std::str::from_utf8(value).ok());
        let number = number.and_then(|text| text.trim().parse::<u32>().ok());
        match number.filter(|units| (1..=THROUGHPUT_MAX).contains(units)) {
            Some(units) => Ok(Some(units)),
            None => Err(plan::PlanError::invalid(format!(
                "the payload {THROUGHPUT_KEY} must be a number from 1 to {THROUGHPUT_MAX}"
            ))
            .into()),
        }
    }

    /// How many statements it holds, where that is known before it is looked into.
    fn statement_count(&self) -> Option<usize> {
        match &self.message.request {
            Request::Batch(batch) => Some(batch.statements.count().max(1)),
            Request::Execute { .. } => None,
            Request::Query { text, .. } if may_be_batch(text) => None,
            _ => Some(1),
        }
    }

    /// Counts its statements against what its role may run in a second, if it is known how many there are.
    #[cold]
    pub(super) fn pay(&self, seat: &Seat) -> Result<(), Failure> {
        self.statement_count().map_or(Ok(()), |count| self.pay_for(seat, count))
    }

    /// The same of one that holds as many as its statement is, once that was found, or was not.
    #[cold]
    pub(super) fn pay_found(&self, seat: &Seat) -> Result<(), Failure> {
        if self.statement_count().is_some() {
            return Ok(());
        }
        let found = self.statements.iter().map(|statement| statement.statement_count());
        self.pay_for(seat, found.sum::<usize>().max(1))
    }

    fn pay_for(&self, seat: &Seat, statements: usize) -> Result<(), Failure> {
        let role = || self.client.role.clone().unwrap_or_default();
        seat.admit(statements).map_err(|too_fast| Failure::TooFast(too_fast, role()))
    }

    /// Who spends, for budgets: each connection for itself.
    pub(super) fn client_id(&self) -> ClientId {
        let ip = match self.client.address.ip() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits() as u64 ^ (ip.to_bits() >> 64) as u64,
        };
        ClientId(ip << 16 ^ u64::from(self.client.address.port()))
    }

    /// What its answer needs.
    pub(super) fn addressee(&self) -> Addressee<'a> {
        Addressee {
            version: self.frame.version,
            stream: self.frame.stream,
            consistency: self.consistency(),
            columns: self.columns(),
            statements: self.statements,
            trace: self.trace,
            traced: self.traced,
            charge: self.charge(),
            tells_charge: self.tells_charge,
            route: self.route.map(|route| &**route),
        }
    }

    fn consistency(&self) -> Consistency {
        self.parameters().map_or(Consistency::One, |parameters| parameters.consistency)
    }

    fn columns(&self) -> KnownColumns {
        let skips = |parameters: &QueryParameters<'_>| parameters.skip_metadata;
        match &self.message.request {
            Request::Query { parameters, .. } => KnownColumns::Query { skips: skips(parameters) },
            Request::Execute { result_metadata_id, parameters, .. } => {
                let is_other = |known: &[u8]| match self.statements {
                    [one] => *known != one.plan.result_metadata_id,
                    _ => false,
                };
                let knows_others =
                    self.frame.version >= Version::V5 && result_metadata_id.is_some_and(is_other);
                KnownColumns::Executed { skips: skips(parameters), knows_others }
            }
            _ => KnownColumns::None,
        }
    }

    /// The least that an answer starts with.
    pub(super) fn bare_head(&self) -> ResponseHead<'static> {
        ResponseHead::new(self.frame.version, self.frame.stream)
    }

    /// The same, to outlive the connection's turn. The body of the frame is shared, not copied.
    pub(super) fn to_owned(self) -> OwnedCall {
        OwnedCall {
            client: self.client.clone(),
            frame: self.frame.clone(),
            statements: match self.statements {
                [one] => Several::One(Arc::clone(one)),
                many => Several::Many(many.to_vec()),
            },
            started: self.started,
            trace: self.trace.cloned(),
            traced: self.traced.cloned(),
            work: self.work.clone(),
            tells_charge: self.tells_charge,
            has_waited: self.has_waited,
            was_slowed: self.was_slowed,
            confirmed: self.confirmed.to_vec(),
            gathered: self.gathered.cloned(),
            consistency: self.consistency(),
            columns: self.columns(),
            route: self.route.cloned(),
            audit: self.audit.cloned(),
            is_owed: Cell::new(false),
        }
    }
}

/// Whether a text may be BEGIN BATCH: it begins so, or with a comment.
fn may_be_batch(text: &str) -> bool {
    let text = text.trim_start();
    let begins = text.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("BEGIN"));
    begins || text.starts_with(['-', '/'])
}

/// Who is answered, and how: all that an answer needs of its request. The request is not decoded again for it, so that
/// nothing can go wrong between an outcome and its client.
#[derive(Clone, Copy)]
pub(super) struct Addressee<'a> {
    version: Version,
    stream: i16,
    pub(super) consistency: Consistency,
    pub(super) columns: KnownColumns,
    /// One, or those of a batch in order.
    pub(super) statements: &'a [Arc<Statement>],
    trace: Option<&'a Arc<Trace>>,
    pub(super) traced: Option<&'a Arc<TracedCall>>,
    /// What the call cost.
    pub(super) charge: Charge,
    tells_charge: bool,
    /// The better nodes to ask, as its client reads them.
    route: Option<&'a [u8]>,
}

/// Which columns of a result its client knows, and need not be told.
#[derive(Clone, Copy)]
pub(super) enum KnownColumns {
    None,
    /// It says so beside the text.
    Query {
        skips: bool,
    },
    /// Those of the statement when it was prepared, which may have been others.
    Executed {
        skips: bool,
        knows_others: bool,
    },
}

impl Addressee<'_> {
    /// What an answer tells beside its result.
    pub(super) fn payload(&self) -> AnswerPayload<'_> {
        AnswerPayload::of(self.charge, self.tells_charge, self.route)
    }

    /// What an error tells beside it: its charge.
    pub(super) fn payload_of_error(&self, charge: Charge) -> AnswerPayload<'static> {
        AnswerPayload::of(charge, self.tells_charge, None)
    }

    /// What the answer starts with.
    pub(super) fn head<'w>(
        &self,
        warnings: &'w [String],
        custom_payload: &'w [(&'w str, &'w [u8])],
    ) -> ResponseHead<'w> {
        ResponseHead {
            version: self.version,
            stream: self.stream,
            tracing_id: self.trace.map(|trace| trace.id),
            warnings,
            custom_payload,
        }
    }
}

/// A [`Call`] that holds everything itself.
pub(super) struct OwnedCall {
    client: Client,
    frame: Frame,
    statements: Several,
    pub(super) started: Instant,
    pub(super) trace: Option<Arc<Trace>>,
    traced: Option<Arc<TracedCall>>,
    pub(super) work: Cell<Work>,
    tells_charge: bool,
    pub(super) has_waited: bool,
    pub(super) was_slowed: bool,
    pub(super) confirmed: Vec<SetId>,
    pub(super) gathered: Option<Arc<Gathered>>,
    consistency: Consistency,
    columns: KnownColumns,
    route: Option<Bytes>,
    audit: Option<Arc<Audit>>,
    /// Its change is in the log, and it was not kept yet what became of it.
    pub(super) is_owed: Cell<bool>,
}

impl Drop for OwnedCall {
    /// Whose client did not wait for the outcome of a change made it all the same. What only waited was never done.
    fn drop(&mut self) {
        if self.is_owed.get() {
            self.keep(None);
        }
    }
}

enum Several {
    One(Arc<Statement>),
    Many(Vec<Arc<Statement>>),
}

impl OwnedCall {
    /// Its statement, or those of a batch in order.
    pub(super) fn statements(&self) -> &[Arc<Statement>] {
        match &self.statements {
            Several::One(one) => slice::from_ref(one),
            Several::Many(many) => many,
        }
    }

    /// Has the audit log keep what became of it: done, or why not.
    fn keep(&self, failure: Option<&Failure>) {
        if let Some(audit) = &self.audit {
            let failure = failure.map(|failure| (failure, self.consistency));
            audited::call(audit, &self.client, self.statements(), failure);
        }
    }

    /// Whose it is.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What its answer needs.
    pub(super) fn addressee(&self) -> Addressee<'_> {
        Addressee {
            version: self.frame.version,
            stream: self.frame.stream,
            consistency: self.consistency,
            columns: self.columns,
            statements: self.statements(),
            trace: self.trace.as_ref(),
            traced: self.traced.as_ref(),
            charge: units::charge(&self.work.get()),
            tells_charge: self.tells_charge,
            route: self.route.as_deref(),
        }
    }

    /// The least that an answer starts with.
    pub(super) fn bare_head(&self) -> ResponseHead<'static> {
        ResponseHead::new(self.frame.version, self.frame.stream)
    }

    /// Looks into the request again, to run it or to tell of it.
    pub(super) fn with<T>(
        &self,
        look: impl FnOnce(Call<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let message = RequestMessage::decode(&self.frame)?;
        look(Call {
            client: &self.client,
            frame: &self.frame,
            message: &message,
            statements: self.statements(),
            started: self.started,
            trace: self.trace.as_ref(),
            traced: self.traced.as_ref(),
            work: &self.work,
            tells_charge: self.tells_charge,
            has_waited: self.has_waited,
            was_slowed: self.was_slowed,
            confirmed: &self.confirmed,
            gathered: self.gathered.as_ref(),
            answer_to: None,
            route: self.route.as_ref(),
            audit: self.audit.as_ref(),
        })
    }
}

/// A call that was run on a thread of its own, with what came of it. If nobody is there to take it, the audit log is told.
pub(super) struct Unheard {
    call: Option<OwnedCall>,
    ran: Option<Result<Ran, Failure>>,
}

impl Unheard {
    /// Runs a call.
    pub(super) fn run(
        call: OwnedCall,
        run: impl FnOnce(&mut OwnedCall) -> Result<Ran, Failure>,
    ) -> Unheard {
        let mut unheard = Unheard { call: Some(call), ran: None };
        unheard.ran = unheard.call.as_mut().map(run);
        unheard
    }

    /// Hands it to whoever answers.
    pub(super) fn take(mut self) -> Option<(OwnedCall, Result<Ran, Failure>)> {
        self.call.take().zip(self.ran.take())
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        match &self.ran {
            Some(Ok(Ran { executed: Executed::Done(_) | Executed::Pending(..), .. })) => {
                call.keep(None)
            }
            Some(Ok(Ran { patience, .. })) => {
                call.keep(Some(&Failure::ReadTimedOut(patience.needs)))
            }
            Some(Err(failure)) => call.keep(Some(failure)),
            // It panicked.
            None => call.keep(Some(&Failure::Bug)),
        }
    }
}
