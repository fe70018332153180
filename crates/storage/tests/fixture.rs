//! Databases of earlier formats open and read the same. The folders under `tests/fixtures` were written
//! once by the version that had the format, and are never written again.
//!
//! A new format gets a new folder: raise `FORMAT`, then
//! `cargo test -p storage --test fixture -- --ignored write_the_newest`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use storage::{CommitMode, DataDir, Options, Storage, check};
use support::*;
use types::{
    CellAction, CellChange, ClusteringRange, ColumnId, Deletion, Expiry, Liveness, Mutation,
    Operation, PartitionKey, RowChange, RowPosition,
};

/// The newest format that has a fixture.
const FORMAT: u32 = 1;

fn folder_of(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{format}"))
}

fn options() -> Options {
    Options { segment_bytes: 256 * 1024, ..small_options(CommitMode::Group) }
}

fn commit(storage: &Storage, number: u32, operation: Operation) {
    let key = PartitionKey::new(Bytes::copy_from_slice(&number.to_be_bytes()));
    let operations = vec![operation];
    let mutation =
        Mutation { table_version: 0, now_s: None, table: TABLE, key, condition: None, operations };
    storage.commit(vec![(SET, mutation)]).wait().unwrap();
}

fn row(position: RowPosition, cells: Vec<CellChange>) -> Operation {
    Operation::Row(RowChange {
        position,
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us: 10, expiry: None }),
        deletion: None,
        cells,
    })
}

fn set(
    column: u32,
    path: Option<&'static [u8]>,
    value: Vec<u8>,
    expiry: Option<Expiry>,
) -> CellChange {
    let path = path.map(Bytes::from_static);
    let action = CellAction::Set { path, value: Bytes::from(value), expiry };
    CellChange { column: ColumnId(column), timestamp_us: 20, action }
}

/// Every kind of thing that is stored: rows, static rows, elements, expiry, counters, long values, and
/// deletions of rows, ranges and partitions; some in sorted files, some only in the log.
fn fill(storage: &Storage) {
    let clustered = |text: String| RowPosition::Clustered(Bytes::from(text));
    let deletion = Deletion { timestamp_us: 30, deleted_at_s: NOW_S };
    for number in 0..20u32 {
        let expiry = Expiry { ttl_s: 1_000_000, expires_at_s: NOW_S + 1_000_000 };
        let long = vec![number as u8; if number % 10 == 0 { 5_000 } else { 20 }];
        for clustering in ["a", "b", "c"] {
            let cells = vec![
                set(1, None, number.to_be_bytes().to_vec(), None),
                set(2, Some(b"first"), vec![1], None),
                set(2, Some(b"second"), vec![2], Some(expiry)),
                set(3, None, long.clone(), None),
            ];
            commit(storage, number, row(clustered(clustering.into()), cells));
        }
        commit(storage, number, row(RowPosition::Static, vec![set(9, None, vec![7], None)]));
        let add = CellChange {
            column: ColumnId(5),
            timestamp_us: 20,
            action: CellAction::CounterAdd(i64::from(number)),
        };
        let counter = RowChange {
            position: clustered("counter".into()),
            original_clustering: None,
            liveness: None,
            deletion: None,
            cells: vec![add],
        };
        commit(storage, number, Operation::Row(counter));
        match number % 8 {
            1 => commit(storage, number, Operation::DeletePartition(deletion)),
            2 => {
                let range = ClusteringRange {
                    start: Bytes::from_static(b"b"),
                    end: Some(Bytes::from_static(b"c")),
                };
                commit(storage, number, Operation::DeleteRange { range, deletion });
            }
            3 => {
                let mut gone = row(clustered("a".into()), Vec::new());
                if let Operation::Row(change) = &mut gone {
                    change.liveness = None;
                    change.deletion = Some(deletion);
                }
                commit(storage, number, gone);
            }
            _ => {}
        }
        if number == 12 {
            storage.flush(None).unwrap();
        }
    }
    storage.save_document("schema", b"a document").unwrap();
}

fn rows_as_text(storage: &Storage) -> String {
    let told = |cells: &[SeenCell]| -> String {
        let cell = |(column, path, at, value): &SeenCell| {
            let path = path.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            let (length, sum) = (value.len(), crc32fast::hash(value));
            format!(" {column}[{path}]@{at}={length}:{sum:08x}")
        };
        cells.iter().map(cell).collect()
    };
    let row = |row: &SeenRow| {
        let clustering = row.clustering.as_deref().map(String::from_utf8_lossy);
        let (cells, statics) = (told(&row.cells), told(&row.statics));
        let (key, live) = (&row.partition, row.has_liveness);
        format!("{key:?} {clustering:?} {live}{cells} static{statics}\n")
    };
    read_all(storage, &everything()).iter().map(row).collect()
}

fn copy(from: &Path, to: &Path) {
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

#[test]
fn every_format_opens_and_reads_the_same() {
    for format in 1..=FORMAT {
        let work = Folder::new("fixture");
        copy(&folder_of(format).join("data"), &work.0);
        let dir = DataDir::lock(&work.0).unwrap();
        let report = check(&dir, &mut |_| {}).unwrap();
        assert!(report.findings.is_empty(), "format {format}: {:?}", report.findings);
        assert!(report.file_count > 0 && report.change_count > 0, "{report:?}");
        drop(dir);
        let expected = fs::read_to_string(folder_of(format).join("rows.txt")).unwrap();
        let storage = open(&work.0, options());
        assert_eq!(rows_as_text(&storage), expected, "format {format}");
        assert_eq!(storage.load_document("schema").unwrap().as_deref(), Some(&b"a document"[..]));
        // It goes on, and is written in the format of today.
        storage.compact(None).unwrap();
        assert_eq!(rows_as_text(&storage), expected, "format {format}");
        drop(storage);
        assert_eq!(rows_as_text(&open(&work.0, options())), expected, "format {format}");
    }
}

#[test]
#[ignore = "writes the fixture of a new format into the repository"]
fn write_the_newest() {
    let folder = folder_of(FORMAT);
    assert!(!folder.exists(), "{} is there; fixtures are never written again", folder.display());
    let storage = open(&folder.join("data"), options());
    fill(&storage);
    fs::write(folder.join("rows.txt"), rows_as_text(&storage)).unwrap();
    storage.close().unwrap();
    drop(storage);
    fs::remove_file(folder.join("data/lock")).unwrap();
    // What a clean stop leaves ready for the next segment.
    for entry in fs::read_dir(folder.join("data/log")).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("spare") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}
