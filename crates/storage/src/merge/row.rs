//! A row and a change of it become a row.

use std::cmp::Ordering;
use std::fmt;

use smallvec::SmallVec;
use types::value::{ArithmeticOperator, apply_arithmetic};
use types::{
    CellAction, CellChange, CellRef, CellState, Cells, ColumnId, CorruptRow, Deletion, Expiry,
    HiddenCells, LiveCells, Liveness, Refusal, RowChange, RowView, RowWriter,
};

use super::MergeError;
use super::lists::{Lists, POSITIONS_WALKED_MAX};
use crate::spill::SpillBounds;
use crate::steps;

use super::reconcile::{newer, newer_deletion, newer_liveness};

/// A row before it is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before<'a> {
    /// The row, if there is one.
    pub(crate) row: Option<RowView<'a>>,
    /// The row before the whole mutation, whose other statements a position in a list does not
    /// see.
    pub(crate) first_row: Option<RowView<'a>>,
    /// What covered it then.
    pub(crate) first_covering_us: i64,
    /// The newest deletion of its partition or of a range over it (`i64::MIN` for none).
    pub(crate) covering_us: i64,
    /// The second at which expiry is judged, where the change looks at the row.
    pub(crate) now_s: u32,
    /// What died before this second may be gone or not, as compactions went: it counts as gone.
    pub(crate) horizon_s: u32,
    /// What dropped columns left behind, where the change looks at the row.
    pub(crate) hidden: &'a [HiddenCells],
    /// Measures the row before and after on the way; `None` where nobody wants to know.
    pub(crate) measure: Option<&'a dyn Measure>,
}

/// Knows what the size of a row is made of (D5).
pub(crate) trait Measure: fmt::Debug {
    /// The second at which it is measured.
    fn now_s(&self) -> u32;
    /// What names an element of a collection counts.
    fn path_bytes(&self, cell: &CellRef<'_>) -> u64;
}

/// What is live of a row, its keys aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveSum {
    /// Something is.
    pub(crate) is_live: bool,
    /// The bytes of its values.
    pub(crate) value_bytes: u64,
}

impl LiveSum {
    fn of_liveness(liveness: Option<Liveness>, shadow_us: i64, measure: &dyn Measure) -> LiveSum {
        let is_live = liveness.is_some_and(|liveness| {
            liveness.timestamp_us > shadow_us
                && liveness.expiry.is_none_or(|expiry| expiry.expires_at_s > measure.now_s())
        });
        LiveSum { is_live, value_bytes: 0 }
    }

    /// Adds a cell over which no deletion lies.
    #[inline]
    fn add(&mut self, cell: &CellRef<'_>, measure: &dyn Measure) {
        let CellState::Value { value, expiry } = cell.state else { return };
        if expiry.is_some_and(|expiry| expiry.expires_at_s <= measure.now_s()) {
            return;
        }
        self.is_live = true;
        self.value_bytes += value.len() as u64;
        if cell.path.is_some() {
            self.value_bytes += measure.path_bytes(cell);
        }
    }
}

/// Adds up what is live of the old row while its cells come by in order.
struct OldSum<'a> {
    sum: LiveSum,
    shadow_us: i64,
    elements_gone: Option<(ColumnId, i64)>,
    measure: &'a dyn Measure,
}

impl<'a> OldSum<'a> {
    fn new(row: &RowView<'a>, covering_us: i64, measure: &'a dyn Measure) -> OldSum<'a> {
        let own_us = row.deletion().map_or(i64::MIN, |deletion| deletion.timestamp_us);
        let shadow_us = covering_us.max(own_us);
        let sum = LiveSum::of_liveness(row.liveness(), shadow_us, measure);
        OldSum { sum, shadow_us, elements_gone: None, measure }
    }

    #[inline]
    fn add(&mut self, cell: &CellRef<'_>) {
        if cell.deletes_elements() {
            self.elements_gone = Some((cell.column, cell.timestamp_us));
            return;
        }
        let over_us = match self.elements_gone {
            Some((column, gone_us)) if column == cell.column => self.shadow_us.max(gone_us),
            _ => self.shadow_us,
        };
        if cell.timestamp_us > over_us {
            self.sum.add(cell, self.measure);
        }
    }
}

