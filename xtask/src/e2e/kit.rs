//! Kits: one driver each with the runtime it needs, installed from its registry into `target/e2e`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::place;
use crate::process::{cargo, copy_files, is_root, is_there, run_quietly};

/// How long the lists and packages of Debian are waited for, and other programs that install some.
const APT_OPTIONS: [&str; 6] = [
    "-o",
    "Acquire::http::Timeout=30",
    "-o",
    "Acquire::Retries=1",
    "-o",
    "DPkg::Lock::Timeout=120",
];

/// What can be installed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kit {
    Cqlsh,
    Python,
    PythonScylla,
    Java,
    Node,
    Go,
    Rust,
    Browser,
    Debian,
}

/// How an installation ended.
pub(crate) enum KitState {
    Ready {
        took: Duration,
    },
    /// The machine lacks the runtime.
    Lacking {
        what: &'static str,
    },
    Failed {
        error: String,
    },
}

impl Kit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kit::Cqlsh => "cqlsh",
            Kit::Python => "Python cassandra-driver",
            Kit::PythonScylla => "Python scylla-driver",
            Kit::Java => "Java driver",
            Kit::Node => "Node cassandra-driver",
            Kit::Go => "Go gocql",
            Kit::Rust => "Rust scylla and cdrs-tokio",
            Kit::Browser => "Chromium, driven by fantoccini",
            Kit::Debian => "Debian's tools for packages and units",
        }
    }

    /// Where it is installed.
    pub(crate) fn folder(self) -> PathBuf {
        place::e2e().join(match self {
            Kit::Cqlsh => "cqlsh",
            Kit::Python => "python",
            Kit::PythonScylla => "python-scylla",
            Kit::Java => "java",
            Kit::Node => "node",
            Kit::Go => "go",
            Kit::Rust => "rust",
            Kit::Browser => "browser",
            Kit::Debian => "debian",
        })
    }

    /// The file that says what is installed; when it changes, the kit is installed again.
    fn recipe(self) -> PathBuf {
        place::scenarios().join(match self {
            Kit::Cqlsh => "cqlsh/requirements.txt",
            Kit::Python => "python/requirements-cassandra-driver.txt",
            Kit::PythonScylla => "python/requirements-scylla-driver.txt",
            Kit::Java => "java/pom.xml",
            Kit::Node => "node/package-lock.json",
            Kit::Go => "go/go.sum",
            Kit::Rust => "rust/Cargo.lock",
            Kit::Browser => "browser/Cargo.lock",
            // Nothing of it is ours.
            Kit::Debian => "README.md",
        })
    }

    /// The runtime this kit needs and this machine does not have.
    fn lacking(self) -> Option<&'static str> {
        match self {
            Kit::Cqlsh | Kit::Python | Kit::PythonScylla => {
                let probe = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";
                let there = is_there("python3", &["-c", probe]);
                (!there).then_some("Python 3.10 or newer with venv")
            }
            Kit::Java if !is_there("javac", &["-version"]) => Some("Java (a JDK)"),
            Kit::Java => (!is_there("mvn", &["--version"])).then_some("Maven"),
            Kit::Node => (!(is_there("node", &["--version"]) && is_there("npm", &["--version"])))
                .then_some("Node with npm"),
            Kit::Go => (!is_there("go", &["version"])).then_some("Go"),
            Kit::Rust => None,
            Kit::Browser => {
                let is_whole =
                    ["chromium", "chromedriver"].iter().all(|it| is_there(it, &["--version"]));
                (!is_whole).then_some("Chromium with its driver")
            }
            Kit::Debian => {
                let tools = ["dpkg-deb", "lintian", "systemd-analyze"];
                let is_whole = tools.iter().all(|it| is_there(it, &["--version"]));
                (!is_whole).then_some("lintian and systemd-analyze")
            }
        }
    }

    /// The packages of Debian that bring the runtime.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Kit::Browser => &["chromium", "chromium-driver", "fonts-liberation"],
            Kit::Debian => &["lintian", "systemd"],
            _ => &[],
        }
    }

    /// Whether its runtime is installed by this program, if it can be.
    pub(super) fn comes_from_debian(self) -> bool {
        !self.packages().is_empty()
    }

    /// Has Debian install the runtime, where this is root's machine: one that is made for a run has no browser.
    fn install_runtime(self) {
        if self.packages().is_empty() || !is_root() || !is_there("apt-get", &["--version"]) {
            return;
        }
        let apt = |words: &[&str]| {
            let mut apt = Command::new("apt-get");
            apt.env("DEBIAN_FRONTEND", "noninteractive").args(APT_OPTIONS).arg("--yes");
            run_quietly(apt.args(words))
        };
        let install = [&["install", "--no-install-recommends"], self.packages()].concat();
        // Lists that are not there, or are old, name packages that are gone. What is lacking afterwards is told.
        if apt(&install).is_err() && apt(&["update"]).is_ok() {
            let _ = apt(&install);
        }
    }

    /// Installs the kit, unless it is there already, and builds its scenario.
    pub(crate) fn install(self) -> KitState {
        if self.lacking().is_some() {
            self.install_runtime();
        }
        if let Some(what) = self.lacking() {
            return KitState::Lacking { what };
        }
        let started = Instant::now();
        match self.install_changed().and_then(|()| self.build()) {
            Ok(()) => KitState::Ready { took: started.elapsed() },
            Err(error) => KitState::Failed { error },
        }
    }

    /// Downloads what the recipe asks for; a mark holds the recipe of the finished installation.
    fn install_changed(self) -> Result<(), String> {
        let folder = self.folder();
        let mark = folder.join(".installed");
        let recipe = std::fs::read(self.recipe())
            .map_err(|error| format!("{}: {error}", self.recipe().display()))?;
        if std::fs::read(&mark).is_ok_and(|installed| installed == recipe) {
            return Ok(());
        }
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        match self {
            Kit::Cqlsh | Kit::Python | Kit::PythonScylla => {
                run_quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
                let quiet = [
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--requirement",
                ];
                run_quietly(Command::new(python(&folder)).args(quiet).arg(self.recipe()))?;
            }
            Kit::Java => {
                let quiet = ["--quiet", "--batch-mode", "dependency:copy-dependencies"];
                run_quietly(
                    Command::new("mvn")
                        .args(quiet)
                        .arg(format!("-Dmaven.repo.local={}", folder.join("repository").display()))
                        .arg(format!("-DoutputDirectory={}", folder.join("lib").display()))
                        .arg("--file")
                        .arg(self.recipe()),
                )?;
            }
            Kit::Node => {
                copy_files(&place::scenarios().join("node"), &folder)?;
                let quiet = ["ci", "--silent", "--no-audit", "--no-fund"];
                run_quietly(Command::new("npm").args(quiet).current_dir(&folder))?;
            }
            // Their build downloads.
            Kit::Go | Kit::Rust | Kit::Browser => {}
            // Debian installed it.
            Kit::Debian => {}
        }
        std::fs::write(&mark, recipe).map_err(|error| format!("{}: {error}", mark.display()))
    }

    /// Builds the scenario from its source, which may have changed since the installation.
    fn build(self) -> Result<(), String> {
        let folder = self.folder();
        match self {
            Kit::Cqlsh | Kit::Python | Kit::PythonScylla | Kit::Debian => {}
            Kit::Java => {
                let sources = place::scenarios().join("java");
                run_quietly(
                    Command::new("javac")
                        .arg("-d")
                        .arg(folder.join("classes"))
                        .arg("-cp")
                        .arg(folder.join("lib/*"))
                        .args([sources.join("Harness.java"), sources.join("Scenario.java")]),
                )?;
            }
            Kit::Node => copy_files(&place::scenarios().join("node"), &folder)?,
            Kit::Go => {
                let output = folder.join("scenario");
                run_quietly(
                    go(&["build", "-o"])
                        .arg(output)
                        .arg(".")
                        .current_dir(place::scenarios().join("go")),
                )?;
            }
            Kit::Rust | Kit::Browser => {
                let part = if self == Kit::Rust { "rust" } else { "browser" };
                let manifest = place::scenarios().join(part).join("Cargo.toml");
                run_quietly(
                    cargo(&["build", "--quiet", "--locked", "--manifest-path"])
                        .arg(manifest)
                        .env("CARGO_TARGET_DIR", &folder),
                )?;
            }
        }
        Ok(())
    }
}

/// The interpreter of a virtual environment.
pub(crate) fn python(environment: &Path) -> PathBuf {
    environment.join("bin/python")
}

/// A Go command that keeps its modules under `target/e2e`, deletable like the rest.
pub(crate) fn go(arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command
        .args(arguments)
        .env("GOMODCACHE", Kit::Go.folder().join("modules"))
        .env("GOCACHE", Kit::Go.folder().join("cache"))
        .env("GOFLAGS", "-modcacherw -mod=mod");
    command
}
