//! What people may do, and what is kept of it: guardrails, the audit log, limits on logins, sessions and statements.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and measures real time"
)]

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use protocol::{BatchKind, Consistency, Response, ResponseMessage, Version};
use testkit::{Client, Cluster, Execution, Node};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const LOGIN: [&str; 4] =
    ["--set", "auth.authenticator=password", "--set", "auth.authorizer=cassandra"];

fn start(settings: &[String]) -> Node {
    let mut words: Vec<&str> = LOGIN.to_vec();
    for setting in settings {
        words.extend(["--set", setting]);
    }
    Node::start(Path::new(BINARY), &words).unwrap()
}

fn admin(node: &Node) -> Client {
    Client::connect_as(&node.address(), "cassandra", "cassandra").unwrap()
}

/// Runs a statement that goes well.
fn run(client: &mut Client, text: &str) -> ResponseMessage {
    let answer = client.query(text, &Execution::default()).unwrap();
    assert!(!matches!(answer.response, Response::Error(_)), "{text}: {answer:?}");
    answer
}

fn error_of(answer: &ResponseMessage) -> String {
    match &answer.response {
        Response::Error(error) => format!("{:04x} {}", error.kind.code(), error.message),
        _ => "ok".to_owned(),
    }
}

fn make_roles(node: &Node) -> Client {
    let mut admin = admin(node);
    for text in [
        "CREATE ROLE joe WITH PASSWORD = 'joe' AND LOGIN = true",
        "CREATE ROLE ann WITH PASSWORD = 'ann' AND LOGIN = true",
        "GRANT ALL ON ALL KEYSPACES TO joe",
    ] {
        run(&mut admin, text);
    }
    admin
}

/// How a task is sent.
fn execution(words: &[&str]) -> Execution {
    let level = |name: &str| Consistency::ALL.into_iter().find(|level| level.to_string() == name);
    let value = |of: &str| words.iter().find_map(|word| word.strip_prefix(of));
    Execution {
        consistency: words.iter().find_map(|word| level(word)),
        page_size: value("page=").map(|size| size.parse().unwrap()),
        serial_consistency: value("serial=").and_then(level),
        ..Execution::default()
    }
}

#[test]
fn guardrails_say_what_cassandra_says() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let tasks = fs::read_to_string(golden.join("guardrails.tasks")).unwrap();
    let settings: Vec<String> = tasks
        .lines()
        .filter_map(|line| line.strip_prefix("set ")?.split_once(' '))
        .map(|(name, value)| format!("guardrails.{name}={value}"))
        .collect();
    let node = start(&settings);
    let admin = make_roles(&node);
    let mut clients = HashMap::from([(("super", Version::V4), admin)]);
    let mut kept = HashMap::new();
    let mut out = String::new();
    let is_task = |line: &&str| !line.is_empty() && !line.starts_with(['#', ' ']);
    for line in tasks.lines().filter(is_task).filter(|line| !line.starts_with("set ")) {
        let (head, statement) = line.split_once(": ").unwrap();
        let mut words = head.split_whitespace();
        let role = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let version = if words.contains(&"v3") { Version::V3 } else { Version::V4 };
        let client = clients.entry((role, version)).or_insert_with(|| {
            Client::connect_as_with(&node.address(), version, role, role).unwrap()
        });
        let mut text = statement.to_owned();
        for size in [250, 350, 1500, 2500] {
            text = text.replace(&format!("<{size}>"), &"x".repeat(size));
        }
        let execution = execution(&words);
        let answer = if words.contains(&"batch") {
            let statements: Vec<_> =
                text.split("; ").map(|text| (text.to_owned(), None, Vec::new())).collect();
            client.batch_at(BatchKind::Logged, &statements, &execution).unwrap()
        } else if words.contains(&"again") {
            client.execute(&kept[statement], &execution).unwrap()
        } else if words.contains(&"prepare") || words.contains(&"execute") {
            match client.prepare(&text).unwrap() {
                Err(answer) => answer,
                Ok(prepared) if words.contains(&"execute") => {
                    client.execute(&prepared, &execution).unwrap()
                }
                Ok(prepared) => {
                    kept.insert(statement, prepared);
                    out.push_str(&format!("{line}\n    ok\n"));
                    continue;
                }
            }
        } else {
            client.query(&text, &execution).unwrap()
        };
        out.push_str(&format!("{line}\n    {}\n", error_of(&answer)));
        for warning in &answer.warnings {
            out.push_str(&format!("    warning: {warning}\n"));
        }
    }
    let expected = fs::read_to_string(golden.join("guardrails.out")).unwrap();
    let differs = expected.lines().zip(out.lines()).position(|(one, other)| one != other);
    if let Some(at) = differs {
        let around = |text: &str| -> Vec<String> {
            text.lines().skip(at.saturating_sub(3)).take(8).map(str::to_owned).collect()
        };
        panic!("Cassandra: {:#?}\nHelenus: {:#?}", around(&expected), around(&out));
    }
    assert_eq!(expected.lines().count(), out.lines().count());
}

