//! The daemon: lets in whom `authorized_keys` names, each within its own root.
//!
//! A stranger whose handshake succeeds but whose key is not authorized is told so in one sentence, with the
//! line that its operator would have to add, and nothing else.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use icdc_protocol::Message;
use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_tcp::{Family, ListenError};
use icdc_trust::{Identity, TrustError, server_config};
use icdc_units::Span;
use thiserror::Error;

use crate::buffers::receive_buffer;
use crate::connect::ssh::receive;
use crate::link::{Link, LinkError};
use crate::listen::admission::Admission;
use crate::listen::guard::{Guard, House, Limits};
use crate::own_rights;
use crate::session::{self, Ended, Sessions};
use crate::stop::StopSignal;

/// How long sessions may take to make durable what they have when the daemon stops.
const SETTLE: Span = Span::from_secs(60);

/// What a daemon needs to know.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Address and port to listen on; `[::]` serves IPv4 as well.
    pub listen: SocketAddr,
    /// Confines everybody to this directory, on top of the root of each key.
    pub root: Option<PathBuf>,
    /// Who is let in.
    pub authorized_keys: PathBuf,
    /// The daemon's own key.
    pub identity: PathBuf,
}

/// Why a daemon does not run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It has no key.
    #[error("{0}; make a key for this daemon with `icdc keygen`")]
    Identity(TrustError),
    /// It cannot know whom to let in.
    #[error(
        "{0}; a line of it reads `root=/DIR,rights=rw icdc-ed25519 BASE64 comment`, where the key is what `icdc keygen` prints on the client"
    )]
    AuthorizedKeys(TrustError),
    /// The directory that confines everybody.
    #[error("--root {root}: {cause}")]
    Root {
        /// The directory.
        root: PathBuf,
        /// Its error.
        cause: io::Error,
    },
    /// No socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No thread or descriptor.
    #[error("cannot start accepting connections: {0}")]
    Start(io::Error),
}

/// Serves until `stop` is requested. Then nobody new comes in, running sessions make durable what they have,
/// and it returns.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(config: &ServeConfig, stop: &StopSignal) -> Result<(), ServeError> {
    icdc_tcp::raise_descriptor_limit();
    // Sessions that act as another user load congestion control by this, and know paths by that.
    icdc_tcp::algorithm::keep_privileges().and_then(|()| own_rights::keep()).map_err(ServeError::Start)?;
    let identity = Identity::load(&config.identity).map_err(ServeError::Identity)?;
    let root = match &config.root {
        Some(root) => {
            let real = root.canonicalize();
            Some(real.map_err(|cause| ServeError::Root { root: root.clone(), cause })?)
        }
        None => None,
    };
    let sessions = Sessions::default();
    let temporary = Arc::clone(&sessions.temporary);
    let admission = Admission::open(&config.authorized_keys, root, temporary).map_err(ServeError::AuthorizedKeys)?;
    // Without an address, a host that has no IPv6 falls back to IPv4.
    let host = Some(config.listen.ip()).filter(|ip| *ip != IpAddr::from(Ipv6Addr::UNSPECIFIED));
    let port = config.listen.port();
    let listener = icdc_tcp::listen(host, (port, port), Family::Any, receive_buffer())?;
    let address = listener.local_addr().map_err(ServeError::Start)?;
    tracing::info!(%address, keys = admission.standing(), "listening");
    let public = identity.public();
    tracing::info!("public key of this daemon: {public}");
    tracing::info!("its fingerprint: {}", public.fingerprint());

    let house = Arc::new(Daemon { tls: server_config(&identity, |_| true), admission, sessions });
    let mut guard = Guard::start(vec![listener], house.clone(), Limits::default()).map_err(ServeError::Start)?;
    while !stop.wait(Span::from_secs(3600)) {}
    tracing::info!(sessions = house.sessions.count(), "stopping");
    guard.close();
    house.sessions.interrupt_all();
    if !guard.wait_for_guests(SETTLE) {
        tracing::warn!("sessions that did not end in time are broken off; they can be resumed");
    }
    Ok(())
}

/// The house of the authorized keys.
struct Daemon {
    tls: Arc<rustls::ServerConfig>,
    admission: Admission,
    sessions: Sessions,
}

impl House for Daemon {
    /// Lets every key finish the handshake: only then can the holder of an unknown one be told what to do.
    fn tls(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.tls)
    }

    fn welcome(&self, link: Link) {
        let Some(key) = link.control.peer_key() else {
            return;
        };
        let rights = match self.admission.rights(&key) {
            Ok(rights) => rights,
            Err(reason) => {
                tracing::debug!(key = key.fingerprint(), peer = link.control.peer(), "not let in");
                if let Err(error) = refuse(link, reason) {
                    tracing::debug!("refusing: {error}");
                }
                return;
            }
        };
        let ended = session::answer(link, &rights, &self.sessions);
        let label = rights.label;
        match &ended {
            Ended::Finished => tracing::info!("{label}: done"),
            Ended::Interrupted => tracing::info!("{label}: interrupted"),
            Ended::Cut(reason) => tracing::info!("{label}: cut: {reason}"),
            Ended::Refused(reason) => tracing::info!("{label}: refused: {reason}"),
        }
        self.sessions.temporary.ended(&key, &ended);
    }
}

/// Answers the first message, whatever it is: the connection is then closed with nothing unread, so that the
/// answer arrives.
fn refuse(mut link: Link, reason: String) -> Result<(), LinkError> {
    receive(link.inlet.as_mut())?;
    link.outlet.send(Message::Refused(Refusal { kind: RefusalKind::NotAllowed, reason }).into())?;
    link.outlet.flush()
}
