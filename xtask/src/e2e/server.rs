//! The node under test: built, started, restarted and stopped as a user would.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::place;
use crate::port::free_port;
use crate::process::{cargo, run_visibly};

const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Builds the server, unless a binary is given, and says where it is.
pub(crate) fn build_server() -> Result<PathBuf, String> {
    if let Some(binary) = std::env::var_os("HELENUS_E2E_BINARY") {
        return Ok(PathBuf::from(binary));
    }
    let dev = std::env::var("HELENUS_E2E_PROFILE").is_ok_and(|profile| profile == "dev");
    let mut build = cargo(&["build", "--locked", "--package", "server", "--bin", "helenus"]);
    if !dev {
        build.arg("--release");
    }
    run_visibly(&mut build)?;
    Ok(place::target().join(if dev { "debug" } else { "release" }).join("helenus"))
}

/// A running node with a data folder of its own.
pub(crate) struct Server {
    binary: PathBuf,
    folder: PathBuf,
    settings: Vec<String>,
    port: u16,
    child: Child,
}

impl Server {
    /// Starts a node with an empty data folder on a free port. `settings` are `key=value`.
    pub(crate) fn start(binary: &Path, name: &str, settings: &[String]) -> Result<Self, String> {
        let folder = place::e2e().join("nodes").join(name);
        let prepare = || -> std::io::Result<u16> {
            if folder.exists() {
                std::fs::remove_dir_all(&folder)?;
            }
            std::fs::create_dir_all(&folder)?;
            free_port(1)
        };
        let port =
            prepare().map_err(|error| format!("cannot prepare {}: {error}", folder.display()))?;
        let child = launch(binary, &folder, port, settings)?;
        let mut server =
            Self { binary: binary.to_path_buf(), folder, settings: settings.to_vec(), port, child };
        server.await_ready()?;
        Ok(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What the node printed.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("node.log")
    }

    /// Stops the node and starts it again on the same port with the same data.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.end()?;
        self.child = launch(&self.binary, &self.folder, self.port, &self.settings)?;
        self.await_ready()
    }

    /// Stops the node; that it stops when asked is part of every test.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.end()
    }

    fn await_ready(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < START_MAX {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!(
                    "the node ended with {status} while starting\n{}",
                    self.log_text()
                ));
            }
            std::thread::sleep(POLL);
        }
        Err(format!("the node does not listen within {START_MAX:?}\n{}", self.log_text()))
    }

    fn end(&mut self) -> Result<(), String> {
        let terminated = Command::new("kill").arg(self.child.id().to_string()).status();
        if !terminated.is_ok_and(|status| status.success()) {
            return Err(format!("the node is gone already\n{}", self.log_text()));
        }
        let asked = Instant::now();
        while asked.elapsed() < STOP_MAX {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(format!("the node stopped with {status}\n{}", self.log_text()));
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => return Err(format!("cannot wait for the node: {error}")),
            }
        }
        Err(format!(
            "the node does not stop within {STOP_MAX:?} after SIGTERM\n{}",
            self.log_text()
        ))
    }

    /// What the node printed, for a failure.
    pub(crate) fn log_text(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A node that was stopped is gone already; one that was not must not outlive the run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(binary: &Path, folder: &Path, port: u16, settings: &[String]) -> Result<Child, String> {
    let told = |error: std::io::Error| format!("cannot start {}: {error}", binary.display());
    let log =
        File::options().create(true).append(true).open(folder.join("node.log")).map_err(told)?;
    let mut command = Command::new(binary);
    command
        .args(["start", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(folder.join("data"))
        // Another node on this machine may have the port of the metrics.
        .args(["--set", "metrics.listen="])
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(told)?)
        .stderr(log);
    // Our own switches are no settings of the server.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HELENUS_") {
            command.env_remove(name);
        }
    }
    command.spawn().map_err(told)
}
