//! Destination of a relayed connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

/// Longest host name in bytes (RFC 1035 section 2.3.4, in text without the last dot).
const MAX_NAME: usize = 253;

/// Destination of a relayed connection: a host and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// Address or name of the host.
    pub host: Host,
    /// The TCP port, not zero.
    pub port: u16,
}

/// An IP address, or a host name that is still to be resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An IP address; IPv4 is never written as IPv6.
    Address(IpAddr),
    /// A host name.
    Name(HostName),
}

/// A host name that can be given to a resolver: letters, digits, `-`, `_` and `.`, at most 253 of
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName(String);

/// Reason for which text or bytes name no destination.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DestinationError {
    /// The text is not `HOST:PORT`.
    #[error("{0:?} is not HOST:PORT; an IPv6 address is written in brackets: [2001:db8::1]:443")]
    Form(String),
    /// The host is neither an address nor a name.
    #[error("{0:?} is neither an address nor the name of a host")]
    Host(String),
    /// The port is 0.
    #[error("port 0 is no destination")]
    Port,
}

impl Destination {
    /// The destination of this host and port; the port must not be zero.
    ///
    /// # Errors
    /// [`DestinationError::Port`].
    pub fn new(host: Host, port: u16) -> Result<Self, DestinationError> {
        if port == 0 { Err(DestinationError::Port) } else { Ok(Self { host, port }) }
    }

    /// The address with the port; `None` if the host is a name.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.host {
            Host::Address(address) => Some(SocketAddr::new(*address, self.port)),
            Host::Name(_) => None,
        }
    }
}

impl From<SocketAddr> for Destination {
    /// The destination with this address; a port of zero is not refused.
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Address(address.ip().to_canonical()), port: address.port() }
    }
}

impl HostName {
    /// Checks a host name and keeps it without any normalization.
    ///
    /// # Errors
    /// [`DestinationError::Host`] with what was given.
    pub fn new(name: &str) -> Result<Self, DestinationError> {
        let proper = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let begins_well = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'_');
        if !begins_well || name.len() > MAX_NAME || !name.bytes().all(proper) {
            return Err(DestinationError::Host(name.chars().take(MAX_NAME).collect()));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Host {
    /// Parses an address in any notation without brackets, or else a name.
    ///
    /// # Errors
    /// [`DestinationError::Host`].
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Self::Address(address.to_canonical())),
            Err(_) => HostName::new(text).map(Self::Name),
        }
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let form = || DestinationError::Form(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
        let port = port.parse().map_err(|_| form())?;
        let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(Some(inner)) => Host::Address(inner.parse::<IpAddr>().map_err(|_| form())?.to_canonical()),
            None if !host.contains(':') => Host::parse(host)?,
            _ => return Err(form()),
        };
        Self::new(host, port)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(out),
            Host::Name(name) => write!(out, "{}:{}", name.as_str(), self.port),
        }
    }
}
