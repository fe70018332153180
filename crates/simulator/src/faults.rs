//! What goes wrong, and how everything heals.

use std::sync::atomic::Ordering;

use crate::clients::Told;
use crate::machine::Machine;
use crate::world::{Event, FAULTS_US, MS, World};

/// Numbers of faults, for seeds that have more of some.
pub(crate) const POWER_LOSS: u64 = 0;
pub(crate) const KILL: u64 = 2;
pub(crate) const CUT_ONE_WAY: u64 = 5;
pub(crate) const PAUSE: u64 = 11;
pub(crate) const CLOCK: u64 = 12;
pub(crate) const LOSE_DISK: u64 = 14;
pub(crate) const KEEP_IMAGE: u64 = 15;
pub(crate) const MOVE: u64 = 16;
pub(crate) const SPLIT: u64 = 17;
pub(crate) const FLUSH_OR_MERGE: u64 = 20;
/// So many kinds come in all seeds; those behind them only in some.
const COMMON: u64 = 24;
pub(crate) const LEAP: u64 = 24;
pub(crate) const CAMPAIGN: u64 = 25;

impl World {
    pub(crate) fn fault(&mut self) {
        let count = self.machines.len() as u64;
        let machine = self.random.below(count) as usize;
        let other = (machine + 1 + self.random.below(count - 1) as usize) % self.machines.len();
        let down_us = 50 * MS + self.random.below(2_500 * MS);
        let own = self.profile.faults();
        let kind = match own.is_empty() || self.random.below(3) == 0 {
            true => self.random.below(COMMON),
            false => own[self.random.below(own.len() as u64) as usize],
        };
        match kind {
            0 | 1 => self.crash(machine, true, down_us),
            2 | 3 => self.crash(machine, false, down_us),
            4 => {
                // All at once, as when the power goes.
                self.count_for("all crash", 410 * MS);
                for machine in 0..self.machines.len() {
                    let down_us = 10 * MS + self.random.below(400 * MS);
                    self.crash(machine, true, down_us);
                }
            }
            5 | 6 => {
                self.count_for("link cut one way", down_us);
                self.cut(machine, other, down_us);
            }
            7 => {
                self.count_for("link cut", down_us);
                self.cut(machine, other, down_us);
                self.cut(other, machine, down_us);
            }
            8 | 9 => {
                self.count_for("machine cut off", down_us);
                for other in (0..self.machines.len()).filter(|other| *other != machine) {
                    self.cut(machine, other, down_us);
                    self.cut(other, machine, down_us);
                }
            }
            10 => {
                self.count_for("bad link", down_us);
                let loss = self.random.below(300);
                let slow_us = self.random.below(80 * MS);
                let link = self.links.entry((machine, other)).or_default();
                (link.loss, link.slow_us) = (loss, slow_us);
                self.at(down_us, Event::Mend(machine, other));
            }
            11 => {
                self.count_for("pause", down_us);
                let is_calm = self.now_us < self.placing.calm_until_us;
                let until_us = if is_calm { 0 } else { self.now_us + down_us };
                if let Some(running) = self.machines[machine].running.as_mut() {
                    running.paused_until_us = until_us;
                }
                if until_us > self.now_us {
                    self.ask_when_back(machine, until_us);
                }
            }
            12 => {
                self.count_for("clock", FAULTS_US);
                let most_us = self.profile.clock_us_max();
                let wrong_us = match self.random.below(3) {
                    0 => self.random.below(600_000).cast_signed() - 300_000,
                    1 => -self.random.below(most_us).cast_signed(),
                    _ => self.random.below(most_us).cast_signed(),
                };
                let wrong_us = wrong_us + self.leap_us;
                self.machines[machine].clock.wrong_us.store(wrong_us, Ordering::Relaxed);
            }
            13 => {
                let is_greedy = self.random.below(3) == 0;
                let lasts_us = if is_greedy { FAULTS_US } else { 0 };
                self.count_for("node with a wrong map", lasts_us);
                self.machines[machine].is_greedy.store(is_greedy, Ordering::Relaxed);
            }
            14 => self.lose_disk(machine),
            15 => self.keep_image(machine),
            16 => self.move_a_set(),
            17 => self.split_a_set(machine),
            19 => self.spoil(machine),
            18 => {
                self.count_for("slow disk", FAULTS_US);
                self.machines[machine].sync_us = 1 + self.random.below(120 * MS);
            }
            23 => {
                // Sets that nobody wants anything of rest.
                self.count_for("nobody asks", down_us);
                self.calm_until_us = self.now_us + down_us;
            }
            LEAP => self.leap(),
            CAMPAIGN => {
                self.count("member asks for votes");
                let set = self.sets[self.random.below(self.sets.len() as u64) as usize];
                self.at(1, Event::Rival(machine, set));
            }
            _ => self.chore(machine, other),
        }
    }

