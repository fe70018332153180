//! Who owns which range, as drivers work it out from the tokens that nodes tell and from what a keyspace declares: by Cassandra's
//! rules. It says nothing of where the members of replica sets are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::system::NodeFacts;

/// A node on the ring.
struct Owner<'a> {
    address: IpAddr,
    port: u16,
    rack: &'a str,
    tokens: &'a [String],
}

impl Owner<'_> {
    fn text(&self) -> String {
        match self.address {
            IpAddr::V4(address) => format!("/{address}:{}", self.port),
            IpAddr::V6(address) => format!("/[{address}]:{}", self.port),
        }
    }
}

/// By the last token of each range the nodes that own it, the first one first.
pub(super) fn range_owners(
    facts: &NodeFacts,
    replication: &BTreeMap<String, String>,
) -> BTreeMap<String, Vec<String>> {
    let own = Owner {
        address: facts.broadcast_address,
        port: facts.broadcast_port,
        rack: &facts.rack,
        tokens: &facts.tokens,
    };
    let peers = facts.cluster.peers.iter().map(|peer| Owner {
        address: peer.address,
        port: peer.port,
        rack: &peer.rack,
        tokens: &peer.tokens,
    });
    let nodes: Vec<Owner<'_>> = std::iter::once(own).chain(peers).collect();
    // There is one data center, so what is declared for another one has no nodes.
    let factor = replication.get("replication_factor").or(replication.get(&facts.data_center));
    let factor = factor.and_then(|it| it.split('/').next()?.parse().ok()).unwrap_or(0);
    let is_by_rack = replication.get("class").is_some_and(|it| it.ends_with("TopologyStrategy"));
    walk(&nodes, factor, is_by_rack)
}

/// From each token on, around the ring, the first nodes that are not there yet; those of other racks first where racks count.
fn walk(nodes: &[Owner<'_>], factor: usize, is_by_rack: bool) -> BTreeMap<String, Vec<String>> {
    let mut ring: Vec<(i64, usize)> = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let tokens = node.tokens.iter().filter_map(|token| token.parse().ok());
        ring.extend(tokens.map(|token| (token, number)));
    }
    ring.sort_unstable();
    let racks: BTreeSet<&str> = nodes.iter().map(|node| node.rack).collect();
    let owners_from = |start: usize| {
        let around = ring.iter().cycle().skip(start).take(ring.len());
        let mut owners: Vec<usize> = Vec::new();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        // So many may stand in a rack that has one already.
        let mut repeats = factor.saturating_sub(racks.len());
        for (_, number) in around {
            if owners.len() >= factor {
                break;
            }
            let Some(node) = nodes.get(*number).filter(|_| !owners.contains(number)) else {
                continue;
            };
            if is_by_rack && !seen.insert(node.rack) {
                if repeats == 0 {
                    continue;
                }
                repeats -= 1;
            }
            owners.push(*number);
        }
        owners.iter().filter_map(|number| nodes.get(*number)).map(Owner::text).collect()
    };
    let ranges = ring.iter().enumerate();
    ranges.map(|(start, (token, _))| (token.to_string(), owners_from(start))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_follow_around_the_ring_and_over_racks() {
        let tokens: [[String; 2]; 4] =
            [[0, 40], [10, 50], [20, 60], [30, 70]].map(|pair| pair.map(|it: i64| it.to_string()));
        let nodes: Vec<Owner<'_>> = [("a", 1), ("a", 2), ("b", 3), ("c", 4)]
            .into_iter()
            .zip(&tokens)
            .map(|((rack, host), tokens)| Owner {
                address: IpAddr::from([127, 0, 0, host]),
                port: 7000,
                rack,
                tokens,
            })
            .collect();
        let hosts = |factor, is_by_rack, token: &str| -> String {
            let owners = walk(&nodes, factor, is_by_rack).remove(token).unwrap();
            let host = |it: &String| it["/127.0.0.".len()..].replace(":7000", "");
            owners.iter().map(host).collect()
        };
        assert_eq!(walk(&nodes, 1, false).len(), 8);
        assert_eq!(hosts(1, true, "20"), "3");
        assert_eq!(hosts(2, false, "70"), "41");
        assert_eq!(hosts(3, false, "0"), "123");
        // The second of rack a waits until every rack has one.
        assert_eq!(hosts(3, true, "0"), "134");
        assert_eq!(hosts(4, true, "0"), "1234");
        assert_eq!(hosts(9, true, "60"), "3412");
        assert_eq!(hosts(0, true, "60"), "");
    }
}
