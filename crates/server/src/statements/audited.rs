//! What the audit log is told of calls.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use cql::Statement as Ast;
use cql::ast::{QualifiedName, Resource};
use plan::plan::PreparedKind;
use protocol::{Consistency, ErrorKind, ErrorResponse, Request, StatementSource};
use roles::LoginError;

use super::cache::Statement;
use super::call::Call;
use super::encode;
use super::engine::{Engine, Inner};
use super::slow::without_values;
use crate::audit::{Audit, Entry, EntryType, may_have_password, without_rest};
use crate::auth::NoSeat;
use crate::log;
use crate::metrics::error_name;
use crate::reply::{Failure, login_refused};
use crate::session::{Client, LoggedIn, Step};
use crate::world;

/// What Cassandra writes in the place of a syntax error that may tell a password.
const OBSCURED: &str = "Syntax Exception. Obscured for security reasons.";
/// Texts of a batch that failed are told up to this length together.
const FAILED_CHARS_MAX: usize = 4096;

/// A statement as the log tells it.
struct Deed<'s> {
    kind: EntryType,
    keyspace: Option<&'s str>,
    scope: Option<&'s str>,
}

impl Engine {
    /// Checks the password of somebody who takes no seat, such as a person in front of the dashboard.
    pub(crate) async fn check_login(
        &self,
        source: SocketAddr,
        name: String,
        password: String,
    ) -> Result<Arc<str>, ErrorResponse> {
        // The gate tells of what fails by itself.
        let checked = Arc::clone(&self.0.gate).log_in(source, name.clone(), password).await;
        let role = checked.map_err(|error| login_refused(&error))?;
        login(self.0.audit.as_deref(), source, &name, None);
        Ok(role)
    }
}

impl Inner {
    /// The answer to a request that did not run.
    #[cold]
    pub(super) fn refused(&self, call: &Call<'_>, failure: &Failure, out: &mut BytesMut) -> Step {
        if let Some(audit) = &self.audit {
            self.audit_refused(audit, call, failure);
        }
        Step::Answered(encode::error(call, failure, out))
    }

    /// A seat for a role whose password was right.
    pub(super) fn seat(&self, role: Arc<str>) -> Result<LoggedIn, LoginError> {
        let seat = match self.roles.is_superuser(&role) {
            true => Ok(None),
            false => self.seats.take(&role),
        };
        match seat {
            Ok(seat) => Ok(LoggedIn { role, seat }),
            Err(NoSeat { sessions_max }) => {
                Err(LoginError::TooManySessions { name: role.to_string(), sessions_max })
            }
        }
    }

    /// Keeps that a request was refused before it ran.
    #[cold]
    pub(super) fn audit_refused(&self, audit: &Audit, call: &Call<'_>, failure: &Failure) {
        let consistency = call.parameters().map_or(Consistency::One, |it| it.consistency);
        if !call.statements.is_empty() {
            let failure = Some((failure, consistency));
            return self::call(audit, call.client, call.statements, failure);
        }
        let (text, is_secret) = match &call.message.request {
            Request::Query { text, .. } | Request::Prepare { text, .. } => {
                (unread(audit, text), may_have_password(text))
            }
            Request::Batch(batch) => {
                let is_secret = batch.statements.iter().any(|item| match item.source {
                    StatementSource::Text(text) => may_have_password(text),
                    StatementSource::Prepared(_) => false,
                });
                (format!("BATCH of [{}] statements", batch.statements.count()), is_secret)
            }
            _ => (String::new(), false),
        };
        let failed = Failed { keyspace: None, scope: None, text: &text, is_secret };
        audit_failure(audit, call.client, &failed, failure, consistency);
    }

    /// Keeps that a statement was prepared.
    pub(super) fn audit_prepared(&self, client: &Client, statement: &Statement) {
        let Some(audit) = &self.audit else { return };
        if audit.wants(EntryType::Prepare, client.role.as_deref()) {
            let deed = Deed { kind: EntryType::Prepare, ..deed_of(audit, statement) };
            audit.keep(&entry(client, &deed, None, &text_of(audit, statement)));
        }
    }
}

