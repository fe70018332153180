//! Hashes of passwords: bcrypt, with Cassandra's cost and prefix.

/// Two to this power rounds, as Cassandra's default.
const COST: u32 = 10;

/// A hash to check passwords of unknown roles against, so that they take as long as known ones.
const NOBODY: &str = "$2a$10$7EqJtq98hPqEX7fNZaFWoOhi1VzRwMY1P4bEIRI7mxh2qvVpHgqmK";

/// The hash to keep, with a salt that was never used before. Slow on purpose.
pub fn hash(password: &str, salt: [u8; 16]) -> Option<String> {
    let parts = bcrypt::hash_with_salt(password, COST, salt).ok()?;
    Some(parts.format_for_version(bcrypt::Version::TwoA))
}

/// Whether the password belongs to the hash; `None` stands for a role without one. Slow on purpose,
/// whatever the answer.
pub fn verify(password: &str, hash: Option<&str>) -> bool {
    let matches = bcrypt::verify(password, hash.unwrap_or(NOBODY)).unwrap_or(false);
    matches && hash.is_some()
}

/// Whether a text is a hash that [`verify`] understands.
pub fn is_hash(text: &str) -> bool {
    text.parse::<bcrypt::HashParts>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords() {
        let kept = hash("secret", [7; 16]).unwrap();
        assert!(kept.starts_with("$2a$10$"), "{kept}");
        assert!(is_hash(&kept) && is_hash(NOBODY) && !is_hash("secret"));
        assert!(verify("secret", Some(&kept)));
        assert!(!verify("Secret", Some(&kept)));
        assert!(!verify("secret", None));
        // A hash that Cassandra made.
        let theirs = "$2a$10$1fMuhIKa8xkW.DUxNlqBGeQLFLGNxJBYw1tJFZ6zmNAgEIzdEQxoq";
        assert!(is_hash(theirs));
    }
}
