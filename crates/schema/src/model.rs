//! The schema as one immutable value. A change makes a new one (see `ddl`), readers keep theirs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use types::{ColumnId, CqlType, HiddenCells, TableId, UserType};

use crate::options::{KeyspaceOptions, TableOptions};

/// Everything that is defined at one moment.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// All keyspaces by name, the system's own too.
    pub keyspaces: BTreeMap<Arc<str>, Arc<Keyspace>>,
    /// The same tables by their id, for whoever holds only that.
    pub tables_by_id: HashMap<TableId, Arc<Table>, foldhash::fast::FixedState>,
    /// Changes with every change; a uuid made from what is defined.
    pub version: u128,
}

/// A keyspace and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyspace {
    /// Its name, in the case it is stored in.
    pub name: Arc<str>,
    /// Replication, durability, throughput.
    pub options: KeyspaceOptions,
    /// Tables by name.
    pub tables: BTreeMap<Arc<str>, Arc<Table>>,
    /// User types by name.
    pub types: BTreeMap<Arc<str>, Arc<UserType>>,
    /// Who may change it.
    pub kind: KeyspaceKind,
}

/// Whose keyspace it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyspaceKind {
    /// Made by a user.
    User,
    /// The system's, with stored tables: nobody may change its definition.
    System,
    /// The system's, and every table is computed when it is read.
    Virtual,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its identity.
    pub id: TableId,
    /// Rises with every change of its definition: what was written is applied by the definition of
    /// its time, not by that of the moment.
    pub version: u64,
    /// The keyspace it belongs to.
    pub keyspace: Arc<str>,
    /// Its name, in the case it is stored in.
    pub name: Arc<str>,
    /// All columns in the order of `SELECT *`: partition key, clustering, static and regular ones,
    /// the last two each sorted by name.
    pub columns: Vec<Column>,
    /// How many of `columns` are the partition key.
    pub partition_key_count: usize,
    /// How many after them are the clustering columns.
    pub clustering_count: usize,
    /// How many after them are static.
    pub static_count: usize,
    /// The shape that `WITH COMPACT STORAGE` gave it.
    pub shape: TableShape,
    /// Counter columns, and nothing else beside the key.
    pub is_counter: bool,
    /// Computed when read, not stored.
    pub is_virtual: bool,
    /// `WITH …`
    pub options: TableOptions,
    /// Secondary indexes by name.
    pub indexes: BTreeMap<Arc<str>, Arc<Index>>,
    /// Columns that were dropped: name to type and time, so that they are re-added with their type.
    pub dropped_columns: BTreeMap<Arc<str>, DroppedColumn>,
    /// The id the next new column gets; never one that was used before.
    pub next_column_id: u32,
}

/// How a table keeps its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableShape {
    /// As every table today.
    Ordinary,
    /// `COMPACT STORAGE` with clustering columns: exactly one regular column, which is hidden and of
    /// type `empty` when the statement declared none; rows without the last clustering columns are
    /// possible.
    CompactDense,
    /// `COMPACT STORAGE` without clustering columns. As in Cassandra the declared columns are
    /// static ones, and a clustering column `column1 text` and a regular column `value blob`
    /// (`counter` in a counter table) are there but hidden: one partition is one row.
    CompactSparse,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its identity within the table.
    pub id: ColumnId,
    /// Its name, in the case it is stored in.
    pub name: Arc<str>,
    /// Its type.
    pub cql_type: CqlType,
    /// What it is for.
    pub kind: ColumnKind,
    /// Its function of dynamic data masking, as CQL, if it has one.
    pub mask: Option<Arc<str>>,
    /// Not shown and not selectable: what `COMPACT STORAGE` adds to the declared columns, the value
    /// of a dense table declared without one, or clustering and value of a sparse one.
    pub is_hidden: bool,
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Part of the partition key.
    PartitionKey,
    /// Part of the clustering key.
    Clustering {
        /// `CLUSTERING ORDER BY (… DESC)`
        descending: bool,
    },
    /// One value per logical partition.
    Static,
    /// One value per row.
    Regular,
}

/// A column that is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct DroppedColumn {
    /// Its identity, which it gets back when it is added again.
    pub id: ColumnId,
    /// What it was.
    pub cql_type: CqlType,
    /// Whether it was static.
    pub is_static: bool,
    /// When it went, microseconds since the epoch.
    pub dropped_at_us: i64,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its name within the keyspace.
    pub name: Arc<str>,
    /// Where its entries are kept.
    pub id: TableId,
    /// The column it is on.
    pub column: ColumnId,
    /// What of the column it holds.
    pub target: IndexTarget,
    /// `CREATE CUSTOM INDEX … USING`
    pub class: Option<Arc<str>>,
    /// `WITH OPTIONS`
    pub options: BTreeMap<String, String>,
}

/// What of a column an index holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexTarget {
    /// The value, of a column that is not a collection.
    Value,
    /// The elements of a list or set, or the values of a map.
    Values,
    /// The keys of a map.
    Keys,
    /// Keys with their values.
    Entries,
    /// A whole frozen collection.
    Full,
}

