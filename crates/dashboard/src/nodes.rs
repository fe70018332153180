//! The nodes: how each is doing, and how they reach each other.

use maud::{Markup, html};

use crate::figure::{bytes, cut, milliseconds, seconds};
use crate::layout::{known, live, meter};

/// A cluster has no more nodes than this that are shown.
const NODES_MAX: usize = 16;
/// A clock that is off by more is worth a look, in milliseconds.
const CLOCK_OFF_MS: f64 = 100.0;
/// Below these nothing is slow, whatever the others take: milliseconds of a sync and of the queue, and entries that are not applied yet.
const EVEN_SYNC_MS: f64 = 10.0;
const EVEN_QUEUE_MS: f64 = 5.0;
const EVEN_UNAPPLIED: f64 = 1000.0;
/// A node that is so many times as slow as the others is worth a look.
const SLOW_TIMES: f64 = 5.0;
/// Less room on a disk than this is worth a look.
pub const DISK_FREE_LOW_BYTES: u64 = 1 << 30;
/// A way there and back that takes longer is worth a look, in milliseconds.
const LINK_SLOW_MS: f64 = 50.0;

/// A node. What it did not tell is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub number: u64,
    /// Whether it is the one that is asked.
    pub is_asked: bool,
    pub state: String,
    pub is_alive: bool,
    pub address: String,
    pub rack: String,
    /// Bytes of what it holds and of what is free.
    pub disk_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// All but one in a hundred syncs of its log took no longer.
    pub sync_p99_ms: Option<f64>,
    /// How long a task waits for its turn.
    pub queue_ms: Option<f64>,
    /// Entries of its replica sets that are committed and that it did not apply yet.
    pub unapplied: Option<u64>,
    /// How far its clock is ahead of the time of the cluster; behind, if negative.
    pub clock_ms: Option<f64>,
    pub up_seconds: Option<u64>,
    /// Members of replica sets.
    pub members: Option<usize>,
    /// Sets that it leads.
    pub leads: Option<usize>,
    /// To other nodes and back, by their numbers; no time where there is no connection.
    pub links: Vec<(u64, Option<f64>)>,
    /// What takes part in nothing, and why.
    pub frozen: Vec<String>,
}

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    pub nodes: Vec<Node>,
    /// What the cluster waits for before it goes on moving members.
    pub waiting: Option<String>,
}

impl Nodes {
    /// The page.
    pub fn markup(&self) -> Markup {
        html! {
            h1 { "Nodes" }
            (live("nodes", "", &html! {
                @if let Some(waiting) = &self.waiting { p { (cut(waiting, 300)) } }
                (self.list())
            }))
            @if self.nodes.len() > 1 { (live("links", "Links: there and back", &self.matrix())) }
        }
    }

    fn list(&self) -> Markup {
        let ms = |value: Option<f64>| known(value.map(milliseconds));
        let slow = slow_scores(&self.nodes);
        html! {
            div.wide { table {
                thead { tr {
                    th.number { "Node" } th { "State" } th { "Clients" } th { "Rack" } th { "Disk" } th.number { "Memory" }
                    th.number { "Sync p99" } th.number { "Queue" } th.number title="how many times as slow as the middle one of the others, by what is worst" { "Slow" } th.number { "Clock" } th.number { "Members" } th.number { "Leads" } th { "Up" }
                } }
                tbody {
                    @for (node, slow) in self.nodes.iter().zip(&slow).take(NODES_MAX) {
                        tr.here[node.is_asked] {
                            td.number { (node.number) @if node.is_asked { " " span.dim { "(here)" } } }
                            td.bad[!node.is_alive || !node.frozen.is_empty()] { (cut(&node.state, 120)) @for why in node.frozen.iter().take(3) { br; (cut(why, 120)) } }
                            td { (node.address) }
                            td { (cut(&node.rack, 40)) }
                            td.bad[node.free_bytes.is_some_and(|free| free < DISK_FREE_LOW_BYTES)] { @match (node.disk_bytes, node.free_bytes) {
                                (Some(all), Some(free)) if all > 0 => (meter(1.0 - free as f64 / all as f64, &format!("{} free", bytes(free)))),
                                _ => "–",
                            } }
                            td.number { (known(node.memory_bytes.map(bytes))) }
                            td.number { (ms(node.sync_p99_ms)) }
                            td.number { (ms(node.queue_ms)) }
                            @match slow {
                                Some(score) => td.number.bad[score.times >= SLOW_TIMES] title=(score.by) { (format!("{:.1}×", score.times)) },
                                None => td.number { "–" },
                            }
                            td.number.bad[node.clock_ms.is_some_and(|off| off.abs() > CLOCK_OFF_MS)] { (known(node.clock_ms.map(clock))) }
                            td.number { (known(node.members.map(|it| it.to_string()))) }
                            td.number { (known(node.leads.map(|it| it.to_string()))) }
                            td { (known(node.up_seconds.map(seconds))) }
                        }
                    }
                }
            } }
        }
    }

