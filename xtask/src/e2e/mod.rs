//! The end-to-end tests: real drivers, installed from their registries, against the real binary.
//!
//! Reading order: [`kit`] (what is installed, and how), [`driver`] (which scenarios there are), [`server`] (the node
//! under test), [`scenario`] (running one program and counting its checks), [`guide`] (the programs printed in
//! `docs/guide`), [`tls`], [`cluster`], [`dashboard`] (in a browser), [`package`] (for Debian), [`chaos`]
//! (every fault at once).

mod chaos;
mod cluster;
mod dashboard;
mod driver;
mod guide;
mod kit;
mod package;
mod scenario;
mod server;
mod tls;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::report::{Report, Step, in_seconds};
use crate::{Outcome, close};
pub(crate) use cluster::Demo;
use driver::{DRIVERS, Driver};
use kit::{Kit, KitState};
pub(crate) use server::{Server, build_server};

const GUIDE: &str = "guide";
const TLS: &str = "tls";
const CLUSTER: &str = "cluster";
const DASHBOARD: &str = "dashboard";
const PACKAGE: &str = "package";
const CHAOS: &str = "chaos";

/// What of the end-to-end tests is wanted.
pub(crate) struct Parts {
    drivers: Vec<&'static Driver>,
    guide: bool,
    tls: bool,
    cluster: bool,
    dashboard: bool,
    package: bool,
    chaos: bool,
}

impl Parts {
    pub(crate) fn chosen(wanted: &dyn Fn(&str) -> bool) -> Self {
        Self {
            drivers: DRIVERS.iter().filter(|driver| wanted(driver.name)).collect(),
            guide: wanted(GUIDE),
            tls: wanted(TLS),
            cluster: wanted(CLUSTER),
            dashboard: wanted(DASHBOARD),
            package: wanted(PACKAGE),
            chaos: wanted(CHAOS),
        }
    }

    fn is_empty(&self) -> bool {
        self.drivers.is_empty()
            && !(self.guide || self.tls || self.cluster)
            && !(self.dashboard || self.package || self.chaos)
    }

    fn kits(&self) -> Vec<Kit> {
        let mut kits: Vec<Kit> = self.drivers.iter().map(|driver| driver.kit).collect();
        if self.guide {
            kits.extend(guide::PAGES.iter().map(|page| page.kit));
        }
        if self.tls {
            kits.extend(tls::KITS);
        }
        if self.cluster {
            kits.extend(cluster::KITS);
        }
        if self.dashboard {
            kits.extend(dashboard::KITS);
        }
        if self.package {
            kits.extend(package::KITS);
        }
        kits.sort_unstable();
        kits.dedup();
        kits
    }
}

/// The server under test.
pub(crate) enum Target {
    /// A node of ours, a fresh one for each scenario.
    Own { binary: PathBuf },
    /// A server that runs already, which we neither restart nor configure.
    External { host: String, port: u16 },
}

/// The names of all parts.
pub(crate) fn part_names() -> Vec<String> {
    DRIVERS
        .iter()
        .map(|driver| driver.name)
        .chain([GUIDE, TLS, CLUSTER, DASHBOARD, PACKAGE, CHAOS])
        .map(String::from)
        .collect()
}

/// `cargo xtask e2e [DRIVER]... [--address HOST:PORT]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let mut names = Vec::new();
    let mut address = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--address" {
            let text = words.next().ok_or("--address needs HOST:PORT")?;
            let (host, port) = text.rsplit_once(':').ok_or("--address needs HOST:PORT")?;
            let port = port.parse().map_err(|_| format!("{port} is no port"))?;
            address = Some(Target::External { host: host.to_string(), port });
        } else if part_names().contains(word) {
            names.push(word.clone());
        } else {
            return Err(format!("no driver {word}; there are: {}", part_names().join(", ")));
        }
    }
    let parts = Parts::chosen(&|part| names.is_empty() || names.iter().any(|name| name == part));
    let mut report = Report::default();
    let installation = install_in_background(&parts);
    match address {
        Some(target) => {
            let kits = await_installation(&mut report, installation);
            run_parts(&mut report, &parts, &kits, &target);
        }
        None => run(&mut report, &parts, installation),
    }
    close(&report)
}

