//! Images that leave this node, chunk by chunk, each for a member of another node.
//!
//! They are read on threads of their own, a little ahead of what is sent: members of all sets go on meanwhile. What is on its way is
//! bounded for each image and for each node.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use storage::{Configuration, EntryPlace, SetImage, TreeError};
use types::{NodeId, ReplicaId, SetId};

use super::transfers::{CHUNKS_MAX, GIVEN_UP_MS, TRANSFERS_MAX};
use super::{Host, Input, NodeMessage};
use crate::group::transfer::{Taken, TransferMessage};

/// After so many milliseconds without an answer something is said again.
const AGAIN_MS: u64 = 400;
/// After a transfer that came to nothing the next one to the same member begins so many milliseconds later.
const PAUSE_MS: u64 = 500;
/// So many bytes of images are on their way to a node, and a chunk of each: the queue for bulk holds as many.
const ON_THEIR_WAY_BYTES_MAX: usize = 12 * 1024 * 1024;
/// So many chunks are read at once, while fewer wait to be sent.
pub(super) const READ_CHUNKS: usize = 8;

/// An image on its way out.
pub(super) struct Sending {
    number: u64,
    node: NodeId,
    /// Of the leader that it comes from.
    term: u64,
    pub(super) place: EntryPlace,
    configuration: Configuration,
    /// None while it is being read, and when nobody reads it any more.
    image: Option<SetImage>,
    /// What was read and not sent.
    read: VecDeque<ReadChunk>,
    /// What was sent and not answered, in order: the offer, or chunks.
    unanswered: VecDeque<TransferMessage>,
    /// So many chunks were sent.
    sent: u32,
    /// All of it is there, on the disk.
    is_there: bool,
    sent_ms: u64,
    progress_ms: u64,
}

/// A chunk of an image that was read.
struct ReadChunk {
    bytes: Bytes,
    sum: u32,
    is_last: bool,
}

/// What was read of an image.
pub(super) struct ReadAhead {
    set: SetId,
    to: ReplicaId,
    number: u64,
    /// The image, if there is more of it.
    read: Result<(Option<SetImage>, Vec<ReadChunk>), TreeError>,
}

/// Reads on in an image.
fn read_some(
    mut image: SetImage,
    chunk_bytes: usize,
) -> Result<(Option<SetImage>, Vec<ReadChunk>), TreeError> {
    let mut chunks = Vec::new();
    while chunks.len() < READ_CHUNKS {
        let chunk = image.next_chunk(chunk_bytes)?;
        let is_last = chunk.is_none();
        let bytes = chunk.unwrap_or_default();
        let sum = crc32fast::hash(&bytes);
        chunks.push(ReadChunk { bytes, sum, is_last });
        if is_last {
            return Ok((None, chunks));
        }
    }
    Ok((Some(image), chunks))
}

impl Sending {
    fn on_its_way_bytes(&self) -> usize {
        let bytes_of = |said: &TransferMessage| match said {
            TransferMessage::Chunk { bytes, .. } => bytes.len(),
            TransferMessage::Offer { .. } | TransferMessage::Answer { .. } => 0,
        };
        self.unanswered.iter().map(bytes_of).sum()
    }

    /// What is on its way, and what was read and is not.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.unanswered.len(), self.read.len())
    }

    /// So many chunks are there. Whether that is news.
    fn is_answered(&mut self, count: u32) -> bool {
        let is_answered = |said: &mut TransferMessage| match said {
            TransferMessage::Offer { .. } => count == 0,
            // The last one is said again until all of it is there, also if that answer was lost.
            TransferMessage::Chunk { sequence, is_last, .. } => *sequence < count && !*is_last,
            TransferMessage::Answer { .. } => false,
        };
        let before = self.unanswered.len();
        while self.unanswered.pop_front_if(is_answered).is_some() {}
        self.unanswered.len() < before
    }
}

