//! Which keys may have become large, among more keys than can be counted one by one: space saving
//! in small buckets. It never says less than was added for a key since it began, often more.

use types::RingToken;

/// Slots of a small table.
const SLOTS_MIN: usize = 512;
/// Slots of the largest.
pub(super) const SLOTS_MAX: usize = 32 * 1024;
/// A key has its place in one of these.
const BUCKET_SLOTS: usize = 4;
const SLOT_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    ring: u128,
    bytes: u64,
}

/// Estimates of sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sketch {
    slots: Vec<Slot>,
}

impl Sketch {
    /// Adds what a key grew by; returns the estimate of all that was ever added.
    pub(super) fn add(&mut self, ring: RingToken, bytes: u64) -> u64 {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS_MIN, Slot::default());
        }
        let Some(slot) = self.slot(ring) else { return 0 };
        slot.ring = ring.0;
        slot.bytes = slot.bytes.saturating_add(bytes);
        slot.bytes
    }

    /// Says what a key has.
    pub(super) fn set(&mut self, ring: RingToken, bytes: u64) {
        if self.add(ring, 0) != bytes
            && let Some(slot) = self.slot(ring)
        {
            slot.bytes = bytes;
        }
    }

    /// The slot of a key, or the smallest of its bucket.
    fn slot(&mut self, ring: RingToken) -> Option<&mut Slot> {
        let bucket_count = self.slots.len() / BUCKET_SLOTS;
        // The lower half of a ring token is a hash of its own.
        let bucket = (ring.0 as u64 % bucket_count.max(1) as u64) as usize;
        let start = bucket * BUCKET_SLOTS;
        let slots = self.slots.get_mut(start..start + BUCKET_SLOTS)?;
        let known = slots.iter().position(|slot| slot.ring == ring.0);
        let index = known.or_else(|| {
            let smallest = slots.iter().enumerate().min_by_key(|(_, slot)| slot.bytes);
            smallest.map(|(index, _)| index)
        })?;
        slots.get_mut(index)
    }

    /// More slots, as far as there can be more.
    pub(super) fn grow_to(&mut self, slot_count: usize) {
        let wanted = slot_count;
        let slot_count = slot_count.next_power_of_two().clamp(BUCKET_SLOTS, SLOTS_MAX);
        if wanted == 0 || slot_count <= self.slots.len() {
            return;
        }
        let old = std::mem::take(&mut self.slots);
        self.slots.resize(slot_count, Slot::default());
        for slot in old.into_iter().filter(|slot| slot.bytes > 0) {
            self.set(RingToken(slot.ring), slot.bytes);
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.slots.len() * SLOT_BYTES);
        for slot in &self.slots {
            bytes.extend_from_slice(&slot.ring.to_be_bytes());
            bytes.extend_from_slice(&slot.bytes.to_be_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Sketch> {
        let (slots, rest) = bytes.as_chunks::<SLOT_BYTES>();
        // Nodes of before wrote one empty slot where they had counted nothing.
        if rest.is_empty() && slots.len() < BUCKET_SLOTS {
            return Some(Sketch::default());
        }
        if !rest.is_empty() || slots.len() > SLOTS_MAX || slots.len() % BUCKET_SLOTS != 0 {
            return None;
        }
        let slot = |bytes: &[u8; SLOT_BYTES]| {
            let (ring, bytes) = bytes.split_at(16);
            Some(Slot {
                ring: u128::from_be_bytes(ring.try_into().ok()?),
                bytes: u64::from_be_bytes(bytes.try_into().ok()?),
            })
        };
        Some(Sketch { slots: slots.iter().map(slot).collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_of_any_size_comes_back() {
        for slot_count in [0, 1, 2, 3, 4, 5, 64, SLOTS_MAX, SLOTS_MAX + 1] {
            let mut sketch = Sketch::default();
            sketch.grow_to(slot_count);
            let back = Sketch::decode(&sketch.encode()).unwrap();
            assert_eq!(back.encode(), sketch.encode(), "{slot_count} slots");
        }
        // One empty slot, as it was written before.
        assert!(Sketch::decode(&[0; SLOT_BYTES]).unwrap().encode().is_empty());
        assert!(Sketch::decode(&[0; SLOT_BYTES - 1]).is_none());
    }

    #[test]
    fn a_heavy_key_is_never_underestimated() {
        let mut sketch = Sketch::default();
        let token = |number: u128| RingToken(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_1234_5679));
        let mut estimate = 0;
        for number in 0..100_000u128 {
            sketch.add(token(number), 10);
            if number % 100 == 0 {
                estimate = sketch.add(token(7), 1000);
            }
        }
        assert!(estimate >= 1_000_000, "{estimate}");
        sketch.grow_to(4096);
        assert!(sketch.add(token(7), 0) >= 1_000_000);
        assert_eq!(Sketch::decode(&sketch.encode()), Some(sketch));
        assert_eq!(Sketch::decode(&[1]), None);
    }
}
