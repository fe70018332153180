//! Faults as users have them, under clients whose answers are judged: nodes are killed, restarted and paused, links are cut, nodes are emptied
//! and wiped. What happens to disks, clocks and whole quorums: `losses.rs`.

use std::time::Duration;

use protocol::Consistency;
use serde_json::Value;
use testkit::{Cluster, Execution, Links, eventually};

use crate::support::{
    MOVED_WITHIN, SOON, ask, cluster_of, create_keyspace, first_set, leader, seed, tell,
};
use crate::workload::{Progress, define, run};

/// Answers for the clients of each node between two faults.
const BETWEEN: u64 = 20;

pub(crate) fn four(settings: &[&str]) -> Cluster {
    cluster_of(4, settings)
}

pub(crate) fn but(lost: usize) -> impl Iterator<Item = usize> {
    (1..=4).filter(move |node| *node != lost)
}

/// What `helenus nodes` tells.
pub(crate) fn nodes(cluster: &Cluster, asked: usize) -> Option<Value> {
    serde_json::from_str(&cluster.command(asked, &["nodes", "--json"]).ok()?).ok()
}

/// Waits until so many nodes are there, all up, and no set gets other members.
pub(crate) fn wait_until_settled(cluster: &Cluster, asked: usize, count: usize) {
    let mut calm = 0;
    let look = || {
        let answer = nodes(cluster, asked)?;
        let rows = answer["nodes"].as_array()?;
        let are_up = rows.len() == count && rows.iter().all(|row| row["state"] == "up");
        let is_calm = are_up && answer["moving"].as_array()?.is_empty();
        calm = if is_calm { calm + 1 } else { 0 };
        (calm > 3).then_some(())
    };
    eventually(&format!("{count} nodes are up, and no set moves"), MOVED_WITHIN, look).unwrap();
}

/// The node that leads most sets.
fn busiest(cluster: &Cluster, asked: usize) -> usize {
    let answer = nodes(cluster, asked).unwrap();
    let rows = answer["nodes"].as_array().unwrap();
    let most = rows.iter().max_by_key(|row| row["leads"].as_u64()).unwrap();
    most["node"].as_u64().unwrap() as usize
}

#[test]
fn every_node_is_killed_in_turn_and_nothing_is_lost() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        for lost in 1..=4 {
            cluster.kill(lost).unwrap();
            progress.wait(but(lost), BETWEEN);
            cluster.restart(lost).unwrap();
            progress.wait(1..=4, BETWEEN);
        }
        // The one that leads most, twice in a row: it has hardly caught up.
        for _ in 0..2 {
            let lost = busiest(cluster, 1);
            cluster.kill(lost).unwrap();
            cluster.restart(lost).unwrap();
            progress.wait(1..=4, BETWEEN);
        }
    });
    seen.judge();
}

#[test]
fn two_of_four_are_killed_and_everything_goes_on_when_one_is_back() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let set = first_set(&mut cluster.client(1).unwrap(), "w");
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        let led = leader(cluster, 1, set);
        let other = led % 4 + 1;
        cluster.kill(led).unwrap();
        cluster.kill(other).unwrap();
        // Nothing is written, and nobody waits: what has no quorum is refused at once.
        let left = (1..=4).find(|node| *node != led && *node != other).unwrap();
        let mut client = cluster.client(left).unwrap();
        let refused = || {
            let write = "INSERT INTO w.rows (k) VALUES (-1)";
            ask(&mut client, write, &Execution::at(Consistency::Quorum)).unwrap().err()
        };
        let error = eventually("two of four are not enough", SOON, refused).unwrap();
        let code = error.kind.code();
        assert!([0x1000, 0x1100].contains(&code), "{} (0x{code:04x})", error.message);
        cluster.restart(other).unwrap();
        progress.wait(but(led), BETWEEN);
        cluster.restart(led).unwrap();
        progress.wait(1..=4, BETWEEN);
    });
    seen.judge();
}

#[test]
fn all_are_killed_at_once_and_start_again() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let seen = run(&mut cluster, seed, |cluster, progress| {
        for _ in 0..2 {
            progress.wait(1..=4, BETWEEN);
            cluster.kill_all().unwrap();
            cluster.restart_all().unwrap();
        }
        progress.wait(1..=4, BETWEEN);
    });
    seen.judge();
}

/// So many seconds a node is paused: a minute where somebody asks for it (`HELENUS_PAUSE_S=60`).
fn pause() -> Duration {
    let given = std::env::var("HELENUS_PAUSE_S").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(3))
}

/// Clients of other nodes go on for as long as a fault lasts.
fn go_on_for(progress: &Progress, nodes: &[usize], time: Duration) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < time {
        progress.wait(nodes.iter().copied(), BETWEEN);
    }
}

