//! Who comes in, how, and what they may hold up: secrets, logins, half-sent messages, and a node whose surroundings go.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and measures real time"
)]

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::Response;
use testkit::{Client, Ends, Execution, Node, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");
const LOGIN: [&str; 2] = ["--set", "auth.authenticator=password"];

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("helenus-doors-{}-{name}", std::process::id()))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn ask(client: &mut Client, text: &str) -> Result<(), String> {
    match client.query(text, &Execution::default()) {
        Err(error) => Err(error.to_string()),
        Ok(answer) => match answer.response {
            Response::Error(error) => Err(error.message.to_string()),
            _ => Ok(()),
        },
    }
}

#[test]
fn what_a_node_keeps_is_for_its_user_alone() {
    let mut node = Node::start(Path::new(BINARY), &LOGIN).unwrap();
    let data = node.data_dir().to_owned();
    let roles = data.join("documents/roles");
    node.output().unwrap();
    let all = [&data, &data.join("documents"), &roles].map(|path| mode(path));
    assert_eq!(all, [0o700, 0o700, 0o600]);
    // As an earlier version left it.
    node.stop().unwrap();
    for path in [&data, &data.join("documents")] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&roles, Permissions::from_mode(0o644)).unwrap();
    node.launch().unwrap();
    node.output().unwrap();
    let all = [&data, &data.join("documents"), &roles].map(|path| mode(path));
    assert_eq!(all, [0o700, 0o700, 0o600]);
    let command = |words: &[&str]| {
        let output =
            Command::new(BINARY).args(words).arg("--data-dir").arg(&data).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    command(&["snapshot", "kept"]);
    assert_eq!(mode(&data.join("snapshots")), 0o700);
    assert_eq!(mode(&data.join("snapshots/kept/documents/roles")), 0o600);
}

/// A message of version 4, header and body.
fn message(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![4, 0, 0, 1, opcode];
    bytes.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn startup() -> Vec<u8> {
    let mut body = vec![0, 1];
    for text in ["CQL_VERSION", "3.0.0"] {
        body.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend_from_slice(text.as_bytes());
    }
    message(1, &body)
}

/// Connects from an address of this machine.
fn connect(from: [u8; 4], to: &str) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.into()
}

/// The opcode of the next answer, and its body.
fn answer(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body)?;
    Ok((head[4], body))
}

const AUTH_SUCCESS: u8 = 0x10;

/// Logs in; whether that went well.
fn log_in(from: [u8; 4], to: &str, name: &str, password: &str) -> std::io::Result<bool> {
    let mut stream = connect(from, to);
    stream.write_all(&startup())?;
    answer(&mut stream)?;
    let token = format!("\0{name}\0{password}");
    let mut body = u32::try_from(token.len()).unwrap().to_be_bytes().to_vec();
    body.extend_from_slice(token.as_bytes());
    stream.write_all(&message(0x0f, &body))?;
    Ok(answer(&mut stream)?.0 == AUTH_SUCCESS)
}

#[test]
fn who_guesses_passwords_keeps_nobody_else_waiting() {
    const GUESSERS: usize = 64;
    /// Some checks of a password, and on a machine with other work far less of them than guessers wait for.
    const PATIENCE: Duration = Duration::from_secs(2);
    const GUESSES_MAX: u64 = GUESSERS as u64 / 2;
    let node = Node::start(Path::new(BINARY), &LOGIN).unwrap();
    let address = node.address();
    let mut admin = Client::connect_as(&address, "cassandra", "cassandra").unwrap();
    ask(&mut admin, "CREATE ROLE ann WITH LOGIN = true AND PASSWORD = 'secret'").unwrap();
    let (is_over, guesses) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _ends = Ends(&is_over);
        for _ in 0..GUESSERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = log_in([127, 0, 0, 1], &address, "cassandra", "wrong");
                    guesses.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let guessed = || guesses.load(Ordering::Relaxed);
        let begun = || (guessed() >= 8).then_some(());
        eventually("somebody guesses", Duration::from_secs(60), begun).unwrap();
        let timed = |from, name, password| {
            let (begin, before) = (Instant::now(), guessed());
            let is_in = log_in(from, &address, name, password).unwrap();
            (is_in, begin.elapsed(), guessed() - before)
        };
        let seen = [
            // From elsewhere, never checked before; then known, from where the guesses come from.
            timed([127, 0, 0, 2], "ann", "secret"),
            timed([127, 0, 0, 1], "ann", "secret"),
            timed([127, 0, 0, 1], "cassandra", "cassandra"),
        ];
        eprintln!("logins beside {GUESSERS} guessers: {seen:?}");
        // What is known is not enough: a password that was changed does not work any more.
        ask(&mut admin, "ALTER ROLE ann WITH PASSWORD = 'other'").unwrap();
        let (old, ..) = timed([127, 0, 0, 3], "ann", "secret");
        let (new, ..) = timed([127, 0, 0, 4], "ann", "other");
        is_over.store(true, Ordering::Relaxed);
        assert!(seen.iter().all(|(is_in, ..)| *is_in), "{seen:?}");
        let waited_little =
            |took: &Duration, guessed: &u64| *took < PATIENCE || *guessed < GUESSES_MAX;
        assert!(seen.iter().all(|(_, took, guessed)| waited_little(took, guessed)), "{seen:?}");
        assert!(!old && new);
    });
}

