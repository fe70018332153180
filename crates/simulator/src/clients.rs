//! Clients: each asks one thing after the other, of any node, and notes what it was told and when.

use node_log::simulated_disk::Random;
use replica::group::WriteOutcome;
use storage::CommitError;
use types::{Outcome, SetId};

use crate::profile::Topic;
use crate::tables::{
    Ask, BATCH_GROUPS, FIRST_COUNTER, Key, batch_keys, current_value, list_keys, shared_keys,
    timed_keys,
};
use crate::world::World;

/// Registers and counters of a simulation.
const REGISTER_COUNT: u64 = 7;
const COUNTER_COUNT: u64 = 3;

fn keys(set_count: usize, has_lists: bool) -> impl Iterator<Item = Key> {
    let counters = (0..COUNTER_COUNT).map(|number| Key(FIRST_COUNTER + number as u8));
    let of_batches = batches(set_count).flatten();
    let lists = list_keys().filter(move |_| has_lists);
    let others = shared_keys(set_count).into_iter().chain(timed_keys()).chain(lists);
    let plain = (0..REGISTER_COUNT).map(|number| Key(number as u8)).chain(counters);
    plain.chain(of_batches).chain(others)
}

/// The keys that batches write together.
pub(crate) fn batches(set_count: usize) -> impl Iterator<Item = Vec<Key>> {
    let groups = (0..BATCH_GROUPS).flat_map(|group| [(group, false), (group, true)]);
    groups.map(move |(group, is_counter)| batch_keys(group, is_counter, set_count))
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing, or that it is not known.
    Unknown,
    /// Nothing was done, nor will be.
    Unavailable,
    /// To a read.
    Value(Option<i64>),
    /// To a read of a list.
    List(Vec<i64>),
    /// To a write.
    Done,
    /// To a condition that did not hold.
    NotApplied(Option<i64>),
}

/// Something a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) client: u32,
    pub(crate) key: Key,
    /// The set that it was asked of.
    pub(crate) set: SetId,
    /// Of a batch: the other keys that it writes the same to.
    pub(crate) also: Vec<Key>,
    pub(crate) ask: Ask,
    pub(crate) call_at: u64,
    pub(crate) return_at: Option<u64>,
    pub(crate) told: Told,
    /// How operations of its kind are called; see `coverage.rs`.
    pub(crate) name: &'static str,
    /// The machine that coordinates it, and its how many-th run.
    pub(crate) at: (usize, u64),
}

/// What a client asks of keys that are written by batches alone.
pub(crate) fn next_batch(
    random: &mut Random,
    value: &mut i64,
    set_count: usize,
) -> (Vec<Key>, Ask) {
    let is_counter = random.below(2) == 0;
    let group = random.below(u64::from(BATCH_GROUPS)) as u8;
    let mut keys = batch_keys(group, is_counter, set_count);
    if random.below(3) == 0 {
        let place = random.below(keys.len() as u64) as usize;
        return (vec![keys.swap_remove(place)], Ask::Read);
    }
    // Batches of the same keys have different first ones, so that different sets decide them.
    let turn = random.below(keys.len() as u64) as usize;
    keys.rotate_left(turn);
    *value += 1;
    (
        keys,
        if is_counter { Ask::Add(1 + random.below(9).cast_signed()) } else { Ask::Write(*value) },
    )
}

/// What a client asks of keys that are written alone and by batches over some of them. No conditions: those and batches are not ordered.
pub(crate) fn next_shared(
    random: &mut Random,
    value: &mut i64,
    set_count: usize,
) -> (Vec<Key>, Ask) {
    let mut keys = shared_keys(set_count);
    let turn = random.below(keys.len() as u64) as usize;
    keys.rotate_left(turn);
    *value += 1;
    let ask = match random.below(10) {
        0..3 => Ask::Read,
        3..5 => Ask::Write(*value),
        5 => Ask::Delete,
        _ => {
            // Not all of them: the set that decides may not have heard of the batch before.
            keys.truncate(2);
            return (keys, Ask::Write(*value));
        }
    };
    keys.truncate(1);
    (keys, ask)
}

