//! Where log lines go: the standard error stream, for a person or for a machine.

use std::io::{self, IsTerminal, Write};

use tracing::level_filters::LevelFilter;

use crate::config::{Log, LogFormat, LogLevel};

/// The standard error stream, or nothing where it takes nothing: what is said is never worth a connection or the node.
struct Quiet;

impl Write for Quiet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = io::stderr().flush();
        Ok(())
    }
}

/// Installs the log for the whole process. Called once, before anything is logged.
pub(crate) fn install(log: &Log) {
    let level = match log.level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(|| Quiet);
    match log.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
