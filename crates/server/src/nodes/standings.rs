//! How far the logs of other nodes were known to be on their disks, kept over restarts: a node that comes back with less has an old image of
//! its disk, and is not listened to, though everybody who saw it was restarted meanwhile. What was known in the last second may be missing.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Value, json};
use types::NodeId;

use super::Nodes;

/// The document.
const DOCUMENT: &str = "standings";
/// What its form is called.
const FORM: i64 = 1;

/// What was kept last.
#[derive(Default)]
pub(super) struct Standings(Mutex<BTreeMap<NodeId, u64>>);

fn encode(known: &BTreeMap<NodeId, u64>) -> Value {
    let rows: Vec<[u64; 2]> = known.iter().map(|(node, synced)| [node.0, *synced]).collect();
    json!({ "form": FORM, "synced": rows })
}

fn decode(bytes: &[u8]) -> Option<BTreeMap<NodeId, u64>> {
    let document: Value = serde_json::from_slice(bytes).ok()?;
    if document.get("form")?.as_i64()? != FORM {
        return None;
    }
    let row = |row: &Value| {
        let [node, synced] = row.as_array()?.as_slice() else { return None };
        Some((NodeId(node.as_u64()?), synced.as_u64()?))
    };
    document.get("synced")?.as_array()?.iter().map(row).collect()
}

impl Nodes {
    /// Before anything is heard of others.
    pub(super) fn know_standings(&self) {
        let kept = self.storage.load_document(DOCUMENT);
        let known = match kept {
            Ok(kept) => kept.as_deref().and_then(decode).unwrap_or_default(),
            // It is only a guard: what cannot be read guards nothing.
            Err(error) => {
                tracing::warn!(%error, "what was known of other nodes' logs cannot be read");
                return;
            }
        };
        self.groups.know_standings(known.iter().map(|(node, synced)| (*node, *synced)).collect());
        *self.standings.0.lock() = known;
    }

    /// Now and then: what is known by now is kept, where it is more.
    pub(super) fn keep_standings(&self) {
        let told = self.groups.told();
        let known: BTreeMap<NodeId, u64> =
            told.standings.iter().copied().filter(|(_, synced)| *synced > 0).collect();
        let mut kept = self.standings.0.lock();
        if *kept == known {
            return;
        }
        match self.storage.save_document(DOCUMENT, encode(&known).to_string().as_bytes()) {
            Ok(()) => *kept = known,
            Err(error) => tracing::debug!(%error, "how far other nodes are cannot be kept now"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let known = BTreeMap::from([(NodeId(1), 7), (NodeId(9), u64::MAX)]);
        let bytes = encode(&known).to_string().into_bytes();
        assert_eq!(decode(&bytes), Some(known));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None);
        }
    }
}
