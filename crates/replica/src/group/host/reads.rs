//! Reads of rows that lie on other nodes, and those that other nodes ask for here; where sets lie that have no member here.

use std::sync::Arc;

use bytes::Bytes;
use storage::CommitError;
use types::{NodeId, SetId};

use super::{Attempt, Host, NodeMessage, ProposalAnswer};
use crate::group::behind::Behind;
use crate::group::driver::is_fresh;
use crate::group::reads::{AskedFor, Going, RowsAnswer, RowsAsked, RowsOutcome};
use crate::group::seats::{Seat, Seats};

/// So many leaders of sets without a member here are remembered; then all are forgotten.
const HINTS_MAX: usize = 65_536;

/// A node that did not answer in time counts as not reached for so long.
const UNREACHED_MS: u64 = 3_000;
/// A member that heard of no leader for so many ticks asks others to see to requests.
const UNLED_TICKS: u64 = 20;

/// Tells the nodes that have the members of a set as this node's map says, those that decide first, and how many of them do.
pub type Places = Arc<dyn Fn(SetId) -> (Vec<NodeId>, usize) + Send + Sync>;

/// A read that this node's member may answer now.
#[derive(Clone, Debug)]
pub struct ServedRead {
    /// Who asked.
    pub from: NodeId,
    /// Its number of the read.
    pub number: u64,
    /// Of which set.
    pub set: SetId,
    /// Of the member that answers.
    pub seat: Seat,
    /// See [`types::travel::decode_read_request`].
    pub body: Bytes,
}

/// A read whose member found out whether it may answer.
pub(super) struct Confirmed {
    read: ServedRead,
    may_read: bool,
}

impl Host {
    /// From now on it is known where sets lie that have no member here.
    pub fn set_places(&mut self, places: Places) {
        self.places = Some(places);
    }

    /// The nodes of a set's members, those that decide first, as far as this node knows, and how many decide.
    pub(super) fn members_of(&self, set: SetId) -> (Vec<NodeId>, usize) {
        let state = self.core.state(set).filter(|state| !state.configuration.voters.is_empty());
        if let Some(state) = state {
            let configuration = &state.configuration;
            let all = configuration.voters.iter().chain(&configuration.learners);
            let nodes = all.filter_map(|replica| configuration.node_of(*replica)).collect();
            return (nodes, configuration.voters.len());
        }
        self.places.as_ref().map(|places| places(set)).unwrap_or_default()
    }

    /// Whom to ask that a set's member leads: this node's member knows, or somebody said so, or it is tried.
    pub(super) fn leader_of(&self, set: SetId, tries: u32) -> Option<NodeId> {
        if let Some(leader) = self.core.leader(set) {
            return Some(leader);
        }
        if self.core.takes_part(set) {
            return None;
        }
        let hint = self.hints.get(&set).copied();
        let is_there = |hint: &NodeId| self.is_alive(*hint) && self.is_connected(*hint);
        if let Some(hint) = hint.filter(is_there) {
            return Some(hint);
        }
        let (nodes, voters) = self.members_of(set);
        let mut alive = nodes;
        alive.truncate(voters);
        if alive.is_empty() {
            // A set that was split off just now, which the map does not know yet.
            alive.extend(self.peers.keys());
        }
        // This node's own, if it has one, takes part in nothing.
        alive.retain(|it| *it != self.node && self.is_alive(*it) && self.is_connected(*it));
        let count = u32::try_from(alive.len()).unwrap_or(1).max(1);
        alive.get((tries % count) as usize).copied()
    }

    /// A node that was asked said who leads.
    pub(super) fn note_leader(&mut self, set: SetId, leader: Option<NodeId>) {
        match leader {
            _ if self.core.takes_part(set) => {
                self.hints.remove(&set);
            }
            Some(leader) => {
                if self.hints.len() >= HINTS_MAX {
                    self.hints.clear();
                }
                self.hints.insert(set, leader);
            }
            None => {
                self.hints.remove(&set);
            }
        }
    }

    /// Sends a request of this node to whoever leads its set.
    pub(super) fn attempt(&mut self, number: u64) {
        let Some((set, tries)) = self.requests.waiting(number) else { return };
        let known = self.leader_of(set, tries);
        let is_cut_off = self.is_cut_off(set, known);
        // What is said to a node whose connection broke is lost.
        let leader = known.filter(|leader| self.is_connected(*leader));
        if is_cut_off
            && let Some(node) = self.relay_of(set, known, tries)
            && let Some((set, body)) = self.requests.relay(number, node, leader, self.now.ms)
        {
            self.outbox.push((node, NodeMessage::Relay { number, set, body }));
            return;
        }
        match self.requests.attempt(number, self.node, leader, self.now.ms) {
            Attempt::Waits => {}
            Attempt::Here { number, set, request, body } => {
                self.propose(set, (*request, body), self.node, number);
            }
            Attempt::There { node, number, set, body } => {
                self.forwarded += u64::from(tries == 0);
                self.requests.note_commit(number, self.core.commit(set));
                self.outbox.push((node, NodeMessage::Request { number, set, body }));
            }
        }
    }

