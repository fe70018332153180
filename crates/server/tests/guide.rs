//! The chapter on partitions, `docs/guide/partitioning.md`: its statements run as they are printed, and the commands print
//! what the page says, but for times and rates. What `cqlsh` prints of its first program is compared by `cargo xtask e2e`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test drives a real process and may stop at the first surprise"
)]

use std::path::Path;
use std::process::Command;

use protocol::Response;
use testkit::{Client, Execution, Node};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");

/// The code blocks of the page: language and content.
fn blocks() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/partitioning.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let content: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((language.to_owned(), content.join("\n")));
        }
    }
    blocks
}

/// Without what differs from run to run: numbers of sets, times and rates. Tokens and sizes stay.
fn masked(text: &str) -> String {
    let word = |word: &str| {
        let digits = word.trim_end_matches(',');
        let is_small = digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_measured = word.contains('.') && word.parse::<f64>().is_ok();
        if is_measured || is_small { "#".to_owned() } else { word.to_owned() }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<String>>().join(" ");
    text.lines().map(line).collect::<Vec<String>>().join("\n")
}

fn run(node: &Node, command: &str) -> String {
    let mut words = command.split_whitespace();
    assert_eq!(words.next(), Some("helenus"), "{command}");
    let output =
        Command::new(BINARY).args(words).arg("--data-dir").arg(node.data_dir()).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn tell(client: &mut Client, text: &str) -> (Vec<String>, Option<String>) {
    let message = client.query(text, &Execution::default()).unwrap();
    let warnings = message.warnings.iter().map(ToString::to_string).collect();
    match message.response {
        Response::Error(error) => (warnings, Some(error.message.to_string())),
        _ => (warnings, None),
    }
}

#[test]
fn the_chapter_on_partitions_is_true() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let small = ["--set", "limits.logical_partition_bytes=1KB"];
    let small_node = Node::start(Path::new(BINARY), &small).unwrap();
    let mut clients = [&node, &small_node].map(|node| Client::connect(&node.address()).unwrap());
    let (mut commands, mut limits) = (0, Vec::new());
    for (language, content) in blocks() {
        match language.as_str() {
            "sql" => {
                let is_limit = content.contains("400 characters");
                let content = content.replace("400 characters … ", &"x".repeat(400));
                for statement in content.split(';').filter(|it| !it.trim().is_empty()) {
                    let used = if is_limit { &mut clients[1..] } else { &mut clients[..] };
                    for client in used {
                        let (warnings, refusal) = tell(client, statement);
                        assert!(refusal.is_none() || is_limit, "{statement}: {refusal:?}");
                        let told = warnings.into_iter().chain(refusal);
                        limits.extend(told.filter(|text| text.starts_with("Logical partition")));
                    }
                }
            }
            "sh" => {
                for part in content.split("$ helenus").skip(1) {
                    let (words, printed) = part.split_once('\n').unwrap();
                    let found = run(&node, &format!("helenus{words}"));
                    assert_eq!(masked(&found), masked(printed.trim_end()), "helenus{words}");
                    commands += 1;
                }
            }
            "text" if content.starts_with("Logical partition") => {
                assert_eq!(limits, content.lines().collect::<Vec<&str>>());
            }
            _ => {}
        }
    }
    assert_eq!(commands, 5);
    assert_eq!(limits.len(), 2, "{limits:?}");
}
