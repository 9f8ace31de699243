//! The executor of the sending end's machine, [`icdc_session::sender`].
//!
//! The machine and the directories of its items are behind one lock. Each thread reports what has
//! happened by [`Executor::with`], which carries out the actions that follow: work is queued for
//! the readers, messages for the first connection, and events are sent to the user. All waiting is
//! here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use crossbeam_channel::{Receiver as Queue, Sender as Channel, bounded, select, unbounded};
use icdc_disk::BlockPool;
use icdc_disk::tree::{Directory, Name};
use icdc_link::{LinkControl, Parcel};
use icdc_protocol::Features;
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{
    self, Basis, Candidates, Chunks, Compress, Digest, Diskless, EntryId, EntryKind, Feedback, FileDigest, GivenUp,
    ListedNames, Message, SendOptions,
};
use icdc_rate::bundle::Number;
use icdc_rate::controller::{Controller, Frame, Placement};
use icdc_session::sender::{Action, Counts, Fate, Found, Grant, Need, Removed, Sender};
use icdc_session::{ById, SessionError};
use icdc_stop::StopSignal;
use icdc_tcp::Privileges;
use icdc_tuning::Tuned;
use icdc_units::{ByteCount, Span};

use super::block_device::SourceDevice;
use super::comparing::AskedAbout;
use super::compressing::Compressing;
use super::given_up::read_once;
use super::growing_file::GrowingFile;
use super::input::Input;
use super::last_blocks::{divided, form};
use super::listed::ListAnswers;
use super::misstated::Held;
use super::moved::{ItemToRemove, Last, RemovalJob, Removals, TOO_MANY};
use super::owner_names::AnnouncedOwners;
use super::selection::Selection;
use super::sending_link::FirstConnection;
use super::settled::{Queue as Followed, Settled};
use crate::event::{EarlyEnd, Event, EventSink, Outcome, Stage};
use crate::further_links::FurtherControls;
use crate::known_digests::KnownDigests;
use crate::notices::Notices;
use crate::once::Once;
use crate::processors::hashers;
use crate::receipt::ReceiptSink;
use crate::stages::StageClock;
use crate::{clock, digest_text, path_text};

/// Maximum number of reading threads for large files, one for each device.
pub(super) const READERS: usize = 8;
/// Maximum number of frames that are queued for the sockets.
const DATA_QUEUE: usize = 4;

const NO_PANIC: &str = "no panic while the session's state is locked";

/// Work for a reading thread of large files.
pub(super) enum ReadJob {
    /// Reads all blocks of a file but those that the receiver holds.
    File(EntryId, Option<BlockMap>),
    /// Waits for the receiver's descriptions of what it has of a file, besides these blocks.
    Compared(EntryId, Option<BlockMap>),
    /// Reads a stream to its end.
    Stream(EntryId, Option<BlockMap>),
    /// Reads the blocks of a file that the receiver has described.
    Described(Basis),
    /// Waits for chunks of the receiver's files, in which the contents of a file are looked up besides these
    /// blocks.
    AwaitChunks(EntryId, Option<BlockMap>),
    /// Reads the blocks of a file that may be looked up with these chunks.
    Matched(Chunks),
    /// Reads one block again for a retransmission.
    Again(EntryId, u32),
    /// Reads a file for its digest, unless the source has something at all of these places.
    Compare(Candidates),
}

/// Work for the thread that reads files which grow.
pub(super) enum GrowJob {
    /// Sends the blocks of a file as it grows, and its end.
    File(EntryId, Arc<GrowingFile>),
    /// Reads one block again for a retransmission.
    Again(EntryId, u32),
}

/// A pending file's location and announced state, by which its contents are read.
#[derive(Clone)]
pub(super) struct Contents {
    pub(super) id: EntryId,
    pub(super) directory: Directory,
    pub(super) name: Name,
    /// Announced size of the file in bytes.
    pub(super) size: u64,
    /// Announced state of the file, see [`EntryKind::File`].
    pub(super) version: [u8; 16],
    pub(super) sparse: bool,
    /// Contents of the file if they were read before it was announced.
    pub(super) held: Option<Held>,
    /// The device whose contents the file has; `None` for a regular file.
    pub(super) block_device: Option<SourceDevice>,
}

/// Location of an announced item at the source (directory, name, device), with what is kept of the
/// item until its outcome is known.
pub(super) struct PendingItem {
    pub(super) directory: Directory,
    pub(super) name: Name,
    /// Device number of the file system that holds it.
    pub(super) device: u64,
    /// Contents of the file if they were read before it was announced.
    pub(super) held: Option<Held>,
    /// The item as it is to be removed at the source; `None` if it stays.
    pub(super) leaving: Option<Box<ItemToRemove>>,
    /// The item as it has settled; `None` unless its source is followed.
    pub(super) followed: Option<Box<Settled>>,
    /// The device that is announced as a file; `None` for any other item.
    pub(super) block_device: Option<SourceDevice>,
}

