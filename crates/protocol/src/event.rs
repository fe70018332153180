//! What a server tells without being asked, and schema changes, which are also results.

use std::net::SocketAddr;

use bytes::{BufMut, BytesMut};

use crate::error::ProtocolError;
use crate::version::Version;
use crate::wire::{self, Reader};

/// The stream of every event.
pub const EVENT_STREAM: i16 = -1;

const TOPOLOGY_CHANGE: &str = "TOPOLOGY_CHANGE";
const STATUS_CHANGE: &str = "STATUS_CHANGE";
const SCHEMA_CHANGE: &str = "SCHEMA_CHANGE";
const TRACE_COMPLETE: &str = "TRACE_COMPLETE";

/// The kinds of event a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventKinds {
    /// Nodes that come and go for good.
    pub topology_change: bool,
    /// Nodes that go up and down.
    pub status_change: bool,
    /// Changes of the schema.
    pub schema_change: bool,
    /// Traces that are complete (from v4; accepted, but no server sends it).
    pub trace_complete: bool,
}

impl EventKinds {
    pub(crate) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let mut kinds = EventKinds::default();
        let mut too_early = None;
        for _ in 0..reader.u16("the number of events")? {
            let word = reader.string()?;
            match word.to_uppercase().as_str() {
                TOPOLOGY_CHANGE => kinds.topology_change = true,
                STATUS_CHANGE => kinds.status_change = true,
                SCHEMA_CHANGE => kinds.schema_change = true,
                TRACE_COMPLETE => {
                    kinds.trace_complete = true;
                    if version < Version::V4 {
                        too_early = Some(TRACE_COMPLETE);
                    }
                }
                _ => return Err(invalid_word(word, "Type")),
            }
        }
        match too_early {
            Some(event) => Err(ProtocolError::EventTooEarly { event, version }),
            None => Ok(kinds),
        }
    }

    pub(crate) fn encode(&self, buf: &mut BytesMut) {
        let wanted = [
            (self.topology_change, TOPOLOGY_CHANGE),
            (self.status_change, STATUS_CHANGE),
            (self.schema_change, SCHEMA_CHANGE),
            (self.trace_complete, TRACE_COMPLETE),
        ];
        let count = wanted.iter().filter(|(is_wanted, _)| *is_wanted).count();
        buf.put_u16(u16::try_from(count).unwrap_or_default());
        for (_, word) in wanted.iter().filter(|(is_wanted, _)| *is_wanted) {
            wire::put_string(buf, word);
        }
    }

    /// Whether a client that asked for these kinds gets that event.
    pub fn wants(&self, event: &Event) -> bool {
        match event {
            Event::TopologyChange { .. } => self.topology_change,
            Event::StatusChange { .. } => self.status_change,
            Event::SchemaChange(_) => self.schema_change,
        }
    }
}

fn invalid_word(word: &str, kind: &'static str) -> ProtocolError {
    ProtocolError::InvalidWord { word: word.to_owned(), kind }
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The set of nodes changed.
    TopologyChange {
        /// In which way.
        change: TopologyChange,
        /// Where the node is for clients.
        address: SocketAddr,
    },
    /// A node went up or down.
    StatusChange {
        /// Up or down.
        status: NodeStatus,
        /// Where the node is for clients.
        address: SocketAddr,
    },
    /// The schema changed.
    SchemaChange(SchemaChange),
}

/// How the set of nodes changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    /// A node joined.
    NewNode,
    /// A node left for good.
    RemovedNode,
    /// A node owns other tokens now.
    MovedNode,
}

/// Whether a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    /// It does.
    Up,
    /// It does not.
    Down,
}

