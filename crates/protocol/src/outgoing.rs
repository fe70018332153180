//! Messages → bytes: gathers many, then lays them into the connection's framing.

use bytes::{BufMut, BytesMut};

use crate::compression::Compression;
use crate::frame::{Framing, HEADER_BYTES, HEADER_LENGTH_AT, RawHeader};
use crate::opcode::Flags;
use crate::outer_frame::{self, PAYLOAD_BYTES_MAX, PLAIN_HEADER_BYTES};
use crate::version::Version;
use crate::wire;

/// Room for messages beyond this is given back once they are framed: a large answer is not in memory twice while its
/// client takes it.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What a connection has to send. Messages are appended to [`Outgoing::messages`] as they are made;
/// [`Outgoing::seal`] compresses them and packs them into frames, and hands out the bytes to write.
/// Messages that are sealed together share their outer frames (v5).
///
/// It does not bound itself: whoever fills it looks at [`Outgoing::length_bytes`] and waits for a
/// client that does not read.
#[derive(Debug)]
pub struct Outgoing {
    framing: Framing,
    compression: Option<Compression>,
    /// Whole messages, uncompressed, not framed; before them the room that they are framed with.
    messages: BytesMut,
    /// Messages that fit into one plain outer frame become one where they lie: room for its header is before them.
    header_room: usize,
    /// Ready to be written to the socket.
    sealed: BytesMut,
}

/// Room for messages and frames.
#[derive(Debug, Default)]
pub struct OutgoingRoom {
    messages: BytesMut,
    sealed: BytesMut,
}

impl OutgoingRoom {
    /// How much it is.
    pub fn capacity_bytes(&self) -> usize {
        self.messages.capacity() + self.sealed.capacity()
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Outgoing::new()
    }
}

impl Outgoing {
    /// For a fresh connection: plain framing, no compression.
    pub fn new() -> Outgoing {
        Outgoing {
            framing: Framing::Plain,
            compression: None,
            messages: BytesMut::new(),
            header_room: 0,
            sealed: BytesMut::new(),
        }
    }

    /// From the next message on, the connection speaks `version`, with that compression. To be
    /// called when the answer to STARTUP was appended, which still goes out in the plain framing.
    ///
    /// Compat: Cassandra compresses that answer in v3 and v4 already; drivers look at its flag.
    pub fn start(&mut self, version: Version, compression: Option<Compression>) {
        self.seal();
        self.framing = Framing::after_startup(version);
        self.compression = compression;
        self.header_room = match (self.framing, self.compression) {
            (Framing::Outer, None) => PLAIN_HEADER_BYTES,
            (Framing::Outer, Some(_)) | (Framing::Plain, _) => 0,
        };
    }

    /// Takes the room of a connection that waits away, for another one. Nothing may wait to be written.
    pub fn take_room(&mut self) -> OutgoingRoom {
        OutgoingRoom {
            messages: std::mem::take(&mut self.messages),
            sealed: std::mem::take(&mut self.sealed),
        }
    }

    /// Uses room that another one does not need.
    pub fn use_room(&mut self, room: OutgoingRoom) {
        if self.is_empty() {
            self.messages = room.messages;
            self.messages.clear();
            self.sealed = room.sealed;
        }
    }

    /// Where messages are appended, each one whole. What is there already is left alone.
    pub fn messages(&mut self) -> &mut BytesMut {
        if self.messages.is_empty() {
            self.messages.put_bytes(0, self.header_room);
        }
        &mut self.messages
    }

    /// Appends a large message that was made elsewhere. It is framed at once, and never in memory three times.
    pub fn append_large(&mut self, message: BytesMut) {
        self.seal();
        self.frame(message, 0);
    }

    /// The bytes of messages that are not framed.
    fn gathered_bytes(&self) -> usize {
        self.messages.len().saturating_sub(self.header_room)
    }

    /// How much waits to be written.
    pub fn length_bytes(&self) -> usize {
        self.gathered_bytes() + self.sealed.len()
    }

