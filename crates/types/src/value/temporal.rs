//! Dates, times and timestamps: arithmetic of the calendar, and Cassandra's text forms.

use super::duration::Duration;
use super::error::ValueError;

/// Milliseconds of a day.
pub const MILLIS_PER_DAY: i64 = 86_400_000;
/// Nanoseconds of a day.
pub const NANOS_PER_DAY: i64 = 86_400_000_000_000;
/// The day number of a `date` at the epoch.
pub const DATE_EPOCH: u32 = 1 << 31;

/// The last year whose milliseconds fit 64 bits.
const TIMESTAMP_YEAR_MAX: i64 = 292_278_994;

/// Days since 1970-01-01 of a day in the proleptic Gregorian calendar.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = i64::from((month + 9) % 12);
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// How many days a month has.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The `date` of a timestamp. Times before the epoch round towards it, as in Cassandra.
pub fn date_of_timestamp(millis: i64) -> u32 {
    let days = millis.div_euclid(1000) / 86_400;
    (days as u32).wrapping_add(DATE_EPOCH)
}

/// The timestamp at the start of a `date`.
pub fn timestamp_of_date(date: u32) -> i64 {
    (i64::from(date) - i64::from(DATE_EPOCH)) * MILLIS_PER_DAY
}

/// A timestamp plus (or minus) a duration: months first, with the day held within its month.
pub fn shift_timestamp(millis: i64, duration: &Duration, backwards: bool) -> i64 {
    let sign = if backwards { -1 } else { 1 };
    let (months, days) = (i64::from(duration.months) * sign, i64::from(duration.days) * sign);
    let sub_day = (duration.nanos / 1_000_000).wrapping_mul(sign);
    if months == 0 {
        return millis.wrapping_add(days * MILLIS_PER_DAY).wrapping_add(sub_day);
    }
    let (year, month, day) = civil_from_days(millis.div_euclid(MILLIS_PER_DAY));
    let month_index = year * 12 + i64::from(month) - 1 + months;
    let (year, month) = (month_index.div_euclid(12), month_index.rem_euclid(12) as u32 + 1);
    let day = day.min(days_in_month(year, month));
    let whole_days = days_from_civil(year, month, day) + days;
    // Java's calendar takes the milliseconds as 32 bits here.
    whole_days
        .wrapping_mul(MILLIS_PER_DAY)
        .wrapping_add(millis.rem_euclid(MILLIS_PER_DAY))
        .wrapping_add(i64::from(sub_day as i32))
}

/// Four digits at least; a plus in front of more.
fn format_year(year: i64) -> String {
    match year {
        10_000.. => format!("+{year}"),
        0.. => format!("{year:04}"),
        _ => format!("-{:04}", -year),
    }
}

/// A `date` as `yyyy-mm-dd`.
pub fn format_date(date: u32) -> String {
    let (year, month, day) = civil_from_days(i64::from(date) - i64::from(DATE_EPOCH));
    format!("{}-{month:02}-{day:02}", format_year(year))
}

/// A timestamp in UTC, with `T` (CQL literals) or a space (JSON) between date and time.
/// Years before the year 1 are counted backwards from it, without a mark, as Java's pattern does.
pub fn format_timestamp(millis: i64, separator: char) -> String {
    let (year, month, day) = civil_from_days(millis.div_euclid(MILLIS_PER_DAY));
    let year_of_era = if year > 0 { year } else { 1 - year };
    let rest = millis.rem_euclid(MILLIS_PER_DAY);
    let (seconds, fraction) = (rest / 1000, rest % 1000);
    format!(
        "{}-{month:02}-{day:02}{separator}{:02}:{:02}:{:02}.{fraction:03}Z",
        format_year(year_of_era),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
    )
}

