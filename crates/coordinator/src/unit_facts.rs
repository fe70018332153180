//! What `system_helenus` shows of request units.

use partition::Space;
use schema::system::ThroughputFacts;
use schema::{NodeFacts, Table, Throughput};
use units::Charge;
use units::price::autoscale_level;

use crate::admission::share_of;
use crate::catalog::Catalog;

/// Adds what a computed table shows of request units, if it does.
pub(crate) fn add(catalog: &Catalog, table: &Table, facts: &mut NodeFacts) {
    if &*table.keyspace != "system_helenus" {
        return;
    }
    match &*table.name {
        "throughput" => facts.units.throughput = throughput_facts(catalog),
        "usage" => facts.units.usage = catalog.ledger.facts(catalog),
        "statements" => facts.units.statements = catalog.world.statements(),
        _ => {}
    }
}

pub(crate) fn throughput_facts(catalog: &Catalog) -> Vec<ThroughputFacts> {
    let budgets = catalog.replicas.budgets();
    let of_space = |(space, throughput, sets): (Space, Throughput, Vec<types::SetId>)| {
        let states: Vec<_> = sets.iter().filter_map(|set| budgets.state(*set)).collect();
        let used: Charge = states.iter().map(|state| state.last_second).sum();
        let saved: Charge = states.iter().map(|state| state.saved).sum();
        let hottest = states.iter().map(|state| state.last_second.to_f64()).fold(0.0, f64::max);
        let (keyspace, table) = match &space {
            Space::Keyspace(keyspace) => (keyspace.to_string(), String::new()),
            Space::Table { keyspace, table } => (keyspace.to_string(), table.to_string()),
        };
        let (mode, maximum_ru_s, current) = match throughput {
            Throughput::Manual(units) => ("manual", units, u64::from(units)),
            Throughput::Autoscale(units) if !catalog.settings.autoscales => {
                ("manual", units, u64::from(units))
            }
            Throughput::Autoscale(units) => {
                let level = (hottest * sets.len() as f64).ceil() as u64;
                ("autoscale", units, autoscale_level(level, u64::from(units)))
            }
        };
        ThroughputFacts {
            keyspace,
            table,
            mode,
            maximum_ru_s,
            current_ru_s: current as f64,
            used_ru_s: used.to_f64(),
            partition_count: u32::try_from(sets.len()).unwrap_or(u32::MAX),
            partition_ru_s: share_of(throughput, sets.len()) as f64,
            saved_ru: saved.to_f64(),
            throttled: states.iter().map(|state| state.throttled_count).sum(),
            saves_bursts: catalog.settings.saves_bursts,
        }
    };
    catalog.provisioned().into_iter().map(of_space).collect()
}
