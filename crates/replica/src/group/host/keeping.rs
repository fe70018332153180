//! What a host keeps in the log of its node, and for how long.

use std::sync::Arc;

use storage::broken::{Rule, breaks};
use storage::{CommitError, GroupAppend};
use types::SetId;

use super::transfers::Installing;
use super::{Asked, Host, Input, Persisted, ProposalAnswer};

impl Host {
    /// Whether something waits until the log has room for it.
    pub fn is_stalled(&self) -> bool {
        !self.stalled.is_empty() || self.is_unawaited
    }

    /// Whether the log will not write any more: the node must stop.
    pub fn has_failed(&self) -> bool {
        self.persisted.has_failed() || self.storage.poisoned().is_some()
    }

    /// Nobody is answered any more, because the node stops.
    pub fn close(&mut self) {
        self.close_batches();
        self.close_intents();
        self.requests.close();
        self.reads.close();
        for (_, asked) in self.asked.drain() {
            match asked {
                Asked::Write(_, _, done) => done(ProposalAnswer::Done(Err(CommitError::Closed))),
                Asked::Read(done) => done(false),
            }
        }
    }

    /// Entries that are in sorted files here, and known by all members, go. If the log is too long in spite of that, a member that
    /// lacks them is handed the rows instead.
    pub(super) fn shorten_log(&mut self) {
        let flushed = self.storage.flushed_before();
        let is_too_long = self.storage.log_kept_bytes() > self.options.log_bytes_max;
        for set in self.core.sets().collect::<Vec<_>>() {
            let known = self.known_by_all.get(&set).copied().unwrap_or(0);
            let known = if is_too_long { u64::MAX } else { known };
            let (Some(table), Some(applied)) = (self.core.table(set), self.core.applied(set))
            else {
                continue;
            };
            let flushed = if breaks(Rule::CutUnflushed) { u64::MAX } else { flushed };
            let Some(place) = table.last_before(flushed, applied.min(known)) else { continue };
            let kept_from = self.transfer_place(set, place.index);
            let table = self.core.table(set);
            let place = table.and_then(|it| it.last_before(flushed, place.index.min(kept_from)));
            let Some(place) = place else { continue };
            let now_s = self.storage.group_now_s(set);
            if let Some(state) = self.core.cut_to(set, place, now_s) {
                let append = GroupAppend { state: Some(state), ..GroupAppend::default() };
                self.stalled.push_back((set, append));
            }
        }
    }

    /// From where on the log is needed for a set: not before everything that says so is in it.
    pub(super) fn note_needed(&mut self, set: SetId) {
        let is_said = !self.stalled.iter().any(|(stalled, _)| *stalled == set);
        let is_installing = self.is_installing(set) || self.core.could_not_install(set);
        if is_said && !is_installing {
            let needed = self.core.table(set).and_then(|table| table.needed_from());
            self.storage.set_group_needed(set, needed);
        }
    }

    /// Puts what is to be kept into the log. What does not fit now comes again with the next turn.
    pub(super) fn append(&mut self, turn: u64) {
        self.is_unawaited |= !self.stalled.is_empty();
        while let Some((set, append)) = self.stalled.front() {
            let set = *set;
            if !self.may_append(append) {
                return;
            }
            if append.is_install
                && let Some(state) = append.state.clone()
            {
                let state = &state;
                if !self.may_install(set) {
                    return;
                }
                let position = match self.storage.append_install(state) {
                    Ok(position) => position,
                    Err(error) => {
                        tracing::debug!(%error, "the log takes nothing now");
                        return;
                    }
                };
                let (member, index) = (state.replica, state.cut.index);
                let installing = Installing { turn, set, member, index, position };
                self.transfers.installing.push(installing);
                // The record itself is needed until the rows are in the trees, which hold the log then.
                self.storage.set_group_needed(set, Some(position));
                self.stalled.pop_front();
                continue;
            }
            if append.is_birth
                && let Some(state) = append.state.clone()
            {
                if let Err(error) = self.begin_split_off(&state) {
                    tracing::debug!(%error, "the log takes nothing now");
                    return;
                }
                self.stalled.pop_front();
                continue;
            }
            match self.storage.append_group(set, append) {
                Ok(slots) => {
                    self.unwritten += slots.len().max(1);
                    if let Some(first) = append.entries.first() {
                        let first = first.index;
                        self.core.placed(set, first, &slots);
                    }
                    self.stalled.pop_front();
                    self.note_needed(set);
                }
                Err(error) => {
                    tracing::debug!(%error, "the log takes nothing now");
                    return;
                }
            }
        }
        if breaks(Rule::TellBeforeSync) && self.is_unawaited {
            self.persisted.note(turn, true);
        }
        if self.is_unawaited && self.may_append(&GroupAppend::default()) {
            let (persisted, wake) = (self.persisted.clone(), Arc::clone(&self.wake));
            let done = Box::new(move |is_durable| {
                if !persisted.note(turn, is_durable) {
                    wake();
                }
            });
            let awaited = match self.is_written_by_caller {
                true => self.storage.await_durable_later(done),
                false => self.storage.await_durable(done),
            };
            match awaited {
                Ok(()) => {
                    self.is_unawaited = false;
                    self.unwritten = self.unwritten.max(1);
                }
                // Nothing is promised: a later turn waits for it.
                Err(error) => tracing::debug!(%error, "the log takes nothing now"),
            }
        }
    }

    /// From now on whoever has the host take a turn has the log written ([`Host::take_unwritten`]).
    pub fn leave_writing_to_caller(&mut self) {
        self.is_written_by_caller = true;
    }

    /// Whether the next turns wait until the log has room. What is not appended for want of it comes again: [`Host::is_stalled`].
    pub fn wait_for_log(&mut self, waits: bool) {
        self.waits_for_log = waits;
    }

    /// Whether something goes into the log now, or may be waited for.
    pub(super) fn may_append(&self, append: &GroupAppend) -> bool {
        self.waits_for_log || self.storage.log_has_room_for(append)
    }

    pub(in crate::group) fn persisted(&self) -> &Persisted {
        &self.persisted
    }

    /// How much was appended that nobody writes yet, in entries.
    pub fn take_unwritten(&mut self) -> usize {
        std::mem::take(&mut self.unwritten)
    }

    pub(super) fn take_persisted(&mut self) {
        if let Some(last) = self.persisted.take() {
            self.inbox.push_back(Input::Persisted(last));
            self.persisted_turn = self.persisted_turn.max(last);
            let said = self.unsaid.extract_if(.., |(turn, _)| *turn <= last);
            self.outbox.extend(said.map(|(_, said)| said));
            self.install_persisted(last);
        }
    }
}
