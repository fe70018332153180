//! The values of a request in the form that plans take: no allocation for the usual few.

use std::collections::HashMap;

use plan::Value;

/// Values kept without an allocation.
const FEW: usize = 16;

/// The values of one statement.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one call; a box would be the allocation that it avoids"
)]
pub(super) enum Bound<'a> {
    Few {
        values: [Value<'a>; FEW],
        count: usize,
    },
    Many(Vec<Value<'a>>),
    /// In the order they came, and by name the place of each.
    Named(Vec<Value<'a>>, HashMap<&'a str, usize>),
}

impl<'a> Bound<'a> {
    pub(super) fn of(values: &protocol::Values<'a>) -> Bound<'a> {
        if values.is_named() {
            // Of two values of one name the last one counts, as in Cassandra.
            let names = values.iter_named().enumerate();
            let places = names.map(|(place, (name, _))| (name, place)).collect();
            return Bound::Named(values.iter_named().map(|it| convert(it.1)).collect(), places);
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
            Bound::Many(values) | Bound::Named(values, _) => values.len(),
        }
    }

    fn at(&self, index: usize) -> Option<Value<'_>> {
        match self {
            Bound::Few { values, count } => values.get(..*count)?.get(index).copied(),
            Bound::Many(values) | Bound::Named(values, _) => values.get(index).copied(),
        }
    }

    fn is_named(&self) -> bool {
        matches!(self, Bound::Named(..))
    }

    fn named(&self, name: &str) -> Option<Value<'_>> {
        match self {
            Bound::Named(values, places) => values.get(*places.get(name)?).copied(),
            Bound::Few { .. } | Bound::Many(_) => None,
        }
    }
}
