//! The writer that creates, empties and drops.

use std::collections::{BTreeMap, BTreeSet};

use super::model::ask;
use super::verify::{int, long};
use super::writer::Story;
use crate::Client;
use crate::differential::random::Dice;

/// Tables that it has at the most, besides the one that it empties.
const TABLES_MAX: usize = 4;
/// Values of the indexed column.
const GROUPS: i64 = 4;

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defined {
    /// The rows of the table that is emptied again and again.
    emptied: BTreeSet<i64>,
    /// Whether it has an index.
    has_index: bool,
    /// The tables that come and go, and their rows.
    made: BTreeMap<i32, BTreeSet<i64>>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Fill(i64),
    Empty,
    CreateIndex,
    DropIndex,
    CreateTable(i32),
    FillTable(i32, i64),
    DropTable(i32),
}

impl Story for Defined {
    type Deed = Act;

    fn draw(&self, dice: &mut Dice) -> Act {
        let n = dice.below(1_000_000) as i64;
        let tables: Vec<i32> = self.made.keys().copied().collect();
        // The name of one that was dropped comes back.
        let fresh = (0..).find(|table| !self.made.contains_key(table)).unwrap_or(0);
        match dice.below(40) {
            0..=1 if !self.emptied.is_empty() => Act::Empty,
            2 if self.has_index => Act::DropIndex,
            2..=3 if !self.has_index => Act::CreateIndex,
            4..=5 if tables.len() < TABLES_MAX => Act::CreateTable(fresh),
            6 if tables.len() > 1 => Act::DropTable(*dice.pick(&tables)),
            7..=15 if !tables.is_empty() => Act::FillTable(*dice.pick(&tables), n),
            _ => Act::Fill(n),
        }
    }

    fn apply(&mut self, act: &Act) {
        match act {
            Act::Fill(n) => {
                self.emptied.insert(*n);
            }
            Act::Empty => self.emptied.clear(),
            Act::CreateIndex => self.has_index = true,
            Act::DropIndex => self.has_index = false,
            Act::CreateTable(table) => {
                self.made.insert(*table, BTreeSet::new());
            }
            Act::FillTable(table, n) => {
                self.made.entry(*table).or_default().insert(*n);
            }
            Act::DropTable(table) => {
                self.made.remove(table);
            }
        }
    }

    fn text(act: &Act, _: usize) -> String {
        match act {
            Act::Fill(n) => {
                format!("INSERT INTO crash.emptied (n, g) VALUES ({n}, {})", n % GROUPS)
            }
            Act::Empty => "TRUNCATE crash.emptied".into(),
            Act::CreateIndex => "CREATE INDEX emptied_g ON crash.emptied (g)".into(),
            Act::DropIndex => "DROP INDEX crash.emptied_g".into(),
            Act::CreateTable(table) => {
                format!("CREATE TABLE made.t{table} (n bigint PRIMARY KEY)")
            }
            Act::FillTable(table, n) => format!("INSERT INTO made.t{table} (n) VALUES ({n})"),
            Act::DropTable(table) => format!("DROP TABLE made.t{table}"),
        }
    }

    fn is_shared(_: &Act) -> bool {
        false
    }

    fn read(client: &mut Client, _: usize) -> Result<Defined, String> {
        let mut found = Defined::default();
        let mut groups = BTreeMap::new();
        for row in ask(client, "SELECT n, g FROM crash.emptied")? {
            let n = long(row.first())?;
            groups.entry(int(row.get(1))?).or_insert_with(BTreeSet::new).insert(n);
            found.emptied.insert(n);
        }
        let indexes = "SELECT index_name FROM system_schema.indexes \
                       WHERE keyspace_name = 'crash' AND table_name = 'emptied'";
        found.has_index = !ask(client, indexes)?.is_empty();
        if found.has_index {
            for g in 0..GROUPS as i32 {
                let rows = ask(client, &format!("SELECT n FROM crash.emptied WHERE g = {g}"))?;
                let by_index =
                    rows.iter().map(|row| long(row.first())).collect::<Result<BTreeSet<_>, _>>()?;
                if by_index != groups.remove(&g).unwrap_or_default() {
                    return Err(format!("TORN: the index of crash.emptied has other rows for {g}"));
                }
            }
        }
        let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'made'";
        for row in ask(client, tables)? {
            let name = row.first().and_then(Option::as_deref).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let number = name.trim_start_matches('t').parse().map_err(|_| name.clone())?;
            let mut rows = BTreeSet::new();
            for row in ask(client, &format!("SELECT n FROM made.{name}"))? {
                rows.insert(long(row.first())?);
            }
            found.made.insert(number, rows);
        }
        Ok(found)
    }
}
