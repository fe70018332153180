//! A set whose members differ, and no majority tells who is right: an operator says whose rows count. Pure; carried out by
//! `server/src/nodes/skipping.rs` on every node, and there by [`super::Host::skip`].
//!
//! The logs of all members are as good as before, and what was acknowledged is in them; only rows differ. So nobody's log is thrown away:
//! all members take part again, but only one of them answers, leads and hands its rows over. The others are replaced by new ones, one
//! after the other.

use std::collections::BTreeMap;

use storage::EntryPlace;
use types::{NodeId, ReplicaId, SetId};

use super::recovery::MemberRecord;

/// What an operator says about a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Which set.
    pub set: SetId,
    /// The entry at which its members differed.
    pub index: u64,
    /// The member whose rows count.
    pub kept: ReplicaId,
    /// Those whose rows do not. Who is among neither came later.
    pub others: Vec<ReplicaId>,
}

/// What becomes of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is.
    pub node: NodeId,
    /// Its last entry.
    pub last: EntryPlace,
    /// Up to where it applied them.
    pub applied: u64,
    /// Whether its rows count from then on.
    pub is_kept: bool,
}

/// What is to be done so that a set goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipPlan {
    /// What every node is told.
    pub skip: Skip,
    /// The members of nodes that answered.
    pub members: Vec<Skipped>,
    /// The nodes of members that did not: theirs take part in nothing, and are replaced when they are back.
    pub silent: Vec<NodeId>,
}

fn list(nodes: impl IntoIterator<Item = NodeId>) -> String {
    nodes.into_iter().map(|node| node.0.to_string()).collect::<Vec<_>>().join(", ")
}

/// What is to be done so that a set goes on with the rows of one node; an error, if it cannot, need not, or was frozen elsewhere.
/// `told`: what every node that is alive has.
pub fn plan_skip(
    told: &BTreeMap<NodeId, Vec<MemberRecord>>,
    (set, index): (SetId, u64),
    kept: NodeId,
) -> Result<SkipPlan, String> {
    let of_set = |members: &'_ [MemberRecord]| {
        members.iter().find(|it| it.state.set == set && !it.state.is_newcomer()).cloned()
    };
    let members: BTreeMap<NodeId, MemberRecord> =
        told.iter().filter_map(|(node, members)| Some((*node, of_set(members)?))).collect();
    let newest = members.values().max_by_key(|it| it.state.configuration.index);
    let Some(newest) = newest else {
        return Err(format!("no node that is alive has a member of set {}", set.0));
    };
    let configuration = newest.state.configuration.clone();
    let Some(own) = members.get(&kept) else {
        let with = list(members.keys().copied());
        return Err(format!("node {} has no member of set {}; nodes {with} have", kept.0, set.0));
    };
    let replica = own.state.replica;
    check_frozen(&members, (set, index), kept)?;
    if !configuration.voters.contains(&replica) {
        return Err(format!(
            "node {}'s member of set {} only follows: keep another one",
            kept.0, set.0
        ));
    }
    let voters: Vec<NodeId> = [&configuration.voters, &configuration.outgoing]
        .into_iter()
        .flatten()
        .filter_map(|voter| configuration.node_of(*voter))
        .collect();
    let decide = |are_there: &dyn Fn(&MemberRecord) -> bool| {
        [&configuration.voters, &configuration.outgoing].into_iter().all(|deciding| {
            let is_there = |voter: &&ReplicaId| {
                let node = configuration.node_of(**voter);
                let member = node.and_then(|node| members.get(&node));
                member.is_some_and(|it| it.state.replica == **voter && are_there(it))
            };
            deciding.is_empty() || deciding.iter().filter(is_there).count() * 2 > deciding.len()
        })
    };
    if decide(&|it| it.is_whole) {
        return Err(format!(
            "most members of set {} are not frozen: it goes on by itself, and those that are frozen are replaced",
            set.0
        ));
    }
    let silent: Vec<NodeId> =
        voters.iter().copied().filter(|node| !members.contains_key(node)).collect();
    if !decide(&|_| true) {
        return Err(format!(
            "too few members of set {} are there to decide anything: start node {}",
            set.0,
            list(silent)
        ));
    }
    check_logs(&members, set, kept)?;
    // Said again, it is said to those that are in doubt still: others are new by now, and have the rows that count.
    let is_again =
        members.values().any(|it| it.state.doubt.is_some_and(|doubt| doubt.kept.is_some()));
    let in_doubt = members.values().filter(|it| !is_again || it.state.doubt.is_some());
    let known = configuration.nodes.iter().map(|(replica, _)| *replica).filter(|_| !is_again);
    let others = known.chain(in_doubt.map(|it| it.state.replica));
    let mut others: Vec<ReplicaId> = others.filter(|it| *it != replica).collect();
    others.sort_unstable();
    others.dedup();
    let skipped = members.iter().map(|(node, it)| Skipped {
        node: *node,
        last: it.last,
        applied: it.state.commit,
        is_kept: *node == kept,
    });
    Ok(SkipPlan {
        skip: Skip { set, index, kept: replica, others },
        members: skipped.collect(),
        silent,
    })
}

