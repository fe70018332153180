//! Messages between nodes come back from their bytes, the bytes are the documented ones, and no others do harm.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use raft::eraftpb::{Entry, Message, MessageType};
use storage::{AllDone, CommitError, CommitResult, TreeError};
use types::travel::Fault;
use types::{
    CurrentRow, Done, NodeId, Outcome, Refusal, ReplicaId, RingToken, RowPosition, SetId, TableId,
};
use units::grants::{Grant, Report};

use super::load::{BudgetMessage, Counted, Heat, KeyLoad, TrafficMessage};
use super::{
    Beat, KINDS_KNOWN, Looked, NodeMessage, PeerMessage, ProposalAnswer, RowsAnswer, Start,
};
use crate::witness::TraceContext;

fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn commit_error() -> impl Strategy<Value = CommitError> {
    let text = || any::<String>();
    let table = || any::<u128>().prop_map(TableId);
    let sizes = any::<(usize, usize)>();
    let io = |what: String| TreeError::Io(Arc::new(io::Error::other(what)));
    prop_oneof![
        any::<(i32, usize)>().prop_map(|(index, size)| {
            CommitError::Refused(Refusal::ListIndexOutOfBounds { index, size })
        }),
        text().prop_map(|why| CommitError::Refused(Refusal::Invalid(why))),
        sizes.prop_map(|(bytes, bytes_max)| CommitError::TooLarge { bytes, bytes_max }),
        sizes.prop_map(|(bytes, bytes_max)| CommitError::ClusteringTooLong { bytes, bytes_max }),
        text().prop_map(|why| CommitError::CannotWriteNow(why.into())),
        text().prop_map(|why| CommitError::LogFailed(why.into())),
        (table(), text())
            .prop_map(move |(table, what)| CommitError::Tree { table, error: io(what) }),
        (table(), text()).prop_map(|(table, what)| CommitError::Tree {
            table,
            error: TreeError::Corrupt(what.into())
        }),
        prop::sample::select(vec![
            CommitError::Refused(Refusal::ListIsNull),
            CommitError::Refused(Refusal::ListToDeleteFromIsNull),
            CommitError::DiskFull,
            CommitError::Overloaded,
            CommitError::Moved,
            CommitError::Stale,
            CommitError::TooLate,
            CommitError::Closed,
        ]),
    ]
}

fn result() -> impl Strategy<Value = CommitResult> {
    let row = (prop::option::of(any_bytes()), prop::option::of(any_bytes())).prop_map(|it| {
        let position = it.0.map_or(RowPosition::Static, RowPosition::Clustered);
        CurrentRow { position, row: it.1.map(Vec::from) }
    });
    let outcome = prop_oneof![
        Just(Outcome::Applied),
        prop::collection::vec(row, 0..4).prop_map(|rows| Outcome::NotApplied { rows }),
    ];
    let done = (outcome, any::<u64>()).prop_map(|(outcome, weight)| Done { outcome, weight });
    let all_done = prop::collection::vec(done, 0..4).prop_map(AllDone::from_vec);
    prop_oneof![all_done.prop_map(Ok), commit_error().prop_map(Err)]
}

fn beat() -> impl Strategy<Value = Beat> {
    (any::<u32>(), any::<(u64, u64, u64, u64)>()).prop_map(|(set, (to, from, term, commit))| Beat {
        set: SetId(set),
        to: ReplicaId(to),
        from: ReplicaId(from),
        term,
        commit,
    })
}

fn report() -> impl Strategy<Value = Report> {
    (any::<[u64; 5]>(), any::<[i64; 4]>(), any::<[u32; 2]>()).prop_map(|(large, signed, small)| {
        let ([run, term, content_rate, throttled, told_throttled], [waiting, active]) =
            (large, small);
        let [applied, held, spent, told_spent] = signed;
        Report {
            run,
            term,
            applied,
            held,
            content_rate,
            waiting,
            active,
            spent,
            told_spent,
            throttled,
            told_throttled,
        }
    })
}

