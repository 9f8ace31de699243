//! What the daemon does for the sockets of a session, which may not do it itself.
//!
//! The process asks by number and waits for the answer of that number: one that comes too late is not
//! taken for the answer to the next. What it asks for is not believed: only sockets of TCP are touched,
//! and only the congestion control that the daemon lends.

use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use icdc_measure::{Arrived, Expected};
use icdc_protocol::measure::Proof;
use icdc_rate::known_paths::Resumption;
use icdc_tcp::congestion::{self, BundleNumber, Hold, Told};
use icdc_transfer::Allowance;
use icdc_tuning::{buffers, known_paths, own_rights};
use icdc_units::ByteCount;

use crate::channel::Channel;
use crate::messages::{Answer, Content, Numbered, Order, Wish};
use crate::rights::AllowedCongestion;

/// A file server that does not answer must not hold up a session for long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Times [`PATIENCE`] that a session waits where it cannot go on without an answer.
const LONG_PATIENCE: u32 = 30;
/// Proofs that one measurement may have expected: it has a few connections.
const MOST_PROOFS: usize = 1024;

/// The daemon, as a session's process sees it.
pub struct Lender {
    channel: Channel,
    /// One wish at a time, by number.
    last: Mutex<u64>,
}

impl Lender {
    /// The daemon at the other end of `channel`.
    pub fn new(channel: Channel) -> std::io::Result<Arc<Self>> {
        channel.set_patience(PATIENCE)?;
        Ok(Arc::new(Self { channel, last: Mutex::default() }))
    }

    /// From now on this process asks the daemon for what it may not do itself.
    pub fn install(self: &Arc<Self>) {
        own_rights::borrow_from(Box::new(Asking(Arc::clone(self))));
        congestion::borrow_from(Box::new(Asking(Arc::clone(self))));
    }

    /// Has the daemon hand on connections with these proofs.
    pub fn expect(&self, proofs: &[Proof]) {
        if self.ask(Wish::Expect(proofs.to_vec()), None).is_none() {
            tracing::warn!("the daemon does not hand on data connections: it does not answer");
        }
    }

    /// Reserves payload that is about to move; how much may move from now on.
    fn reserve(&self, bytes: ByteCount) -> Result<ByteCount, String> {
        // The session cannot go on without the answer, and the daemon may be busy with another wish.
        match self.ask_for(Wish::Reserve(bytes.as_u64()), None, LONG_PATIENCE) {
            Some(Content::Reserved(reserved)) => reserved.map(ByteCount::new),
            _ => {
                Err("the daemon has not answered a request to reserve bytes of this key's limit; run the same command \
                      again"
                    .to_owned())
            }
        }
    }

    fn ask(&self, wish: Wish, socket: Option<BorrowedFd<'_>>) -> Option<Content> {
        self.ask_for(wish, socket, 1)
    }

