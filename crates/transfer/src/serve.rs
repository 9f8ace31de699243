//! The daemon: lets in whom `authorized_keys` names, each within its own root.
//!
//! A stranger whose handshake succeeds but whose key is not authorized is told so in one sentence, with the
//! line that its operator would have to add, and nothing else.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_protocol::Message;
use icdc_protocol::message::Refusal;
use icdc_tcp::{Family, ListenError};
use icdc_trust::{Identity, PublicKey, TrustError, server_config};
use icdc_units::{Span, Time};
use thiserror::Error;

use crate::buffers::receive_buffer;
use crate::clock;
use crate::connect::ssh::receive;
use crate::link::{Link, LinkError};
use crate::listen::admission::Admission;
use crate::listen::guard::{Guard, House, Limits};
use crate::listen::refused::RefusedLines;
use crate::own_rights;
use crate::session::{self, Answered, Ended, Sessions};
use crate::stop::StopSignal;

/// How long sessions may take to make durable what they have when the daemon stops.
const SETTLE: Span = Span::from_secs(60);
/// How often the daemon looks whether its authorized keys have changed. Two looks and a parting are well within a second.
const LOOK: Span = Span::from_millis(150);

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
        "{0}; a line of it reads `root=/DIR,rights=rw,user=NAME icdc-ed25519 BASE64 comment`, where the key is what `icdc keygen` prints on the client"
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
/// and it returns. Where `reload` is set, it is cleared, and identity and authorized keys are read again.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(config: &ServeConfig, stop: &StopSignal, reload: &AtomicBool) -> Result<(), ServeError> {
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
    let admission = Arc::new(Admission::open(&config.authorized_keys, root).map_err(ServeError::AuthorizedKeys)?);
    // Without an address, a host that has no IPv6 falls back to IPv4.
    let host = Some(config.listen.ip()).filter(|ip| *ip != IpAddr::from(Ipv6Addr::UNSPECIFIED));
    let port = config.listen.port();
    let listener = icdc_tcp::listen(host, (port, port), Family::Any, receive_buffer())?;
    let address = listener.local_addr().map_err(ServeError::Start)?;
    tracing::info!(%address, keys = admission.standing(), "listening");
    let tls = Mutex::new(tls_of(&identity));

    let sessions = Sessions::admitting_by(Arc::clone(&admission));
    let house = Arc::new(Daemon { tls, admission, sessions, refused: Mutex::default() });
    let mut guard = Guard::start(vec![listener], house.clone(), Limits::default()).map_err(ServeError::Start)?;
    while !stop.wait(LOOK) {
        let now = clock::now();
        if reload.swap(false, Ordering::Relaxed) {
            house.reload(config, now);
        }
        house.admission.look(now);
    }
    tracing::info!(sessions = house.sessions.count(), "stopping");
    guard.close();
    house.sessions.interrupt_all();
    if !guard.wait_for_guests(SETTLE) {
        tracing::warn!("sessions that did not end in time are broken off; they can be resumed");
    }
    Ok(())
}

/// TLS with this identity, which the log tells.
fn tls_of(identity: &Identity) -> Arc<rustls::ServerConfig> {
    let public = identity.public();
    tracing::info!("public key of this daemon: {public}");
    tracing::info!("its fingerprint: {}", public.fingerprint());
    server_config(identity, |_| true)
}

/// The house of the authorized keys.
struct Daemon {
    tls: Mutex<Arc<rustls::ServerConfig>>,
    admission: Arc<Admission>,
    sessions: Sessions,
    refused: Mutex<RefusedLines>,
}

impl House for Daemon {
    /// Lets every key finish the handshake: only then can the holder of an unknown one be told what to do.
    fn tls(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn welcome(&self, link: Link) {
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
}

impl Daemon {
    /// Reads again what can be: what cannot stays as it was.
    fn reload(&self, config: &ServeConfig, now: Time) {
        match Identity::load(&config.identity) {
            Ok(identity) => *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls_of(&identity),
            Err(error) => tracing::error!("the identity stays as it was: {error}"),
        }
        if let Err(error) = self.admission.reload(now) {
            tracing::error!("nobody new is let in until this is mended, and running sessions go on: {error}");
        }
    }

    /// Tells the operator who was turned away, as long as strangers cannot fill the log by it.
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
            let seconds = format!("{:.3}", (clock::now() - work.account.start).as_secs_f64());
            tracing::info!(?who, peer, path, bytes, seconds, ?result, "{job}");
        }
        None if matches!(ended, Ended::Finished | Ended::Joined) => tracing::debug!(?who, peer, ?result, "{job}"),
        None => tracing::info!(?who, peer, ?result, "{job}"),
    }
}

/// Answers the first message, whatever it is: the connection is then closed with nothing unread, so that the
/// answer arrives.
fn refuse(mut link: Link, refusal: Refusal) -> Result<(), LinkError> {
    match receive(link.inlet.as_mut()) {
        Ok(_) | Err(LinkError::Protocol(_)) => {}
        Err(error) => return Err(error),
    }
    link.outlet.send(Message::Refused(refusal).into())?;
    link.outlet.flush()
}
