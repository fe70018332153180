//! What is done to the nodes, drawn from the seed: by three who know nothing of each other. One ends, pauses and restarts processes, one
//! harms links, disks and clocks, one does what operators do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Wish;
use super::ground::{Ground, lock};
use crate::cluster::{run_add, run_command};
use crate::differential::random::Dice;
use crate::disk::{Board, Call, Fault, Journal, Mood, World};
use crate::{Client, Cluster, Links, eventually};

/// The lanes, for the picture.
pub(crate) const LANES: [&str; 3] = ["processes", "links, disks, clocks", "operators"];
/// A node that was started answers within this when nothing is done to it any more.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// More nodes than this are never added.
const ADDED_MAX: usize = 2;
/// Clocks run wrong by at most so much: what leases allow is 100,000 between any two.
const DRIFT_PPM_MAX: usize = 50_000;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What faults are done to.
pub(crate) struct Field<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) cluster: Mutex<Cluster>,
    pub(crate) links: Links,
    /// The disks and clocks of the first nodes.
    pub(crate) boards: Vec<Board>,
    pub(crate) binary: PathBuf,
    /// Nodes that left for good.
    pub(crate) gone: Mutex<BTreeSet<usize>>,
}

impl Field<'_> {
    fn first_nodes(&self) -> usize {
        self.boards.len()
    }

    /// All nodes that belong to the cluster.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        let gone = lock(&self.gone).clone();
        (1..=lock(&self.cluster).count()).filter(|node| !gone.contains(node)).collect()
    }

    /// Runs a command for a node, without holding anything.
    pub(crate) fn command(&self, node: usize, words: &[&str]) -> std::io::Result<String> {
        let folder = lock(&self.cluster).folder(node).to_path_buf();
        run_command(&self.binary, &folder, words)
    }

    /// Starts a node until it answers, however often it takes.
    pub(crate) fn bring_back(&self, node: usize) -> Result<(), String> {
        let begun = Instant::now();
        let mut calm_since = Instant::now();
        loop {
            let address = {
                let mut cluster = lock(&self.cluster);
                if cluster.has_ended(node).map_err(|error| error.to_string())? {
                    cluster.begin_restart(node).map_err(|error| error.to_string())?;
                }
                cluster.address(node).to_owned()
            };
            if Client::connect(&address).is_ok() {
                return Ok(());
            }
            if !self.ground.is_calm() {
                calm_since = Instant::now();
                if begun.elapsed() > BACK_WITHIN {
                    // Something else is done to it; it is looked after at the end.
                    return Ok(());
                }
            } else if calm_since.elapsed() > BACK_WITHIN {
                return Err(format!("node {node} does not come back"));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Everything works again.
    pub(crate) fn heal(&self) -> Result<(), String> {
        self.links.mend();
        for board in &self.boards {
            self.mend_disk(board);
            let _ = board.set_clock(0);
            let _ = board.set_drift(monotonic_ns(), 0);
        }
        for node in self.nodes() {
            let _ = lock(&self.cluster).resume(node);
        }
        self.nodes().into_iter().try_for_each(|node| self.bring_back(node))?;
        for node in self.nodes() {
            let _ = self.command(node, &["drain", "--cancel"]);
        }
        Ok(())
    }

    fn mend_disk(&self, board: &Board) {
        for call in [Call::Write, Call::Open, Call::Sync] {
            let _ = board.clear(call);
        }
        let _ = board.slow_syncs(Duration::ZERO);
    }

    /// One lane, until faults are over.
    pub(crate) fn run(&self, lane: usize, wish: &Wish) -> Vec<String> {
        let mut dice = Dice::new(wish.seed.wrapping_mul(31).wrapping_add(lane as u64 + 1));
        let mut complaints = Vec::new();
        while !self.ground.is_calm() {
            let rest_max = match lane {
                0 => 2_000,
                1 => 1_500,
                _ => 3_000,
            };
            self.ground.last(ms(dice.between(100, rest_max)) * wish.calm.max(1));
            if self.ground.is_calm() {
                break;
            }
            let from_ms = self.ground.now_ms();
            let done = match lane {
                0 => self.harm_processes(&mut dice),
                1 => self.harm_surroundings(&mut dice),
                _ => self.operate(&mut dice),
            };
            match done {
                Ok(what) => self.ground.note(from_ms, lane, what),
                Err(error) => complaints.push(format!("at {from_ms} ms: {error}")),
            }
        }
        complaints
    }

    fn end_and_start(
        &self,
        nodes: &[usize],
        is_asked: bool,
        away: Duration,
    ) -> Result<String, String> {
        let mut notes = String::new();
        for node in nodes {
            let mut cluster = lock(&self.cluster);
            let ended = if is_asked { cluster.stop(*node) } else { cluster.kill(*node) };
            if let Err(error) = ended {
                // One whose disk takes nothing cannot end well.
                notes = format!(" ({error})");
                cluster.kill(*node).map_err(|error| error.to_string())?;
            }
        }
        self.ground.last(away);
        nodes.iter().try_for_each(|node| self.bring_back(*node))?;
        let how = if is_asked { "stopped" } else { "killed" };
        Ok(format!("{how} {nodes:?}, back after {} ms{notes}", away.as_millis()))
    }

    fn harm_processes(&self, dice: &mut Dice) -> Result<String, String> {
        let nodes = self.nodes();
        let one = *dice.pick(&nodes);
        match dice.below(21) {
            0..7 => self.end_and_start(&[one], false, ms(dice.below(3_000))),
            7..12 => {
                let time = ms(dice.between(200, 6_000));
                // It may be gone by itself, where its disk failed.
                let paused = lock(&self.cluster).pause(one);
                if paused.is_err() {
                    self.bring_back(one)?;
                    return Ok(format!("started {one} again, which had ended"));
                }
                self.ground.last(time);
                lock(&self.cluster).resume(one).map_err(|error| error.to_string())?;
                Ok(format!("paused {one}"))
            }
            12..15 => self.end_and_start(&[one], true, ms(dice.below(1_500))),
            15 => {
                for node in &nodes {
                    self.end_and_start(&[*node], true, ms(dice.below(300)))?;
                    if self.ground.is_calm() {
                        break;
                    }
                }
                Ok("restarted all, one after the other".to_owned())
            }
            16 => self.lose_power(dice),
            17..19 => {
                let mut two = nodes.clone();
                dice.shuffle(&mut two);
                two.truncate(2);
                self.end_and_start(&two, false, ms(dice.below(2_000)))
            }
            _ => self.end_and_start(&nodes, false, ms(dice.below(500))),
        }
    }

    /// A machine loses its power: of what its node wrote and did not sync some is there, and some is not. The node is started anew for it, so
    /// that everything is written down.
    fn lose_power(&self, dice: &mut Dice) -> Result<String, String> {
        let told = |error: std::io::Error| error.to_string();
        let node = dice.between(1, self.first_nodes());
        let journal = lock(&self.cluster).data_dir().join(format!("journal{node}"));
        let (folder, before, mut world) = {
            let mut cluster = lock(&self.cluster);
            cluster.kill(node).map_err(told)?;
            let folder = cluster.folder(node).to_path_buf();
            let before = cluster.start_of(node).map_err(told)?;
            let world = World::of_folder(&folder).map_err(told)?;
            let _ = std::fs::remove_file(&journal);
            let mut start = before.clone();
            let name = "HELENUS_SHIM_JOURNAL".to_owned();
            start.environment.push((name, journal.to_string_lossy().into_owned()));
            cluster.set_start(node, start).map_err(told)?;
            (folder, before, world)
        };
        self.bring_back(node)?;
        let time = ms(dice.between(500, 4_000));
        self.ground.last(time);
        let mood = *dice.pick(&Mood::ALL);
        {
            let mut cluster = lock(&self.cluster);
            cluster.kill(node).map_err(told)?;
            cluster.set_start(node, before).map_err(told)?;
            let recorded = Journal::read(&journal).map_err(told)?;
            recorded.records().iter().try_for_each(|(_, it)| world.advance(it, &recorded))?;
            let image = folder.with_extension("image");
            let seed = dice.below(usize::MAX) as u64;
            world.write_image(&recorded, mood, seed, &image).map_err(told)?;
            std::fs::remove_dir_all(&folder).map_err(told)?;
            std::fs::rename(&image, &folder).map_err(told)?;
        }
        let _ = std::fs::remove_file(&journal);
        self.bring_back(node)?;
        Ok(format!("{node} lost its power, of what was not synced {mood:?}"))
    }

    fn harm_surroundings(&self, dice: &mut Dice) -> Result<String, String> {
        let count = self.first_nodes();
        let one = dice.between(1, count);
        let other = (one + dice.between(1, count - 1) - 1) % count + 1;
        let others = || (1..=count).filter(move |it| *it != one);
        let time = ms(dice.between(300, 5_000));
        let Some(board) = self.boards.get(one - 1) else { return Err("no such node".into()) };
        let said = |error: std::io::Error| error.to_string();
        let what = match dice.below(20) {
            0..2 => {
                self.links.cut(one, other);
                format!("cut {one} to {other}")
            }
            2..4 => {
                self.links.cut_both(one, other);
                format!("cut {one} and {other}")
            }
            4..6 => {
                others().for_each(|it| self.links.cut_both(one, it));
                format!("cut {one} off")
            }
            6 => {
                others().for_each(|it| self.links.cut(it, one));
                format!("{one} hears nobody")
            }
            7 => {
                others().for_each(|it| self.links.cut(one, it));
                format!("nobody hears {one}")
            }
            8..10 => {
                let delay = ms(dice.between(20, 300));
                others().for_each(|it| self.links.slow(one, it, delay));
                format!("what {one} sends takes {} ms longer", delay.as_millis())
            }
            10..12 => {
                for call in [Call::Write, Call::Open] {
                    let fault = Fault { at: 1, error: ENOSPC, stays: true, part: "/" };
                    board.set(call, fault).map_err(said)?;
                }
                format!("disk of {one} full")
            }
            12 => {
                let fault = Fault { at: 1, error: EIO, stays: false, part: "/" };
                board.set(Call::Sync, fault).map_err(said)?;
                format!("a sync of {one} failed")
            }
            13..15 => {
                let by = ms(dice.between(5, 200));
                board.slow_syncs(by).map_err(said)?;
                format!("syncs of {one} take {} ms longer", by.as_millis())
            }
            15..17 => {
                // Leases stand as long as clocks differ by less than a tenth.
                let ppm = dice.between(1_000, DRIFT_PPM_MAX) as i64;
                let ppm = if dice.chance(50) { ppm } else { -ppm };
                board.set_drift(monotonic_ns(), ppm).map_err(said)?;
                format!("clocks of {one} run wrong by {ppm} millionths")
            }
            _ => {
                let seconds = dice.between(1, 3_600) as i64;
                let shift = if dice.chance(50) { seconds } else { -seconds };
                board.set_clock(shift).map_err(said)?;
                format!("clock of {one} {shift} s off")
            }
        };
        self.ground.last(time);
        for it in others() {
            self.links.mend_way(one, it);
            self.links.mend_way(it, one);
        }
        self.mend_disk(board);
        board.set_clock(0).map_err(said)?;
        board.set_drift(monotonic_ns(), 0).map_err(said)?;
        // A node whose log failed takes part in nothing until somebody starts it again.
        if what.contains("sync") {
            self.end_and_start(&[one], false, Duration::ZERO)?;
        }
        Ok(what)
    }

    fn operate(&self, dice: &mut Dice) -> Result<String, String> {
        let nodes = self.nodes();
        // Mostly one that runs: an operator would look.
        let first = *dice.pick(&nodes);
        let second = *dice.pick(&nodes);
        let asked = if lock(&self.cluster).runs(first) { first } else { second };
        // What an operator is refused while nodes are down is no anomaly: it is noted, and tried again another time.
        let told = |done: std::io::Result<String>, what: String| match done {
            Ok(_) => what,
            Err(error) => format!("{what}: refused, {}", error.to_string().trim()),
        };
        match dice.below(12) {
            0..4 => {
                let token = (dice.below(usize::MAX) as i64).wrapping_mul(2);
                let done = self.command(asked, &["split", "chaos", &format!("--token={token}")]);
                Ok(told(done, format!("split at {token}, asked of {asked}")))
            }
            4..7 => {
                let done = self.command(asked, &["drain"]);
                self.ground.last(ms(dice.between(500, 4_000)));
                let _ = self.command(asked, &["drain", "--cancel"]);
                Ok(told(done, format!("drained {asked}")))
            }
            7..10 if nodes.len() < self.first_nodes() + ADDED_MAX => {
                self.ground.let_members_move();
                // Nobody waits for it: it may take until a node that is paused goes on.
                let mut command = lock(&self.cluster).add_command();
                let added = run_add(&mut command).and_then(|()| {
                    let mut cluster = lock(&self.cluster);
                    let node = cluster.note_added()?;
                    self.ground.add_address(cluster.address(node));
                    Ok(node)
                });
                Ok(told(added.map(|node| node.to_string()), "a node joins".to_owned()))
            }
            7..10 => self.leave(),
            _ => {
                let done = self.command(asked, &["nodes"]);
                Ok(told(done, format!("looked at the nodes, asked of {asked}")))
            }
        }
    }

    /// The node that joined last leaves.
    fn leave(&self) -> Result<String, String> {
        let Some(last) = self.nodes().pop().filter(|it| *it > self.first_nodes()) else {
            return Ok("nobody may leave".to_owned());
        };
        // Nobody else does anything to it meanwhile: a job goes on though who asked for it hears no answer.
        lock(&self.gone).insert(last);
        if let Err(error) = self.command(last, &["decommission"]) {
            let is_under_way = error.to_string().contains("cannot be watched");
            if !is_under_way || !self.leaves_unseen(last) {
                lock(&self.gone).remove(&last);
                return Ok(format!("{last} leaves: refused, {}", error.to_string().trim()));
            }
        }
        let address = lock(&self.cluster).address(last).to_owned();
        self.ground.remove_address(&address);
        let ended = || lock(&self.cluster).has_ended(last).is_ok_and(|it| it).then_some(());
        match eventually("it ends", BACK_WITHIN, ended) {
            Ok(()) => Ok(format!("{last} left")),
            Err(error) => Err(format!("node {last} left and does not end: {error}")),
        }
    }

    /// Whether a node leaves though whoever asked for it hears no more of that. A job whose node ended goes on when it is started again.
    fn leaves_unseen(&self, last: usize) -> bool {
        let number = last.to_string();
        let begun = Instant::now();
        while begun.elapsed() < BACK_WITHIN {
            let told = self.nodes().into_iter().find_map(|it| self.command(it, &["nodes"]).ok());
            let is_listed =
                |text: String| text.lines().any(|line| line.split(' ').next() == Some(&number));
            if told.is_some_and(|text| !is_listed(text)) {
                return true;
            }
            let mut cluster = lock(&self.cluster);
            if cluster.has_ended(last).is_ok_and(|it| it) {
                let _ = cluster.begin_restart(last);
            }
            drop(cluster);
            std::thread::sleep(LOOK_INTERVAL);
        }
        false
    }
}

/// The machine's monotonic clock, as all processes have it.
fn monotonic_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn ms(count: usize) -> Duration {
    Duration::from_millis(count as u64)
}
