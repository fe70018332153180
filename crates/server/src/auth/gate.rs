//! Who is checked next. Checking a password is slow on purpose, so at most a few are checked at a time, and who waits is
//! served in turns: by address, then by the role that is asked for. Whoever guesses waits for other guesses of the same
//! address; who knows a password from elsewhere does not.
//!
//! Failures slow down who comes next: from the same address, and for the same role, whether there is such a role or not. It
//! is the check that comes later, not the answer: whoever does not wait for the answer of a guess wins nothing. How long is
//! worked out when a guess arrives and again when its turn comes, so that many at once are not checked at full speed. Who knows a
//! password that was checked before does not wait.
//!
//! A password that was found right is remembered under a key that lasts as long as the process: it is recognised
//! without the slow check, so that a pool of connections is open at once, also beside somebody who guesses.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
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
/// Roles whose failures are remembered, by a hash of their names: a name may be any text.
const ROLES_MAX: usize = 16 * 1024;
/// So many failures cost nothing: people mistype.
const FAILURES_FREE: u32 = 3;
/// For each one more the next is checked so much later ...
const FAILURE_DELAY_US: u64 = 100_000;
/// ... up to this for an address ...
const ADDRESS_DELAY_MAX_US: u64 = 5_000_000;
/// ... and up to this for a role: others who guess must not keep it out.
const ROLE_DELAY_MAX_US: u64 = 1_000_000;
/// Guesses of one address that would wait longer, or have waited longer, are not checked at all.
const ADDRESS_WAIT_MAX_US: u64 = 10_000_000;
/// Failures are forgotten after this time without another one.
const FAILURES_KEPT_US: u64 = 60_000_000;

/// Lets logins through.
pub(crate) struct LoginGate {
    keeper: Arc<RoleKeeper>,
    running_max: usize,
    state: Mutex<State>,
    known: Mutex<HashMap<String, [u8; 32], FixedState>>,
    key: [u8; 32],
    counts: LoginCounts,
    witness: OnceLock<Witness>,
}

/// Is told of every login that failed, also of those whose clients left.
pub(crate) type Witness = Box<dyn Fn(SocketAddr, &str, &LoginError) + Send + Sync>;

#[derive(Default)]
struct LoginCounts {
    accepted: AtomicU64,
    failed: AtomicU64,
    delayed: AtomicU64,
    delay_us: AtomicU64,
}

/// What came of logins since the start.
pub(crate) struct Logins {
    pub(crate) accepted: u64,
    pub(crate) failed: u64,
    /// Those that waited because of failures before them.
    pub(crate) delayed: u64,
    /// How long all of them together.
    pub(crate) delay_us: u64,
}

#[derive(Default)]
struct State {
    waiting: Vec<Ticket>,
    running: usize,
    next_number: u64,
    addresses: HashMap<IpAddr, Address, FixedState>,
    roles: HashMap<u64, Failures, FixedState>,
}

/// Logins that failed.
#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    /// When the last one did.
    at_us: u64,
    /// Before this nothing more is checked.
    next_us: u64,
}

impl Failures {
    fn is_kept(&self, now_us: u64) -> bool {
        self.count > 0 && now_us.saturating_sub(self.at_us) < FAILURES_KEPT_US
    }

    fn add(&mut self, now_us: u64) {
        let count = if self.is_kept(now_us) { self.count } else { 0 };
        (self.count, self.at_us) = (count.saturating_add(1), now_us);
    }

    /// How much later than the one before the next one is checked.
    fn delay_us(&self, now_us: u64, max_us: u64) -> u64 {
        if !self.is_kept(now_us) {
            return 0;
        }
        let counted = (self.count + 1).saturating_sub(FAILURES_FREE);
        FAILURE_DELAY_US.saturating_mul(u64::from(counted)).min(max_us)
    }
}

/// What is remembered of an address.
#[derive(Default)]
struct Address {
    /// Its last turn.
    turn: u64,
    /// The last turns of the roles that it asks for, as long as it waits.
    roles: HashMap<String, u64, FixedState>,
    failures: Failures,
    /// Passwords that are being checked for it.
    checks: usize,
}

/// Somebody who waits.
struct Ticket {
    number: u64,
    /// Whose failures count.
    address: IpAddr,
    client: SocketAddr,
    name: String,
    password: String,
    arrived_us: u64,
    answer: oneshot::Sender<Turn>,
}

/// What came of a turn.
enum Turn {
    Checked(Result<Arc<str>, LoginError>),
    /// Others failed meanwhile: it comes again after this time.
    TooEarly(u64),
}

