//! The log alone: what comes back after a stop of any kind.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use types::SetId;

use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{EntryHead, EntryId, Frame, Mark, Position, read_frame};
use crate::options::{CommitMode, Driver, LogOptions};
use crate::recovery::{Recovered, Replayed, recover};
use crate::simulated_disk::{Random, SimDisk};
use crate::{AppendError, Appended, Appending, DurableSink, Elapsed, Log, NewEntry, NewRecord};

/// Remembers which jobs became durable, in order.
#[derive(Clone, Debug, Default)]
struct Durable(Arc<Mutex<(Vec<u64>, Vec<u64>)>>);

impl DurableSink<u64> for Durable {
    fn on_durable(&mut self, jobs: Vec<u64>) {
        assert!(!jobs.contains(&FATAL_JOB), "on purpose");
        self.0.lock().0.extend(jobs);
    }

    fn on_failed(&mut self, jobs: Vec<u64>, _: &Arc<str>) {
        self.0.lock().1.extend(jobs);
    }

    fn is_quick(&self, job: &u64) -> bool {
        *job < SLOW_JOBS
    }
}

/// Jobs from this number on keep whoever hands them over waiting.
const SLOW_JOBS: u64 = 1_000_000;
/// Whoever hands it over panics.
const FATAL_JOB: u64 = 999_999;

impl Durable {
    fn acknowledged(&self) -> Vec<u64> {
        self.0.lock().0.clone()
    }

    fn failed(&self) -> Vec<u64> {
        self.0.lock().1.clone()
    }
}

fn options(commit: CommitMode) -> LogOptions {
    LogOptions {
        commit,
        driver: Driver::Threads,
        segment_bytes: 4096,
        buffer_bytes_max: 64 << 20,
        write_interval: Duration::from_millis(1),
    }
}

fn body(number: u64, padding: usize) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(body.len() + padding, number as u8);
    body
}

fn number_in(body: &[u8]) -> u64 {
    u64::from_be_bytes(body[..8].try_into().unwrap())
}

type Found = Vec<(u64, Vec<EntryId>)>;

/// What a log holds: the numbers of its changes with their ids.
fn read_back(disk: &SimDisk) -> Result<(Recovered, Found), LogError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut found = Vec::new();
    let recovered = recover(&disk, |replayed| {
        if let Replayed::Entries { entries, .. } = replayed {
            let ids = entries.iter().map(|(head, _)| EntryId { set: head.set, index: head.index });
            found.push((number_in(&entries[0].1), ids.collect()));
        }
        Ok(())
    })?;
    Ok((recovered, found))
}

fn start(disk: &SimDisk, mode: CommitMode, recovered: &Recovered) -> (Log<u64>, Durable) {
    let durable = Durable::default();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let log =
        Log::start(disk, &options(mode), recovered, Box::new(durable.clone()), steady()).unwrap();
    (log, durable)
}

/// Time as it passes.
#[expect(clippy::disallowed_methods, reason = "the log's own thread is tested with real time")]
fn steady() -> Elapsed {
    let start = std::time::Instant::now();
    Arc::new(move || start.elapsed())
}

fn append(log: &Log<u64>, number: u64, padding: usize) -> Result<Position, AppendError> {
    let set = SetId(u32::try_from(number % 3).unwrap());
    append_to(log, set, number, &body(number, padding), true)
}

/// Wants what it appends, and to be told its number.
struct Told(u64);

impl Appending<u64> for Told {
    fn is_wanted(&mut self) -> bool {
        true
    }

    fn job(&mut self, _: Appended, heads: &[EntryHead]) -> Option<u64> {
        assert_eq!(heads.len(), 1);
        Some(self.0)
    }
}

/// The second of an entry is its number, though clocks may go back.
fn append_to(
    log: &Log<u64>,
    set: SetId,
    number: u64,
    body: &[u8],
    wakes: bool,
) -> Result<Position, AppendError> {
    let entries = [NewEntry { set, kind: 1, body_bytes: u32::try_from(body.len()).unwrap() }];
    let now_s = u32::try_from(number).unwrap();
    let record = NewRecord { entries: &entries, body, now_s, is_last: false, wakes, waits: true };
    log.append_entries(record, &mut Told(number)).map(|appended| appended.end)
}

