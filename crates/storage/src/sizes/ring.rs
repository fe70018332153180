//! How much of a table lies where on the ring, in fixed memory: equal parts of the ring with a sum
//! each. More parts as the table grows, so that each stays small against a physical partition.

use types::{RingRange, RingToken};

use super::row_size::Size;

/// A small table has so many parts.
const BITS_MIN: u32 = 6;
/// The largest has so many: a megabyte.
const BITS_MAX: u32 = 16;
/// Parts that are kept together.
pub(super) const CHUNK_PARTS: usize = 1 << BITS_MIN;

/// Sums over equal parts of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RingSums {
    bits: u32,
    parts: Vec<Size>,
    dirty: Vec<bool>,
    pub(super) total: Size,
}

impl Default for RingSums {
    fn default() -> RingSums {
        RingSums::with_bits(BITS_MIN)
    }
}

impl RingSums {
    fn with_bits(bits: u32) -> RingSums {
        let parts = vec![Size::default(); 1 << bits];
        let dirty = vec![false; parts.len() / CHUNK_PARTS];
        RingSums { bits, parts, dirty, total: Size::default() }
    }

    /// Adds where a token lies. A part is not to hold more than `part_bytes_max`, as far as there
    /// can be more parts.
    pub(super) fn add(&mut self, token: RingToken, size: Size, part_bytes_max: u64) {
        let index = (token.0 >> (128 - self.bits)) as usize;
        if let Some(part) = self.parts.get_mut(index) {
            part.add(size);
        }
        if let Some(dirty) = self.dirty.get_mut(index / CHUNK_PARTS) {
            *dirty = true;
        }
        self.total.add(size);
        let even = u64::try_from(self.total.bytes).unwrap_or(0) >> self.bits;
        if even > part_bytes_max && self.bits < BITS_MAX {
            self.grow();
        }
    }

    /// Twice as many parts; each half gets half.
    fn grow(&mut self) {
        let mut grown = RingSums::with_bits(self.bits + 1);
        grown.total = self.total;
        grown.parts.clear();
        for part in &self.parts {
            let half = Size { bytes: part.bytes / 2, rows: part.rows / 2 };
            grown.parts.extend([part.minus(half), half]);
        }
        grown.dirty.fill(true);
        *self = grown;
    }

    /// What lies in a range, parts cut by it in proportion.
    pub(crate) fn sum(&self, range: RingRange) -> Size {
        let mut sum = Size::default();
        self.each(range, |_, size| sum.add(size));
        Size { bytes: sum.bytes.max(0), rows: sum.rows.max(0) }
    }

    /// Hands over what lies in each part of the ring that shares tokens with the range, with the
    /// first token of the part that lies inside.
    pub(crate) fn each(&self, range: RingRange, mut take: impl FnMut(RingToken, Size)) {
        let shift = 128 - self.bits;
        let (first, last) = ((range.start.0 >> shift) as usize, (range.last.0 >> shift) as usize);
        let width = (1u128 << shift) as f64;
        for (number, part) in self.parts.iter().enumerate().skip(first).take(last - first + 1) {
            let start = (number as u128) << shift;
            let whole =
                RingRange { start: RingToken(start), last: RingToken(start | ((1 << shift) - 1)) };
            let Some(inside) = whole.intersect(&range) else { continue };
            if inside == whole {
                take(inside.start, *part);
                continue;
            }
            let share = ((inside.last.0 - inside.start.0) as f64 + 1.0) / width;
            let scaled = |number: i64| (number as f64 * share).round() as i64;
            take(inside.start, Size { bytes: scaled(part.bytes), rows: scaled(part.rows) });
        }
    }

    /// The chunks that changed since they were last taken: number and bytes.
    pub(super) fn take_dirty(&mut self, mut take: impl FnMut(u16, Vec<u8>)) {
        for (number, (chunk, dirty)) in
            self.parts.chunks(CHUNK_PARTS).zip(&mut self.dirty).enumerate()
        {
            if !std::mem::take(dirty) {
                continue;
            }
            let mut bytes = Vec::with_capacity(1 + CHUNK_PARTS * 16);
            bytes.push(self.bits as u8);
            for part in chunk {
                bytes.extend_from_slice(&part.bytes.to_be_bytes());
                bytes.extend_from_slice(&part.rows.to_be_bytes());
            }
            take(number as u16, bytes);
        }
    }

    /// How many chunks there are.
    pub(super) fn chunk_count(&self) -> usize {
        self.dirty.len()
    }

    /// Marks everything as changed.
    pub(super) fn touch_all(&mut self) {
        self.dirty.fill(true);
    }

    /// Takes a chunk back. Chunks come in their order; one with more parts than those before makes
    /// them finer. `None` if it is not one.
    pub(super) fn put_back(&mut self, number: u16, bytes: &[u8]) -> Option<()> {
        let (bits, parts) = bytes.split_first()?;
        let bits = u32::from(*bits);
        let (parts, rest) = parts.as_chunks::<16>();
        if !(BITS_MIN..=BITS_MAX).contains(&bits) || parts.len() != CHUNK_PARTS || !rest.is_empty()
        {
            return None;
        }
        // All chunks are written again when there are more parts: the finest is the newest.
        while self.bits < bits {
            self.grow();
        }
        self.dirty.fill(false);
        let first = usize::from(number) * CHUNK_PARTS;
        for (place, part) in self.parts.iter_mut().skip(first).zip(parts) {
            let (bytes, rows) = part.split_at(8);
            let number = |bytes: &[u8]| bytes.try_into().map(i64::from_be_bytes).unwrap_or(0);
            *place = Size { bytes: number(bytes), rows: number(rows) };
        }
        self.total = Size::default();
        for part in &self.parts {
            self.total.add(*part);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u128) -> RingToken {
        RingToken(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    #[test]
    fn sums_follow_ranges_and_come_back() {
        let mut sums = RingSums::default();
        for number in 0..10_000 {
            sums.add(token(number), Size { bytes: 100, rows: 1 }, 2_000);
        }
        assert_eq!(sums.total, Size { bytes: 1_000_000, rows: 10_000 });
        assert_eq!(sums.sum(RingRange::FULL), sums.total);
        assert!(sums.parts.len() >= 512, "{}", sums.parts.len());
        let half = RingRange { start: RingToken(0), last: RingToken(u128::MAX / 2) };
        let found = sums.sum(half).bytes;
        assert!((490_000..510_000).contains(&found), "{found}");
        let mut chunks = Vec::new();
        sums.take_dirty(|number, bytes| chunks.push((number, bytes)));
        let mut back = RingSums::default();
        for (number, bytes) in &chunks {
            back.put_back(*number, bytes).unwrap();
        }
        assert_eq!(back, sums);
        assert!(back.put_back(0, b"x").is_none());
    }
}
