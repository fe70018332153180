//! What a WHERE says.

use types::CqlType;

use super::draft::Draft;
use super::random::Dice;
use super::schema::{Column, Table};
use super::value::{Literal, key_literal, null};

const SLICES: &[&str] = &["<", "<=", ">", ">="];

/// Restrictions of a SELECT; true when it should filter.
pub(super) fn restrictions(draft: &mut Draft, table: &Table, dice: &mut Dice) -> bool {
    let mut filters = false;
    let mut has_partition = false;
    match dice.below(20) {
        0..=9 => {
            partition_equal(draft, table, dice);
            has_partition = true;
        }
        10..=12 => {
            partition_in(draft, table, dice);
            has_partition = true;
        }
        13..=14 => token(draft, table, dice),
        15 => {
            let column = dice.pick(&table.partition()).name.clone();
            let ty = dice.pick(&table.partition()).ty.clone();
            comparison(draft, &column, &ty, dice);
            filters = true;
        }
        _ => {}
    }
    let clustering = table.clustering();
    if !clustering.is_empty() && dice.chance(if has_partition { 60 } else { 15 }) {
        clustering_range(draft, table, dice);
        filters |= !has_partition;
    }
    for _ in 0..*dice.pick(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2]) {
        let columns = if dice.chance(80) { table.values() } else { table.clustering() };
        if !columns.is_empty() {
            filter(draft, dice.pick::<&Column>(&columns), dice);
            filters = true;
        }
    }
    filters
}

fn partition_equal(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    let keys = dice.pick(&table.keys).clone();
    for (column, key) in table.partition().into_iter().zip(&keys) {
        if dice.chance(2) {
            continue;
        }
        draft.relation();
        draft.push(&format!("{} = ", column.name));
        if dice.chance(90) { draft.value(key, dice) } else { draft.key(&column.ty, dice) }
    }
}

fn partition_in(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    let columns = table.partition();
    let keys = table.keys.clone();
    for (index, column) in columns.iter().enumerate() {
        draft.relation();
        if dice.chance(70) {
            draft.push(&column.name);
            let items: Vec<Literal> =
                (0..dice.between(0, 3)).map(|_| dice.pick(&keys)[index].clone()).collect();
            draft.in_values(&items, dice);
        } else {
            draft.push(&format!("{} = ", column.name));
            draft.value(&dice.pick(&keys)[index], dice);
        }
    }
}

fn token(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    let mut names: Vec<String> =
        table.partition().iter().map(|column| column.name.clone()).collect();
    if dice.chance(3) {
        dice.shuffle(&mut names);
    }
    for _ in 0..dice.between(1, 2) {
        draft.relation();
        let operator = dice.word(&["<", "<=", ">", ">=", "="]);
        draft.push(&format!("token({}) {operator} ", names.join(", ")));
        if dice.chance(50) {
            let keys = dice.pick(&table.keys).clone();
            draft.push("token(");
            for (index, key) in keys.iter().enumerate() {
                if index > 0 {
                    draft.push(", ");
                }
                draft.value(key, dice);
            }
            draft.push(")");
        } else {
            draft.push(dice.word(&[
                "0",
                "-9223372036854775808",
                "9223372036854775807",
                "1000000000000000000",
                "-4000000000000000000",
            ]));
        }
    }
}

/// A prefix of the clustering columns by `=`, then a slice, IN or tuples.
pub(super) fn clustering_range(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    let columns = table.clustering();
    if columns.is_empty() {
        return;
    }
    if columns.len() > 1 && dice.chance(30) {
        multi_column(draft, &columns, dice);
        return;
    }
    let equal = dice.below(columns.len());
    for column in columns.iter().take(equal) {
        draft.relation();
        draft.push(&format!("{} = ", column.name));
        draft.key(&column.ty, dice);
    }
    let skip = usize::from(dice.chance(3));
    if let Some(column) = columns.get(equal + skip) {
        comparison(draft, &column.name, &column.ty, dice);
    }
}

