//! Transfers between two far ends: the data goes straight from one to the other.
//!
//! ```text
//!            ┌── 1 key of this transfer ── A   source end, drives
//!   client ──┤
//!            └── 2 lets A's key in ─────── B   destination end, listens
//!   client ───── 3 Drive { B's address and key, what, where to } → A
//!                A ═══ TLS, both keys pinned ═══ B
//!   client ◄──── 4 Relay { events } ────── A          with a receipt that B signs: PassedReceipt
//! ```
//!
//! | | by ssh | by a daemon |
//! |---|---|---|
//! | 1 A's key | `Bootstrap` without a peer → `Listening` | `DriveKey` → `Listening` |
//! | 2 B admits it | `Bootstrap` with A's key → `Listening` | `Admit` → `Accepted` |
//! | 3 the request | over the same ssh | over the same link as `DriveKey` |
//!
//! A's key exists in A's memory only, for this transfer. A transfer ends with the client's link to
//! A: A interrupts it then, so that it can be resumed.
//!
//! With `--receipt`, the client learns the key that signs from B: a daemon's is that of its link, and a
//! far end that ssh started is asked over that ssh.
//!
//! This module is the client, which introduces the two ends and receives the driving end's events.
//! The driving end is in `icdc-session-process`.

pub mod outcome;
mod passed;
mod stopping;

use std::net::IpAddr;
use std::os::fd::AsFd as _;

use icdc_link::{Inlet, Link, LinkControl, LinkError, MessageWriter, WriterGuard, receive};
use icdc_protocol::limits::{MAX_ADDRESSES, MAX_NOTICED, MAX_STREAMS};
use icdc_protocol::message::{
    ConnectBack, Drive, DriveRoute, Job, Listening, ReceiveOptions, Request, Transfer, TransferId,
};
use icdc_protocol::{Features, Message};
use icdc_stop::{Listening as StopListening, StopSignal};
use icdc_tcp::{Patience, clock};
use icdc_transfer::{Event, EventSink, ListServer, Summary};
use icdc_trust::PublicKey;
use icdc_units::{Span, Time};

use self::stopping::{shut_down_on, unless_stopped};
use crate::connect::daemon::DaemonFar;
use crate::connect::ssh::{Running, Started, Starter};
use crate::connect::{ConnectError, Need};
use crate::error::CopyError;
use crate::location::Location;
use crate::options::{CopyOptions, Via};
use crate::receipt::{ReceiptFile, Signer};
use crate::sources::paths_on_one_host;
use crate::transfer_id::new_transfer;

/// Time limit for the far ends to end an interrupted transfer.
const INTERRUPT_TIMEOUT: Span = Span::from_secs(10);
/// Time limit for the lookup of the driving end's name.
const NAME_TIMEOUT: Span = Span::from_secs(5);
/// Maximum number of connections from the listening end that the driving end may request within
/// [`CONNECT_BACK_WINDOW`]: those of a copy, and of several retries.
const MAX_CONNECT_BACKS: usize = 4 * MAX_STREAMS as usize;
/// Time within which the driving end may request [`MAX_CONNECT_BACKS`] connections.
const CONNECT_BACK_WINDOW: Span = Span::from_secs(60);

