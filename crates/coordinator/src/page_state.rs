//! Where the next page of a result begins, as the opaque bytes that the client sends back.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 16 | seal: a keyed digest over the rest and over the statement |
//! | 4 | how many rows the whole result may still have; `u32::MAX` for no limit |
//! | 4 | how many rows of the logical partition were returned already |
//! | 1 | 1 when a clustering key follows |
//! | 4 + n | the partition key |
//! | n | the clustering key |
//!
//! The seal binds it to this cluster's secret and to its statement, so that a forged state, or one
//! of another statement, is refused instead of read from.

use bytes::Bytes;
use md5::{Digest, Md5};
use types::{PartitionKey, ReadPosition};

const VERSION: u8 = 1;
const SEAL_BYTES: usize = 16;

/// A place in a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageState {
    /// The last row that was returned.
    pub(crate) position: ReadPosition,
    /// What is left of LIMIT.
    pub(crate) limit_left: Option<u32>,
    /// How much of PER PARTITION LIMIT is spent on the current logical partition.
    pub(crate) partition_count: u32,
}

/// The secret that seals paging states; it survives restarts, so that they do.
#[derive(Clone, Copy, Debug)]
pub struct PagingSecret(pub [u8; 16]);

impl PageState {
    pub(crate) fn encode(&self, secret: &PagingSecret, statement: &[u8; 16]) -> Vec<u8> {
        let key = self.position.key.bytes();
        let mut body = Vec::with_capacity(key.len() + 48);
        body.extend_from_slice(&self.limit_left.unwrap_or(u32::MAX).to_be_bytes());
        body.extend_from_slice(&self.partition_count.to_be_bytes());
        body.push(u8::from(self.position.clustering.is_some()));
        body.extend_from_slice(&(key.len() as u32).to_be_bytes());
        body.extend_from_slice(key);
        if let Some(clustering) = &self.position.clustering {
            body.extend_from_slice(clustering);
        }
        let mut out = Vec::with_capacity(1 + SEAL_BYTES + body.len());
        out.push(VERSION);
        out.extend_from_slice(&seal(secret, statement, &body));
        out.extend_from_slice(&body);
        out
    }

    /// `None` for anything that [`PageState::encode`] did not make for this statement.
    pub(crate) fn decode(
        bytes: &[u8],
        secret: &PagingSecret,
        statement: &[u8; 16],
    ) -> Option<PageState> {
        let (version, rest) = bytes.split_first()?;
        let (found, body) = rest.split_first_chunk::<SEAL_BYTES>()?;
        if *version != VERSION || *found != seal(secret, statement, body) {
            return None;
        }
        let (limit_left, rest) = body.split_first_chunk::<4>()?;
        let (partition_count, rest) = rest.split_first_chunk::<4>()?;
        let (has_clustering, rest) = rest.split_first()?;
        let (key_length, rest) = rest.split_first_chunk::<4>()?;
        let key_length = usize::try_from(u32::from_be_bytes(*key_length)).ok()?;
        let (key, clustering) = rest.split_at_checked(key_length)?;
        let limit_left = u32::from_be_bytes(*limit_left);
        Some(PageState {
            position: ReadPosition {
                key: PartitionKey::new(Bytes::copy_from_slice(key)),
                clustering: (*has_clustering == 1).then(|| Bytes::copy_from_slice(clustering)),
            },
            limit_left: (limit_left != u32::MAX).then_some(limit_left),
            partition_count: u32::from_be_bytes(*partition_count),
        })
    }
}

fn seal(secret: &PagingSecret, statement: &[u8; 16], body: &[u8]) -> [u8; SEAL_BYTES] {
    let mut digest = Md5::new();
    digest.update(secret.0);
    digest.update(statement);
    digest.update(body);
    digest.update(secret.0);
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_statement_reads_it() {
        let secret = PagingSecret([7; 16]);
        let statement = [1; 16];
        for clustering in [None, Some(Bytes::new()), Some(Bytes::from_static(b"row"))] {
            let state = PageState {
                position: ReadPosition {
                    key: PartitionKey::new(Bytes::from_static(b"key")),
                    clustering,
                },
                limit_left: Some(5),
                partition_count: 3,
            };
            let bytes = state.encode(&secret, &statement);
            assert_eq!(PageState::decode(&bytes, &secret, &statement), Some(state));
            assert_eq!(PageState::decode(&bytes, &secret, &[2; 16]), None);
            assert_eq!(PageState::decode(&bytes, &PagingSecret([8; 16]), &statement), None);
            for bit in 0..bytes.len() * 8 {
                let mut forged = bytes.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(PageState::decode(&forged, &secret, &statement), None);
            }
            for length in 0..bytes.len() {
                assert_eq!(PageState::decode(&bytes[..length], &secret, &statement), None);
            }
        }
    }
}
