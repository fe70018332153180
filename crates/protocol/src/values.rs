//! The values bound to a statement, left in the bytes of their message.

use std::fmt;

use bytes::{BufMut, BytesMut};

use crate::error::ProtocolError;
use crate::version::Version;
use crate::wire::{self, Reader};

const UNSET_LENGTH: i32 = -2;

/// One bound value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value<'a> {
    /// The value's bytes; may be empty.
    Bytes(&'a [u8]),
    Null,
    /// No value at all: what the statement would write stays as it is (from v4).
    Unset,
}

impl<'a> Value<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Value<'a>, ProtocolError> {
        let length = reader.i32("the length of a value")?;
        if let Ok(length) = usize::try_from(length) {
            return reader.take(length, "a value").map(Value::Bytes);
        }
        match length {
            -1 => Ok(Value::Null),
            // Any negative length was null before v4.
            _ if version < Version::V4 => Ok(Value::Null),
            UNSET_LENGTH => Ok(Value::Unset),
            _ => Err(ProtocolError::InvalidValueLength { length }),
        }
    }

    fn encode(self, buf: &mut BytesMut) {
        match self {
            Value::Bytes(bytes) => wire::put_bytes(buf, bytes),
            Value::Null => buf.put_i32(-1),
            Value::Unset => buf.put_i32(UNSET_LENGTH),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::Null => f.write_str("null"),
            Value::Unset => f.write_str("unset"),
        }
    }
}

/// The values of one statement: positional, or each with a name. They were checked when the
/// message was decoded, so that reading them cannot fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Values<'a> {
    version: Version,
    named: bool,
    count: u16,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// No values.
    pub fn none(version: Version) -> Values<'a> {
        Values { version, named: false, count: 0, bytes: &[] }
    }

    #[inline]
    pub(crate) fn decode(
        reader: &mut Reader<'a>,
        version: Version,
        named: bool,
    ) -> Result<Values<'a>, ProtocolError> {
        let count = reader.u16("the number of values")?;
        let start = *reader;
        for _ in 0..count {
            if named {
                reader.string()?;
            }
            Value::decode(reader, version)?;
        }
        Ok(Values { version, named, count, bytes: reader.since(start) })
    }

    pub(crate) fn encode(&self, buf: &mut BytesMut) {
        buf.put_u16(self.count);
        buf.put_slice(self.bytes);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether each has a name.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// The values in the order they were sent.
    #[inline]
    pub fn iter(&self) -> ValueIter<'a> {
        ValueIter { values: *self, reader: Reader::new(self.bytes), left: self.count }
    }

    /// The values with their names, which are empty for positional values.
    pub fn iter_named(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        let mut iter = self.iter();
        std::iter::from_fn(move || iter.next_named())
    }

    /// The value at that position. It walks there: to read them all, use [`Values::iter`].
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        self.iter().nth(index)
    }

    /// The value of that name, in the exact case; the last one counts.
    pub fn get_named(&self, name: &str) -> Option<Value<'a>> {
        self.iter_named().filter(|(sent, _)| *sent == name).last().map(|(_, value)| value)
    }
}

impl fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.named {
            f.debug_map().entries(self.iter_named()).finish()
        } else {
            f.debug_list().entries(self.iter()).finish()
        }
    }
}

impl<'a> IntoIterator for Values<'a> {
    type Item = Value<'a>;
    type IntoIter = ValueIter<'a>;

    fn into_iter(self) -> ValueIter<'a> {
        self.iter()
    }
}

/// Walks over [`Values`].
#[derive(Clone, Debug)]
pub struct ValueIter<'a> {
    values: Values<'a>,
    reader: Reader<'a>,
    left: u16,
}

impl<'a> ValueIter<'a> {
    fn next_named(&mut self) -> Option<(&'a str, Value<'a>)> {
        self.left = self.left.checked_sub(1)?;
        let name = if self.values.named { self.reader.string().ok()? } else { "" };
        let value = Value::decode(&mut self.reader, self.values.version).ok()?;
        Some((name, value))
    }
}

impl<'a> Iterator for ValueIter<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        if self.values.named {
            // The name was checked; here only its length matters.
            self.reader.short_bytes().ok()?;
        }
        Value::decode(&mut self.reader, self.values.version).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for ValueIter<'_> {}

/// Values in the form of a message, for those who send them.
#[derive(Clone, Debug)]
pub struct ValuesBuilder {
    version: Version,
    named: bool,
    count: u16,
    bytes: BytesMut,
}

impl ValuesBuilder {
    /// Positional values.
    pub fn positional(version: Version) -> ValuesBuilder {
        ValuesBuilder { version, named: false, count: 0, bytes: BytesMut::new() }
    }

    /// Values with names.
    pub fn named(version: Version) -> ValuesBuilder {
        ValuesBuilder { named: true, ..ValuesBuilder::positional(version) }
    }

    /// One more value; its name is not sent with positional values. Before v4 there is no unset
    /// value: null is sent.
    pub fn push(&mut self, name: &str, value: Value<'_>) -> &mut ValuesBuilder {
        self.count = self.count.saturating_add(1);
        if self.named {
            wire::put_string(&mut self.bytes, name);
        }
        match value {
            Value::Unset if self.version < Version::V4 => Value::Null.encode(&mut self.bytes),
            value => value.encode(&mut self.bytes),
        }
        self
    }

    /// Forgets the values and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }

    /// The values pushed so far.
    pub fn values(&self) -> Values<'_> {
        Values { version: self.version, named: self.named, count: self.count, bytes: &self.bytes }
    }
}
