//! Which nodes are alive, how far their logs are, and what time it is for all of them.

use smallvec::SmallVec;

use super::*;
use crate::group::node_wire::KIND_STANDING_OF_START;

impl Host {
    /// The nodes of a set's members count as alive until they were silent for a while.
    pub(super) fn hear_of(&mut self, state: &GroupState) {
        let is_there = |node: &NodeId| {
            *node != self.node && self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
        };
        for (_, node) in state.configuration.nodes.iter().filter(|(_, node)| is_there(node)) {
            let peer = Peer::new(self.now.ms);
            self.peers.entry(*node).or_insert(peer);
        }
    }

    pub(super) fn is_alive(&self, node: NodeId) -> bool {
        node == self.node || self.peers.get(&node).is_some_and(|peer| self.is_heard(peer))
    }

    fn is_heard(&self, peer: &Peer) -> bool {
        peer.heard_ms + self.options.alive_ms > self.now.ms
    }

    /// Whether what is said to a node may be answered: its connection did not break, or it said what its log holds since.
    pub(super) fn is_connected(&self, node: NodeId) -> bool {
        node == self.node || is_admitted(&self.peers, node)
    }

    /// Requests whose set has a leader that can be asked now.
    pub(super) fn found_leader(&mut self) -> Vec<u64> {
        let (core, peers, own) = (&self.core, &self.peers, self.node);
        let is_reached = |leader: &NodeId| *leader == own || is_admitted(peers, *leader);
        self.requests.found_leader(|set| core.leader(set).filter(is_reached))
    }

    /// Requests that went to somebody before another member led.
    pub(super) fn led_anew(&mut self) -> Vec<u64> {
        let (core, peers, own) = (&self.core, &self.peers, self.node);
        let is_reached = |leader: &NodeId| *leader == own || is_admitted(peers, *leader);
        self.requests.led_anew(|set| core.leader(set).filter(is_reached))
    }

    /// The nodes that are alive, as far as this one knows.
    pub fn alive_nodes(&self) -> BTreeSet<NodeId> {
        let nodes = self.peers.keys().copied().chain([self.node]);
        nodes.filter(|node| self.is_alive(*node)).collect()
    }

    /// Says to a node, or to all, up to where the log is on the disk.
    pub(super) fn tell_standing(&mut self, node: Option<NodeId>) {
        let synced = self.storage.synced_position();
        let start = Start { run: self.options.seed, opened: self.storage.opened_position() };
        let told = self.peers.keys().filter(|known| node.is_none_or(|node| node == **known));
        let nodes: SmallVec<[NodeId; 16]> = told.copied().collect();
        for node in nodes {
            let start = self.knows(node, KIND_STANDING_OF_START).then_some(start);
            self.outbox.push((node, NodeMessage::Standing { synced, start }));
        }
    }

