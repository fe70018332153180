//! Bytes, JSON, tokens and uuids.

use std::sync::Arc;

use types::value::json::decode_json_as_java;
use types::value::{ValueError, from_json, has_json, to_json, validate};
use types::{CqlType, PartitionKey, RingToken};

use super::scalar::NativeScalar;
use super::{Call, Function};
use crate::error::{PlanError, invalid};

/// Every native type that has a name.
const NATIVE_NAMES: [&str; 21] = [
    "ascii",
    "bigint",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "empty",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
];

/// `xAsBlob` and `blobAsX`, in both spellings.
pub(super) fn blob_candidates(name: &str) -> Vec<Function> {
    let typed = |text: &str| NATIVE_NAMES.contains(&text).then(|| CqlType::native(text)).flatten();
    let source = name.strip_suffix("_as_blob").or_else(|| name.strip_suffix("asblob"));
    if let Some(from) = source.and_then(typed) {
        let body =
            NativeScalar::new(name.to_string(), vec![from], CqlType::Blob, |arguments, _| {
                Ok(arguments.first().and_then(|value| value.as_deref().map(<[u8]>::to_vec)))
            });
        return vec![body.into_function()];
    }
    let target = name.strip_prefix("blob_as_").or_else(|| name.strip_prefix("blobas"));
    if let Some((to, text)) = target.and_then(|text| typed(text).map(|to| (to, text.to_string()))) {
        return vec![from_blob(name.to_string(), to, text)];
    }
    Vec::new()
}

fn from_blob(name: String, to: CqlType, text: String) -> Function {
    let (target, called) = (to.clone(), name.clone());
    NativeScalar::new(name, vec![CqlType::Blob], to, move |arguments, _| {
        let Some(Some(value)) = arguments.first() else { return Ok(None) };
        if validate(&target, value).is_err() {
            return invalid!(
                "In call to function system.{called}, value 0x{} is not a valid binary representation for type {text}",
                types::value::format::to_hex(value)
            );
        }
        Ok(Some(value.to_vec()))
    })
    .into_function()
}

pub(super) fn uuid() -> Function {
    NativeScalar::new("uuid", Vec::new(), CqlType::Uuid, |_, context| {
        Ok(Some(context.uuids.random_uuid().to_vec()))
    })
    .impure()
    .into_function()
}

/// `token(…)` over the partition key of the statement's table.
pub(super) fn token(call: &Call<'_>) -> Option<Function> {
    let table = call.table?;
    let types: Vec<CqlType> =
        table.partition_key().iter().map(|column| column.cql_type.clone()).collect();
    let count = types.len();
    let function = NativeScalar::new("token", types, CqlType::BigInt, move |arguments, _| {
        let mut key = Vec::new();
        for argument in arguments {
            let Some(value) = argument else { return Ok(None) };
            if count == 1 {
                key.extend_from_slice(value);
            } else {
                PartitionKey::push_component(&mut key, value);
            }
        }
        Ok(Some(RingToken::of_key(&key).token().0.to_be_bytes().to_vec()))
    });
    Some(function.into_function())
}

/// `toJson(x)` of whatever type the argument has.
pub(super) fn to_json_of(name: &str, call: &Call<'_>) -> Result<Option<Function>, PlanError> {
    let [argument] = call.arguments else {
        return invalid!(
            "{name}() only accepts one argument, but {} were given",
            call.arguments.len()
        );
    };
    let Some(argument_type) = argument.compatible_type() else {
        return invalid!(
            "Cannot infer type of argument {} in call to function system.{name}(any): use type casts to disambiguate",
            argument.text()
        );
    };
    let source = argument_type.clone();
    let is_text = matches!(source, CqlType::Text | CqlType::Ascii | CqlType::Blob);
    let reads_as_nothing = source.native_name().is_some() && !is_text;
    let body = NativeScalar::new(
        name.to_string(),
        vec![argument_type],
        CqlType::Text,
        move |arguments, _| {
            let text = match arguments.first() {
                // What Java reads as no object at all.
                Some(Some(value)) if value.is_empty() && reads_as_nothing => "null".to_string(),
                Some(Some(value)) => {
                    if !has_json(&source) {
                        return Err(ValueError::JsonUnsupported.into());
                    }
                    to_json(&source, value)
                }
                _ => "null".to_string(),
            };
            Ok(Some(text.into_bytes()))
        },
    );
    Ok(Some(body.into_function()))
}

/// What Java puts before the complaint about a value.
const MARSHAL: &str = "org.apache.cassandra.serializers.MarshalException";

/// `fromJson(x)` into whatever type is wanted.
pub(super) fn from_json_into(name: &str, call: &Call<'_>) -> Result<Option<Function>, PlanError> {
    let Some(receiver) = call.receiver else {
        return invalid!("{name}() cannot be used in the selection clause of a SELECT statement");
    };
    let (target, called) = (receiver.clone(), Arc::<str>::from(name));
    let shown = Arc::clone(&called);
    let failure = move |message: String| PlanError::FunctionFailure {
        keyspace: "system".into(),
        function: called.as_ref().into(),
        argument_types: vec!["text".into()],
        message: message.into(),
    };
    let body = NativeScalar::new(
        name.to_string(),
        vec![CqlType::Text],
        receiver.clone(),
        move |arguments, _| {
            let Some(Some(value)) = arguments.first() else { return Ok(None) };
            let text = String::from_utf8_lossy(value);
            let json = decode_json_as_java(&text).map_err(|error| {
                failure(format!(
                    "execution of 'system.{shown}[text]' failed: Could not decode JSON string '{text}': {error}"
                ))
            })?;
            from_json(&target, &json).map_err(|error| match error {
                // Cassandra's reader of durations complains as if of the statement.
                ValueError::Unreadable { after: "' to a duration", .. } => {
                    PlanError::Invalid(error.to_string().into())
                }
                _ => failure(format!("{MARSHAL}: {error}")),
            })
        },
    );
    Ok(Some(body.into_function()))
}
