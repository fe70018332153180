//! Images that come to this node, chunk by chunk, into files beside the log.
//!
//! What was written is synced after so many bytes, and at the end, on a thread of its own: members of other sets go on meanwhile, and
//! the last sync does not take the longer the larger the image is. Chunks that come while a file is away for that wait in memory;
//! there are no more of them than are on their way at once.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use storage::{ImageHead, Staging};
use types::{NodeId, ReplicaId, SetId};

use super::Host;
use super::transfers::{CHUNKS_MAX, GIVEN_UP_MS, TRANSFERS_MAX};
use crate::group::member::StagedPlace;
use crate::group::transfer::Taken;

/// An image on its way in.
pub(super) struct Receiving {
    number: u64,
    pub(super) from: NodeId,
    member: ReplicaId,
    pub(super) head: ImageHead,
    stage: Stage,
    /// So many chunks are in the file.
    count: u32,
    /// Chunks that came while the file was away, and whether they are the last.
    pub(super) held: VecDeque<(Bytes, bool)>,
    pub(super) heard_ms: u64,
}

enum Stage {
    /// It comes; no file while that is being synced.
    Coming(Option<Staging>),
    /// All of it is here, on the disk.
    Whole,
}

/// A file that was synced.
pub(super) struct Synced {
    set: SetId,
    number: u64,
    member: ReplicaId,
    index: u64,
    /// The file, if more comes.
    staging: io::Result<Option<Staging>>,
}

impl Receiving {
    /// Whether all of it is here, on the disk.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.stage, Stage::Whole)
    }
}

impl Host {
    pub(super) fn drop_receiving(&mut self, is_over: impl Fn(SetId, &Receiving) -> bool) {
        let over = self.transfers.receiving.iter().filter(|(set, it)| is_over(**set, it));
        for set in over.map(|(set, _)| *set).collect::<Vec<_>>() {
            let Some(receiving) = self.transfers.receiving.remove(&set) else { continue };
            self.core.tell(set, |member| member.set_staged(None));
            match receiving.stage {
                Stage::Coming(Some(staging)) => staging.give_up(),
                // It goes when it comes back.
                Stage::Coming(None) => {}
                Stage::Whole => {
                    self.storage.unstage(set, receiving.member, receiving.head.place.index);
                }
            }
        }
    }

    /// Images that nobody sends any more go, and those that consensus went past.
    pub(super) fn tick_receiving(&mut self) {
        let now_ms = self.now.ms;
        let mut over = Vec::new();
        for (set, receiving) in &self.transfers.receiving {
            // Also where that failed: the next start tries it again, and takes an image that is not there for one that is in sorted files.
            let is_installing = self.core.installing(*set).is_some();
            let is_late = receiving.heard_ms + 2 * GIVEN_UP_MS <= now_ms;
            let commit = self.core.status_of(*set).map_or(u64::MAX, |status| status.commit);
            let is_past = commit >= receiving.head.place.index;
            if !is_installing && (is_late || is_past) {
                over.push(*set);
            }
        }
        self.drop_receiving(|set, _| over.contains(&set));
    }

    pub(super) fn take_offer(
        &mut self,
        from: NodeId,
        number: u64,
        to: ReplicaId,
        head: ImageHead,
    ) -> Taken {
        let set = head.set;
        if let Some(known) = self.transfers.receiving.get(&set)
            && known.number == number
        {
            return if known.is_whole() { Taken::Whole } else { Taken::Chunks(known.count) };
        }
        let status = self.core.status_of(set);
        let is_for_it = self.core.replica(set) == Some(to);
        // The leader does not know how far the member is, because its answer was lost. Nothing is taken: it is told when it says to go on
        // behind the image.
        if is_for_it && self.has_gone_past(set, head.place) {
            return Taken::Whole;
        }
        let is_wanted = is_for_it
            && status.is_some_and(|status| status.commit < head.place.index)
            && self.core.installing(set).is_none()
            && !self.is_installing(set);
        // Of a member that was here before, trees may hold more than a new leader has applied.
        let is_old = self.storage.applied_in_trees(set) > head.place.index;
        if !is_wanted || is_old || self.is_held_by_another(set, &head) {
            return Taken::Refused;
        }
        self.drop_receiving(|known, _| known == set);
        let coming = self.transfers.receiving.values().filter(|it| !it.is_whole()).count();
        // A file of the same name may be away still.
        if coming >= TRANSFERS_MAX || self.transfers.syncing.contains(&set) {
            return Taken::Refused;
        }
        match self.storage.stage(to, &head) {
            Ok(staging) => {
                let (stage, held) = (Stage::Coming(Some(staging)), VecDeque::new());
                let (member, count, heard_ms) = (to, 0, self.now.ms);
                let receiving =
                    Receiving { number, from, member, head, stage, count, held, heard_ms };
                self.transfers.receiving.insert(set, receiving);
                Taken::Chunks(0)
            }
            Err(error) => {
                tracing::warn!(set = set.0, %error, "no room for the rows of a set");
                Taken::Refused
            }
        }
    }

