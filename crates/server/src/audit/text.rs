//! Passwords in the texts of statements.

/// What Cassandra writes in the place of a password.
const OBFUSCATED: &str = "*******";
const PASSWORD: &str = "password";

/// A statement about roles that was understood: the literal after the word PASSWORD is replaced.
pub(crate) fn without_password(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = find_word(rest) {
        let (before, after) = rest.split_at_checked(at + PASSWORD.len()).unwrap_or((rest, ""));
        out.push_str(before);
        let Some((start, end)) = literal(after) else {
            // No literal that can be told: nothing more is shown.
            out.push(' ');
            out.push_str(OBFUSCATED);
            return out;
        };
        out.push_str(after.get(..start).unwrap_or_default());
        out.push('\'');
        out.push_str(OBFUSCATED);
        out.push('\'');
        rest = after.get(end..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// A statement that was not understood: everything after the word PASSWORD, wherever it stands, is gone. Whoever misspelt that word
/// gave a password all the same: without it everything after the first words of such a statement is.
pub(crate) fn without_rest(text: &str) -> String {
    let end = find_word(text).map(|at| at + PASSWORD.len()).or_else(|| gives_role(text));
    match end {
        None => text.to_owned(),
        Some(end) => format!("{} {OBFUSCATED}", text.get(..end).unwrap_or_default()),
    }
}

/// Whether a statement that was not understood may hold one.
pub(crate) fn may_have_password(text: &str) -> bool {
    find_word(text).is_some() || gives_role(text).is_some()
}

/// Where the words end that make or alter a role, wherever they stand.
fn gives_role(text: &str) -> Option<usize> {
    let is_one = |word: &str, of: [&str; 2]| of.iter().any(|it| word.eq_ignore_ascii_case(it));
    let mut verb_before = false;
    let mut end = 0;
    for word in text.split_inclusive(|it: char| !it.is_ascii_alphanumeric() && it != '_') {
        let bare = word.trim_end_matches(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        if verb_before && is_one(bare, ["ROLE", "USER"]) {
            return Some(end + bare.len());
        }
        end += word.len();
        if !bare.is_empty() {
            verb_before = is_one(bare, ["CREATE", "ALTER"]);
        }
    }
    None
}

/// Where the word stands, in whatever case.
fn find_word(text: &str) -> Option<usize> {
    text.as_bytes()
        .windows(PASSWORD.len())
        .position(|window| window.eq_ignore_ascii_case(PASSWORD.as_bytes()))
}

/// Where the next literal of text begins and ends, behind blanks and an equals sign.
fn literal(text: &str) -> Option<(usize, usize)> {
    let start = text.find(|it: char| !it.is_whitespace() && it != '=')?;
    let rest = text.get(start..)?;
    if let Some(body) = rest.strip_prefix("$$") {
        return Some((start, start + 4 + body.find("$$")?));
    }
    let mut characters = rest.strip_prefix('\'')?.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character == '\'' && characters.next_if(|(_, next)| *next == '\'').is_none() {
            return Some((start, start + at + 2));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        let cases = [
            (
                "CREATE ROLE a WITH PASSWORD = 'it''s' AND LOGIN = true",
                "CREATE ROLE a WITH PASSWORD = '*******' AND LOGIN = true",
            ),
            (
                "ALTER USER u WITH password 'x' SUPERUSER",
                "ALTER USER u WITH password '*******' SUPERUSER",
            ),
            ("ALTER ROLE a WITH PASSWORD=$$se'cret$$", "ALTER ROLE a WITH PASSWORD='*******'"),
            (
                "ALTER ROLE a WITH HASHED PASSWORD = '$2a$10'",
                "ALTER ROLE a WITH HASHED PASSWORD = '*******'",
            ),
            ("ALTER ROLE a WITH PASSWORD = /* b */ 'x'", "ALTER ROLE a WITH PASSWORD *******"),
            ("CREATE ROLE password WITH PASSWORD = 'x'", "CREATE ROLE password *******"),
            ("GRANT a TO b", "GRANT a TO b"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_password(text), expected, "{text}");
        }
        let broken = "CREATE ROLE é WITH PASSWORD = 'secret' AND LOGI = true";
        assert_eq!(without_rest(broken), "CREATE ROLE é WITH PASSWORD *******");
        assert_eq!(without_rest("SELEC 1"), "SELEC 1");
        // The word is misspelt; what it is about is not.
        for (text, expected) in [
            ("CREATE ROLE joe WITH PASSWRD = 'x'", "CREATE ROLE *******"),
            ("/* é */ alter\n user joe PASSWRD hunter2", "/* é */ alter\n user *******"),
            ("EXPLAIN ALTER/**/ROLE joe WITH PASWORD = 'x'", "EXPLAIN ALTER/**/ROLE *******"),
        ] {
            assert!(may_have_password(text), "{text}");
            assert_eq!(without_rest(text), expected, "{text}");
        }
        for text in ["CREATE TABLE role (a int)", "DROP ROLE joe WITH", "ALTER TABLE user ADD", ""]
        {
            assert!(!may_have_password(text), "{text}");
            assert_eq!(without_rest(text), text);
        }
    }
}
