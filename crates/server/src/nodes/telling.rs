//! What becomes of the journal when something is seen. It is worked out from how things are and how they were told of last, so that
//! whoever leads the system set next goes on where another stopped, and nothing is told twice.

use std::collections::{BTreeMap, BTreeSet};

use partition::decide::NodeState;
use types::{NodeId, SetId};

use super::journal::{EventKind, Job, JobKind, JobState, Journal, News, NodeTold};

/// A job whose set is to have other members than it wanted is given up after this time: the map may not be known here yet.
const REPLACED_AFTER_MS: i64 = 5_000;
/// Why most jobs of nodes are begun.
const ORDERED: &str = "an operator asked for it";

/// Nodes with members of a set: those that decide, and those that follow.
pub(super) type Members = (Vec<NodeId>, Vec<NodeId>);

/// A set as it is.
#[derive(Clone, Debug)]
pub(super) struct SetSeen {
    pub(super) set: SetId,
    /// As the map wants them.
    pub(super) wanted: Members,
    /// As the one that leads it tells, and whether they change just now; `None` if nobody was heard who does.
    pub(super) has: Option<(Members, bool)>,
}

/// A set that was split off another one.
#[derive(Clone, Debug)]
pub(super) struct SplitSeen {
    pub(super) set: SetId,
    pub(super) space: String,
    pub(super) at_ms: i64,
    pub(super) reason: &'static str,
}

/// How things are.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) now_ms: i64,
    pub(super) nodes: Vec<(NodeId, NodeState)>,
    /// `None` where it is not for this node to tell.
    pub(super) alive: Option<BTreeSet<NodeId>>,
    /// How many sets nodes lead that answer, and whether they knew what is asked of them when they told it.
    pub(super) leads: BTreeMap<NodeId, (u64, bool)>,
    pub(super) sets: Vec<SetSeen>,
    pub(super) splits: Vec<SplitSeen>,
    /// Members that take part in nothing, and why, as their nodes tell. Whoever leads replaces them by new ones on the same nodes.
    pub(super) frozen: BTreeMap<(SetId, NodeId), String>,
}

impl Seen {
    /// Members of sets that a node has or is to have.
    fn members_on(&self, node: NodeId) -> u64 {
        let is_in =
            |(voters, learners): &Members| voters.contains(&node) || learners.contains(&node);
        let is_there =
            |it: &&SetSeen| is_in(&it.wanted) || it.has.as_ref().is_some_and(|(has, _)| is_in(has));
        self.sets.iter().filter(is_there).count() as u64
    }

    fn is_silent(&self, node: NodeId) -> bool {
        self.alive.as_ref().is_some_and(|alive| !alive.contains(&node))
    }
}

/// Nodes that are to get a part in a set, or another one, and nodes that are to lose theirs.
fn difference(has: &Members, wanted: &Members) -> (Vec<u64>, Vec<u64>) {
    let come = wanted.0.iter().filter(|node| !has.0.contains(node));
    let come = come.chain(wanted.1.iter().filter(|node| !has.1.contains(node)));
    let is_wanted = |node: &&NodeId| wanted.0.contains(node) || wanted.1.contains(node);
    let go = has.0.iter().chain(&has.1).filter(|node| !is_wanted(node));
    let sorted = |nodes: BTreeSet<u64>| nodes.into_iter().collect();
    (sorted(come.map(|node| node.0).collect()), sorted(go.map(|node| node.0).collect()))
}

impl Journal {
    /// Tells what is seen and was not told.
    pub(super) fn follow(&mut self, seen: &Seen) {
        let is_new = self.nodes.is_empty();
        // Sets first: what nodes wait for are their members.
        self.follow_jobs(seen, |job| job.set.is_some());
        for (node, state) in &seen.nodes {
            self.follow_node(*node, *state, seen, is_new);
        }
        let is_there = |node: &NodeId| seen.nodes.iter().any(|(known, _)| known == node);
        let gone: Vec<NodeId> = self.nodes.keys().copied().filter(|it| !is_there(it)).collect();
        gone.into_iter().for_each(|node| self.lose_node(node, seen));
        self.follow_jobs(seen, |job| job.set.is_none());
        for ((set, node), why) in &seen.frozen {
            self.begin_replacing(*set, *node, why, seen);
        }
        seen.splits.iter().for_each(|split| self.follow_split(split));
    }

