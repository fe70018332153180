//! `helenus partitions` and `helenus split`: what the node answers, and how it looks in a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use coordinator::SplitPlace;
use partition::{Reason, Space, Step};
use serde_json::{Value, json};
use types::value::parse_text;
use types::{PartitionKey, RingToken, Token};

use crate::admin::{self, AskedPlace, Question, Split};
use crate::node::Node;
use crate::{fail, say};

/// How often `--watch` looks.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The width of a bar.
const BAR_CELLS: usize = 32;
/// Clears the terminal and goes to its first place.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Splits `KEYSPACE` or `KEYSPACE.TABLE`.
fn split_name(name: &str) -> (&str, Option<&str>) {
    match name.split_once('.') {
        Some((keyspace, table)) => (keyspace, Some(table)),
        None => (name, None),
    }
}

fn space_named(node: &Node, name: &str) -> Result<Space, String> {
    let (keyspace, table) = split_name(name);
    node.catalog.space_named(keyspace, table).map_err(|error| error.to_string())
}

/// Answers `partitions`.
pub(crate) fn list(node: &Node, name: Option<&str>) -> Value {
    let wanted = match name.map(|name| space_named(node, name)).transpose() {
        Ok(space) => space.map(|space| space.to_string()),
        Err(error) => return json!({ "error": error }),
    };
    let schema = node.catalog.schema();
    // All means all of users: the system's own are shown when asked for.
    let is_users = |space: &str| {
        let keyspace = schema.keyspace(split_name(space).0);
        keyspace.is_some_and(|keyspace| keyspace.kind == schema::KeyspaceKind::User)
    };
    // Of sets without a member here others know the sizes.
    let told =
        node.cluster.as_ref().map(|it| it.gatherer(&node.catalog).tell("physical_partitions"));
    let told = told.unwrap_or_default();
    let rows: BTreeMap<u64, _> =
        told.rows.iter().filter_map(|row| Some((row.get("id")?.as_u64()?, row))).collect();
    let known = |id: u32, name: &str, own: Value| {
        let value = rows.get(&u64::from(id)).and_then(|row| row.get(name));
        value.filter(|it| !it.is_null()).cloned().unwrap_or(own)
    };
    let partitions: Vec<Value> = node
        .catalog
        .physical_partitions(node.world.host_number())
        .into_iter()
        .filter(|partition| match &wanted {
            Some(space) => partition.space == *space,
            None => is_users(&partition.space),
        })
        .map(|partition| {
            json!({
                "space": partition.space,
                "id": partition.id,
                "first_token": partition.first_token,
                "last_token": partition.last_token,
                "ring_share": ring_share(partition.first_ring, partition.last_ring),
                "bytes": known(partition.id, "bytes", json!(partition.bytes)),
                "rows": known(partition.id, "rows", json!(partition.rows)),
                "ru_s": known(partition.id, "ru_s", json!(partition.ru_s)),
                "budget_ru_s": partition.budget_ru_s,
                "heat": known(partition.id, "heat", json!(partition.heat)),
                "reason": partition.reason,
            })
        })
        .collect();
    json!({ "partitions": partitions, "missing": told.missing })
}

fn ring_share(first: u128, last: u128) -> f64 {
    (last - first) as f64 / u128::MAX as f64
}

/// Answers `split`.
pub(crate) fn split(node: &Node, asked: &Split) -> Value {
    match try_split(node, asked) {
        Ok(answer) => answer,
        Err(error) => json!({ "error": error }),
    }
}

fn try_split(node: &Node, asked: &Split) -> Result<Value, String> {
    let space = space_named(node, &asked.space)?;
    let schema = node.catalog.schema();
    let keyspace = schema.keyspace(split_name(&asked.space).0);
    if keyspace.is_none_or(|keyspace| keyspace.kind != schema::KeyspaceKind::User) {
        return Err(format!("{} is the node's own: it is never split", asked.space));
    }
    let place = match &asked.place {
        AskedPlace::Key(values) => SplitPlace::Key(key_of(node, &asked.space, values)?),
        AskedPlace::Token(token) => SplitPlace::Token(RingToken::first_of(Token(*token))),
        AskedPlace::Best => SplitPlace::Best,
    };
    let change =
        node.catalog.split(&space, &place, Reason::Hand).map_err(|error| error.to_string())?;
    match change.step {
        Step::Split { from, at, into: [left, right] } => Ok(json!({
            "space": change.space.to_string(),
            "replaced": from.0,
            "made": [left.0, right.0],
            "token": at.token().0,
            "bytes": change.bytes,
            "took_us": change.took_us,
        })),
        Step::Merge { .. } => Err("a split came out as a merge".to_owned()),
    }
}

/// The partition key with these values, as a person writes them.
fn key_of(node: &Node, name: &str, values: &[String]) -> Result<PartitionKey, String> {
    let (keyspace, Some(table)) = split_name(name) else {
        return Err("--key needs KEYSPACE.TABLE: a key belongs to a table".to_owned());
    };
    let schema = node.catalog.schema();
    let table = schema
        .table(keyspace, table)
        .ok_or_else(|| format!("table {keyspace}.{table} does not exist"))?;
    let columns = table.partition_key();
    if columns.len() != values.len() {
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        let names = names.join(", ");
        return Err(format!("--key is needed once for each of: {names}"));
    }
    let mut bytes = Vec::new();
    for (column, text) in columns.iter().zip(values) {
        let value =
            parse_text(&column.cql_type, text).map_err(|error| format!("--key {text}: {error}"))?;
        match columns.len() {
            1 => bytes = value,
            _ => PartitionKey::push_component(&mut bytes, &value),
        }
    }
    Ok(PartitionKey::new(Bytes::from(bytes)))
}

