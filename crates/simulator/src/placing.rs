//! Whoever places members: sets are moved, grow and shrink, and members that lost their disks are replaced.

use std::collections::{BTreeMap, BTreeSet};

use node_log::simulated_disk::Random;
use replica::group::{ChangeState, Goal, WantedMembers};
use storage::Configuration;
use types::{NodeId, ReplicaId, SetId};

use crate::coverage::MOVE;
use crate::machine::OldImage;
use crate::tables::{Ask, COUNTERS, REGISTERS};
use crate::world::{Event, MS, World};

/// A machine with an old image of its disk has so long to do harm.
const OLD_IMAGE_US: u64 = 1_500 * MS;

/// Who asked for something lately.
const LATELY: usize = 60;

/// Who is to belong to a set.
#[derive(Clone, Debug)]
pub(crate) enum Want {
    /// These members.
    Members(Goal),
    /// Members of these nodes; the leader finds out which, as nodes of a cluster do.
    Nodes(WantedMembers),
}

/// What is wanted, and what was lost.
pub(crate) struct Placing {
    pub(crate) wanted: BTreeMap<SetId, Want>,
    /// Nodes that never come back.
    lost: BTreeSet<NodeId>,
    /// Members that applied something else than most, and were found out.
    wrong: BTreeSet<(SetId, ReplicaId)>,
    /// All that did.
    spoiled: BTreeSet<(SetId, ReplicaId)>,
    next_replica: u64,
    next_node: u64,
    /// So many voters every set has, if that does not vary.
    voters: Option<usize>,
    /// Nobody crashes before then.
    pub(crate) calm_until_us: u64,
}

impl Placing {
    pub(crate) fn new(node_count: u64, voters: Option<usize>) -> Placing {
        Placing {
            voters,
            wanted: BTreeMap::new(),
            lost: BTreeSet::new(),
            wrong: BTreeSet::new(),
            spoiled: BTreeSet::new(),
            next_replica: 0,
            next_node: node_count,
            calm_until_us: 0,
        }
    }

    fn size(&self, random: &mut Random, nodes: usize) -> usize {
        self.voters.map_or_else(|| size(random, nodes), |voters| voters.min(nodes))
    }

    fn replica(&mut self) -> ReplicaId {
        self.next_replica += 1;
        ReplicaId(self.next_replica)
    }

    /// The members that a set begins with.
    pub(crate) fn first_members(
        &mut self,
        set: SetId,
        mut nodes: Vec<NodeId>,
        random: &mut Random,
        are_many: bool,
    ) -> Configuration {
        let count = if are_many { nodes.len() } else { self.size(random, nodes.len()) };
        shuffle(&mut nodes, random);
        nodes.truncate(count);
        nodes.sort_unstable();
        let members = nodes.into_iter().map(|node| (self.replica(), node)).collect::<Vec<_>>();
        assert!(!members.is_empty(), "set {} has members", set.0);
        Configuration::of_voters(members)
    }
}

