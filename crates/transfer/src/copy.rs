//! `icdc copy`: from locations to a summary, over as many sessions as it takes.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver as Queue, Sender as Channel, unbounded};
use icdc_disk::tree::Tree;
use icdc_protocol::message::{
    FileDigest, Job, Message, ReceiveOptions, Refusal, RefusalKind, Request, SendOptions, TransferId,
};
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::account::Account;
use crate::connect::{ConnectError, Far};
use crate::error::{CopyError, SessionError};
use crate::event::{Event, EventSink, Summary};
use crate::link::{FurtherLink, Link, memory_pair};
use crate::location::Location;
use crate::options::CopyOptions;
use crate::receiver::{self, Received};
use crate::sender::{self, Sent};
use crate::stop::StopSignal;
use crate::{clock, digest_text, drive};

/// Makes a link to the far end: the first one, further ones, and again after a cut.
pub(crate) type Connect<'a> = &'a mut (dyn FnMut() -> Result<Link, ConnectError> + Send);

/// First pause before a broken connection is tried again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Span = Span::from_millis(500);
const LONGEST_PAUSE: Span = Span::from_secs(15);

/// Copies `sources` to `destination` and tells what happens by `events`.
///
/// # Errors
/// See [`CopyError`]; items that fail are no error but counted in [`Summary::errors`].
pub fn copy(
    sources: &[Location],
    destination: &Location,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    icdc_tcp::raise_descriptor_limit();
    sender::check_patterns(&options.send.exclude).map_err(CopyError::Usage)?;
    let local: Option<Vec<Vec<u8>>> = sources.iter().map(local_path).collect();
    match (local, destination) {
        (Some(paths), Location::Local(destination)) => {
            refuse_into_itself(&paths, destination)?;
            copy_here(&paths, destination, options, events, stop)
        }
        (Some(paths), far) => {
            let tree = here()?;
            let mut far = Far::open(far, options, events, stop).map_err(|error| not_reached(error, stop))?;
            let order = PushOrder {
                transfer: new_transfer()?,
                tree: &tree,
                paths: &paths,
                send: &options.send,
                destination: far.path().to_vec(),
                receive: options.receive.clone(),
                retry_for: options.retry_for,
                account: &Account::new(clock::now()),
            };
            push_over(&mut || far.link(), &order, events, stop)
        }
        (None, Location::Local(destination)) => {
            let Some(first) = sources.first() else { return Err(CopyError::Usage("no source is given".into())) };
            let paths = paths_on_one_host(sources, first)?;
            let mut far = Far::open(first, options, events, stop).map_err(|error| not_reached(error, stop))?;
            pull_over(&mut || far.link(), paths, destination, options, events, stop)
        }
        (None, _) => drive::copy_between(sources, destination, options, events, stop).map_err(|error| match error {
            CopyError::Connect(error) => not_reached(error, stop),
            other => other,
        }),
    }
}

/// What ssh says of a Ctrl-C that reached it as well is not the reason.
fn not_reached(error: ConnectError, stop: &StopSignal) -> CopyError {
    if stop.is_requested() { CopyError::Interrupted } else { error.into() }
}

/// Paths of sources that must all be on the host of `first`.
pub(crate) fn paths_on_one_host(sources: &[Location], first: &Location) -> Result<Vec<Vec<u8>>, CopyError> {
    let on_host = |source: &Location| match (source, first) {
        (Location::Ssh { host, path }, Location::Ssh { host: first, .. }) if host == first => Some(path.clone()),
        (Location::Daemon { host, port, path }, Location::Daemon { host: first, port: first_port, .. })
            if host == first && port == first_port =>
        {
            Some(path.clone())
        }
        _ => None,
    };
    let paths: Option<Vec<Vec<u8>>> = sources.iter().map(on_host).collect();
    paths.ok_or_else(|| {
        CopyError::Usage("all sources of one run must be on one host; run icdc once for each host".into())
    })
}

fn local_path(location: &Location) -> Option<Vec<u8>> {
    match location {
        Location::Local(path) => Some(path.as_os_str().as_bytes().to_vec()),
        _ => None,
    }
}

fn here() -> Result<Tree, CopyError> {
    Tree::unconfined(Path::new(".")).map_err(|error| CopyError::Failed(error.to_string()))
}

