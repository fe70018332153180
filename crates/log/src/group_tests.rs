//! Sets with several members in the log: what comes back of them, wherever the log ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use types::{NodeId, ReplicaId, RingRange, RingToken, SetId};

use crate::disk::Disk;
use crate::frame::{Frame, Position, RecordKind, SEGMENT_HEAD_BYTES, SegmentHead, read_frame};
use crate::frame::{SetState, decode_states, encode_states};
use crate::group::{Configuration, Doubt, EntryPlace, Gap, GroupState, GroupTable, Put, Slot};
use crate::group_append::{GroupAppend, GroupEntry};
use crate::options::{CommitMode, Driver, LogOptions};
use crate::recovery::{Recovered, Replayed, recover, replay_groups};
use crate::simulated_disk::{Random, SimDisk};
use crate::{DurableSink, Log};

struct Nobody;

impl DurableSink<()> for Nobody {
    fn on_durable(&mut self, _: Vec<()>) {}
    fn on_failed(&mut self, _: Vec<()>, _: &Arc<str>) {}
    fn is_quick(&self, (): &()) -> bool {
        true
    }
}

fn start(disk: &SimDisk, recovered: &Recovered) -> Log<()> {
    let options = LogOptions {
        commit: CommitMode::Group,
        driver: Driver::Steps,
        segment_bytes: 2048,
        buffer_bytes_max: 64 << 20,
        write_interval: Duration::from_millis(1),
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::start(disk, &options, recovered, Box::new(Nobody), Arc::new(|| Duration::ZERO)).unwrap()
}

fn members() -> Configuration {
    Configuration::of_voters((1..=4).map(|id| (ReplicaId(id), NodeId(10 + id))))
}

fn state(set: u32) -> GroupState {
    GroupState::born(SetId(set), ReplicaId(2), members())
}

fn slot(term: u64, record: Position) -> Slot {
    Slot { term, kind: 1, now_s: 0, record, body: record, body_bytes: 0 }
}

#[test]
fn states_come_back_as_they_were_said() {
    let mut all = state(7);
    (all.term, all.vote) = (4, 3);
    all.range = Some(RingRange { start: RingToken(5), last: RingToken(9) });
    all.split_from = Some((SetId(6), 40));
    all.configuration.outgoing = vec![ReplicaId(1), ReplicaId(9)];
    all.configuration.learners = vec![ReplicaId(5)];
    all.configuration.learners_next = vec![ReplicaId(1)];
    let gone = crate::group::Gone { set: SetId(8), highest: ReplicaId(4) };
    let states =
        [SetState::Lone { set: SetId(3), index: 9 }, SetState::Group(all), SetState::Gone(gone)];
    let mut bytes = Vec::new();
    encode_states(states.iter().cloned(), &mut bytes);
    assert_eq!(decode_states(&bytes).as_deref(), Some(states.as_slice()));
    for length in 0..bytes.len() {
        if let Some(part) = decode_states(&bytes[..length]) {
            assert_eq!(part, states[..part.len()], "cut at {length}");
        }
    }
}

#[test]
fn a_state_of_before_sets_could_be_split_is_read() {
    let mut bytes = Vec::new();
    state(7).encode(&mut bytes);
    assert_eq!(bytes.pop(), Some(0), "no flags");
    bytes[0] = 2;
    assert_eq!(GroupState::decode(&bytes), Some(state(7)));
}

#[test]
fn a_member_in_doubt_is_kept_and_no_other_is_written_otherwise_than_before() {
    let bytes_of = |state: &GroupState| {
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        bytes
    };
    let mut said = state(7);
    let before = bytes_of(&said);
    assert_eq!(before.first(), Some(&3), "the version before reads it");
    for kept in [None, Some(ReplicaId(3))] {
        said.doubt = Some(Doubt { index: 1024, kept });
        let bytes = bytes_of(&said);
        assert_eq!(
            (bytes.len(), bytes[0]),
            (before.len() + 16, 4),
            "the version before refuses it"
        );
        assert_eq!(GroupState::decode(&bytes), Some(said.clone()));
        for length in 0..bytes.len() {
            assert_eq!(GroupState::decode(&bytes[..length]), None);
        }
        let undoubted = [&[3], &bytes[1..]].concat();
        assert_eq!(GroupState::decode(&undoubted), None, "version 3 has no such flag");
    }
}

#[test]
fn another_term_takes_back_what_is_behind_it_and_a_copy_does_not() {
    let mut table = GroupTable::behind(EntryPlace { index: 1, term: 1 });
    for index in 2..=6 {
        assert_eq!(table.put(index, slot(2, index * 100)), Ok(Put::Last));
    }
    assert_eq!(table.put(4, slot(2, 900)), Ok(Put::Copy));
    assert_eq!(table.last(), EntryPlace { index: 6, term: 2 });
    assert_eq!(table.slot(4), Some(slot(2, 900)));
    assert_eq!(table.put(5, slot(3, 1000)), Ok(Put::InPlaceOf(2)));
    assert_eq!(table.last(), EntryPlace { index: 5, term: 3 });
    assert_eq!(table.put(7, slot(3, 1100)), Err(Gap));
    assert_eq!(table.put(1, slot(9, 1200)), Ok(Put::Old));
    table.cut_to(EntryPlace { index: 3, term: 2 });
    assert_eq!((table.term(3), table.term(2), table.term(5)), (Some(2), None, Some(3)));
    assert_eq!(table.last_before(901, 5), Some(EntryPlace { index: 4, term: 2 }));
    assert_eq!(table.last_before(u64::MAX, 4), Some(EntryPlace { index: 4, term: 2 }));
}

/// A set as it should come back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Model {
    term: u64,
    vote: u64,
    commit: u64,
    cut: EntryPlace,
    /// Index, term and body of what is left.
    entries: Vec<(u64, u64, u64)>,
}

