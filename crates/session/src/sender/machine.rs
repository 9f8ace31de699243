//! The machine of the sending end.

mod answers;
mod receipt;
mod removal;
mod retransmission;

use std::collections::VecDeque;

use icdc_protocol::Features;
use icdc_protocol::limits::MAX_CHUNKS;
use icdc_protocol::message::{
    Begin, CandidateAnswer, Digest, Entry, EntryId, EntryKind, FileDigest, FileEnd, GivenUp, Goodbye, ItemEnd, LeftOut,
    Message, Notice, OwnerNames, PackItem, Parent, Problem, Streamed,
};
use icdc_protocol::receipt::line::Status;
use icdc_units::{ByteCount, Time};

use super::action::{Action, Fate};
use super::announcement::Batch;
use super::debts::{Connections, Debt};
use super::ending::{Ending, Outgoing, Step};
use super::ledger::{Counts, Item, Ledger, Settlement, Window};
use super::opening;
use super::packs::Packs;
use super::receipt::Receipt;
use super::removal::{Removal, Removals};
use crate::error::SessionError;
use crate::weight::Pending;

/// Most messages that are queued for the connection before the scan has to wait.
const MOST_MESSAGES: usize = 64;

/// Settings of the sending end of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether this is a dry run: nothing is transferred; what would be is only reported.
    pub dry_run: bool,
    /// Whether the receiver keeps a journal of the run and closes when it has removed it: the
    /// session ends after that.
    pub keeps_journal: bool,
    /// Limits on how far announcements run ahead.
    pub window: Window,
    /// Whether the digests of the items are kept until the end: 40 bytes for each.
    pub keeps_digests: bool,
    /// Features without which the receiver cannot do what is requested.
    pub needs: Features,
    /// Whether the receiver deletes what the source does not have: the session ends after that.
    pub awaits_deletion: bool,
    /// Whether the receiver gives a receipt, whose lines are written here: the session ends after that.
    pub awaits_receipt: bool,
    /// Whether the sources are followed: what has changed while it was read is announced again.
    pub follows: bool,
}

/// An entry that the scan has found, to be announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Parent of the entry.
    pub parent: Parent,
    /// Name, as in [`Entry::name`].
    pub name: Vec<u8>,
    /// Type of the entry.
    pub kind: EntryKind,
    /// Permission bits (lower 12 bits).
    pub mode: u16,
    /// Modification time: seconds since 1970, and nanoseconds below 1e9.
    pub mtime: (i64, u32),
    /// Numeric owner and group, when carried.
    pub owner: Option<(u32, u32)>,
    /// Extended attributes (name, value), when carried.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Path from the source's parent, for messages and the tree digest.
    pub path: Vec<u8>,
    /// Bytes at the start of the path that are above the destination's directory: see [`Item::above`].
    pub above: usize,
    /// Digest of a hard link's first name: see [`Item::first`].
    pub first: Option<Digest>,
    /// Bytes of contents kept in memory: see [`Item::held`].
    pub held: usize,
    /// Time of its removal at the source.
    pub removal: Removal,
}

/// Next act of the scan for which it requests room: to announce an item, or to report a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The scan wants to announce an item.
    Item {
        /// Number of directories from the source down to the scan's position.
        depth: usize,
    },
    /// The scan wants to report a problem.
    Problem,
}

/// Answer to the scan's request for room: to continue, to wait, or to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The scan may continue.
    Now,
    /// The scan has to wait; an [`Action::Granted`] follows.
    Later,
    /// The scan has to end: the session is over.
    Over,
}

/// Most blocks of a receiver's files that are described and wait to be read: four times as many as it
/// describes ahead of what arrives. A description without blocks ends that of its file.
const MAX_DESCRIBED: u32 = 1024;
/// Most chunks of a receiver's files that are described and wait to be taken: twice as many as it
/// describes of files that are under way.
const MOST_CHUNKS: u32 = 2 * MAX_CHUNKS;
/// Most waits of a receiver that are reported; each is a line for the user.
const MAX_WAITS: u32 = 1000;

