//! A tree of buffers and files against a plain map with all its versions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use crate::engine::{LATEST, LsmTree, SeqNo, SortedTree, TreeBytes, TreeItem, TreeShared};
use crate::test_folder::TestFolder;
use crate::{EVEN_SPACE, FileHome, MemoryHome, TreeError, TreeHome};

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u8),
    Remove(u8),
    Seal,
    /// With the watermark of the oldest reader.
    Flush,
    Compact,
    /// So many keys from one on are set to the same, past memory, if nothing of them is there.
    Ingest(u8, u8, u8),
    CompactAll,
    /// From now on somebody reads as of now, until [`Step::Leave`].
    Arrive,
    Leave,
    /// Flushed, closed and opened again; readers are gone.
    Reopen,
    Learn,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (any::<u8>(), any::<u8>()).prop_map(|(key, value)| Step::Set(key % 40, value)),
        4 => any::<u8>().prop_map(|key| Step::Remove(key % 40)),
        3 => Just(Step::Seal),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        3 => (any::<u8>(), 1..12_u8, any::<u8>())
            .prop_map(|(first, count, value)| Step::Ingest(first % 40, count, value)),
        1 => Just(Step::CompactAll),
        2 => Just(Step::Arrive),
        1 => Just(Step::Leave),
        1 => Just(Step::Reopen),
        2 => Just(Step::Learn),
    ];
    prop::collection::vec(step, 1..120)
}

/// Keys of all kinds: short ones, rows over the ring, several rows of one partition, what comes after rows.
fn key(number: u8) -> Vec<u8> {
    match number {
        0..=3 => vec![number],
        4..=24 => {
            let token = u128::from(number).wrapping_mul(u128::MAX / 21);
            [&[EVEN_SPACE], token.to_be_bytes().as_slice(), b"\0\x04same", &[number]].concat()
        }
        25..=34 => [&[EVEN_SPACE; 17], b"\0\x04same".as_slice(), &[number]].concat(),
        _ => vec![EVEN_SPACE + 2, number],
    }
}

/// What a reader from before `seqno` should see.
type Model = BTreeMap<Vec<u8>, Vec<(SeqNo, Option<u8>)>>;

fn expected(model: &Model, seqno: SeqNo) -> Vec<(Vec<u8>, u8)> {
    let visible = model.iter().filter_map(|(key, versions)| {
        let version = versions.iter().rev().find(|(written, _)| *written < seqno)?;
        Some((key.clone(), version.1?))
    });
    visible.collect()
}

