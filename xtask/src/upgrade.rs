//! A cluster of an older binary, upgraded node by node under load.

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::place;
use crate::process::{cargo, run_quietly, run_visibly};

/// `cargo xtask upgrade --from COMMIT`: builds that commit beside this one, and runs `server/tests/cluster/upgraded.rs` with it. With
/// `--binary FILE` a binary that is there already.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let old = match words.as_slice() {
        ["--from", commit] => build(commit)?,
        ["--binary", file] => PathBuf::from(file),
        _ => return Err("upgrade needs --from COMMIT or --binary FILE".to_owned()),
    };
    let mut test = cargo(&["test", "--locked", "-p", "server", "--test", "cluster", "--"]);
    test.args(["--ignored", "--nocapture", "upgraded::"]).env("HELENUS_OLD_BINARY", old);
    run_visibly(&mut test)
}

/// The binary of a commit, built in a folder of its own below `target`.
fn build(commit: &str) -> Result<PathBuf, String> {
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).current_dir(place::root());
        run_quietly(&mut git)
    };
    let commit = git(&["rev-parse", "--verify", &format!("{commit}^{{commit}}")])?;
    let folder = place::root().join("target").join("upgrade");
    let source = folder.join("source");
    let text = source.to_string_lossy().into_owned();
    if !source.is_dir() {
        git(&["worktree", "add", "--detach", "--force", &text, commit.trim()])?;
    }
    git(&["-C", &text, "checkout", "--detach", "--force", commit.trim()])?;
    let built = folder.join("target");
    let mut build = cargo(&["build", "--locked", "--profile", "simulate", "-p", "server"]);
    build.current_dir(&source).env("CARGO_TARGET_DIR", &built);
    run_visibly(&mut build)?;
    Ok(built.join("simulate").join("helenus"))
}
