//! What Cassandra 5.0.5 announces and answers, from its recordings: the types of vectors, types that go by their Java
//! class, and the beta of the protocol.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use protocol::{Response, Version};
use serde_json::{Value, json};
use testkit::{Client, Execution, Node, OwnedValue};
use types::CqlType;

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const VECTOR_TYPES: &str = include_str!("../../testkit/golden/vector_types.json");
const CUSTOM_TYPES: &str = include_str!("../../testkit/golden/custom_types.json");
const V6_BETA: &str = include_str!("../../testkit/golden/v6_beta.json");

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn node() -> Node {
    Node::start(Path::new(BINARY), &[]).unwrap()
}

/// The `[option]` of a type, from what the client read of it.
fn option(cql_type: &CqlType) -> Vec<u8> {
    let string = |text: &str| {
        let length = u16::try_from(text.len()).unwrap();
        [&length.to_be_bytes()[..], text.as_bytes()].concat()
    };
    let count = |count: usize| u16::try_from(count).unwrap().to_be_bytes().to_vec();
    let parts =
        |code: u16, parts: Vec<Vec<u8>>| [code.to_be_bytes().to_vec(), parts.concat()].concat();
    match cql_type {
        CqlType::Custom(class) => parts(0, vec![string(class)]),
        CqlType::Int => parts(9, Vec::new()),
        CqlType::Text => parts(0xd, Vec::new()),
        CqlType::List { element, .. } => parts(0x20, vec![option(element)]),
        CqlType::Set { element, .. } => parts(0x22, vec![option(element)]),
        CqlType::Map { key, value, .. } => parts(0x21, vec![option(key), option(value)]),
        CqlType::Tuple(types) => {
            let types: Vec<u8> = types.iter().flat_map(option).collect();
            parts(0x31, vec![count(types_len(cql_type)), types])
        }
        CqlType::User { definition, .. } => {
            let fields =
                definition.fields.iter().flat_map(|(name, ty)| [string(name), option(ty)].concat());
            let fields: Vec<u8> = fields.collect();
            let head = [
                string(&definition.keyspace),
                string(&definition.name),
                count(definition.fields.len()),
            ];
            parts(0x30, vec![head.concat(), fields])
        }
        other => panic!("{other}"),
    }
}

fn types_len(cql_type: &CqlType) -> usize {
    match cql_type {
        CqlType::Tuple(types) => types.len(),
        _ => 0,
    }
}

/// How a statement's first column is announced, or its error.
fn announced(client: &mut Client, statement: &str) -> Result<String, String> {
    match client.query(statement, &Execution::default()).unwrap().response {
        Response::Rows(rows) => {
            let columns = rows.metadata.columns.as_ref().unwrap();
            Ok(columns.first().map_or(String::new(), |column| hex(&option(&column.cql_type))))
        }
        Response::Error(error) => Err(error.message),
        _ => Ok(String::new()),
    }
}

