//! What can be wrong with bytes from the other side, in Cassandra's words.

use std::fmt;

use crate::opcode::{Direction, Opcode};
use crate::version::Version;

/// Bytes that break the protocol. `Display` is the text a client sees; it is Cassandra's wherever
/// Cassandra has one (where it answers with the text of a Java exception, we say what is missing).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A version that we do not speak. Drivers look for this text, and step down.
    UnsupportedVersion {
        /// The version asked for.
        number: u8,
    },
    /// A version that is in beta, from a client that did not say that it wants one.
    BetaFlagUnset {
        /// The version.
        version: Version,
    },
    /// A message of another version than the connection agreed on.
    VersionChanged {
        /// The version of the message.
        got: Version,
        /// The version of the connection.
        expected: Version,
    },
    /// No message has that opcode.
    UnknownOpcode {
        /// The opcode.
        number: u8,
    },
    /// A request where a response belongs, or the reverse.
    WrongDirection {
        /// The kind of the message.
        opcode: Opcode,
        /// The direction its first byte claims.
        got: Direction,
    },
    /// A message that this side sends and never receives.
    UnexpectedDirection {
        /// The kind of the message.
        opcode: Opcode,
    },
    /// A message longer than the server accepts. Not a protocol error but an invalid request, as
    /// in Cassandra; the message is skipped and the connection goes on.
    FrameTooLong {
        /// The length of the whole message, header included.
        length_bytes: u64,
        /// The most that is accepted.
        length_bytes_max: u64,
    },
    /// The length field of a message header is negative.
    NegativeBodyLength {
        /// The length claimed.
        length: i32,
    },
    /// The checksum of an outer frame is wrong (v5).
    Corrupt {
        /// Header or payload.
        part: FramePart,
        /// The checksum that was sent.
        read: u32,
        /// The checksum of what was received.
        computed: u32,
    },
    /// A self-contained outer frame whose messages do not fill it exactly (v5).
    TornMessage {
        /// Bytes that the message needs, header included.
        needed_bytes: usize,
        /// Bytes that are left in the frame.
        available_bytes: usize,
    },
    /// The last outer frame of a large message holds more than the message (v5).
    LargeMessageOverrun {
        /// Bytes that the message needs, header included.
        needed_bytes: usize,
        /// Bytes that arrived.
        available_bytes: usize,
    },
    /// A compressed body that cannot be decompressed.
    BadCompression {
        /// Which algorithm.
        algorithm: &'static str,
    },
    /// A string that ends after the message does.
    TruncatedString {
        /// Width of its length field.
        length_field_bytes: u8,
    },
    /// A byte array with a two-byte length that ends after the message does.
    TruncatedShortBytes,
    /// Anything else that ends after the message does.
    Truncated {
        /// What was being read.
        what: &'static str,
    },
    /// A string that is not UTF-8.
    InvalidUtf8 {
        /// Its first bytes.
        prefix: Vec<u8>,
    },
    /// No consistency level has that code.
    UnknownConsistency {
        /// The code.
        code: u16,
    },
    /// A value length below -2 (from v4; v3 takes any negative length as null).
    InvalidValueLength {
        /// The length.
        length: i32,
    },
    /// A timestamp that means "none" inside Cassandra.
    TimestampOutOfBounds,
    /// A word that is not one of those expected.
    InvalidWord {
        /// The word sent.
        word: String,
        /// What it should name.
        kind: &'static str,
    },
    /// A batch of an unknown kind.
    InvalidBatchKind {
        /// The kind sent.
        kind: u8,
    },
    /// A statement of a batch that is neither text nor an id.
    InvalidBatchStatementKind {
        /// The kind sent.
        kind: u8,
    },
    /// A custom payload in v3.
    CustomPayloadTooEarly,
    /// A message that no supported version has.
    UnsupportedMessage,
    /// Another request than STARTUP or OPTIONS on a fresh connection.
    NotStarted {
        /// What came.
        opcode: Opcode,
    },
    /// A second STARTUP.
    AlreadyStarted,
    /// STARTUP without the version of CQL.
    MissingCqlVersion,
    /// A version of CQL below 3.
    UnsupportedCqlVersion {
        /// The version asked for.
        version: String,
    },
    /// A version of CQL that is no version.
    InvalidCqlVersion {
        /// What was sent.
        version: String,
    },
    /// A compression algorithm we do not have.
    UnknownCompression {
        /// Its name.
        name: String,
    },
    /// Snappy in v5, which has LZ4 only.
    SnappyTooLate,
    /// An event that this version does not have.
    EventTooEarly {
        /// The event.
        event: &'static str,
        /// The version of the connection.
        version: Version,
    },
    /// A page size of zero.
    ZeroPageSize,
    /// An id of a data type that no version has (in responses).
    UnknownTypeId {
        /// The id.
        id: u16,
    },
    /// A data type nested deeper than accepted (in responses).
    TypeTooDeep,
    /// An error code that no version has (in responses).
    UnknownErrorCode {
        /// The code.
        code: i32,
    },
    /// A kind of result that no version has (in responses).
    UnknownResultKind {
        /// The kind.
        kind: i32,
    },
    /// A negative count.
    NegativeCount {
        /// What is counted.
        what: &'static str,
    },
    /// A network address that is neither 4 nor 16 bytes long, or whose port is none.
    InvalidAddress,
}

