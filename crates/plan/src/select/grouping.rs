//! GROUP BY.

use cql::ast;
use schema::{ColumnKind, Table};
use types::value::collection::write_element;

use super::build::Builder;
use super::selectable::{Selectable, Typed, look_up};
use super::selector::{Inputs, Selector};
use crate::error::{PlanError, invalid};
use crate::expression::{Evaluation, Scope};
use crate::function::Function;
use crate::restriction::Restrictions;
use crate::row::RowAccess;

/// Which rows belong together: those of one logical partition with the same first clustering
/// columns, the last of which may be seen through a function.
#[derive(Debug)]
pub struct Grouping {
    partition_key_count: usize,
    /// Clustering columns that are compared as they are.
    clustering_count: usize,
    /// The last part, where it is a function of a clustering column.
    last: Option<Selector>,
}

const OUT_OF_ORDER: &str = "Group by currently only support groups of columns following their \
    declared order in the PRIMARY KEY";

impl Grouping {
    /// Appends bytes that are equal exactly for rows of the same group.
    pub fn key(
        &self,
        row: &dyn RowAccess,
        eval: &Evaluation<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), PlanError> {
        for index in 0..self.partition_key_count + self.clustering_count {
            write_element(row.value(index).as_deref(), out);
        }
        if let Some(last) = &self.last {
            let inputs = Inputs { row, eval, aggregates: &[], firsts: &[] };
            write_element(last.evaluate(inputs)?.as_deref(), out);
        }
        Ok(())
    }

    /// How many clustering columns the groups need.
    pub fn clustering_prefix(&self) -> usize {
        self.clustering_count + usize::from(self.last.is_some())
    }

    pub(super) fn prepare(
        groups: &[ast::Selector],
        is_distinct: bool,
        restrictions: &Restrictions,
        scope: &Scope<'_>,
    ) -> Result<Grouping, PlanError> {
        let table = &scope.table;
        let key_count = table.partition_key_count + table.clustering_count;
        let mut next = 0;
        let mut last = None;
        for group in groups {
            let typed = look_up(group, scope)?;
            let column = match &typed.selectable {
                Selectable::Column(index) => {
                    check_column(*index, table, last.is_some())?;
                    *index
                }
                Selectable::Call { function, .. } => {
                    let (selector, column) = group_function(&typed, function, table)?;
                    last = Some(selector);
                    column
                }
                _ => {
                    return invalid!(
                        "Only column names and monotonic scalar functions are supported in the \
                         GROUP BY clause."
                    );
                }
            };
            while next != column {
                if next >= key_count || !restrictions.is_equal_on(next) {
                    return invalid!("{OUT_OF_ORDER}");
                }
                next += 1;
            }
            next += 1;
        }
        if next < table.partition_key_count {
            return invalid!("Group by is not supported on only a part of the partition key");
        }
        let clustering_count = next - table.partition_key_count;
        if clustering_count > 0 && is_distinct {
            return invalid!(
                "Grouping on clustering columns is not allowed for SELECT DISTINCT queries"
            );
        }
        Ok(Grouping {
            partition_key_count: table.partition_key_count,
            clustering_count: clustering_count - usize::from(last.is_some()),
            last,
        })
    }
}

fn check_column(index: usize, table: &Table, after_function: bool) -> Result<(), PlanError> {
    let Some(column) = table.columns.get(index) else { return Ok(()) };
    if !column.is_key() {
        return invalid!(
            "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
            column.name
        );
    }
    if after_function {
        return invalid!("Functions are only supported on the last element of the GROUP BY clause");
    }
    Ok(())
}

fn group_function(
    typed: &Typed<'_>,
    function: &Function,
    table: &Table,
) -> Result<(Selector, usize), PlanError> {
    if function.is_aggregate() {
        return invalid!(
            "Aggregate functions are not supported within the GROUP BY clause, got: system.{}",
            function.signature().name
        );
    }
    let built = Builder::default().build(typed, None)?;
    let mut columns = Vec::new();
    built.selector.visit_columns(&mut |index| {
        if !columns.contains(&index) {
            columns.push(index);
        }
    });
    let column = match columns.as_slice() {
        [] => {
            return invalid!(
                "GROUP BY functions must have one clustering column name as parameter"
            );
        }
        [only] => *only,
        several => {
            let names: Vec<String> = several
                .iter()
                .filter_map(|index| table.columns.get(*index))
                .map(|column| cql::quote_if_needed(&column.name))
                .collect();
            return invalid!(
                "GROUP BY functions accept only one clustering column as parameter, got: {}",
                names.join(",")
            );
        }
    };
    if let Some(found) = table.columns.get(column)
        && !matches!(found.kind, ColumnKind::Clustering { .. })
    {
        return invalid!(
            "Group by functions are only supported on clustering columns, got {}",
            found.name
        );
    }
    check_monotonic(&built.selector)?;
    Ok((built.selector, column))
}

fn check_monotonic(selector: &Selector) -> Result<(), PlanError> {
    match selector {
        Selector::Column(_) | Selector::Term(_) => Ok(()),
        Selector::Call { function, arguments } => {
            // Beside the first argument there are constants only.
            let is_constant = |argument: &Selector| matches!(argument, Selector::Term(_));
            if !function.is_monotonic() || !arguments.iter().skip(1).all(is_constant) {
                let constants: Vec<bool> = arguments.iter().map(is_constant).collect();
                return invalid!(
                    "Only monotonic functions are supported in the GROUP BY clause. Got: {} ",
                    function.signature().with_constants(&constants)
                );
            }
            arguments.iter().try_for_each(check_monotonic)
        }
        _ => invalid!(
            "Only column names and monotonic scalar functions are supported in the GROUP BY clause."
        ),
    }
}
