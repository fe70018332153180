//! Where a read begins: at its beginning, or where a paging state says. The rules are Cassandra's, so
//! that clients may go on with another statement than the one that the state came with.

use bytes::Bytes;
use plan::{LogicalPartitions, SelectPlan};
use schema::Table;
use smallvec::{SmallVec, smallvec};
use types::value::{decode_ordered, encode_ordered, validate};
use types::{CorruptRow, PartitionKey, ReadPosition, ReadScope};

use crate::page_state::PageState;

/// Mostly there is one.
pub(crate) type Scopes = SmallVec<[ReadScope; 1]>;

/// What of a plan is still to be read.
#[derive(Debug)]
pub(crate) struct Resume {
    /// The keys or ranges, the first of which may be half done.
    pub(crate) scopes: Scopes,
    /// Where the first goes on.
    pub(crate) after: Option<ReadPosition>,
    /// What is left of LIMIT; the one of the plan does not count.
    pub(crate) remaining: Option<u32>,
    /// What is left of PER PARTITION LIMIT in the logical partition that is half done.
    pub(crate) left_in_logical: Option<u32>,
}

/// Every key or range of a plan.
pub(crate) fn scopes_of(plan: &SelectPlan<'_>) -> Scopes {
    match &plan.partitions {
        LogicalPartitions::Key(key) => smallvec![ReadScope::Partition(key.clone())],
        LogicalPartitions::Keys(keys) => keys.iter().cloned().map(ReadScope::Partition).collect(),
        LogicalPartitions::Ring(ranges) => ranges.iter().copied().map(ReadScope::Ring).collect(),
    }
}

/// Whether a plan looks at a paging state at all. As in Cassandra it does not where its result is one
/// page anyway, unless the page ended before because of its bytes.
pub(crate) fn heeds(plan: &SelectPlan<'_>, state: &PageState) -> bool {
    if plan.selection.is_grouped() {
        return true;
    }
    match (plan.page_size, plan.limit) {
        (None, _) => false,
        (Some(page), Some(limit)) => limit > page || state.is_cut,
        (Some(_), None) => true,
    }
}

/// What is left of a plan at a paging state; `None` where its place is none of this table.
pub(crate) fn resume(plan: &SelectPlan<'_>, state: PageState) -> Option<Resume> {
    let PageState { key, mark, remaining, left_in_logical, .. } = state;
    let is_done = left_in_logical == Some(0);
    let (scopes, after) = match &plan.partitions {
        LogicalPartitions::Key(_) if is_done => (Scopes::new(), None),
        LogicalPartitions::Key(key) => {
            let after = position(plan.table, key.clone(), mark)?;
            (scopes_of(plan), after)
        }
        LogicalPartitions::Keys(keys) => {
            let found = key.and_then(|key| keys.iter().position(|it| *it.bytes() == key));
            let first = found.map_or(keys.len(), |place| place + usize::from(is_done));
            let left = keys.get(first..).unwrap_or_default();
            let after = match left.first() {
                Some(key) if !is_done => position(plan.table, key.clone(), mark)?,
                _ => None,
            };
            (left.iter().cloned().map(ReadScope::Partition).collect(), after)
        }
        // Where nothing can be found, the place does not matter.
        LogicalPartitions::Ring(ranges) if ranges.is_empty() => (Scopes::new(), None),
        LogicalPartitions::Ring(_) => {
            let key = PartitionKey::new(key.filter(|key| fits(plan.table, key))?);
            let mut scopes = scopes_of(plan);
            let first = scopes.first().cloned();
            scopes.retain_mut(|scope| go_on(scope, first.as_ref(), &key));
            let found = if is_done { None } else { position(plan.table, key.clone(), mark)? };
            let after = found.unwrap_or(ReadPosition { key, clustering: None });
            (scopes, Some(after))
        }
    };
    Some(Resume { scopes, after, remaining, left_in_logical })
}

/// Cuts off a range what lies before a key; `false` where nothing is left. The key takes the place of
/// where the first range began, also when it lies before.
fn go_on(scope: &mut ReadScope, first: Option<&ReadScope>, key: &PartitionKey) -> bool {
    let is_first = first == Some(&*scope);
    let ReadScope::Ring(range) = scope else { return true };
    range.start = if is_first { key.ring() } else { range.start.max(key.ring()) };
    range.start <= range.last
}

/// The place behind a mark: `Some(None)` before the first row, `None` where the mark is none of this table.
fn position(
    table: &Table,
    key: PartitionKey,
    mark: Option<Vec<Option<Bytes>>>,
) -> Option<Option<ReadPosition>> {
    let Some(mark) = mark else { return Some(None) };
    let mut clustering = Vec::new();
    let mut values = mark.into_iter();
    for column in table.clustering() {
        // Only the last columns of a compact table may be missing.
        let Some(value) = values.next()? else { break };
        validate(&column.cql_type, &value).ok()?;
        encode_ordered(&column.cql_type, &value, column.is_descending(), &mut clustering);
    }
    Some(Some(ReadPosition { key, clustering: Some(Bytes::from(clustering)) }))
}

/// Whether the bytes are a partition key of the table.
fn fits(table: &Table, key: &Bytes) -> bool {
    let columns = table.partition_key();
    let mut again = Vec::new();
    let mut count = 0;
    for (value, column) in PartitionKey::components(key, columns.len()).zip(columns) {
        if validate(&column.cql_type, value).is_err() {
            return false;
        }
        count += 1;
        PartitionKey::push_component(&mut again, value);
    }
    count == columns.len() && (columns.len() == 1 || again == *key)
}

/// The values of a clustering key.
pub(crate) fn mark_of(table: &Table, clustering: &[u8]) -> Result<Vec<Option<Bytes>>, CorruptRow> {
    let mut input = clustering;
    let mut mark = Vec::with_capacity(table.clustering_count);
    for column in table.clustering() {
        if input.is_empty() {
            mark.push(None);
            continue;
        }
        let mut value = Vec::new();
        decode_ordered(&column.cql_type, column.is_descending(), &mut input, &mut value)
            .map_err(|_| CorruptRow)?;
        mark.push(Some(Bytes::from(value)));
    }
    Ok(mark)
}
