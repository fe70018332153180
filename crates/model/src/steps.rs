//! What can happen next, and what it does.

use crate::{Birth, Bounds, Entry, IN, LEFT, Member, NODES, RIGHT, Rule, World};

/// Something that happens, to the left or the right half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A node gets the votes of these, a smallest quorum with itself, and leads.
    Elect { set: usize, node: usize, term: u8, voters: u8 },
    /// A leader puts an entry into its log.
    Propose { set: usize, node: usize, entry: Entry },
    /// A follower gets the next entry that it lacks, and learns what is committed of what it has.
    Append { set: usize, from: usize, to: usize },
    /// A follower learns what is committed of what it has, as by a heartbeat.
    Tell { set: usize, from: usize, to: usize },
    /// A leader counts who has what, and commits; what it commits is acknowledged.
    Count { set: usize, node: usize },
    /// A follower gets all that is committed without the entries.
    Image { set: usize, from: usize, to: usize },
    /// A node forgets what is not on disk.
    Restart { node: usize },
}

impl World {
    /// All that can happen next; some of it changes nothing.
    pub fn steps(&self, bounds: &Bounds, rule: Option<Rule>) -> Vec<Step> {
        let mut steps = Vec::new();
        for set in [LEFT, RIGHT] {
            for node in 0..NODES {
                for term in self.sets[set][node].term + 1..=bounds.terms[set] {
                    let quorums = self.quorums(set, node, term, rule);
                    let elect = |voters| Step::Elect { set, node, term, voters };
                    steps.extend(quorums.into_iter().map(elect));
                }
                if !self.sets[set][node].leads {
                    continue;
                }
                let entries = self.proposals(set, node, bounds, rule);
                steps.extend(entries.into_iter().map(|entry| Step::Propose { set, node, entry }));
                steps.push(Step::Count { set, node });
                for to in (0..NODES).filter(|to| *to != node) {
                    steps.push(Step::Append { set, from: node, to });
                    steps.push(Step::Tell { set, from: node, to });
                    if bounds.images || self.sets[set][to].birth.is_none() {
                        steps.push(Step::Image { set, from: node, to });
                    }
                }
            }
        }
        let nodes = if self.restarts > 0 { NODES } else { 0 };
        steps.extend((0..nodes).map(|node| Step::Restart { node }));
        steps
    }

    /// What comes of a step; `None` if it cannot be, or changes nothing.
    pub fn after(&self, step: Step, rule: Option<Rule>) -> Option<World> {
        let mut world = self.clone();
        match step {
            Step::Elect { set, node, term, voters } => world.elect(set, node, term, voters, rule),
            Step::Propose { set, node, entry } => world.propose(set, node, entry, rule),
            Step::Append { set, from, to } => world.append(set, from, to, rule)?,
            Step::Tell { set, from, to } => world.tell(set, from, to, rule)?,
            Step::Count { set, node } => world.count(set, node, rule)?,
            Step::Image { set, from, to } => world.image(set, from, to, rule)?,
            Step::Restart { node } => world.restart(node),
        }
        (world != *self).then_some(world)
    }

    /// Whether a node hears of a set at all: of a right half not while its left is before the split, unless the left has no member here any more.
    fn hears(&self, set: usize, node: usize, rule: Option<Rule>) -> bool {
        let left = &self.sets[LEFT][node];
        let is_without = |it: &Member| {
            let configuration = it.configuration(rule).filter(|_| it.answers());
            configuration.is_some_and(|it| it.members() & 1 << node == 0)
        };
        set == LEFT
            || self.sets[LEFT].iter().any(is_without)
            || self.sets[RIGHT][node].birth.is_some()
            || left.split_at().is_some_and(|at| at < left.commit)
            || rule == Some(Rule::HeldBeforeSplit)
    }

    /// The smallest quorums with which a node would lead in a term. Votes are given once in a term, to who has all that the voter has. A member is not made by a vote, but of a
    /// right half: where the left passed the split by an image there is none yet, and nobody else could vote.
    pub(crate) fn quorums(&self, set: usize, node: usize, term: u8, rule: Option<Rule>) -> Vec<u8> {
        let candidate = &self.sets[set][node];
        let Some(configuration) = candidate.configuration(rule) else { return Vec::new() };
        let is_willing = |voter: &usize| {
            let other = &self.sets[set][*voter];
            let is_there = other.birth.is_some() || set == RIGHT;
            is_there
                && self.hears(set, *voter, rule)
                && other.term < term
                && other.last() <= candidate.last()
        };
        let decides = configuration.voters | configuration.outgoing;
        if decides & 1 << node == 0 {
            return Vec::new();
        }
        let willing = (0..NODES).filter(is_willing).fold(0u8, |bits, voter| bits | 1 << voter)
            & configuration.members();
        let is_quorum = |voters: u8| configuration.is_quorum(voters, rule);
        let is_smallest = |voters: u8| {
            let without = (0..NODES).map(|it| voters & !(1 << it));
            without.filter(|less| *less != voters && less & 1 << node != 0).all(|it| !is_quorum(it))
        };
        let with_itself = (0..1u8 << NODES).filter(|it| it & !willing == 0 && it & 1 << node != 0);
        with_itself.filter(|voters| is_quorum(*voters) && is_smallest(*voters)).collect()
    }

