//! A node is lost, or paused, and nothing else is.

use std::sync::atomic::{AtomicBool, Ordering};

use protocol::{Consistency, ErrorKind, Response};
use testkit::{Client, Ends, Execution, eventually};

use crate::support::{SOON, ask, create_keyspace, first_set, leader, seed, tell, three};
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

/// What was asked of a leader before it was paused, or while it was, is answered from what the others agreed on meanwhile.
#[test]
fn a_strong_read_that_waits_in_a_paused_leader_sees_what_was_written_meanwhile() {
    let mut cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "s");
    tell(&mut client, "CREATE TABLE s.t (k int PRIMARY KEY, v int)");
    let set = first_set(&mut client, "s");
    let levels =
        [Consistency::Quorum, Consistency::Serial, Consistency::Two, Consistency::LocalQuorum];
    for round in 0..4 {
        let paused = leader(&cluster, round % 3 + 1, set);
        let mut other = cluster.client(paused % 3 + 1).unwrap();
        tell(&mut other, &format!("INSERT INTO s.t (k, v) VALUES (1, {round})"));
        let mut readers: Vec<Client> =
            levels.iter().map(|_| cluster.client(paused).unwrap()).collect();
        cluster.pause(paused).unwrap();
        let new = 100 + round as i32;
        let text = format!("UPDATE s.t SET v = {new} WHERE k = 1");
        let quorum = Execution::at(Consistency::Quorum);
        let look = || ask(&mut other, &text, &quorum).unwrap().ok();
        eventually("the others write without it", SOON, look).unwrap();
        // They lie in its socket until it goes on, and it takes itself for the leader then.
        for (reader, level) in readers.iter_mut().zip(levels) {
            reader.post("SELECT v FROM s.t WHERE k = 1", &Execution::at(level)).unwrap();
        }
        cluster.resume(paused).unwrap();
        for (reader, level) in readers.iter_mut().zip(levels) {
            match reader.answer().unwrap().response {
                Response::Rows(rows) => {
                    let seen = rows.rows().next().unwrap()[0].unwrap().to_vec();
                    assert_eq!(seen, new.to_be_bytes(), "round {round} at {level}");
                }
                Response::Error(error) => assert!(
                    matches!(
                        error.kind,
                        ErrorKind::Unavailable { .. } | ErrorKind::ReadTimeout { .. }
                    ),
                    "{error:?}"
                ),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A condition on static columns shows the first row of the partition, which is read beside the outcome, by a node whose member may
/// not have it yet: its disk has more to do than those of the quorum.
#[test]
fn a_condition_on_static_columns_shows_rows_as_they_are() {
    let cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "c");
    tell(&mut client, "CREATE TABLE c.t (p int, c int, s int static, v int, PRIMARY KEY (p, c))");
    tell(&mut client, "CREATE TABLE c.large (k int PRIMARY KEY, v blob)");
    let set = first_set(&mut client, "c");
    let leader = leader(&cluster, 1, set);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&is_done);
        for number in 0..2 {
            let (cluster, is_done) = (&cluster, &is_done);
            scope.spawn(move || {
                let mut client = cluster.client(leader).unwrap();
                let large = "ab".repeat(60_000);
                while !is_done.load(Ordering::SeqCst) {
                    tell(
                        &mut client,
                        &format!("INSERT INTO c.large (k, v) VALUES ({number}, 0x{large})"),
                    );
                }
            });
        }
        let mut writer = cluster.client(leader).unwrap();
        let followers = [leader % 3 + 1, (leader + 1) % 3 + 1];
        let mut followers = followers.map(|node| cluster.client(node).unwrap());
        let mut wrong = Vec::new();
        for p in 0..150 {
            tell(&mut writer, &format!("INSERT INTO c.t (p, c, s, v) VALUES ({p}, 7, 1, 9)"));
            for follower in &mut followers {
                let text = format!("INSERT INTO c.t (p, s) VALUES ({p}, 5) IF NOT EXISTS");
                let row = tell(follower, &text).remove(0);
                let expected = [Some(vec![0]), Some(vec![0, 0, 0, p]), Some(vec![0, 0, 0, 7])];
                if row[..3] != expected {
                    wrong.push(row);
                }
            }
        }
        is_done.store(true, Ordering::SeqCst);
        assert!(wrong.is_empty(), "{} rows are wrong: {:?}", wrong.len(), wrong[0]);
    });
}