fn check(tree: &dyn SortedTree, model: &Model, seqno: SeqNo, turns: &[bool]) {
    let all = expected(model, seqno);
    if seqno == LATEST {
        for (key, _) in &all {
            let starts = (1..=key.len()).filter_map(|length| key.get(..length));
            assert!(starts.into_iter().all(|start| tree.may_hold(start)), "{key:?}");
        }
    }
    for number in 0..40 {
        let wanted = all.iter().find(|(known, _)| *known == key(number)).map(|(_, value)| *value);
        let found = tree.get(&key(number), seqno).unwrap();
        assert_eq!(found.as_deref(), wanted.as_ref().map(std::slice::from_ref), "key {number}");
    }
    // From both ends in turns, over everything and over a part.
    for (start, end) in [(vec![], vec![9]), (key(6), key(30)), (key(26), key(33))] {
        let wanted: Vec<_> = all.iter().filter(|(key, _)| *key >= start && *key < end).collect();
        let mut items = tree.range(&start, &end, seqno);
        let (mut front, mut back) = (Vec::new(), Vec::new());
        let mut turns = turns.iter().cycle();
        loop {
            let is_front = turns.next().is_none_or(|turn| *turn);
            let Some(item) = (if is_front { items.next() } else { items.next_back() }) else {
                break;
            };
            let (key, value) = item.unwrap();
            if is_front { &mut front } else { &mut back }.push((key.to_vec(), value.to_vec()));
        }
        front.extend(back.into_iter().rev());
        let wanted: Vec<_> =
            wanted.iter().map(|(key, value)| (key.clone(), vec![*value])).collect();
        assert_eq!(front, wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn readers_of_every_time_see_what_was_written_before(
        steps in steps(),
        turns in prop::collection::vec(any::<bool>(), 1..8),
    ) {
        let folder = TestFolder::new("layers");
        run(&FileHome::new(1 << 20, 64), folder.path(), &steps, &turns);
        run(&MemoryHome::default(), folder.path(), &steps, &turns);
    }
}

/// The same calls on a tree and on a plain model.
fn run(home: &dyn TreeHome, folder: &Path, steps: &[Step], turns: &[bool]) {
    let open = || home.open(&folder.join("tree"), None, None).unwrap();
    let mut opened = open();
    let mut model = Model::new();
    let mut readers: Vec<SeqNo> = Vec::new();
    for step in steps {
        let tree = opened.as_ref();
        let oldest =
            |readers: &[SeqNo]| readers.iter().copied().min().unwrap_or_else(|| tree.next_seqno());
        match step {
            Step::Set(number, value) => {
                let seqno = tree.draw_seqno();
                let value_bytes = Some(TreeBytes::from([*value]));
                tree.write_over(&key(*number), value_bytes, seqno, oldest(&readers));
                model.entry(key(*number)).or_default().push((seqno, Some(*value)));
            }
            Step::Remove(number) => {
                let seqno = tree.draw_seqno();
                tree.write_over(&key(*number), None, seqno, oldest(&readers));
                model.entry(key(*number)).or_default().push((seqno, None));
            }
            Step::Seal => {
                tree.seal();
            }
            Step::Flush => tree.flush(oldest(&readers)).unwrap(),
            Step::Compact => {
                tree.compact(oldest(&readers)).unwrap();
            }
            Step::Ingest(first, count, value) => {
                let mut keys: Vec<_> = (*first..(*first + *count).min(40)).map(key).collect();
                keys.sort();
                let mut end = keys.last().unwrap().clone();
                end.push(0);
                if tree.is_buffered(&keys[0], &end) {
                    continue;
                }
                let seqno = tree.next_seqno();
                let pair = |key: &Vec<u8>| Ok((TreeBytes::from(&**key), TreeBytes::from([*value])));
                tree.ingest(&mut keys.iter().map(pair), oldest(&readers)).unwrap();
                for key in keys {
                    model.entry(key).or_default().push((seqno, Some(*value)));
                }
            }
            Step::CompactAll => tree.compact_all(oldest(&readers)).unwrap(),
            Step::Arrive => readers.push(tree.next_seqno()),
            Step::Leave => {
                readers.pop();
            }
            Step::Learn => tree.learn(&|| true).unwrap(),
            Step::Reopen => {
                readers.clear();
                tree.seal();
                tree.flush(tree.next_seqno()).unwrap();
                drop(opened);
                opened = open();
            }
        }
        for reader in readers.iter().copied().chain([LATEST]) {
            check(opened.as_ref(), &model, reader, turns);
        }
    }
    // And what was flushed is there when the tree is opened again.
    opened.seal();
    opened.flush(opened.next_seqno()).unwrap();
    drop(opened);
    check(open().as_ref(), &model, LATEST, turns);
}

/// Nobody asks the files for what was never flushed: a group of keys is absent until it is written, and may be there ever after.
#[test]
fn groups_that_were_never_written_are_known_to_be_absent() {
    let folder = TestFolder::new("groups");
    let shared = TreeShared::new(1 << 20, 64);
    let path = folder.path().join("tree");
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    let start = |number: u64| {
        let low = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        [&[EVEN_SPACE], [number as u8; 8].as_slice(), &low].concat()
    };
    let known = |from, to| (from..to).filter(|number| tree.may_hold(&start(*number))).count();
    for number in 0..200 {
        assert!(!tree.may_hold(&start(number)));
        for row in [b"a", b"b"] {
            let key = [start(number).as_slice(), row].concat();
            tree.insert(&key, TreeBytes::from(row), tree.draw_seqno());
        }
        match number % 40 {
            13 => assert!(tree.seal()),
            27 => tree.flush(tree.next_seqno()).unwrap(),
            39 => tree.compact_all(tree.next_seqno()).unwrap(),
            _ => {}
        }
        assert_eq!(known(0, number + 1), number as usize + 1);
    }
    assert!(known(1_000, 2_000) < 20, "strangers");
    // Bytes that do not tell the group are no reason to say no.
    assert!(tree.may_hold(&start(5_000)[..16]));
    assert!(tree.may_hold(b"other"));
    tree.seal();
    tree.flush(tree.next_seqno()).unwrap();
    drop(tree);
    // Of files from before nothing is known until they are read, and that is done for those who write.
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    let known = |from, to| (from..to).filter(|number| tree.may_hold(&start(*number))).count();
    tree.learn(&|| true).unwrap();
    assert_eq!(known(1_000, 2_000), 1_000);
    tree.insert(&start(300), TreeBytes::from(b"new"), tree.draw_seqno());
    tree.learn(&|| false).unwrap();
    assert_eq!(known(1_000, 2_000), 1_000, "it was broken off");
    tree.seal();
    tree.flush(tree.next_seqno()).unwrap();
    tree.insert(&start(301), TreeBytes::from(b"new"), tree.draw_seqno());
    tree.learn(&|| true).unwrap();
    assert_eq!((known(0, 200), known(300, 302)), (200, 2));
    assert!(known(1_000, 2_000) < 20, "strangers");
}

/// A flush and a compaction that end at the same time: what was flushed stays to be seen.
#[test]
fn what_was_flushed_is_seen_while_files_are_merged() {
    let folder = TestFolder::new("beside");
    let shared = TreeShared::new(1 << 20, 64);
    let tree = LsmTree::open(&folder.path().join("tree"), &shared, None).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                tree.compact(tree.next_seqno()).unwrap();
                tree.compact_all(tree.next_seqno()).unwrap();
            }
        });
        let lost = (0..300u16).find_map(|number| {
            let key = number.to_be_bytes();
            tree.insert(&key, TreeBytes::from(key), tree.draw_seqno());
            tree.seal();
            tree.flush(tree.next_seqno()).unwrap();
            let is_seen = |key: &u16| tree.get(&key.to_be_bytes(), LATEST).unwrap().is_some();
            (0..=number).find(|key| !is_seen(key)).map(|key| (key, number))
        });
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(lost, None, "a key, and the flush after which it was not seen");
    });
}

