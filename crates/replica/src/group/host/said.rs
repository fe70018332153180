//! What nodes say to each other, and what becomes of requests.

use bytes::Bytes;
use storage::CommitResult;
use types::{NodeId, ReplicaId, RingToken, SetId};

use crate::group::load::{BudgetMessage, TrafficMessage};
use crate::group::reads::RowsAnswer;
use crate::group::rests::Beat;
use crate::group::transfer::TransferMessage;
use crate::group::wire::PeerMessage;
use crate::witness::TraceContext;

/// What became of a request.
#[derive(Clone, Debug)]
pub enum ProposalAnswer {
    /// It is committed, and was applied here with this outcome.
    Done(CommitResult),
    /// Nothing was done: another node's member leads, as far as is known.
    NotLeader(Option<NodeId>),
    /// Nothing was done, nor will be; it can be asked for again at once.
    Lost,
    /// Nothing was done: too much waits, or the leader is new.
    Busy,
    /// Nothing was done: the set was split, and this one has the keys.
    Moved(SetId),
}

/// A start of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// What it drew; another one at each start.
    pub run: u64,
    /// Where its log ended before it wrote anything to it, in bytes since the log began.
    pub opened: u64,
}

/// A message has at most so many beats; more make several.
pub(crate) const BEATS_MAX: usize = 16_384;

/// What one node says to another.
#[derive(Clone, Debug)]
pub enum NodeMessage {
    /// From one member to another.
    Consensus(PeerMessage),
    /// That members lead which rest, or that they heard of their leaders: a heartbeat, or its answer, of each set.
    Beats {
        /// At most [`BEATS_MAX`].
        beats: Vec<Beat>,
        /// Whether they answer.
        are_answers: bool,
    },
    /// A request for a set that the other node's member leads, perhaps.
    Request {
        /// The sender's number of it.
        number: u64,
        /// Which set.
        set: SetId,
        /// See [`storage::Request::from_bytes`].
        body: Bytes,
    },
    /// The same from a node that does not reach who leads: whoever gets it sees to it, and answers what became of it.
    Relay {
        /// The sender's number of it.
        number: u64,
        /// Which set.
        set: SetId,
        /// See [`storage::Request::from_bytes`].
        body: Bytes,
    },
    /// What became of a request.
    Answer {
        /// The number of the one who sent it.
        number: u64,
        /// What.
        answer: ProposalAnswer,
    },
    /// Rows are wanted of the other node's member of a set.
    Read {
        /// The sender's number of the read.
        number: u64,
        /// Which set.
        set: SetId,
        /// Whether everything that was committed before must be seen.
        is_strong: bool,
        /// See [`types::travel::decode_read_request`].
        body: Bytes,
    },
    /// A batch is to be decided: how far is a set of it whose member the other node has?
    Look {
        /// The sender's number of it, among its reads.
        number: u64,
        /// Which set.
        set: SetId,
        /// The least and the largest position of the ring that the batch has in it.
        rings: (RingToken, RingToken),
        /// The mutations among them that name positions in lists: see [`storage::Request::from_bytes`]. Nothing if there are none.
        body: Bytes,
    },
    /// What became of a read, or of a look.
    Rows {
        /// The number of the one who sent it.
        number: u64,
        /// What.
        answer: RowsAnswer,
    },
    /// That the node is there.
    Ping {
        /// Its own clock, in microseconds since the epoch.
        clock_us: i64,
        /// The version of what all agree on that it shows.
        shown: u64,
    },
    /// Up to where the node's log is on its disk: a node that comes back with less has an old image of its disk, and forgot what it
    /// promised. It comes before everything else that a node says over a connection.
    Standing {
        /// In bytes since the node's log began.
        synced: u64,
        /// When the node was started; not told to nodes that do not know of it.
        start: Option<Start>,
    },
    /// The other node is not listened to: it came back with an old image of its disk.
    Refused {
        /// What its log was known to hold.
        synced: u64,
    },
    /// A member does not belong to its set any more.
    Gone {
        /// Which set.
        set: SetId,
        /// Which member.
        replica: ReplicaId,
    },
    /// About the rows of a set that are handed over.
    Transfer(TransferMessage),
    /// About what sets may spend.
    Budgets(BudgetMessage),
    /// About how busy sets are.
    Traffic(TrafficMessage),
    /// For those who look after the nodes: what it says is theirs to know.
    Note(Bytes),
    /// A request or a read that comes behind it is traced.
    Traced {
        /// The sender's number of it.
        number: u64,
        /// Among its reads, or among its requests.
        is_read: bool,
        /// What is done for it is a part of this.
        context: TraceContext,
    },
    /// A member that it may not belong to its set any more asks.
    StillMember {
        /// Which set.
        set: SetId,
        /// Which member.
        replica: ReplicaId,
    },
    /// A member tells its leader the sum over everything that it applied up to an entry.
    Sum {
        /// Which set.
        set: SetId,
        /// Which member.
        replica: ReplicaId,
        /// By which rules it is summed.
        version: u8,
        /// Which entry.
        index: u64,
        /// The sum.
        sum: u64,
    },
    /// A message came for a member of a set that is not known here: where does the set come from?
    WhoIs {
        /// Which set.
        set: SetId,
    },
    /// Where a set comes from.
    Origin {
        /// Which set.
        set: SetId,
        /// The set that it was split from, and by which entry.
        split_from: Option<(SetId, u64)>,
    },
    /// A leader tells a member that its sum is not that of most.
    Differs {
        /// Which set.
        set: SetId,
        /// Which member.
        replica: ReplicaId,
        /// At which entry.
        index: u64,
    },
}