    /// Whether requests for a set do not reach who leads it, or nobody who leads it is heard of though others may hear of one.
    fn is_cut_off(&self, set: SetId, leader: Option<NodeId>) -> bool {
        let is_silent = || self.core.silent_ticks(set).is_some_and(|ticks| ticks > UNLED_TICKS);
        match leader {
            Some(leader) if leader == self.node => false,
            Some(leader) if self.is_connected(leader) => {
                let until_ms = self.unreached.get(&leader);
                until_ms.is_some_and(|until_ms| *until_ms > self.now.ms)
            }
            Some(_) | None => is_silent(),
        }
    }

    /// Who may reach the leader of a set that this node does not reach.
    fn relay_of(&self, set: SetId, leader: Option<NodeId>, tries: u32) -> Option<NodeId> {
        let (mut nodes, voters) = self.members_of(set);
        nodes.truncate(voters);
        nodes.retain(|node| {
            let is_reached = !self.unreached.contains_key(node) && self.is_alive(*node);
            let is_reached = is_reached && self.is_connected(*node);
            *node != self.node && Some(*node) != leader && is_reached
        });
        let count = u32::try_from(nodes.len()).unwrap_or(1).max(1);
        nodes.get((tries % count) as usize).copied()
    }

    /// Nodes that do not answer are not asked for a while, where others can be asked in their place.
    pub(super) fn note_silent(&mut self) {
        let until_ms = self.now.ms + UNREACHED_MS;
        for node in self.requests.silent_nodes(self.now.ms) {
            self.unreached.insert(node, until_ms);
        }
        let now_ms = self.now.ms;
        self.unreached.retain(|_, until_ms| *until_ms > now_ms);
    }

    /// What became of a request of this node.
    pub(super) fn receive_answer(&mut self, from: NodeId, number: u64, answer: ProposalAnswer) {
        self.unreached.remove(&from);
        // Who is said to lead and cannot be asked is no help.
        let answer = match answer {
            ProposalAnswer::NotLeader(Some(leader)) if !self.is_connected(leader) => {
                ProposalAnswer::NotLeader(None)
            }
            answer => answer,
        };
        if let (Some((set, _)), ProposalAnswer::NotLeader(leader)) =
            (self.requests.waiting(number), &answer)
        {
            self.note_leader(set, *leader);
        }
        if matches!(answer, ProposalAnswer::Done(Err(CommitError::Moved)))
            && let Some(next) = self.relocated(number)
        {
            // Nothing was done. The map may not know of a split yet.
            if self.requests.move_to(number, next, self.now.ms) {
                self.attempt(number);
            }
            return;
        }
        if let (Some((set, _)), ProposalAnswer::Done(Ok(_))) =
            (self.requests.waiting(number), &answer)
            && from != self.node
            && self.core.takes_part(set)
        {
            self.requests.note_done(number);
        }
        if self.requests.answer(from, number, answer, self.now.ms) {
            self.attempt(number);
        }
    }

    /// The set that has all keys of a request by now, as far as this node knows; `None` if there is not one.
    fn relocated(&self, number: u64) -> Option<SetId> {
        let request = self.requests.request(number)?;
        if request.truncates.is_some() || request.splits.is_some() || request.step.is_some() {
            return None;
        }
        let mut sets = request.mutations.iter().map(|it| self.locate(it.table, it.key.ring()));
        let first = sets.next()??;
        sets.all(|set| set == Some(first)).then_some(first)
    }

    /// Asks members on other nodes for rows, until a part of them came or the time is up. This node's own is asked if it has one by then.
    /// Returns its number, where it is tried at all.
    pub fn read_elsewhere(&mut self, asked: RowsAsked) -> Option<u64> {
        let (required, alive) = match asked.is_strong {
            true => self.alive(asked.set),
            false => (1, self.readers_of(asked.set).len()),
        };
        if alive < required {
            (asked.done)(RowsOutcome::Unavailable { required, alive });
            return None;
        }
        let number = self.reads.add(asked);
        self.forwarded += 1;
        self.attempt_read(number);
        Some(number)
    }

