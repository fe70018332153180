//! The notations of the specification: how numbers, strings and byte arrays are written.
//!
//! Reading borrows and checks; nothing is allocated for a count or a length before the bytes it
//! announces were seen.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{BufMut, BytesMut};

use crate::error::{INVALID_UTF8_PREFIX_BYTES_MAX, ProtocolError};

/// The longest string or byte array with a two-byte length.
pub const STRING_BYTES_MAX: usize = u16::MAX as usize;

/// A cursor over the body of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// What was read between an earlier copy of this cursor and now.
    pub(crate) fn since(&self, earlier: Reader<'a>) -> &'a [u8] {
        let length = earlier.rest.len().saturating_sub(self.rest.len());
        earlier.rest.get(..length).unwrap_or_default()
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ProtocolError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(ProtocolError::Truncated { what }),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, ProtocolError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, ProtocolError> {
        self.array(what).map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, ProtocolError> {
        self.array(what).map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self, what: &'static str) -> Result<i32, ProtocolError> {
        self.array(what).map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i64(&mut self, what: &'static str) -> Result<i64, ProtocolError> {
        self.array(what).map(i64::from_be_bytes)
    }

    pub(crate) fn uuid(&mut self, what: &'static str) -> Result<[u8; 16], ProtocolError> {
        self.array(what)
    }

    #[inline]
    pub(crate) fn take(
        &mut self,
        length: usize,
        what: &'static str,
    ) -> Result<&'a [u8], ProtocolError> {
        match self.rest.split_at_checked(length) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(ProtocolError::Truncated { what }),
        }
    }

    /// `[string]`
    pub(crate) fn string(&mut self) -> Result<&'a str, ProtocolError> {
        let truncated = |_| ProtocolError::TruncatedString { length_field_bytes: 2 };
        let length = self.u16("").map_err(truncated)?;
        text(self.take(usize::from(length), "").map_err(truncated)?)
    }

    /// `[long string]`
    pub(crate) fn long_string(&mut self) -> Result<&'a str, ProtocolError> {
        let truncated = ProtocolError::TruncatedString { length_field_bytes: 4 };
        let Ok(length) = self.i32("") else { return Err(truncated) };
        let Ok(length) = usize::try_from(length) else { return Err(truncated) };
        let Ok(bytes) = self.take(length, "") else { return Err(truncated) };
        text(bytes)
    }

    /// `[short bytes]`
    #[inline]
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], ProtocolError> {
        let truncated = |_| ProtocolError::TruncatedShortBytes;
        let length = self.u16("").map_err(truncated)?;
        self.take(usize::from(length), "").map_err(truncated)
    }

    /// `[bytes]`: any negative length is null.
    pub(crate) fn bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, ProtocolError> {
        match usize::try_from(self.i32(what)?) {
            Ok(length) => self.take(length, what).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// A four-byte count, which must not be negative.
    pub(crate) fn count(&mut self, what: &'static str) -> Result<usize, ProtocolError> {
        usize::try_from(self.i32(what)?).map_err(|_| ProtocolError::NegativeCount { what })
    }

    /// `[string list]`
    pub(crate) fn string_list(&mut self) -> Result<Vec<String>, ProtocolError> {
        let count = usize::from(self.u16("the length of a string list")?);
        // An element takes two bytes at least, so the bytes left bound the allocation.
        let mut list = Vec::with_capacity(count.min(self.rest.len() / 2));
        for _ in 0..count {
            list.push(self.string()?.to_owned());
        }
        Ok(list)
    }

    /// `[inetaddr]`
    pub(crate) fn address(&mut self) -> Result<IpAddr, ProtocolError> {
        match self.u8("an address")? {
            4 => Ok(Ipv4Addr::from(self.array::<4>("an address")?).into()),
            16 => Ok(Ipv6Addr::from(self.array::<16>("an address")?).into()),
            _ => Err(ProtocolError::InvalidAddress),
        }
    }

    /// `[inet]`
    pub(crate) fn socket_address(&mut self) -> Result<SocketAddr, ProtocolError> {
        let address = self.address()?;
        let port = u16::try_from(self.i32("a port")?).map_err(|_| ProtocolError::InvalidAddress)?;
        Ok(SocketAddr::new(address, port))
    }
}

fn text(bytes: &[u8]) -> Result<&str, ProtocolError> {
    std::str::from_utf8(bytes).map_err(|_| {
        let shown = bytes.len().min(INVALID_UTF8_PREFIX_BYTES_MAX);
        ProtocolError::InvalidUtf8 { prefix: bytes.get(..shown).unwrap_or_default().to_vec() }
    })
}

/// A length or count as four bytes. Ours stay far below the limit of the field; a buffer that long
/// could not have been built.
pub(crate) fn int_length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// `[string]`; the part of a text that goes past the limit of the length field is cut off, at a
/// character's boundary.
#[inline]
pub(crate) fn put_string(buf: &mut BytesMut, text: &str) {
    let end = text.floor_char_boundary(STRING_BYTES_MAX);
    put_short_bytes(buf, text.as_bytes().get(..end).unwrap_or_default());
}

/// `[short bytes]`; what goes past the limit of the length field is cut off.
#[inline]
pub(crate) fn put_short_bytes(buf: &mut BytesMut, bytes: &[u8]) {
    let bytes = bytes.get(..STRING_BYTES_MAX).unwrap_or(bytes);
    buf.reserve(2 + bytes.len());
    buf.put_u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
    buf.put_slice(bytes);
}

/// `[long string]` and `[bytes]` that are not null.
#[inline]
pub(crate) fn put_bytes(buf: &mut BytesMut, bytes: &[u8]) {
    buf.reserve(4 + bytes.len());
    buf.put_i32(int_length(bytes.len()));
    buf.put_slice(bytes);
}

/// `[bytes]`
#[inline]
pub(crate) fn put_optional_bytes(buf: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => put_bytes(buf, bytes),
        None => buf.put_i32(-1),
    }
}

/// `[string list]`; elements past the limit of the count field are left out.
pub(crate) fn put_string_list<S: AsRef<str>>(buf: &mut BytesMut, list: &[S]) {
    let list = list.get(..STRING_BYTES_MAX).unwrap_or(list);
    buf.put_u16(u16::try_from(list.len()).unwrap_or(u16::MAX));
    for text in list {
        put_string(buf, text.as_ref());
    }
}

/// `[inetaddr]`
pub(crate) fn put_address(buf: &mut BytesMut, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            buf.put_u8(4);
            buf.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            buf.put_u8(16);
            buf.put_slice(&address.octets());
        }
    }
}

/// `[inet]`
pub(crate) fn put_socket_address(buf: &mut BytesMut, address: SocketAddr) {
    put_address(buf, address.ip());
    buf.put_i32(i32::from(address.port()));
}

/// Overwrites four bytes that were left open for a length or a count.
pub(crate) fn patch_i32(buf: &mut [u8], at: usize, number: i32) {
    if let Some(slot) = buf.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *slot = number.to_be_bytes();
    }
}
