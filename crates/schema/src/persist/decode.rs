//! JSON to model; everything is looked at before it is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;
use types::{ColumnId, CqlType, TableId, UserType};

use super::CorruptSchema;
use crate::model::{
    Column, ColumnKind, DroppedColumn, Index, IndexTarget, Keyspace, KeyspaceKind, Schema, Table,
    TableShape,
};
use crate::options::{KeyspaceOptions, TableOptions, Throughput};
use crate::type_text::parse_type;

type Types = BTreeMap<Arc<str>, Arc<UserType>>;

/// A value and how one gets to it.
pub(super) struct Node<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Node<'a> {
        Node { value, path: String::new() }
    }

    pub(super) fn corrupt(&self, expected: &str) -> CorruptSchema {
        CorruptSchema { place: format!("{expected} at {}", self.path) }
    }

    pub(super) fn field(&self, name: &str) -> Result<Node<'a>, CorruptSchema> {
        let path = format!("{}/{name}", self.path);
        match self.value.get(name) {
            Some(value) => Ok(Node { value, path }),
            None => Err(CorruptSchema { place: format!("nothing at {path}") }),
        }
    }

    pub(super) fn list(&self) -> Result<Vec<Node<'a>>, CorruptSchema> {
        let items = self.value.as_array().ok_or_else(|| self.corrupt("no list"))?;
        let node = |(index, value)| Node { value, path: format!("{}/{index}", self.path) };
        Ok(items.iter().enumerate().map(node).collect())
    }

    pub(super) fn number<T: FromStr>(&self) -> Result<T, CorruptSchema> {
        match self.value {
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        }
        .ok_or_else(|| self.corrupt("no such number"))
    }

    fn text(&self) -> Result<&'a str, CorruptSchema> {
        self.value.as_str().ok_or_else(|| self.corrupt("no text"))
    }

    fn optional_text(&self) -> Result<Option<&'a str>, CorruptSchema> {
        if self.value.is_null() { Ok(None) } else { self.text().map(Some) }
    }

    fn shared(&self) -> Result<Arc<str>, CorruptSchema> {
        self.text().map(Arc::from)
    }

    fn boolean(&self) -> Result<bool, CorruptSchema> {
        self.value.as_bool().ok_or_else(|| self.corrupt("neither true nor false"))
    }

    /// A number that JSON cannot hold exactly is written as text.
    fn double(&self) -> Result<f64, CorruptSchema> {
        self.text()?.parse().map_err(|_| self.corrupt("no number in the text"))
    }

    fn uuid(&self) -> Result<TableId, CorruptSchema> {
        let text = self.text()?;
        let digits: String = text.split('-').collect();
        let id = u128::from_str_radix(&digits, 16).ok().map(TableId);
        id.filter(|id| id.to_string() == text).ok_or_else(|| self.corrupt("no uuid"))
    }

    fn text_map(&self) -> Result<BTreeMap<String, String>, CorruptSchema> {
        let object = self.value.as_object().ok_or_else(|| self.corrupt("no object"))?;
        let mut map = BTreeMap::new();
        for (key, value) in object {
            let text = value.as_str().ok_or_else(|| self.corrupt("no text in the object"))?;
            map.insert(key.clone(), text.to_string());
        }
        Ok(map)
    }

    fn cql_type(&self, types: &Types) -> Result<CqlType, CorruptSchema> {
        parse_type(self.text()?, &|name| types.get(name).map(Arc::clone))
            .ok_or_else(|| self.corrupt("no type"))
    }

    fn throughput(&self) -> Result<Option<Throughput>, CorruptSchema> {
        if self.value.is_null() {
            return Ok(None);
        }
        match (self.field("manual"), self.field("autoscale")) {
            (Ok(units), Err(_)) => Ok(Some(Throughput::Manual(units.number()?))),
            (Err(_), Ok(units)) => Ok(Some(Throughput::Autoscale(units.number()?))),
            _ => Err(self.corrupt("no throughput")),
        }
    }
}

pub(super) fn system_options(schema: Schema, node: &Node<'_>) -> Result<Schema, CorruptSchema> {
    let name = node.field("name")?.text()?;
    let options = keyspace_options(node)?;
    // A keyspace of the system that this version does not have any more is left out.
    let Some(keyspace) = schema.keyspace(name) else { return Ok(schema) };
    let changed = Keyspace { options, ..Keyspace::clone(keyspace) };
    Ok(schema.with_keyspace(changed))
}

