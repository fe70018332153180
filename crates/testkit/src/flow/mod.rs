//! Many clients at once, each with many requests under way: what overload and budgets are tried with.
//!
//! A [`Flow`] is one connection with a number of slots. Each slot sends a request, waits for its answer
//! and sends the next one. A refused request (0x1001) is sent again by the rules of [`Manners`].
//!
//! Reading order: [`Flow`], [`Tally`], then `wire` for the bytes.

#![allow(clippy::disallowed_methods, reason = "a load runs in the real world")]

mod tally;
mod wire;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::net::TcpStream;

pub use tally::{Tally, quantile};
use wire::Answer;
pub use wire::{CONSISTENCY_ONE, CONSISTENCY_QUORUM, connect};

/// What a client does when a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// It waits as it is told and sends the same request again.
    Obedient,
    /// It sends the same request again at once.
    Stubborn,
    /// It gives up and goes on with the next request.
    Careless,
}

/// Values of a request, by its number.
pub type Values = Arc<dyn Fn(u64) -> Vec<Vec<u8>> + Send + Sync>;

/// One connection that keeps requests under way.
#[derive(Clone)]
pub struct Flow {
    /// Where the server is.
    pub address: String,
    /// The prepared statement.
    pub statement: Vec<u8>,
    /// What it is executed with.
    pub values: Values,
    /// The number of the first request; the next one is higher by `step`.
    pub first: u64,
    /// See `first`.
    pub step: u64,
    /// Requests under way at once.
    pub window: i16,
    /// What happens to refused requests.
    pub manners: Manners,
    /// Time between two requests of one slot; none: as fast as answers come.
    pub pause: Option<Duration>,
    /// The level, as the protocol numbers them.
    pub consistency: u16,
}

/// A request of a slot, before it is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    slot: i16,
}

#[derive(Clone, Copy)]
struct Slot {
    number: u64,
    sent: Instant,
    /// When a paced request should have been sent.
    planned: Instant,
    /// It was refused, and waited as it was told.
    has_waited: bool,
}

impl Flow {
    /// Runs until `end`, then takes what is still under way for a moment. Times are counted from
    /// `begin`.
    pub async fn run(&self, begin: Instant, end: Instant) -> io::Result<Tally> {
        let stream = connect(&self.address).await?;
        let mut tally = Tally::new(begin);
        let now = Instant::now();
        let start = |slot: i16| {
            // Paced slots begin at different moments, or they would come in waves.
            let spread = self.pause.unwrap_or_default() * slot.unsigned_abs().into()
                / u32::from(self.window.unsigned_abs().max(1));
            Slot { number: 0, sent: now, planned: now + spread, has_waited: false }
        };
        let mut slots: Vec<Slot> = (0..self.window).map(start).collect();
        let mut next = self.first;
        let mut due: BinaryHeap<Reverse<Due>> = BinaryHeap::new();
        for (slot, it) in (0i16..).zip(&mut slots) {
            it.number = next;
            next += self.step;
            due.push(Reverse(Due { at: it.planned, slot }));
        }
        let (mut incoming, mut outgoing) = (BytesMut::new(), BytesMut::new());
        while Instant::now() < end {
            self.send_due(&mut due, &mut slots, &mut outgoing);
            let until = due.peek().map_or(end, |Reverse(first)| first.at.min(end));
            tokio::select! {
                read = read(&stream, &mut incoming) => read?,
                written = write(&stream, &mut outgoing), if !outgoing.is_empty() => written?,
                () = tokio::time::sleep_until(until.into()) => {}
            }
            while let Some((slot, answer)) = wire::answer(&mut incoming)? {
                let Some(state) = slots.get_mut(usize::try_from(slot).unwrap_or(usize::MAX)) else {
                    return Err(io::Error::other("an answer that was not asked for"));
                };
                let at = self.after(answer, state, &mut next, &mut tally);
                due.push(Reverse(Due { at, slot }));
            }
        }
        Ok(tally)
    }

    fn send_due(
        &self,
        due: &mut BinaryHeap<Reverse<Due>>,
        slots: &mut [Slot],
        outgoing: &mut BytesMut,
    ) {
        let now = Instant::now();
        while let Some(Reverse(first)) = due.peek().copied()
            && first.at <= now
        {
            due.pop();
            let Some(slot) = slots.get_mut(usize::try_from(first.slot).unwrap_or(usize::MAX))
            else {
                continue;
            };
            slot.sent = now;
            let values = (self.values)(slot.number);
            wire::execute(first.slot, &self.statement, self.consistency, &values, outgoing);
        }
    }

    /// Counts an answer; when the slot sends again.
    fn after(&self, answer: Answer, slot: &mut Slot, next: &mut u64, tally: &mut Tally) -> Instant {
        let now = Instant::now();
        if let Answer::Refused { retry_after } = answer {
            tally.add_refused(slot.has_waited, now.duration_since(slot.sent));
            match self.manners {
                Manners::Obedient => {
                    slot.has_waited = true;
                    return now + retry_after;
                }
                Manners::Stubborn => return now,
                Manners::Careless => {}
            }
        }
        match answer {
            Answer::Good { charge } => {
                tally.add_good(now, now.duration_since(slot.sent), charge);
                tally.kept_promises += u64::from(slot.has_waited);
            }
            Answer::Failed(message) => tally.add_failed(message),
            Answer::Refused { .. } => {}
        }
        slot.has_waited = false;
        slot.number = *next;
        *next += self.step;
        slot.planned += self.pause.unwrap_or_default();
        if self.pause.is_some() { slot.planned.max(now) } else { now }
    }
}

async fn read(stream: &TcpStream, incoming: &mut BytesMut) -> io::Result<()> {
    stream.readable().await?;
    incoming.reserve(64 << 10);
    match stream.try_read_buf(incoming) {
        Ok(0) => Err(io::Error::other("the server closed the connection")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

async fn write(stream: &TcpStream, outgoing: &mut BytesMut) -> io::Result<()> {
    stream.writable().await?;
    match stream.try_write(outgoing) {
        Ok(count) => {
            outgoing.advance(count);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}