/// Copies `sources`, all on one far end, to `destination` on another; the data goes straight
/// between the two, and this end only introduces them and passes events on.
///
/// # Errors
/// As [`crate::copy`]; [`ConnectError::Between`] if the source end cannot reach the destination
/// end.
pub(crate) fn copy_between(
    sources: &[Location],
    destination: &Location,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let Some(first) = sources.first() else {
        return Err(CopyError::Usage("no source is given".to_owned()));
    };
    let paths = paths_on_one_host(sources, first)?;
    let transfer = new_transfer().map_err(CopyError::Failed)?;
    let mut source = SourceEnd::open(first, transfer, options, events, stop)?;
    let receive = ReceiveOptions { receipt: options.receipt.is_some(), ..options.receive.clone() };
    let job = Transfer::Receive { destination: destination.path().to_vec(), options: receive.clone() };
    let admission = Admission { key: source.key, transfer, job };
    let mut target = TargetEnd::open(destination, admission, options, events, stop)?;
    if let (Some(receipt), Some(signer)) = (&options.receipt, target.signer) {
        receipt.expect(transfer, Signer::Key(signer));
    }
    // A daemon has one port for everything, and never connects on another's behalf.
    let is_daemon = |location: &Location| matches!(location, Location::Daemon { .. });
    let route = match options.via {
        Via::Back => DriveRoute::Back,
        Via::Auto if !is_daemon(first) && !is_daemon(destination) => DriveRoute::Auto,
        Via::Auto | Via::Direct | Via::Udp | Via::Ssh | Via::Proxy(_) => DriveRoute::Direct,
    };
    let job = Job::Drive(Box::new(Drive {
        host: target.host.clone(),
        port: target.port,
        key: *target.key.as_bytes(),
        sources: paths,
        route,
        ports: options.ports,
        send: options.send.clone(),
        destination: destination.path().to_vec(),
        receive,
    }));
    icdc_protocol::validate::job(&job)
        .map_err(|rule| CopyError::Usage(format!("this cannot be asked of a far end: {rule}")))?;
    source.writer.send(Message::Request(Request::new(transfer, job)));
    let _interrupt = source.interrupt_on(stop);
    let names = Names { from: source.name.clone(), to: target.host.clone() };
    let mut connector = BackConnector {
        host: &source.host,
        target: &mut target,
        route,
        answers: source.writer.clone(),
        control: source.control.clone(),
        known: None,
        allowance: Allowance::default(),
        listed: options.listed.clone().map(ListServer::new),
        stop,
    };
    follow(source.inlet.as_mut(), &mut connector, &names, (events, options.receipt.as_deref()), stop)
}

/// Names of the two far ends, for messages.
struct Names {
    from: String,
    to: String,
}

/// Passes on the events and writes the receipt that the driving end relays, and serves its requests,
/// until the transfer has ended; returns its result.
fn follow(
    inlet: &mut dyn Inlet,
    connector: &mut BackConnector<'_>,
    Names { from, to }: &Names,
    (events, receipt): (&EventSink, Option<&ReceiptFile>),
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    loop {
        match receive(inlet) {
            Ok(Message::Relay(json)) => match serde_json::from_slice(&json) {
                Ok(Event::Summary(summary)) => return Ok(*summary),
                Ok(Event::Noticed(mut noticed)) => {
                    noticed.first.truncate(MAX_NOTICED);
                    events(attributed(Event::Noticed(noticed), from, to));
                }
                Ok(event) => events(attributed(event, from, to)),
                Err(error) => {
                    tracing::debug!("{from} sent an event that this release does not know: {error}")
                }
            },
            Ok(Message::NamesWanted { pass }) => connector.tell_names(pass).map_err(CopyError::Failed)?,
            Ok(Message::PassedReceipt(part)) => {
                passed::write(part, receipt, (from, to)).map_err(CopyError::Failed)?;
            }
            Ok(Message::ConnectBack(request)) => connector.connect(request).map_err(CopyError::Failed)?,
            Ok(Message::Accepted(_) | Message::Ping) => {}
            Ok(Message::Refused(refusal) | Message::Abort(refusal)) => {
                return Err(outcome::error(refusal, from, to, stop.is_requested()));
            }
            Ok(other) => {
                return Err(CopyError::Failed(format!("{from} broke the protocol: {}", other.kind())));
            }
            Err(_) if stop.is_requested() => return Err(CopyError::Interrupted),
            Err(error) => {
                return Err(CopyError::Lost(format!("{from}, which drives the transfer: {error}")));
            }
        }
    }
}

/// An event that the driving end `from` relays, with its text attributed to the host that it is
/// about.
fn attributed(mut event: Event, from: &str, to: &str) -> Event {
    if let Event::Item { reason: Some(text), .. } | Event::Notice { text } = &mut event {
        *text = outcome::attributed(text, from, to);
    }
    event
}

