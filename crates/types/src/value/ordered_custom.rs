//! Bytes that sort as composites do: part by part, and a value before all that it begins.

use super::custom::{Component, Custom, Part};
use super::ordered::{
    MARK_END, OrderedError, Reader, decode_bytes, decode_value, encode_bytes, encode_value,
};

/// One more part follows.
const MARK_PART: u8 = 0x02;
/// What follows is no part: bytes that nobody checked.
const MARK_REST: u8 = 0x03;

/// Appends the body of a value that is not empty.
pub(super) fn encode(class: &str, bytes: &[u8], out: &mut Vec<u8>) {
    let custom = Custom::of(class);
    match custom {
        Custom::Composite(_) | Custom::Dynamic(_) => {}
        Custom::LexicalUuid => return encode_bytes(&flipped(bytes), out),
        Custom::PartitionerOrder | Custom::Other => return encode_bytes(bytes, out),
    }
    let mut rest = bytes;
    let mut index = 0;
    while !rest.is_empty() {
        let Ok(component) = custom.component(index, &mut rest) else {
            out.push(MARK_REST);
            return encode_bytes(rest, out);
        };
        encode_component(&custom, &component, out);
        index += 1;
    }
    out.push(MARK_END);
}

fn encode_component(custom: &Custom, component: &Component<'_>, out: &mut Vec<u8>) {
    let Component { part, header, value, end } = component;
    out.push(MARK_PART);
    if let Custom::Dynamic(_) = custom {
        // Parts of different types sort by the names of their classes.
        let reversed = if part.is_reversed { "ReversedType " } else { "" };
        encode_bytes(format!("{reversed}{}", part.class).as_bytes(), out);
        encode_bytes(header, out);
    }
    let start = out.len();
    encode_value(&part.ty, value, out);
    if part.is_reversed {
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
    out.push(end ^ 0x80);
}

/// Reads the body of a value that is not empty.
pub(super) fn decode(
    class: &str,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    let custom = Custom::of(class);
    match custom {
        Custom::Composite(_) | Custom::Dynamic(_) => {}
        Custom::LexicalUuid => {
            let mut bytes = Vec::new();
            decode_bytes(reader, &mut bytes)?;
            out.extend_from_slice(&flipped(&bytes));
            return Ok(());
        }
        Custom::PartitionerOrder | Custom::Other => return decode_bytes(reader, out),
    }
    let mut index = 0;
    loop {
        match reader.byte()? {
            MARK_END => return Ok(()),
            MARK_REST => return decode_bytes(reader, out),
            MARK_PART => {}
            other => return Err(OrderedError::UnknownMark(other)),
        }
        let part = read_part(&custom, index, reader, out)?;
        let mut value = Vec::new();
        let mask = if part.is_reversed { 0xff } else { 0 };
        reader.complemented(mask, |reader| decode_value(&part.ty, reader, &mut value))?;
        let length = u16::try_from(value.len()).map_err(|_| OrderedError::NumberRange)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&value);
        out.push(reader.byte()? ^ 0x80);
        index += 1;
    }
}

/// The type of the next part; that of a dynamic composite is written to `out`.
fn read_part(
    custom: &Custom,
    index: usize,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<Part, OrderedError> {
    let part = match custom {
        Custom::Composite(parts) => parts.get(index).cloned(),
        Custom::Dynamic(aliases) => {
            let (mut class, mut header) = (Vec::new(), Vec::new());
            decode_bytes(reader, &mut class)?;
            decode_bytes(reader, &mut header)?;
            out.extend_from_slice(&header);
            match header.as_slice() {
                [0x80, alias] => {
                    let found = aliases.iter().find(|(known, _)| known == alias);
                    found.map(|(_, part)| part.clone())
                }
                [_, _, name @ ..] => std::str::from_utf8(name).ok().and_then(Part::named),
                _ => None,
            }
        }
        _ => None,
    };
    part.ok_or(OrderedError::UnknownMark(MARK_PART))
}

/// Java compares both halves of a uuid as signed numbers.
fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() == 16 {
        bytes.iter_mut().step_by(8).for_each(|byte| *byte ^= 0x80);
    }
    bytes
}
