use bytes::Bytes;
use types::{CellRef, CellState, ClusteringRange, ColumnId, Liveness, RowWriter};

use super::*;

fn row(timestamp_us: i64) -> Vec<u8> {
    let liveness = Some(Liveness { timestamp_us, expiry: None });
    let mut writer = RowWriter::new(Vec::new(), liveness, None, None);
    writer.push(&CellRef {
        column: ColumnId(1),
        path: None,
        timestamp_us,
        state: CellState::Value { value: b"value", expiry: None },
    });
    writer.finish()
}

const BOUNDS: HeadBounds = HeadBounds { rows_max: 10, bytes_max: 4096 };

fn filled(count: u8) -> Head {
    let mut head = Head::new(ClusteringRange::ALL, false);
    for byte in 0..count {
        head.put(&[byte], Some(&row(5)), BOUNDS).unwrap();
    }
    head
}

fn keys_of(head: &Head) -> Vec<u8> {
    (0..head.row_count()).map(|index| head.row(index).unwrap().clustering[0]).collect()
}

#[test]
fn a_full_head_lets_its_last_rows_go() {
    let mut head = filled(12);
    assert_eq!(keys_of(&head), (0..10).collect::<Vec<u8>>());
    assert!(!head.is_whole() && !head.covers().contains(&[10]) && head.covers().contains(&[9, 9]));
    head.put(&[11], Some(&row(6)), BOUNDS).unwrap();
    assert_eq!(head.row_count(), 10, "outside: not its business");
    head.put(&[0, 1], Some(&row(6)), BOUNDS).unwrap();
    assert_eq!(keys_of(&head), [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn deletions_take_what_is_older() {
    let mut head = filled(8);
    head.put(&[3], Some(&row(9)), BOUNDS).unwrap();
    let range =
        ClusteringRange { start: Bytes::from_static(&[2]), end: Some(Bytes::from_static(&[5])) };
    head.delete(&range, 7).unwrap();
    assert_eq!(keys_of(&head), [0, 1, 3, 5, 6, 7]);
    assert_eq!(head.row(2).unwrap().covering_us, 7);
    head.put(&[4], None, BOUNDS).unwrap();
    head.put(&[5], None, BOUNDS).unwrap();
    assert_eq!(keys_of(&head), [0, 1, 3, 6, 7]);
    head.delete_all(9).unwrap();
    assert!(head.row_count() == 0 && head.is_whole());
}

#[test]
fn rows_that_grow_leave_no_waste() {
    let mut head = filled(2);
    for size in 0..1000 {
        let mut value = row(5);
        value.extend_from_slice(&row(i64::from(size))[10..]);
        head.put(&[1], Some(&value[..value.len() - (size % 3) as usize]), BOUNDS).unwrap();
    }
    assert!(head.memory_bytes() < 32 * 1024, "{}", head.memory_bytes());
    assert_eq!(keys_of(&head), [0, 1]);
}

#[test]
fn joined_heads_are_one() {
    let part = |start: u8, end: u8| {
        let covers =
            ClusteringRange { start: Bytes::from(vec![start]), end: Some(Bytes::from(vec![end])) };
        let mut head = Head::new(covers, false);
        for byte in start..end {
            let value = row(5);
            let row = HeadRow { clustering: &[byte], value: &value, covering_us: i64::MIN };
            head.push_back(row).unwrap();
        }
        head
    };
    for joined in [part(2, 5).joined(&part(5, 7), BOUNDS), part(5, 7).joined(&part(2, 5), BOUNDS)] {
        let joined = joined.unwrap();
        assert_eq!(keys_of(&joined), [2, 3, 4, 5, 6]);
        assert!(joined.covers().contains(&[2]) && !joined.covers().contains(&[7]));
    }
}

fn version_of(found: Found<()>) -> Option<u64> {
    match found {
        Found::Nothing => None,
        Found::Mark { version, .. } | Found::Head { version, .. } => Some(version),
    }
}

#[test]
fn the_second_read_counts_and_a_change_in_between_too() {
    let heads = Heads::new(1 << 20);
    let find = || heads.find(b"key", || Some(()), |_| false);
    assert!(matches!(find(), Found::Nothing));
    let version = version_of(find()).unwrap();
    heads.turn(b"key").change(|_| Ok(()));
    heads.bring(b"key", version, filled(3));
    let Found::Mark { version, .. } = find() else { panic!("stale rows were taken") };
    heads.bring(b"key", version, filled(3));
    assert!(matches!(find(), Found::Head { .. }));
    heads.turn(b"key").change(|_| Err(Unfit));
    assert!(matches!(find(), Found::Mark { .. }));
}

#[test]
fn who_has_no_moment_gets_no_head_that_needs_one() {
    let heads = Heads::new(1 << 20);
    let find = || heads.find(b"key", || Some(()), |_| true);
    let late = |needs: bool| heads.find(b"key", || None::<()>, move |_| needs);
    find();
    assert!(matches!(late(true), Found::Nothing));
    heads.bring(b"key", version_of(find()).unwrap(), filled(3));
    assert!(matches!(late(true), Found::Nothing));
    assert!(matches!(late(false), Found::Head { .. }));
}

#[test]
fn a_reader_keeps_what_it_found() {
    let heads = Heads::new(1 << 20);
    let find = || heads.find(b"key", || Some(()), |_| false);
    version_of(find());
    heads.bring(b"key", version_of(find()).unwrap(), filled(3));
    let Found::Head { head, .. } = find() else { panic!("nothing was taken") };
    heads.turn(b"key").change(|head| head.delete_all(9));
    assert_eq!(head.row_count(), 3);
    let Found::Head { head, .. } = find() else { panic!("it is gone") };
    assert_eq!(head.row_count(), 0);
}

#[test]
fn bytes_are_bounded_and_what_is_read_stays() {
    let heads = Heads::new(200_000);
    let read = |key: &[u8]| match heads.find(key, || Some(()), |_| false) {
        Found::Nothing => false,
        Found::Mark { version, .. } => {
            heads.bring(key, version, filled(10));
            false
        }
        Found::Head { .. } => true,
    };
    for _ in 0..3 {
        read(b"hot");
    }
    for number in 0..2_000u32 {
        read(&number.to_be_bytes());
        read(&number.to_be_bytes());
        assert!(read(b"hot"), "gone after {number} others");
        assert!(heads.bytes() <= 200_000);
    }
    let once = (5_000..9_000u32).filter(|number| read(&number.to_be_bytes())).count();
    assert_eq!(once, 0);
}
