//! Columns shown as they are: what most statements select. Values go straight from the stored row
//! into the result; which column goes where is worked out once per statement.

use schema::Table;
use smallvec::SmallVec;
use types::value::decode_ordered;
use types::{ColumnId, CorruptRow, CqlType, LiveCells, LiveRow, PartitionKey};

use super::selection::Selection;
use crate::row::ValueSink;

/// Where each column of the result comes from.
#[derive(Debug)]
pub struct Projection {
    outputs: Vec<Source>,
    /// The columns outside of the key that are shown, by id: the places of their values.
    wanted: Vec<ColumnId>,
    /// The clustering columns up to the last that is shown, and whether they descend.
    clustering: Vec<(CqlType, bool)>,
    partition_key_count: usize,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// A component of the partition key.
    PartitionKey(usize),
    /// A clustering column.
    Clustering(usize),
    /// A cell, by its place in `wanted`.
    Cell(usize),
}

/// Decoded clustering columns; kept from row to row for its memory.
#[derive(Debug, Default)]
pub struct ProjectionScratch {
    bytes: Vec<u8>,
    ends: SmallVec<[usize; 4]>,
}

/// Values by their place in `wanted`.
type Values<'a> = SmallVec<[Option<&'a [u8]>; 8]>;

impl Projection {
    /// `None` where more is to be done than to copy values.
    pub(super) fn new(selection: &Selection, table: &Table) -> Option<Projection> {
        let key_count = table.partition_key_count + table.clustering_count;
        let columns = selection.plain_columns()?;
        let mut wanted = Vec::new();
        for column in columns.iter().filter(|column| **column >= key_count) {
            let column = table.columns.get(*column)?;
            if column.cql_type.is_multi_cell() {
                return None;
            }
            wanted.push(column.id);
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut clustering_count = 0;
        let mut outputs = Vec::with_capacity(columns.len());
        for column in columns {
            outputs.push(match column.checked_sub(table.partition_key_count) {
                None => Source::PartitionKey(column),
                Some(index) if column < key_count => {
                    clustering_count = clustering_count.max(index + 1);
                    Source::Clustering(index)
                }
                Some(_) => {
                    let id = table.columns.get(column)?.id;
                    Source::Cell(wanted.binary_search(&id).ok()?)
                }
            });
        }
        let clustering = table.clustering().iter().take(clustering_count);
        Some(Projection {
            outputs,
            wanted,
            clustering: clustering
                .map(|column| (column.cql_type.clone(), column.is_descending()))
                .collect(),
            partition_key_count: table.partition_key_count,
        })
    }

    /// Copies the values of a row into the result. `false`, and nothing is copied, where the row's
    /// clustering key does not give back what the client wrote.
    pub fn write<S: ValueSink>(
        &self,
        row: &LiveRow<'_>,
        scratch: &mut ProjectionScratch,
        out: &mut S,
    ) -> Result<bool, CorruptRow> {
        let mut values: Values<'_> = SmallVec::from_elem(None, self.wanted.len());
        if let Some(cells) = &row.static_row {
            self.find_cells(cells, &mut values)?;
        }
        if let Some(cells) = &row.row {
            if cells.view().original_clustering().is_some() {
                return Ok(false);
            }
            self.find_cells(cells, &mut values)?;
        }
        self.decode_clustering(row.clustering.unwrap_or_default(), scratch)?;
        for source in &self.outputs {
            match source {
                Source::Cell(place) => out.push(values.get(*place).copied().flatten()),
                Source::Clustering(index) => out.push(scratch.get(*index)),
                Source::PartitionKey(_) if self.partition_key_count == 1 => {
                    out.push(Some(row.partition_key));
                }
                Source::PartitionKey(index) => {
                    let count = self.partition_key_count;
                    out.push(PartitionKey::components(row.partition_key, count).nth(*index));
                }
            }
        }
        Ok(true)
    }

    /// Cells and wanted columns are both in the order of their ids.
    fn find_cells<'a>(
        &self,
        cells: &LiveCells<'a>,
        values: &mut Values<'a>,
    ) -> Result<(), CorruptRow> {
        let mut place = 0;
        for cell in cells.cells() {
            let cell = cell?;
            while self.wanted.get(place).is_some_and(|wanted| *wanted < cell.column) {
                place += 1;
            }
            match self.wanted.get(place) {
                None => break,
                Some(wanted) if *wanted == cell.column => {
                    if let Some(value) = values.get_mut(place) {
                        *value = Some(cell.value());
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn decode_clustering(
        &self,
        mut key: &[u8],
        scratch: &mut ProjectionScratch,
    ) -> Result<(), CorruptRow> {
        scratch.bytes.clear();
        scratch.ends.clear();
        for (cql_type, is_descending) in &self.clustering {
            // A compact table may lack the last ones.
            if key.is_empty() {
                break;
            }
            decode_ordered(cql_type, *is_descending, &mut key, &mut scratch.bytes)
                .map_err(|_| CorruptRow)?;
            scratch.ends.push(scratch.bytes.len());
        }
        Ok(())
    }
}

impl ProjectionScratch {
    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before));
        self.bytes.get(start.copied().unwrap_or(0)..end)
    }
}
