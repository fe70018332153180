//! What happens to a column: SET and the list of a DELETE, typed.

use std::sync::Arc;

use cql::ast::{self, AssignmentOperation, Deletion, Name, RawType};
use schema::Column;
use types::{ColumnId, CqlType};

use crate::error::{PlanError, invalid};
use crate::expression::{Receiver, Scope, Term, prepare_term, raw_text};
use crate::restriction::unknown_column;

/// A change of one column.
#[derive(Debug)]
pub(super) struct Operation {
    /// The column's place in the table.
    pub(super) column: usize,
    /// Its identity.
    pub(super) id: ColumnId,
    /// Its type.
    pub(super) ty: CqlType,
    /// What happens.
    pub(super) action: Action,
}

/// What happens to a column.
#[derive(Debug)]
pub(super) enum Action {
    /// `c = v`, of one cell or of all.
    Set(Term),
    /// `c = c + v` on a list.
    Append(Term),
    /// `c = v + c`.
    Prepend(Term),
    /// `c = c + v` on a set or map.
    Add(Term),
    /// `c = c - v`; of a map the keys go.
    Remove(Term),
    /// `c[index] = v` on a list.
    SetIndex { index: Term, value: Term },
    /// `c[key] = v` on a map.
    SetKey { key: Term, value: Term },
    /// `c.field = v`.
    SetField { index: u16, value: Term },
    /// `DELETE c`.
    Delete,
    /// `DELETE c[index]` of a list.
    DeleteIndex(Term),
    /// `DELETE c[element]` of a set.
    DeleteElement(Term),
    /// `DELETE c[key]` of a map.
    DeleteKey(Term),
    /// `DELETE c.field`.
    DeleteField(u16),
    /// A number or a text grows, under a condition.
    Grow(Term),
    /// A counter grows.
    Increment(Term),
    /// A counter shrinks.
    Decrement(Term),
}

impl Operation {
    fn new(index: usize, column: &Column, action: Action) -> Operation {
        Operation { column: index, id: column.id, ty: column.cql_type.clone(), action }
    }

    /// `column = term`, where the term is typed already.
    pub(super) fn set(index: usize, column: &Column, term: Term) -> Result<Operation, PlanError> {
        if column.cql_type == CqlType::Counter {
            return invalid!(
                "Cannot set the value of counter column {} (counters can only be \
                 incremented/decremented, not set)",
                column.name
            );
        }
        Ok(Operation::new(index, column, Action::Set(term)))
    }
}

/// The column of a name.
pub(super) fn find<'s>(
    name: &Name,
    scope: &'s Scope<'_>,
) -> Result<(usize, &'s Column), PlanError> {
    scope.table.column(name).ok_or_else(|| unknown_column(name, &scope.table))
}

/// Types one assignment of SET.
pub(super) fn prepare_assignment(
    assignment: &ast::Assignment,
    has_conditions: bool,
    scope: &Scope<'_>,
) -> Result<Operation, PlanError> {
    let (index, column) = find(&assignment.column, scope)?;
    let name = &column.name;
    if column.is_key() {
        return invalid!("PRIMARY KEY part {name} found in SET part");
    }
    let receiver = Receiver::column(index, column);
    let action = match &assignment.operation {
        AssignmentOperation::Set(value) => {
            let term = prepare_term(value, &receiver, scope)?;
            return Operation::set(index, column, term);
        }
        AssignmentOperation::Add(value) => add(column, value, has_conditions, &receiver, scope)?,
        AssignmentOperation::Subtract(value) => subtract(column, value, &receiver, scope)?,
        AssignmentOperation::Prepend(value) => {
            let term = prepare_term(value, &receiver, scope)?;
            let shown = || format!("{name} = {} - {name}", raw_text(value));
            match &column.cql_type {
                CqlType::List { frozen: false, .. } => Action::Prepend(term),
                CqlType::List { .. } => {
                    return invalid!(
                        "Invalid operation ({}) for frozen list column {name}",
                        shown()
                    );
                }
                _ => {
                    return invalid!("Invalid operation ({}) for non list column {name}", shown());
                }
            }
        }
        AssignmentOperation::SetElement { key, value } => set_element(column, key, value, scope)?,
        AssignmentOperation::SetField { field, value } => set_field(column, field, value, scope)?,
    };
    Ok(Operation::new(index, column, action))
}

