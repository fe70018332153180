//! `system_views`: the shape that Cassandra 5.0.5 gives its tables, and values that were counted.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::collections::BTreeSet;
use std::path::Path;

use protocol::Response;
use serde_json::{Value, json};
use testkit::{Client, Execution, Node, OwnedValue};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const SYSTEM_VIEWS: &str = include_str!("../../testkit/golden/system_views.json");

/// The rows of a SELECT JSON.
fn rows(client: &mut Client, statement: &str) -> Vec<Value> {
    match client.query(statement, &Execution::default()).unwrap().response {
        Response::Rows(rows) => {
            let text = |row: Vec<Option<&[u8]>>| serde_json::from_slice(row[0].unwrap()).unwrap();
            rows.rows().map(|row| text(row.to_vec())).collect()
        }
        Response::Error(error) => panic!("{statement}: {}", error.message),
        _ => Vec::new(),
    }
}

#[test]
fn the_tables_have_cassandras_columns() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    let golden: Value = serde_json::from_str(SYSTEM_VIEWS).unwrap();
    let mut found = BTreeSet::new();
    for table in rows(
        &mut client,
        "SELECT JSON table_name, comment FROM system_virtual_schema.tables WHERE keyspace_name = 'system_views'",
    ) {
        let name = table["table_name"].as_str().unwrap();
        assert_eq!(table["comment"], golden["tables"][name]["comment"], "{name}");
        found.insert(name.to_owned());
    }
    let wanted: BTreeSet<String> = golden["tables"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(found, wanted);
    for name in &found {
        let columns = rows(
            &mut client,
            &format!(
                "SELECT JSON column_name, clustering_order, kind, position, type FROM system_virtual_schema.columns \
                 WHERE keyspace_name = 'system_views' AND table_name = '{name}'"
            ),
        );
        let columns: Vec<Value> = columns
            .iter()
            .map(|it| {
                json!([
                    it["column_name"],
                    it["clustering_order"],
                    it["kind"],
                    it["position"],
                    it["type"]
                ])
            })
            .collect();
        assert_eq!(Value::from(columns), golden["tables"][name]["columns"], "{name}");
        // Whatever it holds, it can be read.
        rows(&mut client, &format!("SELECT JSON * FROM system_views.{name}"));
    }
}

#[test]
fn what_is_shown_was_counted() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))",
        "CREATE TABLE k.other (p int PRIMARY KEY)",
        "BEGIN UNLOGGED BATCH INSERT INTO k.t (p, c) VALUES (1, 1); INSERT INTO k.t (p, c) VALUES (2, 1); \
         INSERT INTO k.t (p, c) VALUES (3, 1); APPLY BATCH",
    ] {
        rows(&mut client, statement);
    }
    let insert = client.prepare("INSERT INTO k.t (p, c, v) VALUES (1, ?, 'x')").unwrap().unwrap();
    for number in 0..20_i32 {
        let values = vec![OwnedValue::Bytes(number.to_be_bytes().to_vec())];
        client.execute(&insert, &Execution { values, ..Execution::default() }).unwrap();
    }
    for _ in 0..7 {
        client.query("SELECT * FROM k.t WHERE p = 1", &Execution::default()).unwrap();
    }
    for _ in 0..3 {
        client.query("SELECT * FROM k.t", &Execution::default()).unwrap();
    }
    let mut one = |table: &str, key: &str| {
        let found =
            rows(&mut client, &format!("SELECT JSON * FROM system_views.{table} WHERE {key}"));
        assert_eq!(found.len(), 1, "{table}");
        found[0].clone()
    };
    let table = "keyspace_name = 'k' AND table_name = 't'";
    for (kind, count) in [("read", 7), ("scan", 3), ("write", 21)] {
        let row = one(&format!("coordinator_{kind}_latency"), table);
        assert_eq!(row["count"], count, "{row}");
        let number = |name: &str| row[name].as_f64().unwrap();
        assert!(number("max_ms") > 0.0, "{row}");
        assert!(
            number("p50th_ms") <= number("p99th_ms") && number("p99th_ms") <= number("max_ms"),
            "{row}"
        );
        assert_eq!(one(&format!("local_{kind}_latency"), table)["count"], count);
        let other = one(
            &format!("coordinator_{kind}_latency"),
            "keyspace_name = 'k' AND table_name = 'other'",
        );
        assert_eq!((&other["count"], &other["max_ms"]), (&json!(0), &json!(0.0)));
    }
    let read = one("rows_per_read", table);
    assert_eq!((&read["count"], &read["max"]), (&json!(10), &json!(22.0)));
    assert!((20.0..=22.0).contains(&read["p50th"].as_f64().unwrap()), "{read}");
    let batch = one("batch_metrics", "name = 'partitions_per_unlogged_batch'");
    assert_eq!((&batch["max"], &batch["p50th"]), (&json!(3), &json!(3.0)));
    let prepared = one("cql_metrics", "name = 'prepared_statements_executed'");
    assert_eq!(prepared["value"], 20.0);
    assert_eq!(one("cql_metrics", "name = 'prepared_statements_count'")["value"], 1.0);
    let cache = one("caches", "name = 'rows'");
    assert!(cache["capacity_bytes"].as_u64().unwrap() > 0, "{cache}");
    assert!(cache["hit_count"].as_u64() <= cache["request_count"].as_u64(), "{cache}");
    let pool = one("thread_pools", "name = 'Native-Transport-Requests'");
    assert!(pool["completed_tasks"].as_u64().unwrap() > 30, "{pool}");
    assert_eq!(one("disk_usage", table)["mebibytes"], 0);
    assert_eq!(one("max_partition_size", table)["mebibytes"], 0);
    assert_eq!(one("system_properties", "name = 'os.name'")["value"], std::env::consts::OS);
    assert!(rows(&mut client, "SELECT JSON * FROM system_views.internode_inbound").is_empty());
}

