//! The routes by which data reaches a far end that ssh has started.
//!
//! ```text
//! direct   TCP to the port where the far end listens
//! udp      datagrams to that port, if the user names it, or in place of the first route where that loses more than TCP bears
//!                                                                         [`by_datagrams`](super::by_datagrams)
//! back     TCP from the far end to a port here                             [`back`](super::back)
//! ssh      through ssh connections of their own                          [`through_ssh`]
//! proxy    TCP to that port by way of a proxy that the user names          [`by_proxy`]
//! ```
//!
//! The first of the first three routes that works is used, for all connections of the run, as [`race`](super::race) says.
//! When the port has refused or not answered in time, the other two begin, while the attempt at the port continues. They
//! begin together: connecting back takes three round trips, and ssh more than twice as many for its login, so that no
//! time is lost where a firewall blocks connecting back. The logins of ssh are begun even earlier: when the port's answer
//! is overdue. If they succeed before the far end could have connected back, they wait for that. The route that has worked
//! [last time](crate::known_routes) is tried beside the port from the start. Where that is ssh, or its configuration names a
//! jump host, its logins begin as soon as the first one has succeeded, and one with it where that route has worked
//! before without a question. On a long path to a host of which nothing is known a few begin then as well, and end if another
//! route wins.

use std::net::TcpStream;
use std::sync::Arc;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded, unbounded};
use icdc_limits::thread::start;
use icdc_link::{Carrier, Link};
use icdc_protocol::limits::MAX_STREAMS;
use icdc_stop::StopSignal;
use icdc_tcp::{Egresses, Family, SocketSettings, clock};
use icdc_transfer::{Event, EventSink, Via as Route};
use icdc_trust::{Identity, PublicKey};
use icdc_tuning::buffers::socket_settings;
use icdc_units::{Ratio, Span};

use super::ahead::{Ahead, Need};
use super::back::Back;
use super::by_datagrams::ByDatagrams;
use super::by_proxy::reach_by;
use super::error::ConnectError;
use super::machine::Machine;
use super::race::{Delays, Expected, Next, Race};
use super::reach::{CONNECT_TIMEOUT, connecting, pinned, reach};
use super::through_ssh::Forwarder;
use crate::options::Via;
use crate::proxy::Proxy;

/// Number of round trips after which a port that has not answered is unlikely to.
const ROUND_TRIPS: u64 = 3;
/// Lower bound of the time that a port has to answer, for short paths.
const LEAST_TIMEOUT: Span = Span::from_secs(1);
/// Upper bound of the time that a port has to answer: the round trip may include the user's typing
/// of a password.
const MOST_TIMEOUT: Span = Span::from_secs(5);

/// Round trips after which the answer of an open port is due, but for the bound of
/// [`ANSWER_DUE_DIVISOR`].
const ANSWER_DUE_ROUND_TRIPS: Ratio = Ratio::new(5, 4);
/// Divisor of the time limit for a port's answer: it is not due before that part of the limit.
const ANSWER_DUE_DIVISOR: u64 = 4;

/// Time limit of each route in [`Routes::try_each`].
const MOST_TRIAL: Span = Span::from_secs(18);

/// Time limit for the port's answer before other routes are tried, from the round-trip time.
fn patience_of(round_trip: Span) -> Span {
    (round_trip * ROUND_TRIPS).clamp(LEAST_TIMEOUT, MOST_TIMEOUT)
}

/// Routes of the data connections to a far end that ssh has started, and all that is needed to make
/// connections by them, the first of a session included.
#[derive(Clone)]
pub(super) struct Routes {
    /// Host name of the far side for connections beside ssh.
    pub(super) host: String,
    /// TCP port where the far end listens.
    pub(super) port: u16,
    /// Public key of the far end.
    pub(super) key: PublicKey,
    /// Identity (key) of this end.
    pub(super) identity: Arc<Identity>,
    /// The machine of this name where the far end runs.
    pub(super) machine: Machine,
    pub(super) family: Family,
    /// Route that the user has chosen.
    pub(super) via: Via,
    pub(super) egresses: Egresses,
    /// Round-trip time to the host, as the login measured it.
    pub(super) round_trip: Span,
    /// Knowledge of the routes before they are tried.
    pub(super) expected: Expected,
    pub(super) datagrams: ByDatagrams,
    pub(super) back: Back,
    pub(super) forwarder: Forwarder,
    pub(super) ahead: Ahead,
    pub(super) events: EventSink,
    pub(super) stop: StopSignal,
}

