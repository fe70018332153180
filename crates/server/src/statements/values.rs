//! The values of a request in the form that plans take: no allocation for the usual few.

use std::collections::HashMap;

use plan::Value;
use smallvec::SmallVec;

/// Values kept without an allocation.
const FEW: usize = 16;

/// The values of one statement.
#[derive(Default)]
pub(super) struct Bound<'a> {
    /// In the order they came.
    values: SmallVec<[Value<'a>; FEW]>,
    /// By name the place of each, where they have names.
    places: Option<HashMap<&'a str, usize>>,
}

impl<'a> Bound<'a> {
    /// Takes the values of a request. It is filled where it lies: moved, it would be copied with all of its room.
    pub(super) fn fill(&mut self, values: &protocol::Values<'a>) {
        if values.is_named() {
            // Of two values of one name the last one counts, as in Cassandra.
            let names = values.iter_named().enumerate();
            self.places = Some(names.map(|(place, (name, _))| (name, place)).collect());
            self.values.extend(values.iter_named().map(|(_, value)| convert(value)));
            return;
        }
        self.values.reserve(values.count());
        values.iter().for_each(|value| self.values.push(convert(value)));
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
        self.values.len()
    }

    fn at(&self, index: usize) -> Option<Value<'_>> {
        self.values.get(index).copied()
    }

    fn is_named(&self) -> bool {
        self.places.is_some()
    }

    fn named(&self, name: &str) -> Option<Value<'_>> {
        self.values.get(*self.places.as_ref()?.get(name)?).copied()
    }
}
