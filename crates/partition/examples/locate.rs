//! How long it takes to locate a key: `cargo run --release -p partition --example locate`.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures and tells"
)]

use std::hint::black_box;
use std::time::Instant;

use partition::{Origin, PartitionMap, Reason, Space};
use types::{RingToken, TableId};

const TABLE: TableId = TableId(7);
const LOOKUPS: u32 = 20_000_000;

fn main() {
    let space = Space::Keyspace("ks".into());
    for count in [1, 100, 10_000] {
        let map = PartitionMap::default().with_space(space.clone(), count, 0);
        measure(&format!("{count} even"), map, &space);
    }
    // The same number, most of them close together: after splits of one hot range.
    let origin = Origin { made_at_ms: 0, reason: Reason::Heat };
    let mut map = PartitionMap::default().with_space(space.clone(), 5_000, 0);
    for number in 0..5_000u128 {
        let at = RingToken((7 << 100) + (number << 80));
        if let Some(set) = map.locate_in(&space, at).map(|found| found.set) {
            map = map.with_split(&space, set, at, origin).unwrap_or(map);
        }
    }
    measure("10000, half of them close together", map, &space);
}

fn measure(name: &str, map: PartitionMap, space: &Space) {
    let map = map.with_tables([(TABLE, space.clone())].into_iter());
    let mut token = 1u128;
    let mut sum = 0u64;
    let began = Instant::now();
    for _ in 0..LOOKUPS {
        token = token.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).wrapping_add(1);
        let found = map.locate(black_box(TABLE), RingToken(token));
        sum += found.map_or(0, |found| u64::from(found.set.0));
    }
    let nanoseconds = began.elapsed().as_nanos() as f64 / f64::from(LOOKUPS);
    black_box(sum);
    println!("{name}: {nanoseconds:.1} ns");
}
