//! EXPLAIN: what a statement would do, where, and what it is reckoned to cost. Nothing is executed,
//! and nothing is taken from a budget.
//!
//! Reads and writes of rows that are named by their whole keys are reckoned from those rows as they
//! are; everything else from the sizes of partitions, see `forecast.rs`.

use std::sync::Arc;

use plan::{BatchPlan, LogicalPartitions, ModifyPlan, Plan, ResultColumn, SelectPlan};
use replica::{RangeSize, Reach};
use types::{
    CqlType, Mutation, PartitionKey, ReadCommand, ReadScope, RowSelection, SetId, Statics,
};
use units::{Charge, ReadStrength, Work, charge, rules};

use crate::admission::sets_of;
use crate::error::ExecuteError;
use crate::executor::Executor;
use crate::forecast::{Forecaster, MutationForecast, average};
use crate::meter::points_of;
use crate::request::{Answer, Reply, RequestContext};
use crate::rows::Rows;

/// A step of the plan: what it touches, and what it is reckoned to cost.
struct Step {
    words: String,
    physical: Vec<u32>,
    rows: u64,
    bytes: u64,
    charge: Charge,
}

/// So many rows that a read names by their keys are looked at; of more the average is taken.
const ROWS_LOOKED_AT_MAX: u64 = 64;
/// So many logical partitions that a read names are looked up; of more the average is taken.
const KEYS_LOOKED_UP_MAX: usize = 256;
/// Entries of an index are counted up to this.
const ENTRIES_COUNTED_MAX: usize = 10_000;
/// A range of clustering keys is reckoned to hold this part of a logical partition, and a filter to
/// let this part of the rows pass.
const PART_DIVISOR: u64 = 3;

pub(crate) fn explain(
    executor: &Executor,
    plan: &Plan<'_>,
    request: &RequestContext<'_>,
) -> Result<Answer, ExecuteError> {
    let now_s = u32::try_from(executor.world.now_us() / 1_000_000).unwrap_or(0);
    // What it tells are estimates.
    let reach = Reach { is_strong: false, ..request.reach };
    let (view, replicas) = (&executor.view, &executor.replicas);
    let forecaster = Forecaster { view, replicas, now_s, reach };
    Ok(answer(Explainer { executor, forecaster }.steps(plan, request)?))
}

/// Says in words what a plan would do.
struct Explainer<'e> {
    executor: &'e Executor,
    forecaster: Forecaster<'e>,
}