/// A log of a few groups, closed cleanly or not.
fn small_log(count: u64, close: bool) -> SimDisk {
    let disk = SimDisk::default();
    let (log, _) = start(&disk, CommitMode::Group, &Recovered::default());
    for number in 0..count {
        let end = append(&log, number, 20).unwrap();
        log.sync_through(end).unwrap();
    }
    if close {
        log.close();
    } else {
        log.abandon();
    }
    disk
}

#[test]
fn a_closed_log_comes_back_whole_and_goes_on() {
    let mut disk = small_log(10, true);
    let mut expected: Vec<u64> = (0..10).collect();
    for round in 0..3u64 {
        let (recovered, found) = read_back(&disk).unwrap();
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), expected);
        let ids: BTreeMap<SetId, Vec<u64>> =
            found.iter().fold(BTreeMap::new(), |mut ids, (_, e)| {
                ids.entry(e[0].set).or_insert_with(Vec::new).push(e[0].index);
                ids
            });
        for indexes in ids.values() {
            let whole: Vec<u64> = (1..=indexes.len() as u64).collect();
            assert_eq!(*indexes, whole, "indexes of a set have no holes");
        }
        let (log, _) = start(&disk, CommitMode::Group, &recovered);
        let number = 100 + round;
        let end = append(&log, number, 2000).unwrap();
        log.sync_through(end).unwrap();
        log.close();
        expected.push(number);
        disk = SimDisk::of_files(disk.files());
    }
}

#[test]
fn every_torn_end_is_cut() {
    let disk = small_log(4, false);
    let (_, whole) = read_back(&disk).unwrap();
    assert_eq!(whole.len(), 4);
    let files = disk.files();
    let (name, bytes) = files.iter().find(|(name, _)| name.ends_with(".log")).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut last_count = 0;
    for length in 0..=used {
        let mut torn = bytes.clone();
        torn[length..].fill(0);
        let disk = SimDisk::of_files([(name.clone(), torn)]);
        let (_, found) = read_back(&disk).unwrap();
        assert_eq!(found, whole[..found.len()], "cut at {length}");
        assert!(found.len() >= last_count);
        last_count = found.len();
    }
    assert_eq!(last_count, 4);
}

#[test]
fn every_flipped_bit_is_damage_or_a_torn_end() {
    let disk = small_log(3, true);
    let (_, whole) = read_back(&disk).unwrap();
    let files = disk.files();
    let (name, bytes) = files.iter().find(|(name, _)| name.ends_with(".log")).unwrap();
    let marks: Vec<Mark> = Mark::search(bytes).collect();
    let synced = marks.iter().map(|mark| mark.synced).max().unwrap();
    let mut damaged = 0;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let disk = SimDisk::of_files([(name.clone(), flipped)]);
        match read_back(&disk) {
            Ok((recovered, found)) => {
                assert_eq!(found, whole[..found.len()], "bit {bit}");
                assert!(
                    found.len() == whole.len() || recovered.end >= synced,
                    "bit {bit}: lost what was known to be synced"
                );
            }
            Err(LogError::Damaged { .. } | LogError::UnknownVersion { .. }) => damaged += 1,
            Err(other) => panic!("bit {bit}: {other}"),
        }
    }
    assert!(damaged > 0);
}

#[test]
fn a_missing_segment_is_damage() {
    let disk = SimDisk::default();
    let (log, _) = start(&disk, CommitMode::Group, &Recovered::default());
    for number in 0..12 {
        let end = append(&log, number, 1000).unwrap();
        log.sync_through(end).unwrap();
    }
    log.close();
    let files = disk.files();
    let names: Vec<&String> = files.keys().filter(|name| name.ends_with(".log")).collect();
    assert!(names.len() >= 3);
    for gone in &names[..names.len() - 1] {
        let rest = files.iter().filter(|(name, _)| name != gone);
        let disk = SimDisk::of_files(rest.map(|(name, bytes)| (name.clone(), bytes.clone())));
        assert!(matches!(read_back(&disk), Err(LogError::Damaged { .. })), "without {gone}");
    }
    // The last one is noticed because it was noted when it began.
    let newest = names.last().unwrap();
    disk.remove(newest).unwrap();
    let error = read_back(&disk).unwrap_err();
    assert!(error.to_string().contains("the newest segment of the log is missing"), "{error}");
}

