//! `helenus export` and `helenus import`: a table as CSV or as JSON lines, through the native protocol,
//! so from and to any node that can be reached, also one of Cassandra.
//!
//! Values are written as `SELECT JSON` writes them; in CSV texts stand as they are, and nothing between
//! two commas is null, while `""` is an empty text. Timestamps and times to live are not kept.
//!
//! The client, its files and its statements are those of `helenus cql`, in the crate `shell`; `lines` matches the rows of
//! a file with the columns of a table.

mod lines;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use protocol::Consistency;
use shell::records::{Dialect, Format, write_names, write_row};
use shell::{Client, ClientError, TableShape, Target, Trust, Writers};

use self::lines::Lines;
use crate::admin::{self, Question};
use crate::config::{Config, TlsMode};
use crate::password::{self, Credentials};
use crate::progress::Progress;
use crate::tls::{own_certificate_path, read_certificates};
use crate::{fail, say_error};

/// Rows of one page of an export.
const PAGE_ROWS: i32 = 1_000;
/// Rows of an import that are on their way at once.
const ROWS_IN_FLIGHT: usize = 128;

/// How long a node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const LEVEL: Consistency = Consistency::LocalQuorum;

/// A table that goes out or comes in.
pub(crate) struct Transfer {
    is_export: bool,
    table: String,
    file: Option<PathBuf>,
    format: Option<Format>,
    node: AskedNode,
}

/// The node that is asked over the network, as the command line names it.
pub(crate) struct AskedNode {
    pub(crate) host: Option<String>,
    pub(crate) credentials: Credentials,
    /// The file of the certificates that are trusted.
    pub(crate) trusted: Option<PathBuf>,
    /// Asked for without a certificate to trust: that of the node in the data folder.
    pub(crate) tls: bool,
}

impl AskedNode {
    /// What the arguments say.
    pub(crate) fn of(matches: &ArgMatches) -> AskedNode {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        AskedNode {
            host: text("host"),
            credentials: Credentials::of(matches),
            trusted: text("ca").map(PathBuf::from),
            tls: matches.get_flag("tls"),
        }
    }

    /// Whether it is named by where it listens.
    pub(crate) fn is_named(&self) -> bool {
        self.host.is_some()
    }

    fn connect(&self, config: &Config) -> Result<Client, String> {
        Client::connect(&self.target(config, ANSWER_WITHIN)?).map_err(told)
    }

    /// Where it is, who logs in, and whom to trust. A role without a password is asked for it.
    pub(crate) fn target(&self, config: &Config, patience: Duration) -> Result<Target, String> {
        let data_dir = &config.server.data_dir;
        // A node that runs on the folder knows best where it listens, and whether with TLS.
        let found = match &self.host {
            Some(_) => None,
            None => admin::ask(data_dir, &Question::Status).ok(),
        };
        let told = |name: &str| found.as_ref()?.get(name)?.as_str().map(str::to_owned);
        let address = match (&self.host, told("address").and_then(|it| it.parse().ok())) {
            (Some(host), _) => host.clone(),
            (None, Some(listens)) => own_address(Some(listens)),
            (None, None) => own_address(config.server.listen),
        };
        let mode = match config.tls.mode {
            TlsMode::Off => "off",
            TlsMode::Optional => "optional",
            TlsMode::Required => "required",
        };
        let mode = told("tls").unwrap_or_else(|| mode.to_owned());
        let wants_tls = self.tls || self.host.is_none() && mode == "required";
        let own =
            || config.tls.certificate.clone().unwrap_or_else(|| own_certificate_path(data_dir));
        let trust = match self.trusted.clone().or_else(|| wants_tls.then(own)) {
            None => None,
            Some(path) => {
                let certificates = read_certificates(&path).map_err(|error| {
                    format!("cannot reach a node on {address}: {error}; --ca FILE names another")
                })?;
                Some(Trust::Certificates(certificates))
            }
        };
        let login = self.credentials.login(std::env::var(password::VARIABLE).ok())?;
        Ok(Target { address, login, trust, patience, cancelled: None })
    }

