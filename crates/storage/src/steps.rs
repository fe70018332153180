//! Steps that tests count: what must not grow faster than its input notes each of them, and a test compares the sum at
//! one size with the sum at twice that size. Outside of this crate's own tests nothing is counted.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One step was taken.
#[inline]
pub(crate) fn note() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// Checks that twice the input takes little more than twice the steps; sorting takes a little more.
#[cfg(test)]
pub(crate) fn check_growth(name: &str, size: usize, work: impl Fn(usize)) {
    const GROWTH_MAX: f64 = 2.3;
    let count = |size| {
        STEPS.set(0);
        work(size);
        STEPS.get()
    };
    let (once, twice) = (count(size), count(2 * size));
    assert!(once >= size as u64, "{name}: {once} steps at {size} are too few to be all");
    let growth = twice as f64 / once as f64;
    assert!(growth <= GROWTH_MAX, "{name}: {once} steps at {size}, {twice} at twice that");
}
