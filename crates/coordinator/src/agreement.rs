//! Definitions in a cluster (D15): the schema and the map are one document that all nodes agree on.
//!
//! Whoever defines something works out the *result*, and proposes it as the next version. If somebody else was faster, it is worked out
//! anew from what that one made. Every node, this one too, then follows what was agreed on: it has its storage, its replica sets, its
//! schema and its map become that, and tells its clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::{Condvar, Mutex};
use partition::{NodePlace, PartitionMap, voter_count};
use replica::group::{Groups, Replaced, RingMap, SYSTEM_SET, SYSTEM_TABLE, SharedDocuments};
use schema::{Difference, Schema, Table};
use types::{NodeId, RingRange, RingToken, SetId, TableId};

use crate::agreed_splits::with_splits;
use crate::balance::tables_of;
use crate::catalog::Catalog;
use crate::definitions::SCHEMA_DOCUMENT;
use crate::error::{ExecuteError, failed, refused};
use crate::partitions::place;
use crate::view::View;

/// The name of the document.
const CATALOG: &str = "catalog";
/// The version of it that this node follows, beside its schema and its map.
pub const FOLLOWED_DOCUMENT: &str = "agreed";
/// The first byte of the document.
const FORM: u8 = 1;
/// So often a definition is worked out anew because others were faster.
const RACES_MAX: usize = 100;
/// So long somebody waits until this node hears of a split.
const MOVED_WAIT: Duration = Duration::from_millis(10);
/// So many nodes decide what is agreed on; all others follow.
const SYSTEM_VOTERS_MAX: usize = 5;
/// So long a definition waits until the other nodes show it; then it is answered all the same.
const SHOWN_WAIT: Duration = Duration::from_secs(2);

/// What a node that is not alone agrees on with the others, and how.
pub struct Agreement {
    documents: SharedDocuments,
    pub(crate) groups: Groups,
    /// The nodes that there are.
    nodes: ArcSwap<Vec<NodePlace>>,
    /// What clients call them.
    host_ids: ArcSwap<BTreeMap<NodeId, u128>>,
    /// The version that this node follows.
    followed: AtomicI64,
    bell: Mutex<Bell>,
    rung: Condvar,
}

/// Makes the next schema from the one before, and something beside it; nothing if there is nothing to do.
pub(crate) type WorkOut<'w, T> =
    dyn FnMut(&Schema) -> Result<Option<(Schema, T)>, ExecuteError> + 'w;

/// Makes the next schema and map.
pub(crate) type WorkOutBoth<'w, T> = dyn FnMut(&Schema, &PartitionMap) -> Result<Option<(Schema, PartitionMap, T)>, ExecuteError>
    + 'w;

#[derive(Default)]
struct Bell {
    is_rung: bool,
    is_closing: bool,
}

impl Agreement {
    /// With these nodes.
    pub fn new(
        documents: SharedDocuments,
        groups: Groups,
        nodes: Vec<NodePlace>,
        host_ids: BTreeMap<NodeId, u128>,
        is_first: bool,
    ) -> Arc<Agreement> {
        let agreement = Arc::new(Agreement {
            documents,
            groups: groups.clone(),
            nodes: ArcSwap::from_pointee(nodes),
            host_ids: ArcSwap::from_pointee(host_ids),
            followed: AtomicI64::new(0),
            bell: Mutex::default(),
            rung: Condvar::new(),
        });
        let ringing = Arc::clone(&agreement);
        groups.on_applied(SYSTEM_SET, Box::new(move || ringing.ring()));
        let nodes: Vec<NodeId> = agreement.host_ids.load().keys().copied().collect();
        let voters = voter_count(nodes.len()).min(SYSTEM_VOTERS_MAX);
        // Who came later is handed what was agreed on before.
        if is_first {
            agreement.groups.begin(SYSTEM_SET, RingRange::FULL, &nodes, voters);
        }
        agreement
    }

    /// The nodes that there are.
    pub fn nodes(&self) -> Arc<Vec<NodePlace>> {
        self.nodes.load_full()
    }

