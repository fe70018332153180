//! Types as CQL text, both ways: `CqlType` prints itself, this reads it back. The system's own
//! tables and the stored schema are written so.

use std::sync::Arc;

use types::{CqlType, UserType};

/// How deep types may be nested.
pub(crate) const TYPE_DEPTH_MAX: usize = 64;
/// How deep the text of a type may be nested: each type may stand in a `frozen<…>` of its own.
const TEXT_DEPTH_MAX: usize = 2 * TYPE_DEPTH_MAX;

/// Reads a type as `CqlType` prints it; user types are asked for by name.
pub fn parse_type(
    text: &str,
    user_type: &dyn Fn(&str) -> Option<Arc<UserType>>,
) -> Option<CqlType> {
    let mut reader = Reader { rest: text, user_type };
    let parsed = reader.read_type(TEXT_DEPTH_MAX)?;
    reader.rest.is_empty().then_some(parsed)
}

/// The text that [`parse_type`] reads back without doubt. `CqlType` prints itself as Cassandra
/// does, where a user type may be called like a native one.
pub(crate) fn print_type(cql_type: &CqlType) -> String {
    let frozen = |is_frozen: bool, inner: String| {
        if is_frozen { format!("frozen<{inner}>") } else { inner }
    };
    match cql_type {
        CqlType::List { element, frozen: flag } => {
            frozen(*flag, format!("list<{}>", print_type(element)))
        }
        CqlType::Set { element, frozen: flag } => {
            frozen(*flag, format!("set<{}>", print_type(element)))
        }
        CqlType::Map { key, value, frozen: flag } => {
            frozen(*flag, format!("map<{}, {}>", print_type(key), print_type(value)))
        }
        CqlType::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(print_type).collect();
            format!("frozen<tuple<{}>>", parts.join(", "))
        }
        CqlType::User { definition, frozen: flag } => {
            frozen(*flag, format!("\"{}\"", definition.name.replace('"', "\"\"")))
        }
        CqlType::Vector { element, dimension } => {
            format!("vector<{}, {dimension}>", print_type(element))
        }
        CqlType::Custom(class) => format!("'{}'", class.replace('\'', "''")),
        native => native.to_string(),
    }
}

struct Reader<'a> {
    rest: &'a str,
    user_type: &'a dyn Fn(&str) -> Option<Arc<UserType>>,
}

impl Reader<'_> {
    fn read_type(&mut self, depth: usize) -> Option<CqlType> {
        let depth = depth.checked_sub(1)?;
        if self.rest.starts_with('\'') {
            return Some(CqlType::Custom(Arc::from(self.read_quoted('\'')?)));
        }
        if self.rest.starts_with('"') {
            let name = self.read_quoted('"')?;
            return self.read_user_type(&name);
        }
        let word = self.read_word();
        match word.as_str() {
            "" => None,
            "frozen" => {
                self.skip("<")?;
                let inner = self.read_type(depth)?;
                self.skip(">")?;
                Some(as_frozen(inner))
            }
            "list" | "set" => {
                self.skip("<")?;
                let element = Arc::new(self.read_type(depth)?);
                self.skip(">")?;
                Some(if word == "list" {
                    CqlType::List { element, frozen: false }
                } else {
                    CqlType::Set { element, frozen: false }
                })
            }
            "map" => {
                self.skip("<")?;
                let key = Arc::new(self.read_type(depth)?);
                self.skip(", ")?;
                let value = Arc::new(self.read_type(depth)?);
                self.skip(">")?;
                Some(CqlType::Map { key, value, frozen: false })
            }
            "tuple" => self.read_tuple(depth),
            "vector" => {
                self.skip("<")?;
                let element = Arc::new(self.read_type(depth)?);
                self.skip(", ")?;
                let dimension = self.read_word().parse().ok()?;
                self.skip(">")?;
                Some(CqlType::Vector { element, dimension })
            }
            native => CqlType::native(native).or_else(|| self.read_user_type(native)),
        }
    }

    fn read_tuple(&mut self, depth: usize) -> Option<CqlType> {
        self.skip("<")?;
        let mut parts = vec![self.read_type(depth)?];
        while self.skip(", ").is_some() {
            parts.push(self.read_type(depth)?);
        }
        self.skip(">")?;
        Some(CqlType::Tuple(parts.into()))
    }

    fn read_user_type(&self, name: &str) -> Option<CqlType> {
        let definition = (self.user_type)(name)?;
        Some(CqlType::User { definition, frozen: false })
    }

    fn read_word(&mut self) -> String {
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        word.to_string()
    }

    /// A text between two quotes, which stand doubled inside.
    fn read_quoted(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut rest = self.rest.strip_prefix(quote)?;
        loop {
            let (before, after) = rest.split_once(quote)?;
            text.push_str(before);
            match after.strip_prefix(quote) {
                Some(after) => {
                    text.push(quote);
                    rest = after;
                }
                None => {
                    self.rest = after;
                    return Some(text);
                }
            }
        }
    }

    fn skip(&mut self, expected: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }
}

/// Sets the flag of this type only: whatever is nested says itself in its text what it is.
fn as_frozen(inner: CqlType) -> CqlType {
    match inner {
        CqlType::List { element, .. } => CqlType::List { element, frozen: true },
        CqlType::Set { element, .. } => CqlType::Set { element, frozen: true },
        CqlType::Map { key, value, .. } => CqlType::Map { key, value, frozen: true },
        CqlType::User { definition, .. } => CqlType::User { definition, frozen: true },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let address = Arc::new(UserType {
            keyspace: "k".into(),
            name: "Ad\"dress".into(),
            fields: vec![("street".into(), CqlType::Text)],
        });
        let lookup = |name: &str| (name == "Ad\"dress").then(|| Arc::clone(&address));
        for text in [
            "int",
            "empty",
            "list<frozen<set<int>>>",
            "frozen<map<text, frozen<list<frozen<tuple<int, text>>>>>>",
            "vector<float, 3>",
            "map<int, frozen<\"Ad\"\"dress\">>",
            "\"Ad\"\"dress\"",
            "'org.apache.cassandra.db.marshal.DynamicCompositeType(a=>b)'",
        ] {
            let parsed = parse_type(text, &lookup);
            assert_eq!(parsed.map(|t| t.to_string()).as_deref(), Some(text));
        }
        for text in ["", "list<int", "list<int>>", "nothing", "vector<float, 99999999>", "map<int>"]
        {
            assert_eq!(parse_type(text, &lookup), None, "{text}");
        }
        let deep =
            |levels: usize| format!("{}int{}", "frozen<list<".repeat(levels), ">>".repeat(levels));
        // As deep as a definition may be, or what was accepted could not be read back.
        let deepest = deep(TYPE_DEPTH_MAX - 1);
        let parsed = parse_type(&deepest, &lookup);
        assert_eq!(parsed.map(|ty| print_type(&ty)), Some(deepest));
        assert_eq!(parse_type(&deep(TYPE_DEPTH_MAX + 1), &lookup), None);
    }
}
