//! Request units per second, where the statement alone does not say: the custom payload of the
//! original, its minimums and steps, and what a table gets that asks for nothing.

use std::sync::Arc;

use super::{Profile, SchemaChange};
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
/// The most that a table or keyspace may be given.
const MOST: u32 = 1_000_000;
/// Manual throughput for each stored gigabyte, and the part of the highest ever that must stay; ten
/// times as much for the most of autoscale.
const PER_GB: u32 = 1;
const HIGHEST_DIVISOR: u32 = 100;
/// The numbers of autoscale against those of manual throughput.
const AUTOSCALE_TIMES: u32 = 10;

/// What a node allows.
pub struct ProvisionRules<'a> {
    /// Whose minimums and steps hold.
    pub profile: Profile,
    /// Whether the most of autoscale may be given.
    pub autoscales: bool,
    /// What the minimums of a keyspace, or of a table in it, follow from.
    pub past: &'a dyn Fn(&str, Option<&str>) -> SpacePast,
}

/// What the minimum of a partition space follows from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpacePast {
    /// Gigabytes that are stored.
    pub stored_gb: u32,
    /// The highest throughput it ever had.
    pub highest_ru_s: u32,
}

/// Completes a change: gives new tables their throughput and refuses what the node does not allow.
/// `payload` is what the request's custom payload `cosmosdb_provisioned_throughput` asks for.
pub fn provision(
    before: &Schema,
    change: &mut SchemaChange,
    rules: &ProvisionRules<'_>,
    payload: Option<u32>,
) -> Result<(), SchemaError> {
    let profile = rules.profile;
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
    check(before, &change.schema, rules)
}

/// Everything that changed keeps to the rules.
fn check(before: &Schema, after: &Schema, rules: &ProvisionRules<'_>) -> Result<(), SchemaError> {
    let users = after.keyspaces.values().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    for keyspace in users {
        let old = before.keyspace(&keyspace.name);
        if old.and_then(|old| old.options.throughput) != keyspace.options.throughput {
            let shared =
                keyspace.tables.values().filter(|table| table.options.throughput.is_none());
            let more = shared.count().saturating_sub(SHARED_TABLES);
            let more = u32::try_from(more).unwrap_or(u32::MAX).saturating_mul(SHARED_STEP);
            let past = || (rules.past)(&keyspace.name, None);
            allowed(keyspace.options.throughput, more, rules, &past)?;
        }
        for table in keyspace.tables.values() {
            let old = before.table(&keyspace.name, &table.name);
            if old.and_then(|old| old.options.throughput) != table.options.throughput {
                let past = || (rules.past)(&keyspace.name, Some(&table.name));
                allowed(table.options.throughput, 0, rules, &past)?;
            }
        }
    }
    Ok(())
}

fn allowed(
    throughput: Option<Throughput>,
    more: u32,
    rules: &ProvisionRules<'_>,
    past: &dyn Fn() -> SpacePast,
) -> Result<(), SchemaError> {
    let (units, (least, step), times) = match throughput {
        None => return Ok(()),
        Some(Throughput::Manual(units)) => (units, MANUAL, 1),
        Some(Throughput::Autoscale(_)) if !rules.autoscales => {
            return Err(configuration!("Autoscale is switched off on this node (units.autoscale)"));
        }
        Some(Throughput::Autoscale(units)) => (units, AUTOSCALE, AUTOSCALE_TIMES),
    };
    if rules.profile != Profile::Cosmos {
        return Ok(());
    }
    let SpacePast { stored_gb, highest_ru_s } = past();
    let least = [
        least.saturating_add(more.saturating_mul(times)),
        stored_gb.saturating_mul(PER_GB * times),
        highest_ru_s / (HIGHEST_DIVISOR / times),
    ];
    let least = least.into_iter().max().unwrap_or(MOST).min(MOST).next_multiple_of(step);
    if units < least || units > MOST || !units.is_multiple_of(step) {
        return Err(configuration!(
            "The offer should have valid throughput values between {least} and {MOST} inclusive in increments of {step}."
        ));
    }
    Ok(())
}
