//! From what went wrong to what the client is told: the only place that knows the codes of errors.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use coordinator::ExecuteError;
use plan::PlanError;
use protocol::{Consistency, ErrorKind, ErrorResponse, Failures, ProtocolError, WriteType};
use replica::CommitError;
use roles::{LoginError, RoleError};
use schema::SchemaError;
use types::{CorruptRow, UuidText};

use crate::auth::TooFast;
use crate::load::Overload;
use crate::world;

/// What a request needs of the members of its replica sets, as errors tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The level that asks for it.
    pub(crate) level: Consistency,
    /// So many members must answer.
    pub(crate) required: usize,
}

impl Needs {
    /// A node that runs alone is all that is needed.
    pub(crate) fn alone(level: Consistency) -> Needs {
        Needs { level, required: 1 }
    }

    fn required(self) -> i32 {
        i32::try_from(self.required).unwrap_or(i32::MAX)
    }
}

/// Why a request failed, from whichever room.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Its bytes.
    Protocol(ProtocolError),
    /// Its statement or values.
    Plan(PlanError),
    /// Its execution.
    Execute(ExecuteError),
    /// Its change, which was one of this kind.
    Write(CommitError, WriteType, Needs),
    /// What it found stored.
    Corrupt(CorruptRow),
    /// The rights of its sender, or what it does to roles.
    Role(RoleError),
    /// The statement of this id is not kept.
    Unprepared(Vec<u8>),
    /// A change was not done in time; whether it will be is unknown.
    WriteTimedOut(WriteType, Needs),
    /// A read was not done in time.
    ReadTimedOut(Needs),
    /// Too few members are alive: nothing was done.
    Unavailable {
        needs: Needs,
        alive: usize,
        /// Where they are too few, for levels that look at data centers one by one.
        data_center: Arc<str>,
    },
    /// The node has too much to do: nothing was done.
    Overloaded {
        overload: Overload,
        /// Memory that requests and answers take, and may take.
        held_bytes: u64,
        held_bytes_max: u64,
    },
    /// Too few members of a set of the table are alive for a TRUNCATE.
    TruncateUnavailable,
    /// A TRUNCATE took too long; it goes on.
    TruncateTimedOut,
    /// A node could not do its part of a TRUNCATE, for this reason.
    TruncateFailed(String),
    /// It asks for more than a guardrail allows.
    Guardrail {
        text: String,
        /// What it is told beside that, this text again included, as Cassandra does.
        warnings: Vec<String>,
    },
    /// Its role runs more statements than it may: nothing was done.
    TooFast(TooFast, Arc<str>),
    /// A bug of ours.
    Bug,
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Failure {
        Failure::Protocol(error)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        Failure::Plan(error)
    }
}

impl From<ExecuteError> for Failure {
    fn from(error: ExecuteError) -> Failure {
        Failure::Execute(error)
    }
}

impl From<CorruptRow> for Failure {
    fn from(error: CorruptRow) -> Failure {
        Failure::Corrupt(error)
    }
}

impl From<RoleError> for Failure {
    fn from(error: RoleError) -> Failure {
        Failure::Role(error)
    }
}

impl Failure {
    /// Why a plan could not be run that makes changes of this kind, if it makes any.
    pub(crate) fn of_execution(
        error: ExecuteError,
        write_type: WriteType,
        needs: Needs,
    ) -> Failure {
        match error {
            ExecuteError::Commit(CommitError::TimedOut) => {
                Failure::WriteTimedOut(write_type, needs)
            }
            ExecuteError::Commit(error) => Failure::Write(error, write_type, needs),
            ExecuteError::ReadTimedOut => Failure::ReadTimedOut(needs),
            error => Failure::Execute(error),
        }
    }

    /// Whether it was refused because there is too much to do, so that nothing was done.
    pub(crate) fn is_throttled(&self) -> bool {
        matches!(
            self,
            Failure::Execute(ExecuteError::Throttled(_))
                | Failure::Overloaded { .. }
                | Failure::TooFast(..)
        )
    }

