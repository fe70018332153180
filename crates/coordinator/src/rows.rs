//! The rows of a result, in the form the protocol sends them: each value as its length (four bytes,
//! -1 for null) and its bytes. The server puts the result's head before them and sends them as
//! they are.

use std::sync::Arc;

use plan::{ResultColumn, ValueSink};

/// A result set.
#[derive(Clone, Debug)]
pub struct Rows {
    pub columns: Arc<[ResultColumn]>,
    /// How many rows there are.
    pub row_count: u32,
    /// Tombstones that were met on the way to them.
    pub tombstone_count: u64,
    /// The values of all rows, one after the other.
    pub body: Vec<u8>,
    /// Where the next page begins, where there is one.
    pub paging_state: Option<Vec<u8>>,
}

/// Collects values in the protocol's form.
#[derive(Debug, Default)]
pub(crate) struct RowsBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) row_count: u32,
}

/// What a result is given at first, so that a row of ordinary width is written without growing.
const BODY_BYTES: usize = 512;

impl RowsBody {
    /// Nothing yet, with room for a row.
    pub(crate) fn with_room() -> RowsBody {
        RowsBody { bytes: Vec::with_capacity(BODY_BYTES), row_count: 0 }
    }
}

impl ValueSink for RowsBody {
    fn push(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.bytes.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(value) => {
                // A value came through a frame or was built from ones that did: far below 2 GB.
                let length = i32::try_from(value.len()).unwrap_or(i32::MAX);
                self.bytes.reserve(4 + value.len());
                self.bytes.extend_from_slice(&length.to_be_bytes());
                self.bytes.extend_from_slice(value);
            }
        }
    }
}

impl Rows {
    /// A result of values that are already there.
    pub fn from_values(columns: Vec<ResultColumn>, rows: Vec<Vec<Option<Vec<u8>>>>) -> Rows {
        let mut body = RowsBody::default();
        for row in rows {
            for value in &row {
                body.push(value.as_deref());
            }
            body.row_count += 1;
        }
        Rows {
            columns: columns.into(),
            row_count: body.row_count,
            tombstone_count: 0,
            body: body.bytes,
            paging_state: None,
        }
    }
}
