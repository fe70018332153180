//! The frames of joining: what a node whose key nobody pinned may say, and what it is answered. What request and answer mean is the
//! business of those who write them; here they are bytes.

use types::codec::Malformed;

use super::frame::LENGTH_BYTES;

/// How a join frame and its answer begin, behind their length: where a hello has its own letters.
const MAGIC: [u8; 4] = *b"HLNJ";
/// Of joining: these two frames. Requests and answers have versions of their own.
pub const JOIN_VERSION: u16 = 1;
/// A join frame has at most so many bytes, its length not counted.
pub const JOIN_FRAME_BYTES_MAX: usize = 4 * 1024;
/// The answer to it has at most so many bytes, its length not counted.
pub const JOIN_ANSWER_FRAME_BYTES_MAX: usize = 256 * 1024;
/// Magic and version.
const HEAD_BYTES: usize = 4 + 2;
/// What a request may have.
pub const JOIN_REQUEST_BYTES_MAX: usize = JOIN_FRAME_BYTES_MAX - HEAD_BYTES;
/// What an answer may have: its frame also tells its kind.
pub const JOIN_ANSWER_BYTES_MAX: usize = JOIN_ANSWER_FRAME_BYTES_MAX - HEAD_BYTES - 1;

const KIND_ANSWER: u8 = 0;
const KIND_OTHER_VERSION: u8 = 1;
const KIND_TRY_AGAIN: u8 = 2;

/// What a node that is not known says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinFrame<'a> {
    /// It asks.
    Request(&'a [u8]),
    /// It speaks a version that is not known here; nothing behind it was read.
    OtherVersion(u16),
}

/// What it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinAnswer<'a> {
    /// What was decided.
    Answer(&'a [u8]),
    /// The answering side knows this version, which is not that of the frame that came.
    OtherVersion(u16),
    /// Nothing was decided in time.
    TryAgain,
}

/// Whether a first frame, without its length, is a join frame.
pub(crate) fn is_join_frame(frame: &[u8]) -> bool {
    frame.starts_with(&MAGIC)
}

impl<'a> JoinFrame<'a> {
    /// A whole frame with its length; `None` if the request is too long for one.
    pub fn encode(request: &[u8]) -> Option<Vec<u8>> {
        encode(JOIN_VERSION, &[request], JOIN_FRAME_BYTES_MAX)
    }

    /// Reads a frame without its length.
    pub fn decode(frame: &'a [u8]) -> Result<JoinFrame<'a>, Malformed> {
        let (version, request) = decode(frame, JOIN_FRAME_BYTES_MAX)?;
        match version {
            JOIN_VERSION => Ok(JoinFrame::Request(request)),
            version => Ok(JoinFrame::OtherVersion(version)),
        }
    }
}

impl<'a> JoinAnswer<'a> {
    /// A whole frame with its length; `None` if the answer is too long for one.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let (version, kind, answer) = match self {
            JoinAnswer::Answer(answer) => (JOIN_VERSION, KIND_ANSWER, *answer),
            JoinAnswer::OtherVersion(version) => (*version, KIND_OTHER_VERSION, &[][..]),
            JoinAnswer::TryAgain => (JOIN_VERSION, KIND_TRY_AGAIN, &[][..]),
        };
        encode(version, &[&[kind], answer], JOIN_ANSWER_FRAME_BYTES_MAX)
    }

    /// Reads a frame without its length.
    pub fn decode(frame: &'a [u8]) -> Result<JoinAnswer<'a>, Malformed> {
        let (version, rest) = decode(frame, JOIN_ANSWER_FRAME_BYTES_MAX)?;
        if version != JOIN_VERSION {
            // Nothing behind it is known.
            return Ok(JoinAnswer::OtherVersion(version));
        }
        match rest {
            [KIND_ANSWER, answer @ ..] => Ok(JoinAnswer::Answer(answer)),
            [KIND_OTHER_VERSION] => Ok(JoinAnswer::OtherVersion(version)),
            [KIND_TRY_AGAIN] => Ok(JoinAnswer::TryAgain),
            _ => Err(Malformed),
        }
    }
}

fn encode(version: u16, parts: &[&[u8]], frame_bytes_max: usize) -> Option<Vec<u8>> {
    let length = HEAD_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
    if length > frame_bytes_max {
        return None;
    }
    let mut frame = Vec::with_capacity(LENGTH_BYTES + length);
    frame.extend_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&version.to_be_bytes());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    Some(frame)
}

