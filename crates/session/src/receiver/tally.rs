//! Counts of a receiving session: what the sender has announced, and what has become of it so far.

use icdc_protocol::message::{FileDigest, SnapshotNews, Totals};
use icdc_units::ByteCount;

use super::book::action::{Notification, PublishedFile};
use crate::KeptCounts;

/// Counts of a receiving session: what the sender has announced, and what has become of it at this
/// end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The sender's last totals.
    pub totals: Totals,
    /// Bytes that this session has made durable.
    pub durable: ByteCount,
    /// Number of regular files that are complete and were not skipped.
    pub files: u64,
    /// Sum of the sizes of these files.
    pub bytes: ByteCount,
    /// Number of symbolic links, and further names of files, that were made.
    pub links: u64,
    /// Number of files that were there already and equal.
    pub skipped: u64,
    /// Number of files that were made from reference directories, and did not travel.
    pub linked: u64,
    /// Number of files that were made from files that had other names, and did not travel.
    pub renamed: u64,
    /// Items at whose names the destination stays as it was.
    pub kept: KeptCounts,
    /// Sum of the sizes of items that were there already, were made there, or were not wanted.
    pub skipped_bytes: ByteCount,
    /// Number of items that were deleted because the source does not have them.
    pub deleted: u64,
    /// Number of items that the sender has removed at the source, or would remove in a dry run.
    pub removed: u64,
    /// Number of items that failed.
    pub failed: u64,
    /// Bytes that an earlier run had made durable and that did not travel again.
    pub resumed: ByteCount,
    /// Bytes of blocks that were taken from files at the destination, as they are equal.
    pub unchanged: ByteCount,
    /// Number of files that an earlier run published and that were not read; they are included in
    /// `files`.
    pub taken_over_files: u64,
    /// Sum of the sizes of these files, included in `bytes`.
    pub taken_over_bytes: ByteCount,
    /// Digest of the file that was counted last; `None` if it is unknown.
    last: Option<FileDigest>,
}

impl Tally {
    /// Counts an event of an item that the book has reported.
    pub fn on_notification(&mut self, notification: &Notification) {
        match notification {
            Notification::Published { file: Some(PublishedFile { size, digest, made_durable }), .. } => {
                self.on_durable(*made_durable);
                self.count(*size, Some(*digest));
            }
            Notification::Published { file: None, .. } => self.links += 1,
            Notification::Had { size, digest } => {
                self.resumed += *size;
                self.count(*size, Some(*digest));
            }
            Notification::TakenOver { size } => {
                self.resumed += *size;
                self.taken_over_files += 1;
                self.taken_over_bytes += *size;
                self.count(*size, None);
            }
            Notification::Continued { held } => self.resumed += *held,
            Notification::Skipped { is_file, size, .. } => {
                self.skipped += u64::from(*is_file);
                self.skipped_bytes += *size;
            }
            Notification::Linked { size, .. } => {
                self.linked += 1;
                self.skipped_bytes += *size;
            }
            Notification::Renamed { size, .. } => {
                self.renamed += 1;
                self.skipped_bytes += *size;
            }
            Notification::Kept { why, size, .. } => {
                self.kept.add(*why);
                self.skipped_bytes += *size;
            }
            Notification::Deleted { .. } => self.deleted += 1,
            Notification::Failed { .. }
            | Notification::DeletionRefused { .. }
            | Notification::Snapshot(SnapshotNews::NotMade(_) | SnapshotNews::Stays { .. }) => self.failed += 1,
            Notification::Unlinked { .. }
            | Notification::Altered { .. }
            | Notification::WouldReceive { .. }
            | Notification::Snapshot(SnapshotNews::Made(_) | SnapshotNews::Removed(_)) => {}
        }
    }

    /// Counts an item that the sender could not send.
    pub fn on_problem(&mut self) {
        self.failed += 1;
    }

    /// Counts items that the sender has removed at the source.
    pub fn on_removed(&mut self, items: u64) {
        self.removed = self.removed.saturating_add(items);
    }

    /// Counts bytes that were taken from files at the destination.
    pub fn on_unchanged(&mut self, bytes: ByteCount) {
        self.unchanged += bytes;
    }

    /// Counts bytes that have been made durable.
    pub fn on_durable(&mut self, bytes: ByteCount) {
        self.durable += bytes;
    }

    /// Digest of the file if the session had just one; `None` if it had more, or the digest is
    /// unknown.
    #[must_use]
    pub fn only(&self) -> Option<FileDigest> {
        self.last.filter(|_| self.files == 1)
    }

    /// Counts a regular file that is complete; digest `None` if it was not read.
    fn count(&mut self, size: ByteCount, digest: Option<FileDigest>) {
        self.files += 1;
        self.bytes += size;
        self.last = digest;
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::Kept;

    use super::*;

    const DIGEST: FileDigest = FileDigest::Blake3([7; 32]);
    const SIZE: ByteCount = ByteCount::new(1000);

    fn counted(notifications: &[Notification]) -> Tally {
        let mut tally = Tally::default();
        notifications.iter().for_each(|notification| tally.on_notification(notification));
        tally
    }

    #[test]
    fn a_published_file_counts_with_what_it_made_durable_and_a_link_does_not() {
        let file = PublishedFile { size: SIZE, digest: DIGEST, made_durable: ByteCount::new(1) };
        let published = Notification::Published { path: b"a".to_vec(), file: Some(file) };
        let link = Notification::Published { path: b"b".to_vec(), file: None };
        let tally = counted(&[published.clone(), link]);
        let expected = Tally { files: 1, bytes: SIZE, durable: ByteCount::new(1), links: 1, ..Tally::default() };
        assert_eq!(Tally { last: None, ..tally }, expected);
        assert_eq!(tally.only(), Some(DIGEST));
        assert_eq!(counted(&[published.clone(), published]).only(), None, "there are two");
    }

    #[test]
    fn what_an_earlier_run_left_counts_as_resumed_and_only_what_was_not_read_as_taken_over() {
        let tally = counted(&[
            Notification::Had { size: SIZE, digest: DIGEST },
            Notification::Continued { held: SIZE },
            Notification::TakenOver { size: SIZE },
        ]);
        let expected = Tally {
            files: 2,
            bytes: SIZE * 2,
            resumed: SIZE * 3,
            taken_over_files: 1,
            taken_over_bytes: SIZE,
            ..Tally::default()
        };
        assert_eq!(tally, expected);
        assert_eq!(counted(&[Notification::TakenOver { size: SIZE }]).only(), None, "its digest is unknown");
    }

    #[test]
    fn items_that_do_not_travel_count_by_their_outcome() {
        let (path, size) = (b"a".to_vec(), SIZE);
        let mut tally = counted(&[
            Notification::Skipped { path: path.clone(), size, is_file: false },
            Notification::Skipped { path: path.clone(), size, is_file: true },
            Notification::Linked { path: path.clone(), size },
            Notification::Kept { path: path.clone(), size, why: Kept::Newer },
            Notification::Failed { path: path.clone(), size, reason: "full".into() },
            Notification::WouldReceive { path, size },
        ]);
        tally.on_problem();
        assert_eq!(
            tally,
            Tally {
                skipped: 1,
                linked: 1,
                skipped_bytes: SIZE * 4,
                kept: KeptCounts { newer: 1, ..KeptCounts::default() },
                failed: 2,
                ..Tally::default()
            }
        );
    }
}
