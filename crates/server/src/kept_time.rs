//! What is kept of the time, so that a restart goes on from it though the clock was set back.
//!
//! Times are reserved ahead: no time is given before a file says that it may have been. So nothing is written for a
//! single request, and a crash leaves a bound, whatever the clock did. The bound is narrowed by when the log was last
//! written to, where that is known. Times beyond the reserve wait for the next round: a clock that leaps ahead is
//! followed a moment later.

use std::io;
use std::time::Duration;

use storage::{DataDir, OpenError, Slots};

use crate::world;

/// The file of slots with the bound.
const CLOCK: &str = "clock";
/// Times are reserved so far ahead while requests come ...
const RESERVE_US: i64 = 1_000_000;
/// ... and so far while none do, so that a node without work leaves the disk alone.
const IDLE_RESERVE_US: i64 = 60_000_000;
/// So much of the reserve is for the steps between writes that find the clock at its ceiling.
const STEPS_US: i64 = RESERVE_US / 4;
/// How often it is looked whether more is to be reserved.
pub(crate) const ROUND: Duration = Duration::from_millis(400);
/// After so many rounds without a request a node has no work.
const IDLE_ROUNDS: u32 = 25;
/// A clock that is behind by no more than this is not told of.
const BEHIND_TOLD: Duration = Duration::from_secs(1);
/// Without a bound, a log that is younger than the clock by more than this says nothing about the time.
const BEHIND_US_MAX: i64 = 3_600_000_000;
/// Times of files are that coarse.
const FILE_TIME_US: i64 = 20_000;

/// What the file says: all times up to `given_us` were given, and none after `reserved_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    given_us: i64,
    reserved_us: i64,
}

impl Bound {
    fn encode(self) -> [u8; 16] {
        let both = u128::from(self.given_us as u64) << 64 | u128::from(self.reserved_us as u64);
        both.to_be_bytes()
    }

    fn decode(record: &[u8]) -> Option<Bound> {
        let (given, reserved) = record.split_first_chunk::<8>()?;
        let reserved = reserved.try_into().ok()?;
        Some(Bound {
            given_us: i64::from_be_bytes(*given),
            reserved_us: i64::from_be_bytes(reserved),
        })
    }
}

/// The last time that may have been given before this start.
fn last_given(bound: Option<Bound>, written_us: Option<i64>, now_us: i64) -> Option<i64> {
    match (bound, written_us) {
        // Files have their times from a clock that is wrong now, or was: they tell nothing.
        (Some(bound), _) if now_us < bound.given_us => Some(bound.reserved_us),
        (Some(bound), Some(written_us)) => {
            let written_us = written_us.saturating_add(FILE_TIME_US);
            Some(written_us.min(bound.reserved_us).max(bound.given_us))
        }
        (Some(bound), None) => Some(bound.reserved_us),
        // From before there was a bound.
        (None, Some(written_us)) => {
            (written_us.saturating_sub(now_us) <= BEHIND_US_MAX).then_some(written_us)
        }
        (None, None) => None,
    }
}

/// Keeps the bound.
#[derive(Debug)]
pub(crate) struct KeptTime {
    slots: Slots,
    reserved_us: i64,
    /// The last time that was given when it was last looked.
    given_us: i64,
    /// Rounds since then.
    idle_rounds: u32,
    is_told: bool,
    is_failing: bool,
}

/// Until when times are to be reserved, if not until where they are.
fn reserve(now_us: i64, reserved_us: i64, is_idle: bool) -> Option<i64> {
    let ahead_us = if is_idle { IDLE_RESERVE_US } else { RESERVE_US };
    let left_us = reserved_us.saturating_sub(now_us);
    // More than is wanted is given back: after a crash it is not known what of it was used.
    let is_due =
        left_us < ahead_us / 2 || left_us > IDLE_RESERVE_US || !is_idle && left_us > 2 * RESERVE_US;
    is_due.then(|| now_us.saturating_add(ahead_us))
}

impl KeptTime {
    /// Goes on from the time that was kept, and reserves more.
    pub(crate) fn open(data_dir: &DataDir) -> Result<KeptTime, OpenError> {
        let slots = data_dir.open_slots(CLOCK)?;
        let records = slots.all()?;
        let bounds = records.iter().filter_map(|record| Bound::decode(record));
        let bound = bounds.max_by_key(|bound| bound.reserved_us);
        if let Some(given_us) = last_given(bound, data_dir.last_written_us(), world::now_us()) {
            world::go_on_from(given_us);
        }
        let now_us = world::unbounded_us();
        let (given_us, is_told, is_failing) = (now_us, false, false);
        let mut kept =
            KeptTime { slots, reserved_us: 0, given_us, idle_rounds: 0, is_told, is_failing };
        kept.put(now_us, now_us.saturating_add(RESERVE_US))
            .map_err(|error| OpenError::Io { path: data_dir.path().to_owned(), error })?;
        kept.tell();
        Ok(kept)
    }

