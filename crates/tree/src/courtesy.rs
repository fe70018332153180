//! Chores that let requests go first.

/// After so many rows a chore asks whether somebody else wants its core: about a tenth of a millisecond.
const ROWS_PER_TURN: u32 = 64;

/// A chore that goes through many rows. The scheduler lets a thread run for milliseconds once it runs, also where
/// another one of higher priority has just been woken; a request would wait for that long.
#[derive(Debug, Default)]
pub struct Courtesy {
    row_count: u32,
}

impl Courtesy {
    /// One more row.
    pub fn on_row(&mut self) {
        self.row_count += 1;
        if self.row_count >= ROWS_PER_TURN {
            self.row_count = 0;
            std::thread::yield_now();
        }
    }
}
