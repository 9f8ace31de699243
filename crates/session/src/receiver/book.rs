//! The book of names: what the sender announces, from the announcement to the final name.
//!
//! ```text
//! Begin ─► Place ─► (Confirmed, if a lock was waited for) ─► BeginRun ─► Ready
//! Entries ─► MakeDirectories ─► Examine ─► Held, Wants ─┬─ packs ─► Stage ──────────┬─► batch ─► Done
//!              (or wait for the name, or be compared)   ├─ blocks: Expect ─► stored ┤
//!                                                       └─ links: MakeLink ─────────┘
//! batch: Flush ─► Rename ─► FlushNames ─► NotePublished ─► RemoveJournals ─► Done
//! DirEnd, all children done ─► FinishDirectory ─► Flush ─► Done
//! all done ─► (CountExtras ─► DeleteExtras, of a mirror) ─► (MakeSnapshot ─► RemoveSnapshots) ─► Complete ─► PutAway
//! ```
//!
//! An item is known from its announcement until it is published or has failed. It holds its name
//! from its examination on, so that a later one of the same name waits. What is announced before it
//! is known that the sender is there waits, too.
//!
//! | module | what |
//! |---|---|
//! | [`action`] | actions for the executor, and their outcomes |
//! | [`item`] | directories and items |
//! | [`resume`] | what is wanted of an item, according to the destination |
//! | `beginning` | from the sender's first message until its announcements are processed |
//! | `announced` | entries, until their directories are made |
//! | `attributes` | attributes of entries, as far as they are restored |
//! | `answers` | answers to items |
//! | `checksum` | items whose contents decide whether the existing file counts as equal |
//! | `referring` | items that are made from reference directories |
//! | `renaming` | items of a mirror that the destination has under another name |
//! | `publishing` | items that have arrived, until they have their final names |
//! | `confirmation`, `questions` | what waits until the sender has confirmed that it is connected |
//! | `completion` | ends of items, directories and the run |
//! | [`source_names`], `extras`, `deletion` | what the destination has and the source has not, of a mirror |
//! | [`obstacles`] | what a mirror has in place of something of another kind |
//! | [`owners`] | numbers here for the owners that the sender announces |
//! | `receipt` | lines of what is delivered, for a receipt |
//! | `snapshot`, `retention` | completion of a snapshot, and which older ones are no longer kept |
//! | `state` | progress of the session and of each item |
//! | `claims`, `levels`, `links` | names that are held, directories that are filled, files with several names |

pub mod action;
mod announced;
mod answers;
mod attributes;
mod beginning;
mod checksum;
mod claims;
mod completion;
mod confirmation;
mod deletion;
mod extras;
pub mod item;
mod levels;
mod links;
pub mod obstacles;
pub mod owners;
mod publishing;
mod questions;
mod receipt;
mod referring;
mod renaming;
pub mod resume;
mod retention;
mod snapshot;
pub mod source_names;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use icdc_protocol::message::{Entry, EntryId, EntryKind, Message, ReceiveOptions};
use icdc_units::{ByteCount, Time};

use self::action::{Action, Answer, Examination, Notification};
use self::claims::Claims;
use self::extras::Extras;
use self::item::{DirectoryId, Item, size_of};
use self::levels::Levels;
use self::links::Links;
use self::owners::{KnownOwner, Owners, Targets};
use self::publishing::batch::{Batch, DIRECTORIES, QUIET};
use self::questions::Questions;
use self::resume::Terms;
use self::resume::facts::Facts;
use self::resume::verdict::Verdict;
use self::state::{Announced, Finishing, NameFlush, Phase, ReceiptStage, Run, SessionStage, SnapshotStage, Tracked};
use crate::receipt::Lines;
use crate::weight::{Pending, entry_weight};
use crate::{ById, Failure, SessionError};

/// Settings of the receiving end of one session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Options of the request.
    pub options: ReceiveOptions,
    /// Size of the ring between socket and disk, in blocks.
    pub ring_blocks: u32,
    /// Returns whether a name is reserved for unfinished files.
    pub is_reserved: fn(&[u8]) -> bool,
    /// Paths that the sender was asked for, as the user wrote them; `None` where the sender
    /// chooses.
    pub asked: Option<Vec<Vec<u8>>>,
    /// Whether existing names must not be replaced: only names that do not exist yet may be
    /// created.
    pub only_new: bool,
    /// Whether a receipt is made.
    pub makes_receipt: bool,
    /// Numbers here of the targets of the rules for owners.
    pub owner_targets: Targets,
}

