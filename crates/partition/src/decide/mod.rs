//! Where the members of sets go when nodes come, go, fill or fail: pure, so that every decision can be told again.
//!
//! Reading order: [`decide`], `repair`, `balance`, `lead`, over the numbers in `cluster`. `docs/placement.md` has the rules in their order, and the test of each.

mod balance;
mod checks;
mod cluster;
mod lead;
mod reason;
mod repair;
mod slow;

use std::sync::Arc;

use types::{NodeId, SetId};

pub use checks::{may_drain, may_leave, may_remove, waiting};
use cluster::Cluster;
pub use reason::Reason;
pub use slow::{Pace, SLOW_TIMES, SlowNodes, Slowness, slowness};

/// What a node is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Gets nothing yet.
    Joining,
    Up,
    /// Keeps its members, and leads nothing.
    Draining,
    /// Is emptied: decommissioned.
    Leaving,
    /// Gone for good: its members are replaced at once.
    Removed,
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct NodeView {
    pub node: NodeId,
    /// What fails together with others of the same name.
    pub rack: Arc<str>,
    pub state: NodeState,
    pub is_alive: bool,
    /// How long nothing was heard of it.
    pub silent_ms: u64,
    /// What its disk holds in all, and has free.
    pub disk_bytes: u64,
    pub free_bytes: u64,
    /// It works more slowly than the others, and has for some time.
    pub slow: Option<Slowness>,
}

/// What is known of a set.
#[derive(Clone, Debug)]
pub struct SetView {
    pub set: SetId,
    /// Who decides, in no order.
    pub voters: Vec<NodeId>,
    /// Who only follows. While a set is changing, those that it gets are told here.
    pub learners: Vec<NodeId>,
    pub leader: Option<NodeId>,
    pub bytes: u64,
    /// Request units a second.
    pub ru_s: u64,
    /// Its members are being changed, or rows handed over.
    pub is_changing: bool,
}

/// How much is done at once, and from when on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Sets whose members change at once in the cluster.
    pub changes_max: usize,
    /// Sets at once for which a node gets rows, or hands them over as their leader.
    pub changes_per_node_max: usize,
    /// The members of a silent node are replaced after so long.
    pub heal_after_ms: u64,
    /// A target keeps at least this share of its disk free.
    pub free_share_min: f64,
    /// Leaders that are handed over by one call.
    pub leads_at_once_max: usize,
    /// Nodes may differ by this share of the mean in members, bytes and request units before anything moves.
    pub members_slack: f64,
    pub bytes_slack: f64,
    pub ru_slack: f64,
    /// The same for sets led.
    pub leads_slack: f64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            changes_max: 32,
            changes_per_node_max: 2,
            heal_after_ms: 600_000,
            free_share_min: FREE_SHARE_MIN,
            leads_at_once_max: 8,
            members_slack: 0.05,
            bytes_slack: 0.10,
            ru_slack: 0.25,
            leads_slack: 0.10,
        }
    }
}

/// A target keeps at least this share of its disk free, where nobody asked for another.
const FREE_SHARE_MIN: f64 = 0.1;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The set gets these members and no others: who is new is added and caught up first, then the rest goes.
    Change { set: SetId, voters: Vec<NodeId>, learners: Vec<NodeId>, reason: Reason },
    /// The set is led by this one of its voters.
    Lead { set: SetId, node: NodeId, reason: Reason },
}

/// What is to be done next, the most urgent first; nothing where all is well, or where [`waiting`] tells why not.
///
/// Applied one after the other, steps come to an end: each makes a set whole, or the cluster more even.
pub fn decide(nodes: &[NodeView], sets: &[SetView], bounds: &Bounds) -> Vec<Step> {
    let mut cluster = Cluster::new(nodes, sets, bounds);
    let mut steps = Vec::new();
    // While something is amiss nothing moves for the better: what is placed anew goes where it makes the cluster even.
    if repair::repair(&mut cluster, &mut steps) {
        balance::part_racks(&mut cluster, &mut steps);
        let sets_of = balance::sets_of_nodes(&cluster);
        balance::relieve(&mut cluster, &sets_of, &mut steps);
        balance::balance(&mut cluster, &sets_of, &mut steps);
    }
    lead::lead(&cluster, &mut steps);
    steps
}

/// Whether nothing changes, and nothing should.
pub fn is_settled(nodes: &[NodeView], sets: &[SetView], bounds: &Bounds) -> bool {
    sets.iter().all(|set| !set.is_changing) && decide(nodes, sets, bounds).is_empty()
}
