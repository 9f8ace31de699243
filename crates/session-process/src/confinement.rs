//! Limits that a session's process sets to itself once it knows its session, and before it has
//! another thread.

use std::path::{Path, PathBuf};

use icdc_confine::calls::{self, Process};
use icdc_confine::files::Files;
use icdc_protocol::message::{Job, Transfer};
use icdc_transfer::known_digests;

use crate::rights::Rights;
use crate::run::diskless;

/// Confines this process to the root of its key and to the system calls of its job. This cannot be
/// undone.
pub(super) fn confine(job: &Job, rights: &Rights) {
    let (is_connected, files) = match job {
        job if diskless(job).is_some() => {
            (true, icdc_client::scratch_places().iter().fold(Files::of_end(), |files, place| files.change_path(place)))
        }
        Job::Transfer(Transfer::Receive { options, .. }) if options.preserve.specials => {
            (true, of_root(rights, Files::change_path_with_specials))
        }
        Job::Transfer(Transfer::Receive { .. }) | Job::Change(_) => (true, of_root(rights, Files::change_path)),
        Job::Transfer(Transfer::Send { options, .. }) if options.moves => {
            (true, of_root(rights, Files::read_and_remove_path))
        }
        Job::Transfer(Transfer::Send { .. }) | Job::List(_) => (true, of_root(rights, Files::read_path)),
        // Whether the order is one to move, it tells later.
        Job::Drive(_) | Job::DriveKey if rights.access.writes() => {
            (false, of_root(rights, Files::read_and_remove_path).with_names())
        }
        Job::Drive(_) | Job::DriveKey => (false, of_root(rights, Files::read_path).with_names()),
        Job::Measure(_) | Job::Join { .. } | Job::Admit { .. } => (false, Files::of_end()),
    };
    let files = if looks_up_owners(job) { files.with_accounts() } else { files };
    let files = match known_digests(job) {
        Some(directory) => files.change_path(&directory),
        None => files,
    };
    let (files, process) = match is_connected {
        true => (files.alone(), Process::Connected),
        false => (files, Process::Connecting),
    };
    files.enforce();
    calls::refuse_for(process);
}

/// Whether users and groups are looked up by their names or numbers. A driving end may read the
/// files for this anyway.
fn looks_up_owners(job: &Job) -> bool {
    match job {
        Job::Transfer(Transfer::Send { options, .. }) => options.owner_names,
        Job::Transfer(Transfer::Receive { options, .. }) => options.owners.changes_owners(),
        _ => false,
    }
}

/// Directory of the cache of digests that a job uses; `None` if it uses none, or there can be none.
fn known_digests(job: &Job) -> Option<PathBuf> {
    let uses = match job {
        Job::Transfer(Transfer::Send { options, .. }) => options.known_digests,
        Job::Transfer(Transfer::Receive { options, .. }) => options.known_digests,
        _ => false,
    };
    uses.then(known_digests::directory)?
}

/// Files that the process may open: those that every end needs, and those beneath the root of the
/// key with the access that `allow` adds.
fn of_root(rights: &Rights, allow: fn(Files, &Path) -> Files) -> Files {
    match rights.root.directory() {
        Some(directory) => allow(Files::of_end(), &directory),
        // The session cannot begin either.
        None => Files::of_end(),
    }
}
