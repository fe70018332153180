//! Which of two wins: Cassandra's rules.

use std::cmp::Ordering;

use types::{CellRef, CellState, Deletion, Liveness};

/// The cell that stays, of two at the same place. The order of the two never matters.
pub(crate) fn newer_cell<'a>(a: CellRef<'a>, b: CellRef<'a>) -> CellRef<'a> {
    *newer(&a, &b)
}

/// The same, where they lie.
#[inline]
pub(crate) fn newer<'r, 'a>(a: &'r CellRef<'a>, b: &'r CellRef<'a>) -> &'r CellRef<'a> {
    if compare_cells(a, b) == Ordering::Less { b } else { a }
}

fn compare_cells(a: &CellRef<'_>, b: &CellRef<'_>) -> Ordering {
    a.timestamp_us
        .cmp(&b.timestamp_us)
        // A tombstone beats an expiring cell, and that one a cell that stays: whichever will be a
        // tombstone one day is treated as one today, so that the winner does not change with time.
        .then_with(|| mortality(a).cmp(&mortality(b)))
        .then_with(|| end_s(a).cmp(&end_s(b)))
        .then_with(|| a.value().cmp(b.value()))
        .then_with(|| ttl_s(a).cmp(&ttl_s(b)))
}

fn mortality(cell: &CellRef<'_>) -> u8 {
    match cell.state {
        CellState::Value { expiry: None, .. } => 0,
        CellState::Value { expiry: Some(_), .. } => 1,
        CellState::Dead { .. } | CellState::DeletesElements { .. } => 2,
    }
}

fn end_s(cell: &CellRef<'_>) -> u32 {
    match cell.state {
        CellState::Value { expiry, .. } => expiry.map_or(0, |expiry| expiry.expires_at_s),
        CellState::Dead { deleted_at_s } | CellState::DeletesElements { deleted_at_s } => {
            deleted_at_s
        }
    }
}

fn ttl_s(cell: &CellRef<'_>) -> u32 {
    cell.expiry().map_or(0, |expiry| expiry.ttl_s)
}

/// The deletion that stays.
pub(crate) fn newer_deletion(a: Option<Deletion>, b: Option<Deletion>) -> Option<Deletion> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let rank = |deletion: &Deletion| (deletion.timestamp_us, deletion.deleted_at_s);
            Some(if rank(&a) < rank(&b) { b } else { a })
        }
        (a, b) => a.or(b),
    }
}

/// The liveness that stays: on a tie the expiring one, then the one that lives longer.
pub(crate) fn newer_liveness(a: Option<Liveness>, b: Option<Liveness>) -> Option<Liveness> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let rank = |liveness: &Liveness| {
                let expiry = liveness.expiry.map(|expiry| (expiry.expires_at_s, expiry.ttl_s));
                (liveness.timestamp_us, expiry)
            };
            Some(if rank(&a) < rank(&b) { b } else { a })
        }
        (a, b) => a.or(b),
    }
}
