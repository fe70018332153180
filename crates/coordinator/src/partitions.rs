//! Changes of the partition map: splits, merges, and what the schema asks for.
//!
//! **A split moves no data.** Both halves keep reading the same trees; what changes is who orders
//! the writes of a key. The steps, and why a crash between any two of them leaves a right map:
//! 1. The change is made durable, in a slot of its own beside the map, which is written as a whole
//!    later. Old and new map name the same keys; after a crash the log is replayed in its own order,
//!    whatever map is used then.
//! 2. The old sets are ended: empty last entries go into the log. What comes later for them is handed
//!    back.
//! 3. At once, and in memory only, writes are located with the new map. Their entries are behind those
//!    of the old sets in the log, share their sync, and are applied after them.
//! 4. When the last entries come out of the log, everything before them is applied, and nothing behind
//!    them: now the new map is shown to everybody.
//!
//! So nobody but who asked for the change waits for a disk because of it. Who still reads with the old
//! map finds the same rows: a read keeps the map it began with.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use partition::{
    History, MapChange, MapRefusal, NodePlace, Origin, PartitionMap, PhysicalPartition, Reason,
    Space, Step, halve, middle,
};
use replica::{CommitError, NodeStore, Slots};
use schema::{Keyspace, KeyspaceKind, Profile, Schema, Throughput};
use types::{PartitionKey, RingToken, SetId, TableId};

use crate::balance::{stored, tables_of, weights};
use crate::catalog::Catalog;
use crate::error::{ExecuteError, failed, refused};
use crate::world::Settings;

/// The name under which storage keeps what happened to the map.
const HISTORY_DOCUMENT: &str = "partition-history";
/// The name under which storage keeps the changes that the map and the history may not have yet: slots,
/// and earlier a document.
pub(crate) const CHANGES: &str = "partition-changes";
/// With so many changes the map is written as a whole before the next one: there is no slot for it.
const UNSAVED_CHANGES_MAX: u64 = Slots::COUNT;
/// With so many it is written when there is time.
const UNSAVED_CHANGES_MANY: u64 = UNSAVED_CHANGES_MAX / 4;
/// Request units per second that a physical partition may spend (D5).
pub(crate) const PARTITION_RU_MAX: u32 = 10_000;
/// In the `cosmos` profile a new space has a physical partition for each of these.
const COSMOS_PARTITION_RU: u32 = 6_000;

/// Where a physical partition is to be split.
#[derive(Clone, Debug)]
pub enum SplitPlace {
    /// So that this key is the first of the second half.
    Key(PartitionKey),
    /// At this position of the internal ring.
    Token(RingToken),
    /// The fullest one, where it halves best.
    Best,
}

impl Catalog {
    /// Splits a physical partition.
    pub fn split(
        &self,
        space: &Space,
        place: &SplitPlace,
        reason: Reason,
    ) -> Result<MapChange, ExecuteError> {
        let _guard = self.definition.lock();
        let map = self.view.maps.load_full();
        let (partition, at) = self.split_place(&map, space, place)?;
        self.split_at(&map, space, partition, at, reason)
    }

    /// The same for a physical partition that may be gone by now.
    pub(crate) fn split_set(
        &self,
        space: &Space,
        set: SetId,
        at: RingToken,
        reason: Reason,
    ) -> Result<(), ExecuteError> {
        let _guard = self.definition.lock();
        let map = self.view.maps.load_full();
        let found = map.partitions(space).iter().find(|partition| partition.set == set).copied();
        match found {
            Some(partition) => self.split_at(&map, space, partition, at, reason).map(drop),
            // Somebody was faster.
            None => Ok(()),
        }
    }

    /// The caller holds the definition lock.
    fn split_at(
        &self,
        map: &PartitionMap,
        space: &Space,
        partition: PhysicalPartition,
        at: RingToken,
        reason: Reason,
    ) -> Result<MapChange, ExecuteError> {
        let bytes = self.bytes_of(space, &[partition]);
        let began_us = self.world.now_us();
        if let Some(agreement) = &self.agreement {
            let begun = (space, reason, bytes, began_us);
            return self.split_group(agreement, partition, at, begun);
        }
        let origin = Origin { made_at_ms: began_us / 1000, reason };
        let next = map.with_split(space, partition.set, at, origin).map_err(refused)?;
        let into = match next.locate_in(space, partition.range.start) {
            Some(left) => match next.locate_in(space, at) {
                Some(right) => [left.set, right.set],
                None => return Err(refused(MapRefusal::NoPartition(partition.set))),
            },
            None => return Err(refused(MapRefusal::NoPartition(partition.set))),
        };
        let step = Step::Split { from: partition.set, at, into };
        self.change_map(next, BegunChange { space, step, reason, bytes, began_us })
    }