/// Segments that are not needed any more are written over, and what stood in them never comes back,
/// whatever a loss of power leaves.
#[test]
fn recycled_segments_hold_nothing_of_before() {
    let mut recycled = 0;
    for seed in 0..80u64 {
        let mut random = Random::new(seed);
        let mut disk = SimDisk::default();
        let mut recovered = Recovered::default();
        let mut next = 0;
        for generation in 0..3 {
            let told = format!("seed {seed}, generation {generation}");
            let (log, durable) = start(&disk, CommitMode::Group, &recovered);
            let mut ends = Vec::new();
            for _ in 0..10 + random.below(20) {
                let padding = usize::try_from(600 + random.below(900)).unwrap();
                let end = append(&log, next, padding).unwrap();
                next += 1;
                log.sync_through(end).unwrap();
                ends.push(end);
                if ends.len() > 5 && random.below(3) == 0 {
                    log.forget_before(ends[ends.len() - 5]);
                }
            }
            for _ in 0..random.below(4) {
                append(&log, next, 300).unwrap();
                next += 1;
            }
            let acknowledged = durable.acknowledged().last().copied().unwrap();
            let after = disk.after_power_loss(&mut random);
            log.abandon();
            recycled += disk.recycled();
            let (read, found) = read_back(&after).unwrap_or_else(|error| panic!("{told}: {error}"));
            let found: Vec<u64> = found.into_iter().map(|(number, _)| number).collect();
            let last = *found.last().unwrap();
            assert!(last >= acknowledged && found.len() >= 4, "{told}: {found:?}");
            let whole: Vec<u64> = (last + 1 - found.len() as u64..=last).collect();
            assert_eq!(found, whole, "{told}");
            next = last + 1;
            recovered = read;
            disk = after;
        }
    }
    assert!(recycled > 100, "only {recycled} segments were written over");
}

/// Removed segments may come back with a loss of power, and not all of them.
#[test]
fn removed_segments_that_come_back_are_passed_over() {
    let disk = SimDisk::default();
    let (log, _) = start(&disk, CommitMode::Group, &Recovered::default());
    let mut ends = Vec::new();
    for number in 0..20 {
        let end = append(&log, number, 1000).unwrap();
        log.sync_through(end).unwrap();
        ends.push(end);
    }
    let before = disk.files();
    log.forget_before(ends[15]);
    log.close();
    let mut files = disk.files();
    let (_, found) = read_back(&SimDisk::of_files(files.clone())).unwrap();
    let (name, bytes) = before.iter().find(|(name, _)| name.ends_with(".log")).unwrap();
    files.insert(name.clone(), bytes.clone());
    let (_, again) = read_back(&SimDisk::of_files(files)).unwrap();
    assert_eq!(found, again);
}

#[test]
fn what_is_forgotten_is_removed() {
    let disk = SimDisk::default();
    let (log, _) = start(&disk, CommitMode::Group, &Recovered::default());
    let mut ends = Vec::new();
    for number in 0..20 {
        let end = append(&log, number, 1000).unwrap();
        log.sync_through(end).unwrap();
        ends.push(end);
    }
    log.forget_before(ends[15]);
    log.close();
    let (recovered, found) = read_back(&disk).unwrap();
    assert!(recovered.segment_starts[0] > 0, "segments went");
    assert!(found.len() < 20 && found.last().unwrap().0 == 19);
    let (_, first) = (found[0].0, &found[0].1);
    assert!(first[0].index > 1, "indexes go on after their segments went");
    assert_eq!(recovered.indexes[&SetId(1)], 7);
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    for mode in [CommitMode::Group, CommitMode::Periodic { sync_interval: Duration::ZERO }] {
        let disk = SimDisk::default();
        let (log, durable) = start(&disk, mode, &Recovered::default());
        let end = append(&log, 0, 10).unwrap();
        log.sync_through(end).unwrap();
        disk.fail_sync_after(1);
        let end = append(&log, 1, 10).unwrap();
        assert!(matches!(log.sync_through(end), Err(AppendError::Failed(_))));
        assert!(matches!(append(&log, 2, 10), Err(AppendError::Failed(_))), "for good");
        log.close();
        if mode == CommitMode::Group {
            assert_eq!(durable.acknowledged(), [0]);
            assert_eq!(durable.failed(), [1]);
        }
    }
}

/// Appends without telling the log's thread.
fn append_quietly(log: &Log<u64>, number: u64) -> Result<Position, AppendError> {
    append_to(log, SetId(0), number, &body(number, 10), false)
}

