//! Statements that write: INSERT, UPDATE, DELETE and batches of them.

use protocol::BatchKind;
use types::CqlType;

use super::draft::{Draft, Statement};
use super::random::Dice;
use super::schema::{Column, Flavor, Role, Table};
use super::value::{key_literal, literal};

/// Times count up slowly, so that writes with the same time and older ones are common.
#[derive(Clone, Debug)]
pub(super) struct Times {
    now: usize,
}

const TIME_SPREAD: usize = 12;

impl Times {
    /// The first times.
    pub(super) fn new() -> Times {
        Times { now: 1000 }
    }

    fn next(&mut self, dice: &mut Dice) -> usize {
        self.now += dice.below(4);
        self.now + dice.below(TIME_SPREAD)
    }
}

/// A write to the table, of any kind.
pub(super) fn write(table: &Table, times: &mut Times, dice: &mut Dice) -> Statement {
    let is_named = dice.chance(15);
    let mut draft = Draft::new(dice.chance(30)).with_named_markers(is_named);
    if dice.chance(4) {
        return batch_message(table, times, dice);
    }
    if dice.chance(10) {
        batch(&mut draft, table, times, dice);
    } else {
        single(&mut draft, table, times, dice, Place::Alone);
    }
    Statement { written: Some(table.name.clone()), ..draft.finish() }
}

pub(super) fn delete_of(table: &Table, times: &mut Times, dice: &mut Dice) -> Statement {
    let mut draft = Draft::new(dice.chance(30));
    delete(&mut draft, table, times, dice, Place::Alone);
    Statement { written: Some(table.name.clone()), ..draft.finish() }
}

/// Where a statement stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Alone,
    Batch,
    TimedBatch,
}

fn single(draft: &mut Draft, table: &Table, times: &mut Times, dice: &mut Dice, place: Place) {
    if table.flavor == Flavor::Counter {
        match dice.below(20) {
            0 => insert(draft, table, times, dice, place),
            _ => update(draft, table, times, dice, place),
        }
        return;
    }
    match dice.below(100) {
        0..=44 => insert(draft, table, times, dice, place),
        45..=79 => update(draft, table, times, dice, place),
        _ => delete(draft, table, times, dice, place),
    }
}

fn batch(draft: &mut Draft, table: &Table, times: &mut Times, dice: &mut Dice) {
    let is_counter = table.flavor == Flavor::Counter;
    draft.push(match dice.below(10) {
        _ if is_counter => "BEGIN COUNTER BATCH ",
        0..=5 => "BEGIN BATCH ",
        _ => "BEGIN UNLOGGED BATCH ",
    });
    let is_timed = matches!(table.flavor, Flavor::Plain | Flavor::Compact) && dice.chance(30);
    if is_timed {
        draft.push(&format!("USING TIMESTAMP {} ", times.next(dice)));
    }
    // A batch with conditions is about one partition.
    let mut narrowed = table.clone();
    if table.flavor == Flavor::Conditional && dice.chance(90) {
        narrowed.keys = vec![dice.pick(&table.keys).clone()];
    }
    let table = &narrowed;
    for _ in 0..dice.between(1, 4) {
        let place = if is_timed { Place::TimedBatch } else { Place::Batch };
        single(draft, table, times, dice, place);
        draft.end_relations();
        draft.push("; ");
    }
    draft.push("APPLY BATCH");
}

/// Several statements that are sent as one message.
fn batch_message(table: &Table, times: &mut Times, dice: &mut Dice) -> Statement {
    let (kind, word) = match dice.below(10) {
        0 => (BatchKind::Counter, "COUNTER "),
        _ if table.flavor == Flavor::Counter => (BatchKind::Counter, "COUNTER "),
        1..=6 => (BatchKind::Logged, ""),
        _ => (BatchKind::Unlogged, "UNLOGGED "),
    };
    let mut narrowed = table.clone();
    if table.flavor == Flavor::Conditional && dice.chance(90) {
        narrowed.keys = vec![dice.pick(&table.keys).clone()];
    }
    let mut parts = Vec::new();
    for _ in 0..dice.between(1, 3) {
        let mut draft = Draft::new(dice.chance(50));
        single(&mut draft, &narrowed, times, dice, Place::Batch);
        parts.push(draft.finish());
    }
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    Statement {
        text: format!("BEGIN {word}BATCH {}; APPLY BATCH", texts.join("; ")),
        values: Some(parts.iter().flat_map(|part| part.values.clone()).flatten().collect()),
        written: Some(table.name.clone()),
        parts: Some((kind, parts)),
        page_size: None,
    }
}

