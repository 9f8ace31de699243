//! A plan that cannot be used.

use icdc_shards::PlanError;

use crate::console::Console;
use crate::exit;

/// Says why, and returns the exit code.
pub(super) fn give_up(error: PlanError, console: &Console) -> u8 {
    console.give_up(&error.into(), exit::USAGE)
}
