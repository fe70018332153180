//! What may come next where the cursor stands. It looks at the words before it only, and rather offers too much.

use cql::quote_if_needed;

use crate::keywords::{Next, next};
use crate::names::{Keyspace, Names};

/// What a statement or command begins with.
const FIRST_WORDS: [&str; 33] = [
    "ALTER",
    "APPLY BATCH",
    "BEGIN BATCH",
    "BEGIN UNLOGGED BATCH",
    "CAPTURE",
    "CLEAR",
    "CONSISTENCY",
    "COPY",
    "COST",
    "CREATE",
    "DELETE",
    "DESCRIBE",
    "DROP",
    "EXIT",
    "EXPAND",
    "EXPLAIN",
    "GRANT",
    "HELP",
    "HISTORY",
    "INSERT INTO",
    "LIST",
    "LOGIN",
    "PAGING",
    "QUIT",
    "REVOKE",
    "SELECT",
    "SERIAL CONSISTENCY",
    "SHOW",
    "SOURCE",
    "TRACING",
    "TRUNCATE",
    "UPDATE",
    "USE",
];
const TYPES: [&str; 27] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "frozen<",
    "inet",
    "int",
    "list<",
    "map<",
    "set<",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "tuple<",
    "uuid",
    "varchar",
    "varint",
    "vector<",
];
const LEVELS: [&str; 11] = [
    "ALL",
    "ANY",
    "EACH_QUORUM",
    "LOCAL_ONE",
    "LOCAL_QUORUM",
    "LOCAL_SERIAL",
    "ONE",
    "QUORUM",
    "SERIAL",
    "THREE",
    "TWO",
];
const COPY_OPTIONS: [&str; 14] = [
    "BOOLSTYLE",
    "CHUNKSIZE",
    "DELIMITER",
    "DOUBLEPRECISION",
    "ESCAPE",
    "FLOATPRECISION",
    "HEADER",
    "MAXROWS",
    "NULL",
    "PAGESIZE",
    "QUOTE",
    "SKIPCOLS",
    "SKIPROWS",
    "TTL",
];
/// A word of a statement, or a sign.
type Word = String;

/// Where the word at the cursor begins, and what it may become.
pub(crate) fn complete(
    before_cursor: &str,
    names: &Names,
    current_keyspace: Option<&str>,
) -> (usize, Vec<String>) {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let start = before_cursor.rfind(|c: char| !is_part(c)).map_or(0, |at| {
        at + before_cursor.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
    });
    // A name in double quotes is completed with them.
    let start = match before_cursor.get(..start) {
        Some(before) if before.ends_with('"') => start - 1,
        _ => start,
    };
    let partial = before_cursor.get(start..).unwrap_or_default();
    let words = words(before_cursor.get(..start).unwrap_or_default());
    let context = Context { words: &words, names, current_keyspace };
    let mut found: Vec<String> = context
        .candidates()
        .into_iter()
        .filter(|candidate| begins_with(candidate, partial))
        .map(|candidate| in_the_case_of(candidate, partial))
        .collect();
    found.sort();
    found.dedup();
    // One word is meant: the next one may follow.
    if let [only] = found.as_mut_slice()
        && only.ends_with(|c: char| c.is_alphanumeric() || c == '"')
    {
        only.push(' ');
    }
    (start, found)
}

fn begins_with(candidate: &str, partial: &str) -> bool {
    let head = candidate.get(..partial.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(partial))
}

/// Keywords follow the letters that were typed.
fn in_the_case_of(candidate: String, partial: &str) -> String {
    let is_keyword = candidate.chars().all(|c| c.is_ascii_uppercase() || c == ' ' || c == '_');
    let is_small = partial.chars().next().is_some_and(char::is_lowercase);
    if is_keyword && is_small { candidate.to_lowercase() } else { candidate }
}

