//! What the token of a key costs: `cargo xtask microbench`.

use divan::{Bencher, black_box};
use types::RingToken;

fn main() {
    divan::main();
}

#[divan::bench(args = [8, 36, 256])]
fn ring_token(bencher: Bencher<'_, '_>, key_bytes: usize) {
    let key = vec![0x5a; key_bytes];
    bencher.bench(|| RingToken::of_key(black_box(&key)));
}
