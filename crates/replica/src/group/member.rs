//! One member of one set: what consensus needs around it so that nothing is said before it is on disk, nobody is answered twice,
//! and nothing that a peer sends can end the process.

mod doubt;
mod leading;
mod lease;
mod moves;
mod of_set;
mod reads;
mod rest;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType, Message, MessageType};
use raft::{Config, RawNode, Ready, StateRole};
use slog::Logger;
use storage::broken::{Rule, breaks};
use storage::{Configuration, EntryPlace, GroupAppend, GroupState, RecoveredGroup, Slot};
use types::{NodeId, ReplicaId, SetId};

use super::entries::{Entries, KIND_EMPTY, Wanted, head_of, into_parts};
use super::wire::PeerMessage;
use crate::group::core::Random;
use crate::group::leases::Lease;
use leading::AskedOf;
use lease::LeaseTerms;
use moves::Sender;
pub(crate) use moves::{StagedPlace, Standing};
use of_set::is_sound_entry;
pub(crate) use of_set::{Pending, is_of_set};
use reads::ReadBatch;

/// How members measure time and how much they hold.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A follower that heard nothing for so many ticks, and a few more by its rank, asks for votes.
    pub election_ticks: usize,
    /// A leader says that it is there every so many ticks.
    pub heartbeat_ticks: usize,
    /// A read that was not confirmed after so many ticks is asked for again.
    pub read_retry_ticks: u64,
    /// A message has at most so many bytes of entries.
    pub message_bytes_max: u64,
    /// A leader takes no more while so many bytes are proposed and not committed.
    pub uncommitted_bytes_max: u64,
    /// So many proposals wait for a new leader to be ready.
    pub held_max: usize,
    /// So many reads wait for one member.
    pub reads_max: usize,
    /// A member of whom nothing was wanted for so many ticks rests.
    pub rest_ticks: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            election_ticks: 10,
            heartbeat_ticks: 2,
            read_retry_ticks: 4,
            message_bytes_max: 1024 * 1024,
            uncommitted_bytes_max: 64 * 1024 * 1024,
            held_max: 1024,
            reads_max: 65_536,
            rest_ticks: 4,
        }
    }
}

/// A rank more means so many ticks later, so that the preferred member asks for votes first.
const TICKS_PER_RANK: usize = 3;
/// So much later one asks for votes that waits for its rows: others can answer at once.
const INSTALLING_TICKS: usize = 100;
/// After a campaign that nobody won, up to so many ticks by chance: equal ranks do not tie for ever.
const CHANCE_TICKS: u64 = 16;
/// Nobody was elected so often: one more must always be possible.
const TERM_MAX: u64 = u64::MAX / 2;
/// The term of a set that is born.
const FIRST_TERM: u64 = 1;
/// The preferred member of a set without a first leader asks for votes every so many ticks.
const FIRST_CAMPAIGN_TICKS: u64 = 2;
/// So many messages of entries may be on their way to one member.
const MESSAGES_IN_FLIGHT_MAX: usize = 256;

/// Names something that was asked of a member; its answer has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What becomes of something that was asked, before anything is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing was done: this member does not lead. Who does, as far as it knows.
    NotLeader(Option<NodeId>),
    /// Nothing was done, nor will be: another leader's entry has the place of this proposal.
    Lost,
    /// It may have been done, or be done: the place of this proposal is behind an image.
    Unknown,
    /// Nothing was done: too much waits already.
    Busy,
    /// The member has applied everything that was committed when the read was asked for.
    MayRead,
}

/// Whether a member leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It proposes.
    Leader,
    /// It follows.
    Follower,
    /// It asks for votes.
    Candidate,
}