    /// A machine that leads some set loses its power, and is back when another one leads.
    pub(crate) fn kill_a_leader(&mut self) {
        let set = self.sets[self.random.below(self.sets.len() as u64) as usize];
        let leads = |machine: &Machine| {
            machine.running.as_ref().is_some_and(|running| running.host.core().leads(set))
        };
        if let Some(machine) = self.machines.iter().position(leads) {
            self.crash(machine, true, 2_500 * MS);
            self.note_leaders();
        }
    }

    fn chore(&mut self, machine: usize, other: usize) {
        let to = self.machines[other].node;
        let sets = self.sets.clone();
        match self.random.below(5) {
            0 => {
                self.count("flush");
                if let Some(running) = self.machines[machine].running.as_mut() {
                    let _ = running.storage.flush(None);
                }
            }
            1 => {
                self.count("compact");
                if let Some(running) = self.machines[machine].running.as_mut() {
                    let _ = running.storage.compact(None);
                }
            }
            4 => self.merge_everywhere(),
            2 => {
                // A node that finds no room at its start does not start: that is no fault of a set.
                let is_full = self.random.below(2) == 0 && self.machines[machine].running.is_some();
                let lasts_us = if is_full { 1_000 * MS } else { 0 };
                self.count_for("disk full for a while", lasts_us);
                self.machines[machine].disk.set_full(is_full);
            }
            _ => {
                self.count("leadership is handed over");
                if let Some(host) = self.host(machine) {
                    sets.into_iter().for_each(|set| host.hand_leadership(set, to));
                }
                self.settle(machine);
                // Who let another one lead does not hear of it, and is asked.
                if self.random.below(2) == 0 {
                    let others = (0..self.machines.len()).filter(|other| *other != machine);
                    others.collect::<Vec<_>>().into_iter().for_each(|other| {
                        self.cut(other, machine, 500 * MS);
                    });
                    let after_us = 30 * MS + self.random.below(150 * MS);
                    self.ask_when_back(machine, self.now_us + after_us);
                }
            }
        }
        self.settle(machine);
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize, down_us: u64) {
        if self.now_us < self.placing.calm_until_us {
            return;
        }
        self.links.entry((from, to)).or_default().is_cut = true;
        self.at(down_us, Event::Mend(from, to));
    }

    pub(crate) fn crash(&mut self, machine: usize, power: bool, down_us: u64) {
        // An old image must be known by those who saw what came after it.
        if self.machines[machine].running.is_none() || self.now_us < self.placing.calm_until_us {
            return;
        }
        self.count_for(if power { "power loss" } else { "kill" }, down_us);
        self.tell(|| format!("machine {machine} ends"));
        self.machines[machine].crash(power, &mut self.random);
        let boot = self.machines[machine].boots;
        // Its clients never hear of what it coordinated.
        let lost: Vec<(u32, usize)> =
            self.waiting.iter().map(|(it, number)| (*it, *number)).collect();
        for (client, number) in lost {
            if self.asked[number].at == (machine, boot) {
                self.end_operation(client, number, Told::Unknown);
            }
        }
        let node = self.machines[machine].node;
        for other in 0..self.machines.len() {
            // One that stands still finds out when it goes on, before it hears anything else.
            if let Some(running) = self.machines[other].running.as_mut() {
                running.host.link_broke(node);
                self.settle(other);
            }
        }
        self.at(down_us, Event::Restart(machine));
    }

    /// Every node knows of every other.
    pub(crate) fn introduce(&mut self, machine: usize) {
        let nodes: Vec<_> = self.machines.iter().map(|machine| machine.node).collect();
        if let Some(running) = self.machines[machine].running.as_mut() {
            nodes.into_iter().for_each(|node| _ = running.host.meet(node));
        }
    }

    pub(crate) fn restart(&mut self, machine: usize) {
        if self.machines[machine].running.is_some() {
            return;
        }
        self.machines[machine].start(self.run.seed);
        self.introduce(machine);
        self.tell(|| format!("machine {machine} begins again"));
        let boot = self.machines[machine].boots;
        self.tick_later(machine, boot);
        self.settle(machine);
    }

    pub(crate) fn heal(&mut self) {
        self.is_healing = true;
        self.end_troubles();
        self.tell(|| "everything heals".to_owned());
        self.links.clear();
        for machine in 0..self.machines.len() {
            self.machines[machine].sync_us = 1_000;
            self.machines[machine].is_greedy.store(false, Ordering::Relaxed);
            self.machines[machine].disk.set_full(false);
            // Time does not fall for those who know it.
            let wrong_us = self.leap_us + self.random.below(100_000).cast_signed();
            self.machines[machine].clock.wrong_us.store(wrong_us, Ordering::Relaxed);
            self.restart(machine);
            if let Some(running) = self.machines[machine].running.as_mut() {
                running.paused_until_us = 0;
            }
        }
    }
}
