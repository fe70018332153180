//! What surrounds the core on a node: the log that its entries go into, the trees that they are applied to, and those who wait
//! for answers. It has no thread and no socket either: whoever drives it says what came, and sends what is to be sent.

mod alive;
mod batches;
mod between;
mod doubts;
mod grants;
mod incoming;
mod intents;
mod keeping;
mod members;
mod outgoing;
mod persisted;
mod reads;
mod said;
mod splits;
mod stuck;
mod sums;
#[cfg(test)]
mod tests;
mod transfers;
mod wanted;
mod writing;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use storage::broken::{Rule, breaks};
use storage::{
    CommitError, CommittedEntry, EntryHead, EntryPlace, GroupAppend, GroupState, RecoveredGroup,
    Request, Storage, WantedSweep,
};
use types::{NodeId, ReplicaId, RingRange, SetId};

use super::changes::Goal;
use super::core::{Core, Input, Outputs, Random};
use super::entries::KIND_EMPTY;
use super::member::{Answer, CommittedEntries, MemberStatus, Pending, Settings, Ticket, is_of_set};
use super::reads::Reads;
use super::requests::{Attempt, Requests, WriteDone, WriteOutcome};
use super::seats::Seats;
use batches::Batches;
pub use batches::{Knows, RingMap};
use between::Between;
use doubts::Doubts;
pub use doubts::OnSkipped;
use grants::Sharing;
use intents::Intents;
pub(super) use persisted::Persisted;
use reads::Confirmed;
pub use reads::{Places, ServedRead};
pub(crate) use said::BEATS_MAX;
pub use said::{NodeMessage, ProposalAnswer, Start};
use splits::Splits;
pub use splits::{OnSplit, SplitOff};
use sums::{Comparison, KIND_COMPARE, compared_at, compares_itself};
pub use transfers::SetRanges;
use transfers::Transfers;
pub use wanted::{Wanted, WantedMembers};
use writing::InHand;

/// The kind of an entry that asks storage for mutations (`storage/src/entry.rs`).
const KIND_REQUEST: u8 = 4;
/// The kind of an entry that says up to where every member has the log: entries before may go.
const KIND_KNOWN_BY_ALL: u8 = storage::REPLICATION_KINDS_FROM;
/// So many parts of sweeps are proposed at a tick: each may look at a thousand rows.
const SWEEPS_PER_TICK: usize = 32;
/// Every so many ticks it is looked whether anything is to be said of sets that rest.
const CHORE_TICKS: u64 = 20;

/// The time, as whoever drives a host knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since some moment; they never go back.
    pub ms: u64,
    /// Microseconds since the epoch, by this machine's own clock, whatever that is worth.
    pub clock_us: i64,
}

impl Now {
    /// Microseconds since that moment.
    pub(crate) fn steady_us(self) -> i64 {
        i64::try_from(self.ms.saturating_mul(1000)).unwrap_or(i64::MAX)
    }
}

/// What is known of another node.
#[derive(Clone, Copy, Debug)]
struct Peer {
    heard_ms: u64,
    /// Its clock less the steady time of this node; not known before it said so.
    clock_offset_us: Option<i64>,
    /// The version of what all agree on that it shows.
    shown: u64,
    /// What its log holds on its disk, the most that it ever said.
    synced: u64,
    /// Which start of the node said so; not known of what was kept over a restart of this one.
    run: Option<u64>,
    /// Since its connection was made it said so, and it was no less than before.
    is_admitted: bool,
}

impl Peer {
    fn new(heard_ms: u64) -> Peer {
        Peer { heard_ms, clock_offset_us: None, shown: 0, synced: 0, run: None, is_admitted: false }
    }
}

