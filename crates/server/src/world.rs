//! The real world: clocks, randomness and the machine. Every other file, and every other crate,
//! takes them as arguments.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// 100-nanosecond steps between the start of the Gregorian calendar, where version 1 uuids count
/// from, and 1970.
const UUID_EPOCH_STEPS: u64 = 0x01B2_1DD2_1381_4000;

/// Memory is not asked for below this; a machine that tells nothing counts as this large.
const MEMORY_BYTES_ASSUMED: u64 = 1 << 30;

/// A point in time for measuring.
#[expect(clippy::disallowed_methods, reason = "this file owns the real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Microseconds since the process first asked; they never go back.
pub(crate) fn steady_us() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    booted_us().saturating_sub(*START.get_or_init(booted_us))
}

/// It goes on while the machine sleeps: a node that slept must not take what it was promised before for what holds now.
fn booted_us() -> u64 {
    let booted = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(booted.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000)
        .saturating_add(u64::try_from(booted.tv_nsec).unwrap_or(0) / 1000)
}

/// Microseconds since 1970, as the node counts them: never behind what it gave before, see [`NodeClock`].
pub(crate) fn now_us() -> i64 {
    CLOCK.now(wall_us(), steady_us)
}

/// The time that the node gives to writes that bring none: microseconds since 1970, later than all before
/// also when the clock goes back. A later write would lose against an earlier one otherwise.
pub(crate) fn write_us() -> i64 {
    CLOCK.next(wall_us(), steady_us)
}

/// The last time that was given to a write.
pub(crate) fn last_write_us() -> i64 {
    CLOCK.last_us.load(Ordering::Relaxed)
}

/// The time that would be given without a ceiling.
pub(crate) fn unbounded_us() -> i64 {
    CLOCK.at(wall_us(), steady_us()).max(last_write_us())
}

/// From now on no time after this is given: the clock may leap ahead, and a restart must know of it.
pub(crate) fn set_ceiling(ceiling_us: i64) {
    CLOCK.set_ceiling(ceiling_us, unbounded_us(), steady_us());
}

/// From now on no time before this is given.
pub(crate) fn go_on_from(given_us: i64) {
    CLOCK.go_on_from(given_us, steady_us());
}

/// By how much the clock of the machine is behind the node's.
pub(crate) fn clock_behind() -> Duration {
    let behind_us = unbounded_us().saturating_sub(wall_us());
    Duration::from_micros(u64::try_from(behind_us).unwrap_or(0))
}

/// Seconds since 1970, as the node counts them.
pub(crate) fn now_s() -> u64 {
    u64::try_from(now_us() / 1_000_000).unwrap_or(0)
}

/// The clock of the machine, right or wrong.
pub(crate) fn machine_us() -> i64 {
    i64::try_from(since_epoch().as_micros()).unwrap_or(i64::MAX)
}

/// What time it is: of a node of a cluster what most nodes say, carried by the steady time, so that a clock which is wrong or set changes nothing.
fn wall_us() -> i64 {
    match CLUSTER_OFFSET_US.load(Ordering::Relaxed) {
        NO_CLUSTER => machine_us(),
        offset_us => offset_us.saturating_add_unsigned(steady_us()),
    }
}

/// What is to be added to the steady time for that of the cluster.
static CLUSTER_OFFSET_US: AtomicI64 = AtomicI64::new(NO_CLUSTER);
const NO_CLUSTER: i64 = i64::MIN;

/// From now on the time is that of the cluster. What this node took for the time before is forgotten: leaders of sets see to it that no
/// time of theirs falls.
pub(crate) fn follow_cluster(offset_us: i64) {
    if CLUSTER_OFFSET_US.swap(offset_us, Ordering::Relaxed) == NO_CLUSTER {
        CLOCK.forget();
    }
}

static CLOCK: NodeClock = NodeClock::new();

/// A clock that never goes back. While the machine's is behind it goes on by itself, a tenth slower, until the
/// machine's has caught up: what expires goes on to expire, and no time is given twice.
struct NodeClock {
    /// The last time that was given to a write.
    last_us: AtomicI64,
    /// What is to be added to the slowed steady time, at least.
    offset_us: AtomicI64,
    /// No time after this is given, but for the steps between one write and the next, and for what passed since it was set.
    ceiling_us: AtomicI64,
    /// The time when the ceiling was set, less the steady time then.
    ceiling_offset_us: AtomicI64,
    /// The machine's clock when it was last found not to be behind; [`NOT_CHECKED`] while it is.
    checked_us: AtomicI64,
}

