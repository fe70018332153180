//! The judge is judged: what is right passes, and each lie is found.

use super::judge::{Ending, judge};
use super::load::{ACCOUNT_BEGINS_WITH, ACCOUNTS, Emptied, SCANNED, Seen};
use super::timed::{ExpiryLook, Rung};
use crate::history::{
    CounterInput, CounterOutput, ListInput, ListOutput, Operation, RegisterInput, RegisterOutput,
};

/// A small run in which everything is right.
fn right() -> (Seen, Vec<Ending>) {
    let written =
        Operation::answered(0, 1, 2, RegisterInput::Write(Some(7)), RegisterOutput::Written);
    let added = Operation::answered(0, 1, 2, CounterInput::Add(3), CounterOutput::Added);
    let appended = Operation::answered(0, 1, 2, ListInput::Append(5), ListOutput::Appended);
    let bank = vec![ACCOUNT_BEGINS_WITH; ACCOUNTS as usize];
    let seen = Seen {
        registers: vec![(0, written)],
        counters: vec![(0, added)],
        lists: vec![(0, appended)],
        rows: [(11, 1)].into(),
        refused_rows: [12].into(),
        batches: [21].into(),
        refused_batches: [22].into(),
        banks: vec![(1, bank.clone())],
        scans: vec![(1, (0..SCANNED).collect())],
        emptied: vec![Emptied {
            at_ms: 1,
            must: [1].into(),
            may: [2].into(),
            found: [1, 2].into(),
        }],
        columns: ["c1".to_owned()].into(),
        ..Seen::default()
    };
    let ending = |node: usize| Ending {
        node,
        at_ns: 20,
        registers: vec![(0, 10, 11, Some(7))],
        counters: vec![(0, 10, 11, 3)],
        lists: [(0, vec![5])].into(),
        rows: [(11, 1)].into(),
        indexed: [(11, 1)].into(),
        weak_rows: [11].into(),
        batch_r: [21, -21].into(),
        batch_s: [21, -21].into(),
        bank: bank.clone(),
        columns: ["c1".to_owned()].into(),
    };
    (seen, vec![ending(1), ending(2)])
}

#[test]
fn what_is_right_passes() {
    let (seen, endings) = right();
    let found = judge(&seen, &endings);
    assert!(found.is_empty(), "{found:?}");
}

/// A lie about one thing gives a complaint with these words.
fn found(lie: impl FnOnce(&mut Seen, &mut Ending), words: &str) {
    let (mut seen, mut endings) = right();
    lie(&mut seen, &mut endings[1]);
    let found = judge(&seen, &endings);
    assert!(found.iter().any(|it| it.what.contains(words)), "{words}: {found:?}");
}

#[test]
fn a_register_that_forgets_is_found() {
    found(|_, ending| ending.registers[0].3 = None, "register 0 is not linearizable");
    let stale = |seen: &mut Seen, _: &mut Ending| {
        let (input, output) = (RegisterInput::Read, RegisterOutput::Value(None));
        seen.registers.push((0, Operation::answered(1, 3, 4, input, output)));
    };
    found(stale, "register 0 is not linearizable");
    let aborted = |seen: &mut Seen, ending: &mut Ending| {
        let input = RegisterInput::CompareAndSet { expected: Some(1), new: Some(8) };
        let output = RegisterOutput::NotApplied { current: Some(7) };
        seen.registers.push((0, Operation::answered(1, 3, 4, input, output)));
        ending.registers[0].3 = Some(8);
    };
    found(aborted, "register 0 is not linearizable");
}

#[test]
fn a_counter_that_counts_twice_or_differs_is_found() {
    found(|_, ending| ending.counters[0].3 = 6, "counter 0 is out of its bounds");
    found(|_, ending| ending.counters[0].3 = 0, "nodes differ in counter 0");
}

#[test]
fn lists_rows_and_their_index_are_compared() {
    found(|_, ending| ending.lists.clear(), "list 0 on node 2");
    found(|_, ending| ending.lists = [(0, vec![5, 5])].into(), "list 0 on node 2");
    found(|_, ending| ending.rows.clear(), "rows were acknowledged and are not there");
    found(|_, ending| _ = ending.rows.insert(12, 2), "rows were refused and are there");
    found(|_, ending| ending.indexed.clear(), "rows that the index does not find");
    found(|_, ending| _ = ending.indexed.insert(13, 3), "the index finds rows that are not there");
    found(|_, ending| ending.indexed = [(11, 4)].into(), "rows that the index does not find");
    found(|_, ending| ending.weak_rows.clear(), "rows that it lacks itself");
}

