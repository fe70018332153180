//! Running other programs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::place;

/// A cargo command, run from the root with the toolchain that runs us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(place::root());
    command
}

/// Runs a program whose output the user sees as it comes.
pub(crate) fn run_visibly(command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", told(command))),
        Err(error) => Err(format!("{} did not start: {error}", told(command))),
    }
}

/// Runs a program quietly; its whole output becomes the error when it fails, and the answer when it does not.
pub(crate) fn run_quietly(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} did not start: {error}", told(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} ended with {}\n{text}{errors}", told(command), output.status))
}

/// The lines of a program's output, whatever bytes they hold: to stop reading would stop the program.
pub(crate) fn lines(output: impl Read) -> impl Iterator<Item = String> {
    let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).trim_end_matches('\r').to_string())
}

/// Whether a program can be started here and says so with exit code 0.
pub(crate) fn is_there(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether this machine is ours to install things on.
pub(crate) fn is_root() -> bool {
    is_there("sh", &["-c", "test \"$(id -u)\" = 0"])
}

/// The program and its arguments, as one would type them.
fn told(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Copies the files of one folder (not its folders) into another, which is created.
pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    let copy = || -> std::io::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok(())
    };
    copy().map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}
