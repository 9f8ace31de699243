//! Precision and range of the times of modification that the destination's file systems store:
//! whole seconds or two, or certain years only.
//!
//! No file system reports this reliably, so it is tried out: a file without a name is given the
//! time, and what is read back shows what is stored.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Mutex;

use icdc_disk::tree::{Directory, FileTime, StagingKind, set_time};

use super::staging::{Purpose, Staging, make_under};

/// Maximum number of file systems whose probe files are kept open.
const OPEN: usize = 16;

/// Cache of probed file systems, for the precision and range of modification times that they keep.
#[derive(Default)]
pub(super) struct KeptTimes {
    /// Unnamed files for probing, by the number of their file system; `None` where none can be
    /// made.
    tried_on: Mutex<HashMap<u64, Option<File>>>,
    /// Whether nothing may be made in a directory, not even for a moment.
    changes_nothing: bool,
}

impl KeptTimes {
    /// New cache, for a run that `changes_nothing` or for one that does.
    pub(super) fn new(changes_nothing: bool) -> Self {
        Self { changes_nothing, ..Self::default() }
    }

    /// Modification time that a file of `directory`, which is on the file system `device`, shows
    /// once it was given `wanted`; `wanted` itself where that cannot be tried. `found` is the time
    /// shown by a file there that may have been given it.
    pub(super) fn shown(
        &self,
        (directory, device): (&Directory, u64),
        wanted: FileTime,
        found: Option<FileTime>,
    ) -> FileTime {
        let mut tried_on = self.tried_on.lock().expect("no panic while times are tried");
        if tried_on.len() >= OPEN && !tried_on.contains_key(&device) {
            tried_on.clear();
        }
        match tried_on.entry(device).or_insert_with(|| self.file_in(directory)) {
            Some(file) => set_time(file, wanted).unwrap_or(wanted),
            None => found.filter(|found| may_be_kept_of(wanted, *found)).unwrap_or(wanted),
        }
    }

    /// Makes an unnamed file in `directory`, or one under a staging name that is removed at once;
    /// `None` if neither can be made.
    fn file_in(&self, directory: &Directory) -> Option<File> {
        let named = || {
            let make = |staging: Staging| directory.create_file(&staging.part(), 0o600);
            let (file, staging) = make_under(directory, &Purpose::trial(), &[StagingKind::Part], make).ok()?;
            directory.remove_file(&staging.part()).ok()?;
            Some(file)
        };
        directory.file_for_trying().or_else(|| if self.changes_nothing { None } else { named() })
    }
}

/// Whether an item that was given the time `wanted` shows one that is off by more than the
/// rounding of file systems, which keep seconds or every other one.
pub(super) fn is_far_off(wanted: Option<FileTime>, shown: FileTime) -> bool {
    wanted.is_some_and(|wanted| wanted.seconds.abs_diff(shown.seconds) >= 2)
}

/// Whether `found` may be the time `wanted` as stored by a file system that keeps whole seconds,
/// or every other one.
fn may_be_kept_of(wanted: FileTime, found: FileTime) -> bool {
    found.nanos == 0
        && (found.seconds == wanted.seconds || (found.seconds % 2 == 0 && found.seconds == wanted.seconds - 1))
}
