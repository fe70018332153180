//! What a connection is at, and what each kind of request means there. Statements themselves are
//! run by [`Statements`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use protocol::{
    Compression, ErrorKind, ErrorResponse, EventKinds, Frame, Opcode, Request, RequestMessage,
    ResponseHead, StartupChoice, StringMap, TABLETS_ROUTING, Version,
};
use replica::AnswerTo;
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::Seat;
use crate::clients::{Registration, kept_options};
use crate::connection::{Promised, Wait};
use crate::load::{Holding, Overload};
use crate::metrics::RequestKind;

/// What drivers know Cassandra's password check as.
const PASSWORD_AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// The version of CQL that is spoken.
pub(crate) const CQL_VERSION: &str = "3.4.7";

/// Runs statements and checks passwords. The session knows how a client speaks, this knows what it
/// means.
pub(crate) trait Statements: Send + Sync {
    /// Serves QUERY, PREPARE, EXECUTE or BATCH: appends the answer to `out`, or says that it takes
    /// a while. `message` was decoded from `frame`.
    fn serve(
        &self,
        client: &Client,
        frame: &Frame,
        message: &RequestMessage<'_>,
        turn: Turn<'_>,
        out: &mut BytesMut,
    ) -> Step;

    /// Refuses a request unseen, because the node has too much to do: appends the error.
    fn refuse(&self, of: (Version, i16), overload: Overload, out: &mut BytesMut) -> Effect;

    /// Requests were served one after the other, of which some were promised an outcome; the next
    /// ones come later.
    fn end_turn(&self);

    /// Whether answers can tell which node to ask: nodes that are not alone.
    fn tells_routes(&self) -> bool;

    /// Whether clients must log in.
    fn requires_login(&self) -> bool;

    /// Checks a password. The outcome is who is logged in now.
    fn log_in(
        &self,
        address: SocketAddr,
        name: &str,
        password: &str,
    ) -> Wait<Result<LoggedIn, ErrorResponse>>;
}

/// Somebody who logged in.
#[derive(Clone, Debug)]
pub(crate) struct LoggedIn {
    pub(crate) role: Arc<str>,
    /// Where it is limited what the role may have.
    pub(crate) seat: Option<Arc<Seat>>,
}

/// Who is at the other end, as far as statements care.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    /// The keyspace of `USE`.
    pub(crate) keyspace: Option<Arc<str>>,
    /// The role that is logged in; `None` where nobody has to.
    pub(crate) role: Option<Arc<str>>,
    /// Its place among the sessions of the role, where it is limited what that may have.
    pub(crate) seat: Option<Arc<Seat>>,
    /// It asked to be told by answers which node it should have asked.
    pub(crate) learns_routes: bool,
}

/// The turn of a connection in which a request is served.
pub(crate) struct Turn<'a> {
    /// When the request arrived.
    pub(crate) arrived: Instant,
    /// Where the outcome of a change that waits for the log may be put.
    pub(crate) answer_to: AnswerTo<'a>,
    /// Its client rather gets an error than waits.
    pub(crate) throws: bool,
    /// It was held back before.
    pub(crate) is_again: bool,
    /// Its connection was held back since something arrived last.
    pub(crate) was_slowed: bool,
    /// A place among all that wait: the one that it was held back for, or that a request before it in this turn left.
    pub(crate) place: &'a mut Option<OwnedSemaphorePermit>,
}

/// How far a request is after its first step.
pub(crate) enum Step {
    /// Its answer was appended.
    Answered(Effect),
    /// Its answer comes later.
    Waits(Wait<Finished>),
    /// Its change is in the log; the outcome goes where it was to be put.
    Promised(Box<dyn Promised>),
    /// Nothing was done: it is served again behind this, and what comes after it waits.
    HeldBack(Wait<Option<OwnedSemaphorePermit>>),
}

/// The answer to a request that had to wait.
pub(crate) struct Finished {
    /// One whole message.
    pub(crate) message: BytesMut,
    pub(crate) effect: Effect,
    /// Its memory, where it is large.
    pub(crate) holding: Option<Holding>,
}

impl Finished {
    pub(crate) fn new(message: BytesMut, effect: Effect) -> Finished {
        Finished { message, effect, holding: None }
    }
}

/// What a request did besides being answered.
#[derive(Debug, Default)]
pub(crate) struct Effect {
    /// The code, if the answer is an error.
    pub(crate) error_code: Option<i32>,
    pub(crate) change: SessionChange,
    /// How long it took until its answer was there, if somebody looked at the clock then.
    pub(crate) latency: Option<Duration>,
}

/// What a request changes about its connection.
#[derive(Debug, Default)]
pub(crate) enum SessionChange {
    #[default]
    Nothing,
    /// From the next message on, this is spoken.
    Start { version: Version, compression: Option<Compression>, throw_on_overload: bool },
    /// Somebody is logged in.
    LoggedIn(LoggedIn),
    /// These events are wanted.
    Register(EventKinds),
    /// This keyspace is in use.
    Keyspace(Arc<str>),
}

