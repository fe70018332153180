//! Replays what a real Apache Cassandra 5.0.5 answered (see `record.py`): definitions, `DESCRIBE`
//! and the tables of `system_schema`, letter by letter.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use cql::Statement;
use schema::system::NodeFacts;
use schema::{
    ChangeTarget, DdlContext, Profile, Schema, SchemaError, apply, describe, initial_schema,
    truncated_table, virtual_rows,
};
use types::CqlType;

/// One statement with the lines that must follow it.
struct Entry<'a> {
    statement: &'a str,
    expected: Vec<&'a str>,
}

fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("> ") {
            Some(statement) => entries.push(Entry { statement, expected: Vec::new() }),
            None => entries.last_mut().unwrap().expected.push(line),
        }
    }
    entries
}

/// A node of which only the schema exists.
struct Node {
    schema: Schema,
    keyspace: Option<String>,
    next_id: u128,
}

impl Node {
    fn new() -> Node {
        Node { schema: initial_schema(), keyspace: None, next_id: 1 }
    }

    fn answer(&mut self, text: &str) -> Vec<String> {
        let parsed = match cql::parse(text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let code = match error {
                    cql::SyntaxError::Grammar(_) => 0x2000,
                    cql::SyntaxError::Invalid(_) => 0x2200,
                };
                return vec![error_line(code, error.message())];
            }
        };
        self.execute(text, &parsed.statement).unwrap_or_else(|error| {
            let code = match &error {
                SchemaError::Syntax(_) => 0x2000,
                SchemaError::Unauthorized(_) => 0x2100,
                SchemaError::Invalid(_) => 0x2200,
                SchemaError::Configuration(_) => 0x2300,
                SchemaError::AlreadyExists { .. } => 0x2400,
                SchemaError::Server(_) => 0,
            };
            vec![error_line(code, &error.to_string())]
        })
    }

    fn execute(&mut self, text: &str, statement: &Statement) -> Result<Vec<String>, SchemaError> {
        match statement {
            Statement::Use(name) => {
                self.keyspace = Some(name.to_string());
                Ok(vec![format!("= USE {name}")])
            }
            Statement::Describe(statement) => {
                let result = describe(statement, &self.schema, self.keyspace.as_deref(), &facts())?;
                let rows = result.rows.iter().map(|row| {
                    let values = row.iter().map(|value| Some(value.clone()));
                    row_line(&result.columns, values)
                });
                Ok(std::iter::once("= ROWS".to_string()).chain(rows).collect())
            }
            Statement::Truncate(statement) => {
                truncated_table(&self.schema, statement, self.keyspace.as_deref())?;
                Ok(vec!["= OK".to_string()])
            }
            Statement::Select(_) => Ok(self.select(text)),
            definition => self.define(definition),
        }
    }

    fn define(&mut self, statement: &Statement) -> Result<Vec<String>, SchemaError> {
        let mut next_id = self.next_id;
        let mut fresh_id = || {
            next_id += 1;
            next_id
        };
        let change = apply(
            &self.schema,
            statement,
            &mut DdlContext {
                session_keyspace: self.keyspace.as_deref(),
                now_us: 1_700_000_000_000_000,
                fresh_id: &mut fresh_id,
                data_center: "datacenter1",
                node_count: 1,
                profile: Profile::Default,
                masking_enabled: false,
            },
        )?;
        self.next_id = next_id;
        let Some(change) = change else { return Ok(vec!["= OK".to_string()]) };
        assert_ne!(change.schema.version, self.schema.version, "{statement:?}");
        let event = &change.event;
        let mut line =
            format!("= OK {} {} {}", event.kind.as_str(), event.target.as_str(), event.keyspace);
        if event.target != ChangeTarget::Keyspace {
            write!(line, " {}", event.name).unwrap();
        }
        let mut lines = vec![line];
        lines.extend(change.warnings.iter().map(|warning| format!("! {warning}")));
        self.schema = change.schema;
        // What is stored must come back as it was.
        let bytes = schema::persist::encode(&self.schema);
        let again = schema::persist::decode(&bytes, &initial_schema()).unwrap();
        assert_eq!(again.keyspaces, self.schema.keyspaces);
        assert_eq!(again.version, self.schema.version);
        Ok(lines)
    }

    /// `SELECT * FROM keyspace.table [WHERE column = 'text' [AND …]]`
    fn select(&self, text: &str) -> Vec<String> {
        let rest = text.strip_prefix("SELECT * FROM ").unwrap();
        let (name, conditions) = rest.split_once(" WHERE ").unwrap_or((rest, ""));
        let (keyspace, table) = name.split_once('.').unwrap();
        let table = self.schema.table(keyspace, table.trim_matches('"')).unwrap();
        let wanted: Vec<(usize, &[u8])> = conditions
            .split(" AND ")
            .filter(|condition| !condition.is_empty())
            .map(|condition| {
                let (column, value) = condition.split_once(" = ").unwrap();
                (table.column(column).unwrap().0, value.trim_matches('\'').as_bytes())
            })
            .collect();
        let columns: Vec<(&str, CqlType)> =
            table.columns.iter().map(|column| (&*column.name, column.cql_type.clone())).collect();
        let mut lines: Vec<String> = virtual_rows(table, &self.schema, &facts())
            .into_iter()
            .filter(|row| {
                wanted.iter().all(|(index, value)| row.values[*index].as_deref() == Some(value))
            })
            .map(|row| row_line(&columns, row.values.into_iter()))
            .collect();
        lines.sort();
        lines.insert(0, "= ROWS".to_string());
        lines
    }
}