/// How many voters a set has: four if there are enough nodes, mostly.
fn size(random: &mut Random, nodes: usize) -> usize {
    match random.below(6) {
        0 => 1,
        1 | 2 => 3.min(nodes),
        _ => 4.min(nodes),
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for place in (1..items.len()).rev() {
        items.swap(place, random.below(place as u64 + 1) as usize);
    }
}

impl World {
    /// Who belongs to a set, as the one with the highest term that leads it knows.
    pub(crate) fn configuration_of(&self, set: SetId) -> Option<Configuration> {
        let leaders = self.machines.iter().filter_map(|machine| {
            let core = machine.running.as_ref()?.host.core();
            let state = core.state(set)?;
            core.leads(set).then(|| (state.term, state.configuration.clone()))
        });
        leaders.max_by_key(|(term, _)| *term).map(|(_, configuration)| configuration)
    }

    /// The machines of a set's members; none if nobody leads it.
    pub(crate) fn members_of(&self, set: SetId) -> Vec<usize> {
        let Some(configuration) = self.configuration_of(set) else { return Vec::new() };
        let place = |node: NodeId| self.machines.iter().position(|it| it.node == node);
        configuration.nodes.iter().filter_map(|(_, node)| place(*node)).collect()
    }

    /// Asks for what is wanted, again and again, of whoever leads.
    pub(crate) fn place(&mut self) {
        self.draw_atlas();
        for set in self.sets.clone() {
            self.replace_lost(set);
            let Some(want) = self.placing.wanted.get(&set).cloned() else { continue };
            for machine in 0..self.machines.len() {
                let Some(host) = self.host(machine) else { continue };
                if !host.core().leads(set) {
                    continue;
                }
                let state = match &want {
                    Want::Members(goal) => host.change_members(set, goal.clone()),
                    Want::Nodes(nodes) => host.change_nodes(set, nodes),
                };
                self.settle(machine);
                match state {
                    ChangeState::Done | ChangeState::Refused(_) => {
                        self.tell(|| format!("set {}: {state:?} of {want:?}", set.0));
                        self.placing.wanted.remove(&set);
                        break;
                    }
                    ChangeState::NotLeader(_) | ChangeState::UnderWay => {}
                }
            }
        }
    }

    /// What is known of where sets lie is brought up to date.
    fn draw_atlas(&mut self) {
        let nodes = self.machines.iter().map(|it| it.node).collect();
        let mut members = Vec::new();
        for set in &self.sets {
            let Some(configuration) = self.configuration_of(*set) else { continue };
            let all = configuration.voters.iter().chain(&configuration.learners);
            let nodes = all.filter_map(|replica| configuration.node_of(*replica)).collect();
            members.push((*set, nodes));
        }
        let mut atlas = self.atlas.lock();
        atlas.nodes = nodes;
        atlas.members.extend(members);
    }

    /// A member that lost its disk is replaced.
    fn replace_lost(&mut self, set: SetId) {
        if self.placing.wanted.contains_key(&set) {
            return;
        }
        let Some(configuration) = self.configuration_of(set) else { return };
        self.note_wrong(set);
        let is_lost = |(replica, node): &(ReplicaId, NodeId)| {
            self.placing.lost.contains(node) || self.placing.wrong.contains(&(set, *replica))
        };
        if !configuration.nodes.iter().any(is_lost) || configuration.is_joint() {
            return;
        }
        // Where all nodes are there the wrong ones are replaced where they are, mostly: what a cluster does.
        let is_there = |node: &NodeId| !self.placing.lost.contains(node);
        let nodes = |members: &[ReplicaId]| {
            let nodes = members.iter().filter_map(|it| configuration.node_of(*it));
            nodes.collect::<BTreeSet<NodeId>>().into_iter().collect::<Vec<_>>()
        };
        // One that comes in the place of a wrong one is on the same node.
        let voters = nodes(&configuration.voters);
        let mut learners = nodes(&configuration.learners);
        learners.retain(|node| !voters.contains(node));
        let wanted = WantedMembers { voters, learners };
        if wanted.voters.iter().chain(&wanted.learners).all(is_there) && self.random.below(4) != 0 {
            self.tell(|| format!("set {} is to be on the same nodes", set.0));
            self.count("member replaced where it is");
            self.note_begun(MOVE);
            self.placing.wanted.insert(set, Want::Nodes(wanted));
        } else {
            let size = configuration.voters.len();
            self.want(set, &configuration, size);
        }
    }

    /// Wants so many voters for a set, on any nodes that live.
    fn want(&mut self, set: SetId, configuration: &Configuration, size: usize) {
        let mut nodes: Vec<NodeId> = self.machines.iter().map(|it| it.node).collect();
        nodes.retain(|node| !self.placing.lost.contains(node));
        shuffle(&mut nodes, &mut self.random);
        let mut members = Vec::new();
        for node in nodes.into_iter().take(size) {
            let known = configuration.replica_on(node);
            let known = known.filter(|replica| !self.placing.wrong.contains(&(set, *replica)));
            members.push((known.unwrap_or_else(|| self.placing.replica()), node));
        }
        let learners = match size == 1 || self.random.below(8) != 0 {
            true => Vec::new(),
            false => members.pop().into_iter().collect(),
        };
        let goal = Goal { voters: members, learners };
        self.tell(|| format!("set {} is to be {goal:?}", set.0));
        self.note_begun(MOVE);
        self.placing.wanted.insert(set, Want::Members(goal));
    }

    /// Whether a member of a set differs, found out or not.
    pub(crate) fn has_spoiled(&self, set: SetId, configuration: &Configuration) -> bool {
        let mut members = configuration.nodes.iter();
        members.any(|(replica, _)| self.placing.spoiled.contains(&(set, *replica)))
    }

    /// A set was split off another, with the sums of its members.
    pub(crate) fn inherit_spoiled(&mut self, from: SetId, to: SetId) {
        let known = self.placing.spoiled.iter().filter(|(set, _)| *set == from);
        let inherited: Vec<_> = known.map(|(_, replica)| (to, *replica)).collect();
        self.placing.spoiled.extend(inherited);
    }

    /// Members that were found to be wrong.
    fn note_wrong(&mut self, set: SetId) {
        for machine in &self.machines {
            let Some(running) = machine.running.as_ref() else { continue };
            let told = running.host.wrong_members().into_iter();
            self.placing.wrong.extend(told.filter(|it| it.0 == set));
            let status = running.host.core().status_of(set);
            let frozen = status.filter(|status| status.frozen.is_some());
            self.placing.wrong.extend(frozen.map(|status| (set, status.replica)));
        }
        if let Some(replica) = self.placing.wrong.difference(&self.placing.spoiled).next() {
            self.report.finding = Some(format!("member {replica:?} is taken for wrong"));
        }
    }

    /// A member applies something else than the others, as far as its sum tells.
    pub(crate) fn spoil(&mut self, machine: usize) {
        let set = self.sets[self.random.below(self.sets.len() as u64) as usize];
        let table = if self.random.below(2) == 0 { REGISTERS } else { COUNTERS };
        // What nobody writes to is not compared.
        let lately = self.asked.iter().rev().take(LATELY);
        let has_keys = self.keys().any(|key| self.true_set_of(key) == Some(set));
        if lately.filter(|it| it.set == set && it.ask != Ask::Read).count() < 2 || !has_keys {
            return;
        }
        let Some(running) = self.machines[machine].running.as_ref() else { return };
        let Some(replica) = running.host.core().replica(set) else { return };
        // One that leads would hand its sum over with its rows; and it is to be found before it does.
        let leads = running.host.core().leads(set) || !self.placing.spoiled.is_empty();
        // Until it is found everybody must be heard: with too few nobody can tell who is right, and one that leads then hands its
        // sum over with its rows.
        let is_heard = self.links.values().all(|link| !link.is_cut);
        let is_calm = self.machines.iter().all(|it| {
            it.running.as_ref().is_some_and(|running| running.paused_until_us <= self.now_us)
        }) && is_heard;
        let is_known = running.storage.checksum(set, table).unwrap() != 0;
        if !self.is_spare(machine) || leads || !is_calm || !is_known {
            return;
        }
        running.storage.spoil_checksum(set, table);
        self.placing.spoiled.insert((set, replica));
        self.placing.calm_until_us = self.placing.calm_until_us.max(self.now_us + 4_000 * MS);
        self.count_for("member that differs", 4_000 * MS);
    }

    /// A set gets other members, more of them, or fewer.
    pub(crate) fn move_a_set(&mut self) {
        let set = self.sets[self.random.below(self.sets.len() as u64) as usize];
        if self.placing.wanted.contains_key(&set) {
            return;
        }
        let Some(configuration) = self.configuration_of(set) else { return };
        if self.has_spoiled(set, &configuration) {
            return;
        }
        self.count("members move");
        let size = self.placing.size(&mut self.random, self.machines.len());
        self.want(set, &configuration, size);
    }

    /// Whether every set can do without what a machine knows.
    fn is_spare(&self, machine: usize) -> bool {
        let node = self.machines[machine].node;
        self.sets.iter().all(|set| {
            let Some(configuration) = self.configuration_of(*set) else { return false };
            let voters = configuration.voters.iter();
            let is_lost = |it: &&ReplicaId| {
                let on = configuration.node_of(**it);
                self.placing.spoiled.contains(&(*set, **it))
                    || on.is_none_or(|on| on == node || self.placing.lost.contains(&on))
            };
            let lost = voters.filter(is_lost).count();
            let has_member = configuration.nodes.iter().any(|(_, known)| *known == node);
            let is_moving = self.placing.wanted.contains_key(set) || configuration.is_joint();
            !is_moving && (!has_member || lost * 2 < configuration.voters.len())
        })
    }

    /// A machine loses its disk, and comes back as another node.
    pub(crate) fn lose_disk(&mut self, machine: usize) {
        let runs = self.machines[machine].running.is_some();
        if !runs || !self.is_spare(machine) || self.now_us < self.placing.calm_until_us {
            return;
        }
        let down_us = 50 * MS + self.random.below(1_500 * MS);
        self.count_for("disk lost", down_us);
        self.crash(machine, true, down_us);
        self.exchange_disk(machine);
    }

    fn exchange_disk(&mut self, machine: usize) {
        self.placing.lost.insert(self.machines[machine].node);
        self.placing.next_node += 1;
        let node = NodeId(self.placing.next_node);
        self.tell(|| format!("machine {machine} is {node} from now on"));
        self.machines[machine].wipe(node);
    }

    /// A copy of a disk is kept, and brought back later.
    pub(crate) fn keep_image(&mut self, machine: usize) {
        if self.machines.iter().any(|it| it.running.is_none()) {
            return;
        }
        let boots = self.machines.iter().map(|it| it.boots).collect();
        let after_us = 100 * MS + self.random.below(1_500 * MS);
        if let Some(image) = self.machines[machine].image(machine, boots) {
            self.at(after_us, Event::OldImage(Box::new(image)));
        }
    }

    /// A machine comes back with an old image of its disk. Others remember what it said as long as they run; one that it did not
    /// say anything to since then cannot know better.
    pub(crate) fn bring_old_image(&mut self, image: OldImage) {
        let machine = image.machine;
        let boots: Vec<u64> = self.machines.iter().map(|it| it.boots).collect();
        let is_known = boots == image.boots
            && self.machines.iter().all(|it| it.running.is_some())
            && self.machines[machine].node == image.node
            && self.machines.iter().filter(|it| it.node != image.node).all(|other| {
                let running = other.running.as_ref();
                running.is_some_and(|it| it.host.synced_of(image.node) > image.synced)
            });
        let is_calm = self.now_us >= self.placing.calm_until_us;
        if !is_known || !is_calm || self.is_healing || !self.is_spare(machine) {
            return;
        }
        self.count_for("old image of a disk", OLD_IMAGE_US);
        self.placing.lost.insert(image.node);
        self.crash(machine, false, 5 * MS);
        self.machines[machine].bring(image);
        self.placing.calm_until_us = self.now_us + OLD_IMAGE_US;
        self.at(OLD_IMAGE_US, Event::Wipe(machine));
    }

    /// A machine with an old image is noticed by people, and gets an empty disk.
    pub(crate) fn wipe(&mut self, machine: usize) {
        let refused =
            self.machines[machine].running.as_ref().is_some_and(|it| it.host.refused().is_some());
        if refused {
            self.count("old image refused");
        }
        self.placing.calm_until_us = 0;
        let down_us = 50 * MS;
        self.crash(machine, false, down_us);
        self.exchange_disk(machine);
    }
}
