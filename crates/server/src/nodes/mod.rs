//! Who belongs to the cluster, as all nodes agree on it, and what this node does for that: it follows the document of the nodes, lets
//! others join, and changes what nodes are asked to do.
//!
//! Reading order: `roster` for the document, `joining` for tokens and those who come with them, `facts` for what nodes tell each other of
//! themselves, `steward` for who sees to it that sets are where they belong; `journal` for what is told of all that, `telling` for when;
//! `recovery` for sets that lost their quorum for good.

mod facts;
pub(crate) mod joining;
mod journal;
mod orders;
mod paces;
mod record;
pub(crate) mod recovery;
mod roster;
mod skipping;
mod standings;
mod steward;
mod telling;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use cluster::{Fingerprint, Identity, JoinDesk, Mesh};
use coordinator::Agreement;
use parking_lot::Mutex;
use partition::decide::NodeState;
use partition::voter_count;
use protocol::{Event, TopologyChange};
use replica::group::{Groups, Replaced, SYSTEM_SET, SharedDocuments, WantedMembers};
use storage::Storage;
use types::NodeId;

use crate::events::EventHub;
use crate::gather::Gatherer;
use crate::membership::{Member, Membership};
use crate::world;
pub(crate) use facts::{Health, NodeFacts, rows_question};
use joining::Token;
pub(crate) use journal::{Event as JournalEvent, Job, JobKind, Journal};
pub(crate) use orders::{NodeOrder, Ordered};
use roster::{JoinToken, Roster, TOKENS_MAX};
pub(crate) use steward::Steward;

/// The document of the nodes.
const NODES: &str = "nodes";
/// So often a change is made anew because others were faster.
const RACES_MAX: usize = 100;
/// So long a token counts.
const TOKEN_FOR: Duration = Duration::from_secs(3600);
/// A node that went is listened to for so long.
const GONE_HEARD_FOR: Duration = Duration::from_secs(3);
/// A node that was silent for so long is asked whether it still wants to hear of this one.
const ASKED_AFTER: Duration = Duration::from_secs(3);
/// So many nodes decide what is agreed on; all others follow.
const SYSTEM_VOTERS_MAX: usize = 5;

/// The nodes of a cluster, for one of them.
pub(crate) struct Nodes {
    documents: SharedDocuments,
    groups: Groups,
    storage: Arc<Storage>,
    key: Fingerprint,
    identity: Identity,
    membership: ArcSwap<Membership>,
    /// The version of the document that this node follows.
    followed: AtomicI64,
    /// What nodes told of themselves, and when.
    heard: Mutex<BTreeMap<NodeId, facts::Heard>>,
    /// How this node is doing, for people who ask another one.
    health: Mutex<Option<facts::Health>>,
    /// This node was removed by others.
    is_removed: AtomicBool,
    heal_after: Duration,
    /// See [`Nodes::has_caught_up`].
    caught_up: AtomicBool,
    mesh: OnceLock<Weak<Mesh>>,
    /// When nodes that went are not listened to any more.
    unpins_at: Mutex<Option<std::time::Instant>>,
    /// From when on this node listens.
    since: std::time::Instant,
    /// The journal with its version, as it was last read.
    journal: Mutex<Option<(i64, Journal)>>,
    /// Whoever gathers rows hears what others answer and want.
    gatherer: OnceLock<Arc<Gatherer>>,
    recovery: recovery::Recovery,
    standings: standings::Standings,
    paces: paces::Paces,
    /// Others are being asked whether this node was removed.
    is_asking: AtomicBool,
}

