//! Batches over several sets, at the leader of the set that decides them.
//!
//! An entry of the set of a batch's first key decides the batch: what the set holds itself is applied with it, and the rest is kept
//! there as an *intent*. Its leader has the sets that hold the other *parts*, wherever those are by then, apply them; each remembers
//! that it did. When all are applied whoever asked is answered. Then an entry says that the batch is done, the parts' sets may forget
//! it, and a last entry removes the intent. A new leader looks for the intents of its set, and goes on.
//!
//! What was sent for a part may come late, by a leader that leads no more. So everything that is sent for it has a last second:
//! [`PART_S`] after a second that the intent's set knew while the batch was not done. Parts are remembered for at least as
//! long after the second of the entry that says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use storage::broken::{Rule, breaks};
use storage::{
    AllDone, BatchPlace, CommitError, Forget, Intent, KeptIntent, OpenIntent, PART_S, PartPlace,
    Parts, Request, RequestId, Step,
};
use types::{Done, Mutation, Outcome, SetId};

use super::{Host, Input, KIND_EMPTY, ProposalAnswer};
use crate::group::requests::WriteOutcome;

/// A set has so many batches open; more wait until some are over.
const INTENTS_MAX: usize = 8_192;
/// And so many bytes of parts.
const INTENTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// So many batches are said to be done, forgotten or over by one entry.
const GATHERED_MAX: usize = 256;
/// So many of those who ask are told what became of one batch: each asks again only when no answer came.
const WAITERS_MAX: usize = 8;
/// What is sent for a batch is tried for so long, and then located again.
const TRIED_MS: u64 = 2_000;
/// After so many milliseconds what came to nothing is tried again; each time after twice as many.
const PAUSE_MS: u64 = 50;
const PAUSE_MS_MAX: u64 = 1_600;

/// Who is told what became of a batch.
type Waiter = Box<dyn FnOnce(ProposalAnswer) + Send>;

/// How far a batch is.
#[derive(Debug)]
enum Stage {
    /// Parts are applied.
    Applying,
    /// All are; that is to be said.
    Applied,
    /// Their sets are told that nobody asks for them again.
    Forgetting { until_s: u32, parts: Vec<PartPlace> },
    /// They were.
    Forgotten,
}

/// A batch that is driven.
struct Driving {
    place: BatchPlace,
    known: u64,
    timed_us: Option<i64>,
    /// Parts that are not known to be applied, and whether they were sent.
    parts: BTreeMap<u32, (Mutation, bool)>,
    /// Where they are remembered.
    places: Vec<PartPlace>,
    bytes: usize,
    /// What became of mutations.
    dones: BTreeMap<u32, Done>,
    refused: Option<CommitError>,
    /// How many mutations the batch has, as far as is known.
    count: usize,
    waiters: Vec<Waiter>,
    stage: Stage,
    /// What was together in one set was found not to be: each part is sent alone.
    sends_apart: bool,
    /// What belongs to the stage is on its way.
    is_sent: bool,
    retry_at_ms: u64,
    pause_ms: u64,
}

/// What was sent, for which batches.
#[derive(Clone, Debug)]
enum Sent {
    Parts(SetId, RequestId, Vec<u32>),
    Done(SetId, Vec<RequestId>),
    /// Which parts of which batches of which sets.
    Forget(Vec<(SetId, RequestId, Vec<u32>)>),
    Remove(SetId, Vec<RequestId>),
}

/// The batches of the sets that are led from here.
#[derive(Default)]
pub(super) struct Intents {
    open: BTreeMap<(SetId, RequestId), Driving>,
    /// In which term of leading a set its batches were all found.
    found: BTreeMap<SetId, u64>,
    told: Arc<Mutex<Vec<(Sent, WriteOutcome)>>>,
}

impl Intents {
    fn of_set(&self, set: SetId) -> impl Iterator<Item = &Driving> {
        let ids = (set, RequestId(0))..=(set, RequestId(u128::MAX));
        self.open.range(ids).map(|(_, driving)| driving)
    }

