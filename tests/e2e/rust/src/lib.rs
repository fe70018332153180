//! What the two scenarios share: the report lines and the talk with `cargo xtask e2e`.
//!
//! The contract is in `tests/e2e/README.md`. A check is a future; it passes when it returns `Ok`.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::io::Write;
use std::time::Duration;

/// What a check returns; any error fails it.
pub type Outcome = Result<(), Box<dyn Error>>;

/// Prints one line of the report, at once.
pub fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("the harness reads the report");
}

/// Awaits one check and reports it; the scenario ends at the first failure.
pub async fn check(name: &str, run: impl Future<Output = Outcome>) {
    if let Err(error) = run.await {
        say(&format!("FAILED {name}"));
        eprintln!("{error}\n{error:?}");
        std::process::exit(1);
    }
    say(&format!("ok {name}"));
}

/// A check of a type that the first level of the server does not have yet.
pub async fn check_beyond_first(name: &str, run: impl Future<Output = Outcome>) {
    if std::env::var("HELENUS_E2E_LEVEL").is_ok_and(|level| level == "first") {
        say(&format!("skip {name}: not in the first level"));
    } else {
        check(name, run).await;
    }
}

/// Compares, and says both sides when they differ.
pub fn equal<T: PartialEq<U> + Debug, U: Debug>(got: T, wanted: U) -> Outcome {
    if got == wanted { Ok(()) } else { Err(format!("got    {got:?}\nwanted {wanted:?}").into()) }
}

/// Waits until the condition holds; errors on the way count as not yet.
pub async fn eventually<F: Future<Output = Outcome>>(
    what: &str,
    condition: impl Fn() -> F,
) -> Outcome {
    let mut last = String::new();
    for _ in 0..900 {
        match tokio::time::timeout(Duration::from_secs(10), condition()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = "no answer within 10 s".into(),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(format!("not within 90 s: {what} (last error: {last})").into())
}

/// Asks the harness for a restart of the server; false when the server is not its own.
pub fn restart_server() -> Result<bool, Box<dyn Error>> {
    say("RESTART PLEASE");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "DONE" => Ok(true),
        "SKIP" => Ok(false),
        other => Err(format!("unexpected answer of the harness: {other:?}").into()),
    }
}

/// The arguments of a scenario: NAME HOST PORT PROTOCOL_VERSION.
pub struct Arguments {
    pub host: String,
    pub port: u16,
    pub newest: u8,
}

impl Arguments {
    /// Reads the command line; a scenario is only ever started by the harness.
    pub fn from_command_line() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let [_, _, host, port, newest] = arguments.as_slice() else {
            panic!("usage: {} NAME HOST PORT PROTOCOL_VERSION", arguments[0]);
        };
        Self {
            host: host.clone(),
            port: port.parse().expect("a port"),
            newest: newest.parse().expect("a version"),
        }
    }

    /// Host and port as the drivers take them.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The rows of the paging checks: five partitions of a thousand rows, read by a hundred.
pub const PARTITIONS: i32 = 5;
pub const ROWS_EACH: i32 = 1000;
pub const PAGE: i32 = 100;
