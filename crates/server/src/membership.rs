//! Who belongs to the cluster of a node: a document in its data folder, with which it starts again without being told anything.

use std::net::SocketAddr;
use std::sync::Arc;

use cluster::{Fingerprint, Identity, PeerAddress};
use partition::NodePlace;
use partition::decide::NodeState;
use serde_json::{Map, Value, json};
use storage::DataDir;
use types::{NodeId, UuidText};

use crate::node::StartError;
use crate::world;

/// The document with the nodes.
const DOCUMENT: &str = "cluster";
/// The document with the key of this node.
const KEY_DOCUMENT: &str = "mesh-key";
/// What the document's form is called.
const FORM: i64 = 2;
/// The form before: all nodes were there from the beginning, on one rack, and none was anything but up.
const FIRST_FORM: i64 = 1;
/// Tokens of each node of the ring that drivers see.
pub(crate) const TOKEN_COUNT: usize = 16;
/// Where nodes listen for each other, where nobody says otherwise.
pub(crate) const MESH_PORT: u16 = 7000;
/// So many nodes may there be: each has a member of the set that all agree by.
pub(crate) const NODES_MAX: usize = 16;

/// One node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) node: NodeId,
    pub(crate) host_id: u128,
    /// Where other nodes connect.
    pub(crate) mesh: SocketAddr,
    /// Where clients connect.
    pub(crate) clients: SocketAddr,
    pub(crate) key: Fingerprint,
    /// Of the ring that drivers see.
    pub(crate) tokens: Vec<i64>,
    pub(crate) rack: String,
    pub(crate) data_center: String,
    pub(crate) state: NodeState,
}

impl Member {
    /// For the mesh.
    pub(crate) fn peer(&self) -> PeerAddress {
        PeerAddress { node: self.node, address: self.mesh, fingerprint: self.key }
    }

    /// Where its members of sets are.
    pub(crate) fn place(&self) -> NodePlace {
        NodePlace { node: self.node, rack: Arc::from(self.rack.as_str()) }
    }
}

/// What the states of nodes are called.
const STATES: [(NodeState, &str); 5] = [
    (NodeState::Joining, "joining"),
    (NodeState::Up, "up"),
    (NodeState::Draining, "draining"),
    (NodeState::Leaving, "leaving"),
    (NodeState::Removed, "removed"),
];

/// What a state is called.
pub(crate) fn state_name(state: NodeState) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("", |(_, name)| name)
}

pub(crate) fn state_of(name: &str) -> Option<NodeState> {
    STATES.iter().find(|(_, known)| *known == name).map(|(state, _)| *state)
}

/// The nodes of a cluster, and which of them this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) cluster_id: u128,
    pub(crate) own: NodeId,
    /// What paging states are sealed with, so that any node goes on with those of another.
    pub(crate) paging_secret: [u8; 16],
    pub(crate) members: Vec<Member>,
    /// Whether this node was there when the cluster began. Others are handed everything.
    pub(crate) is_first: bool,
}

impl Membership {
    /// What a folder keeps of it; `None` for a node that runs alone.
    pub(crate) fn load(data_dir: &DataDir) -> Result<Option<Membership>, StartError> {
        let Some(bytes) = data_dir.load_document(DOCUMENT)? else { return Ok(None) };
        let unreadable = || StartError::Cluster("the kept list of nodes cannot be read".to_owned());
        let document: Value = serde_json::from_slice(&bytes).map_err(|_| unreadable())?;
        Membership::decode(&document).ok_or_else(unreadable).map(Some)
    }

    /// Keeps it in a folder.
    pub(crate) fn save(&self, data_dir: &DataDir) -> std::io::Result<()> {
        data_dir.save_document(DOCUMENT, self.encode().to_string().as_bytes())
    }

    /// This node.
    pub(crate) fn own(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.node == self.own)
    }

    /// The other nodes.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.node != self.own)
    }

    /// The other nodes, for the mesh.
    pub(crate) fn peers(&self) -> Vec<PeerAddress> {
        self.others().map(Member::peer).collect()
    }

    pub(crate) fn encode(&self) -> Value {
        json!({
            "form": FORM,
            "cluster": UuidText(self.cluster_id).to_string(),
            "node": self.own.0,
            "paging_secret": UuidText(u128::from_be_bytes(self.paging_secret)).to_string(),
            "nodes": self.members.iter().map(encode_member).collect::<Vec<_>>(),
            "is_first": self.is_first,
        })
    }

    pub(crate) fn decode(document: &Value) -> Option<Membership> {
        let document = document.as_object()?;
        let form = document.get("form")?.as_i64()?;
        if form != FORM && form != FIRST_FORM {
            return None;
        }
        let members: Option<Vec<Member>> =
            document.get("nodes")?.as_array()?.iter().map(decode_member).collect();
        let membership = Membership {
            cluster_id: uuid(document, "cluster")?,
            own: NodeId(document.get("node")?.as_u64()?),
            paging_secret: uuid(document, "paging_secret")?.to_be_bytes(),
            members: members?,
            is_first: form == FIRST_FORM || document.get("is_first")?.as_bool()?,
        };
        membership.own()?;
        Some(membership)
    }
}