/// Whether the member that is to be kept is frozen at that entry, or was, and the others do not know yet.
fn check_frozen(
    members: &BTreeMap<NodeId, MemberRecord>,
    (set, index): (SetId, u64),
    kept: NodeId,
) -> Result<(), String> {
    let Some(own) = members.get(&kept) else { return Ok(()) };
    let (node, number) = (kept.0, set.0);
    let newest = members.values().max_by_key(|it| it.state.configuration.index);
    // Whom it was said of may be lost for good, and with it all rows that counted. Not where somebody does not answer that decides: it may
    // have them.
    let are_all_here = newest.is_some_and(|it| {
        let configuration = &it.state.configuration;
        let is_here = |voter: &ReplicaId| {
            configuration.node_of(*voter).is_some_and(|node| members.contains_key(&node))
        };
        configuration.voters.iter().all(is_here)
    });
    let is_lost = |kept: ReplicaId| {
        let is_member = newest.is_some_and(|it| it.state.configuration.node_of(kept).is_some());
        !is_member && are_all_here && !members.values().any(|it| it.is_whole)
    };
    let said = members.values().filter_map(|it| it.state.doubt);
    let mut said = said.filter(|doubt| doubt.kept.is_some_and(|kept| !is_lost(kept)));
    let word = said.next();
    match (own.state.doubt, word) {
        // Not everybody heard what was said before.
        (None, Some(word)) if (word.kept, word.index) == (Some(own.state.replica), index) => Ok(()),
        (_, Some(word)) if word.kept != Some(own.state.replica) => Err(format!(
            "it was said before that the rows of another node count in set {number}, from entry {} on: go on with that one",
            word.index
        )),
        (Some(doubt), _) if doubt.index != index => Err(format!(
            "node {node}'s member of set {number} is frozen at entry {}, not at entry {index}",
            doubt.index
        )),
        (Some(_), _) => Ok(()),
        // It heard nothing of it, or did its part already.
        (None, _) if own.is_whole => {
            let is_it = |it: &MemberRecord| it.state.doubt.is_some_and(|it| it.index == index);
            match members.values().any(is_it) {
                true => Ok(()),
                false => Err(format!(
                    "no member of set {number} is frozen at entry {index}: there is nothing to skip"
                )),
            }
        }
        (None, _) => Err(format!(
            "node {node}'s member of set {number} does not take part for another reason than that it differs; `helenus set {number}` tells it"
        )),
    }
}

