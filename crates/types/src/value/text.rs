//! CQL constants to bytes: which kind of constant a type takes, and how its text is read.

use std::fmt;

use super::collection;
use super::custom::Custom;
use super::decimal::Decimal;
use super::duration::Duration;
use super::error::ValueError;
use super::{inet, java_float, temporal, varint};
use crate::CqlType;

/// The kinds of constants that the grammar of CQL tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// `'text'`
    String,
    /// `12`
    Integer,
    /// A uuid without quotes.
    Uuid,
    /// `1.5`, `NaN`, `-Infinity`
    Float,
    /// `true`
    Boolean,
    /// `0xff`
    Hex,
    /// `2d3h`
    Duration,
}

impl fmt::Display for LiteralKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LiteralKind::String => "STRING",
            LiteralKind::Integer => "INTEGER",
            LiteralKind::Uuid => "UUID",
            LiteralKind::Float => "FLOAT",
            LiteralKind::Boolean => "BOOLEAN",
            LiteralKind::Hex => "HEX",
            LiteralKind::Duration => "DURATION",
        })
    }
}

/// Whether a value of one kind may stand where a type is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// It is of the very type.
    Exact,
    /// It can be read as the type.
    Weak,
    /// It cannot.
    No,
}

impl LiteralKind {
    /// The type a constant has when nothing else says so.
    pub fn preferred_type(self, text: &str) -> CqlType {
        match self {
            LiteralKind::String if text.is_ascii() => CqlType::Ascii,
            LiteralKind::String => CqlType::Text,
            LiteralKind::Integer => match text.parse::<i64>() {
                Ok(value) if i32::try_from(value).is_ok() => CqlType::Int,
                Ok(_) => CqlType::BigInt,
                Err(_) => CqlType::Varint,
            },
            LiteralKind::Uuid if text.as_bytes().get(14) == Some(&b'1') => CqlType::TimeUuid,
            LiteralKind::Uuid => CqlType::Uuid,
            LiteralKind::Float if fits_double(text) => CqlType::Double,
            LiteralKind::Float => CqlType::Decimal,
            LiteralKind::Boolean => CqlType::Boolean,
            // Cassandra says tinyint here, where blob was meant; and so it takes a hex constant
            // for a tinyint.
            LiteralKind::Hex => CqlType::TinyInt,
            LiteralKind::Duration => CqlType::Duration,
        }
    }

    /// Whether a constant may stand where a type is expected.
    pub fn assignment(self, text: &str, ty: &CqlType) -> Assignment {
        if ty.native_name().is_none() {
            // Whatever text a tuple or custom type makes of it.
            return match ty {
                CqlType::Tuple(_) | CqlType::Custom(_) => Assignment::Weak,
                _ => Assignment::No,
            };
        }
        if self.takes(ty) {
            return match *ty == self.preferred_type(text) {
                true => Assignment::Exact,
                false => Assignment::Weak,
            };
        }
        match (self, ty) {
            (LiteralKind::Hex, CqlType::TinyInt) => Assignment::Exact,
            _ => Assignment::No,
        }
    }

    fn takes(self, ty: &CqlType) -> bool {
        use CqlType::{
            Ascii, BigInt, Blob, Boolean, Counter, Date, Decimal, Double, Duration, Float, Inet,
            Int, SmallInt, Text, Time, TimeUuid, Timestamp, TinyInt, Uuid, Varint,
        };
        match self {
            LiteralKind::String => matches!(ty, Ascii | Text | Inet | Date | Time | Timestamp),
            LiteralKind::Integer => matches!(
                ty,
                BigInt
                    | Counter
                    | Date
                    | Decimal
                    | Double
                    | Duration
                    | Float
                    | Int
                    | SmallInt
                    | Time
                    | Timestamp
                    | TinyInt
                    | Varint
            ),
            LiteralKind::Uuid => matches!(ty, Uuid | TimeUuid),
            LiteralKind::Float => matches!(ty, Decimal | Double | Float),
            LiteralKind::Boolean => matches!(ty, Boolean),
            LiteralKind::Hex => matches!(ty, Blob),
            LiteralKind::Duration => matches!(ty, Duration),
        }
    }
}

/// Whether a double holds the decimal number exactly, as its shortest digits.
fn fits_double(text: &str) -> bool {
    let Some(exact) = Decimal::parse(text) else {
        return true;
    };
    let nearest = text.parse::<f64>().ok().filter(|value| value.is_finite());
    nearest
        .and_then(|value| Decimal::parse(&java_float::double_to_string(value)))
        .is_some_and(|shown| shown.compare(&exact).is_eq())
}

