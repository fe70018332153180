//! Texts, JSON, validation, order and arithmetic, as Apache Cassandra answered: see
//! `golden/Record.java` and `golden/cases.py`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::sync::Arc;

use types::value::{
    ArithmeticOperator, Assignment, LiteralKind, MathFunction, apply_arithmetic, apply_math,
    arithmetic_type, compare, decode_ordered, encode_ordered, format, from_json, json,
    parse_literal_for, parse_text, temporal, text, timeuuid, to_cql_text, to_json, to_plain_string,
    validate,
};
use types::{CqlType, UserType};

/// Reads a type as the cases write it.
fn parse_type(text: &str) -> CqlType {
    let inner = |prefix: &str| {
        text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>')).map(ToOwned::to_owned)
    };
    if let Some(native) = CqlType::native(text) {
        return native;
    }
    if text == "person" {
        let list = CqlType::List { element: Arc::new(CqlType::Int), frozen: true };
        let definition = UserType {
            keyspace: "ks".into(),
            name: "person".into(),
            fields: vec![
                ("name".into(), CqlType::Text),
                ("age".into(), CqlType::Int),
                ("Home".into(), list),
            ],
        };
        return CqlType::User { definition: Arc::new(definition), frozen: false };
    }
    if let Some(inner) = inner("frozen<") {
        return parse_type(&inner).freeze();
    }
    if let Some(inner) = inner("list<") {
        return CqlType::List { element: Arc::new(parse_type(&inner)), frozen: false };
    }
    if let Some(inner) = inner("set<") {
        return CqlType::Set { element: Arc::new(parse_type(&inner)), frozen: false };
    }
    if let Some(inner) = inner("map<") {
        let (key, value) = inner.split_once(", ").unwrap();
        let (key, value) = (Arc::new(parse_type(key)), Arc::new(parse_type(value)));
        return CqlType::Map { key, value, frozen: false };
    }
    if let Some(inner) = inner("tuple<") {
        return CqlType::Tuple(inner.split(", ").map(parse_type).collect());
    }
    let inner = inner("vector<").unwrap_or_else(|| panic!("no type: {text}"));
    let (element, dimension) = inner.rsplit_once(", ").unwrap();
    let element = Arc::new(parse_type(element));
    CqlType::Vector { element, dimension: dimension.parse().unwrap() }
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('t') => out.push('\t'),
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}

fn bytes(hex: &str) -> Vec<u8> {
    text::parse_hex(hex).unwrap()
}

