//! The form in which the map is kept: text, a line per physical partition, so that a person can
//! read it. The first line has the version, the epoch and the next set number.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use types::{RingRange, RingToken, SetId};

use crate::map::{PartitionMap, PhysicalPartition, Space};

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

impl PartitionMap {
    /// The text that [`PartitionMap::decode`] reads.
    pub fn encode(&self) -> String {
        let mut text = format!("partitions 1 {} {}\n", self.epoch, self.next_set);
        for (Space::Keyspace(name), partitions) in &self.spaces {
            for partition in partitions.iter() {
                let RingRange { start, last } = partition.range;
                // Writing to a string does not fail.
                let _ = writeln!(
                    text,
                    "{} {:032x} {:032x} keyspace {name}",
                    partition.set.0, start.0, last.0
                );
            }
        }
        text
    }

    /// Reads what [`PartitionMap::encode`] wrote, and checks that every space covers the ring.
    pub fn decode(text: &str) -> Result<PartitionMap, MapError> {
        let mut lines = text.lines().enumerate();
        let fail = |line: usize, reason| MapError { line: line + 1, reason };
        let (_, head) = lines.next().ok_or(fail(0, "it is empty"))?;
        let mut map = PartitionMap::default();
        let mut words = head.split(' ');
        if (words.next(), words.next()) != (Some("partitions"), Some("1")) {
            return Err(fail(0, "not a partition map of version 1"));
        }
        let mut number = || {
            words.next().and_then(|word| word.parse().ok()).ok_or(fail(0, "a number is missing"))
        };
        map.epoch = number()?;
        map.next_set = u32::try_from(number()?).map_err(|_| fail(0, "too many sets"))?;

        let mut spaces: BTreeMap<Space, Vec<PhysicalPartition>> = BTreeMap::new();
        for (index, line) in lines {
            let (space, partition) = decode_line(line).ok_or(fail(index, "not a partition"))?;
            if partition.set.0 >= map.next_set {
                return Err(fail(index, "a set number that was never given"));
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
            map.spaces.insert(space, Arc::from(partitions));
        }
        Ok(map)
    }
}

fn decode_line(line: &str) -> Option<(Space, PhysicalPartition)> {
    let mut words = line.splitn(5, ' ');
    let set = SetId(words.next()?.parse().ok()?);
    let start = RingToken(u128::from_str_radix(words.next()?, 16).ok()?);
    let last = RingToken(u128::from_str_radix(words.next()?, 16).ok()?);
    if words.next()? != "keyspace" || last < start {
        return None;
    }
    let space = Space::Keyspace(Arc::from(words.next()?));
    Some((space, PhysicalPartition { set, range: RingRange { start, last } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_comes_back_and_damage_is_found() {
        let map = PartitionMap::default()
            .with_space(Space::Keyspace("plain".into()), 2)
            .with_space(Space::Keyspace("With Space".into()), 3);
        let text = map.encode();
        let back = PartitionMap::decode(&text).unwrap();
        assert_eq!(back.spaces, map.spaces);
        assert_eq!((back.epoch, back.next_set), (map.epoch, map.next_set));

        let lines: Vec<&str> = text.lines().collect();
        for missing in 0..lines.len() {
            let mut lines = lines.clone();
            lines.remove(missing);
            assert!(PartitionMap::decode(&lines.join("\n")).is_err(), "without line {missing}");
        }
    }
}
