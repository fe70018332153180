//! kill -9 of the node that leads what is written, again and again, and every write looked for at the end.
//!
//! A writer appends to a list, counts, and goes to another node when a connection breaks. What was under way then is open: it may have been
//! done, once. What was acknowledged must be there once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use testkit::{Client, Cluster, eventually};

use crate::load::{
    SOON, Span, ask, at, connect, create_keyspace, members, ms, number, sorted, start,
    wait_until_settled,
};
use crate::{Failure, Figure, NODES, Wish};

const WRITERS: usize = 8;
/// Between two writes of a writer.
const PACE: Duration = Duration::from_millis(5);
/// Between two looks at a node that is not there.
const LOOKS_AGAIN: Duration = Duration::from_millis(5);
/// A list gets no more elements.
const LIST_MAX: i64 = 200;

/// What all writers share.
struct Run {
    addresses: Vec<String>,
    begin: Instant,
    is_done: AtomicBool,
    writers: Vec<Mutex<Writer>>,
}

/// What a writer was told.
#[derive(Default)]
struct Writer {
    /// The elements of its lists, by list: acknowledged, or open.
    appended: BTreeMap<i64, Vec<(i64, bool)>>,
    counted: i64,
    counted_open: i64,
    /// When writes were acknowledged. What lies in between is a pause.
    acknowledged: Vec<Duration>,
}

pub(crate) fn measure(wish: &Wish) -> Result<Vec<Figure>, Failure> {
    let mut cluster = start(&wish.binary, NODES)?;
    let mut client = connect(cluster.address(1))?;
    create_keyspace(&mut client)?;
    ask(&mut client, "CREATE TABLE figures.lists (k bigint PRIMARY KEY, l list<bigint>)")?;
    ask(&mut client, "CREATE TABLE figures.counters (k bigint PRIMARY KEY, n counter)")?;
    wait_until_settled(&cluster, 1)?;
    let run = Run {
        addresses: (1..=cluster.count()).map(|node| cluster.address(node).to_owned()).collect(),
        begin: Instant::now(),
        is_done: AtomicBool::new(false),
        writers: (0..WRITERS).map(|_| Mutex::default()).collect(),
    };
    let kills = std::thread::scope(|scope| -> Result<Vec<Span>, Failure> {
        let run = &run;
        let writers: Vec<ScopedJoinHandle<'_, ()>> =
            (0..WRITERS).map(|writer| scope.spawn(move || run.keep_writing(writer))).collect();
        let kills = kill_again_and_again(run, &mut cluster, wish.kills);
        run.is_done.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.join().map_err(|_| "a writer panicked")?;
        }
        kills
    })?;
    let pauses = sorted(kills.iter().map(|kill| run.longest_pause(kill)));
    let (lost, doubled) = run.verify(&cluster)?;
    let writes: usize = run.writers.iter().map(|it| lock(it).acknowledged.len()).sum();
    if lost + doubled > 0 {
        return Err(
            format!("{lost} acknowledged writes are lost, {doubled} are there twice").into()
        );
    }
    let count = kills.len();
    Ok(vec![
        Figure::at_most(
            &format!("kill -9 of the leader's node, {count} times: longest pause of a writer, p99"),
            1000.0,
            at(&pauses, 0.99),
            "ms",
        ),
        Figure::told(
            "… p50, at most",
            format!("{:.0} ms, {:.0} ms", at(&pauses, 0.5), at(&pauses, 1.0)),
        ),
        Figure::at_most(&format!("… of {writes} acknowledged writes lost"), 0.0, lost as f64, ""),
        Figure::at_most("… done twice", 0.0, doubled as f64, ""),
    ])
}

fn lock(writer: &Mutex<Writer>) -> std::sync::MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Each from the kill until every writer went on.
fn kill_again_and_again(
    run: &Run,
    cluster: &mut Cluster,
    count: usize,
) -> Result<Vec<Span>, Failure> {
    let mut kills = Vec::new();
    run.wait_until_all_write()?;
    for turn in 1..=count {
        let leader = leader(cluster)?;
        let begin = run.begin.elapsed();
        cluster.kill(leader)?;
        run.wait_until_all_write()?;
        let end = run.begin.elapsed();
        kills.push(Span { begin, end });
        cluster.restart(leader)?;
        wait_until_settled(cluster, leader)?;
        run.wait_until_all_write()?;
        println!(
            "  kill {turn} of {count}: node {leader}, {:.0} ms",
            run.longest_pause(&Span { begin, end })
        );
    }
    Ok(kills)
}

/// Who leads the sets of what is written, or most of them.
fn leader(cluster: &Cluster) -> Result<usize, Failure> {
    let look = || {
        let mut client = connect(cluster.address(1)).ok()?;
        let mut leads: BTreeMap<i64, usize> = BTreeMap::new();
        for row in members(&mut client).ok()? {
            *leads.entry(number(&row, 2)?).or_default() += 1;
        }
        let (leader, _) = leads.into_iter().max_by_key(|(_, members)| *members)?;
        usize::try_from(leader).ok()
    };
    Ok(eventually("there is a leader", SOON, look)?)
}

