//! What a write asks for. A mutation is the request, not its result: times, list ids and function
//! results are fixed in it; merging, conditions and counters happen when it is applied, in the log
//! order of its replica set, always with the same outcome (D3).

use bytes::Bytes;

use crate::condition::Condition;
use crate::cql_type::CqlType;
use crate::ids::{ColumnId, TableId};
use crate::key::{ClusteringRange, PartitionKey, RowPosition};
use crate::list_id::ListId;

/// A change to one logical partition of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The table it changes.
    pub table: TableId,
    /// The version of the table's definition that it was planned by.
    pub table_version: u64,
    /// The logical partition it changes.
    pub key: PartitionKey,
    /// The second since the epoch at which expiry is judged, where the client said one; else it is
    /// that of the log entry.
    pub now_s: Option<u32>,
    /// What must hold for it to be applied; all or nothing.
    pub condition: Option<Box<Condition>>,
    /// The changes, applied in order.
    pub operations: Vec<Operation>,
}

impl Mutation {
    /// Whether applying it twice may be another thing than applying it once.
    pub fn must_be_once(&self) -> bool {
        let counts = |cell: &CellChange| match cell.action {
            CellAction::CounterAdd(_)
            | CellAction::AddValue { .. }
            | CellAction::ListSetAt { .. }
            | CellAction::ListDeleteAt { .. }
            | CellAction::ListRemoveValues { .. } => true,
            CellAction::Set { .. }
            | CellAction::Delete { .. }
            | CellAction::DeleteElements { .. } => false,
        };
        let in_operation = |operation: &Operation| match operation {
            Operation::Row(change) => change.cells.iter().any(counts),
            Operation::DeletePartition(_) | Operation::DeleteRange { .. } => false,
        };
        self.condition.is_some() || self.operations.iter().any(in_operation)
    }

    /// Whether it names positions in lists, which may not be there.
    pub fn names_positions(&self) -> bool {
        let in_cell = |cell: &CellChange| {
            matches!(cell.action, CellAction::ListSetAt { .. } | CellAction::ListDeleteAt { .. })
        };
        self.operations.iter().any(|operation| match operation {
            Operation::Row(change) => change.cells.iter().any(in_cell),
            Operation::DeletePartition(_) | Operation::DeleteRange { .. } => false,
        })
    }

    /// Whether it has this time and no other. What is to lie beneath what the same write sets has the time just before: the elements of a
    /// collection that is replaced, and conditional deletions of ranges and whole partitions.
    pub fn is_timed_at(&self, timestamp_us: i64) -> bool {
        let is_it = |time: i64| time == timestamp_us;
        let may_be_beneath = |time: i64| is_it(time) || time == timestamp_us.saturating_sub(1);
        self.operations.iter().all(|operation| match operation {
            Operation::DeletePartition(deletion) | Operation::DeleteRange { deletion, .. } => {
                may_be_beneath(deletion.timestamp_us)
            }
            Operation::Row(change) => {
                let has_its_time = |cell: &CellChange| match cell.action {
                    CellAction::DeleteElements { .. } => may_be_beneath(cell.timestamp_us),
                    _ => is_it(cell.timestamp_us),
                };
                change.liveness.iter().all(|it| is_it(it.timestamp_us))
                    && change.deletion.iter().all(|it| is_it(it.timestamp_us))
                    && change.cells.iter().all(has_its_time)
            }
        })
    }

    /// Whether doing it twice, with other changes in between, comes to the same as doing it once: its times decide then.
    pub fn is_idempotent(&self) -> bool {
        let is_plain = |cell: &CellChange| match cell.action {
            CellAction::Set { .. }
            | CellAction::Delete { .. }
            | CellAction::DeleteElements { .. } => true,
            CellAction::CounterAdd(_)
            | CellAction::AddValue { .. }
            | CellAction::ListSetAt { .. }
            | CellAction::ListDeleteAt { .. }
            | CellAction::ListRemoveValues { .. } => false,
        };
        self.condition.is_none()
            && self.operations.iter().all(|operation| match operation {
                Operation::DeletePartition(_) | Operation::DeleteRange { .. } => true,
                Operation::Row(change) => change.cells.iter().all(is_plain),
            })
    }

