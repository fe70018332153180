//! `helenus set` and `helenus nodes`: the replica sets and the nodes of a cluster, whichever of them is asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use replica::group::SYSTEM_SET;
use serde_json::{Value, json};
use types::NodeId;

use crate::admin::{self, Question};
use crate::cluster_node::ClusterNode;
use crate::jobs::{describe_event, describe_job};
use crate::membership::state_name;
use crate::node::Node;
use crate::nodes::{Journal, NodeFacts};
use crate::{fail, say, world};

/// So many events are shown to people.
const LINES_SHOWN: usize = 8;
/// So many events are shown; `system_helenus.events` has more.
const EVENTS_SHOWN: usize = 20;
/// So often it is looked how far something is.
const WATCHED_EVERY: Duration = Duration::from_millis(200);
/// So long a node may take to become the first of a cluster.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// What a node that runs alone says.
pub(crate) const ALONE: &str = "this node runs alone: its replica sets have one member, which is here. `helenus token` makes it the first of a cluster, and `helenus demo` runs one";

/// The members of a set, or of all, as all nodes tell of them.
pub(crate) fn list_sets(node: &Node, wanted: Option<u32>) -> Value {
    let Some(cluster) = &node.cluster else { return json!({ "error": ALONE }) };
    let spaces = node.catalog.physical_partitions(node.world.host_number());
    let spaces: BTreeMap<u64, String> =
        spaces.into_iter().map(|it| (it.id.into(), it.space)).collect();
    let told = cluster.gatherer(&node.catalog).tell("replicas");
    let mut rows = Vec::new();
    for mut row in told.rows {
        let set = row.remove("set_id").and_then(|set| set.as_u64()).unwrap_or_default();
        if wanted.is_some_and(|wanted| u64::from(wanted) != set) {
            continue;
        }
        let space = spaces.get(&set).map_or("(schema, map and roles)", String::as_str);
        row.insert("set".to_owned(), json!(set));
        row.insert("space".to_owned(), json!(space));
        rows.push(Value::Object(row));
    }
    match (rows.is_empty(), wanted) {
        (true, Some(set)) => {
            let missing = told.missing.iter().map(|why| format!("; {why}"));
            let missing = missing.collect::<String>();
            json!({ "error": format!("no node has a member of set {set}{missing}") })
        }
        _ => json!({ "replicas": rows, "missing": told.missing }),
    }
}

/// The nodes.
pub(crate) fn list_nodes(node: &Node) -> Value {
    let Some(cluster) = &node.cluster else { return json!({ "error": ALONE }) };
    let steward = cluster.steward(&node.catalog, node.world.host_number());
    // The nodes are told of in any case.
    let (journal, missing) = match cluster.nodes.journal() {
        Ok(journal) => (journal, Vec::new()),
        Err(error) => (Journal::default(), vec![error]),
    };
    let running = journal.jobs.iter().filter(|job| job.is_running());
    let events = journal.events.iter().rev().take(EVENTS_SHOWN).rev();
    json!({
        "nodes": nodes(cluster, &node.catalog.member_counts()),
        "moving": steward.moving().iter().map(|set| set.0).collect::<Vec<_>>(),
        "waiting": steward.waits_for(),
        "jobs": running.map(describe_job).collect::<Vec<_>>(),
        "events": events.map(describe_event).collect::<Vec<_>>(),
        "missing": missing,
    })
}

/// A token for a node that is to join.
pub(crate) fn make_token(node: &Node) -> Value {
    let Some(cluster) = &node.cluster else {
        // It is the first of a cluster from now on: it starts again as that, in place.
        return match node.begin_cluster() {
            Ok(()) => json!({ "again": true }),
            Err(error) => json!({ "error": error.to_string() }),
        };
    };
    let membership = cluster.nodes.membership();
    let mesh = membership.own().map(|own| own.mesh.to_string());
    match cluster.nodes.token() {
        Ok(token) => json!({ "token": token.to_string(), "join": mesh }),
        Err(error) => json!({ "error": error }),
    }
}

