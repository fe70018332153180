//! Whether the client's role may do what a plan does.

use cql::ast::Permission;
use plan::Plan;
use roles::Access;
use schema::Schema;

use crate::auth::RoleKeeper;
use crate::reply::Failure;
use crate::session::Client;

/// Refuses what the role may not do. Costs nothing where permissions are not looked at.
pub(super) fn ensure(
    keeper: &RoleKeeper,
    client: &Client,
    plan: &Plan<'_>,
    schema: &Schema,
) -> Result<(), Failure> {
    if !keeper.requires_permissions() {
        return Ok(());
    }
    keeper.with_access(|access| ensure_by(access, client, plan, schema))
}

fn ensure_by(
    access: Access<'_>,
    client: &Client,
    plan: &Plan<'_>,
    schema: &Schema,
) -> Result<(), Failure> {
    let role = client.role.as_deref();
    let table = |permission, table: &schema::Table| {
        access.ensure_table(role, permission, (&table.keyspace, &table.name))
    };
    match plan {
        Plan::Select(select) => table(Permission::Select, select.table)?,
        Plan::Modify(modify) => {
            table(Permission::Modify, modify.table)?;
            if modify.conditional.is_some() {
                table(Permission::Select, modify.table)?;
            }
        }
        Plan::Batch(batch) => {
            for mutation in &batch.mutations {
                let Some(changed) = schema.table_by_id(mutation.table) else { continue };
                table(Permission::Modify, changed)?;
                if batch.conditional.is_some() {
                    table(Permission::Select, changed)?;
                }
            }
        }
        Plan::Truncate(truncated) => table(Permission::Modify, truncated)?,
        Plan::Schema(statement) => {
            let find_index = |keyspace: &str, index: &str| {
                let tables = &schema.keyspace(keyspace)?.tables;
                let found = tables.values().find(|table| table.indexes.contains_key(index))?;
                Some(found.name.to_string())
            };
            access.ensure_statement(role, client.keyspace.as_deref(), statement, &find_index)?;
        }
        Plan::Explain(plan) => ensure_by(access, client, plan, schema)?,
        // Roles look after themselves; the others show nothing that is not shown to everybody.
        Plan::Roles(_) | Plan::Use(_) | Plan::Describe(_) => {}
    }
    Ok(())
}
