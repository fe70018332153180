//! Members compare what they applied.
//!
//! At every so many entries each member notes the sum over everything that its set applied. Then the leader has an entry say which
//! of them is compared, and each member that applies it tells the leader its own. In a set that nobody writes to, that entry is
//! compared itself. One that differs from a strict majority is
//! wrong: it leads no more, takes part in nothing, and keeps its files until it is replaced by a new member, on the same node if
//! that is where the map wants one. Where no majority tells who is right, nobody goes on.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use storage::CommittedEntry;
use storage::broken::{Rule, breaks};
use types::{NodeId, ReplicaId, SetId};

use super::{Host, Input, MemberStatus, NodeMessage};
use crate::group::node_wire::KIND_SUM;

/// The kind of an entry that says which sums are compared: those of the entry with the number in its body, or its own if that is
/// empty.
pub(super) const KIND_COMPARE: u8 = storage::REPLICATION_KINDS_FROM + 2;
/// So many sums are kept of each set.
const KEPT_MAX: usize = 8;
/// A member that takes part in nothing says so every so many ticks: whoever leads by then may not know.
const SAID_TICKS: u64 = 64;
/// By which rules this version sums: those of other versions are not compared.
const SUMS_VERSION: u8 = 1;
/// So long after a table was dropped nothing is compared: the others drop it, too.
const DROPPED_MS: u64 = 20_000;

/// What is known of the sums of one set.
#[derive(Debug, Default)]
struct Sums {
    /// This node's own, by the entry.
    own: BTreeMap<u64, u64>,
    /// Of a leader: what members told, by the entry.
    told: BTreeMap<u64, BTreeMap<ReplicaId, u64>>,
    /// The last entry whose sums were asked for.
    asked: u64,
    /// When this node, leading, last had some compared, or began to.
    compared_ms: Option<u64>,
}

/// The sums of all sets, and which members are not trusted.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    sets: BTreeMap<SetId, Sums>,
    /// Members of this node that are wrong, and at which entry.
    wrong: BTreeMap<SetId, u64>,
    /// Members of others that are.
    strangers: BTreeSet<(SetId, ReplicaId)>,
    /// Sets of which this node's member, when it led, differed from more than it agreed with, and one of those: nobody is known to be
    /// wrong, but its rows are not handed to others, and another one is to lead.
    outnumbered: BTreeMap<SetId, ReplicaId>,
    /// How many tables were dropped here, and when that was last seen to grow.
    drops: u64,
    dropped_ms: Option<u64>,
}

/// Whether an entry asks for the sums at itself.
pub(super) fn compares_itself(entry: &CommittedEntry) -> bool {
    entry.head.kind == KIND_COMPARE && entry.body.is_empty()
}

/// At which entry the sums are compared that an entry asks for, if it does.
pub(super) fn compared_at(entry: &CommittedEntry) -> Option<u64> {
    if compares_itself(entry) {
        return Some(entry.head.index);
    }
    let body = entry.body.first_chunk::<8>().filter(|_| entry.head.kind == KIND_COMPARE);
    body.map(|bytes| u64::from_be_bytes(*bytes))
}

fn keep_newest<T>(map: &mut BTreeMap<u64, T>) {
    while map.len() > KEPT_MAX {
        map.pop_first();
    }
}

/// Who differs, by what members told of one entry: whoever does not say what a strict majority of the voters says. Where all told
/// theirs and there is no such majority, nobody can tell who is right, and all count as wrong.
fn differing(voters: &[ReplicaId], told: &BTreeMap<ReplicaId, u64>) -> Vec<ReplicaId> {
    let counts = |sum: u64| voters.iter().filter(|it| told.get(it) == Some(&sum)).count();
    match told.values().copied().find(|sum| counts(*sum) * 2 > voters.len()) {
        Some(right) => told.iter().filter(|(_, sum)| **sum != right).map(|(it, _)| *it).collect(),
        None if voters.iter().all(|voter| told.contains_key(voter)) => {
            told.keys().copied().collect()
        }
        None => Vec::new(),
    }
}

