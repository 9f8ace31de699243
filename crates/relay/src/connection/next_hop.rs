//! The route of a request: candidates for the next hop, tried one after the other (sans-I/O).

use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::sync::Arc;

use icdc_protocol::relay::peer::{Header, MAX_HOPS, RelayId, Verdict};
use icdc_protocol::relay::{Destination, Host, HostName};
use icdc_units::Time;

use crate::config::{Decision, Hop, ListenerKind, NextRelay, Routes, Rules};

/// Most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

/// Request of a client: its destination and how it came here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) destination: Destination,
    pub(super) client: SocketAddr,
    /// The destination must have a public address.
    pub(super) public_only: bool,
    /// Ids of the relays that the request has passed so far.
    pub(super) hops: Vec<RelayId>,
}

impl Request {
    /// A request that a client made itself, through no other relay.
    pub(super) fn new(destination: Destination, client: SocketAddr) -> Self {
        Self { destination, client, public_only: false, hops: Vec::new() }
    }

    /// The header that asks the next relay for the same.
    pub(super) fn header(&self, own: RelayId) -> Header {
        let hops = self.hops.iter().copied().chain([own]).collect();
        let Self { destination, client, public_only, .. } = self;
        Header { destination: destination.clone(), client: *client, public_only: *public_only, hops }
    }
}

impl From<Header> for Request {
    fn from(header: Header) -> Self {
        let Header { destination, client, public_only, hops } = header;
        Self { destination, client, public_only, hops }
    }
}

/// Rules and routes that apply to a client.
pub(super) struct Policy<'a> {
    /// Id of this relay.
    pub(super) own: RelayId,
    pub(super) rules: &'a Rules,
    pub(super) routes: &'a Routes,
    /// The listener that the client came to.
    pub(super) listener: &'a ListenerKind,
}

/// A request that cannot be served: the verdict for the client, and the reason for the log (empty
/// where the verdict says it all).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) Verdict, pub(super) String);

/// Next hop of a connection, to which its far leg leads.
#[derive(Clone, Debug)]
pub(super) enum NextHop {
    /// The destination itself, at this address.
    Destination(SocketAddr),
    /// Another relay.
    Relay(Arc<NextRelay>),
}

impl Display for NextHop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destination(address) => address.fmt(out),
            Self::Relay(relay) => write!(out, "relay {}", relay.place),
        }
    }
}

impl NextHop {
    /// Name in the status: `direct`, or the next relay.
    pub(super) fn via(&self) -> String {
        match self {
            Self::Destination(_) => "direct".to_owned(),
            Self::Relay(relay) => relay.place.to_string(),
        }
    }
}

/// A candidate for the next hop.
#[derive(Clone, Debug)]
pub(super) enum Candidate {
    /// A next hop whose address is known, or another relay.
    Hop(NextHop),
    /// The destination's name is resolved first; its addresses are then reached `directly`, or as
    /// the routes say.
    Lookup { name: HostName, port: u16, directly: bool },
}

/// A request with the candidates that are left for it.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) request: Request,
    candidates: VecDeque<Candidate>,
    /// Time limit of all candidates together.
    deadline: Time,
    /// Failure of the last candidate that was tried.
    failure: Refusal,
    /// Number of names that have been looked up.
    queries: u64,
}

impl Route {
    /// A request without candidates yet; `deadline` is the time limit of all of them together.
    pub(super) fn new(request: Request, deadline: Time) -> Self {
        let failure = Refusal(Verdict::Unreachable, String::new());
        Self { request, candidates: VecDeque::new(), deadline, failure, queries: 0 }
    }

    /// Finds the first candidates for the next hop, by rules and routes.
    ///
    /// # Errors
    /// The request forms a loop, or the rules deny it.
    pub(super) fn plan(&mut self, policy: &Policy<'_>) -> Result<(), Refusal> {
        let request = &mut self.request;
        if request.hops.contains(&policy.own) || request.hops.len() >= MAX_HOPS {
            let why = "it has passed this relay before: the relays' routes form a loop";
            return Err(Refusal(Verdict::Loop, why.to_owned()));
        }
        let (client, port) = (request.client.ip(), request.destination.port);
        let name = match &request.destination.host {
            Host::Address(address) => {
                let address = SocketAddr::new(*address, port);
                return self.add_addresses(&[address], false, policy);
            }
            Host::Name(name) => name.clone(),
        };
        let must_resolve = policy.rules.need_address(policy.listener, client);
        let Some(hops) = policy.routes.for_names().filter(|_| !must_resolve) else {
            self.candidates.push_back(Candidate::Lookup { name, port, directly: false });
            return Ok(());
        };
        if policy.rules.judge_name(policy.listener, client, port) == Decision::Denied {
            return Err(Refusal(Verdict::Denied, String::new()));
        }
        request.public_only |= policy.listener.is_socks();
        self.candidates.extend(hops.into_iter().map(|hop| match hop {
            Hop::Direct => Candidate::Lookup { name: name.clone(), port, directly: true },
            Hop::Relay(relay) => Candidate::Hop(NextHop::Relay(relay)),
        }));
        Ok(())
    }

