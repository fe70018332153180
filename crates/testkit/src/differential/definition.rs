//! Definitions in the middle of the work: indexes come and go, columns are added, dropped, added
//! again and renamed, user types grow.

use std::sync::Arc;

use types::{CqlType, UserType};

use super::broken::broken;
use super::draft::Statement;
use super::random::Dice;
use super::schema::{Column, Flavor, Index, Role, Table, table, value_type};
use super::value::any_native;

/// A definition, and what it makes of the table and the user types once it was accepted.
pub(super) struct Definition {
    pub(super) text: String,
    /// An index is built after it, which takes a moment.
    pub(super) builds_index: bool,
    change: Alteration,
}

enum Alteration {
    None,
    AddIndex(Index),
    DropIndex(usize),
    AddColumn(Column),
    DropColumn(usize),
    Rename {
        column: usize,
        name: String,
    },
    Type(UserType),
    /// A table that is dropped again at once.
    Scratch(String),
}

/// What options of tables may say, and may not.
const OPTIONS: &[&str] = &[
    "comment = 'it''s another'",
    "comment = 5",
    "gc_grace_seconds = 100000",
    "gc_grace_seconds = -1",
    "gc_grace_seconds = 'a'",
    "default_time_to_live = -1",
    "default_time_to_live = 630720001",
    "bloom_filter_fp_chance = 0.01",
    "bloom_filter_fp_chance = 0",
    "bloom_filter_fp_chance = 1.5",
    "bloom_filter_fp_chance = 'x'",
    "caching = {'keys': 'ALL', 'rows_per_partition': '10'}",
    "caching = {'keys': 'bad'}",
    "caching = {'rows_per_partition': '-1'}",
    "caching = {'nosuch': '1'}",
    "caching = 'ALL'",
    "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 100}",
    "compaction = {'class': 'LeveledCompactionStrategy', 'min_threshold': 4, 'nosuch': 1}",
    "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 1}",
    "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 8, 'max_threshold': 4}",
    "compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}",
    "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS'}",
    "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'x'}",
    "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4, L8'}",
    "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'Q4'}",
    "compaction = {'class': 'nosuch'}",
    "compaction = {'sstable_size_in_mb': 100}",
    "compression = {'enabled': 'false'}",
    "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 64}",
    "compression = {'class': 'ZstdCompressor', 'compression_level': '5'}",
    "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 3}",
    "compression = {'class': 'LZ4Compressor', 'nosuch': 3}",
    "compression = {'class': 'DeflateCompressor', 'min_compress_ratio': '1.5'}",
    "compression = {'class': 'nosuch'}",
    "compression = {'chunk_length_in_kb': 16}",
    "crc_check_chance = 0.5",
    "crc_check_chance = 2",
    "memtable_flush_period_in_ms = 3600000",
    "memtable_flush_period_in_ms = -1",
    "min_index_interval = 64",
    "min_index_interval = 0",
    "max_index_interval = 64",
    "min_index_interval = 3000",
    "speculative_retry = '99p'",
    "speculative_retry = 'ALWAYS'",
    "speculative_retry = 'max(99p, 50ms)'",
    "speculative_retry = 'bad'",
    "speculative_retry = '101p'",
    "additional_write_policy = '50ms'",
    "additional_write_policy = 'NEVER'",
    "read_repair = 'NONE'",
    "read_repair = 'bad'",
    "memtable = 'nosuch'",
    "memtable = 'default'",
    "incremental_backups = false",
    "allow_auto_snapshot = true",
    "allow_auto_snapshot = 'x'",
    "extensions = {'a': '0x01'}",
    "nosuch = 1",
    "dclocal_read_repair_chance = 0.1",
    "read_repair_chance = 0.1",
    "comment = 'a' AND comment = 'b'",
    "comment = 'a' AND nosuch = 'b'",
    "comment = 'a' AND gc_grace_seconds = 5000",
    "CLUSTERING ORDER BY (c0 DESC)",
    "COMPACT STORAGE",
    "id = 5a1c395e-b41f-11e5-9f22-ba0be0483c18",
];

fn options(dice: &mut Dice) -> String {
    let first = dice.word(OPTIONS);
    if dice.chance(15) { format!("{first} AND {}", dice.word(OPTIONS)) } else { first.to_string() }
}

