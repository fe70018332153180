//! Aggregates: count, min, max, sum, avg.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use num_bigint::BigInt;

use types::CqlType;
use types::value::{Decimal, compare, varint};

use super::{AggregateFunction, AggregateState, Arguments, Call, Function, Signature};
use crate::error::{PlanError, invalid};
use crate::values::BindContext;

/// A native aggregate: its types, and the state it starts with.
pub(super) struct NativeAggregate {
    signature: Signature,
    initial: State,
}

#[derive(Clone)]
enum State {
    /// Rows, whatever they hold.
    Rows(i64),
    /// Values that are not null.
    Values(i64),
    Extreme {
        cql_type: CqlType,
        wanted: Ordering,
        value: Option<Vec<u8>>,
    },
    Whole {
        cql_type: CqlType,
        sum: i128,
        count: i64,
        is_average: bool,
    },
    Fraction {
        cql_type: CqlType,
        sum: Kahan,
        count: i64,
        is_average: bool,
    },
    Varint {
        sum: BigInt,
        count: i64,
        is_average: bool,
    },
    /// An average is carried on from number to number, each step rounded, as Cassandra does.
    Decimal {
        sum: Decimal,
        count: i64,
        is_average: bool,
    },
}

/// A sum of doubles that keeps what rounding loses.
#[derive(Clone, Copy, Default)]
struct Kahan {
    sum: f64,
    compensation: f64,
    simple: f64,
}

impl Kahan {
    fn add(&mut self, number: f64) {
        self.simple += number;
        let corrected = number - self.compensation;
        let rounded = self.sum + corrected;
        self.compensation = (rounded - self.sum) - corrected;
        self.sum = rounded;
    }

    fn total(&self) -> f64 {
        let total = self.sum + self.compensation;
        if total.is_nan() && self.simple.is_infinite() { self.simple } else { total }
    }
}

pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "count" | "count_rows" | "countrows" | "sum" | "avg" | "min" | "max")
}

pub(super) fn candidates(name: &str, call: &Call<'_>) -> Result<Vec<Function>, PlanError> {
    let numeric = [
        CqlType::TinyInt,
        CqlType::SmallInt,
        CqlType::Int,
        CqlType::BigInt,
        CqlType::Float,
        CqlType::Double,
        CqlType::Decimal,
        CqlType::Varint,
        CqlType::Counter,
    ];
    let functions: Vec<NativeAggregate> = match name {
        "count_rows" | "countrows" => {
            vec![aggregate("count_rows", Vec::new(), CqlType::BigInt, State::Rows(0))]
        }
        "count" => vec![count(call)],
        "sum" => numeric.iter().filter_map(sum).collect(),
        "avg" => numeric.iter().filter_map(average).collect(),
        _ => vec![extreme_of(name, call)?],
    };
    Ok(functions.into_iter().map(|function| Function::Aggregate(Arc::new(function))).collect())
}

/// `count` takes bytes, which everything is.
fn count(call: &Call<'_>) -> NativeAggregate {
    let argument = match call.arguments {
        [argument] if argument.is_composed() => CqlType::Blob,
        [argument] => argument.compatible_type().unwrap_or(CqlType::Blob),
        _ => CqlType::Blob,
    };
    aggregate("count", vec![argument], CqlType::BigInt, State::Values(0))
}

fn extreme_of(name: &str, call: &Call<'_>) -> Result<NativeAggregate, PlanError> {
    let [argument] = call.arguments else {
        return invalid!("Invalid number of arguments for function system.{name}(any)");
    };
    match argument.compatible_type().or_else(|| call.receiver.cloned()) {
        Some(cql_type) => Ok(extreme(if name == "min" { "min" } else { "max" }, &cql_type)),
        None => invalid!(
            "Cannot infer type of argument {} in call to function system.{name}(any): use type casts to disambiguate",
            argument.text()
        ),
    }
}

fn aggregate(
    name: &'static str,
    arguments: Vec<CqlType>,
    result: CqlType,
    initial: State,
) -> NativeAggregate {
    NativeAggregate {
        signature: Signature { name: Cow::Borrowed(name), arguments, result },
        initial,
    }
}

pub(super) fn extreme(name: &'static str, cql_type: &CqlType) -> NativeAggregate {
    let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
    let initial = State::Extreme { cql_type: cql_type.clone(), wanted, value: None };
    aggregate(name, vec![cql_type.clone()], cql_type.clone(), initial)
}

pub(super) fn sum(cql_type: &CqlType) -> Option<NativeAggregate> {
    Some(aggregate(
        "sum",
        vec![cql_type.clone()],
        cql_type.clone(),
        numeric_state(cql_type, false)?,
    ))
}

pub(super) fn average(cql_type: &CqlType) -> Option<NativeAggregate> {
    Some(aggregate("avg", vec![cql_type.clone()], cql_type.clone(), numeric_state(cql_type, true)?))
}

fn numeric_state(cql_type: &CqlType, is_average: bool) -> Option<State> {
    Some(match cql_type {
        CqlType::TinyInt
        | CqlType::SmallInt
        | CqlType::Int
        | CqlType::BigInt
        | CqlType::Counter => {
            State::Whole { cql_type: cql_type.clone(), sum: 0, count: 0, is_average }
        }
        CqlType::Float | CqlType::Double => State::Fraction {
            cql_type: cql_type.clone(),
            sum: Kahan::default(),
            count: 0,
            is_average,
        },
        CqlType::Varint => State::Varint { sum: BigInt::ZERO, count: 0, is_average },
        CqlType::Decimal => State::Decimal { sum: Decimal::zero(), count: 0, is_average },
        _ => return None,
    })
}

