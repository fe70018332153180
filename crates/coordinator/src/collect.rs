//! From rows as they are read to the rows of a result: filters, limits, pages, groups, order.

use bytes::Bytes;

use plan::expression::Evaluation;
use plan::select::{Accumulator, Copied, Projection, ProjectionScratch};
use plan::{LogicalPartitions, PlanError, SelectPlan, StoredRow};
use schema::{Ruler, Table};
use types::{CorruptRow, Flow, LiveRow, PartitionKey, ReadPosition, ReadScope, RowSink, SetId};

use crate::error::ExecuteError;
use crate::meter::Meter;
use crate::page_state::PageState;
use crate::request::{Bounds, FREE_RESULT_BYTES, OutOfBounds};
use crate::resume::{Resume, mark_of};
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
    remaining: Option<u32>,
    page_left: Option<u32>,
    /// How many rows (or groups) of the current logical partition are in the result.
    logical_count: u32,
    /// The logical partition before, whose last group may still be open.
    earlier: Option<Earlier>,
    current_key: Option<PartitionKey>,
    /// While the current logical partition is the one that an earlier page began, perhaps under
    /// another PER PARTITION LIMIT.
    begun: Option<Begun>,
    /// The logical partition that a state names without a row of it, and what the state says is left of it. It
    /// bounds what comes after this page, and not the page itself.
    carried: Option<(PartitionKey, Option<u32>)>,
    /// Rows of that one that were looked at beyond the limit of this statement. Cassandra counts them
    /// as rows of the page, and so do we: clients that change the statement between pages get the same
    /// ones.
    beyond: u32,
    is_page_cut: bool,
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

/// A logical partition that an earlier page began.
struct Begun {
    /// So many of its rows may still be looked at, as the paging state says.
    left: Option<u32>,
}

/// A logical partition that was left while its last group was open.
struct Earlier {
    key: PartitionKey,
    /// How many of its groups are in the result.
    count: u32,
    begun: Option<Begun>,
}