impl Nodes {
    pub(crate) fn new(
        membership: Membership,
        identity: Identity,
        documents: SharedDocuments,
        groups: Groups,
        storage: Arc<Storage>,
        heal_after: Duration,
        recovery: recovery::Recovery,
    ) -> Arc<Nodes> {
        let nodes = Arc::new(Nodes {
            documents,
            groups,
            storage,
            key: identity.fingerprint(),
            identity,
            membership: ArcSwap::from_pointee(membership),
            followed: AtomicI64::new(0),
            heard: Mutex::default(),
            health: Mutex::default(),
            is_removed: AtomicBool::new(false),
            heal_after,
            since: world::now(),
            caught_up: AtomicBool::new(false),
            mesh: OnceLock::new(),
            unpins_at: Mutex::default(),
            journal: Mutex::default(),
            gatherer: OnceLock::new(),
            recovery,
            standings: standings::Standings::default(),
            paces: paces::Paces::default(),
            is_asking: AtomicBool::new(false),
        });
        nodes.know_standings();
        let hearing = Arc::downgrade(&nodes);
        nodes.groups.on_note(Box::new(move |from, note| {
            if let Some(nodes) = hearing.upgrade() {
                nodes.hear(from, &note);
            }
        }));
        nodes
    }

    /// From now on rows of other nodes can be gathered, and others are answered.
    pub(crate) fn set_gatherer(&self, gatherer: Arc<Gatherer>) {
        let _ = self.gatherer.set(gatherer);
    }

    /// The nodes as this one knows them.
    pub(crate) fn membership(&self) -> Arc<Membership> {
        self.membership.load_full()
    }

    pub(crate) fn own(&self) -> NodeId {
        self.membership.load().own
    }

    /// Whether others removed this node.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    /// What this node is asked to do.
    pub(crate) fn own_state(&self) -> NodeState {
        self.membership.load().own().map_or(NodeState::Up, |own| own.state)
    }

    /// The document as this node's member of the system set knows it.
    fn known(&self) -> Result<Option<(i64, Roster)>, String> {
        let Some(document) = self.documents.read(NODES).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let unreadable = || "the list of nodes cannot be read by this version".to_owned();
        let roster = Roster::decode(&document.body).ok_or_else(unreadable)?;
        Ok(Some((document.version, roster)))
    }

    /// Whether it is agreed on who the nodes are.
    pub(crate) fn are_agreed(&self) -> bool {
        matches!(self.known(), Ok(Some(_)))
    }

    /// The nodes that the cluster begins with are agreed on.
    pub(crate) fn agree_first(&self) -> Result<(), String> {
        if self.known()?.is_some() {
            return Ok(());
        }
        let body = Bytes::from(Roster::first(&self.membership()).encode());
        let replaced = self.documents.replace(NODES, None, body, world::write_us());
        replaced.map(drop).map_err(|error| error.to_string())
    }

    /// Changes the document. `work` may be called again when others were faster; an error of it changes nothing.
    fn change<T>(
        &self,
        work: &mut dyn FnMut(&mut Roster) -> Result<T, String>,
    ) -> Result<T, String> {
        for _ in 0..RACES_MAX {
            if !self.documents.catch_up() {
                return Err(
                    "too few nodes of the cluster answer; try again when they do".to_owned()
                );
            }
            let Some((version, mut roster)) = self.known()? else {
                return Err("the cluster has not agreed on its nodes yet; try again".to_owned());
            };
            let before = roster.clone();
            let made = work(&mut roster)?;
            if roster == before {
                return Ok(made);
            }
            let body = Bytes::from(roster.encode());
            let replaced = self.documents.replace(NODES, Some(version), body, world::write_us());
            if replaced.map_err(|error| error.to_string())? == Replaced::Done {
                return Ok(made);
            }
        }
        Err("others changed the list of nodes all the time; try again".to_owned())
    }

    /// A token for one node, for an hour.
    pub(crate) fn token(&self) -> Result<Token, String> {
        let secret = world::random_bytes().map_err(|error| format!("no randomness: {error}"))?;
        let token = Token { key: self.key, secret };
        let now_s = world::now_s();
        self.change(&mut |roster| {
            roster.tokens.retain(|token| token.until_s >= now_s);
            if roster.tokens.len() >= TOKENS_MAX {
                return Err(format!(
                    "{TOKENS_MAX} tokens wait for nodes already; they count for an hour"
                ));
            }
            let until_s = now_s + TOKEN_FOR.as_secs();
            roster.tokens.push(JoinToken { hash: JoinToken::hash_of(&secret), until_s });
            Ok(())
        })?;
        Ok(token)
    }

