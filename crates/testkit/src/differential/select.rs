//! Statements that read.

use types::CqlType;

use super::draft::{Draft, Statement};
use super::expression;
use super::random::Dice;
use super::restriction::restrictions;
use super::schema::{Column, Role, Table};

/// A SELECT of any kind.
pub(super) fn select(table: &Table, dice: &mut Dice) -> Statement {
    let is_named = dice.chance(20);
    let mut draft = Draft::new(dice.chance(25)).with_named_markers(is_named);
    draft.push("SELECT ");
    if dice.chance(6) {
        draft.push("JSON ");
    }
    let shape = dice.below(20);
    let grouping = match shape {
        0..=4 => {
            draft.push("*");
            false
        }
        5..=6 => {
            distinct(&mut draft, table, dice);
            dice.chance(10)
        }
        7..=9 => {
            aggregates(&mut draft, table, dice);
            dice.chance(60)
        }
        _ => {
            selectors(&mut draft, table, dice);
            dice.chance(4)
        }
    };
    draft.push(&format!(" FROM {}", table.name));
    let filters = restrictions(&mut draft, table, dice);
    if grouping {
        group_by(&mut draft, table, dice);
    }
    if dice.chance(20) {
        order_by(&mut draft, table, dice);
    }
    if dice.chance(12) {
        draft.push(" PER PARTITION LIMIT ");
        draft.number(dice.between(1, 3), 4, dice);
    }
    if dice.chance(15) {
        let least = usize::from(!dice.chance(4));
        draft.push(" LIMIT ");
        draft.number(dice.between(least, 5), 4, dice);
    }
    if filters && dice.chance(93) || dice.chance(3) {
        draft.push(" ALLOW FILTERING");
    }
    let mut statement = draft.finish();
    if dice.chance(25) {
        statement.page_size = Some(dice.between(1, 4) as i32);
    }
    statement
}

/// Everything of the table, to see what the writes left.
pub(super) fn dump(table: &Table) -> Statement {
    Statement { text: format!("SELECT * FROM {}", table.name), ..Statement::default() }
}

fn distinct(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    draft.push("DISTINCT ");
    let mut names: Vec<String> =
        table.partition().iter().map(|column| column.name.clone()).collect();
    for column in table.statics() {
        if dice.chance(50) {
            names.push(column.name.clone());
        }
    }
    if dice.chance(4) {
        names.push(dice.pick(&table.columns).name.clone());
    }
    draft.push(&names.join(", "));
}

fn selectors(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    for index in 0..dice.between(1, 4) {
        if index > 0 {
            draft.push(", ");
        }
        let column = dice.pick(&table.columns);
        if dice.chance(45) {
            draft.push(&column.name);
        } else {
            expression::expression(draft, table, column, dice);
        }
        if dice.chance(8) {
            draft.push(dice.word(&[" AS a", " AS \"B\"", " AS count"]));
        }
    }
}

fn aggregates(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    for index in 0..dice.between(1, 3) {
        if index > 0 {
            draft.push(", ");
        }
        let column: &Column = dice.pick(&table.columns);
        match dice.below(8) {
            0..=1 => draft.push(dice.word(&["count(*)", "count(1)", "COUNT(*)"])),
            2 => draft.push(&column.name),
            _ => {
                let function = dice.word(&["count", "min", "max", "sum", "avg", "min", "max"]);
                draft.push(&format!("{function}("));
                if dice.chance(10) {
                    expression::expression(draft, table, column, dice);
                } else {
                    draft.push(&column.name);
                }
                draft.push(")");
            }
        }
    }
}

fn group_by(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    let mut names: Vec<String> =
        table.partition().iter().map(|column| column.name.clone()).collect();
    names.extend(
        table
            .clustering()
            .iter()
            .take(dice.between(0, table.clustering().len()))
            .map(|c| c.name.clone()),
    );
    if let Some(last) = names.last_mut()
        && dice.chance(25)
        && let Some(column) = table.clustering().into_iter().find(|column| column.name == *last)
    {
        let by = match column.ty {
            CqlType::Timestamp => dice.word(&["1h", "2d", "1mo"]),
            CqlType::Date => dice.word(&["2d", "1mo", "1y"]),
            CqlType::Time => dice.word(&["1h", "10m"]),
            _ => "",
        };
        if !by.is_empty() {
            *last = format!("floor({last}, {by})");
        }
    }
    if dice.chance(6) {
        names.remove(0);
    }
    if dice.chance(3) {
        names.push(dice.pick(&table.columns).name.clone());
    }
    if names.is_empty() {
        return;
    }
    draft.push(&format!(" GROUP BY {}", names.join(", ")));
}

fn order_by(draft: &mut Draft, table: &Table, dice: &mut Dice) {
    let clustering = table.clustering();
    if clustering.is_empty() {
        if dice.chance(10) {
            draft.push(&format!(" ORDER BY {}", dice.pick(&table.columns).name));
        }
        return;
    }
    let is_reversed = dice.chance(60);
    let count = dice.between(1, clustering.len());
    let parts: Vec<String> = clustering
        .iter()
        .take(count)
        .map(|column| {
            let down = column.role == Role::Clustering { is_descending: true };
            let wrong = dice.chance(2);
            let direction = if (down != is_reversed) != wrong { "DESC" } else { "ASC" };
            format!("{} {direction}", column.name)
        })
        .collect();
    draft.push(&format!(" ORDER BY {}", parts.join(", ")));
}