#[test]
fn guardrails_hold_for_everybody_where_nobody_logs_in_and_in_every_version() {
    let settings = [
        "guardrails.page_size_warn=10",
        "guardrails.tables_fail=1",
        "guardrails.vector_dimensions_fail=8",
        "guardrails.in_select_cartesian_product_fail=3",
    ];
    let words: Vec<&str> = settings.into_iter().flat_map(|it| ["--set", it]).collect();
    let node = Node::start(Path::new(BINARY), &words).unwrap();
    for version in [Version::V3, Version::V4, Version::V5] {
        let mut client = Client::connect_with(&node.address(), version).unwrap();
        let execution = Execution { page_size: Some(11), ..Execution::default() };
        let answer = client.query("SELECT key FROM system.local", &execution).unwrap();
        let expected = "Guardrail page_size violated: Query for table local with page size 11 exceeds warning threshold of 10.";
        let expected: &[&str] = if version == Version::V3 { &[] } else { &[expected] };
        assert_eq!(answer.warnings, expected, "{version:?}");
    }
    let mut client = Client::connect(&node.address()).unwrap();
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    run(&mut client, &format!("CREATE KEYSPACE ks WITH replication = {replication}"));
    run(&mut client, "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c))");
    let mut error = |text: &str| error_of(&client.query(text, &Execution::default()).unwrap());
    assert_eq!(
        error("CREATE TABLE ks.t2 (k int PRIMARY KEY)"),
        "2200 Guardrail tables violated: Cannot have more than 1 tables, aborting the creation of table t2"
    );
    // Vectors within other types are vectors.
    for (nested, refused) in [
        ("vector<float, 9>", true),
        ("list<vector<float, 9>>", true),
        ("set<frozen<vector<float, 9>>>", true),
        ("map<int, vector<float, 9>>", true),
        ("map<vector<float, 9>, int>", true),
        ("tuple<int, list<vector<float, 9>>>", true),
        ("map<vector<float, 8>, list<int>>", false),
    ] {
        let column = nested.split(['<', ',']).next().unwrap();
        let told = error(&format!("ALTER TABLE ks.t ADD v_{column} {nested}"));
        let expected = "2200 Guardrail vector_dimensions violated: Column v_";
        assert_eq!(told.starts_with(expected), refused, "{nested}: {told}");
    }
    // What a statement of a batch names counts as it does alone.
    let product = "2200 Guardrail in_select_cartesian_product violated: Aborting query because the cartesian product of the IN restrictions on";
    for (deleted, what) in [
        ("k IN (1, 2, 3, 4)", Some("partition key")),
        ("k = 1 AND c IN (1, 2, 3, 4)", Some("clustering key")),
        ("k IN (1, 2, 3)", None),
    ] {
        let expected = what.map_or("ok".to_owned(), |what| {
            format!("{product} {what} produces 4 values, this exceeds fail threshold of 3.")
        });
        let insert = "INSERT INTO ks.t (k, c) VALUES (1, 1)";
        let delete = format!("DELETE FROM ks.t WHERE {deleted}");
        assert_eq!(error(&delete), expected);
        assert_eq!(error(&format!("BEGIN BATCH {insert}; {delete}; APPLY BATCH")), expected);
    }
}

/// Whoever knows the text of a statement knows its id.
#[test]
fn what_was_refused_when_it_was_prepared_cannot_be_run_by_its_id() {
    let mut node = start(&["guardrails.group_by_enabled=false".to_owned()]);
    let mut admin = make_roles(&node);
    let text = "SELECT key, count(*) FROM system.local GROUP BY key";
    let known = admin.prepare(text).unwrap().unwrap();
    node.stop().unwrap();
    node.launch().unwrap();
    let mut joe = Client::connect_as(&node.address(), "joe", "joe").unwrap();
    let refused = joe.prepare(text).unwrap().err().unwrap();
    assert!(error_of(&refused).starts_with("2200 Guardrail group_by violated"), "{refused:?}");
    let run = joe.execute(&known, &Execution::default()).unwrap();
    assert!(error_of(&run).starts_with("2500"), "{run:?}");
}

