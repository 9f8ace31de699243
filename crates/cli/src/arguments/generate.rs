//! `icdc generate` as typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

#[derive(Args, Debug)]
#[command(
    after_long_help = "Examples:\n  icdc generate man /usr/local/share/man/man1\n  icdc generate completions .\n"
)]
pub(crate) struct GenerateArguments {
    /// What to write
    pub(crate) what: Generated,
    /// An existing directory to write it to
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

/// Kind of files that `icdc generate` writes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Generated {
    /// Man pages, one per subcommand
    Man,
    /// Completions for bash, zsh and fish
    Completions,
}
