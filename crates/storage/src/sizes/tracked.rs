//! One logical partition whose size is known.

use bytes::Bytes;

use super::row_size::Size;

/// Between two walks over a partition that is deleted from again and again.
const WALK_INTERVAL_S: u32 = 2;
/// Between two walks over a partition in which something expires all the time.
const EXPIRY_INTERVAL_S: u32 = 60;
/// A walk looks at some fifty thousand rows in a second; it rests ten times as long as it took ...
const ROWS_PER_REST_S: i64 = 5_000;
/// ... but no longer than this: what is dead is counted for five minutes at most.
const REST_MAX_S: u32 = 240;

const VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracked {
    pub(super) key: Bytes,
    pub(super) size: Size,
    /// When its rows should be looked at, because some of them are dead.
    walk_at_s: Option<u32>,
    /// When it was last looked at.
    walked_at_s: u32,
    /// It is being looked at; what comes of that is not known yet, and lost if the node stops.
    is_walked: bool,
    /// When the first of its cells expires.
    expires_at_s: Option<u32>,
    /// The highest level of the limit that somebody was warned of.
    warned_level: u8,
    /// How large it was then, at least.
    warned_bytes: i64,
    pub(super) is_dirty: bool,
    /// A walk over the whole table came by.
    pub(super) is_seen: bool,
}

impl Tracked {
    pub(super) fn new(key: Bytes, size: Size) -> Tracked {
        Tracked {
            key: Bytes::copy_from_slice(&key),
            size,
            walk_at_s: None,
            walked_at_s: 0,
            is_walked: false,
            expires_at_s: None,
            warned_level: 0,
            warned_bytes: 0,
            is_dirty: true,
            is_seen: true,
        }
    }

    pub(super) fn add(&mut self, size: Size) {
        self.size.add(size);
        self.is_dirty = true;
        if size.bytes < 0 {
            self.forget_warning();
        }
    }

    /// A walk found that it holds this.
    pub(super) fn set(&mut self, size: Size) {
        self.size = size;
        self.is_walked = false;
        self.is_dirty = true;
        self.is_seen = true;
        self.forget_warning();
    }

    /// Once it has shrunk, it is warned of again.
    fn forget_warning(&mut self) {
        if self.size.bytes < self.warned_bytes / 10 * 9 {
            self.warned_level = 0;
            self.warned_bytes = 0;
        }
    }

    pub(super) fn ask_for_walk(&mut self, now_s: u32) {
        let earliest = self.rested_at_s(WALK_INTERVAL_S).max(now_s);
        self.walk_at_s = Some(self.walk_at_s.map_or(earliest, |at| at.min(earliest)));
        self.is_dirty = true;
    }

    pub(super) fn note_expiry(&mut self, expires_at_s: Option<u32>) {
        if let Some(at) = expires_at_s {
            self.expires_at_s = Some(self.expires_at_s.map_or(at, |first| first.min(at)));
        }
    }

    /// When it may be looked at again: a large one less often, so that walks take a tenth of a thread's
    /// time at most, whatever is deleted or expires in it.
    fn rested_at_s(&self, least_s: u32) -> u32 {
        let rest_s = u32::try_from(self.size.rows.max(0) / ROWS_PER_REST_S).unwrap_or(u32::MAX);
        self.walked_at_s.saturating_add(rest_s.clamp(least_s, REST_MAX_S))
    }

    pub(super) fn is_walk_due(&self, now_s: u32) -> bool {
        let may_expire_at = self.rested_at_s(EXPIRY_INTERVAL_S);
        self.walk_at_s.is_some_and(|at| at <= now_s)
            || self.expires_at_s.is_some_and(|at| at.saturating_add(1).max(may_expire_at) <= now_s)
    }

    /// A walk begins: what dies from now on asks for another one.
    pub(super) fn begin_walk(&mut self, now_s: u32) {
        self.walk_at_s = None;
        self.expires_at_s = None;
        self.walked_at_s = now_s;
        self.is_walked = true;
    }

    /// A walk was given up: it is to be made again.
    pub(super) fn give_up_walk(&mut self) {
        if std::mem::take(&mut self.is_walked) {
            self.walk_at_s = Some(0);
            self.is_dirty = true;
        }
    }

