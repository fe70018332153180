//! What clients ask for, and what they remember of the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::Consistency;

use super::caller::{Caller, Told};
use super::ground::{Call, Ground};
use super::timed::{ExpiryLook, Rung};
use crate::Execution;
use crate::differential::random::Dice;
use crate::history::{
    CounterInput, CounterOutput, ListInput, ListOutput, Operation, RegisterInput, RegisterOutput,
};

pub(crate) type RegisterOperation = Operation<RegisterInput<i32>, RegisterOutput<i32>>;
pub(crate) type CounterOperation = Operation<CounterInput, CounterOutput>;
pub(crate) type ListOperation = Operation<ListInput<i32>, ListOutput<i32>>;

/// Registers at a time; after a while others take their place, so that each has a history that can be judged.
const REGISTERS: usize = 6;
const REGISTER_MS: u64 = 2_000;
pub(crate) const COUNTERS: usize = 3;
pub(super) const LISTS: usize = 4;
pub(super) const LIST_MS: u64 = 10_000;
/// What rows are found by with the index.
pub(crate) const GROUPS: i32 = 5;
pub(crate) const ACCOUNTS: i32 = 5;
pub(crate) const ACCOUNT_BEGINS_WITH: i32 = 100;
/// Rows that are there all the time, for scans.
pub(crate) const SCANNED: i32 = 300;
const PAGE_ROWS: i32 = 17;
/// A client asks no more often than this, give or take a half: more could not be judged.
const BETWEEN_MS: usize = 8;
/// A TRUNCATE of which it is not known may still come for so long.
const TRUNCATE_MS: u64 = 30_000;
/// Clients of each kind; those who do one thing each come last.
const MIXED: u32 = 8;
const BANKERS: u32 = 2;
const WATCHERS: u32 = 2;
const LONE: u32 = MIXED + BANKERS + WATCHERS;
pub(crate) const CLIENTS: u32 = LONE + 5;

/// Everything is in one keyspace.
pub(crate) const TABLES: [&str; 12] = [
    "CREATE TABLE chaos.registers (k int PRIMARY KEY, v int)",
    "CREATE TABLE chaos.counters (k int PRIMARY KEY, n counter)",
    "CREATE TABLE chaos.lists (k int PRIMARY KEY, l list<int>)",
    "CREATE TABLE chaos.rows (k int PRIMARY KEY, g int)",
    "CREATE TABLE chaos.batch_r (k int PRIMARY KEY)",
    "CREATE TABLE chaos.batch_s (k int PRIMARY KEY)",
    "CREATE TABLE chaos.bank (p int, a int, v int, PRIMARY KEY (p, a))",
    "CREATE TABLE chaos.scanned (k int PRIMARY KEY, v int)",
    "CREATE TABLE chaos.emptied (k int PRIMARY KEY)",
    "CREATE TABLE chaos.widened (k int PRIMARY KEY)",
    "CREATE TABLE chaos.expiring (k int PRIMARY KEY, v int)",
    "CREATE TABLE chaos.ladder (k int PRIMARY KEY, v int)",
];

/// What all clients were told.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) registers: Vec<(u64, RegisterOperation)>,
    pub(crate) counters: Vec<(u64, CounterOperation)>,
    pub(crate) lists: Vec<(u64, ListOperation)>,
    /// Rows of their own with what they are found by; those that were refused; those of which it is not known.
    pub(crate) rows: BTreeMap<i32, i32>,
    pub(crate) refused_rows: BTreeSet<i32>,
    pub(crate) batches: BTreeSet<i32>,
    pub(crate) refused_batches: BTreeSet<i32>,
    /// What the accounts held, each time that they were read.
    pub(crate) banks: Vec<(u64, Vec<i32>)>,
    /// The keys that each whole scan found.
    pub(crate) scans: Vec<(u64, Vec<i32>)>,
    /// Of the table that is emptied: what was there behind an emptying, and what had to be, and might be.
    pub(crate) emptied: Vec<Emptied>,
    pub(crate) columns: BTreeSet<String>,
    pub(crate) expiries: Vec<ExpiryLook>,
    pub(crate) rungs: Vec<Rung>,
    pub(crate) strange: Vec<(u64, String)>,
    pub(crate) calls: Vec<Call>,
}

