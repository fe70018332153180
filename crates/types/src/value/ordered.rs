//! Bytes that sort as their values do: the encoding of key columns in the trees.
//!
//! For valid values of one type, the byte order of encodings is the order of
//! [`compare`](super::compare), equal encodings mean equal values, and no encoding is a prefix of
//! another. So the encodings of several columns, one after the other, sort column by column, and a
//! prefix of columns sorts before everything that starts with it.
//!
//! | value | ascending bytes |
//! |---|---|
//! | end of a list, set, map, tuple or user type | `01` |
//! | null inside of one of these | `02` |
//! | a value of zero bytes | `03` |
//! | any other value | `04`, then its body |
//!
//! | type | body |
//! |---|---|
//! | integers, timestamp | big-endian with the sign bit flipped |
//! | boolean | `00` or `01` |
//! | float, double | big-endian; the sign bit of positive numbers and all bits of negative ones flipped |
//! | date, time | as they are |
//! | timeuuid, uuid | 16 bytes, time or version first |
//! | text, ascii, blob, inet, duration | `00` becomes `00 FF`; closed by `00 00` |
//! | varint | sign and length in one byte (or five), then the significant bytes |
//! | decimal | sign, exponent in eight bytes, pairs of digits plus one, closed by `00` |
//! | list, set, map, tuple, user type | each element encoded, closed by `01` |
//! | vector | each element encoded |
//! | composite | `02` and each part encoded, with the byte behind it; closed by `01` |
//!
//! Descending columns hold the complement of every byte. The first byte of any encoding is
//! therefore one of 01–04 or FB–FE: 00 and FF are free for the bounds of ranges.

use std::cell::RefCell;

use super::collection::{self, ListIter, TupleIter, VectorIter, take_element};
use super::compare::{f32_rank, f64_rank, restore_time, split_uuid, timeuuid_rank, uuid_rank};
use super::{ordered_custom, ordered_number};
use crate::CqlType;

pub(super) const MARK_END: u8 = 0x01;
const MARK_NULL: u8 = 0x02;
const MARK_EMPTY: u8 = 0x03;
const MARK_VALUE: u8 = 0x04;

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const TERMINATOR: u8 = 0x00;

/// What is kept of the memory that values are decoded into only to be measured.
const MEASURED_BYTES_KEPT: usize = 4096;

/// Bytes that no encoder wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedError {
    /// The input ends within a value.
    CutOff,
    /// A byte that has no meaning where it stands.
    UnknownMark(u8),
    /// A number outside of what a value can hold.
    NumberRange,
}

impl std::fmt::Display for OrderedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CutOff => f.write_str("ordered value is cut off"),
            Self::UnknownMark(mark) => write!(f, "ordered value has unknown mark {mark:#04x}"),
            Self::NumberRange => f.write_str("ordered value holds a number out of range"),
        }
    }
}

impl std::error::Error for OrderedError {}

/// Appends the encoding of a valid value. A value of the wrong length for its type is cut or
/// padded, so that the encoding stays readable.
pub fn encode_ordered(ty: &CqlType, bytes: &[u8], descending: bool, out: &mut Vec<u8>) {
    let start = out.len();
    encode_value(ty, bytes, out);
    if descending {
        for byte in out.iter_mut().skip(start) {
            *byte = !*byte;
        }
    }
}

/// Takes one encoding off the input and appends the value it stands for.
pub fn decode_ordered(
    ty: &CqlType,
    descending: bool,
    input: &mut &[u8],
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    let mask = if descending { 0xff } else { 0 };
    // The commonest clustering columns, in one step.
    if let CqlType::BigInt | CqlType::Timestamp = ty
        && let Some(([mark, body @ ..], rest)) = input.split_first_chunk::<9>()
        && mark ^ mask == MARK_VALUE
    {
        let complement = if descending { u64::MAX } else { 0 };
        let value = u64::from_be_bytes(*body) ^ complement ^ (1 << 63);
        out.extend_from_slice(&value.to_be_bytes());
        *input = rest;
        return Ok(());
    }
    let mut reader = Reader { input, mask };
    decode_value(ty, &mut reader, out)?;
    *input = reader.input;
    Ok(())
}

