//! The nodes of a cluster and how they reach each other. For now this is the mesh: encrypted links over which nodes that know
//! each other's keys exchange [`replica::group::NodeMessage`]s.
//!
//! It must not know clients, CQL or what a message means: it carries whole messages, in order, or loses them and says so.
//!
//! Invariants: no message is heard of one whose key was not named by [`Mesh::set_peers`], all that it may do is ask a [`JoinDesk`] once; what is on its way to one node is bounded, and
//! nobody who sends ever waits; messages of a connection that broke never arrive after those of the next one.
//!
//! Reading order: [`Identity`]; [`mesh`] with [`Mesh`], then `link` for what goes out, `hearing` for what comes in, [`mesh::frame`]
//! and `hello` for the bytes (`docs/formats/mesh.md`), `trust` for the keys, `desk` and `ask` with [`mesh::join`] for those who join.

mod identity;
pub mod mesh;

pub use identity::{Fingerprint, Identity};
pub use mesh::{
    JoinDesk, JoinError, Mesh, MeshBounds, MeshOptions, PeerAddress, PeerStatus, Receiver,
    ask_to_join,
};
