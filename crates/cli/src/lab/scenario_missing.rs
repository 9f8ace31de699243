//! `icdc lab run` and `icdc lab list` in a build without experiments.

use anyhow::anyhow;

use crate::arguments::run::RunArguments;
use crate::console::Console;
use crate::exit;

/// Complains that this build has no experiments; returns the exit code.
pub(super) fn list(console: &Console) -> u8 {
    console.give_up(
        &anyhow!("this build of icdc has no experiments: build it with the feature `experiments`"),
        exit::FAILED,
    )
}

/// Complains that this build has no experiments; returns the exit code.
pub(super) fn run(_arguments: &RunArguments, console: &Console) -> u8 {
    list(console)
}
