//! A load that is the same every time: one connection, one request after the other in batches that
//! are answered before the next one is sent. Counts of instructions need that, see
//! `cargo xtask instructions`.
//!
//!     steady 127.0.0.1:9042 read|write COUNT
//!
//! Either begins by writing 1,024 rows of 240 bytes; `read` then reads them, `write` writes them again.

#![allow(clippy::print_stderr, reason = "a tool for developers")]

use std::error::Error;

use testkit::{Client, Execution, OwnedValue};

const ROWS: i64 = 1024;
const BATCH: i64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, what, count] = arguments.as_slice() else {
        return Err("usage: steady ADDRESS:PORT read|write COUNT".into());
    };
    let count: i64 = count.parse()?;
    let mut client = Client::connect(address)?;
    for statement in [
        "CREATE KEYSPACE IF NOT EXISTS steady WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS steady.rows (id bigint PRIMARY KEY, a text, b text, c int)",
    ] {
        client.query(statement, &Execution::default())?;
    }
    run(&mut client, "write", 0, ROWS)?;
    run(&mut client, what, ROWS, ROWS + count)?;
    Ok(())
}

fn run(client: &mut Client, what: &str, from: i64, to: i64) -> Result<(), Box<dyn Error>> {
    let text = match what {
        "read" => "SELECT id, a, b, c FROM steady.rows WHERE id = ?",
        "write" => "INSERT INTO steady.rows (id, a, b, c) VALUES (?, ?, ?, ?)",
        _ => return Err("either read or write".into()),
    };
    let prepared = client.prepare(text)?.map_err(|message| format!("{:?}", message.response))?;
    let bytes = |bytes: &[u8]| OwnedValue::Bytes(bytes.to_vec());
    let mut next = from;
    while next < to {
        let end = to.min(next + BATCH);
        let batch: Vec<Execution> = (next..end)
            .map(|number| {
                let id = (number.wrapping_mul(7919)).rem_euclid(ROWS);
                let mut values = vec![bytes(&id.to_be_bytes())];
                if what == "write" {
                    let c = i32::try_from(number).unwrap_or(0);
                    values.extend([
                        bytes(&[b'a'; 110]),
                        bytes(&[b'b'; 110]),
                        bytes(&c.to_be_bytes()),
                    ]);
                }
                Execution { values, ..Execution::default() }
            })
            .collect();
        client.execute_many(&prepared, &batch)?;
        next = end;
    }
    Ok(())
}
