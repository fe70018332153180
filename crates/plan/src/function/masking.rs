//! Dynamic data masking: `mask_null`, `mask_default`, `mask_replace`, `mask_inner`, `mask_outer`,
//! `mask_hash`.

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use types::CqlType;
use types::value::{write_list, write_tuple, write_vector};

use super::scalar::NativeScalar;
use super::{Argument, Call, Function};
use crate::error::{PlanError, invalid};

pub(super) fn is_known(name: &str) -> bool {
    matches!(
        name,
        "mask_null" | "mask_default" | "mask_replace" | "mask_inner" | "mask_outer" | "mask_hash"
    )
}

pub(super) fn candidate(name: &str, call: &Call<'_>) -> Result<Function, PlanError> {
    let count = call.arguments.len();
    let (parameters, fits) = match name {
        "mask_null" | "mask_default" => ("any", count == 1),
        "mask_replace" => ("any, any", count == 2),
        "mask_hash" => ("any, [text]", (1..=2).contains(&count)),
        _ => ("[text|varchar|ascii], int, int, [text]", (3..=4).contains(&count)),
    };
    let Some((first, rest)) = call.arguments.split_first().filter(|_| fits) else {
        return invalid!("Invalid number of arguments for function system.{name}({parameters})");
    };
    match name {
        "mask_null" => {
            let masked = infer(name, *first, None)?;
            let body =
                NativeScalar::new("mask_null", vec![masked.clone()], masked, |_, _| Ok(None));
            Ok(body.into_function())
        }
        "mask_default" => {
            let masked = infer(name, *first, None)?;
            let value = default_of(&masked);
            let body =
                NativeScalar::new("mask_default", vec![masked.clone()], masked, move |_, _| {
                    Ok(value.clone())
                });
            Ok(body.into_function())
        }
        "mask_replace" => {
            let masked = infer(name, *first, call.receiver)?;
            let types = vec![masked.clone(), masked.clone()];
            let body = NativeScalar::new("mask_replace", types, masked, |arguments, _| {
                Ok(arguments.get(1).and_then(|value| value.as_deref().map(<[u8]>::to_vec)))
            });
            Ok(body.into_function())
        }
        "mask_hash" => hash(infer(name, *first, None)?, !rest.is_empty()),
        _ => partial(name, *first, count == 4),
    }
}

fn infer(
    name: &str,
    argument: &dyn Argument,
    receiver: Option<&CqlType>,
) -> Result<CqlType, PlanError> {
    match argument.compatible_type().or_else(|| receiver.cloned()) {
        Some(found) => Ok(found),
        None => invalid!(
            "Cannot infer type of argument {} in call to function system.{name}(any): use type casts to disambiguate",
            argument.text()
        ),
    }
}

/// The value that a masked one is shown as.
fn default_of(cql_type: &CqlType) -> Option<Vec<u8>> {
    Some(match cql_type {
        CqlType::Ascii | CqlType::Text => b"****".to_vec(),
        CqlType::Boolean => vec![0],
        CqlType::Blob | CqlType::Empty | CqlType::Custom(_) => Vec::new(),
        CqlType::Date => (1u32 << 31).to_be_bytes().to_vec(),
        CqlType::Decimal => vec![0; 5],
        CqlType::Duration => vec![0; 3],
        CqlType::Inet => vec![0; 4],
        CqlType::Varint => vec![0],
        CqlType::TimeUuid => types::value::timeuuid::min_timeuuid(0).to_vec(),
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => {
            let mut out = Vec::new();
            write_list::<Vec<u8>>(&[], &mut out);
            out
        }
        CqlType::Tuple(parts) => masked_tuple(parts.iter()),
        CqlType::User { definition, .. } => {
            masked_tuple(definition.fields.iter().map(|(_, part)| part))
        }
        CqlType::Vector { element, dimension } => {
            let elements = vec![default_of(element).unwrap_or_default(); usize::from(*dimension)];
            let mut out = Vec::new();
            write_vector(element, &elements, &mut out);
            out
        }
        other => vec![0; other.fixed_length().unwrap_or(0)],
    })
}