/// So far the offset may be behind: it is not written for every request. For as long the machine's clock is believed
/// without asking the steady one, which would be half of what a look at the time costs.
const OFFSET_BEHIND_US_MAX: i64 = 1000;
const NOT_CHECKED: i64 = i64::MAX;

impl NodeClock {
    const fn new() -> NodeClock {
        NodeClock {
            last_us: AtomicI64::new(0),
            offset_us: AtomicI64::new(i64::MIN / 2),
            ceiling_us: AtomicI64::new(i64::MAX),
            ceiling_offset_us: AtomicI64::new(i64::MIN / 2),
            checked_us: AtomicI64::new(NOT_CHECKED),
        }
    }

    fn now(&self, wall_us: i64, steady_us: impl FnOnce() -> u64) -> i64 {
        self.below_ceiling(wall_us, steady_us).max(self.last_us.load(Ordering::Relaxed))
    }

    fn next(&self, wall_us: i64, steady_us: impl FnOnce() -> u64) -> i64 {
        let now_us = self.below_ceiling(wall_us, steady_us);
        let later = |last: i64| now_us.max(last.saturating_add(1));
        let last = self
            .last_us
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(later(last)));
        later(last.unwrap_or(0))
    }

    fn below_ceiling(&self, wall_us: i64, steady_us: impl FnOnce() -> u64) -> i64 {
        let passed_us = wall_us.wrapping_sub(self.checked_us.load(Ordering::Relaxed));
        let ceiling_us = self.ceiling_us.load(Ordering::Relaxed);
        if (0..OFFSET_BEHIND_US_MAX).contains(&passed_us) && wall_us <= ceiling_us {
            return wall_us;
        }
        let steady_us = steady_us();
        let now_us = self.at(wall_us, steady_us);
        if now_us <= ceiling_us {
            now_us
        } else {
            self.above_ceiling(now_us, ceiling_us, steady_us)
        }
    }

    /// The ceiling is for clocks that leap. A clock that just went on while the disk was late with the next ceiling is right: a
    /// time that stood still would have later writes lose against earlier ones that brought their own time.
    #[cold]
    fn above_ceiling(&self, now_us: i64, ceiling_us: i64, steady_us: u64) -> i64 {
        let steady_us = i64::try_from(steady_us).unwrap_or(i64::MAX);
        let passed_us = self.ceiling_offset_us.load(Ordering::Relaxed).saturating_add(steady_us);
        now_us.min(ceiling_us.max(passed_us))
    }

    fn set_ceiling(&self, ceiling_us: i64, now_us: i64, steady_us: u64) {
        let steady_us = i64::try_from(steady_us).unwrap_or(i64::MAX);
        self.ceiling_offset_us.store(now_us.saturating_sub(steady_us), Ordering::Relaxed);
        self.ceiling_us.store(ceiling_us, Ordering::Relaxed);
    }

    /// The time as it is, whether it may be given or not.
    #[inline(never)]
    fn at(&self, wall_us: i64, steady_us: u64) -> i64 {
        let slowed_us = slowed(steady_us);
        let offset_us = self.offset_us.load(Ordering::Relaxed);
        let wall_offset_us = wall_us.saturating_sub(slowed_us);
        if wall_offset_us > offset_us.saturating_add(OFFSET_BEHIND_US_MAX) {
            self.offset_us.fetch_max(wall_offset_us, Ordering::Relaxed);
        }
        let is_behind = wall_offset_us < offset_us;
        let checked_us = if is_behind { NOT_CHECKED } else { wall_us };
        self.checked_us.store(checked_us, Ordering::Relaxed);
        wall_us.max(offset_us.saturating_add(slowed_us))
    }

    fn forget(&self) {
        self.last_us.store(0, Ordering::Relaxed);
        self.offset_us.store(i64::MIN / 2, Ordering::Relaxed);
        self.ceiling_us.store(i64::MAX, Ordering::Relaxed);
        self.checked_us.store(NOT_CHECKED, Ordering::Relaxed);
    }

    fn go_on_from(&self, given_us: i64, steady_us: u64) {
        self.last_us.fetch_max(given_us, Ordering::Relaxed);
        let offset_us = given_us.saturating_sub(slowed(steady_us));
        self.offset_us.fetch_max(offset_us, Ordering::Relaxed);
        self.checked_us.store(NOT_CHECKED, Ordering::Relaxed);
    }
}

