//! Histories of which people know whether they are possible.

use super::*;
use CounterInput::{Add, Read as ReadCounter};
use CounterOutput::{Added, Value as CounterValue};
use RegisterInput::{CompareAndSet, Read, Write};
use RegisterOutput::{Applied, NotApplied, Refused, Value, Written};

type RegisterHistory = Vec<OperationOf<Register<u32>>>;

const REGISTER: Register<u32> = Register { initial: None };

fn write(client: u32, times: (u64, u64), value: u32) -> OperationOf<Register<u32>> {
    Operation::answered(client, times.0, times.1, Write(Some(value)), Written)
}

fn read(client: u32, times: (u64, u64), value: u32) -> OperationOf<Register<u32>> {
    let value = (value != 0).then_some(value);
    Operation::answered(client, times.0, times.1, Read, Value(value))
}

fn cas(
    client: u32,
    times: (u64, u64),
    (expected, new): (u32, u32),
    output: RegisterOutput<u32>,
) -> OperationOf<Register<u32>> {
    let input = CompareAndSet { expected: Some(expected), new: Some(new) };
    Operation::answered(client, times.0, times.1, input, output)
}

fn register(what: &str, is_good: bool, history: RegisterHistory) {
    let verdict = check(&REGISTER, &history);
    assert_eq!(verdict.is_linearizable(), is_good, "{what}: {verdict}");
    assert!(!matches!(verdict, Verdict::Undecided { .. }), "{what}: {verdict}");
}

#[test]
fn registers() {
    register("nothing happened", true, vec![]);
    register("read before any write", true, vec![read(1, (0, 1), 0)]);
    register(
        "overlapping reads see either value",
        true,
        vec![write(1, (0, 1), 1), write(1, (2, 9), 2), read(2, (3, 4), 1), read(3, (5, 6), 2)],
    );
    register(
        "a value goes back in time",
        false,
        vec![write(1, (0, 1), 1), write(1, (2, 9), 2), read(2, (3, 4), 2), read(3, (5, 6), 1)],
    );
    register(
        "a stale read",
        false,
        vec![write(1, (0, 1), 1), write(1, (2, 3), 2), read(2, (4, 5), 1)],
    );
    register("a lost update", false, vec![write(1, (0, 1), 1), read(2, (2, 3), 0)]);
    register(
        "operations that touch may have overlapped",
        true,
        vec![write(1, (0, 5), 1), read(2, (5, 6), 0)],
    );
    register("a value that nobody wrote", false, vec![write(1, (0, 9), 1), read(2, (1, 2), 7)]);
}

#[test]
fn compare_and_set() {
    register(
        "one of two wins",
        true,
        vec![
            write(1, (0, 1), 1),
            cas(1, (2, 9), (1, 2), Applied),
            cas(2, (2, 8), (1, 3), NotApplied { current: Some(2) }),
        ],
    );
    register(
        "both win",
        false,
        vec![write(1, (0, 1), 1), cas(1, (2, 9), (1, 2), Applied), cas(2, (2, 8), (1, 3), Applied)],
    );
    register(
        "one that was not applied is read",
        false,
        vec![
            write(1, (0, 1), 1),
            cas(1, (2, 3), (5, 2), NotApplied { current: Some(1) }),
            read(2, (4, 5), 2),
        ],
    );
    register(
        "refused for a value that was not there",
        false,
        vec![write(1, (0, 1), 1), cas(1, (2, 3), (5, 2), NotApplied { current: Some(4) })],
    );
    register(
        "refused although it held what was expected",
        false,
        vec![write(1, (0, 1), 1), cas(1, (2, 3), (1, 2), NotApplied { current: Some(1) })],
    );
    // The leader applied it, the answer was lost, and the retry was judged anew.
    register(
        "a retry that sees its own first try",
        false,
        vec![write(1, (0, 1), 1), cas(1, (2, 9), (1, 2), NotApplied { current: Some(2) })],
    );
}

