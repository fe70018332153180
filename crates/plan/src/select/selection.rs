//! All selectors of a statement.

use std::sync::Arc;

use schema::Table;
use types::CqlType;

use super::build::{AggregateCall, Builder, Built};
use super::json::JsonRow;
use super::selector::{Inputs, Selector};
use crate::error::PlanError;
use crate::expression::Evaluation;
use crate::function::AggregateState;
use crate::plan::ResultColumn;
use crate::row::{EmptyRow, RowAccess, ValueSink};

/// What a SELECT computes from its rows.
///
/// Without aggregates and GROUP BY, each row gives one result row: [`Selection::evaluate`].
/// Otherwise the rows of a group go through an [`Accumulator`], and each group gives one.
pub struct Selection {
    /// What the client sees: the selected columns, or the one JSON column.
    columns: Arc<[ResultColumn]>,
    /// The names and types behind the JSON column.
    json: Option<Vec<ResultColumn>>,
    outputs: Vec<Selector>,
    /// Evaluated on each row, for the aggregates.
    aggregates: Vec<AggregateCall>,
    /// Evaluated on the first row of a group.
    firsts: Vec<Selector>,
    is_grouped: bool,
    /// Columns that any selector looks at, sorted.
    used: Vec<usize>,
}

impl Selection {
    pub(super) fn new(
        built: Vec<(Built, Option<Arc<str>>)>,
        builder: Builder,
        table: &Table,
        is_json: bool,
        has_group_by: bool,
    ) -> Selection {
        let column = |name: Arc<str>, cql_type: CqlType| ResultColumn {
            keyspace: Arc::clone(&table.keyspace),
            table: Arc::clone(&table.name),
            name,
            cql_type,
        };
        let is_grouped = has_group_by || !builder.aggregates.is_empty();
        let mut columns = Vec::with_capacity(built.len());
        let mut outputs = Vec::with_capacity(built.len());
        let mut firsts = Vec::new();
        let mut used = Vec::new();
        for (built, alias) in built {
            built.selector.visit_columns(&mut |index| used.push(index));
            let name = alias.unwrap_or_else(|| Arc::from(built.name));
            columns.push(column(name, built.ty));
            outputs.push(if is_grouped {
                split(built.selector, &mut firsts)
            } else {
                built.selector
            });
        }
        for call in &builder.aggregates {
            for argument in &call.arguments {
                argument.visit_columns(&mut |index| used.push(index));
            }
        }
        used.sort_unstable();
        used.dedup();
        let (columns, json) = if is_json {
            (vec![column("[json]".into(), CqlType::Text)], Some(columns))
        } else {
            (columns, None)
        };
        Selection {
            columns: columns.into(),
            json,
            outputs,
            aggregates: builder.aggregates,
            firsts,
            is_grouped,
            used,
        }
    }

    /// The columns of the result.
    pub fn columns(&self) -> &Arc<[ResultColumn]> {
        &self.columns
    }

    /// Whether rows go through an [`Accumulator`]: there are aggregates, or a GROUP BY.
    pub fn is_grouped(&self) -> bool {
        self.is_grouped
    }

    /// Whether there are aggregates.
    pub fn is_aggregate(&self) -> bool {
        !self.aggregates.is_empty()
    }

    /// The columns of the table that are looked at, sorted.
    pub fn used_columns(&self) -> &[usize] {
        &self.used
    }

    /// The places of the columns that are shown, where that is all that is done.
    pub(super) fn plain_columns(&self) -> Option<Vec<usize>> {
        if self.is_grouped || self.json.is_some() {
            return None;
        }
        let column = |selector: &Selector| match selector {
            Selector::Column(index) => Some(*index),
            _ => None,
        };
        self.outputs.iter().map(column).collect()
    }

    /// Computes the result row of one row.
    pub fn evaluate(
        &self,
        row: &dyn RowAccess,
        eval: &Evaluation<'_>,
        out: &mut dyn ValueSink,
    ) -> Result<(), PlanError> {
        self.write(Inputs { row, eval, aggregates: &[], firsts: &[] }, out)
    }

    fn write(&self, inputs: Inputs<'_>, out: &mut dyn ValueSink) -> Result<(), PlanError> {
        let Some(columns) = &self.json else { return self.write_values(inputs, out) };
        let mut json = JsonRow::new(columns);
        self.write_values(inputs, &mut json)?;
        out.push(Some(&json.finish()?));
        Ok(())
    }

    fn write_values(&self, inputs: Inputs<'_>, out: &mut dyn ValueSink) -> Result<(), PlanError> {
        for selector in &self.outputs {
            out.push(selector.evaluate(inputs)?.as_deref());
        }
        Ok(())
    }

    /// The state before the first row of a group.
    pub fn accumulator(&self) -> Accumulator<'_> {
        Accumulator {
            selection: self,
            states: self.aggregates.iter().map(|call| call.function.new_state()).collect(),
            firsts: None,
        }
    }
}

impl std::fmt::Debug for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selection")
            .field("columns", &self.columns)
            .field("outputs", &self.outputs)
            .field("firsts", &self.firsts)
            .finish_non_exhaustive()
    }
}

