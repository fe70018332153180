//! What a person does to a data folder: check it, save what is left of it, keep and restore
//! snapshots. `check`, `salvage` and `restore` want the node stopped, `snapshot` wants it running.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use arc_swap::ArcSwap;
use clap::{Arg, ArgAction, ArgMatches, Command};
use schema::Schema;
use serde_json::{Value, json};
use storage::{Affected, DataDir, Finding, OpenError, SnapshotFacts};
use types::TableId;

use crate::admin::{self, Question};
use crate::config::Config;
use crate::node::{CurrentSchema, Node, StorageClock, kept_schema, storage_options};
use crate::progress::Progress;
use crate::{fail, say, world};

/// Something of it that was written is not readable.
const EXIT_DAMAGED: u8 = 2;

/// What is to be done.
pub(crate) enum Upkeep {
    Check,
    Salvage { to: PathBuf },
    Snapshot { name: String },
    Snapshots,
    RemoveSnapshots { names: Vec<String> },
    Restore { name: String, to: Option<PathBuf> },
}

/// The subcommands, without the settings that all have.
pub(crate) fn commands() -> [Command; 5] {
    let name = || Arg::new("name").value_name("NAME").required(true);
    let to = |help: &'static str| Arg::new("to").long("to").value_name("NEWDIR").help(help);
    [
        Command::new("check")
            .about("Verify every byte that a stopped node keeps; changes nothing")
            .after_help("Exit code 0: all is well. 2: something is damaged, and is listed with file, offset and what it affects.\n\nExamples:\n  helenus check --data-dir /var/lib/helenus\n  helenus check --data-dir /var/lib/helenus/snapshots/monday"),
        Command::new("salvage")
            .about("Bring what can be read of a damaged data folder into a new one")
            .after_help("The original is only read. What was lost is listed; exit code 2 if anything was.\n\nExamples:\n  helenus salvage --data-dir /var/lib/helenus --to /var/lib/helenus-saved\n  helenus start --data-dir /var/lib/helenus-saved")
            .arg(to("The folder to bring it into; new or empty").required(true)),
        Command::new("snapshot")
            .about("Have the running node keep everything as it is now")
            .after_help("It is consistent over all tables, and takes seconds whatever the size: its files are hard links.\nIt lies in the data folder under snapshots/NAME; copy it elsewhere for a backup; `helenus snapshots --remove NAME` is rid of it.\n\nExamples:\n  helenus snapshot before-upgrade\n  rsync -a data/snapshots/before-upgrade backup:/helenus/")
            .arg(name().help("Letters, digits, '-', '_' and '.'")),
        Command::new("snapshots")
            .about("List the snapshots of a data folder, or remove some")
            .after_help("A node may run on the folder. TRUNCATE and DROP take snapshots by themselves (storage.auto_snapshot), which go after storage.auto_snapshot_retention, the oldest first if there are more than storage.auto_snapshots_max.\n\nExamples:\n  helenus snapshots\n  helenus snapshots --remove monday --remove tuesday")
            .arg(Arg::new("remove").long("remove").value_name("NAME").action(ArgAction::Append).help("Remove this snapshot; may be repeated")),
        Command::new("restore")
            .about("Put a snapshot in the place of everything a stopped node keeps")
            .after_help("What was there before is moved aside, not removed.\n\nExamples:\n  helenus restore before-upgrade\n  helenus restore before-upgrade --to /tmp/yesterday    beside it, for a second node")
            .arg(name().help("As `helenus snapshots` lists it"))
            .arg(to("Restore into this new folder instead")),
    ]
}