/// Where not all can be read of what is to come past memory, nothing of it is there, and no file of it is left.
#[test]
fn what_comes_past_memory_comes_whole_or_not_at_all() {
    let folder = TestFolder::new("ingest");
    let shared = TreeShared::new(1 << 20, 64);
    let path = folder.path().join("tree");
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    let pair = |number: u16| {
        let key = TreeBytes::from(number.to_be_bytes());
        Ok((key.clone(), key))
    };
    let broken = || TreeError::Corrupt("it is not readable".into());
    let mut pairs = (0..2_000).map(pair).chain([Err(broken())]);
    let result = tree.ingest(&mut pairs, tree.next_seqno());
    assert!(matches!(result, Err(TreeError::Corrupt(_))), "{result:?}");
    assert!(tree.range(&[], &[255], LATEST).next().is_none());
    assert_eq!(std::fs::read_dir(path.join("tables")).unwrap().count(), 0);
    tree.ingest(&mut (0..2_000).map(pair), tree.next_seqno()).unwrap();
    tree.ingest(&mut std::iter::empty(), tree.next_seqno()).unwrap();
    assert!(!tree.is_buffered(&[], &[255]));
    drop(tree);
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    assert_eq!(tree.range(&[], &[255], LATEST).count(), 2_000);
}

/// However many flushes come without a merge between them, the tree can be opened again with all that was flushed.
#[test]
fn more_files_than_a_manifest_can_name_are_refused() {
    let folder = TestFolder::new("runs");
    let shared = TreeShared::new(1 << 20, 64);
    let path = folder.path().join("tree");
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    let mut flushed = Vec::new();
    for number in 0..300u16 {
        let key = number.to_be_bytes();
        // Over the same range each time, or they would be one run.
        for key in [&[0u8, 0, 0], key.as_slice(), &[9]] {
            tree.insert(key, TreeBytes::from(key), tree.draw_seqno());
        }
        tree.seal();
        if tree.flush(tree.next_seqno()).is_ok() {
            flushed.push(key);
        }
    }
    drop(tree);
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    assert!(flushed.iter().all(|key| tree.get(key, LATEST).unwrap().is_some()));
    assert!((100..256).contains(&flushed.len()), "{}", flushed.len());
    // What was merged makes room for more.
    while tree.compact(tree.next_seqno()).unwrap() {}
    tree.insert(b"new", TreeBytes::from(*b"new"), tree.draw_seqno());
    tree.seal();
    tree.flush(tree.next_seqno()).unwrap();
}

