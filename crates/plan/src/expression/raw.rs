//! What a term fits before its type is settled: Cassandra's tests of assignment.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cql::ast::{ArithmeticOperator, Constant, ConstantKind, FunctionName, Name, NativeType, Term};
use types::CqlType;
use types::value::{Assignment, LiteralKind};

use super::raw_type::{raw_type_text, resolve_type};
use super::scope::Scope;
use crate::assign;
use crate::error::PlanError;
use crate::function::{self, Argument, Call, Fit, Function};
use crate::java_hash;

/// A term of the syntax tree, seen as the argument of a call.
pub(crate) struct RawTerm<'a> {
    pub(crate) term: &'a Term,
    pub(crate) scope: &'a Scope<'a>,
}

impl Argument for RawTerm<'_> {
    fn fit(&self, receiver: &CqlType) -> Fit {
        fit(self.term, receiver, self.scope)
    }

    fn compatible_type(&self) -> Option<CqlType> {
        compatible(self.term, self.scope)
    }

    fn text(&self) -> String {
        raw_text(self.term)
    }

    fn is_marker(&self) -> bool {
        matches!(self.term, Term::Marker(_))
    }
}

/// The function that a term calls, with its arguments: calls, operators and casts alike.
pub(super) fn as_call(term: &Term) -> Option<(Cow<'_, FunctionName>, Vec<&Term>)> {
    Some(match term {
        Term::Function { name, arguments } => (Cow::Borrowed(name), arguments.iter().collect()),
        Term::Operation { left, operator, right } => {
            (Cow::Owned(operator_function(*operator)), vec![&**left, &**right])
        }
        Term::Negation(term) => (Cow::Owned(system_function("_negate")), vec![&**term]),
        Term::Cast { term, target } => (Cow::Owned(cast_function(*target)), vec![&**term]),
        _ => return None,
    })
}

fn system_function(name: &str) -> FunctionName {
    FunctionName { keyspace: Some(Name::from("system")), name: Name::from(name) }
}

/// The function behind an operator.
pub(crate) fn operator_function(operator: ArithmeticOperator) -> FunctionName {
    system_function(match operator {
        ArithmeticOperator::Add => "_add",
        ArithmeticOperator::Subtract => "_substract",
        ArithmeticOperator::Multiply => "_multiply",
        ArithmeticOperator::Divide => "_divide",
        ArithmeticOperator::Modulo => "_modulo",
    })
}

/// The function behind `-a`.
pub(crate) fn negation_function() -> FunctionName {
    system_function("_negate")
}

/// The function behind CAST.
pub(crate) fn cast_function(target: NativeType) -> FunctionName {
    system_function(&format!("cast_as_{}", target.name()))
}

/// The function that a call in a term means.
pub(super) fn resolve_call(
    name: &FunctionName,
    arguments: &[&Term],
    receiver: Option<&CqlType>,
    scope: &Scope<'_>,
) -> Result<Option<Function>, PlanError> {
    let raws: Vec<RawTerm<'_>> = arguments.iter().map(|term| RawTerm { term, scope }).collect();
    let arguments: Vec<&dyn Argument> = raws.iter().map(|raw| raw as &dyn Argument).collect();
    function::resolve(&Call { name, arguments: &arguments, receiver, table: Some(&scope.table) })
}

/// How well a term fits a type.
pub(crate) fn fit(term: &Term, receiver: &CqlType, scope: &Scope<'_>) -> Fit {
    match term {
        Term::Constant(constant) => constant_fit(constant, receiver),
        Term::Null if *receiver == CqlType::Counter => Fit::No,
        Term::Null | Term::Marker(_) => Fit::Weak,
        Term::List(elements) => match receiver {
            CqlType::Vector { element, dimension } => {
                if elements.len() == usize::from(*dimension) {
                    all_fit(elements, element, scope)
                } else {
                    Fit::No
                }
            }
            CqlType::List { element, .. } => elements_fit(elements, element, scope),
            _ => Fit::No,
        },
        Term::Set(elements) => match receiver {
            CqlType::Set { element, .. } => elements_fit(elements, element, scope),
            CqlType::Map { .. } if elements.is_empty() => Fit::Weak,
            _ => Fit::No,
        },
        Term::Map(entries) => match receiver {
            CqlType::Map { key, value, .. } => Fit::all(
                entries.iter().flat_map(|(k, v)| [fit(k, key, scope), fit(v, value, scope)]),
            ),
            _ => Fit::No,
        },
        Term::UserType(fields) => match receiver {
            CqlType::User { definition, .. } => {
                let written = FieldValues::new(fields);
                let fits = definition.fields.iter().all(|(name, ty)| {
                    written.get(name).is_none_or(|value| fit(value, ty, scope) != Fit::No)
                });
                if fits { Fit::Weak } else { Fit::No }
            }
            _ => Fit::No,
        },
        Term::Tuple(elements) => tuple_fit(elements, receiver, scope),
        Term::TypeHint { hint, .. } => match resolve_type(hint, &scope.keyspace, scope.schema) {
            Ok(ty) => assign::fit(&ty, receiver),
            Err(_) => Fit::No,
        },
        Term::Function { .. } | Term::Operation { .. } | Term::Negation(_) | Term::Cast { .. } => {
            call_fit(term, receiver, scope)
        }
    }
}