impl Schema {
    /// The keyspace of that name.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<Keyspace>> {
        self.keyspaces.get(name)
    }

    /// The table of that name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<Table>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }

    /// The same schema with what is as it was before in the very same place: whoever planned for a table that did not change finds it
    /// again. For one that was read from bytes.
    pub fn sharing(mut self, before: &Schema) -> Schema {
        for (name, keyspace) in &mut self.keyspaces {
            let Some(known) = before.keyspaces.get(name) else { continue };
            if known == keyspace {
                *keyspace = Arc::clone(known);
                continue;
            }
            let mut shared = Keyspace::clone(keyspace);
            for (name, table) in &mut shared.tables {
                let same = known.tables.get(name).filter(|it| *it == table);
                *table = same.map_or_else(|| Arc::clone(table), Arc::clone);
            }
            *keyspace = Arc::new(shared);
        }
        let tables = self.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
        self.tables_by_id.extend(tables.map(|table| (table.id, Arc::clone(table))));
        self
    }

    /// The same schema with a keyspace put in place of the one of its name, if there was one. The
    /// version stays.
    pub fn with_keyspace(&self, keyspace: Keyspace) -> Schema {
        let mut next = self.without_keyspace(&keyspace.name);
        for table in keyspace.tables.values() {
            next.tables_by_id.insert(table.id, Arc::clone(table));
        }
        next.keyspaces.insert(Arc::clone(&keyspace.name), Arc::new(keyspace));
        next
    }

    /// The same schema without a keyspace. The version stays.
    pub fn without_keyspace(&self, name: &str) -> Schema {
        let mut next = self.clone();
        if let Some(gone) = next.keyspaces.remove(name) {
            for table in gone.tables.values() {
                next.tables_by_id.remove(&table.id);
            }
        }
        next
    }

    /// The table with that identity.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables_by_id.get(&id)
    }
}

impl Keyspace {
    /// The same keyspace with a table put in place of the one of its name, if there was one.
    pub fn with_table(&self, table: Table) -> Keyspace {
        let mut next = self.clone();
        next.tables.insert(Arc::clone(&table.name), Arc::new(table));
        next
    }

    /// The same keyspace without a table.
    pub fn without_table(&self, name: &str) -> Keyspace {
        let mut next = self.clone();
        next.tables.remove(name);
        next
    }

    /// The table that has the index of that name.
    pub fn indexed_table(&self, index: &str) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.indexes.contains_key(index))
    }
}

impl Table {
    /// The partition key columns, in order.
    pub fn partition_key(&self) -> &[Column] {
        self.columns.get(..self.partition_key_count).unwrap_or_default()
    }

    /// The clustering columns, in order.
    pub fn clustering(&self) -> &[Column] {
        let start = self.partition_key_count;
        self.columns.get(start..start + self.clustering_count).unwrap_or_default()
    }

    /// The static columns, by name.
    pub fn statics(&self) -> &[Column] {
        let start = self.partition_key_count + self.clustering_count;
        self.columns.get(start..start + self.static_count).unwrap_or_default()
    }

    /// The regular columns, by name.
    pub fn regulars(&self) -> &[Column] {
        let start = self.partition_key_count + self.clustering_count + self.static_count;
        self.columns.get(start..).unwrap_or_default()
    }

    /// A column and its place in `columns`, by name. Hidden ones are not found.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.place(name).filter(|(_, column)| !column.is_hidden)
    }

    /// A column and its place in `columns`, hidden or not. The columns outside of the key are sorted by name, so that a
    /// statement that names all of a wide table does not look at each for each.
    pub(crate) fn place(&self, name: &str) -> Option<(usize, &Column)> {
        let by_name = |columns: &[Column], start: usize| {
            let found = columns.binary_search_by(|column| column.name.as_ref().cmp(name));
            found.ok().map(|place| start + place)
        };
        let keys = self.partition_key_count + self.clustering_count;
        let key = self.columns.get(..keys).unwrap_or_default();
        let place = key
            .iter()
            .position(|column| column.name.as_ref() == name)
            .or_else(|| by_name(self.statics(), keys))
            .or_else(|| by_name(self.regulars(), keys + self.static_count))?;
        Some((place, self.columns.get(place)?))
    }

    /// A column by its identity.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        // In a table that was never altered a column's id is its place.
        let place = usize::try_from(id.0).ok()?;
        let expected = self.columns.get(place).filter(|column| column.id == id);
        expected.or_else(|| self.columns.iter().find(|column| column.id == id))
    }

    /// What its dropped columns left behind: all of it, or what was written before a column that
    /// was added again had been dropped. In the order of the columns' ids.
    pub fn hidden_cells(&self) -> Vec<HiddenCells> {
        let until_us = |dropped: &DroppedColumn| match self.column_by_id(dropped.id) {
            Some(_) => dropped.dropped_at_us,
            None => i64::MAX,
        };
        let dropped = self.dropped_columns.values();
        let mut hidden: Vec<HiddenCells> = dropped
            .map(|dropped| HiddenCells { column: dropped.id, until_us: until_us(dropped) })
            .collect();
        hidden.sort_by_key(|hidden| hidden.column);
        hidden
    }

    /// Whether it has static columns.
    pub fn has_statics(&self) -> bool {
        self.static_count > 0
    }
}

impl Column {
    /// Whether larger values come first.
    pub fn is_descending(&self) -> bool {
        matches!(self.kind, ColumnKind::Clustering { descending: true })
    }

    /// Whether it has one value per logical partition.
    pub fn is_static(&self) -> bool {
        self.kind == ColumnKind::Static
    }

    /// Whether it is part of the primary key.
    pub fn is_key(&self) -> bool {
        matches!(self.kind, ColumnKind::PartitionKey | ColumnKind::Clustering { .. })
    }
}
