//! What all nodes of a cluster agree on (D15): a few documents, each a row of a hidden table in one set, the system set, of which every
//! node has a member. A document is replaced as a whole, and only by who knows its newest version: of two who change it at once one is
//! told that it lost, and makes its change anew.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use schema::{Column, ColumnKind, Table, TableOptions, TableShape};
use storage::{CommitError, ReadError, Storage};
use types::{
    CellAction, CellChange, CellState, Check, ColumnId, ColumnPart, Comparison, Condition,
    CorruptRow, CqlType, Flow, LiveRow, Liveness, Mutation, Operation, Outcome, PartitionKey,
    ReadCommand, ReadScope, RowChange, RowCondition, RowPosition, RowSelection, RowSink, SetId,
    Statics, TableId,
};

use super::driver::Groups;

/// The set of the documents.
pub const SYSTEM_SET: SetId = SetId(u32::MAX - 1);
/// The table of the documents: hidden, because the schema itself is in it.
pub const SYSTEM_TABLE: TableId = TableId(0x4845_4c45_4e55_5300_0000_0000_0000_0001);
/// A document has no more bytes than this.
const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

const BODY: ColumnId = ColumnId(1);
const VERSION: ColumnId = ColumnId(2);

/// The table of the documents, as storage knows it.
pub fn system_table() -> Arc<Table> {
    static TABLE: OnceLock<Arc<Table>> = OnceLock::new();
    let column = |id, name: &str, cql_type, kind| Column {
        id,
        name: name.into(),
        cql_type,
        kind,
        mask: None,
        is_hidden: false,
    };
    let make = || {
        Arc::new(Table {
            id: SYSTEM_TABLE,
            version: 0,
            keyspace: "system_helenus".into(),
            name: "documents".into(),
            columns: vec![
                column(ColumnId(100), "name", CqlType::Text, ColumnKind::PartitionKey),
                column(BODY, "body", CqlType::Blob, ColumnKind::Regular),
                column(VERSION, "version", CqlType::BigInt, ColumnKind::Regular),
            ],
            partition_key_count: 1,
            clustering_count: 0,
            static_count: 0,
            shape: TableShape::Ordinary,
            is_counter: false,
            is_virtual: false,
            options: TableOptions::default(),
            indexes: Default::default(),
            dropped_columns: Default::default(),
            next_column_id: 200,
        })
    };
    Arc::clone(TABLE.get_or_init(make))
}

/// A member without a leader is waited for so often, so long each: longer than an election takes.
const CAUGHT_UP_LOOKS: u32 = 50;
const CAUGHT_UP_LOOK: Duration = Duration::from_millis(100);

/// A document as it was last agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Rises by one with every change.
    pub version: i64,
    /// What it says.
    pub body: Bytes,
}

/// What became of a change of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// It is agreed on.
    Done,
    /// Somebody else was faster: nothing changed.
    Lost,
}

/// The documents, through this node's member of the system set.
#[derive(Clone, Debug)]
pub struct SharedDocuments {
    groups: Groups,
    storage: Arc<Storage>,
}

impl SharedDocuments {
    /// Those of a node.
    pub fn new(groups: Groups, storage: Arc<Storage>) -> SharedDocuments {
        SharedDocuments { groups, storage }
    }

    /// A document as this node's member knows it.
    pub fn read(&self, name: &str) -> Result<Option<Document>, ReadError> {
        let command = ReadCommand {
            table: SYSTEM_TABLE,
            scope: ReadScope::Partition(key_of(name)),
            rows: RowSelection::All,
            index: None,
            reversed: false,
            statics: Statics::AttachOrAlone,
            hidden: Vec::new(),
            columns: None,
            after: None,
            now_s: 0,
        };
        let mut seen = Seen::default();
        self.storage.read(SYSTEM_SET, &command, &mut seen)?;
        Ok(seen.document)
    }

    /// Waits until this node's member has everything that was agreed on before. `false` if nobody can tell: at once where
    /// too few nodes are alive, else after [`CAUGHT_UP_LOOKS`]. Not for threads that serve others.
    pub fn catch_up(&self) -> bool {
        let (sender, receiver) = sync_channel(1);
        let tell = move |is_known| {
            let _ = sender.send(is_known);
        };
        self.groups.confirm(SYSTEM_SET, Box::new(tell));
        for _ in 0..CAUGHT_UP_LOOKS {
            let (required, _, alive) = self.groups.alive(SYSTEM_SET);
            if alive < required {
                return false;
            }
            match receiver.recv_timeout(CAUGHT_UP_LOOK) {
                Ok(is_known) => return is_known,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        false
    }

    /// Changes a document, if `known` is its newest version. Waits for the answer: not for threads that serve others.
    pub fn replace(
        &self,
        name: &str,
        known: Option<i64>,
        body: Bytes,
        now_us: i64,
    ) -> Result<Replaced, CommitError> {
        if body.len() > DOCUMENT_BYTES_MAX {
            let (bytes, bytes_max) = (body.len(), DOCUMENT_BYTES_MAX);
            return Err(CommitError::TooLarge { bytes, bytes_max });
        }
        let mutation = replacement(name, known, body, now_us);
        let committed = self.groups.commit(SYSTEM_SET, vec![mutation], Some(now_us), None, None);
        let done = committed.wait()?;
        match done.first().map(|done| &done.outcome) {
            Some(Outcome::Applied) => Ok(Replaced::Done),
            Some(_) | None => Ok(Replaced::Lost),
        }
    }
}

fn key_of(name: &str) -> PartitionKey {
    PartitionKey::new(Bytes::copy_from_slice(name.as_bytes()))
}

fn replacement(name: &str, known: Option<i64>, body: Bytes, timestamp_us: i64) -> Mutation {
    let number = |value: i64| Bytes::copy_from_slice(&value.to_be_bytes());
    let cell = |column, value| CellChange {
        column,
        timestamp_us,
        action: CellAction::Set { path: None, value, expiry: None },
    };
    let position = RowPosition::Clustered(Bytes::new());
    let check = Check::Column {
        column: VERSION,
        part: ColumnPart::Whole,
        operator: Comparison::Equal,
        values: vec![known.map(number)],
    };
    let next = known.unwrap_or(0).saturating_add(1);
    let change = RowChange {
        position: position.clone(),
        original_clustering: None,
        liveness: Some(Liveness { timestamp_us, expiry: None }),
        deletion: None,
        cells: vec![cell(BODY, body), cell(VERSION, number(next))],
    };
    Mutation {
        table: SYSTEM_TABLE,
        table_version: 0,
        key: key_of(name),
        now_s: None,
        condition: Some(Box::new(Condition {
            rows: vec![RowCondition { position, checks: vec![check] }],
        })),
        operations: vec![Operation::Row(change)],
    }
}

#[derive(Default)]
struct Seen {
    document: Option<Document>,
}

impl RowSink for Seen {
    fn on_row(&mut self, row: &LiveRow<'_>) -> Result<Flow, CorruptRow> {
        let document = self.document.get_or_insert_default();
        for cell in row.row.into_iter().flat_map(|row| row.cells()) {
            let cell = cell?;
            let CellState::Value { value, .. } = cell.state else { continue };
            match cell.column {
                VERSION => {
                    let version = value.first_chunk::<8>().ok_or(CorruptRow)?;
                    document.version = i64::from_be_bytes(*version);
                }
                _ => document.body = Bytes::copy_from_slice(value),
            }
        }
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_kept_in_the_log() {
        let table = system_table();
        let kept = schema::persist::decode_table(&schema::persist::encode_table(&table)).unwrap();
        assert_eq!(kept, *table);
    }
}
