//! A run over as many sessions as it takes: connected again after a cut, with further connections.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Sender as Channel, unbounded};
use icdc_disk::tree::Tree;
use icdc_limits::thread::start_scoped;
use icdc_link::Link;
use icdc_protocol::Features;
use icdc_protocol::message::{IfRunning, Job, Message, ReceiveOptions, Request, SendOptions, Transfer, TransferId};
use icdc_rate::connection_count::{KERNEL_BUFFERS, SSH_CHANNEL, needed_for};
use icdc_session::SessionError;
use icdc_session::retry::Retry;
use icdc_stop::StopSignal;
use icdc_tcp::congestion::finds_the_rate;
use icdc_tcp::{Privileges, clock};
use icdc_transfer::sender::selection::Selection;
use icdc_transfer::sender::{self, SendingLink};
use icdc_transfer::{Account, Event, EventSink, FurtherLink, Joining, Sample, Stage, Summary, receiver, summary};
use icdc_tuning::Tuned;
use icdc_units::{Rate, Span};

use crate::connect::{Connect, ConnectError, Further};
use crate::error::CopyError;

/// Round trips in which a connection is made: the handshakes of TCP and of TLS.
const OPENING: u64 = 2;

/// How long after its connections were cut a session may take to notice that it is over: failures are
/// told only then.
const ENDING: Span = Span::from_millis(500);
/// The share of its limit that payload reaches where nothing else holds a sender up: headers take a
/// twentieth, and samples are short.
const REACHED: (u64, u64) = (17, 20);

/// What is pushed, and how.
pub struct PushOrder<'a> {
    /// Number of the transfer, the same in all sessions of the run.
    pub transfer: TransferId,
    /// Where the paths of the sources are resolved.
    pub tree: &'a Tree,
    /// The sources.
    pub paths: &'a [Vec<u8>],
    /// What of them is pushed; `None` for everything.
    pub selection: Option<&'a Arc<Selection>>,
    /// Options of this end.
    pub send: &'a SendOptions,
    /// With which the sockets are tuned.
    pub privileges: &'a Privileges,
    /// Path at the far end.
    pub destination: Vec<u8>,
    /// Options of the far end.
    pub receive: ReceiveOptions,
    /// For how long a broken connection is tried again, counted from the last progress.
    pub retry_for: Span,
    /// What the run costs, over all its sessions.
    pub account: &'a Account,
}

/// Pushes local files over links made by `connect`, again and again until everything has arrived.
pub fn push_over(
    connect: &mut dyn Connect,
    order: &PushOrder<'_>,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let account = order.account;
    let mut receive = order.receive.clone();
    if order.send.congestion.is_none() {
        icdc_tcp::congestion::load_ahead();
    }
    let sent = with_retries(order.retry_for, account, events, stop, || {
        receive.place = receive.place.or(account.place());
        let job = Job::Transfer(Transfer::Receive { destination: order.destination.clone(), options: receive.clone() });
        // What this run has made durable counts from the second session on, whatever the user said.
        receive.resume = true;
        let link = open(connect, order.transfer, job, Some((order.send, order.privileges)), account, events)?;
        // Who has the lock when the connection was cut may be the session before.
        receive.if_running = IfRunning::Wait;
        account.note_congestion(link.tuned.as_ref().map(Tuned::congestion).unwrap_or_default());
        let count = Count::of(&link, order.send, &order.receive, connect.least_links()..=connect.most_links(), events);
        let making = Making { transfer: order.transfer, count, sending: true, events, stop };
        making.beside(connect, |joining| {
            let found = sender::find_sources(order.tree, order.paths, order.send).selected(order.selection.cloned());
            sender::run(link, joining, found, order.send, account, events, stop)
        })
    })?;
    Ok(summary::of_sent(&sent, account, &order.receive))
}

