//! Faults of disks and clocks, and of more nodes than a quorum can spare, under clients whose answers are judged.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use protocol::Consistency;
use serde_json::Value;
use testkit::disk::{Board, Call, Fault, Shim};
use testkit::{Cluster, Execution, Start, eventually};

use crate::faults::{but, four, nodes, wait_until_settled};
use crate::support::{
    MOVED_WITHIN, SOON, ask, create_keyspace, first_set, int, leader, long, seed, tell,
};
use crate::workload::{define, run};

/// Answers for the clients of each node between two faults.
const BETWEEN: u64 = 20;
const ENOSPC: i32 = 28;
const HOUR_S: i64 = 3600;

/// A node whose disk and clock are ours: from its next start on.
struct Watched {
    _shim: Shim,
    board: Board,
}

impl Watched {
    fn new(cluster: &mut Cluster, node: usize) -> Watched {
        let shim = Shim::build().unwrap();
        let folder = cluster.folder(node).to_path_buf();
        let board = Board::new(cluster.data_dir().join(format!("board{node}"))).unwrap();
        let environment = shim.environment(&folder, None, Some(&board));
        cluster.set_start(node, Start { environment, ..Start::default() }).unwrap();
        cluster.stop(node).unwrap();
        cluster.restart(node).unwrap();
        Watched { _shim: shim, board }
    }

    fn fill_disk(&self) {
        for call in [Call::Write, Call::Open] {
            let fault = Fault { at: 1, error: ENOSPC, stays: true, part: "/" };
            self.board.set(call, fault).unwrap();
        }
    }

    fn make_room(&self) {
        [Call::Write, Call::Open].into_iter().for_each(|call| self.board.clear(call).unwrap());
    }
}

/// Waits until a node leads a set.
fn have_lead(cluster: &Cluster, set: i32, node: usize) {
    let look = || {
        let led = leader(cluster, node % 4 + 1, set);
        if led == node {
            return Some(());
        }
        // Whoever leads is paused for a moment, until it is that one.
        let _ = cluster.command(led, &["drain"]);
        let _ = cluster.command(led, &["drain", "--cancel"]);
        None
    };
    eventually(&format!("node {node} leads set {set}"), MOVED_WITHIN, look).unwrap();
}

/// Whoever leads, and whoever follows: with no room on its disk it stops nobody, reads through it go on, and it comes back by itself.
#[test]
fn a_disk_that_is_full_stops_nobody() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let full = 2;
    let watched = Watched::new(&mut cluster, full);
    let set = first_set(&mut cluster.client(1).unwrap(), "w");
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        for leads in [true, false] {
            match leads {
                true => have_lead(cluster, set, full),
                false => {
                    let elsewhere = || (leader(cluster, 1, set) != full).then_some(());
                    eventually("another one leads", SOON, elsewhere).unwrap();
                }
            }
            watched.fill_disk();
            progress.wait(but(full), 4 * BETWEEN);
            // Its own clients write through others, and read what they wrote.
            progress.wait([full], BETWEEN);
            watched.make_room();
            progress.wait(1..=4, BETWEEN);
        }
    });
    seen.judge();
}

/// One clock of four is wrong, by an hour: nobody notices. Times that nodes give are those in the middle.
#[test]
fn a_clock_that_is_an_hour_wrong_changes_nothing() {
    let seed = seed();
    let mut cluster = four(&[]);
    define(&cluster);
    let wrong = 3;
    let watched = Watched::new(&mut cluster, wrong);
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "c");
    tell(&mut client, "CREATE TABLE c.t (k int PRIMARY KEY, v int)");
    let seen = run(&mut cluster, seed, |cluster, progress| {
        for shift in [HOUR_S, -HOUR_S] {
            watched.board.set_clock(shift).unwrap();
            progress.wait(1..=4, 2 * BETWEEN);
            last_write_wins(cluster, wrong);
            // It starts with a wrong clock, too.
            cluster.kill(wrong).unwrap();
            cluster.restart(wrong).unwrap();
            progress.wait(1..=4, BETWEEN);
            last_write_wins(cluster, wrong);
            watched.board.set_clock(0).unwrap();
            progress.wait(1..=4, BETWEEN);
        }
    });
    seen.judge();
}