/// Takes one encoding off the input and says how many bytes the value has that it stands for, without
/// decoding it where that can be seen.
pub fn ordered_length(
    ty: &CqlType,
    descending: bool,
    input: &mut &[u8],
) -> Result<usize, OrderedError> {
    let mask = if descending { 0xff } else { 0 };
    let mark = input.first().map(|first| first ^ mask);
    let body_length = match ty {
        // Its elements are marked one by one.
        CqlType::Vector { .. } => None,
        _ => ty.fixed_length(),
    };
    match (mark, body_length) {
        (Some(MARK_EMPTY), _) => {
            *input = input.get(1..).unwrap_or_default();
            Ok(0)
        }
        (Some(MARK_VALUE), Some(length)) => {
            *input = input.get(1 + length..).ok_or(OrderedError::CutOff)?;
            Ok(length)
        }
        _ => {
            thread_local! {
                static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
            }
            VALUE.with_borrow_mut(|value| {
                value.clear();
                decode_ordered(ty, descending, input, value)?;
                let length = value.len();
                value.shrink_to(MEASURED_BYTES_KEPT);
                Ok(length)
            })
        }
    }
}

/// Whether decoding the encoding of these bytes gives these bytes back. Where it does not, the
/// value is equal to what comes back, but written differently: `1.00` and `1`, a number with
/// redundant sign bytes, a tuple with trailing nulls.
pub fn is_canonical(ty: &CqlType, bytes: &[u8]) -> bool {
    match ty {
        CqlType::Ascii | CqlType::Blob | CqlType::Duration | CqlType::Inet | CqlType::Text => true,
        CqlType::BigInt
        | CqlType::Counter
        | CqlType::Date
        | CqlType::Int
        | CqlType::SmallInt
        | CqlType::Time
        | CqlType::Timestamp
        | CqlType::TimeUuid
        | CqlType::TinyInt
        | CqlType::Uuid => bytes.is_empty() || ty.fixed_length() == Some(bytes.len()),
        CqlType::Boolean => matches!(bytes, [] | [0 | 1]),
        CqlType::Empty => bytes.is_empty(),
        CqlType::Varint => super::varint::significant(bytes).len() == bytes.len(),
        CqlType::Decimal
        | CqlType::Double
        | CqlType::Float
        | CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::User { .. }
        | CqlType::Vector { .. }
        | CqlType::Custom(_) => {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode_ordered(ty, bytes, false, &mut encoded);
            let read = decode_ordered(ty, false, &mut encoded.as_slice(), &mut decoded);
            read.is_ok() && decoded == bytes
        }
    }
}