impl Model {
    fn born() -> Model {
        let cut = EntryPlace { index: 1, term: 1 };
        Model { term: 1, vote: 0, commit: 1, cut, entries: Vec::new() }
    }

    fn last(&self) -> u64 {
        self.cut.index + self.entries.len() as u64
    }

    fn state(&self, set: u32) -> GroupState {
        let Model { term, vote, commit, cut, .. } = *self;
        GroupState { term, vote, commit, cut, ..state(set) }
    }
}

fn body_of(number: u64) -> Bytes {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(8 + (number % 90) as usize, 7);
    Bytes::from(body)
}

/// One thing that happens to a set: its leader appends, another one takes the end back, a term begins, what is flushed is cut.
fn change(random: &mut Random, model: &mut Model, number: &mut u64) -> GroupAppend {
    let mut append = GroupAppend::default();
    let kind = random.below(10);
    if kind == 0 {
        model.term += 1 + random.below(2);
        model.vote = random.below(4);
        append.state = Some(model.state(0));
        return append;
    }
    if kind == 1 && model.commit > model.cut.index {
        let index = model.cut.index + 1 + random.below(model.commit - model.cut.index);
        let cut = model.entries.iter().find(|(known, _, _)| *known == index).unwrap();
        model.cut = EntryPlace { index, term: cut.1 };
        model.entries.retain(|(known, _, _)| *known > index);
        append.state = Some(model.state(0));
        return append;
    }
    if kind == 2 {
        // The uncommitted end is copied, so that older segments can go.
        for (index, term, number) in &model.entries {
            let entry = GroupEntry {
                kind: 1,
                term: *term,
                index: *index,
                now_s: 5,
                body: body_of(*number),
            };
            append.entries.push(entry);
        }
        return append;
    }
    let mut from = model.last() + 1;
    if kind <= 4 && model.last() > model.commit {
        from = model.commit + 1 + random.below(model.last() - model.commit);
        model.term += 1;
        model.vote = 0;
    }
    model.entries.retain(|(known, _, _)| *known < from);
    for index in from..from + 1 + random.below(5) {
        *number += 1;
        model.entries.push((index, model.term, *number));
        let body = body_of(*number);
        append.entries.push(GroupEntry { kind: 1, term: model.term, index, now_s: 5, body });
    }
    model.commit = model.commit + random.below(model.last() - model.commit + 1);
    append.state = Some(model.state(0));
    append
}

