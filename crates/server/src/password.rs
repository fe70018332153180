//! Where the password of a login comes from: the command line, which others on the machine can read, a file, the
//! environment, or the person at the terminal.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::{Arg, ArgMatches};
use shell::ask_secret;

/// The variable that is looked at.
pub(crate) const VARIABLE: &str = "HELENUS_PASSWORD";
/// More of a file than this is not read: it is not a password.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Who logs in, as the command line says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    user: Option<String>,
    password: Option<String>,
    file: Option<PathBuf>,
}

/// The arguments that name a role and its password.
pub(crate) fn arguments() -> [Arg; 3] {
    let value = |name: &'static str, placeholder: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(placeholder).help(help)
    };
    [
        value("user", "ROLE", "The role to log in as"),
        value(
            "password",
            "PASSWORD",
            "Its password; others on this machine can see it here. Better: --password-file, HELENUS_PASSWORD, or none of them to be asked",
        ),
        value("password-file", "FILE", "Its password is the first line of this file")
            .conflicts_with("password"),
    ]
}

impl Credentials {
    /// What the arguments say.
    pub(crate) fn of(matches: &ArgMatches) -> Credentials {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        Credentials {
            user: text("user"),
            password: text("password"),
            file: text("password-file").map(PathBuf::from),
        }
    }

    /// Role and password, where a role is given.
    pub(crate) fn login(
        &self,
        environment: Option<String>,
    ) -> Result<Option<(String, String)>, String> {
        let Some(role) = self.user.clone() else { return Ok(None) };
        Ok(Some((role, self.password(environment)?)))
    }

    /// The password: as given, from the file, from `environment`, else asked for.
    fn password(&self, environment: Option<String>) -> Result<String, String> {
        if let Some(password) = &self.password {
            return Ok(password.clone());
        }
        if let Some(path) = &self.file {
            let told =
                |error: std::io::Error| format!("--password-file {}: {error}", path.display());
            let file = std::fs::File::open(path).map_err(told)?;
            let mut line = String::new();
            let limited = std::io::Read::take(file, FILE_BYTES_MAX);
            BufReader::new(limited).read_line(&mut line).map_err(told)?;
            let password = line.trim_end_matches(['\n', '\r']);
            return match password.is_empty() {
                true => Err(format!("--password-file {}: its first line is empty", path.display())),
                false => Ok(password.to_owned()),
            };
        }
        if let Some(password) = environment.filter(|password| !password.is_empty()) {
            return Ok(password);
        }
        let role = self.user.as_deref().unwrap_or_default();
        ask_secret(&format!("password of {role}: ")).map_err(|_| {
            format!("no password: give --password-file FILE or set {VARIABLE}; there is no terminal to ask at")
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test makes its own file")]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_source_counts() {
        let path = std::env::temp_dir().join(format!("helenus-password-{}", std::process::id()));
        std::fs::write(&path, "from file\r\nand more\n").unwrap();
        let given = |password: Option<&str>, file: Option<&PathBuf>| Credentials {
            user: Some("ann".to_owned()),
            password: password.map(str::to_owned),
            file: file.cloned(),
        };
        let variable = || Some("from variable".to_owned());
        let word = given(Some("word"), Some(&path)).password(variable());
        assert_eq!(word.unwrap(), "word");
        assert_eq!(given(None, Some(&path)).password(variable()).unwrap(), "from file");
        assert_eq!(given(None, None).password(variable()).unwrap(), "from variable");
        std::fs::write(&path, "\n").unwrap();
        assert!(given(None, Some(&path)).password(None).unwrap_err().contains("empty"));
        std::fs::remove_file(&path).unwrap();
        assert!(given(None, Some(&path)).password(None).unwrap_err().contains("--password-file"));
    }
}