/// The bytes of a constant for a receiver, whose name and type an error shows.
pub fn parse_literal_for(
    receiver: &str,
    ty: &CqlType,
    text: &str,
    kind: LiteralKind,
) -> Result<Vec<u8>, ValueError> {
    if kind.assignment(text, ty) == Assignment::No {
        return Err(ValueError::WrongConstant {
            kind,
            text: text.into(),
            receiver: receiver.into(),
            ty: ty.clone(),
        });
    }
    parse_literal(ty, text, kind)
}

/// The bytes of a constant that is known to be assignable. The text is without quotes; a hex
/// constant keeps its `0x`.
pub fn parse_literal(ty: &CqlType, text: &str, kind: LiteralKind) -> Result<Vec<u8>, ValueError> {
    match (kind, ty) {
        (LiteralKind::Hex, _) => {
            let bytes = parse_hex(text.get(2..).unwrap_or(""))?;
            // Other bytes are taken unseen; Cassandra stumbles over such a uuid.
            if let CqlType::Custom(class) = ty
                && let uuid @ Custom::LexicalUuid = Custom::of(class)
            {
                uuid.validate(&bytes)?;
            }
            Ok(bytes)
        }
        (_, CqlType::Counter) => parse_text(&CqlType::BigInt, text),
        _ => parse_text(ty, text),
    }
}

/// The bytes that a type reads from plain text: Cassandra's `fromString`.
pub fn parse_text(ty: &CqlType, text: &str) -> Result<Vec<u8>, ValueError> {
    let wrong = |before, after| ValueError::Unreadable { before, text: text.into(), after };
    if let CqlType::Custom(class) = ty
        && let Some(parsed) = Custom::of(class).parse(text)
    {
        return parsed;
    }
    let empty_is_empty = !matches!(
        ty,
        CqlType::Boolean | CqlType::Date | CqlType::Time | CqlType::Tuple(_) | CqlType::User { .. }
    );
    if text.is_empty() && empty_is_empty {
        return Ok(Vec::new());
    }
    let int = |bytes: Option<Vec<u8>>, before| bytes.ok_or_else(|| wrong(before, "'"));
    match ty {
        CqlType::Text => Ok(text.as_bytes().to_vec()),
        CqlType::Ascii => match text.chars().find(|c| !c.is_ascii()) {
            Some(c) => Err(ValueError::AsciiLiteral(c.len_utf16())),
            None => Ok(text.as_bytes().to_vec()),
        },
        CqlType::TinyInt => {
            int(text.parse().ok().map(|n: i8| n.to_be_bytes().into()), "Unable to make byte from '")
        }
        CqlType::SmallInt => int(
            text.parse().ok().map(|n: i16| n.to_be_bytes().into()),
            "Unable to make short from '",
        ),
        CqlType::Int => {
            int(text.parse().ok().map(|n: i32| n.to_be_bytes().into()), "Unable to make int from '")
        }
        CqlType::BigInt => int(
            text.parse().ok().map(|n: i64| n.to_be_bytes().into()),
            "Unable to make long from '",
        ),
        CqlType::Varint => {
            let number = varint::parse(text).map(|n| n.to_signed_bytes_be());
            int(number, "unable to make int from '")
        }
        CqlType::Decimal => {
            let number = Decimal::parse(text).map(|n| n.to_bytes());
            int(number, "unable to make BigDecimal from '")
        }
        CqlType::Float => {
            let number = float_text(text).and_then(|text| text.parse().ok());
            int(number.map(|n: f32| java_nan32(n).into()), "Unable to make float from '")
        }
        CqlType::Double => {
            let number = float_text(text).and_then(|text| text.parse().ok());
            int(number.map(|n: f64| java_nan64(n).into()), "Unable to make double from '")
        }
        CqlType::Boolean if text.is_empty() || text.eq_ignore_ascii_case("false") => Ok(vec![0]),
        CqlType::Boolean if text.eq_ignore_ascii_case("true") => Ok(vec![1]),
        CqlType::Boolean => Err(wrong("Unable to make boolean from '", "'")),
        CqlType::Blob
        | CqlType::Counter
        | CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Vector { .. }
        | CqlType::Custom(_) => parse_hex(text),
        CqlType::Date => temporal::parse_date(text).map(|days| days.to_be_bytes().into()),
        CqlType::Time => temporal::parse_time(text).map(|nanos| nanos.to_be_bytes().into()),
        CqlType::Timestamp => temporal::parse_timestamp(text).map(|ms| ms.to_be_bytes().into()),
        CqlType::Duration => Duration::parse(text).map(|duration| {
            let mut out = Vec::new();
            duration.encode(&mut out);
            out
        }),
        CqlType::Inet => int(inet::parse(text), "Unable to make inet address from '"),
        CqlType::Uuid => int(parse_uuid(text).map(Into::into), "Unable to make UUID from '"),
        CqlType::TimeUuid => match parse_uuid(text) {
            Some(uuid) if uuid.get(6).is_some_and(|byte| byte & 0xf0 == 0x10) => Ok(uuid.into()),
            Some(_) => Err(wrong("TimeUUID supports only version 1 UUIDs", "").without_text()),
            None => Err(wrong("Unknown timeuuid representation: ", "")),
        },
        CqlType::Empty => Err(wrong("'", "' is not empty")),
        CqlType::Tuple(types) => parse_tuple(ty, types.iter(), types.len(), text),
        CqlType::User { definition, .. } => {
            let fields = &definition.fields;
            parse_tuple(ty, fields.iter().map(|(_, ty)| ty), fields.len(), text)
        }
    }
}

