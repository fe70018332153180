//! What must hold in every state.

use crate::{Bounds, LEFT, Member, NODES, RIGHT, Rule, Step, World};

/// A property, and whether a state has it.
type Property = (&'static str, fn(&World, Option<Rule>) -> bool);

/// All of them.
pub const PROPERTIES: [Property; 6] = [
    ("one leader in a term", |world, _| one_leader(world)),
    ("members that applied the same place applied the same entry", |world, _| agrees(world)),
    ("what was acknowledged is there, in the half that its key belongs to", |world, _| {
        lasts(world)
    }),
    ("the right half has the members of the split's configuration, and is settled", born_well),
    ("a right half is born of a split that lasts", |world, _| split_lasts(world)),
    ("from everywhere all members come to agree, and a joint configuration is left", heals),
];

fn pairs(members: &[Member; NODES]) -> impl Iterator<Item = (&Member, &Member)> {
    let others = move |at: usize| members.iter().skip(at + 1);
    members.iter().enumerate().flat_map(move |(at, one)| others(at).map(move |it| (one, it)))
}

fn one_leader(world: &World) -> bool {
    let both_lead =
        |(one, other): (&Member, &Member)| one.leads && other.leads && one.term == other.term;
    !world.sets.iter().flat_map(pairs).any(both_lead)
}

fn agrees(world: &World) -> bool {
    world.sets.iter().flat_map(pairs).all(|(one, other)| {
        let common = one.commit.min(other.commit);
        let is_born = one.birth.is_some() && other.birth.is_some();
        let has_it = one.log.len() >= common && other.log.len() >= common;
        has_it && one.log[..common] == other.log[..common] && (!is_born || one.birth == other.birth)
    })
}

/// A leader that answers has everything that was acknowledged before.
fn lasts(world: &World) -> bool {
    let Some(left) = world.leader(LEFT) else { return true };
    let end = left.log.len();
    let has_left = world.acknowledged[LEFT] & !left.writes(LEFT, end) == 0;
    let before_split = left.writes(RIGHT, left.split_at().unwrap_or(end));
    let elsewhere = match (left.split_at(), world.leader(RIGHT)) {
        (Some(_), Some(right)) => {
            let image = right.birth.map_or(0, |birth| birth.image);
            // All that the left held went along, and nothing of it is answered twice.
            if image != before_split || image & right.writes(RIGHT, right.log.len()) != 0 {
                return false;
            }
            right.writes(RIGHT, right.log.len())
        }
        // Nobody answers for the right half now.
        (Some(_), None) if world.sets[RIGHT].iter().any(|it| it.term > 0) => u8::MAX,
        _ => 0,
    };
    has_left && world.acknowledged[RIGHT] & !(before_split | elsewhere) == 0
}

fn born_well(world: &World, rule: Option<Rule>) -> bool {
    (0..NODES).all(|node| {
        let (left, right) = (&world.sets[LEFT][node], &world.sets[RIGHT][node]);
        let Some(birth) = right.birth else { return true };
        let at = left.split_at().filter(|at| *at < left.commit);
        let split = at.and_then(|at| left.configuration_at(at, rule));
        !birth.configuration.is_joint() && split.is_none_or(|it| it == birth.configuration)
    })
}

fn split_lasts(world: &World) -> bool {
    let Some(left) = world.leader(LEFT) else { return true };
    let term = left.split_at().map(|at| left.log[at].0);
    let mut births = world.sets[RIGHT].iter().filter_map(|member| member.birth);
    births.all(|birth| Some(birth.term) == term)
}

/// When nothing fails any more: everybody hears everybody, and one who can be elected is. A way out of every state is a
/// stronger claim than that there is no dead end, and needs no fairness.
fn heals(world: &World, rule: Option<Rule>) -> bool {
    let mut world = world.clone();
    if !heal(&mut world, LEFT, rule) {
        return false;
    }
    let is_split = world.leader(LEFT).is_some_and(|left| left.split_at().is_some());
    !is_split || heal(&mut world, RIGHT, rule)
}

/// A leader that is taken away by the change that it finished is followed by another one.
fn heal(world: &mut World, set: usize, rule: Option<Rule>) -> bool {
    (0..3).any(|_| try_to_heal(world, set, rule))
}

fn try_to_heal(world: &mut World, set: usize, rule: Option<Rule>) -> bool {
    let term = world.sets[set].iter().map(|it| it.term).max().unwrap_or(0) + 1;
    let mut candidates: Vec<usize> = (0..NODES).collect();
    candidates.sort_by_key(|node| std::cmp::Reverse(world.sets[set][*node].last()));
    let elected = candidates.into_iter().find_map(|node| {
        let voters = world.quorums(set, node, term, rule).first().copied()?;
        Some((node, Step::Elect { set, node, term, voters }))
    });
    let Some((leader, elect)) = elected else { return false };
    let Some(next) = world.after(elect, rule) else { return false };
    *world = next;
    // Begin, then whatever a change still needs: three entries at most, each told and counted; and the last is told.
    for _ in 0..5 {
        for to in (0..NODES).filter(|to| *to != leader) {
            let take = |world: &mut World, step: Step| {
                let next = world.after(step, rule);
                next.map(|next| *world = next).is_some()
            };
            if world.sets[set][to].birth.is_none() {
                take(world, Step::Image { set, from: leader, to });
            }
            while take(world, Step::Append { set, from: leader, to }) {}
        }
        let _ = world.count(set, leader, rule);
        if world.sets[set][leader].answers()
            && let Some(entry) = world.changes(set, leader, &NOTHING_NEW, rule).first()
        {
            world.propose(set, leader, *entry, rule);
        }
    }
    let own = &world.sets[set][leader];
    let Some(configuration) = own.configuration(rule) else { return false };
    let has_all = |node: usize| world.sets[set][node].commit == own.commit;
    let is_member = |node: &usize| configuration.voters & 1 << node != 0;
    !configuration.is_joint() && own.answers() && (0..NODES).filter(is_member).all(has_all)
}

/// What was begun is finished, and nothing else is begun.
const NOTHING_NEW: Bounds = Bounds {
    terms: [0; 2],
    writes: [0; 2],
    moves: false,
    splits: false,
    restarts: 0,
    images: true,
};
