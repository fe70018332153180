//! Functions that take collections and vectors of whatever type.

use types::CqlType;
use types::value::collection::{collection_length, write_count, write_element};
use types::value::{ListIter, MapIter};

use super::scalar::{NativeScalar, present};
use super::{AggregateFunction, Argument, Call, Function, aggregate};
use crate::error::{PlanError, invalid};

const VECTOR_FUNCTIONS: [&str; 3] =
    ["similarity_cosine", "similarity_euclidean", "similarity_dot_product"];

/// Whether overloads of that name are made from the arguments.
pub(super) fn is_known(name: &str) -> bool {
    matches!(
        name,
        "map_keys"
            | "map_values"
            | "collection_count"
            | "collection_min"
            | "collection_max"
            | "collection_sum"
            | "collection_avg"
    ) || VECTOR_FUNCTIONS.contains(&name)
}

pub(super) fn candidate(name: &str, call: &Call<'_>) -> Result<Function, PlanError> {
    if VECTOR_FUNCTIONS.contains(&name) {
        return similarity(name, call);
    }
    let parameter = match name {
        "map_keys" | "map_values" => "map",
        "collection_count" => "collection",
        _ => "numeric_set_or_list",
    };
    let [argument] = call.arguments else {
        return invalid!("Invalid number of arguments for function system.{name}({parameter})");
    };
    let Some(argument_type) = argument.compatible_type() else {
        return invalid!(
            "Cannot infer type of argument {} in call to function system.{name}({parameter}): use type casts to disambiguate",
            argument.text()
        );
    };
    let wrong = |wanted: &str| {
        invalid!(
            "Function system.{name} requires a {wanted} argument, but found argument {} of type {argument_type}",
            argument.text()
        )
    };
    let known = Some(&argument_type).filter(|_| !argument.is_descending_column());
    match (name, known.unwrap_or(&CqlType::Empty)) {
        ("map_keys", CqlType::Map { key, .. }) => {
            let result = CqlType::Set { element: key.clone(), frozen: true };
            Ok(entries(name, argument_type.clone(), result, true))
        }
        ("map_values", CqlType::Map { value, .. }) => {
            let result = CqlType::List { element: value.clone(), frozen: true };
            Ok(entries(name, argument_type.clone(), result, false))
        }
        ("map_keys" | "map_values", _) => wrong("map"),
        ("collection_count", found) if found.is_collection() => Ok(count(argument_type.clone())),
        ("collection_count", _) => wrong("collection"),
        (_, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
            let aggregate = match name {
                "collection_min" => aggregate::extreme("min", element),
                "collection_max" => aggregate::extreme("max", element),
                "collection_sum" => match aggregate::sum(element) {
                    Some(sum) => sum,
                    None => return wrong("numeric set/list"),
                },
                _ => match aggregate::average(element) {
                    Some(average) => average,
                    None => return wrong("numeric set/list"),
                },
            };
            Ok(over_elements(name, argument_type.clone(), aggregate))
        }
        ("collection_min" | "collection_max", _) => wrong("set or list"),
        _ => wrong("numeric set/list"),
    }
}

fn entries(name: &str, argument: CqlType, result: CqlType, keys: bool) -> Function {
    NativeScalar::of_one(name.to_string(), argument, result, move |value| {
        let mut out = Vec::new();
        write_count(collection_length(value).unwrap_or(0), &mut out);
        for entry in MapIter::new(value) {
            let (key, value) = entry?;
            write_element(Some(if keys { key } else { value }), &mut out);
        }
        Ok(Some(out))
    })
    .into_function()
}

fn count(argument: CqlType) -> Function {
    NativeScalar::of_one("collection_count", argument, CqlType::Int, |value| {
        let count = i32::try_from(collection_length(value).unwrap_or(0)).unwrap_or(i32::MAX);
        Ok(Some(count.to_be_bytes().to_vec()))
    })
    .into_function()
}

