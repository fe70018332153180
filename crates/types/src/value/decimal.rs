//! `decimal`: an unscaled number and a scale, read and printed as Java's `BigDecimal`.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, Sign};

use super::varint;

/// More digits than this are not written out: a scale of a few bytes could ask for gigabytes.
pub const PLAIN_DIGITS_MAX: usize = 1 << 20;

/// `unscaled * 10^-scale`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The digits.
    pub unscaled: BigInt,
    /// How many of them stand after the point; negative for trailing zeros not written.
    pub scale: i32,
}

/// Ten to a power.
pub(crate) fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// How many decimal digits a number has; zero has one.
pub(crate) fn digit_count(value: &BigInt) -> u64 {
    let bits = value.bits();
    if bits == 0 {
        return 1;
    }
    if let Ok(small) = u64::try_from(value.magnitude()) {
        return u64::from(small.ilog10()) + 1;
    }
    // log10(2) scaled by 2^32 gives the floor or one less; one comparison settles it.
    let estimate = ((u128::from(bits - 1) * 1_292_913_986) >> 32) as u64;
    let Ok(exponent) = u32::try_from(estimate + 1) else {
        return estimate + 1;
    };
    match value.magnitude().cmp(power_of_ten(exponent).magnitude()) {
        Ordering::Less => estimate + 1,
        _ => estimate + 2,
    }
}

impl Decimal {
    /// Zero with scale zero.
    pub fn zero() -> Self {
        Self { unscaled: BigInt::ZERO, scale: 0 }
    }

    /// The number in a value's bytes; `None` for what is too short to hold a scale.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        Some(Self { unscaled: varint::decode(unscaled), scale: i32::from_be_bytes(*scale) })
    }

    /// Appends the value's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.scale.to_be_bytes());
        varint::encode(&self.unscaled, out);
    }

    /// The value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        self.encode(&mut out);
        out
    }

    /// How many digits the unscaled number has.
    pub fn precision(&self) -> u64 {
        digit_count(&self.unscaled)
    }

    /// Whether it is zero, whatever its scale.
    pub fn is_zero(&self) -> bool {
        self.unscaled.sign() == Sign::NoSign
    }

    /// Reads what Java's `new BigDecimal(text)` reads.
    pub fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (text.get(..at)?, parse_exponent(text.get(at + 1..)?)?),
            None => (text, 0),
        };
        let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let mut digits = String::with_capacity(unsigned.len());
        digits.push_str(whole);
        digits.push_str(fraction);
        let magnitude: BigInt = digits.parse().ok()?;
        let unscaled = if mantissa.starts_with('-') { -magnitude } else { magnitude };
        let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        Some(Self { unscaled, scale: i32::try_from(scale).ok()? })
    }

    /// All digits without an exponent, as Java's `toPlainString`; `None` when that would be more
    /// than [`PLAIN_DIGITS_MAX`] digits.
    pub fn to_plain_string(&self) -> Option<String> {
        if self.scale.unsigned_abs() as usize > PLAIN_DIGITS_MAX {
            return None;
        }
        let digits = self.unscaled.magnitude().to_string();
        let sign = if self.unscaled.sign() == Sign::Minus { "-" } else { "" };
        if self.scale <= 0 {
            let zeros = if self.is_zero() { 0 } else { self.scale.unsigned_abs() as usize };
            return Some(format!("{sign}{digits}{}", "0".repeat(zeros)));
        }
        Some(format!("{sign}{}", with_point(&digits, self.scale.unsigned_abs() as usize)))
    }

    /// The same number with another, larger scale.
    pub(crate) fn rescaled_up(&self, scale: i32) -> BigInt {
        let zeros = u32::try_from(i64::from(scale) - i64::from(self.scale)).unwrap_or(0);
        if zeros == 0 { self.unscaled.clone() } else { &self.unscaled * power_of_ten(zeros) }
    }

    /// Without trailing zeros; zero gets scale zero.
    pub fn strip_trailing_zeros(&self) -> Self {
        if self.is_zero() {
            return Self::zero();
        }
        self.strip_zeros_down_to(i32::MIN)
    }

    /// Without trailing zeros while the scale stays at or above a bound.
    pub(crate) fn strip_zeros_down_to(&self, bound: i32) -> Self {
        let digits = self.unscaled.magnitude().to_string();
        let trailing = digits.len() - digits.trim_end_matches('0').len();
        let room = usize::try_from(i64::from(self.scale) - i64::from(bound)).unwrap_or(0);
        let zeros = if self.is_zero() { 0 } else { trailing.min(room) };
        let Ok(exponent) = u32::try_from(zeros) else { return self.clone() };
        if exponent == 0 {
            return self.clone();
        }
        Self {
            unscaled: &self.unscaled / power_of_ten(exponent),
            scale: self.scale.saturating_sub_unsigned(exponent),
        }
    }
}