    /// Whether a set has as many batches open as it may have.
    fn is_full(&self, set: SetId) -> bool {
        let (count, bytes) = self
            .of_set(set)
            .fold((0, 0), |(count, bytes), driving| (count + 1, bytes + driving.bytes));
        count >= INTENTS_MAX || bytes >= INTENTS_BYTES_MAX
    }

    /// As if a set had so many batches open, of so many bytes each.
    #[cfg(test)]
    pub(super) fn fill(&mut self, set: SetId, count: u128, bytes: usize) {
        for number in 1..=count {
            let batch = RequestId(u128::MAX - number);
            let place = BatchPlace { table: types::TableId(1), ring: types::RingToken(0), batch };
            let kept = KeptIntent::Open(OpenIntent { known: 0, timed_us: None, parts: Vec::new() });
            let driving = Driving { is_sent: true, ..Driving::new(place, kept, bytes) };
            self.open.insert((set, batch), driving);
        }
    }
}

impl Driving {
    fn new(place: BatchPlace, kept: KeptIntent, bytes: usize) -> Driving {
        let (known, timed_us, parts, stage) = match kept {
            KeptIntent::Open(OpenIntent { known, timed_us, parts }) => {
                (known, timed_us, parts, Stage::Applying)
            }
            KeptIntent::Done { until_s, parts } => {
                (0, None, Vec::new(), Stage::Forgetting { until_s, parts })
            }
        };
        let place_of = |(number, it): &(u32, Mutation)| {
            let (table, ring) = (it.table, it.key.ring());
            PartPlace { number: *number, table, ring }
        };
        Driving {
            place,
            known,
            timed_us,
            places: parts.iter().map(place_of).collect(),
            parts: parts.into_iter().map(|(number, it)| (number, (it, false))).collect(),
            bytes,
            dones: BTreeMap::new(),
            refused: None,
            count: 0,
            waiters: Vec::new(),
            stage,
            sends_apart: false,
            is_sent: false,
            retry_at_ms: 0,
            pause_ms: PAUSE_MS,
        }
    }

    fn wait(&mut self, waiter: Waiter, count: usize) {
        self.count = self.count.max(count);
        if self.waiters.len() >= WAITERS_MAX {
            drop(self.waiters.remove(0));
        }
        self.waiters.push(waiter);
    }

    fn note(&mut self, numbers: &[u32], dones: impl IntoIterator<Item = Done>) {
        for (number, done) in numbers.iter().zip(dones) {
            self.parts.remove(number);
            self.dones.insert(*number, done);
        }
    }

    /// If no part is left: who asked is answered, and the next stage begins.
    fn end_parts(&mut self) {
        let is_over = self.parts.is_empty() || breaks(Rule::FinishBeforeParts);
        if !matches!(self.stage, Stage::Applying) || !is_over {
            return;
        }
        self.stage = Stage::Applied;
        self.bytes = 0;
        self.begin_anew();
        for waiter in std::mem::take(&mut self.waiters) {
            waiter(ProposalAnswer::Done(match &self.refused {
                Some(refused) => Err(refused.clone()),
                None => Ok(self.outcome()),
            }));
        }
    }

    fn outcome(&self) -> AllDone {
        // Of those that an earlier leader saw applied nobody knows more.
        let numbers = (0..self.count).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        numbers.map(|number| self.dones.get(&number).cloned().unwrap_or(APPLIED)).collect()
    }

    fn begin_anew(&mut self) {
        self.is_sent = false;
        self.retry_at_ms = 0;
        self.pause_ms = PAUSE_MS;
    }

    /// What was sent came to nothing.
    fn fail(&mut self, now_ms: u64) {
        self.is_sent = false;
        self.retry_at_ms = now_ms + self.pause_ms;
        self.pause_ms = (self.pause_ms * 2).min(PAUSE_MS_MAX);
    }

    fn is_due(&self, now_ms: u64) -> bool {
        !self.is_sent && self.retry_at_ms <= now_ms
    }
}

/// A mutation of a batch whose outcome is not known any more, but that it was applied.
const APPLIED: Done = Done { outcome: Outcome::Applied, weight: 0 };

