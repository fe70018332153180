//! The two rings (D1).
//!
//! Clients see Cassandra's own 64-bit token of every key. Inside, the ring has 128 bits: the upper
//! half is that token with its sign bit flipped, so that unsigned order is token order, and the
//! lower half is the part of the 128-bit Murmur3 that Cassandra throws away.

/// A token of the ring that clients see: exactly the value Cassandra computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub i64);

impl Token {
    /// The smallest token. No key has it except the empty one; `-2^63` of a hash maps to the maximum.
    pub const MIN: Token = Token(i64::MIN);
    /// The largest token.
    pub const MAX: Token = Token(i64::MAX);
}

/// A position on the internal ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RingToken(pub u128);

impl RingToken {
    /// The position of a key.
    pub fn of_key(key: &[u8]) -> RingToken {
        if key.is_empty() {
            return RingToken(0);
        }
        let (first, second) = murmur3(key);
        // Cassandra keeps -2^63 as a bound that no key may have.
        let token = if first == i64::MIN { i64::MAX } else { first };
        RingToken::new(Token(token), second as u64)
    }

    /// Joins the two halves.
    pub fn new(token: Token, low: u64) -> RingToken {
        let high = (token.0 as u64) ^ (1 << 63);
        RingToken((u128::from(high) << 64) | u128::from(low))
    }

    /// What clients see of it.
    pub fn token(self) -> Token {
        Token((((self.0 >> 64) as u64) ^ (1 << 63)) as i64)
    }

    /// The first internal position of an external token.
    pub fn first_of(token: Token) -> RingToken {
        RingToken::new(token, 0)
    }

    /// The last internal position of an external token.
    pub fn last_of(token: Token) -> RingToken {
        RingToken::new(token, u64::MAX)
    }

    /// Sixteen bytes whose order is the order of the ring.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn mix_k1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_k2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn final_mix(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

/// Bytes of the tail as Cassandra reads them: sign-extended, which differs from the published
/// algorithm for every byte over 0x7f.
fn signed_tail(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .enumerate()
        .fold(0, |k, (index, byte)| k ^ ((i64::from(*byte as i8) as u64) << (8 * index)))
}

/// Cassandra's variant of 128-bit Murmur3 (x64), seed zero.
pub fn murmur3(data: &[u8]) -> (i64, i64) {
    let mut h1: u64 = 0;
    let mut h2: u64 = 0;
    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let bits = u128::from_le_bytes(*block);
        h1 ^= mix_k1(bits as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_k2((bits >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    if !high.is_empty() {
        h2 ^= mix_k2(signed_tail(high));
    }
    if !low.is_empty() {
        h1 ^= mix_k1(signed_tail(low));
    }
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = final_mix(h1);
    h2 = final_mix(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1 as i64, h2 as i64)
}

/// A contiguous part of the internal ring: from `start`, up to and including `last`. Both ends are
/// inside, because the ring's last position could not be written as an excluded end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRange {
    /// The first position inside.
    pub start: RingToken,
    /// The last position inside.
    pub last: RingToken,
}

impl RingRange {
    /// Everything.
    pub const FULL: RingRange = RingRange { start: RingToken(0), last: RingToken(u128::MAX) };

    /// Whether a position lies inside.
    pub fn contains(&self, token: RingToken) -> bool {
        self.start <= token && token <= self.last
    }

    /// The tokens all of whose positions lie inside: those behind the first one that is returned, up to and including the second.
    /// The smallest token, which only the empty key has, is never among them.
    pub fn whole_tokens(&self) -> Option<(Token, Token)> {
        let (first, last) = (self.start.token(), self.last.token());
        let after = match self.start == RingToken::first_of(first) {
            true => Token(first.0.saturating_sub(1)),
            false => first,
        };
        let last = match self.last == RingToken::last_of(last) {
            true => last,
            false => Token(last.0.checked_sub(1)?),
        };
        (after < last).then_some((after, last))
    }

    /// The common part, if there is one.
    pub fn intersect(&self, other: &RingRange) -> Option<RingRange> {
        let start = self.start.max(other.start);
        let last = self.last.min(other.last);
        (start <= last).then_some(RingRange { start, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_cassandras() {
        for (key, token) in
            [("château".as_bytes(), 9114062196463836094), (b"".as_slice(), i64::MIN)]
        {
            assert_eq!(RingToken::of_key(key).token(), Token(token), "{key:?}");
        }
    }

    #[test]
    fn whole_tokens_of_a_range() {
        let range = |start, last| RingRange { start, last };
        let (first_of, last_of) =
            (|token| RingToken::first_of(Token(token)), |token| RingToken::last_of(Token(token)));
        let cases = [
            (RingRange::FULL, Some((i64::MIN, i64::MAX))),
            (range(first_of(-7), last_of(9)), Some((-8, 9))),
            // A token that two share belongs to neither.
            (range(RingToken::new(Token(-7), 1), RingToken::new(Token(9), 5)), Some((-7, 8))),
            (range(first_of(3), last_of(3)), Some((2, 3))),
            (range(first_of(3), RingToken::new(Token(3), 5)), None),
            (range(RingToken(0), RingToken(5)), None),
        ];
        for (range, expected) in cases {
            let expected = expected.map(|(after, last)| (Token(after), Token(last)));
            assert_eq!(range.whole_tokens(), expected, "{range:?}");
        }
    }

    #[test]
    fn ring_order_is_token_order() {
        let tokens = [Token::MIN, Token(-1), Token(0), Token(1), Token::MAX];
        assert!(tokens.windows(2).all(|w| RingToken::last_of(w[0]) < RingToken::first_of(w[1])));
        for token in tokens {
            assert_eq!(RingToken::first_of(token).token(), token);
            assert_eq!(RingToken::last_of(token).token(), token);
        }
    }
}
