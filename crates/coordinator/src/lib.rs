//! Runs a plan: locates the physical partitions, reads or commits through their replica sets,
//! filters, groups, pages, and hands back rows in the form the protocol sends them.
//!
//! It must not know frames or the layout of the disk.
//!
//! Reading order: [`Coordinator`], `select` (which sets are asked), `collect` (what becomes of the
//! rows), `page_state`, `resume`, `pending_write` (from the log to the answer), `virtual_rows`, `definitions` (schema changes).
mod admission;
mod balance;
mod collect;
mod coordinator;
mod definitions;
mod error;
mod explain;
mod forecast;
mod meter;
mod page_state;
mod partition_facts;
mod partitions;
mod pending_write;
mod resume;
mod rows;
mod select;
mod sizes;
mod sort;
#[cfg(test)]
mod testing;
mod traffic;
mod unit_facts;
mod usage;
mod virtual_rows;

pub use coordinator::{
    Answer, Bounds, Coordinator, Executed, FREE_RESULT_BYTES, OutOfBounds, Reply, RequestContext,
    Settings, World,
};
pub use definitions::{PARTITIONS_DOCUMENT, SCHEMA_DOCUMENT};
pub use error::ExecuteError;
pub use page_state::PagingSecret;
pub use partitions::SplitPlace;
pub use pending_write::PendingWrite;
pub use rows::Rows;
