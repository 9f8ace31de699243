//! From relay to relay: one header before the data, one answer before the data that comes back.
//!
//! ```text
//! header   "icdcrly1" | length u16 | flags u8 | destination | client | hops u8 | hop u64 …
//! place    4 | address 4 B | port u16      6 | address 16 B | port u16      3 | length u8 | name | port u16
//! answer   "ir" | 1 | verdict u8
//! ```
//!
//! Numbers are big-endian, `length` counts what follows it. A client is always an address. The hops
//! are the relays that the connection has passed, the first one first: a relay that finds itself
//! among them has found a loop. The sender does not wait for the answer, so a hop costs no round
//! trip.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use super::{Destination, Front, Host, HostName};

/// First bytes of a header; the last letter is the version.
const MAGIC: [u8; 8] = *b"icdcrly1";
/// Longest header in bytes, the magic included.
pub const MAX_HEADER: usize = 10 + 1 + (2 + 255 + 2) + 19 + 1 + 8 * MAX_HOPS;
/// Most relays that a connection may pass.
pub const MAX_HOPS: usize = 16;
/// Length of an answer in bytes.
pub const ANSWER: usize = 4;

/// Flag of a header: the destination must be a public address.
const PUBLIC_ONLY: u8 = 1;
/// First byte of an encoded place that is an IPv4 address.
const IPV4: u8 = 4;
/// First byte of an encoded place that is an IPv6 address.
const IPV6: u8 = 6;
/// First byte of an encoded place that is a host name.
const NAME: u8 = 3;

/// Random number that identifies a relay for as long as its process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RelayId(pub u64);

/// Header from a relay to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Destination of the connection.
    pub destination: Destination,
    /// Address of the client.
    pub client: SocketAddr,
    /// Whether the destination must be a public address: the client came by SOCKS, and no rule
    /// allows it more.
    pub public_only: bool,
    /// The relays passed so far.
    pub hops: Vec<RelayId>,
}

/// Reason for which bytes are no header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The magic is wrong: another protocol is spoken.
    #[error("it does not begin as a relay's header: is it another program, or TLS where none is expected?")]
    Magic,
    /// The header is longer than any may be; its length in bytes.
    #[error("the header has {0} bytes; {MAX_HEADER} are the most")]
    TooLong(usize),
    /// The connection has passed more relays than it may; their number.
    #[error("the connection has passed {0} relays; {MAX_HOPS} are the most")]
    TooManyHops(usize),
    /// This part of the header cannot be decoded.
    #[error("the header's {0} cannot be read")]
    Malformed(&'static str),
}

impl Header {
    /// Encodes the header: the bytes that a relay sends to the next one before the data.
    /// Their number varies; with no more than [`MAX_HOPS`] hops it is [`MAX_HEADER`] at most.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = vec![if self.public_only { PUBLIC_ONLY } else { 0 }];
        encode_place(&mut body, &self.destination);
        encode_place(&mut body, &self.client.into());
        body.push(self.hops.len() as u8);
        body.extend(self.hops.iter().flat_map(|hop| hop.0.to_be_bytes()));
        let mut header = Vec::from(MAGIC);
        header.extend((body.len() as u16).to_be_bytes());
        header.extend(body);
        header
    }

    /// Decodes a header; returns it with its length in bytes, or `None` if it has not arrived
    /// completely.
    ///
    /// # Errors
    /// See [`HeaderError`]; returned as soon as the bytes show it.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, HeaderError> {
        let shown = bytes.len().min(MAGIC.len());
        if bytes[..shown] != MAGIC[..shown] {
            return Err(HeaderError::Magic);
        }
        let mut front = Front::new(bytes);
        front.take(shown);
        let Some(length) = front.port().map(usize::from) else { return Ok(None) };
        if front.used + length > MAX_HEADER {
            return Err(HeaderError::TooLong(front.used + length));
        }
        let Some(body) = front.take(length) else { return Ok(None) };
        Self::decode_body(&mut Front::new(body)).map(|header| Some((header, front.used)))
    }

    /// Decodes the part of a header after its length.
    fn decode_body(body: &mut Front<'_>) -> Result<Self, HeaderError> {
        let wrong = HeaderError::Malformed;
        let flags = body.byte().filter(|flags| flags & !PUBLIC_ONLY == 0).ok_or(wrong("flags"))?;
        let destination = decode_place(body).ok_or(wrong("destination"))?;
        let client = decode_place(body).and_then(|place| place.address()).ok_or(wrong("client"))?;
        let count = body.byte().map(usize::from).ok_or(wrong("list of hops"))?;
        if count > MAX_HOPS {
            return Err(HeaderError::TooManyHops(count));
        }
        let hops = (0..count).map(|_| body.array().map(u64::from_be_bytes).map(RelayId)).collect::<Option<Vec<_>>>();
        let hops = hops.filter(|_| body.used == body.bytes.len()).ok_or(wrong("list of hops"))?;
        Ok(Self { destination, client, public_only: flags & PUBLIC_ONLY != 0, hops })
    }
}

