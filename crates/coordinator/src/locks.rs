//! The locks of this room, and the one order in which a thread may take them.
//!
//! [`Rank`] is the order: while a thread holds a lock, it takes only locks whose rank comes later. Builds with debug
//! assertions, as tests are, check it with every lock; in a release build a [`Ranked`] is a plain mutex.

use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};

/// The locks, first those that are taken first. No two of the same rank are held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// One change of the schema or the map at a time. Held over I/O.
    Definition,
    /// What the budgets were used for. Held while it is written.
    Usage,
    /// The map is written as a whole, and until it is shown where it must be written before. Held over I/O.
    Saving,
    /// The map is made anew from the one that is shown. Held for a moment, because members of replica sets wait for it.
    Mapping,
    /// Sets have ended and writes are still located with the map that names them. Held for a moment and not over I/O,
    /// because writers wait for it.
    Moving,
    /// What happened to the map.
    History,
    /// What leaders told of the traffic of their sets.
    Told,
    /// The rates of one physical partition, or the hot keys of one table.
    Traffic,
}

/// A mutex that knows its place in the order.
pub(crate) struct Ranked<T> {
    #[cfg(debug_assertions)]
    rank: Rank,
    mutex: Mutex<T>,
}

impl<T> Ranked<T> {
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "only checks need it"))]
    pub(crate) fn new(rank: Rank, value: T) -> Ranked<T> {
        Ranked {
            #[cfg(debug_assertions)]
            rank,
            mutex: Mutex::new(value),
        }
    }

    /// Waits for the lock.
    #[cfg_attr(debug_assertions, track_caller)]
    pub(crate) fn lock(&self) -> RankedGuard<'_, T> {
        #[cfg(debug_assertions)]
        let held = held::Held::take(self.rank);
        RankedGuard {
            guard: self.mutex.lock(),
            #[cfg(debug_assertions)]
            _held: held,
        }
    }

    /// Takes the lock if nobody holds it. That cannot block, so that it may come out of order.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.mutex.try_lock()
    }
}

/// A lock that is held.
pub(crate) struct RankedGuard<'m, T> {
    guard: MutexGuard<'m, T>,
    #[cfg(debug_assertions)]
    _held: held::Held,
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(debug_assertions)]
mod held {
    use std::cell::Cell;

    use super::Rank;

    thread_local! {
        /// The ranks that this thread holds, a bit each.
        static HELD: Cell<u32> = const { Cell::new(0) };
    }

    /// A rank that this thread holds.
    pub(super) struct Held(Rank);

    impl Held {
        #[track_caller]
        pub(super) fn take(rank: Rank) -> Held {
            let held = HELD.get();
            assert!(
                held >> rank as u32 == 0,
                "{rank:?} is taken while locks that come later, or it itself, are held: {held:#b}"
            );
            HELD.set(held | 1 << rank as u32);
            Held(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.set(HELD.get() & !(1 << self.0 as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_their_order_and_given_back_in_any() {
        let (first, second) = (Ranked::new(Rank::Definition, 1), Ranked::new(Rank::History, 2));
        let one = first.lock();
        let other = second.lock();
        assert_eq!((*one, *other), (1, 2));
        drop(one);
        drop(other);
        let _other = second.lock();
    }

    #[test]
    #[should_panic(expected = "Definition is taken while locks that come later")]
    fn another_order_is_refused() {
        let (first, second) = (Ranked::new(Rank::Definition, ()), Ranked::new(Rank::History, ()));
        let _other = second.lock();
        let _one = first.lock();
    }

    #[test]
    #[should_panic(expected = "or it itself")]
    fn the_same_rank_twice_is_refused() {
        let locks = [Ranked::new(Rank::Traffic, ()), Ranked::new(Rank::Traffic, ())];
        let _one = locks[0].lock();
        let _other = locks[1].lock();
    }
}
