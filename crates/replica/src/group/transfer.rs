//! What nodes say to each other while the rows of a set are handed over: an offer, chunks one after the other, and now and then
//! how far the other is. Only some chunks are on their way at once, so a node that is slow is not flooded.

use bytes::Bytes;
use types::codec::{Decoder, Malformed, push_counted, push_varint};
use types::{ReplicaId, SetId};

/// The first byte of a message.
const TRANSFER_VERSION: u8 = 1;

/// How far an image is that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// So many chunks are there; the next one may come.
    Chunks(u32),
    /// All of it is there, on disk.
    Whole,
    /// It is not wanted, or cannot be kept.
    Refused,
}

/// One message of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferMessage {
    /// A leader has an image for a member.
    Offer {
        /// The leader's number of this transfer; never the same twice.
        number: u64,
        /// For whom.
        to: ReplicaId,
        /// See [`storage::ImageHead`].
        head: Bytes,
    },
    /// A part of it.
    Chunk {
        /// Of which transfer.
        number: u64,
        /// Of which set.
        set: SetId,
        /// The how many-th, from 0 on.
        sequence: u32,
        /// Its bytes.
        bytes: Bytes,
        /// Their CRC-32.
        sum: u32,
        /// There are no more.
        is_last: bool,
    },
    /// What came of it.
    Answer {
        /// Of which transfer; 0 where the member was told to go on behind an image that its node does not hold.
        number: u64,
        /// Of which set.
        set: SetId,
        /// Whose image it is.
        member: ReplicaId,
        /// How far it is.
        taken: Taken,
    },
}

const OFFER: u8 = 0;
const CHUNK: u8 = 1;
const LAST_CHUNK: u8 = 2;
const ANSWER_CHUNKS: u8 = 3;
const ANSWER_WHOLE: u8 = 4;
const ANSWER_REFUSED: u8 = 5;

impl TransferMessage {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(TRANSFER_VERSION);
        match self {
            TransferMessage::Offer { number, to, head } => {
                out.push(OFFER);
                push_varint(out, *number);
                push_varint(out, to.0);
                push_counted(out, head);
            }
            TransferMessage::Chunk { number, set, sequence, bytes, sum, is_last } => {
                out.push(if *is_last { LAST_CHUNK } else { CHUNK });
                push_varint(out, *number);
                out.extend_from_slice(&set.0.to_be_bytes());
                out.extend_from_slice(&sequence.to_be_bytes());
                out.extend_from_slice(&sum.to_be_bytes());
                push_counted(out, bytes);
            }
            TransferMessage::Answer { number, set, member, taken } => {
                out.push(match taken {
                    Taken::Chunks(_) => ANSWER_CHUNKS,
                    Taken::Whole => ANSWER_WHOLE,
                    Taken::Refused => ANSWER_REFUSED,
                });
                push_varint(out, *number);
                out.extend_from_slice(&set.0.to_be_bytes());
                push_varint(out, member.0);
                if let Taken::Chunks(count) = taken {
                    out.extend_from_slice(&count.to_be_bytes());
                }
            }
        }
    }

    /// Reads one message; all of the bytes are its.
    pub fn decode(bytes: Bytes) -> Result<TransferMessage, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.byte()? != TRANSFER_VERSION {
            return Err(Malformed);
        }
        let kind = decoder.byte()?;
        let number = decoder.varint()?;
        let message = match kind {
            OFFER => TransferMessage::Offer {
                number,
                to: ReplicaId(decoder.varint()?),
                head: decoder.counted()?,
            },
            CHUNK | LAST_CHUNK => TransferMessage::Chunk {
                number,
                set: SetId(decoder.u32()?),
                sequence: decoder.u32()?,
                sum: decoder.u32()?,
                bytes: decoder.counted()?,
                is_last: kind == LAST_CHUNK,
            },
            ANSWER_CHUNKS | ANSWER_WHOLE | ANSWER_REFUSED => TransferMessage::Answer {
                number,
                set: SetId(decoder.u32()?),
                member: ReplicaId(decoder.varint()?),
                taken: match kind {
                    ANSWER_CHUNKS => Taken::Chunks(decoder.u32()?),
                    ANSWER_WHOLE => Taken::Whole,
                    _ => Taken::Refused,
                },
            },
            _ => return Err(Malformed),
        };
        if decoder.is_done() { Ok(message) } else { Err(Malformed) }
    }
}