/// Digits with a point before the last `scale` of them, padded with zeros.
fn with_point(digits: &str, scale: usize) -> String {
    match digits.len().checked_sub(scale) {
        Some(at) if at > 0 => match digits.split_at_checked(at) {
            Some((whole, fraction)) => format!("{whole}.{fraction}"),
            None => digits.to_owned(),
        },
        _ => format!("0.{digits:0>scale$}"),
    }
}

/// Java takes an exponent of at most ten digits after leading zeros, and within an `int`.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    if significant.len() > 10 {
        return None;
    }
    let magnitude = if significant.is_empty() { 0 } else { significant.parse::<i64>().ok()? };
    let exponent = if text.starts_with('-') { -magnitude } else { magnitude };
    i32::try_from(exponent).is_ok().then_some(exponent)
}

/// Java's `BigDecimal.toString`: an exponent where the scale is negative or the number very small.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.magnitude().to_string();
        if self.unscaled.sign() == Sign::Minus {
            f.write_str("-")?;
        }
        if self.scale == 0 {
            return f.write_str(&digits);
        }
        let adjusted = -i64::from(self.scale) + (digits.len() as i64 - 1);
        if self.scale > 0 && adjusted >= -6 {
            return f.write_str(&with_point(&digits, self.scale.unsigned_abs() as usize));
        }
        match digits.split_at_checked(1) {
            Some((first, rest)) if !rest.is_empty() => write!(f, "{first}.{rest}")?,
            _ => f.write_str(&digits)?,
        }
        if adjusted == 0 { Ok(()) } else { write!(f, "E{adjusted:+}") }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.compare(other))
    }
}

impl Decimal {
    /// Numeric order: 1.0 equals 1.00. Numbers of very different size are told apart without
    /// writing out their zeros.
    pub fn compare(&self, other: &Self) -> Ordering {
        if self.scale == other.scale {
            return self.unscaled.cmp(&other.unscaled);
        }
        let signs = sign_number(self).cmp(&sign_number(other));
        if signs != Ordering::Equal || self.is_zero() {
            return signs;
        }
        let size = |value: &Self| i128::from(value.precision()) - i128::from(value.scale);
        let magnitude = size(self).cmp(&size(other)).then_with(|| {
            let scale = self.scale.max(other.scale);
            self.rescaled_up(scale).magnitude().cmp(other.rescaled_up(scale).magnitude())
        });
        if self.unscaled.sign() == Sign::Minus { magnitude.reverse() } else { magnitude }
    }
}

fn sign_number(value: &Decimal) -> i8 {
    match value.unscaled.sign() {
        Sign::Minus => -1,
        Sign::NoSign => 0,
        Sign::Plus => 1,
    }
}

/// Numeric order of two encoded decimals; what cannot be read sorts before what can.
pub(crate) fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
    match (Decimal::decode(a), Decimal::decode(b)) {
        (Some(a), Some(b)) => a.compare(&b),
        (None, None) => a.cmp(b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}