fn keyspace_options(node: &Node<'_>) -> Result<KeyspaceOptions, CorruptSchema> {
    Ok(KeyspaceOptions {
        replication: node.field("replication")?.text_map()?,
        durable_writes: node.field("durable_writes")?.boolean()?,
        throughput: node.field("throughput")?.throughput()?,
    })
}

pub(super) fn keyspace(node: &Node<'_>) -> Result<Keyspace, CorruptSchema> {
    let options = node.field("options")?;
    let name = options.field("name")?.shared()?;
    let types = user_types(&node.field("types")?, &name)?;
    let mut tables = BTreeMap::new();
    let mut indexes = BTreeSet::new();
    for node in node.field("tables")?.list()? {
        let table = table(&node, &name, &types)?;
        for index in table.indexes.keys() {
            if !indexes.insert(Arc::clone(index)) {
                return Err(node.corrupt("an index comes twice"));
            }
        }
        if tables.insert(Arc::clone(&table.name), Arc::new(table)).is_some() {
            return Err(node.corrupt("a table comes twice"));
        }
    }
    let options = keyspace_options(&options)?;
    Ok(Keyspace { name, options, tables, types, kind: KeyspaceKind::User })
}

/// What [`super::encode::whole_table`] wrote.
pub(super) fn whole_table(node: &Node<'_>) -> Result<Table, CorruptSchema> {
    let keyspace = node.field("keyspace")?.shared()?;
    let types = user_types(&node.field("types")?, &keyspace)?;
    table(&node.field("table")?, &keyspace, &types)
}

fn user_types(node: &Node<'_>, keyspace: &Arc<str>) -> Result<Types, CorruptSchema> {
    let mut types = Types::new();
    for node in node.list()? {
        let definition = user_type(&node, keyspace, &types)?;
        if types.insert(Arc::clone(&definition.name), Arc::new(definition)).is_some() {
            return Err(node.corrupt("a type comes twice"));
        }
    }
    Ok(types)
}

fn user_type(
    node: &Node<'_>,
    keyspace: &Arc<str>,
    types: &Types,
) -> Result<UserType, CorruptSchema> {
    let mut fields = Vec::new();
    for field in node.field("fields")?.list()? {
        match field.list()?.as_slice() {
            [name, cql_type] => fields.push((name.shared()?, cql_type.cql_type(types)?)),
            _ => return Err(field.corrupt("no pair")),
        }
    }
    Ok(UserType { keyspace: Arc::clone(keyspace), name: node.field("name")?.shared()?, fields })
}

fn table(node: &Node<'_>, keyspace: &Arc<str>, types: &Types) -> Result<Table, CorruptSchema> {
    let shape = node.field("shape")?;
    let mut table = Table {
        id: node.field("id")?.uuid()?,
        // Documents of before there were versions have none.
        version: node.field("version").map_or(Ok(0), |version| version.number())?,
        keyspace: Arc::clone(keyspace),
        name: node.field("name")?.shared()?,
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        shape: match shape.text()? {
            "ordinary" => TableShape::Ordinary,
            "compact dense" => TableShape::CompactDense,
            "compact sparse" => TableShape::CompactSparse,
            _ => return Err(shape.corrupt("no shape")),
        },
        is_counter: node.field("is_counter")?.boolean()?,
        is_virtual: false,
        options: table_options(&node.field("options")?)?,
        indexes: BTreeMap::new(),
        dropped_columns: BTreeMap::new(),
        next_column_id: node.field("next_column_id")?.number()?,
    };
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    for column_node in node.field("columns")?.list()? {
        let column = column(&column_node, types)?;
        if !seen.0.insert(column.id) || !seen.1.insert(Arc::clone(&column.name)) {
            return Err(column_node.corrupt("a column comes twice"));
        }
        add_column(&mut table, column, &column_node)?;
    }
    if table.partition_key_count == 0 {
        return Err(node.corrupt("no partition key"));
    }
    for dropped in node.field("dropped_columns")?.list()? {
        let column = DroppedColumn {
            id: ColumnId(dropped.field("id")?.number()?),
            cql_type: dropped.field("type")?.cql_type(types)?,
            is_static: dropped.field("is_static")?.boolean()?,
            dropped_at_us: dropped.field("dropped_at_us")?.number()?,
        };
        if column.id.0 >= table.next_column_id {
            return Err(dropped.corrupt("a column id that was not given out"));
        }
        table.dropped_columns.insert(dropped.field("name")?.shared()?, column);
    }
    for index_node in node.field("indexes")?.list()? {
        let index = index(&index_node)?;
        if table.column_by_id(index.column).is_none() {
            return Err(index_node.corrupt("no column of the index"));
        }
        table.indexes.insert(Arc::clone(&index.name), Arc::new(index));
    }
    Ok(table)
}

