//! The audit log: who logged in, who did not, who granted and defined, and on request who read and wrote what. A line an
//! entry, as Cassandra's `FileAuditLogger` writes them; its categories, its filters.
//!
//! Whoever serves a connection never waits for the file: a line goes into a bounded queue, from which a thread writes. What
//! finds the queue full is lost, and that is told: in the file itself, in the log, and in the metrics.
//!
//! Reading order: [`entry`] (what a line says), [`text`] (what may be said of a statement), [`writer`] (the thread), [`files`].
mod entry;
mod files;
mod text;
mod writer;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::config;
pub(crate) use entry::{Entry, EntryType};
pub(crate) use text::{may_have_password, without_password, without_rest};
use writer::Writer;

/// Lines that wait to be written ...
const QUEUE_LINES_MAX: usize = 65_536;
/// ... and what they take.
const QUEUE_BYTES_MAX: usize = 32 << 20;

/// The audit log of a node.
pub(crate) struct Audit {
    rules: config::Audit,
    /// Where clients reach the node.
    host: SocketAddr,
    queue: Mutex<Option<SyncSender<String>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
}

/// What became of entries since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    /// Those that found the queue full, or could not be written.
    pub(crate) lost: AtomicU64,
    queued_bytes: AtomicUsize,
}

impl Audit {
    /// Opens the log, if there is to be one.
    pub(crate) fn open(
        rules: &config::Audit,
        data_dir: &Path,
        host: SocketAddr,
    ) -> std::io::Result<Option<Audit>> {
        if !rules.enabled {
            return Ok(None);
        }
        let folder = rules.directory.clone().unwrap_or_else(|| data_dir.join("audit"));
        let counts = Arc::new(Counts::default());
        let (sender, receiver) = sync_channel(QUEUE_LINES_MAX);
        let writer = Writer::open(&folder, rules, host, receiver, Arc::clone(&counts))?;
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(|| writer.run())?;
        Ok(Some(Audit {
            rules: rules.clone(),
            host,
            queue: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            counts,
        }))
    }

    /// What became of entries since the start.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether literals are shown.
    pub(crate) fn shows_values(&self) -> bool {
        self.rules.statement_values
    }

    /// Whether entries of a type by a role are kept at all; without a login everybody is the same.
    pub(crate) fn wants(&self, kind: EntryType, user: Option<&str>) -> bool {
        self.rules.categories.has(&kind.category())
            && self.rules.users.has(user.unwrap_or(entry::ANONYMOUS))
    }

    /// Whether entries about a keyspace are kept. What is about none is, whichever is in use.
    pub(crate) fn wants_keyspace(&self, keyspace: Option<&str>) -> bool {
        keyspace.is_none_or(|name| self.rules.keyspaces.has(name))
    }

    /// Keeps an entry, if it is wanted.
    pub(crate) fn keep(&self, entry: &Entry<'_>) {
        if !self.wants_keyspace(entry.keyspace) || !self.wants(entry.kind, entry.user) {
            return;
        }
        let line = entry.line(self.host);
        let bytes = line.len();
        let queued = self.counts.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_sent = queued <= QUEUE_BYTES_MAX
            && self.queue.lock().as_ref().is_some_and(|queue| queue.try_send(line).is_ok());
        if !is_sent {
            self.counts.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what waits, and ends. What comes later is lost.
    pub(crate) fn close(&self) {
        drop(self.queue.lock().take());
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{Category, Choice};

    fn entry(kind: EntryType, keyspace: Option<&'static str>) -> Entry<'static> {
        Entry {
            kind,
            user: Some("joe"),
            source: "127.0.0.1:5000".parse().unwrap(),
            at_ms: 1,
            batch: None,
            keyspace,
            in_use: Some("system"),
            scope: None,
            operation: "x",
        }
    }

    #[test]
    fn what_is_not_wanted_is_not_kept_and_what_is_lost_is_counted() {
        let folder =
            std::env::temp_dir().join(format!("helenus-audit-{}-rules", std::process::id()));
        let rules = config::Audit {
            enabled: true,
            categories: Choice {
                included: vec![Category::Query, Category::Auth],
                excluded: vec![],
            },
            keyspaces: Choice { included: vec!["ks".into()], excluded: vec!["system".into()] },
            file_bytes: 1 << 20,
            file_age: Duration::from_secs(60),
            ..config::Audit::default()
        };
        let host = "127.0.0.1:9042".parse().unwrap();
        let audit = Audit::open(&rules, &folder, host).unwrap().unwrap();
        audit.keep(&entry(EntryType::Select, Some("ks")));
        audit.keep(&entry(EntryType::Select, Some("other")));
        audit.keep(&entry(EntryType::Update, Some("ks")));
        // A login is about no keyspace.
        audit.keep(&entry(EntryType::LoginSuccess, None));
        audit.close();
        let text = std::fs::read_to_string(folder.join("audit/audit.log")).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert_eq!(audit.counts().written.load(Ordering::Relaxed), 2);
        audit.keep(&entry(EntryType::LoginSuccess, None));
        assert_eq!(audit.counts().lost.load(Ordering::Relaxed), 1);
        assert!(Audit::open(&config::Audit::default(), &folder, host).unwrap().is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
