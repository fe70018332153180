//! Reads of sets whose rows lie on other nodes: in parts, one after the other, each from whoever has them then.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use storage::ReadError;
use types::travel::{Fault, PartBounds, ReadOn, ReadRequest, RowsPart, encode_read_request};
use types::{ReadCommand, RowSink, SetId, TableId};

use crate::group::{Groups, RowsOutcome};
use crate::witness::TraceContext;

/// The first part of a read is small: most reads want little. Each further one may be twice as large, up to [`LARGEST_PART`].
const FIRST_PART: (u32, u32) = (256, 64 * 1024);
/// A part never has more rows and bytes, so that it does not keep other messages of its link waiting for long.
const LARGEST_PART: (u32, u32) = (16_384, 512 * 1024);
/// So long a node may take for one part.
const PART_MS: u32 = 400;
/// Whoever waits for a part looks so often whether it is still worth it.
const LOOK: Duration = Duration::from_millis(20);

/// How far a read may go for its rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach<'a> {
    /// Whether everything must be seen that was committed before.
    pub is_strong: bool,
    /// Sets whose members here are known to have that.
    pub confirmed: &'a [SetId],
    /// Whether its thread may wait for other nodes.
    pub may_wait: bool,
    /// Which span it is a part of, where it is traced.
    pub trace: Option<&'a TraceContext>,
}

/// Why rows of a set could not be read.
#[derive(Clone, Debug)]
pub enum SetReadError {
    /// They are stored here, or where they were asked for, and cannot be read.
    Stored(ReadError),
    /// They lie on other nodes, and the thread may not wait for those.
    Elsewhere,
    /// The set was split, or is somewhere else, since the map was looked at.
    Moved,
    /// Nobody answered in time.
    TimedOut,
    /// Too few members are alive.
    Unavailable {
        /// So many are needed.
        required: usize,
        /// So many are.
        alive: usize,
    },
}

impl From<ReadError> for SetReadError {
    fn from(error: ReadError) -> SetReadError {
        SetReadError::Stored(error)
    }
}

impl fmt::Display for SetReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetReadError::Stored(error) => error.fmt(f),
            SetReadError::Elsewhere => f.write_str("the rows lie on other nodes"),
            SetReadError::Moved => f.write_str("the physical partition was split"),
            SetReadError::TimedOut => f.write_str("no node that has the rows answered in time"),
            SetReadError::Unavailable { required, alive } => {
                write!(f, "{required} members must be alive, and {alive} are")
            }
        }
    }
}

/// Reads rows of a set from members on other nodes, and hands them to the sink as storage would. It waits.
pub(crate) fn read(
    groups: &Groups,
    set: SetId,
    command: &ReadCommand,
    reach: Reach<'_>,
    sink: &mut dyn RowSink,
) -> Result<(), SetReadError> {
    let (mut rows_max, mut bytes_max) = FIRST_PART;
    let mut command = command.clone();
    loop {
        let bounds =
            PartBounds { rows_max, bytes_max, time_ms_max: PART_MS, partition_rows_max: None };
        let mut body = Vec::new();
        let request = ReadRequest { command, bounds };
        encode_read_request(&request, &mut body);
        command = request.command;
        let Some(part) = part(groups, set, Bytes::from(body), reach, sink, command.table)? else {
            return Ok(());
        };
        let corrupt = || malformed(command.table);
        let part = RowsPart::decode(part).map_err(|_| corrupt())?;
        match part.hand_to(&command, sink).map_err(|_| corrupt())? {
            ReadOn::Over => return Ok(()),
            ReadOn::After(after) | ReadOn::OutOfTime(Some(after)) => command.after = Some(after),
            ReadOn::OutOfTime(None) => {}
        }
        let (rows_most, bytes_most) = LARGEST_PART;
        rows_max = rows_max.saturating_mul(2).min(rows_most);
        bytes_max = bytes_max.saturating_mul(2).min(bytes_most);
    }
}

/// One part; none if whoever wants it gave up.
fn part(
    groups: &Groups,
    set: SetId,
    body: Bytes,
    reach: Reach<'_>,
    sink: &mut dyn RowSink,
    table: TableId,
) -> Result<Option<Bytes>, SetReadError> {
    let (sender, receiver) = sync_channel(1);
    let tell = move |outcome| {
        let _ = sender.send(outcome);
    };
    groups.read_elsewhere(set, body, reach.is_strong, reach.trace.copied(), Box::new(tell));
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(RowsOutcome::Part(part)) => return Ok(Some(part)),
            Ok(RowsOutcome::Failed(fault)) => return Err(error_of(fault, table)),
            Ok(RowsOutcome::Unavailable { required, alive }) => {
                return Err(SetReadError::Unavailable { required, alive });
            }
            Ok(RowsOutcome::Moved) => return Err(SetReadError::Moved),
            // Nobody was asked for a look: none comes.
            Ok(RowsOutcome::TimedOut | RowsOutcome::Looked(_))
            | Err(RecvTimeoutError::Disconnected) => {
                return Err(SetReadError::TimedOut);
            }
            Err(RecvTimeoutError::Timeout) if !sink.go_on() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn malformed(table: TableId) -> SetReadError {
    let what = Arc::from("what another node sent of it cannot be understood");
    SetReadError::Stored(ReadError::Corrupt { table, what })
}

fn error_of(fault: Fault, table: TableId) -> SetReadError {
    SetReadError::Stored(match fault {
        Fault::Damaged { table, what } => ReadError::Corrupt { table, what: what.into() },
        Fault::Io { table, what } => {
            ReadError::Io { table, error: Arc::new(io::Error::other(what)) }
        }
        other => ReadError::Io { table, error: Arc::new(io::Error::other(format!("{other:?}"))) },
    })
}
