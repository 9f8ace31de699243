//! The sending end of a session.
//!
//! ```text
//! scan ──entries──────────────────────────────┐
//!   packers (small files) ──packs──┐          ▼
//!   reader ─steps→ hasher ─blocks──┴→ outlet(s) ═══ link ═══► receiver
//!       ▲ jobs                                                  │
//!       └──────────────── intake ◄── wants, done, feedback ─────┘
//! ```
//!
//! Nothing is sent that was not asked for: the scan announces entries ahead of the data, the receiver
//! answers what it wants, and the ledger bounds how far ahead the announcements may run.

mod exclude;
mod intake;
mod large;
mod ledger;
mod merging;
mod outlets;
mod scan;
mod small;
mod sources;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, Sender as Channel, bounded, select, unbounded};
use icdc_disk::BlockPool;
use icdc_disk::tree::TreeError;
use icdc_protocol::message::{
    Begin, Digest, Feedback, FileDigest, FileEnd, GivenUp, Goodbye, Message, Problem, Refusal, RefusalKind, SendOptions,
};
use icdc_protocol::validate::clip;
use icdc_rate::known_paths::PathWatch;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::account::Account;
use crate::ending::{Ended, Once, watched};
use crate::error::SessionError;
use crate::event::{Event, EventSink, Outcome, Sample, Stage};
use crate::link::{Link, LinkControl, Parcel};
use crate::path_text;
use crate::stages::{StageClock, TICK};
use crate::stop::StopSignal;
use crate::{clock, digest_text};

use self::intake::Intake;
use self::ledger::{Counts, Item, Ledger, Settlement};
pub(crate) use self::sources::{Sources, find as find_sources};

/// Why a file is given up whose version is not the announced one.
const CHANGED: &str = "changed while it was read; copy it again when it is at rest";

/// The item is no longer what was announced.
fn changed() -> GivenUp {
    GivenUp { reason: CHANGED.to_owned(), same_version: false }
}

/// The item could not be read, for a reason that may be gone another time.
fn unreadable(reason: String) -> GivenUp {
    GivenUp { reason, same_version: true }
}

/// The item could not be opened.
fn unopened(error: &TreeError) -> GivenUp {
    let gone = matches!(error, TreeError::Missing { .. } | TreeError::NotAFile { .. });
    GivenUp { reason: error.to_string(), same_version: !gone }
}
/// Blocks of the sender's pool: reads in flight, packs being filled, and what waits for the socket. Each connection after
/// the first sends one more, however slowly.
const POOL_BLOCKS: usize = 20;
/// Frames that wait for the socket.
const DATA_QUEUE: usize = 4;
/// Interval of progress events.
const PROGRESS: Span = Span::from_millis(100);
/// How long the receiver may take to make durable what it has when the user stops the run.
const INTERRUPT_PATIENCE: Span = Span::from_secs(10);

/// How long the last messages of a session may wait for the socket.
const FAREWELL: Span = Span::from_secs(2);

/// Whether `--exclude` patterns make sense; the error names the one that does not.
pub(crate) fn check_patterns(patterns: &[String]) -> Result<(), String> {
    exclude::Exclude::new(patterns).map(|_| ())
}

/// What a session's threads share.
pub(crate) struct Shared<'a> {
    ledger: &'a Ledger,
    stages: &'a StageClock,
    pool: BlockPool,
    data: Channel<Parcel>,
    control: Channel<Parcel>,
    /// The session is over.
    over: Once,
    events: &'a EventSink,
    feedback: Mutex<Feedback>,
    failure: Mutex<Option<SessionError>>,
    /// There is a failure.
    failed: Once,
    complete: AtomicBool,
    answered: AtomicBool,
    link: LinkControl,
    dry_run: bool,
    buffered: bool,
}

/// What a finished session has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) counts: Counts,
    pub(crate) tree: Digest,
    pub(crate) only: Option<FileDigest>,
}

