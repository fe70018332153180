//! `helenus estimate`: what a workload needs and costs, from a file or from what a node recorded.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item, TableLike};
use units::budget::PARTITION_RATE_MAX;
use units::price::{MONTH_HOURS, Prices, autoscale_level};
use units::{Charge, ReadStrength, Work, charge, write_change};

use crate::node::Node;

/// A physical partition holds so much (cosmos-facts 1.1).
const PARTITION_BYTES_MAX: u64 = 30_000_000_000;
/// Manual throughput comes in steps of this, autoscale in steps of ten times this.
const STEP_RU: u64 = 100;
const MANUAL_RU_MIN: u64 = 400;
const AUTOSCALE_RU_MIN: u64 = 1_000;
const MONTH_SECONDS: u64 = MONTH_HOURS * 3600;

/// What a workload comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Workload {
    operations: Vec<Operation>,
    storage_bytes: u64,
    /// The highest second against the average, in percent.
    peak_percent: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Operation {
    name: String,
    per_second: f64,
    charge: Charge,
}

/// Reads a workload from the text of a file.
pub(crate) fn parse(text: &str) -> Result<Workload, String> {
    let document: DocumentMut = text.parse().map_err(|error| format!("not TOML: {error}"))?;
    for (key, _) in document.iter() {
        if !["storage_gb", "peak_percent", "operation"].contains(&key) {
            return Err(format!(
                "unknown key {key}; known are storage_gb, peak_percent, operation"
            ));
        }
    }
    let storage_gb = number(document.as_table(), "storage_gb")?.unwrap_or(0.0);
    let peak_percent = number(document.as_table(), "peak_percent")?.unwrap_or(100.0);
    let mut workload = Workload {
        operations: Vec::new(),
        storage_bytes: (storage_gb * 1e9) as u64,
        peak_percent: (peak_percent as u64).max(100),
    };
    let operations = document.get("operation").and_then(Item::as_array_of_tables);
    let operations = operations.ok_or("a workload needs at least one [[operation]]")?;
    for table in operations {
        workload.operations.push(operation(table)?);
    }
    Ok(workload)
}

fn number(table: &dyn TableLike, key: &str) -> Result<Option<f64>, String> {
    let Some(item) = table.get(key) else { return Ok(None) };
    let number = item.as_float().or_else(|| item.as_integer().map(|integer| integer as f64));
    match number {
        Some(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
        _ => Err(format!("{key} must be a number that is not negative")),
    }
}

fn operation(table: &toml_edit::Table) -> Result<Operation, String> {
    const KEYS: [&str; 7] =
        ["kind", "per_second", "row_bytes", "rows", "index_terms", "strong", "partitions"];
    if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(key)) {
        return Err(format!("unknown key {key} of an operation; known are {}", KEYS.join(", ")));
    }
    let whole =
        |key, missing| number(table, key).map(|found| found.map_or(missing, |it| it as u64));
    let kind = table.get("kind").and_then(Item::as_str).ok_or("an operation needs its kind")?;
    let per_second = number(table, "per_second")?.ok_or("an operation needs per_second")?;
    let row_bytes = whole("row_bytes", 1024)?;
    let (rows, terms) = (whole("rows", 1)?, whole("index_terms", 0)?);
    let is_strong = table.get("strong").and_then(Item::as_bool).unwrap_or(false);
    let strength = if is_strong { ReadStrength::Strong } else { ReadStrength::One };
    let mut work = Work::new(strength);
    let row = Some(row_bytes);
    match kind {
        "read" => (0..rows.clamp(1, 100_000)).for_each(|_| work.read_point(row_bytes)),
        "query" => {
            work.query_partition_count = whole("partitions", 1)?.max(1);
            work.scanned_row_count = rows;
            work.scanned_bytes = rows.saturating_mul(row_bytes);
            work.returned_row_count = rows;
            work.returned_bytes = work.scanned_bytes;
        }
        "insert" => work.written = write_change(None, row, terms).times(rows),
        "replace" => work.written = write_change(row, row, terms.saturating_mul(2)).times(rows),
        "delete" => work.written = write_change(row, None, terms).times(rows),
        _ => return Err(format!("kind {kind}: known are read, query, insert, replace, delete")),
    }
    Ok(Operation { name: kind.to_owned(), per_second, charge: charge(&work) })
}

/// What a running node recorded: its statements by what they cost, and how much it stores.
pub(crate) fn recorded(node: &Node) -> Value {
    let up_ms = (crate::world::now_us() / 1000 - node.world.started_at_ms()).max(1);
    let stored = node.storage.statistics();
    let disk_bytes: u64 = stored.tables.iter().map(|table| table.disk_bytes).sum();
    let statements: Vec<Value> = node
        .engine
        .statement_facts()
        .into_iter()
        .filter(|facts| facts.calls > 0)
        .map(|facts| {
            json!({
                "query": facts.text,
                "per_second": facts.calls as f64 * 1000.0 / up_ms as f64,
                "charge": facts.charge_average,
            })
        })
        .collect();
    json!({ "statements": statements, "storage_bytes": disk_bytes })
}

