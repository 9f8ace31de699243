//! Files that a receiving end may open.

use icdc_confine::files::Files;
use icdc_disk::tree::{Directory, Kind, StagingKind, StagingName, Tree};

/// Everything beneath the destination, to read and to change; beneath the directory that holds it where it is
/// not there yet or a file, or an interrupted run left its journal there. Nothing where it cannot be: that is
/// found again, and told, when the session begins.
pub(super) fn files(tree: &Tree, destination: &[u8]) -> Files {
    let files = Files::of_end();
    let Ok(located) = tree.resolve(destination) else { return files };
    let existing = match (&located.name, located.stat.map(|stat| stat.kind)) {
        (None, _) => return files.change(&located.directory),
        (Some(_), Some(Kind::Directory | Kind::Symlink)) => located.open_directory().ok(),
        (Some(_), _) => None,
    };
    match existing {
        Some(existing) if located.trailing_slash || !may_hold_journal(&located.directory) => files.change(&existing),
        Some(existing) => files.change(&existing).change(&located.directory),
        None => files.change(&located.directory),
    }
}

/// True if a run's journal is in this directory, or cannot be seen.
fn may_hold_journal(directory: &Directory) -> bool {
    let is_journal = |name: &[u8]| StagingName::parse(name).is_some_and(|name| name.kind == StagingKind::Run);
    directory.entries().map_or(true, |entries| entries.iter().any(|entry| is_journal(entry.name)))
}
