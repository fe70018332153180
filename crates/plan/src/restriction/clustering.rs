//! Which rows of a logical partition, as ranges of bytes.
//!
//! A restriction on one column under a known prefix is one range of bytes, whatever the column's
//! direction. A slice over several columns is a union of such ranges: `(a, b) > (1, 2)` is
//! `a > 1`, or `a = 1 and b > 2`. Where both ends are given, the two unions are intersected. So
//! mixed directions need no rule of their own.

use std::borrow::Cow;

use bytes::Bytes;
use schema::{Column, Table};
use types::key::CLUSTERING_BYTES_MAX;
use types::value::{compare, encode_ordered, is_canonical};
use types::{ClusteringRange, PartitionKey, RowSelection, successor};

use super::analysis::{Restrictions, covers};
use super::{Bound, Components, Restriction, RestrictionKind, Row};
use crate::error::{PlanError, invalid};
use crate::expression::Evaluation;

/// More rows or ranges than this in one statement are refused.
const RANGES_MAX: usize = 1 << 20;

/// A clustering key in the making.
#[derive(Clone, Default)]
struct Prefix {
    bytes: Vec<u8>,
    /// The bytes of the values themselves, which Cassandra bounds.
    value_bytes: usize,
}

impl Prefix {
    fn push(&mut self, column: &Column, value: &[u8]) {
        if self.bytes.is_empty() {
            // What a value of a fixed length takes, and mostly it stays alone: neither grown nor cut off again.
            self.bytes.reserve_exact(1 + value.len());
        }
        encode_ordered(&column.cql_type, value, column.is_descending(), &mut self.bytes);
        self.value_bytes += value.len();
    }

    /// The key, where a row may have it.
    fn finish(self) -> Result<Bytes, PlanError> {
        if self.value_bytes > PartitionKey::BYTES_MAX {
            return invalid!(
                "Key length of {} is longer than maximum of {}",
                self.value_bytes,
                PartitionKey::BYTES_MAX
            );
        }
        if self.bytes.len() > CLUSTERING_BYTES_MAX {
            return invalid!(
                "Clustering key of {} bytes is longer than the maximum of {CLUSTERING_BYTES_MAX}",
                self.bytes.len()
            );
        }
        Ok(Bytes::from(self.bytes))
    }
}

/// A clustering key, and the values as written where the key cannot give them back.
fn encode_clustering(columns: &[Column], values: &[Cow<'_, [u8]>]) -> (Prefix, Option<Bytes>) {
    let mut prefix = Prefix::default();
    let mut canonical = true;
    for (column, value) in columns.iter().zip(values) {
        prefix.push(column, value);
        canonical &= is_canonical(&column.cql_type, value);
    }
    let original = (!canonical).then(|| {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| PartitionKey::push_component(&mut bytes, value));
        Bytes::from(bytes)
    });
    (prefix, original)
}

impl Restrictions {
    /// The rows of a read.
    pub(crate) fn bind_rows(&self, eval: &Evaluation<'_>) -> Result<RowSelection, PlanError> {
        if self.clustering.is_empty() {
            return Ok(RowSelection::All);
        }
        if !self.is_column_range() {
            // No row has a key that is too long: there is nothing to find.
            let prefixes = self.bind_prefixes(eval)?.into_iter();
            let mut keys: Vec<Bytes> =
                prefixes.filter_map(|(prefix, _)| prefix.finish().ok()).collect();
            keys.sort_unstable();
            keys.dedup();
            return Ok(RowSelection::Points(keys.into()));
        }
        let ranges = self.bind_ranges(eval)?;
        match ranges.as_slice() {
            [only] if *only == ClusteringRange::ALL => Ok(RowSelection::All),
            _ => Ok(RowSelection::Ranges(ranges)),
        }
    }

    /// The clustering keys of a statement that names rows, with the values as written where the
    /// key cannot give them back. Where trailing columns are open, the keys are prefixes.
    pub(crate) fn bind_clusterings(
        &self,
        eval: &Evaluation<'_>,
    ) -> Result<Vec<(Bytes, Option<Bytes>)>, PlanError> {
        let finish = |(prefix, original): (Prefix, _)| Ok((prefix.finish()?, original));
        let mut keys: Vec<(Bytes, Option<Bytes>)> =
            self.bind_prefixes(eval)?.into_iter().map(finish).collect::<Result<_, PlanError>>()?;
        if keys.len() > 1 {
            // A row named twice is changed once.
            keys.sort_by(|(a, _), (b, _)| a.cmp(b));
            keys.dedup_by(|(a, _), (b, _)| a == b);
        }
        Ok(keys)
    }

