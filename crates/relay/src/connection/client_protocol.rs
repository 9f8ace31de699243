//! The request of a client, in the protocol of its listener (sans-I/O).
//!
//! [`Greeting::next`] returns what to do; [`Greeting::receive`] takes what the client has sent.

use std::net::SocketAddr;
use std::sync::Arc;

use icdc_protocol::relay::Destination;
use icdc_protocol::relay::peer::{Header, MAX_HEADER};
use icdc_protocol::relay::socks5::{self, Handshake, MAX_MESSAGE};
use icdc_units::{Span, Time};

use super::next_hop::Request;
use crate::config::{Limits, ListenerKind, Users};

/// A client that has not made its request yet.
pub(super) struct Greeting {
    /// Time limit of the client's request.
    pub(super) deadline: Time,
    protocol: Protocol,
}

/// Protocol of the client's listener, and the progress of its request.
enum Protocol {
    /// A forwarded port, all of whose clients have this destination.
    Forward(Destination),
    /// The client's packets are addressed to the destination.
    Transparent,
    /// A SOCKS 5 handshake is in progress.
    Socks5 { handshake: Handshake, users: Option<Arc<Users>>, input: Vec<u8> },
    /// The client is another relay.
    Peer(Peer),
}

/// Progress of the greeting of another relay.
enum Peer {
    /// The TLS handshake, if the leg has TLS, is not complete.
    Handshaking { idle: Span, request: Span },
    /// The relay has sent nothing: it may keep the connection warm for later clients.
    Idle { request: Span },
    /// A part of the header has come.
    Header { input: Vec<u8> },
}

/// Next step in the greeting of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Complete the TLS handshake, if the leg has TLS; then call [`Greeting::handshake_completed`].
    Handshake,
    /// Read at most this number of bytes, and pass them to [`Greeting::receive`].
    Read(usize),
    /// Send these bytes to the client.
    Reply(Vec<u8>),
    /// Send these bytes to a client that has authenticated.
    Authenticated([u8; 2]),
    /// The client wants to go where its packets are addressed to.
    OriginalDestination,
    /// The request, and bytes that the client has sent behind it.
    Request(Request, Vec<u8>),
    /// The client is rejected; `reply` is what its protocol sends then, if anything.
    Reject { reason: String, reply: Option<Vec<u8>> },
}

impl Greeting {
    /// Greeting of a client that was accepted at `now` by a listener of this kind.
    pub(super) fn new(kind: &ListenerKind, limits: &Limits, now: Time) -> Self {
        let protocol = match kind {
            ListenerKind::Forward(destination) => Protocol::Forward(destination.clone()),
            ListenerKind::Transparent => Protocol::Transparent,
            ListenerKind::Socks5(users) => {
                Protocol::Socks5 { handshake: Handshake::new(users.is_some()), users: users.clone(), input: Vec::new() }
            }
            ListenerKind::Peer(_) => Protocol::Peer(Peer::Handshaking { idle: limits.idle, request: limits.greeting }),
        };
        Self { deadline: now + limits.greeting, protocol }
    }

    /// Whether the client is another relay that keeps the connection warm for later clients.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.protocol, Protocol::Peer(Peer::Idle { .. }))
    }

    /// Returns the next operation. `client` is the client's address.
    pub(super) fn next(&mut self, client: SocketAddr) -> Step {
        match &mut self.protocol {
            Protocol::Forward(destination) => Step::Request(Request::new(destination.clone(), client), Vec::new()),
            Protocol::Transparent => Step::OriginalDestination,
            Protocol::Socks5 { handshake, users, input } => next_of_socks(handshake, users.as_deref(), input, client),
            Protocol::Peer(Peer::Handshaking { .. }) => Step::Handshake,
            Protocol::Peer(Peer::Idle { .. }) => Step::Read(MAX_HEADER),
            Protocol::Peer(Peer::Header { input }) => match Header::decode(input) {
                Ok(None) => read_up_to(MAX_HEADER, input.len()),
                Ok(Some((header, used))) => Step::Request(header.into(), input.split_off(used)),
                Err(error) => Step::Reject { reason: error.to_string(), reply: None },
            },
        }
    }

    /// Records that the TLS handshake is complete, or that there is none: the other relay may now
    /// keep the connection idle before its request.
    pub(super) fn handshake_completed(&mut self, now: Time) {
        if let Protocol::Peer(peer) = &mut self.protocol
            && let Peer::Handshaking { idle, request } = *peer
        {
            *peer = Peer::Idle { request };
            self.deadline = now + idle;
        }
    }

    /// Takes what the client has sent. The time for another relay's header begins with its first
    /// byte.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Time) {
        match &mut self.protocol {
            Protocol::Socks5 { input, .. } | Protocol::Peer(Peer::Header { input }) => input.extend_from_slice(bytes),
            Protocol::Peer(peer) => {
                if let Peer::Idle { request } = *peer {
                    self.deadline = now + request;
                    *peer = Peer::Header { input: bytes.to_vec() };
                }
            }
            // Nothing is read before their request.
            Protocol::Forward(_) | Protocol::Transparent => {}
        }
    }
}

