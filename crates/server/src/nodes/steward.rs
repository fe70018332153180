//! Who sees to it that sets are where they belong. Every node tells how it is, and hands its leaderships over when it is to rest;
//! the one that leads the set of what all agree on decides (`partition::decide`), by changing the map. The leaders of the sets do it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use coordinator::Catalog;
use parking_lot::Mutex;
use partition::decide::NodeState;
use partition::decide::{Bounds, NodeView, Reason, SetView, Step, decide, waiting};
use replica::group::{MemberStatus, Role, SYSTEM_SET};
use types::{NodeId, SetId};

use super::facts::{Note, SetFacts};
use super::journal::{EventKind, JobKind, News};
use super::record::led_sets;
use super::{NodeFacts, Nodes};
use crate::world;

/// How often it is looked what is to be done.
const ROUND: Duration = Duration::from_millis(250);
/// Every so many rounds nodes tell how they are.
const TOLD_ROUNDS: u64 = 2;
/// Every so many rounds a node that nobody listens to asks why.
const ASKED_ROUNDS: u64 = 8;
/// Every so many rounds it is kept how far the logs of the others are.
const STANDINGS_ROUNDS: u64 = 4;
/// Every so many rounds a node measures how it works, and every so many all nodes are judged by what they told.
const MEASURED_ROUNDS: u64 = 40;
const JUDGED_ROUNDS: u64 = 4;
/// Every so many rounds it is decided where sets belong.
const DECIDED_ROUNDS: u64 = 2;
/// A node tells of so many members that take part in nothing.
const FROZEN_TOLD_MAX: usize = 64;
/// Who was asked to lead counts as leader for so long.
const LED_WITHIN: Duration = Duration::from_secs(3);
/// About so many bytes are on their way to a node at once ...
const MOVED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// ... in no more sets than this.
const CHANGES_PER_NODE_MAX: usize = 16;
/// A set has this many bytes at least, for those who weigh.
const SET_BYTES_MIN: u64 = 1024 * 1024;

/// One node's part in looking after the sets.
pub(crate) struct Steward {
    pub(super) nodes: Arc<Nodes>,
    pub(super) catalog: Arc<Catalog>,
    host_id: u128,
    /// Who was asked to lead which set, and when: what is told of it may be older.
    asked_to_lead: Mutex<BTreeMap<SetId, (NodeId, Instant)>>,
}

impl Steward {
    pub(crate) fn new(nodes: Arc<Nodes>, catalog: Arc<Catalog>, host_id: u128) -> Arc<Steward> {
        let asked_to_lead = Mutex::default();
        Arc::new(Steward { nodes, catalog, host_id, asked_to_lead })
    }