    fn elect(&mut self, set: usize, node: usize, term: u8, voters: u8, rule: Option<Rule>) {
        for voter in (0..NODES).filter(|voter| voters & 1 << voter != 0) {
            let member = &mut self.sets[set][voter];
            (member.term, member.leads, member.matched) = (term, false, [0; NODES]);
            // What it knows is written down with its vote.
            (member.entered, member.kept_commit) = (false, member.commit);
        }
        self.sets[set][node].leads = true;
        self.propose(set, node, Entry::Begin, rule);
    }

    /// What a leader may propose now.
    fn proposals(
        &self,
        set: usize,
        node: usize,
        bounds: &Bounds,
        rule: Option<Rule>,
    ) -> Vec<Entry> {
        let leader = &self.sets[set][node];
        if !leader.answers() {
            return Vec::new();
        }
        let mut entries = Vec::new();
        for half in [LEFT, RIGHT] {
            let number = self.asked[half];
            let is_ours = match (set, half) {
                (LEFT, RIGHT) if rule == Some(Rule::NothingBehindSplit) => {
                    leader.split_at().is_none_or(|at| at >= leader.commit)
                }
                (LEFT, RIGHT) => leader.split_at().is_none(),
                _ => set == half,
            };
            if is_ours && number < bounds.writes[half] {
                entries.push(Entry::Write { half, number });
            }
        }
        entries.extend(self.changes(set, node, bounds, rule));
        entries
    }

    /// The changes of members, and the split, that a leader may propose now.
    pub(crate) fn changes(
        &self,
        set: usize,
        node: usize,
        bounds: &Bounds,
        rule: Option<Rule>,
    ) -> Vec<Entry> {
        let leader = &self.sets[set][node];
        let is_change = |entry: &Entry| matches!(entry, Entry::Learn | Entry::Enter | Entry::Leave);
        let has = |entry: Entry| leader.log.iter().any(|(_, it)| *it == entry);
        let is_pending = leader.log.iter().skip(leader.commit).any(|(_, it)| is_change(it));
        // Who looks at the end of its log, and not at what is in force, can have several changes under way.
        let known = match rule {
            Some(Rule::OneChangeAtATime) => leader.configuration_at(leader.log.len(), rule),
            _ if is_pending => None,
            _ => leader.configuration(rule),
        };
        let (Some(known), Some(in_force)) = (known, leader.configuration(rule)) else {
            return Vec::new();
        };
        let mut entries = Vec::new();
        if bounds.moves && set == LEFT && !has(Entry::Learn) {
            entries.push(Entry::Learn);
        }
        if set == LEFT && known.learners & 1 << IN != 0 {
            entries.push(Entry::Enter);
        }
        let may_leave = leader.entered || rule != Some(Rule::EveryLeaderLeavesJoint);
        if known.is_joint() && may_leave {
            entries.push(Entry::Leave);
        }
        let may_split = !in_force.is_joint() || rule == Some(Rule::NoSplitInJoint);
        if bounds.splits && set == LEFT && may_split && !has(Entry::Split) {
            entries.push(Entry::Split);
        }
        entries
    }

    pub(crate) fn propose(&mut self, set: usize, node: usize, entry: Entry, rule: Option<Rule>) {
        if let Entry::Write { half, .. } = entry {
            self.asked[half] += 1;
        }
        let leader = &mut self.sets[set][node];
        leader.log.push((leader.term, entry));
        leader.matched[node] = leader.log.len() as u8;
        leader.entered |= entry == Entry::Enter;
        // It applied all that before it proposed this, and wrote that down before.
        leader.kept_commit = leader.commit;
        if rule == Some(Rule::BornWhenCommitted) && entry == Entry::Split {
            self.bear(node, false, rule);
        }
    }

    /// Whether a leader can say something to a node; the node is in its term then.
    fn meet(&mut self, set: usize, from: usize, to: usize, rule: Option<Rule>) -> Option<()> {
        let leader = &self.sets[set][from];
        let is_member = leader.configuration(rule)?.members() & 1 << to != 0;
        if !is_member || self.sets[set][to].term > leader.term || !self.hears(set, to, rule) {
            return None;
        }
        let term = leader.term;
        let follower = &mut self.sets[set][to];
        if follower.term < term {
            (follower.term, follower.leads) = (term, false);
            (follower.matched, follower.entered) = ([0; NODES], false);
            follower.kept_commit = follower.commit;
        }
        Some(())
    }