/// A row after it was changed.
#[derive(Debug)]
pub(crate) struct After {
    /// Its bytes; nothing was written to them when `is_empty`.
    pub(crate) bytes: Vec<u8>,
    /// Nothing is left, not even a tombstone.
    pub(crate) is_empty: bool,
    /// The bytes of its largest value.
    largest_value: usize,
    /// The elements of its largest collection.
    most_elements: usize,
    /// The row before had something that died before the horizon, which is left out.
    pub(crate) left_out_dead: bool,
    /// What was live before; nothing where it was not measured.
    pub(crate) sum_before: LiveSum,
    /// What is live now; nothing where it was not measured.
    pub(crate) sum: LiveSum,
}

impl After {
    /// Whether parts of it should be kept elsewhere.
    pub(crate) fn exceeds(&self, bounds: SpillBounds) -> bool {
        self.largest_value > bounds.value_bytes_max || self.most_elements > bounds.elements_max
    }
}

/// Merges a change into a row, appending the result to `out`.
pub(crate) fn merge(
    before: &Before<'_>,
    change: &RowChange,
    out: Vec<u8>,
) -> Result<After, MergeError> {
    merge_walking(before, change, POSITIONS_WALKED_MAX, out)
}

/// The same; for up to so many positions in lists the row is walked each time.
pub(super) fn merge_walking(
    before: &Before<'_>,
    change: &RowChange,
    walked_max: usize,
    out: Vec<u8>,
) -> Result<After, MergeError> {
    // Most changes write what they say, whatever the row holds.
    let (counters, sums) = match change.cells.iter().any(is_computed) {
        true => (counter_values(before, change)?, added_values(before, change)?),
        false => (Vec::new(), Vec::new()),
    };
    let mut cells = ChangedCells::new();
    let lists = Lists::new(before, change, walked_max);
    resolve_cells(lists, change, Computed { counters: &counters, sums: &sums }, &mut cells)?;
    cells.sort_by(CellRef::cmp_place);
    let head = Head {
        liveness: newer_liveness(before.liveness(), change.liveness),
        deletion: newer_deletion(before.deletion(), change.deletion),
        // The first form that was written stays, as long as there is anything written that way.
        original_clustering: match before.row {
            Some(row) if before.liveness().is_some() || before.has_cells(&row) => {
                row.original_clustering()
            }
            _ => change.original_clustering.as_deref(),
        },
    };
    Ok(write_row(head, before, Changed { cells: &cells, counters: &counters }, out)?)
}

/// Whether what a cell becomes is worked out from what it was.
fn is_computed(cell: &CellChange) -> bool {
    matches!(cell.action, CellAction::CounterAdd(_) | CellAction::AddValue { .. })
}

impl Before<'_> {
    fn liveness(&self) -> Option<Liveness> {
        let liveness = self.row.and_then(|row| row.liveness());
        liveness.filter(|liveness| !is_expired_before(self.horizon_s, liveness.expiry))
    }

    fn deletion(&self) -> Option<Deletion> {
        let deletion = self.row.and_then(|row| row.deletion());
        deletion.filter(|deletion| deletion.deleted_at_s >= self.horizon_s)
    }

    /// Whether its liveness or its deletion died before the horizon.
    fn has_dead_head(&self) -> bool {
        self.row.is_some_and(|row| {
            row.liveness() != self.liveness() || row.deletion() != self.deletion()
        })
    }

    /// What covered the row before the mutation, with the deletion that comes with a change.
    pub(super) fn first_covering_us_under(&self, change: &RowChange) -> i64 {
        let deleted_us = change.deletion.map_or(i64::MIN, |deletion| deletion.timestamp_us);
        self.first_covering_us.max(deleted_us)
    }

    /// Whether there is a cell that counts; one that cannot be read is noticed later.
    fn has_cells(&self, row: &RowView<'_>) -> bool {
        row.cells().any(|cell| !cell.is_ok_and(|cell| is_dead_before(self.horizon_s, &cell)))
    }
}

fn is_expired_before(horizon_s: u32, expiry: Option<Expiry>) -> bool {
    expiry.is_some_and(|expiry| expiry.expires_at_s < horizon_s)
}

/// Whether a cell has been dead for so long that it may be gone.
pub(crate) fn is_dead_before(horizon_s: u32, cell: &CellRef<'_>) -> bool {
    match cell.state {
        CellState::Value { expiry, .. } => is_expired_before(horizon_s, expiry),
        CellState::Dead { deleted_at_s } | CellState::DeletesElements { deleted_at_s } => {
            deleted_at_s < horizon_s
        }
    }
}