    /// The highest of the levels that the partition passes by growing to so many bytes, once.
    pub(super) fn passes(&mut self, bytes: u64, limit: u64, levels: &[u8]) -> Option<u8> {
        let share = bytes.saturating_mul(100) / limit.max(1);
        let level = *levels.iter().rev().find(|level| u64::from(**level) <= share)?;
        if level <= self.warned_level {
            return None;
        }
        self.warned_level = level;
        self.warned_bytes = i64::try_from(limit / 100 * u64::from(level)).unwrap_or(i64::MAX);
        self.is_dirty = true;
        Some(level)
    }

    /// Version (1), level warned of (1), bytes (8), rows (8), first expiry or zero (4), a walk is
    /// wanted (1), key.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.warned_level];
        bytes.extend_from_slice(&self.size.bytes.to_be_bytes());
        bytes.extend_from_slice(&self.size.rows.to_be_bytes());
        bytes.extend_from_slice(&self.expires_at_s.unwrap_or(0).to_be_bytes());
        bytes.push(u8::from(self.walk_at_s.is_some() || self.is_walked));
        bytes.extend_from_slice(&self.key);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Tracked> {
        let (&[version, warned_level], rest) = bytes.split_first_chunk::<2>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let (rows, rest) = rest.split_first_chunk::<8>()?;
        let (expires_at_s, rest) = rest.split_first_chunk::<4>()?;
        let (wants_walk, key) = rest.split_first()?;
        let size = Size { bytes: i64::from_be_bytes(*size), rows: i64::from_be_bytes(*rows) };
        let expires_at_s = u32::from_be_bytes(*expires_at_s);
        (version == VERSION).then(|| Tracked {
            warned_level,
            expires_at_s: (expires_at_s != 0).then_some(expires_at_s),
            walk_at_s: (*wants_walk != 0).then_some(0),
            is_dirty: false,
            ..Tracked::new(Bytes::copy_from_slice(key), size)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_a_stop_cuts_off_is_made_after_the_start() {
        let mut tracked = Tracked::new(Bytes::from_static(b"k"), Size::default());
        tracked.ask_for_walk(10);
        tracked.begin_walk(10);
        let kept = Tracked::decode(&tracked.encode()).unwrap();
        assert!(kept.is_walk_due(10), "written while it was looked at");
        tracked.give_up_walk();
        assert!(tracked.is_walk_due(10), "given up");
        tracked.begin_walk(10);
        tracked.set(Size::default());
        assert!(!Tracked::decode(&tracked.encode()).unwrap().is_walk_due(10), "done");
    }

    #[test]
    fn levels_are_passed_once_and_again_after_shrinking() {
        let mut tracked = Tracked::new(Bytes::from_static(b"k"), Size { bytes: 400, rows: 1 });
        let levels = [50, 80, 95];
        assert_eq!(tracked.passes(450, 1000, &levels), None);
        assert_eq!(tracked.passes(500, 1000, &levels), Some(50));
        assert_eq!(tracked.passes(600, 1000, &levels), None);
        assert_eq!(tracked.passes(990, 1000, &levels), Some(95));
        tracked.add(Size { bytes: 590, rows: 0 });
        assert_eq!(tracked.passes(990, 1000, &levels), None);
        tracked.add(Size { bytes: -590, rows: 0 });
        assert_eq!(tracked.passes(510, 1000, &levels), Some(50));
    }

    #[test]
    fn a_giant_in_which_something_expires_all_the_time_is_looked_at_seldom() {
        let walks_of = |rows: i64| {
            let mut tracked = Tracked::new(Bytes::from_static(b"k"), Size { bytes: 1, rows });
            let mut walks = 0;
            for now_s in 1_000..1_000 + 3_600 {
                tracked.note_expiry(Some(now_s));
                tracked.ask_for_walk(now_s);
                if tracked.is_walk_due(now_s) {
                    tracked.begin_walk(now_s);
                    walks += 1;
                }
            }
            walks
        };
        assert_eq!(walks_of(100), 1800);
        assert_eq!(walks_of(500_000), 36);
        assert_eq!(walks_of(50_000_000), 15);
    }

    #[test]
    fn a_record_comes_back() {
        let mut tracked = Tracked::new(Bytes::from_static(b"key"), Size { bytes: 7, rows: 2 });
        tracked.note_expiry(Some(99));
        tracked.is_dirty = false;
        assert_eq!(Tracked::decode(&tracked.encode()), Some(tracked));
        assert_eq!(Tracked::decode(&[9; 30]), None);
    }
}
