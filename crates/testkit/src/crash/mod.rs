//! A real node under load from real clients, killed at random moments and started again: what was
//! acknowledged must be there, and nothing may be there in part.
//!
//! Every writer has partitions of its own and sends one request after the other, so it knows what
//! its rows are; at most one request of it is in doubt when the node is gone. Everything random
//! comes from the seed. When a kill meets which instruction is the machine's choice, so a seed
//! repeats the load and the schedule, not the microsecond.
//!
//! Reading order: [`run`] here, `model` (what a writer did and expects), `writer` (doing it),
//! `verify` (reading it back).

mod model;
mod verify;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::differential::random::Dice;
use crate::{Client, Node};
use model::Model;
use writer::Writer;

/// Connections that write.
const WRITERS: usize = 6;
/// Load before the kill, in milliseconds.
const LOAD_MS: (usize, usize) = (30, 350);
/// Between the start of a chore and the kill, in milliseconds.
const CHORE_MS: usize = 25;
/// Between a start and the kill in the middle of it, in milliseconds.
const START_MS: usize = 60;
/// Snapshots are removed when there are this many.
const SNAPSHOTS_MAX: usize = 4;

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary `helenus`.
    pub binary: PathBuf,
    /// How often the node is killed.
    pub cycles: u64,
    /// Where all randomness comes from.
    pub seed: u64,
    /// More settings of the node, as `--set` takes them.
    pub settings: Vec<String>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Kills.
    pub cycles: u64,
    /// Kills in the middle of a start.
    pub start_kills: u64,
    /// Kills in the middle of a flush, a compaction or a snapshot.
    pub chore_kills: u64,
    /// Requests that were acknowledged, and found.
    pub acknowledged: u64,
    /// Requests in doubt at a kill that were found applied, as a whole.
    pub doubtful_applied: u64,
    /// Requests in doubt at a kill of which nothing was found.
    pub doubtful_gone: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills ({} during a chore, {} more while starting): {} acknowledged writes, 0 lost, \
             0 torn; in doubt {} applied, {} not",
            self.cycles,
            self.chore_kills,
            self.start_kills,
            self.acknowledged,
            self.doubtful_applied,
            self.doubtful_gone
        )
    }
}

/// What happens when the node is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Load,
    Flush,
    Compact,
    Snapshot,
}

/// One cycle, as the seed wants it.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    load_ms: u64,
    moment: Moment,
    chore_ms: u64,
    /// Kills in the middle of the next starts, after so many milliseconds.
    start_kills: [Option<u64>; 2],
}

impl Schedule {
    fn draw(dice: &mut Dice) -> Schedule {
        let moment = match dice.below(10) {
            0..=3 => Moment::Load,
            4..=5 => Moment::Flush,
            6..=7 => Moment::Compact,
            _ => Moment::Snapshot,
        };
        let mut start_kill = |percent| {
            let after = dice.below(START_MS) as u64;
            dice.chance(percent).then_some(after)
        };
        let start_kills = [start_kill(30), start_kill(15)];
        Schedule {
            load_ms: dice.between(LOAD_MS.0, LOAD_MS.1) as u64,
            moment,
            chore_ms: dice.below(CHORE_MS) as u64,
            start_kills,
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "load {} ms", self.load_ms)?;
        match self.moment {
            Moment::Load => {}
            moment => write!(f, ", killed {} ms into a {moment:?}", self.chore_ms)?,
        }
        for after in self.start_kills.iter().flatten() {
            write!(f, ", killed {after} ms into the start")?;
        }
        Ok(())
    }
}

/// Runs all cycles; `tell` gets a line for each. The error says what was lost or torn.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> Result<Tally, String> {
    let mut arguments = Vec::new();
    for setting in &plan.settings {
        arguments.extend(["--set", setting.as_str()]);
    }
    let mut node = Node::start(&plan.binary, &arguments).map_err(|error| error.to_string())?;
    let mut dice = Dice::new(plan.seed);
    let mut client = Client::connect(&node.address()).map_err(|error| error.to_string())?;
    model::create_tables(&mut client)?;
    drop(client);
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|number| Writer::new(number, dice.below(usize::MAX) as u64)).collect();
    let mut tally = Tally::default();
    for cycle in 1..=plan.cycles {
        let schedule = Schedule::draw(&mut dice);
        let context =
            |error: String| format!("{error}\n(seed {}, cycle {cycle}: {schedule})", plan.seed);
        let acknowledged =
            load_and_kill(&mut node, &plan.binary, &mut writers, schedule, &mut tally)
                .map_err(context)?;
        for after in schedule.start_kills.into_iter().flatten() {
            node.begin_launch().map_err(|error| context(error.to_string()))?;
            sleep(Duration::from_millis(after));
            node.kill().map_err(|error| context(error.to_string()))?;
            tally.start_kills += 1;
        }
        node.launch().map_err(|error| context(error.to_string()))?;
        verify_all(&node, &mut writers, &mut tally).map_err(context)?;
        tally.cycles += 1;
        tally.acknowledged += acknowledged;
        tell(&format!("cycle {cycle}: {schedule}: {acknowledged} acknowledged, all there"));
    }
    // The last word: a clean stop, a check of every block, and another start.
    node.stop().map_err(|error| error.to_string())?;
    check(&plan.binary, node.data_dir())?;
    node.launch().map_err(|error| error.to_string())?;
    verify_all(&node, &mut writers, &mut tally)?;
    Ok(tally)
}

