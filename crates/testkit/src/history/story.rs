//! A history that cannot be explained, to be read.

use std::fmt::Write;

use super::{Model, OperationOf};

/// Of the order that works only its end is told.
const TOLD_MAX: usize = 8;
/// Of the operations that overlap the one in question only so many are told.
const OVERLAPPING_MAX: usize = 16;

/// What the longest order ends with, and what could not follow.
pub(super) fn story<M: Model>(
    history: &[OperationOf<M>],
    longest_order: &[usize],
    state: &M::State,
    stuck_at: usize,
) -> String {
    let mut out = String::from("not linearizable: no order explains these answers\n");
    let left_out = longest_order.len().saturating_sub(TOLD_MAX);
    let _ = writeln!(
        out,
        "the longest order that works has {} of {} operations; it ends with:",
        longest_order.len(),
        history.len()
    );
    for place in &longest_order[left_out..] {
        let _ = writeln!(out, "    {}", line::<M>(&history[*place]));
    }
    let _ = writeln!(out, "  which leads to {state:?}");
    let stuck = &history[stuck_at];
    let _ = writeln!(out, "what had to take effect next, and cannot:");
    let _ = writeln!(out, "    {}", line::<M>(stuck));
    let may_come = |place: &usize| {
        let began = stuck.return_at.is_none_or(|return_at| history[*place].call_at <= return_at);
        began && *place != stuck_at && !longest_order.contains(place)
    };
    let mut others: Vec<usize> = (0..history.len()).filter(may_come).collect();
    others.sort_by_key(|place| history[*place].call_at);
    if !others.is_empty() {
        let _ = writeln!(out, "what might have come before it, and does not help:");
    }
    for place in others.iter().take(OVERLAPPING_MAX) {
        let _ = writeln!(out, "    {}", line::<M>(&history[*place]));
    }
    if others.len() > OVERLAPPING_MAX {
        let _ = writeln!(out, "    and {} more", others.len() - OVERLAPPING_MAX);
    }
    out
}

fn line<M: Model>(operation: &OperationOf<M>) -> String {
    let return_at = operation.return_at.map_or("open".to_string(), |at| at.to_string());
    let answer = operation.known_output().map_or("?".to_string(), |output| format!("{output:?}"));
    format!(
        "client {:<3} {:>9} to {:>9}  {:?} -> {answer}",
        operation.client, operation.call_at, return_at, operation.input
    )
}