impl Shared<'_> {
    /// Ends the session; the first reason counts.
    fn fail(&self, error: SessionError) {
        let mut failure = self.failure.lock().expect("no panic while a failure is noted");
        if failure.is_none() {
            tracing::debug!(%error, "the sending session ends");
            *failure = Some(error);
        }
        drop(failure);
        self.failed.tell();
        self.ledger.close();
    }

    /// Waits until a reason for the session's end is noted, at most for `patience`.
    fn wait_for_reason(&self, patience: Span) {
        self.failed.wait(patience);
    }

    /// Wakes everybody who waits; each thread comes to its end.
    fn end(&self) {
        self.ledger.close();
        self.pool.close();
        self.over.tell();
    }

    /// Queues a message ahead of the data. `None` when the session is over.
    fn queue_control(&self, message: Message) -> Option<()> {
        select! {
            send(self.control, Parcel { message, payload: None }) -> sent => sent.ok(),
            recv(self.over.channel()) -> _ => None,
        }
    }

    /// Queues a frame in the order of the data. `None` when the session is over.
    fn queue_data(&self, parcel: Parcel) -> Option<()> {
        select! {
            send(self.data, parcel) -> sent => sent.ok(),
            recv(self.over.channel()) -> _ => None,
        }
    }

    fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }

    /// Tells the receiver that an item will not come, and the user why.
    fn give_up(&self, item: &Item, given_up: GivenUp) {
        if !self.ledger.is_pending(item.entry.id) {
            return;
        }
        let reason = given_up.reason.clone();
        let end = FileEnd { id: item.entry.id, blocks: 0, outcome: Err(given_up) };
        // Ahead of the data: blocks that come later find nobody waiting. And before it is settled: if it is the last
        // one, the goodbye follows at once.
        let _ = self.queue_control(Message::FileEnd(end));
        if self.ledger.settle(item.entry.id, Settlement::Failed).is_some() {
            self.report(item, Outcome::Failed, None, Some(reason));
        }
    }

    fn report(&self, item: &Item, outcome: Outcome, digest: Option<FileDigest>, reason: Option<String>) {
        let digest = match digest {
            Some(FileDigest::Blake3(digest)) => Some(digest_text(&digest)),
            _ => None,
        };
        (self.events)(Event::Item { path: path_text(&item.path), bytes: item.size(), digest, outcome, reason });
    }

    fn report_failure(&self, path: &[u8], reason: String) {
        let path = path_text(path);
        (self.events)(Event::Item { path, bytes: 0, digest: None, outcome: Outcome::Failed, reason: Some(reason) });
    }
}