/// Nine tenths of it.
fn slowed(steady_us: u64) -> i64 {
    i64::try_from(steady_us - steady_us / 10).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "this file owns the real clock")]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Bytes that nobody can guess.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Makes uuids; one per node, because it promises never to make the same one twice.
pub(crate) struct Uuids {
    /// The last eight bytes of every time uuid: clock sequence and node, drawn at start.
    node: [u8; 8],
    last_steps: Mutex<u64>,
    /// The state of a generator for version 4 uuids, seeded at start. They must be unique, not
    /// secret: nothing that protects anything is made from them.
    random: Mutex<[u64; 2]>,
}

impl Uuids {
    pub(crate) fn new() -> Result<Uuids, getrandom::Error> {
        let mut node: [u8; 8] = random_bytes()?;
        // The variant of the clock sequence, and the bit that says "not a network card".
        node[0] = (node[0] & 0x3f) | 0x80;
        node[2] |= 0x01;
        let seed: [u8; 16] = random_bytes()?;
        let seed = u128::from_be_bytes(seed) | 1;
        let random = Mutex::new([(seed >> 64) as u64, seed as u64]);
        Ok(Uuids { node, last_steps: Mutex::new(0), random })
    }

    /// A version 1 uuid, later than all before.
    pub(crate) fn time_uuid(&self) -> [u8; 16] {
        let now_steps = u64::try_from(now_us()).unwrap_or_default().saturating_mul(10);
        let steps = {
            let mut last = self.last_steps.lock();
            *last = now_steps.max(last.saturating_add(1));
            *last
        };
        let time = steps.saturating_add(UUID_EPOCH_STEPS);
        let bits = (u128::from(time as u32) << 96)
            | (u128::from((time >> 32) as u16) << 80)
            | (u128::from(((time >> 48) as u16 & 0x0fff) | 0x1000) << 64)
            | u128::from(u64::from_be_bytes(self.node));
        bits.to_be_bytes()
    }

    /// A version 4 uuid.
    pub(crate) fn random_uuid(&self) -> [u8; 16] {
        let (high, low) = {
            let mut state = self.random.lock();
            (next_random(&mut state), next_random(&mut state))
        };
        let bits = (u128::from(high) << 64) | u128::from(low);
        let bits = (bits & !(0xf << 76)) | (0x4 << 76);
        let bits = (bits & !(0x3 << 62)) | (0x2 << 62);
        bits.to_be_bytes()
    }
}

/// xoroshiro128+: 64 random bits.
fn next_random(state: &mut [u64; 2]) -> u64 {
    let [first, mut second] = *state;
    let result = first.wrapping_add(second);
    second ^= first;
    *state = [first.rotate_left(24) ^ second ^ (second << 16), second.rotate_left(37)];
    result
}

/// What the machine is called, if it says so.
pub(crate) fn host_name() -> Option<String> {
    let names = rustix::system::uname();
    let name = names.nodename().to_str().ok()?.trim();
    (!name.is_empty() && name != "(none)").then(|| name.to_owned())
}

/// The address that this machine has for others: the one it would send from. Nothing is sent to find out.
pub(crate) fn outward_address() -> Option<IpAddr> {
    // Of the networks kept for documentation: no host is there, only the way to it is asked for.
    let asked = [
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
        (
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        ),
    ];
    asked.into_iter().find_map(|(own, other)| {
        let socket = UdpSocket::bind((own, 0)).ok()?;
        socket.connect((other, 9)).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_loopback() && !address.is_unspecified()).then_some(address)
    })
}

/// Cores this process may use.
pub(crate) fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory this process may use: the machine's, or the limit of its control group.
pub(crate) fn memory_bytes() -> u64 {
    let machine = machine_memory_bytes().unwrap_or(MEMORY_BYTES_ASSUMED);
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    group.map_or(machine, |limit| limit.min(machine))
}

