//! Collections, tuples, user types and vectors as bytes: borrowed iterators and writers.

use std::cmp::Ordering;

use super::compare::compare;
use super::error::ValueError;
use super::vint;
use crate::CqlType;

/// Takes a big-endian `i32` off the front; `None` when fewer than four bytes are left.
pub(crate) fn take_i32(input: &mut &[u8]) -> Option<i32> {
    let (head, rest) = input.split_first_chunk::<4>()?;
    *input = rest;
    Some(i32::from_be_bytes(*head))
}

/// Takes an element with its length: the outer `None` is "cut off", the inner one is null.
pub(crate) fn take_element<'a>(input: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = take_i32(input)?;
    let Ok(length) = usize::try_from(length) else {
        return Some(None);
    };
    let (element, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(Some(element))
}

/// How many elements an encoded list, set or map says it has; a negative count reads as none.
pub fn collection_length(bytes: &[u8]) -> Option<usize> {
    let mut input = bytes;
    take_i32(&mut input).map(|count| usize::try_from(count).unwrap_or(0))
}

/// The elements of an encoded list or set; null elements (which only lists of IN values may have)
/// are `None`.
#[derive(Clone, Debug)]
pub struct ListIter<'a> {
    rest: &'a [u8],
    left: usize,
    cut_off: bool,
    kind: &'static str,
}

impl<'a> ListIter<'a> {
    /// Over an encoded list.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::of_kind(bytes, "list")
    }

    /// Over an encoded set: the same bytes, another word in errors.
    pub fn set(bytes: &'a [u8]) -> Self {
        Self::of_kind(bytes, "set")
    }

    fn of_kind(bytes: &'a [u8], kind: &'static str) -> Self {
        let mut rest = bytes;
        let count = take_i32(&mut rest);
        let left = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Self { rest, left, cut_off: count.is_none(), kind }
    }

    /// How many elements are still to come, as the value says.
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// The bytes after the elements read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for ListIter<'a> {
    type Item = Result<Option<&'a [u8]>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cut_off {
            self.cut_off = false;
            return Some(Err(ValueError::CollectionTooShort(self.kind)));
        }
        self.left = self.left.checked_sub(1)?;
        match take_element(&mut self.rest) {
            Some(element) => Some(Ok(element)),
            None => {
                self.left = 0;
                Some(Err(ValueError::CollectionTooShort(self.kind)))
            }
        }
    }
}

/// The entries of an encoded map, in the order of the bytes.
#[derive(Clone, Debug)]
pub struct MapIter<'a> {
    rest: &'a [u8],
    left: usize,
    cut_off: bool,
}

impl<'a> MapIter<'a> {
    /// Over an encoded map.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut rest = bytes;
        let count = take_i32(&mut rest);
        let left = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Self { rest, left, cut_off: count.is_none() }
    }

    /// How many entries are still to come, as the value says.
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// The bytes after the entries read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self) -> Result<&'a [u8], ValueError> {
        match take_element(&mut self.rest) {
            Some(Some(element)) => Ok(element),
            Some(None) => Err(ValueError::NullElement),
            None => Err(ValueError::CollectionTooShort("map")),
        }
    }
}

impl<'a> Iterator for MapIter<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cut_off {
            self.cut_off = false;
            return Some(Err(ValueError::CollectionTooShort("map")));
        }
        self.left = self.left.checked_sub(1)?;
        let entry = self.take().and_then(|key| Ok((key, self.take()?)));
        if entry.is_err() {
            self.left = 0;
        }
        Some(entry)
    }
}

/// The components of an encoded tuple or user type, as many as the bytes hold: a value may have
/// fewer components than its type declares, the missing ones are null.
#[derive(Clone, Debug)]
pub struct TupleIter<'a> {
    rest: &'a [u8],
    index: usize,
}

impl<'a> TupleIter<'a> {
    /// Over an encoded tuple or user type.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, index: 0 }
    }

    /// The bytes after the components read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for TupleIter<'a> {
    type Item = Result<Option<&'a [u8]>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let index = self.index;
        self.index += 1;
        if self.rest.len() < 4 {
            self.rest = &[];
            return Some(Err(ValueError::TupleComponentLength(index)));
        }
        match take_element(&mut self.rest) {
            Some(component) => Some(Ok(component)),
            None => {
                self.rest = &[];
                Some(Err(ValueError::TupleComponent(index)))
            }
        }
    }
}