/// Keeps what became of a call whose statements are known.
#[cold]
pub(super) fn call(
    audit: &Audit,
    client: &Client,
    statements: &[Arc<Statement>],
    failure: Option<(&Failure, Consistency)>,
) {
    if let Some((failure, consistency)) = failure {
        let mut text = match statements {
            [_] => String::new(),
            many => format!("BATCH of [{}] statements: ", many.len()),
        };
        for statement in statements {
            if text.len() >= FAILED_CHARS_MAX {
                break;
            }
            text.push_str(if text.is_empty() || text.ends_with(": ") { "" } else { "; " });
            text.push_str(&text_of(audit, statement));
        }
        let (keyspace, scope) = place_of(audit, statements);
        let failed = Failed { keyspace, scope, text: &text, is_secret: false };
        return audit_failure(audit, client, &failed, failure, consistency);
    }
    let [one] = statements else { return batch(audit, client, statements) };
    let deed = deed_of(audit, one);
    if audit.wants(deed.kind, client.role.as_deref()) {
        audit.keep(&entry(client, &deed, None, &text_of(audit, one)));
    }
}

/// An entry for all of a batch, and one for each of its statements, as Cassandra writes them.
fn batch(audit: &Audit, client: &Client, statements: &[Arc<Statement>]) {
    let (keyspace, _) = place_of(audit, statements);
    if !audit.wants_keyspace(keyspace) || !audit.wants(EntryType::Batch, client.role.as_deref()) {
        return;
    }
    let id = u128::from_be_bytes(world::random_bytes().unwrap_or_default());
    let operation =
        format!("BatchId:[{}] - BATCH of [{}] statements", types::UuidText(id), statements.len());
    let whole = Deed { kind: EntryType::Batch, keyspace: None, scope: None };
    audit.keep(&entry(client, &whole, Some(id), &operation));
    for statement in statements {
        let deed = deed_of(audit, statement);
        audit.keep(&entry(client, &deed, Some(id), &text_of(audit, statement)));
    }
}

/// The keyspace and table that several statements are about: of those that are wanted, if there are any. Otherwise it would be enough to
/// put another statement first.
fn place_of<'s>(
    audit: &Audit,
    statements: &'s [Arc<Statement>],
) -> (Option<&'s str>, Option<&'s str>) {
    let deeds = || statements.iter().map(|statement| deed_of(audit, statement));
    let wanted = deeds().find(|deed| audit.wants_keyspace(deed.keyspace));
    wanted.or_else(|| deeds().next()).map_or((None, None), |deed| (deed.keyspace, deed.scope))
}

/// Keeps that somebody logged in, or did not, and tells of it.
pub(super) fn login(
    audit: Option<&Audit>,
    source: SocketAddr,
    name: &str,
    error: Option<&LoginError>,
) {
    log::login(source.ip(), name, error);
    let Some(audit) = audit else { return };
    let (kind, operation) = match error {
        None => (EntryType::LoginSuccess, "LOGIN SUCCESSFUL".to_owned()),
        Some(error) => (EntryType::LoginError, format!("LOGIN FAILURE; {error}")),
    };
    audit.keep(&Entry {
        kind,
        user: Some(name),
        source,
        at_ms: world::now_us() / 1000,
        batch: None,
        keyspace: None,
        in_use: None,
        scope: None,
        operation: &operation,
    });
}

fn entry<'e>(
    client: &'e Client,
    deed: &Deed<'e>,
    batch: Option<u128>,
    operation: &'e str,
) -> Entry<'e> {
    Entry {
        kind: deed.kind,
        user: client.role.as_deref(),
        source: client.address,
        at_ms: world::now_us() / 1000,
        batch,
        keyspace: deed.keyspace,
        in_use: client.keyspace.as_deref(),
        scope: deed.scope,
        operation,
    }
}

