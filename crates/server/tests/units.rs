//! Request units with the real binary: what is charged, what is told before, and that neither depends on
//! anything but the request and the data.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::Path;

use protocol::{
    Batch, BatchBuilder, BatchKind, QueryParameters, Request, Response, ResponseMessage,
    StatementSource, ValuesBuilder, Version,
};
use testkit::{Client, Execution, Node, OwnedValue};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const KEYSPACE: &str =
    "CREATE KEYSPACE u WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
/// What EXPLAIN says of a query may be wrong by this factor, where the sizes of partitions are known.
const QUERY_FACTOR: f64 = 2.0;

fn charge_of(message: &ResponseMessage) -> f64 {
    let found = message.custom_payload.iter().find(|(key, _)| key == "RequestCharge");
    let Some((_, Some(value))) = found else { panic!("no charge in {message:?}") };
    f64::from_be_bytes(value.clone().try_into().unwrap())
}

/// The charge of a statement that must succeed.
fn charge(client: &mut Client, text: &str) -> f64 {
    let message = client.query(text, &Execution::default()).unwrap();
    if let Response::Error(error) = &message.response {
        panic!("{text}: {}", error.message);
    }
    charge_of(&message)
}

/// Every answer of the node tells its charge.
const TELLS: [&str; 2] = ["--set", "units.payload=always"];

fn start() -> (Node, Client) {
    let node = Node::start(Path::new(BINARY), &TELLS).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    charge(&mut client, KEYSPACE);
    (node, client)
}

/// A step of a plan: its words, how many physical partitions it touches, and its charge.
fn explained(client: &mut Client, text: &str) -> Vec<(String, usize, f64)> {
    let message = client.query(&format!("EXPLAIN {text}"), &Execution::default()).unwrap();
    assert_eq!(charge_of(&message), 1.0, "{text}");
    let Response::Rows(rows) = message.response else { panic!("{text}: {:?}", message.response) };
    let of_row = |row: Vec<Option<&[u8]>>| {
        let list = row[2].unwrap();
        let count = i32::from_be_bytes(list[..4].try_into().unwrap());
        (
            String::from_utf8(row[1].unwrap().to_vec()).unwrap(),
            usize::try_from(count).unwrap(),
            f64::from_be_bytes(row[5].unwrap().try_into().unwrap()),
        )
    };
    rows.rows().map(|row| of_row(row.into_iter().collect())).collect()
}

#[test]
fn every_answer_tells_its_charge() {
    for version in [Version::V4, Version::V5] {
        let node = Node::start(Path::new(BINARY), &TELLS).unwrap();
        let mut client = Client::connect_with(&node.address(), version).unwrap();
        for (text, expected) in [
            (KEYSPACE, Some(4.95)),
            ("CREATE TABLE u.t (p int, c int, v text, PRIMARY KEY (p, c))", Some(4.95)),
            ("INSERT INTO u.t (p, c, v) VALUES (1, 1, 'x')", Some(4.95)),
            ("UPDATE u.t SET v = 'y' WHERE p = 1 AND c = 1", Some(9.90)),
            ("SELECT * FROM u.t WHERE p = 1 AND c = 1", Some(1.0)),
            ("SELECT * FROM u.t WHERE p = 9 AND c = 9", Some(1.0)),
            ("SELECT * FROM u.t WHERE p = 1", None),
            ("SELECT count(*) FROM u.t", None),
            ("INSERT INTO u.t (p, c) VALUES (1, 1) IF NOT EXISTS", Some(2.0)),
            ("DELETE FROM u.t WHERE p = 1 AND c = 1", Some(4.95)),
            ("DELETE FROM u.t WHERE p = 1", Some(4.95)),
            ("SELECT * FROM system.local", None),
            ("SELECT * FROM system_schema.tables", None),
            ("USE u", Some(1.0)),
            ("SELEC", Some(1.0)),
            ("SELECT * FROM u.nothing", Some(1.0)),
            ("SELECT nothing FROM u.t", Some(1.0)),
            ("CREATE TABLE u.t (p int PRIMARY KEY)", None),
            ("LIST ROLES", None),
        ] {
            let charge = charge_of(&client.query(text, &Execution::default()).unwrap());
            assert!(charge >= 1.0, "{text}: {charge}");
            if let Some(expected) = expected {
                assert_eq!(charge, expected, "{text}");
            }
        }
        let message =
            client.send(protocol::Request::Prepare { text: "SELECT * FROM u.t", keyspace: None });
        assert_eq!(charge_of(&message.unwrap()), 1.0);
        let unknown = protocol::PreparedResponse {
            id: vec![7; 16],
            ..client.prepare("SELECT * FROM u.t").unwrap().unwrap()
        };
        assert_eq!(charge_of(&client.execute(&unknown, &Execution::default()).unwrap()), 1.0);
    }
}

