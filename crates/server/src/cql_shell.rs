//! `helenus cql`: what its arguments mean. The shell itself is the crate `shell`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use shell::records::Format;
use shell::{Input, Options, RowFormat, Trust};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::fail;
use crate::password::Credentials;
use crate::transfer::AskedNode;
use crate::world;

const PORT_DEFAULT: u16 = 9042;

const EXAMPLES: &str = "\
Examples:
  helenus cql                                        the node of these settings; HELP tells the commands
  helenus cql db.example:9042 -k shop -u ann         asks for the password
  helenus cql -e 'SELECT * FROM shop.orders' --json  a row a line, for other programs
  helenus cql -f schema.cql                          runs a file; ends with 2 if a statement failed
  echo 'DESCRIBE KEYSPACES' | helenus cql
  helenus cql --tls                                  trusts the certificate of the node of these settings
  helenus cql db.example --ca ca.pem

A password is asked for, or taken from HELENUS_PASSWORD or --password-file: others may see the arguments of a
process. What is typed is kept in ~/.helenus/cql_history, lines with passwords are not.
In the shell: COST ON shows charge, time and plan of each statement, EXPAND ON one value a line.";

/// What was asked for.
pub(crate) struct CqlShell {
    node: AskedNode,
    /// Whoever answers is trusted.
    insecure: bool,
    keyspace: Option<String>,
    input: Input,
    row_format: RowFormat,
    patience_s: u64,
    may_colour: bool,
    keeps_history: bool,
}

/// The subcommand, without the settings that all have.
pub(crate) fn command() -> Command {
    let value = |name: &'static str, placeholder: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(placeholder).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("cql")
        .about("A shell: type statements, or run them from a file; for Cassandra, too")
        .after_help(EXAMPLES)
        .arg(Arg::new("address").value_name("ADDRESS").help("The node: HOST or HOST:PORT [default: the one that runs on --data-dir, else server.listen]"))
        .arg(Arg::new("port").value_name("PORT").value_parser(clap::value_parser!(u16)).help("Its port, where the address has none [default: 9042]"))
        .arg(value("user", "ROLE", "The role to log in as").short('u'))
        .arg(value("password", "PASSWORD", "Its password; asked for without one").short('p').conflicts_with("password-file"))
        .arg(value("password-file", "FILE", "A file whose first line is the password"))
        .arg(value("keyspace", "KEYSPACE", "The keyspace to use").short('k'))
        .arg(flag("tls", "With TLS [default: if the node of these settings asks for it, trusting its certificate]"))
        .arg(value("ca", "FILE", "With TLS; trust these certificates (PEM), and what they signed").conflicts_with("insecure"))
        .arg(flag("insecure", "With TLS; trust anybody, also somebody who stands in between"))
        .arg(value("execute", "STATEMENTS", "Run these and end").short('e').conflicts_with("file"))
        .arg(value("file", "FILE", "Run the statements of this file and end").short('f'))
        .arg(flag("json", "Rows as JSON, one object a line").conflicts_with("csv"))
        .arg(flag("csv", "Rows as CSV, the first line names the columns"))
        .arg(value("request-timeout", "SECONDS", "How long an answer may take").value_parser(clap::value_parser!(u64).range(1..)).default_value("10"))
        .arg(flag("no-color", "No colours; there are none in pipes and files"))
        .arg(flag("no-history", "Do not keep what is typed"))
}

/// What the arguments ask for.
pub(crate) fn asked(matches: &ArgMatches) -> CqlShell {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let input = match (text("execute"), text("file")) {
        (Some(statements), _) => Input::Text(statements),
        (None, Some(file)) => Input::File(PathBuf::from(file)),
        (None, None) => Input::Standard,
    };
    let row_format = match (matches.get_flag("json"), matches.get_flag("csv")) {
        (true, _) => RowFormat::File(Format::Json),
        (false, true) => RowFormat::File(Format::Csv),
        (false, false) => RowFormat::Table,
    };
    let port = matches.get_one::<u16>("port").copied();
    CqlShell {
        node: AskedNode {
            host: text("address").map(|address| with_port(&address, port)),
            credentials: Credentials::of(matches),
            trusted: text("ca").map(PathBuf::from),
            tls: matches.get_flag("tls"),
        },
        insecure: matches.get_flag("insecure"),
        keyspace: text("keyspace"),
        input,
        row_format,
        patience_s: matches.get_one::<u64>("request-timeout").copied().unwrap_or(10),
        may_colour: !matches.get_flag("no-color"),
        keeps_history: !matches.get_flag("no-history"),
    }
}

/// Runs it.
pub(crate) fn run(config: &Config, shell: CqlShell) -> ExitCode {
    let started = shell
        .options(config)
        .and_then(|options| shell::run(options).map_err(|error| error.to_string()));
    match started {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

impl CqlShell {
    fn options(self, config: &Config) -> Result<Options, String> {
        let patience = Duration::from_secs(self.patience_s);
        let mut target = self.node.target(config, patience)?;
        if self.insecure {
            target.trust = Some(Trust::Anyone);
        }
        // Of statements that nobody typed it ends the shell, as it ends every program.
        if matches!(self.input, Input::Standard) && io::stdin().is_terminal() {
            target.cancelled = Some(watch_interrupts().map_err(|error| error.to_string())?);
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        Ok(Options {
            target,
            keyspace: self.keyspace,
            input: self.input,
            row_format: self.row_format,
            may_colour: self.may_colour,
            history: home
                .filter(|_| self.keeps_history)
                .map(|home| home.join(".helenus").join("cql_history")),
            now: world::now,
        })
    }
}

/// From here on Ctrl-C sets what is returned, and does not end the process.
fn watch_interrupts() -> io::Result<&'static AtomicBool> {
    static CANCELLED: AtomicBool = AtomicBool::new(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut interrupts = {
        let _inside = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    let watch = move || {
        runtime.block_on(async move {
            while interrupts.recv().await.is_some() {
                CANCELLED.store(true, Ordering::Relaxed);
            }
        });
    };
    std::thread::Builder::new().name("interrupts".to_owned()).spawn(watch)?;
    Ok(&CANCELLED)
}

/// An address with a port. One of version 6 has one only behind brackets.
fn with_port(address: &str, port: Option<u16>) -> String {
    let is_bare_v6 = address.matches(':').count() > 1 && !address.starts_with('[');
    let has_port = !is_bare_v6
        && address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port {
        return address.to_owned();
    }
    let port = port.unwrap_or(PORT_DEFAULT);
    if is_bare_v6 { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_a_port() {
        for (address, port, expect) in [
            ("db.example", None, "db.example:9042"),
            ("db.example", Some(9142), "db.example:9142"),
            ("db.example:9242", None, "db.example:9242"),
            ("::1", None, "[::1]:9042"),
            ("[::1]", None, "[::1]:9042"),
            ("[::1]:9142", None, "[::1]:9142"),
        ] {
            assert_eq!(with_port(address, port), expect);
        }
    }
}
