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
    let address = match text.split_once('%') {
        Some((address, scope)) if scope.bytes().all(|b| b.is_ascii_digit()) => address,
        Some(_) => return None,
        None => text,
    };
    let address: Ipv6Addr = address.parse().ok()?;
    Some(match address.to_ipv4_mapped() {
        Some(mapped) => mapped.octets().to_vec(),
        None => address.octets().to_vec(),
    })
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
