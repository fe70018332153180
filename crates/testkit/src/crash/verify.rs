//! Reading back everything that a writer owns.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{GROUPS, Model, Row, ask};
use crate::Client;

pub(super) fn read(client: &mut Client, w: usize) -> Result<Model, String> {
    let mut model = Model::default();
    for (table, numbers) in [("a", &mut model.a), ("b", &mut model.b)] {
        for row in ask(client, &format!("SELECT n FROM crash.{table} WHERE w = {w}"))? {
            numbers.insert(long(row.first())?);
        }
    }
    for row in ask(client, &format!("SELECT k, v, s, fat FROM crash.rows WHERE w = {w}"))? {
        let [k, v, set, fat] = row.as_slice() else { return Err("a row has lost columns".into()) };
        let v = v.is_some().then(|| long(Some(v))).transpose()?;
        let set = set.as_deref().map(int_set).transpose()?.unwrap_or_default();
        let fat = fat.as_deref().map(uniform).transpose()?;
        model.rows.insert(int(Some(k))?, Row { v, set, fat });
    }
    let conditional = ask(client, &format!("SELECT v FROM crash.conditional WHERE w = {w}"))?;
    model.conditional = conditional.first().map(|row| long(row.first())).transpose()?;
    let count = ask(client, &format!("SELECT c FROM crash.counts WHERE w = {w}"))?;
    model.count = count.first().map(|row| long(row.first())).transpose()?.unwrap_or(0);
    for row in ask(client, &format!("SELECT k, g FROM crash.grouped WHERE w = {w}"))? {
        model.grouped.insert(int(row.first())?, int(row.get(1))?);
    }
    check_index(client, w, &model.grouped)?;
    Ok(model)
}

/// What the index finds is what the table holds.
fn check_index(client: &mut Client, w: usize, grouped: &BTreeMap<i32, i32>) -> Result<(), String> {
    for group in 0..GROUPS as i32 {
        let mut found = BTreeSet::new();
        for row in ask(client, &format!("SELECT w, k FROM crash.grouped WHERE g = {group}"))? {
            if long(row.first())? == w as i64 {
                found.insert(int(row.get(1))?);
            }
        }
        let expected = grouped.iter().filter(|(_, g)| **g == group).map(|(k, _)| *k).collect();
        if found != expected {
            return Err(format!(
                "TORN: the index of group {group} of writer {w} finds {found:?}, the table has {expected:?}"
            ));
        }
    }
    Ok(())
}

/// The counter that all writers share.
pub(crate) fn shared_counter(client: &mut Client) -> Result<i64, String> {
    let rows = ask(client, "SELECT c FROM crash.counts WHERE w = -1")?;
    Ok(rows.first().map(|row| long(row.first())).transpose()?.unwrap_or(0))
}

fn bytes_of(value: Option<&Option<Vec<u8>>>) -> Result<&[u8], String> {
    value.and_then(Option::as_deref).ok_or_else(|| "a value is missing".to_string())
}

pub(super) fn long(value: Option<&Option<Vec<u8>>>) -> Result<i64, String> {
    bytes_of(value)?.try_into().map(i64::from_be_bytes).map_err(|_| "not a bigint".into())
}

pub(super) fn int(value: Option<&Option<Vec<u8>>>) -> Result<i32, String> {
    bytes_of(value)?.try_into().map(i32::from_be_bytes).map_err(|_| "not an int".into())
}

fn int_set(bytes: &[u8]) -> Result<BTreeSet<i32>, String> {
    let malformed = || "not a set of ints".to_string();
    let elements = bytes.get(4..).ok_or_else(malformed)?;
    let (elements, rest) = elements.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(malformed());
    }
    Ok(elements.iter().map(|[_, _, _, _, value @ ..]| i32::from_be_bytes(*value)).collect())
}

/// The length of a blob and the byte it is filled with.
fn uniform(bytes: &[u8]) -> Result<(usize, u8), String> {
    let fill = bytes.first().copied().unwrap_or(0);
    match bytes.iter().all(|byte| *byte == fill) {
        true => Ok((bytes.len(), fill)),
        false => Err("TORN: a blob is made of two writes".into()),
    }
}
