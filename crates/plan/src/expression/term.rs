//! Prepared terms, and what they evaluate to.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use types::value::{
    ValueError, validate, write_list, write_map, write_set, write_tuple, write_vector,
};
use types::{CqlType, UserType};

use super::Evaluation;
use super::canonical::canonical;
use crate::error::{PlanError, invalid};
use crate::function::ScalarFunction;
use crate::values::Value;

/// What a term evaluates to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluated<'v> {
    Null,
    /// Not given.
    Unset,
    /// A value as the protocol encodes it.
    Bytes(Cow<'v, [u8]>),
}

impl<'v> Evaluated<'v> {
    /// The value; `None` for null, an error with that text for unset.
    pub(crate) fn or_unset_error(
        self,
        text: impl FnOnce() -> String,
    ) -> Result<Option<Cow<'v, [u8]>>, PlanError> {
        match self {
            Evaluated::Null => Ok(None),
            Evaluated::Unset => Err(PlanError::invalid(text())),
            Evaluated::Bytes(bytes) => Ok(Some(bytes)),
        }
    }
}

/// A typed value: known, bound later, or computed.
pub enum Term {
    /// A value known when the statement is prepared; `None` is null.
    Constant(Option<Bytes>),
    /// Never set: a column that a document leaves as it is.
    Unset,
    /// The timestamp `'now'`.
    CurrentTimestamp,
    /// A bind marker.
    Marker {
        /// Its place among the markers.
        index: usize,
        /// The type of its values.
        ty: CqlType,
    },
    /// A list with parts that are computed.
    List(Vec<Term>),
    /// A set with parts that are computed.
    Set {
        /// The type of the elements.
        element: Arc<CqlType>,
        elements: Vec<Term>,
    },
    /// A map with parts that are computed.
    Map {
        /// The type of the keys.
        key: Arc<CqlType>,
        /// Keys and values.
        entries: Vec<(Term, Term)>,
    },
    /// A vector with parts that are computed.
    Vector {
        /// The type of the elements.
        element: Arc<CqlType>,
        elements: Vec<Term>,
    },
    /// A tuple with parts that are computed.
    Tuple(Vec<Term>),
    /// A user type with parts that are computed.
    User {
        /// The type.
        definition: Arc<UserType>,
        /// Whether it is one cell.
        frozen: bool,
        /// A term for each field.
        fields: Vec<Term>,
    },
    Call {
        function: Arc<dyn ScalarFunction>,
        arguments: Vec<Term>,
    },
}

impl Term {
    /// Whether a marker is inside.
    pub fn contains_marker(&self) -> bool {
        match self {
            Term::Constant(_) | Term::Unset | Term::CurrentTimestamp => false,
            Term::Marker { .. } => true,
            // Collections refuse markers when they are prepared.
            Term::List(_) | Term::Set { .. } | Term::Map { .. } => false,
            Term::Vector { elements, .. } | Term::Tuple(elements) => {
                elements.iter().any(Term::contains_marker)
            }
            Term::User { fields, .. } => fields.iter().any(Term::contains_marker),
            Term::Call { arguments, .. } => arguments.iter().any(Term::contains_marker),
        }
    }

    /// Whether it needs neither values nor a function.
    pub fn is_constant(&self) -> bool {
        matches!(self, Term::Constant(_))
    }

    /// Computes the value.
    pub fn evaluate<'v>(&'v self, eval: &Evaluation<'v>) -> Result<Evaluated<'v>, PlanError> {
        match self {
            Term::Constant(None) => Ok(Evaluated::Null),
            Term::Constant(Some(bytes)) => Ok(Evaluated::Bytes(Cow::Borrowed(bytes))),
            Term::Unset => Ok(Evaluated::Unset),
            Term::CurrentTimestamp => {
                let millis = eval.context.now_us.div_euclid(1000);
                Ok(Evaluated::Bytes(Cow::Owned(millis.to_be_bytes().to_vec())))
            }
            Term::Marker { index, ty } => evaluate_marker(eval.values.get(*index), ty),
            Term::List(elements) => match collect(elements, eval)? {
                None => Ok(Evaluated::Unset),
                Some(elements) => build(|out| write_list(&elements, out)),
            },
            Term::Set { element, elements } => match collect(elements, eval)? {
                None => Ok(Evaluated::Unset),
                Some(mut elements) => build(|out| write_set(element, &mut elements, out)),
            },
            Term::Map { key, entries } => evaluate_map(key, entries, eval),
            Term::Vector { element, elements } => evaluate_vector(element, elements, eval),
            Term::Tuple(elements) => {
                let mut components = Vec::with_capacity(elements.len());
                for (index, term) in elements.iter().enumerate() {
                    components.push(term.evaluate(eval)?.or_unset_error(|| {
                        format!("Invalid unset value for tuple field number {index}")
                    })?);
                }
                build(|out| write_tuple(&components, out))
            }
            Term::User { definition, frozen, fields } => {
                evaluate_user(definition, *frozen, fields, eval)
            }
            Term::Call { function, arguments } => evaluate_call(function.as_ref(), arguments, eval),
        }
    }
}

fn build<'v>(write: impl FnOnce(&mut Vec<u8>)) -> Result<Evaluated<'v>, PlanError> {
    let mut out = Vec::new();
    write(&mut out);
    Ok(Evaluated::Bytes(Cow::Owned(out)))
}