impl Host {
    /// A request for a set that is led from here may be a step of a batch. It comes back as it is proposed, with whoever waits for it; or
    /// that one was answered, or is when the batch is over.
    pub(super) fn take_step(
        &mut self,
        set: SetId,
        mut request: Request,
        done: Waiter,
    ) -> Option<(Request, Waiter)> {
        match request.step.as_deref() {
            None | Some(Step::Done(_) | Step::Forget(_) | Step::Remove(_)) => {}
            Some(Step::Parts(_)) => self.storage.renew(&mut request.mutations),
            Some(Step::Intend(_)) => {
                let Some(place) = request.batch_place() else {
                    done(ProposalAnswer::Busy);
                    return None;
                };
                if let Some(driving) = self.intents.open.get_mut(&(set, place.batch))
                    && matches!(driving.stage, Stage::Applying)
                {
                    driving.wait(done, request.mutations.len());
                    return None;
                }
                if let Err(answer) = self.part(set, &mut request) {
                    done(answer);
                    return None;
                }
            }
        }
        Some((request, done))
    }

    /// Parts a batch: what this set holds is applied at once, the rest becomes the intent.
    fn part(&self, set: SetId, request: &mut Request) -> Result<(), ProposalAnswer> {
        if self.intents.is_full(set) || self.batches.map.is_none() {
            return Err(ProposalAnswer::Busy);
        }
        let valid = self.storage.validate(&request.mutations);
        valid.map_err(|error| ProposalAnswer::Done(Err(error)))?;
        let version = self.map_version();
        let all = std::mem::take(&mut request.mutations);
        let mut intent = match request.step.as_deref() {
            Some(Step::Intend(intent)) => intent.clone(),
            _ => return Ok(()),
        };
        let numbers = std::mem::take(&mut intent.here);
        for (number, mutation) in numbers.into_iter().zip(all) {
            if self.is_splitting_off(set, mutation.key.ring()) {
                return Err(ProposalAnswer::Busy);
            }
            match self.locate_from(set, mutation.table, mutation.key.ring()) {
                Some(holder) if holder == set => {
                    intent.here.push(number);
                    request.mutations.push(mutation);
                    continue;
                }
                // This node does not know the table yet.
                None if version < intent.known => return Err(ProposalAnswer::Busy),
                // The batch is planned anew without a table that was dropped.
                None => return Err(ProposalAnswer::Done(Err(CommitError::Stale))),
                // It is not this set's batch any more, or not yet.
                Some(_) if intent.here.is_empty() => return Err(ProposalAnswer::Busy),
                Some(_) => intent.others.push((number, mutation)),
            }
        }
        intent.known = intent.known.max(self.map_version() + 1);
        request.step = Some(Box::new(Step::Intend(intent)));
        Ok(())
    }

    /// A batch was decided in a set that is led from here, now or before.
    pub(super) fn take_intent(
        &mut self,
        set: SetId,
        request: &Request,
        done: AllDone,
        waiter: Option<Waiter>,
    ) {
        let (Some(place), Some(Step::Intend(intent))) =
            (request.batch_place(), request.step.as_deref())
        else {
            return;
        };
        if !self.core.leads(set) {
            // Whoever leads now finds it.
            waiter.into_iter().for_each(|waiter| waiter(ProposalAnswer::NotLeader(None)));
            return;
        }
        let id = (set, place.batch);
        if !self.intents.open.contains_key(&id) {
            match self.storage.kept_intent(&place) {
                Ok(Some(kept @ KeptIntent::Open(_))) => {
                    let bytes = request.to_bytes().len();
                    self.intents.open.insert(id, Driving::new(place, kept, bytes));
                }
                // It is over.
                Ok(Some(KeptIntent::Done { .. }) | None) => {}
                Err(error) => {
                    let answer = ProposalAnswer::Done(Err(error));
                    waiter.into_iter().for_each(|waiter| waiter(answer.clone()));
                    return;
                }
            }
        }
        match self.intents.open.get_mut(&id) {
            Some(driving) if matches!(driving.stage, Stage::Applying) => {
                driving.note(&intent.here, done);
                let count = intent.here.len() + intent.others.len();
                waiter.into_iter().for_each(|waiter| driving.wait(waiter, count));
                self.send_parts(id);
            }
            _ => {
                if let Some(waiter) = waiter {
                    waiter(ProposalAnswer::Done(Ok(whole(intent, done))));
                }
            }
        }
    }

