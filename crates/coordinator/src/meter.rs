//! Counting what a read does, for its charge.

use plan::{LogicalPartitions, SelectPlan};
use schema::{KeyShape, Ruler, Table};
use smallvec::SmallVec;
use types::{LiveCells, LiveRow, RowSelection, SetId};
use units::{Charge, Work};

use crate::rows::RowsBody;

/// Rows stored in no more bytes than this all cost the same when they are read by key, so that they are not measured.
const SMALL_ROW_BYTES: usize = 1024;

/// Counts the work of one read, or of one page of it.
#[derive(Debug)]
pub(crate) struct Meter {
    work: Work,
    /// Rows asked for by their whole keys in each logical partition; `None` for a query.
    points: Option<u64>,
    /// How many of these were found in the current logical partition.
    found: u64,
    key_shape: KeyShape,
    /// What the request cost when each set was entered.
    entered: SmallVec<[(SetId, Charge); 1]>,
}

/// How many rows a plan reads of each key by their whole keys; `None` if it is a query.
pub(crate) fn points_of(plan: &SelectPlan<'_>) -> Option<u64> {
    let is_by_key = !matches!(plan.partitions, LogicalPartitions::Ring(_));
    let points = match &plan.rows {
        RowSelection::Points(points) => Some(points.len() as u64),
        RowSelection::None => Some(1),
        RowSelection::All if plan.table.clustering_count == 0 => Some(1),
        RowSelection::All | RowSelection::Ranges(_) => None,
    };
    points.filter(|_| is_by_key)
}

impl Meter {
    /// `work`: what the request did so far.
    pub(crate) fn new(plan: &SelectPlan<'_>, work: Work) -> Meter {
        let key_shape = KeyShape::new(Some(plan.table));
        Meter { work, points: points_of(plan), found: 0, key_shape, entered: SmallVec::new() }
    }

    /// A physical partition is read next.
    pub(crate) fn enter_physical(&mut self, set: Option<SetId>) {
        if let Some(set) = set {
            self.entered.push((set, self.work.charge_so_far()));
        }
        if self.points.is_none() {
            self.work.query_partition_count += 1;
        }
    }

    /// What the set that was entered last cost so far; at least what looking for a row costs.
    pub(crate) fn last_charge(&self) -> Charge {
        let start = self.entered.last().map_or(Charge::ZERO, |(_, start)| *start);
        self.work.charge_so_far().less(start).at_least(units::rules::LEAST)
    }

    /// What a row is to be measured with; `None` where its size does not matter, because rows up to
    /// the first step of the table of point reads cost the same.
    #[inline]
    pub(crate) fn ruler_for<'t>(&self, live: &LiveRow<'_>, table: &'t Table) -> Option<Ruler<'t>> {
        let kept_bytes = |cells: &LiveCells<'_>| match cells.view().has_spilled() {
            true => usize::MAX,
            false => cells.view().cell_bytes(),
        };
        let own_bytes = live.partition_key.len() + live.clustering.map_or(0, <[u8]>::len);
        let is_small = self.points.is_some()
            && [live.static_row, live.row]
                .into_iter()
                .flatten()
                .fold(own_bytes, |bytes, cells| bytes.saturating_add(kept_bytes(cells)))
                <= SMALL_ROW_BYTES;
        (!is_small).then_some(Ruler { table: Some(table) })
    }

    /// A live row was looked at. `ruler`: as [`Meter::ruler_for`] gave it.
    #[inline]
    pub(crate) fn on_row(
        &mut self,
        live: &LiveRow<'_>,
        ruler: Option<Ruler<'_>>,
        value_bytes: u64,
    ) {
        let row_bytes = ruler.map_or(0, |ruler| {
            let shape = &self.key_shape;
            let key_bytes = shape.key_bytes(live.partition_key, || ruler);
            let clustering_bytes =
                live.clustering.map_or(0, |it| shape.clustering_bytes(it, || ruler));
            value_bytes + (key_bytes + clustering_bytes) as u64
        });
        if self.points.is_some() {
            self.found += 1;
            self.work.read_point(row_bytes);
        } else {
            self.work.scan_row(row_bytes);
        }
    }

    /// Entries of a secondary index were followed.
    pub(crate) fn on_entries(&mut self, count: u64) {
        self.work.index_entry_count += count;
    }

    /// All rows of a key were seen, or no more are wanted. What was asked for and is not there was
    /// looked for all the same.
    pub(crate) fn leave_scope(&mut self, is_cut_short: bool) {
        if let Some(points) = self.points
            && !is_cut_short
        {
            (self.found..points).for_each(|_| self.work.read_point(0));
        }
        self.found = 0;
    }

    /// Everything the request did, with what it returns; `None` when it failed.
    pub(crate) fn finish(&mut self, body: Option<&RowsBody>) -> Work {
        if let (None, Some(body)) = (self.points, body) {
            self.work.returned_row_count += u64::from(body.row_count);
            self.work.returned_bytes += body.bytes.len() as u64;
        }
        self.work
    }

    /// What a set cost, of what the whole request did.
    pub(crate) fn charge_of(&self, set: SetId) -> Charge {
        let ends = self.entered.iter().skip(1).map(|(_, charge)| *charge);
        let ends = ends.chain([units::charge(&self.work)]);
        let of_set = |((entered, start), end): (&(SetId, Charge), Charge)| {
            (*entered == set).then(|| end.less(*start))
        };
        self.entered.iter().zip(ends).filter_map(of_set).sum()
    }
}
