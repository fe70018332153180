//! Where a key should have been asked for, told to drivers that learn it from answers.

use types::{RingToken, TableId, Token};

use crate::executor::Executor;

/// The tokens around a key, and the nodes to ask for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The token before the first one.
    pub after: Token,
    pub last: Token,
    /// What clients call the nodes.
    pub hosts: Vec<u128>,
}

impl Executor {
    /// The better nodes to ask for a key than this one; `None` if there is none, or none is known. A strong request is best
    /// asked of the leader, and only of it: drivers take any of the nodes that they are told. A weak read is answered by any
    /// member.
    pub fn better_route(&self, table: TableId, key: RingToken, is_weak: bool) -> Option<Route> {
        let groups = self.groups()?;
        let map = self.view.map();
        let partition = map.locate(table, key)?;
        let (after, last) = partition.range.whole_tokens()?;
        if !(after < key.token() && key.token() <= last) {
            return None;
        }
        let told = groups.told();
        let nodes = match told.member(partition.set) {
            Some(member) if is_weak && member.is_whole => return None,
            Some(member) if !is_weak => {
                vec![member.leader.filter(|leader| *leader != groups.node())?]
            }
            // Who decides knows who leads, and tells it.
            None if !is_weak => map.roles(partition.set).0.to_vec(),
            _ => map.members(partition.set).to_vec(),
        };
        let hosts = self.catalog.agreement()?.hosts_of(&nodes);
        (!hosts.is_empty()).then_some(Route { after, last, hosts })
    }
}