/// Cells that a change writes; mostly a few.
type ChangedCells<'a> = SmallVec<[CellRef<'a>; 8]>;

/// What a change writes.
#[derive(Clone, Copy)]
struct Changed<'a> {
    cells: &'a [CellRef<'a>],
    counters: &'a [CounterValue],
}

struct Head<'a> {
    liveness: Option<Liveness>,
    deletion: Option<Deletion>,
    original_clustering: Option<&'a [u8]>,
}

fn write_row(
    head: Head<'_>,
    before: &Before<'_>,
    changed: Changed<'_>,
    out: Vec<u8>,
) -> Result<After, CorruptRow> {
    let covering_us = before.covering_us;
    let deletion = head.deletion.filter(|deletion| deletion.timestamp_us > covering_us);
    let shadow_us = deletion.map_or(covering_us, |deletion| deletion.timestamp_us);
    let liveness = head.liveness.filter(|liveness| liveness.timestamp_us > shadow_us);
    let mut is_empty = liveness.is_none() && deletion.is_none();
    let mut writer = RowWriter::new(out, liveness, deletion, head.original_clustering);
    let mut sum = match before.measure {
        Some(measure) => LiveSum::of_liveness(liveness, shadow_us, measure),
        None => LiveSum::default(),
    };
    let mut elements_gone: Option<(ColumnId, i64)> = None;
    let (mut largest_value, mut most_elements, mut elements) = (0, 0, (None, 0));
    let mut old = OldCells::new(before)?;
    let mut new = changed.cells;
    // Two sorted runs become one, one cell for each place. Cells are large, and looked at where they lie.
    loop {
        let order = match (&old.next, new.first()) {
            (Some(old), Some(new)) => old.cmp_place(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let newest = if order == Ordering::Less { None } else { take_newest(&mut new) };
        let cell = match (&old.next, newest) {
            // A counter's new value was made from the old one.
            (Some(_), Some(new)) if changed.is_counter(new.column) => new,
            (Some(old), Some(new)) if order == Ordering::Equal => newer(old, new),
            (_, Some(new)) => new,
            (Some(old), None) => old,
            (None, None) => break,
        };
        let over_us = match elements_gone {
            Some((column, gone_us)) if column == cell.column => shadow_us.max(gone_us),
            _ => shadow_us,
        };
        if cell.timestamp_us > over_us {
            if cell.deletes_elements() {
                elements_gone = Some((cell.column, cell.timestamp_us));
            }
            is_empty = false;
            largest_value = largest_value.max(cell.value().len());
            if cell.path.is_some() {
                elements = (
                    Some(cell.column),
                    if elements.0 == Some(cell.column) { elements.1 + 1 } else { 1 },
                );
                most_elements = most_elements.max(elements.1);
            }
            if let Some(measure) = before.measure {
                sum.add(cell, measure);
            }
            writer.push(cell);
        }
        if order != Ordering::Greater {
            old.advance()?;
        }
    }
    let left_out_dead = old.has_dead || before.has_dead_head();
    let sum_before = old.sum.map(|old| old.sum).unwrap_or_default();
    let bytes = writer.finish();
    Ok(After { bytes, is_empty, largest_value, most_elements, left_out_dead, sum_before, sum })
}

/// Takes the first cell; a change may name the same place twice.
fn take_newest<'r, 'a>(cells: &mut &'r [CellRef<'a>]) -> Option<&'r CellRef<'a>> {
    let (mut newest, mut rest) = cells.split_first()?;
    while let Some((same, behind)) = rest.split_first()
        && same.cmp_place(newest) == Ordering::Equal
    {
        newest = newer(newest, same);
        rest = behind;
    }
    *cells = rest;
    Some(newest)
}

/// The cells of the old row, one after the other, but for those that died too long ago.
struct OldCells<'a> {
    cells: Option<Cells<'a>>,
    next: Option<CellRef<'a>>,
    horizon_s: u32,
    /// Some of those that were met died too long ago.
    has_dead: bool,
    /// What is live of those that were met.
    sum: Option<OldSum<'a>>,
}