#[test]
fn version_3_has_no_payload_and_a_setting_switches_it_off() {
    let (node, _client) = start();
    let mut old = Client::connect_with(&node.address(), Version::V3).unwrap();
    let answer = old.query("SELECT * FROM system.local", &Execution::default()).unwrap();
    assert!(answer.custom_payload.is_empty());
    let silent = Node::start(Path::new(BINARY), &["--set", "units.payload=never"]).unwrap();
    for version in [Version::V4, Version::V5] {
        let mut client = Client::connect_with(&silent.address(), version).unwrap();
        let answer = client.send_asking(local(version)).unwrap();
        assert!(answer.custom_payload.is_empty());
    }
}

fn local(version: Version) -> Request<'static> {
    let parameters = QueryParameters::new(version, protocol::Consistency::One);
    Request::Query { text: "SELECT * FROM system.local", parameters }
}

/// A payload comes to those who sent one, whatever the driver: one that cannot read it never does.
#[test]
fn only_those_who_ask_are_told() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    for version in [Version::V4, Version::V5] {
        let mut client = Client::connect_with(&node.address(), version).unwrap();
        assert!(client.send(local(version)).unwrap().custom_payload.is_empty());
        assert!(charge_of(&client.send_asking(local(version)).unwrap()) >= 1.0);
        assert!(client.send(local(version)).unwrap().custom_payload.is_empty());
        let text = "SELECT * FROM system.local";
        let prepare = Request::Prepare { text, keyspace: None };
        assert_eq!(charge_of(&client.send_asking(prepare).unwrap()), 1.0);
        assert!(client.send(prepare).unwrap().custom_payload.is_empty());
        let wrong = Request::Prepare { text: "SELEC", keyspace: None };
        assert_eq!(charge_of(&client.send_asking(wrong).unwrap()), 1.0);
        assert!(client.send(wrong).unwrap().custom_payload.is_empty());
        let mut statements = BatchBuilder::new(version);
        let empty = ValuesBuilder::positional(version);
        statements.push(StatementSource::Text("SELEC"), empty.values());
        let batch = Request::Batch(Batch {
            kind: BatchKind::Logged,
            statements: statements.statements(),
            parameters: QueryParameters::new(version, protocol::Consistency::One),
        });
        assert_eq!(charge_of(&client.send_asking(batch).unwrap()), 1.0);
        assert!(client.send(batch).unwrap().custom_payload.is_empty());
    }
    // A write and a scan answer later and elsewhere than they were asked.
    let mut client = Client::connect(&node.address()).unwrap();
    for text in [
        KEYSPACE,
        "CREATE TABLE u.t (p int PRIMARY KEY, v int)",
        "INSERT INTO u.t (p, v) VALUES (1, 1)",
        "SELECT count(*) FROM u.t WHERE v = 1 ALLOW FILTERING",
    ] {
        let parameters = QueryParameters::new(Version::V5, protocol::Consistency::One);
        let message = client.send_asking(Request::Query { text, parameters }).unwrap();
        assert!(charge_of(&message) >= 1.0, "{text}");
    }
}

