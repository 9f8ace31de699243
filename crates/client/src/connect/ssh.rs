//! A far end that this end starts by ssh.
//!
//! ```text
//! ssh HOST 'icdc far-end WORD'     near end → Bootstrap { key that may connect, ports }: the word, and
//!                                             the first message, which arrives a round trip later
//!                                  far end → lines ICDC-VERSIONS and ICDC-FAR-END,
//!                                            Listening { its key, port }
//! TLS 1.3 over one of the routes   both keys pinned; both made for this run only
//! ```
//!
//! The near end does not wait for the marker, which would cost a round trip; a program that is no
//! far end ignores its input. This ssh vouches for both keys and carries no data. It stays open for
//! the whole run: the far end takes the end of its input for the end of the near end. The route of
//! the data is chosen by [`routes`](super::routes).

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use icdc_link::{DEAD_AFTER, Inlet, Link, LinkControl, MessageWriter, WriterGuard, stdio_link};
use icdc_protocol::message::{FarTask, Listening};
use icdc_protocol::{Features, Message, Ports};
use icdc_rate::connection_count::{Window, needed_for};
use icdc_stop::StopSignal;
use icdc_tcp::{Egresses, Family, clock};
use icdc_transfer::{Event, EventSink, Via as Route};
use icdc_trust::{Identity, PublicKey};
use icdc_tuning::seconds_since_1970;
use icdc_units::{Rate, Span};

use super::ahead::{Ahead, Need};
use super::back::Back;
use super::by_datagrams::{ByDatagrams, Choice};
use super::error::ConnectError;
use super::far_program::{FarProgram, GREETING_TIMEOUT, Program};
use super::machine::Machine;
use super::patient::PatientReader;
use super::processes;
use super::race::Expected;
use super::remote_shell::{ConfiguredHost, RemoteProcess, RemoteShell};
use super::routes::Routes;
use super::send_self::{self, Cache};
use super::through_ssh::{FEW, Forwarder, PlannedLogins, channel, read_message};
use super::{Dial, Further, Reaches};
use crate::known_routes::{self, KnownRoute};
use crate::options::{CopyOptions, Via};

/// Number of round trips that ssh takes to log in and start a program: TCP, versions (2), key
/// exchange, service request (2), authentication (3), channel (2), command.
const ROUND_TRIPS: u64 = 12;
/// Number of these after which the login has succeeded.
const ROUND_TRIPS_TO_LOG_IN: u64 = 9;
/// Maximum number of round trips of a login that asks the user nothing, to which [`COMPUTATION`]
/// is added. A login with a typed password takes longer.
const MOST_ROUND_TRIPS: u64 = 14;
/// Time for the computations of a login that asks the user nothing, beside its round trips.
const COMPUTATION: Span = Span::from_millis(900);
/// Time within which ssh exits after its far end has died.
const EXIT_DETECTION: Span = Span::from_secs(3);
/// Round-trip time from which logins are begun though the port may turn out to be open: where a login takes half a
/// second.
const LONG: Span = Span::from_millis(50);
/// Time limit from a far end's marker line to its whole answer, for which it already has all
/// input.
const ANSWER_TIMEOUT: Span = DEAD_AFTER;

/// Starts far ends on one host by ssh, any number of them, and remembers which program there works.
pub(crate) struct Starter {
    far: FarProgram,
    send_self: bool,
    /// Whether a far end has been started.
    has_started: bool,
    ports: Ports,
    family: Family,
    via: Via,
    egresses: Egresses,
    /// Number of connections that the user has set; `None` for automatic.
    streams: Option<u8>,
    limit: Option<Rate>,
    events: EventSink,
    configured: Option<ConfiguredHost>,
    stop: StopSignal,
}

