//! Request units per second, where the statement alone does not say: the custom payload of the
//! original, its minimums and steps, and what a table gets that asks for nothing.

use std::sync::Arc;

use super::{Change, Profile};
use crate::error::{SchemaError, configuration, invalid};
use crate::model::{Keyspace, KeyspaceKind, Schema, Table};
use crate::options::Throughput;

/// Least and step of manual throughput in the cosmos profile (cosmos-facts 2.4).
const MANUAL: (u32, u32) = (400, 100);
/// Least and step of the most of autoscale there.
const AUTOSCALE: (u32, u32) = (1_000, 1_000);
/// What a table gets through CQL that asks for nothing (cosmos-facts 2.5).
const TABLE_DEFAULT: u32 = 400;
/// Tables that may share the throughput of a keyspace before its minimum rises, and by how much.
const SHARED_TABLES: usize = 25;
const SHARED_STEP: u32 = 100;

/// Completes a change: gives new tables their throughput and refuses what the profile does not allow.
/// `payload` is what the request's custom payload `cosmosdb_provisioned_throughput` asks for.
pub fn provision(
    before: &Schema,
    change: &mut Change,
    profile: Profile,
    payload: Option<u32>,
) -> Result<(), SchemaError> {
    let created = change.created.clone();
    for id in created {
        let Some(table) = change.schema.table_by_id(id) else { continue };
        let shares = change.schema.keyspace(&table.keyspace).and_then(|it| it.options.throughput);
        let wanted = match (table.options.throughput, payload, profile) {
            (Some(_), Some(_), _) => {
                return Err(invalid!("Throughput is given in the statement and in its payload"));
            }
            (None, Some(units), _) => units,
            (None, None, Profile::Cosmos) if shares.is_none() => TABLE_DEFAULT,
            _ => continue,
        };
        let mut table = Table::clone(table);
        table.options.throughput = Some(Throughput::Manual(wanted));
        let Some(keyspace) = change.schema.keyspace(&table.keyspace) else { continue };
        let mut keyspace = Keyspace::clone(keyspace);
        keyspace.tables.insert(Arc::clone(&table.name), Arc::new(table));
        change.schema = change.schema.with_keyspace(keyspace);
    }
    if profile == Profile::Cosmos {
        check(before, &change.schema)?;
    }
    Ok(())
}

/// Everything that changed keeps to the original's numbers.
fn check(before: &Schema, after: &Schema) -> Result<(), SchemaError> {
    let users = after.keyspaces.values().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    for keyspace in users {
        let old = before.keyspace(&keyspace.name);
        if old.and_then(|old| old.options.throughput) != keyspace.options.throughput {
            let shared =
                keyspace.tables.values().filter(|table| table.options.throughput.is_none());
            let more = shared.count().saturating_sub(SHARED_TABLES);
            let more = u32::try_from(more).unwrap_or(u32::MAX).saturating_mul(SHARED_STEP);
            allowed(keyspace.options.throughput, more)?;
        }
        for table in keyspace.tables.values() {
            let old = before.table(&keyspace.name, &table.name);
            if old.and_then(|old| old.options.throughput) != table.options.throughput {
                allowed(table.options.throughput, 0)?;
            }
        }
    }
    Ok(())
}

fn allowed(throughput: Option<Throughput>, more: u32) -> Result<(), SchemaError> {
    let (name, units, (least, step), more) = match throughput {
        None => return Ok(()),
        Some(Throughput::Manual(units)) => ("provisioned throughput", units, MANUAL, more),
        Some(Throughput::Autoscale(units)) => {
            ("autoscale maximum throughput", units, AUTOSCALE, more.saturating_mul(10))
        }
    };
    let least = least.saturating_add(more);
    if units < least || !units.is_multiple_of(step) {
        return Err(configuration!(
            "The {name} {units} RU/s is not allowed: it must be at least {least} RU/s, in steps of {step}"
        ));
    }
    Ok(())
}