#[test]
fn tombstones_and_lookups_are_counted() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))",
        "CREATE TABLE k.one (p int PRIMARY KEY, v text)",
    ] {
        rows(&mut client, statement);
    }
    for c in 0..20 {
        rows(&mut client, &format!("INSERT INTO k.t (p, c, v) VALUES (1, {c}, 'x')"));
    }
    for c in 0..10 {
        rows(&mut client, &format!("DELETE FROM k.t WHERE p = 1 AND c = {c}"));
    }
    for statement in [
        // A value that is null, and a range of rows: one tombstone, and two.
        "INSERT INTO k.t (p, c, v) VALUES (2, 1, 'x')",
        "INSERT INTO k.t (p, c, v) VALUES (2, 2, null)",
        "INSERT INTO k.t (p, c, v) VALUES (3, 9, 'x')",
        "DELETE FROM k.t WHERE p = 3 AND c > 3 AND c < 7",
        "INSERT INTO k.t (p, c, v) VALUES (4, 1, 'x')",
        "DELETE FROM k.t WHERE p = 5",
    ] {
        rows(&mut client, statement);
    }
    let read = |client: &mut Client, key: i32| {
        client.query(&format!("SELECT * FROM k.t WHERE p = {key}"), &Execution::default()).unwrap();
        let table = "keyspace_name = 'k' AND table_name = 't'";
        let found = rows(
            client,
            &format!("SELECT JSON count, max FROM system_views.tombstones_per_read WHERE {table}"),
        );
        (found[0]["count"].as_u64().unwrap(), found[0]["max"].as_f64().unwrap())
    };
    // As in Cassandra, deletions of whole partitions are none.
    assert_eq!(read(&mut client, 4), (1, 0.0));
    assert_eq!(read(&mut client, 5), (2, 0.0));
    assert_eq!(read(&mut client, 2), (3, 1.0));
    assert_eq!(read(&mut client, 3), (4, 2.0));
    assert_eq!(read(&mut client, 1), (5, 10.0));
    client.query("SELECT * FROM k.t", &Execution::default()).unwrap();
    assert_eq!(read(&mut client, 4), (7, 13.0));

    let cache = |client: &mut Client| {
        let found = rows(client, "SELECT JSON * FROM system_views.caches WHERE name = 'rows'");
        let number = |name: &str| found[0][name].as_u64().unwrap();
        (number("hit_count"), number("request_count"))
    };
    rows(&mut client, "INSERT INTO k.one (p, v) VALUES (1, 'x')");
    let (hits, requests) = cache(&mut client);
    for _ in 0..5 {
        client.query("SELECT * FROM k.one WHERE p = 1", &Execution::default()).unwrap();
    }
    client.query("SELECT * FROM k.one WHERE p = 2", &Execution::default()).unwrap();
    let (more_hits, more_requests) = cache(&mut client);
    assert_eq!((more_hits - hits, more_requests - requests), (5, 6));
}

#[test]
fn a_query_sees_itself_run() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    let text = "SELECT JSON * FROM system_views.queries";
    let found = rows(&mut client, text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["thread_id"], "Native-Transport-Requests-1");
    let task = found[0]["task"].as_str().unwrap();
    assert!(task.starts_with(&format!("QUERY {text} [pageSize = ")), "{task}");
    assert!(task.contains("] at consistency "), "{task}");
    assert!(found[0]["running_micros"].as_u64().is_some(), "{found:?}");
}