    /// What its client is told beside the error.
    pub(crate) fn warnings(&self) -> &[String] {
        match self {
            Failure::Guardrail { warnings, .. } => warnings,
            _ => &[],
        }
    }

    /// The answer. `consistency` is what the request asked for.
    pub(crate) fn response(&self, consistency: Consistency) -> ErrorResponse {
        match self {
            Failure::Protocol(error) => ErrorResponse::of_protocol_error(error),
            Failure::Plan(error) => of_plan(error),
            Failure::Execute(error) => of_execute(error, consistency),
            Failure::Write(error, write_type, needs) => of_commit(error, *write_type, *needs),
            Failure::Unavailable { needs, alive, data_center } => {
                unavailable(*needs, *alive, Some(data_center))
            }
            Failure::ReadTimedOut(needs) => read_timeout(*needs),
            Failure::Corrupt(error) => read_failure(error, consistency),
            Failure::Role(error) => {
                let kind = match error {
                    RoleError::Invalid(_) => ErrorKind::Invalid,
                    RoleError::Unauthorized(_) => ErrorKind::Unauthorized,
                    RoleError::Failed(_) => ErrorKind::Server,
                };
                ErrorResponse::new(kind, error.to_string())
            }
            Failure::Unprepared(id) => {
                let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
                let text = format!(
                    "Prepared query with ID {hex} not found (either the query was not prepared on \
                     this host (maybe the host has been restarted?) or you have prepared too many \
                     queries and it has been evicted from the internal cache)"
                );
                ErrorResponse::new(ErrorKind::Unprepared { id: id.clone() }, text)
            }
            Failure::WriteTimedOut(write_type, needs) => write_timeout(*write_type, *needs),
            Failure::Overloaded { overload, held_bytes: held, held_bytes_max: max } => {
                let text = match overload {
                    Overload::Time => "Query timed out before it could start".to_owned(),
                    Overload::Memory => format!(
                        "Request breached limit on bytes in flight. (Endpoint: {held}/{max} bytes, \
                         Global: {held}/{max} bytes.)Server is currently in an overloaded state and \
                         cannot accept more requests."
                    ),
                };
                ErrorResponse::new(ErrorKind::Overloaded, text)
            }
            Failure::TruncateUnavailable => {
                let text = "Error during truncate: Cannot achieve consistency level QUORUM";
                ErrorResponse::new(ErrorKind::Truncate, text)
            }
            Failure::TruncateTimedOut => {
                let text = "Truncate timed out - received only 0 responses";
                ErrorResponse::new(ErrorKind::Truncate, text)
            }
            Failure::TruncateFailed(why) => {
                ErrorResponse::new(ErrorKind::Truncate, format!("Error during truncate: {why}"))
            }
            Failure::Guardrail { text, .. } => ErrorResponse::new(ErrorKind::Invalid, text.clone()),
            Failure::TooFast(TooFast { statements_per_second, wait }, role) => {
                // In the form that retry policies read, as below; at least one millisecond.
                let wait_ms = wait.as_millis() + 1;
                let text = format!(
                    "Request rate is large: limits.statements_per_second_per_role is \
                     {statements_per_second}, RetryAfterMs={wait_ms}, Additional \
                     details='TooManyRequests (429); role {role}'"
                );
                ErrorResponse::new(ErrorKind::Overloaded, text)
            }
            Failure::Bug => {
                ErrorResponse::new(ErrorKind::Server, "An error of the server, see its log")
            }
        }
    }
}

fn of_plan(error: &PlanError) -> ErrorResponse {
    let kind = match error {
        PlanError::Syntax(_) => ErrorKind::Syntax,
        PlanError::Invalid(_) => ErrorKind::Invalid,
        PlanError::Unauthorized(_) => ErrorKind::Unauthorized,
        PlanError::Configuration(_) => ErrorKind::Config,
        PlanError::AlreadyExists { keyspace, table } => {
            ErrorKind::AlreadyExists { keyspace: keyspace.to_string(), table: table.to_string() }
        }
        PlanError::FunctionFailure { keyspace, function, argument_types, .. } => {
            ErrorKind::FunctionFailure {
                keyspace: keyspace.to_string(),
                name: function.to_string(),
                argument_types: argument_types.clone(),
            }
        }
    };
    ErrorResponse::new(kind, error.to_string())
}

