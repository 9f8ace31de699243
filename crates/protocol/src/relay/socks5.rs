//! The server's side of SOCKS 5 (RFC 1928), with user and password (RFC 1929) or without.
//!
//! ```text
//! client   5 | methods u8 | method …                     server   5 | method
//! client   1 | length | user | length | password         server   1 | 0 or 1        (method 2 alone)
//! client   5 | command | 0 | type | address | port u16   server   5 | reply | 0 | type | address | port u16
//! ```
//!
//! Only CONNECT is served.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use thiserror::Error;

use super::peer::Verdict;
use super::{Destination, Front, Host};

/// Most bytes that a client may have sent before its next answer is due.
pub const MAX_MESSAGE: usize = 513;

/// First byte of all messages but those of a login.
pub(super) const VERSION: u8 = 5;
/// First byte of the messages of a login (RFC 1929).
pub(super) const LOGIN_VERSION: u8 = 1;
/// Number of the method without authentication.
pub(super) const NO_LOGIN: u8 = 0;
/// Number of the method with user and password.
pub(super) const PASSWORD: u8 = 2;
/// Answer of a server that accepts none of the methods offered.
pub(super) const NO_ACCEPTABLE: u8 = 0xff;
/// Command of a request for a TCP connection.
pub(super) const CONNECT: u8 = 1;
/// Type of an IPv4 address in a message.
pub(super) const IPV4: u8 = 1;
/// Type of a host name in a message.
pub(super) const NAME: u8 = 3;
/// Type of an IPv6 address in a message.
pub(super) const IPV6: u8 = 4;
/// Reply code: the command is not served.
const BAD_COMMAND: u8 = 7;
/// Reply code: the type of the address is not served.
const BAD_ADDRESS: u8 = 8;

/// State of a SOCKS 5 handshake at the server.
#[derive(Clone, Debug)]
pub struct Handshake {
    needs_login: bool,
    stage: Stage,
}

/// Message of the client that is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Methods,
    Login,
    Request,
}

/// Next step of the server after the bytes that have arrived: wait, answer, check a login, or
/// connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message is incomplete: wait for more bytes.
    More,
    /// Drop this number of bytes, and send this answer.
    Answer(usize, Vec<u8>),
    /// This number of bytes held a login: pass the result of checking it to [`Handshake::login`].
    Login(usize, Login),
    /// This number of bytes held the request for this destination; [`reply`] makes the answer.
    Request(usize, Destination),
}

/// User name and password of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User name, 0 to 255 bytes.
    pub user: Vec<u8>,
    /// Password, 0 to 255 bytes.
    pub password: Vec<u8>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Login({})", self.user.escape_ascii())
    }
}

/// Reason for which a handshake fails, with the answer to the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}")]
pub struct SocksError {
    /// The reason, as text.
    pub what: String,
    /// Answer to send to the client before the connection is closed; may be empty.
    pub answer: Vec<u8>,
}

/// The error that ends a handshake, with the answer that the client is sent first.
fn refuse<T>(what: impl Into<String>, answer: Vec<u8>) -> Result<T, SocksError> {
    Err(SocksError { what: what.into(), answer })
}

impl Handshake {
    /// A handshake of which nothing has arrived; `needs_login` asks for user and password.
    #[must_use]
    pub fn new(needs_login: bool) -> Self {
        Self { needs_login, stage: Stage::Methods }
    }

    /// Parses the bytes that have arrived and were not dropped.
    ///
    /// # Errors
    /// If it is not SOCKS 5, or not supported.
    pub fn advance(&mut self, arrived: &[u8]) -> Result<Step, SocksError> {
        let mut front = Front::new(arrived);
        let step = match self.stage {
            Stage::Methods => self.methods(&mut front)?,
            Stage::Login => Self::shown(&mut front)?,
            Stage::Request => Self::request(&mut front)?,
        };
        Ok(step.unwrap_or(Step::More))
    }

    /// The answer to a login, which is `right` or wrong. After a wrong one the connection is to be
    /// closed.
    #[must_use]
    pub fn login(&mut self, right: bool) -> [u8; 2] {
        self.stage = Stage::Request;
        [LOGIN_VERSION, u8::from(!right)]
    }

