//! A value as people read it: as cqlsh prints it.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use types::CqlType;
use types::value::format::to_hex;
use types::value::temporal::civil_from_days;
use types::value::{Decimal, Duration, ListIter, MapIter, TupleIter, VectorIter};
use types::value::{to_cql_text_unquoted, varint};

use crate::paint::{Colour, Painted};

/// Significant digits of a float and of a double on the screen.
const FLOAT_DIGITS: usize = 5;
const DAY_MS: i64 = 86_400_000;
/// The day 0 of a `date`.
const DATE_EPOCH: i64 = 1 << 31;
/// The years that have four digits; what lies outside is shown as a number.
const YEARS: std::ops::RangeInclusive<i64> = 1..=9999;

/// How values are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Digits of floats and doubles; all that matter without a number.
    pub(crate) float_digits: Option<usize>,
    pub(crate) double_digits: Option<usize>,
    /// Digits behind the second of a timestamp: 3 or 6.
    pub(crate) second_digits: usize,
    /// Backslashes doubled and control characters as escapes.
    pub(crate) is_escaped: bool,
    pub(crate) true_and_false: [String; 2],
    pub(crate) null: String,
}

impl Style {
    /// That of tables on the screen.
    pub(crate) fn screen() -> Style {
        Style {
            float_digits: Some(FLOAT_DIGITS),
            double_digits: Some(FLOAT_DIGITS),
            second_digits: 6,
            is_escaped: true,
            true_and_false: ["True".to_owned(), "False".to_owned()],
            null: "null".to_owned(),
        }
    }

    /// That of files: nothing is lost.
    pub(crate) fn file() -> Style {
        Style {
            float_digits: None,
            double_digits: None,
            second_digits: 3,
            is_escaped: false,
            null: String::new(),
            ..Style::screen()
        }
    }

    /// The value of a cell.
    pub(crate) fn cell(&self, ty: &CqlType, value: Option<&[u8]>) -> Painted {
        match value {
            None => Painted::new(Colour::Red, self.null.as_str()),
            Some(bytes) => self.value(ty, bytes, false),
        }
    }

    fn part(&self, ty: &CqlType, value: Option<&[u8]>) -> Painted {
        match value {
            // The text for null is one of whole cells; inside a value it is always this word.
            None => Painted::new(Colour::Red, "null"),
            Some(bytes) => self.value(ty, bytes, true),
        }
    }