/// Link to the far end that has the sources: it drives the transfer, that is, connects and sends.
struct SourceEnd {
    name: String,
    /// Host name of the driving end for connections beside ssh.
    host: String,
    key: PublicKey,
    inlet: Box<dyn Inlet>,
    writer: MessageWriter,
    control: LinkControl,
    /// Ends the writer, and with it the input of a far end that ssh started; declared, and so
    /// dropped, before the process.
    _end: WriterGuard,
    _running: Option<Running>,
}

impl SourceEnd {
    /// Starts the source's far end by ssh or connects to its daemon, and learns the key that it
    /// uses for this transfer.
    fn open(
        location: &Location,
        transfer: TransferId,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, CopyError> {
        let name = location.host_name().unwrap_or_default().to_owned();
        match location {
            Location::Ssh { host, .. } => {
                let mut starter = Starter::new(host, options, events, stop)?;
                let Started { writer, inlet, control, end, key, features, running, .. } = starter.start_to_drive()?;
                passed::require(options, features, &name)?;
                let host = starter.configured_host()?.name;
                Ok(Self { name, host, key, inlet, writer, control, _end: end, _running: Some(running) })
            }
            Location::Daemon { host, port, .. } => {
                let Link { outlet, mut inlet, control } =
                    DaemonFar::open(host, *port, Need::ONE, options, stop)?.link(events)?;
                let (writer, end) = MessageWriter::start(outlet, &control)
                    .map_err(|error| CopyError::Failed(format!("cannot start a thread: {error}")))?;
                writer.send(Message::Request(Request::new(transfer, Job::DriveKey)));
                let (key, features) = {
                    let _given_up = shut_down_on(stop, &control);
                    drive_key(inlet.as_mut(), &name).map_err(|error| unless_stopped(error, stop))?
                };
                passed::require(options, features, &name)?;
                Ok(Self { name, host: host.clone(), key, inlet, writer, control, _end: end, _running: None })
            }
            Location::Local(_) => Err(CopyError::Usage(format!("{location} is not on another host"))),
        }
    }
}

impl SourceEnd {
    /// Once `stop` is requested, sends an interrupt to the driving end, and shuts the link down
    /// after [`INTERRUPT_TIMEOUT`], within which arrived data is made durable. It watches until the
    /// result is dropped.
    fn interrupt_on(&self, stop: &StopSignal) -> StopListening {
        let (writer, control) = (self.writer.clone(), self.control.clone());
        stop.while_waiting(move || {
            let patience = std::thread::Builder::new().name("interrupt".into());
            let ended = control.clone();
            // The send also runs on its own thread: an end that does not read would block it.
            let waiting = patience.spawn(move || {
                let deadline = clock::now() + INTERRUPT_TIMEOUT;
                if writer.send_within(Message::Interrupt, INTERRUPT_TIMEOUT) {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "the time that the far ends have is what it waits for"
                    )]
                    std::thread::sleep((deadline - clock::now()).into());
                }
                ended.shutdown();
            });
            if let Err(error) = waiting {
                tracing::debug!("no wait for the far ends: {error}");
                control.shutdown();
            }
        })
    }
}

/// Receives the public key that a daemon has made for the transfer, and the daemon's features.
fn drive_key(inlet: &mut dyn Inlet, name: &str) -> Result<(PublicKey, Features), CopyError> {
    match receive(inlet).map(|message| message.told_by(name)) {
        Ok(Message::Listening(Listening { key, features, .. })) => Ok((PublicKey::from_bytes(key), features)),
        Ok(Message::Refused(refusal)) => Err(CopyError::Refused(refusal)),
        Ok(other) => Err(CopyError::Failed(format!("{name} broke the protocol: {}", other.kind()))),
        Err(cause) => Err(ConnectError::Lost { host: name.to_owned(), cause }.into()),
    }
}

