//! What three nodes answer when some of them are down, beside what three nodes of Cassandra answered
//! (`crates/testkit/golden/unavailable.json`): the code, the text and every field. Where ours differ on purpose it stands in
//! [`DIFFERENCES`], and every line of it must still be true.

use std::collections::BTreeMap;

use protocol::{Consistency, ErrorKind, ErrorResponse, Response, Version};
use serde_json::{Value, json};
use testkit::{Client, Cluster, Execution, Start, eventually};

use crate::support::{SOON, ask, create_keyspace, tell, three_with};

const GOLDEN: &str = include_str!("../../../testkit/golden/unavailable.json");

/// What we answer where Cassandra answers something else.
enum Ours {
    Result,
    /// Too few are alive for the request's own level, which needs so many; `None`: as many as it says, or a quorum.
    Unavailable(Option<i64>),
    /// What Cassandra answers to another operation at that level.
    As(&'static str),
    /// Cassandra's answer with another number alive.
    Alive(i64),
    Truncate(&'static str),
}

struct Difference {
    states: &'static [&'static str],
    operations: &'static [&'static str],
    levels: &'static [&'static str],
    ours: Ours,
    /// For the reader.
    #[expect(dead_code, reason = "the reason is what the table is for")]
    why: &'static str,
}

const ALL_STATES: &[&str] = &["all up", "1 down", "2 down"];
const READS: &[&str] = &["read", "read of a range", "read of a counter"];
const WRITES: &[&str] = &[
    "insert",
    "delete of a range",
    "counter",
    "logged batch, one partition",
    "unlogged batch, one partition",
    "unlogged batch, two partitions",
    "counter batch",
];
const CONDITIONAL: &[&str] = &[
    "conditional insert, SERIAL",
    "conditional insert, LOCAL_SERIAL",
    "conditional batch, SERIAL",
];
const LOGGED: &[&str] = &["logged batch, two partitions"];
/// All levels that are not refused for every batch.
const LEVELS: &[&str] = &[
    "ANY",
    "ONE",
    "TWO",
    "THREE",
    "QUORUM",
    "ALL",
    "LOCAL_QUORUM",
    "EACH_QUORUM",
    "SERIAL",
    "LOCAL_SERIAL",
    "LOCAL_ONE",
];

/// The first that fits counts.
const DIFFERENCES: &[Difference] = &[
    Difference {
        states: ALL_STATES,
        operations: &["read with too many tombstones"],
        levels: LEVELS,
        ours: Ours::As("read"),
        why: "deletions do not slow reads down here, so there is no limit to them",
    },
    Difference {
        states: &["1 down"],
        operations: &["truncate"],
        levels: &["ONE"],
        ours: Ours::Result,
        why: "an entry of every set, for which a quorum is enough; who is away finds it when it is back (D11)",
    },
    Difference {
        states: &["2 down"],
        operations: &["truncate"],
        levels: &["ONE"],
        ours: Ours::Truncate("Error during truncate: Cannot achieve consistency level QUORUM"),
        why: "the same",
    },
    Difference {
        states: &["2 down"],
        operations: &["create table"],
        levels: &["ONE"],
        ours: Ours::Unavailable(Some(2)),
        why: "a definition is agreed on by a quorum, so that two never clash (D15)",
    },
    Difference {
        states: &["2 down"],
        operations: LOGGED,
        levels: LEVELS,
        ours: Ours::Unavailable(None),
        why: "there is no log of batches that two nodes must have first",
    },
    Difference {
        states: &["1 down"],
        operations: READS,
        levels: &["THREE"],
        ours: Ours::Result,
        why: "THREE is a quorum (D13)",
    },
    Difference {
        states: &["1 down"],
        operations: WRITES,
        levels: &["THREE"],
        ours: Ours::Result,
        why: "THREE is a quorum (D13)",
    },
    Difference {
        states: &["1 down"],
        operations: LOGGED,
        levels: &["THREE"],
        ours: Ours::Result,
        why: "THREE is a quorum (D13)",
    },
    Difference {
        states: &["1 down"],
        operations: CONDITIONAL,
        levels: &["THREE"],
        ours: Ours::Result,
        why: "THREE is a quorum (D13)",
    },
    Difference {
        states: &["2 down"],
        operations: READS,
        levels: &["THREE"],
        ours: Ours::Unavailable(Some(2)),
        why: "THREE is a quorum (D13)",
    },
    Difference {
        states: &["2 down"],
        operations: WRITES,
        levels: &["THREE"],
        ours: Ours::Unavailable(Some(2)),
        why: "THREE is a quorum (D13)",
    },
    Difference {
        states: &["2 down"],
        operations: WRITES,
        levels: &["ANY", "ONE", "LOCAL_ONE"],
        ours: Ours::Unavailable(Some(2)),
        why: "every write needs a quorum, and is never lost (D13)",
    },
    Difference {
        states: &["2 down"],
        operations: READS,
        levels: &["EACH_QUORUM"],
        ours: Ours::Alive(1),
        why: "Cassandra says that none is alive, whatever is",
    },
    Difference {
        states: &["2 down"],
        operations: WRITES,
        levels: &["EACH_QUORUM"],
        ours: Ours::Alive(1),
        why: "Cassandra says that none is alive, whatever is",
    },
];