/// Queues of the reading threads for large files.
struct Jobs {
    packs: Channel<Vec<EntryId>>,
    /// Queue of each reader of large files.
    reads: Vec<Channel<ReadJob>>,
    /// Queue of the thread that reads files which grow.
    grows: Channel<GrowJob>,
    /// Devices in the order in which something was first read from each: a device has one reader,
    /// and the first devices one each.
    devices: Vec<u64>,
}

impl Jobs {
    /// Queues a job for the thread that reads from this device; a new device is assigned to a
    /// thread.
    fn read(&mut self, device: u64, job: ReadJob) {
        let known = self.devices.iter().position(|known| *known == device);
        let number = known.unwrap_or_else(|| {
            self.devices.push(device);
            self.devices.len() - 1
        });
        let _ = self.reads[number % self.reads.len()].send(job);
    }
}

/// State of a sending session behind the executor's lock: machine, pending items, queues of work,
/// and outcome.
struct SessionState {
    machine: Sender,
    /// Locations of the pending items.
    places: ById<PendingItem>,
    /// Queues of the reading threads; `None` when the session is over.
    jobs: Option<Jobs>,
    /// Items to be removed at the source.
    removals: Removals,
    /// Reasons of the connections that have ended early at this end, by number.
    early_ends: BTreeMap<u8, EarlyEnd>,
    /// Notices from the receiver.
    noticed: Notices,
    /// Whether the scan may ask again for the room that it asked for last.
    granted: bool,
    outcome: Option<Result<(), SessionError>>,
}

/// Effects of actions that are left until the lock is released, such as events.
#[derive(Default)]
struct Outside {
    events: Vec<Event>,
    /// Places of items that are done: their directories may be closed now.
    left: Vec<PendingItem>,
    /// Numbers of the connections after the first that have ended.
    lost: Vec<u8>,
    answered: bool,
    over: bool,
}

impl Outside {
    /// Tells the user of blocks that the receiver holds, and that are not sent again.
    fn resumed(&mut self, held: Option<&BlockMap>) {
        self.events.extend(held.map(|held| Event::Resumed { bytes: held.bytes() }));
    }
}

/// Executor of the sending end's state machine, for one session.
pub(super) struct Executor<'a> {
    state: Mutex<SessionState>,
    /// Signals the scan that it may continue.
    granted: Condvar,
    /// Signals that the session is over, or has ended.
    ended: Condvar,
    /// Wakes the first connection to send a message.
    wake: Channel<()>,
    data: Channel<Parcel>,
    /// Channel for the parts of blocks that travel so.
    parts: Channel<Parcel>,
    /// Whether any has been queued.
    has_parts: AtomicBool,
    data_stopped: AtomicBool,
    /// Signalled once the session is over.
    pub(super) over: Once,
    pub(super) stages: StageClock,
    pub(super) pool: BlockPool,
    pub(super) events: &'a EventSink,
    pub(super) feedback: Mutex<Feedback>,
    /// Rate controller of all connections, which also places blocks.
    pub(super) controller: Mutex<Controller>,
    /// Whether a block has been kept whole because the receiver takes none in parts.
    kept_whole: AtomicBool,
    /// Features that the receiver supports, as bits.
    peer: AtomicU64,
    /// Place that the receiver has given the source.
    placed: OnceLock<message::SourcePosition>,
    pub(super) link: LinkControl,
    /// Tuning of the link's socket; `None` for a link that is not TCP.
    pub(super) tuned: Option<Tuned>,
    /// Privileges with which the sockets of further connections are tuned.
    pub(super) privileges: Privileges,
    /// Controls of the connections after the first.
    pub(super) further: FurtherControls,
    /// Whether this is a dry run.
    pub(super) dry_run: bool,
    /// Whether files are read through the page cache.
    pub(super) buffered: bool,
    /// Settings of a session that reads no file; `None` for a usual session.
    pub(super) diskless: Option<Diskless>,
    /// Compression of what is sent.
    pub(super) compressing: Compressing,
    /// The sources, as far as a receiver may ask what they have.
    pub(super) asked_about: AskedAbout,
    /// Digests that earlier runs have kept.
    pub(super) digests: &'a KnownDigests,
    /// Takes the receipt; `None` if there is none.
    pub(super) receipt: Option<Arc<dyn ReceiptSink>>,
    /// Announced items of the selection: entry id and place in the selection, once all are
    /// announced.
    pub(super) announced: Mutex<Vec<(EntryId, usize)>>,
    /// Takes the names that the scan has asked the other end for.
    list_answers: OnceLock<ListAnswers>,
    /// Owners that have been announced; `None` where their names are not told.
    pub(super) announced_owners: Option<Mutex<AnnouncedOwners>>,
    /// Queue of what has settled in the sources; `None` unless they are followed.
    pub(super) followed: Option<Arc<Followed>>,
    /// The stream that is the only source; `None` for others.
    pub(super) input: Option<Input>,
    /// Features without which the copy is made in another way than the user asks.
    pub(super) wishes: Features,
    /// Asks to wait no longer for what a stream has: the session is over.
    pub(super) stop_reading: StopSignal,
}