    fn follow_jobs(&mut self, seen: &Seen, are_meant: impl Fn(&Job) -> bool) {
        // How far they are is told by whoever knows who is there.
        if seen.alive.is_none() {
            return;
        }
        let running = self.jobs.iter().filter(|job| job.is_running() && are_meant(job));
        let running: Vec<Job> = running.cloned().collect();
        running.iter().for_each(|job| self.follow_job(job, seen));
    }

    fn follow_node(&mut self, node: NodeId, state: NodeState, seen: &Seen, is_new: bool) {
        let is_silent = seen.is_silent(node);
        let told = self.nodes.get(&node).copied().unwrap_or_else(|| {
            let is_alive = !is_silent;
            if is_new && state != NodeState::Joining {
                return NodeTold { state: NodeState::Up, is_alive };
            }
            // It may have been let in and be up already.
            self.begin_for(node, JobKind::Join, "it came with a token", seen);
            NodeTold { state: NodeState::Joining, is_alive }
        });
        if told.state != state {
            self.follow_state(node, told.state, state, seen);
        }
        let mut is_alive = told.is_alive;
        if seen.alive.is_some() && is_alive == is_silent {
            is_alive = !is_silent;
            match (state, is_alive) {
                (NodeState::Joining, _) => {}
                (_, true) => {
                    self.tell_node(node, EventKind::NodeUp, "is up", "it answers", seen);
                }
                (_, false) => {
                    self.tell_node(node, EventKind::NodeDown, "is down", "it is silent", seen);
                }
            }
        }
        self.nodes.insert(node, NodeTold { state, is_alive });
    }

    /// A node is asked to be something else than before.
    fn follow_state(&mut self, node: NodeId, before: NodeState, after: NodeState, seen: &Seen) {
        let (now_ms, cancelled) = (seen.now_ms, JobState::Cancelled);
        if before == NodeState::Joining {
            let how = "it has what all agree on";
            self.end_for(node, &[JobKind::Join], JobState::Done, how, now_ms);
            self.tell_node(node, EventKind::NodeJoined, "joined", how, seen);
        }
        match after {
            NodeState::Draining => self.begin_for(node, JobKind::Drain, ORDERED, seen),
            NodeState::Leaving => {
                self.end_for(node, &[JobKind::Drain], cancelled, "the node leaves instead", now_ms);
                self.begin_for(node, JobKind::Decommission, ORDERED, seen);
            }
            NodeState::Up if before == NodeState::Joining => {}
            NodeState::Up => {
                let how = "an operator cancelled it";
                let kinds = [JobKind::Drain, JobKind::Decommission];
                if !self.end_for(node, &kinds, cancelled, how, now_ms) {
                    let why = "an operator ended the drain";
                    self.tell_node(node, EventKind::NodeUp, "may lead again", why, seen);
                }
            }
            NodeState::Joining | NodeState::Removed => {}
        }
    }

    /// A node does not belong to the cluster any more.
    fn lose_node(&mut self, node: NodeId, seen: &Seen) {
        let told = self.nodes.remove(&node);
        let has_left = told.is_some_and(|it| it.state == NodeState::Leaving);
        if has_left && seen.members_on(node) == 0 {
            let how = "it holds nothing any more";
            self.end_for(node, &[JobKind::Decommission], JobState::Done, how, seen.now_ms);
            self.tell_node(node, EventKind::NodeLeft, "left", how, seen);
            return;
        }
        let kinds = [JobKind::Join, JobKind::Drain, JobKind::Decommission];
        self.end_for(node, &kinds, JobState::Failed, "the node was removed", seen.now_ms);
        self.tell_node(node, EventKind::NodeRemoved, "was removed", ORDERED, seen);
        self.begin_for(node, JobKind::Remove, ORDERED, seen);
    }

