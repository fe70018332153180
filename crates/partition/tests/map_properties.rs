//! Any history of splits and merges leaves a map that covers the ring once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

use std::collections::BTreeSet;

use partition::{Origin, PartitionMap, Reason, Space};
use proptest::prelude::*;
use types::{RingRange, RingToken, SetId, TableId};

const TABLE: TableId = TableId(9);

fn check(map: &PartitionMap, space: &Space, probes: &[u128]) {
    let partitions = map.partitions(space);
    assert_eq!(partitions.first().unwrap().range.start, RingToken(0));
    assert_eq!(partitions.last().unwrap().range.last, RingToken(u128::MAX));
    for pair in partitions.windows(2) {
        assert_eq!(pair[0].range.last.0 + 1, pair[1].range.start.0);
    }
    let edges = partitions.iter().flat_map(|it| [it.range.start.0, it.range.last.0]);
    for token in edges.chain(probes.iter().copied()).map(RingToken) {
        let found = map.locate(TABLE, token).unwrap();
        assert!(found.range.contains(token));
        assert_eq!(map.locate_in(space, token), Some(found));
        let covering: Vec<_> =
            map.overlapping(TABLE, RingRange { start: token, last: token }).collect();
        assert_eq!(covering, [found]);
    }
    assert_eq!(map.overlapping(TABLE, RingRange::FULL).count(), partitions.len());
}

proptest! {
    #[test]
    fn the_ring_is_always_covered_once(
        start in 1u32..6,
        steps in prop::collection::vec((any::<bool>(), any::<u128>(), any::<u8>()), 1..60),
        probes in prop::collection::vec(any::<u128>(), 20),
    ) {
        let space = Space::Keyspace("ks".into());
        let mut map = PartitionMap::default()
            .with_space(space.clone(), start, 0)
            .with_tables([(TABLE, space.clone())].into_iter());
        let mut ever: BTreeSet<SetId> = map.partitions(&space).iter().map(|it| it.set).collect();
        for (is_split, token, shift) in steps {
            // Also places that lie close together.
            let token = RingToken(token >> (shift % 128));
            let origin = Origin { made_at_ms: 1, reason: Reason::Hand };
            let set = map.locate(TABLE, token).unwrap().set;
            let next = match is_split {
                true => map.with_split(&space, set, token, origin),
                false => map.with_merge(&space, set, origin),
            };
            let Ok(next) = next else { continue };
            prop_assert_eq!(next.epoch(), map.epoch() + 1);
            for fresh in next.sets_gone_in(&map) {
                prop_assert!(ever.insert(fresh), "{fresh:?} was used before");
            }
            check(&next, &space, &probes);
            let back = PartitionMap::decode(&next.encode()).unwrap();
            prop_assert_eq!(back.partitions(&space), next.partitions(&space));
            map = next;
        }
    }
}
