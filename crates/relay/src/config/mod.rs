//! What a relay does, with nothing left to doubt: made from a [`Draft`] alone.

mod draft;
mod plan;
mod private;
mod routes;
mod rules;
mod users;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use icdc_protocol::relay::Destination;
use icdc_units::{ByteCount, Span};

pub use draft::{Draft, ExitDraft, LegDraft, LimitsDraft, ListenDraft, RouteDraft, RuleDraft};
pub use plan::ConfigError;
pub use private::is_private;
pub use routes::{Hop, LegSettings, NextRelay, Route, Routes};
pub use rules::{Decision, Rule, Rules};
pub use users::Users;

/// Everything that a relay is told.
#[derive(Debug)]
pub struct Config {
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// Where connections go on.
    pub routes: Routes,
    /// Who may go where.
    pub rules: Rules,
    /// How the legs between relays are.
    pub leg: LegSettings,
    /// How destinations are met.
    pub exit: Exit,
    /// What is bounded.
    pub limits: Limits,
    /// Threads that move data.
    pub threads: usize,
    /// Where Prometheus asks.
    pub metrics: Option<SocketAddr>,
    /// The socket of `icdc relay status`; `None` for none.
    pub status: Option<PathBuf>,
}

/// A place to listen at.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Address and port; `[::]` serves IPv4 as well.
    pub address: SocketAddr,
    /// How clients say where they want to go.
    pub kind: ListenerKind,
}

impl Listener {
    /// Whether other relays come here.
    pub(crate) fn is_between_relays(&self) -> bool {
        matches!(self.kind, ListenerKind::Peer(_))
    }
}

/// How clients say where they want to go.
#[derive(Clone, Debug)]
pub enum ListenerKind {
    /// Not at all: all go to the same destination.
    Forward(Destination),
    /// By SOCKS 5; with users, only after a login.
    Socks5(Option<Arc<Users>>),
    /// They are relays; with TLS, only those with an accepted key.
    Peer(Option<Arc<rustls::ServerConfig>>),
    /// By the address that they believe to speak to (TPROXY).
    Transparent,
}

impl ListenerKind {
    /// What a configuration calls it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Forward(_) => "forward",
            Self::Socks5(_) => "socks5",
            Self::Peer(_) => "peer",
            Self::Transparent => "transparent",
        }
    }

    /// Whether its clients need not be named by a rule.
    fn is_open(&self) -> bool {
        match self {
            Self::Forward(_) | Self::Transparent => true,
            Self::Socks5(users) => users.is_some(),
            Self::Peer(tls) => tls.is_some(),
        }
    }

    /// Whether whoever comes has to show a key or a password.
    pub(crate) fn wants_proof(&self) -> bool {
        matches!(self, Self::Socks5(Some(_)) | Self::Peer(Some(_)))
    }

    fn is_socks(&self) -> bool {
        matches!(self, Self::Socks5(_))
    }
}

/// How destinations are met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exit {
    /// The PROXY protocol, version 2, goes before the data.
    pub proxy_protocol: bool,
    /// The destination sees the client's address in place of the relay's.
    pub keep_source: bool,
}

/// What is bounded.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one client address.
    pub per_client: usize,
    /// Bytes that wait in the relay, sockets included; over it, those who hold most read no more.
    pub memory: ByteCount,
    /// The same of one connection: while more has been read and not passed on, nothing is read. No buffer is larger.
    pub memory_per_connection: ByteCount,
    /// Time for a client to say where it wants to go.
    pub greeting: Span,
    /// Time to reach a destination, all ways together.
    pub connect: Span,
    /// Silence in both directions until a connection is given up.
    pub idle: Span,
    /// Time that open connections have when the relay stops.
    pub drain: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            per_client: 1024,
            memory: ByteCount::from_mib(4096),
            memory_per_connection: ByteCount::from_mib(256),
            greeting: Span::from_secs(10),
            connect: Span::from_secs(20),
            idle: Span::from_secs(3600),
            drain: Span::from_secs(30),
        }
    }
}
