//! Text → statements, as they are typed or stand in a file. Nothing is understood here beyond where
//! texts, names and comments begin and end.

/// Words whose line is a command even without a semicolon.
const LINE_COMMANDS: [&str; 19] = [
    "help",
    "?",
    "consistency",
    "serial",
    "describe",
    "desc",
    "show",
    "source",
    "capture",
    "login",
    "tracing",
    "expand",
    "paging",
    "cost",
    "history",
    "clear",
    "cls",
    "exit",
    "quit",
];

/// A statement or command, without its semicolon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// Of its first character, from 1.
    pub(crate) line: usize,
}

/// What a text holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) complete: Vec<Piece>,
    /// What has no end yet.
    pub(crate) open: Option<Piece>,
}

/// Cuts a text into statements.
pub(crate) fn split(text: &str) -> Split {
    Splitter::new(text).run()
}

struct Splitter<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    /// Where the current statement begins, with its line.
    start: Option<(usize, usize)>,
    /// Its first word, in small letters.
    first_word: Option<String>,
    /// Its last two words, in small letters.
    last_words: [String; 2],
    found: Split,
}

impl<'t> Splitter<'t> {
    fn new(text: &'t str) -> Splitter<'t> {
        Splitter {
            text,
            at: 0,
            line: 1,
            start: None,
            first_word: None,
            last_words: Default::default(),
            found: Split::default(),
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn run(mut self) -> Split {
        while let Some(next) = self.rest().chars().next() {
            let rest = self.rest();
            match next {
                '\n' => {
                    if self.is_line_command() {
                        self.end();
                    }
                    self.advance(1);
                }
                ';' => {
                    if self.is_open_batch() {
                        self.advance(1);
                    } else {
                        self.end();
                        self.advance(1);
                    }
                }
                '-' if rest.starts_with("--") => self.comment(),
                '/' if rest.starts_with("//") => self.comment(),
                '/' if rest.starts_with("/*") => {
                    let inside = rest.get(2..).unwrap_or_default();
                    match inside.find("*/") {
                        Some(length) => self.advance(length + 4),
                        // Nobody knows yet what it hides.
                        None => {
                            self.begin();
                            self.advance(rest.len());
                        }
                    }
                }
                '\'' | '"' => self.quoted(&next.to_string()),
                '$' if rest.starts_with("$$") => self.quoted("$$"),
                _ if next.is_whitespace() => self.advance(next.len_utf8()),
                _ if next.is_alphanumeric() || next == '_' => self.word(),
                _ => {
                    self.begin();
                    self.note(&next.to_string());
                    self.advance(next.len_utf8());
                }
            }
        }
        if self.is_line_command() && self.text.ends_with('\n') {
            self.end();
        }
        if let Some((start, line)) = self.start {
            let text = self.text.get(start..).unwrap_or_default().trim_end().to_owned();
            self.found.open = Some(Piece { text, line });
        }
        self.found
    }

    fn advance(&mut self, bytes: usize) {
        let passed = self.rest().get(..bytes).unwrap_or_default();
        self.line += passed.matches('\n').count();
        self.at += bytes;
    }

    fn begin(&mut self) {
        self.start.get_or_insert((self.at, self.line));
    }

    fn note(&mut self, word: &str) {
        let word = word.to_lowercase();
        self.first_word.get_or_insert_with(|| word.clone());
        self.last_words.rotate_left(1);
        self.last_words[1] = word;
    }

    fn word(&mut self) {
        self.begin();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.note(rest.get(..end).unwrap_or_default());
        self.advance(end);
    }

    fn comment(&mut self) {
        let rest = self.rest();
        self.advance(rest.find('\n').unwrap_or(rest.len()));
    }

    /// A text or name up to its closing mark. A doubled mark closes and opens it again, which comes to
    /// the same.
    fn quoted(&mut self, mark: &str) {
        self.begin();
        self.note(mark);
        let inside = self.rest().get(mark.len()..).unwrap_or_default();
        let length = match inside.find(mark) {
            Some(length) => length + 2 * mark.len(),
            None => {
                // It swallows all that follows, a closing semicolon too.
                self.first_word = Some(String::new());
                inside.len() + mark.len()
            }
        };
        self.advance(length);
    }

    fn is_line_command(&self) -> bool {
        let word = self.first_word.as_deref();
        word.is_some_and(|word| LINE_COMMANDS.contains(&word))
    }

    fn is_open_batch(&self) -> bool {
        self.first_word.as_deref() == Some("begin") && self.last_words != ["apply", "batch"]
    }

    /// The statement ends here.
    fn end(&mut self) {
        if let Some((start, line)) = self.start.take() {
            let text = self.text.get(start..self.at).unwrap_or_default().trim_end().to_owned();
            self.found.complete.push(Piece { text, line });
        }
        self.first_word = None;
        self.last_words = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, complete: &[(usize, &str)], open: Option<&str>) {
        let found = split(text);
        let pieces: Vec<(usize, &str)> =
            found.complete.iter().map(|piece| (piece.line, piece.text.as_str())).collect();
        assert_eq!(pieces, complete, "{text}");
        assert_eq!(found.open.as_ref().map(|piece| piece.text.as_str()), open, "{text}");
    }

    #[test]
    fn statements_end_with_a_semicolon() {
        check("SELECT 1; SELECT 2;", &[(1, "SELECT 1"), (1, "SELECT 2")], None);
        check("SELECT *\n  FROM t\n;\n\nUSE x;", &[(1, "SELECT *\n  FROM t"), (5, "USE x")], None);
        check("SELECT 1", &[], Some("SELECT 1"));
        check("", &[], None);
        check(" ;;\n; ", &[], None);
    }

    #[test]
    fn quotes_hide_semicolons() {
        check("INSERT 'a;b'; X;", &[(1, "INSERT 'a;b'"), (1, "X")], None);
        check("INSERT 'it''s;'; X;", &[(1, "INSERT 'it''s;'"), (1, "X")], None);
        check("SELECT \"a;\"\"b\" FROM t;", &[(1, "SELECT \"a;\"\"b\" FROM t")], None);
        check("SELECT $$ it's; $$;", &[(1, "SELECT $$ it's; $$")], None);
        check("INSERT 'a;\nb;\n", &[], Some("INSERT 'a;\nb;"));
        check("HELP 'a\nb", &[], Some("HELP 'a\nb"));
    }

    #[test]
    fn comments_are_passed_over() {
        check("-- one; two\nSELECT 1; // x;\n", &[(2, "SELECT 1")], None);
        check("/* a;\n b; */ SELECT 1;", &[(2, "SELECT 1")], None);
        check("SELECT /* ; */ 1;", &[(1, "SELECT /* ; */ 1")], None);
        check("SELECT 1 -- ;\n + 2;", &[(1, "SELECT 1 -- ;\n + 2")], None);
        check("-- only this", &[], None);
        check("/* no end; \n", &[], Some("/* no end;"));
    }

    #[test]
    fn a_batch_is_one_statement() {
        let batch = "BEGIN BATCH\n INSERT 1;\n INSERT 2;\nAPPLY BATCH";
        check(&format!("{batch}; X;"), &[(1, batch), (4, "X")], None);
        check(
            "begin unlogged batch a; apply batch;",
            &[(1, "begin unlogged batch a; apply batch")],
            None,
        );
        check("BEGIN BATCH INSERT 1;", &[], Some("BEGIN BATCH INSERT 1;"));
    }

    #[test]
    fn commands_end_with_their_line() {
        check("CONSISTENCY\nSELECT 1;", &[(1, "CONSISTENCY"), (2, "SELECT 1")], None);
        check("EXPAND ON;\nexit\n", &[(1, "EXPAND ON"), (2, "exit")], None);
        check("? copy\n", &[(1, "? copy")], None);
        check("DESC TABLE x", &[], Some("DESC TABLE x"));
        check("SOURCE 'a;b.cql'\n", &[(1, "SOURCE 'a;b.cql'")], None);
    }
}
