//! ERROR: every code with its extra fields, and how each degrades for older versions.

use std::borrow::Cow;
use std::net::IpAddr;

use bytes::{BufMut, BytesMut};

use crate::consistency::Consistency;
use crate::error::ProtocolError;
use crate::version::Version;
use crate::wire::{self, Reader};

/// An error as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The text.
    pub message: String,
    /// The code with its fields.
    pub kind: ErrorKind,
}

/// The code of an error, with the fields that accompany it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// 0x0000: a bug of ours.
    Server,
    /// 0x000A: the bytes break the protocol.
    Protocol,
    /// 0x0100: the login failed.
    BadCredentials,
    /// 0x1000: too few replicas are alive; nothing was done.
    Unavailable {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas it needs.
        required: i32,
        /// Replicas known to be alive.
        alive: i32,
    },
    /// 0x1001: later, please.
    Overloaded,
    /// 0x1002: this node is still joining.
    IsBootstrapping,
    /// 0x1003: a TRUNCATE failed.
    Truncate,
    /// 0x1100: a write did not finish in time; its outcome is unknown.
    WriteTimeout {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: i32,
        /// Replicas that had to.
        required: i32,
        /// What was being written.
        write_type: WriteType,
        /// How often a conditional write had to start again (v5, with [`WriteType::Cas`]).
        contentions: Option<u16>,
    },
    /// 0x1200: a read did not finish in time.
    ReadTimeout {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: i32,
        /// Replicas that had to.
        required: i32,
        /// Whether the one asked for the data was among them.
        data_present: bool,
    },
    /// 0x1300: a replica failed to read (from v4).
    ReadFailure {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: i32,
        /// Replicas that had to.
        required: i32,
        /// Replicas that failed.
        failures: Failures,
        /// Whether the one asked for the data answered.
        data_present: bool,
    },
    /// 0x1400: a user function failed (from v4).
    FunctionFailure {
        keyspace: String,
        name: String,
        /// The CQL types of its arguments.
        argument_types: Vec<String>,
    },
    /// 0x1500: a replica failed to write (from v4).
    WriteFailure {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: i32,
        /// Replicas that had to.
        required: i32,
        /// Replicas that failed.
        failures: Failures,
        /// What was being written.
        write_type: WriteType,
    },
    /// 0x1600: the space for change data is used up (from v4).
    CdcWriteFailure,
    /// 0x1700: the outcome of a conditional write is unknown (from v5).
    CasWriteUnknown {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas that accepted.
        received: i32,
        /// Replicas that had to.
        required: i32,
    },
    /// 0x2000: the text is not CQL.
    Syntax,
    /// 0x2100: not allowed.
    Unauthorized,
    /// 0x2200: the statement cannot be run.
    Invalid,
    /// 0x2300: so it cannot be configured.
    Config,
    /// 0x2400: the keyspace or table is there already.
    AlreadyExists {
        keyspace: String,
        /// The table; empty if it is about the keyspace.
        table: String,
    },
    /// 0x2500: no statement is kept under that id.
    Unprepared { id: Vec<u8> },
}

/// The replicas that failed: how many, and from v5 on which and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many. What v4 sends; v5 sends the length of `reasons`.
    pub count: i32,
    /// Which ones, and why.
    pub reasons: Vec<(IpAddr, FailureReason)>,
}

/// Why a replica failed. Codes we do not know are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureReason(pub u16);

impl FailureReason {
    /// No one knows.
    pub const UNKNOWN: FailureReason = FailureReason(0);
    /// It met too many tombstones.
    pub const READ_TOO_MANY_TOMBSTONES: FailureReason = FailureReason(1);
    /// It did not answer in time.
    pub const TIMEOUT: FailureReason = FailureReason(2);
    /// It has another schema.
    pub const INCOMPATIBLE_SCHEMA: FailureReason = FailureReason(3);
    /// The read was too large.
    pub const READ_SIZE: FailureReason = FailureReason(4);
    pub const NODE_DOWN: FailureReason = FailureReason(5);
    /// It has no such index ready.
    pub const INDEX_NOT_AVAILABLE: FailureReason = FailureReason(6);
    /// The read needed too many indexes.
    pub const READ_TOO_MANY_INDEXES: FailureReason = FailureReason(7);
}

