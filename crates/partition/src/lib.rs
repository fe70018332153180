//! Which physical partition holds a key.
//!
//! A *partition space* is a set of physical partitions that covers the whole internal ring; the
//! tables of one keyspace share one (a table with its own throughput will have its own). The map
//! from tables to spaces and from the ring to physical partitions is one immutable value with an
//! epoch: a change makes a new one, and whoever reads keeps the one it has.
//!
//! It must not know network or disk, and reads no clock.
//!
//! Reading order: [`PartitionMap`], then `codec` for the form in which it is kept on disk.
mod codec;
mod map;

pub use codec::MapError;
pub use map::{PartitionMap, PhysicalPartition, Space};
