//! The programs printed in `docs/guide`, run as they are printed.
//!
//! In a page, a line `<!-- file: NAME -->` before a code block makes the block a file, and `<!-- output -->` before one
//! makes it the output that the program must print. The only change is the port: a page says 9042, a test has its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Target;
use super::driver::python_program;
use super::kit::{Kit, go};
use super::scenario;
use super::server::Server;
use crate::place;
use crate::process::{cargo, run_quietly};
use crate::report::{Report, Step};

/// One page of the guide.
pub(super) struct Page {
    name: &'static str,
    pub(super) kit: Kit,
    run: fn(&Path, u16) -> Result<String, String>,
}

pub(super) const PAGES: [Page; 10] = [
    Page { name: "request-units", kit: Kit::Cqlsh, run: run_python_and_cqlsh },
    Page { name: "cqlsh", kit: Kit::Cqlsh, run: run_cqlsh },
    Page { name: "partitioning", kit: Kit::Cqlsh, run: run_cqlsh },
    Page { name: "python", kit: Kit::Python, run: |folder, _| run_python(Kit::Python, folder) },
    Page {
        name: "python-scylla",
        kit: Kit::PythonScylla,
        run: |folder, _| run_python(Kit::PythonScylla, folder),
    },
    Page { name: "java", kit: Kit::Java, run: run_java },
    Page { name: "node", kit: Kit::Node, run: run_node },
    Page { name: "go", kit: Kit::Go, run: run_go },
    Page { name: "rust-scylla", kit: Kit::Rust, run: run_rust },
    Page { name: "rust-cdrs-tokio", kit: Kit::Rust, run: run_rust },
];

const PORT: &str = "9042";

/// Runs each page's program against one node.
pub(super) fn run(
    report: &mut Report,
    target: &Target,
    is_ready: &mut dyn FnMut(&mut Report, Kit, &str) -> bool,
) {
    let step = Step::start("e2e guide");
    let (port, server) = match target {
        Target::External { port, .. } => (*port, None),
        Target::Own { binary } => match Server::start(binary, "guide", &[]) {
            Ok(server) => (server.port(), Some(server)),
            Err(error) => {
                println!("{error}");
                report.fail("guide: the node did not start");
                return step.end(scenario::FAILED);
            }
        },
    };
    let mut failed = false;
    for page in &PAGES {
        let name = format!("guide/{}", page.name);
        if !is_ready(report, page.kit, &name) {
            continue;
        }
        match check_page(page, port) {
            Ok(()) => report.pass(1),
            Err(error) => {
                println!("{name}: {error}");
                report.fail(name);
                failed = true;
            }
        }
    }
    if let Some(server) = server {
        if failed {
            println!("--- the node's log\n{}", server.log_text());
        }
        scenario::stop(report, "guide", server);
    }
    step.end(if failed { scenario::FAILED } else { "ok" });
}

fn check_page(page: &Page, port: u16) -> Result<(), String> {
    let path = place::root().join("docs/guide").join(page.name).with_extension("md");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let blocks = Blocks::read(&text)?;
    let folder = folder(page);
    for (name, content) in &blocks.files {
        let file = folder.join(name);
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(file.parent().unwrap_or(&folder))?;
            std::fs::write(&file, content.replace(PORT, &port.to_string()))
        };
        write().map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let printed = (page.run)(&folder, port)?;
    if tidied(&printed) == tidied(&blocks.output) {
        Ok(())
    } else {
        Err(format!("printed:\n{printed}\nthe page says:\n{}", blocks.output))
    }
}

/// Node finds its modules by walking up from the program; the other programs live by themselves.
fn folder(page: &Page) -> PathBuf {
    match page.kit {
        Kit::Node => Kit::Node.folder().join("guide"),
        _ => place::e2e().join("guide").join(page.name),
    }
}

