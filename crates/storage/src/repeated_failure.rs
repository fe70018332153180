//! A chore that fails is tried again for as long as it takes, and not told of each time.

/// Tells of something that fails again and again at first, and then less and less often.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailure {
    count: u64,
}

/// A failure that goes on is told again after this many, at the least often: once a minute.
const FAILURES_UNTOLD_MAX: u64 = 300;

impl RepeatedFailure {
    /// One more; how many there were if this is one to tell of.
    pub(crate) fn another(&mut self) -> Option<u64> {
        self.count += 1;
        let is_told = self.count.is_power_of_two() && self.count <= FAILURES_UNTOLD_MAX
            || self.count.is_multiple_of(FAILURES_UNTOLD_MAX);
        is_told.then_some(self.count)
    }

    /// It went well; how often it had failed, if it had.
    pub(crate) fn over(&mut self) -> Option<u64> {
        let count = std::mem::take(&mut self.count);
        (count > 0).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_goes_on_is_told_now_and_then_and_its_end_once() {
        let mut failure = RepeatedFailure::default();
        assert_eq!(failure.over(), None);
        let told: Vec<u64> = (0..1000).filter_map(|_| failure.another()).collect();
        assert_eq!(told, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 600, 900]);
        assert_eq!((failure.over(), failure.over()), (Some(1000), None));
        assert_eq!(failure.another(), Some(1));
    }
}
