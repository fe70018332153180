//! Which keywords may follow inside of a statement, and whether a table, a column or a type may. It knows the clauses of each
//! statement and which of them was begun last, and no more: what it leaves out can still be typed.

/// What may follow.
#[derive(Default)]
pub(crate) struct Next {
    pub(crate) keywords: Vec<&'static str>,
    pub(crate) tables: bool,
    pub(crate) columns: bool,
    pub(crate) types: bool,
}

impl Next {
    fn words(keywords: &[&'static str]) -> Next {
        Next { keywords: keywords.to_vec(), ..Next::default() }
    }

    fn or_columns(self) -> Next {
        Next { columns: true, ..self }
    }

    fn or_tables(self) -> Next {
        Next { tables: true, ..self }
    }

    fn or_types(self) -> Next {
        Next { types: true, ..self }
    }
}

const ANY_STATEMENT: [&str; 4] = ["INSERT INTO", "UPDATE", "DELETE", "SELECT"];
const OF_BATCHES: [&str; 4] = ["INSERT INTO", "UPDATE", "DELETE", "APPLY BATCH"];
const PERMISSIONS: [&str; 9] = [
    "ALL PERMISSIONS",
    "ALTER",
    "AUTHORIZE",
    "CREATE",
    "DESCRIBE",
    "DROP",
    "EXECUTE",
    "MODIFY",
    "SELECT",
];
const RESOURCES: [&str; 6] =
    ["ALL KEYSPACES", "ALL ROLES", "ALL FUNCTIONS", "KEYSPACE", "TABLE", "ROLE"];

const TABLE_OPTIONS: [&str; 4] =
    ["AND", "comment = ", "default_time_to_live = ", "gc_grace_seconds = "];

/// What may follow these words, which are in capitals.
pub(crate) fn next(words: &[String]) -> Next {
    let first = words.first().map(String::as_str).unwrap_or_default();
    match first {
        "SELECT" => select(words),
        "INSERT" => insert(words),
        "UPDATE" => update(words),
        "DELETE" => delete(words),
        "BEGIN" => batch(words),
        "EXPLAIN" => match words.get(1..) {
            Some([]) | None => Next::words(&ANY_STATEMENT),
            Some(explained) => next(explained),
        },
        "CREATE" => create(words),
        "ALTER" => alter(words),
        "DROP" => drop_of(words),
        "TRUNCATE" => Next::words(&["TABLE"]).or_tables(),
        "GRANT" | "REVOKE" | "LIST" => permission(words),
        _ => Next::default(),
    }
}

fn last(words: &[String]) -> &str {
    words.last().map(String::as_str).unwrap_or_default()
}

/// The last of these that was begun.
fn clause<'w>(words: &'w [String], clauses: &[&str]) -> &'w str {
    let found = words.iter().rev().find(|word| clauses.contains(&word.as_str()));
    found.map(String::as_str).unwrap_or_default()
}