fn of_schema(error: &SchemaError) -> ErrorResponse {
    let kind = match error {
        SchemaError::Syntax(_) => ErrorKind::Syntax,
        SchemaError::Invalid(_) => ErrorKind::Invalid,
        SchemaError::Configuration(_) => ErrorKind::Config,
        SchemaError::AlreadyExists { keyspace, table } => {
            ErrorKind::AlreadyExists { keyspace: keyspace.clone(), table: table.clone() }
        }
        SchemaError::Unauthorized(_) => ErrorKind::Unauthorized,
        SchemaError::Server(_) => ErrorKind::Server,
    };
    ErrorResponse::new(kind, error.to_string())
}

fn of_execute(error: &ExecuteError, consistency: Consistency) -> ErrorResponse {
    let (received, required) = (0, 1);
    match error {
        ExecuteError::Plan(error) => of_plan(error),
        ExecuteError::Schema(error) => of_schema(error),
        ExecuteError::Read(error) => read_failure(error, consistency),
        ExecuteError::Commit(error) => {
            of_commit(error, WriteType::Simple, Needs::alone(consistency))
        }
        ExecuteError::Corrupt(error) => read_failure(error, consistency),
        // Cassandra calls it a protocol error, on which drivers close the connection under all requests.
        ExecuteError::PagingState => ErrorResponse::new(ErrorKind::Invalid, error.to_string()),
        ExecuteError::ReadTimedOut => read_timeout(Needs::alone(consistency)),
        ExecuteError::ResultTooLarge { .. } => {
            let failures = Failures { count: 1, reasons: Vec::new() };
            let data_present = true;
            ErrorResponse::new(
                ErrorKind::ReadFailure { consistency, received, required, failures, data_present },
                error.to_string(),
            )
        }
        // Told by the server before it comes here.
        ExecuteError::TooLong | ExecuteError::Elsewhere | ExecuteError::Crowded => {
            ErrorResponse::new(ErrorKind::Overloaded, error.to_string())
        }
        ExecuteError::Throttled(wait) => {
            ErrorResponse::new(ErrorKind::Overloaded, too_large(*wait))
        }
        ExecuteError::Invalid(text) => ErrorResponse::new(ErrorKind::Invalid, text.clone()),
    }
}

/// The text that existing retry policies parse (cosmos-facts 2.3): `RetryAfterMs` is the second field
/// between commas, a number without blanks.
fn too_large(wait: Duration) -> String {
    let id = UuidText(u128::from_be_bytes(world::random_bytes().unwrap_or_default()));
    let wait_ms = wait.as_millis();
    format!(
        "Request rate is large: ActivityID={id}, RetryAfterMs={wait_ms}, Additional \
         details='Response status code does not indicate success: TooManyRequests (429); Substatus: \
         3200; ActivityId: {id}; Reason: (The request rate is larger than the provisioned \
         throughput)'"
    )
}

fn read_failure(error: &dyn Display, consistency: Consistency) -> ErrorResponse {
    tracing::error!(%error, "a read failed");
    ErrorResponse::new(
        ErrorKind::ReadFailure {
            consistency,
            received: 0,
            required: 1,
            failures: Failures { count: 1, reasons: Vec::new() },
            data_present: false,
        },
        format!("Operation failed - received 0 responses and 1 failures: {error}"),
    )
}

/// Cassandra's words for too few replicas.
fn unavailable(needs: Needs, alive: usize, data_center: Option<&str>) -> ErrorResponse {
    let (consistency, required) = (needs.level, needs.required());
    let alive = i32::try_from(alive).unwrap_or(i32::MAX);
    let place = match (consistency, data_center) {
        (Consistency::EachQuorum, Some(name)) => format!(" in DC {name}"),
        _ => String::new(),
    };
    ErrorResponse::new(
        ErrorKind::Unavailable { consistency, required, alive },
        format!("Cannot achieve consistency level {consistency}{place}"),
    )
}

