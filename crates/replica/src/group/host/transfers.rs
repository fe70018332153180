//! Rows are handed to members that are new, empty or too far behind.
//!
//! **The leader** makes an image of the set between two entries, and sends it chunk by chunk to a node whose member needs it. Only
//! when that node holds all of it on its disk does consensus say: go on behind it. The leader keeps its log from there on;
//! if that becomes too long, or the leader leads no more, or the connection breaks, it begins anew.
//!
//! **The other node** keeps what comes in a file. When consensus says so its log says so too, and then the rows take the place of
//! what its range held. A range that another set of the node holds is never touched.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use storage::broken::{Rule, breaks};
use storage::{EntryPlace, ImageHead, Position, TreeError};
use types::{NodeId, ReplicaId, RingRange, SetId, TableId};

use super::incoming::{Receiving, Written};
use super::outgoing::{ReadAhead, Sending};
use super::{Host, Input, NodeMessage};
use crate::group::member::CommittedEntries;
use crate::group::transfer::{Taken, TransferMessage};
use crate::group::wire::PeerMessage;

/// A node hands over so many images at once, and takes so many.
pub(super) const TRANSFERS_MAX: usize = 4;
/// So many images are put into the trees one right after the other.
const INSTALLS_MAX: usize = 4;
/// After so many milliseconds without any progress a transfer is given up.
pub(super) const GIVEN_UP_MS: u64 = 5_000;
/// So many chunks of an image are on their way at once.
pub(super) const CHUNKS_MAX: usize = 12;
/// So many entries that waited for images are applied in one turn of the node.
const HELD_APPLIED_PER_TURN: usize = 1024;
/// A log that is so many times longer than it should be does not wait for a transfer.
const LOG_PATIENCE: u64 = 2;

/// Tells which tables a set has, and which part of the ring; `None` if that is not known now.
pub type SetRanges = Box<dyn Fn(SetId) -> Option<(Vec<TableId>, RingRange)> + Send>;

/// A member goes on behind an image when the log says so for sure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Installing {
    pub(super) turn: u64,
    pub(super) set: SetId,
    pub(super) member: ReplicaId,
    pub(super) index: u64,
    pub(super) position: Position,
}

/// What became of an image that was to be put into the trees.
type Installed = (Installing, Result<(), TreeError>);

/// The images that a node hands over and takes.
#[derive(Default)]
pub(super) struct Transfers {
    pub(super) next: u64,
    pub(super) sending: BTreeMap<(SetId, ReplicaId), Sending>,
    /// What was read of images that leave.
    pub(super) read: Arc<Mutex<Vec<ReadAhead>>>,
    pub(super) receiving: BTreeMap<SetId, Receiving>,
    /// Sets whose files are being written, and those that were.
    pub(super) writing: BTreeSet<SetId>,
    pub(super) written: Arc<Mutex<Vec<Written>>>,
    /// Files that were written do not come back yet.
    #[cfg(test)]
    pub(super) is_slow_to_write: bool,
    /// What members were told of images that are here, until they hear it: who told it, and to go on behind which one.
    told: BTreeMap<SetId, (NodeId, PeerMessage)>,
    /// When the next image may be begun for a member.
    pub(super) paused: BTreeMap<(SetId, ReplicaId), u64>,
    pub(super) installing: Vec<Installing>,
    /// Sets whose rows are on their way into the trees, and those that came to an end.
    busy: BTreeSet<SetId>,
    done: Arc<Mutex<Vec<Installed>>>,
    /// What is committed behind images that are not in the trees yet; the bodies are in the log.
    held: BTreeMap<SetId, VecDeque<CommittedEntries>>,
    /// Those of them whose images are in the trees by now.
    catching_up: BTreeSet<SetId>,
    /// What was in the log when an image was to be installed first: it must be in sorted files.
    flushed_from: BTreeMap<SetId, Position>,
    ranges: Option<SetRanges>,
    /// How many images were begun, and are in the trees of this node.
    pub(super) begun: u64,
    pub(super) installed: u64,
}

