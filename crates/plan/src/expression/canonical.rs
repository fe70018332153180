//! Values of markers as Cassandra keeps them. It reads collections element by element and writes them anew,
//! sets and maps sorted, also those that lie within; tuples and user types, wherever they are, and a vector that
//! is the value itself stay as the client sent them.

use std::borrow::Cow;

use types::CqlType;
use types::value::collection::{sorted_collection, write_count, write_element};
use types::value::{ListIter, MapIter, ValueError, VectorIter, write_map, write_set, write_vector};

/// Whether values of a type may have to be sorted.
fn is_sortable(ty: &CqlType) -> bool {
    match ty {
        CqlType::Set { .. } | CqlType::Map { .. } => true,
        CqlType::List { element, .. } | CqlType::Vector { element, .. } => is_sortable(element),
        _ => false,
    }
}

/// A valid value of a marker in the order Cassandra keeps it; borrowed where it has it already.
pub(super) fn canonical<'v>(ty: &CqlType, bytes: &'v [u8]) -> Result<Cow<'v, [u8]>, ValueError> {
    if matches!(ty, CqlType::Vector { .. }) {
        return Ok(Cow::Borrowed(bytes));
    }
    canonical_part(ty, bytes)
}

fn canonical_part<'v>(ty: &CqlType, bytes: &'v [u8]) -> Result<Cow<'v, [u8]>, ValueError> {
    let sorted = match ty {
        CqlType::Set { element, .. } if is_sortable(element) => {
            let mut elements = Vec::new();
            for item in ListIter::set(bytes) {
                elements.push(canonical_part(element, item?.unwrap_or_default())?);
            }
            built(|out| write_set(element, &mut elements, out))
        }
        CqlType::Map { key, value, .. } if is_sortable(key) || is_sortable(value) => {
            let mut entries = Vec::new();
            for entry in MapIter::new(bytes) {
                let (entry_key, entry_value) = entry?;
                entries
                    .push((canonical_part(key, entry_key)?, canonical_part(value, entry_value)?));
            }
            built(|out| write_map(key, &mut entries, out))
        }
        CqlType::Set { .. } | CqlType::Map { .. } => sorted_collection(ty, bytes)?,
        CqlType::List { element, .. } if is_sortable(element) => {
            let mut elements = Vec::new();
            for item in ListIter::new(bytes) {
                elements.push(item?.map(|item| canonical_part(element, item)).transpose()?);
            }
            built(|out| {
                write_count(elements.len(), out);
                elements.iter().for_each(|element| write_element(element.as_deref(), out));
            })
        }
        CqlType::Vector { element, dimension } if is_sortable(element) => {
            let mut elements = Vec::new();
            for item in VectorIter::new(element, *dimension, bytes) {
                elements.push(canonical_part(element, item?)?);
            }
            built(|out| write_vector(element, &elements, out))
        }
        _ => None,
    };
    Ok(sorted.map_or(Cow::Borrowed(bytes), Cow::Owned))
}

fn built(write: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write(&mut out);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_inside_of_lists_are_sorted() {
        let set = CqlType::Set { element: CqlType::TinyInt.into(), frozen: true };
        let list = CqlType::List { element: set.into(), frozen: true };
        let value = |first: u8, second: u8| {
            let mut set = vec![0, 0, 0, 2, 0, 0, 0, 1, first, 0, 0, 0, 1, second];
            let mut bytes = vec![0, 0, 0, 1, 0, 0, 0, 14];
            bytes.append(&mut set);
            bytes
        };
        assert_eq!(canonical(&list, &value(2, 1)).unwrap().as_ref(), value(1, 2));
        assert_eq!(canonical(&CqlType::Int, &[1, 2]).unwrap(), Cow::Borrowed([1, 2].as_slice()));
    }
    #[test]
    fn what_lies_in_tuples_and_in_a_vector_stays_as_it_was_sent() {
        let set = CqlType::Set { element: CqlType::TinyInt.into(), frozen: true };
        let elements = [0, 0, 0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1];
        let sorted = [0, 0, 0, 2, 0, 0, 0, 1, 1, 0, 0, 0, 1, 2];
        let check = |ty: &CqlType, head: &[u8], expected: [u8; 14]| {
            let value = [head, &elements].concat();
            assert_eq!(*canonical(ty, &value).unwrap(), *[head, &expected].concat(), "{ty:?}");
        };
        let tuple = CqlType::Tuple(vec![set.clone()].into());
        check(&tuple, &[0, 0, 0, 14], elements);
        let list = CqlType::List { element: tuple.into(), frozen: true };
        check(&list, &[0, 0, 0, 1, 0, 0, 0, 18, 0, 0, 0, 14], elements);
        let vector = CqlType::Vector { element: set.into(), dimension: 1 };
        check(&vector, &[14], elements);
        let list = CqlType::List { element: vector.into(), frozen: true };
        check(&list, &[0, 0, 0, 1, 0, 0, 0, 15, 14], sorted);
    }
}
