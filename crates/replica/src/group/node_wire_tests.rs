//! Messages between nodes come back from their bytes, the bytes are the documented ones, and no others do harm.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use raft::eraftpb::{Entry, Message, MessageType};
use storage::{AllDone, CommitError, CommitResult, TreeError};
use types::{CurrentRow, Done, NodeId, Outcome, Refusal, ReplicaId, RowPosition, SetId, TableId};

use super::{Beat, NodeMessage, PeerMessage, ProposalAnswer};

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

fn message() -> impl Strategy<Value = NodeMessage> {
    let answer = prop_oneof![
        result().prop_map(ProposalAnswer::Done),
        prop::option::of(any::<u64>().prop_map(NodeId)).prop_map(ProposalAnswer::NotLeader),
        Just(ProposalAnswer::Lost),
        Just(ProposalAnswer::Busy),
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
        (any::<i64>(), any::<u64>())
            .prop_map(|(clock_us, shown)| NodeMessage::Ping { clock_us, shown }),
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

    /// A request's body is all that is left, so a shorter one is another request; everything else notices.
    #[test]
    fn a_message_cut_short_is_malformed(message in message(), at in any::<prop::sample::Index>()) {
        let mut bytes = encoded(&message);
        bytes.truncate(at.index(bytes.len()));
        let is_request = matches!(message, NodeMessage::Request { .. });
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
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..14_u8) {
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
    let (set, to, from) = (SetId(7), ReplicaId(20), ReplicaId(10));
    let beats = vec![Beat { set, to, from, term: 2, commit: 300 }];
    check(NodeMessage::Beats { beats, are_answers: false }, &[1, 14, 1, 7, 20, 10, 2, 0xac, 0x02]);
    let mut message = Message { to: 20, from: 10, term: 2, commit: 300, ..Message::default() };
    message.set_msg_type(MessageType::MsgHeartbeat);
    check(
        NodeMessage::Consensus(PeerMessage { set: SetId(7), message }),
        &[1, 1, 1, 0, 0, 0, 7, 4, 0, 20, 10, 2, 0, 0, 0xac, 0x02, 0, 0, 0, 0],
    );
}
