//! Tokens of every key type, recorded from Apache Cassandra. Keys that are frozen collections are in
//! the golden scripts, where a planner encodes them.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

use types::value::{LiteralKind, parse_literal};
use types::{CqlType, PartitionKey, RingToken};

/// The kind of a literal as a parser would see it.
fn kind_of(literal: &str) -> LiteralKind {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match literal {
        "true" | "false" => LiteralKind::Boolean,
        text if text.starts_with('\'') => LiteralKind::String,
        text if text.starts_with("0x") => LiteralKind::Hex,
        text if text.len() == 36 => LiteralKind::Uuid,
        text if is_digits(text.trim_start_matches('-')) => LiteralKind::Integer,
        _ => LiteralKind::Float,
    }
}

fn encode(cql_type: &str, literal: &str) -> Vec<u8> {
    let ty = CqlType::native(cql_type).unwrap_or_else(|| panic!("no native type {cql_type}"));
    let text = literal.trim_matches('\'');
    parse_literal(&ty, text, kind_of(literal))
        .unwrap_or_else(|e| panic!("{cql_type} {literal}: {e}"))
}

#[test]
fn tokens_are_cassandras() {
    let mut checked = 0;
    for line in include_str!("golden/tokens.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [cql_type, literal, token] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not a row: {line}");
        };
        let key = if let Some(types) = cql_type.strip_prefix('(') {
            let types = types.trim_end_matches(')').split(',');
            let literals = literal[1..literal.len() - 1].split(',');
            let mut key = Vec::new();
            for (cql_type, literal) in types.zip(literals) {
                PartitionKey::push_component(&mut key, &encode(cql_type, literal));
            }
            key
        } else {
            encode(cql_type, literal)
        };
        assert_eq!(RingToken::of_key(&key).token().0.to_string(), token, "{cql_type} {literal}");
        checked += 1;
    }
    assert!(checked >= 65, "only {checked} tokens were checked");
}
