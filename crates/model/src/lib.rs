//! The argument that splits, moves and joint changes are right (D14), small enough to be read and to be checked in full: a replica set
//! of three members on four nodes, one of whose members moves, and which is split. Every order of everything that can
//! happen, up to [`Bounds`], is tried by `tests/exhaustive.rs`.
//!
//! It is a model, not the code: there are no messages. What Raft does in one exchange is one step here, between the two ends of it, and may come at any
//! time or never: an election takes the votes of a smallest quorum at once, an append brings a follower the next entry of its leader. That loses nothing: votes
//! beyond a quorum and messages that are lost only forbid what comes later. What a leader knows of others may be old ([`Member::matched`]).
//! A configuration is in force where its entry is known to be committed, as in the library that we use, not where it is appended.
//!
//! Reading order: [`Bounds`], [`Rule`] (what can be broken), [`Entry`], [`Member`], [`World`], its steps; then `properties.rs`.

#![expect(clippy::indexing_slicing, reason = "nodes and sets are counted by constants")]

mod properties;
mod steps;

pub use properties::PROPERTIES;
pub use steps::Step;

/// Nodes; a set has members on three of them, and one of those moves from [`OUT`] to [`IN`].
pub const NODES: usize = 4;
/// The node whose member goes.
pub const OUT: usize = 2;
/// The node that gets a member.
pub const IN: usize = 3;
/// The set that was there before, and which is the left half afterwards.
pub const LEFT: usize = 0;
/// The half that is born.
pub const RIGHT: usize = 1;

/// How much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The highest term of the left and of the right half. The first leader of the left has term 1.
    pub terms: [u8; 2],
    /// Writes that go to the left and to the right half of the keys.
    pub writes: [u8; 2],
    /// Whether the member moves.
    pub moves: bool,
    /// Whether the set is split.
    pub splits: bool,
    /// Restarts, each of which forgets what is not on disk.
    pub restarts: u8,
    /// Whether followers get images instead of entries, too.
    pub images: bool,
}

/// A rule that a model without it does not keep: each must then give a counterexample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Both halves of a joint configuration decide, not the new one alone.
    BothHalvesDecide,
    /// A learner decides nothing.
    LearnersDoNotCount,
    /// Members change by a joint configuration, not from one to the next at once.
    JointFirst,
    /// A change is proposed only when everything before it is in force.
    OneChangeAtATime,
    /// Entries of earlier terms are committed by one of the leader's own.
    OwnTermCommits,
    /// Every leader leaves a joint configuration that it finds, not only the one that entered it.
    EveryLeaderLeavesJoint,
    /// What says that members change is on disk together with the knowledge that all before it is committed.
    CommitIsKeptWithChanges,
    /// No split in a joint configuration.
    NoSplitInJoint,
    /// The right half is born where the split is committed, not where it is appended.
    BornWhenCommitted,
    /// Behind a split nothing of the right half is taken into the left log.
    NothingBehindSplit,
    /// What comes for a right half is held while the left is before the split here.
    HeldBeforeSplit,
    /// A member that passes the split by an image gets an image of the right half, not an empty one.
    RightByImageToo,
}

/// What a log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// The first of a leader.
    Begin,
    /// A write of that number to the left or the right half of the keys.
    Write { half: usize, number: u8 },
    /// The new node learns.
    Learn,
    /// The joint configuration begins.
    Enter,
    /// It ends.
    Leave,
    /// Keys of the right half have another set from here on.
    Split,
}

/// Who belongs to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// Decides in any case; after the move the new voters.
    pub voters: u8,
    /// In a joint configuration the voters before.
    pub outgoing: u8,
    /// Gets everything, and decides nothing.
    pub learners: u8,
}

const BEFORE: u8 = 0b0111;
const AFTER: u8 = 0b1011;

impl Configuration {
    pub(crate) const FIRST: Configuration =
        Configuration { voters: BEFORE, outgoing: 0, learners: 0 };

    /// Whether it is joint.
    pub fn is_joint(&self) -> bool {
        self.outgoing != 0
    }

    pub(crate) fn members(&self) -> u8 {
        self.voters | self.outgoing | self.learners
    }

    fn after(self, entry: Entry, rule: Option<Rule>) -> Configuration {
        match entry {
            Entry::Learn => Configuration { learners: 1 << IN, ..self },
            Entry::Enter if rule == Some(Rule::JointFirst) => {
                Configuration { voters: AFTER, outgoing: 0, learners: 0 }
            }
            Entry::Enter => Configuration { voters: AFTER, outgoing: self.voters, learners: 0 },
            Entry::Leave => Configuration { outgoing: 0, ..self },
            Entry::Begin | Entry::Write { .. } | Entry::Split => self,
        }
    }