    /// Becomes what was agreed on: who is talked to, who gets members of new sets, what clients are told.
    pub(crate) fn follow(
        &self,
        agreement: &Agreement,
        mesh: Option<&Arc<Mesh>>,
        hub: &EventHub,
    ) -> Result<(), String> {
        let Some((version, mut roster)) = self.known()? else { return Ok(()) };
        if version == self.followed.load(Ordering::Acquire) {
            return Ok(());
        }
        let before = self.membership();
        let own = before.own;
        if roster.is_removed(own, self.key) || roster.node(own).is_none() {
            return self.be_removed();
        }
        // Those who were given up are as good as removed.
        roster.nodes.retain(|member| !self.recovery.is_banned(member.node));
        let after = Membership { members: roster.nodes.clone(), ..(*before).clone() };
        if after != *before {
            // Kept before anybody is talked to or left: the next start knows at least as much.
            after.save(self.storage.data_dir()).map_err(|error| error.to_string())?;
        }
        agreement.set_nodes(
            roster.places(),
            after.members.iter().map(|it| (it.node, it.host_id)).collect(),
        );
        self.groups.meet(after.members.iter().map(|it| it.node).collect());
        self.heard.lock().retain(|node, _| after.members.iter().any(|it| it.node == *node));
        let left = before.others().filter(|it| !after.members.iter().any(|on| on.node == it.node));
        let left: Vec<Member> = left.cloned().collect();
        if let Some(mesh) = mesh {
            let _ = self.mesh.set(Arc::downgrade(mesh));
            // Who goes is still heard for a moment, so that it hears that it goes.
            let mut peers = after.peers();
            peers.extend(left.iter().map(Member::peer));
            mesh.set_peers(peers);
        }
        if !left.is_empty() {
            *self.unpins_at.lock() = Some(world::now() + GONE_HEARD_FOR);
        }
        let is_in = |list: &Membership, node| list.members.iter().any(|it| it.node == node);
        let come = after.others().filter(|it| !is_in(&before, it.node));
        let gone = before.others().filter(|it| !is_in(&after, it.node));
        let told = |change: TopologyChange, member: &Member| {
            tracing::info!(node = member.node.0, ?change, "the nodes of the cluster changed");
            hub.publish(Event::TopologyChange { change, address: member.clients });
        };
        let (come, gone): (Vec<_>, Vec<_>) = (come.cloned().collect(), gone.cloned().collect());
        self.membership.store(Arc::new(after));
        self.followed.store(version, Ordering::Release);
        come.iter().for_each(|member| told(TopologyChange::NewNode, member));
        gone.iter().for_each(|member| told(TopologyChange::RemovedNode, member));
        Ok(())
    }

    /// The cluster goes on without this node: it stops, and knows so at the next start.
    fn be_removed(&self) -> Result<(), String> {
        let mut gone = (*self.membership()).clone();
        let own = gone.own;
        let own = gone.members.iter_mut().filter(|member| member.node == own);
        own.for_each(|member| member.state = NodeState::Removed);
        gone.save(self.storage.data_dir()).map_err(|error| error.to_string())?;
        if !self.is_removed.swap(true, Ordering::AcqRel) {
            tracing::warn!("this node does not belong to its cluster any more, and stops");
        }
        Ok(())
    }