/// A time of day as `hh:mm:ss.nnnnnnnnn`.
pub fn format_time(nanos: i64) -> String {
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    format!("{:02}:{:02}:{:02}.{fraction:09}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// Digits with an optional minus: the raw form of dates, times and timestamps.
fn is_raw_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A `date` from `yyyy-mm-dd`, or from the raw day number with the epoch at 2^31.
pub fn parse_date(text: &str) -> Result<u32, ValueError> {
    if is_raw_number(text) {
        let days = text.parse::<i64>().ok().and_then(|days| u32::try_from(days).ok());
        return days.ok_or_else(|| ValueError::Unreadable {
            before: "Unable to make unsigned int (for date) from: '",
            text: text.into(),
            after: "'",
        });
    }
    let unreadable = || ValueError::Unreadable {
        before: "Unable to coerce '",
        text: text.into(),
        after: "' to a formatted date (long)",
    };
    let mut cursor = Cursor(text);
    let (year, month, day) = cursor.padded_date().ok_or_else(unreadable)?;
    let exists = (1..=days_in_month(year, month)).contains(&day);
    if !cursor.0.is_empty() || !exists || year.abs() > TIMESTAMP_YEAR_MAX {
        return Err(unreadable());
    }
    let days = days_from_civil(year, month, day);
    i32::try_from(days)
        .map(|days| (days as u32).wrapping_add(DATE_EPOCH))
        .map_err(|_| ValueError::DateRange { text: text.into(), too_late: days > 0 })
}

/// A time of day in nanoseconds, from `hh:mm:ss[.fffffffff]` or the raw number.
pub fn parse_time(text: &str) -> Result<i64, ValueError> {
    if is_raw_number(text) {
        let raw = text.parse::<i64>().ok().filter(|nanos| (0..NANOS_PER_DAY).contains(nanos));
        return raw.ok_or_else(|| ValueError::Unreadable {
            before: "Unable to make long (for time) from: '",
            text: text.into(),
            after: "'",
        });
    }
    read_clock(text.trim_matches(|c| c <= ' ')).ok_or_else(|| ValueError::Unreadable {
        before: "(TimeType) Unable to coerce '",
        text: text.into(),
        after: "' to a formatted time (long)",
    })
}

fn read_clock(text: &str) -> Option<i64> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, fraction) = match rest.split_once('.') {
        Some((second, fraction)) => (second, fraction),
        None => (rest, "0"),
    };
    // Each part is read as Java reads an int: a plus sign is fine.
    let part = |text: &str, end: i64| {
        text.parse::<i32>().ok().map(i64::from).filter(|value| (0..end).contains(value))
    };
    let (hour, minute, second) = (part(hour, 24)?, part(minute, 60)?, part(second, 60)?);
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.is_empty() || fraction.len() > 9 || !digits {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
}

/// Milliseconds from any of the text forms of a timestamp, or from the raw number. Without an
/// offset the time is in UTC. `now` is left to the caller, who has the clock.
pub fn parse_timestamp(text: &str) -> Result<i64, ValueError> {
    if text.eq_ignore_ascii_case("now") {
        return Err(ValueError::CurrentTime);
    }
    if is_raw_number(text) {
        return text.parse().map_err(|_| ValueError::Unreadable {
            before: "Unable to make long (for date) from: '",
            text: text.into(),
            after: "'",
        });
    }
    read_date_time(text).or_else(|| read_date_only(text)).ok_or_else(|| ValueError::Unreadable {
        before: "Unable to parse a date/time from '",
        text: text.into(),
        after: "'",
    })
}

/// `y-M-d'T'H:m[:s][.f]` or with a space, then an optional zone.
fn read_date_time(text: &str) -> Option<i64> {
    let mut cursor = Cursor(text);
    let year = cursor.number()?;
    cursor.literal('-')?;
    let month = cursor.number()?;
    cursor.literal('-')?;
    let day = cursor.number()?;
    cursor.literal('T').or_else(|| cursor.literal(' '))?;
    let hour = cursor.number()?;
    cursor.literal(':')?;
    let minute = cursor.number()?;
    let second = match cursor.literal(':') {
        Some(()) => Some(cursor.number()?),
        None => None,
    };
    let millis = cursor.fraction();
    if millis.is_some() && second.is_none() {
        return None;
    }
    let (second, millis) = (second.unwrap_or(0), millis.unwrap_or(0));
    let offset = read_zone(cursor.0, false)?;
    // Only the very end of a day may be written as 24 o'clock.
    let end_of_day = hour == 24 && minute == 0 && second == 0 && millis == 0;
    let in_range = (end_of_day || (0..24).contains(&hour))
        && (0..60).contains(&minute)
        && (0..60).contains(&second)
        && year >= 1;
    if !in_range {
        return None;
    }
    let days = lenient_day(year, month, day)?;
    let of_day = ((hour * 60 + minute) * 60 + second - offset) * 1000 + millis;
    days.checked_mul(MILLIS_PER_DAY)?.checked_add(of_day)
}

/// `yyyy-MM-dd`, then an optional zone.
fn read_date_only(text: &str) -> Option<i64> {
    let mut cursor = Cursor(text);
    let (year, month, day) = cursor.padded_date()?;
    let zone = cursor.0;
    // Years before the first are read by one format only, which knows these offsets.
    if year < 1 && !matches!(zone, "" | "Z") && (zone.starts_with(' ') || !zone.contains(':')) {
        return None;
    }
    let offset = read_zone(zone, true)?;
    let days = lenient_day(year, i64::from(month), i64::from(day))?;
    days.checked_mul(MILLIS_PER_DAY)?.checked_sub(offset * 1000)
}

/// A day after the end of its month is the last day of it.
fn lenient_day(year: i64, month: i64, day: i64) -> Option<i64> {
    let month = u32::try_from(month).ok().filter(|month| (1..=12).contains(month))?;
    let day = u32::try_from(day).ok().filter(|day| (1..=31).contains(day))?;
    if year.abs() > TIMESTAMP_YEAR_MAX {
        return None;
    }
    Some(days_from_civil(year, month, day.min(days_in_month(year, month))))
}

/// Seconds east of UTC: nothing, `Z`, `+hh`, `+hhmm`, `+hh:mm`; after a space also `+hh:mm:ss` and
/// `UTC`, `UT` or `GMT` with or without an offset. A date may have `+hh:mm:ss` without a space.
fn read_zone(text: &str, date_only: bool) -> Option<i64> {
    if text.is_empty() || text == "Z" || text == " Z" {
        return Some(0);
    }
    let Some(zone) = text.strip_prefix(' ') else {
        return read_offset(text, date_only);
    };
    for prefix in ["UTC", "UT", "GMT"] {
        if let Some(rest) = zone.strip_prefix(prefix) {
            if rest.is_empty() || (prefix == "GMT" && rest == "0") {
                return Some(0);
            }
            // Neither `+hh` nor `+hhmm` here.
            return read_offset(rest, true).filter(|_| rest.contains(':'));
        }
    }
    read_offset(zone, true)
}

fn read_offset(text: &str, with_seconds: bool) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = text.get(1..)?;
    let two = |range: std::ops::Range<usize>, end: i64| {
        let part = digits.get(range)?;
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i64>().ok().filter(|value| is_number && *value < end)
    };
    let colon = |at: usize| digits.as_bytes().get(at) == Some(&b':');
    let (hours, minutes, seconds) = match digits.len() {
        2 => (two(0..2, 24)?, 0, 0),
        4 => (two(0..2, 24)?, two(2..4, 60)?, 0),
        5 if colon(2) => (two(0..2, 24)?, two(3..5, 60)?, 0),
        8 if with_seconds && colon(2) && colon(5) => {
            (two(0..2, 24)?, two(3..5, 60)?, two(6..8, 60)?)
        }
        _ => return None,
    };
    let total = (hours * 60 + minutes) * 60 + seconds;
    (total <= 18 * 3600).then_some(sign * total)
}