/// Asks the running node for a token, and prints it. A node that ran alone starts again for that.
pub(crate) fn show_token(data_dir: &Path, is_json: bool) -> ExitCode {
    let mut answer = match admin::ask(data_dir, &Question::Token) {
        Ok(answer) => answer,
        Err(error) => return fail(&error),
    };
    if answer.get("again").is_some() {
        if !is_json {
            say("this node ran alone; it starts again, in place, as the first of a cluster\n");
        }
        let begun = world::now();
        loop {
            std::thread::sleep(WATCHED_EVERY);
            match admin::ask(data_dir, &Question::Token) {
                Ok(next) if next.get("token").is_some() => {
                    answer = next;
                    break;
                }
                Err(error) if world::now().duration_since(begun) > BEGINS_WITHIN => {
                    return fail(&error);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    if is_json {
        return say(&format!("{answer}\n"));
    }
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or("");
    say(&format!(
        "{}\n\nIt counts for one node, for an hour. On the other machine:\n  helenus start --join {} --token TOKEN --listen ADDR:9042 --data-dir DIR\n",
        text("token"),
        text("join")
    ))
}

fn nodes(cluster: &ClusterNode, members: &BTreeMap<NodeId, usize>) -> Vec<Value> {
    let told = cluster.groups.told();
    let links = cluster.links();
    let membership = cluster.nodes.membership();
    let own = membership.own;
    let heard: BTreeMap<NodeId, NodeFacts> = cluster.nodes.heard_facts().into_iter().collect();
    let facts = |node| heard.get(&node);
    // This node knows what it leads; others told it a moment ago.
    let leads = |node| match node == own {
        true => told.members.iter().filter(|member| member.leader == Some(node)).count(),
        // With the set of what all agree on, which is not told of.
        false if told.alive.contains(&node) => {
            let system = told.member(SYSTEM_SET).and_then(|member| member.leader);
            let told = heard.get(&node).map_or(0, |facts| facts.sets.len());
            told + usize::from(system == Some(node))
        }
        false => 0,
    };
    // Each has a member of what all agree on, too.
    let members = |node| members.get(&node).copied().unwrap_or(0) + 1;
    let row = |member: &crate::membership::Member| {
        let link = links.iter().find(|link| link.node == member.node);
        json!({
            "node": member.node.0,
            "state": if told.alive.contains(&member.node) { state_name(member.state) } else { "down" },
            "asked": state_name(member.state),
            "rack": member.rack,
            "disk_bytes": facts(member.node).map(|it| it.disk_bytes),
            "free_bytes": facts(member.node).map(|it| it.free_bytes),
            "bytes": facts(member.node).map(|it| it.sets.iter().map(|set| set.bytes).sum::<u64>()),
            "clients": member.clients.to_string(),
            "mesh": member.mesh.to_string(),
            "host_id": types::UuidText(member.host_id).to_string(),
            "sets": members(member.node),
            "leads": leads(member.node),
            "round_trip_us": link.and_then(|link| link.round_trip_us),
            "queued_bytes": link.map(|link| link.queued_bytes),
            "is_asked": member.node == own,
        })
    };
    membership.members.iter().map(row).collect()
}

/// Asks the running node, and prints a line for each.
pub(crate) fn show(data_dir: &Path, question: &Question, is_json: bool) -> ExitCode {
    let answer = match admin::ask(data_dir, question) {
        Ok(answer) => answer,
        Err(error) => return fail(&error),
    };
    if is_json {
        return say(&format!("{answer}\n"));
    }
    let (rows, columns): (_, &[&str]) = match question {
        Question::Nodes => (
            answer.get("nodes"),
            &["node", "state", "clients", "mesh", "sets", "leads", "round_trip_us"],
        ),
        _ => (
            answer.get("replicas"),
            &["set", "node", "role", "term", "last_index", "lag", "silent_ms", "frozen", "space"],
        ),
    };
    let mut text = table(rows.and_then(Value::as_array).map_or(&[], Vec::as_slice), columns);
    text.push_str(&news(&answer));
    say(&text)
}

/// What moves, what waits for what, and what was decided, where the answer tells of it.
fn news(answer: &Value) -> String {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut out = String::new();
    let moving: Vec<String> = list("moving").iter().map(Value::to_string).collect();
    if !moving.is_empty() {
        out.push_str(&format!("\nsets that get other members: {}\n", moving.join(", ")));
    }
    for why in list("waiting").iter().filter_map(Value::as_str) {
        out.push_str(&format!("waiting: {why}\n"));
    }
    for why in list("missing").iter().filter_map(Value::as_str) {
        out.push_str(&format!("{why}\n"));
    }
    let text = |row: &Value, name: &str| {
        row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let number = |row: &Value| row.get("id").and_then(Value::as_u64).unwrap_or(0);
    for job in list("jobs") {
        let (what, why, progress) =
            (text(&job, "what"), text(&job, "reason"), text(&job, "progress"));
        out.push_str(&format!("job {}: {what}: {why}: {progress}\n", number(&job)));
    }
    let events = list("events");
    if !events.is_empty() {
        out.push_str("\nwhat happened lately, the latest last:\n");
    }
    let from = events.len().saturating_sub(LINES_SHOWN);
    for event in events.iter().skip(from) {
        let (what, why) = (text(event, "what"), text(event, "reason"));
        let ended = match text(event, "kind").as_str() {
            "job_done" => ": done",
            "job_cancelled" => ": cancelled",
            "job_failed" => ": failed",
            _ => "",
        };
        let at_ms = event.get("at_ms").and_then(Value::as_i64).unwrap_or(0);
        let ago = ago((world::now_us() / 1000).saturating_sub(at_ms));
        out.push_str(&format!("  {ago:>10}  {what}{ended}: {why}\n"));
    }
    out
}

/// How long something is past, in the largest unit of which there is a whole one.
fn ago(past_ms: i64) -> String {
    let seconds = past_ms.max(0) / 1000;
    match (seconds / 86_400, seconds / 3_600, seconds / 60) {
        (0, 0, 0) => format!("{seconds} s ago"),
        (0, 0, minutes) => format!("{minutes} min ago"),
        (0, hours, _) => format!("{hours} h ago"),
        (days, ..) => format!("{days} d ago"),
    }
}

/// Rows under the names of their columns.
pub(crate) fn table(rows: &[Value], columns: &[&str]) -> String {
    let text = |row: &Value, column: &str| match row.get(column) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let width = |column: &&str| {
        let widest = rows.iter().map(|row| text(row, column).chars().count()).max();
        widest.unwrap_or(0).max(column.len())
    };
    let widths: Vec<usize> = columns.iter().map(width).collect();
    let line = |cells: Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let heads = columns.iter().map(|column| column.replace('_', " ")).collect();
    let mut out = line(heads);
    for row in rows {
        out.push_str(&line(columns.iter().map(|column| text(row, column)).collect()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_past_is_told_in_whole_units() {
        let told = [-5, 999, 59_999, 60_000, 3_599_000, 7_200_000, 86_400_000].map(ago);
        let wanted = ["0 s", "0 s", "59 s", "1 min", "59 min", "2 h", "1 d"];
        assert_eq!(told, wanted.map(|it| format!("{it} ago")));
    }

    #[test]
    fn rows_stand_under_their_names() {
        let rows = [json!({"node": 1, "state": "up"}), json!({"node": 12, "state": null})];
        assert_eq!(table(&rows, &["node", "state"]), "node  state\n1     up\n12    -\n");
    }
}
