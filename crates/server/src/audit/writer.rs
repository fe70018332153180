//! The thread that writes the audit log.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};

use super::files::{Files, Rotation};
use super::{Counts, Entry, EntryType};
use crate::config;
use crate::log::Throttle;
use crate::world;

/// That entries are lost is said so often at most.
const LOSSES_PER_SECOND: u32 = 1;

/// Writes what is in the queue until nobody can put anything there any more.
pub(super) struct Writer {
    files: Files,
    host: SocketAddr,
    queue: Receiver<String>,
    counts: Arc<Counts>,
    /// Losses that the file tells of.
    told: u64,
    complaints: Throttle,
}

impl Writer {
    pub(super) fn open(
        folder: &Path,
        rules: &config::Audit,
        host: SocketAddr,
        queue: Receiver<String>,
        counts: Arc<Counts>,
    ) -> io::Result<Writer> {
        let rotation = Rotation {
            file_bytes: rules.file_bytes,
            file_age: rules.file_age,
            kept_bytes: rules.kept_bytes,
        };
        let files = Files::open(folder, rotation, now_ms())?;
        let complaints = Throttle::new(LOSSES_PER_SECOND);
        Ok(Writer { files, host, queue, counts, told: 0, complaints })
    }

    pub(super) fn run(mut self) {
        loop {
            let line = match self.queue.try_recv() {
                Ok(line) => Some(line),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => {
                    // Nothing waits: whoever reads the file sees all of it.
                    let flushed = self.files.flush();
                    self.complain(flushed);
                    self.queue.recv().ok()
                }
            };
            self.tell_losses();
            let Some(line) = line else { break };
            self.write(&line);
            self.counts.queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
        }
        let synced = self.files.sync();
        self.complain(synced);
    }

    fn write(&mut self, line: &str) {
        match self.files.write(line, now_ms()) {
            Ok(()) => {
                self.counts.written.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
                self.complain(Err(error));
            }
        }
    }

    /// Says in the file that entries are missing.
    fn tell_losses(&mut self) {
        let lost = self.counts.lost.load(Ordering::Relaxed);
        if lost == self.told {
            return;
        }
        let missing = lost - self.told;
        if self.complaints.admit(world::steady_us()).is_some() {
            tracing::error!(lost, "the audit log loses entries: more happens than can be written");
        }
        let operation = format!("{missing} entries are missing here");
        let entry = Entry {
            kind: EntryType::Lost,
            user: Some("system"),
            source: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            at_ms: now_ms(),
            batch: None,
            keyspace: None,
            in_use: None,
            scope: None,
            operation: &operation,
        };
        if self.files.write(&entry.line(self.host), now_ms()).is_ok() {
            self.told = lost;
        }
    }

    fn complain(&self, outcome: io::Result<()>) {
        if let Err(error) = outcome
            && self.complaints.admit(world::steady_us()).is_some()
        {
            tracing::error!(%error, "the audit log cannot be written, see audit.directory");
        }
    }
}

fn now_ms() -> i64 {
    world::now_us() / 1000
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_lost_is_told_in_the_file() {
        let folder =
            std::env::temp_dir().join(format!("helenus-audit-{}-lost", std::process::id()));
        let rules = config::Audit {
            file_bytes: 1 << 20,
            file_age: Duration::from_secs(60),
            ..config::Audit::default()
        };
        let (sender, receiver) = sync_channel(8);
        let counts = Arc::new(Counts::default());
        let host = "127.0.0.1:9042".parse().unwrap();
        let writer = Writer::open(&folder, &rules, host, receiver, Arc::clone(&counts)).unwrap();
        sender.send("one\n".to_owned()).unwrap();
        counts.queued_bytes.store(8, Ordering::Relaxed);
        counts.lost.store(3, Ordering::Relaxed);
        sender.send("two\n".to_owned()).unwrap();
        drop(sender);
        writer.run();
        let text = std::fs::read_to_string(folder.join("audit.log")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("|operation:3 entries are missing here"), "{text}");
        assert_eq!(lines[1..], ["one", "two"]);
        assert_eq!(counts.written.load(Ordering::Relaxed), 2);
        assert_eq!(counts.queued_bytes.load(Ordering::Relaxed), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