fn evaluate_marker<'v>(value: Value<'v>, ty: &CqlType) -> Result<Evaluated<'v>, PlanError> {
    match value {
        Value::Null => Ok(Evaluated::Null),
        Value::Unset => Ok(Evaluated::Unset),
        Value::Bytes(bytes) => {
            validate(ty, bytes)?;
            check_count(ty, bytes)?;
            // Cassandra keeps sets and maps sorted, whatever the client's order was.
            Ok(Evaluated::Bytes(canonical(ty, bytes)?))
        }
    }
}

/// A negative count is valid for whoever only validates, and no collection for whoever reads it.
fn check_count(ty: &CqlType, bytes: &[u8]) -> Result<(), PlanError> {
    let kind = match ty {
        CqlType::List { .. } => "list",
        CqlType::Set { .. } => "set",
        CqlType::Map { .. } => "map",
        _ => return Ok(()),
    };
    match bytes.first() {
        Some(first) if first & 0x80 != 0 => Err(ValueError::CollectionCount(kind).into()),
        _ => Ok(()),
    }
}

/// The elements of a collection; `None` when one of them is unset, and so the whole is.
fn collect<'v>(
    elements: &'v [Term],
    eval: &Evaluation<'v>,
) -> Result<Option<Vec<Cow<'v, [u8]>>>, PlanError> {
    let mut collected = Vec::with_capacity(elements.len());
    for element in elements {
        match element.evaluate(eval)? {
            Evaluated::Null => return invalid!("null is not supported inside collections"),
            Evaluated::Unset => return Ok(None),
            Evaluated::Bytes(bytes) => collected.push(bytes),
        }
    }
    Ok(Some(collected))
}

fn evaluate_map<'v>(
    key: &CqlType,
    entries: &'v [(Term, Term)],
    eval: &Evaluation<'v>,
) -> Result<Evaluated<'v>, PlanError> {
    let mut collected = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key = match key.evaluate(eval)? {
            Evaluated::Null => return invalid!("null is not supported inside collections"),
            Evaluated::Unset => return invalid!("unset value is not supported for map keys"),
            Evaluated::Bytes(bytes) => bytes,
        };
        match value.evaluate(eval)? {
            Evaluated::Null => return invalid!("null is not supported inside collections"),
            Evaluated::Unset => return Ok(Evaluated::Unset),
            Evaluated::Bytes(value) => collected.push((key, value)),
        }
    }
    build(|out| write_map(key, &mut collected, out))
}

fn evaluate_vector<'v>(
    element: &CqlType,
    elements: &'v [Term],
    eval: &Evaluation<'v>,
) -> Result<Evaluated<'v>, PlanError> {
    let mut collected = Vec::with_capacity(elements.len());
    for term in elements {
        match term.evaluate(eval)? {
            Evaluated::Bytes(bytes)
                if !(bytes.is_empty() && types::value::is_empty_meaningless(element)) =>
            {
                collected.push(bytes);
            }
            _ => return invalid!("null is not supported inside vectors"),
        }
    }
    build(|out| write_vector(element, &collected, out))
}

fn evaluate_user<'v>(
    definition: &UserType,
    frozen: bool,
    fields: &'v [Term],
    eval: &Evaluation<'v>,
) -> Result<Evaluated<'v>, PlanError> {
    let mut components = Vec::with_capacity(fields.len());
    for (field, (name, _)) in fields.iter().zip(&definition.fields) {
        components.push(match field.evaluate(eval)? {
            Evaluated::Null => None,
            // A field of its own cell can be left alone; one in the middle of a value cannot.
            Evaluated::Unset if !frozen => None,
            Evaluated::Unset => {
                return invalid!(
                    "Invalid unset value for field '{name}' of user defined type {}",
                    definition.name
                );
            }
            Evaluated::Bytes(bytes) => Some(bytes),
        });
    }
    build(|out| write_tuple(&components, out))
}

fn evaluate_call<'v>(
    function: &dyn ScalarFunction,
    arguments: &'v [Term],
    eval: &Evaluation<'v>,
) -> Result<Evaluated<'v>, PlanError> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(argument.evaluate(eval)?.or_unset_error(|| {
            format!(
                "Invalid unset value for argument in call to function {}",
                function.signature().name
            )
        })?);
    }
    Ok(match function.evaluate(&values, eval.context)? {
        Some(bytes) => Evaluated::Bytes(Cow::Owned(bytes)),
        None => Evaluated::Null,
    })
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Constant(None) => f.write_str("null"),
            Term::Constant(Some(bytes)) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Term::Unset => f.write_str("unset"),
            Term::CurrentTimestamp => f.write_str("now"),
            Term::Marker { index, ty } => write!(f, "?{index}:{ty}"),
            Term::List(elements) => f.debug_list().entries(elements).finish(),
            Term::Set { elements, .. } => f.debug_set().entries(elements).finish(),
            Term::Map { entries, .. } => {
                f.debug_map().entries(entries.iter().map(|(k, v)| (k, v))).finish()
            }
            Term::Vector { elements, .. } => f.debug_tuple("vector").field(elements).finish(),
            Term::Tuple(elements) => f.debug_tuple("tuple").field(elements).finish(),
            Term::User { definition, fields, .. } => {
                f.debug_tuple(&definition.name).field(fields).finish()
            }
            Term::Call { function, arguments } => {
                write!(f, "{}", function.signature().name)?;
                f.debug_list().entries(arguments).finish()
            }
        }
    }
}