    /// Waits `periods` times the channel's patience for the answer.
    fn ask_for(&self, wish: Wish, socket: Option<BorrowedFd<'_>>, periods: u32) -> Option<Content> {
        let mut left = periods;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        self.channel.send(&Numbered { number: *last, wish }, socket).ok()?;
        loop {
            match self.channel.receive::<Answer>() {
                Ok(Some((answer, _))) if answer.number == *last => return Some(answer.content),
                Ok(Some(_)) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && left > 1 => left -= 1,
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

struct Asking(Arc<Lender>);

impl own_rights::Lender for Asking {
    fn known_path(&self, socket: BorrowedFd<'_>) -> Option<Resumption> {
        match self.0.ask(Wish::KnownPath, Some(socket))? {
            Content::KnownPath(known) => known.map(Resumption::from),
            _ => None,
        }
    }

    fn remember_path(&self, socket: BorrowedFd<'_>, found: Resumption) {
        self.0.ask(Wish::RememberPath(found.into()), Some(socket));
    }

    fn prepare_to_send(&self, socket: BorrowedFd<'_>) {
        self.0.ask(Wish::PrepareToSend, Some(socket));
    }
}

impl congestion::Lender for Asking {
    fn lend(&self, socket: BorrowedFd<'_>, algorithm: &str, told: &Told) -> Option<Result<bool, String>> {
        match self.0.ask(Wish::congestion(algorithm, told), Some(socket))? {
            Content::Congestion(lent) => Some(lent),
            _ => None,
        }
    }
}

/// Bytes that the daemon has reserved for a session and that have not moved yet.
pub struct Reserve {
    lender: Arc<Lender>,
    left: Mutex<ByteCount>,
}

impl Reserve {
    /// Nothing is reserved yet.
    pub fn new(lender: &Arc<Lender>) -> Self {
        Self { lender: Arc::clone(lender), left: Mutex::default() }
    }
}

impl Allowance for Reserve {
    fn reserve(&self, bytes: ByteCount) -> Result<(), String> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if *left < bytes {
            *left = self.lender.reserve(bytes - *left)?.max(bytes - *left) + *left;
        }
        *left -= bytes;
        Ok(())
    }
}

/// Services of the daemon for the process of a session.
#[derive(Clone, Copy)]
pub struct Lent<'a> {
    /// Congestion control that the session may have.
    pub allowed: &'a AllowedCongestion,
    /// Proofs of data connections.
    pub expected: &'a Expected,
    /// Reserves payload.
    pub reserve: &'a (dyn Fn(ByteCount) -> Result<ByteCount, String> + Sync),
}

/// Does what a session's process asks for until that ends. `control` is its other channel.
/// Sockets count that lead to `peer`; to any host where that is `None`.
pub fn lend(
    channel: &Channel,
    control: &Arc<Channel>,
    Lent { allowed, expected, reserve }: Lent<'_>,
    peer: Option<IpAddr>,
) {
    // What was loaded for the session stays loaded as long as that lives, and so do its proofs.
    let (mut holds, mut expecting, mut expected_so_far) = (Vec::new(), Vec::new(), 0);
    while let Ok(Some((Numbered { number, wish }, socket))) = channel.receive::<Numbered>() {
        let content = match (wish, socket.and_then(tcp).filter(|stream| is_of(stream, peer))) {
            (Wish::Expect(proofs), None) => {
                expected_so_far += proofs.len();
                if expected_so_far <= MOST_PROOFS {
                    let control = Arc::clone(control);
                    expecting.push(expected.expect(proofs, move |Arrived { stream, said }| {
                        // The thread that accepts waits for no session; without the process nobody expects it any more.
                        let _ = control.send_at_once(&Order::Data(said), Some(stream.as_fd()));
                    }));
                }
                Content::Done
            }
            (Wish::Reserve(bytes), None) => Content::Reserved(reserve(ByteCount::new(bytes)).map(ByteCount::as_u64)),
            (wish, Some(stream)) => fulfil(wish, &stream, allowed, &mut holds),
            (_, None) => Content::Done,
        };
        if channel.send(&Answer { number, content }, None).is_err() {
            break;
        }
    }
}

/// A socket of TCP, and no other descriptor.
fn tcp(socket: OwnedFd) -> Option<TcpStream> {
    let protocol = rustix::net::sockopt::socket_protocol(&socket).ok().flatten();
    (protocol == Some(rustix::net::ipproto::TCP)).then(|| TcpStream::from(socket))
}

/// Whether a socket leads to the peer of the session: what is learnt of other paths is none of its business.
fn is_of(stream: &TcpStream, peer: Option<IpAddr>) -> bool {
    let address = stream.peer_addr().map(|address| address.ip().to_canonical());
    peer.is_none_or(|peer| address.is_ok_and(|address| address == peer.to_canonical()))
}

fn fulfil(wish: Wish, stream: &TcpStream, allowed: &AllowedCongestion, holds: &mut Vec<Hold>) -> Content {
    match wish {
        Wish::KnownPath => Content::KnownPath(known_paths::resume_here(stream).map(Into::into)),
        Wish::RememberPath(found) => {
            known_paths::remember_here(stream, found.into());
            Content::Done
        }
        Wish::PrepareToSend => {
            buffers::prepare_here(stream);
            Content::Done
        }
        Wish::Congestion { algorithm, .. } if !allowed.lends(&algorithm) => {
            Content::Congestion(Err(format!("the daemon does not load {algorithm} (icdc serve --allow-cc)")))
        }
        Wish::Congestion { algorithm, known, bundle } => {
            let told = Told { known: known.map(Resumption::from), bundle: bundle.map(BundleNumber::of_number) };
            let lent = congestion::lend(stream, &algorithm, &told);
            Content::Congestion(lent.map(|lent| {
                if holds.is_empty() {
                    holds.extend(lent.hold);
                }
                lent.is_told
            }))
        }
        Wish::Expect(_) | Wish::Reserve(_) => Content::Done,
    }
}