/// The lines of the audit log, once the node has stopped, without what differs from run to run.
fn audit_lines(node: &mut Node) -> Vec<String> {
    let folder: PathBuf = node.data_dir().join("audit");
    node.stop().unwrap();
    let text = fs::read_to_string(folder.join("audit.log")).unwrap();
    let is_kept = |field: &&str| {
        !["host:", "port:", "timestamp:", "source:"].iter().any(|it| field.starts_with(it))
    };
    text.lines()
        .map(|line| line.splitn(12, '|').filter(is_kept).collect::<Vec<_>>().join("|"))
        .collect()
}

/// The same lines without the ids of batches.
fn without_batch_ids(lines: &[String]) -> Vec<String> {
    let without_id = |line: &String| {
        let mut fields: Vec<&str> = line.split('|').collect();
        fields.retain(|field| !field.starts_with("batch:"));
        let line = fields.join("|");
        match line.split_once("BatchId:[") {
            Some((before, after)) => format!("{before}BatchId:[{}", &after[36..]),
            None => line,
        }
    };
    lines.iter().map(without_id).collect()
}

#[test]
fn the_audit_log_tells_who_did_what_and_never_a_password() {
    let settings = ["audit.enabled=true".to_owned(), "audit.included_categories=".to_owned()];
    let mut node = start(&settings);
    assert!(Client::connect_as(&node.address(), "cassandra", "guessed").is_err());
    assert!(Client::connect_as(&node.address(), "no|bo\ndy", "guessed").is_err());
    let mut admin = admin(&node);
    run(&mut admin, "CREATE ROLE joe WITH PASSWORD = 'joesecret' AND LOGIN = true");
    let broken = "CREATE ROLE ann WITH PASSWORD = 'annsecret' AND LOGI = true";
    assert!(error_of(&admin.query(broken, &Execution::default()).unwrap()).starts_with("2000"));
    let options = "CREATE ROLE eve WITH OPTIONS = {'token': 'evesecret'}";
    assert!(error_of(&admin.query(options, &Execution::default()).unwrap()).starts_with("2200"));
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    run(&mut admin, &format!("CREATE KEYSPACE ks WITH replication = {replication}"));
    run(&mut admin, "CREATE TABLE ks.t (k text PRIMARY KEY, v text)");
    run(&mut admin, "GRANT MODIFY ON ks.t TO joe");
    let mut joe = Client::connect_as(&node.address(), "joe", "joesecret").unwrap();
    run(&mut joe, "INSERT INTO ks.t (k, v) VALUES ('key', 'rowsecret')");
    let read = joe.query("SELECT v FROM ks.t WHERE k = 'rowsecret'", &Execution::default());
    assert!(error_of(&read.unwrap()).starts_with("2100"));
    run(&mut admin, "SELECT v FROM ks.t WHERE k = 'rowsecret'");
    run(&mut admin, "SELECT key FROM system.local");
    let prepared = joe.prepare("DELETE FROM ks.t WHERE k = ?").unwrap().unwrap();
    let values = vec![testkit::OwnedValue::Bytes(b"rowsecret".to_vec())];
    joe.execute(&prepared, &Execution { values, ..Execution::default() }).unwrap();
    let batch = ["INSERT INTO ks.t (k) VALUES ('a')", "DELETE FROM ks.t WHERE k = 'b'"]
        .map(|text| (text.to_owned(), None, Vec::new()));
    joe.batch(BatchKind::Logged, &batch).unwrap();
    run(&mut admin, "USE ks");
    run(&mut admin, "TRUNCATE t");
    let lines = audit_lines(&mut node);
    let all = lines.join("\n");
    for secret in ["joesecret", "annsecret", "evesecret", "rowsecret", "guessed"] {
        assert!(!all.contains(secret), "{all}");
    }
    let without_batch = without_batch_ids(&lines);
    let expected = "\
user:cassandra|type:LOGIN_ERROR|category:AUTH|operation:LOGIN FAILURE; Provided username cassandra and/or password are incorrect
user:no\\u{7c}bo\\ndy|type:LOGIN_ERROR|category:AUTH|operation:LOGIN FAILURE; Provided username no|bo\\ndy and/or password are incorrect
user:cassandra|type:LOGIN_SUCCESS|category:AUTH|operation:LOGIN SUCCESSFUL
user:cassandra|type:CREATE_ROLE|category:DCL|operation:CREATE ROLE joe WITH PASSWORD = '*******' AND LOGIN = true
user:cassandra|type:REQUEST_FAILURE|category:ERROR|operation:CREATE ROLE ann WITH PASSWORD *******; syntax_error
user:cassandra|type:REQUEST_FAILURE|category:ERROR|operation:CREATE ROLE eve WITH OPTIONS = {?: ?}; invalid
user:cassandra|type:CREATE_KEYSPACE|category:DDL|ks:ks|operation:CREATE KEYSPACE ks WITH replication = {?: ?, ?: ?}
user:cassandra|type:CREATE_TABLE|category:DDL|ks:ks|scope:t|operation:CREATE TABLE ks.t (k text PRIMARY KEY, v text)
user:cassandra|type:GRANT|category:DCL|ks:ks|scope:t|operation:GRANT MODIFY ON ks.t TO joe
user:joe|type:LOGIN_SUCCESS|category:AUTH|operation:LOGIN SUCCESSFUL
user:joe|type:UPDATE|category:DML|ks:ks|scope:t|operation:INSERT INTO ks.t (k, v) VALUES (?, ?)
user:joe|type:UNAUTHORIZED_ATTEMPT|category:AUTH|ks:ks|scope:t|operation:SELECT v FROM ks.t WHERE k = ?; User joe has no SELECT permission on <table ks.t> or any of its parents
user:cassandra|type:SELECT|category:QUERY|ks:ks|scope:t|operation:SELECT v FROM ks.t WHERE k = ?
user:joe|type:PREPARE_STATEMENT|category:PREPARE|ks:ks|scope:t|operation:DELETE FROM ks.t WHERE k = ?
user:joe|type:DELETE|category:DML|ks:ks|scope:t|operation:DELETE FROM ks.t WHERE k = ?
user:joe|type:BATCH|category:DML|operation:BatchId:[] - BATCH of [2] statements
user:joe|type:UPDATE|category:DML|ks:ks|scope:t|operation:INSERT INTO ks.t (k) VALUES (?)
user:joe|type:DELETE|category:DML|ks:ks|scope:t|operation:DELETE FROM ks.t WHERE k = ?
user:cassandra|type:USE_KEYSPACE|category:OTHER|ks:ks|operation:USE ks
user:cassandra|type:TRUNCATE|category:DDL|ks:ks|scope:t|operation:TRUNCATE t";
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(without_batch, expected, "{}", without_batch.join("\n"));
}

