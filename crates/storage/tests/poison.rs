//! An entry that cannot be applied is the last: nothing behind it is applied or acknowledged, nothing half done
//! reaches sorted files, and the next start goes on from the log.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use storage::{CommitError, CommitMode, Options, Storage, Touched};
use support::*;
use types::{CellAction, CellChange, ColumnId, Mutation, Operation, RowChange, RowPosition};

static PANICS: AtomicBool = AtomicBool::new(false);

/// Weighing is a part of applying that a test can break.
fn weigh(_: Touched) -> u64 {
    assert!(!PANICS.load(Ordering::Relaxed), "broken on purpose");
    0
}

fn open_breakable(folder: &Folder, mode: CommitMode) -> Storage {
    let options = Options { weigh: Some(weigh), ..small_options(mode) };
    open_with(&folder.0, options, Tables(vec![Arc::new(plain_table())]), NOW_S)
}

/// Adds one to a counter.
fn count(storage: &Storage, number: u8) -> Result<(), CommitError> {
    let cell =
        CellChange { column: ColumnId(1), timestamp_us: 1, action: CellAction::CounterAdd(1) };
    let change = RowChange {
        position: RowPosition::Clustered(Bytes::from_static(b"c")),
        original_clustering: None,
        liveness: None,
        deletion: None,
        cells: vec![cell],
    };
    let mutation = Mutation {
        table: TABLE,
        table_version: 0,
        key: key(number),
        now_s: None,
        condition: None,
        operations: vec![Operation::Row(change)],
    };
    storage.commit(vec![(SET, mutation)]).wait().map(drop)
}

fn counters(storage: &Storage) -> Vec<(u8, i64)> {
    let value = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
    let mut seen: Vec<(u8, i64)> = read_all(storage, &everything())
        .iter()
        .map(|row| (row.partition[0], value(&row.cells[0].3)))
        .collect();
    seen.sort_unstable();
    seen
}

/// One after the other: the switch is for the whole process.
#[test]
fn what_cannot_be_applied_is_the_last() {
    for mode in [CommitMode::Group, CommitMode::PERIODIC] {
        let folder = Folder::new("poison");
        let storage = open_breakable(&folder, mode);
        count(&storage, 1).unwrap();
        count(&storage, 2).unwrap();
        assert!(storage.failure().is_none());
        PANICS.store(true, Ordering::Relaxed);
        assert!(matches!(count(&storage, 1), Err(CommitError::LogFailed(_))), "{mode:?}");
        PANICS.store(false, Ordering::Relaxed);
        // It would go well now, but something in the log before it was not applied.
        assert!(matches!(count(&storage, 1), Err(CommitError::LogFailed(_))), "{mode:?}");
        assert!(matches!(count(&storage, 3), Err(CommitError::LogFailed(_))), "{mode:?}");
        assert!(storage.failure().is_some());
        assert!(storage.flush(None).is_err(), "nothing half done reaches sorted files");
        // Nobody waits for ever.
        let _ = storage.close();
        drop(storage);
        let storage = open_breakable(&folder, mode);
        assert_eq!(counters(&storage), [(1, 2), (2, 1)], "the logged one exactly once, {mode:?}");
        count(&storage, 3).unwrap();
    }
}
