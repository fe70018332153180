//! Reads statements from the standard input, one per line, and prints what the parser says.
//!
//! Line feeds, carriage returns, tabs and backslashes are escaped with a backslash. The output is
//! the line, a tab, `ok`, `syntax` or `invalid`, a tab, and the message: the format of the golden
//! files of this crate, so that one answer can be compared with another's.

use std::io::{BufRead, Write};

use cql::SyntaxError;

fn main() -> std::io::Result<()> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (kind, message) = match cql::parse(&unescape(&line)) {
            Ok(_) => ("ok", String::new()),
            Err(SyntaxError::Grammar(message)) => ("syntax", escape(&message)),
            Err(SyntaxError::Invalid(message)) => ("invalid", escape(&message)),
        };
        writeln!(output, "{line}\t{kind}\t{message}")?;
    }
    output.flush()
}

fn unescape(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some(other) => text.push(other),
            None => text.push('\\'),
        }
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}