    /// Makes one of a physical partition and its neighbour behind it.
    pub fn merge(
        &self,
        space: &Space,
        set: SetId,
        reason: Reason,
    ) -> Result<MapChange, ExecuteError> {
        let _guard = self.definition.lock();
        let map = self.view.maps.load_full();
        let began_us = self.world.now_us();
        let origin = Origin { made_at_ms: began_us / 1000, reason };
        let next = map.with_merge(space, set, origin).map_err(refused)?;
        let gone: Vec<PhysicalPartition> = map
            .partitions(space)
            .iter()
            .filter(|partition| next.origin(partition.set).is_none())
            .copied()
            .collect();
        let [left, right] = gone.as_slice() else {
            return Err(refused(MapRefusal::NoNeighbour(set)));
        };
        let bytes = self.bytes_of(space, &gone);
        let into = next.locate_in(space, left.range.start).map_or(set, |whole| whole.set);
        let step = Step::Merge { from: [left.set, right.set], into };
        self.change_map(next, BegunChange { space, step, reason, bytes, began_us })
    }

    fn change_map(
        &self,
        next: PartitionMap,
        begun: BegunChange<'_>,
    ) -> Result<MapChange, ExecuteError> {
        let (gone, made) = match &begun.step {
            Step::Split { from, into, .. } => (vec![*from], into.to_vec()),
            Step::Merge { from, into } => (from.to_vec(), vec![*into]),
        };
        let mut change = MapChange {
            number: self.history.lock().last_number() + 1,
            at_ms: begun.began_us / 1000,
            space: begun.space.clone(),
            step: begun.step,
            reason: begun.reason,
            bytes: begun.bytes,
            took_us: 0,
            writes_waited_us: 0,
        };
        self.save_change(&next, &change)?;
        let next = Arc::new(next);
        match self.swap_map(&next, &gone, None) {
            Ok(waited_us) => change.writes_waited_us = waited_us,
            Err(error) => {
                // Nothing was ended, so it did not happen; otherwise the next start makes the change.
                if matches!(error, CommitError::DiskFull | CommitError::CannotWriteNow(_)) {
                    self.changes.put(change.number, &[]).map_err(failed)?;
                }
                return Err(error.into());
            }
        }
        let took_us = self.world.now_us() - begun.began_us;
        change.took_us = u64::try_from(took_us).unwrap_or(0);
        self.share_budgets();
        let is_made = |partition: &&PhysicalPartition| made.contains(&partition.set);
        let made: Vec<PhysicalPartition> =
            next.partitions(begun.space).iter().filter(is_made).copied().collect();
        self.traffic.follow_step(begun.space, &gone, &made);
        self.history.lock().push(change.clone());
        tracing::info!(
            space = %change.space, step = ?change.step, reason = change.reason.word(),
            bytes = change.bytes, took_us = change.took_us, "the partition map changed"
        );
        Ok(change)
    }

    /// Makes a change durable, before it is made. The caller holds the definition lock.
    fn save_change(&self, next: &PartitionMap, change: &MapChange) -> Result<(), ExecuteError> {
        if change.number > self.saved_changes.load(Ordering::Relaxed) + UNSAVED_CHANGES_MAX {
            self.save_whole_map()?;
        }
        let text = change.encode();
        if text.len() > Slots::RECORD_BYTES_MAX {
            // Names that fit into no slot.
            let _saving = self.saving.lock();
            return self.save_map(next);
        }
        self.changes.put(change.number, text.as_bytes()).map_err(failed)
    }

