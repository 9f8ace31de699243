//! Man pages and shell completions, from the same source as the help.

mod man;
mod remote_paths;

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::ValueEnum as _;
use clap_complete::{Generator as _, Shell};

use crate::arguments::{self, CompletedShell, CompletionsArguments, GenerateArguments, Generated};
use crate::console::Console;

/// Runs `icdc generate`: writes man pages or completions to a directory.
pub(crate) fn run(arguments: &GenerateArguments) -> anyhow::Result<()> {
    let directory = &arguments.directory;
    let there = fs::metadata(directory).with_context(|| format!("{}: cannot be used", directory.display()))?;
    ensure!(there.is_dir(), "{} is not a directory; name an existing directory to write to", directory.display());
    match arguments.what {
        Generated::Man => man::pages(arguments::command(), directory).map_err(Into::into),
        Generated::Completions => completions(directory),
    }
    .with_context(|| format!("{}: write", directory.display()))
}

/// Runs `icdc completions`: prints the completion script for one shell.
pub(crate) fn print(arguments: &CompletionsArguments, console: &Console) -> anyhow::Result<()> {
    let script = script(arguments.shell)?;
    console.result(script.trim_end_matches('\n'));
    console.flush();
    Ok(())
}

/// Writes the completion scripts of all shells to a directory.
fn completions(directory: &Path) -> anyhow::Result<()> {
    for shell in CompletedShell::value_variants() {
        fs::write(directory.join(of(*shell).file_name("icdc")), script(*shell)?)?;
    }
    Ok(())
}

/// The completion script for a shell.
fn script(shell: CompletedShell) -> anyhow::Result<String> {
    let (mut command, mut script) = (arguments::command(), Vec::new());
    clap_complete::generate(of(shell), &mut command, "icdc", &mut script);
    let script = String::from_utf8(script).context("the completions are no text")?;
    Ok(remote_paths::added(shell, &script, &command))
}

/// The shell in the type that `clap_complete` takes.
fn of(shell: CompletedShell) -> Shell {
    match shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    }
}