/// What was being written when a write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteType {
    /// One partition.
    Simple,
    /// A logged batch, its log already written.
    Batch,
    UnloggedBatch,
    Counter,
    /// The log of a logged batch.
    BatchLog,
    /// A conditional write.
    Cas,
    /// A materialized view.
    View,
    /// Change data.
    Cdc,
}

impl WriteType {
    /// Every one.
    pub const ALL: [WriteType; 8] = [
        WriteType::Simple,
        WriteType::Batch,
        WriteType::UnloggedBatch,
        WriteType::Counter,
        WriteType::BatchLog,
        WriteType::Cas,
        WriteType::View,
        WriteType::Cdc,
    ];

    /// The word on the wire.
    pub fn name(self) -> &'static str {
        match self {
            WriteType::Simple => "SIMPLE",
            WriteType::Batch => "BATCH",
            WriteType::UnloggedBatch => "UNLOGGED_BATCH",
            WriteType::Counter => "COUNTER",
            WriteType::BatchLog => "BATCH_LOG",
            WriteType::Cas => "CAS",
            WriteType::View => "VIEW",
            WriteType::Cdc => "CDC",
        }
    }

    fn from_name(name: &str) -> Result<WriteType, ProtocolError> {
        WriteType::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| ProtocolError::InvalidWord { word: name.to_owned(), kind: "WriteType" })
    }
}

impl ErrorKind {
    /// The code on the wire.
    pub fn code(&self) -> i32 {
        match self {
            ErrorKind::Server => 0x0000,
            ErrorKind::Protocol => 0x000A,
            ErrorKind::BadCredentials => 0x0100,
            ErrorKind::Unavailable { .. } => 0x1000,
            ErrorKind::Overloaded => 0x1001,
            ErrorKind::IsBootstrapping => 0x1002,
            ErrorKind::Truncate => 0x1003,
            ErrorKind::WriteTimeout { .. } => 0x1100,
            ErrorKind::ReadTimeout { .. } => 0x1200,
            ErrorKind::ReadFailure { .. } => 0x1300,
            ErrorKind::FunctionFailure { .. } => 0x1400,
            ErrorKind::WriteFailure { .. } => 0x1500,
            ErrorKind::CdcWriteFailure => 0x1600,
            ErrorKind::CasWriteUnknown { .. } => 0x1700,
            ErrorKind::Syntax => 0x2000,
            ErrorKind::Unauthorized => 0x2100,
            ErrorKind::Invalid => 0x2200,
            ErrorKind::Config => 0x2300,
            ErrorKind::AlreadyExists { .. } => 0x2400,
            ErrorKind::Unprepared { .. } => 0x2500,
        }
    }
}

