//! Reads JSON text as Jackson does, the reader that Cassandra uses: what it accepts, what it ignores
//! after the first value, and its complaints with their places.

use serde_json::{Map, Number, Value};

/// Arrays and objects nested deeper than this are refused.
const DEPTH_MAX: usize = 200;
/// A complaint shows so much of its text.
const SNIPPET_UNITS_MAX: usize = 500;
/// A word that is no JSON is shown up to this length.
const TOKEN_UNITS_MAX: usize = 256;

const TOKENS: &str = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')";

/// What Jackson complains about, and the Java class of its complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonSyntaxError {
    /// The name of Jackson's exception.
    pub class: &'static str,
    /// Its message, with the place and the text.
    pub message: String,
}

const PARSE: &str = "com.fasterxml.jackson.core.JsonParseException";
const END: &str = "com.fasterxml.jackson.core.io.JsonEOFException";
const MISMATCH: &str = "com.fasterxml.jackson.databind.exc.MismatchedInputException";

type Result<T> = std::result::Result<T, JsonSyntaxError>;

/// Reads the first value of a text. What follows it after a space is ignored.
pub fn read(text: &str) -> Result<Value> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut reader = Reader { units: &units, at: 0, line: 1, line_start: 0, open: Vec::new() };
    match reader.skip_blanks()? {
        Some(first) if matches!(ascii(first), b']' | b'}') => Err(reader.closes_nothing(first)),
        Some(first) => reader.value(first),
        None => {
            let place = Reader { line: 1, ..reader }.place(0);
            let message = format!("No content to map due to end-of-input\n at {place}");
            Err(JsonSyntaxError { class: MISMATCH, message })
        }
    }
}

/// What Jackson complains of a text whose first value is of another kind than was asked for.
pub fn mismatch(text: &str, reason: &str) -> JsonSyntaxError {
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut reader = Reader { units: &units, at: 0, line: 1, line_start: 0, open: Vec::new() };
    // What is no JSON is complained of before anybody asks for its kind.
    let _ = reader.skip_blanks();
    reader.at = reader.at.saturating_sub(1);
    reader.complain(MISMATCH, reason)
}

/// Where an array or object started.
struct Open {
    is_array: bool,
    place: String,
}

impl Open {
    fn kind(&self) -> &'static str {
        if self.is_array { "Array" } else { "Object" }
    }
}

struct Reader<'a> {
    units: &'a [u16],
    at: usize,
    line: usize,
    line_start: usize,
    open: Vec<Open>,
}

/// A unit of text that is a character of ASCII, else something above.
fn ascii(unit: u16) -> u8 {
    u8::try_from(unit).unwrap_or(0xff)
}

/// Half a character alone becomes a question mark, as when Java writes it.
fn decode(units: &[u16]) -> String {
    char::decode_utf16(units.iter().copied()).map(|c| c.unwrap_or('?')).collect()
}

/// What Java lets stand inside of a name.
fn is_name_part(unit: u16) -> bool {
    match unit {
        0..=8 | 0x0e..=0x1b | 0x7f..=0x9f => true,
        _ => is_name_start(unit) || char::from(ascii(unit)).is_ascii_digit(),
    }
}

fn is_name_start(unit: u16) -> bool {
    match char::from_u32(u32::from(unit)) {
        Some(c) => c.is_alphabetic() || matches!(c, '_' | '$' | '¢'..='¥' | '€' | '‿'),
        None => false,
    }
}

