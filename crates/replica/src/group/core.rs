//! All members of a node: `turn(inputs) → outputs`, and nothing else. No thread, clock, disk or socket is in here, so that a
//! run can be told again from its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use slog::{Discard, Logger, o};
use storage::{Doubt, EntryPlace, GroupAppend, GroupState, GroupTable, RecoveredGroup, Slot};
use types::{NodeId, ReplicaId, SetId};

use super::entries::Wanted;
use super::leases::Leases;
use super::member::{
    Answer, CommittedEntries, Member, MemberStatus, Pending, Proposal, Settings, Ticket, Wishes,
};
use super::rests::{Beat, Rests};
use super::wire::{PeerMessage, in_parts};

/// Xorshift, seeded: chance that can be told again.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }
}

/// What happens to the members of a node.
#[derive(Debug)]
pub enum Input {
    /// A tick of the clock passed.
    Tick,
    /// Another node sent something.
    Message {
        /// Which.
        from: NodeId,
        /// What.
        message: PeerMessage,
    },
    /// Another node's members lead, or answer that they heard this node's: what is quiet in all of their sets.
    Beats {
        /// Which.
        from: NodeId,
        /// One for each set.
        beats: Vec<Beat>,
        /// Whether they answer.
        are_answers: bool,
    },
    /// Somebody wants an entry in the log of a set.
    Propose {
        /// Which set.
        set: SetId,
        /// Who is answered; nobody for what must stand before another proposal.
        ticket: Option<Ticket>,
        /// What kind of entry.
        kind: u8,
        /// The second of the proposer's clock.
        now_s: u32,
        /// The entry.
        body: Bytes,
        /// Kinds and bodies of entries that must stand before it: all of them or none.
        before: Vec<(u8, Bytes)>,
    },
    /// Somebody wants to read what is committed by now.
    Read {
        /// Of which set.
        set: SetId,
        /// Who is answered.
        ticket: Ticket,
    },
    /// What the turn of that number appended, and everything before it, is on disk.
    Persisted(u64),
    /// Entries of a set were applied, up to this one.
    Applied {
        /// Which set.
        set: SetId,
        /// The last.
        index: u64,
    },
    /// This node's member of a set is to lead it, if others let it.
    Campaign(SetId),
    /// A member was told something between turns: what follows from it does not wait for the next tick.
    Look(SetId),
    /// An image is in the trees, up to this entry.
    Installed {
        /// Of which set.
        set: SetId,
        /// The last.
        index: u64,
    },
}

/// What the members of a node want done, in this order: append, send, apply, answer.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The turn's number. When everything in `appends` is on disk, [`Input::Persisted`] says so with it.
    pub turn: u64,
    /// What goes into the log of the node.
    pub appends: Vec<(SetId, GroupAppend)>,
    /// What may leave at once.
    pub messages: Vec<(NodeId, PeerMessage)>,
    /// That this node's members lead, for each node.
    pub beats: Vec<(NodeId, Vec<Beat>)>,
    /// That they heard of their leaders, for each node.
    pub heard: Vec<(NodeId, Vec<Beat>)>,
    /// Beats that were for no member here: with where they came from.
    pub unheard: Vec<(NodeId, PeerMessage)>,
    /// What is to be applied; each set's in the order in which it comes.
    pub committed: Vec<(SetId, CommittedEntries)>,
    /// What became of proposals and reads.
    pub answers: Vec<(Ticket, Answer)>,
    /// Sets that this node leads since now.
    pub leads: Vec<SetId>,
    /// Sets that a member's panic took out of service, and why.
    pub frozen: Vec<(SetId, String)>,
    /// Members of other nodes that need the rows themselves.
    pub images_wanted: Vec<(SetId, ReplicaId)>,
    /// Sets of which more is known to be committed than is applied.
    pub behind: Vec<SetId>,
    /// Sets of which other members are known now.
    pub reconfigured: Vec<SetId>,
    /// Sets that this node's member does not belong to any more.
    pub left: Vec<SetId>,
    /// Members that do not belong to their sets any more, and where they were.
    pub removed: Vec<(NodeId, SetId, ReplicaId)>,
    pub(crate) wanted: Vec<(SetId, Wanted)>,
}