/// Sends `sources` over `link` and waits until the receiver has published everything.
///
/// `joined` brings further connections of the same session. Returns early with the reason when the
/// connection breaks or the user stops; what the receiver has made durable by then is not lost.
pub(crate) fn run(
    link: Link,
    joined: &Queue<Link>,
    sources: Sources,
    options: &SendOptions,
    account: &Account,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Sent, SessionError> {
    let Link { mut outlet, inlet, control: link_control } = link;
    if let Some(refusal) = nothing_found(&sources) {
        outlet.send(Message::Abort(refusal.clone()).into())?;
        outlet.flush()?;
        return Err(SessionError::Refused(refusal));
    }
    let ledger = Ledger::new();
    let stages = StageClock::default();
    let (control, control_queue) = bounded(64);
    let (data, data_queue) = bounded(DATA_QUEUE);
    let (packs, packs_queue) = unbounded();
    let (large, large_queue) = unbounded();
    let (steps, steps_queue) = bounded(2);
    let blocks = POOL_BLOCKS + usize::from(options.streams.saturating_sub(1));
    let pool = BlockPool::new(blocks).map_err(|error| SessionError::Local(format!("memory for blocks: {error}")))?;
    let shared = Shared {
        ledger: &ledger,
        stages: &stages,
        pool,
        data,
        control,
        over: Once::default(),
        events,
        feedback: Mutex::default(),
        failure: Mutex::new(None),
        failed: Once::default(),
        complete: AtomicBool::new(false),
        answered: AtomicBool::new(false),
        link: link_control.clone(),
        dry_run: options.dry_run,
        buffered: options.buffered,
    };
    let keeps_journal = sources.is_run() && !options.dry_run;
    let outlets = outlets::Outlets::new(&shared, control_queue, data_queue, options);

    let mut path = PathWatch::default();
    let outcome = std::thread::scope(|scope| {
        let shared = &shared;
        let outlets = &outlets;
        let intake = Intake { shared, packs, large };
        let (receives, received) = watched();
        scope.spawn(move || {
            let _receives = receives;
            intake.run(inlet);
        });
        let (sends, sent) = watched();
        scope.spawn(move || {
            let _sends = sends;
            outlets.run_first(outlet);
        });
        for _ in 0..small::PACKERS {
            let packs_queue = packs_queue.clone();
            scope.spawn(move || small::run(shared, &packs_queue));
        }
        scope.spawn(move || large::read(shared, &large_queue, &steps));
        scope.spawn(move || large::hash(shared, &steps_queue));
        scope.spawn(move || scan_sources(shared, sources, options));

        let outcome = supervise(shared, scope, outlets, joined, &mut path, account.start, stop);
        finish(shared, &sent);
        if outcome.is_ok() && keeps_journal {
            // The receiver closes when it has put its journal away: from then on the copy is a thing of the past.
            received.wait(FAREWELL);
        }
        if let Some(found) = path.found() {
            shared.link.remember_path(found);
        }
        shared.link.shutdown();
        outlets.shut_further();
        outcome
    });
    account.add_bytes(outlets.bytes_sent());
    account.add_sender(outlets.retransmitted_segments(), &charged(&stages));
    outcome?;
    let (tree, only) = ledger.digests();
    Ok(Sent { counts: ledger.counts(), tree, only })
}

/// Of no source at all there is nothing to send, and nothing shall be made for it.
fn nothing_found(sources: &Sources) -> Option<Refusal> {
    if !sources.roots.is_empty() {
        return None;
    }
    let reasons: Vec<&str> = sources.problems.iter().map(|problem| problem.reason.as_str()).collect();
    Some(Refusal { kind: RefusalKind::Path, reason: clip(reasons.join("; ")) })
}

fn charged(stages: &StageClock) -> Vec<(String, u64)> {
    stages.charged().into_iter().map(|(stage, span)| (stage.name().to_owned(), span.as_nanos())).collect()
}

fn scan_sources(shared: &Shared<'_>, sources: Sources, options: &SendOptions) {
    let tell = |message| shared.queue_control(message);
    let problem = |problem: Problem| {
        if problem.error {
            shared.report_failure(&problem.path, problem.reason.clone());
        } else {
            (shared.events)(Event::Notice { text: format!("{}: {}", path_text(&problem.path), problem.reason) });
        }
        let _ = shared.queue_control(Message::Problem(problem));
    };
    let begin = Begin { job: sources.job, sources: sources.named };
    let _ = shared.queue_control(Message::Begin(begin));
    for missing in sources.problems {
        shared.ledger.count_failure();
        problem(missing);
    }
    match scan::Scan::new(shared.ledger, &tell, &problem, options) {
        Ok(scan) => scan.run(sources.roots),
        Err(error) => shared.fail(error),
    }
}

/// Waits for the end of the session; meanwhile takes in further connections, samples the stages and
/// reports progress.
fn supervise<'scope, 'env>(
    shared: &'scope Shared<'scope>,
    scope: &'scope std::thread::Scope<'scope, 'env>,
    outlets: &'scope outlets::Outlets<'scope>,
    joined: &Queue<Link>,
    path: &mut PathWatch,
    start: Time,
    stop: &StopSignal,
) -> Result<(), SessionError> {
    let mut progress = Progress::new(start, clock::now(), outlets.delivered());
    let mut flushed = false;
    let mut interrupted: Option<Time> = None;
    loop {
        let settled = shared.ledger.wait_all_settled(Duration::from_nanos(TICK.as_nanos()));
        let now = clock::now();
        if let Some(error) = shared.failure.lock().expect("no panic while a failure is noted").clone() {
            return Err(if interrupted.is_some() { SessionError::Interrupted } else { error });
        }
        for link in joined.try_iter() {
            outlets.add(scope, link);
        }
        let counts = shared.ledger.counts();
        outlets.steer(now);
        shared.stages.sample(now, &shared.link, idle_stage(shared, &counts), outlets.limit());
        watch_path(path, now, shared, outlets);
        progress.report(now, shared, outlets, &counts);
        if counts.totals.complete && !flushed {
            flushed = true;
            let _ = shared.queue_control(Message::End);
        }
        // Behind the end, without which the receiver is not through.
        if settled {
            progress.report_last(now, shared, outlets, &counts);
            return say_goodbye(shared, outlets);
        }
        match interrupted {
            None if stop.is_requested() => {
                interrupted = Some(now);
                outlets.stop_data();
                let _ = shared.queue_control(Message::Interrupt);
            }
            // What is on its way cannot be completed where nobody answers.
            Some(since) if now - since > INTERRUPT_PATIENCE || is_silent(shared) => {
                return Err(SessionError::Interrupted);
            }
            _ => {}
        }
    }
}

/// Whether the receiver, which tells something all the time, has not been heard for long.
fn is_silent(shared: &Shared<'_>) -> bool {
    shared.link.tcp_info().is_some_and(|info| info.is_silent())
}

/// What the path carries shows only where nothing else limits, on one connection, unless the rate that it has free was found.
fn watch_path(path: &mut PathWatch, now: Time, shared: &Shared<'_>, outlets: &outlets::Outlets<'_>) {
    let info = shared.link.tcp_info();
    if let Some(info) = &info {
        path.found_free(now, outlets.free(info), outlets.acknowledged(), info.min_rtt);
    }
    let limits = shared.stages.current() == Stage::Network && outlets.connections() == 1;
    match info.filter(|_| limits) {
        Some(info) => path.update(now, info.bytes_acked, info.segments_retransmitted, info.min_rtt, info.mss),
        None => path.pause(),
    }
}

fn idle_stage(shared: &Shared<'_>, counts: &Counts) -> Stage {
    if !shared.answered.load(Ordering::Relaxed) {
        Stage::Start
    } else if !counts.totals.complete {
        Stage::Scan
    } else {
        Stage::Finish
    }
}

fn say_goodbye(shared: &Shared<'_>, outlets: &outlets::Outlets<'_>) -> Result<(), SessionError> {
    shared.complete.store(true, Ordering::Relaxed);
    let (tree, _) = shared.ledger.digests();
    let goodbye = Goodbye {
        tree,
        bytes_sent: outlets.bytes_sent(),
        retransmitted_segments: outlets.retransmitted_segments(),
        failed: shared.ledger.counts().failed,
        limited_by: charged(shared.stages),
    };
    let _ = shared.queue_control(Message::Goodbye(goodbye));
    Ok(())
}

/// Lets the threads come to their ends; last words are sent if the connection still takes them.
fn finish(shared: &Shared<'_>, sent: &Ended) {
    let failure = shared.failure.lock().expect("no panic while a failure is noted").clone();
    if let Some(refusal) = failure.as_ref().and_then(SessionError::refusal) {
        let _ = shared.control.try_send(Parcel { message: Message::Abort(refusal), payload: None });
    }
    shared.end();
    if !matches!(failure, Some(SessionError::Cut(_))) && !is_silent(shared) {
        sent.wait(FAREWELL);
    }
}

/// Makes progress events out of what the threads count.
struct Progress {
    start: Time,
    last: Time,
    /// Payload that the receiver's host had then.
    delivered: ByteCount,
    last_totals: (u64, u64, bool),
}

impl Progress {
    fn new(start: Time, now: Time, delivered: ByteCount) -> Self {
        Self { start, last: now, delivered, last_totals: (0, 0, false) }
    }

    fn report(&mut self, now: Time, shared: &Shared<'_>, outlets: &outlets::Outlets<'_>, counts: &Counts) {
        if now - self.last >= PROGRESS {
            self.report_last(now, shared, outlets, counts);
        }
    }

    fn report_last(&mut self, now: Time, shared: &Shared<'_>, outlets: &outlets::Outlets<'_>, counts: &Counts) {
        let totals = (counts.totals.files, counts.totals.bytes, counts.totals.complete);
        if totals != self.last_totals {
            self.last_totals = totals;
            (shared.events)(Event::Scanned { files: totals.0, bytes: totals.1, complete: totals.2 });
        }
        let feedback = *shared.feedback.lock().expect("no panic while feedback is stored");
        let tcp = shared.link.tcp_info();
        let elapsed = now - self.last;
        // What is sent in frames without payload counts against it until it is acknowledged.
        let delivered = outlets.delivered().max(self.delivered);
        let rate = if elapsed == Span::ZERO { Rate::ZERO } else { (delivered - self.delivered) / elapsed };
        self.last = now;
        self.delivered = delivered;
        let tcp = tcp.as_ref();
        (shared.events)(Event::Progress(Sample {
            seconds: (now - self.start).as_secs_f64(),
            bytes_done: (feedback.received + counts.resumed_bytes).min(counts.totals.bytes),
            bytes_total: counts.totals.bytes,
            files_done: counts.files_done + counts.skipped,
            rate_bps: rate.as_bits_per_second(),
            limited_by: shared.stages.current(),
            ring_used: feedback.ring_used,
            ring_blocks: feedback.ring_blocks,
            rtt_us: tcp.map_or(0, |info| info.rtt.as_micros()),
            cwnd: tcp.map_or(0, |info| info.cwnd.into()),
            retransmitted_segments: outlets.retransmitted_segments(),
            pacing_bps: tcp.map_or(0, |info| info.pacing_rate.as_bits_per_second()),
            silent_ms: tcp.map_or(0, |info| info.silence.as_millis()),
        }));
    }
}
