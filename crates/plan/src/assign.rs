//! Which type's values another type may read: Cassandra's compatibility of types.

use types::CqlType;

use crate::function::Fit;

/// How well a value of type `from` fits a receiver of type `to`. Frozen or not makes no difference
/// to a value.
pub(crate) fn fit(from: &CqlType, to: &CqlType) -> Fit {
    if same(from, to) {
        Fit::Exact
    } else if reads(to, from) {
        Fit::Weak
    } else {
        Fit::No
    }
}

/// Whether two types are the same, frozen or not.
pub(crate) fn same(a: &CqlType, b: &CqlType) -> bool {
    a == b || a.freeze() == b.freeze()
}

/// Whether `reader` accepts every value of `written`.
fn reads(reader: &CqlType, written: &CqlType) -> bool {
    use CqlType as T;
    match (reader, written) {
        (T::Blob, _)
        | (T::Text, T::Ascii)
        | (T::Uuid, T::TimeUuid)
        | (T::BigInt, T::Timestamp)
        | (T::Timestamp, T::BigInt)
        | (T::Time, T::BigInt)
        | (T::Date, T::Int)
        | (T::Varint, T::Int | T::BigInt | T::Timestamp) => true,
        (T::List { element, .. }, T::List { element: other, .. }) => same_or_reads(element, other),
        (T::Set { element, .. }, T::Set { element: other, .. }) => sorts_alike(element, other),
        (T::Map { key, value, .. }, T::Map { key: other_key, value: other_value, .. }) => {
            sorts_alike(key, other_key) && same_or_reads(value, other_value)
        }
        (T::Tuple(parts), T::Tuple(others)) => all_read(parts.iter(), others.iter()),
        (T::User { definition, .. }, T::User { definition: other, .. }) => {
            definition.name == other.name
                && definition.keyspace == other.keyspace
                && all_read(
                    definition.fields.iter().map(|(_, ty)| ty),
                    other.fields.iter().map(|(_, ty)| ty),
                )
        }
        (T::Tuple(parts), T::User { definition, .. }) => {
            all_read(parts.iter(), definition.fields.iter().map(|(_, ty)| ty))
        }
        (
            T::Vector { element, dimension },
            T::Vector { element: other, dimension: other_dimension },
        ) => dimension == other_dimension && same(element, other),
        _ => false,
    }
}

fn same_or_reads(reader: &CqlType, written: &CqlType) -> bool {
    same(reader, written) || reads(reader, written)
}

/// Whether values of both types can share one sorted structure.
fn sorts_alike(a: &CqlType, b: &CqlType) -> bool {
    same(a, b)
        || matches!(
            (a, b),
            (CqlType::Text, CqlType::Ascii) | (CqlType::Blob, CqlType::Ascii | CqlType::Text)
        )
}

/// Components may be added at the end, but not go missing.
fn all_read<'t>(
    mut readers: impl Iterator<Item = &'t CqlType>,
    written: impl Iterator<Item = &'t CqlType>,
) -> bool {
    for other in written {
        match readers.next() {
            Some(reader) if same_or_reads(reader, other) => {}
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_what_reads_them() {
        use CqlType as T;
        for (from, to, expected) in [
            (T::Int, T::Int, Fit::Exact),
            (T::Int, T::Varint, Fit::Weak),
            (T::Int, T::BigInt, Fit::No),
            (T::Ascii, T::Text, Fit::Weak),
            (T::Text, T::Ascii, Fit::No),
            (T::Double, T::Blob, Fit::Weak),
            (
                T::List { element: T::Int.into(), frozen: true },
                T::List { element: T::Int.into(), frozen: false },
                Fit::Exact,
            ),
        ] {
            assert_eq!(fit(&from, &to), expected, "{from} to {to}");
        }
    }
}
