//! What a writer does, and what its rows are then.

use std::collections::{BTreeMap, BTreeSet};

use super::verify;
use super::writer::Story;
use crate::differential::random::Dice;
use crate::{Client, Execution};
use protocol::Response;

/// Rows of a writer's partition that are changed again and again.
const KEYS: usize = 48;
/// Groups of the indexed table.
pub(super) const GROUPS: usize = 5;

pub(crate) fn create_tables(client: &mut Client) -> Result<(), String> {
    for statement in [
        "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE crash.a (w bigint, n bigint, v text, PRIMARY KEY (w, n))",
        "CREATE TABLE crash.b (w bigint, n bigint, v text, PRIMARY KEY (w, n))",
        "CREATE TABLE crash.rows (w bigint, k int, v bigint, s set<int>, fat blob, PRIMARY KEY (w, k))",
        "CREATE TABLE crash.conditional (w bigint PRIMARY KEY, v bigint)",
        "CREATE TABLE crash.counts (w bigint PRIMARY KEY, c counter)",
        "CREATE TABLE crash.grouped (w bigint, k int, g int, PRIMARY KEY (w, k))",
        "CREATE INDEX ON crash.grouped (g)",
        "CREATE TABLE crash.emptied (n bigint PRIMARY KEY, g int)",
        "CREATE KEYSPACE made WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    ] {
        ask(client, statement)?;
    }
    Ok(())
}

/// A statement that must succeed, and its rows.
pub(crate) fn ask(client: &mut Client, text: &str) -> Result<Vec<Vec<Option<Vec<u8>>>>, String> {
    let message =
        client.query(text, &Execution::default()).map_err(|error| format!("{text}: {error}"))?;
    match message.response {
        Response::Rows(rows) => Ok(rows
            .rows()
            .map(|row| row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
            .collect()),
        Response::Error(error) => Err(format!("{text}: {}", error.message)),
        _ => Ok(Vec::new()),
    }
}

/// One row of `crash.rows`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) v: Option<i64>,
    pub(super) set: BTreeSet<i32>,
    /// How long the blob is, and with what it is filled.
    pub(super) fat: Option<(usize, u8)>,
}

/// Everything a writer owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    /// The numbers in `crash.a` and, in the same batches, in `crash.b`.
    pub(super) a: BTreeSet<i64>,
    pub(super) b: BTreeSet<i64>,
    pub(super) rows: BTreeMap<i32, Row>,
    pub(super) conditional: Option<i64>,
    pub(super) count: i64,
    pub(super) grouped: BTreeMap<i32, i32>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A batch over two tables.
    Pair(i64),
    /// A batch that empties both partitions.
    ForgetPairs,
    Insert {
        k: i32,
        v: i64,
    },
    /// Beside a value of some size, so that memtables fill and cells spill.
    Fatten {
        k: i32,
        bytes: usize,
        fill: u8,
    },
    AddToSet {
        k: i32,
        element: i32,
    },
    DeleteRow(i32),
    DeleteFrom(i32),
    /// A batch of one partition over several rows.
    Many {
        first: i32,
        v: i64,
    },
    /// Counts up by comparing.
    Advance {
        from: Option<i64>,
    },
    Count,
    /// A counter that all writers share.
    CountShared,
    Group {
        k: i32,
        g: i32,
    },
    Ungroup(i32),
}

impl Story for Model {
    type Deed = Deed;

    fn draw(&self, dice: &mut Dice) -> Deed {
        let model = self;
        let k = dice.below(KEYS) as i32;
        let v = dice.below(1 << 40) as i64;
        match dice.below(32) {
            0..=8 => Deed::Pair(model.a.last().copied().unwrap_or(0) + 1),
            9 if model.a.len() > 400 => Deed::ForgetPairs,
            9..=13 => Deed::Insert { k, v },
            14..=15 => {
                let bytes = *dice.pick(&[100, 5_000, 20_000]);
                Deed::Fatten { k, bytes, fill: v as u8 }
            }
            16..=17 => Deed::AddToSet { k, element: (v & 0xff) as i32 },
            18..=19 => Deed::DeleteRow(k),
            20 => Deed::DeleteFrom(k.max(KEYS as i32 * 3 / 4)),
            21..=22 => Deed::Many { first: k, v },
            23..=24 => Deed::Advance { from: model.conditional },
            25..=26 => Deed::Count,
            27 => Deed::CountShared,
            28..=30 => Deed::Group { k, g: dice.below(GROUPS) as i32 },
            _ => Deed::Ungroup(k),
        }
    }

