//! Rules of snapshots.

use super::rules::{Checked, require, text};
use crate::message::{Existing, Missing, ReceiveOptions, SnapshotNews, SnapshotTime};

/// Checks the options of a receiver that makes a snapshot.
pub(super) fn options(options: &ReceiveOptions) -> Checked {
    let Some(snapshot) = &options.snapshot else { return Ok(()) };
    time(snapshot.time)?;
    require(snapshot.keep.is_none_or(|keep| keep.is_any()), "no snapshot to be kept")?;
    // What was left by an earlier run, and is not part of it.
    let is_exact = options.delete.as_ref().is_some_and(|delete| delete.rules.is_empty() && delete.max.is_none());
    require(is_exact || options.dry_run, "a snapshot that keeps what the source does not have")?;
    let keeps =
        matches!(options.existing, Existing::Keep | Existing::Update(_)) || options.missing == Missing::LeaveOut;
    require(!keeps, "a snapshot of what exists already")
}

pub(super) fn news(news: &SnapshotNews) -> Checked {
    match news {
        SnapshotNews::Made(of) | SnapshotNews::Removed(of) => time(*of),
        SnapshotNews::NotMade(reason) => text(reason),
        SnapshotNews::Stays { time: of, reason } => time(*of).and_then(|()| text(reason)),
    }
}

fn time(time: SnapshotTime) -> Checked {
    require(time.is_valid(), "a time after the year 9999")
}
