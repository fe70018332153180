//! The mathematical functions of CQL: `abs`, `exp`, `log`, `log10` and `round`. Each returns the
//! type it is given.

use num_bigint::{BigInt, Sign};

use super::arithmetic::ArithmeticCause;
use super::decimal::{Decimal, digit_count, power_of_ten};
use super::format::read_integer;
use super::varint;
use crate::CqlType;

/// Results have as many digits as the argument, within these bounds.
const DIGITS_MIN: u64 = 32;
const DIGITS_MAX: u64 = 10_000;
/// `log10` computes both logarithms with so many digits more.
const LOG10_GUARD_DIGITS: u64 = 2;
/// Bits that make up for the errors of a few hundred operations.
const GUARD_BITS: u64 = 64;
/// Beyond this `exp` has no result that a decimal could hold.
const EXP_ARGUMENT_MAX: i64 = 4_000_000_000;

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MathFunction {
    /// The absolute value.
    Abs,
    /// e to the power of the argument.
    Exp,
    /// The natural logarithm.
    Log,
    /// The decimal logarithm.
    Log10,
    /// The nearest whole number, halves up.
    Round,
}

/// Applies a function to a number. Zero bytes count as null, and the result is `None`.
pub fn apply_math(
    function: MathFunction,
    ty: &CqlType,
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, ArithmeticCause> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let result = match ty {
        CqlType::TinyInt
        | CqlType::SmallInt
        | CqlType::Int
        | CqlType::BigInt
        | CqlType::Counter => of_whole(function, bytes),
        CqlType::Float => bytes.try_into().ok().map(|bytes| {
            let value = f32::from_be_bytes(bytes);
            let result = match function {
                MathFunction::Abs => value.abs(),
                MathFunction::Round => round_half_up(f64::from(value)) as i32 as f32,
                _ => of_double(function, f64::from(value)) as f32,
            };
            result.to_be_bytes().into()
        }),
        CqlType::Double => bytes
            .try_into()
            .ok()
            .map(|bytes| of_double(function, f64::from_be_bytes(bytes)).to_be_bytes().into()),
        CqlType::Varint => Some(of_varint(function, bytes)?),
        CqlType::Decimal => match Decimal::decode(bytes) {
            Some(value) => Some(of_decimal(function, &value)?.to_bytes()),
            None => None,
        },
        _ => None,
    };
    result.map(Some).ok_or(ArithmeticCause::Unsupported)
}

/// Computed in doubles and cast back as Java casts: to 64 or 32 bits at the limits, then cut.
fn of_whole(function: MathFunction, bytes: &[u8]) -> Option<Vec<u8>> {
    let value = read_integer(bytes)?;
    let result = match function {
        MathFunction::Abs => value.wrapping_abs(),
        MathFunction::Round => value,
        _ if bytes.len() == 8 => of_double(function, value as f64) as i64,
        _ => i64::from(of_double(function, value as f64) as i32),
    };
    let all = result.to_be_bytes();
    all.get(8 - bytes.len()..).map(Into::into)
}

fn of_double(function: MathFunction, value: f64) -> f64 {
    match function {
        MathFunction::Abs => value.abs(),
        MathFunction::Exp => value.exp(),
        MathFunction::Log | MathFunction::Log10 if value < 0.0 => {
            f64::from_bits(0xfff8_0000_0000_0000)
        }
        MathFunction::Log => value.ln(),
        // The sign of this NaN is the one that Java's processors give.
        MathFunction::Log10 => value.log10(),
        MathFunction::Round => round_half_up(value) as i64 as f64,
    }
}

fn round_half_up(value: f64) -> f64 {
    let below = value.floor();
    if value - below >= 0.5 { below + 1.0 } else { below }
}

fn of_varint(function: MathFunction, bytes: &[u8]) -> Result<Vec<u8>, ArithmeticCause> {
    let value = varint::decode(bytes);
    let result = match function {
        MathFunction::Abs => BigInt::from(value.magnitude().clone()),
        MathFunction::Round => value,
        _ => whole_part(&of_decimal(function, &Decimal { unscaled: value, scale: 0 })?)?,
    };
    Ok(result.to_signed_bytes_be())
}

/// Without the decimals.
fn whole_part(value: &Decimal) -> Result<BigInt, ArithmeticCause> {
    let zeros = value.scale.unsigned_abs();
    if u64::from(zeros) > DIGITS_MAX {
        return match value.scale > 0 {
            true => Ok(BigInt::ZERO),
            false => Err(ArithmeticCause::TooLarge),
        };
    }
    Ok(match value.scale > 0 {
        true => &value.unscaled / power_of_ten(zeros),
        false => &value.unscaled * power_of_ten(zeros),
    })
}