    /// A node asks those who do not listen to it whether it still belongs to the cluster: it may have been removed while it was down,
    /// perhaps together with others that listen to it.
    pub(super) async fn ask_whether_removed(&self) {
        let membership = self.membership();
        let Some(own) = membership.own() else { return };
        let told = self.groups.told();
        let is_silent = |node| !told.alive.contains(&node) && self.silent_for(node) > ASKED_AFTER;
        if !membership.others().any(|other| is_silent(other.node))
            || self.is_asking.swap(true, Ordering::AcqRel)
        {
            return;
        }
        // As one that wants to join; its key tells who it is, and it has no secret.
        let request = joining::JoinRequest {
            secret: [0; joining::SECRET_BYTES],
            host_id: own.host_id,
            mesh: own.mesh,
            clients: own.clients,
            rack: own.rack.clone(),
            data_center: own.data_center.clone(),
        };
        let request = request.encode();
        for other in membership.others().filter(|other| is_silent(other.node)) {
            let asked = cluster::ask_to_join(other.mesh, other.key, &self.identity, &request);
            let Ok(answer) = asked.await else { continue };
            if joining::is_removed(&answer) {
                if let Err(error) = self.be_removed() {
                    tracing::error!(%error, "that this node was removed cannot be kept");
                }
                break;
            }
        }
        self.is_asking.store(false, Ordering::Release);
    }

    /// Nodes that went are not listened to any more.
    fn unpin_gone(&self) {
        let is_due = self.unpins_at.lock().take_if(|at| *at <= world::now()).is_some();
        if is_due && let Some(mesh) = self.mesh.get().and_then(Weak::upgrade) {
            let mut peers = self.membership().peers();
            peers.retain(|peer| !self.recovery.is_banned(peer.node));
            mesh.set_peers(peers);
        }
    }

    /// What is agreed on was known completely since this node runs: what it knows is not old.
    fn look_whether_caught_up(&self) {
        let is_behind = !self.caught_up.load(Ordering::Acquire);
        if is_behind && self.documents.catch_up() {
            self.caught_up.store(true, Ordering::Release);
        }
    }

    /// Whether everything that was agreed on before this node started is known here.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.caught_up.load(Ordering::Acquire)
    }

    /// Who is to belong to the set of what all agree on: few decide, all have it.
    pub(crate) fn system_members(&self) -> Option<WantedMembers> {
        let told = self.groups.told();
        let voting = &told.member(SYSTEM_SET)?.voters;
        let membership = self.membership.load();
        let lost = self.lost_nodes();
        Some(system_members(&membership.members, voting, &lost))
    }

    /// How long nothing was heard of a node.
    fn silent_for(&self, node: NodeId) -> Duration {
        let at = self.heard.lock().get(&node).map_or(self.since, |heard| heard.at);
        match node == self.own() {
            true => Duration::ZERO,
            false => world::now().saturating_duration_since(at),
        }
    }

    /// Nodes of which nothing was heard for so long that what they held is made anew.
    fn lost_nodes(&self) -> Vec<NodeId> {
        let membership = self.membership.load();
        let nodes = membership.members.iter().map(|member| member.node);
        let told = self.groups.told();
        let is_lost =
            |node: &NodeId| !told.alive.contains(node) && self.silent_for(*node) > self.heal_after;
        nodes.filter(is_lost).collect()
    }
}

/// Pure: who decides stays if it can; others come in the order of their numbers, first from racks that have nobody yet.
fn system_members(members: &[Member], voting: &[NodeId], lost: &[NodeId]) -> WantedMembers {
    let may_decide = |it: &&Member| {
        matches!(it.state, NodeState::Up | NodeState::Draining) && !lost.contains(&it.node)
    };
    let fit: Vec<&Member> = members.iter().filter(may_decide).collect();
    let count = voter_count(fit.len()).min(SYSTEM_VOTERS_MAX);
    let mut voters: Vec<&Member> = Vec::new();
    while voters.len() < count {
        let left = fit.iter().filter(|it| !voters.iter().any(|known| known.node == it.node));
        let best = left.min_by_key(|it| {
            let same_rack = voters.iter().filter(|known| known.rack == it.rack).count();
            // Where one decides alone, it is not one that is about to stop.
            let stops = count == 1 && it.state != NodeState::Up;
            (stops, !voting.contains(&it.node), same_rack, it.node)
        });
        let Some(best) = best else { break };
        voters.push(best);
    }
    let mut voters: Vec<NodeId> = voters.into_iter().map(|it| it.node).collect();
    voters.sort_unstable();
    if voters.is_empty() {
        // Nobody is fit: those who decide go on.
        voters = voting.to_vec();
    }
    let others = members.iter().map(|it| it.node).filter(|node| !voters.contains(node));
    WantedMembers { learners: others.collect(), voters }
}

