//! How a node is doing: as facts for programs, as lines for people, and whether a supervisor should worry.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dashboard::figure;
use schema::system::NamedRow;
use schema::system::values::{bigint, text};
use serde_json::{Value, json};
use storage::Writing;

use crate::config::TlsMode;
use crate::metrics;
use crate::node::Node;
use crate::version::VERSION;
use crate::world;

/// What the node was started with that its status tells.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) folder: std::path::PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) tls: TlsMode,
}

/// All facts, by name; those that count bytes or seconds end in their unit.
pub(crate) fn facts(node: &Node, started: &Started) -> Value {
    let schema = node.catalog.schema();
    let is_user = |keyspace: &&Arc<schema::Keyspace>| keyspace.kind == schema::KeyspaceKind::User;
    let keyspaces = schema.keyspaces.values().filter(is_user).count();
    let tables: usize =
        schema.keyspaces.values().filter(is_user).map(|keyspace| keyspace.tables.len()).sum();
    let stored = node.storage.statistics();
    let disk_bytes: u64 = stored.tables.iter().map(|table| table.disk_bytes).sum();
    let up_ms = world::now_us() / 1000 - node.world.started_at_ms();
    json!({
        "state": state(&stored.writing),
        "version": VERSION,
        "host_id": node.world.host_id(),
        "address": started.address.to_string(),
        "tls": match started.tls {
            TlsMode::Off => "off",
            TlsMode::Optional => "optional",
            TlsMode::Required => "required",
        },
        "data_dir": started.folder.display().to_string(),
        "up_seconds": up_ms / 1000,
        "schema_version": types::UuidText(schema.version).to_string(),
        "keyspaces": keyspaces,
        "tables": tables,
        "connections": node.metrics.connections_open(),
        "requests": node.metrics.request_count(),
        "errors": node.metrics.error_count(),
        "prepared_statements": node.engine.prepared_count(),
        "disk_bytes": disk_bytes,
        "disk_free_bytes": disk_free_bytes(&started.folder),
        "log_bytes": stored.log_bytes,
        "memtable_bytes": stored.memtable_bytes,
        "row_cache_bytes": stored.row_cache_bytes,
        "head_cache_bytes": stored.head_cache_bytes,
        "resident_bytes": metrics::resident_bytes(),
        "damaged_tables": damaged_tables(node),
    })
}

/// The facts as rows of `system_helenus.status`.
pub(crate) fn rows(facts: &Value) -> Vec<NamedRow> {
    let Some(facts) = facts.as_object() else { return Vec::new() };
    let row = |(name, value): (&String, &Value)| {
        let number = value.as_i64();
        let words = match value {
            Value::String(words) => Some(words.clone()),
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                Some(items.join("; "))
            }
            _ => None,
        };
        vec![
            ("name", text(name)),
            ("number", number.and_then(bigint)),
            ("value", words.and_then(|words| text(&words))),
        ]
    };
    facts.iter().map(row).collect()
}

/// Room on the disk for what this user writes.
pub(crate) fn disk_free_bytes(folder: &Path) -> Option<u64> {
    let told = rustix::fs::statvfs(folder).ok()?;
    told.f_frsize.checked_mul(told.f_bavail)
}

/// What the node does, in a few words.
pub(crate) fn state(writing: &Writing) -> String {
    match writing {
        Writing::Goes => "running".to_owned(),
        Writing::DiskFull => {
            "read-only: the disk is full; it goes on when there is room".to_owned()
        }
        Writing::Waits(why) => format!("read-only: {why}; it goes on when that has passed"),
        Writing::Failed(why) => format!("read-only: the log failed ({why}); restart the node"),
    }
}

/// Tables in whose files damage was met since the start.
fn damaged_tables(node: &Node) -> Vec<String> {
    let schema = node.catalog.schema();
    let damaged = node.storage.statistics().damaged;
    let name = |(id, what): (types::TableId, Arc<str>)| match schema.table_by_id(id) {
        Some(table) => format!("{}.{}: {what}", table.keyspace, table.name),
        None => format!("{id}: {what}"),
    };
    damaged.into_iter().map(name).collect()
}

/// Whether the process does what it can, for a supervisor that would start it again. A full disk or lost neighbours
/// are no reason for that, a failed log is.
pub(crate) fn health(node: &Node) -> Result<(), String> {
    match node.storage.statistics().writing {
        Writing::Failed(why) => Err(format!("the log failed ({why}); restart the node")),
        _ => match node.storage.poisoned() {
            Some(why) => Err(why.to_string()),
            None => Ok(()),
        },
    }
}

/// Whether clients should be sent here, for a balancer.
pub(crate) fn readiness(node: &Node) -> Result<(), String> {
    health(node)?;
    if !node.is_open.load(Ordering::Acquire) {
        return Err("the node starts or stops".to_owned());
    }
    match node.storage.statistics().writing {
        Writing::Goes => Ok(()),
        other => Err(state(&other)),
    }
}

/// What a person looks for first stands first, however the facts came: those of another node are sorted by name.
const ORDER: [&str; 22] = [
    "state",
    "version",
    "host_id",
    "address",
    "tls",
    "data_dir",
    "up_seconds",
    "schema_version",
    "keyspaces",
    "tables",
    "connections",
    "requests",
    "errors",
    "prepared_statements",
    "disk_bytes",
    "disk_free_bytes",
    "log_bytes",
    "memtable_bytes",
    "row_cache_bytes",
    "head_cache_bytes",
    "resident_bytes",
    "damaged_tables",
];

/// The facts for a person: one line each, names first, sizes and times in units.
pub(crate) fn describe(answer: &Value) -> String {
    let Some(facts) = answer.as_object() else { return format!("{answer}\n") };
    let place = |name: &str| ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len());
    let mut facts: Vec<(&String, &Value)> = facts.iter().collect();
    facts.sort_by_key(|(name, _)| place(name));
    let lines: Vec<(String, String)> =
        facts.into_iter().map(|(name, value)| readable(name, value)).collect();
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// A name without its unit, and the value with one.
fn readable(name: &str, value: &Value) -> (String, String) {
    let spaced = |name: &str| name.replace('_', " ");
    match (name.strip_suffix("_bytes"), name.strip_suffix("_seconds"), value.as_u64()) {
        (Some(name), _, Some(bytes)) => (spaced(name), figure::bytes(bytes)),
        (_, Some(name), Some(seconds)) => (spaced(name), figure::seconds(seconds)),
        _ => {
            let text = match value {
                Value::String(text) if text.is_empty() => "none".to_owned(),
                Value::String(text) => text.clone(),
                Value::Null => "unknown".to_owned(),
                Value::Array(items) if items.is_empty() => "none".to_owned(),
                other => other.to_string(),
            };
            (spaced(name), text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_aligned() {
        let expected = "up              1m 30s\nlog             2.00 KiB\ndamaged tables  none\na               1\n";
        let facts = json!({ "a": 1, "log_bytes": 2048, "up_seconds": 90, "damaged_tables": [] });
        assert_eq!(describe(&facts), expected);
        // As a table tells them: sorted, and a list as one text.
        let facts = json!({ "a": 1, "damaged_tables": "", "log_bytes": 2048, "up_seconds": 90 });
        assert_eq!(describe(&facts), expected);
    }
}