/// A random name for a run.
pub(crate) fn new_transfer() -> Result<TransferId, CopyError> {
    let mut id = TransferId::default();
    let filled = rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(length) if length == id.len() => Ok(id),
        Ok(_) => Err(CopyError::Failed("the system gave too few random bytes".into())),
        Err(errno) => Err(CopyError::Failed(format!("the system gave no random bytes: {errno}"))),
    }
}

/// A directory must not be copied into itself, nor anything onto itself.
fn refuse_into_itself(sources: &[Vec<u8>], destination: &Path) -> Result<(), CopyError> {
    let Some(target) = place(destination) else { return Ok(()) };
    for source in sources {
        let path = Path::new(std::ffi::OsStr::from_bytes(source));
        let contents = source.ends_with(b"/") || path.file_name().is_none();
        let found = if contents { path.canonicalize().ok() } else { place_of_name(path) };
        let Some(found) = found else { continue };
        let lands = match path.file_name() {
            Some(name) if !contents && target.is_dir() => target.join(name),
            _ => target.clone(),
        };
        // A link counts as what it is, not as the directory that it points to.
        let is_directory = found.symlink_metadata().is_ok_and(|found| found.is_dir());
        let same_file = || matches!((found.canonicalize(), lands.canonicalize()), (Ok(one), Ok(other)) if one == other);
        if (is_directory && lands.starts_with(&found)) || (!is_directory && same_file()) {
            let reason = format!("{} cannot be copied into itself ({})", path.display(), destination.display());
            return Err(CopyError::Usage(reason));
        }
    }
    Ok(())
}

/// The real path of what is or will be at `path`, a final link followed if it leads to a directory.
fn place(path: &Path) -> Option<PathBuf> {
    if path.is_dir() { path.canonicalize().ok() } else { place_of_name(path) }
}

/// The real path of what is or will be at `path`, a final link not followed.
fn place_of_name(path: &Path) -> Option<PathBuf> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Some(parent.canonicalize().ok()?.join(path.file_name()?))
}

fn copy_here(
    paths: &[Vec<u8>],
    destination: &Path,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let tree = here()?;
    let account = Account::new(clock::now());
    let (near, far) = memory_pair();
    let (_, nobody) = unbounded();
    let silent: EventSink = Arc::new(|_| {});
    let destination = destination.as_os_str().as_bytes();
    let transfer = new_transfer()?;
    let order = receiver::Order { transfer, tree: &tree, destination, asked: None, options: &options.receive };
    let receiving = Account::new(account.start);
    // The sender heeds the user's wish to stop and tells the receiver.
    let never_asked = StopSignal::new();
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| receiver::run(far, &nobody, &order, &receiving, &silent, &never_asked));
        let found = sender::find_sources(&tree, paths, &options.send);
        sender::run(near, &nobody, found, &options.send, &account, events, stop)
    });
    match sent {
        Ok(sent) => Ok(push_summary(&sent, &account, &options.receive)),
        Err(error) => Err(ended(error)),
    }
}

/// What is pushed, and how.
pub(crate) struct PushOrder<'a> {
    pub(crate) transfer: TransferId,
    pub(crate) tree: &'a Tree,
    pub(crate) paths: &'a [Vec<u8>],
    pub(crate) send: &'a SendOptions,
    pub(crate) destination: Vec<u8>,
    pub(crate) receive: ReceiveOptions,
    pub(crate) retry_for: Span,
    /// What the run costs, over all its sessions.
    pub(crate) account: &'a Account,
}

/// Pushes local files over links made by `connect`, again and again until everything has arrived.
pub(crate) fn push_over(
    connect: Connect<'_>,
    order: &PushOrder<'_>,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let account = order.account;
    let mut receive = order.receive.clone();
    let sent = with_retries(order.retry_for, account, events, stop, || {
        let job = Job::Receive { destination: order.destination.clone(), options: receive.clone() };
        // What this run has made durable counts from the second session on, whatever the user said.
        receive.resume = true;
        let link = open(connect, order.transfer, job, Some(order.send), events)?;
        account.note_congestion(link.control.congestion().unwrap_or_default());
        with_streams(connect, order.transfer, order.send.streams, true, events, |joined| {
            let found = sender::find_sources(order.tree, order.paths, order.send);
            sender::run(link, joined, found, order.send, account, events, stop)
        })
    })?;
    Ok(push_summary(&sent, account, &order.receive))
}