    /// Whether it may add elements to lists: what it writes has names as those have. A list's elements stand in the order in which its set
    /// takes them, so that it is not the same to do it again.
    pub fn may_extend_lists(&self) -> bool {
        let mut paths = self.operations.iter().filter_map(Operation::row).flat_map(element_paths);
        paths.any(|path| ListId::of_path(path).is_some())
    }

    /// When the first and the last of the elements were made that it adds to lists, microseconds since the epoch.
    pub fn list_times(&self, is_list: impl Fn(ColumnId) -> bool) -> Option<(i64, i64)> {
        let mut times: Option<(i64, i64)> = None;
        for cell in self.operations.iter().filter_map(Operation::row).flat_map(|it| &it.cells) {
            if let CellAction::Set { path: Some(path), .. } = &cell.action
                && is_list(cell.column)
                && let Some(id) = ListId::of_path(path)
            {
                let (first, last) = times.unwrap_or((id.made_us(), id.made_us()));
                times = Some((first.min(id.made_us()), last.max(id.made_us())));
            }
        }
        times
    }

    /// Makes the elements later that it adds to lists; earlier by less than nothing.
    pub fn delay_lists(&mut self, is_list: impl Fn(ColumnId) -> bool, by_us: i64) {
        for operation in &mut self.operations {
            let Operation::Row(change) = operation else { continue };
            for cell in change.cells.iter_mut().filter(|cell| is_list(cell.column)) {
                if let CellAction::Set { path: Some(path), .. } = &mut cell.action
                    && let Some(id) = ListId::of_path(path)
                {
                    *path = Bytes::from(id.made_later(by_us).path());
                }
            }
        }
    }

    /// Makes all its times later; earlier by less than nothing.
    pub fn delay(&mut self, by_us: i64) {
        let later = |timestamp_us: &mut i64| *timestamp_us = timestamp_us.saturating_add(by_us);
        for operation in &mut self.operations {
            match operation {
                Operation::DeletePartition(deletion) | Operation::DeleteRange { deletion, .. } => {
                    later(&mut deletion.timestamp_us);
                }
                Operation::Row(change) => {
                    change.liveness.iter_mut().for_each(|it| later(&mut it.timestamp_us));
                    change.deletion.iter_mut().for_each(|it| later(&mut it.timestamp_us));
                    change.cells.iter_mut().for_each(|it| later(&mut it.timestamp_us));
                }
            }
        }
    }
}

/// The names of the elements that a change writes.
fn element_paths(change: &RowChange) -> impl Iterator<Item = &Bytes> {
    change.cells.iter().filter_map(|cell| match &cell.action {
        CellAction::Set { path, .. } => path.as_ref(),
        _ => None,
    })
}

/// One change within a logical partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Everything older goes, the static row too.
    DeletePartition(Deletion),
    /// Every older row of that range goes.
    DeleteRange {
        /// Which rows.
        range: ClusteringRange,
        /// Since when.
        deletion: Deletion,
    },
    /// One row is changed.
    Row(RowChange),
}

impl Operation {
    /// The change, if it is one of a row.
    fn row(&self) -> Option<&RowChange> {
        match self {
            Operation::Row(change) => Some(change),
            Operation::DeletePartition(_) | Operation::DeleteRange { .. } => None,
        }
    }
}

/// A change to one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// Which row.
    pub position: RowPosition,
    /// The clustering values as the client wrote them, where the clustering key cannot give them
    /// back (the decimal 1.00 sorts and compares as 1.0). Encoded as [`crate::row::Row`] keeps them.
    pub original_clustering: Option<Bytes>,
    /// Set by INSERT: the row exists even with all columns null.
    pub liveness: Option<Liveness>,
    /// The row as a whole is deleted first.
    pub deletion: Option<Deletion>,
    /// Changes of single columns.
    pub cells: Vec<CellChange>,
}

/// That a row exists by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// When it was written, microseconds since the epoch.
    pub timestamp_us: i64,
    /// Until when it exists.
    pub expiry: Option<Expiry>,
}

/// When something stops to exist by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The time to live it was written with, in seconds.
    pub ttl_s: u32,
    /// The second since the epoch at which it is gone.
    pub expires_at_s: u32,
}

