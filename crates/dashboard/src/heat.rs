//! How hot each physical partition was: its request units per second, half an hour finely and a day coarsely.

use std::collections::HashMap;

/// Slots of ten seconds, half an hour of them.
pub const FINE_SLOTS: usize = 180;
/// Seconds of one.
pub const FINE_SECONDS: u32 = 10;
/// Slots of five minutes, a day of them.
pub const COARSE_SLOTS: usize = 288;
/// Seconds of one.
pub const COARSE_SECONDS: u32 = 300;
/// So many physical partitions are remembered; of further ones nothing is, until others are gone.
pub const PARTITIONS_MAX: usize = 16_384;
/// Four levels for each doubling: a level is exact to 19 %.
const LEVELS_PER_DOUBLING: f64 = 4.0;
/// The request units per second of level one.
const LEAST: f64 = 0.1;

/// A physical partition; what was never hot takes no memory.
struct Row {
    fine: [u8; FINE_SLOTS],
    coarse: [u8; COARSE_SLOTS],
}

/// The last day of all of them.
#[derive(Default)]
pub struct Heat {
    rows: HashMap<u32, Box<Row>>,
    fine_slot: u32,
    coarse_slot: u32,
}

/// How much of the past is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    HalfHour,
    Day,
}

impl Span {
    /// Seconds of a slot, and how many there are.
    pub fn slots(self) -> (u32, usize) {
        match self {
            Span::HalfHour => (FINE_SECONDS, FINE_SLOTS),
            Span::Day => (COARSE_SECONDS, COARSE_SLOTS),
        }
    }
}

impl Heat {
    /// What physical partitions spend now, per second, by their numbers. Those that are not told of are gone, and are forgotten once
    /// nothing of them is left to be seen.
    pub fn sample(&mut self, at_s: u32, now: impl Iterator<Item = (u32, f64)>) {
        self.move_to(at_s);
        let (fine, coarse) =
            (place(self.fine_slot, FINE_SLOTS), place(self.coarse_slot, COARSE_SLOTS));
        for (id, ru_s) in now {
            let level = level_of(ru_s);
            if level == 0 && !self.rows.contains_key(&id) {
                continue;
            }
            if self.rows.len() >= PARTITIONS_MAX && !self.rows.contains_key(&id) {
                continue;
            }
            let row = self.rows.entry(id).or_insert_with(|| {
                Box::new(Row { fine: [0; FINE_SLOTS], coarse: [0; COARSE_SLOTS] })
            });
            raise(&mut row.fine, fine, level);
            raise(&mut row.coarse, coarse, level);
        }
    }

    /// Empties the slots that a new time takes from an old one.
    fn move_to(&mut self, at_s: u32) {
        let (fine, coarse) = (at_s / FINE_SECONDS, at_s / COARSE_SECONDS);
        let (fine_from, coarse_from) = (self.fine_slot, self.coarse_slot);
        if fine < fine_from {
            // The clock was set back: what is known stands where it stands.
            return;
        }
        let is_new_coarse = coarse > coarse_from;
        for row in self.rows.values_mut() {
            empty(&mut row.fine, fine_from, fine);
            empty(&mut row.coarse, coarse_from, coarse);
        }
        (self.fine_slot, self.coarse_slot) = (fine, coarse);
        if is_new_coarse {
            self.rows.retain(|_, row| row.coarse.iter().any(|level| *level > 0));
        }
    }

    /// The levels of a physical partition, oldest first; none if it never was hot.
    pub fn levels(&self, id: u32, span: Span) -> Option<Vec<u8>> {
        let row = self.rows.get(&id)?;
        let (slots, newest): (&[u8], u32) = match span {
            Span::HalfHour => (&row.fine, self.fine_slot),
            Span::Day => (&row.coarse, self.coarse_slot),
        };
        let first = place(newest, slots.len()) + 1;
        let (later, earlier) = slots.split_at_checked(first)?;
        Some(earlier.iter().chain(later).copied().collect())
    }

