//! A client's run: one or more sessions, reconnected after a cut, each with its further
//! connections.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Sender as Channel, unbounded};
use icdc_disk::tree::Tree;
use icdc_limits::thread::start_scoped;
use icdc_link::Link;
use icdc_protocol::Features;
use icdc_protocol::message::{IfRunning, Job, Message, ReceiveOptions, Request, SendOptions, Transfer, TransferId};
use icdc_session::SessionError;
use icdc_session::retry::Retry;
use icdc_stop::StopSignal;
use icdc_tcp::{Privileges, clock};
use icdc_transfer::receiver::Output;
use icdc_transfer::sender::selection::Selection;
use icdc_transfer::sender::{self, AskedList, Follow, Input, SendingLink, Sources};
use icdc_transfer::{
    Account, Event, EventSink, FurtherLink, Joining, NameList, Notary, ReceiptSink, Run, Sample, Stage, Summary,
    UserCeiling, Wanted, receiver, summary,
};
use icdc_tuning::Tuned;
use icdc_units::{Rate, Ratio, Span};

use crate::connect::{Connect, ConnectError, Further};
use crate::connection_counts::ConnectionCounts;
use crate::error::CopyError;
use crate::receipt::{ReceiptFile, Signer};
use crate::trial::{Carried, Trial, Turn};

/// Time within which a session notices that its connections were cut; failures of further
/// connections are shown only if the session lasts longer.
const CUT_NOTICE_TIME: Span = Span::from_millis(500);
/// Time for which a session has to last to count as progress where sources are followed (watched
/// for changes).
const STANDING: Span = Span::from_secs(60);
/// Share of the rate limit from which payload counts as limited by it: headers take a twentieth, and
/// samples are short.
const LIMIT_SHARE: Ratio = Ratio::new(17, 20);

/// Parameters of a push (a copy that this end sends).
pub struct PushRequest<'a> {
    /// Id of the transfer, the same in all sessions of the run.
    pub transfer: TransferId,
    /// Directory against which the paths of the sources are resolved.
    pub tree: &'a Tree,
    /// Paths of the sources.
    pub paths: &'a [Vec<u8>],
    /// Stream that is copied in place of sources; `None` for sources that have paths.
    pub input: Option<&'a Input>,
    /// Part of the sources that is pushed; `None` for everything.
    pub selection: Option<&'a Arc<Selection>>,
    /// Names below the only source that are pushed.
    pub listed: PushedNames<'a>,
    /// Options of this end, which sends.
    pub send: &'a SendOptions,
    /// Privileges for tuning the sockets.
    pub privileges: &'a Privileges,
    /// Path at the far end.
    pub destination: Vec<u8>,
    /// Options of the far end, which receives.
    pub receive: ReceiveOptions,
    /// Time for which a broken connection is tried again, counted from the last progress.
    pub retry_for: Span,
    /// Totals of the run, over all its sessions.
    pub account: &'a Account,
    /// Receipt that the far end is to give; `None` if none is asked for.
    pub receipt: Option<PushedReceipt<'a>>,
    /// Follows the sources; `None` if what is there is pushed once.
    pub follow: Option<&'a Follow>,
    /// The user's ceiling of the rate, which begins as that of `send`.
    pub ceiling: &'a Arc<UserCeiling>,
}

/// Receipt that a push asks for: who writes and checks it.
#[derive(Clone, Copy)]
pub enum PushedReceipt<'a> {
    /// This end does.
    Written {
        /// File of the receipt.
        file: &'a Arc<ReceiptFile>,
        /// Owner of the key that signs it.
        signer: PushedSigner,
    },
    /// The client of a copy between two far ends does, to which this end passes the text on.
    PassedOn(&'a Arc<dyn ReceiptSink>),
}

/// Key that signs the receipt of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushedSigner {
    /// The key by which the far end has authenticated itself: that of a daemon.
    LinkKey,
    /// The key of the user that ssh has logged in, as the far end tells.
    LoginKey,
}