    /// What the node says of itself, asked with a statement.
    pub(crate) fn status(&self, config: &Config) -> Result<serde_json::Value, String> {
        let found = self.connect(config)?.query(STATUS, &[]).map_err(told)?;
        // By name: the rows of a table have no order of their own.
        let mut facts = BTreeMap::new();
        for row in found.rows() {
            let cell = |index: usize| row.get(index).copied().flatten();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let name = cell(0).map(text).unwrap_or_default();
            let number = cell(1).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
            let value = match (number.map(i64::from_be_bytes), cell(2).map(text)) {
                (Some(number), _) => number.into(),
                (None, Some(text)) => text.into(),
                (None, None) => serde_json::Value::Null,
            };
            facts.insert(name, value);
        }
        Ok(serde_json::Value::Object(facts.into_iter().collect()))
    }
}

/// What a node is asked for how it is doing.
const STATUS: &str = "SELECT name, number, value FROM system_helenus.status";

/// The arguments that say which node is asked over the network, and who asks. Without any, it is the one that runs
/// on the data folder.
pub(crate) fn node_arguments() -> [Arg; 6] {
    let value = |name: &'static str, placeholder: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(placeholder).help(help)
    };
    let [user, password, password_file] = password::arguments();
    [
        value("host", "ADDR:PORT", "The node [default: the one that runs on --data-dir, else server.listen]"),
        user,
        password,
        password_file,
        Arg::new("tls").long("tls").action(ArgAction::SetTrue).help(
            "With TLS [default: if the node of these settings asks for it, trusting its certificate]",
        ),
        value("ca", "FILE", "With TLS; trust these certificates (PEM), and what they signed"),
    ]
}

/// The subcommands, without the settings that all have.
pub(crate) fn commands() -> [Command; 2] {
    let arguments = |file: &'static str| {
        let value = |name: &'static str, placeholder: &'static str, help: &'static str| {
            Arg::new(name).long(name).value_name(placeholder).help(help)
        };
        [
            Arg::new("table").value_name("KEYSPACE.TABLE").required(true).help("The table"),
            Arg::new("file").value_name("FILE").help(file),
            value(
                "format",
                "FORMAT",
                "csv or json (one object a line) [default: by the file's name, else csv]",
            )
            .value_parser(["csv", "json"]),
        ]
    };
    [
        Command::new("export")
            .about("Write a table to a file, as CSV or as JSON lines")
            .after_help("Timestamps and times to live of cells are not kept.\n\nExamples:\n  helenus export shop.orders orders.csv\n  helenus export shop.orders --format json | gzip > orders.jsonl.gz\n  helenus export shop.orders --host db.example:9042 --ca ca.pem --user ann --password-file secret\n  helenus export shop.orders --data-dir /var/lib/helenus    the node that runs there")
            .args(arguments("The file to write [default: standard output]"))
            .args(node_arguments()),
        Command::new("import")
            .about("Read a table from a file, as CSV with a line of names, or as JSON lines")
            .after_help("The table must exist. Rows that are there are overwritten, counters are added to.\nAn import that was broken off can be run again, except for counters.\n\nExamples:\n  helenus import shop.orders orders.csv\n  zcat orders.jsonl.gz | helenus import shop.orders --format json")
            .args(arguments("The file to read [default: standard input]"))
            .args(node_arguments()),
    ]
}

/// What the arguments of one of these commands ask for.
pub(crate) fn asked(command: &str, matches: &ArgMatches) -> Option<Transfer> {
    let is_export = match command {
        "export" => true,
        "import" => false,
        _ => return None,
    };
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    Some(Transfer {
        is_export,
        table: text("table")?,
        file: text("file").map(PathBuf::from),
        format: text("format").map(|name| if name == "json" { Format::Json } else { Format::Csv }),
        node: AskedNode::of(matches),
    })
}

