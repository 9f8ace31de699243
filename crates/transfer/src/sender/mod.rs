//! The sending end of a session.
//!
//! ```text
//! scan ──entries──────────────────────────────┐
//!   packers (small files) ──packs──┐          ▼
//!   reader ─steps→ hashers ─blocks─┴→ outlet(s) ═══ link ═══► receiver
//!       ▲ jobs                                                  │
//!       └──────────────── intake ◄── wants, done, feedback ─────┘
//! ```
//!
//! Only requested data are sent: the scan announces entries ahead of the data, the receiver answers
//! with what it requests, and the ledger bounds how far ahead the announcements may run.

mod block_device;
mod chosen;
mod comparing;
mod compressing;
mod connections;
mod delta;
mod examination;
mod executor;
mod fingerprint;
mod following;
mod given_up;
mod growing;
mod growing_file;
mod growth;
mod hashing;
mod input;
mod intake;
mod large;
mod last_blocks;
mod linked;
mod listed;
mod merging;
mod misstated;
mod moved;
mod owner_names;
mod patterns;
mod progress;
mod removing;
mod scan;
pub mod selection;
mod sending_link;
mod settled;
mod small;
mod source_version;
mod sources;
mod steering;
mod stream;
pub mod survey;
#[cfg(test)]
mod tests;
mod ways;

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver as Queue, Sender as Channel, bounded, unbounded};
use icdc_disk::{BLOCK_SIZE, BlockPool};
use icdc_filter::PatternError;
use icdc_link::{Inlet, Link, Outlet};
use icdc_protocol::Features;
use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::message::{
    Choice, Digest, EntryId, FileDigest, Message, Mirrored, Problem, Refusal, RefusalKind, SendOptions,
};
use icdc_protocol::validate::clip;
use icdc_rate::known_paths::PathWatch;
use icdc_session::SessionError;
use icdc_session::sender::{Counts, Need, Sender, Settings, Window};
use icdc_stop::StopSignal;
use icdc_tuning::{SendingManner, Tuned};
use icdc_units::{ByteCount, Time};

use self::chosen::Chosen;
use self::comparing::AskedAbout;
use self::connections::Connections;
use self::executor::{Executor, Queues, READERS, Work};
pub use self::following::{Follow, FollowOptions, SETTLE};
use self::hashing::Step;
pub use self::input::Input;
pub use self::listed::{AskedList, ListAnswers};
use self::listed::{ListSource, Listed};
use self::owner_names::AnnouncedOwners;
pub use self::patterns::expanded;
use self::progress::Progress;
use self::selection::Selection;
use self::sending_link::FirstConnection;
pub use self::sending_link::{SendingLink, tune};
pub use self::sources::{Sources, find as find_sources};
use self::steering::Steering;
use crate::accounts::Accounts;
use crate::clock;
use crate::confined::confined;
use crate::event::Stage;
use crate::further_links::{FurtherLink, Joining};
use crate::known_digests::KnownDigests;
use crate::processors::hashers;
use crate::resources;
use crate::run::Run;
use crate::stage_thread::{all_of, try_start};
use crate::stages::TICK;

/// Number of blocks in the sender's pool: for reads in flight, packs being filled, and what waits
/// for hashers and sockets. Each hasher after the first has one more, and each connection sends
/// one more, however slowly; a device after the first has as many more as it reads at a time.
const POOL_BLOCKS: usize = 26;

/// Checks the include and exclude rules of a copy: each pattern must be valid.
///
/// # Errors
/// The pattern that is none.
pub fn check_choice(choice: &Choice) -> Result<(), PatternError> {
    Chosen::new(choice).map(|_| ())
}

/// Result of a finished sending session.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Counts of the items by outcome.
    pub counts: Counts,
    /// Digest over names, metadata and contents of all items.
    pub tree: Digest,
    /// Digest of the file, if the session had just one.
    pub only: Option<FileDigest>,
}

impl Sent {
    /// Adds what the next session of the same run has sent, whose digests take the place of these.
    pub fn add(&mut self, next: Self) {
        let so_far = self.counts;
        *self = next;
        self.counts.add(&so_far);
    }
}

