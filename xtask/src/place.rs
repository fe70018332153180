//! Where things are: the repository, the build output, the installed drivers.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Cargo's output folder, wherever the user has put it.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// The folder of everything the end-to-end tests install and write.
pub(crate) fn e2e() -> PathBuf {
    target().join("e2e")
}

/// The folder of the scenario programs.
pub(crate) fn scenarios() -> PathBuf {
    root().join("tests/e2e")
}

/// The folder of everything the bench installs, measures and writes.
pub(crate) fn bench() -> PathBuf {
    target().join("bench")
}

/// The scripts of the bench's workloads.
pub(crate) fn workloads() -> PathBuf {
    root().join("benches/workloads")
}