/// How a member is, for people.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Its set.
    pub set: SetId,
    /// The member.
    pub replica: ReplicaId,
    /// Whether it leads.
    pub role: Role,
    /// Its term.
    pub term: u64,
    /// Who leads, as far as it knows.
    pub leader: Option<NodeId>,
    /// The last entry that it knows to be committed.
    pub commit: u64,
    /// The last entry that it applied.
    pub applied: u64,
    /// Its last entry.
    pub last: u64,
    /// The nodes of its voters.
    pub voters: Vec<NodeId>,
    /// The nodes of its members that only follow.
    pub learners: Vec<NodeId>,
    /// Whether two configurations decide.
    pub is_joint: bool,
    /// Whether this node changes who belongs to its set.
    pub is_changing: bool,
    /// Of a leader: how far each voter has its log.
    pub matched: Vec<(NodeId, u64)>,
    /// Ticks since it heard from a leader.
    pub silent_ticks: u64,
    /// Whether it heard from one, or led, since this node runs: what it knows from before may be of any age.
    pub has_heard: bool,
    /// Its leader did not confirm reads for long: others may be reached.
    pub is_cut_off: bool,
    /// Whether it has rows: it was not made empty to be handed them, and is not being handed them.
    pub is_whole: bool,
    /// Why it takes part in nothing, if so.
    pub frozen: Option<String>,
}

/// Entries of a set that are committed and on this node's disk.
#[derive(Clone, Debug, Default)]
pub struct CommittedEntries {
    /// In order: where it stands, what it is, its second, its body, and who asked for it here.
    pub entries: Vec<(EntryPlace, u8, u32, Bytes, Option<Ticket>)>,
}

/// What a member wants done.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) appends: Vec<GroupAppend>,
    /// May leave at once.
    pub(crate) messages: Vec<Message>,
    pub(crate) committed: CommittedEntries,
    pub(crate) answers: Vec<(Ticket, Answer)>,
    pub(crate) wanted: Option<Wanted>,
    /// It leads since now.
    pub(crate) leads_anew: bool,
    /// Members that need an image.
    pub(crate) wanted_images: BTreeSet<u64>,
    /// Who belongs to the set is another matter now.
    pub(crate) is_reconfigured: bool,
    /// The member does not belong to its set any more.
    pub(crate) is_removed: bool,
    /// Members that do not, and where they were.
    pub(crate) removed: Vec<(ReplicaId, NodeId)>,
}

impl Wishes {
    /// Most of what happens to a member in a turn leads to nothing before its end.
    pub(crate) fn are_none(&self) -> bool {
        self.appends.is_empty()
            && self.messages.is_empty()
            && self.committed.entries.is_empty()
            && self.answers.is_empty()
            && self.wanted.is_none()
            && !(self.leads_anew || self.is_reconfigured || self.is_removed)
            && self.wanted_images.is_empty()
            && self.removed.is_empty()
    }

    /// The state is to be kept, behind what is to be kept already.
    fn append_state(&mut self, state: GroupState) {
        self.appends.push(GroupAppend { state: Some(state), ..GroupAppend::default() });
    }
}

/// The preferred member of a set has rank 0; each set prefers another one.
fn rank_of(set: SetId, replica: ReplicaId, configuration: &Configuration) -> usize {
    let mut voters = configuration.voters.clone();
    // While two configurations decide, those of both: equal ranks would tie for ever.
    voters.extend(&configuration.outgoing);
    voters.sort_unstable();
    voters.dedup();
    let count = voters.len().max(1);
    // Who does not decide does not lead either.
    let Some(place) = voters.iter().position(|voter| *voter == replica) else { return count };
    (place + count - set.0 as usize % count) % count
}

/// A proposal whose entry is in this member's log.
#[derive(Clone, Copy, Debug)]
struct Proposed {
    place: EntryPlace,
    ticket: Ticket,
}

/// A proposal on its way into the log.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) ticket: Option<Ticket>,
    pub(crate) kind: u8,
    pub(crate) now_s: u32,
    pub(crate) body: Bytes,
    pub(crate) before: Vec<(u8, Bytes)>,
}

/// A ready that is not on disk yet.
#[derive(Debug)]
struct Unpersisted {
    /// The turn whose append it was in; everything up to it is on disk when that turn is.
    turn: u64,
    number: u64,
    messages: Vec<Message>,
}