fn grant() -> impl Strategy<Value = Grant> {
    (any::<[u64; 7]>(), any::<[i64; 4]>()).prop_map(|(large, signed)| {
        let [run, term, rate, slack_rate, owed_us, heard_throttled, set_throttled] = large;
        let [total, heard_spent, set_spent, saved] = signed;
        Grant {
            run,
            term,
            total,
            rate,
            slack_rate,
            owed_us,
            heard_spent,
            heard_throttled,
            set_spent,
            set_throttled,
            saved,
        }
    })
}

fn load() -> impl Strategy<Value = NodeMessage> {
    let set = || any::<u32>().prop_map(SetId);
    let key = || {
        (any::<u128>(), any_bytes(), any::<u64>()).prop_map(|(table, key, micros)| KeyLoad {
            table: TableId(table),
            key,
            micros,
        })
    };
    let keys = || prop::collection::vec(key(), 0..4);
    let counted = (set(), prop::collection::vec(any::<u64>(), 0..40), keys())
        .prop_map(|(set, parts, keys)| Counted { set, parts, keys });
    let heat = (set(), any::<[u64; 3]>(), keys())
        .prop_map(|(set, [now, minute, peak], keys)| Heat { set, now, minute, peak, keys });
    let reports = prop::collection::vec((set(), report()), 0..4);
    let grants = prop::collection::vec((set(), grant()), 0..4);
    prop_oneof![
        (reports, grants).prop_map(|(reports, grants)| {
            NodeMessage::Budgets(BudgetMessage { reports, grants })
        }),
        (prop::collection::vec(counted, 0..4), prop::collection::vec(heat, 0..4))
            .prop_map(|(counted, heat)| NodeMessage::Traffic(TrafficMessage { counted, heat })),
    ]
}

fn message() -> impl Strategy<Value = NodeMessage> {
    let answer = prop_oneof![
        result().prop_map(ProposalAnswer::Done),
        prop::option::of(any::<u64>().prop_map(NodeId)).prop_map(ProposalAnswer::NotLeader),
        Just(ProposalAnswer::Lost),
        Just(ProposalAnswer::Busy),
    ];
    let rows = prop_oneof![
        any_bytes().prop_map(RowsAnswer::Part),
        any::<String>().prop_map(|why| RowsAnswer::Failed(Fault::LogFailed(why))),
        prop::option::of(any::<u64>().prop_map(NodeId)).prop_map(RowsAnswer::NotHere),
        Just(RowsAnswer::Busy),
        (any::<i64>(), prop::option::of(any::<String>())).prop_map(|(last_us, why)| {
            let refused = why.map(Fault::LogFailed);
            RowsAnswer::Looked(Looked { last_us, refused })
        }),
    ];
    let entry = (any::<(u64, u64)>(), any_bytes(), any_bytes()).prop_map(|it| {
        let ((term, index), data, context) = it;
        Entry { term, index, data, context, ..Entry::default() }
    });
    let numbers = any::<(u64, u64, u64, u64)>();
    let consensus = (any::<u32>(), numbers, prop::collection::vec(entry, 0..4)).prop_map(|it| {
        let (set, (to, from, term, index), entries) = it;
        let mut message = Message { to, from, term, index, ..Message::default() };
        message.set_msg_type(MessageType::MsgAppend);
        message.set_entries(entries.into());
        PeerMessage { set: SetId(set), message }
    });
    prop_oneof![
        consensus.prop_map(NodeMessage::Consensus),
        (any::<u64>(), any::<u32>(), any_bytes()).prop_map(|(number, set, body)| {
            NodeMessage::Request { number, set: SetId(set), body }
        }),
        (any::<u64>(), answer).prop_map(|(number, answer)| NodeMessage::Answer { number, answer }),
        (prop::collection::vec(beat(), 0..4), any::<bool>())
            .prop_map(|(beats, are_answers)| NodeMessage::Beats { beats, are_answers }),
        (any::<u64>(), any::<u32>(), any::<bool>(), any_bytes()).prop_map(
            |(number, set, is_strong, body)| NodeMessage::Read {
                number,
                set: SetId(set),
                is_strong,
                body
            }
        ),
        (any::<u64>(), rows).prop_map(|(number, answer)| NodeMessage::Rows { number, answer }),
        (any::<(u64, u32)>(), any::<(u128, u128)>(), any_bytes()).prop_map(
            |((number, set), (first, last), body)| {
                let set = SetId(set);
                let rings = (RingToken(first), RingToken(last));
                NodeMessage::Look { number, set, rings, body }
            }
        ),
        any_bytes().prop_map(NodeMessage::Note),
        (any::<(u64, bool)>(), any::<(u128, u64)>()).prop_map(|((number, is_read), it)| {
            let context = TraceContext { trace: it.0, span: it.1 };
            NodeMessage::Traced { number, is_read, context }
        }),
        (any::<i64>(), any::<u64>())
            .prop_map(|(clock_us, shown)| NodeMessage::Ping { clock_us, shown }),
        (any::<u64>(), prop::option::of(any::<(u64, u64)>())).prop_map(|(synced, start)| {
            let start = start.map(|(run, opened)| Start { run, opened });
            NodeMessage::Standing { synced, start }
        }),
        load(),
    ]
}

