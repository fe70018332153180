//! A term of the syntax tree becomes a typed [`Term`] for its receiver.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use cql::ast::{self, Constant, InValues, Name};
use types::value::collection::write_count;
use types::value::{
    ValueError, is_empty_meaningless, parse_literal_for, write_list, write_map, write_set,
    write_tuple, write_vector,
};
use types::{CqlType, UserType};

use super::raw::{FieldValues, as_call, fit, literal_kind, raw_text, resolve_call};
use super::raw_type::{raw_type_text, resolve_type};
use super::scope::{Receiver, Scope};
use super::term::Term;
use crate::assign;
use crate::error::{PlanError, invalid};
use crate::function::Function;

/// Prepares a term for what receives it.
pub(crate) fn prepare_term(
    term: &ast::Term,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Term, PlanError> {
    match term {
        ast::Term::Constant(constant) => prepare_constant(constant, receiver),
        ast::Term::Null if *receiver.ty == CqlType::Counter => {
            invalid!("Invalid null value for counter increment/decrement")
        }
        ast::Term::Null => Ok(Term::Constant(None)),
        ast::Term::Marker(marker) => {
            scope.note_marker(*marker, receiver);
            Ok(Term::Marker { index: marker.index(), ty: receiver.ty.as_ref().clone() })
        }
        ast::Term::List(elements) => prepare_array(elements, receiver, scope),
        ast::Term::Set(elements) => prepare_set(elements, receiver, scope),
        ast::Term::Map(entries) => prepare_map(entries, receiver, scope),
        ast::Term::UserType(fields) => prepare_user_type(fields, receiver, scope),
        ast::Term::Tuple(elements) => prepare_tuple(elements, receiver, scope),
        ast::Term::TypeHint { hint, term: inner } => {
            let ty = resolve_type(hint, &scope.keyspace, scope.schema)?;
            if !fit(inner, &ty, scope).is_assignable() {
                return invalid!(
                    "Cannot cast value {} to type {}",
                    raw_text(inner),
                    raw_type_text(hint, &scope.keyspace)
                );
            }
            if !assign::fit(&ty, &receiver.ty).is_assignable() {
                return invalid!(
                    "Cannot assign value {} to {} of type {}",
                    raw_text(term),
                    receiver.name,
                    receiver.ty
                );
            }
            prepare_term(inner, receiver, scope)
        }
        ast::Term::Function { .. }
        | ast::Term::Operation { .. }
        | ast::Term::Negation(_)
        | ast::Term::Cast { .. } => prepare_call(term, receiver, scope),
    }
}

/// Prepares what stands right of IN: terms, or one marker for the list.
pub(crate) fn prepare_in_values(
    values: &InValues,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<crate::restriction::InTerms, PlanError> {
    match values {
        InValues::Terms(terms) => {
            let terms: Result<Vec<Term>, PlanError> =
                terms.iter().map(|term| prepare_term(term, receiver, scope)).collect();
            Ok(crate::restriction::InTerms::Terms(terms?))
        }
        InValues::Marker(marker) => {
            let ty =
                CqlType::List { element: Arc::new(receiver.ty.as_ref().clone()), frozen: true };
            let list = Receiver::owned(format!("in({})", receiver.name), ty);
            scope.note_marker(*marker, &list);
            Ok(crate::restriction::InTerms::Marker(marker.index()))
        }
    }
}

fn prepare_constant(constant: &Constant, receiver: &Receiver<'_>) -> Result<Term, PlanError> {
    let kind = literal_kind(constant);
    match parse_literal_for(&receiver.name, &receiver.ty, &constant.text, kind) {
        Ok(bytes) => Ok(Term::Constant(Some(Bytes::from(bytes)))),
        Err(ValueError::CurrentTime) => Ok(Term::CurrentTimestamp),
        Err(error) => Err(error.into()),
    }
}

/// The values of terms that are all constants and not null.
fn constants(terms: &[Term]) -> Option<Vec<Option<&Bytes>>> {
    terms
        .iter()
        .map(|term| match term {
            Term::Constant(value) => Some(value.as_ref()),
            _ => None,
        })
        .collect()
}

fn no_null(values: Vec<Option<&Bytes>>) -> Result<Vec<&Bytes>, PlanError> {
    values
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| PlanError::invalid("null is not supported inside collections"))
}

fn constant(write: impl FnOnce(&mut Vec<u8>)) -> Term {
    let mut out = Vec::new();
    write(&mut out);
    Term::Constant(Some(Bytes::from(out)))
}

fn prepare_elements(
    kind: &str,
    elements: &[ast::Term],
    element: &CqlType,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Vec<Term>, PlanError> {
    let part = receiver.part(format!("value({})", receiver.name), element);
    for term in elements {
        check_array(term, element)?;
        if !fit(term, element, scope).is_assignable() {
            return invalid!(
                "Invalid {kind} literal for {}: value {} is not of type {element}",
                receiver.name,
                raw_text(term)
            );
        }
    }
    let mut prepared = Vec::with_capacity(elements.len());
    for term in elements {
        let term = prepare_term(term, &part, scope)?;
        if kind != "vector" && term.contains_marker() {
            return invalid!(
                "Invalid {kind} literal for {}: bind variables are not supported inside \
                 collection literals",
                receiver.name
            );
        }
        prepared.push(term);
    }
    Ok(prepared)
}

/// `[a, b]`: the receiver says whether it is a list or a vector.
fn prepare_array(
    elements: &[ast::Term],
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Term, PlanError> {
    match receiver.ty.as_ref() {
        CqlType::List { element, .. } => {
            let elements = prepare_elements("list", elements, element, receiver, scope)?;
            match constants(&elements) {
                Some(values) => {
                    let values = no_null(values)?;
                    Ok(constant(|out| write_list(&values, out)))
                }
                None => Ok(Term::List(elements)),
            }
        }
        CqlType::Vector { element, dimension } => {
            if elements.len() != usize::from(*dimension) {
                return invalid!(
                    "Invalid vector literal for {} of type {}; expected {dimension} elements, \
                     but given {}",
                    receiver.name,
                    receiver.ty,
                    elements.len()
                );
            }
            let elements = prepare_elements("vector", elements, element, receiver, scope)?;
            let Some(values) = constants(&elements) else {
                return Ok(Term::Vector { element: Arc::clone(element), elements });
            };
            let is_null = |value: &&Bytes| value.is_empty() && is_empty_meaningless(element);
            let values: Option<Vec<&Bytes>> =
                values.into_iter().map(|value| value.filter(|value| !is_null(value))).collect();
            match values {
                Some(values) => Ok(constant(|out| write_vector(element, &values, out))),
                None => invalid!("null is not supported inside vectors"),
            }
        }
        other => {
            invalid!("Unexpected receiver type '{other}'; only list and vector are expected")
        }
    }
}

/// Cassandra refuses `[a, b]` for another type even before it tests whether it fits.
fn check_array(term: &ast::Term, ty: &CqlType) -> Result<(), PlanError> {
    match (term, ty) {
        (ast::Term::List(_), CqlType::List { .. } | CqlType::Vector { .. }) => Ok(()),
        (ast::Term::List(_), other) => {
            invalid!("Unexpected receiver type '{other}'; only list and vector are expected")
        }
        _ => Ok(()),
    }
}

fn prepare_set(
    elements: &[ast::Term],
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Term, PlanError> {
    match receiver.ty.as_ref() {
        CqlType::Map { .. } if elements.is_empty() => Ok(constant(|out| write_count(0, out))),
        CqlType::Set { element, .. } => {
            let elements = prepare_elements("set", elements, element, receiver, scope)?;
            match constants(&elements) {
                Some(values) => {
                    let mut values = no_null(values)?;
                    Ok(constant(|out| write_set(element, &mut values, out)))
                }
                None => Ok(Term::Set { element: Arc::clone(element), elements }),
            }
        }
        _ => invalid!("Invalid set literal for {} of type {}", receiver.name, receiver.ty),
    }
}

fn prepare_map(
    entries: &[(ast::Term, ast::Term)],
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Term, PlanError> {
    let name = &receiver.name;
    let CqlType::Map { key, value, .. } = receiver.ty.as_ref() else {
        return invalid!("Invalid map literal for {name} of type {}", receiver.ty);
    };
    for (key_term, value_term) in entries {
        for (word, term, ty) in [("key", key_term, key), ("value", value_term, value)] {
            check_array(term, ty)?;
            if !fit(term, ty, scope).is_assignable() {
                return invalid!(
                    "Invalid map literal for {name}: {word} {} is not of type {ty}",
                    raw_text(term)
                );
            }
        }
    }
    let key_receiver = receiver.part(format!("key({name})"), key);
    let value_receiver = receiver.part(format!("value({name})"), value);
    let mut keys = Vec::with_capacity(entries.len());
    let mut values = Vec::with_capacity(entries.len());
    for (key_term, value_term) in entries {
        let key = prepare_term(key_term, &key_receiver, scope)?;
        let value = prepare_term(value_term, &value_receiver, scope)?;
        if key.contains_marker() || value.contains_marker() {
            return invalid!(
                "Invalid map literal for {name}: bind variables are not supported inside \
                 collection literals"
            );
        }
        keys.push(key);
        values.push(value);
    }
    if let (Some(keys), Some(values)) = (constants(&keys), constants(&values)) {
        let mut entries: Vec<_> = no_null(keys)?.into_iter().zip(no_null(values)?).collect();
        return Ok(constant(|out| write_map(key, &mut entries, out)));
    }
    Ok(Term::Map { key: Arc::clone(key), entries: keys.into_iter().zip(values).collect() })
}

fn prepare_user_type(
    fields: &[(Name, ast::Term)],
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Term, PlanError> {
    let CqlType::User { definition, frozen } = receiver.ty.as_ref() else {
        return invalid!("Invalid user type literal for {} of type {}", receiver.name, receiver.ty);
    };
    let written = FieldValues::new(fields);
    check_user_type_fields(&written, definition, receiver, scope)?;
    let mut prepared = Vec::with_capacity(definition.fields.len());
    for (name, ty) in &definition.fields {
        let part = receiver.part(format!("{}.{name}", receiver.name), ty);
        prepared.push(match written.get(name) {
            Some(term) => prepare_term(term, &part, scope)?,
            None => Term::Constant(None),
        });
    }
    let known: HashSet<&str> = definition.fields.iter().map(|(field, _)| &**field).collect();
    if let Some((name, _)) = fields.iter().find(|(name, _)| !known.contains(name.as_str())) {
        return invalid!(
            "Unknown field '{name}' in value of user defined type {}",
            definition.name
        );
    }
    match constants(&prepared) {
        Some(values) => Ok(constant(|out| write_tuple(&values, out))),
        None => {
            Ok(Term::User { definition: Arc::clone(definition), frozen: *frozen, fields: prepared })
        }
    }
}

fn check_user_type_fields(
    written: &FieldValues<'_>,
    definition: &UserType,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<(), PlanError> {
    for (name, ty) in &definition.fields {
        if let Some(term) = written.get(name)
            && !fit(term, ty, scope).is_assignable()
        {
            return invalid!(
                "Invalid user type literal for {}: field {name} is not of type {ty}",
                receiver.name
            );
        }
    }
    Ok(())
}

fn prepare_tuple(
    elements: &[ast::Term],
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Term, PlanError> {
    let types: Vec<&CqlType> = match (receiver.ty.as_ref(), elements) {
        (CqlType::Tuple(parts), _) => parts.iter().collect(),
        (CqlType::User { definition, .. }, _) => {
            definition.fields.iter().map(|(_, ty)| ty).collect()
        }
        (_, [only]) => return prepare_term(only, receiver, scope),
        _ => {
            return invalid!(
                "Invalid tuple type literal for {} of type {}",
                receiver.name,
                receiver.ty
            );
        }
    };
    for (index, term) in elements.iter().enumerate() {
        let Some(ty) = types.get(index) else {
            return invalid!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
                receiver.name,
                receiver.ty,
                types.len(),
                elements.len()
            );
        };
        if !fit(term, ty, scope).is_assignable() {
            return invalid!(
                "Invalid tuple literal for {}: component {index} is not of type {ty}",
                receiver.name
            );
        }
    }
    let mut prepared = Vec::with_capacity(elements.len());
    for (index, (term, ty)) in elements.iter().zip(types).enumerate() {
        let part = receiver.part(format!("{}[{index}]", receiver.name), ty);
        prepared.push(prepare_term(term, &part, scope)?);
    }
    Ok(tuple_of(prepared))
}

/// A tuple, at once where all parts are known.
pub(super) fn tuple_of(terms: Vec<Term>) -> Term {
    match constants(&terms) {
        Some(values) => constant(|out| write_tuple(&values, out)),
        None => Term::Tuple(terms),
    }
}

fn prepare_call(
    term: &ast::Term,
    receiver: &Receiver<'_>,
    scope: &Scope<'_>,
) -> Result<Term, PlanError> {
    let Some((name, arguments)) = as_call(term) else {
        return invalid!("Unknown function called");
    };
    let function = match resolve_call(&name, &arguments, Some(&receiver.ty), scope)? {
        None => return invalid!("Unknown function {name} called"),
        Some(Function::Aggregate(_)) => {
            return invalid!("Aggregation function are not supported in the where clause");
        }
        Some(Function::Scalar(function)) => function,
    };
    let signature = function.signature();
    if !assign::fit(&signature.result, &receiver.ty).is_assignable() {
        let what = match crate::function::operator_sign(&name.name) {
            Some(sign) => format!("operation {sign}"),
            None => format!("function system.{}", signature.name),
        };
        return invalid!(
            "Type error: cannot assign result of {what} (type {}) to {} (type {})",
            signature.result,
            receiver.name,
            receiver.ty
        );
    }
    let mut prepared = Vec::with_capacity(arguments.len());
    for (index, (argument, ty)) in arguments.iter().zip(&signature.arguments).enumerate() {
        let name = format!("arg{index}(system.{})", signature.name.to_lowercase());
        prepared.push(prepare_term(argument, &Receiver::named(name, ty), scope)?);
    }
    Ok(Term::Call { function, arguments: prepared })
}