    /// Sends the parts of a batch that are not on their way to whoever leads the sets that hold them now.
    fn send_parts(&mut self, id: (SetId, RequestId)) {
        let version = self.map_version();
        let Some(driving) = self.intents.open.get(&id) else { return };
        // It is the right half's since a moment: its seconds count.
        if !self.is_held(id.0, &driving.place) {
            return;
        }
        let mut by_set: BTreeMap<(SetId, u32), (Vec<u32>, Vec<Mutation>)> = BTreeMap::new();
        let mut gone = Vec::new();
        for (number, (mutation, _)) in driving.parts.iter().filter(|(_, it)| !it.1) {
            match self.locate(mutation.table, mutation.key.ring()) {
                Some(holder) => {
                    let apart = if driving.sends_apart { *number } else { 0 };
                    let (numbers, mutations) = by_set.entry((holder, apart)).or_default();
                    numbers.push(*number);
                    mutations.push(mutation.clone());
                }
                // Its table was dropped.
                None if version >= driving.known => gone.push(*number),
                None => {}
            }
        }
        let Some(driving) = self.intents.open.get_mut(&id) else { return };
        for number in by_set.values().flat_map(|(numbers, _)| numbers) {
            if let Some((_, is_sent)) = driving.parts.get_mut(number) {
                *is_sent = true;
            }
        }
        let applied = gone.iter().map(|_| APPLIED);
        driving.note(&gone, applied);
        driving.is_sent = driving.parts.values().all(|(_, is_sent)| *is_sent);
        if !driving.is_sent {
            driving.retry_at_ms = self.now.ms + PAUSE_MS;
        }
        driving.end_parts();
        let timed_us = driving.timed_us;
        // The set knew this second, and the batch was not done by then.
        let not_after_s = self.storage.group_now_s(id.0).saturating_add(PART_S);
        for ((holder, _), (numbers, mutations)) in by_set {
            let parts = Parts { batch: id.1, timed_us, numbers: numbers.clone() };
            let request = Request {
                id: None,
                not_after_s,
                timed_us: None,
                truncates: None,
                splits: None,
                mutations,
                step: Some(Box::new(Step::Parts(parts))),
            };
            self.send_step(holder, request, Sent::Parts(id.0, id.1, numbers));
        }
    }

    fn send_step(&mut self, set: SetId, request: Request, sent: Sent) {
        let told = Arc::clone(&self.intents.told);
        let done = Box::new(move |outcome| told.lock().push((sent, outcome)));
        // Whether enough members are alive is not asked: the batch is decided, and this side may have no member of that set.
        let number = self.requests.add(set, request, self.now.ms + TRIED_MS, done);
        self.attempt(number);
    }

    fn send_plain(&mut self, set: SetId, step: Step, sent: Sent) {
        let request = Request {
            id: None,
            not_after_s: u32::MAX,
            timed_us: None,
            truncates: None,
            splits: None,
            mutations: Vec::new(),
            step: Some(Box::new(step)),
        };
        self.send_step(set, request, sent);
    }

