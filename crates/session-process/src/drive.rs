//! The end that drives a transfer to another far end: `icdc-client`'s module `between` shows who
//! else has a part.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use icdc_client::between::outcome;
use icdc_client::connect::back::{Back, Expected};
use icdc_client::connect::{Connect, ConnectError, Further, Machine, pinned, reach};
use icdc_client::{CopyError, PushRequest, PushedNames, PushedReceipt, push_over};
use icdc_limits::thread::{start, start_scoped};
use icdc_link::{Inlet, Link, LinkControl, LinkError, MessageWriter, Outlet, WriterGuard, receive};
use icdc_protocol::message::{
    Drive, DriveRoute, Job, ListedNames, Listening, Refusal, RefusalKind, Request, SendOptions,
};
use icdc_protocol::{Features, Message, TransferId};
use icdc_session::retry::RETRY_FOR;
use icdc_stop::StopSignal;
use icdc_tcp::{Family, Privileges, SocketSettings, clock};
use icdc_transfer::sender::{self, AskedList, ListAnswers};
use icdc_transfer::{Account, Event, EventSink, ReceiptSink, Summary, UserCeiling, Via as Route};
use icdc_trust::{Identity, PublicKey};
use icdc_units::Span;

use crate::ended::Ended;
use crate::receipt::ToClient;
use crate::rights::{MAY_NOT_REMOVE, Rights};
use crate::sessions::Registered;
use crate::work::Work;

/// Time limit for the client to close the link once it has the result.
const FAREWELL: Span = Span::from_secs(10);
/// Head start of the direct connection: if it has neither succeeded nor failed by then, the other
/// far end is asked to connect as well, and the first connection made is used. A lost SYN is
/// retransmitted after 1 s (RFC 6298), and three round trips of the longest path take less than the
/// other second.
const DIRECT_PATIENCE: Span = Span::from_secs(2);

/// Drives a transfer to another far end, in a session of a daemon; returns how it ended.
pub(crate) fn drive_in_session(
    request: Request,
    link: Link,
    rights: &Rights,
    session: &Registered<'_>,
    work: &Work,
) -> Ended {
    if request.job != Job::DriveKey {
        let reason = "this end makes a key (DriveKey) before it drives".to_owned();
        return conclude(link, Err(Refusal { kind: RefusalKind::Protocol, reason }));
    }
    let identity = Identity::generate();
    let key = *identity.public().as_bytes();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let listening = Listening { features: Features::OURS, version, key, port: 0 };
    let client = match ClientLink::open(link, session.privileges().clone(), session.stop.clone()) {
        Ok(client) => client,
        Err(error) => return Ended::Refused(error.to_string()),
    };
    client.writer.send(Message::Listening(listening));
    client.serve(rights, &identity, Some(request.transfer), work)
}

/// Waits for one work order and carries it out, in a far end that ssh started for that. `identity`
/// is the key that the destination lets in. The client is told of the result in any case.
///
/// # Errors
/// The kernel refuses a system call.
pub fn drive_once(link: Link, rights: &Rights, identity: &Identity, stop: &StopSignal) -> io::Result<()> {
    let ended = ClientLink::open(link, Privileges::own(), stop.clone())?.serve(rights, identity, None, &Work::begin());
    tracing::debug!(?ended, "drive");
    Ok(())
}

/// Answers a request whose outcome is known by one message, acceptance or refusal; returns how the
/// connection ended.
pub fn conclude(mut link: Link, outcome: Result<(), Refusal>) -> Ended {
    let (message, ended) = match outcome {
        Ok(()) => (Message::Accepted(Features::OURS), Ended::Finished),
        Err(refusal) => (Message::Refused(refusal.clone()), Ended::Refused(refusal.reason)),
    };
    match say(link.outlet.as_mut(), message) {
        Ok(()) => ended,
        Err(error) => Ended::Cut(error.to_string()),
    }
}

/// Sends a message at once.
fn say(outlet: &mut dyn Outlet, message: Message) -> Result<(), LinkError> {
    outlet.send(message.into())?;
    outlet.flush()
}

/// The driving end's side of the link to the client: one thread that speaks and one that listens.
struct ClientLink {
    writer: MessageWriter,
    end: WriterGuard,
    incoming: Receiver<Incoming>,
    control: LinkControl,
    /// Connections that the other far end has been asked to make.
    expected: Arc<Expected>,
    /// Takes the names that this session has asked the client for.
    names: Arc<Mutex<Option<ListAnswers>>>,
    /// Privileges with which the sockets to the other far end are tuned.
    privileges: Privileges,
    stop: StopSignal,
}

