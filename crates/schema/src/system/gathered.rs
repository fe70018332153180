//! Which computed tables tell of all nodes, and how the rows of several nodes become those of one table.

use std::collections::BTreeMap;

use super::rows::VirtualRow;
use super::values::{bigint, double, text};
use crate::model::Table;

/// How rows of several nodes with the same primary key become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    /// Members of sets: what a node tells of its own members counts, and of how far they are behind whoever knows it worst.
    Replicas,
    /// A row for each node: that of the node that is asked is called `local`, others by their numbers.
    Nodes,
    /// Of these columns the largest counts: a node that has none of the rows knows nothing of their size.
    Largest(&'static [&'static str]),
    /// What prepared statements cost everywhere.
    Statements,
    /// The row that is furthest from its end counts.
    LeastDone,
    /// Each node tells of what it did itself: in the order of their times, with new numbers.
    History,
}

/// How a table is gathered; `None` for one that tells of the node that is asked, or of what all nodes know.
fn merge_of(table: &Table) -> Option<Merge> {
    if &*table.keyspace != "system_helenus" {
        return None;
    }
    match &*table.name {
        "replicas" => Some(Merge::Replicas),
        "node" => Some(Merge::Nodes),
        "physical_partitions" => Some(Merge::Largest(&["bytes", "rows", "ru_s", "heat"])),
        "logical_partitions" => Some(Merge::Largest(&["bytes", "rows", "ru_s", "share_of_limit"])),
        "usage" => Some(Merge::Largest(&[
            "charge",
            "cost",
            "highest_ru_s",
            "level_ru_s",
            "maximum_ru_s",
            "month_cost",
        ])),
        "statements" => Some(Merge::Statements),
        "index_builds" => Some(Merge::LeastDone),
        "partition_history" => Some(Merge::History),
        // `jobs` and `events` are agreed on; what `throughput` tells comes from the leaders of sets already.
        _ => None,
    }
}

/// Whether a table tells of all nodes of a cluster.
pub fn is_gathered(table: &Table) -> bool {
    merge_of(table).is_some()
}

/// The rows of a table that is gathered, from those of the node that is asked and those of others, with their numbers.
pub fn merged_rows(
    table: &Table,
    own: (u64, Vec<VirtualRow>),
    others: Vec<(u64, Vec<VirtualRow>)>,
) -> Vec<VirtualRow> {
    let Some(merge) = merge_of(table) else { return own.1 };
    let columns = Columns(table);
    if merge == Merge::History {
        let all = std::iter::once(own).chain(others);
        return numbered(&columns, all.flat_map(|(_, rows)| rows).collect());
    }
    let key_count = table.partition_key_count + table.clustering_count;
    let (asked, mut found) = (own.0, BTreeMap::<Vec<Option<Vec<u8>>>, VirtualRow>::new());
    for (teller, rows) in std::iter::once(own).chain(others) {
        for mut row in rows {
            if merge == Merge::Nodes && teller != asked {
                columns.set(&mut row, "key", text(&teller.to_string()));
            }
            let key = row.values.iter().take(key_count).cloned().collect();
            match found.get_mut(&key) {
                None => {
                    found.insert(key, row);
                }
                Some(known) => columns.merge(merge, teller, known, row),
            }
        }
    }
    found.into_values().collect()
}

/// The columns of rows, by name.
struct Columns<'t>(&'t Table);

/// A number, of whatever type.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Number {
    Whole(i64),
    Broken(f64),
}

