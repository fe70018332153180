//! The Debian package and the unit of systemd, judged by Debian's own tools. With `CI=true` and as root it is installed and removed again.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::Kit;
use super::scenario;
use crate::package::{Packing, build};
use crate::place;
use crate::process::{is_root, is_there, run_quietly};
use crate::report::{Report, Step, in_ci};

pub(super) const KITS: [Kit; 1] = [Kit::Debian];
const UNIT: &str = "usr/lib/systemd/system/helenus.service";

/// A check, and what is wrong if something is.
type Check = (&'static str, fn(&Package) -> Result<(), String>);

/// What is looked at.
struct Package {
    file: PathBuf,
    /// Unpacked.
    root: PathBuf,
}

const CHECKS: [Check; 4] = [
    ("lintian finds nothing", lintian),
    ("systemd takes the unit", unit),
    ("the unit is shut in", exposure),
    ("everything in it works", contents),
];

pub(super) fn run(
    report: &mut Report,
    binary: &Path,
    is_ready: &mut dyn FnMut(&mut Report, Kit, &str) -> bool,
) {
    if !is_ready(report, Kit::Debian, "package") {
        return;
    }
    let step = Step::start("e2e package");
    let mut failed = 0;
    match unpacked(binary) {
        Ok(package) => {
            let installs = may_install().then_some(("it is installed and removed", installed as _));
            for (name, check) in CHECKS.into_iter().chain(installs) {
                match check(&package) {
                    Ok(()) => report.pass(1),
                    Err(error) => {
                        println!("{error}");
                        report.fail(format!("package: {name}"));
                        failed += 1;
                    }
                }
            }
        }
        Err(error) => {
            println!("{error}");
            report.fail("package: it cannot be made");
            failed += 1;
        }
    }
    step.end(if failed == 0 { "ok" } else { scenario::FAILED });
}

fn unpacked(binary: &Path) -> Result<Package, String> {
    let folder = place::e2e().join("package");
    let file = build(binary, &folder, Packing::Quick)?;
    let root = folder.join("unpacked");
    run_quietly(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(&root))?;
    Ok(Package { file, root })
}

fn lintian(package: &Package) -> Result<(), String> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    run_quietly(lintian.arg(&package.file)).map(drop)
}

fn unit(package: &Package) -> Result<(), String> {
    // A program of the system that the unit names, and the package does not bring.
    let programs = package.root.join("bin");
    let kill = programs.join("kill");
    let told = |error: std::io::Error| format!("{}: {error}", kill.display());
    std::fs::create_dir_all(&programs).map_err(told)?;
    std::fs::write(&kill, "#!/bin/sh\n").map_err(told)?;
    std::fs::set_permissions(&kill, Permissions::from_mode(0o755)).map_err(told)?;
    let mut verify = Command::new("systemd-analyze");
    // Other units are not looked at: a machine of CI has few.
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    verify.arg(format!("--root={}", package.root.display()));
    run_quietly(verify.arg(format!("/{UNIT}"))).map(drop)
}

/// How much of the machine is open to it, on systemd's scale from 0 to 10, times ten.
fn exposure(package: &Package) -> Result<(), String> {
    const EXPOSED_MAX: &str = "--threshold=20";
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--no-pager", "--offline=yes", EXPOSED_MAX]);
    run_quietly(security.arg(package.root.join(UNIT))).map(drop)
}

fn contents(package: &Package) -> Result<(), String> {
    let binary = package.root.join("usr/bin/helenus");
    let told = run_quietly(Command::new(&binary).arg("--version"))?;
    if !told.contains(env!("CARGO_PKG_VERSION")) {
        return Err(format!("the version is told as {told}"));
    }
    let settings = package.root.join("etc/helenus/helenus.toml");
    run_quietly(Command::new(&binary).args(["config", "--config"]).arg(settings))?;
    let completions = package.root.join("usr/share/bash-completion/completions/helenus");
    run_quietly(Command::new("bash").arg("-n").arg(completions))?;
    let page = package.root.join("usr/share/man/man1/helenus.1.gz");
    run_quietly(Command::new("gzip").arg("--test").arg(page)).map(drop)
}

/// Whether this is a machine that was made for a run, and has none.
fn may_install() -> bool {
    in_ci() && is_root() && !is_there("dpkg", &["--status", "helenus"])
}

fn installed(package: &Package) -> Result<(), String> {
    run_quietly(Command::new("dpkg").arg("--install").arg(&package.file))?;
    let looked = run_quietly(Command::new("sh").args(["-e", "-c", INSTALLED]));
    run_quietly(Command::new("dpkg").args(["--purge", "helenus"]))?;
    looked.map(drop)
}

const INSTALLED: &str = "/usr/bin/helenus --version
test \"$(stat -c '%U %G %a' /var/lib/helenus)\" = 'helenus helenus 700'
id -u helenus";