fn add(
    column: &Column,
    value: &ast::Term,
    has_conditions: bool,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Action, PlanError> {
    let name = &column.name;
    let shown = || format!("{name} = {name} + {}", raw_text(value));
    match &column.cql_type {
        CqlType::Counter => Ok(Action::Increment(prepare_term(value, receiver, scope)?)),
        CqlType::Tuple(_) | CqlType::User { .. } => {
            invalid!("Invalid operation ({}) for tuple column {name}", shown())
        }
        // What is read already to judge the condition can be added to.
        ty if has_conditions && can_grow(ty) => {
            Ok(Action::Grow(prepare_term(value, receiver, scope)?))
        }
        ty if has_conditions && !ty.is_collection() => {
            invalid!("Invalid operation ({}) for non-numeric and non-text type {name}", shown())
        }
        ty if !ty.is_collection() => {
            invalid!("Invalid operation ({}) for non counter column {name}", shown())
        }
        ty if !ty.is_multi_cell() => {
            invalid!("Invalid operation ({}) for frozen collection column {name}", shown())
        }
        CqlType::List { .. } => Ok(Action::Append(prepare_term(value, receiver, scope)?)),
        CqlType::Map { .. } => match prepare_term(value, receiver, scope) {
            Ok(term) => Ok(Action::Add(term)),
            Err(PlanError::Invalid(_)) => {
                invalid!("Value for a map addition has to be a map, but was: '{}'", raw_text(value))
            }
            Err(other) => Err(other),
        },
        _ => Ok(Action::Add(prepare_term(value, receiver, scope)?)),
    }
}

/// Numbers and texts.
fn can_grow(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::TinyInt
            | CqlType::SmallInt
            | CqlType::Int
            | CqlType::BigInt
            | CqlType::Varint
            | CqlType::Float
            | CqlType::Double
            | CqlType::Decimal
            | CqlType::Ascii
            | CqlType::Text
    )
}

fn subtract(
    column: &Column,
    value: &ast::Term,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Action, PlanError> {
    let name = &column.name;
    let shown = || format!("{name} = {name} - {}", raw_text(value));
    match &column.cql_type {
        CqlType::Counter => Ok(Action::Decrement(prepare_term(value, receiver, scope)?)),
        ty if !ty.is_collection() => {
            invalid!("Invalid operation ({}) for non counter column {name}", shown())
        }
        ty if !ty.is_multi_cell() => {
            invalid!("Invalid operation ({}) for frozen collection column {name}", shown())
        }
        CqlType::Map { key, .. } => {
            let keys = CqlType::Set { element: key.clone(), frozen: true };
            // A hint names a set of many cells, which a set of keys is not.
            let is_many_cells = matches!(value, ast::Term::TypeHint { hint: RawType::Set(_), .. });
            match prepare_term(value, &Receiver::named(&**name, &keys), scope) {
                Ok(term) if !is_many_cells => Ok(Action::Remove(term)),
                Ok(_) | Err(PlanError::Invalid(_)) => invalid!(
                    "Value for a map substraction has to be a set, but was: '{}'",
                    raw_text(value)
                ),
                Err(other) => Err(other),
            }
        }
        _ => Ok(Action::Remove(prepare_term(value, receiver, scope)?)),
    }
}

fn set_element(
    column: &Column,
    key: &ast::Term,
    value: &ast::Term,
    scope: &Scope<'_>,
) -> Result<Action, PlanError> {
    let name = &column.name;
    let shown = || format!("{name}[{}] = {}", raw_text(key), raw_text(value));
    match &column.cql_type {
        ty if !ty.is_collection() => {
            invalid!("Invalid operation ({}) for non collection column {name}", shown())
        }
        ty if !ty.is_multi_cell() => {
            invalid!("Invalid operation ({}) for frozen collection column {name}", shown())
        }
        CqlType::List { element, .. } => Ok(Action::SetIndex {
            index: index_term(column, key, scope)?,
            value: prepare_term(value, &value_receiver(column, element), scope)?,
        }),
        CqlType::Map { key: key_type, value: value_type, .. } => Ok(Action::SetKey {
            key: prepare_term(key, &key_receiver(column, key_type), scope)?,
            value: prepare_term(value, &value_receiver(column, value_type), scope)?,
        }),
        _ => invalid!("Invalid operation ({}) for set column {name}", shown()),
    }
}

fn set_field(
    column: &Column,
    field: &Name,
    value: &ast::Term,
    scope: &Scope<'_>,
) -> Result<Action, PlanError> {
    let name = &column.name;
    let shown = || format!("{name}.{field} = {}", raw_text(value));
    let definition = match &column.cql_type {
        CqlType::User { definition, frozen: false } => definition,
        CqlType::User { .. } => {
            return invalid!("Invalid operation ({}) for frozen UDT column {name}", shown());
        }
        _ => return invalid!("Invalid operation ({}) for non-UDT column {name}", shown()),
    };
    let (index, ty) = field_of(definition, column, field, scope)?;
    let receiver = Receiver::named(format!("{name}.{field}"), ty);
    Ok(Action::SetField { index, value: prepare_term(value, &receiver, scope)? })
}

fn field_of<'d>(
    definition: &'d Arc<types::UserType>,
    column: &Column,
    field: &Name,
    scope: &Scope<'_>,
) -> Result<(u16, &'d CqlType), PlanError> {
    match scope.field_of(definition, field) {
        Some((index, ty)) => Ok((u16::try_from(index).unwrap_or(u16::MAX), ty)),
        None => invalid!("UDT column {} does not have a field named {field}", column.name),
    }
}