impl Event {
    pub(crate) fn encode(&self, version: Version, buf: &mut BytesMut) {
        match self {
            Event::TopologyChange { change, address } => {
                wire::put_string(buf, TOPOLOGY_CHANGE);
                let word = match change {
                    TopologyChange::NewNode => "NEW_NODE",
                    TopologyChange::RemovedNode => "REMOVED_NODE",
                    TopologyChange::MovedNode => "MOVED_NODE",
                };
                wire::put_string(buf, word);
                wire::put_socket_address(buf, *address);
            }
            Event::StatusChange { status, address } => {
                wire::put_string(buf, STATUS_CHANGE);
                let word = match status {
                    NodeStatus::Up => "UP",
                    NodeStatus::Down => "DOWN",
                };
                wire::put_string(buf, word);
                wire::put_socket_address(buf, *address);
            }
            Event::SchemaChange(change) => {
                wire::put_string(buf, SCHEMA_CHANGE);
                change.encode(version, buf);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Event, ProtocolError> {
        match reader.string()? {
            TOPOLOGY_CHANGE => {
                let change = match reader.string()? {
                    "NEW_NODE" => TopologyChange::NewNode,
                    "REMOVED_NODE" => TopologyChange::RemovedNode,
                    "MOVED_NODE" => TopologyChange::MovedNode,
                    word => return Err(invalid_word(word, "Change")),
                };
                Ok(Event::TopologyChange { change, address: reader.socket_address()? })
            }
            STATUS_CHANGE => {
                let status = match reader.string()? {
                    "UP" => NodeStatus::Up,
                    "DOWN" => NodeStatus::Down,
                    word => return Err(invalid_word(word, "Status")),
                };
                Ok(Event::StatusChange { status, address: reader.socket_address()? })
            }
            SCHEMA_CHANGE => SchemaChange::decode(reader).map(Event::SchemaChange),
            word => Err(invalid_word(word, "Type")),
        }
    }
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened.
    pub kind: SchemaChangeKind,
    pub keyspace: String,
    /// To what.
    pub target: SchemaTarget,
}

/// What happened to a part of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaChangeKind {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It is gone.
    Dropped,
}

/// A part of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table or a view.
    Table(String),
    /// A user type.
    Type(String),
    /// A function (from v4).
    Function {
        name: String,
        /// The CQL types of its arguments.
        argument_types: Vec<String>,
    },
    /// An aggregate (from v4).
    Aggregate {
        name: String,
        /// The CQL types of its arguments.
        argument_types: Vec<String>,
    },
}

impl SchemaChange {
    /// What a client of that version is told: v3 does not know functions and aggregates, to it the
    /// keyspace was updated.
    pub(crate) fn encode(&self, version: Version, buf: &mut BytesMut) {
        let (word, name, argument_types) = match &self.target {
            SchemaTarget::Keyspace => ("KEYSPACE", None, None),
            SchemaTarget::Table(name) => ("TABLE", Some(name), None),
            SchemaTarget::Type(name) => ("TYPE", Some(name), None),
            SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. }
                if version < Version::V4 =>
            {
                wire::put_string(buf, "UPDATED");
                wire::put_string(buf, "KEYSPACE");
                wire::put_string(buf, &self.keyspace);
                return;
            }
            SchemaTarget::Function { name, argument_types } => {
                ("FUNCTION", Some(name), Some(argument_types))
            }
            SchemaTarget::Aggregate { name, argument_types } => {
                ("AGGREGATE", Some(name), Some(argument_types))
            }
        };
        let kind = match self.kind {
            SchemaChangeKind::Created => "CREATED",
            SchemaChangeKind::Updated => "UPDATED",
            SchemaChangeKind::Dropped => "DROPPED",
        };
        wire::put_string(buf, kind);
        wire::put_string(buf, word);
        wire::put_string(buf, &self.keyspace);
        if let Some(name) = name {
            wire::put_string(buf, name);
        }
        if let Some(argument_types) = argument_types {
            wire::put_string_list(buf, argument_types);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<SchemaChange, ProtocolError> {
        let kind = match reader.string()? {
            "CREATED" => SchemaChangeKind::Created,
            "UPDATED" => SchemaChangeKind::Updated,
            "DROPPED" => SchemaChangeKind::Dropped,
            word => return Err(invalid_word(word, "Change")),
        };
        let word = reader.string()?;
        let keyspace = reader.string()?.to_owned();
        let target = match word {
            "KEYSPACE" => SchemaTarget::Keyspace,
            "TABLE" => SchemaTarget::Table(reader.string()?.to_owned()),
            "TYPE" => SchemaTarget::Type(reader.string()?.to_owned()),
            "FUNCTION" => SchemaTarget::Function {
                name: reader.string()?.to_owned(),
                argument_types: reader.string_list()?,
            },
            "AGGREGATE" => SchemaTarget::Aggregate {
                name: reader.string()?.to_owned(),
                argument_types: reader.string_list()?,
            },
            word => return Err(invalid_word(word, "Target")),
        };
        Ok(SchemaChange { kind, keyspace, target })
    }
}