/// Of two writes without a time the later one wins, whichever nodes take them; what is to live for an hour does, and no longer.
fn last_write_wins(cluster: &Cluster, wrong: usize) {
    let mut client = cluster.client(wrong).unwrap();
    for right in but(wrong) {
        let mut other = cluster.client(right).unwrap();
        for round in 0..2 {
            let (first, second) = match round {
                0 => (&mut client, &mut other),
                _ => (&mut other, &mut client),
            };
            let key = right * 10 + round;
            for value in 0..3 {
                tell(first, &format!("INSERT INTO c.t (k, v) VALUES ({key}, {value})"));
                tell(second, &format!("UPDATE c.t SET v = 1{value} WHERE k = {key}"));
                let text = format!("SELECT v, writetime(v) FROM c.t WHERE k = {key}");
                let row = &tell(first, &text)[0];
                assert_eq!(int(row, 0), 10 + value, "the later write wins");
                let now = std::time::SystemTime::now();
                let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as i64;
                let off_s = (long(row, 1) - now).abs() / 1_000_000;
                assert!(off_s < 60, "it was written {off_s} s from now");
            }
            // Half an hour to live, and an hour wrong.
            tell(first, &format!("INSERT INTO c.t (k, v) VALUES (-{key}, 1) USING TTL 1800"));
            for reader in [&mut client, &mut other] {
                let row = &tell(reader, &format!("SELECT ttl(v) FROM c.t WHERE k = -{key}"))[0];
                assert!((1700..=1800).contains(&int(row, 0)), "{} s to live", int(row, 0));
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// A node whose folder is an older one of its own forgot what it promised: nobody listens to it, whether the others ran all the time or
/// not, and it is told so. It is removed, and joins anew.
#[test]
fn an_old_image_of_a_node_is_refused() {
    for others_restart in [false, true] {
        let mut cluster = four(&[]);
        let mut client = cluster.client(1).unwrap();
        create_keyspace(&mut client, "i");
        tell(&mut client, "CREATE TABLE i.t (k int PRIMARY KEY, v int)");
        for k in 0..20 {
            tell(&mut client, &format!("INSERT INTO i.t (k, v) VALUES ({k}, 0)"));
        }
        cluster.stop(4).unwrap();
        let image: PathBuf = cluster.data_dir().join("image");
        copy(cluster.folder(4), &image);
        cluster.restart(4).unwrap();
        wait_until_settled(&cluster, 1, 4);
        for k in 0..20 {
            tell(&mut client, &format!("UPDATE i.t SET v = 1 WHERE k = {k}"));
        }
        // The last of it is on node 4, and known to be.
        let mut late = cluster.client(4).unwrap();
        tell(&mut late, "SELECT k FROM i.t");
        std::thread::sleep(if others_restart { Duration::from_secs(3) } else { Duration::ZERO });
        cluster.kill(4).unwrap();
        copy(&image, cluster.folder(4));
        if others_restart {
            (1..=3).for_each(|node| cluster.kill(node).unwrap());
            (1..=3).for_each(|node| cluster.begin_restart(node).unwrap());
            (1..=3).for_each(|node| cluster.wait_for(node).unwrap());
        }
        cluster.begin_restart(4).unwrap();
        let refused = || cluster.log().contains("is an old image").then_some(());
        eventually("it is told that its disk is an old image", SOON, refused).unwrap();
        // It says nothing that is old, strong or weak, or nothing at all.
        if let Ok(mut old) = cluster.client(4) {
            for level in [Consistency::Quorum, Consistency::One] {
                let text = "SELECT v FROM i.t WHERE k = 1";
                if let Ok(Ok(rows)) = ask(&mut old, text, &Execution::at(level)) {
                    assert_eq!(int(&rows[0], 0), 1, "at {level}");
                }
            }
        }
        let mut client = cluster.client(1).unwrap();
        let mut look =
            || ask(&mut client, "SELECT v FROM i.t", &Execution::at(Consistency::Quorum));
        let rows = eventually("the others go on", SOON, || look().unwrap().ok()).unwrap();
        assert!(rows.len() == 20 && rows.iter().all(|row| int(row, 0) == 1));
        cluster.kill(4).unwrap();
        let removed = || cluster.command(1, &["remove", "4"]).ok();
        eventually("it is removed", SOON, removed).unwrap();
        cluster.add().unwrap();
        wait_until_settled(&cluster, 1, 4);
    }
}

fn recover(cluster: &Cluster, words: &[&str]) -> Result<Value, String> {
    let words: Vec<&str> = ["recover", "--json"].into_iter().chain(words.iter().copied()).collect();
    let told = cluster.command(1, &words).map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&told).unwrap())
}

/// Two of four are lost for good: what was acknowledged is there, the lost ones cannot come back, and new ones make it four again.
#[test]
fn two_of_four_are_lost_for_good_and_everything_is_there() {
    let seed = seed();
    let mut cluster = four(&["partitions.per_space=2"]);
    define(&cluster);
    let set = first_set(&mut cluster.client(1).unwrap(), "w");
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        // Where nothing is lost, nothing is given up; nor where others suffice.
        let none = || recover(cluster, &[]).err().filter(|it| it.contains("all nodes are alive"));
        eventually("all nodes are alive", SOON, none).unwrap();
        cluster.kill(4).unwrap();
        let few = || recover(cluster, &[]).err().filter(|it| it.contains("has a quorum"));
        eventually("one of four needs nothing", SOON, few).unwrap();
        assert!(recover(cluster, &["--unsafe", "--lost", "4"]).is_err());
        assert!(recover(cluster, &["--unsafe", "--lost", "3,4"]).unwrap_err().contains("alive"));
        assert!(recover(cluster, &["--unsafe"]).is_err(), "the lost are named");
        progress.wait(1..=3, BETWEEN);
        // The one that leads, too.
        if leader(cluster, 1, set) != 3 {
            progress.wait(1..=3, BETWEEN);
        }
        cluster.kill(3).unwrap();
        let lost = serde_json::json!([3, 4]);
        let look = || recover(cluster, &[]).ok().filter(|told| told["lost"] == lost);
        let told = eventually("it is told what is left", SOON, look).unwrap();
        assert_eq!(told["done"], false);
        let sets = told["sets"].as_array().unwrap();
        assert!(sets.iter().any(|set| set["is_system"] == true));
        assert!(sets.iter().all(|set| set["may_lose"] == false && set["quorum"] == 3));
        let error = recover(cluster, &["--unsafe", "--lost", "4"]).unwrap_err();
        assert!(error.contains("node 3 is not alive, and not among"), "{error}");
        let done = recover(cluster, &["--unsafe", "--lost", "3,4"]).unwrap();
        assert_eq!(done["done"], true);
        progress.wait(1..=2, BETWEEN);
        // They are told that they do not belong any more, and stop; and start no more.
        for lost in [3, 4] {
            cluster.begin_restart(lost).unwrap();
        }
        for lost in [3, 4] {
            cluster.wait_for_end(lost).unwrap();
        }
        progress.wait(1..=2, BETWEEN);
        for _ in 0..2 {
            cluster.add().unwrap();
        }
        wait_until_settled(cluster, 1, 4);
        let mut client = cluster.client(1).unwrap();
        let all = || {
            let execution = Execution::at(Consistency::All);
            ask(&mut client, "SELECT k FROM w.rows", &execution).unwrap().ok()
        };
        eventually("all four members of each set answer", MOVED_WITHIN, all).unwrap();
        let rows = nodes(cluster, 1).unwrap();
        let rows = rows["nodes"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["node"] != 3 && row["node"] != 4), "{rows:?}");
        // Four again: one may go.
        cluster.kill(2).unwrap();
        progress.wait([1], BETWEEN);
    });
    seen.judge();
}
