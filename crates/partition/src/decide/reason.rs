//! Why a step is taken, in words that an operator reads.

use std::fmt;
use std::sync::Arc;

use types::{NodeId, SetId};

/// Why a step is taken; its text is a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The node was removed for good.
    Removed { node: NodeId },
    /// The node is emptied.
    Leaving { node: NodeId },
    /// The node leads nothing.
    Draining { node: NodeId },
    /// The node is slow beside the others.
    Slow { node: NodeId, times: u64, by: &'static str },
    /// Nothing was heard of the node for longer than members are waited for.
    Silent { node: NodeId, silent_ms: u64 },
    /// The set has fewer members than it should, or more.
    Members { set: SetId, members: usize, wanted: usize },
    /// The set has members that do not decide, and should.
    Voters { set: SetId, voters: usize, wanted: usize },
    /// Of two nodes one decides everything, and for this set it was the other one.
    SoleVoter { node: NodeId },
    /// The set has several members that fail together, and there is another rack.
    SameRack { set: SetId, rack: Arc<str>, members: usize },
    /// The node's disk is nearly full.
    Full { node: NodeId, free_percent: u64 },
    /// A node has fewer members than another.
    FewerMembers { node: NodeId, than: NodeId, fewer: u64 },
    /// A node holds less than another.
    FewerBytes { node: NodeId, than: NodeId, fewer_bytes: u64 },
    /// The members of a node serve less than another's.
    LessTraffic { node: NodeId, than: NodeId, fewer_ru_s: u64 },
    /// A node has less than another, measured by their disks.
    LessForDisk { node: NodeId, than: NodeId },
    /// A node leads fewer sets than another.
    FewerLeads { node: NodeId, than: NodeId, fewer: u64 },
    /// What a node leads is asked for less than what another leads.
    LessLed { node: NodeId, than: NodeId, fewer_ru_s: u64 },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Removed { node } => write!(f, "node {} was removed", node.0),
            Reason::Leaving { node } => write!(f, "node {} is leaving", node.0),
            Reason::Draining { node } => write!(f, "node {} is draining", node.0),
            Reason::Slow { node, times, by } => {
                write!(f, "node {} is slow: {times} times the others by {by}", node.0)
            }
            Reason::Silent { node, silent_ms } => {
                write!(f, "node {} has been silent for {}", node.0, Time(*silent_ms))
            }
            Reason::Members { set, members, wanted } => {
                write!(f, "set {} has {members} of {wanted} members", set.0)
            }
            Reason::Voters { set, voters, wanted } => {
                write!(f, "set {} has {voters} of {wanted} voters", set.0)
            }
            Reason::SoleVoter { node } => {
                write!(f, "of two nodes one decides for all sets: node {}", node.0)
            }
            Reason::SameRack { set, rack, members } => {
                write!(f, "set {} has {members} members on rack {rack}", set.0)
            }
            Reason::Full { node, free_percent } => {
                write!(f, "node {} has {free_percent} % of its disk free", node.0)
            }
            Reason::FewerMembers { node, than, fewer } => {
                let members = if *fewer == 1 { "member" } else { "members" };
                write!(f, "node {} has {fewer} {members} fewer than node {}", node.0, than.0)
            }
            Reason::FewerBytes { node, than, fewer_bytes } => {
                write!(f, "node {} holds {} less than node {}", node.0, Size(*fewer_bytes), than.0)
            }
            Reason::LessTraffic { node, than, fewer_ru_s } => {
                write!(f, "node {} serves {fewer_ru_s} RU/s less than node {}", node.0, than.0)
            }
            Reason::LessForDisk { node, than } => {
                write!(f, "node {} has less for its disk than node {}", node.0, than.0)
            }
            Reason::FewerLeads { node, than, fewer } => {
                write!(f, "node {} leads {fewer} sets fewer than node {}", node.0, than.0)
            }
            Reason::LessLed { node, than, fewer_ru_s } => {
                write!(f, "node {} leads {fewer_ru_s} RU/s less than node {}", node.0, than.0)
            }
        }
    }
}

/// Bytes as people say them.
pub(super) struct Size(pub(super) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        let (mut value, mut unit) = (self.0 as f64, "bytes");
        for larger in UNITS {
            if value < 1024.0 {
                break;
            }
            (value, unit) = (value / 1024.0, larger);
        }
        // Whole numbers and large ones need no tenths.
        let digits = usize::from(value < 10.0 && value.fract() >= 0.05);
        write!(f, "{value:.digits$} {unit}")
    }
}

/// Milliseconds as people say them.
pub(super) struct Time(pub(super) u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 / 1000 {
            seconds @ 0..120 => write!(f, "{seconds} s"),
            seconds @ 120..7200 => write!(f, "{} min", seconds / 60),
            seconds @ 7200..172_800 => write!(f, "{} h", seconds / 3600),
            seconds => write!(f, "{} days", seconds / 86_400),
        }
    }
}
