//! Cassandra's variable-length integers: the number of leading one bits of the first byte says how
//! many bytes follow; signed numbers are zig-zag encoded.

/// Appends an unsigned number.
pub fn write_unsigned(value: u64, out: &mut Vec<u8>) {
    let significant_bits = 64 - (value | 1).leading_zeros();
    // Seven bits of value per byte while the length prefix fits the first byte.
    let extra = ((significant_bits - 1) / 7).min(8);
    let bytes = value.to_be_bytes();
    if extra == 8 {
        out.push(0xff);
        out.extend_from_slice(&bytes);
        return;
    }
    let prefix = !(0xff_u8.checked_shr(extra).unwrap_or(0));
    let start = out.len();
    out.extend(bytes.iter().skip(7 - extra as usize));
    if let Some(first) = out.get_mut(start) {
        *first |= prefix;
    }
}

/// Takes an unsigned number off the front; `None` when it is cut off.
pub fn take_unsigned(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    let extra = first.leading_ones();
    let (tail, rest) = rest.split_at_checked(extra as usize)?;
    let mask = 0xff_u8.checked_shr(extra).unwrap_or(0);
    let value =
        tail.iter().fold(u64::from(first & mask), |value, &byte| (value << 8) | u64::from(byte));
    *input = rest;
    Some(value)
}

/// Appends a signed number.
pub fn write_signed(value: i64, out: &mut Vec<u8>) {
    write_unsigned(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Takes a signed number off the front; `None` when it is cut off.
pub fn take_signed(input: &mut &[u8]) -> Option<i64> {
    let raw = take_unsigned(input)?;
    Some(((raw >> 1) as i64) ^ -((raw & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_encodings() {
        for (value, expected) in [
            (0_u64, vec![0_u8]),
            (127, vec![0x7f]),
            (128, vec![0x80, 0x80]),
            (16383, vec![0xbf, 0xff]),
            (16384, vec![0xc0, 0x40, 0x00]),
            (u64::MAX, vec![0xff; 9]),
        ] {
            let mut out = Vec::new();
            write_unsigned(value, &mut out);
            assert_eq!(out, expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(value: i64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_signed(value, &mut out);
            let mut input = out.as_slice();
            prop_assert_eq!(take_signed(&mut input), Some(value));
            prop_assert!(input.is_empty());
        }
    }
}
