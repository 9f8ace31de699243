//! Metadata of an entry that are restored, in the types of the file system.

use icdc_disk::tree::{FileTime, Metadata, TreeError};
use icdc_protocol::message::{Entry, ReceiveOptions};
use icdc_session::receiver::book::item::{ModificationTime, Restored};

use crate::attribute_kinds::restored;

/// Metadata of an entry that the receiver restores.
pub(super) fn metadata<'a>(entry: &'a Entry, options: &ReceiveOptions) -> Metadata<'a> {
    let Restored { mode, kept_mode, mtime, owner, xattrs } = Restored::of(entry, options);
    let mtime = mtime.map(|ModificationTime { seconds, nanos }| FileTime { seconds, nanos });
    Metadata { mode, kept_mode, mtime, owner, xattrs, kinds: restored(options.preserve) }
}

/// Restores the `wanted` metadata by `set`; where the file system lets no mode be set, all but the
/// mode, and returns false.
pub(super) fn restore<'a>(
    wanted: &Metadata<'a>,
    set: impl Fn(&Metadata<'a>) -> Result<(), TreeError>,
) -> Result<bool, TreeError> {
    match set(wanted) {
        Err(error) if error.is_of_mode() => set(&Metadata { mode: None, ..wanted.clone() }).map(|()| false),
        outcome => outcome.map(|()| true),
    }
}
