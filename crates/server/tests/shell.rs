//! `helenus cql` as people and scripts use it: the tasks of a day print what cqlsh prints, and what it can beyond that.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use testkit::{Node, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
/// So long anything may take that does not fail.
const SOON: Duration = Duration::from_secs(60);

/// A folder of its own for a test, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("helenus-shell-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shell(node: &Node, folder: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["cql", &node.address(), "--no-history"]).current_dir(folder);
    command.env_remove("HELENUS_PASSWORD").stdin(Stdio::null());
    command
}

fn texts(output: &Output) -> (String, String, i32) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap())
}

fn run(node: &Node, folder: &Path, arguments: &[&str]) -> (String, String, i32) {
    texts(&shell(node, folder).args(arguments).output().unwrap())
}

/// What must succeed, without a word of complaint.
fn good(node: &Node, folder: &Path, arguments: &[&str]) -> String {
    let (output, errors, code) = run(node, folder, arguments);
    assert_eq!((errors.as_str(), code), ("", 0), "{arguments:?}: {output}");
    output
}

fn without_blanks_at_the_end(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Runs a task and tells it as `golden/record_shell.py` does.
fn told(node: &Node, folder: &Path, name: &str, script: &str) -> String {
    std::fs::write(folder.join("task.cql"), script).unwrap();
    let (output, errors, code) = run(node, folder, &["-f", "task.cql"]);
    let mut told = format!("=== {name}\n");
    if !output.is_empty() {
        told += &without_blanks_at_the_end(output.trim_end_matches('\n'));
    }
    if !errors.is_empty() {
        told += "--- errors\n";
        for line in errors.lines() {
            // cqlsh counts lines otherwise.
            let place = line.strip_prefix("task.cql:").and_then(|rest| rest.split_once(':'));
            told += &format!("{}\n", place.map_or(line, |(_, error)| error).trim_end());
        }
    }
    told + &format!("--- code {code}\n")
}

fn sections(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("=== ").skip(1);
    parts.map(|part| part.split_once('\n').unwrap()).collect()
}

#[test]
fn the_tasks_of_a_day_print_what_cqlsh_prints() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let tasks = std::fs::read_to_string(golden.join("shell.tasks")).unwrap();
    let expected = std::fs::read_to_string(golden.join("shell.out")).unwrap();
    let (tasks, expected) = (sections(&tasks), sections(&expected));
    assert!(tasks.len() >= 50, "only {} tasks", tasks.len());
    assert_eq!(
        tasks.len(),
        expected.len(),
        "shell.out is not that of shell.tasks: record it again"
    );
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let folder = Scratch::new("golden");
    let mut differences = Vec::new();
    for ((name, script), (expected_name, expected)) in tasks.iter().zip(&expected) {
        assert_eq!(name, expected_name);
        let told = told(&node, &folder.0, name, script);
        let expected = format!("=== {name}\n{expected}");
        if told != expected {
            differences.push(format!("expected {expected}\ngot {told}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{} tasks differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

const SCHEMA: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
     CREATE TABLE shop.orders (id int PRIMARY KEY, note text, tags set<text>, price decimal, at timestamp, \
     place vector<float, 2>, took duration, ok boolean); \
     INSERT INTO shop.orders (id, note, tags, price, at, place, took, ok) VALUES (1, 'a \"note\", \\ it''s\nlong', \
     {'x', 'it''s'}, 1.50, '2026-11-17 15:45:22.123+0000', [0.1, -2], 1h30m, true); \
     INSERT INTO shop.orders (id, note) VALUES (2, '');";

#[test]
fn rows_for_other_programs() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let folder = Scratch::new("formats");
    good(&node, &folder.0, &["-e", SCHEMA]);
    let select = "SELECT id, note, place, took FROM shop.orders WHERE id IN (1, 2)";
    assert_eq!(
        good(&node, &folder.0, &["--json", "-e", select]),
        "{\"id\": 1, \"note\": \"a \\\"note\\\", \\\\ it's\\nlong\", \"place\": [0.1, -2.0], \"took\": \"1h30m\"}\n\
         {\"id\": 2, \"note\": \"\", \"place\": null, \"took\": null}\n"
    );
    assert_eq!(
        good(
            &node,
            &folder.0,
            &[
                "--csv",
                "-k",
                "shop",
                "-e",
                "SELECT id, note, place, took FROM orders WHERE id IN (1, 2);"
            ]
        ),
        "id,note,place,took\n1,\"a \"\"note\"\", \\ it's\nlong\",\"[0.1, -2.0]\",1h30m\n2,\"\",,\n"
    );
    // Remarks do not come between the rows.
    let (output, errors, _) =
        run(&node, &folder.0, &["--csv", "-e", "COST ON; SELECT id FROM shop.orders WHERE id = 1"]);
    assert_eq!(output, "id\n1\n");
    assert!(errors.starts_with("COST set to ON\ncost: 1.00 RU, "), "{errors}");
    // A pipe, and what it holds at its end.
    let mut child = shell(&node, &folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"USE shop;\nSELECT id\nFROM orders\nWHERE id = 1;\nDESCRIBE TABLES\nSELECT id FROM orders").unwrap();
    drop(input);
    let (output, errors, code) = texts(&child.wait_with_output().unwrap());
    assert_eq!(output, "\n id\n----\n  1\n\n(1 rows)\n\norders\n\n");
    assert_eq!((errors.as_str(), code), ("<stdin>:6:Incomplete statement at end of file\n", 2));
}

#[test]
fn tables_are_copied_to_files_and_back() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let folder = Scratch::new("copy");
    good(&node, &folder.0, &["-e", SCHEMA]);
    let all = "SELECT * FROM shop.orders";
    let before = good(&node, &folder.0, &["--json", "-e", all]);
    for options in [
        "",
        "WITH HEADER = true",
        "WITH DELIMITER = '|' AND QUOTE = '''' AND HEADER = TRUE AND BOOLSTYLE = 'yes,no'",
    ] {
        let copied =
            good(&node, &folder.0, &["-e", &format!("COPY shop.orders TO 'orders.csv' {options}")]);
        assert!(copied.starts_with("2 rows exported in "), "{copied}");
        good(&node, &folder.0, &["-e", "TRUNCATE shop.orders"]);
        let copied = good(
            &node,
            &folder.0,
            &["-k", "shop", "-e", &format!("COPY orders FROM 'orders.csv' {options}")],
        );
        assert!(copied.starts_with("2 rows imported in "), "{copied}");
        assert_eq!(good(&node, &folder.0, &["--json", "-e", all]), before, "{options}");
    }
    let csv = good(
        &node,
        &folder.0,
        &["-e", "COPY shop.orders (id, price, ok) TO STDOUT WITH HEADER = true AND NULL = '-'"],
    );
    let mut lines: Vec<&str> = csv.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1,1.50,True", "2,-,-", "id,price,ok"]);
    // A line that cannot be read is told, and what stood before it is there.
    std::fs::write(folder.0.join("wrong.csv"), "7,seven\n8,eight\nnine,9\n10,ten\n").unwrap();
    let (_, errors, code) =
        run(&node, &folder.0, &["-e", "COPY shop.orders (id, note) FROM 'wrong.csv'"]);
    assert_eq!(code, 2);
    assert!(
        errors.contains("line 3: column id") && errors.contains("2 rows before it are imported"),
        "{errors}"
    );
    let there = good(
        &node,
        &folder.0,
        &["--csv", "-e", "SELECT id FROM shop.orders WHERE id IN (7, 8, 9, 10)"],
    );
    assert_eq!(there, "id\n7\n8\n");
    // From what is piped in.
    let mut child = shell(&node, &folder.0)
        .args(["-e", "COPY shop.orders (id, note) FROM STDIN WITH SKIPROWS = 1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"20,a\n21,b\n22,c\n").unwrap();
    let (output, _, code) = texts(&child.wait_with_output().unwrap());
    assert!(output.starts_with("2 rows imported") && code == 0, "{output}");
    for (statement, complaint) in [
        ("COPY shop.nothing TO 'x'", "Table shop.nothing not found"),
        ("COPY orders TO 'x'", "Not in any keyspace"),
        ("COPY shop.orders (nothing) TO 'x'", "Invalid column name nothing"),
        ("COPY shop.orders TO 'x' WITH NUMPROCESSES = 4", "COPY has no option NUMPROCESSES"),
        ("COPY shop.orders FROM 'nowhere.csv'", "Can't open \"nowhere.csv\""),
    ] {
        let (_, errors, code) = run(&node, &folder.0, &["-e", statement]);
        assert!(errors.contains(complaint) && code == 2, "{statement}: {errors}");
    }
}

#[test]
fn cost_tracing_source_and_capture() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let folder = Scratch::new("commands");
    good(&node, &folder.0, &["-e", SCHEMA]);
    let script = "COST ON;\nINSERT INTO shop.orders (id, note) VALUES (9, 'new');\nSELECT id FROM shop.orders WHERE id = 9;\nCOST OFF;";
    std::fs::write(folder.0.join("cost.cql"), script).unwrap();
    let output = good(&node, &folder.0, &["-f", "cost.cql"]);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "COST set to ON");
    assert!(lines[1].starts_with("cost: 4.95 RU, ") && lines[1].ends_with(" ms"), "{output}");
    assert!(
        lines[2].starts_with("plan: write a new row in shop.orders")
            && lines[2].ends_with("(estimated 4.95 RU)"),
        "{output}"
    );
    assert!(
        output.contains("(1 rows)\ncost: 1.00 RU, ")
            && output.contains("plan: read a row of shop.orders by its key"),
        "{output}"
    );

    let output =
        good(&node, &folder.0, &["-e", "TRACING ON; SELECT id FROM shop.orders WHERE id = 9"]);
    assert!(output.contains("Tracing session: ") && output.contains(" activity "), "{output}");
    assert!(output.contains("Request complete | "), "{output}");

    std::fs::write(
        folder.0.join("inner.cql"),
        "SELECT id FROM shop.orders WHERE id = 1;\n\nSELECT nothing FROM shop.orders;\n",
    )
    .unwrap();
    let (output, errors, code) = run(
        &node,
        &folder.0,
        &["-e", "SOURCE 'inner.cql'; SELECT id FROM shop.orders WHERE id = 2"],
    );
    assert!(output.contains("\n  1\n") && output.contains("\n  2\n") && code == 2, "{output}");
    assert!(errors.starts_with("inner.cql:3:InvalidRequest: "), "{errors}");

    good(
        &node,
        &folder.0,
        &["-e", "CAPTURE 'kept'; SELECT id FROM shop.orders WHERE id = 1; CAPTURE OFF"],
    );
    assert_eq!(
        std::fs::read_to_string(folder.0.join("kept")).unwrap(),
        "\n id\n----\n  1\n\n(1 rows)\n"
    );

    let output =
        good(&node, &folder.0, &["-e", "SHOW VERSION; SHOW HOST; HELP COPY; EXIT; SELECT nothing"]);
    let lines: Vec<&str> = output.lines().collect();
    assert!(
        lines[0].starts_with("[helenus cql ") && lines[0].ends_with("| Native protocol v5]"),
        "{output}"
    );
    assert!(
        lines[1].starts_with("Connected to ") && lines[1].ends_with(&node.address()),
        "{output}"
    );
}

#[test]
fn who_cannot_come_in_is_told_what_to_do() {
    let folder = Scratch::new("doors");
    let nobody = Command::new(BINARY).args(["cql", "127.0.0.1:1", "-e", "x"]).output().unwrap();
    let (_, errors, code) = texts(&nobody);
    assert!(errors.contains("cannot reach a node on 127.0.0.1:1") && code == 1, "{errors}");

    let node = Node::start(Path::new(BINARY), &["--set", "auth.authenticator=password"]).unwrap();
    let (_, errors, code) = run(&node, &folder.0, &["-e", "x"]);
    assert!(errors.contains("the node wants a login: give -u ROLE") && code == 1, "{errors}");
    let (_, errors, code) = run(&node, &folder.0, &["-u", "cassandra", "-p", "wrong", "-e", "x"]);
    assert!(errors.contains("and/or password are incorrect") && code == 1, "{errors}");
    std::fs::write(folder.0.join("secret"), "cassandra\n").unwrap();
    let count = "SELECT count(*) FROM system_auth.roles";
    for arguments in
        [["-u", "cassandra", "-p", "cassandra"], ["-u", "cassandra", "--password-file", "secret"]]
    {
        let (output, errors, code) =
            run(&node, &folder.0, &[&arguments[..], &["--csv", "-e", count]].concat());
        assert!(output.starts_with("count\n") && code == 0, "{output} {errors}");
    }
    let mut command = shell(&node, &folder.0);
    command.env("HELENUS_PASSWORD", "cassandra").args([
        "-u",
        "cassandra",
        "-e",
        "LOGIN nobody 'x'; LIST ROLES",
    ]);
    let (output, errors, code) = texts(&command.output().unwrap());
    assert!(errors.contains("and/or password are incorrect") && code == 2, "{errors}");
    assert!(output.contains("cassandra"), "the login of before goes on: {output}");
}

/// The cosmos profile: TLS with a certificate that the node made for itself, and a password.
#[test]
fn with_tls_and_a_password() {
    let node = Node::start(Path::new(BINARY), &["--profile", "cosmos"]).unwrap();
    let folder = Scratch::new("tls");
    // Shown once, as the last word.
    let greeting = node.output().unwrap();
    std::fs::write(folder.0.join("secret"), greeting.split_whitespace().next_back().unwrap())
        .unwrap();
    let data_dir = node.data_dir().to_str().unwrap();
    let certificate = node.data_dir().join("tls/certificate.pem");
    let ask = [
        "-u",
        "cassandra",
        "--password-file",
        "secret",
        "--csv",
        "-e",
        "SELECT key FROM system.local",
    ];
    for trust in [
        &["--tls", "--data-dir", data_dir][..],
        &["--ca", certificate.to_str().unwrap()],
        &["--insecure"],
    ] {
        assert_eq!(good(&node, &folder.0, &[trust, &ask].concat()), "key\nlocal\n", "{trust:?}");
    }
    let (_, errors, code) = run(&node, &folder.0, &ask);
    assert!(errors.contains("the node wants TLS: give --tls") && code == 1, "{errors}");
    let other = Node::start(Path::new(BINARY), &["--profile", "cosmos"]).unwrap();
    let foreign = other.data_dir().join("tls/certificate.pem");
    let (_, errors, code) =
        run(&node, &folder.0, &[&["--ca", foreign.to_str().unwrap()], &ask[..]].concat());
    assert!(errors.contains("certificate") && code == 1, "{errors}");
}

/// The page of the guide: its commands run as they are printed, and print what it says, but for times.
#[test]
fn the_guide_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/cql.md");
    let page = std::fs::read_to_string(page).unwrap();
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let folder = Scratch::new("guide");
    let path = format!(
        "{}:{}",
        Path::new(BINARY).parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let untimed = |text: &str| {
        let line =
            |line: &str| match line.strip_suffix(" ms").and_then(|line| line.rsplit_once(' ')) {
                Some((before, _)) => format!("{before} # ms\n"),
                None => format!("{line}\n"),
            };
        text.lines().map(line).collect::<String>()
    };
    let mut lines = page.lines();
    let (mut file, mut output, mut compared) = (None, String::new(), 0);
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("<!-- file: ") {
            file = name.strip_suffix(" -->");
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: String = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .map(|line| format!("{line}\n"))
            .collect();
        match language {
            "sql" => std::fs::write(folder.0.join(file.take().unwrap()), block).unwrap(),
            // What opens a shell for a person is tried elsewhere.
            "sh" if !block.contains("-e ") && !block.contains("-f ") => {}
            "sh" => {
                let mut command = Command::new("sh");
                command.args(["-ec", &block]).current_dir(&folder.0).stdin(Stdio::null());
                command.env("PATH", &path).env("HELENUS_SERVER_LISTEN", node.address());
                let ran = texts(&command.output().unwrap());
                assert_eq!((ran.1.as_str(), ran.2), ("", 0), "{block}");
                output = ran.0;
            }
            "text" => {
                assert_eq!(untimed(&output), untimed(&block));
                compared += 1;
            }
            other => panic!("a block in {other}"),
        }
    }
    assert_eq!(compared, 5);
}

/// A shell on a terminal of its own: what is typed, and what is seen.
struct Typed {
    terminal: std::fs::File,
    seen: mpsc::Receiver<Vec<u8>>,
    text: String,
}

impl Typed {
    fn start(command: &mut Command) -> (Typed, std::process::Child) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let open = || {
            let file = std::fs::File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap())
                .unwrap();
            Stdio::from(file)
        };
        let child = command
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let terminal = std::fs::File::from(controller);
        let mut reader = terminal.try_clone().unwrap();
        let (sender, seen) = mpsc::sync_channel(1024);
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count) = reader.read(&mut chunk) {
                if count == 0 || sender.send(chunk[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        (Typed { terminal, seen, text: String::new() }, child)
    }

    fn type_keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the words were seen, and forgets everything up to them.
    fn wait_for(&mut self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.text.find(words) {
                let behind = self.text.split_off(at + words.len());
                return std::mem::replace(&mut self.text, behind);
            }
            let left = SOON.saturating_sub(begun.elapsed());
            let Ok(bytes) = self.seen.recv_timeout(left) else {
                panic!("{words:?} was not seen but {:?}", self.text);
            };
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
}

fn signal(which: &str, process: u32) {
    let done = Command::new("kill").args([which, &process.to_string()]).status().unwrap();
    assert!(done.success(), "{which} {process}");
}

/// Has a process do nothing at all until it is to go on. A signal that was sent was not yet heard.
fn pause(process: u32) {
    signal("-STOP", process);
    let is_paused = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let (_, state) = stat.rsplit_once(')').unwrap();
        state.trim_start().starts_with('T').then_some(())
    };
    eventually("it is paused", SOON, is_paused).unwrap();
}

#[test]
fn a_person_at_a_terminal() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let folder = Scratch::new("typed");
    good(&node, &folder.0, &["-e", SCHEMA]);
    let mut command = Command::new(BINARY);
    command.args(["cql", &node.address()]).env("HOME", &folder.0).current_dir(&folder.0);
    let (mut typed, mut child) = Typed::start(&mut command);
    typed.wait_for("Use HELP for help.");
    typed.wait_for("cql> ");
    // Names are completed; a statement goes on over lines until its semicolon.
    typed.type_keys("us\tsh\t;\r");
    typed.wait_for("cql:shop> ");
    typed.type_keys("SELECT id, note\r");
    typed.wait_for("a statement ends with ;");
    typed.type_keys("FR\tord\tWHERE id = 2;\r");
    let seen = typed.wait_for("(1 rows)");
    // Numbers are green, the key's name is red.
    assert!(
        seen.contains("\x1b[0;1;32m2\x1b[0m") && seen.contains("\x1b[0;1;31mid\x1b[0m"),
        "{seen:?}"
    );
    typed.wait_for("cql:shop> ");
    // What was begun is dropped.
    typed.type_keys("SELECT broken FROM\x03");
    typed.wait_for("cql:shop> ");
    // Of lines that come at once none is lost.
    typed.type_keys("CONSISTENCY ALL\rCONSISTENCY QUORUM\rCONSISTENCY ONE\r");
    for level in ["ALL", "QUORUM", "ONE"] {
        typed.wait_for(&format!("Consistency level set to {level}."));
        typed.wait_for("cql:shop> ");
    }
    // Pages wait for a key.
    typed.type_keys("INSERT INTO orders (id) VALUES (3);\r");
    typed.wait_for("cql:shop> ");
    typed.type_keys("PAGING 1\r");
    typed.wait_for("Page size: 1");
    typed.wait_for("cql:shop> ");
    typed.type_keys("SELECT id FROM orders;\r");
    typed.wait_for("---MORE---");
    // One key is enough, without Enter.
    typed.type_keys(" ");
    typed.wait_for("---MORE---");
    typed.type_keys("q");
    typed.wait_for("(2 rows)");
    typed.wait_for("cql:shop> ");
    typed.type_keys("SELECT id FROM orders;\r");
    typed.wait_for("---MORE---");
    // Whoever shows this has begun, and hears the first one.
    signal("-INT", child.id());
    typed.wait_for("(1 rows)");
    typed.wait_for("cql:shop> ");
    // An answer that does not come is not waited for, nor is what was typed behind it done; the shell goes on, over a connection of its own.
    pause(node.process_id().unwrap());
    typed.type_keys("SELECT id FROM orders; CREATE TABLE later (id int PRIMARY KEY);\r");
    // Letters are seen as they are typed; the next line is begun when all of them were taken.
    typed.wait_for("KEY);");
    typed.wait_for("\n");
    // Once is enough, however early it comes.
    signal("-INT", child.id());
    typed.wait_for("Cancelled");
    typed.wait_for("cql:shop> ");
    signal("-CONT", node.process_id().unwrap());
    typed.type_keys("SELECT id FROM later;\r");
    typed.wait_for("code=2200");
    typed.wait_for("cql:shop> ");
    typed.type_keys("SELECT nothing FROM orders;\r");
    typed.wait_for("InvalidRequest: Error from server: code=2200");
    typed.wait_for("cql:shop> ");
    typed.type_keys("CREATE ROLE x WITH PASSWORD = 'secret';\r");
    typed.wait_for("cql:shop> ");
    typed.type_keys("HISTORY 2\r");
    typed.wait_for("SELECT nothing FROM orders;");
    // Only who is asked for a line is told that there is none.
    typed.wait_for("cql:shop> ");
    typed.type_keys("\x04");
    let ended = eventually("the shell ends", SOON, || child.try_wait().unwrap()).unwrap();
    assert_eq!(ended.code(), Some(0));
    let history = std::fs::read_to_string(folder.0.join(".helenus/cql_history")).unwrap();
    assert!(history.contains("FROM orders WHERE id = 2;"), "{history}");
    assert!(!history.contains("secret"), "{history}");
}
