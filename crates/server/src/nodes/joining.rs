//! A node joins a cluster (D17): it has a token, which says whom to ask and proves that it may; it gets a number and the list of the
//! nodes. What is said is JSON, inside of a connection that both sides trust by then.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use cluster::Fingerprint;
use partition::decide::NodeState;
use serde_json::{Value, json};
use types::UuidText;

use super::roster::{JoinToken, Roster};
use crate::membership::{Member, Membership, NODES_MAX, TOKEN_COUNT};

/// What the form of question and answer is called.
const FORM: i64 = 1;
/// Bytes of a token's secret.
pub(super) const SECRET_BYTES: usize = 16;
/// What a node is told that was removed.
const REMOVED: &str =
    "this node was removed from the cluster; it can join again with an empty data folder";
/// A name has at most so many bytes.
const NAME_BYTES_MAX: usize = 128;

/// What `helenus token` prints: the key of the node to ask, and a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) key: Fingerprint,
    pub(crate) secret: [u8; SECRET_BYTES],
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        self.secret.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Token, String> {
        let wrong = || "this is no token: `helenus token` on a running node prints one".to_owned();
        let (key, secret) = text.trim().split_at_checked(64).ok_or_else(wrong)?;
        let key = key.parse().map_err(|_| wrong())?;
        let secret = u128::from_str_radix(secret, 16).ok().filter(|_| secret.len() == 32);
        Ok(Token { key, secret: secret.ok_or_else(wrong)?.to_be_bytes() })
    }
}

/// Whom to ask, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    pub(crate) address: SocketAddr,
    pub(crate) token: Token,
}

/// What a node says that wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinRequest {
    pub(crate) secret: [u8; SECRET_BYTES],
    pub(crate) host_id: u128,
    pub(crate) mesh: SocketAddr,
    pub(crate) clients: SocketAddr,
    pub(crate) rack: String,
    pub(crate) data_center: String,
}

impl JoinRequest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let request = json!({
            "form": FORM,
            "secret": UuidText(u128::from_be_bytes(self.secret)).to_string(),
            "host_id": UuidText(self.host_id).to_string(),
            "mesh": self.mesh.to_string(),
            "clients": self.clients.to_string(),
            "rack": self.rack,
            "data_center": self.data_center,
        });
        request.to_string().into_bytes()
    }

    fn decode(bytes: &[u8]) -> Result<JoinRequest, &'static str> {
        let unreadable = "the question cannot be read";
        let request: Value = serde_json::from_slice(bytes).map_err(|_| unreadable)?;
        let form = request.get("form").and_then(Value::as_i64);
        if form != Some(FORM) {
            return Err("the versions of the two nodes are too far apart");
        }
        let text = |name: &str| request.get(name)?.as_str().filter(|it| it.len() <= NAME_BYTES_MAX);
        let number = |name: &str| {
            let digits: String = text(name)?.chars().filter(|letter| *letter != '-').collect();
            (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())?
        };
        let read = || {
            Some(JoinRequest {
                secret: number("secret")?.to_be_bytes(),
                host_id: number("host_id")?,
                mesh: text("mesh")?.parse().ok()?,
                clients: text("clients")?.parse().ok()?,
                rack: text("rack")?.to_owned(),
                data_center: text("data_center")?.to_owned(),
            })
        };
        read().ok_or(unreadable)
    }
}

/// The answer to a node that may join.
pub(super) fn welcome(membership: &Membership) -> Vec<u8> {
    json!({ "form": FORM, "welcome": membership.encode() }).to_string().into_bytes()
}

/// The answer to one that may not.
pub(super) fn refuse(why: &str) -> Vec<u8> {
    json!({ "form": FORM, "refused": why }).to_string().into_bytes()
}

/// Whether a node was answered that it was removed.
pub(super) fn is_removed(answer: &[u8]) -> bool {
    let answer: Option<Value> = serde_json::from_slice(answer).ok();
    let why = answer.as_ref().and_then(|answer| answer.get("refused")?.as_str());
    why == Some(REMOVED)
}

/// What a node was answered.
pub(crate) fn read_answer(bytes: &[u8]) -> Result<Membership, String> {
    let unreadable = || "the answer of the cluster cannot be read by this version".to_owned();
    let answer: Value = serde_json::from_slice(bytes).map_err(|_| unreadable())?;
    if let Some(why) = answer.get("refused").and_then(Value::as_str) {
        return Err(why.to_owned());
    }
    answer.get("welcome").and_then(Membership::decode).ok_or_else(unreadable)
}