    pub(crate) fn append(
        &mut self,
        set: usize,
        from: usize,
        to: usize,
        rule: Option<Rule>,
    ) -> Option<()> {
        self.meet(set, from, to, rule)?;
        let leader = self.sets[set][from].clone();
        let follower = &mut self.sets[set][to];
        if follower.birth.is_none() {
            // The log of a right half begins with an image.
            if set == RIGHT {
                return None;
            }
            follower.birth = leader.birth;
        }
        let same = follower.log.iter().zip(&leader.log).take_while(|(one, it)| one == it).count();
        let has = (same + 1).min(leader.log.len());
        let commit = follower.commit.max(leader.commit.min(has));
        let is_news = commit > follower.commit;
        if has > same {
            follower.log.truncate(same);
            follower.log.extend(leader.log.get(same));
            if is_news || rule != Some(Rule::CommitIsKeptWithChanges) {
                follower.kept_commit = commit;
            }
        }
        let before = follower.commit;
        follower.commit = commit;
        self.sets[set][from].matched[to] = has as u8;
        self.apply(set, to, before, rule);
        Some(())
    }

    pub(crate) fn tell(
        &mut self,
        set: usize,
        from: usize,
        to: usize,
        rule: Option<Rule>,
    ) -> Option<()> {
        self.meet(set, from, to, rule)?;
        let leader = &self.sets[set][from];
        let known = leader.commit.min(usize::from(leader.matched[to]));
        let follower = &mut self.sets[set][to];
        let before = follower.commit;
        follower.commit = before.max(known);
        self.apply(set, to, before, rule);
        Some(())
    }

    pub(crate) fn count(&mut self, set: usize, node: usize, rule: Option<Rule>) -> Option<()> {
        let leader = &self.sets[set][node];
        let configuration = leader.configuration(rule)?;
        let is_committed = |count: &usize| {
            let (term, _) = leader.log[count - 1];
            let having = (0..NODES).filter(|it| usize::from(leader.matched[*it]) >= *count);
            let having = having.fold(0u8, |bits, it| bits | 1 << it);
            (term == leader.term || rule == Some(Rule::OwnTermCommits))
                && configuration.is_quorum(having, rule)
        };
        let commit = (leader.commit + 1..=leader.log.len()).rev().find(is_committed)?;
        let before = leader.commit;
        self.sets[set][node].commit = commit;
        for half in [LEFT, RIGHT] {
            self.acknowledged[half] |= self.sets[set][node].writes(half, commit);
        }
        self.apply(set, node, before, rule);
        Some(())
    }

    pub(crate) fn image(
        &mut self,
        set: usize,
        from: usize,
        to: usize,
        rule: Option<Rule>,
    ) -> Option<()> {
        self.meet(set, from, to, rule)?;
        let leader = self.sets[set][from].clone();
        let follower = &mut self.sets[set][to];
        if follower.birth.is_some() && follower.commit >= leader.commit {
            return None;
        }
        let committed: Vec<(u8, Entry)> = leader.log.iter().take(leader.commit).copied().collect();
        if !follower.log.starts_with(&committed) {
            follower.log = committed;
        }
        (follower.birth, follower.commit) = (leader.birth, leader.commit);
        follower.kept_commit = leader.commit;
        let has_split = follower.split_at().is_some_and(|at| at < follower.commit);
        let matched = &mut self.sets[set][from].matched[to];
        *matched = (leader.commit as u8).max(*matched);
        if set == LEFT && has_split && rule == Some(Rule::RightByImageToo) {
            self.bear(to, true, rule);
        }
        Some(())
    }

    /// What came into force on a node since it had applied so many entries.
    fn apply(&mut self, set: usize, node: usize, before: usize, rule: Option<Rule>) {
        let member = &mut self.sets[set][node];
        let split = member.split_at().filter(|_| set == LEFT);
        let is_appended = rule == Some(Rule::BornWhenCommitted);
        let is_born = split.is_some_and(|at| at >= before && (at < member.commit || is_appended));
        let members = member.configuration(rule).map_or(0, |it| it.members());
        // One that does not belong to the set any more does not lead it.
        member.leads &= members & 1 << node != 0;
        if is_born {
            self.bear(node, false, rule);
        }
    }

    /// The right half is born on a node, with what the left held at the split.
    fn bear(&mut self, node: usize, by_image: bool, rule: Option<Rule>) {
        let left = &mut self.sets[LEFT][node];
        let Some(at) = left.split_at() else { return };
        let Some(configuration) = left.configuration_at(at, rule) else { return };
        // That it was born is on disk, and says that the split was committed.
        left.kept_commit = left.kept_commit.max(at + 1).min(left.commit);
        // Where an image brought the left past the split, what the right half held is not here any more.
        let image = if by_image { 0 } else { left.writes(RIGHT, at) };
        let term = left.log[at].0;
        let is_there = self.sets[RIGHT][node].birth.is_some();
        if is_there && rule != Some(Rule::HeldBeforeSplit) {
            return;
        }
        if configuration.members() & 1 << node != 0 {
            // It may have voted, where the left was taken for gone.
            let voted =
                if rule == Some(Rule::HeldBeforeSplit) { 0 } else { self.sets[RIGHT][node].term };
            let birth = Some(Birth { configuration, image, term });
            self.sets[RIGHT][node] = Member { birth, term: voted, ..Member::absent() };
        }
    }

    fn restart(&mut self, node: usize) {
        self.restarts -= 1;
        for set in &mut self.sets {
            let member = &mut set[node];
            (member.leads, member.entered, member.matched) = (false, false, [0; NODES]);
            member.commit = member.kept_commit;
        }
    }
}
