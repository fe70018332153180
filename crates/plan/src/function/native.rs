//! The native functions by name.

use super::{Call, Function, aggregate, cast, collection, conversion, masking, operator, time};
use crate::error::PlanError;

/// All overloads of a name, those included that are made from the arguments of this call.
pub(super) fn candidates(name: &str, call: &Call<'_>) -> Result<Vec<Function>, PlanError> {
    if aggregate::is_known(name) {
        return aggregate::candidates(name, call);
    }
    if collection::is_known(name) {
        return Ok(vec![collection::candidate(name, call)?]);
    }
    if masking::is_known(name) {
        return Ok(vec![masking::candidate(name, call)?]);
    }
    match name {
        "token" => return Ok(conversion::token(call).into_iter().collect()),
        "uuid" => return Ok(vec![conversion::uuid()]),
        "to_json" | "tojson" => {
            return Ok(conversion::to_json_of(name, call)?.into_iter().collect());
        }
        "from_json" | "fromjson" => {
            return Ok(conversion::from_json_into(name, call)?.into_iter().collect());
        }
        _ => {}
    }
    for found in [
        operator::candidates(name),
        time::candidates(name),
        cast::candidates(name),
        conversion::blob_candidates(name),
    ] {
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Whether the overloads of a name are made from the arguments of each call.
pub(super) fn has_factory(name: &str) -> bool {
    collection::is_known(name)
        || masking::is_known(name)
        || matches!(name, "min" | "max" | "to_json" | "tojson" | "from_json" | "fromjson")
}
