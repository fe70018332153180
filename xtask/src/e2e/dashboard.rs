//! The dashboard in a real browser: a cluster under load, each page in light, in dark and on a phone, and what is told when a node is lost. The
//! screenshots stay in `target/e2e/screenshots`, for people to look at.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::cluster::{Demo, NODES};
use super::kit::Kit;
use super::scenario;
use crate::place;
use crate::port::free_port;
use crate::process::run_quietly;
use crate::report::{Report, Step};

pub(super) const KITS: [Kit; 1] = [Kit::Browser];
/// How long the driver of the browser may take to start.
const START_MAX: Duration = Duration::from_secs(90);
/// The dashboard of a node is so far behind the port of its clients, as `helenus demo` has it.
const DASHBOARD_OFFSET: u16 = 138;
/// Statements of one round of the load.
const LOAD_STATEMENTS: u32 = 20_000;
/// Rows that are written with a prepared statement.
const PREPARED_ROWS: u32 = 500;
/// Rounds: more than the browser needs.
const LOAD_ROUNDS: u32 = 20;

/// Runs the browser against one cluster.
pub(super) fn run(
    report: &mut Report,
    binary: &Path,
    is_ready: &mut dyn FnMut(&mut Report, Kit, &str) -> bool,
) {
    if !is_ready(report, Kit::Browser, "dashboard") {
        return;
    }
    let step = Step::start("e2e dashboard");
    match run_browser(report, binary) {
        Ok(outcome) => step.end(&outcome),
        Err(error) => {
            println!("{error}");
            report.fail(format!("dashboard: {}", error.lines().next().unwrap_or_default()));
            step.end(scenario::FAILED);
        }
    }
}

fn run_browser(report: &mut Report, binary: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let folder = place::e2e().join("screenshots");
    std::fs::create_dir_all(&folder).map_err(told)?;
    let mut demo = Demo::start(binary, "dashboard", NODES)?;
    let _load = start_load(binary, demo.port())?;
    let port = free_port(1).map_err(told)?;
    let mut driver = Command::new("chromedriver");
    let _driver = Ends::start(driver.arg(format!("--port={port}"))).map_err(told)?;
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > START_MAX {
            return Err("chromedriver does not answer".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let dashboard = demo.port().checked_add(DASHBOARD_OFFSET).ok_or("no port is left")?;
    let mut program = Command::new(Kit::Browser.folder().join("debug/browser"));
    program.args(["dashboard", &format!("http://127.0.0.1:{port}")]).arg(&folder);
    program.args([1, 2].map(|node| format!("http://127.0.0.{node}:{dashboard}")));
    let mut ask = |what: &str| demo.do_it(what).map(|()| true);
    let outcome = scenario::run_program(report, "dashboard", program, "helenus", &mut ask);
    if outcome == scenario::FAILED {
        println!("--- what the nodes said\n{}", demo.log_text());
    }
    demo.stop()?;
    Ok(outcome)
}

/// A process that ends with its owner, and whatever it started.
struct Ends(Child);

impl Ends {
    fn start(command: &mut Command) -> std::io::Result<Ends> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.process_group(0).spawn().map(Ends)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = run_quietly(Command::new("kill").args(["-KILL", "--", group.as_str()]));
        let _ = self.0.wait();
    }
}

/// Statements for the dashboard to show: hot keys, reads, writes, a budget, and a name that looks like a script.
fn start_load(binary: &Path, port: u16) -> Result<Ends, String> {
    let address = format!("127.0.0.1:{port}");
    let told = |error: std::io::Error| error.to_string();
    let schema = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};\n\
         CREATE TABLE shop.orders (user text, id int, note text, PRIMARY KEY (user, id)) WITH cosmosdb_provisioned_throughput = 4000;\n\
         CREATE TABLE shop.users (name text PRIMARY KEY, \"<script>alert(1)</script>\" int);";
    run_quietly(Command::new(binary).args(["cql", &address, "-e", schema]))?;
    // It is written with a prepared statement, which the dashboard tells of.
    let rows = place::e2e().join("dashboard.csv");
    let lines: String = (0..PREPARED_ROWS).map(|it| format!("u{it}\n")).collect();
    std::fs::write(&rows, format!("name\n{lines}")).map_err(told)?;
    let mut import = Command::new(binary);
    import.args(["import", "shop.users", "--host", &address]).arg(&rows);
    run_quietly(&mut import)?;
    let mut text = String::new();
    for number in 0..LOAD_STATEMENTS {
        let user = if number % 3 == 0 {
            "'<b>hot</b>'".to_owned()
        } else {
            format!("'u{}'", number % 997)
        };
        let _ = match number % 4 {
            0 => writeln!(text, "SELECT * FROM shop.orders WHERE user = {user} LIMIT 10;"),
            1 => writeln!(
                text,
                "INSERT INTO shop.users (name, \"<script>alert(1)</script>\") VALUES ({user}, 1);"
            ),
            _ => writeln!(
                text,
                "INSERT INTO shop.orders (user, id, note) VALUES ({user}, {number}, 'note');"
            ),
        };
    }
    let file = place::e2e().join("dashboard.cql");
    std::fs::write(&file, text).map_err(told)?;
    let again = "i=0; while [ $i -lt $4 ]; do \"$1\" cql \"$2\" -f \"$3\"; i=$((i + 1)); done";
    let mut load = Command::new("timeout");
    load.args(["600", "sh", "-c", again, "load"]).arg(binary).arg(&address).arg(&file);
    Ends::start(load.arg(LOAD_ROUNDS.to_string())).map_err(|error| format!("no load: {error}"))
}
