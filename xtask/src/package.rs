//! The Debian package: laid out, described and packed with Debian's own `dpkg-deb`, from a binary that is there.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::e2e::build_server;
use crate::place;
use crate::process::{is_there, run_quietly};

const NAME: &str = "helenus";
const MAINTAINER: &str = "The Helenus contributors <packages@helenus.example.org>";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What stands before a version of the C library in the names of its symbols.
const SYMBOLS_OF: &str = "GLIBC_";

/// How much is done about the size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Small, for others.
    Small,
    /// Quick, to look at.
    Quick,
}

/// `cargo xtask package [--binary FILE]`.
pub(crate) fn command(arguments: &[String]) -> Outcome {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let binary = match words.as_slice() {
        [] => build_server()?,
        ["--binary", file] => PathBuf::from(file),
        _ => return Err("package takes nothing but --binary FILE".to_owned()),
    };
    let package = build(&binary, &place::target().join("package"), Packing::Small)?;
    println!("{}", package.display());
    Ok(())
}

/// Makes the package in a folder, and says which file it is.
pub(crate) fn build(binary: &Path, folder: &Path, packing: Packing) -> Result<PathBuf, String> {
    let root = folder.join("root");
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(told)?;
    }
    fs::create_dir_all(&root).map_err(told)?;
    let tree = Tree { root: root.clone() };
    tree.copy(binary, "usr/bin/helenus", 0o755)?;
    let installed = root.join("usr/bin/helenus");
    if is_there("strip", &["--version"]) {
        run_quietly(
            Command::new("strip").args(["--strip-unneeded", "-R", ".comment"]).arg(&installed),
        )?;
    }
    let ops = place::root().join("ops");
    tree.copy(&ops.join("helenus.service"), "usr/lib/systemd/system/helenus.service", 0o644)?;
    tree.copy(&ops.join("helenus.toml"), "etc/helenus/helenus.toml", 0o644)?;
    handbook(&tree, binary)?;
    documents(&tree)?;
    let architecture = run_quietly(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    for script in ["postinst", "prerm", "postrm"] {
        tree.copy(&ops.join("debian").join(script), &format!("DEBIAN/{script}"), 0o755)?;
    }
    tree.write("DEBIAN/conffiles", "/etc/helenus/helenus.toml\n")?;
    tree.write("DEBIAN/md5sums", &sums(&root)?)?;
    let control = control(architecture, &libraries(&installed)?, kibibytes(&root).map_err(told)?);
    tree.write("DEBIAN/control", &control)?;
    let package = folder.join(format!("{NAME}_{VERSION}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.arg("--root-owner-group");
    if packing == Packing::Quick {
        pack.args(["-Zgzip", "-z1"]);
    }
    run_quietly(pack.arg("--build").arg(&root).arg(&package))?;
    Ok(package)
}

/// What is laid out: folders and files as they will be installed.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn place(&self, path: &str) -> Result<PathBuf, String> {
        let file = self.root.join(path);
        let folder = file.parent().ok_or("a file has a folder")?;
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Whatever the umask of whoever builds is.
        for folder in folder.ancestors().take_while(|it| it.starts_with(&self.root)) {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
                .map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        Ok(file)
    }

    fn copy(&self, from: &Path, path: &str, mode: u32) -> Result<(), String> {
        let file = self.place(path)?;
        let told = |error: std::io::Error| format!("{}: {error}", from.display());
        fs::copy(from, &file).map_err(told)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).map_err(told)
    }

    fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let file = self.place(path)?;
        let told = |error: std::io::Error| format!("{}: {error}", file.display());
        fs::write(&file, text).map_err(told)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).map_err(told)
    }

    /// A text that is kept compressed.
    fn write_packed(&self, path: &str, text: &str) -> Result<(), String> {
        self.write(path, text)?;
        run_quietly(Command::new("gzip").arg("-9n").arg(self.root.join(path))).map(drop)
    }
}

/// Manual pages and completions, as the binary itself tells them.
fn handbook(tree: &Tree, binary: &Path) -> Result<(), String> {
    let ask = |words: &[&str]| run_quietly(Command::new(binary).args(words));
    let pages = tree.root.with_extension("man");
    run_quietly(Command::new(binary).args(["man", "--to"]).arg(&pages))?;
    let told = |error: std::io::Error| format!("{}: {error}", pages.display());
    for page in fs::read_dir(&pages).map_err(told)? {
        let page = page.map_err(told)?;
        let text = fs::read_to_string(page.path()).map_err(told)?;
        let name = page.file_name().to_string_lossy().into_owned();
        tree.write_packed(&format!("usr/share/man/man1/{name}"), &text)?;
    }
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/helenus"),
        ("zsh", "usr/share/zsh/vendor-completions/_helenus"),
        ("fish", "usr/share/fish/vendor_completions.d/helenus.fish"),
    ] {
        tree.write(path, &ask(&["completions", shell])?)?;
    }
    Ok(())
}

