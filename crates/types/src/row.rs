//! Rows as storage keeps them: one value per row, read in place.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | flags: 1 liveness, 2 it expires, 4 deletion, 8 original clustering |
//! | 8 | base timestamp: the liveness's, or the first cell's |
//! | 4 + 4 | with flag 2: ttl, expiry second |
//! | 8 + 4 | with flag 4: deletion timestamp, second of deletion |
//! | v + n | with flag 8: length, clustering values as the client wrote them |
//! | rest | cells, ordered by column, then path |
//!
//! A cell: column id (v), flags (1: 1 dead, 2 expires, 4 path, 8 own timestamp, 16 deletes all
//! elements), timestamp (8, flag 8), ttl and expiry second (4 + 4, flag 2) or second of deletion
//! (4, flag 1 or 16), path (v + n, flag 4), value (v + n, unless dead). v is LEB128; the rest is
//! big-endian.
//!
//! A row of version 2 has parts elsewhere: behind its version stand length (v) and list of what was
//! spilled, then all of the above from the flags on. An entry of the list: column id (v), kind (1: 0
//! the value of its cell, 1 the value of one element, 2 all elements), path (v + n, kind 1), length of
//! the value (v, kinds 0 and 1). A cell whose value was spilled stands in the row with an empty one.

use std::cmp::Ordering;
use std::fmt;

use crate::ids::ColumnId;
use crate::mutation::{Deletion, Expiry, Liveness};

const VERSION: u8 = 1;
const VERSION_SPILLED: u8 = 2;

const SPILLED_VALUE: u8 = 0;
const SPILLED_ELEMENT: u8 = 1;
const SPILLED_ELEMENTS: u8 = 2;

const ROW_LIVENESS: u8 = 1;
const ROW_EXPIRES: u8 = 2;
const ROW_DELETION: u8 = 4;
const ROW_ORIGINAL: u8 = 8;

const CELL_DEAD: u8 = 1;
const CELL_EXPIRES: u8 = 2;
const CELL_PATH: u8 = 4;
const CELL_TIMESTAMP: u8 = 8;
const CELL_DELETES_ELEMENTS: u8 = 16;

/// The bytes of a row do not follow the format: the disk or a bug of ours changed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptRow;

impl fmt::Display for CorruptRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stored row does not follow its format")
    }
}

impl std::error::Error for CorruptRow {}

/// One cell of a row, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'a> {
    pub column: ColumnId,
    /// The element of a multi-cell column (see [`crate::CellAction`]).
    pub path: Option<&'a [u8]>,
    /// When it was written, microseconds since the epoch.
    pub timestamp_us: i64,
    /// What it holds.
    pub state: CellState<'a>,
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState<'a> {
    /// A value, until it expires.
    Value {
        /// As the protocol encodes it.
        value: &'a [u8],
        /// Until when.
        expiry: Option<Expiry>,
    },
    /// A tombstone.
    Dead {
        /// Seconds since the epoch.
        deleted_at_s: u32,
    },
    /// A tombstone over all elements of a multi-cell column; it comes before them.
    DeletesElements {
        /// Seconds since the epoch.
        deleted_at_s: u32,
    },
}

impl<'a> CellRef<'a> {
    /// Whether it is the tombstone over a multi-cell column.
    pub fn deletes_elements(&self) -> bool {
        matches!(self.state, CellState::DeletesElements { .. })
    }

    /// Whether it holds a value at that second, deletions over it aside.
    pub fn is_live(&self, now_s: u32) -> bool {
        match self.state {
            CellState::Value { expiry, .. } => {
                expiry.is_none_or(|expiry| expiry.expires_at_s > now_s)
            }
            CellState::Dead { .. } | CellState::DeletesElements { .. } => false,
        }
    }

