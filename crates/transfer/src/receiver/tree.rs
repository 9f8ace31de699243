//! Directories, links and names: one thread that handles entries in the order of their arrival.
//!
//! A directory is finished (its own mode and time set) when all its children are; a file is answered
//! with what is wanted of it, and becomes visible under its name only by [`super::batch`].
//!
//! | file | what |
//! |---|---|
//! | `announced` | entries, from their announcement to the answer |
//! | `levels` | the directories that are being filled |
//! | `links` | files with several names |
//! | `unconfirmed` | what a sender has announced that may be gone |
//! | `want` | what is wanted of a file |

mod announced;
mod levels;
mod links;
mod unconfirmed;
mod want;

use std::collections::HashMap;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, Sender as Channel, never, select};
use icdc_disk::tree::Directory;
use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{
    Begin, Digest, Done, Entry, EntryId, EntryKind, FileDigest, GivenUp, Message, PackItem, Ready,
};

use super::Shared;
use super::arrived::Arrived;
use super::batch::{Batch, Made, Publication};
use super::claims::Claims;
use super::compare::CompareJob;
use super::failure::{self, Failure};
use super::pending::{Pending, metadata};
use super::placement::{self, Placement};
use super::resume::{RunId, RunLog};
use super::store::StoreJob;
use crate::error::SessionError;
use crate::event::Outcome;
use levels::{Level, Levels};
use links::{Links, State};
use unconfirmed::Unconfirmed;

/// Work for the tree's thread.
pub(super) enum TreeJob {
    Message(Message),
    Pack(Vec<PackItem>, Option<Arrived>),
    /// A large file is complete under its staging name.
    Stored {
        id: EntryId,
        made: Made,
        digest: FileDigest,
    },
    /// A file that an earlier run has published was read.
    Compared {
        id: EntryId,
        /// It still has the digest under which it was published.
        same: bool,
    },
    /// A large file is given up.
    Lost {
        id: EntryId,
        failure: Failure,
    },
}

/// How long nothing may arrive before what is staged is published.
const QUIET: Duration = Duration::from_millis(50);
/// The same where nothing is staged.
const LONG: Duration = Duration::from_secs(3600);