/// Behind WHERE: a column at first, then what goes on with it.
fn condition(words: &[String], then: &[&'static str]) -> Next {
    match last(words) {
        "WHERE" | "AND" => Next::words(&["token("]).or_columns(),
        _ => {
            let mut keywords = vec!["AND", "IN", "CONTAINS", "CONTAINS KEY", "LIKE"];
            keywords.extend(then);
            Next { keywords, ..Next::default() }
        }
    }
}

fn select(words: &[String]) -> Next {
    const BEHIND: [&str; 5] =
        ["GROUP BY", "ORDER BY", "PER PARTITION LIMIT", "LIMIT", "ALLOW FILTERING"];
    match clause(words, &["FROM", "WHERE", "BY", "LIMIT"]) {
        "FROM" if last(words) == "FROM" => Next::default().or_tables(),
        "FROM" => Next::words(&[&["WHERE"][..], &BEHIND].concat()),
        "WHERE" => condition(words, &BEHIND),
        "BY" => Next::words(&["ASC", "DESC", "PER PARTITION LIMIT", "LIMIT", "ALLOW FILTERING"])
            .or_columns(),
        "LIMIT" => Next::words(&["LIMIT", "ALLOW FILTERING"]),
        _ => {
            let functions = [
                "count(*)",
                "token(",
                "writetime(",
                "ttl(",
                "cast(",
                "min(",
                "max(",
                "sum(",
                "avg(",
            ];
            Next::words(&[&["DISTINCT", "JSON", "AS", "FROM"][..], &functions].concat())
                .or_columns()
        }
    }
}

fn insert(words: &[String]) -> Next {
    match clause(words, &["INTO", "VALUES", "JSON", "USING", "("]) {
        "INTO" if last(words) == "INTO" => Next::default().or_tables(),
        "INTO" => Next::words(&["JSON"]),
        "(" if words.iter().any(|word| word == "VALUES") => {
            Next::words(&["IF NOT EXISTS", "USING TTL", "USING TIMESTAMP"])
        }
        "(" if last(words) == ")" => Next::words(&["VALUES"]),
        "(" => Next::default().or_columns(),
        "JSON" => Next::words(&[
            "DEFAULT UNSET",
            "DEFAULT NULL",
            "IF NOT EXISTS",
            "USING TTL",
            "USING TIMESTAMP",
        ]),
        "USING" => Next::words(&["TTL", "TIMESTAMP", "AND"]),
        "VALUES" => Next::default(),
        _ => Next::words(&["INTO"]),
    }
}

fn update(words: &[String]) -> Next {
    match clause(words, &["UPDATE", "USING", "SET", "WHERE", "IF"]) {
        "UPDATE" if last(words) == "UPDATE" => Next::default().or_tables(),
        "UPDATE" => Next::words(&["SET", "USING TTL", "USING TIMESTAMP"]),
        "USING" => Next::words(&["TTL", "TIMESTAMP", "AND", "SET"]),
        "SET" if matches!(last(words), "SET" | ",") => Next::default().or_columns(),
        "SET" => Next::words(&["WHERE"]).or_columns(),
        "WHERE" => condition(words, &["IF", "IF EXISTS"]),
        _ => Next::words(&["AND", "EXISTS", "IN"]).or_columns(),
    }
}

fn delete(words: &[String]) -> Next {
    match clause(words, &["FROM", "USING", "WHERE", "IF"]) {
        "FROM" if last(words) == "FROM" => Next::default().or_tables(),
        "FROM" => Next::words(&["WHERE", "USING TIMESTAMP"]),
        "USING" => Next::words(&["TIMESTAMP", "WHERE"]),
        "WHERE" => condition(words, &["IF", "IF EXISTS"]),
        "IF" => Next::words(&["AND", "EXISTS", "IN"]).or_columns(),
        _ => Next::words(&["FROM"]).or_columns(),
    }
}

/// Each statement of a batch is one of its own.
fn batch(words: &[String]) -> Next {
    let begun = words.iter().rposition(|word| word == ";" || word == "BATCH").map(|at| at + 1);
    match begun.and_then(|begun| words.get(begun..)) {
        None => Next::words(&["BATCH", "UNLOGGED BATCH", "COUNTER BATCH"]),
        Some([]) => Next::words(&[&OF_BATCHES[..], &["USING TIMESTAMP"]].concat()),
        Some(statement) => match statement.first().map(String::as_str) {
            Some("USING") => Next::words(&[&OF_BATCHES[..], &["TIMESTAMP"]].concat()),
            Some("APPLY") => Next::words(&["BATCH"]),
            _ => {
                let mut found = next(statement);
                // Semicolons between them may be left out.
                found.keywords.extend(OF_BATCHES);
                found
            }
        },
    }
}

fn create(words: &[String]) -> Next {
    match (words.get(1).map(String::as_str).unwrap_or_default(), last(words)) {
        (_, "CREATE") => {
            Next::words(&["KEYSPACE", "TABLE", "TYPE", "INDEX", "CUSTOM INDEX", "ROLE", "USER"])
        }
        (_, "KEYSPACE" | "TABLE" | "TYPE" | "INDEX" | "ROLE" | "USER") => {
            Next::words(&["IF NOT EXISTS", "ON"])
        }
        ("KEYSPACE", _) => Next::words(&["WITH replication = {'class': ", "AND durable_writes = "]),
        ("ROLE" | "USER", _) => Next::words(&[
            "WITH",
            "AND",
            "PASSWORD",
            "LOGIN",
            "SUPERUSER",
            "OPTIONS",
            "ACCESS TO DATACENTERS",
        ]),
        ("INDEX" | "CUSTOM", "ON") => Next::default().or_tables(),
        ("INDEX" | "CUSTOM", "(") => {
            Next::words(&["keys(", "values(", "entries(", "full("]).or_columns()
        }
        ("INDEX" | "CUSTOM", _) => Next::words(&["ON", "USING", "WITH OPTIONS"]).or_columns(),
        ("TABLE" | "TYPE" | "COLUMNFAMILY", _) => Next::words(&[
            "PRIMARY KEY",
            "STATIC",
            "WITH",
            "AND",
            "CLUSTERING ORDER BY",
            "ASC",
            "DESC",
            "comment = ",
            "default_time_to_live = ",
            "gc_grace_seconds = ",
        ])
        .or_types(),
        _ => Next::words(&["TABLE", "INDEX"]),
    }
}

fn alter(words: &[String]) -> Next {
    match (words.get(1).map(String::as_str).unwrap_or_default(), last(words)) {
        (_, "ALTER") => Next::words(&["KEYSPACE", "TABLE", "TYPE", "ROLE", "USER"]),
        ("TABLE", "TABLE") => Next::words(&["IF EXISTS"]).or_tables(),
        ("KEYSPACE", _) => Next::words(&["WITH replication = {'class': ", "AND durable_writes = "]),
        ("ROLE" | "USER", _) => {
            Next::words(&["WITH", "AND", "PASSWORD", "LOGIN", "SUPERUSER", "OPTIONS"])
        }
        (_, "DROP" | "RENAME") => Next::words(&["IF EXISTS"]).or_columns(),
        (_, "ADD") => Next::words(&["IF NOT EXISTS"]),
        _ if words.iter().any(|word| word == "ADD") => Next::words(&["STATIC"]).or_types(),
        _ if words.iter().any(|word| word == "RENAME") => Next::words(&["TO", "AND"]),
        _ if words.iter().any(|word| word == "WITH") => Next::words(&TABLE_OPTIONS),
        _ => Next::words(&["ADD", "DROP", "RENAME", "WITH"]),
    }
}

fn drop_of(words: &[String]) -> Next {
    match last(words) {
        "DROP" => Next::words(&["KEYSPACE", "TABLE", "TYPE", "INDEX", "ROLE", "USER"]),
        "TABLE" => Next::words(&["IF EXISTS"]).or_tables(),
        "EXISTS" => Next::default().or_tables(),
        _ => Next::words(&["IF EXISTS"]),
    }
}

fn permission(words: &[String]) -> Next {
    match last(words) {
        "GRANT" | "REVOKE" => Next::words(&PERMISSIONS),
        "LIST" => Next::words(&[&PERMISSIONS[..], &["ROLES", "USERS"]].concat()),
        "ON" => Next::words(&RESOURCES).or_tables(),
        "TABLE" => Next::default().or_tables(),
        "TO" | "FROM" | "OF" | "ROLE" => Next::default(),
        _ => Next::words(&["PERMISSION", "PERMISSIONS", "ON", "TO", "FROM", "OF", "NORECURSIVE"]),
    }
}
