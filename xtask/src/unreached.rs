//! Which code of replication no seed reached: the simulator built with counters, and what they say of each function.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::place;
use crate::process::{cargo, run_quietly, run_visibly};

/// Where to look. Of a crate that the simulator is built without nothing is counted.
const CRATES: [&str; 3] = ["replica", "log", "cluster"];
/// Functions of files with these in their names are none that seeds should reach.
const TESTS: [&str; 3] = ["tests.rs", "/tests/", "/examples/"];
/// A folder with the tools, where the toolchain has none.
const TOOLS: &str = "HELENUS_LLVM_TOOLS";

/// Runs seeds in a build with counters, and tells what they did not reach. The arguments are those of the simulator.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let (profdata, cov) = (tool("llvm-profdata")?, tool("llvm-cov")?);
    let folder = place::target().join("unreached");
    let counters = folder.join("counters");
    if counters.exists() {
        std::fs::remove_dir_all(&counters).map_err(|error| error.to_string())?;
    }
    let build = ["build", "-q", "--profile", "simulate", "--locked", "-p", "simulator"];
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let mut build = cargo(&build);
    build.env("RUSTFLAGS", format!("{flags} -C instrument-coverage"));
    build.env("LLVM_PROFILE_FILE", folder.join("build").join("%p.profraw"));
    build.arg("--target-dir").arg(&folder);
    run_visibly(&mut build)?;
    let program = folder.join("simulate").join("simulator");
    let mut seeds = Command::new(&program);
    seeds.args(arguments).env("LLVM_PROFILE_FILE", counters.join("%p.profraw"));
    run_visibly(&mut seeds)?;
    let merged = folder.join("merged.profdata");
    let mut merge = Command::new(profdata);
    run_quietly(merge.args(["merge", "-sparse", "-o"]).arg(&merged).arg(&counters))?;
    let mut export = Command::new(cov);
    export.args(["export", "-format=lcov", "-instr-profile"]).arg(&merged).arg(&program);
    let counts = run_quietly(&mut export)?;
    tell(&counts, &place::root());
    Ok(())
}

/// A tool that reads what this very compiler writes; others do not.
fn tool(name: &str) -> Result<PathBuf, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = run_quietly(Command::new(rustc).args(["--print", "sysroot"]))?;
    let of_toolchain = || -> Option<PathBuf> {
        let hosts = std::fs::read_dir(Path::new(sysroot.trim()).join("lib/rustlib")).ok()?;
        let mut found = hosts.flatten().map(|host| host.path().join("bin").join(name));
        found.find(|path| path.exists())
    };
    let given = std::env::var_os(TOOLS).map(|folder| PathBuf::from(folder).join(name));
    given.filter(|path| path.exists()).or_else(of_toolchain).ok_or_else(|| {
        format!(
            "{name} is missing, which reads what the compiler's counters wrote; no other version of it can.\n\
             `rustup component add llvm-tools` brings it, or {TOOLS}=FOLDER says where it is."
        )
    })
}

/// What is known of one file.
#[derive(Default)]
struct File {
    /// By line: whether any of its functions that begin there was called.
    functions: BTreeMap<u32, bool>,
    lines: BTreeMap<u32, bool>,
}

/// Reads what `llvm-cov export -format=lcov` says of files below a folder.
fn read(counts: &str, root: &Path) -> BTreeMap<String, File> {
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    let mut name: Option<String> = None;
    // Names of functions are the same in one file only.
    let mut begins: BTreeMap<&str, u32> = BTreeMap::new();
    for line in counts.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            name = Path::new(path).strip_prefix(root).ok().map(|it| it.display().to_string());
            begins.clear();
        }
        let Some(file) = name.clone().map(|name| files.entry(name).or_default()) else { continue };
        if let Some((at, function)) = line.strip_prefix("FN:").and_then(|it| it.split_once(',')) {
            // Newer versions tell the last line, too.
            let function = function.rsplit(',').next().unwrap_or(function);
            let at = at.parse().unwrap_or(0);
            begins.insert(function, at);
            file.functions.entry(at).or_default();
        } else if let Some((count, function)) =
            line.strip_prefix("FNDA:").and_then(|it| it.split_once(','))
        {
            if let Some(at) = begins.get(function) {
                *file.functions.entry(*at).or_default() |= count != "0";
            }
        } else if let Some((at, count)) = line.strip_prefix("DA:").and_then(|it| it.split_once(','))
        {
            *file.lines.entry(at.parse().unwrap_or(0)).or_default() |= count != "0";
        }
    }
    files
}

fn tell(counts: &str, root: &Path) {
    let files = read(counts, root);
    for name in CRATES {
        let folder = format!("crates/{name}/src/");
        let is_of_it = |path: &String| {
            path.starts_with(&folder) && !TESTS.iter().any(|test| path.contains(test))
        };
        let of_crate: Vec<_> = files.iter().filter(|(path, _)| is_of_it(path)).collect();
        if of_crate.is_empty() {
            println!("\n{folder}: the simulator is built without it");
            continue;
        }
        let lines = of_crate.iter().flat_map(|(_, file)| file.lines.values());
        let (reached, all) = (lines.clone().filter(|it| **it).count(), lines.count());
        println!("\n{folder}: seeds reached {reached} of {all} lines; of these functions none:");
        for (path, file) in of_crate {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            let is_unreached = |(_, is_reached): &(&u32, &bool)| !**is_reached;
            for (at, _) in file.functions.iter().filter(is_unreached) {
                let line = text.lines().nth((*at as usize).saturating_sub(1)).unwrap_or_default();
                println!("  {path}:{at}  {}", line.trim());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_reached_if_one_of_its_forms_is() {
        let counts = "SF:/r/crates/log/src/a.rs\nFN:3,one\nFN:3,other\nFN:9,12,third\nFNDA:0,one\nFNDA:2,other\nFNDA:0,third\n\
                      DA:3,2\nDA:9,0\nend_of_record\nSF:/elsewhere/b.rs\nDA:1,1\nend_of_record\n";
        let files = read(counts, Path::new("/r"));
        assert_eq!(files.keys().collect::<Vec<_>>(), ["crates/log/src/a.rs"]);
        let file = files.values().next().map(|it| (it.functions.clone(), it.lines.clone()));
        let told = [(3, true), (9, false)];
        assert_eq!(file, Some((BTreeMap::from(told), BTreeMap::from(told))));
    }
}