    /// Adds candidates for the addresses of the destination: the addresses themselves if
    /// `directly`, else the next hops that the routes have for them.
    ///
    /// # Errors
    /// The rules deny all of them.
    pub(super) fn add_addresses(
        &mut self,
        addresses: &[SocketAddr],
        directly: bool,
        policy: &Policy<'_>,
    ) -> Result<(), Refusal> {
        let (client, public_only) = (self.request.client.ip(), self.request.public_only);
        let judge = |address: &SocketAddr| policy.rules.judge(policy.listener, client, *address, public_only);
        let admitted = addresses.iter().filter(|address| judge(address) != Decision::Denied);
        let admitted: Vec<SocketAddr> = admitted.take(MAX_ADDRESSES).copied().collect();
        let Some(&first) = admitted.first() else {
            return Err(Refusal(Verdict::Denied, String::new()));
        };
        let hops = if directly { vec![Hop::Direct] } else { policy.routes.find(first.ip()) };
        if hops.iter().any(|hop| matches!(hop, Hop::Relay(_))) {
            self.request.public_only |= policy.listener.is_socks() && judge(&first) != Decision::Allowed;
            self.request.destination = first.into();
        }
        for hop in hops {
            match hop {
                Hop::Direct => {
                    let destinations = admitted.iter().copied().map(NextHop::Destination);
                    self.candidates.extend(destinations.map(Candidate::Hop));
                }
                Hop::Relay(relay) => self.candidates.push_back(Candidate::Hop(NextHop::Relay(relay))),
            }
        }
        Ok(())
    }

    /// Takes the next candidate, with the time by which it must have led to the destination.
    ///
    /// # Errors
    /// No candidate is left: the [`Refusal`] of the last one.
    pub(super) fn next(&mut self, now: Time) -> Result<(Candidate, Time), Refusal> {
        let candidate = self.candidates.pop_front().ok_or_else(|| self.failure.clone())?;
        let left = self.deadline - now;
        // The last one may take all the time that is left.
        let share = if self.candidates.is_empty() { left } else { left / 2 };
        Ok((candidate, now + share))
    }

    /// Records that a candidate has failed, and logs it where another one is left.
    pub(super) fn failed(&mut self, candidate: &impl Display, Refusal(verdict, why): Refusal) {
        if !self.candidates.is_empty() {
            let client = self.request.client;
            tracing::info!(%client, "next hop {candidate} failed: {why}; trying the next route");
        }
        self.failure = Refusal(verdict, format!("{candidate}: {why}"));
    }

    /// Puts a hop before all others again.
    pub(super) fn retry(&mut self, hop: NextHop) {
        self.candidates.push_front(Candidate::Hop(hop));
    }

    /// Number of the next query of a name.
    pub(super) fn next_query(&mut self) -> u64 {
        self.queries += 1;
        self.queries
    }
}

#[cfg(test)]
mod tests {
    use icdc_units::Span;

    use super::*;
    use crate::config::Route as ConfiguredRoute;

    fn relay(place: &str) -> Hop {
        Hop::Relay(Arc::new(NextRelay::new(place.parse().expect(place), None, 0)))
    }

    fn routes(via: Vec<Hop>) -> Routes {
        Routes(vec![ConfiguredRoute { to: None, via }])
    }

    fn request(destination: &str) -> Request {
        let client = "198.51.100.1:4000".parse().expect("an address");
        Request::new(destination.parse().expect(destination), client)
    }

    fn at(seconds: u64) -> Time {
        Time::ORIGIN + Span::from_secs(seconds)
    }

    /// Plans a route of 20 s from the start on.
    fn planned(request: Request, routes: &Routes, rules: &Rules, listener: &ListenerKind) -> Result<Route, Refusal> {
        let policy = Policy { own: RelayId(7), rules, routes, listener };
        let mut route = Route::new(request, at(20));
        route.plan(&policy)?;
        Ok(route)
    }

