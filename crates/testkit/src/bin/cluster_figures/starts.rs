//! How long nodes take to start, and what they take of memory.

use std::path::Path;
use std::time::Instant;

use testkit::Cluster;

use crate::load::{ask, at, connect, ms, sorted, start, wait_until_settled};
use crate::{Failure, Figure, NODES, Wish};

const ROUNDS: usize = 5;

pub(crate) fn measure(wish: &Wish) -> Result<Vec<Figure>, Failure> {
    let (mut ready, mut joined, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let (mut resident, mut own) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let mut cluster = start(&wish.binary, NODES)?;
        ready.push(ms(begin.elapsed()));
        wait_until_settled(&cluster, 1)?;
        resident.push(memory(&cluster, "Rss:")?);
        own.push(memory(&cluster, "Pss:")?);
        cluster.stop(3)?;
        let begin = Instant::now();
        cluster.restart(3)?;
        answers(&cluster, 3)?;
        again.push(ms(begin.elapsed()));
        let begin = Instant::now();
        let fifth = cluster.add()?;
        answers(&cluster, fifth)?;
        joined.push(ms(begin.elapsed()));
    }
    let middle = |numbers: Vec<f64>| at(&sorted(numbers.into_iter()), 0.5);
    Ok(vec![
        Figure::at_most(
            "a node that joins an empty cluster, until it answers",
            1000.0,
            middle(joined),
            "ms",
        ),
        Figure::at_most(
            "a node of an empty cluster started again, until it answers",
            1000.0,
            middle(again),
            "ms",
        ),
        Figure::at_most("`demo --nodes 4` ready", 2000.0, middle(ready), "ms"),
        Figure::at_most("… memory of all (shared pages once)", 200.0, middle(own), "MB"),
        Figure::told(
            "… resident, shared pages counted in each",
            format!("{:.0} MB", middle(resident)),
        ),
    ])
}

fn answers(cluster: &Cluster, node: usize) -> Result<(), Failure> {
    ask(&mut connect(cluster.address(node))?, "SELECT key FROM system.local").map(drop)
}

/// Of all nodes, in megabytes.
fn memory(cluster: &Cluster, kind: &str) -> Result<f64, Failure> {
    let mut kilobytes = 0.0;
    for process in (1..=cluster.count()).filter_map(|node| cluster.process(node)) {
        let path = format!("/proc/{process}/smaps_rollup");
        let text = std::fs::read_to_string(Path::new(&path))?;
        let line = text.lines().find_map(|line| line.strip_prefix(kind));
        let number = line.and_then(|it| it.split_whitespace().next()).ok_or("no such line")?;
        kilobytes += number.parse::<f64>()?;
    }
    Ok(kilobytes * 1024.0 / 1e6)
}
