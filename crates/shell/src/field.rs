//! The text of a value in a file, as COPY reads it: as cqlsh writes it.

use types::CqlType;
use types::value::collection::{write_list, write_map, write_set, write_tuple, write_vector};
use types::value::parse_text;

/// Values within values are followed so far.
const DEPTH_MAX: usize = 64;

/// The bytes of a field.
pub(crate) fn parse_field(
    ty: &CqlType,
    text: &str,
    yes_and_no: &[String; 2],
) -> Result<Vec<u8>, String> {
    parse(ty, text, yes_and_no, DEPTH_MAX)
}

fn parse(
    ty: &CqlType,
    text: &str,
    yes_and_no: &[String; 2],
    depth_left: usize,
) -> Result<Vec<u8>, String> {
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return Err("nested too deeply".to_owned());
    };
    let inner =
        |ty: &CqlType, text: &str| parse(ty, unquoted(ty, text)?.as_ref(), yes_and_no, depth_left);
    let mut out = Vec::new();
    match ty {
        CqlType::Text | CqlType::Ascii => return parse_text(ty, text).map_err(|e| e.to_string()),
        CqlType::List { element, .. } => {
            let parts = parts(text, '[', ']')?;
            let values: Result<Vec<_>, _> = parts.iter().map(|part| inner(element, part)).collect();
            write_list(&values?, &mut out);
        }
        CqlType::Vector { element, dimension } => {
            let parts = parts(text, '[', ']')?;
            if parts.len() != usize::from(*dimension) {
                return Err(format!("{} elements, not {dimension}", parts.len()));
            }
            let values: Result<Vec<_>, _> = parts.iter().map(|part| inner(element, part)).collect();
            write_vector(element, &values?, &mut out);
        }
        CqlType::Set { element, .. } => {
            let parts = parts(text, '{', '}')?;
            let values: Result<Vec<_>, _> = parts.iter().map(|part| inner(element, part)).collect();
            write_set(element, &mut values?, &mut out);
        }
        CqlType::Map { key, value, .. } => {
            let mut entries = Vec::new();
            for part in parts(text, '{', '}')? {
                let (from, to) = entry(part)?;
                entries.push((inner(key, from)?, inner(value, to)?));
            }
            write_map(key, &mut entries, &mut out);
        }
        CqlType::Tuple(types) => {
            let parts = parts(text, '(', ')')?;
            if parts.len() > types.len() {
                return Err(format!("{} parts, not {}", parts.len(), types.len()));
            }
            let mut values = Vec::new();
            for (ty, part) in types.iter().zip(parts) {
                values.push(if is_null(part) { None } else { Some(inner(ty, part)?) });
            }
            write_tuple(&values, &mut out);
        }
        CqlType::User { definition, .. } => {
            let mut given = Vec::new();
            for part in parts(text, '{', '}')? {
                given.push(entry(part)?);
            }
            let named = |wanted: &str| {
                let found = given.iter().find(|(name, _)| name.trim().trim_matches('"') == wanted);
                found.map(|(_, value)| *value).filter(|value| !is_null(value))
            };
            let mut values = Vec::new();
            for (name, ty) in &definition.fields {
                values.push(named(name).map(|value| inner(ty, value)).transpose()?);
            }
            let known =
                |name: &str| definition.fields.iter().any(|(field, _)| field.as_ref() == name);
            if let Some((name, _)) =
                given.iter().find(|(name, _)| !known(name.trim().trim_matches('"')))
            {
                return Err(format!("{} has no field {}", definition.name, name.trim()));
            }
            write_tuple(&values, &mut out);
        }
        CqlType::Boolean => {
            let [yes, no] = yes_and_no;
            let text = text.trim();
            match (text.eq_ignore_ascii_case(yes), text.eq_ignore_ascii_case(no)) {
                (true, _) => out.push(1),
                (false, true) => out.push(0),
                (false, false) => return Err(format!("{text:?} is neither {yes} nor {no}")),
            }
        }
        CqlType::Blob | CqlType::Custom(_) => {
            let text = text.trim();
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
            let digits = digits.ok_or_else(|| format!("{text:?} does not begin with 0x"))?;
            return types::value::text::parse_hex(digits).map_err(|error| error.to_string());
        }
        // A counter is written as the number it is added by.
        CqlType::Counter => {
            return parse_text(&CqlType::BigInt, text.trim()).map_err(|e| e.to_string());
        }
        native => return parse_text(native, text.trim()).map_err(|error| error.to_string()),
    }
    Ok(out)
}