    /// The nodes that there are from now on, those that get members of new sets, and what clients call all of them.
    pub fn set_nodes(&self, nodes: Vec<NodePlace>, host_ids: BTreeMap<NodeId, u128>) {
        self.nodes.store(Arc::new(nodes));
        self.host_ids.store(Arc::new(host_ids));
    }

    /// What clients call some of the nodes.
    pub(crate) fn hosts_of(&self, nodes: &[NodeId]) -> Vec<u128> {
        let host_ids = self.host_ids.load();
        nodes.iter().filter_map(|node| host_ids.get(node).copied()).collect()
    }

    /// This node's members of the sets that begin with one here begin. Those that are known are left as they are.
    fn begin_sets(&self, map: &PartitionMap) {
        for partition in map.spaces().flat_map(|(_, partitions)| partitions) {
            let first = map.first_members(partition.set);
            if let Some(nodes) = first.filter(|nodes| nodes.contains(&self.groups.node())) {
                let voters = voter_count(nodes.len());
                self.groups.begin(partition.set, partition.range, nodes, voters);
            }
        }
    }

    /// Everything that is agreed on.
    pub fn documents(&self) -> &SharedDocuments {
        &self.documents
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> u32 {
        u32::try_from(self.nodes.load().len()).unwrap_or(u32::MAX)
    }

    /// The version that this node follows; zero before the first.
    pub fn followed(&self) -> i64 {
        self.followed.load(Ordering::Acquire)
    }

    fn ring(&self) {
        self.bell.lock().is_rung = true;
        self.rung.notify_all();
    }

    /// Waits until something may have been agreed on. `false` if it is over.
    pub fn wait(&self) -> bool {
        let mut bell = self.bell.lock();
        while !bell.is_rung && !bell.is_closing {
            self.rung.wait(&mut bell);
        }
        bell.is_rung = false;
        !bell.is_closing
    }

    /// Nobody waits any more.
    pub fn close(&self) {
        self.bell.lock().is_closing = true;
        self.rung.notify_all();
    }
}

/// Which set holds a key, as this node knows.
struct AgreedMap {
    view: View,
    agreement: Weak<Agreement>,
}

impl RingMap for AgreedMap {
    fn version(&self) -> u64 {
        let followed = self.agreement.upgrade().map_or(0, |agreement| agreement.followed());
        u64::try_from(followed).unwrap_or(0)
    }

    fn locate(&self, table: TableId, ring: RingToken) -> Option<SetId> {
        self.view.writing.load().locate(table, ring).map(|partition| partition.set)
    }
}

fn encode(schema: &Schema, map: &PartitionMap) -> Bytes {
    let (schema, map) = (schema::persist::encode(schema), map.encode());
    let mut bytes = BytesMut::with_capacity(schema.len() + map.len() + 9);
    bytes.put_u8(FORM);
    bytes.put_u64(schema.len() as u64);
    bytes.put_slice(&schema);
    bytes.put_slice(map.as_bytes());
    bytes.freeze()
}

fn decode(bytes: &[u8]) -> Option<(Schema, PartitionMap)> {
    let rest = bytes.strip_prefix(&[FORM])?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (schema, map) =
        rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)?;
    let schema = schema::persist::decode(schema, &schema::initial_schema()).ok()?;
    let map = PartitionMap::decode(std::str::from_utf8(map).ok()?).ok()?;
    Some((schema, map))
}

/// A set of several members cannot take over the rows of another one yet.
fn ensure_sets_stay(before: &PartitionMap, after: &PartitionMap) -> Result<(), ExecuteError> {
    for (space, partitions) in after.spaces() {
        let known = before.partitions(space);
        if !known.is_empty() && known != partitions {
            return Err(refused(
                "a table with rows cannot get throughput of its own in a cluster yet: create it with that throughput",
            ));
        }
    }
    Ok(())
}

impl Catalog {
    /// How many members of sets each node has, or is to have, by the map: that of what all agree on is not counted.
    pub fn member_counts(&self) -> BTreeMap<NodeId, usize> {
        let map = self.view.map();
        let mut counts = BTreeMap::new();
        for partition in map.spaces().flat_map(|(_, partitions)| partitions) {
            for node in map.members(partition.set) {
                *counts.entry(*node).or_default() += 1;
            }
        }
        counts
    }

