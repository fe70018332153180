//! `helenus set` and `helenus nodes`: the replica sets and the nodes of a cluster, as the node that is asked knows them.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::admin::{self, Question};
use crate::cluster_node::ClusterNode;
use crate::node::Node;
use crate::{fail, say};

/// What a node that runs alone says.
const ALONE: &str = "this node runs alone: its replica sets have one member, which is here. `helenus demo` runs a cluster";

/// Which of a node's sets are asked for.
pub(crate) fn list_sets(node: &Node, wanted: Option<u32>) -> Value {
    let Some(cluster) = &node.cluster else { return json!({ "error": ALONE }) };
    let spaces = node.catalog.physical_partitions(node.world.host_number());
    let facts = cluster.facts();
    let is_wanted = |set: u32| wanted.is_none_or(|wanted| wanted == set);
    let rows = facts.replicas.iter().filter(|replica| is_wanted(replica.set));
    let rows: Vec<Value> = rows
        .map(|replica| {
            let space = spaces.iter().find(|partition| partition.id == replica.set);
            json!({
                "set": replica.set,
                "space": space.map_or("(schema, map and roles)", |partition| partition.space.as_str()),
                "node": replica.node,
                "role": replica.role,
                "term": replica.term,
                "leader": replica.leader,
                "commit_index": replica.commit_index,
                "applied_index": replica.applied_index,
                "last_index": replica.last_index,
                "lag": replica.lag,
                "silent_ms": replica.silent_ms,
                "frozen": replica.frozen,
            })
        })
        .collect();
    match (rows.is_empty(), wanted) {
        (true, Some(set)) => json!({ "error": format!("this node has no member of set {set}") }),
        _ => json!({ "replicas": rows }),
    }
}

/// The nodes.
pub(crate) fn list_nodes(node: &Node) -> Value {
    let Some(cluster) = &node.cluster else { return json!({ "error": ALONE }) };
    json!({ "nodes": nodes(cluster) })
}

fn nodes(cluster: &ClusterNode) -> Vec<Value> {
    let told = cluster.groups.told();
    let links = cluster.links();
    let own = cluster.membership.own;
    let leads = |node| told.members.iter().filter(|member| member.leader == Some(node)).count();
    let members = |node| told.members.iter().filter(|it| it.voters.contains(&node)).count();
    let row = |member: &crate::membership::Member| {
        let link = links.iter().find(|link| link.node == member.node);
        json!({
            "node": member.node.0,
            "state": if told.alive.contains(&member.node) { "up" } else { "down" },
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
    cluster.membership.members.iter().map(row).collect()
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
    say(&table(rows.and_then(Value::as_array).map_or(&[], Vec::as_slice), columns))
}

/// Rows under the names of their columns.
fn table(rows: &[Value], columns: &[&str]) -> String {
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
    fn rows_stand_under_their_names() {
        let rows = [json!({"node": 1, "state": "up"}), json!({"node": 12, "state": null})];
        assert_eq!(table(&rows, &["node", "state"]), "node  state\n1     up\n12    -\n");
    }
}
