//! How much memory bytes from outside can make us take, and that the hot path takes none.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    unsafe_code,
    reason = "a test; a counting allocator cannot be written without unsafe"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::{Bytes, BytesMut};
use protocol::*;
use types::CqlType;

struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(added: usize, removed: usize) {
    // A thread that is ending has no counters any more; it is not one that measures.
    let _ = CALLS.try_with(|calls| {
        if added > 0 {
            calls.set(calls.get() + 1);
        }
    });
    let _ = LIVE_BYTES.try_with(|live| {
        live.set((live.get() + added).saturating_sub(removed));
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`; how many allocations it made, and how far it went above what was there before.
fn measure(work: impl FnOnce()) -> (usize, usize) {
    let calls = CALLS.get();
    let live = LIVE_BYTES.get();
    PEAK_BYTES.set(live);
    work();
    (CALLS.get() - calls, PEAK_BYTES.get() - live)
}

fn execute_message(version: Version) -> BytesMut {
    let mut values = ValuesBuilder::positional(version);
    for value in 0..8_u64 {
        values.push("", Value::Bytes(&value.to_be_bytes()));
    }
    let mut parameters = QueryParameters::new(version, Consistency::LocalQuorum);
    parameters.values = values.values();
    parameters.page_size = Some(5000);
    parameters.timestamp = Some(1);
    let request = Request::Execute {
        id: &[1; 16],
        result_metadata_id: (version >= Version::V5).then_some(&[2; 16]),
        parameters,
    };
    let mut buf = BytesMut::new();
    RequestMessage::new(request).encode(version, 1, &mut buf);
    buf
}

#[test]
fn looking_into_an_execute_allocates_nothing() {
    for version in Version::ALL {
        let mut decoder = FrameDecoder::for_requests(1 << 20);
        let frame = decoder.decode(&mut execute_message(version)).unwrap().unwrap();
        let mut sum = 0;
        let (calls, _) = measure(|| {
            let message = RequestMessage::decode(&frame).unwrap();
            let Request::Execute { parameters, .. } = message.request else { panic!() };
            for value in parameters.values {
                let Value::Bytes(bytes) = value else { panic!() };
                sum += bytes.len();
            }
        });
        assert_eq!((calls, sum), (0, 64));
    }
}

#[test]
fn writing_rows_into_a_buffer_with_room_allocates_nothing() {
    let column = |name: &str| ColumnSpec {
        keyspace: "ks".into(),
        table: "t".into(),
        name: name.into(),
        cql_type: CqlType::BigInt,
    };
    let columns = [column("a"), column("b"), column("c")];
    let mut buf = BytesMut::with_capacity(4096);
    let (calls, _) = measure(|| {
        let head = ResponseHead {
            custom_payload: &[("RequestCharge", &[0; 8])],
            ..ResponseHead::new(Version::V5, 1)
        };
        let mut rows = head.rows(&RowsMetadata::new(&columns), &mut buf);
        for row in 0..20_u64 {
            rows.cell(Some(&row.to_be_bytes()));
            rows.cell(None);
            rows.cell_in_place(|buf| buf.extend_from_slice(&row.to_be_bytes()));
            rows.end_row();
        }
        rows.finish_with_paging_state(b"further");
    });
    assert_eq!(calls, 0);
}

/// Counts that announce more than comes: nothing is set aside for them.
#[test]
fn announced_counts_cost_nothing() {
    const BYTES_MAX: usize = 4096;
    let all_ones = [0xFF_u8; 64];
    let zeros = [0_u8; 64];
    for version in Version::ALL {
        for opcode in (0..=16).map(|number| Opcode::from_number(number).unwrap()) {
            for flags in 0..32 {
                for start in 0..8 {
                    let mut body = zeros.to_vec();
                    body[start..start + 8]
                        .copy_from_slice(&[0, 0, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
                    for body in [body, all_ones.to_vec()] {
                        let body = Bytes::from(body);
                        let frame = Frame { version, flags: Flags(flags), stream: 0, opcode, body };
                        let (_, peak) = measure(|| {
                            let _ = RequestMessage::decode(&frame);
                            let _ = ResponseMessage::decode(&frame);
                        });
                        assert!(peak <= BYTES_MAX, "{peak} bytes for {frame:?}");
                    }
                }
            }
        }
    }
}

/// The header of a message of 16 MB arrives, and then its bytes one by one.
#[test]
fn announced_lengths_cost_nothing() {
    let mut outgoing = Outgoing::new();
    outgoing.start(Version::V5, None);
    let body = Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]);
    let (flags, stream, opcode) = (Flags::default(), 1, Opcode::Query);
    Frame { version: Version::V5, flags, stream, opcode, body }.encode(outgoing.messages());
    let outer = outgoing.seal().split_to(PAYLOAD_BYTES_MAX + 10);
    let plain: &[u8] = &[4, 0, 0, 1, 7, 0, 0xFF, 0xFF, 0, 1, 2, 3];
    for (version, bytes) in [(Version::V4, plain), (Version::V5, &*outer)] {
        let mut decoder = FrameDecoder::for_requests(MESSAGE_BYTES_MAX_DEFAULT);
        decoder.start(version, None);
        let mut buf = BytesMut::from(bytes);
        let (_, peak) = measure(|| assert!(decoder.decode(&mut buf).unwrap().is_none()));
        assert!(peak <= bytes.len() + 1024, "{peak} bytes for {}", bytes.len());
    }
}
