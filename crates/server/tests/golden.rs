//! The golden scripts, replayed against the real binary: every answer must be the one that
//! Cassandra gave.

use std::path::{Path, PathBuf};

use testkit::{Client, Node, golden};

#[test]
fn answers_are_cassandras() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/golden");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cql"))
        .collect();
    scripts.sort();
    let node = Node::start(Path::new(env!("CARGO_BIN_EXE_helenus")), &[]).unwrap();
    let mut failures = Vec::new();
    let mut statement_count = 0;
    for script in scripts {
        let text = std::fs::read_to_string(&script).unwrap();
        let recorded = std::fs::read_to_string(script.with_extension("out")).unwrap();
        let found = golden::run(&mut Client::connect(&node.address()).unwrap(), &text).unwrap();
        let (differences, count) = golden::differences(&recorded, &found);
        statement_count += count;
        failures.extend(differences.into_iter().map(|d| format!("{}\n{d}", script.display())));
    }
    assert!(statement_count >= 2500, "only {statement_count} statements were replayed");
    assert!(
        failures.is_empty(),
        "{} of {statement_count} answers differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
