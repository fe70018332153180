//! Sets of which this node knows more to be committed than its own member has applied: what came may not be on its disk yet. A weak
//! read that is asked here waits for that, and for nothing else. So a client that asks the same node finds what it wrote: the leader
//! answers when a quorum has it, and this node may be the last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use types::SetId;

/// What is to be applied, and who waits for what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behind(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How many there are: most often none, and then nobody looks further.
    count: AtomicUsize,
    sets: Mutex<BTreeMap<SetId, Lag>>,
}

/// Of one set.
#[derive(Debug, Default)]
struct Lag {
    /// The entry that it has to apply; `None` until that is known.
    wanted: Option<u64>,
    /// It is not before this one.
    least: u64,
    /// As many as reads wait; each has a place among all that wait at the server.
    waiting: Vec<(Option<u64>, oneshot::Sender<bool>)>,
}

impl Behind {
    /// Whether any is.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.count.load(Ordering::Acquire) > 0
    }

    /// Whether a set is.
    pub(crate) fn contains(&self, set: SetId) -> bool {
        self.is_any() && self.0.sets.lock().contains_key(&set)
    }

    /// Told `true` when a set's member has applied what is known to be committed now.
    pub(crate) fn wait(&self, set: SetId) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        match self.0.sets.lock().get_mut(&set) {
            Some(lag) => lag.waiting.push((lag.wanted, sender)),
            None => drop(sender.send(true)),
        }
        receiver
    }

    /// A write is answered that another node's member applied, by an entry that is not before `least`. Called before anybody hears
    /// of it.
    pub(crate) fn answer(&self, set: SetId, least: u64) {
        let mut sets = self.0.sets.lock();
        let lag = sets.entry(set).or_default();
        (lag.wanted, lag.least) = (None, lag.least.max(least));
        self.0.count.store(sets.len(), Ordering::Release);
    }

    /// When everything that came was looked at. `touched`: sets of which more may be known. `known`: up to which entry this node's
    /// member knows its set to be committed, and has applied it; none if it has no member. What a leader has answered it has told its
    /// members before.
    pub(crate) fn settle(
        &self,
        touched: &BTreeSet<SetId>,
        known: impl Fn(SetId) -> Option<(u64, u64)>,
    ) {
        let is_behind = |set: &SetId| known(*set).is_some_and(|(commit, applied)| applied < commit);
        let fresh: Vec<SetId> = touched.iter().copied().filter(is_behind).collect();
        if fresh.is_empty() && !self.is_any() {
            return;
        }
        let mut sets = self.0.sets.lock();
        for set in fresh {
            sets.entry(set).or_default().wanted = None;
        }
        sets.retain(|set, lag| {
            let Some((commit, applied)) = known(*set) else { return false };
            // A member that its leader has to look for first hears of an entry after whoever asked for it.
            let commit = commit.max(lag.least);
            let wanted = *lag.wanted.get_or_insert(commit);
            let waits = |it: &mut (Option<u64>, _)| applied < *it.0.get_or_insert(commit);
            for (_, sender) in lag.waiting.extract_if(.., |it| !waits(it)) {
                let _ = sender.send(true);
            }
            applied < wanted || !lag.waiting.is_empty()
        });
        self.0.count.store(sets.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_behind_until_it_applied_what_was_known() {
        let (behind, set) = (Behind::default(), SetId(3));
        let touched = BTreeSet::from([set]);
        let none = BTreeSet::new();
        let is_told = |told: &mut oneshot::Receiver<bool>| told.try_recv() == Ok(true);
        assert!(!behind.is_any() && is_told(&mut behind.wait(set)));
        behind.answer(set, 0);
        assert!(behind.contains(set) && !behind.contains(SetId(4)));
        let mut first = behind.wait(set);
        behind.settle(&none, |_| Some((7, 5)));
        assert!(behind.contains(set) && !is_told(&mut first));
        // Who waits already does not wait for what comes later.
        behind.settle(&touched, |_| Some((9, 6)));
        let mut second = behind.wait(set);
        behind.settle(&none, |_| Some((9, 7)));
        assert!(is_told(&mut first) && !is_told(&mut second) && behind.contains(set));
        behind.settle(&none, |_| Some((9, 9)));
        assert!(is_told(&mut second) && !behind.is_any());
        // One whose member goes.
        behind.settle(&touched, |_| Some((10, 9)));
        assert!(behind.contains(set));
        behind.settle(&none, |_| None);
        assert!(!behind.is_any());
        behind.settle(&touched, |_| Some((10, 10)));
        assert!(!behind.is_any());
        // One that has not heard yet of what was answered.
        behind.answer(set, 11);
        behind.settle(&none, |_| Some((10, 10)));
        assert!(behind.contains(set));
        behind.settle(&touched, |_| Some((11, 11)));
        assert!(!behind.is_any());
    }
}
