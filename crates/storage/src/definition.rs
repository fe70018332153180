//! By which definition of its table a mutation is applied.
//!
//! Conditions, positions in lists and sizes ask what a column is. The schema of the moment would answer
//! differently when the log is replayed after an ALTER, so a set's log carries the definitions itself:
//! before the first mutation that was planned by a newer definition of its table stands a *define* entry,
//! and each tree keeps the definition that was in force at its replay point.
//!
//! **The horizon.** What died before it may be gone from a row or not, as compactions went; so merging takes
//! it for gone in any case. It follows the seconds of the entries, less the retention of the definition in
//! force, and never falls. A tree is purged up to a horizon that no entry is behind which is still to be
//! applied to it, now or when the log is replayed from the tree's replay point.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use schema::Table;
use types::codec::Malformed;
use types::{HiddenCells, Mutation, SetId, TableId};

use crate::error::TreeError;
use crate::tree::keys::SPACE_DEFINITIONS;
use tree::engine::{LATEST, SortedTree};

/// A definition of a table as a replica set's log carries it.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) table: Arc<Table>,
    /// The table as bytes.
    pub(crate) bytes: Bytes,
    /// How long what is dead stays.
    pub(crate) retention_s: u32,
    /// What its dropped columns left behind.
    pub(crate) hidden: Vec<HiddenCells>,
}

impl Definition {
    /// The definition that is kept of a table; an error if it could not be read again.
    pub(crate) fn new(table: &Table, retention_max_s: u32) -> Result<Definition, Malformed> {
        let bytes = Bytes::from(schema::persist::encode_table(table));
        Definition::decode(table.options.gc_grace_s.min(retention_max_s), bytes)
    }

    pub(crate) fn decode(retention_s: u32, bytes: Bytes) -> Result<Definition, Malformed> {
        let table = Arc::new(schema::persist::decode_table(&bytes).map_err(|_| Malformed)?);
        Ok(Definition { hidden: table.hidden_cells(), table, bytes, retention_s })
    }
}

/// What was appended of definitions since the start. Asked and changed while nobody else can append, so
/// that it is in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Definitions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The version that the next mutation of a table in a set is applied by.
    versions: HashMap<(TableId, SetId), u64, FixedState>,
    tables: HashMap<TableId, KnownTable, FixedState>,
}

#[derive(Debug, Default)]
struct KnownTable {
    newest: Option<Arc<Definition>>,
    /// The longest retention of a definition that was announced: it is in force, or may come to be.
    retention_max_s: Option<u32>,
    /// Up to where its tree may have been purged.
    horizon_s: u32,
}

/// Whether a mutation can be appended as things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It can.
    Defined,
    /// A definition must be appended before it.
    Undefined,
    /// It was planned by a definition that is not in force any more.
    Stale,
}

impl Definitions {
    /// How the mutations of a change stand; the worst of them tells.
    pub(crate) fn standing<'m>(
        &self,
        mutations: impl Iterator<Item = (SetId, &'m Mutation)>,
    ) -> Standing {
        let known = self.0.lock();
        let standing = |(set, mutation): (SetId, &Mutation)| match known
            .versions
            .get(&(mutation.table, set))
        {
            Some(version) if *version == mutation.table_version => Standing::Defined,
            Some(version) if *version > mutation.table_version => Standing::Stale,
            Some(_) | None => Standing::Undefined,
        };
        mutations.map(standing).max().unwrap_or(Standing::Defined)
    }

    /// The newest definition of a table, made once for each version.
    pub(crate) fn newest(
        &self,
        table: &Table,
        retention_max_s: u32,
    ) -> Result<Arc<Definition>, Malformed> {
        let mut known = self.0.lock();
        let known = known.tables.entry(table.id).or_default();
        match &known.newest {
            Some(newest) if newest.table.version >= table.version => Ok(Arc::clone(newest)),
            Some(_) | None => {
                let newest = Arc::new(Definition::new(table, retention_max_s)?);
                known.newest = Some(Arc::clone(&newest));
                Ok(newest)
            }
        }
    }

    /// Before a definition is appended for the first time: it counts for the horizon from now on. Returns
    /// the horizon that it comes into force with; `purged_s` is what the tree was purged up to.
    pub(crate) fn announce(&self, definition: &Definition, purged_s: u32) -> u32 {
        let mut known = self.0.lock();
        let known = known.tables.entry(definition.table.id).or_default();
        known.retention_max_s = known.retention_max_s.max(Some(definition.retention_s));
        known.horizon_s = known.horizon_s.max(purged_s);
        known.horizon_s
    }

    /// A definition was appended for a table in a set; a table without one has the version that its
    /// mutations say.
    pub(crate) fn note_appended(&self, table: TableId, set: SetId, version: u64) {
        let mut known = self.0.lock();
        let newest = known.versions.entry((table, set)).or_insert(version);
        *newest = (*newest).max(version);
    }

    /// A table was emptied: its next tree knows no definition.
    pub(crate) fn forget(&self, table: TableId) {
        self.0.lock().versions.retain(|(known, _), _| *known != table);
    }

    /// The sets take nothing more.
    pub(crate) fn forget_sets(&self, sets: &[SetId]) {
        self.0.lock().versions.retain(|(_, set), _| !sets.contains(set));
    }

    /// What died before this second may be purged from the files that come next.
    pub(crate) fn announced_s(&self, table: TableId) -> u32 {
        self.0.lock().tables.get(&table).map_or(0, |known| known.horizon_s)
    }

    /// The horizon of a set that is at that second: nothing is raised by it.
    pub(crate) fn horizon_s(&self, table: TableId, now_s: u32, retention_s: Option<u32>) -> u32 {
        let known = self.0.lock();
        let known_s = known.tables.get(&table).and_then(|known| known.retention_max_s);
        known_s.max(retention_s).map_or(0, |kept_s| now_s.saturating_sub(kept_s))
    }

    /// The horizon of a tree that is frozen now. No entry that is still to be applied has an earlier
    /// second than `floor_s`; `retention_s` is the longest in force in the tree.
    pub(crate) fn raise_horizon(
        &self,
        table: TableId,
        floor_s: u32,
        retention_s: Option<u32>,
    ) -> u32 {
        let mut known = self.0.lock();
        let known = known.tables.entry(table).or_default();
        // Without any definition nothing tells how long the dead stay.
        if let Some(kept_s) = known.retention_max_s.max(retention_s) {
            known.horizon_s = known.horizon_s.max(floor_s.saturating_sub(kept_s));
        }
        known.horizon_s
    }
}

/// The definitions that a tree keeps, by version.
pub(crate) fn load_definitions(
    tree: &dyn SortedTree,
) -> Result<HashMap<u64, Arc<Definition>, FixedState>, TreeError> {
    let mut definitions = HashMap::default();
    for item in tree.range(&[SPACE_DEFINITIONS], &[SPACE_DEFINITIONS + 1], LATEST) {
        let (_, value) = item?;
        let malformed = || TreeError::Corrupt("a definition is not readable".into());
        let (retention_s, bytes) = value.split_first_chunk::<4>().ok_or_else(malformed)?;
        let bytes = Bytes::copy_from_slice(bytes);
        let definition = Definition::decode(u32::from_be_bytes(*retention_s), bytes);
        let definition = definition.map_err(|_| malformed())?;
        definitions.insert(definition.table.version, Arc::new(definition));
    }
    Ok(definitions)
}