/// The elements of an encoded vector.
#[derive(Clone, Debug)]
pub struct VectorIter<'a> {
    rest: &'a [u8],
    left: usize,
    fixed: Option<usize>,
}

impl<'a> VectorIter<'a> {
    /// Over an encoded vector of that element type and dimension.
    pub fn new(element: &CqlType, dimension: u16, bytes: &'a [u8]) -> Self {
        let fixed = element.vector_element_length();
        Self { rest: bytes, left: usize::from(dimension), fixed }
    }

    /// The bytes after the elements read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self) -> Option<&'a [u8]> {
        let mut rest = self.rest;
        let length = match self.fixed {
            Some(length) => length,
            None => usize::try_from(vint::take_unsigned(&mut rest)?).ok()?,
        };
        let (element, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(element)
    }
}

impl<'a> Iterator for VectorIter<'a> {
    type Item = Result<&'a [u8], ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match self.take() {
            Some(element) => Some(Ok(element)),
            None => {
                self.left = 0;
                Some(Err(ValueError::CollectionTooShort("vector")))
            }
        }
    }
}

/// Appends a count the way collections carry it. A collection never has more than `i32::MAX`
/// elements, because each takes four bytes of a frame that is far smaller.
pub fn write_count(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
}

/// Appends one element or component with its length; `None` is null.
pub fn write_element(element: Option<&[u8]>, out: &mut Vec<u8>) {
    match element {
        Some(bytes) => {
            write_count(bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
}

/// Appends an encoded list.
pub fn write_list<E: AsRef<[u8]>>(elements: &[E], out: &mut Vec<u8>) {
    write_count(elements.len(), out);
    for element in elements {
        write_element(Some(element.as_ref()), out);
    }
}

/// Appends an encoded set: sorted by its type, of equal elements the first one stays.
pub fn write_set<E: AsRef<[u8]>>(element_type: &CqlType, elements: &mut Vec<E>, out: &mut Vec<u8>) {
    elements.sort_by(|a, b| compare(element_type, a.as_ref(), b.as_ref()));
    elements.dedup_by(|later, earlier| {
        compare(element_type, later.as_ref(), earlier.as_ref()) == Ordering::Equal
    });
    write_list(elements, out);
}

/// Appends an encoded map: sorted by key; of equal keys the first key stays, with the last value.
pub fn write_map<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    key_type: &CqlType,
    entries: &mut Vec<(K, V)>,
    out: &mut Vec<u8>,
) {
    write_map_with_nulls(key_type, entries, |value| Some(value.as_ref()), out);
}

/// Appends an encoded map whose values may be null, as select clauses make them.
pub fn write_map_with_nulls<K: AsRef<[u8]>, V>(
    key_type: &CqlType,
    entries: &mut Vec<(K, V)>,
    bytes: impl Fn(&V) -> Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    entries.sort_by(|a, b| compare(key_type, a.0.as_ref(), b.0.as_ref()));
    entries.dedup_by(|later, earlier| {
        let same = compare(key_type, later.0.as_ref(), earlier.0.as_ref()) == Ordering::Equal;
        if same {
            std::mem::swap(&mut later.1, &mut earlier.1);
        }
        same
    });
    write_count(entries.len(), out);
    for (key, value) in entries {
        write_element(Some(key.as_ref()), out);
        write_element(bytes(value), out);
    }
}

/// Appends an encoded tuple or user type.
pub fn write_tuple<E: AsRef<[u8]>>(components: &[Option<E>], out: &mut Vec<u8>) {
    for component in components {
        write_element(component.as_ref().map(AsRef::as_ref), out);
    }
}

/// Appends an encoded vector; the caller has checked the number of elements.
pub fn write_vector<E: AsRef<[u8]>>(element_type: &CqlType, elements: &[E], out: &mut Vec<u8>) {
    let fixed = element_type.vector_element_length().is_some();
    for element in elements {
        let bytes = element.as_ref();
        if !fixed {
            vint::write_unsigned(bytes.len() as u64, out);
        }
        out.extend_from_slice(bytes);
    }
}

/// A set or map received from a client, sorted and without duplicates, as Cassandra keeps it.
/// Other types, and values that are in order already, come back as `None`.
pub fn sorted_collection(ty: &CqlType, bytes: &[u8]) -> Result<Option<Vec<u8>>, ValueError> {
    match ty {
        CqlType::Set { element, .. } => {
            let mut elements = Vec::new();
            for item in ListIter::set(bytes) {
                elements.push(item?.ok_or(ValueError::NullElement)?);
            }
            let ordered = elements.is_sorted_by(|a, b| compare(element, a, b) == Ordering::Less);
            if ordered {
                return Ok(None);
            }
            let mut out = Vec::with_capacity(bytes.len());
            write_set(element, &mut elements, &mut out);
            Ok(Some(out))
        }
        CqlType::Map { key, .. } => {
            let mut entries = MapIter::new(bytes).collect::<Result<Vec<_>, _>>()?;
            if entries.is_sorted_by(|a, b| compare(key, a.0, b.0) == Ordering::Less) {
                return Ok(None);
            }
            let mut out = Vec::with_capacity(bytes.len());
            write_map(key, &mut entries, &mut out);
            Ok(Some(out))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn int(value: i32) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    fn ints(bytes: &[u8]) -> Vec<i32> {
        ListIter::new(bytes)
            .map(|item| i32::from_be_bytes(item.unwrap().unwrap().try_into().unwrap()))
            .collect()
    }

    #[test]
    fn sets_are_sorted_without_duplicates() {
        let mut out = Vec::new();
        write_set(&CqlType::Int, &mut vec![int(3), int(-1), int(3), int(2)], &mut out);
        assert_eq!(ints(&out), [-1, 2, 3]);
        // Of equal values the first one stays.
        let decimal = |text: &str| super::super::Decimal::parse(text).unwrap().to_bytes();
        let mut out = Vec::new();
        let mut elements = vec![decimal("1.0"), decimal("1.00")];
        write_set(&CqlType::Decimal, &mut elements, &mut out);
        assert_eq!(elements, [decimal("1.0")]);
    }

    #[test]
    fn the_last_value_of_a_key_stays() {
        let mut out = Vec::new();
        let mut entries = vec![(int(2), int(20)), (int(1), int(10)), (int(2), int(22))];
        write_map(&CqlType::Int, &mut entries, &mut out);
        let entries: Vec<_> = MapIter::new(&out).map(Result::unwrap).collect();
        assert_eq!(entries, [(&*int(1), &*int(10)), (&*int(2), &*int(22))]);
    }

    #[test]
    fn received_collections_are_put_in_order() {
        let set = CqlType::Set { element: Arc::new(CqlType::Int), frozen: true };
        let mut sorted = Vec::new();
        write_list(&[int(1), int(2)], &mut sorted);
        assert_eq!(sorted_collection(&set, &sorted), Ok(None));
        let mut unsorted = Vec::new();
        write_list(&[int(2), int(1), int(2)], &mut unsorted);
        assert_eq!(sorted_collection(&set, &unsorted), Ok(Some(sorted.clone())));
        let list = CqlType::List { element: Arc::new(CqlType::Int), frozen: true };
        assert_eq!(sorted_collection(&list, &unsorted), Ok(None));
    }

    #[test]
    fn what_is_cut_off_ends_with_an_error() {
        let mut bytes = Vec::new();
        write_list(&[int(1), int(2)], &mut bytes);
        for length in 0..bytes.len() {
            let items: Vec<_> = ListIter::new(&bytes[..length]).collect();
            assert!(items.last().is_some_and(Result::is_err), "{length}");
            assert!(items.len() <= 2);
        }
        let many = [0x7f, 0xff, 0xff, 0xff];
        assert_eq!(ListIter::new(&many).count(), 1);
        assert_eq!(MapIter::new(&many).count(), 1);
        assert_eq!(ListIter::new(&[0xff; 4]).count(), 0);
    }

    #[test]
    fn nulls_are_told_from_empty_values() {
        let mut bytes = Vec::new();
        write_tuple(&[None, Some(Vec::new()), Some(int(1))], &mut bytes);
        let components: Vec<_> = TupleIter::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(components, [None, Some(&[][..]), Some(&int(1)[..])]);
    }

    #[test]
    fn vectors_of_variable_elements_carry_lengths() {
        let mut bytes = Vec::new();
        write_vector(&CqlType::Text, &["a", "bcd"], &mut bytes);
        assert_eq!(bytes, b"\x01a\x03bcd");
        let elements: Vec<_> = VectorIter::new(&CqlType::Text, 2, &bytes).collect();
        assert_eq!(elements, [Ok(&b"a"[..]), Ok(&b"bcd"[..])]);
        let mut bytes = Vec::new();
        write_vector(&CqlType::Int, &[int(1), int(2)], &mut bytes);
        assert_eq!(bytes.len(), 8);
    }
}
