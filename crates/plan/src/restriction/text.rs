//! Relations as messages show them.

use cql::ast::{InValues, Name, Relation, TupleInValues, TupleValue};

use crate::expression::raw_text;

fn names(columns: &[Name]) -> String {
    let names: Vec<String> = columns.iter().map(Name::to_cql).collect();
    format!("({})", names.join(", "))
}

fn tuple(terms: &[cql::ast::Term]) -> String {
    let terms: Vec<String> = terms.iter().map(raw_text).collect();
    format!("({})", terms.join(", "))
}

pub(crate) fn relation_text(relation: &Relation) -> String {
    match relation {
        Relation::Compare { column, operator, value } => {
            format!("{} {} {}", column.to_cql(), operator.sign(), raw_text(value))
        }
        Relation::In { column, values: InValues::Terms(terms) } => {
            format!("{} IN {}", column.to_cql(), tuple(terms))
        }
        Relation::In { column, values: InValues::Marker(_) } => {
            format!("{} IN ?", column.to_cql())
        }
        Relation::Contains { column, value } => {
            format!("{} CONTAINS {}", column.to_cql(), raw_text(value))
        }
        Relation::ContainsKey { column, value } => {
            format!("{} CONTAINS KEY {}", column.to_cql(), raw_text(value))
        }
        Relation::Element { column, key, operator, value } => format!(
            "{}[{}] {} {}",
            column.to_cql(),
            raw_text(key),
            operator.sign(),
            raw_text(value)
        ),
        Relation::Like { column, value } => {
            format!("{} LIKE {}", column.to_cql(), raw_text(value))
        }
        Relation::IsNotNull { column } => format!("{} IS NOT NULL", column.to_cql()),
        Relation::Token { columns, operator, value } => {
            format!("token{} {} {}", names(columns), operator.sign(), raw_text(value))
        }
        Relation::Tuple { columns, operator, value } => {
            let value = match value {
                TupleValue::Literal(terms) => tuple(terms),
                TupleValue::Marker(_) => "?".to_string(),
            };
            format!("{} {} {value}", names(columns), operator.sign())
        }
        Relation::TupleIn { columns, values } => {
            let values = match values {
                TupleInValues::Literals(tuples) => {
                    let tuples: Vec<String> = tuples.iter().map(|terms| tuple(terms)).collect();
                    format!("({})", tuples.join(", "))
                }
                TupleInValues::Markers(markers) => {
                    format!("({})", vec!["?"; markers.len()].join(", "))
                }
                TupleInValues::Marker(_) => "?".to_string(),
            };
            format!("{} IN {values}", names(columns))
        }
        Relation::IndexExpression { index, value } => {
            format!("expr({}, {})", index.to_cql(), raw_text(value))
        }
    }
}