impl Host {
    /// A member of another node needs the rows themselves.
    pub(super) fn begin_transfer(&mut self, set: SetId, to: ReplicaId) {
        let sending = &self.transfers.sending;
        let is_sent = sending.contains_key(&(set, to)) || sending.len() >= TRANSFERS_MAX;
        if is_sent || self.is_splitting(set) || self.comparison.is_outnumbered(set) {
            return;
        }
        let now_ms = self.now.ms;
        self.transfers.paused.retain(|_, until_ms| *until_ms > now_ms);
        if self.transfers.paused.contains_key(&(set, to)) {
            return;
        }
        let Some((place, configuration)) = self.core.ask(set, |member| member.image_place()) else {
            return;
        };
        let Some(node) = configuration.node_of(to).filter(|node| self.is_alive(*node)) else {
            return;
        };
        let Some((tables, range)) = self.held_by(set) else { return };
        let image = match self.storage.image(set, place, &tables, range) {
            Ok(image) => image,
            Err(error) => {
                tracing::warn!(set = set.0, %error, "the rows of a set cannot be handed over");
                return;
            }
        };
        self.transfers.next += 1;
        self.transfers.begun += 1;
        let number = self.transfers.next;
        let offer = TransferMessage::Offer { number, to, head: image.head().to_bytes() };
        let term = self.core.status_of(set).map_or(0, |status| status.term);
        let (sent_ms, progress_ms) = (self.now.ms, self.now.ms);
        self.outbox.push((node, NodeMessage::Transfer(offer.clone())));
        let sending = Sending {
            number,
            node,
            term,
            place,
            configuration,
            image: Some(image),
            read: VecDeque::new(),
            unanswered: VecDeque::from([offer]),
            sent: 0,
            is_there: false,
            sent_ms,
            progress_ms,
        };
        self.transfers.sending.insert((set, to), sending);
    }

