//! Commands and answers as bytes, for members of a replica set on other nodes (see `docs/formats/travel.md`). Mutations travel as
//! they lie in the log (see [`crate::codec`]).
//!
//! A read is asked for with [`ReadRequest`] and comes back as one [`RowsPart`] after the other. Who serves it reads into a
//! [`PartWriter`]; who asked hands each part to the [`RowSink`](crate::RowSink) that a read of its own storage would have got, and
//! sends the next request with the position that this gives. A commit is answered with [`CommitAnswer`]; [`Fault`] says why
//! something was not done.
//!
//! Every message begins with its version. Decoding borrows, checks every length, and allocates no more than a small multiple of
//! the bytes it is given.

mod answer;
#[cfg(test)]
mod message_tests;
mod read_request;
mod rows_part;
#[cfg(test)]
mod rows_tests;

use bytes::Bytes;

use crate::codec::{Decoder, Malformed};

pub use answer::{
    CommitAnswer, Fault, decode_commit_answer, decode_fault, encode_commit_answer, encode_fault,
};
pub use read_request::{PartBounds, ReadRequest, decode_read_request, encode_read_request};
pub use rows_part::{PartWriter, ReadOn, RowsPart};

type Decoded<T> = Result<T, Malformed>;

/// The version of everything here; another one is malformed until it is known.
const VERSION: u8 = 1;

/// A whole message: its version, what `decode` reads, and nothing behind that.
fn whole<T>(bytes: Bytes, decode: impl FnOnce(&mut Decoder) -> Decoded<T>) -> Decoded<T> {
    let mut decoder = Decoder::new(bytes);
    if decoder.byte()? != VERSION {
        return Err(Malformed);
    }
    let decoded = decode(&mut decoder)?;
    if decoder.is_done() { Ok(decoded) } else { Err(Malformed) }
}
