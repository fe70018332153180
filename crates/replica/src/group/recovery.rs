//! Sets that lost their quorum for good: what is left of them, and with whom they go on. Pure; carried out by `server/src/nodes/recovery.rs`,
//! member by member, when nodes start (`Storage::force_configuration`). Why it is right, and what it may cost: `docs/adr/0019-lost-quorums.md`.

use std::collections::{BTreeMap, BTreeSet};

use storage::{Configuration, EntryPlace, GroupState};
use types::{NodeId, ReplicaId, SetId};

use super::changes::MEMBERS_MAX;

/// What a node tells of its member of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// What the log keeps of it.
    pub state: GroupState,
    /// Its last entry.
    pub last: EntryPlace,
    /// Whether it has rows, and takes part.
    pub is_whole: bool,
    /// Who leads, as far as it knows.
    pub leader: Option<NodeId>,
}

/// With whom a set goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRecovery {
    /// Which set.
    pub set: SetId,
    /// The node whose member decides alone from then on.
    pub chosen: NodeId,
    /// That member's last entry: nothing behind it is left.
    pub last: EntryPlace,
    /// A term that nobody who is left has been in.
    pub term: u64,
    /// Who belongs to the set from then on.
    pub configuration: Configuration,
    /// How far everybody who is left is.
    pub left: Vec<(NodeId, EntryPlace)>,
    /// How many decided before, and how many of them had to agree.
    pub voters: usize,
    /// See `voters`.
    pub quorum: usize,
    /// Whether something that was acknowledged may be on none of the nodes that are left.
    pub may_lose: bool,
}

/// What is to be done so that all sets go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// Sets without a quorum.
    pub sets: Vec<SetRecovery>,
    /// How many sets have one.
    pub healthy: usize,
}

/// Whether those who are alive can decide by a configuration.
fn has_quorum(configuration: &Configuration, alive: &BTreeSet<NodeId>) -> bool {
    let decides = |voters: &[ReplicaId]| {
        let is_alive = |voter: &&ReplicaId| {
            configuration.node_of(**voter).is_some_and(|node| alive.contains(&node))
        };
        voters.iter().filter(is_alive).count() > voters.len() / 2
    };
    let before = &configuration.outgoing;
    decides(&configuration.voters) && (before.is_empty() || decides(before))
}

/// Whether everything that was acknowledged by a configuration is on at least one node that is left: more had to have it than are lost.
fn has_everything(configuration: &Configuration, left: &BTreeSet<NodeId>) -> bool {
    let keeps = |voters: &[ReplicaId]| {
        let is_lost = |voter: &&ReplicaId| {
            configuration.node_of(**voter).is_none_or(|node| !left.contains(&node))
        };
        voters.len() / 2 + 1 > voters.iter().filter(is_lost).count()
    };
    // While two configurations decide, both had to have it: one of them is enough to find it.
    keeps(&configuration.voters)
        || !configuration.outgoing.is_empty() && keeps(&configuration.outgoing)
}

/// What is to be done, from what all nodes that are left told of their members; `sets`: those there are. `is_begun`: it was begun before, and some
/// nodes may have done their part. An error says why nothing can be done now.
pub fn plan_recovery(
    told: &BTreeMap<NodeId, Vec<MemberRecord>>,
    sets: &[SetId],
    is_begun: bool,
) -> Result<RecoveryPlan, String> {
    let alive: BTreeSet<NodeId> = told.keys().copied().collect();
    let mut of_set: BTreeMap<SetId, Vec<(NodeId, &MemberRecord)>> =
        sets.iter().map(|set| (*set, Vec::new())).collect();
    for (node, members) in told {
        for member in members {
            of_set.entry(member.state.set).or_default().push((*node, member));
        }
    }
    let mut plan = RecoveryPlan::default();
    for (set, members) in &of_set {
        // Who was made empty, or is being handed rows, has nothing to go on with.
        let mut whole: Vec<(NodeId, &MemberRecord)> =
            members.iter().copied().filter(|(_, member)| member.is_whole).collect();
        if whole.is_empty() {
            // Where members differ all have rows. Which of them count is said afterwards (`helenus skip`): it takes a quorum.
            // A newcomer among them has none, whatever it was told of the others.
            let has_rows = |it: &MemberRecord| it.state.doubt.is_some() && !it.state.is_newcomer();
            whole.extend(members.iter().copied().filter(|(_, it)| has_rows(it)));
        }
        let Some(newest) = whole.iter().max_by_key(|(_, it)| it.state.configuration.index) else {
            return Err(format!(
                "no node that is left has rows of set {}: start those that have, or begin a new cluster with what was exported",
                set.0
            ));
        };
        if has_quorum(&newest.1.state.configuration, &alive) {
            plan.healthy += 1;
            let is_behind = |it: &&(NodeId, &MemberRecord)| {
                let known = &it.1.state.configuration;
                known.index < newest.1.state.configuration.index && !has_quorum(known, &alive)
            };
            if is_begun && whole.iter().any(|it| is_behind(&it)) {
                plan.sets.push(follow(*set, *newest, &whole));
            }
            continue;
        }
        if let Some(leader) = members.iter().find_map(|(_, member)| member.leader) {
            return Err(format!(
                "node {} still leads set {}, or did a moment ago: try again in some seconds",
                leader.0, set.0
            ));
        }
        check_split(*set, &whole, &of_set)?;
        plan.sets.push(recover(*set, &whole, &alive));
    }
    Ok(plan)
}

