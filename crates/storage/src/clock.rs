//! Time, handed in.

use std::time::Duration;

/// Where storage gets the time from. Requests carry their own `now`; this one is for chores only:
/// when tombstones may go, when the log is synced.
pub trait Clock: Send + Sync {
    /// Seconds since the epoch.
    fn now_s(&self) -> u32;

    /// The time since some moment, which never falls: for intervals.
    fn elapsed(&self) -> Duration;
}