    /// Parses the client's offer of methods and chooses one; `None` if it has not arrived
    /// completely.
    fn methods(&mut self, front: &mut Front<'_>) -> Result<Option<Step>, SocksError> {
        let Some(version) = front.byte() else { return Ok(None) };
        if version != VERSION {
            return refuse(format!("the client does not speak SOCKS 5: its first byte is {version}"), vec![]);
        }
        let Some(methods) = front.byte().and_then(|count| front.take(count.into())) else { return Ok(None) };
        let method = if self.needs_login { PASSWORD } else { NO_LOGIN };
        if !methods.contains(&method) {
            let what = if self.needs_login { "without user and password" } else { "with a login only" };
            return refuse(format!("the client can do {what}"), vec![VERSION, NO_ACCEPTABLE]);
        }
        self.stage = if self.needs_login { Stage::Login } else { Stage::Request };
        Ok(Some(Step::Answer(front.used, vec![VERSION, method])))
    }

    /// Parses the user and password that a client shows; `None` if they have not arrived
    /// completely.
    fn shown(front: &mut Front<'_>) -> Result<Option<Step>, SocksError> {
        let Some(version) = front.byte() else { return Ok(None) };
        if version != LOGIN_VERSION {
            return refuse(format!("version {version} of the login is unknown"), vec![LOGIN_VERSION, 1]);
        }
        let mut word = || front.byte().and_then(|length| front.take(length.into())).map(<[u8]>::to_vec);
        let (Some(user), Some(password)) = (word(), word()) else { return Ok(None) };
        Ok(Some(Step::Login(front.used, Login { user, password })))
    }

    /// Parses the request for a connection; `None` if it has not arrived completely.
    fn request(front: &mut Front<'_>) -> Result<Option<Step>, SocksError> {
        let Some(version) = front.byte() else { return Ok(None) };
        if version != VERSION {
            return refuse(format!("a request of version {version}"), vec![]);
        }
        let Some([command, _reserved, kind]) = front.array() else { return Ok(None) };
        if command != CONNECT {
            return refuse(format!("command {command} is not served, only CONNECT is"), failure(BAD_COMMAND));
        }
        let host = match kind {
            IPV4 => front.array::<4>().map(|octets| Host::Address(octets.into())),
            IPV6 => front.array::<16>().map(|octets| Host::Address(IpAddr::from(octets).to_canonical())),
            NAME => match front.byte().and_then(|length| front.take(length.into())) {
                Some(name) => match std::str::from_utf8(name).ok().and_then(|name| Host::parse(name).ok()) {
                    Some(host) => Some(host),
                    None => {
                        return refuse(
                            format!("{:?} is no host", name.escape_ascii().to_string()),
                            failure(BAD_ADDRESS),
                        );
                    }
                },
                None => None,
            },
            _ => return refuse(format!("address type {kind} is unknown"), failure(BAD_ADDRESS)),
        };
        let (Some(host), Some(port)) = (host, front.port()) else { return Ok(None) };
        match Destination::new(host, port) {
            Ok(destination) => Ok(Some(Step::Request(front.used, destination))),
            Err(error) => refuse(error.to_string(), failure(BAD_ADDRESS)),
        }
    }
}

/// The encoded answer to a request, from the server to the client. `bound`: local address of the
/// connection to the destination, `None` where there is none or it is not told.
#[must_use]
pub fn reply(verdict: Verdict, bound: Option<SocketAddr>) -> Vec<u8> {
    let code = match verdict {
        Verdict::Connected => 0,
        Verdict::Busy => 1,
        Verdict::Denied => 2,
        Verdict::Unreachable => 3,
        Verdict::UnknownName => 4,
        Verdict::Refused => 5,
        Verdict::Loop | Verdict::TimedOut => 6,
    };
    encode_reply(code, bound.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))))
}

/// The encoded answer to a request that fails with this reply code.
fn failure(code: u8) -> Vec<u8> {
    encode_reply(code, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

/// Encodes an answer to a request: reply code, and local address of the connection to the
/// destination.
fn encode_reply(code: u8, bound: SocketAddr) -> Vec<u8> {
    let mut reply = vec![VERSION, code, 0];
    match bound.ip().to_canonical() {
        IpAddr::V4(address) => {
            reply.push(IPV4);
            reply.extend(address.octets());
        }
        IpAddr::V6(address) => {
            reply.push(IPV6);
            reply.extend(address.octets());
        }
    }
    reply.extend(bound.port().to_be_bytes());
    reply
}

/// The longest name fits into a message.
const _: () = assert!(MAX_MESSAGE >= 4 + 1 + 255 + 2 && MAX_MESSAGE >= 3 + 255 + 255);
