//! What goes over one connection goes in three lanes, so that what is large does not stand before what is urgent. Within a lane messages
//! keep their order; those of different lanes may overtake each other.
//!
//! Nobody relies on an order between lanes: a request and its answer go in opposite directions, the rows of a set are named by
//! consensus only after the other side said that it has them, and budgets and traffic are totals. Everything that members and nodes say of
//! themselves is in one lane with consensus, so that what a node's log holds comes before all else that it says over a connection.

use replica::group::NodeMessage;

/// Where a message waits. What comes first here goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// What members and nodes say of themselves. Without it sets lose their leaders.
    Consensus,
    /// What clients wait for: requests, reads, their answers, and what may be spent.
    Requests,
    /// Rows of whole sets.
    Bulk,
}

impl Lane {
    /// All of them, the most urgent first.
    pub const ALL: [Lane; 3] = [Lane::Consensus, Lane::Requests, Lane::Bulk];

    /// The lane of a message.
    pub fn of(message: &NodeMessage) -> Lane {
        match message {
            NodeMessage::Consensus(_)
            | NodeMessage::Beats { .. }
            | NodeMessage::Ping { .. }
            | NodeMessage::Standing { .. }
            | NodeMessage::Refused { .. }
            | NodeMessage::Gone { .. }
            | NodeMessage::StillMember { .. }
            | NodeMessage::Sum { .. }
            | NodeMessage::Differs { .. }
            | NodeMessage::WhoIs { .. }
            | NodeMessage::Origin { .. } => Lane::Consensus,
            // In the lane of what it is about, which comes behind it.
            NodeMessage::Traced { .. }
            | NodeMessage::Request { .. }
            | NodeMessage::Relay { .. }
            | NodeMessage::Answer { .. }
            | NodeMessage::Read { .. }
            | NodeMessage::Look { .. }
            | NodeMessage::Rows { .. }
            | NodeMessage::Budgets(_)
            | NodeMessage::Traffic(_)
            | NodeMessage::Note(_) => Lane::Requests,
            NodeMessage::Transfer(_) => Lane::Bulk,
        }
    }
}

/// One of something for each lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerLane<T> {
    /// For consensus.
    pub consensus: T,
    /// For requests.
    pub requests: T,
    /// For bulk.
    pub bulk: T,
}

impl<T> PerLane<T> {
    /// That of a lane.
    pub fn of(&self, lane: Lane) -> &T {
        match lane {
            Lane::Consensus => &self.consensus,
            Lane::Requests => &self.requests,
            Lane::Bulk => &self.bulk,
        }
    }

    pub(crate) fn of_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Consensus => &mut self.consensus,
            Lane::Requests => &mut self.requests,
            Lane::Bulk => &mut self.bulk,
        }
    }

    pub(crate) fn map<U>(&self, to: impl Fn(&T) -> U) -> PerLane<U> {
        PerLane {
            consensus: to(&self.consensus),
            requests: to(&self.requests),
            bulk: to(&self.bulk),
        }
    }
}
