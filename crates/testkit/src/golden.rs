//! Golden scripts: statements, and beside them what Apache Cassandra answered. A script is replayed
//! against a node, and its answers are compared with the recorded ones.
//!
//! In a script (`NAME.cql`) a statement ends with `;` at the end of a line; a batch with
//! `APPLY BATCH;`. Lines that start with `--` are comments, except these, which concern the next
//! statement:
//!
//! - `-- bind VALUE, VALUE …` prepares it and executes it with these values: hexadecimal bytes,
//!   `null` or `unset`;
//! - `-- page N` reads it in pages of N rows.
//!
//! `NAME.out` holds for each statement its text after `>`, and the answer.

use std::fmt::Write as _;

use protocol::{
    Consistency, ErrorKind, ErrorResponse, PreparedResponse, Response, ResponseMessage,
    SchemaChange, SchemaTarget,
};
use types::value::to_cql_text;

use crate::client::{Client, ClientError, Execution, OwnedValue};

/// A statement of a script and how it is executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The directives above it, word for word.
    pub directives: Vec<String>,
    /// The statement without its `;`.
    pub text: String,
}

/// Cuts a script into its steps.
pub fn parse(script: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = Step::default();
    for line in script.lines() {
        if step.text.is_empty() {
            let is_directive = line.starts_with("-- bind") || line.starts_with("-- page");
            if is_directive {
                step.directives.push(line.to_string());
            }
            if line.starts_with("--") || line.trim().is_empty() {
                continue;
            }
        } else {
            step.text.push('\n');
        }
        step.text.push_str(line);
        let upper = step.text.trim_start().to_ascii_uppercase();
        let is_open_batch = upper.starts_with("BEGIN") && !upper.contains("APPLY BATCH");
        if let Some(statement) = step.text.trim_end().strip_suffix(';')
            && !is_open_batch
        {
            step.text = statement.to_string();
            steps.push(std::mem::take(&mut step));
        }
    }
    if !step.text.trim().is_empty() {
        steps.push(step);
    }
    steps
}

/// Runs a script and writes down every answer.
pub fn run(client: &mut Client, script: &str) -> Result<String, ClientError> {
    run_at(client, script, None)
}

/// The same at another level than ONE.
pub fn run_at(
    client: &mut Client,
    script: &str,
    consistency: Option<Consistency>,
) -> Result<String, ClientError> {
    run_through(std::slice::from_mut(client), script, consistency)
}

/// The same through several nodes of a cluster: each statement, each execution of what another one prepared, and each page is
/// asked of the next.
pub fn run_through(
    clients: &mut [Client],
    script: &str,
    consistency: Option<Consistency>,
) -> Result<String, ClientError> {
    let mut out = String::new();
    let mut turns = Turns(clients);
    for step in parse(script) {
        for line in &step.directives {
            let _ = writeln!(out, "{line}");
        }
        for line in step.text.lines() {
            let _ = writeln!(out, "> {line}");
        }
        run_step(&mut turns, &step, consistency, &mut out)?;
        out.push('\n');
    }
    Ok(out)
}

/// Clients that are asked in turn.
struct Turns<'a>(&'a mut [Client]);

impl Turns<'_> {
    fn next(&mut self) -> Result<&mut Client, ClientError> {
        if self.0.len() > 1 {
            self.0.rotate_left(1);
        }
        self.0.last_mut().ok_or_else(|| ClientError("nobody to ask".to_owned()))
    }

    /// Executes what one of them prepared: whoever does not know it is asked to prepare it, as drivers do.
    fn execute(
        &mut self,
        text: &str,
        prepared: &PreparedResponse,
        execution: &Execution,
    ) -> Result<ResponseMessage, ClientError> {
        let client = self.next()?;
        let message = client.execute(prepared, execution)?;
        match &message.response {
            Response::Error(ErrorResponse { kind: ErrorKind::Unprepared { .. }, .. }) => {
                match client.prepare(text)? {
                    Ok(own) => client.execute(&own, execution),
                    Err(message) => Ok(message),
                }
            }
            _ => Ok(message),
        }
    }

    /// A keyspace is in use for one connection.
    fn use_everywhere(
        &mut self,
        text: &str,
        execution: &Execution,
    ) -> Result<ResponseMessage, ClientError> {
        let mut answer = self.next()?.query(text, execution)?;
        for _ in 1..self.0.len() {
            answer = self.next()?.query(text, execution)?;
        }
        Ok(answer)
    }
}

fn run_step(
    turns: &mut Turns<'_>,
    step: &Step,
    consistency: Option<Consistency>,
    out: &mut String,
) -> Result<(), ClientError> {
    let mut execution = Execution { consistency, ..Execution::default() };
    let mut is_prepared = false;
    for directive in &step.directives {
        if let Some(values) = directive.strip_prefix("-- bind") {
            is_prepared = true;
            execution.values = parse_values(values);
        } else if let Some(size) = directive.strip_prefix("-- page") {
            execution.page_size = size.trim().parse().ok();
        }
    }
    let prepared = if is_prepared {
        match turns.next()?.prepare(&step.text)? {
            Ok(prepared) => Some(prepared),
            Err(message) => {
                show(&message, out);
                return Ok(());
            }
        }
    } else {
        None
    };
    if let Some(prepared) = &prepared {
        let columns = prepared.bind.iter().map(|c| format!("{} {}", c.name, c.cql_type));
        let columns: Vec<String> = columns.collect();
        let _ = writeln!(
            out,
            "markers: {}; key {:?}",
            columns.join(", "),
            prepared.partition_key_indexes
        );
    }
    let uses = step.text.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("USE "));
    loop {
        let message = match &prepared {
            Some(prepared) => turns.execute(&step.text, prepared, &execution)?,
            None if uses => turns.use_everywhere(&step.text, &execution)?,
            None => turns.next()?.query(&step.text, &execution)?,
        };
        show(&message, out);
        match message.response {
            Response::Rows(rows) if rows.metadata.paging_state.is_some() => {
                out.push_str("next page\n");
                execution.paging_state = rows.metadata.paging_state;
            }
            _ => return Ok(()),
        }
    }
}