impl Columns<'_> {
    fn place(&self, name: &str) -> Option<usize> {
        self.0.columns.iter().position(|column| &*column.name == name)
    }

    fn get<'r>(&self, row: &'r VirtualRow, name: &str) -> Option<&'r [u8]> {
        row.values.get(self.place(name)?)?.as_deref()
    }

    fn set(&self, row: &mut VirtualRow, name: &str, value: Option<Vec<u8>>) {
        let place = self.place(name);
        if let Some(place) = place.and_then(|place| row.values.get_mut(place)) {
            *place = value;
        }
    }

    fn number(&self, row: &VirtualRow, name: &str) -> Option<Number> {
        let bytes: [u8; 8] = self.get(row, name)?.try_into().ok()?;
        let column = self.0.columns.get(self.place(name)?)?;
        Some(match column.cql_type {
            types::CqlType::Double => Number::Broken(f64::from_be_bytes(bytes)),
            _ => Number::Whole(i64::from_be_bytes(bytes)),
        })
    }

    fn set_largest(&self, known: &mut VirtualRow, row: &VirtualRow, name: &str) {
        if self.number(row, name) > self.number(known, name) {
            self.set(known, name, self.get(row, name).map(<[u8]>::to_vec));
        }
    }

    fn set_sum(&self, known: &mut VirtualRow, row: &VirtualRow, name: &str) {
        let sum = match (self.number(known, name), self.number(row, name)) {
            (Some(Number::Whole(one)), Some(Number::Whole(other))) => {
                bigint(one.saturating_add(other))
            }
            (Some(Number::Broken(one)), Some(Number::Broken(other))) => double(one + other),
            _ => return,
        };
        self.set(known, name, sum);
    }

    /// Another node tells of something that is known.
    fn merge(&self, merge: Merge, teller: u64, known: &mut VirtualRow, mut row: VirtualRow) {
        match merge {
            Merge::Replicas => {
                let told = i64::try_from(teller).unwrap_or(i64::MAX);
                if self.number(&row, "node") == Some(Number::Whole(told)) {
                    std::mem::swap(known, &mut row);
                }
                self.set_largest(known, &row, "lag");
            }
            Merge::Largest(names) => {
                names.iter().for_each(|name| self.set_largest(known, &row, name));
            }
            Merge::Statements => {
                for name in ["bytes", "calls", "charge_total", "rows", "throttled"] {
                    self.set_sum(known, &row, name);
                }
                self.set_largest(known, &row, "charge_p99");
                let total = self.number(known, "charge_total");
                let calls = self.number(known, "calls");
                if let (Some(Number::Broken(total)), Some(Number::Whole(calls))) = (total, calls) {
                    self.set(known, "charge_average", double(total / calls.max(1) as f64));
                }
            }
            Merge::LeastDone => {
                if self.number(&row, "progress") < self.number(known, "progress") {
                    *known = row;
                }
            }
            Merge::Nodes | Merge::History => {}
        }
    }
}