impl PushedReceipt<'_> {
    /// Tells the receipt's file that a session of the run `transfer` begins over this link, and
    /// which key has to sign.
    fn expect(&self, transfer: TransferId, link: &Link) {
        let Self::Written { file, signer } = self else { return };
        let signer = match (signer, link.control.peer_key()) {
            (PushedSigner::LinkKey, key) => key.map(Signer::Key),
            (PushedSigner::LoginKey, _) => Some(Signer::Told),
        };
        // Without one, what is signed is nothing that is expected.
        if let Some(signer) = signer {
            file.expect(transfer, signer);
        }
    }

    /// Where the text of the receipt goes.
    fn sink(&self) -> Arc<dyn ReceiptSink> {
        match self {
            Self::Written { file, .. } => Arc::clone(file) as Arc<dyn ReceiptSink>,
            Self::PassedOn(sink) => Arc::clone(sink),
        }
    }
}

/// Which names below the only source of a push are sent.
#[derive(Clone, Copy)]
pub enum PushedNames<'a> {
    /// Everything is sent.
    All,
    /// Only the names of this list are sent.
    Listed(&'a NameList),
    /// Only the names of a list at another end are sent, which is asked for anew in each session.
    Asked(&'a dyn Fn() -> AskedList<'static>),
}

impl PushedNames<'_> {
    /// Limits the sources to these names.
    fn limit(self, sources: Sources) -> Sources {
        match self {
            Self::All => sources,
            Self::Listed(list) => sources.listed(Some(list.clone())),
            Self::Asked(ask) => sources.asked_for(Some(ask())),
        }
    }
}

/// Pushes local files over links made by `connect`, with a new session after each cut, until
/// everything has arrived.
///
/// # Errors
/// See [`CopyError`].
pub fn push_over(
    connect: &mut dyn Connect,
    order: &PushRequest<'_>,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let account = order.account;
    let (carried, events) = &Carried::of(events);
    let run = Run { account, events, stop, ceiling: Some(order.ceiling) };
    let mut receive = ReceiveOptions { receipt: order.receipt.is_some(), ..order.receive.clone() };
    if order.send.congestion.is_none() {
        icdc_tcp::congestion::load_ahead();
    }
    let patience = Patience { retry_for: order.retry_for, follows: order.follow.is_some() };
    let tcp_rate = Mutex::default();
    let mut session = || {
        receive.place = receive.place.or(account.place());
        let job = Job::Transfer(Transfer::Receive { destination: order.destination.clone(), options: receive.clone() });
        // From the second session on, data that this run has made durable is kept, even without
        // `--resume`.
        receive.resume = true;
        let link = open(connect, order.transfer, job, Some((order.send, order.privileges)), run)?;
        if let Some(receipt) = &order.receipt {
            receipt.expect(order.transfer, &link.link);
        }
        // After a cut the previous session may still hold the lock.
        receive.if_running = IfRunning::Wait;
        account.note_congestion(link.tuned.as_ref().map(Tuned::congestion).unwrap_or_default());
        let count = ConnectionCounts::of(
            &link,
            order.send,
            &order.receive,
            connect.least_links()..=connect.most_links(),
            events,
        );
        let control = link.link.control.clone();
        let trial = Trial { first: &control, carried, before: &tcp_rate, may_turn: order.input.is_none() };
        let making = ConnectionMaker { transfer: order.transfer, count, sending: true, trial, events, stop };
        making.beside(connect, |joining| {
            let found = match order.input {
                Some(input) => Sources::stream(input.clone()),
                None => sender::find_sources(order.tree, order.paths, order.send, &order.transfer)
                    .restricted_to(order.selection.cloned()),
            };
            let found = found
                .with_receipt(order.receipt.map(|receipt| receipt.sink()))
                .needing(receive.needs_here())
                .wishing(receive.wishes());
            sender::run(link, joining, Follow::attach_to(order.follow, order.listed.limit(found)), order.send, run)
        })
    };
    let mut sent = with_retries(patience, run, &mut session)?;
    while order.follow.is_some_and(|follow| !follow.is_through()) {
        sent.add(with_retries(patience, run, &mut session)?);
    }
    Ok(summary::of_sent(&sent, account, &order.receive))
}

