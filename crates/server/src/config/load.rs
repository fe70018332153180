//! From four sources to one [`Config`].

use std::fmt;
use std::path::PathBuf;

use toml_edit::{Document, Item, TableLike};

use super::form::Form;
use super::nearest::nearest;
use super::settings::{SETTINGS, Setting};
use super::{Authenticator, Authorizer, Config, Profile, Threshold, TlsMode};

const ENVIRONMENT_PREFIX: &str = "HELENUS_";

/// Where values may come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The path and the text of the configuration file.
    pub(crate) file: Option<(PathBuf, String)>,
    /// The environment of the process.
    pub(crate) environment: Vec<(String, String)>,
    /// `--set`, each `section.key=value`.
    pub(crate) sets: Vec<String>,
    /// The flags of their own: flag, setting, value.
    pub(crate) flags: Vec<(&'static str, &'static str, String)>,
}

/// The settings, and the text each was given in, in the order of the table.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(super) texts: Vec<String>,
    /// Whether each was given at all.
    given: Vec<bool>,
}

impl Loaded {
    /// Every setting with its value.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        SETTINGS.iter().map(|setting| setting.name).zip(self.texts.iter().map(String::as_str))
    }

    /// Whether somebody asked for this value, rather than it being the default.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        let mut given = SETTINGS.iter().zip(&self.given);
        given.any(|(setting, is_given)| setting.name == name && *is_given)
    }
}

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment { name: String },
    Flag { flag: &'static str },
}

