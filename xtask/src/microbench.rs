//! The microbenchmarks of the crates, against figures that were kept.
//!
//! Times are those of one machine: the comparison informs and never fails. `cargo xtask instructions` is what CI checks.

use crate::Outcome;
use crate::bench::Json;
use crate::place;
use crate::process::{cargo, run_quietly};

/// The kept figures, in nanoseconds.
const KEPT: &str = "benches/micro.json";

/// Crate and benchmark.
const BENCHES: [(&str, &str); 5] = [
    ("types", "token"),
    ("protocol", "codec"),
    ("cql", "parse"),
    ("plan", "bind"),
    ("storage", "write"),
];

/// `cargo xtask microbench [--save]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let is_saved = match arguments {
        [] => false,
        [word] if word == "--save" => true,
        _ => return Err("the only argument is --save".into()),
    };
    let path = place::root().join(KEPT);
    let kept = std::fs::read_to_string(&path).ok().and_then(|text| Json::parse(&text).ok());
    let mut figures = Vec::new();
    println!("{:<40} {:>12} {:>12} {:>8}", "median of one round", "now", "kept", "change");
    let mut cargo = cargo(&["bench", "--quiet", "--locked"]);
    for (package, bench) in BENCHES {
        cargo.args(["--package", package, "--bench", bench]);
    }
    let output = run_quietly(&mut cargo)?;
    let found = medians(&output);
    for (_, bench) in BENCHES {
        if !found.iter().any(|(name, _)| name.starts_with(&format!("{bench}/"))) {
            return Err(format!("no figures of {bench}:\n{output}"));
        }
    }
    for (name, nanoseconds) in found {
        let before = kept.as_ref().and_then(|kept| kept.number_of(&name));
        let compared = before.map_or((String::from("–"), String::new()), |before| {
            let change = (nanoseconds / before - 1.0) * 100.0;
            (format!("{before:.1} ns"), format!("{change:+.0} %"))
        });
        println!("{name:<40} {nanoseconds:>9.1} ns {:>12} {:>8}", compared.0, compared.1);
        figures.push((name, Json::Number((nanoseconds * 10.0).round() / 10.0)));
    }
    if is_saved {
        let text = format!("{}\n", Json::Object(figures));
        std::fs::write(&path, text).map_err(|error| format!("{KEPT}: {error}"))?;
    }
    Ok(())
}

/// Name and median of each line that divan printed. The head of a table names the benchmark's file; what has arguments
/// stands above them.
fn medians(output: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    let (mut file, mut parent) = (String::new(), String::new());
    for line in output.lines() {
        let mut cells = line.split('│');
        let first = cells.next().unwrap_or_default();
        if first.contains("fastest") {
            file = first.split_whitespace().next().unwrap_or_default().to_string();
            continue;
        }
        let depth = line.chars().take_while(|letter| !"├╰".contains(*letter)).count();
        let Some(name) = line.split_once("─ ").and_then(|(_, rest)| rest.split_whitespace().next())
        else {
            continue;
        };
        match cells.nth(1).and_then(nanoseconds) {
            Some(median) if depth > 0 => found.push((format!("{file}/{parent}/{name}"), median)),
            Some(median) => found.push((format!("{file}/{name}"), median)),
            None if depth == 0 => parent = name.to_string(),
            None => {}
        }
    }
    found
}

fn nanoseconds(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let scale = match unit.trim() {
        "ps" => 0.001,
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * scale)
}

#[cfg(test)]
mod tests {
    use super::medians;

    #[test]
    fn divans_table_is_read() {
        let output = "\
Timer precision: 20 ns
token          fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ plain       5.1 ns        │ 9.2 ns        │ 5.5 ns        │ 5.6 ns        │ 100     │ 100
│              1.2 Mitem/s   │ 1.1 Mitem/s   │ 1.2 Mitem/s   │ 1.2 Mitem/s   │         │
╰─ ring_token                │               │               │               │         │
   ├─ 8        10 ns         │ 20 ns         │ 11 ns         │ 12 ns         │ 100     │ 100
   ╰─ 256      1 µs          │ 2 µs          │ 1.5 µs        │ 1.6 µs        │ 100     │ 100
";
        let expected =
            [("token/plain", 5.5), ("token/ring_token/8", 11.0), ("token/ring_token/256", 1500.0)];
        assert_eq!(medians(output), expected.map(|(name, median)| (name.to_string(), median)));
    }
}