    fn value(&self, ty: &CqlType, bytes: &[u8], is_quoted: bool) -> Painted {
        let is_text = matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Blob);
        if bytes.is_empty() && !is_text {
            return Painted::new(Colour::Yellow, "");
        }
        let blob = || Painted::new(Colour::DarkMagenta, format!("0x{}", to_hex(bytes)));
        match ty {
            CqlType::Text | CqlType::Ascii => match std::str::from_utf8(bytes) {
                Ok(text) => self.text(text, is_quoted),
                Err(_) => blob(),
            },
            CqlType::Blob | CqlType::Custom(_) => blob(),
            CqlType::List { element, .. } => {
                self.sequence('[', ']', ListIter::new(bytes).map_while(Result::ok), |part| {
                    self.part(element, part)
                })
            }
            CqlType::Set { element, .. } => {
                self.sequence('{', '}', ListIter::set(bytes).map_while(Result::ok), |part| {
                    self.part(element, part)
                })
            }
            CqlType::Vector { element, dimension } => {
                let parts = VectorIter::new(element, *dimension, bytes).map_while(Result::ok);
                self.sequence('[', ']', parts, |part| self.part(element, Some(part)))
            }
            CqlType::Map { key, value, .. } => {
                let entries = MapIter::new(bytes).map_while(Result::ok);
                self.sequence('{', '}', entries, |(from, to)| {
                    let mut entry = self.part(key, Some(from));
                    entry.push(Colour::Blue, ": ");
                    entry.append(self.part(value, Some(to)));
                    entry
                })
            }
            CqlType::Tuple(parts) => {
                let mut values = TupleIter::new(bytes).map_while(Result::ok);
                self.sequence('(', ')', parts.iter(), |ty| self.part(ty, values.next().flatten()))
            }
            CqlType::User { definition, .. } => {
                let mut values = TupleIter::new(bytes).map_while(Result::ok);
                self.sequence('{', '}', definition.fields.iter(), |(name, ty)| {
                    let mut field = Painted::new(Colour::Yellow, name.as_ref());
                    field.push(Colour::Blue, ": ");
                    field.append(self.part(ty, values.next().flatten()));
                    field
                })
            }
            native => match self.native(native, bytes) {
                Some(text) if is_quoted && is_quoted_type(native) => {
                    Painted::new(Colour::Green, format!("'{text}'"))
                }
                Some(text) => Painted::new(Colour::Green, text),
                None => blob(),
            },
        }
    }

    fn sequence<T>(
        &self,
        open: char,
        close: char,
        parts: impl Iterator<Item = T>,
        mut painted: impl FnMut(T) -> Painted,
    ) -> Painted {
        let mut out = Painted::new(Colour::Blue, open);
        for (index, part) in parts.enumerate() {
            if index > 0 {
                out.push(Colour::Blue, ", ");
            }
            out.append(painted(part));
        }
        out.push(Colour::Blue, close);
        out
    }

    fn native(&self, ty: &CqlType, bytes: &[u8]) -> Option<String> {
        Some(match ty {
            CqlType::Boolean => {
                let [yes, no] = &self.true_and_false;
                if bytes.first() == Some(&0) { no.clone() } else { yes.clone() }
            }
            CqlType::Float => {
                let value = f32::from_be_bytes(bytes.try_into().ok()?);
                match self.float_digits {
                    Some(digits) => format_float(f64::from(value), digits),
                    None => to_cql_text_unquoted(ty, bytes),
                }
            }
            CqlType::Double => {
                let value = f64::from_be_bytes(bytes.try_into().ok()?);
                match self.double_digits {
                    Some(digits) => format_float(value, digits),
                    None => to_cql_text_unquoted(ty, bytes),
                }
            }
            CqlType::Timestamp => {
                format_timestamp(i64::from_be_bytes(bytes.try_into().ok()?), self.second_digits)
            }
            CqlType::Date => {
                let days = i64::from(u32::from_be_bytes(bytes.try_into().ok()?)) - DATE_EPOCH;
                let (year, month, day) = civil_from_days(days);
                match YEARS.contains(&year) {
                    true => format!("{year:04}-{month:02}-{day:02}"),
                    false => days.to_string(),
                }
            }
            CqlType::Inet => match bytes.len() {
                4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(),
                _ => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
            },
            CqlType::Decimal => Decimal::decode(bytes)?.to_string(),
            CqlType::Varint => varint::decode(bytes).to_string(),
            CqlType::Duration => format_duration(&Duration::decode(bytes).ok()?),
            _ => to_cql_text_unquoted(ty, bytes),
        })
    }

    fn text(&self, text: &str, is_quoted: bool) -> Painted {
        let mut out = Painted::default();
        let mut run = String::new();
        if is_quoted {
            run.push('\'');
        }
        for character in text.chars() {
            match character {
                '\'' if is_quoted => run.push_str("''"),
                '\\' if self.is_escaped => run.push_str("\\\\"),
                '\0'..='\x1f' | '\x7f'..='\u{a0}' if self.is_escaped => {
                    out.push(Colour::Yellow, std::mem::take(&mut run));
                    out.push(Colour::DarkMagenta, escape(character));
                }
                _ => run.push(character),
            }
        }
        if is_quoted {
            run.push('\'');
        }
        out.push(Colour::Yellow, run);
        out
    }
}

