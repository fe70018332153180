//! What an index holds for a row.

use std::sync::Arc;

use schema::{Column, ColumnKind, Index, IndexTarget, Table};
use types::value::{decode_ordered, encode_ordered};
use types::{
    CellRef, ColumnId, CorruptRow, CqlType, HiddenCells, IndexQuestion, LiveCells, PartitionKey,
    RowView, TableId, split_map_cell,
};

use super::keys::cut_value;
use crate::tree::keys::RowKey;

/// What an index is on, in the words of storage. Does not change while the index is there: a column
/// with an index is not dropped, renamed or given another type.
#[derive(Clone, Debug)]
pub(crate) struct IndexShape {
    pub(crate) id: TableId,
    pub(crate) name: Arc<str>,
    source: Source,
    /// What the column left behind when it was dropped once.
    hidden: Vec<HiddenCells>,
}

#[derive(Clone, Debug)]
enum Source {
    /// A column of a partition key of several.
    PartitionKey { place: usize, count: usize, ty: CqlType },
    /// A clustering column: those before it, and it, with whether each is descending.
    Clustering { columns: Vec<(CqlType, bool)> },
    /// A static or regular column.
    Cells { column: ColumnId, is_static: bool, part: Part },
}

/// What of a column's cells is indexed.
#[derive(Clone, Debug)]
enum Part {
    /// The one value.
    Value(CqlType),
    /// The paths: elements of a set, keys of a map.
    Path(CqlType),
    /// The values of the elements of a list.
    Element(CqlType),
    /// The values of the entries of a map, by the types of its keys and values.
    MapValue(CqlType, CqlType),
    /// Path and value of the elements of a map.
    Entry(CqlType, CqlType),
}

/// Something that an index holds for a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) value: Vec<u8>,
    pub(crate) expires_at_s: Option<u32>,
}

/// A row with what lies over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoveredRow<'a> {
    pub(crate) view: RowView<'a>,
    pub(crate) covering_us: i64,
}

/// What a row is called: which row of which partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowName<'a> {
    /// The whole key in the table's tree.
    pub(crate) tree_key: &'a [u8],
    pub(crate) partition_key: &'a [u8],
    /// The partition key is too long to stand in a key.
    pub(crate) is_cut: bool,
    /// `None`: the static row.
    pub(crate) clustering: Option<&'a [u8]>,
}

impl<'a> RowName<'a> {
    /// `cut_key`: the partition key, where the tree key does not hold it.
    pub(crate) fn new(
        tree_key: &'a [u8],
        split: &RowKey<'a>,
        cut_key: Option<&'a [u8]>,
    ) -> Option<RowName<'a>> {
        Some(RowName {
            tree_key,
            partition_key: split.partition_key.or(cut_key)?,
            is_cut: split.partition_key.is_none(),
            clustering: split.clustering,
        })
    }
}

impl IndexShape {
    /// `None` for what needs no tree: an index on the whole partition key, or on a column that is
    /// not there.
    pub(crate) fn new(table: &Table, index: &Index) -> Option<IndexShape> {
        let place = table.columns.iter().position(|column| column.id == index.column)?;
        let column = table.columns.get(place)?;
        let source = match column.kind {
            ColumnKind::PartitionKey if table.partition_key_count == 1 => return None,
            ColumnKind::PartitionKey => Source::PartitionKey {
                place,
                count: table.partition_key_count,
                ty: column.cql_type.clone(),
            },
            ColumnKind::Clustering { .. } => {
                let count = place.checked_sub(table.partition_key_count)? + 1;
                let describe = |column: &Column| (column.cql_type.clone(), column.is_descending());
                let columns = table.clustering().iter().take(count).map(describe).collect();
                Source::Clustering { columns }
            }
            ColumnKind::Static | ColumnKind::Regular => Source::Cells {
                column: column.id,
                is_static: column.kind == ColumnKind::Static,
                part: part_of(&column.cql_type, index.target),
            },
        };
        let mut hidden = table.hidden_cells();
        hidden.retain(|cells| cells.column == column.id);
        Some(IndexShape { id: index.id, name: Arc::clone(&index.name), source, hidden })
    }

    /// Whether what it finds are logical partitions, of which all selected rows are candidates.
    /// The column whose cells it looks at, if it does.
    pub(crate) fn column(&self) -> Option<ColumnId> {
        match &self.source {
            Source::Cells { column, .. } => Some(*column),
            _ => None,
        }
    }

