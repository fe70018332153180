//! Paging states: what other statements, definitions, connections, users and nodes make of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::path::Path;

use protocol::{Response, Rows, Version};
use serde_json::{Value, json};
use testkit::{Client, Execution, Node, OwnedValue};
use types::CqlType;

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const PAIRS: &str = include_str!("../../testkit/golden/paging_pairs.json");
/// A statement that never comes to an end is followed so far.
const PAGES_MAX: usize = 12;

/// One client per version of the protocol.
struct Clients {
    address: String,
    by_version: BTreeMap<u8, Client>,
}

impl Clients {
    fn get(&mut self, version: u8) -> &mut Client {
        let address = &self.address;
        self.by_version.entry(version).or_insert_with(|| {
            Client::connect_with(address, Version::from_number(version).unwrap()).unwrap()
        })
    }

    fn tell(&mut self, statements: &Value) {
        for statement in statements.as_array().into_iter().flatten() {
            let text = statement.as_str().unwrap();
            let answer = self.get(4).query(text, &Execution::default()).unwrap().response;
            if let Response::Error(error) = answer {
                panic!("{text}: {}", error.message);
            }
        }
    }

    /// One page, as the golden tells it, and the state of the next.
    fn page(&mut self, statement: &Value, state: Option<Vec<u8>>) -> (Value, Option<Vec<u8>>) {
        let text = statement["query"].as_str().unwrap();
        let values = statement["values"].as_array().into_iter().flatten();
        let execution = Execution {
            values: values.map(|value| OwnedValue::Bytes(unhex(value.as_str().unwrap()))).collect(),
            page_size: statement["page"].as_i64().map(|size| i32::try_from(size).unwrap()),
            paging_state: state,
            ..Execution::default()
        };
        let version = statement["version"].as_u64().unwrap_or(4);
        let client = self.get(u8::try_from(version).unwrap());
        let answer = if statement["prepared"].as_bool() == Some(true) {
            let prepared = client.prepare(text).unwrap().unwrap();
            client.execute(&prepared, &execution)
        } else {
            client.query(text, &execution)
        };
        match answer.unwrap().response {
            Response::Rows(rows) => {
                let state = rows.metadata.paging_state.as_ref().map(|state| state.to_vec());
                (json!({ "rows": shown(&rows), "more": state.is_some() }), state)
            }
            Response::Error(error) => {
                let code = format!("{:#06x}", error.kind.code());
                // The connection is still there.
                let alive = "SELECT key FROM system.local";
                client.query(alive, &Execution::default()).unwrap();
                (json!({ "error": { "code": code, "message": error.message } }), None)
            }
            _ => (json!({ "void": true }), None),
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

fn shown(rows: &Rows) -> Vec<Vec<Value>> {
    let columns = rows.metadata.columns.as_ref().unwrap();
    let cell = |(place, cell): (usize, &Option<&[u8]>)| match (cell, &columns[place].cql_type) {
        (None, _) => Value::Null,
        (Some(bytes), CqlType::Int) => json!(i32::from_be_bytes((*bytes).try_into().unwrap())),
        (Some(bytes), CqlType::BigInt) => {
            json!(i64::from_be_bytes((*bytes).try_into().unwrap()))
        }
        (Some(bytes), _) => json!(std::str::from_utf8(bytes).unwrap()),
    };
    rows.rows().map(|row| row.iter().enumerate().map(cell).collect()).collect()
}

fn edited(mut state: Vec<u8>, edit: &str) -> Vec<u8> {
    match edit.split_once(' ').unwrap() {
        ("cut", "1") => state.truncate(state.len() - 1),
        ("cut", "half") => state.truncate(state.len() / 2),
        ("add", hex) => state.extend(unhex(hex)),
        _ => panic!("{edit}"),
    }
    state
}

/// Runs one pair; the pages of its second statement.
fn run(clients: &mut Clients, pair: &Value) -> Vec<Value> {
    let mut state = None;
    for _ in 0..pair["first"]["pages"].as_u64().unwrap_or(1) {
        state = clients.page(&pair["first"], state).1;
    }
    clients.tell(&pair["between"]);
    if let Some(given) = pair["state"].as_str() {
        state = Some(unhex(given));
    } else if let Some(edit) = pair["edit"].as_str() {
        state = Some(edited(state.unwrap(), edit));
    }
    let mut pages = Vec::new();
    loop {
        let (page, next) = clients.page(&pair["next"], state);
        pages.push(page);
        state = next;
        if state.is_none() {
            break;
        }
        if pages.len() >= PAGES_MAX {
            pages.push(json!({ "cut": true }));
            break;
        }
    }
    clients.tell(&pair["after"]);
    pages
}

/// Every pair of statements that share a state, as a real Cassandra answers them.
#[test]
fn other_statements_go_on_as_in_cassandra() {
    let golden: Value = serde_json::from_str(PAIRS).unwrap();
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut clients = Clients { address: node.address(), by_version: BTreeMap::new() };
    clients.tell(&golden["setup"]);
    let pairs = golden["pairs"].as_array().unwrap();
    let mut differing = Vec::new();
    for pair in pairs {
        let found = run(&mut clients, pair);
        let expected = pair.get("helenus").unwrap_or(&pair["cassandra"]).as_array().unwrap();
        let compared = pair["pages_compared"].as_u64().map_or(usize::MAX, |pages| pages as usize);
        let promised = |pages: &[Value]| pages.iter().take(compared).cloned().collect::<Vec<_>>();
        if promised(&found) != promised(expected) {
            let name = &pair["name"];
            differing.push(format!(
                "{name}\n  found    {}\n  expected {}",
                json!(found),
                json!(expected)
            ));
        }
    }
    assert!(
        differing.is_empty(),
        "{} of {} differ:\n{}",
        differing.len(),
        pairs.len(),
        differing.join("\n")
    );
}

fn query(client: &mut Client, text: &str, page: i32, state: Option<&[u8]>) -> Response {
    let execution = Execution {
        page_size: Some(page),
        paging_state: state.map(<[u8]>::to_vec),
        ..Execution::default()
    };
    client.query(text, &execution).unwrap().response
}

fn page(
    client: &mut Client,
    text: &str,
    page: i32,
    state: Option<&[u8]>,
) -> (Vec<Vec<Value>>, Option<Vec<u8>>) {
    match query(client, text, page, state) {
        Response::Rows(rows) => {
            (shown(&rows), rows.metadata.paging_state.as_ref().map(|state| state.to_vec()))
        }
        other => panic!("{text}: {other:?}"),
    }
}

fn tell(client: &mut Client, text: &str) {
    if let Response::Error(error) = query(client, text, 100, None) {
        panic!("{text}: {}", error.message);
    }
}

const TABLE: [&str; 2] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (p int, c int, s int static, v text, PRIMARY KEY (p, c))",
];

fn fill(client: &mut Client, rows: i32, value: &str) {
    for statement in TABLE {
        tell(client, statement);
    }
    for c in 0..rows {
        tell(client, &format!("INSERT INTO k.t (p, c, s, v) VALUES (1, {c}, 7, '{value}')"));
    }
}

const DOWN: &str = "SELECT c FROM k.t WHERE p = 1 ORDER BY c DESC";

/// A paging state lasts over a restart, and nobody can make one.
#[test]
fn a_paging_state_survives_a_restart_and_no_edit() {
    let mut node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    fill(&mut client, 5, "x");
    let state = page(&mut client, DOWN, 2, None).1.unwrap();
    node.stop().unwrap();
    node.launch().unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    assert_eq!(json!(page(&mut client, DOWN, 2, Some(&state)).0), json!([[2], [1]]));
    for place in 0..state.len() {
        let mut forged = state.clone();
        forged[place] ^= 1;
        for statement in [DOWN, "USE k", "SELECT nonsense FROM nowhere"] {
            match query(&mut client, statement, 2, Some(&forged)) {
                Response::Error(error) => {
                    assert_eq!(error.kind.code(), 0x2200, "byte {place}, {statement}");
                    assert_eq!(error.message, "Invalid value for the paging state");
                }
                other => panic!("byte {place}, {statement}: {other:?}"),
            }
        }
    }
}

/// The secret lies with the roles: a node that has those goes on where another one stopped, any other refuses.
#[test]
fn nodes_with_the_same_roles_share_paging_states() {
    let first = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&first.address()).unwrap();
    fill(&mut client, 5, "x");
    let state = page(&mut client, DOWN, 2, None).1.unwrap();
    let mut second = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&second.address()).unwrap();
    fill(&mut client, 5, "x");
    assert!(matches!(query(&mut client, DOWN, 2, Some(&state)), Response::Error(_)));
    second.stop().unwrap();
    let roles = Path::new("documents").join("roles");
    std::fs::copy(first.data_dir().join(&roles), second.data_dir().join(&roles)).unwrap();
    second.launch().unwrap();
    let mut client = Client::connect(&second.address()).unwrap();
    assert_eq!(json!(page(&mut client, DOWN, 2, Some(&state)).0), json!([[2], [1]]));
}