pub(crate) struct Member {
    pub(crate) set: SetId,
    pub(crate) replica: ReplicaId,
    raw: RawNode<Entries>,
    settings: Settings,
    random: Random,
    rank: usize,
    timeout: usize,
    seen: (StateRole, u64, u64),
    ticks: u64,
    heard_at: u64,
    has_heard: bool,
    /// The last entry and the last batch of reads when it last ticked, and for how many ticks nothing was wanted.
    last_seen: (u64, u64),
    calm_ticks: u64,
    proposed: VecDeque<Proposed>,
    held: VecDeque<Proposal>,
    /// The proposals of this turn: consensus takes them all at once.
    gathered: Vec<Proposal>,
    /// Since which tick it is not known who leads, while proposals are held.
    unled_since: Option<u64>,
    reads: VecDeque<ReadBatch>,
    unasked_reads: Vec<Ticket>,
    next_batch: u64,
    /// Since which tick no read was confirmed, while some wait.
    unconfirmed_since: Option<u64>,
    unpersisted: VecDeque<Unpersisted>,
    /// At which tick a state was last kept with entries, and the commit that it told.
    kept: (Option<u64>, u64),
    applied: u64,
    /// Handed over to be applied.
    handed_over: u64,
    last_now_s: u32,
    /// Entries about the set itself that were handed over and are not in force yet.
    pending: VecDeque<Pending>,
    /// Whoever led the set that this one was split from wants to lead it at once.
    is_eager: bool,
    /// Members that the configuration does not know yet, and where they are.
    strangers: BTreeMap<ReplicaId, NodeId>,
    /// The image that this node holds for the member.
    staged: Option<StagedPlace>,
    /// Consensus is behind this entry, and the image is on its way into the trees.
    installing: Option<EntryPlace>,
    pub(crate) frozen: Option<String>,
    /// The steady clock of the node, as of this turn.
    pub(crate) now_ms: u64,
    /// What others see of its lease.
    pub(crate) lease: Arc<Lease>,
    lease_terms: LeaseTerms,
    /// A quorum is asked though nobody waits for it.
    renews_lease: bool,
    /// From this tick on it votes.
    votes_from: u64,
}

impl Member {
    pub(crate) fn new(
        recovered: RecoveredGroup,
        bodies: Vec<Bytes>,
        settings: Settings,
        mut random: Random,
        logger: &Logger,
    ) -> raft::Result<Member> {
        // An answer to a question from before a restart is none to a new one.
        let next_batch = random.below(u64::from(u32::MAX)) << 32;
        let state = recovered.state.clone();
        let applied = state.commit;
        let seconds = (recovered.table.cut().index + 1..=recovered.table.last().index)
            .filter_map(|index| recovered.table.slot(index));
        let last_now_s = seconds.fold(state.now_s, |max, slot| max.max(slot.now_s));
        let config = Config {
            id: state.replica.0,
            election_tick: settings.election_ticks,
            heartbeat_tick: settings.heartbeat_ticks,
            max_election_tick: settings.election_ticks * 4
                + CHANCE_TICKS as usize * 2
                + INSTALLING_TICKS,
            min_election_tick: settings.election_ticks,
            applied,
            max_size_per_msg: settings.message_bytes_max,
            max_inflight_msgs: MESSAGES_IN_FLIGHT_MAX,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: settings.uncommitted_bytes_max,
            max_committed_size_per_ready: settings.message_bytes_max,
            batch_append: true,
            ..Config::default()
        };
        let rank = rank_of(state.set, state.replica, &state.configuration);
        let raw = RawNode::new(&config, Entries::new(recovered, bodies), logger)?;
        let mut member = Member {
            set: state.set,
            replica: state.replica,
            raw,
            settings,
            random,
            rank,
            timeout: 0,
            seen: (StateRole::Follower, u64::MAX, 0),
            ticks: 0,
            heard_at: 0,
            has_heard: false,
            last_seen: (0, 0),
            calm_ticks: 0,
            proposed: VecDeque::new(),
            held: VecDeque::new(),
            gathered: Vec::new(),
            unled_since: None,
            reads: VecDeque::new(),
            unasked_reads: Vec::new(),
            next_batch,
            unconfirmed_since: None,
            unpersisted: VecDeque::new(),
            kept: (None, 0),
            applied,
            handed_over: applied,
            last_now_s,
            pending: VecDeque::new(),
            is_eager: false,
            strangers: BTreeMap::new(),
            staged: None,
            installing: None,
            frozen: None,
            now_ms: 0,
            lease: Arc::default(),
            lease_terms: LeaseTerms::default(),
            renews_lease: false,
            votes_from: 0,
        };
        member.set_timeout(false);
        Ok(member)
    }

