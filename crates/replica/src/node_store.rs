//! What a node does for itself, whichever sets have members on it: it keeps documents, has tables and indexes, and
//! takes snapshots. Nothing of this is asked of a replica set, so nothing of it is ever asked of another node.

use std::io;
use std::sync::Arc;

use schema::{Index, Table};
use storage::{
    CommitError, IndexBuild, OpenError, Slots, SnapshotError, SnapshotFacts, Storage, TreeError,
};
use types::{RingToken, SetId, TableId};

/// The chores of this node's storage.
#[derive(Clone)]
pub struct NodeStore {
    storage: Arc<Storage>,
}

impl NodeStore {
    /// The chores of that storage.
    pub fn new(storage: Arc<Storage>) -> NodeStore {
        NodeStore { storage }
    }

    /// A document as it was last saved.
    pub fn load_document(&self, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
        self.storage.load_document(name)
    }

    /// Replaces a document as a whole. It is durable afterwards.
    pub fn save_document(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.storage.save_document(name, bytes)
    }

    /// Opens a file of slots beside the documents.
    pub fn open_slots(&self, name: &str) -> Result<Slots, OpenError> {
        self.storage.open_slots(name)
    }

    /// From now on storage knows the set of a key when it writes for itself.
    pub fn locate_with(
        &self,
        locate: impl Fn(TableId, RingToken) -> Option<SetId> + Send + Sync + 'static,
    ) {
        self.storage.locate_with(locate);
    }

    /// Prepares for a table, before anybody writes to it.
    pub fn create_table(&self, table: &Table) {
        self.storage.create_table(table);
    }

    /// Removes a table that nobody can write to any more, with all its rows.
    pub fn drop_table(&self, table: TableId) -> Result<(), CommitError> {
        self.storage.drop_table(table)
    }

    /// Removes the rows of a table that were committed before.
    pub fn truncate(&self, table: TableId) -> Result<(), CommitError> {
        self.storage.truncate(table)
    }

    /// Maintains an index from now on, and builds it in the background.
    pub fn create_index(&self, table: &Table, index: &Index) -> Result<(), TreeError> {
        self.storage.create_index(table, index)
    }

    /// Removes an index.
    pub fn drop_index(&self, table: TableId, index: TableId) {
        self.storage.drop_index(table, index);
    }

    /// How far each index is built.
    pub fn index_builds(&self) -> Vec<IndexBuild> {
        self.storage.index_builds()
    }

    /// Keeps everything as it is now.
    pub fn snapshot(&self, name: &str, why: &str) -> Result<SnapshotFacts, SnapshotError> {
        self.storage.snapshot(name, why)
    }

    /// Keeps some tables as they are now; `None` if there is nothing in them.
    pub fn snapshot_tables(
        &self,
        name: &str,
        tables: &[TableId],
        why: &str,
    ) -> Result<Option<SnapshotFacts>, SnapshotError> {
        self.storage.snapshot_tables(name, tables, why)
    }
}