fn masked_tuple<'t>(parts: impl Iterator<Item = &'t CqlType>) -> Vec<u8> {
    let parts: Vec<Option<Vec<u8>>> = parts.map(default_of).collect();
    let mut out = Vec::new();
    write_tuple(&parts, &mut out);
    out
}

fn hash(masked: CqlType, has_algorithm: bool) -> Result<Function, PlanError> {
    let mut types = vec![masked];
    if has_algorithm {
        types.push(CqlType::Text);
    }
    let body = NativeScalar::new("mask_hash", types, CqlType::Blob, |arguments, _| {
        let algorithm = match arguments.get(1) {
            Some(Some(name)) => String::from_utf8_lossy(name).into_owned(),
            _ => "SHA-256".to_string(),
        };
        let Some(Some(value)) = arguments.first() else {
            return digest(&algorithm, &[]).map(|_| None);
        };
        digest(&algorithm, value).map(Some)
    });
    Ok(body.into_function())
}

fn digest(algorithm: &str, value: &[u8]) -> Result<Vec<u8>, PlanError> {
    Ok(match algorithm.to_ascii_uppercase().as_str() {
        "MD5" => Md5::digest(value).to_vec(),
        "SHA" | "SHA1" | "SHA-1" => Sha1::digest(value).to_vec(),
        "SHA-224" => Sha224::digest(value).to_vec(),
        "SHA-256" => Sha256::digest(value).to_vec(),
        "SHA-384" => Sha384::digest(value).to_vec(),
        "SHA-512" => Sha512::digest(value).to_vec(),
        _ => return invalid!("Hash algorithm not found: {algorithm}"),
    })
}

fn partial(name: &str, first: &dyn Argument, has_padding: bool) -> Result<Function, PlanError> {
    let masked = first.compatible_type().unwrap_or(CqlType::Text);
    if !matches!(masked, CqlType::Text | CqlType::Ascii) {
        return invalid!(
            "Function system.{name} requires an argument of type [text|varchar|ascii], but found argument {} of type {masked}",
            first.text()
        );
    }
    let mut types = vec![masked.clone(), CqlType::Int, CqlType::Int];
    if has_padding {
        types.push(CqlType::Text);
    }
    let is_inner = name == "mask_inner";
    let called = name.to_string();
    let body = NativeScalar::new(name.to_string(), types, masked, move |arguments, _| {
        let argument = |index: usize| arguments.get(index).and_then(|value| value.as_deref());
        let padding = match argument(3).map(String::from_utf8_lossy) {
            None => u16::from(b'*'),
            Some(text) => match (text.encode_utf16().next(), text.encode_utf16().nth(1)) {
                (Some(only), None) => only,
                _ => {
                    return invalid!(
                        "The padding argument for function system.{called} should be single-character, but '{text}' has {} characters.",
                        text.encode_utf16().count()
                    );
                }
            },
        };
        let Some(value) = argument(0) else { return Ok(None) };
        let number = |index: usize| {
            argument(index)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, |bytes| i64::from(i32::from_be_bytes(bytes)))
        };
        let (begin, end) = (number(1), number(2));
        let text = String::from_utf8_lossy(value);
        // Java's characters: a letter past 16 bits is two, and half of it reads as a question mark.
        let last = text.encode_utf16().count() as i64 - 1 - end;
        let masked = text.encode_utf16().zip(0i64..).map(|(letter, place)| {
            let is_inside = place >= begin && place <= last;
            if is_inside == is_inner { padding } else { letter }
        });
        let masked: String =
            char::decode_utf16(masked).map(|letter| letter.unwrap_or('?')).collect();
        Ok(Some(masked.into_bytes()))
    });
    Ok(body.into_function())
}