/// Why no more rows are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    LimitReached,
    PageFull,
    /// As many rows were looked at as the page may have, and fewer returned: nothing comes after.
    PageSpent,
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
        resume: Option<&Resume>,
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
        let limit = if is_single_row { None } else { plan.limit };
        let remaining = resume.map_or(limit, |resume| resume.remaining);
        let pages = if is_single_row || is_whole { None } else { plan.page_size };
        let half_done = resume.and_then(|resume| {
            let after = resume.after.as_ref().filter(|after| after.clustering.is_some())?;
            Some((after.key.clone(), Begun { left: resume.left_in_logical }))
        });
        let (current_key, begun) = half_done.unzip();
        let carried = resume.filter(|resume| resume.after.is_none()).and_then(|resume| {
            let Some(ReadScope::Partition(key)) = resume.scopes.first() else { return None };
            Some((key.clone(), resume.left_in_logical))
        });
        let is_plain = plan.filters.is_empty() && plan.sort.is_none() && groups.is_none();
        let mut collector = Collector {
            projection: plan.projection.filter(|_| is_plain),
            scratch: ProjectionScratch::default(),
            plan,
            evaluation: plan.evaluation,
            bounds,
            body: RowsBody::with_room(),
            granted_bytes: FREE_RESULT_BYTES,
            remaining,
            page_left: pages.map(|page| remaining.map_or(page, |rows| rows.min(page))),
            logical_count: 0,
            earlier: None,
            current_key,
            begun,
            carried,
            beyond: 0,
            is_page_cut: false,
            last: None,
            groups,
            sorter: Sorter::default(),
            stopped: None,
            failure: None,
            meter,
        };
        if collector.remaining == Some(0) {
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
    /// Tombstones that were met so far.
    pub(crate) fn tombstone_count(&self) -> u64 {
        self.scratch.tombstone_count
    }

    pub(crate) fn finish(&mut self) -> Result<(RowsBody, Option<PageState>), ExecuteError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        if let Some(Stop::OutOfBounds(bound)) = self.stopped {
            return Err(self.out_of_bounds(bound));
        }
        let is_single_row = self.groups.is_some() && self.plan.grouping.is_none();
        if is_single_row && matches!(self.stopped, None | Some(Stop::LimitReached)) {
            self.close_group()?;
        } else if self.stopped.is_none() {
            let has_open_group = self.groups.as_ref().is_some_and(|groups| groups.has_rows);
            if has_open_group {
                // As with rows, a page that is just full is not known to be the last one.
                self.close_group_in_read(true)?;
            }
        }
        if self.plan.sort.is_some() {
            self.sort_rows()?;
        }
        let next = match (self.stopped, self.last.take()) {
            (Some(Stop::PageFull), Some(position)) if self.remaining != Some(0) => {
                self.next_page(position)?
            }
            _ => None,
        };
        Ok((std::mem::take(&mut self.body), next))
    }

    /// How many rows of a logical partition the statement returns.
    fn per_partition_limit(&self) -> Option<u32> {
        if self.plan.distinct { Some(1) } else { self.plan.per_partition_limit }
    }

    /// What comes after a position. Where something may, there is a next page, even if that turns out
    /// to be empty: Cassandra's clients count on just the same pages.
    fn next_page(&self, position: ReadPosition) -> Result<Option<PageState>, CorruptRow> {
        let (begun, count) = match &self.earlier {
            Some(earlier) if earlier.key == position.key => (&earlier.begun, earlier.count),
            _ => (&self.begun, self.logical_count),
        };
        let limit = match (begun, &self.carried) {
            (Some(begun), _) => begun.left,
            // Below zero Cassandra refuses the state that it gave; then nothing more is counted here.
            (None, Some((key, left))) if *key == position.key => left.filter(|left| *left >= count),
            (None, _) => self.per_partition_limit(),
        };
        let table = self.plan.table;
        let (mark, left_in_logical) = match &position.clustering {
            Some(clustering) if table.clustering_count > 0 => {
                let left = limit.map(|limit| limit.saturating_sub(count));
                (Some(mark_of(table, clustering)?), left)
            }
            _ => (None, Some(0)),
        };
        let is_done = left_in_logical == Some(0);
        let (remaining, is_cut) = (self.remaining, self.is_page_cut);
        let here = |key| PageState { key, mark, remaining, left_in_logical, is_cut };
        Ok(match &self.plan.partitions {
            LogicalPartitions::Key(_) if is_done => None,
            LogicalPartitions::Key(_) => Some(here(None)),
            LogicalPartitions::Keys(keys) if is_done => {
                let mut keys = keys.iter().skip_while(|key| **key != position.key);
                keys.nth(1).map(|key| PageState {
                    key: Some(key.bytes().clone()),
                    mark: None,
                    remaining,
                    left_in_logical: self.per_partition_limit(),
                    is_cut,
                })
            }
            LogicalPartitions::Keys(_) | LogicalPartitions::Ring(_) => {
                Some(here(Some(position.key.bytes().clone())))
            }
        })
    }

    /// Puts the rows into the order that was asked for, and keeps as many as LIMIT allows.
    fn sort_rows(&mut self) -> Result<(), ExecuteError> {
        let limit = self.remaining.map_or(usize::MAX, |limit| limit as usize);
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
                self.last = Some(position_of(live));
                self.is_page_cut = true;
                Stop::PageFull
            }
            refused => Stop::OutOfBounds(refused),
        });
        Flow::Stop
    }

    /// Copies the values of a row; `None` where that is not all.
    fn copy(&mut self, live: &LiveRow<'_>) -> Result<Option<Flow>, CorruptRow> {
        let Some(projection) = self.projection else { return Ok(None) };
        if let Some(flow) = self.beyond_limit(live) {
            return Ok(Some(flow));
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
        self.logical_count += 1;
        Ok(Some(self.count_down(|| position_of(live))))
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
        if let Some(cells) = live.row
            && !cells.each_plain(|_, _| {})?
        {
            self.scratch.tombstone_count += cells.tombstone_count()?;
        }
        let row = StoredRow::new(self.plan.layout, live)?;
        if !self.plan.filters.accepts(&row) {
            return Ok(Ok(Flow::Continue));
        }
        Ok(if self.groups.is_some() {
            if self.counts_logical() {
                self.enter_logical(live);
            }
            self.take_grouped(live, &row)
        } else {
            self.take_row(live, &row)
        })
    }

    /// Whether it matters of which logical partition a row is.
    fn counts_logical(&self) -> bool {
        self.plan.per_partition_limit.is_some() || self.begun.is_some()
    }

    /// How the read goes on where a row is beyond what its logical partition may bring.
    fn beyond_limit(&mut self, live: &LiveRow<'_>) -> Option<Flow> {
        if !self.counts_logical() {
            return None;
        }
        self.enter_logical(live);
        if self.is_logical_full() {
            return Some(Flow::NextPartition);
        }
        let limit = self.per_partition_limit();
        if self.begun.is_none() || limit.is_none_or(|limit| self.logical_count < limit) {
            return None;
        }
        self.beyond += 1;
        Some(self.flow_when_spent().unwrap_or(Flow::Continue))
    }

    /// How the read goes on where the rows that were looked at in vain leave no room in the page.
    fn flow_when_spent(&mut self) -> Option<Flow> {
        if self.beyond == 0 || self.page_left.is_none_or(|left| self.beyond < left) {
            return None;
        }
        // Each of several keys has a page of its own: what is left of the whole.
        if matches!(self.plan.partitions, LogicalPartitions::Keys(_)) {
            return Some(Flow::NextPartition);
        }
        self.stopped = Some(Stop::PageSpent);
        Some(Flow::Stop)
    }

    /// Whether no more rows of the current logical partition are looked at. Asked only where they are
    /// counted.
    fn is_logical_full(&self) -> bool {
        let (limit, count) = match &self.begun {
            Some(begun) => (begun.left, self.logical_count + self.beyond),
            None => (self.plan.per_partition_limit, self.logical_count),
        };
        limit.is_some_and(|limit| count >= limit)
    }

    /// Starts counting anew when a row is of another logical partition than the one before.
    fn enter_logical(&mut self, live: &LiveRow<'_>) {
        let is_same = self
            .current_key
            .as_ref()
            .is_some_and(|key| key.ring() == live.ring && key.bytes() == live.partition_key);
        if !is_same {
            let key =
                PartitionKey::from_parts(Bytes::copy_from_slice(live.partition_key), live.ring);
            let (count, begun) = (self.logical_count, self.begun.take());
            self.earlier = self.current_key.replace(key).map(|key| Earlier { key, count, begun });
            self.logical_count = 0;
            if matches!(self.plan.partitions, LogicalPartitions::Keys(_)) {
                self.beyond = 0;
            }
        }
    }

    fn take_row(&mut self, live: &LiveRow<'_>, row: &StoredRow<'_>) -> Result<Flow, PlanError> {
        if let Some(flow) = self.beyond_limit(live) {
            return Ok(flow);
        }
        let start = self.body.bytes.len();
        self.plan.selection.evaluate(row, &self.evaluation, &mut self.body)?;
        self.body.row_count += 1;
        self.logical_count += 1;
        if let Some(sort) = self.plan.sort {
            let mut key = Vec::new();
            sort.key(row, &mut key);
            self.sorter.push(&key, start..self.body.bytes.len());
            return Ok(self.next_flow());
        }
        Ok(self.count_down(|| position_of(live)))
    }

    fn next_flow(&self) -> Flow {
        let is_full = match self.counts_logical() {
            true => self.is_logical_full(),
            false => self.plan.distinct,
        };
        if is_full { Flow::NextPartition } else { Flow::Continue }
    }

    /// Counts a row of the result that ends at `position`.
    fn count_down(&mut self, position: impl FnOnce() -> ReadPosition) -> Flow {
        if let Some(left) = &mut self.remaining {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.stopped = Some(Stop::LimitReached);
                return Flow::Stop;
            }
        }
        if let Some(left) = &mut self.page_left {
            *left = left.saturating_sub(1);
            let is_full = *left == 0;
            if is_full || self.body.bytes.len() >= PAGE_BYTES_MAX {
                self.last = Some(position());
                self.stopped = Some(Stop::PageFull);
                self.is_page_cut = !is_full;
                return Flow::Stop;
            }
        }
        self.flow_when_spent().unwrap_or_else(|| self.next_flow())
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
                self.close_group_in_read(ended_in_this_partition)?;
                if self.is_done() {
                    return Ok(Flow::Stop);
                }
            }
            let limit = self.per_partition_limit().filter(|_| !self.plan.distinct);
            let is_over = limit.is_some_and(|limit| self.logical_count >= limit);
            if is_over || (self.counts_logical() && self.is_logical_full()) {
                return Ok(Flow::NextPartition);
            }
        }
        if self.plan.grouping.is_none() && self.begun.is_some() {
            if self.is_logical_full() {
                return Ok(Flow::NextPartition);
            }
            self.logical_count += 1;
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
        groups.last = Some(position_of(live));
        // An aggregate over everything counts rows where a paging state says how many are left.
        if self.plan.grouping.is_none()
            && let Some(left) = &mut self.remaining
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.stopped = Some(Stop::LimitReached);
                return Ok(Flow::Stop);
            }
        }
        Ok(if self.plan.distinct { Flow::NextPartition } else { Flow::Continue })
    }

    /// Closes a group behind which the read goes on, in the same logical partition or in the next one.
    fn close_group_in_read(&mut self, left_in_logical: bool) -> Result<(), PlanError> {
        self.close_group()?;
        if left_in_logical {
            self.logical_count += 1;
        }
        let last = self.groups.as_mut().and_then(|groups| groups.last.take());
        // `enter_logical` has moved on already; the group counts where it was.
        if let (false, Some(earlier)) = (left_in_logical, &mut self.earlier) {
            earlier.count += 1;
        }
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
            // A paging state may leave room for more groups than LIMIT; each page is cut to it, as in Cassandra.
            if self.plan.sort.is_none()
                && self.plan.limit.is_some_and(|limit| self.body.row_count >= limit)
            {
                self.body.bytes.truncate(start);
                return Ok(());
            }
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

fn position_of(live: &LiveRow<'_>) -> ReadPosition {
    ReadPosition {
        key: PartitionKey::from_parts(Bytes::copy_from_slice(live.partition_key), live.ring),
        clustering: live.clustering.map(Bytes::copy_from_slice),
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

    fn on_tombstones(&mut self, count: u64) {
        self.scratch.tombstone_count += count;
    }

    fn on_entries(&mut self, count: u64) {
        if let Some(meter) = &mut self.meter {
            meter.on_entries(count);
        }
    }
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