    /// Writes the map and its history as a whole, so that the changes until now need not be kept apart.
    pub(crate) fn save_whole_map(&self) -> Result<(), ExecuteError> {
        let _saving = self.saving.lock();
        // A change is part of the map before it is part of the history, so the map has all of these; it
        // may have one more, which is in its slot too.
        let (text, last_number) = {
            let history = self.history.lock();
            (history.encode(), history.last_number())
        };
        self.save_map(&self.view.map())?;
        self.store.save_document(HISTORY_DOCUMENT, text.as_bytes()).map_err(failed)?;
        self.saved_changes.store(last_number, Ordering::Relaxed);
        Ok(())
    }

    /// The same, once there are many changes. Others may go on changing the map meanwhile.
    pub(crate) fn tidy_changes(&self) {
        let saved = self.saved_changes.load(Ordering::Relaxed);
        if self.history.lock().last_number().saturating_sub(saved) < UNSAVED_CHANGES_MANY {
            return;
        }
        // They are kept all the same, and it is tried again.
        if let Err(error) = self.save_whole_map() {
            tracing::warn!(%error, "the partition map could not be written as a whole");
        }
    }

    /// Shows a schema and its map, which are durable. Sets that the map does not have any more are ended
    /// before. The caller holds the definition lock.
    pub(crate) fn show(&self, next: PartitionMap, schema: Schema) -> Result<(), ExecuteError> {
        let before = self.view.maps.load_full();
        let gone = before.sets_gone_in(&next);
        let (next, schema) = (Arc::new(next), Arc::new(schema));
        let ended = self.swap_map(&next, &gone, Some(Arc::clone(&schema)));
        if ended.is_err() {
            // The next start would know both, and the old sets take nothing any more.
            self.view.writing.store(Arc::clone(&next));
            self.view.schemas.store(schema);
            self.view.maps.store(next);
        }
        self.share_budgets();
        self.follow_map();
        drop(before);
        ended?;
        Ok(())
    }

    /// Has writes located with the next map, and everything else as soon as what came before is applied.
    /// Returns how long writers may have waited, in microseconds.
    fn swap_map(
        &self,
        next: &Arc<PartitionMap>,
        gone: &[SetId],
        schema: Option<Arc<Schema>>,
    ) -> Result<u64, CommitError> {
        let show = {
            let (schemas, map, next) =
                (Arc::clone(&self.view.schemas), Arc::clone(&self.view.maps), Arc::clone(next));
            move || {
                if let Some(schema) = schema {
                    schemas.store(schema);
                }
                map.store(next);
            }
        };
        if gone.is_empty() {
            self.view.writing.store(Arc::clone(next));
            show();
            return Ok(0);
        }
        // What nobody uses any more is freed here, not by those who store the next one.
        let before = self.view.maps.load_full();
        let began_us = self.world.now_us();
        let mut waited_us = 0;
        let moving = self.moving.lock();
        let hand_over = || {
            self.view.writing.store(Arc::clone(next));
            drop(moving);
            waited_us = self.world.now_us() - began_us;
        };
        let ended = self.replicas.end_sets(gone, hand_over, show);
        drop(before);
        ended.map(|()| u64::try_from(waited_us).unwrap_or(0))
    }

    /// Finds what is to be split, and where.
    fn split_place(
        &self,
        map: &PartitionMap,
        space: &Space,
        place: &SplitPlace,
    ) -> Result<(PhysicalPartition, RingToken), ExecuteError> {
        let unknown = || refused(MapRefusal::NoSpace(space.clone()));
        match place {
            SplitPlace::Key(key) => {
                let partition = map.locate_in(space, key.ring()).ok_or_else(unknown)?;
                Ok((partition, key.ring()))
            }
            SplitPlace::Token(at) => {
                let partition = map.locate_in(space, *at).ok_or_else(unknown)?;
                Ok((partition, *at))
            }
            SplitPlace::Best => {
                let partitions = map.partitions(space);
                let tables = tables_of(&self.view.schema(), space);
                let held = stored(&self.replicas, &tables, partitions);
                // The fullest; where nothing is stored, the widest.
                let fullest = partitions.iter().zip(held).max_by_key(|(partition, held)| {
                    (held.bytes, partition.range.last.0 - partition.range.start.0)
                });
                let (partition, _) = fullest.ok_or_else(unknown)?;
                let halving =
                    halve(partition.range, &weights(&self.replicas, &tables, partition.range));
                let place = halving.map(|halving| halving.at).or_else(|| middle(partition.range));
                let at = partition.range.last;
                let refusal = || refused(MapRefusal::NotInside { set: partition.set, at });
                Ok((*partition, place.ok_or_else(refusal)?))
            }
        }
    }

