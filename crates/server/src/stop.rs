//! `helenus stop`: has the node of a data folder end, and waits until it has.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use storage::{DataDir, OpenError};

use crate::admin::{self, Question};
use crate::{fail, say, world};

/// How long a node may take to end: it waits for requests under way, and makes its memory durable.
const STOPS_WITHIN: Duration = Duration::from_secs(600);
/// How often it is looked whether it has.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Asks and waits.
pub(crate) fn run(data_dir: &Path) -> ExitCode {
    let answer = match admin::ask(data_dir, &Question::Stop) {
        Ok(answer) => answer,
        Err(error) => return fail(&error),
    };
    let process = answer.get("process").and_then(serde_json::Value::as_u64).unwrap_or_default();
    let begin = world::now();
    while is_locked(data_dir) {
        if world::now().saturating_duration_since(begin) > STOPS_WITHIN {
            let seconds = STOPS_WITHIN.as_secs();
            return fail(&format!(
                "the node (process {process}) has not stopped within {seconds} s; its log tells why, `helenus status` whether it still answers"
            ));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    say(&format!("the node on {} has stopped (process {process})\n", data_dir.display()))
}

/// Whether a process still has the folder open.
fn is_locked(data_dir: &Path) -> bool {
    matches!(DataDir::lock_existing(data_dir), Err(OpenError::Locked { .. }))
}
