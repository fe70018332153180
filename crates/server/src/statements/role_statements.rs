//! Statements about roles, and what definitions mean for permissions.

use std::sync::Arc;

use coordinator::{Answer, Reply, Rows};
use roles::{Performer, Target};
use schema::Schema;

use super::call::Call;
use crate::auth::{RoleKeeper, fresh_salt};
use crate::reply::Failure;
use crate::session::Client;

/// Runs a statement about roles. Slow where passwords are hashed.
pub(super) fn run(
    keeper: &RoleKeeper,
    call: &Call<'_>,
    statement: &cql::Statement,
    schema: &Schema,
) -> Result<Answer, Failure> {
    let has_table = |keyspace: &str, table: Option<&str>| match table {
        Some(table) => schema.table(keyspace, table).is_some(),
        None => schema.keyspace(keyspace).is_some(),
    };
    let performer = Performer {
        role: call.client.role.as_deref(),
        keyspace: call.keyspace(),
        has_table: &has_table,
        salt: &fresh_salt,
    };
    let done = keeper.execute(&performer, statement)?;
    let reply = match done.listing {
        None => Reply::Void,
        Some(listing) => {
            let column = |(name, cql_type): (&'static str, types::CqlType)| plan::ResultColumn {
                keyspace: Arc::from("system_auth"),
                table: Arc::from(listing.table),
                name: Arc::from(name),
                cql_type,
            };
            let columns = listing.columns.into_iter().map(column).collect();
            Reply::Rows(Rows::from_values(columns, listing.rows))
        }
    };
    Ok(Answer { reply, warnings: done.warnings })
}

/// What is new belongs to its creator; what is gone is nobody's.
pub(super) fn after_definition(keeper: &RoleKeeper, client: &Client, reply: &Reply) {
    let Reply::SchemaChange(event) = reply else { return };
    let target = match event.target {
        schema::ChangeTarget::Keyspace => Target::Keyspace(event.keyspace.to_string()),
        schema::ChangeTarget::Table => {
            Target::Table(event.keyspace.to_string(), event.name.to_string())
        }
        schema::ChangeTarget::Type => return,
    };
    let kept = match (event.kind, &client.role) {
        (schema::ChangeKind::Created, Some(role)) => keeper.on_created(role, &target),
        (schema::ChangeKind::Dropped, _) => keeper.on_dropped(&target),
        (schema::ChangeKind::Created | schema::ChangeKind::Updated, _) => Ok(()),
    };
    if let Err(error) = kept {
        tracing::error!(%error, %target, "permissions could not be kept");
    }
}
