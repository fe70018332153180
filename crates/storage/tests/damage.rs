//! Damage is found, told, and never becomes wrong data.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use storage::{Affected, CommitMode, DataDir, OpenError, Options, Storage, check, salvage};
use support::*;
use types::{
    CellAction, CellChange, ColumnId, Mutation, Operation, PartitionKey, RowChange, RowPosition,
};

const ROWS: u32 = 60;

fn write(storage: &Storage, number: u32, value: u32) {
    let action = CellAction::Set {
        path: None,
        value: Bytes::from(value.to_be_bytes().to_vec()),
        expiry: None,
    };
    let cell = CellChange { column: ColumnId(1), timestamp_us: i64::from(value), action };
    let position = RowPosition::Clustered(Bytes::from_static(b"c"));
    let row = RowChange {
        position,
        liveness: None,
        deletion: None,
        cells: vec![cell],
        original_clustering: None,
    };
    let key = PartitionKey::new(Bytes::copy_from_slice(&number.to_be_bytes()));
    let operations = vec![Operation::Row(row)];
    let mutation =
        Mutation { table_version: 0, now_s: None, table: TABLE, key, condition: None, operations };
    storage.commit(vec![(SET, mutation)]).wait().unwrap();
}

fn options() -> Options {
    Options { segment_bytes: 64 * 1024, ..small_options(CommitMode::Group) }
}

/// A small database: sorted files, two of them, and a log with changes that are only there.
fn make(folder: &Path) -> BTreeMap<u32, u32> {
    let storage = open(folder, options());
    storage.save_document("schema", b"a document").unwrap();
    let mut rows = BTreeMap::new();
    for round in 0..3 {
        for number in (round..ROWS).step_by(round as usize + 1) {
            write(&storage, number, round * 1000 + number);
            rows.insert(number, round * 1000 + number);
        }
        if round < 2 {
            storage.flush(None).unwrap();
        }
    }
    storage.close().unwrap();
    rows
}

fn try_open(folder: &Path) -> Result<Storage, OpenError> {
    let clock = Arc::new(FixedClock(AtomicU32::new(NOW_S)));
    Storage::open(DataDir::lock(folder)?, options(), Arc::new(Tables::default()), clock)
}

fn rows_of(storage: &Storage) -> Result<BTreeMap<u32, u32>, storage::ReadError> {
    let mut sink = Remember::default();
    storage.read(SET, &everything(), &mut sink)?;
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let rows = sink.rows.iter().map(|row| (number(&row.partition), number(&row.cells[0].3)));
    Ok(rows.collect())
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
    found.sort();
}

fn findings(folder: &Path) -> Vec<storage::Finding> {
    let dir = DataDir::lock_existing(folder).unwrap();
    check(&dir, &mut |_| {}).unwrap().findings
}

#[test]
fn a_whole_folder_has_no_findings_and_check_changes_nothing() {
    let folder = Folder::new("check-whole");
    make(&folder.0);
    let mut before = Vec::new();
    files(&folder.0, &mut before);
    let dir = DataDir::lock_existing(&folder.0).unwrap();
    let mut bytes = 0;
    let report = check(&dir, &mut |count| bytes += count).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!((report.document_count, report.tree_count, report.file_count), (1, 1, 2));
    assert!(report.change_count > 0 && report.file_bytes == bytes && bytes > 0, "{report:?}");
    let mut after = Vec::new();
    files(&folder.0, &mut after);
    assert_eq!(before, after);
}

/// The number of entries in a table of contents, with all bits set: the library would ask for 170 GB.
#[test]
fn an_impossible_number_in_a_file_is_refused_and_does_not_end_the_process() {
    let folder = Folder::new("impossible-number");
    make(&folder.0);
    let mut paths = Vec::new();
    files(&folder.0, &mut paths);
    let mut tried = 0;
    for path in paths.iter().filter(|path| !path.ends_with("current")) {
        let good = fs::read(path).unwrap();
        let contents = good.windows(4).rposition(|bytes| bytes == b"TOC!");
        let Some(contents) = contents.filter(|_| good.windows(4).any(|bytes| bytes == b"SFA!"))
        else {
            continue;
        };
        let mut bad = good.clone();
        bad[contents + 4..contents + 8].fill(0xff);
        fs::write(path, &bad).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        match try_open(&folder.0) {
            Err(error) => assert!(error.to_string().contains(name), "{name}: {error}"),
            // A manifest that is not the newest is not looked at.
            Ok(_) => assert!(name.starts_with('v'), "{name} was opened"),
        }
        fs::write(path, &good).unwrap();
        tried += 1;
    }
    assert!(tried >= 3, "{tried}");
    drop(try_open(&folder.0).unwrap());
}

