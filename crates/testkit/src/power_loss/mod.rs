//! A real node under load whose machine loses its power: everything it did to its folder is written
//! down, and from that the disk as it could be after a loss of power at many moments is built, with
//! what was not synced there, not there, or there in part. A node must start on every one of them, have
//! every write that was acknowledged before, and none by half.
//!
//! It goes in generations: one of the disks is what the next recording begins with, so power is also
//! lost while a node recovers from a loss of power. Everything random comes from the seed; which write
//! falls between which two calls is the machine's choice.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::crash::{self, Doubt, Moment, Story, Writer, Writers, create_tables, shared_counter};
use crate::differential::random::Dice;
use crate::disk::{Journal, Mood, Record, Shim, World};
use crate::{Client, Node};

/// How long a generation writes, in milliseconds.
const LOAD_MS: (usize, usize) = (500, 1_500);
/// Between two chores, in milliseconds.
const CHORE_MS: (usize, usize) = (20, 150);
/// Disks that are built from one recording.
const IMAGES_PER_GENERATION: u64 = 12;
/// Calls that a failure tells.
const LAST_RECORDS: usize = 30;
/// Every so many disks every block is checked, and the node started once more.
const CHECKED_EVERY: u64 = 6;

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct PowerLossRun {
    /// The binary `helenus`.
    pub binary: PathBuf,
    /// How many disks are built and opened.
    pub images: u64,
    /// Where all randomness comes from.
    pub seed: u64,
    /// More settings of the node, as `--set` takes them.
    pub settings: Vec<String>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Disks that were built and opened.
    pub images: u64,
    /// Recordings.
    pub generations: u64,
    /// Calls that were recorded.
    pub records: u64,
    /// Changes of bytes and of names that were not synced, over all disks.
    pub pending: (u64, u64),
    /// Acknowledged writes that were looked for, over all disks.
    pub acknowledged: u64,
    /// Requests in doubt that were found applied, as a whole.
    pub doubtful_applied: u64,
    /// Requests in doubt of which nothing was found.
    pub doubtful_gone: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} disks after a loss of power ({} recordings of {} calls; not synced: {} changes of bytes, \
             {} of names): {} acknowledged writes looked for, 0 lost, 0 torn; in doubt {} applied, {} not",
            self.images,
            self.generations,
            self.records,
            self.pending.0,
            self.pending.1,
            self.acknowledged,
            self.doubtful_applied,
            self.doubtful_gone
        )
    }
}

/// The folders of a run; they go with it.
struct Place {
    base: PathBuf,
    image: PathBuf,
    journal: PathBuf,
    whole: PathBuf,
}

impl Place {
    fn new(seed: u64) -> Result<Place, String> {
        let name = format!("helenus-power-{}-{seed}", std::process::id());
        let whole = std::env::temp_dir().join(name);
        fs::create_dir_all(&whole).map_err(told)?;
        let within = |name: &str| whole.join(name);
        Ok(Place {
            base: within("base"),
            image: within("image"),
            journal: within("journal"),
            whole,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.whole);
    }
}

fn told(error: impl fmt::Display) -> String {
    error.to_string()
}

/// What one generation recorded.
struct Recording {
    journal: Journal,
    /// From here on the tables of the test are there.
    ready: u64,
}

/// A disk to be built.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// After how many records.
    record: usize,
    mood: Mood,
    seed: u64,
}