/// See the module's description.
pub(super) struct Keeper<'a> {
    shared: &'a Shared<'a>,
    placement: Option<Placement>,
    run: Option<RunLog>,
    /// While it is not known whether the sender is still there.
    unconfirmed: Option<Unconfirmed>,
    next: EntryId,
    levels: Levels,
    /// Bytes of paths and attributes of what is pending or open.
    weight: usize,
    pending: HashMap<EntryId, Pending>,
    links: Links,
    claims: Claims,
    /// Items that are compared with what an earlier run has published; they hold their names.
    comparing: HashMap<EntryId, (Pending, FileDigest)>,
    batch: Batch,
    /// The directory that the contents of a source went into, to be given its time once more when the run's
    /// journal is gone from it.
    contents: Option<(Directory, Entry)>,
    /// `None` when nothing more will come from the link: then the store may end, too.
    store: Option<Channel<StoreJob>>,
    /// Likewise.
    compare: Option<Channel<CompareJob>>,
    ended: bool,
    /// An item has failed for a reason that may be gone when the same command is run again.
    goes_on_later: bool,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, store: Channel<StoreJob>, compare: Channel<CompareJob>) -> Self {
        Self {
            shared,
            placement: None,
            run: None,
            unconfirmed: None,
            next: 0,
            levels: Levels::default(),
            weight: 0,
            pending: HashMap::new(),
            links: Links::default(),
            claims: Claims::default(),
            comparing: HashMap::new(),
            batch: Batch::default(),
            contents: None,
            store: Some(store),
            compare: Some(compare),
            ended: false,
            goes_on_later: false,
        }
    }

    /// Handles what comes from the link and from the store until both have ended, then publishes what
    /// is staged.
    pub(super) fn run(mut self, link: &Queue<TreeJob>, stored: &Queue<TreeJob>) {
        let ended = never();
        let mut link = link;
        loop {
            let quiet = if self.batch.is_empty() { LONG } else { QUIET };
            let job = select! {
                recv(link) -> job => match job {
                    Ok(job) => Some(job),
                    Err(_) => {
                        link = &ended;
                        self.store = None;
                        self.compare = None;
                        None
                    }
                },
                recv(stored) -> job => match job {
                    Ok(job) => Some(job),
                    Err(_) => break,
                },
                default(quiet) => {
                    self.publish();
                    self.admit_waiting();
                    self.finish_run();
                    None
                }
            };
            if let Some(job) = job
                && let Err(error) = self.handle(job)
            {
                self.shared.fail(error);
            }
        }
        self.publish();
        self.finish_run();
        if self.shared.is_complete() && self.shared.has_parted() {
            self.put_away();
        }
    }

    fn handle(&mut self, job: TreeJob) -> Result<(), SessionError> {
        if matches!(job, TreeJob::Message(Message::Confirmed)) {
            return self.confirmed();
        }
        if let Some(unconfirmed) = &mut self.unconfirmed {
            return unconfirmed.keep(job);
        }
        match job {
            TreeJob::Message(Message::Begin(begin)) => self.begin(&begin)?,
            TreeJob::Message(Message::Entries(entries)) => self.entries(entries)?,
            TreeJob::Message(Message::DirEnd { id }) => {
                let done = self.levels.end(id)?;
                self.finish(done);
            }
            TreeJob::Message(Message::FileEnd(end)) => {
                if let Err(GivenUp { reason, same_version }) = end.outcome {
                    let failure = if same_version { Failure::Passing(reason) } else { Failure::Final(reason) };
                    self.fail_item(end.id, failure);
                }
            }
            TreeJob::Message(Message::End) => {
                self.ended = true;
                self.publish();
            }
            TreeJob::Message(_) => {
                return Err(SessionError::Protocol("a message that only a receiver may send".into()));
            }
            TreeJob::Pack(items, payload) => self.pack(&items, payload)?,
            TreeJob::Stored { id, made, digest } => self.stored(id, made, digest),
            TreeJob::Compared { id, same } => self.compared(id, same),
            TreeJob::Lost { id, failure } => self.fail_item(id, failure),
        }
        // When nothing else can come, nothing is gained by waiting for it.
        if self.batch.is_full() || (self.ended && self.batch.len() == self.pending.len()) {
            self.publish();
        }
        self.admit_waiting();
        self.finish_run();
        Ok(())
    }

    fn begin(&mut self, begin: &Begin) -> Result<(), SessionError> {
        if self.placement.is_some() {
            return Err(SessionError::Protocol("began twice".into()));
        }
        let shared = self.shared;
        let options = &shared.options;
        self.refuse_if_gone()?;
        if let Some(asked) = shared.order.asked {
            placement::refuse_unasked(&begin.sources, asked)?;
        }
        let placement = Placement::find(shared.order.tree, shared.order.destination, begin, options.dry_run)?;
        let many = begin.sources.len() > 1
            || begin.sources.iter().any(|source| source.kind != icdc_protocol::message::SourceKind::Item);
        if let (true, false, Some(base)) = (many, options.dry_run, &placement.base) {
            let id = RunId { job: &begin.job, target: placement.first.as_ref(), transfer: &shared.order.transfer };
            let mut run = RunLog::find(base, id, options.resume).map_err(SessionError::Local)?;
            if run.has_waited {
                self.refuse_if_gone()?;
                self.unconfirmed = Some(Unconfirmed::default());
            } else {
                run.begin(shared.order.transfer).map_err(SessionError::Local)?;
            }
            self.run = Some(run);
        }
        let resuming = self.run.as_ref().is_some_and(|run| run.resuming);
        self.placement = Some(placement);
        let ring_blocks = shared.pool.capacity() as u32;
        shared.reply(Message::Ready(Ready { resuming, ring_blocks }));
        Ok(())
    }

    /// A newer run of the same command may have come to its end since a client went.
    fn refuse_if_gone(&self) -> Result<(), SessionError> {
        if self.shared.link.is_hung_up() {
            return Err(SessionError::Cut("the sender closed the connection before the session began".into()));
        }
        Ok(())
    }

    /// The sender has answered: what it has announced is done.
    fn confirmed(&mut self) -> Result<(), SessionError> {
        let Some(unconfirmed) = self.unconfirmed.take() else { return Ok(()) };
        if let Some(run) = &mut self.run {
            run.begin(self.shared.order.transfer).map_err(SessionError::Local)?;
        }
        unconfirmed.into_jobs().into_iter().try_for_each(|job| self.handle(job))
    }

    fn pack(&mut self, items: &[PackItem], payload: Option<Arrived>) -> Result<(), SessionError> {
        let empty: &[u8] = &[];
        let bytes = payload.as_ref().map_or(empty, |arrived| &arrived.block[..arrived.length]);
        let mut rest = bytes;
        for item in items {
            let Some((contents, after)) = rest.split_at_checked(item.length as usize) else {
                return Err(SessionError::Protocol("a pack is longer than its payload".into()));
            };
            rest = after;
            // An item that failed here is still on its way; its bytes are of no use.
            let Some(pending) = self.pending.get(&item.id) else { continue };
            let EntryKind::File { size, .. } = pending.entry.kind else {
                return Err(SessionError::Protocol(format!("item {} is not a file", item.id)));
            };
            if size > PACK_FILE_LIMIT || u64::from(item.length) != size {
                return Err(SessionError::Protocol(format!(
                    "packed file {} has another length than announced",
                    item.id
                )));
            }
            let digest: Digest = *blake3::hash(contents).as_bytes();
            if digest != item.digest {
                return Err(SessionError::Protocol(format!("packed file {} does not match its digest", item.id)));
            }
            match self.batch.stage(pending, contents, self.shared.options.preserve) {
                Ok(made) => {
                    let digest = Some(FileDigest::Blake3(digest));
                    self.batch.add(Publication { id: item.id, made, digest });
                }
                Err(failure) => self.fail_item(item.id, failure),
            }
            if self.batch.is_full() {
                self.publish();
            }
        }
        Ok(())
    }

    fn stored(&mut self, id: EntryId, made: Made, digest: FileDigest) {
        let durable = made.is_durable();
        self.batch.add(Publication { id, made, digest: Some(digest) });
        if durable {
            self.publish();
        }
    }

    /// Ends an item that has failed, at whichever end.
    fn fail_item(&mut self, id: EntryId, failure: Failure) {
        let Some(pending) = self.pending.remove(&id) else { return };
        if !failure.is_passing() {
            self.release(&pending);
        }
        let reason = self.note_failure(&pending.entry, &pending.path, failure);
        self.shared.reply(Message::Done(vec![Done { id, outcome: Err(reason) }]));
        self.shared.forget_large(id);
        self.leave(&pending, State::Failed);
    }

    /// Tells of a failure; gives the reason.
    fn note_failure(&mut self, entry: &Entry, path: &[u8], failure: Failure) -> String {
        self.goes_on_later |= failure.is_passing();
        let reason = failure.into_reason();
        self.shared.report(entry, path, Outcome::Failed, None, Some(reason.clone()));
        self.shared.failed();
        reason
    }

    /// Takes an item out of the book that is published.
    fn end_item(&mut self, id: EntryId) {
        let Some(pending) = self.pending.remove(&id) else { return };
        self.shared.forget_large(id);
        self.release(&pending);
        self.leave(&pending, State::Published);
    }

    /// Nothing unfinished of an item lies in its directory any more.
    fn release(&mut self, pending: &Pending) {
        if let (Some(run), EntryKind::File { size, .. }) = (&mut self.run, &pending.entry.kind)
            && *size > BLOCK_SIZE as u64
        {
            run.released(&pending.path);
        }
    }

    /// An item is done, one way or the other: whatever waits for it goes on.
    fn leave(&mut self, pending: &Pending, state: State) {
        self.weight -= pending.weight();
        self.claims.release(pending.place());
        for link in self.links.settle(pending.entry.id, state) {
            self.link(link);
        }
        let done = self.levels.child_done(&pending.entry);
        self.finish(done);
    }

    /// Makes durable and visible what is staged.
    fn publish(&mut self) {
        let outcome = self.batch.publish(self.shared, &self.pending, self.run.as_mut());
        let mut done = Vec::with_capacity(outcome.published.len());
        for (id, digest) in outcome.published {
            if let Some(pending) = self.pending.get(&id) {
                self.shared.published(&pending.entry, &pending.path, digest.as_ref());
            }
            done.push(Done { id, outcome: Ok(digest) });
            self.end_item(id);
        }
        for done in done.chunks(1024) {
            self.shared.reply(Message::Done(done.to_vec()));
        }
        for (id, failure) in outcome.failed {
            self.fail_item(id, failure);
        }
        if !self.batch.is_empty() && self.ended {
            // Links that waited for what was just published.
            self.publish();
        }
    }

    /// Finishes directories whose children are all done.
    fn finish(&mut self, levels: Vec<Level>) {
        for level in levels {
            self.weight -= level.weight();
            let Level { directory, entry, path, failed, .. } = level;
            let outcome = match (failed, directory) {
                (Some(reason), _) => Err(reason),
                (None, Some(directory)) if !self.shared.options.dry_run => {
                    let set = directory.set_own_metadata(&metadata(&entry, self.shared.options.preserve));
                    if path.is_empty() {
                        self.contents = Some((directory, entry.clone()));
                    }
                    set.map_err(|error| self.note_failure(&entry, &path, failure::of_tree(&error)))
                }
                _ => Ok(()),
            };
            self.shared.reply(Message::Done(vec![Done { id: entry.id, outcome: outcome.map(|()| None) }]));
        }
    }

    fn finish_run(&mut self) {
        let waiting = self.claims.waiting() > 0 || !self.comparing.is_empty();
        if self.ended && self.pending.is_empty() && !waiting && self.levels.is_empty() && self.batch.is_empty() {
            self.shared.complete();
        }
    }

    /// Ends the run for good, unless the same command has something to go on with. Not before the sender knows that everything is done: one that does not, because of a
    /// cut or a kill, comes again and has to be recognized.
    fn put_away(&mut self) {
        if self.goes_on_later {
            return;
        }
        if let Some(run) = &mut self.run {
            run.remove();
        }
        if let Some((directory, entry)) = self.contents.take() {
            // It was possible a moment ago, and was answered for then.
            let _ = directory.set_own_metadata(&metadata(&entry, self.shared.options.preserve));
        }
    }
}
