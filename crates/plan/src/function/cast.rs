//! `CAST(x AS type)`.

use num_bigint::BigInt;

use types::CqlType;
use types::value::{Decimal, java_float, to_cql_text_unquoted, varint};

use super::Function;
use super::scalar::NativeScalar;
use super::time;

const NUMERIC: [CqlType; 9] = [
    CqlType::TinyInt,
    CqlType::SmallInt,
    CqlType::Int,
    CqlType::BigInt,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Counter,
    CqlType::Varint,
];

pub(super) fn candidates(name: &str) -> Vec<Function> {
    let Some(target) = name.strip_prefix("cast_as_").and_then(CqlType::native) else {
        return Vec::new();
    };
    sources(&target).into_iter().map(|source| cast(name, source, target.clone())).collect()
}

fn sources(target: &CqlType) -> Vec<CqlType> {
    use CqlType::{Ascii, Boolean, Date, Inet, Text, Time, TimeUuid, Timestamp, Uuid};
    let numeric = NUMERIC.iter().filter(|source| *source != target).cloned();
    match target {
        Text | Ascii => {
            let mut sources: Vec<CqlType> = numeric.collect();
            if *target == Text {
                sources.push(Ascii);
            }
            sources.extend([Inet, Boolean, TimeUuid, Timestamp, Date, Time, Uuid]);
            sources
        }
        Date => vec![TimeUuid, Timestamp],
        Timestamp => vec![TimeUuid, Date],
        CqlType::Counter => Vec::new(),
        other if NUMERIC.contains(other) => numeric.collect(),
        _ => Vec::new(),
    }
}

fn cast(name: &str, source: CqlType, target: CqlType) -> Function {
    let (from, to) = (source.clone(), target.clone());
    NativeScalar::of_one(name.to_string(), source, target, move |value| {
        Ok(convert(&from, &to, value))
    })
    .named_as_cast()
    .into_function()
}

fn convert(from: &CqlType, to: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
    match to {
        CqlType::Text if *from == CqlType::Ascii => Some(value.to_vec()),
        CqlType::Text | CqlType::Ascii => Some(to_cql_text_unquoted(from, value).into_bytes()),
        CqlType::Date | CqlType::Timestamp => time::convert(from, to, value),
        _ => Number::decode(from, value).map(|number| number.encode(to)),
    }
}

/// A number as Java's `Number` would be, for its narrowing rules.
enum Number {
    Long(i64),
    Double(f64),
    /// A float keeps its own text when it becomes a decimal.
    Float(f32),
    Big(BigInt),
    Decimal(Decimal),
}

impl Number {
    fn decode(cql_type: &CqlType, value: &[u8]) -> Option<Number> {
        Some(match cql_type {
            CqlType::TinyInt => Number::Long(i64::from(i8::from_be_bytes(value.try_into().ok()?))),
            CqlType::SmallInt => {
                Number::Long(i64::from(i16::from_be_bytes(value.try_into().ok()?)))
            }
            CqlType::Int => Number::Long(i64::from(i32::from_be_bytes(value.try_into().ok()?))),
            CqlType::BigInt | CqlType::Counter => {
                Number::Long(i64::from_be_bytes(value.try_into().ok()?))
            }
            CqlType::Float => Number::Float(f32::from_be_bytes(value.try_into().ok()?)),
            CqlType::Double => Number::Double(f64::from_be_bytes(value.try_into().ok()?)),
            CqlType::Varint => Number::Big(varint::decode(value)),
            CqlType::Decimal => Number::Decimal(Decimal::decode(value)?),
            _ => return None,
        })
    }

    /// Java's `longValue`: integers wrap, fractions are cut, floats saturate.
    fn as_long(&self) -> i64 {
        match self {
            Number::Long(number) => *number,
            Number::Double(number) => *number as i64,
            Number::Float(number) => *number as i64,
            Number::Big(number) => wrap(number),
            Number::Decimal(number) => wrap(&whole_part(number)),
        }
    }

    /// Java's `intValue`: floats saturate at 32 bits, everything else wraps.
    fn as_int(&self) -> i32 {
        match self {
            Number::Double(number) => *number as i32,
            Number::Float(number) => *number as i32,
            other => other.as_long() as i32,
        }
    }

    fn as_double(&self) -> f64 {
        match self {
            Number::Long(number) => *number as f64,
            Number::Double(number) => *number,
            Number::Float(number) => f64::from(*number),
            Number::Big(number) => number.to_string().parse().unwrap_or(f64::NAN),
            Number::Decimal(number) => number.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    fn as_float(&self) -> f32 {
        match self {
            Number::Long(number) => *number as f32,
            Number::Double(number) => *number as f32,
            Number::Float(number) => *number,
            Number::Big(number) => number.to_string().parse().unwrap_or(f32::NAN),
            Number::Decimal(number) => number.to_string().parse().unwrap_or(f32::NAN),
        }
    }

    fn as_decimal(&self) -> Decimal {
        let parsed = |text: String| Decimal::parse(&text).unwrap_or_else(Decimal::zero);
        match self {
            Number::Long(number) => Decimal { unscaled: BigInt::from(*number), scale: 0 },
            Number::Double(number) => parsed(java_float::double_to_string(*number)),
            Number::Float(number) => parsed(java_float::float_to_string(*number)),
            Number::Big(number) => Decimal { unscaled: number.clone(), scale: 0 },
            Number::Decimal(number) => number.clone(),
        }
    }

    fn encode(&self, cql_type: &CqlType) -> Vec<u8> {
        match cql_type {
            CqlType::TinyInt => (self.as_int() as i8).to_be_bytes().to_vec(),
            CqlType::SmallInt => (self.as_int() as i16).to_be_bytes().to_vec(),
            CqlType::Int => self.as_int().to_be_bytes().to_vec(),
            CqlType::Float => self.as_float().to_be_bytes().to_vec(),
            CqlType::Double => self.as_double().to_be_bytes().to_vec(),
            CqlType::Decimal => self.as_decimal().to_bytes(),
            CqlType::Varint => {
                let mut out = Vec::new();
                varint::encode(&BigInt::from(self.as_long()), &mut out);
                out
            }
            _ => self.as_long().to_be_bytes().to_vec(),
        }
    }
}

fn whole_part(number: &Decimal) -> BigInt {
    let ten = BigInt::from(10);
    match u32::try_from(number.scale) {
        Ok(scale) => &number.unscaled / ten.pow(scale),
        Err(_) => &number.unscaled * ten.pow(number.scale.unsigned_abs()),
    }
}

/// The lower 64 bits in two's complement.
fn wrap(number: &BigInt) -> i64 {
    let bytes = number.to_signed_bytes_le();
    let sign = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
    let mut low = [sign; 8];
    for (slot, byte) in low.iter_mut().zip(bytes) {
        *slot = byte;
    }
    i64::from_le_bytes(low)
}
