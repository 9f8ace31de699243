//! Messages from the receiver, and their effects.

use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::{
    Basis, Candidates, Chunks, Deletion, Done, EntryId, EntryKind, FileDigest, Message, Refusal, RefusalKind,
    SnapshotNews, Want, Wants,
};
use icdc_protocol::receipt::line::Status;
use icdc_units::ByteCount;

use super::super::action::{Action, Fate};
use super::super::ledger::Settlement;
use super::{MAX_DESCRIBED, MOST_CHUNKS, Sender};
use crate::error::SessionError;

impl Sender {
    /// Handles a message from the receiver; the error, if there is one, ends the session.
    pub(super) fn handle(&mut self, message: Message) -> Result<(), SessionError> {
        match message {
            Message::Ready(ready) => {
                self.receiver_has_begun = true;
                if ready.resuming {
                    self.actions.push_back(Action::Continuing);
                }
                self.queue(Message::Confirmed);
                Ok(())
            }
            Message::Held(held) if self.ledger.hold(held.id, held.first, &held.values) => Ok(()),
            Message::Held(held) => {
                Err(SessionError::Protocol(format!("holds blocks of item {} that it does not have", held.id)))
            }
            Message::Wants(wants) => self.wants(wants),
            Message::Candidates(candidates) => self.compare(candidates),
            Message::Resend { id, index } => match self.ledger.resend(id, index) {
                Some(true) => {
                    self.actions.push_back(Action::ReadAgain { id, index });
                    Ok(())
                }
                Some(false) => Err(SessionError::Protocol(format!(
                    "asks again for block {index} of item {id}, which it does not hold"
                ))),
                None => Ok(()),
            },
            Message::Basis(basis) => self.describe(basis),
            Message::Chunks(chunks) => self.describe_chunks(chunks),
            Message::Done(done) => done.into_iter().try_for_each(|done| self.done(done)),
            Message::Notice(notice) => {
                self.actions.push_back(Action::Noticed(notice));
                Ok(())
            }
            Message::Running(running) => {
                let is_heard = match &running {
                    Some(_) => self.waits > 0,
                    None => self.is_waiting,
                };
                if is_heard {
                    self.is_waiting = running.is_some();
                    self.waits -= u32::from(self.is_waiting);
                    self.actions.push_back(Action::Running(running));
                }
                Ok(())
            }
            Message::InPlace { id } => {
                // Once for each item, or a receiver could fill the user's terminal.
                if let Some(path) = self.ledger.begin_in_place(id) {
                    self.actions.push_back(Action::InPlace { path });
                }
                Ok(())
            }
            Message::Placed(place) => {
                self.actions.push_back(Action::Placed(place));
                Ok(())
            }
            Message::Left { connection, frames } => self.left(connection, frames),
            Message::Deletion(news) if self.awaits_deletion => {
                self.deletion(news);
                Ok(())
            }
            Message::Snapshot(news) if self.awaits_deletion => {
                if let SnapshotNews::NotMade(_) | SnapshotNews::Stays { .. } = news {
                    self.ledger.count_failure();
                }
                self.actions.push_back(Action::Snapshot(news));
                Ok(())
            }
            Message::Receipt(part) => self.receipt_told(part),
            Message::Accepted(theirs) => match theirs.lacking(self.settings.needs) {
                Some(reason) => Err(SessionError::Refused(Refusal::new(RefusalKind::NotAllowed, reason))),
                None => Ok(()),
            },
            // The rate is decided elsewhere, and what is durable of a stream is only told to the user.
            Message::Feedback(_)
            | Message::MaxRate { .. }
            | Message::KeyCeiling(_)
            | Message::UserCeiling(_)
            | Message::StreamDurable { .. }
            | Message::Ping => Ok(()),
            Message::Interrupt => Err(SessionError::Interrupted),
            Message::Abort(refusal) | Message::Refused(refusal) => Err(SessionError::Refused(refusal)),
            _ => Err(SessionError::Protocol("a message that only a sender may send".into())),
        }
    }

    /// Records what the receiver has deleted, or why it has not.
    fn deletion(&mut self, news: Deletion) {
        match &news {
            Deletion::Deleted(items) => self.ledger.count_deleted(items.len() as u64),
            Deletion::Failed { .. } | Deletion::Refused(_) => self.ledger.count_failure(),
            Deletion::Ended => self.awaits_deletion = false,
        }
        self.actions.push_back(Action::Deletion(news));
    }

