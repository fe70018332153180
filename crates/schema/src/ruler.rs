//! The size of a row (D5): the bytes that its partition key, its clustering columns and its live
//! values take in the protocol.

use types::value::ordered_length;
use types::{CellRef, CqlType, PartitionKey};

use crate::model::Table;

/// Measures the parts of a table's rows.
#[derive(Clone, Copy, Debug)]
pub struct Ruler<'t> {
    /// `None` where the table is not known any more: keys count as they are kept then.
    pub table: Option<&'t Table>,
}

impl Ruler<'_> {
    /// The bytes of a partition key's values.
    pub fn key_bytes(&self, key: &[u8]) -> usize {
        let column_count = self.table.map_or(1, |table| table.partition_key_count);
        match column_count {
            1 => key.len(),
            _ => PartitionKey::components(key, column_count).map(<[u8]>::len).sum(),
        }
    }

    /// The bytes of a clustering key's values; one that cannot be read ends it.
    pub fn clustering_bytes(&self, clustering: &[u8]) -> usize {
        let Some(table) = self.table else { return clustering.len() };
        let mut rest = clustering;
        let mut bytes = 0;
        for column in table.clustering() {
            if rest.is_empty() {
                break;
            }
            match ordered_length(&column.cql_type, column.is_descending(), &mut rest) {
                Ok(length) => bytes += length,
                Err(_) => break,
            }
        }
        bytes
    }

    /// What a cell counts: its value, and what names it in a collection.
    #[inline]
    pub fn cell_bytes(&self, cell: &CellRef<'_>) -> usize {
        let value_bytes = cell.value().len();
        match cell.path {
            None => value_bytes,
            Some(path) => value_bytes + self.path_bytes(cell, path),
        }
    }

    /// What names a cell in a collection.
    pub fn path_bytes(&self, cell: &CellRef<'_>, mut path: &[u8]) -> usize {
        let column = self.table.and_then(|table| table.column_by_id(cell.column));
        let element = match column.map(|column| &column.cql_type) {
            Some(CqlType::Set { element, .. }) if cell.value().is_empty() => element,
            Some(CqlType::Map { key, .. }) => key,
            // The place in a list is ours alone, so is the index of a field of a user type; and an
            // element of a set that its path cannot give back is its value.
            _ => return 0,
        };
        ordered_length(element, false, &mut path).unwrap_or(0)
    }
}

/// What the keys of all rows of a table have in common, worked out once.
#[derive(Clone, Copy, Debug)]
pub struct KeyShape {
    /// The partition key has one column.
    is_single_key: bool,
    /// Every clustering column has a fixed length: as it is kept, and what it counts.
    fixed_clustering: Option<(usize, usize)>,
}

impl KeyShape {
    /// The shape of a table's keys; `None` as for [`Ruler::table`].
    pub fn new(table: Option<&Table>) -> KeyShape {
        let Some(table) = table else {
            return KeyShape { is_single_key: true, fixed_clustering: None };
        };
        let fixed = |cql_type: &CqlType| match cql_type {
            CqlType::Vector { .. } => None,
            other => other.fixed_length(),
        };
        let mut lengths = table.clustering().iter().map(|column| fixed(&column.cql_type));
        let add = |(kept, bytes): (usize, usize), length: Option<usize>| {
            // A mark stands before each value.
            length.map(|length| (kept + 1 + length, bytes + length))
        };
        KeyShape {
            is_single_key: table.partition_key_count == 1,
            fixed_clustering: lengths.try_fold((0, 0), add),
        }
    }

    /// As [`Ruler::key_bytes`]; the table is asked for only where it matters.
    #[inline]
    pub fn key_bytes<'t>(&self, key: &[u8], ruler: impl FnOnce() -> Ruler<'t>) -> usize {
        if self.is_single_key { key.len() } else { ruler().key_bytes(key) }
    }

    /// As [`Ruler::clustering_bytes`]; the table is asked for only where it matters.
    #[inline]
    pub fn clustering_bytes<'t>(
        &self,
        clustering: &[u8],
        ruler: impl FnOnce() -> Ruler<'t>,
    ) -> usize {
        match self.fixed_clustering {
            Some((kept, bytes)) if kept == clustering.len() => bytes,
            _ => ruler().clustering_bytes(clustering),
        }
    }
}