/// Statements and levels of the file.
struct Golden {
    answers: Vec<Value>,
}

impl Golden {
    fn new() -> Golden {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        Golden { answers: golden["answers"].as_array().unwrap().clone() }
    }

    fn of_state<'a>(&'a self, state: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
        self.answers.iter().filter(move |answer| answer["state"] == state)
    }

    fn find(&self, state: &str, operation: &str, level: &str) -> &Value {
        let is_it = |it: &&Value| {
            it["state"] == state && it["operation"] == operation && it["level"] == level
        };
        self.answers.iter().find(is_it).unwrap()
    }
}

/// What is compared of a golden answer.
fn compared(answer: &Value) -> Value {
    let mut fields = answer.as_object().unwrap().clone();
    for name in ["state", "operation", "level", "body", "v5"] {
        fields.remove(name);
    }
    Value::Object(fields)
}

fn unavailable(level: &str, required: i64, alive: i64) -> Value {
    let place = if level == "EACH_QUORUM" { " in DC datacenter1" } else { "" };
    let text = format!("Cannot achieve consistency level {level}{place}");
    json!({"answer": "unavailable", "code": "0x1000", "text": text, "cl": level, "required": required, "alive": alive})
}

/// What we are expected to answer, and by which line of the table.
fn expected(golden: &Golden, answer: &Value) -> (Value, Option<usize>) {
    let word = |name: &str| answer[name].as_str().unwrap();
    let (state, operation, level) = (word("state"), word("operation"), word("level"));
    let fits = |it: &Difference| {
        it.states.contains(&state)
            && it.operations.contains(&operation)
            && it.levels.contains(&level)
    };
    let Some(place) = DIFFERENCES.iter().position(fits) else { return (compared(answer), None) };
    // What Cassandra refuses as invalid is refused here too, whoever is alive.
    if answer["answer"] == "invalid" {
        return (compared(answer), None);
    }
    let alive = if state == "2 down" { 1 } else { 2 };
    let ours = match &DIFFERENCES[place].ours {
        Ours::Result => json!({"answer": "result"}),
        Ours::Unavailable(required) => {
            let of_level = if level == "ALL" { 3 } else { 2 };
            unavailable(level, required.unwrap_or(of_level), alive)
        }
        Ours::As(other) => expected(golden, golden.find(state, other, level)).0,
        Ours::Alive(alive) => {
            let mut fields = compared(answer);
            fields["alive"] = json!(alive);
            fields
        }
        Ours::Truncate(text) => json!({"answer": "truncate", "code": "0x1003", "text": text}),
    };
    (ours, Some(place))
}

fn level_of(name: &str) -> Consistency {
    let all = (0..=12).filter_map(|code| Consistency::from_code(code).ok());
    all.into_iter().find(|level| level.to_string() == name).unwrap()
}

/// The statement of an operation; every one writes something of its own.
fn statement(operation: &str, number: usize) -> (String, Option<Consistency>) {
    let insert = |p: usize, c: usize| format!("INSERT INTO k.t (p, c, v) VALUES ({p}, {c}, 'v')");
    let count = |p: usize| format!("UPDATE k.n SET n = n + 1 WHERE p = {p}");
    let batch = |kind: &str, first: String, second: String| {
        format!("BEGIN {kind}BATCH {first}; {second}; APPLY BATCH")
    };
    let (kind, serial) = match operation.rsplit_once(", ") {
        Some((kind, level @ ("SERIAL" | "LOCAL_SERIAL"))) => (kind, Some(level_of(level))),
        _ => (operation, None),
    };
    let (n, m) = (100 + 2 * number, 101 + 2 * number);
    let text = match kind {
        "read" => "SELECT v FROM k.t WHERE p = 1 AND c = 1".to_owned(),
        "read of a range" => "SELECT v FROM k.r".to_owned(),
        "read of a counter" => "SELECT n FROM k.n WHERE p = 1".to_owned(),
        "read with too many tombstones" => "SELECT v FROM k.t WHERE p = 9".to_owned(),
        "insert" => insert(1, n),
        "delete of a range" => format!("DELETE FROM k.t WHERE p = 3 AND c > {n}"),
        "counter" => count(n),
        "logged batch, one partition" => batch("", insert(1, n), insert(1, m)),
        "logged batch, two partitions" => batch("", insert(n, 1), insert(m, 1)),
        "unlogged batch, one partition" => batch("UNLOGGED ", insert(1, n), insert(1, m)),
        "unlogged batch, two partitions" => batch("UNLOGGED ", insert(n, 1), insert(m, 1)),
        "counter batch" => batch("COUNTER ", count(n), count(m)),
        "conditional insert" => format!("{} IF NOT EXISTS", insert(n, 1)),
        "conditional batch" => batch(
            "",
            format!("{} IF NOT EXISTS", insert(n, 1)),
            format!("{} IF NOT EXISTS", insert(n, 2)),
        ),
        "truncate" => "TRUNCATE k.e".to_owned(),
        "create table" => format!("CREATE TABLE k.d{number} (p int PRIMARY KEY)"),
        other => panic!("{other}"),
    };
    (text, serial)
}