/// Runs until all disks were opened; `tell` gets a line for each. The error says what was lost or torn.
pub fn run(asked: &PowerLossRun, tell: &mut dyn FnMut(&str)) -> Result<Tally, String> {
    let shim = Shim::build()?;
    let place = Place::new(asked.seed)?;
    let mut dice = Dice::new(asked.seed);
    let mut writers = Writers::new(&mut dice);
    let mut tally = Tally::default();
    fs::create_dir_all(&place.base).map_err(told)?;
    while tally.images < asked.images {
        let mut world = World::of_folder(&place.base).map_err(told)?;
        let recording = record(asked, &shim, &place, &mut writers, &mut dice, tally.generations)?;
        tally.generations += 1;
        tally.records += recording.journal.records().len() as u64;
        let count = IMAGES_PER_GENERATION.min(asked.images - tally.images);
        let losses = draw_losses(&recording, count, &mut dice);
        let mut done = 0;
        for (number, loss) in losses.iter().enumerate() {
            let records = recording.journal.records();
            for (_, record) in records.get(done..loss.record).unwrap_or_default() {
                world.advance(record, &recording.journal)?;
            }
            done = loss.record;
            let end = loss.record.checked_sub(1).and_then(|last| records.get(last));
            let end = end.map_or(0, |(end, _)| *end);
            let name = format!("generation {}, {loss:?}", tally.generations);
            let build = |folder: &Path| {
                world.write_image(&recording.journal, loss.mood, loss.seed, folder).map_err(told)
            };
            let context = |error: String| {
                let kept =
                    std::env::temp_dir().join(format!("helenus-power-failed-{}", asked.seed));
                let _ = build(&kept);
                failure(&error, &name, asked.seed, &kept, records.get(..loss.record))
            };
            build(&place.image)?;
            let (bytes, names) = world.pending();
            tally.pending.0 += bytes as u64;
            tally.pending.1 += names as u64;
            let is_last = number + 1 == losses.len();
            if end < recording.ready {
                open_only(asked, &place).map_err(context)?;
            } else {
                if is_last {
                    build(&place.base)?;
                }
                open_and_verify(asked, &place, &mut writers, end, is_last, &mut tally)
                    .map_err(context)?;
            }
            tally.images += 1;
            tell(&format!(
                "disk {}: {name}: {bytes} changes of bytes and {names} of names not synced",
                tally.images
            ));
        }
        // Snapshots would only grow.
        let _ = fs::remove_dir_all(place.base.join("snapshots"));
    }
    Ok(tally)
}

/// Says what was wrong, where the disk is kept, and what came before.
fn failure(
    error: &str,
    name: &str,
    seed: u64,
    kept: &Path,
    records: Option<&[(u64, Record)]>,
) -> String {
    let last = records.unwrap_or_default().iter().rev().take(LAST_RECORDS).rev();
    let last: Vec<String> = last.map(|(_, record)| format!("  {record:?}")).collect();
    let (kept, last) = (kept.display(), last.join("\n"));
    format!("{error}\n(seed {seed}, {name}; the disk is kept in {kept}; the calls before)\n{last}")
}

/// Runs a node on the base under load, and writes down what it does.
fn record(
    asked: &PowerLossRun,
    shim: &Shim,
    place: &Place,
    writers: &mut Writers,
    dice: &mut Dice,
    generation: u64,
) -> Result<Recording, String> {
    let _ = fs::remove_file(&place.journal);
    let environment = shim.environment(&place.base, Some(&place.journal), None);
    let arguments = arguments(asked);
    let mut node =
        Node::start_in(&asked.binary, &place.base, &arguments, environment).map_err(told)?;
    let moment = || fs::metadata(&place.journal).map_or(0, |it| it.len());
    let mut ready = 0;
    if generation == 0 {
        let mut client = Client::connect(&node.address()).map_err(told)?;
        create_tables(&mut client)?;
        ready = moment();
    }
    // Some generations stop and start in the middle.
    for _ in 0..dice.between(1, 2) {
        let mut left = dice.between(LOAD_MS.0, LOAD_MS.1);
        let address = node.address();
        let stops_cleanly = dice.chance(70);
        writers.write_until_gone(&address, &moment, || {
            while left > 0 {
                let pause = dice.between(CHORE_MS.0, CHORE_MS.1).min(left);
                sleep(Duration::from_millis(pause as u64));
                left -= pause;
                let chore =
                    *dice.pick(&[Moment::Flush, Moment::Compact, Moment::Snapshot, Moment::Split]);
                if let Some(mut chore) = crash::begin_chore(&asked.binary, node.data_dir(), chore)?
                {
                    let _ = chore.wait();
                }
            }
            match stops_cleanly {
                true => node.stop().map_err(told),
                false => node.kill().map_err(told),
            }
        })?;
        if !stops_cleanly {
            break;
        }
        node.launch().map_err(told)?;
        let mut client = Client::connect(&node.address()).map_err(told)?;
        for writer in &mut writers.rows {
            writer.resolve(&Story::read(&mut client, writer.number)?, moment())?;
        }
        let definer = &mut writers.definer;
        definer.resolve(&Story::read(&mut client, definer.number)?, moment())?;
    }
    node.kill().map_err(told)?;
    let journal = Journal::read(&place.journal).map_err(told)?;
    Ok(Recording { journal, ready })
}

