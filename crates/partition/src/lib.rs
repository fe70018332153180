//! Which physical partition holds a key, and when there should be more or fewer of them.
//!
//! A *partition space* is a set of physical partitions that covers the whole internal ring. A table
//! with its own throughput has its own; the other tables of a keyspace share one. The map from
//! tables to spaces and from the ring to physical partitions is one immutable value with an epoch: a
//! change makes a new one, and whoever reads keeps the one it has.
//!
//! It must not know network or disk, and reads no clock.
//!
//! Reading order: [`PartitionMap`], `codec` for the form in which it is kept on disk, `placement` for the nodes that have
//! its sets at first, [`decide`](mod@decide) for where they go from there, [`History`], [`decide()`] for splits and merges.
mod codec;
pub mod decide;
mod history;
mod map;
mod placement;
mod splits;

pub use codec::MapError;
pub use history::{CHANGES_MAX, History, MapChange, Step};
pub use map::{MapRefusal, Origin, PartitionMap, PhysicalPartition, Reason, Space};
pub use placement::{NodePlace, SET_MEMBERS, preferred_leader, voter_count};
pub use splits::{Action, BalanceLimits, Halving, PhysicalLoad, SpaceLoad, decide, halve, middle};