impl Transfers {
    /// Numbers are other ones at each start.
    pub(super) fn new(epoch: u32) -> Transfers {
        Transfers { next: u64::from(epoch) << 32, ..Transfers::default() }
    }
}

impl Host {
    /// From now on it is known which tables and which part of the ring a set has: without, no rows are handed over.
    pub fn set_ranges(&mut self, ranges: SetRanges) {
        self.transfers.ranges = Some(ranges);
    }

    /// How many images were begun here, and how many are in the trees of this node.
    pub fn transfer_counts(&self) -> (u64, u64) {
        (self.transfers.begun, self.transfers.installed)
    }

    pub(super) fn range_of(&self, set: SetId) -> Option<(Vec<TableId>, RingRange)> {
        let (tables, range) = self.transfers.ranges.as_ref().and_then(|ranges| ranges(set))?;
        // What its log says goes before what the map says.
        Some((tables, self.range_in_log(set).unwrap_or(range)))
    }

    /// The same, with every table that the set wrote to here: its log may be ahead of what this node follows of definitions.
    pub(super) fn held_by(&self, set: SetId) -> Option<(Vec<TableId>, RingRange)> {
        let (mut tables, range) = self.range_of(set)?;
        tables.extend(self.storage.tables_in_memory(set));
        tables.sort_unstable();
        tables.dedup();
        Some((tables, range))
    }

    pub(super) fn range_in_map(&self, set: SetId) -> Option<RingRange> {
        self.transfers.ranges.as_ref().and_then(|ranges| ranges(set)).map(|(_, range)| range)
    }

    /// Whether the rows of a set are being handed over, from here or to here.
    pub(super) fn has_transfer(&self, set: SetId) -> bool {
        let is_sent = self.transfers.sending.keys().any(|(known, _)| *known == set);
        is_sent || self.transfers.receiving.contains_key(&set)
    }

    /// Up to where entries may go for the sake of images on their way. If the log is much too long, and could be cut up to
    /// `wanted` but for them, they are given up.
    pub(super) fn transfer_place(&mut self, set: SetId, wanted: u64) -> u64 {
        let is_long =
            self.storage.log_kept_bytes() > self.options.log_bytes_max.saturating_mul(LOG_PATIENCE);
        if is_long {
            self.drop_sending(|(known, _), sending| known == set && sending.place.index < wanted);
        }
        let sending = self.transfers.sending.iter().filter(|((known, _), _)| *known == set);
        sending.map(|(_, sending)| sending.place.index).min().unwrap_or(u64::MAX)
    }

    /// The connection to a node broke: what was on its way is lost.
    pub(super) fn break_transfers(&mut self, node: NodeId) {
        self.break_sending(node);
        self.drop_receiving(|_, receiving| receiving.from == node && !receiving.is_whole());
        self.transfers.told.retain(|_, (from, _)| *from != node);
    }

    /// A set has no member here any more.
    pub(super) fn forget_transfers(&mut self, set: SetId) {
        self.drop_sending(|(known, _), _| known == set);
        if !self.is_installing(set) {
            self.drop_receiving(|known, _| known == set);
        }
        self.transfers.receiving.remove(&set);
        self.transfers.told.remove(&set);
        self.transfers.installing.retain(|it| it.set != set);
        self.transfers.flushed_from.remove(&set);
    }

    /// What follows from time alone.
    pub(super) fn tick_transfers(&mut self) {
        if self.transfers.busy.is_empty() {
            self.storage.settle_installs();
        }
        self.tick_sending();
        self.tick_receiving();
    }