/// What is pulled, and how.
pub(crate) struct PullOrder<'a> {
    pub(crate) transfer: TransferId,
    pub(crate) tree: &'a Tree,
    pub(crate) sources: &'a [Vec<u8>],
    pub(crate) send: &'a SendOptions,
    pub(crate) destination: &'a [u8],
    pub(crate) receive: &'a ReceiveOptions,
    pub(crate) retry_for: Span,
    /// What the run costs, over all its sessions.
    pub(crate) account: &'a Account,
}

/// Pulls over links made by `connect`, again and again until everything has arrived.
pub(crate) fn pull_over(
    connect: &mut dyn Connect,
    order: &PullOrder<'_>,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let PullOrder { transfer, sources, send, account, .. } = *order;
    let events = &below_ceiling(send.rate, events);
    let mut receive = order.receive.clone();
    let received = with_retries(order.retry_for, account, events, stop, || {
        receive.place = receive.place.or(account.place());
        let job = Job::Transfer(Transfer::Send { sources: sources.to_vec(), options: send.clone() });
        let link = open(connect, transfer, job, None, account, events)?;
        let count = Count::of(&link, send, order.receive, connect.least_links()..=connect.most_links(), events);
        let SendingLink { link, .. } = link;
        let making = Making { transfer, count, sending: false, events, stop };
        let outcome = making.beside(connect, |joining| {
            let order = receiver::Order {
                transfer,
                tree: order.tree,
                destination: order.destination,
                asked: Some(sources),
                options: &receive,
                allowed: receiver::Allowed::default(),
            };
            receiver::run(link, joining, &order, account, events, stop)
        });
        receive.resume = true;
        outcome
    })?;
    if let Some(goodbye) = &received.goodbye {
        account.add_sender(goodbye.retransmitted_segments, &goodbye.limited_by);
    }
    Ok(summary::of_received(&received, account, order.receive))
}

/// Events of a receiving end whose user lets the sender send at `limit`, or whose key may: what reaches that is limited
/// by it, of which the receiving end itself sees nothing.
fn below_ceiling(limit: Option<Rate>, events: &EventSink) -> EventSink {
    let (user, events) = (limit.map(Rate::as_bits_per_second), Arc::clone(events));
    Arc::new(move |mut event| {
        if let Event::Progress(Sample { limited_by: stage @ Stage::Network, rate_bps, max_rate_bps, .. }) = &mut event {
            let key = Some(*max_rate_bps).filter(|limit| *limit > 0);
            let limits = [(key, Stage::MaxRate), (user, Stage::RateCeiling)];
            let limits = limits.into_iter().filter_map(|(limit, stage)| Some((limit?, stage)));
            if let Some((limit, limiting)) = limits.min_by_key(|(limit, _)| *limit)
                && *rate_bps >= limit / REACHED.1 * REACHED.0
            {
                *stage = limiting;
            }
        }
        events(event);
    })
}

