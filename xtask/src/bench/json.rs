//! As much JSON as the bench needs: latte's reports are read, our own are written and read again.

use std::fmt::{self, Write};

/// Values inside values; deeper than this nothing of ours or of latte's goes.
const DEPTH_MAX: usize = 64;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn parse(text: &str) -> Result<Json, String> {
        let mut reader = Reader { rest: text };
        let value = reader.value(0)?;
        reader.skip_space();
        if reader.rest.is_empty() { Ok(value) } else { Err(reader.unexpected()) }
    }

    pub(crate) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
        Json::Object(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => {
                fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The value at the end of a path of names.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Json> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Json::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    /// A number of an object.
    pub(crate) fn number_of(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Json::number)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(number) if number.is_finite() => write!(f, "{number}"),
            Json::Number(_) => f.write_str("null"),
            Json::Text(text) => put_text(text, f),
            Json::List(items) => {
                f.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{item}")?;
                }
                f.write_char(']')
            }
            Json::Object(fields) => {
                f.write_char('{')?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    f.write_str(if index > 0 { ",\n" } else { "\n" })?;
                    put_text(name, f)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("\n}")
            }
        }
    }
}

fn put_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(f, "\\{letter}")?,
            '\n' => f.write_str("\\n")?,
            letter if letter.is_control() => write!(f, "\\u{:04x}", u32::from(letter))?,
            letter => f.write_char(letter)?,
        }
    }
    f.write_char('"')
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t']);
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn unexpected(&self) -> String {
        let seen: String = self.rest.chars().take(20).collect();
        format!("no JSON at {seen:?}")
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err("JSON that is too deep".into());
        }
        for (word, value) in
            [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if self.take(word) {
                return Ok(value);
            }
        }
        if self.take("[") {
            return self.items(depth, "]", |reader, depth| reader.value(depth)).map(Json::List);
        }
        if self.take("{") {
            let field = |reader: &mut Self, depth| {
                let name = reader.string()?;
                if reader.take(":") {
                    Ok((name, reader.value(depth)?))
                } else {
                    Err(reader.unexpected())
                }
            };
            return self.items(depth, "}", field).map(Json::Object);
        }
        if self.rest.starts_with('"') {
            return self.string().map(Json::Text);
        }
        let end = self
            .rest
            .find(|letter: char| !letter.is_ascii_alphanumeric() && !"+-.".contains(letter))
            .unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        let number = number.parse().map_err(|_| self.unexpected())?;
        self.rest = rest;
        Ok(Json::Number(number))
    }

    fn items<T>(
        &mut self,
        depth: usize,
        end: &str,
        mut item: impl FnMut(&mut Self, usize) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        if self.take(end) {
            return Ok(items);
        }
        loop {
            items.push(item(self, depth + 1)?);
            if self.take(end) {
                return Ok(items);
            }
            if !self.take(",") {
                return Err(self.unexpected());
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.take("\"") {
            return Err(self.unexpected());
        }
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = self.rest.get(at + 1..).unwrap_or_default();
                    return Ok(text);
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, 'u')) => {
                        let digits: String = letters.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        text.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                letter => text.push(letter),
            }
        }
        Err("a JSON string without an end".into())
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn what_is_written_is_read_again() {
        let value = Json::object([
            ("text", Json::Text("a \"quoted\"\n\\ word".into())),
            ("numbers", Json::List([1.0, -2.5, 3e9].map(Json::Number).to_vec())),
            ("nothing", Json::Null),
            ("empty", Json::Object(Vec::new())),
            ("yes", Json::Bool(true)),
        ]);
        assert_eq!(Json::parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn a_report_of_latte_is_read() {
        let text = r#"{"result": {"request_count": 10, "cycle_latency": {"percentiles": [{"value": 0.5, "std_err": null}]}}}"#;
        let value = Json::parse(text).unwrap();
        assert_eq!(value.at(&["result", "request_count"]).and_then(Json::number), Some(10.0));
        let percentiles = value.at(&["result", "cycle_latency", "percentiles"]).unwrap();
        assert_eq!(percentiles.list()[0].number_of("value"), Some(0.5));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "[1,", "\"open", "{\"a\" 1}", "nul", "1 2"] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }
}