#[test]
fn the_audit_log_can_be_narrowed_and_show_values() {
    let settings = [
        "audit.enabled=true",
        "audit.included_categories=DML,DCL,QUERY,ERROR",
        "audit.excluded_categories=QUERY",
        "audit.excluded_users=ann",
        "audit.included_keyspaces=ks",
        "audit.statement_values=true",
    ];
    let mut node = start(&settings.map(str::to_owned));
    let mut admin = make_roles(&node);
    run(&mut admin, "GRANT ALL ON ALL KEYSPACES TO ann");
    for keyspace in ["ks", "other"] {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        run(&mut admin, &format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}"));
        run(&mut admin, &format!("CREATE TABLE {keyspace}.t (k int PRIMARY KEY)"));
        for role in ["joe", "ann"] {
            let mut client = Client::connect_as(&node.address(), role, role).unwrap();
            run(&mut client, &format!("INSERT INTO {keyspace}.t (k) VALUES (7)"));
            run(&mut client, &format!("SELECT * FROM {keyspace}.t WHERE k = 7"));
        }
    }
    // The keyspace in use hides nothing that is not about it.
    run(&mut admin, "USE system");
    run(&mut admin, "ALTER ROLE joe WITH PASSWORD = 'never'");
    // The error tells the password.
    let broken = "ALTER ROLE joe WITH PASSWORD = never";
    let told = error_of(&admin.query(broken, &Execution::default()).unwrap());
    assert!(told.starts_with("2000") && told.contains("never"), "{told}");
    let lines = audit_lines(&mut node);
    let ours: Vec<&String> = lines.iter().skip(4).collect();
    assert_eq!(
        ours,
        [
            "user:joe|type:UPDATE|category:DML|ks:ks|scope:t|operation:INSERT INTO ks.t (k) VALUES (7)",
            "user:cassandra|type:ALTER_ROLE|category:DCL|ks:system|operation:ALTER ROLE joe WITH PASSWORD = '*******'",
            "user:cassandra|type:REQUEST_FAILURE|category:ERROR|ks:system|operation:ALTER ROLE joe WITH PASSWORD *******; Syntax Exception. Obscured for security reasons.",
        ],
        "{lines:#?}"
    );
}

