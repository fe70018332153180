//! What surrounds the core on a node: the log that its entries go into, the trees that they are applied to, and those who wait
//! for answers. It has no thread and no socket either: whoever drives it says what came, and sends what is to be sent.

mod batches;
mod intents;
mod keeping;
mod members;
mod said;
mod splits;
mod sums;
mod transfers;
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
    Request, Storage,
};
use types::{NodeId, ReplicaId, RingRange, SetId};

use super::changes::Goal;
use super::core::{Core, Input, Outputs, Random};
use super::entries::KIND_EMPTY;
use super::member::{Answer, CommittedEntries, MemberStatus, Pending, Settings, Ticket, is_of_set};
use super::requests::{Attempt, Requests, WriteDone, WriteOutcome};
use batches::Batches;
pub use batches::RingMap;
use intents::Intents;
pub(crate) use said::BEATS_MAX;
pub use said::{NodeMessage, ProposalAnswer};
use splits::Splits;
pub use splits::{OnSplit, SplitOff};
use sums::{Comparison, KIND_COMPARE};
pub use transfers::SetRanges;
use transfers::Transfers;

/// The kind of an entry that asks storage for mutations (`storage/src/entry.rs`).
const KIND_REQUEST: u8 = 4;
/// The kind of an entry that says up to where every member has the log: entries before may go.
const KIND_KNOWN_BY_ALL: u8 = storage::REPLICATION_KINDS_FROM;
/// A leader that proposed nothing for so many seconds says what time it is: what is dead can be cleared then.
const SILENT_S: u32 = 300;

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

/// What is known of another node.
#[derive(Clone, Copy, Debug)]
struct Peer {
    heard_ms: u64,
    /// By how much its clock is before this node's; not known before it said so.
    ahead_us: Option<i64>,
    /// The version of what all agree on that it shows.
    shown: u64,
    /// What its log holds on its disk, the most that it ever said.
    synced: u64,
    /// Since its connection was made it said so, and it was no less than before.
    is_admitted: bool,
}

impl Peer {
    fn new(heard_ms: u64) -> Peer {
        Peer { heard_ms, ahead_us: None, shown: 0, synced: 0, is_admitted: false }
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
    /// Members compare what they applied every so many entries.
    pub compare_step: u64,
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
            compare_step: 1024,
        }
    }
}

