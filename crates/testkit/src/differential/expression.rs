//! What a selector computes: functions, casts, arithmetic, elements, times.

use types::CqlType;

use super::draft::Draft;
use super::random::Dice;
use super::schema::{Column, Flavor, Role, Table};
use super::value::{key_literal, literal};

const CAST_TARGETS: &[&str] = &[
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
];

/// An expression over a column, mostly one that fits its type.
pub(super) fn expression(draft: &mut Draft, table: &Table, column: &Column, dice: &mut Dice) {
    let name = column.name.clone();
    match dice.below(23) {
        20 => of_columns(draft, table, column, dice),
        21 => {
            let target = dice.word(CAST_TARGETS);
            draft.push("CAST(");
            nested(draft, column, dice);
            draft.push(&format!(" AS {target})"));
        }
        22 => {
            draft
                .push(&format!("{}(", dice.word(&["to_json", "abs", "round", "collection_count"])));
            nested(draft, column, dice);
            draft.push(")");
        }
        0..=4 => by_type(draft, column, dice),
        5..=6 => {
            let target = dice.word(CAST_TARGETS);
            draft.push(&format!("CAST({name} AS {target})"));
        }
        7..=8 => {
            let function = dice.word(&["toJson", "to_json"]);
            draft.push(&format!("{function}({name})"));
        }
        9..=11 => arithmetic(draft, column, dice),
        12..=14 => times(draft, table, column, dice),
        15 => {
            let names: Vec<String> = table.partition().iter().map(|c| c.name.clone()).collect();
            draft.push(&format!("token({})", names.join(", ")));
        }
        16 => mask(draft, column, dice),
        17 => constant(draft, dice),
        18 => any_function(draft, &name, dice),
        _ => blob(draft, column, dice),
    }
}

fn nested(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    match dice.below(3) {
        0 => by_type(draft, column, dice),
        1 => arithmetic(draft, column, dice),
        _ => {
            let target = dice.word(CAST_TARGETS);
            draft.push(&format!("CAST({} AS {target})", column.name));
        }
    }
}

/// A literal of columns, or a column with a hint of its type.
fn of_columns(draft: &mut Draft, table: &Table, column: &Column, dice: &mut Dice) {
    let name = &column.name;
    let other = dice.pick(&table.columns);
    let (ty, other_ty) = (column.ty.freeze(), other.ty.freeze());
    let text = match dice.below(7) {
        0 => format!("({name}, {})", other.name),
        1 => format!("[{name}, {name}]"),
        // Cassandra would sort the sets of this type the other way round until it is started again.
        2 if column.role == Role::Clustering { is_descending: true } => {
            format!("(set<{ty}>) {{{name}}}")
        }
        2 => format!("{{{name}}}"),
        3 => format!("(map<{ty}, {other_ty}>) {{{name}: {}}}", other.name),
        4 => format!("(tuple<{ty}, {other_ty}>) ({name}, {})", other.name),
        5 => format!("({}) {name}", column.ty),
        _ => format!("(list<{ty}>) [{name}, {}]", other.name),
    };
    draft.push(&text);
}

fn by_type(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    let name = &column.name;
    match &column.ty {
        CqlType::List { .. } => {
            let function = dice.word(&[
                "collection_count",
                "collection_min",
                "collection_max",
                "collection_sum",
                "collection_avg",
            ]);
            draft.push(&format!("{function}({name})"));
        }
        CqlType::Set { element, .. } => match dice.below(4) {
            0 => draft.push(&format!("collection_count({name})")),
            1 => draft.push(&format!("collection_min({name})")),
            2 => element_of(draft, name, element, dice),
            _ => slice_of(draft, name, element, dice),
        },
        CqlType::Map { key, .. } => match dice.below(5) {
            0 => draft.push(&format!("map_keys({name})")),
            1 => draft.push(&format!("map_values({name})")),
            2 => draft.push(&format!("collection_count({name})")),
            3 => slice_of(draft, name, key, dice),
            _ => element_of(draft, name, key, dice),
        },
        CqlType::User { definition, .. } => {
            let (field, _) = dice.pick(&definition.fields);
            draft.push(&format!("{name}.{field}"));
        }
        CqlType::Vector { .. } => {
            let function =
                dice.word(&["similarity_cosine", "similarity_euclidean", "similarity_dot_product"]);
            draft.push(&format!("{function}({name}, "));
            let value = literal(&column.ty, dice);
            draft.value(&value, dice);
            draft.push(")");
        }
        CqlType::TimeUuid => {
            let function = dice.word(&[
                "toTimestamp",
                "to_date",
                "toUnixTimestamp",
                "dateOf",
                "unixTimestampOf",
                "to_timestamp",
            ]);
            draft.push(&format!("{function}({name})"));
        }
        CqlType::Timestamp => match dice.below(4) {
            0 => draft.push(&format!("floor({name}, {})", dice.word(&["1h", "2d", "5m", "1mo"]))),
            1 => draft.push(&format!("min_timeuuid({name})")),
            2 => draft.push(&format!("toDate({name})")),
            _ => draft.push(&format!("to_unix_timestamp({name})")),
        },
        CqlType::Date => match dice.below(3) {
            0 => draft.push(&format!("floor({name}, {})", dice.word(&["2d", "1mo", "1y"]))),
            1 => draft.push(&format!("toTimestamp({name})")),
            _ => draft.push(&format!("toUnixTimestamp({name})")),
        },
        CqlType::Time => {
            draft.push(&format!("floor({name}, {})", dice.word(&["1h", "10m", "7s"])));
        }
        _ => {
            let function = dice.word(&["abs", "exp", "log", "log10", "round"]);
            draft.push(&format!("{function}({name})"));
        }
    }
}