/// Set by `cargo xtask bit-flips`: really every byte, not only a few hundred of each file.
const EVERY_BYTE: &str = "HELENUS_EVERY_BYTE";

/// Every byte of every file, one bit each: refused at the start, an error at the read, or found by
/// `check`. Where the rows come back all the same, they are the right ones.
#[test]
fn a_flipped_bit_anywhere_is_found_or_harmless() {
    let original = Folder::new("flip-original");
    let work = Folder::new("flip-work");
    let expected = make(&original.0);
    let mut paths = Vec::new();
    files(&original.0, &mut paths);
    copy(&original.0, &work.0);
    let mut outcomes: BTreeMap<&str, u32> = BTreeMap::new();
    for path in &paths {
        let target = work.0.join(path.strip_prefix(&original.0).unwrap());
        let good = fs::read(path).unwrap();
        // Long runs of filler are the same case again and again.
        let step =
            if std::env::var_os(EVERY_BYTE).is_some() { 1 } else { (good.len() / 250).max(1) };
        for offset in (0..good.len()).step_by(step) {
            let mut bad = good.clone();
            bad[offset] ^= 1 << (offset % 8);
            fs::write(&target, &bad).unwrap();
            let seen = !findings(&work.0).is_empty();
            let place = format!("{} at {offset}", target.display());
            let outcome = match try_open(&work.0) {
                Err(error) => {
                    assert!(seen, "{place}: a start refuses ({error}), check does not");
                    "refused at the start"
                }
                Ok(storage) => {
                    let rows = rows_of(&storage);
                    let document = storage.load_document("schema");
                    storage.abandon();
                    match (rows, document) {
                        (Ok(rows), Ok(document)) => {
                            assert_eq!(rows, expected, "{place}: wrong data");
                            assert_eq!(document.as_deref(), Some(b"a document".as_slice()));
                            if seen { "found by check" } else { "harmless" }
                        }
                        _ => {
                            assert!(seen, "{place}: a read fails, check finds nothing");
                            "an error at the read"
                        }
                    }
                }
            };
            *outcomes.entry(outcome).or_default() += 1;
            copy(&original.0, &work.0);
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes["refused at the start"] > 0 && outcomes["an error at the read"] > 0);
}

#[test]
fn refusals_name_the_file_and_the_way_out() {
    let original = Folder::new("refusal-original");
    let work = Folder::new("refusal-work");
    make(&original.0);
    let log = |folder: &Path| {
        let mut logs = Vec::new();
        files(&folder.join("log"), &mut logs);
        logs
    };
    // A segment in the middle is missing: make some first.
    let storage = open(&original.0, options());
    for number in 0..2_500 {
        write(&storage, number, number);
    }
    storage.abandon();
    let refusal = |change: &dyn Fn(&Path)| {
        copy(&original.0, &work.0);
        change(&work.0);
        assert!(!findings(&work.0).is_empty());
        try_open(&work.0).map(|_| ()).unwrap_err()
    };
    assert!(log(&original.0).len() >= 3, "{:?}", log(&original.0));
    let missing = refusal(&|folder| fs::remove_file(&log(folder)[1]).unwrap());
    let text = missing.to_string();
    assert!(text.contains(".log is damaged at offset "), "{text}");
    assert!(text.contains("helenus check") && text.contains("helenus salvage"), "{text}");
    let middle = refusal(&|folder| {
        let path = &log(folder)[1];
        let mut bytes = fs::read(path).unwrap();
        bytes[5_000] ^= 1;
        fs::write(path, bytes).unwrap();
    });
    assert!(matches!(middle, OpenError::Damaged { affected: Affected::Log, .. }), "{middle}");
    let newest = refusal(&|folder| {
        let mut paths = log(folder);
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        fs::remove_file(paths.last().unwrap()).unwrap();
    });
    assert!(newest.to_string().contains("the newest segment of the log is missing"), "{newest}");
    let no_log = refusal(&|folder| {
        fs::remove_dir_all(folder.join("log")).unwrap();
        fs::create_dir(folder.join("log")).unwrap();
    });
    assert!(matches!(no_log, OpenError::LogMissing { .. }), "{no_log}");
    let version = refusal(&|folder| {
        // A later version of the log, with a right checksum.
        let path = &log(folder)[0];
        let mut bytes = fs::read(path).unwrap();
        bytes[9] = 99;
        let checksum = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&checksum.to_be_bytes());
        fs::write(path, bytes).unwrap();
    });
    assert!(matches!(version, OpenError::UnknownVersion { version: 99, .. }), "{version}");
    let gone = refusal(&|folder| {
        let mut trees = Vec::new();
        files(&folder.join("trees"), &mut trees);
        let sorted = trees.iter().find(|path| path.parent().unwrap().ends_with("tables"));
        fs::remove_file(sorted.unwrap()).unwrap();
    });
    assert!(matches!(gone, OpenError::Damaged { affected: Affected::Table(TABLE), .. }), "{gone}");
}