/// What a split came to, for a person.
pub(crate) fn describe_split(answer: &Value) -> String {
    let number = |name: &str| answer[name].as_u64().unwrap_or_default();
    let made: Vec<String> =
        answer["made"].as_array().into_iter().flatten().map(Value::to_string).collect();
    format!(
        "physical partition {} of {} is now {}, split at token {} in {:.1} ms; no data was moved\n",
        number("replaced"),
        answer["space"].as_str().unwrap_or_default(),
        made.join(" and "),
        answer["token"],
        number("took_us") as f64 / 1000.0
    )
}

/// Prints the ring, once or again and again.
pub(crate) fn show(data_dir: &Path, space: Option<String>, watch: bool) -> ExitCode {
    let question = Question::Partitions(space);
    loop {
        let text = match admin::ask(data_dir, &question) {
            Ok(answer) => draw(&answer),
            Err(error) => return fail(&error),
        };
        if !watch {
            return say(&text);
        }
        if say(&format!("{CLEAR}{text}")) != ExitCode::SUCCESS {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// The ring as bars: each is as long as the physical partition is full, against the fullest.
fn draw(answer: &Value) -> String {
    let empty = Vec::new();
    let partitions = answer["partitions"].as_array().unwrap_or(&empty);
    if partitions.is_empty() {
        return "no physical partitions: no keyspace has been created yet\n".to_owned();
    }
    let mut text = String::new();
    // They come in the order of spaces and rings.
    for of_space in partitions.chunk_by(|one, other| one["space"] == other["space"]) {
        draw_space(&mut text, of_space);
    }
    for missing in answer["missing"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, "{missing}");
    }
    text
}

fn draw_space(text: &mut String, partitions: &[Value]) {
    let number = |partition: &Value, name: &str| partition[name].as_f64().unwrap_or_default();
    let space = partitions.first().and_then(|first| first["space"].as_str()).unwrap_or_default();
    let bytes = || partitions.iter().map(|partition| number(partition, "bytes"));
    let (count, size, fullest) =
        (partitions.len(), size_text(bytes().sum()), bytes().fold(0.0, f64::max));
    let noun = if count == 1 { "physical partition" } else { "physical partitions" };
    let _ = writeln!(text, "{space}: {count} {noun}, {size}");
    let _ = writeln!(
        text,
        "{:>6}  {:>20}  {:BAR_CELLS$}  {:>9}  {:>9}  {:>8}  {:>5}",
        "id", "first token", "", "bytes", "rows", "RU/s", "heat"
    );
    for partition in partitions {
        // Before anything is stored, the share of the ring is all there is to show.
        let share = match fullest > 0.0 {
            true => number(partition, "bytes") / fullest,
            false => number(partition, "ring_share"),
        };
        let _ = writeln!(
            text,
            "{:>6}  {:>20}  {}  {:>9}  {:>9}  {:>8.1}  {:>5.2}",
            partition["id"].to_string(),
            partition["first_token"].to_string(),
            bar(share),
            size_text(number(partition, "bytes")),
            partition["rows"].to_string(),
            number(partition, "ru_s"),
            number(partition, "heat"),
        );
    }
}

/// A bar of eighths of a cell.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (BAR_CELLS * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(EIGHTHS.get(eighths % 8).copied().unwrap_or_default());
    let drawn = bar.chars().count();
    bar.push_str(&" ".repeat(BAR_CELLS.saturating_sub(drawn)));
    bar
}

fn size_text(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let (mut size, mut unit) = (bytes, "B");
    for name in UNITS.iter().skip(1) {
        if size < 1000.0 {
            break;
        }
        size /= 1000.0;
        unit = name;
    }
    if unit == "B" { format!("{size:.0} {unit}") } else { format!("{size:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_drawn_against_the_fullest() {
        let partition = |id: u32, bytes: u64| {
            json!({
                "space": "ks", "id": id, "first_token": -5, "last_token": 5, "ring_share": 0.5,
                "bytes": bytes, "rows": 3, "ru_s": 1.25, "heat": 1.0, "reason": "created"
            })
        };
        let partitions = [partition(4, 2_000_000), partition(5, 1_000_000)];
        let text = draw(&json!({ "partitions": partitions, "missing": ["node 3 is down"] }));
        assert!(text.ends_with("\nnode 3 is down\n"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ks: 2 physical partitions, 3.0 MB");
        assert_eq!(lines[2].matches('█').count(), BAR_CELLS);
        assert_eq!(lines[3].matches('█').count(), BAR_CELLS / 2);
        assert!(lines[3].contains("1.0 MB"), "{text}");
        assert!(draw(&json!({})).starts_with("no physical partitions"));
    }

    #[test]
    fn sizes_are_readable() {
        for (bytes, text) in [(0.0, "0 B"), (999.0, "999 B"), (1500.0, "1.5 KB"), (3e10, "30.0 GB")]
        {
            assert_eq!(size_text(bytes), text);
        }
    }
}
