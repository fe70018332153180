//! `helenus export` and `helenus import`: every type goes out and comes back as it was.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use protocol::Response;
use testkit::{Client, Execution, Node};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");

type Cells = Vec<Vec<Option<Vec<u8>>>>;

fn ask(client: &mut Client, text: &str) -> Cells {
    match client.query(text, &Execution::default()).unwrap().response {
        Response::Rows(rows) => rows
            .rows()
            .map(|row| row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
            .collect(),
        Response::Error(error) => panic!("{text}: {}", error.message),
        _ => Vec::new(),
    }
}

fn helenus(node: &Node, arguments: &[&str], input: Option<&[u8]>) -> (Output, String) {
    let mut command = Command::new(BINARY);
    command.args(arguments).args(["--host", &node.address()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, input.unwrap_or_default()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

const COLUMNS: &str = "(k int, c text, st text static, a ascii, bi bigint, bl blob, bo boolean, da date, \
     de decimal, dou double, du duration, fl float, ip inet, si smallint, te text, ti time, ts timestamp, \
     tu timeuuid, tiny tinyint, u uuid, va varint, li list<int>, se set<text>, ma map<text, frozen<list<int>>>, \
     tup tuple<int, text>, ud frozen<pair>, vec vector<float, 3>, \
     deep tuple<vector<float, 2>, duration>, \"Mixed Case\" int, PRIMARY KEY (k, c))";

fn new_node() -> (Node, Client) {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    for statement in [
        "CREATE KEYSPACE io WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE io",
        "CREATE TYPE io.pair (a int, b text)",
    ] {
        ask(&mut client, statement);
    }
    for table in ["source", "csv", "json"] {
        ask(&mut client, &format!("CREATE TABLE io.{table} {COLUMNS}"));
    }
    for table in ["counts", "counts_again"] {
        ask(
            &mut client,
            &format!(
                "CREATE TABLE io.{table} (k int, c int, n counter, m counter, PRIMARY KEY (k, c))"
            ),
        );
    }
    (node, client)
}

fn fill(client: &mut Client) {
    for statement in [
        "INSERT INTO io.source (k, c, st, a, bi, bl, bo, da, de, dou, du, fl, ip, si, te, ti, ts, tu, tiny, u, va, li, \
         se, ma, tup, ud, vec, deep, \"Mixed Case\") VALUES (1, 'one', 'static', 'ascii', -9223372036854775808, 0x00ff10, true, \
         '2024-02-29', -12345678901234567890.0123456789, 1.7976931348623157e308, 1mo2d3h4ns, -3.4e38, '::1', -32768, \
         'ünïcode, \"quoted\"\nand a second line ', '23:59:59.999999999', '2024-02-29 12:34:56.789Z', \
         50554d6e-29bb-11e5-b345-feff819cdc9f, -128, 62c36092-82a1-3a00-93d1-46196ee77204, \
         123456789012345678901234567890, [3, 1, 2], {'b', 'a,\"'}, {'x': [1, 2], 'y': []}, (1, 'two'), \
         {a: 7, b: 'seven'}, [1.5, -2, 0], ([1, 2], 1d), 42)",
        "INSERT INTO io.source (k, c, te, a, bl) VALUES (1, '', '', '', 0x)",
        "INSERT INTO io.source (k, c, dou, fl, de) VALUES (2, 'nan', NaN, Infinity, 1E-40)",
        "INSERT INTO io.source (k, c, tup, ud) VALUES (2, 'parts', (null, 'x'), {a: null, b: 'y'})",
        "INSERT INTO io.source (k, c, te) VALUES (2, 'null', 'null')",
        // A partition with nothing but its static column.
        "INSERT INTO io.source (k, st) VALUES (3, 'alone')",
    ] {
        ask(client, statement);
    }
    for number in 0..2_500 {
        ask(
            client,
            &format!(
                "INSERT INTO io.source (k, c, bi) VALUES ({}, 'r{number}', {number})",
                number % 7 + 10
            ),
        );
    }
    ask(client, "UPDATE io.counts SET n = n + 5, m = m - 3 WHERE k = 1 AND c = 2");
    ask(client, "UPDATE io.counts SET n = n + 1 WHERE k = 1 AND c = 3");
}

#[test]
fn every_type_comes_back_as_it_was() {
    let (node, mut client) = new_node();
    fill(&mut client);
    let folder = node.data_dir().with_extension("files");
    std::fs::create_dir_all(&folder).unwrap();
    let expected = ask(&mut client, "SELECT * FROM io.source");
    assert_eq!(expected.len(), 2_506);
    for (table, file) in [("csv", "source.csv"), ("json", "source.jsonl")] {
        let path = folder.join(file);
        let path = path.to_str().unwrap();
        let (output, text) = helenus(&node, &["export", "io.source", path], None);
        assert!(output.status.success() && text.contains("exported 2506 rows"), "{text}");
        let written = std::fs::read_to_string(path).unwrap();
        for words in ["1mo2d3h4ns", "[1.5, -2.0, 0.0]", "[[1.0, 2.0], "] {
            assert!(written.contains(words), "{path} should hold {words}");
        }
        let (output, text) = helenus(&node, &["import", &format!("io.{table}"), path], None);
        assert!(output.status.success() && text.contains("imported 2506 rows"), "{text}");
        let found = ask(&mut client, &format!("SELECT * FROM io.{table}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{table}");
        }
        assert_eq!(found.len(), expected.len());
    }
    // As earlier versions wrote them.
    let old = "k,c,du,vec\n9,old,0x020406,0x3f8000003f8000003f800000\n";
    let (output, text) = helenus(&node, &["import", "io.csv"], Some(old.as_bytes()));
    assert!(output.status.success(), "{text}");
    let (output, _) = helenus(&node, &["export", "io.csv"], None);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("9,old,")).unwrap();
    assert!(line.contains("1mo2d3ns") && line.contains("[1.0, 1.0, 1.0]"), "{line}");
    // Through a pipe; counters are added.
    let (output, text) = helenus(&node, &["export", "io.counts", "--format", "json"], None);
    assert!(output.status.success(), "{text}");
    for round in 1..=2i64 {
        let arguments = ["import", "io.counts_again", "--format", "json"];
        let (imported, text) = helenus(&node, &arguments, Some(&output.stdout));
        assert!(imported.status.success(), "{text}");
        let found = ask(&mut client, "SELECT n FROM io.counts_again WHERE k = 1 AND c = 2");
        assert_eq!(found, [[Some((5 * round).to_be_bytes().to_vec())]]);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_is_told_with_its_line() {
    let (node, mut client) = new_node();
    let check = |arguments: &[&str], input: &str, words: &[&str]| {
        let (output, text) = helenus(&node, arguments, Some(input.as_bytes()));
        assert_eq!(output.status.code(), Some(1), "{text}");
        for word in words {
            assert!(text.contains(word), "{text} should say {word}");
        }
    };
    check(&["export", "io.none"], "", &["there is no table io.none"]);
    check(&["export", "io"], "", &["KEYSPACE.TABLE"]);
    check(&["import", "io.source"], "k,c,nope\n", &["line 1", "no column \"nope\""]);
    check(&["import", "io.source"], "k,c,bi\n1,a,2\n1,b,x\n", &["line 3", "column bi"]);
    check(&["import", "io.source"], "k,c\n1\n", &["line 2", "1 fields", "2 columns"]);
    check(&["import", "io.source"], "k,c\n,a\n", &["line 2", "no value for the key column \"k\""]);
    check(&["import", "io.source", "--format", "json"], "{\"k\": 1\n", &["line 1"]);
    check(&["import", "io.source", "no-such-file.csv"], "", &["no-such-file.csv"]);
    let output =
        Command::new(BINARY).args(["export", "a.b", "--host", "127.0.0.1:1"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("--host"), "{output:?}");
    assert!(ask(&mut client, "SELECT * FROM io.source").len() <= 1);
}

/// The cosmos profile: TLS with a certificate that the node made for itself, and a password.
#[test]
fn a_table_goes_out_and_in_with_tls_and_a_password() {
    let node = Node::start(Path::new(BINARY), &["--profile", "cosmos"]).unwrap();
    // Shown once, as the last word.
    let greeting = node.output().unwrap();
    let key = greeting.split_whitespace().next_back().unwrap();
    let run = |arguments: &[&str], input: &[u8]| {
        let login = ["--user", "cassandra", "--password", key, "--data-dir"];
        let data_dir = node.data_dir().to_str().unwrap();
        let mut all = arguments.to_vec();
        all.extend(login);
        all.push(data_dir);
        helenus(&node, &all, Some(input))
    };
    // Any table that a new node has.
    let (output, text) = run(&["export", "system_schema.keyspaces", "--tls"], &[]);
    assert!(output.status.success(), "{text}");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("system_schema"), "{listed}");
    let certificate = node.data_dir().join("tls/certificate.pem");
    let ca = ["export", "system_schema.keyspaces", "--ca", certificate.to_str().unwrap()];
    let (output, text) = run(&ca, &[]);
    assert!(output.status.success(), "{text}");
    // Without TLS, and with a certificate that is not the node's.
    let (output, text) = run(&["export", "system_schema.keyspaces"], &[]);
    assert!(!output.status.success() && text.contains("TLS"), "{text}");
    let other = Node::start(Path::new(BINARY), &["--profile", "cosmos"]).unwrap();
    let foreign = other.data_dir().join("tls/certificate.pem");
    let ca = ["export", "system_schema.keyspaces", "--ca", foreign.to_str().unwrap()];
    let (output, text) = run(&ca, &[]);
    assert!(!output.status.success() && text.contains("certificate"), "{text}");
}
