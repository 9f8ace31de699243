//! A request, carried out in a tree.

use std::time::UNIX_EPOCH;

use icdc_disk::tree::Tree;
use icdc_protocol::message::{ChangeCount, ChangeRequest};
use icdc_stop::StopSignal;
use icdc_tcp::clock;

use crate::directories;
use crate::removal::{self, Removal};
use crate::renaming;
use crate::report::{Over, Reporter};

/// Makes directories, or removes or renames items in `tree`, as requested; ends early when `stop`
/// is requested. Returns how much is changed, or would be in a dry run. Items that cannot be
/// changed are no error: the reporter is told of each.
///
/// # Errors
/// The change is not to go on.
pub fn carry_out(
    tree: &Tree,
    request: &ChangeRequest,
    stop: &StopSignal,
    reporter: &mut dyn Reporter,
) -> Result<ChangeCount, Over> {
    match request {
        ChangeRequest::MakeDirectories { paths, mkpath } => directories::make(tree, paths, *mkpath, reporter),
        ChangeRequest::Remove { paths, recursive, dry_run, names } => {
            let now = clock::wall().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let now = i64::try_from(now).unwrap_or(i64::MAX);
            let removal = Removal { tree, recursive: *recursive, dry_run: *dry_run, names: *names, now, stop };
            removal::remove(&removal, paths, reporter)
        }
        ChangeRequest::Rename { from, to, replace } => renaming::rename(tree, (from, to), *replace, reporter),
    }
}