/// Why the node does not start with this configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigError {
    /// The file is not TOML.
    Syntax { origin: Origin, message: String },
    /// There is no such setting.
    Unknown { origin: Origin, name: String, meant: Option<&'static str> },
    /// The value does not have the form of the setting.
    BadValue { origin: Origin, name: &'static str, text: String, expected: String },
    /// `--set` without an equals sign.
    NotAnAssignment { text: String },
    /// A warning that would come too late.
    WarnsAboveFail { name: &'static str },
    /// There are no roles.
    NeedsLogins { name: &'static str },
    /// Of the audit log less than two files would be kept.
    KeepsNoFile,
    /// One setting needs another.
    Needs { name: &'static str, value: &'static str, missing: &'static str },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment { name } => write!(f, "environment variable {name}"),
            Origin::Flag { flag } => f.write_str(flag),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Syntax { origin, message } => write!(f, "{origin}: {message}"),
            ConfigError::Unknown { origin, name, meant: Some(meant) } => {
                write!(f, "{origin}: unknown setting {name}; did you mean {meant}?")
            }
            ConfigError::Unknown { origin, name, meant: None } => {
                write!(f, "{origin}: unknown setting {name}; `helenus config` lists all of them")
            }
            ConfigError::BadValue { origin, name, text, expected } => {
                write!(f, "{origin}: {name} cannot be {text:?}; expected {expected}")
            }
            ConfigError::NotAnAssignment { text } => {
                write!(f, "--set {text}: expected section.key=value")
            }
            ConfigError::NeedsLogins { name } => {
                write!(
                    f,
                    "{name} needs auth.authenticator = \"password\": without logins there are no roles"
                )
            }
            ConfigError::WarnsAboveFail { name } => {
                write!(f, "{name}_warn cannot be above {name}_fail: nothing would be warned of")
            }
            ConfigError::KeepsNoFile => f.write_str(
                "audit.kept_bytes must be 0 or at least twice audit.file_bytes: otherwise nothing is kept when a file is begun",
            ),
            ConfigError::Needs { name, value, missing } => {
                write!(f, "{name} = {value:?} needs {missing}")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// The settings that `sources` give.
pub(crate) fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let mut given: Vec<Option<(String, Origin)>> = vec![None; SETTINGS.len()];
    if let Some((path, text)) = &sources.file {
        read_file(path, text, &mut given)?;
    }
    read_environment(&sources.environment, &mut given)?;
    for assignment in &sources.sets {
        let Some((name, value)) = assignment.split_once('=') else {
            return Err(ConfigError::NotAnAssignment { text: assignment.clone() });
        };
        give(&mut given, name.trim(), value.to_owned(), Origin::Flag { flag: "--set" })?;
    }
    for (flag, name, value) in &sources.flags {
        give(&mut given, name, value.clone(), Origin::Flag { flag })?;
    }
    let mut config = Config::default();
    let mut texts = Vec::with_capacity(SETTINGS.len());
    let is_given = given.iter().map(Option::is_some).collect();
    let profile = SETTINGS.iter().zip(&given).find(|(setting, _)| setting.name == "profile");
    let is_cosmos =
        profile.is_some_and(|(_, given)| given.as_ref().is_some_and(|(text, _)| text == "cosmos"));
    let authenticator =
        SETTINGS.iter().zip(&given).find(|(setting, _)| setting.name == "auth.authenticator");
    let has_logins = authenticator
        .is_none_or(|(_, given)| given.as_ref().is_none_or(|(text, _)| text == "password"));
    for (setting, given) in SETTINGS.iter().zip(given) {
        let default = if is_cosmos { cosmos_default(setting, has_logins) } else { setting.default };
        let (text, origin) = given.unwrap_or_else(|| (default.to_owned(), Origin::Default));
        (setting.apply)(&mut config, &text).map_err(|_| ConfigError::BadValue {
            origin,
            name: setting.name,
            text: text.clone(),
            expected: setting.form.describe(),
        })?;
        texts.push(text);
    }
    check_together(&config)?;
    Ok(Loaded { config, texts, given: is_given })
}

/// What a setting is where nobody gives it and the profile is that of Azure Cosmos DB (cosmos-facts
/// 3.1): its port, TLS only, password login; permissions, unless nobody has to log in; every answer
/// tells its charge (2.2).
fn cosmos_default(setting: &Setting, has_logins: bool) -> &'static str {
    match setting.name {
        "server.listen" => "127.0.0.1:10350",
        "tls.mode" => "required",
        "auth.authenticator" => "password",
        "units.payload" => "always",
        "auth.authorizer" if has_logins => "cassandra",
        _ => setting.default,
    }
}

/// What no single setting can know.
fn check_together(config: &Config) -> Result<(), ConfigError> {
    let auth = &config.auth;
    if auth.authorizer == Authorizer::Cassandra && auth.authenticator == Authenticator::AllowAll {
        return Err(ConfigError::Needs {
            name: "auth.authorizer",
            value: "cassandra",
            missing: "auth.authenticator = \"password\"",
        });
    }
    let limits = &config.limits;
    let of_roles = [
        ("limits.sessions_per_role", limits.sessions_per_role > 0),
        ("limits.statements_per_second_per_role", limits.statements_per_second_per_role > 0),
    ];
    for (name, is_set) in of_roles {
        if is_set && auth.authenticator == Authenticator::AllowAll {
            return Err(ConfigError::NeedsLogins { name });
        }
    }
    for (name, Threshold { warn, fail }) in config.guardrails.thresholds() {
        if fail > 0 && warn > fail {
            return Err(ConfigError::WarnsAboveFail { name });
        }
    }
    let audit = &config.audit;
    if audit.kept_bytes > 0 && audit.kept_bytes / 2 < audit.file_bytes {
        return Err(ConfigError::KeepsNoFile);
    }
    let tls = &config.tls;
    let value = match tls.mode {
        TlsMode::Off => return Ok(()),
        TlsMode::Optional => "optional",
        TlsMode::Required => "required",
    };
    let needs = |missing| Err(ConfigError::Needs { name: "tls.mode", value, missing });
    // The cosmos profile makes its own.
    let makes_own = config.profile == Profile::Cosmos && tls.key.is_none();
    if tls.certificate.is_none() && makes_own {
        return Ok(());
    }
    if tls.certificate.is_none() {
        return needs("tls.certificate");
    }
    if tls.key.is_none() {
        return needs("tls.key");
    }
    if tls.require_client_certificate && tls.client_ca.is_none() {
        return Err(ConfigError::Needs {
            name: "tls.require_client_certificate",
            value: "true",
            missing: "tls.client_ca",
        });
    }
    Ok(())
}

fn give(
    given: &mut [Option<(String, Origin)>],
    name: &str,
    text: String,
    origin: Origin,
) -> Result<(), ConfigError> {
    let found = SETTINGS.iter().zip(given).find(|(setting, _)| setting.name == name);
    match found {
        Some((_, slot)) => {
            *slot = Some((text, origin));
            Ok(())
        }
        None => Err(ConfigError::Unknown {
            origin,
            name: name.to_owned(),
            meant: nearest(name, SETTINGS.iter().map(|setting| setting.name)),
        }),
    }
}

/// Only variables with our prefix are looked at. One that is neither a setting, nor in a section of
/// ours, nor nearly a setting, belongs to somebody else.
fn read_environment(
    environment: &[(String, String)],
    given: &mut [Option<(String, Origin)>],
) -> Result<(), ConfigError> {
    for (variable, value) in environment {
        let Some(rest) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        // No setting: the password of whoever asks a node.
        if variable == crate::password::VARIABLE {
            continue;
        }
        let origin = Origin::Environment { name: variable.clone() };
        match SETTINGS.iter().find(|setting| setting.environment_name() == *variable) {
            Some(setting) => give(given, setting.name, value.clone(), origin)?,
            None => {
                let rest = rest.to_ascii_lowercase();
                let name = match rest.split_once('_') {
                    Some((section, key)) => format!("{section}.{key}"),
                    None => rest,
                };
                let meant = nearest(&name, SETTINGS.iter().map(|setting| setting.name));
                if meant.is_some() || SETTINGS.iter().any(|setting| setting.shares_section(&name)) {
                    return Err(ConfigError::Unknown { origin, name, meant });
                }
            }
        }
    }
    Ok(())
}

fn read_file(
    path: &std::path::Path,
    text: &str,
    given: &mut [Option<(String, Origin)>],
) -> Result<(), ConfigError> {
    let origin_at =
        |offset: usize| Origin::File { path: path.to_owned(), line: line_of(text, offset) };
    let document = Document::parse(text).map_err(|error| ConfigError::Syntax {
        origin: origin_at(error.span().map_or(0, |span| span.start)),
        message: error.message().trim().replace('\n', "; "),
    })?;
    let mut reader = FileReader { given, origin_at: &origin_at };
    reader.read_table("", document.as_table())
}

/// The line, from 1, in which a byte lies.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

struct FileReader<'a> {
    given: &'a mut [Option<(String, Origin)>],
    origin_at: &'a dyn Fn(usize) -> Origin,
}

impl FileReader<'_> {
    fn read_table(&mut self, prefix: &str, table: &dyn TableLike) -> Result<(), ConfigError> {
        for (key, item) in table.iter() {
            let name = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
            let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
            let origin = (self.origin_at)(span.map_or(0, |span| span.start));
            let is_section = prefix.is_empty()
                && SETTINGS.iter().any(|setting| {
                    setting.name.split_once('.').is_some_and(|(section, _)| section == key)
                });
            match item.as_table_like() {
                Some(section) if is_section => self.read_table(&name, section)?,
                _ => self.read_value(&name, item, origin)?,
            }
        }
        Ok(())
    }

    fn read_value(&mut self, name: &str, item: &Item, origin: Origin) -> Result<(), ConfigError> {
        let text = match item {
            Item::Value(toml_edit::Value::String(text)) => text.value().clone(),
            Item::Value(toml_edit::Value::Integer(number)) => number.value().to_string(),
            Item::Value(toml_edit::Value::Boolean(flag)) => flag.value().to_string(),
            _ => {
                let setting = find(name).ok_or_else(|| unknown(name, origin.clone()))?;
                return Err(ConfigError::BadValue {
                    origin,
                    name: setting.name,
                    text: item.type_name().to_owned(),
                    expected: setting.form.describe(),
                });
            }
        };
        give(self.given, name, text, origin)
    }
}

fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

fn unknown(name: &str, origin: Origin) -> ConfigError {
    let meant = nearest(name, SETTINGS.iter().map(|setting| setting.name));
    ConfigError::Unknown { origin, name: name.to_owned(), meant }
}

impl Setting {
    /// `HELENUS_SECTION_KEY`
    pub(super) fn environment_name(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    fn shares_section(&self, name: &str) -> bool {
        match (self.name.split_once('.'), name.split_once('.')) {
            (Some((ours, _)), Some((theirs, _))) => ours == theirs,
            _ => false,
        }
    }
}

impl Form {
    /// The words of a choice, none for the others.
    #[cfg(test)]
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Form::Choice(words) => words,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Guardrails;

    fn from_file(text: &str) -> Sources {
        Sources { file: Some(("node.toml".into(), text.to_owned())), ..Sources::default() }
    }

    fn error_of(sources: &Sources) -> String {
        load(sources).unwrap_err().to_string()
    }

    #[test]
    fn the_strongest_source_wins() {
        let mut sources =
            from_file("[server]\nrack = \"file\"\ndata_center = \"file\"\ncluster_name = \"file\"");
        sources.environment = vec![
            ("HELENUS_SERVER_RACK".into(), "env".into()),
            ("HELENUS_SERVER_DATA_CENTER".into(), "env".into()),
            ("PATH".into(), "/bin".into()),
        ];
        sources.sets = vec!["server.rack=flag".into()];
        let config = load(&sources).unwrap().config;
        assert_eq!(config.server.rack, "flag");
        assert_eq!(config.server.data_center, "env");
        assert_eq!(config.server.cluster_name, "file");
        assert_eq!(config.limits.frame_bytes, 16 << 20);
    }

    #[test]
    fn errors_name_the_place() {
        let cases = [
            (
                "\n[server]\n\nlistn = \"127.0.0.1:1\"\n",
                "node.toml:4: unknown setting server.listn; did you mean server.listen?",
            ),
            (
                "[storage]\ncommit = \"sometimes\"\n",
                "node.toml:2: storage.commit cannot be \"sometimes\"; expected one of group, periodic",
            ),
            (
                "[serverr]\nlisten = \"127.0.0.1:1\"\n",
                "node.toml:1: unknown setting serverr; `helenus config` lists all of them",
            ),
            (
                "server.listen = [1]\n",
                "node.toml:1: server.listen cannot be \"array\"; expected an address with a port such as 127.0.0.1:9042",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(error_of(&from_file(text)), expected);
        }
        let broken = error_of(&from_file("profile = \"default\"\n[server\n"));
        assert!(broken.starts_with("node.toml:2: "), "{broken}");
        let twice = error_of(&from_file("[log]\nlevel = \"info\"\nlevel = \"warn\"\n"));
        assert!(twice.starts_with("node.toml:3: "), "{twice}");
    }

    #[test]
    fn flags_and_variables_are_checked_too() {
        let mut sources = Sources { sets: vec!["log.levl=info".into()], ..Sources::default() };
        assert_eq!(error_of(&sources), "--set: unknown setting log.levl; did you mean log.level?");
        sources.sets = vec!["log.level".into()];
        assert_eq!(error_of(&sources), "--set log.level: expected section.key=value");
        sources.sets.clear();
        sources.environment = vec![("HELENUS_LOG_LEVL".into(), "x".into())];
        assert_eq!(
            error_of(&sources),
            "environment variable HELENUS_LOG_LEVL: unknown setting log.levl; did you mean log.level?"
        );
        sources.environment = vec![("HELENUS_BINARY_OF_A_TEST".into(), "x".into())];
        assert!(load(&sources).is_ok());
    }

    #[test]
    fn encryption_needs_its_files() {
        let sources = from_file("[tls]\nmode = \"required\"\ncertificate = \"a.pem\"");
        assert_eq!(error_of(&sources), "tls.mode = \"required\" needs tls.key");
    }

    #[test]
    fn guardrails() {
        assert_eq!(load(&Sources::default()).unwrap().config.guardrails, Guardrails::off());
        let set = |set: &str| Sources { sets: vec![set.to_owned()], ..Sources::default() };
        let levels =
            load(&set("guardrails.read_consistency_levels_warned=ALL, two,all")).unwrap().config;
        let warned = [protocol::Consistency::Two, protocol::Consistency::All];
        assert_eq!(levels.guardrails.read_consistency_levels.warned, warned);
        assert_eq!(
            error_of(&set("guardrails.write_consistency_levels_disallowed=MOST")),
            "--set: guardrails.write_consistency_levels_disallowed cannot be \"MOST\"; expected names \
             separated by commas, of ANY, ONE, TWO, THREE, QUORUM, ALL, LOCAL_QUORUM, EACH_QUORUM, SERIAL, \
             LOCAL_SERIAL, LOCAL_ONE, NODE_LOCAL"
        );
        assert_eq!(
            error_of(&set("audit.included_categories=AUTH,EVERYTHING")),
            "--set: audit.included_categories cannot be \"AUTH,EVERYTHING\"; expected names separated by \
             commas, of AUTH, DCL, DDL, DML, ERROR, OTHER, PREPARE, QUERY"
        );
        let kept = |kept| format!("[audit]\nfile_bytes = \"1MiB\"\nkept_bytes = \"{kept}\"\n");
        assert!(
            error_of(&from_file(&kept("2047KiB"))).starts_with("audit.kept_bytes must be 0 or")
        );
        assert!(load(&from_file(&kept("2MiB"))).is_ok() && load(&from_file(&kept("0B"))).is_ok());
        let sizes = from_file("[guardrails]\ncollection_size_fail = \"64KiB\"\ntables_fail = 10\n");
        let sizes = load(&sizes).unwrap().config.guardrails;
        assert_eq!((sizes.collection_size.fail, sizes.tables.fail), (65_536, 10));
        assert_eq!(
            error_of(&from_file("[guardrails]\ntables_warn = 11\ntables_fail = 10\n")),
            "guardrails.tables_warn cannot be above guardrails.tables_fail: nothing would be warned of"
        );
    }

    #[test]
    fn every_word_of_a_choice_is_understood() {
        for setting in SETTINGS.iter() {
            for word in setting.form.words() {
                let mut config = Config::default();
                assert!((setting.apply)(&mut config, word).is_ok(), "{} {word}", setting.name);
            }
        }
    }
}
