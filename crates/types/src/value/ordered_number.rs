//! The bodies of `varint` and `decimal` in the ordered encoding.

use num_bigint::{BigInt, Sign};

use super::decimal::{Decimal, power_of_ten};
use super::ordered::{OrderedError, Reader};
use super::varint;

/// Lengths up to this fit the header byte of a varint.
const SHORT_LENGTH_MAX: u32 = 118;
const SHORT_BASE: u8 = 0x7f;
const LONG_HEADER: u8 = 0xff;

const DECIMAL_NEGATIVE: u8 = 0x01;
const DECIMAL_ZERO: u8 = 0x02;
const DECIMAL_POSITIVE: u8 = 0x03;

/// A whole number of up to so many trailing zeros decodes with scale zero: people write `100`, not
/// `1E+2`.
const WHOLE_ZEROS_MAX: i64 = 64;
/// More zeros than this are never written out when decoding.
const PADDING_ZEROS_MAX: i64 = 1 << 20;

/// Header, then the significant bytes. The header of positive numbers grows with their length, the
/// one of negative numbers is its complement.
pub(super) fn encode_varint(bytes: &[u8], out: &mut Vec<u8>) {
    let significant = varint::significant(bytes);
    let mask = if varint::is_negative(significant) { 0xff } else { 0 };
    let length = u32::try_from(significant.len()).unwrap_or(u32::MAX);
    if length <= SHORT_LENGTH_MAX {
        out.push((SHORT_BASE + length as u8) ^ mask);
    } else {
        out.push(LONG_HEADER ^ mask);
        out.extend(length.to_be_bytes().map(|byte| byte ^ mask));
    }
    out.extend_from_slice(significant);
}

pub(super) fn decode_varint(
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    let header = reader.byte()?;
    let mask = if header < 0x80 { 0xff } else { 0 };
    let header = header ^ mask;
    let length = if header == LONG_HEADER {
        u32::from_be_bytes(reader.array::<4>()?.map(|byte| byte ^ mask))
    } else {
        u32::from(header.saturating_sub(SHORT_BASE))
    };
    reader.copy(length as usize, out)
}

/// Sign; the place of the first digit before the point; digits without trailing zeros, in pairs.
/// Everything after the sign of a negative number is complemented.
pub(super) fn encode_decimal(bytes: &[u8], out: &mut Vec<u8>) {
    let value = Decimal::decode(bytes).unwrap_or_else(Decimal::zero);
    let mask = match value.unscaled.sign() {
        Sign::NoSign => {
            out.push(DECIMAL_ZERO);
            return;
        }
        Sign::Minus => {
            out.push(DECIMAL_NEGATIVE);
            0xff
        }
        Sign::Plus => {
            out.push(DECIMAL_POSITIVE);
            0
        }
    };
    let digits = value.unscaled.magnitude().to_string();
    let exponent = digits.len() as i64 - i64::from(value.scale);
    let start = out.len();
    out.extend_from_slice(&(exponent ^ i64::MIN).to_be_bytes());
    for pair in digits.trim_end_matches('0').as_bytes().chunks(2) {
        let digit = |index: usize| pair.get(index).map_or(0, |byte| byte - b'0');
        out.push(digit(0) * 10 + digit(1) + 1);
    }
    out.push(0);
    for byte in out.iter_mut().skip(start) {
        *byte ^= mask;
    }
}

pub(super) fn decode_decimal(
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    let mask = match reader.byte()? {
        DECIMAL_ZERO => {
            Decimal::zero().encode(out);
            return Ok(());
        }
        DECIMAL_NEGATIVE => 0xff,
        DECIMAL_POSITIVE => 0,
        other => return Err(OrderedError::UnknownMark(other)),
    };
    let exponent = i64::from_be_bytes(reader.array::<8>()?.map(|byte| byte ^ mask)) ^ i64::MIN;
    let mut digits = String::new();
    loop {
        match reader.byte()? ^ mask {
            0 => break,
            pair @ 1..=100 => {
                digits.push(char::from(b'0' + (pair - 1) / 10));
                digits.push(char::from(b'0' + (pair - 1) % 10));
            }
            other => return Err(OrderedError::UnknownMark(other)),
        }
    }
    let digits = digits.trim_end_matches('0');
    let unscaled: BigInt = digits.parse().map_err(|_| OrderedError::NumberRange)?;
    let value = place_point(unscaled, digits.len() as i64, exponent)?;
    let signed = if mask == 0 { value.unscaled } else { -value.unscaled };
    Decimal { unscaled: signed, scale: value.scale }.encode(out);
    Ok(())
}

/// Chooses the scale: zero for whole numbers that are not too long, else what keeps no zeros.
fn place_point(unscaled: BigInt, digit_count: i64, exponent: i64) -> Result<Decimal, OrderedError> {
    let scale = digit_count.checked_sub(exponent).ok_or(OrderedError::NumberRange)?;
    let zeros = if (-WHOLE_ZEROS_MAX..0).contains(&scale) {
        -scale
    } else {
        // Only a scale at the very end of its range needs zeros to be expressed.
        i64::from(i32::MIN).saturating_sub(scale).max(0)
    };
    if zeros > PADDING_ZEROS_MAX {
        return Err(OrderedError::NumberRange);
    }
    let scale = i32::try_from(scale + zeros).map_err(|_| OrderedError::NumberRange)?;
    let zeros = u32::try_from(zeros).map_err(|_| OrderedError::NumberRange)?;
    Ok(Decimal { unscaled: unscaled * power_of_ten(zeros), scale })
}