/// State machine of the sending end of one session: takes events of the scan, the readers and the
/// connections, and gives actions and messages. See the [module](super).
pub struct Sender {
    settings: Settings,
    ledger: Ledger,
    batch: Batch,
    packs: Packs,
    connections: Connections,
    /// The scan's request that was not granted yet, if there is one.
    needed: Option<Need>,
    has_answered: bool,
    /// Whether the end of the receiver's deletion is still to come.
    awaits_deletion: bool,
    /// Whether the receiver has begun: before that, it takes an end for a lost connection.
    receiver_has_begun: bool,
    /// The receipt that is still to come; `None` if none is, or it is here.
    receipt: Option<Receipt>,
    removals: Removals,
    /// Number of blocks of the receiver's files that are described and still to be read.
    described: u32,
    /// Number of chunks of the receiver's files that are described and still to be taken.
    chunks: u32,
    /// Number of waits for other sessions that may still be reported.
    waits: u32,
    /// Whether the receiver waits for another session and the user was informed.
    is_waiting: bool,
    ending: Ending,
    messages: VecDeque<Message>,
    actions: VecDeque<Action>,
}

impl Sender {
    /// The sending end of a session that starts with the message `begin`.
    #[must_use]
    pub fn new(settings: Settings, begin: Begin) -> Self {
        Self {
            settings,
            ledger: Ledger::new(settings.window, settings.keeps_digests),
            batch: Batch::default(),
            packs: Packs::default(),
            connections: Connections::default(),
            needed: None,
            has_answered: false,
            awaits_deletion: settings.awaits_deletion,
            receiver_has_begun: false,
            receipt: settings.awaits_receipt.then(Receipt::default),
            removals: Removals::default(),
            described: 0,
            chunks: 0,
            waits: MAX_WAITS,
            is_waiting: false,
            ending: Ending::Open(Outgoing::Open),
            messages: opening::messages(begin),
            actions: VecDeque::new(),
        }
    }

    /// The next action to carry out, in order.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next message for the first connection, in order and ahead of all data. The account of
    /// the connections in a [`Goodbye`] (bytes, segments, stages) is for the executor to fill in.
    pub fn poll_message(&mut self) -> Option<Message> {
        let message = self.messages.pop_front();
        self.grant();
        message
    }

    /// Whether a message waits for the first connection.
    #[must_use]
    pub fn has_message(&self) -> bool {
        !self.messages.is_empty()
    }

    // Events of the scan.

    /// Requests room for the scan. Unless it is granted at once, everything announced so far is
    /// sent.
    pub fn request(&mut self, need: Need) -> Grant {
        if self.ending.is_over() {
            return Grant::Over;
        }
        if self.has_room(need) {
            return Grant::Now;
        }
        self.flush();
        self.needed = Some(need);
        Grant::Later
    }

    /// Tells the receiver that the stream which is announced next begins behind this many bytes of one
    /// that an earlier session has left, zero for a new one, and is left in the same way.
    pub fn continue_stream(&mut self, bytes: u64) {
        self.ledger.continued = bytes;
        self.queue(Message::StreamFrom { bytes });
    }

    /// Announces an entry, once there is [room](Self::request); returns its id. A directory is to
    /// be [left](Self::leave_directory) when everything in it has been announced.
    pub fn announce(&mut self, found: Found) -> EntryId {
        let Found { parent, name, kind, mode, mtime, owner, xattrs, path, above, first, held, removal } = found;
        let id = self.ledger.next_id();
        let (mtime_seconds, mtime_nanos) = mtime;
        let entry = Entry { id, parent, name, kind, mode, mtime_seconds, mtime_nanos, owner, xattrs };
        let is_directory = entry.kind == EntryKind::Directory;
        let item = Item { entry: entry.clone(), path, above, first, held, removal };
        if is_directory {
            self.note_delivered(&item, Status::Stored, None);
            self.ledger.announce_directory(item);
        } else {
            self.ledger.announce(item);
        }
        if let Some(entries) = self.batch.push(entry) {
            self.tell_entries(entries);
        }
        id
    }

    /// Ends a directory all of whose children have been announced.
    pub fn leave_directory(&mut self, id: EntryId) {
        self.flush();
        self.queue(Message::DirEnd { id });
        self.ledger.leave_directory(id);
        self.grant();
    }

