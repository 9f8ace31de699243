//! A far end that runs as a daemon (`icdc://`).
//!
//! The daemon proves to hold the key that `known_hosts` has for it, and this end proves to hold its
//! identity. An unknown daemon is added to `known_hosts` only if the user confirms its fingerprint.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use icdc_link::{Carrier, Link};
use icdc_stop::StopSignal;
use icdc_tcp::{Egresses, Family, SocketSettings, clock};
use icdc_transfer::{Event, EventSink, Via as Route};
use icdc_trust::{DEFAULT_PORT, HostKey, Identity, KnownHosts, PublicKey, ServerPin, client_config};
use icdc_tuning::buffers::socket_settings;
use icdc_units::{Span, Time};

use super::ahead::{Ahead, Need};
use super::by_datagrams::{ByDatagrams, Choice};
use super::by_proxy::reach_by;
use super::error::ConnectError;
use super::machine::Machine;
use super::reach::{connecting, pinned, reach, shake_hands};
use super::{Dial, Further, Reaches};
use crate::options::{CopyOptions, Via};

/// Maximum age at which the connection that verified the daemon's key still serves the first
/// request.
const FRESH: Span = Span::from_secs(5);

/// A far end that runs as a daemon, whose key was verified; makes links to it.
pub(crate) struct DaemonFar {
    address: Address,
    identity: Arc<Identity>,
    key: PublicKey,
    stop: StopSignal,
    ahead: Ahead,
    choice: Choice,
    first: Option<(Link, Time)>,
}

/// Host and port of a daemon, and how they are reached.
#[derive(Clone, Debug)]
struct Address {
    host: String,
    port: u16,
    family: Family,
    /// The route that the user has chosen: a proxy, datagrams, or else TCP.
    via: Via,
    /// True if icdc has chosen datagrams in place of TCP.
    takes_datagrams: bool,
    /// The connection over datagrams, as soon as there is one.
    datagrams: ByDatagrams,
    egresses: Egresses,
    /// The machine of this name with which the session is.
    machine: Machine,
}

