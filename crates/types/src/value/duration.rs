//! `duration`: months, days and nanoseconds, with its bytes and its text forms.

use std::fmt;

use super::error::ValueError;
use super::vint;

const NANOS_PER_MICRO: i64 = 1_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MINUTE: i64 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: i64 = 60 * NANOS_PER_MINUTE;
const MONTHS_PER_YEAR: i32 = 12;
const DAYS_PER_WEEK: i32 = 7;

/// An amount of time. All three parts have the same sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Duration {
    pub months: i32,
    pub days: i32,
    /// Nanoseconds.
    pub nanos: i64,
}

impl Duration {
    /// The duration in a value's bytes. Bytes after it are ignored, as Cassandra does.
    pub fn decode(bytes: &[u8]) -> Result<Self, ValueError> {
        const RULE: &str = "Expected at least 3 bytes for a duration";
        let too_short = ValueError::Length { rule: RULE, actual: bytes.len() };
        if bytes.len() < 3 {
            return Err(too_short);
        }
        let mut input = bytes;
        let mut part = || vint::take_signed(&mut input).ok_or_else(|| too_short.clone());
        let (months, days, nanos) = (part()?, part()?, part()?);
        let narrow = |part, value| {
            i32::try_from(value).map_err(|_| ValueError::DurationPart { part, value })
        };
        let duration =
            Self { months: narrow("months", months)?, days: narrow("days", days)?, nanos };
        let all_positive = months >= 0 && days >= 0 && nanos >= 0;
        let all_negative = months <= 0 && days <= 0 && nanos <= 0;
        if all_positive || all_negative {
            Ok(duration)
        } else {
            Err(ValueError::DurationSigns { months, days, nanos })
        }
    }

    /// Appends the value's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        vint::write_signed(i64::from(self.months), out);
        vint::write_signed(i64::from(self.days), out);
        vint::write_signed(self.nanos, out);
    }

    /// Whether any part is below zero.
    pub fn is_negative(&self) -> bool {
        self.months < 0 || self.days < 0 || self.nanos < 0
    }

    /// Whether it has no part below a day.
    pub fn has_day_precision(&self) -> bool {
        self.nanos == 0
    }

    /// Whether it has no part below a millisecond.
    pub fn has_millisecond_precision(&self) -> bool {
        self.nanos % NANOS_PER_MILLI == 0
    }

    /// Reads `1y2mo3d4h`, `P1Y2M3DT4H`, `P1W` and `P0001-02-03T04:05:06`, each with an optional
    /// minus in front.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let (is_negative, source) = match text.strip_prefix('-') {
            Some(source) => (true, source),
            None => (false, text),
        };
        let mut builder = Builder::default();
        let read = if !source.starts_with('P') {
            builder.read_standard(source)
        } else if source.ends_with('W') {
            builder.read_weeks(source)
        } else if source.contains('-') {
            builder.read_alternative(source)
        } else {
            builder.read_iso(source)
        };
        match read? {
            true => Ok(builder.build(is_negative)),
            false => Err(unreadable(source)),
        }
    }
}

fn unreadable(source: &str) -> ValueError {
    ValueError::Unreadable {
        before: "Unable to convert '",
        text: source.into(),
        after: "' to a duration",
    }
}

/// Years, months, …: in this order only, each once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Years,
    Months,
    Weeks,
    Days,
    Hours,
    Minutes,
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Years => "years",
            Unit::Months => "months",
            Unit::Weeks => "weeks",
            Unit::Days => "days",
            Unit::Hours => "hours",
            Unit::Minutes => "minutes",
            Unit::Seconds => "seconds",
            Unit::Millis => "milliseconds",
            Unit::Micros => "microseconds",
            Unit::Nanos => "nanoseconds",
        }
    }

    fn nanos(self) -> i64 {
        match self {
            Unit::Hours => NANOS_PER_HOUR,
            Unit::Minutes => NANOS_PER_MINUTE,
            Unit::Seconds => NANOS_PER_SECOND,
            Unit::Millis => NANOS_PER_MILLI,
            Unit::Micros => NANOS_PER_MICRO,
            Unit::Years | Unit::Months | Unit::Weeks | Unit::Days | Unit::Nanos => 1,
        }
    }
}

/// The unit symbols of the standard form; two-letter symbols are tried first.
const SYMBOLS: [(&str, Unit); 11] = [
    ("mo", Unit::Months),
    ("ms", Unit::Millis),
    ("us", Unit::Micros),
    ("µs", Unit::Micros),
    ("ns", Unit::Nanos),
    ("y", Unit::Years),
    ("w", Unit::Weeks),
    ("d", Unit::Days),
    ("h", Unit::Hours),
    ("s", Unit::Seconds),
    ("m", Unit::Minutes),
];

#[derive(Default)]
struct Builder {
    months: i32,
    days: i32,
    nanos: i64,
    last: Option<Unit>,
}

impl Builder {
    fn add(&mut self, number: &str, unit: Unit) -> Result<(), ValueError> {
        let amount: i64 = number.parse().map_err(|_| ValueError::Unreadable {
            before: "For input string: \"",
            text: number.into(),
            after: "\"",
        })?;
        match self.last {
            Some(last) if last == unit => return Err(ValueError::DurationRepeats(unit.name())),
            Some(last) if last > unit => {
                return Err(ValueError::DurationOrder { first: last.name(), second: unit.name() });
            }
            _ => self.last = Some(unit),
        }
        let added = match unit {
            Unit::Years => add_i32(&mut self.months, amount, MONTHS_PER_YEAR, "months"),
            Unit::Months => add_i32(&mut self.months, amount, 1, "months"),
            Unit::Weeks => add_i32(&mut self.days, amount, DAYS_PER_WEEK, "days"),
            Unit::Days => add_i32(&mut self.days, amount, 1, "days"),
            _ => {
                let total = amount.checked_mul(unit.nanos());
                match total.and_then(|total| self.nanos.checked_add(total)) {
                    Some(total) => {
                        self.nanos = total;
                        Ok(())
                    }
                    None => Err("nanoseconds"),
                }
            }
        };
        added.map_err(ValueError::DurationTooLong)
    }