    /// Handles something that the scan cannot announce, once there is [room](Self::request).
    pub fn on_problem(&mut self, problem: Problem) {
        if problem.error {
            self.ledger.count_failure();
        }
        self.actions.push_back(Action::Problem(problem.clone()));
        self.queue(Message::Problem(problem));
    }

    /// Tells a receiver that deletes what is left out of a directory that is being announced, once
    /// there is [room](Self::request).
    pub fn on_left_out(&mut self, directory: EntryId, what: LeftOut) {
        // It follows the entry of the directory.
        self.flush();
        self.queue(Message::LeftOut { directory, what });
    }

    /// Tells the other end names of owners, once there is [room](Self::request) and ahead of the
    /// entries that have their numbers.
    pub fn on_owner_names(&mut self, names: OwnerNames) {
        self.queue(Message::OwnerNames(names));
    }

    /// Asks the other end for the next part of its list of names, in this pass.
    pub fn on_names_wanted(&mut self, pass: u32) {
        self.queue(Message::NamesWanted { pass });
    }

    /// Tells the other end of an event that items have met at this end and its user should know.
    pub fn on_noticed(&mut self, notice: Notice) {
        self.queue(Message::Notice(notice));
    }

    /// Asks the other end to make connections: the path needs `wanted` of them, the first included.
    pub fn on_scarcity(&mut self, wanted: u8) {
        self.queue(Message::Connections { wanted });
    }

    /// Asks the other end to go on over datagrams: losses are more than TCP bears.
    pub fn on_losses(&mut self) {
        self.queue(Message::DatagramsWanted);
    }

    /// Handles the end of the scan: everything has been announced.
    pub fn on_scanned(&mut self, now: Time) {
        self.flush();
        self.ledger.scan_complete();
        self.queue(Message::Totals(self.ledger.counts().known_totals()));
        self.queue(Message::End);
        self.proceed(now);
    }

    // Events of the readers.

    /// The item of this id; `None` unless it is announced and not settled.
    #[must_use]
    pub fn item(&self, id: EntryId) -> Option<&Item> {
        self.ledger.pending(id)
    }

    /// Records that small files are read and their pack is going to be sent.
    pub fn on_packed(&mut self, items: &[PackItem]) {
        items.iter().for_each(|item| self.ledger.packed(item.id, item.digest));
    }

    /// Records that the reading of a large file has ended, `blocks` of which were sent (besides
    /// those that were [read again](Action::ReadAgain)). Returns the frame to send after these
    /// blocks, or `None` if the other end has given the file up.
    pub fn on_read(&mut self, id: EntryId, blocks: u32, outcome: Result<FileDigest, GivenUp>) -> Option<FileEnd> {
        self.ledger.read(id, blocks, outcome)
    }

    /// Records the end of a stream, all blocks of which were sent. Returns the frame to send after these
    /// blocks, or `None` if the other end has given it up.
    pub fn on_stream_ended(&mut self, id: EntryId, digest: Digest, streamed: Streamed) -> Option<ItemEnd> {
        let end = self.ledger.stream_ended(id, digest, streamed)?;
        // They were announced without it.
        self.queue(Message::Totals(self.ledger.counts().known_totals()));
        Some(end)
    }

    /// Handles the end of [`Action::ReadDescribed`] for `blocks` blocks of the file `id`, of which these
    /// are holes.
    pub fn on_description_read(&mut self, id: EntryId, blocks: usize, holes: Vec<u32>) {
        self.described = self.described.saturating_sub(blocks as u32);
        if !holes.is_empty() {
            self.queue(Message::Holes { id, blocks: holes });
        }
    }

    /// Handles the end of [`Action::ReadMatched`] with this number of chunks.
    pub fn on_chunks_taken(&mut self, chunks: usize) {
        self.chunks = self.chunks.saturating_sub(chunks as u32);
    }

    /// Counts bytes of a block that the receiver has in its files, and that are not sent.
    pub fn on_unchanged(&mut self, bytes: ByteCount) {
        self.ledger.unchanged(bytes);
    }

