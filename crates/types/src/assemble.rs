//! From the cells of a multi-cell column back to the one value that clients see.

use crate::cql_type::CqlType;
use crate::map_cell::split_map_cell;
use crate::row::{CellRef, CorruptRow};
use crate::value::decode_ordered;

/// Appends the protocol's form of a collection or user type to `out`, from the live cells of its
/// column in order. `false` when there is no cell: the column is null, and nothing was appended.
pub fn assemble<'a>(
    cql_type: &CqlType,
    cells: impl Iterator<Item = CellRef<'a>>,
    out: &mut Vec<u8>,
) -> Result<bool, CorruptRow> {
    if let CqlType::User { definition, .. } = cql_type {
        return assemble_fields(definition.fields.len(), cells, out);
    }
    let count_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count: i32 = 0;
    for cell in cells {
        let path = cell.path.ok_or(CorruptRow)?;
        match cql_type {
            CqlType::List { .. } => push_value(out, cell.value())?,
            CqlType::Set { .. } if !cell.value().is_empty() => push_value(out, cell.value())?,
            CqlType::Set { element, .. } => push_path(element, path, out)?,
            CqlType::Map { key, .. } => {
                let (original, value) = split_map_cell(key, cell.value())?;
                match original {
                    Some(original) => push_value(out, original)?,
                    None => push_path(key, path, out)?,
                }
                push_value(out, value)?;
            }
            _ => return Err(CorruptRow),
        }
        count = count.checked_add(1).ok_or(CorruptRow)?;
    }
    if count == 0 {
        out.truncate(count_at);
        return Ok(false);
    }
    patch(out, count_at, count);
    Ok(true)
}

fn assemble_fields<'a>(
    field_count: usize,
    cells: impl Iterator<Item = CellRef<'a>>,
    out: &mut Vec<u8>,
) -> Result<bool, CorruptRow> {
    let start = out.len();
    let mut next = 0;
    for cell in cells {
        let index = cell.path.and_then(|path| <[u8; 2]>::try_from(path).ok()).ok_or(CorruptRow)?;
        let index = usize::from(u16::from_be_bytes(index));
        if index < next || index >= field_count {
            return Err(CorruptRow);
        }
        push_nulls(out, index - next);
        push_value(out, cell.value())?;
        next = index + 1;
    }
    if out.len() == start {
        return Ok(false);
    }
    push_nulls(out, field_count - next);
    Ok(true)
}

fn push_nulls(out: &mut Vec<u8>, count: usize) {
    for _ in 0..count {
        out.extend_from_slice(&(-1i32).to_be_bytes());
    }
}

fn push_value(out: &mut Vec<u8>, value: &[u8]) -> Result<(), CorruptRow> {
    let length = i32::try_from(value.len()).map_err(|_| CorruptRow)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// The element that a path encodes, with its length before it.
fn push_path(cql_type: &CqlType, mut path: &[u8], out: &mut Vec<u8>) -> Result<(), CorruptRow> {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    decode_ordered(cql_type, false, &mut path, out).map_err(|_| CorruptRow)?;
    let length = i32::try_from(out.len() - length_at - 4).map_err(|_| CorruptRow)?;
    patch(out, length_at, length);
    Ok(())
}

fn patch(out: &mut [u8], at: usize, number: i32) {
    if let Some(slot) = out.get_mut(at..at + 4) {
        slot.copy_from_slice(&number.to_be_bytes());
    }
}
