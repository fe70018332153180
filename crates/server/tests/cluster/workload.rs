//! Clients on all nodes that write, compare and set, count, append and read at QUORUM, and remember what they were told.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::{Consistency, ErrorKind, ErrorResponse};
use testkit::history::{
    Counter, CounterInput, CounterOutput, ListInput, ListOutput, Operation, Register,
    RegisterInput, RegisterOutput, Verdict, appended_once, by_key, check, counter_bounds,
};
use testkit::{Client, Cluster, Execution, eventually};

use crate::support::{
    Chance, Row, SOON, ask, create_keyspace, get_in_the_end, int, ints, long, tell,
};

const REGISTERS: u64 = 5;
const COUNTERS: u64 = 2;
const LISTS: u64 = 4;
pub(crate) const CLIENTS_PER_NODE: usize = 2;
/// What a client asks for before it stops by itself: enough for every fault, and no more than can be judged.
const OPERATIONS_MAX: i32 = 4_000;
/// A node that does not answer is given up after this, and what was asked of it is open.
const PATIENCE: Duration = Duration::from_secs(15);
/// Clients that have asked much ask more slowly, so that they last as long as what is done to the nodes.
const BUSY_OPERATIONS: i32 = 1_000;
const PAUSES: Duration = Duration::from_millis(20);
/// A node that is not there is looked for so often.
const LOOKS_AGAIN: Duration = Duration::from_millis(20);

type RegisterOperation = Operation<RegisterInput<i32>, RegisterOutput<i32>>;
type CounterOperation = Operation<CounterInput, CounterOutput>;
type ListOperation = Operation<ListInput<i32>, ListOutput<i32>>;

/// What clients were told.
#[derive(Default)]
pub(crate) struct Seen {
    registers: Vec<(u64, RegisterOperation)>,
    counters: Vec<(u64, CounterOperation)>,
    lists: Vec<(u64, ListOperation)>,
    /// Rows of their own that were acknowledged, and that may not be there.
    rows: BTreeSet<i32>,
    refused: BTreeSet<i32>,
    open: usize,
}

/// The tables, and every register with a value.
pub(crate) fn define(cluster: &Cluster) {
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "w");
    tell(&mut client, "CREATE TABLE w.registers (k int PRIMARY KEY, v int)");
    tell(&mut client, "CREATE TABLE w.counters (k int PRIMARY KEY, n counter)");
    tell(&mut client, "CREATE TABLE w.lists (k int PRIMARY KEY, l list<int>)");
    tell(&mut client, "CREATE TABLE w.rows (k int PRIMARY KEY)");
    for key in 0..REGISTERS {
        tell(&mut client, &format!("INSERT INTO w.registers (k, v) VALUES ({key}, 0)"));
    }
}

/// How far the clients of each node are.
pub(crate) struct Progress {
    answered: Vec<AtomicU64>,
    is_done: AtomicBool,
    begun: Instant,
}

impl Progress {
    pub(crate) fn new(cluster: &Cluster) -> Progress {
        let answered = (0..cluster.count()).map(|_| AtomicU64::new(0)).collect();
        Progress { answered, is_done: AtomicBool::new(false), begun: Instant::now() }
    }

    /// Waits until the clients of these nodes got so many answers more.
    pub(crate) fn wait(&self, nodes: impl IntoIterator<Item = usize>, more: u64) {
        let wanted: Vec<(usize, u64)> = nodes
            .into_iter()
            .map(|node| (node, self.answered[node - 1].load(Ordering::SeqCst) + more))
            .collect();
        let is_there =
            |(node, count): &(usize, u64)| self.answered[node - 1].load(Ordering::SeqCst) >= *count;
        let look = || wanted.iter().all(is_there).then_some(());
        eventually(&format!("{more} answers more for clients of {wanted:?}"), SOON, look).unwrap();
    }

    pub(crate) fn end(&self) {
        self.is_done.store(true, Ordering::SeqCst);
    }
}

