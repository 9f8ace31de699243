//! Consent to a deletion of what rules exclude: its user has to see first what that is.

use std::io::{IsTerminal, stderr, stdin};

use anyhow::ensure;

use crate::arguments::CopyArguments;

/// Question to the user after the list of items that would be deleted.
pub(super) const QUESTION: &str = "delete these items when everything else is copied?";

/// The arguments of a run that lists what would be deleted, if the user has to see that before the
/// deletion; `None` if not.
///
/// # Errors
/// There is no terminal to ask at.
pub(super) fn listing(arguments: &CopyArguments) -> anyhow::Result<Option<CopyArguments>> {
    if !arguments.delete_excluded || arguments.yes || arguments.dry_run {
        return Ok(None);
    }
    ensure!(
        stdin().is_terminal() && stderr().is_terminal() && !arguments.json,
        "--delete-excluded deletes what the rules exclude as well: see by --dry-run what that is, then give --yes (on a \
         terminal, icdc lists it and asks)"
    );
    Ok(Some(CopyArguments { dry_run: true, ..arguments.clone().without_results() }))
}