    /// A chunk came; `None` if it is not answered, or not now.
    pub(super) fn take_chunk(
        &mut self,
        number: u64,
        set: SetId,
        sequence: u32,
        chunk: (Bytes, bool),
    ) -> Option<Taken> {
        let now_ms = self.now.ms;
        let receiving = self.transfers.receiving.get_mut(&set);
        let Some(receiving) = receiving.filter(|receiving| receiving.number == number) else {
            return Some(Taken::Refused);
        };
        receiving.heard_ms = now_ms;
        if receiving.is_whole() {
            return Some(Taken::Whole);
        }
        let held = u32::try_from(receiving.held.len()).unwrap_or(u32::MAX);
        if sequence != receiving.count.saturating_add(held) {
            return (sequence < receiving.count).then_some(Taken::Chunks(receiving.count));
        }
        // Nobody who keeps to the rules sends more.
        if receiving.held.len() >= CHUNKS_MAX {
            return None;
        }
        receiving.held.push_back(chunk);
        self.write_held(set)
    }

    /// Writes what was held, if the file is here.
    fn write_held(&mut self, set: SetId) -> Option<Taken> {
        let sync_bytes = self.options.staged_sync_bytes;
        let receiving = self.transfers.receiving.get_mut(&set)?;
        let Stage::Coming(file) = &mut receiving.stage else { return None };
        let staging = file.as_mut()?;
        let mut is_last = false;
        while let Some((bytes, ends)) = receiving.held.pop_front() {
            if !bytes.is_empty()
                && let Err(error) = staging.put(&bytes)
            {
                tracing::warn!(set = set.0, %error, "the rows of a set cannot be kept");
                self.drop_receiving(|known, _| known == set);
                return Some(Taken::Refused);
            }
            receiving.count += 1;
            is_last = ends;
            if is_last {
                receiving.held.clear();
            }
        }
        let count = receiving.count;
        if (is_last || staging.unsynced_bytes() >= sync_bytes)
            && let Some(staging) = file.take()
        {
            let (number, member) = (receiving.number, receiving.member);
            let index = receiving.head.place.index;
            self.sync_apart((set, number, member, index), staging, is_last);
        }
        (!is_last).then_some(Taken::Chunks(count))
    }

    fn sync_apart(
        &mut self,
        (set, number, member, index): (SetId, u64, ReplicaId, u64),
        mut staging: Staging,
        is_last: bool,
    ) {
        self.transfers.syncing.insert(set);
        let (synced, wake) = (Arc::clone(&self.transfers.synced), Arc::clone(&self.wake));
        let work = move |is_apart| {
            let staging = match is_last {
                true => staging.finish().map(|()| None),
                false => staging.sync().map(|()| Some(staging)),
            };
            synced.lock().push(Synced { set, number, member, index, staging });
            if is_apart {
                wake();
            }
        };
        self.storage.do_apart("helenus-staging", Box::new(work));
    }

    /// Files that were synced: what came meanwhile is written.
    pub(super) fn take_synced(&mut self) {
        #[cfg(test)]
        if self.transfers.is_slow_to_sync {
            return;
        }
        while !self.transfers.syncing.is_empty() {
            let Some(done) = self.transfers.synced.lock().pop() else { return };
            let Synced { set, number, member, index, staging } = done;
            self.transfers.syncing.remove(&set);
            let receiving = self.transfers.receiving.get_mut(&set);
            let Some(receiving) = receiving.filter(|it| it.number == number) else {
                // Nobody wants it any more.
                self.storage.unstage(set, member, index);
                continue;
            };
            let from = receiving.from;
            let taken = match staging {
                Ok(Some(staging)) => {
                    receiving.stage = Stage::Coming(Some(staging));
                    if receiving.held.is_empty() { None } else { self.write_held(set) }
                }
                Ok(None) => {
                    receiving.stage = Stage::Whole;
                    let ImageHead { place, now_s, range, .. } = receiving.head;
                    let staged = StagedPlace { place, now_s, range };
                    self.core.tell(set, |member| member.set_staged(Some(staged)));
                    Some(Taken::Whole)
                }
                Err(error) => {
                    tracing::warn!(set = set.0, %error, "the rows of a set cannot be kept");
                    self.drop_receiving(|known, _| known == set);
                    self.storage.unstage(set, member, index);
                    Some(Taken::Refused)
                }
            };
            if let Some(taken) = taken {
                self.answer_transfer(from, number, set, member, taken);
            }
        }
    }
}
