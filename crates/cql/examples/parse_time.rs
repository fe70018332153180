//! How long the parser takes, per statement, on typical texts. Run it in release mode.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

const BATCHES: u32 = 200;
const BATCH_SIZE: u32 = 1000;

const TEXTS: &[(&str, &str)] = &[
    (
        "insert, 5 markers",
        "INSERT INTO ks.users (id, name, email, created, score) VALUES (?, ?, ?, ?, ?)",
    ),
    (
        "insert, 5 values",
        "INSERT INTO ks.users (id, name, email, created, score) VALUES (123e4567-e89b-12d3-a456-426614174000, 'Ada', 'ada@example.org', 1700000000000, 1.5) USING TTL 3600",
    ),
    ("select", "SELECT id, name, email FROM ks.users WHERE id = ? AND created > ? LIMIT 100"),
    ("update", "UPDATE ks.users SET score = score + 1, name = ? WHERE id = ? IF EXISTS"),
    (
        "broken select",
        "SELECT id, name, email FORM ks.users WHERE id = ? AND created > ? LIMIT 100",
    ),
];

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for (name, text) in TEXTS {
        let each = fastest(|| {
            let _ = black_box(cql::parse(black_box(text)));
        });
        writeln!(output, "{name}: {each:?}")?;
    }
    Ok(())
}

/// The mean of the fastest batch, because other work on the machine only ever slows one down.
#[expect(clippy::disallowed_methods, reason = "a stopwatch needs the real clock")]
fn fastest(work: impl Fn()) -> Duration {
    let batch = || {
        let start = Instant::now();
        (0..BATCH_SIZE).for_each(|_| work());
        start.elapsed() / BATCH_SIZE
    };
    (0..BATCHES).map(|_| batch()).min().unwrap_or_default()
}
