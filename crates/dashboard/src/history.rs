//! The samples of the last day: one every ten seconds, in a ring that grows as time goes by and never beyond a day.

use std::collections::VecDeque;

/// Between two samples.
pub const SAMPLE_SECONDS: u32 = 10;
/// So many are kept: a day of them.
pub const SAMPLES_MAX: usize = 24 * 3600 / SAMPLE_SECONDS as usize;
/// Memory is taken for so many at once: an hour.
const CHUNK_SAMPLES: usize = 360;
/// Whole chunks are dropped, so that there may be one more than a day needs.
const CHUNKS_MAX: usize = SAMPLES_MAX / CHUNK_SAMPLES + 1;

/// Something that is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Statements a second.
    Requests,
    /// Requests a second that the client got wrong.
    ErrorsOfClients,
    /// Requests a second that were refused as too many.
    ErrorsOverloaded,
    /// Requests a second that took too long.
    ErrorsTimedOut,
    /// Requests a second for which too few replicas were there.
    ErrorsUnavailable,
    /// Requests a second that the node failed.
    ErrorsOfNode,
    /// Half of the statements took no longer, in milliseconds.
    P50,
    /// All but one in a hundred took no longer, in milliseconds.
    P99,
    /// Request units a second through this node.
    Units,
    /// Request units a second of all physical partitions that are known.
    UnitsOfAll,
    /// Request units a second that are provisioned.
    Budget,
    /// Requests a second that were refused because a budget was spent, or the node had too much to do.
    Throttled,
    Connections,
    /// Processors in use.
    Processors,
    /// Bytes of memory in use.
    Memory,
    /// Bytes in sorted files and in the log.
    Disk,
    /// All but one in a hundred syncs of the log took no longer, in milliseconds.
    Sync,
    /// How long a task waits for its turn, in milliseconds.
    Queue,
    /// Replica sets without a leader.
    WithoutLeader,
    /// Replica sets with too few members.
    Short,
}

/// How many there are.
pub const SERIES_COUNT: usize = 20;

impl Series {
    /// All, with the names that charts ask for them by.
    pub const ALL: [(Series, &'static str); SERIES_COUNT] = [
        (Series::Requests, "requests"),
        (Series::ErrorsOfClients, "errors_clients"),
        (Series::ErrorsOverloaded, "errors_overloaded"),
        (Series::ErrorsTimedOut, "errors_timeouts"),
        (Series::ErrorsUnavailable, "errors_unavailable"),
        (Series::ErrorsOfNode, "errors_node"),
        (Series::P50, "p50"),
        (Series::P99, "p99"),
        (Series::Units, "units"),
        (Series::UnitsOfAll, "units_all"),
        (Series::Budget, "budget"),
        (Series::Throttled, "throttled"),
        (Series::Connections, "connections"),
        (Series::Processors, "processors"),
        (Series::Memory, "memory"),
        (Series::Disk, "disk"),
        (Series::Sync, "sync"),
        (Series::Queue, "queue"),
        (Series::WithoutLeader, "without_leader"),
        (Series::Short, "short"),
    ];

    /// The name that charts ask for it by.
    pub fn name(self) -> &'static str {
        Series::ALL.get(self as usize).map_or("", |(_, name)| name)
    }

    /// Of several samples that become one point: the largest, where a peak must not disappear.
    fn is_peak(self) -> bool {
        matches!(
            self,
            Series::P50
                | Series::P99
                | Series::Sync
                | Series::Queue
                | Series::WithoutLeader
                | Series::Short
        )
    }
}

/// A moment: what is not known is not a number.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Seconds since 1970.
    pub at_s: u32,
    values: [f32; SERIES_COUNT],
}

impl Sample {
    /// A moment of which nothing is known yet.
    pub fn at(at_s: u32) -> Sample {
        Sample { at_s, values: [f32::NAN; SERIES_COUNT] }
    }

    /// From now on it is known.
    pub fn set(&mut self, series: Series, value: f64) {
        if let Some(place) = self.values.get_mut(series as usize) {
            *place = value as f32;
        }
    }

    /// What is known.
    pub fn get(&self, series: Series) -> Option<f64> {
        let value = self.values.get(series as usize).copied()?;
        value.is_finite().then_some(f64::from(value))
    }
}

/// The samples of the last day.
#[derive(Default)]
pub struct History {
    chunks: VecDeque<Vec<Sample>>,
}

/// One point of a chart for each series that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Seconds since 1970.
    pub at_s: Vec<u32>,
    /// As many as there are times; what is not known is not a number.
    pub values: Vec<Vec<f32>>,
}

impl History {
    /// One more; the oldest go when there are too many.
    pub fn push(&mut self, sample: Sample) {
        if self.chunks.back().is_none_or(|chunk| chunk.len() >= CHUNK_SAMPLES) {
            self.chunks.push_back(Vec::with_capacity(CHUNK_SAMPLES));
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.push(sample);
        }
        while self.chunks.len() > CHUNKS_MAX {
            self.chunks.pop_front();
        }
    }

    /// The newest.
    pub fn last(&self) -> Option<&Sample> {
        self.chunks.back()?.last()
    }