/// Receiving ends of the queues that the executor fills.
pub(super) struct Queues {
    pub(super) work: Work,
    pub(super) outgoing: Outgoing,
}

/// Queues of the threads that read files, and of the one that removes items at the source.
pub(super) struct Work {
    /// Small files that are packed together.
    pub(super) packs: Queue<Vec<EntryId>>,
    /// Jobs for the first reading thread of large files.
    pub(super) reads: Queue<ReadJob>,
    /// Jobs for the thread that reads files which grow.
    pub(super) grows: Queue<GrowJob>,
    /// Items to be removed at the source.
    pub(super) removals: Queue<RemovalJob>,
}

/// Queues of what the connections send.
pub(super) struct Outgoing {
    pub(super) data: Queue<Parcel>,
    /// Parts of blocks.
    pub(super) parts: Queue<Parcel>,
    /// Wakes the first connection when a message waits: [`Executor::next_message`].
    pub(super) wake: Queue<()>,
}

impl<'a> Executor<'a> {
    /// Executor for a session of `machine` over the connection `first`, with `pool` for the data
    /// that is read.
    pub(super) fn new(
        first: FirstConnection,
        machine: Sender,
        (options, digests): (&SendOptions, &'a KnownDigests),
        pool: BlockPool,
        events: &'a EventSink,
    ) -> (Self, Queues) {
        let FirstConnection { controller, control: link, tuned, peer, privileges } = first;
        let (to_packers, packs) = unbounded();
        let (to_reader, reads) = unbounded();
        let (to_remover, removals) = unbounded();
        let (to_grower, grows) = unbounded();
        // Many threads that hash must not wait for each other's blocks to be taken.
        let (to_connections, data) = bounded(DATA_QUEUE.max(hashers()));
        let (in_parts, parts) = bounded(DATA_QUEUE);
        let (to_first, wake) = bounded(1);
        let is_local = link.peer_key().is_none() && link.tcp_info().is_none();
        let sends_files = !options.dry_run && options.diskless.is_none();
        let compress = if sends_files && !is_local { options.compress } else { Compress::Never };
        let state = SessionState {
            machine,
            places: ById::default(),
            jobs: Some(Jobs { packs: to_packers, reads: vec![to_reader], grows: to_grower, devices: Vec::new() }),
            removals: Removals::by(to_remover),
            early_ends: BTreeMap::new(),
            noticed: Notices::default(),
            granted: false,
            outcome: None,
        };
        let executor = Self {
            state: Mutex::new(state),
            granted: Condvar::new(),
            ended: Condvar::new(),
            wake: to_first,
            data: to_connections,
            parts: in_parts,
            data_stopped: AtomicBool::new(false),
            over: Once::default(),
            stages: StageClock::default(),
            pool,
            events,
            feedback: Mutex::default(),
            controller: Mutex::new(controller),
            kept_whole: AtomicBool::new(false),
            has_parts: AtomicBool::new(false),
            peer: AtomicU64::new(peer.bits()),
            placed: OnceLock::new(),
            link,
            tuned,
            privileges,
            further: FurtherControls::default(),
            dry_run: options.dry_run,
            buffered: options.buffered,
            diskless: options.diskless,
            compressing: Compressing::new(compress),
            asked_about: AskedAbout::default(),
            digests,
            receipt: None,
            announced: Mutex::default(),
            list_answers: OnceLock::new(),
            announced_owners: None,
            followed: None,
            input: None,
            wishes: Features::NONE,
            stop_reading: StopSignal::new(),
        };
        (executor, Queues { work: Work { packs, reads, grows, removals }, outgoing: Outgoing { data, parts, wake } })
    }

    /// Reports the notices that the receiver has sent to the user, as events.
    pub(super) fn tell_noticed(&self) {
        let noticed: Vec<_> = self.lock().noticed.all().collect();
        noticed.into_iter().for_each(|noticed| (self.events)(Event::Noticed(noticed)));
    }

    fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().expect(NO_PANIC)
    }

    /// Passes an event to the state machine, and carries out the actions that follow; returns the
    /// closure's result.
    pub(super) fn with<T>(&self, event: impl FnOnce(&mut Sender) -> T) -> T {
        self.with_state(|state| event(&mut state.machine))
    }