/// Connects and asks for `job`; `send` if this end is going to send, and the privileges with which it
/// tunes its sockets.
fn open(
    connect: &mut dyn Connect,
    transfer: TransferId,
    job: Job,
    send: Option<(&SendOptions, &Privileges)>,
    account: &Account,
    events: &EventSink,
) -> Result<SendingLink, Attempt> {
    icdc_protocol::validate::job(&job)
        .map_err(|rule| Attempt::Usage(format!("this cannot be asked of a far end: {rule}")))?;
    let begun = clock::now();
    let link = connect.link();
    account.add_connecting(clock::now() - begun);
    let mut link = link.map_err(Attempt::Connect)?;
    let tuned = send.map(|(send, privileges)| sender::tune(&link.control, send.congestion.as_deref(), privileges));
    let tuned = tuned.transpose().map_err(|error| Attempt::Usage(error.to_string()))?.flatten();
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

fn announce(link: &Link, stream: u8, congestion: Option<String>, events: &EventSink) {
    events(Event::Connected {
        peer: link.control.peer(),
        stream,
        cipher: link.control.cipher().unwrap_or_default().to_owned(),
        congestion: congestion.unwrap_or_default(),
    });
}

/// How many connections a session has, the first included.
#[derive(Clone, Copy)]
struct Count {
    /// From the start.
    first: u8,
    /// Once the sender finds that the path needs more.
    most: u8,
    /// Those begin one after the other, over so long: what each sends at first, together, would be
    /// more than a short queue holds.
    spread: Span,
}

impl Count {
    /// As many as the user has named, or else as the path of `link` needs, and the least at least; no
    /// more than the most.
    fn of(
        link: &SendingLink,
        send: &SendOptions,
        receive: &ReceiveOptions,
        bounds: RangeInclusive<u8>,
        events: &EventSink,
    ) -> Self {
        let (named, (least, reachable)) = (send.streams, bounds.into_inner());
        let wanted = named.unwrap_or_else(|| needed(link, send.rate).max(least));
        let first = within_ring(wanted.min(reachable), receive, events);
        // A login for each is more than a loss is worth.
        let is_fixed = named.is_some() || link.link.control.socket().is_none();
        let most = if is_fixed { first } else { reachable.min(receiver::most_connections(receive)).max(first) };
        let round_trip = link.link.control.tcp_info().map_or(Span::ZERO, |info| info.min_rtt);
        Self { first, most, spread: round_trip * OPENING }
    }
}

/// How many connections the path of this one needs to carry `limit`, or what it can: one where its
/// congestion control fills the path alone.
fn needed(link: &SendingLink, limit: Option<Rate>) -> u8 {
    let SendingLink { link, tuned, .. } = link;
    if tuned.as_ref().is_some_and(|tuned| finds_the_rate(&tuned.congestion())) {
        return 1;
    }
    let channel = link.control.window().map_or(SSH_CHANNEL, |window| SSH_CHANNEL.with(window));
    let known = tuned.as_ref().and_then(Tuned::known_path).map(|known| known.rate);
    let (window, round_trip) = match (link.control.socket(), link.control.tcp_info(), link.control.handshake_time()) {
        (Some(_), Some(info), _) => (KERNEL_BUFFERS, info.min_rtt),
        // Two flights in one round trip: a little more than that, and more where the connection that
        // can be seen leads to a host on the way only.
        (None, Some(info), Some(handshake)) if handshake < info.min_rtt * 2 => (channel, info.min_rtt),
        (None, _, Some(handshake)) => (channel, handshake),
        _ => return 1,
    };
    needed_for(window, round_trip, known, limit)
}

/// As many of the `streams` as the receiver's ring can serve; tells where these are fewer.
fn within_ring(streams: u8, options: &ReceiveOptions, events: &EventSink) -> u8 {
    let most = receiver::most_connections(options);
    if streams > most {
        let text = format!(
            "the ring has {most} blocks, one for each connection: {most} of {streams} are made; --ring gives more"
        );
        events(Event::Notice { text });
    }
    streams.min(most)
}

/// Makes the further connections of a session.
#[derive(Clone, Copy)]
struct Making<'a> {
    transfer: TransferId,
    count: Count,
    sending: bool,
    events: &'a EventSink,
    stop: &'a StopSignal,
}

