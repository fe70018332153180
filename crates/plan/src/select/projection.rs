//! Columns shown as they are: what most statements select. Values go straight from the stored row
//! into the result; which column goes where is worked out once per statement.

use schema::{Ruler, Table};
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

/// What became of a row that was to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// Nothing: more is to be done with it.
    Nothing,
    /// It is in the result.
    Row {
        /// The size of its live values, where they were measured.
        value_bytes: u64,
    },
}

/// Decoded clustering columns; kept from row to row for its memory.
#[derive(Debug, Default)]
pub struct ProjectionScratch {
    bytes: Vec<u8>,
    ends: SmallVec<[usize; 4]>,
    /// Tombstones in the rows that were copied.
    pub tombstone_count: u64,
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

    /// Copies the values of a row into the result. Nothing is copied where the row's clustering key
    /// does not give back what the client wrote. With a ruler the values are measured on the way, those
    /// that are not shown too.
    pub fn write<S: ValueSink>(
        &self,
        row: &LiveRow<'_>,
        ruler: Option<Ruler<'_>>,
        scratch: &mut ProjectionScratch,
        out: &mut S,
    ) -> Result<Copied, CorruptRow> {
        let mut values: Values<'_> = SmallVec::from_elem(None, self.wanted.len());
        let mut value_bytes = 0;
        if row.row.is_some_and(|cells| cells.view().original_clustering().is_some()) {
            return Ok(Copied::Nothing);
        }
        if let Some(cells) = row.static_row {
            value_bytes += self.find_cells(cells, ruler, None, &mut values)?;
        }
        if let Some(cells) = row.row {
            value_bytes += self.find_cells(cells, ruler, Some(scratch), &mut values)?;
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
        Ok(Copied::Row { value_bytes })
    }

    /// Cells and wanted columns are both in the order of their ids. Returns the size of all live
    /// values, where there is a ruler.
    fn find_cells<'a>(
        &self,
        cells: &LiveCells<'a>,
        ruler: Option<Ruler<'_>>,
        counted: Option<&mut ProjectionScratch>,
        values: &mut Values<'a>,
    ) -> Result<u64, CorruptRow> {
        let (mut place, mut value_bytes) = (0, 0);
        let is_plain = cells.each_plain(|column, value| {
            value_bytes += value.len() as u64;
            self.find_one(column, value, &mut place, values);
        })?;
        if is_plain {
            return Ok(value_bytes);
        }
        // The static row comes with each of its rows.
        if let Some(scratch) = counted {
            scratch.tombstone_count += cells.tombstone_count()?;
        }
        self.find_any_cells(cells, ruler, values)
    }

    /// Puts a value where it is wanted; `place`: how many of the wanted columns come before.
    #[inline]
    fn find_one<'a>(
        &self,
        column: ColumnId,
        value: &'a [u8],
        place: &mut usize,
        values: &mut Values<'a>,
    ) {
        while self.wanted.get(*place).is_some_and(|wanted| *wanted < column) {
            *place += 1;
        }
        if self.wanted.get(*place) == Some(&column)
            && let Some(found) = values.get_mut(*place)
        {
            *found = Some(value);
        }
    }

    #[inline(never)]
    fn find_any_cells<'a>(
        &self,
        cells: &LiveCells<'a>,
        ruler: Option<Ruler<'_>>,
        values: &mut Values<'a>,
    ) -> Result<u64, CorruptRow> {
        // What was found before the first cell that is not plain is found again.
        let (mut place, mut value_bytes) = (0, 0);
        let has_spilled = cells.view().has_spilled();
        for cell in cells.cells() {
            let cell = cell?;
            if let Some(ruler) = ruler {
                value_bytes += ruler.cell_bytes(&cell) as u64;
                if has_spilled {
                    value_bytes += cells.view().spilled_bytes(&cell)?;
                }
            }
            self.find_one(cell.column, cell.value(), &mut place, values);
        }
        Ok(value_bytes)
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