/// Runs clients on all nodes while something is done to the nodes, and hands over what they were told.
pub(crate) fn run(
    cluster: &mut Cluster,
    seed: u64,
    harm: impl FnOnce(&mut Cluster, &Progress),
) -> Seen {
    let progress = Progress::new(cluster);
    let addresses: Vec<String> =
        (1..=cluster.count()).map(|node| cluster.address(node).to_owned()).collect();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for number in 0..addresses.len() * CLIENTS_PER_NODE {
            let (place, progress) = (number % addresses.len(), &progress);
            let address = addresses[place].as_str();
            running.push(scope.spawn(move || {
                let mut user = User {
                    number: u32::try_from(number).unwrap(),
                    address,
                    progress,
                    answered: &progress.answered[place],
                    chance: Chance::new(seed.wrapping_add(number as u64 * 7919)),
                    client: None,
                    last_read: [0; REGISTERS as usize],
                    seen: Seen::default(),
                };
                user.run();
                user.seen
            }));
        }
        // Clients must end though the test does not go on.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            harm(cluster, &progress);
        }));
        progress.end();
        let mut all = Seen::default();
        for seen in running {
            all.add(seen.join().unwrap());
        }
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
        all.read_everything(cluster, &progress);
        all
    })
}

struct User<'a> {
    number: u32,
    address: &'a str,
    progress: &'a Progress,
    answered: &'a AtomicU64,
    chance: Chance,
    client: Option<Client>,
    last_read: [i32; REGISTERS as usize],
    seen: Seen,
}

/// What became of a request.
enum Told {
    Rows(Vec<Row>),
    /// Nothing was done.
    Refused,
    Unknown,
}