/// The far end that receives: it listens at this host and port, and admits the driving end.
struct TargetEnd {
    host: String,
    port: u16,
    key: PublicKey,
    /// Key that signs the receipt; `None` if none is asked for.
    signer: Option<PublicKey>,
    /// The far end, if ssh started it; `None` for a daemon.
    started: Option<StartedTarget>,
}

/// A far end that ssh started; it ends when this is dropped.
struct StartedTarget {
    writer: MessageWriter,
    inlet: Option<Box<dyn Inlet>>,
    /// Ends the far end's input; declared, and so dropped, before the process.
    _end: WriterGuard,
    _running: Running,
}

/// Serves the driving end's requests: for connections from the listening end, which it passes on to
/// that, and for names of a list. Neither end trusts the other: the driving end must not be able to
/// probe the network of the listening one.
struct BackConnector<'a> {
    /// Name of the driving end.
    host: &'a str,
    target: &'a mut TargetEnd,
    /// Routes between the far ends that the user allows.
    route: DriveRoute,
    /// Writer of answers to the driving end.
    answers: MessageWriter,
    /// Control of the link to the driving end.
    control: LinkControl,
    /// Addresses of the driving end; `None` until they are looked up at the first request.
    known: Option<DrivingAddresses>,
    allowance: Allowance,
    /// Names that the driving end asks for, if only listed names are copied.
    listed: Option<ListServer>,
    stop: &'a StopSignal,
}

/// IP addresses of the driving end, as this host resolves its name.
struct DrivingAddresses {
    addresses: Vec<IpAddr>,
    /// Whether the listening end is on the same host.
    is_target: bool,
}

/// Rate limit for the driving end's requests for connections from the listening end.
struct Allowance {
    since: Time,
    used: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { since: clock::now(), used: 0 }
    }
}

impl Allowance {
    /// Counts one request; false if it exceeds the rate limit.
    fn take(&mut self, now: Time) -> bool {
        if now - self.since >= CONNECT_BACK_WINDOW {
            (self.since, self.used) = (now, 0);
        }
        self.used += 1;
        self.used <= MAX_CONNECT_BACKS
    }
}

impl DrivingAddresses {
    /// Resolves the name `driving`, and finds out whether the host `listening` has one of the same
    /// addresses; no addresses if the lookup fails.
    fn look_up(driving: &str, listening: &str, stop: &StopSignal) -> Self {
        let cancel = stop.descriptor().ok();
        let addresses = |host| {
            let cancel = cancel.as_ref().map(|cancel| cancel.as_fd());
            let found = icdc_tcp::resolve(host, 9, Patience { timeout: NAME_TIMEOUT, cancel });
            found.unwrap_or_default().into_iter().map(|place| place.ip().to_canonical()).collect::<Vec<IpAddr>>()
        };
        let known = addresses(driving);
        let is_target = driving == listening || addresses(listening).iter().any(|address| known.contains(address));
        Self { addresses: known, is_target }
    }

    /// Addresses for the listening end to connect to: those of `named` that may belong to the
    /// driving end, and those that this host resolved.
    fn places(&self, named: &[IpAddr]) -> Vec<IpAddr> {
        let named = named.iter().map(IpAddr::to_canonical).filter(|address| !is_link_scoped(address));
        let mut places: Vec<IpAddr> = Vec::new();
        for address in named.chain(self.addresses.iter().copied()) {
            // On another host, a loopback address leads to the listening end itself.
            let is_elsewhere = self.is_target || !address.is_loopback();
            if is_elsewhere && !address.is_unspecified() && !places.contains(&address) {
                places.push(address);
            }
        }
        places.truncate(MAX_ADDRESSES);
        places
    }
}

/// Whether an address is link-local, multicast or broadcast, and so means a different host on each
/// network.
fn is_link_scoped(address: &IpAddr) -> bool {
    address.is_multicast()
        || match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
}

