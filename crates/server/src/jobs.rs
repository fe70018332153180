//! `helenus drain`, `decommission` and `remove`: each is checked, then is a job that all nodes know of, which is watched until it ends.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use partition::decide::NodeState;
use serde_json::{Value, json};
use storage::DataDir;
use types::NodeId;

use crate::admin::{self, Question};
use crate::membership::{Membership, state_name};
use crate::node::Node;
use crate::nodes::{Job, JournalEvent, NodeOrder, Ordered};
use crate::sets::ALONE;
use crate::{fail, say, world};

/// So often it is looked how far something is.
const WATCHED_EVERY: Duration = Duration::from_millis(200);
/// So long a node may take to stop that left.
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// How the outcome of a command is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    /// As JSON, a line for each change.
    pub(crate) json: bool,
    /// Until the job ended.
    pub(crate) waits: bool,
}

/// A job, for those who ask.
pub(crate) fn describe_job(job: &Job) -> Value {
    json!({
        "id": job.id,
        "kind": job.kind.name(),
        "node": job.node.map(|it| it.0),
        "set": job.set.map(|it| it.0),
        "state": job.state.name(),
        "what": job.what,
        "reason": job.reason,
        "progress": job.progress,
        "remaining": job.remaining,
        "total": job.total,
        "started_ms": job.started_ms,
        "updated_ms": job.updated_ms,
    })
}

/// An event, for those who ask.
pub(crate) fn describe_event(event: &JournalEvent) -> Value {
    json!({
        "number": event.number,
        "at_ms": event.at_ms,
        "kind": event.kind.name(),
        "job": event.job,
        "node": event.node.map(|it| it.0),
        "set": event.set.map(|it| it.0),
        "what": event.what,
        "reason": event.reason,
    })
}

/// The node is asked for something.
pub(crate) fn take_order(node: &Node, order: NodeOrder) -> Value {
    let Some(cluster) = &node.cluster else { return json!({ "error": ALONE }) };
    let steward = cluster.steward(&node.catalog, node.world.host_number());
    match steward.order(order) {
        Ok(Ordered { state, job }) => json!({
            "node": cluster.nodes.own().0,
            "state": state_name(state),
            "job": job.as_ref().map(describe_job),
        }),
        Err(error) => json!({ "error": error }),
    }
}

/// A node that will not come back is removed.
pub(crate) fn remove_node(node: &Node, other: u64) -> Value {
    let Some(cluster) = &node.cluster else { return json!({ "error": ALONE }) };
    let steward = cluster.steward(&node.catalog, node.world.host_number());
    match steward.remove(NodeId(other)) {
        Ok(job) => {
            json!({ "node": other, "state": "removed", "job": job.as_ref().map(describe_job) })
        }
        Err(error) => json!({ "error": error }),
    }
}

/// How far a job is.
pub(crate) fn tell_job(node: &Node, id: u64) -> Value {
    let Some(cluster) = &node.cluster else { return json!({ "error": ALONE }) };
    let steward = cluster.steward(&node.catalog, node.world.host_number());
    match steward.job(id) {
        // A node that left does not hear what becomes of its job.
        Some(_) if cluster.nodes.is_removed() => json!({ "has_left": true }),
        Some(job) => json!({ "job": describe_job(&job) }),
        None => json!({ "error": format!("there is no job {id} any more") }),
    }
}

