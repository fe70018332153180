//! Workloads of which time is a part: rows that expire, weak reads that must not go back, lists that are read while they grow.

use std::collections::VecDeque;

use protocol::Consistency;

use super::caller::Told;
use super::load::{LIST_MS, LISTS, User};
use crate::Execution;
use crate::history::{ListInput, ListOutput, Operation};

/// Rows live for so many seconds.
const TTL_S: (usize, usize) = (6, 12);
/// What a row's life may differ from that: seconds are whole, and nodes agree on the time only so well.
const TTL_SLACK_MS: u64 = 4_000;
/// Rows of which it is remembered when they go.
const EXPIRING_MAX: usize = 400;

/// A row that expires, as its writer knows it.
#[derive(Clone, Copy, Debug)]
struct Expiring {
    key: i32,
    written_from_ms: u64,
    written_to_ms: u64,
    ttl_ms: u64,
}

/// A look at a row that expires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpiryLook {
    pub(crate) key: i32,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// It goes between these, with what may be wrong by.
    pub(crate) lives_until_ms: u64,
    pub(crate) gone_from_ms: u64,
    pub(crate) is_there: bool,
}

/// What a weak read of the ladder saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung {
    pub(crate) client: u32,
    /// Reads over one connection are answered by one node.
    pub(crate) connection: u64,
    pub(crate) at_ms: u64,
    pub(crate) value: i32,
}

impl User<'_> {
    /// Writes rows that go by themselves, and looks at them before and after.
    pub(super) fn expire(&mut self) {
        let mut rows: VecDeque<Expiring> = VecDeque::new();
        for key in self.values() {
            if !self.caller.connect() {
                return;
            }
            let from_ms = self.caller.ground.now_ms();
            if rows.is_empty() || self.dice.chance(50) {
                let ttl_s = self.dice.between(TTL_S.0, TTL_S.1);
                let text = format!(
                    "INSERT INTO chaos.expiring (k, v) VALUES ({key}, 1) USING TTL {ttl_s}"
                );
                if let Told::Rows(_) = self.caller.ask("insert with TTL", &text) {
                    let written_to_ms = self.caller.ground.now_ms();
                    let ttl_ms = ttl_s as u64 * 1_000;
                    rows.push_back(Expiring {
                        key,
                        written_from_ms: from_ms,
                        written_to_ms,
                        ttl_ms,
                    });
                    rows.truncate(EXPIRING_MAX);
                }
            } else {
                let row = *self.dice.pick(rows.make_contiguous());
                self.look_at(row);
                let gone_ms = row.written_to_ms + row.ttl_ms + 3 * TTL_SLACK_MS;
                if self.caller.ground.now_ms() > gone_ms {
                    rows.retain(|it| it.key != row.key);
                }
            }
            self.rest();
        }
    }

    fn look_at(&mut self, row: Expiring) {
        let from_ms = self.caller.ground.now_ms();
        let text = format!("SELECT v FROM chaos.expiring WHERE k = {}", row.key);
        if let Told::Rows(found) = self.caller.ask("read with TTL", &text) {
            self.seen.expiries.push(ExpiryLook {
                key: row.key,
                from_ms,
                to_ms: self.caller.ground.now_ms(),
                lives_until_ms: (row.written_from_ms + row.ttl_ms).saturating_sub(TTL_SLACK_MS),
                gone_from_ms: row.written_to_ms + row.ttl_ms + TTL_SLACK_MS,
                is_there: !found.rows.is_empty(),
            });
        }
    }

    /// Writes higher and higher numbers into one row.
    pub(super) fn climb(&mut self) {
        for value in self.values() {
            if !self.caller.connect() {
                return;
            }
            let text = format!("INSERT INTO chaos.ladder (k, v) VALUES (0, {value})");
            self.caller.ask("climb", &text);
            self.rest();
        }
    }

    /// Reads them of one node, at a level that any member may answer: no older ones after newer ones.
    pub(super) fn watch_climbing(&mut self) {
        while self.caller.connect() {
            let at_ms = self.caller.ground.now_ms();
            let text = "SELECT v FROM chaos.ladder WHERE k = 0";
            let told = self.caller.ask_with("read weakly", text, &Execution::at(Consistency::One));
            // Once nodes join, another member may answer than before.
            if let Told::Rows(rows) = told
                && !self.caller.ground.do_members_move()
            {
                let (client, connection) = (self.caller.number, self.caller.connection);
                let value = rows.int(0, "v").unwrap_or(0);
                self.seen.rungs.push(Rung { client, connection, at_ms, value });
            }
            self.rest();
        }
    }

    /// Reads a list that grows.
    pub(super) fn read_list(&mut self) {
        let (key, call_at) = (self.key(LISTS, LIST_MS), self.now());
        let text = format!("SELECT l FROM chaos.lists WHERE k = {key}");
        if let Told::Rows(rows) = self.caller.ask("read list", &text) {
            let output = ListOutput::List(rows.ints(0, "l"));
            let number = self.caller.number;
            let done = Operation::answered(number, call_at, self.now(), ListInput::Read, output);
            self.seen.lists.push((key, done));
        }
    }
}
