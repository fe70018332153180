//! The operators of CQL on numbers, dates and timestamps: result types and results as Cassandra's.

use std::fmt;

use num_bigint::BigInt;

use super::decimal::Decimal;
use super::duration::Duration;
use super::format::read_integer;
use super::{java_float, temporal, varint};
use crate::CqlType;

/// The binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

impl ArithmeticOperator {
    /// The sign in CQL.
    pub fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Modulo => '%',
        }
    }
}

/// Why an operation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArithmeticCause {
    /// Integers by zero.
    DivisionByZero,
    /// Numbers of any length by zero.
    BigDivisionByZero,
    /// The remainder of a decimal by zero.
    DecimalDivisionByZero,
    /// The remainder of zero by zero.
    DivisionUndefined,
    /// A NaN where a decimal is needed.
    NotANumber,
    /// An infinity where a decimal is needed.
    Infinite,
    /// A decimal with an exponent too large.
    ScaleOverflow,
    /// A decimal with an exponent too small.
    ScaleUnderflow,
    /// More digits than we compute with.
    TooLarge,
    /// The natural logarithm of zero or less.
    LogOfNonPositive,
    /// The decimal logarithm of zero or less.
    Log10OfNonPositive,
    /// A duration with parts finer than a date or timestamp has.
    DurationPrecision {
        /// `day` or `millisecond`.
        unit: &'static str,
        duration: Duration,
    },
    /// Types without this operation, or bytes that are no value of their type.
    Unsupported,
}

impl fmt::Display for ArithmeticCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DivisionByZero => "/ by zero",
            Self::BigDivisionByZero => "BigInteger divide by zero",
            Self::DecimalDivisionByZero => "Division by zero",
            Self::DivisionUndefined => "Division undefined",
            Self::NotANumber => "A NaN cannot be converted into a decimal",
            Self::Infinite => "An infinite number cannot be converted into a decimal",
            Self::ScaleOverflow => "Overflow",
            Self::ScaleUnderflow => "Underflow",
            Self::TooLarge => "BigInteger would overflow supported range",
            Self::LogOfNonPositive => "Natural log of number zero or less",
            Self::Log10OfNonPositive => "Log10 of number zero or less",
            Self::DurationPrecision { unit, duration } => {
                return write!(f, "The duration must have a {unit} precision. Was: {duration}");
            }
            Self::Unsupported => "unsupported operands",
        })
    }
}

/// An operation that failed, with what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArithmeticError {
    pub operator: ArithmeticOperator,
    /// The left operand's type.
    pub left: CqlType,
    /// The right operand's type.
    pub right: CqlType,
    /// What went wrong.
    pub cause: ArithmeticCause,
}

impl fmt::Display for ArithmeticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, left, right, cause } = self;
        write!(f, "the operation '{left} {} {right}' failed: {cause}", operator.symbol())
    }
}

impl std::error::Error for ArithmeticError {}

/// Bytes of a number for the purpose of result types; `None` for what is no number.
fn number_size(ty: &CqlType) -> Option<u32> {
    Some(match ty {
        CqlType::TinyInt => 1,
        CqlType::SmallInt => 2,
        CqlType::Int | CqlType::Float => 4,
        CqlType::BigInt | CqlType::Counter | CqlType::Double => 8,
        CqlType::Varint | CqlType::Decimal => u32::MAX,
        _ => return None,
    })
}

/// The type of an operation's result; `None` if there is no such operation.
pub fn arithmetic_type(
    operator: ArithmeticOperator,
    left: &CqlType,
    right: &CqlType,
) -> Option<CqlType> {
    use ArithmeticOperator::{Add, Subtract};
    match (operator, left, right) {
        (Add | Subtract, CqlType::Timestamp | CqlType::Date, CqlType::Duration) => {
            return Some(left.clone());
        }
        (Add, CqlType::Ascii, CqlType::Ascii) => return Some(CqlType::Ascii),
        (Add, CqlType::Ascii | CqlType::Text, CqlType::Ascii | CqlType::Text) => {
            return Some(CqlType::Text);
        }
        _ => {}
    }
    let size = number_size(left)?.max(number_size(right)?);
    let is_floating =
        |ty: &CqlType| matches!(ty, CqlType::Float | CqlType::Double | CqlType::Decimal);
    Some(match (is_floating(left) || is_floating(right), size) {
        (true, 4) => CqlType::Float,
        (true, 8) => CqlType::Double,
        (true, _) => CqlType::Decimal,
        (false, 1) => CqlType::TinyInt,
        (false, 2) => CqlType::SmallInt,
        (false, 4) => CqlType::Int,
        (false, 8) => CqlType::BigInt,
        (false, _) => CqlType::Varint,
    })
}

/// A decoded number.
#[derive(Clone, Debug)]
enum Number {
    Whole(i64),
    Float(f32),
    Double(f64),
    Big(BigInt),
    Decimal(Decimal),
}

