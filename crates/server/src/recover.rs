//! `helenus recover`, for people: what is left of sets that lost their quorum, and that they go on with it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use replica::group::{SYSTEM_SET, SetRecovery};
use serde_json::{Value, json};
use types::{NodeId, SetId};

use crate::admin::{self, Question};
use crate::node::Node;
use crate::nodes::recovery::Recovered;
use crate::sets::table;
use crate::{fail, say, world};

/// So often it is looked whether the sets go on.
const WATCHED_EVERY: Duration = Duration::from_millis(200);
/// So long the nodes may take to start again and to agree.
const DONE_WITHIN: Duration = Duration::from_secs(120);

/// What the node answers.
pub(crate) fn answer(node: &Node, lost: &[u64], is_unsafe: bool) -> Value {
    let Some(cluster) = &node.cluster else {
        return json!({ "error": "this node runs alone: what is not on its disk is nowhere" });
    };
    let placed = node.catalog.placed_sets();
    let mut sets: Vec<SetId> = placed.into_iter().map(|(set, _, _)| set).collect();
    sets.push(SYSTEM_SET);
    let lost: Vec<NodeId> = lost.iter().copied().map(NodeId).collect();
    match cluster.nodes.recover(&lost, is_unsafe, &sets) {
        Ok(recovered) => describe(&recovered, is_unsafe),
        Err(error) => json!({ "error": error }),
    }
}

fn describe(recovered: &Recovered, is_done: bool) -> Value {
    let set = |it: &SetRecovery| {
        let left: Vec<Value> = it
            .left
            .iter()
            .map(|(node, last)| json!({ "node": node.0, "term": last.term, "last_index": last.index }))
            .collect();
        json!({
            "set": it.set.0,
            "is_system": it.set == SYSTEM_SET,
            "voters": it.voters,
            "quorum": it.quorum,
            "left": left,
            "goes_on_with": it.chosen.0,
            "last_index": it.last.index,
            "may_lose": it.may_lose,
        })
    };
    json!({
        "lost": recovered.lost.iter().map(|node| node.0).collect::<Vec<_>>(),
        "sets": recovered.plan.sets.iter().map(set).collect::<Vec<_>>(),
        "healthy": recovered.plan.healthy,
        "done": is_done,
    })
}

/// A number of an answer, for people.
pub(crate) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// What becomes of every set, a line each.
fn lines(answer: &Value) -> String {
    let list = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let lost: Vec<String> = list(answer, "lost").iter().map(Value::to_string).collect();
    let row = |set: &Value| {
        let left = list(set, "left");
        let left: Vec<String> = left
            .iter()
            .map(|it| format!("node {} (entry {})", number(it, "node"), number(it, "last_index")))
            .collect();
        let may_lose = set.get("may_lose").and_then(Value::as_bool).unwrap_or(true);
        json!({
            "set": number(set, "set"),
            "needed": format!("{} of {}", number(set, "quorum"), number(set, "voters")),
            "left": left.join(", "),
            "goes_on_with": format!("node {}", number(set, "goes_on_with")),
            "acknowledged_writes": if may_lose { "the last ones may be lost" } else { "all are there" },
        })
    };
    let rows: Vec<Value> = list(answer, "sets").iter().map(row).collect();
    let columns = ["set", "needed", "left", "goes_on_with", "acknowledged_writes"];
    let mut out = format!("lost for good: node {}\n{}", lost.join(", "), table(&rows, &columns));
    let healthy = number(answer, "healthy");
    if healthy > 0 {
        out.push_str(&format!("{healthy} sets have a quorum, and are left as they are\n"));
    }
    out
}

/// Asks the running node; where something was done, waits until the sets go on.
pub(crate) fn run(data_dir: &Path, question: &Question, is_json: bool) -> ExitCode {
    let answer = match admin::ask(data_dir, question) {
        Ok(answer) => answer,
        Err(error) => return fail(&error),
    };
    let is_done = answer.get("done").and_then(Value::as_bool).unwrap_or(false);
    if !is_json {
        say(&lines(&answer));
    }
    let lost = answer.get("lost").and_then(Value::as_array).cloned().unwrap_or_default();
    if !is_done {
        let lost: Vec<String> = lost.iter().map(Value::to_string).collect();
        return match is_json {
            true => say(&format!("{answer}\n")),
            false => say(&format!(
                "\nNothing was changed. If they will never come back, have the sets go on without them:\n  helenus recover --unsafe --lost {}\n",
                lost.join(",")
            )),
        };
    }
    let begun = world::now();
    loop {
        std::thread::sleep(WATCHED_EVERY);
        let nodes = admin::ask(data_dir, &Question::Nodes).ok();
        let rows = nodes.as_ref().and_then(|it| it.get("nodes")).and_then(Value::as_array);
        let is_gone = |rows: &Vec<Value>| {
            rows.iter().all(|row| row.get("node").is_none_or(|node| !lost.contains(node)))
        };
        if rows.is_some_and(is_gone) && goes_on(data_dir) {
            break;
        }
        if world::now().saturating_duration_since(begun) > DONE_WITHIN {
            return fail(
                &"the nodes do not go on yet; `helenus nodes` and `helenus set` show how far they are",
            );
        }
    }
    match is_json {
        true => say(&format!("{answer}\n")),
        false => say(
            "The sets go on. The lost nodes are removed; `helenus token` lets new ones join, and they get their part by themselves.\n",
        ),
    }
}

/// Whether every set with a member on the node has a leader.
fn goes_on(data_dir: &Path) -> bool {
    let Ok(answer) = admin::ask(data_dir, &Question::Sets(None)) else { return false };
    let rows = answer.get("replicas").and_then(Value::as_array);
    let is_led = |row: &Value| row.get("leader").is_some_and(Value::is_u64);
    rows.is_some_and(|rows| rows.iter().all(is_led))
}