fn encoded(message: &NodeMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// Errors cannot be compared, but they tell all that they hold. What an error of the operating system is made of inside is not
/// told the same way twice, so its words are taken.
fn told(message: &NodeMessage) -> String {
    match message {
        NodeMessage::Answer {
            number,
            answer:
                ProposalAnswer::Done(Err(error @ CommitError::Tree { error: TreeError::Io(_), table })),
        } => format!("{number} {table:?} io: {error}"),
        other => format!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn a_message_comes_back_from_its_bytes(message in message()) {
        let bytes = encoded(&message);
        let decoded = NodeMessage::decode(Bytes::from(bytes.clone())).unwrap();
        prop_assert_eq!(told(&decoded), told(&message));
        prop_assert_eq!(encoded(&decoded), bytes);
    }

    #[test]
    fn an_error_keeps_its_kind_and_its_words(error in commit_error()) {
        let words = error.to_string();
        let kind = std::mem::discriminant(&error);
        let answer = ProposalAnswer::Done(Err(error));
        let bytes = encoded(&NodeMessage::Answer { number: 1, answer });
        let Ok(NodeMessage::Answer { answer: ProposalAnswer::Done(Err(error)), .. }) =
            NodeMessage::decode(Bytes::from(bytes))
        else {
            return Err(TestCaseError::fail("another message"));
        };
        prop_assert_eq!(error.to_string(), words);
        prop_assert_eq!(std::mem::discriminant(&error), kind);
    }

    /// The body of a request, of a read, of a look, of rows or of a note is all that is left, so a shorter one is another; everything else notices.
    #[test]
    fn a_message_cut_short_is_malformed(message in message(), at in any::<prop::sample::Index>()) {
        let mut bytes = encoded(&message);
        bytes.truncate(at.index(bytes.len()));
        let is_request = matches!(
            message,
            NodeMessage::Request { .. }
                | NodeMessage::Read { .. }
                | NodeMessage::Look { .. }
                | NodeMessage::Note(_)
                | NodeMessage::Rows { answer: RowsAnswer::Part(_), .. }
        );
        let decoded = NodeMessage::decode(Bytes::from(bytes));
        prop_assert!(decoded.is_err() || is_request);
    }

    #[test]
    fn flipped_bits_do_no_harm(message in message(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = encoded(&message);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(other) = NodeMessage::decode(Bytes::from(bytes)) {
            let _ = encoded(&other);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..=KINDS_KNOWN) {
        let _ = NodeMessage::decode(Bytes::from(bytes.clone()));
        // Most would end at the version otherwise.
        let known = [&[1, kind], bytes.as_slice()].concat();
        if let Ok(message) = NodeMessage::decode(Bytes::from(known)) {
            let _ = encoded(&message);
        }
    }
}

/// The examples of `docs/formats/mesh.md`.
#[test]
fn the_bytes_are_the_documented_ones() {
    let check = |message: NodeMessage, wanted: &[u8]| assert_eq!(encoded(&message), wanted);
    check(
        NodeMessage::Ping { clock_us: 258, shown: 3 },
        &[1, 4, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3],
    );
    let body = Bytes::from_static(b"xy");
    check(
        NodeMessage::Request { number: 5, set: SetId(7), body },
        &[1, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 7, b'x', b'y'],
    );
    let answer = |answer| NodeMessage::Answer { number: 5, answer };
    check(
        answer(ProposalAnswer::NotLeader(Some(NodeId(3)))),
        &[1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 0, 0, 0, 3],
    );
    check(
        answer(ProposalAnswer::Done(Err(CommitError::TooLate))),
        &[1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1, 1, 13],
    );
    check(answer(ProposalAnswer::Moved(SetId(8))), &[1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 5, 0, 0, 0, 8]);
    check(
        NodeMessage::Origin { set: SetId(8), split_from: Some((SetId(7), 300)) },
        &[1, 13, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 1, 44],
    );
    let (set, to, from) = (SetId(7), ReplicaId(20), ReplicaId(10));
    let beats = vec![Beat { set, to, from, term: 2, commit: 300 }];
    check(NodeMessage::Beats { beats, are_answers: false }, &[1, 14, 1, 7, 20, 10, 2, 0xac, 0x02]);
    let report = Report {
        run: 9,
        term: 2,
        applied: 1_000,
        held: -5,
        content_rate: 400,
        waiting: 1,
        active: 2,
        spent: 300,
        told_spent: 200,
        throttled: 4,
        told_throttled: 3,
    };
    let reports = vec![(SetId(7), report)];
    let budgets = BudgetMessage { reports, grants: Vec::new() };
    let mut wanted = vec![1, 16, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 2];
    wanted.extend_from_slice(&[0xd0, 0x0f, 9, 0x90, 0x03, 1, 2, 0xd8, 0x04, 0x90, 0x03, 4, 3, 0]);
    check(NodeMessage::Budgets(budgets), &wanted);
    let keys = Vec::new();
    let heat = vec![Heat { set: SetId(7), now: 300, minute: 2, peak: 3, keys }];
    check(
        NodeMessage::Traffic(TrafficMessage { counted: Vec::new(), heat }),
        &[1, 17, 0, 1, 0, 0, 0, 7, 0xac, 0x02, 2, 3, 0],
    );
    let body = Bytes::from_static(b"xy");
    check(
        NodeMessage::Read { number: 5, set: SetId(7), is_strong: true, body },
        &[1, 18, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 7, 1, b'x', b'y'],
    );
    check(
        NodeMessage::Rows { number: 5, answer: RowsAnswer::NotHere(Some(NodeId(3))) },
        &[1, 19, 0, 0, 0, 0, 0, 0, 0, 5, 3, 0, 0, 0, 0, 0, 0, 0, 3],
    );
    let mut look = vec![1, 22, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 7];
    look.extend_from_slice(&1_u128.to_be_bytes());
    look.extend_from_slice(&2_u128.to_be_bytes());
    let rings = (RingToken(1), RingToken(2));
    check(NodeMessage::Look { number: 5, set: SetId(7), rings, body: Bytes::new() }, &look);
    let looked = Looked { last_us: 258, refused: None };
    check(
        NodeMessage::Rows { number: 5, answer: RowsAnswer::Looked(looked) },
        &[1, 19, 0, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0, 1, 2],
    );
    let mut traced = vec![1, 24, 0, 0, 0, 0, 0, 0, 0, 5, 1];
    traced.extend_from_slice(&3_u128.to_be_bytes());
    traced.extend_from_slice(&4_u64.to_be_bytes());
    let context = TraceContext { trace: 3, span: 4 };
    check(NodeMessage::Traced { number: 5, is_read: true, context }, &traced);
    let mut message = Message { to: 20, from: 10, term: 2, commit: 300, ..Message::default() };
    message.set_msg_type(MessageType::MsgHeartbeat);
    check(
        NodeMessage::Consensus(PeerMessage { set: SetId(7), message }),
        &[1, 1, 1, 0, 0, 0, 7, 4, 0, 20, 10, 2, 0, 0, 0xac, 0x02, 0, 0, 0, 0],
    );
}
