//! Reports of the book to the user, as events and counts.

use std::sync::atomic::Ordering;

use icdc_protocol::message::NoticeKind;
use icdc_session::receiver::book::action::{Apart, Notification, PublishedFile};
use icdc_units::ByteCount;

use super::super::shared::Shared;
use crate::event::{Event, Outcome};
use crate::path_text;

impl Shared<'_> {
    /// Counts an outcome, and reports it to the user.
    pub(super) fn notify(&self, notification: Notification) {
        match notification {
            Notification::Published { path, file } => {
                if let Some(PublishedFile { size, digest, made_durable }) = &file {
                    self.durable(*made_durable);
                    self.count_published(*size, Some(digest));
                } else {
                    self.count_link();
                }
                let (bytes, digest) = file.map_or((ByteCount::ZERO, None), |file| (file.size, Some(file.digest)));
                self.report(&path, bytes, Outcome::Published, digest, None);
            }
            Notification::Had { size, digest } => {
                self.resumed(size);
                self.count_published(size, Some(&digest));
            }
            Notification::TakenOver { size } => self.take_over(size),
            Notification::Continued { held } => self.resumed(held),
            Notification::Skipped { path, size, is_file } => {
                if is_file {
                    self.skipped();
                }
                self.report(&path, size, Outcome::Skipped, None, None);
            }
            Notification::KeptNewer { path, size } => {
                self.kept_newer();
                self.report(&path, size, Outcome::KeptNewer, None, None);
            }
            Notification::Failed { path, size, reason } => {
                self.report(&path, size, Outcome::Failed, None, Some(reason));
                self.failed();
            }
            Notification::Deleted { path, is_directory } => {
                self.counters.deleted.fetch_add(1, Ordering::Relaxed);
                (self.events)(Event::deleted(&path, is_directory, self.options.dry_run));
            }
            Notification::DeletionRefused { reason } => {
                (self.events)(Event::DeletionRefused { reason });
                self.failed();
            }
            Notification::Unlinked { path, why } => {
                let kind = match why {
                    Apart::Replaced => NoticeKind::FirstNameReplaced,
                    Apart::Newer => NoticeKind::FirstNameNewer,
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
