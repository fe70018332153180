//! Statements whose answers were recorded from Apache Cassandra (`golden/record.py`): the same
//! refusals in the same words, the same result columns, the same metadata of markers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use plan::{NoValues, PlanError, SessionContext, prepare};
use support::{Uuids, World, context};

/// Where we answer, and Cassandra fails by accident or gives back nonsense.
const BETTER: &[&str] = &[
    // A cast of Java that fails.
    "prepare SELECT writetime(m[?]) FROM coll",
    "UPDATE coll SET u = ('a', 1) WHERE k = 1",
    "UPDATE coll SET u = (null, null) WHERE k = 1",
    "UPDATE coll SET fu = ('a', 1) WHERE k = 1",
    "UPDATE coll SET fu = (null, null) WHERE k = 1",
    "UPDATE one SET v = 1 WHERE k = 1 IF v.x = 1",
    // The write times out.
    "DELETE FROM wide WHERE k = 1 AND c > null",
    // A vector of two elements where three are announced.
    "SELECT (vector<int, 3>)[v, k] FROM one",
    // Which name is shown depends on which was called first.
    "SELECT to_json(v) FROM one",
    // The number does not survive a check of Java's doubles.
    "SELECT * FROM typed WHERE f = 1e400 ALLOW FILTERING",
];

/// Lists of overloads come in the order of a Java hash table.
fn sorted_signatures(text: &str) -> String {
    let Some((head, rest)) = text.split_once("signatures: ") else { return text.to_string() };
    let (list, tail) = rest.rsplit_once(')').unwrap();
    let mut signatures: Vec<&str> = list.split(", system.").collect();
    if let Some(first) = signatures.first_mut() {
        *first = first.trim_start_matches("system.");
    }
    signatures.sort_unstable();
    format!("{head}signatures: {}){tail}", signatures.join(", "))
}

struct Case {
    line: String,
    answers: Vec<String>,
}

fn read(path: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        match line.strip_prefix("    ") {
            Some(answer) => cases.last_mut().unwrap().answers.push(answer.to_string()),
            None => cases.push(Case { line: line.to_string(), answers: Vec::new() }),
        }
    }
    cases
}

fn thaw(text: &str) -> String {
    let mut text = text.to_string();
    while let Some(start) = text.find("frozen<") {
        let mut depth = 0;
        let open = start + "frozen".len();
        let close = text[open..]
            .char_indices()
            .find(|(_, c)| {
                depth += match c {
                    '<' => 1,
                    '>' => -1,
                    _ => 0,
                };
                depth == 0
            })
            .map(|(index, _)| open + index)
            .unwrap();
        text = format!("{}{}{}", &text[..start], &text[open + 1..close], &text[close + 1..]);
    }
    text
}

fn error_line(error: &PlanError) -> String {
    let code = match error {
        PlanError::Syntax(_) => 2000,
        PlanError::Invalid(_) => 2200,
        PlanError::Unauthorized(_) => 2100,
        PlanError::Configuration(_) => 2300,
        PlanError::AlreadyExists { .. } => 2400,
        PlanError::FunctionFailure { .. } => 1400,
    };
    format!("error {code} {error}")
}

fn answer(world: &World, line: &str) -> Vec<String> {
    let (text, only_prepare) = match line.strip_prefix("prepare ") {
        Some(text) => (text, true),
        None => (line, false),
    };
    let parsed = match cql::parse(text) {
        Ok(parsed) => parsed,
        Err(cql::SyntaxError::Grammar(message)) => return vec![format!("error 2000 {message}")],
        Err(cql::SyntaxError::Invalid(message)) => return vec![format!("error 2200 {message}")],
    };
    let session = SessionContext { keyspace: Some("golden") };
    let prepared = match prepare(&parsed, text, &world.schema, &session) {
        Ok(prepared) => prepared,
        Err(error) => return vec![error_line(&error)],
    };
    let columns: Vec<String> = prepared
        .result_columns
        .iter()
        .map(|column| format!("{} {}", column.name, thaw(&column.cql_type.to_string())))
        .collect();
    let columns = format!("columns {}", columns.join("; "));
    if only_prepare {
        let markers: Vec<String> = prepared
            .bind_variables
            .iter()
            .map(|variable| format!("{} {}", variable.name, thaw(&variable.cql_type.to_string())))
            .collect();
        let keys: Vec<String> =
            prepared.partition_key_indices.iter().map(ToString::to_string).collect();
        return vec![
            format!("markers {}", markers.join("; ")),
            format!("key {}", keys.join(" ")),
            columns,
        ];
    }
    let uuids = Uuids::default();
    let context = context(&uuids);
    match prepared.bind(&NoValues, &context) {
        Ok(plan) => match refusal(&plan) {
            Some(reason) => vec![format!("error 2200 {reason}")],
            None => vec![columns],
        },
        Err(error) => vec![error_line(&error)],
    }
}

/// What is wrong with a value of a conditional write is told when it is come to: it stands in the
/// plan.
fn refusal(plan: &plan::Plan<'_>) -> Option<String> {
    let mutations = match plan {
        plan::Plan::Modify(modify) => &modify.mutations,
        plan::Plan::Batch(batch) => &batch.mutations,
        _ => return None,
    };
    let conditions = mutations.iter().filter_map(|mutation| mutation.condition.as_ref());
    conditions.flat_map(|condition| &condition.rows).flat_map(|row| &row.checks).find_map(|check| {
        match check {
            types::Check::Refused(reason) => Some(reason.clone()),
            _ => None,
        }
    })
}

fn check(name: &str) {
    let path = format!("{}/tests/golden/{name}.golden", env!("CARGO_MANIFEST_DIR"));
    let mut world = World::new("golden");
    let (mut count, mut failures) = (0, Vec::new());
    for case in read(&path) {
        if let Some(definition) = case.line.strip_prefix("ddl ") {
            world.define(definition);
            continue;
        }
        if BETTER.contains(&case.line.as_str()) {
            continue;
        }
        count += 1;
        let ours = answer(&world, &case.line);
        // The columns of conditional writes are known only when they are run.
        let expected: Vec<String> = case
            .answers
            .iter()
            .map(|answer| if answer.starts_with("columns [applied]") { "columns " } else { answer })
            .map(|answer| sorted_signatures(answer.trim_end()))
            .collect();
        let ours: Vec<String> =
            ours.iter().map(|answer| sorted_signatures(answer.trim_end())).collect();
        if ours != expected {
            failures
                .push(format!("{}\n  Cassandra {expected:#?}\n  we        {ours:#?}", case.line));
        }
    }
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn selects() {
    check("select");
}

#[test]
fn restrictions() {
    check("restriction");
}

#[test]
fn writes() {
    check("write");
}

#[test]
fn preparation() {
    check("prepare");
}