/// A far end that ssh has started and that has announced its key and port; its standard streams
/// carry messages, not the data.
pub(crate) struct Started {
    /// Writer to the far end's standard input; its keepalives hold the ssh connection open in NATs
    /// and firewalls.
    pub(crate) writer: MessageWriter,
    /// Reader of the far end's standard output.
    pub(crate) inlet: Box<dyn Inlet>,
    /// Control that shuts the link down, which ends a blocked read.
    pub(crate) control: LinkControl,
    /// Guard that ends the far end's standard input: the far end takes that for the end of this
    /// one. Dropped before the process, which then ends by itself.
    pub(crate) end: WriterGuard,
    /// Public key of the far end for this run.
    pub(crate) key: PublicKey,
    /// Features of the far end.
    pub(crate) features: Features,
    /// TCP port where the far end listens; 0 if it only drives.
    pub(crate) port: u16,
    pub(crate) running: Running,
    /// Properties of the path and of the login, measured at its start.
    pub(crate) login: LoginProperties,
    /// Time from the start of ssh to the far end's answer.
    took: Span,
}

/// Properties of the path and of a login, measured by that login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoginProperties {
    /// Round-trip time to the host.
    round_trip: Span,
    /// Window of an ssh channel over this path.
    channel: Window,
    /// Whether the login was too fast to have been answered by hand.
    unattended: bool,
    /// Time that the login took at a jump host, estimated from the round trips; `None` if there is none.
    at_jump_host: Option<Span>,
    /// Time that the login took in all, estimated in the same way.
    to_log_in: Span,
    /// Address to which ssh has connected; `None` if that could not be observed, or is a jump host's.
    address: Option<SocketAddr>,
}

/// Properties of ssh's connection, as far as they could be observed.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Round-trip time to the first host.
    first: Span,
    /// Number of chained logins: one more than there are jump hosts.
    logins: u64,
    address: SocketAddr,
}

impl LoginProperties {
    /// Properties of a login that `took` this time from the start of ssh to the far end's answer, and
    /// of whose connection this was observed.
    fn of(took: Span, seen: Option<Seen>) -> Self {
        let (first, logins) = seen.map_or((None, 1), |seen| (Some(seen.first), seen.logins.max(1)));
        let by_time = took / (ROUND_TRIPS * logins);
        Self {
            round_trip: match first {
                Some(first) if logins == 1 => first,
                _ => by_time.max(first.unwrap_or_default()),
            },
            channel: channel(logins),
            unattended: first.is_some_and(|first| took <= (first * MOST_ROUND_TRIPS + COMPUTATION) * logins),
            at_jump_host: first.filter(|_| logins > 1).map(|first| first * ROUND_TRIPS_TO_LOG_IN),
            to_log_in: took * ROUND_TRIPS_TO_LOG_IN / ROUND_TRIPS,
            address: seen.filter(|_| logins == 1).map(|seen| seen.address),
        }
    }
}

/// The local ssh process that runs a far end; dropping it ends both.
pub(crate) struct Running(RemoteProcess);

impl Running {
    /// Whether ssh, and with it the far end, ends within `patience`.
    pub(crate) fn has_ended(&mut self, patience: Span) -> bool {
        self.0.wait(patience).is_some() || self.0.has_ended()
    }
}