/// How a host behaves.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// Of its members.
    pub settings: Settings,
    /// Of all chance; another one at each start.
    pub seed: u64,
    /// The log is shortened when more of it is kept.
    pub log_bytes_kept: u64,
    /// A leader tells the others up to where all have the log when so many entries more are.
    pub known_by_all_step: u64,
    /// A node that was not heard of for so long counts as dead.
    pub alive_ms: u64,
    /// Beyond this the log is shortened although some member lacks entries: it is handed the rows instead.
    pub log_bytes_max: u64,
    /// Rows are handed over in chunks of about so many bytes.
    pub chunk_bytes: usize,
    /// What comes of an image is synced after so many bytes.
    pub staged_sync_bytes: u64,
    /// Members compare what they applied every so many entries.
    pub compare_step: u64,
    /// A leader that proposed nothing for so many seconds says what time it is: what is dead can be cleared then. What members
    /// applied is compared there, too, and at least so often where anything is written.
    pub silent_s: u32,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions {
            settings: Settings::default(),
            seed: 0,
            log_bytes_kept: 64 * 1024 * 1024,
            known_by_all_step: 1024,
            alive_ms: 1_500,
            log_bytes_max: 1024 * 1024 * 1024,
            chunk_bytes: 512 * 1024,
            staged_sync_bytes: 16 * 1024 * 1024,
            compare_step: 1024,
            silent_s: 300,
        }
    }
}

/// Who is told what became of something that was asked.
enum Asked {
    /// A request to a set, while it is in hand.
    Write(SetId, Option<InHand>, Box<dyn FnOnce(ProposalAnswer) + Send>),
    /// A read, with `true` if it may begin.
    Read(Box<dyn FnOnce(bool) + Send>),
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Asked::Write(..) => "Write",
            Asked::Read(_) => "Read",
        })
    }
}

/// Hears what other nodes note. It must not wait.
pub type OnNote = Box<dyn Fn(NodeId, Bytes) + Send>;

/// Answers to requests that this node's members were asked for, by this node or another.
type Answers = Arc<Mutex<Vec<(NodeId, u64, ProposalAnswer)>>>;

/// The members of a node with what surrounds them.
pub struct Host {
    node: NodeId,
    options: HostOptions,
    now: Now,
    requests: Requests,
    /// Of rows that lie on other nodes.
    reads: Reads,
    /// Reads of other nodes that this node's members may answer now.
    served: Vec<ServedRead>,
    confirmed: Arc<Mutex<Vec<Confirmed>>>,
    places: Option<Places>,
    wanted: Option<Wanted>,
    /// The map by which it was looked last what is wanted.
    wanted_version: u64,
    on_note: Option<OnNote>,
    seats: Seats,
    /// Who leads sets that have no member here, as others said.
    hints: BTreeMap<SetId, NodeId>,
    /// Requests that were handed to other nodes.
    forwarded: u64,
    answers: Answers,
    peers: BTreeMap<NodeId, Peer>,
    /// The nodes of the cluster, once somebody said so: no others are waited for.
    nodes: Option<BTreeSet<NodeId>>,
    /// The latest cluster time that was given, and what is to be added to the steady time for it.
    last_given_us: i64,
    time_offset_us: Option<i64>,
    /// The version of what all agree on that this node shows.
    shown: u64,
    ticks: u64,
    outbox: Vec<(NodeId, NodeMessage)>,
    storage: Arc<Storage>,
    core: Core,
    inbox: VecDeque<Input>,
    asked: HashMap<Ticket, Asked, FixedState>,
    next_ticket: u64,
    persisted: Persisted,
    /// See [`Host::leave_writing_to_caller`].
    is_written_by_caller: bool,
    unwritten: usize,
    /// See [`Host::wait_for_log`].
    waits_for_log: bool,
    wake: Arc<dyn Fn() + Send + Sync>,
    /// What the log had no room for, in order.
    stalled: VecDeque<(SetId, GroupAppend)>,
    /// Something was appended that nobody waits for yet to be durable.
    is_unawaited: bool,
    /// Something began, or leads anew, since it was last asked.
    has_news: bool,
    known_by_all: BTreeMap<SetId, u64>,
    last_proposed_s: BTreeMap<SetId, u32>,
    /// The last times that were given to proposals.
    last_us: BTreeMap<SetId, i64>,
    /// When the last elements of lists were made that this node gave to sets it leads, and in which term.
    last_listed: BTreeMap<SetId, (u64, i64)>,
    transfers: Transfers,
    /// The highest numbers of members that were taken away from here.
    gone: BTreeMap<SetId, ReplicaId>,
    /// What is said when a turn is on disk.
    unsaid: Vec<(u64, (NodeId, NodeMessage))>,
    /// The last turn that appended something, and the last that is on disk.
    appended_turn: u64,
    persisted_turn: u64,
    /// Sets whose member is to go from here, and at which tick.
    leaving: BTreeMap<SetId, u64>,
    /// Who is to belong to sets that are led from here.
    goals: BTreeMap<SetId, Goal>,
    /// Why nobody listens to this node, if so.
    refused: Option<u64>,
    comparison: Comparison,
    doubts: Doubts,
    batches: Batches,
    between: Between,
    intents: Intents,
    splits: Splits,
    ranges: Arc<HeldRanges>,
    sharing: Sharing,
    watched: stuck::Watched,
    /// Nodes that do not answer, and until when they count as such.
    unreached: BTreeMap<NodeId, u64>,
}