    /// The value it holds or held; empty for a tombstone.
    pub fn value(&self) -> &'a [u8] {
        match self.state {
            CellState::Value { value, .. } => value,
            _ => &[],
        }
    }

    /// Its expiry, if it has one.
    pub fn expiry(&self) -> Option<Expiry> {
        match self.state {
            CellState::Value { expiry, .. } => expiry,
            _ => None,
        }
    }

    /// The order of cells in a row: by column, in it what deletes the elements before them.
    #[inline]
    pub fn cmp_place(&self, other: &CellRef<'_>) -> Ordering {
        let within = || {
            let place = |cell: &CellRef<'_>| !cell.deletes_elements();
            place(self).cmp(&place(other)).then_with(|| self.path.cmp(&other.path))
        };
        self.column.cmp(&other.column).then_with(within)
    }
}

/// A stored row, read in place. Making one checks the head; the cells are checked as they are read.
///
/// Small, because it is copied for every row that is read: `flags` say which of the others mean something.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    flags: u8,
    deletion: Deletion,
    expiry: Expiry,
    base_us: i64,
    original_clustering: &'a [u8],
    cells: &'a [u8],
    spilled: &'a [u8],
}

const NO_DELETION: Deletion = Deletion { timestamp_us: i64::MIN, deleted_at_s: 0 };
const NO_EXPIRY: Expiry = Expiry { ttl_s: 0, expires_at_s: 0 };

/// A part of a row that is kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpilledPart<'a> {
    pub column: ColumnId,
    /// Which part.
    pub kind: SpilledKind<'a>,
    /// How long a value is; 0 for elements.
    pub value_bytes: u64,
}

/// Which part of a column is kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpilledKind<'a> {
    /// The value of its cell, or of the element with that path; the rest of the cell is in the row.
    Value(Option<&'a [u8]>),
    /// All its elements.
    Elements,
}

impl SpilledPart<'_> {
    /// Appends the part to a list.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, u64::from(self.column.0));
        match self.kind {
            SpilledKind::Value(None) => {
                out.push(SPILLED_VALUE);
                push_varint(out, self.value_bytes);
            }
            SpilledKind::Value(Some(path)) => {
                out.push(SPILLED_ELEMENT);
                push_counted(out, path);
                push_varint(out, self.value_bytes);
            }
            SpilledKind::Elements => out.push(SPILLED_ELEMENTS),
        }
    }
}

/// Turns a whole row into one with parts elsewhere. `row`: as [`RowWriter`] wrote it; `parts`: what
/// [`SpilledPart::encode`] wrote.
pub fn with_spilled(row: &[u8], parts: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(row.len() + parts.len() + 4);
    out.push(VERSION_SPILLED);
    push_counted(&mut out, parts);
    out.extend_from_slice(row.get(1..).unwrap_or_default());
    out
}

/// The parts of a row that are kept elsewhere.
#[derive(Clone, Debug)]
pub struct SpilledParts<'a>(Input<'a>);

impl<'a> Iterator for SpilledParts<'a> {
    type Item = Result<SpilledPart<'a>, CorruptRow>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let part = self.0.spilled_part();
        if part.is_err() {
            self.0 = Input(&[]);
        }
        Some(part)
    }
}

