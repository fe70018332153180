//! `helenus skip`, for people: a set that froze because its members differ goes on with the rows of one of them.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use replica::group::SkipPlan;
use serde_json::{Value, json};
use types::{NodeId, SetId};

use crate::admin::{self, Question};
use crate::node::Node;
use crate::recover::number;
use crate::sets::{ALONE, table};
use crate::{fail, say, world};

/// So often it is looked whether the set goes on.
const WATCHED_EVERY: Duration = Duration::from_millis(200);
/// So long it may take until it is led: whoever is to lead may have to get a part of the log first.
const LED_WITHIN: Duration = Duration::from_secs(60);

/// What an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedSkip {
    pub(crate) set: u32,
    /// The entry at which it froze.
    pub(crate) index: u64,
    /// The node whose rows count.
    pub(crate) kept: u64,
    pub(crate) is_unsafe: bool,
}

/// What the node answers.
pub(crate) fn answer(node: &Node, asked: AskedSkip) -> Value {
    let Some(cluster) = &node.cluster else { return json!({ "error": ALONE }) };
    let (set, kept) = (SetId(asked.set), NodeId(asked.kept));
    match cluster.nodes.skip((set, asked.index), kept, asked.is_unsafe) {
        Err(error) => json!({ "error": error }),
        Ok(plan) => {
            if asked.is_unsafe {
                let steward = cluster.steward(&node.catalog, node.world.host_number());
                steward.tell_skip(set, asked.index, kept);
            }
            describe(&plan, kept, asked.is_unsafe)
        }
    }
}

fn describe(plan: &SkipPlan, kept: NodeId, is_done: bool) -> Value {
    let row = |it: &replica::group::Skipped| {
        json!({
            "node": it.node.0,
            "last_index": it.last.index,
            "applied": it.applied,
            "rows": if it.is_kept { "count" } else { "do not count: replaced" },
        })
    };
    json!({
        "set": plan.skip.set.0,
        "index": plan.skip.index,
        "keep": kept.0,
        "members": plan.members.iter().map(row).collect::<Vec<_>>(),
        "silent": plan.silent.iter().map(|it| it.0).collect::<Vec<_>>(),
        "done": is_done,
    })
}

fn lines(answer: &Value) -> String {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let columns = ["node", "last_index", "applied", "rows"];
    let mut out = format!(
        "set {} froze at entry {}: its members differ, and no majority tells who is right\n{}",
        number(answer, "set"),
        number(answer, "index"),
        table(&list("members"), &columns)
    );
    for node in list("silent") {
        out.push_str(&format!(
            "node {node} does not answer: its member is replaced when it is back; then ask this again\n"
        ));
    }
    out
}

/// Asks the running node; where something was done, waits until the set goes on.
pub(crate) fn run(data_dir: &Path, asked: AskedSkip, is_json: bool) -> ExitCode {
    let answer = match admin::ask(data_dir, &Question::Skip(asked)) {
        Ok(answer) => answer,
        Err(error) => return fail(&error),
    };
    if !is_json {
        say(&lines(&answer));
    }
    let AskedSkip { set, index, kept, is_unsafe } = asked;
    if !is_unsafe {
        return match is_json {
            true => say(&format!("{answer}\n")),
            false => say(&format!(
                "\nNothing was changed. What was acknowledged and node {kept} has wrong stays wrong, and what only the others had right is lost. If the rows of node {kept} are to count:\n  helenus skip {set} {index} --keep {kept} --unsafe\n"
            )),
        };
    }
    let begun = world::now();
    while !is_led_by(data_dir, set, kept) {
        if world::now().saturating_duration_since(begun) > LED_WITHIN {
            return fail(&format!(
                "node {kept} does not lead set {set} yet; `helenus set {set}` shows how far it is"
            ));
        }
        std::thread::sleep(WATCHED_EVERY);
    }
    match is_json {
        true => say(&format!("{answer}\n")),
        false => say(&format!(
            "Set {set} goes on with the rows of node {kept}. The others' members are replaced one after the other; `helenus set {set}` and `helenus nodes` show how far that is.\n"
        )),
    }
}

/// Whether a set is led by whom it is to be led by, or by a member that got its rows.
fn is_led_by(data_dir: &Path, set: u32, kept: u64) -> bool {
    let Ok(answer) = admin::ask(data_dir, &Question::Sets(Some(set))) else { return false };
    let rows = answer.get("replicas").and_then(Value::as_array);
    let leads = |row: &Value| {
        let is_frozen = row.get("frozen").is_some_and(Value::is_string);
        row.get("role").and_then(Value::as_str) == Some("leader") && !is_frozen
    };
    let is_free =
        |row: &Value| number(row, "node") != kept || row.get("frozen").is_none_or(Value::is_null);
    rows.is_some_and(|rows| rows.iter().any(leads) && rows.iter().all(is_free))
}