fn pull_over(
    connect: Connect<'_>,
    sources: Vec<Vec<u8>>,
    destination: &Path,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let account = Account::new(clock::now());
    let transfer = new_transfer()?;
    let tree = here()?;
    let mut receive = options.receive.clone();
    let destination = destination.as_os_str().as_bytes();
    let received = with_retries(options.retry_for, &account, events, stop, || {
        let job = Job::Send { sources: sources.clone(), options: options.send.clone() };
        let link = open(connect, transfer, job, None, events)?;
        let outcome = with_streams(connect, transfer, options.send.streams, false, events, |joined| {
            let order =
                receiver::Order { transfer, tree: &tree, destination, asked: Some(&sources), options: &receive };
            receiver::run(link, joined, &order, &account, events, stop)
        });
        receive.resume = true;
        outcome
    })?;
    if let Some(goodbye) = &received.goodbye {
        account.add_sender(goodbye.retransmitted_segments, &goodbye.limited_by);
    }
    Ok(pull_summary(&received, &account, &options.receive))
}

/// Connects and asks for `job`; `send` if this end is going to send.
fn open(
    connect: Connect<'_>,
    transfer: TransferId,
    job: Job,
    send: Option<&SendOptions>,
    events: &EventSink,
) -> Result<Link, Attempt> {
    icdc_protocol::validate::job(&job)
        .map_err(|rule| Attempt::Usage(format!("this cannot be asked of a far end: {rule}")))?;
    let mut link = connect().map_err(Attempt::Connect)?;
    if let Some(send) = send
        && let Some(text) = link.control.set_congestion(send.congestion.as_deref()).map_err(Attempt::Usage)?
    {
        events(Event::Notice { text });
    }
    announce(&link, 0, send.is_some(), events);
    let asked = link.outlet.send(Message::Request(Request { transfer, job }).into());
    asked.and_then(|()| link.await_answer()).map_err(SessionError::from)?;
    Ok(link)
}

fn announce(link: &Link, stream: u8, sending: bool, events: &EventSink) {
    let congestion = if sending { link.control.congestion() } else { None };
    events(Event::Connected {
        peer: link.control.peer(),
        stream,
        cipher: link.control.cipher().unwrap_or_default().to_owned(),
        congestion: congestion.unwrap_or_default(),
    });
}

/// Runs a session while further connections are made for it.
fn with_streams<T: Send>(
    connect: Connect<'_>,
    transfer: TransferId,
    streams: u8,
    sending: bool,
    events: &EventSink,
    session: impl FnOnce(&Queue<FurtherLink>) -> Result<T, SessionError>,
) -> Result<T, Attempt> {
    let (join, joined) = unbounded();
    let over = AtomicBool::new(false);
    let over = &over;
    let outcome = std::thread::scope(|scope| {
        if streams > 1 {
            scope.spawn(move || further_streams(connect, transfer, streams, sending, &join, over, events));
        }
        let outcome = session(&joined);
        over.store(true, Ordering::Relaxed);
        outcome
    });
    // Those that came too late; nobody at the other end has anything to say on them.
    joined.try_iter().for_each(|further| further.link.control.shutdown());
    outcome.map_err(Attempt::from)
}

fn further_streams(
    connect: Connect<'_>,
    transfer: TransferId,
    streams: u8,
    sending: bool,
    join: &Channel<FurtherLink>,
    over: &AtomicBool,
    events: &EventSink,
) {
    for stream in 1..streams {
        // A far end that is through may have ended, and must not be started again.
        if over.load(Ordering::Relaxed) {
            return;
        }
        let request = Message::Request(Request { transfer, job: Job::Join { stream } });
        let made = connect().map_err(|error| error.to_string()).and_then(|mut link| {
            link.outlet.send(request.into()).and_then(|()| link.outlet.flush()).map_err(|error| error.to_string())?;
            Ok(link)
        });
        match made {
            Ok(link) => {
                announce(&link, stream, sending, events);
                if join.send(FurtherLink { number: stream, link }).is_err() {
                    return;
                }
            }
            Err(_) if over.load(Ordering::Relaxed) => return,
            Err(reason) => {
                events(Event::Notice { text: format!("connection {stream} of {streams} was not made: {reason}") });
                return;
            }
        }
    }
}

/// Why one attempt ended.
enum Attempt {
    Connect(ConnectError),
    Session(SessionError),
    Usage(String),
}