/// Does it.
pub(crate) fn run(config: &Config, transfer: Transfer) -> ExitCode {
    let done = if transfer.is_export { "exported" } else { "imported" };
    match transfer.run(config) {
        Ok(count) => {
            say_error(&format!("{done} {count} rows"));
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

impl Transfer {
    fn run(&self, config: &Config) -> Result<u64, String> {
        let (keyspace, table) = self
            .table
            .split_once('.')
            .ok_or_else(|| format!("{:?} is not KEYSPACE.TABLE", self.table))?;
        let mut client = self.node.connect(config)?;
        let shape = TableShape::read(&mut client, keyspace, table).map_err(told)?;
        let shape = shape.ok_or_else(|| format!("there is no table {keyspace}.{table}"))?;
        let format = self.format.unwrap_or_else(|| by_name(self.file.as_deref()));
        if self.is_export {
            self.export(&mut client, &shape, format)
        } else {
            self.import(&mut client, &shape, format)
        }
    }

    fn export(
        &self,
        client: &mut Client,
        shape: &TableShape,
        format: Format,
    ) -> Result<u64, String> {
        let out: Box<dyn Write> = match &self.file {
            Some(path) => Box::new(File::create(path).map_err(at(path))?),
            None => Box::new(io::stdout()),
        };
        let mut out = BufWriter::new(out);
        let written = |error: io::Error| match &self.file {
            Some(path) => format!("{}: {error}", path.display()),
            None => error.to_string(),
        };
        let mut progress = Progress::new("rows", None);
        let mut count = 0;
        let mut paging_state = None;
        let mut text = String::new();
        loop {
            let page = client
                .page(&shape.select(&[]), LEVEL, PAGE_ROWS, paging_state.as_deref())
                .map_err(told)?;
            let columns = page.metadata.columns.clone().unwrap_or_default();
            if count == 0 && paging_state.is_none() && format == Format::Csv {
                let names = columns.iter().map(|column| column.name.as_ref());
                write_names(Dialect::STANDARD, names, &mut text);
            }
            for row in page.rows() {
                write_row(format, &columns, &row, &mut text);
                count += 1;
            }
            out.write_all(text.as_bytes()).map_err(written)?;
            text.clear();
            progress.add(page.row_count as u64);
            paging_state.clone_from(&page.metadata.paging_state);
            if paging_state.is_none() {
                break;
            }
        }
        out.flush().map_err(written)?;
        progress.end();
        Ok(count)
    }

    fn import(
        &self,
        client: &mut Client,
        shape: &TableShape,
        format: Format,
    ) -> Result<u64, String> {
        let (input, bytes): (Box<dyn Read>, Option<u64>) = match &self.file {
            Some(path) => {
                let file = File::open(path).map_err(at(path))?;
                let bytes = file.metadata().map_err(at(path))?.len();
                (Box::new(file), Some(bytes))
            }
            None => (Box::new(io::stdin()), None),
        };
        let input: Box<dyn BufRead> = Box::new(BufReader::new(input));
        let mut rows = Lines::new(format, input, shape)?;
        let mut statements = Writers::new(shape, None);
        let mut progress = Progress::new("bytes", bytes);
        let mut count = 0;
        let mut waiting = Vec::new();
        loop {
            let before = rows.bytes_read();
            let row = rows.next_row()?;
            progress.add(rows.bytes_read() - before);
            let is_end = row.is_none();
            if let Some(row) = row {
                let bound = statements.bind(client, rows.line_number(), &row);
                waiting.push(bound.map_err(|error| error.to_string())?);
            }
            if waiting.len() >= ROWS_IN_FLIGHT || is_end {
                client.execute_all(&waiting, LEVEL).map_err(|(line, error)| {
                    format!("line {line}: {error}; {count} rows before it are imported")
                })?;
                count += waiting.len() as u64;
                waiting.clear();
            }
            if is_end {
                progress.end();
                return Ok(count);
            }
        }
    }
}

/// What went wrong, and what to do about it.
fn told(error: ClientError) -> String {
    match error {
        ClientError::Unreachable { .. } => format!("{error}; name it with --host ADDR:PORT"),
        ClientError::LoginWanted => {
            format!(
                "{error}: give --user, and a password with --password-file, HELENUS_PASSWORD or when asked"
            )
        }
        ClientError::TlsWanted => format!("{error}: give --tls, or --ca FILE"),
        ClientError::Broken(_) => format!("{error}; does the node want TLS (--tls)?"),
        other => other.to_string(),
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

fn by_name(file: Option<&Path>) -> Format {
    match file.and_then(Path::extension).and_then(|extension| extension.to_str()) {
        Some("json" | "jsonl" | "ndjson") => Format::Json,
        _ => Format::Csv,
    }
}

/// Where the node of this configuration is reached from here.
pub(crate) fn own_address(listen: Option<SocketAddr>) -> String {
    let mut address = listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9042)));
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address.to_string()
}