fn of_decimal(function: MathFunction, value: &Decimal) -> Result<Decimal, ArithmeticCause> {
    let digits = value.precision().clamp(DIGITS_MIN, DIGITS_MAX);
    let positive = value.unscaled.sign() == Sign::Plus;
    match function {
        MathFunction::Abs => Ok(value.abs()),
        MathFunction::Round => value.round(),
        MathFunction::Exp => exp(value, digits),
        MathFunction::Log if !positive => Err(ArithmeticCause::LogOfNonPositive),
        MathFunction::Log10 if !positive => Err(ArithmeticCause::Log10OfNonPositive),
        MathFunction::Log => Ok(ln(value, digits)),
        MathFunction::Log10 => Ok(log10(value, digits)),
    }
}

/// A number as `bits / 2^width`.
struct Fixed {
    bits: BigInt,
    width: u64,
}

/// Enough bits for so many decimal digits.
fn bits_of_digits(digits: u64) -> u64 {
    digits * 3322 / 1000 + 1
}

impl Fixed {
    /// Rounded to significant digits, halves to even.
    fn to_decimal(&self, digits: u64) -> Decimal {
        if self.bits.sign() == Sign::NoSign {
            return Decimal::zero();
        }
        // The place of the first digit, at most one off.
        let size = self.bits.bits() as i64 - self.width as i64;
        let mut scale = digits as i64 - size * 30_103 / 100_000;
        loop {
            let unscaled = match u32::try_from(scale) {
                Ok(zeros) => shift_half_even(&(&self.bits * power_of_ten(zeros)), self.width),
                Err(_) => {
                    let divisor = power_of_ten(u32::try_from(-scale).unwrap_or(0));
                    divide_half_even(&self.bits, &(divisor << self.width))
                }
            };
            match digit_count(&unscaled).cmp(&digits) {
                std::cmp::Ordering::Less => scale += 1,
                std::cmp::Ordering::Greater => scale -= 1,
                std::cmp::Ordering::Equal => {
                    return Decimal { unscaled, scale: i32::try_from(scale).unwrap_or(i32::MAX) };
                }
            }
        }
    }
}

fn shift_half_even(value: &BigInt, width: u64) -> BigInt {
    divide_half_even(value, &(BigInt::from(1) << width))
}

fn divide_half_even(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    let twice_rest = (dividend - &quotient * divisor).magnitude() << 1_u8;
    let up = match twice_rest.cmp(divisor.magnitude()) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => quotient.bit(0),
    };
    match (up, dividend.sign() == divisor.sign()) {
        (false, _) => quotient,
        (true, true) => quotient + 1,
        (true, false) => quotient - 1,
    }
}

/// `2 atanh(numerator / denominator)` with so many bits.
fn double_atanh(numerator: &BigInt, denominator: &BigInt, width: u64) -> BigInt {
    let z = (numerator << width) / denominator;
    let z_squared = (&z * &z) >> width;
    let mut power = z;
    let mut sum = BigInt::ZERO;
    let mut divisor = 1_u32;
    while power.sign() != Sign::NoSign && power.bits() > 1 {
        sum += &power / divisor;
        power = (&power * &z_squared) >> width;
        divisor += 2;
    }
    sum << 1_u8
}

fn ln_2(width: u64) -> BigInt {
    double_atanh(&BigInt::from(1), &BigInt::from(3), width)
}

/// 10 is 2^3 times 5/4.
fn ln_10(width: u64) -> BigInt {
    ln_2(width) * 3 + double_atanh(&BigInt::from(1), &BigInt::from(9), width)
}

/// The logarithm as bits: `unscaled` is a power of two times something near one.
fn ln_fixed(value: &Decimal, digits: u64) -> Fixed {
    let width = bits_of_digits(digits + value.precision()) + 2 * GUARD_BITS;
    let unscaled = &value.unscaled;
    let mut exponent = unscaled.bits();
    // Between 3/4 and 3/2.
    if exponent > 1 && !unscaled.bit(exponent - 2) {
        exponent -= 1;
    } else if exponent == 1 {
        exponent = 0;
    }
    let one = BigInt::from(1) << exponent;
    let near_one = double_atanh(&(unscaled - &one), &(unscaled + &one), width);
    let bits = near_one + ln_2(width) * exponent - ln_10(width) * value.scale;
    Fixed { bits, width }
}

