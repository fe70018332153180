//! A plain model of storage: every change ever made is kept as a fact, and what is visible is worked out from all facts.
#![allow(clippy::panic, reason = "a test may stop")]

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use types::{CellAction, ClusteringRange, Liveness, Mutation, Operation, RowChange, RowPosition};

use super::{NOW_S, SeenCell, SeenRow};

/// A cell of a fact, ranked as Cassandra ranks: timestamp, mortality, end, value.
type Rank = (i64, u8, u32, Vec<u8>, u32);

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) mutations: Vec<Mutation>,
}

#[derive(Default)]
struct RowFacts {
    livenesses: Vec<Liveness>,
    deleted_us: Option<i64>,
    elements_deleted: BTreeMap<u32, i64>,
    cells: BTreeMap<(u32, Option<Vec<u8>>), Rank>,
}

impl Model {
    pub(crate) fn visible(&self) -> Vec<SeenRow> {
        let mut keys = BTreeSet::new();
        for mutation in &self.mutations {
            keys.insert((mutation.key.ring(), mutation.key.bytes().to_vec()));
        }
        keys.into_iter().flat_map(|(_, key)| self.visible_in(&key)).collect()
    }

    pub(crate) fn visible_in(&self, key: &[u8]) -> Vec<SeenRow> {
        let mut partition_us = i64::MIN;
        let mut ranges: Vec<(ClusteringRange, i64)> = Vec::new();
        let mut rows: BTreeMap<RowPosition, RowFacts> = BTreeMap::new();
        for mutation in self.mutations.iter().filter(|m| m.key.bytes().as_ref() == key) {
            for operation in &mutation.operations {
                match operation {
                    Operation::DeletePartition(deletion) => {
                        partition_us = partition_us.max(deletion.timestamp_us);
                    }
                    Operation::DeleteRange { range, deletion } => {
                        ranges.push((range.clone(), deletion.timestamp_us));
                    }
                    Operation::Row(change) => {
                        rows.entry(change.position.clone()).or_default().add(change);
                    }
                }
            }
        }
        let mut statics = Vec::new();
        let mut seen = Vec::new();
        for (position, facts) in rows {
            match position {
                RowPosition::Static => statics = facts.live(partition_us).1,
                RowPosition::Clustered(clustering) => {
                    let covering = ranges
                        .iter()
                        .filter(|(range, _)| range.contains(&clustering))
                        .map(|(_, us)| *us)
                        .fold(partition_us, i64::max);
                    let (has_liveness, cells) = facts.live(covering);
                    if has_liveness || !cells.is_empty() {
                        seen.push((clustering.to_vec(), has_liveness, cells));
                    }
                }
            }
        }
        let row = |clustering, has_liveness, cells| SeenRow {
            partition: key.to_vec(),
            clustering,
            has_liveness,
            cells,
            statics: statics.clone(),
        };
        if seen.is_empty() && !statics.is_empty() {
            return vec![row(None, false, Vec::new())];
        }
        seen.into_iter().map(|(c, live, cells)| row(Some(c), live, cells)).collect()
    }
}

impl RowFacts {
    fn add(&mut self, change: &RowChange) {
        self.livenesses.extend(change.liveness);
        if let Some(deletion) = change.deletion {
            self.deleted_us = self.deleted_us.max(Some(deletion.timestamp_us));
        }
        for cell in &change.cells {
            let us = cell.timestamp_us;
            let (path, rank): (&Option<Bytes>, Rank) = match &cell.action {
                CellAction::Set { path, value, expiry: None } => {
                    (path, (us, 0, 0, value.to_vec(), 0))
                }
                CellAction::Set { path, value, expiry: Some(expiry) } => {
                    (path, (us, 1, expiry.expires_at_s, value.to_vec(), expiry.ttl_s))
                }
                CellAction::Delete { path, deleted_at_s } => {
                    (path, (us, 2, *deleted_at_s, Vec::new(), 0))
                }
                CellAction::DeleteElements { .. } => {
                    let known = self.elements_deleted.entry(cell.column.0).or_insert(us);
                    *known = (*known).max(us);
                    continue;
                }
                other => panic!("not in the model: {other:?}"),
            };
            let place = (cell.column.0, path.as_ref().map(|path| path.to_vec()));
            let known = self.cells.entry(place).or_insert_with(|| rank.clone());
            if *known < rank {
                *known = rank;
            }
        }
    }

    fn live(&self, covering_us: i64) -> (bool, Vec<SeenCell>) {
        let shadow = covering_us.max(self.deleted_us.unwrap_or(i64::MIN));
        let liveness = self
            .livenesses
            .iter()
            .max_by_key(|l| (l.timestamp_us, l.expiry.map(|e| (e.expires_at_s, e.ttl_s))));
        let has_liveness = liveness.is_some_and(|liveness| {
            liveness.timestamp_us > shadow
                && liveness.expiry.is_none_or(|expiry| expiry.expires_at_s > NOW_S)
        });
        let cells = self.cells.iter().filter_map(|((column, path), rank)| {
            let (us, mortality, end_s, value, _) = rank;
            let elements = self.elements_deleted.get(column).copied().unwrap_or(i64::MIN);
            let live = *us > shadow.max(elements)
                && (*mortality == 0 || *mortality == 1 && *end_s > NOW_S);
            live.then(|| (*column, path.clone(), *us, value.clone()))
        });
        (has_liveness, cells.collect())
    }
}
