//! The kinds of message, their direction, and the flags of a message header.

use std::fmt;

use crate::error::ProtocolError;

/// Who sends a message. The top bit of the first byte of a message says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Client to server.
    Request,
    /// Server to client.
    Response,
}

impl Direction {
    pub(crate) const RESPONSE_BIT: u8 = 0x80;

    pub(crate) fn of_first_byte(byte: u8) -> Direction {
        if byte & Direction::RESPONSE_BIT == 0 { Direction::Request } else { Direction::Response }
    }
}

/// As Cassandra writes it in error texts.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Request => "REQUEST",
            Direction::Response => "RESPONSE",
        })
    }
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Something went wrong.
    Error = 0,
    /// The first request of a connection.
    Startup = 1,
    /// The connection may be used.
    Ready = 2,
    /// The client must prove who it is.
    Authenticate = 3,
    /// A login of version 1, which no supported version has.
    Credentials = 4,
    /// What does the server support?
    Options = 5,
    /// What the server supports.
    Supported = 6,
    /// A statement as text.
    Query = 7,
    /// The outcome of a statement.
    Result = 8,
    /// A statement to keep under an id.
    Prepare = 9,
    /// A kept statement with its values.
    Execute = 10,
    /// Send me events.
    Register = 11,
    /// Something happened to the cluster or its schema.
    Event = 12,
    /// Several statements as one.
    Batch = 13,
    /// The next step of a login, from the server.
    AuthChallenge = 14,
    /// The next step of a login, from the client.
    AuthResponse = 15,
    /// The login is complete.
    AuthSuccess = 16,
}

impl Opcode {
    /// The opcode of that number.
    pub fn from_number(number: u8) -> Option<Opcode> {
        Some(match number {
            0 => Opcode::Error,
            1 => Opcode::Startup,
            2 => Opcode::Ready,
            3 => Opcode::Authenticate,
            4 => Opcode::Credentials,
            5 => Opcode::Options,
            6 => Opcode::Supported,
            7 => Opcode::Query,
            8 => Opcode::Result,
            9 => Opcode::Prepare,
            10 => Opcode::Execute,
            11 => Opcode::Register,
            12 => Opcode::Event,
            13 => Opcode::Batch,
            14 => Opcode::AuthChallenge,
            15 => Opcode::AuthResponse,
            16 => Opcode::AuthSuccess,
            _ => return None,
        })
    }

    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Which side sends it.
    pub fn direction(self) -> Direction {
        match self {
            Opcode::Startup
            | Opcode::Credentials
            | Opcode::Options
            | Opcode::Query
            | Opcode::Prepare
            | Opcode::Execute
            | Opcode::Register
            | Opcode::Batch
            | Opcode::AuthResponse => Direction::Request,
            Opcode::Error
            | Opcode::Ready
            | Opcode::Authenticate
            | Opcode::Supported
            | Opcode::Result
            | Opcode::Event
            | Opcode::AuthChallenge
            | Opcode::AuthSuccess => Direction::Response,
        }
    }

    /// The name of the specification.
    pub fn name(self) -> &'static str {
        match self {
            Opcode::Error => "ERROR",
            Opcode::Startup => "STARTUP",
            Opcode::Ready => "READY",
            Opcode::Authenticate => "AUTHENTICATE",
            Opcode::Credentials => "CREDENTIALS",
            Opcode::Options => "OPTIONS",
            Opcode::Supported => "SUPPORTED",
            Opcode::Query => "QUERY",
            Opcode::Result => "RESULT",
            Opcode::Prepare => "PREPARE",
            Opcode::Execute => "EXECUTE",
            Opcode::Register => "REGISTER",
            Opcode::Event => "EVENT",
            Opcode::Batch => "BATCH",
            Opcode::AuthChallenge => "AUTH_CHALLENGE",
            Opcode::AuthResponse => "AUTH_RESPONSE",
            Opcode::AuthSuccess => "AUTH_SUCCESS",
        }
    }

    /// The opcode of that number, if a message of that direction may carry it.
    pub(crate) fn of_message(number: u8, direction: Direction) -> Result<Opcode, ProtocolError> {
        let opcode = Opcode::from_number(number).ok_or(ProtocolError::UnknownOpcode { number })?;
        if opcode.direction() != direction {
            return Err(ProtocolError::WrongDirection { opcode, got: direction });
        }
        Ok(opcode)
    }
}

/// The name of the specification.
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The flags of a message header. Bits without a meaning are ignored, as Cassandra does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// The body is compressed (v3 and v4).
    pub const COMPRESSED: Flags = Flags(0x01);
    /// Request: trace this. Response: the body starts with the id of the trace.
    pub const TRACING: Flags = Flags(0x02);
    /// The body has a custom payload (from v4).
    pub const CUSTOM_PAYLOAD: Flags = Flags(0x04);
    /// The body has warnings (from v4, responses only).
    pub const WARNING: Flags = Flags(0x08);
    /// The client accepts a version that is still in beta.
    pub const USE_BETA: Flags = Flags(0x10);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These flags, but not those.
    #[must_use]
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}
