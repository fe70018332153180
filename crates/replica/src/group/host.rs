//! What surrounds the core on a node: the log that its entries go into, the trees that they are applied to, and those who wait
//! for answers. It has no thread and no socket either: whoever drives it says what came, and sends what is to be sent.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use storage::{
    CommitError, CommitResult, CommittedEntry, EntryHead, GroupAppend, GroupState, RecoveredGroup,
    Request, Storage,
};
use types::{NodeId, SetId};

use super::core::{Core, Input, Outputs};
use super::entries::KIND_EMPTY;
use super::member::{Answer, CommittedEntries, MemberStatus, Settings, Ticket};
use super::wire::PeerMessage;

/// The kind of an entry that asks storage for mutations (`storage/src/entry.rs`).
const KIND_REQUEST: u8 = 4;
/// The kind of an entry that says up to where every member has the log: entries before may go.
const KIND_KNOWN_BY_ALL: u8 = 32;
/// A leader says so when so many entries more are known by all.
const KNOWN_BY_ALL_STEP: u64 = 1024;
/// A leader that proposed nothing for so many seconds says what time it is: what is dead can be cleared then.
const SILENT_S: u32 = 300;

/// What became of a request.
#[derive(Clone, Debug)]
pub enum ProposalAnswer {
    /// It is committed, and was applied here with this outcome.
    Done(CommitResult),
    /// Nothing was done: another node's member leads, as far as is known.
    NotLeader(Option<NodeId>),
    /// Nothing was done, nor will be; it can be asked for again at once.
    Lost,
    /// Nothing was done: too much waits, or the leader is new.
    Busy,
}

/// Who is told what became of something that was asked.
pub enum Asked {
    /// A request.
    Write(Box<dyn FnOnce(ProposalAnswer) + Send>),
    /// A read, with `true` if it may begin.
    Read(Box<dyn FnOnce(bool) + Send>),
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Asked::Write(_) => "Write",
            Asked::Read(_) => "Read",
        })
    }
}

/// What is to be sent.
#[derive(Debug, Default)]
pub struct HostOutputs {
    /// To other nodes.
    pub messages: Vec<(NodeId, PeerMessage)>,
}

/// Turns whose appends became durable, told by the log.
#[derive(Default)]
struct Persisted {
    turns: Vec<u64>,
    /// The log will not write any more.
    has_failed: bool,
}

/// The members of a node with what surrounds them.
pub struct Host {
    storage: Arc<Storage>,
    core: Core,
    inbox: VecDeque<Input>,
    asked: HashMap<Ticket, Asked, FixedState>,
    next_ticket: u64,
    persisted: Arc<Mutex<Persisted>>,
    wake: Arc<dyn Fn() + Send + Sync>,
    /// What the log had no room for, in order.
    stalled: VecDeque<(SetId, GroupAppend)>,
    /// The last turn whose appends are in the log, and not all of whose are known to be durable.
    appended_turn: u64,
    known_by_all: BTreeMap<SetId, u64>,
    last_proposed_s: BTreeMap<SetId, u32>,
    log_bytes_kept: u64,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("core", &self.core).finish_non_exhaustive()
    }
}