/// The two checksummed parts of an outer frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePart {
    /// The lengths.
    Header,
    /// The payload.
    Body,
}

/// How many bytes of a string that is not UTF-8 an error repeats.
pub(crate) const INVALID_UTF8_PREFIX_BYTES_MAX: usize = 64;

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ProtocolError as E;
        match self {
            E::UnsupportedVersion { .. }
            | E::BetaFlagUnset { .. }
            | E::VersionChanged { .. }
            | E::UnknownOpcode { .. }
            | E::WrongDirection { .. }
            | E::UnexpectedDirection { .. }
            | E::FrameTooLong { .. }
            | E::NegativeBodyLength { .. }
            | E::Corrupt { .. }
            | E::TornMessage { .. }
            | E::LargeMessageOverrun { .. }
            | E::BadCompression { .. } => self.describe_frame(f),
            E::TruncatedString { .. }
            | E::TruncatedShortBytes
            | E::Truncated { .. }
            | E::InvalidUtf8 { .. }
            | E::UnknownConsistency { .. }
            | E::InvalidValueLength { .. }
            | E::TimestampOutOfBounds
            | E::InvalidWord { .. }
            | E::InvalidBatchKind { .. }
            | E::InvalidBatchStatementKind { .. }
            | E::CustomPayloadTooEarly
            | E::UnsupportedMessage
            | E::ZeroPageSize => self.describe_request(f),
            E::NotStarted { .. }
            | E::AlreadyStarted
            | E::MissingCqlVersion
            | E::UnsupportedCqlVersion { .. }
            | E::InvalidCqlVersion { .. }
            | E::UnknownCompression { .. }
            | E::SnappyTooLate
            | E::EventTooEarly { .. } => self.describe_session(f),
            E::UnknownTypeId { .. }
            | E::TypeTooDeep
            | E::UnknownErrorCode { .. }
            | E::UnknownResultKind { .. }
            | E::NegativeCount { .. }
            | E::InvalidAddress => self.describe_response(f),
        }
    }
}