impl Run {
    /// Until every writer has two more acknowledged.
    fn wait_until_all_write(&self) -> Result<(), Failure> {
        let told = |writer: &Mutex<Writer>| lock(writer).acknowledged.len();
        let before: Vec<usize> = self.writers.iter().map(told).collect();
        let go_on = || {
            let goes_on = |(writer, before): (&Mutex<Writer>, &usize)| told(writer) >= before + 2;
            self.writers.iter().zip(&before).all(goes_on).then_some(())
        };
        Ok(eventually("every writer goes on", SOON, go_on)?)
    }

    /// Of all writers, in milliseconds: the longest time without an acknowledged write around a kill.
    fn longest_pause(&self, kill: &Span) -> f64 {
        let of_writer = |writer: &Mutex<Writer>| {
            let writer = lock(writer);
            let pauses = writer.acknowledged.windows(2).filter_map(|pair| match pair {
                [begin, end] => Some(Span { begin: *begin, end: *end }),
                _ => None,
            });
            pauses.filter(|it| it.touches(kill)).map(|it| ms(it.end - it.begin)).fold(0.0, f64::max)
        };
        self.writers.iter().map(of_writer).fold(0.0, f64::max)
    }

    fn keep_writing(&self, number: usize) {
        let Some(writer) = self.writers.get(number) else { return };
        let mut node = number;
        let mut client = None;
        let mut turn = 0_i64;
        while !self.is_done.load(Ordering::SeqCst) {
            let Some(connected) = &mut client else {
                node += 1;
                let address = self.addresses.get(node % self.addresses.len().max(1));
                client = address.and_then(|address| connect(address).ok());
                if client.is_none() {
                    sleep(LOOKS_AGAIN);
                }
                continue;
            };
            turn += 1;
            if self.write(connected, writer, number as i64, turn).is_err() {
                client = None;
            }
            sleep(PACE);
        }
    }

    /// An error of the node leaves it open as well whether it was done.
    fn write(
        &self,
        client: &mut Client,
        writer: &Mutex<Writer>,
        number: i64,
        turn: i64,
    ) -> Result<(), Failure> {
        if turn % 4 == 0 {
            let text = format!("UPDATE figures.counters SET n = n + 1 WHERE k = {number}");
            let answer = ask(client, &text);
            let mut writer = lock(writer);
            match answer {
                Ok(_) => {
                    writer.counted += 1;
                    writer.acknowledged.push(self.begin.elapsed());
                }
                Err(_) => writer.counted_open += 1,
            }
            return answer.map(drop);
        }
        let list = (number << 32) | (turn / LIST_MAX);
        let text = format!("UPDATE figures.lists SET l = l + [{turn}] WHERE k = {list}");
        let answer = ask(client, &text);
        let mut writer = lock(writer);
        writer.appended.entry(list).or_default().push((turn, answer.is_ok()));
        if answer.is_ok() {
            writer.acknowledged.push(self.begin.elapsed());
        }
        answer.map(drop)
    }

    /// How many acknowledged writes are not there, and how many writes are there twice.
    fn verify(&self, cluster: &Cluster) -> Result<(usize, usize), Failure> {
        let mut client = connect(cluster.address(1))?;
        let (mut lost, mut doubled) = (0, 0);
        for (writer, key) in self.writers.iter().map(lock).zip(0_i64..) {
            let rows =
                ask(&mut client, &format!("SELECT n FROM figures.counters WHERE k = {key}"))?;
            let found = rows.first().and_then(|row| number(row, 0)).unwrap_or(0);
            lost += usize::try_from(writer.counted - found).unwrap_or(0);
            doubled += usize::try_from(found - writer.counted - writer.counted_open).unwrap_or(0);
            for (list, elements) in &writer.appended {
                let text = format!("SELECT l FROM figures.lists WHERE k = {list}");
                let rows = ask(&mut client, &text)?;
                let cell = rows.first().and_then(|row| row.first().cloned().flatten());
                let found = longs(cell.as_deref().unwrap_or_default());
                for (element, is_acknowledged) in elements {
                    let times = found.iter().filter(|it| *it == element).count();
                    lost += usize::from(*is_acknowledged && times == 0);
                    doubled += times.saturating_sub(1);
                }
                let is_known = |it: &&i64| elements.iter().any(|(element, _)| element == *it);
                if let Some(foreign) = found.iter().find(|it| !is_known(it)) {
                    return Err(format!("list {list} has {foreign}, which nobody wrote").into());
                }
            }
        }
        Ok((lost, doubled))
    }
}

/// The elements of a list of numbers: each with its length before it.
fn longs(cell: &[u8]) -> Vec<i64> {
    let elements = cell.get(4..).unwrap_or_default().chunks(12);
    let element = |it: &[u8]| Some(i64::from_be_bytes(it.get(4..)?.try_into().ok()?));
    elements.filter_map(element).collect()
}
