//! A plan that cannot be used: it is none, or the file system is in the way.

use icdc_shards::PlanError;

use crate::console::Console;
use crate::exit;

/// Prints why the plan cannot be used, and returns the exit code.
pub(super) fn give_up(error: PlanError, console: &Console) -> u8 {
    let code = if matches!(error, PlanError::File { .. }) { exit::FAILED } else { exit::USAGE };
    console.give_up(&error.into(), code)
}