/// Sends `sources` over `first` and waits until the receiver has published everything.
///
/// `joining` brings further connections of the same session. Returns early with the reason when the
/// connection breaks or the user stops; what the receiver has made durable by then is not lost.
///
/// # Errors
/// Reason of the early end of the session.
pub fn run(
    first: SendingLink,
    joining: Joining<'_>,
    sources: Sources,
    options: &SendOptions,
    run: Run<'_>,
) -> Result<Sent, SessionError> {
    let files = sources.files(options);
    let files = match first.tuned.as_ref().and_then(Tuned::remembers_in) {
        Some(directory) => files.change_path(&directory),
        None => files,
    };
    let not_started = |first: SendingLink, error| break_off(&mut *{ first.link.outlet }, error);
    // Directory services need what the session's threads may not open.
    let accounts = match options.owner_names.then(Accounts::start).transpose() {
        Ok(accounts) => accounts,
        Err(error) => return Err(not_started(first, error)),
    };
    let digests = KnownDigests::open(options.known_digests);
    let session = |first| send(first, joining, sources, (options, accounts, &digests), run);
    let sent = confined("sender", &files, first, session, not_started);
    digests.keep();
    sent
}

/// Runs a sending session on its confined thread: makes its state and threads, and waits for its
/// end.
fn send(
    first: SendingLink,
    joining: Joining<'_>,
    sources: Sources,
    (options, accounts, digests): (&SendOptions, Option<Accounts>, &KnownDigests),
    Run { account, events, stop, ceiling }: Run<'_>,
) -> Result<Sent, SessionError> {
    let SendingLink { link: Link { mut outlet, inlet, control }, tuned, peer, privileges } = first;
    if let Some(refusal) = obstacle(&sources) {
        outlet.send(Message::Abort(refusal.clone()).into()).map_err(SessionError::of_link)?;
        outlet.flush().map_err(SessionError::of_link)?;
        return Err(SessionError::Refused(refusal));
    }
    let no_memory = |refused| SessionError::Local(format!("memory for blocks: {refused}"));
    let pool = match block_pool(hashers()).map_err(no_memory) {
        Ok(pool) => pool,
        Err(error) => return Err(break_off(&mut *outlet, error)),
    };
    let machine = machine(&sources, options);
    let Sources { roots, problems, selection, listed, settled, receipt, input, wishes, .. } = sources;
    let controller = steering::controller(&control, tuned.as_ref(), options, account.max_rate());
    let first = FirstConnection { controller, control, tuned, peer, privileges };
    let (mut executor, queues) = Executor::new(first, machine, (options, digests), pool, events);
    executor.asked_about = AskedAbout::of(&roots, options);
    (executor.receipt, executor.input, executor.wishes) = (receipt, input, wishes);
    executor.followed = settled;
    executor.announced_owners = accounts.map(|accounts| Mutex::new(AnnouncedOwners::new(accounts)));
    let Queues { outgoing, work } = queues;
    let steering = Steering::new(&executor, (options, account), ceiling, joining.wanted);
    let connections = Connections::new(&executor, account, outgoing, steering, manner(options));
    let watch = Watch { joined: joining.joined, start: account.start(), stop };
    let found = FoundSources { roots, problems, options, selection: selection.clone(), listed };
    executor.followed.iter().for_each(|queue| queue.begin_session());
    if peer != Features::NONE {
        executor.tell_followed(peer);
    }
    let outcome = run_threads(&connections, &watch, (outlet, inlet), work, found);
    if let (Some(queue), Err(_)) = (&executor.followed, &outcome) {
        queue.give_back(executor.take_followed());
        queue.carry(&executor.counts());
    }
    executor.tell_noticed();
    if let Some(place) = executor.placed() {
        account.note_place(place);
    }
    account.add_bytes(connections.bytes_sent());
    account.add_sender(connections.retransmitted_segments(), &executor.stages.charged_by_name());
    account.add_compressed(executor.compressing.sums(), executor.compressing.uncompressed());
    outcome?;
    if let Some(selection) = &selection {
        executor.note_published(selection);
    }
    let (tree, only) = executor.digests();
    let mut counts = executor.counts();
    executor.followed.iter().for_each(|queue| counts.add(&queue.take_carried()));
    Ok(Sent { counts, tree, only })
}

/// Manner in which the connections of a session with these options send.
#[must_use]
pub fn manner(options: &SendOptions) -> SendingManner<'_> {
    SendingManner { congestion: options.congestion.as_deref(), background: options.background }
}

/// The state machine of a session that sends these sources.
fn machine(sources: &Sources, options: &SendOptions) -> Sender {
    let settings = Settings {
        dry_run: options.dry_run,
        keeps_journal: sources.is_run() && !options.dry_run,
        window: Window::default().with_directories(resources::directories()),
        keeps_digests: sources.selection.is_some(),
        awaits_deletion: options.mirrored != Mirrored::No,
        awaits_receipt: sources.receipt.is_some(),
        follows: sources.settled.is_some(),
        needs: options.needs().union(sources.needs),
    };
    Sender::new(settings, sources.begin())
}

