//! One shape for all native scalar functions: types, and a plain function over bytes.

use std::borrow::Cow;
use std::sync::Arc;

use types::CqlType;

use super::{Arguments, Function, ScalarFunction, Signature};
use crate::error::PlanError;
use crate::values::BindContext;

type Body = Box<
    dyn Fn(Arguments<'_, '_>, &BindContext<'_>) -> Result<Option<Vec<u8>>, PlanError> + Send + Sync,
>;

/// How the result column of a call is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// `system.f(a, b)`
    Call,
    /// `cast(a as text)`
    Cast,
    /// `a + b`
    Operator(char),
    /// `-a`
    Negation,
}

/// A native scalar function.
pub(super) struct NativeScalar {
    signature: Signature,
    body: Body,
    is_pure: bool,
    is_monotonic: bool,
    naming: Naming,
}

impl NativeScalar {
    /// A function that sees its arguments as they come, nulls too.
    pub(super) fn new(
        name: impl Into<Cow<'static, str>>,
        arguments: Vec<CqlType>,
        result: CqlType,
        body: impl Fn(Arguments<'_, '_>, &BindContext<'_>) -> Result<Option<Vec<u8>>, PlanError>
        + Send
        + Sync
        + 'static,
    ) -> NativeScalar {
        NativeScalar {
            signature: Signature { name: name.into(), arguments, result },
            body: Box::new(body),
            is_pure: true,
            is_monotonic: false,
            naming: Naming::Call,
        }
    }

    /// A function of one value, null for null and for an empty value that has no meaning.
    pub(super) fn of_one(
        name: impl Into<Cow<'static, str>>,
        argument: CqlType,
        result: CqlType,
        body: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, PlanError> + Send + Sync + 'static,
    ) -> NativeScalar {
        let argument_type = argument.clone();
        NativeScalar::new(name, vec![argument], result, move |arguments, _| {
            match present(arguments, 0, &argument_type) {
                Some(value) => body(value),
                None => Ok(None),
            }
        })
    }

    /// Says that the same arguments may give another result next time.
    pub(super) fn impure(mut self) -> NativeScalar {
        self.is_pure = false;
        self
    }

    /// Says that larger arguments never give smaller results.
    pub(super) fn monotonic(mut self) -> NativeScalar {
        self.is_monotonic = true;
        self
    }

    pub(super) fn named_as_cast(mut self) -> NativeScalar {
        self.naming = Naming::Cast;
        self
    }

    pub(super) fn named_as_operator(mut self, sign: char) -> NativeScalar {
        self.naming = Naming::Operator(sign);
        self
    }

    pub(super) fn named_as_negation(mut self) -> NativeScalar {
        self.naming = Naming::Negation;
        self
    }

    pub(super) fn into_function(self) -> Function {
        Function::Scalar(Arc::new(self))
    }
}

/// An argument that has a meaning: neither null nor an empty value of a type without empty values.
pub(super) fn present<'a>(
    arguments: Arguments<'a, '_>,
    index: usize,
    cql_type: &CqlType,
) -> Option<&'a [u8]> {
    let value = arguments.get(index)?.as_deref()?;
    let is_meaningless = value.is_empty() && types::value::is_empty_meaningless(cql_type);
    (!is_meaningless).then_some(value)
}

impl ScalarFunction for NativeScalar {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_pure(&self) -> bool {
        self.is_pure
    }

    fn is_monotonic(&self) -> bool {
        self.is_monotonic
    }

    fn column_name(&self, arguments: &[String]) -> String {
        let argument = |index: usize| arguments.get(index).map(String::as_str).unwrap_or_default();
        match self.naming {
            Naming::Call => format!("system.{}({})", self.signature.name, arguments.join(", ")),
            Naming::Cast => {
                format!(
                    "cast({} as {})",
                    argument(0),
                    self.signature.result.to_string().to_lowercase()
                )
            }
            Naming::Operator(sign) => format!("{} {sign} {}", argument(0), argument(1)),
            Naming::Negation => format!("-{}", argument(0)),
        }
    }

    fn evaluate(
        &self,
        arguments: Arguments<'_, '_>,
        context: &BindContext<'_>,
    ) -> Result<Option<Vec<u8>>, PlanError> {
        (self.body)(arguments, context)
    }
}
