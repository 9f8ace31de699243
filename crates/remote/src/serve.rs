//! The daemon: serves clients whose keys are in `authorized_keys`, each within its own root.
//!
//! A client with another key completes the handshake, and is then told in one sentence which line
//! the daemon's operator would have to add, and nothing else.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_link::{Link, LinkError, receive};
use icdc_protocol::Message;
use icdc_protocol::message::Refusal;
use icdc_stop::StopSignal;
use icdc_tcp::{Family, ListenError, clock};
use icdc_trust::{Identity, PublicKey, TrustError, server_config};
use icdc_tuning::buffers::receive_buffer;
use icdc_tuning::own_rights;
use icdc_units::{Span, Time};
use thiserror::Error;

use crate::ended::Ended;
use crate::listen::admission::Admission;
use crate::listen::guard::{Guard, Limits, Service};
use crate::listen::refused::RefusedLines;
use crate::session::{self, Answered};
use crate::sessions::Sessions;

/// How long sessions may take to make durable what they have when the daemon stops.
const SETTLE: Span = Span::from_secs(60);
/// How often the daemon checks whether its authorized keys have changed: a revoked key's sessions
/// end within a second.
const CHECK: Span = Span::from_millis(150);

/// Configuration of a daemon.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Address and port to listen on; `[::]` serves IPv4 as well.
    pub listen: SocketAddr,
    /// Confines all clients to this directory, on top of the root of each key.
    pub root: Option<PathBuf>,
    /// The file of authorized keys.
    pub authorized_keys: PathBuf,
    /// The daemon's own key.
    pub identity: PathBuf,
}

/// Why a daemon could not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Its own key cannot be loaded.
    #[error("{0}; make a key for this daemon with `icdc keygen`")]
    Identity(TrustError),
    /// The authorized keys cannot be loaded.
    #[error(
        "{0}; a line of it reads `root=/DIR,rights=rw,user=NAME icdc-ed25519 BASE64 comment`, where the key is what `icdc keygen` prints on the client"
    )]
    AuthorizedKeys(TrustError),
    /// The directory of `--root` cannot be used.
    #[error("--root {root}: {cause}")]
    Root {
        /// The directory.
        root: PathBuf,
        /// Its error.
        cause: io::Error,
    },
    /// No listener could be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A thread or descriptor could not be created.
    #[error("cannot start accepting connections: {0}")]
    Start(io::Error),
}

/// Serves until `stop` is requested. Then no connection is accepted any more, running sessions make
/// durable what they have, and it returns. When `reload` is set, it is cleared, and identity and
/// authorized keys are read again.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(config: &ServeConfig, stop: &StopSignal, reload: &AtomicBool) -> Result<(), ServeError> {
    icdc_tcp::raise_descriptor_limit();
    // Sessions that act as another user load congestion control by this, and know paths by that.
    icdc_tcp::congestion::keep_privileges().and_then(|()| own_rights::keep()).map_err(ServeError::Start)?;
    let identity = Identity::load(&config.identity).map_err(ServeError::Identity)?;
    let root = match &config.root {
        Some(root) => {
            let real = root.canonicalize();
            Some(real.map_err(|cause| ServeError::Root { root: root.clone(), cause })?)
        }
        None => None,
    };
    let admission = Arc::new(Admission::open(&config.authorized_keys, root).map_err(ServeError::AuthorizedKeys)?);
    // Without an address, a host that has no IPv6 falls back to IPv4.
    let host = Some(config.listen.ip()).filter(|ip| *ip != IpAddr::from(Ipv6Addr::UNSPECIFIED));
    let port = config.listen.port();
    let listener = icdc_tcp::listen(host, (port, port), Family::Any, receive_buffer())?;
    let address = listener.local_addr().map_err(ServeError::Start)?;
    tracing::info!(%address, keys = admission.standing(), "listening");
    let tls = Mutex::new(tls_of(&identity));

    let sessions = Sessions::admitting_by(Arc::clone(&admission));
    let daemon = Arc::new(Daemon { tls, admission, sessions, refused: Mutex::default() });
    let mut guard = Guard::start(vec![listener], daemon.clone(), Limits::default()).map_err(ServeError::Start)?;
    while !stop.wait(CHECK) {
        let now = clock::now();
        if reload.swap(false, Ordering::Relaxed) {
            daemon.reload(config, now);
        }
        daemon.admission.look(now);
    }
    tracing::info!(sessions = daemon.sessions.count(), "stopping");
    guard.close();
    daemon.sessions.interrupt_all();
    if !guard.wait_until_served(SETTLE) {
        tracing::warn!("sessions that did not end in time are broken off; they can be resumed");
    }
    Ok(())
}