/// The set went on when this was begun, and not everybody knows with whom.
fn follow(
    set: SetId,
    (chosen, newest): (NodeId, &MemberRecord),
    whole: &[(NodeId, &MemberRecord)],
) -> SetRecovery {
    let configuration = newest.state.configuration.clone();
    SetRecovery {
        set,
        chosen,
        last: newest.last,
        term: newest.state.term,
        left: whole.iter().map(|(node, it)| (*node, it.last)).collect(),
        voters: configuration.voters.len(),
        quorum: configuration.voters.len() / 2 + 1,
        may_lose: false,
        configuration,
    }
}

/// A set that some members have split off and others not: those would begin it by themselves, beside the one that goes on here.
fn check_split(
    set: SetId,
    whole: &[(NodeId, &MemberRecord)],
    of_set: &BTreeMap<SetId, Vec<(NodeId, &MemberRecord)>>,
) -> Result<(), String> {
    let split = whole.iter().find_map(|(_, member)| member.state.split_from);
    let Some((from, index)) = split else { return Ok(()) };
    let late = of_set.get(&from).into_iter().flatten();
    let is_late = |it: &&(NodeId, &MemberRecord)| it.1.is_whole && it.1.state.commit < index;
    match late.copied().find(|it| is_late(&it)) {
        None => Ok(()),
        Some((node, _)) => Err(format!(
            "set {} was split off set {} when the nodes were lost, and node {} does not know yet: start one of the lost nodes for a moment",
            set.0, from.0, node.0
        )),
    }
}