fn element_of(draft: &mut Draft, name: &str, key: &CqlType, dice: &mut Dice) {
    draft.push(&format!("{name}["));
    let value = key_literal(key, dice);
    draft.value(&value, dice);
    draft.push("]");
}

fn slice_of(draft: &mut Draft, name: &str, key: &CqlType, dice: &mut Dice) {
    draft.push(&format!("{name}["));
    if dice.chance(70) {
        let value = key_literal(key, dice);
        draft.value(&value, dice);
        draft.push(" ");
    }
    draft.push("..");
    if dice.chance(70) {
        draft.push(" ");
        let value = key_literal(key, dice);
        draft.value(&value, dice);
    }
    draft.push("]");
}

fn arithmetic(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    let operator = dice.word(&["+", "-", "*", "/", "%"]);
    let name = &column.name;
    match &column.ty {
        CqlType::Timestamp | CqlType::Date => {
            let sign = dice.word(&["+", "-"]);
            draft.push(&format!("{name} {sign} {}", dice.word(&["1d", "1mo", "2w", "1h"])));
        }
        _ => match dice.below(5) {
            0 => draft.push(&format!("-{name}")),
            1 => draft.push(&format!("{name} {operator} {name}")),
            2 => {
                let number = dice.word(&["2", "1.5", "-3", "10000000000", "0", "'a'"]);
                draft.push(&format!("{name} {operator} {number}"));
            }
            3 => draft.push(&format!("({name} {operator} 2) * 3 - {name}")),
            _ => {
                draft.push(&format!("{name} {operator} "));
                let value = key_literal(&column.ty, dice);
                draft.push(&value.text);
            }
        },
    }
}

fn times(draft: &mut Draft, table: &Table, column: &Column, dice: &mut Dice) {
    // Only what the statements themselves say about time is the same on both servers.
    if !matches!(table.flavor, Flavor::Plain | Flavor::Compact)
        && matches!(column.role, Role::Regular | Role::Static)
    {
        draft.push(&column.name);
        return;
    }
    let mut target = column.name.clone();
    match &column.ty {
        CqlType::Map { key, .. } if dice.chance(40) => {
            target = format!("{target}[{}]", key_literal(key, dice).text);
        }
        CqlType::Map { key: element, .. } | CqlType::Set { element, .. } if dice.chance(30) => {
            let (from, to) = (key_literal(element, dice).text, key_literal(element, dice).text);
            target = format!("{target}[{from}..{to}]");
        }
        CqlType::Set { element, .. } if dice.chance(40) => {
            target = format!("{target}[{}]", key_literal(element, dice).text);
        }
        CqlType::User { definition, .. } if dice.chance(50) => {
            target = format!("{target}.{}", dice.pick(&definition.fields).0);
        }
        _ => {}
    }
    match dice.below(5) {
        0..=1 => draft.push(&format!("writetime({target})")),
        2 => draft.push(&format!("maxwritetime({target})")),
        3 => draft.push(&format!("WRITETIME({target}) + 1")),
        _ => draft.push(&format!("ttl({target}) / 100000")),
    }
}

fn mask(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    let name = &column.name;
    let text = match dice.below(6) {
        0 => format!("mask_null({name})"),
        1 => format!("mask_default({name})"),
        2 => format!("mask_inner({name}, 1, 1)"),
        3 => format!("mask_outer({name}, 1, null, '#')"),
        4 => format!("mask_hash({name})"),
        _ => {
            draft.push(&format!("mask_replace({name}, "));
            draft.term(&column.ty, dice);
            ")".to_string()
        }
    };
    draft.push(&text);
}

fn constant(draft: &mut Draft, dice: &mut Dice) {
    let text = dice.word(&[
        "1 + 1",
        "(int) 5",
        "(text) 'a'",
        "'x'",
        "[1, 2]",
        "(list<int>) [1, 2]",
        "{'a': 1}",
        "(1, 'b')",
        "(tuple<int, text>) (1, 'b')",
        "null",
        "true",
        "0x01",
        "1.5",
        "uuid_as_blob(00000000-0000-4000-8000-000000000001)",
        "minTimeuuid('2020-01-01')",
        "max_timeuuid('2020-01-01')",
        "(vector<float, 2>) [1, 2]",
        "to_timestamp((date) '2020-01-01')",
        "CAST(5 AS text)",
        "CAST((int) 5 AS text)",
    ]);
    draft.push(text);
}

/// A function that may or may not take the column.
fn any_function(draft: &mut Draft, name: &str, dice: &mut Dice) {
    let function = dice.word(&[
        "abs",
        "toDate",
        "map_keys",
        "collection_sum",
        "min_timeuuid",
        "to_unix_timestamp",
        "round",
        "token",
        "nosuchfunction",
        "system.to_json",
        "intAsBlob",
        "blobAsInt",
        "textAsBlob",
        "blob_as_text",
    ]);
    draft.push(&format!("{function}({name})"));
}

fn blob(draft: &mut Draft, column: &Column, dice: &mut Dice) {
    let Some(native) = column.ty.native_name() else {
        draft.push(&column.name);
        return;
    };
    let other = if dice.chance(70) { native } else { dice.word(CAST_TARGETS) };
    if dice.chance(50) {
        draft.push(&format!("{native}_as_blob({})", column.name));
    } else {
        draft.push(&format!("blob_as_{other}({native}_as_blob({}))", column.name));
    }
}
