//! Values of computed rows, encoded as the protocol has them; `None` is null.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// An encoded value.
pub type Value = Option<Vec<u8>>;

/// A text.
pub fn text(text: &str) -> Value {
    Some(text.as_bytes().to_vec())
}

/// A text, or null.
pub fn optional_text(text: Option<&str>) -> Value {
    text.map(|text| text.as_bytes().to_vec())
}

/// A number of four bytes.
pub fn int(number: i32) -> Value {
    Some(number.to_be_bytes().to_vec())
}

/// A port.
pub fn port(number: u16) -> Value {
    int(number.into())
}

/// A number of eight bytes.
pub fn bigint(number: i64) -> Value {
    Some(number.to_be_bytes().to_vec())
}

/// A floating-point number.
pub fn double(number: f64) -> Value {
    Some(number.to_be_bytes().to_vec())
}

/// Yes or no.
pub fn boolean(flag: bool) -> Value {
    Some(vec![flag.into()])
}

/// A uuid.
pub fn uuid(bits: u128) -> Value {
    Some(bits.to_be_bytes().to_vec())
}

/// An address.
pub fn inet(address: IpAddr) -> Value {
    Some(match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    })
}

/// A time, in milliseconds since the epoch.
pub fn timestamp(at_ms: i64) -> Value {
    bigint(at_ms)
}

/// A list of texts.
pub fn list<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> Value {
    let elements: Vec<T> = elements.into_iter().collect();
    Some(collection(elements.len(), elements.iter().map(AsRef::as_ref)))
}

/// A set of texts, in its order.
pub fn set<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> Value {
    let elements: BTreeSet<Vec<u8>> =
        elements.into_iter().map(|element| element.as_ref().to_vec()).collect();
    Some(collection(elements.len(), elements.iter().map(Vec::as_slice)))
}

/// A map of texts, in the order of its keys.
pub fn text_map(map: &BTreeMap<String, String>) -> Value {
    let parts = map.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
    Some(collection(map.len(), parts))
}

/// A map with keys and values encoded already, in the order of its keys.
pub fn map(entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Value {
    let map: BTreeMap<Vec<u8>, Vec<u8>> = entries.into_iter().collect();
    let parts = map.iter().flat_map(|(key, value)| [key.as_slice(), value.as_slice()]);
    Some(collection(map.len(), parts))
}

fn collection<'a>(count: usize, parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = length(count).to_vec();
    for part in parts {
        bytes.extend_from_slice(&length(part.len()));
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Lengths of the protocol have four bytes; a schema never comes near their bound.
fn length(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}