    /// The nodes whose members of a set are to decide, and those whose members are to follow.
    pub fn members_of(&self, set: SetId) -> (Vec<NodeId>, Vec<NodeId>) {
        let map = self.view.map();
        let (voters, learners) = map.roles(set);
        (voters.to_vec(), learners.to_vec())
    }

    /// Every set with the nodes that are to have its members, those that decide first.
    pub fn placed_sets(&self) -> Vec<(SetId, Vec<NodeId>, Vec<NodeId>)> {
        let map = self.view.map();
        let partitions = map.spaces().flat_map(|(_, partitions)| partitions.iter());
        let placed = |set| {
            let (voters, learners) = map.roles(set);
            (set, voters.to_vec(), learners.to_vec())
        };
        partitions.map(|it| placed(it.set)).collect()
    }

    /// Other nodes are to have the members of sets. Their leaders see to it.
    pub fn place_sets(
        &self,
        placed: &[(SetId, Vec<NodeId>, Vec<NodeId>)],
    ) -> Result<(), ExecuteError> {
        let Some(agreement) = &self.agreement else { return Ok(()) };
        let _guard = self.definition.lock();
        self.agree_both(agreement, &mut |schema, map| {
            let is_known = |set: SetId| map.find_set(set).is_some();
            let known = placed.iter().filter(|(set, _, _)| is_known(*set));
            let next = known.fold(map.clone(), |map, (set, voters, learners)| {
                map.with_members(*set, voters, learners)
            });
            Ok((next.epoch() != map.epoch()).then(|| (schema.clone(), next, ())))
        })
        .map(drop)
    }

    /// What clients call the nodes that have a set's members; `own` on a node that runs alone.
    pub(crate) fn replica_hosts(&self, members: &[NodeId], own: u128) -> Vec<u128> {
        match &self.agreement {
            None => vec![own],
            Some(agreement) => agreement.hosts_of(members),
        }
    }

    /// What this node agrees on with others; `None` for a node that runs alone.
    pub fn agreement(&self) -> Option<&Arc<Agreement>> {
        self.agreement.as_ref()
    }

    /// The map that was agreed on last, as far as this node's member knows.
    pub(crate) fn agreed_map(
        &self,
        agreement: &Agreement,
    ) -> Result<Option<PartitionMap>, ExecuteError> {
        let document = agreement.documents.read(CATALOG)?;
        Ok(document.and_then(|document| decode(&document.body)).map(|(_, map)| map))
    }

    /// Has this node become what was agreed on. Called by one thread whenever something may have been.
    pub fn follow_agreed(&self) -> Result<(), ExecuteError> {
        let _guard = self.definition.lock();
        self.follow()
    }

    /// The first document: whoever comes first proposes what a new node has. `false` if nobody could be asked.
    pub fn agree_first(&self) -> Result<bool, ExecuteError> {
        let _guard = self.definition.lock();
        let Some(agreement) = &self.agreement else { return Ok(true) };
        if !agreement.documents.catch_up() {
            return Ok(false);
        }
        if agreement.documents.read(CATALOG)?.is_none() {
            let (nodes, now_ms) = (agreement.nodes(), self.world.now_us() / 1000);
            // A node that ran alone brings what it has.
            let before = self.view.maps.load_full();
            let schema = match before.spaces().next() {
                Some(_) => Schema::clone(&self.view.schema()),
                None => schema::initial_schema().with_fresh_version(),
            };
            let map = place(&before, &schema, &self.settings, &nodes, now_ms);
            let body = encode(&schema, &map);
            agreement.documents.replace(CATALOG, None, body, self.world.now_us())?;
        }
        if !agreement.documents.catch_up() {
            return Ok(false);
        }
        self.follow()?;
        Ok(agreement.followed() > 0)
    }

