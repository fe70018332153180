//! Where log lines go: the standard error stream, for a person or for a machine.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;

use crate::config::{Log, LogFormat, LogLevel};

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
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
