//! The published cost table (facts 2.1; key-value-store-cost.md and
//! understand-request-unit-consumption.md), and the sizes between its rows.
//!
//! A size between two rows costs what the straight line between them says; a size past the last row
//! goes on along the last line. Up to 1 KB everything costs the same, as in the original. A KB is 1,024
//! bytes.

use crate::charge::Charge;

const KIB: u64 = 1024;

/// Kilobytes, hundredths of a request unit for a point read, and for a write.
pub const PUBLISHED: [(u64, u64, u64); 12] = [
    (1, 100, 495),
    (2, 104, 629),
    (4, 114, 667),
    (8, 133, 704),
    (16, 167, 952),
    (32, 219, 1123),
    (64, 476, 2267),
    (128, 995, 4819),
    (256, 2028, 9829),
    (512, 4095, 18457),
    (1024, 14590, 62500),
    (2048, 29180, 125_000),
];

/// What one row costs to read by its whole key.
pub fn point_read(row_bytes: u64) -> Charge {
    interpolate(row_bytes, |(kib, read, _)| (kib, read))
}

/// What one row costs to write where there was none.
pub fn write(row_bytes: u64) -> Charge {
    interpolate(row_bytes, |(kib, _, write)| (kib, write))
}

fn interpolate(bytes: u64, pick: impl Fn((u64, u64, u64)) -> (u64, u64)) -> Charge {
    let at = |index: usize| {
        let (kib, hundredths) = PUBLISHED.get(index).copied().map_or((0, 0), &pick);
        (kib * KIB, Charge::from_hundredths(hundredths).micros())
    };
    // Most rows; the first size of the table is one KiB.
    if bytes <= KIB {
        return Charge::from_micros(at(0).1);
    }
    let last = PUBLISHED.len() - 1;
    let above = PUBLISHED.partition_point(|(kib, _, _)| kib * KIB < bytes).clamp(1, last);
    let ((low_bytes, low), (high_bytes, high)) = (at(above - 1), at(above));
    // In 128 bits nothing overflows: both factors are below 2^64.
    let (past, step) = (u128::from(bytes - low_bytes), u128::from(high_bytes - low_bytes));
    let more = past * u128::from(high - low) / step;
    Charge::from_micros(low.saturating_add(u64::try_from(more).unwrap_or(u64::MAX)))
}
