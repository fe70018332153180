//! The hourly highest use of every provisioned space, kept over restarts: what would be billed.

use std::collections::BTreeMap;

use partition::Space;
use replica::NodeStore;
use schema::Throughput;
use schema::ddl::SpacePast;
use schema::system::UsageFacts;
use units::price::{MONTH_HOURS, Prices, autoscale_level};

use crate::balance::{stored, tables_of};
use crate::catalog::Catalog;
use crate::locks::{Rank, Ranked};

/// The name under which storage keeps the usage.
const USAGE_DOCUMENT: &str = "usage";
const HOUR_MS: i64 = 3_600_000;
/// Hours that are kept of each space: 62 days.
const HOURS_MAX: usize = 62 * 24;
const VERSION_LINE: &str = "helenus usage 1";

/// What a space used in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hour {
    is_autoscale: bool,
    maximum_ru_s: u64,
    highest_ru_s: u64,
    charge_micros: u64,
}

/// The usage of all spaces, by space and hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Usage {
    hours: BTreeMap<String, BTreeMap<i64, Hour>>,
    /// The highest throughput that each space ever had.
    highest: BTreeMap<String, u64>,
}

/// What a line of the document begins with that tells the highest throughput of a space.
const HIGHEST: &str = "highest";

impl Usage {
    fn add(&mut self, space: String, hour_ms: i64, used: Hour) {
        let highest = self.highest.entry(space.clone()).or_default();
        *highest = used.maximum_ru_s.max(*highest);
        let hours = self.hours.entry(space).or_default();
        let hour = hours.entry(hour_ms).or_insert(Hour { charge_micros: 0, ..used });
        hour.is_autoscale = used.is_autoscale;
        // Lowered within the hour, the higher number is paid for.
        hour.maximum_ru_s = hour.maximum_ru_s.max(used.maximum_ru_s);
        hour.highest_ru_s = hour.highest_ru_s.max(used.highest_ru_s);
        hour.charge_micros = hour.charge_micros.saturating_add(used.charge_micros);
        while hours.len() > HOURS_MAX {
            hours.pop_first();
        }
    }

    fn encode(&self) -> String {
        let mut text = format!("{VERSION_LINE}\n");
        for (space, ru_s) in &self.highest {
            text.push_str(&format!("{HIGHEST} {space} {ru_s}\n"));
        }
        for (space, hours) in &self.hours {
            for (at_ms, hour) in hours {
                let mode = if hour.is_autoscale { "autoscale" } else { "manual" };
                let Hour { maximum_ru_s, highest_ru_s, charge_micros, .. } = hour;
                text.push_str(&format!(
                    "{space} {at_ms} {mode} {maximum_ru_s} {highest_ru_s} {charge_micros}\n"
                ));
            }
        }
        text
    }

    /// What was kept; lines that cannot be read are left out, because nothing depends on them.
    fn decode(text: &str) -> Usage {
        let mut usage = Usage::default();
        let mut lines = text.lines();
        if lines.next() != Some(VERSION_LINE) {
            return usage;
        }
        for line in lines {
            if let Some(rest) = line.strip_prefix(HIGHEST).and_then(|it| it.strip_prefix(' ')) {
                if let Some((space, Ok(ru_s))) =
                    rest.split_once(' ').map(|(space, ru_s)| (space, ru_s.parse()))
                {
                    usage.highest.insert(space.to_owned(), ru_s);
                }
                continue;
            }
            let mut words = line.split(' ');
            let mut next = || words.next().unwrap_or_default();
            let (space, at_ms, mode) = (next(), next().parse(), next());
            let numbers = (next().parse(), next().parse(), next().parse());
            if let (Ok(at_ms), (Ok(maximum_ru_s), Ok(highest_ru_s), Ok(charge_micros))) =
                (at_ms, numbers)
            {
                let is_autoscale = mode == "autoscale";
                let hour = Hour { is_autoscale, maximum_ru_s, highest_ru_s, charge_micros };
                usage.add(space.to_owned(), at_ms, hour);
            }
        }
        usage
    }

    fn facts(&self, prices: &Prices) -> Vec<UsageFacts> {
        let money = |micros: u64| micros as f64 / 1e6;
        let mut facts = Vec::new();
        for (space, hours) in &self.hours {
            for (hour_ms, hour) in hours {
                let (level, cost) = match hour.is_autoscale {
                    true => {
                        let level = autoscale_level(hour.highest_ru_s, hour.maximum_ru_s);
                        (level, prices.autoscale_hour(level))
                    }
                    false => (hour.maximum_ru_s, prices.manual_hour(hour.maximum_ru_s)),
                };
                facts.push(UsageFacts {
                    space: space.clone(),
                    hour_ms: *hour_ms,
                    mode: if hour.is_autoscale { "autoscale" } else { "manual" }.to_owned(),
                    maximum_ru_s: hour.maximum_ru_s,
                    highest_ru_s: hour.highest_ru_s,
                    level_ru_s: level,
                    charge: money(hour.charge_micros),
                    cost: money(cost),
                    month_cost: money(cost.saturating_mul(MONTH_HOURS)),
                });
            }
        }
        facts
    }
}