    /// Passes an event to the locked state, carries out the machine's actions, and after the lock
    /// is released what they have left.
    fn with_state<T>(&self, event: impl FnOnce(&mut SessionState) -> T) -> T {
        let mut state = self.lock();
        let answer = event(&mut state);
        let mut outside = Outside::default();
        while let Some(action) = state.machine.poll() {
            self.carry_out(&mut state, action, &mut outside);
        }
        let has_message = state.machine.has_message();
        drop(state);
        if has_message {
            // If it is full, the first connection looks anyway.
            let _ = self.wake.try_send(());
        }
        self.finish(outside);
        answer
    }

    /// Carries out one action of the machine under the lock; what has to wait for its release is
    /// added to `outside`.
    fn carry_out(&self, state: &mut SessionState, action: Action, outside: &mut Outside) {
        match action {
            Action::Answered => outside.answered = true,
            Action::Continuing => {
                outside.events.push(Event::Notice { text: "continuing an interrupted run".into() });
            }
            Action::Pack(ids) => {
                if let Some(jobs) = &state.jobs {
                    let _ = jobs.packs.send(ids);
                }
            }
            Action::Read { id, held, described } => {
                outside.resumed(held.as_ref());
                let job = if described { ReadJob::Compared(id, held) } else { ReadJob::File(id, held) };
                read(state, id, job);
            }
            Action::AwaitChunks { id, held } => {
                outside.resumed(held.as_ref());
                read(state, id, ReadJob::AwaitChunks(id, held));
            }
            Action::ReadMatched(chunks) => {
                let (id, number) = (chunks.id, chunks.chunks.len());
                if !read(state, id, ReadJob::Matched(chunks)) {
                    state.machine.on_chunks_taken(number);
                }
            }
            Action::ReadStream { id, held } => {
                outside.resumed(held.as_ref());
                if let Some(file) = growing(state, id) {
                    grow(state, GrowJob::File(id, file));
                } else if let Some(Jobs { reads, .. }) = &state.jobs {
                    let _ = reads[0].send(ReadJob::Stream(id, held));
                }
            }
            Action::ReadDescribed(basis) => {
                let (id, blocks) = (basis.id, basis.blocks.len());
                if !read(state, id, ReadJob::Described(basis)) {
                    state.machine.on_description_read(id, blocks, Vec::new());
                }
            }
            Action::ReadAgain { id, index } => {
                if growing(state, id).is_some() {
                    grow(state, GrowJob::Again(id, index));
                } else if !read(state, id, ReadJob::Again(id, index)) {
                    let is_kept = self.input.as_ref().and_then(Input::from).is_some();
                    state.machine.on_unreadable(clock::now(), id, read_once(is_kept));
                }
            }
            Action::Compare(candidates) => {
                read(state, candidates.id, ReadJob::Compare(candidates));
            }
            Action::Granted => {
                state.granted = true;
                self.granted.notify_all();
            }
            Action::Settled { id, path, bytes, fate } => {
                let mut place = state.places.remove(&id);
                let followed = place.as_mut().and_then(|place| place.followed.take());
                outside.left.extend(place);
                let ended = followed
                    .zip(self.followed.as_ref())
                    .and_then(|(followed, queue)| end_followed(queue, *followed, &path, bytes, &fate));
                outside.events.extend(settled(&path, bytes.as_u64(), fate));
                outside.events.extend(ended);
            }
            Action::DirectoryFailed { id, path, reason } => {
                state.removals.directories.remove(&id);
                outside.events.push(failed(&path, reason));
            }
            Action::Remove { id } => state.removals.queue(RemovalJob::Item(id)),
            Action::RemoveDirectory { id, path } => state.removals.queue(RemovalJob::Directory(id, path)),
            Action::RemoveAtEnd { id, path } => remove_at_end(state, id, path),
            Action::RemoveRest => state.removals.queue(RemovalJob::Rest),
            Action::Removed(item) => outside.events.push(Event::removed(&item, self.dry_run)),
            Action::Problem(problem) if problem.error => {
                outside.events.push(failed(&problem.path, problem.reason));
            }
            Action::Problem(problem) => {
                let text = format!("{}: {}", path_text(&problem.path), problem.reason);
                outside.events.push(Event::Notice { text });
            }
            Action::Deletion(news) => outside.events.extend(Event::of_deletion(news, self.dry_run)),
            Action::Snapshot(news) => outside.events.push(Event::of_snapshot(news, self.dry_run)),
            Action::Receipt(part) => {
                if let Some(receipt) = &self.receipt {
                    receipt.take(part);
                }
            }
            Action::Noticed(notice) => state.noticed.replace(notice),
            Action::Placed(place) => {
                let _ = self.placed.set(place);
            }
            Action::InPlace { path } => outside.events.push(Event::InPlace { path: path_text(&path) }),
            Action::Running(running) => outside.events.push(Event::of_running(running.as_ref())),
            Action::ConnectionLost { connection } => {
                let end = state.early_ends.remove(&connection).unwrap_or(EarlyEnd::AtReceiver);
                outside.events.push(Event::connection_ended(connection, &end));
                outside.lost.push(connection);
            }
            Action::StopData => self.data_stopped.store(true, Ordering::Relaxed),
            Action::Leave => {
                state.jobs = None;
                state.removals.close();
                outside.over = true;
                self.ended.notify_all();
            }
            Action::End(outcome) => {
                if let Err(error) = &outcome {
                    tracing::debug!(%error, "the sending session ends");
                }
                state.outcome = Some(outcome);
                self.ended.notify_all();
            }
        }
    }