impl User<'_> {
    fn now(&self) -> u64 {
        u64::try_from(self.progress.begun.elapsed().as_nanos()).unwrap()
    }

    fn run(&mut self) {
        let first = i32::try_from(self.number + 1).unwrap() * 1_000_000;
        for value in first..first + OPERATIONS_MAX {
            while self.client.is_none() {
                if self.progress.is_done.load(Ordering::SeqCst) {
                    return;
                }
                self.connect();
            }
            if self.progress.is_done.load(Ordering::SeqCst) {
                return;
            }
            // None at first, then 20 ms, 40 ms and 60 ms.
            let steps = (value - first) / BUSY_OPERATIONS;
            std::thread::sleep(PAUSES * u32::try_from(steps).unwrap());
            match self.chance.below(20) {
                0..4 => self.write(value),
                4..8 => self.compare_and_set(value),
                8..13 => self.read(),
                13 => self.read_counter(),
                14..16 => self.add(),
                16..18 => self.append(value),
                _ => self.insert(value),
            }
        }
    }

    fn connect(&mut self) {
        match Client::connect(self.address) {
            Ok(mut client) => {
                client.set_patience(PATIENCE).unwrap();
                self.client = Some(client);
            }
            Err(_) => std::thread::sleep(LOOKS_AGAIN),
        }
    }

    fn ask(&mut self, text: &str) -> Told {
        let Some(client) = &mut self.client else { return Told::Refused };
        let execution = Execution::at(Consistency::Quorum);
        match ask(client, text, &execution) {
            Ok(Ok(rows)) => {
                self.answered.fetch_add(1, Ordering::SeqCst);
                Told::Rows(rows)
            }
            Ok(Err(error)) => {
                // As a policy for retries would, and so that what is refused at once does not use up all there is to do.
                std::thread::sleep(LOOKS_AGAIN);
                match has_no_effect(&error) {
                    true => Told::Refused,
                    false => Told::Unknown,
                }
            }
            Err(_) => {
                self.client = None;
                Told::Unknown
            }
        }
    }

    fn operation<I, O>(
        &mut self,
        (call_at, input): (u64, I),
        told: Told,
        refused: O,
        output: impl FnOnce(Vec<Row>) -> O,
    ) -> Operation<I, O> {
        let output = match told {
            Told::Rows(rows) => output(rows),
            Told::Refused => refused,
            Told::Unknown => {
                self.seen.open += 1;
                return Operation::open(self.number, call_at, input);
            }
        };
        Operation::answered(self.number, call_at, self.now(), input, output)
    }

    fn write(&mut self, value: i32) {
        let (key, call_at) = (self.chance.below(REGISTERS), self.now());
        let told = self.ask(&format!("INSERT INTO w.registers (k, v) VALUES ({key}, {value})"));
        let asked = (call_at, RegisterInput::Write(Some(value)));
        let done =
            self.operation(asked, told, RegisterOutput::Refused, |_| RegisterOutput::Written);
        self.seen.registers.push((key, done));
    }

    fn compare_and_set(&mut self, value: i32) {
        let (key, call_at) = (self.chance.below(REGISTERS), self.now());
        let expected = self.last_read[key as usize];
        let text = format!("UPDATE w.registers SET v = {value} WHERE k = {key} IF v = {expected}");
        let told = self.ask(&text);
        let input = RegisterInput::CompareAndSet { expected: Some(expected), new: Some(value) };
        let output = |rows: Vec<Row>| match rows[0][0].as_deref() {
            Some([1]) => RegisterOutput::Applied,
            _ => RegisterOutput::NotApplied { current: Some(int(&rows[0], 1)) },
        };
        let done = self.operation((call_at, input), told, RegisterOutput::Refused, output);
        match &done.output {
            Some(RegisterOutput::Applied) => self.last_read[key as usize] = value,
            Some(RegisterOutput::NotApplied { current: Some(current) }) => {
                self.last_read[key as usize] = *current;
            }
            _ => {}
        }
        self.seen.registers.push((key, done));
    }

    fn read(&mut self) {
        let (key, call_at) = (self.chance.below(REGISTERS), self.now());
        let told = self.ask(&format!("SELECT v FROM w.registers WHERE k = {key}"));
        let Told::Rows(rows) = told else { return };
        let value = rows.first().map(|row| int(row, 0));
        self.last_read[key as usize] = value.unwrap_or(0);
        let (input, output) = (RegisterInput::Read, RegisterOutput::Value(value));
        let done = Operation::answered(self.number, call_at, self.now(), input, output);
        self.seen.registers.push((key, done));
    }

    fn add(&mut self) {
        let (key, call_at) = (self.chance.below(COUNTERS), self.now());
        let amount = self.chance.below(5) as i64 + 1;
        let told = self.ask(&format!("UPDATE w.counters SET n = n + {amount} WHERE k = {key}"));
        let asked = (call_at, CounterInput::Add(amount));
        let done = self.operation(asked, told, CounterOutput::Refused, |_| CounterOutput::Added);
        self.seen.counters.push((key, done));
    }

    fn read_counter(&mut self) {
        let (key, call_at) = (self.chance.below(COUNTERS), self.now());
        let told = self.ask(&format!("SELECT n FROM w.counters WHERE k = {key}"));
        let Told::Rows(rows) = told else { return };
        let output = CounterOutput::Value(rows.first().map_or(0, |row| long(row, 0)));
        let done =
            Operation::answered(self.number, call_at, self.now(), CounterInput::Read, output);
        self.seen.counters.push((key, done));
    }

    fn append(&mut self, value: i32) {
        let (key, call_at) = (self.chance.below(LISTS), self.now());
        let told = self.ask(&format!("UPDATE w.lists SET l = l + [{value}] WHERE k = {key}"));
        let asked = (call_at, ListInput::Append(value));
        let done = self.operation(asked, told, ListOutput::Refused, |_| ListOutput::Appended);
        self.seen.lists.push((key, done));
    }

    fn insert(&mut self, value: i32) {
        match self.ask(&format!("INSERT INTO w.rows (k) VALUES ({value})")) {
            Told::Rows(_) => _ = self.seen.rows.insert(value),
            Told::Refused => _ = self.seen.refused.insert(value),
            Told::Unknown => self.seen.open += 1,
        }
    }
}