    fn bind_prefixes(
        &self,
        eval: &Evaluation<'_>,
    ) -> Result<Vec<(Prefix, Option<Bytes>)>, PlanError> {
        if let Some(only) = self.bind_one_clustering(eval)? {
            return Ok(vec![(only, None)]);
        }
        let mut rows: Vec<Vec<Cow<'_, [u8]>>> = vec![Vec::new()];
        for restriction in self.clustering.iter() {
            let choices = bind_choices(restriction, &self.table, eval)?;
            rows = product(&rows, &choices)?;
        }
        let columns = self.table.clustering();
        Ok(rows.iter().map(|values| encode_clustering(columns, values)).collect())
    }

    /// The clustering key where every column has one value: the common case, without detours.
    fn bind_one_clustering(&self, eval: &Evaluation<'_>) -> Result<Option<Prefix>, PlanError> {
        let mut prefix = Prefix::default();
        for restriction in self.clustering.iter() {
            let RestrictionKind::Equal(value) = &restriction.kind else { return Ok(None) };
            let (Components::Single(term), Some(column)) =
                (value.as_ref(), self.table.columns.get(restriction.first_column()))
            else {
                return Ok(None);
            };
            let value = term
                .evaluate(eval)?
                .or_unset_error(|| format!("Invalid unset value for column {}", column.name))?;
            let Some(value) = value else {
                return invalid!("Invalid null value in condition for column {}", column.name);
            };
            if !is_canonical(&column.cql_type, &value) {
                return Ok(None);
            }
            prefix.push(column, &value);
        }
        Ok(Some(prefix))
    }

    /// The ranges of a statement that names rows by prefix or slice: sorted, not overlapping.
    pub(crate) fn bind_ranges(
        &self,
        eval: &Evaluation<'_>,
    ) -> Result<Vec<ClusteringRange>, PlanError> {
        let mut prefixes = vec![Prefix::default()];
        let mut position = self.table.partition_key_count;
        let mut ranges = Vec::new();
        let mut sliced = false;
        for restriction in self.clustering.iter() {
            if !covers(restriction, position) {
                break;
            }
            if let RestrictionKind::Slice { start, end } = &restriction.kind {
                let slice =
                    Slice::bind(restriction, start.as_ref(), end.as_ref(), &self.table, eval)?;
                for prefix in &prefixes {
                    ranges.extend(slice.ranges(prefix)?);
                }
                sliced = true;
                break;
            }
            let choices = bind_choices(restriction, &self.table, eval)?;
            let mut longer = Vec::new();
            for prefix in &prefixes {
                for values in &choices {
                    let mut prefix = prefix.clone();
                    for (index, value) in restriction.columns.iter().zip(values) {
                        if let Some(column) = self.table.columns.get(*index) {
                            prefix.push(column, value);
                        }
                    }
                    longer.push(prefix);
                }
                check_count(longer.len())?;
            }
            prefixes = longer;
            position = restriction.last_column() + 1;
        }
        if !sliced {
            ranges.extend(
                prefixes
                    .into_iter()
                    .map(|prefix| ClusteringRange::of_prefix(Bytes::from(prefix.bytes))),
            );
        }
        Ok(normalize(ranges.into_iter().map(within_limits).collect()))
    }
}

impl Restrictions {
    /// Whether the clustering columns are sliced in a way that can select nothing, and is a slice all
    /// the same: at a null, or between neighbours.
    pub(crate) fn has_idle_slice(&self, eval: &Evaluation<'_>) -> Result<bool, PlanError> {
        for restriction in self.clustering.iter() {
            if let RestrictionKind::Slice { start, end } = &restriction.kind {
                let slice =
                    Slice::bind(restriction, start.as_ref(), end.as_ref(), &self.table, eval)?;
                return Ok(slice.is_idle());
            }
        }
        Ok(false)
    }
}

