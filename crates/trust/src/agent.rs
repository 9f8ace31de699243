//! Keys whose private half an ssh-agent holds, by two of its messages: which keys there are, and a
//! signature by one (draft-ietf-sshm-ssh-agent). Ed25519 signatures of an agent sign the data as it
//! is, which is what TLS wants.
//!
//! What the agent answers is bounded in size and time, and a signature is checked before it is
//! used.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

use crate::PublicKey;
use crate::public_key::SSH_KEY_TYPE;

/// Environment variable with the path of the agent's socket, as for ssh.
const SOCKET: &str = "SSH_AUTH_SOCK";
/// Time limit for an answer: an agent may prompt its user, while the other end of a handshake
/// waits.
const PATIENCE: Duration = Duration::from_secs(12);
/// Maximum length of an answer in bytes, as OpenSSH's agent has it.
const MAX_ANSWER: usize = 256 << 10;

/// Message number: asks the agent which keys it has.
const REQUEST_IDENTITIES: u8 = 11;
/// Message number: the agent's list of its keys.
const IDENTITIES_ANSWER: u8 = 12;
/// Message number: asks the agent for a signature.
const SIGN_REQUEST: u8 = 13;
/// Message number: the agent's answer with a signature.
const SIGN_RESPONSE: u8 = 14;

/// A key whose private half an ssh-agent holds and signs with.
#[derive(Clone, Debug)]
pub(crate) struct AgentKey {
    socket: PathBuf,
    public: PublicKey,
}

/// Reason why an agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// The environment names no agent.
    #[error("{SOCKET} names no ssh-agent; start one (`eval $(ssh-agent)`) and add the key with `ssh-add`")]
    None,
    /// The agent cannot be reached.
    #[error("the ssh-agent at {} does not answer: {cause}", socket.display())]
    Unreachable { socket: PathBuf, cause: io::Error },
    /// The agent did not answer in time.
    #[error("the ssh-agent at {} has not answered within {} s", socket.display(), PATIENCE.as_secs())]
    Silent { socket: PathBuf },
    /// The agent does not have the key.
    #[error("the ssh-agent at {} does not have this key; add it with `ssh-add`", socket.display())]
    Lacks { socket: PathBuf },
    /// The agent answered the request to sign without a signature.
    #[error("the ssh-agent at {} refused to sign: it is locked, or its user declined", socket.display())]
    Refused { socket: PathBuf },
    /// The agent's answer is invalid.
    #[error("the ssh-agent at {} sent an invalid answer", socket.display())]
    Wrong { socket: PathBuf },
}

impl AgentKey {
    /// Finds the private half of `public` in the agent that the environment names.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub(crate) fn find(public: PublicKey) -> Result<Self, AgentError> {
        let socket = std::env::var_os(SOCKET).filter(|name| !name.is_empty()).map(PathBuf::from);
        Self::find_at(&socket.ok_or(AgentError::None)?, public)
    }

    /// Finds the private half of `public` in the agent at `socket`.
    fn find_at(socket: &Path, public: PublicKey) -> Result<Self, AgentError> {
        let key = Self { socket: socket.to_owned(), public };
        let answer = key.ask(vec![REQUEST_IDENTITIES])?;
        match is_listed(&answer, public) {
            Some(true) => Ok(key),
            Some(false) => Err(AgentError::Lacks { socket: key.socket }),
            None => Err(AgentError::Wrong { socket: key.socket }),
        }
    }

    /// Requests a signature of `message` from the agent, and verifies it.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub(crate) fn signature(&self, message: &[u8]) -> Result<Vec<u8>, AgentError> {
        let mut request = vec![SIGN_REQUEST];
        put(&mut request, &self.public.to_ssh());
        put(&mut request, message);
        request.extend(0_u32.to_be_bytes());
        let answer = self.ask(request)?;
        if answer.first() != Some(&SIGN_RESPONSE) {
            return Err(AgentError::Refused { socket: self.socket.clone() });
        }
        let key = UnparsedPublicKey::new(&ED25519, self.public.as_bytes());
        let signature = signature_of(&answer).filter(|signature| key.verify(message, signature).is_ok());
        signature.map(<[u8]>::to_vec).ok_or_else(|| AgentError::Wrong { socket: self.socket.clone() })
    }

    /// Sends a request and returns the body of the answer. A thread of its own waits for it, so
    /// that one deadline covers all of it, the connection included.
    fn ask(&self, request: Vec<u8>) -> Result<Vec<u8>, AgentError> {
        let (tell_stream, stream) = mpsc::channel();
        let (sender, received) = mpsc::channel();
        let socket = self.socket.clone();
        let unreachable = |cause| AgentError::Unreachable { socket: self.socket.clone(), cause };
        let thread = std::thread::Builder::new().name("ssh-agent".into());
        // A late answer has no receiver any more.
        thread
            .spawn(move || {
                let _ = sender.send(exchange(&socket, &request, &tell_stream));
            })
            .map_err(unreachable)?;
        match received.recv_timeout(PATIENCE) {
            Ok(answer) => answer.map_err(unreachable),
            Err(_) => {
                if let Ok(stream) = stream.try_recv() {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                Err(AgentError::Silent { socket: self.socket.clone() })
            }
        }
    }
}

/// Connects to the agent, sends one request and returns the body of its answer. Sends a handle of
/// the connection to `tell` first, by which another thread can end it.
fn exchange(socket: &Path, request: &[u8], tell: &mpsc::Sender<UnixStream>) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    let _ = tell.send(stream.try_clone()?);
    let mut framed = Vec::with_capacity(4 + request.len());
    put(&mut framed, request);
    stream.write_all(&framed)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length == 0 || length > MAX_ANSWER {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("its answer has {length} bytes")));
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

