//! The ways to a destination, as rules and routes have them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use icdc_protocol::relay::Destination;
use icdc_protocol::relay::peer::{Header, MAX_HOPS, RelayId, Verdict};
use icdc_units::Time;

use super::{Connection, End, Next};
use crate::config::{Decision, Hop, ListenerKind, NextRelay};
use crate::tools::Tools;

/// Most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 4;

/// What a client wants, and what has been tried for it.
pub(super) struct Wish {
    pub(super) destination: Destination,
    pub(super) client: SocketAddr,
    pub(super) public_only: bool,
    pub(super) hops: Vec<RelayId>,
    pub(super) ways: VecDeque<Way>,
    pub(super) current: Option<Way>,
    /// Names that have been asked for.
    pub(super) questions: u64,
    /// The current leg was open before it was asked for.
    pub(super) warm: bool,
    /// When all ways together must have led there.
    pub(super) until: Time,
    pub(super) failure: (Verdict, String),
}

/// One thing to try.
#[derive(Clone)]
pub(super) enum Way {
    Direct(SocketAddr),
    Relay(Arc<NextRelay>),
    /// The name is resolved first; then directly, or as the routes say.
    Resolve {
        directly: bool,
    },
}

/// A name that is being resolved.
pub(super) struct Question {
    /// Answers to earlier ones may still come.
    pub(super) number: u64,
    pub(super) purpose: Purpose,
}

/// What a name is resolved for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Destination { directly: bool },
    Relay,
}

impl Wish {
    pub(super) fn new(destination: Destination, client: SocketAddr) -> Self {
        Self {
            destination,
            client,
            public_only: false,
            hops: Vec::new(),
            ways: VecDeque::new(),
            current: None,
            questions: 0,
            warm: false,
            until: Time::MAX,
            failure: (Verdict::Unreachable, String::new()),
        }
    }

    pub(super) fn from_relay(header: Header) -> Self {
        let Header { destination, client, public_only, hops } = header;
        Self { public_only, hops, ..Self::new(destination, client) }
    }

    /// Whether it goes by another relay.
    pub(super) fn by_relay(&self) -> bool {
        matches!(self.current, Some(Way::Relay(_)))
    }

    /// The way taken, in words.
    pub(super) fn via(&self) -> String {
        match &self.current {
            Some(Way::Relay(relay)) => relay.place.to_string(),
            _ => "direct".to_owned(),
        }
    }
}

impl Connection {
    /// Begins with the wish.
    pub(super) fn set_out(&mut self, tools: &mut Tools) -> Result<Next, End> {
        let Some(wish) = &mut self.wish else { return Ok(Next::Wait) };
        wish.until = tools.now + self.config.limits.connect;
        if wish.hops.contains(&tools.house.id) || wish.hops.len() >= MAX_HOPS {
            return Err(End::NotReached(
                Verdict::Loop,
                "it came by here before: the relays' routes form a loop".to_owned(),
            ));
        }
        let needs_address = self.config.rules.need_address(&self.listener.kind, wish.client.ip());
        match wish.destination.address() {
            Some(address) => self.route_to(&[address], false)?,
            None => match self.config.routes.for_names().filter(|_| !needs_address) {
                None => wish.ways.push_back(Way::Resolve { directly: false }),
                Some(hops) => {
                    let port = wish.destination.port;
                    if self.config.rules.judge_name(&self.listener.kind, wish.client.ip(), port) == Decision::Denied {
                        return Err(End::NotReached(Verdict::Denied, String::new()));
                    }
                    wish.public_only |= matches!(self.listener.kind, ListenerKind::Socks5(_));
                    wish.ways.extend(hops.into_iter().map(|hop| match hop {
                        Hop::Direct => Way::Resolve { directly: true },
                        Hop::Relay(relay) => Way::Relay(relay),
                    }));
                }
            },
        }
        self.try_next(tools)
    }

    /// Plans the ways to addresses, of which the rules may leave none.
    pub(super) fn route_to(&mut self, addresses: &[SocketAddr], directly: bool) -> Result<(), End> {
        let Some(wish) = &mut self.wish else { return Ok(()) };
        let (client, public_only) = (wish.client.ip(), wish.public_only);
        let judge = |address: &SocketAddr| self.config.rules.judge(&self.listener.kind, client, *address, public_only);
        let admitted: Vec<SocketAddr> = addresses
            .iter()
            .filter(|address| judge(address) != Decision::Denied)
            .take(MOST_ADDRESSES)
            .copied()
            .collect();
        let Some(&first) = admitted.first() else {
            return Err(End::NotReached(Verdict::Denied, String::new()));
        };
        let hops = if directly { vec![Hop::Direct] } else { self.config.routes.find(first.ip()) };
        if hops.iter().any(|hop| matches!(hop, Hop::Relay(_))) {
            wish.public_only |=
                matches!(self.listener.kind, ListenerKind::Socks5(_)) && judge(&first) != Decision::Allowed;
            wish.destination = first.into();
        }
        for hop in hops {
            match hop {
                Hop::Direct => wish.ways.extend(admitted.iter().copied().map(Way::Direct)),
                Hop::Relay(relay) => wish.ways.push_back(Way::Relay(relay)),
            }
        }
        Ok(())
    }
}
