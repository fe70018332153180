//! Batches over several sets: bounds, and tables that are dropped meanwhile.

use storage::{Intent, Parts, Step};

use super::*;

const HERE: NodeId = NodeId(1);

/// Two sets on one node, of which the second has no quorum: its parts wait.
fn decided(fleet: &mut Fleet) -> Answered {
    let (first, second) = two_keys();
    let halves = [
        (RingRange { start: RingToken(0), last: RingToken(ring(second).0 - 1) }, SET),
        (RingRange { start: ring(second), last: RingToken(u128::MAX) }, RIGHT),
    ];
    let tables = [COUNTERS, OTHERS];
    let map = tables.iter().flat_map(|table| halves.map(|(range, set)| (*table, range, set)));
    fleet.map.0.lock().1 = map.collect();
    let mut request = fleet.request(vec![add(first, 1), put(second, 1, 3)]);
    let intent = Intent { known: 2, here: vec![0, 1], others: Vec::new() };
    request.step = Some(Box::new(Step::Intend(intent)));
    fleet.ask(HERE, SET, request)
}

#[test]
fn a_part_for_a_table_that_was_dropped_is_done() {
    let (mut fleet, _) = Fleet::led(1);
    let answered = decided(&mut fleet);
    assert!(answered.is_none(), "its other set has no leader: {answered:?}");
    assert_eq!(fleet.read(HERE, SET, two_keys().0), Some(1), "it is decided");
    // Nobody knows the table, by a map that is not newer than the batch: it may not have been made yet.
    fleet.map.0.lock().1.retain(|(table, _, _)| *table != OTHERS);
    fleet.tick(60);
    assert!(answered.is_none(), "{answered:?}");
    fleet.map.0.lock().0 = 2;
    fleet.tick(60);
    assert!(answered.is_done(), "{answered:?}");
}

#[test]
fn open_batches_of_a_set_are_bounded() {
    let (mut fleet, _) = Fleet::led(1);
    fleet.host(HERE).intents.fill(SET, 8_192, 1);
    assert!(decided(&mut fleet).is_busy(), "there are too many");
    fleet.host(HERE).intents = Intents::default();
    fleet.host(HERE).intents.fill(SET, 1, 64 * 1024 * 1024);
    assert!(decided(&mut fleet).is_busy(), "they are too large");
    fleet.host(HERE).intents = Intents::default();
    fleet.host(HERE).intents.fill(SET, 8_191, 1);
    let answered = decided(&mut fleet);
    assert!(answered.is_none(), "{answered:?}");
    assert_eq!(fleet.read(HERE, SET, two_keys().0), Some(1), "one more is decided");
}

/// A batch was decided, and then a column was dropped: what its parts say of that column goes, and nothing else.
#[test]
fn a_part_for_a_column_that_was_dropped_loses_it() {
    let (mut fleet, _) = Fleet::led(1);
    let (key, _) = two_keys();
    fleet.machine(HERE).version.store(1, Ordering::Relaxed);
    let parts = Parts { batch: RequestId(7), timed_us: None, numbers: vec![0] };
    let step = Some(Box::new(Step::Parts(parts)));
    let request = Request { id: None, step, ..fleet.request(vec![put(key, 1, 3)]) };
    let answered = fleet.ask(HERE, SET, request);
    assert!(answered.is_done(), "{answered:?}");
    assert_eq!(fleet.read_of(HERE, SET, OTHERS, key), None);
}