/// That everything written at or before a time is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// What was written at or before this is gone.
    pub timestamp_us: i64,
    /// When the deletion was made, seconds since the epoch: it may itself be dropped some time later.
    pub deleted_at_s: u32,
}

impl Mutation {
    /// What it writes, in the size of rows: of each row that is written its keys and the values. What it takes away or
    /// replaces is not known before it is applied.
    pub fn written_bytes(&self) -> usize {
        let of_operation = |operation: &Operation| match operation {
            Operation::Row(change) => match change.cells_bytes() {
                0 if change.liveness.is_none() => 0,
                cells => self.key.bytes().len() + change.position.clustering_bytes() + cells,
            },
            Operation::DeletePartition(_) | Operation::DeleteRange { .. } => 0,
        };
        self.operations.iter().map(of_operation).sum()
    }
}

impl RowChange {
    /// What a new row takes that it is written to: the keys and the values.
    pub fn row_bytes(&self, key: &PartitionKey) -> usize {
        key.bytes().len() + self.position.clustering_bytes() + self.cells_bytes()
    }

    /// What it writes into cells.
    pub fn cells_bytes(&self) -> usize {
        self.cells.iter().map(|cell| cell.action.written_bytes()).sum()
    }
}

impl CellAction {
    /// What is written: the value, and which element it is. This is the one rule for the size of a change.
    pub fn written_bytes(&self) -> usize {
        match self {
            CellAction::Set { path, value, .. } => {
                path.as_ref().map_or(0, Bytes::len) + value.len()
            }
            _ => self.value_bytes(),
        }
    }

    /// The value that is written.
    pub fn value_bytes(&self) -> usize {
        match self {
            CellAction::Set { value, .. }
            | CellAction::ListSetAt { value, .. }
            | CellAction::AddValue { value, .. } => value.len(),
            CellAction::CounterAdd(_) => size_of::<i64>(),
            CellAction::Delete { .. }
            | CellAction::DeleteElements { .. }
            | CellAction::ListDeleteAt { .. }
            | CellAction::ListRemoveValues { .. } => 0,
        }
    }
}

/// A change of one column, or of one element of a collection or user type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellChange {
    /// Which column.
    pub column: ColumnId,
    /// With which time.
    pub timestamp_us: i64,
    /// What happens.
    pub action: CellAction,
}