#[test]
fn a_row_is_charged_whole_whichever_of_its_columns_are_asked_for() {
    let (_node, mut client) = start();
    charge(&mut client, "CREATE TABLE u.wide (p int PRIMARY KEY, small int, large blob)");
    for kib in [1, 4, 64, 1024] {
        // 4 bytes of key, 4 of the small column, and the rest.
        let large = "00".repeat(kib * 1024 - 8);
        let text = format!("INSERT INTO u.wide (p, small, large) VALUES ({kib}, 1, 0x{large})");
        charge(&mut client, &text);
        let all = charge(&mut client, &format!("SELECT * FROM u.wide WHERE p = {kib}"));
        for columns in ["small", "p", "large", "small, large", "count(*)", "writetime(small)"] {
            let some =
                charge(&mut client, &format!("SELECT {columns} FROM u.wide WHERE p = {kib}"));
            assert_eq!(some, all, "{columns} of {kib} KB");
        }
    }
    assert_eq!(charge(&mut client, "SELECT small FROM u.wide WHERE p = 1"), 1.0);
    assert_eq!(charge(&mut client, "SELECT small FROM u.wide WHERE p = 64"), 4.76);
    assert_eq!(charge(&mut client, "SELECT small FROM u.wide WHERE p = 1024"), 145.90);
}

/// Numbers that look random and are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Reads of all shapes, by the name of their table.
fn reads(random: &mut Random, table: &str) -> Vec<String> {
    let (p, c) = (random.below(6), random.below(120));
    let limit = 1 + random.below(40);
    let columns = ["*", "v", "s, v", "p, c", "count(*)", "max(c), count(v)", "JSON *"];
    let columns = columns[random.below(7) as usize];
    vec![
        format!("SELECT {columns} FROM {table} WHERE p = {p} AND c = {c}"),
        format!("SELECT {columns} FROM {table} WHERE p = {p}"),
        format!("SELECT {columns} FROM {table} WHERE p = {p} AND c > {c}"),
        format!("SELECT {columns} FROM {table} WHERE p = {p} AND c IN ({c}, {}, 999)", c + 1),
        format!("SELECT {columns} FROM {table} WHERE p IN ({p}, {}, 77)", (p + 1) % 6),
        format!("SELECT {columns} FROM {table}"),
        format!("SELECT {columns} FROM {table} LIMIT {limit}"),
        format!("SELECT {columns} FROM {table} WHERE n = {} ALLOW FILTERING", random.below(5)),
        format!("SELECT {columns} FROM {table} WHERE p = {p} AND n > 2 ALLOW FILTERING"),
        format!("SELECT {columns} FROM {table} WHERE i = {}", random.below(4)),
        format!("SELECT p, count(*) FROM {table} GROUP BY p"),
        format!("SELECT DISTINCT p, s FROM {table}"),
        format!("SELECT {columns} FROM {table} WHERE token(p) > 0"),
    ]
}

/// New rows, whose clustering keys begin with `first`.
fn inserts(random: &mut Random, first: u64, count: u64) -> Vec<String> {
    let of_row = |(random, c): (&mut Random, u64)| {
        let length = [1, 10, 300, 3_000][random.below(4) as usize];
        format!(
            "(p, c, n, i, v, s, m) VALUES ({}, {}, {}, {}, '{}', 'static', {{{}: 'x'}})",
            random.below(6),
            c,
            random.below(5),
            random.below(4),
            "v".repeat(length),
            random.below(9),
        )
    };
    (first..first + count).map(|c| of_row((random, c))).collect()
}

#[test]
fn same_request_same_data_same_charge_and_more_data_is_never_cheaper() {
    let seed = 20_261_116;
    println!("seed {seed}");
    let mut random = Random(seed);
    let (mut node, mut client) = start();
    for table in ["u.one", "u.two"] {
        charge(
            &mut client,
            &format!(
                "CREATE TABLE {table} (p int, c int, n int, i int, v text, s text STATIC, m map<int, text>, PRIMARY KEY (p, c))"
            ),
        );
        charge(&mut client, &format!("CREATE INDEX ON {table} (i)"));
    }
    for round in 0..6 {
        let rows = inserts(&mut random, round * 30, 30);
        let asked = reads(&mut random, "u.one");
        let before: Vec<f64> = asked.iter().map(|text| charge(&mut client, text)).collect();
        for row in &rows {
            let writes = ["u.one", "u.two"]
                .map(|table| charge(&mut client, &format!("INSERT INTO {table} {row}")));
            assert_eq!(writes[0], writes[1], "round {round}: {row}");
        }
        if round == 3 {
            // Neither where data is nor who asks changes a charge.
            node.stop().unwrap();
            node.launch().unwrap();
            client = Client::connect(&node.address()).unwrap();
        }
        for (text, before) in asked.iter().zip(before) {
            let first = charge(&mut client, text);
            let again = charge(&mut client, text);
            let other = charge(&mut client, &text.replace("u.one", "u.two"));
            assert_eq!((first, first), (again, other), "round {round}: {text}");
            // With a limit, other rows may be the first ones now.
            let is_whole = !text.contains("LIMIT");
            assert!(!is_whole || first >= before, "round {round}: {text}: {first} after {before}");
        }
    }
    for (small, large) in [
        ("LIMIT 5", "LIMIT 50"),
        ("WHERE p = 1 AND c < 5", "WHERE p = 1 AND c < 25"),
        ("WHERE p IN (1, 2)", "WHERE p IN (1, 2, 3)"),
        ("WHERE p = 1", ""),
    ] {
        let less = charge(&mut client, &format!("SELECT * FROM u.one {small}"));
        let more = charge(&mut client, &format!("SELECT * FROM u.one {large}"));
        assert!(more >= less, "{large}: {more}, {small}: {less}");
    }
}