/// The member whose log goes furthest decides alone: it has everything that is known to be committed, as whoever is elected has. The
/// others who are left follow it, and the lost ones are no members any more.
fn recover(set: SetId, whole: &[(NodeId, &MemberRecord)], alive: &BTreeSet<NodeId>) -> SetRecovery {
    let best = whole.iter().map(|(_, it)| (it.last.term, it.last.index)).max();
    let equal: Vec<_> =
        whole.iter().filter(|(_, it)| Some((it.last.term, it.last.index)) == best).collect();
    // Of several that are as far, each set takes another: there is to be no node that leads everything.
    let best = equal.get(set.0 as usize % equal.len().max(1));
    let newest = whole.iter().max_by_key(|(_, it)| it.state.configuration.index);
    let (Some((chosen, best)), Some((_, newest))) = (best, newest) else {
        unreachable!("a set is recovered from members that are left");
    };
    let known = whole.iter().map(|(_, it)| it.state.configuration.highest().max(it.state.replica));
    let highest = known.max().unwrap_or_default();
    let of_node = |(node, it): &(NodeId, &MemberRecord)| (it.state.replica, *node);
    let others = whole.iter().filter(|(node, _)| node != chosen);
    let members = std::iter::once(of_node(&(*chosen, *best))).chain(others.map(of_node));
    let configuration = Configuration {
        // What the log of the chosen one says of members is done with. The entry behind it is the first of a new leader, which says nothing of
        // them; so this one is later than all that there were.
        index: best.last.index.max(newest.state.configuration.index) + 1,
        // Entries that are not committed may have given further numbers.
        highest: ReplicaId(highest.0 + MEMBERS_MAX as u64),
        ..Configuration::of_members(members, 1)
    };
    let decided = &newest.state.configuration;
    SetRecovery {
        set,
        chosen: *chosen,
        last: best.last,
        term: whole.iter().map(|(_, it)| it.state.term).max().unwrap_or(0) + 1,
        configuration,
        left: whole.iter().map(|(node, it)| (*node, it.last)).collect(),
        voters: decided.voters.len(),
        quorum: decided.voters.len() / 2 + 1,
        may_lose: !has_everything(decided, alive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(set: u32, node: u64, nodes: u64, last: (u64, u64)) -> MemberRecord {
        let all = (1..=nodes).map(|node| (ReplicaId(node), NodeId(node)));
        let configuration = Configuration { index: 1, ..Configuration::of_voters(all) };
        let born = GroupState::born(SetId(set), ReplicaId(node), configuration);
        let last = EntryPlace { term: last.0, index: last.1 };
        let state = GroupState { term: last.term, ..born };
        MemberRecord { state, last, is_whole: true, leader: None }
    }

    fn plan(members: &[(u64, MemberRecord)]) -> Result<RecoveryPlan, String> {
        let mut told: BTreeMap<NodeId, Vec<MemberRecord>> = BTreeMap::new();
        for (node, member) in members {
            told.entry(NodeId(*node)).or_default().push(member.clone());
        }
        plan_recovery(&told, &[], false)
    }

    #[test]
    fn the_longest_log_goes_on_and_the_others_follow_it() {
        let told = [(1, member(5, 1, 4, (3, 90))), (2, member(5, 2, 4, (4, 80)))];
        let plan = plan(&told).unwrap();
        let [set] = plan.sets.as_slice() else { panic!("{plan:?}") };
        assert_eq!((set.chosen, set.last.index, set.term), (NodeId(2), 80, 5));
        assert_eq!(set.configuration.voters, [ReplicaId(2)]);
        assert_eq!(set.configuration.learners, [ReplicaId(1)]);
        assert_eq!(set.configuration.index, 81);
        assert_eq!(set.configuration.node_of(ReplicaId(3)), None, "the lost are no members");
        assert!(set.configuration.highest() >= ReplicaId(4), "their numbers are not used again");
        assert!(!set.may_lose, "three of four had what was acknowledged");
        assert_eq!((set.voters, set.quorum), (4, 3));
    }

    #[test]
    fn what_may_be_lost_is_told() {
        let one_of_three = plan(&[(1, member(5, 1, 3, (3, 90)))]).unwrap();
        assert!(one_of_three.sets[0].may_lose, "two of three had it, and both may be lost");
        let one_of_four = plan(&[(1, member(5, 1, 4, (3, 90)))]).unwrap();
        assert!(one_of_four.sets[0].may_lose);
    }

    #[test]
    fn sets_with_a_quorum_are_left_as_they_are() {
        let three = [1, 2, 3].map(|node| (node, member(5, node, 4, (3, 90))));
        assert_eq!(plan(&three).unwrap(), RecoveryPlan { healthy: 1, sets: Vec::new() });
        // Of two configurations the later one counts.
        let mut late = member(5, 1, 1, (3, 90));
        late.state.configuration.index = 60;
        let told = [(1, late), (2, member(5, 2, 4, (3, 50)))];
        assert_eq!(plan(&told).unwrap().healthy, 1);
        // Where it was begun before, who does not know yet is told.
        let told = told.map(|(node, member)| (NodeId(node), vec![member])).into();
        let plan = plan_recovery(&told, &[], true).unwrap();
        assert_eq!(plan.sets[0].configuration, told[&NodeId(1)][0].state.configuration);
    }

    #[test]
    fn nothing_is_done_while_something_may_still_happen() {
        let mut led = member(5, 1, 4, (3, 90));
        led.leader = Some(NodeId(3));
        assert!(plan(&[(1, led)]).unwrap_err().contains("still leads"));
        let mut empty = member(5, 1, 4, (3, 90));
        empty.is_whole = false;
        assert!(plan(&[(1, empty)]).unwrap_err().contains("has rows of set 5"));
        // A set that is split off, and half of those who are left do not know.
        let (mut right, late) = (member(6, 1, 4, (3, 95)), member(5, 2, 4, (3, 90)));
        right.state.split_from = Some((SetId(5), 88));
        let told = [(1, member(5, 1, 4, (3, 90))), (1, right), (2, late)];
        assert!(plan(&told).unwrap_err().contains("was split off set 5"));
    }

    /// It takes a quorum to say whose rows count, and nothing else of the cluster waits for that.
    #[test]
    fn a_set_whose_members_differ_gets_a_quorum_and_is_in_doubt_still() {
        let differs = |node, index| {
            let it = member(5, node, 4, (3, index));
            let doubt = Some(storage::Doubt { index: 64, kept: None });
            MemberRecord { is_whole: false, state: GroupState { doubt, ..it.state }, ..it }
        };
        let plan = plan(&[(1, differs(1, 90)), (2, differs(2, 80))]).unwrap();
        let [set] = plan.sets.as_slice() else { panic!("{plan:?}") };
        assert_eq!((set.chosen, set.last.index), (NodeId(1), 90));
    }

    #[test]
    fn a_set_that_nobody_has_is_told_of() {
        let told = BTreeMap::from([(NodeId(1), vec![member(5, 1, 4, (3, 90))])]);
        let error = plan_recovery(&told, &[SetId(5), SetId(7)], false).unwrap_err();
        assert!(error.contains("set 7"), "{error}");
    }
}