impl Starter {
    /// New starter for `host`, which is `[USER@]HOST`.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn new(
        host: &str,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        let (sink, prefix) = (Arc::clone(events), host.to_owned());
        let on_stderr = move |line: &str| sink(Event::Notice { text: format!("{prefix}: {line}") });
        Ok(Self {
            far: FarProgram {
                shell: RemoteShell::new(&options.ssh, host, Arc::new(on_stderr), stop)?.with_data_over(options.family),
                program: Program::of(&options.remote_icdc),
            },
            send_self: options.send_self,
            has_started: false,
            ports: options.ports,
            family: options.family,
            via: options.via.clone(),
            egresses: options.egresses.clone(),
            streams: options.send.streams,
            limit: options.send.rate,
            events: Arc::clone(events),
            configured: None,
            stop: stop.clone(),
        })
    }

    /// The host as ssh's configuration reaches it; its name is that for the data connections.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn configured_host(&mut self) -> Result<ConfiguredHost, ConnectError> {
        if let Some(host) = &self.configured {
            return Ok(host.clone());
        }
        let host = self.far.shell.configured_host(&self.stop)?;
        Ok(self.configured.insert(host).clone())
    }

    /// Starts a far end that listens and serves the holder of the key `peer` only.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn start_to_serve(&mut self, peer: PublicKey) -> Result<Started, ConnectError> {
        self.start_to_serve_beside(peer, &mut |_| {})
    }

    /// [`Self::start_to_serve`] that calls `logged_in` with what the login has shown once ssh has logged in without a
    /// question, before the far end answers.
    fn start_to_serve_beside(
        &mut self,
        peer: PublicKey,
        logged_in: &mut dyn FnMut(LoginProperties),
    ) -> Result<Started, ConnectError> {
        self.start(FarTask::Serve { peer: *peer.as_bytes(), ports: self.ports }, logged_in)
    }

    /// Starts a far end that only drives: it connects to another far end, and does not listen.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn start_to_drive(&mut self) -> Result<Started, ConnectError> {
        self.start(FarTask::Drive, &mut |_| {})
    }

    /// Starts a far end for `task` and waits for its answer. With `--send-self`, a missing or
    /// unsuitable program is sent there first.
    fn start(&mut self, task: FarTask, logged_in: &mut dyn FnMut(LoginProperties)) -> Result<Started, ConnectError> {
        (self.events)(Event::Connecting { to: format!("{} by ssh", self.far.shell.host()) });
        let started = match self.start_program(task, logged_in) {
            // One that has started once is no reason to send another.
            Err(ConnectError::NoIcdc { .. } | ConnectError::OtherVersion { .. } | ConnectError::EndedAtOnce { .. })
                if self.send_self && !self.has_started =>
            {
                let text = format!(
                    "{}: no icdc there that fits; using one sent from here, in its cache directory",
                    self.far.shell.host()
                );
                (self.events)(Event::Notice { text });
                self.far.program = Program::Sent(send_self::put(&self.far.shell, &self.stop)?);
                // What is there now need not be looked for.
                self.send_self = false;
                self.start_program(task, logged_in)
            }
            other => other,
        };
        self.has_started |= started.is_ok();
        started
    }

    /// Makes one attempt to start the far program by ssh, and waits until it answers where it
    /// listens. Sends no program there, as [`Starter::start`] does if this fails; notes the program
    /// that was found.
    fn start_program(
        &mut self,
        task: FarTask,
        logged_in: &mut dyn FnMut(LoginProperties),
    ) -> Result<Started, ConnectError> {
        let cache = if self.send_self { cache() } else { None };
        let told = FarProgram::bootstrap(task, self.family);
        let command = self.far.command_line(Some(&told));
        let command = cache.as_ref().map_or(command.clone(), |cache| cache.or_sent(&command));
        let far = self.far.clone();
        let shell = &far.shell;
        let begin = clock::now();
        let mut process = shell.run_telling(&command)?;
        let stdout = process.stdout.take().expect("standard output is piped");
        let stdin = process.stdin.take().expect("standard input is piped");
        // A program that is started by the server's choice (a forced command) has no word of it.
        let sent = (&stdin).write_all(&told.frame());
        let cannot_start = |cause| ConnectError::Start { command: shell.command().to_owned(), cause };
        let deadline = begin + GREETING_TIMEOUT;
        let mut output = PatientReader::new(&stdout, &self.stop, deadline).map_err(cannot_start)?;
        let number = process.id();
        let preamble = far.await_marker(&mut output, &mut process, || {
            let seen = processes::network(number).and_then(seen_by);
            let login = LoginProperties::of((clock::now() - begin) * ROUND_TRIPS / ROUND_TRIPS_TO_LOG_IN, seen);
            tracing::debug!(host = shell.host(), ?login, "let in");
            if login.unattended {
                logged_in(login);
            }
        })?;
        preamble.notice(shell.host()).into_iter().for_each(|text| (self.events)(Event::Notice { text }));
        if let Some(found) = preamble.found {
            self.far.program = Program::started(found, cache.as_ref());
        }
        let greeting = {
            let deadline = clock::now() + ANSWER_TIMEOUT;
            let mut output = PatientReader::new(&stdout, &self.stop, deadline).map_err(cannot_start)?;
            read_message(&mut output)
        };
        let took = clock::now() - begin;
        // A far end that cannot serve says why and ends; its words are worth more than a broken
        // pipe.
        match (greeting, sent) {
            (Err(_), _) if self.stop.is_requested() => Err(ConnectError::Interrupted),
            (Ok(Message::Listening(Listening { key, port, version, features })), _)
                if task == FarTask::Drive || port != 0 =>
            {
                tracing::debug!(host = shell.host(), version, ?features, port, "far end started");
                process.pass_on_stderr();
                // One that drives gives signs of life; one that listens has nothing more to say.
                let link = stdio_link(stdout, stdin, shell.host(), Some(DEAD_AFTER)).map_err(cannot_start)?;
                let Link { outlet, inlet, control } = link;
                let (writer, end) = MessageWriter::start(outlet, &control).map_err(cannot_start)?;
                let login = LoginProperties::of(took, process.network().and_then(seen_by));
                tracing::debug!(host = shell.host(), %took, ?login, "logged in");
                let (key, running) = (PublicKey::from_bytes(key), Running(process));
                Ok(Started { writer, inlet, control, end, key, features, port, running, login, took })
            }
            (Ok(Message::Refused(refusal)), _) => {
                Err(ConnectError::FarEndRefused { host: shell.host().to_owned(), reason: refusal.reason })
            }
            (Ok(other), _) => Err(far.failed(format!("unexpected answer {}", other.kind()), process.last_stderr())),
            (Err(error), _) if error.kind() == io::ErrorKind::TimedOut => {
                Err(far
                    .failed(format!("it has not said within {ANSWER_TIMEOUT} where it listens"), process.last_stderr()))
            }
            (Err(error), _) if error.kind() == io::ErrorKind::InvalidData => {
                Err(far.other_version(error.to_string(), "use the same release on both sides"))
            }
            (Err(error), Ok(())) => Err(far.failed(error.to_string(), process.last_stderr())),
            (Err(_), Err(error)) => Err(far.failed(format!("write: {error}"), process.last_stderr())),
        }
    }
}