/// What a client asks with times of its own. What is there then is not looked at but in the end: all members have the same.
pub(crate) fn next_timed(random: &mut Random, value: &mut i64) -> (Vec<Key>, Ask) {
    let keys: Vec<Key> = timed_keys().collect();
    let key = keys[random.below(keys.len() as u64) as usize];
    *value += 1;
    (vec![key], if random.below(2) == 0 { Ask::Delete } else { Ask::Write(*value) })
}

/// What a client asks of lists, whose elements are never the same.
pub(crate) fn next_list(random: &mut Random, value: &mut i64) -> (Vec<Key>, Ask) {
    let keys: Vec<Key> = list_keys().collect();
    let key = keys[random.below(keys.len() as u64) as usize];
    *value += 1;
    (vec![key], if random.below(2) == 0 { Ask::Read } else { Ask::Append(*value) })
}

/// What a client asks for next. Values are never written twice, so that each tells who wrote it.
pub(crate) fn next_ask(random: &mut Random, value: &mut i64, last_seen: Option<i64>) -> (Key, Ask) {
    if random.below(10) < 3 {
        let key = Key(FIRST_COUNTER + random.below(COUNTER_COUNT) as u8);
        let amount = 1 + random.below(9).cast_signed();
        return (key, if random.below(3) == 0 { Ask::Read } else { Ask::Add(amount) });
    }
    let key = Key(random.below(REGISTER_COUNT) as u8);
    *value += 1;
    let ask = match random.below(10) {
        0..4 => Ask::Read,
        4..6 => Ask::Write(*value),
        6 => Ask::Delete,
        _ => {
            let expected = if random.below(5) == 0 { None } else { last_seen };
            Ask::CompareAndSet { expected, new: *value }
        }
    };
    (key, ask)
}

/// What the outcome of a write tells its client. An error that says nothing of what was done is unknown; one that cannot be is a
/// finding.
pub(crate) fn told_of(outcome: WriteOutcome) -> Result<Told, String> {
    match outcome {
        WriteOutcome::Unavailable { .. } => Ok(Told::Unavailable),
        WriteOutcome::TimedOut => Ok(Told::Unknown),
        WriteOutcome::Done(Ok(done)) => match done.first().map(|done| &done.outcome) {
            Some(Outcome::Applied) => Ok(Told::Done),
            Some(Outcome::NotApplied { rows }) => Ok(Told::NotApplied(current_value(rows))),
            None => Err("an answer without an outcome".to_owned()),
        },
        WriteOutcome::Done(Err(CommitError::Closed)) => Ok(Told::Unknown),
        WriteOutcome::Done(Err(error)) => Err(format!("a write failed: {error}")),
    }
}

impl World {
    /// All keys that clients ask for.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        keys(self.first_set_count(), self.profile.has_lists())
    }

    /// The set that clients believe to have a key.
    pub(crate) fn set_of(&self, key: Key) -> SetId {
        let ring = key.partition().ring();
        let found = self.map.iter().find(|(range, _)| range.contains(ring));
        found.expect("the ring is covered").1
    }

    /// What a client asks for next: of which key, and which others by the same batch.
    pub(crate) fn draw_ask(&mut self, client: u32) -> (Key, Vec<Key>, Ask) {
        let seen = self.last_seen.values().copied().flatten().max();
        // Who got on asks for little more, so that everything comes to an end.
        let is_content = self.is_healing && self.has_got_on(client);
        let topic = match is_content {
            true => Topic::Plain,
            false => self.profile.topic(&mut self.random),
        };
        let (random, value) = (&mut self.random, &mut self.next_value);
        let (mut also, mut ask) = match topic {
            Topic::Batch => next_batch(random, value, self.set_count as usize),
            Topic::Shared => next_shared(random, value, self.set_count as usize),
            Topic::Timed => next_timed(random, value),
            Topic::List => next_list(random, value),
            Topic::Plain => {
                let (key, ask) = next_ask(random, value, seen);
                (vec![key], ask)
            }
        };
        let key = also.remove(0);
        if let Ask::CompareAndSet { expected, .. } = &mut ask
            && expected.is_some()
        {
            *expected = self.last_seen.get(&key).copied().flatten();
        }
        (key, also, ask)
    }
}
