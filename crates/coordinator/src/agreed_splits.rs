//! Splits in a cluster (D14): the log of the set decides, and the map follows.
//!
//! 1. A number for the second half is agreed on, so that nobody else gets it.
//! 2. Whoever leads the set has it split, by an entry of its log. Every node that applies it has the new map at once
//!    ([`Catalog::learn_split`]), before anybody may read what was written through the second half.
//! 3. The map with both halves is agreed on, for the nodes that have no member. If whoever splits stops before that, the leader of the
//!    second half does it later.

use std::sync::Arc;

use partition::{MapChange, Origin, PartitionMap, PhysicalPartition, Reason, Space, Step};
use replica::CommitError;
use replica::group::{Role, SplitOff};
use types::{RingToken, SetId};

use crate::agreement::Agreement;
use crate::catalog::Catalog;
use crate::error::{ExecuteError, failed};

/// A map with everything that was split off, as far as it has the sets that were split.
pub(crate) fn with_splits(map: &PartitionMap, splits: &[SplitOff], now_ms: i64) -> PartitionMap {
    let origin = Origin { made_at_ms: now_ms, reason: Reason::Hand };
    let mut map = map.clone();
    // What was split off may have been split again: in the order of their numbers each finds the set that it comes from.
    let mut splits = splits.to_vec();
    splits.sort_unstable_by_key(|split| split.right);
    for SplitOff { left, right, at } in splits {
        if map.origin(right).is_none()
            && let Some(next) = map.with_split_off(left, at, right, origin)
        {
            map = next;
        }
    }
    map
}

/// The sets of a map that is shown which another one has not, together with what was split off.
fn gone_in(
    shown: &PartitionMap,
    next: &PartitionMap,
    splits: &[SplitOff],
    now_ms: i64,
) -> Vec<SetId> {
    shown.sets_gone_in(&with_splits(next, splits, now_ms))
}

/// What a split came to: an answer that got lost, or came of asking twice, is no reason to say that there was none. `is_known`: a member
/// of this node has both halves.
fn become_split(
    answer: Result<(), CommitError>,
    is_known: impl FnOnce() -> bool,
) -> Result<(), ExecuteError> {
    match answer {
        Ok(()) => Ok(()),
        Err(_) if is_known() => Ok(()),
        Err(CommitError::TimedOut) => Err(failed(
            "no answer came in time: whether it is split shows in a while, see `helenus partitions`",
        )),
        Err(error) => Err(error.into()),
    }
}

impl Catalog {
    /// This node's members are asked to tell of splits.
    pub fn hear_of_splits(self: &Arc<Catalog>) {
        let Some(agreement) = &self.agreement else { return };
        let catalog = Arc::downgrade(self);
        agreement.groups.on_split(Box::new(move |split| {
            if let Some(catalog) = catalog.upgrade() {
                catalog.learn_split(split);
            }
        }));
    }

    /// A set was split off another one on this node. Called by the thread that drives members: it must not wait.
    fn learn_split(&self, split: SplitOff) {
        let mut known = self.split_off.lock();
        if !known.contains(&split) {
            known.push(split);
        }
        let map = self.view.maps.load_full();
        let next = Arc::new(with_splits(&map, &known, self.world.now_us() / 1000));
        if next.epoch() != map.epoch() {
            self.view.writing.store(Arc::clone(&next));
            self.view.maps.store(next);
        }
    }

    /// A map with what this node's members know of splits.
    pub(crate) fn with_known_splits(&self, map: &PartitionMap) -> PartitionMap {
        with_splits(map, &self.split_off.lock(), self.world.now_us() / 1000)
    }

    /// The sets that this node shows and that are not in a map, whatever was split off since that map was made. A member may be
    /// told of a split at any moment: what it knows and what this node shows are looked at as one.
    pub(crate) fn sets_to_end(&self, map: &PartitionMap) -> Vec<SetId> {
        let known = self.split_off.lock();
        gone_in(&self.view.map(), map, &known, self.world.now_us() / 1000)
    }

    /// What the map has that this node follows need not be remembered: nobody goes back behind it.
    pub(crate) fn forget_splits_in(&self, followed: &PartitionMap) {
        self.split_off.lock().retain(|split| followed.origin(split.right).is_none());
    }

    /// The sets that came to be by a split which all nodes agree on, with when and why.
    pub fn splits_agreed_on(&self) -> Vec<(SetId, Space, Origin)> {
        let map = self.view.map();
        let unsettled = self.split_off.lock();
        let mut found = Vec::new();
        for (space, partition) in
            map.spaces().flat_map(|(space, it)| it.iter().map(move |it| (space, it)))
        {
            // What only this node knows of yet has not got its reason.
            let is_settled = !unsettled.iter().any(|split| split.right == partition.set);
            let origin = map.origin(partition.set).filter(|origin| {
                use Reason::{Hand, Heat, Storage, Throughput};
                is_settled && matches!(origin.reason, Storage | Throughput | Heat | Hand)
            });
            found.extend(origin.map(|origin| (partition.set, space.clone(), origin)));
        }
        found
    }

    /// Whether this node leads a set; a node that runs alone leads all.
    pub(crate) fn leads(&self, set: SetId) -> bool {
        let Some(agreement) = &self.agreement else { return true };
        let told = agreement.groups.told();
        told.member(set).is_some_and(|member| member.role == Role::Leader)
    }

