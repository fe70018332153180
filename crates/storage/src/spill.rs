//! Large values and large collections outside of their rows.
//!
//! A value over a bound, and all elements of a collection with more than a few, lie under keys of
//! their own, so that a row stays small however much it holds: changing an int beside a large blob,
//! or one element of a large set, rewrites neither. The row says what was spilled (see
//! [`types::SpilledPart`]), and keeps time and expiry of a spilled value.
//!
//! The rest of storage works on whole rows: [`thaw`] puts the parts that are needed back into a row,
//! [`freeze`] takes out what is too large, and says which keys change. A spilled cell is stored as
//! a row of one cell.

use std::collections::{BTreeMap, BTreeSet};

use types::{
    CellAction, CellRef, CellState, ColumnId, CorruptRow, RowChange, RowView, RowWriter,
    SpilledKind, SpilledPart, with_spilled,
};

use crate::error::TreeError;
use crate::tree::keys;
use tree::engine::{SeqNo, SortedTree, TreeBytes};

/// What stays in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpillBounds {
    pub(crate) value_bytes_max: usize,
    pub(crate) elements_max: usize,
}

/// Keys of spilled cells that change: to what, or that they go.
pub(crate) type CellWrites = BTreeMap<Vec<u8>, Option<TreeBytes>>;

/// Reads spilled cells as they were at one moment.
#[derive(Clone, Copy)]
pub(crate) struct CellReader<'t> {
    pub(crate) tree: &'t dyn SortedTree,
    pub(crate) seqno: SeqNo,
    /// What will be written, and counts already.
    pub(crate) pending: Option<&'t CellWrites>,
}

impl CellReader<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<TreeBytes>, TreeError> {
        if let Some(pending) = self.pending.and_then(|pending| pending.get(key)) {
            return Ok(pending.clone());
        }
        self.tree.get(key, self.seqno)
    }

    /// All spilled cells of a column.
    fn column(
        &self,
        prefix: &[u8],
        column: ColumnId,
    ) -> Result<BTreeMap<Vec<u8>, TreeBytes>, TreeError> {
        let bound = |column: u64| {
            let mut key = prefix.to_vec();
            key.extend_from_slice(&(column as u32).to_be_bytes());
            key
        };
        let (start, end) = (bound(u64::from(column.0)), bound(u64::from(column.0) + 1));
        let mut cells = BTreeMap::new();
        for item in self.tree.range(&start, &end, self.seqno) {
            let (key, value) = item?;
            cells.insert(key.to_vec(), value);
        }
        if let Some(pending) = self.pending {
            for (key, value) in pending.range(start..end) {
                match value {
                    Some(value) => cells.insert(key.clone(), value.clone()),
                    None => cells.remove(key),
                };
            }
        }
        Ok(cells)
    }
}

/// What of a spilled part is put back.
#[derive(Debug)]
pub(crate) enum Want<'w> {
    Nothing,
    Everything,
    /// Elements with these paths, where there are any.
    Paths(Vec<&'w [u8]>),
}

/// A row with parts put back.
#[derive(Debug)]
pub(crate) struct Thawed {
    /// A row without spilled parts. Values that were left out are empty.
    pub(crate) row: Vec<u8>,
    pub(crate) loaded: Loaded,
    /// Elements that were left out may be live.
    pub(crate) lacks_elements: bool,
}

/// What was put back.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    values: BTreeSet<(ColumnId, Option<Vec<u8>>)>,
    elements: BTreeMap<Vec<u8>, TreeBytes>,
    /// Columns of which every element was put back.
    whole: BTreeSet<ColumnId>,
}

impl Loaded {
    /// Whether a key is that of an element that was put back.
    pub(crate) fn has_element(&self, key: &[u8]) -> bool {
        self.elements.contains_key(key)
    }
}