    /// Whether something was heard of what was sent for batches.
    pub(super) fn take_told(&mut self) -> bool {
        let told = std::mem::take(&mut *self.intents.told.lock());
        let is_any = !told.is_empty();
        for (sent, outcome) in told {
            match sent {
                Sent::Parts(set, batch, numbers) => {
                    self.take_parts((set, batch), &numbers, outcome)
                }
                Sent::Done(set, batches) => {
                    let is_done = is_done(&outcome);
                    for batch in batches {
                        self.take_done((set, batch), is_done);
                    }
                }
                Sent::Forget(forgotten) => {
                    let is_done = is_done(&outcome);
                    for (set, batch, numbers) in forgotten {
                        if let Some(driving) = self.intents.open.get_mut(&(set, batch)) {
                            driving.sends_apart |= has_moved(&outcome);
                        }
                        self.take_forgotten((set, batch), &numbers, is_done);
                    }
                }
                Sent::Remove(set, batches) => {
                    let (is_done, now_ms) = (is_done(&outcome), self.now.ms);
                    for batch in batches {
                        match (is_done, self.intents.open.get_mut(&(set, batch))) {
                            (true, _) => drop(self.intents.open.remove(&(set, batch))),
                            (false, Some(driving)) => driving.fail(now_ms),
                            (false, None) => {}
                        }
                    }
                }
            }
        }
        is_any
    }

    fn take_parts(&mut self, id: (SetId, RequestId), numbers: &[u32], outcome: WriteOutcome) {
        let now_ms = self.now.ms;
        let Some(driving) = self.intents.open.get_mut(&id) else { return };
        match outcome {
            WriteOutcome::Done(Ok(dones)) => driving.note(numbers, dones),
            // It cannot be helped: what it asks for is not there any more.
            WriteOutcome::Done(Err(refused @ CommitError::Refused(_))) => {
                driving.note(numbers, numbers.iter().map(|_| APPLIED));
                driving.refused = Some(refused);
            }
            // The table or its keys may have moved, or its set has no leader now.
            other => {
                driving.sends_apart |= has_moved(&other);
                for number in numbers {
                    if let Some((_, is_sent)) = driving.parts.get_mut(number) {
                        *is_sent = false;
                    }
                }
                driving.fail(now_ms);
            }
        }
        driving.end_parts();
    }

    fn take_done(&mut self, id: (SetId, RequestId), is_done: bool) {
        let now_ms = self.now.ms;
        let Some(driving) = self.intents.open.get_mut(&id) else { return };
        if !matches!(driving.stage, Stage::Applied) {
            return;
        }
        if !is_done {
            return driving.fail(now_ms);
        }
        match self.storage.kept_intent(&driving.place) {
            Ok(Some(KeptIntent::Done { until_s, parts })) => {
                driving.stage = Stage::Forgetting { until_s, parts };
                driving.begin_anew();
            }
            // Its table was dropped, with everything that is kept there: the parts' sets are told all the same.
            Ok(None) => {
                let until_s = self.storage.group_now_s(id.0).saturating_add(PART_S);
                let parts = std::mem::take(&mut driving.places);
                driving.stage = Stage::Forgetting { until_s, parts };
                driving.begin_anew();
            }
            Ok(Some(KeptIntent::Open(_))) | Err(_) => driving.fail(now_ms),
        }
    }

    fn take_forgotten(&mut self, id: (SetId, RequestId), numbers: &[u32], is_done: bool) {
        let now_ms = self.now.ms;
        let Some(driving) = self.intents.open.get_mut(&id) else { return };
        let Stage::Forgetting { parts, .. } = &mut driving.stage else { return };
        if !is_done {
            return driving.fail(now_ms);
        }
        parts.retain(|part| !numbers.contains(&part.number));
        if parts.is_empty() {
            driving.stage = Stage::Forgotten;
            driving.begin_anew();
        }
    }

    /// With every tick: batches are looked for, and what is due is sent. What many batches have to say is said by one entry.
    pub(super) fn tick_intents(&mut self, now_s: u32) {
        self.drop_intents();
        self.find_intents();
        let now_ms = self.now.ms;
        let due: Vec<(SetId, RequestId)> = self
            .intents
            .open
            .iter()
            .filter(|(_, driving)| driving.is_due(now_ms))
            .map(|(id, _)| *id)
            .collect();
        let mut done: BTreeMap<SetId, Vec<BatchPlace>> = BTreeMap::new();
        let mut over: BTreeMap<SetId, Vec<BatchPlace>> = BTreeMap::new();
        let mut forgotten = Vec::new();
        for id in due {
            let Some(driving) = self.intents.open.get_mut(&id) else { continue };
            let place = driving.place;
            match &driving.stage {
                Stage::Applying => self.send_parts(id),
                Stage::Applied => done.entry(id.0).or_default().push(place),
                Stage::Forgetting { .. } => forgotten.push(id),
                Stage::Forgotten => over.entry(id.0).or_default().push(place),
            }
        }
        for (set, places) in done {
            for places in places.chunks(GATHERED_MAX) {
                let batches = self.mark_sent(set, places);
                self.send_plain(set, Step::Done(places.to_vec()), Sent::Done(set, batches));
            }
        }
        for (set, places) in over {
            for places in places.chunks(GATHERED_MAX) {
                let batches = self.mark_sent(set, places);
                self.send_plain(set, Step::Remove(places.to_vec()), Sent::Remove(set, batches));
            }
        }
        self.send_forgets(forgotten);
        self.tell_time(now_s);
    }