fn using(draft: &mut Draft, table: &Table, times: &mut Times, dice: &mut Dice, with_ttl: bool) {
    let is_timed = matches!(table.flavor, Flavor::Plain | Flavor::Compact);
    if is_timed {
        draft.push(" USING TIMESTAMP ");
        draft.number(times.next(dice), 8, dice);
    }
    if !is_timed && dice.chance(1) {
        draft.push(dice.word(&[" USING TIMESTAMP 5", " USING TIMESTAMP 5 AND TTL 5000000"]));
        return;
    }
    let has_ttl = table.flavor != Flavor::Counter || dice.chance(5);
    if with_ttl && has_ttl && dice.chance(8) {
        draft.push(if is_timed { " AND TTL " } else { " USING TTL " });
        match dice.below(20) {
            0 => draft.push(dice.word(&["-1", "630720001", "null", "'a'", "99999999999"])),
            1..=3 => draft.push("0"),
            _ => draft.number(1_000_000 * dice.between(1, 9) + 500, 4, dice),
        }
    }
}

fn is_conditional(table: &Table, dice: &mut Dice, place: Place) -> bool {
    match table.flavor {
        Flavor::Conditional => dice.chance(if place == Place::Alone { 60 } else { 40 }),
        _ => false,
    }
}

fn insert(draft: &mut Draft, table: &Table, times: &mut Times, dice: &mut Dice, place: Place) {
    draft.push(&format!("INSERT INTO {} ", table.name));
    let keys = dice.pick(&table.keys).clone();
    let mut columns: Vec<(&Column, Option<usize>)> =
        table.partition().into_iter().enumerate().map(|(i, c)| (c, Some(i))).collect();
    // Without clustering columns only the partition and its static columns are written.
    let is_static_only = !table.statics().is_empty() && dice.chance(8);
    for column in table.columns.iter().filter(|column| column.role != Role::Partition) {
        let is_wanted = match column.role {
            Role::Clustering { .. } => !is_static_only && !dice.chance(1),
            Role::Static => is_static_only || dice.chance(30),
            _ => !is_static_only && dice.chance(65),
        };
        if is_wanted {
            columns.push((column, None));
        }
    }
    // Cassandra forgets the hidden value that makes a row of a compact table.
    let has_json = table.flavor != Flavor::Compact;
    if has_json && dice.chance(8) {
        insert_json(draft, &columns, &keys, dice);
    } else {
        let names: Vec<&str> = columns.iter().map(|(column, _)| column.name.as_str()).collect();
        draft.push(&format!("({}) VALUES (", names.join(", ")));
        for (position, (column, key)) in columns.iter().enumerate() {
            if position > 0 {
                draft.push(", ");
            }
            match (key, column.role) {
                (Some(index), _) => draft.value(&keys[*index], dice),
                (None, Role::Clustering { .. }) => draft.key(&column.ty, dice),
                _ => draft.term(&column.ty, dice),
            }
        }
        draft.push(")");
    }
    if is_conditional(table, dice, place) {
        draft.push(" IF NOT EXISTS");
    }
    if place != Place::TimedBatch {
        using(draft, table, times, dice, true);
    }
}

fn insert_json(
    draft: &mut Draft,
    columns: &[(&Column, Option<usize>)],
    keys: &[super::value::Literal],
    dice: &mut Dice,
) {
    let mut fields = Vec::new();
    for (column, key) in columns {
        let value = match (key, column.role) {
            (Some(index), _) => keys[*index].clone(),
            (None, Role::Clustering { .. }) => key_literal(&column.ty, dice),
            _ => literal(&column.ty, dice),
        };
        let name = match column.name.strip_prefix('"') {
            Some(_) => format!("\"\\\"{}\\\"\"", column.name.trim_matches('"')),
            None => format!("\"{}\"", column.name),
        };
        let json = if dice.chance(5) { "null".to_string() } else { value.json };
        fields.push(format!("{name}: {json}"));
    }
    let text = format!("{{{}}}", fields.join(", "));
    let default = dice.word(&["", "", " DEFAULT NULL", " DEFAULT UNSET"]);
    draft.push("JSON ");
    if !draft.text_marker(&text, dice) {
        draft.push(&format!("'{}'", text.replace('\'', "''")));
    }
    draft.push(default);
}

