//! `+ - * / %` and the sign, and the mathematical functions.

use types::CqlType;
use types::value::arithmetic::negate;
use types::value::{
    ArithmeticOperator, MathFunction, apply_arithmetic, apply_math, arithmetic_type,
};

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
        _ => return mathematical(name),
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

fn mathematical(name: &str) -> Vec<Function> {
    let function = match name {
        "abs" => MathFunction::Abs,
        "exp" => MathFunction::Exp,
        "log" => MathFunction::Log,
        "log10" => MathFunction::Log10,
        "round" => MathFunction::Round,
        _ => return Vec::new(),
    };
    NUMERIC.iter().map(|cql_type| math(name, function, cql_type.clone())).collect()
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

fn math(name: &str, function: MathFunction, cql_type: CqlType) -> Function {
    let operand = cql_type.clone();
    NativeScalar::of_one(name.to_string(), cql_type.clone(), cql_type, move |value| {
        apply_math(function, &operand, value).map_err(|cause| PlanError::invalid(cause.to_string()))
    })
    .into_function()
}