/// Puts parts of a row back. `prefix`: of its cells; `out`: what the row is appended to.
pub(crate) fn thaw<'w>(
    view: &RowView<'_>,
    prefix: &[u8],
    reader: CellReader<'_>,
    want: impl Fn(&SpilledPart<'_>) -> Want<'w>,
    out: Vec<u8>,
) -> Result<Thawed, TreeError> {
    let mut loaded = Loaded::default();
    let mut values: Vec<TreeBytes> = Vec::new();
    let mut lacks_elements = false;
    for part in view.spilled() {
        let part = part?;
        match (part.kind, want(&part)) {
            (SpilledKind::Value(path), Want::Everything | Want::Paths(_)) => {
                let value = reader.get(&cell_key(prefix, part.column, path))?;
                values.push(value.ok_or(CorruptRow)?);
                loaded.values.insert((part.column, path.map(<[u8]>::to_vec)));
            }
            (SpilledKind::Value(_), Want::Nothing) => {}
            (SpilledKind::Elements, Want::Everything) => {
                loaded.whole.insert(part.column);
                loaded.elements.append(&mut reader.column(prefix, part.column)?);
            }
            (SpilledKind::Elements, Want::Paths(paths)) => {
                lacks_elements = true;
                for path in paths {
                    let key = cell_key(prefix, part.column, Some(path));
                    if let Some(value) = reader.get(&key)? {
                        loaded.elements.insert(key, value);
                    }
                }
            }
            (SpilledKind::Elements, Want::Nothing) => lacks_elements = true,
        }
    }
    let mut cells = Vec::new();
    for cell in view.cells() {
        let cell = cell?;
        let place = (cell.column, cell.path.map(<[u8]>::to_vec));
        if !matches!(cell.state, CellState::Value { .. }) || !loaded.values.contains(&place) {
            cells.push(cell);
        }
    }
    for value in values.iter().chain(loaded.elements.values()) {
        cells.push(decode_cell(value)?);
    }
    cells.sort_by(CellRef::cmp_place);
    let mut writer =
        RowWriter::new(out, view.liveness(), view.deletion(), view.original_clustering());
    cells.iter().for_each(|cell| writer.push(cell));
    Ok(Thawed { row: writer.finish(), loaded, lacks_elements })
}

/// A row's value with everything put back that was spilled. `row_key`: its tree key.
pub(crate) fn thaw_value(
    tree: &dyn SortedTree,
    row_key: &[u8],
    value: TreeBytes,
    seqno: SeqNo,
) -> Result<TreeBytes, TreeError> {
    let split = keys::split_row_key(row_key).ok_or(CorruptRow)?;
    // Nothing is spilled from rows whose partition key was cut.
    if split.partition_key.is_none() {
        return Ok(value);
    }
    let view = RowView::decode(&value)?;
    if !view.has_spilled() {
        return Ok(value);
    }
    let prefix = keys::cells_prefix(row_key).ok_or(CorruptRow)?;
    let reader = CellReader { tree, seqno, pending: None };
    let thawed = thaw(&view, &prefix, reader, |_| Want::Everything, Vec::new())?;
    Ok(TreeBytes::from(thawed.row))
}

/// The spilled elements of a row, each as a row of one cell.
pub(crate) fn elements_of(
    tree: &dyn SortedTree,
    row_key: &[u8],
    view: &RowView<'_>,
    seqno: SeqNo,
) -> Result<Vec<TreeBytes>, TreeError> {
    let mut elements = Vec::new();
    if !view.has_spilled() {
        return Ok(elements);
    }
    let prefix = keys::cells_prefix(row_key).ok_or(CorruptRow)?;
    let reader = CellReader { tree, seqno, pending: None };
    for part in view.spilled() {
        let part = part?;
        if part.kind == SpilledKind::Elements {
            elements.extend(reader.column(&prefix, part.column)?.into_values());
        }
    }
    Ok(elements)
}

