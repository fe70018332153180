//! Tables of every shape.

use std::sync::Arc;

use types::{CqlType, UserType};

use super::random::Dice;
use super::value::{Literal, any_native, key_literal};

/// What a column is in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Of the partition key.
    Partition,
    /// Of the clustering key.
    Clustering {
        /// In descending order.
        is_descending: bool,
    },
    /// One value per partition.
    Static,
    /// One value per row.
    Regular,
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Its name as CQL writes it.
    pub(super) name: String,
    /// Its type.
    pub(super) ty: CqlType,
    /// What it is.
    pub(super) role: Role,
}

/// An index.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) name: String,
    /// The column that it is on.
    pub(super) column: String,
}

/// How a table is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavor {
    /// All times are written in the statements.
    Plain,
    /// Conditional writes, so the times are the server's and never read.
    Conditional,
    Counter,
    /// Like a plain one, `WITH COMPACT STORAGE`.
    Compact,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// Its columns, the key first.
    pub(super) columns: Vec<Column>,
    /// How it is used.
    pub(super) flavor: Flavor,
    /// The keys of the partitions most statements are about.
    pub(super) keys: Vec<Vec<Literal>>,
    /// The CREATE statement.
    pub(super) definition: String,
    pub(super) indexes: Vec<Index>,
    /// Columns that were dropped.
    pub(super) dropped: Vec<Column>,
}

impl Table {
    /// The columns of a role, by a test of it.
    pub(super) fn columns_that(&self, test: impl Fn(Role) -> bool) -> Vec<&Column> {
        self.columns.iter().filter(|column| test(column.role)).collect()
    }

    /// The columns of the partition key.
    pub(super) fn partition(&self) -> Vec<&Column> {
        self.columns_that(|role| role == Role::Partition)
    }

    /// The columns of the clustering key.
    pub(super) fn clustering(&self) -> Vec<&Column> {
        self.columns_that(|role| matches!(role, Role::Clustering { .. }))
    }

    /// The static columns.
    pub(super) fn statics(&self) -> Vec<&Column> {
        self.columns_that(|role| role == Role::Static)
    }

    /// The regular columns.
    pub(super) fn regulars(&self) -> Vec<&Column> {
        self.columns_that(|role| role == Role::Regular)
    }

    /// Everything that is not of the key.
    pub(super) fn values(&self) -> Vec<&Column> {
        self.columns_that(|role| matches!(role, Role::Static | Role::Regular))
    }
}

/// The user types of a keyspace with their CREATE statements.
pub(super) fn user_types(keyspace: &str, dice: &mut Dice) -> Vec<(Arc<UserType>, String)> {
    let mut types: Vec<(Arc<UserType>, String)> = Vec::new();
    for index in 0..3 {
        let known: Vec<Arc<UserType>> = types.iter().map(|(ty, _)| Arc::clone(ty)).collect();
        let mut fields = Vec::new();
        for field in 0..dice.between(1, 4) {
            let ty = if index == 0 || dice.chance(60) {
                any_native(dice)
            } else {
                composite(dice, &known, 1).freeze()
            };
            fields.push((Arc::from(format!("f{field}")), ty));
        }
        let definition =
            UserType { keyspace: keyspace.into(), name: format!("u{index}").into(), fields };
        let list: Vec<String> =
            definition.fields.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
        let text = format!("CREATE TYPE u{index} ({})", list.join(", "));
        types.push((Arc::new(definition), text));
    }
    types
}

/// A collection, tuple, user type or vector; not frozen itself.
fn composite(dice: &mut Dice, types: &[Arc<UserType>], depth: usize) -> CqlType {
    let inner = |dice: &mut Dice| {
        if depth > 0 && dice.chance(20) {
            composite(dice, types, depth - 1).freeze()
        } else {
            loop {
                let ty = any_native(dice);
                // Duration has no order, so it is refused in sets and keys of maps.
                if ty != CqlType::Duration {
                    return ty;
                }
            }
        }
    };
    match dice.below(12) {
        0..=2 => CqlType::List { element: Arc::new(inner(dice)), frozen: false },
        3..=5 => CqlType::Set { element: Arc::new(inner(dice)), frozen: false },
        6..=8 => {
            CqlType::Map { key: Arc::new(inner(dice)), value: Arc::new(inner(dice)), frozen: false }
        }
        9 => CqlType::Tuple((0..dice.between(1, 3)).map(|_| inner(dice)).collect()),
        10 if !types.is_empty() => {
            CqlType::User { definition: Arc::clone(dice.pick(types)), frozen: false }
        }
        10 => CqlType::List { element: Arc::new(inner(dice)), frozen: false },
        _ => CqlType::Vector {
            element: Arc::new(
                dice.pick(&[CqlType::Float, CqlType::Float, CqlType::Int, CqlType::Text]).clone(),
            ),
            dimension: dice.between(1, 3) as u16,
        },
    }
}

fn key_type(dice: &mut Dice, types: &[Arc<UserType>]) -> CqlType {
    if dice.chance(12) {
        let ty = composite(dice, types, 0).freeze();
        if !has_duration(&ty) {
            return ty;
        }
    }
    loop {
        let ty = any_native(dice);
        if ty != CqlType::Duration {
            return ty;
        }
    }
}

