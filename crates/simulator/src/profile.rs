//! What a seed is about. Four seeds of ten mix everything; each of the others has more of one kind of trouble than a mixture can have, because
//! some rules matter only where several rare things come together.

use node_log::simulated_disk::Random;
use types::TableId;

use crate::faults::{
    CAMPAIGN, CLOCK, CUT_ONE_WAY, FLUSH_OR_MERGE, KEEP_IMAGE, KILL, LEAP, LOSE_DISK, MOVE, PAUSE,
    POWER_LOSS, SPLIT,
};
use crate::tables::{COUNTERS, REGISTERS, TABLES};

/// What a seed is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Everything, as it comes.
    Mixed,
    /// Votes, and those who gave them begin again at once.
    Elections,
    /// Members that come and go; those that stay and those that go are parted just then.
    Moves,
    /// Splits, and machines that lose their power at them.
    Splits,
    /// Disks that come back as they were.
    Images,
    /// Clocks far apart, and a time that leaps.
    Clocks,
    /// Lists, whose elements are named by nodes whose clocks differ, and ordered by leaders that change.
    Lists,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// One key, with the time of its leader.
    Plain,
    /// All keys of a group.
    Batch,
    /// Keys that are written alone, and by batches over any of them.
    Shared,
    /// One key, with a time of the client's.
    Timed,
    /// A list, whose elements stand in the order in which its set took them.
    List,
}

impl Profile {
    /// It follows from the last digit, so that seeds of one kind are easily found.
    pub(crate) fn of(seed: u64) -> Profile {
        match seed % 10 {
            4 => Profile::Lists,
            5 => Profile::Elections,
            6 => Profile::Moves,
            7 => Profile::Splits,
            8 => Profile::Images,
            9 => Profile::Clocks,
            _ => Profile::Mixed,
        }
    }

    /// How many machines and sets there are.
    pub(crate) fn size(self, random: &mut Random) -> (u64, u64) {
        let (nodes, sets) = (random.below(4), random.below(3));
        match self {
            Profile::Mixed | Profile::Lists => (3 + nodes, 1 + sets),
            Profile::Elections => (3 + nodes / 2, 1 + sets / 2),
            Profile::Moves => (6, 1 + sets),
            Profile::Splits => (4 + nodes / 2, 1 + sets / 2),
            Profile::Images => (4, 1 + sets / 2),
            Profile::Clocks => (4 + nodes / 2, 3),
        }
    }

    /// How much faster the steady time of a machine goes than the true one, in millionths: two of them differ by less than a tenth.
    pub(crate) fn faster_ppm(self, seed: u64, machine: usize) -> i64 {
        match self {
            Profile::Elections | Profile::Clocks => {
                let mut random = Random::new(seed ^ (machine as u64 + 1) << 40);
                random.below(90_001).cast_signed() - 45_000
            }
            Profile::Mixed
            | Profile::Moves
            | Profile::Splits
            | Profile::Images
            | Profile::Lists => 0,
        }
    }

    /// How many voters every set has, if that does not vary.
    pub(crate) fn voters(self) -> Option<usize> {
        match self {
            // Of three the vote of one decides.
            Profile::Elections | Profile::Moves | Profile::Images => Some(3),
            Profile::Mixed | Profile::Splits | Profile::Clocks | Profile::Lists => None,
        }
    }

    /// What goes wrong two times out of three.
    pub(crate) fn faults(self) -> &'static [u64] {
        match self {
            Profile::Mixed => &[],
            Profile::Elections => &[CAMPAIGN, CAMPAIGN, CAMPAIGN, PAUSE, POWER_LOSS],
            Profile::Moves => &[MOVE, MOVE, MOVE, LOSE_DISK, FLUSH_OR_MERGE, FLUSH_OR_MERGE],
            Profile::Splits => &[SPLIT, SPLIT, MOVE, MOVE, PAUSE, KILL],
            Profile::Images => &[KEEP_IMAGE, KEEP_IMAGE, KEEP_IMAGE, CUT_ONE_WAY],
            Profile::Clocks => &[CLOCK, LEAP, LEAP, CUT_ONE_WAY, CUT_ONE_WAY, KILL, SPLIT],
            Profile::Lists => &[CLOCK, LEAP, CAMPAIGN, CUT_ONE_WAY, PAUSE, KILL],
        }
    }

    /// By how much a clock is wrong at most. Where that comes often, sets' seconds must not be further apart than parts of batches are sent
    /// for: they would wait until the time is there.
    pub(crate) fn clock_us_max(self) -> u64 {
        let is_often = matches!(self, Profile::Clocks | Profile::Lists);
        if is_often { 25_000_000 } else { 90_000_000 }
    }

    pub(crate) fn has_lists(self) -> bool {
        self == Profile::Lists
    }

    /// The tables that sets hold.
    pub(crate) fn tables(self) -> &'static [TableId] {
        if self.has_lists() { &TABLES } else { &[REGISTERS, COUNTERS] }
    }

    /// How much later than others it begins, in seconds. What is put before the elements of a list is named by times before 2010.
    pub(crate) fn later_s(self) -> i64 {
        if self.has_lists() { 1_800_000_000 } else { 0 }
    }

    pub(crate) fn topic(self, random: &mut Random) -> Topic {
        let draw = random.below(12);
        match (self, draw) {
            (Profile::Clocks, 6..9) => Topic::Plain,
            (Profile::Clocks, 3..6 | 9..) => Topic::Shared,
            (Profile::Moves, 4..8) => Topic::Timed,
            (_, 0..3) => Topic::Batch,
            (_, 3) => Topic::Shared,
            (_, 4) => Topic::Timed,
            (Profile::Lists, 5..10) => Topic::List,
            _ => Topic::Plain,
        }
    }
}
