//! What the receiver says, and what follows from it.

use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::{Done, EntryId, Message, Want, Wants};

use super::super::action::{Action, Fate};
use super::super::debts::{Account, Debt};
use super::super::ledger::Settlement;
use super::super::packs::into_packs;
use super::Sender;
use crate::error::SessionError;

impl Sender {
    pub(super) fn handle(&mut self, message: Message) -> Result<(), SessionError> {
        match message {
            Message::Ready(ready) => {
                if ready.resuming {
                    self.actions.push_back(Action::Continuing);
                }
                self.tell(Message::Confirmed);
                Ok(())
            }
            Message::Held(held) if self.ledger.hold(held.id, held.first, &held.values) => Ok(()),
            Message::Held(held) => {
                Err(SessionError::Protocol(format!("holds blocks of item {} that it does not have", held.id)))
            }
            Message::Wants(wants) => self.wants(wants),
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
            Message::Done(done) => done.into_iter().try_for_each(|done| self.done(done)),
            Message::Left { connection, frames } => self.left(connection, frames),
            Message::Feedback(_) | Message::Accepted | Message::Ping => Ok(()),
            Message::Interrupt => Err(SessionError::Interrupted),
            Message::Abort(refusal) | Message::Refused(refusal) => Err(SessionError::Refused(refusal)),
            _ => Err(SessionError::Protocol("a message that only a sender may send".into())),
        }
    }

    fn wants(&mut self, wants: Wants) -> Result<(), SessionError> {
        let mut small = Vec::new();
        for (number, want) in (0..).zip(wants.answers) {
            let Some(id) = wants.first.checked_add(number) else { break };
            self.want(id, want, &mut small)?;
        }
        self.actions.extend(into_packs(small).into_iter().map(Action::Pack));
        Ok(())
    }

    /// What the receiver wants of one entry; a small file that is to be packed goes to `small`.
    fn want(&mut self, id: EntryId, want: Want, small: &mut Vec<(EntryId, u64)>) -> Result<(), SessionError> {
        // Directories are settled from the start; a directory's failure comes as `Done`.
        let Some(item) = self.ledger.pending(id) else {
            if self.order.dry_run {
                self.ledger.directory_done(id, false);
            }
            return Ok(());
        };
        let (size, is_file) = (item.size(), item.is_file());
        let held = self.ledger.ask(id);
        let held = held.map_err(|_| SessionError::Protocol(format!("asks twice for item {id}")))?;
        match want {
            Want::All | Want::Rest if self.order.dry_run => {
                self.settle(id, &Settlement::Published(None), Fate::WouldSend);
            }
            Want::All if is_file && size <= PACK_FILE_LIMIT => small.push((id, size)),
            Want::All | Want::Rest if is_file => {
                self.ledger.resumed(held.as_ref().map_or(0, |held| held.bytes()));
                self.actions.push_back(Action::Read { id, held });
            }
            Want::All | Want::Rest | Want::Failed => {}
            Want::Have(digest) => {
                self.ledger.resumed(size);
                self.settle(id, &Settlement::Published(Some(digest)), Fate::Kept);
            }
            Want::TakenOver(digest) => {
                self.ledger.resumed(size);
                self.settle(id, &Settlement::TakenOver(digest), Fate::Kept);
            }
            Want::Skip => self.settle(id, &Settlement::Skipped, Fate::Skipped),
        }
        Ok(())
    }

    fn done(&mut self, done: Done) -> Result<(), SessionError> {
        let Done { id, outcome } = done;
        let Some(item) = self.ledger.pending(id) else {
            if let Some(path) = self.ledger.directory_done(id, outcome.is_err())
                && let Err(reason) = outcome
            {
                self.actions.push_back(Action::DirectoryFailed { path, reason });
            }
            return Ok(());
        };
        match outcome {
            Ok(theirs) if item.is_file() && (theirs.is_none() || theirs != self.ledger.digest(id)) => {
                let path = item.path.escape_ascii();
                Err(SessionError::Protocol(format!("the receiver published {path} with another digest than was sent")))
            }
            Ok(digest) => {
                self.settle(id, &Settlement::Published(digest), Fate::Published(digest));
                Ok(())
            }
            Err(reason) => {
                self.settle(id, &Settlement::Failed, Fate::Failed { reason });
                Ok(())
            }
        }
    }

    fn left(&mut self, connection: u8, arrived: u64) -> Result<(), SessionError> {
        match self.connections.account(connection, arrived) {
            Account::Owed(owed) => {
                self.actions.push_back(Action::ConnectionLost { connection });
                owed.into_iter().for_each(|debt| self.repay(debt));
                Ok(())
            }
            Account::Unused => Ok(()),
            Account::Wrong => Err(SessionError::Protocol(format!(
                "tells of {arrived} frames over connection {connection}, which cannot be"
            ))),
        }
    }

    /// Has a frame that did not arrive made and sent again, as far as what it is of is pending.
    pub(super) fn repay(&mut self, debt: Debt) {
        match debt {
            Debt::Block { id, index } => {
                // Of a file that could not be read to its end no block is waited for.
                let is_given_up = self.ledger.end_of(id).is_some_and(|end| end.outcome.is_err());
                if self.ledger.pending(id).is_some() && !is_given_up {
                    self.actions.push_back(Action::ReadAgain { id, index });
                }
            }
            Debt::Pack(mut ids) => {
                ids.retain(|id| self.ledger.pending(*id).is_some());
                if !ids.is_empty() {
                    self.actions.push_back(Action::Pack(ids));
                }
            }
            // It may overtake the file's blocks, which are counted.
            Debt::End(id) => {
                if let Some(end) = self.ledger.end_of(id) {
                    self.tell(Message::FileEnd(end));
                }
            }
        }
    }
}