pub(crate) fn encode_member(member: &Member) -> Value {
    json!({
        "node": member.node.0,
        "host_id": UuidText(member.host_id).to_string(),
        "mesh": member.mesh.to_string(),
        "clients": member.clients.to_string(),
        "key": member.key.to_string(),
        "tokens": member.tokens,
        "rack": member.rack,
        "data_center": member.data_center,
        "state": state_name(member.state),
    })
}

pub(crate) fn decode_member(member: &Value) -> Option<Member> {
    let member = member.as_object()?;
    // Nodes of the first form had none of these.
    let text = |name: &str, first: &str| match member.get(name) {
        None => Some(first.to_owned()),
        Some(value) => value.as_str().map(str::to_owned),
    };
    let tokens: Option<Vec<i64>> =
        member.get("tokens")?.as_array()?.iter().map(Value::as_i64).collect();
    Some(Member {
        node: NodeId(member.get("node")?.as_u64()?),
        host_id: uuid(member, "host_id")?,
        mesh: member.get("mesh")?.as_str()?.parse().ok()?,
        clients: member.get("clients")?.as_str()?.parse().ok()?,
        key: member.get("key")?.as_str()?.parse().ok()?,
        tokens: tokens?,
        rack: text("rack", "rack1")?,
        data_center: text("data_center", "datacenter1")?,
        state: state_of(&text("state", "up")?)?,
    })
}

fn uuid(object: &Map<String, Value>, name: &str) -> Option<u128> {
    let text = object.get(name)?.as_str()?;
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())?
}

/// What a folder says of the cluster of its node, with the node's key.
pub(crate) fn of_folder(data_dir: &DataDir) -> Result<Option<(Membership, Identity)>, StartError> {
    match Membership::load(data_dir)? {
        Some(membership) if membership.own().is_some_and(|own| own.state == NodeState::Removed) => {
            Err(StartError::Cluster(
                "this node left its cluster, or was removed from it: what is in its data folder is of no use to others. It can join again with an empty folder (--data-dir) and a new token".to_owned(),
            ))
        }
        Some(membership) => Ok(Some((membership, own_key(data_dir)?))),
        None => Ok(None),
    }
}

/// The key of a node, made where there is none.
pub(crate) fn own_key(data_dir: &DataDir) -> Result<Identity, StartError> {
    if let Some(bytes) = data_dir.load_document(KEY_DOCUMENT)? {
        return Identity::from_bytes(&bytes).map_err(StartError::Cluster);
    }
    let identity = Identity::generate().map_err(StartError::Cluster)?;
    data_dir
        .save_document(KEY_DOCUMENT, &identity.to_bytes())
        .map_err(|error| StartError::Cluster(format!("cannot keep the node's key: {error}")))?;
    Ok(identity)
}

/// A number that nobody else has, or can guess.
pub(crate) fn fresh_number() -> Result<u128, StartError> {
    let bytes = world::random_bytes();
    let bytes = bytes.map_err(|error| StartError::Cluster(format!("no randomness: {error}")))?;
    Ok(u128::from_be_bytes(bytes))
}

/// The tokens of one of so many nodes: the ring in equal parts, dealt out in turn.
pub(crate) fn tokens_of(place: usize, node_count: usize) -> Vec<i64> {
    let part = (1_i128 << 64) / (TOKEN_COUNT * node_count.max(1)) as i128;
    let token = |turn: usize| {
        let number = (turn * node_count + place) as i128;
        i64::try_from(i128::from(i64::MIN) + number * part + part / 2).unwrap_or(i64::MAX)
    };
    (0..TOKEN_COUNT).map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u64) -> Member {
        Member {
            node: NodeId(number),
            host_id: u128::from(number) << 100 | 7,
            mesh: format!("127.0.0.{number}:7000").parse().unwrap(),
            clients: format!("127.0.0.{number}:9042").parse().unwrap(),
            key: Fingerprint([number as u8; 32]),
            tokens: tokens_of(number as usize - 1, 3),
            rack: format!("r{number}"),
            data_center: "dc".to_owned(),
            state: NodeState::Up,
        }
    }

    #[test]
    fn what_is_kept_comes_back() {
        let membership = Membership {
            cluster_id: 9,
            own: NodeId(2),
            paging_secret: [3; 16],
            members: (1..=3).map(member).collect(),
            is_first: true,
        };
        assert_eq!(Membership::decode(&membership.encode()), Some(membership.clone()));
        assert_eq!(membership.peers().len(), 2);
        let stranger = Membership { own: NodeId(7), ..membership };
        assert_eq!(Membership::decode(&stranger.encode()), None);
    }

    #[test]
    fn no_two_nodes_have_the_same_token() {
        let mut tokens: Vec<i64> = (0..4).flat_map(|place| tokens_of(place, 4)).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), 64);
    }
}
