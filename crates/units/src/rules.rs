//! Every rule that is not in the published table, with its source in the facts of the original
//! (`cosmos-facts.md`). Where the original publishes a shape and no number, the number is ours and
//! says so; it follows from the table wherever it can.

use crate::charge::Charge;

/// Nothing that is answered costs less, failures too, except a request that was refused because the
/// budget was spent: the price of the smallest read (facts 2.1, "failed requests are charged too").
pub const LEAST: Charge = Charge::from_hundredths(100);

/// An entry of a secondary index that is added or taken away (facts 2.1: 0.2 per term).
pub const INDEX_TERM: Charge = Charge::from_hundredths(20);

/// A query, that is a read other than by whole keys, for each physical partition it looks into
/// (facts 1.5: "about 2-3 RU each as overhead"; the middle).
pub const QUERY_PARTITION: Charge = Charge::from_hundredths(250);

/// A row or an index entry that a query looks at, returned or not. Ours: the first kilobyte past the
/// first in the table's reads.
pub const QUERY_ROW: Charge = Charge::from_hundredths(4);

/// 64 KB that a query looks at. Ours: the table's rate from 64 to 512 KB, 0.08 a kilobyte, so that
/// reading rows together costs what reading their bytes as one row would.
pub const QUERY_SCANNED_64_KIB: Charge = Charge::from_hundredths(512);

/// A row that a query returns (facts 2.1: "rows and bytes returned"). Ours.
pub const RESULT_ROW: Charge = Charge::from_hundredths(2);

/// 64 KB that a query returns: projections make it less. Ours: half of what reading them costs.
pub const RESULT_64_KIB: Charge = Charge::from_hundredths(256);

/// A read that asks two replicas costs double (facts 2.1: Strong or Bounded staleness). Conditions of
/// lightweight transactions are such reads.
pub const STRONG_READ_TIMES: u64 = 2;

/// A deletion of a whole logical partition or of a range of rows: one mark, the price of the smallest
/// write. Ours: the original has no such deletions.
pub const RANGE_DELETION: Charge = Charge::from_hundredths(495);

/// A definition (CREATE, ALTER, DROP, TRUNCATE, roles): the price of the smallest write. Ours.
pub const DEFINITION: Charge = Charge::from_hundredths(495);

/// Bytes at a price per 64 KB.
pub(crate) fn of_bytes(bytes: u64, per_64_kib: Charge) -> Charge {
    let micros = u128::from(bytes) * u128::from(per_64_kib.micros()) / (64 * 1024);
    Charge::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}
