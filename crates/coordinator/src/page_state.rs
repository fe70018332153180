//! Where the next page of a result begins, as the opaque bytes that the client sends back.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 2 |
//! | 16 | seal: a keyed digest over the rest |
//! | 1 | flags: 1 a key follows, 2 a mark follows, 4 the page was shorter than what was asked for |
//! | 4 | how many rows the whole result may still have; `u32::MAX` for no limit |
//! | 4 | how many rows the logical partition may still have; `u32::MAX` for no limit |
//! | 2 + n | the partition key |
//! | 2 + n | the mark: how many values, and each as 4 + n bytes; `u32::MAX` instead of a length for null |
//!
//! It is a place and what is left of the limits, and nothing of the statement: as in Cassandra every
//! statement whose keys have the same shape goes on from it, on every node that has the secret. So
//! the mark holds the values of the clustering columns as the protocol encodes them: how they sort
//! is the business of the table that reads on. The seal keeps out what no node made.

use bytes::Bytes;
use sha2::{Digest, Sha256};

const VERSION: u8 = 2;
const SEAL_BYTES: usize = 16;
/// The block of SHA-256, which the key of a digest is filled up to (RFC 2104).
const BLOCK_BYTES: usize = 64;
/// What is sealed with the secret is a page of this form and nothing else.
const PURPOSE: &[u8] = b"helenus page 2";

const HAS_KEY: u8 = 1;
const HAS_MARK: u8 = 2;
const IS_CUT: u8 = 4;
/// In place of a count or a length.
const NONE: u32 = u32::MAX;

/// A place in a result, and what is left of its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageState {
    /// The logical partition; `None` where the statement reads just one.
    pub(crate) key: Option<Bytes>,
    /// The clustering columns of the last row that was returned; `None` before the first one.
    pub(crate) mark: Option<Vec<Option<Bytes>>>,
    /// What is left of LIMIT.
    pub(crate) remaining: Option<u32>,
    /// What is left of PER PARTITION LIMIT in that logical partition; nothing where it is done.
    pub(crate) left_in_logical: Option<u32>,
    /// The page ended because of its bytes, before as many rows were there as were asked for.
    pub(crate) is_cut: bool,
}

/// The secret that seals paging states; it survives restarts, so that they do.
#[derive(Clone, Copy)]
pub struct PagingSecret(pub [u8; 16]);

impl std::fmt::Debug for PagingSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PagingSecret(..)")
    }
}

impl PageState {
    pub(crate) fn seal(&self, secret: &PagingSecret) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&[0; SEAL_BYTES]);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.push(
            flag(self.key.is_some(), HAS_KEY)
                | flag(self.mark.is_some(), HAS_MARK)
                | flag(self.is_cut, IS_CUT),
        );
        out.extend_from_slice(&self.remaining.unwrap_or(NONE).to_be_bytes());
        out.extend_from_slice(&self.left_in_logical.unwrap_or(NONE).to_be_bytes());
        if let Some(key) = &self.key {
            // No partition key is longer than its length in two bytes says.
            out.extend_from_slice(&(key.len() as u16).to_be_bytes());
            out.extend_from_slice(key);
        }
        if let Some(mark) = &self.mark {
            out.extend_from_slice(&(mark.len() as u16).to_be_bytes());
            for value in mark {
                let length = value.as_ref().map_or(NONE, |value| value.len() as u32);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(value.as_deref().unwrap_or_default());
            }
        }
        let body = out.get(1 + SEAL_BYTES..).unwrap_or_default();
        let digest = digest(secret, body);
        if let Some(place) = out.get_mut(1..=SEAL_BYTES) {
            place.copy_from_slice(&digest);
        }
        out
    }

    /// `None` for anything that [`PageState::seal`] did not make with this secret.
    pub(crate) fn open(bytes: &[u8], secret: &PagingSecret) -> Option<PageState> {
        let mut body = unseal(bytes, secret)?;
        let input = &mut body;
        let [flags] = *take(input)?;
        let count = |input: &mut &[u8]| {
            take(input).map(|bytes| Some(u32::from_be_bytes(*bytes)).filter(|it| *it != NONE))
        };
        let remaining = count(input)?;
        let left_in_logical = count(input)?;
        let key = if flags & HAS_KEY != 0 {
            let length = usize::from(u16::from_be_bytes(*take(input)?));
            Some(take_many(input, length)?)
        } else {
            None
        };
        let mark = if flags & HAS_MARK != 0 {
            let values = u16::from_be_bytes(*take(input)?);
            let value = |_| {
                Some(match count(input)? {
                    Some(length) => Some(take_many(input, usize::try_from(length).ok()?)?),
                    None => None,
                })
            };
            Some((0..values).map(value).collect::<Option<Vec<_>>>()?)
        } else {
            None
        };
        let is_cut = flags & IS_CUT != 0;
        body.is_empty().then_some(PageState { key, mark, remaining, left_in_logical, is_cut })
    }
}