impl Number {
    fn decode(ty: &CqlType, bytes: &[u8]) -> Option<Self> {
        Some(match ty {
            CqlType::Float => Self::Float(f32::from_be_bytes(bytes.try_into().ok()?)),
            CqlType::Double => Self::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
            CqlType::Varint => Self::Big(varint::decode(bytes)),
            CqlType::Decimal => Self::Decimal(Decimal::decode(bytes)?),
            _ => Self::Whole(number_size(ty).and_then(|_| read_integer(bytes))?),
        })
    }

    /// Java's `longValue`; only asked of whole numbers.
    fn whole(&self) -> i64 {
        match self {
            Self::Whole(value) => *value,
            Self::Float(value) => *value as i64,
            Self::Double(value) => *value as i64,
            Self::Big(_) | Self::Decimal(_) => 0,
        }
    }

    fn double(&self) -> f64 {
        match self {
            Self::Whole(value) => *value as f64,
            Self::Float(value) => f64::from(*value),
            Self::Double(value) => *value,
            Self::Big(value) => value.to_string().parse().unwrap_or(f64::NAN),
            Self::Decimal(value) => value.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    fn float(&self) -> f32 {
        match self {
            Self::Whole(value) => *value as f32,
            Self::Float(value) => *value,
            other => other.double() as f32,
        }
    }

    fn big(&self) -> BigInt {
        match self {
            Self::Big(value) => value.clone(),
            other => BigInt::from(other.whole()),
        }
    }

    /// Whole numbers go through a double, as in Cassandra, and come out with one decimal.
    fn decimal(&self) -> Result<Decimal, ArithmeticCause> {
        match self {
            Self::Decimal(value) => Ok(value.clone()),
            Self::Big(value) => Ok(Decimal { unscaled: value.clone(), scale: 0 }),
            other => decimal_of_double(other.double()),
        }
    }
}

/// The decimal that prints as the double does.
pub fn decimal_of_double(value: f64) -> Result<Decimal, ArithmeticCause> {
    if value.is_nan() {
        return Err(ArithmeticCause::NotANumber);
    }
    if value.is_infinite() {
        return Err(ArithmeticCause::Infinite);
    }
    Decimal::parse(&java_float::double_to_string(value)).ok_or(ArithmeticCause::NotANumber)
}

/// Applies an operator to two values. Operands of zero bytes count as null, and the result is
/// `None`.
pub fn apply_arithmetic(
    operator: ArithmeticOperator,
    left_type: &CqlType,
    left: &[u8],
    right_type: &CqlType,
    right: &[u8],
) -> Result<Option<Vec<u8>>, ArithmeticError> {
    let failed = |cause| ArithmeticError {
        operator,
        left: left_type.clone(),
        right: right_type.clone(),
        cause,
    };
    let result_type = arithmetic_type(operator, left_type, right_type)
        .ok_or_else(|| failed(ArithmeticCause::Unsupported))?;
    if matches!(result_type, CqlType::Text | CqlType::Ascii) {
        return Ok(Some([left, right].concat()));
    }
    if left.is_empty() || right.is_empty() {
        return Ok(None);
    }
    let result = match (left_type, right_type) {
        (CqlType::Timestamp | CqlType::Date, CqlType::Duration) => {
            shift(left_type, left, right, operator == ArithmeticOperator::Subtract)
        }
        _ => match (Number::decode(left_type, left), Number::decode(right_type, right)) {
            (Some(left), Some(right)) => compute(operator, &result_type, &left, &right),
            _ => Err(ArithmeticCause::Unsupported),
        },
    };
    result.map(Some).map_err(failed)
}

fn shift(
    ty: &CqlType,
    value: &[u8],
    duration: &[u8],
    backwards: bool,
) -> Result<Vec<u8>, ArithmeticCause> {
    let duration = Duration::decode(duration).map_err(|_| ArithmeticCause::Unsupported)?;
    if *ty == CqlType::Date {
        if !duration.has_day_precision() {
            return Err(ArithmeticCause::DurationPrecision { unit: "day", duration });
        }
        let date = value.try_into().map_err(|_| ArithmeticCause::Unsupported)?;
        let millis = temporal::timestamp_of_date(u32::from_be_bytes(date));
        let shifted = temporal::shift_timestamp(millis, &duration, backwards);
        return Ok(temporal::date_of_timestamp(shifted).to_be_bytes().into());
    }
    if !duration.has_millisecond_precision() {
        return Err(ArithmeticCause::DurationPrecision { unit: "millisecond", duration });
    }
    let millis = value.try_into().map_err(|_| ArithmeticCause::Unsupported)?;
    let millis = i64::from_be_bytes(millis);
    Ok(temporal::shift_timestamp(millis, &duration, backwards).to_be_bytes().into())
}

fn compute(
    operator: ArithmeticOperator,
    result_type: &CqlType,
    left: &Number,
    right: &Number,
) -> Result<Vec<u8>, ArithmeticCause> {
    Ok(match result_type {
        CqlType::Float => {
            let (left, right) = (left.float(), right.float());
            float_bytes(float_operation(operator, left, right), [left, right])
        }
        CqlType::Double => {
            let (left, right) = (left.double(), right.double());
            double_bytes(double_operation(operator, left, right), [left, right])
        }
        CqlType::Decimal => decimal_operation(operator, &left.decimal()?, &right.decimal()?)?,
        CqlType::Varint => big_operation(operator, &left.big(), &right.big())?,
        CqlType::TinyInt => {
            vec![whole_operation(operator, left.whole(), right.whole())? as u8]
        }
        CqlType::SmallInt => {
            let value = whole_operation(operator, left.whole(), right.whole())?;
            (value as i16).to_be_bytes().into()
        }
        CqlType::Int => {
            let value = whole_operation(operator, left.whole(), right.whole())?;
            (value as i32).to_be_bytes().into()
        }
        _ => whole_operation(operator, left.whole(), right.whole())?.to_be_bytes().into(),
    })
}

fn float_operation(operator: ArithmeticOperator, left: f32, right: f32) -> f32 {
    match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Modulo => left % right,
    }
}

fn double_operation(operator: ArithmeticOperator, left: f64, right: f64) -> f64 {
    match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Modulo => left % right,
    }
}

