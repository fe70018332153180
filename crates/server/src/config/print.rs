//! The configuration as a commented file.

use std::fmt::Write as _;

use super::load::Loaded;
use super::settings::SETTINGS;

const PREAMBLE: &str = "\
# The settings of a Helenus node, all of them, each with its value.
#
# A setting can be given in four ways; the first that does so wins:
#   1. a flag:        helenus start --set server.listen=127.0.0.1:9043
#   2. the environment: HELENUS_SERVER_LISTEN=127.0.0.1:9043
#   3. this file:     helenus start --config FILE
#   4. its default.
# A setting that is unknown or has a bad value keeps the node from starting.
";

/// The file that would give exactly these values.
pub(crate) fn print(loaded: &Loaded) -> String {
    let mut out = String::from(PREAMBLE);
    let mut current_section = "";
    for (setting, text) in SETTINGS.iter().zip(&loaded.texts) {
        let (section, key) = setting.name.split_once('.').unwrap_or(("", setting.name));
        out.push('\n');
        if section != current_section {
            current_section = section;
            let _ = writeln!(out, "[{section}]");
        }
        for line in setting.doc.lines() {
            let _ = writeln!(out, "# {}", line.trim());
        }
        let _ = writeln!(out, "# Form: {}.", setting.form.describe());
        if setting.default != text {
            let _ =
                writeln!(out, "# Default: {}", toml_value(setting.form.is_bare(), setting.default));
        }
        let _ = writeln!(out, "{key} = {}", toml_value(setting.form.is_bare(), text));
    }
    out
}

fn toml_value(is_bare: bool, text: &str) -> String {
    // A count may also be `auto`.
    if is_bare && text != "auto" {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    #[test]
    fn the_printed_file_means_the_same() {
        let mut sources = Sources::default();
        sources.sets.push("server.cluster_name=it's \"quoted\" \\ here".to_owned());
        sources.sets.push("limits.connections=77".to_owned());
        let loaded = load(&sources).unwrap();
        let printed = print(&loaded);
        let again = Sources { file: Some(("printed.toml".into(), printed)), ..Sources::default() };
        assert_eq!(load(&again).unwrap().config, loaded.config);
    }
}