/// One of those who say what more say than say what the leader says, as far as they told theirs.
fn outnumbering(
    voters: &[ReplicaId],
    told: &BTreeMap<ReplicaId, u64>,
    leader: ReplicaId,
) -> Option<ReplicaId> {
    let own = told.get(&leader)?;
    let who_say = |sum: u64| voters.iter().filter(move |it| told.get(it) == Some(&sum));
    let sums = told.values().copied().filter(|sum| sum != own);
    let most = sums.max_by_key(|sum| who_say(*sum).count())?;
    let are_more = who_say(most).count() > who_say(*own).count();
    who_say(most).next().filter(|_| are_more).copied()
}

impl Comparison {
    /// Whether rows of this node's member are rather not handed to another one, which could not tell then who is right.
    pub(super) fn is_outnumbered(&self, set: SetId) -> bool {
        self.outnumbered.contains_key(&set)
    }

    /// An entry was applied at which sums are noted.
    pub(super) fn note(&mut self, set: SetId, index: u64, sum: u64) {
        let sums = self.sets.entry(set).or_default();
        sums.own.insert(index, sum);
        keep_newest(&mut sums.own);
    }

    /// Whether another node's member is to be replaced, as far as this node knows.
    pub(super) fn is_wrong(&self, set: SetId, replica: ReplicaId) -> bool {
        self.strangers.contains(&(set, replica))
    }

    /// An operator said that the rows of another node's member count: whoever leads here later does not have it replaced.
    pub(super) fn trust(&mut self, set: SetId, replica: ReplicaId) {
        self.strangers.remove(&(set, replica));
    }

    /// Rows were handed over, or the member is gone: what was noted is of another time.
    pub(super) fn forget(&mut self, set: SetId) {
        self.sets.remove(&set);
        self.wrong.remove(&set);
        self.outnumbered.remove(&set);
    }
}

impl Host {
    /// Members of sets led from here that differ from most others, and are to be replaced by new ones.
    pub fn wrong_members(&self) -> Vec<(SetId, ReplicaId)> {
        self.comparison.strangers.iter().copied().collect()
    }

    /// A table is dropped on each node when that hears of it, and takes its part of the sums along: what was noted before says nothing
    /// any more, and what is noted soon after may differ though nobody is wrong.
    fn compares_nothing(&mut self) -> bool {
        let drops = self.storage.drop_count();
        let comparison = &mut self.comparison;
        if std::mem::replace(&mut comparison.drops, drops) != drops {
            comparison.dropped_ms = Some(self.now.ms);
            for sums in comparison.sets.values_mut() {
                sums.own.clear();
                sums.told.clear();
            }
        }
        comparison.dropped_ms.is_some_and(|at_ms| self.now.ms < at_ms + DROPPED_MS)
    }

    /// Whether a leader had nothing compared for so long: a set that is seldom written to would take days to come to the next entry
    /// at which sums are noted. By the steady time: a clock that was put back would keep it from being due.
    pub(super) fn is_comparison_due(&mut self, set: SetId) -> bool {
        let sums = self.comparison.sets.entry(set).or_default();
        let compared_ms = *sums.compared_ms.get_or_insert(self.now.ms);
        let is_due =
            self.now.ms.saturating_sub(compared_ms) >= u64::from(self.options.silent_s) * 1_000;
        if is_due {
            sums.compared_ms = Some(self.now.ms);
        }
        is_due
    }

    /// A leader has the newest sum compared that it noted.
    pub(super) fn propose_comparison(&mut self, set: SetId, now_s: u32) {
        if self.compares_nothing() {
            return;
        }
        let Some(sums) = self.comparison.sets.get_mut(&set) else { return };
        let Some(index) = sums.own.keys().next_back().copied() else { return };
        if index > sums.asked {
            (sums.asked, sums.compared_ms) = (index, Some(self.now.ms));
            let body = Bytes::copy_from_slice(&index.to_be_bytes());
            let (ticket, kind, before) = (None, KIND_COMPARE, Vec::new());
            self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
        }
    }

    /// An entry that asks for the sums at `index` was applied: this member's is told to the leader.
    pub(super) fn compare(&mut self, set: SetId, index: u64) {
        let compares_nothing = self.compares_nothing();
        let Some(sums) = self.comparison.sets.get_mut(&set) else { return };
        sums.asked = sums.asked.max(index);
        let is_overruled = self.core.ask(set, |member| Some(member.is_overruled()));
        if compares_nothing || is_overruled == Some(true) {
            return;
        }
        let sum = sums.own.get(&index).copied();
        let (Some(sum), Some(replica)) = (sum, self.core.replica(set)) else { return };
        match self.core.leader(set) {
            Some(leader) if leader == self.node => {
                self.take_sum(self.node, set, replica, (SUMS_VERSION, index, sum))
            }
            // One of another version sums otherwise.
            Some(leader) if !self.knows(leader, KIND_SUM) => {}
            Some(leader) => {
                let version = SUMS_VERSION;
                self.outbox.push((leader, NodeMessage::Sum { set, replica, version, index, sum }));
            }
            None => {}
        }
    }