    /// Handles files of the receiver that may have become an announced item, or have its contents.
    fn compare(&mut self, candidates: Candidates) -> Result<(), SessionError> {
        match self.ledger.compare(candidates.id) {
            Some(true) if self.settings.awaits_deletion || candidates.places.is_empty() => {
                self.actions.push_back(Action::Compare(candidates));
                Ok(())
            }
            None => Ok(()),
            Some(_) => {
                let id = candidates.id;
                Err(SessionError::Protocol(format!("compares item {id}, which is not to be compared")))
            }
        }
    }

    /// Handles a description of the receiver's file with which an item is compared.
    fn describe(&mut self, basis: Basis) -> Result<(), SessionError> {
        let blocks = basis.blocks.len() as u32;
        match self.ledger.describe(&basis) {
            Some(true) if self.described + blocks <= MAX_DESCRIBED => {
                self.described += blocks;
                self.actions.push_back(Action::ReadDescribed(basis));
                Ok(())
            }
            None => Ok(()),
            Some(is_proper) => {
                let what = if is_proper { "more than is asked for" } else { "what is not to be compared" };
                Err(SessionError::Protocol(format!("describes its file for item {}: {what}", basis.id)))
            }
        }
    }

    /// Handles chunks of the receiver's files in which the content of an item is looked up.
    fn describe_chunks(&mut self, chunks: Chunks) -> Result<(), SessionError> {
        let number = chunks.chunks.len() as u32;
        match self.ledger.describe_chunks(&chunks) {
            Some(true) if self.chunks + number <= MOST_CHUNKS => {
                self.chunks += number;
                self.actions.push_back(Action::ReadMatched(chunks));
                Ok(())
            }
            None => Ok(()),
            Some(is_proper) => {
                let what =
                    if is_proper { "more than is asked for" } else { "what is not to be looked up, or too much" };
                Err(SessionError::Protocol(format!("describes chunks for item {}: {what}", chunks.id)))
            }
        }
    }

    /// Handles the receiver's answers to announced entries; the small files that it wants go in
    /// packs.
    fn wants(&mut self, wants: Wants) -> Result<(), SessionError> {
        self.receiver_has_begun = true;
        let mut small = Vec::new();
        for (number, want) in (0..).zip(wants.answers) {
            let Some(id) = wants.first.checked_add(number) else { break };
            self.want(id, want, &mut small)?;
        }
        self.actions.extend(self.packs.split(small).into_iter().map(Action::Pack));
        Ok(())
    }

    /// Handles what the receiver wants of one entry; a small file that is to be packed is added to
    /// `small`.
    fn want(&mut self, id: EntryId, want: Want, small: &mut Vec<(EntryId, ByteCount)>) -> Result<(), SessionError> {
        // Directories are settled from the start; the failure of one arrives as `Done`.
        let Some(item) = self.ledger.pending(id) else {
            if self.settings.dry_run {
                self.ledger.directory_done(id, false);
            }
            return Ok(());
        };
        if want == Want::Contents {
            return self.link_as_file(id, small);
        }
        let (size, is_file, is_stream) = (item.size(), item.is_file(), item.entry.kind == EntryKind::Stream);
        let told = self.ledger.told_digest(id);
        let held = self.ledger.ask(id);
        let held = held.map_err(|_| SessionError::Protocol(format!("asks twice for item {id}")))?;
        if let Some((status, digest)) = delivered(want) {
            self.note_pending_delivered(id, status, digest)?;
        }
        match want {
            Want::All | Want::Rest | Want::Difference | Want::Delta if self.settings.dry_run => {
                self.settle_durable(id, Settlement::Published(None), Fate::WouldSend);
            }
            Want::All | Want::Rest if is_stream => {
                self.ledger.resumed(held.as_ref().map_or(ByteCount::ZERO, |held| ByteCount::new(held.bytes())));
                self.actions.push_back(Action::ReadStream { id, held });
            }
            Want::All if is_file && size <= ByteCount::new(PACK_FILE_LIMIT) => small.push((id, size)),
            Want::Delta if is_file => {
                self.ledger.resumed(held.as_ref().map_or(ByteCount::ZERO, |held| ByteCount::new(held.bytes())));
                self.ledger.expect_chunks(id);
                self.actions.push_back(Action::AwaitChunks { id, held });
            }
            Want::All | Want::Rest | Want::Difference if is_file => {
                self.ledger.resumed(held.as_ref().map_or(ByteCount::ZERO, |held| ByteCount::new(held.bytes())));
                let described = want == Want::Difference;
                if described {
                    self.ledger.expect_basis(id);
                }
                self.actions.push_back(Action::Read { id, held, described });
            }
            Want::All | Want::Rest | Want::Difference | Want::Delta | Want::Failed | Want::Contents => {}
            Want::Have(digest) => {
                self.ledger.resumed(size);
                self.settle_durable(id, Settlement::Published(Some(digest)), Fate::Kept);
            }
            Want::TakenOver(digest) => {
                self.ledger.resumed(size);
                self.settle_durable(id, Settlement::TakenOver(digest), Fate::Kept);
            }
            Want::Skip => self.settle_alike(id, Settlement::Skipped, Fate::Skipped),
            Want::Keep(why) => self.settle(id, &Settlement::Kept(why), Fate::Unwanted(why)),
            Want::Linked => self.settle_alike(id, Settlement::Linked, Fate::Linked),
            Want::Renamed(digest) if digest == told && digest.is_none() == self.settings.dry_run => {
                self.settle_durable(id, Settlement::Renamed(digest), Fate::Renamed(digest));
            }
            Want::Renamed(_) => {
                return Err(SessionError::Protocol(format!("item {id} was renamed with another digest than it has")));
            }
        }
        Ok(())
    }

