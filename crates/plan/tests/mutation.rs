//! What writes become: one line for each change, compared as text.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::fmt::Write;

use plan::{Plan, SessionContext, Value, prepare};
use support::{NOW_US, Uuids, World, context};
use types::{CellAction, Mutation, Operation, RowPosition};

fn world() -> World {
    let mut world = World::new("ks");
    world.define("CREATE TYPE pair (x int, y int)");
    world.define(
        "CREATE TABLE t (k int, c int, v int, s int static, l list<int>, e set<int>, \
         m map<int, int>, u pair, f frozen<set<int>>, PRIMARY KEY (k, c))",
    );
    world.define("CREATE TABLE one (k int PRIMARY KEY, v int) WITH default_time_to_live = 60");
    world.define("CREATE TABLE counts (k int PRIMARY KEY, n counter)");
    world.define(
        "CREATE TABLE dense (k int, c int, v int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
    );
    world
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

fn show_cell(world: &World, mutation: &Mutation, cell: &types::CellChange) -> String {
    let table = world.schema.table_by_id(mutation.table).unwrap();
    let name = &table.column_by_id(cell.column).unwrap().name;
    let at = cell.timestamp_us - NOW_US;
    let path = |path: &Option<bytes::Bytes>| match path {
        // The time of a list's path is not the matter here.
        Some(path) if path.len() == 17 => "[time]".to_string(),
        Some(path) => format!("[{}]", hex(path)),
        None => String::new(),
    };
    match &cell.action {
        CellAction::Set { path: p, value, expiry } => {
            let ttl = expiry.map_or(String::new(), |expiry| format!(" ttl {}", expiry.ttl_s));
            format!("{name}{} = {}{ttl} @{at}", path(p), hex(value))
        }
        CellAction::Delete { path: p, .. } => format!("{name}{} dead @{at}", path(p)),
        CellAction::DeleteElements { .. } => format!("{name} emptied @{at}"),
        CellAction::CounterAdd(amount) => format!("{name} += {amount}"),
        CellAction::AddValue { value, .. } => format!("{name} grows by {}", hex(value)),
        CellAction::ListSetAt { index, value, .. } => format!("{name}#{index} = {}", hex(value)),
        CellAction::ListDeleteAt { index, .. } => format!("{name}#{index} dead"),
        CellAction::ListRemoveValues { values, .. } => {
            let values: Vec<String> = values.iter().map(|value| hex(value)).collect();
            format!("{name} without {}", values.join(" "))
        }
    }
}

fn show(world: &World, mutation: &Mutation) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(condition) = &mutation.condition {
        for row in &condition.rows {
            let checks: Vec<String> = row.checks.iter().map(|check| format!("{check:?}")).collect();
            let position = match &row.position {
                RowPosition::Static => "static".to_string(),
                RowPosition::Clustered(key) => hex(key),
            };
            lines.push(format!("if {position}: {}", checks.join(", ")));
        }
    }
    for operation in &mutation.operations {
        match operation {
            Operation::DeletePartition(_) => lines.push("partition dead".to_string()),
            Operation::DeleteRange { range, .. } => lines.push(format!(
                "range dead {}..{}",
                hex(&range.start),
                range.end.as_ref().map_or(String::new(), |end| hex(end))
            )),
            Operation::Row(row) => {
                let mut line = match &row.position {
                    RowPosition::Static => "static".to_string(),
                    RowPosition::Clustered(key) => format!("row {}", hex(key)),
                };
                if let Some(liveness) = row.liveness {
                    line.push_str(" live");
                    if let Some(expiry) = liveness.expiry {
                        write!(line, " ttl {}", expiry.ttl_s).unwrap();
                    }
                }
                if row.deletion.is_some() {
                    line.push_str(" dead");
                }
                lines.push(line);
                lines.extend(
                    row.cells.iter().map(|cell| format!("  {}", show_cell(world, mutation, cell))),
                );
            }
        }
    }
    lines
}

