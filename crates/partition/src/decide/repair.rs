//! What a set lacks: members on nodes that go, members on dead nodes, too few of them, or too many.

use super::Reason;
use super::cluster::{Cluster, Place, Plan, Set, Standing, quorum};
use super::{NodeState, Step};
use crate::placement::shared_racks;

/// A set of which so many voters are left goes on without one that nobody can replace; with fewer, to drop one wins nothing.
const VOTERS_LEFT_MIN: usize = 3;

/// Why a set does not get what it should have.
pub(super) enum Blocked {
    /// Nodes have their hands full: it is its turn later.
    Later,
    /// Too few of its voters are alive to change anything.
    NoQuorum { alive: usize, voters: usize },
    /// Nobody can take a member.
    NoTarget { members: usize, has_others: bool },
    /// It has a member on a node that is not told of.
    Unknown,
}

/// The most urgent first: what operators asked for, what heals, what grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Removed,
    Leaving,
    Dead,
    Growth,
}

/// Steps for all sets that lack something. Whether the rest may be thought of: nothing is left for later.
pub(super) fn repair(cluster: &mut Cluster<'_>, steps: &mut Vec<Step>) -> bool {
    let mut is_done = true;
    for index in urgent(cluster) {
        let Some(set) = cluster.sets.get(index) else { continue };
        if cluster.is_full() {
            return false;
        }
        match plan(cluster, set) {
            Ok(Some(plan)) => {
                is_done = false;
                cluster.change(index, plan, steps);
            }
            Err(Blocked::Later) => is_done = false,
            Ok(None) | Err(_) => {}
        }
    }
    is_done
}

/// The sets that may lack something, the most urgent first, of those the ones that can afford the fewest losses.
pub(super) fn urgent(cluster: &Cluster<'_>) -> Vec<usize> {
    let mut found: Vec<(Urgency, usize, usize)> = Vec::new();
    for (index, set) in cluster.sets.iter().enumerate() {
        let urgency = |place: Place| match cluster.nodes[place].standing {
            Standing::Removed => Urgency::Removed,
            Standing::Leaving => Urgency::Leaving,
            Standing::Dead => Urgency::Dead,
            Standing::Good => Urgency::Growth,
        };
        if set.is_taken || is_whole(cluster, set) {
            continue;
        }
        let most = set.members().map(urgency).min().unwrap_or(Urgency::Growth);
        let spare = cluster.alive(&set.voters).saturating_sub(quorum(set.voters.len()));
        found.push((most, spare, index));
    }
    found.sort_unstable();
    found.into_iter().map(|(_, _, index)| index).collect()
}

/// Nothing to do, seen at a glance: so it is for nearly all sets, nearly always.
fn is_whole(cluster: &Cluster<'_>, set: &Set<'_>) -> bool {
    set.learners.is_empty()
        && set.voters.len() == cluster.wanted
        && cluster.wanted != 2
        && set.voters.iter().all(|place| cluster.nodes[*place].standing == Standing::Good)
}

/// The members that a set should have, if they are others than it has.
pub(super) fn plan(cluster: &Cluster<'_>, set: &Set<'_>) -> Result<Option<Plan>, Blocked> {
    if set.unknown.is_some() {
        return Err(Blocked::Unknown);
    }
    if cluster.wanted == 0 || set.members().next().is_none() {
        return Ok(None);
    }
    let with =
        |standing| set.members().filter(move |place| cluster.nodes[*place].standing == standing);
    let mut kept: Vec<Place> = with(Standing::Good).collect();
    while kept.len() > cluster.wanted {
        kept.remove(least_wanted(cluster, set, &kept));
    }
    let is_urgent = with(Standing::Removed).chain(with(Standing::Dead)).next().is_some();
    let (targets, is_later) = targets(cluster, set, &kept, is_urgent);
    if is_later || (!targets.is_empty() && !cluster.may_send(set)) {
        return Err(Blocked::Later);
    }
    let good = kept.len();
    kept.extend(&targets);
    let mut missing = cluster.wanted - kept.len();
    let is_short = missing > 0;
    // Who cannot be replaced stays as long as it can.
    let mut staying: Vec<Place> = with(Standing::Leaving).collect();
    staying.sort_by_key(|place| !cluster.nodes[*place].is_alive());
    staying.truncate(missing);
    missing -= staying.len();
    let lost: Vec<Place> =
        with(Standing::Dead).chain(with(Standing::Removed)).take(missing).collect();
    let (voters, learners) = roles(cluster, set, &kept, &staying, &lost);
    if is_same(&voters, &set.voters) && is_same(&learners, &set.learners) {
        let members = good + staying.len();
        let has_others = has_others(cluster, set);
        return if is_short { Err(Blocked::NoTarget { members, has_others }) } else { Ok(None) };
    }
    for voters in [&set.voters, &voters] {
        if !cluster.has_quorum(voters) {
            let alive = cluster.alive(voters);
            return Err(Blocked::NoQuorum { alive, voters: voters.len() });
        }
    }
    let reason = reason(cluster, set, good, &voters, &learners);
    Ok(Some(Plan { voters, learners, reason }))
}

/// Whether another node could take a member, if only it had room.
fn has_others(cluster: &Cluster<'_>, set: &Set<'_>) -> bool {
    let others = cluster.nodes.iter().filter(|(_, node)| node.is_target);
    others.into_iter().any(|(place, _)| !set.members().any(|member| member == place))
}