    fn tell_node(&mut self, node: NodeId, kind: EventKind, what: &str, reason: &str, seen: &Seen) {
        let what = format!("node {} {what}", node.0);
        let (job, set) = (None, None);
        let news = News { kind, job, node: Some(node), set, what: &what, reason };
        self.tell(seen.now_ms, &news);
    }

    fn begin_for(&mut self, node: NodeId, kind: JobKind, reason: &str, seen: &Seen) {
        let number = node.0;
        let what = match kind {
            JobKind::Join => format!("node {number} joins"),
            JobKind::Drain => format!("node {number} is drained"),
            JobKind::Decommission => format!("node {number} is emptied, and leaves"),
            JobKind::Remove => format!("what node {number} held is made anew"),
            JobKind::Move | JobKind::Heal => return,
        };
        let total = match kind {
            JobKind::Decommission | JobKind::Remove => seen.members_on(node),
            _ => seen.leads.get(&node).map_or(0, |(leads, _)| *leads),
        };
        self.begin(
            seen.now_ms,
            Job {
                id: 0,
                kind,
                node: Some(node),
                set: None,
                state: JobState::Running,
                what,
                reason: reason.to_owned(),
                progress: "begun".to_owned(),
                remaining: total,
                total,
                started_ms: seen.now_ms,
                updated_ms: seen.now_ms,
                wanted: Members::default(),
            },
        );
    }

    /// Ends the jobs of some kinds that run for a node; whether there was any.
    fn end_for(
        &mut self,
        node: NodeId,
        kinds: &[JobKind],
        state: JobState,
        how: &str,
        now_ms: i64,
    ) -> bool {
        let ids = kinds.iter().filter_map(|kind| self.running_for(node, *kind).map(|job| job.id));
        let ids: Vec<u64> = ids.collect();
        ids.iter().for_each(|id| self.end(*id, now_ms, state, how));
        !ids.is_empty()
    }

    /// A set is to get other members, for a reason. What was wanted of it before does not count any more.
    pub(super) fn begin_move(
        &mut self,
        now_ms: i64,
        set: SetId,
        (has, wanted): (&Members, Members),
        (kind, reason): (JobKind, &str),
    ) {
        let is_before = |job: &&Job| job.is_running() && job.set == Some(set) && job.node.is_none();
        let before: Vec<u64> = self.jobs.iter().filter(is_before).map(|job| job.id).collect();
        for id in before {
            self.end(id, now_ms, JobState::Cancelled, "something else was decided");
        }
        let nodes: Vec<u64> = wanted.0.iter().chain(&wanted.1).map(|node| node.0).collect();
        let (come, go) = difference(has, &wanted);
        let total = (come.len() + go.len()) as u64;
        self.begin(
            now_ms,
            Job {
                id: 0,
                kind,
                node: None,
                set: Some(set),
                state: JobState::Running,
                what: format!("set {} goes to nodes {nodes:?}", set.0),
                reason: reason.to_owned(),
                progress: moving(&come, &go),
                remaining: total,
                total,
                started_ms: now_ms,
                updated_ms: now_ms,
                wanted,
            },
        );
    }

    /// A member of a set is replaced on its own node.
    fn begin_replacing(&mut self, set: SetId, node: NodeId, why: &str, seen: &Seen) {
        let is_it = |job: &Job| job.is_running() && (job.set, job.node) == (Some(set), Some(node));
        if seen.alive.is_none() || self.jobs.iter().any(is_it) {
            return;
        }
        self.begin(
            seen.now_ms,
            Job {
                id: 0,
                kind: JobKind::Heal,
                node: Some(node),
                set: Some(set),
                state: JobState::Running,
                what: format!("set {} gets a new member on node {}", set.0, node.0),
                reason: why.to_owned(),
                progress: "begun".to_owned(),
                remaining: 1,
                total: 1,
                started_ms: seen.now_ms,
                updated_ms: seen.now_ms,
                wanted: Members::default(),
            },
        );
    }