/// What of a row a change must see: values that it may tie with, elements that it names, and
/// everything of a column that it deletes or looks into.
pub(crate) fn wanted_by<'w>(
    change: &'w RowChange,
    view: &RowView<'_>,
    part: &SpilledPart<'_>,
) -> Want<'w> {
    let mut paths = Vec::new();
    for cell in change.cells.iter().filter(|cell| cell.column == part.column) {
        match &cell.action {
            CellAction::Set { path, .. } | CellAction::Delete { path, .. } => match part.kind {
                SpilledKind::Value(spilled) => {
                    let ties = |known: CellRef<'_>| {
                        known.column == part.column
                            && known.path == spilled
                            && known.timestamp_us == cell.timestamp_us
                    };
                    let is_same = path.as_deref() == spilled;
                    if is_same && view.cells().any(|known| known.is_ok_and(ties)) {
                        return Want::Everything;
                    }
                }
                SpilledKind::Elements => paths.extend(path.as_deref()),
            },
            CellAction::AddValue { .. }
            | CellAction::ListSetAt { .. }
            | CellAction::ListDeleteAt { .. }
            | CellAction::ListRemoveValues { .. } => return Want::Everything,
            CellAction::DeleteElements { .. } if part.kind == SpilledKind::Elements => {
                return Want::Everything;
            }
            CellAction::DeleteElements { .. } | CellAction::CounterAdd(_) => {}
        }
    }
    match part.kind {
        SpilledKind::Elements if change.deletion.is_some() => Want::Everything,
        SpilledKind::Elements if !paths.is_empty() => Want::Paths(paths),
        SpilledKind::Elements | SpilledKind::Value(_) => Want::Nothing,
    }
}

/// Elements, but no values: enough to see what time and deletions did to a row.
pub(crate) fn wanted_by_time(part: &SpilledPart<'_>) -> Want<'static> {
    match part.kind {
        SpilledKind::Elements => Want::Everything,
        SpilledKind::Value(_) => Want::Nothing,
    }
}

/// A row as it is stored, and the cells beside it that change.
#[derive(Debug)]
pub(crate) struct FrozenCells {
    /// `None`: nothing is left of it.
    pub(crate) row: Option<Vec<u8>>,
    pub(crate) writes: Vec<(Vec<u8>, Option<TreeBytes>)>,
    /// Elements that change: before and after.
    pub(crate) elements: Vec<(Option<TreeBytes>, Option<TreeBytes>)>,
}

/// Takes out of a row what is too large for it. `old`: the row as it was stored; `loaded`: what of
/// it was put back before it was changed.
pub(crate) fn freeze(
    row: &[u8],
    old: Option<&RowView<'_>>,
    loaded: &Loaded,
    prefix: &[u8],
    bounds: SpillBounds,
) -> Result<FrozenCells, CorruptRow> {
    let view = RowView::decode(row)?;
    let old = OldParts::of(old)?;
    let mut spilled_columns = old.elements.clone();
    spilled_columns.extend(crowded_columns(&view, bounds)?);
    let mut kept_columns = BTreeSet::new();
    let mut kept_keys = BTreeSet::new();
    let mut writes = Vec::new();
    let mut elements = Vec::new();
    let mut parts = Vec::new();
    let mut writer =
        RowWriter::new(Vec::new(), view.liveness(), view.deletion(), view.original_clustering());
    let mut is_empty = view.liveness().is_none() && view.deletion().is_none();
    for cell in view.cells() {
        let cell = cell?;
        let is_left_out = old.is_left_out(&cell, loaded);
        let is_element = cell.path.is_some() && spilled_columns.contains(&cell.column);
        let is_large = cell.value().len() > bounds.value_bytes_max;
        if !is_left_out && !is_element && !is_large {
            writer.push(&cell);
            is_empty = false;
            continue;
        }
        let key = cell_key(prefix, cell.column, cell.path);
        if !is_left_out {
            let value = TreeBytes::from(encode_cell(&cell));
            let known = loaded.elements.get(&key);
            if known != Some(&value) {
                writes.push((key.clone(), Some(value.clone())));
                if is_element {
                    elements.push((known.cloned(), Some(value)));
                }
            }
        }
        if is_element {
            kept_columns.insert(cell.column);
        } else {
            writer.push(&without_value(&cell));
            let known = old.values.get(&(cell.column, cell.path));
            let value_bytes = match known {
                Some((_, value_bytes)) if is_left_out => *value_bytes,
                _ => cell.value().len() as u64,
            };
            let kind = SpilledKind::Value(cell.path);
            SpilledPart { column: cell.column, kind, value_bytes }.encode(&mut parts);
        }
        kept_keys.insert(key);
    }
    for column in spilled_columns {
        if kept_columns.contains(&column) || !loaded.whole.contains(&column) {
            let kind = SpilledKind::Elements;
            SpilledPart { column, kind, value_bytes: 0 }.encode(&mut parts);
        }
    }
    let old_values = old.values.keys().map(|(column, path)| cell_key(prefix, *column, *path));
    for key in old_values.chain(loaded.elements.keys().cloned()) {
        if !kept_keys.contains(&key) {
            if let Some(known) = loaded.elements.get(&key) {
                elements.push((Some(known.clone()), None));
            }
            writes.push((key, None));
        }
    }
    let core = writer.finish();
    let row = match (parts.is_empty(), is_empty) {
        (true, true) => None,
        (true, false) => Some(core),
        (false, _) => Some(with_spilled(&core, &parts)),
    };
    Ok(FrozenCells { row, writes, elements })
}

/// A column, and the path of an element.
type CellPlace<'a> = (ColumnId, Option<&'a [u8]>);