/// A client's order to drive a transfer to another far end.
struct WorkOrder {
    transfer: TransferId,
    drive: Box<Drive>,
}

/// Reason for refusing an order; `None` if it is carried out.
fn obstacle(order: &Drive, rights: &Rights, is_daemon: bool) -> Option<&'static str> {
    // A daemon opens no port that a client names.
    if is_daemon && order.route != DriveRoute::Direct {
        return Some("a daemon connects directly only, and opens no port for others to connect back to");
    }
    (order.send.moves && !rights.access.writes()).then_some(MAY_NOT_REMOVE)
}

/// Events on the link to the client.
enum Incoming {
    /// A work order has arrived.
    Order(WorkOrder),
    /// This end has been asked to stop.
    Stop,
    /// The link to the client has ended.
    Gone(LinkError),
}

impl ClientLink {
    /// Takes over the link to the client: starts the threads that write and read its messages.
    /// `stop` also ends the wait for the order.
    fn open(link: Link, privileges: Privileges, stop: StopSignal) -> io::Result<Self> {
        let Link { outlet, inlet, control } = link;
        let (writer, end) = MessageWriter::start(outlet, &control)?;
        let (tell, incoming) = unbounded();
        let on_stop = tell.clone();
        stop.on_request(move || {
            let _ = on_stop.send(Incoming::Stop);
        });
        let stop_too = stop.clone();
        let expected = Arc::<Expected>::default();
        let names = Arc::default();
        let awaited = Awaited { expected: Arc::clone(&expected), names: Arc::clone(&names) };
        start("listener", move || listen(inlet, &tell, &awaited, &stop_too))?;
        Ok(Self { writer, end, incoming, control, expected, names, privileges, stop })
    }

    /// Waits for the work order and carries it out; `transfer`: the only one that it may be for.
    /// Returns how it ended.
    fn serve(self, rights: &Rights, identity: &Identity, transfer: Option<TransferId>, work: &Work) -> Ended {
        let (result, ended) = match self.incoming.recv() {
            Ok(Incoming::Order(order)) if transfer.is_none_or(|transfer| transfer == order.transfer) => {
                if let Some(reason) = obstacle(&order.drive, rights, transfer.is_some()) {
                    self.writer.send(Message::Refused(Refusal::new(RefusalKind::NotAllowed, reason)));
                    return self.farewell(Ended::Refused(reason.to_owned()));
                }
                self.writer.send(Message::Accepted(Features::OURS));
                work.concerns(&order.drive.sources);
                match self.drive(&order, rights, identity, &work.account) {
                    Ok(summary) => {
                        work.complete(&summary);
                        (relay(&Event::Summary(Box::new(summary))), Ended::Finished)
                    }
                    Err(error) => failed(&error),
                }
            }
            Ok(Incoming::Order(_)) => failed(&CopyError::Usage("the order is for another transfer".to_owned())),
            Ok(Incoming::Stop) => failed(&CopyError::Interrupted),
            Ok(Incoming::Gone(error)) if error.breaks_protocol() => {
                failed(&CopyError::Refused(Refusal { kind: RefusalKind::Protocol, reason: error.to_string() }))
            }
            Ok(Incoming::Gone(error)) => return Ended::Cut(error.to_string()),
            Err(_) => unreachable!("the stop signal holds a sender"),
        };
        if let Some(message) = result {
            self.writer.send(message);
        }
        self.farewell(ended)
    }

    /// Waits until the client has closed the link, so that the last message arrives.
    fn farewell(self, ended: Ended) -> Ended {
        drop(self.end);
        // The client closes when it has the result. Closing first could cost it the last words.
        let deadline = clock::now() + FAREWELL;
        while !matches!(
            self.incoming.recv_timeout(Duration::from_nanos((deadline - clock::now()).as_nanos())),
            Ok(Incoming::Gone(_)) | Err(_)
        ) {}
        self.control.shutdown();
        ended
    }

