//! The client's side of SOCKS 5 (RFC 1928, RFC 1929; the messages are in
//! [`socks5`](super::socks5)), sans-I/O.
//!
//! [`Client::new`] gives what to send first. From then on the caller reads the bytes that
//! [`Client::missing`] asks for, and no others: what follows them is the destination's.

use thiserror::Error;

use super::socks5::{CONNECT, IPV4, IPV6, LOGIN_VERSION, Login, NAME, NO_ACCEPTABLE, NO_LOGIN, PASSWORD, VERSION};
use super::{Destination, Host};

/// Most bytes of a user name or a password.
const MAX_WORD: usize = 255;

/// Client of a SOCKS 5 handshake: connects to a destination by a proxy.
#[derive(Clone, Debug)]
pub struct Client {
    destination: Destination,
    login: Option<Login>,
    stage: Stage,
    received: Vec<u8>,
}

/// Answer of the server that is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Method,
    Login,
    Reply,
}

/// Next step of the client after the bytes that have arrived: read on, send, or use the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Read another [`Client::missing`] bytes.
    More,
    /// Send these bytes; then read [`Client::missing`] bytes.
    Send(Vec<u8>),
    /// The destination has accepted: all further bytes are its own.
    Connected,
}

/// Reason for which a proxy does not connect to the destination.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The other end does not speak SOCKS 5.
    #[error("what answers there does not speak SOCKS 5: its first byte is {0}")]
    NotSocks(u8),
    /// The proxy requires a login, and none is given.
    #[error("it wants a user and a password, and none are given")]
    WantsLogin,
    /// The proxy accepts no method of authentication that is offered.
    #[error("it accepts neither a connection without a login nor one with user and password")]
    NoMethod,
    /// User or password are wrong.
    #[error("it does not accept the user and the password")]
    WrongLogin,
    /// User name or password cannot be encoded.
    #[error("user and password have at most {MAX_WORD} bytes each, the user one at least")]
    BadLogin,
    /// The proxy does not connect to the destination, for this reason.
    #[error("it answers: {0}")]
    Refused(String),
    /// This answer of the proxy is malformed.
    #[error("its {0} cannot be read")]
    Malformed(&'static str),
}

impl Client {
    /// A client at the start of its handshake, and the first bytes to send.
    ///
    /// # Errors
    /// [`ClientError::BadLogin`].
    pub fn new(destination: Destination, login: Option<Login>) -> Result<(Self, Vec<u8>), ClientError> {
        let fits = |word: &[u8]| word.len() <= MAX_WORD;
        if login.as_ref().is_some_and(|login| login.user.is_empty() || !fits(&login.user) || !fits(&login.password)) {
            return Err(ClientError::BadLogin);
        }
        let hello = if login.is_some() { vec![VERSION, 2, NO_LOGIN, PASSWORD] } else { vec![VERSION, 1, NO_LOGIN] };
        Ok((Self { destination, login, stage: Stage::Method, received: Vec::new() }, hello))
    }

    /// Number of bytes of the answer still to be read; the answer may turn out to be longer.
    #[must_use]
    pub fn missing(&self) -> usize {
        let whole = match (self.stage, self.received.as_slice()) {
            (Stage::Method | Stage::Login, _) => 2,
            // Up to the first byte of the address, which is the length of a name.
            (Stage::Reply, [_, _, _, kind, first, ..]) => match *kind {
                IPV4 => 4 + 4 + 2,
                IPV6 => 4 + 16 + 2,
                _ => 5 + usize::from(*first) + 2,
            },
            (Stage::Reply, _) => 5,
        };
        whole - self.received.len()
    }

    /// Processes bytes that were read, at most [`Client::missing`] of them; returns the next step.
    ///
    /// # Errors
    /// See [`ClientError`]; the connection is of no use then.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Progress, ClientError> {
        self.received.extend_from_slice(bytes);
        match (self.stage, self.received.as_slice()) {
            (Stage::Method | Stage::Reply, [version, ..]) if *version != VERSION => {
                Err(ClientError::NotSocks(*version))
            }
            (Stage::Method, [_, method]) => self.method(*method),
            (Stage::Login, [LOGIN_VERSION, 0]) => Ok(self.request()),
            (Stage::Login, [LOGIN_VERSION, _]) => Err(ClientError::WrongLogin),
            (Stage::Login, [_, _]) => Err(ClientError::Malformed("answer to the login")),
            // Some proxies send nothing behind the code of a failure.
            (Stage::Reply, [_, code, ..]) if *code != 0 => Err(ClientError::Refused(words(*code))),
            (Stage::Reply, [_, _, _, kind, _, ..]) if ![IPV4, IPV6, NAME].contains(kind) => {
                Err(ClientError::Malformed("address"))
            }
            (Stage::Reply, [_, _, _, _, _, ..]) if self.missing() == 0 => Ok(Progress::Connected),
            _ => Ok(Progress::More),
        }
    }

    /// Handles the server's choice of a method; returns the login or the request as the next
    /// message.
    fn method(&mut self, method: u8) -> Result<Progress, ClientError> {
        match (method, &self.login) {
            (NO_LOGIN, _) => Ok(self.request()),
            (PASSWORD, Some(login)) => {
                let word = |word: &[u8]| [&[word.len() as u8], word].concat();
                let message = [&[LOGIN_VERSION][..], &word(&login.user), &word(&login.password)].concat();
                Ok(self.next(Stage::Login, message))
            }
            (NO_ACCEPTABLE, Some(_)) => Err(ClientError::NoMethod),
            (NO_ACCEPTABLE, None) => Err(ClientError::WantsLogin),
            _ => Err(ClientError::Malformed("choice of a method")),
        }
    }

    /// The next step: send the request for the destination, and await the reply.
    fn request(&mut self) -> Progress {
        let mut message = vec![VERSION, CONNECT, 0];
        match &self.destination.host {
            Host::Address(std::net::IpAddr::V4(address)) => {
                message.push(IPV4);
                message.extend(address.octets());
            }
            Host::Address(std::net::IpAddr::V6(address)) => {
                message.push(IPV6);
                message.extend(address.octets());
            }
            Host::Name(name) => {
                message.extend([NAME, name.as_str().len() as u8]);
                message.extend(name.as_str().bytes());
            }
        }
        message.extend(self.destination.port.to_be_bytes());
        self.next(Stage::Reply, message)
    }

    /// The next step: send `message`, and await the answer of this stage.
    fn next(&mut self, stage: Stage, message: Vec<u8>) -> Progress {
        self.stage = stage;
        self.received.clear();
        Progress::Send(message)
    }
}

