//! Messages between the members of a set as bytes. Everything that a peer sends is looked at here, or before it is stepped: the
//! library's own parser never sees it.

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot};
use smallvec::{SmallVec, smallvec};
use storage::{Configuration, EntryPlace};
use types::codec::{Decoder, Malformed, push_counted, push_length, push_varint};
use types::{ReplicaId, SetId};

use super::entries::conf_state;

/// A message from one member of a set to another.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerMessage {
    /// Whose members they are.
    pub set: SetId,
    /// What consensus says.
    pub message: Message,
}

/// The kind of message that gives a vote.
pub const VOTE: MessageType = MessageType::MsgRequestVoteResponse;
/// The kind of message that asks for one.
pub const VOTE_REQUEST: MessageType = MessageType::MsgRequestVote;

/// The first byte of a message.
const MESSAGE_VERSION: u8 = 1;
const REJECTS: u8 = 1;
/// A message has at most so many entries.
const ENTRIES_MAX: usize = 65_536;

/// The kinds that one member sends to another; their place is their number. What a member says to itself never travels, and
/// proposals are not forwarded by consensus.
const KINDS: [MessageType; 13] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTimeoutNow,
    MessageType::MsgReadIndex,
    MessageType::MsgReadIndexResp,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
    MessageType::MsgTransferLeader,
    MessageType::MsgSnapshot,
];

/// What is sent to one that lacks many entries leaves in parts, each of at most about so many bytes: the library puts all that it has
/// for a member into one message, however large that gets.
pub(crate) fn in_parts(mut message: Message, bytes_max: u64) -> SmallVec<[Message; 1]> {
    let size = |entry: &Entry| (entry.data.len() + entry.context.len()) as u64;
    let is_small =
        message.entries.len() < 2 || message.entries.iter().map(size).sum::<u64>() <= bytes_max;
    if is_small {
        return smallvec![message];
    }
    let mut parts: SmallVec<[Message; 1]> = SmallVec::new();
    let (mut before, mut bytes) = ((message.index, message.log_term), 0);
    for entry in message.take_entries() {
        bytes += size(&entry);
        let this = (entry.index, entry.term);
        match parts.last_mut() {
            Some(part) if bytes <= bytes_max => part.mut_entries().push(entry),
            _ => {
                let mut part = message.clone();
                (part.index, part.log_term) = before;
                bytes = size(&entry);
                part.mut_entries().push(entry);
                parts.push(part);
            }
        }
        before = this;
    }
    parts
}

/// That a member may go on behind an image that it holds, with who belongs to its set there.
pub(crate) fn snapshot_of(place: EntryPlace, configuration: &Configuration) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let mut data = Vec::new();
    configuration.encode(&mut data);
    snapshot.data = Bytes::from(data);
    let metadata = snapshot.mut_metadata();
    (metadata.index, metadata.term) = (place.index, place.term);
    metadata.set_conf_state(conf_state(configuration));
    snapshot
}

/// Who belongs to a set; all of the bytes are its.
pub(crate) fn decode_configuration(mut bytes: &[u8]) -> Option<Configuration> {
    let configuration = Configuration::decode(&mut bytes)?;
    bytes.is_empty().then_some(configuration)
}

impl PeerMessage {
    /// From whom it is.
    pub fn from(&self) -> ReplicaId {
        ReplicaId(self.message.from)
    }

    /// For whom it is.
    pub fn to(&self) -> ReplicaId {
        ReplicaId(self.message.to)
    }

    /// Whether it can travel: a member also talks to itself.
    pub(crate) fn travels(message: &Message) -> bool {
        KINDS.contains(&message.get_msg_type())
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let message = &self.message;
        let kind = KINDS.iter().position(|kind| *kind == message.get_msg_type());
        let kind = kind.map_or(u8::MAX, |kind| kind as u8);
        assert!(kind != u8::MAX, "only what travels is encoded");
        out.push(MESSAGE_VERSION);
        out.extend_from_slice(&self.set.0.to_be_bytes());
        out.push(kind);
        out.push(if message.reject { REJECTS } else { 0 });
        let numbers = [
            message.to,
            message.from,
            message.term,
            message.log_term,
            message.index,
            message.commit,
            message.commit_term,
            message.reject_hint,
        ];
        numbers.into_iter().for_each(|number| push_varint(out, number));
        push_counted(out, &message.context);
        push_length(out, message.entries.len());
        for entry in &message.entries {
            out.push(match entry.get_entry_type() {
                EntryType::EntryNormal => 0,
                EntryType::EntryConfChange => 1,
                EntryType::EntryConfChangeV2 => 2,
            });
            push_varint(out, entry.term);
            push_varint(out, entry.index);
            push_counted(out, &entry.context);
            push_counted(out, &entry.data);
        }
        if message.get_msg_type() == MessageType::MsgSnapshot {
            let snapshot = message.get_snapshot();
            push_varint(out, snapshot.get_metadata().index);
            push_varint(out, snapshot.get_metadata().term);
            push_counted(out, &snapshot.data);
        }
    }

    /// Reads one message; all of the bytes are its.
    pub fn decode(bytes: Bytes) -> Result<PeerMessage, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.byte()? != MESSAGE_VERSION {
            return Err(Malformed);
        }
        let set = SetId(decoder.u32()?);
        let mut message = Message::default();
        let kind = KINDS.get(usize::from(decoder.byte()?)).ok_or(Malformed)?;
        message.set_msg_type(*kind);
        message.reject = match decoder.byte()? {
            0 => false,
            REJECTS => true,
            _ => return Err(Malformed),
        };
        message.to = decoder.varint()?;
        message.from = decoder.varint()?;
        message.term = decoder.varint()?;
        message.log_term = decoder.varint()?;
        message.index = decoder.varint()?;
        message.commit = decoder.varint()?;
        message.commit_term = decoder.varint()?;
        message.reject_hint = decoder.varint()?;
        message.context = decoder.counted()?;
        let count = decoder.length()?;
        if count > ENTRIES_MAX {
            return Err(Malformed);
        }
        for _ in 0..count {
            let mut entry = Entry::default();
            entry.set_entry_type(match decoder.byte()? {
                0 => EntryType::EntryNormal,
                2 => EntryType::EntryConfChangeV2,
                _ => return Err(Malformed),
            });
            entry.term = decoder.varint()?;
            entry.index = decoder.varint()?;
            entry.context = decoder.counted()?;
            entry.data = decoder.counted()?;
            message.mut_entries().push(entry);
        }
        if message.get_msg_type() == MessageType::MsgSnapshot {
            let place = EntryPlace { index: decoder.varint()?, term: decoder.varint()? };
            let bytes = decoder.counted()?;
            let configuration = decode_configuration(&bytes).ok_or(Malformed)?;
            message.set_snapshot(snapshot_of(place, &configuration));
        }
        if decoder.is_done() { Ok(PeerMessage { set, message }) } else { Err(Malformed) }
    }
}