impl DaemonFar {
    /// Connects and verifies the daemon's key against `known_hosts`; asks the user about an unknown
    /// one. `need` says how many connections its sessions begin with.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn open(
        host: &str,
        port: u16,
        need: Need,
        options: &CopyOptions,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        let (host, family, egresses) = (host.to_owned(), options.family, options.egresses.clone());
        let (via, datagrams) = (options.via.clone(), ByDatagrams::default());
        let mut choice = Choice::new(format!("icdc://{host}:{port}"), options);
        let identity = Arc::new(load_identity(&options.identity)?);
        let machine = Machine::default();
        let takes_datagrams = false;
        let mut address = Address { host, port, family, via, takes_datagrams, datagrams, egresses, machine };
        let mut known = KnownHosts::load(&options.known_hosts)?;
        let ahead = Ahead::new(need, &options.egresses);
        let checked =
            address.by_choice(&mut choice, |address| address.connect_and_check(&identity, &known, &ahead, stop));
        let (link, key) = match checked? {
            KeyCheck::Known(link, key) => (link, key),
            KeyCheck::Changed(key, line) => {
                return Err(ConnectError::HostChanged {
                    place: address.place(),
                    fingerprint: key.fingerprint(),
                    known_hosts: known.path().display().to_string(),
                    line,
                    remedy: address.remedy(&key),
                });
            }
            KeyCheck::Unknown(key) => {
                ahead.end();
                let fingerprint = key.fingerprint();
                let confirmed =
                    options.confirm_host.as_ref().is_some_and(|confirm| confirm(&address.place(), &fingerprint));
                if stop.is_requested() {
                    return Err(ConnectError::Interrupted);
                }
                if !confirmed {
                    let (place, remedy) = (address.place(), address.remedy(&key));
                    return Err(ConnectError::HostUnknown { place, fingerprint, remedy });
                }
                known.append(&address.host, address.port, &key)?;
                (address.first(&identity, key, &ahead, stop)?, key)
            }
        };
        let (stop, first) = (stop.clone(), Some((link, clock::now())));
        Ok(Self { address, identity, key, stop, ahead, choice, first })
    }

    /// Makes a link to the daemon, the first of a session; the first call returns the link that
    /// verified the key, if it is fresh.
    pub(crate) fn link(&mut self, events: &EventSink) -> Result<Link, ConnectError> {
        match self.first.take() {
            Some((link, since)) if clock::now() - since < FRESH => {
                self.tell_of_datagrams(events);
                Ok(link)
            }
            _ => {
                events(connecting(&self.address.host, self.address.port));
                self.ahead.end();
                self.address.machine.begin_anew();
                self.address.datagrams.begin_anew();
                let link = self.address.by_choice(&mut self.choice, |address| {
                    address.first(&self.identity, self.key, &self.ahead, &self.stop)
                })?;
                self.tell_of_datagrams(events);
                Ok(link)
            }
        }
    }

    /// Tells the user that data goes over datagrams although that was not asked for.
    fn tell_of_datagrams(&self, events: &EventSink) {
        if let Some(reason) = self.choice.reason() {
            events(Event::Route { via: Route::Udp, reason: reason.to_owned() });
        }
    }

    /// Returns a function that makes one further link to the daemon with each call.
    pub(crate) fn further(&self) -> Further<'static> {
        let (address, identity, key) = (self.address.clone(), Arc::clone(&self.identity), self.key);
        let ahead = self.ahead.clone();
        Box::new(move |number, stop| address.pinned(ahead.take(number, address.maker(), stop)?, &identity, key, stop))
    }

    /// See [`Connect::datagrams`](super::Connect::datagrams).
    pub(crate) fn datagrams(&self) -> Option<Reaches> {
        let address = self.address.clone();
        self.choice.is_open().then(|| Box::new(move |stop: &StopSignal| address.reach_by_datagrams(stop)) as Reaches)
    }

    /// See [`Connect::is_over_datagrams`](super::Connect::is_over_datagrams).
    pub(crate) fn is_over_datagrams(&self) -> bool {
        self.address.takes_datagrams
    }

    /// Decision between TCP and datagrams for the sessions.
    pub(super) fn choice(&mut self) -> &mut Choice {
        &mut self.choice
    }

    /// Route that data takes, and a function that makes one further connection by it.
    pub(crate) fn dial(&self) -> (Route, Dial) {
        let address = self.address.clone();
        let route = match &address.via {
            Via::Proxy(proxy) => proxy.route(),
            Via::Udp => Route::Udp,
            _ if address.takes_datagrams => Route::Udp,
            Via::Auto | Via::Direct | Via::Back | Via::Ssh => Route::Direct,
        };
        (route, Box::new(move |number, stop| address.stream(number, stop)))
    }

    /// Minimum number of connections that use every egress that the user has named.
    pub(crate) fn least_connections(&self) -> u8 {
        self.address.egresses.connections()
    }

    /// Public key of the daemon.
    pub(crate) fn key(&self) -> PublicKey {
        self.key
    }
}

/// Outcome of checking the daemon's key by the first connection.
enum KeyCheck {
    /// The key is the known one; the link is ready.
    Known(Link, PublicKey),
    /// The daemon is not in `known_hosts`; it has this key.
    Unknown(PublicKey),
    /// The key differs from the one in this line of `known_hosts`.
    Changed(PublicKey, usize),
}

impl Address {
    /// Makes a link and checks the daemon's key against `known`. A key that is not the known one is
    /// no error.
    fn connect_and_check(
        &self,
        identity: &Identity,
        known: &KnownHosts,
        ahead: &Ahead,
        stop: &StopSignal,
    ) -> Result<KeyCheck, ConnectError> {
        let shown = Arc::new(Mutex::new(None));
        let verify = {
            let (shown, known, address) = (Arc::clone(&shown), known.clone(), self.clone());
            move |key: &PublicKey| {
                let verdict = known.check(&address.host, address.port, key);
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some((*key, verdict));
                if verdict == HostKey::Known { Ok(()) } else { Err("it is not the known one".to_owned()) }
            }
        };
        let config = client_config(identity, ServerPin::Verify(Box::new(verify)));
        let stream = self.first_stream(ahead, stop)?;
        let outcome = shake_hands(stream, config, stop);
        let shown = *shown.lock().unwrap_or_else(PoisonError::into_inner);
        match (outcome, shown) {
            (Ok(link), Some((key, _))) => Ok(KeyCheck::Known(link, key)),
            (Err(_), _) if stop.is_requested() => Err(ConnectError::Interrupted),
            (Err(_), Some((key, HostKey::Unknown))) => Ok(KeyCheck::Unknown(key)),
            (Err(_), Some((key, HostKey::Changed { line }))) => Ok(KeyCheck::Changed(key, line)),
            (Err(error), _) => Err(ConnectError::of_handshake(error, &self.host, self.port)),
            (Ok(_), None) => unreachable!("no handshake succeeds without a key that was verified"),
        }
    }

