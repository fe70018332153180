//! The form in which the map is kept: text, a line per physical partition, so that a person can
//! read it. The first line has the version, the epoch and the next set number. See
//! `docs/formats/partitions.md`.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use types::{RingRange, RingToken, SetId};

use crate::map::{Cover, Origin, PartitionMap, PhysicalPartition, Reason, Space};

/// The kept map cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapError {
    /// The line, counted from one.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the partition map is damaged in line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for MapError {}

/// What the first version could not say.
const UNKNOWN_ORIGIN: Origin = Origin { made_at_ms: 0, reason: Reason::Created };

impl PartitionMap {
    /// The text that [`PartitionMap::decode`] reads.
    pub fn encode(&self) -> String {
        let mut text = format!("partitions 2 {} {}\n", self.epoch, self.next_set);
        for (space, partitions) in self.spaces() {
            for partition in partitions {
                let RingRange { start, last } = partition.range;
                let origin = self.origin(partition.set).unwrap_or(UNKNOWN_ORIGIN);
                // Writing to a string does not fail.
                let _ = writeln!(
                    text,
                    "{} {:032x} {:032x} {} {} {}",
                    partition.set.0,
                    start.0,
                    last.0,
                    origin.made_at_ms,
                    origin.reason.word(),
                    space_text(space)
                );
            }
        }
        text
    }

    /// Reads what [`PartitionMap::encode`] wrote, now or in an earlier version, and checks that
    /// every space covers the ring.
    pub fn decode(text: &str) -> Result<PartitionMap, MapError> {
        let mut lines = text.lines().enumerate();
        let fail = |line: usize, reason| MapError { line: line + 1, reason };
        let (_, head) = lines.next().ok_or(fail(0, "it is empty"))?;
        let mut map = PartitionMap::default();
        let mut words = head.split(' ');
        let decode_line: fn(&str) -> Option<Line> = match (words.next(), words.next()) {
            (Some("partitions"), Some("1")) => decode_line_1,
            (Some("partitions"), Some("2")) => decode_line_2,
            _ => return Err(fail(0, "not a partition map of version 1 or 2")),
        };
        let mut number = || {
            words.next().and_then(|word| word.parse().ok()).ok_or(fail(0, "a number is missing"))
        };
        map.epoch = number()?;
        map.next_set = u32::try_from(number()?).map_err(|_| fail(0, "too many sets"))?;

        let mut spaces: BTreeMap<Space, Vec<PhysicalPartition>> = BTreeMap::new();
        for (index, line) in lines {
            let Line { space, partition, origin } =
                decode_line(line).ok_or(fail(index, "not a partition"))?;
            if partition.set.0 >= map.next_set {
                return Err(fail(index, "a set number that was never given"));
            }
            if map.origins.insert(partition.set, origin).is_some() {
                return Err(fail(index, "a set number that was given twice"));
            }
            let partitions = spaces.entry(space).or_default();
            let expected = partitions.last().map_or(Some(0), |p| p.range.last.0.checked_add(1));
            if expected != Some(partition.range.start.0) {
                return Err(fail(index, "it does not join the one before"));
            }
            partitions.push(partition);
        }
        for (space, partitions) in spaces {
            if partitions.last().is_none_or(|p| p.range.last.0 != u128::MAX) {
                return Err(fail(text.lines().count(), "a space does not cover the ring"));
            }
            map.spaces.insert(space, Cover::new(partitions));
        }
        Ok(map)
    }
}

struct Line {
    space: Space,
    partition: PhysicalPartition,
    origin: Origin,
}

/// How a space is written at the end of a line. A table's name has no dot.
pub(crate) fn space_text(space: &Space) -> String {
    match space {
        Space::Keyspace(name) => format!("keyspace {name}"),
        Space::Table { keyspace, table } => format!("table {keyspace}.{table}"),
    }
}

/// Reads what [`space_text`] wrote.
pub(crate) fn parse_space(text: &str) -> Option<Space> {
    match text.split_once(' ')? {
        ("keyspace", name) => Some(Space::Keyspace(Arc::from(name))),
        ("table", name) => {
            let (keyspace, table) = name.rsplit_once('.')?;
            Some(Space::Table { keyspace: Arc::from(keyspace), table: Arc::from(table) })
        }
        _ => None,
    }
}

fn decode_line_1(line: &str) -> Option<Line> {
    let mut words = line.splitn(4, ' ');
    let partition = decode_partition(&mut words)?;
    let space = parse_space(words.next()?)?;
    Some(Line { space, partition, origin: UNKNOWN_ORIGIN })
}

fn decode_line_2(line: &str) -> Option<Line> {
    let mut words = line.splitn(6, ' ');
    let partition = decode_partition(&mut words)?;
    let made_at_ms = words.next()?.parse().ok()?;
    let reason = Reason::of_word(words.next()?)?;
    let space = parse_space(words.next()?)?;
    Some(Line { space, partition, origin: Origin { made_at_ms, reason } })
}

fn decode_partition<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<PhysicalPartition> {
    let set = SetId(words.next()?.parse().ok()?);
    let start = RingToken(u128::from_str_radix(words.next()?, 16).ok()?);
    let last = RingToken(u128::from_str_radix(words.next()?, 16).ok()?);
    (start <= last).then_some(PhysicalPartition { set, range: RingRange { start, last } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_comes_back_and_damage_is_found() {
        let own = Space::Table { keyspace: "plain".into(), table: "t".into() };
        let map = PartitionMap::default()
            .with_space(Space::Keyspace("plain".into()), 2, 77)
            .with_space(own.clone(), 1, 78)
            .with_space(Space::Keyspace("With Space".into()), 3, 79);
        let origin = Origin { made_at_ms: 80, reason: Reason::Heat };
        let map = map.with_split(&own, SetId(2), RingToken(1 << 100), origin).unwrap();
        let text = map.encode();
        let back = PartitionMap::decode(&text).unwrap();
        assert_eq!(back.spaces, map.spaces);
        assert_eq!(back.origins, map.origins);
        assert_eq!((back.epoch, back.next_set), (map.epoch, map.next_set));

        let lines: Vec<&str> = text.lines().collect();
        for missing in 0..lines.len() {
            let mut lines = lines.clone();
            lines.remove(missing);
            assert!(PartitionMap::decode(&lines.join("\n")).is_err(), "without line {missing}");
        }
    }

    #[test]
    fn the_first_version_is_still_read() {
        let half = "7fffffffffffffffffffffffffffffff";
        let text = format!(
            "partitions 1 4 9\n3 {:032x} {half} keyspace ks\n5 8{:031x} {} keyspace ks\n",
            0,
            0,
            "f".repeat(32)
        );
        let map = PartitionMap::decode(&text).unwrap();
        let sets: Vec<u32> =
            map.partitions(&Space::Keyspace("ks".into())).iter().map(|p| p.set.0).collect();
        assert_eq!((map.epoch(), sets.as_slice()), (4, [3, 5].as_slice()));
        assert!(map.encode().starts_with("partitions 2 4 9\n3 "));
    }
}