/// The same range of rows with bounds that are not longer than keys. A key that is not longer than
/// the cut bound lies below the whole bound just if it lies below the cut one or is equal to it.
fn within_limits(range: ClusteringRange) -> ClusteringRange {
    let cut = |bound: Bytes| match bound.get(..CLUSTERING_BYTES_MAX) {
        Some(kept) if bound.len() > CLUSTERING_BYTES_MAX => {
            let mut kept = kept.to_vec();
            kept.push(0);
            Bytes::from(kept)
        }
        _ => bound,
    };
    ClusteringRange { start: cut(range.start), end: range.end.map(cut) }
}

fn check_count(count: usize) -> Result<(), PlanError> {
    if count > RANGES_MAX {
        return invalid!("The query selects more than {RANGES_MAX} clustering keys");
    }
    Ok(())
}

/// Every row continued by every choice.
fn product<'v>(
    rows: &[Vec<Cow<'v, [u8]>>],
    choices: &[Vec<Cow<'v, [u8]>>],
) -> Result<Vec<Vec<Cow<'v, [u8]>>>, PlanError> {
    check_count(rows.len().saturating_mul(choices.len()))?;
    let mut out = Vec::with_capacity(rows.len() * choices.len());
    for row in rows {
        for choice in choices {
            out.push(row.iter().chain(choice).cloned().collect());
        }
    }
    Ok(out)
}

/// The values that the columns of an equality may have.
fn bind_choices<'v>(
    restriction: &'v Restriction,
    table: &Table,
    eval: &Evaluation<'v>,
) -> Result<Vec<Vec<Cow<'v, [u8]>>>, PlanError> {
    let columns: Vec<&Column> =
        restriction.columns.iter().filter_map(|index| table.columns.get(*index)).collect();
    let names: Vec<(&str, _)> = columns.iter().map(|c| (&*c.name, &c.cql_type)).collect();
    let first = names.first().map_or("", |(name, _)| name);
    let rows = match &restriction.kind {
        RestrictionKind::Equal(value) => {
            vec![value.evaluate(eval, || format!("Invalid unset value for column {first}"))?]
        }
        RestrictionKind::In(terms) => terms.evaluate(eval, &names)?,
        RestrictionKind::Slice { .. } | RestrictionKind::Contains(_) | RestrictionKind::Like => {
            Vec::new()
        }
    };
    rows.into_iter().map(|row| no_nulls(row, restriction, &names)).collect()
}

fn no_nulls<'v>(
    row: Row<'v>,
    restriction: &Restriction,
    names: &[(&str, &types::CqlType)],
) -> Result<Vec<Cow<'v, [u8]>>, PlanError> {
    let mut values = Vec::with_capacity(row.len());
    let mut names_left = names.iter().map(|(name, _)| *name);
    for value in row {
        let name = names_left.next().unwrap_or("");
        match value {
            Some(value) => values.push(value),
            None if !restriction.multi_column => {
                return invalid!("Invalid null value in condition for column {name}");
            }
            None if restriction.is_in() => {
                let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                return invalid!(
                    "Invalid null value in condition for columns: [{}]",
                    all.join(", ")
                );
            }
            None => return invalid!("Invalid null value for column {name}"),
        }
    }
    if values.len() < names.len() {
        // A tuple that a client cut short: what is missing is null.
        let name = names.get(values.len()).map_or("", |(name, _)| name);
        return invalid!("Invalid null value for column {name}");
    }
    Ok(values)
}