#[test]
fn a_node_that_is_paused_for_long_is_as_good_as_dead_and_comes_back() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let set = first_set(&mut cluster.client(1).unwrap(), "w");
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        let paused = leader(cluster, 1, set);
        cluster.pause(paused).unwrap();
        let others: Vec<usize> = but(paused).collect();
        go_on_for(progress, &others, pause());
        cluster.resume(paused).unwrap();
        progress.wait(1..=4, BETWEEN);
    });
    seen.judge();
}

#[test]
fn a_link_is_cut_one_way_and_both_ways_and_all_clients_go_on() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let set = first_set(&mut cluster.client(1).unwrap(), "w");
    let links = Links::open(&mut cluster).unwrap();
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        for round in 0..3 {
            let led = leader(cluster, 1, set);
            let other = led % 4 + 1;
            match round {
                // The leader is heard, and does not hear; then it hears, and is not heard.
                0 => links.cut(other, led),
                1 => links.cut(led, other),
                _ => links.cut_both(led, other),
            }
            // Those who are not concerned go on; and so do the others, through them.
            go_on_for(progress, &[1, 2, 3, 4], Duration::from_secs(2));
            links.mend();
            progress.wait(1..=4, BETWEEN);
        }
    });
    seen.judge();
    drop(links);
}

#[test]
fn a_node_that_nobody_reaches_is_as_good_as_dead_and_comes_back() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let set = first_set(&mut cluster.client(1).unwrap(), "w");
    let links = Links::open(&mut cluster).unwrap();
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        let alone = leader(cluster, 1, set);
        but(alone).for_each(|other| links.cut_both(alone, other));
        let others: Vec<usize> = but(alone).collect();
        go_on_for(progress, &others, Duration::from_secs(2));
        links.mend();
        progress.wait(1..=4, BETWEEN);
        // It says much and hears nothing.
        let alone = leader(cluster, 1, set);
        but(alone).for_each(|other| links.cut(other, alone));
        let others: Vec<usize> = but(alone).collect();
        go_on_for(progress, &others, Duration::from_secs(2));
        links.mend();
        progress.wait(1..=4, BETWEEN);
    });
    seen.judge();
    drop(links);
}

#[test]
fn four_are_decommissioned_to_three_and_to_one() {
    let seed = seed();
    let mut cluster = four(&["partitions.per_space=2"]);
    define(&cluster);
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        for leaves in (2..=4).rev() {
            cluster.command(leaves, &["decommission"]).unwrap();
            cluster.wait_for_end(leaves).unwrap();
            progress.wait(1..leaves, BETWEEN);
            wait_until_settled(cluster, 1, leaves - 1);
        }
        // It is alone, and goes on alone.
        cluster.kill(1).unwrap();
        cluster.restart(1).unwrap();
        progress.wait([1], BETWEEN);
    });
    seen.judge();
}

/// Its disk is lost, and with it who it was: the old one is removed, and it joins as a new one.
#[test]
fn a_node_that_was_wiped_is_removed_and_joins_again() {
    let seed = seed();
    let mut cluster = four(&["partitions.per_space=2"]);
    define(&cluster);
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        cluster.kill(4).unwrap();
        std::fs::remove_dir_all(cluster.folder(4)).unwrap();
        let removed = || cluster.command(1, &["remove", "4"]).ok();
        eventually("a dead node is removed", SOON, removed).unwrap();
        let joined = cluster.add().unwrap();
        wait_until_settled(cluster, 1, 4);
        progress.wait(1..=3, BETWEEN);
        // It has its part: another one may go.
        let mut client = cluster.client(joined).unwrap();
        let all = || {
            let execution = Execution::at(Consistency::All);
            ask(&mut client, "SELECT k FROM w.rows", &execution).unwrap().ok()
        };
        eventually("all four members of each set answer", MOVED_WITHIN, all).unwrap();
        cluster.kill(2).unwrap();
        progress.wait([1, 3], BETWEEN);
    });
    seen.judge();
}

/// Without `drain`, one after the other, as fast as they come back.
#[test]
fn all_are_restarted_one_after_the_other() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "other");
    tell(&mut client, "CREATE TABLE other.t (k int PRIMARY KEY)");
    let seen = run(&mut cluster, seed, |cluster, progress| {
        for node in 1..=4 {
            progress.wait(1..=4, BETWEEN);
            cluster.stop(node).unwrap();
            progress.wait(but(node), BETWEEN);
            cluster.restart(node).unwrap();
        }
        progress.wait(1..=4, BETWEEN);
    });
    seen.judge();
}
