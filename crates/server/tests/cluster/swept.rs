//! Old deletions go, at the same place of the log on all members: by then what they covered is gone, and what comes late is not covered.

use protocol::Consistency;
use testkit::{Execution, eventually};

use crate::support::{SOON, ask, create_keyspace, first_set, int, leader, tell, three};

/// More than one part of a sweep looks at.
const ROWS: i32 = 2_300;

#[test]
fn old_deletions_are_taken_away_by_the_leader_everywhere() {
    let cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "s");
    tell(
        &mut client,
        "CREATE TABLE s.t (k int, c int, v int, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 1",
    );
    let set = first_set(&mut client, "s");
    for first in (0..ROWS).step_by(100) {
        let rows = (first..first + 100)
            .map(|c| format!("INSERT INTO s.t (k, c, v) VALUES (1, {c}, {c}) USING TIMESTAMP 10;"));
        tell(&mut client, &format!("BEGIN BATCH {} APPLY BATCH", rows.collect::<String>()));
    }
    // Later than the rows, and with a row that is later than it.
    tell(&mut client, "DELETE FROM s.t USING TIMESTAMP 20 WHERE k = 1");
    tell(&mut client, "INSERT INTO s.t (k, c, v) VALUES (1, 7, 70) USING TIMESTAMP 30");
    tell(&mut client, "INSERT INTO s.t (k, c, v) VALUES (1, 5000, 1) USING TIMESTAMP 15");
    let rows = tell(&mut client, "SELECT c, v FROM s.t WHERE k = 1");
    assert_eq!(rows.len(), 1, "the deletion covers what is older");
    // Somebody who comes so late is not covered any more when the deletion is gone: that is how a client can tell.
    let look = || {
        cluster.command(leader(&cluster, 1, set), &["compact"]).unwrap();
        tell(&mut client, "INSERT INTO s.t (k, c, v) VALUES (1, 5000, 1) USING TIMESTAMP 15");
        let rows = tell(&mut client, "SELECT c, v FROM s.t WHERE k = 1");
        (rows.len() == 2).then_some(rows)
    };
    let rows = eventually("the deletion is gone", SOON, look).unwrap();
    assert_eq!(rows.iter().map(|row| int(row, 0)).collect::<Vec<_>>(), [7, 5000]);
    // On every member, and nothing that it covered came back.
    for node in 1..=3 {
        let mut client = cluster.client(node).unwrap();
        let text = "SELECT c, v FROM s.t WHERE k = 1";
        let look = || {
            let found = ask(&mut client, text, &Execution::at(Consistency::One)).unwrap().unwrap();
            (found == rows).then_some(())
        };
        eventually(&format!("node {node} has the same"), SOON, look).unwrap();
    }
}
