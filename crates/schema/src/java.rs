//! How Java writes and reads numbers and orders hash maps: error texts and `system_schema` show it.

/// A double as `Double.toString` writes it.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0.0".into() } else { "0.0".into() };
    }
    let magnitude = value.abs();
    if (1e-3..1e7).contains(&magnitude) {
        let text = format!("{value}");
        return if text.contains('.') { text } else { format!("{text}.0") };
    }
    // Rust writes `1e-5` and `1.5e10`; Java `1.0E-5` and `1.5E10`.
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => format!("{digits}E{exponent}"),
        Some((digits, exponent)) => format!("{digits}.0E{exponent}"),
        None => text,
    }
}

/// `Integer.parseInt`: an optional sign and digits, nothing else.
pub(crate) fn parse_int(text: &str) -> Option<i32> {
    text.parse().ok()
}

/// `Long.parseLong`.
pub(crate) fn parse_long(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// `Double.parseDouble`: like Rust's, but with spaces around and a `d` or `f` behind allowed, and
/// only `NaN` and `Infinity` as words.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let trimmed = text.trim_matches(|c: char| c <= ' ');
    let unsigned = trimmed.trim_start_matches(['+', '-']);
    if unsigned == "NaN" {
        return Some(f64::NAN);
    }
    if unsigned == "Infinity" {
        return Some(if trimmed.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let number = trimmed.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(trimmed);
    let only_digits =
        number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E'));
    if only_digits { number.parse().ok() } else { None }
}

/// `StringUtils.isNumeric`: digits only, and at least one.
pub(crate) fn is_numeric(text: &str) -> bool {
    !text.is_empty() && text.chars().all(char::is_numeric)
}

/// `Boolean.parseBoolean`.
pub(crate) fn parse_boolean(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// Keys in the order in which a Java `HashMap<String, …>` hands them out.
pub(crate) fn hash_map_order<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let keys: Vec<&str> = keys.into_iter().collect();
    let buckets = grown_buckets(keys.len());
    order_by_bucket(keys, buckets, string_hash)
}

/// Names of columns or fields in the order in which a Java `HashMap` of them hands them out.
pub(crate) fn name_map_order<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let keys: Vec<&str> = keys.into_iter().collect();
    let buckets = grown_buckets(keys.len());
    order_by_bucket(keys, buckets, buffer_hash)
}

/// The same for a map that was made as a copy of another.
pub(crate) fn copied_name_map_order<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let keys: Vec<&str> = keys.into_iter().collect();
    let buckets = copy_buckets(keys.len());
    order_by_bucket(keys, buckets, buffer_hash)
}

fn order_by_bucket(mut keys: Vec<&str>, buckets: usize, hash: fn(&str) -> u32) -> Vec<&str> {
    // Stable, so that keys of one bucket stay in the order they came in.
    keys.sort_by_key(|key| spread(hash(key)) as usize & (buckets - 1));
    keys
}

/// `ByteBuffer.hashCode`, which is also that of a column's name.
fn buffer_hash(text: &str) -> u32 {
    let signed = |byte: u8| i32::from(byte as i8) as u32;
    text.bytes().rev().fold(1, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(signed(byte)))
}

/// `String.hashCode`.
fn string_hash(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

/// What `HashMap` makes of a hash code before it picks a bucket.
fn spread(hash: u32) -> u32 {
    hash ^ (hash >> 16)
}

/// What is left in a copy of a Java map of `size` entries, as Java prints its keys: `[a, b]`.
pub(crate) fn copied_keys_text<'a>(keys: impl IntoIterator<Item = &'a str>, size: usize) -> String {
    let keys = order_by_bucket(keys.into_iter().collect(), copy_buckets(size), string_hash);
    format!("[{}]", keys.join(", "))
}

/// How many buckets a map has that was made as a copy.
fn copy_buckets(size: usize) -> usize {
    (size * 4 / 3 + 1).next_power_of_two()
}

/// How many buckets a map has that grew entry by entry.
fn grown_buckets(size: usize) -> usize {
    let mut buckets = 16_usize;
    while size * 4 > buckets * 3 {
        buckets *= 2;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        for (value, text) in [
            (0.01, "0.01"),
            (1.0, "1.0"),
            (0.0001, "1.0E-4"),
            (6.71e-5, "6.71E-5"),
            (12_345_678.0, "1.2345678E7"),
            (0.001, "0.001"),
            (-2.5, "-2.5"),
            (0.0, "0.0"),
        ] {
            assert_eq!(double_text(value), text);
        }
    }

    #[test]
    fn doubles_are_read_as_java_reads_them() {
        for (text, value) in [
            ("0.5", Some(0.5)),
            (" 1 ", Some(1.0)),
            ("2f", Some(2.0)),
            ("inf", None),
            ("abc", None),
            ("", None),
        ] {
            assert_eq!(parse_double(text), value, "{text}");
        }
    }

    #[test]
    fn keys_come_in_the_order_of_a_java_map() {
        assert_eq!(string_hash("class"), 94_742_904);
        assert_eq!(hash_map_order(["a", "b", "c"]), ["a", "b", "c"]);
    }
}
