//! The stream that is the only source of a copy, before it is read.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use icdc_disk::tree::umask;
use icdc_protocol::message::{EntryKind, Parent};
use icdc_session::sender::{Found, Removal};
use icdc_units::ByteCount;

use crate::{clock, pipes};

/// Mode of a new file, of which the user's mask takes its bits.
const NEW_FILE: u16 = 0o666;

/// A stream that is copied: read once, from where it is, to its end.
#[derive(Clone, Debug)]
pub struct Input {
    file: Arc<File>,
    /// Permission bits of the file that it becomes.
    mode: u16,
    /// Number of bytes that come before it; `None` if it is not kept unfinished.
    from: Option<ByteCount>,
}

impl Input {
    /// The stream that `file` has from its present position on. The file that it becomes has the mode of a
    /// new file of this process.
    #[must_use]
    pub fn new(file: File) -> Self {
        pipes::widen(&file);
        Self { file: Arc::new(file), mode: NEW_FILE & !umask(), from: None }
    }

    /// This stream as one that is kept unfinished at the receiver where the session ends early, and that
    /// begins behind `from` bytes, whole blocks, of the one that was left there; zero begins a new one.
    #[must_use]
    pub fn continued(self, from: ByteCount) -> Self {
        Self { from: Some(from), ..self }
    }

    /// Number of bytes that come before it; `None` if it is not kept unfinished at the receiver where the session
    /// ends early.
    #[must_use]
    pub fn from(&self) -> Option<ByteCount> {
        self.from
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