fn facts() -> NodeFacts {
    let address = std::net::IpAddr::from([127, 0, 0, 1]);
    NodeFacts {
        host_id: 7,
        cluster_name: "test".into(),
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        listen_address: address,
        listen_port: 7000,
        broadcast_address: address,
        broadcast_port: 7000,
        rpc_address: address,
        rpc_port: 9042,
        tokens: vec!["0".into()],
        release_version: "5.0.5".into(),
        cql_version: "3.4.7".into(),
        native_protocol_version: "5".into(),
        partitioner: "org.apache.cassandra.dht.Murmur3Partitioner".into(),
        gossip_generation: 1,
        truncated_at: BTreeMap::from([(types::TableId(1), vec![1])]),
        helenus_version: "0.2.0".into(),
        data_dir: "data".into(),
        profile: "default".into(),
        started_at_ms: 0,
        now_ms: 5_000,
        settings: Vec::new(),
        clients: Vec::new(),
        view: Vec::new(),
        estimates: Vec::new(),
        partitions: Default::default(),
        index_builds: Vec::new(),
        units: Default::default(),
        auth: Default::default(),
        cluster: Default::default(),
        journal: Default::default(),
    }
}

fn error_line(code: u32, message: &str) -> String {
    format!("= ERROR {code:04x} {}", serde_json::Value::from(message))
}

const VARYING: [&str; 11] = [
    "host_id",
    "schema_version",
    "tokens",
    "truncated_at",
    "gossip_generation",
    "listen_port",
    "broadcast_port",
    "rpc_port",
    "cluster_name",
    "cluster",
    "range_ownership",
];

fn row_line(columns: &[(&str, CqlType)], values: impl Iterator<Item = Option<Vec<u8>>>) -> String {
    let values: Vec<Option<Vec<u8>>> = values.collect();
    let keyspace = columns.iter().position(|(name, _)| *name == "keyspace_name");
    let is_system = keyspace
        .and_then(|index| values[index].as_deref())
        .is_some_and(|name| name.starts_with(b"system"));
    let mut line = "|".to_string();
    for ((name, cql_type), value) in columns.iter().zip(&values) {
        let shown = match value {
            None => "null".to_string(),
            Some(_) if VARYING.contains(name) || (*name == "id" && !is_system) => "*".to_string(),
            Some(bytes) if *cql_type == CqlType::Text => {
                let text = mask(name, std::str::from_utf8(bytes).unwrap());
                serde_json::Value::from(text).to_string()
            }
            Some(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("0x{digits}")
            }
        };
        write!(line, " {name}={shown}").unwrap();
    }
    line
}

/// What differs from run to run.
fn mask(column: &str, text: &str) -> String {
    if column != "create_statement" {
        return text.to_string();
    }
    let mut masked = text.to_string();
    if let Some(start) = masked.find("ID = ") {
        masked.replace_range(start + 5..start + 5 + 36, "*");
    }
    masked.replace("USING TIMESTAMP 1700000000000000", "USING TIMESTAMP *")
}

fn replay(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let text = std::fs::read_to_string(path.with_extension("expected")).unwrap();
    let mut node = Node::new();
    let mut differences = String::new();
    let mut count = 0;
    for entry in entries(&text) {
        count += 1;
        let answer = node.answer(entry.statement);
        if answer == entry.expected {
            continue;
        }
        writeln!(differences, "> {}", entry.statement).unwrap();
        let missing: Vec<&str> = lines_without(&entry.expected, &answer);
        let extra: Vec<&str> = lines_without(&answer, &entry.expected);
        for index in 0..missing.len().max(extra.len()) {
            let theirs = missing.get(index).copied().unwrap_or("nothing");
            let ours = extra.get(index).copied().unwrap_or("nothing");
            let start = first_difference(theirs, ours);
            writeln!(differences, "  Cassandra {}", window(theirs, start)).unwrap();
            writeln!(differences, "  we        {}", window(ours, start)).unwrap();
        }
        if missing.is_empty() && extra.is_empty() {
            writeln!(differences, "  the same lines in another order").unwrap();
        }
    }
    assert!(differences.is_empty(), "of {count} statements:\n{differences}");
}

fn lines_without<'a, A: AsRef<str>, B: AsRef<str>>(lines: &'a [A], others: &[B]) -> Vec<&'a str> {
    let lines = lines.iter().map(AsRef::as_ref);
    lines.filter(|line| !others.iter().any(|other| other.as_ref() == *line)).collect()
}

fn first_difference(left: &str, right: &str) -> usize {
    left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count()
}

/// The part of a long line that matters.
fn window(line: &str, difference: usize) -> String {
    const WIDTH: usize = 300;
    let start = if difference < 200 { 0 } else { difference - 80 };
    let shown: String = line.chars().skip(start).take(WIDTH).collect();
    if start > 0 { format!("…{shown}") } else { shown }
}

/// One test per script, so that all of them are seen to fail.
macro_rules! scripts {
    ($($name:ident)*) => {
        mod script {
            $(#[test] fn $name() { super::replay(stringify!($name)); })*
        }

        #[test]
        fn every_script_is_replayed() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
            let names = [$(stringify!($name)),*];
            for file in std::fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                let stem = path.file_stem().unwrap().to_str().unwrap();
                assert!(names.contains(&stem), "{stem} is not replayed");
            }
        }
    };
}

scripts! { alter column_types compact describe indexes keyspaces options system tables user_types }