    /// Looks again and again, until the node is removed or the task ends.
    pub(crate) async fn run(self: Arc<Steward>) {
        let mut rounds = tokio::time::interval(ROUND);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for number in 0_u64.. {
            rounds.tick().await;
            if number % ASKED_ROUNDS == ASKED_ROUNDS - 1 {
                // Whoever does not answer holds up nothing else.
                let nodes = Arc::clone(&self.nodes);
                tokio::spawn(async move { nodes.ask_whether_removed().await });
            }
            let steward = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || steward.look(number));
            if looked.await.is_err() {
                tracing::error!("looking after the sets panicked");
            }
        }
    }

    fn look(&self, number: u64) {
        if self.nodes.is_removed() {
            return;
        }
        self.nodes.look_whether_caught_up();
        self.nodes.look_after_recovery();
        if number % STANDINGS_ROUNDS == STANDINGS_ROUNDS - 1 {
            self.nodes.keep_standings();
        }
        self.nodes.unpin_gone();
        if number.is_multiple_of(MEASURED_ROUNDS) {
            self.nodes.measure_pace();
        }
        if number.is_multiple_of(JUDGED_ROUNDS) {
            self.nodes.judge_paces();
        }
        let told = self.nodes.groups.told();
        if number.is_multiple_of(TOLD_ROUNDS) {
            self.tell_facts();
        }
        if matches!(self.nodes.own_state(), NodeState::Draining | NodeState::Leaving) {
            told.members.iter().for_each(|member| self.hand_over(member));
        }
        let leads = |it: &MemberStatus| it.role == Role::Leader;
        if number.is_multiple_of(DECIDED_ROUNDS) && told.member(SYSTEM_SET).is_some_and(leads) {
            self.look_after_nodes();
            self.look_after_sets();
            self.hand_on_if_slow();
        }
    }

    /// Whoever decides is as slow as its disk: when it is slow and leads nothing else any more, another one decides.
    fn hand_on_if_slow(&self) {
        let told = self.nodes.groups.told();
        let mut led = told.members.iter().filter(|it| it.role == Role::Leader);
        if let (Some(system), None) = (led.next(), led.next())
            && self.nodes.slowness(self.nodes.own()).is_some()
        {
            self.hand_over(system);
        }
    }

    /// What this node leads is led by another: the one that has most of the log, and is not slow.
    fn hand_over(&self, member: &MemberStatus) {
        if member.role != Role::Leader {
            return;
        }
        let told = self.nodes.groups.told();
        let membership = self.nodes.membership();
        let may_lead = |node: NodeId| {
            let state = membership.members.iter().find(|it| it.node == node).map(|it| it.state);
            node != membership.own
                && member.voters.contains(&node)
                && told.alive.contains(&node)
                && matches!(state, Some(NodeState::Up))
        };
        let heirs = member.matched.iter().filter(|(node, _)| may_lead(*node));
        let is_well = |node: NodeId| self.nodes.slowness(node).is_none();
        let best = heirs.max_by_key(|(node, matched)| (is_well(*node), *matched));
        if let Some((heir, _)) = best {
            self.nodes.groups.hand_leadership(member.set, *heir);
        }
    }

    fn tell_facts(&self) {
        let facts = self.own_facts();
        let note = Note::Facts(facts.clone()).encode();
        let own = self.nodes.own();
        self.nodes.take_facts(own, facts);
        for node in self.nodes.groups.told().alive.iter().filter(|node| **node != own) {
            self.nodes.groups.note(*node, note.clone());
        }
    }

    fn own_facts(&self) -> NodeFacts {
        let folder = self.nodes.storage.data_dir().path().to_owned();
        let free_bytes =
            rustix::fs::statvfs(&folder).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize));
        let sizes: BTreeMap<u32, (u64, u64)> = self
            .catalog
            .physical_partitions(self.host_id)
            .into_iter()
            .map(|it| (it.id, (it.bytes, it.ru_s as u64)))
            .collect();
        let told = self.nodes.groups.told();
        let led = told.members.iter().filter(|it| it.role == Role::Leader && it.set != SYSTEM_SET);
        let set = |member: &MemberStatus| {
            let (bytes, ru_s) = sizes.get(&member.set.0).copied().unwrap_or_default();
            SetFacts {
                set: member.set,
                term: member.term,
                voters: member.voters.clone(),
                learners: member.learners.clone(),
                is_changing: member.is_changing,
                is_joint: member.is_joint,
                bytes,
                ru_s,
            }
        };
        // Of a disk that others use as well, what they take is none of this node's room.
        let held = told.members.iter().filter_map(|it| sizes.get(&it.set.0));
        let disk_bytes = held.fold(free_bytes, |sum, (bytes, _)| sum.saturating_add(*bytes));
        let follows = self.nodes.followed.load(Ordering::Acquire);
        let frozen = told.members.iter().filter_map(|it| Some((it.set, it.frozen.clone()?)));
        let frozen = frozen.take(FROZEN_TOLD_MAX).collect();
        let health = self.nodes.health.lock().clone();
        let (sets, pace) = (led.map(set).collect(), self.nodes.own_pace());
        NodeFacts { disk_bytes, free_bytes, follows, sets, frozen, pace, health }
    }

    /// Nodes that came are up when they know what all agree on; nodes that are empty go.
    fn look_after_nodes(&self) {
        let membership = self.nodes.membership();
        let told = self.nodes.groups.told();
        let followed = self.nodes.followed.load(Ordering::Acquire);
        let (_, sets) = self.views();
        let heard: BTreeMap<NodeId, NodeFacts> = self.nodes.heard_facts().into_iter().collect();
        // Of every set it must be known from who leads it now that the node has no part in it, neither before nor after a change.
        let is_empty = |node: NodeId| {
            let is_without = |it: &SetView| {
                let has = it.voters.contains(&node) || it.learners.contains(&node);
                it.leader.is_some() && !it.is_changing && !has
            };
            let leads = |it: &MemberStatus| !it.is_changing && !it.voters.contains(&node);
            let by_map = self.catalog.member_counts().get(&node).copied().unwrap_or(0);
            by_map == 0 && sets.iter().all(is_without) && told.member(SYSTEM_SET).is_some_and(leads)
        };
        for member in &membership.members {
            let is_here = told.alive.contains(&member.node);
            let knows = heard.get(&member.node).is_some_and(|it| it.follows >= followed);
            match member.state {
                NodeState::Joining if is_here && knows => {
                    self.set_state(member.node, NodeState::Up);
                }
                NodeState::Leaving if is_empty(member.node) => self.let_go(member.node),
                _ => {}
            }
        }
    }

    fn set_state(&self, node: NodeId, state: NodeState) {
        let changed = self.nodes.change(&mut |roster| {
            if let Some(member) = roster.node_mut(node) {
                member.state = state;
            }
            Ok(())
        });
        if let Err(error) = changed {
            tracing::debug!(%error, "a node's state cannot be changed yet");
        }
    }

    fn let_go(&self, node: NodeId) {
        let changed = self.nodes.change(&mut |roster| {
            // It may have been told to stay meanwhile.
            let is_leaving = roster.node(node).is_some_and(|it| it.state == NodeState::Leaving);
            if is_leaving {
                roster.remove(node);
            }
            Ok(is_leaving)
        });
        if let Ok(true) = changed {
            tracing::info!(node = node.0, "a node left: it holds nothing any more");
        }
    }

    /// The nodes and the sets as they are, for those who decide.
    pub(crate) fn views(&self) -> (Vec<NodeView>, Vec<SetView>) {
        let membership = self.nodes.membership();
        let told = self.nodes.groups.told();
        let heard: BTreeMap<NodeId, NodeFacts> = self.nodes.heard_facts().into_iter().collect();
        let sets = self.set_views(&heard, &told.alive);
        let mut nodes: Vec<NodeView> = membership
            .members
            .iter()
            .map(|member| {
                let facts = heard.get(&member.node);
                NodeView {
                    node: member.node,
                    rack: Arc::from(member.rack.as_str()),
                    state: member.state,
                    is_alive: told.alive.contains(&member.node),
                    silent_ms: self.nodes.silent_for(member.node).as_millis() as u64,
                    disk_bytes: facts.map_or(0, |it| it.disk_bytes),
                    free_bytes: facts.map_or(0, |it| it.free_bytes),
                    slow: self.nodes.slowness(member.node),
                }
            })
            .collect();
        // Who went for good and still has members of sets.
        let known: BTreeSet<NodeId> = nodes.iter().map(|it| it.node).collect();
        let gone: BTreeSet<NodeId> = sets
            .iter()
            .flat_map(|it| it.voters.iter().chain(&it.learners))
            .copied()
            .filter(|node| !known.contains(node))
            .collect();
        nodes.extend(gone.into_iter().map(|node| NodeView {
            node,
            rack: Arc::from(""),
            state: NodeState::Removed,
            is_alive: false,
            silent_ms: u64::MAX,
            disk_bytes: 0,
            free_bytes: 0,
            slow: None,
        }));
        (nodes, sets)
    }

    fn set_views(
        &self,
        heard: &BTreeMap<NodeId, NodeFacts>,
        alive: &BTreeSet<NodeId>,
    ) -> Vec<SetView> {
        let led = led_sets(heard, alive);
        let mut asked = self.asked_to_lead.lock();
        asked.retain(|_, (_, at)| world::now().saturating_duration_since(*at) < LED_WITHIN);
        let mut views = Vec::new();
        for (set, voters, learners) in self.catalog.placed_sets() {
            let same = |one: &[NodeId], other: &[NodeId]| {
                one.iter().collect::<BTreeSet<_>>() == other.iter().collect::<BTreeSet<_>>()
            };
            // Who is wanted and does not answer holds nothing up: it is decided anew.
            let comes = |facts: &SetFacts| {
                let all = voters.iter().chain(&learners);
                let mut missing = all.filter(|node| !facts.voters.contains(node));
                missing.all(|node| alive.contains(node))
            };
            views.push(match led.get(&set) {
                Some((leader, facts)) => SetView {
                    set,
                    voters: facts.voters.clone(),
                    // Who is on its way counts from the beginning.
                    learners: coming(facts, &voters, &learners),
                    leader: Some(match asked.get(&set) {
                        Some((node, _)) if facts.voters.contains(node) => *node,
                        _ => *leader,
                    }),
                    bytes: facts.bytes.max(SET_BYTES_MIN),
                    ru_s: facts.ru_s,
                    is_changing: (facts.is_changing
                        || !same(&facts.voters, &voters)
                        || !same(&facts.learners, &learners))
                        && (facts.is_joint || comes(facts)),
                },
                // Nobody leads it, or that was not heard yet: nothing can be changed.
                None => SetView {
                    set,
                    voters,
                    learners,
                    leader: None,
                    bytes: SET_BYTES_MIN,
                    ru_s: 0,
                    is_changing: true,
                },
            });
        }
        views
    }

    fn bounds(&self, sets: &[SetView]) -> Bounds {
        let heal_after_ms = u64::try_from(self.nodes.heal_after.as_millis()).unwrap_or(u64::MAX);
        let defaults = Bounds::default();
        // Small sets move many at once: what counts is how much is on its way.
        let mean = sets.iter().map(|it| it.bytes).sum::<u64>() / sets.len().max(1) as u64;
        let at_once = usize::try_from(MOVED_BYTES_MAX / mean.max(1)).unwrap_or(usize::MAX);
        let changes_per_node_max =
            at_once.clamp(defaults.changes_per_node_max, CHANGES_PER_NODE_MAX);
        Bounds { heal_after_ms, changes_per_node_max, ..defaults }
    }

    /// Decides, and writes down what and why before it is done; what came of earlier decisions is written with it.
    fn look_after_sets(&self) {
        let (nodes, sets) = self.views();
        let steps = decide(&nodes, &sets, &self.bounds(&sets));
        let now_ms = world::now_us() / 1000;
        let recorded = self.record(true, &mut |journal| {
            for step in &steps {
                match step {
                    Step::Change { set, voters, learners, reason } => {
                        let found = sets.iter().find(|it| it.set == *set);
                        let has = found.map(|it| (it.voters.clone(), it.learners.clone()));
                        let members =
                            (&has.unwrap_or_default(), (voters.clone(), learners.clone()));
                        let kind = match reason {
                            Reason::Silent { .. } | Reason::Removed { .. } => JobKind::Heal,
                            _ => JobKind::Move,
                        };
                        journal.begin_move(now_ms, *set, members, (kind, &reason.to_string()));
                    }
                    Step::Lead { set, node, reason } => journal.tell(
                        now_ms,
                        &News {
                            kind: EventKind::Lead,
                            job: None,
                            node: Some(*node),
                            set: Some(*set),
                            what: &format!("node {} leads set {}", node.0, set.0),
                            reason: &reason.to_string(),
                        },
                    ),
                }
            }
        });
        if let Err(error) = recorded {
            // What is decided is done in any case: sets do not wait for what is told of them.
            tracing::debug!(%error, "what was decided cannot be written down");
        }
        let mut placed = Vec::new();
        for step in steps {
            match step {
                Step::Change { set, voters, learners, reason } => {
                    tracing::info!(set = set.0, ?voters, ?learners, %reason, "a set is moved");
                    placed.push((set, voters, learners));
                }
                Step::Lead { set, node, reason } => {
                    tracing::info!(set = set.0, node = node.0, %reason, "a node is to lead a set");
                    let leader = sets.iter().find(|it| it.set == set).and_then(|it| it.leader);
                    self.asked_to_lead.lock().insert(set, (node, world::now()));
                    match leader {
                        Some(leader) if leader == self.nodes.own() => {
                            self.nodes.groups.hand_leadership(set, node);
                        }
                        Some(leader) => {
                            let note = Note::Lead { set, to: node }.encode();
                            self.nodes.groups.note(leader, note);
                        }
                        None => {}
                    }
                }
            }
        }
        if !placed.is_empty()
            && let Err(error) = self.catalog.place_sets(&placed)
        {
            tracing::warn!(%error, "sets cannot be given other members yet");
        }
    }

    /// What is wanted and cannot be done, and why.
    pub(crate) fn waits_for(&self) -> Vec<String> {
        let (nodes, sets) = self.views();
        waiting(&nodes, &sets, &self.bounds(&sets))
    }

    /// Sets whose members are being changed, as far as is known here.
    pub(crate) fn moving(&self) -> Vec<SetId> {
        let (_, sets) = self.views();
        sets.into_iter()
            .filter(|it| it.is_changing && it.leader.is_some())
            .map(|it| it.set)
            .collect()
    }
}

/// The members of a set that only follow, and those that are wanted and not there yet.
fn coming(facts: &SetFacts, voters: &[NodeId], learners: &[NodeId]) -> Vec<NodeId> {
    let mut all = facts.learners.clone();
    let wanted = voters.iter().chain(learners).copied();
    let is_new = |node: &NodeId| !facts.voters.contains(node) && !facts.learners.contains(node);
    all.extend(wanted.filter(is_new));
    all
}