/// A state of somebody else moves nothing but one's own statement, which needs its own permission.
#[test]
fn a_paging_state_gives_no_permission() {
    let settings =
        ["--set", "auth.authenticator=password", "--set", "auth.authorizer=cassandra"].as_slice();
    let node = Node::start(Path::new(BINARY), settings).unwrap();
    let mut client = Client::connect_as(&node.address(), "cassandra", "cassandra").unwrap();
    fill(&mut client, 5, "x");
    tell(&mut client, "CREATE TABLE k.own (p int, c int, PRIMARY KEY (p, c))");
    for c in 0..5 {
        tell(&mut client, &format!("INSERT INTO k.own (p, c) VALUES (1, {c})"));
    }
    tell(&mut client, "CREATE ROLE ann WITH LOGIN = true AND PASSWORD = 'secret'");
    tell(&mut client, "GRANT SELECT ON TABLE k.own TO ann");
    let state = page(&mut client, DOWN, 2, None).1.unwrap();
    let mut ann = Client::connect_as(&node.address(), "ann", "secret").unwrap();
    match query(&mut ann, DOWN, 2, Some(&state)) {
        Response::Error(error) => assert_eq!(error.kind.code(), 0x2100, "{}", error.message),
        other => panic!("{other:?}"),
    }
    let own = "SELECT c FROM k.own WHERE p = 1 ORDER BY c DESC";
    assert_eq!(json!(page(&mut ann, own, 9, Some(&state)).0), json!([[2], [1], [0]]));
}

