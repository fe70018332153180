//! What a server answered, in a form that can be compared.

use std::fmt;

use protocol::{BatchKind, ColumnSpec, PreparedResponse, Response, ResponseMessage};
use types::CqlType;
use types::value::to_cql_text;

use super::draft::Statement;
use crate::{Client, ClientError, Execution};

/// The answer to a statement, all pages together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Error {
        code: i32,
        /// Its text.
        message: String,
    },
    Rows {
        /// The types of the markers, when it was prepared.
        markers: Option<String>,
        /// Names and types, with keyspace and table.
        columns: Vec<(String, CqlType)>,
        /// The cells of each row.
        rows: Vec<Vec<Option<Vec<u8>>>>,
        /// How many rows each page had.
        pages: Vec<usize>,
    },
    /// Anything else.
    Other {
        /// The types of the markers, when it was prepared.
        markers: Option<String>,
        /// What it was.
        text: String,
    },
}

/// How two answers relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// Equal in all that counts.
    Equal,
    /// Equal but for the text of an error, or where pages end.
    Soft,
    Different,
}

impl Answer {
    /// How the other answer relates to this one.
    pub(super) fn relation(&self, other: &Answer) -> Relation {
        match (self, other) {
            (
                Answer::Error { code, message },
                Answer::Error { code: other_code, message: other_message },
            ) => {
                if code != other_code {
                    Relation::Different
                } else if message != other_message {
                    Relation::Soft
                } else {
                    Relation::Equal
                }
            }
            (
                Answer::Rows { markers, columns, rows, pages },
                Answer::Rows {
                    markers: other_markers,
                    columns: other_columns,
                    rows: other_rows,
                    pages: other_pages,
                },
            ) => {
                if markers != other_markers || columns != other_columns || rows != other_rows {
                    Relation::Different
                } else if pages != other_pages {
                    Relation::Soft
                } else {
                    Relation::Equal
                }
            }
            (a, b) if a == b => Relation::Equal,
            _ => Relation::Different,
        }
    }

    /// An internal error of the server, or one that a valid statement must not get: Cassandra
    /// refuses its own paging states for some groups.
    pub(super) fn is_failure(&self) -> bool {
        match self {
            Answer::Error { code: 0 | 0x1100 | 0x1300 | 0x1500, .. } => true,
            Answer::Error { code: 0x000a, message } => message.contains("paging state"),
            _ => false,
        }
    }

    /// The server was too busy to answer; the same question may be asked again.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Answer::Error { code: 0x1000 | 0x1001 | 0x1100 | 0x1200, .. })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Error { code, message } => write!(f, "error {code:#06x} {message}"),
            Answer::Other { markers, text } => {
                write!(f, "{}{text}", markers.as_deref().unwrap_or_default())
            }
            Answer::Rows { markers, columns, rows, pages } => {
                f.write_str(markers.as_deref().unwrap_or_default())?;
                let heads: Vec<String> =
                    columns.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
                writeln!(f, "{}", heads.join(" | "))?;
                for row in rows {
                    let cells: Vec<String> = row
                        .iter()
                        .zip(columns)
                        .map(|(cell, (_, ty))| match cell {
                            None => "null".to_string(),
                            Some(bytes) => to_cql_text(ty, bytes),
                        })
                        .collect();
                    writeln!(f, "  {}", cells.join(" | "))?;
                }
                write!(f, "{} rows in pages {pages:?}", rows.len())
            }
        }
    }
}

/// No statement of ours reads more pages; more would be a loop.
const PAGES_MAX: usize = 2000;

