//! Fuzzing, with cargo-fuzz: the targets are in `fuzz/`.

use crate::process::{is_there, run_quietly, run_visibly};
use crate::{Outcome, place};

const SECONDS_DEFAULT: &str = "60";

/// `cargo xtask fuzz [TARGET] [SECONDS]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    if !place::root().join("fuzz/Cargo.toml").exists() {
        return Err("there is no fuzz/ in this repository".into());
    }
    if !is_possible() {
        return Err(
            "fuzzing needs `rustup toolchain install nightly` and `cargo install cargo-fuzz`"
                .into(),
        );
    }
    let seconds = arguments.get(1).map_or(SECONDS_DEFAULT, String::as_str);
    let targets = match arguments.first() {
        Some(target) => vec![target.clone()],
        None => targets()?,
    };
    for target in targets {
        println!("==> fuzz {target} for {seconds} s");
        let limit = format!("-max_total_time={seconds}");
        // What is found is kept in the corpus; the seeds are tracked and only read.
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        std::fs::create_dir_all(place::root().join(&corpus))
            .map_err(|error| format!("{corpus}: {error}"))?;
        let folders =
            [corpus, seeds].into_iter().filter(|folder| place::root().join(folder).is_dir());
        // The toolchain is chosen by rustup's proxy, so not by the cargo that runs us.
        let mut fuzz = std::process::Command::new("cargo");
        fuzz.args(["+nightly", "fuzz", "run", &target])
            .args(folders)
            .args(["--", &limit])
            .current_dir(place::root());
        run_visibly(&mut fuzz)?;
    }
    Ok(())
}

/// Whether what it needs is here.
pub(crate) fn is_possible() -> bool {
    is_there("cargo", &["+nightly", "fuzz", "--version"])
}

/// The names of all targets.
pub(crate) fn targets() -> Result<Vec<String>, String> {
    let mut list = std::process::Command::new("cargo");
    list.args(["+nightly", "fuzz", "list"]).current_dir(place::root());
    Ok(run_quietly(&mut list)?.lines().map(String::from).collect())
}
