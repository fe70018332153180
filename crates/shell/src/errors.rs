//! Errors as cqlsh tells them.

use protocol::{ErrorKind, ErrorResponse};

use crate::client::ClientError;

/// One line for a statement that failed.
pub(crate) fn describe(error: &ClientError) -> String {
    match error {
        ClientError::Refused(refused) => describe_refusal(refused),
        ClientError::TimedOut => {
            "OperationTimedOut: the node did not answer in time; --request-timeout SECONDS waits longer"
                .to_owned()
        }
        ClientError::Cancelled => error.to_string(),
        other => format!("ConnectionException: {other}"),
    }
}

fn describe_refusal(error: &ErrorResponse) -> String {
    let (class, summary) = names(&error.kind);
    let message = &error.message;
    let code = error.kind.code();
    let whole =
        format!("{class}: Error from server: code={code:04x} [{summary}] message=\"{message}\"");
    match &error.kind {
        ErrorKind::AlreadyExists { keyspace, table } if table.is_empty() => {
            format!("{class}: Keyspace '{keyspace}' already exists")
        }
        ErrorKind::AlreadyExists { keyspace, table } => {
            format!("{class}: Table '{keyspace}.{table}' already exists")
        }
        ErrorKind::Unavailable { consistency, required, alive } => format!(
            "{whole} info={{'consistency': '{consistency}', 'required_replicas': {required}, \
             'alive_replicas': {alive}}}"
        ),
        ErrorKind::ReadTimeout { consistency, received, required, .. }
        | ErrorKind::ReadFailure { consistency, received, required, .. }
        | ErrorKind::CasWriteUnknown { consistency, received, required } => format!(
            "{whole} info={{'consistency': '{consistency}', 'required_responses': {required}, \
             'received_responses': {received}}}"
        ),
        ErrorKind::WriteTimeout { consistency, received, required, write_type, .. }
        | ErrorKind::WriteFailure { consistency, received, required, write_type, .. } => format!(
            "{whole} info={{'consistency': '{consistency}', 'required_responses': {required}, \
             'received_responses': {received}, 'write_type': '{}'}}",
            write_type.name()
        ),
        ErrorKind::Invalid | ErrorKind::Unauthorized | ErrorKind::FunctionFailure { .. } => whole,
        _ => format!("{class}: {message}"),
    }
}

/// The class that Python's driver raises, and its summary.
fn names(kind: &ErrorKind) -> (&'static str, &'static str) {
    let timed_out = "Coordinator node timed out waiting for replica nodes' responses";
    match kind {
        ErrorKind::Server => ("ServerError", "Server error"),
        ErrorKind::Protocol => ("ProtocolException", "Protocol error"),
        ErrorKind::BadCredentials => ("BadCredentials", "Bad credentials"),
        ErrorKind::Unavailable { .. } => ("Unavailable", "Unavailable exception"),
        ErrorKind::Overloaded => ("OverloadedErrorMessage", "Coordinator node overloaded"),
        ErrorKind::IsBootstrapping => {
            ("IsBootstrappingErrorMessage", "Coordinator node is bootstrapping")
        }
        ErrorKind::Truncate => ("TruncateError", "Error during truncate"),
        ErrorKind::WriteTimeout { .. } => ("WriteTimeout", timed_out),
        ErrorKind::ReadTimeout { .. } => ("ReadTimeout", timed_out),
        ErrorKind::ReadFailure { .. } => ("ReadFailure", "Replica(s) failed to execute read"),
        ErrorKind::FunctionFailure { .. } => ("FunctionFailure", "User Defined Function failure"),
        ErrorKind::WriteFailure { .. } => ("WriteFailure", "Replica(s) failed to execute write"),
        ErrorKind::CdcWriteFailure => {
            ("CDCWriteException", "Failed to execute write due to CDC space exhaustion.")
        }
        ErrorKind::CasWriteUnknown { .. } => {
            ("CasWriteUnknown", "The outcome of the conditional write is unknown")
        }
        ErrorKind::Syntax => ("SyntaxException", "Syntax error in CQL query"),
        ErrorKind::Unauthorized => ("Unauthorized", "Unauthorized"),
        ErrorKind::Invalid => ("InvalidRequest", "Invalid query"),
        ErrorKind::Config => {
            ("ConfigurationException", "Query invalid because of configuration issue")
        }
        ErrorKind::AlreadyExists { .. } => ("AlreadyExists", "Item already exists"),
        ErrorKind::Unprepared { .. } => {
            ("PreparedQueryNotFound", "Matching prepared statement not found on this node")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Consistency;

    #[test]
    fn errors_have_the_names_that_people_search_for() {
        let check = |kind: ErrorKind, expect: &str| {
            let error = ClientError::Refused(ErrorResponse::new(kind, "no"));
            assert_eq!(describe(&error), expect);
        };
        check(
            ErrorKind::Invalid,
            "InvalidRequest: Error from server: code=2200 [Invalid query] message=\"no\"",
        );
        check(ErrorKind::Syntax, "SyntaxException: no");
        check(ErrorKind::Config, "ConfigurationException: no");
        check(
            ErrorKind::Unauthorized,
            "Unauthorized: Error from server: code=2100 [Unauthorized] message=\"no\"",
        );
        let (keyspace, table) = ("shop".to_owned(), String::new());
        check(
            ErrorKind::AlreadyExists { keyspace, table },
            "AlreadyExists: Keyspace 'shop' already exists",
        );
        let (keyspace, table) = ("shop".to_owned(), "carts".to_owned());
        check(
            ErrorKind::AlreadyExists { keyspace, table },
            "AlreadyExists: Table 'shop.carts' already exists",
        );
        check(
            ErrorKind::Unavailable { consistency: Consistency::Quorum, required: 2, alive: 1 },
            "Unavailable: Error from server: code=1000 [Unavailable exception] message=\"no\" \
             info={'consistency': 'QUORUM', 'required_replicas': 2, 'alive_replicas': 1}",
        );
    }
}
