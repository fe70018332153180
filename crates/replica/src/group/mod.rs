//! Sets with several members: consensus by TiKV's `raft`, driven by [`Core::turn`], which has no thread, clock, disk or socket.
//!
//! **A write's way.** A coordinator hands a request to the [`Host`] of the node whose member leads the set. The core proposes it;
//! its entry goes into this node's log and, at the same time, to the other members, who put it into theirs. When a quorum has
//! it on disk it is committed: every member applies it, in the set's order, and the leader's member answers.
//!
//! **A strong read's way.** A member asks its leader up to where the log was committed at that moment; the leader answers when a
//! quorum confirmed that it still leads, or at once where one did a moment ago ([`leases`]). The member reads its own rows as soon as
//! it applied that far; under a lease of its own it asks nobody.
//!
//! **A batch's way.** A change of several sets is decided by an entry of one of them, whose leader then has the others do their parts:
//! `host/batches.rs` where it is coordinated, `host/intents.rs` where it is decided.
//!
//! Rules that hold here, by name, with the tests that fail without them: `docs/replication.md`.
//!
//! Reading order: [`wire`] and `node_wire` for what crosses between nodes, [`entries`] for a member's log as consensus sees it, [`member`] for one
//! member, [`core`] for all of a node, [`rests`] for those that have nothing to do, [`host`] for what surrounds the core: log, trees, answers; [`requests`] for a
//! coordinator's requests on their way to leaders, [`reads`] for its reads of rows on other nodes and [`serving`] for who reads
//! them there; [`driver`] for the thread that drives a host in a real process; [`recovery`] for sets that lost their quorum for good, and
//! [`skipping`] for those whose members differ.

mod behind;
mod changes;
mod core;
mod documents;
mod driver;
mod entries;
mod host;
mod leases;
pub mod load;
mod member;
#[cfg(test)]
mod moves_tests;
mod node_wire;
#[cfg(test)]
mod node_wire_tests;
mod reads;
mod recovery;
mod requests;
mod rests;
mod seats;
mod serving;
mod skipping;
pub mod transfer;
pub mod wire;

#[cfg(test)]
mod tests;

pub use self::core::{Core, Input, Outputs};
pub use changes::{ChangeState, Goal};
pub use documents::{Document, Replaced, SYSTEM_SET, SYSTEM_TABLE, SharedDocuments, system_table};
pub use driver::{Clock, Driver, Groups, OnApplied, TICK_MS, Told, Transport};
pub use host::{
    HeldRanges, Host, HostOptions, Knows, NodeMessage, Now, OnNote, OnSkipped, OnSplit, Places,
    ProposalAnswer, RingMap, ServedRead, SetRanges, SplitOff, Start, Wanted, WantedMembers,
};
pub use leases::Leases;
pub use member::{Answer, CommittedEntries, MemberStatus, Role, Settings, Ticket};
pub use node_wire::{KINDS_FIRST, KINDS_KNOWN};
pub use reads::{Looked, RowsAnswer, RowsAsked, RowsDone, RowsOutcome};
pub use recovery::{MemberRecord, RecoveryPlan, SetRecovery, plan_recovery};
pub use requests::{WriteDone, WriteOutcome};
pub use rests::Beat;
pub use seats::{Seat, Seats};
pub use serving::serve;
pub use skipping::{Skip, SkipPlan, Skipped, plan_skip};
pub use transfer::{Taken, TransferMessage};
pub use wire::PeerMessage;
