//! Definitions in the middle of the work: indexes come and go, columns are added, dropped, added
//! again and renamed, user types grow.

use std::sync::Arc;

use types::{CqlType, UserType};

use super::random::Dice;
use super::schema::{Column, Flavor, Index, Role, Table, value_type};
use super::value::any_native;

/// A definition, and what it makes of the table and the user types once it was accepted.
pub(super) struct Definition {
    /// Its text.
    pub(super) text: String,
    /// An index is built after it, which takes a moment.
    pub(super) builds_index: bool,
    change: Change,
}

enum Change {
    None,
    AddIndex(Index),
    DropIndex(usize),
    AddColumn(Column),
    DropColumn(usize),
    Rename { column: usize, name: String },
    Type(UserType),
}

/// Any definition about the table.
pub(super) fn definition(table: &Table, types: &[Arc<UserType>], dice: &mut Dice) -> Definition {
    match dice.below(20) {
        0..=8 => create_index(table, dice),
        9..=10 => drop_index(table, dice),
        11..=13 => add_column(table, types, dice),
        14..=15 => drop_column(table, dice),
        16..=17 => rename(table, dice),
        _ => alter_type(table, types, dice),
    }
}

impl Definition {
    fn new(text: String, change: Change) -> Definition {
        let builds_index = matches!(change, Change::AddIndex(_));
        Definition { text, builds_index, change }
    }

    /// Both servers accepted it.
    pub(super) fn accept(self, table: &mut Table, types: &mut [Arc<UserType>]) {
        match self.change {
            Change::None => {}
            Change::AddIndex(index) => table.indexes.push(index),
            Change::DropIndex(index) => drop(table.indexes.remove(index)),
            Change::AddColumn(column) => {
                table.dropped.retain(|dropped| dropped.name != column.name);
                table.columns.push(column);
            }
            Change::DropColumn(index) => {
                let dropped = table.columns.remove(index);
                table.dropped.push(dropped);
            }
            Change::Rename { column, name } => {
                if let Some(column) = table.columns.get_mut(column) {
                    for index in &mut table.indexes {
                        if index.column == column.name {
                            index.column.clone_from(&name);
                        }
                    }
                    column.name = name;
                }
            }
            Change::Type(definition) => {
                for ty in types.iter_mut() {
                    *ty = Arc::new(replaced_fields(ty, &definition));
                }
                for column in table.columns.iter_mut().chain(&mut table.dropped) {
                    column.ty = replaced(&column.ty, &definition);
                }
            }
        }
    }
}

fn replaced_fields(ty: &UserType, by: &UserType) -> UserType {
    if ty.name == by.name {
        return by.clone();
    }
    let mut changed = ty.clone();
    for (_, field) in &mut changed.fields {
        *field = replaced(field, by);
    }
    changed
}

/// The same type with one user type in it replaced.
fn replaced(ty: &CqlType, by: &UserType) -> CqlType {
    match ty {
        CqlType::User { definition, frozen } => {
            CqlType::User { definition: Arc::new(replaced_fields(definition, by)), frozen: *frozen }
        }
        _ => ty.map_parts(&|part| replaced(part, by)),
    }
}

fn create_index(table: &Table, dice: &mut Dice) -> Definition {
    let column = dice.pick(&table.columns);
    let name = format!("{}_i{}", table.name, dice.below(1000));
    let forms: &[&str] = match &column.ty {
        CqlType::Map { frozen: false, .. } => &["", "KEYS", "VALUES", "ENTRIES", "FULL"],
        ty if ty.is_collection() && ty.is_multi_cell() => &["", "VALUES", "VALUES", "KEYS"],
        ty if ty.is_collection() => &["FULL", "FULL", "", "VALUES"],
        _ => &["", "", "", "", "", "KEYS"],
    };
    let target = match dice.word(forms) {
        "" => column.name.clone(),
        form => format!("{form}({})", column.name),
    };
    // An index on the only column of a partition key is accepted here, and refused there.
    let is_whole_key = column.role == Role::Partition && table.partition().len() == 1;
    if is_whole_key || table.flavor == Flavor::Counter {
        return Definition::new(format!("DROP INDEX IF EXISTS {name}"), Change::None);
    }
    let text = format!("CREATE INDEX {name} ON {} ({target})", table.name);
    Definition::new(text, Change::AddIndex(Index { name, column: column.name.clone() }))
}

