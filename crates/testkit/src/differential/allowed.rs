//! Differences that are meant: a list of patterns, each with its reason.

/// A difference that is meant.
#[derive(Clone, Debug)]
struct Entry {
    fragments: Vec<String>,
    reason: String,
}

/// The list. A line is `FRAGMENT && FRAGMENT … ## REASON`: all fragments occur in the printed
/// difference. Empty lines and those that begin with `#` are comments.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    entries: Vec<Entry>,
}

impl Allowed {
    /// Reads the list; a line without a reason is an error.
    pub fn parse(text: &str) -> Result<Allowed, String> {
        let mut entries = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (pattern, reason) = line
                .split_once(" ## ")
                .ok_or_else(|| format!("line {}: no reason after ##", number + 1))?;
            let fragments = pattern.split(" && ").map(|part| part.trim().to_string()).collect();
            entries.push(Entry { fragments, reason: reason.trim().to_string() });
        }
        Ok(Allowed { entries })
    }

    /// Why this difference is meant, if it is.
    pub fn reason(&self, difference: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|entry| entry.fragments.iter().all(|part| difference.contains(part.as_str())))
            .map(|entry| entry.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fragments_of_a_line_must_occur() {
        let allowed = Allowed::parse("# comment\n\nSELECT && ours: error ## why\n").unwrap();
        assert_eq!(allowed.reason("SELECT a\nours: error 1"), Some("why"));
        assert_eq!(allowed.reason("SELECT a\nours: rows"), None);
        assert!(Allowed::parse("no reason").is_err());
    }
}
