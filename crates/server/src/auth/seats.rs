//! How much a role may have at once: sessions, and statements a second. Superusers may have any, so that whoever looks after
//! the node always comes in. Each node counts for itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::FixedState;
use parking_lot::Mutex;

use crate::world;

/// What was not used for so long may be used at once.
const BURST_US: u64 = 1_000_000;

/// The limits, and who is in.
pub(crate) struct Seats {
    /// Zero: any number.
    sessions_max: usize,
    /// Zero: any number.
    statements_per_second: u64,
    /// The roles that have a session, or are ahead of their pace.
    roles: Mutex<HashMap<Arc<str>, Role, FixedState>>,
    refused_sessions: AtomicU64,
    refused_statements: AtomicU64,
}

struct Role {
    sessions: usize,
    pace: Arc<Pace>,
}

/// How far a role is ahead of its pace, of all its sessions.
#[derive(Debug, Default)]
struct Pace {
    /// When everything that was run would have been run at an even pace, since the start.
    paid_until_us: AtomicU64,
}

/// The session of a role; left when it is dropped.
pub(crate) struct Seat {
    role: Arc<str>,
    pace: Arc<Pace>,
    seats: Arc<Seats>,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("role", &self.role).finish_non_exhaustive()
    }
}

/// A role has as many sessions as it may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSeat {
    pub(crate) sessions_max: usize,
}

/// A role runs more statements than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFast {
    pub(crate) statements_per_second: u64,
    pub(crate) wait: Duration,
}

impl Seats {
    /// Zero is no limit.
    pub(crate) fn new(sessions_max: usize, statements_per_second: u64) -> Arc<Seats> {
        Arc::new(Seats {
            sessions_max,
            statements_per_second,
            roles: Mutex::default(),
            refused_sessions: AtomicU64::new(0),
            refused_statements: AtomicU64::new(0),
        })
    }

    /// A seat for one more session of a role; `None` where nothing is limited.
    pub(crate) fn take(self: &Arc<Self>, role: &Arc<str>) -> Result<Option<Arc<Seat>>, NoSeat> {
        let Seats { sessions_max, statements_per_second, .. } = **self;
        if sessions_max == 0 && statements_per_second == 0 {
            return Ok(None);
        }
        let mut roles = self.roles.lock();
        let has = roles.get(role).map_or(0, |found| found.sessions);
        if sessions_max > 0 && has >= sessions_max {
            self.refused_sessions.fetch_add(1, Ordering::Relaxed);
            return Err(NoSeat { sessions_max });
        }
        if has == 0 {
            forget_idle(&mut roles);
        }
        let found = roles
            .entry(Arc::clone(role))
            .or_insert_with(|| Role { sessions: 0, pace: Arc::default() });
        found.sessions += 1;
        let (role, pace) = (Arc::clone(role), Arc::clone(&found.pace));
        Ok(Some(Arc::new(Seat { role, pace, seats: Arc::clone(self) })))
    }

    /// Sessions and statements that were refused since the start.
    pub(crate) fn refused(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.refused_sessions), of(&self.refused_statements))
    }
}

impl Seat {
    /// Whether so many statements may be run now.
    pub(crate) fn admit(&self, statements: usize) -> Result<(), TooFast> {
        let statements_per_second = self.seats.statements_per_second;
        if statements_per_second == 0 {
            return Ok(());
        }
        let price_us = (statements as u64).saturating_mul(1_000_000) / statements_per_second;
        let outcome = self.pace.pay(price_us, world::steady_us());
        outcome.map_err(|wait_us| {
            self.seats.refused_statements.fetch_add(1, Ordering::Relaxed);
            TooFast { statements_per_second, wait: Duration::from_micros(wait_us) }
        })
    }
}

impl Pace {
    /// Pays with time; how long until that is possible if it is not.
    fn pay(&self, price_us: u64, now_us: u64) -> Result<(), u64> {
        let mut wait_us = 0;
        let pay = |paid_us: u64| {
            // What is dearer than all that can be saved is paid behind.
            let ahead_max_us = BURST_US.saturating_sub(price_us);
            let ahead_us = paid_us.saturating_sub(now_us);
            wait_us = ahead_us.saturating_sub(ahead_max_us);
            (wait_us == 0).then(|| paid_us.max(now_us).saturating_add(price_us))
        };
        let paid = self.paid_until_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay);
        paid.map(drop).map_err(|_| wait_us)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut roles = self.seats.roles.lock();
        let Some(found) = roles.get_mut(&self.role) else { return };
        found.sessions = found.sessions.saturating_sub(1);
        if found.sessions == 0 {
            forget_idle(&mut roles);
        }
    }
}

/// Forgets who left, but for those who still owe time: to come again would settle their debts.
fn forget_idle(roles: &mut HashMap<Arc<str>, Role, FixedState>) {
    let now_us = world::steady_us();
    let owes = |role: &Role| role.pace.paid_until_us.load(Ordering::Relaxed) > now_us;
    roles.retain(|_, role| role.sessions > 0 || owes(role));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_so_many_sessions() {
        let (seats, joe, ann): (_, Arc<str>, Arc<str>) =
            (Seats::new(2, 0), "joe".into(), "ann".into());
        let first = seats.take(&joe).unwrap();
        let _second = seats.take(&joe).unwrap();
        assert!(seats.take(&joe).is_err() && seats.take(&ann).is_ok());
        drop(first);
        assert!(seats.take(&joe).is_ok());
        assert_eq!(seats.refused(), (1, 0));
        assert!(Seats::new(0, 0).take(&joe).unwrap().is_none());
        drop(_second);
        assert!(seats.roles.lock().is_empty(), "nobody is remembered who left");
    }

    #[test]
    fn to_come_again_settles_no_debts() {
        let seats = Seats::new(0, 1);
        let (joe, ann): (Arc<str>, Arc<str>) = ("joe".into(), "ann".into());
        let first = seats.take(&joe).unwrap().unwrap();
        assert!(first.admit(1000).is_ok() && first.admit(1).is_err());
        drop(first);
        let again = seats.take(&joe).unwrap().unwrap();
        assert!(again.admit(1).is_err());
        drop(again);
        // Who owes nothing is forgotten.
        drop(seats.take(&ann).unwrap());
        assert_eq!(seats.roles.lock().keys().collect::<Vec<_>>(), [&joe]);
        seats.roles.lock()[&joe].pace.paid_until_us.store(0, Ordering::Relaxed);
        drop(seats.take(&ann).unwrap());
        assert!(seats.roles.lock().is_empty());
    }

    #[test]
    fn a_second_can_be_saved_and_no_more() {
        let pace = Pace::default();
        // Ten a second.
        let price_us = 100_000;
        let now_us = 5_000_000;
        for _ in 0..10 {
            assert_eq!(pace.pay(price_us, now_us), Ok(()));
        }
        assert_eq!(pace.pay(price_us, now_us), Err(100_000));
        assert_eq!(pace.pay(price_us, now_us + 100_000), Ok(()));
        assert_eq!(pace.pay(price_us, now_us + 100_000), Err(100_000));
        // A batch of thirty is run when nothing is owed, and paid behind.
        let later_us = now_us + 60_000_000;
        assert_eq!(pace.pay(30 * price_us, later_us), Ok(()));
        assert_eq!(pace.pay(price_us, later_us), Err(2_100_000));
    }
}