/// Definitions change between two pages.
#[test]
fn pages_go_on_over_definitions() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    fill(&mut client, 5, "x");
    let by_scan = "SELECT * FROM k.t";
    let states = [DOWN, by_scan].map(|text| page(&mut client, text, 2, None).1.unwrap());
    for change in [
        "ALTER TABLE k.t DROP v",
        "ALTER TABLE k.t DROP s",
        "ALTER TABLE k.t ADD v text",
        "ALTER TABLE k.t RENAME c TO c2",
    ] {
        tell(&mut client, change);
        let name = if change.contains("RENAME") { "c2" } else { "c" };
        let down = DOWN.replace('c', name).replace("DESc2", "DESC");
        let (rows, _) = page(&mut client, &down, 9, Some(&states[0]));
        assert_eq!(json!(rows), json!([[2], [1], [0]]), "{change}");
        let (rows, _) = page(&mut client, by_scan, 9, Some(&states[1]));
        let clustering: Vec<&Value> = rows.iter().map(|row| &row[1]).collect();
        assert_eq!(json!(clustering), json!([2, 3, 4]), "{change}");
    }
    tell(&mut client, "DROP TABLE k.t");
    tell(&mut client, "CREATE TABLE k.t (p int, c text, PRIMARY KEY (p, c))");
    match query(&mut client, "SELECT * FROM k.t WHERE p = 1", 2, Some(&states[0])) {
        // Four bytes are a text too.
        Response::Rows(_) => {}
        other => panic!("{other:?}"),
    }
    tell(&mut client, "DROP TABLE k.t");
    tell(&mut client, "CREATE TABLE k.t (p int, c bigint, PRIMARY KEY (p, c))");
    match query(&mut client, "SELECT * FROM k.t WHERE p = 1", 2, Some(&states[0])) {
        Response::Error(error) => assert_eq!(error.kind.code(), 0x2200),
        other => panic!("{other:?}"),
    }
}

/// Where the bytes of a page end it, its state is heeded also by a statement whose rows would fit one page.
#[test]
fn a_page_that_its_bytes_end_is_followed_by_the_next() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    fill(&mut client, 12, &"x".repeat(1 << 20));
    let text = "SELECT v, c FROM k.t WHERE p = 1 LIMIT 11";
    let (mut seen, mut state, mut pages) = (Vec::new(), None, 0);
    loop {
        let (rows, next) = page(&mut client, text, 100, state.as_deref());
        seen.extend(rows.iter().map(|row| row[1].as_i64().unwrap()));
        pages += 1;
        assert!(pages < 5, "{seen:?}");
        state = next;
        if state.is_none() {
            break;
        }
    }
    assert!(pages > 1);
    assert_eq!(seen, (0..11).collect::<Vec<_>>());
}