/// What happens to a column.
///
/// A *path* names the element of a multi-cell column: for a set the element, for a map the key, for
/// a list the time uuid, each byte-comparably encoded; for a user type the index of the field in two
/// bytes. Single-cell columns have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellAction {
    /// A value is written.
    Set {
        /// Which element.
        path: Option<Bytes>,
        /// The value, as the protocol encodes it. For a set: empty, unless the path cannot give the
        /// element back as it was written. For a map: see [`crate::map_cell`].
        value: Bytes,
        /// Until when.
        expiry: Option<Expiry>,
    },
    /// A value is deleted.
    Delete {
        /// Which element.
        path: Option<Bytes>,
        /// When, seconds since the epoch.
        deleted_at_s: u32,
    },
    /// All elements of a multi-cell column written at or before the timestamp are deleted.
    DeleteElements {
        /// When, seconds since the epoch.
        deleted_at_s: u32,
    },
    /// A counter changes by that much.
    CounterAdd(i64),
    /// A number grows by a value, a text by a tail; what is null stays null. Only under a condition.
    AddValue {
        /// The type of both.
        cql_type: CqlType,
        /// What is added, as the protocol encodes it.
        value: Bytes,
        /// Until when the sum exists.
        expiry: Option<Expiry>,
    },
    /// The element at that index of a list is replaced; an error if there is none.
    ListSetAt {
        /// Counted from zero.
        index: i32,
        /// The new value.
        value: Bytes,
        /// Until when.
        expiry: Option<Expiry>,
    },
    /// The element at that index of a list is deleted; an error if there is none.
    ListDeleteAt {
        /// Counted from zero.
        index: i32,
        /// When, seconds since the epoch.
        deleted_at_s: u32,
    },
    /// Every element of a list that equals one of the values is deleted.
    ListRemoveValues {
        /// The values to look for.
        values: Vec<Bytes>,
        /// When, seconds since the epoch.
        deleted_at_s: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(action: CellAction) -> CellChange {
        CellChange { column: ColumnId(1), timestamp_us: 1, action }
    }

    fn change(liveness: bool, cells: Vec<CellChange>) -> RowChange {
        RowChange {
            position: RowPosition::Clustered(Bytes::from_static(b"cc")),
            original_clustering: None,
            liveness: liveness.then_some(Liveness { timestamp_us: 1, expiry: None }),
            deletion: None,
            cells,
        }
    }

    /// Whoever leads has times of its own giving rise, and must know them for its own: `UPDATE t SET a_map = {…} IF …` and a deletion
    /// after it, by another node, whose clock was behind, left the row.
    #[test]
    fn what_lies_beneath_has_the_time_of_its_write() {
        let cell = |action, timestamp_us| CellChange { column: ColumnId(1), timestamp_us, action };
        let beneath = |time| cell(CellAction::DeleteElements { deleted_at_s: 1 }, time);
        let (path, value) = (Some(Bytes::from_static(b"k")), Bytes::from_static(b"v"));
        let set = |time| {
            let (path, value) = (path.clone(), value.clone());
            cell(CellAction::Set { path, value, expiry: None }, time)
        };
        let of_row = |cells| Operation::Row(change(false, cells));
        let whole =
            |timestamp_us| Operation::DeletePartition(Deletion { timestamp_us, deleted_at_s: 1 });
        for (operation, is_timed) in [
            (of_row(vec![beneath(9), set(10)]), true),
            (of_row(vec![beneath(10), set(10)]), true),
            (of_row(vec![beneath(8), set(10)]), false),
            (of_row(vec![beneath(9), set(9)]), false),
            (of_row(vec![set(11)]), false),
            (whole(9), true),
            (whole(10), true),
            (whole(8), false),
        ] {
            let mut mutation = Mutation {
                table: TableId(1),
                table_version: 1,
                key: PartitionKey::new(Bytes::from_static(b"k")),
                now_s: None,
                condition: None,
                operations: vec![operation],
            };
            assert_eq!(mutation.is_timed_at(10), is_timed, "{mutation:?}");
            mutation.delay(5);
            assert_eq!(mutation.is_timed_at(15), is_timed, "{mutation:?}");
        }
    }

    #[test]
    fn every_action_that_writes_counts_and_no_other() {
        let value = || Bytes::from_static(b"12345");
        let (path, expiry) = (Some(Bytes::from_static(b"abc")), None);
        let written = [
            (CellAction::Set { path: None, value: value(), expiry }, 5),
            (CellAction::Set { path: path.clone(), value: value(), expiry }, 8),
            (CellAction::AddValue { cql_type: CqlType::Int, value: value(), expiry }, 5),
            (CellAction::ListSetAt { index: 0, value: value(), expiry }, 5),
            (CellAction::CounterAdd(1), 8),
            (CellAction::Delete { path, deleted_at_s: 1 }, 0),
            (CellAction::DeleteElements { deleted_at_s: 1 }, 0),
            (CellAction::ListDeleteAt { index: 0, deleted_at_s: 1 }, 0),
            (CellAction::ListRemoveValues { values: vec![value()], deleted_at_s: 1 }, 0),
        ];
        for (action, bytes) in written {
            assert_eq!(action.written_bytes(), bytes, "{action:?}");
        }
    }

    #[test]
    fn a_mutation_counts_the_keys_of_each_row_that_it_writes() {
        let key = PartitionKey::new(Bytes::from_static(b"key"));
        let delete = || cell(CellAction::Delete { path: None, deleted_at_s: 1 });
        let add = cell(CellAction::CounterAdd(1));
        let mutation = Mutation {
            table: TableId(1),
            table_version: 1,
            key: key.clone(),
            now_s: None,
            condition: None,
            operations: vec![
                Operation::Row(change(true, vec![])),
                Operation::Row(change(false, vec![delete()])),
                Operation::Row(change(false, vec![add])),
                Operation::DeletePartition(Deletion { timestamp_us: 1, deleted_at_s: 1 }),
            ],
        };
        assert_eq!(mutation.written_bytes(), 5 + 13);
        // Whether or not a row is there: this is what one takes that is.
        assert_eq!(change(false, vec![delete()]).row_bytes(&key), 5);
    }
}
