//! `helenus completions` and `helenus man`: made from the definitions of the command line, so that they cannot disagree
//! with it.

use std::io;
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::version;

/// The subcommands.
pub(crate) fn commands() -> [Command; 2] {
    [
        Command::new("completions")
            .about("Print completions of commands and options for a shell")
            .after_help("Examples:\n  helenus completions bash > ~/.local/share/bash-completion/completions/helenus\n  helenus completions zsh > ~/.zfunc/_helenus\n  helenus completions fish > ~/.config/fish/completions/helenus.fish")
            .arg(
                Arg::new("shell")
                    .value_name("SHELL")
                    .required(true)
                    .value_parser(clap::value_parser!(Shell))
                    .help("Which shell"),
            ),
        Command::new("man")
            .about("Print the manual page of helenus, or of one of its commands")
            .after_help("Examples:\n  helenus man | man -l -\n  helenus man start | man -l -\n  helenus man --to /usr/local/share/man/man1")
            .arg(Arg::new("command").value_name("COMMAND").help("Of this command"))
            .arg(
                Arg::new("to")
                    .long("to")
                    .value_name("DIR")
                    .conflicts_with("command")
                    .help("Write all pages into this folder"),
            ),
    ]
}

/// What a shell is told.
pub(crate) fn completions(mut command: Command, shell: Shell) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut command, "helenus", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// A manual page: that of the program, or of one of its commands.
pub(crate) fn page(mut command: Command, name: Option<&str>) -> Result<String, String> {
    // Whole, so that subcommands know what they are called.
    command.build();
    let chosen = match name {
        None => command,
        Some(name) => command
            .get_subcommands()
            .find(|it| it.get_name() == name)
            .cloned()
            .ok_or_else(|| format!("there is no command {name}; `helenus help` lists them"))?,
    };
    rendered(chosen).map_err(|error| error.to_string())
}

/// Writes all pages into a folder, which is made; how many there are.
pub(crate) fn write_pages(mut command: Command, folder: &Path) -> Result<usize, String> {
    let told = |error: io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(told)?;
    command.build();
    let commands =
        command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help");
    let mut pages = vec![("helenus.1".to_owned(), command.clone())];
    pages.extend(commands.map(|it| (format!("helenus-{}.1", it.get_name()), it.clone())));
    let count = pages.len();
    for (name, command) in pages {
        let text = rendered(command).map_err(told)?;
        let mut file = std::fs::File::create(folder.join(name)).map_err(told)?;
        io::Write::write_all(&mut file, text.as_bytes()).map_err(told)?;
    }
    Ok(count)
}

fn rendered(command: Command) -> io::Result<String> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-");
    let mut out = Vec::new();
    let source = format!("helenus {}", version::VERSION);
    Man::new(command).title(name).source(source).manual("Helenus").render(&mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}
