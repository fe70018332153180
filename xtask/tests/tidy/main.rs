//! House rules that no compiler checks, as ordinary tests: the arrows between crates, the size of files and functions,
//! words and paths that must not be in the repository.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail loudly, also outside of the test functions"
)]

mod arrows;
mod functions;
mod text;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// A tracked file that is text.
struct Tracked {
    path: String,
    text: String,
}

impl Tracked {
    fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

/// Every tracked text file, as it is in the working tree.
fn tracked_files() -> Vec<Tracked> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let paths = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<Tracked> = paths
        .split_terminator('\0')
        .filter_map(|path| {
            // Deleted in the working tree, or not text: not ours to read.
            let text = String::from_utf8(std::fs::read(root().join(path)).ok()?).ok()?;
            Some(Tracked { path: path.to_string(), text })
        })
        .collect();
    assert!(files.len() > 10, "git lists only {} files", files.len());
    files
}

/// Fails with all complaints at once.
fn assert_none(rule: &str, complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{rule}:\n  {}\n", complaints.join("\n  "));
}