#[test]
fn open_operations() {
    let open = |client, at, value| Operation::open(client, at, Write(Some(value)));
    register(
        "it takes effect much later",
        true,
        vec![open(1, 0, 1), read(2, (10, 11), 0), read(2, (20, 21), 0), read(2, (30, 31), 1)],
    );
    register("or never", true, vec![open(1, 0, 1), write(2, (1, 2), 2), read(2, (90, 91), 2)]);
    register(
        "but once",
        false,
        vec![open(1, 0, 1), read(2, (1, 2), 1), write(2, (3, 4), 2), read(2, (5, 6), 1)],
    );
    register("and not before its call", false, vec![read(2, (0, 1), 1), open(1, 2, 1)]);
    register(
        "two in a row, each seen once",
        true,
        vec![
            open(1, 0, 1),
            open(2, 0, 2),
            read(3, (1, 2), 2),
            read(3, (3, 4), 1),
            write(3, (5, 6), 3),
            read(3, (7, 8), 3),
        ],
    );
    let open_cas = |expected, new| {
        Operation::open(1, 0, CompareAndSet { expected: Some(expected), new: Some(new) })
    };
    register(
        "one open operation that another needs",
        true,
        vec![open_cas(1, 2), open_cas(0, 9), open(1, 0, 1), read(2, (5, 6), 2)],
    );
    // What may have been applied without anyone being told is not the same as what was refused.
    register("a timeout that took effect", true, vec![open(1, 0, 1), read(2, (5, 6), 1)]);
    register(
        "unavailable was answered, and it took effect",
        false,
        vec![
            Operation::answered(1, 0, 1, Write(Some(1)), Refused),
            read(2, (2, 3), 0),
            read(2, (5, 6), 1),
        ],
    );
    let unknown = Operation {
        output: None,
        ..Operation::answered(1, 0, 1, CompareAndSet { expected: None, new: Some(1) }, Applied)
    };
    register("an answer that was not kept", true, vec![unknown.clone(), read(1, (2, 3), 1)]);
    register("it took effect all the same", false, vec![unknown, read(1, (2, 3), 0)]);
}

#[test]
fn counters() {
    let add =
        |client, call, back, amount| Operation::answered(client, call, back, Add(amount), Added);
    let read = |client, call, back, value| {
        Operation::answered(client, call, back, ReadCounter, CounterValue(value))
    };
    let judge = |what: &str, is_good: bool, is_within: bool, history: &[OperationOf<Counter>]| {
        let verdict = check(&Counter, history);
        assert_eq!(verdict.is_linearizable(), is_good, "{what}: {verdict}");
        assert_eq!(counter_bounds(history).is_ok(), is_within, "{what}");
    };
    judge("plain", true, true, &[add(1, 0, 1, 5), add(2, 0, 3, 2), read(3, 2, 3, 5)]);
    judge("a retry that counted twice", false, false, &[add(1, 0, 1, 5), read(2, 2, 3, 10)]);
    judge("an acknowledged one is lost", false, false, &[add(1, 0, 1, 5), read(2, 2, 3, 0)]);
    let open = Operation::open(4, 0, Add(3));
    let seen_once = [open.clone(), read(1, 1, 2, 0), read(1, 3, 4, 3)];
    judge("open, seen later", true, true, &seen_once);
    let seen_twice = [open.clone(), read(1, 1, 2, 3), read(1, 3, 4, 6)];
    judge("open, counted twice", false, false, &seen_twice);
    let gone_again = [open, read(1, 1, 2, 3), read(1, 3, 4, 0)];
    judge("seen and gone: too fine for bounds", false, true, &gone_again);
    judge("down as well", true, true, &[add(1, 0, 9, -5), add(2, 0, 9, 2), read(3, 1, 2, -5)]);
    judge("too far down", false, false, &[add(1, 0, 9, -5), add(2, 0, 1, 2), read(3, 2, 3, -5)]);
    let refused = Operation::answered(1, 0, 1, Add(1), CounterOutput::Refused);
    judge("refused, and counted", false, false, &[refused, read(1, 2, 3, 1)]);
}

