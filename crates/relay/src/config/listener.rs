//! Listeners, and how their clients name their destination.

use std::net::SocketAddr;
use std::sync::Arc;

use icdc_protocol::relay::Destination;

use super::users::Users;

/// A listener of the configuration: its address and the protocol of its clients.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Address and port; `[::]` serves IPv4 as well.
    pub address: SocketAddr,
    /// Kind, which decides how clients name their destination.
    pub kind: ListenerKind,
}

impl Listener {
    /// Whether the listener's clients are other relays.
    pub(crate) fn is_between_relays(&self) -> bool {
        matches!(self.kind, ListenerKind::Peer(_))
    }
}

/// Kind of a listener, which decides how clients name their destination.
#[derive(Clone, Debug)]
pub enum ListenerKind {
    /// Clients do not name one: all have the same destination.
    Forward(Destination),
    /// SOCKS 5; with users, only after a login.
    Socks5(Option<Arc<Users>>),
    /// Clients are relays; with TLS, only those with an accepted key.
    Peer(Option<Arc<rustls::ServerConfig>>),
    /// The destination address of the clients' packets (TPROXY).
    Transparent,
}

impl ListenerKind {
    /// Name of the listener's kind in configurations.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forward(_) => "forward",
            Self::Socks5(_) => "socks5",
            Self::Peer(_) => "peer",
            Self::Transparent => "transparent",
        }
    }

    /// Whether listeners of this kind admit clients that no rule names.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Forward(_) | Self::Transparent => true,
            Self::Socks5(users) => users.is_some(),
            Self::Peer(tls) => tls.is_some(),
        }
    }

    /// Whether clients of such a listener have to show a key or a password.
    pub(crate) fn requires_authentication(&self) -> bool {
        matches!(self, Self::Socks5(Some(_)) | Self::Peer(Some(_)))
    }

    /// Whether clients of the listener speak SOCKS.
    pub(crate) fn is_socks(&self) -> bool {
        matches!(self, Self::Socks5(_))
    }
}
