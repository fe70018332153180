//! What a statement costs grows with its length and no faster: each form is parsed, prepared and bound at one size and at
//! twice that size, and callgrind counts the instructions of both. Counts are those of the code and not of the machine,
//! so that a loop in a loop shows at sizes that take no time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::path::Path;
use std::process::Command;

use plan::{NoValues, SessionContext, Value, Values, prepare};
use support::{Uuids, World, context};

/// How many parts the smaller statement of each form has.
const SIZE: usize = 256;
/// Twice the parts may take this much: with sorting a little more than twice. A loop in a loop is a small share of the
/// whole at this size, far from four times.
const GROWTH_MAX: f64 = 2.2;

/// Where counting begins and ends.
const FUNCTION: &str = "growth::measured";

struct Form {
    name: &'static str,
    definitions: fn(usize) -> Vec<String>,
    statement: fn(usize) -> String,
    is_definition: bool,
}

const FORMS: [Form; 44] = [
    written("map", |n| {
        format!(
            "INSERT INTO t (p, c, m) VALUES (0, 0, {{{}}})",
            list(n, |i| format!("'a{i}': {i}"))
        )
    }),
    written("added map", |n| {
        format!(
            "UPDATE t SET m = m + {{{}}} WHERE p = 0 AND c = 0",
            list(n, |i| format!("'a{i}': {i}"))
        )
    }),
    written("frozen map", |n| {
        format!(
            "INSERT INTO t (p, c, fm) VALUES (0, 0, {{{}}})",
            list(n, |i| format!("'a{i}': {i}"))
        )
    }),
    written("nested map", |n| {
        format!(
            "INSERT INTO t (p, c, nm) VALUES (0, 0, {{{}}})",
            list(n, |i| format!("{i}: {{{i}: {i}}}"))
        )
    }),
    written("inner map", |n| {
        format!(
            "INSERT INTO t (p, c, nm) VALUES (0, 0, {{1: {{{}}}}})",
            list(n, |i| format!("{i}: {i}"))
        )
    }),
    written("keys of a map", |n| {
        format!("UPDATE t SET m = m - {{{}}} WHERE p = 0 AND c = 0", list(n, |i| format!("'a{i}'")))
    }),
    written("list", |n| format!("INSERT INTO t (p, c, l) VALUES (0, 0, [{}])", numbers(n))),
    written("added list", |n| {
        format!("UPDATE t SET l = l + [{}] WHERE p = 0 AND c = 0", numbers(n))
    }),
    written("taken list", |n| {
        format!("UPDATE t SET l = l - [{}] WHERE p = 0 AND c = 0", numbers(n))
    }),
    written("set", |n| format!("INSERT INTO t (p, c, s) VALUES (0, 0, {{{}}})", mixed(n))),
    written("types of a set", |n| {
        format!(
            "INSERT INTO t (p, c) VALUES (0, collection_count({{{}, (bigint) 2}}))",
            list(n, |i| format!("(int) {i}"))
        )
    }),
    written("types of a map", |n| {
        format!(
            "INSERT INTO t (p, c) VALUES (0, collection_count({{{}, (bigint) 2: 1}}))",
            list(n, |i| format!("(int) {i}: 1"))
        )
    }),
    written("keys in a list", |n| format!("SELECT v FROM t WHERE p IN ({})", mixed(n))),
    written("rows in a list", |n| format!("SELECT v FROM t WHERE p = 0 AND c IN ({})", mixed(n))),
    written("tuples in a list", |n| {
        format!(
            "SELECT v FROM t2 WHERE p = 0 AND (c, d) IN ({})",
            list(n, |i| format!("({}, {i})", i * 7919 % n))
        )
    }),
    written("filter by a list", |n| {
        format!("SELECT v FROM t WHERE v IN ({}) ALLOW FILTERING", mixed(n))
    }),
    written("deleted rows", |n| format!("DELETE FROM t WHERE p = 0 AND c IN ({})", mixed(n))),
    written("deleted keys", |n| format!("DELETE FROM t WHERE p IN ({})", mixed(n))),
    written("updated rows", |n| format!("UPDATE t SET v = 1 WHERE p = 0 AND c IN ({})", mixed(n))),
    written("markers", |n| {
        format!("SELECT v FROM t WHERE p = 0 AND c IN ({})", list(n, |_| "?".into()))
    }),
    written("named markers", |n| {
        format!("SELECT v FROM t WHERE p = 0 AND c IN ({})", list(n, |i| format!(":a{i}")))
    }),
    written("batch of a partition", |n| {
        batch(n, |i| format!("INSERT INTO t (p, c, v) VALUES (0, {i}, 1)"))
    }),
    written("batch of partitions", |n| {
        batch(n, |i| format!("INSERT INTO t (p, c, v) VALUES ({i}, 0, 1)"))
    }),
    written("batch of a row", |n| {
        batch(n, |i| format!("UPDATE t SET v = {i} WHERE p = 0 AND c = 0"))
    }),
    written("batch of elements", |n| {
        batch(n, |i| format!("UPDATE t SET l = l + [{i}] WHERE p = 0 AND c = 0"))
    }),
    written("batch of ranges", |n| {
        batch(n, |i| format!("DELETE FROM t WHERE p = 0 AND c > {} AND c < {}", 3 * i, 3 * i + 2))
    }),
    written("batch of conditions", |n| {
        batch(n, |i| format!("UPDATE t SET v = 1 WHERE p = 0 AND c = {i} IF v = 1"))
    }),
    written("conditions on elements", |n| {
        format!(
            "UPDATE t SET v = 1 WHERE p = 0 AND c = 0 IF {}",
            joined(n, " AND ", |i| format!("m['{i}'] = 1"))
        )
    }),
    written("condition with a list", |n| {
        format!("UPDATE t SET v = 1 WHERE p = 0 AND c = 0 IF v IN ({})", numbers(n))
    }),
    written("assigned elements", |n| {
        format!("UPDATE t SET {} WHERE p = 0 AND c = 0", list(n, |i| format!("m['{i}'] = 1")))
    }),
    written("selected columns", |n| {
        format!("SELECT {} FROM t WHERE p = 0", list(n, |i| format!("v AS a{i}")))
    }),
    written("selected map", |n| {
        format!(
            "SELECT (map<int, int>) {{{}}} FROM t WHERE p = 0",
            list(n, |i| format!("{i}: {i}"))
        )
    }),
    written("JSON", |n| {
        format!(
            "INSERT INTO t JSON '{{\"p\": 0, \"c\": 0, \"m\": {{{}}}}}'",
            list(n, |i| format!("\"a{i}\": {i}"))
        )
    }),
    wide("inserted columns", |n| {
        format!(
            "INSERT INTO w (p, {}) VALUES (0, {})",
            list(n, |i| format!("a{i}")),
            list(n, |_| "1".into())
        )
    }),
    wide("updated columns", |n| {
        format!("UPDATE w SET {} WHERE p = 0", list(n, |i| format!("a{i} = 1")))
    }),
    wide("restricted columns", |n| {
        format!(
            "SELECT * FROM w WHERE {} ALLOW FILTERING",
            joined(n, " AND ", |i| format!("a{i} = 1"))
        )
    }),
    wide("conditions on columns", |n| {
        format!(
            "UPDATE w SET a0 = 1 WHERE p = 0 IF {}",
            joined(n, " AND ", |i| format!("a{i} = 1"))
        )
    }),
    wide("literal of a user type", |n| {
        format!("INSERT INTO w (p, u) VALUES (0, {{{}}})", list(n, |i| format!("f{i}: 1")))
    }),
    wide("fields of a user type", |n| {
        format!("UPDATE w SET {} WHERE p = 0", list(n, |i| format!("u.f{i} = 1")))
    }),
    wide("JSON of a user type", |n| {
        format!(
            "INSERT INTO w JSON '{{\"p\": 0, \"u\": {{{}}}}}'",
            list(n, |i| format!("\"f{i}\": {i}"))
        )
    }),
    defined(
        "created columns",
        |_| Vec::new(),
        |n| format!("CREATE TABLE x (p int PRIMARY KEY, {})", list(n, |i| format!("a{i} int"))),
    ),
    defined("added columns", wide_table, |n| {
        format!("ALTER TABLE w ADD ({})", list(n, |i| format!("a{i}x int")))
    }),
    defined("dropped columns", wide_table, |n| {
        format!("ALTER TABLE w DROP ({})", list(n, |i| format!("a{i}")))
    }),
    defined("renamed fields", wide_table, |n| {
        format!("ALTER TYPE ty RENAME {}", joined(n, " AND ", |i| format!("f{i} TO g{i}")))
    }),
];

