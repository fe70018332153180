//! BATCH: several statements as one.

use std::fmt;

use bytes::{BufMut, BytesMut};

use crate::error::ProtocolError;
use crate::query_parameters::QueryParameters;
use crate::values::Values;
use crate::version::Version;
use crate::wire::{self, Reader};

/// What a batch promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// All or nothing.
    Logged,
    /// Together, and no more.
    Unlogged,
    /// Counters only.
    Counter,
}

impl BatchKind {
    fn decode(kind: u8) -> Result<BatchKind, ProtocolError> {
        match kind {
            0 => Ok(BatchKind::Logged),
            1 => Ok(BatchKind::Unlogged),
            2 => Ok(BatchKind::Counter),
            kind => Err(ProtocolError::InvalidBatchKind { kind }),
        }
    }

    fn number(self) -> u8 {
        match self {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
        }
    }
}

/// A batch whose statements stay in the bytes of their message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// What it promises.
    pub kind: BatchKind,
    /// The statements in order.
    pub statements: BatchStatements<'a>,
    /// What holds for all of them; it has no values.
    pub parameters: QueryParameters<'a>,
}

/// One statement of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchStatement<'a> {
    /// The statement.
    pub source: StatementSource<'a>,
    /// What is bound to it; always positional.
    pub values: Values<'a>,
}

/// Where a statement's meaning comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementSource<'a> {
    Text(&'a str),
    /// The id it was prepared under.
    Prepared(&'a [u8]),
}

impl<'a> Batch<'a> {
    pub(crate) fn decode(
        reader: &mut Reader<'a>,
        version: Version,
    ) -> Result<Batch<'a>, ProtocolError> {
        let kind = reader.u8("the kind of the batch")?;
        let statements = BatchStatements::decode(reader, version)?;
        let parameters = QueryParameters::decode(reader, version)?;
        Ok(Batch { kind: BatchKind::decode(kind)?, statements, parameters })
    }

    pub(crate) fn encode(&self, version: Version, buf: &mut BytesMut) {
        buf.put_u8(self.kind.number());
        buf.put_u16(self.statements.count);
        buf.put_slice(self.statements.bytes);
        self.parameters.encode(version, buf);
    }
}

impl<'a> BatchStatement<'a> {
    fn decode(
        reader: &mut Reader<'a>,
        version: Version,
    ) -> Result<BatchStatement<'a>, ProtocolError> {
        let source = match reader.u8("the kind of a statement")? {
            0 => StatementSource::Text(reader.long_string()?),
            1 => StatementSource::Prepared(reader.short_bytes()?),
            kind => return Err(ProtocolError::InvalidBatchStatementKind { kind }),
        };
        let values = Values::decode(reader, version, false)?;
        Ok(BatchStatement { source, values })
    }
}

/// The statements of a batch. They were checked when the message was decoded, so that reading
/// them cannot fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BatchStatements<'a> {
    version: Version,
    count: u16,
    bytes: &'a [u8],
}

impl<'a> BatchStatements<'a> {
    fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Self, ProtocolError> {
        let count = reader.u16("the number of statements")?;
        let start = *reader;
        for _ in 0..count {
            BatchStatement::decode(reader, version)?;
        }
        Ok(BatchStatements { version, count, bytes: reader.since(start) })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The statements in order.
    pub fn iter(&self) -> impl Iterator<Item = BatchStatement<'a>> + use<'a> {
        let version = self.version;
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| BatchStatement::decode(&mut reader, version).ok())
    }
}

impl fmt::Debug for BatchStatements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Statements in the form of a message, for those who send them.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    version: Version,
    count: u16,
    bytes: BytesMut,
}

impl BatchBuilder {
    /// Empty.
    pub fn new(version: Version) -> BatchBuilder {
        BatchBuilder { version, count: 0, bytes: BytesMut::new() }
    }

    /// One more statement; its values are positional.
    pub fn push(&mut self, source: StatementSource<'_>, values: Values<'_>) -> &mut BatchBuilder {
        self.count = self.count.saturating_add(1);
        match source {
            StatementSource::Text(text) => {
                self.bytes.put_u8(0);
                wire::put_bytes(&mut self.bytes, text.as_bytes());
            }
            StatementSource::Prepared(id) => {
                self.bytes.put_u8(1);
                wire::put_short_bytes(&mut self.bytes, id);
            }
        }
        values.encode(&mut self.bytes);
        self
    }

    /// The statements pushed so far.
    pub fn statements(&self) -> BatchStatements<'_> {
        BatchStatements { version: self.version, count: self.count, bytes: &self.bytes }
    }
}