fn recovered(disk: &SimDisk) -> (Recovered, BTreeMap<u32, Vec<(u64, u64)>>) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut replayed: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    let recovered = recover::<crate::LogError>(&disk, |_| Ok(())).unwrap();
    replay_groups::<crate::LogError>(&disk, &recovered, |record| {
        let Replayed::Entries { entries, .. } = record else { panic!("{record:?}") };
        for (head, body) in entries {
            let number = u64::from_be_bytes(body[..8].try_into().unwrap());
            replayed.entry(head.set.0).or_default().push((head.index, number));
        }
        Ok(())
    })
    .unwrap();
    (recovered, replayed)
}

/// Where the records of a log end, in order.
fn record_ends(disk: &SimDisk) -> Vec<(Position, RecordKind)> {
    let mut ends = Vec::new();
    let files: BTreeMap<String, Vec<u8>> = disk.files();
    for (_, bytes) in files.iter().filter(|(name, _)| name.ends_with(".log")) {
        let Ok(SegmentHead { start, mut chain }) = SegmentHead::decode(bytes) else { continue };
        let mut at = SEGMENT_HEAD_BYTES;
        while let Some(Frame::Record(record)) = bytes.get(at..).map(|rest| read_frame(rest, chain))
        {
            at += record.bytes();
            chain = record.checksum;
            ends.push((start + at as u64, RecordKind::from_byte(record.kind).unwrap()));
        }
    }
    ends
}

/// The disk as it is if the log ended at a place.
fn ending_at(disk: &SimDisk, end: Position) -> SimDisk {
    let files = disk.files().into_iter().filter_map(|(name, mut bytes)| {
        let start = Position::from_str_radix(name.strip_suffix(".log")?, 16).ok()?;
        let length = usize::try_from(end.checked_sub(start)?).ok()?;
        if length == 0 {
            return None;
        }
        bytes.truncate(length);
        Some((name, bytes))
    });
    SimDisk::of_files(files)
}

fn check(seed: u64, at: Position, model: &BTreeMap<u32, Model>, disk: &SimDisk) {
    let (found, replayed) = recovered(disk);
    assert_eq!(found.groups.len(), model.len(), "seed {seed} at {at}");
    for (set, model) in model {
        let group = &found.groups[&SetId(*set)];
        assert_eq!(group.state, model.state(*set), "seed {seed} at {at}, set {set}");
        assert_eq!(group.table.last().index, model.last(), "seed {seed} at {at}, set {set}");
        for (index, term, _) in &model.entries {
            assert_eq!(group.table.term(*index), Some(*term), "seed {seed} at {at}: {index}");
        }
        let committed = model.entries.iter().filter(|(index, _, _)| *index <= model.commit);
        let committed: Vec<(u64, u64)> = committed.map(|(index, _, it)| (*index, *it)).collect();
        let mut applied = replayed.get(set).cloned().unwrap_or_default();
        applied.sort_unstable();
        assert_eq!(applied, committed, "seed {seed} at {at}, set {set}: what is applied again");
    }
}

