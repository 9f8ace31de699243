//! Decision which names of a directory are copied, for a scan, which announces them, and for a
//! survey.

use icdc_disk::tree::{Kind, Stat};
use icdc_protocol::limits::{MAX_DEPTH, MAX_FILE_SIZE, MAX_LEVEL_PATHS, MAX_NAME, MAX_SHOWN_PATH};
use icdc_protocol::message::{Preserve, Problem, Special};
use icdc_session::special::refusal;

use crate::special;

/// Reason for not copying a name that belongs to an unfinished file.
pub(super) const STAGED: &str = "left behind by an unfinished copy, not copied";

/// Kind of an item that is copied and is no directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A named pipe, a socket or a device.
    Special(Special),
}

/// Reason why an item is not copied, and whether the user is to see that as an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotCopied {
    reason: String,
    error: bool,
}

impl NotCopied {
    /// Problem to report for the item at `path`.
    pub(super) fn of(self, path: Vec<u8>) -> Problem {
        Problem { path, reason: self.reason, error: self.error }
    }
}

/// Kind of the item that `stat` describes, which is no directory, or why it is not copied with these
/// attributes.
pub(super) fn leaf(stat: &Stat, preserve: Preserve) -> Result<Leaf, NotCopied> {
    let (reason, error) = match stat.kind {
        Kind::File if stat.size > MAX_FILE_SIZE => ("larger than icdc can address".to_owned(), true),
        Kind::File => return Ok(Leaf::File),
        Kind::Symlink if !preserve.links => ("symbolic link left out (--preserve without links)".to_owned(), false),
        Kind::Symlink => return Ok(Leaf::Symlink),
        Kind::Directory => ("became a directory while it was looked at".to_owned(), true),
        Kind::Other(what) => match special::of(stat) {
            None => (format!("{what} is not copied"), true),
            Some(special) => match refusal(special, preserve) {
                None => return Ok(Leaf::Special(special)),
                Some(reason) => (reason, true),
            },
        },
    };
    Err(NotCopied { reason, error })
}

/// Path of `name` in the directory at `path`, which is empty for contents.
pub(super) fn beneath(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
    [path, slash, name].concat()
}

/// Reason not to descend into the directory at `path`, with `depth` directories above it whose
/// paths have `above` bytes together; `None` if it is not too deep. Every level keeps its path,
/// here and at the receiver.
pub(super) fn too_deep(depth: usize, above: usize, path: &[u8]) -> Option<String> {
    let paths = above + path.len();
    if depth >= MAX_DEPTH {
        Some(format!("nested deeper than {MAX_DEPTH} directories"))
    } else if paths > MAX_LEVEL_PATHS || path.len() + 1 + MAX_NAME > MAX_SHOWN_PATH {
        Some(format!("its path of {} bytes is longer than icdc can follow", path.len()))
    } else {
        None
    }
}
