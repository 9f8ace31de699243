//! The receiving end of a session.
//!
//! ```text
//! link ──► intake ─┬─ blocks ──► hash ──► store (Direct I/O, journal) ─┐ complete files
//!                  └─ entries, packs ───► tree (directories, small files, names) ◄─┘
//!                                             │ wants, done
//! link ◄── outlet ◄───────────────────────────┴──────────── feedback
//! ```
//!
//! The ring between the socket and the disk is the pool of blocks: the intake takes a block for every
//! payload and waits when there is none. The sender is told of those that are whole and wait for the disk. Every queue is drained when the connection ends, however it
//! ends, so that what has arrived becomes durable and is not sent again.

mod arrived;
mod batch;
mod claims;
mod compare;
mod failure;
mod hash;
mod intake;
mod large_file;
mod pending;
mod placement;
mod resume;
mod staging;
mod store;
mod tree;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, RecvTimeoutError, Sender as Channel, bounded, unbounded};
use icdc_control::ring::Load;
use icdc_disk::BlockPool;
use icdc_disk::tree::Tree;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{
    Entry, EntryId, EntryKind, Feedback, FileDigest, Goodbye, Message, ReceiveOptions, RefusalKind, Totals, TransferId,
};
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::account::Account;
use crate::error::SessionError;
use crate::event::{Event, EventSink, Outcome, Sample, Stage};
use crate::link::{Link, LinkControl, Outlet};
use crate::stages::Activity;
use crate::stop::StopSignal;
use crate::{clock, digest_text, path_text};

use self::arrived::Waiting;
use self::intake::Intake;
use self::tree::Keeper;

/// Default size of the ring between socket and disk.
const RING_BYTES: u64 = 256 << 20;
/// Smallest ring: the disk's queue, and as much again on its way.
const LEAST_BLOCKS: u64 = 16;
/// Interval of feedback and of progress events.
const FEEDBACK: Duration = Duration::from_millis(100);
/// How long last words may take to be sent.
const LAST_WORDS: Span = Span::from_secs(2);

/// What a session's threads share.
pub(crate) struct Shared<'a> {
    order: Order<'a>,
    options: &'a ReceiveOptions,
    pool: BlockPool,
    waiting: Waiting,
    /// `None` ends the outlet.
    replies: Channel<Option<Message>>,
    events: &'a EventSink,
    link: LinkControl,
    /// The connections after the first.
    further: Mutex<Vec<LinkControl>>,
    failure: Mutex<Option<SessionError>>,
    complete: AtomicBool,
    parted: AtomicBool,
    sizes: Mutex<HashMap<EntryId, u64>>,
    totals: Mutex<Totals>,
    writes: Activity,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    received: AtomicU64,
    durable: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    resumed: AtomicU64,
    taken_over_files: AtomicU64,
    taken_over_bytes: AtomicU64,
    only: Mutex<Option<FileDigest>>,
}

/// What is received, and how.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    /// The run that the session is part of.
    pub(crate) transfer: TransferId,
    /// Where the destination is resolved.
    pub(crate) tree: &'a Tree,
    /// As the user wrote it.
    pub(crate) destination: &'a [u8],
    /// Paths that the sender was asked for, as the user wrote them; `None` where the sender chooses.
    pub(crate) asked: Option<&'a [Vec<u8>]>,
    pub(crate) options: &'a ReceiveOptions,
}

/// What a finished session has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) goodbye: Option<Goodbye>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: u64,
    pub(crate) resumed_bytes: u64,
    /// Files that an earlier run published and that were not read, and their bytes; counted above, too.
    pub(crate) taken_over: (u64, u64),
    /// Digest of the file, if there was just one.
    pub(crate) only: Option<FileDigest>,
}