    fn text(deed: &Deed, w: usize) -> String {
        match deed {
            Deed::Pair(n) => format!(
                "BEGIN BATCH INSERT INTO crash.a (w, n, v) VALUES ({w}, {n}, 'a'); \
                 INSERT INTO crash.b (w, n, v) VALUES ({w}, {n}, 'b'); APPLY BATCH"
            ),
            Deed::ForgetPairs => format!(
                "BEGIN BATCH DELETE FROM crash.a WHERE w = {w}; DELETE FROM crash.b WHERE w = {w}; \
                 APPLY BATCH"
            ),
            Deed::Insert { k, v } => {
                format!("INSERT INTO crash.rows (w, k, v) VALUES ({w}, {k}, {v})")
            }
            Deed::Fatten { k, bytes, fill } => {
                let blob = format!("{fill:02x}").repeat(*bytes);
                format!("INSERT INTO crash.rows (w, k, fat) VALUES ({w}, {k}, 0x{blob})")
            }
            Deed::AddToSet { k, element } => {
                format!("UPDATE crash.rows SET s = s + {{{element}}} WHERE w = {w} AND k = {k}")
            }
            Deed::DeleteRow(k) => format!("DELETE FROM crash.rows WHERE w = {w} AND k = {k}"),
            Deed::DeleteFrom(k) => format!("DELETE FROM crash.rows WHERE w = {w} AND k >= {k}"),
            Deed::Many { first, v } => {
                let inserts: String = (*first..first + 5)
                    .map(|k| format!("INSERT INTO crash.rows (w, k, v) VALUES ({w}, {k}, {v}); "))
                    .collect();
                format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH")
            }
            Deed::Advance { from: None } => {
                format!("INSERT INTO crash.conditional (w, v) VALUES ({w}, 1) IF NOT EXISTS")
            }
            Deed::Advance { from: Some(from) } => {
                let to = from + 1;
                format!("UPDATE crash.conditional SET v = {to} WHERE w = {w} IF v = {from}")
            }
            Deed::Count => format!("UPDATE crash.counts SET c = c + 1 WHERE w = {w}"),
            Deed::CountShared => "UPDATE crash.counts SET c = c + 1 WHERE w = -1".to_string(),
            Deed::Group { k, g } => {
                format!("INSERT INTO crash.grouped (w, k, g) VALUES ({w}, {k}, {g})")
            }
            Deed::Ungroup(k) => format!("DELETE FROM crash.grouped WHERE w = {w} AND k = {k}"),
        }
    }

    fn is_shared(deed: &Deed) -> bool {
        *deed == Deed::CountShared
    }

    fn read(client: &mut Client, w: usize) -> Result<Model, String> {
        verify::read(client, w)
    }

    fn apply(&mut self, deed: &Deed) {
        match deed {
            Deed::Pair(n) => {
                self.a.insert(*n);
                self.b.insert(*n);
            }
            Deed::ForgetPairs => {
                self.a.clear();
                self.b.clear();
            }
            Deed::Insert { k, v } => self.rows.entry(*k).or_default().v = Some(*v),
            Deed::Fatten { k, bytes, fill } => {
                self.rows.entry(*k).or_default().fat = Some((*bytes, *fill));
            }
            Deed::AddToSet { k, element } => {
                self.rows.entry(*k).or_default().set.insert(*element);
            }
            Deed::DeleteRow(k) => {
                self.rows.remove(k);
            }
            Deed::DeleteFrom(k) => {
                self.rows.split_off(k);
            }
            Deed::Many { first, v } => {
                for k in *first..first + 5 {
                    self.rows.entry(k).or_default().v = Some(*v);
                }
            }
            Deed::Advance { from } => self.conditional = Some(from.unwrap_or(0) + 1),
            Deed::Count => self.count += 1,
            Deed::CountShared => {}
            Deed::Group { k, g } => {
                self.grouped.insert(*k, *g);
            }
            Deed::Ungroup(k) => {
                self.grouped.remove(k);
            }
        }
    }
}