    /// Another node said something about an image.
    pub(super) fn receive_transfer(&mut self, from: NodeId, message: TransferMessage) {
        match message {
            TransferMessage::Offer { number, to, head } => {
                let Ok(head) = ImageHead::from_bytes(head) else {
                    tracing::warn!(%from, "the offer of an image is not readable");
                    return;
                };
                let set = head.set;
                let taken = self.take_offer(from, number, to, head);
                self.answer_transfer(from, number, set, to, taken);
            }
            TransferMessage::Chunk { number, set, sequence, bytes, sum, is_last } => {
                let Some(member) = self.core.replica(set) else { return };
                let is_whole = crc32fast::hash(&bytes) == sum;
                if is_whole
                    && let Some(taken) = self.take_chunk(number, set, sequence, (bytes, is_last))
                {
                    self.answer_transfer(from, number, set, member, taken);
                }
                self.take_written();
            }
            TransferMessage::Answer { number, set, member, taken } => {
                self.take_transfer_answer(from, number, (set, member), taken);
                self.take_read();
            }
        }
    }

    pub(super) fn answer_transfer(
        &mut self,
        node: NodeId,
        number: u64,
        set: SetId,
        member: ReplicaId,
        taken: Taken,
    ) {
        let answer = TransferMessage::Answer { number, set, member, taken };
        self.outbox.push((node, NodeMessage::Transfer(answer)));
    }

    /// Whether a part of what is offered belongs to another set that has a member here.
    pub(super) fn is_held_by_another(&self, set: SetId, head: &ImageHead) -> bool {
        if breaks(Rule::IngestOverLiveRange) {
            return false;
        }
        // Whoever knows nothing yet holds nothing.
        let is_held = |it: &SetId| self.core.state(*it).is_some_and(|state| !state.is_newcomer());
        let others = self.core.sets().filter(|known| *known != set).filter(is_held);
        others.into_iter().any(|known| match self.range_of(known) {
            // Nothing is touched as long as it is not known what the node holds.
            None => true,
            Some((tables, range)) => {
                range.intersect(&head.range).is_some()
                    && head.tables().any(|table| tables.contains(&table))
            }
        })
    }

    /// Whether the member of a set has all that an image up to an entry could bring. One that is frozen says nothing of itself.
    pub(super) fn has_gone_past(&self, set: SetId, place: EntryPlace) -> bool {
        self.core.ask(set, |member| Some(member.has_committed(place))).unwrap_or(false)
    }

    /// A member is told to go on behind an image. Returns what it is told if it may hear it now: where it has gone past the image. One that
    /// this node holds it hears of when that can be put into the trees; of one that is not here the leader is told.
    pub(super) fn holds_image(
        &mut self,
        from: NodeId,
        message: PeerMessage,
        place: EntryPlace,
    ) -> Option<PeerMessage> {
        let set = message.set;
        if self.has_gone_past(set, place) {
            return Some(message);
        }
        let is_here = self.holds_whole(set, place);
        if (!is_here || !self.is_free_to_install())
            && let Some(member) = self.core.replica(set)
        {
            let taken = if is_here { Taken::Whole } else { Taken::Refused };
            self.answer_transfer(from, 0, set, member, taken);
        }
        if is_here {
            // It is asked for again, and kept until then.
            let (now_ms, known) = (self.now.ms, self.transfers.receiving.get_mut(&set));
            known.into_iter().for_each(|it| it.heard_ms = now_ms);
            self.transfers.told.insert(set, (from, message));
        }
        None
    }

    /// Whether all of the image of a set up to an entry is here.
    fn holds_whole(&self, set: SetId, place: EntryPlace) -> bool {
        let receiving = self.transfers.receiving.get(&set);
        receiving.is_some_and(|it| it.is_whole() && it.head.place == place)
    }

    /// Whether images could be put into the trees soon: no others are. Consensus hears of them only then: what comes behind them waits for
    /// them to be in the log, for all sets, and they are not in the log before what was there is in sorted files. While other images are
    /// put into the trees that may take minutes.
    fn is_free_to_install(&self) -> bool {
        self.transfers.busy.is_empty()
            && self.transfers.installing.is_empty()
            && !self.stalled.iter().any(|(_, append)| append.is_install)
    }