impl JoinDesk for Nodes {
    fn ask(&self, key: Fingerprint, from: SocketAddr, request: &[u8]) -> Vec<u8> {
        let mut draw = || world::random_bytes().map_or(0, i64::from_be_bytes);
        if world::random_bytes::<8>().is_err() {
            return joining::refuse("this node has no randomness; ask another one");
        }
        let admitted = self.change(&mut |roster| {
            let member = joining::admit(roster, key, request, world::now_s(), &mut draw)?;
            Ok((member, roster.nodes.clone()))
        });
        match admitted {
            Ok((member, members)) => {
                tracing::info!(node = member.node.0, %from, "a node joins");
                let own = self.membership();
                joining::welcome(&Membership {
                    cluster_id: own.cluster_id,
                    own: member.node,
                    paging_secret: own.paging_secret,
                    members,
                    is_first: false,
                })
            }
            Err(why) => {
                tracing::warn!(%from, %why, "a node is refused");
                joining::refuse(&why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u64, rack: &str, state: NodeState) -> Member {
        Member {
            node: NodeId(number),
            host_id: u128::from(number),
            mesh: format!("127.0.0.{number}:7000").parse().unwrap(),
            clients: format!("127.0.0.{number}:9042").parse().unwrap(),
            key: Fingerprint([number as u8; 32]),
            tokens: Vec::new(),
            rack: rack.to_owned(),
            data_center: "d".to_owned(),
            state,
        }
    }

    fn wanted(members: &[Member], voting: &[u64], lost: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let nodes = |list: &[u64]| list.iter().map(|node| NodeId(*node)).collect::<Vec<_>>();
        let wanted = system_members(members, &nodes(voting), &nodes(lost));
        let numbers = |list: Vec<NodeId>| list.into_iter().map(|node| node.0).collect();
        (numbers(wanted.voters), numbers(wanted.learners))
    }

    #[test]
    fn few_decide_and_all_have_it() {
        use NodeState::{Joining, Leaving, Up};
        let up = |count: u64| (1..=count).map(|it| member(it, "r", Up)).collect::<Vec<_>>();
        assert_eq!(wanted(&up(1), &[1], &[]), (vec![1], vec![]));
        assert_eq!(wanted(&up(2), &[1], &[]), (vec![1], vec![2]));
        assert_eq!(wanted(&up(2), &[2], &[]), (vec![2], vec![1]), "who decides goes on");
        assert_eq!(wanted(&up(3), &[1], &[]), (vec![1, 2, 3], vec![]));
        assert_eq!(wanted(&up(7), &[1, 2, 3, 6], &[]), (vec![1, 2, 3, 4, 6], vec![5, 7]));
        assert_eq!(wanted(&up(7), &[1, 2, 3, 4, 6], &[6]), (vec![1, 2, 3, 4, 5], vec![6, 7]));
        let mut nodes = up(4);
        nodes.push(member(5, "r", Joining));
        assert_eq!(wanted(&nodes, &[1, 2, 3, 4], &[]), (vec![1, 2, 3, 4], vec![5]));
        nodes[1].state = Leaving;
        assert_eq!(wanted(&nodes, &[1, 2, 3, 4], &[]), (vec![1, 3, 4], vec![2, 5]));
        let racks: Vec<_> =
            (1..=8).map(|it| member(it, if it < 5 { "a" } else { "b" }, Up)).collect();
        assert_eq!(wanted(&racks, &[], &[]), (vec![1, 2, 3, 5, 6], vec![4, 7, 8]));
        // Nobody is left that could: nothing changes.
        assert_eq!(wanted(&up(1), &[1], &[1]), (vec![1], vec![]));
    }
}