fn has_duration(ty: &CqlType) -> bool {
    match ty {
        CqlType::Duration => true,
        CqlType::User { definition, .. } => {
            definition.fields.iter().any(|(_, field)| has_duration(field))
        }
        CqlType::Tuple(parts) => parts.iter().any(has_duration),
        CqlType::List { element, .. }
        | CqlType::Set { element, .. }
        | CqlType::Vector { element, .. } => has_duration(element),
        CqlType::Map { key, value, .. } => has_duration(key) || has_duration(value),
        _ => false,
    }
}

/// The type of a column that is not of the key.
pub(super) fn value_type(dice: &mut Dice, types: &[Arc<UserType>]) -> CqlType {
    if dice.chance(50) {
        return any_native(dice);
    }
    let ty = composite(dice, types, 1);
    if dice.chance(30) { ty.freeze() } else { ty }
}

/// How many partitions most statements are about.
const PARTITIONS: usize = 4;

/// A table with its CREATE statement.
pub(super) fn table(index: usize, dice: &mut Dice, types: &[Arc<UserType>]) -> Table {
    let flavor = match index % 12 {
        2 | 8 => Flavor::Conditional,
        4 | 10 => Flavor::Counter,
        5 => Flavor::Compact,
        _ => Flavor::Plain,
    };
    let mut columns = Vec::new();
    let push = |columns: &mut Vec<Column>, prefix: &str, ty: CqlType, role: Role| {
        let number = columns.iter().filter(|column| column.role == role).count();
        let mixed = matches!(role, Role::Regular) && number == 3;
        let name = if mixed { "\"V 3\"".to_string() } else { format!("{prefix}{number}") };
        columns.push(Column { name, ty, role });
    };
    for _ in 0..*dice.pick(&[1, 1, 1, 2, 3]) {
        push(&mut columns, "p", key_type(dice, types), Role::Partition);
    }
    for number in 0..*dice.pick(&[0, 1, 1, 2, 2, 3]) {
        let role = Role::Clustering { is_descending: dice.chance(45) };
        let ty = key_type(dice, types);
        columns.push(Column { name: format!("c{number}"), ty, role });
    }
    let has_rows = columns.iter().any(|column| matches!(column.role, Role::Clustering { .. }));
    let is_counter = flavor == Flavor::Counter;
    let is_compact = flavor == Flavor::Compact;
    let value = |dice: &mut Dice| match value_type(dice, types) {
        _ if is_counter => CqlType::Counter,
        ty if is_compact => ty.freeze(),
        ty => ty,
    };
    if has_rows && !is_compact && dice.chance(60) {
        for _ in 0..dice.between(1, 3) {
            let ty = value(dice);
            push(&mut columns, "s", ty, Role::Static);
        }
    }
    let regulars_max = match flavor {
        Flavor::Counter => 3,
        Flavor::Compact if has_rows => 1,
        Flavor::Plain | Flavor::Conditional | Flavor::Compact => 6,
    };
    for _ in 0..dice.between(usize::from(is_counter), regulars_max) {
        let ty = value(dice);
        push(&mut columns, "v", ty, Role::Regular);
    }
    let partition: Vec<CqlType> = columns
        .iter()
        .filter(|column| column.role == Role::Partition)
        .map(|column| column.ty.clone())
        .collect();
    let keys = (0..PARTITIONS)
        .map(|_| partition.iter().map(|ty| partition_literal(ty, dice)).collect())
        .collect();
    let mut table = Table {
        name: format!("t{index}"),
        columns,
        flavor,
        keys,
        definition: String::new(),
        indexes: Vec::new(),
        dropped: Vec::new(),
    };
    table.definition = definition(&table, dice);
    table
}

/// A single column that is the whole key must not be empty; a few rolls find one that is not.
fn partition_literal(ty: &CqlType, dice: &mut Dice) -> Literal {
    for _ in 0..10 {
        let value = key_literal(ty, dice);
        if value.bytes.as_ref().is_some_and(|bytes| !bytes.is_empty()) {
            return value;
        }
    }
    key_literal(ty, dice)
}

fn definition(table: &Table, dice: &mut Dice) -> String {
    let mut parts: Vec<String> = Vec::new();
    for column in &table.columns {
        let suffix = if column.role == Role::Static { " static" } else { "" };
        parts.push(format!("{} {}{suffix}", column.name, column.ty));
    }
    let names = |columns: Vec<&Column>| -> Vec<String> {
        columns.iter().map(|column| column.name.clone()).collect()
    };
    let mut key = vec![format!("({})", names(table.partition()).join(", "))];
    key.extend(names(table.clustering()));
    parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
    let mut options = Vec::new();
    let orders: Vec<String> = table
        .clustering()
        .iter()
        .map(|column| {
            let down = column.role == Role::Clustering { is_descending: true };
            format!("{} {}", column.name, if down { "DESC" } else { "ASC" })
        })
        .collect();
    if !orders.is_empty() {
        options.push(format!("CLUSTERING ORDER BY ({})", orders.join(", ")));
    }
    if table.flavor == Flavor::Compact {
        options.push("COMPACT STORAGE".into());
    }
    if table.flavor == Flavor::Plain && dice.chance(15) {
        options.push("default_time_to_live = 8640000".into());
    }
    if dice.chance(20) {
        options.push("comment = 'it''s generated'".into());
    }
    let with =
        if options.is_empty() { String::new() } else { format!(" WITH {}", options.join(" AND ")) };
    format!("CREATE TABLE {} ({}){with}", table.name, parts.join(", "))
}
