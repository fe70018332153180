//! Storage without threads, over a simulated disk and trees in memory: everything follows from a seed, crashes and
//! losses of power included.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop"
)]
mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use node_log::simulated_disk::{Random, SimDisk};
use storage::{CommitMode, Committed, DataDir, Driver, Ground, Options, Storage};
use support::*;
use tree::MemoryHome;
use types::{
    CellAction, CellChange, ColumnId, Deletion, Liveness, Mutation, Operation, PartitionKey,
    RowChange, RowPosition, SetId,
};

/// What outlives a stop of the node.
struct Machine {
    folder: Folder,
    disk: SimDisk,
    home: MemoryHome,
    clock: Arc<FixedClock>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            folder: Folder::new("stepped"),
            disk: SimDisk::default(),
            home: MemoryHome::default(),
            clock: Arc::new(FixedClock(AtomicU32::new(NOW_S))),
        }
    }

    fn open(&self, mode: CommitMode) -> Storage {
        let options = Options {
            driver: Driver::Steps,
            segment_bytes: 64 * 1024,
            log_bytes_max: 128 * 1024,
            memtable_bytes_max: 64 * 1024,
            ..small_options(mode)
        };
        let ground =
            Ground { disk: Arc::new(self.disk.clone()), home: Arc::new(self.home.clone()) };
        let dir = DataDir::lock(&self.folder.0).unwrap();
        let tables = Tables(vec![Arc::new(plain_table())]);
        let clock = Arc::clone(&self.clock) as Arc<dyn storage::Clock>;
        let storage = Storage::open_on(ground, dir, options, Arc::new(tables), clock).unwrap();
        storage.locate_with(|_, _| Some(SET));
        storage
    }
}

/// A row with a number in it, or its deletion.
fn write(random: &mut Random, number: u64) -> (SetId, Mutation) {
    let (partition, row) = (random.below(6) as u8, random.below(8) as u8);
    let timestamp_us = i64::try_from(number).unwrap();
    let mut change = RowChange {
        position: RowPosition::Clustered(Bytes::from(vec![row])),
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us, expiry: None }),
        deletion: None,
        cells: Vec::new(),
    };
    if random.below(5) == 0 {
        change.liveness = None;
        change.deletion = Some(Deletion { timestamp_us, deleted_at_s: NOW_S });
    } else {
        let mut value = number.to_be_bytes().to_vec();
        value.resize(8 + random.below(2_000) as usize, number as u8);
        let action = CellAction::Set { path: None, value: Bytes::from(value), expiry: None };
        change.cells.push(CellChange { column: ColumnId(1), timestamp_us, action });
    }
    let mutation = Mutation {
        table: TABLE,
        table_version: 0,
        key: PartitionKey::new(Bytes::from(vec![partition])),
        now_s: None,
        condition: None,
        operations: vec![Operation::Row(change)],
    };
    (SET, mutation)
}

/// What a client sees of a row: the number that was written last.
fn seen(storage: &Storage) -> BTreeMap<(Vec<u8>, Vec<u8>), u64> {
    let rows = read_all(storage, &everything()).into_iter();
    rows.map(|row| {
        let number = u64::from_be_bytes(row.cells[0].3[..8].try_into().unwrap());
        ((row.partition, row.clustering.unwrap()), number)
    })
    .collect()
}

/// What the disk holds of the log, and what is flushed.
type Bytes2 = (BTreeMap<String, Vec<u8>>, Vec<(PathBuf, Vec<u8>, Vec<u8>)>);

/// A few hundred steps from a seed; what is on the disk at the end.
fn run(seed: u64, mode: CommitMode) -> Bytes2 {
    let mut machine = Machine::new();
    let mut random = Random::new(seed);
    let mut storage = machine.open(mode);
    let mut truth: BTreeMap<(Vec<u8>, Vec<u8>), u64> = BTreeMap::new();
    // Sent, and not yet answered.
    let mut pending = Vec::new();
    for number in 1..400u64 {
        match random.below(20) {
            0..14 => {
                let (set, mutation) = write(&mut random, number);
                let Operation::Row(change) = &mutation.operations[0] else { panic!() };
                let RowPosition::Clustered(row) = &change.position else { panic!() };
                let place = (mutation.key.bytes().to_vec(), row.to_vec());
                let outcome = (place, change.deletion.is_none().then_some(number));
                pending.push((storage.commit(vec![(set, mutation)]), outcome));
            }
            14..17 => {
                storage.step();
                for (committed, (place, value)) in pending.drain(..) {
                    match committed {
                        Committed::Now(result) => drop(result.unwrap()),
                        Committed::Later(mut answer) => {
                            answer.try_recv().expect("a step answers everything").unwrap();
                        }
                        other => panic!("seed {seed}: {other:?}"),
                    }
                    match value {
                        Some(value) => truth.insert(place, value),
                        None => truth.remove(&place),
                    };
                }
                assert_eq!(seen(&storage), truth, "seed {seed}, step {number}");
            }
            17 => {
                machine.clock.0.fetch_add(random.below(300) as u32, Ordering::Relaxed);
            }
            18 => storage.flush(None).unwrap(),
            // Whatever was not answered may be there or not; here it is taken back by the loss of power, or all of it
            // is there, because a step writes it.
            _ if pending.is_empty() && mode == CommitMode::Group => {
                storage.abandon();
                machine.disk = machine.disk.after_power_loss(&mut random);
                storage = machine.open(mode);
                assert_eq!(seen(&storage), truth, "seed {seed}, after a loss of power at {number}");
            }
            _ => {}
        }
    }
    storage.close().unwrap();
    (machine.disk.files(), machine.home.flushed())
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 1..=20 {
        for mode in [CommitMode::Group, CommitMode::PERIODIC] {
            let (log, trees) = run(seed, mode);
            assert!(!log.is_empty() && !trees.is_empty(), "seed {seed}");
            let again = run(seed, mode);
            assert!(again.0 == log, "seed {seed}, {mode:?}: the log");
            // The folders of the two machines have names of their own.
            let bare = |trees: Vec<(PathBuf, Vec<u8>, Vec<u8>)>| {
                trees.into_iter().map(|(_, key, value)| (key, value)).collect::<Vec<_>>()
            };
            assert!(bare(again.1) == bare(trees), "seed {seed}, {mode:?}: the trees");
        }
    }
}