impl<'a> RowView<'a> {
    /// Reads the head of a row.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<RowView<'a>, CorruptRow> {
        match RowView::decode_inserted(bytes) {
            Some(view) => Ok(view),
            None => RowView::decode_any(bytes),
        }
    }

    /// Reads the head of a row that was inserted and to which nothing else happened, as most are; `None` of any other.
    #[inline(always)]
    pub fn decode_inserted(bytes: &'a [u8]) -> Option<RowView<'a>> {
        let ([VERSION, ROW_LIVENESS, base @ ..], cells) = bytes.split_first_chunk::<10>()? else {
            return None;
        };
        Some(RowView {
            flags: ROW_LIVENESS,
            deletion: NO_DELETION,
            expiry: NO_EXPIRY,
            base_us: i64::from_be_bytes(*base),
            original_clustering: &[],
            cells,
            spilled: &[],
        })
    }

    #[inline(never)]
    fn decode_any(bytes: &'a [u8]) -> Result<RowView<'a>, CorruptRow> {
        let mut input = Input(bytes);
        let spilled = match input.byte()? {
            VERSION => [].as_slice(),
            VERSION_SPILLED => input.counted()?,
            _ => return Err(CorruptRow),
        };
        let flags = input.byte()?;
        if flags & !(ROW_LIVENESS | ROW_EXPIRES | ROW_DELETION | ROW_ORIGINAL) != 0 {
            return Err(CorruptRow);
        }
        let base_us = input.i64()?;
        let expiry = if flags & ROW_EXPIRES != 0 { input.expiry()? } else { NO_EXPIRY };
        let deletion = if flags & ROW_DELETION != 0 {
            Deletion { timestamp_us: input.i64()?, deleted_at_s: input.u32()? }
        } else {
            NO_DELETION
        };
        let original_clustering = if flags & ROW_ORIGINAL != 0 { input.counted()? } else { &[] };
        let cells = input.0;
        Ok(RowView { flags, deletion, expiry, base_us, original_clustering, cells, spilled })
    }

    /// How many bytes its cells are kept in: no less than their values take.
    pub fn cell_bytes(&self) -> usize {
        self.cells.len()
    }

    /// Whether parts of it are kept elsewhere.
    pub fn has_spilled(&self) -> bool {
        !self.spilled.is_empty()
    }

    /// How long the value of one of its cells is that is kept elsewhere; 0 for any other cell.
    pub fn spilled_bytes(&self, cell: &CellRef<'_>) -> Result<u64, CorruptRow> {
        if self.spilled.is_empty() || !cell.value().is_empty() {
            return Ok(0);
        }
        for part in self.spilled() {
            let part = part?;
            if part.column == cell.column && part.kind == SpilledKind::Value(cell.path) {
                return Ok(part.value_bytes);
            }
        }
        Ok(0)
    }

    /// The parts of it that are kept elsewhere.
    pub fn spilled(&self) -> SpilledParts<'a> {
        SpilledParts(Input(self.spilled))
    }

    /// The bytes of its cells.
    pub(crate) fn stored_cells(&self) -> &'a [u8] {
        self.cells
    }

    /// When it was written: its liveness, or its first cell.
    pub(crate) fn base_us(&self) -> i64 {
        self.base_us
    }

    /// That the row was inserted.
    #[inline]
    pub fn liveness(&self) -> Option<Liveness> {
        let expiry = (self.flags & ROW_EXPIRES != 0).then_some(self.expiry);
        (self.flags & ROW_LIVENESS != 0).then_some(Liveness { timestamp_us: self.base_us, expiry })
    }

    /// That the row as a whole was deleted.
    #[inline]
    pub fn deletion(&self) -> Option<Deletion> {
        (self.flags & ROW_DELETION != 0).then_some(self.deletion)
    }

    /// The clustering values as the client wrote them, where the key cannot give them back:
    /// each as length (2 bytes), value, zero, like a composite partition key.
    #[inline]
    pub fn original_clustering(&self) -> Option<&'a [u8]> {
        (self.flags & ROW_ORIGINAL != 0).then_some(self.original_clustering)
    }

    /// The cells in order, dead ones too.
    pub fn cells(&self) -> Cells<'a> {
        Cells { input: Input(self.cells), base_us: self.base_us }
    }

    /// Hands out columns and values in order, if all cells are plain: values without expiry that were written
    /// with the row, and no elements of collections. `false` if one is not; what came before it was handed out.
    #[inline]
    pub(crate) fn each_plain(
        &self,
        mut each: impl FnMut(ColumnId, &'a [u8]),
    ) -> Result<bool, CorruptRow> {
        let mut input = Input(self.cells);
        while !input.0.is_empty() {
            let column = ColumnId(u32::try_from(input.varint()?).map_err(|_| CorruptRow)?);
            if input.byte()? != 0 {
                return Ok(false);
            }
            each(column, input.counted()?);
        }
        Ok(true)
    }
}

