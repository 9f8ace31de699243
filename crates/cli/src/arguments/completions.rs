//! `icdc completions` as typed.

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
#[command(
    about = "Print shell completions",
    long_about = "Print completions for a shell on standard output: a script that the shell reads when it starts.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  2  the command line is invalid\n\n",
        "Examples:\n",
        "  icdc completions bash    # to ~/.local/share/bash-completion/completions/icdc\n",
        "  icdc completions zsh     # to _icdc in a directory of $fpath\n",
        "  icdc completions fish    # to ~/.config/fish/completions/icdc.fish\n",
    )
)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: CompletedShell,
}

/// Value of SHELL of `icdc completions`: a shell for which there are completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}