impl Routes {
    /// Makes the first link of a session, over the route that has worked before, or else over the
    /// first that works; returns it with its route.
    pub(super) fn first(&self, before: Option<Route>) -> Result<(Link, Route), ConnectError> {
        self.forwarder.begin_anew();
        self.ahead.end();
        self.machine.begin_anew();
        self.datagrams.begin_anew();
        if let Some(route) = before {
            return Ok((self.first_by(route, &self.stop)?, route));
        }
        let (link, route, reason) = match &self.via {
            Via::Direct => {
                (self.events)(connecting(&self.host, self.port));
                (self.first_directly()?, Route::Direct, String::new())
            }
            Via::Udp => {
                (self.events)(connecting(&self.host, self.port));
                (self.first_by(Route::Udp, &self.stop)?, Route::Udp, "--via udp".to_owned())
            }
            Via::Back => (self.first_by(Route::Back, &self.stop)?, Route::Back, "--via back".to_owned()),
            Via::Ssh => (self.through_ssh(&self.stop)?, Route::Ssh, "--via ssh".to_owned()),
            Via::Auto => self.race()?,
            Via::Proxy(proxy) => {
                let reason = format!("--via names {proxy}");
                (self.first_by(proxy.route(), &self.stop)?, proxy.route(), reason)
            }
        };
        self.tell_of_egresses(route, &reason);
        (self.events)(Event::Route { via: route, reason });
        Ok((link, route))
    }

    /// Makes the first link to the port, as the only route that is tried; notifies the user if its
    /// answer is overdue.
    fn first_directly(&self) -> Result<Link, ConnectError> {
        let patience = patience_of(self.round_trip);
        let (answered, answer) = bounded::<()>(0);
        let carrier = std::thread::scope(|scope| {
            let tell = move || {
                if answer.recv_timeout(patience.into()) == Err(RecvTimeoutError::Timeout) {
                    let (host, port) = (&self.host, self.port);
                    let text = format!(
                        "{host} port {port} has not answered within {patience}: a firewall may drop what is sent there; \
                         --via direct allows no other route, and waits {CONNECT_TIMEOUT} in all"
                    );
                    (self.events)(Event::Notice { text });
                }
            };
            // If the thread cannot start, the user only sees the final error.
            let _ = std::thread::Builder::new().name("patience".into()).spawn_scoped(scope, tell);
            let carrier = self.carrier(Route::Direct, 0, &self.stop);
            drop(answered);
            carrier
        });
        self.first_over(carrier?, Route::Direct, &self.stop)
    }

    /// Makes link `number` of a session, over a route that has worked.
    pub(super) fn further(&self, route: Route, number: u8, stop: &StopSignal) -> Result<Link, ConnectError> {
        let carrier = match route {
            Route::Ssh => self.carrier(route, number, stop)?,
            _ => self.ahead.take(number, self.maker(route), stop)?,
        };
        self.pinned(carrier, stop)
    }

    /// Makes connection `number` of a session to the port where the far end listens, over a route
    /// that has worked.
    pub(super) fn carrier(&self, route: Route, number: u8, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        match (route, &self.via) {
            (Route::Ssh, _) => self.forwarder.further(stop),
            (Route::Back, _) => self.back.connect(stop).map(Carrier::from),
            (Route::Udp, _) => self.over_datagrams(stop),
            (_, Via::Proxy(proxy)) => self.reach_by(proxy, number, stop).map(Carrier::from),
            (_, _) => self.reach(number, stop).map(Carrier::from),
        }
    }

    /// Minimum number of connections by this route that use every egress that the user has named.
    pub(super) fn least_connections(&self, route: Route) -> u8 {
        match route {
            // ssh makes these, or the far end.
            Route::Ssh | Route::Back | Route::Udp => 1,
            Route::Direct | Route::Relay | Route::Socks5 => self.egresses.connections(),
        }
    }