/// What everybody may read under `/usr/share/doc`.
fn documents(tree: &Tree) -> Result<(), String> {
    let of = |file: &str| format!("usr/share/doc/{NAME}/{file}");
    let root = place::root();
    tree.copy(&root.join("README.md"), &of("README.md"), 0o644)?;
    let changes =
        fs::read_to_string(root.join("CHANGELOG.md")).map_err(|error| error.to_string())?;
    tree.write_packed(&of("NEWS"), &changes)?;
    // The day of the commit, so that the same commit makes the same package.
    let mut date = Command::new("git");
    let date = run_quietly(date.args(["log", "-1", "--format=%cD"]).current_dir(&root));
    let date = date.unwrap_or_else(|_| "Thu, 01 Jan 1970 00:00:00 +0000".to_owned());
    let date = date.trim();
    tree.write_packed(
        &of("changelog"),
        &format!("{NAME} ({VERSION}) unstable; urgency=medium\n\n  * What changed is in NEWS.gz.\n\n -- {MAINTAINER}  {date}\n"),
    )?;
    tree.write(
        &of("copyright"),
        &format!(
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: {NAME}\n\n\
             Files: *\nCopyright: 2026, the Helenus contributors\nLicense: Apache-2.0\n \
             On Debian systems, the Apache License, Version 2.0 is in\n /usr/share/common-licenses/Apache-2.0.\n"
        ),
    )
}

fn control(architecture: &str, libraries: &str, kibibytes: u64) -> String {
    format!(
        "Package: {NAME}\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kibibytes}\nDepends: adduser, init-system-helpers (>= 1.54), {libraries}\nSection: database\nPriority: optional\n\
         Description: database that speaks Apache Cassandra's query language\n \
         Helenus speaks CQL and the native protocol of Apache Cassandra, and\n \
         charges and limits requests as Azure Cosmos DB does. One binary: a node, a\n \
         cluster of nodes, a shell, a dashboard, and the tools to run them.\n"
    )
}

/// The C library that a binary needs, by the newest of its symbols.
fn libraries(binary: &Path) -> Result<String, String> {
    let bytes = fs::read(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    let (major, minor) = newest_symbol(&bytes).ok_or("the binary names no C library")?;
    Ok(format!("libc6 (>= {major}.{minor}), libgcc-s1"))
}

fn newest_symbol(bytes: &[u8]) -> Option<(u32, u32)> {
    let found = bytes.windows(SYMBOLS_OF.len()).enumerate();
    let found = found.filter(|(_, window)| *window == SYMBOLS_OF.as_bytes());
    let version = |(at, _): (usize, &[u8])| {
        let behind = bytes.get(at + SYMBOLS_OF.len()..)?;
        let length = behind.iter().position(|it| !(it.is_ascii_digit() || *it == b'.'))?;
        let text = std::str::from_utf8(behind.get(..length)?).ok()?;
        let mut numbers = text.split('.').map(|it| it.parse::<u32>().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    found.filter_map(version).max()
}

/// The sums of all files that are not conffiles, as `md5sum` writes them.
fn sums(root: &Path) -> Result<String, String> {
    let mut out = String::new();
    for file in files(&root.join("usr")).map_err(|error| error.to_string())? {
        let path = file.strip_prefix(root).map_err(|error| error.to_string())?;
        let line = run_quietly(Command::new("md5sum").arg(&file))?;
        let sum = line.split(' ').next().unwrap_or_default();
        let _ = writeln!(out, "{sum}  {}", path.display());
    }
    Ok(out)
}

fn kibibytes(root: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for file in files(root)? {
        sum += fs::metadata(file)?.len().div_ceil(1024);
    }
    Ok(sum)
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::newest_symbol;

    #[test]
    fn the_newest_symbol_says_which_library_is_needed() {
        let text = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.9\0";
        assert_eq!(newest_symbol(text), Some((2, 34)));
        assert_eq!(newest_symbol(b"none"), None);
    }
}
