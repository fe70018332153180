//! What a tree knows of a replica set: how far it was applied, by which definition and horizon, and who reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use parking_lot::{Mutex, MutexGuard};
use types::{Outcome, RingToken, SetId};

use super::answers::Answers;
use crate::definition::Definition;
use crate::error::CommitError;
use node_log::broken::{Rule, breaks};
use tree::engine::{SeqNo, TreeBytes};

/// How far a replica set was applied: its entry, and how many mutations of that entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Applied {
    pub(crate) index: u64,
    pub(crate) ordinal: u32,
}

/// What a tree keeps of a replica set with its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayPoint {
    pub(crate) applied: Applied,
    pub(crate) horizon_s: u32,
    /// The version of the definition in force.
    pub(crate) version: Option<u64>,
    /// Over everything that the set applied; zero where it has one member.
    pub(crate) checksum: u64,
}

/// In the flags of a replay point: a version of a definition follows, a checksum follows.
const POINT_DEFINED: u8 = 1;
const POINT_SUMMED: u8 = 2;

impl ReplayPoint {
    pub(crate) fn encode(self) -> TreeBytes {
        let mut bytes = Vec::with_capacity(25);
        bytes.extend_from_slice(&self.applied.index.to_be_bytes());
        bytes.extend_from_slice(&self.applied.ordinal.to_be_bytes());
        bytes.extend_from_slice(&self.horizon_s.to_be_bytes());
        let summed = if self.checksum == 0 { 0 } else { POINT_SUMMED };
        bytes.push(u8::from(self.version.is_some()) | summed);
        if let Some(version) = self.version {
            bytes.extend_from_slice(&version.to_be_bytes());
        }
        if self.checksum != 0 {
            bytes.extend_from_slice(&self.checksum.to_be_bytes());
        }
        TreeBytes::from(bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<ReplayPoint> {
        let (index, rest) = bytes.split_first_chunk::<8>()?;
        let (ordinal, rest) = rest.split_first_chunk::<4>()?;
        let (index, ordinal) = (u64::from_be_bytes(*index), u32::from_be_bytes(*ordinal));
        let applied = Applied { index, ordinal };
        if rest.is_empty() {
            // From before there were definitions.
            return Some(ReplayPoint { applied, horizon_s: 0, version: None, checksum: 0 });
        }
        let (horizon_s, rest) = rest.split_first_chunk::<4>()?;
        let horizon_s = u32::from_be_bytes(*horizon_s);
        let (flags, mut rest) = rest.split_first()?;
        let mut take = || {
            let (number, behind) = rest.split_first_chunk::<8>()?;
            rest = behind;
            Some(u64::from_be_bytes(*number))
        };
        let version = if flags & POINT_DEFINED != 0 { Some(take()?) } else { None };
        let checksum = if flags & POINT_SUMMED != 0 { take()? } else { 0 };
        let is_known = flags & !(POINT_DEFINED | POINT_SUMMED) == 0 && rest.is_empty();
        is_known.then_some(ReplayPoint { applied, horizon_s, version, checksum })
    }
}

/// What a tree knows of a replica set.
#[derive(Debug)]
pub(crate) struct SetProgress {
    pub(super) set: SetId,
    /// Everything of the set before this is whole.
    pub(super) published: AtomicU64,
    pub(super) index: AtomicU64,
    pub(super) ordinal: AtomicU32,
    /// By which definition of the table its mutations are applied.
    pub(super) definition: ArcSwapOption<Definition>,
    /// How long what is dead stays, by that definition; for ever without one.
    pub(super) retention_s: AtomicU32,
    /// What died before this second counts as gone.
    pub(super) horizon_s: AtomicU32,
    /// Over what was applied of a set with several members.
    pub(super) checksum: AtomicU64,
    /// What became of named requests.
    pub(super) answers: Mutex<Answers>,
    /// Odd while several keys are being written.
    pub(super) epoch: AtomicU64,
    /// Its keys are another set's by now. Changes under the lock of `readers`.
    pub(super) has_ended: AtomicBool,
    /// The first position of the ring that is another set's since this one was split. Changes under the lock of `readers`.
    limit: Mutex<Option<RingToken>>,
    is_limited: AtomicBool,
    /// From where its readers read.
    pub(super) readers: Mutex<Vec<SeqNo>>,
    /// What of it is in the tree: most sets of a table that was split often have ended, and are not
    /// written again.
    pub(super) kept: Mutex<Option<ReplayPoint>>,
}

/// Nothing says how long what is dead stays.
pub(super) const FOR_EVER_S: u32 = u32::MAX;

impl SetProgress {
    pub(super) fn new(set: SetId, published: SeqNo) -> SetProgress {
        SetProgress::at(set, None, None, published)
    }

    pub(super) fn at(
        set: SetId,
        point: Option<ReplayPoint>,
        definition: Option<Arc<Definition>>,
        published: SeqNo,
    ) -> SetProgress {
        let applied = point.map_or_else(Applied::default, |point| point.applied);
        let retention_s = definition.as_ref().map_or(FOR_EVER_S, |it| it.retention_s);
        SetProgress {
            set,
            published: AtomicU64::new(published),
            index: AtomicU64::new(applied.index),
            ordinal: AtomicU32::new(applied.ordinal),
            definition: ArcSwapOption::new(definition),
            retention_s: AtomicU32::new(retention_s),
            horizon_s: AtomicU32::new(point.map_or(0, |point| point.horizon_s)),
            checksum: AtomicU64::new(point.map_or(0, |point| point.checksum)),
            answers: Mutex::default(),
            epoch: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            limit: Mutex::new(None),
            is_limited: AtomicBool::new(false),
            readers: Mutex::new(Vec::new()),
            kept: Mutex::new(point),
        }
    }

    pub(crate) fn set(&self) -> SetId {
        self.set
    }

    pub(crate) fn replay_point(&self) -> ReplayPoint {
        ReplayPoint {
            applied: self.applied(),
            horizon_s: self.horizon_s.load(Ordering::Relaxed),
            version: self.definition.load().as_ref().map(|definition| definition.table.version),
            checksum: self.checksum(),
        }
    }

    /// The rows of the set were handed over, and are as they were at this point. Only called by the one who applies this set,
    /// under the read side of `seal`.
    pub(crate) fn install(&self, point: ReplayPoint, definition: Option<Arc<Definition>>) {
        let retention_s = definition.as_ref().map_or(FOR_EVER_S, |it| it.retention_s);
        // Answers came with the rows.
        *self.answers.lock() = Answers::default();
        self.definition.store(definition);
        self.retention_s.store(retention_s, Ordering::Relaxed);
        self.horizon_s.store(point.horizon_s, Ordering::Relaxed);
        self.checksum.store(point.checksum, Ordering::Relaxed);
        self.index.store(point.applied.index, Ordering::Release);
        self.ordinal.store(point.applied.ordinal, Ordering::Release);
    }

    /// What is known of named requests beside the tree. Changed only by the one who applies this set, and when what is in memory is
    /// written into the tree.
    pub(crate) fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock()
    }

    /// Several keys are about to change. Only called by the one who applies this set.
    pub(crate) fn begin_many(&self) {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst);
        assert!(
            epoch.is_multiple_of(2) || self.has_ended.load(Ordering::SeqCst),
            "one change at a time"
        );
    }