/// Who is told what became of something that was asked.
enum Asked {
    /// A request to a set.
    Write(SetId, Box<dyn FnOnce(ProposalAnswer) + Send>),
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

/// Answers to requests that this node's members were asked for, by this node or another.
type Answers = Arc<Mutex<Vec<(NodeId, u64, ProposalAnswer)>>>;

/// Turns whose appends became durable, told by the log.
#[derive(Default)]
struct Persisted {
    turns: Vec<u64>,
    /// The log will not write any more.
    has_failed: bool,
}

/// The members of a node with what surrounds them.
pub struct Host {
    node: NodeId,
    options: HostOptions,
    now: Now,
    requests: Requests,
    answers: Answers,
    peers: BTreeMap<NodeId, Peer>,
    /// The latest cluster time that was given.
    last_given_us: i64,
    /// The version of what all agree on that this node shows.
    shown: u64,
    ticks: u64,
    outbox: Vec<(NodeId, NodeMessage)>,
    storage: Arc<Storage>,
    core: Core,
    inbox: VecDeque<Input>,
    asked: HashMap<Ticket, Asked, FixedState>,
    next_ticket: u64,
    persisted: Arc<Mutex<Persisted>>,
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
    transfers: Transfers,
    /// The highest numbers of members that were taken away from here.
    gone: BTreeMap<SetId, ReplicaId>,
    /// What is said when a turn is on disk.
    unsaid: Vec<(u64, (NodeId, NodeMessage))>,
    /// Sets whose member is to go from here, and at which tick.
    leaving: BTreeMap<SetId, u64>,
    /// Who is to belong to sets that are led from here.
    goals: BTreeMap<SetId, Goal>,
    /// Why nobody listens to this node, if so.
    refused: Option<u64>,
    comparison: Comparison,
    batches: Batches,
    intents: Intents,
    splits: Splits,
    ranges: Arc<HeldRanges>,
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
        let mut host = Host {
            node,
            now,
            requests: Requests::new(Random::new(options.seed).below(u64::from(u32::MAX)) as u32),
            answers: Answers::default(),
            peers: BTreeMap::new(),
            last_given_us: 0,
            shown: 0,
            ticks: 0,
            outbox: Vec::new(),
            core: Core::new(options.settings, options.seed),
            options,
            inbox: VecDeque::new(),
            asked: HashMap::default(),
            next_ticket: 0,
            persisted: Arc::default(),
            wake,
            stalled: VecDeque::new(),
            is_unawaited: false,
            has_news: false,
            known_by_all: BTreeMap::new(),
            last_proposed_s: BTreeMap::new(),
            last_us: BTreeMap::new(),
            transfers: Transfers::new(Random::new(!options.seed).below(u64::from(u32::MAX)) as u32),
            gone: storage.gone_groups(),
            unsaid: Vec::new(),
            leaving: BTreeMap::new(),
            goals: BTreeMap::new(),
            refused: None,
            comparison: Comparison::default(),
            splits: Splits::default(),
            ranges: Arc::default(),
            batches: Batches::default(),
            intents: Intents::default(),
            storage,
        };
        let mut births = Vec::new();
        for mut recovered in host.storage.recovered_groups() {
            if breaks(Rule::ForgetVote) {
                recovered.state.vote = 0;
            }
            host.hear_of(&recovered.state);
            let unapplied = recovered.state.commit + 1..=recovered.table.last().index;
            let slots = unapplied.filter_map(|index| recovered.table.slot(index));
            let bodies: Result<Vec<Bytes>, _> =
                slots.map(|slot| host.storage.read_group_body(&slot)).collect();
            let (set, unknown) = (recovered.state.set, host.unknown_to_state(&recovered)?);
            host.core.add(recovered, bodies.map_err(|error| error.to_string())?)?;
            if !unknown.is_empty() {
                let (stays, split_off) = host.core.catch_up(set, unknown);
                if !stays {
                    host.leave_later(set);
                }
                births.extend(split_off.into_iter().map(|birth| (set, birth)));
                host.meet_members(set);
            }
            host.tell_range(set);
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

    /// Says to a node, or to all, up to where the log is on the disk.
    fn tell_standing(&mut self, node: Option<NodeId>) {
        let standing = NodeMessage::Standing { synced: self.storage.synced_position() };
        let nodes = self.peers.keys().filter(|known| node.is_none_or(|node| node == **known));
        self.outbox.extend(nodes.map(|node| (*node, standing.clone())));
    }

    /// The most that another node said its log holds on its disk, since this one runs.
    pub fn synced_of(&self, node: NodeId) -> u64 {
        self.peers.get(&node).map_or(0, |peer| peer.synced)
    }

    /// What another node knows of this one's log, if it came back with an old image of its disk: nobody listens to it.
    pub fn refused(&self) -> Option<u64> {
        self.refused
    }

    /// A set that is new, with its first members; one of them is on this node.
    pub fn begin(&mut self, state: GroupState) -> Result<(), String> {
        self.storage.begin_group(&state).map_err(|error| error.to_string())?;
        self.hear_of(&state);
        self.is_unawaited = true;
        self.has_news = true;
        let set = state.set;
        self.core.add(RecoveredGroup::new(state), Vec::new())?;
        self.tell_range(set);
        Ok(())
    }

    /// The nodes of a set's members count as alive until they were silent for a while.
    fn hear_of(&mut self, state: &GroupState) {
        for (_, node) in state.configuration.nodes.iter().filter(|(_, node)| *node != self.node) {
            let peer = Peer::new(self.now.ms);
            self.peers.entry(*node).or_insert(peer);
        }
    }

    fn is_alive(&self, node: NodeId) -> bool {
        let is_heard = |peer: &Peer| peer.heard_ms + self.options.alive_ms > self.now.ms;
        node == self.node || self.peers.get(&node).is_some_and(is_heard)
    }

    /// The nodes that are alive, as far as this one knows.
    pub fn alive_nodes(&self) -> BTreeSet<NodeId> {
        let nodes = self.peers.keys().copied().chain([self.node]);
        nodes.filter(|node| self.is_alive(*node)).collect()
    }

    /// The latest cluster time that was given here.
    pub fn given_us(&self) -> i64 {
        self.last_given_us
    }

    /// Whether something began, or leads anew, since this was last asked.
    pub fn has_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Cluster time in microseconds: the clock in the middle of those of the nodes that are alive. A clock that is set wrong on one
    /// machine changes nothing. It never falls behind what was given before.
    pub fn cluster_us(&mut self) -> i64 {
        let alive = self.peers.iter().filter(|(node, _)| self.is_alive(**node));
        let mut ahead: Vec<i64> = alive.filter_map(|(_, peer)| peer.ahead_us).collect();
        ahead.push(0);
        ahead.sort_unstable();
        let middle = ahead.get((ahead.len() - 1) / 2).copied().unwrap_or(0);
        let now_us = self.now.clock_us.saturating_add(middle);
        self.last_given_us = self.last_given_us.max(now_us);
        self.last_given_us
    }

    /// Whether enough nodes said what time it is, so that a wrong clock of this one changes nothing.
    fn knows_time(&self) -> bool {
        let known = self.peers.values().filter(|peer| peer.ahead_us.is_some()).count();
        (known + 1) * 2 > self.peers.len() + 1
    }

    /// The time at which a request to a set is judged, about, in seconds: no earlier than what the set was told before.
    pub fn time_in_set(&mut self, set: SetId) -> u32 {
        self.cluster_s().max(self.storage.group_now_s(set))
    }

    /// Cluster time in seconds.
    pub fn cluster_s(&mut self) -> u32 {
        u32::try_from(self.cluster_us() / 1_000_000).unwrap_or(0)
    }

    /// How many voters of a set are needed, and how many are alive, as far as this node knows.
    pub fn alive(&self, set: SetId) -> (usize, usize) {
        let Some(state) = self.core.state(set) else { return (1, 0) };
        let of_voters = |voters: &[ReplicaId]| {
            let nodes = voters.iter().filter_map(|voter| state.configuration.node_of(*voter));
            (voters.len() / 2 + 1, nodes.filter(|node| self.is_alive(*node)).count())
        };
        let now = of_voters(&state.configuration.voters);
        // While two configurations decide, the one that lacks more tells.
        match state.configuration.is_joint() {
            true => {
                let before = of_voters(&state.configuration.outgoing);
                let lacks = |(required, alive): (usize, usize)| required.saturating_sub(alive);
                if lacks(before) > lacks(now) { before } else { now }
            }
            false => now,
        }
    }

    /// The members.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Asks a member of another node to lead a set.
    pub fn hand_leadership(&mut self, set: SetId, to: NodeId) {
        self.core.hand_leadership(set, to);
    }

    /// How the members are.
    pub fn status(&self) -> Vec<MemberStatus> {
        self.core.status().collect()
    }

    /// Another node said something.
    pub fn receive(&mut self, from: NodeId, message: NodeMessage) {
        if self.refused.is_some() || !self.meet(from) {
            return;
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if let NodeMessage::Standing { synced } = message {
            // The first over a connection decides.
            peer.is_admitted |= synced >= peer.synced || breaks(Rule::TrustOldImage);
            peer.synced = peer.synced.max(synced);
            if !peer.is_admitted {
                let synced = peer.synced;
                self.outbox.push((from, NodeMessage::Refused { synced }));
            }
            return;
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
                peer.ahead_us = Some(clock_us.saturating_sub(self.now.clock_us));
                self.has_news |= shown != peer.shown;
                peer.shown = shown;
            }
            NodeMessage::Consensus(message) => self.receive_consensus(from, message),
            NodeMessage::Beats { beats, are_answers } => {
                self.inbox.push_back(Input::Beats { from, beats, are_answers });
            }
            NodeMessage::Answer { number, answer } => self.take_answer(number, answer),
            NodeMessage::Request { number, set, body } => match Request::from_bytes(body.clone()) {
                Ok(request) => self.propose(set, (request, body), from, number),
                Err(_) => tracing::warn!(%from, "a request of another node is not readable"),
            },
            NodeMessage::Gone { set, replica } => self.receive_gone(set, replica),
            NodeMessage::Transfer(message) => self.receive_transfer(from, message),
            NodeMessage::StillMember { set, replica } => self.answer_member(from, set, replica),
            NodeMessage::Sum { set, replica, index, sum } => {
                self.take_sum(from, set, replica, (index, sum));
            }
            NodeMessage::Differs { set, replica, index } => {
                self.receive_differs(set, replica, index);
            }
            NodeMessage::WhoIs { set } => self.answer_origin(from, set),
            NodeMessage::Origin { set, split_from } => self.take_origin(set, split_from),
            NodeMessage::Standing { .. } | NodeMessage::Refused { .. } => {}
        }
    }

    /// What became of a request of this node's, or why it is tried again.
    fn take_answer(&mut self, number: u64, answer: ProposalAnswer) {
        if self.requests.answer(number, answer, self.now.ms) {
            self.attempt(number);
        }
    }

    /// The connection to a node broke, or was made anew: what was on its way is lost.
    pub fn link_broke(&mut self, node: NodeId) {
        self.requests.link_broke(node, self.now.ms);
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
    }

    /// A tick of the clock: everything that follows from time alone.
    pub fn tick(&mut self) {
        if self.refused.is_some() {
            return;
        }
        self.ticks += 1;
        self.inbox.push_back(Input::Tick);
        let now_s = self.cluster_s();
        self.remove_left();
        self.ask_whether_member();
        self.freeze_wrong();
        self.tick_transfers();
        self.tick_splits();
        self.propose_chores(now_s);
        self.drive_changes(now_s);
        self.tick_intents(now_s);
        self.tick_batches();
        if self.storage.log_kept_bytes() > self.options.log_bytes_kept {
            self.shorten_log();
        }
        for number in self.requests.due(self.now.ms) {
            self.attempt(number);
        }
        if self.ticks.is_multiple_of(self.options.settings.heartbeat_ticks as u64) {
            self.tell_standing(None);
            self.ping();
        }
    }

    fn ping(&mut self) {
        let ping = NodeMessage::Ping { clock_us: self.now.clock_us, shown: self.shown };
        self.outbox.extend(self.peers.keys().map(|node| (*node, ping.clone())));
    }

    /// This node shows a version of what all agree on; the others are told.
    pub fn show(&mut self, version: u64) {
        self.shown = version;
        self.ping();
    }

    /// The least version that another live node shows; without any the largest there is.
    pub fn others_show(&self) -> u64 {
        let alive = self.peers.iter().filter(|(node, _)| self.is_alive(**node));
        alive.map(|(_, peer)| peer.shown).min().unwrap_or(u64::MAX)
    }

    /// A set that nobody needs any more: its member here is gone for good.
    pub fn end(&mut self, set: SetId) -> Result<(), String> {
        let Some(state) = self.core.state(set) else { return Ok(()) };
        let replica = state.replica;
        self.storage.end_group(set, replica).map_err(|error| error.to_string())?;
        self.core.remove(set);
        self.stalled.retain(|(stalled, _)| *stalled != set);
        self.known_by_all.remove(&set);
        self.last_proposed_s.remove(&set);
        self.last_us.remove(&set);
        self.tell_range(set);
        self.is_unawaited = true;
        self.has_news = true;
        Ok(())
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
            let last_s = self.last_proposed_s.entry(set).or_insert(now_s);
            if now_s.saturating_sub(*last_s) >= SILENT_S {
                *last_s = now_s;
                let (ticket, kind, body, before) = (None, KIND_EMPTY, Bytes::new(), Vec::new());
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
            }
        }
    }

