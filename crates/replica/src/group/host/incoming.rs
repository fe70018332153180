//! Images that come to this node, chunk by chunk, into files beside the log.
//!
//! They are written on threads of their own: members of all sets go on meanwhile. What was written is synced after so many bytes, and at
//! the end, so the last sync does not take the longer the larger the image is. Chunks that come while a file is away for that wait in
//! memory; there are no more of them than are on their way at once.

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
    /// So many are on their way there.
    away: u32,
    /// Chunks that came while the file was away, and whether they are the last.
    pub(super) held: VecDeque<(Bytes, bool)>,
    pub(super) heard_ms: u64,
    begun_ms: u64,
    /// When all of it was here, and how much that is.
    whole_ms: u64,
    bytes: u64,
}

enum Stage {
    /// It comes; no file while that is being written.
    Coming(Option<Staging>),
    /// All of it is here, on the disk.
    Whole,
}

/// A file that was written.
pub(super) struct Written {
    set: SetId,
    number: u64,
    member: ReplicaId,
    index: u64,
    /// So many chunks more are in it.
    count: u32,
    /// The file, if more comes.
    staging: io::Result<Option<Staging>>,
}

/// Writes chunks, and has them last if there is much, or no more.
fn write(
    mut staging: Staging,
    chunks: &VecDeque<(Bytes, bool)>,
    sync_bytes: u64,
) -> io::Result<Option<Staging>> {
    for (bytes, is_last) in chunks {
        if !bytes.is_empty() {
            staging.put(bytes)?;
        }
        if *is_last {
            return staging.finish().map(|()| None);
        }
    }
    if staging.unsynced_bytes() >= sync_bytes {
        staging.sync()?;
    }
    Ok(Some(staging))
}

impl Receiving {
    /// How long it waited, and took, since all of it was here.
    pub(super) fn since_whole_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.whole_ms)
    }

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
        if coming >= TRANSFERS_MAX || self.transfers.writing.contains(&set) {
            return Taken::Refused;
        }
        match self.storage.stage(to, &head) {
            Ok(staging) => {
                let (stage, held) = (Stage::Coming(Some(staging)), VecDeque::new());
                let (member, count, heard_ms) = (to, 0, self.now.ms);
                let receiving = Receiving {
                    number,
                    from,
                    member,
                    head,
                    stage,
                    count,
                    away: 0,
                    held,
                    heard_ms,
                    begun_ms: heard_ms,
                    whole_ms: 0,
                    bytes: 0,
                };
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
        if sequence != receiving.count.saturating_add(receiving.away).saturating_add(held) {
            return (sequence < receiving.count).then_some(Taken::Chunks(receiving.count));
        }
        // Nobody who keeps to the rules sends more.
        if receiving.held.len() + receiving.away as usize >= CHUNKS_MAX {
            return None;
        }
        receiving.bytes += chunk.0.len() as u64;
        receiving.held.push_back(chunk);
        self.write_held(set);
        None
    }

    /// Has written what is held, if the file is here.
    fn write_held(&mut self, set: SetId) {
        let sync_bytes = self.options.staged_sync_bytes;
        let Some(receiving) = self.transfers.receiving.get_mut(&set) else { return };
        let Stage::Coming(file) = &mut receiving.stage else { return };
        if receiving.held.is_empty() {
            return;
        }
        let Some(staging) = file.take() else { return };
        let chunks = std::mem::take(&mut receiving.held);
        let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        receiving.away = count;
        let (number, member) = (receiving.number, receiving.member);
        let index = receiving.head.place.index;
        self.transfers.writing.insert(set);
        let (written, wake) = (Arc::clone(&self.transfers.written), Arc::clone(&self.wake));
        let work = move |is_apart| {
            let staging = write(staging, &chunks, sync_bytes);
            written.lock().push(Written { set, number, member, index, count, staging });
            if is_apart {
                wake();
            }
        };
        self.storage.do_apart("helenus-staging", Box::new(work));
    }

    /// Files that were written: what came meanwhile comes next.
    pub(super) fn take_written(&mut self) {
        #[cfg(test)]
        if self.transfers.is_slow_to_write {
            return;
        }
        while !self.transfers.writing.is_empty() {
            let Some(done) = self.transfers.written.lock().pop() else { return };
            let Written { set, number, member, index, count, staging } = done;
            self.transfers.writing.remove(&set);
            let receiving = self.transfers.receiving.get_mut(&set);
            let Some(receiving) = receiving.filter(|it| it.number == number) else {
                // Nobody wants it any more.
                self.storage.unstage(set, member, index);
                continue;
            };
            let from = receiving.from;
            receiving.away = 0;
            let taken = match staging {
                Ok(Some(staging)) => {
                    receiving.count = receiving.count.saturating_add(count);
                    receiving.stage = Stage::Coming(Some(staging));
                    Taken::Chunks(receiving.count)
                }
                Ok(None) => {
                    receiving.count = receiving.count.saturating_add(count);
                    receiving.held.clear();
                    receiving.stage = Stage::Whole;
                    receiving.whole_ms = self.now.ms;
                    let (bytes, took_ms) =
                        (receiving.bytes, self.now.ms.saturating_sub(receiving.begun_ms));
                    tracing::info!(set = set.0, bytes, took_ms, "the rows of a set came");
                    let ImageHead { place, now_s, range, .. } = receiving.head;
                    let staged = StagedPlace { place, now_s, range };
                    self.core.tell(set, |member| member.set_staged(Some(staged)));
                    Taken::Whole
                }
                Err(error) => {
                    tracing::warn!(set = set.0, %error, "the rows of a set cannot be kept");
                    self.drop_receiving(|known, _| known == set);
                    self.storage.unstage(set, member, index);
                    Taken::Refused
                }
            };
            self.answer_transfer(from, number, set, member, taken);
            self.write_held(set);
        }
    }
}