    pub(super) fn drop_sending(&mut self, is_over: impl Fn((SetId, ReplicaId), &Sending) -> bool) {
        let over = self.transfers.sending.iter().filter(|(key, sending)| is_over(**key, sending));
        for (set, to) in over.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.transfers.sending.remove(&(set, to));
            self.transfers.paused.insert((set, to), self.now.ms + PAUSE_MS);
            self.core.tell(set, |member| member.withdraw_image(to));
        }
    }

    /// What goes to a node is lost.
    pub(super) fn break_sending(&mut self, node: NodeId) {
        self.drop_sending(|_, sending| sending.node == node);
    }

    /// Images that nobody needs any more are given up, and what was not answered is said again.
    pub(super) fn tick_sending(&mut self) {
        let now_ms = self.now.ms;
        let mut over = Vec::new();
        for ((set, to), sending) in &self.transfers.sending {
            let status = self.core.status_of(*set);
            let leads = status.is_some_and(|it| {
                it.term == sending.term
                    && it.role == crate::group::Role::Leader
                    && it.frozen.is_none()
            });
            let standing = self.core.ask(*set, |member| member.standing_of(*to));
            let is_done = standing.is_some_and(|it| it.matched >= sending.place.index);
            let is_late = sending.progress_ms + GIVEN_UP_MS <= now_ms;
            if !leads || standing.is_none() || is_done || is_late {
                over.push((*set, *to));
            }
        }
        self.drop_sending(|key, _| over.contains(&key));
        let mut again = Vec::new();
        for ((set, to), sending) in &mut self.transfers.sending {
            if sending.sent_ms + AGAIN_MS > now_ms {
                continue;
            }
            sending.sent_ms = now_ms;
            match sending.is_there {
                false => {
                    let said = sending.unanswered.iter().cloned().map(NodeMessage::Transfer);
                    again.extend(said.map(|message| (sending.node, message)));
                }
                true => {
                    let to = *to;
                    let is_told = |it: crate::group::member::Standing| it.is_told;
                    let standing = self.core.ask(*set, |member| member.standing_of(to));
                    if standing.is_some_and(is_told) {
                        self.core.tell(*set, |member| member.report_image(to));
                    }
                }
            }
        }
        self.outbox.extend(again);
    }

    /// How far another node is with an image.
    pub(super) fn take_transfer_answer(
        &mut self,
        from: NodeId,
        number: u64,
        (set, to): (SetId, ReplicaId),
        taken: Taken,
    ) {
        let now_ms = self.now.ms;
        let Some(sending) = self.transfers.sending.get_mut(&(set, to)) else { return };
        let is_about_it = sending.number == number || number == 0 && sending.is_there;
        if sending.node != from || !is_about_it {
            return;
        }
        match taken {
            Taken::Refused => self.drop_sending(|key, _| key == (set, to)),
            // It waits for others to be put into the trees before it.
            Taken::Whole if sending.is_there => sending.progress_ms = now_ms,
            Taken::Whole => {
                (sending.is_there, sending.progress_ms) = (true, now_ms);
                sending.image = None;
                sending.read.clear();
                sending.unanswered.clear();
                let (place, configuration) = (sending.place, sending.configuration.clone());
                self.core.tell(set, |member| member.offer_image(to, place, &configuration));
                // It is told at once.
                self.inbox.push_back(Input::Look(set));
            }
            Taken::Chunks(count) => {
                if !sending.is_there && sending.is_answered(count) {
                    (sending.sent_ms, sending.progress_ms) = (now_ms, now_ms);
                    self.send_on((set, to));
                }
            }
        }
    }

    /// Sends what was read of an image, as far as there is room, and has more of it read.
    fn send_on(&mut self, key: (SetId, ReplicaId)) {
        let all = &mut self.transfers.sending;
        let Some(node) = all.get(&key).map(|sending| sending.node) else { return };
        let others = all.iter().filter(|(other, it)| **other != key && it.node == node);
        let others_bytes: usize = others.map(|(_, it)| it.on_its_way_bytes()).sum();
        let Some(sending) = all.get_mut(&key) else { return };
        loop {
            let bytes = others_bytes + sending.on_its_way_bytes();
            let has_room = sending.unanswered.len() < CHUNKS_MAX && bytes < ON_THEIR_WAY_BYTES_MAX;
            if !has_room && !sending.unanswered.is_empty() {
                break;
            }
            let Some(ReadChunk { bytes, sum, is_last }) = sending.read.pop_front() else { break };
            let (number, set, sequence) = (sending.number, key.0, sending.sent);
            let chunk = TransferMessage::Chunk { number, set, sequence, bytes, sum, is_last };
            sending.sent += 1;
            sending.unanswered.push_back(chunk.clone());
            self.outbox.push((node, NodeMessage::Transfer(chunk)));
        }
        if sending.read.len() < READ_CHUNKS
            && let Some(image) = sending.image.take()
        {
            let number = sending.number;
            self.read_apart(key, number, image);
        }
    }

    fn read_apart(&self, (set, to): (SetId, ReplicaId), number: u64, image: SetImage) {
        let (done, wake) = (Arc::clone(&self.transfers.read), Arc::clone(&self.wake));
        let chunk_bytes = self.options.chunk_bytes;
        let work = move |is_apart| {
            let read = read_some(image, chunk_bytes);
            done.lock().push(ReadAhead { set, to, number, read });
            if is_apart {
                wake();
            }
        };
        self.storage.do_apart("helenus-image", Box::new(work));
    }

    /// What was read of images goes on.
    pub(super) fn take_read(&mut self) {
        // Nothing is held while it is sent: more may be read at once then.
        while let Some(ReadAhead { set, to, number, read }) = { self.transfers.read.lock().pop() } {
            let sending = self.transfers.sending.get_mut(&(set, to));
            let Some(sending) = sending.filter(|it| it.number == number && !it.is_there) else {
                // Nobody wants it any more.
                continue;
            };
            match read {
                Ok((image, chunks)) => {
                    sending.image = image;
                    sending.read.extend(chunks);
                    self.send_on((set, to));
                }
                Err(error) => {
                    tracing::warn!(set = set.0, %error, "the rows of a set cannot be read");
                    self.drop_sending(|key, _| key == (set, to));
                }
            }
        }
    }
}