/// A look at the table that is emptied now and then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Emptied {
    pub(crate) at_ms: u64,
    pub(crate) must: BTreeSet<i32>,
    pub(crate) may: BTreeSet<i32>,
    pub(crate) found: BTreeSet<i32>,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Seen) {
        self.registers.extend(other.registers);
        self.counters.extend(other.counters);
        self.lists.extend(other.lists);
        self.rows.extend(other.rows);
        self.refused_rows.extend(other.refused_rows);
        self.batches.extend(other.batches);
        self.refused_batches.extend(other.refused_batches);
        self.banks.extend(other.banks);
        self.scans.extend(other.scans);
        self.emptied.extend(other.emptied);
        self.columns.extend(other.columns);
        self.expiries.extend(other.expiries);
        self.rungs.extend(other.rungs);
        self.strange.extend(other.strange);
        self.calls.extend(other.calls);
    }
}

/// Runs the client of a number until all is over.
pub(crate) fn run(number: u32, seed: u64, ground: &Ground) -> Seen {
    let mut user = User {
        caller: Caller::new(number, ground),
        dice: Dice::new(seed.wrapping_add(u64::from(number) * 7919)),
        last_read: BTreeMap::new(),
        seen: Seen::default(),
    };
    match number {
        0..MIXED => user.mix(),
        _ if number < MIXED + BANKERS => user.transfer(),
        _ if number < LONE => user.watch_climbing(),
        _ => match number - LONE {
            0 => user.scan(),
            1 => user.empty(),
            2 => user.expire(),
            3 => user.climb(),
            // The last one: see `heal`.
            _ => user.widen(),
        },
    }
    let User { caller, mut seen, .. } = user;
    seen.calls = caller.calls;
    seen.strange = caller.strange;
    seen
}

pub(super) struct User<'a> {
    pub(super) caller: Caller<'a>,
    pub(super) dice: Dice,
    last_read: BTreeMap<u64, Option<i32>>,
    pub(super) seen: Seen,
}