    /// Whether these nodes are enough to decide.
    pub fn is_quorum(&self, nodes: u8, rule: Option<Rule>) -> bool {
        let counted = match rule {
            Some(Rule::LearnersDoNotCount) => nodes & (self.voters | self.learners),
            _ => nodes & self.voters,
        };
        let is_most = |nodes: u8, of: u8| nodes.count_ones() * 2 > of.count_ones();
        is_most(counted, self.voters)
            && (self.outgoing == 0
                || rule == Some(Rule::BothHalvesDecide)
                || is_most(nodes & self.outgoing, self.outgoing))
    }
}

/// What a member began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Birth {
    /// Who belonged to the set.
    pub configuration: Configuration,
    /// The writes that it held, as bits of their numbers.
    pub image: u8,
    /// Of a right half the term of its split; it stands for the place of the split as a whole.
    pub term: u8,
}

/// What one node has of one set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// `None`: the node has no member of it.
    pub birth: Option<Birth>,
    /// The highest term that it voted in or heard of: it votes once in each.
    pub term: u8,
    /// Whether it leads in that term.
    pub leads: bool,
    /// Terms and entries. Everything in it is on disk.
    pub log: Vec<(u8, Entry)>,
    /// So many entries are known to be committed, and are applied.
    pub commit: usize,
    /// So many of them are known after a restart.
    pub kept_commit: usize,
    /// Of a leader: so many entries each node told it to have. They may have other ones by now.
    pub matched: [u8; NODES],
    /// Of a leader: whether it was the one who entered the joint configuration.
    pub entered: bool,
}

/// All nodes, and what was promised to clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The members of the left and of the right half, by node.
    pub sets: [[Member; NODES]; 2],
    /// Writes that were acknowledged, as bits of their numbers, to the left and the right half of the keys.
    pub acknowledged: [u8; 2],
    /// So many writes to each half were asked for.
    pub asked: [u8; 2],
    /// So many restarts are left.
    pub restarts: u8,
}

impl Member {
    fn absent() -> Member {
        Member {
            birth: None,
            term: 0,
            leads: false,
            log: Vec::new(),
            commit: 0,
            kept_commit: 0,
            matched: [0; NODES],
            entered: false,
        }
    }

    /// The configuration after so many entries; that after those that are committed is in force.
    pub fn configuration_at(&self, count: usize, rule: Option<Rule>) -> Option<Configuration> {
        let first = self.birth?.configuration;
        Some(self.log.iter().take(count).fold(first, |it, (_, entry)| it.after(*entry, rule)))
    }

    /// The configuration in force.
    pub fn configuration(&self, rule: Option<Rule>) -> Option<Configuration> {
        self.configuration_at(self.commit, rule)
    }

    /// Where its log has the split.
    pub fn split_at(&self) -> Option<usize> {
        self.log.iter().position(|(_, entry)| *entry == Entry::Split)
    }

    /// Whether it leads, and applied an entry of its own term: only then it answers.
    pub fn answers(&self) -> bool {
        let own = self.log.iter().take(self.commit).any(|(term, _)| *term == self.term);
        self.leads && own
    }

    /// The last entry, for who may lead: the later term counts, then the longer log.
    pub(crate) fn last(&self) -> (u8, usize) {
        (self.log.last().map_or(0, |(term, _)| *term), self.log.len())
    }

    /// The writes of half the keys among its first entries, as bits of their numbers.
    pub fn writes(&self, of: usize, count: usize) -> u8 {
        self.log.iter().take(count).fold(0, |bits, (_, entry)| match entry {
            Entry::Write { half, number } if *half == of => bits | 1 << number,
            _ => bits,
        })
    }
}

impl World {
    /// Three members, the first of which leads; nothing was written.
    pub fn first(bounds: &Bounds) -> World {
        let birth = Birth { configuration: Configuration::FIRST, image: 0, term: 0 };
        let member = Member {
            birth: Some(birth),
            term: 1,
            log: vec![(1, Entry::Begin)],
            commit: 1,
            kept_commit: 1,
            ..Member::absent()
        };
        let leader = Member { leads: true, matched: [1, 1, 1, 0], ..member.clone() };
        let left = [leader, member.clone(), member, Member::absent()];
        World {
            sets: [left, std::array::from_fn(|_| Member::absent())],
            acknowledged: [0; 2],
            asked: [0; 2],
            restarts: bounds.restarts,
        }
    }

    /// The member that leads in the highest term that anybody was elected in, if it answers. One of an earlier term may still take
    /// itself for the leader: it asks a quorum before it answers, and is told.
    pub fn leader(&self, set: usize) -> Option<&Member> {
        let members = self.sets.get(set)?;
        let term = members.iter().map(|it| it.term).max()?;
        members.iter().find(|it| it.leads && it.term == term && it.answers())
    }
}