    /// All of them have changed.
    pub(crate) fn end_many(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// As [`SetProgress::quiet_epoch`], for somebody who reads nothing behind a position of the ring.
    pub(crate) fn quiet_epoch_up_to(&self, last: RingToken) -> Option<u64> {
        self.quiet_epoch().filter(|_| self.holds(last))
    }

    /// What is read between two equal answers was not changed in part; `None` right now it may be.
    pub(crate) fn quiet_epoch(&self) -> Option<u64> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        epoch.is_multiple_of(2).then_some(epoch)
    }

    /// What lies from a position of the ring on is another set's.
    pub(super) fn limit(&self, at: Option<RingToken>) {
        let Some(at) = at else { return };
        let mut limit = self.limit.lock();
        *limit = Some(limit.map_or(at, |known| known.min(at)));
        self.is_limited.store(true, Ordering::SeqCst);
    }

    /// Whether what lies before and at a position of the ring is changed by this set alone.
    pub(crate) fn holds(&self, last: RingToken) -> bool {
        !self.is_limited.load(Ordering::SeqCst) || self.limit.lock().is_none_or(|at| last < at)
    }

    /// The definition in force.
    pub(crate) fn definition(&self) -> Option<Arc<Definition>> {
        self.definition.load_full()
    }

    /// Another definition comes into force, unless a newer one is. What died before the horizon may be gone.
    pub(crate) fn define(&self, definition: &Arc<Definition>, horizon_s: u32) {
        let version = definition.table.version;
        let current = self.definition.load();
        if current.as_ref().is_none_or(|current| current.table.version < version) {
            self.definition.store(Some(Arc::clone(definition)));
            self.retention_s.store(definition.retention_s, Ordering::Relaxed);
        }
        self.horizon_s.fetch_max(horizon_s, Ordering::Relaxed);
    }