pub(super) fn encode_value(ty: &CqlType, bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.is_empty() {
        out.push(MARK_EMPTY);
        return;
    }
    out.push(MARK_VALUE);
    match ty {
        CqlType::Int => out.extend_from_slice(&flip_sign(sized::<4>(bytes))),
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp => {
            out.extend_from_slice(&flip_sign(sized::<8>(bytes)));
        }
        CqlType::SmallInt => out.extend_from_slice(&flip_sign(sized::<2>(bytes))),
        CqlType::TinyInt => out.extend_from_slice(&flip_sign(sized::<1>(bytes))),
        CqlType::Date => out.extend_from_slice(&sized::<4>(bytes)),
        CqlType::Time => out.extend_from_slice(&sized::<8>(bytes)),
        CqlType::Boolean => out.push(u8::from(bytes.first() != Some(&0))),
        CqlType::Float => {
            let rank = f32_rank(f32::from_be_bytes(sized::<4>(bytes)));
            out.extend_from_slice(&rank.to_be_bytes());
        }
        CqlType::Double => {
            let rank = f64_rank(f64::from_be_bytes(sized::<8>(bytes)));
            out.extend_from_slice(&rank.to_be_bytes());
        }
        CqlType::TimeUuid => encode_uuid(bytes, timeuuid_rank, out),
        CqlType::Uuid => encode_uuid(bytes, uuid_rank, out),
        CqlType::Ascii | CqlType::Blob | CqlType::Duration | CqlType::Inet | CqlType::Text => {
            encode_bytes(bytes, out)
        }
        CqlType::Custom(class) => ordered_custom::encode(class, bytes, out),
        // No value but the empty one; whatever comes is equal to it.
        CqlType::Empty => {
            out.pop();
            out.push(MARK_EMPTY);
        }
        CqlType::Varint => ordered_number::encode_varint(bytes, out),
        CqlType::Decimal => ordered_number::encode_decimal(bytes, out),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            for item in ListIter::new(bytes).map_while(Result::ok) {
                encode_nullable(element, item, out);
            }
            out.push(MARK_END);
        }
        CqlType::Map { key, value, .. } => encode_map(key, value, bytes, out),
        CqlType::Tuple(types) => encode_tuple(types.iter(), bytes, out),
        CqlType::User { definition, .. } => {
            encode_tuple(definition.fields.iter().map(|(_, ty)| ty), bytes, out);
        }
        CqlType::Vector { element, dimension } => {
            let mut elements = VectorIter::new(element, *dimension, bytes).map_while(Result::ok);
            for _ in 0..*dimension {
                encode_value(element, elements.next().unwrap_or(&[]), out);
            }
        }
    }
}

fn encode_nullable(ty: &CqlType, value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(bytes) => encode_value(ty, bytes, out),
        None => out.push(MARK_NULL),
    }
}

fn encode_map(key: &CqlType, value: &CqlType, bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes.get(4..).unwrap_or(&[]);
    for _ in 0..collection::collection_length(bytes).unwrap_or(0) {
        let pair = (take_element(&mut rest), take_element(&mut rest));
        let (Some(entry_key), Some(entry_value)) = pair else { break };
        encode_nullable(key, entry_key, out);
        encode_nullable(value, entry_value, out);
    }
    out.push(MARK_END);
}

/// Trailing nulls are left out: a missing component equals a null one.
fn encode_tuple<'t>(types: impl Iterator<Item = &'t CqlType>, bytes: &[u8], out: &mut Vec<u8>) {
    let mut end = out.len();
    for (ty, component) in types.zip(TupleIter::new(bytes).map_while(Result::ok)) {
        encode_nullable(ty, component, out);
        if component.is_some() {
            end = out.len();
        }
    }
    out.truncate(end);
    out.push(MARK_END);
}

fn encode_uuid(bytes: &[u8], rank: fn(u64, u64) -> (u64, u64), out: &mut Vec<u8>) {
    let (upper, lower) = split_uuid(&sized::<16>(bytes)).unwrap_or((0, 0));
    let (upper, lower) = rank(upper, lower);
    out.extend_from_slice(&upper.to_be_bytes());
    out.extend_from_slice(&lower.to_be_bytes());
}

pub(super) fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    let mut rest = bytes;
    // Zero bytes are rare: copy whole runs between them.
    while let Some(at) = find(ESCAPE, rest) {
        let (run, tail) = rest.split_at(at);
        out.extend_from_slice(run);
        out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        rest = tail.get(1..).unwrap_or(&[]);
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[ESCAPE, TERMINATOR]);
}

/// The first place of a byte: whole chunks without it are passed over quickly.
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let (chunks, _) = bytes.as_chunks::<32>();
    let clear = chunks
        .iter()
        .take_while(|chunk| chunk.iter().fold(0, |found, b| found | u8::from(*b == byte)) == 0)
        .count();
    let start = clear * 32;
    let rest = bytes.get(start..)?;
    rest.iter().position(|b| *b == byte).map(|at| start + at)
}