/// What memory holds of the groups of an image does not grow with it: their traces are told as it comes.
#[test]
fn traces_of_what_comes_past_memory_are_told_as_it_comes() {
    let folder = TestFolder::new("traces");
    let shared = TreeShared::new(1 << 20, 64);
    let tree = LsmTree::open(&folder.path().join("tree"), &shared, None).unwrap();
    let start = |number: u64| {
        let low = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        [&[EVEN_SPACE], number.to_be_bytes().as_slice(), &low].concat()
    };
    const LAST: u64 = 199_999;
    let mut was_known = false;
    let mut pairs = (0..=LAST).map(|number| {
        if number == LAST {
            was_known = tree.may_hold(&start(0));
        }
        Ok((TreeBytes::from(start(number)), TreeBytes::from([1])))
    });
    tree.ingest(&mut pairs, tree.next_seqno()).unwrap();
    assert!(was_known);
    assert!((0..=LAST).all(|number| tree.may_hold(&start(number))));
    let strangers = (LAST + 1..LAST + 1_001).filter(|number| tree.may_hold(&start(*number)));
    assert!(strangers.count() < 30);
}

fn pair_of(number: u16) -> TreeItem {
    let key = TreeBytes::from(number.to_be_bytes());
    Ok((key.clone(), key))
}

fn file_count(tree: &Path) -> usize {
    std::fs::read_dir(tree.join("tables")).unwrap().count()
}

/// A disk that was full is not left full: what fails beside other work that fails goes with it.
#[test]
fn what_fails_beside_other_work_leaves_no_files() {
    let folder = TestFolder::new("leftovers");
    let shared = TreeShared::new(1 << 20, 64);
    let path = folder.path().join("tree");
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    let broken = || Err(TreeError::Corrupt("it is not readable".into()));
    let mut number = 0;
    let mut pairs = std::iter::from_fn(|| {
        number += 1;
        match number {
            1 => {
                let mut pairs = [pair_of(7), broken()].into_iter();
                assert!(tree.ingest(&mut pairs, tree.next_seqno()).is_err());
                Some(pair_of(1))
            }
            _ => Some(broken()),
        }
    });
    assert!(tree.ingest(&mut pairs, tree.next_seqno()).is_err());
    assert_eq!(file_count(&path), 0);
}

/// What is written beside work that fails is not taken for its own, also where only older readers need it any more.
#[test]
fn what_goes_well_beside_work_that_fails_stays() {
    let folder = TestFolder::new("beside");
    let shared = TreeShared::new(1 << 20, 64);
    let path = folder.path().join("tree");
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    let (mut number, mut reader, from) = (0, None, tree.next_seqno());
    let mut pairs = std::iter::from_fn(|| {
        number += 1;
        if number > 1 {
            return Some(Err(TreeError::Corrupt("it is not readable".into())));
        }
        for key in 10..13 {
            tree.insert(&u16::to_be_bytes(key), TreeBytes::from([1]), tree.draw_seqno());
            tree.seal();
            tree.flush(from).unwrap();
        }
        tree.ingest(&mut (20..30).map(pair_of), from).unwrap();
        reader = Some(tree.range(&[], &[255], LATEST));
        tree.compact_all(from).unwrap();
        Some(pair_of(1))
    });
    assert!(tree.ingest(&mut pairs, from).is_err());
    // Four that were merged, and what they were merged into.
    assert_eq!(file_count(&path), 5);
    assert_eq!(reader.unwrap().count(), 13);
    tree.release(tree.next_seqno()).unwrap();
    assert_eq!(file_count(&path), 1);
    drop(tree);
    let tree = LsmTree::open(&path, &shared, None).unwrap();
    assert_eq!(tree.range(&[], &[255], LATEST).count(), 13);
}
