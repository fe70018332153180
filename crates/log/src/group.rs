//! What the log keeps of replica sets with several members (see `docs/formats/log.md`).
//!
//! The log of such a set is written by whoever leads it, so its end may have to be taken back: an entry with an index that is
//! there already, and another term, takes the place of that one and of everything behind it. The same index with
//! the same term is a copy, which was made so that older segments could go: it only moves the place where
//! the entry is read.

use std::collections::VecDeque;

use types::{NodeId, ReplicaId, RingRange, RingToken, SetId};

use crate::broken::{Rule, breaks};
use crate::frame::Position;

/// A set has at most so many members, those that come and go included.
pub const MEMBERS_MAX: usize = 32;

/// Where an entry stands in the log of its set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryPlace {
    pub index: u64,
    pub term: u64,
}

/// Who belongs to a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The entry that brought it into force.
    pub index: u64,
    pub voters: Vec<ReplicaId>,
    /// The voters of the configuration before, while both decide.
    pub outgoing: Vec<ReplicaId>,
    pub learners: Vec<ReplicaId>,
    /// Voters that become learners when the configuration before is left.
    pub learners_next: Vec<ReplicaId>,
    /// Where each of them is.
    pub nodes: Vec<(ReplicaId, NodeId)>,
    /// The highest number that a member of the set ever had. Numbers are never used again: one that is not above it and is no
    /// member is one that was taken away.
    pub highest: ReplicaId,
}

impl Configuration {
    /// A configuration of voters alone.
    pub fn of_voters(members: impl IntoIterator<Item = (ReplicaId, NodeId)>) -> Configuration {
        let nodes: Vec<(ReplicaId, NodeId)> = members.into_iter().collect();
        let voters = nodes.iter().map(|(replica, _)| *replica).collect();
        let highest = nodes.iter().map(|(replica, _)| *replica).max().unwrap_or_default();
        Configuration { voters, nodes, highest, ..Configuration::default() }
    }

    /// A configuration whose first `voters` members decide; the others follow.
    pub fn of_members(
        members: impl IntoIterator<Item = (ReplicaId, NodeId)>,
        voters: usize,
    ) -> Configuration {
        let mut configuration = Configuration::of_voters(members);
        let voters = voters.min(configuration.voters.len());
        configuration.learners = configuration.voters.split_off(voters);
        configuration
    }

    /// The highest number that is known to have been given to a member.
    pub fn highest(&self) -> ReplicaId {
        self.nodes.iter().map(|(replica, _)| *replica).fold(self.highest, ReplicaId::max)
    }

    /// Whether both this configuration and the one before it decide.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The node that a member is on.
    pub fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.nodes.iter().find(|(known, _)| *known == replica).map(|(_, node)| *node)
    }

    /// The member that a node has, the newest if there are several.
    pub fn replica_on(&self, node: NodeId) -> Option<ReplicaId> {
        let on_node = self.nodes.iter().filter(|(_, known)| *known == node);
        on_node.map(|(replica, _)| *replica).max()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.index.to_be_bytes());
        for members in [&self.voters, &self.outgoing, &self.learners, &self.learners_next] {
            assert!(members.len() <= MEMBERS_MAX, "members are bounded where they are proposed");
            out.push(members.len() as u8);
            members.iter().for_each(|member| out.extend_from_slice(&member.0.to_be_bytes()));
        }
        assert!(self.nodes.len() <= MEMBERS_MAX, "members are bounded where they are proposed");
        out.push(self.nodes.len() as u8);
        for (replica, node) in &self.nodes {
            out.extend_from_slice(&replica.0.to_be_bytes());
            out.extend_from_slice(&node.0.to_be_bytes());
        }
        out.extend_from_slice(&self.highest().0.to_be_bytes());
    }

    pub fn decode(bytes: &mut &[u8]) -> Option<Configuration> {
        let mut configuration = Configuration::decode_first(bytes)?;
        configuration.highest = ReplicaId(take_u64(bytes)?);
        Some(configuration)
    }

    /// As the first version wrote it: without the highest number.
    fn decode_first(bytes: &mut &[u8]) -> Option<Configuration> {
        let index = take_u64(bytes)?;
        let mut lists = [const { Vec::new() }; 4];
        for list in &mut lists {
            for _ in 0..take_count(bytes)? {
                list.push(ReplicaId(take_u64(bytes)?));
            }
        }
        let [voters, outgoing, learners, learners_next] = lists;
        let mut nodes = Vec::new();
        for _ in 0..take_count(bytes)? {
            nodes.push((ReplicaId(take_u64(bytes)?), NodeId(take_u64(bytes)?)));
        }
        let highest = nodes.iter().map(|(replica, _)| *replica).max().unwrap_or_default();
        Some(Configuration { index, voters, outgoing, learners, learners_next, nodes, highest })
    }
}