    /// Takes turns until nothing is left to do but to wait. Returns what is to be sent.
    pub fn turn(&mut self) -> Vec<(NodeId, NodeMessage)> {
        loop {
            self.take_persisted();
            self.release_held();
            self.send_answers();
            // What is heard of batches has others answered, and more sent.
            while self.take_told() | self.take_looked() {
                self.send_answers();
            }
            for number in self.requests.found_leader(|set| self.core.leader(set)) {
                self.attempt(number);
            }
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
        std::mem::take(&mut self.outbox)
    }

    /// Does what the core wants, in its order.
    fn follow(&mut self, outputs: Outputs) {
        self.has_news |= !outputs.leads.is_empty();
        for set in &outputs.leads {
            self.storage.forget_proposed(*set);
        }
        let is_kept = !outputs.appends.is_empty();
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
            self.apply(set, committed);
        }
        for set in outputs.reconfigured {
            self.meet_members(set);
            self.tell_range(set);
        }
        for (ticket, answer) in outputs.answers {
            self.answer(ticket, answer);
        }
        for (node, set, replica) in outputs.removed {
            let gone = (node, NodeMessage::Gone { set, replica });
            // Not before this node knows for sure that it is committed: it may need their vote to find out.
            match is_kept {
                true => self.unsaid.push((outputs.turn, gone)),
                false => self.outbox.push(gone),
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
    fn apply(&mut self, set: SetId, committed: CommittedEntries) {
        let mut entries = Vec::with_capacity(committed.entries.len());
        let mut tickets = Vec::with_capacity(committed.entries.len());
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
            entries.push(CommittedEntry { head, position, body });
            tickets.push(ticket);
        }
        let Some(last) = entries.last().map(|entry| entry.head.index) else { return };
        let asked = &mut self.asked;
        let leads = self.core.leads(set);
        let mut intents = Vec::new();
        let (storage, comparison) = (&self.storage, &mut self.comparison);
        let step = self.options.compare_step.max(1);
        storage.apply_group(&entries, |number, result| {
            let index = entries.get(number).map_or(0, |entry| entry.head.index);
            if index.is_multiple_of(step) {
                comparison.note(set, index, storage.set_checksum(set));
            }
            let ticket = tickets.get(number).copied().flatten();
            let asked = ticket.and_then(|ticket| asked.remove(&ticket));
            if leads || asked.is_some() {
                let entry = entries.get(number);
                let intended = entry.and_then(|it| storage::intended(it.head.kind, &it.body));
                if let (Some(request), Ok(done)) = (intended, &result) {
                    return intents.push((request, done.clone(), asked));
                }
            }
            match asked {
                Some(Asked::Write(_, done)) => done(ProposalAnswer::Done(result)),
                Some(Asked::Read(done)) => done(false),
                None => {}
            }
        });
        for (request, done, asked) in intents {
            let waiter = asked.and_then(|asked| match asked {
                Asked::Write(_, waiter) => Some(waiter),
                Asked::Read(_) => None,
            });
            self.take_intent(set, &request, done, waiter);
        }
        for entry in entries.iter().filter(|entry| entry.head.kind == KIND_COMPARE) {
            self.compare(set, &entry.body);
        }
        self.inbox.push_back(Input::Applied { set, index: last });
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if answer != Answer::MayRead {
            self.note_lost(ticket);
        }
        match (self.asked.remove(&ticket), answer) {
            (Some(Asked::Read(done)), answer) => done(answer == Answer::MayRead),
            (Some(Asked::Write(set, done)), answer) => {
                // Definitions that were to stand before it are not in the log either.
                self.storage.forget_proposed(set);
                done(match answer {
                    Answer::NotLeader(leader) => ProposalAnswer::NotLeader(leader),
                    Answer::Lost => ProposalAnswer::Lost,
                    Answer::Busy | Answer::MayRead => ProposalAnswer::Busy,
                });
            }
            (None, _) => {}
        }
    }

    /// Whether something waits until the log has room for it.
    pub fn is_stalled(&self) -> bool {
        !self.stalled.is_empty() || self.is_unawaited
    }

    /// Whether the log will not write any more: the node must stop.
    pub fn has_failed(&self) -> bool {
        self.persisted.lock().has_failed || self.storage.poisoned().is_some()
    }

    /// Nobody is answered any more, because the node stops.
    pub fn close(&mut self) {
        self.close_batches();
        self.close_intents();
        self.requests.close();
        for (_, asked) in self.asked.drain() {
            match asked {
                Asked::Write(_, done) => done(ProposalAnswer::Done(Err(CommitError::Closed))),
                Asked::Read(done) => done(false),
            }
        }
    }
}

/// So many bytes of old entries are read from the disk at once.
const FETCHED_BYTES_MAX: usize = 1024 * 1024;