/// Meaning of a reply code (RFC 1928, section 6).
fn words(code: u8) -> String {
    let known = match code {
        1 => "general failure",
        2 => "its rules do not allow this connection",
        3 => "the network is unreachable",
        4 => "the host is unreachable",
        5 => "the destination refused the connection",
        6 => "the destination did not answer in time",
        7 => "it does not serve CONNECT",
        8 => "it does not know this type of address",
        other => return format!("failure {other}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::peer::Verdict;
    use super::super::socks5::{Handshake, Step, reply};
    use super::*;

    fn destination(text: &str) -> Destination {
        text.parse().expect(text)
    }

    fn login(password: &str) -> Option<Login> {
        Some(Login { user: "anna".into(), password: password.into() })
    }

    /// A client and the server of this crate; what the server understood, or why the client gave
    /// up.
    fn talk(client: Option<Login>, needs_login: bool, verdict: Verdict) -> Result<Destination, ClientError> {
        let (mut client, mut sent) = Client::new(destination("db.example.org:5432"), client)?;
        let mut server = Handshake::new(needs_login);
        let mut asked = None;
        loop {
            let answer = match server.advance(&sent).map_err(|error| error.answer) {
                Ok(Step::Answer(_, answer)) | Err(answer) => answer,
                Ok(Step::Login(_, login)) => server.login(login.password == b"right").to_vec(),
                Ok(Step::Request(_, destination)) => {
                    asked = Some(destination);
                    reply(verdict, Some(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 7))))
                }
                Ok(Step::More) => panic!("the client sent half a message"),
            };
            // Byte by byte, and no more than are asked for.
            let mut answer = answer.into_iter();
            loop {
                assert!(client.missing() > 0);
                match client.receive(&[answer.next().expect("an answer as long as the client reads")])? {
                    Progress::More => {}
                    Progress::Send(message) => break sent = message,
                    Progress::Connected => {
                        assert_eq!(answer.next(), None, "the client has read all of it");
                        return Ok(asked.expect("it was asked for"));
                    }
                }
            }
        }
    }

    #[test]
    fn client_and_server_of_this_crate_understand_each_other() {
        assert_eq!(talk(None, false, Verdict::Connected), Ok(destination("db.example.org:5432")));
        assert_eq!(talk(login("right"), true, Verdict::Connected), Ok(destination("db.example.org:5432")));
        assert_eq!(talk(login("unused"), false, Verdict::Connected), Ok(destination("db.example.org:5432")));
        assert_eq!(talk(login("wrong"), true, Verdict::Connected), Err(ClientError::WrongLogin));
        assert_eq!(talk(None, true, Verdict::Connected), Err(ClientError::WantsLogin));
        let refused = talk(None, false, Verdict::Refused).expect_err("it refused");
        assert_eq!(refused.to_string(), "it answers: the destination refused the connection");
        assert_eq!(talk(login(&"x".repeat(256)), true, Verdict::Connected), Err(ClientError::BadLogin));
    }

    #[test]
    fn what_is_no_socks_is_told_by_its_first_byte() {
        let begin = || Client::new(destination("192.0.2.1:80"), None).expect("no login").0;
        assert_eq!(begin().receive(b"H"), Err(ClientError::NotSocks(b'H')));
        assert_eq!(begin().receive(&[5, 3]), Err(ClientError::Malformed("choice of a method")));
        let mut client = begin();
        assert!(matches!(client.receive(&[5, 0]), Ok(Progress::Send(_))));
        assert_eq!(client.receive(&[5, 0, 0, 9, 9]), Err(ClientError::Malformed("address")));
    }

    #[test]
    fn an_address_of_any_kind_is_read_to_its_end() {
        for (address, length) in [(&[IPV4][..], 6), (&[IPV6], 18), (&[NAME, 255], 257), (&[NAME, 0], 2)] {
            let (mut client, _) = Client::new(destination("192.0.2.1:80"), None).expect("no login");
            assert!(matches!(client.receive(&[5, 0]), Ok(Progress::Send(_))));
            let reply = [&[5, 0, 0], address, &vec![0; length]].concat();
            let mut read = 0;
            while client.missing() > 0 {
                let count = client.missing();
                let progress = client.receive(&reply[read..read + count]).expect("it is well-formed");
                read += count;
                assert_eq!(progress == Progress::Connected, read == reply.len());
            }
            assert_eq!(read, reply.len());
        }
    }
}