/// Step that reads on, up to a request of `most` bytes; rejects a client that has sent as many
/// without an end.
fn read_up_to(most: usize, received: usize) -> Step {
    match most.saturating_sub(received) {
        0 => Step::Reject { reason: format!("its request has more than {most} bytes"), reply: None },
        left => Step::Read(left),
    }
}

/// Next step of the greeting of a SOCKS client, by what it has sent so far.
fn next_of_socks(handshake: &mut Handshake, users: Option<&Users>, input: &mut Vec<u8>, client: SocketAddr) -> Step {
    match handshake.advance(input) {
        Ok(socks5::Step::More) => read_up_to(MAX_MESSAGE, input.len()),
        Ok(socks5::Step::Answer(used, answer)) => {
            input.drain(..used);
            Step::Reply(answer)
        }
        Ok(socks5::Step::Login(used, login)) => {
            input.drain(..used);
            let is_right = users.is_none_or(|users| users.admit(&login));
            let answer = handshake.login(is_right);
            if is_right {
                Step::Authenticated(answer)
            } else {
                Step::Reject { reason: format!("wrong login of {login:?}"), reply: Some(answer.to_vec()) }
            }
        }
        Ok(socks5::Step::Request(used, destination)) => {
            Step::Request(Request::new(destination, client), input.split_off(used))
        }
        Err(error) => {
            let reason = error.to_string();
            Step::Reject { reason, reply: Some(error.answer).filter(|answer| !answer.is_empty()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "192.0.2.1:4000";

    fn at(seconds: u64) -> Time {
        Time::ORIGIN + Span::from_secs(seconds)
    }

    fn greeting(kind: &ListenerKind) -> Greeting {
        Greeting::new(kind, &Limits::default(), at(0))
    }

    fn next(greeting: &mut Greeting) -> Step {
        greeting.next(CLIENT.parse().expect("an address"))
    }

    #[test]
    fn a_socks_request_is_found_byte_by_byte_and_what_follows_it_is_data() {
        let mut greeting = greeting(&ListenerKind::Socks5(None));
        let bytes = [&[5, 1, 0][..], &[5, 1, 0, 1, 192, 0, 2, 9, 0, 80], b"data"].concat();
        let mut replies = Vec::new();
        let mut sent = bytes.iter();
        let request = loop {
            match next(&mut greeting) {
                Step::Read(_) => greeting.receive(&[*sent.next().expect("the request")], at(1)),
                Step::Reply(reply) => replies.push(reply),
                Step::Request(request, early) => break (request, early),
                step => panic!("{step:?}"),
            }
        };
        assert_eq!(replies, [[5, 0]]);
        assert_eq!(request.0.destination.to_string(), "192.0.2.9:80");
        assert_eq!(sent.len(), 4, "a request is served as soon as it is whole");
        let mut at_once = self::greeting(&ListenerKind::Socks5(None));
        at_once.receive(&bytes, at(1));
        assert!(matches!(next(&mut at_once), Step::Reply(_)));
        assert_eq!(next(&mut at_once), Step::Request(request.0, b"data".to_vec()));
    }

    #[test]
    fn what_is_no_request_is_rejected() {
        let mut greeting = greeting(&ListenerKind::Socks5(None));
        greeting.receive(b"GET / HTTP/1.1", at(1));
        assert!(matches!(next(&mut greeting), Step::Reject { reply: None, .. }));
        let mut peer = self::greeting(&ListenerKind::Peer(None));
        peer.handshake_completed(at(1));
        peer.receive(b"GET / HTTP/1.1", at(1));
        assert!(matches!(next(&mut peer), Step::Reject { reply: None, .. }));
    }

    #[test]
    fn another_relay_may_be_idle_until_it_begins_with_a_header() {
        let limits = Limits::default();
        let mut greeting = greeting(&ListenerKind::Peer(None));
        assert_eq!((next(&mut greeting), greeting.deadline), (Step::Handshake, at(0) + limits.greeting));
        greeting.handshake_completed(at(1));
        assert!(greeting.is_idle());
        assert_eq!((next(&mut greeting), greeting.deadline), (Step::Read(MAX_HEADER), at(1) + limits.idle));
        let client = CLIENT.parse().expect("an address");
        let request = Request::new("db.example.org:5432".parse().expect("a destination"), client);
        let own = icdc_protocol::relay::peer::RelayId(7);
        let bytes = request.header(own).encode();
        greeting.receive(&bytes[..1], at(600));
        assert!(!greeting.is_idle());
        assert_eq!(greeting.deadline, at(600) + limits.greeting);
        assert_eq!(next(&mut greeting), Step::Read(MAX_HEADER - 1));
        greeting.receive(&bytes[1..], at(601));
        greeting.receive(b"data", at(601));
        assert_eq!(greeting.deadline, at(600) + limits.greeting);
        assert_eq!(next(&mut greeting), Step::Request(Request { hops: vec![own], ..request }, b"data".to_vec()));
    }
}
