//! The scenarios: which there are, and how each is started.

use std::path::Path;
use std::process::Command;

use super::kit::{Kit, python};
use crate::place;

/// One driver's scenario.
pub(crate) struct Driver {
    pub(crate) name: &'static str,
    pub(crate) kit: Kit,
    /// The newest protocol version the driver speaks; the scenario demands it.
    pub(crate) protocol: u8,
    start: fn() -> Command,
}

pub(crate) const DRIVERS: [Driver; 8] = [
    Driver { name: "cqlsh", kit: Kit::Cqlsh, protocol: 5, start: cqlsh },
    Driver {
        name: "python",
        kit: Kit::Python,
        protocol: 5,
        start: || python_scenario(Kit::Python),
    },
    Driver {
        name: "python-scylla",
        kit: Kit::PythonScylla,
        protocol: 5,
        start: || python_scenario(Kit::PythonScylla),
    },
    Driver { name: "java", kit: Kit::Java, protocol: 5, start: java },
    Driver { name: "node", kit: Kit::Node, protocol: 4, start: node },
    Driver {
        name: "go",
        kit: Kit::Go,
        protocol: 5,
        start: || Command::new(Kit::Go.folder().join("scenario")),
    },
    Driver { name: "rust-scylla", kit: Kit::Rust, protocol: 4, start: || rust("scylla") },
    Driver { name: "rust-cdrs", kit: Kit::Rust, protocol: 5, start: || rust("cdrs-tokio") },
];

impl Driver {
    /// The command of the scenario: NAME HOST PORT PROTOCOL_VERSION are its arguments.
    pub(crate) fn command(&self, host: &str, port: u16) -> Command {
        let mut command = (self.start)();
        command.args([self.name, host, &port.to_string(), &self.protocol.to_string()]);
        command
    }
}

fn cqlsh() -> Command {
    python_program(Kit::Cqlsh, &place::scenarios().join("cqlsh/scenario.py"))
}

fn python_scenario(kit: Kit) -> Command {
    python_program(kit, &place::scenarios().join("python/scenario.py"))
}

/// A Python program that may import the shared `harness`.
pub(super) fn python_program(kit: Kit, program: &Path) -> Command {
    let mut command = Command::new(python(&kit.folder()));
    command
        .arg(program)
        .env("PYTHONPATH", place::scenarios().join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn java() -> Command {
    let folder = Kit::Java.folder();
    let mut command = Command::new("java");
    command
        .arg("-cp")
        .arg(format!("{}:{}", folder.join("classes").display(), folder.join("lib/*").display()))
        .arg("Scenario");
    command
}

fn node() -> Command {
    let mut command = Command::new("node");
    command.arg(Kit::Node.folder().join("scenario.js"));
    command
}

fn rust(scenario: &str) -> Command {
    Command::new(Kit::Rust.folder().join("debug").join(scenario))
}