/// Who is slowed down together: whoever has one address of IPv6 mostly has all that begin with the same 64 bits.
fn address_of(ip: IpAddr) -> IpAddr {
    const NETWORK_BITS: u128 = !0 << 64;
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::from((ip.to_bits() & NETWORK_BITS).to_be_bytes()),
        ip => ip,
    }
}

fn role_of(name: &str) -> u64 {
    FixedState::default().hash_one(name)
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
        let is_here = |ip: &IpAddr, address: &Address| address.checks > 0 || waiting.contains(ip);
        self.addresses
            .retain(|ip, address| is_here(ip, address) || address.failures.is_kept(now_us));
        if self.addresses.len() >= ADDRESSES_MAX {
            self.addresses.retain(|ip, address| is_here(ip, address));
        }
    }

    /// How long the next login waits before it is checked, in microseconds; `None`: it is not checked, because too many of
    /// its address wait already. One takes the place that it is given.
    fn wait_us(&mut self, ip: IpAddr, role: u64, now_us: u64) -> Option<u64> {
        let of_role = self.roles.get(&role).map_or(0, |it| it.delay_us(now_us, ROLE_DELAY_MAX_US));
        let Some(address) = self.addresses.get_mut(&ip) else { return Some(of_role) };
        let failures = &mut address.failures;
        let delay_us = failures.delay_us(now_us, ADDRESS_DELAY_MAX_US);
        if delay_us == 0 {
            return Some(of_role);
        }
        // One after the other, however many come at once.
        let at_us = failures.next_us.max(now_us).saturating_add(delay_us);
        let wait_us = at_us - now_us;
        if wait_us > ADDRESS_WAIT_MAX_US {
            return None;
        }
        failures.next_us = at_us;
        Some(wait_us.max(of_role))
    }

    /// How much longer somebody whose turn it is has to wait, by what failed since it came; zero: it is checked now.
    fn early_us(&self, ticket: &Ticket, now_us: u64) -> u64 {
        let role = self.roles.get(&role_of(&ticket.name));
        let of_role = role.map_or(0, |it| it.delay_us(now_us, ROLE_DELAY_MAX_US));
        // From when it came: others who guess must not keep the role out.
        let of_role = ticket.arrived_us.saturating_add(of_role).saturating_sub(now_us);
        let Some(address) = self.addresses.get(&ticket.address) else { return of_role };
        let delay_us = address.failures.delay_us(now_us, ADDRESS_DELAY_MAX_US);
        // One after the other: what is being checked may fail.
        let since_us = if address.checks > 0 { now_us } else { address.failures.at_us };
        let of_address = match delay_us {
            0 => 0,
            delay_us => since_us.saturating_add(delay_us).saturating_sub(now_us),
        };
        of_role.max(of_address)
    }

    /// Notes that somebody is checked, or was.
    fn count_check(&mut self, address: IpAddr, begins: bool) {
        let checks = &mut self.addresses.entry(address).or_default().checks;
        *checks = if begins { *checks + 1 } else { checks.saturating_sub(1) };
    }

    /// Notes a failure.
    fn add_failure(&mut self, ip: IpAddr, role: u64, now_us: u64) {
        self.make_room();
        self.addresses.entry(ip).or_default().failures.add(now_us);
        if self.roles.len() >= ROLES_MAX && !self.roles.contains_key(&role) {
            self.roles.retain(|_, failures| failures.is_kept(now_us));
            if self.roles.len() >= ROLES_MAX {
                self.roles.clear();
            }
        }
        self.roles.entry(role).or_default().add(now_us);
    }
}

impl LoginGate {
    /// Checks at most `running_max` passwords at a time; `key` is random.
    pub(crate) fn new(keeper: Arc<RoleKeeper>, running_max: usize, key: [u8; 32]) -> LoginGate {
        let (state, known) = Default::default();
        let counts = LoginCounts::default();
        let (running_max, witness) = (running_max.max(1), OnceLock::new());
        LoginGate { keeper, running_max, state, known, key, counts, witness }
    }

    /// Has somebody told of what fails.
    pub(crate) fn set_witness(&self, witness: Witness) {
        let _ = self.witness.set(witness);
    }

    fn count(&self, client: SocketAddr, name: &str, outcome: &Result<Arc<str>, LoginError>) {
        let counted = if outcome.is_ok() { &self.counts.accepted } else { &self.counts.failed };
        counted.fetch_add(1, Ordering::Relaxed);
        if let (Err(error), Some(witness)) = (outcome, self.witness.get()) {
            witness(client, name, error);
        }
    }