#[test]
fn larger_writes_are_never_cheaper() {
    let (_node, mut client) = start();
    charge(
        &mut client,
        "CREATE TABLE u.t (p int, c int, v text, l list<text>, PRIMARY KEY (p, c))",
    );
    let mut last = [0.0; 5];
    for (number, length) in
        [0, 1, 900, 1_100, 5_000, 20_000, 100_000, 300_000].into_iter().enumerate()
    {
        let value = "x".repeat(length);
        let p = number;
        let charges = [
            charge(&mut client, &format!("INSERT INTO u.t (p, c, v) VALUES ({p}, 1, '{value}')")),
            charge(&mut client, &format!("UPDATE u.t SET v = '{value}' WHERE p = {p} AND c = 1")),
            charge(
                &mut client,
                &format!("UPDATE u.t SET l = l + ['{value}'] WHERE p = {p} AND c = 1"),
            ),
            charge(
                &mut client,
                &format!("UPDATE u.t SET v = 'x' WHERE p = {p} AND c = 1 IF v = '{value}'"),
            ),
            charge(&mut client, &format!("DELETE FROM u.t WHERE p = {p} AND c = 1")),
        ];
        for (now, before) in charges.iter().zip(last) {
            assert!(*now >= before, "{length} bytes: {charges:?} after {last:?}");
        }
        last = charges;
    }
}

