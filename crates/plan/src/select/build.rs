//! Selectables get their types and become selectors.

use std::collections::HashSet;
use std::sync::Arc;

use cql::ast::{self, CellFunction, Term as RawTerm};
use schema::Column;
use types::CqlType;

use super::cell::CellPart;
use super::selectable::{Selectable, Typed, cast_call, cell_type, look_up};
use super::selector::Selector;
use crate::error::{PlanError, invalid};
use crate::expression::{Receiver, Scope, Term, prepare_term};
use crate::function::{AggregateFunction, Argument, Function};

/// A selector with its type and the name of its column.
pub(super) struct Built {
    pub(super) selector: Selector,
    pub(super) ty: CqlType,
    pub(super) name: String,
    pub(super) aggregates: bool,
}

/// An aggregate of a selection.
pub(super) struct AggregateCall {
    pub(super) function: Arc<dyn AggregateFunction>,
    pub(super) arguments: Vec<Selector>,
}

/// Builds the selectors of one statement, and gathers its aggregates.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) aggregates: Vec<AggregateCall>,
    /// The first column that was used, after which Cassandra calls whatever cannot be cast.
    first_column: Option<Arc<str>>,
}

fn cannot_infer(typed: &Typed<'_>) -> PlanError {
    PlanError::invalid(format!(
        "Cannot infer type for term {} in selection clause (try using a cast to force a type)",
        typed.text()
    ))
}

/// The type of something, or the one that is expected of it.
fn exact_or(typed: &Typed<'_>, expected: Option<&CqlType>) -> Result<CqlType, PlanError> {
    typed.exact_type().or_else(|| expected.cloned()).ok_or_else(|| cannot_infer(typed))
}

impl Builder {
    pub(super) fn build(
        &mut self,
        typed: &Typed<'_>,
        expected: Option<&CqlType>,
    ) -> Result<Built, PlanError> {
        let scope = typed.scope;
        match &typed.selectable {
            Selectable::Column(index) => match scope.table.columns.get(*index) {
                Some(found) => {
                    self.first_column.get_or_insert_with(|| Arc::clone(&found.name));
                    Ok(column(*index, found))
                }
                None => Err(cannot_infer(typed)),
            },
            Selectable::Term(term) => {
                let ty = exact_or(typed, expected)?;
                let term = prepare_term(term, &Receiver::named("[selection]", &ty), scope)?;
                Ok(Built {
                    selector: Selector::Term(term),
                    ty,
                    name: typed.text(),
                    aggregates: false,
                })
            }
            Selectable::Call { function, arguments } => self.call(function, arguments),
            Selectable::Cell { function, column, argument } => {
                self.cell(*function, *column, argument, scope)
            }
            Selectable::Cast { argument, target } => {
                let built = self.build(argument, None)?;
                // A cast to its own type is nothing, except of a descending column, whose type is
                // not the same to Cassandra.
                if CqlType::native(target.name()).as_ref() == Some(&built.ty)
                    && !argument.is_descending_column()
                {
                    return Ok(built);
                }
                match cast_call(argument, *target)? {
                    Some(function) => self.finish_call(&function, vec![built]),
                    None => {
                        let first = self.first_column.as_deref();
                        let shown = first.map_or_else(|| argument.text(), str::to_string);
                        invalid!("{shown} cannot be cast to {}", target.name())
                    }
                }
            }
            Selectable::Field { receiver, field } => self.field(receiver, field),
            Selectable::Element { receiver, key } => self.element(typed, receiver, key),
            Selectable::Slice { receiver, from, to } => {
                self.slice(typed, receiver, expected, *from, *to)
            }
            Selectable::Parenthesized(parts) => self.parenthesized(typed, parts, expected),
            Selectable::Array(parts) => self.array(typed, parts, expected),
            Selectable::Set(parts) => self.set(typed, parts, expected),
            Selectable::MapOrUser(entries) => self.map_or_user(typed, entries, expected),
            Selectable::Hint { text, ty, inner } => {
                check_fields(inner, ty)?;
                if !inner.fit(ty).is_assignable() {
                    let shown = typed.text();
                    return invalid!("Cannot assign value {shown} to {shown} of type {ty}");
                }
                let built = self.build(inner, Some(ty))?;
                let name = format!("({text}){}", built.name);
                Ok(Built { ty: ty.clone(), name, ..built })
            }
        }
    }