/// A slice over one or several columns, with its values.
struct Slice<'v> {
    columns: Vec<&'v Column>,
    start: Option<(Row<'v>, bool)>,
    end: Option<(Row<'v>, bool)>,
}

impl<'v> Slice<'v> {
    fn bind(
        restriction: &'v Restriction,
        start: Option<&'v Bound>,
        end: Option<&'v Bound>,
        table: &'v Table,
        eval: &Evaluation<'v>,
    ) -> Result<Slice<'v>, PlanError> {
        let columns: Vec<&Column> =
            restriction.columns.iter().filter_map(|index| table.columns.get(*index)).collect();
        let name = |index: usize| columns.get(index).map_or("", |column| &*column.name);
        let bind = |bound: Option<&'v Bound>| -> Result<Option<(Row<'v>, bool)>, PlanError> {
            let Some(bound) = bound else { return Ok(None) };
            let row = bound
                .value
                .evaluate(eval, || format!("Invalid unset value for column {}", name(0)))?;
            if restriction.multi_column
                && let Some(index) = row.iter().position(Option::is_none)
            {
                return invalid!("Invalid null value in condition for column {}", name(index));
            }
            Ok(Some((row, bound.inclusive)))
        };
        let (start, end) = (bind(start)?, bind(end)?);
        Ok(Slice { columns, start, end })
    }

    fn is_idle(&self) -> bool {
        let bounds = [&self.start, &self.end];
        if bounds.into_iter().flatten().any(|(row, _)| row.contains(&None)) {
            return true;
        }
        match (self.columns.as_slice(), &self.start, &self.end) {
            ([column], Some((start, _)), Some((end, _))) => match (start.first(), end.first()) {
                (Some(Some(start)), Some(Some(end))) => {
                    compare(&column.cql_type, start, end).is_lt()
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// The ranges under a prefix.
    fn ranges(&self, prefix: &Prefix) -> Result<Vec<ClusteringRange>, PlanError> {
        let above = match &self.start {
            Some((row, inclusive)) => Some(self.side(prefix, row, *inclusive, true)?),
            None => None,
        };
        let below = match &self.end {
            Some((row, inclusive)) => Some(self.side(prefix, row, *inclusive, false)?),
            None => None,
        };
        Ok(match (above, below) {
            (Some(above), Some(below)) => intersect(&above, &below),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => vec![ClusteringRange::of_prefix(Bytes::from(prefix.bytes.clone()))],
        })
    }

    /// What lies above (or below) a tuple of values.
    fn side(
        &self,
        prefix: &Prefix,
        row: &Row<'_>,
        inclusive: bool,
        above: bool,
    ) -> Result<Vec<ClusteringRange>, PlanError> {
        let mut prefix = prefix.clone();
        let mut ranges = Vec::with_capacity(row.len());
        for (index, (column, value)) in self.columns.iter().zip(row).enumerate() {
            let Some(value) = value else {
                // Null lies before every value, in the order of the table.
                if above != column.is_descending() {
                    ranges.push(ClusteringRange::of_prefix(Bytes::from(prefix.bytes)));
                }
                return Ok(normalize(ranges));
            };
            let before = prefix.bytes.clone();
            prefix.push(column, value);
            let is_last = index + 1 == row.len();
            ranges.push(one_side(
                &before,
                &prefix.bytes,
                Edge { inclusive: inclusive && is_last, upward: above != column.is_descending() },
            ));
        }
        Ok(normalize(ranges))
    }
}

/// Which side of a value, in bytes.
struct Edge {
    inclusive: bool,
    upward: bool,
}

/// The keys that start with `prefix` and lie on one side of `value`, which starts with it too.
fn one_side(prefix: &[u8], value: &[u8], edge: Edge) -> ClusteringRange {
    // An encoding never consists of 0xff bytes only, so every value has a successor.
    let after = || Bytes::from(successor(value).unwrap_or_default());
    let at = || Bytes::copy_from_slice(value);
    if edge.upward {
        let start = if edge.inclusive { at() } else { after() };
        ClusteringRange { start, end: successor(prefix).map(Bytes::from) }
    } else {
        let end = if edge.inclusive { after() } else { at() };
        ClusteringRange { start: Bytes::copy_from_slice(prefix), end: Some(end) }
    }
}

/// Sorted, without empty ranges, and with ranges that touch made one.
fn normalize(mut ranges: Vec<ClusteringRange>) -> Vec<ClusteringRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut out: Vec<ClusteringRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end.as_ref().is_none_or(|end| *end >= range.start) => {
                if let (Some(end), Some(other)) = (&last.end, &range.end) {
                    if other > end {
                        last.end = range.end;
                    }
                } else {
                    last.end = None;
                }
            }
            _ => out.push(range),
        }
    }
    out
}

/// What lies in both of two sorted lists of ranges.
fn intersect(a: &[ClusteringRange], b: &[ClusteringRange]) -> Vec<ClusteringRange> {
    let mut out = Vec::new();
    for left in a {
        for right in b {
            let start = left.start.clone().max(right.start.clone());
            let end = match (&left.end, &right.end) {
                (Some(x), Some(y)) => Some(x.clone().min(y.clone())),
                (one, None) | (None, one) => one.clone(),
            };
            out.push(ClusteringRange { start, end });
        }
    }
    normalize(out)
}
