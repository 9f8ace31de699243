//! A file that travels while it grows, as the thread that watches it and a session share it.

use std::fs::File;
use std::sync::{Mutex, MutexGuard};

use icdc_disk::tree::Stat;
use icdc_units::Time;

/// A followed file that travels while it grows, held by its descriptor.
#[derive(Debug)]
pub(crate) struct GrowingFile {
    pub(crate) file: File,
    /// Description of the file as it was opened.
    pub(crate) first: Stat,
    phase: Mutex<Phase>,
}

/// Phase of a file that travels while it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its writer has it open.
    Open,
    /// Its writer has closed it at the time `since`: it is complete in this version.
    Closed { since: Time, version: [u8; 16] },
    /// It is to travel no further: it has lost its name, or the following ends.
    Abandoned,
    /// A session has ended it: it is published, or was given up.
    Ended { since: Option<Time> },
}

impl GrowingFile {
    /// The open file `file`, which a writer has open, too.
    pub(crate) fn new(file: File, first: Stat) -> Self {
        Self { file, first, phase: Mutex::new(Phase::Open) }
    }

    /// Whether this describes the file, in whatever version, by its only name.
    pub(crate) fn is(&self, stat: &Stat) -> bool {
        (stat.dev, stat.ino, stat.kind) == (self.first.dev, self.first.ino, self.first.kind) && stat.nlink == 1
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.lock()
    }

    /// Whether its writer has it open, and it travels.
    pub(crate) fn is_open(&self) -> bool {
        self.phase() == Phase::Open
    }

    /// Handles that its writer has closed it at the time `since`, in this version; false if it does not travel any more.
    pub(crate) fn close(&self, since: Time, version: [u8; 16]) -> bool {
        let mut phase = self.lock();
        let was_open = *phase == Phase::Open;
        if was_open {
            *phase = Phase::Closed { since, version };
        }
        was_open
    }

    /// Has it travel no further.
    pub(crate) fn abandon(&self) {
        let mut phase = self.lock();
        if !matches!(*phase, Phase::Ended { .. }) {
            *phase = Phase::Abandoned;
        }
    }

    /// Handles that a session has ended it.
    pub(crate) fn end(&self) {
        let mut phase = self.lock();
        *phase = match *phase {
            Phase::Closed { since, .. } => Phase::Ended { since: Some(since) },
            Phase::Open | Phase::Abandoned => Phase::Ended { since: None },
            ended @ Phase::Ended { .. } => ended,
        };
    }

    /// Time at which its writer has closed it; `None` if that has not happened.
    pub(crate) fn closed_at(&self) -> Option<Time> {
        match self.phase() {
            Phase::Closed { since, .. } => Some(since),
            Phase::Ended { since } => since,
            Phase::Open | Phase::Abandoned => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().expect("no panic while a phase is changed")
    }
}

impl PartialEq for GrowingFile {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for GrowingFile {}