/// What the arguments of one of these commands ask for.
pub(crate) fn asked(command: &str, matches: &ArgMatches) -> Option<Upkeep> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    match command {
        "check" => Some(Upkeep::Check),
        "salvage" => text("to").map(|to| Upkeep::Salvage { to: to.into() }),
        "snapshot" => text("name").map(|name| Upkeep::Snapshot { name }),
        "snapshots" => Some(match matches.get_many::<String>("remove") {
            Some(names) => Upkeep::RemoveSnapshots { names: names.cloned().collect() },
            None => Upkeep::Snapshots,
        }),
        "restore" => {
            text("name").map(|name| Upkeep::Restore { name, to: text("to").map(PathBuf::from) })
        }
        _ => None,
    }
}

/// Does it.
pub(crate) fn run(config: &Config, upkeep: Upkeep) -> ExitCode {
    let data_dir = &config.server.data_dir;
    match upkeep {
        Upkeep::Check => told(check(data_dir)),
        Upkeep::Salvage { to } => told(salvage(config, &to)),
        Upkeep::Snapshot { name } => match admin::ask(data_dir, &Question::Snapshot(name)) {
            Ok(answer) => say(&describe_snapshot(&answer)),
            Err(error) => fail(&error),
        },
        Upkeep::Snapshots => match storage::snapshots(data_dir) {
            Ok(found) => say(&list(&found)),
            Err(error) => fail(&error),
        },
        Upkeep::RemoveSnapshots { names } => {
            for name in &names {
                if let Err(error) = storage::remove_snapshot(data_dir, name) {
                    return fail(&error);
                }
            }
            say(&format!("removed {}\n", names.join(", ")))
        }
        Upkeep::Restore { name, to } => match storage::restore(data_dir, &name, to.as_deref()) {
            Ok(restored) => {
                let into = to.unwrap_or_else(|| data_dir.clone());
                let mut text = format!("restored {name} into {}\n", into.display());
                if let Some(before) = restored.before {
                    text.push_str(&format!(
                        "what was there before is in {}; remove it when you do not need it\n",
                        before.display()
                    ));
                }
                say(&text)
            }
            Err(error) => fail(&error),
        },
    }
}

fn told(outcome: Result<(String, bool), OpenError>) -> ExitCode {
    match outcome {
        Ok((text, is_whole)) => {
            let said = say(&text);
            if is_whole { said } else { ExitCode::from(EXIT_DAMAGED) }
        }
        Err(error) => fail(&error),
    }
}

/// The report of a check, and whether all is well.
fn check(data_dir: &Path) -> Result<(String, bool), OpenError> {
    let data_dir = DataDir::lock_existing(data_dir)?;
    let mut progress = Progress::new("checked", Some(storage::sorted_bytes(&data_dir)?));
    let report = storage::check(&data_dir, &mut |bytes| progress.add(bytes))?;
    progress.end();
    let names = Names::of(&data_dir);
    let mut text = format!(
        "{} documents, {} changes in {} log files, {} sorted files of {} trees ({} bytes)\n",
        report.document_count,
        report.change_count,
        report.segment_count,
        report.file_count,
        report.tree_count,
        report.file_bytes
    );
    if report.torn_bytes > 0 {
        text.push_str(&format!(
            "the log ends with {} bytes that never became durable; the next start cuts them\n",
            report.torn_bytes
        ));
    }
    if report.findings.is_empty() {
        text.push_str("all is well\n");
    } else {
        text.push_str(&format!("{} places are damaged:\n", report.findings.len()));
        text.push_str(&names.describe(&report.findings));
        text.push_str("`helenus restore` brings back a snapshot; `helenus salvage --to NEWDIR` saves what can be read\n");
    }
    Ok((text, report.findings.is_empty()))
}

