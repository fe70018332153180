//! A load that is the same every time: one connection, one request after the other in batches that
//! are answered before the next one is sent. Counts of instructions need that, see
//! `cargo xtask instructions`.
//!
//!     steady 127.0.0.1:9042 read|write|batch|slice|scan|index|conditional COUNT
//!
//! - `read` and `write`: rows of 240 bytes by their keys, 1,024 of them, written before.
//! - `batch`: twenty new rows of one new partition.
//! - `slice`: the first hundred rows of one of sixteen partitions.
//! - `scan`: a sixteenth of the ring, 64 rows of those of `read`.
//! - `index`: ten rows by a value that an index is on.
//! - `conditional`: a row of 240 bytes, if it does not exist, which is so.

#![allow(clippy::print_stderr, reason = "a tool for developers")]

use std::error::Error;

use testkit::{Client, Execution, OwnedValue};

const ROWS: i64 = 1024;
/// So many requests under way, small ones and others.
const MANY: i64 = 64;
const FEW: i64 = 8;
const BATCH_ROWS: i64 = 20;
const SLICES: i64 = 16;
const SLICE_ROWS: i64 = 100;
const SCAN_PARTS: i64 = 16;
const INDEX_MATCHES: i64 = 10;

const ROWS_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS steady.rows (id bigint PRIMARY KEY, a text, b text, c int)";
const SERIES_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS steady.series (k bigint, t bigint, v text, PRIMARY KEY (k, t))";
const INDEX: &str = "CREATE INDEX IF NOT EXISTS rows_c ON steady.rows (c)";
const INSERT: &str = "INSERT INTO steady.rows (id, a, b, c) VALUES (?, ?, ?, ?)";
const APPEND: &str = "INSERT INTO steady.series (k, t, v) VALUES (?, ?, ?)";

/// A statement, and what one of its executions says.
struct Requests {
    text: String,
    in_flight: i64,
    values: fn(i64) -> Vec<OwnedValue>,
}

fn requests(text: &str, in_flight: i64, values: fn(i64) -> Vec<OwnedValue>) -> Requests {
    Requests { text: text.into(), in_flight, values }
}

/// What is there before anything is counted, and what is counted.
struct Workload {
    definitions: &'static [&'static str],
    load: Option<(Requests, i64)>,
    counted: Requests,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, what, count] = arguments.as_slice() else {
        return Err("usage: steady ADDRESS:PORT WORKLOAD COUNT".into());
    };
    let count: i64 = count.parse()?;
    let workload = workload(what).ok_or("there is no such workload")?;
    let mut client = Client::connect(address)?;
    let keyspace = "CREATE KEYSPACE IF NOT EXISTS steady WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    for statement in [&keyspace].into_iter().chain(workload.definitions) {
        client.query(statement, &Execution::default())?;
    }
    if let Some((load, rows)) = &workload.load {
        run(&mut client, load, 0, *rows)?;
    }
    run(&mut client, &workload.counted, ROWS, ROWS + count)
}

fn workload(name: &str) -> Option<Workload> {
    let of_rows = |counted| Workload {
        definitions: &[ROWS_TABLE],
        load: Some((requests(INSERT, MANY, row), ROWS)),
        counted,
    };
    Some(match name {
        "read" => {
            of_rows(requests("SELECT id, a, b, c FROM steady.rows WHERE id = ?", MANY, |number| {
                vec![bigint(id_of(number))]
            }))
        }
        "write" => of_rows(requests(INSERT, MANY, row)),
        "scan" => of_rows(requests(
            "SELECT id, a, b, c FROM steady.rows WHERE token(id) > ? AND token(id) <= ?",
            FEW,
            |number| {
                let width = i64::MAX / (SCAN_PARTS / 2);
                let part = number.rem_euclid(SCAN_PARTS) - SCAN_PARTS / 2;
                vec![bigint(part * width), bigint(part * width + width)]
            },
        )),
        "conditional" => Workload {
            load: None,
            ..of_rows(requests(&format!("{INSERT} IF NOT EXISTS"), MANY, |number| {
                insert_values(number, number)
            }))
        },
        "index" => Workload {
            definitions: &[ROWS_TABLE, INDEX],
            load: Some((
                requests(INSERT, MANY, |number| insert_values(number, number / INDEX_MATCHES)),
                ROWS,
            )),
            counted: requests("SELECT id, a, b, c FROM steady.rows WHERE c = ?", FEW, |number| {
                vec![int(number.wrapping_mul(7919).rem_euclid(ROWS / INDEX_MATCHES))]
            }),
        },
        "batch" => {
            let inserts = vec![APPEND; usize::try_from(BATCH_ROWS).unwrap_or(0)].join("; ");
            let text = format!("BEGIN UNLOGGED BATCH {inserts}; APPLY BATCH");
            let values = |number| (0..BATCH_ROWS).flat_map(|at| reading(number, at)).collect();
            Workload {
                definitions: &[SERIES_TABLE],
                load: None,
                counted: requests(&text, FEW, values),
            }
        }
        "slice" => Workload {
            definitions: &[SERIES_TABLE],
            load: Some((
                requests(APPEND, MANY, |number| reading(number / SLICE_ROWS, number % SLICE_ROWS)),
                SLICES * SLICE_ROWS,
            )),
            counted: requests(
                "SELECT t, v FROM steady.series WHERE k = ? LIMIT 100",
                FEW,
                |number| vec![bigint(number.rem_euclid(SLICES))],
            ),
        },
        _ => return None,
    })
}

fn id_of(number: i64) -> i64 {
    number.wrapping_mul(7919).rem_euclid(ROWS)
}

fn row(number: i64) -> Vec<OwnedValue> {
    insert_values(id_of(number), number)
}

fn insert_values(id: i64, c: i64) -> Vec<OwnedValue> {
    let text = |letter: u8| OwnedValue::Bytes(vec![letter; 110]);
    vec![bigint(id), text(b'a'), text(b'b'), int(c)]
}

fn reading(series: i64, at: i64) -> Vec<OwnedValue> {
    vec![bigint(series), bigint(at), OwnedValue::Bytes(vec![b'v'; 40])]
}

fn bigint(number: i64) -> OwnedValue {
    OwnedValue::Bytes(number.to_be_bytes().to_vec())
}

fn int(number: i64) -> OwnedValue {
    OwnedValue::Bytes(i32::try_from(number).unwrap_or(0).to_be_bytes().to_vec())
}

fn run(client: &mut Client, what: &Requests, from: i64, to: i64) -> Result<(), Box<dyn Error>> {
    let prepared = client.prepare(&what.text)?;
    let prepared = prepared.map_err(|message| format!("{:?}", message.response))?;
    let mut next = from;
    while next < to {
        let end = to.min(next + what.in_flight);
        let batch: Vec<Execution> = (next..end)
            .map(|number| Execution { values: (what.values)(number), ..Execution::default() })
            .collect();
        client.execute_many(&prepared, &batch)?;
        next = end;
    }
    Ok(())
}
