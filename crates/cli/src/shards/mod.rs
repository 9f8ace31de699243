//! A copy in shards: `icdc plan`, and `icdc copy --plan`.
//!
//! | file | what |
//! |---|---|
//! | `make` | `icdc plan`: sources are surveyed and divided |
//! | `share` | which shards are this process's |
//! | `part` | `icdc copy --plan`: shards are copied, what became of them is noted |
//! | `status` | `icdc plan status` |
//! | `join` | `icdc plan join` |
//! | `unusable` | a plan that cannot be used |

mod join;
mod make;
mod part;
mod share;
mod status;
mod unusable;

use std::path::Path;

pub(crate) use self::make::{Wanted, make};
pub(crate) use self::part::NO_RECEIPT;
pub(crate) use self::status::states;

use crate::arguments::{CopyArguments, PlanArguments, PlanCommand};
use crate::console::Console;
use crate::logs;

/// Runs `icdc plan` and its subcommands, and returns the exit code.
pub(crate) fn run(arguments: PlanArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    match arguments.command {
        Some(PlanCommand::Status(arguments)) => status::run(&arguments, console),
        Some(PlanCommand::Join(arguments)) => join::run(*arguments, console),
        None => make::run(arguments, console),
    }
}

/// Runs `icdc copy --plan`: copies the shards of this process and returns the exit code.
pub(crate) fn copy(arguments: &CopyArguments, plan: &Path, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    part::run(arguments, plan, console)
}
