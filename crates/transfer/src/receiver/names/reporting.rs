//! Reports of the book, to the user as events, and counted.

use icdc_protocol::message::{FileDigest, Kept, NoticeKind};
use icdc_session::receiver::book::action::{Apart, Notification};
use icdc_units::ByteCount;

use super::super::shared::Shared;
use crate::event::{Event, Outcome};
use crate::{digest_text, path_text};

impl Shared<'_> {
    /// Counts an outcome, and reports it to the user.
    pub(super) fn notify(&self, notification: Notification) {
        self.tally().on_notification(&notification);
        match notification {
            Notification::Published { path, file } => {
                let (bytes, digest) = file.map_or((ByteCount::ZERO, None), |file| (file.size, Some(file.digest)));
                (self.events)(item(&path, bytes, Fate::Published(digest)));
            }
            Notification::Had { .. } | Notification::TakenOver { .. } | Notification::Continued { .. } => {}
            Notification::Skipped { path, size, .. } => (self.events)(item(&path, size, Fate::Skipped)),
            Notification::Linked { path, size } => (self.events)(item(&path, size, Fate::Linked)),
            Notification::Renamed { path, size, digest } => (self.events)(item(&path, size, Fate::Renamed(digest))),
            Notification::Kept { path, size, why } => (self.events)(item(&path, size, Fate::Kept(why))),
            Notification::Failed { path, size, reason } => {
                (self.events)(item(&path, size, Fate::Failed(reason)));
            }
            Notification::Deleted { path, is_directory } => {
                (self.events)(Event::deleted(&path, is_directory, self.options.dry_run));
            }
            Notification::DeletionRefused { reason } => {
                (self.events)(Event::DeletionRefused { reason });
            }
            Notification::Snapshot(news) => (self.events)(Event::of_snapshot(news, self.options.dry_run)),
            Notification::Unlinked { path, why } => {
                let kind = match why {
                    Apart::Replaced => NoticeKind::FirstNameReplaced,
                    Apart::Kept => NoticeKind::FirstNameKept,
                    Apart::Refused => NoticeKind::LinkRefused,
                };
                self.notice(kind, &path);
            }
            Notification::Altered { path } => self.notice(NoticeKind::Altered, &path),
            Notification::WouldReceive { path, size } => {
                (self.events)(Event::WouldSend { path: path_text(&path), bytes: size.as_u64() });
            }
        }
    }
}

/// Outcome of an item, as it is reported to the user.
enum Fate {
    /// It is there; with the digest of a regular file.
    Published(Option<FileDigest>),
    /// It was there already, and equal.
    Skipped,
    /// It was made from a reference directory.
    Linked,
    /// It was there under another name; its digest, `None` in a dry run.
    Renamed(Option<FileDigest>),
    /// The destination stays as it was, for this reason.
    Kept(Kept),
    /// It is not there, for this reason.
    Failed(String),
}

/// Event of an item of this many bytes that has ended.
fn item(path: &[u8], bytes: ByteCount, fate: Fate) -> Event {
    let (outcome, digest, reason) = match fate {
        Fate::Published(Some(FileDigest::Blake3(digest))) => (Outcome::Published, Some(digest_text(&digest)), None),
        Fate::Published(_) => (Outcome::Published, None, None),
        Fate::Skipped => (Outcome::Skipped, None, None),
        Fate::Linked => (Outcome::Linked, None, None),
        Fate::Renamed(Some(FileDigest::Blake3(digest))) => (Outcome::Renamed, Some(digest_text(&digest)), None),
        Fate::Renamed(_) => (Outcome::Renamed, None, None),
        Fate::Kept(why) => (Outcome::kept(why), None, None),
        Fate::Failed(reason) => (Outcome::Failed, None, Some(reason)),
    };
    Event::Item { path: path_text(path), bytes: bytes.as_u64(), digest, outcome, reason }
}
