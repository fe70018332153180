//! The replication of a keyspace: accepted and kept as Cassandra would, since drivers read it.

use std::collections::BTreeMap;

use super::properties::OptionMap;
use super::{DdlContext, Profile};
use crate::error::{SchemaError, configuration, invalid};

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";
/// What a keyspace gets when the statement names no factor.
const FACTOR_DEFAULT: &str = "1";
/// What a keyspace gets when the `cosmos` profile lets it say nothing: what a cluster does anyway.
const FACTOR_OF_A_CLUSTER: &str = "4";

/// The strategies that Cassandra has and a user may name.
const STRATEGIES: &[&str] = &["SimpleStrategy", "NetworkTopologyStrategy", "LocalStrategy"];

/// The replication of a keyspace whose statement says nothing about it.
pub(crate) fn unspecified(context: &DdlContext<'_>) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("class".to_string(), format!("{PACKAGE}NetworkTopologyStrategy")),
        (context.data_center.to_string(), FACTOR_OF_A_CLUSTER.to_string()),
    ])
}

/// Reads `replication = {…}`; `previous` is what an altered keyspace has.
pub(crate) fn read(
    mut options: OptionMap,
    previous: &BTreeMap<String, String>,
    context: &DdlContext<'_>,
) -> Result<BTreeMap<String, String>, SchemaError> {
    let class = full_class(&options.take("class").unwrap_or_default())?;
    let mut entries: BTreeMap<String, String> = options.0.into_iter().collect();
    match class.strip_prefix(PACKAGE) {
        Some("SimpleStrategy") => {
            let factor = previous.get(FACTOR).map_or(FACTOR_DEFAULT, String::as_str);
            entries.entry(FACTOR.to_string()).or_insert_with(|| factor.to_string());
        }
        Some("NetworkTopologyStrategy") => expand_topology(&mut entries, previous, context),
        _ => {}
    }
    entries.insert("class".to_string(), class);
    Ok(entries)
}

/// The class with its package; refuses what does not exist.
fn full_class(class: &str) -> Result<String, SchemaError> {
    let full = if class.contains('.') { class.to_string() } else { format!("{PACKAGE}{class}") };
    match full.strip_prefix(PACKAGE) {
        Some("OldNetworkTopologyStrategy") => Err(configuration!(
            "The support for the OldNetworkTopologyStrategy has been removed in C* version 4.0. \
             The keyspace strategy should be switch to NetworkTopologyStrategy"
        )),
        Some(name) if STRATEGIES.contains(&name) => Ok(full),
        _ => Err(configuration!("Unable to find replication strategy class '{full}'")),
    }
}

/// `replication_factor` of a topology means every data center; a factor of 0 means none.
fn expand_topology(
    entries: &mut BTreeMap<String, String>,
    previous: &BTreeMap<String, String>,
    context: &DdlContext<'_>,
) {
    let factor = if entries.is_empty() {
        Some(previous.get(FACTOR).map_or(FACTOR_DEFAULT, String::as_str).to_string())
    } else {
        entries.remove(FACTOR)
    };
    if let Some(factor) = factor {
        for (data_center, count) in previous {
            if data_center != FACTOR && data_center != "class" {
                entries.entry(data_center.clone()).or_insert_with(|| count.clone());
            }
        }
        // Java leaves the map as it is when the number cannot be read.
        let Some(number) = read_factor(&factor).ok() else { return };
        entries.entry(context.data_center.to_string()).or_insert_with(|| number.to_string());
    }
    entries.retain(|_, count| count != "0");
}