impl<'a> OldCells<'a> {
    fn new(before: &Before<'a>) -> Result<OldCells<'a>, CorruptRow> {
        let measured = before.measure.zip(before.row.as_ref());
        let mut old = OldCells {
            cells: before.row.map(|row| row.cells()),
            next: None,
            horizon_s: before.horizon_s,
            has_dead: false,
            sum: measured.map(|(measure, row)| OldSum::new(row, before.covering_us, measure)),
        };
        old.advance()?;
        Ok(old)
    }

    /// Goes on to the next cell.
    fn advance(&mut self) -> Result<(), CorruptRow> {
        self.next = None;
        for cell in self.cells.iter_mut().flatten() {
            let cell = self.next.insert(cell?);
            if !is_dead_before(self.horizon_s, cell) {
                if let Some(sum) = &mut self.sum {
                    sum.add(cell);
                }
                return Ok(());
            }
            self.has_dead = true;
        }
        self.next = None;
        Ok(())
    }
}

impl Changed<'_> {
    fn is_counter(&self, column: ColumnId) -> bool {
        find_counter(self.counters, column)
            .and_then(|place| self.counters.get(place))
            .is_some_and(|counter| counter.is_changed)
    }
}

/// The value each counter of the change will have, in the order of the columns. The row is walked once, however many
/// there are.
fn counter_values(
    before: &Before<'_>,
    change: &RowChange,
) -> Result<Vec<CounterValue>, CorruptRow> {
    let added = || {
        change.cells.iter().filter_map(|cell| match cell.action {
            CellAction::CounterAdd(delta) => Some((cell, delta)),
            _ => None,
        })
    };
    let mut dead_us = before.covering_us;
    if let Some(deletion) = before.deletion() {
        dead_us = dead_us.max(deletion.timestamp_us);
    }
    let new = |(cell, _): (&CellChange, i64)| CounterValue::new(cell.column, dead_us);
    let mut counters: Vec<CounterValue> = added().map(new).collect();
    if counters.is_empty() {
        return Ok(counters);
    }
    counters.sort_unstable_by_key(|counter| counter.column);
    counters.dedup_by_key(|counter| counter.column);
    for cell in before.row.iter().flat_map(|row| row.cells()) {
        let cell = cell?;
        let place = find_counter(&counters, cell.column);
        if let Some(counter) = place.and_then(|place| counters.get_mut(place))
            && !is_dead_before(before.horizon_s, &cell)
        {
            counter.read(&cell)?;
        }
    }
    for (cell, delta) in added() {
        let place = find_counter(&counters, cell.column);
        if let Some(counter) = place.and_then(|place| counters.get_mut(place)) {
            counter.add(delta, cell.timestamp_us);
        }
    }
    Ok(counters)
}

/// Where the counter of a column is.
fn find_counter(counters: &[CounterValue], column: ColumnId) -> Option<usize> {
    let found = counters.binary_search_by(|counter| {
        steps::note();
        counter.column.cmp(&column)
    });
    found.ok()
}

/// A counter while it is changed.
#[derive(Debug)]
struct CounterValue {
    column: ColumnId,
    value: i64,
    bytes: [u8; 8],
    timestamp_us: i64,
    /// Deleted since; changes at or before this are lost.
    dead_us: i64,
    is_changed: bool,
}

impl CounterValue {
    fn new(column: ColumnId, dead_us: i64) -> CounterValue {
        let timestamp_us = i64::MIN;
        CounterValue { column, value: 0, bytes: [0; 8], timestamp_us, dead_us, is_changed: false }
    }

    /// Takes a cell of the row as it is.
    fn read(&mut self, cell: &CellRef<'_>) -> Result<(), CorruptRow> {
        match cell.state {
            CellState::Value { value, .. } if cell.timestamp_us > self.dead_us => {
                let bytes = value.first_chunk::<8>().ok_or(CorruptRow)?;
                self.value = i64::from_be_bytes(*bytes);
                self.timestamp_us = cell.timestamp_us;
            }
            CellState::Value { .. } => {}
            CellState::Dead { .. } | CellState::DeletesElements { .. } => {
                self.dead_us = self.dead_us.max(cell.timestamp_us);
            }
        }
        Ok(())
    }

    fn add(&mut self, delta: i64, timestamp_us: i64) {
        if self.dead_us >= timestamp_us {
            return;
        }
        self.timestamp_us = self.timestamp_us.max(timestamp_us);
        self.value = self.value.wrapping_add(delta);
        self.bytes = self.value.to_be_bytes();
        self.is_changed = true;
    }
}