/// Inputs of the thread that supervises a session.
struct Watch<'a> {
    /// Queue of further connections that have been made.
    joined: &'a Queue<FurtherLink>,
    /// Start time of the run.
    start: Time,
    /// The user's request to stop.
    stop: &'a StopSignal,
}

/// Runs the threads of a session until it is over.
fn run_threads(
    connections: &Connections<'_>,
    watch: &Watch<'_>,
    (mut outlet, inlet): (Box<dyn Outlet>, Box<dyn Inlet>),
    Work { packs, reads, grows, removals }: Work,
    found: FoundSources<'_>,
) -> Result<(), SessionError> {
    let (executor, hashers) = (connections.executor, hashers());
    let (steps, steps_queue) = bounded(hashers.max(2));
    std::thread::scope(|scope| {
        let remove = match found.options.moves.then(|| all_of(scope, ["remove"])).transpose() {
            Ok(remove) => remove,
            Err(error) => return Err(break_off(&mut *outlet, error)),
        };
        let grow = match executor.followed.as_ref().map(|_| all_of(scope, ["grow"])).transpose() {
            Ok(grow) => grow,
            Err(error) => return Err(break_off(&mut *outlet, error)),
        };
        let stages = all_of(scope, ["intake", "send", "steer", "pack", "read", "hash", "scan"]);
        let [intake, send, steer, pack, read, hash, scan] = match stages {
            Ok(stages) => stages,
            Err(error) => return Err(break_off(&mut *outlet, error)),
        };
        if let Some([remove]) = remove {
            remove.run(move || removing::run(executor, &removals));
        }
        if let (Some([grow]), Some(followed)) = (grow, &executor.followed) {
            grow.run(move || growing::run(executor, &grows, followed.grew()));
        }
        intake.run(move || intake::run(executor, &connections.steering, inlet));
        send.run(move || connections.run_first(outlet));
        steer.run(move || connections.steer());
        let (further_packs, further_steps, further_queue) = (packs.clone(), steps.clone(), steps_queue.clone());
        pack.run(move || small::run(executor, &packs));
        read.run(move || large::read(executor, 0, &reads, &steps));
        hash.run(move || hashing::run(executor, &steps_queue));
        scan.run(move || found.announce(executor));
        // Those that it can do without come last, where threads are few.
        start_further(executor, scope, &further_packs, &further_queue);
        start_readers(executor, scope, &further_steps);
        drop((further_packs, further_steps, further_queue));

        let mut path = PathWatch::default();
        let outcome = supervise(executor, scope, connections, watch, &mut path);
        if let (Some(found), Some(tuned)) = (path.found(), &executor.tuned) {
            tuned.remember_path(found);
        }
        if outcome.is_ok() {
            connections.await_farewells();
        }
        executor.link.shutdown();
        executor.further.shut_all();
        outcome
    })
}

/// Allocates the blocks of a session with `hashers` hashing threads; the error is a message for
/// the user.
fn block_pool(hashers: usize) -> Result<BlockPool, String> {
    let wanted = POOL_BLOCKS + hashers - 1;
    let most = wanted + usize::from(MAX_STREAMS) + (READERS - 1) * large::DEPTH;
    let [wanted, most] = [wanted, most].map(|blocks| resources::blocks(blocks as u64) as usize);
    resources::fits(wanted as u64)?;
    BlockPool::growing(wanted, most)
        .map_err(|error| icdc_limits::memory::refused(ByteCount::new((most * BLOCK_SIZE) as u64), &error))
}

/// Starts the threads that pack and those that hash after the first of each, as many as can be started.
fn start_further<'scope, 'env>(
    executor: &'scope Executor<'scope>,
    scope: &'scope std::thread::Scope<'scope, 'env>,
    packs: &Queue<Vec<EntryId>>,
    steps: &Queue<Step>,
) {
    for _ in 1..small::PACKERS {
        let packs = packs.clone();
        if try_start(scope, "pack", move || small::run(executor, &packs)).is_err() {
            break;
        }
    }
    for _ in 1..hashers() {
        let steps = steps.clone();
        if try_start(scope, "hash", move || hashing::run(executor, &steps)).is_err() {
            break;
        }
    }
}

/// Starts the reading threads for large files after the first, as many as can be started.
fn start_readers<'scope, 'env>(
    executor: &'scope Executor<'scope>,
    scope: &'scope std::thread::Scope<'scope, 'env>,
    steps: &Channel<Step>,
) {
    for number in 1..READERS {
        let ((to_reader, jobs), steps) = (unbounded(), steps.clone());
        if try_start(scope, "read", move || large::read(executor, number, &jobs, &steps)).is_err() {
            return;
        }
        executor.add_reader(to_reader);
    }
}