/// The whole partition key: by `=`, or by IN now and then.
fn partition_key(draft: &mut Draft, table: &Table, dice: &mut Dice, in_percent: usize) {
    let keys = dice.pick(&table.keys).clone();
    for (column, key) in table.partition().into_iter().zip(&keys) {
        draft.relation();
        if dice.chance(in_percent) {
            draft.push(&format!("{} IN (", column.name));
            draft.value(key, dice);
            draft.push(", ");
            draft.key(&column.ty, dice);
            draft.push(")");
        } else {
            draft.push(&format!("{} = ", column.name));
            draft.value(key, dice);
        }
    }
}

fn clustering_key(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    for column in table.clustering() {
        if dice.chance(1) {
            continue;
        }
        draft.relation();
        if dice.chance(6) {
            draft.push(&format!("{} IN (", column.name));
            draft.key(&column.ty, dice);
            draft.push(", ");
            draft.key(&column.ty, dice);
            draft.push(")");
        } else {
            draft.push(&format!("{} = ", column.name));
            draft.key(&column.ty, dice);
        }
    }
}

fn update(draft: &mut Draft, table: &Table, times: &mut Times, dice: &mut Dice, place: Place) {
    draft.push(&format!("UPDATE {}", table.name));
    if place != Place::TimedBatch {
        using(draft, table, times, dice, true);
    }
    draft.push(" SET ");
    let statics = table.statics();
    let is_static_only = !statics.is_empty() && dice.chance(25);
    let mut columns = if is_static_only {
        statics
    } else if dice.chance(20) {
        table.values()
    } else {
        table.regulars()
    };
    dice.shuffle(&mut columns);
    columns.truncate(dice.between(1, 3));
    if columns.is_empty() {
        columns = table.clustering();
        columns.truncate(1);
    }
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            draft.push(", ");
        }
        assignment(draft, column, dice);
    }
    partition_key(draft, table, dice, 3);
    if !is_static_only || dice.chance(3) {
        clustering_key(draft, table, dice);
    }
    if is_conditional(table, dice, place) {
        conditions(draft, table, dice, is_static_only);
    }
}

fn assignment(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    let name = &column.name;
    let plain = |draft: &mut Draft, dice: &mut Dice| {
        draft.push(&format!("{name} = "));
        draft.term(&column.ty, dice);
    };
    match &column.ty {
        CqlType::Counter => {
            let sign = dice.word(&["+", "-", "+="]);
            if sign == "+=" {
                draft.push(&format!("{name} += "));
            } else {
                draft.push(&format!("{name} = {name} {sign} "));
            }
            draft.term(&CqlType::BigInt, dice);
        }
        CqlType::List { element, .. } => match dice.below(10) {
            0..=2 => plain(draft, dice),
            3 => {
                draft.push(&format!("{name}[{}] = ", dice.below(3)));
                draft.term(element, dice);
            }
            4 => {
                draft.push(&format!("{name} = "));
                draft.term(&column.ty, dice);
                draft.push(&format!(" + {name}"));
            }
            5 => {
                draft.push(&format!("{name} = {name} - "));
                draft.term(&column.ty, dice);
            }
            6 => {
                draft.push(&format!("{name} {} ", dice.word(&["+=", "-="])));
                draft.term(&column.ty, dice);
            }
            _ => {
                draft.push(&format!("{name} = {name} + "));
                draft.term(&column.ty, dice);
            }
        },
        CqlType::Set { .. } => match dice.below(6) {
            0..=1 => plain(draft, dice),
            2 => {
                draft.push(&format!("{name} {} ", dice.word(&["+=", "-="])));
                draft.term(&column.ty, dice);
            }
            _ => {
                draft.push(&format!("{name} = {name} {} ", dice.word(&["+", "+", "-"])));
                draft.term(&column.ty, dice);
            }
        },
        CqlType::Map { key, value, .. } => match dice.below(6) {
            0..=1 => plain(draft, dice),
            2 => {
                draft.push(&format!("{name}["));
                draft.term(key, dice);
                draft.push("] = ");
                draft.term(value, dice);
            }
            3 => {
                let keys = CqlType::Set { element: std::sync::Arc::clone(key), frozen: false };
                draft.push(&format!("{name} = {name} - "));
                draft.term(&keys, dice);
            }
            _ => {
                draft.push(&format!("{name} = {name} + "));
                draft.term(&column.ty, dice);
            }
        },
        CqlType::User { definition, .. } if dice.chance(60) => {
            let (field, ty) = dice.pick(&definition.fields).clone();
            draft.push(&format!("{name}.{field} = "));
            draft.term(&ty, dice);
        }
        CqlType::Int | CqlType::Text if dice.chance(3) => {
            draft.push(&format!("{name} = {name} + "));
            draft.term(&column.ty, dice);
        }
        _ => plain(draft, dice),
    }
}