/// Columns come in the order of the model; anything else would break whoever counts on it.
fn add_column(table: &mut Table, column: Column, node: &Node<'_>) -> Result<(), CorruptSchema> {
    if column.id.0 >= table.next_column_id {
        return Err(node.corrupt("a column id that was not given out"));
    }
    let group = |kind: ColumnKind| match kind {
        ColumnKind::PartitionKey => 0,
        ColumnKind::Clustering { .. } => 1,
        ColumnKind::Static => 2,
        ColumnKind::Regular => 3,
    };
    if let Some(last) = table.columns.last() {
        let (before, after) = (group(last.kind), group(column.kind));
        if before > after || (before == after && after >= 2 && last.name >= column.name) {
            return Err(node.corrupt("columns out of order"));
        }
    }
    match column.kind {
        ColumnKind::PartitionKey => table.partition_key_count += 1,
        ColumnKind::Clustering { .. } => table.clustering_count += 1,
        ColumnKind::Static => table.static_count += 1,
        ColumnKind::Regular => {}
    }
    table.columns.push(column);
    Ok(())
}

fn column(node: &Node<'_>, types: &Types) -> Result<Column, CorruptSchema> {
    let kind = node.field("kind")?;
    Ok(Column {
        id: ColumnId(node.field("id")?.number()?),
        name: node.field("name")?.shared()?,
        cql_type: node.field("type")?.cql_type(types)?,
        kind: match kind.text()? {
            "partition_key" => ColumnKind::PartitionKey,
            "clustering" => ColumnKind::Clustering { descending: false },
            "clustering descending" => ColumnKind::Clustering { descending: true },
            "static" => ColumnKind::Static,
            "regular" => ColumnKind::Regular,
            _ => return Err(kind.corrupt("no kind of column")),
        },
        mask: node.field("mask")?.optional_text()?.map(Arc::from),
        is_hidden: node.field("is_hidden")?.boolean()?,
    })
}

fn index(node: &Node<'_>) -> Result<Index, CorruptSchema> {
    let target = node.field("target")?;
    Ok(Index {
        name: node.field("name")?.shared()?,
        id: node.field("id")?.uuid()?,
        column: ColumnId(node.field("column")?.number()?),
        target: match target.text()? {
            "value" => IndexTarget::Value,
            "values" => IndexTarget::Values,
            "keys" => IndexTarget::Keys,
            "entries" => IndexTarget::Entries,
            "full" => IndexTarget::Full,
            _ => return Err(target.corrupt("no target")),
        },
        class: node.field("class")?.optional_text()?.map(Arc::from),
        options: node.field("options")?.text_map()?,
    })
}

fn table_options(node: &Node<'_>) -> Result<TableOptions, CorruptSchema> {
    let text = |name: &str| node.field(name)?.text().map(str::to_string);
    let cdc = node.field("cdc")?;
    Ok(TableOptions {
        additional_write_policy: text("additional_write_policy")?,
        allow_auto_snapshot: node.field("allow_auto_snapshot")?.boolean()?,
        bloom_filter_fp_chance: node.field("bloom_filter_fp_chance")?.double()?,
        caching: node.field("caching")?.text_map()?,
        cdc: if cdc.value.is_null() { None } else { Some(cdc.boolean()?) },
        comment: text("comment")?,
        compaction: node.field("compaction")?.text_map()?,
        compression: node.field("compression")?.text_map()?,
        crc_check_chance: node.field("crc_check_chance")?.double()?,
        default_time_to_live_s: node.field("default_time_to_live_s")?.number()?,
        gc_grace_s: node.field("gc_grace_s")?.number()?,
        incremental_backups: node.field("incremental_backups")?.boolean()?,
        max_index_interval: node.field("max_index_interval")?.number()?,
        memtable_flush_period_in_ms: node.field("memtable_flush_period_in_ms")?.number()?,
        min_index_interval: node.field("min_index_interval")?.number()?,
        read_repair: text("read_repair")?,
        speculative_retry: text("speculative_retry")?,
        throughput: node.field("throughput")?.throughput()?,
    })
}