    /// Makes the first link of a session, and begins the further connections that the session
    /// needs.
    fn first(
        &self,
        identity: &Identity,
        key: PublicKey,
        ahead: &Ahead,
        stop: &StopSignal,
    ) -> Result<Link, ConnectError> {
        let stream = self.first_stream(ahead, stop)?;
        self.pinned(stream, identity, key, stop).inspect_err(|_| self.machine.forget())
    }

    /// Makes the first connection of a session, and begins the further ones that it needs.
    fn first_stream(&self, ahead: &Ahead, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let stream = self.stream(0, stop)?;
        if let Carrier::Tcp(first, _) = &stream {
            ahead.begin_beside(first, self.egresses.connections(), self.maker());
        }
        Ok(stream)
    }

    /// Makes a link of a connection to the daemon, if it proves to hold `key`.
    fn pinned(
        &self,
        carrier: impl Into<Carrier>,
        identity: &Identity,
        key: PublicKey,
        stop: &StopSignal,
    ) -> Result<Link, ConnectError> {
        pinned(carrier, (&self.host, self.port), identity, key, stop)
    }

    /// Returns a function that makes the connection of a given number to the daemon.
    fn maker(&self) -> impl Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Clone + Send + 'static {
        let address = self.clone();
        move |number, stop| address.stream(number, stop)
    }

    /// Makes connection `number` of a session, directly, over datagrams or through the proxy.
    fn stream(&self, number: u8, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let (host, port) = (&self.host, self.port);
        let settings = SocketSettings { egress: self.egresses.of(number), ..socket_settings() };
        let unanswered = |reason| ConnectError::DaemonPort { host: host.clone(), port, reason };
        match &self.via {
            Via::Proxy(proxy) => reach_by(proxy, (host, port), self.family, &settings, stop).map(Carrier::from),
            Via::Udp => self.over_datagrams(stop),
            _ if self.takes_datagrams => self.over_datagrams(stop),
            Via::Auto | Via::Direct | Via::Back | Via::Ssh => {
                reach((host, port), &self.machine, self.family, &settings, stop, unanswered).map(Carrier::from)
            }
        }
    }

    /// Makes an attempt by the route that is chosen; where datagrams are and fail, another one by TCP.
    fn by_choice<T>(
        &mut self,
        choice: &mut Choice,
        attempt: impl Fn(&Self) -> Result<T, ConnectError>,
    ) -> Result<T, ConnectError> {
        self.takes_datagrams = choice.reason().is_some();
        match attempt(self) {
            Err(error) if self.takes_datagrams && !matches!(error, ConnectError::Interrupted) => {
                tracing::debug!(%error, "no session over datagrams");
                choice.leave();
                self.takes_datagrams = false;
                attempt(self)
            }
            outcome => outcome,
        }
    }

    /// Has a connection over datagrams ready for the next session; false if they do not reach the daemon.
    fn reach_by_datagrams(&self, stop: &StopSignal) -> bool {
        self.datagrams.reach((&self.host, self.port), (&self.machine, self.family), stop)
    }

    /// Opens a stream over datagrams to the daemon.
    fn over_datagrams(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let (host, port) = (&self.host, self.port);
        let unanswered = |reason| ConnectError::DaemonPort { host: host.clone(), port, reason };
        self.datagrams.stream((host, port), (&self.machine, self.family), stop, unanswered)
    }

    /// Address of the daemon as `known_hosts` writes it.
    fn place(&self) -> String {
        match (self.host.contains(':'), self.port) {
            (true, port) => format!("[{}]:{port}", self.host),
            (false, DEFAULT_PORT) => self.host.clone(),
            (false, port) => format!("{}:{port}", self.host),
        }
    }

    /// Command by which the user trusts the daemon's key.
    fn remedy(&self, key: &PublicKey) -> String {
        format!("icdc keygen --trust '{}' '{key}'", self.place())
    }
}

/// Loads the user's key for daemons from a file, or from the ssh agent.
fn load_identity(path: &Path) -> Result<Identity, ConnectError> {
    Identity::load_with_agent(path).map_err(|error| ConnectError::Identity { reason: error.to_string() })
}
