//! A real node under load from real clients, killed at random moments and started again: what was
//! acknowledged must be there, and nothing may be there in part.
//!
//! Every writer has partitions of its own and sends one request after the other, so it knows what
//! its rows are; at most one request of it is in doubt when the node is gone. Everything random
//! comes from the seed. When a kill meets which instruction is the machine's choice, so a seed
//! repeats the load and the schedule, not the microsecond.
//!
//! Reading order: [`run`] here, `writer` (writing, remembering, judging), `model` and `definer` (what a
//! writer does and expects), `verify` (reading it back).

mod definer;
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
pub(crate) use definer::Defined;
pub(crate) use model::{Model, create_tables};
pub(crate) use verify::shared_counter;
pub(crate) use writer::{Doubt, Story, Writer};

/// Connections that write.
pub(crate) const WRITERS: usize = 6;
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
pub struct CrashRun {
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
    /// Kills in the middle of a flush, a compaction, a snapshot or a split.
    pub chore_kills: u64,
    /// Kills in the middle of a TRUNCATE or of a definition.
    pub definition_kills: u64,
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
            "{} kills ({} during a chore, {} with a truncate, definition or its row on its way, {} more \
             while starting): {} acknowledged writes, 0 lost, 0 torn; in doubt {} applied, {} not",
            self.cycles,
            self.chore_kills,
            self.definition_kills,
            self.start_kills,
            self.acknowledged,
            self.doubtful_applied,
            self.doubtful_gone
        )
    }
}

/// What happens when the node is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Load,
    Flush,
    Compact,
    Snapshot,
    Split,
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
            8 => Moment::Split,
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
pub fn run(asked: &CrashRun, tell: &mut dyn FnMut(&str)) -> Result<Tally, String> {
    let mut arguments = Vec::new();
    for setting in &asked.settings {
        arguments.extend(["--set", setting.as_str()]);
    }
    let mut node = Node::start(&asked.binary, &arguments).map_err(|error| error.to_string())?;
    let mut dice = Dice::new(asked.seed);
    let mut client = Client::connect(&node.address()).map_err(|error| error.to_string())?;
    create_tables(&mut client)?;
    drop(client);
    let mut writers = Writers::new(&mut dice);
    let mut tally = Tally::default();
    for cycle in 1..=asked.cycles {
        let schedule = Schedule::draw(&mut dice);
        let context =
            |error: String| format!("{error}\n(seed {}, cycle {cycle}: {schedule})", asked.seed);
        let acknowledged =
            load_and_kill(&mut node, &asked.binary, &mut writers, schedule, &mut tally)
                .map_err(context)?;
        for after in schedule.start_kills.into_iter().flatten() {
            node.begin_launch().map_err(|error| context(error.to_string()))?;
            sleep(Duration::from_millis(after));
            node.kill().map_err(|error| context(error.to_string()))?;
            tally.start_kills += 1;
        }
        forget_snapshots(node.data_dir()).map_err(context)?;
        node.launch().map_err(|error| context(error.to_string()))?;
        verify_all(&node, &mut writers, &mut tally).map_err(context)?;
        tally.cycles += 1;
        tally.acknowledged += acknowledged;
        tell(&format!("cycle {cycle}: {schedule}: {acknowledged} acknowledged, all there"));
    }
    // The last word: a clean stop, a check of every block, and another start.
    node.stop().map_err(|error| error.to_string())?;
    check(&asked.binary, node.data_dir())?;
    node.launch().map_err(|error| error.to_string())?;
    verify_all(&node, &mut writers, &mut tally)?;
    Ok(tally)
}

/// Everyone who writes.
pub(crate) struct Writers {
    pub(crate) rows: Vec<Writer<Model>>,
    pub(crate) definer: Writer<Defined>,
}

impl Writers {
    pub(crate) fn new(dice: &mut Dice) -> Writers {
        let mut seed = || dice.below(usize::MAX) as u64;
        let rows = (0..WRITERS).map(|number| Writer::new(number, seed())).collect();
        Writers { rows, definer: Writer::new(WRITERS, seed()) }
    }