    /// Works something out from what is agreed on, and has it agreed on: `None` from `work_out` means that there is nothing to do.
    /// The caller holds the definition lock.
    pub(crate) fn agree<T>(
        &self,
        agreement: &Agreement,
        work_out: &mut WorkOut<'_, T>,
    ) -> Result<Option<T>, ExecuteError> {
        self.agree_both(agreement, &mut |schema, before| {
            let Some((schema, made)) = work_out(schema)? else { return Ok(None) };
            if agreement.nodes().is_empty() {
                return Err(failed(
                    "no node of the cluster takes new sets: all are draining or leaving",
                ));
            }
            let (nodes, now_ms) = (agreement.nodes(), self.world.now_us() / 1000);
            let map = place(before, &schema, &self.settings, &nodes, now_ms);
            ensure_sets_stay(before, &map)?;
            Ok(Some((schema, map, made)))
        })
    }

    /// The same for schema and map.
    pub(crate) fn agree_both<T>(
        &self,
        agreement: &Agreement,
        work_out: &mut WorkOutBoth<'_, T>,
    ) -> Result<Option<T>, ExecuteError> {
        for _ in 0..RACES_MAX {
            self.catch_up(agreement)?;
            let known = agreement.followed();
            let before = self.view.maps.load_full();
            let Some((schema, map, made)) = work_out(&self.view.schema(), &before)? else {
                return Ok(None);
            };
            let body = encode(&schema, &map);
            let now_us = self.world.now_us();
            match agreement.documents.replace(CATALOG, Some(known), body, now_us)? {
                Replaced::Lost => continue,
                Replaced::Done => {
                    self.catch_up(agreement)?;
                    self.wait_until_shown(agreement, known + 1);
                    return Ok(Some(made));
                }
            }
        }
        Err(failed("other definitions were always faster; try again"))
    }

    /// This node has everything that was agreed on before.
    fn catch_up(&self, agreement: &Agreement) -> Result<(), ExecuteError> {
        if !agreement.documents.catch_up() {
            let (required, _, alive) = agreement.groups.alive(SYSTEM_SET);
            return Err(replica::CommitError::Unavailable { required, alive }.into());
        }
        self.follow()
    }

    /// Drivers ask other nodes next, and are to find it there.
    fn wait_until_shown(&self, agreement: &Agreement, version: i64) {
        let _ = agreement.groups.wait_until_others_show(version as u64, SHOWN_WAIT);
    }

    /// The caller holds the definition lock.
    fn follow(&self) -> Result<(), ExecuteError> {
        let Some(agreement) = &self.agreement else { return Ok(()) };
        if agreement.followed() == 0 {
            self.go_on(agreement)?;
        }
        let Some(document) = agreement.documents.read(CATALOG)? else { return Ok(()) };
        if document.version <= agreement.followed() {
            return Ok(());
        }
        let (schema, map) = decode(&document.body)
            .ok_or_else(|| failed("what the cluster agreed on cannot be read by this version"))?;
        // Statements of tables that did not change stay prepared.
        let schema = schema.sharing(&self.schema());
        // Which tables a set holds follows from the schema.
        let (nodes, now_ms) = (agreement.nodes(), self.world.now_us() / 1000);
        let map = place(&map, &schema, &self.settings, &nodes, now_ms);
        self.become_agreed(agreement, schema, self.with_known_splits(&map))?;
        self.store
            .save_document(FOLLOWED_DOCUMENT, document.version.to_string().as_bytes())
            .map_err(failed)?;
        agreement.followed.store(document.version, Ordering::Release);
        agreement.groups.show(document.version as u64);
        self.forget_splits_in(&map);
        Ok(())
    }