/// State machine of the names in a receiving session, from announcement to final name: the module
/// describes it. `P` is the payload of a pack.
pub struct Book<P> {
    settings: Settings,
    actions: VecDeque<Action<P>>,
    /// The answer that the last action given to the executor is waiting for.
    unanswered: Option<Answer>,
    stage: SessionStage,
    /// Id that the next announced entry must have.
    next: EntryId,
    levels: Levels,
    /// Directories whose own attributes are being set, or are not durable.
    finishing: ById<Finishing>,
    /// Directories whose attributes differ from the source's and that have waited for the sender's
    /// answer, until they end; the entry is taken when they are requested anew. Outer directories end
    /// after them.
    differing: BTreeMap<EntryId, Option<Box<Entry>>>,
    /// Bytes of paths and attributes of the tracked items and directories.
    weight: usize,
    items: ById<Tracked>,
    /// Number of items that are wanted and not done.
    wanted: usize,
    links: Links,
    /// Hard links that become files of their own, as soon as they have their first answer.
    apart: Vec<EntryId>,
    claims: Claims,
    batch: Batch,
    /// The purpose of each flush of names that is outstanding, oldest first.
    naming: VecDeque<NameFlush>,
    /// Whether the run has a journal.
    is_journaled: bool,
    /// Whether the journal was left by an interrupted run, which this one continues.
    is_resuming: bool,
    /// The directory that holds the run's journal where a source's contents go into it, and the
    /// source's entry.
    contents: Option<(DirectoryId, Entry)>,
    /// Time of the last event.
    last: Time,
    phase: Phase,
    /// Items that a mirror has and its source has not.
    extras: Extras,
    /// Whether the files of the destination were asked for that may have been renamed.
    finds_candidates: bool,
    /// Progress of the snapshot, if one is made.
    snapshot: SnapshotStage,
    /// The receipt, if one is made.
    receipt: ReceiptStage,
    /// Path of the first item that has failed at either end.
    first_failed: Option<Vec<u8>>,
    /// Whether an item has failed for a reason that may be gone when the same command is run again.
    has_passing_failure: bool,
    /// Numbers that owners get here.
    owners: Owners,
    /// Questions to the sender whether it is connected.
    questions: Questions,
}