fn arguments(asked: &PowerLossRun) -> Vec<&str> {
    asked.settings.iter().flat_map(|setting| ["--set", setting.as_str()]).collect()
}

/// Moments at which power is lost, in order: half of them anywhere, half right after a change of names
/// or the beginning of a sync.
fn draw_losses(recording: &Recording, count: u64, dice: &mut Dice) -> Vec<Loss> {
    let records = recording.journal.records();
    let touchy: Vec<usize> = records
        .iter()
        .enumerate()
        .filter(|(_, (_, record))| !matches!(record, Record::Write { .. } | Record::Synced { .. }))
        .map(|(index, _)| index + 1)
        .collect();
    let mut losses: Vec<Loss> = (0..count)
        .map(|_| {
            let record = match dice.chance(50) && !touchy.is_empty() {
                true => *dice.pick(&touchy),
                false => dice.below(records.len() + 1),
            };
            let mood = *dice.pick(&Mood::ALL);
            Loss { record, mood, seed: dice.below(usize::MAX) as u64 }
        })
        .collect();
    losses.sort_by_key(|loss| loss.record);
    // The next generation goes on from the last one, so there must be something.
    let ready = records.iter().position(|(end, _)| *end >= recording.ready).map_or(0, |it| it + 1);
    if let Some(last) = losses.last_mut() {
        last.record = last.record.max(ready);
    }
    losses
}

/// A node starts on the image, before there was anything.
fn open_only(asked: &PowerLossRun, place: &Place) -> Result<(), String> {
    let node = Node::start_on(&asked.binary, &place.image, &arguments(asked)).map_err(told)?;
    Client::connect(&node.address()).map_err(told)?;
    Ok(())
}

/// A node starts on the image and has everything. What it has is where the writers go on from if this
/// is the last image of a generation.
fn open_and_verify(
    asked: &PowerLossRun,
    place: &Place,
    writers: &mut Writers,
    end: u64,
    is_last: bool,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut node = Node::start_on(&asked.binary, &place.image, &arguments(asked)).map_err(told)?;
    let mut client = Client::connect(&node.address()).map_err(told)?;
    let mut shared = (0, 0);
    for writer in &mut writers.rows {
        verify(&mut client, writer, end, tally)?;
        let (least, most) = writer.shared(end);
        shared = (shared.0 + least, shared.1 + most);
    }
    verify(&mut client, &mut writers.definer, end, tally)?;
    let total = shared_counter(&mut client)?;
    if !(shared.0..=shared.1).contains(&total) {
        return Err(format!("the shared counter is {total}, not within {shared:?}"));
    }
    if tally.images.is_multiple_of(CHECKED_EVERY) {
        drop(client);
        node.stop().map_err(told)?;
        crash::check(&asked.binary, node.data_dir())?;
        node.launch().map_err(told)?;
        let mut client = Client::connect(&node.address()).map_err(told)?;
        for writer in &writers.rows {
            writer.judge(&Story::read(&mut client, writer.number)?, end)?;
        }
    }
    if is_last {
        let mut client = Client::connect(&node.address()).map_err(told)?;
        for writer in &mut writers.rows {
            writer.settle(Story::read(&mut client, writer.number)?, end)?;
        }
        let definer = &mut writers.definer;
        definer.settle(Story::read(&mut client, definer.number)?, end)?;
    }
    Ok(())
}

fn verify<S: Story>(
    client: &mut Client,
    writer: &mut Writer<S>,
    end: u64,
    tally: &mut Tally,
) -> Result<(), String> {
    let found = S::read(client, writer.number)?;
    match writer.judge(&found, end)? {
        Doubt::None => {}
        Doubt::Applied => tally.doubtful_applied += 1,
        Doubt::Gone => tally.doubtful_gone += 1,
    }
    tally.acknowledged += writer.promised(end);
    Ok(())
}
