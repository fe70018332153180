//! How long a QUORUM write takes where one client writes, one after the other: at a node that runs alone, and at one of a cluster of four.
//! Beside them, in turns, what it cannot be quicker than: one round trip between two threads over the loopback, and four files
//! written and synced at the same time.
//!
//!     cargo run --profile simulate -p testkit --bin latency -- ALONE:PORT OF_CLUSTER:PORT FOLDER
//!
//! The folder is to be on the disk of the nodes.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool for developers"
)]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread::Builder;
use std::time::{Duration, Instant};

use protocol::{Consistency, PreparedResponse};
use testkit::{Client, Execution, OwnedValue};

const ROUNDS: u64 = 20;
const WRITES_PER_ROUND: u64 = 50;
/// What a write of one row takes in the log, about.
const RECORD_BYTES: usize = 512;
const FILES: usize = 4;
/// The files have this size before anything is measured, as the log's do.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [alone, cluster, folder] = arguments.as_slice() else {
        return Err("usage: latency ALONE:PORT OF_CLUSTER:PORT FOLDER".into());
    };
    let (mut alone, mut cluster) = (Writer::new(alone)?, Writer::new(cluster)?);
    let mut echo = Echo::new()?;
    let mut took: [Vec<Duration>; 5] = Default::default();
    for round in 0..ROUNDS {
        let [of_alone, of_cluster, of_echo, of_third, of_all] = &mut took;
        for number in 0..WRITES_PER_ROUND {
            let key = round * WRITES_PER_ROUND + number;
            of_alone.push(alone.write(key)?);
            of_cluster.push(cluster.write(key)?);
        }
        for _ in 0..WRITES_PER_ROUND {
            of_echo.push(echo.round_trip()?);
        }
        for (third, all) in sync_together(Path::new(folder))? {
            of_third.push(third);
            of_all.push(all);
        }
    }
    let [alone, cluster, echo, third, all] = took.map(middle);
    println!("p50 of a QUORUM write, one client at a time: alone {alone:?}, of four {cluster:?}");
    println!(
        "beside it: a round trip {echo:?}; four syncs at once: three done {third:?}, all {all:?}"
    );
    println!("bound {:?} (alone + round trip + four syncs)", alone + echo + all);
    Ok(())
}

fn middle(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}

/// A client of one node.
struct Writer {
    client: Client,
    prepared: PreparedResponse,
}

impl Writer {
    fn new(address: &str) -> Result<Writer, Failure> {
        let mut client = Client::connect(address).map_err(|error| error.to_string())?;
        for statement in [
            "CREATE KEYSPACE IF NOT EXISTS load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE IF NOT EXISTS load.lone (k bigint PRIMARY KEY, a text)",
        ] {
            client.query(statement, &Execution::default()).map_err(|error| error.to_string())?;
        }
        let prepared = client.prepare("INSERT INTO load.lone (k, a) VALUES (?, ?)");
        let prepared = prepared.map_err(|error| error.to_string())?;
        let prepared = prepared.map_err(|message| format!("{:?}", message.response))?;
        Ok(Writer { client, prepared })
    }

    fn write(&mut self, key: u64) -> Result<Duration, Failure> {
        let bytes = |bytes: &[u8]| OwnedValue::Bytes(bytes.to_vec());
        let values = vec![bytes(&key.to_be_bytes()), bytes(&[b'a'; 100])];
        let execution = Execution { values, ..Execution::at(Consistency::Quorum) };
        let begin = Instant::now();
        self.client.execute_many(&self.prepared, &[execution]).map_err(|it| it.to_string())?;
        Ok(begin.elapsed())
    }
}

/// A thread that sends back what comes, as another node's would.
struct Echo(TcpStream);

impl Echo {
    fn new() -> Result<Echo, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        stream.set_nodelay(true)?;
        let (mut other, _) = listener.accept()?;
        other.set_nodelay(true)?;
        Builder::new().name("echo".into()).spawn(move || {
            let mut bytes = [0; RECORD_BYTES];
            while other.read_exact(&mut bytes).is_ok() && other.write_all(&bytes).is_ok() {}
        })?;
        Ok(Echo(stream))
    }

    fn round_trip(&mut self) -> Result<Duration, Failure> {
        let mut bytes = [0; RECORD_BYTES];
        let begin = Instant::now();
        self.0.write_all(&bytes)?;
        self.0.read_exact(&mut bytes)?;
        Ok(begin.elapsed())
    }
}

/// Writes to four files and syncs them, all at the same time. Returns when the third was done, and all of them.
fn sync_together(folder: &Path) -> Result<Vec<(Duration, Duration)>, Failure> {
    let barrier = Arc::new(Barrier::new(FILES));
    let origin = Instant::now();
    let mut threads = Vec::new();
    for number in 0..FILES {
        let file = make_file(&folder.join(format!("sync-{number}")))?;
        let barrier = Arc::clone(&barrier);
        let thread = Builder::new().name(format!("sync-{number}")).spawn(move || {
            let mut done = Vec::new();
            for write in 0..WRITES_PER_ROUND {
                barrier.wait();
                let begin = origin.elapsed();
                let written = file.write_all_at(&[1; RECORD_BYTES], write * RECORD_BYTES as u64);
                written.and_then(|()| file.sync_data()).map_err(|error| error.to_string())?;
                done.push((begin, origin.elapsed()));
            }
            Ok::<_, String>(done)
        })?;
        threads.push(thread);
    }
    let mut of_files = Vec::new();
    for thread in threads {
        of_files.push(thread.join().map_err(|_| "a thread failed")??);
    }
    let mut took = Vec::new();
    for write in 0..WRITES_PER_ROUND as usize {
        let at: Vec<_> = of_files.iter().filter_map(|of_file| of_file.get(write)).collect();
        let begin = at.iter().map(|(begin, _)| *begin).min().unwrap_or_default();
        let mut ends: Vec<Duration> = at.iter().map(|(_, end)| *end - begin).collect();
        ends.sort_unstable();
        if let [.., third, last] = ends.as_slice() {
            took.push((*third, *last));
        }
    }
    Ok(took)
}

fn make_file(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    if file.metadata()?.len() < FILE_BYTES {
        file.write_all_at(&vec![0; FILE_BYTES as usize], 0)?;
        file.sync_all()?;
    }
    Ok(file)
}
