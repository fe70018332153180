//! What it costs to parse: `cargo xtask microbench`.
#![allow(clippy::unwrap_used, reason = "a measurement may stop")]

use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

fn measure(bencher: Bencher<'_, '_>, text: &str) {
    bencher.bench(|| cql::parse(black_box(text)).unwrap());
}

#[divan::bench]
fn parse_select(bencher: Bencher<'_, '_>) {
    measure(bencher, "SELECT a, b, c FROM bench.rows WHERE id = ? AND at >= ? LIMIT 100");
}

#[divan::bench]
fn parse_insert(bencher: Bencher<'_, '_>) {
    measure(bencher, "INSERT INTO bench.rows (id, a, b, c) VALUES (?, ?, ?, ?) USING TTL 60");
}

#[divan::bench]
fn parse_create_table(bencher: Bencher<'_, '_>) {
    let text = "CREATE TABLE bench.rows (id bigint, at timestamp, a text, b map<text, frozen<list<int>>>, \
                PRIMARY KEY ((id), at)) WITH CLUSTERING ORDER BY (at DESC) AND default_time_to_live = 60";
    measure(bencher, text);
}