    /// Notifies the user if `--bind` has no effect on this route, which was taken for `reason`.
    fn tell_of_egresses(&self, route: Route, reason: &str) {
        let whose = match route {
            Route::Ssh => "goes through ssh, whose connections leave",
            Route::Back => "goes over connections that the remote host makes, which come in",
            Route::Udp => "goes over datagrams, which leave",
            Route::Direct | Route::Relay | Route::Socks5 => return,
        };
        if !self.egresses.is_empty() {
            let text = format!(
                "--bind has no effect ({reason}): the data {whose} by the routes of this host; --via direct allows no \
                 other route than the one that --bind chooses"
            );
            (self.events)(Event::Notice { text });
        }
    }

    /// Tries all routes at the same time; returns for each `None` if it works, otherwise the
    /// obstacle.
    pub(super) fn try_each(&self) -> Vec<(Route, Option<String>)> {
        let mut results: Vec<(Route, Option<String>)> =
            vec![(Route::Direct, None), (Route::Back, None), (Route::Ssh, None)];
        if let Via::Proxy(proxy) = &self.via {
            results.push((proxy.route(), None));
        }
        let over = StopSignal::new();
        let _stopped = self.stop.while_waiting({
            let over = over.clone();
            move || over.request()
        });
        let (tell, outcomes) = bounded(results.len());
        for (route, _) in &results {
            let route = *route;
            self.attempt(route, &over, &tell, move |routes, over| match (route, &routes.via) {
                (Route::Relay | Route::Socks5, Via::Proxy(proxy)) => routes.by_proxy(proxy, over),
                (Route::Direct, _) => routes.direct(over),
                (route, _) => routes.first_by(route, over),
            });
        }
        drop(tell);
        let deadline = clock::now() + MOST_TRIAL;
        for (_, obstacle) in &mut results {
            *obstacle = Some(format!("it did not work within {MOST_TRIAL}"));
        }
        while let Ok(Report::Outcome(route, outcome)) = outcomes.recv_timeout((deadline - clock::now()).into()) {
            if let Some((_, obstacle)) = results.iter_mut().find(|(tried, _)| *tried == route) {
                *obstacle = outcome.err().map(|error| error.in_short());
            }
        }
        over.request();
        self.end();
        results
    }

    /// Ends the connections and logins that were begun and not taken.
    pub(super) fn end(&self) {
        self.forwarder.end();
        self.ahead.end();
    }

    /// Maximum number of connections by this route that can be made without a question to the
    /// user.
    pub(super) fn most_connections(&self, route: Route) -> u8 {
        match route {
            Route::Ssh => self.forwarder.most_connections(),
            Route::Direct | Route::Udp | Route::Back | Route::Relay | Route::Socks5 => MAX_STREAMS,
        }
    }

    /// Tries the routes in competition; returns the first link, its route, and the reason why the
    /// preferred route was not used. Cancels the other attempts.
    fn race(&self) -> Result<(Link, Route, String), ConnectError> {
        let over = self.stop.child();
        let won = self.race_until(&over);
        over.request();
        if !matches!(won, Ok((_, Route::Back, _))) {
            self.back.close();
        }
        if !matches!(won, Ok((_, Route::Ssh, _))) {
            self.forwarder.end();
        }
        if !matches!(won, Ok((_, Route::Direct, _))) {
            self.ahead.end();
        }
        won
    }

