//! From rows as they are read to the rows of a result: filters, limits, pages, groups, order.

use bytes::Bytes;

use plan::expression::Evaluation;
use plan::select::{Accumulator, Copied, Projection, ProjectionScratch};
use plan::{Partitions, PlanError, SelectPlan, StoredRow};
use schema::{Ruler, Table};
use types::{CorruptRow, Flow, LiveRow, PartitionKey, ReadPosition, RowSink, SetId};

use crate::coordinator::{Bounds, FREE_RESULT_BYTES, OutOfBounds};
use crate::error::ExecuteError;
use crate::meter::Meter;
use crate::page_state::PageState;
use crate::rows::RowsBody;
use crate::sort::Sorter;

/// A page ends when its values take this much, however many rows were asked for.
pub(crate) const PAGE_BYTES_MAX: usize = 8 << 20;

/// Where a second row comes, there are mostly more: room for some of them at once.
const SECOND_ROW_BYTES: usize = 4 * 1024;

/// Takes the rows of a read and makes the rows of a result.
pub(crate) struct Collector<'a, 'p> {
    plan: &'a SelectPlan<'p>,
    evaluation: Evaluation<'a>,
    bounds: &'a dyn Bounds,
    body: RowsBody,
    /// The result takes no more than this before leave is asked for.
    granted_bytes: usize,
    /// Rows that are still allowed by LIMIT; groups under GROUP BY.
    limit_left: Option<u32>,
    page_left: Option<u32>,
    /// How many rows (or groups) of the current logical partition are in the result.
    partition_count: u32,
    current_key: Option<PartitionKey>,
    /// The last row that counts as returned.
    last: Option<ReadPosition>,
    groups: Option<Groups<'a>>,
    /// Where no more is to be done with a row than to copy its values.
    projection: Option<&'a Projection>,
    scratch: ProjectionScratch,
    /// With a sort: each row's order and its place in the body.
    sorter: Sorter,
    stopped: Option<Stop>,
    failure: Option<PlanError>,
    /// Counts the work, where it is charged.
    pub(crate) meter: Option<Meter>,
}

/// Why no more rows are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    LimitReached,
    PageFull,
    OutOfBounds(OutOfBounds),
    Failed,
}

/// The group that is being gathered.
struct Groups<'a> {
    accumulator: Accumulator<'a>,
    key: Vec<u8>,
    /// Reused for the key of the row that is looked at.
    next_key: Vec<u8>,
    has_rows: bool,
    /// With a sort: the order of its first row.
    sort_key: Vec<u8>,
    /// The last row that went into the group.
    last: Option<ReadPosition>,
}

impl<'a, 'p> Collector<'a, 'p> {
    pub(crate) fn new(
        plan: &'a SelectPlan<'p>,
        resume: Option<&PageState>,
        bounds: &'a dyn Bounds,
        meter: Option<Meter>,
    ) -> Collector<'a, 'p> {
        let groups = plan.selection.is_grouped().then(|| Groups {
            accumulator: plan.selection.accumulator(),
            key: Vec::new(),
            next_key: Vec::new(),
            has_rows: false,
            sort_key: Vec::new(),
            last: None,
        });
        // An aggregate over everything is one row, however many it reads: it has no pages.
        let is_single_row = groups.is_some() && plan.grouping.is_none();
        // As in Cassandra, groups of DISTINCT rows come in one piece.
        let is_whole = plan.sort.is_some() || (plan.distinct && plan.grouping.is_some());
        let limit_left = resume.map_or(plan.limit, |state| state.limit_left);
        let is_plain = plan.filters.is_empty() && plan.sort.is_none() && groups.is_none();
        let mut collector = Collector {
            projection: plan.projection.filter(|_| is_plain),
            scratch: ProjectionScratch::default(),
            plan,
            evaluation: plan.evaluation,
            bounds,
            body: RowsBody::with_room(),
            granted_bytes: FREE_RESULT_BYTES,
            limit_left: if is_single_row { None } else { limit_left },
            page_left: if is_single_row || is_whole { None } else { plan.page_size },
            partition_count: resume.map_or(0, |state| state.partition_count),
            current_key: resume.map(|state| state.position.key.clone()),
            last: None,
            groups,
            sorter: Sorter::default(),
            stopped: None,
            failure: None,
            meter,
        };
        if collector.limit_left == Some(0) {
            collector.stopped = Some(Stop::LimitReached);
        }
        collector
    }

    /// What the physical partition that was entered last cost so far.
    pub(crate) fn last_charge(&self) -> units::Charge {
        self.meter.as_ref().map_or(units::rules::LEAST, Meter::last_charge)
    }

