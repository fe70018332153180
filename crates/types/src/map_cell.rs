//! What the cell of a map's entry holds.
//!
//! Its path is the key in byte-comparable form, which says what is equal and what comes first, but
//! not always how the key was written: the decimals `1.0` and `1.00` have one path. Where the type of
//! the key allows such forms, the value of every cell begins with the key as it was written: its
//! length (LEB128; 0 when the path gives the key back), the key, then the value of the entry. The key
//! that a client sees is that of the newest write, as in Cassandra.

use std::borrow::Cow;

use crate::cql_type::CqlType;
use crate::row::{CorruptRow, push_counted, take_counted};
use crate::value::is_canonical;

/// The value of the cell for an entry of a map.
pub fn map_cell<'v>(key_type: &CqlType, key: &[u8], value: &'v [u8]) -> Cow<'v, [u8]> {
    if !has_other_forms(key_type) {
        return Cow::Borrowed(value);
    }
    let original = if is_canonical(key_type, key) { &[] } else { key };
    let mut out = Vec::with_capacity(original.len() + value.len() + 1);
    push_counted(&mut out, original);
    out.extend_from_slice(value);
    Cow::Owned(out)
}

/// Takes such a value apart: the key as it was written, where the path cannot give it back, and the
/// value of the entry.
pub fn split_map_cell<'v>(
    key_type: &CqlType,
    cell: &'v [u8],
) -> Result<(Option<&'v [u8]>, &'v [u8]), CorruptRow> {
    if !has_other_forms(key_type) {
        return Ok((None, cell));
    }
    let (key, value) = take_counted(cell)?;
    Ok(((!key.is_empty()).then_some(key), value))
}

/// Whether two values of a type may be equal and yet written differently.
fn has_other_forms(ty: &CqlType) -> bool {
    ty.contains(&|part| {
        matches!(
            part,
            CqlType::Boolean
                | CqlType::Decimal
                | CqlType::Double
                | CqlType::Float
                | CqlType::Tuple(_)
                | CqlType::User { .. }
                | CqlType::Varint
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key_type: &CqlType, key: &[u8], original: Option<&[u8]>) {
        let cell = map_cell(key_type, key, b"v");
        assert_eq!(split_map_cell(key_type, &cell), Ok((original, b"v".as_slice())));
    }

    #[test]
    fn a_key_is_kept_where_its_path_cannot_give_it_back() {
        let (one, one_with_scale) = ([0, 0, 0, 0, 1], [0, 0, 0, 2, 100]);
        check(&CqlType::Decimal, &one, None);
        check(&CqlType::Decimal, &one_with_scale, Some(&one_with_scale));
        check(&CqlType::Int, &[0, 0, 0, 1], None);
        assert_eq!(map_cell(&CqlType::Int, &[0, 0, 0, 1], b"v"), b"v".as_slice());
    }

    #[test]
    fn a_cut_cell_is_an_error() {
        assert_eq!(split_map_cell(&CqlType::Decimal, &[5, 0]), Err(CorruptRow));
        assert_eq!(split_map_cell(&CqlType::Decimal, &[]), Err(CorruptRow));
    }
}