#[test]
fn an_appender_that_may_not_wait_is_told_that_there_is_no_room_and_when_there_is() {
    let disk = SimDisk::default();
    let durable = Durable::default();
    let few_bytes = LogOptions { buffer_bytes_max: 200, ..options(CommitMode::Group) };
    let log = Log::start(
        Arc::new(disk.clone()),
        &few_bytes,
        &Recovered::default(),
        Box::new(durable.clone()),
        steady(),
    );
    let log = log.unwrap();
    let append_now = |number: u64| {
        let body = body(number, 50);
        let body_bytes = u32::try_from(body.len()).unwrap();
        let record = NewRecord {
            entries: &[NewEntry { set: SetId(0), kind: 1, body_bytes }],
            body: &body,
            now_s: 0,
            is_last: false,
            wakes: false,
            waits: false,
        };
        log.append_entries(record, &mut Told(number))
    };
    disk.slow_down(Duration::from_millis(20));
    let mut refused = None;
    let mut count = 0;
    while refused.is_none() {
        match append_now(count) {
            Ok(_) => count += 1,
            Err(AppendError::NoRoom(bytes)) => refused = Some(bytes),
            Err(error) => panic!("{error:?}"),
        }
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut room = pin!(log.room(refused.unwrap_or_default()));
    while room.as_mut().poll(&mut context).is_pending() {
        std::thread::yield_now();
    }
    append_now(count).unwrap();
    log.close();
    assert_eq!(durable.acknowledged(), (0..=count).collect::<Vec<_>>());
}

#[test]
fn what_is_gathered_lies_in_pieces_of_bounded_length() {
    let disk = SimDisk::default();
    let options = LogOptions { segment_bytes: 64 << 20, ..options(CommitMode::Group) };
    let sink = Box::new(Durable::default());
    let disk_of_log: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = Log::start(disk_of_log, &options, &Recovered::default(), sink, steady()).unwrap();
    for number in 0..80 {
        append_to(&log, SetId(0), number, &body(number, 64 << 10), false).unwrap();
    }
    let longest = log.shared.gathering.lock().chunks.iter().map(|chunk| chunk.bytes.len()).max();
    assert!(longest.unwrap_or_default() < (1 << 20) + (66 << 10), "{longest:?}");
    log.close();
    let (_, found) = read_back(&disk).unwrap();
    assert_eq!(found.len(), 80);
}

#[test]
fn a_lone_writer_writes_and_syncs_by_itself() {
    let disk = SimDisk::default();
    let (log, durable) = start(&disk, CommitMode::Group, &Recovered::default());
    log.sync_through(append(&log, 0, 10).unwrap()).unwrap();
    log.drain();
    // Enough for several segments. A machine that is busy may leave some of them to the log's thread.
    let mut told_at_once = 0;
    for number in 1..100 {
        let end = append_quietly(&log, number).unwrap();
        log.write_or_wake();
        if log.synced() == end && durable.acknowledged().last() == Some(&number) {
            told_at_once += 1;
        }
        log.drain();
    }
    assert!(told_at_once >= 50, "{told_at_once} of 99 were told before the call returned");
    // Too many for one, and one that would keep it: left to the log's thread.
    for number in 100..110 {
        append_quietly(&log, number).unwrap();
    }
    log.write_or_wake();
    log.drain();
    append_quietly(&log, SLOW_JOBS).unwrap();
    log.write_or_wake();
    log.drain();
    let all: Vec<u64> = (0..110).chain([SLOW_JOBS]).collect();
    assert_eq!(durable.acknowledged(), all);
    log.close();
    let (_, found) = read_back(&disk).unwrap();
    assert_eq!(found.into_iter().map(|(number, _)| number).collect::<Vec<_>>(), all);
}

#[test]
fn lone_writers_beside_each_other_keep_the_order_of_the_log() {
    let disk = SimDisk::default();
    let (log, durable) = start(&disk, CommitMode::Group, &Recovered::default());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..200 {
                    let end = append_quietly(log, thread * 1_000 + number).unwrap();
                    log.write_or_wake();
                    log.sync_through(end).unwrap();
                }
            });
        }
    });
    log.drain();
    log.close();
    let (_, found) = read_back(&disk).unwrap();
    let written: Vec<u64> = found.into_iter().map(|(number, _)| number).collect();
    assert_eq!((written.len(), &durable.acknowledged()), (800, &written));
}

