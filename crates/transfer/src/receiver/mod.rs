//! The receiving end of a session.
//!
//! ```text
//! link ──► intake ─┬─ blocks ──► hash ──► store (Direct I/O, journal) ─┐ complete files
//!                  └─ entries, packs ───► names (directories, small files) ◄───────┘
//!                                             │ wants, done
//! link ◄── outlet ◄───────────────────────────┴──────────── feedback
//! ```
//!
//! The ring between the socket and the disk is the pool of blocks: the intake takes a block for every
//! payload and waits when there is none. The sender is told of those that are whole and wait for the disk. Every queue is drained when the connection ends, however it
//! ends, so that what has arrived becomes durable and is not sent again.

mod arrived;
mod compare;
mod failure;
mod hash;
mod intake;
mod large_file;
mod names;
mod pending;
mod placement;
mod progress;
mod resume;
mod staged;
mod staging;
mod store;
mod supervise;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, RecvTimeoutError, Sender as Channel, bounded, unbounded};
use icdc_disk::BlockPool;
use icdc_disk::tree::Tree;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{EntryId, Feedback, FileDigest, Goodbye, Message, ReceiveOptions, Totals, TransferId};
use icdc_rate::disk_ceiling::Load;
use icdc_session::receiver::ending::Ending;
use icdc_session::receiver::further_connections::Connections;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::account::Account;
use crate::ending::{Ended, Running, watched};
use crate::error::SessionError;
use crate::event::{Event, EventSink, Outcome};
use crate::link::{FurtherControls, FurtherLink, Link, LinkControl, Outlet};
use crate::stages::Activity;
use crate::stop::StopSignal;
use crate::{clock, digest_text, path_text};

use self::arrived::Waiting;
use self::intake::Intake;
use self::names::Keeper;
use self::supervise::Watch;

/// Default size of the ring between socket and disk.
const RING: ByteCount = ByteCount::from_mib(256);
/// Smallest ring: the disk's queue, and as much again on its way.
const LEAST_BLOCKS: u64 = 16;
/// Interval of feedback and of progress events.
const FEEDBACK: Duration = Duration::from_millis(100);

/// What the outlet is to do.
enum Reply {
    Message(Box<Message>),
    /// Hand everything so far to the carrier, then drop this.
    Flush(Running),
    End,
}