    /// A member tells its sum.
    pub(super) fn take_sum(
        &mut self,
        from: NodeId,
        set: SetId,
        replica: ReplicaId,
        (version, index, sum): (u8, u64, u64),
    ) {
        if version != SUMS_VERSION || self.compares_nothing() {
            return;
        }
        let Some(configuration) = self.core.state(set).map(|state| state.configuration.clone())
        else {
            return;
        };
        // Where another version is shown of what all agree on, other tables may be there: a node can be late for long.
        if from != self.node && self.peers.get(&from).is_none_or(|it| it.shown != self.shown) {
            return;
        }
        let is_ours = configuration.node_of(replica) == Some(from) && self.core.leads(set);
        if !is_ours || breaks(Rule::IgnoreDifference) {
            return;
        }
        let sums = self.comparison.sets.entry(set).or_default();
        let told = sums.told.entry(index).or_default();
        told.insert(replica, sum);
        let differing = differing(&configuration.voters, told);
        let own = self.core.replica(set);
        match own.and_then(|own| outnumbering(&configuration.voters, told, own)) {
            // It is decided who is wrong: if it is not this node's member, others get their rows from it.
            _ if !differing.is_empty() => {
                self.comparison.outnumbered.remove(&set);
            }
            Some(other) => {
                self.comparison.outnumbered.insert(set, other);
            }
            None if told.len() >= configuration.voters.len() => {
                self.comparison.outnumbered.remove(&set);
            }
            None => {}
        }
        keep_newest(&mut sums.told);
        for replica in differing {
            tracing::error!(
                set = set.0,
                replica = replica.0,
                index,
                "a member applied something else"
            );
            match configuration.node_of(replica) {
                Some(node) if node == self.node => {
                    self.comparison.wrong.insert(set, index);
                }
                Some(node) => {
                    self.comparison.strangers.insert((set, replica));
                    self.outbox.push((node, NodeMessage::Differs { set, replica, index }));
                }
                None => {}
            }
        }
    }

    /// The leader found that this node's member applied something else than most; or a node says so of its own member, or that it
    /// is frozen for another reason, and whoever leads replaces it.
    pub(super) fn receive_differs(
        &mut self,
        from: NodeId,
        set: SetId,
        replica: ReplicaId,
        index: u64,
    ) {
        if self.core.replica(set) == Some(replica) {
            // Of an entry from before the rows that it was handed nobody can say it any more.
            let is_new = self.core.state(set).is_some_and(|state| index > state.cut.index);
            if is_new && self.core.leader(set) == Some(from) {
                self.comparison.wrong.insert(set, index);
            }
            return;
        }
        let is_its_own =
            |state: &storage::GroupState| state.configuration.node_of(replica) == Some(from);
        if self.core.leads(set) && self.core.state(set).is_some_and(is_its_own) {
            self.comparison.strangers.insert((set, replica));
        }
    }

    /// Members of this node that take part in nothing tell those of their sets.
    pub(super) fn say_frozen(&mut self) {
        if !self.ticks.is_multiple_of(SAID_TICKS) {
            return;
        }
        let is_to_be_said = |it: &MemberStatus| it.frozen.is_some() && self.is_doubt_kept(it.set);
        let frozen: Vec<_> = self.core.status().filter(is_to_be_said).collect();
        for status in frozen {
            let (set, replica, index) = (status.set, status.replica, status.applied);
            let Some(state) = self.core.state(set) else { continue };
            let nodes = state.configuration.nodes.iter().map(|(_, node)| *node);
            // Who leads by now may have come after this one stopped listening.
            let placed = self.places.as_ref().map(|places| places(set).0).unwrap_or_default();
            let mut nodes: BTreeSet<NodeId> = nodes.chain(placed).collect();
            nodes.remove(&self.node);
            let said = nodes.into_iter().map(|node| {
                let differs = NodeMessage::Differs { set, replica, index };
                (node, differs)
            });
            self.outbox.extend(said);
        }
    }