/// An answer as the file has it.
fn told(response: Response) -> Value {
    let Response::Error(ErrorResponse { kind, message }) = response else {
        return json!({"answer": "result"});
    };
    let code = format!("0x{:04x}", kind.code());
    let mut fields = match kind {
        ErrorKind::Unavailable { consistency, required, alive } => json!({
            "answer": "unavailable", "cl": consistency.to_string(), "required": required, "alive": alive,
        }),
        ErrorKind::WriteTimeout { consistency, received, required, write_type, .. } => json!({
            "answer": "write timeout", "cl": consistency.to_string(), "received": received,
            "blockFor": required, "writeType": write_type.name(),
        }),
        ErrorKind::ReadTimeout { consistency, received, required, data_present } => json!({
            "answer": "read timeout", "cl": consistency.to_string(), "received": received,
            "blockFor": required, "dataPresent": i32::from(data_present),
        }),
        ErrorKind::Truncate => json!({"answer": "truncate"}),
        ErrorKind::Invalid => json!({"answer": "invalid"}),
        other => json!({"answer": format!("{other:?}")}),
    };
    fields["code"] = json!(code);
    fields["text"] = json!(message);
    fields
}

fn define(cluster: &Cluster) {
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "k");
    for text in [
        "CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))",
        "CREATE TABLE k.n (p int PRIMARY KEY, n counter)",
        "CREATE TABLE k.r (p int PRIMARY KEY, v text)",
        "CREATE TABLE k.e (p int PRIMARY KEY, v text)",
        "INSERT INTO k.t (p, c, v) VALUES (1, 1, 'v')",
        "INSERT INTO k.r (p, v) VALUES (1, 'v')",
        "UPDATE k.n SET n = n + 1 WHERE p = 1",
    ] {
        tell(&mut client, text);
    }
    for row in 0..150 {
        tell(&mut client, &format!("DELETE FROM k.t WHERE p = 9 AND c = {row}"));
    }
}

/// Waits until a node takes so many for alive.
pub(crate) fn wait_for_alive(client: &mut Client, table: &str, wanted: i32) {
    let look = || match ask(
        client,
        &format!("SELECT * FROM {table} LIMIT 1"),
        &Execution::at(Consistency::All),
    ) {
        Ok(Ok(_)) => (wanted == 3).then_some(()),
        Ok(Err(ErrorResponse { kind: ErrorKind::Unavailable { alive, .. }, .. })) => {
            (alive == wanted).then_some(())
        }
        Ok(Err(_)) => None,
        Err(error) => panic!("{error}"),
    };
    eventually(&format!("{wanted} are alive"), SOON, look).unwrap();
}

#[test]
fn nodes_that_are_down_are_told_of_as_by_cassandra() {
    let golden = Golden::new();
    let mut cluster = three_with(&[]);
    define(&cluster);
    let mut client = Client::connect_with(cluster.address(1), Version::V4).unwrap();
    let (mut number, mut compared_count) = (0, 0);
    let mut used = BTreeMap::new();
    let mut faults = Vec::new();
    for (state, alive) in [("all up", 3), ("1 down", 2), ("2 down", 1)] {
        if alive < 3 {
            cluster.kill(alive + 1).unwrap();
            wait_for_alive(&mut client, "k.r", alive as i32);
        }
        for answer in golden.of_state(state) {
            let (operation, level) =
                (answer["operation"].as_str().unwrap(), answer["level"].as_str().unwrap());
            number += 1;
            let (text, serial_consistency) = statement(operation, number);
            let execution = Execution {
                consistency: Some(level_of(level)),
                serial_consistency,
                ..Execution::default()
            };
            let ours = told(client.query(&text, &execution).unwrap().response);
            let (expected, line) = expected(&golden, answer);
            if let Some(line) = line {
                *used.entry(line).or_insert(0) += usize::from(expected != compared(answer));
            }
            if ours != expected {
                faults.push(format!(
                    "{state}, {operation}, {level}:\n  got      {ours}\n  expected {expected}"
                ));
            }
            compared_count += 1;
        }
    }
    assert!(faults.is_empty(), "{} of {compared_count}\n{}", faults.len(), faults.join("\n"));
    println!("{compared_count} answers compared");
    assert!(compared_count > 400);
    for line in 0..DIFFERENCES.len() {
        assert!(used.get(&line).is_some_and(|count| *count > 0), "line {line} makes no difference");
    }
}

