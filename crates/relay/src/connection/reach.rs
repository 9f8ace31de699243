//! The ways, tried one after the other until one leads to the destination.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use icdc_protocol::relay::peer::{Header, Verdict};
use icdc_protocol::relay::{Host, proxy_v2};
use icdc_trust::server_name;
use icdc_units::Time;
use rustix::io::Errno;

use super::ways::{Purpose, Question, Way};
use super::{Connection, End, Next, Stage};
use crate::config::ListenerKind;
use crate::leg::Leg;
use crate::resolver;
use crate::rooms;
use crate::socket;
use crate::tools::{Side, Tools};

impl Connection {
    /// Takes the next way that can be begun.
    pub(super) fn try_next(&mut self, tools: &mut Tools) -> Result<Next, End> {
        loop {
            self.far = None;
            let Some(wish) = &mut self.wish else { return Ok(Next::Wait) };
            let Some(way) = wish.ways.pop_front() else {
                let (verdict, why) = wish.failure.clone();
                return Err(End::NotReached(verdict, why));
            };
            let left = wish.until - tools.now;
            // The last one may take all the time that there is.
            let share = if wish.ways.is_empty() { left } else { left / 2 };
            self.deadline = tools.now + share;
            wish.current = Some(way.clone());
            wish.warm = false;
            let (purpose, name, port) = match way {
                Way::Direct(address) => {
                    if self.begin(address, false, tools) {
                        return Ok(Next::Wait);
                    }
                    continue;
                }
                Way::Relay(relay) => {
                    if let Some(leg) = tools.warm.take(&relay) {
                        wish.warm = true;
                        let watched = tools.watch_as(&leg, self.id, Side::Far);
                        self.far = Some(leg);
                        match watched {
                            Ok(()) => return self.introduce(tools),
                            Err(error) => self.failed(Verdict::Unreachable, &error),
                        }
                        continue;
                    }
                    match (relay.place.address(), &relay.place.host) {
                        (Some(address), _) => {
                            if self.begin(address, true, tools) {
                                return Ok(Next::Wait);
                            }
                            continue;
                        }
                        (None, Host::Name(name)) => (Purpose::Relay, name.clone(), relay.place.port),
                        (None, Host::Address(_)) => continue,
                    }
                }
                Way::Resolve { directly } => match &wish.destination.host {
                    Host::Name(name) => (Purpose::Destination { directly }, name.clone(), wish.destination.port),
                    Host::Address(_) => continue,
                },
            };
            wish.questions += 1;
            let question = Question { number: wish.questions, purpose };
            let is_chosen = matches!(question.purpose, Purpose::Destination { .. })
                && !matches!(self.listener.kind, ListenerKind::Forward(_));
            let asked = tools.house.resolver.ask(resolver::Question {
                name,
                port,
                asker: is_chosen.then_some(wish.client.ip()),
                number: (self.id, question.number),
                answer_to: Arc::clone(&tools.mailbox),
                until: self.deadline,
            });
            if !asked {
                wish.failure = (Verdict::Busy, "too many names are being resolved".to_owned());
                continue;
            }
            self.stage = Stage::Resolving(question);
            return Ok(Next::Wait);
        }
    }

    /// A name has been resolved.
    pub(crate) fn resolved(
        &mut self,
        number: u64,
        found: io::Result<Vec<SocketAddr>>,
        tools: &mut Tools,
    ) -> Result<Next, End> {
        let purpose = match &self.stage {
            Stage::Resolving(question) if question.number == number => question.purpose,
            _ => return Ok(Next::Wait),
        };
        let addresses = match found {
            Ok(addresses) if !addresses.is_empty() => addresses,
            Ok(_) => {
                self.failed(Verdict::UnknownName, &"the name has no address");
                return self.try_next(tools);
            }
            Err(error) => {
                self.failed(Verdict::UnknownName, &error);
                return self.try_next(tools);
            }
        };
        match purpose {
            Purpose::Destination { directly } => {
                self.route_to(&addresses, directly)?;
                self.try_next(tools)
            }
            Purpose::Relay => {
                // One address will do: a relay with several listens on all of them.
                if self.begin(addresses[0], true, tools) { Ok(Next::Wait) } else { self.try_next(tools) }
            }
        }
    }

    /// Begins to connect; false if that has failed at once.
    fn begin(&mut self, address: SocketAddr, between_relays: bool, tools: &Tools) -> bool {
        if tools.house.is_own(address) {
            self.failed(Verdict::Loop, &"that is this relay itself");
            return false;
        }
        let begun = if between_relays {
            socket::connect_to_relay(address, &self.config, &tools.house)
        } else {
            let source = self.config.exit.keep_source.then_some(self.client);
            socket::connect_to_destination(address, source)
        };
        let watched = begun.and_then(Leg::new).and_then(|mut leg| {
            leg.between_relays = between_relays;
            tools.watch(&leg, self.id, Side::Far)?;
            Ok(leg)
        });
        match watched {
            Ok(leg) => {
                self.far = Some(leg);
                self.stage = Stage::Connecting;
                true
            }
            Err(error) => {
                self.failed(verdict_of(&error), &error);
                false
            }
        }
    }