impl Host {
    /// Goes on with the members that storage has. `wake` is called, from any thread, when a turn is worth taking; the log is
    /// shortened when more than `log_bytes_kept` of it are kept.
    pub fn open(
        storage: Arc<Storage>,
        settings: Settings,
        seed: u64,
        log_bytes_kept: u64,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Host, String> {
        let mut host = Host {
            core: Core::new(settings, seed),
            inbox: VecDeque::new(),
            asked: HashMap::default(),
            next_ticket: 0,
            persisted: Arc::default(),
            wake,
            stalled: VecDeque::new(),
            appended_turn: 0,
            known_by_all: BTreeMap::new(),
            last_proposed_s: BTreeMap::new(),
            log_bytes_kept,
            storage,
        };
        for recovered in host.storage.recovered_groups() {
            let unapplied = recovered.state.commit + 1..=recovered.table.last().index;
            let slots = unapplied.filter_map(|index| recovered.table.slot(index));
            let bodies: Result<Vec<Bytes>, _> =
                slots.map(|slot| host.storage.read_group_body(&slot)).collect();
            host.core.add(recovered, bodies.map_err(|error| error.to_string())?)?;
        }
        Ok(host)
    }

    /// A set that is new, with its first members; one of them is on this node.
    pub fn begin(&mut self, state: GroupState) -> Result<(), String> {
        self.storage.begin_group(&state).map_err(|error| error.to_string())?;
        self.core.add(RecoveredGroup::new(state), Vec::new())
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

    /// Something came.
    pub fn push(&mut self, input: Input) {
        self.inbox.push_back(input);
    }

    fn ticket(&mut self, asked: Asked) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.asked.insert(ticket, asked);
        ticket
    }

    /// A request for a set that this node's member leads, perhaps.
    pub fn write(
        &mut self,
        set: SetId,
        request: &Request,
        now_s: u32,
        done: Box<dyn FnOnce(ProposalAnswer) + Send>,
    ) {
        if !self.core.leads(set) {
            let leader = self.core.leader(set);
            let is_here = self.core.status_of(set).is_some_and(|it| it.role == super::Role::Leader);
            return done(match is_here {
                true => ProposalAnswer::Busy,
                false => ProposalAnswer::NotLeader(leader),
            });
        }
        let defines = self.storage.validate(&request.mutations);
        let defines = defines.and_then(|()| self.storage.propose_defines(set, &request.mutations));
        match defines {
            Err(error) => done(ProposalAnswer::Done(Err(error))),
            Ok(defines) => {
                for (kind, body) in defines {
                    let (ticket, body) = (None, Bytes::from(body));
                    self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body });
                }
                let ticket = Some(self.ticket(Asked::Write(done)));
                let (kind, body) = (KIND_REQUEST, request.to_bytes());
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body });
                self.last_proposed_s.insert(set, now_s);
            }
        }
    }

    /// Somebody wants to read from this node's member what is committed by now; with `true` it may.
    pub fn read(&mut self, set: SetId, done: Box<dyn FnOnce(bool) + Send>) {
        let ticket = self.ticket(Asked::Read(done));
        self.inbox.push_back(Input::Read { set, ticket });
    }

    /// A tick of the clock.
    pub fn tick(&mut self, now_s: u32) {
        self.inbox.push_back(Input::Tick);
        self.propose_chores(now_s);
        if self.storage.log_kept_bytes() > self.log_bytes_kept {
            self.shorten_log();
        }
    }

    /// What a leader says by itself.
    fn propose_chores(&mut self, now_s: u32) {
        for set in self.core.sets().filter(|set| self.core.leads(*set)).collect::<Vec<_>>() {
            let known = self.known_by_all.get(&set).copied().unwrap_or(0);
            let matched = self.core.matched_by_all(set).unwrap_or(0);
            if matched >= known + KNOWN_BY_ALL_STEP {
                self.known_by_all.insert(set, matched);
                let body = Bytes::copy_from_slice(&matched.to_be_bytes());
                let (ticket, kind) = (None, KIND_KNOWN_BY_ALL);
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body });
            }
            let last_s = self.last_proposed_s.entry(set).or_insert(now_s);
            if now_s.saturating_sub(*last_s) >= SILENT_S {
                *last_s = now_s;
                let (ticket, kind, body) = (None, KIND_EMPTY, Bytes::new());
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body });
            }
        }
    }

    /// Entries that are in sorted files here, and known by all members, go.
    fn shorten_log(&mut self) {
        let flushed = self.storage.flushed_before();
        for set in self.core.sets().collect::<Vec<_>>() {
            let known = self.known_by_all.get(&set).copied().unwrap_or(0);
            let (Some(table), Some(applied)) = (self.core.table(set), self.core.applied(set))
            else {
                continue;
            };
            let Some(place) = table.last_before(flushed, applied.min(known)) else { continue };
            let now_s = self.storage.group_now_s(set);
            if let Some(state) = self.core.cut_to(set, place, now_s) {
                let append = GroupAppend { state: Some(state), entries: Vec::new() };
                self.stalled.push_back((set, append));
            }
        }
    }

    /// Takes turns until nothing is left to do but to wait. Returns what is to be sent.
    pub fn turn(&mut self) -> HostOutputs {
        let mut to_send = HostOutputs::default();
        loop {
            self.take_persisted();
            if self.inbox.is_empty() && self.stalled.is_empty() {
                return to_send;
            }
            let outputs = self.core.turn(self.inbox.drain(..));
            let had_stalled = !self.stalled.is_empty();
            self.follow(outputs, &mut to_send);
            if self.inbox.is_empty() && had_stalled && !self.stalled.is_empty() {
                // The log has no room: later.
                return to_send;
            }
        }
    }

    fn take_persisted(&mut self) {
        let turns = std::mem::take(&mut self.persisted.lock().turns);
        if let Some(last) = turns.into_iter().max() {
            self.inbox.push_back(Input::Persisted(last));
        }
    }

    /// Does what the core wants, in its order.
    fn follow(&mut self, outputs: Outputs, to_send: &mut HostOutputs) {
        for set in &outputs.leads {
            self.storage.forget_proposed(*set);
        }
        self.stalled.extend(outputs.appends);
        self.append(outputs.turn);
        to_send.messages.extend(outputs.messages);
        for (set, committed) in outputs.committed {
            self.apply(set, committed);
        }
        for (ticket, answer) in outputs.answers {
            self.answer(ticket, answer);
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

    /// Puts what is to be kept into the log. What does not fit now comes again with the next turn.
    fn append(&mut self, turn: u64) {
        let has_new = !self.stalled.is_empty();
        while let Some((set, append)) = self.stalled.front() {
            let set = *set;
            match self.storage.append_group(set, append) {
                Ok(slots) => {
                    if let Some(first) = append.entries.first() {
                        let first = first.index;
                        self.core.placed(set, first, &slots);
                    }
                    let needed = self.core.table(set).and_then(|table| table.needed_from());
                    self.storage.set_group_needed(set, needed);
                    self.stalled.pop_front();
                }
                Err(error) => {
                    tracing::debug!(%error, "the log takes nothing now");
                    return;
                }
            }
        }
        if has_new {
            self.appended_turn = turn;
            let (persisted, wake) = (Arc::clone(&self.persisted), Arc::clone(&self.wake));
            let awaited = self.storage.await_durable(Box::new(move |is_durable| {
                let mut persisted = persisted.lock();
                match is_durable {
                    true => persisted.turns.push(turn),
                    false => persisted.has_failed = true,
                }
                drop(persisted);
                wake();
            }));
            if let Err(error) = awaited {
                // Nothing is promised: what was appended is not known to be durable, until a later turn is.
                tracing::debug!(%error, "the log takes nothing now");
            }
        }
    }

    /// Applies what is committed, and answers those who asked for it here.
    fn apply(&mut self, set: SetId, committed: CommittedEntries) {
        let mut entries = Vec::with_capacity(committed.entries.len());
        let mut tickets = Vec::with_capacity(committed.entries.len());
        for (place, kind, now_s, body, ticket) in committed.entries {
            let slot = self.core.table(set).and_then(|table| table.slot(place.index));
            let position = slot.map_or(u64::MAX, |slot| slot.record);
            let (mut kind, mut body) = (kind, body);
            if kind == KIND_KNOWN_BY_ALL {
                if let Some(index) = body.first_chunk::<8>() {
                    let known = self.known_by_all.entry(set).or_insert(0);
                    *known = (*known).max(u64::from_be_bytes(*index));
                }
                (kind, body) = (KIND_EMPTY, Bytes::new());
            }
            let body_bytes = body.len() as u32;
            let (term, index) = (place.term, place.index);
            let head = EntryHead { set, kind, term, index, now_s, body_bytes };
            entries.push(CommittedEntry { head, position, body });
            tickets.push(ticket);
        }
        let Some(last) = entries.last().map(|entry| entry.head.index) else { return };
        let asked = &mut self.asked;
        self.storage.apply_group(&entries, |number, result| {
            let ticket = tickets.get(number).copied().flatten();
            match ticket.and_then(|ticket| asked.remove(&ticket)) {
                Some(Asked::Write(done)) => done(ProposalAnswer::Done(result)),
                Some(Asked::Read(done)) => done(false),
                None => {}
            }
        });
        self.inbox.push_back(Input::Applied { set, index: last });
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer) {
        match (self.asked.remove(&ticket), answer) {
            (Some(Asked::Read(done)), answer) => done(answer == Answer::MayRead),
            (Some(Asked::Write(done)), answer) => done(match answer {
                Answer::NotLeader(leader) => ProposalAnswer::NotLeader(leader),
                Answer::Lost => ProposalAnswer::Lost,
                Answer::Busy | Answer::MayRead => ProposalAnswer::Busy,
            }),
            (None, _) => {}
        }
    }

    /// Whether the log will not write any more: the node must stop.
    pub fn has_failed(&self) -> bool {
        self.persisted.lock().has_failed || self.storage.poisoned().is_some()
    }

    /// Nobody is answered any more, because the node stops.
    pub fn close(&mut self) {
        for (_, asked) in self.asked.drain() {
            match asked {
                Asked::Write(done) => done(ProposalAnswer::Done(Err(CommitError::Closed))),
                Asked::Read(done) => done(false),
            }
        }
    }
}

/// So many bytes of old entries are read from the disk at once.
const FETCHED_BYTES_MAX: usize = 1024 * 1024;