fn describe(unit: u16) -> String {
    let shown = char::from_u32(u32::from(unit)).unwrap_or('?');
    match unit {
        0..=0x1f | 0x7f..=0x9f => format!("(CTRL-CHAR, code {unit})"),
        0x100.. => format!("'{shown}' (code {unit} / 0x{unit:x})"),
        _ => format!("'{shown}' (code {unit})"),
    }
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u16> {
        let unit = self.units.get(self.at).copied()?;
        self.at += 1;
        Some(unit)
    }

    fn source(&self) -> String {
        let mut shown = String::from("(String)\"");
        let snippet = self.units.get(..SNIPPET_UNITS_MAX).unwrap_or(self.units);
        for c in decode(snippet).chars() {
            match c {
                '\r' | '\n' => shown.push(c),
                c if c.is_control() => shown.push_str(&format!("\\u{:04X}", u32::from(c))),
                c => shown.push(c),
            }
        }
        shown.push('"');
        if let Some(left @ 1..) = self.units.len().checked_sub(SNIPPET_UNITS_MAX) {
            shown.push_str(&format!("[truncated {left} chars]"));
        }
        shown
    }

    fn place(&self, column: usize) -> String {
        format!("[Source: {}; line: {}, column: {column}]", self.source(), self.line)
    }

    fn complain(&self, class: &'static str, message: &str) -> JsonSyntaxError {
        let column = self.at + 1 - self.line_start;
        JsonSyntaxError { class, message: format!("{message}\n at {}", self.place(column)) }
    }

    fn unexpected(&self, unit: u16, why: &str) -> JsonSyntaxError {
        self.complain(PARSE, &format!("Unexpected character ({}): {why}", describe(unit)))
    }

    fn unexpected_in_number(&self, unit: u16, why: &str) -> JsonSyntaxError {
        let what = describe(unit);
        self.complain(PARSE, &format!("Unexpected character ({what}) in numeric value: {why}"))
    }

    fn end(&self, where_: &str) -> JsonSyntaxError {
        self.complain(END, &format!("Unexpected end-of-input{where_}"))
    }

    /// What is being read: the innermost array or object, or the text itself.
    fn scope(&self) -> &'static str {
        self.open.last().map_or("root", Open::kind)
    }

    /// The next unit that is no blank.
    fn skip_blanks(&mut self) -> Result<Option<u16>> {
        while let Some(unit) = self.next() {
            match ascii(unit) {
                b' ' | b'\t' => {}
                b'\n' => self.start_line(),
                b'\r' => {
                    if self.units.get(self.at) == Some(&u16::from(b'\n')) {
                        self.at += 1;
                    }
                    self.start_line();
                }
                0..=0x1f => {
                    let what = describe(unit);
                    return Err(self.complain(
                        PARSE,
                        &format!(
                            "Illegal character ({what}): only regular white space (\\r, \\n, \\t) \
                             is allowed between tokens"
                        ),
                    ));
                }
                b'/' => {
                    return Err(self.unexpected(
                        unit,
                        "maybe a (non-standard) comment? (not recognized as one since Feature \
                         'ALLOW_COMMENTS' not enabled for parser)",
                    ));
                }
                _ => return Ok(Some(unit)),
            }
        }
        Ok(None)
    }

    fn start_line(&mut self) {
        self.line += 1;
        self.line_start = self.at;
    }

    /// The next unit inside of an array or object.
    fn next_inside(&mut self) -> Result<u16> {
        if let Some(unit) = self.skip_blanks()? {
            return Ok(unit);
        }
        let (kind, place) = match self.open.last() {
            Some(open) => (open.kind(), open.place.clone()),
            None => ("root", String::new()),
        };
        Err(self.end(&format!(": expected close marker for {kind} (start marker at {place})")))
    }

    fn value(&mut self, first: u16) -> Result<Value> {
        match ascii(first) {
            b'"' => self.string().map(Value::String),
            b'[' => {
                self.enter(true)?;
                let array = self.array();
                self.open.pop();
                array.map(Value::Array)
            }
            b'{' => {
                self.enter(false)?;
                let object = self.object();
                self.open.pop();
                object.map(Value::Object)
            }
            b'}' => Err(self.unexpected(first, "expected a value")),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            b'-' | b'0'..=b'9' => self.number(first),
            _ => Err(self.odd_value(first)),
        }
    }

    fn odd_value(&mut self, first: u16) -> JsonSyntaxError {
        let non_standard = match ascii(first) {
            b'N' => Some("NaN"),
            b'I' => Some("Infinity"),
            b'+' => {
                return match self.next() {
                    Some(unit) => self.unexpected_in_number(unit, NO_DIGIT),
                    None => self.end(" in a Number value"),
                };
            }
            _ => None,
        };
        if let Some(word) = non_standard {
            return match self.word(word, Value::Null) {
                Ok(_) => self.non_standard(word),
                Err(error) => error,
            };
        }
        if is_name_start(first) {
            return self.unknown_word(&[first]);
        }
        self.unexpected(first, &format!("expected a valid value {TOKENS}"))
    }

    /// Shows the word that starts with what has been read of it.
    fn unknown_word(&mut self, read: &[u16]) -> JsonSyntaxError {
        let mut word = read.to_vec();
        let mut cut = "";
        while let Some(unit) = self.units.get(self.at).copied().filter(|unit| is_name_part(*unit)) {
            self.at += 1;
            word.push(unit);
            if word.len() >= TOKEN_UNITS_MAX {
                cut = "...";
                break;
            }
        }
        let word = decode(&word);
        self.complain(PARSE, &format!("Unrecognized token '{word}{cut}': was expecting {TOKENS}"))
    }

    /// A word whose first letter has been read.
    fn word(&mut self, word: &str, value: Value) -> Result<Value> {
        self.rest_of_word(word, 1).map(|()| value)
    }

    /// A word of which so many letters have been read.
    fn rest_of_word(&mut self, word: &str, read: usize) -> Result<()> {
        let letters: Vec<u16> = word.encode_utf16().collect();
        for (index, letter) in letters.iter().enumerate().skip(read) {
            if self.units.get(self.at) != Some(letter) {
                return Err(self.unknown_word(letters.get(..index).unwrap_or(&[])));
            }
            self.at += 1;
        }
        match self.units.get(self.at) {
            Some(unit) if *unit >= u16::from(b'0') && is_name_part(*unit) => {
                Err(self.unknown_word(&letters))
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, is_array: bool) -> Result<()> {
        let place = self.place(self.at - self.line_start);
        self.open.push(Open { is_array, place });
        if self.open.len() > DEPTH_MAX {
            return Err(self.complain(PARSE, "Document nesting depth exceeds the maximum allowed"));
        }
        Ok(())
    }

    /// A closing mark that fits the innermost scope.
    fn closes(&self, unit: u16) -> Result<bool> {
        let Some(open) = self.open.last() else {
            return Ok(false);
        };
        let (right, wrong) = if open.is_array { (b']', b'}') } else { (b'}', b']') };
        match ascii(unit) {
            mark if mark == right => Ok(true),
            mark if mark == wrong => Err(self.complain(
                PARSE,
                &format!(
                    "Unexpected close marker '{}': expected '{}' (for {} starting at {})",
                    char::from(wrong),
                    char::from(right),
                    open.kind(),
                    open.place
                ),
            )),
            _ => Ok(false),
        }
    }

    /// A closing mark where nothing is open.
    fn closes_nothing(&self, unit: u16) -> JsonSyntaxError {
        let (mark, other) = if ascii(unit) == b']' { (']', '}') } else { ('}', ']') };
        let start = format!("[Source: {}; line: 1, column: 0]", self.source());
        self.complain(
            PARSE,
            &format!(
                "Unexpected close marker '{mark}': expected '{other}' (for root starting at {start})"
            ),
        )
    }

    /// Skips the comma between two entries.
    fn comma(&mut self, unit: u16) -> Result<u16> {
        let scope = self.scope();
        if ascii(unit) != b',' {
            let why = format!("was expecting comma to separate {scope} entries");
            return Err(self.unexpected(unit, &why));
        }
        self.skip_blanks()?.ok_or_else(|| {
            self.complain(PARSE, &format!("Unexpected end-of-input within/between {scope} entries"))
        })
    }

    fn array(&mut self) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            let mut unit = self.next_inside()?;
            if self.closes(unit)? {
                return Ok(items);
            }
            if !items.is_empty() {
                unit = self.comma(unit)?;
            }
            items.push(self.value(unit)?);
        }
    }

    fn object(&mut self) -> Result<Map<String, Value>> {
        let mut entries = Map::new();
        let mut is_first = true;
        loop {
            let mut unit = self.next_inside()?;
            if self.closes(unit)? {
                return Ok(entries);
            }
            if !is_first {
                unit = self.comma(unit)?;
            }
            if ascii(unit) != b'"' {
                let why = "was expecting double-quote to start field name";
                return Err(self.unexpected(unit, why));
            }
            let name = self.quoted(" in field name", "name")?;
            let colon = self.skip_blanks()?;
            let within = " within/between Object entries";
            match colon {
                Some(unit) if ascii(unit) == b':' => {}
                Some(unit) => {
                    let why = "was expecting a colon to separate field name and value";
                    return Err(self.unexpected(unit, why));
                }
                None => return Err(self.end(within)),
            }
            let first = self.skip_blanks()?.ok_or_else(|| self.end(within))?;
            // Jackson has another complaint about a missing value for all fields but the first.
            let missing = !is_first && ascii(first) == b'}';
            let value = if missing { Err(self.odd_value(first)) } else { self.value(first) };
            entries.insert(name, value?);
            is_first = false;
        }
    }

    fn string(&mut self) -> Result<String> {
        self.quoted(": was expecting closing quote for a string value", "string value")
    }

    /// Text up to the closing quote.
    fn quoted(&mut self, end: &str, what: &str) -> Result<String> {
        let mut units = Vec::new();
        loop {
            let unit = self.next().ok_or_else(|| self.end(end))?;
            match ascii(unit) {
                b'"' => return Ok(decode(&units)),
                b'\\' => units.push(self.escape()?),
                0..=0x1f => {
                    let shown = describe(unit);
                    return Err(self.complain(
                        PARSE,
                        &format!(
                            "Illegal unquoted character ({shown}): has to be escaped using \
                             backslash to be included in {what}"
                        ),
                    ));
                }
                _ => units.push(unit),
            }
        }
    }

    fn escape(&mut self) -> Result<u16> {
        let end = " in character escape sequence";
        let unit = self.next().ok_or_else(|| self.end(end))?;
        Ok(match ascii(unit) {
            b'b' => 0x08,
            b't' => u16::from(b'\t'),
            b'n' => u16::from(b'\n'),
            b'f' => 0x0c,
            b'r' => u16::from(b'\r'),
            b'"' | b'/' | b'\\' => unit,
            b'u' => {
                let mut value = 0;
                for _ in 0..4 {
                    let digit = self.next().ok_or_else(|| self.end(end))?;
                    let number = char::from(ascii(digit)).to_digit(16).ok_or_else(|| {
                        let why = "expected a hex-digit for character escape sequence";
                        self.unexpected(digit, why)
                    })?;
                    value = value << 4 | number as u16;
                }
                value
            }
            _ => {
                let what = describe(unit);
                return Err(self.complain(PARSE, &format!("Unrecognized character escape {what}")));
            }
        })
    }

    /// Takes digits; returns the first unit after them.
    fn digits(&mut self, text: &mut String) -> (usize, Option<u16>) {
        let start = text.len();
        while let Some(unit) = self.next() {
            match ascii(unit) {
                digit @ b'0'..=b'9' => text.push(char::from(digit)),
                _ => return (text.len() - start, Some(unit)),
            }
        }
        (text.len() - start, None)
    }

    fn number(&mut self, first: u16) -> Result<Value> {
        let mut text = String::new();
        let mut digit = first;
        if ascii(first) == b'-' {
            text.push('-');
            digit = self.next().ok_or_else(|| self.end("No digit following minus sign"))?;
            match ascii(digit) {
                b'0'..=b'9' => {}
                b'I' => return Err(self.negative_infinity()),
                _ => return Err(self.unexpected_in_number(digit, NO_DIGIT)),
            }
        }
        text.push(char::from(ascii(digit)));
        let leading_zero = ascii(digit) == b'0'
            && self.units.get(self.at).is_some_and(|next| ascii(*next).is_ascii_digit());
        if leading_zero {
            return Err(self.complain(PARSE, "Invalid numeric value: Leading zeroes not allowed"));
        }
        let (_, mut after) = self.digits(&mut text);
        // Of most numbers Jackson reports the place where the whole part ended.
        let whole_end = (ascii(digit) != b'0').then_some(self.at);
        if after.map(ascii) == Some(b'.') {
            text.push('.');
            let (count, next) = self.digits(&mut text);
            if count == 0 {
                let shown = next.unwrap_or(u16::from(b'.'));
                let why = "Decimal point not followed by a digit";
                self.at = whole_end.filter(|_| next.is_some()).unwrap_or(self.at);
                return Err(self.unexpected_in_number(shown, why));
            }
            after = next;
        }
        if let Some(b'e' | b'E') = after.map(ascii) {
            after = self.exponent(&mut text, whole_end)?;
        }
        if let Some(unit) = after {
            self.end_number(unit)?;
        }
        let number: Number = text
            .parse()
            .map_err(|_| self.complain(PARSE, &format!("Invalid numeric value: {text}")))?;
        Ok(Value::Number(number))
    }

    /// `-I` has been read.
    fn negative_infinity(&mut self) -> JsonSyntaxError {
        let word = match self.next() {
            None => return self.end(" in a Number value"),
            Some(unit) => match ascii(unit) {
                b'N' => "-INF",
                b'n' => "-Infinity",
                _ => return self.unexpected_in_number(unit, NO_DIGIT),
            },
        };
        match self.rest_of_word(word, 3) {
            Ok(()) => self.non_standard(word),
            Err(error) => error,
        }
    }

    fn non_standard(&self, word: &str) -> JsonSyntaxError {
        let why = "enable JsonParser.Feature.ALLOW_NON_NUMERIC_NUMBERS to allow";
        self.complain(PARSE, &format!("Non-standard token '{word}': {why}"))
    }

    fn exponent(&mut self, text: &mut String, whole_end: Option<usize>) -> Result<Option<u16>> {
        const END_OF_EXPONENT: &str = "expected a digit for number exponent";
        text.push('e');
        let mut sign = u16::from(b'e');
        match self.units.get(self.at).copied() {
            None => return Err(self.end(END_OF_EXPONENT)),
            Some(unit) if matches!(ascii(unit), b'+' | b'-') => {
                sign = unit;
                self.at += 1;
                text.push(char::from(ascii(unit)));
                if self.at >= self.units.len() {
                    return Err(self.end(END_OF_EXPONENT));
                }
            }
            Some(_) => {}
        }
        let (count, next) = self.digits(text);
        if count == 0 {
            let shown = next.unwrap_or(sign);
            let why = "Exponent indicator not followed by a digit";
            self.at = whole_end.filter(|_| next.is_some()).unwrap_or(self.at);
            return Err(self.unexpected_in_number(shown, why));
        }
        Ok(next)
    }

    /// A number that is the whole value wants a blank after it.
    fn end_number(&mut self, after: u16) -> Result<()> {
        let separates = matches!(ascii(after), b' ' | b'\t' | b'\r' | b'\n');
        if self.open.is_empty() && !separates {
            return Err(self.unexpected(after, "Expected space separating root-level values"));
        }
        self.at -= 1;
        Ok(())
    }
}

const NO_DIGIT: &str = "expected digit (0-9) to follow minus sign, for valid numeric value";