    fn failed(&mut self, verdict: Verdict, why: &dyn std::fmt::Display) {
        let Some(wish) = &mut self.wish else { return };
        let way = match &wish.current {
            Some(Way::Direct(address)) => address.to_string(),
            Some(Way::Relay(relay)) => format!("relay {}", relay.place),
            _ => wish.destination.to_string(),
        };
        wish.failure = (verdict, format!("{way}: {why}"));
        if !wish.ways.is_empty() {
            tracing::info!(client = %self.client, "{way} cannot be had ({why}): the next way is tried");
        }
    }

    /// The current way takes too long.
    pub(super) fn give_way_up(&mut self, tools: &mut Tools) -> Result<Next, End> {
        self.failed(Verdict::TimedOut, &"no answer in time");
        self.try_next(tools)
    }

    /// Looks whether the far leg is connected.
    pub(super) fn connect(&mut self, tools: &mut Tools) -> Result<Next, End> {
        let Some(far) = self.far.as_mut().filter(|far| far.writable) else { return Ok(Next::Wait) };
        if let Some(error) = far.error() {
            self.failed(verdict_of(&error), &error);
            return self.try_next(tools);
        }
        let Some(peer) = far.peer() else { return Ok(Next::Wait) };
        let Some(Way::Relay(relay)) = self.wish.as_ref().and_then(|wish| wish.current.as_ref()) else {
            return self.introduce(tools);
        };
        let Some(tls) = &relay.tls else {
            relay.found_at(peer);
            return self.introduce(tools);
        };
        match rustls::ClientConnection::new(Arc::clone(tls), server_name()) {
            Ok(session) => far.secure(session.into()),
            Err(error) => {
                self.failed(Verdict::Unreachable, &error);
                return self.try_next(tools);
            }
        }
        self.stage = Stage::Securing;
        Ok(Next::Again)
    }

    pub(super) fn shake_hands(&mut self, tools: &mut Tools) -> Result<Next, End> {
        let Some(far) = &mut self.far else { return Ok(Next::Wait) };
        match far.shake_hands() {
            Ok(true) => {
                if let (Some(peer), Some(wish)) = (far.peer(), &self.wish)
                    && let Some(Way::Relay(relay)) = &wish.current
                {
                    relay.found_at(peer);
                }
                self.introduce(tools)
            }
            Ok(false) => Ok(Next::Wait),
            Err(error) => {
                self.failed(Verdict::Unreachable, &error);
                self.try_next(tools)
            }
        }
    }

    /// The far leg is there: says what has to be said before the data.
    fn introduce(&mut self, tools: &Tools) -> Result<Next, End> {
        let (Some(wish), Some(far)) = (&self.wish, &mut self.far) else { return Ok(Next::Wait) };
        let largest = rooms::largest(&self.config);
        for leg in [&mut self.near, &mut *far].into_iter().filter(|leg| leg.between_relays) {
            leg.take_room(&tools.house.rooms, largest);
            tools.house.paths.begin(leg, tools.now);
        }
        if wish.by_relay() {
            let mut hops = wish.hops.clone();
            hops.push(tools.house.id);
            let header = Header {
                destination: wish.destination.clone(),
                client: wish.client,
                public_only: wish.public_only,
                hops,
            };
            far.send_first(&header.encode());
            self.answer = Some(Vec::new());
            self.deadline = tools.now + self.config.limits.connect;
        } else {
            if self.config.exit.proxy_protocol
                && let Some(peer) = far.peer()
            {
                far.send_first(&proxy_v2::header(wish.client, peer));
            }
            self.deadline = Time::MAX;
            self.answer_near(Verdict::Connected);
        }
        self.moved_at = tools.now;
        self.stage = Stage::Passing;
        Ok(Next::Again)
    }

    /// Whether the far leg broke because it had been open for too long unused; then the same way is taken anew.
    pub(super) fn was_stale(&mut self) -> bool {
        let unsent = self.up.moved == 0 && self.answer.as_ref().is_some_and(Vec::is_empty);
        let Some(wish) = self.wish.as_mut().filter(|wish| wish.warm && unsent) else { return false };
        if let Some(way) = wish.current.take() {
            wish.ways.push_front(way);
        }
        self.answer = None;
        true
    }
}

/// What an error of connecting means to the client.
fn verdict_of(error: &io::Error) -> Verdict {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Verdict::Refused,
        io::ErrorKind::TimedOut => Verdict::TimedOut,
        // No port or descriptor left.
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Verdict::Busy,
        _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => Verdict::Busy,
        _ => Verdict::Unreachable,
    }
}
