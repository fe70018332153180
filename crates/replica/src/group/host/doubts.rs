//! Members whose rows are in doubt, over restarts, and what an operator says about them.
//!
//! **Which freezing lasts.** A member that applied something else than others is frozen by a state in its log: what it has does not get
//! better by a start. It lasts until it is handed rows, goes, or an operator says that its rows count. Everything else that freezes a
//! member does not last: after a panic nothing that it kept is known to be wrong, and recovery brings its memory back from there; where an
//! image could not be put into the trees, or what is committed could not be read from the log, recovery does the same again, and the node
//! does not open if it fails again. An entry that cannot be applied freezes nobody: it stops its node, at every start.

use std::collections::BTreeMap;

use bytes::Bytes;
use storage::{Doubt, GroupAppend, GroupState, RecoveredGroup};
use types::SetId;

use super::Host;
use crate::group::member::{Member, Pending};
use crate::group::skipping::Skip;

/// Told when what an operator said is on this node's disk and in force.
pub type OnSkipped = Box<dyn FnOnce(Result<(), String>) + Send>;

/// What is on its way into the log about members in doubt.
#[derive(Default)]
pub(super) struct Doubts {
    /// The turn that appends what is known last.
    turns: BTreeMap<SetId, u64>,
    /// Members that begin anew when that is on the disk, and who waits for it.
    reopening: BTreeMap<SetId, Vec<OnSkipped>>,
}

/// What a member needs of its log: its entries that are not applied, and what the others say of the set itself that its state does not
/// know.
struct Kept {
    bodies: Vec<Bytes>,
    unknown: Vec<Pending>,
}

/// For people.
fn frozen_text(index: u64) -> String {
    format!("what it applied up to entry {index} is not what most members applied")
}

impl Host {
    /// A member that recovery found begins. Returns what was split off it.
    pub(super) fn add_member(
        &mut self,
        recovered: RecoveredGroup,
    ) -> Result<Vec<(SetId, GroupAppend)>, String> {
        let kept = self.read_kept(&recovered)?;
        self.begin_over(recovered, kept)
    }

    /// What a member needs of its log to begin.
    fn read_kept(&self, recovered: &RecoveredGroup) -> Result<Kept, String> {
        let unapplied = recovered.state.commit + 1..=recovered.table.last().index;
        let slots = unapplied.filter_map(|index| recovered.table.slot(index));
        let bodies: Result<Vec<Bytes>, _> =
            slots.map(|slot| self.storage.read_group_body(&slot)).collect();
        let bodies = bodies.map_err(|error| error.to_string())?;
        Ok(Kept { bodies, unknown: self.unknown_to_state(recovered)? })
    }

    fn begin_over(
        &mut self,
        recovered: RecoveredGroup,
        Kept { bodies, unknown }: Kept,
    ) -> Result<Vec<(SetId, GroupAppend)>, String> {
        self.hear_of(&recovered.state);
        let set = recovered.state.set;
        self.core.add(recovered, bodies)?;
        self.core.tell(set, Member::keep_promises);
        let mut births = Vec::new();
        if !unknown.is_empty() {
            let (stays, split_off) = self.core.catch_up(set, unknown);
            if !stays {
                self.leave_later(set);
            }
            births.extend(split_off.into_iter().map(|birth| (set, birth)));
            self.meet_members(set);
        }
        self.tell_range(set);
        self.heed_doubt(set);
        Ok(births)
    }

    /// A member begins whose state may say that its rows are in doubt: then nobody reads them, whoever else takes part.
    pub(super) fn heed_doubt(&mut self, set: SetId) {
        let Some(doubt) = self.core.state(set).and_then(|state| state.doubt) else { return };
        self.seats.disturb(set);
        if doubt.kept.is_none() {
            self.core.freeze(set, &frozen_text(doubt.index));
        }
    }

    /// What a member applied up to an entry is not what others did: it takes part in nothing, now and after every start.
    pub(super) fn freeze_for_good(&mut self, set: SetId, index: u64) {
        self.seats.disturb(set);
        self.core.freeze(set, &frozen_text(index));
        self.keep_doubt(set, Some(Doubt { index, kept: None }));
    }

    fn keep_doubt(&mut self, set: SetId, doubt: Option<Doubt>) {
        let Some(state) = self.core.set_doubt(set, doubt) else { return };
        let append = GroupAppend { state: Some(state), ..GroupAppend::default() };
        self.stalled.push_back((set, append));
        self.appended_turn = self.core.next_turn();
        self.doubts.turns.insert(set, self.appended_turn);
        self.has_news = true;
    }

    /// Whether what is known of a member is on this node's disk: others are not told before.
    pub(super) fn is_doubt_kept(&self, set: SetId) -> bool {
        self.doubts.turns.get(&set).is_none_or(|turn| self.persisted_turn >= *turn)
    }