    /// Handles the outcome of [`Action::Compare`].
    pub fn on_compared(&mut self, answer: CandidateAnswer) {
        if self.ledger.told(answer.id, answer.digest) {
            self.queue(Message::CandidateAnswer(answer));
        }
    }

    /// Handles an item that cannot be read: this is reported to the receiver, and the item is
    /// settled.
    pub fn on_unreadable(&mut self, now: Time, id: EntryId, given_up: GivenUp) {
        if self.ledger.pending(id).is_none() {
            return;
        }
        let (reason, is_changed) = (given_up.reason.clone(), !given_up.same_version);
        // Before it is settled: if it is the last one, the goodbye follows at once.
        self.queue(Message::FileEnd(FileEnd { id, blocks: 0, outcome: Err(given_up) }));
        self.settle_failed(id, is_changed, reason);
        self.proceed(now);
    }

    // Events of the receiver.

    /// Handles a message that has arrived from the receiver.
    pub fn on_message(&mut self, now: Time, message: Message) {
        if self.ending.is_over() {
            return;
        }
        if !self.has_answered {
            self.has_answered = true;
            self.actions.push_back(Action::Answered);
        }
        if let Err(error) = self.handle(message) {
            return self.fail(now, error);
        }
        self.proceed(now);
    }

    /// Handles that nothing more arrives on the first connection, for the reason `error`.
    pub fn on_receive_ended(&mut self, now: Time, error: SessionError) {
        if self.removes_rest() {
            return;
        }
        let step = self.ending.receive_ended(now, error);
        self.take(step);
    }

    /// Handles that nothing more can be sent on the first connection, for the reason `error`.
    pub fn on_send_failed(&mut self, now: Time, error: SessionError) {
        if self.removes_rest() {
            return;
        }
        let step = self.ending.send_failed(now, error);
        self.take(step);
    }

    /// Handles, after [`Action::Leave`], that all messages are handed to the carrier.
    pub fn on_sent(&mut self, now: Time) {
        let step = self.ending.sent(now);
        self.take(step);
    }

    /// Handles a long silence of the receiver, which normally sends something several times a
    /// second.
    pub fn on_silence(&mut self, now: Time) {
        let step = self.ending.silent(now);
        self.take(step);
    }

    // Events of the connections after the first.

    /// Records that a further connection is established. False if it must not be used: it has ended
    /// before, the session is over, or its number is in use.
    #[must_use]
    pub fn on_joined(&mut self, connection: u8) -> bool {
        !self.ending.is_over() && self.connections.join(connection)
    }

    /// Records a frame that a further connection is about to send; not called for the first one.
    /// False if it may not be sent over that connection because it has ended: the contents are then
    /// read again.
    #[must_use]
    pub fn on_handed(&mut self, connection: u8, frame: &Message) -> bool {
        let Some(debt) = Debt::of(frame) else { return true };
        let is_pending = |id| self.ledger.pending(id).is_some();
        match self.connections.hand(connection, debt, is_pending) {
            Ok(()) => true,
            Err(debt) => {
                self.repay(debt);
                false
            }
        }
    }

    /// Handles the end of a further connection at this end. The receiver answers with the number of
    /// frames that arrived over it.
    pub fn on_connection_ended(&mut self, connection: u8) {
        if let Some(frames) = self.connections.end(connection)
            && !self.ending.is_over()
        {
            self.queue(Message::Left { connection, frames });
        }
    }

    // Events of this end.

    /// Handles the user's request to stop the run.
    pub fn on_interrupt(&mut self, now: Time) {
        if self.ending.interrupt(now) {
            self.actions.push_back(Action::StopData);
            self.queue(Message::Interrupt);
        }
    }

    /// Ends the session because of a failure at this end.
    pub fn fail(&mut self, now: Time, error: SessionError) {
        let step = self.ending.fail(now, error);
        self.take(step);
    }