#[test]
fn explain_knows_rows_by_their_keys() {
    let (_node, mut client) = start();
    charge(
        &mut client,
        "CREATE TABLE u.t (p int, c int, v text, n int, m set<int>, PRIMARY KEY (p, c))",
    );
    charge(&mut client, "CREATE INDEX by_n ON u.t (n)");
    charge(
        &mut client,
        &format!("INSERT INTO u.t (p, c, v, n) VALUES (1, 1, '{}', 7)", "x".repeat(9_000)),
    );
    charge(&mut client, "INSERT INTO u.t (p, c, v, n, m) VALUES (1, 2, 'small', 8, {1, 2})");
    let filler = format!("'{}'", "y".repeat(70_000));
    // What is estimated of such statements is what they cost, to a hundredth.
    for (text, words) in [
        ("SELECT * FROM u.t WHERE p = 1 AND c = 1", "read a row of u.t by its key: 90"),
        ("SELECT v FROM u.t WHERE p = 1 AND c = 9", "there is none"),
        (
            "SELECT * FROM u.t WHERE p = 1 AND c IN (1, 2, 3)",
            "read 3 rows of u.t by their keys: 2 are there",
        ),
        ("INSERT INTO u.t (p, c, v) VALUES (1, 3, 'new')", "write a new row"),
        ("INSERT INTO u.t (p, c, v) VALUES (1, 1, 'shorter')", "write over a row"),
        (&format!("UPDATE u.t SET v = {filler} WHERE p = 1 AND c = 2"), "write over a row"),
        ("UPDATE u.t SET n = 9 WHERE p = 1 AND c = 2", "2 index entries"),
        ("UPDATE u.t SET m = m + {3} WHERE p = 1 AND c = 2", "write over a row"),
        ("DELETE v FROM u.t WHERE p = 1 AND c = 2", "write over a row"),
        ("INSERT INTO u.t (p, c) VALUES (1, 2) IF NOT EXISTS", "which does not hold now"),
        (
            "INSERT INTO u.t (p, c, n) VALUES (5, 5, 5) IF NOT EXISTS",
            "if it holds, write a new row",
        ),
        ("UPDATE u.t SET v = 'x' WHERE p = 1 AND c = 2 IF EXISTS", "if it holds, write over a row"),
        ("DELETE FROM u.t WHERE p = 1 AND c = 2", "delete a row"),
        ("DELETE FROM u.t WHERE p = 1 AND c = 77", "delete a row that is not there"),
        ("DELETE FROM u.t WHERE p = 1 AND c > 50", "mark a range of rows as deleted"),
        ("DELETE FROM u.t WHERE p = 42", "mark a range of rows as deleted"),
    ] {
        let plan = explained(&mut client, text);
        assert_eq!(plan.len(), 1, "{text}: {plan:?}");
        assert!(plan[0].0.contains(words), "{text}: {}", plan[0].0);
        assert_eq!(plan[0].1, 1, "{text}: {plan:?}");
        // Nothing was executed, so it says the same again.
        assert_eq!(explained(&mut client, text), plan, "{text}");
        let actual = charge(&mut client, text);
        assert!((plan[0].2 - actual).abs() <= 0.02 * actual, "{text}: {plan:?} and then {actual}");
    }
    // A batch has its steps and their sum.
    let batch = "BEGIN BATCH INSERT INTO u.t (p, c) VALUES (7, 1); INSERT INTO u.t (p, c) VALUES (8, 1); APPLY BATCH";
    let plan = explained(&mut client, batch);
    assert_eq!((plan.len(), plan[2].0.as_str()), (3, "in all"), "{plan:?}");
    assert_eq!(plan[2].2, charge(&mut client, batch));
}

#[test]
fn explain_knows_how_much_queries_read() {
    let (_node, mut client) = start();
    charge(&mut client, "CREATE TABLE u.t (p int, c int, v text, n int, PRIMARY KEY (p, c))");
    charge(&mut client, "CREATE INDEX by_n ON u.t (n)");
    for p in 0..20 {
        for c in 0..40 {
            let text = format!(
                "INSERT INTO u.t (p, c, v, n) VALUES ({p}, {c}, '{}', {})",
                "v".repeat(200),
                c % 8
            );
            charge(&mut client, &text);
        }
    }
    for (text, words) in [
        (
            "SELECT * FROM u.t WHERE p = 3",
            "read the rows of one logical partition of u.t: about 40 rows",
        ),
        ("SELECT * FROM u.t WHERE p = 3 LIMIT 10", "about 10 rows"),
        ("SELECT * FROM u.t WHERE p = 3 AND c > 20", "read a slice of one logical partition"),
        ("SELECT * FROM u.t WHERE p IN (1, 2, 3)", "3 logical partitions of u.t: about 120 rows"),
        ("SELECT * FROM u.t WHERE p = 99", "about 0 rows"),
        ("SELECT * FROM u.t", "scan u.t over"),
        ("SELECT * FROM u.t LIMIT 3", "about 3 of 800 rows"),
        ("SELECT count(*) FROM u.t", "about 800 rows"),
        ("SELECT * FROM u.t WHERE v = 'x' ALLOW FILTERING", "and filter them"),
        ("SELECT * FROM u.t WHERE n = 5", "ask index by_n of u.t: 100 entries"),
        ("SELECT * FROM u.t WHERE p = 3 AND n = 5", "ask index by_n of u.t: 5 entries"),
    ] {
        let plan = explained(&mut client, text);
        assert!(plan[0].0.contains(words), "{text}: {}", plan[0].0);
        assert!(plan[0].1 >= 1, "{text}: {plan:?}");
        let (estimated, actual) = (plan[0].2, charge(&mut client, text));
        let ratio = estimated / actual;
        assert!(
            (1.0 / QUERY_FACTOR..=QUERY_FACTOR).contains(&ratio),
            "{text}: {plan:?} and then {actual}"
        );
    }
}