#[test]
fn lists() {
    use ListInput::{Append, Read};
    use ListOutput::{Appended, List, Refused};
    let append = |client, call, back, element| {
        Operation::answered(client, call, back, Append(element), Appended)
    };
    let read = |client, call, back, list: &[u32]| {
        Operation::answered(client, call, back, Read, List(list.to_vec()))
    };
    let judge = |what: &str, is_good: bool, history: &[OperationOf<AppendList<u32>>]| {
        let verdict = check(&AppendList::of(history), history);
        assert_eq!(verdict.is_linearizable(), is_good, "{what}: {verdict}");
    };
    let both =
        [append(1, 0, 9, 1), append(2, 0, 9, 2), read(3, 1, 2, &[2]), read(3, 10, 11, &[2, 1])];
    judge("overlapping, in either order", true, &both);
    judge("against time", false, &[append(1, 0, 1, 1), append(1, 2, 3, 2), read(1, 4, 5, &[2, 1])]);
    judge(
        "reads that differ",
        false,
        &[append(1, 0, 9, 1), append(2, 0, 9, 2), read(3, 1, 9, &[2, 1]), read(4, 1, 9, &[1, 2])],
    );
    judge("appended twice by a retry", false, &[append(1, 0, 1, 1), read(1, 2, 3, &[1, 1])]);
    let open = [Operation::open(1, 0, Append(1)), append(2, 1, 2, 2), read(2, 3, 4, &[2, 1])];
    judge("open, behind a later one", true, &open);

    let history = [
        append(1, 0, 1, 1),
        append(1, 2, 3, 2),
        Operation::open(1, 4, Append(3)),
        Operation::answered(1, 5, 6, Append(4), Refused),
    ];
    assert_eq!(appended_once(&history, &[2, 1]), Ok(()));
    assert_eq!(appended_once(&history, &[3, 2, 1]), Ok(()));
    let flaws = |list: &[u32]| appended_once(&history, list).expect_err("a flaw");
    assert_eq!(flaws(&[1]), [Flaw::Lost("2".into())]);
    assert_eq!(flaws(&[1, 2, 3, 3]), [Flaw::Doubled("3".into())]);
    assert_eq!(
        flaws(&[1, 2, 4, 9]),
        [Flaw::FromNowhere("4".into()), Flaw::FromNowhere("9".into())]
    );
}

#[test]
fn a_failure_is_a_story() {
    let history = vec![
        write(1, (0, 1), 1),
        read(2, (6, 8), 1),
        write(1, (2, 3), 2),
        Operation::open(3, 4, Write(Some(5))),
    ];
    let Verdict::NotLinearizable(failure) = check(&REGISTER, &history) else {
        panic!("it is a stale read");
    };
    assert_eq!((failure.longest_order.as_slice(), failure.stuck_at), ([0, 2].as_slice(), 1));
    let expected = "\
not linearizable: no order explains these answers
the longest order that works has 2 of 4 operations; it ends with:
    client 1           0 to         1  Write(Some(1)) -> Written
    client 1           2 to         3  Write(Some(2)) -> Written
  which leads to Some(2)
what had to take effect next, and cannot:
    client 2           6 to         8  Read -> Value(Some(1))
what might have come before it, and does not help:
    client 3           4 to      open  Write(Some(5)) -> ?
";
    assert_eq!(failure.story, expected);
}

#[test]
fn keys_are_judged_apart() {
    let histories = by_key([("a", write(1, (0, 1), 1)), ("b", read(1, (2, 3), 0))]);
    assert_eq!(histories.len(), 2);
    assert!(histories.values().all(|history| check(&REGISTER, history).is_linearizable()));
}

#[test]
fn a_search_that_takes_too_long_is_no_pass() {
    // Forty writes at once, and a read of something else: every order of them is to be refuted.
    let mut history: RegisterHistory = (0..40).map(|n| write(n, (0, 10), n + 1)).collect();
    history.push(read(99, (11, 12), 99));
    let verdict = check_within(&REGISTER, &history, 10_000);
    assert!(matches!(verdict, Verdict::Undecided { configurations } if configurations > 10_000));
    assert!(!verdict.is_linearizable());
}
