//! How expressions see a row.

use std::borrow::Cow;
use std::sync::Arc;

use schema::Table;
use smallvec::SmallVec;
use types::value::decode_ordered;
use types::{
    CellRef, ColumnId, CorruptRow, CqlType, HiddenCells, LiveCells, LiveRow, PartitionKey,
    assemble, split_map_cell,
};

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
    hidden: Vec<HiddenCells>,
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
        RowLayout { table: Arc::clone(table), by_id, hidden: table.hidden_cells() }
    }

    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What dropped columns left behind in its rows.
    pub fn hidden(&self) -> &[HiddenCells] {
        &self.hidden
    }

    fn place(&self, id: ColumnId) -> Option<usize> {
        let found = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.by_id.get(found).map(|(_, index)| *index)
    }
}

/// A row that a read delivered. Ordinary rows are looked at without an allocation.
#[derive(Debug)]
pub struct StoredRow<'a> {
    layout: &'a RowLayout,
    key: &'a [u8],
    clustering: ClusteringValues<'a>,
    /// By place: where the column's cells are in `cells`.
    places: SmallVec<[(u32, u32); 16]>,
    cells: SmallVec<[CellRef<'a>; 8]>,
}

impl<'a> StoredRow<'a> {
    /// Finds the columns of a row.
    pub fn new(layout: &'a RowLayout, row: &LiveRow<'a>) -> Result<StoredRow<'a>, CorruptRow> {
        let table = &layout.table;
        let mut stored = StoredRow {
            layout,
            key: row.partition_key,
            clustering: ClusteringValues::None,
            places: SmallVec::from_elem((0, 0), table.columns.len()),
            cells: SmallVec::new(),
        };
        if let Some(clustering) = row.clustering {
            let original = row.row.and_then(|cells| cells.view().original_clustering());
            stored.clustering = ClusteringValues::new(table, clustering, original)?;
        }
        for cells in [row.static_row, row.row].into_iter().flatten() {
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
#[derive(Debug)]
enum ClusteringValues<'a> {
    /// The static row came alone.
    None,
    /// As the client wrote them: like a composite partition key, also for a single column.
    Original(&'a [u8]),
    /// Decoded from the key, one after the other, each up to its end.
    Decoded { bytes: SmallVec<[u8; 64]>, ends: SmallVec<[u32; 4]> },
}

impl<'a> ClusteringValues<'a> {
    fn new(
        table: &Table,
        key: &'a [u8],
        original: Option<&'a [u8]>,
    ) -> Result<ClusteringValues<'a>, CorruptRow> {
        if let Some(original) = original {
            return Ok(ClusteringValues::Original(original));
        }
        let mut bytes = SmallVec::new();
        let mut ends = SmallVec::new();
        let mut input = key;
        let mut value = Vec::new();
        for column in table.clustering() {
            if input.is_empty() {
                break;
            }
            value.clear();
            decode_ordered(&column.cql_type, column.is_descending(), &mut input, &mut value)
                .map_err(|_| CorruptRow)?;
            bytes.extend_from_slice(&value);
            ends.push(u32::try_from(bytes.len()).map_err(|_| CorruptRow)?);
        }
        Ok(ClusteringValues::Decoded { bytes, ends })
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        match self {
            ClusteringValues::None => None,
            ClusteringValues::Original(values) => PartitionKey::components(values, 2).nth(index),
            ClusteringValues::Decoded { bytes, ends } => {
                let end = *ends.get(index)? as usize;
                let before = index.checked_sub(1).and_then(|before| ends.get(before));
                bytes.get(before.map_or(0, |start| *start as usize)..end)
            }
        }
    }
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
            return self.clustering.get(column - table.partition_key_count).map(Cow::Borrowed);
        }
        let cells = self.cells_of(column);
        let first = cells.first()?;
        let ty = &table.columns.get(column)?.cql_type;
        if !ty.is_multi_cell() {
            return Some(Cow::Borrowed(first.value()));
        }
        let mut value = Vec::new();
        let has_elements = assemble(ty, cells.iter().copied(), &mut value).ok()?;
        has_elements.then_some(Cow::Owned(value))
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
        // An element of a set that its path cannot give back stands in the value.
        CqlType::Set { .. } if !cell.value().is_empty() => {
            return Some(Cow::Borrowed(cell.value()));
        }
        CqlType::Set { element, .. } => element,
        CqlType::Map { key, .. } => match split_map_cell(key, cell.value()).ok()? {
            (Some(original), _) => return Some(Cow::Borrowed(original)),
            (None, _) => key,
        },
        _ => return Some(Cow::Borrowed(path)),
    };
    let mut value = Vec::new();
    let mut input = path;
    decode_ordered(element, false, &mut input, &mut value).ok()?;
    Some(Cow::Owned(value))
}