/// Answers every case and compares: a success exactly, an error by its text.
fn check(file: &str, answer: impl Fn(&[String]) -> Result<String, String>) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in file.lines() {
        let fields: Vec<String> = line.split('\t').map(unescape).collect();
        let (expected, inputs) = fields.split_last().unwrap();
        let actual = match answer(inputs) {
            Ok(text) => format!("={text}"),
            Err(text) => format!("!{text}"),
        };
        if is_crash(expected) {
            continue;
        }
        // Cassandra's answer to an error starts with the name of its exception.
        let expected = match expected.strip_prefix('!') {
            Some(error) => format!("!{}", error.split_once(": ").map_or(error, |(_, text)| text)),
            None => expected.clone(),
        };
        count += 1;
        if actual != expected {
            wrong.push(format!("{inputs:?}\n  expected {expected}\n  actual   {actual}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Where Cassandra itself fails with an internal error, whatever we answer is better; it only has
/// to come without a panic.
fn is_crash(expected: &str) -> bool {
    ["!IndexOutOfBounds", "!AssertionError", "!NullPointer"]
        .iter()
        .any(|crash| expected.starts_with(crash))
}

fn text_of<T>(result: Result<T, impl ToString>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

#[test]
fn text_becomes_bytes() {
    check(include_str!("golden/parse.tsv"), |inputs| {
        let parsed = text_of(parse_text(&parse_type(&inputs[1]), &inputs[2]))?;
        Ok(format::to_hex(&parsed))
    });
}

#[test]
fn bytes_become_text() {
    check(include_str!("golden/show.tsv"), |inputs| {
        let (ty, value) = (parse_type(&inputs[1]), bytes(&inputs[2]));
        Ok(match inputs[0].as_str() {
            "cql" => to_cql_text(&ty, &value),
            "plain" => to_plain_string(&ty, &value),
            _ => to_json(&ty, &value),
        })
    });
}

#[test]
fn bytes_are_validated() {
    check(include_str!("golden/validate.tsv"), |inputs| {
        text_of(validate(&parse_type(&inputs[1]), &bytes(&inputs[2]))).map(|()| String::new())
    });
}

#[test]
fn values_compare() {
    check(include_str!("golden/compare.tsv"), |inputs| {
        let ty = parse_type(&inputs[1]);
        let (a, b) = (bytes(&inputs[2]), bytes(&inputs[3]));
        let order = compare(&ty, &a, &b);
        for descending in [false, true] {
            let encode = |value: &[u8]| {
                let mut out = Vec::new();
                encode_ordered(&ty, value, descending, &mut out);
                let mut decoded = Vec::new();
                let mut input = out.as_slice();
                decode_ordered(&ty, descending, &mut input, &mut decoded).unwrap();
                assert!(input.is_empty() && compare(&ty, value, &decoded).is_eq());
                out
            };
            let encoded = encode(&a).cmp(&encode(&b));
            assert_eq!(encoded, if descending { order.reverse() } else { order }, "{inputs:?}");
        }
        Ok((order as i8).to_string())
    });
}

#[test]
fn json_becomes_bytes() {
    check(include_str!("golden/json.tsv"), |inputs| {
        let value = text_of(json::decode_json(&inputs[2]))?;
        let parsed = text_of(from_json(&parse_type(&inputs[1]), &value))?;
        Ok(parsed.map_or("null".to_owned(), |bytes| format::to_hex(&bytes)))
    });
}

#[test]
fn operators_compute() {
    check(include_str!("golden/operate.tsv"), |inputs| {
        let operator = match inputs[0].as_str() {
            "+" => ArithmeticOperator::Add,
            "-" => ArithmeticOperator::Subtract,
            "*" => ArithmeticOperator::Multiply,
            "/" => ArithmeticOperator::Divide,
            _ => ArithmeticOperator::Modulo,
        };
        let (left, right) = (parse_type(&inputs[1]), parse_type(&inputs[3]));
        let result =
            apply_arithmetic(operator, &left, &bytes(&inputs[2]), &right, &bytes(&inputs[4]));
        let result = format::to_hex(&result.map_err(|error| error.cause.to_string())?.unwrap());
        Ok(match right {
            CqlType::Duration => result,
            _ => format!("{}:{result}", arithmetic_type(operator, &left, &right).unwrap()),
        })
    });
}

/// Printed by Java 17's `Double.toString` and `Float.toString`.
#[test]
fn floats_become_text() {
    check(include_str!("golden/floats.tsv"), |inputs| {
        Ok(to_plain_string(&parse_type(&inputs[1]), &bytes(&inputs[2])))
    });
}

#[test]
fn constants_become_bytes() {
    check(include_str!("golden/literal.tsv"), |inputs| {
        let (ty, text) = (parse_type(&inputs[1]), &inputs[3]);
        let kind = match inputs[2].as_str() {
            "STRING" => LiteralKind::String,
            "INTEGER" => LiteralKind::Integer,
            "UUID" => LiteralKind::Uuid,
            "FLOAT" => LiteralKind::Float,
            "BOOLEAN" => LiteralKind::Boolean,
            "HEX" => LiteralKind::Hex,
            _ => LiteralKind::Duration,
        };
        let parsed = text_of(parse_literal_for("v", &ty, text, kind))?;
        let assignment = match kind.assignment(text, &ty) {
            Assignment::Exact => "EXACT_MATCH",
            Assignment::Weak => "WEAKLY_ASSIGNABLE",
            Assignment::No => "NOT_ASSIGNABLE",
        };
        Ok(format!("{assignment} {}", format::to_hex(&parsed)))
    });
}

#[test]
fn times_convert() {
    check(include_str!("golden/time.tsv"), |inputs| {
        if inputs[0] == "millis" {
            let millis = timeuuid::timeuuid_millis(&bytes(&inputs[2]));
            return Ok(millis.map_or("null".to_owned(), |millis| millis.to_string()));
        }
        let millis = inputs[2].parse().unwrap();
        Ok(format!(
            "{} {} {:08x}",
            format::to_hex(&timeuuid::min_timeuuid(millis)),
            format::to_hex(&timeuuid::max_timeuuid(millis)),
            temporal::date_of_timestamp(millis)
        ))
    });
}

#[test]
fn functions_compute() {
    check(include_str!("golden/function.tsv"), |inputs| {
        let function = match inputs[0].as_str() {
            "abs" => MathFunction::Abs,
            "exp" => MathFunction::Exp,
            "log" => MathFunction::Log,
            "log10" => MathFunction::Log10,
            _ => MathFunction::Round,
        };
        let result = apply_math(function, &parse_type(&inputs[1]), &bytes(&inputs[2]));
        Ok(format::to_hex(&text_of(result)?.unwrap()))
    });
}

#[test]
fn broken_json_is_refused() {
    check(include_str!("golden/broken.tsv"), |inputs| {
        let value = text_of(json::decode_json(&inputs[2]))?;
        let parsed = text_of(from_json(&parse_type(&inputs[1]), &value))?;
        Ok(parsed.map_or("null".to_owned(), |bytes| format::to_hex(&bytes)))
    });
}