    /// Splits a set of several members. The caller holds the definition lock.
    pub(crate) fn split_group(
        &self,
        agreement: &Agreement,
        partition: PhysicalPartition,
        at: RingToken,
        (space, reason, bytes, began_us): (&Space, Reason, u64, i64),
    ) -> Result<MapChange, ExecuteError> {
        let left = partition.set;
        let right = self.agree_both(agreement, &mut |schema, map| {
            let (map, right) = map.with_reserved_set();
            Ok(Some((schema.clone(), map, right)))
        })?;
        let right = right.ok_or_else(|| failed("no number for the new physical partition"))?;
        let answer = agreement.groups.split(left, partition.range, at, right).wait().map(drop);
        become_split(answer, || self.view.map().origin(right).is_some())?;
        let origin = Origin { made_at_ms: began_us / 1000, reason };
        let agreed = self.agree_both(agreement, &mut |schema, map| {
            let map = self.with_known_splits(map);
            let map =
                map.with_split_off(left, at, right, origin).map(|it| it.with_origin(right, origin));
            Ok(map.map(|map| (schema.clone(), map, ())))
        });
        if let Err(error) = agreed {
            // It is made all the same: whoever leads the second half tells it to all, see `record_splits`.
            tracing::warn!(%space, %error, "a split is made, and could not be told to all nodes yet");
        }
        let took_us = u64::try_from(self.world.now_us() - began_us).unwrap_or(0);
        self.share_budgets();
        self.follow_map();
        let change = MapChange {
            number: 0,
            at_ms: began_us / 1000,
            space: space.clone(),
            step: Step::Split { from: left, at, into: [left, right] },
            reason,
            bytes,
            took_us,
            writes_waited_us: 0,
        };
        tracing::info!(%space, left = left.0, right = right.0, took_us, "a replica set was split");
        self.history.lock().push(change.clone());
        Ok(change)
    }

    /// Splits that are not agreed on yet, because whoever made them stopped, are told to all by whoever leads what was split off.
    pub(crate) fn record_splits(&self, agreement: &Agreement) {
        if self.split_off.lock().is_empty() {
            return;
        }
        let agreed = match self.agreed_map(agreement) {
            Ok(Some(map)) => map,
            Ok(None) | Err(_) => return,
        };
        // It is remembered until this node follows a map that has it: an older one that is just being read has not.
        let mut unsaid = self.split_off.lock().clone();
        unsaid.retain(|split| agreed.origin(split.right).is_none());
        if !unsaid.iter().any(|split| self.leads(split.right)) {
            return;
        }
        let _guard = self.definition.lock();
        let recorded = self.agree_both(agreement, &mut |schema, map| {
            Ok(Some((schema.clone(), self.with_known_splits(map), ())))
        });
        if let Err(error) = recorded {
            tracing::debug!(%error, "a split could not be told to all nodes yet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its leader stopped right after it was made, or another one was asked, who finds it done.
    #[test]
    fn a_split_that_was_made_is_no_error() {
        assert!(become_split(Ok(()), || false).is_ok());
        for error in [CommitError::TimedOut, CommitError::Moved] {
            assert!(become_split(Err(error.clone()), || true).is_ok(), "{error}");
            assert!(become_split(Err(error), || false).is_err());
        }
    }

    /// A map is read, a set is split, and only then this node becomes what the map says: the right half is not taken for dropped.
    #[test]
    fn what_was_split_off_meanwhile_is_not_ended() {
        let read = PartitionMap::default().with_space(Space::Keyspace("k".into()), 1, 0);
        let left = read.spaces().flat_map(|(_, it)| it.iter()).next().unwrap().set;
        let (reserved, right) = read.with_reserved_set();
        let at = RingToken(1 << 127);
        let splits = [SplitOff { left, right, at }];
        let shown = with_splits(&reserved, &splits, 0);
        assert_eq!(
            gone_in(&shown, &read, &[], 0),
            [right],
            "without what members know it would be"
        );
        assert_eq!(gone_in(&shown, &read, &splits, 0), []);
        let dropped = PartitionMap::default();
        let mut all = gone_in(&shown, &dropped, &splits, 0);
        all.sort_unstable();
        assert_eq!(all, [left, right], "with its keyspace it goes");
    }

    /// What logs say of splits is in the map, in whatever order it was heard of, and once; a split of a set that the map does not know
    /// waits.
    #[test]
    fn a_map_has_every_split_that_logs_know_of() {
        let space = Space::Keyspace("ks".into());
        let map = PartitionMap::default().with_space(space.clone(), 1, 0);
        let [whole] = map.partitions(&space) else { panic!("one partition") };
        let (left, quarter) = (whole.set, u128::MAX / 4);
        let off = |left, right, at| SplitOff { left, right: SetId(right), at: RingToken(at) };
        let (first, second) = (off(left, 8, quarter * 2), off(SetId(8), 9, quarter * 3));
        let stray = off(SetId(70), 71, quarter);
        for known in [vec![first, second], vec![second, first, stray]] {
            let next = with_splits(&map, &known, 5);
            let held: Vec<(SetId, u128)> =
                next.partitions(&space).iter().map(|it| (it.set, it.range.start.0)).collect();
            let wanted = [(left, 0), (SetId(8), quarter * 2), (SetId(9), quarter * 3)];
            assert_eq!(held, wanted);
            assert_eq!(with_splits(&next, &known, 6).epoch(), next.epoch(), "once");
        }
    }
}
