//! Directories that are made.

use icdc_disk::tree::{Tree, TreeError, printable};
use icdc_protocol::message::{ChangeCount, ChangedItem};

use crate::place::refuse_staging;
use crate::report::{Over, Reporter};

/// Mode with which directories are made; the umask takes bits away.
const MODE: u16 = 0o777;

/// Makes the directories at `paths`; with `mkpath`, those above them as well. Those made and those
/// that cannot be made are reported.
///
/// # Errors
/// See [`Over`].
pub(crate) fn make(
    tree: &Tree,
    paths: &[Vec<u8>],
    mkpath: bool,
    reporter: &mut dyn Reporter,
) -> Result<ChangeCount, Over> {
    let mut count = ChangeCount::default();
    for path in paths {
        let mut made = Vec::new();
        let outcome = refuse_staging(path).and_then(|()| match mkpath {
            true => make_all(tree, path, &mut made),
            false => make_one(tree, path, &mut made),
        });
        for path in made {
            (count.items, count.directories) = (count.items + 1, count.directories + 1);
            reporter.changed(ChangedItem { path, is_directory: true })?;
        }
        if let Err(reason) = outcome {
            reporter.failed(path, reason)?;
        }
    }
    Ok(count)
}

/// Makes the directory at `path`, which must not exist, and appends the path to `made`. The error
/// is a sentence for the user.
fn make_one(tree: &Tree, path: &[u8], made: &mut Vec<Vec<u8>>) -> Result<(), String> {
    match make_at(tree, path, made)? {
        true => Ok(()),
        false => Err(format!("{}: exists already", printable(path))),
    }
}

/// Makes the directory at `path` and those above it that are missing, and appends the paths of
/// those made to `made`. The error is a sentence for the user.
fn make_all(tree: &Tree, path: &[u8], made: &mut Vec<Vec<u8>>) -> Result<(), String> {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let slashes = (1..end).filter(|at| path[*at] == b'/' && path[at - 1] != b'/');
    for end in slashes.chain([end]) {
        make_at(tree, &path[..end], made)?;
    }
    // What exists has to be a directory, or a link to one.
    let is_there = tree.resolve(path).and_then(|located| located.open_directory());
    is_there.map(drop).map_err(|error| error.to_string())
}

/// Makes the directory at `path` and appends the path to `made`; false if something has that name.
/// The error is a sentence for the user.
fn make_at(tree: &Tree, path: &[u8], made: &mut Vec<Vec<u8>>) -> Result<bool, String> {
    let told = |error: TreeError| match error {
        TreeError::Missing { .. } => format!("{error}; -p makes the directories above as well"),
        error => error.to_string(),
    };
    let located = tree.resolve(path).map_err(told)?;
    let (Some(name), None) = (&located.name, located.stat) else { return Ok(false) };
    let (_, is_made) = located.directory.make_or_open_directory(name, MODE).map_err(|error| error.to_string())?;
    if is_made {
        made.push(path.to_vec());
        if let Err(error) = located.directory.sync() {
            tracing::warn!(%error, "the directory may not survive a power cut");
        }
    }
    Ok(is_made)
}
