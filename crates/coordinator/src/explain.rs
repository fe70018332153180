//! EXPLAIN: what a statement would do, where, and what it is reckoned to cost. Nothing is executed.

use std::sync::Arc;

use plan::{BatchPlan, ModifyPlan, Partitions, Plan, ResultColumn, SelectPlan};
use types::{CqlType, Mutation, Operation, RowSelection};
use units::{Charge, ReadStrength, Work, charge, rules};

use crate::admission::estimate;
use crate::coordinator::{Answer, Coordinator, Reply, RequestContext};
use crate::meter::points_of;
use crate::rows::Rows;

/// A step of the plan, the physical partitions it touches, and what it is reckoned to cost.
struct Step {
    words: String,
    partitions: Vec<u32>,
    charge: Charge,
}

/// What a row is reckoned to take where nothing is known about it.
const ROW_BYTES: u64 = 1024;
/// What a query without a limit is reckoned to look at in each logical partition.
const ROWS_PER_KEY: u64 = 100;

impl Coordinator {
    pub(crate) fn explain(&self, plan: &Plan<'_>, request: &RequestContext<'_>) -> Answer {
        let steps = match plan {
            Plan::Select(plan) => vec![self.explain_select(plan, request.work.get().strength)],
            Plan::Modify(ModifyPlan { mutations, .. })
            | Plan::Batch(BatchPlan { mutations, .. }) => {
                mutations.iter().map(|mutation| self.explain_mutation(mutation)).collect()
            }
            Plan::Schema(_) | Plan::Truncate(_) | Plan::Roles(_) => {
                vec![whole("change a definition", rules::DEFINITION)]
            }
            Plan::Describe(_) => vec![whole("describe definitions", rules::LEAST)],
            Plan::Use(_) => vec![whole("use another keyspace", rules::LEAST)],
            Plan::Explain(_) => vec![whole("explain a statement", rules::LEAST)],
        };
        let total = steps.iter().map(|step| step.charge).sum::<Charge>().at_least(rules::LEAST);
        let mut rows: Vec<Vec<Option<Vec<u8>>>> = Vec::new();
        let mut touched: Vec<u32> = Vec::new();
        let step_count = steps.len();
        for step in steps {
            touched.extend(&step.partitions);
            rows.push(row(rows.len() + 1, &step.words, &step.partitions, step.charge));
        }
        touched.sort_unstable();
        touched.dedup();
        if step_count != 1 {
            rows.push(row(rows.len() + 1, "in all", &touched, total));
        }
        let columns = [
            ("step", CqlType::Int),
            ("plan", CqlType::Text),
            (
                "physical_partitions",
                CqlType::List { element: Arc::new(CqlType::Int), frozen: true },
            ),
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

    fn explain_select(&self, plan: &SelectPlan<'_>, strength: ReadStrength) -> Step {
        let name = format!("{}.{}", plan.table.keyspace, plan.table.name);
        let sets = if plan.table.is_virtual { Default::default() } else { self.sets_of(plan) };
        let mut work = Work::new(strength);
        let key_count = match &plan.partitions {
            Partitions::Key(_) => Some(1),
            Partitions::Keys(keys) => Some(keys.len() as u64),
            Partitions::Ring(_) => None,
        };
        let row_count = |per_key: u64| {
            let most = key_count.unwrap_or(1).saturating_mul(per_key);
            let limit = plan.limit.or(plan.page_size).map_or(u64::MAX, u64::from);
            if plan.filters.is_empty() { most.min(limit) } else { most }
        };
        let words = match (points_of(plan), key_count) {
            (Some(points), Some(keys)) => {
                (0..points.saturating_mul(keys)).for_each(|_| work.read_point(ROW_BYTES));
                let rows =
                    if points * keys == 1 { "a row by its key" } else { "rows by their keys" };
                format!("read {rows} from {name}")
            }
            (_, Some(keys)) => {
                work.query_partition_count = keys;
                let rows = row_count(ROWS_PER_KEY);
                add_rows(&mut work, rows);
                let which = match &plan.rows {
                    RowSelection::All => "all rows",
                    _ => "a slice of the rows",
                };
                let many = if keys == 1 { "one key".into() } else { format!("{keys} keys") };
                format!("read {which} of {many} from {name}, reckoned as {rows} rows of 1 KB")
            }
            (_, None) => {
                work.query_partition_count = (sets.len() as u64).max(1);
                let rows = row_count(ROWS_PER_KEY * work.query_partition_count);
                add_rows(&mut work, rows);
                format!(
                    "scan {name} over {} physical partitions, reckoned as {rows} rows of 1 KB a page",
                    work.query_partition_count
                )
            }
        };
        let filtered = if plan.filters.is_empty() { "" } else { ", filter each row" };
        let strong = if strength == ReadStrength::Strong { ", from two replicas" } else { "" };
        Step {
            words: format!("{words}{filtered}{strong}"),
            partitions: sets.iter().map(|set| set.0).collect(),
            charge: charge(&work),
        }
    }

    fn explain_mutation(&self, mutation: &Mutation) -> Step {
        let schema = self.schema();
        let name = match schema.table_by_id(mutation.table) {
            Some(table) => format!("{}.{}", table.keyspace, table.name),
            None => "a table that was dropped".to_owned(),
        };
        let rows = mutation.operations.iter().filter(|it| matches!(it, Operation::Row(_))).count();
        let ranges = mutation.operations.len() - rows;
        let condition = if mutation.condition.is_some() { "if its condition holds, " } else { "" };
        let what = match (rows, ranges) {
            (1, 0) => "write a row of".to_owned(),
            (rows, 0) => format!("write {rows} rows of"),
            (0, _) => "delete rows of".to_owned(),
            (rows, _) => format!("delete rows and write {rows} rows of"),
        };
        let located = self.map().locate(mutation.table, mutation.key.ring());
        Step {
            words: format!(
                "{condition}{what} {name}; replacing a row costs its old version besides"
            ),
            partitions: located.map(|partition| partition.set.0).into_iter().collect(),
            charge: estimate(mutation),
        }
    }
}

fn add_rows(work: &mut Work, rows: u64) {
    work.scanned_row_count = rows;
    work.scanned_bytes = rows.saturating_mul(ROW_BYTES);
    work.returned_row_count = rows;
    work.returned_bytes = work.scanned_bytes;
}

fn whole(words: &str, charge: Charge) -> Step {
    Step { words: words.to_owned(), partitions: Vec::new(), charge }
}

fn row(number: usize, words: &str, partitions: &[u32], charge: Charge) -> Vec<Option<Vec<u8>>> {
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    let mut list = Vec::new();
    let count = i32::try_from(partitions.len()).unwrap_or(i32::MAX);
    list.extend_from_slice(&count.to_be_bytes());
    for partition in partitions {
        list.extend_from_slice(&4i32.to_be_bytes());
        list.extend_from_slice(&partition.to_be_bytes());
    }
    vec![
        Some(number.to_be_bytes().to_vec()),
        Some(words.as_bytes().to_vec()),
        Some(list),
        Some(charge.to_payload().to_vec()),
    ]
}