    /// An operator said whose rows of a set count. This node's member does its part; said twice it is done once.
    pub fn skip(&mut self, skip: &Skip, done: OnSkipped) {
        match self.doubt_after(skip) {
            Err(why) => done(Err(why)),
            Ok(next) => {
                self.comparison.trust(skip.set, skip.kept);
                if let Some(doubt) = next {
                    let why = format!("entry {} of it is skipped", skip.index);
                    self.seats.disturb(skip.set);
                    self.core.freeze(skip.set, &why);
                    self.keep_doubt(skip.set, doubt);
                    self.doubts.reopening.entry(skip.set).or_default();
                }
                match self.doubts.reopening.get_mut(&skip.set) {
                    Some(waiting) => waiting.push(done),
                    None => done(Ok(())),
                }
            }
        }
    }

    /// What is to be known of this node's member from then on; nothing where that is so already, or the member is a newer one.
    fn doubt_after(&self, skip: &Skip) -> Result<Option<Option<Doubt>>, String> {
        let Some(state) = self.core.state(skip.set) else { return Ok(None) };
        let frozen = self.core.status_of(skip.set).and_then(|status| status.frozen);
        let (node, set) = (self.node.0, skip.set.0);
        if state.replica != skip.kept && !skip.others.contains(&state.replica) {
            return Ok(None);
        }
        // What was said of one that is lost for good is said anew.
        if let Some(Doubt { kept: Some(kept), .. }) = state.doubt
            && (kept == skip.kept || state.configuration.node_of(kept).is_some())
        {
            return match kept == skip.kept {
                true => Ok(None),
                false => Err(format!(
                    "node {node} was told before that the rows of another member of set {set} count"
                )),
            };
        }
        if state.replica != skip.kept {
            return Ok(Some(Some(Doubt { index: skip.index, kept: Some(skip.kept) })));
        }
        match (state.doubt, frozen) {
            (Some(doubt), _) if doubt.index == skip.index => Ok(Some(None)),
            (Some(doubt), _) => Err(format!(
                "node {node}'s member of set {set} is frozen at entry {}, not at entry {}",
                doubt.index, skip.index
            )),
            (None, Some(why)) if !self.doubts.reopening.contains_key(&skip.set) => Err(format!(
                "node {node}'s member of set {set} is frozen for another reason: {why}; start the node again"
            )),
            (None, _) => Ok(None),
        }
    }

    /// In every tick: members begin anew whose doubt is settled on the disk, and those whose rows do not count let others lead.
    pub(super) fn tick_doubts(&mut self) {
        let reopening = self.doubts.reopening.keys().copied();
        let is_ready = |set: &SetId| {
            let is_said = !self.stalled.iter().any(|(stalled, _)| stalled == set);
            is_said && self.is_doubt_kept(*set) && !self.is_installing(*set)
        };
        for set in reopening.filter(is_ready).collect::<Vec<_>>() {
            let done = self.reopen(set);
            if let Err(why) = &done {
                tracing::error!(set = set.0, %why, "a member cannot begin anew");
            }
            let waiting = self.doubts.reopening.remove(&set).unwrap_or_default();
            waiting.into_iter().for_each(|it| it(done.clone()));
        }
        let is_overruled = |set: &SetId| {
            self.core
                .state(*set)
                .is_some_and(|state| state.doubt.is_some_and(|it| it.kept.is_some()))
        };
        let overruled: Vec<SetId> = self.core.awake_sets().filter(is_overruled).collect();
        if overruled.is_empty() {
            return;
        }
        let alive = self.alive_nodes();
        for set in overruled {
            if let Some(heir) = self.core.ask(set, |member| member.rightful_leader(&alive)) {
                self.core.tell(set, |member| member.hand_leadership_to_member(heir));
            }
        }
    }

    /// A member that took part in nothing begins anew over its log and trees, as after a start: it missed what happened.
    fn reopen(&mut self, set: SetId) -> Result<(), String> {
        let (state, table) = (self.core.state(set).cloned(), self.core.table(set).cloned());
        let Some((state, table)) = state.zip(table) else { return Ok(()) };
        if self.core.could_not_install(set) {
            let node = self.node.0;
            return Err(format!(
                "the rows that node {node} was handed are not in its files yet: start it again"
            ));
        }
        // What was applied is known to be committed; the rest is heard of again.
        let commit = self.storage.group_applied(set).max(table.cut().index);
        let is_trusted = state.doubt.is_none();
        let recovered = RecoveredGroup { state: GroupState { commit, ..state }, table };
        // First, because the log may not be readable: the member stays then, and takes part in nothing.
        let kept = self.read_kept(&recovered)?;
        self.forget_waiting(set);
        self.comparison.forget(set);
        let births = self.begin_over(recovered, kept).inspect_err(|why| {
            // Without it somebody could begin in its place who forgot what it promised.
            self.storage.give_up(|| format!("a member of set {} cannot begin anew: {why}", set.0));
        })?;
        self.stalled.extend(births);
        if is_trusted {
            self.seats.settle(set);
        }
        self.has_news = true;
        Ok(())
    }

    /// A member is gone from here: nobody waits for what was said about it.
    pub(super) fn forget_doubts(&mut self, set: SetId) {
        self.doubts.turns.remove(&set);
        let waiting = self.doubts.reopening.remove(&set).unwrap_or_default();
        waiting.into_iter().for_each(|done| done(Ok(())));
    }
}
