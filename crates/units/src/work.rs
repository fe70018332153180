//! What a request did, and what that costs.

use crate::charge::Charge;
use crate::{rules, table};

/// How many replicas a read asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadStrength {
    /// One: levels ONE and LOCAL_ONE.
    #[default]
    One,
    /// Two: every level above.
    Strong,
}

/// What a request did. It grows while the request runs and is charged once, at the end.
///
/// Rows that are read by key or written are charged one by one, because the table is not a straight
/// line; their sums are kept. Everything else is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// How many replicas its reads ask.
    pub strength: ReadStrength,
    /// Rows read by their whole keys, there or not.
    pub point_count: u64,
    /// What they come to at one replica.
    pub point_charge: Charge,
    /// Physical partitions that a query looked into.
    pub query_partition_count: u64,
    /// Rows that a query looked at.
    pub scanned_row_count: u64,
    /// Their size.
    pub scanned_bytes: u64,
    /// Entries of secondary indexes that a query looked at.
    pub index_entry_count: u64,
    /// Rows that a query returned.
    pub returned_row_count: u64,
    /// The size of their values.
    pub returned_bytes: u64,
    /// What the writes of the request cost, added up when they were applied.
    pub written: Charge,
    /// Definitions made.
    pub definition_count: u64,
}

impl Work {
    /// No work yet.
    pub fn new(strength: ReadStrength) -> Work {
        Work { strength, ..Work::default() }
    }

    /// A row was read by its whole key; a row that is not there has no bytes.
    #[inline]
    pub fn read_point(&mut self, row_bytes: u64) {
        self.point_count += 1;
        self.point_charge += table::point_read(row_bytes);
    }

    /// A query looked at a row.
    #[inline]
    pub fn scan_row(&mut self, row_bytes: u64) {
        self.scanned_row_count += 1;
        self.scanned_bytes = self.scanned_bytes.saturating_add(row_bytes);
    }

    /// What it comes to, the least price of a request aside.
    #[inline]
    pub fn charge_so_far(&self) -> Charge {
        let read = match self.strength {
            ReadStrength::One => self.read_charge(),
            ReadStrength::Strong => self.read_charge().times(rules::STRONG_READ_TIMES),
        };
        read + self.written + rules::DEFINITION.times(self.definition_count)
    }

    /// What the reads come to, at one replica.
    #[inline]
    fn read_charge(&self) -> Charge {
        let counted = self.query_partition_count
            | self.scanned_row_count
            | self.index_entry_count
            | self.scanned_bytes
            | self.returned_row_count
            | self.returned_bytes;
        // Most requests read rows by their keys, or none.
        if counted == 0 {
            return self.point_charge;
        }
        self.query_charge()
    }

    #[inline(never)]
    fn query_charge(&self) -> Charge {
        self.point_charge
            + rules::QUERY_PARTITION.times(self.query_partition_count)
            + rules::QUERY_ROW.times(self.scanned_row_count.saturating_add(self.index_entry_count))
            + rules::of_bytes(self.scanned_bytes, rules::QUERY_SCANNED_64_KIB)
            + rules::RESULT_ROW.times(self.returned_row_count)
            + rules::of_bytes(self.returned_bytes, rules::RESULT_64_KIB)
    }
}

/// What a request costs that did this work.
pub fn charge(work: &Work) -> Charge {
    work.charge_so_far().at_least(rules::LEAST)
}

/// What one row costs to change, by its size before and after; `None` where it is not there.
///
/// Facts 2.1: a create costs the table's price, a replace that of both versions (5 + 5), a delete
/// that of the version which goes, and each index term 0.2.
pub fn write_change(before: Option<u64>, after: Option<u64>, index_terms: u64) -> Charge {
    let versions = match (before, after) {
        (None, None) => table::write(0),
        (None, Some(bytes)) | (Some(bytes), None) => table::write(bytes),
        (Some(before), Some(after)) => table::write(before) + table::write(after),
    };
    versions + rules::INDEX_TERM.times(index_terms)
}