/// Load from all writers, a chore perhaps, then the kill. Returns how much was acknowledged.
fn load_and_kill(
    node: &mut Node,
    binary: &Path,
    writers: &mut [Writer],
    schedule: Schedule,
    tally: &mut Tally,
) -> Result<u64, String> {
    let address = node.address();
    let mut failures = Vec::new();
    let mut acknowledged = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let address = &address;
                scope.spawn(move || writer.write_until_gone(address))
            })
            .collect();
        sleep(Duration::from_millis(schedule.load_ms));
        let chore = match begin_chore(binary, node.data_dir(), schedule.moment) {
            Ok(chore) => chore,
            Err(error) => {
                failures.push(error);
                None
            }
        };
        if chore.is_some() {
            sleep(Duration::from_millis(schedule.chore_ms));
            tally.chore_kills += 1;
        }
        if let Err(error) = node.kill() {
            failures.push(error.to_string());
        }
        if let Some(mut chore) = chore {
            // It ends by itself: done, or told that the node is gone.
            let _ = chore.wait();
        }
        for thread in threads {
            match thread.join() {
                Ok(Ok(count)) => acknowledged += count,
                Ok(Err(error)) => failures.push(error),
                Err(_) => failures.push("a writer failed".into()),
            }
        }
    });
    match failures.pop() {
        Some(failure) => Err(failure),
        None => Ok(acknowledged),
    }
}

/// Has the node flush, compact or take a snapshot.
fn begin_chore(binary: &Path, data_dir: &Path, moment: Moment) -> Result<Option<Child>, String> {
    let mut command = Command::new(binary);
    match moment {
        Moment::Load => return Ok(None),
        Moment::Flush => command.arg("flush"),
        Moment::Compact => command.arg("compact"),
        Moment::Snapshot => {
            let taken = data_dir.join("snapshots");
            let count = std::fs::read_dir(&taken).map_or(0, Iterator::count);
            if count >= SNAPSHOTS_MAX {
                std::fs::remove_dir_all(&taken).map_err(|error| error.to_string())?;
            }
            command.args(["snapshot", &format!("s{count}")])
        }
    };
    command.arg("--data-dir").arg(data_dir);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Some).map_err(|error| error.to_string())
}

/// `helenus check` finds nothing.
fn check(binary: &Path, data_dir: &Path) -> Result<(), String> {
    let output = Command::new(binary)
        .arg("check")
        .arg("--data-dir")
        .arg(data_dir)
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let (said, warned) = (&output.stdout, &output.stderr);
    Err(format!(
        "helenus check: {}{}",
        String::from_utf8_lossy(said),
        String::from_utf8_lossy(warned)
    ))
}

/// Every writer's rows are what it was told, with or without what was in doubt.
fn verify_all(node: &Node, writers: &mut [Writer], tally: &mut Tally) -> Result<(), String> {
    let mut client = Client::connect(&node.address()).map_err(|error| error.to_string())?;
    let mut shared = (0, 0);
    for writer in writers.iter_mut() {
        let found: Model = verify::read(&mut client, writer.number)?;
        match writer.settle(found)? {
            None => {}
            Some(true) => tally.doubtful_applied += 1,
            Some(false) => tally.doubtful_gone += 1,
        }
        shared.0 += writer.shared_acknowledged;
        shared.1 += writer.shared_acknowledged + writer.shared_in_doubt;
    }
    let total = verify::shared_counter(&mut client)?;
    if !(shared.0..=shared.1).contains(&total) {
        return Err(format!("the shared counter is {total}, not within {shared:?}"));
    }
    Ok(())
}
