//! The nodes: how each is doing, and how they reach each other.

use maud::{Markup, html};

use crate::figure::{bytes, cut, milliseconds, seconds};
use crate::layout::{known, live, meter};

/// A cluster has no more nodes than this that are shown.
const NODES_MAX: usize = 16;
/// A clock that is off by more is worth a look, in milliseconds.
const CLOCK_OFF_MS: f64 = 100.0;
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
    /// How slow it is beside the others.
    pub slow: Option<SlowScore>,
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

/// How slow a node is beside the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowScore {
    /// As the middle one of the others.
    pub times: f64,
    /// By what.
    pub by: &'static str,
    /// Worth a look.
    pub is_bad: bool,
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
        html! {
            div.wide { table {
                thead { tr {
                    th.number { "Node" } th { "State" } th { "Clients" } th { "Rack" } th { "Disk" } th.number { "Memory" }
                    th.number { "Sync p99" } th.number { "Queue" } th.number title="how many times as slow as the middle one of the others, by what is worst" { "Slow" } th.number { "Clock" } th.number { "Members" } th.number { "Leads" } th { "Up" }
                } }
                tbody {
                    @for node in self.nodes.iter().take(NODES_MAX) {
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
                            @match node.slow {
                                Some(score) => td.number.bad[score.is_bad] title=(score.by) { (format!("{:.1}×", score.times)) },
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
            p.dim { "Each row is what that node measured itself. ✕ no connection, – the node is down, ? not told." }
        }
    }
}

fn clock(off_ms: f64) -> String {
    match off_ms.abs() < 1.0 {
        true => "even".to_owned(),
        false if off_ms > 0.0 => format!("{} ahead", milliseconds(off_ms)),
        false => format!("{} behind", milliseconds(-off_ms)),
    }
}