    /// An operator said that the rows of one node count in a set whose members differ: its member is not replaced.
    pub(super) fn skip(&mut self, now_ms: i64, set: SetId, index: u64, kept: NodeId) {
        let seen = Seen { now_ms, alive: Some(BTreeSet::new()), ..Seen::default() };
        let why = format!("its members differed at entry {index}");
        self.begin_replacing(set, kept, &why, &seen);
        let is_it = |job: &&Job| job.is_running() && (job.set, job.node) == (Some(set), Some(kept));
        let ids: Vec<u64> = self.jobs.iter().filter(is_it).map(|job| job.id).collect();
        let how = format!("an operator skipped entry {index}: the rows of node {} count", kept.0);
        ids.into_iter().for_each(|id| self.end(id, now_ms, JobState::Cancelled, &how));
    }

    fn follow_job(&mut self, job: &Job, seen: &Seen) {
        let (id, now_ms) = (job.id, seen.now_ms);
        match (job.kind, job.node, job.set) {
            (JobKind::Drain | JobKind::Decommission | JobKind::Join, Some(node), _)
                if seen.is_silent(node) =>
            {
                let progress = "the node does not answer".to_owned();
                self.set_progress(id, now_ms, job.remaining, progress);
            }
            (JobKind::Join, ..) => {
                let progress = "it learns what all agree on".to_owned();
                self.set_progress(id, now_ms, job.remaining, progress);
            }
            (JobKind::Drain, Some(node), _) => match seen.leads.get(&node) {
                Some((0, true)) => {
                    self.end(id, now_ms, JobState::Done, "it leads nothing any more");
                }
                Some((leads, _)) => {
                    self.set_progress(id, now_ms, *leads, format!("it leads {leads} sets"));
                }
                None => {}
            },
            (JobKind::Decommission | JobKind::Remove, Some(node), _) => {
                let left = seen.members_on(node);
                let total = job.total.max(left);
                if left == 0 && job.kind == JobKind::Remove {
                    let how = "every set that it belonged to has its members elsewhere";
                    self.end(id, now_ms, JobState::Done, how);
                } else {
                    let progress = format!("{left} of {total} members are still to be moved");
                    self.set_progress(id, now_ms, left, progress);
                }
            }
            (JobKind::Heal, Some(node), Some(set)) => {
                let is_there = seen.nodes.iter().any(|(known, _)| *known == node);
                if !is_there {
                    self.end(id, now_ms, JobState::Cancelled, "its node is gone");
                } else if seen.is_silent(node) {
                    let progress = "the node does not answer".to_owned();
                    self.set_progress(id, now_ms, job.remaining, progress);
                } else if !seen.frozen.contains_key(&(set, node)) {
                    self.end(id, now_ms, JobState::Done, "a member takes part there again");
                } else if let Some(why) = seen.frozen.get(&(set, node))
                    && *why != job.reason
                {
                    self.set_progress(id, now_ms, job.remaining, why.clone());
                }
            }
            (JobKind::Move | JobKind::Heal, _, Some(set)) => self.follow_move(job, set, seen),
            _ => {}
        }
    }

    fn follow_move(&mut self, job: &Job, set: SetId, seen: &Seen) {
        let (id, now_ms) = (job.id, seen.now_ms);
        let Some(found) = seen.sets.iter().find(|it| it.set == set) else {
            // A map that is older than the decision has every set that it was about.
            return self.end(id, now_ms, JobState::Cancelled, "the set is gone");
        };
        let differs = |one: &Members, other: &Members| {
            let (come, go) = difference(one, other);
            !come.is_empty() || !go.is_empty()
        };
        if differs(&found.wanted, &job.wanted) {
            if now_ms.saturating_sub(job.started_ms) >= REPLACED_AFTER_MS {
                self.end(id, now_ms, JobState::Cancelled, "it was not agreed on");
            }
            return;
        }
        match &found.has {
            Some((has, is_changing)) => {
                let (come, go) = difference(has, &job.wanted);
                let left = (come.len() + go.len()) as u64;
                if left == 0 && !is_changing {
                    self.end(id, now_ms, JobState::Done, "its members are where they belong");
                } else {
                    self.set_progress(id, now_ms, left, moving(&come, &go));
                }
            }
            None => {
                let progress = "nobody leads the set".to_owned();
                self.set_progress(id, now_ms, job.remaining, progress);
            }
        }
    }