/// The report of a salvage, and whether nothing was lost.
fn salvage(config: &Config, to: &Path) -> Result<(String, bool), OpenError> {
    let from = DataDir::lock_existing(&config.server.data_dir)?;
    if std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        let error = std::io::Error::other("the folder is not empty; choose a new one");
        return Err(OpenError::Io { path: to.to_owned(), error });
    }
    let target = DataDir::lock(to)?;
    let schema = kept_schema(&from).unwrap_or_else(|error| {
        warn(&format!("the definitions of all tables are lost ({error}); their rows are kept by the ids of the tables"));
        schema::initial_schema().with_fresh_version()
    });
    let names = Names::of_schema(&schema);
    let source = Arc::new(CurrentSchema(Arc::new(ArcSwap::from_pointee(schema))));
    let options = storage_options(config, world::raise_descriptor_limit());
    let mut progress = Progress::new("read", Some(storage::sorted_bytes(&from)?));
    let on_bytes = &mut |bytes| progress.add(bytes);
    let report =
        storage::salvage(&from, target, options, source, Arc::new(StorageClock), on_bytes)?;
    progress.end();
    let mut text = format!(
        "{} documents and {} whole trees copied, {} trees rebuilt with {} entries, {} changes of the log applied\n",
        report.document_count,
        report.copied_trees,
        report.rebuilt_trees,
        report.rebuilt_entries,
        report.change_count
    );
    if report.lost.is_empty() {
        text.push_str("nothing was lost\n");
    } else {
        text.push_str(&format!("{} places could not be read:\n", report.lost.len()));
        text.push_str(&names.describe(&report.lost));
        text.push_str("rows that were only there are gone; of rows that were changed there an older version may be back\n");
    }
    text.push_str(&format!("start it with: helenus start --data-dir {}\n", to.display()));
    Ok((text, report.lost.is_empty()))
}

/// What tables are called.
struct Names(BTreeMap<TableId, String>);

impl Names {
    fn of(data_dir: &DataDir) -> Names {
        kept_schema(data_dir)
            .map_or_else(|_| Names(BTreeMap::new()), |schema| Names::of_schema(&schema))
    }

    fn of_schema(schema: &Schema) -> Names {
        let tables = schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
        Names(
            tables.map(|table| (table.id, format!("{}.{}", table.keyspace, table.name))).collect(),
        )
    }

    fn describe(&self, findings: &[Finding]) -> String {
        findings.iter().fold(String::new(), |mut out, finding| {
            let affected = match &finding.affected {
                Affected::Table(table) => match self.0.get(table) {
                    Some(name) => format!("table {name}"),
                    None => finding.affected.to_string(),
                },
                Affected::Log | Affected::Document(_) => finding.affected.to_string(),
            };
            let (path, offset, what) = (finding.path.display(), finding.offset, &finding.what);
            out.push_str(&format!("  {path} at offset {offset}: {what}; affected: {affected}\n"));
            out
        })
    }
}

/// The node's answer to `snapshot`.
pub(crate) fn take_snapshot(node: &Node, name: &str) -> Value {
    match node.catalog.snapshot(name) {
        Ok(facts) => json!({ "name": facts.name, "bytes": facts.bytes }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn describe_snapshot(answer: &Value) -> String {
    let name = answer.get("name").and_then(Value::as_str).unwrap_or_default();
    let bytes = answer.get("bytes").and_then(Value::as_u64).unwrap_or_default();
    format!("snapshot {name} taken, {bytes} bytes\n")
}

fn list(found: &[SnapshotFacts]) -> String {
    if found.is_empty() {
        return "no snapshots; `helenus snapshot NAME` takes one\n".to_owned();
    }
    let width = found.iter().map(|facts| facts.name.len()).max().unwrap_or(0);
    found.iter().fold(String::new(), |mut out, facts| {
        let at = types::value::temporal::format_timestamp(i64::from(facts.taken_at_s) * 1000, ' ');
        let what = if facts.is_whole { "everything" } else { "some tables" };
        let (name, bytes, why) = (&facts.name, facts.bytes, &facts.why);
        out.push_str(&format!("{name:width$}  {at}  {bytes:>14} bytes  {what}, {why}\n"));
        out
    })
}

fn warn(text: &dyn Display) {
    let mut stream = std::io::stderr();
    let mark = if stream.is_terminal() { "\r" } else { "" };
    let _ = writeln!(stream, "{mark}helenus: {text}");
}