impl Effect {
    pub(crate) fn none() -> Effect {
        Effect::default()
    }

    pub(crate) fn of(change: SessionChange) -> Effect {
        Effect { change, ..Effect::default() }
    }

    /// Appends an error, and is its effect.
    pub(crate) fn error(
        head: &ResponseHead<'_>,
        error: &ErrorResponse,
        out: &mut BytesMut,
    ) -> Effect {
        head.error(error, out);
        let error_code = Some(error.for_version(head.version).kind.code());
        Effect { error_code, ..Effect::default() }
    }
}

/// How far a connection got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is agreed on.
    Fresh,
    /// The version is agreed on, the client must log in.
    LoggingIn,
    /// Statements may come.
    Ready,
}

/// The state of one connection, as far as requests are concerned.
pub(crate) struct Session {
    pub(crate) stage: Stage,
    pub(crate) client: Client,
    /// The client rather gets an error than waits.
    pub(crate) throw_on_overload: bool,
    statements: Arc<dyn Statements>,
    registration: Registration,
}

impl Session {
    pub(crate) fn new(
        address: SocketAddr,
        registration: Registration,
        statements: Arc<dyn Statements>,
    ) -> Session {
        let client =
            Client { address, keyspace: None, role: None, seat: None, learns_routes: false };
        Session { stage: Stage::Fresh, client, throw_on_overload: false, statements, registration }
    }

    /// Serves one request.
    pub(crate) fn serve(&mut self, frame: &Frame, turn: Turn<'_>, out: &mut BytesMut) -> Step {
        if !turn.is_again {
            self.registration.add_request();
        }
        let head = ResponseHead::new(frame.version, frame.stream);
        let message = match RequestMessage::decode(frame) {
            Ok(message) => message,
            Err(error) => {
                let error = ErrorResponse::of_protocol_error(&error);
                return Step::Answered(Effect::error(&head, &error, out));
            }
        };
        if let Some(error) = unexpected(self.stage, frame.opcode) {
            return Step::Answered(Effect::error(&head, &error, out));
        }
        let effect = match &message.request {
            Request::Query { .. }
            | Request::Prepare { .. }
            | Request::Execute { .. }
            | Request::Batch(_) => {
                return self.statements.serve(&self.client, frame, &message, turn, out);
            }
            Request::Options => {
                head.supported(&supported(self.statements.tells_routes()), out);
                Effect::none()
            }
            Request::Startup(options) => self.startup(&head, options, out),
            Request::Register(kinds) => {
                head.ready(out);
                Effect::of(SessionChange::Register(*kinds))
            }
            Request::AuthResponse(token) => match credentials(token.unwrap_or_default()) {
                Ok((name, password)) => {
                    return self.log_in(head.version, head.stream, name, password);
                }
                Err(text) => {
                    let error = ErrorResponse::new(ErrorKind::BadCredentials, text);
                    Effect::error(&head, &error, out)
                }
            },
        };
        Step::Answered(effect)
    }

    /// The requests that had arrived are served.
    pub(crate) fn end_turn(&self) {
        self.statements.end_turn();
    }

    fn startup(
        &mut self,
        head: &ResponseHead<'_>,
        options: &StringMap<'_>,
        out: &mut BytesMut,
    ) -> Effect {
        let choice = match StartupChoice::from_options(options, head.version) {
            Ok(choice) => choice,
            Err(error) => {
                return Effect::error(head, &ErrorResponse::of_protocol_error(&error), out);
            }
        };
        let kept = kept_options(options);
        self.registration.update(|details| {
            details.version = Some(head.version);
            details.options = kept;
        });
        if self.statements.requires_login() {
            head.authenticate(PASSWORD_AUTHENTICATOR, out);
        } else {
            head.ready(out);
        }
        let StartupChoice { compression, throw_on_overload, learns_routes } = choice;
        self.client.learns_routes = learns_routes && self.statements.tells_routes();
        Effect::of(SessionChange::Start { version: head.version, compression, throw_on_overload })
    }

    fn log_in(&self, version: Version, stream: i16, name: &str, password: &str) -> Step {
        let checked = self.statements.log_in(self.client.address, name, password);
        Step::Waits(Box::pin(async move {
            let head = ResponseHead::new(version, stream);
            let mut message = BytesMut::new();
            let effect = match checked.await {
                Ok(logged_in) => {
                    head.auth_success(None, &mut message);
                    Effect::of(SessionChange::LoggedIn(logged_in))
                }
                Err(error) => Effect::error(&head, &error, &mut message),
            };
            Finished::new(message, effect)
        }))
    }

    /// Refuses a request unseen, because the node has too much to do.
    pub(crate) fn refuse(
        &self,
        of: (Version, i16),
        overload: Overload,
        out: &mut BytesMut,
    ) -> Effect {
        self.statements.refuse(of, overload, out)
    }