fn delete(draft: &mut Draft, table: &Table, times: &mut Times, dice: &mut Dice, place: Place) {
    draft.push("DELETE ");
    draft.without_null_keys();
    let granularity = dice.below(10);
    let mut columns = match granularity {
        0..=3 => table.regulars(),
        4 => table.statics(),
        5 => table.values(),
        _ => Vec::new(),
    };
    dice.shuffle(&mut columns);
    columns.truncate(dice.between(1, 2));
    let parts: Vec<Draft> = columns
        .iter()
        .map(|column| {
            let mut part = Draft::new(false);
            deletion_target(&mut part, column, dice);
            part
        })
        .collect();
    let parts: Vec<String> = parts.into_iter().map(|part| part.finish().text).collect();
    draft.push(&parts.join(", "));
    draft.push(&format!(" FROM {}", table.name));
    if place != Place::TimedBatch {
        using(draft, table, times, dice, false);
    }
    partition_key(draft, table, dice, 5);
    let is_static = granularity == 4 && !columns.is_empty();
    match dice.below(10) {
        _ if is_static => {}
        0..=5 => clustering_key(draft, table, dice),
        6..=8 => super::restriction::clustering_range(draft, table, dice),
        _ => {}
    }
    if is_conditional(table, dice, place) {
        conditions(draft, table, dice, is_static);
    }
}

fn deletion_target(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    draft.push(&column.name);
    match &column.ty {
        CqlType::Map { key, frozen: false, .. } if dice.chance(60) => {
            draft.push("[");
            draft.term(key, dice);
            draft.push("]");
        }
        CqlType::Set { element, frozen: false } if dice.chance(60) => {
            draft.push("[");
            draft.term(element, dice);
            draft.push("]");
        }
        CqlType::List { frozen: false, .. } if dice.chance(40) => {
            draft.push(&format!("[{}]", dice.below(3)));
        }
        CqlType::User { definition, frozen: false } if dice.chance(60) => {
            let (field, _) = dice.pick(&definition.fields);
            draft.push(&format!(".{field}"));
        }
        _ => {}
    }
}

fn conditions(draft: &mut Draft, table: &Table, dice: &mut Dice, is_static: bool) {
    if dice.chance(30) {
        draft.push(" IF EXISTS");
        return;
    }
    let columns = if is_static || dice.chance(15) { table.statics() } else { table.values() };
    if columns.is_empty() {
        draft.push(" IF EXISTS");
        return;
    }
    for index in 0..dice.between(1, 2) {
        draft.push(if index == 0 { " IF " } else { " AND " });
        condition(draft, dice.pick::<&Column>(&columns), dice);
    }
}

const COMPARISONS: &[&str] = &["=", "=", "!=", "<", "<=", ">", ">="];

fn condition(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    let name = &column.name;
    let operator = dice.word(COMPARISONS);
    match &column.ty {
        CqlType::List { element, .. } if dice.chance(40) => {
            draft.push(&format!("{name}[{}] {operator} ", dice.below(3)));
            draft.term(element, dice);
        }
        // Cassandra compares the value of an entry as if it were a key, so only such keys are asked
        // for with which that comes out right.
        CqlType::Map { key, value, .. }
            if dice.chance(40) && (key == value || compares_as_bytes(key)) =>
        {
            draft.push(&format!("{name}["));
            draft.term(key, dice);
            draft.push(&format!("] {} ", dice.word(&["=", "!="])));
            draft.term(value, dice);
        }
        CqlType::Map { key, .. } if dice.chance(20) => {
            draft.push(&format!("{name} CONTAINS KEY "));
            draft.term(key, dice);
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } if dice.chance(30) => {
            draft.push(&format!("{name} CONTAINS "));
            draft.term(element, dice);
        }
        CqlType::User { definition, .. } if dice.chance(50) => {
            let (field, ty) = dice.pick(&definition.fields).clone();
            draft.push(&format!("{name}.{field} {operator} "));
            draft.term(&ty, dice);
        }
        ty => {
            if dice.chance(15) {
                draft.push(&format!("{name} IN ("));
                for index in 0..dice.below(3) {
                    if index > 0 {
                        draft.push(", ");
                    }
                    draft.term(ty, dice);
                }
                draft.push(")");
            } else {
                draft.push(&format!("{name} {operator} "));
                draft.term(ty, dice);
            }
        }
    }
}

/// Values of other types that are compared as this one are equal when they are.
fn compares_as_bytes(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Ascii | CqlType::Text | CqlType::Blob)
}