impl ErrorResponse {
    /// An error with this text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ErrorResponse {
        ErrorResponse { message: message.into(), kind }
    }

    /// The answer to bytes that break the protocol. A message that is too long is an invalid
    /// request instead, as in Cassandra.
    pub fn of_protocol_error(error: &ProtocolError) -> ErrorResponse {
        let is_too_long = matches!(error, ProtocolError::FrameTooLong { .. });
        let kind = if is_too_long { ErrorKind::Invalid } else { ErrorKind::Protocol };
        ErrorResponse { message: error.to_string(), kind }
    }

    /// The closest error that the version knows, as Cassandra chooses it.
    pub fn for_version(&self, version: Version) -> Cow<'_, ErrorResponse> {
        let timed_out =
            |received: i32| format!("Operation timed out - received only {received} responses.");
        let degraded = match &self.kind {
            ErrorKind::ReadFailure { consistency, received, required, data_present, .. }
                if version < Version::V4 =>
            {
                let (consistency, received, required) = (*consistency, *received, *required);
                let data_present = *data_present;
                ErrorResponse::new(
                    ErrorKind::ReadTimeout { consistency, received, required, data_present },
                    timed_out(received),
                )
            }
            ErrorKind::WriteFailure { consistency, received, required, write_type, .. }
                if version < Version::V4 =>
            {
                write_timeout(*consistency, *received, *required, *write_type)
            }
            ErrorKind::FunctionFailure { .. } if version < Version::V4 => {
                let message = format!("ERROR FUNCTION_FAILURE: {}", self.message);
                ErrorResponse::new(ErrorKind::Invalid, message)
            }
            ErrorKind::CdcWriteFailure if version < Version::V4 => {
                let message = format!("ERROR CDC_WRITE_FAILURE: {}", self.message);
                ErrorResponse::new(ErrorKind::Invalid, message)
            }
            ErrorKind::WriteTimeout {
                consistency,
                received,
                required,
                contentions: Some(_),
                ..
            } if version < Version::V5 => {
                write_timeout(*consistency, *received, *required, WriteType::Cas)
            }
            ErrorKind::CasWriteUnknown { consistency, received, required }
                if version < Version::V5 =>
            {
                write_timeout(*consistency, *received, *required, WriteType::Cas)
            }
            _ => return Cow::Borrowed(self),
        };
        Cow::Owned(degraded)
    }

    pub(crate) fn encode(&self, version: Version, buf: &mut BytesMut) {
        let error = self.for_version(version);
        buf.put_i32(error.kind.code());
        wire::put_string(buf, &error.message);
        error.kind.encode_fields(version, buf);
    }

    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        version: Version,
    ) -> Result<ErrorResponse, ProtocolError> {
        let code = reader.i32("an error code")?;
        let message = reader.string()?.to_owned();
        Ok(ErrorResponse { message, kind: ErrorKind::decode_fields(code, reader, version)? })
    }
}

fn write_timeout(
    consistency: Consistency,
    received: i32,
    required: i32,
    write_type: WriteType,
) -> ErrorResponse {
    ErrorResponse {
        message: format!("Operation timed out - received only {received} responses."),
        kind: ErrorKind::WriteTimeout {
            consistency,
            received,
            required,
            write_type,
            contentions: None,
        },
    }
}

impl ErrorKind {
    fn encode_fields(&self, version: Version, buf: &mut BytesMut) {
        match self {
            ErrorKind::Unavailable { consistency, required, alive } => {
                put_progress(buf, *consistency, *required, *alive);
            }
            ErrorKind::WriteTimeout {
                consistency,
                received,
                required,
                write_type,
                contentions,
            } => {
                put_progress(buf, *consistency, *received, *required);
                wire::put_string(buf, write_type.name());
                if version >= Version::V5 && *write_type == WriteType::Cas {
                    buf.put_u16(contentions.unwrap_or_default());
                }
            }
            ErrorKind::ReadTimeout { consistency, received, required, data_present } => {
                put_progress(buf, *consistency, *received, *required);
                buf.put_u8(u8::from(*data_present));
            }
            ErrorKind::ReadFailure { consistency, received, required, failures, data_present } => {
                put_progress(buf, *consistency, *received, *required);
                failures.encode(version, buf);
                buf.put_u8(u8::from(*data_present));
            }
            ErrorKind::FunctionFailure { keyspace, name, argument_types } => {
                wire::put_string(buf, keyspace);
                wire::put_string(buf, name);
                wire::put_string_list(buf, argument_types);
            }
            ErrorKind::WriteFailure { consistency, received, required, failures, write_type } => {
                put_progress(buf, *consistency, *received, *required);
                failures.encode(version, buf);
                wire::put_string(buf, write_type.name());
            }
            ErrorKind::CasWriteUnknown { consistency, received, required } => {
                put_progress(buf, *consistency, *received, *required);
            }
            ErrorKind::AlreadyExists { keyspace, table } => {
                wire::put_string(buf, keyspace);
                wire::put_string(buf, table);
            }
            ErrorKind::Unprepared { id } => wire::put_short_bytes(buf, id),
            ErrorKind::Server
            | ErrorKind::Protocol
            | ErrorKind::BadCredentials
            | ErrorKind::Overloaded
            | ErrorKind::IsBootstrapping
            | ErrorKind::Truncate
            | ErrorKind::CdcWriteFailure
            | ErrorKind::Syntax
            | ErrorKind::Unauthorized
            | ErrorKind::Invalid
            | ErrorKind::Config => {}
        }
    }

