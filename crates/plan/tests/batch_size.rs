//! Sizes of batches as Cassandra 5.0.5 counts them, from its warnings.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use plan::{NoValues, Plan, SessionContext, prepare};
use support::{Uuids, World, context};

/// The warnings of a batch, or its refusal.
fn warnings(kind: &str, statements: &[&str]) -> Vec<String> {
    let mut world = World::new("bsz");
    world.define(
        "CREATE TABLE t (p int, c text, s int static, v text, w int, l list<int>, \
         m map<text, int>, st set<int>, PRIMARY KEY (p, c))",
    );
    world.define("CREATE TABLE u (p int PRIMARY KEY, v text)");
    let text = format!("BEGIN {kind} BATCH {} APPLY BATCH", statements.join("; "));
    let parsed = cql::parse(&text).unwrap();
    let session = SessionContext { keyspace: Some("bsz") };
    let prepared = prepare(&parsed, &text, &world.schema, &session).unwrap();
    let uuids = Uuids::default();
    let context = context(&uuids);
    match prepared.bind(&NoValues, &context) {
        Ok(Plan::Batch(batch)) => batch.warnings,
        Ok(plan) => panic!("{plan:?}"),
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn sizes_are_cassandras() {
    let large = format!("INSERT INTO u (p, v) VALUES (1, '{}')", "x".repeat(6000));
    for (statement, expected) in [
        ("INSERT INTO u (p, v) VALUES (2, '')", 6140),
        ("INSERT INTO u (p) VALUES (2)", 6120),
        ("UPDATE u SET v = 'abc' WHERE p = 2", 6143),
        ("UPDATE u USING TTL 5 SET v = 'abc' WHERE p = 2", 6143),
        ("INSERT INTO u (p, v) VALUES (2, '') USING TTL 7", 6152),
        ("DELETE FROM u WHERE p = 2", 6099),
        ("DELETE v FROM u WHERE p = 2", 6140),
        ("INSERT INTO t (p, c) VALUES (2, 'ab')", 6122),
        ("INSERT INTO t (p, c, v, w) VALUES (2, 'ab', 'abc', 3)", 6169),
        ("UPDATE t SET s = 1 WHERE p = 2", 6123),
        ("INSERT INTO t (p, c, s) VALUES (2, 'ab', 1)", 6146),
        ("DELETE FROM t WHERE p = 2 AND c = 'ab'", 6122),
        ("DELETE FROM t WHERE p = 2 AND c > 'ab'", 6117),
        ("DELETE FROM t WHERE p = 2 AND c > 'ab' AND c < 'abcd'", 6121),
        ("DELETE FROM t WHERE p = 2", 6099),
        ("UPDATE t SET l = [1, 2] WHERE p = 2 AND c = 'ab'", 6214),
        ("UPDATE t SET l = l + [1, 2] WHERE p = 2 AND c = 'ab'", 6214),
        ("UPDATE t SET m = m + {'ab': 1} WHERE p = 2 AND c = 'ab'", 6160),
        ("UPDATE t SET st = {1} WHERE p = 2 AND c = 'ab'", 6158),
        ("DELETE st[1] FROM t WHERE p = 2 AND c = 'ab'", 6158),
    ] {
        let is_other = [" t ", "INTO t"].iter().any(|word| statement.contains(word));
        let tables = if is_other { "bsz.t, bsz.u" } else { "bsz.u" };
        let warning = format!(
            "Batch for [{tables}] is of size {expected}, exceeding specified threshold of 5120 by \
             {}.",
            expected - 5120
        );
        assert_eq!(warnings("", &[&large, statement]), [warning], "{statement}");
    }
}

#[test]
fn only_several_partitions_count() {
    let value = "x".repeat(60_000);
    let one = format!("INSERT INTO u (p, v) VALUES (1, '{value}')");
    let two = format!("INSERT INTO u (p, v) VALUES (2, '{value}')");
    assert_eq!(warnings("", &[&one, &one]), Vec::<String>::new());
    // The same key in another table of the keyspace is the same partition for this.
    let other = "INSERT INTO t (p, c) VALUES (1, 'a')";
    assert_eq!(warnings("", &[&one, other]), Vec::<String>::new());
    assert_eq!(warnings("", &[&one, &two]), ["Batch too large"]);
    let many: Vec<String> =
        (0..12).map(|p| format!("INSERT INTO u (p, v) VALUES ({p}, 'b')")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let expected = "Unlogged batch covering 12 partitions detected against table [bsz.u]. You \
        should use a logged batch for atomicity, or asynchronous writes for performance.";
    assert_eq!(warnings("UNLOGGED", &many), [expected]);
    assert_eq!(warnings("", &many), Vec::<String>::new());
}