const fn written(name: &'static str, statement: fn(usize) -> String) -> Form {
    Form { name, definitions: |_| Vec::new(), statement, is_definition: false }
}

const fn wide(name: &'static str, statement: fn(usize) -> String) -> Form {
    Form { name, definitions: wide_table, statement, is_definition: false }
}

const fn defined(
    name: &'static str,
    definitions: fn(usize) -> Vec<String>,
    statement: fn(usize) -> String,
) -> Form {
    Form { name, definitions, statement, is_definition: true }
}

fn joined(n: usize, between: &str, part: impl Fn(usize) -> String) -> String {
    (0..n).map(part).collect::<Vec<_>>().join(between)
}

fn list(n: usize, part: impl Fn(usize) -> String) -> String {
    joined(n, ", ", part)
}

fn numbers(n: usize) -> String {
    list(n, |i| i.to_string())
}

/// The numbers below `n` out of order.
fn mixed(n: usize) -> String {
    list(n, |i| (i * 7919 % n).to_string())
}

fn batch(n: usize, statement: impl Fn(usize) -> String) -> String {
    format!("BEGIN UNLOGGED BATCH {}; APPLY BATCH", joined(n / 2, "; ", statement))
}

fn wide_table(n: usize) -> Vec<String> {
    vec![
        format!("CREATE TYPE ty ({})", list(n, |i| format!("f{i} int"))),
        format!("CREATE TABLE w (p int PRIMARY KEY, u ty, {})", list(n, |i| format!("a{i} int"))),
    ]
}