    pub fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Bytes that the samples take.
    pub fn held_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_SAMPLES * size_of::<Sample>()
    }

    /// At most `points_max` points between two times, both included. Samples that fall together become their mean, or their
    /// largest where a peak must not disappear.
    pub fn points(&self, series: &[Series], (from_s, to_s): (u32, u32), points_max: u32) -> Points {
        let span = to_s.saturating_sub(from_s).saturating_add(1);
        let step = span.div_ceil(points_max.max(1)).max(SAMPLE_SECONDS);
        let mut points = Points { at_s: Vec::new(), values: vec![Vec::new(); series.len()] };
        let mut gathered: Vec<Gathered> = vec![Gathered::default(); series.len()];
        let mut slot = None;
        let inside = self.chunks.iter().flatten();
        for sample in inside.filter(|sample| (from_s..=to_s).contains(&sample.at_s)) {
            let of = sample.at_s / step;
            if slot.is_some_and(|slot| slot != of) {
                finish(&mut points, &mut gathered, series);
            }
            if slot != Some(of) {
                points.at_s.push(sample.at_s);
                slot = Some(of);
            }
            for (gathered, series) in gathered.iter_mut().zip(series) {
                gathered.add(sample.get(*series));
            }
        }
        if slot.is_some() {
            finish(&mut points, &mut gathered, series);
        }
        points
    }
}

/// Samples that become one point.
#[derive(Clone, Copy, Default)]
struct Gathered {
    sum: f64,
    count: u32,
    largest: f64,
}

impl Gathered {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else { return };
        self.largest = if self.count == 0 { value } else { self.largest.max(value) };
        self.sum += value;
        self.count += 1;
    }

    fn value(&self, is_peak: bool) -> f32 {
        match (self.count, is_peak) {
            (0, _) => f32::NAN,
            (_, true) => self.largest as f32,
            (count, false) => (self.sum / f64::from(count)) as f32,
        }
    }
}

fn finish(points: &mut Points, gathered: &mut [Gathered], series: &[Series]) {
    for ((values, gathered), series) in points.values.iter_mut().zip(gathered).zip(series) {
        values.push(gathered.value(series.is_peak()));
        *gathered = Gathered::default();
    }
}

impl Points {
    /// `{"t":[…],"requests":[…]}`: numbers with four digits, `null` for what is not known.
    pub fn json(&self, series: &[Series]) -> String {
        use std::fmt::Write as _;
        let times: Vec<String> = self.at_s.iter().map(u32::to_string).collect();
        let mut text = format!("{{\"t\":[{}]", times.join(","));
        for (series, values) in series.iter().zip(&self.values) {
            let _ = write!(text, ",\"{}\":[", series.name());
            for (place, value) in values.iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                let _ = match value.is_finite() {
                    true => write!(text, "{comma}{}", crate::figure::digits(f64::from(*value))),
                    false => write!(text, "{comma}null"),
                };
            }
            text.push(']');
        }
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: u32, requests: f64) -> Sample {
        let mut sample = Sample::at(at_s);
        sample.set(Series::Requests, requests);
        sample
    }

    #[test]
    fn a_day_is_kept_and_no_more() {
        let mut history = History::default();
        assert!(history.is_empty() && history.held_bytes() == 0);
        for number in 0..SAMPLES_MAX as u32 * 2 {
            history.push(sample(number * SAMPLE_SECONDS, 1.0));
        }
        assert!((SAMPLES_MAX..=SAMPLES_MAX + CHUNK_SAMPLES).contains(&history.len()));
        assert!(history.held_bytes() < 800_000, "{}", history.held_bytes());
    }

    #[test]
    fn points_are_as_many_as_were_asked_for_and_peaks_stay() {
        let mut history = History::default();
        for number in 0..1000 {
            let mut sample = sample(number * 10, 2.0);
            sample.set(Series::P99, if number == 500 { 99.0 } else { 1.0 });
            history.push(sample);
        }
        let series = [Series::Requests, Series::P99, Series::Queue];
        let points = history.points(&series, (0, 10_000), 50);
        assert!(points.at_s.len() <= 51, "{}", points.at_s.len());
        assert!(points.values[0].iter().all(|value| *value == 2.0));
        assert!(points.values[1].contains(&99.0));
        assert!(points.values[2].iter().all(|value| value.is_nan()));
        let few = history.points(&series, (100, 130), 50);
        assert_eq!(few.at_s, [100, 110, 120, 130]);
        assert_eq!(
            few.json(&series),
            "{\"t\":[100,110,120,130],\"requests\":[2,2,2,2],\"p99\":[1,1,1,1],\"queue\":[null,null,null,null]}"
        );
        // Whatever is asked for is answered.
        assert!(history.points(&series, (u32::MAX, 0), 0).at_s.is_empty());
        assert!(history.points(&series, (0, u32::MAX), u32::MAX).at_s.len() <= 1000);
    }

    #[test]
    fn names_are_in_order() {
        for (place, (series, name)) in Series::ALL.iter().enumerate() {
            assert_eq!((*series as usize, series.name()), (place, *name));
        }
    }
}