fn any_key(ty: &CqlType, dice: &mut Dice) -> Literal {
    if dice.chance(1) { null() } else { key_literal(ty, dice) }
}

fn comparison(draft: &mut Draft, name: &str, ty: &CqlType, dice: &mut Dice) {
    draft.relation();
    match dice.below(10) {
        0..=2 => {
            draft.push(&format!("{name} = "));
            draft.key(ty, dice);
        }
        3..=4 => {
            draft.push(name);
            let items: Vec<Literal> = (0..dice.between(0, 3)).map(|_| any_key(ty, dice)).collect();
            draft.in_values(&items, dice);
        }
        _ => {
            draft.push(&format!("{name} {} ", dice.word(SLICES)));
            draft.key(ty, dice);
            if dice.chance(35) {
                draft.relation();
                draft.push(&format!("{name} {} ", dice.word(SLICES)));
                draft.key(ty, dice);
            }
        }
    }
}

fn values_of(draft: &Draft, columns: &[&Column], dice: &mut Dice) -> Vec<Literal> {
    columns.iter().map(|column| draft.key_value(&column.ty, dice)).collect()
}

fn tuple(draft: &mut Draft, columns: &[&Column], dice: &mut Dice) {
    let values = values_of(draft, columns, dice);
    draft.tuple(&values, dice);
}

fn multi_column(draft: &mut Draft, columns: &[&Column], dice: &mut Dice) {
    let start = if dice.chance(15) { 1 } else { 0 };
    if start == 1 {
        draft.relation();
        draft.push(&format!("{} = ", columns[0].name));
        draft.key(&columns[0].ty, dice);
    }
    let columns = &columns[start..];
    let columns = &columns[..dice.between(1, columns.len())];
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let names = format!("({})", names.join(", "));
    draft.relation();
    match dice.below(10) {
        0..=1 => {
            draft.push(&format!("{names} = "));
            tuple(draft, columns, dice);
        }
        2..=4 => {
            draft.push(&names);
            let tuples: Vec<Vec<Literal>> =
                (0..dice.between(1, 3)).map(|_| values_of(draft, columns, dice)).collect();
            draft.in_tuples(&tuples, dice);
        }
        _ => {
            draft.push(&format!("{names} {} ", dice.word(SLICES)));
            tuple(draft, columns, dice);
            if dice.chance(35) {
                // The other end may have another length.
                let columns = &columns[..dice.between(1, columns.len())];
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                draft.relation();
                draft.push(&format!("({}) {} ", names.join(", "), dice.word(SLICES)));
                tuple(draft, columns, dice);
            }
        }
    }
}

fn filter(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    let name = &column.name;
    match &column.ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } if dice.chance(70) => {
            draft.relation();
            draft.push(&format!("{name} CONTAINS "));
            draft.key(element, dice);
        }
        CqlType::Map { key, value, .. } if dice.chance(85) => {
            draft.relation();
            match dice.below(3) {
                0 => {
                    draft.push(&format!("{name} CONTAINS "));
                    draft.key(value, dice);
                }
                1 => {
                    draft.push(&format!("{name} CONTAINS KEY "));
                    draft.key(key, dice);
                }
                _ => {
                    draft.push(&format!("{name}["));
                    draft.key(key, dice);
                    draft.push(&format!("] {} ", dice.word(&["=", "=", ">", "<="])));
                    draft.key(value, dice);
                }
            }
        }
        ty if dice.chance(4) => {
            draft.relation();
            draft.push(&format!("{name} {} ", dice.word(&["!=", "LIKE", "CONTAINS"])));
            draft.key(ty, dice);
        }
        _ if dice.chance(1) => {
            draft.relation();
            draft.push(&format!("{name} IS NOT NULL"));
        }
        ty => comparison(draft, name, ty, dice),
    }
}