#[cfg(target_os = "linux")]
fn machine_memory_bytes() -> Option<u64> {
    let system = rustix::system::sysinfo();
    u64::from(system.mem_unit).checked_mul(system.totalram)
}

#[cfg(not(target_os = "linux"))]
fn machine_memory_bytes() -> Option<u64> {
    None
}

/// From now on files and folders that the process makes are for its user alone.
pub(crate) fn keep_files_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Raises the limit of open descriptors as far as the system lets us; returns the new limit.
pub(crate) fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            before.unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_time_of_writes_never_goes_back_and_never_repeats() {
        let clock = NodeClock::new();
        let given = [100, 100, 200, 50, 50, 202, 300].map(|now_us| clock.next(now_us, || 0));
        assert_eq!(given, [100, 101, 200, 201, 202, 203, 300]);
    }

    #[test]
    fn a_clock_that_is_set_back_is_waited_for_and_time_goes_on() {
        const SECOND: i64 = 1_000_000;
        let clock = NodeClock::new();
        let mut wall = 1_000 * SECOND;
        let mut steady = 0;
        let mut last = 0;
        let mut ask = |wall_us: i64, steady_us: u64| {
            let now = clock.now(wall_us, || steady_us);
            assert!(now >= last, "{now} < {last}");
            last = clock.next(wall_us, || steady_us);
            now
        };
        assert_eq!(ask(wall, steady), 1_000 * SECOND);
        // An hour back: ten seconds of it take nine.
        wall -= 3600 * SECOND;
        let mut pass = |seconds: u64| {
            steady += seconds * 1_000_000;
            wall += seconds as i64 * SECOND;
            (wall, steady)
        };
        let (wall_us, steady_us) = pass(10);
        let now = ask(wall_us, steady_us);
        assert!((1_009 * SECOND - 1000..=1_009 * SECOND + 10).contains(&now), "{now}");
        // After ten hours it has caught up.
        let (wall_us, steady_us) = pass(36_000);
        assert_eq!(ask(wall_us, steady_us), wall_us);
    }

    #[test]
    fn a_clock_that_leaps_ahead_stands_at_its_ceiling() {
        let clock = NodeClock::new();
        clock.ceiling_us.store(2_000, Ordering::Relaxed);
        let given = [1_000, 3_000, 9_000, 1_500].map(|now_us| clock.next(now_us, || 0));
        assert_eq!(given, [1_000, 2_000, 2_001, 2_002]);
        clock.ceiling_us.store(20_000, Ordering::Relaxed);
        assert_eq!(clock.next(9_500, || 0), 9_500);
    }

    #[test]
    fn a_disk_that_is_late_with_the_ceiling_does_not_stop_the_time() {
        let clock = NodeClock::new();
        clock.set_ceiling(1_500, 1_000, 100);
        // 900 microseconds passed, by both clocks; then the machine's leaps.
        assert_eq!(clock.next(1_400, || 500), 1_400);
        assert_eq!(clock.next(1_900, || 1_000), 1_900);
        assert_eq!(clock.next(9_000, || 1_100), 2_000);
    }

    #[test]
    fn a_clock_goes_on_from_what_was_given_before() {
        let clock = NodeClock::new();
        clock.go_on_from(5_000_000, 1_000_000);
        assert_eq!(clock.now(1_000_000, || 1_000_000), 5_000_000);
        assert_eq!(clock.next(1_000_000, || 1_000_000), 5_000_001);
        assert_eq!(clock.now(2_000_000, || 2_000_000), 5_900_000);
        assert_eq!(clock.now(9_000_000, || 3_000_000), 9_000_000);
    }

    #[test]
    fn uuids_have_their_version_and_never_repeat() {
        let uuids = Uuids::new().unwrap();
        let mut seen = HashSet::new();
        let mut last_time = 0;
        for _ in 0..10_000 {
            let time = uuids.time_uuid();
            assert_eq!((time[6] >> 4, time[8] >> 6), (1, 2));
            let bits = u128::from_be_bytes(time);
            let steps = ((bits >> 64) & 0x0fff) << 48 | ((bits >> 80) & 0xffff) << 32 | bits >> 96;
            assert!(steps > last_time);
            last_time = steps;
            let random = uuids.random_uuid();
            assert_eq!((random[6] >> 4, random[8] >> 6), (4, 2));
            assert!(seen.insert(time) && seen.insert(random));
        }
    }
}
