//! Threads that read rows for other nodes: never the one that drives the members, which must go on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use storage::broken::{Rule, breaks};
use storage::{ReadError, Storage};
use types::travel::{Fault, PartWriter, decode_read_request};

use super::driver::Clock;
use super::host::{HeldRanges, ServedRead};
use super::reads::RowsAnswer;
use super::seats::Seats;
use crate::part_of;

/// So many threads read for others.
const THREADS: usize = 4;
/// So many reads wait for one of them; others are told that too much waits.
const WAITING_MAX: usize = 4_096;
/// One part takes no longer than this, whatever was asked for.
const PART_MS_MAX: u64 = 1_000;

/// Who is told what was read.
pub(super) type Tell = Arc<dyn Fn(&ServedRead, RowsAnswer) + Send + Sync>;

struct Line {
    waiting: VecDeque<ServedRead>,
    is_closing: bool,
}

/// Threads that read for others.
pub(super) struct Servants {
    line: Arc<(Mutex<Line>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Servants {
    pub(super) fn start(
        storage: &Arc<Storage>,
        (seats, ranges): (&Seats, &Arc<HeldRanges>),
        clock: &Clock,
        tell: &Tell,
    ) -> std::io::Result<Servants> {
        let line = Line { waiting: VecDeque::new(), is_closing: false };
        let line = Arc::new((Mutex::new(line), Condvar::new()));
        let mut servants = Servants { line: Arc::clone(&line), threads: Vec::new() };
        for _ in 0..THREADS {
            let (line, storage) = (Arc::clone(&line), Arc::clone(storage));
            let (seats, ranges) = (seats.clone(), Arc::clone(ranges));
            let (clock, tell) = (Arc::clone(clock), Arc::clone(tell));
            let run = move || {
                while let Some(read) = next(&line) {
                    let serve = || serve(&storage, &seats, &ranges, &read, &mut || clock().ms);
                    match catch_unwind(AssertUnwindSafe(serve)) {
                        Ok(Some(answer)) => tell(&read, answer),
                        Ok(None) => {}
                        Err(_) => tracing::error!("a bug: a read for another node panicked"),
                    }
                }
            };
            servants.threads.push(Builder::new().name("helenus-rows".into()).spawn(run)?);
        }
        Ok(servants)
    }

    /// Takes reads; those that there is no room for come back.
    pub(super) fn take(&self, reads: Vec<ServedRead>) -> Vec<ServedRead> {
        if reads.is_empty() {
            return reads;
        }
        let (line, rung) = &*self.line;
        let mut line = line.lock();
        let mut refused = Vec::new();
        for read in reads {
            if line.waiting.len() >= WAITING_MAX {
                refused.push(read);
                continue;
            }
            line.waiting.push_back(read);
            rung.notify_one();
        }
        refused
    }

    /// Nothing is read any more when this returns.
    pub(super) fn close(self) {
        let (line, rung) = &*self.line;
        line.lock().is_closing = true;
        rung.notify_all();
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn next(line: &(Mutex<Line>, Condvar)) -> Option<ServedRead> {
    let (line, rung) = line;
    let mut line = line.lock();
    loop {
        if line.is_closing {
            return None;
        }
        if let Some(read) = line.waiting.pop_front() {
            return Some(read);
        }
        rung.wait(&mut line);
    }
}

/// Reads one part of what is asked for. What cannot be understood is not answered with a guess.
pub fn serve(
    storage: &Storage,
    seats: &Seats,
    ranges: &HeldRanges,
    read: &ServedRead,
    now_ms: &mut dyn FnMut() -> u64,
) -> Option<RowsAnswer> {
    let Ok(request) = decode_read_request(read.body.clone()) else {
        tracing::warn!(from = %read.from, "a read of another node cannot be understood");
        return None;
    };
    let until_ms = now_ms() + u64::from(request.bounds.time_ms_max).min(PART_MS_MAX);
    let mut goes_on = || now_ms() < until_ms;
    let mut rows = PartWriter::new(request.bounds, &mut goes_on);
    let found = storage.read(read.set, &request.command, &mut rows);
    if seats.of(read.set) != Some(read.seat) {
        // The member was handed rows, or went, since it was asked: what was found may be part of both.
        return Some(RowsAnswer::NotHere(None));
    }
    // What a set holds gets less when it is split, never more: whoever looks afterwards misses no split.
    if !ranges.holds(read.set, part_of(&request.command)) && !breaks(Rule::ReadThroughSplit) {
        return Some(RowsAnswer::Moved);
    }
    Some(match found {
        Ok(()) => RowsAnswer::Part(Bytes::from(rows.finish())),
        Err(error) => RowsAnswer::Failed(fault_of(&error)),
    })
}

fn fault_of(error: &ReadError) -> Fault {
    match error {
        ReadError::Corrupt { table, what } => {
            Fault::Damaged { table: *table, what: what.to_string() }
        }
        ReadError::Io { table, error } => Fault::Io { table: *table, what: error.to_string() },
    }
}