    /// Carries out an order: sends its sources to the other far end, with a new session after each
    /// cut, and relays the events to the client; returns the summary of the run.
    fn drive(
        &self,
        &WorkOrder { transfer, ref drive }: &WorkOrder,
        rights: &Rights,
        identity: &Identity,
        account: &Account,
    ) -> Result<Summary, CopyError> {
        let tree = rights.root.tree().map_err(|error| CopyError::Failed(error.to_string()))?;
        let (congestion, refused) = rights.congestion.judge(drive.send.congestion.as_deref());
        if let Some(reason) = refused {
            tracing::info!(peer = self.control.peer(), "{reason}");
        }
        let send = SendOptions { congestion: congestion.map(str::to_owned), ..drive.send.clone() };
        // Once for all connections; a list has its names below one source.
        let paths = match send.listed {
            Some(_) => drive.sources.clone(),
            None => sender::expanded(&tree, &drive.sources)
                .map_err(|reason| CopyError::Refused(Refusal::new(RefusalKind::NotAllowed, reason)))?,
        };
        let ask = || {
            let writer = self.writer.clone();
            let (list, answers) = AskedList::new(move |pass| writer.send(Message::NamesWanted { pass }));
            *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Some(answers);
            list
        };
        let receipt = drive.receive.receipt.then(|| Arc::new(ToClient(self.writer.clone())) as Arc<dyn ReceiptSink>);
        let order = PushRequest {
            transfer,
            tree: &tree,
            paths: &paths,
            input: None,
            selection: None,
            listed: if send.listed.is_some() { PushedNames::Asked(&ask) } else { PushedNames::All },
            send: &send,
            privileges: &self.privileges,
            destination: drive.destination.clone(),
            receive: drive.receive.clone(),
            retry_for: RETRY_FOR,
            account,
            receipt: receipt.as_ref().map(PushedReceipt::PassedOn),
            follow: None,
            ceiling: &Arc::new(UserCeiling::new(send.rate)),
        };
        let writer = self.writer.clone();
        let events: EventSink = Arc::new(move |event| {
            if let Some(message) = relay(&event) {
                writer.send(message);
            }
        });
        let back = Back::passed_on(&drive.host, drive.ports, self.writer.clone(), &self.expected);
        let machine = Machine::default();
        let mut reached =
            Reached { drive, identity, machine: &machine, back: &back, events: &events, route: None, stop: &self.stop };
        push_over(&mut reached, &order, &events, &self.stop)
    }
}

/// Receivers of the client's answers: connections that the other far end has been asked to make,
/// and listed names.
struct Awaited {
    expected: Arc<Expected>,
    names: Arc<Mutex<Option<ListAnswers>>>,
}

impl Awaited {
    /// Passes a part of the listed names to the list that has asked for them; an error if none has.
    fn take(&self, part: ListedNames) -> Result<(), LinkError> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let unasked = || LinkError::Protocol("listed names that nobody has asked for".to_owned());
        let answers = names.as_ref().ok_or_else(unasked)?;
        answers.take(part).map_err(|error| LinkError::Protocol(error.to_string()))
    }
}

/// Reads messages of the client until the link ends.
fn listen(mut inlet: Box<dyn Inlet>, tell: &Sender<Incoming>, awaited: &Awaited, stop: &StopSignal) {
    let reason = loop {
        match receive(inlet.as_mut()) {
            Ok(Message::Request(Request { transfer, job: Job::Drive(drive), .. })) => {
                // Nobody waits for a second order.
                let _ = tell.send(Incoming::Order(WorkOrder { transfer, drive }));
            }
            Ok(Message::NotConnected { number, reason }) => awaited.expected.fail(number, reason),
            Ok(Message::Names(part)) => {
                if let Err(error) = awaited.take(part) {
                    break error;
                }
            }
            Ok(Message::Interrupt) => stop.request(),
            Ok(Message::Ping) => {}
            Ok(other) => {
                break LinkError::Protocol(format!("unexpected {} while driving", other.kind()));
            }
            Err(error) => break error,
        }
    };
    let _ = tell.send(Incoming::Gone(reason));
    stop.request();
}

/// Connector to the other far end, which receives what this end sends: by the host, port, key and
/// route of the client's order.
#[derive(Clone, Copy)]
struct Reached<'a> {
    drive: &'a Drive,
    identity: &'a Identity,
    /// The machine of the order's host where the other far end runs.
    machine: &'a Machine,
    back: &'a Back,
    events: &'a EventSink,
    /// Route by which the far end was last reached; `None` before.
    route: Option<Route>,
    stop: &'a StopSignal,
}