fn is_one(value: &Decimal) -> bool {
    value.compare(&Decimal { unscaled: BigInt::from(1), scale: 0 }).is_eq()
}

fn ln(value: &Decimal, digits: u64) -> Decimal {
    if is_one(value) {
        return Decimal::zero();
    }
    ln_fixed(value, digits).to_decimal(digits)
}

/// The quotient of two rounded logarithms: exact powers of ten keep the zeros that come of it.
fn log10(value: &Decimal, digits: u64) -> Decimal {
    let guarded = digits + LOG10_GUARD_DIGITS;
    let ten = Decimal { unscaled: BigInt::from(10), scale: 0 };
    let (dividend, divisor) = (ln(value, guarded), ln(&ten, guarded));
    let preferred = dividend.scale.saturating_sub(divisor.scale);
    if dividend.is_zero() {
        return Decimal { unscaled: BigInt::ZERO, scale: preferred };
    }
    let width = bits_of_digits(2 * guarded) + GUARD_BITS;
    let scale_up = power_of_ten(preferred.unsigned_abs());
    let (numerator, denominator) = if preferred <= 0 {
        (&dividend.unscaled * scale_up, divisor.unscaled.clone())
    } else {
        (dividend.unscaled.clone(), &divisor.unscaled * scale_up)
    };
    let quotient = Fixed { bits: (numerator << width) / denominator, width };
    let quotient = quotient.to_decimal(guarded);
    let is_exact = Decimal {
        unscaled: &quotient.unscaled * &divisor.unscaled,
        scale: quotient.scale.saturating_add(divisor.scale),
    }
    .compare(&dividend)
    .is_eq();
    let quotient = if is_exact { quotient.strip_zeros_down_to(preferred) } else { quotient };
    round_to(&quotient, digits)
}

/// Rounded to significant digits once more, halves to even.
fn round_to(value: &Decimal, digits: u64) -> Decimal {
    let excess = digit_count(&value.unscaled).saturating_sub(digits) as u32;
    let unscaled = divide_half_even(&value.unscaled, &power_of_ten(excess));
    let rounded = Decimal { unscaled, scale: value.scale.saturating_sub_unsigned(excess) };
    if digit_count(&rounded.unscaled) > digits { round_to(&rounded, digits) } else { rounded }
}

/// `10^n * e^r`, where r is the rest after whole multiples of ln 10.
fn exp(value: &Decimal, digits: u64) -> Result<Decimal, ArithmeticCause> {
    if value.is_zero() {
        return Ok(Decimal { unscaled: BigInt::from(1), scale: 0 });
    }
    let limit = Decimal { unscaled: BigInt::from(EXP_ARGUMENT_MAX), scale: 0 };
    if value.abs().compare(&limit).is_gt() {
        return Err(ArithmeticCause::TooLarge);
    }
    let width = bits_of_digits(digits + value.precision()) + 2 * GUARD_BITS;
    let argument = match u32::try_from(value.scale) {
        // So small that the result is one, as far as its digits go.
        Ok(scale) if u64::from(scale) > 2 * width => BigInt::ZERO,
        Ok(scale) => (&value.unscaled << width) / power_of_ten(scale),
        Err(_) => (&value.unscaled * power_of_ten(value.scale.unsigned_abs())) << width,
    };
    let ln_10 = ln_10(width);
    let tens = divide_half_even(&argument, &ln_10);
    let rest = argument - &tens * ln_10;
    let result = Fixed { bits: exp_series(&rest, width), width }.to_decimal(digits);
    let tens = i32::try_from(&tens).map_err(|_| ArithmeticCause::TooLarge)?;
    let scale = result.scale.checked_sub(tens).ok_or(ArithmeticCause::TooLarge)?;
    Ok(Decimal { unscaled: result.unscaled, scale })
}

/// The Taylor series of a number below two, divided by 2^8 first and squared as often afterwards.
fn exp_series(value: &BigInt, width: u64) -> BigInt {
    const HALVINGS: u32 = 8;
    let small = value >> HALVINGS;
    let one = BigInt::from(1) << width;
    let mut sum = one.clone();
    let mut term = one;
    let mut index = 1_u32;
    loop {
        term = ((&term * &small) >> width) / index;
        if term.bits() <= 1 {
            break;
        }
        sum += &term;
        index += 1;
    }
    for _ in 0..HALVINGS {
        sum = (&sum * &sum) >> width;
    }
    sum
}
