//! Who is checked next. Checking a password is slow on purpose, so at most a few are checked at a time, and who waits is
//! served in turns: by address, then by the role that is asked for. Whoever guesses waits for other guesses of the same
//! address; who knows a password from elsewhere does not.
//!
//! A password that was found right is remembered under a key that lasts as long as the process: it is recognised
//! without the slow check, so that a pool of connections is open at once, also beside somebody who guesses.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use roles::LoginError;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::keeper::RoleKeeper;
use crate::world;

/// Logins that may wait for their turn.
const WAITING_MAX: usize = 4096;
/// Addresses whose turns and failures are remembered.
const ADDRESSES_MAX: usize = 16 * 1024;
/// Passwords that are remembered.
const KNOWN_MAX: usize = 4096;
/// So many failures of an address are answered at once: people mistype.
const FAILURES_FREE: u32 = 3;
/// Each one more takes so much longer to be answered ...
const FAILURE_DELAY: Duration = Duration::from_millis(100);
/// ... up to this.
const FAILURE_DELAY_MAX: Duration = Duration::from_secs(5);
/// Failures are forgotten after this time without another one.
const FAILURES_KEPT_US: u64 = 60_000_000;

/// Lets logins through.
pub(crate) struct LoginGate {
    keeper: Arc<RoleKeeper>,
    running_max: usize,
    state: Mutex<State>,
    known: Mutex<HashMap<String, [u8; 32], FixedState>>,
    key: [u8; 32],
}

#[derive(Default)]
struct State {
    waiting: Vec<Ticket>,
    running: usize,
    next_number: u64,
    addresses: HashMap<IpAddr, Address, FixedState>,
}

/// What is remembered of an address.
#[derive(Default)]
struct Address {
    /// Its last turn.
    turn: u64,
    /// The last turns of the roles that it asks for, as long as it waits.
    roles: HashMap<String, u64, FixedState>,
    failures: u32,
    failed_at_us: u64,
}

/// Somebody who waits.
struct Ticket {
    number: u64,
    address: IpAddr,
    name: String,
    password: String,
    answer: oneshot::Sender<Result<Arc<str>, LoginError>>,
}

impl State {
    /// Whose turn it is: of the address that had none for longest, the role that had none for longest.
    fn next(&mut self) -> Option<Ticket> {
        self.waiting.retain(|ticket| !ticket.answer.is_closed());
        let turn_of = |ticket: &Ticket| {
            let address = self.addresses.get(&ticket.address);
            let role = address.and_then(|address| address.roles.get(&ticket.name));
            (address.map_or(0, |address| address.turn), role.copied().unwrap_or(0), ticket.number)
        };
        let (place, _) =
            self.waiting.iter().enumerate().min_by_key(|(_, ticket)| turn_of(ticket))?;
        let ticket = self.waiting.swap_remove(place);
        self.next_number += 1;
        let turn = self.next_number;
        self.make_room();
        let is_last = !self.waiting.iter().any(|other| other.address == ticket.address);
        let address = self.addresses.entry(ticket.address).or_default();
        address.turn = turn;
        if is_last {
            address.roles.clear();
        } else {
            address.roles.insert(ticket.name.clone(), turn);
        }
        Some(ticket)
    }

    fn make_room(&mut self) {
        if self.addresses.len() < ADDRESSES_MAX {
            return;
        }
        let waiting: HashSet<IpAddr> = self.waiting.iter().map(|ticket| ticket.address).collect();
        let now_us = world::steady_us();
        self.addresses.retain(|ip, address| {
            let has_failed = now_us.saturating_sub(address.failed_at_us) < FAILURES_KEPT_US;
            waiting.contains(ip) || address.failures > 0 && has_failed
        });
        if self.addresses.len() >= ADDRESSES_MAX {
            self.addresses.retain(|ip, _| waiting.contains(ip));
        }
    }

    /// Notes a failure; how long its answer is to take.
    fn delay(&mut self, ip: IpAddr, now_us: u64) -> Duration {
        self.make_room();
        let address = self.addresses.entry(ip).or_default();
        if now_us.saturating_sub(address.failed_at_us) >= FAILURES_KEPT_US {
            address.failures = 0;
        }
        address.failures = address.failures.saturating_add(1);
        address.failed_at_us = now_us;
        let counted = address.failures.saturating_sub(FAILURES_FREE);
        FAILURE_DELAY.saturating_mul(counted).min(FAILURE_DELAY_MAX)
    }
}

impl LoginGate {
    /// Checks at most `running_max` passwords at a time; `key` is random.
    pub(crate) fn new(keeper: Arc<RoleKeeper>, running_max: usize, key: [u8; 32]) -> LoginGate {
        let (state, known) = Default::default();
        LoginGate { keeper, running_max: running_max.max(1), state, known, key }
    }