    /// Notes that a connection after the first ends early at this end, and why; the first reason
    /// counts.
    pub(super) fn ends_early(&self, connection: u8, end: EarlyEnd) {
        let mut state = self.state.lock().expect(NO_PANIC);
        state.early_ends.entry(connection).or_insert(end);
    }

    /// Closes a connection after the first that delays the end of the session; the others carry
    /// what it still owes.
    pub(super) fn retire(&self, connection: Number) {
        let Ok(connection) = u8::try_from(connection) else { return };
        if self.input.is_some() {
            // What it owes of a stream cannot be read again.
            return;
        }
        tracing::debug!(connection, "a connection holds up the end; others carry what it owes");
        self.ends_early(connection, EarlyEnd::Slow);
        self.further.shut(connection);
        self.with(|machine| machine.on_connection_ended(connection));
    }

    /// Does what was left until the lock was released: reports events, shuts lost connections, ends
    /// all waiting once the session is over.
    fn finish(&self, outside: Outside) {
        if outside.answered
            && let Some(tuned) = &self.tuned
        {
            tuned.begin_data();
        }
        outside.events.into_iter().for_each(|event| (self.events)(event));
        outside.lost.into_iter().for_each(|connection| self.further.shut(connection));
        if outside.over {
            self.pool.close();
            self.over.signal();
            self.stop_reading.request();
        }
    }

    /// Has the parts of a list of names, which the other end sends, taken by `answers` from now on.
    pub(super) fn expect_names(&self, answers: ListAnswers) {
        let _ = self.list_answers.set(answers);
    }

    /// Handles a part of a list of names that the other end has sent; one that was not asked for
    /// ends the session.
    pub(super) fn on_names(&self, part: ListedNames) {
        let unasked = || SessionError::Protocol("listed names came that were not asked for".into());
        let taken = self.list_answers.get().ok_or_else(unasked).and_then(|answers| answers.take(part));
        if let Err(error) = taken {
            self.fail(error);
        }
    }

    /// Whether the session is over.
    pub(super) fn is_over(&self) -> bool {
        self.lock().machine.is_over()
    }

    /// Ends the session because of a failure after which it cannot continue.
    pub(super) fn fail(&self, error: SessionError) {
        self.with(|machine| machine.fail(clock::now(), error));
    }

    /// Waits until the scan may announce more; false if the session is over.
    pub(super) fn await_room(&self, need: Need) -> bool {
        loop {
            match self.with(|machine| machine.request(need)) {
                Grant::Now => return true,
                Grant::Over => return false,
                Grant::Later => {
                    let granted = self.granted.wait_while(self.lock(), |state| !state.granted);
                    granted.expect(NO_PANIC).granted = false;
                }
            }
        }
    }

    /// Registers one more reading thread for large files, which takes its jobs from this queue.
    pub(super) fn add_reader(&self, jobs: Channel<ReadJob>) {
        if let Some(all) = &mut self.lock().jobs {
            all.reads.push(jobs);
        }
    }

    /// Announces the item found at `place`; returns its entry id.
    pub(super) fn announce(&self, found: Found, place: PendingItem) -> EntryId {
        self.tell_owners(&found);
        self.with_state(|state| {
            let id = state.machine.announce(found);
            state.places.insert(id, place);
            id
        })
    }

    /// Announces a directory; returns its entry id. `leaving`: the directory as it is to be removed
    /// at the source.
    pub(super) fn announce_directory(&self, found: Found, leaving: Option<ItemToRemove>) -> EntryId {
        self.tell_owners(&found);
        self.with_state(|state| {
            let id = state.machine.announce(found);
            state.removals.directories.extend(leaving.map(|leaving| (id, leaving)));
            id
        })
    }