/// Checks the replication of a keyspace and returns warnings.
pub(crate) fn check(
    keyspace: &str,
    replication: &BTreeMap<String, String>,
    context: &DdlContext<'_>,
) -> Result<Vec<String>, SchemaError> {
    let class = replication.get("class").map(String::as_str).unwrap_or_default();
    let entries = replication.iter().filter(|(key, _)| *key != "class");
    match class.strip_prefix(PACKAGE).unwrap_or(class) {
        "LocalStrategy" => Err(invalid!(
            "Unable to use given strategy class: LocalStrategy is reserved for internal use."
        )),
        // The original takes any class, factor and region, and goes by the account's regions.
        _ if context.profile == Profile::Cosmos => Ok(Vec::new()),
        "NetworkTopologyStrategy" => check_topology(keyspace, entries.collect(), context),
        _ => {
            let factor = replication.get(FACTOR).map(String::as_str).unwrap_or_default();
            let number = read_factor(factor)?;
            for (key, _) in entries {
                if key != FACTOR {
                    return Err(configuration!(
                        "Unrecognized strategy option {{{key}}} passed to SimpleStrategy for keyspace {keyspace}"
                    ));
                }
            }
            Ok(warning(keyspace, number, None, context))
        }
    }
}

fn check_topology(
    keyspace: &str,
    entries: Vec<(&String, &String)>,
    context: &DdlContext<'_>,
) -> Result<Vec<String>, SchemaError> {
    for (data_center, factor) in &entries {
        if data_center.eq_ignore_ascii_case(FACTOR) {
            return Err(configuration!(
                "{FACTOR} should not appear as an option at construction time for NetworkTopologyStrategy"
            ));
        }
        read_factor(factor)?;
    }
    if entries.is_empty() {
        return Err(configuration!("Configuration for at least one datacenter must be present"));
    }
    let mut warnings = Vec::new();
    for (data_center, factor) in entries {
        if data_center.as_str() != context.data_center {
            return Err(configuration!(
                "Unrecognized strategy option {{{data_center}}} passed to NetworkTopologyStrategy for keyspace {keyspace}"
            ));
        }
        warnings.extend(warning(keyspace, read_factor(factor)?, Some(data_center), context));
    }
    Ok(warnings)
}

/// A factor: a number that is not negative. `3/1` asks for transient replicas, which we lack.
pub(crate) fn read_factor(text: &str) -> Result<i32, SchemaError> {
    if let Some((all, transient)) = text.split_once('/') {
        if transient.contains('/') {
            return Err(configuration!(
                "Replication factor format is <replicas> or <replicas>/<transient>"
            ));
        }
        let (_, transient) = (parse_number(all)?, parse_number(transient)?);
        if transient != 0 {
            return Err(configuration!("Transient nodes are not allowed with multiple tokens"));
        }
        return parse_number(all);
    }
    let number = parse_number(text)?;
    if number < 0 {
        return Err(configuration!("Replication factor must be non-negative, found {number}"));
    }
    Ok(number)
}

fn parse_number(text: &str) -> Result<i32, SchemaError> {
    crate::java::parse_int(text).ok_or_else(|| configuration!("For input string: \"{text}\""))
}

fn warning(
    keyspace: &str,
    factor: i32,
    data_center: Option<&str>,
    context: &DdlContext<'_>,
) -> Vec<String> {
    let nodes = context.node_count;
    let mut warnings = Vec::new();
    if nodes > 0 && i64::from(factor) > i64::from(nodes) {
        let place = data_center.map(|name| format!(" for datacenter {name}")).unwrap_or_default();
        warnings.push(format!(
            "Your replication factor {factor} for keyspace {keyspace} is higher than the number of nodes {nodes}{place}"
        ));
    }
    if nodes > 1 && factor.to_string() != FACTOR_OF_A_CLUSTER {
        warnings.push(format!(
            "Helenus keeps {FACTOR_OF_A_CLUSTER} replicas of everything in a cluster; the replication factor {factor} of keyspace {keyspace} is kept but does not act"
        ));
    }
    warnings
}

/// How many full replicas a replication asks for.
pub(crate) fn replica_count(replication: &BTreeMap<String, String>) -> i64 {
    replication
        .iter()
        .filter(|(key, _)| *key != "class")
        .filter_map(|(_, factor)| read_factor(factor).ok())
        .map(i64::from)
        .sum()
}
