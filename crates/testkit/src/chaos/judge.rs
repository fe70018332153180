//! What is wrong with what clients saw, if anything is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::load::{ACCOUNT_BEGINS_WITH, ACCOUNTS, SCANNED, Seen};
use crate::history::{
    AppendList, CounterInput, CounterOutput, ListInput, ListOutput, Operation, Register,
    RegisterInput, RegisterOutput, Verdict, appended_once, by_key, check, counter_bounds,
};

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Anomaly {
    /// In a sentence.
    pub what: String,
    /// The operations that show it.
    pub story: String,
}

/// What a node showed when everything was over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    pub(crate) node: usize,
    /// When its lists were read: behind everything else.
    pub(crate) at_ns: u64,
    pub(crate) registers: Vec<(u64, u64, u64, Option<i32>)>,
    pub(crate) counters: Vec<(u64, u64, u64, i64)>,
    pub(crate) lists: BTreeMap<u64, Vec<i32>>,
    pub(crate) rows: BTreeMap<i32, i32>,
    /// The same rows by the index.
    pub(crate) indexed: BTreeMap<i32, i32>,
    /// Their keys as this node alone has them.
    pub(crate) weak_rows: BTreeSet<i32>,
    pub(crate) batch_r: BTreeSet<i32>,
    pub(crate) batch_s: BTreeSet<i32>,
    pub(crate) bank: Vec<i32>,
    pub(crate) columns: BTreeSet<String>,
}