/// What is left of the text.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn literal(&mut self, expected: char) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// Up to `width` digits.
    fn digits(&mut self, width: usize) -> &str {
        let count = self.0.bytes().take(width).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(count).unwrap_or(("", self.0));
        self.0 = rest;
        digits
    }

    /// A number of any width; minus zero is none.
    fn number(&mut self) -> Option<i64> {
        let negative = self.literal('-').is_some();
        let value: i64 = self.digits(19).parse().ok()?;
        match (negative, value) {
            (true, 0) => None,
            (true, value) => Some(-value),
            (false, value) => Some(value),
        }
    }

    /// A point and up to nine digits, of which the first three count.
    fn fraction(&mut self) -> Option<i64> {
        self.literal('.')?;
        let digits = self.digits(9);
        let millis = format!("{digits:0<3}");
        millis.get(..3)?.parse().ok()
    }

    /// Four digits of year (more only after a sign), two of month, two of day.
    fn padded_date(&mut self) -> Option<(i64, u32, u32)> {
        let plus = self.literal('+').is_some();
        let minus = !plus && self.literal('-').is_some();
        let digits = self.digits(10);
        let width_fits = match (plus, minus) {
            (true, _) => digits.len() > 4,
            (_, true) => digits.len() >= 4,
            _ => digits.len() == 4,
        };
        let magnitude: i64 = digits.parse().ok()?;
        if !width_fits || (minus && magnitude == 0) || magnitude > 999_999_999 {
            return None;
        }
        self.literal('-')?;
        let month = self.digits(2).to_owned();
        self.literal('-')?;
        let day = self.digits(2).to_owned();
        if month.len() != 2 || day.len() != 2 {
            return None;
        }
        let month: u32 = month.parse().ok().filter(|month| (1..=12).contains(month))?;
        let day: u32 = day.parse().ok()?;
        Some((if minus { -magnitude } else { magnitude }, month, day))
    }
}