fn resident_bytes(node: &Node) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/statm", node.process_id().unwrap())).unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn half_a_message_before_the_login_holds_little() {
    const CONNECTIONS: usize = 60;
    let node = Node::start(Path::new(BINARY), &LOGIN).unwrap();
    let before = resident_bytes(&node);
    let mut kept = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = connect([127, 0, 0, 1], &node.address());
        stream.write_all(&startup()).unwrap();
        answer(&mut stream).unwrap();
        // All but the last byte of what is the longest request of one who is logged in.
        let whole = message(0x0f, &vec![7; (16 << 20) - 9]);
        let _ = stream.write_all(&whole[..whole.len() - 1]);
        // It is refused at once, by its head.
        let (opcode, body) = answer(&mut stream).unwrap();
        assert_eq!(opcode, 0, "{body:?}");
        kept.push(stream);
    }
    let grown = resident_bytes(&node).saturating_sub(before);
    eprintln!("{CONNECTIONS} half-sent messages hold {grown} bytes");
    assert!(grown < 64 << 20, "{grown}");
}

#[test]
fn the_cosmos_profile_has_a_key_of_its_own_and_looks_at_permissions() {
    let settings = ["--profile", "cosmos", "--set", "tls.mode=off"];
    let mut node = Node::start(Path::new(BINARY), &settings).unwrap();
    let greeting = node.output().unwrap();
    let key = greeting.split_whitespace().next_back().unwrap().to_owned();
    assert!(greeting.contains("account key") && key.len() == 64, "{greeting}");
    assert!(Client::connect_as(&node.address(), "cassandra", "cassandra").is_err());
    let mut admin = Client::connect_as(&node.address(), "cassandra", &key).unwrap();
    ask(&mut admin, "CREATE KEYSPACE k").unwrap();
    ask(&mut admin, "CREATE TABLE k.t (n int PRIMARY KEY)").unwrap();
    ask(&mut admin, "CREATE ROLE ann WITH LOGIN = true AND PASSWORD = 'secret'").unwrap();
    let mut ann = Client::connect_as(&node.address(), "ann", "secret").unwrap();
    assert!(ask(&mut ann, "SELECT * FROM k.t").is_err());
    ask(&mut admin, "GRANT SELECT ON k.t TO ann").unwrap();
    ask(&mut ann, "SELECT * FROM k.t").unwrap();
    node.stop().unwrap();
    node.launch().unwrap();
    Client::connect_as(&node.address(), "cassandra", &key).unwrap();
    assert!(!node.output().unwrap().contains("account key"));
}

/// A script that runs a node with its standard error stream somewhere else.
fn with_stderr(name: &str, target: &str) -> PathBuf {
    let script = folder(name);
    fs::write(&script, format!("#!/bin/sh\nexec {BINARY} \"$@\" 2>{target}\n")).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    script
}

#[test]
fn a_log_that_nobody_takes_is_no_reason_to_stop() {
    for level in ["debug", "info"] {
        let script = with_stderr(&format!("{level}.sh"), "/dev/full");
        let setting = format!("log.level={level}");
        let settings = ["--set", setting.as_str()];
        let mut node = Node::start_on(&script, &folder(level), &settings).unwrap();
        let mut client = Client::connect(&node.address()).unwrap();
        ask(&mut client, "SELECT key FROM system.local").unwrap();
        node.stop().unwrap();
        fs::remove_file(script).unwrap();
    }
}

#[test]
fn a_node_whose_folder_is_removed_acknowledges_nothing_more_and_stops() {
    let told = folder("removed.err");
    let script = with_stderr("removed.sh", told.to_str().unwrap());
    let mut node = Node::start_on(&script, &folder("removed"), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    ask(
        &mut client,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .unwrap();
    ask(&mut client, "CREATE TABLE k.t (n int PRIMARY KEY)").unwrap();
    ask(&mut client, "INSERT INTO k.t (n) VALUES (0)").unwrap();
    fs::remove_dir_all(node.data_dir()).unwrap();
    let mut acknowledged = 0;
    for number in 1..100 {
        if ask(&mut client, &format!("INSERT INTO k.t (n) VALUES ({number})")).is_ok() {
            acknowledged += 1;
        }
    }
    assert_eq!(acknowledged, 0);
    let status = node.wait().unwrap().expect("it goes on without its folder");
    assert_eq!(status.code(), Some(1));
    let text = fs::read_to_string(&told).unwrap();
    assert!(text.contains("was removed, moved or replaced"), "{text}");
    for path in [script, told] {
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn what_is_the_nodes_own_is_not_split() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    node.output().unwrap();
    for space in ["system", "system_schema"] {
        let mut command = Command::new(BINARY);
        let output =
            command.args(["split", space, "--data-dir"]).arg(node.data_dir()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains("never split"), "{text}");
    }
}
