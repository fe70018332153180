//! What the metrics tell of a node that is not alone: of its members, and of its links, all together and each.

use cluster::PeerStatus;
use replica::group::{MemberStatus, Role};

use crate::cluster_node::ClusterNode;
use crate::metrics::Gauge;

/// What is told of each link: a name, what it is, whether it only grows, and how it is read. There are as many of each as there are
/// other nodes, which are few (`NODES_MAX`).
type OfPeer = (&'static str, &'static str, bool, fn(&PeerStatus) -> Option<f64>);

const OF_PEERS: [OfPeer; 11] = [
    (
        "helenus_mesh_peer_connected",
        "Whether there is a connection to the node, and one from it: 2 if both.",
        false,
        |it| Some(f64::from(u8::from(it.connected) + u8::from(it.heard))),
    ),
    (
        "helenus_mesh_peer_round_trip_seconds",
        "The time to the node and back, measured every second; not told while there is no connection.",
        false,
        |it| it.round_trip_us.map(seconds),
    ),
    ("helenus_mesh_peer_queued_bytes", "Bytes that wait to be sent to the node.", false, |it| {
        Some(it.queued_bytes as f64)
    }),
    (
        "helenus_mesh_peer_queued_messages",
        "Messages that wait to be sent to the node.",
        false,
        |it| Some(it.queued_messages as f64),
    ),
    (
        "helenus_mesh_peer_sent_bytes_total",
        "Bytes that were sent to the node, before encryption.",
        true,
        |it| Some(it.sent_bytes as f64),
    ),
    (
        "helenus_mesh_peer_bulk_plain_bytes_total",
        "Bytes of rows of whole sets that were sent to the node, before they were compressed.",
        true,
        |it| Some(it.lanes.bulk.plain_bytes as f64),
    ),
    (
        "helenus_mesh_peer_bulk_sent_bytes_total",
        "Bytes of rows of whole sets that were sent to the node, as they went over the wire, before encryption.",
        true,
        |it| Some(it.lanes.bulk.sent_bytes as f64),
    ),
    (
        "helenus_mesh_peer_received_bytes_total",
        "Bytes that came from the node, after decryption.",
        true,
        |it| Some(it.received_bytes as f64),
    ),
    (
        "helenus_mesh_peer_sent_frames_total",
        "Frames of messages that were sent to the node.",
        true,
        |it| Some(it.sent_frames as f64),
    ),
    ("helenus_mesh_peer_dropped_total", "Messages to the node that were not sent.", true, |it| {
        Some(it.dropped as f64)
    }),
    (
        "helenus_mesh_peer_reconnects_total",
        "Connections to the node that were made after the first.",
        true,
        |it| Some(it.reconnects as f64),
    ),
];

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

impl ClusterNode {
    /// What is counted of members and links.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let told = self.groups.told();
        let links = self.links();
        let gauge = |name, help, value: u64| Gauge::new(name, help, value as f64);
        let counter = |name, help, value: u64| Gauge::counter(name, help, value as f64);
        let count = |test: &dyn Fn(&MemberStatus) -> bool| {
            told.members.iter().filter(|member| test(member)).count() as u64
        };
        let sum = |of: &dyn Fn(&PeerStatus) -> u64| links.iter().map(of).sum();
        let lag = told.members.iter().map(|it| it.commit.saturating_sub(it.applied)).max();
        let short = |it: &MemberStatus| it.voters.iter().any(|node| !told.alive.contains(node));
        let mut gauges = vec![
            gauge(
                "helenus_cluster_nodes_alive",
                "Nodes that are alive, this one included.",
                told.alive.len() as u64,
            ),
            gauge(
                "helenus_replica_members",
                "Members of replica sets on this node.",
                told.members.len() as u64,
            ),
            gauge(
                "helenus_replica_leaders",
                "Replica sets that this node leads.",
                count(&|it| it.role == Role::Leader),
            ),
            gauge(
                "helenus_replica_without_leader",
                "Members that know of no leader.",
                count(&|it| it.leader.is_none()),
            ),
            gauge(
                "helenus_replica_short",
                "Replica sets with members on nodes that are not alive.",
                count(&short),
            ),
            gauge(
                "helenus_replica_frozen",
                "Members that take part in nothing any more.",
                count(&|it| it.frozen.is_some()),
            ),
            gauge(
                "helenus_replica_lag_entries",
                "Entries that are committed and not applied, of the member that is furthest behind.",
                lag.unwrap_or(0),
            ),
            gauge(
                "helenus_mesh_connected",
                "Nodes that this one has a connection to.",
                sum(&|it| u64::from(it.connected)),
            ),
            gauge(
                "helenus_mesh_queued_bytes",
                "Bytes that wait to be sent to other nodes.",
                sum(&|it| it.queued_bytes),
            ),
            Gauge::new(
                "helenus_mesh_round_trip_seconds",
                "The longest time to another node and back.",
                seconds(links.iter().filter_map(|it| it.round_trip_us).max().unwrap_or(0)),
            ),
            counter(
                "helenus_forwarded_requests_total",
                "Requests that were handed to other nodes: writes to leaders there, reads of rows there.",
                told.forwarded,
            ),
            counter(
                "helenus_mesh_sent_bytes_total",
                "Bytes that were sent to other nodes.",
                sum(&|it| it.sent_bytes),
            ),
            counter(
                "helenus_mesh_received_bytes_total",
                "Bytes that came from other nodes.",
                sum(&|it| it.received_bytes),
            ),
            counter(
                "helenus_mesh_dropped_total",
                "Messages to other nodes that were not sent.",
                sum(&|it| it.dropped),
            ),
        ];
        gauges.extend(peer_gauges(&links));
        gauges
    }
}

/// Of each link, one after the other: all of a name stand together.
fn peer_gauges(links: &[PeerStatus]) -> Vec<Gauge> {
    let mut gauges = Vec::new();
    for (name, help, is_counter, read) in OF_PEERS {
        let of_link = |link: &PeerStatus| {
            let value = read(link)?;
            let gauge = match is_counter {
                true => Gauge::counter(name, help, value),
                false => Gauge::new(name, help, value),
            };
            Some(gauge.with("node", link.node.0.to_string()))
        };
        gauges.extend(links.iter().filter_map(of_link));
    }
    gauges
}