/// Without the ends of lines and without empty lines.
fn tidied(text: &str) -> String {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// What a page holds for us.
#[derive(Debug, Default, PartialEq)]
struct Blocks {
    files: Vec<(String, String)>,
    output: String,
}

impl Blocks {
    fn read(page: &str) -> Result<Self, String> {
        let mut blocks = Self::default();
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            let Some(mark) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"))
            else {
                continue;
            };
            if !lines.next().is_some_and(|fence| fence.starts_with("```")) {
                return Err(format!("no code block right after {line}"));
            }
            let content: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let content = content.join("\n") + "\n";
            match mark.split_once(": ") {
                Some(("file", name)) => blocks.files.push((name.to_string(), content)),
                None if mark == "output" => blocks.output.push_str(&content),
                _ => return Err(format!("unknown mark {line}")),
            }
        }
        if blocks.files.is_empty() || blocks.output.is_empty() {
            return Err("the page has no program, or no output".into());
        }
        Ok(blocks)
    }
}

fn run_cqlsh(folder: &Path, port: u16) -> Result<String, String> {
    run_quietly(
        Command::new(Kit::Cqlsh.folder().join("bin/cqlsh"))
            .args(["127.0.0.1", &port.to_string(), "-f"])
            .arg(folder.join("hello.cql"))
            .env("LC_ALL", "C.UTF-8"),
    )
}

/// The shell is a Python program and brings the driver along.
fn run_python_and_cqlsh(folder: &Path, port: u16) -> Result<String, String> {
    let charges = run_quietly(&mut python_program(Kit::Cqlsh, &folder.join("charges.py")))?;
    Ok(charges + &run_cqlsh(folder, port)?)
}

fn run_python(kit: Kit, folder: &Path) -> Result<String, String> {
    run_quietly(&mut python_program(kit, &folder.join("hello.py")))
}

fn run_java(folder: &Path, _port: u16) -> Result<String, String> {
    let libraries = Kit::Java.folder().join("lib/*");
    run_quietly(Command::new("java").arg("-cp").arg(libraries).arg(folder.join("Hello.java")))
}

fn run_node(folder: &Path, _port: u16) -> Result<String, String> {
    run_quietly(Command::new("node").arg(folder.join("hello.js")))
}

/// The page tells `go mod init` and `go get`; the scenario's module files are the same thing, pinned.
fn run_go(folder: &Path, _port: u16) -> Result<String, String> {
    for file in ["go.mod", "go.sum"] {
        std::fs::copy(place::scenarios().join("go").join(file), folder.join(file))
            .map_err(|error| format!("{file}: {error}"))?;
    }
    run_quietly(go(&["run", "hello.go"]).current_dir(folder))
}

/// With the scenarios' lock file, so that the drivers are compiled once.
fn run_rust(folder: &Path, _port: u16) -> Result<String, String> {
    std::fs::copy(place::scenarios().join("rust/Cargo.lock"), folder.join("Cargo.lock"))
        .map_err(|error| format!("Cargo.lock: {error}"))?;
    run_quietly(
        cargo(&["run", "--quiet"])
            .env("CARGO_TARGET_DIR", Kit::Rust.folder())
            // As the scenarios' profile says.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .current_dir(folder),
    )
}

#[cfg(test)]
mod tests {
    use super::Blocks;

    #[test]
    fn a_page_gives_its_files_and_its_output() {
        let page = "# Title\n\n```sh\nnot ours\n```\n\n<!-- file: a.py -->\n```python\nprint(1)\n```\n<!-- output -->\n```text\n1\n```\n";
        let blocks = Blocks::read(page).unwrap();
        assert_eq!(blocks.files, [("a.py".to_string(), "print(1)\n".to_string())]);
        assert_eq!(blocks.output, "1\n");
    }

    #[test]
    fn a_page_without_a_program_is_refused() {
        assert!(Blocks::read("# Title\n").is_err());
        assert!(Blocks::read("<!-- file: a.py -->\ntext\n").is_err());
    }
}