impl Shared<'_> {
    /// Ends the session; the first reason counts. The sender learns it by the last words.
    fn fail(&self, error: SessionError) {
        let mut failure = self.failure.lock().expect("no panic while a failure is noted");
        if failure.is_none() && !self.complete.load(Ordering::Relaxed) {
            tracing::debug!(%error, "the receiving session ends");
            *failure = Some(error);
        }
    }

    fn failure(&self) -> Option<SessionError> {
        self.failure.lock().expect("no panic while a failure is noted").clone()
    }

    fn reply(&self, message: Message) {
        // After the outlet's end nobody listens any more; the session is ending then.
        let _ = self.replies.send(Some(message));
    }

    fn complete(&self) {
        self.complete.store(true, Ordering::Relaxed);
    }

    /// The sender knows that everything is done.
    fn part(&self) {
        self.parted.store(true, Ordering::Relaxed);
    }

    fn has_parted(&self) -> bool {
        self.parted.load(Ordering::Relaxed)
    }

    fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }

    fn expect_large(&self, id: EntryId, size: u64) {
        self.sizes.lock().expect("no panic while sizes are noted").insert(id, size);
    }

    fn forget_large(&self, id: EntryId) {
        self.sizes.lock().expect("no panic while sizes are noted").remove(&id);
    }

    fn size_of_large(&self, id: EntryId) -> Option<u64> {
        self.sizes.lock().expect("no panic while sizes are noted").get(&id).copied()
    }

    fn writing(&self) -> crate::stages::Busy<'_> {
        self.writes.busy()
    }

    fn durable(&self, bytes: u64) {
        self.counters.durable.fetch_add(bytes, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn skipped(&self) {
        self.counters.skipped.fetch_add(1, Ordering::Relaxed);
    }

    fn resumed(&self, bytes: u64) {
        self.counters.resumed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a file that an earlier run published and that is not read: nobody knows its digest.
    fn take_over(&self, size: u64) {
        self.resumed(size);
        self.count_published(size, None);
        self.counters.taken_over_files.fetch_add(1, Ordering::Relaxed);
        self.counters.taken_over_bytes.fetch_add(size, Ordering::Relaxed);
    }

    /// Counts a regular file that is complete under its name.
    fn count_published(&self, size: u64, digest: Option<&FileDigest>) {
        self.counters.files.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes.fetch_add(size, Ordering::Relaxed);
        *self.counters.only.lock().expect("no panic while a digest is noted") = digest.copied();
    }

    fn published(&self, entry: &Entry, path: &[u8], digest: Option<&FileDigest>) {
        if let EntryKind::File { size, .. } = entry.kind {
            self.count_published(size, digest);
        }
        self.report(entry, path, Outcome::Published, digest, None);
    }

    fn report(
        &self,
        entry: &Entry,
        path: &[u8],
        outcome: Outcome,
        digest: Option<&FileDigest>,
        reason: Option<String>,
    ) {
        let bytes = match entry.kind {
            EntryKind::File { size, .. } => size,
            _ => 0,
        };
        let digest = match digest {
            Some(FileDigest::Blake3(digest)) => Some(digest_text(digest)),
            _ => None,
        };
        (self.events)(Event::Item { path: path_text(path), bytes, digest, outcome, reason });
    }

    /// Payload that has arrived, that of blocks which are not complete yet included.
    fn arrived(&self) -> ByteCount {
        let further = self.further.lock().expect("no panic while connections are listed");
        further.iter().chain([&self.link]).map(LinkControl::received).sum()
    }

    fn feedback(&self) -> Feedback {
        let Load { blocks, rate } = self.waiting.look();
        Feedback {
            received: self.arrived().as_u64(),
            durable: self.counters.durable.load(Ordering::Relaxed),
            ring_used: blocks,
            ring_blocks: self.pool.capacity() as u32,
            write_rate: rate.map(Rate::as_bytes_per_second),
        }
    }
}

/// Receives over `link` into `destination` beneath `tree` until the sender has said goodbye.
///
/// `joined` brings further connections of the same session. However the session ends, what has
/// arrived is durable and noted when this returns.
pub(crate) fn run(
    link: Link,
    joined: &Queue<Link>,
    order: &Order<'_>,
    account: &Account,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Received, SessionError> {
    let Link { outlet, inlet, control } = link;
    let options = order.options;
    let pool = ring(options).map_err(|error| SessionError::Local(format!("memory for the ring: {error}")))?;
    let (replies, replies_queue) = bounded(4096);
    let shared = Shared {
        order: *order,
        options,
        pool,
        waiting: Waiting::default(),
        replies,
        events,
        link: control,
        further: Mutex::default(),
        failure: Mutex::new(None),
        complete: AtomicBool::new(false),
        parted: AtomicBool::new(false),
        sizes: Mutex::default(),
        totals: Mutex::default(),
        writes: Activity::default(),
        counters: Counters::default(),
    };
    let goodbye = Mutex::new(None);
    let (to_tree, tree_queue) = bounded(64);
    let (stored, stored_queue) = unbounded();
    let (to_hash, hash_queue) = bounded(2);
    let (to_store, store_queue) = bounded(2);
    let (to_compare, compare_queue) = unbounded();

    std::thread::scope(|scope| {
        let shared = &shared;
        let goodbye = &goodbye;
        let keeper = Keeper::new(shared, to_store.clone(), to_compare);
        let outlet = scope.spawn(move || run_outlet(shared, outlet, &replies_queue));
        let keeper = scope.spawn(move || keeper.run(&tree_queue, &stored_queue));
        scope.spawn(move || hash::run(shared, &hash_queue, &to_store));
        let compared = stored.clone();
        scope.spawn(move || compare::run(shared, &compare_queue, &compared));
        scope.spawn(move || store::run(shared, &store_queue, stored));
        let intake = Intake { shared, account, tree: to_tree, hash: to_hash, goodbye };
        let further = intake.clone();
        let first = scope.spawn(move || intake.run(inlet));

        // The intakes hold the heads of all queues: when they end, everything behind them drains.
        supervise(shared, scope, further, joined, account.start, stop, || first.is_finished());
        while !keeper.is_finished() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        if goodbye.lock().expect("no panic while the goodbye is noted").is_some() && !shared.is_complete() {
            shared.fail(SessionError::Protocol("it said goodbye before everything was done".into()));
        }
        if let Some(refusal) = shared.failure().as_ref().and_then(last_words) {
            shared.reply(refusal);
        }
        let _ = shared.replies.send(None);
        let deadline = clock::now() + LAST_WORDS;
        while !outlet.is_finished() && clock::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        shared.link.shutdown();
    });

    account.add_bytes(shared.counters.received.load(Ordering::Relaxed));
    if let Some(error) = shared.failure() {
        return Err(error);
    }
    let goodbye = goodbye.into_inner().expect("no panic while the goodbye is noted");
    let counters = &shared.counters;
    let files = counters.files.load(Ordering::Relaxed);
    let only = *counters.only.lock().expect("no panic while a digest is noted");
    Ok(Received {
        goodbye,
        files,
        bytes: counters.bytes.load(Ordering::Relaxed),
        skipped: counters.skipped.load(Ordering::Relaxed),
        failed: counters.failed.load(Ordering::Relaxed),
        resumed_bytes: counters.resumed.load(Ordering::Relaxed),
        taken_over: (
            counters.taken_over_files.load(Ordering::Relaxed),
            counters.taken_over_bytes.load(Ordering::Relaxed),
        ),
        only: if files == 1 { only } else { None },
    })
}

fn ring(options: &ReceiveOptions) -> std::io::Result<BlockPool> {
    let bytes = if options.ring_bytes == 0 { RING_BYTES } else { options.ring_bytes };
    let blocks = (bytes / BLOCK_SIZE as u64).max(LEAST_BLOCKS);
    BlockPool::new(usize::try_from(blocks).unwrap_or(usize::MAX))
}

fn last_words(failure: &SessionError) -> Option<Message> {
    match failure {
        SessionError::Interrupted => Some(Message::Interrupt),
        // Where a path is no good the sender has to hear of it; other refusals came from there.
        SessionError::Refused(refusal) if refusal.kind == RefusalKind::Path => Some(Message::Abort(refusal.clone())),
        other => other.refusal().map(Message::Abort),
    }
}

/// Waits for the end of the first intake; meanwhile takes in further connections, reports progress
/// and heeds the user's wish to stop.
fn supervise<'scope, 'env>(
    shared: &'scope Shared<'scope>,
    scope: &'scope std::thread::Scope<'scope, 'env>,
    further: Intake<'scope>,
    joined: &Queue<Link>,
    start: Time,
    stop: &StopSignal,
    first_ended: impl Fn() -> bool,
) {
    let mut progress = Progress::new(start, clock::now());
    let mut interrupted = false;
    while !first_ended() {
        std::thread::park_timeout(Duration::from_millis(5));
        for link in joined.try_iter() {
            let Link { outlet, inlet, control } = link;
            shared.further.lock().expect("no panic while connections are listed").push(control);
            let intake = further.clone();
            scope.spawn(move || {
                // Nothing is sent on a further connection; its sending half only has to stay open.
                let _open = outlet;
                intake.run_further(inlet);
            });
        }
        progress.report(clock::now(), shared);
        if !interrupted && (stop.is_requested() || shared.failure().is_some()) {
            interrupted = true;
            if stop.is_requested() {
                shared.fail(SessionError::Interrupted);
                shared.reply(Message::Interrupt);
            } else if let Some(words) = shared.failure().as_ref().and_then(last_words) {
                shared.reply(words);
            }
            // The words have to leave before the link is shut, or the sender would take it for a cut.
            std::thread::park_timeout(Duration::from_millis(50));
            shared.link.shutdown();
            shared.pool.close();
        }
    }
    progress.report_now(clock::now(), shared);
    shared.further.lock().expect("no panic while connections are listed").iter().for_each(LinkControl::shutdown);
}

fn run_outlet(shared: &Shared<'_>, mut outlet: Box<dyn Outlet>, replies: &Queue<Option<Message>>) {
    let mut broken = false;
    let mut next_feedback = clock::now();
    loop {
        let message = match replies.try_recv() {
            Ok(message) => Ok(message),
            Err(_) => {
                broken = broken || outlet.flush().is_err();
                replies.recv_timeout(FEEDBACK)
            }
        };
        let sent = match message {
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                let _ = outlet.flush();
                return;
            }
            Ok(Some(message)) => (!broken).then(|| outlet.send(message.into())),
            Err(RecvTimeoutError::Timeout) => None,
        };
        if let Some(Err(error)) = sent {
            broken = true;
            shared.fail(error.into());
            shared.link.shutdown();
        }
        let now = clock::now();
        if now >= next_feedback && !broken {
            next_feedback = now + Span::from(FEEDBACK);
            broken = outlet.send(Message::Feedback(shared.feedback()).into()).is_err();
        }
    }
}

/// Makes progress events out of what the threads count.
struct Progress {
    start: Time,
    last: Time,
    last_bytes: u64,
    last_totals: Totals,
}

impl Progress {
    fn new(start: Time, now: Time) -> Self {
        Self { start, last: now, last_bytes: 0, last_totals: Totals::default() }
    }

    fn report(&mut self, now: Time, shared: &Shared<'_>) {
        if now - self.last >= Span::from(FEEDBACK) {
            self.report_now(now, shared);
        }
    }

    fn report_now(&mut self, now: Time, shared: &Shared<'_>) {
        let totals = *shared.totals.lock().expect("no panic while totals are noted");
        if totals != self.last_totals {
            self.last_totals = totals;
            (shared.events)(Event::Scanned { files: totals.files, bytes: totals.bytes, complete: totals.complete });
        }
        let feedback = shared.feedback();
        let elapsed = now - self.last;
        let new_bytes = feedback.received.saturating_sub(self.last_bytes);
        let rate = if elapsed == Span::ZERO { Rate::ZERO } else { ByteCount::new(new_bytes) / elapsed };
        self.last = now;
        self.last_bytes = feedback.received;
        let tcp = shared.link.tcp_info();
        let full = feedback.ring_used * 10 >= feedback.ring_blocks * 9;
        (shared.events)(Event::Progress(Sample {
            seconds: (now - self.start).as_secs_f64(),
            bytes_done: (feedback.received + shared.counters.resumed.load(Ordering::Relaxed)).min(totals.bytes),
            bytes_total: totals.bytes,
            files_done: shared.counters.files.load(Ordering::Relaxed) + shared.counters.skipped.load(Ordering::Relaxed),
            rate_bps: rate.as_bits_per_second(),
            limited_by: if full { Stage::DestinationDisk } else { Stage::Network },
            ring_used: feedback.ring_used,
            ring_blocks: feedback.ring_blocks,
            rtt_us: tcp.as_ref().map_or(0, |info| info.rtt.as_micros()),
            silent_ms: tcp.as_ref().map_or(0, |info| info.silence.as_millis()),
            ..Sample::default()
        }));
    }
}

/// The umask of this process.
fn umask() -> u16 {
    static UMASK: OnceLock<u16> = OnceLock::new();
    *UMASK.get_or_init(|| {
        // Reading it by umask(2) would change it for a moment, for all threads.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        field.and_then(|text| u16::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
    })
}