/// Sends a statement and gathers its answer.
pub(super) fn ask(client: &mut Client, statement: &Statement) -> Result<Answer, ClientError> {
    if let Some((kind, parts)) = &statement.parts {
        return ask_batch(client, *kind, parts);
    }
    let mut execution = Execution { page_size: statement.page_size, ..Execution::default() };
    let mut prepared: Option<PreparedResponse> = None;
    let mut markers = None;
    if let Some(values) = &statement.values {
        execution.values.clone_from(values);
        match client.prepare(&statement.text)? {
            Ok(response) => {
                let list: Vec<String> =
                    response.bind.iter().map(|c| format!("{} {}", c.name, c.cql_type)).collect();
                let key = &response.partition_key_indexes;
                markers = Some(format!("markers ({}) key {key:?}\n", list.join(", ")));
                prepared = Some(response);
            }
            Err(message) => return Ok(told(&message, None)),
        }
    }
    let mut rows: Vec<Vec<Option<Vec<u8>>>> = Vec::new();
    let mut pages = Vec::new();
    loop {
        let message = match &prepared {
            Some(prepared) => client.execute(prepared, &execution)?,
            None => client.query(&statement.text, &execution)?,
        };
        let Response::Rows(page) = &message.response else {
            return Ok(told(&message, markers));
        };
        pages.push(page.row_count);
        for row in page.rows() {
            rows.push(row.iter().map(|cell| cell.map(with_one_name)).collect());
        }
        match &page.metadata.paging_state {
            Some(state) if pages.len() < PAGES_MAX => {
                execution.paging_state = Some(state.clone());
            }
            _ => {
                let columns = page.metadata.columns.as_deref().unwrap_or_default();
                for row in &mut rows {
                    for (cell, column) in row.iter_mut().zip(columns) {
                        unsign_nan(&column.cql_type, cell);
                    }
                }
                let columns = columns
                    .iter()
                    .map(|c| {
                        // Cassandra names this function as whoever asked first for that type did.
                        let name = c.name.replace("system.tojson(", "system.to_json(");
                        (format!("{}.{}.{name}", c.keyspace, c.table), c.cql_type.clone())
                    })
                    .collect();
                return Ok(Answer::Rows { markers, columns, rows, pages });
            }
        }
    }
}

/// Sends a batch; parts with values are prepared.
fn ask_batch(
    client: &mut Client,
    kind: BatchKind,
    parts: &[Statement],
) -> Result<Answer, ClientError> {
    let mut statements = Vec::new();
    for part in parts {
        let prepared = match &part.values {
            Some(_) => match client.prepare(&part.text)? {
                Ok(prepared) => Some(prepared),
                Err(message) => return Ok(told(&message, None)),
            },
            None => None,
        };
        statements.push((part.text.clone(), prepared, part.values.clone().unwrap_or_default()));
    }
    Ok(told(&client.batch(kind, &statements)?, None))
}

/// Whether NaN has a sign after `abs` depends on how Java compiled it.
fn unsign_nan(ty: &CqlType, cell: &mut Option<Vec<u8>>) {
    let Some(bytes) = cell else { return };
    let is_nan =
        match ty {
            CqlType::Float => <[u8; 4]>::try_from(bytes.as_slice())
                .is_ok_and(|it| f32::from_be_bytes(it).is_nan()),
            CqlType::Double => <[u8; 8]>::try_from(bytes.as_slice())
                .is_ok_and(|it| f64::from_be_bytes(it).is_nan()),
            _ => false,
        };
    if let Some(first) = bytes.first_mut().filter(|_| is_nan) {
        *first &= 0x7f;
    }
}

/// Cassandra names this function as whoever asked first for a type did, also inside JSON.
fn with_one_name(cell: &[u8]) -> Vec<u8> {
    const NAME: &str = "system.tojson(";
    match std::str::from_utf8(cell) {
        Ok(text) if text.contains(NAME) => text.replace(NAME, "system.to_json(").into_bytes(),
        _ => cell.to_vec(),
    }
}

/// The answer of one message.
pub(super) fn told(message: &ResponseMessage, markers: Option<String>) -> Answer {
    match &message.response {
        // The result of a conditional batch.
        Response::Rows(page) => {
            let columns = page.metadata.columns.as_deref().unwrap_or_default();
            let name = |c: &ColumnSpec| format!("{}.{}.{}", c.keyspace, c.table, c.name);
            Answer::Rows {
                markers,
                columns: columns.iter().map(|c| (name(c), c.cql_type.clone())).collect(),
                rows: page
                    .rows()
                    .map(|row| row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect())
                    .collect(),
                pages: vec![page.row_count],
            }
        }
        Response::Error(error) => Answer::Error {
            code: error.kind.code(),
            message: crate::golden::with_sorted_signatures(&error.message),
        },
        other => Answer::Other { markers, text: format!("{other:?}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32, message: &str) -> Answer {
        Answer::Error { code, message: message.into() }
    }

    #[test]
    fn the_text_of_an_error_is_softer_than_its_code() {
        assert_eq!(error(0x2200, "a").relation(&error(0x2200, "a")), Relation::Equal);
        assert_eq!(error(0x2200, "a").relation(&error(0x2200, "b")), Relation::Soft);
        assert_eq!(error(0x2200, "a").relation(&error(0x2000, "a")), Relation::Different);
    }
}
