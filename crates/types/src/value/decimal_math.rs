//! Arithmetic of decimals with the scales and roundings that Java's `BigDecimal` and Cassandra's
//! operators give.

use num_bigint::{BigInt, Sign};

use super::arithmetic::ArithmeticCause;
use super::decimal::{Decimal, power_of_ten};

/// Cassandra rounds sums and products to so many digits.
const PRECISION_MAX: u64 = 10_000;
const QUOTIENT_DIGITS_MIN: i64 = 32;
const QUOTIENT_SCALE_MIN: i64 = 32;
const QUOTIENT_SCALE_MAX: i64 = 1000;
/// No operation writes out more zeros than this; Java would try, and run out of memory.
const ALIGNMENT_DIGITS_MAX: i64 = 100_000;

type Result<T> = std::result::Result<T, ArithmeticCause>;

fn checked_scale(scale: i64) -> Result<i32> {
    i32::try_from(scale).map_err(|_| match scale > 0 {
        true => ArithmeticCause::ScaleUnderflow,
        false => ArithmeticCause::ScaleOverflow,
    })
}

/// Ten to a power that is small enough to be written out.
fn alignment(zeros: i64) -> Result<BigInt> {
    match u32::try_from(zeros) {
        Ok(exponent) if zeros <= ALIGNMENT_DIGITS_MAX => Ok(power_of_ten(exponent)),
        _ => Err(ArithmeticCause::TooLarge),
    }
}

/// The quotient rounded to the nearest whole number, halves away from zero.
pub(super) fn divide_half_up(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    let rest = dividend - &quotient * divisor;
    if (rest.magnitude() << 1_u8) < *divisor.magnitude() {
        return quotient;
    }
    match dividend.sign() == divisor.sign() {
        true => quotient + 1,
        false => quotient - 1,
    }
}

impl Decimal {
    /// At most [`PRECISION_MAX`] digits, rounded half up.
    fn rounded(mut self) -> Result<Self> {
        while let Some(excess) = self.precision().checked_sub(PRECISION_MAX) {
            if excess == 0 {
                break;
            }
            let excess = i64::try_from(excess).map_err(|_| ArithmeticCause::TooLarge)?;
            let scale = checked_scale(i64::from(self.scale) - excess)?;
            self = Self { unscaled: divide_half_up(&self.unscaled, &alignment(excess)?), scale };
        }
        Ok(self)
    }

    /// `self + other`
    pub fn add(&self, other: &Self) -> Result<Self> {
        if self.is_zero() || other.is_zero() {
            return self.add_with_zero(other);
        }
        let (big, small) = if self.scale <= other.scale { (self, other) } else { (other, self) };
        // A number too small to be seen in the result counts by its sign only.
        let last_digit = i64::from(big.scale) - big.precision() as i64 + PRECISION_MAX as i64;
        let small_first_digit = i64::from(small.scale) - small.precision() as i64 + 1;
        let invisible =
            small_first_digit > i64::from(big.scale) + 2 && small_first_digit > last_digit + 2;
        let condensed = if invisible {
            let sign = if small.unscaled.sign() == Sign::Minus { -1 } else { 1 };
            let scale = checked_scale(last_digit.max(i64::from(big.scale)) + 3)?;
            Self { unscaled: BigInt::from(sign), scale }
        } else {
            small.clone()
        };
        let zeros = i64::from(condensed.scale) - i64::from(big.scale);
        let sum = &big.unscaled * alignment(zeros)? + condensed.unscaled;
        Self { unscaled: sum, scale: condensed.scale }.rounded()
    }

