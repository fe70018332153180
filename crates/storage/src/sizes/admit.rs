//! Whether a logical partition may take a write.

use std::sync::atomic::Ordering;

use types::{Mutation, PartitionKey, TableId};

use crate::core::Core;

/// A write that passes one of these shares of the limit, in per cent, is warned of.
const WARNED_LEVELS: [u8; 3] = [50, 80, 95];

/// A write that would make a logical partition larger than it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFull {
    /// Which table.
    pub table: TableId,
    /// Which partition.
    pub key: PartitionKey,
    /// How many bytes it holds.
    pub bytes: u64,
    /// How many the write adds, at most.
    pub added_bytes: u64,
    /// How many it may hold.
    pub bytes_max: u64,
}

/// A write with which a logical partition passes a share of what it may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFilling {
    /// Which table.
    pub table: TableId,
    /// Which partition.
    pub key: PartitionKey,
    /// How many bytes it holds with the write.
    pub bytes: u64,
    /// How many it may hold.
    pub bytes_max: u64,
    /// The share, in per cent.
    pub level: u8,
}

/// Looks at mutations before they are logged. Mostly one comparison: only where some partition of the
/// node is large, or the write is, sizes are looked up.
pub(crate) fn admit(
    core: &Core,
    mutations: &[Mutation],
) -> Result<Vec<PartitionFilling>, PartitionFull> {
    let bytes_max = core.sizes.bounds.logical_bytes_max;
    let added_bytes: u64 = mutations.iter().map(added_bytes).sum();
    let largest = core.sizes.node_largest.load(Ordering::Relaxed);
    let quiet_below = bytes_max / 100 * u64::from(WARNED_LEVELS[0]);
    if added_bytes == 0 || largest.saturating_add(added_bytes) < quiet_below {
        return Ok(Vec::new());
    }
    look_up(core, mutations, bytes_max)
}

fn look_up(
    core: &Core,
    mutations: &[Mutation],
    bytes_max: u64,
) -> Result<Vec<PartitionFilling>, PartitionFull> {
    let mut filling = Vec::new();
    for (number, mutation) in mutations.iter().enumerate() {
        let is_same =
            |other: &&Mutation| other.table == mutation.table && other.key == mutation.key;
        if mutations.iter().take(number).any(|earlier| is_same(&earlier)) {
            continue;
        }
        let added_bytes: u64 = mutations.iter().skip(number).filter(is_same).map(added_bytes).sum();
        let Some(store) = core.store(mutation.table).filter(|_| added_bytes > 0) else { continue };
        let Some(opened) = store.if_open() else { continue };
        let (table, key, ring) = (mutation.table, &mutation.key, mutation.key.ring());
        let size = opened.sizes.of(ring).unwrap_or_default();
        let bytes = u64::try_from(size.bytes).unwrap_or(0);
        let after = bytes.saturating_add(added_bytes);
        if after > bytes_max {
            return Err(PartitionFull { table, key: key.clone(), bytes, added_bytes, bytes_max });
        }
        if let Some(level) = opened.sizes.passes(ring, after, &WARNED_LEVELS) {
            let key = key.clone();
            filling.push(PartitionFilling { table, key, bytes: after, bytes_max, level });
        }
    }
    Ok(filling)
}

/// What a mutation adds at most: what it replaces is not known before it is applied.
fn added_bytes(mutation: &Mutation) -> u64 {
    mutation.written_bytes() as u64
}