    /// Tries the routes as [`Race`] says, until `over` is requested.
    fn race_until(&self, over: &StopSignal) -> Result<(Link, Route, String), ConnectError> {
        (self.events)(connecting(&self.host, self.port));
        let patience = patience_of(self.round_trip);
        let due = (self.round_trip * ANSWER_DUE_ROUND_TRIPS).max(patience / ANSWER_DUE_DIVISOR).min(patience);
        let mut race = Race::new(clock::now(), Delays { due, patience }, self.expected);
        let (tell, reports) = unbounded();
        let (mut links, mut failures) = (Vec::new(), Vec::new());
        loop {
            let now = clock::now();
            let until = match race.next(now) {
                Next::Begin(route) => {
                    self.begin(route, over, &tell);
                    continue;
                }
                Next::Prepare => {
                    self.forwarder.prepare();
                    continue;
                }
                Next::Take(route) => {
                    let place = links.iter().position(|(linked, _)| *linked == route);
                    let (_, link) = links.swap_remove(place.expect("its link was reported"));
                    let is_overdue = race.is_direct_overdue(now);
                    let why = self.reason(route, (patience, is_overdue), &failures, race.has_begun(Route::Back));
                    return Ok((link, route, why));
                }
                Next::Lost => return Err(self.no_route(failures)),
                Next::Wait(until) => until,
            };
            let report = match until {
                Some(until) => reports.recv_timeout((until - now).into()),
                None => reports.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match report {
                Ok(Report::Answered(took)) => race.answered(clock::now(), patience_of(took)),
                Ok(Report::Outcome(route, Ok(link))) => {
                    race.linked(route);
                    links.push((route, link));
                }
                Ok(Report::Outcome(_, Err(ConnectError::Interrupted))) => return Err(ConnectError::Interrupted),
                Ok(Report::Outcome(route, Err(error))) => {
                    race.failed(route);
                    failures.push((route, error));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("this end can report, too"),
            }
        }
    }

    /// Tries a route on a thread of its own, and reports how it goes.
    fn begin(&self, route: Route, over: &StopSignal, tell: &Sender<Report>) {
        match route {
            Route::Direct => {
                let answered = tell.clone();
                self.attempt(route, over, tell, move |routes, stop| {
                    let begin = clock::now();
                    let carrier = routes.carrier(Route::Direct, 0, stop)?;
                    let _ = answered.send(Report::Answered(clock::now() - begin));
                    routes.first_over(carrier, Route::Direct, stop)
                });
            }
            Route::Back => self.attempt(route, over, tell, Self::connect_back),
            _ => self.attempt(route, over, tell, Self::through_ssh),
        }
    }

    /// Reason why the route that was taken was preferred to the port, which had `patience`; empty for the port.
    fn reason(
        &self,
        route: Route,
        (patience, is_overdue): (Span, bool),
        failures: &[(Route, ConnectError)],
        was_called_back: bool,
    ) -> String {
        if route == Route::Direct {
            return String::new();
        }
        let failure = |route| failures.iter().find(|(failed, _)| *failed == route).map(|(_, error)| error.in_short());
        let why = failure(Route::Direct).unwrap_or_else(|| match self.expected {
            Expected::Known(_) if !is_overdue => "it worked last time".to_owned(),
            _ => format!("{} port {} did not answer within {patience}", self.host, self.port),
        });
        if route != Route::Ssh || !was_called_back {
            return why;
        }
        let back = failure(Route::Back).unwrap_or_else(|| format!("it did not connect within {patience}"));
        format!("{why}; back to this host: {back}")
    }

    /// Error that names why each route failed.
    fn no_route(&self, mut failures: Vec<(Route, ConnectError)>) -> ConnectError {
        let order = [Route::Direct, Route::Back, Route::Ssh];
        failures.sort_by_key(|(route, _)| order.iter().position(|other| other == route));
        let reason = |(route, error): &(Route, ConnectError)| match route {
            Route::Ssh => format!("through ssh: {error}"),
            Route::Back => format!("back to this host: {}", error.in_short()),
            _ => format!("directly: {}", error.in_short()),
        };
        let reasons = failures.iter().map(reason).collect::<Vec<_>>().join("; ");
        ConnectError::NoRoute { host: self.host.clone(), port: self.port, reasons }
    }

    /// Tries a route on a thread of its own, by `link`, and sends the outcome to `tell`. A link
    /// that comes too late is dropped at once.
    fn attempt(
        &self,
        route: Route,
        over: &StopSignal,
        tell: &Sender<Report>,
        link: impl FnOnce(&Self, &StopSignal) -> Result<Link, ConnectError> + Send + 'static,
    ) {
        let (routes, over, telling) = (self.clone(), over.clone(), tell.clone());
        let attempt = move || drop(telling.send(Report::Outcome(route, link(&routes, &over))));
        if let Err(error) = start("route", attempt) {
            let _ = tell.send(Report::Outcome(route, Err(error.into())));
        }
    }

    /// Makes a link to the far end's port by TCP from this host, without further connections.
    fn direct(&self, stop: &StopSignal) -> Result<Link, ConnectError> {
        self.pinned(self.reach(0, stop)?, stop).inspect_err(|_| self.machine.forget())
    }

    /// Makes the first link of a session by this route, which is the only one that is tried.
    fn first_by(&self, route: Route, stop: &StopSignal) -> Result<Link, ConnectError> {
        self.first_over(self.carrier(route, 0, stop)?, route, stop)
    }

    /// Makes the first link of a session over `carrier`, and begins the further connections that
    /// the session needs.
    fn first_over(&self, carrier: Carrier, route: Route, stop: &StopSignal) -> Result<Link, ConnectError> {
        if let Carrier::Tcp(stream, _) = &carrier
            && !stop.is_requested()
        {
            self.ahead.begin_beside(stream, self.least_connections(route), self.maker(route));
        }
        self.pinned(carrier, stop).inspect_err(|_| self.machine.forget())
    }

    /// Returns a function that makes connections by a route that has worked. It holds no [`Ahead`]
    /// that has begun connections.
    fn maker(
        &self,
        route: Route,
    ) -> impl Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Clone + Send + 'static {
        let routes = Self { ahead: Ahead::new(Need::ONE, &Egresses::default()), ..self.clone() };
        move |number, stop| routes.carrier(route, number, stop)
    }

    /// Makes TCP connection `number` from this host to the far end's port.
    fn reach(&self, number: u8, stop: &StopSignal) -> Result<TcpStream, ConnectError> {
        let unanswered = |reason| ConnectError::DataPort { host: self.host.clone(), port: self.port, reason };
        let place = (self.host.as_str(), self.port);
        reach(place, &self.machine, self.family, &self.socket_settings(number), stop, unanswered)
    }

    /// Opens a stream over datagrams to the far end's port.
    fn over_datagrams(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let unanswered = |reason| ConnectError::DataPort { host: self.host.clone(), port: self.port, reason };
        let place = (self.host.as_str(), self.port);
        self.datagrams.stream(place, (&self.machine, self.family), stop, unanswered)
    }

    /// Has a connection over datagrams ready for the next session; false if they do not reach the far end's port.
    pub(super) fn reach_by_datagrams(&self, stop: &StopSignal) -> bool {
        self.datagrams.reach((&self.host, self.port), (&self.machine, self.family), stop)
    }

    /// Makes TCP connection `number` to the far end's port through `proxy`.
    fn reach_by(&self, proxy: &Proxy, number: u8, stop: &StopSignal) -> Result<TcpStream, ConnectError> {
        reach_by(proxy, (&self.host, self.port), self.family, &self.socket_settings(number), stop)
    }

    /// TCP options of connection `number`, with its egress.
    fn socket_settings(&self, number: u8) -> SocketSettings<'_> {
        SocketSettings { egress: self.egresses.of(number), ..socket_settings() }
    }

    /// Makes a link to the far end's port through `proxy`, without further connections.
    fn by_proxy(&self, proxy: &Proxy, stop: &StopSignal) -> Result<Link, ConnectError> {
        self.pinned(self.reach_by(proxy, 0, stop)?, stop)
    }

    /// Makes a link over a connection that the far end makes to this host.
    fn connect_back(&self, stop: &StopSignal) -> Result<Link, ConnectError> {
        self.pinned(self.back.connect(stop)?, stop)
    }

    /// Makes the first link of a session through an ssh connection.
    fn through_ssh(&self, stop: &StopSignal) -> Result<Link, ConnectError> {
        self.pinned(self.forwarder.first(stop)?, stop)
    }

    /// Makes a link of a connection, if the far end proves to hold its key.
    fn pinned(&self, carrier: impl Into<Carrier>, stop: &StopSignal) -> Result<Link, ConnectError> {
        pinned(carrier, (&self.host, self.port), &self.identity, self.key, stop)
    }
}

/// Report of an attempt at a route.
enum Report {
    /// The port has accepted a connection, after this time.
    Answered(Span),
    /// The link that was made over a route, or the error.
    Outcome(Route, Result<Link, ConnectError>),
}
