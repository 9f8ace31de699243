//! The stream that is the only source of a copy, before it is read.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use icdc_disk::tree::umask;
use icdc_protocol::message::{EntryKind, Parent};
use icdc_session::sender::{Found, Removal};

use crate::{clock, pipes};

/// Mode of a new file, of which the user's mask takes its bits.
const NEW_FILE: u16 = 0o666;

/// A stream that is copied: read once, from where it is, to its end.
#[derive(Clone, Debug)]
pub struct Input {
    file: Arc<File>,
    /// Permission bits of the file that it becomes.
    mode: u16,
}

impl Input {
    /// The stream that `file` has from its present position on. The file that it becomes has the mode of a
    /// new file of this process.
    #[must_use]
    pub fn new(file: File) -> Self {
        pipes::widen(&file);
        Self { file: Arc::new(file), mode: NEW_FILE & !umask() }
    }

    /// The stream in the form in which it is announced to the receiver.
    pub(super) fn found(&self) -> Found {
        let begun = clock::file_time();
        Found {
            parent: Parent::Source(0),
            name: Vec::new(),
            kind: EntryKind::Stream,
            mode: self.mode,
            mtime: (begun.seconds, begun.nanos),
            owner: None,
            xattrs: Vec::new(),
            path: b"-".to_vec(),
            above: 0,
            first: None,
            held: 0,
            removal: Removal::Never,
        }
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
