//! Sets are split while everything else goes on, and clients hear of it late.

use std::sync::Arc;

use replica::group::WriteOutcome;
use storage::{Request, RequestId, Split};
use types::{RingRange, RingToken, SetId};

use crate::coverage::SPLIT;
use crate::machine::SimClock;
use crate::tables::Key;
use crate::tables::set_range;
use crate::world::{Answered, MS, SplitDone, World};

/// So many splits are asked for in one run.
const SPLITS_MAX: u32 = 4;
/// What whoever splits waits for an answer.
const TIMEOUT_MS: u64 = 1_500;

impl World {
    /// A node has a set split, just before one of the keys that it holds.
    pub(crate) fn split_a_set(&mut self, machine: usize) {
        let set = self.sets[self.random.below(self.sets.len() as u64) as usize];
        let Some(state) = self.leading_state(set) else { return };
        let (Some(range), true) = (state.range, self.next_set <= self.set_count + SPLITS_MAX)
        else {
            return;
        };
        let rings = self.keys().map(|key| key.partition().ring());
        let mut inside: Vec<RingToken> = rings.filter(|ring| range.contains(*ring)).collect();
        inside.sort_unstable();
        let is_spoiled = self.has_spoiled(set, &state.configuration);
        // Both halves have keys, so that something goes on in them.
        if inside.len() < 2 || is_spoiled || self.host(machine).is_none() {
            return;
        }
        let at = inside[1 + self.random.below(inside.len() as u64 - 1) as usize];
        let right = SetId(self.next_set);
        self.next_set += 1;
        self.count("set is split");
        self.note_begun(SPLIT);
        self.under_way.split_until_us = self.now_us + TIMEOUT_MS * MS;
        let answers = Arc::clone(&self.answers);
        let done = SplitDone { left: set, right, at };
        let done = Box::new(move |outcome| {
            let is_done = matches!(outcome, WriteOutcome::Done(Ok(_)));
            answers.lock().push((usize::MAX, Answered::Split(is_done.then_some(done))));
        });
        let (boot, node) = (self.machines[machine].boots, self.machines[machine].node);
        let now = SimClock::now(&self.machines[machine].clock);
        let Some(running) = self.machines[machine].running.as_mut() else { return };
        running.next_request += 1;
        let id = u128::from(node.0) << 96 | u128::from(boot) << 64;
        let split = Split { right, at, whole: range, tables: Vec::new() };
        let request = Request {
            id: Some(RequestId(id | u128::from(running.next_request))),
            not_after_s: running.host.time_in_set(set) + 3,
            timed_us: None,
            truncates: None,
            splits: Some(Box::new(split)),
            mutations: Vec::new(),
            step: None,
        };
        if running.host.core().contains(set) {
            running.host.submit(set, request, now.ms + TIMEOUT_MS, done);
        }
        self.settle(machine);
    }

    /// How many sets there were before any was split: keys that batches write lie in several of them.
    pub(crate) fn first_set_count(&self) -> usize {
        self.set_count as usize
    }

    /// Clients hear of a split.
    pub(crate) fn note_split(&mut self, split: Option<SplitDone>) {
        self.under_way.split_until_us = 0;
        let Some(SplitDone { left, right, at }) = split else { return };
        self.tell(|| format!("set {} is split: {} begins at {:x}", left.0, right.0, at.0));
        self.learn(left, right, at);
    }

    fn learn(&mut self, left: SetId, right: SetId, at: RingToken) {
        // The place may lie in what was split off later, and is known already (`PartitionMap::with_split_off`).
        let is_cut = |(range, _): &(RingRange, SetId)| range.contains(at) && range.start < at;
        if let Some(place) = self.map.iter().position(is_cut) {
            let (range, _) = self.map[place];
            self.map[place].0 = RingRange { start: range.start, last: RingToken(at.0 - 1) };
            self.map.insert(place + 1, (RingRange { start: at, last: range.last }, right));
            let mut atlas = self.atlas.lock();
            let members = atlas.members.get(&left).cloned().unwrap_or_default();
            atlas.members.entry(right).or_insert(members);
        }
        self.tell_map();
    }

    /// All nodes are told what clients know.
    pub(crate) fn tell_map(&self) {
        self.machines.iter().for_each(|machine| machine.map.lock().clone_from(&self.map));
    }

    /// Sets that were split off are known from the nodes that have them, sooner or later.
    pub(crate) fn note_sets(&mut self) {
        let mut found = Vec::new();
        for machine in &self.machines {
            let Some(running) = machine.running.as_ref() else { continue };
            for set in running.host.core().sets() {
                let state = running.host.core().state(set).expect("a set that was listed");
                if let (false, Some((left, _)), Some(range)) =
                    (self.sets.contains(&set), state.split_from, state.range)
                {
                    found.push((set, left, range.start));
                }
            }
        }
        found.sort_unstable_by_key(|(set, _, _)| *set);
        found.dedup_by_key(|(set, _, _)| *set);
        for (set, left, at) in found {
            self.sets.push(set);
            self.inherit_spoiled(left, set);
            self.learn(left, set, at);
        }
    }

    fn leading_state(&self, set: SetId) -> Option<storage::GroupState> {
        let leaders = self.machines.iter().filter_map(|machine| {
            let core = machine.running.as_ref()?.host.core();
            core.leads(set).then(|| core.state(set).cloned())?
        });
        leaders.max_by_key(|state| state.term)
    }

    /// The set that has a key, as those who are furthest say; none if that is not one.
    pub(crate) fn true_set_of(&self, key: Key) -> Option<SetId> {
        let ring = key.partition().ring();
        let furthest = |set: SetId| {
            let states =
                self.machines.iter().filter_map(|it| it.running.as_ref()?.host.core().state(set));
            // A set that was never split may not know what it holds: then the map does.
            let first = || set_range((set.0 as usize).saturating_sub(1), self.first_set_count());
            let furthest = states.max_by_key(|state| state.commit);
            furthest.map(|state| state.range.unwrap_or_else(first))
        };
        let holds = |set: &&SetId| furthest(**set).is_some_and(|range| range.contains(ring));
        let mut found = self.sets.iter().filter(holds);
        let first = found.next().copied();
        first.filter(|_| found.next().is_none())
    }
}
