//! The encrypted connection to a node, which several threads write to: whoever has little to say and finds nobody else writing writes it
//! himself. Waking the link's task for it took longer than the writing, and one write of a client waits for four of them.
//!
//! Where much is said the task does it: what came meanwhile goes in one write then.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use rustls::ClientConnection;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::pack::pack;
use super::peer::Peer;
use super::queue::Piece;

/// More is left to the link's task, which has time to wait until the system takes it.
const LITTLE_BYTES_MAX: usize = 16 * 1024;
/// Who wrote so short a time ago has more to say soon: the task gathers it.
const PAUSE_MIN: Duration = Duration::from_micros(200);
/// So many pieces the task writes before it asks whether the system takes more.
const PIECES_AT_ONCE_MAX: usize = 8;
/// So many bytes of what was deciphered are taken at once.
const TAKEN_BYTES: usize = 4096;

/// A connection to a node.
pub(crate) struct Wire {
    stream: TcpStream,
    state: Mutex<State>,
    /// Frames of bulk may be packed.
    packs: bool,
    begun: Instant,
    /// When it was last written to, in microseconds since it begun.
    written_us: AtomicU64,
}

struct State {
    tls: ClientConnection,
    /// What is being written, and how much of it was enciphered.
    piece: Option<(Piece, usize)>,
    /// What waits is not for this connection any more.
    is_over: bool,
}

/// How far what waits was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// All of it.
    All,
    /// The system takes no more now, or there was more than was wanted.
    Part,
}

/// A socket as the cipher knows it: it never waits.
struct Socket<'s>(&'s TcpStream);

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Socket<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Wire {
    pub(crate) fn new(stream: TlsStream<TcpStream>, packs: bool) -> Wire {
        let (stream, tls) = stream.into_inner();
        let state = Mutex::new(State { tls, piece: None, is_over: false });
        Wire { stream, state, packs, begun: Instant::now(), written_us: AtomicU64::new(0) }
    }

    /// Nothing that waits from now on is for this connection.
    pub(crate) fn end(&self) {
        self.state.lock().is_over = true;
    }

    /// Writes what waits for a node, if that is little, nobody else writes, and nobody did just now. `false`: it is left to the task.
    pub(crate) fn write_little(&self, peer: &Peer) -> bool {
        let now_us = self.now_us();
        let last_us = self.written_us.load(Ordering::Relaxed);
        if u128::from(now_us.saturating_sub(last_us)) < PAUSE_MIN.as_micros() {
            return false;
        }
        let Some(mut state) = self.state.try_lock() else { return false };
        let is_free = !state.is_over && state.piece.is_none() && !state.tls.wants_write();
        if !is_free || !peer.waits_little(LITTLE_BYTES_MAX) {
            return false;
        }
        // Where it failed, the task finds that out too.
        self.write_on(&mut state, peer, 1).is_ok_and(|written| written == Written::All)
    }

    /// Writes what waits for a node, as far as the system takes it; after some of it others have their turn.
    pub(crate) fn write_all(&self, peer: &Peer) -> io::Result<Written> {
        self.write_on(&mut self.state.lock(), peer, PIECES_AT_ONCE_MAX)
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// What waits is taken while the connection is held, so that it is written in its order.
    fn write_on(
        &self,
        state: &mut MutexGuard<'_, State>,
        peer: &Peer,
        pieces_max: usize,
    ) -> io::Result<Written> {
        let mut pieces = 0;
        loop {
            let State { tls, piece, is_over } = &mut **state;
            while tls.wants_write() {
                match tls.write_tls(&mut Socket(&self.stream)) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Written::Part);
                    }
                    Err(error) => return Err(error),
                }
            }
            let rest = piece.as_ref().and_then(|(piece, taken)| piece.bytes.get(*taken..));
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                let more = io::Write::write(&mut tls.writer(), rest)?;
                if let Some((_, taken)) = piece {
                    *taken += more;
                }
                continue;
            }
            if let Some((written, _)) = piece.take() {
                peer.note_written(&written);
                self.written_us.store(self.now_us(), Ordering::Relaxed);
            }
            if *is_over {
                return Ok(Written::All);
            }
            if pieces >= pieces_max {
                return Ok(if peer.waits_little(0) { Written::All } else { Written::Part });
            }
            pieces += 1;
            let Some(mut next) = peer.next_piece() else { return Ok(Written::All) };
            if self.packs {
                pack(&mut next);
            }
            *piece = Some((next, 0));
        }
    }

    /// Has a frame that waits in no queue written, behind what is being written.
    pub(crate) fn say(&self, frame: &[u8]) {
        let mut state = self.state.lock();
        let (piece, _) = state.piece.get_or_insert_default();
        piece.bytes.extend_from_slice(frame);
    }

    /// Waits until the system takes more.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    /// Waits for something that the other side says; 0 when it says no more.
    pub(crate) async fn read(&self, out: &mut BytesMut) -> io::Result<usize> {
        loop {
            if let Some(bytes) = self.read_now(out)? {
                return Ok(bytes);
            }
            self.stream.readable().await?;
        }
    }

    fn read_now(&self, out: &mut BytesMut) -> io::Result<Option<usize>> {
        let mut state = self.state.lock();
        let tls = &mut state.tls;
        loop {
            let mut bytes = [0; TAKEN_BYTES];
            match io::Read::read(&mut tls.reader(), &mut bytes) {
                Ok(count) => {
                    // It fills what it was given, and no more.
                    let (taken, _) = bytes.split_at(count);
                    out.put_slice(taken);
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match tls.read_tls(&mut Socket(&self.stream)) {
                Ok(0) => return Ok(Some(0)),
                Ok(_) => {
                    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                    tls.process_new_packets().map_err(invalid)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