/// Another table, written rightly or not quite.
fn scratch_table(types: &[Arc<UserType>], dice: &mut Dice) -> Definition {
    const NAME: &str = "scratch";
    let mut other = table(dice.below(12), dice, types);
    let mut text =
        other.definition.replacen(&format!("TABLE {} ", other.name), "TABLE scratch ", 1);
    other.name = NAME.into();
    if dice.chance(30) {
        let word = if text.contains(" WITH ") { "AND" } else { "WITH" };
        text = format!("{text} {word} {}", options(dice));
    }
    if dice.chance(50) {
        let statement = Statement { text, ..Statement::default() };
        text = broken(statement, &other, dice).text;
    }
    Definition::new(text, Alteration::Scratch(NAME.into()))
}

/// Any definition about the table.
pub(super) fn definition(table: &Table, types: &[Arc<UserType>], dice: &mut Dice) -> Definition {
    match dice.below(28) {
        0..=8 => create_index(table, dice),
        9..=10 => drop_index(table, dice),
        11..=13 => add_column(table, types, dice),
        14..=15 => drop_column(table, dice),
        16..=17 => rename(table, dice),
        18..=19 => alter_type(types, dice),
        20..=23 => {
            let with = options(dice);
            Definition::new(format!("ALTER TABLE {} WITH {with}", table.name), Alteration::None)
        }
        _ => scratch_table(types, dice),
    }
}

impl Definition {
    fn new(text: String, change: Alteration) -> Definition {
        let builds_index = matches!(change, Alteration::AddIndex(_));
        Definition { text, builds_index, change }
    }

    /// The table that it makes, if that is to be dropped again.
    pub(super) fn scratch(&self) -> Option<String> {
        match &self.change {
            Alteration::Scratch(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// Both servers accepted it.
    pub(super) fn accept(self, table: &mut Table, types: &mut [Arc<UserType>]) {
        match self.change {
            Alteration::None | Alteration::Scratch(_) => {}
            Alteration::AddIndex(index) => table.indexes.push(index),
            Alteration::DropIndex(index) => drop(table.indexes.remove(index)),
            Alteration::AddColumn(column) => {
                table.dropped.retain(|dropped| dropped.name != column.name);
                table.columns.push(column);
            }
            Alteration::DropColumn(index) => {
                let dropped = table.columns.remove(index);
                table.dropped.push(dropped);
            }
            Alteration::Rename { column, name } => {
                if let Some(column) = table.columns.get_mut(column) {
                    for index in &mut table.indexes {
                        if index.column == column.name {
                            index.column.clone_from(&name);
                        }
                    }
                    column.name = name;
                }
            }
            Alteration::Type(definition) => {
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
        return Definition::new(format!("DROP INDEX IF EXISTS {name}"), Alteration::None);
    }
    let text = format!("CREATE INDEX {name} ON {} ({target})", table.name);
    Definition::new(text, Alteration::AddIndex(Index { name, column: column.name.clone() }))
}

fn drop_index(table: &Table, dice: &mut Dice) -> Definition {
    if table.indexes.is_empty() {
        return Definition::new("DROP INDEX nowhere".into(), Alteration::None);
    }
    let index = dice.below(table.indexes.len());
    let text = format!("DROP INDEX {}", table.indexes[index].name);
    Definition::new(text, Alteration::DropIndex(index))
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
        return Definition::new(format!("ALTER TABLE {} ADD p0 int", table.name), Alteration::None);
    }
    let suffix = if column.role == Role::Static { " static" } else { "" };
    let text = format!("ALTER TABLE {} ADD {} {}{suffix}", table.name, column.name, column.ty);
    Definition::new(text, Alteration::AddColumn(column))
}

fn drop_column(table: &Table, dice: &mut Dice) -> Definition {
    let index = dice.below(table.columns.len());
    let text = format!("ALTER TABLE {} DROP {}", table.name, table.columns[index].name);
    Definition::new(text, Alteration::DropColumn(index))
}

fn rename(table: &Table, dice: &mut Dice) -> Definition {
    let keys = table.partition().len() + table.clustering().len();
    let column = if dice.chance(90) { dice.below(keys) } else { dice.below(table.columns.len()) };
    let name = format!("r{}", dice.below(30));
    let old = &table.columns[column].name;
    let text = format!("ALTER TABLE {} RENAME {old} TO {name}", table.name);
    Definition::new(text, Alteration::Rename { column, name })
}

fn alter_type(types: &[Arc<UserType>], dice: &mut Dice) -> Definition {
    let mut definition: UserType = dice.pick::<Arc<UserType>>(types).as_ref().clone();
    let name = definition.name.clone();
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
    Definition::new(text, Alteration::Type(definition))
}