#[test]
fn explain_takes_every_statement_and_does_nothing() {
    let (_node, mut client) = start();
    charge(&mut client, "CREATE TABLE u.t (p int PRIMARY KEY, v text)");
    charge(&mut client, "CREATE TABLE u.c (p int PRIMARY KEY, n counter)");
    for (text, words) in [
        ("UPDATE u.c SET n = n + 1 WHERE p = 1", "write a new row"),
        ("CREATE TABLE u.later (p int PRIMARY KEY)", "change the schema"),
        ("DROP TABLE u.t", "change the schema"),
        ("TRUNCATE u.t", "remove all rows of u.t"),
        ("USE u", "use another keyspace"),
        ("DESCRIBE KEYSPACES", "describe"),
        ("CREATE ROLE somebody", "roles"),
        ("SELECT * FROM system.local", "read system.local, which the node computes"),
    ] {
        let plan = explained(&mut client, text);
        assert!(plan[0].0.contains(words), "{text}: {plan:?}");
    }
    assert_eq!(
        explained(&mut client, "SELECT * FROM u.c")[0].2,
        explained(&mut client, "SELECT * FROM u.t")[0].2
    );
    // What is wrong with a statement is wrong with its explanation.
    for (text, part) in [
        ("EXPLAIN SELECT * FROM u.nothing", "does not exist"),
        ("EXPLAIN SELECT * FROM u.t WHERE v = 'x'", "ALLOW FILTERING"),
        ("EXPLAIN", "no viable alternative"),
    ] {
        let Response::Error(error) = client.query(text, &Execution::default()).unwrap().response
        else {
            panic!("{text} is not refused");
        };
        assert!(error.message.contains(part), "{text}: {}", error.message);
    }
    // Prepared, with values.
    let prepared = client.prepare("EXPLAIN SELECT * FROM u.t WHERE p = ?").unwrap().unwrap();
    let one =
        Execution { values: vec![OwnedValue::Bytes(vec![0, 0, 0, 1])], ..Execution::default() };
    let Response::Rows(rows) = client.execute(&prepared, &one).unwrap().response else { panic!() };
    assert_eq!(rows.row_count, 1);
}

#[test]
fn explain_asks_for_the_rights_of_the_statement() {
    let settings =
        ["auth.authenticator=password", "auth.authorizer=cassandra", "units.payload=always"];
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", *setting]).collect();
    let node = Node::start(Path::new(BINARY), &settings).unwrap();
    let mut admin = Client::connect_as(&node.address(), "cassandra", "cassandra").unwrap();
    for text in [
        KEYSPACE,
        "CREATE TABLE u.t (p int PRIMARY KEY, v text)",
        "CREATE ROLE reader WITH PASSWORD = 'secret' AND LOGIN = true",
        "GRANT SELECT ON u.t TO reader",
    ] {
        charge(&mut admin, text);
    }
    let mut reader = Client::connect_as(&node.address(), "reader", "secret").unwrap();
    assert_eq!(explained(&mut reader, "SELECT * FROM u.t WHERE p = 1").len(), 1);
    for text in ["EXPLAIN INSERT INTO u.t (p) VALUES (1)", "EXPLAIN DROP TABLE u.t"] {
        let Response::Error(error) = reader.query(text, &Execution::default()).unwrap().response
        else {
            panic!("{text} is allowed");
        };
        assert!(error.message.contains("has no"), "{text}: {}", error.message);
    }
}

/// The fields of the error text, by the rules of the public client extensions.
fn retry_after_ms(message: &str) -> Option<u64> {
    // Java: fields between commas, each two parts around one `=`, the key trimmed, the value as it is.
    let java =
        message.split(',').find_map(|field| match field.split('=').collect::<Vec<_>>()[..] {
            [key, value] if key.trim() == "RetryAfterMs" => value.parse().ok(),
            _ => None,
        });
    // Go: the marker, and the second field.
    let go = message
        .contains("TooManyRequests (429)")
        .then(|| message.split(',').nth(1)?.trim().strip_prefix("RetryAfterMs=")?.parse().ok())
        .flatten();
    assert_eq!(java, go, "{message}");
    java
}

