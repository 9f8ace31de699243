//! Exit codes as documented in the help.

use icdc_client::FailureKind;

use crate::console::Console;

/// Exit code for a failure that none of the others names.
pub(crate) const FAILED: u8 = 1;
/// Exit code of a command line that is invalid or makes no sense.
pub(crate) const USAGE: u8 = 2;
/// Exit code of a run that could not connect to another host, or was refused access.
pub(crate) const NOT_LET_IN: u8 = 3;
/// Exit code of a run that the user stopped.
pub(crate) const INTERRUPTED: u8 = 4;

/// The exit code after a run that has failed in this way.
pub(crate) fn after(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Failed => FAILED,
        FailureKind::Unusable => USAGE,
        FailureKind::NotLetIn => NOT_LET_IN,
        FailureKind::Interrupted => INTERRUPTED,
    }
}

/// The exit code of a command by its result; prints the error if it failed.
pub(crate) fn finish(result: anyhow::Result<()>, console: &Console) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => console.give_up(&error, FAILED),
    }
}