/// Moves every largest part without an aggregate out of a selector, to be evaluated on the first
/// row of a group.
fn split(selector: Selector, firsts: &mut Vec<Selector>) -> Selector {
    if !aggregates(&selector) {
        firsts.push(selector);
        return Selector::First(firsts.len() - 1);
    }
    let mut all = |selectors: Vec<Selector>| -> Vec<Selector> {
        selectors.into_iter().map(|selector| split(selector, firsts)).collect()
    };
    match selector {
        Selector::Call { function, arguments } => {
            Selector::Call { function, arguments: all(arguments) }
        }
        Selector::List(parts) => Selector::List(all(parts)),
        Selector::Tuple(parts) => Selector::Tuple(all(parts)),
        Selector::Set { element, elements } => Selector::Set { element, elements: all(elements) },
        Selector::Vector { element, elements } => {
            Selector::Vector { element, elements: all(elements) }
        }
        Selector::Map { key, entries } => Selector::Map {
            key,
            entries: entries
                .into_iter()
                .map(|(key, value)| (split(key, firsts), split(value, firsts)))
                .collect(),
        },
        Selector::User { definition, fields } => Selector::User {
            definition,
            fields: fields.into_iter().map(|(i, field)| (i, split(field, firsts))).collect(),
        },
        Selector::Field { receiver, index } => {
            Selector::Field { receiver: Box::new(split(*receiver, firsts)), index }
        }
        Selector::Element { receiver, ty, key, name } => {
            Selector::Element { receiver: Box::new(split(*receiver, firsts)), ty, key, name }
        }
        Selector::Slice { receiver, ty, from, to, name } => {
            Selector::Slice { receiver: Box::new(split(*receiver, firsts)), ty, from, to, name }
        }
        leaf => leaf,
    }
}

fn aggregates(selector: &Selector) -> bool {
    match selector {
        Selector::Aggregate(_) => true,
        Selector::Column(_) | Selector::Term(_) | Selector::First(_) | Selector::Cell { .. } => {
            false
        }
        Selector::Call { arguments: parts, .. }
        | Selector::List(parts)
        | Selector::Tuple(parts)
        | Selector::Set { elements: parts, .. }
        | Selector::Vector { elements: parts, .. } => parts.iter().any(aggregates),
        Selector::Map { entries, .. } => {
            entries.iter().any(|(key, value)| aggregates(key) || aggregates(value))
        }
        Selector::User { fields, .. } => fields.iter().any(|(_, field)| aggregates(field)),
        Selector::Field { receiver, .. }
        | Selector::Element { receiver, .. }
        | Selector::Slice { receiver, .. } => aggregates(receiver),
    }
}

/// Gathers the rows of one group.
pub struct Accumulator<'a> {
    selection: &'a Selection,
    states: Vec<Box<dyn AggregateState>>,
    firsts: Option<Vec<Option<Vec<u8>>>>,
}

impl Accumulator<'_> {
    /// Whether no row was added since the start or the last reset.
    pub fn is_empty(&self) -> bool {
        self.firsts.is_none()
    }

    /// Takes one more row of the group.
    pub fn add(&mut self, row: &dyn RowAccess, eval: &Evaluation<'_>) -> Result<(), PlanError> {
        if self.firsts.is_none() {
            self.firsts = Some(self.first_values(row, eval)?);
        }
        let inputs = Inputs { row, eval, aggregates: &[], firsts: &[] };
        for (state, call) in self.states.iter_mut().zip(&self.selection.aggregates) {
            let mut arguments = Vec::with_capacity(call.arguments.len());
            for argument in &call.arguments {
                arguments.push(argument.evaluate(inputs)?);
            }
            state.add(&arguments, eval.context)?;
        }
        Ok(())
    }

    fn first_values(
        &self,
        row: &dyn RowAccess,
        eval: &Evaluation<'_>,
    ) -> Result<Vec<Option<Vec<u8>>>, PlanError> {
        let inputs = Inputs { row, eval, aggregates: &[], firsts: &[] };
        let mut values = Vec::with_capacity(self.selection.firsts.len());
        for selector in &self.selection.firsts {
            values.push(selector.evaluate(inputs)?.map(|value| value.into_owned()));
        }
        Ok(values)
    }

    /// Computes the result row of the group. A query without GROUP BY gives one even when there
    /// was no row.
    pub fn finish(&self, eval: &Evaluation<'_>, out: &mut dyn ValueSink) -> Result<(), PlanError> {
        let mut aggregates = Vec::with_capacity(self.states.len());
        for state in &self.states {
            aggregates.push(state.finish(eval.context)?);
        }
        let none;
        let firsts = match &self.firsts {
            Some(firsts) => firsts,
            None => {
                none = self.first_values(&EmptyRow, eval)?;
                &none
            }
        };
        self.selection.write(Inputs { row: &EmptyRow, eval, aggregates: &aggregates, firsts }, out)
    }

    /// Back to before the first row, for the next group.
    pub fn reset(&mut self) {
        self.states.iter_mut().for_each(|state| state.reset());
        self.firsts = None;
    }
}

impl std::fmt::Debug for Accumulator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accumulator").field("firsts", &self.firsts).finish_non_exhaustive()
    }
}