#[test]
fn a_list_whose_order_changes_is_found() {
    let appended = |client, at, element| {
        let (input, output) = (ListInput::Append(element), ListOutput::Appended);
        (0, Operation::answered(client, at, at + 1, input, output))
    };
    // 6 is read alone first, and in the end it stands behind 5, whose append began before that.
    let mixed = |seen: &mut Seen, ending: &mut Ending| {
        seen.lists = vec![appended(0, 1, 6), (0, Operation::open(1, 1, ListInput::Append(5)))];
        let output = ListOutput::List(vec![6]);
        seen.lists.push((0, Operation::answered(2, 3, 4, ListInput::Read, output)));
        ending.lists = [(0, vec![5, 6])].into();
    };
    found(mixed, "list 0 is not linearizable");
    // 5 was acknowledged before 6 was asked for.
    let turned = |seen: &mut Seen, ending: &mut Ending| {
        seen.lists = vec![appended(0, 1, 5), appended(0, 3, 6)];
        ending.lists = [(0, vec![6, 5])].into();
    };
    found(turned, "list 0 is not linearizable");
}

#[test]
fn rows_that_live_too_long_or_too_short_and_reads_that_go_back_are_found() {
    let look = ExpiryLook {
        key: 1,
        from_ms: 10,
        to_ms: 20,
        lives_until_ms: 30,
        gone_from_ms: 40,
        is_there: true,
    };
    let short = |seen: &mut Seen, _: &mut Ending| {
        seen.expiries = vec![look, ExpiryLook { is_there: false, ..look }];
    };
    found(short, "row 1 was gone before its TTL");
    let long = |seen: &mut Seen, _: &mut Ending| {
        let gone = ExpiryLook { from_ms: 41, to_ms: 42, is_there: false, ..look };
        seen.expiries = vec![gone, ExpiryLook { is_there: true, ..gone }];
    };
    found(long, "row 1 outlived its TTL");
    let rung = |connection, value| Rung { client: 3, connection, at_ms: 7, value };
    let back = |seen: &mut Seen, _: &mut Ending| {
        seen.rungs = vec![rung(1, 5), rung(2, 4), rung(2, 6), rung(2, 5)];
    };
    found(back, "client 3 read something older");
    // Another connection may be to another node.
    let (mut seen, endings) = right();
    seen.rungs = vec![rung(1, 5), rung(2, 4), rung(2, 4)];
    assert!(judge(&seen, &endings).is_empty());
}

#[test]
fn half_a_batch_is_found() {
    found(|_, ending| _ = ending.batch_s.remove(&21), "half is there, by table");
    let half = |_: &mut Seen, ending: &mut Ending| {
        ending.batch_r.remove(&-21);
        ending.batch_s.remove(&-21);
    };
    found(half, "half is there, by key");
    let none = |_: &mut Seen, ending: &mut Ending| {
        ending.batch_r.clear();
        ending.batch_s.clear();
    };
    found(none, "batches were acknowledged and are not there");
    let undead = |_: &mut Seen, ending: &mut Ending| {
        ending.batch_r.extend([22, -22]);
        ending.batch_s.extend([22, -22]);
    };
    found(undead, "batches were refused and are there");
}

#[test]
fn money_rows_and_columns_that_vanish_are_found() {
    found(|seen, _| seen.banks[0].1[0] += 1, "the accounts do not hold 500 together, at 1 ms");
    found(|_, ending| ending.bank[0] -= 1, "on node 2 in the end");
    found(|seen, _| _ = seen.scans[0].1.pop(), "did not find each row once");
    found(|seen, _| seen.scans[0].1.push(3), "did not find each row once");
    found(|seen, _| _ = seen.emptied[0].found.remove(&1), "behind the last TRUNCATE, and lost");
    found(|seen, _| _ = seen.emptied[0].found.insert(9), "in spite of TRUNCATE");
    found(|_, ending| ending.columns.clear(), "columns were added and are not there");
    let said = |seen: &mut Seen, _: &mut Ending| seen.strange.push((1, "what?".to_owned()));
    found(said, "no fault explains");
}