    /// After a restart this node goes on with what it followed before. Its member of the system set may not know yet that the last
    /// versions were agreed on: going back to an older one would drop the tables, with their rows, that came since.
    fn go_on(&self, agreement: &Agreement) -> Result<(), ExecuteError> {
        let Some(bytes) = self.store.load_document(FOLLOWED_DOCUMENT).map_err(failed)? else {
            return Ok(());
        };
        let version = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<i64>().ok());
        let version = version.filter(|version| *version > 0);
        let version =
            version.ok_or_else(|| failed("the version that this node follows is damaged"))?;
        agreement.begin_sets(&self.view.map());
        agreement.followed.store(version, Ordering::Release);
        agreement.groups.show(version as u64);
        Ok(())
    }

    /// The order is that of a definition on a node that runs alone: what is new exists before anyone can write to it, and what is gone
    /// is removed when nobody can.
    fn become_agreed(
        &self,
        agreement: &Agreement,
        schema: Schema,
        map: PartitionMap,
    ) -> Result<(), ExecuteError> {
        let before = self.schema();
        let difference = Difference::between(&before, &schema);
        for table in difference.created.iter().filter_map(|table| schema.table_by_id(*table)) {
            self.store.create_table(table);
        }
        let removed: Vec<&Arc<Table>> =
            difference.dropped.iter().filter_map(|id| before.table_by_id(*id)).collect();
        self.keep_before("dropped", &removed)?;
        let gone = self.sets_to_end(&map);
        agreement.begin_sets(&map);
        {
            let _saving = self.saving.lock();
            self.save_map(&map)?;
            self.store
                .save_document(SCHEMA_DOCUMENT, &schema::persist::encode(&schema))
                .map_err(failed)?;
        }
        self.show_agreed(map, schema);
        for set in gone {
            agreement.groups.end(set);
        }
        for table in &difference.dropped {
            self.store.drop_table(*table)?;
        }
        self.change_indexes(&difference.created_indexes, &difference.dropped_indexes)?;
        for event in &difference.events {
            self.world.on_schema_change(event);
        }
        Ok(())
    }

    /// One entry in every set of a table; answered when all are applied where they are led.
    pub(crate) fn truncate_in_sets(
        &self,
        agreement: &Agreement,
        table: TableId,
    ) -> Result<(), ExecuteError> {
        // Where a set was split meanwhile its halves are asked; emptying twice changes nothing.
        for _ in 0..RACES_MAX {
            if self.truncate_once(agreement, table)? {
                return Ok(());
            }
            std::thread::sleep(MOVED_WAIT);
        }
        Err(failed("physical partitions were split all the time; try again"))
    }

    /// `false` if a set does not hold what the map says any more.
    fn truncate_once(&self, agreement: &Agreement, table: TableId) -> Result<bool, ExecuteError> {
        let map = self.view.maps.load_full();
        let partitions = map.overlapping(table, RingRange::FULL);
        let asked: Vec<_> = partitions
            .map(|partition| agreement.groups.truncate(partition.set, table, partition.range))
            .collect();
        let mut moved = false;
        for committed in asked {
            match committed.wait() {
                Ok(_) => {}
                Err(replica::CommitError::Moved) => moved = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(!moved)
    }

    /// Members hand rows over, and batches are driven, by what this node knows of the sets, and requests find them.
    pub(crate) fn tell_ranges(&self, agreement: &Arc<Agreement>) {
        let view = self.view.clone();
        let agreed = AgreedMap { view: view.clone(), agreement: Arc::downgrade(agreement) };
        agreement.groups.set_map(Box::new(agreed));
        agreement.groups.set_ranges(Box::new(move |set| {
            if set == SYSTEM_SET {
                return Some((vec![SYSTEM_TABLE], RingRange::FULL));
            }
            let map = view.map();
            let (space, partition) = map.find_set(set)?;
            Some((tables_of(&view.schema(), space), partition.range))
        }));
        let view = self.view.clone();
        agreement.groups.set_places(Arc::new(move |set| {
            let map = view.map();
            (map.members(set).to_vec(), map.roles(set).0.len())
        }));
    }

    /// What clients spend and where is everybody's: budgets are granted by the leaders of sets, who know all traffic to them.
    pub(crate) fn share_load(&self, agreement: &Agreement) {
        self.replicas.share_budgets(agreement.nodes().len());
        self.traffic.share();
        agreement.groups.share_traffic(Arc::clone(&self.shared_traffic) as _);
    }

    fn show_agreed(&self, map: PartitionMap, schema: Schema) {
        {
            // A set may have been split since the map was made.
            let split_off = self.split_off.lock();
            let map = Arc::new(with_splits(&map, &split_off, self.world.now_us() / 1000));
            self.view.schemas.store(Arc::new(schema));
            self.view.writing.store(Arc::clone(&map));
            self.view.maps.store(map);
        }
        self.share_budgets();
        self.follow_map();
    }
}