/// Appends the encoding of an address or name with its port.
fn encode_place(body: &mut Vec<u8>, place: &Destination) {
    match &place.host {
        Host::Address(IpAddr::V4(address)) => {
            body.push(IPV4);
            body.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            body.push(IPV6);
            body.extend(address.octets());
        }
        Host::Name(name) => {
            body.extend([NAME, name.as_str().len() as u8]);
            body.extend(name.as_str().bytes());
        }
    }
    body.extend(place.port.to_be_bytes());
}

/// Decodes an address or name with its port; `None` if it is malformed.
fn decode_place(body: &mut Front<'_>) -> Option<Destination> {
    let host = match body.byte()? {
        IPV4 => Host::Address(IpAddr::from(body.array::<4>()?)),
        IPV6 => Host::Address(IpAddr::from(body.array::<16>()?).to_canonical()),
        NAME => {
            let length = body.byte()?;
            Host::Name(HostName::new(std::str::from_utf8(body.take(length.into())?).ok()?).ok()?)
        }
        _ => return None,
    };
    Destination::new(host, body.port()?).ok()
}

/// Outcome of a connection, as reported to the preceding relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The destination has accepted the connection.
    Connected,
    /// A rule of the relay forbids the connection.
    Denied,
    /// The connection has passed this relay before.
    Loop,
    /// There is no route to the destination.
    Unreachable,
    /// The destination refused the connection.
    Refused,
    /// The destination did not answer in time.
    TimedOut,
    /// The destination's name has no address.
    UnknownName,
    /// The relay is at its limit, or is shutting down.
    Busy,
}

/// The verdicts in the order of their numbers on the wire.
const VERDICTS: [Verdict; 8] = [
    Verdict::Connected,
    Verdict::Denied,
    Verdict::Loop,
    Verdict::Unreachable,
    Verdict::Refused,
    Verdict::TimedOut,
    Verdict::UnknownName,
    Verdict::Busy,
];

impl Verdict {
    /// The encoded answer with this verdict.
    #[must_use]
    pub fn encode(self) -> [u8; ANSWER] {
        let number = VERDICTS.iter().position(|verdict| *verdict == self).unwrap_or(0);
        [b'i', b'r', 1, number as u8]
    }

    /// The verdict of an encoded answer; `None` for anything else.
    #[must_use]
    pub fn decode(answer: [u8; ANSWER]) -> Option<Self> {
        let [b'i', b'r', 1, number] = answer else { return None };
        VERDICTS.get(usize::from(number)).copied()
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Connected => "connected",
            Self::Denied => "a rule is against it",
            Self::Loop => "it would go round in a loop",
            Self::Unreachable => "there is no way to the destination",
            Self::Refused => "the destination refused the connection",
            Self::TimedOut => "the destination did not answer in time",
            Self::UnknownName => "the destination's name has no address",
            Self::Busy => "the relay has no room for it",
        })
    }
}
