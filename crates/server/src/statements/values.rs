//! The values of a request in the form that plans take: no allocation for the usual few.

use plan::Value;

/// Values kept without an allocation.
const FEW: usize = 16;

/// The values of one statement.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one call; a box would be the allocation that it avoids"
)]
pub(super) enum Bound<'a> {
    Few { values: [Value<'a>; FEW], count: usize },
    Many(Vec<Value<'a>>),
    Named(Vec<(&'a str, Value<'a>)>),
}

impl<'a> Bound<'a> {
    pub(super) fn of(values: &protocol::Values<'a>) -> Bound<'a> {
        if values.is_named() {
            let named = values.iter_named().map(|(name, value)| (name, convert(value)));
            return Bound::Named(named.collect());
        }
        if values.count() > FEW {
            return Bound::Many(values.iter().map(convert).collect());
        }
        let mut few = [Value::Null; FEW];
        let mut count = 0;
        for (slot, value) in few.iter_mut().zip(values.iter()) {
            *slot = convert(value);
            count += 1;
        }
        Bound::Few { values: few, count }
    }
}

fn convert(value: protocol::Value<'_>) -> Value<'_> {
    match value {
        protocol::Value::Bytes(bytes) => Value::Bytes(bytes),
        protocol::Value::Null => Value::Null,
        protocol::Value::Unset => Value::Unset,
    }
}

impl plan::Values for Bound<'_> {
    fn count(&self) -> usize {
        match self {
            Bound::Few { count, .. } => *count,
            Bound::Many(values) => values.len(),
            Bound::Named(values) => values.len(),
        }
    }

    fn at(&self, index: usize) -> Option<Value<'_>> {
        match self {
            Bound::Few { values, count } => values.get(..*count)?.get(index).copied(),
            Bound::Many(values) => values.get(index).copied(),
            Bound::Named(values) => values.get(index).map(|(_, value)| *value),
        }
    }

    fn is_named(&self) -> bool {
        matches!(self, Bound::Named(_))
    }

    fn named(&self, name: &str) -> Option<Value<'_>> {
        match self {
            // The last one counts, as in Cassandra.
            Bound::Named(values) => {
                values.iter().rev().find(|(sent, _)| *sent == name).map(|(_, value)| *value)
            }
            Bound::Few { .. } | Bound::Many(_) => None,
        }
    }
}
