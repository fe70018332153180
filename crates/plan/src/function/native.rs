//! The native functions by name.

use super::{Call, Function};
use crate::error::PlanError;

/// All overloads of a name, those included that are made from the arguments of this call.
pub(super) fn candidates(name: &str, call: &Call<'_>) -> Result<Vec<Function>, PlanError> {
    let _ = (name, call);
    Ok(Vec::new())
}

/// Whether the overloads of a name are made from the arguments of each call.
pub(super) fn has_factory(name: &str) -> bool {
    let _ = name;
    false
}