impl AggregateFunction for NativeAggregate {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn column_name(&self, arguments: &[String]) -> String {
        match self.initial {
            State::Rows(_) => "count".to_string(),
            _ => format!("system.{}({})", self.signature.name, arguments.join(", ")),
        }
    }

    fn new_state(&self) -> Box<dyn AggregateState> {
        Box::new(Running { state: self.initial.clone(), initial: self.initial.clone() })
    }
}

struct Running {
    state: State,
    initial: State,
}

impl AggregateState for Running {
    fn add(&mut self, arguments: Arguments<'_, '_>, _: &BindContext<'_>) -> Result<(), PlanError> {
        if let State::Rows(count) = &mut self.state {
            *count += 1;
            return Ok(());
        }
        let Some(Some(value)) = arguments.first() else { return Ok(()) };
        match &mut self.state {
            State::Rows(count) | State::Values(count) => *count += 1,
            State::Extreme { cql_type, wanted, value: best } => {
                let is_better =
                    best.as_ref().is_none_or(|best| compare(cql_type, value, best) == *wanted);
                if is_better {
                    *best = Some(value.to_vec());
                }
            }
            // What follows are numbers, of which an empty value is none.
            _ if value.is_empty() => {}
            State::Whole { sum, count, .. } => {
                *sum = sum.wrapping_add(i128::from(read_whole(value)));
                *count += 1;
            }
            State::Fraction { sum, count, .. } => {
                sum.add(read_fraction(value));
                *count += 1;
            }
            State::Varint { sum, count, .. } => {
                *sum += varint::decode(value);
                *count += 1;
            }
            State::Decimal { sum, count, is_average } => {
                if let Some(number) = Decimal::decode(value) {
                    *count += 1;
                    let next = if *is_average {
                        number
                            .subtract(sum)
                            .and_then(|distance| sum.add(&divided(&distance, *count)))
                    } else {
                        sum.add(&number)
                    };
                    *sum = next.map_err(|cause| PlanError::invalid(cause.to_string()))?;
                }
            }
        }
        Ok(())
    }

    fn finish(&self, _: &BindContext<'_>) -> Result<Option<Vec<u8>>, PlanError> {
        Ok(match &self.state {
            State::Rows(count) | State::Values(count) => Some(count.to_be_bytes().to_vec()),
            State::Extreme { value, .. } => value.clone(),
            State::Whole { cql_type, sum, count, is_average } => {
                let result = if !is_average {
                    // A sum wraps at the width of its type, as in Java.
                    *sum
                } else if *count == 0 {
                    0
                } else {
                    sum / i128::from(*count)
                };
                Some(write_whole(cql_type, result as i64))
            }
            State::Fraction { cql_type, sum, count, is_average } => {
                let result = match (is_average, count) {
                    (false, _) => sum.total(),
                    (true, 0) => 0.0,
                    (true, count) => sum.total() / *count as f64,
                };
                Some(if *cql_type == CqlType::Float {
                    (result as f32).to_be_bytes().to_vec()
                } else {
                    result.to_be_bytes().to_vec()
                })
            }
            State::Varint { sum, count, is_average } => {
                let result = match (is_average, count) {
                    (true, count) if *count > 0 => sum / BigInt::from(*count),
                    _ => sum.clone(),
                };
                let mut out = Vec::new();
                varint::encode(&result, &mut out);
                Some(out)
            }
            State::Decimal { sum, .. } => Some(sum.to_bytes()),
        })
    }

    fn reset(&mut self) {
        self.state = self.initial.clone();
    }
}

/// The quotient keeps the scale and rounds half to even, as `BigDecimal.divide` does.
fn divided(number: &Decimal, count: i64) -> Decimal {
    let divisor = BigInt::from(count);
    let quotient = &number.unscaled / &divisor;
    let remainder = &number.unscaled % &divisor;
    let twice = BigInt::from(remainder.magnitude() * 2u32);
    let away = match twice.cmp(&divisor) {
        Ordering::Greater => true,
        Ordering::Equal => (&quotient % 2u32) != BigInt::ZERO,
        Ordering::Less => false,
    };
    let step = if number.unscaled < BigInt::ZERO { -1 } else { 1 };
    let unscaled = if away { quotient + step } else { quotient };
    Decimal { unscaled, scale: number.scale }
}

fn read_whole(value: &[u8]) -> i64 {
    let sign = if value.first().is_some_and(|byte| byte & 0x80 != 0) { -1i64 } else { 0 };
    value.iter().take(8).fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

fn write_whole(cql_type: &CqlType, number: i64) -> Vec<u8> {
    match cql_type {
        CqlType::TinyInt => (number as i8).to_be_bytes().to_vec(),
        CqlType::SmallInt => (number as i16).to_be_bytes().to_vec(),
        CqlType::Int => (number as i32).to_be_bytes().to_vec(),
        _ => number.to_be_bytes().to_vec(),
    }
}

fn read_fraction(value: &[u8]) -> f64 {
    match value.len() {
        4 => value.try_into().map_or(f64::NAN, |bytes| f64::from(f32::from_be_bytes(bytes))),
        _ => value.try_into().map_or(f64::NAN, f64::from_be_bytes),
    }
}
