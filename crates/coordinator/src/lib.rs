//! Runs a plan: locates the physical partitions, reads or commits through their replica sets,
//! filters, groups, pages, and hands back rows in the form the protocol sends them.
//!
//! It must not know frames or the layout of the disk.
//!
//! It has two halves. The [`Executor`] runs plans over handles that stay as they are. The [`Catalog`] keeps the schema
//! and the partition map, and changes them; the order of its locks is in `locks`.
//!
//! Reading order: `request`, [`Executor`], `select` (which sets are asked), `collect` (what becomes of the rows),
//! `page_state`, `resume`, `pending_write` (from the log to the answer), `virtual_rows`; then [`Catalog`], `view`,
//! `definitions` (changes of the schema), `partitions` (changes of the map), `balance`.
mod admission;
mod agreed_splits;
mod agreement;
mod balance;
mod catalog;
mod collect;
mod definitions;
mod error;
mod executor;
mod explain;
mod forecast;
mod locks;
mod meter;
mod page_state;
mod partition_facts;
mod partitions;
mod pending_write;
mod request;
mod resume;
mod routes;
mod rows;
mod select;
mod shared_traffic;
mod sizes;
mod sort;
#[cfg(test)]
mod testing;
mod traffic;
mod unit_facts;
mod usage;
mod view;
mod virtual_rows;
mod world;

pub use agreement::{Agreement, FOLLOWED_DOCUMENT};
pub use catalog::Catalog;
pub use definitions::{PARTITIONS_DOCUMENT, SCHEMA_DOCUMENT};
pub use error::ExecuteError;
pub use executor::Executor;
pub use page_state::PagingSecret;
pub use partitions::SplitPlace;
pub use partitions::map_with_changes;
pub use pending_write::PendingWrite;
pub use request::{
    Answer, Bounds, Executed, FREE_RESULT_BYTES, OutOfBounds, Reply, RequestContext,
};
pub use routes::Route;
pub use rows::Rows;
pub use world::{Settings, World};
