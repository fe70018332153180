//! What the tests of storage share: folders, clocks, commands, and a sink that remembers.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod model;
pub(crate) mod trees;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use storage::{Clock, CommitMode, DataDir, Options, SchemaSource, Storage};
use types::{
    CellState, ColumnId, CorruptRow, CqlType, Flow, LiveRow, PartitionKey, ReadCommand, ReadScope,
    RingRange, RowSelection, RowSink, SetId, Statics, TableId,
};

pub(crate) const TABLE: TableId = TableId(0xab);
pub(crate) const NOW_S: u32 = 1_000;
pub(crate) const SET: SetId = SetId(1);

pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helenus-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct FixedClock(pub(crate) AtomicU32);

impl Clock for FixedClock {
    fn now_s(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed).into())
    }
}

#[derive(Default)]
pub(crate) struct Tables(pub(crate) Vec<Arc<Table>>);

impl SchemaSource for Tables {
    fn table(&self, id: TableId) -> Option<Arc<Table>> {
        self.0.iter().find(|table| table.id == id).cloned()
    }
}

pub(crate) fn small_options(commit: CommitMode) -> Options {
    Options {
        commit,
        segment_bytes: 1024 * 1024,
        log_bytes_max: 8 * 1024 * 1024,
        row_cache_bytes: 64 * 1024,
        row_cache_bytes_max: 256 * 1024,
        head_cache_bytes: 64 * 1024,
        block_cache_bytes: 1024 * 1024,
        ..Options::default()
    }
}

/// Nearly everything is kept outside of rows.
pub(crate) fn spilling(options: Options) -> Options {
    Options { spilled_value_bytes_min: 1, row_elements_max: 1, ..options }
}

pub(crate) fn open(path: &Path, options: Options) -> Storage {
    open_with(path, options, Tables::default(), NOW_S)
}

pub(crate) fn open_with(path: &Path, options: Options, tables: Tables, now_s: u32) -> Storage {
    open_at(path, options, tables, &Arc::new(FixedClock(AtomicU32::new(now_s))))
}

pub(crate) fn open_at(
    path: &Path,
    options: Options,
    tables: Tables,
    clock: &Arc<FixedClock>,
) -> Storage {
    let dir = DataDir::lock(path).unwrap();
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let storage = Storage::open(dir, options, Arc::new(tables), clock).unwrap();
    storage.locate_with(|_, _| Some(SET));
    storage
}

/// A table whose key and clustering column are plain bytes, as the tests write them.
pub(crate) fn plain_table() -> Table {
    let column = |id, name: &str, cql_type, kind| Column {
        id: ColumnId(id),
        name: name.into(),
        cql_type,
        kind,
        mask: None,
        is_hidden: false,
    };
    Table {
        id: TABLE,
        version: 0,
        keyspace: "k".into(),
        name: "t".into(),
        columns: vec![
            column(100, "k", CqlType::Blob, ColumnKind::PartitionKey),
            column(101, "c", CqlType::Blob, ColumnKind::Clustering { descending: false }),
            column(1, "v", CqlType::Blob, ColumnKind::Regular),
        ],
        partition_key_count: 1,
        clustering_count: 1,
        static_count: 0,
        shape: TableShape::Ordinary,
        is_counter: false,
        is_virtual: false,
        options: TableOptions::default(),
        indexes: Default::default(),
        dropped_columns: Default::default(),
        next_column_id: 200,
    }
}

pub(crate) fn key(number: u8) -> PartitionKey {
    PartitionKey::new(Bytes::from(vec![number]))
}

pub(crate) fn command(scope: ReadScope, rows: RowSelection) -> ReadCommand {
    ReadCommand {
        table: TABLE,
        scope,
        rows,
        index: None,
        reversed: false,
        statics: Statics::AttachOrAlone,
        hidden: Vec::new(),
        columns: None,
        after: None,
        now_s: NOW_S,
    }
}

pub(crate) fn everything() -> ReadCommand {
    command(ReadScope::Ring(RingRange::FULL), RowSelection::All)
}

/// Column, path, timestamp, value.
pub(crate) type SeenCell = (u32, Option<Vec<u8>>, i64, Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeenRow {
    pub(crate) partition: Vec<u8>,
    pub(crate) clustering: Option<Vec<u8>>,
    pub(crate) has_liveness: bool,
    pub(crate) cells: Vec<SeenCell>,
    pub(crate) statics: Vec<SeenCell>,
}

#[derive(Default)]
pub(crate) struct Remember {
    pub(crate) rows: Vec<SeenRow>,
    pub(crate) row_count_max: Option<usize>,
}

impl RowSink for Remember {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        let cells = |cells: Option<&types::LiveCells<'_>>| match cells {
            None => Ok(Vec::new()),
            Some(cells) => cells
                .cells()
                .map(|cell| {
                    let cell = cell?;
                    let CellState::Value { value, .. } = cell.state else {
                        return Err(CorruptRow);
                    };
                    let path = cell.path.map(<[u8]>::to_vec);
                    Ok((cell.column.0, path, cell.timestamp_us, value.to_vec()))
                })
                .collect::<Result<Vec<_>, _>>(),
        };
        self.rows.push(SeenRow {
            partition: row.partition_key.to_vec(),
            clustering: row.clustering.map(<[u8]>::to_vec),
            has_liveness: row.row.is_some_and(|row| row.has_liveness()),
            cells: cells(row.row)?,
            statics: cells(row.static_row)?,
        });
        if self.row_count_max == Some(self.rows.len()) {
            return Ok(Flow::Stop);
        }
        Ok(Flow::Continue)
    }
}

pub(crate) fn read_all(storage: &Storage, command: &ReadCommand) -> Vec<SeenRow> {
    let mut sink = Remember::default();
    storage.read(SET, command, &mut sink).unwrap();
    sink.rows
}
