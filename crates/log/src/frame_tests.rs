//! Records are the documented bytes.

use types::SetId;

use crate::frame::{
    EntryHead, Frame, LONE_TERM, Mark, RecordKind, SegmentHead, SetState, decode_states,
    encode_states, push_record, read_frame,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The examples of `docs/formats/log.md`.
#[test]
fn golden_records() {
    let mut bytes = Vec::new();
    SegmentHead { start: 0x1000, chain: 0xdead_beef }.encode(&mut bytes);
    assert_eq!(hex(&bytes), "48454c454e4c4f4700020020000000000000000000001000deadbeefddba4b3b");
    let entry =
        EntryHead { set: SetId(3), kind: 1, term: LONE_TERM, index: 9, now_s: 100, body_bytes: 2 };
    let mut head = Vec::new();
    entry.encode(&mut head);
    let body = [2, 0];
    assert_eq!(EntryHead::decode_all(&head, 2), Some(vec![entry]));
    assert_eq!(EntryHead::decode_all(&head, 3), None, "the bodies are all of the body");
    let mut bytes = Vec::new();
    let chain = 0xdead_beef;
    let checksum = crc32fast::hash(&body);
    let next = push_record(&mut bytes, chain, RecordKind::Entries, &head, &body, checksum);
    assert_eq!(
        hex(&bytes),
        "0000001f1098e74fec001d00000003010000000000000001000000000000000900000064000000020200"
    );
    match read_frame(&bytes, chain) {
        Frame::Record(record) => {
            assert_eq!((record.head, record.body), (head.as_slice(), body.as_slice()));
            assert_eq!(record.checksum, next);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(read_frame(&bytes, chain + 1), Frame::Bad), "only in its place");
    let mark = Mark { position: 0x1020, synced: 0x1000, oldest: 0x20, now_s: 100 };
    assert_eq!(
        hex(&mark.encode()),
        "48454c4d41524b32000000000000102000000000000010000000000000000020000000647878c59f"
    );
    assert_eq!(Mark::decode(&mark.encode()), Some(mark));
    let mut states = Vec::new();
    let state = SetState::Lone { set: SetId(3), index: 9 };
    encode_states(std::iter::once(state.clone()), &mut states);
    assert_eq!(hex(&states), "010000000300".to_owned() + "0000000000000001" + "0000000000000009");
    assert_eq!(decode_states(&states), Some(vec![state]));
}

/// What version 1 wrote is read.
#[test]
fn first_marks_are_read() {
    let bytes: Vec<u8> = "48454c47524f55500000000000001020000000000000100000000000000000207bbcd2fc"
        .as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect();
    let mark = Mark { position: 0x1020, synced: 0x1000, oldest: 0x20, now_s: 0 };
    assert_eq!(Mark::decode(&bytes), Some(mark));
}