    /// `1y2mo3w4d5h6m7s8ms9us10ns`; `false` when the text is not of this form.
    fn read_standard(&mut self, source: &str) -> Result<bool, ValueError> {
        if source.is_empty() {
            return Ok(false);
        }
        let mut rest = source;
        while !rest.is_empty() {
            let (number, after) = split_digits(rest);
            let unit = SYMBOLS.iter().find_map(|(symbol, unit)| {
                let head = after.get(..symbol.len())?;
                let same = head.to_lowercase() == *symbol;
                same.then(|| (*unit, after.get(symbol.len()..).unwrap_or("")))
            });
            let (Some((unit, tail)), false) = (unit, number.is_empty()) else {
                return Ok(false);
            };
            self.add(number, unit)?;
            rest = tail;
        }
        Ok(true)
    }

    /// `P3W`
    fn read_weeks(&mut self, source: &str) -> Result<bool, ValueError> {
        let (number, rest) = split_digits(source.strip_prefix('P').unwrap_or(source));
        if number.is_empty() || rest != "W" {
            return Ok(false);
        }
        self.add(number, Unit::Weeks)?;
        Ok(true)
    }

    /// `P1Y2M3DT4H5M6S`, every part optional.
    fn read_iso(&mut self, source: &str) -> Result<bool, ValueError> {
        let (date, time) = match source.split_once('T') {
            Some((date, time)) => (date, Some(time)),
            None => (source, None),
        };
        let date = date.strip_prefix('P').unwrap_or(date);
        let date_units = [('Y', Unit::Years), ('M', Unit::Months), ('D', Unit::Days)];
        let time_units = [('H', Unit::Hours), ('M', Unit::Minutes), ('S', Unit::Seconds)];
        if !matches_units(date, &date_units) || !matches_units(time.unwrap_or(""), &time_units) {
            return Ok(false);
        }
        self.add_units(date, &date_units)?;
        self.add_units(time.unwrap_or(""), &time_units)?;
        Ok(true)
    }

    fn add_units(&mut self, text: &str, units: &[(char, Unit)]) -> Result<(), ValueError> {
        let mut rest = text;
        for (letter, unit) in units {
            let (number, after) = split_digits(rest);
            if let Some(tail) = after.strip_prefix(*letter) {
                self.add(number, *unit)?;
                rest = tail;
            }
        }
        Ok(())
    }

    /// `P0001-02-03T04:05:06`
    fn read_alternative(&mut self, source: &str) -> Result<bool, ValueError> {
        const SHAPE: &[u8] = b"P0000-00-00T00:00:00";
        let fits = source.len() == SHAPE.len()
            && source.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                _ => byte == *shape,
            });
        if !fits {
            return Ok(false);
        }
        let parts = [
            (1..5, Unit::Years),
            (6..8, Unit::Months),
            (9..11, Unit::Days),
            (12..14, Unit::Hours),
            (15..17, Unit::Minutes),
            (18..20, Unit::Seconds),
        ];
        for (range, unit) in parts {
            self.add(source.get(range).unwrap_or("0"), unit)?;
        }
        Ok(true)
    }

    fn build(&self, is_negative: bool) -> Duration {
        let sign = if is_negative { -1 } else { 1 };
        Duration {
            months: self.months * sign,
            days: self.days * sign,
            nanos: self.nanos * i64::from(sign),
        }
    }
}

fn matches_units(text: &str, units: &[(char, Unit)]) -> bool {
    let mut rest = text;
    for (letter, _) in units {
        let (number, after) = split_digits(rest);
        if let (false, Some(tail)) = (number.is_empty(), after.strip_prefix(*letter)) {
            rest = tail;
        }
    }
    rest.is_empty()
}

fn add_i32(
    total: &mut i32,
    amount: i64,
    factor: i32,
    unit: &'static str,
) -> Result<(), &'static str> {
    let sum = amount
        .checked_mul(i64::from(factor))
        .and_then(|added| i64::from(*total).checked_add(added))
        .and_then(|sum| i32::try_from(sum).ok());
    *total = sum.ok_or(unit)?;
    Ok(())
}

/// The digits in front, and what follows them.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// The standard form, with the largest units first and zero parts left out.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negative() {
            f.write_str("-")?;
        }
        let mut months = u64::from(self.months.unsigned_abs());
        let mut nanos = self.nanos.unsigned_abs();
        let part = |f: &mut fmt::Formatter<'_>, rest: &mut u64, size: i64, unit: &str| {
            let size = size.unsigned_abs();
            if *rest >= size && *rest > 0 {
                write!(f, "{}{unit}", *rest / size)?;
                *rest %= size;
            }
            Ok::<(), fmt::Error>(())
        };
        part(f, &mut months, i64::from(MONTHS_PER_YEAR), "y")?;
        part(f, &mut months, 1, "mo")?;
        part(f, &mut u64::from(self.days.unsigned_abs()), 1, "d")?;
        part(f, &mut nanos, NANOS_PER_HOUR, "h")?;
        part(f, &mut nanos, NANOS_PER_MINUTE, "m")?;
        part(f, &mut nanos, NANOS_PER_SECOND, "s")?;
        part(f, &mut nanos, NANOS_PER_MILLI, "ms")?;
        part(f, &mut nanos, NANOS_PER_MICRO, "us")?;
        part(f, &mut nanos, 1, "ns")
    }
}