    fn mark_sent(&mut self, set: SetId, places: &[BatchPlace]) -> Vec<RequestId> {
        for place in places {
            if let Some(driving) = self.intents.open.get_mut(&(set, place.batch)) {
                driving.is_sent = true;
            }
        }
        places.iter().map(|place| place.batch).collect()
    }

    /// Tells the sets of parts that nobody asks for them again.
    fn send_forgets(&mut self, ids: Vec<(SetId, RequestId)>) {
        type Gathered = (Vec<Forget>, Vec<(SetId, RequestId, Vec<u32>)>);
        // What is sent alone has a number of its own.
        let mut by_set: BTreeMap<(SetId, u128, u32), Gathered> = BTreeMap::new();
        let mut gone = Vec::new();
        for id in ids {
            let Some(driving) = self.intents.open.get(&id) else { continue };
            let Stage::Forgetting { until_s, parts } = &driving.stage else { continue };
            let mut of_batch: BTreeMap<(SetId, u128, u32), Vec<PartPlace>> = BTreeMap::new();
            let mut dropped = Vec::new();
            for part in parts {
                match self.locate(part.table, part.ring) {
                    Some(holder) => {
                        let apart = (holder, id.1.0, part.number + 1);
                        let place = if driving.sends_apart { apart } else { (holder, 0, 0) };
                        of_batch.entry(place).or_default().push(*part);
                    }
                    // What was remembered of it is gone with its table.
                    None => dropped.push(part.number),
                }
            }
            for (place, parts) in of_batch {
                let (forgets, numbers) = by_set.entry(place).or_default();
                numbers.push((id.0, id.1, parts.iter().map(|part| part.number).collect()));
                forgets.push(Forget { batch: id.1, until_s: *until_s, parts });
            }
            gone.push((id, dropped));
        }
        for (id, dropped) in gone {
            if let Some(driving) = self.intents.open.get_mut(&id) {
                driving.is_sent = true;
            }
            self.take_forgotten(id, &dropped, true);
        }
        for ((holder, _, _), (forgets, numbers)) in by_set {
            for (forgets, numbers) in forgets.chunks(GATHERED_MAX).zip(numbers.chunks(GATHERED_MAX))
            {
                let sent = Sent::Forget(numbers.to_vec());
                self.send_plain(holder, Step::Forget(forgets.to_vec()), sent);
            }
        }
    }

