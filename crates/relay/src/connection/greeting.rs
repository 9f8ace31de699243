//! Where the client wants to go, in the language of the listener that it came to.

use icdc_protocol::relay::Destination;
use icdc_protocol::relay::peer::{Header, MAX_HEADER, Verdict};
use icdc_protocol::relay::socks5::{Handshake, MAX_MESSAGE, Step};

use super::ways::Wish;
use super::{Connection, End, Next, Stage};
use crate::config::ListenerKind;
use crate::leg::{Arrived, canonical};
use crate::tools::Tools;

/// How far the client has come.
pub(super) struct Greeting {
    socks: Handshake,
    input: Vec<u8>,
    /// TLS, where there is some, is through.
    met: bool,
}

impl Greeting {
    pub(super) fn new(kind: &ListenerKind) -> Self {
        let needs_login = matches!(kind, ListenerKind::Socks5(Some(_)));
        Self { socks: Handshake::new(needs_login), input: Vec::new(), met: false }
    }

    /// A relay that has been let in and has asked for nothing yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.met && self.input.is_empty()
    }
}

fn near(error: impl std::fmt::Display) -> End {
    End::TurnedAway(error.to_string())
}

impl Connection {
    pub(super) fn greet(&mut self, tools: &mut Tools) -> Result<Next, End> {
        let listener = self.listener.clone();
        match &listener.kind {
            ListenerKind::Forward(destination) => self.wishes(destination.clone(), tools),
            ListenerKind::Transparent => {
                let local = self.near.local().ok_or_else(|| near("it is gone already"))?;
                self.wishes(local.into(), tools)
            }
            ListenerKind::Socks5(users) => self.greet_socks(users.as_deref(), tools),
            ListenerKind::Peer(_) => self.greet_relay(tools),
        }
    }

    fn wishes(&mut self, destination: Destination, tools: &mut Tools) -> Result<Next, End> {
        self.wish = Some(Wish::new(destination, self.client));
        self.set_out(tools)
    }

    fn greet_socks(&mut self, users: Option<&crate::config::Users>, tools: &mut Tools) -> Result<Next, End> {
        loop {
            self.near.flush().map_err(near)?;
            let Stage::Greeting(greeting) = &mut self.stage else { return Ok(Next::Again) };
            match greeting.socks.advance(&greeting.input) {
                Ok(Step::More) => {
                    if !self.listen_on(MAX_MESSAGE, tools)? {
                        return Ok(Next::Wait);
                    }
                }
                Ok(Step::Answer(used, answer)) => {
                    greeting.input.drain(..used);
                    self.near.send_first(&answer);
                }
                Ok(Step::Login(used, login)) => {
                    greeting.input.drain(..used);
                    let right = users.is_none_or(|users| users.admit(&login));
                    let answer = greeting.socks.login(right);
                    self.near.send_first(&answer);
                    if !right {
                        self.begin_farewell(tools.now);
                        return Err(near(format!("wrong login of {login:?}")));
                    }
                    self.place.is_known();
                }
                Ok(Step::Request(used, destination)) => {
                    let rest = greeting.input.split_off(used);
                    self.up.begin_with(&rest);
                    return self.wishes(destination, tools);
                }
                Err(error) => {
                    if !error.answer.is_empty() {
                        self.near.send_first(&error.answer);
                        self.begin_farewell(tools.now);
                    }
                    return Err(near(error));
                }
            }
        }
    }

    fn greet_relay(&mut self, tools: &mut Tools) -> Result<Next, End> {
        match self.near.shake_hands() {
            Ok(true) => {}
            Ok(false) => return Ok(Next::Wait),
            Err(error) => {
                // TLS has said why.
                self.begin_farewell(tools.now);
                return Err(near(error));
            }
        }
        loop {
            let Stage::Greeting(greeting) = &mut self.stage else { return Ok(Next::Again) };
            if !greeting.met {
                greeting.met = true;
                self.place.release();
                self.place.is_known();
                // It may be kept warm for clients to come; the time for the header begins with the first byte of it.
                self.deadline = tools.now + self.config.limits.idle;
            }
            match Header::decode(&greeting.input).map_err(near)? {
                None => {
                    let silent = greeting.input.is_empty();
                    if !self.listen_on(MAX_HEADER, tools)? {
                        return Ok(Next::Wait);
                    }
                    if silent {
                        self.deadline = tools.now + self.config.limits.greeting;
                    }
                }
                Some((header, used)) => {
                    let rest = greeting.input.split_off(used);
                    self.up.begin_with(&rest);
                    self.client = canonical(header.client);
                    self.wish = Some(Wish::from_relay(header));
                    if !self.place.belongs_to(self.client.ip(), self.config.limits.per_client) {
                        return Err(End::NotReached(Verdict::Busy, "the client has too many connections".to_owned()));
                    }
                    return self.set_out(tools);
                }
            }
        }
    }

    /// Reads more of the greeting, `most` bytes in all; false if there is no more now.
    fn listen_on(&mut self, most: usize, tools: &mut Tools) -> Result<bool, End> {
        let Stage::Greeting(greeting) = &mut self.stage else { return Ok(false) };
        let room = most.saturating_sub(greeting.input.len());
        if room == 0 {
            return Err(near("it says more than any client has to say"));
        }
        match self.near.read(&mut tools.scratch[..room]).map_err(near)? {
            Arrived::Bytes(count) => {
                greeting.input.extend_from_slice(&tools.scratch[..count]);
                Ok(true)
            }
            Arrived::Later => Ok(false),
            Arrived::End => Err(near("it went away before it said where to go")),
        }
    }
}