/// Who is to be seen is not hidden by putting a statement first that is not.
#[test]
fn filters_look_at_all_that_a_statement_is_about() {
    let settings = [
        "audit.enabled=true",
        "audit.included_categories=",
        "audit.excluded_categories=auth,PREPARE,OTHER",
        "audit.included_users=joe,ann",
        "audit.excluded_users=ann",
        "audit.excluded_keyspaces=other",
        "audit.statement_values=true",
    ];
    let mut node = start(&settings.map(str::to_owned));
    let mut admin = make_roles(&node);
    for keyspace in ["ks", "other"] {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        run(&mut admin, &format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}"));
        run(&mut admin, &format!("CREATE TABLE {keyspace}.t (k int PRIMARY KEY)"));
    }
    run(&mut admin, "GRANT ALL ON ALL KEYSPACES TO ann");
    let connect = |role: &str| Client::connect_as(&node.address(), role, role).unwrap();
    let (mut joe, mut ann) = (connect("joe"), connect("ann"));
    let (first, second) = ("INSERT INTO other.t (k) VALUES (1)", "INSERT INTO ks.t (k) VALUES (2)");
    let batch = |client: &mut Client, texts: [&str; 2]| {
        let texts = texts.map(|text| (text.to_owned(), None, Vec::new()));
        client.batch(BatchKind::Logged, &texts).unwrap()
    };
    // Nothing of this is to be seen.
    run(&mut ann, second);
    run(&mut joe, first);
    run(&mut joe, "SELECT k FROM other.t");
    batch(&mut joe, [first, first]);
    joe.prepare(second).unwrap().unwrap();
    // Of these what is not about the other keyspace.
    run(&mut joe, &format!("BEGIN BATCH {first}; {second}; APPLY BATCH"));
    batch(&mut joe, [first, second]);
    let conditional = [first, second].map(|text| format!("{text} IF NOT EXISTS"));
    let failed = batch(&mut joe, [&conditional[0], &conditional[1]]);
    assert!(error_of(&failed).starts_with("2200"), "{failed:?}");
    // A misspelt word is no password less.
    let broken = "ALTER ROLE joe WITH PASSWRD = 'hunter2'";
    let told = error_of(&joe.query(broken, &Execution::default()).unwrap());
    assert!(told.starts_with("2000"), "{told}");
    let lines = without_batch_ids(&audit_lines(&mut node));
    let (failure, rest) = lines[3].rsplit_once("; ").unwrap();
    assert!(rest.starts_with("Batch with conditions cannot span multiple tables"), "{rest}");
    assert_eq!(
        [&lines[0], &lines[1], &lines[2], failure, &lines[4]],
        [
            "user:joe|type:BATCH|category:DML|ks:ks|operation:BEGIN BATCH INSERT INTO other.t (k) VALUES (1); INSERT INTO ks.t (k) VALUES (2); APPLY BATCH",
            "user:joe|type:BATCH|category:DML|operation:BatchId:[] - BATCH of [2] statements",
            "user:joe|type:UPDATE|category:DML|ks:ks|scope:t|operation:INSERT INTO ks.t (k) VALUES (2)",
            "user:joe|type:REQUEST_FAILURE|category:ERROR|ks:ks|scope:t|operation:BATCH of [2] statements: INSERT INTO other.t (k) VALUES (1) IF NOT EXISTS; INSERT INTO ks.t (k) VALUES (2) IF NOT EXISTS",
            "user:joe|type:REQUEST_FAILURE|category:ERROR|operation:ALTER ROLE *******; Syntax Exception. Obscured for security reasons.",
        ]
    );
    assert_eq!(lines.len(), 5, "{lines:#?}");
}

/// What is kept of an audit log: the numbers that were written, file by file, the oldest first.
fn audit_files(node: &Node) -> Vec<Vec<u32>> {
    let folder = node.data_dir().join("audit");
    let mut names: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Their names begin alike and have the time in them; the newest has none, and comes last.
    names.sort();
    let number =
        |line: &str| line.split_once("VALUES (").unwrap().1.split_once(',')?.0.parse().ok();
    let read = |name: &PathBuf| {
        let text = fs::read_to_string(name).unwrap();
        assert!(text.len() <= 64 << 10, "{} has {} bytes", name.display(), text.len());
        text.lines().map(|line| number(line).unwrap()).collect()
    };
    names.iter().map(read).collect()
}

