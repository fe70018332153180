//! How a conditional write answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use schema::{ColumnKind, Table};
use types::{CorruptRow, CqlType, CurrentRow, LiveCells, LiveRow, Outcome, PartitionKey};
use types::{RowPosition, RowView};

use crate::plan::ResultColumn;
use crate::row::{RowAccess, RowLayout, StoredRow};

/// What a conditional write shows of the rows it looked at. It outlives its plan: the answer is made when the write is
/// done.
#[derive(Debug)]
pub struct ConditionalResult {
    /// The table.
    pub table: Arc<Table>,
    pub(super) key: PartitionKey,
    /// The columns that are shown when the condition did not hold; `None` for all.
    pub(super) columns: Option<Vec<usize>>,
    /// The static columns that conditions name.
    pub(super) static_columns: BTreeSet<usize>,
    pub(super) wants_first_row: bool,
    /// Whether all static columns are read, and whether all regular ones are: those are that the
    /// write changes. Others are read where a condition names them.
    pub(super) reads: (bool, bool),
    pub(super) now_s: u32,
}

/// A result set.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalRows {
    /// Its columns.
    pub columns: Vec<ResultColumn>,
    /// Its rows; `None` is null.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

const NOT_APPLIED: [u8; 1] = [0];
const APPLIED: [u8; 1] = [1];

impl ConditionalResult {
    fn column(&self, name: &Arc<str>, cql_type: CqlType) -> ResultColumn {
        ResultColumn {
            keyspace: Arc::clone(&self.table.keyspace),
            table: Arc::clone(&self.table.name),
            name: Arc::clone(name),
            cql_type,
        }
    }

    /// The logical partition that was looked at.
    pub fn key(&self) -> &PartitionKey {
        &self.key
    }

    /// The second since the epoch at which expiry is judged.
    pub fn now_s(&self) -> u32 {
        self.now_s
    }

    /// Whether static columns are shown beside the key of the logical partition's first live row,
    /// which the outcome does not tell.
    pub fn wants_first_row(&self, outcome: &Outcome) -> bool {
        self.wants_first_row && *outcome != Outcome::Applied
    }

    /// Whether there may be an outcome of which [`ConditionalResult::wants_first_row`] is true.
    pub fn may_want_first_row(&self) -> bool {
        self.wants_first_row
    }

    /// Whether a row counts as the first one by its cells, or by having been inserted only.
    pub fn reads_regulars(&self) -> bool {
        self.reads.1
    }

    /// The result set of an outcome: whether it was applied and, where not, the rows as they are.
    /// `first_row` is the logical partition's first live row, where wanted.
    pub fn rows(
        &self,
        outcome: &Outcome,
        first_row: Option<CurrentRow>,
    ) -> Result<ConditionalRows, CorruptRow> {
        let applied = self.column(&"[applied]".into(), CqlType::Boolean);
        let rows = match outcome {
            Outcome::Applied => {
                let rows = vec![vec![Some(APPLIED.to_vec())]];
                return Ok(ConditionalRows { columns: vec![applied], rows });
            }
            Outcome::NotApplied { rows } => rows,
        };
        let layout = RowLayout::new(&self.table);
        let shown: Vec<usize> = match &self.columns {
            Some(columns) => columns.clone(),
            None => (0..self.table.columns.len())
                .filter(|index| self.table.columns.get(*index).is_some_and(|c| !c.is_hidden))
                .collect(),
        };
        let mut result = Vec::new();
        let static_row = rows.iter().find(|row| row.position == RowPosition::Static);
        let clustered = rows.iter().filter(|row| row.position != RowPosition::Static);
        for row in clustered.filter(|row| row.row.is_some()) {
            result.push(self.row(&layout, &shown, static_row, Some(row))?);
        }
        if let Some(first) = first_row {
            result.push(self.row(&layout, &shown, static_row, Some(&first))?);
        }
        if result.is_empty() && static_row.is_some_and(|row| row.row.is_some()) {
            let row = self.row(&layout, &shown, static_row, None)?;
            // A static row is there by the columns that are read of it.
            let is_seen = self.reads.0
                || row.iter().skip(1).zip(&shown).any(|(value, index)| {
                    value.is_some()
                        && self.table.columns.get(*index).is_some_and(|column| !column.is_key())
                });
            if is_seen {
                result.push(row);
            }
        }
        if result.is_empty() {
            let rows = vec![vec![Some(NOT_APPLIED.to_vec())]];
            return Ok(ConditionalRows { columns: vec![applied], rows });
        }
        let mut columns = vec![applied];
        for column in shown.iter().filter_map(|index| self.table.columns.get(*index)) {
            columns.push(self.column(&column.name, column.cql_type.clone()));
        }
        Ok(ConditionalRows { columns, rows: result })
    }

    fn row(
        &self,
        layout: &RowLayout,
        shown: &[usize],
        static_row: Option<&CurrentRow>,
        row: Option<&CurrentRow>,
    ) -> Result<Vec<Option<Vec<u8>>>, CorruptRow> {
        let (static_cells, cells) = (self.cells(static_row)?, self.cells(row)?);
        let live = LiveRow {
            partition_key: self.key.bytes(),
            ring: self.key.ring(),
            clustering: row.and_then(|row| match &row.position {
                RowPosition::Clustered(key) => Some(key.as_ref()),
                RowPosition::Static => None,
            }),
            row: cells.as_ref(),
            static_row: static_cells.as_ref(),
        };
        let stored = StoredRow::new(layout, &live)?;
        let mut values = vec![Some(NOT_APPLIED.to_vec())];
        values.extend(shown.iter().map(|index| {
            let value = if self.is_read(*index) { stored.value(*index) } else { None };
            value.map(|value| value.into_owned())
        }));
        Ok(values)
    }

    /// Whether Cassandra would have read a column to judge the condition; others show as null.
    fn is_read(&self, index: usize) -> bool {
        let is_static =
            self.table.columns.get(index).is_some_and(|column| column.kind == ColumnKind::Static);
        !is_static || self.reads.0 || self.static_columns.contains(&index)
    }

    fn cells<'r>(&self, row: Option<&'r CurrentRow>) -> Result<Option<LiveCells<'r>>, CorruptRow> {
        let Some(bytes) = row.and_then(|row| row.row.as_deref()) else { return Ok(None) };
        Ok(Some(LiveCells::new(RowView::decode(bytes)?, i64::MIN, self.now_s)))
    }
}