/// Whether an error says that nothing was done.
fn has_no_effect(error: &ErrorResponse) -> bool {
    match &error.kind {
        ErrorKind::Unavailable { .. } | ErrorKind::Overloaded => true,
        ErrorKind::WriteTimeout { .. }
        | ErrorKind::ReadTimeout { .. }
        | ErrorKind::WriteFailure { .. } => false,
        _ => panic!("{} (0x{:04x})", error.message, error.kind.code()),
    }
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.registers.extend(other.registers);
        self.counters.extend(other.counters);
        self.lists.extend(other.lists);
        self.rows.extend(other.rows);
        self.refused.extend(other.refused);
        self.open += other.open;
    }

    /// Reads everything from every node when all is over, and judges rows and lists.
    fn read_everything(&mut self, cluster: &Cluster, progress: &Progress) {
        let now = || u64::try_from(progress.begun.elapsed().as_nanos()).unwrap();
        let lists = by_key(self.lists.clone());
        for node in (1..=cluster.count()).filter(|node| cluster.runs(*node)) {
            let mut client = cluster.client(node).unwrap();
            let number = 1_000 + node as u32;
            for key in 0..REGISTERS {
                let call_at = now();
                let rows = get_in_the_end(
                    &mut client,
                    &format!("SELECT v FROM w.registers WHERE k = {key}"),
                );
                let output = RegisterOutput::Value(rows.first().map(|row| int(row, 0)));
                let input = RegisterInput::Read;
                let read = Operation::answered(number, call_at, now(), input, output);
                self.registers.push((key, read));
            }
            for key in 0..COUNTERS {
                let call_at = now();
                let rows = get_in_the_end(
                    &mut client,
                    &format!("SELECT n FROM w.counters WHERE k = {key}"),
                );
                let output = CounterOutput::Value(rows.first().map_or(0, |row| long(row, 0)));
                let input = CounterInput::Read;
                let read = Operation::answered(number, call_at, now(), input, output);
                self.counters.push((key, read));
            }
            for key in 0..LISTS {
                let rows =
                    get_in_the_end(&mut client, &format!("SELECT l FROM w.lists WHERE k = {key}"));
                let list = rows.first().map_or(Vec::new(), |row| ints(row, 0));
                let history = lists.get(&key).map_or(&[][..], Vec::as_slice);
                if let Err(flaws) = appended_once(history, &list) {
                    panic!("list {key} on node {node}: {flaws:?}");
                }
            }
            let rows = get_in_the_end(&mut client, "SELECT k FROM w.rows");
            let there: BTreeSet<i32> = rows.iter().map(|row| int(row, 0)).collect();
            let lost: Vec<&i32> = self.rows.difference(&there).collect();
            assert!(lost.is_empty(), "node {node}: acknowledged and not there: {lost:?}");
            let undead: Vec<&i32> = self.refused.intersection(&there).collect();
            assert!(undead.is_empty(), "node {node}: refused and there: {undead:?}");
        }
    }

    /// Requests that failed, or of which it is not known.
    pub(crate) fn failures(&self) -> usize {
        self.open + self.refused.len()
    }

    /// Judges registers and counters.
    pub(crate) fn judge(self) {
        let (operations, open) = (self.registers.len(), self.open);
        for (key, history) in by_key(self.registers) {
            match check(&Register { initial: Some(0) }, &history) {
                Verdict::Linearizable => {}
                verdict => panic!("register {key}: {verdict}"),
            }
        }
        for (key, history) in by_key(self.counters) {
            if let Err(flaw) = counter_bounds(&history) {
                panic!("counter {key}: {flaw}");
            }
            let is_answered = |it: &CounterOperation| it.return_at.is_some();
            let sum = |it: &CounterOperation| match (it.input, &it.output) {
                (CounterInput::Add(amount), Some(CounterOutput::Added)) => amount,
                _ => 0,
            };
            // Where every answer is known the last read is the sum of what was acknowledged; where few are not, some order explains all.
            if history.iter().all(is_answered) {
                let last = history.last().and_then(|it| it.output);
                let total = history.iter().map(sum).sum();
                assert_eq!(last, Some(CounterOutput::Value(total)), "counter {key}");
            }
            match check(&Counter, &history) {
                Verdict::NotLinearizable(failure) => panic!("counter {key}: {}", failure.story),
                Verdict::Linearizable | Verdict::Undecided { .. } => {}
            }
        }
        println!("{operations} operations on registers, {} rows, {open} open", self.rows.len());
        assert!(operations > 100 && !self.rows.is_empty(), "too little was done to prove anything");
    }
}