fn over_elements(
    name: &str,
    argument: CqlType,
    aggregate: impl AggregateFunction + 'static,
) -> Function {
    let result = aggregate.signature().result.clone();
    let collection = argument.clone();
    NativeScalar::new(name.to_string(), vec![argument], result, move |arguments, context| {
        let Some(value) = present(arguments, 0, &collection) else { return Ok(None) };
        let mut state = aggregate.new_state();
        for element in ListIter::new(value) {
            state.add(&[element?.map(std::borrow::Cow::Borrowed)], context)?;
        }
        state.finish(context)
    })
    .into_function()
}

/// The vector type of an argument, where it can be known.
fn vector_type(argument: &dyn Argument, receiver: Option<&CqlType>) -> Option<CqlType> {
    if let Some(length) = argument.array_literal_length() {
        let dimension = u16::try_from(length).ok()?;
        return Some(CqlType::Vector { element: std::sync::Arc::new(CqlType::Float), dimension });
    }
    argument.compatible_type().or_else(|| receiver.cloned())
}

fn similarity(name: &str, call: &Call<'_>) -> Result<Function, PlanError> {
    let [first, second] = call.arguments else {
        return invalid!(
            "Invalid number of arguments for function system.{name}(vector<float, n>, vector<float, n>)"
        );
    };
    let first_type = vector_type(*first, None);
    let second_type = vector_type(*second, None);
    let known = |argument: &dyn Argument, own: Option<CqlType>, other: &Option<CqlType>| match own
        .or_else(|| other.clone())
    {
        Some(found) => Ok(found),
        None => invalid!(
            "Cannot infer type of argument {} in call to function system.{name}(vector<float, n>, vector<float, n>): use type casts to disambiguate",
            argument.text()
        ),
    };
    let left = known(*first, first_type.clone(), &second_type)?;
    let right = known(*second, second_type, &first_type)?;
    let dimension = |argument: &dyn Argument, found: &CqlType| match found {
        CqlType::Vector { element, dimension }
            if **element == CqlType::Float && !argument.is_descending_column() =>
        {
            Ok(*dimension)
        }
        _ => invalid!(
            "Function system.{name} requires a float vector argument, but found argument {} of type {found}",
            argument.text()
        ),
    };
    if dimension(*first, &left)? != dimension(*second, &right)? {
        return invalid!("All arguments must have the same vector dimensions");
    }
    let called = name.to_string();
    let body = NativeScalar::new(
        name.to_string(),
        vec![left, right],
        CqlType::Float,
        move |arguments, _| {
            let floats = |index: usize| {
                let value = arguments.get(index)?.as_deref()?;
                let (chunks, _) = value.as_chunks::<4>();
                Some(chunks.iter().map(|bytes| f32::from_be_bytes(*bytes)).collect::<Vec<f32>>())
            };
            let Some((left, right)) = floats(0).zip(floats(1)) else { return Ok(None) };
            let is_zero = |vector: &[f32]| vector.iter().all(|number| *number == 0.0);
            if called == "similarity_cosine" && (is_zero(&left) || is_zero(&right)) {
                return invalid!("Function system.{called} doesn't support all-zero vectors.");
            }
            Ok(Some(measure(&called, &left, &right).to_be_bytes().to_vec()))
        },
    );
    Ok(body.into_function())
}

/// Scores between 0 and 1, as the library that Cassandra uses defines them.
fn measure(name: &str, left: &[f32], right: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    match name {
        "similarity_euclidean" => {
            let distance: f32 = left.iter().zip(right).map(|(x, y)| (x - y) * (x - y)).sum();
            1.0 / (1.0 + distance)
        }
        "similarity_dot_product" => (1.0 + dot(left, right)) / 2.0,
        _ => {
            let norms = (f64::from(dot(left, left)) * f64::from(dot(right, right))).sqrt();
            (1.0 + (f64::from(dot(left, right)) / norms) as f32) / 2.0
        }
    }
}