/// Whether a value of the type stands in quotes inside another.
fn is_quoted_type(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Timestamp | CqlType::Inet)
}

fn escape(character: char) -> String {
    match character {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        other => format!("\\x{:02x}", u32::from(other)),
    }
}

/// A name as it heads a column, or stands in a list.
pub(crate) fn format_name(name: &str, colour: Colour) -> Painted {
    let escaped = Style::screen().text(name, false).plain();
    Painted::new(colour, escaped)
}

/// Milliseconds since 1970 as a date with time; as the number where the year has not four digits.
pub(crate) fn format_timestamp(millis: i64, second_digits: usize) -> String {
    let (days, of_day) = (millis.div_euclid(DAY_MS), millis.rem_euclid(DAY_MS));
    let (year, month, day) = civil_from_days(days);
    if !YEARS.contains(&year) {
        return millis.to_string();
    }
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    let fraction = format!("{:03}000", of_day % 1000);
    let fraction = fraction.get(..second_digits).unwrap_or(&fraction);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{fraction}+0000")
}

/// A number with so many significant digits behind the point, as cqlsh counts them.
pub(crate) fn format_float(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    let mut digits = digits;
    if value.abs() > f64::EPSILON {
        let exponent = value.abs().log10().trunc() as i64;
        if (-4..digits as i64).contains(&exponent) {
            digits = usize::try_from(digits as i64 + exponent + 1).unwrap_or(1);
        }
    }
    general(value, digits.max(1))
}