/// Parameters of a pull (a copy that this end receives).
pub(crate) struct PullRequest<'a> {
    pub(crate) transfer: TransferId,
    pub(crate) tree: &'a Tree,
    pub(crate) sources: &'a [Vec<u8>],
    /// Names below the only source that are pulled; `None` for everything.
    pub(crate) listed: Option<&'a NameList>,
    pub(crate) send: &'a SendOptions,
    pub(crate) destination: &'a [u8],
    /// Stream that takes the only file in place of the destination; `None` where files are written.
    pub(crate) output: Option<&'a Output>,
    pub(crate) receive: &'a ReceiveOptions,
    pub(crate) retry_for: Span,
    /// Totals of the run, over all its sessions.
    pub(crate) account: &'a Account,
    /// Signs and writes a receipt; `None` if none is made.
    pub(crate) notary: Option<&'a dyn Notary>,
    /// The user's ceiling of the rate, which begins as that of `send`.
    pub(crate) ceiling: &'a Arc<UserCeiling>,
}

/// Pulls over links made by `connect`, with a new session after each cut, until everything has
/// arrived.
///
/// # Errors
/// See [`CopyError`].
pub(crate) fn pull_over(
    connect: &mut dyn Connect,
    order: &PullRequest<'_>,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let PullRequest { transfer, sources, send, account, .. } = *order;
    let (carried, events) = &Carried::of(&attributing_limits(order.ceiling, events));
    let run = Run { account, events, stop, ceiling: Some(order.ceiling) };
    let mut receive = order.receive.clone();
    let patience = Patience { retry_for: order.retry_for, follows: false };
    let tcp_rate = Mutex::default();
    let received = with_retries(patience, run, || {
        receive.place = receive.place.or(account.place());
        let job = Job::Transfer(Transfer::Send { sources: sources.to_vec(), options: send.clone() });
        let link = open(connect, transfer, job, None, run)?;
        let count =
            ConnectionCounts::of(&link, send, order.receive, connect.least_links()..=connect.most_links(), events);
        let SendingLink { link, .. } = link;
        let control = link.control.clone();
        let trial = Trial { first: &control, carried, before: &tcp_rate, may_turn: order.output.is_none() };
        let making = ConnectionMaker { transfer, count, sending: false, trial, events, stop };
        let outcome = making.beside(connect, |joining| {
            let order = receiver::ReceiveRequest {
                transfer,
                tree: order.tree,
                destination: order.destination,
                asked: Some(sources),
                ends_here: !send.moves,
                listed: order.listed,
                options: &receive,
                output: order.output,
                allowed: receiver::Allowed::default(),
                peer: Features::NONE,
                notary: order.notary,
            };
            receiver::run(link, joining, &order, run)
        });
        receive.resume = true;
        outcome
    })?;
    if let Some(goodbye) = &received.goodbye {
        account.add_sender(goodbye.retransmitted_segments, &goodbye.limited_by);
    }
    Ok(summary::of_received(&received, account, order.receive))
}

/// Event sink of a receiving end that attributes a rate near the limit of the user or of
/// the key to that limit, which the receiving end itself cannot observe.
fn attributing_limits(user: &Arc<UserCeiling>, events: &EventSink) -> EventSink {
    let (user, events) = (Arc::clone(user), Arc::clone(events));
    Arc::new(move |mut event| {
        if let Event::Progress(Sample { limited_by: stage @ Stage::Network, rate_bps, max_rate_bps, .. }) = &mut event {
            let key = Some(*max_rate_bps).filter(|limit| *limit > 0);
            let user = user.get().map(Rate::as_bits_per_second);
            let limits = [(key, Stage::MaxRate), (user, Stage::RateCeiling)];
            let limits = limits.into_iter().filter_map(|(limit, stage)| Some((limit?, stage)));
            if let Some((limit, limiting)) = limits.min_by_key(|(limit, _)| *limit)
                && *rate_bps >= limit * LIMIT_SHARE
            {
                *stage = limiting;
            }
        }
        events(event);
    })
}

