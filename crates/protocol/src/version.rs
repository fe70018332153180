//! The protocol versions we speak.

use std::fmt;

/// A version of the native protocol that the server speaks. Later versions compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// The oldest one, of Cassandra 2.1.
    V3,
    /// Unset values, warnings, custom payloads; of Cassandra 2.2.
    V4,
    /// Checksummed outer frames, per-query keyspace, changed metadata; of Cassandra 4.0.
    V5,
    /// The one that is still in beta: as v5, and only for those who say that they want it.
    V6,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Version; 4] = [Version::V3, Version::V4, Version::V5, Version::V6];

    /// What a reply uses before a connection has agreed on a version: the newest that is no beta.
    pub const NEWEST: Version = Version::V5;

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Version::V3 => 3,
            Version::V4 => 4,
            Version::V5 => 5,
            Version::V6 => 6,
        }
    }

    /// The version of that number, if we speak it.
    pub const fn from_number(number: u8) -> Option<Version> {
        match number {
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            5 => Some(Version::V5),
            6 => Some(Version::V6),
            _ => None,
        }
    }

    /// The name that a SUPPORTED message and error texts use, such as `5/v5`.
    pub const fn name(self) -> &'static str {
        match self {
            Version::V3 => "3/v3",
            Version::V4 => "4/v4",
            Version::V5 => "5/v5",
            Version::V6 => "6/v6-beta",
        }
    }

    /// Whether messages travel inside checksummed outer frames once the connection is set up.
    pub const fn has_outer_frames(self) -> bool {
        matches!(self, Version::V5 | Version::V6)
    }

    /// Whether every message must say that its sender wants a version that may still change.
    pub const fn is_beta(self) -> bool {
        matches!(self, Version::V6)
    }
}

/// The name, such as `5/v5`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