fn drop_index(table: &Table, dice: &mut Dice) -> Definition {
    if table.indexes.is_empty() {
        return Definition::new("DROP INDEX nowhere".into(), Change::None);
    }
    let index = dice.below(table.indexes.len());
    let text = format!("DROP INDEX {}", table.indexes[index].name);
    Definition::new(text, Change::DropIndex(index))
}

fn add_column(table: &Table, types: &[Arc<UserType>], dice: &mut Dice) -> Definition {
    let is_counter = table.flavor == Flavor::Counter;
    // What is written with older times than that of the drop is hidden here at once, there once the
    // memtable is flushed: with times of the generator's a column does not come back.
    let comes_back = table.flavor == Flavor::Conditional;
    let column = if comes_back && !table.dropped.is_empty() && dice.chance(70) {
        let mut again = dice.pick(&table.dropped).clone();
        if dice.chance(10) && !is_counter {
            again.ty = value_type(dice, types);
        }
        again
    } else {
        let has_rows = !table.clustering().is_empty();
        let role = if has_rows && dice.chance(20) { Role::Static } else { Role::Regular };
        let ty = if is_counter { CqlType::Counter } else { value_type(dice, types) };
        Column { name: format!("w{}", dice.below(20)), ty, role }
    };
    if !comes_back && table.dropped.iter().any(|dropped| dropped.name == column.name) {
        return Definition::new(format!("ALTER TABLE {} ADD p0 int", table.name), Change::None);
    }
    let suffix = if column.role == Role::Static { " static" } else { "" };
    let text = format!("ALTER TABLE {} ADD {} {}{suffix}", table.name, column.name, column.ty);
    Definition::new(text, Change::AddColumn(column))
}

fn drop_column(table: &Table, dice: &mut Dice) -> Definition {
    let index = dice.below(table.columns.len());
    let text = format!("ALTER TABLE {} DROP {}", table.name, table.columns[index].name);
    Definition::new(text, Change::DropColumn(index))
}

fn rename(table: &Table, dice: &mut Dice) -> Definition {
    let keys = table.partition().len() + table.clustering().len();
    let column = if dice.chance(90) { dice.below(keys) } else { dice.below(table.columns.len()) };
    let name = format!("r{}", dice.below(30));
    let old = &table.columns[column].name;
    let text = format!("ALTER TABLE {} RENAME {old} TO {name}", table.name);
    Definition::new(text, Change::Rename { column, name })
}

fn alter_type(table: &Table, types: &[Arc<UserType>], dice: &mut Dice) -> Definition {
    let mut definition: UserType = dice.pick::<Arc<UserType>>(types).as_ref().clone();
    let name = definition.name.clone();
    // What lies in a key was made of the fields that it had.
    let is_in_key = table.columns.iter().any(|column| {
        let is_it = |part: &CqlType| {
            matches!(part, CqlType::User { definition, .. } if definition.name == name)
        };
        matches!(column.role, Role::Partition | Role::Clustering { .. })
            && column.ty.contains(&is_it)
    });
    if is_in_key {
        return Definition::new(format!("ALTER TYPE {name} ADD f0 int"), Change::None);
    }
    let text = if dice.chance(60) {
        let field = format!("g{}", dice.below(40));
        let ty = any_native(dice);
        definition.fields.push((Arc::from(field.as_str()), ty.clone()));
        format!("ALTER TYPE {name} ADD {field} {ty}")
    } else {
        let place = dice.below(definition.fields.len());
        let field = format!("h{}", dice.below(40));
        let old = std::mem::replace(&mut definition.fields[place].0, Arc::from(field.as_str()));
        format!("ALTER TYPE {name} RENAME {old} TO {field}")
    };
    Definition::new(text, Change::Type(definition))
}
