//! The receiving end of a session.
//!
//! ```text
//! link ──► intake ─┬─ blocks ──► hash ──► store (Direct I/O, journal) ─┐ complete files
//!                  └─ entries, packs ───► names (directories, small files) ◄───────┘
//!                                             │ wants, done
//! link ◄── outlet ◄───────────────────────────┴──────────── feedback
//! ```
//!
//! The ring between the socket and the disk is the pool of blocks: the intake takes a block for
//! every payload and waits when there is none. The sender learns how many are complete and wait
//! for the disk. Every queue is drained when the connection ends, however it ends, so that what has
//! arrived becomes durable and is not sent again.

mod backups;
mod bases;
mod beside;
mod candidates;
mod claiming;
mod compare;
mod confinement;
mod delta;
mod device;
mod differing;
mod disk_rate;
mod exchanging;
mod expanding;
mod failure;
mod file_identity;
mod hash;
mod holder;
mod in_place;
mod intake;
mod jobs;
mod kept_times;
mod large_file;
mod large_files;
mod leftovers;
mod link_targets;
mod named_bases;
mod names;
mod onto_itself;
mod output;
mod owners;
mod parts;
mod placement;
mod progress;
mod protection;
mod publishing;
mod references;
mod renames;
mod restored_metadata;
mod run_log;
mod same_tree;
mod shared;
mod side_by_side;
mod snapshots;
mod spellings;
mod staging;
mod store;
mod supervise;
#[cfg(test)]
mod tests;
mod throttle;
mod told_ceiling;
mod waiting;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crossbeam_channel::{Receiver as Queue, RecvTimeoutError, bounded, unbounded};
use icdc_disk::BlockPool;
use icdc_link::{Inlet, Link, Outlet};
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{Goodbye, Message, ReceiveOptions};
use icdc_session::SessionError;
use icdc_session::receiver::tally::Tally;
use icdc_units::ByteCount;

use self::bases::ReplacedFiles;
use self::delta::DeltaBases;
use self::disk_rate::DiskQueue;
use self::expanding::Expanding;
use self::hash::Checked;
pub(crate) use self::in_place::in_place_journals;
use self::intake::Intake;
use self::large_files::LargeFiles;
use self::names::FileExecutor;
pub use self::output::Output;
use self::owners::OwnerLookup;
pub(crate) use self::shared::FEEDBACK;
pub use self::shared::{Allowed, ReceiveRequest};
use self::shared::{Reply, Shared};
use self::supervise::Watch;
use self::throttle::Throttle;
use self::told_ceiling::ToldCeiling;
use crate::account::Account;
use crate::clock;
use crate::confined::confined;
use crate::further_links::{FurtherControls, Joining};
use crate::known_digests::KnownDigests;
use crate::name_list::ListServer;
use crate::once::{Once, Running, watched};
use crate::processors::hashers;
use crate::resources;
use crate::run::Run;
use crate::stage_thread::{all_of, try_start};
use crate::told_limit::ToldLimit;

/// Default size of the ring between socket and disk, where memory is not limited to less.
const RING: ByteCount = ByteCount::from_mib(256);
/// Minimum number of blocks of the ring that a user can request: the disk's queue, and as much
/// again in flight.
const LEAST_BLOCKS: u64 = 16;
/// Result of a finished receiving session.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The sender's last message; `None` where it did not arrive.
    pub goodbye: Option<Goodbye>,
    /// Counts of the items by outcome.
    pub tally: Tally,
}

/// Receives over `link` into `destination` beneath `tree` until the sender's goodbye.
///
/// `joining` brings further connections of the same session. However the session ends, what has
/// arrived is durable and noted when this returns.
///
/// # Errors
/// Reason of the early end of the session.
pub fn run(
    link: Link,
    joining: Joining<'_>,
    request: &ReceiveRequest<'_>,
    run: Run<'_>,
) -> Result<Received, SessionError> {
    let files = confinement::files(request.tree, request.destination, request.options);
    let not_started = |link: Link, error| {
        break_off(&mut *{ link.outlet }, &error);
        error
    };
    let owners = OwnerLookup::new(request.options);
    let digests = KnownDigests::open(request.options.known_digests && !request.options.verify);
    let session = |link| receive(link, joining, (request, &owners, &digests), run);
    let received = confined("receiver", &files, link, session, not_started);
    digests.keep();
    received
}