/// Connects to the far end and requests `job`; returns the link once the far end agrees. `send`
/// holds the options and the privileges for tuning the sockets if this end sends.
fn open(
    connect: &mut dyn Connect,
    transfer: TransferId,
    job: Job,
    send: Option<(&SendOptions, &Privileges)>,
    Run { account, events, .. }: Run<'_>,
) -> Result<SendingLink, AttemptError> {
    icdc_protocol::validate::job(&job)
        .map_err(|rule| AttemptError::Usage(format!("this cannot be asked of a far end: {rule}")))?;
    let begun = clock::now();
    let link = connect.link();
    account.add_connecting(clock::now() - begun);
    let mut link = link.map_err(AttemptError::Connect)?;
    let tuned = send.map(|(send, privileges)| sender::tune(&link.control, sender::manner(send), privileges));
    let tuned = tuned.transpose().map_err(|error| AttemptError::Usage(error.to_string()))?.flatten();
    if let Some(text) = tuned.as_ref().and_then(Tuned::instead) {
        events(Event::Notice { text: text.to_owned() });
    }
    announce(&link, 0, tuned.as_ref().map(Tuned::congestion), events);
    let asked = link.outlet.send(Message::Request(Request::new(transfer, job)).into());
    let privileges = send.map(|(_, privileges)| privileges.clone()).unwrap_or_default();
    let mut link = SendingLink { link, tuned, peer: Features::NONE, privileges };
    asked.and_then(|()| link.await_answer()).map_err(SessionError::of_link)?;
    Ok(link)
}

/// Reports connection number `stream` of a session by an event.
fn announce(link: &Link, stream: u8, congestion: Option<String>, events: &EventSink) {
    events(Event::Connected {
        peer: link.control.peer(),
        stream,
        cipher: link.control.cipher().unwrap_or_default().to_owned(),
        congestion: congestion.unwrap_or_default(),
    });
}

/// Makes the additional TCP connections of a session after its first, as many as the session asks
/// for.
#[derive(Clone, Copy)]
struct ConnectionMaker<'a> {
    transfer: TransferId,
    count: ConnectionCounts,
    sending: bool,
    trial: Trial<'a>,
    events: &'a EventSink,
    stop: &'a StopSignal,
}

