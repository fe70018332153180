//! Faults of Cassandra that a statement may run into: noted beside a difference, so that the list of
//! what is allowed can name them and nothing else.

use types::CqlType;

use super::schema::{Column, Flavor, Role, Table};

/// The names of the faults.
pub(super) fn faults(text: &str, table: &Table) -> Vec<&'static str> {
    let mut found = Vec::new();
    if asks_static_index_by_key(text, table) {
        found.push("static-index-by-key");
    }
    if asks_decimal_index(text, table) {
        found.push("decimals-by-their-bytes");
    }
    if has_two_tests_of_a_column(text) {
        found.push("two-tests-of-one-column");
    }
    if tests_map_entry(text, table) {
        found.push("test-of-map-entry");
    }
    if compares_literal_of_descending(text, table) {
        found.push("literal-of-descending-column");
    }
    if asks_static_collection(text, table) {
        found.push("contains-of-static");
    }
    found
}

fn word(text: &str) -> &str {
    let text = text.trim_start();
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"').map_or(text.len(), |end| end + 2);
        return &text[..end];
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

/// The parts of a text between the words AND, after the first of another word.
fn parts_after<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    match text.split_once(start) {
        Some((_, rest)) => rest.split(" AND ").collect(),
        None => Vec::new(),
    }
}

/// With an index on a static column, a partition and more than its first rows.
fn asks_static_index_by_key(text: &str, table: &Table) -> bool {
    // A compact table without clustering columns keeps its columns as static ones.
    let is_compact = table.flavor == Flavor::Compact && table.clustering().is_empty();
    let is_indexed_static = |name: &str| {
        let is_static = |column: &&Column| {
            column.role == Role::Static || is_compact && column.role == Role::Regular
        };
        table.columns.iter().filter(is_static).any(|column| column.name == name)
            && is_indexed(table, name)
    };
    let parts = parts_after(text, " WHERE ");
    let has_key = table
        .partition()
        .iter()
        .all(|column| parts.iter().any(|part| word(part) == column.name.as_str()));
    text.starts_with("SELECT") && has_key && parts.iter().any(|part| is_indexed_static(word(part)))
}

fn is_indexed(table: &Table, name: &str) -> bool {
    table.indexes.iter().any(|index| index.column == name)
}

/// An index finds decimals by their bytes, so that 1.0 is not 1.
fn asks_decimal_index(text: &str, table: &Table) -> bool {
    let is_decimal = |part: &CqlType| *part == CqlType::Decimal;
    parts_after(text, " WHERE ").into_iter().map(word).any(|name| {
        let mut columns = table.columns.iter().filter(|column| column.name == name);
        is_indexed(table, name) && columns.any(|column| column.ty.contains(&is_decimal))
    })
}

fn has_two_tests_of_a_column(text: &str) -> bool {
    text.split(';').any(|statement| {
        let mut names: Vec<&str> = parts_after(statement, " IF ").into_iter().map(word).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        names.len() < count
    })
}

fn tests_map_entry(text: &str, table: &Table) -> bool {
    text.split(';').flat_map(|statement| parts_after(statement, " IF ")).any(|part| {
        let name = word(part);
        let is_entry = part.trim_start()[name.len()..].trim_start().starts_with('[');
        let mut columns = table.columns.iter().filter(|column| column.name == name);
        is_entry && columns.any(|column| matches!(column.ty, CqlType::Map { .. }))
    })
}

/// `s CONTAINS 1` finds elements of a static collection that were deleted.
fn asks_static_collection(text: &str, table: &Table) -> bool {
    parts_after(text, " WHERE ").into_iter().any(|part| {
        let name = word(part);
        let is_static = |column: &Column| column.role == Role::Static && column.ty.is_multi_cell();
        part.contains(" CONTAINS ")
            && table.columns.iter().any(|column| column.name == name && is_static(column))
    })
}

/// `max([c])` of a descending column compares the other way round.
fn compares_literal_of_descending(text: &str, table: &Table) -> bool {
    let descending = table.columns_that(|role| role == Role::Clustering { is_descending: true });
    ["min(", "max("].iter().flat_map(|function| text.split(function).skip(1)).any(|argument| {
        let is_literal = argument.starts_with(['(', '[', '{']);
        let literal = argument.split([')', ']', '}']).next().unwrap_or_default();
        let mut names = literal.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        is_literal && names.any(|name| descending.iter().any(|column| column.name == name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_from_conditions() {
        assert_eq!(word(" \"V 3\" = 1"), "\"V 3\"");
        assert_eq!(word("s0[1] = 2"), "s0");
        assert!(has_two_tests_of_a_column("UPDATE t SET v = 1 WHERE p = 1 IF a = 1 AND a < null"));
        assert!(!has_two_tests_of_a_column("UPDATE t SET v = 1 WHERE p = 1 IF a = 1 AND b < null"));
    }
}