    /// Description of the next candidate, and its deadline.
    fn next(route: &mut Route, now: Time) -> Result<(String, Time), Refusal> {
        route.next(now).map(|(candidate, deadline)| {
            let text = match candidate {
                Candidate::Hop(hop) => hop.to_string(),
                Candidate::Lookup { name, port, directly } => format!("{}:{port} {directly}", name.as_str()),
            };
            (text, deadline)
        })
    }

    #[test]
    fn the_next_candidate_follows_a_failed_one_and_the_last_failure_is_told() {
        let routes = routes(vec![relay("192.0.2.1:2634"), relay("192.0.2.2:2634"), Hop::Direct]);
        let forward = ListenerKind::Transparent;
        let mut route = planned(request("203.0.113.9:80"), &routes, &Rules::default(), &forward).expect("a route");
        assert_eq!(next(&mut route, at(0)), Ok(("relay 192.0.2.1:2634".to_owned(), at(10))), "half of the time");
        let gone = || Refusal(Verdict::Refused, "connection refused".to_owned());
        route.failed(&"relay 192.0.2.1:2634", gone());
        assert_eq!(next(&mut route, at(10)), Ok(("relay 192.0.2.2:2634".to_owned(), at(15))));
        route.failed(&"relay 192.0.2.2:2634", gone());
        assert_eq!(
            next(&mut route, at(12)),
            Ok(("203.0.113.9:80".to_owned(), at(20))),
            "the last has all that is left"
        );
        route.failed(&"203.0.113.9:80", gone());
        let expected = Refusal(Verdict::Refused, "203.0.113.9:80: connection refused".to_owned());
        assert_eq!(next(&mut route, at(12)), Err(expected));
    }

    #[test]
    fn a_hop_that_is_retried_goes_before_the_others() {
        let routes = routes(vec![relay("192.0.2.1:2634"), Hop::Direct]);
        let transparent = ListenerKind::Transparent;
        let mut route = planned(request("203.0.113.9:80"), &routes, &Rules::default(), &transparent).expect("a route");
        let Ok((Candidate::Hop(hop), _)) = route.next(at(0)) else { panic!("a relay") };
        route.retry(hop);
        assert_eq!(next(&mut route, at(0)), Ok(("relay 192.0.2.1:2634".to_owned(), at(10))));
    }

    #[test]
    fn a_name_is_resolved_by_the_last_relay_where_nothing_here_needs_its_address() {
        let via_relay = routes(vec![relay("192.0.2.1:2634"), Hop::Direct]);
        let socks = ListenerKind::Socks5(None);
        let plan = |routes: &Routes, rules: &Rules| {
            let loopback = Request { client: ([127, 0, 0, 1], 4000).into(), ..request("db.example.org:5432") };
            planned(loopback, routes, rules, &socks).expect("a route")
        };
        let mut by_name = plan(&via_relay, &Rules::default());
        assert_eq!(next(&mut by_name, at(0)).expect("a relay").0, "relay 192.0.2.1:2634");
        assert!(by_name.request.public_only, "the last relay keeps SOCKS to public addresses");
        assert_eq!(next(&mut by_name, at(0)).expect("a name").0, "db.example.org:5432 true");

        let deny = crate::config::Rule {
            allow: false,
            listener: None,
            from: None,
            to: Some("203.0.113.0/24".parse().expect("a prefix")),
            ports: None,
        };
        let rules = Rules(vec![deny]);
        let mut resolved_here = plan(&via_relay, &rules);
        assert_eq!(next(&mut resolved_here, at(0)).expect("a name").0, "db.example.org:5432 false");
        let policy = Policy { own: RelayId(7), rules: &rules, routes: &via_relay, listener: &socks };
        let denied = resolved_here.add_addresses(&[([203, 0, 113, 9], 5432).into()], false, &policy);
        assert_eq!(denied, Err(Refusal(Verdict::Denied, String::new())));
        resolved_here.add_addresses(&[([192, 0, 2, 9], 5432).into()], false, &policy).expect("admitted");
        assert_eq!(next(&mut resolved_here, at(0)).expect("a relay").0, "relay 192.0.2.1:2634");
        assert_eq!(resolved_here.request.destination.to_string(), "192.0.2.9:5432", "the address that was judged");
    }

    #[test]
    fn a_request_that_was_here_before_is_refused() {
        let looping = Request { hops: vec![RelayId(3), RelayId(7)], ..request("203.0.113.9:80") };
        let peer = ListenerKind::Peer(None);
        let refused = planned(looping, &Routes::default(), &Rules::default(), &peer).map(drop);
        assert!(matches!(refused, Err(Refusal(Verdict::Loop, _))), "{refused:?}");
    }
}