    /// Members that are wrong lead no more, and then take part in nothing. They keep their files.
    pub(super) fn freeze_wrong(&mut self) {
        for (set, index) in self.comparison.wrong.clone() {
            let status = self.core.status_of(set);
            if status.is_none_or(|status| status.frozen.is_some()) {
                continue;
            }
            let voters = self.core.state(set).map(|state| state.configuration.voters.clone());
            let own = self.core.replica(set);
            let strangers = &self.comparison.strangers;
            let is_heir = |it: &ReplicaId| Some(*it) != own && !strangers.contains(&(set, *it));
            let heir = voters.unwrap_or_default().into_iter().find(is_heir);
            match heir {
                Some(heir) if self.core.leads(set) => {
                    self.core.tell(set, |member| member.hand_leadership_to_member(heir));
                }
                _ => self.freeze_for_good(set, index),
            }
        }
        // Not in every tick: while a lead is handed over nothing is proposed, and the other one may be away.
        if self.ticks.is_multiple_of(SAID_TICKS) {
            for (set, other) in self.comparison.outnumbered.clone() {
                self.core.tell(set, |member| member.hand_leadership_to_member(other));
            }
        }
        let core = &self.core;
        self.comparison.outnumbered.retain(|set, _| core.contains(*set));
        self.comparison.strangers.retain(|(set, replica)| {
            let state = core.state(*set);
            state.is_some_and(|state| state.configuration.node_of(*replica).is_some())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_differs_from_most_is_wrong_and_where_there_is_no_most_all_are() {
        type Sums = &'static [(u64, u64)];
        // Of voters 1 to 4, and a learner 5: who told what, and who is wrong.
        let cases: &[(Sums, &[u64])] = &[
            (&[(1, 7), (2, 7), (3, 7), (4, 7)], &[]),
            (&[(1, 7), (2, 7), (3, 7), (4, 8)], &[4]),
            (&[(1, 8), (2, 7), (3, 7), (4, 7)], &[1]),
            (&[(1, 7), (2, 7), (3, 7), (5, 8)], &[5]),
            // One is not heard yet: three of four are enough, two are not.
            (&[(1, 7), (2, 7), (3, 8)], &[]),
            (&[(1, 7), (3, 8)], &[]),
            (&[(1, 7), (2, 7), (5, 7)], &[]),
            // Two against two, with or without one that decides nothing.
            (&[(1, 7), (2, 7), (3, 8), (4, 8)], &[1, 2, 3, 4]),
            (&[(1, 7), (2, 7), (3, 8), (4, 8), (5, 7)], &[1, 2, 3, 4, 5]),
            (&[(1, 7), (2, 7), (3, 8), (4, 9)], &[1, 2, 3, 4]),
        ];
        let voters: Vec<ReplicaId> = (1..=4).map(ReplicaId).collect();
        for (told, wrong) in cases {
            let told = told.iter().map(|(replica, sum)| (ReplicaId(*replica), *sum)).collect();
            let wrong: Vec<ReplicaId> = wrong.iter().map(|it| ReplicaId(*it)).collect();
            assert_eq!(differing(&voters, &told), wrong, "{told:?}");
        }
        // Who of those that outnumber the first one, which leads.
        let cases: &[(Sums, Option<u64>)] = &[
            (&[(1, 7), (2, 8), (3, 8)], Some(2)),
            (&[(1, 7), (3, 8), (4, 8)], Some(3)),
            (&[(1, 7), (2, 7), (3, 8)], None),
            (&[(1, 7), (2, 8)], None),
            (&[(1, 7), (2, 8), (5, 8)], None),
            (&[(2, 8), (3, 8)], None),
        ];
        for (told, other) in cases {
            let told = told.iter().map(|(replica, sum)| (ReplicaId(*replica), *sum)).collect();
            let found = outnumbering(&voters, &told, ReplicaId(1));
            assert_eq!(found, other.map(ReplicaId), "{told:?}");
        }
        let pair = [ReplicaId(1), ReplicaId(2)];
        let told = BTreeMap::from([(ReplicaId(1), 7), (ReplicaId(2), 8)]);
        assert_eq!(differing(&pair, &told), pair);
    }
}