/// What a node keeps of its member of a set, beside the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    pub set: SetId,
    /// The member on this node.
    pub replica: ReplicaId,
    pub term: u64,
    /// Whom the member voted for in this term; zero for nobody.
    pub vote: u64,
    /// Up to where entries are known to be committed. It may be more by now.
    pub commit: u64,
    /// The entries up to this one are not in the log any more.
    pub cut: EntryPlace,
    /// No entry that was not applied when this was written has an earlier second.
    pub now_s: u32,
    pub configuration: Configuration,
    /// The part of the ring that the set holds; `None` where only the map knows, and for a member that knows nothing yet.
    pub range: Option<RingRange>,
    /// The set that it was split from, and by which entry of that set's log.
    pub split_from: Option<(SetId, u64)>,
    /// Why the member's rows count for nothing, if so.
    pub doubt: Option<Doubt>,
}

/// A member applied something else than others did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The entry whose sums were compared.
    pub index: u64,
    /// `None` while the member takes part in nothing. Otherwise an operator said that the rows of this member count: the one in
    /// doubt keeps the log and votes, answers nobody, and is replaced.
    pub kept: Option<ReplicaId>,
}

/// The first byte of the state of a member in doubt.
const STATE_VERSION: u8 = 4;
/// That of all others: who never doubted writes what the version before reads.
const STATE_VERSION_UNDOUBTED: u8 = 3;
/// As it was before sets could be split.
const STATE_VERSION_UNSPLIT: u8 = 2;
/// As it was before configurations said the highest number.
const STATE_VERSION_FIRST: u8 = 1;
/// In the flags of a state: a range follows, the set that it was split from follows.
const STATE_HAS_RANGE: u8 = 1;
const STATE_IS_SPLIT: u8 = 2;
/// Since version 4: the member is in doubt.
const STATE_IS_DOUBTED: u8 = 4;

impl GroupState {
    /// A member that knows nothing but who belongs to its set. The log of a set begins behind entry 1, which nobody has:
    /// a member without any entry is thus told apart from one that lost them.
    pub fn born(set: SetId, replica: ReplicaId, configuration: Configuration) -> GroupState {
        let cut = EntryPlace { index: 1, term: 1 };
        GroupState {
            set,
            replica,
            term: 1,
            vote: 0,
            commit: 1,
            cut,
            now_s: 0,
            configuration,
            range: None,
            split_from: None,
            doubt: None,
        }
    }

    /// A member that is to be handed everything: it knows neither entries nor who belongs to its set, only where those are
    /// who may hand it over.
    pub fn newcomer(set: SetId, replica: ReplicaId, nodes: Vec<(ReplicaId, NodeId)>) -> GroupState {
        let configuration = Configuration { nodes, ..Configuration::default() };
        let cut = EntryPlace::default();
        let born = GroupState::born(set, replica, configuration);
        GroupState { term: 0, commit: 0, cut, ..born }
    }

    /// The second half of a set that is split by an entry of its log: the same members, behind the same place, as if it had been
    /// handed over there. Every member that applies the entry makes the same.
    pub fn split_off(
        &self,
        right: SetId,
        range: RingRange,
        place: EntryPlace,
        now_s: u32,
    ) -> GroupState {
        let configuration = Configuration { index: place.index, ..self.configuration.clone() };
        GroupState {
            set: right,
            replica: self.replica,
            term: place.term,
            vote: 0,
            commit: place.index,
            cut: place,
            now_s,
            configuration,
            range: Some(range),
            split_from: Some((self.set, place.index)),
            // Its rows are those of the left half.
            doubt: self.doubt,
        }
    }