impl ValueError {
    fn without_text(self) -> Self {
        match self {
            Self::Unreadable { before, after, .. } => {
                Self::Unreadable { before, text: "".into(), after }
            }
            other => other,
        }
    }
}

/// Hex digits in pairs, without `0x`.
pub fn parse_hex(text: &str) -> Result<Vec<u8>, ValueError> {
    let wrong = || ValueError::Unreadable {
        before: "cannot parse '",
        text: text.into(),
        after: "' as hex bytes",
    };
    let nibble = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    pairs.iter().map(|&[high, low]| Ok((nibble(high)? << 4 | nibble(low)?) as u8)).collect()
}

/// A uuid in its one text form, `8-4-4-4-12` hex digits.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    if text.len() != 36 {
        return None;
    }
    let mut value: u128 = 0;
    for (index, byte) in text.bytes().enumerate() {
        if DASHES.contains(&index) {
            if byte != b'-' {
                return None;
            }
        } else {
            value = value << 4 | u128::from(char::from(byte).to_digit(16)?);
        }
    }
    Some(value.to_be_bytes())
}

/// Java turns every NaN it makes from text into this one.
fn java_nan32(value: f32) -> [u8; 4] {
    if value.is_nan() { 0x7fc0_0000_u32.to_be_bytes() } else { value.to_be_bytes() }
}

fn java_nan64(value: f64) -> [u8; 8] {
    if value.is_nan() { 0x7ff8_0000_0000_0000_u64.to_be_bytes() } else { value.to_be_bytes() }
}

/// The part of a text that both Java and Rust read as a floating-point number: Java allows blanks
/// around it and a type letter after it, and wants `NaN` and `Infinity` in exactly this case.
fn float_text(text: &str) -> Option<&str> {
    let text = text.trim_matches(|c| c <= ' ');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        "NaN" => return Some("NaN"),
        "Infinity" => return Some(text),
        _ => {}
    }
    let text = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    number.then_some(text)
}

/// Components between colons, `@` for null, a backslash before a colon or `@` that is meant.
fn parse_tuple<'t>(
    ty: &CqlType,
    types: impl Iterator<Item = &'t CqlType>,
    expected: usize,
    text: &str,
) -> Result<Vec<u8>, ValueError> {
    let parts = split_components(text);
    if parts.len() > expected {
        return Err(ValueError::TupleLiteral { ty: ty.clone(), expected, actual: parts.len() });
    }
    let mut out = Vec::new();
    for (ty, part) in types.zip(parts) {
        if part == "@" {
            collection::write_element(None, &mut out);
            continue;
        }
        let part = part.replace("\\:", ":").replace("\\@", "@");
        collection::write_element(Some(&parse_text(ty, &part)?), &mut out);
    }
    Ok(out)
}

fn split_components(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        if c == ':' && !escaped {
            parts.extend(text.get(start..index));
            start = index + 1;
        }
        escaped = c == '\\';
    }
    parts.extend(text.get(start..));
    parts
}