impl Making<'_> {
    /// Runs a session while they are made, side by side; those that are still pending when it ends
    /// are given up.
    fn beside<T: Send>(
        &self,
        connect: &mut dyn Connect,
        session: impl FnOnce(Joining<'_>) -> Result<T, SessionError>,
    ) -> Result<T, Attempt> {
        let (join, joined) = unbounded();
        let (want, wanted) = unbounded();
        if self.count.most == 1 {
            // A sender may ask as often as it likes: nothing is kept for it.
            drop(wanted);
            return Ok(session(Joining { joined: &joined, wanted: Some(&want) })?);
        }
        let further = connect.further().map_err(Attempt::Connect)?;
        let over = self.stop.child();
        let making = Pending { making: *self, further: &further, join, over: &over, made: Mutex::default() };
        let outcome = std::thread::scope(|scope| {
            let making = &making;
            // The first connection is number 0.
            let _ = want.send(self.count.first);
            let make = move || {
                let mut next = 1;
                for wanted in wanted {
                    let end = wanted.min(self.count.most);
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
        // Those that came too late; nobody at the other end has anything to say on them.
        joined.try_iter().for_each(|further| further.link.control.shutdown());
        Ok(outcome?)
    }
}

/// The further connections of a session while they are made.
struct Pending<'a> {
    making: Making<'a>,
    further: &'a Further<'a>,
    join: Channel<FurtherLink>,
    /// The session is over.
    over: &'a StopSignal,
    made: Mutex<Made>,
}

impl Pending<'_> {
    /// So many more are going to be made.
    fn expect(&self, more: u8) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).pending += more;
    }

    /// Makes the one of this number after a pause and hands it to the session.
    fn make(&self, number: u8, pause: Span) {
        let Making { transfer, .. } = self.making;
        // If the session is over meanwhile, what follows is given up at once.
        let _ = self.over.wait(pause);
        self.note(further_stream(self.further, transfer, number, self.over), number);
    }

    /// Hands a connection that was made to the session, or tells why it was not.
    fn note(&self, outcome: Result<Link, String>, number: u8) {
        let Making { sending, events, .. } = self.making;
        let outcome = if self.over.is_requested() { Ok(None) } else { outcome.map(Some) };
        let told = self.made.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome);
        if let Ok(Some(link)) = outcome {
            let socket = link.control.socket().filter(|_| sending);
            let congestion = socket.and_then(|socket| icdc_tcp::congestion(&**socket).ok());
            announce(&link, number, congestion, events);
            // The session may have ended meanwhile.
            let _ = self.join.send(FurtherLink { number, link });
        }
        // Where a session has just ended, the other end may have cut the others before this one knows.
        if let Some(text) = told
            && !self.over.wait(ENDING)
        {
            events(Event::Notice { text });
        }
    }
}

/// What has become of the further connections of a session so far.
#[derive(Default)]
struct Made {
    pending: u8,
    made: u8,
    failed: u8,
    /// Why some were not made; each reason once.
    reasons: Vec<String>,
}

impl Made {
    /// Counts one more, which was given up if it is `None`. Once none is pending, what to tell of
    /// failures.
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

fn further_stream(further: &Further<'_>, transfer: TransferId, stream: u8, stop: &StopSignal) -> Result<Link, String> {
    let request = Message::Request(Request::new(transfer, Job::Join { stream }));
    let mut link = further(stream, stop).map_err(|error| error.to_string())?;
    let asked = link.outlet.send(request.into()).and_then(|()| link.outlet.flush());
    asked.map_err(|error| error.to_string())?;
    Ok(link)
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
    let mut retry = Retry::new(patience);
    loop {
        let bytes_before = account.bytes();
        let reason = match attempt() {
            Ok(done) => return Ok(done),
            Err(Attempt::Usage(reason)) => return Err(CopyError::Usage(reason)),
            Err(Attempt::Connect(_)) if stop.is_requested() => return Err(CopyError::Interrupted),
            Err(Attempt::Connect(error)) if !retry.has_tried() || error.is_final() => return Err(error.into()),
            // What to do where it cannot be reached at all does not fit: it was reached before.
            Err(Attempt::Connect(error)) => error.in_short(),
            Err(Attempt::Session(error)) if !retry.is_worth_it(&error, stop.is_requested()) => {
                return Err(error.into());
            }
            Err(Attempt::Session(SessionError::Interrupted)) => "the far end was stopped".to_owned(),
            Err(Attempt::Session(SessionError::Cut(reason))) => reason,
            Err(Attempt::Session(error)) => error.to_string(),
        };
        if stop.is_requested() {
            return Err(CopyError::Interrupted);
        }
        let progressed = account.bytes() > bytes_before;
        let Some(next) = retry.again(clock::now(), progressed) else { return Err(CopyError::Lost(reason)) };
        events(Event::Reconnecting { attempt: next.number, pause_ms: next.pause.as_millis(), reason });
        if stop.wait(next.pause) {
            return Err(CopyError::Interrupted);
        }
    }
}
