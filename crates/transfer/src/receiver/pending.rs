//! What is restored of an entry beside its contents, for the file system.

use icdc_disk::tree::{FileTime, Metadata};
use icdc_protocol::message::{Entry, Preserve};
use icdc_session::receiver::book::item::{ModificationTime, Restored};

/// What is to be restored of an entry.
pub(super) fn metadata(entry: &Entry, preserve: Preserve) -> Metadata<'_> {
    let Restored { mode, mtime, owner, xattrs } = Restored::of(entry, preserve);
    let mtime = mtime.map(|ModificationTime { seconds, nanos }| FileTime { seconds, nanos });
    Metadata { mode, mtime, owner, xattrs }
}