    fn call(&mut self, function: &Function, arguments: &[Typed<'_>]) -> Result<Built, PlanError> {
        let mut built = Vec::with_capacity(arguments.len());
        for (argument, ty) in arguments.iter().zip(&function.signature().arguments) {
            built.push(self.build(argument, Some(ty))?);
        }
        self.finish_call(function, built)
    }

    fn finish_call(&mut self, function: &Function, built: Vec<Built>) -> Result<Built, PlanError> {
        let names: Vec<String> = built.iter().map(|built| built.name.clone()).collect();
        let nested = built.iter().any(|built| built.aggregates);
        let arguments: Vec<Selector> = built.into_iter().map(|built| built.selector).collect();
        let ty = function.signature().result.clone();
        let name = function.column_name(&names);
        match function {
            Function::Scalar(function) => Ok(Built {
                selector: Selector::Call { function: Arc::clone(function), arguments },
                ty,
                name,
                aggregates: nested,
            }),
            Function::Aggregate(_) if nested => {
                invalid!("aggregate functions cannot be used as arguments of aggregate functions")
            }
            Function::Aggregate(function) => {
                let slot = self.aggregates.len();
                let function = Arc::clone(function);
                self.aggregates.push(AggregateCall { function, arguments });
                Ok(Built { selector: Selector::Aggregate(slot), ty, name, aggregates: true })
            }
        }
    }

    fn cell(
        &mut self,
        function: CellFunction,
        index: usize,
        argument: &Typed<'_>,
        scope: &Scope<'_>,
    ) -> Result<Built, PlanError> {
        let Some(column) = scope.table.columns.get(index) else {
            return Err(cannot_infer(argument));
        };
        self.first_column.get_or_insert_with(|| Arc::clone(&column.name));
        if column.is_key() {
            return invalid!(
                "Cannot use selection function {} on PRIMARY KEY part {}",
                function.name(),
                column.name
            );
        }
        let built = self.build(argument, None)?;
        let part = cell_part(built.selector);
        let gives_list = built.ty.is_multi_cell() && function != CellFunction::MaxWriteTime;
        let ty = cell_type(function);
        Ok(Built {
            selector: Selector::Cell {
                function,
                column: index,
                part,
                ty: column.cql_type.clone(),
                gives_list,
            },
            ty: if gives_list { CqlType::List { element: Arc::new(ty), frozen: true } } else { ty },
            name: format!("{}({})", function.name(), built.name),
            aggregates: false,
        })
    }

    fn field(&mut self, receiver: &Typed<'_>, field: &str) -> Result<Built, PlanError> {
        // A user type in parentheses is no tuple of one.
        let inside = match &receiver.selectable {
            Selectable::Parenthesized(parts) => parts.first().and_then(Typed::exact_type),
            _ => None,
        };
        let built = self.build(receiver, inside.as_ref())?;
        let CqlType::User { definition, .. } = &built.ty else {
            return invalid!(
                "Invalid field selection: {} of type {} is not a user type",
                receiver.text(),
                built.ty
            );
        };
        let found = definition.fields.iter().enumerate().find(|(_, (name, _))| **name == *field);
        let Some((index, (_, ty))) = found else {
            return invalid!("{} of type {} has no field {field}", receiver.text(), built.ty);
        };
        Ok(Built {
            ty: ty.clone(),
            name: format!("{}.{field}", built.name),
            aggregates: built.aggregates,
            selector: Selector::Field { receiver: Box::new(built.selector), index },
        })
    }

    fn element(
        &mut self,
        typed: &Typed<'_>,
        receiver: &Typed<'_>,
        key: &RawTerm,
    ) -> Result<Built, PlanError> {
        let built = self.build(receiver, None)?;
        if !built.ty.is_collection() {
            return invalid!(
                "Invalid element selection: {} is of type {} is not a collection",
                receiver.text(),
                built.ty
            );
        }
        let (key_receiver, value_type) = key_of(&built, receiver, "Element")?;
        let key = prepare_term(key, &key_receiver, typed.scope)?;
        Ok(Built {
            ty: value_type,
            name: typed.text(),
            aggregates: built.aggregates,
            selector: Selector::Element {
                receiver: Box::new(built.selector),
                ty: built.ty,
                key,
                name: built.name,
            },
        })
    }

    fn slice(
        &mut self,
        typed: &Typed<'_>,
        receiver: &Typed<'_>,
        expected: Option<&CqlType>,
        from: Option<&RawTerm>,
        to: Option<&RawTerm>,
    ) -> Result<Built, PlanError> {
        let built = self.build(receiver, expected)?;
        if !built.ty.is_collection() {
            return invalid!(
                "Invalid slice selection: {} of type {} is not a collection",
                receiver.text(),
                built.ty
            );
        }
        let (key_receiver, _) = key_of(&built, receiver, "Slice")?;
        let end = |term: Option<&RawTerm>| -> Result<Option<Term>, PlanError> {
            term.map(|term| prepare_term(term, &key_receiver, typed.scope)).transpose()
        };
        let (from, to) = (end(from)?, end(to)?);
        Ok(Built {
            ty: built.ty.clone(),
            name: typed.text(),
            aggregates: built.aggregates,
            selector: Selector::Slice {
                receiver: Box::new(built.selector),
                ty: built.ty,
                from,
                to,
                name: built.name,
            },
        })
    }

    fn parts(
        &mut self,
        parts: &[Typed<'_>],
        types: &mut dyn Iterator<Item = &CqlType>,
    ) -> Result<(Vec<Selector>, Vec<String>, bool), PlanError> {
        let mut selectors = Vec::with_capacity(parts.len());
        let mut names = Vec::with_capacity(parts.len());
        let mut aggregates = false;
        for part in parts {
            let built = self.build(part, types.next())?;
            selectors.push(built.selector);
            names.push(built.name);
            aggregates |= built.aggregates;
        }
        Ok((selectors, names, aggregates))
    }

    fn parenthesized(
        &mut self,
        typed: &Typed<'_>,
        parts: &[Typed<'_>],
        expected: Option<&CqlType>,
    ) -> Result<Built, PlanError> {
        let ty = exact_or(typed, expected)?;
        let types: Vec<CqlType> = match (&ty, parts) {
            (CqlType::Tuple(types), _) => types.to_vec(),
            (CqlType::User { definition, .. }, _) if parts.len() != 1 => {
                definition.fields.iter().map(|(_, ty)| ty.clone()).collect()
            }
            (_, [only]) => {
                let built = self.build(only, expected)?;
                let name = format!("({})", built.name);
                return Ok(Built { name, ..built });
            }
            _ => return Err(cannot_infer(typed)),
        };
        let (selectors, names, aggregates) = self.parts(parts, &mut types.iter())?;
        let name = format!("({})", names.join(", "));
        Ok(Built { selector: Selector::Tuple(selectors), ty, name, aggregates })
    }

    fn array(
        &mut self,
        typed: &Typed<'_>,
        parts: &[Typed<'_>],
        expected: Option<&CqlType>,
    ) -> Result<Built, PlanError> {
        if let Some(ty @ CqlType::Vector { element, dimension }) = expected {
            if usize::from(*dimension) != parts.len() {
                return invalid!(
                    "Unable to create a vector selector of type {ty} from {} elements",
                    parts.len()
                );
            }
            let mut types = std::iter::repeat(element.as_ref());
            let (elements, names, aggregates) = self.parts(parts, &mut types)?;
            let name = format!("[{}]", names.join(", "));
            let selector = Selector::Vector { element: Arc::clone(element), elements };
            return Ok(Built { selector, ty: ty.clone(), name, aggregates });
        }
        let ty = exact_or(typed, expected)?;
        let CqlType::List { element, .. } = &ty else { return Err(cannot_infer(typed)) };
        let mut types = std::iter::repeat(element.as_ref());
        let (elements, names, aggregates) = self.parts(parts, &mut types)?;
        let name = format!("[{}]", names.join(", "));
        Ok(Built { selector: Selector::List(elements), ty: ty.clone(), name, aggregates })
    }

    fn set(
        &mut self,
        typed: &Typed<'_>,
        parts: &[Typed<'_>],
        expected: Option<&CqlType>,
    ) -> Result<Built, PlanError> {
        let ty = exact_or(typed, expected)?;
        let (selector, names, aggregates) = match &ty {
            CqlType::Map { key, .. } => {
                let selector = Selector::Map { key: Arc::clone(key), entries: Vec::new() };
                (selector, Vec::new(), false)
            }
            CqlType::Set { element, .. } if **element == CqlType::Duration => {
                return invalid!("Durations are not allowed inside sets: {ty}");
            }
            CqlType::Set { element, .. } => {
                let mut types = std::iter::repeat(element.as_ref());
                let (elements, names, aggregates) = self.parts(parts, &mut types)?;
                let selector = Selector::Set { element: Arc::clone(element), elements };
                (selector, names, aggregates)
            }
            _ => return Err(cannot_infer(typed)),
        };
        let name = format!("{{{}}}", names.join(", "));
        Ok(Built { selector, ty, name, aggregates })
    }

    fn map_or_user(
        &mut self,
        typed: &Typed<'_>,
        entries: &[(ast::Selector, ast::Selector)],
        expected: Option<&CqlType>,
    ) -> Result<Built, PlanError> {
        let scope = typed.scope;
        let ty = expected.cloned().ok_or_else(|| cannot_infer(typed))?;
        let mut aggregates = false;
        let mut names = Vec::with_capacity(entries.len());
        let selector = match &ty {
            CqlType::Map { key, .. } if **key == CqlType::Duration => {
                return invalid!("Durations are not allowed as map keys: {ty}");
            }
            CqlType::Map { key, value, .. } => {
                let mut built = Vec::with_capacity(entries.len());
                for (raw_key, raw_value) in entries {
                    let key = self.build(&look_up(raw_key, scope)?, Some(key))?;
                    let value = self.build(&look_up(raw_value, scope)?, Some(value))?;
                    names.push(format!("{}: {}", key.name, value.name));
                    aggregates |= key.aggregates || value.aggregates;
                    built.push((key.selector, value.selector));
                }
                Selector::Map { key: Arc::clone(key), entries: built }
            }
            CqlType::User { definition, .. } => {
                let mut fields = Vec::with_capacity(entries.len());
                for (raw_name, raw_value) in entries {
                    let ast::Selector::Column(field) = raw_name else {
                        let shown = look_up(raw_name, scope)?.text();
                        return invalid!(
                            "{shown} is not a valid field identifier of type {} ",
                            definition.name
                        );
                    };
                    let Some((index, field_type)) = scope.field_of(definition, field) else {
                        return invalid!(
                            "Unknown field '{field}' in value of user defined type {}",
                            definition.name
                        );
                    };
                    let value = self.build(&look_up(raw_value, scope)?, Some(field_type))?;
                    names.push(format!("{field}: {}", value.name));
                    aggregates |= value.aggregates;
                    fields.push((index, value.selector));
                }
                Selector::User { definition: Arc::clone(definition), fields }
            }
            _ => return Err(cannot_infer(typed)),
        };
        let name = format!("{{{}}}", names.join(", "));
        Ok(Built { selector, ty, name, aggregates })
    }
}

/// Refuses names that a user type does not have.
fn check_fields(typed: &Typed<'_>, ty: &CqlType) -> Result<(), PlanError> {
    let (Selectable::MapOrUser(entries), CqlType::User { definition, .. }) =
        (&typed.selectable, ty)
    else {
        return Ok(());
    };
    let known: HashSet<&str> = definition.fields.iter().map(|(field, _)| &**field).collect();
    for (name, _) in *entries {
        if let ast::Selector::Column(name) = name
            && !known.contains(name.as_str())
        {
            return invalid!(
                "Unknown field '{name}' in value of user defined type {}",
                definition.name
            );
        }
    }
    Ok(())
}

/// What receives the key of an element or slice, and the type of an element.
fn key_of(
    built: &Built,
    receiver: &Typed<'_>,
    what: &str,
) -> Result<(Receiver<'static>, CqlType), PlanError> {
    match &built.ty {
        CqlType::Map { key, value, .. } => Ok((
            Receiver::owned(format!("key({})", built.name), key.as_ref().clone()),
            value.as_ref().clone(),
        )),
        CqlType::Set { element, .. } => Ok((
            Receiver::owned(format!("value({})", built.name), element.as_ref().clone()),
            element.as_ref().clone(),
        )),
        _ => invalid!(
            "{what} selection is only allowed on sets and maps, but {} is a list",
            receiver.text()
        ),
    }
}

/// The part of a column that a cell function looks at: the first step into it.
fn cell_part(selector: Selector) -> CellPart {
    match selector {
        Selector::Element { receiver, key, name, .. } => match *receiver {
            Selector::Column(_) => CellPart::Element { key, name },
            deeper => cell_part(deeper),
        },
        Selector::Slice { receiver, from, to, name, .. } => match *receiver {
            Selector::Column(_) => CellPart::Slice { from, to, name },
            deeper => cell_part(deeper),
        },
        Selector::Field { receiver, index } => match *receiver {
            Selector::Column(_) => CellPart::Field(u16::try_from(index).unwrap_or(u16::MAX)),
            deeper => cell_part(deeper),
        },
        _ => CellPart::Whole,
    }
}

/// A column as it is.
pub(super) fn column(index: usize, column: &Column) -> Built {
    Built {
        selector: Selector::Column(index),
        ty: column.cql_type.clone(),
        name: column.name.to_string(),
        aggregates: false,
    }
}
