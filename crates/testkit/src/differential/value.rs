//! Values: from small pools, so that keys collide and comparisons meet equal values.

use types::CqlType;
use types::value::{
    parse_text, to_json, write_list, write_map, write_set, write_tuple, write_vector,
};

use super::random::Dice;

/// A value as CQL writes it and as the protocol carries it.
#[derive(Clone, Debug)]
pub(super) struct Literal {
    /// The CQL text.
    pub(super) text: String,
    /// The bytes; `None` for null.
    pub(super) bytes: Option<Vec<u8>>,
    /// The JSON text.
    pub(super) json: String,
}

/// How many values of a pool keys are made of.
const KEY_VALUES: usize = 4;

/// The texts of the values of a native type, without quotes. The first ones make keys.
fn pool(ty: &CqlType) -> &'static [&'static str] {
    match ty {
        CqlType::Ascii => &["a", "b", "ab", "", "Z", "it is", "0"],
        CqlType::Text => &["a", "b", "ab", "é", "", "Z", "a b", "\u{1F600}", "zz\"quoted\""],
        CqlType::Blob => &["0x01", "0x02", "0x0102", "0xff", "0x", "0x00", "0x80", "0xcafe"],
        CqlType::Boolean => &["true", "false"],
        CqlType::TinyInt => &["0", "1", "-1", "2", "127", "-128"],
        CqlType::SmallInt => &["0", "1", "-1", "2", "32767", "-32768", "300"],
        CqlType::Int => &["0", "1", "-1", "2", "3", "2147483647", "-2147483648", "70000"],
        CqlType::BigInt => {
            &["0", "1", "-1", "2", "9223372036854775807", "-9223372036854775808", "5000000000"]
        }
        CqlType::Counter => &["1", "2", "-1", "10"],
        CqlType::Varint => {
            &["0", "1", "-1", "128", "99999999999999999999", "-99999999999999999999", "255", "-129"]
        }
        CqlType::Decimal => {
            &["0", "1.5", "-1.5", "1", "1.50", "12345678901234567890.123", "1E5", "-0.001", "1.0"]
        }
        CqlType::Float => {
            &["0", "1.5", "-1.5", "1", "NaN", "Infinity", "-Infinity", "3.4e38", "1e-10", "0.1"]
        }
        CqlType::Double => {
            &["0", "1.5", "-1.5", "1", "NaN", "Infinity", "-Infinity", "1e300", "1e-10", "0.1"]
        }
        CqlType::Date => &["2020-01-01", "1970-01-01", "1969-12-31", "2024-02-29", "1900-01-01"],
        CqlType::Time => &["00:00:00", "12:34:56.789", "23:59:59.999999999", "01:02:03"],
        CqlType::Timestamp => &[
            "2020-01-01 00:00:00+0000",
            "1970-01-01 00:00:00.001+0000",
            "1969-12-31 23:59:59+0000",
            "2024-02-29 12:00:00.123+0000",
            "2020-01-01T10:11:12Z",
        ],
        CqlType::Uuid => &[
            "123e4567-e89b-42d3-a456-426614174000",
            "00000000-0000-4000-8000-000000000001",
            "50554d6e-29bb-11e5-b345-feff819cdc9f",
            "ffffffff-ffff-4fff-bfff-ffffffffffff",
        ],
        CqlType::TimeUuid => &[
            "50554d6e-29bb-11e5-b345-feff819cdc9f",
            "50554d6f-29bb-11e5-b345-feff819cdc9f",
            "d2177dd0-eaa2-11de-a572-001b779c76e3",
            "00000001-0000-1000-8080-808080808080",
        ],
        CqlType::Inet => &["10.0.0.1", "::1", "192.168.1.1", "2001:db8::1", "255.255.255.255"],
        CqlType::Duration => &["1d", "1mo2d3h", "-1y", "12h30m", "1us", "2w"],
        _ => &["0"],
    }
}

fn is_quoted(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Ascii
            | CqlType::Text
            | CqlType::Date
            | CqlType::Time
            | CqlType::Timestamp
            | CqlType::Inet
    )
}

fn native(ty: &CqlType, text: &str) -> Literal {
    let plain = if *ty == CqlType::Blob { text.trim_start_matches("0x") } else { text };
    let bytes = parse_text(ty, plain).unwrap_or_default();
    let json = to_json(ty, &bytes);
    let text =
        if is_quoted(ty) { format!("'{}'", text.replace('\'', "''")) } else { text.to_string() };
    Literal { text, bytes: Some(bytes), json }
}

/// A value of a key: one of a few.
pub(super) fn key_literal(ty: &CqlType, dice: &mut Dice) -> Literal {
    if ty.native_name().is_some() {
        let values = pool(ty);
        let text = values[dice.below(values.len().min(KEY_VALUES))];
        return native(ty, text);
    }
    literal(ty, dice)
}

