//! The nodes of a cluster as all of them agree on them: one document (D15), changed by whoever knows its newest version.

use cluster::Fingerprint;
use partition::decide::NodeState;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use types::NodeId;

use crate::membership::{Member, Membership, decode_member, encode_member};

/// What the document's form is called.
const FORM: i64 = 1;
/// So many tokens may wait for nodes at once.
pub(super) const TOKENS_MAX: usize = 64;
/// So many nodes that went are remembered, the last ones.
const REMOVED_MAX: usize = 1024;

/// A token that a node may join with, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JoinToken {
    /// Of its secret, which nobody keeps.
    pub(super) hash: [u8; 32],
    /// The last second in which it counts.
    pub(super) until_s: u64,
}

impl JoinToken {
    pub(super) fn hash_of(secret: &[u8]) -> [u8; 32] {
        Sha256::digest(secret).into()
    }
}

/// The nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    /// Those that belong to the cluster.
    pub(crate) nodes: Vec<Member>,
    /// Those that went for good, with their keys: they do not come back.
    pub(super) removed: Vec<(NodeId, Fingerprint)>,
    pub(super) tokens: Vec<JoinToken>,
    /// No node has had this number, or a higher one.
    pub(super) next_node: u64,
}

impl Roster {
    /// The nodes that a cluster begins with.
    pub(super) fn first(membership: &Membership) -> Roster {
        let highest = membership.members.iter().map(|member| member.node.0).max();
        let next_node = highest.unwrap_or(0) + 1;
        Roster { nodes: membership.members.clone(), next_node, ..Roster::default() }
    }

    pub(crate) fn node(&self, node: NodeId) -> Option<&Member> {
        self.nodes.iter().find(|member| member.node == node)
    }

    pub(super) fn node_mut(&mut self, node: NodeId) -> Option<&mut Member> {
        self.nodes.iter_mut().find(|member| member.node == node)
    }

    /// Whether a node went for good.
    pub(super) fn is_removed(&self, node: NodeId, key: Fingerprint) -> bool {
        self.removed.iter().any(|(known, its_key)| *known == node || *its_key == key)
    }

    /// A node goes for good.
    pub(super) fn remove(&mut self, node: NodeId) {
        let gone: Vec<_> = self.nodes.iter().filter(|it| it.node == node).collect();
        self.removed.extend(gone.into_iter().map(|it| (it.node, it.key)));
        self.nodes.retain(|member| member.node != node);
        let over = self.removed.len().saturating_sub(REMOVED_MAX);
        self.removed.drain(..over);
    }

    /// Nodes that get members of new sets.
    pub(super) fn places(&self) -> Vec<partition::NodePlace> {
        let up = self.nodes.iter().filter(|member| member.state == NodeState::Up);
        up.map(Member::place).collect()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let token = |token: &JoinToken| json!({ "hash": Fingerprint(token.hash).to_string(), "until_s": token.until_s });
        let removed =
            |(node, key): &(NodeId, Fingerprint)| json!({ "node": node.0, "key": key.to_string() });
        let document = json!({
            "form": FORM,
            "next_node": self.next_node,
            "nodes": self.nodes.iter().map(encode_member).collect::<Vec<_>>(),
            "removed": self.removed.iter().map(removed).collect::<Vec<_>>(),
            "tokens": self.tokens.iter().map(token).collect::<Vec<_>>(),
        });
        document.to_string().into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Roster> {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        let document = document.as_object()?;
        if document.get("form")?.as_i64()? != FORM {
            return None;
        }
        let list = |name: &str| document.get(name)?.as_array();
        let token = |token: &Value| {
            let hash: Fingerprint = token.get("hash")?.as_str()?.parse().ok()?;
            Some(JoinToken { hash: hash.0, until_s: token.get("until_s")?.as_u64()? })
        };
        let removed = |row: &Value| {
            let key = row.get("key")?.as_str()?.parse().ok()?;
            Some((NodeId(row.get("node")?.as_u64()?), key))
        };
        Some(Roster {
            nodes: list("nodes")?.iter().map(decode_member).collect::<Option<_>>()?,
            removed: list("removed")?.iter().map(removed).collect::<Option<_>>()?,
            tokens: list("tokens")?.iter().map(token).collect::<Option<_>>()?,
            next_node: document.get("next_node")?.as_u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u64) -> Member {
        Member {
            node: NodeId(number),
            host_id: u128::from(number),
            mesh: format!("127.0.0.{number}:7000").parse().unwrap(),
            clients: format!("127.0.0.{number}:9042").parse().unwrap(),
            key: Fingerprint([number as u8; 32]),
            tokens: vec![number as i64, -(number as i64)],
            rack: "r".to_owned(),
            data_center: "d".to_owned(),
            state: NodeState::Draining,
        }
    }

    #[test]
    fn what_is_agreed_on_comes_back_and_who_went_is_known() {
        let mut roster = Roster {
            nodes: (1..=3).map(member).collect(),
            tokens: vec![JoinToken { hash: [7; 32], until_s: 9 }],
            next_node: 4,
            ..Roster::default()
        };
        roster.remove(NodeId(2));
        assert!(roster.node(NodeId(2)).is_none());
        assert!(roster.is_removed(NodeId(2), Fingerprint([0; 32])));
        assert!(roster.is_removed(NodeId(9), Fingerprint([2; 32])));
        assert!(!roster.is_removed(NodeId(1), Fingerprint([1; 32])));
        let bytes = roster.encode();
        assert_eq!(Roster::decode(&bytes), Some(roster));
        for end in 0..bytes.len() {
            assert_eq!(Roster::decode(&bytes[..end]), None);
        }
    }
}