/// What failed.
struct Failed<'s> {
    keyspace: Option<&'s str>,
    scope: Option<&'s str>,
    text: &'s str,
    /// It was not understood and may hold a password, which the error may repeat.
    is_secret: bool,
}

fn audit_failure(
    audit: &Audit,
    client: &Client,
    &Failed { keyspace, scope, text, is_secret }: &Failed<'_>,
    failure: &Failure,
    consistency: Consistency,
) {
    let response = failure.response(consistency);
    let is_unauthorized = matches!(response.kind, ErrorKind::Unauthorized);
    let kind = if is_unauthorized { EntryType::Unauthorized } else { EntryType::RequestFailure };
    if !audit.wants(kind, client.role.as_deref()) {
        return;
    }
    // Other errors may tell what was written.
    let is_harmless = is_unauthorized || matches!(failure, Failure::Guardrail { .. });
    let why = match is_harmless || audit.shows_values() {
        true if is_secret && matches!(response.kind, ErrorKind::Syntax) => OBSCURED.to_owned(),
        true if is_secret => error_name(response.kind.code()).to_owned(),
        true => without_rest(&response.message),
        false => error_name(response.kind.code()).to_owned(),
    };
    let operation = if text.is_empty() { why } else { format!("{text}; {why}") };
    audit.keep(&entry(client, &Deed { kind, keyspace, scope }, None, &operation));
}

/// The text of a statement that was understood.
fn text_of(audit: &Audit, statement: &Statement) -> String {
    let shown = statement.shown_text();
    match deed_of(audit, statement).kind {
        // They hold names, and nothing else that is secret.
        EntryType::Roles(_) => shown.into_owned(),
        _ if audit.shows_values() => shown.into_owned(),
        _ => without_values(&shown),
    }
}

/// The text of one that was not.
fn unread(audit: &Audit, text: &str) -> String {
    match audit.shows_values() && !may_have_password(text) {
        true => text.to_owned(),
        false => without_rest(&without_values(text)),
    }
}

fn deed_of<'s>(audit: &Audit, statement: &'s Statement) -> Deed<'s> {
    // A batch that is one statement is about several; see `place_of`.
    let mut tables = statement.tables().iter();
    let wanted = tables.find(|table| audit.wants_keyspace(Some(&table.keyspace)));
    let table = wanted.or_else(|| statement.tables().first());
    let of_table = |kind| Deed {
        kind,
        keyspace: table.map(|table| &*table.keyspace),
        scope: table.map(|table| &*table.name),
    };
    match &statement.plan.kind {
        PreparedKind::Select(_) => of_table(EntryType::Select),
        PreparedKind::Modify(modify) if modify.is_delete() => of_table(EntryType::Delete),
        PreparedKind::Modify(_) => of_table(EntryType::Update),
        PreparedKind::Batch(_) => Deed { scope: None, ..of_table(EntryType::Batch) },
        PreparedKind::Truncate(table) => Deed {
            kind: EntryType::Truncate,
            keyspace: Some(&table.keyspace),
            scope: Some(&table.name),
        },
        PreparedKind::Explain(_) => of_table(EntryType::Explain),
        PreparedKind::Other(ast) => other_deed(ast, statement.plan.keyspace.as_deref()),
    }
}

