//! A regular file to be digested: it is opened as it was found, and has to stay so.

use std::fs::File;

use crossbeam_channel::Sender;
use icdc_disk::tree::{Directory, Name, Stat};

/// A regular file that the walk has found, whose digest is wanted.
pub(crate) struct Subject {
    pub(crate) directory: Directory,
    pub(crate) name: Name,
    /// Description of the file when it was found.
    pub(crate) stat: Stat,
}

/// Digest of a file, or the reason why there is none, as a sentence for the user.
pub(crate) type Digested = Result<Vec<u8>, String>;

/// A file to be digested, and where its digest goes.
pub(crate) struct Job {
    pub(crate) subject: Subject,
    pub(crate) answer: Sender<Digested>,
}

/// Opens a file that the walk has found; returns it with its present attributes. An error if it was
/// changed since.
///
/// # Errors
/// A reason, as a sentence for the user.
pub(crate) fn open(subject: &Subject) -> Result<(File, Stat), String> {
    let (file, stat) = subject.directory.open_file(&subject.name).map_err(|error| error.to_string())?;
    if stat.same_version(&subject.stat) { Ok((file, stat)) } else { Err(changed(subject)) }
}

/// Checks that a file has not changed since it was opened.
///
/// # Errors
/// A sentence for the user that tells why.
pub(crate) fn check(file: &File, opened: &Stat, subject: &Subject) -> Result<(), String> {
    let now = Stat::of(file).map_err(|error| unreadable(subject, &error))?;
    if now.same_version(opened) { Ok(()) } else { Err(changed(subject)) }
}

/// Text for an item that could not be read.
pub(crate) fn unreadable(subject: &Subject, error: &dyn std::fmt::Display) -> String {
    format!("{}: cannot be read: {error}", subject.directory.path_of(&subject.name))
}

/// Text for a file that changed while it was read.
pub(crate) fn changed(subject: &Subject) -> String {
    format!("{}: was changed while it was read; run the command again", subject.directory.path_of(&subject.name))
}