#[test]
fn files_of_the_audit_log_are_bounded_and_the_latest_are_kept() {
    let settings = [
        "audit.enabled=true",
        "audit.included_categories=DML",
        "audit.statement_values=true",
        "audit.file_bytes=64KiB",
        "audit.kept_bytes=192KiB",
    ];
    let mut node = start(&settings.map(str::to_owned));
    let mut admin = admin(&node);
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    run(&mut admin, &format!("CREATE KEYSPACE ks WITH replication = {replication}"));
    run(&mut admin, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
    let value = "x".repeat(3000);
    let insert = |client: &mut Client, number: u32| {
        run(client, &format!("INSERT INTO ks.t (k, v) VALUES ({number}, '{value}')"));
    };
    // More than six files.
    (0..150).for_each(|number| insert(&mut admin, number));
    node.stop().unwrap();
    let kept = audit_files(&node);
    // Two that are full, and one that is begun; a line is about 3,200 bytes.
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert!(kept[..2].iter().all(|file| file.len() >= 18), "{kept:?}");
    let all = kept.concat();
    assert!(
        all.iter().copied().eq(all[0]..150),
        "none is missing, and none is there twice: {all:?}"
    );
    // The next start goes on with the last, and with what is to be kept.
    node.launch().unwrap();
    let mut admin = self::admin(&node);
    (150..200).for_each(|number| insert(&mut admin, number));
    node.stop().unwrap();
    let kept = audit_files(&node);
    assert_eq!(kept.len(), 3, "{kept:?}");
    let all = kept.concat();
    assert!(all.iter().copied().eq(all[0]..200), "{all:?}");
}

#[test]
fn failed_logins_slow_down_whoever_comes_next_and_are_told() {
    let mut node = start(&["audit.enabled=true".to_owned()]);
    make_roles(&node);
    let timed = |name: &str, password: &str| {
        let begin = Instant::now();
        let is_in = Client::connect_as(&node.address(), name, password).is_ok();
        (is_in, begin.elapsed())
    };
    let mut last = Duration::ZERO;
    // There is no such role: nothing tells.
    for _ in 0..8 {
        let (is_in, took) = timed("nobody", "wrong");
        assert!(!is_in);
        last = took;
    }
    assert!(last >= Duration::from_millis(500), "{last:?}");
    // Not checked before, from the same address: it waits, too, and comes in.
    let (is_in, took) = timed("ann", "ann");
    assert!(is_in && took >= Duration::from_millis(500), "{took:?}");
    // Checked before: it does not. A busy machine may take as long for other reasons, but not every time.
    let mut quick = 0;
    let mut tries = 0;
    while quick == 0 && tries < 10 {
        let (is_in, took) = timed("ann", "ann");
        assert!(is_in, "{took:?}");
        tries += 1;
        quick += u32::from(took < Duration::from_millis(500));
    }
    assert!(quick > 0, "{tries} logins took too long");
    let lines = audit_lines(&mut node);
    let failed = lines.iter().filter(|line| line.contains("type:LOGIN_ERROR")).count();
    let succeeded = lines.iter().filter(|line| line.contains("type:LOGIN_SUCCESS")).count();
    assert_eq!((failed, succeeded), (8, 2 + tries), "{lines:#?}");
}

#[test]
fn sessions_and_statements_of_a_role_are_bounded() {
    let settings = ["limits.sessions_per_role=2", "limits.statements_per_second_per_role=20"];
    let node = start(&settings.map(str::to_owned));
    let mut admin = make_roles(&node);
    let log_in = || Client::connect_as(&node.address(), "joe", "joe");
    let mut first = log_in().unwrap();
    let second = log_in().unwrap();
    let refused = log_in().err().unwrap().to_string();
    assert!(refused.contains("limits.sessions_per_role"), "{refused}");
    assert!(Client::connect_as(&node.address(), "ann", "ann").is_ok());
    drop(second);
    let begin = Instant::now();
    while log_in().is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the session that ended still counts");
    }
    // Sixty at once are more than twenty a second; one after the other they might not be.
    let sixty = |client: &mut Client| -> Vec<String> {
        for _ in 0..60 {
            client.post("SELECT key FROM system.local", &Execution::default()).unwrap();
        }
        let answers: Vec<_> = (0..60).map(|_| client.answer().unwrap()).collect();
        answers.iter().map(error_of).filter(|told| told != "ok").collect()
    };
    let refusals = sixty(&mut first);
    let told = refusals.first().expect("sixty at once are more than twenty a second");
    assert!(
        told.starts_with(
            "1001 Request rate is large: limits.statements_per_second_per_role is 20, RetryAfterMs="
        ),
        "{told}"
    );
    // Superusers are not counted.
    assert_eq!(sixty(&mut admin), [""; 0]);
    std::thread::sleep(Duration::from_millis(1100));
    run(&mut first, "SELECT key FROM system.local");
    // The statements of a batch count: nineteen and this one.
    std::thread::sleep(Duration::from_millis(1100));
    run(
        &mut admin,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(&mut admin, "CREATE TABLE ks.t (k int PRIMARY KEY)");
    let batch: Vec<_> = (0..19)
        .map(|number| (format!("INSERT INTO ks.t (k) VALUES ({number})"), None, Vec::new()))
        .collect();
    let answer = first.batch(BatchKind::Unlogged, &batch).unwrap();
    assert_eq!(error_of(&answer), "ok");
    // Unless a second has passed meanwhile.
    let mut again = (0..20).map(|_| error_of(&first.batch(BatchKind::Unlogged, &batch).unwrap()));
    assert!(again.any(|told| told.starts_with("1001")));
    // To come again settles no debts, and BEGIN BATCH holds what it holds: both as text and prepared.
    let text =
        format!("BEGIN BATCH {} APPLY BATCH", "INSERT INTO ks.t (k) VALUES (1);".repeat(200));
    let prepared = admin.prepare(&text).unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    run(&mut first, &text);
    drop(first);
    let begin = Instant::now();
    let mut again = loop {
        match log_in() {
            Ok(client) => break client,
            Err(_) => assert!(begin.elapsed() < Duration::from_secs(8), "the session still counts"),
        }
    };
    assert!(begin.elapsed() < Duration::from_secs(8));
    let answer = again.execute(&prepared, &Execution::default()).unwrap();
    assert!(error_of(&answer).starts_with("1001"), "{answer:?}");
    let answer = again.query("SELECT key FROM system.local", &Execution::default()).unwrap();
    assert!(error_of(&answer).starts_with("1001"), "{answer:?}");
}

#[test]
fn who_does_not_wait_for_an_answer_is_kept_all_the_same() {
    let settings =
        ["audit.enabled=true".to_owned(), "audit.included_categories=DML,DDL".to_owned()];
    let mut node = start(&settings);
    let mut admin = make_roles(&node);
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    run(&mut admin, &format!("CREATE KEYSPACE ks WITH replication = {replication}"));
    run(&mut admin, "CREATE TABLE ks.t (k int PRIMARY KEY)");
    for number in 0..20 {
        let mut joe = Client::connect_as(&node.address(), "joe", "joe").unwrap();
        let text = format!("INSERT INTO ks.t (k) VALUES ({number})");
        joe.post(&text, &Execution::default()).unwrap();
        drop(joe);
    }
    // What was read from a connection is done, whether anybody waits or not; once the node has stopped, all of it.
    let lines = audit_lines(&mut node);
    let kept = lines.iter().filter(|line| line.starts_with("user:joe|type:UPDATE")).count();
    node.launch().unwrap();
    let mut admin = self::admin(&node);
    let answer = run(&mut admin, "SELECT k FROM ks.t");
    let Response::Rows(rows) = answer.response else { panic!("{answer:?}") };
    let done = rows.rows().count();
    assert!(kept == done && done > 0, "{done} rows, {kept} entries\n{lines:#?}");
    // The next start goes on with the file.
    run(&mut admin, "TRUNCATE ks.t");
    let more = audit_lines(&mut node);
    assert_eq!(more.len(), lines.len() + 1);
    assert!(more.starts_with(&lines), "{more:#?}");
}

#[test]
fn what_was_refused_is_not_kept_as_done_when_nobody_waits() {
    let mut node = start(&["audit.enabled=true".to_owned()]);
    make_roles(&node);
    let joe = || Client::connect_as(&node.address(), "joe", "joe").unwrap();
    let statements = ["GRANT joe TO ann", "ALTER ROLE ann WITH SUPERUSER = true", "DROP ROLE ann"];
    // Many at once, so that most are still on their way when the client leaves.
    let mut hasty = joe();
    for text in statements.iter().cycle().take(300) {
        hasty.post(text, &Execution::default()).unwrap();
    }
    drop(hasty);
    for text in statements {
        let answer = joe().query(text, &Execution::default()).unwrap();
        assert!(error_of(&answer).starts_with("2100"), "{text}: {answer:?}");
    }
    let lines = audit_lines(&mut node);
    let of_joe: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("user:joe|") && !line.contains("|type:LOGIN_SUCCESS|"))
        .collect();
    assert!(of_joe.len() >= statements.len(), "{lines:#?}");
    let is_refusal = |line: &&String| line.contains("|type:UNAUTHORIZED_ATTEMPT|");
    assert!(of_joe.iter().all(is_refusal), "{of_joe:#?}");
}