impl Reached<'_> {
    /// Connects to the other far end by `route`, and accepts it only with the key that the order
    /// names.
    fn connect(&self, route: Route, stop: &StopSignal) -> Result<Link, ConnectError> {
        let (host, port) = (&self.drive.host, self.drive.port);
        let stream = match route {
            Route::Back => self.back.connect(stop)?,
            _ => {
                let unanswered = |reason| ConnectError::Unreachable { host: host.clone(), port, reason };
                reach((host, port), self.machine, Family::Any, &SocketSettings::default(), stop, unanswered)?
            }
        };
        let link = pinned(stream, (host, port), self.identity, PublicKey::from_bytes(self.drive.key), stop)?;
        Ok(link.to_host(host))
    }

    /// Connects by the first route that works; returns the link, the route, and why the route
    /// before did not work.
    fn first(&self) -> Result<(Link, Route, String), ConnectError> {
        let over = StopSignal::new();
        let _stopped = self.stop.while_waiting({
            let over = over.clone();
            move || over.request()
        });
        std::thread::scope(|scope| {
            let (tell, told) = bounded(2);
            let attempt = |route| {
                let (tell, over, untold) = (tell.clone(), &over, tell.clone());
                // Nobody waits for the one that is too late.
                let connect = move || drop(tell.send((route, self.connect(route, over))));
                if let Err(error) = start_scoped(scope, "route", connect) {
                    let (host, port) = (self.drive.host.clone(), self.drive.port);
                    let reason = error.to_string();
                    let _ = untold.send((route, Err(ConnectError::Unreachable { host, port, reason })));
                }
            };
            attempt(Route::Direct);
            let first = told.recv_timeout(DIRECT_PATIENCE.into());
            let direct = match first {
                Ok((route, Ok(link))) => return Ok((link, route, String::new())),
                Ok((_, Err(error))) => Some(error),
                Err(_) => None,
            };
            let why = match &direct {
                Some(error) => error.in_short(),
                None => format!("{} port {} did not answer within {DIRECT_PATIENCE}", self.drive.host, self.drive.port),
            };
            attempt(Route::Back);
            let mut failures: Vec<ConnectError> = direct.into_iter().collect();
            while failures.len() < 2 {
                match told.recv() {
                    Ok((route, Ok(link))) => {
                        over.request();
                        if route != Route::Back {
                            self.back.close();
                        }
                        return Ok((link, route, why));
                    }
                    Ok((_, Err(error))) => failures.push(error),
                    Err(_) => break,
                }
            }
            match failures.pop() {
                Some(ConnectError::Interrupted) | None => Err(ConnectError::Interrupted),
                Some(other) => {
                    let mut reasons: Vec<String> = failures.iter().map(ConnectError::in_short).collect();
                    reasons.push(other.in_short());
                    Err(ConnectError::NeitherWay { host: self.drive.host.clone(), reasons: reasons.join("; ") })
                }
            }
        })
    }
}

impl Connect for Reached<'_> {
    fn link(&mut self) -> Result<Link, ConnectError> {
        if let Some(route) = self.route.take() {
            let link = self.connect(route, self.stop)?;
            self.route = Some(route);
            return Ok(link);
        }
        let (link, route, reason) = match self.drive.route {
            DriveRoute::Auto => self.first()?,
            DriveRoute::Direct => (self.connect(Route::Direct, self.stop)?, Route::Direct, String::new()),
            DriveRoute::Back => (self.connect(Route::Back, self.stop)?, Route::Back, "--via back".to_owned()),
        };
        (self.events)(Event::Route { via: route, reason });
        self.route = Some(route);
        Ok(link)
    }

    fn further(&mut self) -> Result<Further<'_>, ConnectError> {
        let (reached, route) = (*self, self.route.unwrap_or(Route::Direct));
        Ok(Box::new(move |_, stop| reached.connect(route, stop)))
    }
}

/// The message that relays an event to the client; `None` for an event that JSON cannot carry.
fn relay(event: &Event) -> Option<Message> {
    match serde_json::to_vec(event) {
        Ok(json) => Some(Message::Relay(json)),
        Err(error) => {
            tracing::debug!("an event is not relayed: {error}");
            None
        }
    }
}

/// The last message to the client after an error, and the end of the session.
fn failed(error: &CopyError) -> (Option<Message>, Ended) {
    let ended = match error {
        CopyError::Interrupted => Ended::Interrupted,
        CopyError::Lost(reason) => Ended::Cut(reason.clone()),
        other => Ended::Refused(other.to_string()),
    };
    (Some(Message::Abort(outcome::refusal(error))), ended)
}