    /// What entries say of the set itself that are committed, and that the state which was kept does not know. Returns whether it
    /// still belongs to its set, and what was split off.
    pub(crate) fn catch_up(&mut self, entries: Vec<Pending>) -> (bool, Vec<GroupAppend>) {
        let mut wishes = Wishes::default();
        for entry in entries {
            self.bring_into_force(entry, &mut wishes);
        }
        let is_birth = |append: &GroupAppend| append.is_birth;
        (!wishes.is_removed, wishes.appends.into_iter().filter(is_birth).collect())
    }

    fn log(&self) -> &Entries {
        self.raw.store()
    }

    pub(crate) fn state(&self) -> &GroupState {
        &self.log().state
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.frozen.is_none() && self.raw.raft.state == StateRole::Leader
    }

    /// The node of the member that leads, as far as this one knows.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let leader = ReplicaId(self.raw.raft.leader_id);
        self.node_of(leader)
    }

    /// Its rank where nobody leads; behind one who does its place among the others: nobody waits for a member that will not ask for
    /// votes. No two have the same, or they would ask at once, again and again.
    fn rank_behind(&self, leader: u64) -> usize {
        let (leader, configuration) = (ReplicaId(leader), &self.state().configuration);
        if leader == self.replica || !configuration.voters.contains(&leader) {
            return self.rank;
        }
        let is_later = rank_of(self.set, leader, configuration) < self.rank;
        self.rank - usize::from(is_later)
    }

    /// The library draws its own timeouts by chance, from a source of its own; after every call that may have done so, ours
    /// takes their place.
    fn set_timeout(&mut self, has_ticked: bool) {
        let raft = &self.raw.raft;
        let seen = (raft.state, raft.term, raft.leader_id);
        let is_candidate = matches!(raft.state, StateRole::Candidate | StateRole::PreCandidate);
        let has_campaigned = has_ticked && is_candidate && raft.election_elapsed == 0;
        if seen != self.seen || has_campaigned {
            let later = match is_candidate {
                true => usize::try_from(self.random.below(CHANCE_TICKS)).unwrap_or(0),
                false => TICKS_PER_RANK * self.rank_behind(raft.leader_id),
            };
            // Who waits for its rows could answer nobody.
            let rows = if self.lacks_rows() { INSTALLING_TICKS } else { 0 };
            self.timeout = self.settings.election_ticks + 2 + later + rows;
            self.seen = seen;
        }
        if raft.randomized_election_timeout() != self.timeout {
            self.raw.raft.set_randomized_election_timeout(self.timeout);
        }
    }

    /// It is chosen anew, as if something had changed.
    fn forget_timeout(&mut self) {
        self.seen.1 = u64::MAX;
    }

    pub(crate) fn tick(&mut self) {
        self.ticks += 1;
        if !self.may_ask_for_votes() {
            // Its time to do so does not come before it can.
            let elapsed = self.raw.raft.election_elapsed;
            self.raw.raft.election_elapsed = elapsed.min(self.timeout.saturating_sub(2));
        }
        self.raw.tick();
        // A set that never had a leader does not wait for one: whoever made it wants to write.
        self.is_eager &= self.raw.raft.leader_id == 0;
        let is_new = self.raw.raft.term == FIRST_TERM && self.rank == 0;
        // What never had a leader promised nobody anything.
        let is_unled =
            self.raw.raft.leader_id == 0 && (is_new || self.is_eager && !self.is_promised());
        // The library asks for votes also where nobody would elect it.
        let is_unled = is_unled && self.raw.raft.promotable();
        if is_unled && self.ticks.is_multiple_of(FIRST_CAMPAIGN_TICKS) && self.may_ask_for_votes() {
            let _ = self.raw.campaign();
        }
        self.set_timeout(true);
        if self.is_leader() {
            (self.heard_at, self.has_heard) = (self.ticks, true);
        }
        let late = self.ticks.saturating_sub(self.settings.read_retry_ticks);
        let mut again: Vec<Ticket> = Vec::new();
        self.reads.retain_mut(|batch| {
            let is_lost = batch.index.is_none() && batch.asked_at <= late;
            if is_lost {
                again.append(&mut batch.tickets);
            }
            !is_lost
        });
        self.unasked_reads.append(&mut again);
        self.renew_lease();
    }

    /// A message of another member. What could end the process is refused before the library sees it.
    pub(crate) fn step(&mut self, from: NodeId, mut message: Message, wishes: &mut Wishes) {
        let replica = ReplicaId(message.from);
        let sender = self.sender(replica, from);
        let is_ours = message.to == self.replica.0;
        if is_ours && sender == Sender::Gone {
            wishes.removed.push((replica, from));
        }
        let is_known = matches!(sender, Sender::Known | Sender::New);
        if !is_ours || !is_known || !self.is_sound(&message) {
            tracing::debug!(set = self.set.0, %from, "a message of a peer is not for this member");
            return;
        }
        if sender == Sender::New {
            self.meet(replica, from);
        }
        // Who refuses a vote tells what is committed. It may be that nobody needs its vote any more, and that it is the only one to know.
        // Where it was asked in advance it answers in its own term, and what is of an earlier one the library would not look at.
        if message.get_msg_type() == MessageType::MsgRequestPreVoteResponse && message.reject {
            message.term = message.term.max(self.raw.raft.term);
        }
        // Nor does one lead that waits for its rows.
        let is_told_to_lead = message.get_msg_type() == MessageType::MsgTimeoutNow;
        let may_lead = !self.lacks_rows() && self.may_ask_for_votes();
        if self.is_early_vote(&message) || is_told_to_lead && !may_lead {
            return;
        }
        if message.get_msg_type() == MessageType::MsgReadIndex {
            return self.under_lease(|member| {
                let _ = member.raw.step(message);
            });
        }
        if Member::is_from_leader(&message) && message.term >= self.raw.raft.term {
            (self.heard_at, self.has_heard) = (self.ticks, true);
        }
        let is_outdone = self.outdoes(&message);
        let asked = Member::asks_for_reads(&message);
        let _ = self.raw.step(message);
        self.note_promise(asked);
        if is_outdone {
            let _ = self.raw.campaign();
        }
        self.set_timeout(false);
    }

    /// Whether a message says nothing that cannot be.
    fn is_sound(&self, message: &Message) -> bool {
        let (log, kind) = (&self.raw.raft.raft_log, message.get_msg_type());
        // What has no term the library takes for something that this member said to itself: only questions for reads travel so.
        let is_question = kind == MessageType::MsgReadIndex;
        if (message.term == 0) != is_question || message.term > TERM_MAX {
            return false;
        }
        match kind {
            // Nobody else proposes, or says who is to lead: a follower would hand it on.
            MessageType::MsgPropose | MessageType::MsgTransferLeader => return false,
            MessageType::MsgReadIndex => return message.entries.len() == 1,
            _ => {}
        }
        if message.term < self.raw.raft.term {
            return true;
        }
        match kind {
            MessageType::MsgHeartbeat => message.commit <= log.last_index(),
            // Nobody has more of a leader's log than the leader.
            MessageType::MsgAppendResponse if message.term == self.raw.raft.term => {
                message.index.max(message.reject_hint) <= log.last_index()
            }
            MessageType::MsgAppend => {
                let indexes = message.index.checked_add(1).into_iter().flat_map(|from| from..);
                message.index <= u64::MAX / 2
                    && message.log_term <= message.term
                    && message.entries.iter().zip(indexes).all(|(entry, index)| {
                        entry.index == index
                            && entry.term <= message.term
                            && entry.term >= message.log_term
                            && is_sound_entry(entry)
                            && (index > log.committed
                                // What is not here any more was committed, and is not looked at.
                                || log
                                    .term(index)
                                    .map_or(true, |term| term == 0 || term == entry.term))
                    })
            }
            MessageType::MsgSnapshot => self.is_sound_snapshot(message),
            _ => true,
        }
    }

    /// Whether it leads and has applied an entry of its term, and so everything before it.
    pub(crate) fn is_ready_to_lead(&self) -> bool {
        if breaks(Rule::ProposeEarly) {
            return self.is_leader();
        }
        let is_in_term = self.log().table.term(self.applied) == Some(self.raw.raft.term);
        self.is_leader() && is_in_term && !self.is_overruled()
    }

    /// Whether something of it was not on disk before a turn was.
    pub(crate) fn awaits(&self, turn: u64) -> bool {
        self.unpersisted.front().is_some_and(|front| front.turn <= turn)
    }

    /// What was appended in a turn, and everything before it, is on disk.
    pub(crate) fn persisted(&mut self, turn: u64, wishes: &mut Wishes) {
        let mut highest = None;
        while let Some(front) = self.unpersisted.front()
            && front.turn <= turn
            && let Some(unpersisted) = self.unpersisted.pop_front()
        {
            highest = Some(unpersisted.number);
            wishes.messages.extend(unpersisted.messages);
        }
        if let Some(number) = highest {
            self.raw.on_persist_ready(number);
            self.image_persisted();
            self.set_timeout(false);
        }
    }

    /// Entries up to one were applied.
    pub(crate) fn note_applied(&mut self, index: u64, wishes: &mut Wishes) {
        // What was applied before the member went on behind an image.
        if self.installing.is_some() {
            return;
        }
        assert!(index >= self.applied && index <= self.handed_over, "applied what was handed over");
        self.applied = index;
        while let Some(entry) = self.pending.pop_front_if(|entry| entry.place.index <= index) {
            self.bring_into_force(entry, wishes);
        }
        self.raw.advance_apply_to(index);
        self.raw.mut_store().evict(index);
        self.answer_reads(wishes);
    }

    /// After all inputs of a turn: everything that consensus wants done.
    pub(crate) fn finish_turn(&mut self, turn: u64, wishes: &mut Wishes) {
        self.settle_held(wishes);
        self.propose_gathered(wishes);
        self.ask_again();
        self.ask_reads();
        while self.raw.has_ready() {
            let ready = self.raw.ready();
            self.take_ready(ready, turn, wishes);
        }
        self.set_timeout(false);
        wishes.wanted = self.log().take_wanted();
        wishes.wanted_images = self.take_wanted_images();
        self.answer_reads(wishes);
        self.hide_lease();
    }

    fn take_ready(&mut self, mut ready: Ready, turn: u64, wishes: &mut Wishes) {
        for read in ready.take_read_states() {
            let Some(number) = read.request_ctx.last_chunk::<8>() else { continue };
            let number = u64::from_be_bytes(*number);
            let is_ours =
                read.request_ctx.first_chunk::<8>() == Some(&self.replica.0.to_be_bytes());
            if let Some(batch) = self.reads.iter_mut().find(|batch| batch.number == number)
                && is_ours
            {
                batch.index = Some(read.index);
                self.unconfirmed_since = None;
            }
        }
        if let Some(soft) = ready.ss() {
            wishes.leads_anew |= soft.raft_state == StateRole::Leader;
        }
        let entries = ready.take_entries();
        let mut must_sync = !entries.is_empty();
        let mut has_voted = false;
        if let Some(hard) = ready.hs() {
            let state = &mut self.raw.mut_store().state;
            has_voted = (hard.term, hard.vote) != (state.term, state.vote);
            (state.term, state.vote, state.commit) = (hard.term, hard.vote, hard.commit);
            must_sync |= has_voted;
        }
        if let Some(last) = entries.iter().filter_map(head_of).map(|(_, s)| s).max() {
            self.last_now_s = self.last_now_s.max(last);
        }
        let is_behind_image = !ready.snapshot().is_empty();
        if is_behind_image {
            must_sync = true;
            self.restore(&ready.snapshot().clone(), wishes);
        }
        if must_sync {
            // A change of members is on disk with the knowledge that the one before it is committed: who started with the one and without the
            // other would ask the members of before (`crates/model`, `CommitIsKeptWithChanges`).
            let is_change = |entry: &Entry| entry.get_entry_type() != EntryType::EntryNormal;
            // That more is committed is said once in a tick: nobody relies on it, and who starts with less hears the rest of its leader. While
            // members change it is said every time, as the model has it.
            let is_told = self.kept.0 == Some(self.ticks)
                && !has_voted
                && !is_behind_image
                && !self.state().configuration.is_joint();
            let is_news = ready.hs().is_some() || self.state().commit > self.kept.1;
            let has_state = is_news && !is_told || entries.iter().any(is_change);
            if has_state {
                self.kept = (Some(self.ticks), self.state().commit);
            }
            let state = has_state.then(|| self.state().clone());
            let entries = self.raw.mut_store().append(entries);
            wishes.appends.push(GroupAppend { state, entries, ..GroupAppend::default() });
        }
        let mut held = ready.take_persisted_messages();
        let free = ready.take_messages();
        self.note_hand_over(held.iter().chain(&free));
        if breaks(Rule::TellVoteBeforeSync) && has_voted {
            wishes.messages.append(&mut held);
            has_voted = false;
        }
        // A term or a vote is told to nobody before it is on disk, whoever leads.
        if has_voted {
            held.extend(free);
        } else {
            wishes.messages.extend(free);
        }
        let committed = ready.take_committed_entries();
        let number = ready.number();
        self.raw.advance_append_async(ready);
        // One without anything to be kept is told after those before it, and waits for nothing else.
        let before = self.unpersisted.back().map(|last| last.turn);
        match if must_sync { Some(turn) } else { before } {
            Some(turn) => {
                self.unpersisted.push_back(Unpersisted { turn, number, messages: held });
            }
            None => {
                self.raw.on_persist_ready(number);
                wishes.messages.extend(held);
            }
        }
        self.hand_over(committed, wishes);
    }

    /// Committed entries, each with who asked for it here.
    fn hand_over(&mut self, entries: Vec<Entry>, wishes: &mut Wishes) {
        for entry in entries {
            let place = EntryPlace { index: entry.index, term: entry.term };
            assert_eq!(entry.index, self.handed_over + 1, "entries are handed over in order");
            self.handed_over = entry.index;
            let mut ticket = None;
            while let Some(front) = self.proposed.front().copied()
                && front.place.index <= place.index
            {
                self.proposed.pop_front();
                match front.place == place || breaks(Rule::AnswerByIndex) {
                    true => ticket = Some(front.ticket),
                    false => wishes.answers.push((front.ticket, Answer::Lost)),
                }
            }
            let (kind, now_s, body) = into_parts(entry).unwrap_or((KIND_EMPTY, 0, Bytes::new()));
            if is_of_set(kind) {
                self.pending.push_back(Pending { place, kind, now_s, body: body.clone() });
            }
            wishes.committed.entries.push((place, kind, now_s, body, ticket));
        }
    }

    /// What was appended lies at these places of the node's log.
    pub(crate) fn placed(&mut self, first: u64, slots: &[Slot]) {
        self.raw.mut_store().placed(first, slots);
    }

    /// The places of the entries that are left; see [`storage::GroupTable`].
    pub(crate) fn table(&self) -> &storage::GroupTable {
        &self.log().table
    }

    /// Old entries were read from the disk.
    pub(crate) fn fetched(&mut self, wanted: Wanted, bodies: Vec<Bytes>) {
        self.raw.mut_store().put_fetched(wanted.low, bodies);
        self.raw.on_entries_fetched(wanted.context);
        self.set_timeout(false);
    }

    /// Up to where every member has the log, as far as a leader knows.
    pub(crate) fn matched_by_all(&self) -> Option<u64> {
        if !self.is_leader() {
            return None;
        }
        let progress = self.raw.raft.prs().iter().map(|(_, progress)| progress.matched);
        progress.min()
    }

    /// Cuts the log up to an entry that is applied; the state that says so is to be appended.
    pub(crate) fn cut_to(&mut self, place: EntryPlace, now_s: u32) -> GroupState {
        assert!(place.index <= self.applied, "what is not applied is not cut");
        let log = self.raw.mut_store();
        log.cut_to(place);
        log.state.now_s = now_s;
        log.state.clone()
    }

    pub(crate) fn commit(&self) -> u64 {
        self.raw.raft.raft_log.committed
    }

    pub(crate) fn term(&self) -> u64 {
        self.raw.raft.term
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    pub(crate) fn silent_ticks(&self) -> u64 {
        self.ticks - self.heard_at
    }

    /// The messages that may leave, for the nodes they are for.
    pub(crate) fn address(&self, message: Message) -> Option<(NodeId, PeerMessage)> {
        let node = self.node_of(ReplicaId(message.to))?;
        PeerMessage::travels(&message).then_some((node, PeerMessage { set: self.set, message }))
    }
}
