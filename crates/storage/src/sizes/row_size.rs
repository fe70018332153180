//! The size of a row (D5): the bytes that its partition key, its clustering columns and its live
//! values take in the protocol.

use schema::Table;
use types::value::decode_ordered;
use types::{CellRef, CorruptRow, CqlType, LiveCells, PartitionKey, RowView, SpilledKind};

/// What a row, or the difference between two forms of one, counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: i64,
    pub(crate) rows: i64,
}

impl Size {
    pub(crate) fn minus(self, other: Size) -> Size {
        Size { bytes: self.bytes - other.bytes, rows: self.rows - other.rows }
    }

    pub(crate) fn add(&mut self, other: Size) {
        self.bytes += other.bytes;
        self.rows += other.rows;
    }
}

/// Measures rows of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruler<'t> {
    /// `None` where the table is not known any more: keys count as they are kept then.
    pub(crate) table: Option<&'t Table>,
    pub(crate) now_s: u32,
}

impl Ruler<'_> {
    /// The bytes of a partition key's values.
    pub(crate) fn key_bytes(&self, key: &[u8]) -> usize {
        let column_count = self.table.map_or(1, |table| table.partition_key_count);
        match column_count {
            1 => key.len(),
            _ => PartitionKey::components(key, column_count).map(<[u8]>::len).sum(),
        }
    }

    /// What a stored row counts; nothing where it is dead under what covers it. `clustering` is
    /// `None` for the static row.
    pub(crate) fn measure(
        &self,
        row: RowView<'_>,
        key_bytes: usize,
        clustering: Option<&[u8]>,
        covering_us: i64,
    ) -> Result<Size, CorruptRow> {
        let cells = LiveCells::new(row, covering_us, self.now_s);
        let mut is_live = cells.has_liveness();
        let mut bytes = 0;
        for cell in cells.cells() {
            let cell = cell?;
            is_live = true;
            bytes += self.cell_bytes(&cell);
            bytes += usize::try_from(row.spilled_bytes(&cell)?).unwrap_or(usize::MAX);
        }
        // Spilled elements are counted one by one; a row that has any counts as live.
        is_live |= row.spilled().any(|part| part.is_ok_and(|it| it.kind == SpilledKind::Elements));
        if !is_live {
            return Ok(Size::default());
        }
        bytes += key_bytes + clustering.map_or(0, |clustering| self.clustering_bytes(clustering));
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        Ok(Size { bytes, rows: i64::from(clustering.is_some()) })
    }

    /// The bytes of a spilled element, if it is live under what covers it.
    pub(crate) fn measure_element(
        &self,
        element: &[u8],
        covering_us: i64,
    ) -> Result<i64, CorruptRow> {
        let cells = LiveCells::new(RowView::decode(element)?, covering_us, self.now_s);
        let mut bytes = 0;
        for cell in cells.cells() {
            bytes += self.cell_bytes(&cell?);
        }
        Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    fn cell_bytes(&self, cell: &CellRef<'_>) -> usize {
        let path = match cell.path {
            None => 0,
            Some(path) => {
                let column = self.table.and_then(|table| table.column_by_id(cell.column));
                match column.map(|column| &column.cql_type) {
                    // The place in a list is ours alone.
                    Some(CqlType::List { .. }) => 0,
                    Some(CqlType::Set { .. }) if !cell.value().is_empty() => 0,
                    Some(CqlType::Set { element, .. }) => {
                        ordered_bytes(&mut &*path, element, false)
                    }
                    Some(CqlType::Map { key, .. }) => ordered_bytes(&mut &*path, key, false),
                    // The index of a field of a user type.
                    _ => 0,
                }
            }
        };
        path + cell.value().len()
    }

    fn clustering_bytes(&self, clustering: &[u8]) -> usize {
        let Some(table) = self.table else { return clustering.len() };
        let mut rest = clustering;
        let mut bytes = 0;
        for column in table.clustering() {
            if rest.is_empty() {
                break;
            }
            bytes += ordered_bytes(&mut rest, &column.cql_type, column.is_descending());
        }
        bytes
    }
}

/// The length of the next value of an ordered encoding; one that cannot be read ends it.
fn ordered_bytes(encoded: &mut &[u8], ty: &CqlType, descending: bool) -> usize {
    thread_local! {
        static VALUE: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    VALUE.with_borrow_mut(|value| {
        value.clear();
        if decode_ordered(ty, descending, encoded, value).is_err() {
            *encoded = &[];
        }
        value.len()
    })
}
