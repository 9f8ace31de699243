//! Man pages and shell completions, from the same source as the help.

mod man;

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::{Arguments, GenerateArguments, Generated};

pub(crate) fn run(arguments: &GenerateArguments) -> anyhow::Result<()> {
    let directory = &arguments.directory;
    let there = fs::metadata(directory).with_context(|| format!("{}: cannot be used", directory.display()))?;
    ensure!(there.is_dir(), "{} is not a directory; name an existing directory to write to", directory.display());
    match arguments.what {
        Generated::Man => man::pages(Arguments::command(), directory),
        Generated::Completions => completions(directory),
    }
    .with_context(|| format!("{}: write", directory.display()))
}

fn completions(directory: &Path) -> std::io::Result<()> {
    let mut command = Arguments::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "icdc", directory)?;
    }
    Ok(())
}