/// The members of a node.
pub struct Core {
    settings: Settings,
    seed: u64,
    members: BTreeMap<SetId, Member>,
    /// Those of them that do not rest.
    awake: BTreeSet<SetId>,
    rests: Rests,
    leases: Leases,
    now_ms: u64,
    ticks: u64,
    touched: BTreeSet<SetId>,
    /// Sets with a lease that is not shown.
    hidden: BTreeSet<SetId>,
    turn: u64,
    logger: Logger,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("members", &self.members.len()).finish_non_exhaustive()
    }
}

impl Core {
    /// A node without members. All chance follows from the seed.
    pub fn new(settings: Settings, seed: u64) -> Core {
        // What the library says to itself is of no use to people.
        let logger = Logger::root(Discard, o!());
        Core {
            settings,
            seed,
            members: BTreeMap::new(),
            awake: BTreeSet::new(),
            rests: Rests::default(),
            leases: Leases::default(),
            now_ms: 0,
            ticks: 0,
            touched: BTreeSet::new(),
            hidden: BTreeSet::new(),
            turn: 0,
            logger,
        }
    }

    /// A member begins, or goes on: `bodies` are those of its last entries.
    pub fn add(&mut self, recovered: RecoveredGroup, bodies: Vec<Bytes>) -> Result<(), String> {
        let set = recovered.state.set;
        let random = Random::new(self.seed ^ u64::from(set.0) << 32 ^ recovered.state.replica.0);
        let made = catch_unwind(AssertUnwindSafe(|| {
            Member::new(recovered, bodies, self.settings, random, &self.logger)
        }));
        let member = made.map_err(|_| "the library panicked".to_owned())?;
        let mut member = member.map_err(|error| error.to_string())?;
        member.lease = self.leases.begin(set);
        self.rests.end(set);
        self.awake.insert(set);
        self.members.insert(set, member);
        Ok(())
    }

    /// What entries say of a set that are committed and not in a member's state comes into force. Returns whether the member
    /// still belongs to its set, and what was split off.
    pub(crate) fn catch_up(
        &mut self,
        set: SetId,
        entries: Vec<Pending>,
    ) -> (bool, Vec<GroupAppend>) {
        let mut caught_up = (true, Vec::new());
        self.with(set, &mut Outputs::default(), |member, _| caught_up = member.catch_up(entries));
        caught_up
    }

    /// The leases of the members, for those who read.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// The node's steady clock: told before the inputs of a turn.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// The number of this node's member of a set.
    pub fn replica(&self, set: SetId) -> Option<ReplicaId> {
        self.members.get(&set).map(|member| member.replica)
    }

    /// A member goes. Returns who waits for it and was not answered: those whom nothing was done for, and those of whom
    /// nobody knows.
    pub(crate) fn remove(&mut self, set: SetId) -> (Vec<Ticket>, Vec<Ticket>) {
        self.touched.remove(&set);
        self.rests.end(set);
        self.awake.remove(&set);
        self.leases.end(set);
        let member = self.members.remove(&set);
        member.map(|member| (member.waiting(), member.proposed())).unwrap_or_default()
    }

    /// Has a member do something that is not part of a turn.
    pub(crate) fn tell(&mut self, set: SetId, work: impl FnOnce(&mut Member)) {
        self.with(set, &mut Outputs::default(), |member, _| work(member));
    }

    /// Asks a member something.
    pub(crate) fn ask<T>(&self, set: SetId, ask: impl FnOnce(&Member) -> Option<T>) -> Option<T> {
        self.members.get(&set).filter(|member| member.frozen.is_none()).and_then(ask)
    }