    /// The nodes that can be asked for rows: those that are alive, the leader first.
    pub(super) fn readers_of(&self, set: SetId) -> Vec<NodeId> {
        let (mut nodes, _) = self.members_of(set);
        let own = self.node;
        nodes.retain(|node| self.is_alive(*node) && (*node != own || self.core.contains(set)));
        let leader = self.core.leader(set).or_else(|| self.hints.get(&set).copied());
        let is_silent = |node| self.unreached.contains_key(&node) || !self.is_connected(node);
        nodes.sort_by_key(|node| (is_silent(*node), leader != Some(*node)));
        nodes
    }

    pub(super) fn attempt_read(&mut self, number: u64) {
        let Some(set) = self.reads.set_of(number) else { return };
        let members = match self.reads.is_look(number) {
            true => self.lookers_of(set),
            false => self.readers_of(set),
        };
        let Some(going) = self.reads.attempt(number, &members, self.now.ms) else { return };
        let Going { node, set, asked_for } = going;
        match (asked_for, node == self.node) {
            (AskedFor::Rows { is_strong, body }, true) => {
                self.serve(node, number, set, is_strong, body);
            }
            (AskedFor::Rows { is_strong, body }, false) => {
                self.outbox.push((node, NodeMessage::Read { number, set, is_strong, body }));
            }
            (AskedFor::Look { rings, body }, true) => {
                self.serve_look((node, number), set, rings, body);
            }
            (AskedFor::Look { rings, body }, false) => {
                self.outbox.push((node, NodeMessage::Look { number, set, rings, body }));
            }
        }
    }

    /// A node, this one too, wants rows of this node's member.
    pub(super) fn serve(
        &mut self,
        from: NodeId,
        number: u64,
        set: SetId,
        is_strong: bool,
        body: Bytes,
    ) {
        let status = self.core.status_of(set);
        let status = status.filter(|it| it.is_whole && it.frozen.is_none());
        let Some((status, seat)) = status.zip(self.seats.of(set)) else {
            return self.answer_rows(from, number, RowsAnswer::NotHere(self.core.leader(set)));
        };
        let read = ServedRead { from, number, set, seat, body };
        if is_strong {
            let confirmed = Arc::clone(&self.confirmed);
            let done = move |may_read| confirmed.lock().push(Confirmed { read, may_read });
            return self.read(set, Box::new(done));
        }
        match is_fresh(&status) {
            true => self.served.push(read),
            false => self.answer_rows(from, number, RowsAnswer::NotHere(None)),
        }
    }

    /// Reads that were waited for may be answered, or not.
    pub(super) fn take_confirmed(&mut self) {
        let confirmed = std::mem::take(&mut *self.confirmed.lock());
        for Confirmed { read, may_read } in confirmed {
            match may_read {
                true => self.served.push(read),
                false => {
                    let leader = self.core.leader(read.set);
                    self.answer_rows(read.from, read.number, RowsAnswer::NotHere(leader));
                }
            }
        }
    }

    /// What this node's members may read now for those who asked. Whoever reads says so with [`Host::answer_rows`], or sends it by itself.
    pub fn take_reads(&mut self) -> Vec<ServedRead> {
        std::mem::take(&mut self.served)
    }

    /// A read was answered here.
    pub fn answer_rows(&mut self, to: NodeId, number: u64, answer: RowsAnswer) {
        match to == self.node {
            true => self.receive_rows(to, number, answer),
            false => self.outbox.push((to, NodeMessage::Rows { number, answer })),
        }
    }

    /// A node answered a read of this one.
    pub(super) fn receive_rows(&mut self, from: NodeId, number: u64, answer: RowsAnswer) {
        if let (Some(set), RowsAnswer::NotHere(leader)) = (self.reads.set_of(number), &answer) {
            self.note_leader(set, *leader);
        }
        // Each is asked once before there is a pause: two that name each other do not go on for ever.
        if self.reads.answer(from, number, answer) {
            self.attempt_read(number);
        }
    }

    /// Whether rows are still those of one member: for whoever reads.
    pub fn seats(&self) -> &Seats {
        &self.seats
    }

    /// Weak reads go on of sets in which this node's member applied what they wait for. While the log takes nothing nobody waits.
    pub(super) fn settle_behind(&mut self) {
        // Whoever does not wait for room in the log does not know whether it stalls: the members' own thread looks next.
        let is_stalled = self.waits_for_log && self.is_stalled();
        let known = |set| match is_stalled {
            true => None,
            // One that is frozen applies nothing more: nobody waits for it.
            false if !self.core.takes_part(set) => None,
            false => Some((self.core.commit(set)?, self.core.applied(set)?)),
        };
        self.requests.behind.settle(&self.requests.touched, known);
        self.requests.touched.clear();
    }

    pub(crate) fn behind(&self) -> &Behind {
        &self.requests.behind
    }

    /// How many requests were handed to other nodes, since this one runs.
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }
}