    /// Sends the contents of a hard link, which the receiver cannot make, as those of a file.
    fn link_as_file(&mut self, id: EntryId, small: &mut Vec<(EntryId, ByteCount)>) -> Result<(), SessionError> {
        let Some(size) = self.ledger.link_becomes_file(id) else {
            return Err(SessionError::Protocol(format!("asks for the contents of item {id}, which is no hard link")));
        };
        if size <= ByteCount::new(PACK_FILE_LIMIT) {
            small.push((id, size));
        } else {
            self.actions.push_back(Action::Read { id, held: None, described: false });
        }
        // More is to be sent than the announced totals.
        self.queue(Message::Totals(self.ledger.counts().known_totals()));
        Ok(())
    }

    /// Handles what has become of an item at the receiver: settles it, or ends a directory. Fails
    /// if a file was published with another digest than was sent.
    fn done(&mut self, done: Done) -> Result<(), SessionError> {
        let Done { id, outcome } = done;
        let Some(item) = self.ledger.pending(id) else {
            match outcome {
                Ok(_) => self.end_directory(id),
                Err(reason) => {
                    if let Some(path) = self.ledger.directory_done(id, true) {
                        self.actions.push_back(Action::DirectoryFailed { id, path, reason });
                    }
                }
            }
            return Ok(());
        };
        match outcome {
            Ok(theirs) if item.has_contents() && (theirs.is_none() || theirs != self.ledger.digest(id)) => {
                let path = item.path.escape_ascii();
                Err(SessionError::Protocol(format!("the receiver published {path} with another digest than was sent")))
            }
            Ok(digest) => {
                self.note_pending_delivered(id, Status::Stored, digest)?;
                self.settle_durable(id, Settlement::Published(digest), Fate::Published(digest));
                Ok(())
            }
            Err(reason) => {
                let is_changed = self.ledger.was_changed(id);
                self.settle_failed(id, is_changed, reason);
                Ok(())
            }
        }
    }
}

/// Status and digest in a receipt of an item that the receiver has answered so; `None` if that is not
/// the end of the item, or it failed.
fn delivered(want: Want) -> Option<(Status, Option<FileDigest>)> {
    match want {
        Want::Have(digest) => Some((Status::Stored, Some(digest))),
        Want::TakenOver(digest) => Some((Status::Earlier, Some(digest))),
        Want::Skip => Some((Status::Equal, None)),
        Want::Keep(_) => Some((Status::Kept, None)),
        Want::Linked => Some((Status::Linked, None)),
        Want::Renamed(digest) => Some((Status::Renamed, digest)),
        Want::All | Want::Rest | Want::Difference | Want::Delta | Want::Failed | Want::Contents => None,
    }
}
