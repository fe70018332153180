//! Trouble that comes just when it matters: a machine loses its power when its vote is heard of, or when it applied a split; members that go
//! and members that come are parted when their leader knows of both.

use replica::group::wire::{VOTE, VOTE_REQUEST};
use replica::group::{NodeMessage, PeerMessage};
use storage::Configuration;
use types::{NodeId, SetId};

use crate::profile::Profile;
use crate::world::{Event, MS, World};

/// A candidate that only one of the others hears.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plot {
    set: SetId,
    term: u64,
    candidate: usize,
    voter: usize,
}

/// A machine that hears nothing of a set for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deaf {
    machine: usize,
    set: SetId,
    until_us: u64,
}

/// What is going on.
#[derive(Debug, Default)]
pub(crate) struct Plots {
    election: Option<Plot>,
    deaf: Option<Deaf>,
    /// Who belonged to sets, as their leaders knew last.
    known: std::collections::BTreeMap<SetId, Configuration>,
}

impl World {
    /// Whether a message is lost on its way, because of what is going on.
    pub(crate) fn is_lost(&mut self, from: usize, to: usize, message: &NodeMessage) -> bool {
        if self.is_healing {
            return false;
        }
        let is_deaf = |it: &Deaf| it.machine == to && self.now_us < it.until_us;
        if let Some(deaf) = self.plots.deaf.filter(is_deaf) {
            match message {
                NodeMessage::Beats { .. } => return true,
                NodeMessage::Consensus(PeerMessage { set, .. }) if *set == deaf.set => return true,
                _ => {}
            }
        }
        let NodeMessage::Consensus(PeerMessage { set, message }) = message else { return false };
        let is_request = message.get_msg_type() == VOTE_REQUEST;
        if self.profile != Profile::Elections || !is_request {
            return false;
        }
        let (set, term) = (*set, message.term);
        match self.plots.election {
            Some(plot) if (plot.set, plot.term, plot.candidate) == (set, term, from) => {
                to != plot.voter
            }
            _ => {
                if self.random.below(2) == 0 {
                    self.plots.election = Some(Plot { set, term, candidate: from, voter: to });
                    // What it promises takes its time to be on its disk.
                    self.machines[to].sync_us = 6 * MS;
                }
                false
            }
        }
    }

    /// Now and then a machine loses its power just when its vote is heard of.
    pub(crate) fn strike_voter(&mut self, from: usize, to: usize, message: &NodeMessage) {
        let NodeMessage::Consensus(PeerMessage { set, message }) = message else { return };
        let set = *set;
        let is_vote = message.get_msg_type() == VOTE && !message.reject;
        if !is_vote || self.is_healing || self.run.kills_leaders {
            return;
        }
        let is_plotted = self.plots.election.is_some_and(|plot| {
            (plot.set, plot.term, plot.candidate, plot.voter) == (set, message.term, to, from)
        });
        if is_plotted || self.random.below(6) == 0 {
            let down_us = 500 + self.random.below(5 * MS);
            self.count_for("power loss after a vote", down_us);
            self.crash(from, true, down_us);
            if is_plotted || self.random.below(2) == 0 {
                self.bring_rival((from, to), set, down_us);
            }
        }
    }

    /// Somebody else asks the voter for its vote when it is back, in the same term: it and he did not hear who won.
    fn bring_rival(&mut self, (voter, candidate): (usize, usize), set: SetId, down_us: u64) {
        let rivals: Vec<usize> = (0..self.machines.len())
            .filter(|machine| *machine != voter && *machine != candidate)
            .filter(|machine| self.host(*machine).is_some_and(|host| host.core().contains(set)))
            .collect();
        let Some(rival) = rivals.get(self.random.below(rivals.len().max(1) as u64) as usize) else {
            return;
        };
        let rival = *rival;
        let cut_us = down_us + (20 + self.random.below(60)) * MS;
        self.count_for("rival of a candidate", cut_us);
        self.cut(candidate, rival, cut_us);
        self.cut(candidate, voter, cut_us);
        for _ in 0..2 {
            let after_us = down_us + self.random.below(12 * MS);
            self.at(after_us, Event::Rival(rival, set));
        }
    }