fn system_type(client: &mut Client, table: &str, column: &str) -> String {
    let statement = format!(
        "SELECT type FROM system_schema.columns WHERE keyspace_name = 'vector_types' AND table_name = '{table}' AND \
         column_name = '{column}'"
    );
    match client.query(&statement, &Execution::default()).unwrap().response {
        Response::Rows(rows) => {
            let row = rows.rows().next().unwrap();
            String::from_utf8(row[0].unwrap().to_vec()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn vectors_are_announced_as_they_were_declared() {
    let node = node();
    let golden: Value = serde_json::from_str(VECTOR_TYPES).unwrap();
    let mut wrong = Vec::new();
    for version in [Version::V4, Version::V5] {
        let mut client = Client::connect_with(&node.address(), version).unwrap();
        let mut check = |what: &str, found: Result<String, String>, wanted: &Value| {
            let is_right = match (&found, &wanted["error"]) {
                (Ok(found), Value::Null) => *found == wanted["option"].as_str().unwrap_or_default(),
                (Err(found), error) => found == error["message"].as_str().unwrap_or_default(),
                (Ok(_), _) => false,
            };
            if !is_right {
                let found = found.map(|found| String::from_utf8_lossy(&unhex(&found)).into_owned());
                let option = wanted["option"].as_str().map(unhex).unwrap_or_default();
                wrong.push(format!(
                    "{what}\n  found {found:?}\n  wanted {:?} {}",
                    String::from_utf8_lossy(&option),
                    wanted["error"]
                ));
            }
        };
        for statement in golden["setup"].as_array().unwrap() {
            announced(&mut client, statement.as_str().unwrap()).unwrap();
        }
        let mut tables = Vec::new();
        for (place, column) in golden["columns"].as_array().unwrap().iter().enumerate() {
            let cql_type = column["type"].as_str().unwrap();
            let create =
                format!("CREATE TABLE vector_types.t{place} (k int PRIMARY KEY, v {cql_type})");
            tables.push((create, format!("t{place}"), "v".to_owned(), column));
        }
        for table in golden["tables"].as_array().unwrap() {
            let create = table["create"].as_str().unwrap();
            let name = create.split(['.', ' ']).nth(3).unwrap().to_owned();
            tables.push((
                create.to_owned(),
                name,
                table["column"].as_str().unwrap().to_owned(),
                table,
            ));
        }
        for (create, table, column, wanted) in tables {
            if let Err(error) = announced(&mut client, &create) {
                check(&create, Err(error), wanted);
                continue;
            }
            let read = format!("SELECT {column} FROM vector_types.{table}");
            check(&create, announced(&mut client, &read), wanted);
            let shown = system_type(&mut client, &table, &column);
            assert_eq!(shown, wanted["system_schema"].as_str().unwrap(), "{create}");
        }
        for selection in golden["selections"].as_array().unwrap() {
            let statement = selection["statement"].as_str().unwrap();
            check(statement, announced(&mut client, statement), selection);
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// An answer as the recording has it.
fn answer(client: &mut Client, statement: &Value) -> Value {
    let text = statement["statement"].as_str().unwrap();
    let execution = Execution {
        values: statement["values"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|value| OwnedValue::Bytes(unhex(value.as_str().unwrap().trim_start_matches("0x"))))
            .collect(),
        ..Execution::default()
    };
    match client.query(text, &execution).unwrap().response {
        Response::Rows(rows) => {
            let columns = rows.metadata.columns.as_ref().unwrap();
            let cell =
                |(place, cell): (usize, &Option<&[u8]>)| match (cell, &columns[place].cql_type) {
                    (None, _) => Value::Null,
                    (Some(bytes), CqlType::Int) => {
                        json!(i32::from_be_bytes((*bytes).try_into().unwrap()))
                    }
                    (Some(bytes), CqlType::BigInt) => {
                        json!(i64::from_be_bytes((*bytes).try_into().unwrap()))
                    }
                    (Some(bytes), CqlType::Text) => json!(std::str::from_utf8(bytes).unwrap()),
                    (Some(bytes), _) => json!(format!("0x{}", hex(bytes))),
                };
            let rows: Vec<Vec<Value>> =
                rows.rows().map(|row| row.iter().enumerate().map(cell).collect()).collect();
            json!({ "rows": rows })
        }
        Response::Error(error) => {
            json!({ "error": { "code": format!("{:#06x}", error.kind.code()), "message": error.message } })
        }
        _ => json!({ "ok": true }),
    }
}

#[test]
fn types_by_their_class_take_what_cassandra_takes() {
    let node = node();
    let golden: Value = serde_json::from_str(CUSTOM_TYPES).unwrap();
    let mut client = Client::connect_with(&node.address(), Version::V4).unwrap();
    let mut wrong = Vec::new();
    for statement in golden["statements"].as_array().unwrap() {
        // Cassandra cannot write such a key; here it is bytes.
        if statement["statement"].as_str().unwrap().contains("custom_types.pdo4") {
            continue;
        }
        let found = answer(&mut client, statement);
        let is_right = match statement["error"]["code"].as_str() {
            // Where Cassandra stumbles we refuse, in words of our own.
            Some("0x0000") => found["error"]["code"] == "0x2200",
            Some(_) => found["error"] == statement["error"],
            None => match statement.get("rows") {
                Some(rows) => found["rows"] == *rows,
                None => found["ok"] == true,
            },
        };
        if !is_right {
            let wanted = statement.get("error").or(statement.get("rows")).unwrap_or(&Value::Null);
            wrong.push(format!("{}\n  found {found}\n  wanted {wanted}", statement["statement"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// The body of a SUPPORTED message, whatever its order.
fn supported(mut body: &[u8]) -> BTreeMap<String, Vec<String>> {
    fn short(body: &mut &[u8]) -> usize {
        let (head, rest) = body.split_first_chunk::<2>().unwrap();
        *body = rest;
        usize::from(u16::from_be_bytes(*head))
    }
    fn string(body: &mut &[u8]) -> String {
        let length = short(body);
        let (head, rest) = body.split_at(length);
        *body = rest;
        String::from_utf8(head.to_vec()).unwrap()
    }
    let count = short(&mut body);
    (0..count)
        .map(|_| {
            let key = string(&mut body);
            let values = (0..short(&mut body)).map(|_| string(&mut body)).collect();
            (key, values)
        })
        .collect()
}

#[test]
fn the_beta_is_for_those_who_ask_for_it() {
    let node = node();
    let golden: Value = serde_json::from_str(V6_BETA).unwrap();
    let mut wrong = Vec::new();
    for exchange in golden["exchanges"].as_array().unwrap() {
        let mut stream = TcpStream::connect(node.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let sent = exchange["sent"].as_array().unwrap();
        for (sent, received) in sent.iter().zip(exchange["received"].as_array().unwrap()) {
            stream.write_all(&unhex(sent.as_str().unwrap())).unwrap();
            let wanted = unhex(received.as_str().unwrap());
            let mut found = vec![0; wanted.len()];
            let outcome = stream.read_exact(&mut found);
            let is_supported =
                wanted.len() > 9 && wanted[0] >= 0x83 && wanted[0] <= 0x86 && wanted[4] == 6;
            let is_same = if is_supported {
                outcome.is_ok()
                    && wanted[..9] == found[..9]
                    && supported(&wanted[9..]) == supported(&found[9..])
            } else {
                outcome.is_ok() && wanted == found
            };
            if !is_same {
                wrong.push(format!(
                    "{}: {outcome:?}\n  found {}\n  wanted {}",
                    exchange["name"],
                    hex(&found),
                    hex(&wanted)
                ));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}
