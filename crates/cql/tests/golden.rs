//! Texts and what Apache Cassandra 5.0.5 says to them.
//!
//! `accepted.cql` holds statements that Cassandra parses, `rejected.tsv` texts with the exact
//! message of Cassandra's parser, `differences.tsv` texts where we knowingly say something else:
//! Cassandra's parser trips over itself there. `trees.txt` holds what comes out of the accepted
//! ones; `UPDATE_GOLDEN=1` writes it anew.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may fail")]

use std::fmt::Write;
use std::path::PathBuf;

use cql::SyntaxError;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(golden(name)).unwrap()
}

fn unescape(line: &str) -> String {
    let mut text = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => match characters.next().unwrap() {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            },
            other => other,
        });
    }
    text
}

fn outcome(text: &str) -> (&'static str, String) {
    match cql::parse(text) {
        Ok(_) => ("ok", String::new()),
        Err(SyntaxError::Grammar(message)) => ("syntax", message.into()),
        Err(SyntaxError::Invalid(message)) => ("invalid", message.into()),
    }
}

#[test]
fn accepted_statements_give_their_trees() {
    let mut trees = String::new();
    for line in read("accepted.cql").lines() {
        let parsed = cql::parse(&unescape(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
        writeln!(trees, "{line}\n    {:?}", parsed.statement).unwrap();
        if !parsed.markers.is_empty() {
            writeln!(trees, "    {:?}", parsed.markers).unwrap();
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::File::create(golden("trees.txt"))
            .and_then(|mut file| std::io::Write::write_all(&mut file, trees.as_bytes()))
            .unwrap();
    }
    for (found, expected) in trees.lines().zip(read("trees.txt").lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(trees.lines().count(), read("trees.txt").lines().count());
}

#[test]
fn rejected_texts_give_cassandras_messages() {
    let mut count = 0;
    for line in read("rejected.tsv").lines() {
        let parts: Vec<_> = line.split('\t').collect();
        let (kind, message) = outcome(&unescape(parts[0]));
        assert_eq!((kind, message), (parts[1], unescape(parts[2])), "{line}");
        count += 1;
    }
    assert!(count > 1000);
}

#[test]
fn differences_are_as_few_as_they_are_known() {
    for line in read("differences.tsv").lines() {
        let parts: Vec<_> = line.split('\t').collect();
        let (kind, message) = outcome(&unescape(parts[0]));
        assert_ne!(
            (kind, message),
            (parts[1], unescape(parts[2])),
            "no difference any more: {line}"
        );
    }
}

#[test]
fn explain_is_a_prefix_of_any_statement() {
    let parsed = cql::parse("explain SELECT * FROM t WHERE a = ?;").unwrap();
    let cql::Statement::Explain(inner) = parsed.statement else { panic!() };
    assert!(matches!(*inner, cql::Statement::Select(_)));
    assert_eq!(parsed.markers, [None]);

    // Positions count from the start of the whole text.
    let error = cql::parse("EXPLAIN SELECT * FROM").unwrap_err();
    assert_eq!(error.message(), "line 0:-1 no viable alternative at input '<EOF>'");
    let error = cql::parse("EXPLAIN SELECT * FORM t").unwrap_err();
    assert_eq!(
        error.message(),
        "line 1:17 mismatched input 'FORM' expecting K_FROM (...SELECT * [FORM]...)"
    );
    let error = cql::parse("EXPLAIN EXPLAIN SELECT * FROM t").unwrap_err();
    assert_eq!(error.message(), "line 1:0 no viable alternative at input 'EXPLAIN' ([EXPLAIN]...)");
}