    fn decode_fields(
        code: i32,
        reader: &mut Reader<'_>,
        version: Version,
    ) -> Result<ErrorKind, ProtocolError> {
        Ok(match code {
            0x0000 => ErrorKind::Server,
            0x000A => ErrorKind::Protocol,
            0x0100 => ErrorKind::BadCredentials,
            0x1000 => {
                let (consistency, required, alive) = progress(reader)?;
                ErrorKind::Unavailable { consistency, required, alive }
            }
            0x1001 => ErrorKind::Overloaded,
            0x1002 => ErrorKind::IsBootstrapping,
            0x1003 => ErrorKind::Truncate,
            0x1100 => {
                let (consistency, received, required) = progress(reader)?;
                let write_type = WriteType::from_name(reader.string()?)?;
                let contentions = if version >= Version::V5 && write_type == WriteType::Cas {
                    Some(reader.u16("the contentions")?)
                } else {
                    None
                };
                ErrorKind::WriteTimeout { consistency, received, required, write_type, contentions }
            }
            0x1200 => {
                let (consistency, received, required) = progress(reader)?;
                let data_present = reader.u8("whether data is present")? != 0;
                ErrorKind::ReadTimeout { consistency, received, required, data_present }
            }
            0x1300 => {
                let (consistency, received, required) = progress(reader)?;
                let failures = Failures::decode(reader, version)?;
                let data_present = reader.u8("whether data is present")? != 0;
                ErrorKind::ReadFailure { consistency, received, required, failures, data_present }
            }
            0x1400 => ErrorKind::FunctionFailure {
                keyspace: reader.string()?.to_owned(),
                name: reader.string()?.to_owned(),
                argument_types: reader.string_list()?,
            },
            0x1500 => {
                let (consistency, received, required) = progress(reader)?;
                let failures = Failures::decode(reader, version)?;
                let write_type = WriteType::from_name(reader.string()?)?;
                ErrorKind::WriteFailure { consistency, received, required, failures, write_type }
            }
            0x1600 => ErrorKind::CdcWriteFailure,
            0x1700 => {
                let (consistency, received, required) = progress(reader)?;
                ErrorKind::CasWriteUnknown { consistency, received, required }
            }
            0x2000 => ErrorKind::Syntax,
            0x2100 => ErrorKind::Unauthorized,
            0x2200 => ErrorKind::Invalid,
            0x2300 => ErrorKind::Config,
            0x2400 => ErrorKind::AlreadyExists {
                keyspace: reader.string()?.to_owned(),
                table: reader.string()?.to_owned(),
            },
            0x2500 => ErrorKind::Unprepared { id: reader.short_bytes()?.to_vec() },
            code => return Err(ProtocolError::UnknownErrorCode { code }),
        })
    }
}

impl Failures {
    fn encode(&self, version: Version, buf: &mut BytesMut) {
        if version < Version::V5 {
            buf.put_i32(self.count);
            return;
        }
        buf.put_i32(wire::int_length(self.reasons.len()));
        for (address, reason) in &self.reasons {
            wire::put_address(buf, *address);
            buf.put_u16(reason.0);
        }
    }

    fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Failures, ProtocolError> {
        let count = reader.i32("the number of failures")?;
        let mut reasons = Vec::new();
        if version >= Version::V5 {
            for _ in 0..count {
                let address = reader.address()?;
                reasons.push((address, FailureReason(reader.u16("a failure reason")?)));
            }
        }
        Ok(Failures { count, reasons })
    }
}

fn put_progress(buf: &mut BytesMut, consistency: Consistency, first: i32, second: i32) {
    buf.put_u16(consistency.code());
    buf.put_i32(first);
    buf.put_i32(second);
}

fn progress(reader: &mut Reader<'_>) -> Result<(Consistency, i32, i32), ProtocolError> {
    let consistency = Consistency::from_code(reader.u16("a consistency level")?)?;
    Ok((consistency, reader.i32("a number of replicas")?, reader.i32("a number of replicas")?))
}
