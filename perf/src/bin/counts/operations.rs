//! The operations, each a function that does it N times after a preparation that does not depend on N.
//! It does not count: callgrind does, from outside.

use std::hint::black_box;

/// Name, the N that is usual, and the operation.
pub type Operation = (&'static str, u64, fn(u64));

/// All of them, in the order of the table.
pub const ALL: &[Operation] = &[("papaya-get", 10_000, papaya_get)];

/// What a bare lookup costs, pinned each time: the yardstick for `try_get_source`.
fn papaya_get(n: u64) {
    let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
    let map = papaya::HashMap::<u64, u64, ahash::RandomState>::with_hasher(hasher);
    for key in 0..1_000 {
        map.pin().insert(key, key);
    }
    for key in 0..n {
        black_box(map.pin().get(&black_box(key % 1_000)));
    }
}