/// Asks the running node for something, and tells how far it is until it ended.
pub(crate) fn order(data_dir: &Path, question: &Question, manner: Manner) -> ExitCode {
    let answer = match admin::ask(data_dir, question) {
        Ok(answer) => answer,
        Err(error) => return fail(&error),
    };
    let node = answer.get("node").and_then(Value::as_u64).unwrap_or(0);
    let job = answer.get("job").filter(|job| job.is_object());
    let id = job.and_then(|job| job.get("id")).and_then(Value::as_u64);
    let cancel = match question {
        Question::Order(NodeOrder::Drain) => "`helenus drain --cancel` ends it",
        Question::Order(NodeOrder::Leave) => "`helenus decommission --cancel` ends it",
        Question::Remove(_) => "the node is removed, which cannot be taken back",
        _ if manner.json => return say(&format!("{answer}\n")),
        _ => return say(&cancelled(node, job)),
    };
    let (Some(id), Some(job), true) = (id, job, manner.waits) else {
        return say(&match (manner.json, job) {
            (true, _) => format!("{answer}\n"),
            (false, Some(job)) => format!(
                "job {}: {}; `helenus nodes` shows how far it is, {cancel}\n",
                id.unwrap_or(0),
                text(job, "what")
            ),
            (false, None) => format!(
                "node {node} is {}; `helenus nodes` shows how far it is, {cancel}\n",
                text(&answer, "state")
            ),
        });
    };
    if !manner.json {
        say(&format!("job {id}: {}; Ctrl-C leaves it running, {cancel}\n", text(job, "what")));
    }
    watch(data_dir, job.clone(), (id, node), manner)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

fn cancelled(node: u64, job: Option<&Value>) -> String {
    match job {
        Some(job) if text(job, "state") == "cancelled" => {
            let id = job.get("id").and_then(Value::as_u64).unwrap_or(0);
            format!("job {id} is cancelled; node {node} is up\n")
        }
        // A drain that is done is not cancelled: it is over.
        _ => format!("node {node} is up\n"),
    }
}

/// Tells how far a job is, until it ended.
fn watch(data_dir: &Path, mut job: Value, (id, node): (u64, u64), manner: Manner) -> ExitCode {
    let is_decommission = text(&job, "kind") == "decommission";
    let mut last = String::new();
    loop {
        let line = match manner.json {
            true => format!("{job}\n"),
            false => format!("node {node}: {}\n", text(&job, "progress")),
        };
        if line != last {
            say(&line);
            last = line;
        }
        match text(&job, "state") {
            "running" => {}
            "done" => return say(&ended(&job, node, manner)),
            state => return fail(&format!("job {id} {state}: {}", text(&job, "progress"))),
        }
        std::thread::sleep(WATCHED_EVERY);
        match admin::ask(data_dir, &Question::Job(id)) {
            Ok(answer) if answer.get("has_left").is_some() => {}
            Ok(answer) => job = answer.get("job").cloned().unwrap_or_default(),
            Err(error) if !is_decommission => return fail(&error),
            Err(error) => {
                // The node stopped: because it left, or for another reason.
                if let Err(why) = has_left(data_dir) {
                    return fail(&format!(
                        "job {id} runs, and cannot be watched here: {error}{why}"
                    ));
                }
                if let Some(job) = job.as_object_mut() {
                    job.insert("state".to_owned(), json!("done"));
                    job.insert("remaining".to_owned(), json!(0));
                    job.insert("progress".to_owned(), json!("it holds nothing any more"));
                }
            }
        }
    }
}

/// Whether the node of a folder left its cluster, as the folder says when the node has stopped.
fn has_left(data_dir: &Path) -> Result<(), String> {
    let begun = world::now();
    loop {
        match DataDir::lock_existing(data_dir) {
            Ok(folder) => {
                let kept = Membership::load(&folder).ok().flatten();
                let state = kept.as_ref().and_then(Membership::own).map(|own| own.state);
                return match state {
                    Some(NodeState::Removed) => Ok(()),
                    _ => Err("; it goes on when the node is started again".to_owned()),
                };
            }
            Err(_) if world::now().duration_since(begun) < STOPS_WITHIN => {
                std::thread::sleep(WATCHED_EVERY);
            }
            Err(error) => return Err(format!("; {error}")),
        }
    }
}

fn ended(job: &Value, node: u64, manner: Manner) -> String {
    match (manner.json, text(job, "kind")) {
        (true, _) => String::new(),
        (_, "drain") => format!(
            "node {node} is drained and can be stopped; `helenus drain --cancel` has it lead again\n"
        ),
        (_, "decommission") => format!("node {node} left the cluster and stopped\n"),
        (_, "remove") => format!("node {node} is removed, and what it held is elsewhere\n"),
        (_, _) => String::new(),
    }
}