/// Properties of ssh's connection, over which `logins` go, from the kernel; `None` if it tells nothing.
fn seen_by((connection, logins): (TcpStream, u64)) -> Option<Seen> {
    let address = icdc_tcp::canonical(connection.peer_addr().ok()?);
    Some(Seen { first: icdc_tcp::info(&connection).ok()?.min_rtt, logins, address })
}

/// Cache of the programs that an earlier run may have put on the far side; `None` if they cannot
/// be read.
fn cache() -> Option<Cache> {
    let not_read = |error: &io::Error| tracing::debug!("nothing that was sent before is looked for: {error}");
    Cache::of_this_program().inspect_err(not_read).ok()
}

/// Whether the data of a session will go through ssh, as far as that is known before its far end has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThroughSsh {
    /// It will unless the port answers: it went so the last time, or nothing else leads there.
    Likely,
    /// Nothing is known of the host.
    Possible,
    /// It must not, another route has worked, or the program has to be sent first.
    No,
}

impl ThroughSsh {
    /// Expectation of a session whose user has chosen `via`, and of whose routes this is known.
    fn of(via: &Via, expected: Expected) -> Self {
        match (via, expected) {
            (Via::Ssh, _) | (Via::Auto, Expected::Known(Route::Ssh) | Expected::JumpHost) => Self::Likely,
            (Via::Auto, Expected::Nothing) => Self::Possible,
            (Via::Auto | Via::Direct | Via::Udp | Via::Back | Via::Proxy(_), _) => Self::No,
        }
    }
}