    /// Another node said how far its log is. The first time over a connection this decides whether it is listened to.
    pub(super) fn hear_standing(&mut self, from: NodeId, synced: u64, start: Option<Start>) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if !peer.is_admitted {
            // What it wrote since it was started says nothing of what it held before.
            let held = match start {
                Some(start) if peer.run.is_some_and(|run| run != start.run) => start.opened,
                _ => synced,
            };
            peer.is_admitted = held >= peer.synced || breaks(Rule::TrustOldImage);
            if peer.is_admitted {
                peer.run = start.map(|start| start.run).or(peer.run);
            } else {
                let synced = peer.synced;
                self.outbox.push((from, NodeMessage::Refused { synced }));
                return;
            }
        }
        peer.synced = peer.synced.max(synced);
    }

    /// The most that another node said its log holds on its disk.
    pub fn synced_of(&self, node: NodeId) -> u64 {
        self.peers.get(&node).map_or(0, |peer| peer.synced)
    }

    /// The same of all nodes.
    pub fn standings(&self) -> Vec<(NodeId, u64)> {
        self.peers.iter().map(|(node, peer)| (*node, peer.synced)).collect()
    }

    /// What was known of other nodes before this one started: one that comes back with less has an old image of its disk, though all
    /// who saw it were restarted.
    pub fn know_standings(&mut self, known: &[(NodeId, u64)]) {
        for (node, synced) in known {
            if self.meet(*node)
                && let Some(peer) = self.peers.get_mut(node)
            {
                peer.synced = peer.synced.max(*synced);
            }
        }
    }

    /// What another node knows of this one's log, if it came back with an old image of its disk: nobody listens to it.
    pub fn refused(&self) -> Option<u64> {
        self.refused
    }

    pub(super) fn ping(&mut self) {
        let ping = NodeMessage::Ping { clock_us: self.now.clock_us, shown: self.shown };
        self.outbox.extend(self.peers.keys().map(|node| (*node, ping.clone())));
    }

    /// This node shows a version of what all agree on; the others are told.
    pub fn show(&mut self, version: u64) {
        self.shown = version;
        self.ping();
    }

    /// The least version that another live node shows; without any the largest there is.
    pub fn others_show(&self) -> u64 {
        let alive = self.peers.iter().filter(|(node, _)| self.is_alive(**node));
        alive.map(|(_, peer)| peer.shown).min().unwrap_or(u64::MAX)
    }

    /// The latest cluster time that was given here.
    pub fn given_us(&self) -> i64 {
        self.last_given_us
    }

    /// Whether something began, or leads anew, since this was last asked.
    pub fn has_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Cluster time in microseconds: the clock in the middle of those of the nodes that are alive, carried by the steady time. A clock that is
    /// wrong on one machine, or is set while it runs, changes nothing. It never falls behind what was given before.
    pub fn cluster_us(&mut self) -> i64 {
        let alive = self.peers.values().filter(|peer| self.is_heard(peer));
        let mut offsets: SmallVec<[i64; 16]> =
            alive.filter_map(|peer| peer.clock_offset_us).collect();
        let steady_us = self.now.steady_us();
        offsets.push(self.now.clock_us.saturating_sub(steady_us));
        offsets.sort_unstable();
        let middle = offsets.get((offsets.len() - 1) / 2).copied();
        // Where too few tell the time, it goes on as it did.
        if self.are_enough_clocks(offsets.len()) {
            self.time_offset_us = middle;
        }
        let offset_us = self.time_offset_us.or(middle).unwrap_or(0);
        self.last_given_us = self.last_given_us.max(steady_us.saturating_add(offset_us));
        self.last_given_us
    }

    /// What is to be added to the steady time; none before enough nodes said what time it is.
    pub fn time_offset_us(&self) -> Option<i64> {
        self.time_offset_us
    }

    fn are_enough_clocks(&self, count: usize) -> bool {
        // Of two clocks none is in the middle, and the first of two nodes goes on without the other.
        self.peers.len() < 2 || count * 2 > self.peers.len() + 1
    }

    /// Whether enough nodes said what time it is, so that a wrong clock of this one changes nothing.
    pub(super) fn knows_time(&self) -> bool {
        let known = self.peers.values().filter(|peer| peer.clock_offset_us.is_some()).count();
        self.are_enough_clocks(known + 1)
    }

    /// The time at which a request to a set is judged, about, in seconds: no earlier than what the set was told before.
    pub fn time_in_set(&mut self, set: SetId) -> u32 {
        self.cluster_s().max(self.storage.group_now_s(set))
    }

    /// Cluster time in seconds.
    pub fn cluster_s(&mut self) -> u32 {
        u32::try_from(self.cluster_us() / 1_000_000).unwrap_or(0)
    }

    /// How many voters of a set are needed, and how many are alive, as far as this node knows.
    pub fn alive(&self, set: SetId) -> (usize, usize) {
        let state = self.core.state(set).filter(|state| !state.configuration.voters.is_empty());
        let Some(state) = state else {
            let (nodes, voters) = self.members_of(set);
            let alive = nodes.iter().take(voters).filter(|node| self.is_alive(**node)).count();
            return (voters / 2 + 1, alive);
        };
        let of_voters = |voters: &[ReplicaId]| {
            let nodes = voters.iter().filter_map(|voter| state.configuration.node_of(*voter));
            (voters.len() / 2 + 1, nodes.filter(|node| self.is_alive(*node)).count())
        };
        let now = of_voters(&state.configuration.voters);
        // While two configurations decide, the one that lacks more tells.
        match state.configuration.is_joint() {
            true => {
                let before = of_voters(&state.configuration.outgoing);
                let lacks = |(required, alive): (usize, usize)| required.saturating_sub(alive);
                if lacks(before) > lacks(now) { before } else { now }
            }
            false => now,
        }
    }
}

fn is_admitted(peers: &BTreeMap<NodeId, Peer>, node: NodeId) -> bool {
    peers.get(&node).is_some_and(|peer| peer.is_admitted)
}