/// Keeps the usage.
pub(crate) struct Ledger(Ranked<Usage>);

impl Ledger {
    /// Reads the usage that was kept.
    pub(crate) fn open(store: &NodeStore) -> Ledger {
        let usage = match store.load_document(USAGE_DOCUMENT) {
            Ok(Some(bytes)) => Usage::decode(&String::from_utf8_lossy(&bytes)),
            Ok(None) => Usage::default(),
            Err(error) => {
                tracing::warn!(%error, "the recorded usage is lost");
                Usage::default()
            }
        };
        Ledger(Ranked::new(Rank::Usage, usage))
    }

    /// Adds what the budgets were used for since the last time, and keeps it if asked to.
    pub(crate) fn record(&self, catalog: &Catalog, keeps: bool) {
        let hour_ms = catalog.world.now_us() / 1000 / HOUR_MS * HOUR_MS;
        let budgets = catalog.replicas.budgets();
        let provisioned = catalog.provisioned();
        let mut usage = self.0.lock();
        for (space, throughput, sets) in &provisioned {
            let used = sets.iter().filter_map(|set| budgets.take_usage(*set));
            // The hottest partition sets the level of all (facts 2.4, without dynamic autoscale).
            let (highest, charge_micros) = used.fold((0, 0), |(highest, sum), (peak, charge)| {
                (peak.max(highest), charge.micros().saturating_add(sum))
            });
            let (is_autoscale, maximum) = match throughput {
                Throughput::Manual(units) => (false, *units),
                Throughput::Autoscale(units) => (catalog.settings.autoscales, *units),
            };
            let highest_ru_s = highest.saturating_mul(sets.len() as u64);
            let maximum_ru_s = u64::from(maximum);
            let hour = Hour { is_autoscale, maximum_ru_s, highest_ru_s, charge_micros };
            usage.add(space.to_string(), hour_ms, hour);
        }
        let spaces: Vec<String> = provisioned.iter().map(|(space, ..)| space.to_string()).collect();
        usage.highest.retain(|space, _| spaces.contains(space));
        if keeps && !usage.hours.is_empty() {
            let text = usage.encode();
            if let Err(error) = catalog.store.save_document(USAGE_DOCUMENT, text.as_bytes()) {
                tracing::warn!(%error, "the usage could not be kept");
            }
        }
    }

    /// What the original's minimum of a space follows from.
    pub(crate) fn space_past(
        &self,
        catalog: &Catalog,
        keyspace: &str,
        table: Option<&str>,
    ) -> SpacePast {
        const GB: u64 = 1_000_000_000;
        let space = match table {
            None => Space::Keyspace(keyspace.into()),
            Some(table) => Space::Table { keyspace: keyspace.into(), table: table.into() },
        };
        self.record(catalog, false);
        let tables = tables_of(&catalog.view.schema(), &space);
        let held = stored(&catalog.replicas, &tables, catalog.view.map().partitions(&space));
        let bytes: u64 = held.iter().map(|held| held.bytes).sum();
        let whole = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let highest = self.0.lock().highest.get(&space.to_string()).copied().unwrap_or(0);
        SpacePast { stored_gb: whole(bytes / GB), highest_ru_s: whole(highest) }
    }

    pub(crate) fn facts(&self, catalog: &Catalog) -> Vec<UsageFacts> {
        self.record(catalog, false);
        self.0.lock().facts(&catalog.settings.prices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_comes_back_and_is_billed_by_its_highest_level() {
        let mut usage = Usage::default();
        let hour = |highest_ru_s| Hour {
            is_autoscale: true,
            maximum_ru_s: 4_000,
            highest_ru_s,
            charge_micros: 5_000_000,
        };
        usage.add("ks.t".into(), HOUR_MS, hour(700));
        usage.add("ks.t".into(), HOUR_MS, hour(250));
        usage.add("ks.t".into(), 2 * HOUR_MS, hour(0));
        let back = Usage::decode(&usage.encode());
        assert_eq!(back, usage);
        let facts = back.facts(&Prices::default());
        // 700 RU/s at one and a half times 0.008 for a hundred.
        assert_eq!((facts[0].level_ru_s, facts[0].cost, facts[0].charge), (700, 0.084, 10.0));
        assert_eq!((facts[1].level_ru_s, facts[1].cost), (400, 0.048));
        assert_eq!(Usage::decode("something else"), Usage::default());
        assert_eq!(back.highest["ks.t"], 4_000);
    }

    #[test]
    fn old_hours_go() {
        let mut usage = Usage::default();
        let hour =
            Hour { is_autoscale: false, maximum_ru_s: 400, highest_ru_s: 1, charge_micros: 1 };
        (0..HOURS_MAX as i64 + 10)
            .for_each(|number| usage.add("ks".into(), number * HOUR_MS, hour));
        assert_eq!(usage.hours["ks"].len(), HOURS_MAX);
        assert_eq!(usage.hours["ks"].keys().next(), Some(&(10 * HOUR_MS)));
    }
}