/// Nobody answered this node in time; what the members did is not known.
const NO_RESPONSES: &str = "Operation timed out - received only 0 responses.";

fn read_timeout(needs: Needs) -> ErrorResponse {
    let (consistency, required) = (needs.level, needs.required());
    let (received, data_present) = (0, false);
    ErrorResponse::new(
        ErrorKind::ReadTimeout { consistency, received, required, data_present },
        NO_RESPONSES,
    )
}

fn write_timeout(write_type: WriteType, needs: Needs) -> ErrorResponse {
    let contentions = (write_type == WriteType::Cas).then_some(0);
    let (consistency, required) = (needs.level, needs.required());
    let received = 0;
    ErrorResponse::new(
        ErrorKind::WriteTimeout { consistency, received, required, write_type, contentions },
        NO_RESPONSES,
    )
}

fn of_commit(error: &CommitError, write_type: WriteType, needs: Needs) -> ErrorResponse {
    match error {
        CommitError::Refused(_)
        | CommitError::TooLarge { .. }
        | CommitError::ClusteringTooLong { .. } => {
            ErrorResponse::new(ErrorKind::Invalid, error.to_string())
        }
        CommitError::DiskFull
        | CommitError::CannotWriteNow(_)
        | CommitError::Overloaded
        | CommitError::Moved
        | CommitError::Stale
        | CommitError::TooLate => ErrorResponse::new(ErrorKind::Overloaded, error.to_string()),
        CommitError::Unavailable { required, alive } => {
            let required = needs.required.max(*required);
            unavailable(Needs { required, ..needs }, *alive, None)
        }
        CommitError::TimedOut => write_timeout(write_type, needs),
        CommitError::LogFailed(_) | CommitError::Tree { .. } | CommitError::Closed => {
            tracing::error!(%error, "a write failed");
            ErrorResponse::new(
                ErrorKind::WriteFailure {
                    consistency: needs.level,
                    received: 0,
                    required: needs.required(),
                    failures: Failures { count: 1, reasons: Vec::new() },
                    write_type,
                },
                format!("Operation failed - received 0 responses and 1 failures: {error}"),
            )
        }
    }
}

/// What a client is told that may not come in.
pub(crate) fn login_refused(error: &LoginError) -> ErrorResponse {
    let kind = match error {
        LoginError::TooMany | LoginError::TooManySessions { .. } => ErrorKind::Overloaded,
        LoginError::Wrong { .. } | LoginError::NotPermitted { .. } | LoginError::FirstPassword => {
            ErrorKind::BadCredentials
        }
    };
    ErrorResponse::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule of azure-cosmos-cassandra-extensions (Java): fields between commas, split at `=` into
    /// exactly two parts, the key trimmed, the value straight into an integer parser.
    fn java_rule(text: &str) -> Option<i32> {
        text.split(',').find_map(|field| match field.split('=').collect::<Vec<_>>().as_slice() {
            [key, value] if key.trim() == "RetryAfterMs" => value.parse().ok(),
            _ => None,
        })
    }

    /// The rule of cosmos-cassandra-go-extension: a marker, and the second field.
    fn go_rule(text: &str) -> Option<i32> {
        let field = text.contains("TooManyRequests (429)").then(|| text.split(',').nth(1))??;
        field.trim().strip_prefix("RetryAfterMs=")?.parse().ok()
    }

    #[test]
    fn public_retry_policies_read_the_wait() {
        for wait_ms in [1, 12, 5_000, 60_000] {
            let error = ExecuteError::Throttled(Duration::from_millis(wait_ms));
            let response = Failure::from(error).response(Consistency::One);
            assert_eq!(response.kind.code(), 0x1001);
            let expected = i32::try_from(wait_ms).ok();
            assert_eq!(java_rule(&response.message), expected, "{}", response.message);
            assert_eq!(go_rule(&response.message), expected, "{}", response.message);
            assert!(response.message.starts_with("Request rate is large: ActivityID="));
        }
    }
}
