//! Values as Cassandra keeps them: sets and maps sorted, however deep they lie.

use std::borrow::Cow;

use types::CqlType;
use types::value::collection::{sorted_collection, write_count, write_element};
use types::value::{
    ListIter, MapIter, TupleIter, ValueError, VectorIter, write_map, write_set, write_vector,
};

/// Whether values of a type may have to be sorted.
fn is_sortable(ty: &CqlType) -> bool {
    match ty {
        CqlType::Set { .. } | CqlType::Map { .. } => true,
        CqlType::List { element, .. } | CqlType::Vector { element, .. } => is_sortable(element),
        CqlType::Tuple(parts) => parts.iter().any(is_sortable),
        CqlType::User { definition, .. } => definition.fields.iter().any(|(_, ty)| is_sortable(ty)),
        _ => false,
    }
}

/// A valid value in the order Cassandra keeps it; borrowed where it has it already.
pub(super) fn canonical<'v>(ty: &CqlType, bytes: &'v [u8]) -> Result<Cow<'v, [u8]>, ValueError> {
    let sorted = match ty {
        CqlType::Set { element, .. } if is_sortable(element) => {
            let mut elements = Vec::new();
            for item in ListIter::set(bytes) {
                elements.push(canonical(element, item?.unwrap_or_default())?);
            }
            built(|out| write_set(element, &mut elements, out))
        }
        CqlType::Map { key, value, .. } if is_sortable(key) || is_sortable(value) => {
            let mut entries = Vec::new();
            for entry in MapIter::new(bytes) {
                let (entry_key, entry_value) = entry?;
                entries.push((canonical(key, entry_key)?, canonical(value, entry_value)?));
            }
            built(|out| write_map(key, &mut entries, out))
        }
        CqlType::Set { .. } | CqlType::Map { .. } => sorted_collection(ty, bytes)?,
        CqlType::List { element, .. } if is_sortable(element) => {
            let mut elements = Vec::new();
            for item in ListIter::new(bytes) {
                elements.push(item?.map(|item| canonical(element, item)).transpose()?);
            }
            built(|out| {
                write_count(elements.len(), out);
                elements.iter().for_each(|element| write_element(element.as_deref(), out));
            })
        }
        CqlType::Vector { element, dimension } if is_sortable(element) => {
            let mut elements = Vec::new();
            for item in VectorIter::new(element, *dimension, bytes) {
                elements.push(canonical(element, item?)?);
            }
            built(|out| write_vector(element, &elements, out))
        }
        CqlType::Tuple(parts) if is_sortable(ty) => canonical_tuple(parts.iter(), bytes)?,
        CqlType::User { definition, .. } if is_sortable(ty) => {
            canonical_tuple(definition.fields.iter().map(|(_, ty)| ty), bytes)?
        }
        _ => None,
    };
    Ok(sorted.map_or(Cow::Borrowed(bytes), Cow::Owned))
}

fn canonical_tuple<'t>(
    types: impl Iterator<Item = &'t CqlType>,
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, ValueError> {
    let mut out = Vec::with_capacity(bytes.len());
    for (component, ty) in TupleIter::new(bytes).zip(types) {
        let component = component?.map(|component| canonical(ty, component)).transpose()?;
        write_element(component.as_deref(), &mut out);
    }
    Ok(Some(out))
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
}