    /// Told before each physical partition that is read.
    pub(crate) fn enter_physical(&mut self, set: Option<SetId>) {
        if let Some(meter) = &mut self.meter {
            meter.enter_physical(set);
        }
    }

    /// Told after the last row of each key or range of the plan.
    pub(crate) fn leave_scope(&mut self, is_resumed: bool) {
        let is_cut_short = is_resumed || self.is_done();
        if let Some(meter) = &mut self.meter {
            meter.leave_scope(is_cut_short);
        }
    }

    /// Whether reading on would change nothing.
    pub(crate) fn is_done(&self) -> bool {
        self.stopped.is_some()
    }

    /// The rows, and where the next page begins. Asked once; it is not consumed, because to move it costs more
    /// than a small read may.
    pub(crate) fn finish(&mut self) -> Result<(RowsBody, Option<PageState>), ExecuteError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        if let Some(Stop::OutOfBounds(bound)) = self.stopped {
            return Err(self.out_of_bounds(bound));
        }
        if self.stopped.is_none() {
            let has_open_group = self.groups.as_ref().is_some_and(|groups| groups.has_rows);
            let is_single_row = self.groups.is_some() && self.plan.grouping.is_none();
            if is_single_row {
                self.close_group()?;
            } else if has_open_group {
                // As with rows, a page that is just full is not known to be the last one.
                let counted = self.partition_count;
                self.close_group_in_read(true, counted)?;
            }
        }
        if self.plan.sort.is_some() {
            self.sort_rows()?;
        }
        let next = match (self.stopped, self.last.take()) {
            (Some(Stop::PageFull), Some(position))
                if self.limit_left != Some(0) && !self.is_exhausted(&position) =>
            {
                Some(PageState {
                    position,
                    limit_left: self.limit_left,
                    partition_count: self.partition_count,
                })
            }
            _ => None,
        };
        Ok((std::mem::take(&mut self.body), next))
    }

    /// Whether nothing can come after a position. Where it may, there is a next page, even if that
    /// turns out to be empty: Cassandra's clients count on just the same pages.
    fn is_exhausted(&self, position: &ReadPosition) -> bool {
        let last = match &self.plan.partitions {
            Partitions::Key(key) => Some(key),
            Partitions::Keys(keys) => keys.last(),
            Partitions::Ring(_) => None,
        };
        let is_partition_done = position.clustering.as_ref().is_none_or(Bytes::is_empty)
            || self.plan.per_partition_limit.is_some_and(|limit| self.partition_count >= limit);
        is_partition_done && last == Some(&position.key)
    }

    /// Puts the rows into the order that was asked for, and keeps as many as LIMIT allows.
    fn sort_rows(&mut self) -> Result<(), ExecuteError> {
        let limit = self.plan.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut bytes = Vec::with_capacity(self.body.bytes.len());
        let mut row_count = 0;
        let mut over = None;
        std::mem::take(&mut self.sorter).merge(
            limit,
            |range| {
                bytes.extend_from_slice(self.body.bytes.get(range).unwrap_or_default());
                row_count += 1;
            },
            || {
                over = self.bounds.go_on().err();
                over.is_none()
            },
        );
        if let Some(bound) = over {
            self.stopped = Some(Stop::OutOfBounds(bound));
            return Err(self.out_of_bounds(bound));
        }
        self.body = RowsBody { bytes, row_count };
        Ok(())
    }

    fn out_of_bounds(&self, bound: OutOfBounds) -> ExecuteError {
        match bound {
            OutOfBounds::TimedOut => ExecuteError::ReadTimedOut,
            OutOfBounds::TooLong => ExecuteError::TooLong,
            OutOfBounds::TooLarge(bytes_max) => {
                let table = format!("{}.{}", self.plan.table.keyspace, self.plan.table.name);
                ExecuteError::ResultTooLarge { table, bytes_max }
            }
            OutOfBounds::Crowded => ExecuteError::Crowded,
        }
    }

    /// Whether the read is to begin anew elsewhere, so that nothing of it counts.
    pub(crate) fn begins_anew(&self) -> bool {
        self.stopped == Some(Stop::OutOfBounds(OutOfBounds::TooLong))
    }

    fn held_bytes(&self) -> usize {
        self.body.bytes.len() + self.sorter.bytes()
    }

    /// Asks for leave to grow, behind a row that was taken.
    #[cold]
    fn ask_to_grow(&mut self, live: &LiveRow<'_>, flow: Flow) -> Flow {
        let refused = match self.bounds.grow(self.held_bytes()) {
            Ok(bytes) => {
                self.granted_bytes = bytes;
                return flow;
            }
            Err(refused) => refused,
        };
        let has_pages = self.page_left.is_some() && self.groups.is_none();
        self.stopped = Some(match refused {
            // A page is as long as there is memory for it.
            OutOfBounds::TooLarge(_) | OutOfBounds::Crowded if has_pages => {
                self.last = Some(position_of(live, self.plan.distinct));
                Stop::PageFull
            }
            refused => Stop::OutOfBounds(refused),
        });
        Flow::Stop
    }

    /// Copies the values of a row; `None` where that is not all.
    fn copy(&mut self, live: &LiveRow<'_>) -> Result<Option<Flow>, CorruptRow> {
        let Some(projection) = self.projection else { return Ok(None) };
        if let Some(limit) = self.plan.per_partition_limit {
            self.enter_partition(live);
            if self.partition_count >= limit {
                return Ok(Some(Flow::NextPartition));
            }
        }
        if self.body.row_count == 1 {
            self.body.bytes.reserve(SECOND_ROW_BYTES);
        }
        let ruler = self.meter.as_ref().and_then(|meter| meter.ruler_for(live, self.plan.table));
        let copied = projection.write(live, ruler, &mut self.scratch, &mut self.body)?;
        let Copied::Row { value_bytes } = copied else { return Ok(None) };
        if let Some(meter) = &mut self.meter {
            meter.on_row(live, ruler, value_bytes);
        }
        self.body.row_count += 1;
        self.partition_count += 1;
        Ok(Some(self.count_down(|| position_of(live, self.plan.distinct))))
    }

    fn take(&mut self, live: &LiveRow<'_>) -> Result<Result<Flow, PlanError>, CorruptRow> {
        if let Some(flow) = self.copy(live)? {
            return Ok(Ok(flow));
        }
        if let Some(meter) = &mut self.meter {
            let ruler = meter.ruler_for(live, self.plan.table);
            let value_bytes = ruler.map_or(Ok(0), |ruler| value_bytes(live, ruler))?;
            meter.on_row(live, ruler, value_bytes);
        }
        let row = StoredRow::new(self.plan.layout, live)?;
        if !self.plan.filters.accepts(&row) {
            return Ok(Ok(Flow::Continue));
        }
        if self.plan.per_partition_limit.is_some() {
            self.enter_partition(live);
        }
        Ok(if self.groups.is_some() {
            self.take_grouped(live, &row)
        } else {
            self.take_row(live, &row)
        })
    }

    /// Starts counting anew when a row is of another logical partition than the one before.
    fn enter_partition(&mut self, live: &LiveRow<'_>) {
        let is_same = self
            .current_key
            .as_ref()
            .is_some_and(|key| key.ring() == live.ring && key.bytes() == live.partition_key);
        if !is_same {
            let key =
                PartitionKey::from_parts(Bytes::copy_from_slice(live.partition_key), live.ring);
            self.current_key = Some(key);
            self.partition_count = 0;
        }
    }

    fn take_row(&mut self, live: &LiveRow<'_>, row: &StoredRow<'_>) -> Result<Flow, PlanError> {
        if self.plan.per_partition_limit.is_some_and(|limit| self.partition_count >= limit) {
            return Ok(Flow::NextPartition);
        }
        let start = self.body.bytes.len();
        self.plan.selection.evaluate(row, &self.evaluation, &mut self.body)?;
        self.body.row_count += 1;
        self.partition_count += 1;
        if let Some(sort) = self.plan.sort {
            let mut key = Vec::new();
            sort.key(row, &mut key);
            self.sorter.push(&key, start..self.body.bytes.len());
            return Ok(self.next_flow());
        }
        Ok(self.count_down(|| position_of(live, self.plan.distinct)))
    }

    fn next_flow(&self) -> Flow {
        let is_partition_full =
            self.plan.per_partition_limit.is_some_and(|limit| self.partition_count >= limit);
        if self.plan.distinct || is_partition_full { Flow::NextPartition } else { Flow::Continue }
    }

    /// Counts a row of the result that ends at `position`.
    fn count_down(&mut self, position: impl FnOnce() -> ReadPosition) -> Flow {
        if let Some(left) = &mut self.limit_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.stopped = Some(Stop::LimitReached);
                return Flow::Stop;
            }
        }
        if let Some(left) = &mut self.page_left {
            *left = left.saturating_sub(1);
            if *left == 0 || self.body.bytes.len() >= PAGE_BYTES_MAX {
                self.last = Some(position());
                self.stopped = Some(Stop::PageFull);
                return Flow::Stop;
            }
        }
        self.next_flow()
    }

    fn take_grouped(&mut self, live: &LiveRow<'_>, row: &StoredRow<'_>) -> Result<Flow, PlanError> {
        let Some(groups) = &mut self.groups else { return Ok(Flow::Continue) };
        if let Some(grouping) = self.plan.grouping {
            groups.next_key.clear();
            grouping.key(row, &self.evaluation, &mut groups.next_key)?;
            if groups.has_rows && groups.next_key != groups.key {
                let ended_in_this_partition = groups
                    .last
                    .as_ref()
                    .is_some_and(|position| position.key.bytes() == live.partition_key);
                // `enter_partition` has already moved on: the closed group counts where it was.
                let counted = self.partition_count;
                self.close_group_in_read(ended_in_this_partition, counted)?;
                if self.is_done() {
                    return Ok(Flow::Stop);
                }
            }
            let is_partition_full =
                self.plan.per_partition_limit.is_some_and(|limit| self.partition_count >= limit);
            if is_partition_full {
                return Ok(Flow::NextPartition);
            }
        }
        let Some(groups) = &mut self.groups else { return Ok(Flow::Continue) };
        if !groups.has_rows {
            std::mem::swap(&mut groups.key, &mut groups.next_key);
            groups.has_rows = true;
            if let Some(sort) = self.plan.sort {
                groups.sort_key.clear();
                sort.key(row, &mut groups.sort_key);
            }
        }
        groups.accumulator.add(row, &self.evaluation)?;
        groups.last = Some(position_of(live, self.plan.distinct));
        Ok(if self.plan.distinct { Flow::NextPartition } else { Flow::Continue })
    }

    fn close_group_in_read(&mut self, in_partition: bool, counted: u32) -> Result<(), PlanError> {
        self.close_group()?;
        self.partition_count = if in_partition { counted + 1 } else { 0 };
        let last = self.groups.as_mut().and_then(|groups| groups.last.take());
        if let Some(last) = last
            && self.plan.sort.is_none()
        {
            self.count_down(move || last);
        }
        Ok(())
    }

    /// Writes the row of the current group and forgets the group.
    fn close_group(&mut self) -> Result<(), PlanError> {
        let start = self.body.bytes.len();
        if let Some(groups) = &mut self.groups {
            groups.accumulator.finish(&self.evaluation, &mut self.body)?;
            groups.accumulator.reset();
            groups.has_rows = false;
            self.body.row_count += 1;
            if self.plan.sort.is_some() {
                self.sorter.push(&groups.sort_key, start..self.body.bytes.len());
            }
        }
        Ok(())
    }
}

