//! `+ - * / %` and the sign, and the mathematical functions.

use num_bigint::{BigInt, Sign};

use types::CqlType;
use types::value::arithmetic::negate;
use types::value::{ArithmeticOperator, Decimal, apply_arithmetic, arithmetic_type, varint};

use super::Function;
use super::scalar::{NativeScalar, present};
use crate::error::PlanError;

/// In the order in which Cassandra tries them.
const NUMERIC: [CqlType; 9] = [
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

pub(super) fn candidates(name: &str) -> Vec<Function> {
    let operator = match name {
        "_add" => ArithmeticOperator::Add,
        "_substract" => ArithmeticOperator::Subtract,
        "_multiply" => ArithmeticOperator::Multiply,
        "_divide" => ArithmeticOperator::Divide,
        "_modulo" => ArithmeticOperator::Modulo,
        "_negate" => return NUMERIC.iter().map(|cql_type| negation(cql_type.clone())).collect(),
        "abs" | "exp" | "log" | "log10" | "round" => {
            return NUMERIC.iter().map(|cql_type| math(name, cql_type.clone())).collect();
        }
        _ => return Vec::new(),
    };
    let mut pairs: Vec<(CqlType, CqlType)> = NUMERIC
        .iter()
        .flat_map(|left| NUMERIC.iter().map(move |right| (left.clone(), right.clone())))
        .collect();
    if matches!(operator, ArithmeticOperator::Add | ArithmeticOperator::Subtract) {
        pairs.push((CqlType::Timestamp, CqlType::Duration));
        pairs.push((CqlType::Date, CqlType::Duration));
    }
    if operator == ArithmeticOperator::Add {
        for left in [CqlType::Text, CqlType::Ascii] {
            for right in [CqlType::Text, CqlType::Ascii] {
                pairs.push((left.clone(), right));
            }
        }
    }
    pairs.into_iter().filter_map(|(left, right)| binary(name, operator, left, right)).collect()
}

fn binary(
    name: &str,
    operator: ArithmeticOperator,
    left: CqlType,
    right: CqlType,
) -> Option<Function> {
    let result = arithmetic_type(operator, &left, &right)?;
    let (left_type, right_type) = (left.clone(), right.clone());
    let body =
        NativeScalar::new(name.to_string(), vec![left, right], result, move |arguments, _| {
            let operands =
                present(arguments, 0, &left_type).zip(present(arguments, 1, &right_type));
            let Some((left, right)) = operands else { return Ok(None) };
            apply_arithmetic(operator, &left_type, left, &right_type, right).map_err(|error| {
                PlanError::FunctionFailure {
                    keyspace: "system".into(),
                    function: operator.symbol().to_string().into(),
                    argument_types: vec![left_type.to_string(), right_type.to_string()],
                    message: error.to_string().into(),
                }
            })
        });
    Some(body.named_as_operator(operator.symbol()).into_function())
}

fn negation(cql_type: CqlType) -> Function {
    let operand = cql_type.clone();
    NativeScalar::of_one("_negate", cql_type.clone(), cql_type, move |value| {
        negate(&operand, value).map_err(|cause| PlanError::FunctionFailure {
            keyspace: "system".into(),
            function: "-".into(),
            argument_types: vec![operand.to_string()],
            message: cause.to_string().into(),
        })
    })
    .named_as_negation()
    .into_function()
}

fn math(name: &str, cql_type: CqlType) -> Function {
    let (operation, operand) = (name.to_string(), cql_type.clone());
    NativeScalar::of_one(name.to_string(), cql_type.clone(), cql_type, move |value| {
        Ok(calculate(&operation, &operand, value))
    })
    .into_function()
}

fn calculate(operation: &str, cql_type: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
    Some(match cql_type {
        CqlType::TinyInt => {
            let number = i8::from_be_bytes(value.try_into().ok()?);
            (whole(operation, i64::from(number), i64::from(number.wrapping_abs())) as i8)
                .to_be_bytes()
                .to_vec()
        }
        CqlType::SmallInt => {
            let number = i16::from_be_bytes(value.try_into().ok()?);
            (whole(operation, i64::from(number), i64::from(number.wrapping_abs())) as i16)
                .to_be_bytes()
                .to_vec()
        }
        CqlType::Int => {
            let number = i32::from_be_bytes(value.try_into().ok()?);
            (whole(operation, i64::from(number), i64::from(number.wrapping_abs())) as i32)
                .to_be_bytes()
                .to_vec()
        }
        CqlType::BigInt | CqlType::Counter => {
            let number = i64::from_be_bytes(value.try_into().ok()?);
            whole(operation, number, number.wrapping_abs()).to_be_bytes().to_vec()
        }
        CqlType::Float => {
            let number = f32::from_be_bytes(value.try_into().ok()?);
            let result = match operation {
                "abs" => number.abs(),
                // Java rounds half up, to a 32-bit integer.
                "round" => (f64::from(number) + 0.5).floor() as i32 as f32,
                other => transcendental(other, f64::from(number)) as f32,
            };
            result.to_be_bytes().to_vec()
        }
        CqlType::Double => {
            let number = f64::from_be_bytes(value.try_into().ok()?);
            let result = match operation {
                "abs" => number.abs(),
                "round" => (number + 0.5).floor() as i64 as f64,
                other => transcendental(other, number),
            };
            result.to_be_bytes().to_vec()
        }
        CqlType::Varint => varint_of(operation, &varint::decode(value)),
        CqlType::Decimal => decimal_of(operation, &Decimal::decode(value)?)?,
        _ => return None,
    })
}

fn transcendental(operation: &str, number: f64) -> f64 {
    match operation {
        "exp" => number.exp(),
        "log" => number.ln(),
        _ => number.log10(),
    }
}

/// Of whole numbers: the result is cut to a whole number again.
fn whole(operation: &str, number: i64, absolute: i64) -> i64 {
    match operation {
        "abs" => absolute,
        "round" => number,
        other => transcendental(other, number as f64) as i64,
    }
}

fn varint_of(operation: &str, number: &BigInt) -> Vec<u8> {
    let result = match operation {
        "abs" => match number.sign() {
            Sign::Minus => -number.clone(),
            _ => number.clone(),
        },
        "round" => number.clone(),
        other => {
            let result = transcendental(other, number.to_string().parse().unwrap_or(f64::NAN));
            let text = format!("{:.0}", result.trunc());
            varint::parse(&text).unwrap_or_default()
        }
    };
    let mut out = Vec::new();
    varint::encode(&result, &mut out);
    out
}

fn decimal_of(operation: &str, number: &Decimal) -> Option<Vec<u8>> {
    Some(match operation {
        "abs" => number.abs().to_bytes(),
        "round" => number.round().ok()?.to_bytes(),
        other => {
            let result = transcendental(other, number.to_string().parse().ok()?);
            types::value::arithmetic::decimal_of_double(result).ok()?.to_bytes()
        }
    })
}