/// The cells of a row, in order.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    input: Input<'a>,
    base_us: i64,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Result<CellRef<'a>, CorruptRow>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.input.0.is_empty() {
            return None;
        }
        let cell = self.input.cell(self.base_us);
        if cell.is_err() {
            self.input = Input(&[]);
        }
        Some(cell)
    }
}

/// Writes a row. Cells must come in order.
#[derive(Debug)]
pub struct RowWriter {
    out: Vec<u8>,
    base_us: Option<i64>,
    base_at: usize,
}

impl RowWriter {
    /// Starts a row with its head, appending to `out`.
    pub fn new(
        mut out: Vec<u8>,
        liveness: Option<Liveness>,
        deletion: Option<Deletion>,
        original_clustering: Option<&[u8]>,
    ) -> RowWriter {
        let mut flags = 0;
        if let Some(liveness) = liveness {
            flags |= ROW_LIVENESS;
            if liveness.expiry.is_some() {
                flags |= ROW_EXPIRES;
            }
        }
        if deletion.is_some() {
            flags |= ROW_DELETION;
        }
        if original_clustering.is_some() {
            flags |= ROW_ORIGINAL;
        }
        out.extend_from_slice(&[VERSION, flags]);
        let base_at = out.len();
        let base_us = liveness.map(|liveness| liveness.timestamp_us);
        out.extend_from_slice(&base_us.unwrap_or(0).to_be_bytes());
        if let Some(expiry) = liveness.and_then(|liveness| liveness.expiry) {
            push_expiry(&mut out, expiry);
        }
        if let Some(deletion) = deletion {
            out.extend_from_slice(&deletion.timestamp_us.to_be_bytes());
            out.extend_from_slice(&deletion.deleted_at_s.to_be_bytes());
        }
        if let Some(original) = original_clustering {
            push_counted(&mut out, original);
        }
        RowWriter { out, base_us, base_at }
    }

    /// Appends one cell.
    pub fn push(&mut self, cell: &CellRef<'_>) {
        let base_us = *self.base_us.get_or_insert_with(|| {
            if let Some(slot) = self.out.get_mut(self.base_at..self.base_at + 8) {
                slot.copy_from_slice(&cell.timestamp_us.to_be_bytes());
            }
            cell.timestamp_us
        });
        push_varint(&mut self.out, u64::from(cell.column.0));
        let mut flags = match cell.state {
            CellState::Value { expiry: Some(_), .. } => CELL_EXPIRES,
            CellState::Value { expiry: None, .. } => 0,
            CellState::Dead { .. } => CELL_DEAD,
            CellState::DeletesElements { .. } => CELL_DELETES_ELEMENTS,
        };
        if cell.path.is_some() {
            flags |= CELL_PATH;
        }
        if cell.timestamp_us != base_us {
            flags |= CELL_TIMESTAMP;
        }
        self.out.push(flags);
        if cell.timestamp_us != base_us {
            self.out.extend_from_slice(&cell.timestamp_us.to_be_bytes());
        }
        match cell.state {
            CellState::Value { expiry: Some(expiry), .. } => push_expiry(&mut self.out, expiry),
            CellState::Value { expiry: None, .. } => {}
            CellState::Dead { deleted_at_s } | CellState::DeletesElements { deleted_at_s } => {
                self.out.extend_from_slice(&deleted_at_s.to_be_bytes());
            }
        }
        if let Some(path) = cell.path {
            push_counted(&mut self.out, path);
        }
        if let CellState::Value { value, .. } = cell.state {
            push_counted(&mut self.out, value);
        }
    }