/// The kits that are being installed while other work goes on.
pub(crate) struct Installation(Option<JoinHandle<BTreeMap<Kit, KitState>>>);

/// Starts to install what the parts need.
pub(crate) fn install_in_background(parts: &Parts) -> Installation {
    let kits = parts.kits();
    let install = move || kits.into_iter().map(|kit| (kit, kit.install())).collect();
    let thread = std::thread::Builder::new().name("install".into()).spawn(install);
    Installation(thread.ok())
}

/// Starts to build the server that the parts need: the last step of that build has work for one core, and the lints have
/// some for the other.
pub(crate) fn build_server_in_background(
    parts: &Parts,
) -> Option<JoinHandle<Result<PathBuf, String>>> {
    if parts.is_empty() {
        return None;
    }
    std::thread::Builder::new().name("build".into()).spawn(build_server).ok()
}

/// Builds the server and runs the parts against it.
pub(crate) fn run(report: &mut Report, parts: &Parts, installation: Installation) {
    if parts.is_empty() {
        return;
    }
    let step = Step::start("build the server");
    let binary = match build_server() {
        Ok(binary) => binary,
        Err(error) => {
            report.fail(format!("build the server: {error}"));
            return step.end("FAILED");
        }
    };
    step.end("ok");
    let kits = await_installation(report, installation);
    run_parts(report, parts, &kits, &Target::Own { binary });
}

/// Tells how the installation went. A kit that this machine cannot have is a skip for each part that needs it.
fn await_installation(report: &mut Report, installation: Installation) -> BTreeMap<Kit, KitState> {
    let step = Step::start("install the drivers");
    let Some(Ok(kits)) = installation.0.map(JoinHandle::join) else {
        report.fail("install the drivers: the installing thread broke");
        step.end("FAILED");
        return BTreeMap::new();
    };
    for (kit, state) in &kits {
        match state {
            KitState::Ready { took } => {
                println!("    {}: ready ({})", kit.name(), in_seconds(*took))
            }
            KitState::Lacking { what } => {
                println!("    {}: this machine has no {what}", kit.name())
            }
            KitState::Failed { error } => {
                println!("    {}: FAILED\n{error}", kit.name());
                report.fail(format!("install {}", kit.name()));
            }
        }
    }
    step.end("done");
    kits
}

fn run_parts(report: &mut Report, parts: &Parts, kits: &BTreeMap<Kit, KitState>, target: &Target) {
    for driver in &parts.drivers {
        if is_ready(report, kits, driver.kit, driver.name) {
            scenario::run_driver(report, driver, target);
        }
    }
    if parts.guide {
        guide::run(report, target, &mut |report, kit, name| is_ready(report, kits, kit, name));
    }
    let own: [(bool, &str, OwnPart); 5] = [
        (parts.tls, TLS, tls::run),
        (parts.cluster, CLUSTER, cluster::run),
        (parts.dashboard, DASHBOARD, dashboard::run),
        (parts.package, PACKAGE, package::run),
        (parts.chaos, CHAOS, chaos::run),
    ];
    for (_, name, run) in own.into_iter().filter(|(is_wanted, ..)| *is_wanted) {
        match target {
            Target::Own { binary } => {
                run(report, binary, &mut |report, kit, name| is_ready(report, kits, kit, name));
            }
            Target::External { .. } => report.skip(format!("{name}: not our server")),
        }
    }
}

/// A part that needs nodes of its own: it is told whether a kit is ready, for whom.
type OwnPart = fn(&mut Report, &Path, &mut dyn FnMut(&mut Report, Kit, &str) -> bool);

/// Whether a part can run; if not, says so in the report.
fn is_ready(report: &mut Report, kits: &BTreeMap<Kit, KitState>, kit: Kit, name: &str) -> bool {
    match kits.get(&kit) {
        Some(KitState::Ready { .. }) => return true,
        Some(KitState::Lacking { what }) if kit.comes_from_debian() => report.lack(format!(
            "{name}: this machine has no {what}, and Debian's packages did not come"
        )),
        Some(KitState::Lacking { what }) => {
            report.skip(format!("{name}: this machine has no {what}"))
        }
        // The failed installation is in the report already; its parts must not look as if they had passed.
        Some(KitState::Failed { .. }) | None => {
            report.fail(format!("{name}: {} is not installed", kit.name()))
        }
    }
    false
}
