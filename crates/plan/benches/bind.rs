//! What it costs to plan a statement, and to bind the values of a planned one: `cargo xtask microbench`.
#![allow(clippy::unwrap_used, reason = "a measurement may stop")]

#[path = "../tests/support/mod.rs"]
mod support;

use divan::{Bencher, black_box};
use plan::{SessionContext, Value, prepare};
use support::{Uuids, World, context};

const INSERT: &str = "INSERT INTO rows (id, a, b, c) VALUES (?, ?, ?, ?)";
const SELECT: &str = "SELECT a, b, c FROM rows WHERE id = ?";

fn main() {
    divan::main();
}

fn world() -> World {
    let mut world = World::new("ks");
    world.define("CREATE TABLE rows (id bigint PRIMARY KEY, a text, b text, c int)");
    world
}

fn prepared(world: &World, text: &str) -> plan::Prepared {
    let parsed = cql::parse(text).unwrap();
    prepare(&parsed, text, &world.schema, &SessionContext { keyspace: Some("ks") }).unwrap()
}

#[divan::bench]
fn plan_insert(bencher: Bencher<'_, '_>) {
    let world = world();
    let parsed = cql::parse(INSERT).unwrap();
    let session = SessionContext { keyspace: Some("ks") };
    bencher.bench(|| prepare(black_box(&parsed), INSERT, &world.schema, &session).unwrap());
}

#[divan::bench]
fn bind_insert(bencher: Bencher<'_, '_>) {
    let world = world();
    let statement = prepared(&world, INSERT);
    let text = [b'a'; 110];
    let id = 7i64.to_be_bytes();
    let values =
        [Value::Bytes(&id), Value::Bytes(&text), Value::Bytes(&text), Value::Bytes(&[0, 0, 0, 1])];
    let uuids = Uuids::default();
    let context = context(&uuids);
    bencher.bench_local(|| drop(statement.bind(black_box(&values), &context).unwrap()));
}

#[divan::bench]
fn bind_select(bencher: Bencher<'_, '_>) {
    let world = world();
    let statement = prepared(&world, SELECT);
    let id = 7i64.to_be_bytes();
    let values = [Value::Bytes(&id)];
    let uuids = Uuids::default();
    let context = context(&uuids);
    bencher.bench_local(|| drop(statement.bind(black_box(&values), &context).unwrap()));
}