    /// A member takes part in nothing any more.
    pub(crate) fn freeze(&mut self, set: SetId, why: &str) {
        self.wake(set, self.ticks);
        if let Some(member) = self.members.get_mut(&set) {
            tracing::error!(set = set.0, %why, "a member of a replica set is frozen");
            member.frozen = Some(why.to_owned());
            member.lease.set(0);
        }
    }

    /// Whether the rows of a member count; returns the state that is to be kept.
    pub(crate) fn set_doubt(&mut self, set: SetId, doubt: Option<Doubt>) -> Option<GroupState> {
        self.members.get_mut(&set).map(|member| member.set_doubt(doubt))
    }

    /// The number of the turn that comes next.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turn + 1
    }

    /// Whether this node has a member of a set.
    pub fn contains(&self, set: SetId) -> bool {
        self.members.contains_key(&set)
    }

    /// Whether it has one that is not frozen: others answer nobody.
    pub(crate) fn takes_part(&self, set: SetId) -> bool {
        self.members.get(&set).is_some_and(|member| member.frozen.is_none())
    }

    /// Behind which entry a member goes on, frozen or not, while its image is on its way into the trees.
    pub(crate) fn installing(&self, set: SetId) -> Option<EntryPlace> {
        self.members.get(&set).and_then(Member::installing)
    }

    /// Whether a member goes on behind an image that is not in the trees, nor will be before the next start.
    pub(crate) fn could_not_install(&self, set: SetId) -> bool {
        self.members.get(&set).is_some_and(|it| it.frozen.is_some() && it.installing().is_some())
    }

    /// The image of a member that is frozen is in the trees.
    pub(crate) fn forget_installing(&mut self, set: SetId) {
        if let Some(member) = self.members.get_mut(&set) {
            member.forget_installing();
        }
    }

    /// Whether this node's member leads its set, and is ready to propose.
    pub fn leads(&self, set: SetId) -> bool {
        self.members.get(&set).is_some_and(Member::is_ready_to_lead)
    }

    /// Who leads a set, as far as this node's member knows. One that is frozen hears of nobody any more.
    pub fn leader(&self, set: SetId) -> Option<NodeId> {
        self.ask(set, Member::leader)
    }

    /// How the members are.
    pub fn status(&self) -> impl Iterator<Item = MemberStatus> {
        self.members.keys().filter_map(|set| self.status_of(*set))
    }

    /// How one member is.
    pub fn status_of(&self, set: SetId) -> Option<MemberStatus> {
        let status = self.members.get(&set).map(Member::status)?;
        let silent_ticks = self.rests.silent_ticks(set, self.ticks).unwrap_or(status.silent_ticks);
        Some(MemberStatus { silent_ticks, ..status })
    }

    /// Ticks since a set's leader was heard of here.
    pub fn silent_ticks(&self, set: SetId) -> Option<u64> {
        let resting = self.rests.silent_ticks(set, self.ticks);
        resting.or_else(|| self.members.get(&set).map(Member::silent_ticks))
    }

    /// In which term a member is.
    pub(crate) fn term(&self, set: SetId) -> Option<u64> {
        self.members.get(&set).map(Member::term)
    }

    /// What is known of a member beside its entries.
    pub fn state(&self, set: SetId) -> Option<&GroupState> {
        self.members.get(&set).map(Member::state)
    }

    /// All sets with a member here.
    pub fn sets(&self) -> impl Iterator<Item = SetId> {
        self.members.keys().copied()
    }

    /// Sets with a member here that does not rest.
    pub fn awake_sets(&self) -> impl Iterator<Item = SetId> {
        self.awake.iter().copied()
    }

    pub(crate) fn table(&self, set: SetId) -> Option<&GroupTable> {
        self.members.get(&set).map(Member::table)
    }

    pub(crate) fn applied(&self, set: SetId) -> Option<u64> {
        self.members.get(&set).map(Member::applied)
    }

    /// Up to which entry a member knows its set to be committed.
    pub(crate) fn commit(&self, set: SetId) -> Option<u64> {
        self.members.get(&set).map(Member::commit)
    }

    pub(crate) fn matched_by_all(&self, set: SetId) -> Option<u64> {
        self.members.get(&set).and_then(Member::matched_by_all)
    }

    pub(crate) fn placed(&mut self, set: SetId, first: u64, slots: &[Slot]) {
        if let Some(member) = self.members.get_mut(&set) {
            member.placed(first, slots);
        }
    }

    pub(crate) fn cut_to(
        &mut self,
        set: SetId,
        place: EntryPlace,
        now_s: u32,
    ) -> Option<GroupState> {
        self.members.get_mut(&set).map(|member| member.cut_to(place, now_s))
    }

    pub(crate) fn fetched(&mut self, set: SetId, wanted: Wanted, bodies: Vec<Bytes>) {
        self.with(set, &mut Outputs::default(), |member, _| member.fetched(wanted, bodies));
    }

    /// Asks a member of another node to lead.
    pub fn hand_leadership(&mut self, set: SetId, to: NodeId) {
        self.with(set, &mut Outputs::default(), |member, _| member.hand_leadership_to(to));
    }

    /// One turn: everything that happened, then everything that is wanted.
    pub fn turn(&mut self, inputs: impl IntoIterator<Item = Input>) -> Outputs {
        self.turn += 1;
        let mut outputs = Outputs { turn: self.turn, ..Outputs::default() };
        for input in inputs {
            self.take(input, &mut outputs);
        }
        let turn = self.turn;
        for set in std::mem::take(&mut self.touched) {
            self.with(set, &mut outputs, |member, wishes| member.finish_turn(turn, wishes));
            let Some(member) = self.members.get(&set) else { continue };
            if member.applied() < member.commit() {
                outputs.behind.push(set);
            }
            if member.hides_lease() {
                self.hidden.insert(set);
            }
        }
        self.touched.clear();
        outputs
    }

    /// When everything was done that turns wanted, and before anything of it is sent: leases that may be shown again are.
    pub(crate) fn show_leases(&mut self) {
        for set in std::mem::take(&mut self.hidden) {
            self.members.get_mut(&set).into_iter().for_each(Member::show_lease);
        }
    }

    fn take(&mut self, input: Input, outputs: &mut Outputs) {
        match input {
            Input::Tick => self.tick(outputs),
            Input::Beats { from, beats, are_answers } => {
                for beat in beats {
                    self.hear(from, &beat, are_answers, outputs);
                }
            }
            Input::Message { from, message } => {
                let set = message.set;
                self.with(set, outputs, |member, wishes| {
                    member.step(from, message.message, wishes)
                });
            }
            Input::Propose { set, ticket, kind, now_s, body, before } => {
                if !self.takes_part(set) {
                    let answer = |ticket| (ticket, Answer::NotLeader(None));
                    outputs.answers.extend(ticket.map(answer));
                }
                let proposal = Proposal { ticket, kind, now_s, body, before };
                self.with(set, outputs, |member, wishes| member.propose(proposal, wishes));
            }
            Input::Read { set, ticket } => {
                if !self.takes_part(set) {
                    outputs.answers.push((ticket, Answer::NotLeader(None)));
                }
                self.with(set, outputs, |member, wishes| member.read(ticket, wishes));
            }
            Input::Persisted(turn) => {
                // Who rests has nothing that is not on disk.
                let awaits = |set: &SetId| self.members.get(set).is_some_and(|it| it.awaits(turn));
                for set in self.awake.iter().copied().filter(awaits).collect::<Vec<_>>() {
                    self.with(set, outputs, |member, wishes| member.persisted(turn, wishes));
                }
            }
            Input::Applied { set, index } => {
                self.with(set, outputs, |member, wishes| member.note_applied(index, wishes));
            }
            Input::Campaign(set) => self.with(set, outputs, |member, _| member.campaign()),
            Input::Look(set) => self.with(set, outputs, |_, _| ()),
            Input::Installed { set, index } => {
                self.with(set, outputs, |member, wishes| member.installed(index, wishes));
            }
        }
    }

    fn tick(&mut self, outputs: &mut Outputs) {
        self.ticks += 1;
        let tick = self.ticks;
        for set in self.rests.due(tick, self.settings.election_ticks as u64) {
            self.wake(set, tick - 1);
        }
        for set in self.awake.iter().copied().collect::<Vec<_>>() {
            let member = self.members.get_mut(&set);
            if let Some(rest) = member.and_then(|member| member.begin_rest(tick)) {
                self.rests.begin(set, rest);
                self.awake.remove(&set);
                continue;
            }
            self.with(set, outputs, |member, _| member.tick());
        }
        if tick.is_multiple_of(self.settings.heartbeat_ticks as u64) {
            self.rests.beat(&mut outputs.beats);
        }
    }

    /// A beat of another node's member, for one that rests or not.
    fn hear(&mut self, from: NodeId, beat: &Beat, is_answer: bool, outputs: &mut Outputs) {
        let is_heard = match is_answer {
            true => self.rests.hear_answer(from, beat),
            false => self.rests.hear(from, beat, self.ticks, &mut outputs.heard),
        };
        if is_heard {
            return;
        }
        let message = beat.message(is_answer);
        if self.replica(beat.set) == Some(beat.to) {
            self.take(Input::Message { from, message }, outputs);
        } else {
            outputs.unheard.push((from, message));
        }
    }

    /// A member rests no more; it has counted up to a tick.
    fn wake(&mut self, set: SetId, tick: u64) {
        if let Some(rest) = self.rests.end(set) {
            self.awake.insert(set);
            if let Some(member) = self.members.get_mut(&set) {
                member.wake(&rest, tick);
            }
        }
    }

    /// Has a member do something. A panic, of the library or of ours, takes the member out of service and not the process.
    fn with(
        &mut self,
        set: SetId,
        outputs: &mut Outputs,
        work: impl FnOnce(&mut Member, &mut Wishes),
    ) {
        self.wake(set, self.ticks);
        let Some(member) = self.members.get_mut(&set) else { return };
        if member.frozen.is_some() {
            return;
        }
        member.now_ms = self.now_ms;
        let mut wishes = Wishes::default();
        let done = catch_unwind(AssertUnwindSafe(|| work(member, &mut wishes)));
        if let Err(panic) = done {
            let why = panic.downcast_ref::<String>().cloned();
            let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
            let why = why.unwrap_or_else(|| "a panic without words".to_owned());
            tracing::error!(set = set.0, %why, "a bug: a member of a replica set is frozen");
            member.frozen = Some(why.clone());
            member.lease.set(0);
            outputs.frozen.push((set, why));
            return;
        }
        self.touched.insert(set);
        if wishes.are_none() {
            return;
        }
        outputs.appends.extend(wishes.appends.into_iter().map(|append| (set, append)));
        let bytes_max = self.settings.message_bytes_max;
        let parts = wishes.messages.into_iter().flat_map(|message| in_parts(message, bytes_max));
        let addressed = parts.filter_map(|message| member.address(message));
        outputs.messages.extend(addressed);
        if !wishes.committed.entries.is_empty() {
            outputs.committed.push((set, wishes.committed));
        }
        outputs.answers.extend(wishes.answers);
        outputs.wanted.extend(wishes.wanted.map(|wanted| (set, wanted)));
        if wishes.leads_anew {
            outputs.leads.push(set);
        }
        if wishes.is_reconfigured {
            outputs.reconfigured.push(set);
        }
        if wishes.is_removed {
            outputs.left.push(set);
        }
        let wanted = wishes.wanted_images.into_iter();
        outputs.images_wanted.extend(wanted.map(|to| (set, ReplicaId(to))));
        let removed = wishes.removed.into_iter();
        outputs.removed.extend(removed.map(|(replica, node)| (node, set, replica)));
    }
}