impl Explainer<'_> {
    fn steps(
        &self,
        plan: &Plan<'_>,
        request: &RequestContext<'_>,
    ) -> Result<Vec<Step>, ExecuteError> {
        Ok(match plan {
            Plan::Select(plan) => vec![self.explain_select(plan, request.work.get().strength)?],
            Plan::Modify(ModifyPlan { mutations, .. })
            | Plan::Batch(BatchPlan { mutations, .. }) => {
                let steps = mutations.iter().map(|mutation| self.explain_mutation(mutation));
                steps.collect::<Result<_, _>>()?
            }
            Plan::Schema(_) => vec![whole("change the schema", rules::DEFINITION)],
            Plan::Truncate(table) => {
                let name = format!("{}.{}", table.keyspace, table.name);
                vec![Step {
                    physical: self.sets_over(table.id),
                    ..whole(&format!("remove all rows of {name}"), rules::DEFINITION)
                }]
            }
            Plan::Roles(_) => vec![whole("look at or change roles and permissions", rules::LEAST)],
            Plan::Describe(_) => vec![whole("describe what is defined", rules::LEAST)],
            Plan::Use(_) => vec![whole("use another keyspace", rules::LEAST)],
            Plan::Explain(_) => vec![whole("explain a statement", rules::LEAST)],
        })
    }

    /// The physical partitions of a table.
    fn sets_over(&self, table: types::TableId) -> Vec<u32> {
        let map = self.executor.view.map();
        map.overlapping(table, types::RingRange::FULL).map(|found| found.set.0).collect()
    }

    fn explain_select(
        &self,
        plan: &SelectPlan<'_>,
        strength: ReadStrength,
    ) -> Result<Step, ExecuteError> {
        let name = format!("{}.{}", plan.table.keyspace, plan.table.name);
        let mut work = Work::new(strength);
        if plan.table.is_virtual {
            work.query_partition_count = 1;
            add_rows(&mut work, plan, 1, 1);
            return Ok(whole(&format!("read {name}, which the node computes"), charge(&work)));
        }
        let whole = self.forecaster.table_size(plan.table);
        let keys: Option<&[PartitionKey]> = match &plan.partitions {
            LogicalPartitions::Key(key) => Some(std::slice::from_ref(key)),
            LogicalPartitions::Keys(keys) => Some(keys),
            LogicalPartitions::Ring(_) => None,
        };
        let mut sets: Vec<SetId> = sets_of(&self.executor.view.map(), plan).into_vec();
        let index = self.index_of(plan)?;
        let (words, rows, bytes) = match (points_of(plan), keys, index) {
            (Some(points), Some(keys), _) => {
                self.explain_points(plan, points, keys, whole, &mut work)?
            }
            (None, Some(keys), None) => self.explain_slice(plan, keys, whole, &mut work),
            (_, _, Some((index, entries))) => {
                work.query_partition_count = keys.map_or(sets.len(), <[_]>::len) as u64;
                let rows = limited(plan, entries, true);
                add_rows(&mut work, plan, rows, average(whole));
                work.index_entry_count = rows;
                let many = if rows == 1 { "1 entry".into() } else { format!("{rows} entries") };
                let words = format!("ask index {index} of {name}: {many}, each with its row");
                (words, rows, rows.saturating_mul(average(whole)))
            }
            (_, None, None) => self.explain_scan(plan, whole, &mut sets, &mut work),
        };
        let filtered = match plan.filters.is_empty() {
            true => "",
            false => ", and filter them",
        };
        let paged = match (plan.page_size, plan.limit) {
            (Some(page), _) if rows >= u64::from(page) && !is_single_row(plan) => ", for one page",
            _ => "",
        };
        let strong = match strength {
            ReadStrength::Strong => ", from two replicas",
            ReadStrength::One => "",
        };
        Ok(Step {
            words: format!("{words}{filtered}{paged}{strong}"),
            physical: sets.iter().map(|set| set.0).collect(),
            rows,
            bytes,
            charge: charge(&work),
        })
    }

    fn explain_points(
        &self,
        plan: &SelectPlan<'_>,
        points: u64,
        keys: &[PartitionKey],
        whole: RangeSize,
        work: &mut Work,
    ) -> Result<(String, u64, u64), ExecuteError> {
        let table = plan.table;
        let name = format!("{}.{}", table.keyspace, table.name);
        let asked = points.saturating_mul(keys.len() as u64);
        let (mut there, mut bytes) = (0, 0);
        if asked <= ROWS_LOOKED_AT_MAX {
            for key in keys {
                let rows = self.forecaster.rows_now(table, key, plan.rows.clone(), plan.statics)?;
                for row in &rows {
                    work.read_point(row.bytes);
                    there += 1;
                    bytes += row.bytes;
                }
                (rows.len() as u64..points).for_each(|_| work.read_point(0));
            }
        } else {
            (0..asked).for_each(|_| work.read_point(average(whole)));
            (there, bytes) = (asked, asked.saturating_mul(average(whole)));
        }
        let words = match (asked, there) {
            (1, 0) => format!("read a row of {name} by its key: there is none"),
            (1, _) => format!("read a row of {name} by its key: {bytes} bytes"),
            _ => format!(
                "read {asked} rows of {name} by their keys: {there} are there, {bytes} bytes"
            ),
        };
        Ok((words, there, bytes))
    }

    fn explain_slice(
        &self,
        plan: &SelectPlan<'_>,
        keys: &[PartitionKey],
        whole: RangeSize,
        work: &mut Work,
    ) -> (String, u64, u64) {
        let name = format!("{}.{}", plan.table.keyspace, plan.table.name);
        let (mut rows, mut bytes) = (0u64, 0u64);
        for key in keys.iter().take(KEYS_LOOKED_UP_MAX) {
            let held = self.forecaster.logical_size(plan.table, key, whole);
            let wanted = match &plan.rows {
                RowSelection::Ranges(_) => held.rows.div_ceil(PART_DIVISOR),
                _ => held.rows,
            };
            let wanted = wanted.min(plan.per_partition_limit.map_or(u64::MAX, u64::from));
            rows = rows.saturating_add(wanted);
            bytes = bytes.saturating_add(wanted.saturating_mul(average(held)));
        }
        if keys.len() > KEYS_LOOKED_UP_MAX {
            let times = (keys.len() / KEYS_LOOKED_UP_MAX) as u64;
            (rows, bytes) = (rows.saturating_mul(times), bytes.saturating_mul(times));
        }
        let row_bytes = bytes.checked_div(rows).unwrap_or(0);
        work.query_partition_count = keys.len() as u64;
        let rows = limited(plan, rows, plan.filters.is_empty());
        add_rows(work, plan, rows, row_bytes);
        let which = match &plan.rows {
            RowSelection::Ranges(_) => "a slice",
            _ => "the rows",
        };
        let many = match keys.len() {
            1 => "one logical partition".to_owned(),
            count => format!("{count} logical partitions"),
        };
        let about = rows_in_words(rows);
        let words = format!("read {which} of {many} of {name}: about {about} of {row_bytes} bytes");
        (words, rows, rows.saturating_mul(row_bytes))
    }

    fn explain_scan(
        &self,
        plan: &SelectPlan<'_>,
        whole: RangeSize,
        sets: &mut Vec<SetId>,
        work: &mut Work,
    ) -> (String, u64, u64) {
        let name = format!("{}.{}", plan.table.keyspace, plan.table.name);
        let LogicalPartitions::Ring(ranges) = &plan.partitions else { return Default::default() };
        let map = self.executor.view.map();
        let stops_early = plan.filters.is_empty();
        let (mut rows, mut visited) = (0u64, 0usize);
        let parts = ranges.iter().flat_map(|range| {
            let overlapping = map.overlapping(plan.table.id, *range);
            overlapping.filter_map(|found| Some((found.set, range.intersect(&found.range)?)))
        });
        let parts: Vec<(SetId, types::RingRange)> = parts.collect();
        let ranges = parts.iter().map(|(_, range)| *range).collect::<Vec<_>>();
        let sizes = self.executor.replicas.range_sizes(plan.table.id, ranges);
        for size in sizes {
            visited += 1;
            rows = rows.saturating_add(size.rows);
            if limited(plan, rows, stops_early) < rows {
                break;
            }
        }
        sets.clear();
        sets.extend(parts.iter().take(visited).map(|(set, _)| *set));
        sets.dedup();
        let rows = limited(plan, rows, stops_early);
        let row_bytes = average(whole);
        work.query_partition_count = (visited as u64).max(1);
        add_rows(work, plan, rows, row_bytes);
        let about = match rows < whole.rows {
            true => format!("{rows} of {}", rows_in_words(whole.rows)),
            false => rows_in_words(rows),
        };
        let many = match visited {
            1 => "1 physical partition".to_owned(),
            count => format!("{count} physical partitions"),
        };
        let words = format!("scan {name} over {many}: about {about} of {row_bytes} bytes");
        (words, rows, rows.saturating_mul(row_bytes))
    }

    /// The index that a read would ask, and how many entries it has for it.
    fn index_of(&self, plan: &SelectPlan<'_>) -> Result<Option<(String, u64)>, ExecuteError> {
        if plan.indexes.is_empty() {
            return Ok(None);
        }
        let scope = match &plan.partitions {
            LogicalPartitions::Key(key) => ReadScope::Partition(key.clone()),
            LogicalPartitions::Keys(keys) => match keys.first() {
                Some(key) => ReadScope::Partition(key.clone()),
                None => return Ok(None),
            },
            LogicalPartitions::Ring(_) => ReadScope::Ring(types::RingRange::FULL),
        };
        let mut command = ReadCommand {
            table: plan.table.id,
            scope,
            rows: plan.rows.clone(),
            index: None,
            reversed: plan.reversed,
            statics: Statics::Skip,
            hidden: Vec::new(),
            columns: None,
            after: None,
            now_s: plan.now_s,
        };
        command.index = self.executor.choose_index(plan, &command)?;
        let Some(question) = &command.index else { return Ok(None) };
        let index = plan.indexes.iter().find(|lookup| lookup.index.id == question.index);
        let name = index.map_or_else(String::new, |lookup| lookup.index.name.to_string());
        let entries = self.executor.replicas.index_weight(&command, ENTRIES_COUNTED_MAX)?;
        Ok(entries.map(|entries| (name, entries as u64)))
    }

    fn explain_mutation(&self, mutation: &Mutation) -> Result<Step, ExecuteError> {
        let schema = self.executor.view.schema();
        let Some(table) = schema.table_by_id(mutation.table) else {
            return Err(ExecuteError::Invalid("the table was dropped".into()));
        };
        let forecast = self.forecaster.forecast(table, mutation)?;
        let located = self.executor.view.map().locate(mutation.table, mutation.key.ring());
        Ok(Step {
            words: words_of(&format!("{}.{}", table.keyspace, table.name), mutation, &forecast),
            physical: located.map(|partition| partition.set.0).into_iter().collect(),
            rows: forecast.inserted + forecast.replaced + forecast.deleted,
            bytes: forecast.bytes,
            charge: forecast.charge,
        })
    }
}