/// `in_use`: the keyspace of names that do not tell theirs.
fn other_deed<'s>(ast: &'s Ast, in_use: Option<&'s str>) -> Deed<'s> {
    let of_name = |kind, name: &'s QualifiedName| Deed {
        kind: EntryType::Definition(kind),
        keyspace: name.keyspace.as_deref().or(in_use),
        scope: Some(&name.name),
    };
    let of_resource = |kind, resource: &'s Resource| {
        let (keyspace, scope) = match resource {
            Resource::Keyspace(name) | Resource::AllTables(name) => (Some(&**name), None),
            Resource::Table(name) => (name.keyspace.as_deref().or(in_use), Some(&*name.name)),
            _ => (None, None),
        };
        Deed { kind: EntryType::Roles(kind), keyspace, scope }
    };
    let plain = |kind| Deed { kind, keyspace: None, scope: None };
    match ast {
        Ast::Use(name) => Deed { keyspace: Some(name), ..plain(EntryType::Use) },
        Ast::CreateKeyspace(it) => of_keyspace("CREATE_KEYSPACE", &it.name),
        Ast::AlterKeyspace(it) => of_keyspace("ALTER_KEYSPACE", &it.name),
        Ast::DropKeyspace(it) => of_keyspace("DROP_KEYSPACE", &it.name),
        Ast::CreateTable(it) => of_name("CREATE_TABLE", &it.name),
        Ast::AlterTable(it) => of_name("ALTER_TABLE", &it.name),
        Ast::DropTable(it) => of_name("DROP_TABLE", &it.name),
        Ast::CreateType(it) => of_name("CREATE_TYPE", &it.name),
        Ast::AlterType(it) => of_name("ALTER_TYPE", &it.name),
        Ast::DropType(it) => of_name("DROP_TYPE", &it.name),
        Ast::CreateIndex(it) => of_name("CREATE_INDEX", &it.table),
        Ast::DropIndex(it) => of_name("DROP_INDEX", &it.name),
        Ast::CreateView(_) => plain(EntryType::Definition("CREATE_VIEW")),
        Ast::AlterView(_) => plain(EntryType::Definition("ALTER_VIEW")),
        Ast::DropView(_) => plain(EntryType::Definition("DROP_VIEW")),
        Ast::CreateFunction(_) => plain(EntryType::Definition("CREATE_FUNCTION")),
        Ast::DropFunction(_) => plain(EntryType::Definition("DROP_FUNCTION")),
        Ast::CreateAggregate(_) => plain(EntryType::Definition("CREATE_AGGREGATE")),
        Ast::DropAggregate(_) => plain(EntryType::Definition("DROP_AGGREGATE")),
        Ast::CreateTrigger(_) => plain(EntryType::Definition("CREATE_TRIGGER")),
        Ast::DropTrigger(_) => plain(EntryType::Definition("DROP_TRIGGER")),
        Ast::CreateRole(_) => plain(EntryType::Roles("CREATE_ROLE")),
        Ast::AlterRole(_) => plain(EntryType::Roles("ALTER_ROLE")),
        Ast::DropRole(_) => plain(EntryType::Roles("DROP_ROLE")),
        Ast::ListRoles(_) => plain(EntryType::Roles("LIST_ROLES")),
        Ast::ListUsers => plain(EntryType::Roles("LIST_USERS")),
        Ast::GrantRole(_) => plain(EntryType::Roles("GRANT")),
        Ast::RevokeRole(_) => plain(EntryType::Roles("REVOKE")),
        Ast::GrantPermissions(it) => of_resource("GRANT", &it.resource),
        Ast::RevokePermissions(it) => of_resource("REVOKE", &it.resource),
        Ast::ListPermissions(_) => plain(EntryType::Roles("LIST_PERMISSIONS")),
        Ast::AddIdentity(_) => plain(EntryType::Roles("CREATE_IDENTITY")),
        Ast::DropIdentity(_) => plain(EntryType::Roles("DROP_IDENTITY")),
        Ast::Describe(_) => plain(EntryType::Describe),
        // These have a kind of their own, and never come here.
        Ast::Select(_)
        | Ast::Insert(_)
        | Ast::Update(_)
        | Ast::Delete(_)
        | Ast::Batch(_)
        | Ast::Truncate(_)
        | Ast::Explain(_) => plain(EntryType::Explain),
    }
}

fn of_keyspace<'s>(kind: &'static str, name: &'s str) -> Deed<'s> {
    Deed { kind: EntryType::Definition(kind), keyspace: Some(name), scope: None }
}