impl ProtocolError {
    fn describe_frame(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ProtocolError as E;
        match self {
            E::UnsupportedVersion { number } => {
                let [v3, v4, v5, v6] = Version::ALL;
                write!(
                    f,
                    "Invalid or unsupported protocol version ({number}); \
                     supported versions are ({v3}, {v4}, {v5}, {v6})"
                )
            }
            E::BetaFlagUnset { version } => {
                write!(
                    f,
                    "Beta version of the protocol used ({version}), but USE_BETA flag is unset"
                )
            }
            E::VersionChanged { got, expected } => write!(
                f,
                "Invalid message version. Got {got} but previous messages on this connection had \
                 version {expected}"
            ),
            E::UnknownOpcode { number } => write!(f, "Unknown opcode {number}"),
            E::WrongDirection { opcode, got } => write!(
                f,
                "Wrong protocol direction (expected {}, got {got}) for opcode {} ({opcode})",
                opcode.direction(),
                opcode.number()
            ),
            E::UnexpectedDirection { opcode } => {
                let (got, expected) = match opcode.direction() {
                    Direction::Request => (Direction::Request, Direction::Response),
                    Direction::Response => (Direction::Response, Direction::Request),
                };
                write!(f, "Unexpected {got} message {opcode}, expecting {expected}")
            }
            E::FrameTooLong { length_bytes, length_bytes_max } => write!(
                f,
                "Request is too big: length {length_bytes} exceeds maximum allowed length \
                 {length_bytes_max}."
            ),
            E::NegativeBodyLength { length } => {
                write!(f, "Invalid value for envelope header body length field: {length}")
            }
            E::Corrupt { part, read, computed } => {
                let part = match part {
                    FramePart::Header => "header",
                    FramePart::Body => "body",
                };
                write!(
                    f,
                    "invalid, unrecoverable CRC mismatch detected in frame {part}. \
                     Read {read}, Computed {computed}"
                )
            }
            E::TornMessage { needed_bytes, available_bytes } => write!(
                f,
                "Undersized buffer supplied. Expected {needed_bytes}, actual {available_bytes}"
            ),
            E::LargeMessageOverrun { needed_bytes, available_bytes } => write!(
                f,
                "Frames of a large message hold {available_bytes} bytes, expected {needed_bytes}"
            ),
            E::BadCompression { algorithm } => {
                write!(f, "Provided frame does not appear to be {algorithm} compressed")
            }
            _ => Ok(()),
        }
    }

