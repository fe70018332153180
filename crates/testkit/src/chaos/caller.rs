//! A client that asks another node when its own does not answer, and notes how each request ended.

use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::{Consistency, ErrorKind, Response};

use super::ground::{Call, Ended, Ground};
use crate::{Client, Execution};

/// A node that does not answer is given up after this, and what was asked of it is open.
const PATIENCE: Duration = Duration::from_secs(12);
/// A node that is not there is looked for so often, and then another one.
const LOOKS_AGAIN: Duration = Duration::from_millis(25);

/// Cells of rows, by place; columns by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Vec<Option<Vec<u8>>>>,
    pub(crate) next_page: Option<Vec<u8>>,
}

impl Table {
    fn cell(&self, row: usize, name: &str) -> Option<&[u8]> {
        let column = self.names.iter().position(|known| known == name)?;
        self.rows.get(row)?.get(column)?.as_deref()
    }

    pub(crate) fn int(&self, row: usize, name: &str) -> Option<i32> {
        self.cell(row, name)?.try_into().ok().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&self, row: usize, name: &str) -> Option<i64> {
        self.cell(row, name)?.try_into().ok().map(i64::from_be_bytes)
    }

    pub(crate) fn text(&self, row: usize, name: &str) -> Option<String> {
        String::from_utf8(self.cell(row, name)?.to_vec()).ok()
    }

    /// The elements of a list; one that is not there is empty.
    pub(crate) fn ints(&self, row: usize, name: &str) -> Vec<i32> {
        let bytes = self.cell(row, name).and_then(|bytes| bytes.get(4..)).unwrap_or_default();
        let number = |it: &[u8]| it.get(4..)?.try_into().ok().map(i32::from_be_bytes);
        bytes.chunks(8).filter_map(number).collect()
    }

    /// All values of a column that are there.
    pub(crate) fn column(&self, name: &str) -> Vec<i32> {
        (0..self.rows.len()).filter_map(|row| self.int(row, name)).collect()
    }

    /// Whether a conditional write was applied.
    pub(crate) fn is_applied(&self) -> bool {
        self.cell(0, "[applied]") == Some(&[1])
    }
}

/// What errors of definitions say while the disk of their node is full.
const DISK_FULL: [&str; 2] = ["no storage space", "No space left on device"];

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Told {
    Rows(Table),
    Refused,
    Unknown,
}

/// The client.
pub(crate) struct Caller<'a> {
    pub(crate) number: u32,
    pub(crate) ground: &'a Ground,
    place: usize,
    client: Option<Client>,
    /// How many connections it had.
    pub(crate) connection: u64,
    pub(crate) calls: Vec<Call>,
    /// Errors that no fault explains, each with its statement.
    pub(crate) strange: Vec<(u64, String)>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(number: u32, ground: &'a Ground) -> Caller<'a> {
        let place = number as usize;
        Caller {
            number,
            ground,
            place,
            client: None,
            connection: 0,
            calls: Vec::new(),
            strange: Vec::new(),
        }
    }

    /// Uses a connection that is there.
    pub(crate) fn adopt(&mut self, client: Client) {
        self.client = Some(client);
    }

    /// Has a connection, to this node or another; not if all is over.
    pub(crate) fn connect(&mut self) -> bool {
        while self.client.is_none() {
            if self.ground.is_over() {
                return false;
            }
            match Client::connect(&self.ground.address(self.place)) {
                Ok(mut client) => {
                    if client.set_patience(PATIENCE).is_ok() {
                        self.client = Some(client);
                        self.connection += 1;
                    }
                }
                Err(_) => {
                    self.place += 1;
                    std::thread::sleep(LOOKS_AGAIN);
                }
            }
        }
        !self.ground.is_over()
    }

    /// Asks at QUORUM.
    pub(crate) fn ask(&mut self, kind: &'static str, text: &str) -> Told {
        self.ask_with(kind, text, &Execution::at(Consistency::Quorum))
    }

    pub(crate) fn ask_with(
        &mut self,
        kind: &'static str,
        text: &str,
        execution: &Execution,
    ) -> Told {
        let Some(client) = &mut self.client else { return Told::Refused };
        let begun_ns = self.ground.now_ns();
        let answer = client.query(text, execution);
        let told = match answer.map(|message| message.response) {
            Ok(Response::Error(error)) => match error.kind {
                ErrorKind::Unavailable { .. }
                | ErrorKind::Overloaded
                | ErrorKind::IsBootstrapping => Told::Refused,
                ErrorKind::WriteTimeout { .. }
                | ErrorKind::ReadTimeout { .. }
                | ErrorKind::WriteFailure { .. }
                | ErrorKind::ReadFailure { .. }
                | ErrorKind::Truncate => Told::Unknown,
                // What is dropped is kept first, and there may be no room for that.
                ErrorKind::Server if DISK_FULL.iter().any(|it| error.message.contains(it)) => {
                    Told::Unknown
                }
                ref kind => {
                    let said = format!("{text}: {} (0x{:04x})", error.message, kind.code());
                    self.strange.push((begun_ns / 1_000_000, said));
                    Told::Unknown
                }
            },
            Ok(Response::Rows(rows)) => {
                let columns = rows.metadata.columns.iter().flatten();
                let cells = |row: Vec<Option<&[u8]>>| {
                    row.into_iter().map(|cell| cell.map(<[u8]>::to_vec)).collect()
                };
                Told::Rows(Table {
                    names: columns.map(|column| column.name.to_string()).collect(),
                    rows: rows.rows().map(|row| cells(row.to_vec())).collect(),
                    next_page: rows.metadata.paging_state.clone(),
                })
            }
            Ok(_) => Told::Rows(Table::default()),
            Err(_) => {
                self.client = None;
                self.place += 1;
                Told::Unknown
            }
        };
        let ended = match told {
            Told::Rows(_) => Ended::Answered,
            Told::Refused => Ended::Refused,
            Told::Unknown => Ended::Unknown,
        };
        let took_us = (self.ground.now_ns() - begun_ns) / 1_000;
        self.calls.push(Call { at_ms: begun_ns / 1_000_000, took_us, ended, kind });
        if ended == Ended::Answered {
            if let Some(count) = self.ground.answered.get(self.number as usize) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        } else {
            // As a policy for retries would.
            std::thread::sleep(LOOKS_AGAIN);
        }
        told
    }
}