impl SigningKey for AgentKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SignatureScheme::ED25519).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for AgentKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.signature(message).map_err(|error| Error::General(error.to_string()))
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// Whether an answer lists the key `public`; `None` if it is not a list.
fn is_listed(answer: &[u8], public: PublicKey) -> Option<bool> {
    let mut rest = answer.strip_prefix(&[IDENTITIES_ANSWER])?;
    let number = take(&mut rest, 4)?;
    let mut found = false;
    // Each takes 8 bytes at least, so that a number that lies ends the loop soon.
    for _ in 0..u32::from_be_bytes(number.try_into().ok()?) {
        found |= PublicKey::from_ssh(string(&mut rest)?) == Some(public);
        string(&mut rest)?;
    }
    Some(found)
}

/// The Ed25519 signature in an answer; `None` if there is none.
fn signature_of(answer: &[u8]) -> Option<&[u8]> {
    let mut rest = answer.strip_prefix(&[SIGN_RESPONSE])?;
    let mut blob = string(&mut rest)?;
    let kind = string(&mut blob)?;
    string(&mut blob).filter(|_| kind == SSH_KEY_TYPE.as_bytes() && blob.is_empty() && rest.is_empty())
}

/// Appends a string, preceded by its length.
fn put(to: &mut Vec<u8>, string: &[u8]) {
    to.extend((string.len() as u32).to_be_bytes());
    to.extend(string);
}

/// Takes a string that is preceded by its length; `None` if the bytes are too few.
fn string<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take(from, 4)?;
    take(from, u32::from_be_bytes(length.try_into().ok()?) as usize)
}

/// Takes `length` bytes from the front; `None` if there are fewer.
fn take<'a>(from: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    fn pair() -> (Ed25519KeyPair, PublicKey) {
        let pair = Ed25519KeyPair::generate().unwrap();
        let public = PublicKey::from_bytes(pair.public_key().as_ref().try_into().unwrap());
        (pair, public)
    }

    /// An agent that answers every request by `answer`, and the directory of its socket.
    fn agent(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut length = [0; 4];
                stream.read_exact(&mut length).unwrap();
                let mut request = vec![0; u32::from_be_bytes(length) as usize];
                stream.read_exact(&mut request).unwrap();
                let _ = stream.write_all(&answer(&request));
            }
        });
        (directory, socket)
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut framed = Vec::new();
        put(&mut framed, body);
        framed
    }

    fn listing(keys: &[PublicKey]) -> Vec<u8> {
        let mut body = vec![IDENTITIES_ANSWER];
        body.extend((keys.len() as u32).to_be_bytes());
        for key in keys {
            put(&mut body, &key.to_ssh());
            put(&mut body, b"comment");
        }
        body
    }

    fn signed(signature: &[u8]) -> Vec<u8> {
        let (mut blob, mut body) = (Vec::new(), vec![SIGN_RESPONSE]);
        put(&mut blob, SSH_KEY_TYPE.as_bytes());
        put(&mut blob, signature);
        put(&mut body, &blob);
        body
    }

    #[test]
    fn an_agents_signature_is_used_when_it_is_one() {
        let (pair, public) = pair();
        let (_directory, socket) = agent(move |request| {
            framed(&match request[0] {
                REQUEST_IDENTITIES => listing(&[PublicKey::from_bytes([1; 32]), public]),
                _ => signed(pair.sign(b"message").as_ref()),
            })
        });
        let key = AgentKey::find_at(&socket, public).unwrap();
        assert_eq!(key.signature(b"message").unwrap().len(), 64);
        assert!(matches!(key.signature(b"another"), Err(AgentError::Wrong { .. })), "it signed something else");
        let lacks = AgentKey::find_at(&socket, PublicKey::from_bytes([2; 32])).unwrap_err();
        assert!(lacks.to_string().contains("ssh-add"), "{lacks}");
    }

    #[test]
    fn nonsense_and_refusals_are_told_apart_and_cost_little() {
        let (_, public) = pair();
        let of = |answer: Vec<u8>| {
            let (_directory, socket) = agent(move |_| answer.clone());
            let key = AgentKey { socket: socket.clone(), public };
            (AgentKey::find_at(&socket, public).unwrap_err(), key.signature(b"message").unwrap_err())
        };
        let failure = of(framed(&[5]));
        assert!(matches!(failure, (AgentError::Wrong { .. }, AgentError::Refused { .. })), "{failure:?}");
        let endless = of(vec![0xff; 8]);
        assert!(matches!(endless, (AgentError::Unreachable { .. }, AgentError::Unreachable { .. })), "{endless:?}");
        let cut = of(vec![0, 0, 0, 9, IDENTITIES_ANSWER]);
        assert!(matches!(cut, (AgentError::Unreachable { .. }, AgentError::Unreachable { .. })), "{cut:?}");
        let mut lying = vec![IDENTITIES_ANSWER];
        lying.extend(u32::MAX.to_be_bytes());
        assert!(matches!(of(framed(&lying)).0, AgentError::Wrong { .. }));
        assert!(matches!(of(framed(&signed(&[0; 64]))).1, AgentError::Wrong { .. }), "it is no signature");
        let gone = AgentKey::find_at(Path::new("/nowhere/agent"), public).unwrap_err();
        assert!(matches!(gone, AgentError::Unreachable { .. }), "{gone:?}");
    }
}