    /// How much room the buffers take.
    pub fn capacity_bytes(&self) -> usize {
        self.messages.capacity() + self.sealed.capacity()
    }

    /// Whether nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.gathered_bytes() == 0 && self.sealed.is_empty()
    }

    /// Frames all messages appended so far and returns everything that is ready. The writer
    /// consumes it from the front; what remains is kept for the next call.
    pub fn seal(&mut self) -> &mut BytesMut {
        if self.gathered_bytes() > 0 {
            let messages = std::mem::take(&mut self.messages);
            self.messages = self.frame(messages, self.header_room);
        }
        &mut self.sealed
    }

    /// Frames messages that have so much room before them. Returns what is of use for the next ones, emptied.
    fn frame(&mut self, mut messages: BytesMut, header_room: usize) -> BytesMut {
        let gathered = messages.get(header_room..).unwrap_or_default();
        match (self.framing, self.compression) {
            (Framing::Plain, None) => {
                if self.sealed.is_empty() {
                    std::mem::swap(&mut self.sealed, &mut messages);
                } else {
                    self.sealed.extend_from_slice(gathered);
                }
            }
            (Framing::Plain, Some(compression)) => {
                compress_messages(gathered, compression, &mut self.sealed);
            }
            (Framing::Outer, None)
                if header_room == PLAIN_HEADER_BYTES
                    && gathered.len() <= PAYLOAD_BYTES_MAX
                    && self.sealed.is_empty() =>
            {
                outer_frame::close_plain(&mut messages);
                std::mem::swap(&mut self.sealed, &mut messages);
            }
            (Framing::Outer, compression) => {
                pack_messages(gathered, compression.is_some(), &mut self.sealed);
            }
        }
        messages.clear();
        if messages.capacity() > KEPT_BYTES_MAX { BytesMut::new() } else { messages }
    }
}

/// The first message and what follows it.
fn split_message(messages: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = RawHeader::decode(messages.first_chunk::<HEADER_BYTES>()?);
    messages.split_at_checked(HEADER_BYTES + usize::try_from(header.length).ok()?)
}

fn compress_messages(mut messages: &[u8], compression: Compression, out: &mut BytesMut) {
    while let Some((message, rest)) = split_message(messages) {
        messages = rest;
        let Some((header, body)) = message.split_at_checked(HEADER_BYTES) else { return };
        let start = out.len();
        out.put_slice(header);
        if compression.compress_body(body, out) {
            let length = out.len() - start - HEADER_BYTES;
            wire::patch_i32(out, start + HEADER_LENGTH_AT, wire::int_length(length));
            if let Some(flags) = out.get_mut(start + 1) {
                *flags |= Flags::COMPRESSED.0;
            }
        } else {
            out.put_slice(body);
        }
    }
}

/// As many whole messages as fit share a frame; a message that does not fit into one is cut.
fn pack_messages(messages: &[u8], lz4: bool, out: &mut BytesMut) {
    // `unframed` starts at the first message without a frame, `rest` behind the last one seen.
    let mut unframed = messages;
    let mut rest = messages;
    while let Some((message, next)) = split_message(rest) {
        let gathered_bytes = unframed.len() - rest.len();
        if gathered_bytes + message.len() > PAYLOAD_BYTES_MAX {
            encode_gathered(unframed, gathered_bytes, lz4, out);
            unframed = rest;
        }
        if message.len() > PAYLOAD_BYTES_MAX {
            for piece in message.chunks(PAYLOAD_BYTES_MAX) {
                outer_frame::encode(piece, false, lz4, out);
            }
            unframed = next;
        }
        rest = next;
    }
    encode_gathered(unframed, unframed.len() - rest.len(), lz4, out);
}

fn encode_gathered(unframed: &[u8], gathered_bytes: usize, lz4: bool, out: &mut BytesMut) {
    match unframed.get(..gathered_bytes) {
        None | Some([]) => {}
        Some(gathered) => outer_frame::encode(gathered, true, lz4, out),
    }
}