/// Who decides, and who follows.
fn roles(
    cluster: &Cluster<'_>,
    set: &Set<'_>,
    kept: &[Place],
    staying: &[Place],
    lost: &[Place],
) -> (Vec<Place>, Vec<Place>) {
    let all = || kept.iter().chain(staying).chain(lost).copied();
    let is_voter = |place: &Place| set.voters.contains(place);
    if let Some(sole) = cluster.sole_voter
        && all().any(|place| place == sole)
        && cluster.nodes[sole].is_alive()
    {
        return all().partition(|place| *place == sole);
    }
    // Two that must agree are worth less than one: who is second follows, until there is a third.
    let alive = all().filter(|place| cluster.nodes[*place].is_alive());
    let first = alive.min_by_key(|place| !is_voter(place));
    if let (2, Some(first)) = (kept.len() + staying.len() + lost.len(), first) {
        let is_kept = cluster.wanted > 2 && all().all(|place| is_voter(&place));
        return all().partition(|place| is_kept || *place == first);
    }
    // Who has nothing, or is not heard of, cannot begin to decide.
    let decides = |place: &Place| is_voter(place) || cluster.nodes[*place].is_alive();
    let (mut voters, mut learners): (Vec<Place>, Vec<Place>) =
        kept.iter().copied().partition(decides);
    let (deciding, following): (Vec<Place>, Vec<Place>) =
        staying.iter().copied().partition(is_voter);
    voters.extend(deciding);
    learners.extend(following);
    let is_enough = voters.len() >= VOTERS_LEFT_MIN;
    for place in lost.iter().copied() {
        let is_gone = cluster.nodes[place].standing == Standing::Removed;
        match (is_enough, is_voter(&place)) {
            (true, _) if is_gone => {}
            (false, true) => voters.push(place),
            // It has most of the rows, and may come back with them.
            _ => learners.push(place),
        }
    }
    (voters, learners)
}

fn is_same(places: &[Place], others: &[Place]) -> bool {
    places.len() == others.len() && places.iter().all(|place| others.contains(place))
}

/// New members, as many as are missing and found; or that they are found later.
fn targets(
    cluster: &Cluster<'_>,
    set: &Set<'_>,
    kept: &[Place],
    is_urgent: bool,
) -> (Vec<Place>, bool) {
    let cost = set.cost();
    let mut chosen: Vec<Place> = Vec::new();
    while kept.len() + chosen.len() < cluster.wanted {
        let candidates = || {
            cluster.nodes.iter().filter(|(place, node)| {
                node.is_target
                    && !set.members().any(|member| member == *place)
                    && !chosen.contains(place)
                    && cluster.has_room(*place, set.view.bytes)
            })
        };
        let racks = kept.iter().chain(&chosen).map(|place| cluster.nodes[*place].rack);
        // What is patient waits for the node that should have it, so that nothing moves twice.
        let rank = |place: Place, rack: usize| {
            (shared_racks(&rack, racks.clone()), !is_urgent && cluster.would_be_over(place))
        };
        let Some(best) = candidates().map(|(place, node)| rank(place, node.rack)).min() else {
            break;
        };
        let free = candidates()
            .filter(|(place, node)| cluster.is_free(*place) && rank(*place, node.rack) == best);
        let load = |place: Place| cluster.uneven(place, &cost, 1.0).iter().sum::<f64>();
        let least = free.min_by(|(a, _), (b, _)| load(*a).total_cmp(&load(*b)));
        match least {
            Some((place, _)) => chosen.push(place),
            None => return (Vec::new(), true),
        }
    }
    (chosen, false)
}

/// Who goes when there are too many: who shares its rack with others, then who only follows, then whose node has the most.
fn least_wanted(cluster: &Cluster<'_>, set: &Set<'_>, kept: &[Place]) -> usize {
    let cost = set.cost();
    let rank = |place: &Place| {
        let node = &cluster.nodes[*place];
        let racks = kept.iter().map(|it| cluster.nodes[*it].rack);
        let is_joining = node.view.state == NodeState::Joining;
        let is_sole = cluster.sole_voter == Some(*place);
        let is_idle = set.leader != Some(*place);
        (
            !is_sole,
            is_joining,
            shared_racks(&node.rack, racks),
            !set.voters.contains(place),
            is_idle,
        )
    };
    let relief = |place: &Place| cluster.uneven(*place, &cost, -1.0).iter().sum::<f64>();
    let ranked = kept
        .iter()
        .enumerate()
        .max_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)).then(relief(b).total_cmp(&relief(a))));
    ranked.map_or(0, |(index, _)| index)
}

/// The first that holds, in the order of urgency.
fn reason(
    cluster: &Cluster<'_>,
    set: &Set<'_>,
    good: usize,
    voters: &[Place],
    learners: &[Place],
) -> Reason {
    let is_touched = |place: &Place| {
        (!voters.contains(place) && !learners.contains(place))
            || set.voters.contains(place) != voters.contains(place)
    };
    let touched = |standing| {
        let mut members = set.members().filter(is_touched);
        members.find(|place| cluster.nodes[*place].standing == standing)
    };
    if let Some(place) = touched(Standing::Removed) {
        return Reason::Removed { node: cluster.nodes[place].id() };
    }
    if let Some(place) = touched(Standing::Leaving) {
        return Reason::Leaving { node: cluster.nodes[place].id() };
    }
    if let Some(place) = touched(Standing::Dead) {
        let node = &cluster.nodes[place];
        return Reason::Silent { node: node.id(), silent_ms: node.view.silent_ms };
    }
    let id = set.view.set;
    if voters.len() + learners.len() != set.members().count() {
        // Members that are dead and nothing more are none.
        let all = set.members().count();
        let members = if all > cluster.wanted { all } else { good };
        return Reason::Members { set: id, members, wanted: cluster.wanted };
    }
    match cluster.sole_voter {
        Some(sole) => Reason::SoleVoter { node: cluster.nodes[sole].id() },
        None => Reason::Voters { set: id, voters: set.voters.len(), wanted: cluster.wanted },
    }
}