    pub(crate) fn finds_partitions(&self) -> bool {
        match self.source {
            Source::PartitionKey { .. } => true,
            Source::Clustering { .. } => false,
            Source::Cells { is_static, .. } => is_static,
        }
    }

    /// The value to look for.
    pub(crate) fn question(&self, question: &IndexQuestion) -> Vec<u8> {
        let mut out = Vec::with_capacity(question.value.len() + 8);
        let mut push = |ty: &CqlType, value: &[u8]| encode_ordered(ty, value, false, &mut out);
        match &self.source {
            Source::PartitionKey { ty, .. } => push(ty, &question.value),
            Source::Clustering { columns } => {
                if let Some((ty, _)) = columns.last() {
                    push(ty, &question.value);
                }
            }
            Source::Cells { part, .. } => match part {
                Part::Value(ty) | Part::Path(ty) | Part::Element(ty) | Part::MapValue(_, ty) => {
                    push(ty, &question.value)
                }
                Part::Entry(key, value) => {
                    push(key, &question.value);
                    push(value, question.entry_value.as_deref().unwrap_or_default());
                }
            },
        }
        cut_value(&mut out);
        out
    }

    /// Whether the index has the same entries for two states of a row, as far as that can be seen
    /// without working them out. Most changes do not touch a given index.
    pub(crate) fn is_same(
        &self,
        name: &RowName<'_>,
        before: Option<CoveredRow<'_>>,
        after: Option<CoveredRow<'_>>,
    ) -> Result<bool, CorruptRow> {
        if !self.holds(name) {
            return Ok(true);
        }
        let Source::Cells { column, .. } = &self.source else {
            return Ok(self.existence(before)? == self.existence(after)?);
        };
        let (mut old, mut new) = (self.cells(*column, before), self.cells(*column, after));
        loop {
            match (old.next().transpose()?, new.next().transpose()?) {
                (None, None) => return Ok(true),
                (Some(old), Some(new)) if old.path == new.path && old.state == new.state => {}
                _ => return Ok(false),
            }
        }
    }

    /// What the index holds for a row, sorted, each value once. Expiry is not judged.
    pub(crate) fn entries(
        &self,
        name: &RowName<'_>,
        row: Option<CoveredRow<'_>>,
    ) -> Result<Vec<Entry>, CorruptRow> {
        let mut entries = Vec::new();
        if !self.holds(name) {
            return Ok(entries);
        }
        match &self.source {
            Source::PartitionKey { place, count, ty } => {
                if let Some(expires_at_s) = self.existence(row)? {
                    let component = PartitionKey::components(name.partition_key, *count)
                        .nth(*place)
                        .ok_or(CorruptRow)?;
                    entries.push(entry(expires_at_s, &[(ty, component)]));
                }
            }
            Source::Clustering { columns } => {
                if let Some(expires_at_s) = self.existence(row)?
                    && let Some((ty, value)) = clustering_value(columns, name.clustering)?
                {
                    entries.push(entry(expires_at_s, &[(ty, &value)]));
                }
            }
            Source::Cells { column, part, .. } => {
                for cell in self.cells(*column, row) {
                    entries.extend(part.entry(&cell?)?);
                }
                tidy(&mut entries);
            }
        }
        Ok(entries)
    }

    /// Whether rows of that kind can be in the index at all.
    fn holds(&self, name: &RowName<'_>) -> bool {
        match self.source {
            Source::PartitionKey { .. } => true,
            Source::Clustering { .. } => name.clustering.is_some(),
            Source::Cells { is_static, .. } => is_static == name.clustering.is_none(),
        }
    }

    /// The cells of a column that hold something, expired or not.
    fn cells<'a>(
        &'a self,
        column: ColumnId,
        row: Option<CoveredRow<'a>>,
    ) -> impl Iterator<Item = Result<CellRef<'a>, CorruptRow>> {
        let cells = row.map(|row| {
            LiveCells::new(row.view, row.covering_us, BEFORE_ALL_EXPIRY)
                .hiding(&self.hidden)
                .cells()
        });
        cells.into_iter().flatten().filter(move |cell| match cell {
            Ok(cell) => cell.column == column,
            Err(CorruptRow) => true,
        })
    }

    /// Whether there is such a row, expired or not, and when all of it will have expired.
    fn existence(&self, row: Option<CoveredRow<'_>>) -> Result<Option<Option<u32>>, CorruptRow> {
        let Some(row) = row else { return Ok(None) };
        let live = LiveCells::new(row.view, row.covering_us, BEFORE_ALL_EXPIRY);
        let mut found = None;
        if live.has_liveness() {
            let expiry = row.view.liveness().and_then(|liveness| liveness.expiry);
            found = Some(expiry.map(|expiry| expiry.expires_at_s));
        }
        for cell in live.cells() {
            let expires_at_s = cell?.expiry().map(|expiry| expiry.expires_at_s);
            found = Some(match found {
                None => expires_at_s,
                Some(known) => later(known, expires_at_s),
            });
        }
        Ok(found)
    }
}

