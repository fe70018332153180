//! Ports for the nodes that chores start.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that the system hands out by itself: a node that is stopped and started again would else find that a client's connection
/// has its port. Tests of crates take theirs above these.
const FIRST_PORT: u16 = 13_000;
const PORT_COUNT: u16 = 6_000;

/// A port that nobody listens on, on each of 127.0.0.1, 127.0.0.2 ..., and that this process has not asked for before.
pub(crate) fn free_port(hosts: u8) -> io::Result<u16> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // Processes that run at the same time begin far apart.
    let start = std::process::id().wrapping_mul(131);
    for _ in 0..PORT_COUNT {
        let offset = start.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        let port = FIRST_PORT + (offset % u32::from(PORT_COUNT)) as u16;
        let is_free = |host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port)).is_ok();
        if (1..=hosts).all(is_free) {
            return Ok(port);
        }
    }
    Err(io::Error::other("no port is free"))
}