    /// The end of the newest slot, in seconds since 1970.
    pub fn end_s(&self, span: Span) -> u32 {
        let (seconds, _) = span.slots();
        let slot = match span {
            Span::HalfHour => self.fine_slot,
            Span::Day => self.coarse_slot,
        };
        slot.saturating_add(1).saturating_mul(seconds)
    }

    /// Bytes that are taken.
    pub fn held_bytes(&self) -> usize {
        self.rows.len() * (size_of::<Row>() + size_of::<(u32, Box<Row>)>())
    }
}

fn place(slot: u32, count: usize) -> usize {
    slot as usize % count.max(1)
}

fn raise(slots: &mut [u8], place: usize, level: u8) {
    if let Some(slot) = slots.get_mut(place) {
        *slot = level.max(*slot);
    }
}

/// Empties the slots after `from` up to `to`.
fn empty(slots: &mut [u8], from: u32, to: u32) {
    let count = slots.len();
    for step in 1..=to.saturating_sub(from).min(count as u32) {
        if let Some(slot) = slots.get_mut(place(from.saturating_add(step), count)) {
            *slot = 0;
        }
    }
    // After a long pause everything is old.
    if to.saturating_sub(from) as usize >= count {
        slots.fill(0);
    }
}

/// Request units per second as a level; zero for next to nothing.
pub fn level_of(ru_s: f64) -> u8 {
    if !ru_s.is_finite() || ru_s < LEAST {
        return 0;
    }
    ((ru_s / LEAST).log2() * LEVELS_PER_DOUBLING + 1.0).clamp(1.0, 255.0) as u8
}

/// The request units per second of a level.
pub fn ru_of(level: u8) -> f64 {
    match level {
        0 => 0.0,
        level => LEAST * ((f64::from(level) - 1.0) / LEVELS_PER_DOUBLING).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_the_numbers() {
        assert_eq!((level_of(0.0), level_of(f64::NAN), level_of(-1.0)), (0, 0, 0));
        for ru_s in [0.1, 1.0, 12.5, 400.0, 10_000.0, 1_000_000.0] {
            let back = ru_of(level_of(ru_s));
            assert!(back <= ru_s * 1.001 && back > ru_s / 1.2, "{ru_s}: {back}");
        }
        assert_eq!(level_of(f64::MAX), 255);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut heat = Heat::default();
        heat.sample(1_000_000, [(1, 100.0), (2, 0.0)].into_iter());
        assert!(heat.levels(2, Span::Day).is_none(), "what was never hot takes no memory");
        heat.sample(1_000_010, [(1, 50.0)].into_iter());
        let fine = heat.levels(1, Span::HalfHour).unwrap();
        assert_eq!(fine.len(), FINE_SLOTS);
        assert_eq!(fine[FINE_SLOTS - 2..], [level_of(100.0), level_of(50.0)]);
        assert_eq!(heat.levels(1, Span::Day).unwrap().last(), Some(&level_of(100.0)));
        heat.sample(1_000_010 + 3600, [].into_iter());
        assert!(heat.levels(1, Span::HalfHour).unwrap().iter().all(|level| *level == 0));
        assert!(heat.levels(1, Span::Day).unwrap().contains(&level_of(100.0)));
        heat.sample(1_000_010 + 90_000, [].into_iter());
        assert!(heat.levels(1, Span::Day).is_none());
        // A clock that was set back empties nothing.
        heat.sample(5, [(1, 1.0)].into_iter());
        assert!(heat.levels(1, Span::HalfHour).is_some());
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut heat = Heat::default();
        heat.sample(10, (0..100_000).map(|id| (id, 5.0)));
        assert!(heat.levels(PARTITIONS_MAX as u32 + 1, Span::Day).is_none());
        assert!(heat.held_bytes() < 9_000_000, "{}", heat.held_bytes());
    }
}