    /// Checks a name and a password, in turn with others.
    pub(crate) async fn log_in(
        self: Arc<Self>,
        address: IpAddr,
        name: String,
        password: String,
    ) -> Result<Arc<str>, LoginError> {
        let address = address.to_canonical();
        if self.is_known(&name, &password) {
            return self.keeper.admit(&name, &password, address);
        }
        let (answer, answered) = oneshot::channel();
        let starts = {
            let mut state = self.state.lock();
            if state.waiting.len() >= WAITING_MAX {
                return Err(LoginError::TooMany);
            }
            state.next_number += 1;
            let number = state.next_number;
            state.waiting.push(Ticket { number, address, name, password, answer });
            let starts = state.running < self.running_max;
            state.running += usize::from(starts);
            starts
        };
        if starts {
            let gate = Arc::clone(&self);
            tokio::task::spawn_blocking(move || gate.check_all());
        }
        let outcome = answered.await.unwrap_or(Err(LoginError::TooMany));
        if outcome.is_err() {
            let delay = self.state.lock().delay(address, world::steady_us());
            tokio::time::sleep(delay).await;
        }
        outcome
    }

    /// Checks until nobody waits.
    fn check_all(&self) {
        loop {
            let ticket = {
                let mut state = self.state.lock();
                let Some(ticket) = state.next() else {
                    state.running -= 1;
                    return;
                };
                ticket
            };
            let Ticket { name, password, address, answer, .. } = ticket;
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let verified = self.keeper.verify(&name, &password);
                if let Some(hash) = &verified {
                    self.remember(&name, &password, hash);
                }
                match verified {
                    Some(_) => self.keeper.admit(&name, &password, address),
                    None => Err(LoginError::Wrong { name: name.clone() }),
                }
            }));
            let _ = answer.send(outcome.unwrap_or(Err(LoginError::Wrong { name })));
        }
    }

    /// Of a password together with the kept hash that it belongs to: another password or hash gives another.
    fn seal(&self, hash: &str, password: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.key);
        digest.update(hash.as_bytes());
        digest.update([0]);
        digest.update(password.as_bytes());
        digest.finalize().into()
    }

    fn remember(&self, name: &str, password: &str, hash: &str) {
        let seal = self.seal(hash, password);
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX && !known.contains_key(name) {
            known.clear();
        }
        known.insert(name.to_owned(), seal);
    }

    fn is_known(&self, name: &str, password: &str) -> bool {
        let Some(hash) = self.keeper.hash_of(name) else { return false };
        let seal = self.seal(&hash, password);
        // Without a branch on how far they agree.
        self.known.lock().get(name).is_some_and(|known| {
            known.iter().zip(&seal).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(
        state: &mut State,
        address: u8,
        name: &str,
    ) -> oneshot::Receiver<Result<Arc<str>, LoginError>> {
        let (answer, answered) = oneshot::channel();
        state.next_number += 1;
        let number = state.next_number;
        let address = IpAddr::from([10, 0, 0, address]);
        let (name, password) = (name.to_owned(), String::new());
        state.waiting.push(Ticket { number, address, name, password, answer });
        answered
    }

    #[test]
    fn addresses_and_roles_take_turns() {
        let mut state = State::default();
        let mut kept = Vec::new();
        for _ in 0..64 {
            kept.push(ticket(&mut state, 1, "root"));
        }
        let first = state.next().unwrap();
        assert_eq!((first.address, first.name.as_str()), (IpAddr::from([10, 0, 0, 1]), "root"));
        kept.push(ticket(&mut state, 1, "app"));
        kept.push(ticket(&mut state, 2, "root"));
        assert_eq!(state.next().unwrap().address, IpAddr::from([10, 0, 0, 2]));
        assert_eq!(state.next().unwrap().name, "app");
        assert_eq!(state.next().unwrap().name, "root");
        // Who left is not checked.
        kept.clear();
        assert!(state.next().is_none() && state.waiting.is_empty());
    }

    #[test]
    fn failures_of_an_address_take_longer_and_are_forgotten() {
        let mut state = State::default();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let delays: Vec<u128> = (0..6).map(|_| state.delay(one, 1_000_000).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 100, 200, 300]);
        for _ in 0..1000 {
            assert!(state.delay(one, 1_000_000) <= FAILURE_DELAY_MAX);
        }
        assert_eq!(state.delay(other, 1_000_000), Duration::ZERO);
        assert_eq!(state.delay(one, 1_000_000 + FAILURES_KEPT_US), Duration::ZERO);
    }
}