    /// Whether it is a member that was not handed anything yet.
    pub fn is_newcomer(&self) -> bool {
        self.commit == 0 && self.configuration.voters.is_empty()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.doubt {
            Some(_) => STATE_VERSION,
            None => STATE_VERSION_UNDOUBTED,
        });
        out.extend_from_slice(&self.set.0.to_be_bytes());
        let EntryPlace { index, term } = self.cut;
        for number in [self.replica.0, self.term, self.vote, self.commit, index, term] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.now_s.to_be_bytes());
        self.configuration.encode(out);
        let has_range = if self.range.is_some() { STATE_HAS_RANGE } else { 0 };
        let is_split = if self.split_from.is_some() { STATE_IS_SPLIT } else { 0 };
        let is_doubted = if self.doubt.is_some() { STATE_IS_DOUBTED } else { 0 };
        out.push(has_range | is_split | is_doubted);
        if let Some(RingRange { start, last }) = self.range {
            out.extend_from_slice(&start.to_bytes());
            out.extend_from_slice(&last.to_bytes());
        }
        if let Some((set, index)) = self.split_from {
            out.extend_from_slice(&set.0.to_be_bytes());
            out.extend_from_slice(&index.to_be_bytes());
        }
        if let Some(Doubt { index, kept }) = self.doubt {
            out.extend_from_slice(&index.to_be_bytes());
            out.extend_from_slice(&kept.unwrap_or_default().0.to_be_bytes());
        }
    }

    pub fn decode(mut bytes: &[u8]) -> Option<GroupState> {
        let bytes = &mut bytes;
        let [version] = take::<1>(bytes)?;
        let mut state = GroupState {
            set: SetId(u32::from_be_bytes(take(bytes)?)),
            replica: ReplicaId(take_u64(bytes)?),
            term: take_u64(bytes)?,
            vote: take_u64(bytes)?,
            commit: take_u64(bytes)?,
            cut: EntryPlace { index: take_u64(bytes)?, term: take_u64(bytes)? },
            now_s: u32::from_be_bytes(take(bytes)?),
            configuration: match version {
                STATE_VERSION | STATE_VERSION_UNDOUBTED | STATE_VERSION_UNSPLIT => {
                    Configuration::decode(bytes)?
                }
                STATE_VERSION_FIRST => Configuration::decode_first(bytes)?,
                _ => return None,
            },
            range: None,
            split_from: None,
            doubt: None,
        };
        if version == STATE_VERSION || version == STATE_VERSION_UNDOUBTED {
            let [flags] = take::<1>(bytes)?;
            let is_doubted = flags & STATE_IS_DOUBTED != 0;
            let are_known = flags & !(STATE_HAS_RANGE | STATE_IS_SPLIT | STATE_IS_DOUBTED) == 0;
            if !are_known || is_doubted != (version == STATE_VERSION) {
                return None;
            }
            if flags & STATE_HAS_RANGE != 0 {
                let (start, last) = (take_token(bytes)?, take_token(bytes)?);
                state.range = Some(RingRange { start, last }).filter(|_| start <= last);
                state.range?;
            }
            if flags & STATE_IS_SPLIT != 0 {
                state.split_from =
                    Some((SetId(u32::from_be_bytes(take(bytes)?)), take_u64(bytes)?));
            }
            if is_doubted {
                let (index, kept) = (take_u64(bytes)?, ReplicaId(take_u64(bytes)?));
                let kept = Some(kept).filter(|kept| *kept != ReplicaId::default());
                state.doubt = Some(Doubt { index, kept });
            }
        }
        bytes.is_empty().then_some(state)
    }
}

/// A member that was taken away: nobody with this number or an earlier one is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    pub set: SetId,
    pub highest: ReplicaId,
}

impl Gone {
    pub const BYTES: usize = 4 + 8;

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.set.0.to_be_bytes());
        out.extend_from_slice(&self.highest.0.to_be_bytes());
    }

    pub fn decode(mut bytes: &[u8]) -> Option<Gone> {
        let bytes = &mut bytes;
        let set = SetId(u32::from_be_bytes(take(bytes)?));
        let highest = ReplicaId(take_u64(bytes)?);
        bytes.is_empty().then_some(Gone { set, highest })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_be_bytes)
}

fn take_token(bytes: &mut &[u8]) -> Option<RingToken> {
    take(bytes).map(|bytes| RingToken(u128::from_be_bytes(bytes)))
}

fn take_count(bytes: &mut &[u8]) -> Option<usize> {
    let [count] = take(bytes)?;
    let count = usize::from(count);
    (count <= MEMBERS_MAX).then_some(count)
}

/// Where an entry of a set is to be read, and what is known of it without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub term: u64,
    pub kind: u8,
    /// The second at which it is judged.
    pub now_s: u32,
    /// Of its record.
    pub record: Position,
    /// Of its body.
    pub body: Position,
    pub body_bytes: u32,
}

/// Where the entries of one set are: from behind the place where they were cut, up to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTable {
    cut: EntryPlace,
    slots: VecDeque<Slot>,
}

/// Entries are missing before one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap;

/// What became of an entry that was put into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is the last.
    Last,
    /// So many entries had its place and those behind it; now it is the last.
    InPlaceOf(usize),
    /// It was there: only its place is another.
    Copy,
    /// It is not needed any more.
    Old,
}

impl GroupTable {
    /// The entries behind a place; none yet.
    pub fn behind(cut: EntryPlace) -> GroupTable {
        GroupTable { cut, slots: VecDeque::new() }
    }