#[test]
fn a_lone_writer_whose_sync_fails_is_told_and_is_the_last() {
    let disk = SimDisk::default();
    let (log, durable) = start(&disk, CommitMode::Group, &Recovered::default());
    log.sync_through(append(&log, 0, 10).unwrap()).unwrap();
    log.drain();
    disk.fail_sync_after(1);
    append_quietly(&log, 1).unwrap();
    log.write_or_wake();
    assert_eq!((durable.acknowledged(), durable.failed()), (vec![0], vec![1]));
    assert!(matches!(append_quietly(&log, 2), Err(AppendError::Failed(_))), "for good");
    log.close();
}

/// What it took is gone with it: behind that nothing is written, or it would not be found again.
#[test]
fn where_a_lone_writer_panics_nobody_writes_behind_it() {
    let disk = SimDisk::default();
    let options = LogOptions { driver: Driver::Steps, ..options(CommitMode::Group) };
    let durable = Durable::default();
    let (disk_of_log, sink) = (Arc::new(disk) as Arc<dyn Disk>, Box::new(durable.clone()));
    let log = Log::start(disk_of_log, &options, &Recovered::default(), sink, steady()).unwrap();
    append_quietly(&log, 1).unwrap();
    log.write_or_wake();
    append_quietly(&log, FATAL_JOB).unwrap();
    catch_unwind(AssertUnwindSafe(|| log.write_or_wake())).unwrap_err();
    append_quietly(&log, 2).unwrap();
    log.write_or_wake();
    while log.step() {}
    assert_eq!((durable.acknowledged(), durable.failed()), (vec![1], vec![2]));
    assert!(matches!(append_quietly(&log, 3), Err(AppendError::Failed(_))), "for good");
}

