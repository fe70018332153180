//! Numbers for people, and times.

/// A number with four digits, as short as it can be written.
pub fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let size = value.abs();
    let places = match size {
        _ if size >= 1000.0 || size == 0.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `12.3k`: three digits and a letter for thousands.
pub fn count(value: f64) -> String {
    const LETTERS: [&str; 5] = ["", "k", "M", "G", "T"];
    // The sum of nothing is less than nothing, as floating points are counted: -0.
    let (mut size, mut letter) = (value + 0.0, "");
    for next in LETTERS.iter().skip(1) {
        if size.abs() < 999.5 {
            break;
        }
        size /= 1000.0;
        letter = next;
    }
    let places = match size.abs() {
        _ if letter.is_empty() && size.fract() == 0.0 => 0,
        size if size < 0.995 => 2,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{size:.places$}{letter}")
}

/// `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64, "B");
    for larger in UNITS {
        // What would be shown as 1024 of a unit is one of the next.
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    let places = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.places$} {unit}")
}

/// Milliseconds, in the unit that fits.
pub fn milliseconds(ms: f64) -> String {
    match ms.abs() {
        size if size < 1.0 => format!("{} µs", count(ms * 1000.0)),
        size if size < 1000.0 => format!("{} ms", count(ms)),
        _ => format!("{} s", count(ms / 1000.0)),
    }
}

/// `3d 4h`: the two largest units.
pub fn seconds(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(parts.len() - 1);
    let told: Vec<String> =
        parts.iter().skip(first).take(2).map(|(count, unit)| format!("{count}{unit}")).collect();
    told.join(" ")
}

/// The time of day in UTC, to the second.
pub fn clock(at_ms: i64) -> String {
    let of_day = at_ms.div_euclid(1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// `2026-05-04 12:30:00`, in UTC.
pub fn date(at_ms: i64) -> String {
    let (year, month, day) = civil(at_ms.div_euclid(86_400_000));
    format!("{year:04}-{month:02}-{day:02} {}", clock(at_ms))
}

/// A day since 1970 as a date, by Howard Hinnant's rule.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A text that is cut where it is too long.
pub fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (12.345, "12.35"),
            (1234.5, "1234"),
            (2.0, "2"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(digits(value), expected);
        }
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (7.0, "7"),
            (0.123, "0.12"),
            (12.34, "12.3"),
            (999.0, "999"),
            (1000.0, "1.00k"),
            (123_456.0, "123k"),
            (5e9, "5.00G"),
        ] {
            assert_eq!(count(value), expected);
        }
        assert_eq!((milliseconds(0.25), milliseconds(1500.0)), ("250 µs".into(), "1.50 s".into()));
    }

    #[test]
    fn sizes_and_times_are_for_people() {
        for (size, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (1024 * 1024 - 1, "1.00 MiB"),
            (10 * 1024 * 1024, "10.0 MiB"),
            (500 * 1024 * 1024, "500 MiB"),
            (20_000_000_000, "18.6 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(size), expected);
        }
        for (time, expected) in
            [(0, "0s"), (59, "59s"), (61, "1m 1s"), (7200, "2h 0m"), (273_600, "3d 4h")]
        {
            assert_eq!(seconds(time), expected);
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (at_ms, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400_000, "2000-02-29 00:00:00"),
            (1_778_070_600_000, "2026-05-06 12:30:00"),
            (-1000, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(date(at_ms), expected);
        }
        assert_eq!(cut("abcdef", 3), "abc…");
        assert_eq!(cut("äöü", 3), "äöü");
    }
}