fn parse_values(list: &str) -> Vec<OwnedValue> {
    list.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(|word| match word {
            "null" => OwnedValue::Null,
            "unset" => OwnedValue::Unset,
            hex => OwnedValue::Bytes(parse_hex(hex.trim_start_matches("0x"))),
        })
        .collect()
}

fn parse_hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        digits.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    let (pairs, _) = digits.as_chunks::<2>();
    pairs.iter().map(|[high, low]| high << 4 | low).collect()
}

fn show(message: &ResponseMessage, out: &mut String) {
    for warning in &message.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    match &message.response {
        Response::Error(error) => {
            let message = with_sorted_signatures(&error.message);
            let _ = writeln!(out, "error {:#06x} {message}", error.kind.code());
        }
        Response::Void => out.push_str("ok\n"),
        Response::SetKeyspace(name) => {
            let _ = writeln!(out, "using {name}");
        }
        Response::SchemaChange(change) => show_change(change, out),
        Response::Rows(rows) => {
            let columns = rows.metadata.columns.as_deref().unwrap_or_default();
            let heads: Vec<String> =
                columns.iter().map(|c| format!("{} {}", c.name, c.cql_type)).collect();
            let _ = writeln!(out, "{}", heads.join(" | "));
            for row in rows.rows() {
                let values: Vec<String> = row
                    .iter()
                    .zip(columns)
                    .map(|(value, column)| match value {
                        None => "null".to_string(),
                        Some(bytes) => to_cql_text(&column.cql_type, bytes),
                    })
                    .collect();
                let _ = writeln!(out, "  {}", values.join(" | "));
            }
            let _ = writeln!(out, "{} rows", rows.row_count);
        }
        other => {
            let _ = writeln!(out, "{other:?}");
        }
    }
}

/// Cassandra lists the overloads of a function in the order of a hash table; they are compared as a
/// set.
pub(crate) fn with_sorted_signatures(message: &str) -> String {
    let Some((before, rest)) = message.split_once("signatures: ") else {
        return message.to_string();
    };
    let Some((list, after)) = rest.rsplit_once(')') else { return message.to_string() };
    let mut signatures: Vec<&str> = list.split(", system.").collect();
    if let Some(first) = signatures.first_mut() {
        *first = first.trim_start_matches("system.");
    }
    signatures.sort_unstable();
    format!("{before}signatures: system.{}){after}", signatures.join(", system."))
}

fn show_change(change: &SchemaChange, out: &mut String) {
    let target = match &change.target {
        SchemaTarget::Keyspace => String::new(),
        SchemaTarget::Table(name) => format!(" table {name}"),
        SchemaTarget::Type(name) => format!(" type {name}"),
        other => format!(" {other:?}"),
    };
    let _ = writeln!(out, "{:?} {}{target}", change.kind, change.keyspace);
}

/// Every statement whose answer differs, as messages: `(differences, statements)`.
pub fn differences(expected: &str, found: &str) -> (Vec<String>, usize) {
    let expected: Vec<&str> = expected.split("\n\n").collect();
    let found: Vec<&str> = found.split("\n\n").collect();
    let count = expected.iter().filter(|answer| answer.contains("> ")).count();
    let mut messages = Vec::new();
    for (index, answer) in expected.iter().enumerate() {
        let other = found.get(index).copied().unwrap_or_default();
        if other != *answer {
            messages.push(format!("recorded:\n{answer}\nfound:\n{other}\n"));
        }
    }
    if let Some(more) = found.get(expected.len()..).filter(|more| !more.is_empty()) {
        messages.push(format!("beyond the recorded end:\n{}\n", more.join("\n\n")));
    }
    (messages, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_cut_at_its_statements() {
        let steps = parse(
            "-- a comment\nSELECT 1;\n\n-- page 2\n-- bind 0x01, null\nSELECT\n  2;\n\
             BEGIN BATCH\nINSERT 1;\nAPPLY BATCH;\n",
        );
        let texts: Vec<&str> = steps.iter().map(|step| step.text.as_str()).collect();
        assert_eq!(texts, ["SELECT 1", "SELECT\n  2", "BEGIN BATCH\nINSERT 1;\nAPPLY BATCH"]);
        assert_eq!(steps[1].directives, ["-- page 2", "-- bind 0x01, null"]);
    }

    #[test]
    fn values_are_hexadecimal() {
        assert_eq!(
            parse_values(" 0x00ff, null,unset"),
            [OwnedValue::Bytes(vec![0, 255]), OwnedValue::Null, OwnedValue::Unset]
        );
    }

    #[test]
    fn every_difference_is_named() {
        assert_eq!(differences("> a\nok", "> a\nok"), (Vec::new(), 1));
        let (messages, count) = differences("> a\nok\n\n> b\nok", "> a\nno\n\n> b\nok\n\n> c\nok");
        assert_eq!((messages.len(), count), (2, 2), "{messages:?}");
        assert!(messages[0].contains("recorded:\n> a\nok"), "{messages:?}");
        assert!(messages[1].contains("> c"), "{messages:?}");
    }
}
