//! Encryption: the settings of the server, tried with cqlsh and two drivers.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::driver::python_program;
use super::kit::Kit;
use super::scenario;
use super::server::Server;
use crate::place;
use crate::process::run_quietly;
use crate::report::{Report, Step};

/// What the checks need.
pub(super) const KITS: [Kit; 3] = [Kit::Cqlsh, Kit::Python, Kit::Node];

/// A way to set up the server; the programs get its name and know what to expect of it.
struct Setup {
    name: &'static str,
    settings: fn(&Path) -> Vec<String>,
}

const SETUPS: [Setup; 3] = [
    Setup { name: "required", settings: |folder| with_certificate(folder, "required", false) },
    Setup { name: "optional", settings: |folder| with_certificate(folder, "optional", false) },
    Setup { name: "mutual", settings: |folder| with_certificate(folder, "required", true) },
];

fn with_certificate(folder: &Path, mode: &str, mutual: bool) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut settings = vec![
        format!("tls.mode={mode}"),
        format!("tls.certificate={}", file("node.pem")),
        format!("tls.key={}", file("node.key")),
    ];
    if mutual {
        settings.push(format!("tls.client_ca={}", file("ca.pem")));
        settings.push("tls.require_client_certificate=true".into());
    }
    settings
}

/// Runs the three programs against each setup of the server.
pub(super) fn run(
    report: &mut Report,
    binary: &Path,
    is_ready: &mut dyn FnMut(&mut Report, Kit, &str) -> bool,
) {
    let ready: Vec<Kit> = KITS.into_iter().filter(|kit| is_ready(report, *kit, "tls")).collect();
    // The certificates are made with a package of cqlsh's environment.
    if !ready.contains(&Kit::Cqlsh) {
        return;
    }
    for setup in &SETUPS {
        let name = format!("tls {}", setup.name);
        let step = Step::start(format!("e2e {name}"));
        let started = certificates(setup.name).and_then(|folder| {
            let server =
                Server::start(binary, &name.replace(' ', "-"), &(setup.settings)(&folder))?;
            Ok((folder, server))
        });
        let (folder, server) = match started {
            Ok(started) => started,
            Err(error) => {
                println!("{error}");
                report.fail(format!("{name}: the node did not start"));
                step.end(scenario::FAILED);
                continue;
            }
        };
        let mut outcome = String::new();
        for kit in &ready {
            let mut program = program(*kit);
            program.args([setup.name, "127.0.0.1", &server.port().to_string()]).arg(&folder);
            let title = format!("{name} {}", kit.name());
            outcome = scenario::run_program(report, &title, program, "helenus", &mut |_| Ok(false));
            if outcome == scenario::FAILED {
                println!("--- the node's log\n{}", server.log_text());
                break;
            }
        }
        scenario::stop(report, &name, server);
        step.end(if outcome == scenario::FAILED { scenario::FAILED } else { "ok" });
    }
}

/// Makes an authority and the certificates it signed.
fn certificates(setup: &str) -> Result<PathBuf, String> {
    let folder = place::e2e().join("certificates").join(setup);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let maker = place::scenarios().join("tls/certificates.py");
    run_quietly(python_program(Kit::Cqlsh, &maker).arg(&folder))?;
    Ok(folder)
}

fn program(kit: Kit) -> Command {
    if kit == Kit::Node {
        let mut command = Command::new("node");
        command.arg(Kit::Node.folder().join("tls.js"));
        return command;
    }
    let file = if kit == Kit::Cqlsh { "tls/cqlsh.py" } else { "tls/python.py" };
    python_program(kit, &place::scenarios().join(file))
}