fn save(from: &Path, to: &Path) -> (storage::SalvageReport, BTreeMap<u32, u32>) {
    let clock = Arc::new(FixedClock(AtomicU32::new(NOW_S)));
    let source = DataDir::lock_existing(from).unwrap();
    let target = DataDir::lock(to).unwrap();
    let schema = Arc::new(Tables::default());
    let report = salvage(&source, target, options(), schema, clock, &mut |_| {}).unwrap();
    assert!(findings(to).is_empty(), "{:?}", findings(to));
    let storage = try_open(to).unwrap();
    let rows = rows_of(&storage).unwrap();
    // It goes on as any folder does.
    write(&storage, 9_999_999, 1);
    assert_eq!(rows_of(&storage).unwrap().len(), rows.len() + 1);
    (report, rows)
}

#[test]
fn salvage_saves_all_of_a_whole_folder() {
    let (from, to) = (Folder::new("salvage-whole"), Folder::new("salvage-whole-to"));
    let expected = make(&from.0);
    let (report, rows) = save(&from.0, &to.0);
    assert_eq!(rows, expected);
    assert!(report.lost.is_empty() && report.copied_trees == 1, "{report:?}");
}

#[test]
fn salvage_goes_on_behind_damage() {
    let original = Folder::new("salvage-original");
    let (work, to) = (Folder::new("salvage-work"), Folder::new("salvage-to"));
    {
        let storage = open(&original.0, options());
        for number in 0..3_000 {
            write(&storage, number, number);
        }
        storage.flush(None).unwrap();
        for number in 3_000..5_000 {
            write(&storage, number, number);
        }
        storage.abandon();
    }
    let flip = |pick: &dyn Fn(&[PathBuf]) -> PathBuf, folder: &str, offset: usize| {
        copy(&original.0, &work.0);
        let mut paths = Vec::new();
        files(&work.0.join(folder), &mut paths);
        let path = pick(&paths);
        let mut bytes = fs::read(&path).unwrap();
        bytes[offset] ^= 4;
        fs::write(path, bytes).unwrap();
        let mut before = Vec::new();
        files(&work.0, &mut before);
        let contents: Vec<_> = before.iter().map(|path| fs::read(path).unwrap()).collect();
        let _ = fs::remove_dir_all(&to.0);
        let (report, rows) = save(&work.0, &to.0);
        assert!(!report.lost.is_empty());
        assert!(rows.iter().all(|(number, value)| number == value), "wrong data");
        let after: Vec<_> = before.iter().map(|path| fs::read(path).unwrap()).collect();
        assert!(contents == after, "the original was touched");
        (report, rows.len())
    };
    // A block of a sorted file: its rows are gone, all others are there.
    let sorted = |paths: &[PathBuf]| {
        paths.iter().find(|path| path.parent().unwrap().ends_with("tables")).unwrap().clone()
    };
    let (report, rows) = flip(&sorted, "trees", 9_000);
    assert!(report.rebuilt_trees == 1, "{report:?}");
    assert!((4_700..5_000).contains(&rows), "{rows} rows, {report:?}");
    // The manifest: nothing is lost.
    let manifest = |paths: &[PathBuf]| {
        let is_current = |path: &&PathBuf| path.ends_with("current");
        paths.iter().find(is_current).unwrap().clone()
    };
    let (_, rows) = flip(&manifest, "trees", 3);
    assert_eq!(rows, 5_000);
    // A record of the log: one group is gone, what follows it is not.
    let last = |paths: &[PathBuf]| {
        paths
            .iter()
            .rfind(|path| {
                fs::metadata(path).unwrap().len() > 20_000
                    && path.extension().is_some_and(|end| end == "log")
            })
            .unwrap()
            .clone()
    };
    let (report, rows) = flip(&last, "log", 1_000);
    assert!((4_900..5_000).contains(&rows), "{rows} rows, {report:?}");
}