/// Whether the bytes are a paging state that a node with this secret made.
pub(crate) fn is_sealed(bytes: &[u8], secret: &PagingSecret) -> bool {
    unseal(bytes, secret).is_some()
}

fn unseal<'b>(bytes: &'b [u8], secret: &PagingSecret) -> Option<&'b [u8]> {
    let (version, rest) = bytes.split_first()?;
    let (found, body) = rest.split_first_chunk::<SEAL_BYTES>()?;
    // All bytes are looked at, so that the time tells nothing of how many are right.
    let difference =
        found.iter().zip(digest(secret, body)).fold(0, |sum, (found, right)| sum | (found ^ right));
    (*version == VERSION && difference == 0).then_some(body)
}

fn take<'b, const N: usize>(input: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (found, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(found)
}

fn take_many(input: &mut &[u8], length: usize) -> Option<Bytes> {
    let (found, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(Bytes::copy_from_slice(found))
}

/// HMAC-SHA-256, the first half of it.
fn digest(secret: &PagingSecret, body: &[u8]) -> [u8; SEAL_BYTES] {
    let padded = |filler: u8| {
        let mut block = [filler; BLOCK_BYTES];
        block.iter_mut().zip(secret.0).for_each(|(byte, secret)| *byte ^= secret);
        block
    };
    let inner = Sha256::new()
        .chain_update(padded(0x36))
        .chain_update(PURPOSE)
        .chain_update(body)
        .finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    let mut seal = [0; SEAL_BYTES];
    seal.iter_mut().zip(outer).for_each(|(place, byte)| *place = byte);
    seal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_is_read() {
        let secret = PagingSecret([7; 16]);
        let mark = || Some(vec![Some(Bytes::from_static(b"value")), Some(Bytes::new()), None]);
        let states = [
            (None, None, None, None),
            (None, mark(), Some(0), Some(3)),
            (Some(Bytes::from_static(b"key")), Some(Vec::new()), Some(5), None),
            (Some(Bytes::new()), mark(), None, Some(0)),
        ];
        for (key, mark, remaining, left_in_logical) in states {
            let is_cut = remaining.is_some();
            let state = PageState { key, mark, remaining, left_in_logical, is_cut };
            let bytes = state.seal(&secret);
            assert!(is_sealed(&bytes, &secret));
            assert_eq!(PageState::open(&bytes, &secret), Some(state));
            assert_eq!(PageState::open(&bytes, &PagingSecret([8; 16])), None);
            for bit in 0..bytes.len() * 8 {
                let mut forged = bytes.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(PageState::open(&forged, &secret), None);
            }
            for length in 0..bytes.len() {
                assert_eq!(PageState::open(&bytes[..length], &secret), None);
            }
            assert_eq!(PageState::open(&[&bytes[..], &[0]].concat(), &secret), None);
        }
    }

    /// The digest is the one that everybody calls HMAC-SHA-256, here by another implementation
    /// (`hmac.new(bytes([7] * 16), b"helenus page 2body", "sha256")` of Python).
    #[test]
    fn the_seal_is_a_known_digest() {
        let expected = "d6915f0932fdf87418b01dd0ff647b44";
        let found = digest(&PagingSecret([7; 16]), b"body");
        assert_eq!(types::value::format::to_hex(&found), expected);
    }
}
