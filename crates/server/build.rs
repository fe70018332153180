//! What `helenus --version` tells of the build: the commit, the profile and the machine it is for. Without git, or
//! outside of a clone, `BUILD_COMMIT` names the commit, or nothing does.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a build script asks git and talks to cargo over its output"
)]

use std::process::Command;

/// Characters of a commit's name that are told.
const COMMIT_CHARS: usize = 12;

fn main() {
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // Where HEAD moves, in a clone as in a worktree of one.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let given = std::env::var("BUILD_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    let commit = given.or_else(|| git(&["rev-parse", "HEAD"]));
    let commit: String = match commit {
        Some(commit) => commit.trim().chars().take(COMMIT_CHARS).collect(),
        None => "unknown commit".to_owned(),
    };
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=BUILD_KIND={}, {}", variable("PROFILE"), variable("TARGET"));
}

/// What git answers, if it is there and has an answer.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
