//! Limits, pages, groups and bounds of what is collected.

use std::cell::Cell;

use super::*;
use crate::request::Executed;
use crate::testing::{Boundless, KEYSPACE, Node, numbers_of, rows_of, settings};

/// Five logical partitions of twenty rows; `v` is a hundred times the key plus the clustering column.
fn node() -> Node {
    let node = Node::new(settings());
    node.run_all(&[
        KEYSPACE,
        "CREATE TABLE k.t (p int, c int, g int, v int, x text, PRIMARY KEY (p, c))",
    ]);
    for p in 0..5 {
        for c in 0..20 {
            let (g, v) = (c / 7, p * 100 + c);
            node.run_all(&[&format!(
                "INSERT INTO k.t (p, c, g, v, x) VALUES ({p}, {c}, {g}, {v}, 'a rather long text')"
            )]);
        }
    }
    node
}

#[test]
fn pages_of_every_length_give_the_same_rows_in_the_same_order() {
    let node = node();
    for text in [
        "SELECT v FROM k.t",
        "SELECT v FROM k.t LIMIT 33",
        "SELECT v FROM k.t PER PARTITION LIMIT 3",
        "SELECT v FROM k.t PER PARTITION LIMIT 3 LIMIT 8",
        "SELECT v FROM k.t WHERE p = 3",
        "SELECT v FROM k.t WHERE p = 3 ORDER BY c DESC",
        "SELECT v FROM k.t WHERE p IN (4, 1, 2) AND c > 15",
        "SELECT v FROM k.t WHERE p IN (4, 1, 2) PER PARTITION LIMIT 2",
        "SELECT v FROM k.t WHERE v > 210 ALLOW FILTERING",
        "SELECT max(v) FROM k.t GROUP BY p",
        "SELECT DISTINCT p FROM k.t",
    ] {
        let whole = node.numbers(text);
        assert!(whole.len() > 2, "{text}: {whole:?}");
        for page_size in 1..=whole.len() as u32 + 1 {
            let pages = node.pages(text, page_size);
            assert_eq!(pages.concat(), whole, "{text}, pages of {page_size}");
            let is_whole = |page: &Vec<i32>| page.len() <= page_size as usize;
            assert!(pages.iter().all(is_whole), "{text}, pages of {page_size}: {pages:?}");
        }
    }
}

#[test]
fn limits_count_rows_keys_and_groups() {
    let node = node();
    let count = |text: &str| node.rows(text).len();
    assert_eq!(count("SELECT v FROM k.t LIMIT 7"), 7);
    assert_eq!(count("SELECT v FROM k.t PER PARTITION LIMIT 2"), 10);
    assert_eq!(count("SELECT v FROM k.t PER PARTITION LIMIT 2 LIMIT 3"), 3);
    assert_eq!(count("SELECT p, max(v) FROM k.t GROUP BY p LIMIT 2"), 2);
    assert_eq!(count("SELECT DISTINCT p FROM k.t"), 5);
    assert_eq!(node.numbers("SELECT v FROM k.t WHERE p IN (1, 0) ORDER BY c LIMIT 3"), [0, 100, 1]);
    // An aggregate is one row, whatever it reads and however small a page is.
    assert_eq!(node.pages("SELECT max(v) FROM k.t", 3), [[419]]);
    let none = node.rows("SELECT max(v) FROM k.t WHERE p = 9 AND c = 9");
    assert_eq!(none, [[None]]);
}

/// Gives leave up to a number of bytes, and to go on for a number of questions.
struct Tight {
    bytes_max: usize,
    refusal: OutOfBounds,
    questions_left: Cell<u32>,
}

impl Bounds for Tight {
    fn go_on(&self) -> Result<(), OutOfBounds> {
        match self.questions_left.get().checked_sub(1) {
            Some(left) => self.questions_left.set(left),
            None => return Err(self.refusal),
        }
        Ok(())
    }