impl ConnectionMaker<'_> {
    /// Runs a session while its further connections are made in parallel; those that are pending
    /// when it ends are cancelled.
    fn beside<T: Send>(
        &self,
        connect: &mut dyn Connect,
        session: impl FnOnce(Joining<'_>) -> Result<T, SessionError>,
    ) -> Result<T, AttemptError> {
        let (join, joined) = unbounded();
        let (want, wanted) = unbounded();
        if self.count.most == 1 {
            // A sender's requests for more connections are dropped.
            drop(wanted);
            return Ok(session(Joining { joined: &joined, wanted: Some(&want) })?);
        }
        let (is_over_datagrams, reaches) = (connect.is_over_datagrams(), connect.datagrams());
        let trial = self.trial.begin();
        let further = connect.further().map_err(AttemptError::Connect)?;
        let over = self.stop.child();
        let making = PendingConnections { making: *self, further: &further, join, over: &over, made: Mutex::default() };
        let outcome = std::thread::scope(|scope| {
            let making = &making;
            // The first connection is number 0.
            let _ = want.send(Wanted::Connections(self.count.first));
            if is_over_datagrams && let Err(error) = start_scoped(scope, "trial", || trial.watch(&over)) {
                tracing::debug!("datagrams are not tried out: {error}");
            }
            let trial = &trial;
            let make = move || {
                let (mut next, mut reaches) = (1, reaches);
                for wanted in wanted {
                    let count = match wanted {
                        Wanted::Connections(count) => count,
                        Wanted::Datagrams => {
                            if let Some(reaches) = reaches.take()
                                && let Err(error) =
                                    start_scoped(scope, "datagrams", move || trial.turn(&reaches, making.over))
                            {
                                tracing::debug!("no datagrams: {error}");
                            }
                            continue;
                        }
                    };
                    let end = count.min(self.count.most);
                    let more = end.saturating_sub(next);
                    making.expect(more);
                    let spread = if next == 1 { Span::ZERO } else { self.count.spread };
                    for turn in 0..more {
                        let pause = spread * u64::from(turn) / u64::from(more);
                        let number = next + turn;
                        if let Err(error) = start_scoped(scope, "connect", move || making.make(number, pause)) {
                            making.note(Err(error.to_string()), number);
                        }
                    }
                    next = next.max(end);
                }
            };
            if let Err(error) = start_scoped(scope, "further", make) {
                (self.events)(Event::Notice { text: format!("no further connections are made: {error}") });
            }
            let outcome = session(Joining { joined: &joined, wanted: Some(&want) });
            over.request();
            drop(want);
            outcome
        });
        // Connections that came too late are closed; the other end sends nothing over them.
        joined.try_iter().for_each(|further| further.link.control.shutdown());
        drop(further);
        if trial.is_unreached() {
            connect.leave_datagrams();
        }
        let is_cut = matches!(outcome, Err(SessionError::Cut(_))) && !self.stop.is_requested();
        match trial.end(is_cut, is_over_datagrams) {
            Turn::None => Ok(outcome?),
            Turn::ToDatagrams => {
                connect.take_datagrams();
                Err(AttemptError::Turned)
            }
            Turn::ToTcp => {
                connect.leave_datagrams();
                Err(AttemptError::Turned)
            }
        }
    }
}

/// The further connections of a session that are being made, shared by the threads that make them.
struct PendingConnections<'a> {
    making: ConnectionMaker<'a>,
    further: &'a Further<'a>,
    join: Channel<FurtherLink>,
    /// Requested when the session is over.
    over: &'a StopSignal,
    made: Mutex<ConnectionTally>,
}

impl PendingConnections<'_> {
    /// Counts `more` connections as pending.
    fn expect(&self, more: u8) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).pending += more;
    }

    /// Makes connection `number` after a pause and hands it to the session.
    fn make(&self, number: u8, pause: Span) {
        let ConnectionMaker { transfer, .. } = self.making;
        // If the session ends meanwhile, the connection is cancelled at once.
        let _ = self.over.wait(pause);
        self.note(further_stream(self.further, transfer, number, self.over), number);
    }

    /// Hands a connection to the session, or reports its failure.
    fn note(&self, outcome: Result<Link, String>, number: u8) {
        let ConnectionMaker { sending, events, .. } = self.making;
        let outcome = if self.over.is_requested() { Ok(None) } else { outcome.map(Some) };
        let message = self.made.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome);
        if let Ok(Some(link)) = outcome {
            let socket = link.control.socket().filter(|_| sending);
            let congestion = socket.and_then(|socket| icdc_tcp::congestion(&**socket).ok());
            announce(&link, number, congestion, events);
            // The session may have ended meanwhile.
            let _ = self.join.send(FurtherLink { number, link });
        }
        // Where a session has just ended, the other end may have cut the others before this one
        // knows.
        if let Some(text) = message
            && !self.over.wait(CUT_NOTICE_TIME)
        {
            events(Event::Notice { text });
        }
    }
}

/// Counts of a session's further connections by outcome, from which the notice about failures is
/// made.
#[derive(Default)]
struct ConnectionTally {
    pending: u8,
    made: u8,
    failed: u8,
    /// Distinct reasons of the failures so far.
    reasons: Vec<String>,
}