/// Exactly `N` bytes: valid values have them already.
fn sized<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or_else(|_| {
        let mut array = [0; N];
        for (target, source) in array.iter_mut().zip(bytes) {
            *target = *source;
        }
        array
    })
}

fn flip_sign<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    if let Some(first) = bytes.first_mut() {
        *first ^= 0x80;
    }
    bytes
}

/// The input with every byte complemented where the column descends.
pub(super) struct Reader<'a> {
    input: &'a [u8],
    mask: u8,
}

impl Reader<'_> {
    /// Reads something whose bytes are complemented once more.
    pub(super) fn complemented<T>(&mut self, mask: u8, read: impl FnOnce(&mut Self) -> T) -> T {
        self.mask ^= mask;
        let outcome = read(self);
        self.mask ^= mask;
        outcome
    }

    pub(super) fn byte(&mut self) -> Result<u8, OrderedError> {
        let (&first, rest) = self.input.split_first().ok_or(OrderedError::CutOff)?;
        self.input = rest;
        Ok(first ^ self.mask)
    }

    fn peek(&self) -> Result<u8, OrderedError> {
        self.input.first().map(|first| first ^ self.mask).ok_or(OrderedError::CutOff)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], OrderedError> {
        let (head, rest) = self.input.split_first_chunk::<N>().ok_or(OrderedError::CutOff)?;
        self.input = rest;
        Ok(head.map(|byte| byte ^ self.mask))
    }

    pub(super) fn copy(&mut self, length: usize, out: &mut Vec<u8>) -> Result<(), OrderedError> {
        let (head, rest) = self.input.split_at_checked(length).ok_or(OrderedError::CutOff)?;
        self.input = rest;
        let start = out.len();
        out.extend_from_slice(head);
        if self.mask != 0 {
            out.iter_mut().skip(start).for_each(|byte| *byte ^= self.mask);
        }
        Ok(())
    }
}

pub(super) fn decode_value(
    ty: &CqlType,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    match reader.byte()? {
        MARK_EMPTY => return Ok(()),
        MARK_VALUE => {}
        other => return Err(OrderedError::UnknownMark(other)),
    }
    match ty {
        CqlType::Int => out.extend_from_slice(&flip_sign(reader.array::<4>()?)),
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp => {
            out.extend_from_slice(&flip_sign(reader.array::<8>()?));
        }
        CqlType::SmallInt => out.extend_from_slice(&flip_sign(reader.array::<2>()?)),
        CqlType::TinyInt => out.extend_from_slice(&flip_sign(reader.array::<1>()?)),
        CqlType::Date => out.extend_from_slice(&reader.array::<4>()?),
        CqlType::Time => out.extend_from_slice(&reader.array::<8>()?),
        CqlType::Boolean => out.push(reader.byte()?),
        CqlType::Float => {
            let rank = u32::from_be_bytes(reader.array()?);
            let bits = if rank >> 31 == 1 { rank ^ (1 << 31) } else { !rank };
            out.extend_from_slice(&bits.to_be_bytes());
        }
        CqlType::Double => {
            let rank = u64::from_be_bytes(reader.array()?);
            let bits = if rank >> 63 == 1 { rank ^ (1 << 63) } else { !rank };
            out.extend_from_slice(&bits.to_be_bytes());
        }
        CqlType::TimeUuid => {
            let upper = u64::from_be_bytes(reader.array()?) ^ (1 << 63);
            let lower = u64::from_be_bytes(reader.array()?) ^ 0x8080_8080_8080_8080;
            out.extend_from_slice(&restore_time(upper).to_be_bytes());
            out.extend_from_slice(&lower.to_be_bytes());
        }
        CqlType::Uuid => decode_uuid(reader, out)?,
        CqlType::Ascii | CqlType::Blob | CqlType::Duration | CqlType::Inet | CqlType::Text => {
            decode_bytes(reader, out)?
        }
        CqlType::Custom(class) => ordered_custom::decode(class, reader, out)?,
        CqlType::Empty => return Err(OrderedError::UnknownMark(MARK_VALUE)),
        CqlType::Varint => ordered_number::decode_varint(reader, out)?,
        CqlType::Decimal => ordered_number::decode_decimal(reader, out)?,
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            decode_elements(&[element], reader, out)?;
        }
        CqlType::Map { key, value, .. } => decode_elements(&[key, value], reader, out)?,
        CqlType::Tuple(types) => decode_tuple(types.iter(), reader, out)?,
        CqlType::User { definition, .. } => {
            decode_tuple(definition.fields.iter().map(|(_, ty)| ty), reader, out)?;
        }
        CqlType::Vector { element, dimension } => decode_vector(element, *dimension, reader, out)?,
    }
    Ok(())
}

