//! Counts by classes of how long something took.

/// How much each class grew.
pub(crate) fn grown_by(before: &[u64], now: &[u64]) -> Vec<u64> {
    now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
}

/// A value that a share of all do not exceed, by classes of which the bounds are known: within one, as if its values lay evenly. Of what is
/// above all bounds only the last bound is known.
pub(crate) fn percentile(bounds: &[u64], counts: &[u64], share: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    let wanted = share * all as f64;
    let mut below = 0.0;
    let mut lower = 0.0;
    for (place, count) in counts.iter().enumerate() {
        let upper = bounds.get(place).map_or(lower, |bound| *bound as f64);
        let count = *count as f64;
        if count > 0.0 && below + count >= wanted {
            return Some(lower + (upper - lower) * ((wanted - below) / count).clamp(0.0, 1.0));
        }
        below += count;
        lower = upper;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_within_their_class() {
        let bounds = [100, 200, 400];
        assert_eq!(percentile(&bounds, &[0, 0, 0, 0], 0.5), None);
        assert_eq!(percentile(&bounds, &[0, 10, 0, 0], 0.5), Some(150.0));
        assert_eq!(percentile(&bounds, &[98, 0, 2, 0], 0.99), Some(300.0));
        // Above all bounds nothing more is known.
        assert_eq!(percentile(&bounds, &[0, 0, 0, 5], 0.99), Some(400.0));
    }
}