/// A mutation in words.
fn words_of(name: &str, mutation: &Mutation, forecast: &MutationForecast) -> String {
    let MutationForecast { inserted, replaced, deleted, absent, ranges, bytes, .. } = forecast;
    let counted = |count: u64, one: &str, many: &str| match count {
        0 => None,
        1 => Some(one.to_owned()),
        count => Some(many.replace('#', &count.to_string())),
    };
    let parts = [
        counted(*inserted, "write a new row", "write # new rows"),
        counted(*replaced, "write over a row", "write over # rows"),
        counted(*deleted, "delete a row", "delete # rows"),
        counted(*absent, "delete a row that is not there", "delete # rows that are not there"),
        counted(*ranges, "mark a range of rows as deleted", "mark # ranges of rows as deleted"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let what = if parts.is_empty() { "change nothing".to_owned() } else { parts.join(", ") };
    let condition = match (&mutation.condition, forecast.is_refused) {
        (None, _) => "",
        (Some(_), false) => "look at the condition; if it holds, ",
        (Some(_), true) => {
            return format!("look at the condition on {name}, which does not hold now");
        }
    };
    let size = if *bytes > 0 { format!(": {bytes} bytes") } else { String::new() };
    let terms = counted(forecast.index_terms, ", 1 index entry", ", # index entries");
    format!("{condition}{what} in {name}{size}{}", terms.unwrap_or_default())
}

/// So many rows, in words.
fn rows_in_words(count: u64) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

/// Whether the result is one row, however many are read.
fn is_single_row(plan: &SelectPlan<'_>) -> bool {
    plan.selection.is_grouped() && plan.grouping.is_none()
}

/// How many of the rows are looked at before there are enough.
fn limited(plan: &SelectPlan<'_>, rows: u64, stops_early: bool) -> u64 {
    if is_single_row(plan) || !stops_early {
        return rows;
    }
    let limit = plan.limit.map_or(u64::MAX, u64::from);
    let page = plan.page_size.map_or(u64::MAX, u64::from);
    if plan.sort.is_some() { rows } else { rows.min(limit).min(page) }
}

fn add_rows(work: &mut Work, plan: &SelectPlan<'_>, rows: u64, row_bytes: u64) {
    work.scanned_row_count = rows;
    work.scanned_bytes = rows.saturating_mul(row_bytes);
    let passing = match plan.filters.is_empty() || !plan.indexes.is_empty() {
        true => rows,
        false => rows.div_ceil(PART_DIVISOR),
    };
    let returned = if is_single_row(plan) { 1 } else { passing };
    let returned = returned.min(plan.limit.map_or(u64::MAX, u64::from));
    work.returned_row_count = returned;
    // Of each value its length goes along; columns that are not asked for stay behind.
    let all = plan.table.columns.len().max(1) as u64;
    let asked = plan.selection.columns().len() as u64;
    let values = row_bytes.saturating_mul(asked.min(all)) / all;
    work.returned_bytes = returned.saturating_mul(values.saturating_add(4 * asked));
}

fn whole(words: &str, charge: Charge) -> Step {
    Step { words: words.to_owned(), physical: Vec::new(), rows: 0, bytes: 0, charge }
}

fn answer(steps: Vec<Step>) -> Answer {
    let total = steps.iter().map(|step| step.charge).sum::<Charge>().at_least(rules::LEAST);
    let mut rows: Vec<Vec<Option<Vec<u8>>>> = Vec::new();
    let mut all = whole("in all", total);
    let step_count = steps.len();
    for step in steps {
        all.physical.extend(&step.physical);
        all.rows = all.rows.saturating_add(step.rows);
        all.bytes = all.bytes.saturating_add(step.bytes);
        rows.push(row(rows.len() + 1, &step));
    }
    all.physical.sort_unstable();
    all.physical.dedup();
    if step_count != 1 {
        rows.push(row(rows.len() + 1, &all));
    }
    let columns = [
        ("step", CqlType::Int),
        ("plan", CqlType::Text),
        ("physical_partitions", CqlType::List { element: Arc::new(CqlType::Int), frozen: true }),
        ("estimated_rows", CqlType::BigInt),
        ("estimated_bytes", CqlType::BigInt),
        ("estimated_charge", CqlType::Double),
    ];
    let columns = columns.map(|(name, cql_type)| ResultColumn {
        keyspace: Arc::from("system_helenus"),
        table: Arc::from("explain"),
        name: Arc::from(name),
        cql_type,
    });
    let reply = Reply::Rows(Rows::from_values(columns.to_vec(), rows));
    Answer { reply, warnings: Vec::new() }
}

fn row(number: usize, step: &Step) -> Vec<Option<Vec<u8>>> {
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    let mut list = Vec::new();
    let count = i32::try_from(step.physical.len()).unwrap_or(i32::MAX);
    list.extend_from_slice(&count.to_be_bytes());
    for set in &step.physical {
        list.extend_from_slice(&4i32.to_be_bytes());
        list.extend_from_slice(&set.to_be_bytes());
    }
    vec![
        Some(number.to_be_bytes().to_vec()),
        Some(step.words.as_bytes().to_vec()),
        Some(list),
        Some(step.rows.to_be_bytes().to_vec()),
        Some(step.bytes.to_be_bytes().to_vec()),
        Some(step.charge.to_payload().to_vec()),
    ]
}
