//! The length of Rust functions, found with a small scanner that knows strings and comments.

use crate::{assert_none, tracked_files};

const FUNCTION_LINES_MAX: usize = 100;

#[test]
fn functions_fit_the_head() {
    let mut complaints = Vec::new();
    for file in tracked_files().iter().filter(|file| file.extension() == "rs") {
        for function in functions(&file.text) {
            if function.lines > FUNCTION_LINES_MAX {
                let Function { name, line, lines } = function;
                complaints.push(format!("{}:{line}: fn {name} has {lines} lines", file.path));
            }
        }
    }
    assert_none("a function longer than 100 lines", complaints);
}

#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// A word or a mark of the source, with its line. Strings and comments are gone.
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// Every function with a body. A nested one is found as well, and its lines belong to both.
fn functions(source: &str) -> Vec<Function> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let Some(name) = tokens.get(index + 1).filter(|_| token.text == "fn") else { continue };
        // `fn(` is a pointer type.
        if !name.text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            continue;
        }
        if let Some(end) = end_of_body(&tokens[index..]) {
            found.push(Function {
                name: name.text.to_string(),
                line: token.line,
                lines: end - token.line + 1,
            });
        }
    }
    found
}

/// The line of the closing brace; `None` when a semicolon ends the signature.
fn end_of_body(tokens: &[Token]) -> Option<usize> {
    let (mut round, mut curly) = (0usize, 0usize);
    for token in tokens {
        match token.text {
            "(" | "[" => round += 1,
            ")" | "]" => round = round.saturating_sub(1),
            ";" if round == 0 && curly == 0 => return None,
            "{" => curly += 1,
            "}" => {
                curly = curly.saturating_sub(1);
                if curly == 0 && round == 0 {
                    return Some(token.line);
                }
            }
            _ => {}
        }
    }
    None
}

fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let length = token_length(rest, first);
        let (text, after) = rest.split_at(length);
        let is_comment = text.starts_with("//") || text.starts_with("/*");
        let is_literal = text.contains('"') || text.ends_with('\'');
        if !(first.is_whitespace() || is_comment || is_literal) {
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// How many bytes the comment, literal, word, blank or mark at the start takes.
fn token_length(rest: &str, first: char) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_length(rest);
    }
    if let Some(length) = raw_string_length(rest) {
        return length;
    }
    if first == '"' || rest.starts_with("b\"") || rest.starts_with("c\"") {
        return string_length(rest);
    }
    if first == '\'' {
        return quote_length(rest);
    }
    if first.is_alphanumeric() || first == '_' {
        return rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    }
    first.len_utf8()
}

fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0usize);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn raw_string_length(rest: &str) -> Option<usize> {
    let start = if rest.starts_with("br") { 2 } else { usize::from(rest.starts_with('r')) };
    let hashes = rest.get(start..)?.bytes().take_while(|byte| *byte == b'#').count();
    if start == 0 || rest.as_bytes().get(start + hashes) != Some(&b'"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = start + hashes + 1;
    Some(rest[body..].find(&end).map_or(rest.len(), |found| body + found + end.len()))
}

fn string_length(rest: &str) -> usize {
    let mut is_escaped = false;
    let open = rest.find('"').unwrap_or(0);
    for (at, byte) in rest.bytes().enumerate().skip(open + 1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal, or only the quote of a lifetime.
fn quote_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        // The character right after the backslash may be a quote itself.
        Some((_, '\\')) => {
            rest.get(3..).and_then(|tail| tail.find('\'')).map_or(1, |found| found + 4)
        }
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[test]
fn the_scanner_knows_what_is_code() {
    let source = r##"
trait T { fn only_declared(&self, array: [u8; 4]) -> Result<(), ()>; }
/* fn in_comment() { /* nested } */ } */
fn one() {}
fn two<'a>(x: &'a str, f: fn(u8) -> u8) -> char {
    let text = "} \" {";
    let raw = r#"}"}"#;
    // }
    if x == raw { '}' } else { '\'' }
}
impl A { async fn three() { struct B; fn four() {
} } }
"##;
    let found: Vec<(String, usize, usize)> =
        functions(source).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
    let wanted = [("one", 4, 1), ("two", 5, 6), ("three", 11, 2), ("four", 11, 2)];
    assert_eq!(found, wanted.map(|(name, line, lines)| (name.to_string(), line, lines)));
}
