//! Texts that mean harm: the parser neither panics nor hangs nor overflows the stack.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may fail")]

use cql::{NESTING_MAX, OPERATORS_MAX};

/// A small generator of numbers; the seed tells the whole run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

fn corpus() -> Vec<&'static str> {
    include_str!("golden/accepted.cql").lines().collect()
}

/// Pieces that statements are made of, and some that they are not.
fn pieces() -> Vec<&'static str> {
    let mut pieces: Vec<&str> = corpus().iter().flat_map(|line| line.split(' ')).collect();
    pieces.extend([
        "'", "\"", "$$", "$", "--", "//", "/*", "*/", "\n", "\r", "\t", "é", "日", "😀", "µ", "1e",
        "1..", "...", "0x", "-", "-P", "-n", "!", "@", "\0", "''", "\"\"", "(", ")", "[", "]", "{",
        "}", "<", ">", "?", ":", ";",
    ]);
    pieces
}

#[test]
fn token_soup_is_parsed_or_refused() {
    let pieces = pieces();
    for seed in 1..=20 {
        println!("seed {seed}");
        let mut random = Random(seed);
        for _ in 0..200 {
            let mut text = String::new();
            for _ in 0..random.below(40) {
                text.push_str(pieces[random.below(pieces.len())]);
                if random.below(4) > 0 {
                    text.push(' ');
                }
            }
            check(&text);
        }
    }
}

#[test]
fn mutilated_statements_are_parsed_or_refused() {
    let (corpus, pieces) = (corpus(), pieces());
    for seed in 101..=120 {
        println!("seed {seed}");
        let mut random = Random(seed);
        for _ in 0..200 {
            let mut characters: Vec<char> = corpus[random.below(corpus.len())].chars().collect();
            for _ in 0..random.below(4) {
                let at = random.below(characters.len() + 1);
                match random.below(3) {
                    0 => drop(characters.drain(at..(at + random.below(6)).min(characters.len()))),
                    1 => {
                        drop(characters.splice(at..at, pieces[random.below(pieces.len())].chars()))
                    }
                    _ => characters.truncate(at),
                }
                if characters.is_empty() {
                    break;
                }
            }
            check(&characters.into_iter().collect::<String>());
        }
    }
}

fn check(text: &str) {
    if let Err(error) = cql::parse(text) {
        assert!(!error.message().is_empty(), "{text}");
    }
    let _ = cql::parse_type(text);
    let _ = cql::parse_term(text);
}

#[test]
fn nesting_is_bounded() {
    let deep = 20_000;
    for (open, inner, close) in [
        ("SELECT ", "(", ""),
        ("SELECT ", "[", ""),
        ("SELECT ", "{", ""),
        ("SELECT ", "- ", ""),
        ("SELECT ", "f(", ""),
        ("SELECT ", "(int)", ""),
        ("SELECT ", "cast(", ""),
        ("SELECT * FROM t WHERE a = ", "(", ""),
        ("SELECT * FROM t WHERE a = ", "[", ""),
        ("SELECT * FROM t WHERE a = ", "{1:", ""),
        ("SELECT * FROM t WHERE a = ", "{a:", ""),
        ("SELECT * FROM t WHERE a = ", "f(", ""),
        ("SELECT * FROM t WHERE a = ", "(int)", ""),
        ("SELECT * FROM t WHERE a = ", "cast(", ""),
        ("SELECT * FROM t WHERE ", "(", ""),
        ("CREATE TABLE t (a ", "list<", ""),
        ("CREATE TABLE t (a ", "tuple<int, ", ""),
        ("CREATE TABLE t (a ", "frozen<", ")"),
    ] {
        let text = format!("{open}{}{close}", inner.repeat(deep));
        let error = cql::parse(&text).unwrap_err();
        let expected = format!("Statement is nested more than {NESTING_MAX} levels deep");
        assert_eq!(error.message(), expected, "{open}{inner}");
    }
}

#[test]
fn chains_are_bounded() {
    for (open, link) in [
        ("SELECT a", " + a"),
        ("SELECT a", " * 2"),
        ("SELECT a", ".b"),
        ("SELECT a", "[1]"),
        ("SELECT * FROM t WHERE a = 1", " + 1"),
    ] {
        let within = format!("{open}{} FROM t", link.repeat(10));
        let _ = cql::parse(&within);
        let error = cql::parse(&format!("{open}{}", link.repeat(30_000))).unwrap_err();
        let expected = format!("Statement has more than {OPERATORS_MAX} operators");
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn long_flat_texts_take_linear_time() {
    let values = "1, ".repeat(30_000);
    let parsed = cql::parse(&format!("SELECT * FROM t WHERE a IN ({values}1)"));
    assert!(parsed.is_ok());
    let broken = cql::parse(&format!("SELECT * FROM t WHERE a IN ({values})"));
    assert!(broken.is_err());
    let sets = "a[?] = ?, ".repeat(20_000);
    let parsed = cql::parse(&format!("UPDATE t SET {sets} b = 1 WHERE k = 1")).unwrap();
    assert_eq!(parsed.markers.len(), 40_000);
    let selectors = "a, ".repeat(20_000);
    assert!(cql::parse(&format!("SELECT JSON {selectors} FROM t")).is_err());
    let columns: String = (0..5_000).map(|index| format!("c{index} int, ")).collect();
    assert!(cql::parse(&format!("CREATE TABLE t ({columns} PRIMARY KEY (c0))")).is_ok());
}