/// A value of any type.
pub(super) fn literal(ty: &CqlType, dice: &mut Dice) -> Literal {
    match ty {
        CqlType::List { element, .. } => {
            let items = elements(element, dice, 0, 3);
            let mut bytes = Vec::new();
            write_list(&bytes_of(&items), &mut bytes);
            composed(ty, format!("[{}]", texts(&items)), bytes)
        }
        CqlType::Set { element, .. } => {
            let items = distinct(elements(element, dice, 0, 3));
            let mut bytes = Vec::new();
            write_set(element, &mut bytes_of(&items), &mut bytes);
            composed(ty, format!("{{{}}}", texts(&items)), bytes)
        }
        CqlType::Map { key, value, .. } => {
            let keys = distinct(elements(key, dice, 0, 3));
            let values = elements(value, dice, keys.len(), keys.len());
            let pairs = keys.iter().zip(&values);
            let text: Vec<String> =
                pairs.map(|(key, value)| format!("{}: {}", key.text, value.text)).collect();
            let mut entries: Vec<(Vec<u8>, Vec<u8>)> =
                bytes_of(&keys).into_iter().zip(bytes_of(&values)).collect();
            let mut bytes = Vec::new();
            write_map(key, &mut entries, &mut bytes);
            composed(ty, format!("{{{}}}", text.join(", ")), bytes)
        }
        CqlType::Tuple(parts) => {
            let items: Vec<Literal> = parts.iter().map(|part| component(part, dice)).collect();
            let mut bytes = Vec::new();
            write_tuple(&options(&items), &mut bytes);
            composed(ty, format!("({})", texts(&items)), bytes)
        }
        CqlType::User { definition, .. } => {
            let items: Vec<Literal> =
                definition.fields.iter().map(|(_, field)| component(field, dice)).collect();
            let mut bytes = Vec::new();
            write_tuple(&options(&items), &mut bytes);
            let fields = definition.fields.iter().zip(&items);
            let text: Vec<String> =
                fields.map(|((name, _), item)| format!("{name}: {}", item.text)).collect();
            composed(ty, format!("{{{}}}", text.join(", ")), bytes)
        }
        CqlType::Vector { element, dimension } => {
            let count = usize::from(*dimension);
            let items = elements(element, dice, count, count);
            let mut bytes = Vec::new();
            write_vector(element, &bytes_of(&items), &mut bytes);
            composed(ty, format!("[{}]", texts(&items)), bytes)
        }
        ty => native(ty, dice.word(pool(ty))),
    }
}

fn composed(ty: &CqlType, text: String, bytes: Vec<u8>) -> Literal {
    let json = to_json(ty, &bytes);
    Literal { text, bytes: Some(bytes), json }
}

fn elements(ty: &CqlType, dice: &mut Dice, low: usize, high: usize) -> Vec<Literal> {
    (0..dice.between(low, high)).map(|_| key_literal(ty, dice)).collect()
}

fn distinct(items: Vec<Literal>) -> Vec<Literal> {
    let mut kept: Vec<Literal> = Vec::new();
    for item in items {
        if kept.iter().all(|other| other.bytes != item.bytes) {
            kept.push(item);
        }
    }
    kept
}

/// A part of a tuple or user type, which may be null.
fn component(ty: &CqlType, dice: &mut Dice) -> Literal {
    if dice.chance(12) { null() } else { key_literal(ty, dice) }
}

pub(super) fn null() -> Literal {
    Literal { text: "null".into(), bytes: None, json: "null".into() }
}

fn texts(items: &[Literal]) -> String {
    items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>().join(", ")
}

fn bytes_of(items: &[Literal]) -> Vec<Vec<u8>> {
    items.iter().map(|item| item.bytes.clone().unwrap_or_default()).collect()
}

fn options(items: &[Literal]) -> Vec<Option<Vec<u8>>> {
    items.iter().map(|item| item.bytes.clone()).collect()
}

/// Any of the native types that a column may have.
pub(super) fn any_native(dice: &mut Dice) -> CqlType {
    dice.pick(&[
        CqlType::Ascii,
        CqlType::BigInt,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::SmallInt,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::TimeUuid,
        CqlType::TinyInt,
        CqlType::Uuid,
        CqlType::Varint,
        CqlType::Int,
        CqlType::Text,
        CqlType::Duration,
    ])
    .clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::value::validate;

    #[test]
    fn literals_are_valid_values_of_their_type() {
        let mut dice = Dice::new(1);
        for _ in 0..500 {
            let ty = any_native(&mut dice);
            let value = literal(&ty, &mut dice);
            assert!(validate(&ty, &value.bytes.unwrap()).is_ok(), "{ty} {}", value.text);
        }
    }
}