#[test]
fn who_waits_as_told_is_served() {
    let (_node, mut client) = start();
    charge(
        &mut client,
        "CREATE TABLE u.t (p int PRIMARY KEY) WITH cosmosdb_provisioned_throughput = 100",
    );
    let (mut refused, mut spent) = (0, 0.0);
    for p in 0..60 {
        let text = format!("INSERT INTO u.t (p) VALUES ({p})");
        let first = client.query(&text, &Execution::default()).unwrap();
        let answer = match &first.response {
            Response::Error(error) => {
                assert_eq!(
                    (error.kind.code(), charge_of(&first)),
                    (0x1001, 0.0),
                    "{}",
                    error.message
                );
                refused += 1;
                let wait_ms = retry_after_ms(&error.message).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(wait_ms));
                client.query(&text, &Execution::default()).unwrap()
            }
            _ => first,
        };
        assert_eq!(answer.response, Response::Void, "{text}");
        spent += charge_of(&answer);
    }
    assert!(refused > 10, "{refused}");
    assert!((spent - 60.0 * 4.95).abs() < 0.001, "{spent}");
}

#[test]
fn requests_wait_on_the_server_where_that_is_set() {
    let retried = ["--set", "units.server_side_retry=u", "--set", "timeouts.write=60s"];
    let settings = [&retried[..], &TELLS].concat();
    let node = Node::start(Path::new(BINARY), &settings).unwrap();
    let mut admin = Client::connect(&node.address()).unwrap();
    charge(&mut admin, KEYSPACE);
    charge(
        &mut admin,
        "CREATE TABLE u.t (p int PRIMARY KEY) WITH cosmosdb_provisioned_throughput = 1000",
    );
    // Thirty clients ask for three seconds' worth at once: nobody is refused.
    let clients: Vec<_> = (0..30i32)
        .map(|number| {
            let address = node.address();
            std::thread::spawn(move || {
                let mut client = Client::connect(&address).unwrap();
                let insert = client.prepare("INSERT INTO u.t (p) VALUES (?)").unwrap().unwrap();
                let execution = |p: i32| Execution {
                    values: vec![OwnedValue::Bytes(p.to_be_bytes().to_vec())],
                    ..Execution::default()
                };
                let executions: Vec<Execution> =
                    (0..20).map(|p| execution(number * 20 + p)).collect();
                client.execute_many(&insert, &executions).unwrap();
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let rows = admin.query("SELECT count(*) FROM u.t", &Execution::default()).unwrap();
    let Response::Rows(rows) = rows.response else { panic!("{rows:?}") };
    let count = rows.rows().next().unwrap().into_iter().next().unwrap().unwrap().to_vec();
    assert_eq!(count, 600i64.to_be_bytes());
}

#[test]
fn the_cosmos_profile_makes_keyspaces_without_a_word() {
    let settings =
        ["--profile", "cosmos", "--set", "tls.mode=off", "--set", "auth.authenticator=allow_all"];
    let node = Node::start(Path::new(BINARY), &settings).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    charge(&mut client, "CREATE KEYSPACE u;");
    charge(&mut client, "create keyspace if not exists u");
    charge(&mut client, "CREATE TABLE u.t (p int PRIMARY KEY)");
    let throughput = "SELECT maximum_ru_s FROM system_helenus.throughput WHERE keyspace_name = 'u'";
    let Response::Rows(rows) = client.query(throughput, &Execution::default()).unwrap().response
    else {
        panic!();
    };
    let units = rows.rows().next().unwrap().into_iter().next().unwrap().unwrap().to_vec();
    assert_eq!(units, 400i32.to_be_bytes());
    let text = "ALTER TABLE u.t WITH cosmosdb_provisioned_throughput = 350";
    let Response::Error(error) = client.query(text, &Execution::default()).unwrap().response else {
        panic!();
    };
    assert_eq!(
        (error.kind.code(), error.message.contains("between 400 and 1000000")),
        (0x2300, true)
    );
    let (_node, mut client) = start();
    let Response::Error(error) =
        client.query("CREATE KEYSPACE k", &Execution::default()).unwrap().response
    else {
        panic!();
    };
    assert_eq!(error.message, "line 0:-1 mismatched input '<EOF>' expecting K_WITH");
}