/// A number for each marker.
struct Numbers;

impl Values for Numbers {
    fn count(&self) -> usize {
        usize::from(u16::MAX)
    }

    fn at(&self, _: usize) -> Option<Value<'_>> {
        Some(Value::Bytes(&[0, 0, 0, 1]))
    }

    fn is_named(&self) -> bool {
        true
    }

    fn named(&self, _: &str) -> Option<Value<'_>> {
        self.at(0)
    }
}

/// What is counted.
#[inline(never)]
fn measured(world: &mut World, form: &Form, text: &str) {
    if form.is_definition {
        return world.define(text);
    }
    let parsed = cql::parse(text).unwrap();
    let session = SessionContext { keyspace: Some("growth") };
    // Some forms end in an error; what it took to find it counts.
    let Ok(prepared) = prepare(&parsed, text, &world.schema, &session) else { return };
    let uuids = Uuids::default();
    let context = context(&uuids);
    let has_markers = text.contains(['?', ':']) && form.name.ends_with("markers");
    let values: &dyn Values = if has_markers { &Numbers } else { &NoValues };
    drop(prepared.bind(values, &context));
}

/// Runs under valgrind, started by the test below.
#[test]
#[ignore = "counted by statements_cost_what_their_length_says"]
fn counted() {
    let mut world = World::new("growth");
    world.define(
        "CREATE TABLE t (p int, c int, v int, m map<text, int>, fm frozen<map<text, int>>, l list<int>, s set<int>, \
         nm map<int, frozen<map<int, int>>>, PRIMARY KEY (p, c))",
    );
    world.define("CREATE TABLE t2 (p int, c int, d int, v int, PRIMARY KEY (p, c, d))");
    let before = world.schema.clone();
    for form in &FORMS {
        for size in [SIZE, 2 * SIZE] {
            world.schema = before.clone();
            (form.definitions)(size).iter().for_each(|text| world.define(text));
            measured(&mut world, form, &(form.statement)(size));
        }
    }
}

#[test]
fn statements_cost_what_their_length_says() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("NOT CHECKED, this machine has no valgrind");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("growth");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={FUNCTION}"))
        .arg(format!("--dump-after={FUNCTION}"))
        .arg(format!("--callgrind-out-file={}", folder.join("counts").display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "counted", "--ignored"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let count = |number: usize| -> f64 {
        let file = folder.join(format!("counts.{number}"));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let line = text.lines().find_map(|line| line.strip_prefix("summary: "));
        line.and_then(|count| count.trim().parse().ok())
            .unwrap_or_else(|| panic!("{file:?} has no sum"))
    };
    let mut wrong = Vec::new();
    for (place, form) in FORMS.iter().enumerate() {
        let (less, more) = (count(2 * place + 1), count(2 * place + 2));
        let growth = more / less;
        eprintln!("{:26} {less:12.0} {more:12.0} {growth:.2}", form.name);
        if !(1.2..GROWTH_MAX).contains(&growth) {
            wrong
                .push(format!("{}: {less} instructions, and {more} for twice the size", form.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
