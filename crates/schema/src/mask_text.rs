//! The mask of a column, taken apart again: it is kept as CQL.

use types::CqlType;

/// `system.mask_inner(1, null)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaskCall {
    /// The keyspace of the function.
    pub(crate) keyspace: String,
    /// The function.
    pub(crate) name: String,
    /// The types of the arguments behind the column's value.
    pub(crate) argument_types: Vec<String>,
    /// The arguments as text without quotes; `None` is null.
    pub(crate) arguments: Vec<Option<String>>,
}

impl MaskCall {
    pub(crate) fn parse(mask: &str, column_type: &CqlType) -> Option<MaskCall> {
        let (function, rest) = mask.split_once('(')?;
        let (keyspace, name) = function.split_once('.')?;
        let arguments = split_arguments(rest.strip_suffix(')')?);
        let argument_types = (0..arguments.len())
            .map(|index| match (name, index) {
                ("mask_inner" | "mask_outer", 0 | 1) => CqlType::Int.to_string(),
                ("mask_replace", _) => column_type.to_string(),
                _ => CqlType::Text.to_string(),
            })
            .collect();
        Some(MaskCall {
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            argument_types,
            arguments,
        })
    }
}

/// Splits at commas outside of quotes.
fn split_arguments(text: &str) -> Vec<Option<String>> {
    let mut arguments = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    for character in text.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                current.push(character);
            }
            ',' if !quoted => arguments.push(std::mem::take(&mut current)),
            other => current.push(other),
        }
    }
    if !current.is_empty() || !arguments.is_empty() {
        arguments.push(current);
    }
    let unquoted = |argument: String| {
        let trimmed = argument.trim();
        match trimmed.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\'')) {
            Some(inner) => Some(inner.replace("''", "'")),
            None if trimmed == "null" => None,
            None => Some(trimmed.to_string()),
        }
    };
    arguments.into_iter().map(unquoted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_taken_apart() {
        let call = MaskCall::parse("system.mask_inner(1, null, 'a,''')", &CqlType::Text).unwrap();
        assert_eq!(call.name, "mask_inner");
        assert_eq!(call.argument_types, ["int", "int", "text"]);
        assert_eq!(call.arguments, [Some("1".to_string()), None, Some("a,'".to_string())]);
        let call = MaskCall::parse("system.mask_default()", &CqlType::Int).unwrap();
        assert!(call.arguments.is_empty());
    }
}