impl ConnectionTally {
    /// Counts one outcome; `None` for a cancelled connection. Returns the message about failures
    /// once no connection is pending.
    fn add(&mut self, outcome: &Result<Option<Link>, String>) -> Option<String> {
        self.pending -= 1;
        match outcome {
            Ok(link) => self.made += u8::from(link.is_some()),
            Err(reason) => {
                self.failed += 1;
                if !self.reasons.contains(reason) {
                    self.reasons.push(reason.clone());
                }
            }
        }
        if self.pending > 0 || self.reasons.is_empty() {
            return None;
        }
        let (have, wanted) = (1 + self.made, 1 + self.made + self.failed);
        let reasons = std::mem::take(&mut self.reasons).join("; ");
        Some(format!("{have} of {wanted} connections were made: {reasons}"))
    }
}

/// Makes connection number `stream` of a session, and asks the far end to join it to the session.
fn further_stream(further: &Further<'_>, transfer: TransferId, stream: u8, stop: &StopSignal) -> Result<Link, String> {
    let request = Message::Request(Request::new(transfer, Job::Join { stream }));
    let mut link = further(stream, stop).map_err(|error| error.to_string())?;
    let asked = link.outlet.send(request.into()).and_then(|()| link.outlet.flush());
    asked.map_err(|error| error.to_string())?;
    Ok(link)
}

/// Reason why one attempt at a session ended.
enum AttemptError {
    /// The connection could not be made.
    Connect(ConnectError),
    /// The session ended early.
    Session(SessionError),
    /// The request is invalid.
    Usage(String),
    /// The session was ended here, as the next one goes over datagrams, or over TCP again.
    Turned,
}

impl From<SessionError> for AttemptError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

/// Rule for how long a broken connection is tried again.
#[derive(Clone, Copy)]
struct Patience {
    /// Time counted from the last progress.
    retry_for: Span,
    /// Whether a session that has stood for a while counts as progress, whether or not anything was sent in it.
    follows: bool,
}

/// Repeats `attempt` as long as connections break, with growing pauses, for at most `patience`
/// without progress.
fn with_retries<T>(
    Patience { retry_for, follows }: Patience,
    Run { account, events, stop, .. }: Run<'_>,
    mut attempt: impl FnMut() -> Result<T, AttemptError>,
) -> Result<T, CopyError> {
    let mut retry = Retry::new(retry_for);
    let mut has_turned = false;
    loop {
        let (bytes_before, begun) = (account.bytes(), clock::now());
        let reason = match attempt() {
            Ok(done) => return Ok(done),
            Err(AttemptError::Usage(reason)) => return Err(CopyError::Usage(reason)),
            Err(AttemptError::Connect(_)) if stop.is_requested() => return Err(CopyError::Interrupted),
            Err(AttemptError::Turned) => {
                has_turned = true;
                continue;
            }
            Err(AttemptError::Connect(error)) if !(retry.has_tried() || has_turned) || error.is_final() => {
                return Err(error.into());
            }
            // The remedies for a host that cannot be reached do not apply: it was reached before.
            Err(AttemptError::Connect(error)) => error.in_short(),
            Err(AttemptError::Session(error)) if !retry.is_worth_it(&error, stop.is_requested()) => {
                return Err(error.into());
            }
            Err(AttemptError::Session(SessionError::Interrupted)) => "the far end was stopped".to_owned(),
            Err(AttemptError::Session(SessionError::Cut(reason))) => reason,
            Err(AttemptError::Session(error)) => error.to_string(),
        };
        if stop.is_requested() {
            return Err(CopyError::Interrupted);
        }
        let has_stood = follows && clock::now() - begun >= STANDING;
        let progressed = account.bytes() > bytes_before || has_stood;
        let Some(next) = retry.again(clock::now(), progressed) else { return Err(CopyError::Lost(reason)) };
        events(Event::Reconnecting { attempt: next.number, pause_ms: next.pause.as_millis(), reason });
        if stop.wait(next.pause) {
            return Err(CopyError::Interrupted);
        }
    }
}