    /// Tells the receiver names of an item's owners that it has not been told.
    fn tell_owners(&self, found: &Found) {
        let Some(owners) = &self.announced_owners else { return };
        // A directory service may take its time; nothing else waits for this lock.
        let untold = owners.lock().expect("no panic while owners are looked up").untold(found);
        untold.into_iter().for_each(|names| self.with(|machine| machine.on_owner_names(names)));
    }

    /// Takes an item that is to be removed at the source, with its directory; `None` if the session
    /// is over.
    pub(super) fn take_leaving(&self, id: EntryId) -> Option<(Directory, Box<ItemToRemove>)> {
        let mut state = self.lock();
        if state.removals.is_closed() {
            return None;
        }
        let place = state.places.get_mut(&id)?;
        Some((place.directory.clone(), place.leaving.take()?))
    }

    /// Takes a directory that is to be removed at the source; `None` if the session is over.
    pub(super) fn take_leaving_directory(&self, id: EntryId) -> Option<ItemToRemove> {
        let mut state = self.lock();
        if state.removals.is_closed() { None } else { state.removals.directories.remove(&id) }
    }

    /// Keeps a directory for the end if it could not be removed and may be empty then; otherwise
    /// gives the outcome back.
    pub(super) fn keep_for_the_end(&self, id: EntryId, last: Last, outcome: Removed) -> Option<Removed> {
        self.with_state(|state| {
            let may_be_empty = outcome == Removed::Stays && state.removals.keeps_any();
            if !may_be_empty || state.removals.keep(last).is_some() {
                return Some(outcome);
            }
            state.machine.on_directory_kept(clock::now(), id);
            None
        })
    }

    /// Takes the items and directories that were kept to be removed after everything else.
    pub(super) fn take_last(&self) -> Vec<Last> {
        self.lock().removals.take_last()
    }

    /// Location of the contents of a file; `None` if it is not pending.
    pub(super) fn contents(&self, id: EntryId) -> Option<Contents> {
        contents(&self.lock(), id)
    }

    /// Directory and name of a pending item; `None` if it is not pending.
    pub(super) fn location(&self, id: EntryId) -> Option<(Directory, Name)> {
        self.lock().places.get(&id).map(|place| (place.directory.clone(), place.name.clone()))
    }

    /// Number of announced items that are kept, as they or items before them have not ended.
    pub(super) fn kept_items(&self) -> usize {
        self.lock().machine.backlog().items
    }

    /// Locations of the contents of those of the files that are pending.
    pub(super) fn contents_of(&self, ids: &[EntryId]) -> Vec<Contents> {
        let state = self.lock();
        ids.iter().filter_map(|id| contents(&state, *id)).collect()
    }

    /// Whether the item has been announced and its outcome is not known yet.
    pub(super) fn is_pending(&self, id: EntryId) -> bool {
        self.lock().machine.item(id).is_some()
    }

    /// Gives up an announced item that cannot be read, for this reason; the receiver learns of it.
    pub(super) fn give_up(&self, id: EntryId, given_up: GivenUp) {
        self.with(|machine| machine.on_unreadable(clock::now(), id, given_up));
    }

    /// Whether a block has been queued in parts.
    pub(super) fn has_parts(&self) -> bool {
        self.has_parts.load(Ordering::Relaxed)
    }

    /// Queues a frame in the order of the data; in parts, where the controller places it so. `None`
    /// when the session is over.
    pub(super) fn queue_data(&self, parcel: Parcel) -> Option<()> {
        let frame = Frame {
            length: ByteCount::from(parcel.message.plain_length(parcel.payload_length())),
            form: form(&parcel),
            ring_blocks: self.feedback.lock().expect(NO_PANIC).ring_blocks,
            total: self.counts().to_send(),
        };
        let placement = self.controller.lock().expect(NO_PANIC).place(frame);
        let lacking = Features::from_bits(self.peer.load(Ordering::Relaxed)).lacking(Features::PARTS);
        match (placement, lacking) {
            (Placement::Whole, _) => self.queue(&self.data, parcel),
            (Placement::InParts, Some(text)) => {
                if !self.kept_whole.swap(true, Ordering::Relaxed) {
                    (self.events)(Event::Notice { text: text.to_owned() });
                }
                self.queue(&self.data, parcel)
            }
            (Placement::InParts, None) => {
                self.has_parts.store(true, Ordering::Relaxed);
                divided(parcel).into_iter().try_for_each(|part| self.queue(&self.parts, part))
            }
        }
    }

    /// Whether the receiver takes compressed payloads.
    pub(super) fn takes_compressed(&self) -> bool {
        Features::from_bits(self.peer.load(Ordering::Relaxed)).has(Features::COMPRESSION)
    }

