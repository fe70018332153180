//! Which physical partition holds a key, and when there should be more or fewer of them.
//!
//! A *partition space* is a set of physical partitions that covers the whole internal ring. A table
//! with its own throughput has its own; the other tables of a keyspace share one. The map from
//! tables to spaces and from the ring to physical partitions is one immutable value with an epoch: a
//! change makes a new one, and whoever reads keeps the one it has.
//!
//! It must not know network or disk, and reads no clock.
//!
//! Reading order: [`PartitionMap`], `codec` for the form in which it is kept on disk, [`History`],
//! [`decide()`].
mod codec;
mod decide;
mod history;
mod map;

pub use codec::MapError;
pub use decide::{Action, BalanceLimits, Halving, PhysicalLoad, SpaceLoad, decide, halve, middle};
pub use history::{CHANGES_MAX, History, MapChange, Step};
pub use map::{MapRefusal, Origin, PartitionMap, PhysicalPartition, Reason, Space};
