//! How expressions see a row.

use std::borrow::Cow;
use std::sync::Arc;

use schema::Table;
use types::value::collection::{write_count, write_element};
use types::value::decode_ordered;
use types::{CellRef, ColumnId, CorruptRow, CqlType, LiveCells, LiveRow, PartitionKey};

/// When a cell was written and when it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellStamp {
    /// When it was written, microseconds since the epoch.
    pub timestamp_us: i64,
    /// The second since the epoch at which it is gone, where it expires.
    pub expires_at_s: Option<u32>,
}

impl CellStamp {
    fn of(cell: &CellRef<'_>) -> CellStamp {
        CellStamp {
            timestamp_us: cell.timestamp_us,
            expires_at_s: cell.expiry().map(|expiry| expiry.expires_at_s),
        }
    }
}

/// A row that expressions are evaluated on. Columns are named by their place in
/// [`schema::Table::columns`]: key columns, static ones and regular ones alike.
pub trait RowAccess {
    /// The value of a column as the protocol encodes it; a multi-cell collection or user type comes
    /// assembled. `None` is null.
    fn value(&self, column: usize) -> Option<Cow<'_, [u8]>>;

    /// The envelope of the cell of a single-cell column; `None` when it is null or a key column.
    fn stamp(&self, column: usize) -> Option<CellStamp>;

    /// The elements of a multi-cell column in order: path as the protocol encodes it (set: the
    /// element, map: the key, list: the time uuid, user type: the field's index in two bytes) and
    /// envelope.
    fn elements(&self, column: usize, visit: &mut dyn FnMut(&[u8], CellStamp));
}

/// A row in which everything is null.
#[derive(Clone, Copy, Debug)]
pub struct EmptyRow;

impl RowAccess for EmptyRow {
    fn value(&self, _column: usize) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn stamp(&self, _column: usize) -> Option<CellStamp> {
        None
    }

    fn elements(&self, _column: usize, _visit: &mut dyn FnMut(&[u8], CellStamp)) {}
}

/// Takes the values of a result row, from left to right.
pub trait ValueSink {
    /// Takes the next value; `None` is null.
    fn push(&mut self, value: Option<&[u8]>);
}

/// Keeps the values.
impl ValueSink for Vec<Option<Vec<u8>>> {
    fn push(&mut self, value: Option<&[u8]>) {
        Vec::push(self, value.map(<[u8]>::to_vec));
    }
}

/// Where the columns of a table's rows are: made once per statement, used for every row.
#[derive(Debug)]
pub struct RowLayout {
    table: Arc<Table>,
    /// Columns outside of the key, by their id.
    by_id: Vec<(ColumnId, usize)>,
}

impl RowLayout {
    /// The layout of a table's rows.
    pub fn new(table: &Arc<Table>) -> RowLayout {
        let mut by_id: Vec<(ColumnId, usize)> = table
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| !column.is_key())
            .map(|(index, column)| (column.id, index))
            .collect();
        by_id.sort_unstable();
        RowLayout { table: Arc::clone(table), by_id }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    fn place(&self, id: ColumnId) -> Option<usize> {
        let found = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.by_id.get(found).map(|(_, index)| *index)
    }
}

/// A row that a read delivered.
#[derive(Debug)]
pub struct StoredRow<'a> {
    layout: &'a RowLayout,
    key: &'a [u8],
    clustering: Vec<Cow<'a, [u8]>>,
    /// By place: where the column's cells are in `cells`.
    places: Vec<(u32, u32)>,
    cells: Vec<CellRef<'a>>,
}