    fn bytes_of(&self, space: &Space, partitions: &[PhysicalPartition]) -> u64 {
        let tables = tables_of(&self.view.schema(), space);
        stored(&self.replicas, &tables, partitions).iter().map(|stored| stored.bytes).sum()
    }

    /// The space that holds a table of this name, or, without one, the tables of a keyspace.
    pub fn space_named(&self, keyspace: &str, table: Option<&str>) -> Result<Space, ExecuteError> {
        let schema = self.view.schema();
        let found = schema.keyspace(keyspace);
        let found = found.filter(|keyspace| keyspace.kind != KeyspaceKind::Virtual);
        let Some(found) = found else {
            return Err(ExecuteError::Invalid(format!("keyspace {keyspace} does not exist")));
        };
        let Some(table) = table else { return Ok(Space::Keyspace(Arc::clone(&found.name))) };
        match found.tables.get(table) {
            Some(table) => Ok(space_of(found, &table.name, table.options.throughput.is_some())),
            None => Err(ExecuteError::Invalid(format!("table {keyspace}.{table} does not exist"))),
        }
    }
}

/// A change of the map under way.
struct BegunChange<'p> {
    space: &'p Space,
    step: Step,
    reason: Reason,
    bytes: u64,
    began_us: i64,
}

/// The changes that a map may not have yet, and what happened before this start.
pub(crate) struct KeptChanges {
    /// Everything that is remembered.
    pub(crate) history: History,
    /// The last change that is in the kept map and the kept history.
    pub(crate) saved_number: u64,
    /// Those that a kept map may not have, the oldest first.
    recent: Vec<MapChange>,
}