    fn describe_request(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ProtocolError as E;
        match self {
            E::TruncatedString { length_field_bytes } => write!(
                f,
                "Not enough bytes to read an UTF8 serialized string preceded by its \
                 {length_field_bytes} bytes length"
            ),
            E::TruncatedShortBytes => {
                f.write_str("Not enough bytes to read a byte array preceded by its 2 bytes length")
            }
            E::Truncated { what } => write!(f, "Not enough bytes to read {what}"),
            E::InvalidUtf8 { prefix } => {
                f.write_str("Cannot decode string as UTF8: '")?;
                for byte in prefix {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("'")
            }
            E::UnknownConsistency { code } => {
                write!(f, "Unknown code {code} for a consistency level")
            }
            E::InvalidValueLength { length } => write!(f, "Invalid ByteBuf length {length}"),
            E::TimestampOutOfBounds => write!(
                f,
                "Out of bound timestamp, must be in [{}, {}] (got {})",
                i64::MIN + 1,
                i64::MAX,
                i64::MIN
            ),
            E::InvalidWord { word, kind } => write!(f, "Invalid value '{word}' for {kind}"),
            E::InvalidBatchKind { kind } => {
                write!(f, "Invalid BATCH message type {}", kind.cast_signed())
            }
            E::InvalidBatchStatementKind { kind } => write!(
                f,
                "Invalid query kind in BATCH messages. Must be 0 or 1 but got {}",
                kind.cast_signed()
            ),
            E::CustomPayloadTooEarly => f.write_str(
                "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4",
            ),
            E::UnsupportedMessage => f.write_str("Unsupported message"),
            E::ZeroPageSize => f.write_str("The page size cannot be 0"),
            _ => Ok(()),
        }
    }

    fn describe_session(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ProtocolError as E;
        match self {
            E::NotStarted { opcode } => {
                write!(f, "Unexpected message {opcode}, expecting STARTUP or OPTIONS")
            }
            E::AlreadyStarted => {
                f.write_str("Unexpected message STARTUP, the connection is already initialized")
            }
            E::MissingCqlVersion => f.write_str("Missing value CQL_VERSION in STARTUP message"),
            E::UnsupportedCqlVersion { version } => write!(
                f,
                "CQL version {version} is not supported by the binary protocol \
                 (supported version are >= 3.0.0)"
            ),
            E::InvalidCqlVersion { version } => write!(f, "Invalid version value: {version}"),
            E::UnknownCompression { name } => {
                write!(f, "Unknown compression algorithm: {name}")
            }
            E::SnappyTooLate => f.write_str("Snappy compression is not supported in protocol V5"),
            E::EventTooEarly { event, version } => {
                write!(f, "Event {event} not valid for protocol version {version}")
            }
            _ => Ok(()),
        }
    }

    fn describe_response(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ProtocolError as E;
        match self {
            E::UnknownTypeId { id } => write!(f, "Unknown option id {id}"),
            E::TypeTooDeep => f.write_str("Data type nested too deeply"),
            E::UnknownErrorCode { code } => write!(f, "Unknown error code {code}"),
            E::UnknownResultKind { kind } => write!(f, "Unknown kind id {kind} in RESULT message"),
            E::NegativeCount { what } => write!(f, "Negative number of {what}"),
            E::InvalidAddress => f.write_str("Invalid IP address while deserializing inet address"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// A message that could not be taken from the stream, with what the answer needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// The stream to answer on; 0 when the message never told.
    pub stream: i16,
    /// What is wrong.
    pub error: ProtocolError,
    /// Whether the rest of the stream cannot be trusted: answer, then close.
    pub fatal: bool,
}

/// The text of the error.
impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for FrameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_something() {
        use ProtocolError as E;
        let (got, expected) = (Version::V3, Version::V4);
        let opcode = Opcode::Ready;
        let word = || "word".to_owned();
        let (needed_bytes, available_bytes) = (2, 1);
        let errors = [
            E::UnsupportedVersion { number: 1 },
            E::BetaFlagUnset { version: Version::V6 },
            E::VersionChanged { got, expected },
            E::UnknownOpcode { number: 1 },
            E::WrongDirection { opcode, got: Direction::Request },
            E::UnexpectedDirection { opcode },
            E::FrameTooLong { length_bytes: 2, length_bytes_max: 1 },
            E::NegativeBodyLength { length: -1 },
            E::Corrupt { part: FramePart::Body, read: 1, computed: 2 },
            E::TornMessage { needed_bytes, available_bytes },
            E::LargeMessageOverrun { needed_bytes, available_bytes },
            E::BadCompression { algorithm: "LZ4" },
            E::TruncatedString { length_field_bytes: 2 },
            E::TruncatedShortBytes,
            E::Truncated { what: "it" },
            E::InvalidUtf8 { prefix: vec![0xFF] },
            E::UnknownConsistency { code: 99 },
            E::InvalidValueLength { length: -3 },
            E::TimestampOutOfBounds,
            E::InvalidWord { word: word(), kind: "Type" },
            E::InvalidBatchKind { kind: 9 },
            E::InvalidBatchStatementKind { kind: 9 },
            E::CustomPayloadTooEarly,
            E::UnsupportedMessage,
            E::NotStarted { opcode },
            E::AlreadyStarted,
            E::MissingCqlVersion,
            E::UnsupportedCqlVersion { version: word() },
            E::InvalidCqlVersion { version: word() },
            E::UnknownCompression { name: word() },
            E::SnappyTooLate,
            E::EventTooEarly { event: "EVENT", version: got },
            E::ZeroPageSize,
            E::UnknownTypeId { id: 99 },
            E::TypeTooDeep,
            E::UnknownErrorCode { code: 99 },
            E::UnknownResultKind { kind: 99 },
            E::NegativeCount { what: "rows" },
            E::InvalidAddress,
        ];
        for error in errors {
            assert!(!error.to_string().is_empty(), "{error:?}");
        }
    }
}