#[test]
fn nodes_of_a_cluster_guard_and_keep_what_their_own_clients_do() {
    let settings = [
        "timeouts.read=20s",
        "timeouts.write=20s",
        "guardrails.read_consistency_levels_warned=QUORUM",
        "guardrails.tables_fail=1",
        "guardrails.items_per_collection_fail=2",
        "audit.enabled=true",
        "audit.included_categories=",
    ];
    let mut cluster = Cluster::start(Path::new(BINARY), 3, &settings).unwrap();
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}";
    let mut first = cluster.client(1).unwrap();
    run(&mut first, &format!("CREATE KEYSPACE ks WITH replication = {replication}"));
    run(&mut first, "CREATE TABLE ks.t (k int PRIMARY KEY, l list<int>)");
    for node in 1..=3 {
        let mut client = cluster.client(node).unwrap();
        let mut error = |text: &str| {
            error_of(&client.query(text, &Execution::at(Consistency::Quorum)).unwrap())
        };
        assert_eq!(
            error("CREATE TABLE ks.t2 (k int PRIMARY KEY)"),
            "2200 Guardrail tables violated: Cannot have more than 1 tables, aborting the creation of table t2"
        );
        assert_eq!(
            error("INSERT INTO ks.t (k, l) VALUES (1, [1, 2, 3])"),
            "2200 Guardrail items_per_collection violated: Detected collection l with 3 items, this exceeds the failure threshold of 2."
        );
        assert_eq!(error(&format!("INSERT INTO ks.t (k, l) VALUES ({node}, [1, 2])")), "ok");
        let read = "SELECT l FROM ks.t WHERE k = 1";
        let answer = client.query(read, &Execution::at(Consistency::Quorum)).unwrap();
        let expected = "Guardrail read_consistency_levels violated: Provided values [QUORUM] are not recommended for read consistency levels (warned values are: [QUORUM])";
        assert_eq!(
            (error_of(&answer).as_str(), answer.warnings.as_slice()),
            ("ok", &[expected.to_owned()][..])
        );
    }
    cluster.stop_all().unwrap();
    for node in 1..=3 {
        let text = fs::read_to_string(cluster.folder(node).join("audit/audit.log")).unwrap();
        let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        let (writes, reads) = (count("type:UPDATE"), count("type:SELECT"));
        assert_eq!((writes, reads, count("type:REQUEST_FAILURE")), (1, 1, 2), "{text}");
        assert_eq!(count("type:CREATE_TABLE"), usize::from(node == 1), "{text}");
    }
}