#[test]
fn a_lone_writer_waits_for_one_sync_and_many_share_one() {
    let disk = SimDisk::default();
    let (log, _) = start(&disk, CommitMode::Group, &Recovered::default());
    let end = append(&log, 0, 10).unwrap();
    log.sync_through(end).unwrap();
    log.drain();
    let before = disk.syncs();
    let end = append(&log, 1, 10).unwrap();
    log.sync_through(end).unwrap();
    assert_eq!(disk.syncs(), before + 1);
    disk.slow_down(Duration::from_millis(200));
    let together = Barrier::new(48);
    std::thread::scope(|scope| {
        for number in 2..50 {
            let (log, together) = (&log, &together);
            scope.spawn(move || {
                together.wait();
                let end = append(log, number, 10).unwrap();
                log.sync_through(end).unwrap();
            });
        }
    });
    assert!(disk.syncs() <= before + 12, "{} syncs for 48 writers", disk.syncs() - before);
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let disk = SimDisk::default();
    let (log, durable) = start(&disk, CommitMode::Group, &Recovered::default());
    let mut number = 0;
    let mut refused = false;
    for _ in 0..40 {
        if number == 2 {
            disk.set_full(true);
        }
        match append(&log, number, 1000) {
            Ok(end) => {
                log.sync_through(end).unwrap();
                number += 1;
            }
            Err(AppendError::Short(_)) => {
                refused = true;
                break;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refused);
    disk.set_full(false);
    let end = loop {
        match append(&log, number, 1000) {
            Ok(end) => break end,
            Err(AppendError::Short(_)) => std::thread::sleep(Duration::from_millis(20)),
            Err(other) => panic!("{other:?}"),
        }
    };
    log.sync_through(end).unwrap();
    log.drain();
    assert_eq!(durable.acknowledged(), (0..=number).collect::<Vec<_>>());
    log.close();
    let (_, found) = read_back(&disk).unwrap();
    assert_eq!(found.len() as u64, number + 1);
}

/// Wherever the log runs short before a sync, it refuses, goes on by itself, and loses nothing.
fn runs_short(mode: CommitMode, steps: u64, error: i32) {
    let disk = SimDisk::default();
    let (log, durable) = start(&disk, mode, &Recovered::default());
    disk.run_short(Some((steps, error)));
    let mut accepted = Vec::new();
    for number in 0.. {
        assert!(number < 100_000, "it never ran short");
        if number > 1_000 {
            // On a busy machine the log's own thread has its turn much later.
            std::thread::sleep(Duration::from_millis(1));
        }
        match append(&log, number, 100) {
            Ok(_) => accepted.push(number),
            Err(AppendError::Short(_)) => break,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(log.shortage().is_some() && log.failure().is_none());
    disk.run_short(None);
    while log.shortage().is_some() {
        std::thread::yield_now();
    }
    log.drain();
    assert!(log.shortage().is_none() && log.failure().is_none());
    for number in 1_000_000..1_000_010 {
        log.sync_through(append(&log, number, 100).unwrap()).unwrap();
        accepted.push(number);
    }
    log.close();
    assert_eq!(durable.acknowledged(), accepted, "{mode:?} {steps}");
    let (_, found) = read_back(&disk).unwrap();
    assert_eq!(found.into_iter().map(|(number, _)| number).collect::<Vec<_>>(), accepted);
}

#[test]
fn a_log_that_runs_short_goes_on_by_itself() {
    const EMFILE: i32 = 24;
    const ENOSPC: i32 = 28;
    let periodic = CommitMode::Periodic { sync_interval: Duration::from_millis(1) };
    for (mode, error) in [(CommitMode::Group, EMFILE), (periodic, ENOSPC)] {
        for steps in 0..6 {
            runs_short(mode, steps, error);
        }
    }
}

#[test]
fn a_log_that_is_closed_while_short_tells_who_waits() {
    let disk = SimDisk::default();
    let (log, durable) = start(&disk, CommitMode::Group, &Recovered::default());
    log.sync_through(append(&log, 0, 10).unwrap()).unwrap();
    disk.run_short(Some((0, 28)));
    append(&log, 1, 10).unwrap();
    while log.shortage().is_none() {
        std::thread::yield_now();
    }
    log.close();
    assert_eq!((durable.acknowledged(), durable.failed()), (vec![0], vec![1]));
}

#[test]
fn a_change_that_is_too_large_is_refused() {
    let disk = SimDisk::default();
    let (log, _) = start(&disk, CommitMode::Group, &Recovered::default());
    assert!(matches!(append(&log, 0, 3000), Err(AppendError::TooLarge { .. })));
    append(&log, 1, 10).unwrap();
    log.close();
    assert_eq!(read_back(&disk).unwrap().1.len(), 1);
}

/// Power goes at random moments, several times in a row: everything acknowledged is there, in
/// order, and what is there is a prefix of what was appended.
#[test]
fn power_loss_loses_nothing_acknowledged() {
    for seed in 0..200u64 {
        power_loss(seed, CommitMode::Group);
    }
    for seed in 0..60u64 {
        power_loss(seed, CommitMode::Periodic { sync_interval: Duration::ZERO });
    }
}

fn power_loss(seed: u64, mode: CommitMode) {
    let mut random = Random::new(seed);
    let mut disk = SimDisk::default();
    let mut held: Vec<u64> = Vec::new();
    let mut next = 0;
    for generation in 0..4 {
        let told = format!("seed {seed}, generation {generation}, {mode:?}");
        let (recovered, found) = read_back(&disk).unwrap_or_else(|error| panic!("{told}: {error}"));
        let found: Vec<u64> = found.into_iter().map(|(number, _)| number).collect();
        assert_eq!(found, held, "{told}");
        let (log, durable) = start(&disk, mode, &recovered);
        let mut appended = held.clone();
        for _ in 0..random.below(30) {
            let padding = usize::try_from(random.below(700)).unwrap();
            let end = append(&log, next, padding).unwrap();
            appended.push(next);
            next += 1;
            if random.below(4) == 0 {
                log.sync_through(end).unwrap();
            }
        }
        // First what was acknowledged, then the picture: nothing in between can be missing.
        let mut acknowledged = held.clone();
        acknowledged.extend(durable.acknowledged());
        let after = disk.after_power_loss(&mut random);
        log.abandon();
        let (_, found) = read_back(&after).unwrap_or_else(|error| panic!("{told}: {error}"));
        let found: Vec<u64> = found.into_iter().map(|(number, _)| number).collect();
        assert_eq!(found, appended[..found.len()], "a prefix; {told}");
        assert!(mode != CommitMode::Group || found.len() >= acknowledged.len(), "{told}");
        held = found;
        disk = after;
    }
}

#[test]
fn frames_of_any_bytes_never_panic() {
    let mut random = Random::new(7);
    for _ in 0..20_000 {
        let length = usize::try_from(random.below(64)).unwrap();
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        if let Frame::Record(record) = read_frame(&bytes, 0) {
            assert!(record.bytes() <= bytes.len());
        }
        let _ = super::frame::SegmentHead::decode(&bytes);
        let _ = EntryHead::decode_all(&bytes, length);
        let _ = super::frame::decode_states(&bytes);
        let _ = Mark::decode(&bytes);
    }
}