    fn follow_split(&mut self, split: &SplitSeen) {
        let is_it = |event: &super::journal::Event| {
            event.kind == EventKind::SetSplit && event.set == Some(split.set)
        };
        if split.at_ms <= self.forgotten_ms || self.events.iter().any(is_it) {
            return;
        }
        let (kind, set) = (EventKind::SetSplit, Some(split.set));
        let what = format!("set {} was split off in {}", split.set.0, split.space);
        let news = News { kind, job: None, node: None, set, what: &what, reason: split.reason };
        self.tell(split.at_ms, &news);
    }
}

fn moving(come: &[u64], go: &[u64]) -> String {
    match (come.is_empty(), go.is_empty()) {
        (false, false) => format!("nodes {come:?} are to come, nodes {go:?} to go"),
        (false, true) => format!("nodes {come:?} are to come"),
        (true, false) => format!("nodes {go:?} are to go"),
        (true, true) => "the change is being completed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(list: &[u64]) -> Vec<NodeId> {
        list.iter().map(|node| NodeId(*node)).collect()
    }

    fn set(number: u32, wanted: &[u64], has: &[u64]) -> SetSeen {
        let members = |list: &[u64]| (nodes(list), Vec::new());
        SetSeen { set: SetId(number), wanted: members(wanted), has: Some((members(has), false)) }
    }

    /// Four nodes that are up, with one set on the first three.
    fn seen(now_ms: i64) -> Seen {
        Seen {
            now_ms,
            nodes: (1..=4).map(|node| (NodeId(node), NodeState::Up)).collect(),
            alive: Some((1..=4).map(NodeId).collect()),
            sets: vec![set(7, &[1, 2, 3], &[1, 2, 3])],
            ..Seen::default()
        }
    }

    fn ask(seen: &mut Seen, node: u64, state: NodeState) {
        let found = seen.nodes.iter_mut().find(|(known, _)| known.0 == node).unwrap();
        found.1 = state;
    }

    /// The jobs as words.
    fn jobs(journal: &Journal) -> Vec<String> {
        let word = |job: &Job| {
            let (kind, state) = (job.kind.name(), job.state.name());
            format!("{kind} {state} {}/{}: {}", job.remaining, job.total, job.progress)
        };
        journal.jobs.iter().map(word).collect()
    }

    fn events(journal: &Journal) -> Vec<String> {
        let word = |it: &super::super::journal::Event| {
            format!("{}: {}: {}", it.kind.name(), it.what, it.reason)
        };
        journal.events.iter().map(word).collect()
    }

    fn begun() -> Journal {
        let mut journal = Journal::default();
        journal.follow(&seen(0));
        assert_eq!(events(&journal), [""; 0], "what was there from the beginning is no news");
        journal
    }

    #[test]
    fn what_is_seen_again_is_not_told_again() {
        let mut journal = begun();
        let mut now = seen(1);
        now.alive = Some([1, 2, 3].map(NodeId).into());
        now.splits = vec![SplitSeen {
            set: SetId(9),
            space: "shop".to_owned(),
            at_ms: 1,
            reason: "storage",
        }];
        ask(&mut now, 2, NodeState::Draining);
        journal.follow(&now);
        let told = [
            "job_begun: node 2 is drained: an operator asked for it",
            "node_down: node 4 is down: it is silent",
            "set_split: set 9 was split off in shop: storage",
        ];
        assert_eq!(events(&journal), told);
        let before = journal.clone();
        now.now_ms = 2;
        journal.follow(&now);
        assert_eq!(journal, before);
        // Whoever does not look after nodes says nothing of who is there.
        journal.follow(&Seen { alive: None, ..now });
        assert_eq!(journal, before);
    }

    #[test]
    fn a_drain_is_done_when_nothing_is_led_and_can_be_cancelled() {
        let mut journal = begun();
        let mut now = seen(1);
        ask(&mut now, 2, NodeState::Draining);
        let leads = |leads: u64, knows| BTreeMap::from([(NodeId(2), (leads, knows))]);
        now.leads = leads(3, false);
        journal.follow(&now);
        assert_eq!(jobs(&journal), ["drain running 3/3: it leads 3 sets"]);
        journal.follow(&Seen { leads: leads(0, false), ..now.clone() });
        assert_eq!(jobs(&journal), ["drain running 0/3: it leads 0 sets"], "of before");
        journal.follow(&Seen { leads: leads(1, true), ..now.clone() });
        assert_eq!(jobs(&journal), ["drain running 1/3: it leads 1 sets"]);
        let mut done = journal.clone();
        done.follow(&Seen { leads: leads(0, true), ..now.clone() });
        assert_eq!(jobs(&done), ["drain done 0/3: it leads nothing any more"]);
        done.follow(&seen(5));
        assert_eq!(jobs(&done), ["drain done 0/3: it leads nothing any more"]);
        assert!(
            events(&done).contains(
                &"node_up: node 2 may lead again: an operator ended the drain".to_owned()
            )
        );
        journal.follow(&seen(5));
        assert_eq!(jobs(&journal), ["drain cancelled 1/3: an operator cancelled it"]);
    }

    #[test]
    fn a_node_is_emptied_and_leaves_or_stays_or_dies() {
        let mut journal = begun();
        let mut now = seen(1);
        ask(&mut now, 2, NodeState::Leaving);
        journal.follow(&now);
        let running = "decommission running 1/1: 1 of 1 members are still to be moved";
        assert_eq!(jobs(&journal), [running]);
        let mut stays = journal.clone();
        stays.follow(&seen(2));
        assert_eq!(jobs(&stays), ["decommission cancelled 1/1: an operator cancelled it"]);
        let mut silent = journal.clone();
        silent.follow(&Seen { alive: Some([1, 3, 4].map(NodeId).into()), ..now.clone() });
        assert_eq!(jobs(&silent), ["decommission running 1/1: the node does not answer"]);
        // It goes with nothing left ...
        let mut gone = now.clone();
        gone.nodes.retain(|(node, _)| node.0 != 2);
        let mut left = journal.clone();
        left.follow(&Seen { sets: vec![set(7, &[1, 3, 4], &[1, 3, 4])], ..gone.clone() });
        assert_eq!(jobs(&left), ["decommission done 0/1: it holds nothing any more"]);
        assert!(
            events(&left).contains(&"node_left: node 2 left: it holds nothing any more".to_owned())
        );
        // ... or was removed, with a member.
        journal.follow(&gone);
        let failed = "decommission failed 1/1: the node was removed";
        let removing = "remove running 1/1: 1 of 1 members are still to be moved";
        assert_eq!(jobs(&journal), [failed, removing]);
        journal.follow(&Seen { sets: vec![set(7, &[1, 3, 4], &[1, 3, 4])], ..gone });
        let done = "remove done 0/1: every set that it belonged to has its members elsewhere";
        assert_eq!(jobs(&journal), [failed, done]);
    }

    #[test]
    fn a_node_joins() {
        let mut journal = begun();
        let mut now = seen(1);
        now.nodes.push((NodeId(5), NodeState::Joining));
        journal.follow(&now);
        assert_eq!(jobs(&journal), ["join running 0/0: the node does not answer"]);
        now.alive = Some((1..=5).map(NodeId).collect());
        journal.follow(&now);
        assert_eq!(jobs(&journal), ["join running 0/0: it learns what all agree on"]);
        ask(&mut now, 5, NodeState::Up);
        journal.follow(&now);
        assert_eq!(jobs(&journal), ["join done 0/0: it has what all agree on"]);
        let told = events(&journal);
        assert!(told.contains(&"node_joined: node 5 joined: it has what all agree on".to_owned()));
        // One that is up when it is first seen is told of as well.
        now.nodes.push((NodeId(6), NodeState::Up));
        now.alive = Some((1..=6).map(NodeId).collect());
        journal.follow(&now);
        assert_eq!(jobs(&journal), ["join done 0/0: it has what all agree on"; 2]);
    }

    #[test]
    fn a_member_that_takes_part_in_nothing_is_replaced_on_its_node() {
        let mut journal = begun();
        let why = "it applied something else than most".to_owned();
        let now = Seen { frozen: BTreeMap::from([((SetId(7), NodeId(2)), why)]), ..seen(1) };
        journal.follow(&now);
        journal.follow(&now);
        assert_eq!(jobs(&journal), ["heal running 1/1: begun"]);
        let told =
            "job_begun: set 7 gets a new member on node 2: it applied something else than most";
        assert_eq!(events(&journal), [told]);
        // The set may get other members meanwhile.
        let has = (nodes(&[1, 2, 3]), Vec::new());
        let wanted = (nodes(&[1, 2, 4]), Vec::new());
        journal.begin_move(1, SetId(7), (&has, wanted), (JobKind::Move, "another reason"));
        assert_eq!(jobs(&journal)[0], "heal running 1/1: begun");
        let mut silent = journal.clone();
        silent.follow(&Seen { alive: Some([1, 3, 4].map(NodeId).into()), ..seen(2) });
        assert_eq!(jobs(&silent)[0], "heal running 1/1: the node does not answer");
        journal.follow(&seen(2));
        assert_eq!(jobs(&journal)[0], "heal done 0/1: a member takes part there again");
    }

    #[test]
    fn a_set_moves_and_every_end_is_told() {
        let has = (nodes(&[1, 2, 3]), Vec::new());
        let wanted = || (nodes(&[1, 2, 4]), Vec::new());
        let begin = || {
            let mut journal = begun();
            let why = (JobKind::Heal, "node 3 has been silent for 10 min");
            journal.begin_move(1, SetId(7), (&has, wanted()), why);
            journal
        };
        let mut journal = begin();
        let running = "heal running 2/2: nodes [4] are to come, nodes [3] to go";
        assert_eq!(jobs(&journal), [running]);
        // The map is not known yet: it is waited for, and then given up.
        journal.follow(&seen(2));
        assert_eq!(jobs(&journal), [running]);
        journal.follow(&seen(1 + REPLACED_AFTER_MS));
        assert_eq!(jobs(&journal), ["heal cancelled 2/2: it was not agreed on"]);

        let mut journal = begin();
        let mut now = Seen { sets: vec![set(7, &[1, 2, 4], &[1, 2, 3, 4])], ..seen(2) };
        journal.follow(&now);
        assert_eq!(jobs(&journal), ["heal running 1/2: nodes [3] are to go"]);
        now.sets = vec![set(7, &[1, 2, 4], &[1, 2, 4])];
        journal.follow(&now);
        assert_eq!(jobs(&journal), ["heal done 0/2: its members are where they belong"]);

        let mut journal = begin();
        journal.follow(&Seen { sets: Vec::new(), ..seen(2) });
        assert_eq!(jobs(&journal), ["heal cancelled 2/2: the set is gone"]);

        let mut journal = begin();
        let again = (nodes(&[1, 2, 3, 4]), Vec::new());
        journal.begin_move(2, SetId(7), (&has, again), (JobKind::Move, "another reason"));
        let first = "heal cancelled 2/2: something else was decided";
        assert_eq!(jobs(&journal), [first, "move running 1/1: nodes [4] are to come"]);
    }
}