    /// Members hear that they are to go on behind their images, when those can be put into the trees: some together, because they wait for
    /// the same sorted files before, and come into the same ones afterwards. None of them touches what another one brings.
    pub(super) fn tell_of_images(&mut self) {
        if self.transfers.told.is_empty() || !self.is_free_to_install() {
            return;
        }
        let mut chosen: Vec<SetId> = Vec::new();
        for set in self.transfers.told.keys() {
            let head = |set: &SetId| self.transfers.receiving.get(set).map(|it| &it.head);
            let is_apart = |other: &SetId| match (head(set), head(other)) {
                (Some(one), Some(other)) => !one.touches(other),
                _ => true,
            };
            if chosen.len() < INSTALLS_MAX && chosen.iter().all(is_apart) {
                chosen.push(*set);
            }
        }
        for set in chosen {
            let Some((from, message)) = self.transfers.told.remove(&set) else { continue };
            let metadata = message.message.get_snapshot().get_metadata();
            let place = EntryPlace { index: metadata.index, term: metadata.term };
            // Its member may have gone meanwhile, or the image.
            if self.core.replica(set) == Some(message.to()) && self.holds_whole(set, place) {
                self.inbox.push_back(Input::Message { from, message });
            }
        }
    }

    /// Whether the rows of an image take the place of others, or are about to.
    pub(super) fn is_installing(&self, set: SetId) -> bool {
        let is_said = self.transfers.installing.iter().any(|it| it.set == set);
        is_said || self.transfers.busy.contains(&set)
    }

    /// What is committed behind an image is applied when that is in the trees. Nobody waits for it here: the set is led elsewhere.
    pub(super) fn hold_behind_image(
        &mut self,
        set: SetId,
        mut committed: CommittedEntries,
    ) -> Option<CommittedEntries> {
        if !self.transfers.busy.contains(&set) {
            return Some(committed);
        }
        committed.entries.iter_mut().for_each(|(.., body, _)| *body = Bytes::new());
        if let Some((last, ..)) = committed.entries.last() {
            // They are read from the log again: it may be long until then.
            let last = last.index;
            self.core.tell(set, |member| member.let_bodies_go(last));
        }
        self.transfers.held.entry(set).or_default().push_back(committed);
        None
    }

    /// Applies some of what waited for an image that is in the trees by now: members of other sets go on meanwhile.
    pub(super) fn catch_up_behind_images(&mut self) {
        let mut left = HELD_APPLIED_PER_TURN;
        for set in self.transfers.catching_up.clone() {
            while left > 0 && self.transfers.catching_up.contains(&set) {
                let next = self.transfers.held.get_mut(&set).and_then(VecDeque::pop_front);
                let Some(committed) = next else {
                    self.end_catching_up(set);
                    break;
                };
                left = left.saturating_sub(committed.entries.len());
                if let Err(error) = self.apply_held(set, committed) {
                    self.end_catching_up(set);
                    self.core.freeze(set, &error.to_string());
                }
            }
        }
    }

    /// Whether more of it waits.
    pub(super) fn is_catching_up(&self) -> bool {
        !self.transfers.catching_up.is_empty()
    }

    fn end_catching_up(&mut self, set: SetId) {
        self.transfers.held.remove(&set);
        self.transfers.catching_up.remove(&set);
        self.transfers.busy.remove(&set);
        self.note_needed(set);
    }

    fn apply_held(&mut self, set: SetId, mut committed: CommittedEntries) -> io::Result<()> {
        for (place, _, _, body, _) in &mut committed.entries {
            let slot = self.core.table(set).and_then(|table| table.slot(place.index));
            // Nothing of the log behind an image goes before that is in the trees.
            *body = self.storage.read_group_body(&slot.ok_or(io::ErrorKind::NotFound)?)?;
        }
        self.apply(set, committed);
        Ok(())
    }

    /// As if the rows of a set were in the trees.
    #[cfg(test)]
    pub(super) fn pretend_to_be_installed(&mut self, set: SetId) {
        self.transfers.catching_up.insert(set);
    }