/// The words and signs of the last statement; a name in quotes is a word, a text is a sign.
fn words(text: &str) -> Vec<Word> {
    let last = crate::split::split(text).open.map(|piece| piece.text).unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = last.as_str();
    while let Some(first) = rest.trim_start().chars().next() {
        rest = rest.trim_start();
        let length = match first {
            '"' | '\'' => {
                let end = rest.get(1..).and_then(|inside| inside.find(first));
                end.map_or(rest.len(), |end| end + 2)
            }
            _ if first.is_alphanumeric() || first == '_' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        let (word, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        found.push(word.to_owned());
        rest = after;
    }
    found
}

/// A name as it is stored.
fn stored(word: &str) -> String {
    match word.strip_prefix('"') {
        Some(quoted) => quoted.trim_end_matches('"').replace("\"\"", "\""),
        None => word.to_lowercase(),
    }
}

struct Context<'a> {
    words: &'a [Word],
    names: &'a Names,
    current_keyspace: Option<&'a str>,
}

impl Context<'_> {
    fn back(&self, distance: usize) -> String {
        let index = self.words.len().checked_sub(distance);
        index
            .and_then(|index| self.words.get(index))
            .map(|word| word.to_uppercase())
            .unwrap_or_default()
    }

    fn candidates(&self) -> Vec<String> {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let first = self.words.first().map(|word| word.to_uppercase()).unwrap_or_default();
        let last = self.back(1);
        match (first.as_str(), last.as_str()) {
            ("", _) => list(&FIRST_WORDS),
            ("CONSISTENCY", "CONSISTENCY") | ("SERIAL", "CONSISTENCY") => list(&LEVELS),
            ("SERIAL", "SERIAL") => list(&["CONSISTENCY"]),
            ("TRACING" | "EXPAND" | "PAGING" | "COST", _) => list(&["ON", "OFF"]),
            ("SHOW", "SHOW") => list(&["VERSION", "HOST", "SESSION"]),
            ("CAPTURE", "CAPTURE") => list(&["OFF"]),
            ("HELP", _) => list(&FIRST_WORDS),
            ("USE", _) => self.keyspaces(""),
            (_, "KEYSPACE") if first != "CREATE" => self.keyspaces(""),
            ("DESCRIBE" | "DESC", "DESCRIBE" | "DESC") => {
                let mut found = list(&[
                    "KEYSPACES",
                    "TABLES",
                    "TYPES",
                    "FUNCTIONS",
                    "AGGREGATES",
                    "KEYSPACE",
                    "TABLE",
                    "INDEX",
                    "TYPE",
                    "SCHEMA",
                    "FULL SCHEMA",
                    "CLUSTER",
                ]);
                found.extend(self.tables());
                found
            }
            ("ALTER" | "DROP" | "DESCRIBE" | "DESC", "TYPE") => self.user_types(),
            ("DROP" | "DESCRIBE" | "DESC", "INDEX") => self.indexes(),
            (_, ".") => self.after_dot(),
            ("COPY", "TO") => list(&["'", "STDOUT"]),
            ("COPY", "FROM") => list(&["'", "STDIN"]),
            ("COPY", "WITH" | "AND") => list(&COPY_OPTIONS),
            ("DESCRIBE" | "DESC", "TABLE") | ("COPY", "COPY") => self.tables(),
            _ => self.of_statement(),
        }
    }

    /// Inside of a statement.
    fn of_statement(&self) -> Vec<String> {
        let upper: Vec<String> = self.words.iter().map(|word| word.to_uppercase()).collect();
        let Next { keywords, tables, columns, types } = next(&upper);
        let mut found: Vec<String> = keywords.into_iter().map(str::to_owned).collect();
        if tables {
            found.extend(self.tables());
        }
        if columns {
            found.extend(self.columns());
        }
        if types {
            found.extend(TYPES.iter().map(|name| (*name).to_owned()));
            found.extend(self.user_types());
        }
        found
    }

    fn keyspaces(&self, behind: &str) -> Vec<String> {
        self.names.keyspaces.keys().map(|name| quote_if_needed(name) + behind).collect()
    }

    fn current(&self) -> Option<&Keyspace> {
        self.names.keyspaces.get(self.current_keyspace?)
    }

    /// Tables of the current keyspace, and keyspaces whose tables may be meant.
    fn tables(&self) -> Vec<String> {
        let mut found = self.keyspaces(".");
        found.extend(
            self.current()
                .into_iter()
                .flat_map(|it| it.tables.keys())
                .map(|it| quote_if_needed(it)),
        );
        found
    }

    fn user_types(&self) -> Vec<String> {
        self.current().into_iter().flat_map(|it| &it.types).map(|it| quote_if_needed(it)).collect()
    }

    fn indexes(&self) -> Vec<String> {
        self.current()
            .into_iter()
            .flat_map(|it| &it.indexes)
            .map(|it| quote_if_needed(it))
            .collect()
    }

    /// What a keyspace holds.
    fn after_dot(&self) -> Vec<String> {
        let index = self.words.len().checked_sub(2);
        let keyspace = index.and_then(|index| self.words.get(index)).map(|word| stored(word));
        let keyspace = keyspace.and_then(|name| self.names.keyspaces.get(&name));
        let before = self.back(3);
        keyspace
            .map(|keyspace| match before.as_str() {
                "TYPE" => keyspace.types.iter().map(|it| quote_if_needed(it)).collect(),
                "INDEX" => keyspace.indexes.iter().map(|it| quote_if_needed(it)).collect(),
                _ => keyspace.tables.keys().map(|it| quote_if_needed(it)).collect(),
            })
            .unwrap_or_default()
    }

    /// The columns of the table that the statement names; of all tables of the keyspace if it names none yet.
    fn columns(&self) -> Vec<String> {
        // Of a batch it is the last statement that counts.
        let place = self.words.iter().rposition(|word| {
            matches!(
                word.to_uppercase().as_str(),
                "FROM" | "INTO" | "UPDATE" | "TABLE" | "COPY" | "ON"
            )
        });
        let name = |distance: usize| self.words.get(place? + distance).map(|word| stored(word));
        let is_qualified = name(2).as_deref() == Some(".");
        let table = match (name(1), name(3)) {
            (Some(keyspace), Some(table)) if is_qualified => {
                self.names.keyspaces.get(&keyspace).and_then(|it| it.tables.get(&table))
            }
            (Some(table), _) => self.current().and_then(|it| it.tables.get(&table)),
            (None, _) => {
                let all = self.current().into_iter().flat_map(|it| it.tables.values().flatten());
                return all.map(|it| quote_if_needed(it)).collect();
            }
        };
        table.into_iter().flatten().map(|it| quote_if_needed(it)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names() -> Names {
        let set =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let mut names = Names::default();
        let shop = names.keyspaces.entry("shop".to_owned()).or_default();
        shop.tables.insert("orders".to_owned(), set(&["id", "note", "Total"]));
        shop.tables.insert("customers".to_owned(), set(&["id", "name"]));
        shop.types = set(&["address"]);
        shop.indexes = set(&["by_note"]);
        names.keyspaces.entry("system".to_owned()).or_default();
        names
    }

    fn check(text: &str, keyspace: Option<&str>, start: usize, expect: &[&str]) {
        assert_eq!(
            complete(text, &names(), keyspace),
            (start, expect.iter().map(|s| (*s).to_owned()).collect()),
            "{text}"
        );
    }

    #[test]
    fn words_are_completed_by_what_stands_before_them() {
        let shop = Some("shop");
        check("SEL", None, 0, &["SELECT "]);
        check("sel", None, 0, &["select "]);
        check("INSERT INTO x (a) VALUES (1); DESC", None, 30, &["DESCRIBE "]);
        check("SELECT * FROM o", shop, 14, &["orders "]);
        check("SELECT * FROM s", None, 14, &["shop.", "system."]);
        check("SELECT * FROM shop.", None, 19, &["customers", "orders"]);
        check("SELECT * FR", shop, 9, &["FROM "]);
        check("SELECT * FROM shop.orders WH", None, 26, &["WHERE "]);
        check("SELECT * FROM shop.orders WHERE n", None, 32, &["note "]);
        check("SELECT * FROM orders WHERE to", shop, 27, &["token("]);
        check("SELECT * FROM orders WHERE \"T", shop, 27, &["\"Total\" "]);
        check("SELECT * FROM orders WHERE id = 1 o", shop, 34, &["order by "]);
        check("SELECT * FROM orders ORDER BY id D", shop, 33, &["DESC "]);
        check("INSERT INTO o", shop, 12, &["orders "]);
        check("INSERT INTO orders (id, n", shop, 24, &["note "]);
        check("INSERT INTO orders (id) V", shop, 24, &["VALUES "]);
        check("INSERT INTO orders (id) VALUES (1) I", shop, 35, &["IF NOT EXISTS "]);
        check("UPDATE orders U", shop, 14, &["USING TIMESTAMP", "USING TTL"]);
        check("UPDATE orders SET no", shop, 18, &["note "]);
        check("DELETE n", shop, 7, &["name", "note"]);
        check("BEGIN BATCH I", shop, 12, &["INSERT INTO "]);
        check(
            "BEGIN BATCH UPDATE orders SET note = 'x' WHERE id = 1; AP",
            shop,
            55,
            &["APPLY BATCH "],
        );
        check("EXPLAIN SEL", shop, 8, &["SELECT "]);
        check("CREATE T", shop, 7, &["TABLE", "TYPE"]);
        check("DROP TABLE c", shop, 11, &["customers "]);
        check("GRANT SEL", None, 6, &["SELECT "]);
        check("ALTER TABLE orders A", shop, 19, &["ADD "]);
        check("ALTER TABLE orders DROP n", shop, 24, &["note "]);
        check("USE s", None, 4, &["shop", "system"]);
        check("CONSISTENCY LOCAL_", None, 12, &["LOCAL_ONE", "LOCAL_QUORUM", "LOCAL_SERIAL"]);
        check("EXPAND O", None, 7, &["OFF", "ON"]);
        check("CREATE TABLE t (a var", shop, 18, &["varchar", "varint"]);
        check("CREATE TABLE t (a addr", shop, 18, &["address "]);
        check("DESCRIBE TYPE a", shop, 14, &["address "]);
        check("DROP INDEX shop.", None, 16, &["by_note "]);
        check("COPY orders TO 'x' WITH HEAD", shop, 24, &["HEADER "]);
        check("SELECT * FROM nothing.", None, 22, &[]);
    }
}