/// A random history over three sets; what should come back if the log ended behind each append.
fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut disk = SimDisk::default();
    let mut log = start(&disk, &Recovered::default());
    let mut models: BTreeMap<u32, Model> = BTreeMap::new();
    let mut ends: Vec<(Position, BTreeMap<u32, Model>)> = Vec::new();
    let mut number = 0;
    for step in 0..120 {
        let set = u32::try_from(random.below(3)).unwrap();
        match models.get_mut(&set) {
            None => {
                log.append_birth(&state(set)).unwrap();
                models.insert(set, Model::born());
            }
            Some(model) => {
                let mut append = change(&mut random, model, &mut number);
                if let Some(state) = &mut append.state {
                    state.set = SetId(set);
                }
                log.append_group(SetId(set), &append).unwrap();
            }
        }
        ends.push((log.end(), models.clone()));
        if random.below(4) == 0 {
            while log.step() {}
        }
        if random.below(40) == 0 {
            log.close();
            check(seed, log.end(), &models, &disk);
            let (found, _) = recovered(&disk);
            disk = SimDisk::of_files(disk.files());
            log = start(&disk, &found);
            assert!(step > 0 || found.groups.len() <= 1);
        }
    }
    let end = log.end();
    log.sync_through(end).unwrap();
    for (end, models) in &ends {
        check(seed, *end, models, &ending_at(&disk, *end));
    }
    // Wherever it ends, it opens; and every state is one that was, or the beginning of what came next.
    for (end, kind) in record_ends(&disk) {
        if kind != RecordKind::SegmentEnd {
            recovered(&ending_at(&disk, end));
        }
    }
}

#[test]
fn a_log_that_ends_anywhere_brings_back_what_was_before() {
    for seed in 0..12 {
        run(seed);
    }
}

#[test]
fn segments_that_no_set_needs_go_and_what_is_left_is_whole() {
    let disk = SimDisk::default();
    let log = start(&disk, &Recovered::default());
    log.append_birth(&state(1)).unwrap();
    let mut table = GroupTable::behind(state(1).cut);
    let mut now = GroupState { commit: 60, ..state(1) };
    for index in 2..=60 {
        let entry = GroupEntry { kind: 1, term: 1, index, now_s: 5, body: body_of(80) };
        let append = GroupAppend { entries: vec![entry], ..GroupAppend::default() };
        for slot in log.append_group(SetId(1), &append).unwrap() {
            table.put(index, slot).unwrap();
        }
        while log.step() {}
    }
    let cut = table.last_before(u64::MAX, 50).unwrap();
    table.cut_to(cut);
    now.cut = cut;
    log.append_group(SetId(1), &GroupAppend { state: Some(now), ..GroupAppend::default() })
        .unwrap();
    log.forget_before(table.needed_from().unwrap());
    while log.step() {}
    let (found, replayed) = recovered(&disk);
    assert!(found.segment_starts[0] > 0, "older segments went");
    assert_eq!(found.groups[&SetId(1)].table, table);
    assert_eq!(replayed[&1].len(), 10);
    let body = log.read_body(&table.slot(55).unwrap()).unwrap();
    assert_eq!(body, body_of(80));
}

/// Entries of an earlier term, found without those before them because their segment went, and then taken back from before them on.
#[test]
fn entries_that_were_taken_back_from_before_the_first_that_is_left_do_not_count() {
    let disk = SimDisk::default();
    let log = start(&disk, &Recovered::default());
    log.append_birth(&state(1)).unwrap();
    let append = |term, indexes: std::ops::RangeInclusive<u64>| {
        let entry = |index| GroupEntry { kind: 1, term, index, now_s: 5, body: body_of(80) };
        let entries: Vec<GroupEntry> = indexes.map(entry).collect();
        let state = Some(GroupState { term, ..state(1) });
        log.append_group(SetId(1), &GroupAppend { state, entries, ..GroupAppend::default() })
            .unwrap()
    };
    let mut table = GroupTable::behind(state(1).cut);
    append(1, 2..=2);
    // Until another segment begins.
    for index in 3..=60 {
        append(1, index..=index);
        while log.step() {}
    }
    for (index, slot) in (2..).zip(append(2, 2..=4)) {
        table.put(index, slot).unwrap();
    }
    log.forget_before(table.needed_from().unwrap());
    while log.step() {}
    let (found, _) = recovered(&disk);
    assert!(found.segment_starts[0] > 0, "older segments went");
    assert_eq!(found.groups[&SetId(1)].table, table);
}