/// The sums of a change's additions to numbers and texts, in the order of its cells; `None` for other
/// cells and where there is nothing to add to.
fn added_values(
    before: &Before<'_>,
    change: &RowChange,
) -> Result<Vec<Option<Vec<u8>>>, MergeError> {
    let is_added = |cell: &&CellChange| matches!(cell.action, CellAction::AddValue { .. });
    let added = change.cells.iter().filter(is_added);
    let mut currents: Vec<(ColumnId, Option<&[u8]>)> =
        added.map(|cell| (cell.column, None)).collect();
    if currents.is_empty() {
        return Ok(Vec::new());
    }
    currents.sort_unstable_by_key(|(column, _)| *column);
    currents.dedup_by_key(|(column, _)| *column);
    let place_of = |currents: &[(ColumnId, Option<&[u8]>)], column: ColumnId| {
        let found = currents.binary_search_by(|(known, _)| {
            steps::note();
            known.cmp(&column)
        });
        found.ok()
    };
    if let Some(row) = before.first_row {
        let live = LiveCells::new(row, before.first_covering_us, before.now_s);
        for found in live.hiding(before.hidden).cells() {
            let found = found?;
            let place = place_of(&currents, found.column);
            if let Some((_, current)) = place.and_then(|place| currents.get_mut(place)) {
                *current = Some(found.value());
            }
        }
    }
    let mut sums = Vec::with_capacity(change.cells.len());
    for cell in &change.cells {
        let CellAction::AddValue { cql_type, value, .. } = &cell.action else {
            sums.push(None);
            continue;
        };
        let place = place_of(&currents, cell.column);
        let current = place.and_then(|place| currents.get(place)).and_then(|(_, value)| *value);
        let sum = match current {
            Some(current) => {
                apply_arithmetic(ArithmeticOperator::Add, cql_type, current, cql_type, value)
                    .map_err(|error| Refusal::Invalid(error.to_string()))?
            }
            None => None,
        };
        sums.push(sum);
    }
    Ok(sums)
}

/// What was computed from the row as it is.
#[derive(Clone, Copy)]
struct Computed<'a> {
    counters: &'a [CounterValue],
    sums: &'a [Option<Vec<u8>>],
}

/// The cells a change writes, list positions and counters looked up.
fn resolve_cells<'a>(
    mut lists: Lists<'_, 'a>,
    change: &'a RowChange,
    computed: Computed<'a>,
    cells: &mut ChangedCells<'a>,
) -> Result<(), MergeError> {
    for counter in computed.counters.iter().filter(|counter| counter.is_changed) {
        cells.push(CellRef {
            column: counter.column,
            path: None,
            timestamp_us: counter.timestamp_us,
            state: CellState::Value { value: &counter.bytes, expiry: None },
        });
    }
    for (place, cell) in change.cells.iter().enumerate() {
        let (column, timestamp_us) = (cell.column, cell.timestamp_us);
        let (path, state) = match &cell.action {
            CellAction::Set { path, value, expiry } => {
                (path.as_deref(), CellState::Value { value, expiry: *expiry })
            }
            CellAction::Delete { path, deleted_at_s } => {
                (path.as_deref(), CellState::Dead { deleted_at_s: *deleted_at_s })
            }
            CellAction::DeleteElements { deleted_at_s } => {
                (None, CellState::DeletesElements { deleted_at_s: *deleted_at_s })
            }
            CellAction::CounterAdd(_) => continue,
            CellAction::AddValue { expiry, .. } => match computed.sums.get(place) {
                Some(Some(value)) => (None, CellState::Value { value, expiry: *expiry }),
                _ => continue,
            },
            CellAction::ListSetAt { index, value, expiry } => {
                let path = lists.path_at(column, *index, cells, Refusal::ListIsNull)?;
                (Some(path), CellState::Value { value, expiry: *expiry })
            }
            CellAction::ListDeleteAt { index, deleted_at_s } => {
                let path = lists.path_at(column, *index, cells, Refusal::ListToDeleteFromIsNull)?;
                (Some(path), CellState::Dead { deleted_at_s: *deleted_at_s })
            }
            CellAction::ListRemoveValues { values, deleted_at_s } => {
                for path in lists.paths_with(column, values, timestamp_us, cells)? {
                    let state = CellState::Dead { deleted_at_s: *deleted_at_s };
                    let removed = CellRef { column, path, timestamp_us, state };
                    lists.note(&removed);
                    cells.push(removed);
                }
                continue;
            }
        };
        let written = CellRef { column, path, timestamp_us, state };
        lists.note(&written);
        cells.push(written);
    }
    Ok(())
}