pub(super) fn key_receiver<'t>(column: &Column, ty: &'t CqlType) -> Receiver<'t> {
    Receiver::named(format!("key({})", column.name), ty)
}

pub(super) fn value_receiver<'t>(column: &Column, ty: &'t CqlType) -> Receiver<'t> {
    Receiver::named(format!("value({})", column.name), ty)
}

pub(super) fn index_term(
    column: &Column,
    index: &ast::Term,
    scope: &Scope<'_>,
) -> Result<Term, PlanError> {
    let receiver = Receiver::named(format!("idx({})", column.name), &CqlType::Int);
    prepare_term(index, &receiver, scope)
}

/// Types one entry of a DELETE's list.
pub(super) fn prepare_deletion(
    deletion: &Deletion,
    scope: &Scope<'_>,
) -> Result<Operation, PlanError> {
    let name = match deletion {
        Deletion::Column(column)
        | Deletion::Element { column, .. }
        | Deletion::Field { column, .. } => column,
    };
    let (index, column) = find(name, scope)?;
    if column.is_key() {
        return invalid!(
            "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
            column.name
        );
    }
    let action = match deletion {
        Deletion::Column(_) => Action::Delete,
        Deletion::Element { key, .. } => delete_element(column, key, scope)?,
        Deletion::Field { field, .. } => match &column.cql_type {
            CqlType::User { definition, frozen: false } => {
                Action::DeleteField(field_of(definition, column, field, scope)?.0)
            }
            CqlType::User { .. } => {
                return invalid!(
                    "Frozen UDT column {} does not support field deletions",
                    column.name
                );
            }
            _ => {
                return invalid!(
                    "Invalid field deletion operation for non-UDT column {}",
                    column.name
                );
            }
        },
    };
    Ok(Operation::new(index, column, action))
}

fn delete_element(
    column: &Column,
    key: &ast::Term,
    scope: &Scope<'_>,
) -> Result<Action, PlanError> {
    let name = &column.name;
    match &column.cql_type {
        ty if !ty.is_collection() => {
            invalid!("Invalid deletion operation for non collection column {name}")
        }
        ty if !ty.is_multi_cell() => {
            invalid!("Invalid deletion operation for frozen collection column {name}")
        }
        CqlType::List { .. } => Ok(Action::DeleteIndex(index_term(column, key, scope)?)),
        CqlType::Set { element, .. } => {
            Ok(Action::DeleteElement(prepare_term(key, &value_receiver(column, element), scope)?))
        }
        CqlType::Map { key: ty, .. } => {
            Ok(Action::DeleteKey(prepare_term(key, &key_receiver(column, ty), scope)?))
        }
        _ => invalid!("Invalid deletion operation for non collection column {name}"),
    }
}
