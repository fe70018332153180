//! Traced requests: what is told of them, and to whom. A request that nobody traces costs a look at a `None`.

use types::{NodeId, SetId};

/// Which span of which trace something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: u128,
    /// The span within it.
    pub span: u64,
}

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A change of one set, from the coordinator until it is done.
    Commit,
    /// A change of several sets that is done as a whole, from the coordinator until it is done.
    CommitBatch,
    /// The same change at the node that leads the set.
    Lead,
    /// Rows of a set, read where they were asked for.
    Read,
    /// Rows of a set, from the coordinator until another node sent them.
    ReadElsewhere,
    /// Rows of a set, read for another node.
    Serve,
}

/// Something that was done for a traced request, and is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Itself.
    pub context: TraceContext,
    /// The span that it is a part of.
    pub parent: u64,
    /// What it is of.
    pub step: Step,
    /// Which set.
    pub set: Option<SetId>,
    /// For which node.
    pub peer: Option<NodeId>,
    /// When it began, in microseconds since 1970.
    pub started_us: i64,
    /// Whether it came to what was wanted.
    pub is_good: bool,
}

/// Who is told. Nobody waits for it.
pub trait Witness: Send + Sync {
    /// The time, in microseconds since 1970.
    fn now_us(&self) -> i64;
    /// A span that nobody has yet, in the same trace.
    fn below(&self, parent: TraceContext) -> TraceContext;
    /// A span is over.
    fn tell(&self, span: Span);
}
