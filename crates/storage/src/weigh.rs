//! What the rows of a mutation weigh: storage knows their sizes, and is told what a size means.
//!
//! The size of a row is that of its partition key, its clustering key and its live values (D5; see
//! [`schema::Ruler`]). Of a collection that is kept apart from its row the elements that change count.

/// Something a mutation did to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// A row was written; sizes before and after, `None` where it was not there.
    Row {
        /// Before the mutation.
        before: Option<u64>,
        /// After it.
        after: Option<u64>,
    },
    /// A condition looked at a row; `None` where there was none.
    Condition(Option<u64>),
    /// A logical partition or a range of rows was deleted.
    RangeDeletion,
    /// So many entries of secondary indexes were added or taken away.
    IndexTerms(u64),
}

/// Weighs what was touched. The weights of a mutation are added up.
pub type Weigh = fn(Touched) -> u64;
