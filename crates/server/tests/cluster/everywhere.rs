//! Every golden script through four nodes at once: each statement, each page and each execution of a prepared statement is asked of
//! the next node, and every answer must be the one that one node gives, which is Cassandra's.

use std::path::{Path, PathBuf};

use protocol::Consistency;
use testkit::{Client, golden};

use crate::support::cluster_of;

const NODES: u8 = 4;

/// What a script answers, without what a cluster says of a keyspace's own factor.
pub(crate) fn answers(found: &str) -> String {
    let is_meant = |line: &&str| !line.starts_with("warning: Helenus keeps ");
    found.lines().filter(is_meant).map(|line| format!("{line}\n")).collect()
}

/// Runs every script, each in a thread of its own, as each has a keyspace of its own. `run` is told its place among them, and tells
/// what differs, and how many statements it has. Returns the same of all.
pub(crate) fn all_at_once<R>(run: R) -> (Vec<String>, usize)
where
    R: Fn((usize, &PathBuf)) -> (Vec<String>, usize) + Sync,
{
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/golden");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cql"))
        .collect();
    scripts.sort();
    let run = &run;
    std::thread::scope(|scope| {
        let running: Vec<_> =
            scripts.iter().enumerate().map(|it| scope.spawn(move || run(it))).collect();
        let told = running.into_iter().map(|it| it.join().unwrap());
        told.fold((Vec::new(), 0), |(mut all, statements), (faults, count)| {
            all.extend(faults);
            (all, statements + count)
        })
    })
}

#[test]
fn golden_scripts_through_all_nodes() {
    let cluster = cluster_of(NODES, &[]);
    let (faults, count) = all_at_once(|(place, script)| {
        let statements = std::fs::read_to_string(script).unwrap();
        let recorded = std::fs::read_to_string(script.with_extension("out")).unwrap();
        // Each begins with another node.
        let node = |turn: usize| (place + turn) % usize::from(NODES) + 1;
        let turns = 0..usize::from(NODES);
        let mut clients: Vec<Client> =
            turns.map(|turn| cluster.client(node(turn)).unwrap()).collect();
        let found = golden::run_through(&mut clients, &statements, Some(Consistency::Quorum));
        let (differences, count) = golden::differences(&recorded, &answers(&found.unwrap()));
        let told = differences.iter().map(|it| format!("{}\n{it}", script.display()));
        (told.collect(), count)
    });
    assert!(count >= 2500, "only {count} statements were replayed");
    assert!(faults.is_empty(), "{} of {count} differ:\n{}", faults.len(), faults.join("\n"));
}
