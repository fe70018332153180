//! `varint`: big-endian two's complement of any length.

use std::cmp::Ordering;

use num_bigint::BigInt;

/// The number that the bytes hold; no bytes are zero.
pub fn decode(bytes: &[u8]) -> BigInt {
    BigInt::from_signed_bytes_be(bytes)
}

/// Appends the shortest form.
pub fn encode(value: &BigInt, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_signed_bytes_be());
}

/// The bytes without redundant sign bytes in front; of a non-empty number at least one stays.
pub fn significant(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        let Some(&second) = tail.first() else { break };
        let redundant = (*first == 0 && second < 0x80) || (*first == 0xff && second >= 0x80);
        if !redundant {
            break;
        }
        rest = tail;
    }
    rest
}

/// Whether the number is below zero.
pub(crate) fn is_negative(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| *first >= 0x80)
}

/// Numeric order; no bytes at all sort first.
pub(crate) fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return b.is_empty().cmp(&a.is_empty());
    }
    let (a, b) = (significant(a), significant(b));
    match (is_negative(a), is_negative(b)) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        (true, true) => b.len().cmp(&a.len()).then_with(|| a.cmp(b)),
    }
}

/// Reads what Java's `new BigInteger(text)` reads: an optional sign and decimal digits.
pub fn parse(text: &str) -> Option<BigInt> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.strip_prefix('+').unwrap_or(text).parse().ok()
}