fn decode_uuid(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), OrderedError> {
    let ordered = u64::from_be_bytes(reader.array()?);
    let version = ordered >> 60;
    let upper = if version == 1 {
        restore_time(ordered)
    } else {
        let rest = ordered & !(0xf << 60);
        ((rest & !0xfff) << 4) | (version << 12) | (rest & 0xfff)
    };
    out.extend_from_slice(&upper.to_be_bytes());
    out.extend_from_slice(&reader.array::<8>()?);
    Ok(())
}

pub(super) fn decode_bytes(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), OrderedError> {
    let zero = ESCAPE ^ reader.mask;
    loop {
        let at = find(zero, reader.input).ok_or(OrderedError::CutOff)?;
        reader.copy(at, out)?;
        let [_, kind] = reader.array::<2>()?;
        match kind {
            ESCAPED_ZERO => out.push(0),
            TERMINATOR => return Ok(()),
            other => return Err(OrderedError::UnknownMark(other)),
        }
    }
}

/// Appends one element with its length in front, which is known only afterwards.
fn decode_sized(
    ty: &CqlType,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    if reader.peek()? == MARK_NULL {
        reader.byte()?;
        collection::write_element(None, out);
        return Ok(());
    }
    let start = out.len();
    collection::write_count(0, out);
    decode_value(ty, reader, out)?;
    let length = out.len() - start - 4;
    patch_i32(out, start, length)
}

fn patch_i32(out: &mut [u8], at: usize, value: usize) -> Result<(), OrderedError> {
    let value = i32::try_from(value).map_err(|_| OrderedError::NumberRange)?;
    let target = out.get_mut(at..at + 4).ok_or(OrderedError::NumberRange)?;
    target.copy_from_slice(&value.to_be_bytes());
    Ok(())
}

/// Elements up to the end mark: one type for lists and sets, two in turn for maps.
fn decode_elements(
    types: &[&std::sync::Arc<CqlType>],
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    let start = out.len();
    collection::write_count(0, out);
    let mut count = 0;
    while reader.peek()? != MARK_END {
        for ty in types {
            decode_sized(ty, reader, out)?;
        }
        count += 1;
    }
    reader.byte()?;
    patch_i32(out, start, count)
}

/// What is missing stays missing: a user type may have got fields since the value was written. A
/// value that had components has one at least, for one without any is encoded as empty.
fn decode_tuple<'t>(
    types: impl Iterator<Item = &'t CqlType>,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    let start = out.len();
    for ty in types {
        if reader.peek()? == MARK_END {
            break;
        }
        decode_sized(ty, reader, out)?;
    }
    if out.len() == start {
        collection::write_element(None, out);
    }
    match reader.byte()? {
        MARK_END => Ok(()),
        other => Err(OrderedError::UnknownMark(other)),
    }
}

fn decode_vector(
    element: &CqlType,
    dimension: u16,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), OrderedError> {
    let fixed = element.vector_element_length().is_some();
    let mut scratch = Vec::new();
    for _ in 0..dimension {
        if fixed {
            decode_value(element, reader, out)?;
        } else {
            scratch.clear();
            decode_value(element, reader, &mut scratch)?;
            super::vint::write_unsigned(scratch.len() as u64, out);
            out.extend_from_slice(&scratch);
        }
    }
    Ok(())
}