impl BackConnector<'_> {
    /// Sends the driving end the next names of the list of what is to be copied, in its reading
    /// `pass`. An error if it asks without need or does not read the answers.
    fn tell_names(&mut self, pass: u32) -> Result<(), String> {
        let Some(listed) = &mut self.listed else {
            return Err(format!("{} broke the protocol: it asks for names, and there is no list", self.host));
        };
        let part = listed.answer(pass).map_err(|error| format!("the list of names cannot be read: {error}"))?;
        if self.answers.send_within(Message::Names(part), Span::ZERO) {
            return Ok(());
        }
        self.control.shutdown();
        Err(format!("{} broke the protocol: it asks for names and takes none", self.host))
    }

    /// Asks the listening end to connect to the driving one, also by the addresses that this host
    /// has resolved. Fails if the driving end exceeds the limit or does not read the answers.
    fn connect(&mut self, request: ConnectBack) -> Result<(), String> {
        let number = request.number;
        let asked = if self.allowance.take(clock::now()) {
            self.pass_on(request)
        } else {
            self.control.shutdown();
            return Err(format!("{} broke the protocol: it asks for connections without end", self.host));
        };
        let Err(reason) = asked else { return Ok(()) };
        if self.answers.send_within(Message::NotConnected { number, reason }, Span::ZERO) {
            return Ok(());
        }
        self.control.shutdown();
        Err(format!("{} broke the protocol: it takes no answers", self.host))
    }

    /// Passes a request for a connection on to the listening end, with the addresses to try: those
    /// that the driving end names, without those that can be no other host's, and those that this
    /// host has resolved for it. The error is a reason for the driving end.
    fn pass_on(&mut self, request: ConnectBack) -> Result<(), String> {
        if self.route == DriveRoute::Direct {
            return Err("this copy connects directly only".to_owned());
        }
        let target = self.target.passing_on(&self.answers)?;
        let (driving, listening, stop) = (self.host, &self.target.host, self.stop);
        let known = self.known.get_or_insert_with(|| DrivingAddresses::look_up(driving, listening, stop));
        let addresses = known.places(&request.addresses);
        if addresses.is_empty() {
            return Err(format!("no address of {driving} is known that another host can reach"));
        }
        // Only the listening end knows all its own addresses, and the one from which ssh came.
        let request = ConnectBack { addresses, elsewhere: !known.is_target, ..request };
        let taken = target.send_within(Message::ConnectBack(request), Span::ZERO);
        if taken { Ok(()) } else { Err(format!("{listening} takes no orders")) }
    }
}

/// Permission that the listening end is asked to give the driving one: its key, and the only job
/// that it may request.
struct Admission {
    /// Key of the driving end.
    key: PublicKey,
    transfer: TransferId,
    /// The only job that the driving end may request.
    job: Transfer,
}