    /// Batches of sets that are not led from here any more are another leader's.
    fn drop_intents(&mut self) {
        let terms: BTreeMap<SetId, Option<u64>> = {
            let sets: BTreeSet<SetId> = self.intents.open.keys().map(|(set, _)| *set).collect();
            let sets = sets.into_iter().chain(self.intents.found.keys().copied());
            sets.map(|set| (set, self.term_led(set))).collect()
        };
        self.intents.found.retain(|set, term| terms.get(set).copied().flatten() == Some(*term));
        let open = self.intents.open.iter();
        let lost: Vec<(SetId, RequestId)> = open
            .filter(|((set, _), driving)| {
                let is_led = terms.get(set).copied().flatten().is_some();
                !is_led || !self.is_held(*set, &driving.place)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            let Some(mut driving) = self.intents.open.remove(&id) else { continue };
            for waiter in driving.waiters.drain(..) {
                waiter(ProposalAnswer::NotLeader(None));
            }
        }
    }

    /// Whether a batch's first key is a set's: after a split it may be the right half's.
    fn is_held(&self, set: SetId, place: &BatchPlace) -> bool {
        match self.range_in_log(set) {
            Some(range) => range.contains(place.ring),
            None => self.locate(place.table, place.ring).is_none_or(|holder| holder == set),
        }
    }

    /// The term in which a set is led from here.
    fn term_led(&self, set: SetId) -> Option<u64> {
        let leads = self.core.leads(set);
        self.core.status_of(set).filter(|_| leads).map(|status| status.term)
    }

    /// A set that is led from here since a moment ago may have batches that were decided before.
    fn find_intents(&mut self) {
        if breaks(Rule::ForgetIntents) || self.batches.map.is_none() {
            return;
        }
        for set in self.core.sets().collect::<Vec<_>>() {
            let Some(term) = self.term_led(set) else { continue };
            let is_found = self.intents.found.get(&set) == Some(&term);
            if is_found || self.intents.is_full(set) {
                continue;
            }
            let Some((tables, range)) = self.held_by(set) else { continue };
            let mut is_all = true;
            let mut found = Vec::new();
            let open = &self.intents.open;
            let mut bytes_sum = 0;
            let looked = self.storage.kept_intents(&tables, range, |place, kept, bytes| {
                if self.is_held(set, &place) && !open.contains_key(&(set, place.batch)) {
                    bytes_sum += bytes;
                    found.push((place, kept, bytes));
                }
                is_all = found.len() < INTENTS_MAX && bytes_sum < INTENTS_BYTES_MAX;
                is_all
            });
            if let Err(error) = looked {
                tracing::warn!(set = set.0, %error, "the batches of a set cannot be looked for");
                continue;
            }
            for (place, kept, bytes) in found {
                let id = (set, place.batch);
                self.intents.open.insert(id, Driving::new(place, kept, bytes));
            }
            if is_all {
                self.intents.found.insert(set, term);
            }
        }
    }

    /// A set with open batches in which nothing happens is told what time it is: what is sent for its parts would come too late.
    fn tell_time(&mut self, now_s: u32) {
        let sets: BTreeSet<SetId> = self.intents.open.keys().map(|(set, _)| *set).collect();
        for set in sets {
            let is_late = |known_s: u32| now_s.saturating_sub(known_s) >= PART_S / 4;
            let proposed_s = self.last_proposed_s.get(&set).copied().unwrap_or(0);
            if is_late(self.storage.group_now_s(set)) && is_late(proposed_s) {
                self.last_proposed_s.insert(set, now_s);
                let (ticket, kind, body, before) = (None, KIND_EMPTY, Bytes::new(), Vec::new());
                self.inbox.push_back(Input::Propose { set, ticket, kind, now_s, body, before });
            }
        }
    }

    /// How many batches of the sets that are led from here are not over.
    pub fn open_batches(&self) -> usize {
        self.intents.open.len()
    }

    /// Nobody is answered any more.
    pub(super) fn close_intents(&mut self) {
        for (_, mut driving) in std::mem::take(&mut self.intents.open) {
            for waiter in driving.waiters.drain(..) {
                waiter(ProposalAnswer::Done(Err(CommitError::Closed)));
            }
        }
    }
}

/// Whether some of what was sent is another set's.
fn has_moved(outcome: &WriteOutcome) -> bool {
    matches!(outcome, WriteOutcome::Done(Err(CommitError::Moved)))
}

fn is_done(outcome: &WriteOutcome) -> bool {
    matches!(outcome, WriteOutcome::Done(Ok(_)))
}

/// What became of a batch that is over: of its parts nobody knows more than that they were applied.
fn whole(intent: &Intent, here: AllDone) -> AllDone {
    let mut dones: BTreeMap<u32, Done> =
        intent.others.iter().map(|(number, _)| (*number, APPLIED)).collect();
    dones.extend(intent.here.iter().copied().zip(here));
    dones.into_values().collect()
}
