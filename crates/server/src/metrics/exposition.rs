//! Reads the text format 0.0.4 as strictly as `promtool check metrics` does, and a little more: every name has its HELP and
//! TYPE, once and before its samples; units are base units; labels are few.

use std::collections::{BTreeMap, BTreeSet};

/// A name may have so many label sets; a histogram has one for each bucket.
const LABEL_SETS_MAX: usize = 20_000;
/// Labels that are known to have few values, or as many as there are nodes or, on request, tables.
const LABELS_KNOWN: [&str; 9] =
    ["version", "commit", "code", "kind", "le", "node", "keyspace", "table", "cache"];
/// Units that are not base units, as ends of names.
const UNITS_BAD: [&str; 8] =
    ["_microseconds", "_milliseconds", "_us", "_ms", "_ns", "_minutes", "_kilobytes", "_percent"];

#[derive(Default)]
struct Family {
    kind: String,
    samples: BTreeSet<String>,
}

/// What is wrong with a text, if something is; else the names of all families.
pub(crate) fn check(text: &str) -> Result<Vec<String>, String> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut helped: BTreeSet<String> = BTreeSet::new();
    let mut current = String::new();
    if !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    for line in text.lines() {
        let bad = |why: &str| format!("{why}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| bad("no help"))?;
            let is_sentence = help.ends_with('.') && help.starts_with(char::is_uppercase);
            if !is_sentence || !helped.insert(name.to_owned()) {
                return Err(bad("the help is no sentence, or comes twice"));
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| bad("no type"))?;
            check_name(name, kind).map_err(|why| bad(&why))?;
            if !helped.contains(name) || families.contains_key(name) {
                return Err(bad("no help before the type, or the type comes twice"));
            }
            families.insert(name.to_owned(), Family { kind: kind.to_owned(), ..Family::default() });
            current = name.to_owned();
        } else {
            let family = families.get_mut(&current).ok_or_else(|| bad("no type before it"))?;
            check_sample(line, &current, family).map_err(|why| bad(&why))?;
        }
    }
    for (name, family) in &families {
        if family.samples.is_empty() || family.samples.len() > LABEL_SETS_MAX {
            return Err(format!("{name} has {} samples", family.samples.len()));
        }
    }
    Ok(families.into_keys().collect())
}

fn check_name(name: &str, kind: &str) -> Result<(), String> {
    let is_word =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if !is_word || !(name.starts_with("helenus_") || name.starts_with("process_")) {
        return Err("a bad name".to_owned());
    }
    if let Some(unit) = UNITS_BAD
        .iter()
        .find(|unit| name.ends_with(*unit) || name.ends_with(&format!("{unit}_total")))
    {
        return Err(format!("{unit} is no base unit"));
    }
    match kind {
        "counter" if !name.ends_with("_total") => Err("a counter ends in _total".to_owned()),
        "gauge" if name.ends_with("_total") => Err("only a counter ends in _total".to_owned()),
        "histogram" if !name.ends_with("_seconds") => Err("times end in _seconds".to_owned()),
        "counter" | "gauge" | "histogram" => Ok(()),
        _ => Err("an unknown type".to_owned()),
    }
}

fn check_sample(line: &str, name: &str, family: &mut Family) -> Result<(), String> {
    let (series, value) = line.rsplit_once(' ').ok_or("no value")?;
    let value: f64 = value.parse().map_err(|_| "the value is no number")?;
    if !value.is_finite() || family.kind != "gauge" && value < 0.0 {
        return Err("a value that cannot be".to_owned());
    }
    let (base, labels) = match series.split_once('{') {
        Some((base, labels)) => (base, labels.strip_suffix('}').ok_or("labels without end")?),
        None => (series, ""),
    };
    let suffix = base.strip_prefix(name).ok_or("another name than its type")?;
    let is_known = match family.kind.as_str() {
        "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
        _ => suffix.is_empty(),
    };
    if !is_known {
        return Err("a name that its type does not have".to_owned());
    }
    let mut rest = labels;
    while !rest.is_empty() {
        let (label, behind) = rest.split_once("=\"").ok_or("a label without value")?;
        if !LABELS_KNOWN.contains(&label) {
            return Err(format!("the label {label} is not known to be bounded"));
        }
        let mut escaped = false;
        let end = behind.find(|character: char| {
            let is_end = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            is_end
        });
        let (_, behind) = behind.split_at(end.ok_or("a value without end")?);
        rest = behind.strip_prefix("\",").or_else(|| behind.strip_prefix('"')).unwrap_or_default();
    }
    match family.samples.insert(series.to_owned()) {
        true => Ok(()),
        false => Err("told twice".to_owned()),
    }
}

#[test]
fn what_prometheus_would_refuse_is_refused() {
    let head = |name: &str, kind: &str| format!("# HELP {name} X.\n# TYPE {name} {kind}\n");
    let good = format!("{}helenus_a_total{{node=\"1\"}} 1\n", head("helenus_a_total", "counter"));
    assert_eq!(check(&good).unwrap(), ["helenus_a_total"]);
    for (text, why) in [
        ("helenus_a 1\n".to_owned(), "no type before"),
        (format!("{}helenus_a 1\n", head("helenus_a", "counter")), "_total"),
        (format!("{}helenus_a_ms 1\n", head("helenus_a_ms", "gauge")), "base unit"),
        (format!("{}helenus_a 1\nhelenus_a 1\n", head("helenus_a", "gauge")), "twice"),
        (format!("{}helenus_a{{key=\"1\"}} 1\n", head("helenus_a", "gauge")), "bounded"),
        (format!("{}helenus_a x\n", head("helenus_a", "gauge")), "no number"),
        (format!("{good}{good}"), "twice"),
        (head("helenus_a", "gauge"), "0 samples"),
    ] {
        let error = check(&text).unwrap_err();
        assert!(error.contains(why), "{error} should say {why}");
    }
}