impl TargetEnd {
    /// Starts the destination's far end by ssh or connects to its daemon, and has the driving end
    /// admitted there.
    fn open(
        location: &Location,
        Admission { key: peer, transfer, job }: Admission,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, CopyError> {
        match location {
            Location::Ssh { host, .. } => {
                let mut starter = Starter::new(host, options, events, stop)?;
                let mut started = starter.start_to_serve(peer)?;
                let signer = match options.receipt {
                    Some(_) => Some(passed::signer(&mut started, host, stop)?),
                    None => None,
                };
                let Started { writer, inlet, end, key, port, running, .. } = started;
                let started = StartedTarget { writer, inlet: Some(inlet), _end: end, _running: running };
                Ok(Self { host: starter.configured_host()?.name, port, key, signer, started: Some(started) })
            }
            Location::Daemon { host, port, .. } => {
                let mut far = DaemonFar::open(host, *port, Need::ONE, options, stop)?;
                let job = Job::Admit { key: *peer.as_bytes(), job: Box::new(job) };
                let link = far.link(events)?;
                let _given_up = shut_down_on(stop, &link.control);
                admit(link, Request::new(transfer, job), host).map_err(|error| unless_stopped(error, stop))?;
                let (key, signer) = (far.key(), options.receipt.as_ref().map(|_| far.key()));
                Ok(Self { host: host.clone(), port: *port, key, signer, started: None })
            }
            Location::Local(_) => Err(CopyError::Usage(format!("{location} is not on another host"))),
        }
    }
}

impl TargetEnd {
    /// Writer for requests to the destination's end, if ssh started it. From the first call on a
    /// thread passes that end's `NotConnected` to `answers`, without the reason, and drops its
    /// other answers. An error for a daemon, or if the thread cannot be started.
    fn passing_on(&mut self, answers: &MessageWriter) -> Result<MessageWriter, String> {
        let Some(StartedTarget { writer, inlet, .. }) = &mut self.started else {
            return Err("a daemon connects to nobody".to_owned());
        };
        if let Some(mut inlet) = inlet.take() {
            let answers = answers.clone();
            let listener = std::thread::Builder::new().name("target".into());
            let listening = listener.spawn(move || {
                loop {
                    match receive(inlet.as_mut()) {
                        Ok(Message::NotConnected { number, reason }) => {
                            tracing::info!("the listening end cannot connect to the driving one: {reason}");
                            // The exact cause is hidden from the driving end, which has chosen the
                            // address.
                            let reason = "a connection from there did not come about".to_owned();
                            answers.send(Message::NotConnected { number, reason });
                        }
                        Ok(_) => {}
                        Err(error) => return tracing::debug!("the listening end: {error}"),
                    }
                }
            });
            listening.map_err(|error| format!("cannot start a thread: {error}"))?;
        }
        Ok(writer.clone())
    }
}

/// Asks the daemon on `host` to admit the driving end, as `request` says, and waits for its
/// agreement.
fn admit(mut link: Link, request: Request, host: &str) -> Result<(), CopyError> {
    let lost = |cause: LinkError| ConnectError::Lost { host: host.to_owned(), cause };
    link.outlet.send(Message::Request(request).into()).map_err(lost)?;
    link.outlet.flush().map_err(lost)?;
    match receive(link.inlet.as_mut()).map_err(lost)?.told_by(host) {
        Message::Accepted(_) => Ok(()),
        Message::Refused(refusal) => Err(CopyError::Refused(refusal)),
        other => Err(CopyError::Failed(format!("{host} broke the protocol: {}", other.kind()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_listening_end_is_not_sent_to_itself_or_to_its_neighbours() {
        let known = DrivingAddresses { addresses: addresses(&["192.0.2.1"]), is_target: false };
        let harmful = ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "::ffff:0.0.0.0"];
        let of_the_link = ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1"];
        let named = addresses(&[&harmful[..], &of_the_link, &["255.255.255.255"]].concat());
        assert_eq!(known.places(&named), known.addresses);
        let both = addresses(&["198.51.100.7", "192.0.2.1", "2001:db8::7"]);
        assert_eq!(known.places(&both), both, "each once");
        let nowhere = DrivingAddresses { addresses: addresses(&["127.0.0.1"]), is_target: false };
        assert!(nowhere.places(&named).is_empty());
    }

    #[test]
    fn an_end_on_the_same_host_is_reached_by_its_loopback() {
        let stop = StopSignal::new();
        assert!(DrivingAddresses::look_up("127.0.0.1", "127.0.0.1", &stop).is_target);
        assert!(DrivingAddresses::look_up("192.0.2.1", "::ffff:192.0.2.1", &stop).is_target);
        let known = DrivingAddresses::look_up("alias.invalid", "alias.invalid", &stop);
        assert_eq!(known.places(&addresses(&["127.0.0.1", "169.254.0.1", "::"])), addresses(&["127.0.0.1"]));
        assert!(!DrivingAddresses::look_up("192.0.2.1", "192.0.2.2", &stop).is_target);
    }

    #[test]
    fn a_driving_end_may_not_ask_without_end() {
        let mut allowance = Allowance::default();
        let start = clock::now();
        assert_eq!((0..10 * MAX_CONNECT_BACKS).filter(|_| allowance.take(start)).count(), MAX_CONNECT_BACKS);
        assert!(allowance.take(start + CONNECT_BACK_WINDOW), "a copy that lasts may connect again");
    }
}
