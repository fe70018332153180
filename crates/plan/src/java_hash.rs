//! The order of Java's hash tables, where Cassandra shows it: in the names of columns that hold a
//! literal of a user type, and in which condition of a row is judged first.

/// The hash of a buffer of bytes.
pub(crate) fn bytes_hash(bytes: &[u8]) -> i32 {
    bytes.iter().rev().fold(1, |hash: i32, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed()))
    })
}

/// The hash of a pair, from those of its parts.
pub(crate) fn pair_hash(left: i32, right: i32) -> i32 {
    31_i32.wrapping_mul(31_i32.wrapping_add(left)).wrapping_add(right)
}

/// How many buckets a table has for that many keys.
pub(crate) fn bucket_count(keys: usize) -> usize {
    const BUCKETS_MIN: usize = 16;
    let mut buckets = BUCKETS_MIN;
    while keys > buckets / 4 * 3 {
        buckets *= 2;
    }
    buckets
}

/// The bucket in which a key with that hash lies; keys come out bucket by bucket.
pub(crate) fn bucket(hash: i32, buckets: usize) -> usize {
    let hash = hash.cast_unsigned();
    (hash ^ hash >> 16) as usize & (buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(bytes_hash(b"a"), 128);
        assert_eq!(pair_hash(bytes_hash(b"a"), 0), 4929);
        // So Cassandra judges a condition on b before one on a.
        let place = |name: &[u8]| bucket(pair_hash(bytes_hash(name), 0), bucket_count(2));
        assert!(place(b"b") < place(b"a"));
        assert_eq!((bucket_count(12), bucket_count(13)), (16, 32));
    }
}
