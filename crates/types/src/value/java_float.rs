//! Floating-point numbers as Java 17 prints them.
//!
//! Java before 19 does not always print the shortest digits that read back as the same number, and
//! Cassandra 5 runs on these versions, so its rules are followed step by step: digits are produced
//! by long division of the exact value until the rest is below half the distance to the next
//! number, with the two tests slightly different for numbers that fit machine words.

use num_bigint::BigUint;

/// Bits of the powers of five from 5^0 to 5^26.
const FIVE_BITS: [i32; 27] = [
    0, 3, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28, 31, 33, 35, 38, 40, 42, 45, 47, 49, 52, 54, 56,
    59, 61,
];
const FRACTION_BITS: i32 = 52;

/// `Double.toString`
pub fn double_to_string(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let bits = value.abs().to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = (bits >> 52) as i32;
    let number = if exponent == 0 {
        let zeros = fraction.leading_zeros() as i32;
        let shift = zeros - (63 - FRACTION_BITS);
        Binary { exponent: 1 - shift - 1023, fraction: fraction << shift, significant: 64 - zeros }
    } else {
        Binary { exponent: exponent - 1023, fraction: fraction | (1 << 52), significant: 53 }
    };
    format!("{sign}{}", number.digits().layout())
}

/// `Float.toString`
pub fn float_to_string(value: f32) -> String {
    if !value.is_finite() || value == 0.0 {
        return double_to_string(f64::from(value));
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let bits = value.abs().to_bits();
    let fraction = bits & ((1 << 23) - 1);
    let exponent = (bits >> 23) as i32;
    let widen = |fraction: u32| u64::from(fraction) << (FRACTION_BITS - 23);
    let number = if exponent == 0 {
        let zeros = fraction.leading_zeros() as i32;
        let shift = zeros - 8;
        Binary {
            exponent: 1 - shift - 127,
            fraction: widen(fraction << shift),
            significant: 32 - zeros,
        }
    } else {
        Binary { exponent: exponent - 127, fraction: widen(fraction | (1 << 23)), significant: 24 }
    };
    format!("{sign}{}", number.digits().layout())
}

/// `fraction * 2^(exponent - 52)`, with `significant` bits of precision.
struct Binary {
    exponent: i32,
    fraction: u64,
    significant: i32,
}

/// `0.digits * 10^exponent`
struct Digits {
    digits: Vec<u8>,
    exponent: i32,
}

/// Where the long division stopped.
struct Stop {
    low: bool,
    high: bool,
    /// Twice the rest against ten times the divisor, where both tests stopped it.
    rest: std::cmp::Ordering,
}

/// The division to carry out: `fraction * 5^b5 * 2^b2` by `5^s5 * 2^s2`, within `5^b5 * 2^m2`.
struct Division {
    fraction: u64,
    b5: i32,
    b2: i32,
    s5: i32,
    s2: i32,
    m2: i32,
}

impl Binary {
    fn digits(&self) -> Digits {
        let tail_zeros = self.fraction.trailing_zeros() as i32;
        let fraction_bits = FRACTION_BITS + 1 - tail_zeros;
        let tiny_bits = (fraction_bits - self.exponent - 1).max(0);
        if tiny_bits == 0 && (-21..=62).contains(&self.exponent) && fraction_bits < 64 {
            return self.whole_digits();
        }
        self.divided_digits(tail_zeros, fraction_bits, tiny_bits)
    }

    /// A whole number below 2^63: its decimal digits, without those beyond its precision.
    fn whole_digits(&self) -> Digits {
        let excess = self.exponent - self.significant - 1;
        let insignificant = if excess > 1 { (excess as u32 * 30103) / 100_000 } else { 0 };
        let mut value = if self.exponent >= FRACTION_BITS {
            self.fraction << (self.exponent - FRACTION_BITS)
        } else {
            self.fraction >> (FRACTION_BITS - self.exponent)
        };
        let mut exponent = insignificant as i32;
        if insignificant != 0 {
            let power = 10_u64.pow(insignificant);
            let residue = value % power;
            value = value / power + u64::from(residue >= power / 2);
        }
        let text = value.to_string();
        exponent += text.len() as i32;
        let digits = text.trim_end_matches('0').as_bytes().to_vec();
        Digits { digits, exponent }
    }

    fn divided_digits(&self, tail_zeros: i32, fraction_bits: i32, tiny_bits: i32) -> Digits {
        let mut exponent = self.estimate_exponent();
        let b5 = (-exponent).max(0);
        let mut b2 = b5 + tiny_bits + self.exponent;
        let s5 = exponent.max(0);
        let mut s2 = s5 + tiny_bits;
        let mut m2 = b2 - self.significant;
        b2 -= fraction_bits - 1;
        let common = b2.min(s2);
        b2 -= common;
        s2 -= common;
        m2 -= common;
        // The next smaller number of a power of two is only half as far away.
        if fraction_bits == 1 {
            m2 -= 1;
        }
        if m2 < 0 {
            b2 -= m2;
            s2 -= m2;
            m2 = 0;
        }
        let division = Division { fraction: self.fraction >> tail_zeros, b5, b2, s5, s2, m2 };
        let five_bits =
            |power: i32| FIVE_BITS.get(power as usize).copied().unwrap_or(power.saturating_mul(3));
        let dividend_bits = fraction_bits + b2 + five_bits(b5);
        let divisor_bits = s2 + 1 + five_bits(s5 + 1);
        let mut digits = Vec::with_capacity(20);
        let stop = if dividend_bits < 64 && divisor_bits < 64 {
            let narrow = dividend_bits < 32 && divisor_bits < 32;
            division.run_in_words(narrow, &mut exponent, &mut digits)
        } else {
            division.run_exact(&mut exponent, &mut digits)
        };
        let mut result = Digits { digits, exponent: exponent + 1 };
        let odd = result.digits.last().is_some_and(|digit| digit & 1 == 1);
        let up = match (stop.high, stop.low) {
            (false, _) => false,
            (true, false) => true,
            (true, true) => stop.rest.is_gt() || (stop.rest.is_eq() && odd),
        };
        if up {
            result.round_up();
        }
        result
    }

    /// The decimal exponent, or one more: the first digit tells.
    #[expect(clippy::approx_constant, reason = "Java's digits, not the best ones")]
    fn estimate_exponent(&self) -> i32 {
        let mantissa = f64::from_bits((1023 << 52) | (self.fraction & ((1 << 52) - 1)));
        let estimate = (mantissa - 1.5) * 0.289_529_654
            + 0.176_091_259
            + f64::from(self.exponent) * 0.301_029_995_663_981;
        estimate.floor() as i32
    }
}

/// Numbers that print with an exponent get at least two digits.
fn has_exponent(exponent: i32) -> bool {
    !(-3..8).contains(&exponent)
}

impl Division {
    /// In machine words that wrap, because Java's do: `narrow` is 32 bits, else 64.
    fn run_in_words(&self, narrow: bool, exponent: &mut i32, digits: &mut Vec<u8>) -> Stop {
        let wrap = |value: i64| if narrow { i64::from(value as i32) } else { value };
        let five = |power: i32| 5_i64.wrapping_pow(power as u32);
        let shift = |value: i64, by: i32| wrap(value.wrapping_shl(by as u32));
        let mut b = shift((self.fraction as i64).wrapping_mul(five(self.b5)), self.b2);
        let s = shift(five(self.s5), self.s2).max(1);
        let mut m = shift(five(self.b5), self.m2);
        let tens = wrap(s.wrapping_mul(10));
        let mut first = true;
        let (mut low, mut high);
        loop {
            let quotient = b / s;
            b = wrap((b % s).wrapping_mul(10));
            m = wrap(m.wrapping_mul(10));
            if first || m > 0 {
                low = b < m;
                high = wrap(b.wrapping_add(m)) > tens;
            } else {
                low = true;
                high = true;
            }
            if first && quotient == 0 && !high {
                *exponent -= 1;
            } else {
                digits.push(b'0' + (quotient % 10) as u8);
            }
            if first && has_exponent(*exponent) {
                low = false;
                high = false;
            }
            first = false;
            if low || high {
                break;
            }
        }
        let rest = wrap(b.wrapping_shl(1).wrapping_sub(tens)).cmp(&0);
        Stop { low, high, rest }
    }

    fn run_exact(&self, exponent: &mut i32, digits: &mut Vec<u8>) -> Stop {
        let five = |power: i32| BigUint::from(5_u8).pow(power as u32);
        let mut b = (BigUint::from(self.fraction) * five(self.b5)) << self.b2 as u32;
        let s = five(self.s5) << self.s2 as u32;
        let mut m = five(self.b5) << self.m2 as u32;
        let tens = &s * 10_u8;
        let mut first = true;
        let (mut low, mut high);
        loop {
            let quotient = &b / &s;
            b = (b - &quotient * &s) * 10_u8;
            m *= 10_u8;
            low = b < m;
            high = &b + &m >= tens;
            let digit = u8::try_from(&quotient).unwrap_or(9);
            if first && digit == 0 && !high {
                *exponent -= 1;
            } else {
                digits.push(b'0' + digit);
            }
            if first && has_exponent(*exponent) {
                low = false;
                high = false;
            }
            first = false;
            if low || high {
                break;
            }
        }
        Stop { low, high, rest: (b << 1_u8).cmp(&tens) }
    }
}

impl Digits {
    fn round_up(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit != b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        if let Some(first) = self.digits.first_mut() {
            *first = b'1';
        }
        self.exponent += 1;
    }

    /// Plain between 10^-3 and 10^7, else with an exponent.
    fn layout(&self) -> String {
        let digits = String::from_utf8_lossy(&self.digits).into_owned();
        let exponent = self.exponent;
        if (1..8).contains(&exponent) {
            let whole = exponent as usize;
            return match digits.split_at_checked(whole) {
                Some((whole, fraction)) if !fraction.is_empty() => format!("{whole}.{fraction}"),
                _ => format!("{digits:0<whole$}.0"),
            };
        }
        if (-2..=0).contains(&exponent) {
            return format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize));
        }
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        let rest = if rest.is_empty() { "0" } else { rest };
        format!("{first}.{rest}E{}", exponent - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_java_17() {
        for (value, expected) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (123.456, "123.456"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (0.001, "0.001"),
            (0.000_1, "1.0E-4"),
            (1e23, "9.999999999999999E22"),
            (2e23, "1.9999999999999998E23"),
            (5.684341886080802e-14, "5.6843418860808015E-14"),
            (2.2250738585072014e-308, "2.2250738585072014E-308"),
            (4.9e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (9.223372036854776e18, "9.223372036854776E18"),
            (123456789012345680.0, "1.2345678901234568E17"),
            (-0.0, "-0.0"),
            (1.0 / 3.0, "0.3333333333333333"),
            (100.0, "100.0"),
            (12345678.0, "1.2345678E7"),
        ] {
            assert_eq!(double_to_string(value), expected);
        }
    }

    #[test]
    fn floats_print_as_in_java_17() {
        for (value, expected) in [
            (1.0_f32, "1.0"),
            (0.1, "0.1"),
            (3.4028235e38, "3.4028235E38"),
            (1.4e-45, "1.4E-45"),
            (1.1754944e-38, "1.17549435E-38"),
            (16777216.0, "1.6777216E7"),
            (33554432.0, "3.3554432E7"),
            (1.0e10, "1.0E10"),
            (0.3, "0.3"),
        ] {
            assert_eq!(float_to_string(value), expected);
        }
    }
}