/// TLS with this identity, which is logged.
fn tls_of(identity: &Identity) -> Arc<rustls::ServerConfig> {
    let public = identity.public();
    tracing::info!("public key of this daemon: {public}");
    tracing::info!("its fingerprint: {}", public.fingerprint());
    server_config(identity, |_| true)
}

/// Serves clients with authorized keys.
struct Daemon {
    tls: Mutex<Arc<rustls::ServerConfig>>,
    admission: Arc<Admission>,
    sessions: Sessions,
    refused: Mutex<RefusedLines>,
}

impl Service for Daemon {
    /// Every key may complete the handshake: only then can the client be told that its key is
    /// unknown.
    fn tls(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn serve(&self, link: Link) {
        let Some(key) = link.control.peer_key() else {
            return;
        };
        let peer = link.control.peer();
        match self.admission.enter(&key, &link.control) {
            Err(refusal) => {
                self.log_refused(&key, &peer, &refusal.reason);
                if let Err(error) = refuse(link, refusal) {
                    tracing::debug!("refusing: {error}");
                }
            }
            Ok(admitted) => {
                let answered = session::answer(link, &admitted.rights, &self.sessions, &admitted.stop);
                log_session(&admitted.rights.label, &peer, &answered);
                admitted.leave(answered.ended);
            }
        }
    }

    fn take_data(&self, stream: TcpStream) {
        self.sessions.measurements.deliver(stream);
    }
}

impl Daemon {
    /// Reads identity and authorized keys again; one that cannot be read stays as it was.
    fn reload(&self, config: &ServeConfig, now: Time) {
        match Identity::load(&config.identity) {
            Ok(identity) => *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls_of(&identity),
            Err(error) => tracing::error!("the identity stays as it was: {error}"),
        }
        if let Err(error) = self.admission.reload(now) {
            tracing::error!("nobody new is let in until this is mended, and running sessions go on: {error}");
        }
    }

    /// Logs a client that was refused; a limit keeps clients from filling the log.
    fn log_refused(&self, key: &PublicKey, peer: &str, reason: &str) {
        let line = self.refused.lock().unwrap_or_else(PoisonError::into_inner).next(clock::now());
        let Some(left_out) = line else { return };
        if left_out > 0 {
            tracing::info!("{left_out} clients more were refused");
        }
        tracing::info!(peer, key = key.fingerprint(), ?reason, "refused");
    }
}

/// One line about each session. Further connections of a session have none.
fn log_session(who: &str, peer: &str, answered: &Answered) {
    let Answered { job, work, ended } = answered;
    let result = match ended {
        Ended::Finished | Ended::Joined => "done".to_owned(),
        Ended::Interrupted => "interrupted".to_owned(),
        Ended::Cut(reason) => format!("cut: {reason}"),
        Ended::Refused(reason) | Ended::TurnedAway(reason) => format!("refused: {reason}"),
    };
    let job = job.unwrap_or("nothing asked");
    match work.paths() {
        Some(path) => {
            let bytes = work.account.bytes();
            let seconds = format!("{:.3}", (clock::now() - work.account.start()).as_secs_f64());
            tracing::info!(?who, peer, path, bytes, seconds, ?result, "{job}");
        }
        None if matches!(ended, Ended::Finished | Ended::Joined) => tracing::debug!(?who, peer, ?result, "{job}"),
        None => tracing::info!(?who, peer, ?result, "{job}"),
    }
}

/// Answers the first message, whatever it is: the connection is then closed with nothing unread, so
/// that the answer arrives.
fn refuse(mut link: Link, refusal: Refusal) -> Result<(), LinkError> {
    match receive(link.inlet.as_mut()) {
        Ok(_) | Err(LinkError::Protocol(_)) => {}
        Err(error) => return Err(error),
    }
    link.outlet.send(Message::Refused(refusal).into())?;
    link.outlet.flush()
}