/// `%.*g` of C: the shorter of the plain and the scientific form, without zeros at the end.
fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() };
    }
    let scientific = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..digits as i64).contains(&exponent) {
        let behind_point = usize::try_from(digits as i64 - 1 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.behind_point$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn format_duration(duration: &Duration) -> String {
    let mut out = String::new();
    if duration.is_negative() {
        out.push('-');
    }
    let mut put = |mut left: u64, units: &[(u64, &str)]| {
        for (size, unit) in units {
            if left >= *size && left > 0 {
                let _ = write!(out, "{}{unit}", left / size);
                left %= size;
            }
        }
    };
    put(u64::from(duration.months.unsigned_abs()), &[(12, "y"), (1, "mo")]);
    put(u64::from(duration.days.unsigned_abs()), &[(1, "d")]);
    let units = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    put(duration.nanos.unsigned_abs(), &units);
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use types::UserType;
    use types::value::{parse_text, write_list, write_map, write_set, write_tuple, write_vector};

    fn check(ty: &CqlType, bytes: &[u8], expect: &str) {
        assert_eq!(Style::screen().cell(ty, Some(bytes)).plain(), expect, "{ty}");
    }

    #[test]
    fn native_values_are_shown_as_cqlsh_shows_them() {
        for (ty, text, expect) in [
            (CqlType::Int, "-7", "-7"),
            (CqlType::BigInt, "9223372036854775807", "9223372036854775807"),
            (CqlType::Varint, "123456789012345678901234567890", "123456789012345678901234567890"),
            (CqlType::Boolean, "true", "True"),
            (CqlType::Boolean, "false", "False"),
            (CqlType::Decimal, "1.50", "1.50"),
            (CqlType::Decimal, "1E+5", "1E+5"),
            (CqlType::Timestamp, "2026-11-17 15:45:22Z", "2026-11-17 15:45:22.000000+0000"),
            (CqlType::Timestamp, "1969-12-31 23:59:59.999Z", "1969-12-31 23:59:59.999000+0000"),
            (CqlType::Timestamp, "253402300800000", "253402300800000"),
            (CqlType::Date, "2024-02-29", "2024-02-29"),
            (CqlType::Time, "23:59:59.5", "23:59:59.500000000"),
            (CqlType::Inet, "127.0.0.1", "127.0.0.1"),
            (CqlType::Inet, "2001:db8::1", "2001:db8::1"),
            (CqlType::Duration, "1y2mo3d4h5m6s7ms8us9ns", "1y2mo3d4h5m6s7ms8us9ns"),
            (CqlType::Duration, "-14mo", "-1y2mo"),
            (CqlType::Blob, "00ff10", "0x00ff10"),
            (CqlType::Blob, "", "0x"),
            (CqlType::Text, "plain", "plain"),
            (CqlType::Text, "a\\b\n\t\x01", "a\\\\b\\n\\t\\x01"),
            (CqlType::Text, "it's", "it's"),
            (CqlType::Int, "", ""),
        ] {
            check(&ty, &parse_text(&ty, text).unwrap(), expect);
        }
        assert_eq!(Style::screen().cell(&CqlType::Int, None).plain(), "null");
        check(&CqlType::Text, &[0xff], "0xff");
        check(&CqlType::Float, &[1], "0x01");
    }

    #[test]
    fn floats_have_five_digits_as_cqlsh_counts_them() {
        for (value, expect) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (2.123456789012345, "2.12346"),
            (1234.56789, "1234.56789"),
            (12345.678901, "12345.6789"),
            (123456.789, "1.2346e+05"),
            (0.1, "0.1"),
            (0.000123456789, "0.000123"),
            (0.00001234567, "1.2e-05"),
            (1.7976931348623157e308, "1.7977e+308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(format_float(value, 5), expect, "{value}");
        }
        check(&CqlType::Float, &0.1f32.to_be_bytes(), "0.1");
    }

    #[test]
    fn values_made_of_parts() {
        let frozen = true;
        let text = |text: &str| text.as_bytes().to_vec();
        let int = |value: i32| value.to_be_bytes().to_vec();
        let mut bytes = Vec::new();
        write_list(&[int(3), int(1)], &mut bytes);
        check(&CqlType::List { element: Arc::new(CqlType::Int), frozen }, &bytes, "[3, 1]");

        let mut bytes = Vec::new();
        write_set(&CqlType::Text, &mut vec![text("b"), text("it's")], &mut bytes);
        check(&CqlType::Set { element: Arc::new(CqlType::Text), frozen }, &bytes, "{'b', 'it''s'}");

        let mut bytes = Vec::new();
        let map =
            CqlType::Map { key: Arc::new(CqlType::Text), value: Arc::new(CqlType::Int), frozen };
        write_map(&CqlType::Text, &mut vec![(text("x"), int(1))], &mut bytes);
        check(&map, &bytes, "{'x': 1}");

        let pair = vec![CqlType::Int, CqlType::Text];
        let mut bytes = Vec::new();
        write_tuple(&[Some(int(1)), None], &mut bytes);
        check(&CqlType::Tuple(pair.clone().into()), &bytes, "(1, null)");

        let fields = vec![("a".into(), CqlType::Int), ("b".into(), CqlType::Text)];
        let definition =
            Arc::new(UserType { keyspace: "shop".into(), name: "pair".into(), fields });
        let user = CqlType::User { definition, frozen };
        let mut bytes = Vec::new();
        write_tuple(&[Some(int(1)), Some(text("two"))], &mut bytes);
        check(&user, &bytes, "{a: 1, b: 'two'}");
        // A field that was added later.
        let mut bytes = Vec::new();
        write_tuple(&[Some(int(1))], &mut bytes);
        check(&user, &bytes, "{a: 1, b: null}");

        let mut bytes = Vec::new();
        write_vector(&CqlType::Float, &[1f32.to_be_bytes(), 0.25f32.to_be_bytes()], &mut bytes);
        let vector = CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 2 };
        check(&vector, &bytes, "[1, 0.25]");

        let mut bytes = Vec::new();
        write_list(&[0i64.to_be_bytes()], &mut bytes);
        let times = CqlType::List { element: Arc::new(CqlType::Timestamp), frozen };
        check(&times, &bytes, "['1970-01-01 00:00:00.000000+0000']");
    }
}
