//! `speculative_retry` and `additional_write_policy`: `99p`, `50ms`, `MIN(99p,50ms)`, `ALWAYS`, `NEVER`.

use crate::error::{SchemaError, configuration};
use crate::java;

/// A policy in the form that Cassandra stores.
pub(crate) fn read(text: &str) -> Result<String, SchemaError> {
    match Policy::parse(text)? {
        Some(policy) => Ok(policy.to_text()),
        None => Err(unreadable(text)),
    }
}

enum Policy {
    Always,
    Never,
    Percentile(f64),
    Fixed(i32),
    Hybrid { function: &'static str, percentile: f64, fixed: i32 },
}

impl Policy {
    fn parse(text: &str) -> Result<Option<Policy>, SchemaError> {
        if text.eq_ignore_ascii_case("always") {
            return Ok(Some(Policy::Always));
        }
        if text.eq_ignore_ascii_case("never") || text.eq_ignore_ascii_case("none") {
            return Ok(Some(Policy::Never));
        }
        if let Some(simple) = Policy::parse_simple(text)? {
            return Ok(Some(simple));
        }
        Policy::parse_hybrid(text)
    }

    /// A number of digits and dots, with its unit.
    fn parse_simple(text: &str) -> Result<Option<Policy>, SchemaError> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(end).unwrap_or((text, ""));
        let unit = unit.to_lowercase();
        if number.is_empty() || !matches!(unit.as_str(), "p" | "percentile" | "ms") {
            return Ok(None);
        }
        let Some(value) = java::parse_double(number) else { return Err(unreadable(text)) };
        if unit == "ms" {
            return Ok(Some(Policy::Fixed(value as i32)));
        }
        if value <= 0.0 || value >= 100.0 {
            return Err(configuration!(
                "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
            ));
        }
        Ok(Some(Policy::Percentile(value)))
    }

    /// `MIN(a, b)` or `MAX(a, b)`.
    fn parse_hybrid(text: &str) -> Result<Option<Policy>, SchemaError> {
        let upper = text.to_uppercase();
        let function = if upper.starts_with("MIN(") {
            "MIN"
        } else if upper.starts_with("MAX(") {
            "MAX"
        } else {
            return Ok(None);
        };
        let inner = text.get(4..).and_then(|rest| rest.strip_suffix(')'));
        let Some((first, second)) = inner.and_then(|inner| inner.split_once(',')) else {
            return Ok(None);
        };
        let (first, second) = (first.trim_end(), second.trim_start());
        let is_argument = |text: &str| {
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            unit.len() < text.len()
                && !unit.is_empty()
                && unit.bytes().all(|b| b.is_ascii_alphabetic())
        };
        if !is_argument(first) || !is_argument(second) {
            return Ok(None);
        }
        let read = |argument: &str| {
            Policy::parse_simple(argument).ok().flatten().ok_or_else(|| unreadable(text))
        };
        match (read(first)?, read(second)?) {
            (Policy::Percentile(percentile), Policy::Fixed(fixed))
            | (Policy::Fixed(fixed), Policy::Percentile(percentile)) => {
                Ok(Some(Policy::Hybrid { function, percentile, fixed }))
            }
            (Policy::Percentile(_), _) => Err(same_kind(text, "PERCENTILE")),
            _ => Err(same_kind(text, "FIXED")),
        }
    }

    fn to_text(&self) -> String {
        match self {
            Policy::Always => "ALWAYS".into(),
            Policy::Never => "NEVER".into(),
            Policy::Percentile(value) => percentile_text(*value),
            Policy::Fixed(value) => format!("{value}ms"),
            Policy::Hybrid { function, percentile, fixed } => {
                format!("{function}({},{fixed}ms)", percentile_text(*percentile))
            }
        }
    }
}

/// At most four digits behind the point, and none that say nothing.
fn percentile_text(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}p")
}

fn unreadable(text: &str) -> SchemaError {
    configuration!("Invalid value {text} for option 'speculative_retry'")
}

fn same_kind(text: &str, kind: &str) -> SchemaError {
    configuration!(
        "Invalid value {text} for option 'speculative_retry': MIN()/MAX() arguments should be of \
         different types, but both are of type {kind}"
    )
}