/// The size of a row for its charge: its keys and all its live values, selected or not.
pub(crate) fn row_bytes(live: &LiveRow<'_>, table: &Table) -> Result<u64, CorruptRow> {
    let ruler = Ruler { table: Some(table) };
    let clustering_bytes = live.clustering.map_or(0, |it| ruler.clustering_bytes(it));
    let key_bytes = ruler.key_bytes(live.partition_key) + clustering_bytes;
    Ok(value_bytes(live, ruler)? + key_bytes as u64)
}

/// The size of the live values of a row, selected or not.
fn value_bytes(live: &LiveRow<'_>, ruler: Ruler<'_>) -> Result<u64, CorruptRow> {
    let mut bytes = 0;
    for cells in [live.static_row, live.row].into_iter().flatten() {
        for cell in cells.cells() {
            let cell = cell?;
            bytes += ruler.cell_bytes(&cell) as u64 + cells.view().spilled_bytes(&cell)?;
        }
    }
    Ok(bytes)
}

fn position_of(live: &LiveRow<'_>, distinct: bool) -> ReadPosition {
    ReadPosition {
        key: PartitionKey::from_parts(Bytes::copy_from_slice(live.partition_key), live.ring),
        clustering: if distinct { None } else { live.clustering.map(Bytes::copy_from_slice) },
    }
}

impl RowSink for Collector<'_, '_> {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        if self.is_done() {
            return Ok(Flow::Stop);
        }
        match self.take(row)? {
            Ok(flow) if self.held_bytes() > self.granted_bytes && !self.is_done() => {
                Ok(self.ask_to_grow(row, flow))
            }
            Ok(flow) => Ok(flow),
            Err(failure) => {
                self.failure = Some(failure);
                self.stopped = Some(Stop::Failed);
                Ok(Flow::Stop)
            }
        }
    }

    fn go_on(&mut self) -> bool {
        if let Err(bound) = self.bounds.go_on() {
            self.stopped = Some(Stop::OutOfBounds(bound));
        }
        !self.is_done()
    }

    fn on_entries(&mut self, count: u64) {
        if let Some(meter) = &mut self.meter {
            meter.on_entries(count);
        }
    }
}