/// Takes a node in, if it may come. The same key again is the same node.
pub(super) fn admit(
    roster: &mut Roster,
    key: Fingerprint,
    request: &[u8],
    now_s: u64,
    draw: &mut dyn FnMut() -> i64,
) -> Result<Member, String> {
    let request = JoinRequest::decode(request)?;
    if let Some(known) = roster.nodes.iter().find(|member| member.key == key) {
        return Ok(known.clone());
    }
    if roster.removed.iter().any(|(_, gone)| *gone == key) {
        return Err(REMOVED.to_owned());
    }
    let hash = JoinToken::hash_of(&request.secret);
    roster.tokens.retain(|token| token.until_s >= now_s);
    let Some(place) = roster.tokens.iter().position(|token| token.hash == hash) else {
        return Err(
            "the token was used before, or is older than an hour; `helenus token` prints another"
                .to_owned(),
        );
    };
    if let Some(other) = roster.nodes.iter().find(|it| it.data_center != request.data_center) {
        return Err(format!(
            "the cluster is in data center {}, and the node says {}: a cluster has one data center so far (server.data_center)",
            other.data_center, request.data_center
        ));
    }
    if roster.nodes.len() >= NODES_MAX {
        return Err(format!("a cluster has at most {NODES_MAX} nodes so far"));
    }
    for (what, address, of) in [
        ("cluster.listen", request.mesh, (|it: &Member| it.mesh) as fn(&Member) -> SocketAddr),
        ("server.listen", request.clients, |it| it.clients),
    ] {
        if address.ip().is_unspecified() || address.port() == 0 {
            return Err(format!("{what} = {address} is no address that other nodes can reach"));
        }
        if let Some(other) = roster.nodes.iter().find(|it| of(it) == address) {
            return Err(format!(
                "node {} has the address {address} already ({what})",
                other.node.0
            ));
        }
    }
    if roster.nodes.iter().any(|it| it.host_id == request.host_id) {
        return Err("another node has the same host id: is its data folder a copy?".to_owned());
    }
    roster.tokens.remove(place);
    let mut tokens: Vec<i64> = Vec::with_capacity(TOKEN_COUNT);
    while tokens.len() < TOKEN_COUNT {
        let token = draw();
        let is_known = roster.nodes.iter().any(|it| it.tokens.contains(&token));
        if !is_known && !tokens.contains(&token) && token != i64::MIN {
            tokens.push(token);
        }
    }
    tokens.sort_unstable();
    let member = Member {
        node: types::NodeId(roster.next_node),
        host_id: request.host_id,
        mesh: request.mesh,
        clients: request.clients,
        key,
        tokens,
        rack: request.rack,
        data_center: request.data_center,
        state: NodeState::Joining,
    };
    roster.next_node += 1;
    roster.nodes.push(member.clone());
    Ok(member)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::NodeId;

    const SECRET: [u8; 16] = [5; 16];

    fn roster() -> Roster {
        let member = Member {
            node: NodeId(1),
            host_id: 1,
            mesh: "10.0.0.1:7000".parse().unwrap(),
            clients: "10.0.0.1:9042".parse().unwrap(),
            key: Fingerprint([1; 32]),
            tokens: vec![1, 2],
            rack: "a".to_owned(),
            data_center: "d".to_owned(),
            state: NodeState::Up,
        };
        let tokens = vec![JoinToken { hash: JoinToken::hash_of(&SECRET), until_s: 100 }];
        Roster { nodes: vec![member], tokens, next_node: 2, ..Roster::default() }
    }

    fn request() -> JoinRequest {
        JoinRequest {
            secret: SECRET,
            host_id: 2,
            mesh: "10.0.0.2:7000".parse().unwrap(),
            clients: "10.0.0.2:9042".parse().unwrap(),
            rack: "b".to_owned(),
            data_center: "d".to_owned(),
        }
    }

    fn ask(roster: &mut Roster, key: u8, request: &JoinRequest, now_s: u64) -> Result<u64, String> {
        let mut next = 0;
        let mut draw = || {
            next += 1;
            next
        };
        admit(roster, Fingerprint([key; 32]), &request.encode(), now_s, &mut draw)
            .map(|member| member.node.0)
    }

    #[test]
    fn a_token_counts_once_and_the_same_key_is_the_same_node() {
        let mut roster = roster();
        assert_eq!(ask(&mut roster, 7, &request(), 100), Ok(2));
        assert_eq!(ask(&mut roster, 7, &request(), 900), Ok(2), "an answer that was lost");
        assert_eq!(roster.nodes[1].tokens, (3..19).collect::<Vec<i64>>());
        let other = JoinRequest { host_id: 3, ..request() };
        assert!(ask(&mut roster, 8, &other, 100).unwrap_err().contains("used before"));
        roster.remove(NodeId(2));
        let refused = ask(&mut roster, 7, &request(), 100).unwrap_err();
        assert!(is_removed(&refuse(&refused)) && !is_removed(&refuse("something else")));
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let before = roster();
        let refused = |request: JoinRequest, now_s: u64, why: &str| {
            let mut roster = before.clone();
            let error = ask(&mut roster, 7, &request, now_s).unwrap_err();
            assert!(error.contains(why), "{error}");
            assert_eq!(roster.nodes, before.nodes);
            assert!(now_s > 100 || roster.tokens == before.tokens);
        };
        refused(request(), 101, "older than an hour");
        refused(JoinRequest { secret: [6; 16], ..request() }, 1, "used before");
        refused(JoinRequest { data_center: "e".to_owned(), ..request() }, 1, "one data center");
        refused(JoinRequest { mesh: before.nodes[0].mesh, ..request() }, 1, "cluster.listen");
        refused(JoinRequest { clients: before.nodes[0].clients, ..request() }, 1, "server.listen");
        refused(JoinRequest { mesh: "0.0.0.0:7000".parse().unwrap(), ..request() }, 1, "reach");
        refused(JoinRequest { host_id: 1, ..request() }, 1, "host id");
        let mut roster = before.clone();
        let key = Fingerprint([7; 32]);
        for bytes in [&b""[..], b"{}", b"[1]", b"{\"form\":2}", b"{\"form\":1,\"secret\":7}"] {
            assert!(admit(&mut roster, key, bytes, 1, &mut || 5).is_err());
        }
    }

    #[test]
    fn a_token_can_be_read_again() {
        let token = Token { key: Fingerprint([9; 32]), secret: [0xab; 16] };
        assert_eq!(token.to_string().parse(), Ok(token));
        for text in ["", "x", &"0".repeat(95), &"g".repeat(96), &"é".repeat(48)] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