    /// What a machine's members did in a turn may be when trouble comes; before anybody hears of it.
    pub(crate) fn watch(&mut self, machine: usize) {
        if self.is_healing || self.profile != Profile::Moves {
            return;
        }
        let Some(running) = self.machines[machine].running.as_ref() else { return };
        let core = running.host.core();
        let led = core.sets().filter(|set| core.leads(*set));
        let now: Vec<(SetId, Configuration)> = led
            .filter_map(|set| Some((set, core.state(set)?.configuration.clone())))
            .filter(|(set, now)| {
                self.plots.known.get(set).is_none_or(|known| known.index < now.index)
            })
            .collect();
        for (set, now) in now {
            let before = self.plots.known.insert(set, now.clone());
            if let Some(before) = before.filter(|before| before.voters != now.voters) {
                self.part_ways(machine, &before, &now);
            }
        }
    }

    /// Those who decide no more are cut off from those who decide from now on, and did not hear of it.
    fn part_ways(&mut self, leader: usize, before: &Configuration, now: &Configuration) {
        let of_node = |node: NodeId| self.machines.iter().position(|it| it.node == node);
        let machines = |of: &Configuration| -> Vec<usize> {
            of.voters.iter().filter_map(|it| of_node(of.node_of(*it)?)).collect()
        };
        let (old, new) = (machines(before), machines(now));
        let gone: Vec<usize> =
            old.into_iter().filter(|it| *it != leader && !new.contains(it)).collect();
        if gone.is_empty() || self.random.below(3) == 0 {
            return;
        }
        let cut_us = 1_200 * MS + self.random.below(1_500 * MS);
        self.count_for("members that go are cut off", cut_us);
        for one in &gone {
            for other in (0..self.machines.len()).filter(|it| !gone.contains(it)) {
                self.cut(*one, other, cut_us);
                self.cut(other, *one, cut_us);
            }
        }
    }

    /// A machine whose member has just applied a split may lose its power, and then hears of the set that was split only later.
    pub(crate) fn strike_splitter(&mut self, machine: usize, sets_before: usize) {
        if self.is_healing || self.profile != Profile::Splits || sets_before == 0 {
            return;
        }
        let Some(running) = self.machines[machine].running.as_ref() else { return };
        let core = running.host.core();
        let newest = core.sets().max();
        let left = newest.and_then(|set| core.state(set)?.split_from).map(|(left, _)| left);
        let Some(left) = left.filter(|_| core.sets().count() > sets_before) else { return };
        if self.random.below(2) == 0 {
            let down_us = 5 * MS + self.random.below(80 * MS);
            self.count_for("power loss at a split", down_us);
            self.crash(machine, true, down_us);
            let until_us = self.now_us + down_us + 200 * MS + self.random.below(900 * MS);
            self.plots.deaf = Some(Deaf { machine, set: left, until_us });
        }
    }

    /// A clock that all look at was set: what is remembered until a second is over for all of them.
    pub(crate) fn leap(&mut self) {
        self.count("time leaps");
        let by_us = (5_000 + self.random.below(15_000) * self.random.below(3)) * MS;
        self.leap_us += by_us.cast_signed();
        for machine in &self.machines {
            machine
                .clock
                .wrong_us
                .fetch_add(by_us.cast_signed(), std::sync::atomic::Ordering::Relaxed);
        }
        let after_us = 150 * MS + self.random.below(400 * MS);
        self.at(after_us, Event::Merge);
    }

    /// What is dead goes everywhere but where a node is away.
    pub(crate) fn merge_everywhere(&mut self) {
        self.count("compact everywhere");
        for machine in &mut self.machines {
            if let Some(running) = machine.running.as_mut() {
                let _ = running.storage.compact(None);
            }
        }
    }
}