/// What of a stored row lies elsewhere.
#[derive(Default)]
struct OldParts<'a> {
    /// Values: the times of their cells, and their lengths.
    values: BTreeMap<CellPlace<'a>, (i64, u64)>,
    elements: BTreeSet<ColumnId>,
}

impl<'a> OldParts<'a> {
    fn of(row: Option<&RowView<'a>>) -> Result<OldParts<'a>, CorruptRow> {
        let mut parts = OldParts::default();
        let Some(row) = row.filter(|row| row.has_spilled()) else { return Ok(parts) };
        let mut places = BTreeMap::new();
        for part in row.spilled() {
            let part = part?;
            match part.kind {
                SpilledKind::Value(path) => {
                    places.insert((part.column, path), part.value_bytes);
                }
                SpilledKind::Elements => {
                    parts.elements.insert(part.column);
                }
            }
        }
        for cell in row.cells() {
            let cell = cell?;
            let place = (cell.column, cell.path);
            if matches!(cell.state, CellState::Value { .. })
                && let Some(value_bytes) = places.get(&place)
            {
                parts.values.insert(place, (cell.timestamp_us, *value_bytes));
            }
        }
        Ok(parts)
    }

    /// Whether a cell is one whose value was not put back.
    fn is_left_out(&self, cell: &CellRef<'_>, loaded: &Loaded) -> bool {
        let is_value = matches!(cell.state, CellState::Value { value: [], .. });
        let known = self.values.get(&(cell.column, cell.path));
        is_value
            && known.is_some_and(|(timestamp_us, _)| *timestamp_us == cell.timestamp_us)
            && !loaded.values.contains(&(cell.column, cell.path.map(<[u8]>::to_vec)))
    }
}

/// The columns with more elements than a row may hold.
fn crowded_columns(
    view: &RowView<'_>,
    bounds: SpillBounds,
) -> Result<BTreeSet<ColumnId>, CorruptRow> {
    let mut counts: BTreeMap<ColumnId, usize> = BTreeMap::new();
    for cell in view.cells() {
        let cell = cell?;
        if cell.path.is_some() {
            *counts.entry(cell.column).or_default() += 1;
        }
    }
    let crowded = counts.into_iter().filter(|(_, count)| *count > bounds.elements_max);
    Ok(crowded.map(|(column, _)| column).collect())
}

fn without_value<'a>(cell: &CellRef<'a>) -> CellRef<'a> {
    match cell.state {
        CellState::Value { expiry, .. } => {
            CellRef { state: CellState::Value { value: &[], expiry }, ..*cell }
        }
        CellState::Dead { .. } | CellState::DeletesElements { .. } => *cell,
    }
}

fn cell_key(prefix: &[u8], column: ColumnId, path: Option<&[u8]>) -> Vec<u8> {
    let mut key = prefix.to_vec();
    keys::push_cell(&mut key, column, path);
    key
}

fn encode_cell(cell: &CellRef<'_>) -> Vec<u8> {
    let mut writer = RowWriter::new(Vec::new(), None, None, None);
    writer.push(cell);
    writer.finish()
}

fn decode_cell(bytes: &[u8]) -> Result<CellRef<'_>, CorruptRow> {
    let mut cells = RowView::decode(bytes)?.cells();
    match (cells.next(), cells.next()) {
        (Some(cell), None) => cell,
        _ => Err(CorruptRow),
    }
}