    /// Notes the features that the receiver has announced.
    pub(super) fn set_peer_features(&self, features: Features) {
        self.peer.store(features.bits(), Ordering::Relaxed);
        self.tell_followed(features);
        if let Some(text) = features.lacking(self.wishes) {
            (self.events)(Event::Notice { text: text.to_owned() });
        }
    }

    /// Tells the queue of followed sources whether a receiver with these features takes files that grow.
    pub(super) fn tell_followed(&self, features: Features) {
        self.followed.iter().for_each(|queue| queue.takes_growing(features.has(Features::STREAMS)));
    }

    /// Whether the receiver has these features.
    pub(super) fn peer_has(&self, features: Features) -> bool {
        self.peer().has(features)
    }

    /// Features of the receiver, as far as they are known.
    pub(super) fn peer(&self) -> Features {
        Features::from_bits(self.peer.load(Ordering::Relaxed))
    }

    /// Whether the only source, a directory, became the destination or went into it, as the
    /// receiver has told; `None` while that is unknown.
    pub(super) fn placed(&self) -> Option<message::SourcePosition> {
        self.placed.get().copied()
    }

    /// Queues a block that was read for a retransmission. `None` when the session is over.
    pub(super) fn queue_again(&self, parcel: Parcel) -> Option<()> {
        let length = ByteCount::from(parcel.payload_length());
        self.controller.lock().expect(NO_PANIC).on_requeued(length);
        self.queue(&self.data, parcel)
    }

    /// Bytes still to be sent in total, less the `aside` bytes; `None` while the total is unknown.
    pub(super) fn left(&self, aside: u64) -> Option<ByteCount> {
        self.counts().to_send().map(|all| all - ByteCount::new(aside))
    }

    /// Puts a frame into a queue for the sockets, and waits for room there; `None` when the session
    /// is over.
    fn queue(&self, queue: &Channel<Parcel>, parcel: Parcel) -> Option<()> {
        select! {
            send(queue, parcel) -> sent => sent.ok(),
            recv(self.over.channel()) -> _ => None,
        }
    }

    /// Takes the next message for the first connection; `None` if none waits.
    pub(super) fn next_message(&self) -> Option<Message> {
        self.with(Sender::poll_message)
    }

    /// Whether waiting data are not sent any more because the user stops the run.
    pub(super) fn is_data_stopped(&self) -> bool {
        self.data_stopped.load(Ordering::Relaxed)
    }

    /// Number of connections in use.
    pub(super) fn connections(&self) -> u64 {
        1 + self.further.count()
    }

    /// Counts of the session's items and bytes so far.
    pub(super) fn counts(&self) -> Counts {
        *self.lock().machine.counts()
    }

    /// Stage that the session waits for while no stage is at work.
    pub(super) fn idle_stage(&self) -> Stage {
        let state = self.lock();
        if !state.machine.has_answered() {
            Stage::Start
        } else if !state.machine.counts().totals.complete {
            Stage::Scan
        } else {
            Stage::Finish
        }
    }

    /// Records in the selection which of its items were published.
    pub(super) fn note_published(&self, selection: &Selection) {
        let announced = self.announced.lock().expect("no panic while places are noted");
        selection.note(&announced, self.lock().machine.digests());
    }

    /// Takes the settled items that were announced and are not durable, at the end of the session.
    pub(super) fn take_followed(&self) -> Vec<Settled> {
        let mut state = self.lock();
        let followed = state.places.values_mut().filter_map(|place| place.followed.take());
        followed.map(|followed| *followed).collect()
    }

    /// Digest over all items that are published, and of the only file if there was just one.
    pub(super) fn digests(&self) -> (Digest, Option<FileDigest>) {
        let state = self.lock();
        (state.machine.tree(), state.machine.only())
    }

    /// Waits until the session is over, at most until the machine's deadline and for `interval`;
    /// returns whether it is over.
    pub(super) fn await_over(&self, interval: Span) -> bool {
        let state = self.lock();
        let timeout = until_deadline(&state.machine).map_or(interval, |timeout| timeout.min(interval));
        let waited = self.ended.wait_timeout_while(state, timeout.into(), |state| !state.machine.is_over());
        waited.expect(NO_PANIC).0.machine.is_over()
    }

    /// Waits until a session that is over has ended; returns how it has ended.
    pub(super) fn await_end(&self) -> Result<(), SessionError> {
        loop {
            let state = self.lock();
            let is_running = |state: &mut SessionState| state.outcome.is_none();
            let state = match until_deadline(&state.machine) {
                Some(timeout) => self
                    .ended
                    .wait_timeout_while(state, timeout.into(), is_running)
                    .map(|(state, _)| state)
                    .expect(NO_PANIC),
                None => self.ended.wait_while(state, is_running).expect(NO_PANIC),
            };
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            drop(state);
            self.with(|machine| machine.on_time(clock::now()));
        }
    }
}