/// A NaN operand is passed on; a new NaN has its sign set, as the processors that Cassandra mostly
/// runs on make it.
fn float_bytes(result: f32, operands: [f32; 2]) -> Vec<u8> {
    let bits = match operands.iter().find(|operand| operand.is_nan()) {
        Some(operand) => operand.to_bits(),
        None if result.is_nan() => 0xffc0_0000,
        None => result.to_bits(),
    };
    bits.to_be_bytes().into()
}

/// As [`float_bytes`].
fn double_bytes(result: f64, operands: [f64; 2]) -> Vec<u8> {
    let bits = match operands.iter().find(|operand| operand.is_nan()) {
        Some(operand) => operand.to_bits(),
        None if result.is_nan() => 0xfff8_0000_0000_0000,
        None => result.to_bits(),
    };
    bits.to_be_bytes().into()
}

/// In 64 bits, which the caller narrows: the same as computing in fewer bits and wrapping.
fn whole_operation(
    operator: ArithmeticOperator,
    left: i64,
    right: i64,
) -> Result<i64, ArithmeticCause> {
    match operator {
        ArithmeticOperator::Add => Ok(left.wrapping_add(right)),
        ArithmeticOperator::Subtract => Ok(left.wrapping_sub(right)),
        ArithmeticOperator::Multiply => Ok(left.wrapping_mul(right)),
        ArithmeticOperator::Divide | ArithmeticOperator::Modulo if right == 0 => {
            Err(ArithmeticCause::DivisionByZero)
        }
        ArithmeticOperator::Divide => Ok(left.wrapping_div(right)),
        ArithmeticOperator::Modulo => Ok(left.wrapping_rem(right)),
    }
}

fn big_operation(
    operator: ArithmeticOperator,
    left: &BigInt,
    right: &BigInt,
) -> Result<Vec<u8>, ArithmeticCause> {
    let result = match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide | ArithmeticOperator::Modulo if *right == BigInt::ZERO => {
            return Err(ArithmeticCause::BigDivisionByZero);
        }
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Modulo => left % right,
    };
    Ok(result.to_signed_bytes_be())
}

fn decimal_operation(
    operator: ArithmeticOperator,
    left: &Decimal,
    right: &Decimal,
) -> Result<Vec<u8>, ArithmeticCause> {
    let result = match operator {
        ArithmeticOperator::Add => left.add(right),
        ArithmeticOperator::Subtract => left.subtract(right),
        ArithmeticOperator::Multiply => left.multiply(right),
        ArithmeticOperator::Divide => left.divide(right),
        ArithmeticOperator::Modulo => left.remainder(right),
    };
    result.map(|value| value.to_bytes())
}

/// `-value`; zero bytes count as null.
pub fn negate(ty: &CqlType, bytes: &[u8]) -> Result<Option<Vec<u8>>, ArithmeticCause> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let number = Number::decode(ty, bytes).ok_or(ArithmeticCause::Unsupported)?;
    Ok(Some(match (ty, number) {
        (_, Number::Float(value)) => (-value).to_be_bytes().into(),
        (_, Number::Double(value)) => (-value).to_be_bytes().into(),
        (_, Number::Big(value)) => (-value).to_signed_bytes_be(),
        (_, Number::Decimal(value)) => value.negate().to_bytes(),
        (CqlType::TinyInt, Number::Whole(value)) => vec![value.wrapping_neg() as u8],
        (CqlType::SmallInt, Number::Whole(value)) => {
            (value.wrapping_neg() as i16).to_be_bytes().into()
        }
        (CqlType::Int, Number::Whole(value)) => (value.wrapping_neg() as i32).to_be_bytes().into(),
        (_, Number::Whole(value)) => value.wrapping_neg().to_be_bytes().into(),
    }))
}
