//! The binary from outside: its answers before a node runs, and when it cannot.

#![expect(clippy::unwrap_used, reason = "tests may stop at the first surprise")]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

fn helenus(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helenus"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HELENUS_")) {
        command.env_remove(name);
    }
    command.args(arguments).output().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("helenus-cli-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Fails with code 1 and exactly one line, which holds these words.
fn check_refused(arguments: &[&str], words: &[&str]) {
    let output = helenus(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    for word in words {
        assert!(text.contains(word), "{text} should say {word}");
    }
}

#[test]
fn help_and_version() {
    let version = helenus(&["--version"]);
    let text = String::from_utf8(version.stdout.clone()).unwrap();
    let start = format!("helenus {} (", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&start) && text.ends_with(")\n"), "{text}");
    // Commit, profile, target.
    assert_eq!(text.split(", ").count(), 3, "{text}");
    assert_eq!(helenus(&["version"]).stdout, version.stdout);
    for words in [["--help"].as_slice(), &["help"]] {
        let help = String::from_utf8(helenus(words).stdout).unwrap();
        for word in ["start", "config", "status", "stop", "flush", "compact", "Examples:", "--set"]
        {
            assert!(help.contains(word), "{help}");
        }
    }
    let help = String::from_utf8(helenus(&["help", "status"]).stdout).unwrap();
    assert!(help.contains("--host") && help.contains("--data-dir"), "{help}");
}

/// A node that runs already is the likeliest: its answers were taken for those of the demo's first one.
#[test]
fn a_demo_says_what_is_in_its_way() {
    let folder = scratch("demo");
    let taken = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    check_refused(
        &["demo", "--nodes", "2", "--port", &port, "--data-dir", folder.to_str().unwrap()],
        &[&format!("{address} is in use by another process"), "--port"],
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn completions_and_manual_pages_know_all_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let text = String::from_utf8(helenus(&["completions", shell]).stdout).unwrap();
        for word in ["decommission", "data-dir", "snapshots"] {
            assert!(text.contains(word), "{shell}: {text}");
        }
    }
    let page = String::from_utf8(helenus(&["man"]).stdout).unwrap();
    assert!(page.contains(".TH helenus 1") && page.contains("decommission"), "{page}");
    let page = String::from_utf8(helenus(&["man", "status"]).stdout).unwrap();
    assert!(page.contains(".TH helenus-status 1"), "{page}");
    check_refused(&["man", "dance"], &["dance", "helenus help"]);
    let folder = scratch("man");
    let pages = folder.join("pages");
    let output = helenus(&["man", "--to", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    for page in ["helenus.1", "helenus-start.1", "helenus-man.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    assert!(!pages.join("helenus-help.1").exists());
    std::fs::remove_dir_all(folder).unwrap();
}

/// The settings that the unit and the package bring.
#[test]
fn the_settings_of_the_package_are_accepted() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/helenus.toml");
    let output = helenus(&["config", "--config", file]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("/var/lib/helenus"), "{text}");
}

#[test]
fn a_printed_configuration_is_accepted() {
    let folder = scratch("config");
    let file = folder.join("node.toml");
    let printed = helenus(&["config", "--set", "server.rack=r9"]).stdout;
    std::io::Write::write_all(&mut std::fs::File::create(&file).unwrap(), &printed).unwrap();
    let again = helenus(&["config", "--config", file.to_str().unwrap()]).stdout;
    assert_eq!(String::from_utf8(again).unwrap(), String::from_utf8(printed).unwrap());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    check_refused(&["start", "--set", "server.lisen=x"], &["--set", "did you mean server.listen"]);
    check_refused(&["start", "--listen", "nowhere"], &["--listen", "\"nowhere\""]);
    check_refused(&["start", "--config", "/none.toml"], &["/none.toml"]);
    check_refused(&["status", "--data-dir", "/nowhere/at/all"], &["no node is running"]);
    check_refused(&["start", "--data-dir", "/proc/none"], &["/proc/none"]);
    check_refused(
        &["start", "--set", "auth.authorizer=cassandra"],
        &["auth.authorizer", "needs", "auth.authenticator"],
    );
    let folder = scratch("port");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check_refused(
        &["start", "--listen", &address, "--data-dir", folder.to_str().unwrap()],
        &[&address, "in use"],
    );
    std::fs::remove_dir_all(folder).unwrap();
}