    /// As if rows of a set were on their way into the trees, or not any more.
    #[cfg(test)]
    pub(super) fn pretend_to_install(&mut self, set: SetId, is_so: bool) {
        match is_so {
            true => self.transfers.busy.insert(set),
            false => self.transfers.busy.remove(&set),
        };
    }

    /// Whether rows are just being put into the trees.
    pub(super) fn is_busy(&self, set: SetId) -> bool {
        self.transfers.busy.contains(&set)
    }

    /// Sets whose rows are on their way into the trees.
    pub(super) fn sets_installing(&self) -> Vec<SetId> {
        self.transfers.busy.iter().copied().collect()
    }

    /// Whether the log may say that a member goes on behind an image. Its entries go then, so rows of sets that were split off it must
    /// be in sorted files. And at a start images are in the trees before entries are applied again: entries from before it, of a set
    /// that held these rows then, must be in sorted files too, or they would change what came with it.
    pub(super) fn may_install(&mut self, set: SetId) -> bool {
        let synced = self.storage.synced_position();
        let from = *self.transfers.flushed_from.entry(set).or_insert(synced);
        for is_first in [true, false] {
            let is_flushed =
                self.storage.flushed_before() >= from || breaks(Rule::InstallOverReplay);
            if is_flushed && self.is_rid_of_splits(set) {
                self.transfers.flushed_from.remove(&set);
                return true;
            }
            if is_first {
                self.storage.flush_soon();
            }
        }
        false
    }

    /// The log says for sure that members go on behind their images: their rows take their place.
    pub(super) fn install_persisted(&mut self, turn: u64) {
        let (ready, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.transfers.installing)
            .into_iter()
            .partition(|it| it.turn <= turn);
        self.transfers.installing = later;
        if !ready.is_empty() {
            for installing in &ready {
                self.seats.disturb(installing.set);
                self.transfers.busy.insert(installing.set);
            }
            let (storage, done) = (Arc::clone(&self.storage), Arc::clone(&self.transfers.done));
            let wake = Arc::clone(&self.wake);
            let work = move |is_apart| {
                let last = ready.len() - 1;
                for (number, installing) in ready.into_iter().enumerate() {
                    let Installing { set, member, index, position, .. } = installing;
                    let installed = storage.install(set, member, index, position);
                    if is_apart && number == last {
                        storage.settle_installs();
                    }
                    done.lock().push((installing, installed));
                    if is_apart {
                        wake();
                    }
                }
            };
            // They may be large, and members of other sets must go on meanwhile.
            self.storage.do_apart("helenus-install", Box::new(work));
        }
        self.take_installed();
    }

    /// Images that are in the trees by now, or cannot be.
    pub(super) fn take_installed(&mut self) {
        if self.transfers.busy.is_empty() {
            return;
        }
        let done = std::mem::take(&mut *self.transfers.done.lock());
        for (Installing { set, index, .. }, installed) in done {
            match installed {
                Ok(()) => {
                    self.seats.settle(set);
                    if let Some(came) = self.transfers.receiving.remove(&set) {
                        let took_ms = came.since_whole_ms(self.now.ms);
                        tracing::info!(set = set.0, took_ms, "the rows that came are in place");
                    }
                    self.transfers.installed += 1;
                    self.comparison.forget(set);
                    self.inbox.push_back(Input::Installed { set, index });
                    if !self.core.takes_part(set) {
                        // One that is frozen does not hear it, and the next start has nothing left to do.
                        self.core.forget_installing(set);
                    }
                    self.transfers.catching_up.insert(set);
                    if !self.transfers.held.contains_key(&set) {
                        self.end_catching_up(set);
                    }
                }
                Err(error) => {
                    // First, so that what the next start tries again stays in the log.
                    self.core.freeze(set, &error.to_string());
                    self.end_catching_up(set);
                }
            }
        }
    }
}