/// A workload from what [`recorded`] told.
pub(crate) fn of_record(record: &Value) -> Workload {
    let operations = record.get("statements").and_then(Value::as_array).into_iter().flatten();
    let operation = |statement: &Value| {
        let number = |key| statement.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        Operation {
            name: statement.get("query").and_then(Value::as_str).unwrap_or_default().to_owned(),
            per_second: number("per_second"),
            charge: Charge::from_micros((number("charge") * 1e6) as u64),
        }
    };
    Workload {
        operations: operations.map(operation).collect(),
        storage_bytes: record.get("storage_bytes").and_then(Value::as_u64).unwrap_or(0),
        peak_percent: 100,
    }
}

/// Reads the workload of a file.
pub(crate) fn from_file(path: &Path) -> Result<Workload, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Workload {
    fn average_micros(&self) -> u64 {
        let micros = |it: &Operation| it.per_second * it.charge.micros() as f64;
        self.operations.iter().map(micros).sum::<f64>().ceil() as u64
    }

    /// What it needs and costs, to be read.
    pub(crate) fn describe(&self, prices: &Prices) -> String {
        let average = self.average_micros();
        let peak = average.saturating_mul(self.peak_percent) / 100;
        let peak_ru = peak.div_ceil(1_000_000);
        let manual = peak_ru.max(MANUAL_RU_MIN).next_multiple_of(STEP_RU);
        let most = peak_ru.max(AUTOSCALE_RU_MIN).next_multiple_of(STEP_RU * 10);
        let for_rate = manual.div_ceil(PARTITION_RATE_MAX);
        let for_storage = self.storage_bytes.div_ceil(PARTITION_BYTES_MAX);
        let level = autoscale_level(average.div_ceil(1_000_000), most);
        let month_charge = Charge::from_micros(average).times(MONTH_SECONDS);
        let money = |micros: u64| {
            let cents = micros.saturating_add(5_000) / 10_000;
            format!("{}.{:02}", cents / 100, cents % 100)
        };
        let mut out = String::new();
        let _ = writeln!(out, "operations");
        for it in &self.operations {
            let rate = it.per_second * it.charge.to_f64();
            let name: String = it.name.chars().take(60).collect();
            let (per_second, charge) = (it.per_second, it.charge);
            let _ = writeln!(out, "  {per_second:.1}/s at {charge} RU = {rate:.1} RU/s  {name}");
        }
        let (average_ru, partitions) = (average as f64 / 1e6, for_rate.max(for_storage).max(1));
        let storage_gb = self.storage_bytes as f64 / 1e9;
        let _ = writeln!(
            out,
            "request units        {average_ru:.1} RU/s on average, {peak_ru} RU/s at the peak"
        );
        let _ = writeln!(out, "physical partitions  {partitions}");
        let storage = money(prices.storage_month(self.storage_bytes));
        let _ = writeln!(out, "storage              {storage_gb:.1} GB, {storage} a month");
        let month = money(prices.manual_hour(manual).saturating_mul(MONTH_HOURS));
        let _ = writeln!(out, "manual throughput    {manual} RU/s, {month} a month");
        let month = |level: u64| money(prices.autoscale_hour(level).saturating_mul(MONTH_HOURS));
        let (least, highest) = (month(level), month(autoscale_level(peak_ru, most)));
        let _ = writeln!(
            out,
            "autoscale            up to {most} RU/s, {least} a month at {level} RU/s in every hour, {highest} if each has the peak"
        );
        let million = month_charge.to_f64() / 1e6;
        let month = money(prices.serverless(month_charge));
        let _ = writeln!(out, "serverless           {million:.1} million RU, {month} a month");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_priced() {
        let text = "storage_gb = 10\npeak_percent = 200\n\
                    [[operation]]\nkind = \"read\"\nper_second = 500\n\
                    [[operation]]\nkind = \"insert\"\nper_second = 100\nrow_bytes = 1024\n";
        let workload = parse(text).unwrap();
        // 500 x 1.00 + 100 x 4.95
        assert_eq!(workload.average_micros(), 995_000_000);
        let told = workload.describe(&Prices::default());
        for line in [
            "995.0 RU/s on average, 1990 RU/s at the peak",
            "physical partitions  1",
            "10.0 GB, 2.50 a month",
            "2000 RU/s, 116.80 a month",
            "up to 2000 RU/s, 87.60 a month at 995 RU/s in every hour, 175.20 if each has the peak",
            "2614.9 million RU, 653.72 a month",
        ] {
            assert!(told.contains(line), "{line} in\n{told}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "[[operation]]"),
            ("speed = 1", "unknown key speed"),
            ("[[operation]]\nkind = \"read\"", "per_second"),
            ("[[operation]]\nkind = \"sing\"\nper_second = 1", "kind sing"),
            ("[[operation]]\nkind = \"read\"\nper_second = -1", "not negative"),
            ("[[operation]]\nkind = \"read\"\nper_second = 1\nsize = 2", "unknown key size"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