/// The values of a user type's literal by field; of a field written twice, the later one.
pub(super) struct FieldValues<'t>(HashMap<&'t str, &'t Term>);

impl<'t> FieldValues<'t> {
    pub(super) fn new(fields: &'t [(Name, Term)]) -> FieldValues<'t> {
        FieldValues(fields.iter().map(|(name, term)| (name.as_str(), term)).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&'t Term> {
        self.0.get(name).copied()
    }
}

fn all_fit(elements: &[Term], element: &CqlType, scope: &Scope<'_>) -> Fit {
    Fit::all(elements.iter().map(|term| fit(term, element, scope)))
}

/// An empty collection has no type of its own.
fn elements_fit(elements: &[Term], element: &CqlType, scope: &Scope<'_>) -> Fit {
    if elements.is_empty() { Fit::Weak } else { all_fit(elements, element, scope) }
}

fn tuple_fit(elements: &[Term], receiver: &CqlType, scope: &Scope<'_>) -> Fit {
    let types: Vec<&CqlType> = match receiver {
        CqlType::Tuple(parts) => parts.iter().collect(),
        CqlType::User { definition, .. } => definition.fields.iter().map(|(_, ty)| ty).collect(),
        _ => {
            // Cassandra cannot tell a tuple of one from a term in parentheses.
            return match elements {
                [only] => fit(only, receiver, scope),
                _ => Fit::No,
            };
        }
    };
    let fits = elements.len() <= types.len()
        && elements.iter().zip(types).all(|(term, ty)| fit(term, ty, scope) != Fit::No);
    if fits { Fit::Weak } else { Fit::No }
}

/// A wrong call fits weakly here, so that the better message of preparing it is the one shown.
fn call_fit(term: &Term, receiver: &CqlType, scope: &Scope<'_>) -> Fit {
    let Some((name, arguments)) = as_call(term) else { return Fit::No };
    match resolve_call(&name, &arguments, Some(receiver), scope) {
        Ok(Some(function)) if function::is_made_from_arguments(&function) => Fit::Weak,
        Ok(Some(function)) => assign::fit(&function.signature().result, receiver),
        Ok(None) | Err(_) => Fit::Weak,
    }
}

/// The kind of a constant, as values know it.
pub(crate) fn literal_kind(constant: &Constant) -> LiteralKind {
    match constant.kind {
        ConstantKind::String => LiteralKind::String,
        ConstantKind::Integer => LiteralKind::Integer,
        ConstantKind::Float => LiteralKind::Float,
        ConstantKind::Boolean => LiteralKind::Boolean,
        ConstantKind::Uuid => LiteralKind::Uuid,
        ConstantKind::Hex => LiteralKind::Hex,
        ConstantKind::Duration => LiteralKind::Duration,
    }
}

/// How well a constant fits a type.
fn constant_fit(constant: &Constant, receiver: &CqlType) -> Fit {
    match literal_kind(constant).assignment(&constant.text, receiver) {
        Assignment::Exact => Fit::Exact,
        Assignment::Weak => Fit::Weak,
        Assignment::No => Fit::No,
    }
}

/// A type that can hold a term, where one is known.
pub(crate) fn compatible(term: &Term, scope: &Scope<'_>) -> Option<CqlType> {
    match term {
        Term::Constant(constant) => Some(literal_kind(constant).preferred_type(&constant.text)),
        Term::Null | Term::Marker(_) | Term::UserType(_) | Term::List(_) => None,
        Term::Set(elements) => {
            let element = common_type(elements.iter().filter_map(|e| compatible(e, scope)))?;
            Some(CqlType::Set { element: Arc::new(element), frozen: true })
        }
        Term::Map(entries) => {
            let key = common_type(entries.iter().filter_map(|(k, _)| compatible(k, scope)))?;
            let value = common_type(entries.iter().filter_map(|(_, v)| compatible(v, scope)))?;
            Some(CqlType::Map { key: Arc::new(key), value: Arc::new(value), frozen: true })
        }
        Term::Tuple(elements) => {
            let parts: Option<Vec<CqlType>> =
                elements.iter().map(|element| exact(element, scope)).collect();
            Some(CqlType::Tuple(parts?.into()))
        }
        Term::TypeHint { hint, .. } => resolve_type(hint, &scope.keyspace, scope.schema).ok(),
        Term::Function { .. } | Term::Operation { .. } | Term::Negation(_) | Term::Cast { .. } => {
            exact(term, scope)
        }
    }
}

/// The type a term has for certain.
pub(crate) fn exact(term: &Term, scope: &Scope<'_>) -> Option<CqlType> {
    match term {
        Term::TypeHint { hint, .. } => resolve_type(hint, &scope.keyspace, scope.schema).ok(),
        Term::Function { .. } | Term::Operation { .. } | Term::Negation(_) | Term::Cast { .. } => {
            let (name, arguments) = as_call(term)?;
            let function = resolve_call(&name, &arguments, None, scope).ok()??;
            Some(function.signature().result.clone())
        }
        Term::Tuple(elements) => {
            let parts: Option<Vec<CqlType>> =
                elements.iter().map(|element| exact(element, scope)).collect();
            Some(CqlType::Tuple(parts?.into()))
        }
        Term::Constant(_)
        | Term::Null
        | Term::Marker(_)
        | Term::UserType(_)
        | Term::List(_)
        | Term::Set(_)
        | Term::Map(_) => None,
    }
}

/// Of several types, one that can hold values of all.
pub(crate) fn common_type(types: impl Iterator<Item = CqlType>) -> Option<CqlType> {
    // A large literal has few types, and many values of each: every type is asked about once.
    let mut seen = HashSet::new();
    let types: Vec<CqlType> = types.filter(|ty| seen.insert(ty.clone())).collect();
    types
        .iter()
        .find(|ty| types.iter().all(|other| assign::fit(other, ty).is_assignable()))
        .cloned()
}

/// The text of a term as messages show it.
pub(crate) fn raw_text(term: &Term) -> String {
    let join = |terms: &[Term]| terms.iter().map(raw_text).collect::<Vec<_>>().join(", ");
    match term {
        Term::Constant(constant) if constant.kind == ConstantKind::String => {
            format!("'{}'", constant.text)
        }
        Term::Constant(constant) => constant.text.to_string(),
        Term::Null => "NULL".to_string(),
        Term::Marker(_) => "?".to_string(),
        Term::List(elements) => format!("[{}]", join(elements)),
        Term::Set(elements) => format!("{{{}}}", join(elements)),
        Term::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", raw_text(key), raw_text(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Term::UserType(fields) => {
            let fields: Vec<String> = shown_fields(fields)
                .into_iter()
                .map(|(name, value)| format!("{}: {}", name, raw_text(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Term::Tuple(elements) => format!("({})", join(elements)),
        Term::TypeHint { hint, term } => {
            format!("({}){}", raw_type_text(hint, ""), raw_text(term))
        }
        Term::Function { .. } | Term::Operation { .. } | Term::Negation(_) | Term::Cast { .. } => {
            let Some((name, arguments)) = as_call(term) else { return String::new() };
            let arguments: Vec<String> = arguments.into_iter().map(raw_text).collect();
            format!("{}({})", function_text(&name), arguments.join(", "))
        }
    }
}

/// The fields of a literal in the order in which Cassandra shows them, which is that of a Java hash
/// table: by bucket, then as they came.
fn shown_fields(fields: &[(Name, Term)]) -> Vec<(&Name, &Term)> {
    let values = FieldValues::new(fields);
    let mut seen = HashSet::new();
    let mut shown: Vec<(&Name, &Term)> = fields
        .iter()
        .filter(|(name, _)| seen.insert(name.as_str()))
        .filter_map(|(name, _)| Some((name, values.get(name)?)))
        .collect();
    let buckets = java_hash::bucket_count(shown.len());
    shown.sort_by_key(|(name, _)| {
        java_hash::bucket(java_hash::bytes_hash(name.as_bytes()), buckets)
    });
    shown
}

/// A function's name as CQL would have it.
pub(crate) fn function_text(name: &FunctionName) -> String {
    match &name.keyspace {
        _ if &*name.name == "token" => "token".to_string(),
        Some(keyspace) => format!("{}.{}", keyspace.to_cql(), name.name.to_cql()),
        None => name.name.to_cql(),
    }
}