    /// Remembers what a request changed. The connection looks after what concerns bytes and events.
    pub(crate) fn apply(&mut self, change: &SessionChange) {
        match change {
            SessionChange::Nothing | SessionChange::Register(_) => {}
            SessionChange::Start { throw_on_overload, .. } => {
                self.throw_on_overload = *throw_on_overload;
                self.stage =
                    if self.statements.requires_login() { Stage::LoggingIn } else { Stage::Ready };
                self.registration.update(|details| details.is_ready = true);
                tracing::debug!(client = %self.client.address, "connected");
            }
            SessionChange::LoggedIn(LoggedIn { role, seat }) => {
                self.stage = Stage::Ready;
                self.client.seat = seat.clone();
                self.client.role = Some(Arc::clone(role));
                self.registration.update(|details| details.role = Some(Arc::clone(role)));
            }
            SessionChange::Keyspace(name) => {
                self.client.keyspace = Some(Arc::clone(name));
                self.registration.update(|details| details.keyspace = Some(Arc::clone(name)));
            }
        }
    }
}

/// The error for a request that does not belong to this stage, in Cassandra's words.
fn unexpected(stage: Stage, opcode: Opcode) -> Option<ErrorResponse> {
    let text = match (stage, opcode) {
        (Stage::Fresh, Opcode::Startup | Opcode::Options) => return None,
        (Stage::Fresh, _) => {
            format!("Unexpected message {}, expecting STARTUP or OPTIONS", opcode.name())
        }
        (Stage::LoggingIn, Opcode::AuthResponse) => return None,
        (Stage::LoggingIn, _) => {
            format!("Unexpected message {}, expecting SASL_RESPONSE", opcode.name())
        }
        (Stage::Ready, Opcode::Startup) => {
            "Unexpected message STARTUP, the connection is already initialized".to_owned()
        }
        (Stage::Ready, _) => return None,
    };
    Some(ErrorResponse::new(ErrorKind::Protocol, text))
}

/// What a client may choose from. Drivers of ScyllaDB look for extensions here; others pass over what they do not know.
fn supported(tells_routes: bool) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut options = vec![
        ("CQL_VERSION", vec![CQL_VERSION]),
        ("COMPRESSION", Compression::NAMES.to_vec()),
        ("PROTOCOL_VERSIONS", Version::ALL.map(Version::name).to_vec()),
    ];
    if tells_routes {
        options.push((TABLETS_ROUTING, vec![""]));
    }
    options
}

/// Name and password of SASL PLAIN: an identity to act as (which is not used), the name and the
/// password, with a zero byte before each of the latter.
fn credentials(token: &[u8]) -> Result<(&str, &str), &'static str> {
    const FORMAT: &str =
        "Credential format error: username or password is empty or contains NUL(\\0) character";
    let mut parts = token.rsplitn(4, |byte| *byte == 0);
    let (password, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let _acts_as = parts.next();
    if parts.next().is_some() {
        return Err(FORMAT);
    }
    if password.is_empty() {
        return Err("Password must not be null");
    }
    if name.is_empty() {
        return Err("Authentication ID must not be null");
    }
    match (std::str::from_utf8(name), std::str::from_utf8(password)) {
        (Ok(name), Ok(password)) => Ok((name, password)),
        _ => Err(FORMAT),
    }
}

/// The kind that a request is counted under; `None` for what never comes from a client.
pub(crate) fn kind_of(opcode: Opcode) -> Option<RequestKind> {
    match opcode {
        Opcode::Startup => Some(RequestKind::Startup),
        Opcode::Options => Some(RequestKind::Options),
        Opcode::Query => Some(RequestKind::Query),
        Opcode::Prepare => Some(RequestKind::Prepare),
        Opcode::Execute => Some(RequestKind::Execute),
        Opcode::Batch => Some(RequestKind::Batch),
        Opcode::Register => Some(RequestKind::Register),
        Opcode::AuthResponse => Some(RequestKind::AuthResponse),
        Opcode::Credentials
        | Opcode::Error
        | Opcode::Ready
        | Opcode::Authenticate
        | Opcode::Supported
        | Opcode::Result
        | Opcode::Event
        | Opcode::AuthChallenge
        | Opcode::AuthSuccess => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_credentials() {
        type Case = (&'static [u8], Result<(&'static str, &'static str), ()>);
        let cases: [Case; 7] = [
            (b"\0cassandra\0secret", Ok(("cassandra", "secret"))),
            (b"other\0cassandra\0secret", Ok(("cassandra", "secret"))),
            (b"\0cassandra\0", Err(())),
            (b"\0\0secret", Err(())),
            (b"", Err(())),
            (b"a\0b\0c\0d", Err(())),
            (b"\0\xff\0secret", Err(())),
        ];
        for (token, expected) in cases {
            assert_eq!(credentials(token).map_err(|_| ()), expected, "{token:?}");
        }
    }
}