/// A far end that this end starts by ssh, and starts anew if it has ended; makes links to it.
pub(crate) struct SshFar {
    starter: Starter,
    need: Need,
    choice: Choice,
    current: Option<Current>,
}

/// The far end that is running, and the routes to it.
struct Current {
    /// Guard that ends the far end's input; declared, and so dropped, before the process.
    _end: WriterGuard,
    running: Running,
    routes: Routes,
    /// Route that worked before; `None` until one has.
    route: Option<Route>,
    /// True if the last session goes over datagrams, which the user has not asked for.
    is_over_datagrams: bool,
    login: LoginProperties,
    /// Time that the login took.
    took: Span,
    /// Number of connections that were to be begun.
    connections: u8,
}

impl Drop for Current {
    /// Ends the connections that were begun, even while clones of the routes exist.
    fn drop(&mut self) {
        self.routes.end();
    }
}

impl SshFar {
    /// Starts a far end on `host`; `need` says how many connections its sessions begin with.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn open(
        host: &str,
        need: Need,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        let choice = Choice::new(host.to_owned(), options);
        let mut far = Self { starter: Starter::new(host, options, events, stop)?, need, choice, current: None };
        far.start()?;
        Ok(far)
    }

    /// Makes the first link of a session; restarts a far end that has ended.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn link(&mut self) -> Result<Link, ConnectError> {
        // A far end that ended just now may still be ending: a refused port is the sign to look
        // again. What has taken longer is no such sign.
        let begun = clock::now();
        for is_first in [true, false] {
            if self.current.as_mut().is_none_or(|current| current.running.has_ended(Span::ZERO)) {
                self.start()?;
            }
            if let Some(link) = self.link_over_datagrams()? {
                return Ok(link);
            }
            let current = self.current.as_mut().expect("it was started above");
            match current.routes.first(current.route) {
                Ok((link, route)) => {
                    if current.route.replace(route).is_none() {
                        self.keep_route(Some(route));
                    }
                    return Ok(link);
                }
                Err(error)
                    if is_first
                        && error.is_of_data_port()
                        && current.running.has_ended(EXIT_DETECTION - (clock::now() - begun)) => {}
                Err(error) => {
                    // Next time the other one may be open.
                    current.route = None;
                    if !self.starter.stop.is_requested() {
                        self.keep_route(None);
                    }
                    return Err(error);
                }
            }
        }
        unreachable!("the second attempt returns")
    }

    /// Makes the first link of a session over datagrams, where icdc has chosen these; `None` where it has not, or they do not reach
    /// the far end.
    fn link_over_datagrams(&mut self) -> Result<Option<Link>, ConnectError> {
        let current = self.current.as_mut().expect("it was started before");
        current.is_over_datagrams = false;
        let Some(reason) = self.choice.reason() else { return Ok(None) };
        match current.routes.first(Some(Route::Udp)) {
            Ok((link, via)) => {
                current.is_over_datagrams = true;
                (self.starter.events)(Event::Route { via, reason: reason.to_owned() });
                Ok(Some(link))
            }
            Err(ConnectError::Interrupted) => Err(ConnectError::Interrupted),
            Err(error) => {
                tracing::debug!(%error, "no session over datagrams");
                self.choice.leave();
                Ok(None)
            }
        }
    }

    /// Returns a function that makes one further link to the running far end with each call.
    pub(crate) fn further(&mut self) -> Further<'static> {
        let (routes, route) = self.taken().expect("a link to it has been made");
        Box::new(move |number, stop| routes.further(route, number, stop))
    }

    /// See [`Connect::datagrams`](super::Connect::datagrams).
    pub(crate) fn datagrams(&self) -> Option<Reaches> {
        let (routes, route) = self.taken()?;
        // A port that has not answered in time may have lost the question.
        let may = self.choice.is_open() && matches!(route, Route::Direct | Route::Back);
        may.then(|| Box::new(move |stop: &StopSignal| routes.reach_by_datagrams(stop)) as Reaches)
    }

    /// See [`Connect::is_over_datagrams`](super::Connect::is_over_datagrams).
    pub(crate) fn is_over_datagrams(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.is_over_datagrams)
    }

    /// Decision between TCP and datagrams for the sessions.
    pub(super) fn choice(&mut self) -> &mut Choice {
        &mut self.choice
    }

    /// The routes to the running far end, and the one that its last session has taken.
    fn taken(&self) -> Option<(Routes, Route)> {
        let current = self.current.as_ref()?;
        let route = if current.is_over_datagrams { Some(Route::Udp) } else { current.route };
        Some((current.routes.clone(), route?))
    }

    /// Tries each route to the far end, which has just been started; returns for each `None` if it
    /// works, otherwise the obstacle.
    pub(crate) fn try_each(&self) -> Vec<(Route, Option<String>)> {
        self.current.as_ref().map_or_else(Vec::new, |current| current.routes.try_each())
    }

    /// Route that data takes, and a function that makes one further connection by it.
    pub(crate) fn dial(&self) -> (Route, Dial) {
        let (routes, route) = self.taken().expect("a link to it has been made");
        (route, Box::new(move |number, stop| routes.carrier(route, number, stop)))
    }

    /// Maximum number of connections that can be made without a question to the user.
    pub(crate) fn most_connections(&self) -> u8 {
        self.taken().map_or(1, |(routes, route)| routes.most_connections(route))
    }

    /// Minimum number of connections that use every egress that the user has named.
    pub(crate) fn least_connections(&self) -> u8 {
        self.taken().map_or(1, |(routes, route)| routes.least_connections(route))
    }

    /// Starts a new far end, with a new key of this end, and ends the previous one. Where ssh most likely carries the data,
    /// its logins begin as soon as the first one has succeeded, and one with it where it has worked before without a question; a few
    /// begin then as well where it is not known whether the port is open.
    fn start(&mut self) -> Result<(), ConnectError> {
        self.current = None;
        self.starter.far.shell = self.starter.far.shell.anew();
        let identity = Identity::generate();
        let host = self.starter.configured_host()?;
        let known = self.known_route();
        let expected = match &known {
            Some(known) => Expected::Known(known.via),
            None if host.is_indirect => Expected::JumpHost,
            None => Expected::Nothing,
        };
        let Starter { far, family, ports, via, egresses, events, stop, streams, limit, .. } = &self.starter;
        let (family, ports, via, egresses) = (*family, *ports, via.clone(), egresses.clone());
        let (events, stop) = (Arc::clone(events), stop.clone());
        let (streams, limit) = (*streams, *limit);
        let by_path = |login: LoginProperties| {
            streams.unwrap_or_else(|| needed_for(login.channel, login.round_trip, None, limit))
        };
        // Of a program that has to be sent first, nothing can be started yet.
        let by_ssh = if self.starter.send_self { ThroughSsh::No } else { ThroughSsh::of(&via, expected) };
        let forwarder = Forwarder::new(far.clone(), family, &events);
        if by_ssh == ThroughSsh::Likely && known.as_ref().is_some_and(|known| known.unattended && !known.is_shared) {
            forwarder.begin_with_first();
        }
        let shell = far.shell.clone();
        let machine_of = |login: LoginProperties| login.address.filter(|_| shell.is_openssh() && !host.is_indirect);
        let stay_there = |login: LoginProperties| {
            if let Some(address) = machine_of(login).filter(|address| family.admits(address.ip()))
                && host.takes_connections
            {
                shell.stay_at(&host.name, address);
            }
        };
        let mut begin_ahead = |login: LoginProperties| {
            stay_there(login);
            if let Some(at_first) = login.at_jump_host {
                forwarder.by_jump_host(at_first, login.to_log_in - at_first);
            }
            match by_ssh {
                ThroughSsh::Likely => {
                    let known = known.as_ref().filter(|_| streams.is_none());
                    forwarder.begin_ahead(known.map_or_else(|| by_path(login), |known| known.connections));
                }
                ThroughSsh::Possible if login.round_trip >= LONG => forwarder.begin_ahead(by_path(login).min(FEW)),
                ThroughSsh::Possible | ThroughSsh::No => {}
            }
        };
        let Started { writer, inlet, end, key, port, running, login, took, .. } =
            self.starter.start_to_serve_beside(identity.public(), &mut begin_ahead)?;
        let connections = by_path(login);
        let planned = PlannedLogins { connections, unattended: login.unattended };
        let forwarder = forwarder.to(self.starter.far.clone(), port, planned);
        // Where the login may have been answered by hand, nobody has been told of it before.
        stay_there(login);
        let machine = Machine::of_login(machine_of(login));
        let back = Back::new(&host.name, ports, family, writer, inlet);
        let ahead = Ahead::new(self.need, &egresses);
        let routes = Routes {
            host: host.name,
            port,
            key,
            identity: Arc::new(identity),
            machine,
            family,
            via,
            egresses,
            round_trip: login.round_trip,
            expected,
            datagrams: ByDatagrams::default(),
            back,
            forwarder,
            ahead,
            events,
            stop,
        };
        let (route, is_over_datagrams) = (None, false);
        self.current = Some(Current { _end: end, running, routes, route, is_over_datagrams, login, took, connections });
        Ok(())
    }

    /// Route to this host that an earlier run has left; `None` also where ssh is replaced by another program.
    fn known_route(&self) -> Option<KnownRoute> {
        let shell = &self.starter.far.shell;
        let may_recall = shell.is_openssh() && self.starter.via == Via::Auto;
        may_recall.then(|| known_routes::recall(shell.host(), shell.command())).flatten()
    }

    /// Keeps the route that works, or that none does, for later runs.
    fn keep_route(&self, outcome: Option<Route>) {
        let (shell, Some(current)) = (&self.starter.far.shell, &self.current) else { return };
        if !shell.is_openssh() || self.starter.via != Via::Auto {
            return;
        }
        let ssh = known_routes::digest_of(shell.command());
        match outcome {
            Some(via) => known_routes::remember(KnownRoute {
                host: shell.host().to_owned(),
                ssh,
                via,
                connections: current.connections,
                login_ms: current.took.as_millis(),
                unattended: current.login.unattended,
                is_shared: shell.is_shared(),
                seen: seconds_since_1970(),
            }),
            None => known_routes::forget(shell.host(), &ssh),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(first: u64, logins: u64) -> Option<Seen> {
        Some(Seen { first: Span::from_millis(first), logins, address: SocketAddr::from(([192, 0, 2, 1], 22)) })
    }

    #[test]
    fn a_login_that_took_longer_than_the_network_needs_may_have_been_answered_by_hand() {
        let ms = Span::from_millis;
        let unattended = |took, seen| LoginProperties::of(ms(took), seen).unattended;
        assert!(unattended(3_000, seen(300, 1)));
        assert!(unattended(250, seen(0, 1)));
        assert!(!unattended(6_000, seen(300, 1)));
        assert!(!unattended(2_000, seen(1, 1)));
        assert!(unattended(6_000, seen(300, 2)), "by a jump host");
        assert!(!unattended(100, None), "nothing is known of it");
    }

    #[test]
    fn the_round_trip_is_the_kernels_or_estimated_from_the_login() {
        let ms = Span::from_millis;
        let round_trip = |took, seen| LoginProperties::of(ms(took), seen).round_trip;
        assert_eq!(round_trip(3_000, seen(300, 1)), ms(300));
        assert_eq!(round_trip(7_200, seen(20, 2)), ms(300), "the host is far behind the jump host");
        assert_eq!(round_trip(3_600, None), ms(300));
    }
}
