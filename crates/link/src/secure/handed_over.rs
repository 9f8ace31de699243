//! A link that is handed over from one process to another, between two frames.
//!
//! ```text
//! process that listens                                       process of the session
//! handshake, first message ─► hand_over ─► state + socket ─► take_over ─► link
//!                                └─► control: still watches and ends the connection
//! ```
//!
//! The state holds the traffic secrets of the connection: it may go to a process of the same host,
//! by a channel that nobody else reads, and nowhere else.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use icdc_record::Role;
use icdc_trust::PublicKey;
use serde::{Deserialize, Serialize};

use super::handshake::Established;
use super::key_schedule::Direction;
use super::state::{InletState, OutletState};
use super::{Carrier, OverDatagrams, OwnConnection, SecureSettings, assemble, inlet};
use crate::control::LinkControl;
use crate::error::LinkError;
use crate::link::Link;

/// A link that is being passed to another process.
#[derive(Debug)]
pub struct HandedOver {
    /// State that the other process needs beside the socket.
    pub state: LinkState,
    /// Socket of the connection.
    pub socket: OwnedFd,
    /// Control that still monitors the connection from this process, and can end it. While it is
    /// held, the connection stays open.
    pub control: LinkControl,
}

/// State that a process needs, beside the socket, to continue a link.
#[derive(Debug, Serialize, Deserialize)]
pub struct LinkState {
    peer: String,
    /// Address of the other end of a link over datagrams, whose socket does not tell it; `None` for TCP.
    datagrams: Option<SocketAddr>,
    peer_key: [u8; 32],
    version: u32,
    outlet: OutletState,
    pub(super) inlet: InletState,
}

impl Link {
    /// Prepares the link for another process, which [takes it over](Self::take_over).
    ///
    /// # Errors
    /// The link is carried by another program or stays within this process, is in the middle of a frame, or has ended.
    pub fn hand_over(self) -> Result<HandedOver, LinkError> {
        let Self { outlet, inlet, control } = self;
        let bound = || LinkError::Protocol("this link cannot leave its process".to_owned());
        let socket = control.to_hand_over().ok_or_else(bound)?;
        let socket =
            socket.try_clone_to_owned().map_err(|error| LinkError::io(&control.peer(), "fcntl(F_DUPFD)", error))?;
        let datagrams = if control.socket().is_none() { control.address() } else { None };
        let peer_key = *control.peer_key().ok_or_else(bound)?.as_bytes();
        let version = control.version().ok_or_else(bound)?;
        // The inlet first: an outlet that was not handed over says farewell.
        let inlet = inlet.hand_over().ok_or_else(bound)?;
        let outlet = outlet.hand_over().ok_or_else(bound)?;
        let state = LinkState { peer: control.peer(), datagrams, peer_key, version, outlet, inlet };
        Ok(HandedOver { state, socket, control })
    }

    /// Continues a link that another process has handed over. This end was the listening one.
    ///
    /// # Errors
    /// The state makes no sense, or the socket is none.
    pub fn take_over(state: LinkState, socket: OwnedFd) -> Result<Self, LinkError> {
        let LinkState { peer, datagrams, peer_key, version, outlet, inlet } = state;
        let nonsense = || LinkError::Protocol("the state of a link makes no sense".to_owned());
        if inlet.unopened.len() > inlet::BUFFER {
            return Err(nonsense());
        }
        let established = Established {
            transmit: Direction::new(outlet.secret, outlet.sequence),
            receive: Direction::new(inlet.secret, inlet.sequence),
            peer_key: PublicKey::from_bytes(peer_key),
            version,
            role: Role::Server,
            early: inlet.unopened,
        };
        let carrier = match datagrams {
            None => Carrier::from(TcpStream::from(socket)),
            Some(peer) => OverDatagrams::new(UnixStream::from(socket), peer, OwnConnection::None).into(),
        };
        let parts = assemble(carrier, peer, established, None, SecureSettings::default())?;
        parts.connection.key_update_wanted.store(outlet.key_update_wanted, std::sync::atomic::Ordering::Relaxed);
        let inlet = parts.inlet.with_clear(&inlet.clear).ok_or_else(nonsense)?;
        Ok(Link::new(parts.outlet, inlet, parts.connection))
    }
}
