//! A run over as many sessions as it takes: connected again after a cut, with further connections.

use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver as Queue, Sender as Channel, unbounded};
use icdc_disk::tree::Tree;
use icdc_link::Link;
use icdc_protocol::message::{Job, Message, ReceiveOptions, Request, SendOptions, TransferId};
use icdc_session::SessionError;
use icdc_session::retry::Retry;
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_transfer::sender::{self, SendingLink};
use icdc_transfer::{Account, Event, EventSink, FurtherLink, Summary, receiver, summary};
use icdc_tuning::Tuned;
use icdc_units::Span;

use crate::connect::ConnectError;
use crate::error::CopyError;

/// Makes a link to the far end: the first one, further ones, and again after a cut.
pub(crate) type Connect<'a> = &'a mut (dyn FnMut() -> Result<Link, ConnectError> + Send);

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
        account.note_congestion(link.tuned.as_ref().map(Tuned::congestion).unwrap_or_default());
        with_streams(connect, order.transfer, order.send.streams, true, events, |joined| {
            let found = sender::find_sources(order.tree, order.paths, order.send);
            sender::run(link, joined, found, order.send, account, events, stop)
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
}

/// Pulls over links made by `connect`, again and again until everything has arrived.
pub(crate) fn pull_over(
    connect: Connect<'_>,
    order: &PullOrder<'_>,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let account = Account::new(clock::now());
    let PullOrder { transfer, sources, send, .. } = *order;
    let mut receive = order.receive.clone();
    let received = with_retries(order.retry_for, &account, events, stop, || {
        let job = Job::Send { sources: sources.to_vec(), options: send.clone() };
        let SendingLink { link, .. } = open(connect, transfer, job, None, events)?;
        let outcome = with_streams(connect, transfer, send.streams, false, events, |joined| {
            let order = receiver::Order {
                transfer,
                tree: order.tree,
                destination: order.destination,
                asked: Some(sources),
                options: &receive,
            };
            receiver::run(link, joined, &order, &account, events, stop)
        });
        receive.resume = true;
        outcome
    })?;
    if let Some(goodbye) = &received.goodbye {
        account.add_sender(goodbye.retransmitted_segments, &goodbye.limited_by);
    }
    Ok(summary::of_received(&received, &account, order.receive))
}

/// Connects and asks for `job`; `send` if this end is going to send.
fn open(
    connect: Connect<'_>,
    transfer: TransferId,
    job: Job,
    send: Option<&SendOptions>,
    events: &EventSink,
) -> Result<SendingLink, Attempt> {
    icdc_protocol::validate::job(&job)
        .map_err(|rule| Attempt::Usage(format!("this cannot be asked of a far end: {rule}")))?;
    let mut link = connect().map_err(Attempt::Connect)?;
    let tuned = send.map(|send| sender::tune(&link.control, send.congestion.as_deref()));
    let tuned = tuned.transpose().map_err(|error| Attempt::Usage(error.to_string()))?.flatten();
    if let Some(text) = tuned.as_ref().and_then(Tuned::instead) {
        events(Event::Notice { text: text.to_owned() });
    }
    announce(&link, 0, tuned.as_ref().map(Tuned::congestion), events);
    let asked = link.outlet.send(Message::Request(Request { transfer, job }).into());
    let mut link = SendingLink { link, tuned };
    asked.and_then(|()| link.await_answer()).map_err(SessionError::from)?;
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
                let socket = link.control.socket().filter(|_| sending);
                let congestion = socket.and_then(|socket| icdc_tcp::congestion(&**socket).ok());
                announce(&link, stream, congestion, events);
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
    let mut retry = Retry::new(patience);
    loop {
        let bytes_before = account.bytes();
        let reason = match attempt() {
            Ok(done) => return Ok(done),
            Err(Attempt::Usage(reason)) => return Err(CopyError::Usage(reason)),
            Err(Attempt::Connect(_)) if stop.is_requested() => return Err(CopyError::Interrupted),
            Err(Attempt::Connect(error)) if !retry.has_tried() || error.is_final() => return Err(error.into()),
            Err(Attempt::Connect(error)) => error.to_string(),
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