impl<P> Book<P> {
    /// A book in which nothing is announced.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let owners = Owners::new(&settings.options.owners, &settings.owner_targets);
        let receipt = match settings.makes_receipt {
            true => ReceiptStage::Listing { lines: Lines::default(), snapshot: None },
            false => ReceiptStage::Nothing,
        };
        Self {
            settings,
            actions: VecDeque::new(),
            unanswered: None,
            stage: SessionStage::default(),
            next: 0,
            levels: Levels::default(),
            finishing: ById::default(),
            differing: BTreeMap::new(),
            weight: 0,
            items: ById::default(),
            wanted: 0,
            links: Links::default(),
            apart: Vec::new(),
            claims: Claims::default(),
            batch: Batch::default(),
            naming: VecDeque::new(),
            is_journaled: false,
            is_resuming: false,
            contents: None,
            last: Time::default(),
            phase: Phase::Announcing,
            extras: Extras::default(),
            finds_candidates: false,
            snapshot: SnapshotStage::default(),
            receipt,
            first_failed: None,
            has_passing_failure: false,
            owners,
            questions: Questions::default(),
        }
    }

    /// The next action to carry out. One with an outcome is answered before this is called again.
    pub fn poll(&mut self) -> Option<Action<P>> {
        debug_assert_eq!(self.unanswered, None, "an action is answered before the next one is asked for");
        loop {
            let action = self.actions.pop_front()?;
            match &action {
                // Lost before it could be expected.
                Action::Expect { id, .. } if !self.items.contains_key(id) => {}
                _ => {
                    self.unanswered = action.answer();
                    return Some(action);
                }
            }
        }
    }

    /// Records that the last action given to the executor has its answer.
    fn answered(&mut self, answer: Answer) {
        debug_assert_eq!(self.unanswered, Some(answer), "nothing is answered that was not asked for");
        self.unanswered = None;
    }

    /// The announcement message whose entries are being answered, if there is one.
    fn answering(&mut self) -> Option<&mut Announced> {
        match &mut self.stage {
            SessionStage::Running(run) => run.answering.as_mut(),
            _ => None,
        }
    }

    /// Handles a message of the sender about names.
    pub fn on_message(&mut self, now: Time, message: Message) {
        self.last = now;
        let taken = self.announce(message);
        self.end_on_error(taken);
    }

    /// Handles names of owners that the sender has told, with the numbers that they have here.
    pub fn on_owner_names(&mut self, users: &[KnownOwner], groups: &[KnownOwner]) {
        let learned = self.owners.learn(users, groups);
        self.end_on_error(learned);
    }

    /// Time at which [`on_time`](Self::on_time) is due; `None` if nothing is waiting to be
    /// published.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.batch.waits().then(|| self.last + QUIET)
    }

    /// Time has passed: what is staged is published if nothing has happened for long enough.
    pub fn on_time(&mut self, now: Time) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.last = now;
            self.publish();
            self.proceed();
        }
    }

    /// Handles the end of the link: nothing more arrives, so that nothing more is requested either.
    pub fn on_link_ended(&mut self) {
        match self.phase {
            Phase::Announcing => self.phase = Phase::Cut,
            Phase::Announced => self.phase = Phase::Draining,
            Phase::Cut | Phase::Draining | Phase::Complete => {}
        }
        self.give_up_questions();
    }

    /// Handles the end of all sources of data: publishes what is staged, for the last time.
    pub fn on_settled(&mut self) {
        self.publish();
        self.interrupt_obstacles();
        self.proceed();
    }

    /// The session is over; with `is_agreed`, the sender knows whether everything is done. The run
    /// is put away unless the same command can continue it: a sender that does not know, because of
    /// a cut or a kill, reconnects and has to be recognized.
    pub fn on_over(&mut self, is_agreed: bool) {
        if self.is_complete() && is_agreed && !self.has_passing_failure {
            let contents = self.contents.take().map(|(directory, entry)| (directory, Box::new(entry)));
            self.ask(Action::PutAway { contents });
        }
    }

    /// Decides what has to be transferred of an item that is to be examined.
    ///
    /// # Errors
    /// If the item cannot be done.
    pub fn decide(&self, examination: Examination, facts: &mut impl Facts) -> Result<Verdict, Failure> {
        match self.items.get(&examination.id) {
            Some(Tracked { item, .. }) => {
                let terms = Terms { options: &self.settings.options, only_new: self.settings.only_new };
                resume::decide(item, examination.question, terms, facts)
            }
            None => Err("it is not known any more".into()),
        }
    }

    /// The item of this id, if it is announced and neither done nor failed.
    #[must_use]
    pub fn item(&self, id: EntryId) -> Option<&Item> {
        self.items.get(&id).map(|tracked| &*tracked.item)
    }

    /// Entries that are announced and not done: their number, and the memory that they take.
    #[must_use]
    pub fn backlog(&self) -> Pending {
        let drafts = match &self.stage {
            SessionStage::Running(Run { answering: Some(announced), .. }) => announced.drafts.len(),
            _ => 0,
        };
        let (mut items, mut directories) = (self.items.len() + drafts, self.levels.len() + self.finishing.len());
        let mut bytes = self.weight;
        for entry in self.stage.queued() {
            let is_directory = matches!(entry.kind, EntryKind::Directory);
            directories += usize::from(is_directory);
            items += usize::from(!is_directory);
            bytes += entry_weight(entry, &entry.name);
        }
        Pending { items, directories, bytes: ByteCount::new(bytes as u64) }
    }

    /// Whether every item of the run is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Complete
    }

    /// Queues an action for the executor.
    fn ask(&mut self, action: Action<P>) {
        self.actions.push_back(action);
    }

    /// Queues a message for the sender.
    fn reply(&mut self, message: Message) {
        self.ask(Action::Reply(message));
    }

    /// Queues an event for the user and the counters.
    fn notify(&mut self, notification: Notification) {
        self.ask(Action::Notify(notification));
    }

    /// Ends the session where `outcome` is an error; what has arrived is still published.
    fn end_on_error(&mut self, outcome: Result<(), SessionError>) {
        if let Err(error) = outcome {
            self.stage = SessionStage::Broken;
            self.ask(Action::Fail(error));
        }
        self.proceed();
    }

    /// Takes all steps that an event has made possible: admits, publishes, checks for the end.
    fn proceed(&mut self) {
        if self.phase.is_open() {
            self.admit_waiting();
        }
        self.separate_answered();
        // When nothing else can come, nothing is gained by waiting for it.
        let is_last = self.phase.is_last() && self.batch.len() == self.wanted;
        let is_full = self.batch.is_full() || self.finishing.len() >= DIRECTORIES;
        if is_full || is_last || !self.phase.is_open() {
            self.publish();
        }
        self.check_complete();
    }

    /// Records the failure of an item and notifies the user; returns the reason.
    fn note_failure(&mut self, entry: &Entry, path: Vec<u8>, failure: Failure) -> String {
        self.has_passing_failure |= failure.is_passing();
        self.first_failed.get_or_insert_with(|| path.clone());
        self.fail_receipt(&path);
        let reason = failure.into_reason();
        self.notify(Notification::Failed { path, size: size_of(entry), reason: reason.clone() });
        reason
    }
}