impl From<SessionError> for Attempt {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

/// Repeats `attempt` as long as connections break, with growing pauses.
fn with_retries<T>(
    patience: Span,
    account: &Account,
    events: &EventSink,
    stop: &StopSignal,
    mut attempt: impl FnMut() -> Result<T, Attempt>,
) -> Result<T, CopyError> {
    let mut connected_before = false;
    let mut tries = 0;
    let mut pause = FIRST_PAUSE;
    let mut deadline: Option<Time> = None;
    loop {
        let bytes_before = account.bytes();
        let reason = match attempt() {
            Ok(done) => return Ok(done),
            Err(Attempt::Usage(reason)) => return Err(CopyError::Usage(reason)),
            Err(Attempt::Connect(_)) if stop.is_requested() => return Err(CopyError::Interrupted),
            Err(Attempt::Connect(error)) if !connected_before || error.is_final() => return Err(error.into()),
            Err(Attempt::Connect(error)) => error.to_string(),
            Err(Attempt::Session(SessionError::Cut(reason))) => reason,
            Err(Attempt::Session(SessionError::Interrupted)) if !stop.is_requested() => {
                "the far end was stopped".to_owned()
            }
            // An earlier connection of this run may still be ending there.
            Err(Attempt::Session(SessionError::Refused(Refusal { kind: RefusalKind::Busy, reason })))
                if connected_before =>
            {
                reason
            }
            Err(Attempt::Session(error)) => return Err(ended(error)),
        };
        connected_before = true;
        if stop.is_requested() {
            return Err(CopyError::Interrupted);
        }
        let now = clock::now();
        if account.bytes() > bytes_before || deadline.is_none() {
            deadline = Some(now + patience);
            pause = FIRST_PAUSE;
            tries = 0;
        }
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Err(CopyError::Lost(reason));
        }
        tries += 1;
        events(Event::Reconnecting { attempt: tries, pause_ms: pause.as_millis(), reason });
        if stop.wait(pause) {
            return Err(CopyError::Interrupted);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn ended(error: SessionError) -> CopyError {
    match error {
        SessionError::Interrupted => CopyError::Interrupted,
        SessionError::Refused(Refusal { kind, reason }) => CopyError::Refused(Refusal { kind, reason }),
        SessionError::Cut(reason) => CopyError::Lost(reason),
        other => CopyError::Failed(other.to_string()),
    }
}

fn push_summary(sent: &Sent, account: &Account, receive: &ReceiveOptions) -> Summary {
    let counts = &sent.counts;
    let summary = Summary {
        files: counts.files_done,
        bytes: counts.bytes_done,
        errors: counts.failed,
        skipped: counts.skipped,
        resumed_bytes: counts.resumed_bytes,
        taken_over_files: counts.taken_over_files,
        taken_over_bytes: counts.taken_over_bytes,
        tree_digest: Some(digest_text(&sent.tree)),
        ..Summary::default()
    };
    complete(summary, sent.only, account, receive)
}

fn pull_summary(received: &Received, account: &Account, receive: &ReceiveOptions) -> Summary {
    let summary = Summary {
        files: received.files,
        bytes: received.bytes,
        errors: received.failed,
        skipped: received.skipped,
        resumed_bytes: received.resumed_bytes,
        taken_over_files: received.taken_over.0,
        taken_over_bytes: received.taken_over.1,
        tree_digest: received.goodbye.as_ref().map(|goodbye| digest_text(&goodbye.tree)),
        ..Summary::default()
    };
    complete(summary, received.only, account, receive)
}

fn complete(summary: Summary, only: Option<FileDigest>, account: &Account, receive: &ReceiveOptions) -> Summary {
    let elapsed = clock::now() - account.start;
    let goodput = if elapsed == Span::ZERO { Rate::ZERO } else { ByteCount::new(account.bytes()) / elapsed };
    let (digest, sparse_digest) = match only {
        Some(FileDigest::Blake3(digest)) => (Some(digest_text(&digest)), None),
        Some(FileDigest::SparseMap(digest)) => (None, Some(digest_text(&digest))),
        None => (None, None),
    };
    Summary {
        bytes_sent: account.bytes(),
        seconds: elapsed.as_secs_f64(),
        goodput_bps: goodput.as_bits_per_second(),
        retransmitted_segments: account.retransmitted_segments(),
        congestion: account.congestion(),
        digest,
        sparse_digest,
        verified: summary.errors == 0 && summary.taken_over_files == 0,
        read_back: receive.verify,
        limited_by: account.limited_by(),
        ..summary
    }
}
