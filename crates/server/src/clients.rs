//! Who is connected, for the tables that show it.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use protocol::{StringMap, Version};

/// Options of STARTUP are kept up to this many bytes; they only serve people.
const OPTION_BYTES_MAX: usize = 1024;

/// All clients.
#[derive(Default)]
pub(crate) struct Clients {
    next_number: AtomicU64,
    connected: Mutex<HashMap<u64, Arc<Card>>>,
}

/// What is known of one client.
pub(crate) struct Card {
    pub(crate) address: SocketAddr,
    /// Version of TLS and cipher, if it is encrypted.
    pub(crate) encryption: Option<Encryption>,
    pub(crate) request_count: AtomicU64,
    details: Mutex<Details>,
}

/// How a connection is encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Encryption {
    pub(crate) protocol: String,
    pub(crate) cipher: String,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    pub(crate) version: Option<Version>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) role: Option<Arc<str>>,
    pub(crate) keyspace: Option<Arc<str>>,
    pub(crate) is_ready: bool,
}

/// A client's place in the list; left when it is dropped.
pub(crate) struct Registration {
    clients: Arc<Clients>,
    number: u64,
    card: Arc<Card>,
}

impl Clients {
    /// Adds a client for as long as the registration lives.
    pub(crate) fn register(
        self: &Arc<Self>,
        address: SocketAddr,
        encryption: Option<Encryption>,
    ) -> Registration {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let card = Arc::new(Card {
            address,
            encryption,
            request_count: AtomicU64::new(0),
            details: Mutex::new(Details::default()),
        });
        self.connected.lock().insert(number, Arc::clone(&card));
        Registration { clients: Arc::clone(self), number, card }
    }

    /// Everybody who is connected now.
    pub(crate) fn all(&self) -> Vec<Arc<Card>> {
        self.connected.lock().values().cloned().collect()
    }
}

impl Card {
    pub(crate) fn details(&self) -> Details {
        self.details.lock().clone()
    }
}

impl Registration {
    pub(crate) fn add_request(&self) {
        self.card.request_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes what changed.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Details)) {
        change(&mut self.card.details.lock());
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.clients.connected.lock().remove(&self.number);
    }
}

/// The options of STARTUP, as many as are kept.
pub(crate) fn kept_options(options: &StringMap<'_>) -> BTreeMap<String, String> {
    let mut left = OPTION_BYTES_MAX;
    let fits = |(name, value): &(&str, &str)| match left.checked_sub(name.len() + value.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    options
        .iter()
        .take_while(fits)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
