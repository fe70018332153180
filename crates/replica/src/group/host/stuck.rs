//! A disk that takes nothing: it is full, or hangs. What this node leads is led by others who have it on theirs; reads are answered there.

use super::*;

/// A disk that took nothing of what waits for it for so long is stuck.
const STUCK_MS: u64 = 1_000;

/// How far the disk was when it was last looked at.
#[derive(Debug, Default)]
pub(super) struct Watched {
    persisted_turn: u64,
    /// Something waits for it, and nothing was done since then.
    since_ms: Option<u64>,
}

impl Host {
    /// Whether something waits for the disk, and nothing was written for long.
    pub fn is_stuck(&self) -> bool {
        self.watched.since_ms.is_some_and(|since_ms| self.now.ms >= since_ms + STUCK_MS)
    }

    /// In every tick.
    pub(super) fn look_at_disk(&mut self) {
        self.hand_on_installing();
        let is_waiting = self.persisted_turn < self.appended_turn;
        let moves = self.watched.persisted_turn != self.persisted_turn;
        if moves || !is_waiting || self.watched.since_ms.is_none() {
            let since_ms = is_waiting.then_some(self.now.ms);
            self.watched = Watched { persisted_turn: self.persisted_turn, since_ms };
            return;
        }
        if !self.is_stuck() {
            return;
        }
        self.hand_on(self.core.awake_sets().collect(), "the disk takes nothing");
    }

    /// Who was elected while its rows are on their way into the trees has everything in its log, and answers nobody.
    fn hand_on_installing(&mut self) {
        self.hand_on(self.sets_installing(), "its rows are on their way");
    }

    /// What this node leads of some sets is led by another that has all of it on its disk.
    fn hand_on(&mut self, sets: Vec<SetId>, why: &str) {
        if sets.is_empty() {
            return;
        }
        let alive = self.alive_nodes();
        for set in sets {
            if let Some(heir) = self.core.ask(set, |member| member.better_leader(&alive)) {
                tracing::debug!(set = set.0, why, "another member leads");
                self.core.tell(set, |member| member.hand_leadership_to_member(heir));
            }
        }
    }
}