    fn grow(&self, bytes: usize) -> Result<usize, OutOfBounds> {
        if bytes < self.bytes_max { Ok(self.bytes_max) } else { Err(self.refusal) }
    }
}

fn tight(bytes_max: usize, refusal: OutOfBounds) -> Tight {
    Tight { bytes_max, refusal, questions_left: Cell::new(u32::MAX) }
}

/// Much more than what is free.
fn wide() -> Node {
    let node = Node::new(settings());
    node.run_all(&[KEYSPACE, "CREATE TABLE k.w (p int, c int, x text, PRIMARY KEY (p, c))"]);
    let long = "x".repeat(4_000);
    for c in 0..100 {
        node.run_all(&[&format!("INSERT INTO k.w (p, c, x) VALUES (1, {c}, '{long}')")]);
    }
    node
}

#[test]
fn a_result_without_pages_that_is_too_large_is_refused() {
    let node = wide();
    let work = Cell::default();
    for refusal in [OutOfBounds::TooLarge(100_000), OutOfBounds::Crowded, OutOfBounds::TimedOut] {
        let bounds = tight(100_000, refusal);
        let done = node.execute("SELECT x FROM k.w", None, None, &bounds, &work);
        let error = done.err().unwrap();
        let is_right = match (refusal, &error) {
            (OutOfBounds::TooLarge(_), ExecuteError::ResultTooLarge { bytes_max, table }) => {
                (*bytes_max, table.as_str()) == (100_000, "k.w")
            }
            (OutOfBounds::Crowded, ExecuteError::Crowded) => true,
            (OutOfBounds::TimedOut, ExecuteError::ReadTimedOut) => true,
            _ => false,
        };
        assert!(is_right, "{refusal:?}: {error:?}");
    }
    // What is free needs no leave.
    let bounds = tight(0, OutOfBounds::Crowded);
    let done = node.execute("SELECT x FROM k.w LIMIT 10", None, None, &bounds, &work);
    assert!(matches!(done, Ok(Executed::Done(_))));
}

#[test]
fn a_page_ends_where_memory_does_and_the_next_one_goes_on() {
    let node = wide();
    let bounds = tight(100_000, OutOfBounds::TooLarge(100_000));
    let mut state: Option<Vec<u8>> = None;
    let mut sizes = Vec::new();
    loop {
        let text = "SELECT c, x FROM k.w";
        let done = node.execute(text, Some(1000), state.as_deref(), &bounds, &Cell::default());
        let Ok(Executed::Done(answer)) = done else { panic!("a page is no error") };
        let rows = rows_of(text, Ok(answer));
        sizes.push(rows.row_count);
        state = rows.paging_state;
        if state.is_none() {
            break;
        }
    }
    assert_eq!(sizes.iter().sum::<u32>(), 100, "{sizes:?}");
    assert!(sizes.len() >= 4 && sizes.iter().all(|rows| *rows <= 26), "{sizes:?}");
}

#[test]
fn what_takes_long_begins_anew_elsewhere_and_is_not_charged() {
    let node = wide();
    let work = Cell::default();
    let bounds = tight(usize::MAX, OutOfBounds::TooLong);
    bounds.questions_left.set(0);
    let keys: Vec<String> = (0..40).map(|key| key.to_string()).collect();
    let text = format!("SELECT max(c) FROM k.w WHERE p IN ({})", keys.join(", "));
    let done = node.execute(&text, None, None, &bounds, &work);
    assert!(matches!(done, Ok(Executed::TooLong)));
    assert_eq!(work.get().scanned_row_count, 0);
    let done = node.execute(&text, None, None, &Boundless, &work);
    let Ok(Executed::Done(answer)) = done else { panic!("enough of everything") };
    assert_eq!(numbers_of(&rows_of("max", Ok(answer))), [99]);
    assert_eq!(work.get().scanned_row_count, 100);
}