    /// The other number, with the larger of the two scales where its precision allows.
    fn add_with_zero(&self, other: &Self) -> Result<Self> {
        let scale = self.scale.max(other.scale);
        let result = match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ok(Self { unscaled: BigInt::ZERO, scale }),
            (true, false) => other.clone().rounded()?,
            _ => self.clone().rounded()?,
        };
        if result.scale >= scale {
            return Ok(result.strip_zeros_down_to(scale));
        }
        let room = PRECISION_MAX as i64 - result.precision() as i64;
        let zeros = (i64::from(scale) - i64::from(result.scale)).min(room);
        let unscaled = result.unscaled * alignment(zeros)?;
        Ok(Self { unscaled, scale: checked_scale(i64::from(result.scale) + zeros)? })
    }

    /// `self - other`
    pub fn subtract(&self, other: &Self) -> Result<Self> {
        self.add(&other.negate())
    }

    /// `-self`
    pub fn negate(&self) -> Self {
        Self { unscaled: -&self.unscaled, scale: self.scale }
    }

    /// The absolute value.
    pub fn abs(&self) -> Self {
        Self { unscaled: self.unscaled.magnitude().clone().into(), scale: self.scale }
    }

    /// `self * other`
    pub fn multiply(&self, other: &Self) -> Result<Self> {
        let scale = checked_scale(i64::from(self.scale) + i64::from(other.scale))?;
        Self { unscaled: &self.unscaled * &other.unscaled, scale }.rounded()
    }

    /// `self / other` with at least 32 significant digits and 32 decimals, trailing zeros removed.
    pub fn divide(&self, other: &Self) -> Result<Self> {
        let digits_before_point = |value: &Self| value.precision() as i64 - i64::from(value.scale);
        let first_digit = digits_before_point(self) - digits_before_point(other);
        let scale = (QUOTIENT_DIGITS_MIN - first_digit)
            .max(i64::from(self.scale))
            .max(i64::from(other.scale))
            .clamp(QUOTIENT_SCALE_MIN, QUOTIENT_SCALE_MAX);
        if other.is_zero() {
            return Err(ArithmeticCause::BigDivisionByZero);
        }
        let scale = checked_scale(scale)?;
        let raise = i64::from(scale) + i64::from(other.scale) - i64::from(self.scale);
        let unscaled = if raise >= 0 {
            divide_half_up(&(&self.unscaled * alignment(raise)?), &other.unscaled)
        } else {
            divide_half_up(&self.unscaled, &(&other.unscaled * alignment(-raise)?))
        };
        Ok(Self { unscaled, scale }.strip_trailing_zeros())
    }

    /// The remainder of the division to a whole number, with the sign of the dividend.
    pub fn remainder(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err(match self.is_zero() {
                true => ArithmeticCause::DivisionUndefined,
                false => ArithmeticCause::DecimalDivisionByZero,
            });
        }
        if self.abs().compare(&other.abs()).is_lt() {
            return Ok(self.clone());
        }
        let scale = self.scale.max(other.scale);
        alignment(i64::from(scale) - i64::from(self.scale))?;
        alignment(i64::from(scale) - i64::from(other.scale))?;
        let (dividend, divisor) = (self.rescaled_up(scale), other.rescaled_up(scale));
        let quotient = &dividend / &divisor;
        let rest = dividend - &quotient * divisor;
        // The whole quotient keeps no more trailing zeros than the difference of scales asks for,
        // and the remainder gets the scale of what is subtracted.
        let preferred = checked_scale(i64::from(self.scale) - i64::from(other.scale))?;
        let whole = Self { unscaled: quotient, scale: 0 };
        let whole_scale =
            if preferred < 0 { whole.strip_zeros_down_to(preferred).scale } else { preferred };
        let target =
            self.scale.max(checked_scale(i64::from(whole_scale) + i64::from(other.scale))?);
        let excess = alignment(i64::from(scale) - i64::from(target))?;
        Ok(Self { unscaled: rest / excess, scale: target })
    }

    /// The nearest whole number, halves away from zero, with scale zero.
    pub fn round(&self) -> Result<Self> {
        let unscaled = if self.scale > 0 {
            if i64::from(self.scale) > self.precision() as i64 {
                BigInt::ZERO
            } else {
                divide_half_up(&self.unscaled, &alignment(i64::from(self.scale))?)
            }
        } else {
            &self.unscaled * alignment(-i64::from(self.scale))?
        };
        Ok(Self { unscaled, scale: 0 })
    }
}