/// So long requests are tried: less than a node that says nothing is taken for alive.
const SHORT_TIMEOUTS: [&str; 5] = [
    "timeouts.read=500ms",
    "timeouts.range=500ms",
    "timeouts.write=500ms",
    "timeouts.counter_write=500ms",
    "timeouts.cas=500ms",
];

/// Of a timeout everything but how many had answered, which hangs on speed. What is told of counters and of the log of batches is in
/// COMPAT.md.
fn without_count(mut answer: Value) -> Value {
    for name in ["received", "text", "dataPresent"] {
        answer.as_object_mut().unwrap().remove(name);
    }
    answer
}

/// Two are paused and still taken for alive: nobody can know what becomes of a request, and its timeout says what it waited for.
#[test]
fn timeouts_say_what_they_waited_for_as_by_cassandra() {
    let golden = Golden::new();
    // What is defined first may take longer.
    let mut cluster = three_with(&[]);
    define(&cluster);
    cluster.stop_all().unwrap();
    for node in 1..=3 {
        let settings = SHORT_TIMEOUTS.map(str::to_owned).to_vec();
        cluster.set_start(node, Start { settings, ..Start::default() }).unwrap();
    }
    cluster.restart_all().unwrap();
    let is_compared = |answer: &&Value| {
        let (operation, level) = (answer["operation"].as_str().unwrap(), &answer["level"]);
        let is_alike = !operation.contains("counter batch")
            && operation != "counter"
            && !operation.contains("tombstones");
        is_alike && level != "THREE" && answer["answer"].as_str().unwrap().ends_with("timeout")
    };
    let compared_answers: Vec<&Value> = golden.of_state("2 paused").filter(is_compared).collect();
    assert!(compared_answers.len() > 50);
    let connect = || Client::connect_with(cluster.address(1), Version::V4).unwrap();
    let mut clients: Vec<Client> = compared_answers.iter().map(|_| connect()).collect();
    let mut probe = cluster.client(1).unwrap();
    wait_for_alive(&mut probe, "k.r", 3);
    // A machine that is busy for too long has the paused nodes taken for dead; then they go on, and it is tried again.
    for round in 0..10 {
        cluster.pause(2).unwrap();
        cluster.pause(3).unwrap();
        for (place, (answer, client)) in compared_answers.iter().zip(&mut clients).enumerate() {
            let number = 1_000 * (round + 1) + place;
            let (text, serial_consistency) =
                statement(answer["operation"].as_str().unwrap(), number);
            let consistency = Some(level_of(answer["level"].as_str().unwrap()));
            let execution = Execution { consistency, serial_consistency, ..Execution::default() };
            client.post(&text, &execution).unwrap();
        }
        let told: Vec<Value> =
            clients.iter_mut().map(|client| told(client.answer().unwrap().response)).collect();
        cluster.resume(2).unwrap();
        cluster.resume(3).unwrap();
        wait_for_alive(&mut probe, "k.r", 3);
        if told.iter().any(|ours| ours["answer"] == "unavailable") {
            continue;
        }
        for (answer, ours) in compared_answers.iter().zip(told) {
            let what = format!("{}, {}", answer["operation"], answer["level"]);
            assert_eq!(ours["text"], "Operation timed out - received only 0 responses.", "{what}");
            assert_eq!(ours["received"], 0, "{what}");
            let mut expected = without_count(compared(answer));
            if LOGGED.contains(&answer["operation"].as_str().unwrap()) {
                // Its log of batches always asks for TWO there; here the batch's own level is asked for from the start.
                expected["cl"] = ours["cl"].clone();
                expected["blockFor"] = ours["blockFor"].clone();
            }
            assert_eq!(without_count(ours), expected, "{what}");
        }
        println!("{} timeouts compared in round {round}", compared_answers.len());
        return;
    }
    panic!("the paused nodes were taken for dead every time");
}