/// What nodes did to the map, numbered from one in each space.
fn numbered(columns: &Columns<'_>, mut rows: Vec<VirtualRow>) -> Vec<VirtualRow> {
    let number = |row: &VirtualRow, name| match columns.number(row, name) {
        Some(Number::Whole(number)) => number,
        _ => 0,
    };
    rows.sort_by_key(|row| (number(row, "at"), number(row, "number")));
    let mut last: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
    for row in &mut rows {
        let space = columns.get(row, "space").unwrap_or_default().to_vec();
        let next = last.entry(space).or_default();
        *next += 1;
        columns.set(row, "number", bigint(*next));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::values::{Value, timestamp};
    use super::*;
    use crate::model::Schema;

    fn schema() -> Schema {
        super::super::initial_schema()
    }

    /// A row of a table with some values.
    fn row(table: &Table, values: &[(&str, Value)]) -> VirtualRow {
        let value = |name: &str| {
            values.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.clone())
        };
        VirtualRow { values: table.columns.iter().map(|column| value(&column.name)).collect() }
    }

    fn whole(table: &Table, row: &VirtualRow, name: &str) -> i64 {
        match Columns(table).number(row, name) {
            Some(Number::Whole(number)) => number,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn what_tells_of_all_nodes() {
        let schema = schema();
        let mut gathered: Vec<String> = Vec::new();
        for keyspace in schema.keyspaces.values() {
            let tables = keyspace.tables.values().filter(|table| is_gathered(table));
            gathered.extend(tables.map(|table| format!("{}.{}", table.keyspace, table.name)));
        }
        assert_eq!(
            gathered,
            [
                "system_helenus.index_builds",
                "system_helenus.logical_partitions",
                "system_helenus.node",
                "system_helenus.partition_history",
                "system_helenus.physical_partitions",
                "system_helenus.replicas",
                "system_helenus.statements",
                "system_helenus.usage",
            ]
        );
    }

    #[test]
    fn a_member_is_told_of_by_its_node_and_its_lag_by_whoever_knows_it() {
        let schema = schema();
        let table = schema.table("system_helenus", "replicas").unwrap();
        let member = |node: i64, role: &str, lag: i64| {
            row(
                table,
                &[
                    ("set_id", bigint(7)),
                    ("node", bigint(node)),
                    ("role", text(role)),
                    ("lag", bigint(lag)),
                ],
            )
        };
        // Node 1 leads and was asked; node 2 tells of itself; node 3 does not answer.
        let own = vec![member(1, "leader", 0), member(2, "seen", 9), member(3, "seen", 5)];
        let rows = merged_rows(table, (1, own), vec![(2, vec![member(2, "follower", 2)])]);
        let told: Vec<(i64, &[u8], i64)> = rows
            .iter()
            .map(|row| {
                let role = Columns(table).get(row, "role").unwrap();
                (whole(table, row, "node"), role, whole(table, row, "lag"))
            })
            .collect();
        let wanted: [(i64, &[u8], i64); 3] =
            [(1, b"leader", 0), (2, b"follower", 9), (3, b"seen", 5)];
        assert_eq!(told, wanted);
    }

    #[test]
    fn nodes_have_a_row_each_and_sizes_are_those_of_who_has_the_rows() {
        let schema = schema();
        let table = schema.table("system_helenus", "node").unwrap();
        let node = |node: i64| row(table, &[("key", text("local")), ("node", bigint(node))]);
        let rows = merged_rows(table, (2, vec![node(2)]), vec![(1, vec![node(1)])]);
        let keys: Vec<&[u8]> =
            rows.iter().filter_map(|row| Columns(table).get(row, "key")).collect();
        assert_eq!(keys, [b"1".as_slice(), b"local"]);

        let table = schema.table("system_helenus", "physical_partitions").unwrap();
        let part = |bytes: i64, ru_s: f64| {
            row(
                table,
                &[
                    ("space", text("s")),
                    ("first_token", bigint(0)),
                    ("id", super::super::values::int(4)),
                    ("bytes", bigint(bytes)),
                    ("ru_s", double(ru_s)),
                ],
            )
        };
        let rows = merged_rows(table, (1, vec![part(0, 3.0)]), vec![(2, vec![part(90, 1.0)])]);
        assert_eq!(rows.len(), 1);
        assert_eq!(whole(table, &rows[0], "bytes"), 90);
        assert_eq!(Columns(table).number(&rows[0], "ru_s"), Some(Number::Broken(3.0)));
    }

    #[test]
    fn costs_add_up_builds_are_as_far_as_the_last_and_splits_get_new_numbers() {
        let schema = schema();
        let table = schema.table("system_helenus", "statements").unwrap();
        let statement = |calls: i64, total: f64| {
            let id = super::super::values::uuid(5);
            let (calls, p99) = (("calls", bigint(calls)), ("charge_p99", double(total)));
            row(table, &[("id", id), calls, ("charge_total", double(total)), p99])
        };
        let others = vec![(2, vec![statement(3, 8.0)]), (3, vec![statement(0, 0.0)])];
        let rows = merged_rows(table, (1, vec![statement(1, 4.0)]), others);
        assert_eq!((rows.len(), whole(table, &rows[0], "calls")), (1, 4));
        let broken = |name: &str| Columns(table).number(&rows[0], name);
        assert_eq!(broken("charge_average"), Some(Number::Broken(3.0)));
        assert_eq!(broken("charge_p99"), Some(Number::Broken(8.0)));

        let table = schema.table("system_helenus", "index_builds").unwrap();
        let build = |progress: f64, read: i64| {
            row(table, &[("progress", double(progress)), ("rows_read", bigint(read))])
        };
        let rows = merged_rows(table, (1, vec![build(1.0, 9)]), vec![(2, vec![build(0.5, 4)])]);
        assert_eq!((rows.len(), whole(table, &rows[0], "rows_read")), (1, 4));

        let table = schema.table("system_helenus", "partition_history").unwrap();
        let change = |at_ms: i64, bytes: i64| {
            let (number, at) = (("number", bigint(1)), ("at", timestamp(at_ms)));
            row(table, &[("space", text("s")), number, at, ("bytes", bigint(bytes))])
        };
        let rows = merged_rows(table, (1, vec![change(20, 2)]), vec![(2, vec![change(10, 1)])]);
        let told: Vec<(i64, i64)> =
            rows.iter().map(|it| (whole(table, it, "number"), whole(table, it, "bytes"))).collect();
        assert_eq!(told, [(1, 1), (2, 2)]);
    }
}