    /// An entry of that second is applied: returns what its horizon is. Only called by the one who applies
    /// this set.
    pub(crate) fn begin_entry(&self, now_s: u32) -> u32 {
        let horizon_s = now_s.saturating_sub(self.retention_s.load(Ordering::Relaxed));
        let before_s = self.horizon_s.load(Ordering::Relaxed);
        if horizon_s > before_s {
            self.horizon_s.store(horizon_s, Ordering::Relaxed);
        }
        horizon_s.max(before_s)
    }

    /// The sum over everything that was applied.
    pub(crate) fn checksum(&self) -> u64 {
        self.checksum.load(Ordering::Relaxed)
    }

    /// As if something else had been applied.
    pub(crate) fn spoil(&self) {
        self.checksum.fetch_xor(1 << 40, Ordering::Relaxed);
    }

    /// Adds what became of a mutation, and what it wrote, to the sum. Only called by the one who applies this set, before
    /// [`SetProgress::set_applied`].
    pub(crate) fn note_outcome(
        &self,
        applied: Applied,
        result: &Result<Outcome, CommitError>,
        written_sum: u64,
    ) {
        let kind: u64 = match result {
            Ok(Outcome::Applied) => 1,
            Ok(Outcome::NotApplied { .. }) => 2,
            Err(CommitError::Refused(_)) => 3,
            Err(_) => 4,
        };
        let mut sum = self.checksum();
        for part in [applied.index, u64::from(applied.ordinal), kind, written_sum] {
            // Murmur's last step: every bit counts for every other.
            sum = (sum ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
            sum ^= sum >> 33;
        }
        self.checksum.store(sum, Ordering::Relaxed);
    }

    pub(crate) fn applied(&self) -> Applied {
        Applied {
            index: self.index.load(Ordering::Acquire),
            ordinal: self.ordinal.load(Ordering::Acquire),
        }
    }

    /// Only ever called by the one who applies this set, under the read side of `seal`.
    pub(crate) fn set_applied(&self, applied: Applied) {
        let is_next = applied > self.applied() || breaks(Rule::ApplyTwice);
        assert!(is_next, "entries of a set are applied once, in order");
        self.index.store(applied.index, Ordering::Release);
        self.ordinal.store(applied.ordinal, Ordering::Release);
    }

    pub(crate) fn publish(&self, before: SeqNo) {
        let earlier = self.published.swap(before, Ordering::AcqRel);
        assert!(earlier <= before, "what was shown stays to be seen");
    }

    pub(crate) fn published(&self) -> SeqNo {
        self.published.load(Ordering::Acquire)
    }

    /// While it is held nobody begins to read from a snapshot of the set.
    pub(crate) fn hold_readers(&self) -> MutexGuard<'_, Vec<SeqNo>> {
        self.readers.lock()
    }
}
