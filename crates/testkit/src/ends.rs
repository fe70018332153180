//! Threads of a test that run until they are told to stop must end though the test fails: a scope waits for them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Has others stop when it goes, also by a panic.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