#[test]
fn metrics_tell_of_people() {
    let address = format!("127.0.0.1:{}", testkit::free_port_on(1).unwrap());
    let node = start(&[
        format!("metrics.listen={address}"),
        "audit.enabled=true".to_owned(),
        "guardrails.allow_filtering_enabled=false".to_owned(),
        "guardrails.columns_per_table_warn=1".to_owned(),
        "limits.sessions_per_role=1".to_owned(),
    ]);
    node.output().unwrap();
    make_roles(&node);
    for _ in 0..5 {
        assert!(Client::connect_as(&node.address(), "ann", "wrong").is_err());
    }
    let mut joe = Client::connect_as(&node.address(), "joe", "joe").unwrap();
    assert!(Client::connect_as(&node.address(), "joe", "joe").is_err());
    let text = "SELECT key FROM system_traces.sessions ALLOW FILTERING";
    let _ = joe.query(text, &Execution::default()).unwrap();
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    run(&mut joe, &format!("CREATE KEYSPACE ks WITH replication = {replication}"));
    run(&mut joe, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)");
    let refused =
        joe.query("SELECT k FROM ks.t WHERE v = 1 ALLOW FILTERING", &Execution::default());
    assert!(error_of(&refused.unwrap()).starts_with("2200 Guardrail allow_filtering violated"));
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let value = |series: &str| -> f64 {
        let found = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {series} in {page}")).parse().unwrap()
    };
    // The administrator and joe, who was refused a second time for another reason.
    assert_eq!(value("helenus_logins_total{kind=\"accepted\"}"), 3.0);
    assert_eq!(value("helenus_logins_total{kind=\"failed\"}"), 5.0);
    assert!(value("helenus_login_delays_total") >= 2.0);
    assert!(value("helenus_login_delay_seconds_total") >= 0.3);
    assert_eq!(value("helenus_sessions_refused_total"), 1.0);
    assert_eq!(value("helenus_guardrail_refusals_total"), 1.0);
    // A definition runs apart, and is looked at twice.
    assert_eq!(value("helenus_guardrail_warnings_total"), 1.0);
    assert!(value("helenus_audit_entries_total") >= 8.0);
    assert_eq!(value("helenus_audit_lost_total"), 0.0);
}

#[test]
fn limits_of_roles_need_roles() {
    let words = ["--set", "limits.sessions_per_role=2"];
    assert!(Node::start(Path::new(BINARY), &words).is_err());
}
