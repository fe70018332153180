//! Consistency levels, as requests and errors name them.

use std::fmt;

use crate::error::ProtocolError;

/// How many replicas must answer. What a level means is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Consistency {
    /// Any node, even only a hint.
    Any = 0,
    /// One replica.
    One = 1,
    /// Two replicas.
    Two = 2,
    /// Three replicas.
    Three = 3,
    /// A majority.
    Quorum = 4,
    /// All replicas.
    All = 5,
    /// A majority in this data center.
    LocalQuorum = 6,
    /// A majority in each data center.
    EachQuorum = 7,
    /// Linearizable.
    Serial = 8,
    /// Linearizable in this data center.
    LocalSerial = 9,
    /// One replica in this data center.
    LocalOne = 10,
    /// The coordinator itself.
    NodeLocal = 11,
}

impl Consistency {
    /// Every level, by code.
    pub const ALL: [Consistency; 12] = [
        Consistency::Any,
        Consistency::One,
        Consistency::Two,
        Consistency::Three,
        Consistency::Quorum,
        Consistency::All,
        Consistency::LocalQuorum,
        Consistency::EachQuorum,
        Consistency::Serial,
        Consistency::LocalSerial,
        Consistency::LocalOne,
        Consistency::NodeLocal,
    ];

    /// The code on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// The level of that code.
    pub fn from_code(code: u16) -> Result<Consistency, ProtocolError> {
        Consistency::ALL
            .get(usize::from(code))
            .copied()
            .ok_or(ProtocolError::UnknownConsistency { code })
    }

    /// Whether it is SERIAL or LOCAL_SERIAL.
    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }

    /// The name of CQL.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Any => "ANY",
            Consistency::One => "ONE",
            Consistency::Two => "TWO",
            Consistency::Three => "THREE",
            Consistency::Quorum => "QUORUM",
            Consistency::All => "ALL",
            Consistency::LocalQuorum => "LOCAL_QUORUM",
            Consistency::EachQuorum => "EACH_QUORUM",
            Consistency::Serial => "SERIAL",
            Consistency::LocalSerial => "LOCAL_SERIAL",
            Consistency::LocalOne => "LOCAL_ONE",
            Consistency::NodeLocal => "NODE_LOCAL",
        }
    }
}

/// The name of CQL.
impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
