//! Completion of a snapshot, once everything is done.
//!
//! ```text
//! nothing failed, nothing extra is left ─► MakeSnapshot ─► (RemoveSnapshots) ─► Ended
//! ```

use icdc_protocol::message::{Deletion, Message, SnapshotNews, SnapshotTime};
use icdc_protocol::validate::clip;

use super::Book;
use super::action::{Action, Answer, MadeSnapshot, Notification};
use super::retention::expired;
use super::state::SnapshotStage;
use crate::Failure;

impl<P> Book<P> {
    /// Whether the run makes a snapshot that is not through.
    pub(super) fn has_snapshot_ahead(&self) -> bool {
        self.settings.options.snapshot.is_some() && self.snapshot != SnapshotStage::Ended
    }

    /// Begins to complete the snapshot, if there is one; returns whether it has ended. Once the
    /// sender has gone, none is completed: it may not have read everything.
    pub(super) fn make_snapshot(&mut self) -> bool {
        if !self.has_snapshot_ahead() || !self.phase.is_open() {
            return true;
        }
        if self.snapshot != SnapshotStage::Filling {
            return false;
        }
        if let Some(path) = &self.first_failed {
            let reason = format!("{}: it is not as at the source", path.escape_ascii());
            self.refuse_snapshot(reason);
            return true;
        }
        self.snapshot = SnapshotStage::Making;
        self.ask(Action::MakeSnapshot);
        false
    }

    /// Handles the outcome of [`Action::MakeSnapshot`].
    pub fn on_snapshot_made(&mut self, outcome: Result<MadeSnapshot, Failure>) {
        self.answered(Answer::SnapshotMade);
        match outcome {
            Ok(MadeSnapshot { time, all }) => {
                self.note_receipt_snapshot(time);
                self.tell_snapshot(SnapshotNews::Made(time));
                match self.settings.options.snapshot.and_then(|snapshot| snapshot.keep) {
                    Some(keep) => {
                        self.snapshot = SnapshotStage::Removing;
                        self.ask(Action::RemoveSnapshots(expired(keep, time, all)));
                    }
                    None => self.end_snapshot_stage(),
                }
            }
            Err(failure) => {
                self.has_passing_failure = true;
                self.refuse_snapshot(failure.into_reason());
            }
        }
        self.proceed();
    }

    /// Handles the outcomes of [`Action::RemoveSnapshots`].
    pub fn on_snapshots_removed(&mut self, outcomes: Vec<(SnapshotTime, Result<(), Failure>)>) {
        self.answered(Answer::SnapshotsRemoved);
        for (time, outcome) in outcomes {
            self.tell_snapshot(match outcome {
                Ok(()) => SnapshotNews::Removed(time),
                Err(failure) => SnapshotNews::Stays { time, reason: clip(failure.into_reason()) },
            });
        }
        self.end_snapshot_stage();
        self.proceed();
    }

    /// Leaves the snapshot unfinished; the same command goes on with it.
    pub(super) fn refuse_snapshot(&mut self, reason: String) {
        self.fail_receipt(b"the snapshot");
        self.tell_snapshot(SnapshotNews::NotMade(clip(reason)));
        self.end_snapshot_stage();
    }

    /// Tells the user and the sender what has become of the snapshot, or of an older one.
    fn tell_snapshot(&mut self, news: SnapshotNews) {
        self.notify(Notification::Snapshot(news.clone()));
        self.reply(Message::Snapshot(news));
    }

    /// Ends the stage of the destination's snapshot, made or refused, and tells the sender, which
    /// waits for it, that nothing more is deleted.
    fn end_snapshot_stage(&mut self) {
        self.snapshot = SnapshotStage::Ended;
        self.reply(Message::Deletion(Deletion::Ended));
    }
}
