//! Reasons for giving up an item.

use std::cmp::Ordering;

use icdc_disk::tree::TreeError;
use icdc_protocol::message::GivenUp;

/// Reason for giving up a file that is not in the announced version any more.
const CHANGED: &str = "changed while it was read; copy it again when it is at rest";

/// Makes the reason for giving up an item that is no longer in the announced version.
pub(super) fn changed() -> GivenUp {
    GivenUp { reason: CHANGED.to_owned(), same_version: false }
}

/// Failure of an item that no longer has the `announced` bytes, but `size` bytes.
pub(super) fn resized(announced: u64, size: u64) -> GivenUp {
    let how = match size.cmp(&announced) {
        Ordering::Greater => "grew",
        Ordering::Less => "shrank",
        Ordering::Equal => return changed(),
    };
    let reason = format!(
        "{how} from {announced} to {size} bytes while it was read; copy it again when nobody writes to it, or copy it from a \
         snapshot of its file system"
    );
    GivenUp { reason, same_version: false }
}

/// Failure of an item that could not be read, for a reason that may be temporary.
pub(super) fn unreadable(reason: String) -> GivenUp {
    GivenUp { reason, same_version: true }
}

/// Failure of a stream of which something would have to be read again; `is_kept`: what is durable of it
/// stays at the receiver.
pub(super) fn read_once(is_kept: bool) -> GivenUp {
    if is_kept {
        let reason = "data of this stream would have to be read again, because a connection was lost or the far end's disk has \
                      changed; go on with --resume-stream from the last place that was told, from an earlier one, or from 0";
        return GivenUp { reason: reason.to_owned(), same_version: true };
    }
    let reason = "a connection was lost with data of this stream, which can be read only once; run the same command again, or \
                  with --streams 1";
    GivenUp { reason: reason.to_owned(), same_version: false }
}

/// Failure of an item that could not be opened; `is_another` returns whether its name refers to
/// another one now.
pub(super) fn unopened(error: &TreeError, is_another: impl FnOnce() -> bool) -> GivenUp {
    // A source that is one file may be opened itself, and no file that took its place.
    if matches!(error, TreeError::Denied { .. }) && is_another() {
        return changed();
    }
    let gone = matches!(error, TreeError::Missing { .. } | TreeError::NotAFile { .. });
    GivenUp { reason: error.to_string(), same_version: !gone }
}