fn is_null(text: &str) -> bool {
    matches!(text.trim(), "null" | "None" | "")
}

/// A part of a value without the quotes it may stand in.
fn unquoted<'t>(ty: &CqlType, text: &'t str) -> Result<std::borrow::Cow<'t, str>, String> {
    let text = text.trim();
    match text.strip_prefix('\'') {
        Some(quoted) => {
            let inside = quoted.strip_suffix('\'').ok_or("a quote has no end")?;
            Ok(inside.replace("''", "'").into())
        }
        None if matches!(ty, CqlType::Text | CqlType::Ascii) => {
            Err(format!("the text {text} stands in no quotes"))
        }
        None => Ok(text.into()),
    }
}

/// What stands between the brackets, cut at the commas that are not inside of something.
fn parts(text: &str, open: char, close: char) -> Result<Vec<&str>, String> {
    let text = text.trim();
    let inside = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let inside = inside.ok_or_else(|| format!("{text:?} is not within {open} and {close}"))?;
    if inside.trim().is_empty() {
        return Ok(Vec::new());
    }
    Ok(cut(inside, ',', usize::MAX))
}

/// Key and value of an entry.
fn entry(text: &str) -> Result<(&str, &str), String> {
    match cut(text, ':', 2).as_slice() {
        [key, value] => Ok((key, value)),
        _ => Err(format!("{:?} has no colon", text.trim())),
    }
}

fn cut(text: &str, at: char, count_max: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut is_quoted = false;
    let mut start = 0;
    for (index, character) in text.char_indices() {
        match character {
            '\'' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth = depth.saturating_sub(1),
            _ if character == at && depth == 0 && found.len() + 1 < count_max => {
                found.push(text.get(start..index).unwrap_or_default());
                start = index + character.len_utf8();
            }
            _ => {}
        }
    }
    found.push(text.get(start..).unwrap_or_default());
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use types::UserType;

    use super::*;
    use crate::values::Style;

    fn words() -> [String; 2] {
        ["True".to_owned(), "False".to_owned()]
    }

    #[test]
    fn what_is_written_to_a_file_is_read_again() {
        let frozen = true;
        let list = |element: CqlType| CqlType::List { element: Arc::new(element), frozen };
        let map = CqlType::Map {
            key: Arc::new(CqlType::Timestamp),
            value: Arc::new(list(CqlType::Inet)),
            frozen,
        };
        let fields = vec![("a".into(), CqlType::Int), ("b".into(), list(CqlType::Text))];
        let definition =
            Arc::new(UserType { keyspace: "shop".into(), name: "pair".into(), fields });
        for (ty, text) in [
            (CqlType::Int, "7"),
            (CqlType::Boolean, "True"),
            (CqlType::Double, "0.1"),
            (CqlType::Double, "1.7976931348623157E308"),
            (CqlType::Blob, "0x00ff"),
            (CqlType::Text, "it's, [a] text"),
            (CqlType::Timestamp, "2026-11-17 15:45:22.123+0000"),
            (CqlType::Duration, "1y2mo3d4h"),
            (list(CqlType::Text), "['a, b', 'it''s', ']']"),
            (list(list(CqlType::Int)), "[[1, 2], [], [3]]"),
            (CqlType::Set { element: Arc::new(CqlType::Int), frozen }, "{1, 2}"),
            (map, "{'2026-11-17 15:45:22.000+0000': ['::1', '127.0.0.1']}"),
            (CqlType::Tuple(Arc::from([CqlType::Int, CqlType::Text])), "(1, null)"),
            (
                CqlType::User { definition: Arc::clone(&definition), frozen },
                "{a: null, b: ['x:y']}",
            ),
            (CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 2 }, "[1.0, 0.25]"),
        ] {
            let bytes = parse_field(&ty, text, &words()).unwrap();
            assert_eq!(Style::file().cell(&ty, Some(&bytes)).plain(), text);
        }
        for (ty, text) in [
            (CqlType::Int, "seven"),
            (CqlType::Boolean, "yes"),
            (CqlType::Blob, "00ff"),
            (list(CqlType::Text), "[a]"),
            (list(CqlType::Int), "1, 2"),
            (CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 2 }, "[1]"),
            (CqlType::User { definition, frozen }, "{c: 1}"),
        ] {
            assert!(parse_field(&ty, text, &words()).is_err(), "{text}");
        }
    }
}