/// Reads what is kept of changes. The history decides nothing, so damage only makes it empty; without
/// the recent changes the map would not be right.
pub(crate) fn kept_changes(store: &NodeStore, slots: &Slots) -> Result<KeptChanges, ExecuteError> {
    let load = |name: &str| match store.load_document(name) {
        Ok(None) => Ok(History::default()),
        Ok(Some(bytes)) => {
            let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
            History::decode(&text).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let mut history = load(HISTORY_DOCUMENT).unwrap_or_else(|error| {
        tracing::warn!(error, "the history of the partition map is lost");
        History::default()
    });
    let saved_number = history.last_number();
    let wrong = |error: String| failed(format!("{CHANGES}: {error}"));
    // Earlier versions kept them in a document.
    let mut recent: Vec<MapChange> = load(CHANGES).map_err(wrong)?.changes().cloned().collect();
    for record in slots.all().map_err(|error| wrong(error.to_string()))? {
        let line = std::str::from_utf8(&record).ok();
        let change = line.and_then(MapChange::decode);
        recent.push(change.ok_or_else(|| wrong("a record is not a change".to_owned()))?);
    }
    recent.sort_by_key(|change| change.number);
    history.go_on_with(&recent);
    Ok(KeptChanges { history, saved_number, recent })
}

/// The map of a node that ran alone: the kept one with the changes that were made to it since.
pub fn map_with_changes(
    store: &NodeStore,
    map: &PartitionMap,
) -> Result<PartitionMap, ExecuteError> {
    let slots = store.open_slots(CHANGES).map_err(failed)?;
    kept_changes(store, &slots)?.made_to(map)
}

impl KeptChanges {
    /// The map with those changes that it has not.
    pub(crate) fn made_to(&self, map: &PartitionMap) -> Result<PartitionMap, ExecuteError> {
        let mut map = map.clone();
        for change in &self.recent {
            if let Some(next) = map.with_change(change).map_err(refused)? {
                map = next;
            }
        }
        Ok(map)
    }
}

fn space_of(keyspace: &Keyspace, table: &Arc<str>, has_own: bool) -> Space {
    let keyspace = Arc::clone(&keyspace.name);
    match has_own {
        true => Space::Table { keyspace, table: Arc::clone(table) },
        false => Space::Keyspace(keyspace),
    }
}

/// How many physical partitions a new space has.
pub(crate) fn start_count(throughput: Option<Throughput>, settings: &Settings) -> u32 {
    let Some(throughput) = throughput else { return settings.physical_per_space };
    let (ru, per_partition) = match (throughput, settings.profile) {
        (Throughput::Manual(ru), Profile::Cosmos) => (ru, COSMOS_PARTITION_RU),
        (Throughput::Manual(ru) | Throughput::Autoscale(ru), _) => (ru, PARTITION_RU_MAX),
    };
    ru.div_ceil(per_partition).max(1)
}

/// The map for a schema: every keyspace with stored tables has its space, every table with its own
/// throughput too, and nothing else has. Sets without members get theirs on some of `nodes`; a node that runs alone has none.
pub(crate) fn place(
    map: &PartitionMap,
    schema: &Schema,
    settings: &Settings,
    nodes: &[NodePlace],
    now_ms: i64,
) -> PartitionMap {
    let stored =
        || schema.keyspaces.values().filter(|keyspace| keyspace.kind != KeyspaceKind::Virtual);
    let mut next = map.clone();
    let mut tables: Vec<(TableId, Space)> = Vec::new();
    let mut wanted: Vec<Space> = Vec::new();
    for keyspace in stored() {
        let shared = Space::Keyspace(Arc::clone(&keyspace.name));
        next = next.with_space(
            shared.clone(),
            start_count(keyspace.options.throughput, settings),
            now_ms,
        );
        for table in keyspace.tables.values().filter(|table| !table.is_virtual) {
            let own = table.options.throughput;
            let space = space_of(keyspace, &table.name, own.is_some());
            if own.is_some() {
                // What it wrote to the shared sets must be applied before its own take over.
                if map.is_in(table.id, &shared) {
                    next = next.with_fresh_sets(&shared, now_ms);
                }
                next = next.with_space(space.clone(), start_count(own, settings), now_ms);
                wanted.push(space.clone());
            }
            tables.push((table.id, space));
        }
        wanted.push(shared);
    }
    wanted.sort();
    let gone: Vec<Space> = next
        .spaces()
        .map(|(space, _)| space.clone())
        .filter(|space| wanted.binary_search(space).is_err())
        .collect();
    for space in gone {
        next = next.without_space(&space);
    }
    next.with_all_placed(nodes).with_tables(tables.into_iter())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI32};

    use super::*;
    use crate::testing::{KEYSPACE, Node, settings};

    fn node() -> (Node, Space) {
        let node = Node::new(settings());
        node.run_all(&[KEYSPACE, "CREATE TABLE k.t (p int PRIMARY KEY, v int)"]);
        let space = node.catalog.space_named("k", None).unwrap();
        (node, space)
    }

    fn sets(node: &Node, space: &Space) -> Vec<SetId> {
        node.catalog.view.map().partitions(space).iter().map(|partition| partition.set).collect()
    }

    fn bounds(node: &Node, space: &Space) -> Vec<RingToken> {
        let map = node.catalog.view.map();
        map.partitions(space).iter().map(|partition| partition.range.start).collect()
    }

    #[test]
    fn splits_and_merges_lose_nothing_and_outlive_a_crash() {
        let (node, space) = node();
        for p in 0..50 {
            node.run_all(&[&format!("INSERT INTO k.t (p, v) VALUES ({p}, {p})")]);
        }
        let whole = node.numbers("SELECT v FROM k.t");
        let first = sets(&node, &space)[0];
        let key = PartitionKey::new(7i32.to_be_bytes().to_vec().into());
        let made = node.catalog.split(&space, &SplitPlace::Key(key.clone()), Reason::Hand).unwrap();
        assert!(
            matches!(made.step, Step::Split { from, at, .. } if (from, at) == (first, key.ring()))
        );
        node.run_all(&["UPDATE k.t SET v = 1000 WHERE p = 7"]);
        node.catalog.split(&space, &SplitPlace::Best, Reason::Hand).unwrap();
        let kept = (sets(&node, &space), bounds(&node, &space));
        assert_eq!(kept.0.len(), 3);
        let node = node.restarted();
        assert_eq!((sets(&node, &space), bounds(&node, &space)), kept);
        assert_eq!(node.numbers("SELECT v FROM k.t WHERE p = 7"), [1000]);
        node.run_all(&["UPDATE k.t SET v = 7 WHERE p = 7"]);
        node.catalog.merge(&space, kept.0[0], Reason::Hand).unwrap();
        node.catalog.merge(&space, sets(&node, &space)[0], Reason::Hand).unwrap();
        assert_eq!(bounds(&node, &space), [RingToken(0)]);
        assert_eq!(node.numbers("SELECT v FROM k.t"), whole);
        let told = node.rows("SELECT number FROM system_helenus.partition_history");
        assert_eq!(told.len(), 4);
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let (node, space) = node();
        let before = sets(&node, &space);
        let outside = SplitPlace::Token(RingToken(0));
        assert!(node.catalog.split(&space, &outside, Reason::Hand).is_err());
        assert!(node.catalog.merge(&space, before[0], Reason::Hand).is_err());
        let nowhere = Space::Keyspace("nowhere".into());
        assert!(node.catalog.split(&nowhere, &SplitPlace::Best, Reason::Hand).is_err());
        assert_eq!(sets(&node, &space), before);
        let unknown = |keyspace, table| node.catalog.space_named(keyspace, table).unwrap_err();
        assert_eq!(unknown("nowhere", None).to_string(), "keyspace nowhere does not exist");
        assert_eq!(unknown("k", Some("u")).to_string(), "table k.u does not exist");
        assert!(node.catalog.space_named("system_views", None).is_err());
    }

    /// More changes than there are slots, so that the map is written as a whole between them.
    #[test]
    fn many_changes_are_all_kept() {
        let (node, space) = node();
        node.run_all(&["INSERT INTO k.t (p, v) VALUES (1, 1)"]);
        let count = Slots::COUNT as u128 + 10;
        for number in 1..=count {
            let at = SplitPlace::Token(RingToken(u128::MAX / 1024 * number));
            node.catalog.split(&space, &at, Reason::Hand).unwrap();
        }
        let kept = bounds(&node, &space);
        assert_eq!(kept.len() as u128, count + 1);
        let node = node.restarted();
        assert_eq!(bounds(&node, &space), kept);
        assert_eq!(node.numbers("SELECT v FROM k.t"), [1]);
        // When there is time the map is written, and the changes need not be kept apart.
        node.catalog.tidy_changes();
        let history = node.catalog.history.lock().last_number();
        assert_eq!(node.catalog.saved_changes.load(Ordering::Relaxed), history);
        assert_eq!(bounds(&node.restarted(), &space), kept);
    }

    #[test]
    fn writers_go_on_while_the_map_changes() {
        let (node, space) = node();
        let (is_over, written) = (AtomicBool::new(false), AtomicI32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let p = written.fetch_add(1, Ordering::Relaxed);
                        node.run_all(&[&format!("INSERT INTO k.t (p, v) VALUES ({p}, {p})")]);
                    }
                });
            }
            for round in 0..20u128 {
                let at = SplitPlace::Token(RingToken(u128::MAX / 32 * (round + 1)));
                node.catalog.split(&space, &at, Reason::Hand).unwrap();
                if round % 3 == 2 {
                    let first = sets(&node, &space)[0];
                    node.catalog.merge(&space, first, Reason::Hand).unwrap();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let count = written.load(Ordering::Relaxed);
        let check = |node: &Node| {
            let mut found = node.numbers("SELECT v FROM k.t");
            found.sort_unstable();
            assert_eq!(found, (0..count).collect::<Vec<_>>());
        };
        check(&node);
        check(&node.restarted());
    }

    #[test]
    fn a_dropped_keyspace_takes_its_space_along() {
        let (node, space) = node();
        let gone = sets(&node, &space);
        node.run_all(&["DROP KEYSPACE k", KEYSPACE, "CREATE TABLE k.t (p int PRIMARY KEY, v int)"]);
        assert!(sets(&node, &space).iter().all(|set| !gone.contains(set)), "numbers are used once");
        assert_eq!(node.numbers("SELECT v FROM k.t"), Vec::<i32>::new());
    }
}