    /// What came of logins since the start.
    pub(crate) fn logins(&self) -> Logins {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let LoginCounts { accepted, failed, delayed, delay_us } = &self.counts;
        Logins {
            accepted: read(accepted),
            failed: read(failed),
            delayed: read(delayed),
            delay_us: read(delay_us),
        }
    }

    /// Checks a name and a password, in turn with others.
    pub(crate) async fn log_in(
        self: Arc<Self>,
        client: SocketAddr,
        name: String,
        password: String,
    ) -> Result<Arc<str>, LoginError> {
        match self.admit_known(client, &name, &password) {
            Some(outcome) => outcome,
            None => self.log_in_slowly(client, name, password).await,
        }
    }

    /// Lets somebody in whose password was checked before.
    fn admit_known(
        &self,
        client: SocketAddr,
        name: &str,
        password: &str,
    ) -> Option<Result<Arc<str>, LoginError>> {
        if !self.is_known(name, password) {
            return None;
        }
        let outcome = self.keeper.admit(name, password, client.ip().to_canonical());
        self.count(client, name, &outcome);
        Some(outcome)
    }

    fn too_many(&self, client: SocketAddr, name: &str) -> Result<Arc<str>, LoginError> {
        let outcome = Err(LoginError::TooMany);
        self.count(client, name, &outcome);
        outcome
    }

    async fn log_in_slowly(
        self: Arc<Self>,
        client: SocketAddr,
        name: String,
        password: String,
    ) -> Result<Arc<str>, LoginError> {
        let (address, arrived_us) = (address_of(client.ip()), world::steady_us());
        let wait_us = self.state.lock().wait_us(address, role_of(&name), arrived_us);
        let Some(wait_us) = wait_us else {
            let refused = self.too_many(client, &name);
            self.pause(ADDRESS_DELAY_MAX_US).await;
            return refused;
        };
        self.pause(wait_us).await;
        loop {
            let (answer, answered) = oneshot::channel();
            let (name_sent, password_sent) = (name.clone(), password.clone());
            let is_queued = self.queue(|number| Ticket {
                number,
                address,
                client,
                name: name_sent,
                password: password_sent,
                arrived_us,
                answer,
            });
            if !is_queued {
                return self.too_many(client, &name);
            }
            let early_us = match answered.await {
                Ok(Turn::Checked(outcome)) => return outcome,
                Ok(Turn::TooEarly(early_us)) => early_us,
                Err(_) => return Err(LoginError::TooMany),
            };
            let waited_us = world::steady_us().saturating_sub(arrived_us);
            if waited_us.saturating_add(early_us) > ADDRESS_WAIT_MAX_US {
                return self.too_many(client, &name);
            }
            self.pause(early_us).await;
            if let Some(outcome) = self.admit_known(client, &name, &password) {
                return outcome;
            }
        }
    }

