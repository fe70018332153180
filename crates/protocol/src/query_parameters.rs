//! What accompanies a statement: consistency, values, paging, timestamps.

use bytes::{BufMut, BytesMut};

use crate::consistency::Consistency;
use crate::error::ProtocolError;
use crate::values::Values;
use crate::version::Version;
use crate::wire::{self, Reader};

const VALUES: u32 = 0x0001;
const SKIP_METADATA: u32 = 0x0002;
const PAGE_SIZE: u32 = 0x0004;
const PAGING_STATE: u32 = 0x0008;
const SERIAL_CONSISTENCY: u32 = 0x0010;
const TIMESTAMP: u32 = 0x0020;
const NAMES_FOR_VALUES: u32 = 0x0040;
const KEYSPACE: u32 = 0x0080;
const NOW_IN_SECONDS: u32 = 0x0100;

/// The parameters of QUERY and EXECUTE, and those of BATCH, which have no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryParameters<'a> {
    /// How many replicas must answer.
    pub consistency: Consistency,
    /// What is bound to the statement.
    pub values: Values<'a>,
    /// The client knows the columns of the result already.
    pub skip_metadata: bool,
    /// How many rows a page may have. Zero and below is the client's mistake: see
    /// [`QueryParameters::check_page_size`].
    pub page_size: Option<i32>,
    /// Where to go on, as an earlier page said.
    pub paging_state: Option<&'a [u8]>,
    /// For conditional statements; SERIAL unless sent. That it is a serial level is not checked.
    pub serial_consistency: Option<Consistency>,
    /// The timestamp of the write in microseconds, unless the statement has one.
    pub timestamp: Option<i64>,
    /// The keyspace of this statement (v5).
    pub keyspace: Option<&'a str>,
    /// The time to use for expiry (v5).
    pub now_in_seconds: Option<u32>,
}

impl<'a> QueryParameters<'a> {
    /// Only a consistency level.
    pub fn new(version: Version, consistency: Consistency) -> QueryParameters<'a> {
        QueryParameters {
            consistency,
            values: Values::none(version),
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }

    /// Cassandra refuses a page size of zero when it executes the statement.
    pub fn check_page_size(&self) -> Result<(), ProtocolError> {
        if self.page_size == Some(0) { Err(ProtocolError::ZeroPageSize) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn decode(
        reader: &mut Reader<'a>,
        version: Version,
    ) -> Result<QueryParameters<'a>, ProtocolError> {
        let consistency = Consistency::from_code(reader.u16("a consistency level")?)?;
        let flags = if version >= Version::V5 {
            reader.u32("the query flags")?
        } else {
            u32::from(reader.u8("the query flags")?)
        };
        let mut parameters = QueryParameters::new(version, consistency);
        if flags & VALUES != 0 {
            let named = flags & NAMES_FOR_VALUES != 0;
            parameters.values = Values::decode(reader, version, named)?;
        }
        parameters.skip_metadata = flags & SKIP_METADATA != 0;
        if flags & !(VALUES | SKIP_METADATA | NAMES_FOR_VALUES) != 0 {
            parameters.decode_rare(reader, flags)?;
        }
        Ok(parameters)
    }

    /// The fields most requests leave out. A flag is honoured whatever the version, as in
    /// Cassandra; that of `now_in_seconds` fits into the flags of v5 only.
    fn decode_rare(&mut self, reader: &mut Reader<'a>, flags: u32) -> Result<(), ProtocolError> {
        if flags & PAGE_SIZE != 0 {
            self.page_size = Some(reader.i32("the page size")?);
        }
        if flags & PAGING_STATE != 0 {
            self.paging_state = reader.bytes("the paging state")?;
        }
        if flags & SERIAL_CONSISTENCY != 0 {
            let code = reader.u16("the serial consistency level")?;
            self.serial_consistency = Some(Consistency::from_code(code)?);
        }
        if flags & TIMESTAMP != 0 {
            let timestamp = reader.i64("the timestamp")?;
            if timestamp == i64::MIN {
                return Err(ProtocolError::TimestampOutOfBounds);
            }
            self.timestamp = Some(timestamp);
        }
        if flags & KEYSPACE != 0 {
            self.keyspace = Some(reader.string()?);
        }
        if flags & NOW_IN_SECONDS != 0 {
            self.now_in_seconds = Some(reader.u32("the current time")?);
        }
        Ok(())
    }

    /// Appends the parameters; what the version lacks is left out.
    pub(crate) fn encode(&self, version: Version, buf: &mut BytesMut) {
        let v5 = version >= Version::V5;
        let keyspace = self.keyspace.filter(|_| v5);
        let now_in_seconds = self.now_in_seconds.filter(|_| v5);
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(!self.values.is_empty(), VALUES)
            | flag(!self.values.is_empty() && self.values.is_named(), NAMES_FOR_VALUES)
            | flag(self.skip_metadata, SKIP_METADATA)
            | flag(self.page_size.is_some(), PAGE_SIZE)
            | flag(self.paging_state.is_some(), PAGING_STATE)
            | flag(self.serial_consistency.is_some(), SERIAL_CONSISTENCY)
            | flag(self.timestamp.is_some(), TIMESTAMP)
            | flag(keyspace.is_some(), KEYSPACE)
            | flag(now_in_seconds.is_some(), NOW_IN_SECONDS);
        buf.put_u16(self.consistency.code());
        match u8::try_from(flags) {
            Ok(flags) if !v5 => buf.put_u8(flags),
            Ok(_) | Err(_) => buf.put_u32(flags),
        }
        if !self.values.is_empty() {
            self.values.encode(buf);
        }
        if let Some(page_size) = self.page_size {
            buf.put_i32(page_size);
        }
        if let Some(paging_state) = self.paging_state {
            wire::put_bytes(buf, paging_state);
        }
        if let Some(serial_consistency) = self.serial_consistency {
            buf.put_u16(serial_consistency.code());
        }
        if let Some(timestamp) = self.timestamp {
            buf.put_i64(timestamp);
        }
        if let Some(keyspace) = keyspace {
            wire::put_string(buf, keyspace);
        }
        if let Some(now_in_seconds) = now_in_seconds {
            buf.put_u32(now_in_seconds);
        }
    }
}
