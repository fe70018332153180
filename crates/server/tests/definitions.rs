//! Definitions after acknowledged writes: whatever is dropped or added later, what was acknowledged is there after
//! a crash, a stop, and in a snapshot.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::Response;
use testkit::{Client, Execution, Node};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn ask(client: &mut Client, text: &str) -> Rows {
    match client.query(text, &Execution::default()).unwrap().response {
        Response::Rows(rows) => rows
            .rows()
            .map(|row| row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
            .collect(),
        Response::Error(error) => panic!("{text}: {}", error.message),
        _ => Vec::new(),
    }
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("helenus-define-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A table, what is acknowledged, what is defined after it, and what is looked at.
struct Story {
    table: &'static str,
    writes: &'static [&'static str],
    definitions: &'static [&'static str],
    look: &'static str,
}

const STORIES: [Story; 9] = [
    Story {
        table: "(id int PRIMARY KEY, v int, w int)",
        writes: &[
            "INSERT INTO d.t (id, v, w) VALUES (1, 2, 3)",
            "UPDATE d.t SET w = 9 WHERE id = 1 IF v = 2",
        ],
        definitions: &["ALTER TABLE d.t DROP v"],
        look: "SELECT id, w FROM d.t",
    },
    Story {
        table: "(id int, c int, s int STATIC, w int, PRIMARY KEY (id, c))",
        writes: &[
            "INSERT INTO d.t (id, c, s, w) VALUES (1, 1, 5, 3)",
            "UPDATE d.t SET w = 9 WHERE id = 1 AND c = 1 IF s = 5",
        ],
        definitions: &["ALTER TABLE d.t DROP s"],
        look: "SELECT id, c, w FROM d.t",
    },
    Story {
        table: "(id int PRIMARY KEY, m map<text, int>, w int)",
        writes: &[
            "INSERT INTO d.t (id, m, w) VALUES (1, {'a': 2}, 3)",
            "UPDATE d.t SET w = 9 WHERE id = 1 IF m['a'] = 2",
        ],
        definitions: &["ALTER TABLE d.t DROP m"],
        look: "SELECT id, w FROM d.t",
    },
    Story {
        table: "(id int PRIMARY KEY, l list<int>, w int)",
        writes: &[
            "INSERT INTO d.t (id, l, w) VALUES (1, [1, 2], 3)",
            "UPDATE d.t SET w = 9 WHERE id = 1 IF l[1] = 2",
        ],
        definitions: &["ALTER TABLE d.t DROP l"],
        look: "SELECT id, w FROM d.t",
    },
    Story {
        table: "(id int PRIMARY KEY, l list<int>, w int)",
        writes: &[
            "INSERT INTO d.t (id, l, w) VALUES (1, [1, 2], 3)",
            "UPDATE d.t SET l[1] = 9, w = 7 WHERE id = 1",
        ],
        definitions: &["ALTER TABLE d.t DROP l"],
        look: "SELECT id, w FROM d.t",
    },
    Story {
        table: "(id int PRIMARY KEY, v int, w int)",
        writes: &[
            "INSERT INTO d.t (id, v, w) VALUES (1, 2, 3)",
            "UPDATE d.t SET w = 9 WHERE id = 1 IF v = 2",
        ],
        definitions: &["ALTER TABLE d.t DROP v", "ALTER TABLE d.t ADD v int"],
        look: "SELECT id, v, w FROM d.t",
    },
    Story {
        table: "(id int, c int, v int, PRIMARY KEY (id, c))",
        writes: &[
            "INSERT INTO d.t (id, c, v) VALUES (1, 1, 2)",
            "BEGIN BATCH UPDATE d.t SET v = 8 WHERE id = 1 AND c = 1 IF v = 2; \
             INSERT INTO d.t (id, c) VALUES (1, 2) APPLY BATCH",
        ],
        definitions: &["ALTER TABLE d.t DROP v"],
        look: "SELECT id, c FROM d.t",
    },
    Story {
        table: "(id int, c int, v int, PRIMARY KEY (id, c))",
        writes: &[
            "INSERT INTO d.t (id, c, v) VALUES (1, 1, 2)",
            "INSERT INTO d.t (id, c, v) VALUES (1, 2, 2)",
            "DELETE FROM d.t WHERE id = 1 AND c = 1 IF v = 2",
        ],
        definitions: &["ALTER TABLE d.t DROP v"],
        look: "SELECT id, c FROM d.t",
    },
    Story {
        table: "(id int PRIMARY KEY, v int, w int)",
        writes: &[
            "INSERT INTO d.t (id, v, w) VALUES (1, 2, 3) USING TTL 1000",
            "UPDATE d.t SET w = w + 6 WHERE id = 1 IF v = 2",
        ],
        definitions: &["ALTER TABLE d.t DROP v", "ALTER TABLE d.t WITH gc_grace_seconds = 0"],
        look: "SELECT id, w FROM d.t",
    },
];

fn tell(client: &mut Client, number: usize, story: &Story) -> Rows {
    let keyspace = format!("d{number}");
    let here = |text: &str| text.replace("d.t", &format!("{keyspace}.t"));
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    ask(client, &format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}"));
    ask(client, &format!("CREATE TABLE {keyspace}.t {}", story.table));
    for text in story.writes {
        let answer = ask(client, &here(text));
        let is_applied = answer.first().is_none_or(|row| row[0].as_deref() == Some(&[1]));
        assert!(is_applied, "{text}: {answer:?}");
    }
    for text in story.definitions {
        ask(client, &here(text));
    }
    look(client, number, story)
}

fn look(client: &mut Client, number: usize, story: &Story) -> Rows {
    ask(client, &story.look.replace("d.t", &format!("d{number}.t")))
}

#[test]
fn acknowledged_writes_outlive_later_definitions() {
    for (settings, kills) in
        [(vec![], true), (vec![], false), (vec!["--set=storage.commit=periodic"], false)]
    {
        let data_dir = folder("outlive");
        let start = || Node::start_in(Path::new(BINARY), &data_dir, &settings, Vec::new()).unwrap();
        let mut node = start();
        let mut client = Client::connect(&node.address()).unwrap();
        let told: Vec<Rows> = STORIES
            .iter()
            .enumerate()
            .map(|(number, story)| tell(&mut client, number, story))
            .collect();
        let snapshot = |arguments: &[&str]| {
            let mut command = Command::new(BINARY);
            let output = command.args(arguments).arg("--data-dir").arg(&data_dir).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        snapshot(&["snapshot", "kept"]);
        for round in 0..2 {
            match kills {
                true => node.kill(),
                false => node.stop(),
            }
            .unwrap();
            if round == 1 {
                snapshot(&["restore", "kept"]);
            }
            node.launch().unwrap();
            client = Client::connect(&node.address()).unwrap();
            for (number, story) in STORIES.iter().enumerate() {
                let found = look(&mut client, number, story);
                assert_eq!(found, told[number], "{settings:?} {kills} {round}: {:?}", story.writes);
            }
        }
        node.kill().unwrap();
    }
}