    /// Time at which [`on_time`](Self::on_time) is due if nothing happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.ending.next_deadline()
    }

    /// Handles what is due at `now`.
    pub fn on_time(&mut self, now: Time) {
        let step = self.ending.time(now);
        self.take(step);
    }

    // State.

    /// Whether anything has arrived from the receiver.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Whether the session is ending: [`Action::Leave`] has been given.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ending.is_over()
    }

    /// Whether everything is announced, every item has ended, and the receiver has deleted what it
    /// was to delete and given the receipt that it was to give. Items may still have to be removed at the source.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.ledger.is_settled() && !self.awaits_deletion && self.receipt.is_none()
    }

    /// Counters of the items so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        self.ledger.counts()
    }

    /// Announced items that are not settled: their number, and the memory that they take.
    #[must_use]
    pub fn backlog(&self) -> Pending {
        self.ledger.backlog()
    }

    /// Digest over all items published so far, in the order of their announcement.
    #[must_use]
    pub fn tree(&self) -> Digest {
        self.ledger.tree()
    }

    /// Digests of the items published so far, in the order of their announcement; empty if they are
    /// not kept.
    #[must_use]
    pub fn digests(&self) -> &[(EntryId, Digest)] {
        self.ledger.digests()
    }

    /// Digest of the only regular file; `None` if there are several, or its digest is not known.
    #[must_use]
    pub fn only(&self) -> Option<FileDigest> {
        self.ledger.only()
    }

    /// Settles an item that has failed: where sources are followed, one that `is_changed` is announced again instead.
    fn settle_failed(&mut self, id: EntryId, is_changed: bool, reason: String) {
        if is_changed && self.settings.follows {
            self.settle(id, &Settlement::Changed, Fate::Changed);
        } else {
            self.settle(id, &Settlement::Failed, Fate::Failed { reason });
        }
    }

    /// Settles an item, and tells the executor its outcome.
    fn settle(&mut self, id: EntryId, how: &Settlement, fate: Fate) {
        if let Some(item) = self.ledger.settle(id, how) {
            let bytes = item.size();
            self.actions.push_back(Action::Settled { id, path: item.path, bytes, fate });
        }
    }

    /// Ends the session if everything is settled, and grants the scan's request if there is room
    /// now.
    fn proceed(&mut self, now: Time) {
        if self.receiver_has_begun && !self.is_over() && self.is_settled() && self.has_removed_all() {
            let step = self.ending.complete(now, self.settings.keeps_journal);
            self.take(step);
        }
        self.grant();
    }

    /// Carries out a step of the ending.
    fn take(&mut self, step: Step) {
        match step {
            Step::Nothing => return,
            Step::Leave(error) => {
                let last = match error {
                    None if self.is_settled() => Some(Message::Goodbye(Goodbye {
                        tree: self.ledger.tree(),
                        failed: self.ledger.counts().failed,
                        ..Goodbye::default()
                    })),
                    None => None,
                    Some(error) => error.refusal().map(Message::Abort),
                };
                self.messages.extend(last);
                self.actions.push_back(Action::Leave);
            }
            Step::LeaveAndEnd(outcome) => {
                self.actions.extend([Action::Leave, Action::End(outcome)]);
            }
            Step::End(outcome) => self.actions.push_back(Action::End(outcome)),
        }
        self.grant();
    }

    /// Whether the scan's request can be granted now.
    fn has_room(&self, need: Need) -> bool {
        self.messages.len() < MOST_MESSAGES
            && match need {
                Need::Item { depth } => self.ledger.has_room(depth) && self.has_room_for_lines(),
                Need::Problem => true,
            }
    }

    /// Grants the scan's request if there is room now, or if the session is over.
    fn grant(&mut self) {
        if self.needed.is_some_and(|need| self.ending.is_over() || self.has_room(need)) {
            self.needed = None;
            self.actions.push_back(Action::Granted);
        }
    }

    /// Queues the entries that were announced and are not in a message yet.
    fn flush(&mut self) {
        if let Some(entries) = self.batch.take() {
            self.tell_entries(entries);
        }
    }

    /// Queues the announcement of these entries, and the totals of the scan so far.
    fn tell_entries(&mut self, entries: Vec<Entry>) {
        self.queue(Message::Entries(entries));
        self.queue(Message::Totals(self.ledger.counts().known_totals()));
    }

    /// Queues a message for the first connection.
    fn queue(&mut self, message: Message) {
        self.messages.push_back(message);
    }
}

#[cfg(test)]
#[path = "machine/tests.rs"]
mod tests;