/// The version and what follows.
fn decode(frame: &[u8], frame_bytes_max: usize) -> Result<(u16, &[u8]), Malformed> {
    if frame.len() > frame_bytes_max {
        return Err(Malformed);
    }
    let rest = frame.strip_prefix(&MAGIC).ok_or(Malformed)?;
    let (version, rest) = rest.split_first_chunk().ok_or(Malformed)?;
    Ok((u16::from_be_bytes(*version), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The examples of `docs/formats/mesh.md`.
    #[test]
    fn the_bytes_are_the_documented_ones() {
        let request = JoinFrame::encode(b"xy").unwrap();
        assert_eq!(request, [0, 0, 0, 8, b'H', b'L', b'N', b'J', 0, 1, b'x', b'y']);
        let frame = |kind: u8, answer: &[u8]| {
            let head = [0, 0, 0, 7 + answer.len() as u8, b'H', b'L', b'N', b'J', 0, 1, kind];
            [&head, answer].concat()
        };
        assert_eq!(JoinAnswer::Answer(b"z").encode().unwrap(), frame(0, b"z"));
        assert_eq!(JoinAnswer::OtherVersion(1).encode().unwrap(), frame(1, b""));
        assert_eq!(JoinAnswer::TryAgain.encode().unwrap(), frame(2, b""));
    }

    #[test]
    fn what_is_too_long_is_neither_written_nor_read() {
        let longest = vec![7; JOIN_REQUEST_BYTES_MAX];
        let frame = JoinFrame::encode(&longest).unwrap();
        assert_eq!(frame.len(), LENGTH_BYTES + JOIN_FRAME_BYTES_MAX);
        assert_eq!(JoinFrame::decode(&frame[4..]), Ok(JoinFrame::Request(&longest)));
        assert_eq!(JoinFrame::encode(&vec![7; JOIN_REQUEST_BYTES_MAX + 1]), None);
        let longer = [&frame[4..], &[7]].concat();
        assert_eq!(JoinFrame::decode(&longer), Err(Malformed));

        let longest = vec![7; JOIN_ANSWER_BYTES_MAX];
        let frame = JoinAnswer::Answer(&longest).encode().unwrap();
        assert_eq!(frame.len(), LENGTH_BYTES + JOIN_ANSWER_FRAME_BYTES_MAX);
        assert_eq!(JoinAnswer::decode(&frame[4..]), Ok(JoinAnswer::Answer(&longest)));
        assert_eq!(JoinAnswer::Answer(&vec![7; JOIN_ANSWER_BYTES_MAX + 1]).encode(), None);
        let longer = [&frame[4..], &[7]].concat();
        assert_eq!(JoinAnswer::decode(&longer), Err(Malformed));
    }

    #[test]
    fn a_later_version_is_told_apart_whatever_follows() {
        let later = [b'H', b'L', b'N', b'J', 0, 2, 0xff, 0xff];
        assert_eq!(JoinFrame::decode(&later), Ok(JoinFrame::OtherVersion(2)));
        assert_eq!(JoinFrame::decode(&later[..6]), Ok(JoinFrame::OtherVersion(2)));
        assert_eq!(JoinAnswer::decode(&later), Ok(JoinAnswer::OtherVersion(2)));
        assert_eq!(JoinAnswer::decode(&later[..6]), Ok(JoinAnswer::OtherVersion(2)));
        let other = JoinAnswer::OtherVersion(2).encode().unwrap();
        assert_eq!(JoinAnswer::decode(&other[4..]), Ok(JoinAnswer::OtherVersion(2)));
        let own = JoinAnswer::OtherVersion(JOIN_VERSION).encode().unwrap();
        assert_eq!(JoinAnswer::decode(&own[4..]), Ok(JoinAnswer::OtherVersion(JOIN_VERSION)));
        assert_eq!(JoinFrame::decode(&later[..5]), Err(Malformed));
        assert_eq!(JoinFrame::decode(b"HLNM\0\x01"), Err(Malformed));
    }

    proptest! {
        #[test]
        fn requests_and_answers_come_back(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            let frame = JoinFrame::encode(&bytes);
            prop_assert_eq!(frame.is_some(), bytes.len() <= JOIN_REQUEST_BYTES_MAX);
            if let Some(frame) = frame {
                prop_assert!(is_join_frame(&frame[4..]));
                prop_assert_eq!(JoinFrame::decode(&frame[4..]), Ok(JoinFrame::Request(&bytes)));
            }
            let frame = JoinAnswer::Answer(&bytes).encode().unwrap();
            prop_assert_eq!(JoinAnswer::decode(&frame[4..]), Ok(JoinAnswer::Answer(&bytes)));
        }

        /// What is read is what would be written, to the byte.
        #[test]
        fn no_bytes_do_harm(
            has_head in any::<bool>(),
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let head: &[u8] = if has_head { b"HLNJ\0\x01" } else { b"" };
            let bytes = [head, &bytes].concat();
            if let Ok(JoinFrame::Request(request)) = JoinFrame::decode(&bytes) {
                prop_assert_eq!(&JoinFrame::encode(request).unwrap()[4..], &bytes);
            }
            match JoinAnswer::decode(&bytes) {
                Ok(answer @ (JoinAnswer::Answer(_) | JoinAnswer::TryAgain)) => {
                    prop_assert_eq!(&answer.encode().unwrap()[4..], &bytes);
                }
                Ok(JoinAnswer::OtherVersion(_)) | Err(Malformed) => {}
            }
        }
    }
}
