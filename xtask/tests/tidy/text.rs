//! What may stand in a tracked file.

use crate::{Tracked, assert_none, root, tracked_files};

const FILE_LINES_MAX: usize = 800;

/// Source that people read from top to bottom; data and lock files may be as long as they must.
const SOURCES: [&str; 9] = ["rs", "py", "js", "go", "java", "md", "toml", "sh", "cql"];

/// Golden scripts are data in spite of their name.
const DATA_FOLDERS: [&str; 2] = ["/golden/", "/corpus/"];

/// Files are named after what they hold; these words hold anything.
const EMPTY_WORDS: [&str; 9] =
    ["util", "utils", "helper", "helpers", "common", "misc", "manager", "info", "stuff"];

#[test]
fn files_fit_the_head() {
    let is_source = |file: &&Tracked| {
        SOURCES.contains(&file.extension())
            && !DATA_FOLDERS.iter().any(|folder| file.path.contains(folder))
    };
    let mut complaints = Vec::new();
    for file in tracked_files().iter().filter(is_source) {
        let count = file.text.lines().count();
        if count > FILE_LINES_MAX {
            complaints.push(format!("{}: {count} lines", file.path));
        }
    }
    assert_none("a file longer than 800 lines", complaints);
}

#[test]
fn files_are_named_after_what_they_hold() {
    let empty: Vec<String> = tracked_files()
        .into_iter()
        .filter(|file| file.extension() == "rs")
        .filter(|file| file.path.split(['/', '.']).any(|word| EMPTY_WORDS.contains(&word)))
        .map(|file| file.path)
        .collect();
    assert_none("a file or folder whose name says nothing", empty);
}

#[test]
fn every_crate_root_says_what_it_is() {
    let mut complaints = Vec::new();
    for file in tracked_files() {
        let is_root = ["src/lib.rs", "src/main.rs"].iter().any(|name| file.path.ends_with(name));
        let is_ours = file.path.starts_with("crates/") || file.path.starts_with("xtask/");
        if is_root && is_ours && !file.text.starts_with("//!") {
            complaints.push(file.path);
        }
    }
    assert_none("a crate root without `//!` at its top", complaints);
}

#[test]
fn nothing_is_left_for_later() {
    // In pieces, so that this file does not find itself.
    let words = [concat!("FIX", "ME"), concat!("XX", "X")];
    let found =
        find(|line| words.iter().find(|word| has_word(line, word)).map(|word| word.to_string()));
    assert_none("a mark of unfinished work; do it, or open an issue", found);
}

#[test]
fn no_path_or_host_of_one_machine() {
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let hosts = [
        concat!("art", "ifactory"),
        concat!("index.cra", "tes.io"),
        concat!("static.cra", "tes.io"),
        concat!("registry.np", "mjs.org"),
        concat!("repo.maven.apa", "che.org"),
        concat!("repo1.ma", "ven.org"),
        concat!("proxy.go", "lang.org"),
        concat!("py", "pi.org"),
        concat!("files.pythonho", "sted.org"),
    ];
    let found = find(|line| {
        let path = paths.iter().find(|path| has_absolute_path(line, path));
        path.or_else(|| hosts.iter().find(|host| line.contains(**host)))
            .map(|found| found.to_string())
    });
    assert_none("a path or a registry that other machines do not have", found);
}

#[test]
fn the_command_of_ci_is_the_command_of_the_readme() {
    let script = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(script.contains("cargo xtask test"), "{script}");
}

/// One complaint for each line in which the rule finds something.
fn find(rule: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tracked_files() {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(found) = rule(line) {
                complaints.push(format!("{}:{}: {found}", file.path, index + 1));
            }
        }
    }
    complaints
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_inside = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].ends_with(is_inside) && !line[at + word.len()..].starts_with(is_inside)
    })
}

/// The path at the start of a path, not as a part of a longer one.
fn has_absolute_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at]
            .ends_with(|c: char| c.is_alphanumeric() || ['_', '-', '.', '}', '*', '~'].contains(&c))
    })
}

#[test]
fn words_and_paths_are_found_whole() {
    assert!(has_word("// ABC: later", "ABC"));
    assert!(!has_word("ABCD ZABC", "ABC"));
    assert!(has_absolute_path("see /abc/x", "/abc/"));
    assert!(!has_absolute_path("tests/abc/x", "/abc/"));
}
