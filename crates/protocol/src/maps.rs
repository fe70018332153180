//! Maps that stay in the bytes of their message: checked once, read without copies.

use std::fmt;

use bytes::{BufMut, BytesMut};

use crate::error::ProtocolError;
use crate::wire::{self, Reader};

/// A `[string map]`: the options of STARTUP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StringMap<'a> {
    count: u16,
    /// Checked to hold `count` pairs of strings.
    pairs: &'a [u8],
}

impl<'a> StringMap<'a> {
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        let count = reader.u16("the number of options")?;
        let start = *reader;
        for _ in 0..count {
            reader.string()?;
            reader.string()?;
        }
        Ok(StringMap { count, pairs: reader.since(start) })
    }

    pub(crate) fn encode(&self, buf: &mut BytesMut) {
        buf.put_u16(self.count);
        buf.put_slice(self.pairs);
    }

    /// The pairs in the order they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = Reader::new(self.pairs);
        (0..self.count).map_while(move |_| Some((reader.string().ok()?, reader.string().ok()?)))
    }

    /// The value of a key, whatever the case of the key's letters. The last one counts.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(key))
            .last()
            .map(|(_, value)| value)
    }
}

impl fmt::Debug for StringMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A `[bytes map]`: a custom payload (from v4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BytesMap<'a> {
    count: u16,
    /// Checked to hold `count` pairs of a string and bytes.
    pairs: &'a [u8],
}

impl<'a> BytesMap<'a> {
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        let count = reader.u16("the length of the custom payload")?;
        let start = *reader;
        for _ in 0..count {
            reader.string()?;
            reader.bytes("a value of the custom payload")?;
        }
        Ok(BytesMap { count, pairs: reader.since(start) })
    }

    pub(crate) fn encode(&self, buf: &mut BytesMut) {
        buf.put_u16(self.count);
        buf.put_slice(self.pairs);
    }

    /// How many pairs there are.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The pairs in the order they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> + use<'a> {
        let mut reader = Reader::new(self.pairs);
        (0..self.count).map_while(move |_| Some((reader.string().ok()?, reader.bytes("").ok()?)))
    }

    /// The value of a key, if it has one that is not null.
    pub fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.iter().find(|(name, _)| *name == key).and_then(|(_, value)| value)
    }
}

impl fmt::Debug for BytesMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Pairs in the form of [`StringMap`] and [`BytesMap`], for those who send them.
#[derive(Clone, Debug, Default)]
pub struct MapBuilder {
    count: u16,
    pairs: BytesMut,
}

impl MapBuilder {
    /// Empty.
    pub fn new() -> MapBuilder {
        MapBuilder::default()
    }

    /// One more pair of strings.
    pub fn string(&mut self, key: &str, value: &str) -> &mut MapBuilder {
        self.count = self.count.saturating_add(1);
        wire::put_string(&mut self.pairs, key);
        wire::put_string(&mut self.pairs, value);
        self
    }

    /// One more pair of a string and bytes.
    pub fn bytes(&mut self, key: &str, value: Option<&[u8]>) -> &mut MapBuilder {
        self.count = self.count.saturating_add(1);
        wire::put_string(&mut self.pairs, key);
        wire::put_optional_bytes(&mut self.pairs, value);
        self
    }

    /// The map of the pairs added with [`MapBuilder::string`] only.
    pub fn string_map(&self) -> StringMap<'_> {
        StringMap { count: self.count, pairs: &self.pairs }
    }

    /// The map of the pairs added with [`MapBuilder::bytes`] only.
    pub fn bytes_map(&self) -> BytesMap<'_> {
        BytesMap { count: self.count, pairs: &self.pairs }
    }
}