/// So many of several are told, and how many there are.
fn some<T: Debug>(items: &[T]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = items.iter().take(SHOWN).map(|it| format!("{it:?}")).collect();
    let more = items.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

#[derive(Default)]
struct Found(Vec<Anomaly>);

impl Found {
    fn say(&mut self, what: impl Into<String>, story: impl Into<String>) {
        self.0.push(Anomaly { what: what.into(), story: story.into() });
    }

    /// Complains of things, if there are any.
    fn none<T: Debug>(&mut self, what: String, items: &[T]) {
        if !items.is_empty() {
            self.say(what, some(items));
        }
    }
}

/// Judges everything.
pub(crate) fn judge(seen: &Seen, endings: &[Ending]) -> Vec<Anomaly> {
    let mut found = Found::default();
    registers(seen, endings, &mut found);
    counters(seen, endings, &mut found);
    lists(seen, endings, &mut found);
    rows(seen, endings, &mut found);
    for (at_ms, held) in &seen.banks {
        bank(held, &format!("at {at_ms} ms"), &mut found);
    }
    scans(seen, &mut found);
    expiries(seen, &mut found);
    rungs(seen, &mut found);
    for look in &seen.emptied {
        let lost: Vec<&i32> = look.must.difference(&look.found).collect();
        found.none(
            format!("at {} ms: written behind the last TRUNCATE, and lost", look.at_ms),
            &lost,
        );
        let undead =
            look.found.iter().filter(|it| !look.must.contains(it) && !look.may.contains(it));
        let undead: Vec<&i32> = undead.collect();
        found.none(format!("at {} ms: there in spite of TRUNCATE", look.at_ms), &undead);
    }
    for (at_ms, error) in &seen.strange {
        found.say(format!("an error that no fault explains, at {at_ms} ms"), error.clone());
    }
    found.0
}

fn registers(seen: &Seen, endings: &[Ending], found: &mut Found) {
    let mut all = seen.registers.clone();
    for ending in endings {
        let client = 1_000 + ending.node as u32;
        all.extend(ending.registers.iter().map(|(key, call_at, return_at, value)| {
            let output = RegisterOutput::Value(*value);
            let read =
                Operation::answered(client, *call_at, *return_at, RegisterInput::Read, output);
            (*key, read)
        }));
    }
    for (key, history) in by_key(all) {
        match check(&Register { initial: None }, &history) {
            Verdict::NotLinearizable(failure) => {
                found.say(format!("register {key} is not linearizable"), failure.story);
            }
            // A search that was given up shows nothing: it is not a pass, and not an anomaly; the page counts them.
            Verdict::Linearizable | Verdict::Undecided { .. } => {}
        }
    }
}

/// Registers whose history was too entangled for a verdict.
pub(crate) fn undecided(seen: &Seen) -> usize {
    let histories = by_key(seen.registers.clone());
    let verdicts = histories.values().map(|it| check(&Register { initial: None }, it));
    verdicts.filter(|verdict| matches!(verdict, Verdict::Undecided { .. })).count()
}

fn counters(seen: &Seen, endings: &[Ending], found: &mut Found) {
    let mut all = seen.counters.clone();
    let mut last: BTreeMap<u64, BTreeSet<i64>> = BTreeMap::new();
    for ending in endings {
        let client = 1_000 + ending.node as u32;
        for (key, call_at, return_at, value) in &ending.counters {
            let output = CounterOutput::Value(*value);
            let read =
                Operation::answered(client, *call_at, *return_at, CounterInput::Read, output);
            all.push((*key, read));
            last.entry(*key).or_default().insert(*value);
        }
    }
    for (key, history) in by_key(all) {
        if let Err(flaw) = counter_bounds(&history) {
            found.say(format!("counter {key} is out of its bounds"), flaw.to_string());
        }
    }
    // Nobody adds any more: all nodes say the same.
    for (key, values) in last.iter().filter(|(_, values)| values.len() > 1) {
        found.say(format!("nodes differ in counter {key} in the end"), format!("{values:?}"));
    }
}

fn lists(seen: &Seen, endings: &[Ending], found: &mut Found) {
    let histories = by_key(seen.lists.clone());
    for ending in endings {
        for (key, history) in &histories {
            let list = ending.lists.get(key).map_or(&[][..], Vec::as_slice);
            if let Err(flaws) = appended_once(history, list) {
                let flaws: Vec<String> = flaws.iter().map(ToString::to_string).collect();
                let what = format!("list {key} on node {}", ending.node);
                found.say(what, flaws.join("\n"));
            }
        }
    }
    for (key, mut history) in histories {
        // What is there in the end was read by everybody.
        for ending in endings {
            let list = ending.lists.get(&key).cloned().unwrap_or_default();
            let (client, at) = (1_000 + ending.node as u32, ending.at_ns);
            let output = ListOutput::List(list);
            history.push(Operation::answered(client, at, at, ListInput::Read, output));
        }
        if let Verdict::NotLinearizable(failure) = check(&AppendList::of(&history), &history) {
            found.say(format!("list {key} is not linearizable"), failure.story);
        }
    }
}

fn expiries(seen: &Seen, found: &mut Found) {
    for look in &seen.expiries {
        if look.is_there && look.from_ms > look.gone_from_ms {
            found.say(format!("row {} outlived its TTL", look.key), format!("{look:?}"));
        }
        if !look.is_there && look.to_ms < look.lives_until_ms {
            found.say(format!("row {} was gone before its TTL", look.key), format!("{look:?}"));
        }
    }
}

fn rungs(seen: &Seen, found: &mut Found) {
    let mut highest = BTreeMap::new();
    for rung in &seen.rungs {
        let before = highest.insert((rung.client, rung.connection), *rung);
        if let Some(before) = before.filter(|before| before.value > rung.value) {
            let what = format!("client {} read something older, at {} ms", rung.client, rung.at_ms);
            found.say(what, format!("{before:?}, then {rung:?}"));
        }
    }
}

fn rows(seen: &Seen, endings: &[Ending], found: &mut Found) {
    for ending in endings {
        let node = ending.node;
        let lost: Vec<&i32> = seen.rows.keys().filter(|k| !ending.rows.contains_key(k)).collect();
        found.none(format!("node {node}: rows were acknowledged and are not there"), &lost);
        let undead = seen.refused_rows.iter().filter(|k| ending.rows.contains_key(k));
        let undead: Vec<&i32> = undead.collect();
        found.none(format!("node {node}: rows were refused and are there"), &undead);
        let is_other = |(k, g): &(&i32, &i32)| ending.indexed.get(k) != Some(g);
        let unfound: Vec<(&i32, &i32)> = ending.rows.iter().filter(is_other).collect();
        found.none(format!("node {node}: rows that the index does not find"), &unfound);
        let is_other = |(k, g): &(&i32, &i32)| ending.rows.get(k) != Some(g);
        let gone: Vec<(&i32, &i32)> = ending.indexed.iter().filter(is_other).collect();
        found.none(format!("node {node}: the index finds rows that are not there"), &gone);
        let behind: Vec<&i32> =
            ending.rows.keys().filter(|k| !ending.weak_rows.contains(k)).collect();
        found.none(format!("node {node}: rows that it lacks itself"), &behind);
        let halves: Vec<&i32> = ending.batch_r.symmetric_difference(&ending.batch_s).collect();
        found.none(format!("node {node}: batches of which half is there, by table"), &halves);
        let lone = ending.batch_r.iter().filter(|key| !ending.batch_r.contains(&-**key));
        let lone: Vec<&i32> = lone.collect();
        found.none(format!("node {node}: batches of which half is there, by key"), &lone);
        let lost: Vec<&i32> = seen.batches.difference(&ending.batch_r).collect();
        found.none(format!("node {node}: batches were acknowledged and are not there"), &lost);
        let undead: Vec<&i32> = seen.refused_batches.intersection(&ending.batch_r).collect();
        found.none(format!("node {node}: batches were refused and are there"), &undead);
        bank(&ending.bank, &format!("on node {node} in the end"), found);
        let lost: Vec<&String> = seen.columns.difference(&ending.columns).collect();
        found.none(format!("node {node}: columns were added and are not there"), &lost);
    }
}

fn bank(held: &[i32], when: &str, found: &mut Found) {
    let expected = ACCOUNTS * ACCOUNT_BEGINS_WITH;
    if held.len() != ACCOUNTS as usize || held.iter().sum::<i32>() != expected {
        found.say(
            format!("the accounts do not hold {expected} together, {when}"),
            format!("{held:?}"),
        );
    }
}

fn scans(seen: &Seen, found: &mut Found) {
    for (at_ms, keys) in &seen.scans {
        let mut counts: BTreeMap<i32, usize> = (0..SCANNED).map(|key| (key, 0)).collect();
        keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
        let wrong: Vec<(&i32, &usize)> = counts.iter().filter(|(_, count)| **count != 1).collect();
        found.none(format!("the scan from {at_ms} ms on did not find each row once"), &wrong);
    }
}