    /// Has somebody wait because of failures before them.
    async fn pause(&self, pause_us: u64) {
        if pause_us > 0 {
            self.counts.delayed.fetch_add(1, Ordering::Relaxed);
            self.counts.delay_us.fetch_add(pause_us, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
        }
    }

    /// Queues somebody, and has somebody else check; `false` if too many wait already.
    fn queue(self: &Arc<Self>, ticket: impl FnOnce(u64) -> Ticket) -> bool {
        let starts = {
            let mut state = self.state.lock();
            if state.waiting.len() >= WAITING_MAX {
                return false;
            }
            state.next_number += 1;
            let ticket = ticket(state.next_number);
            state.waiting.push(ticket);
            let starts = state.running < self.running_max;
            state.running += usize::from(starts);
            starts
        };
        if starts {
            let gate = Arc::clone(self);
            tokio::task::spawn_blocking(move || gate.check_all());
        }
        true
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
                let early_us = state.early_us(&ticket, world::steady_us());
                if early_us > 0 {
                    let _ = ticket.answer.send(Turn::TooEarly(early_us));
                    continue;
                }
                state.count_check(ticket.address, true);
                ticket
            };
            let Ticket { name, password, address, client, answer, .. } = ticket;
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let verified = self.keeper.verify(&name, &password);
                if let Some(hash) = &verified {
                    self.remember(&name, &password, hash);
                }
                match verified {
                    Some(_) => self.keeper.admit(&name, &password, client.ip().to_canonical()),
                    None => Err(LoginError::Wrong { name: name.clone() }),
                }
            }));
            let outcome = outcome.unwrap_or_else(|_| Err(LoginError::Wrong { name: name.clone() }));
            {
                let mut state = self.state.lock();
                state.count_check(address, false);
                if outcome.is_err() {
                    state.add_failure(address, role_of(&name), world::steady_us());
                }
            }
            // Here, and not where the answer is awaited: its client may have left.
            self.count(client, &name, &outcome);
            let _ = answer.send(Turn::Checked(outcome));
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

    const NOW_US: u64 = 1_000_000;

    fn ticket(state: &mut State, address: u8, name: &str) -> oneshot::Receiver<Turn> {
        let (answer, answered) = oneshot::channel();
        state.next_number += 1;
        let number = state.next_number;
        let address = IpAddr::from([10, 0, 0, address]);
        let (name, password) = (name.to_owned(), String::new());
        let client = SocketAddr::new(address, 1);
        let arrived_us = NOW_US;
        state.waiting.push(Ticket { number, address, client, name, password, arrived_us, answer });
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
    fn failures_slow_down_who_comes_next_and_are_forgotten() {
        let mut state = State::default();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut now_us = 1_000_000;
        let mut waits = Vec::new();
        for _ in 0..6 {
            let wait_us = state.wait_us(one, 1, now_us).unwrap();
            waits.push(wait_us / 1000);
            now_us += wait_us;
            state.add_failure(one, 1, now_us);
        }
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
        // Another address waits for the role that was guessed at, and no other.
        assert_eq!(state.wait_us(other, 1, now_us), Some(400_000));
        assert_eq!(state.wait_us(other, 2, now_us), Some(0));
        // Many at once come one after the other; those that would wait for long are not checked.
        let queued: Vec<Option<u64>> = (0..100).map(|_| state.wait_us(one, 3, now_us)).collect();
        assert_eq!(queued[..2], [Some(400_000), Some(800_000)]);
        assert_eq!(queued.iter().flatten().count(), 25);
        for _ in 0..1000 {
            state.add_failure(one, 1, now_us);
        }
        assert_eq!(state.wait_us(other, 1, now_us), Some(ROLE_DELAY_MAX_US));
        now_us += FAILURES_KEPT_US;
        assert_eq!(state.wait_us(one, 1, now_us), Some(0));
    }

    #[test]
    fn guesses_that_come_at_once_are_checked_as_slowly_as_one_after_the_other() {
        let mut state = State::default();
        let mut kept: Vec<_> = (0..64).map(|_| ticket(&mut state, 1, "root")).collect();
        let (mut now_us, mut checked_ms) = (NOW_US, Vec::new());
        while now_us <= NOW_US + 2_000_000 {
            let Some(ticket) = state.next() else { break };
            let early_us = state.early_us(&ticket, now_us);
            if early_us > 0 {
                // All wait for the same time; the first that comes again is checked.
                now_us += early_us;
                state.waiting.push(ticket);
                continue;
            }
            checked_ms.push((now_us - NOW_US) / 1000);
            state.count_check(ticket.address, true);
            if let Some(next) = state.next() {
                let is_early = state.early_us(&next, now_us) > 0;
                assert_eq!(is_early, checked_ms.len() > 3, "beside one that is being checked");
                state.waiting.push(next);
            }
            state.count_check(ticket.address, false);
            state.add_failure(ticket.address, role_of("root"), now_us);
        }
        assert_eq!(checked_ms, [0, 0, 0, 100, 300, 600, 1000, 1500]);
        kept.clear();
    }

    #[test]
    fn whoever_has_one_address_of_ipv6_has_many() {
        let address = |text: &str| address_of(text.parse().unwrap());
        assert_eq!(address("2001:db8:1:2::1"), address("2001:db8:1:2:ffff::9"));
        assert_ne!(address("2001:db8:1:2::1"), address("2001:db8:1:3::1"));
        assert_eq!(address("::ffff:10.0.0.1"), IpAddr::from([10, 0, 0, 1]));
        assert_ne!(address("10.0.0.1"), address("10.0.0.2"));
    }

    #[test]
    fn what_is_remembered_of_failures_is_bounded() {
        let mut state = State::default();
        for number in 0..40_000_u32 {
            let address = IpAddr::from(number.to_be_bytes());
            state.add_failure(address, u64::from(number), 1);
        }
        assert!(state.addresses.len() <= ADDRESSES_MAX && state.roles.len() <= ROLES_MAX);
    }
}
