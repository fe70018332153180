//! Which words may not be identifiers, and how a name is written so that it comes back the same.

/// Words that cannot be used as an identifier without double quotes, in upper case, sorted.
const RESERVED: [&str; 57] = [
    "ADD",
    "ALLOW",
    "ALTER",
    "AND",
    "APPLY",
    "ASC",
    "AUTHORIZE",
    "BATCH",
    "BEGIN",
    "BY",
    "COLUMNFAMILY",
    "CREATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DROP",
    "ENTRIES",
    "EXECUTE",
    "FROM",
    "FULL",
    "GRANT",
    "IF",
    "IN",
    "INDEX",
    "INFINITY",
    "INSERT",
    "INTO",
    "IS",
    "KEYSPACE",
    "LIMIT",
    "MATERIALIZED",
    "MODIFY",
    "NAN",
    "NORECURSIVE",
    "NOT",
    "NULL",
    "OF",
    "ON",
    "OR",
    "ORDER",
    "PRIMARY",
    "RENAME",
    "REVOKE",
    "SCHEMA",
    "SELECT",
    "SET",
    "TABLE",
    "TO",
    "TOKEN",
    "TRUNCATE",
    "UNLOGGED",
    "UPDATE",
    "USE",
    "USING",
    "VIEW",
    "WHERE",
    "WITH",
];

/// Longest reserved word; longer text needs no search.
const RESERVED_BYTES_MAX: usize = 12;

/// Whether the word, in any case, needs double quotes to be an identifier.
pub fn is_reserved_keyword(word: &str) -> bool {
    let mut upper = [0u8; RESERVED_BYTES_MAX];
    let Some(upper) = upper.get_mut(..word.len()) else {
        return false;
    };
    upper.copy_from_slice(word.as_bytes());
    upper.make_ascii_uppercase();
    RESERVED.binary_search_by(|reserved| reserved.as_bytes().cmp(upper)).is_ok()
}

/// The name as it must be written in CQL: in double quotes unless it is a lower-case word that is
/// not reserved.
pub fn quote_if_needed(name: &str) -> String {
    if is_plain(name) && !is_reserved_keyword(name) {
        return name.to_owned();
    }
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for character in name.chars() {
        if character == '"' {
            quoted.push('"');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_sorted_and_found_in_any_case() {
        assert!(RESERVED.is_sorted());
        assert!(RESERVED.iter().all(|word| word.len() <= RESERVED_BYTES_MAX));
        for word in RESERVED {
            assert!(is_reserved_keyword(word));
            assert!(is_reserved_keyword(&word.to_lowercase()));
        }
        for word in ["", "key", "keyspaces", "columnfamilys", "json", "values", "ттт"] {
            assert!(!is_reserved_keyword(word), "{word}");
        }
    }

    #[test]
    fn names_are_quoted_only_where_needed() {
        for (name, written) in [
            ("abc_1", "abc_1"),
            ("Abc", "\"Abc\""),
            ("_a", "\"_a\""),
            ("1a", "\"1a\""),
            ("", "\"\""),
            ("a\"b", "\"a\"\"b\""),
            ("select", "\"select\""),
            ("key", "key"),
        ] {
            assert_eq!(quote_if_needed(name), written);
        }
    }
}