    /// Reserves more where it is due. Called again and again, where the disk may be waited for.
    pub(crate) fn renew(&mut self) {
        self.tell();
        let given_us = world::last_write_us();
        self.idle_rounds =
            if given_us > self.given_us { 0 } else { self.idle_rounds.saturating_add(1) };
        self.given_us = given_us.max(self.given_us);
        let is_idle = self.idle_rounds >= IDLE_ROUNDS;
        let Some(until_us) = reserve(world::unbounded_us(), self.reserved_us, is_idle) else {
            return;
        };
        match self.put(self.given_us, until_us) {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                // A time that stands still would harm more than one that is not kept.
                world::set_ceiling(i64::MAX);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "the time is not kept; it is tried again");
                }
            }
        }
    }

    /// The node gives no more times: what was given is known.
    pub(crate) fn finish(&mut self) {
        let given_us = world::last_write_us().max(self.given_us);
        if let Err(error) = self.put(given_us, given_us) {
            tracing::warn!(%error, "the time is not kept");
        }
    }

    fn put(&mut self, given_us: i64, reserved_us: i64) -> io::Result<()> {
        let is_less = reserved_us < self.reserved_us;
        let ceiling_us = reserved_us.saturating_sub(STEPS_US);
        if is_less {
            world::set_ceiling(ceiling_us);
        }
        // Always the same slot: it is written twice, so that one of both is whole after a crash.
        self.slots.put(0, &Bound { given_us, reserved_us }.encode())?;
        self.reserved_us = reserved_us;
        world::set_ceiling(ceiling_us);
        Ok(())
    }

    /// Says when the clock of the machine is behind, and when it is no more.
    fn tell(&mut self) {
        let behind = world::clock_behind();
        let is_behind = behind > BEHIND_TOLD;
        if is_behind && !self.is_told {
            let seconds = behind.as_secs();
            tracing::warn!(
                seconds,
                "the clock of the machine is behind the times that this node gave; was it set back? The node goes on from its own"
            );
        } else if !is_behind && self.is_told {
            tracing::warn!("the clock of the machine has caught up");
        }
        self.is_told = is_behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_reserved_when_it_is_due() {
        let second = 1_000_000;
        assert_eq!(reserve(10 * second, 0, false), Some(11 * second));
        assert_eq!(reserve(10 * second, 11 * second, false), None);
        assert_eq!(reserve(10 * second + 600_000, 11 * second, false), Some(11_600_000));
        // Nobody asks: once for a long time, and given back when somebody does.
        assert_eq!(reserve(11 * second, 12 * second, true), Some(71 * second));
        assert_eq!(reserve(12 * second, 71 * second, true), None);
        assert_eq!(reserve(12 * second, 71 * second, false), Some(13 * second));
        // The clock leapt ahead, or back.
        assert_eq!(reserve(900 * second, 13 * second, false), Some(901 * second));
        assert_eq!(reserve(10 * second, 901 * second, true), Some(70 * second));
    }

    #[test]
    fn the_last_time_is_within_its_bound() {
        let bound = Bound { given_us: 5_000_000, reserved_us: 6_000_000 };
        assert_eq!(Bound::decode(&bound.encode()), Some(bound));
        assert_eq!(Bound::decode(&[0; 15]), None);
        let of = |bound, written| last_given(bound, written, 10_000_000);
        assert_eq!(last_given(Some(bound), Some(5_500_000), 4_000_000), Some(6_000_000));
        assert_eq!(of(Some(bound), Some(1)), Some(5_000_000));
        assert_eq!(of(Some(bound), Some(5_500_000)), Some(5_520_000));
        assert_eq!(of(Some(bound), Some(9_000_000)), Some(6_000_000));
        assert_eq!(of(Some(bound), None), Some(6_000_000));
        assert_eq!(of(None, Some(11_000_000)), Some(11_000_000));
        assert_eq!(of(None, Some(i64::MAX)), None);
        assert_eq!(of(None, None), None);
    }
}