/// What an index holds must not depend on when somebody looks.
const BEFORE_ALL_EXPIRY: u32 = 0;

fn part_of(ty: &CqlType, target: IndexTarget) -> Part {
    let whole = || Part::Value(ty.clone());
    match (ty, target) {
        (_, IndexTarget::Value | IndexTarget::Full) => whole(),
        (CqlType::Set { element, .. }, IndexTarget::Values | IndexTarget::Keys) => {
            Part::Path(element.as_ref().clone())
        }
        (CqlType::List { element, .. }, IndexTarget::Values) => {
            Part::Element(element.as_ref().clone())
        }
        (CqlType::Map { key, value, .. }, IndexTarget::Values) => {
            Part::MapValue(key.as_ref().clone(), value.as_ref().clone())
        }
        (CqlType::Map { key, .. }, IndexTarget::Keys) => Part::Path(key.as_ref().clone()),
        (CqlType::Map { key, value, .. }, IndexTarget::Entries) => {
            Part::Entry(key.as_ref().clone(), value.as_ref().clone())
        }
        // No definition makes such a pair.
        (_, IndexTarget::Values | IndexTarget::Keys | IndexTarget::Entries) => whole(),
    }
}

impl Part {
    /// What a cell adds to the index. The one place that looks at the value of an indexed cell.
    fn entry(&self, cell: &CellRef<'_>) -> Result<Option<Entry>, CorruptRow> {
        let expires_at_s = cell.expiry().map(|expiry| expiry.expires_at_s);
        let path = || cell.path.ok_or(CorruptRow);
        let mut value = Vec::new();
        match self {
            Part::Value(ty) | Part::Element(ty) => {
                encode_ordered(ty, cell.value(), false, &mut value);
            }
            // A path is in byte-comparable form already.
            Part::Path(_) => value.extend_from_slice(path()?),
            Part::MapValue(key, ty) => {
                let (_, entry_value) = split_map_cell(key, cell.value())?;
                encode_ordered(ty, entry_value, false, &mut value);
            }
            Part::Entry(key, ty) => {
                let (_, entry_value) = split_map_cell(key, cell.value())?;
                value.extend_from_slice(path()?);
                encode_ordered(ty, entry_value, false, &mut value);
            }
        }
        cut_value(&mut value);
        Ok(Some(Entry { value, expires_at_s }))
    }
}

fn entry(expires_at_s: Option<u32>, parts: &[(&CqlType, &[u8])]) -> Entry {
    let mut value = Vec::new();
    for (ty, bytes) in parts {
        encode_ordered(ty, bytes, false, &mut value);
    }
    cut_value(&mut value);
    Entry { value, expires_at_s }
}

/// The value of the last of some clustering columns; `None` where a compact table lacks it.
fn clustering_value<'c>(
    columns: &'c [(CqlType, bool)],
    clustering: Option<&[u8]>,
) -> Result<Option<(&'c CqlType, Vec<u8>)>, CorruptRow> {
    let mut input = clustering.ok_or(CorruptRow)?;
    let mut value = Vec::new();
    for (ty, descending) in columns {
        if input.is_empty() {
            return Ok(None);
        }
        value.clear();
        decode_ordered(ty, *descending, &mut input, &mut value).map_err(|_| CorruptRow)?;
    }
    Ok(columns.last().map(|(ty, _)| (ty, value)))
}

/// Sorts, and keeps of equal values the one that lasts longest.
fn tidy(entries: &mut Vec<Entry>) {
    if entries.len() < 2 {
        return;
    }
    entries.sort_unstable();
    entries.dedup_by(|next, kept| {
        let is_same = next.value == kept.value;
        if is_same {
            kept.expires_at_s = later(kept.expires_at_s, next.expires_at_s);
        }
        is_same
    });
}

/// The later end; `None` never ends.
fn later(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        _ => None,
    }
}