    /// Appends cells as they lie in another row of that base timestamp.
    pub(crate) fn push_stored(&mut self, base_us: i64, cells: &[u8]) {
        if self.base_us.is_none()
            && let Some(slot) = self.out.get_mut(self.base_at..self.base_at + 8)
        {
            slot.copy_from_slice(&base_us.to_be_bytes());
            self.base_us = Some(base_us);
        }
        self.out.extend_from_slice(cells);
    }

    /// The bytes of the row.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

fn push_expiry(out: &mut Vec<u8>, expiry: Expiry) {
    out.extend_from_slice(&expiry.ttl_s.to_be_bytes());
    out.extend_from_slice(&expiry.expires_at_s.to_be_bytes());
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a length and that many bytes.
pub(crate) fn push_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes a length and that many bytes off the front: they, and the rest.
pub(crate) fn take_counted(bytes: &[u8]) -> Result<(&[u8], &[u8]), CorruptRow> {
    let mut input = Input(bytes);
    let counted = input.counted()?;
    Ok((counted, input.0))
}

#[derive(Clone, Copy, Debug)]
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    #[inline]
    fn byte(&mut self) -> Result<u8, CorruptRow> {
        let (first, rest) = self.0.split_first().ok_or(CorruptRow)?;
        self.0 = rest;
        Ok(*first)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CorruptRow> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(CorruptRow)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32, CorruptRow> {
        self.array().map(u32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, CorruptRow> {
        self.array().map(i64::from_be_bytes)
    }

    fn expiry(&mut self) -> Result<Expiry, CorruptRow> {
        Ok(Expiry { ttl_s: self.u32()?, expires_at_s: self.u32()? })
    }

    /// Most numbers are small: column ids, and lengths of values.
    #[inline(always)]
    fn varint(&mut self) -> Result<u64, CorruptRow> {
        match self.0.split_first() {
            Some((first, rest)) if *first < 0x80 => {
                self.0 = rest;
                Ok(u64::from(*first))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64, CorruptRow> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(CorruptRow)
    }

    #[inline]
    fn counted(&mut self) -> Result<&'a [u8], CorruptRow> {
        let length = usize::try_from(self.varint()?).map_err(|_| CorruptRow)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(CorruptRow)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn spilled_part(&mut self) -> Result<SpilledPart<'a>, CorruptRow> {
        let column = ColumnId(u32::try_from(self.varint()?).map_err(|_| CorruptRow)?);
        let kind = match self.byte()? {
            SPILLED_VALUE => SpilledKind::Value(None),
            SPILLED_ELEMENT => SpilledKind::Value(Some(self.counted()?)),
            SPILLED_ELEMENTS => SpilledKind::Elements,
            _ => return Err(CorruptRow),
        };
        let value_bytes = match kind {
            SpilledKind::Value(_) => self.varint()?,
            SpilledKind::Elements => 0,
        };
        Ok(SpilledPart { column, kind, value_bytes })
    }

    fn cell(&mut self, base_us: i64) -> Result<CellRef<'a>, CorruptRow> {
        let column = ColumnId(u32::try_from(self.varint()?).map_err(|_| CorruptRow)?);
        let flags = self.byte()?;
        if flags == 0 {
            let state = CellState::Value { value: self.counted()?, expiry: None };
            return Ok(CellRef { column, path: None, timestamp_us: base_us, state });
        }
        let timestamp_us = if flags & CELL_TIMESTAMP != 0 { self.i64()? } else { base_us };
        let expiry = if flags & CELL_EXPIRES != 0 { Some(self.expiry()?) } else { None };
        let dead = flags & (CELL_DEAD | CELL_DELETES_ELEMENTS);
        let deleted_at_s = if dead != 0 { self.u32()? } else { 0 };
        let path = if flags & CELL_PATH != 0 { Some(self.counted()?) } else { None };
        let state = match dead {
            0 => CellState::Value { value: self.counted()?, expiry },
            CELL_DEAD => CellState::Dead { deleted_at_s },
            CELL_DELETES_ELEMENTS => CellState::DeletesElements { deleted_at_s },
            _ => return Err(CorruptRow),
        };
        Ok(CellRef { column, path, timestamp_us, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<u8>, Vec<CellRef<'static>>) {
        let expiry = Some(Expiry { ttl_s: 10, expires_at_s: 110 });
        let cells = vec![
            CellRef {
                column: ColumnId(1),
                path: None,
                timestamp_us: 5,
                state: CellState::Value { value: b"x", expiry: None },
            },
            CellRef {
                column: ColumnId(300),
                path: None,
                timestamp_us: 4,
                state: CellState::DeletesElements { deleted_at_s: 9 },
            },
            CellRef {
                column: ColumnId(300),
                path: Some(b"p"),
                timestamp_us: 6,
                state: CellState::Value { value: b"", expiry },
            },
            CellRef {
                column: ColumnId(301),
                path: None,
                timestamp_us: -7,
                state: CellState::Dead { deleted_at_s: 8 },
            },
        ];
        let liveness = Some(Liveness { timestamp_us: 5, expiry });
        let deletion = Some(Deletion { timestamp_us: 1, deleted_at_s: 2 });
        let mut writer = RowWriter::new(Vec::new(), liveness, deletion, Some(b"raw"));
        cells.iter().for_each(|cell| writer.push(cell));
        (writer.finish(), cells)
    }

    #[test]
    fn a_row_comes_back() {
        let (bytes, cells) = sample();
        let view = RowView::decode(&bytes).unwrap();
        assert_eq!(view.liveness().unwrap().timestamp_us, 5);
        assert_eq!(view.deletion().unwrap().deleted_at_s, 2);
        assert_eq!(view.original_clustering(), Some(b"raw".as_slice()));
        let back: Vec<_> = view.cells().map(Result::unwrap).collect();
        assert_eq!(back, cells);
    }

    #[test]
    fn a_row_with_parts_elsewhere_comes_back() {
        let (bytes, cells) = sample();
        let parts = [
            SpilledPart { column: ColumnId(1), kind: SpilledKind::Value(None), value_bytes: 5000 },
            SpilledPart {
                column: ColumnId(300),
                kind: SpilledKind::Value(Some(b"p")),
                value_bytes: 9,
            },
            SpilledPart { column: ColumnId(400), kind: SpilledKind::Elements, value_bytes: 0 },
        ];
        let mut list = Vec::new();
        parts.iter().for_each(|part| part.encode(&mut list));
        assert_eq!(list, [1, 0, 0x88, 0x27, 0xac, 2, 1, 1, b'p', 9, 0x90, 3, 2]);
        let spilled = with_spilled(&bytes, &list);
        assert_eq!(spilled[..2], [2, 13]);
        assert_eq!(spilled[15..], bytes[1..]);
        let view = RowView::decode(&spilled).unwrap();
        assert!(view.has_spilled() && !RowView::decode(&bytes).unwrap().has_spilled());
        assert_eq!(view.spilled().map(Result::unwrap).collect::<Vec<_>>(), parts);
        assert_eq!(view.cells().map(Result::unwrap).collect::<Vec<_>>(), cells);
        for length in 0..list.len() {
            let cut = with_spilled(&bytes, &list[..length]);
            let _ = RowView::decode(&cut).unwrap().spilled().collect::<Result<Vec<_>, _>>();
        }
    }

    #[test]
    fn every_cut_and_flip_is_an_error_or_a_row() {
        let (bytes, _) = sample();
        for length in 0..bytes.len() {
            if let Ok(view) = RowView::decode(&bytes[..length]) {
                let _ = view.cells().collect::<Result<Vec<_>, _>>();
            }
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(view) = RowView::decode(&bytes) {
                let _ = view.cells().collect::<Result<Vec<_>, _>>();
            }
        }
    }
}