/// Time left until the machine's next deadline; `None` if it has none.
fn until_deadline(machine: &Sender) -> Option<Span> {
    machine.next_deadline().map(|deadline| deadline - clock::now())
}

/// Queues a job for the thread that reads from the item's device; false if there is none any more.
fn read(state: &mut SessionState, id: EntryId, job: ReadJob) -> bool {
    match (&mut state.jobs, state.places.get(&id)) {
        (Some(jobs), Some(place)) => {
            jobs.read(place.device, job);
            true
        }
        _ => false,
    }
}

/// Queues a job for the thread that reads files which grow.
fn grow(state: &SessionState, job: GrowJob) {
    if let Some(jobs) = &state.jobs {
        let _ = jobs.grows.send(job);
    }
}

/// A pending item's file, which grows; `None` for any other item.
fn growing(state: &SessionState, id: EntryId) -> Option<Arc<GrowingFile>> {
    state.places.get(&id)?.followed.as_ref()?.growing.clone()
}

/// Keeps an item or a directory that is removed at the source after everything else.
fn remove_at_end(state: &mut SessionState, id: EntryId, path: Vec<u8>) {
    let of_item = |state: &mut SessionState| state.places.get_mut(&id)?.leaving.take().map(|leaving| *leaving);
    let leaving = state.removals.directories.remove(&id).or_else(|| of_item(state));
    let Some(leaving) = leaving else { return };
    if let Some(Last { path, .. }) = state.removals.keep(Last { path, leaving }) {
        state.machine.on_removed_at_end(path, false, Removed::Failed(TOO_MANY.to_owned()));
    }
}

/// Location and announced state of a file's contents; `None` if it is not pending, or no file of
/// its own.
fn contents(state: &SessionState, id: EntryId) -> Option<Contents> {
    let EntryKind::File { size, version, sparse, .. } = state.machine.item(id)?.entry.kind else {
        return None;
    };
    let PendingItem { directory, name, held, block_device, .. } = state.places.get(&id)?;
    let (directory, name, held, block_device) = (directory.clone(), name.clone(), held.clone(), block_device.clone());
    Some(Contents { id, directory, name, size, version, sparse, held, block_device })
}

/// Reports the outcome of a followed item to the queue, for the watch thread; returns the event for
/// the user if it became durable.
fn end_followed(queue: &Followed, item: Settled, path: &[u8], bytes: ByteCount, fate: &Fate) -> Option<Event> {
    let lag = clock::now() - item.growing.as_ref().and_then(|file| file.closed_at()).unwrap_or(item.since);
    match fate {
        Fate::Changed => queue.changed(item),
        Fate::Failed { .. } => queue.failed(item),
        Fate::Published(_) | Fate::Renamed(_) => {
            queue.published(item);
            return Some(Event::Followed { path: path_text(path), bytes: bytes.as_u64(), lag_s: lag.as_secs_f64() });
        }
        Fate::Kept | Fate::Skipped | Fate::Unwanted(_) | Fate::Linked | Fate::WouldSend => queue.left_alone(item),
    }
    None
}

/// Event for an item whose outcome is known; `None` for an outcome that is not reported.
fn settled(path: &[u8], bytes: u64, fate: Fate) -> Option<Event> {
    let path = path_text(path);
    let (outcome, digest, reason) = match fate {
        Fate::Kept | Fate::Changed => return None,
        Fate::WouldSend => return Some(Event::WouldSend { path, bytes }),
        Fate::Published(Some(FileDigest::Blake3(digest))) => (Outcome::Published, Some(digest_text(&digest)), None),
        Fate::Published(_) => (Outcome::Published, None, None),
        Fate::Skipped => (Outcome::Skipped, None, None),
        Fate::Linked => (Outcome::Linked, None, None),
        Fate::Renamed(digest) => (Outcome::Renamed, blake3_text(digest), None),
        Fate::Unwanted(why) => (Outcome::kept(why), None, None),
        Fate::Failed { reason } => (Outcome::Failed, None, Some(reason)),
    };
    Some(Event::Item { path, bytes, digest, outcome, reason })
}

/// Digest of a file in hex, if it is the BLAKE3 of its contents; `None` for that of a sparse file's
/// map.
fn blake3_text(digest: Option<FileDigest>) -> Option<String> {
    match digest? {
        FileDigest::Blake3(digest) => Some(digest_text(&digest)),
        FileDigest::SparseMap(_) => None,
    }
}

/// Event for an item that has failed, for this reason.
fn failed(path: &[u8], reason: String) -> Event {
    let path = path_text(path);
    Event::Item { path, bytes: 0, digest: None, outcome: Outcome::Failed, reason: Some(reason) }
}