    fn matrix(&self) -> Markup {
        let shown: Vec<&Node> = self.nodes.iter().take(NODES_MAX).collect();
        html! {
            div.wide.fit { table.matrix {
                thead { tr { th { "from \\ to" } @for node in &shown { th.number { (node.number) } } } }
                tbody {
                    @for from in &shown {
                        tr {
                            th.number { (from.number) }
                            @for to in &shown {
                                @let link = from.links.iter().find(|(node, _)| *node == to.number);
                                @if from.number == to.number {
                                    td.number.dim { "·" }
                                } @else if !from.is_alive {
                                    td.number.dim title="the node is down" { "–" }
                                } @else if let Some((_, Some(ms))) = link {
                                    td.number.bad[*ms > LINK_SLOW_MS] { (milliseconds(*ms)) }
                                } @else if link.is_some() {
                                    td.number.bad title="no connection" { "✕" }
                                } @else {
                                    td.number.dim title="not told" { "?" }
                                }
                            }
                        }
                    }
                }
            } }
            p.dim { "Each row is what that node measured itself. ✕ no connection, ? not told." }
        }
    }
}

/// How slow a node is beside the others.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SlowScore {
    times: f64,
    /// By what.
    by: &'static str,
}

/// For each node how many times as much it takes as the middle one of the others, by the worst of what is measured. None of one that told
/// nothing, and of one that is alone.
fn slow_scores(nodes: &[Node]) -> Vec<Option<SlowScore>> {
    type Measure = (&'static str, f64, fn(&Node) -> Option<f64>);
    const MEASURES: [Measure; 3] = [
        ("syncs of its log", EVEN_SYNC_MS, |node| node.sync_p99_ms),
        ("its queue", EVEN_QUEUE_MS, |node| node.queue_ms),
        ("entries that it did not apply yet", EVEN_UNAPPLIED, |node| {
            node.unapplied.map(|count| count as f64)
        }),
    ];
    let score = |place: usize, node: &Node| {
        let times = |(by, even, measure): Measure| {
            let others = nodes.iter().enumerate().filter(|(at, it)| *at != place && it.is_alive);
            let mut others: Vec<f64> = others.filter_map(|(_, it)| measure(it)).collect();
            others.sort_by(f64::total_cmp);
            let middle = others.get(others.len() / 2)?;
            Some(SlowScore { times: measure(node)?.max(even) / middle.max(even), by })
        };
        let known = MEASURES.into_iter().filter_map(times).filter(|_| node.is_alive);
        known.max_by(|left, right| left.times.total_cmp(&right.times))
    };
    nodes.iter().enumerate().map(|(place, node)| score(place, node)).collect()
}

fn clock(off_ms: f64) -> String {
    match off_ms.abs() < 1.0 {
        true => "even".to_owned(),
        false if off_ms > 0.0 => format!("{} ahead", milliseconds(off_ms)),
        false => format!("{} behind", milliseconds(-off_ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_node_stands_out_and_an_even_cluster_does_not() {
        let node = |sync_p99_ms, queue_ms| Node {
            is_alive: true,
            sync_p99_ms: Some(sync_p99_ms),
            queue_ms: Some(queue_ms),
            unapplied: Some(3),
            ..Node::default()
        };
        let times = |nodes: &[Node]| -> Vec<Option<f64>> {
            slow_scores(nodes).into_iter().map(|it| it.map(|it| it.times)).collect()
        };
        assert_eq!(times(&[node(9.0, 0.1)]), [None], "it is alone");
        // What differs by little is even.
        assert_eq!(times(&[node(1.0, 0.1), node(9.0, 4.0)]), [Some(1.0), Some(1.0)]);
        let nodes = [node(10.0, 0.1), node(200.0, 0.1), node(12.0, 50.0), Node::default()];
        assert_eq!(times(&nodes), [Some(1.0), Some(200.0 / 12.0), Some(10.0), None]);
        assert_eq!(slow_scores(&nodes)[1].unwrap().by, "syncs of its log");
        assert_eq!(slow_scores(&nodes)[2].unwrap().by, "its queue");
    }
}
