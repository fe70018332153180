//! A request beside its plan, and its answer.

use std::cell::Cell;
use std::sync::Arc;

use replica::{AnswerTo, Asking, Busy, OutcomeReceiver, Reach, WithoutRoom};
use schema::SchemaEvent;
use schema::system::VirtualRow;
use units::Work;

use crate::pending_write::PendingWrite;
use crate::rows::Rows;

/// What a request may take: time, memory for its result, and the turn of whoever runs it.
pub trait Bounds {
    /// Asked after every few rows.
    fn go_on(&self) -> Result<(), OutOfBounds>;

    /// Asked when the result has grown to so many bytes, the first time beyond [`FREE_RESULT_BYTES`]. Returns to how
    /// many it may grow before it asks again.
    fn grow(&self, bytes: usize) -> Result<usize, OutOfBounds>;
}

/// A result up to this size does not ask: small reads go on whatever memory others hold.
pub const FREE_RESULT_BYTES: usize = 64 * 1024;

/// Why a request is not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfBounds {
    /// Its time is up, or nobody waits for it any more.
    TimedOut,
    /// It takes longer than others may be kept waiting for: it is to begin anew on a thread of its own.
    TooLong,
    /// No result may take more than this.
    TooLarge(usize),
    /// Other requests hold the memory.
    Crowded,
}

/// What comes with a request besides its plan.
pub struct RequestContext<'a> {
    /// Where the page begins, as the client sent it back.
    pub paging_state: Option<&'a [u8]>,
    /// How far it may go for rows that lie on other nodes.
    pub reach: Reach<'a>,
    /// What it may take of time and memory.
    pub bounds: &'a dyn Bounds,
    /// The time that the node gave to the request, where its client said none.
    pub given_us: Option<i64>,
    /// The keyspace of `USE`.
    pub keyspace: Option<&'a str>,
    /// Request units per second that a new table is to have, where the request says it beside the
    /// statement.
    pub throughput: Option<u32>,
    /// Which client's budget it is charged to, and how long it may wait for it.
    pub asking: Asking,
    /// Where the outcome of a write is delivered once it is durable.
    pub answer_to: Option<AnswerTo<'a>>,
    /// What happens to a write that storage has no room for.
    pub without_room: WithoutRoom,
    /// The rows of the computed table that is read, where they were gathered from all nodes.
    pub gathered: Option<&'a [VirtualRow]>,
    /// What the request did so far. It is told here, so that a request that fails is charged too.
    pub work: &'a Cell<Work>,
}

impl RequestContext<'_> {
    /// Adds to what the request did.
    pub(crate) fn add_work(&self, add: impl FnOnce(&mut Work)) {
        let mut work = self.work.get();
        add(&mut work);
        self.work.set(work);
    }
}

/// How far a plan came without waiting.
pub enum Executed {
    /// To its end.
    Done(Answer),
    /// Its write is in the log and waits to be durable. The receiver tells what became of it; without one, the mailbox
    /// of the request does.
    Pending(PendingWrite, Option<OutcomeReceiver>),
    /// Nothing was done: there is no room for the write now. It is to come again, see [`Executor::room`](crate::Executor::room).
    NoRoom(Busy),
    /// Nothing was done or charged: it takes longer than others may be kept waiting for, and needs a thread of its own.
    TooLong,
    /// Nothing was done or charged: rows lie on other nodes, and it needs a thread that may wait for those.
    Elsewhere,
}

/// What the client gets.
#[derive(Debug)]
pub struct Answer {
    /// The result.
    pub reply: Reply,
    /// What the client is told besides.
    pub warnings: Vec<String>,
}

/// A result, by kind.
#[derive(Debug)]
pub enum Reply {
    /// Nothing to tell.
    Void,
    Rows(Rows),
    /// The schema changed.
    SchemaChange(SchemaEvent),
    /// Another keyspace is in use.
    UseKeyspace(Arc<str>),
}

impl Answer {
    pub(crate) fn void() -> Answer {
        Answer { reply: Reply::Void, warnings: Vec::new() }
    }
}
