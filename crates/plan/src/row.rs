//! How expressions see a row.

use std::borrow::Cow;

/// One element of a multi-cell column, with its envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellStamp {
    /// When it was written, microseconds since the epoch.
    pub timestamp_us: i64,
    /// The second since the epoch at which it is gone, where it expires.
    pub expires_at_s: Option<u32>,
}

/// A row that expressions are evaluated on. Columns are named by their place in
/// [`schema::Table::columns`]: key columns, static ones and regular ones alike.
pub trait RowAccess {
    /// The value of a column as the protocol encodes it; a multi-cell collection or user type comes
    /// assembled. `None` is null.
    fn value(&self, column: usize) -> Option<Cow<'_, [u8]>>;

    /// The envelope of the cell of a single-cell column; `None` when it is null or a key column.
    fn stamp(&self, column: usize) -> Option<CellStamp>;

    /// The elements of a multi-cell column in order, each with its path as the protocol encodes it
    /// (set: the element, map: the key, list: the time uuid, user type: the field's index in two
    /// bytes), its value and its envelope.
    fn elements(&self, column: usize, visit: &mut dyn FnMut(&[u8], &[u8], CellStamp));
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