    /// The last entry that is not in the table any more.
    pub fn cut(&self) -> EntryPlace {
        self.cut
    }

    pub fn last(&self) -> EntryPlace {
        match self.slots.back() {
            Some(slot) => {
                EntryPlace { index: self.cut.index + self.slots.len() as u64, term: slot.term }
            }
            None => self.cut,
        }
    }

    /// The term of an entry; also of the last one before the table.
    pub fn term(&self, index: u64) -> Option<u64> {
        if index == self.cut.index {
            return Some(self.cut.term);
        }
        self.slot(index).map(|slot| slot.term)
    }

    pub fn slot(&self, index: u64) -> Option<Slot> {
        self.slots.get(self.offset(index)?).copied()
    }

    fn offset(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.cut.index + 1)?).ok()
    }

    /// An entry comes. One of another term takes back everything from its index on.
    pub fn put(&mut self, index: u64, slot: Slot) -> Result<Put, Gap> {
        let Some(offset) = self.offset(index) else { return Ok(Put::Old) };
        let count = self.slots.len();
        match self.slots.get_mut(offset) {
            Some(known) if known.term == slot.term && !breaks(Rule::LetCopiesCut) => {
                *known = slot;
                Ok(Put::Copy)
            }
            Some(_) => {
                self.slots.truncate(offset);
                self.slots.push_back(slot);
                Ok(Put::InPlaceOf(count - offset))
            }
            None if offset == count => {
                self.slots.push_back(slot);
                Ok(Put::Last)
            }
            None => Err(Gap),
        }
    }

    /// Entries up to one are not needed any more.
    pub fn cut_to(&mut self, place: EntryPlace) {
        if let Some(count) = place.index.checked_sub(self.cut.index) {
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.slots.len());
            self.slots.drain(..count);
            self.cut = place;
        }
    }

    /// An entry comes, before which some are missing that were not needed any more when their segments went. What says so
    /// stands further on.
    pub(crate) fn begin_at(&mut self, index: u64, slot: Slot) {
        self.cut = EntryPlace { index: index.saturating_sub(1), term: 0 };
        self.slots.clear();
        self.slots.push_back(slot);
    }

    /// Whether the table begins behind an entry only because those before its first were not found.
    pub(crate) fn is_begun_behind(&self, index: u64) -> bool {
        self.cut.term == 0 && index <= self.cut.index
    }

    /// From where on the log is needed for the entries that are left.
    pub fn needed_from(&self) -> Option<Position> {
        self.slots.front().map(|slot| slot.record)
    }

    /// The last entry up to an index whose record, like those of all before it, lies before a place of the log.
    pub fn last_before(&self, position: Position, index_max: u64) -> Option<EntryPlace> {
        let mut found = None;
        for (number, slot) in self.slots.iter().enumerate() {
            let index = self.cut.index + 1 + number as u64;
            if slot.record >= position || index > index_max {
                break;
            }
            found = Some(EntryPlace { index, term: slot.term });
        }
        found
    }
}

/// What recovery found of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredGroup {
    pub state: GroupState,
    pub table: GroupTable,
}

impl RecoveredGroup {
    pub fn new(state: GroupState) -> RecoveredGroup {
        let table = GroupTable::behind(state.cut);
        RecoveredGroup { state, table }
    }

    /// A later state. Terms, votes and what is committed never go back, and what is cut stays so.
    pub(crate) fn renew(&mut self, state: GroupState) -> Option<()> {
        let is_later = state.replica == self.state.replica && state.term >= self.state.term;
        if !is_later {
            return None;
        }
        let commit = state.commit.max(self.state.commit);
        if state.cut.index >= self.table.cut().index {
            self.table.cut_to(state.cut);
        }
        self.state = GroupState { commit, ..state };
        Some(())
    }

    /// After the last record: what is true of all of them together. `None` where it cannot be: a state stands before the
    /// first entry of its term, and no entry is missing that was not cut.
    pub(crate) fn settle(&mut self) -> Option<()> {
        // Where its first entry came after others that it took back, the place before it is known from the state.
        if self.table.cut.term == 0 && self.table.cut.index == self.state.cut.index {
            self.table.cut = self.state.cut;
        }
        let last = self.table.last();
        if self.state.term < last.term || self.state.cut != self.table.cut() {
            return None;
        }
        // The end of the log may be torn between a state and the entries that came with it.
        self.state.commit = self.state.commit.clamp(self.state.cut.index, last.index);
        Some(())
    }

    /// Sorted files hold what was committed up to an entry; a state may be older than that.
    pub fn raise_commit(&mut self, index: u64) {
        self.state.commit = self.state.commit.max(index.min(self.table.last().index));
    }
}