/// Reports to the receiver why nothing will be sent; returns the error for this end's caller.
fn break_off(outlet: &mut dyn Outlet, error: SessionError) -> SessionError {
    if let Some(refusal) = error.refusal() {
        let sent = outlet.send(Message::Abort(refusal).into()).and_then(|()| outlet.flush());
        sent.unwrap_or_else(|error| tracing::debug!(%error, "the receiver is not told why the session ends"));
    }
    error
}

/// Reason not to begin, so that nothing is made at the destination: there is no source at all, or
/// one could not be examined. `None` if there is none.
fn obstacle(sources: &Sources) -> Option<Refusal> {
    if let Some(reason) = &sources.unseen {
        return Some(Refusal { kind: RefusalKind::Internal, reason: clip(reason.clone()) });
    }
    if !sources.roots.is_empty() || sources.input.is_some() {
        return None;
    }
    let reasons: Vec<&str> = sources.problems.iter().map(|problem| problem.reason.as_str()).collect();
    Some(Refusal { kind: RefusalKind::Path, reason: clip(reasons.join("; ")) })
}

/// The sources of a session, as they are announced to the receiver.
struct FoundSources<'a> {
    roots: Vec<(u32, sources::Root)>,
    /// Problems of the sources that were not found.
    problems: Vec<Problem>,
    options: &'a SendOptions,
    selection: Option<Arc<Selection>>,
    listed: Option<ListSource<'static>>,
}

impl FoundSources<'_> {
    /// Announces the sources, and reports those that were not found.
    fn announce(self, executor: &Executor<'_>) {
        for problem in self.problems {
            if !executor.await_room(Need::Problem) {
                return;
            }
            executor.with(|machine| machine.on_problem(problem));
        }
        if let Some(input) = &executor.input
            && stream::announce(executor, input).is_none()
        {
            return;
        }
        let listed = match self.listed {
            None if self.options.listed.is_some() => {
                let ask = |pass| executor.with(|machine| machine.on_names_wanted(pass));
                let (list, answers) = AskedList::new(ask);
                executor.expect_names(answers);
                Some(Listed::new(ListSource::Asked(list)))
            }
            own => own.map(Listed::new),
        };
        match scan::Scan::new(executor, self.options, self.selection, listed) {
            Ok(scan) => match &executor.followed {
                Some(queue) => scan.follow(&self.roots, queue),
                None => scan.run(self.roots),
            },
            Err(error) => executor.fail(error),
        }
    }
}

/// Waits for the end of the session; adds further connections, samples the stages and reports
/// progress.
fn supervise<'scope, 'env>(
    executor: &'scope Executor<'scope>,
    scope: &'scope std::thread::Scope<'scope, 'env>,
    connections: &'scope Connections<'scope>,
    watch: &Watch<'_>,
    path: &mut PathWatch,
) -> Result<(), SessionError> {
    let mut progress = Progress::new(watch.start, clock::now(), connections.delivered_plain());
    let is_settled = loop {
        let over = executor.await_over(TICK);
        let now = clock::now();
        for link in watch.joined.try_iter() {
            connections.add(scope, link);
        }
        let counts = executor.counts();
        connections.sample(now);
        connections.watch_compression(now);
        watch_path(path, now, executor, connections);
        progress.report(now, executor, connections, &counts);
        let stops = watch.stop.is_requested();
        let is_silent = executor.link.tcp_info().is_some_and(|info| info.is_silent());
        let is_settled = executor.with(|machine| {
            if stops {
                machine.on_interrupt(now);
            }
            if is_silent {
                machine.on_silence(now);
            }
            machine.on_time(now);
            machine.is_settled()
        });
        if over {
            break is_settled;
        }
    };
    if is_settled {
        progress.report_last(clock::now(), executor, connections, &executor.counts());
    }
    executor.await_end()
}

/// Measures the path's rate. It can be seen only on one connection that nothing else limits,
/// unless the rate left free by others was found, and not where losses limit all connections.
fn watch_path(path: &mut PathWatch, now: Time, executor: &Executor<'_>, connections: &Connections<'_>) {
    if connections.steering.is_lossy() {
        *path = PathWatch::default();
        return;
    }
    let info = executor.link.tcp_info();
    if let Some(info) = &info {
        path.found_free(now, connections.steering.capacity(), connections.acknowledged(), info.min_rtt);
    }
    let limits = executor.stages.current() == Stage::Network && executor.connections() == 1;
    match info.filter(|_| limits) {
        Some(info) => path.update(now, info.path_counters()),
        None => path.pause(),
    }
}