fn mutations(world: &World, text: &str, values: &[Value<'_>]) -> Vec<String> {
    let parsed = cql::parse(text).unwrap();
    let session = SessionContext { keyspace: Some("ks") };
    let prepared = prepare(&parsed, text, &world.schema, &session)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let uuids = Uuids::default();
    let context = context(&uuids);
    let holder = Values(values);
    let plan = match prepared.bind(&holder, &context) {
        Ok(plan) => plan,
        Err(error) => return vec![format!("error {error}")],
    };
    let mutations = match plan {
        Plan::Modify(plan) => plan.mutations,
        Plan::Batch(plan) => plan.mutations,
        _ => panic!("{text}: no write"),
    };
    mutations
        .iter()
        .flat_map(|mutation| {
            let mut lines = vec![format!("key {}", hex(mutation.key.bytes()))];
            lines.extend(show(world, mutation));
            lines
        })
        .collect()
}

struct Values<'a>(&'a [Value<'a>]);

impl plan::Values for Values<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn at(&self, index: usize) -> Option<Value<'_>> {
        self.0.get(index).copied()
    }
}

fn check(text: &str, values: &[Value<'_>], expected: &[&str]) {
    assert_eq!(mutations(&world(), text, values), expected, "{text}");
}

const ONE: &[u8] = &[0, 0, 0, 1];

#[test]
fn inserts_make_rows_live() {
    check(
        "INSERT INTO t (k, c, v) VALUES (1, 2, 3)",
        &[],
        &["key 00000001", "row 0480000002 live", "  v = 00000003 @0"],
    );
    check(
        "INSERT INTO t (k, c, v, s) VALUES (1, 2, null, 5) USING TIMESTAMP 7 AND TTL 9",
        &[],
        &[
            "key 00000001",
            "row 0480000002 live ttl 9",
            "  v dead @-1699999999999993",
            "static",
            "  s = 00000005 ttl 9 @-1699999999999993",
        ],
    );
    check(
        "INSERT INTO t (k, s) VALUES (1, 5)",
        &[],
        &["key 00000001", "static", "  s = 00000005 @0"],
    );
    check(
        "INSERT INTO one (k, v) VALUES (1, 2)",
        &[],
        &["key 00000001", "row  live ttl 60", "  v = 00000002 ttl 60 @0"],
    );
    check(
        "INSERT INTO one (k, v) VALUES (1, 2) USING TTL 0",
        &[],
        &["key 00000001", "row  live", "  v = 00000002 @0"],
    );
    check(
        "INSERT INTO dense (k, c, v) VALUES (1, 2, 3)",
        &[],
        &["key 00000001", "row 0480000002", "  v = 00000003 @0"],
    );
}

#[test]
fn unset_leaves_alone() {
    let text = "INSERT INTO t (k, c, v) VALUES (?, ?, ?)";
    let key = Value::Bytes(ONE);
    check(text, &[key, key, Value::Unset], &["key 00000001", "row 0480000001 live"]);
    check(text, &[key, key, Value::Null], &["key 00000001", "row 0480000001 live", "  v dead @0"]);
    check(text, &[Value::Unset, key, key], &["error Invalid unset value for column k"]);
    check(text, &[key, Value::Null, key], &["error Invalid null value in condition for column c"]);
    check(text, &[key, key], &["error there were 3 markers(?) in CQL but 2 bound variables"]);
    check(text, &[key, key, Value::Bytes(&[1])], &["error Expected 4 or 0 byte int (1)"]);
    check("UPDATE t SET v = ? WHERE k = 1 AND c = 1", &[Value::Unset], &[]);
}

#[test]
fn collections_change_by_element() {
    check(
        "UPDATE t SET l = [1, 2], e = {2, 1}, m = {1: 2} WHERE k = 1 AND c = 2",
        &[],
        &[
            "key 00000001",
            "row 0480000002",
            "  l emptied @-1",
            "  l[time] = 00000001 @0",
            "  l[time] = 00000002 @0",
            "  e emptied @-1",
            "  e[0480000001] =  @0",
            "  e[0480000002] =  @0",
            "  m emptied @-1",
            "  m[0480000001] = 00000002 @0",
        ],
    );
    check(
        "UPDATE t SET l = l + [1], e = e - {1}, m = m - {1}, l = [3] + l WHERE k = 1 AND c = 2",
        &[],
        &[
            "key 00000001",
            "row 0480000002",
            "  l[time] = 00000001 @0",
            "  e[0480000001] dead @0",
            "  m[0480000001] dead @0",
            "  l[time] = 00000003 @0",
        ],
    );
    check(
        "UPDATE t SET l[1] = 5, m[7] = null, u.y = 4 WHERE k = 1 AND c = 2",
        &[],
        &[
            "key 00000001",
            "row 0480000002",
            "  l#1 = 00000005",
            "  m[0480000007] dead @0",
            "  u[0001] = 00000004 @0",
        ],
    );
    check(
        "UPDATE t SET l = l - [1], u = {x: 1}, f = {2, 1} WHERE k = 1 AND c = 2",
        &[],
        &[
            "key 00000001",
            "row 0480000002",
            "  l without 00000001",
            "  u emptied @-1",
            "  u[0000] = 00000001 @0",
            "  f = 0000000200000004000000010000000400000002 @0",
        ],
    );
    check(
        "DELETE l, l[0], e[1], m[2], u.x, v FROM t WHERE k = 1 AND c = 2",
        &[],
        &[
            "key 00000001",
            "row 0480000002",
            "  l emptied @0",
            "  l#0 dead",
            "  e[0480000001] dead @0",
            "  m[0480000002] dead @0",
            "  u[0000] dead @0",
            "  v dead @0",
        ],
    );
}

#[test]
fn deletes_of_every_size() {
    check("DELETE FROM t WHERE k = 1", &[], &["key 00000001", "partition dead"]);
    check(
        "DELETE FROM t WHERE k IN (2, 1) AND c = 2",
        &[],
        &["key 00000001", "row 0480000002 dead", "key 00000002", "row 0480000002 dead"],
    );
    check(
        "DELETE FROM t WHERE k = 1 AND c > 2 AND c <= 4",
        &[],
        &["key 00000001", "range dead 0480000003..0480000005"],
    );
    check("DELETE FROM t WHERE k = 1 AND c > 4 AND c < 2", &[], &[]);
    check("DELETE s FROM t WHERE k = 1", &[], &["key 00000001", "static", "  s dead @0"]);
}

#[test]
fn counters_add() {
    check("UPDATE counts SET n = n + 5 WHERE k = 1", &[], &["key 00000001", "row ", "  n += 5"]);
    check("UPDATE counts SET n -= 5 WHERE k = 1", &[], &["key 00000001", "row ", "  n += -5"]);
}

#[test]
fn conditions_name_their_rows() {
    check(
        "INSERT INTO t (k, c, s) VALUES (1, 2, 3) IF NOT EXISTS",
        &[],
        &[
            "key 00000001",
            "if static: ",
            "if 0480000002: NotExists",
            "row 0480000002 live",
            "static",
            "  s = 00000003 @0",
        ],
    );
    check(
        "UPDATE t SET s = 3 WHERE k = 1 IF EXISTS",
        &[],
        &["key 00000001", "if static: Exists", "static", "  s = 00000003 @0"],
    );
    check(
        "UPDATE t SET v = 3 WHERE k = 1 AND c = 2 IF s = 1 AND e = {} AND l[2] > 3",
        &[],
        &[
            "key 00000001",
            "if static: Column { column: ColumnId(6), part: Whole, operator: Equal, values: \
         [Some(b\"\\0\\0\\0\\x01\")] }",
            // In the order in which Cassandra comes to them.
            "if 0480000002: Column { column: ColumnId(4), part: ListIndex(2), operator: Greater, \
         values: [Some(b\"\\0\\0\\0\\x03\")] }, Column { column: ColumnId(2), part: Whole, operator: \
         Equal, values: [None] }",
            "row 0480000002",
            "  v = 00000003 @0",
        ],
    );
}

#[test]
fn batches_gather_by_partition() {
    check(
        "BEGIN BATCH INSERT INTO t (k, c) VALUES (1, 1); INSERT INTO one (k, v) VALUES (1, 1); \
         DELETE FROM t WHERE k = 1 AND c = 2; APPLY BATCH",
        &[],
        &[
            "key 00000001",
            "row 0480000001 live",
            "row 0480000002 dead",
            "key 00000001",
            "row  live ttl 60",
            "  v = 00000001 ttl 60 @0",
        ],
    );
}

#[test]
fn json_fills_columns() {
    let document = br#"{"k": 1, "c": 2, "v": 3}"#;
    check(
        "INSERT INTO t JSON ? DEFAULT UNSET",
        &[Value::Bytes(document)],
        &["key 00000001", "row 0480000002 live", "  v = 00000003 @0"],
    );
    check(
        "INSERT INTO t JSON ?",
        &[Value::Bytes(b"{}")],
        &["error Invalid null value in condition for column k"],
    );
}