/// What a session's threads share.
pub(crate) struct Shared<'a> {
    order: Order<'a>,
    options: &'a ReceiveOptions,
    pool: BlockPool,
    waiting: Waiting,
    replies: Channel<Reply>,
    events: &'a EventSink,
    link: LinkControl,
    /// The connections after the first.
    further: FurtherControls,
    /// What has arrived over them.
    connections: Mutex<Connections>,
    ending: Mutex<Ending>,
    /// Tells the thread that watches the session that its ending has something to do.
    stir: Channel<()>,
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
    fn ending(&self) -> MutexGuard<'_, Ending> {
        self.ending.lock().expect("no panic while a session ends")
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().expect("no panic while frames are counted")
    }

    /// Something has happened that the session may end by.
    fn on_ending(&self, event: impl FnOnce(&mut Ending, Time)) {
        event(&mut self.ending(), clock::now());
        // One that is not taken yet will do.
        let _ = self.stir.try_send(());
    }

    /// Ends the session; the first reason counts. The sender learns it by the last message.
    fn fail(&self, error: SessionError) {
        tracing::debug!(%error, "the receiving session fails, unless it has ended already");
        self.on_ending(|ending, now| ending.on_failure(now, error));
    }

    fn has_failed(&self) -> bool {
        self.ending().failure().is_some()
    }

    fn reply(&self, message: Message) {
        // After the outlet's end nobody listens any more; the session is ending then.
        let _ = self.replies.send(Reply::Message(Box::new(message)));
    }

    /// Tells when everything said so far is handed to the carrier.
    fn flush(&self) -> Ended {
        let (running, ended) = watched();
        let _ = self.replies.send(Reply::Flush(running));
        ended
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

    fn report(&self, path: &[u8], bytes: u64, outcome: Outcome, digest: Option<FileDigest>, reason: Option<String>) {
        let digest = match digest {
            Some(FileDigest::Blake3(digest)) => Some(digest_text(&digest)),
            _ => None,
        };
        (self.events)(Event::Item { path: path_text(path), bytes, digest, outcome, reason });
    }

    /// Payload that has arrived, that of blocks which are not complete yet included.
    fn arrived(&self) -> ByteCount {
        self.further.received() + self.link.received()
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
    joined: &Queue<FurtherLink>,
    order: &Order<'_>,
    account: &Account,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Received, SessionError> {
    let Link { outlet, inlet, control } = link;
    let options = order.options;
    let pool = ring(options).map_err(|error| SessionError::Local(format!("memory for the ring: {error}")))?;
    let (replies, replies_queue) = bounded(4096);
    let (stir, stirred) = bounded(1);
    let shared = Shared {
        order: *order,
        options,
        pool,
        waiting: Waiting::default(),
        replies,
        events,
        link: control,
        further: FurtherControls::default(),
        connections: Mutex::default(),
        ending: Mutex::default(),
        stir,
        sizes: Mutex::default(),
        totals: Mutex::default(),
        writes: Activity::default(),
        counters: Counters::default(),
    };
    let (to_names, names_queue) = bounded(64);
    let (stored, stored_queue) = unbounded();
    let (to_hash, hash_queue) = bounded(2);
    let (to_store, store_queue) = bounded(2);
    let (to_compare, compare_queue) = unbounded();

    std::thread::scope(|scope| {
        let shared = &shared;
        let keeper = Keeper::new(shared, to_store.clone(), to_compare);
        let (sends, sent) = watched();
        scope.spawn(move || {
            let _sends = sends;
            run_outlet(shared, outlet, &replies_queue);
        });
        let keeper = scope.spawn(move || keeper.run(&names_queue, &stored_queue));
        scope.spawn(move || hash::run(shared, &hash_queue, &to_store));
        let compared = stored.clone();
        scope.spawn(move || compare::run(shared, &compare_queue, &compared));
        scope.spawn(move || store::run(shared, &store_queue, stored));
        let intake = Intake { shared, account, names: to_names, hash: to_hash };
        let further = intake.clone();
        let (receives, first_ended) = watched();
        scope.spawn(move || {
            let _receives = receives;
            intake.run(inlet);
        });

        // The intakes hold the heads of all queues: when they end, everything behind them drains.
        let watch = Watch { start: account.start, stop, joined, stirred: &stirred, first: &first_ended };
        supervise::supervise(shared, scope, &further, &watch);
        drop(further);
        if let Err(panic) = keeper.join() {
            std::panic::resume_unwind(panic);
        }
        supervise::take_leave(shared, &sent);
    });

    account.add_bytes(shared.counters.received.load(Ordering::Relaxed));
    let goodbye = shared.ending.into_inner().expect("no panic while a session ends").into_outcome()?;
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
    let bytes = options.ring.unwrap_or(RING);
    let blocks = (bytes.as_u64() / BLOCK_SIZE as u64).max(LEAST_BLOCKS);
    BlockPool::new(usize::try_from(blocks).unwrap_or(usize::MAX))
}

fn run_outlet(shared: &Shared<'_>, mut outlet: Box<dyn Outlet>, replies: &Queue<Reply>) {
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
            Ok(Reply::End) | Err(RecvTimeoutError::Disconnected) => {
                let _ = outlet.flush();
                return;
            }
            Ok(Reply::Flush(waiting)) => {
                broken = broken || outlet.flush().is_err();
                drop(waiting);
                None
            }
            Ok(Reply::Message(message)) => (!broken).then(|| outlet.send((*message).into())),
            Err(RecvTimeoutError::Timeout) => None,
        };
        if let Some(Err(error)) = sent {
            broken = true;
            shared.on_ending(|ending, now| ending.on_send_failed(now, error.into()));
        }
        let now = clock::now();
        if now >= next_feedback && !broken {
            next_feedback = now + Span::from(FEEDBACK);
            broken = outlet.send(Message::Feedback(shared.feedback()).into()).is_err();
        }
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
