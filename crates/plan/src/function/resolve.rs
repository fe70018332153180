//! Which overload a call means: Cassandra's rules and texts.

use types::CqlType;

use super::{Argument, Call, Fit, Function, native};
use crate::assign;
use crate::error::{PlanError, invalid};

/// The function that a call means; `None` when no function has that name.
pub fn resolve(call: &Call<'_>) -> Result<Option<Function>, PlanError> {
    if call.name.keyspace.as_ref().is_some_and(|keyspace| keyspace != "system") {
        return Ok(None);
    }
    let candidates = native::candidates(&call.name.name, call)?;
    match candidates.as_slice() {
        [] => Ok(None),
        [only] => {
            validate_types(only, call.arguments)?;
            Ok(Some(only.clone()))
        }
        _ => pick_best(call, &candidates).map(Some),
    }
}

/// Whether the overloads of a function are made from its arguments, so that its result type is no
/// evidence of anything.
pub(crate) fn is_made_from_arguments(function: &Function) -> bool {
    native::has_factory(&function.signature().name)
}

fn validate_types(function: &Function, arguments: &[&dyn Argument]) -> Result<(), PlanError> {
    let signature = function.signature();
    if arguments.len() != signature.arguments.len() {
        return invalid!(
            "Invalid number of arguments in call to function system.{}: {} required but {} provided",
            signature.name,
            signature.arguments.len(),
            arguments.len()
        );
    }
    for (index, (argument, ty)) in arguments.iter().zip(&signature.arguments).enumerate() {
        if !argument.fit(ty).is_assignable() {
            return invalid!(
                "Type error: {} cannot be passed as argument {index} of function system.{} of type {ty}",
                argument.text(),
                signature.name
            );
        }
    }
    Ok(())
}

fn matches(function: &Function, arguments: &[&dyn Argument]) -> Fit {
    let types = &function.signature().arguments;
    if arguments.len() != types.len() {
        return Fit::No;
    }
    Fit::all(arguments.iter().zip(types).map(|(argument, ty)| argument.fit(ty)))
}

/// The sign of an operator's function.
pub(crate) fn operator_sign(name: &str) -> Option<char> {
    Some(match name {
        "_add" => '+',
        "_substract" => '-',
        "_multiply" => '*',
        "_divide" => '/',
        "_modulo" => '%',
        _ => return None,
    })
}

fn pick_best(call: &Call<'_>, candidates: &[Function]) -> Result<Function, PlanError> {
    let returns = |function: &Function| match call.receiver {
        None => true,
        Some(receiver) => {
            assign::fit(&function.signature().result, &receiver.freeze()).is_assignable()
        }
    };
    let mut compatible = Vec::new();
    for candidate in candidates.iter().filter(|candidate| returns(candidate)) {
        match matches(candidate, call.arguments) {
            Fit::Exact => return Ok(candidate.clone()),
            Fit::Weak => compatible.push(candidate),
            Fit::No => {}
        }
    }
    let texts = || {
        let mut texts = call.arguments.iter().map(|argument| argument.text());
        (texts.next().unwrap_or_default(), texts.next().unwrap_or_default())
    };
    let sign = operator_sign(&call.name.name);
    match (compatible.as_slice(), sign) {
        ([only], _) => Ok((*only).clone()),
        ([], Some(sign)) => {
            let (left, right) = texts();
            invalid!("the '{sign}' operation is not supported between {left} and {right}")
        }
        ([], None) => invalid!(
            "Invalid call to function {}, none of its type signatures match (known type signatures: {})",
            call.name,
            signatures(candidates.iter())
        ),
        (_, Some(sign)) => {
            if let Some(function) = operands_of_receiver(call, &compatible) {
                return Ok(function);
            }
            let (left, right) = texts();
            invalid!(
                "Ambiguous '{sign}' operation with args {left} and {right}: \
                 use type hint to disambiguate, example '(int) ?'"
            )
        }
        (_, None) if &*call.name.name == "_negate" => {
            invalid!("Ambiguous negation: use type casts to disambiguate")
        }
        (_, None) => invalid!(
            "Ambiguous call to function {} (can be matched by following signatures: {}): \
             use type casts to disambiguate",
            call.name,
            signatures(compatible.into_iter())
        ),
    }
}

/// Of an operator's overloads, the one whose operands are of the receiver's type.
fn operands_of_receiver(call: &Call<'_>, compatible: &[&Function]) -> Option<Function> {
    let receiver: &CqlType = call.receiver?;
    if call.arguments.iter().any(|argument| argument.is_marker()) {
        return None;
    }
    compatible
        .iter()
        .find(|function| function.signature().arguments.iter().all(|ty| ty == receiver))
        .map(|function| (*function).clone())
}

fn signatures<'f>(functions: impl Iterator<Item = &'f Function>) -> String {
    let texts: Vec<String> = functions.map(|f| f.signature().to_string()).collect();
    texts.join(", ")
}
