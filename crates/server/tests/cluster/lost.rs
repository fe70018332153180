//! A node is lost, or paused, and nothing else is.

use crate::support::{first_set, leader, seed, three};
use crate::workload::{define, run};

/// Answers for the clients of each node between two faults.
const BETWEEN: u64 = 40;

#[test]
fn a_leader_and_a_follower_are_killed_and_nothing_is_lost() {
    let seed = seed();
    let mut cluster = three();
    define(&cluster);
    let set = first_set(&mut cluster.client(1).unwrap(), "w");
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=3, BETWEEN);
        for wants_leader in [true, false] {
            let leader = leader(cluster, 1, set);
            let lost = if wants_leader { leader } else { leader % 3 + 1 };
            cluster.kill(lost).unwrap();
            // The others go on without it.
            progress.wait((1..=3).filter(|node| *node != lost), BETWEEN);
            cluster.restart(lost).unwrap();
            progress.wait(1..=3, BETWEEN);
        }
    });
    seen.judge();
}

#[test]
fn a_leader_that_is_paused_answers_nothing_old_afterwards() {
    let seed = seed();
    let mut cluster = three();
    define(&cluster);
    let set = first_set(&mut cluster.client(1).unwrap(), "w");
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=3, BETWEEN);
        for _ in 0..2 {
            let paused = leader(cluster, 1, set);
            cluster.pause(paused).unwrap();
            let others: Vec<usize> = (1..=3).filter(|node| *node != paused).collect();
            // They have another leader, and it wrote.
            progress.wait(others, BETWEEN);
            cluster.resume(paused).unwrap();
            // Its clients had asked it before it was paused, or ask it while it still takes itself for the leader.
            progress.wait(1..=3, BETWEEN);
        }
    });
    seen.judge();
}