/// Runs a receiving session on its confined thread: makes its ring, state and threads, and returns
/// when all have ended.
fn receive(
    link: Link,
    joining: Joining<'_>,
    (request, owners, digests): (&ReceiveRequest<'_>, &OwnerLookup, &KnownDigests),
    Run { account, events, stop, ceiling }: Run<'_>,
) -> Result<Received, SessionError> {
    let Link { mut outlet, inlet, control } = link;
    let options = request.options;
    let pool = match ring(options) {
        Ok(pool) => pool,
        Err(error) => {
            break_off(&mut *outlet, &error);
            return Err(error);
        }
    };
    let (replies, replies_queue) = bounded(4096);
    let (wake_supervisor, ending_changed) = bounded(1);
    let shared = Shared {
        order: *request,
        options,
        pool,
        waiting: DiskQueue::default(),
        throttle: Throttle::default(),
        replies,
        events,
        link: control,
        further: FurtherControls::default(),
        connections: Mutex::default(),
        peer: AtomicU64::new(request.peer.bits()),
        large_files: LargeFiles::default(),
        bases: ReplacedFiles::default(),
        delta: DeltaBases::default(),
        wanted: joining.wanted,
        ending: Mutex::default(),
        draining: Once::default(),
        wake_supervisor,
        tally: Mutex::default(),
        expanding: Expanding::new(),
        received: AtomicU64::new(0),
        max_rate: Mutex::default(),
        notices: Mutex::default(),
        asked: Mutex::default(),
        noticed: Mutex::default(),
        place: OnceLock::new(),
        stream_from: OnceLock::new(),
        device: OnceLock::new(),
        owners,
        digests,
        ceiling,
    };
    let (receives, first_ended) = watched();
    let watch = Watch {
        start: account.start(),
        stop,
        joined: joining.joined,
        ending_changed: &ending_changed,
        first: &first_ended,
    };
    run_threads(&shared, account, &watch, (outlet, replies_queue), (inlet, receives))?;
    concluded(shared, account)
}

/// Outcome of a session whose threads have ended; what it has moved is added to the run's account.
fn concluded(shared: Shared<'_>, account: &Account) -> Result<Received, SessionError> {
    shared.tell_noticed();
    if let Some(place) = shared.place.get() {
        account.note_place(*place);
    }
    account.add_bytes(shared.received.load(Ordering::Relaxed));
    let compressed = shared.expanding.sums();
    let received = received(shared)?;
    account.add_compressed(compressed, received.goodbye.as_ref().and_then(|goodbye| goodbye.uncompressed));
    Ok(received)
}

/// Runs the threads of a session until all of them have ended.
fn run_threads(
    shared: &Shared<'_>,
    account: &Account,
    watch: &Watch<'_>,
    (mut outlet, replies): (Box<dyn Outlet>, Queue<Reply>),
    (inlet, receives): (Box<dyn Inlet>, Running),
) -> Result<(), SessionError> {
    let (to_names, names_queue) = bounded(64);
    let (stored, stored_queue) = unbounded();
    let hashers = hashers();
    let (to_hash, hash_queue) = bounded(hashers.max(2));
    let (to_store, store_queue) = bounded(hashers.max(2));
    let (to_compare, compare_queue) = unbounded();
    std::thread::scope(|scope| {
        let stages = all_of(scope, ["reply", "names", "hash", "compare", "store", "receive"]);
        let [reply, names, hash, compare, store, receive] = match stages {
            Ok(stages) => stages,
            Err(error) => {
                break_off(&mut *outlet, &error);
                return Err(error);
            }
        };
        let executor = FileExecutor::new(shared, to_store.clone(), to_compare.clone());
        let (sends, sent) = watched();
        reply.run(move || {
            let _sends = sends;
            run_outlet(shared, account, outlet, &replies);
        });
        let executor = names.run(move || executor.run(&names_queue, &stored_queue));
        let described = to_compare.clone();
        let checked = Checked { store: to_store, reads: to_compare, names: to_names.clone() };
        for _ in 1..hashers {
            let (queue, checked) = (hash_queue.clone(), checked.clone());
            if try_start(scope, "hash", move || hash::run(shared, &queue, &checked)).is_err() {
                break;
            }
        }
        hash.run(move || hash::run(shared, &hash_queue, &checked));
        let compared = stored.clone();
        compare.run(move || compare::run(shared, &compare_queue, &compared));
        store.run(move || store::run(shared, &store_queue, stored, described));
        let intake = Intake { shared, account, names: to_names, hash: to_hash };
        let further = intake.clone();
        receive.run(move || {
            let _receives = receives;
            intake.run(inlet);
        });

        // The intakes hold the heads of all queues: when they end, everything behind them drains.
        supervise::supervise(shared, scope, &further, watch);
        drop(further);
        if let Err(panic) = executor.join() {
            std::panic::resume_unwind(panic);
        }
        supervise::finish(shared, &sent);
        Ok(())
    })
}

/// Result of a receiving session whose threads have ended: its counts, or the error that ended it.
fn received(shared: Shared<'_>) -> Result<Received, SessionError> {
    let tally = *shared.tally();
    let goodbye = shared.ending.into_inner().expect("no panic while a session ends").into_outcome()?;
    Ok(Received { goodbye, tally })
}

/// Sends the reason to the sender when nothing can be received.
fn break_off(outlet: &mut dyn Outlet, error: &SessionError) {
    if let Some(refusal) = error.refusal() {
        let sent = outlet.send(Message::Abort(refusal).into()).and_then(|()| outlet.flush());
        sent.unwrap_or_else(|error| tracing::debug!(%error, "the sender is not told why the session ends"));
    }
}

/// Allocates the blocks of the ring between socket and disk; the error is a message for the user.
fn ring(options: &ReceiveOptions) -> Result<BlockPool, SessionError> {
    let blocks = ring_blocks(options);
    let refused = |reason| SessionError::Local(format!("memory for the ring: {reason}"));
    resources::fits(blocks).map_err(refused)?;
    BlockPool::new(usize::try_from(blocks).unwrap_or(usize::MAX)).map_err(|error| {
        let needed = ByteCount::new(blocks.saturating_mul(BLOCK_SIZE as u64));
        refused(icdc_limits::memory::refused(needed, &error))
    })
}

/// Number of blocks of the ring: what the user asks for, but at least [`LEAST_BLOCKS`], or else
/// what memory permits.
fn ring_blocks(options: &ReceiveOptions) -> u64 {
    let blocks = |bytes: ByteCount| bytes.as_u64() / BLOCK_SIZE as u64;
    options.ring.map_or_else(|| resources::blocks(blocks(RING)), |asked| blocks(asked).max(LEAST_BLOCKS))
}

/// Maximum number of connections that a receiver with these options can receive on at a time: each
/// fills a block of its ring. Further ones would hold shares of the rate, and wait.
#[must_use]
pub fn most_connections(options: &ReceiveOptions) -> u8 {
    u8::try_from(ring_blocks(options)).unwrap_or(u8::MAX)
}

/// Body of the thread that sends: queued replies, and feedback at its interval, until
/// [`Reply::End`].
fn run_outlet(shared: &Shared<'_>, account: &Account, mut outlet: Box<dyn Outlet>, replies: &Queue<Reply>) {
    let mut broken = false;
    let mut next_feedback = clock::now();
    let mut list = shared.order.listed.cloned().map(ListServer::new);
    let mut user = shared.ceiling.map(|ceiling| ToldCeiling::new(ceiling));
    let mut key = ToldLimit::new(account);
    loop {
        let message = match replies.try_recv() {
            Ok(message) => Ok(message),
            Err(_) => {
                broken = broken || outlet.flush().is_err();
                replies.recv_timeout(FEEDBACK.into())
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
            Ok(Reply::Names { pass }) => match list.as_mut().map(|list| list.answer(pass)) {
                Some(Ok(part)) => (!broken).then(|| outlet.send(Message::Names(part).into())),
                Some(Err(error)) => {
                    shared.fail(SessionError::Local(format!("the list of names cannot be read: {error}")));
                    None
                }
                None => None,
            },
            Err(RecvTimeoutError::Timeout) => None,
        };
        if let Some(Err(error)) = sent {
            broken = true;
            shared.on_ending(|ending, now| ending.on_send_failed(now, SessionError::of_link(error)));
        }
        let now = clock::now();
        if now >= next_feedback && !broken {
            next_feedback = now + FEEDBACK;
            broken = outlet.send(Message::Feedback(shared.feedback()).into()).is_err();
            let user = user.as_mut().and_then(|user| user.due(shared.peer()));
            let key = key.due(shared.order.peer);
            for message in user.into_iter().chain(key) {
                broken = broken || outlet.send(message.into()).is_err();
            }
        }
    }
}
