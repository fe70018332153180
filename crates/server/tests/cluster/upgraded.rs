//! A cluster of an older binary becomes one of this binary, node by node, under clients whose answers are judged: `cargo xtask upgrade`.

use std::path::{Path, PathBuf};

use testkit::{Cluster, Start, eventually};

use crate::faults::{but, nodes, wait_until_settled};
use crate::support::{SOON, create_keyspace, seed, tell};
use crate::workload::{define, run};

/// Answers for the clients of each node between two steps.
const BETWEEN: u64 = 40;

#[test]
#[ignore = "needs an older binary: cargo xtask upgrade"]
fn an_older_cluster_is_upgraded_node_by_node() {
    let seed = seed();
    let old = PathBuf::from(std::env::var_os("HELENUS_OLD_BINARY").expect("HELENUS_OLD_BINARY"));
    let new = Path::new(env!("CARGO_BIN_EXE_helenus"));
    let mut cluster = Cluster::start(&old, 4, &["partitions.per_space=2"]).unwrap();
    define(&cluster);
    let seen = run(&mut cluster, seed, |cluster, progress| {
        progress.wait(1..=4, BETWEEN);
        for node in 1..=4 {
            cluster.stop(node).unwrap();
            progress.wait(but(node), BETWEEN);
            let start = Start { binary: Some(new.to_path_buf()), ..Start::default() };
            cluster.set_start(node, start).unwrap();
            cluster.restart(node).unwrap();
            progress.wait(1..=4, BETWEEN);
            // Both versions hear each other, of what all agree on as well; and one of either may be lost.
            let mut client = cluster.client(node % 4 + 1).unwrap();
            create_keyspace(&mut client, &format!("during{node}"));
            tell(&mut client, &format!("CREATE TABLE during{node}.t (k int PRIMARY KEY)"));
            let is_whole = || {
                let answer = nodes(cluster, node)?;
                let rows = answer["nodes"].as_array()?;
                (rows.len() == 4 && rows.iter().all(|row| row["state"] == "up")).then_some(())
            };
            eventually("all four are up", SOON, is_whole).unwrap();
            let other = node % 4 + 1;
            cluster.kill(other).unwrap();
            progress.wait(but(other), BETWEEN);
            cluster.restart(other).unwrap();
            progress.wait(1..=4, BETWEEN);
        }
        // All that this version can do is there.
        cluster.use_binary(new);
        // The demo itself is still the older one, which may not know how to add a node.
        let Ok(fifth) = cluster.add() else { return println!("the older demo adds no nodes") };
        wait_until_settled(cluster, 1, 5);
        cluster.command(fifth, &["decommission"]).unwrap();
        cluster.wait_for_end(fifth).unwrap();
        wait_until_settled(cluster, 1, 4);
    });
    seen.judge();
}
