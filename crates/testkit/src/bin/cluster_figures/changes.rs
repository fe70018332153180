//! Nodes that are drained, join and leave while clients go on.

use std::thread::sleep;
use std::time::Duration;

use testkit::{Cluster, eventually};

use crate::load::{
    Load, SOON, Seen, Window, ask, at, connect, during, number, start, wait_until_settled,
};
use crate::{Failure, Figure, NODES, Wish};

/// After a change so long is looked at what it does.
const AFTER: Duration = Duration::from_millis(500);

fn errors(what: &str, seen: &Seen) -> Figure {
    seen.errors.iter().take(5).for_each(|error| println!("  {error}"));
    Figure::at_most(what, 0.0, seen.errors.len() as f64, "")
}

/// One node after the other, each of which leads something before.
pub(crate) fn measure_drain(wish: &Wish) -> Result<Vec<Figure>, Failure> {
    let mut cluster = start(&wish.binary, NODES)?;
    let ((drains, backs, quiet), seen) = Load::run(&mut cluster, |cluster, load| {
        load.warm_up()?;
        let (mut drains, mut backs, mut quiet) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..wish.drains {
            let node = turn % usize::from(NODES) + 1;
            wait_until_it_leads(cluster, node)?;
            wait_until_settled(cluster, 1)?;
            let begin = load.now();
            sleep(AFTER);
            quiet.push(Window { begin, end: load.now() });
            drains.push(watched(load, || cluster.command(node, &["drain"]).map(drop))?);
            backs.push(watched(load, || {
                cluster.command(node, &["drain", "--cancel"]).map(drop)?;
                wait_until_it_leads(cluster, node).map_err(std::io::Error::other)
            })?);
        }
        Ok((drains, backs, quiet))
    })?;
    let (drained, back, quiet) = (seen.during(&drains), seen.during(&backs), seen.during(&quiet));
    Ok(vec![
        errors(&format!("drain, {} times: errors seen by clients", drains.len()), &seen),
        Figure::at_most("… longest request during a drain", 50.0, at(&drained, 1.0), "ms"),
        told("… writes: p50, p99, at most during a drain", &during(&seen.writes, &drains)),
        told("… reads: p50, p99, at most during a drain", &during(&seen.reads, &drains)),
        told("… p50, p99, at most while it leads again", &back),
        told("… p50, p99, at most in quiet moments", &quiet),
    ])
}

fn told(what: &str, took: &[f64]) -> Figure {
    let (p50, p99, most) = (at(took, 0.5), at(took, 0.99), at(took, 1.0));
    Figure::told(what, format!("{p50:.1} ms, {p99:.1} ms, {most:.1} ms of {}", took.len()))
}

fn watched(load: &Load, change: impl FnOnce() -> std::io::Result<()>) -> Result<Window, Failure> {
    let begin = load.now();
    change()?;
    sleep(AFTER);
    Ok(Window { begin, end: load.now() })
}

fn wait_until_it_leads(cluster: &Cluster, node: usize) -> Result<(), Failure> {
    let mut client = connect(cluster.address(1))?;
    let text = "SELECT leader FROM system_helenus.replicas";
    let look = || {
        let rows = ask(&mut client, text).ok()?;
        rows.iter().any(|row| number(row, 0) == Some(node as i64)).then_some(())
    };
    Ok(eventually(&format!("node {node} leads"), SOON, look)?)
}

/// A fifth node comes, gets its part and goes again.
pub(crate) fn measure_join(wish: &Wish) -> Result<Vec<Figure>, Failure> {
    let mut cluster = start(&wish.binary, NODES)?;
    let ((before, joined, left), seen) = Load::run(&mut cluster, |cluster, load| {
        load.warm_up()?;
        let begin = load.now();
        sleep(Duration::from_secs(wish.seconds));
        let before = Window { begin, end: load.now() };
        let begin = load.now();
        let fifth = cluster.add()?;
        wait_until_it_leads(cluster, fifth)?;
        wait_until_settled(cluster, 1)?;
        let joined = Window { begin, end: load.now() };
        let begin = load.now();
        cluster.command(fifth, &["decommission"])?;
        cluster.wait_for_end(fifth)?;
        wait_until_settled(cluster, 1)?;
        Ok((before, joined, Window { begin, end: load.now() }))
    })?;
    let normal = seen.during(&[before]);
    let (joining, leaving) = (seen.during(&[joined]), seen.during(&[left]));
    let ratio = |took: &[f64]| at(took, 0.99) / at(&normal, 0.99).max(0.001);
    Ok(vec![
        errors("join and decommission under load: errors seen by clients", &seen),
        Figure::at_most("… join: p99 against before", 2.0, ratio(&joining), "times"),
        Figure::at_most("… decommission: p99 against before", 2.0, ratio(&leaving), "times"),
        told("… p50, p99, at most before", &normal),
        told("… p50, p99, at most while it joins", &joining),
        told("… p50, p99, at most while it leaves", &leaving),
    ])
}
