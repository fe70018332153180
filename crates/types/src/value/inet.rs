//! Internet addresses in the forms that Java reads and prints. Host names are not looked up.

use std::fmt::Write;
use std::net::Ipv6Addr;

/// Four or sixteen bytes from an address in digits.
///
/// Compat: Cassandra asks the resolver for anything else; a database that waits for DNS inside of
/// a statement is a trap, so names are refused.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    if let Some(bytes) = parse_v4(text) {
        return Some(bytes.to_vec());
    }
    let text = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    // A numeric scope is read and dropped.
    let (address, has_scope) = match text.split_once('%') {
        Some((address, scope)) => {
            let is_number = !scope.is_empty() && scope.bytes().all(|b| b.is_ascii_digit());
            (Some(address).filter(|_| is_number)?, true)
        }
        None => (text, false),
    };
    let address = parse_v6(address)?;
    match address.to_ipv4_mapped() {
        Some(_) if has_scope => None,
        Some(mapped) => Some(mapped.octets().to_vec()),
        None => Some(address.octets().to_vec()),
    }
}

/// Eight groups of hex digits, a version 4 address for the last two, and one `::` for zeros. Groups
/// may have more than four digits as long as their number fits.
fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    let (head, tail) = match text.split_once("::") {
        Some((head, tail)) => (head, Some(tail)),
        None => (text, None),
    };
    let is_last = tail.is_none();
    let head = parse_groups(head, is_last)?;
    let Some(tail) = tail else {
        let groups: [u16; 8] = head.try_into().ok()?;
        return Some(Ipv6Addr::from(groups));
    };
    let tail = parse_groups(tail, true)?;
    if head.len() + tail.len() >= 8 {
        return None;
    }
    let mut groups = [0; 8];
    let zeros = 8 - head.len() - tail.len();
    let numbers = head.into_iter().chain(std::iter::repeat_n(0, zeros)).chain(tail);
    for (group, number) in groups.iter_mut().zip(numbers) {
        *group = number;
    }
    Some(Ipv6Addr::from(groups))
}

fn parse_groups(text: &str, may_end_in_v4: bool) -> Option<Vec<u16>> {
    let mut groups = Vec::new();
    if text.is_empty() {
        return Some(groups);
    }
    let count = text.split(':').take(9).count();
    for (index, part) in text.split(':').take(9).enumerate() {
        if part.contains('.') {
            let whole = part.split('.').count() == 4 && may_end_in_v4 && index + 1 == count;
            let [a, b, c, d] = parse_v4(part).filter(|_| whole)?;
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            continue;
        }
        let digits = part.trim_start_matches('0');
        let is_hex = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        groups.push(if digits.is_empty() {
            Some(0).filter(|_| is_hex)?
        } else {
            u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)?
        });
    }
    Some(groups)
}

/// One to four decimal parts, of which the last fills the bytes that are left.
fn parse_v4(text: &str) -> Option<[u8; 4]> {
    let parts: Vec<&str> = text.split('.').take(5).collect();
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 {
        return None;
    }
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u64>().ok().filter(|_| digits)
    };
    let mut value: u64 = 0;
    for part in leading {
        value = value << 8 | number(part).filter(|value| *value <= 255)?;
    }
    let bits_left = 8 * (4 - leading.len() as u32);
    let last = number(last).filter(|value| *value < 1 << bits_left)?;
    u32::try_from(value << bits_left | last).ok().map(u32::to_be_bytes)
}

/// The address as Java prints it: version 6 in eight groups, none left out; version 4 addresses
/// inside of version 6 as version 4.
pub fn format(bytes: &[u8]) -> Option<String> {
    match bytes.len() {
        4 => {
            let parts: Vec<String> = bytes.iter().map(u8::to_string).collect();
            Some(parts.join("."))
        }
        16 => {
            let octets: [u8; 16] = bytes.try_into().ok()?;
            let address = Ipv6Addr::from(octets);
            if let Some(mapped) = address.to_ipv4_mapped() {
                return Some(mapped.to_string());
            }
            let mut out = String::with_capacity(39);
            for (index, group) in address.segments().iter().enumerate() {
                let colon = if index == 0 { "" } else { ":" };
                write!(out, "{colon}{group:x}").ok()?;
            }
            Some(out)
        }
        _ => None,
    }
}
