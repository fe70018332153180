//! The form in which the map is kept: text, a line per physical partition, so that a person can
//! read it. The first line has the version, the epoch and the next set number. See
//! `docs/formats/partitions.md`.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::placement::voter_count;
use types::{NodeId, RingRange, RingToken, SetId};

use crate::map::{Cover, Origin, PartitionMap, PhysicalPartition, Placed, Reason, Space};

/// A set has no more members than this.
const MEMBERS_MAX: usize = 32;
/// Before members that a set begins with.
const FIRST: &str = "first:";
/// Stands before those that only follow.
const LEARNERS: char = '+';

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
        // A node that runs alone goes on with the form that it knows.
        let version = if self.placed.is_empty() { 2 } else { 3 };
        let mut text = format!("partitions {version} {} {}\n", self.epoch, self.next_set);
        for (space, partitions) in self.spaces() {
            for partition in partitions {
                let RingRange { start, last } = partition.range;
                let origin = self.origin(partition.set).unwrap_or(UNKNOWN_ORIGIN);
                // Writing to a string does not fail.
                let _ = write!(
                    text,
                    "{} {:032x} {:032x} {} {} ",
                    partition.set.0,
                    start.0,
                    last.0,
                    origin.made_at_ms,
                    origin.reason.word(),
                );
                if version == 3 {
                    text.push_str(&members_text(self.placed.get(&partition.set)));
                    text.push(' ');
                }
                let _ = writeln!(text, "{}", space_text(space));
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
            (Some("partitions"), Some("3")) => decode_line_3,
            _ => return Err(fail(0, "not a partition map of version 1, 2 or 3")),
        };
        let mut number = || {
            words.next().and_then(|word| word.parse().ok()).ok_or(fail(0, "a number is missing"))
        };
        map.epoch = number()?;
        map.next_set = u32::try_from(number()?).map_err(|_| fail(0, "too many sets"))?;

        let mut spaces: BTreeMap<Space, Vec<PhysicalPartition>> = BTreeMap::new();
        for (index, line) in lines {
            let Line { space, partition, origin, placed } =
                decode_line(line).ok_or(fail(index, "not a partition"))?;
            if partition.set.0 >= map.next_set {
                return Err(fail(index, "a set number that was never given"));
            }
            if map.origins.insert(partition.set, origin).is_some() {
                return Err(fail(index, "a set number that was given twice"));
            }
            map.placed.extend(placed.map(|placed| (partition.set, placed)));
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
    placed: Option<Placed>,
}

/// How the members of a set are written.
fn members_text(placed: Option<&Placed>) -> String {
    let Some(placed) = placed else { return "-".to_owned() };
    let list = |nodes: &[NodeId]| {
        nodes.iter().map(|node| node.0.to_string()).collect::<Vec<_>>().join(",")
    };
    let nodes = match placed.nodes.split_at_checked(placed.voters) {
        // Who decides is said where it does not follow from how many there are.
        Some((voters, learners)) if placed.voters != voter_count(placed.nodes.len()) => {
            format!("{}{LEARNERS}{}", list(voters), list(learners))
        }
        _ => list(&placed.nodes),
    };
    format!("{}{nodes}", if placed.are_first { FIRST } else { "" })
}

/// Reads what [`members_text`] wrote.
fn parse_members(text: &str) -> Option<Option<Placed>> {
    if text == "-" {
        return Some(None);
    }
    let (are_first, text) = match text.strip_prefix(FIRST) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let list = |text: &str| -> Option<Vec<NodeId>> {
        if text.is_empty() {
            return Some(Vec::new());
        }
        text.split(',').map(|node| node.parse().ok().map(NodeId)).collect()
    };
    let (nodes, voters) = match text.split_once(LEARNERS) {
        Some((voters, learners)) => {
            let (mut nodes, learners) = (list(voters)?, list(learners)?);
            let voters = nodes.len();
            nodes.extend(learners);
            (nodes, voters)
        }
        None => {
            let nodes = list(text)?;
            let voters = voter_count(nodes.len());
            (nodes, voters)
        }
    };
    let is_sound = voters > 0 && nodes.len() <= MEMBERS_MAX;
    is_sound.then(|| Some(Placed { nodes: Arc::from(nodes), voters, are_first }))
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
    Some(Line { space, partition, origin: UNKNOWN_ORIGIN, placed: None })
}

fn decode_line_2(line: &str) -> Option<Line> {
    let mut words = line.splitn(6, ' ');
    let partition = decode_partition(&mut words)?;
    let made_at_ms = words.next()?.parse().ok()?;
    let reason = Reason::of_word(words.next()?)?;
    let space = parse_space(words.next()?)?;
    Some(Line { space, partition, origin: Origin { made_at_ms, reason }, placed: None })
}

fn decode_line_3(line: &str) -> Option<Line> {
    let mut words = line.splitn(7, ' ');
    let partition = decode_partition(&mut words)?;
    let made_at_ms = words.next()?.parse().ok()?;
    let reason = Reason::of_word(words.next()?)?;
    let placed = parse_members(words.next()?)?;
    let space = parse_space(words.next()?)?;
    Some(Line { space, partition, origin: Origin { made_at_ms, reason }, placed })
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
    use crate::placement::NodePlace;

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
    fn members_come_back_and_a_node_alone_writes_none() {
        let map = PartitionMap::default().with_space(Space::Keyspace("ks".into()), 3, 7);
        assert!(map.encode().starts_with("partitions 2 "));
        let nodes: Vec<NodePlace> =
            (1..=6).map(|node| NodePlace { node: NodeId(node), rack: "r".into() }).collect();
        let mut map = map.with_all_placed(&nodes);
        let moved =
            Placed { nodes: Arc::from([NodeId(2), NodeId(9)]), voters: 1, are_first: false };
        map.placed.insert(SetId(1), moved);
        map.placed.remove(&SetId(2));
        // Three decide and one follows, and two that both decide: that is said.
        for (nodes, voters, text) in [(&[1, 2, 3, 4][..], 3, " 1,2,3+4 "), (&[5, 6], 2, " 5,6+ ")] {
            let nodes: Vec<NodeId> = nodes.iter().map(|node| NodeId(*node)).collect();
            let mut map = map.clone();
            map.placed.insert(SetId(0), Placed { nodes: nodes.into(), voters, are_first: false });
            let written = map.encode();
            assert!(written.contains(text), "{written}");
            assert_eq!(PartitionMap::decode(&written).unwrap().placed, map.placed);
        }
        let text = map.encode();
        assert!(text.starts_with("partitions 3 "), "{text}");
        assert!(text.contains(" created 2,9 keyspace ks\n"), "{text}");
        assert!(text.contains(" created - keyspace ks\n"), "{text}");
        let back = PartitionMap::decode(&text).unwrap();
        assert_eq!((back.placed, back.spaces), (map.placed, map.spaces));
        for wrong in ["first:", "1,x", "", "1,,2", "+1", "1+2+3", "1+x"] {
            assert!(PartitionMap::decode(&text.replace(" 2,9 ", &format!(" {wrong} "))).is_err());
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