/// What the members of a node hold, for those who read from them.
#[derive(Debug, Default)]
pub struct HeldRanges(ArcSwap<BTreeMap<SetId, RingRange>>);

impl HeldRanges {
    /// Whether this node's member of a set holds a part of the ring; also where only the map knows.
    pub fn holds(&self, set: SetId, part: RingRange) -> bool {
        let ranges = self.0.load();
        let holds = |range: &RingRange| range.contains(part.start) && range.contains(part.last);
        ranges.get(&set).is_none_or(holds)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("core", &self.core).finish_non_exhaustive()
    }
}

impl Host {
    /// Goes on with the members that storage has. `wake` is called, from any thread, when a turn is worth taking.
    pub fn open(
        node: NodeId,
        storage: Arc<Storage>,
        options: HostOptions,
        now: Now,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Host, String> {
        storage.propose_sweeps();
        let mut host = Host {
            node,
            now,
            requests: Requests::new(Random::new(options.seed).below(u64::from(u32::MAX)) as u32),
            reads: Reads::new(Random::new(options.seed).below(u64::from(u32::MAX)) as u32),
            served: Vec::new(),
            confirmed: Arc::default(),
            places: None,
            wanted: None,
            wanted_version: 0,
            on_note: None,
            seats: Seats::default(),
            hints: BTreeMap::new(),
            forwarded: 0,
            answers: Answers::default(),
            peers: BTreeMap::new(),
            nodes: None,
            last_given_us: 0,
            time_offset_us: None,
            shown: 0,
            ticks: 0,
            outbox: Vec::new(),
            core: Core::new(options.settings, options.seed),
            options,
            inbox: VecDeque::new(),
            asked: HashMap::default(),
            next_ticket: 0,
            persisted: Persisted::default(),
            is_written_by_caller: false,
            unwritten: 0,
            waits_for_log: true,
            wake,
            stalled: VecDeque::new(),
            is_unawaited: false,
            has_news: false,
            known_by_all: BTreeMap::new(),
            last_proposed_s: BTreeMap::new(),
            last_us: BTreeMap::new(),
            last_listed: BTreeMap::new(),
            transfers: Transfers::new(Random::new(!options.seed).below(u64::from(u32::MAX)) as u32),
            gone: storage.gone_groups(),
            unsaid: Vec::new(),
            appended_turn: 0,
            persisted_turn: 0,
            leaving: BTreeMap::new(),
            goals: BTreeMap::new(),
            refused: None,
            comparison: Comparison::default(),
            doubts: Doubts::default(),
            splits: Splits::default(),
            ranges: Arc::default(),
            batches: Batches::default(),
            between: Between::default(),
            intents: Intents::default(),
            sharing: Sharing::default(),
            watched: stuck::Watched::default(),
            unreached: BTreeMap::new(),
            storage,
        };
        let mut births = Vec::new();
        for mut recovered in host.storage.recovered_groups() {
            if breaks(Rule::ForgetVote) {
                recovered.state.vote = 0;
            }
            births.extend(host.add_member(recovered)?);
        }
        host.begin_again(births);
        host.storage.settle_installs();
        host.tell_standing(None);
        Ok(host)
    }

    /// What this node's members hold, for those who read from them.
    pub fn held_ranges(&self) -> Arc<HeldRanges> {
        Arc::clone(&self.ranges)
    }

    /// What a member holds is another matter now, or it is gone.
    fn tell_range(&mut self, set: SetId) {
        let range = self.core.state(set).and_then(|state| state.range);
        let mut ranges = BTreeMap::clone(&self.ranges.0.load());
        let before = match range {
            Some(range) => ranges.insert(set, range),
            None => ranges.remove(&set),
        };
        if before != range {
            self.ranges.0.store(Arc::new(ranges));
            if before.is_some() {
                self.has_news = true;
                self.note_narrowed(set);
            }
        }
    }

    /// From now on whoever it is hears what other nodes note.
    pub fn set_on_note(&mut self, on_note: OnNote) {
        self.on_note = Some(on_note);
    }

    /// Notes something for another node.
    pub fn note(&mut self, to: NodeId, note: Bytes) {
        self.outbox.push((to, NodeMessage::Note(note)));
    }

    /// The members.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// This node's member of a set asks for votes now, whatever it heard of a leader.
    pub fn campaign(&mut self, set: SetId) {
        self.inbox.push_back(Input::Campaign(set));
    }

    /// Asks a member of another node to lead a set.
    pub fn hand_leadership(&mut self, set: SetId, to: NodeId) {
        let heir = self.core.state(set).and_then(|state| state.configuration.replica_on(to));
        // Who is wrong does not lead: nobody would for as long as it is waited for.
        if heir.is_none_or(|heir| !self.comparison.is_wrong(set, heir)) {
            self.core.hand_leadership(set, to);
        }
    }

    /// How the members are.
    pub fn status(&self) -> Vec<MemberStatus> {
        let changed = |status: MemberStatus| MemberStatus {
            is_changing: self.is_changing(status.set),
            ..status
        };
        self.core.status().map(changed).collect()
    }

    /// Another node said something.
    pub fn receive(&mut self, from: NodeId, message: NodeMessage) {
        if self.refused.is_some() || !self.meet(from) {
            return;
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if let NodeMessage::Standing { synced, start } = message {
            return self.hear_standing(from, synced, start);
        }
        if let NodeMessage::Refused { synced } = message {
            tracing::error!(%from, synced, "the disk of this node is an old image: nobody listens");
            self.refused = Some(synced);
            return;
        }
        // Before it said what its log holds, it may have forgotten what it promised.
        if !peer.is_admitted {
            return;
        }
        peer.heard_ms = self.now.ms;
        match message {
            NodeMessage::Ping { clock_us, shown } => {
                peer.clock_offset_us = Some(clock_us.saturating_sub(self.now.steady_us()));
                self.has_news |= shown != peer.shown;
                peer.shown = shown;
            }
            NodeMessage::Consensus(message) => self.receive_consensus(from, message),
            NodeMessage::Beats { beats, are_answers } => {
                self.inbox.push_back(Input::Beats { from, beats, are_answers });
            }
            NodeMessage::Answer { number, answer } => self.receive_answer(from, number, answer),
            NodeMessage::Read { number, set, is_strong, body } => {
                self.serve(from, number, set, is_strong, body);
            }
            NodeMessage::Look { number, set, rings, body } => {
                self.serve_look((from, number), set, rings, body);
            }
            NodeMessage::Rows { number, answer } => self.receive_rows(from, number, answer),
            NodeMessage::Note(note) => {
                if let Some(on_note) = &self.on_note {
                    on_note(from, note);
                }
            }
            NodeMessage::Request { number, set, body } => match Request::from_bytes(body.clone()) {
                Ok(request) => self.propose(set, (request, body), from, number),
                Err(_) => tracing::warn!(%from, "a request of another node is not readable"),
            },
            NodeMessage::Relay { number, set, body } => self.relay(from, number, set, body),
            NodeMessage::Gone { set, replica } => self.receive_gone(set, replica),
            NodeMessage::Transfer(message) => self.receive_transfer(from, message),
            NodeMessage::StillMember { set, replica } => self.answer_member(from, set, replica),
            NodeMessage::Sum { set, replica, version, index, sum } => {
                self.take_sum(from, set, replica, (version, index, sum));
            }
            NodeMessage::Differs { set, replica, index } => {
                self.receive_differs(from, set, replica, index);
            }
            NodeMessage::WhoIs { set } => self.answer_origin(from, set),
            NodeMessage::Origin { set, split_from } => self.take_origin(set, split_from),
            NodeMessage::Budgets(message) => self.receive_budgets(from, message),
            NodeMessage::Traffic(message) => self.receive_traffic(from, message),
            // What is traced is known to whoever drives this.
            NodeMessage::Traced { .. }
            | NodeMessage::Standing { .. }
            | NodeMessage::Refused { .. } => {}
        }
    }

    /// The connection to a node broke, or was made anew: what was on its way is lost.
    pub fn link_broke(&mut self, node: NodeId) {
        self.requests.link_broke(node, self.now.ms);
        self.hints.retain(|_, leader| *leader != node);
        for number in self.reads.link_broke(node) {
            self.attempt_read(number);
        }
        self.break_transfers(node);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.is_admitted = false;
        }
        self.tell_standing(Some(node));
    }

    /// Somebody wants to read from this node's member what is committed by now; with `true` it may.
    pub fn read(&mut self, set: SetId, done: Box<dyn FnOnce(bool) + Send>) {
        let ticket = self.ticket(Asked::Read(done));
        self.inbox.push_back(Input::Read { set, ticket });
    }

    /// The time is told before anything else of a turn.
    pub fn set_now(&mut self, now: Now) {
        self.now = Now { ms: now.ms.max(self.now.ms), ..now };
        self.core.set_now(self.now.ms);
    }

    /// A tick of the clock: everything that follows from time alone.
    pub fn tick(&mut self) {
        if self.refused.is_some() {
            return;
        }
        self.ticks += 1;
        self.inbox.push_back(Input::Tick);
        let now_s = self.cluster_s();
        self.look_at_disk();
        self.remove_left();
        self.ask_whether_member();
        self.freeze_wrong();
        self.tick_doubts();
        self.say_frozen();
        self.tick_transfers();
        self.tick_splits();
        self.propose_chores(now_s);
        self.propose_sweeps(now_s);
        self.follow_wanted();
        self.drive_changes(now_s);
        self.tick_intents(now_s);
        self.tick_batches();
        self.tick_sharing();
        if self.storage.log_kept_bytes() > self.options.log_bytes_kept {
            self.shorten_log();
        }
        self.note_silent();
        let mut again = self.requests.due(self.now.ms);
        again.extend(self.led_anew());
        for number in again {
            self.attempt(number);
        }
        for number in self.reads.due(self.now.ms) {
            self.attempt_read(number);
        }
        if self.ticks.is_multiple_of(self.options.settings.heartbeat_ticks as u64) {
            self.tell_standing(None);
            self.ping();
        }
    }

    /// What a leader says by itself.
    fn propose_chores(&mut self, now_s: u32) {
        // Of a set that rests nothing is to be said but what time it is.
        let sets: Vec<SetId> = match self.ticks.is_multiple_of(CHORE_TICKS) {
            true => self.core.sets().collect(),
            false => self.core.awake_sets().collect(),
        };
        for set in sets.into_iter().filter(|set| self.core.leads(*set)).collect::<Vec<_>>() {
            let known = self.known_by_all.get(&set).copied().unwrap_or(0);
            let matched = self.core.matched_by_all(set).unwrap_or(0);
            if matched >= known + self.options.known_by_all_step {
                self.known_by_all.insert(set, matched);
                let body = Bytes::copy_from_slice(&matched.to_be_bytes());
                let (ticket, kind, before) = (None, KIND_KNOWN_BY_ALL, Vec::new());
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
            }
            self.propose_comparison(set, now_s);
            let last_s = *self.last_proposed_s.entry(set).or_insert(now_s);
            let is_silent = now_s.saturating_sub(last_s) >= self.options.silent_s;
            if self.is_comparison_due(set) || is_silent {
                self.last_proposed_s.insert(set, now_s);
                let (ticket, kind, body, before) = (None, KIND_COMPARE, Bytes::new(), Vec::new());
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
            }
        }
    }

    /// Old deletions of sets that this node leads are taken away, a few at a time. What others lead they see to.
    fn propose_sweeps(&mut self, now_s: u32) {
        let mut left = SWEEPS_PER_TICK;
        while left > 0
            && let Some(sweep) = self.storage.take_sweep()
        {
            let WantedSweep { set, ring, kind, body } = sweep;
            // One that came to the log behind a split would change rows of another set.
            let is_here = self.range_in_log(set).is_some_and(|range| range.contains(ring))
                && !self.is_splitting_off(set, ring);
            if self.core.leads(set) && is_here && self.knows_time() {
                left -= 1;
                let (ticket, before) = (None, Vec::new());
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
            }
        }
    }

    /// Takes turns until nothing is left to do but to wait. Returns what is to be sent.
    pub fn turn(&mut self) -> Vec<(NodeId, NodeMessage)> {
        if self.waits_for_log {
            // They are read from the log.
            self.catch_up_behind_images();
        }
        loop {
            self.take_persisted();
            self.take_written();
            self.take_read();
            self.take_installed();
            self.tell_of_images();
            self.release_held();
            self.settle_between();
            self.send_answers();
            // What is heard of batches has others answered, and more sent.
            while self.take_told() | self.take_looked() {
                self.send_answers();
            }
            for number in self.found_leader() {
                self.attempt(number);
            }
            self.take_confirmed();
            if self.inbox.is_empty() && !self.is_stalled() {
                break;
            }
            let outputs = self.core.turn(self.inbox.drain(..));
            self.follow(outputs);
            if self.inbox.is_empty() && self.is_stalled() {
                // The log has no room: later.
                break;
            }
        }
        self.core.show_leases();
        if self.is_catching_up() {
            (self.wake)();
        }
        self.settle_behind();
        std::mem::take(&mut self.outbox)
    }

    /// Does what the core wants, in its order.
    fn follow(&mut self, outputs: Outputs) {
        self.requests.touched.extend(outputs.behind.iter());
        self.has_news |= !outputs.leads.is_empty();
        for set in &outputs.leads {
            self.storage.forget_proposed(*set);
        }
        if !outputs.appends.is_empty() {
            self.appended_turn = outputs.turn;
        }
        self.stalled.extend(outputs.appends);
        self.append(outputs.turn);
        let to_message = |(node, message)| (node, NodeMessage::Consensus(message));
        self.outbox.extend(outputs.messages.into_iter().map(to_message));
        self.send_beats(outputs.beats, false);
        self.send_beats(outputs.heard, true);
        for (from, message) in outputs.unheard {
            self.receive_consensus(from, message);
        }
        for (set, committed) in outputs.committed {
            if let Some(committed) = self.hold_behind_image(set, committed) {
                self.apply(set, committed);
            }
        }
        for set in outputs.reconfigured {
            self.meet_members(set);
            self.tell_range(set);
        }
        for (ticket, answer) in outputs.answers {
            self.answer(ticket, answer);
        }
        for (node, set, replica) in outputs.removed {
            // Who left itself does not know whether those who stay know it.
            if !outputs.left.contains(&set) && !self.leaving.contains_key(&set) {
                self.say_gone(node, set, replica);
            }
        }
        outputs.left.into_iter().for_each(|set| self.leave_later(set));
        self.remove_left();
        for (set, to) in outputs.images_wanted {
            self.begin_transfer(set, to);
        }
        for (set, wanted) in outputs.wanted {
            let Some(table) = self.core.table(set) else { continue };
            let slots = (wanted.low..wanted.high).map_while(|index| table.slot(index));
            let mut bodies = Vec::new();
            let mut bytes = 0;
            for slot in slots {
                bytes += slot.body_bytes as usize;
                match self.storage.read_group_body(&slot) {
                    Ok(body) => bodies.push(body),
                    Err(error) => {
                        tracing::warn!(set = set.0, %error, "entries of the log cannot be read");
                        break;
                    }
                }
                if bytes > FETCHED_BYTES_MAX {
                    break;
                }
            }
            if !bodies.is_empty() {
                self.core.fetched(set, wanted, bodies);
            }
        }
    }

    /// Applies what is committed, and answers those who asked for it here.
    pub(super) fn apply(&mut self, set: SetId, committed: CommittedEntries) {
        let mut entries = Vec::with_capacity(committed.entries.len());
        let mut asked = Vec::with_capacity(committed.entries.len());
        let table = self.core.table(set);
        for (place, kind, now_s, body, ticket) in committed.entries {
            let slot = table.and_then(|table| table.slot(place.index));
            let position = slot.map_or(u64::MAX, |slot| slot.record);
            if kind == KIND_KNOWN_BY_ALL
                && let Some(index) = body.first_chunk::<8>()
            {
                let known = self.known_by_all.entry(set).or_insert(0);
                *known = (*known).max(u64::from_be_bytes(*index));
            }
            let body_bytes = body.len() as u32;
            let (term, index) = (place.term, place.index);
            let head = EntryHead { set, kind, term, index, now_s, body_bytes };
            let mut who = ticket.and_then(|ticket| self.asked.remove(&ticket));
            let in_hand = match &mut who {
                Some(Asked::Write(_, in_hand, _)) => in_hand.take(),
                Some(Asked::Read(_)) | None => None,
            };
            let request = in_hand.and_then(|it| it.into_request_of(kind, &body));
            entries.push(CommittedEntry { head, position, body, request });
            asked.push(who);
        }
        let Some(last) = entries.last().map(|entry| entry.head.index) else { return };
        let leads = self.core.leads(set);
        let mut intents = Vec::new();
        let (storage, comparison) = (&self.storage, &mut self.comparison);
        let step = self.options.compare_step.max(1);
        storage.apply_group(&mut entries, |number, entry, result| {
            let index = entry.head.index;
            if index.is_multiple_of(step) || compares_itself(entry) {
                comparison.note(set, index, storage.set_checksum(set));
            }
            let asked = asked.get_mut(number).and_then(Option::take);
            if leads || asked.is_some() {
                let intended = storage::intended(entry.head.kind, &entry.body);
                if let (Some(request), Ok(done)) = (intended, &result) {
                    return intents.push((request, done.clone(), asked));
                }
            }
            match asked {
                Some(Asked::Write(_, _, done)) => done(ProposalAnswer::Done(result)),
                Some(Asked::Read(done)) => done(false),
                None => {}
            }
        });
        for (request, done, asked) in intents {
            let waiter = asked.and_then(|asked| match asked {
                Asked::Write(_, _, waiter) => Some(waiter),
                Asked::Read(_) => None,
            });
            self.take_intent(set, &request, done, waiter);
        }
        for index in entries.iter().filter_map(compared_at) {
            self.compare(set, index);
        }
        if leads {
            let storage = &self.storage;
            entries.iter().for_each(|it| storage.sweep_on(set, it.head.kind, &it.body));
        }
        self.inbox.push_back(Input::Applied { set, index: last });
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if answer != Answer::MayRead {
            self.note_lost(ticket);
        }
        match (self.asked.remove(&ticket), answer) {
            (Some(Asked::Read(done)), answer) => done(answer == Answer::MayRead),
            // Whoever asked finds out, or its time is up.
            (Some(Asked::Write(..)), Answer::Unknown) => {}
            (Some(Asked::Write(set, _, done)), answer) => {
                // Definitions that were to stand before it are not in the log either.
                self.storage.forget_proposed(set);
                done(match answer {
                    Answer::NotLeader(leader) => ProposalAnswer::NotLeader(leader),
                    Answer::Lost => ProposalAnswer::Lost,
                    Answer::Busy | Answer::MayRead | Answer::Unknown => ProposalAnswer::Busy,
                });
            }
            (None, _) => {}
        }
    }
}

/// So many bytes of old entries are read from the disk at once.
const FETCHED_BYTES_MAX: usize = 1024 * 1024;
