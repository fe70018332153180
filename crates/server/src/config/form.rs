//! The forms a setting's text may have, and how each is read.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Any text.
    Text,
    /// Names of these, separated by commas.
    Names(&'static str),
    /// A file or folder, relative to where the node is started.
    Path,
    /// An address without a port.
    Ip,
    /// `address:port`
    Address,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`
    Flag,
    /// A whole number.
    Count,
    /// `250ms`, `10m`
    Duration,
    /// `http://host:port/path`
    Url,
    /// `16MiB`, `20GB`, or a whole number of bytes
    Bytes,
}

impl Form {
    /// Whether TOML writes it without quotes.
    pub(super) fn is_bare(self) -> bool {
        matches!(self, Form::Flag | Form::Count)
    }

    /// What belongs there, for an error and for the printed file.
    pub(super) fn describe(self) -> String {
        match self {
            Form::Text => "a text".to_owned(),
            Form::Names(which) => format!("names separated by commas, of {which}"),
            Form::Path => "a path".to_owned(),
            Form::Ip => "an address such as 192.0.2.1".to_owned(),
            Form::Address => "an address with a port such as 127.0.0.1:9042".to_owned(),
            Form::Choice(words) => format!("one of {}", words.join(", ")),
            Form::Flag => "true or false".to_owned(),
            Form::Count => "a whole number".to_owned(),
            Form::Duration => "a duration such as 250ms, 10s, 5m, 2h or 1d".to_owned(),
            Form::Url => "an address such as http://127.0.0.1:4318/v1/traces".to_owned(),
            Form::Bytes => "a size such as 4096, 16MiB or 20GB".to_owned(),
        }
    }
}

/// The text is not of its form. The table knows which form that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadValue;

const DURATION_UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

const BYTE_UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

pub(super) fn duration(text: &str) -> Result<Duration, BadValue> {
    number_with_unit(text, &DURATION_UNITS).map(Duration::from_micros)
}

pub(super) fn bytes(text: &str) -> Result<u64, BadValue> {
    number_with_unit(text, &BYTE_UNITS)
}

/// Bytes, or `auto` for "sized from the machine".
pub(super) fn bytes_or_auto(text: &str) -> Result<Option<u64>, BadValue> {
    if text.eq_ignore_ascii_case("auto") { Ok(None) } else { bytes(text).map(Some) }
}

fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Result<u64, BadValue> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    let number: u64 = digits.parse().map_err(|_| BadValue)?;
    let unit = unit.trim();
    let (_, factor) =
        units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(BadValue)?;
    number.checked_mul(*factor).ok_or(BadValue)
}

pub(super) fn count_of_at_least(text: &str, least: usize) -> Result<usize, BadValue> {
    let number: usize = text.trim().parse().map_err(|_| BadValue)?;
    if number < least { Err(BadValue) } else { Ok(number) }
}

pub(super) fn flag(text: &str) -> Result<bool, BadValue> {
    match text.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(BadValue),
    }
}

/// The name `localhost` stands for 127.0.0.1; other names would ask a resolver, which may be slow
/// or wrong, so an address is wanted.
pub(super) fn address(text: &str) -> Result<SocketAddr, BadValue> {
    let text = text.trim();
    match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}").parse(),
        None => text.parse(),
    }
    .map_err(|_| BadValue)
}

pub(super) fn optional_address(text: &str) -> Result<Option<SocketAddr>, BadValue> {
    if text.trim().is_empty() { Ok(None) } else { address(text).map(Some) }
}

pub(super) fn optional_ip(text: &str) -> Result<Option<IpAddr>, BadValue> {
    let text = text.trim();
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| BadValue) }
}

pub(super) fn name(text: &str) -> Result<String, BadValue> {
    if text.trim().is_empty() { Err(BadValue) } else { Ok(text.to_owned()) }
}

pub(super) fn path(text: &str) -> Result<PathBuf, BadValue> {
    if text.is_empty() { Err(BadValue) } else { Ok(PathBuf::from(text)) }
}

pub(super) fn optional_path(text: &str) -> Result<Option<PathBuf>, BadValue> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

/// The meaning of a word.
pub(super) fn choice<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, BadValue> {
    let text = text.trim();
    words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
        .map(|(_, meaning)| *meaning)
        .ok_or(BadValue)
}

/// An amount of money in millionths, written with a decimal point.
pub(super) fn money(text: &str) -> Result<u64, BadValue> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.is_empty() || part.len() > 6 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadValue);
    }
    let whole: u64 = whole.parse().map_err(|_| BadValue)?;
    let part: u64 = format!("{part:0<6}").parse().map_err(|_| BadValue)?;
    whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part)).ok_or(BadValue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [
            ("4096", Ok(4096)),
            ("16MiB", Ok(16 << 20)),
            ("16 mib", Ok(16 << 20)),
            ("20GB", Ok(20_000_000_000)),
            ("0", Ok(0)),
            ("", Err(BadValue)),
            ("MiB", Err(BadValue)),
            ("-1", Err(BadValue)),
            ("1.5GB", Err(BadValue)),
            ("99999999999TB", Err(BadValue)),
            ("12 parsecs", Err(BadValue)),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn durations() {
        let cases = [
            ("10m", Ok(Duration::from_secs(600))),
            ("250ms", Ok(Duration::from_millis(250))),
            ("1d", Ok(Duration::from_secs(86_400))),
            ("5", Err(BadValue)),
            ("m", Err(BadValue)),
            ("1y", Err(BadValue)),
        ];
        for (text, expected) in cases {
            assert_eq!(duration(text), expected, "{text}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(address("localhost:1").unwrap(), "127.0.0.1:1".parse().unwrap());
        assert!(address("[::1]:9042").is_ok());
        assert_eq!(address("127.0.0.1"), Err(BadValue));
        assert_eq!(optional_address(""), Ok(None));
    }
}