impl User<'_> {
    pub(super) fn now(&self) -> u64 {
        self.caller.ground.now_ns()
    }

    pub(super) fn rest(&mut self) {
        let ms = self.dice.between(BETWEEN_MS / 2, BETWEEN_MS * 3 / 2);
        std::thread::sleep(Duration::from_millis(ms as u64));
    }

    /// One of several keys that others take the place of after a while.
    pub(super) fn key(&mut self, count: usize, lasts_ms: u64) -> u64 {
        let slot = self.dice.below(count) as u64;
        slot + count as u64 * (self.caller.ground.now_ms() / lasts_ms)
    }

    /// Values that nobody else writes.
    pub(super) fn values(&self) -> std::ops::Range<i32> {
        let first = (self.caller.number as i32 + 1) * 10_000_000;
        first..first + 9_999_999
    }

    fn mix(&mut self) {
        for value in self.values() {
            if !self.caller.connect() {
                return;
            }
            match self.dice.below(26) {
                0..4 => self.write(value),
                4..9 => self.compare_and_set(value),
                9..14 => self.read(),
                14 => self.read_counter(),
                15..17 => self.add(),
                17..19 => self.append(value),
                19..21 => self.read_list(),
                21..24 => self.insert(value),
                _ => self.batch(value),
            }
            self.rest();
        }
    }

    fn operation<I, O>(
        &self,
        call_at: u64,
        input: I,
        told: Told,
        refused: O,
        output: impl FnOnce(super::caller::Table) -> O,
    ) -> Operation<I, O> {
        let number = self.caller.number;
        match told {
            Told::Rows(rows) => {
                Operation::answered(number, call_at, self.now(), input, output(rows))
            }
            Told::Refused => Operation::answered(number, call_at, self.now(), input, refused),
            Told::Unknown => Operation::open(number, call_at, input),
        }
    }

    fn write(&mut self, value: i32) {
        let (key, call_at) = (self.key(REGISTERS, REGISTER_MS), self.now());
        let text = format!("INSERT INTO chaos.registers (k, v) VALUES ({key}, {value})");
        let told = self.caller.ask("write", &text);
        let input = RegisterInput::Write(Some(value));
        let done = self
            .operation(call_at, input, told, RegisterOutput::Refused, |_| RegisterOutput::Written);
        self.seen.registers.push((key, done));
    }

    fn compare_and_set(&mut self, value: i32) {
        let (key, call_at) = (self.key(REGISTERS, REGISTER_MS), self.now());
        let expected = self.last_read.get(&key).copied().flatten();
        let text = match expected {
            Some(old) => {
                format!("UPDATE chaos.registers SET v = {value} WHERE k = {key} IF v = {old}")
            }
            None => {
                format!("INSERT INTO chaos.registers (k, v) VALUES ({key}, {value}) IF NOT EXISTS")
            }
        };
        let told = self.caller.ask("compare and set", &text);
        let input = RegisterInput::CompareAndSet { expected, new: Some(value) };
        let done = self.operation(call_at, input, told, RegisterOutput::Refused, |rows| match rows
            .is_applied()
        {
            true => RegisterOutput::Applied,
            false => RegisterOutput::NotApplied { current: rows.int(0, "v") },
        });
        match &done.output {
            Some(RegisterOutput::Applied) => _ = self.last_read.insert(key, Some(value)),
            Some(RegisterOutput::NotApplied { current }) => {
                self.last_read.insert(key, *current);
            }
            _ => {}
        }
        self.seen.registers.push((key, done));
    }

    fn read(&mut self) {
        let (key, call_at) = (self.key(REGISTERS, REGISTER_MS), self.now());
        // A read at SERIAL is no weaker than one at QUORUM, and no stronger.
        let level = if self.dice.chance(30) { Consistency::Serial } else { Consistency::Quorum };
        let text = format!("SELECT v FROM chaos.registers WHERE k = {key}");
        let told = self.caller.ask_with("read", &text, &Execution::at(level));
        let Told::Rows(rows) = told else { return };
        let value = rows.int(0, "v");
        self.last_read.insert(key, value);
        let (input, output) = (RegisterInput::Read, RegisterOutput::Value(value));
        let done = Operation::answered(self.caller.number, call_at, self.now(), input, output);
        self.seen.registers.push((key, done));
    }

    fn add(&mut self) {
        let (key, call_at) = (self.dice.below(COUNTERS), self.now());
        let amount = self.dice.between(1, 5) as i64;
        let text = format!("UPDATE chaos.counters SET n = n + {amount} WHERE k = {key}");
        let told = self.caller.ask("add", &text);
        let input = CounterInput::Add(amount);
        let done =
            self.operation(call_at, input, told, CounterOutput::Refused, |_| CounterOutput::Added);
        self.seen.counters.push((key as u64, done));
    }

    fn read_counter(&mut self) {
        let (key, call_at) = (self.dice.below(COUNTERS), self.now());
        let text = format!("SELECT n FROM chaos.counters WHERE k = {key}");
        let Told::Rows(rows) = self.caller.ask("read counter", &text) else { return };
        let output = CounterOutput::Value(rows.long(0, "n").unwrap_or(0));
        let number = self.caller.number;
        let done = Operation::answered(number, call_at, self.now(), CounterInput::Read, output);
        self.seen.counters.push((key as u64, done));
    }

    fn append(&mut self, value: i32) {
        let (key, call_at) = (self.key(LISTS, LIST_MS), self.now());
        let text = format!("UPDATE chaos.lists SET l = l + [{value}] WHERE k = {key}");
        let told = self.caller.ask("append", &text);
        let input = ListInput::Append(value);
        let done =
            self.operation(call_at, input, told, ListOutput::Refused, |_| ListOutput::Appended);
        self.seen.lists.push((key, done));
    }

    fn insert(&mut self, value: i32) {
        let group = value % GROUPS;
        let text = format!("INSERT INTO chaos.rows (k, g) VALUES ({value}, {group})");
        match self.caller.ask("insert", &text) {
            Told::Rows(_) => _ = self.seen.rows.insert(value, group),
            Told::Refused => _ = self.seen.refused_rows.insert(value),
            Told::Unknown => {}
        }
    }

    /// Four rows in two tables, that lie anywhere.
    fn batch(&mut self, value: i32) {
        let other = -value;
        let text = format!(
            "BEGIN BATCH INSERT INTO chaos.batch_r (k) VALUES ({value}); INSERT INTO chaos.batch_s (k) VALUES ({value}); \
             INSERT INTO chaos.batch_r (k) VALUES ({other}); INSERT INTO chaos.batch_s (k) VALUES ({other}); APPLY BATCH"
        );
        match self.caller.ask("batch", &text) {
            Told::Rows(_) => _ = self.seen.batches.insert(value),
            Told::Refused => _ = self.seen.refused_batches.insert(value),
            Told::Unknown => {}
        }
    }

    /// From one account to another, if both hold what they held.
    fn transfer(&mut self) {
        while self.caller.connect() {
            let at_ms = self.caller.ground.now_ms();
            let read = "SELECT a, v FROM chaos.bank WHERE p = 0";
            if let Told::Rows(rows) = self.caller.ask("read accounts", read) {
                let held = rows.column("v");
                self.seen.banks.push((at_ms, held.clone()));
                let (from, to) = (self.dice.below(held.len()), self.dice.below(held.len()));
                let amount = self.dice.between(1, 20) as i32;
                if let (Some(old_from), Some(old_to)) = (held.get(from), held.get(to))
                    && from != to
                {
                    let (new_from, new_to) = (old_from - amount, old_to + amount);
                    let text = format!(
                        "BEGIN BATCH UPDATE chaos.bank SET v = {new_from} WHERE p = 0 AND a = {from} IF v = {old_from}; \
                         UPDATE chaos.bank SET v = {new_to} WHERE p = 0 AND a = {to} IF v = {old_to}; APPLY BATCH"
                    );
                    self.caller.ask("transfer", &text);
                }
            }
            self.rest();
        }
    }

    fn scan(&mut self) {
        'scans: while self.caller.connect() {
            let at_ms = self.caller.ground.now_ms();
            let (mut keys, mut state) = (Vec::new(), None);
            loop {
                let execution = Execution {
                    page_size: Some(PAGE_ROWS),
                    paging_state: state,
                    consistency: Some(Consistency::Quorum),
                    ..Execution::default()
                };
                let text = "SELECT k FROM chaos.scanned";
                // A page that failed is asked for again, maybe of another node, as drivers do.
                let told = self.caller.ask_with("scan a page", text, &execution);
                if let Told::Rows(rows) = told {
                    keys.extend(rows.column("k"));
                    state = rows.next_page;
                    if state.is_none() {
                        break;
                    }
                } else {
                    state = execution.paging_state;
                }
                if !self.caller.connect() {
                    break 'scans;
                }
                self.rest();
            }
            self.seen.scans.push((at_ms, keys));
            let key = self.dice.below(SCANNED as usize);
            let text = format!("UPDATE chaos.scanned SET v = {at_ms} WHERE k = {key}");
            self.caller.ask("update scanned", &text);
        }
    }

    /// A table of its own, that is filled, emptied and looked at.
    fn empty(&mut self) {
        let mut state = Emptied::default();
        let mut unsure_until_ms = 0;
        for value in self.values() {
            if !self.caller.connect() {
                return;
            }
            match self.dice.below(60) {
                0 => match self.caller.ask("truncate", "TRUNCATE chaos.emptied") {
                    // What nobody knows of may have been on its way, and come later.
                    Told::Rows(_) => state.must.clear(),
                    Told::Refused => {}
                    Told::Unknown => {
                        let unsure = std::mem::take(&mut state.must);
                        state.may.extend(unsure);
                        unsure_until_ms = self.caller.ground.now_ms() + TRUNCATE_MS;
                    }
                },
                1..6 => {
                    state.at_ms = self.caller.ground.now_ms();
                    if let Told::Rows(rows) =
                        self.caller.ask("read emptied", "SELECT k FROM chaos.emptied")
                    {
                        state.found = rows.column("k").into_iter().collect();
                        self.seen.emptied.push(state.clone());
                    }
                }
                _ => {
                    let text = format!("INSERT INTO chaos.emptied (k) VALUES ({value})");
                    let is_sure = self.caller.ground.now_ms() >= unsure_until_ms;
                    match self.caller.ask("insert", &text) {
                        Told::Rows(_) if is_sure => _ = state.must.insert(value),
                        Told::Refused => {}
                        Told::Rows(_) | Told::Unknown => _ = state.may.insert(value),
                    }
                }
            }
            self.rest();
        }
    }

    /// A table that gets more and more columns, beside tables that come and go.
    fn widen(&mut self) {
        for number in 0.. {
            if !self.caller.connect() {
                return;
            }
            let name = format!("c{number}");
            let text = format!("ALTER TABLE chaos.widened ADD {name} int");
            if let Told::Rows(_) = self.caller.ask("alter table", &text) {
                self.seen.columns.insert(name.clone());
                let text = format!("INSERT INTO chaos.widened (k, {name}) VALUES ({number}, 1)");
                self.caller.ask("insert", &text);
            }
            let table = format!("chaos.passing{number}");
            let text = format!("CREATE TABLE {table} (k int PRIMARY KEY)");
            if let Told::Rows(_) = self.caller.ask("create table", &text)
                && self.dice.chance(80)
            {
                self.caller.ask("drop table", &format!("DROP TABLE {table}"));
            }
            let ms = self.dice.between(1_500, 5_000) as u64;
            let until = self.caller.ground.now_ms() + ms;
            while self.caller.ground.now_ms() < until && !self.caller.ground.is_over() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