    /// Lets all of them write until the node is gone; `meanwhile` sees to that. Says how much was
    /// acknowledged.
    pub(crate) fn write_until_gone(
        &mut self,
        address: &str,
        moment: &(dyn Fn() -> u64 + Sync),
        meanwhile: impl FnOnce() -> Result<(), String>,
    ) -> Result<u64, String> {
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for writer in &mut self.rows {
                threads.push(scope.spawn(move || writer.write_until_gone(address, moment)));
            }
            let definer = &mut self.definer;
            threads.push(scope.spawn(move || definer.write_until_gone(address, moment)));
            let mut outcome = meanwhile().map(|()| 0);
            for thread in threads {
                let written = thread.join().unwrap_or_else(|_| Err("a writer failed".into()));
                outcome = outcome.and_then(|sum| written.map(|count| sum + count));
            }
            outcome
        })
    }
}

/// Load from all writers, a chore perhaps, then the kill. Returns how much was acknowledged.
fn load_and_kill(
    node: &mut Node,
    binary: &Path,
    writers: &mut Writers,
    schedule: Schedule,
    tally: &mut Tally,
) -> Result<u64, String> {
    let address = node.address();
    writers.write_until_gone(&address, &|| 0, || {
        sleep(Duration::from_millis(schedule.load_ms));
        let chore = begin_chore(binary, node.data_dir(), schedule.moment);
        if matches!(chore, Ok(Some(_))) {
            sleep(Duration::from_millis(schedule.chore_ms));
            tally.chore_kills += 1;
        }
        node.kill().map_err(|error| error.to_string())?;
        if let Some(mut chore) = chore? {
            // It ends by itself: done, or told that the node is gone.
            let _ = chore.wait();
        }
        Ok(())
    })
}

/// Removes the snapshots of a stopped node when there are many.
fn forget_snapshots(data_dir: &Path) -> Result<(), String> {
    let taken = data_dir.join("snapshots");
    if std::fs::read_dir(&taken).map_or(0, Iterator::count) < SNAPSHOTS_MAX {
        return Ok(());
    }
    std::fs::remove_dir_all(&taken).map_err(|error| error.to_string())
}

/// Has the node flush, compact, take a snapshot or split a physical partition.
pub(crate) fn begin_chore(
    binary: &Path,
    data_dir: &Path,
    moment: Moment,
) -> Result<Option<Child>, String> {
    let mut command = Command::new(binary);
    match moment {
        Moment::Load => return Ok(None),
        Moment::Flush => command.arg("flush"),
        Moment::Compact => command.arg("compact"),
        Moment::Snapshot => {
            let count = std::fs::read_dir(data_dir.join("snapshots")).map_or(0, Iterator::count);
            command.args(["snapshot", &format!("s{count}")])
        }
        Moment::Split => command.args(["split", "crash"]),
    };
    command.arg("--data-dir").arg(data_dir);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Some).map_err(|error| error.to_string())
}

/// `helenus check` finds nothing.
pub(crate) fn check(binary: &Path, data_dir: &Path) -> Result<(), String> {
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
fn verify_all(node: &Node, writers: &mut Writers, tally: &mut Tally) -> Result<(), String> {
    let mut client = Client::connect(&node.address()).map_err(|error| error.to_string())?;
    let client = &mut client;
    let mut shared = (0, 0);
    for writer in &mut writers.rows {
        let doubt = settle(client, writer)?;
        tally.add(doubt);
        let (least, most) = writer.shared(u64::MAX);
        shared = (shared.0 + least, shared.1 + most);
    }
    let doubt = settle(client, &mut writers.definer)?;
    tally.definition_kills += u64::from(doubt != Doubt::None);
    tally.add(doubt);
    let total = shared_counter(client)?;
    if !(shared.0..=shared.1).contains(&total) {
        return Err(format!("the shared counter is {total}, not within {shared:?}"));
    }
    Ok(())
}

fn settle<S: Story>(client: &mut Client, writer: &mut Writer<S>) -> Result<Doubt, String> {
    let found = S::read(client, writer.number)?;
    writer.settle(found, u64::MAX)
}

impl Tally {
    fn add(&mut self, doubt: Doubt) {
        match doubt {
            Doubt::None => {}
            Doubt::Applied => self.doubtful_applied += 1,
            Doubt::Gone => self.doubtful_gone += 1,
        }
    }
}