impl<'a> StoredRow<'a> {
    /// Finds the columns of a row.
    pub fn new(layout: &'a RowLayout, row: &LiveRow<'a>) -> Result<StoredRow<'a>, CorruptRow> {
        let table = &layout.table;
        let mut stored = StoredRow {
            layout,
            key: row.partition_key,
            clustering: Vec::with_capacity(table.clustering_count),
            places: vec![(0, 0); table.columns.len()],
            cells: Vec::new(),
        };
        if let Some(clustering) = row.clustering {
            let original = row.row.as_ref().and_then(|cells| cells.view().original_clustering());
            stored.clustering = clustering_values(table, clustering, original)?;
        }
        for cells in [&row.static_row, &row.row].into_iter().flatten() {
            stored.add(cells)?;
        }
        Ok(stored)
    }

    fn add(&mut self, cells: &LiveCells<'a>) -> Result<(), CorruptRow> {
        for cell in cells.cells() {
            let cell = cell?;
            // Cells of dropped columns are not shown.
            let Some(place) = self.layout.place(cell.column) else { continue };
            let at = u32::try_from(self.cells.len()).map_err(|_| CorruptRow)?;
            if let Some(slot) = self.places.get_mut(place) {
                if slot.0 == slot.1 {
                    *slot = (at, at + 1);
                } else {
                    slot.1 = at + 1;
                }
            }
            self.cells.push(cell);
        }
        Ok(())
    }

    fn cells_of(&self, column: usize) -> &[CellRef<'a>] {
        let (start, end) = self.places.get(column).copied().unwrap_or_default();
        self.cells.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// The values of the clustering columns; fewer where a compact table lacks the last ones.
fn clustering_values<'a>(
    table: &Table,
    key: &'a [u8],
    original: Option<&'a [u8]>,
) -> Result<Vec<Cow<'a, [u8]>>, CorruptRow> {
    if let Some(original) = original {
        // Written like a composite partition key, also for a single column.
        return Ok(PartitionKey::components(original, 2).map(Cow::Borrowed).collect());
    }
    let mut values = Vec::with_capacity(table.clustering_count);
    let mut input = key;
    for column in table.clustering() {
        if input.is_empty() {
            break;
        }
        let mut value = Vec::new();
        decode_ordered(&column.cql_type, column.is_descending(), &mut input, &mut value)
            .map_err(|_| CorruptRow)?;
        values.push(Cow::Owned(value));
    }
    Ok(values)
}

impl RowAccess for StoredRow<'_> {
    fn value(&self, column: usize) -> Option<Cow<'_, [u8]>> {
        let table = &self.layout.table;
        if column < table.partition_key_count {
            return PartitionKey::components(self.key, table.partition_key_count)
                .nth(column)
                .map(Cow::Borrowed);
        }
        if column < table.partition_key_count + table.clustering_count {
            let value = self.clustering.get(column - table.partition_key_count)?;
            return Some(Cow::Borrowed(value.as_ref()));
        }
        let cells = self.cells_of(column);
        let first = cells.first()?;
        let ty = &table.columns.get(column)?.cql_type;
        if !ty.is_multi_cell() {
            return Some(Cow::Borrowed(first.value()));
        }
        assemble(ty, cells).map(Cow::Owned)
    }

    fn stamp(&self, column: usize) -> Option<CellStamp> {
        self.cells_of(column).first().map(CellStamp::of)
    }

    fn elements(&self, column: usize, visit: &mut dyn FnMut(&[u8], CellStamp)) {
        let Some(column_of_table) = self.layout.table.columns.get(column) else { return };
        for cell in self.cells_of(column) {
            if let Some(path) = decode_path(&column_of_table.cql_type, cell) {
                visit(&path, CellStamp::of(cell));
            }
        }
    }
}

/// The path of an element as the protocol encodes it.
fn decode_path<'a>(ty: &CqlType, cell: &CellRef<'a>) -> Option<Cow<'a, [u8]>> {
    let path = cell.path?;
    let element = match ty {
        // A set's element that its path cannot give back stands in the value.
        CqlType::Set { .. } if !cell.value().is_empty() => return Some(Cow::Borrowed(cell.value())),
        CqlType::Set { element, .. } => element,
        CqlType::Map { key, .. } => key,
        _ => return Some(Cow::Borrowed(path)),
    };
    let mut value = Vec::new();
    let mut input = path;
    decode_ordered(element, false, &mut input, &mut value).ok()?;
    Some(Cow::Owned(value))
}

/// A multi-cell column as one value.
fn assemble(ty: &CqlType, cells: &[CellRef<'_>]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match ty {
        CqlType::List { .. } => {
            write_count(cells.len(), &mut out);
            cells.iter().for_each(|cell| write_element(Some(cell.value()), &mut out));
        }
        CqlType::Set { .. } => {
            write_count(cells.len(), &mut out);
            for cell in cells {
                write_element(Some(&decode_path(ty, cell)?), &mut out);
            }
        }
        CqlType::Map { .. } => {
            write_count(cells.len(), &mut out);
            for cell in cells {
                write_element(Some(&decode_path(ty, cell)?), &mut out);
                write_element(Some(cell.value()), &mut out);
            }
        }
        CqlType::User { definition, .. } => {
            for index in 0..definition.fields.len() {
                let path = u16::try_from(index).ok()?.to_be_bytes();
                let cell = cells.iter().find(|cell| cell.path == Some(path.as_slice()));
                write_element(cell.map(CellRef::value), &mut out);
            }
        }
        _ => return None,
    }
    Some(out)
}
