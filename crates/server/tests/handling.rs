//! What people meet when they run a node: its greeting, its status, its log, its end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::Path;
use std::process::{Command, Output};

use protocol::Response;
use testkit::{Client, Execution, Node};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");

fn rows(client: &mut Client, text: &str) -> Vec<Vec<Option<Vec<u8>>>> {
    match client.query(text, &Execution::default()).unwrap().response {
        Response::Rows(rows) => rows
            .rows()
            .map(|row| row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
            .collect(),
        Response::Error(error) => panic!("{text}: {}", error.message),
        _ => Vec::new(),
    }
}

fn helenus(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(BINARY).args(arguments).envs(environment.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn status_is_for_people_and_json_for_programs() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    // It can be asked once it has said that it runs.
    node.output().unwrap();
    let told = node.command(&["status"]).unwrap();
    let line = |name: &str| {
        let found = told.lines().find(|line| line.starts_with(&format!("{name} ")));
        found.unwrap_or_else(|| panic!("no {name} in\n{told}")).to_owned()
    };
    assert!(line("state").ends_with(" running"), "{told}");
    assert!(line("resident").ends_with(" MiB") || line("resident").ends_with(" GiB"), "{told}");
    assert!(line("up").ends_with('s'), "{told}");
    assert!(line("disk free").ends_with("iB"), "{told}");
    assert!(!told.contains("bytes"), "{told}");
    let json = node.command(&["status", "--json"]).unwrap();
    assert!(json.contains("\"log_bytes\":") && json.contains("\"up_seconds\":"), "{json}");
    // The same over the network.
    let output = helenus(&["status", "--host", &node.address()], &[]);
    let told = text(&output.stdout);
    assert!(output.status.success() && told.contains("running"), "{told}{}", text(&output.stderr));
    let output = helenus(&["status", "--host", &node.address(), "--json"], &[]);
    assert!(text(&output.stdout).contains("\"keyspaces\":0"), "{}", text(&output.stdout));
}

#[test]
fn a_node_is_stopped_by_its_folder() {
    let mut node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    rows(
        &mut client,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let told = node.command(&["stop"]).unwrap();
    assert!(told.contains("has stopped"), "{told}");
    assert!(node.wait().unwrap().unwrap().success());
    let output = helenus(&["stop", "--data-dir", node.data_dir().to_str().unwrap()], &[]);
    assert!(text(&output.stderr).contains("no node is running"), "{output:?}");
    node.launch().unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    rows(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY)");
}

/// The profile with TLS and a login: the printed command names the certificate and the role, and a password may come from
/// a file or the environment.
#[test]
fn the_greeting_of_the_cosmos_profile_tells_what_works() {
    let node = Node::start(Path::new(BINARY), &["--profile", "cosmos"]).unwrap();
    let greeting = node.output().unwrap();
    let folder = node.data_dir().canonicalize().unwrap();
    let (host, port) = ("127.0.0.1", node.address().rsplit_once(':').unwrap().1.to_owned());
    let certificate = folder.join("tls/certificate.pem");
    let command = format!(
        "or with: SSL_CERTFILE={} cqlsh --ssl -u cassandra {host} {port}\n",
        certificate.display()
    );
    assert!(greeting.contains(&command), "{greeting}");
    let key = greeting.split_whitespace().next_back().unwrap();
    let data_dir = folder.to_str().unwrap();
    let export = ["export", "system.local", "--user", "cassandra", "--data-dir", data_dir];
    // The node of the folder says where it listens, and that it wants TLS.
    let output = helenus(&export, &[("HELENUS_PASSWORD", key)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("datacenter1"), "{}", text(&output.stdout));
    let file = folder.with_extension("key");
    std::fs::write(&file, format!("{key}\n")).unwrap();
    let mut words = export.to_vec();
    words.extend(["--password-file", file.to_str().unwrap()]);
    let output = helenus(&words, &[]);
    std::fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = helenus(&export, &[("HELENUS_PASSWORD", "wrong")]);
    assert!(!output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn the_log_tells_of_logins_definitions_and_flushes() {
    let arguments = ["--set", "log.level=info", "--set", "auth.authenticator=password"];
    let node = Node::start(Path::new(BINARY), &arguments).unwrap();
    let mut client = Client::connect_as(&node.address(), "cassandra", "cassandra").unwrap();
    assert!(Client::connect_as(&node.address(), "cassandra", "secret-guess").is_err());
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (a int PRIMARY KEY)",
        "INSERT INTO k.t (a) VALUES (1)",
    ] {
        rows(&mut client, statement);
    }
    node.command(&["flush"]).unwrap();
    let lines = rows(&mut client, "SELECT message FROM system_views.system_logs");
    let log: String = lines
        .iter()
        .filter_map(|row| row[0].as_deref())
        .map(|line| format!("{}\n", text(line)))
        .collect();
    for words in [
        "a client logged in client=127.0.0.1 role=\"cassandra\"",
        "a login failed client=127.0.0.1 role=\"cassandra\"",
        "a definition changed change=Created of=Table keyspace=k name=t",
        "a memtable was flushed table=k.t",
    ] {
        assert!(log.contains(words), "no {words} in\n{log}");
    }
    assert!(!log.contains("secret-guess"), "{log}");
}

#[test]
fn costly_statements_are_kept_without_their_values() {
    let node = Node::start(Path::new(BINARY), &["--set", "log.costly_ru=1"]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (a int PRIMARY KEY, b text)",
        "INSERT INTO k.t (a, b) VALUES (31337, 'a secret')",
    ] {
        rows(&mut client, statement);
    }
    let query = "SELECT query, reason, table_name, charge FROM system_helenus.slow_statements";
    let found = rows(&mut client, query);
    let cell =
        |row: &[Option<Vec<u8>>], place: usize| text(row[place].as_deref().unwrap_or_default());
    let insert = found.iter().find(|row| cell(row, 0).starts_with("INSERT"));
    let insert = insert.unwrap_or_else(|| panic!("no insert among {} rows", found.len()));
    assert_eq!(cell(insert, 0), "INSERT INTO k.t (a, b) VALUES (?, ?)");
    assert_eq!((cell(insert, 1), cell(insert, 2)), ("costly".to_owned(), "k.t".to_owned()));
    let charge = f64::from_be_bytes(insert[3].as_deref().unwrap().try_into().unwrap());
    assert!(charge >= 1.0, "{charge}");
}

#[test]
fn snapshots_of_dropped_tables_go_by_themselves() {
    let arguments = ["--set", "storage.auto_snapshot_retention=0s"];
    let mut node = Node::start(Path::new(BINARY), &arguments).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (a int PRIMARY KEY)",
        "INSERT INTO k.t (a) VALUES (1)",
        "DROP TABLE k.t",
    ] {
        rows(&mut client, statement);
    }
    node.command(&["snapshot", "mine"]).unwrap();
    let listed = node.command(&["snapshots"]).unwrap();
    assert!(listed.contains("dropped-") && listed.contains("mine"), "{listed}");
    // It is looked for them at the start and every minute.
    node.stop().unwrap();
    node.launch().unwrap();
    let begin = std::time::Instant::now();
    loop {
        let listed = node.command(&["snapshots"]).unwrap();
        if !listed.contains("dropped-") {
            assert!(listed.contains("mine"), "{listed}");
            break;
        }
        assert!(begin.elapsed().as_secs() < 60, "{listed}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