/// Whether whoever has more of the log than the member that is to be kept can give it that.
fn check_logs(
    members: &BTreeMap<NodeId, MemberRecord>,
    set: SetId,
    kept: NodeId,
) -> Result<(), String> {
    let Some(own) = members.get(&kept) else { return Ok(()) };
    let is_ahead =
        |it: &MemberRecord| (it.last.term, it.last.index) > (own.last.term, own.last.index);
    let lacks = |it: &&MemberRecord| is_ahead(it) && it.state.cut.index > own.last.index;
    match members.values().find(lacks) {
        None => Ok(()),
        Some(ahead) => Err(format!(
            "node {}'s member of set {} lacks entries before {} that others do not keep any more: keep another one",
            kept.0,
            set.0,
            ahead.state.cut.index + 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use storage::{Configuration, Doubt, GroupState};

    use super::*;

    const SET: SetId = SetId(7);

    /// What each node tells of its members.
    type Told = BTreeMap<NodeId, Vec<MemberRecord>>;

    /// Four members, frozen at entry 1024, the last one of them further than the others.
    fn frozen() -> Told {
        let nodes = (1..=4).map(|it| (ReplicaId(it * 10), NodeId(it)));
        let configuration = Configuration::of_voters(nodes);
        let record = |node: u64| {
            let born = GroupState::born(SET, ReplicaId(node * 10), configuration.clone());
            let doubt = Some(Doubt { index: 1024, kept: None });
            let state = GroupState { commit: 1030, doubt, ..born };
            let last = EntryPlace { index: 1030 + node / 4, term: 3 };
            MemberRecord { state, last, is_whole: false, leader: None }
        };
        (1..=4).map(|node| (NodeId(node), vec![record(node)])).collect()
    }

    #[test]
    fn what_is_said_about_a_set_is_checked_first() {
        let ask = |told: &Told, index, node| plan_skip(told, (SET, index), NodeId(node));
        let plan = ask(&frozen(), 1024, 2).unwrap();
        let others = [10, 30, 40].map(ReplicaId).to_vec();
        assert_eq!(plan.skip, Skip { set: SET, index: 1024, kept: ReplicaId(20), others });
        let kept: Vec<bool> = plan.members.iter().map(|it| it.is_kept).collect();
        assert_eq!((kept, plan.silent), (vec![false, true, false, false], vec![]));

        let refused = |change: &dyn Fn(&mut Told), index, node| {
            let mut told = frozen();
            change(&mut told);
            ask(&told, index, node).unwrap_err()
        };
        let of = |told: &mut Told, node: u64, change: &dyn Fn(&mut MemberRecord)| {
            told.get_mut(&NodeId(node)).unwrap().iter_mut().for_each(change);
        };
        let free = |it: &mut MemberRecord| (it.state.doubt, it.is_whole) = (None, true);
        let cases = [
            (refused(&|_| {}, 2048, 1), "is frozen at entry 1024, not at entry 2048"),
            (refused(&|_| {}, 1024, 5), "node 5 has no member of set 7; nodes 1, 2, 3, 4 have"),
            (refused(&|told| told.clear(), 1024, 1), "no node that is alive has a member of set 7"),
            (refused(&|told| of(told, 1, &free), 2048, 1), "there is nothing to skip"),
            (
                refused(&|told| (2..=4).for_each(|it| of(told, it, &free)), 1024, 1),
                "goes on by itself",
            ),
            (refused(&|told| told.retain(|node, _| node.0 < 3), 1024, 1), "start node 3, 4"),
            (
                refused(&|told| of(told, 4, &|it| it.state.cut.index = 1031), 1024, 1),
                "lacks entries before 1032",
            ),
            (
                refused(&|told| of(told, 1, &|it| it.state.doubt = None), 1024, 1),
                "for another reason than that it differs",
            ),
            (
                refused(
                    &|told| {
                        let kept = Some(ReplicaId(30));
                        of(told, 1, &|it| it.state.doubt = Some(Doubt { index: 1024, kept }));
                    },
                    1024,
                    2,
                ),
                "the rows of another node count",
            ),
        ];
        for (why, wanted) in cases {
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[test]
    fn what_not_everybody_heard_is_said_again() {
        let mut told = frozen();
        let kept = Some(ReplicaId(20));
        for (node, members) in &mut told {
            members[0].state.doubt = match node.0 {
                2 => None,
                3 => Some(Doubt { index: 1024, kept }),
                _ => members[0].state.doubt,
            };
        }
        // It leads nothing yet, and takes part.
        told.get_mut(&NodeId(2)).unwrap()[0].is_whole = true;
        assert!(plan_skip(&told, (SET, 1024), NodeId(1)).is_err());
        // One of them is new by now.
        let new = told.get_mut(&NodeId(4)).unwrap().first_mut().unwrap();
        (new.state.doubt, new.state.replica, new.is_whole) = (None, ReplicaId(50), true);
        let again = plan_skip(&told, (SET, 1024), NodeId(2)).unwrap();
        assert_eq!(again.skip.others, [ReplicaId(10), ReplicaId(30)]);
    }

    #[test]
    fn where_only_the_one_that_is_kept_did_its_part_it_is_said_again() {
        let mut told = frozen();
        let kept = told.get_mut(&NodeId(2)).unwrap().first_mut().unwrap();
        (kept.state.doubt, kept.is_whole) = (None, true);
        let plan = plan_skip(&told, (SET, 1024), NodeId(2)).unwrap();
        assert_eq!(plan.skip.others, [10, 30, 40].map(ReplicaId));
    }

    #[test]
    fn where_the_one_that_was_kept_is_lost_for_good_another_one_is() {
        let mut told = frozen();
        let lost = told.remove(&NodeId(3)).unwrap()[0].state.replica;
        for members in told.values_mut() {
            members[0].state.doubt = Some(Doubt { index: 1024, kept: Some(lost) });
        }
        let why = plan_skip(&told, (SET, 1024), NodeId(2)).unwrap_err();
        assert!(why.contains("the rows of another node count"), "it may come back: {why}");
        for members in told.values_mut() {
            let left = [1, 2, 4].map(|it| (ReplicaId(it * 10), NodeId(it)));
            let configuration = Configuration { index: 1040, ..Configuration::of_voters(left) };
            members[0].state.configuration = configuration;
        }
        let plan = plan_skip(&told, (SET, 1024), NodeId(2)).unwrap();
        assert_eq!(plan.skip.others, [ReplicaId(10), ReplicaId(40)]);
        // Another one that decides is down, and may have the rows that count.
        let mut with_another = told.clone();
        for members in with_another.values_mut() {
            let all = [1, 2, 4, 5].map(|it| (ReplicaId(it * 10), NodeId(it)));
            members[0].state.configuration =
                Configuration { index: 1050, ..Configuration::of_voters(all) };
        }
        let why = plan_skip(&with_another, (SET, 1024), NodeId(2)).unwrap_err();
        assert!(why.contains("the rows of another node count"), "{why}");
        // One that got its rows is there.
        told.get_mut(&NodeId(4)).unwrap()[0].is_whole = true;
        assert!(plan_skip(&told, (SET, 1024), NodeId(2)).is_err());
    }

    #[test]
    fn one_that_does_not_answer_is_told_of() {
        let mut told = frozen();
        told.remove(&NodeId(4));
        let plan = plan_skip(&told, (SET, 1024), NodeId(1)).unwrap();
        assert_eq!(plan.silent, [NodeId(4)]);
        assert!(plan.skip.others.contains(&ReplicaId(40)), "it is told when it is asked again");
    }
}
