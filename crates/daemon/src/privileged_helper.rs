//! Operations on the sockets of a session that need the daemon's privileges, as its process
//! requests them.
//!
//! Requests are not trusted: only sockets of TCP are touched, and only congestion control is set
//! that the daemon allows.

use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use icdc_measure::{Arrived, Expected};
use icdc_rate::known_paths::Resumption;
use icdc_session_process::AllowedCongestion;
use icdc_session_process::channel::Channel;
use icdc_session_process::messages::{
    Answer, Content, HelpRequest, Instruction, NumberedRequest, ReceiptAnswer, ReceiptRequest,
};
use icdc_tcp::Privileges;
use icdc_tcp::congestion::{self, BundleNumber, Hold, PathHints, SetResult};
use icdc_transfer::Notary;
use icdc_tuning::{buffers, known_paths};
use icdc_units::ByteCount;

/// Most proofs of data connections that the process of one measurement may have the daemon expect:
/// it has a few connections.
const MOST_PROOFS: usize = 1024;

/// Operations that a session's process may request of the daemon.
#[derive(Clone, Copy)]
pub(crate) struct Provided<'a> {
    /// Names of congestion controls that may be set.
    pub(crate) allowed: &'a AllowedCongestion,
    /// Registry of the proofs of data connections.
    pub(crate) expected: &'a Expected,
    /// Reserves payload for the session; returns how much may move, or the limit that is used up.
    pub(crate) reserve: &'a (dyn Fn(ByteCount) -> Result<ByteCount, String> + Sync),
    /// Signs the session's receipt; `None` if its request asks for none.
    pub(crate) notary: Option<&'a dyn Notary>,
}

/// Carries out the requests of a session's process until that ends. `control` is its other channel.
/// Only sockets that lead to `peer` are touched, or those to any host where `peer` is `None`.
pub(crate) fn help(
    channel: &Channel,
    control: &Arc<Channel>,
    Provided { allowed, expected, reserve, notary }: Provided<'_>,
    peer: Option<IpAddr>,
) {
    // What was loaded for the session stays loaded as long as that lives, and so do its proofs.
    let (mut holds, mut expecting, mut expected_so_far) = (Vec::new(), Vec::new(), 0);
    while let Ok(Some((NumberedRequest { number, request }, socket))) = channel.receive::<NumberedRequest>() {
        let content = match (request, socket.and_then(tcp).filter(|stream| is_of(stream, peer))) {
            (HelpRequest::Expect(proofs), None) => {
                expected_so_far += proofs.len();
                if expected_so_far <= MOST_PROOFS {
                    let control = Arc::clone(control);
                    expecting.push(expected.expect(proofs, move |Arrived { stream, said }| {
                        // The thread that accepts waits for no session; without the process nobody
                        // expects it any more.
                        let _ = control.send_at_once(&Instruction::Data(said), Some(stream.as_fd()));
                    }));
                }
                Content::Done
            }
            (HelpRequest::Reserve(bytes), None) => {
                Content::Reserved(reserve(ByteCount::new(bytes)).map(ByteCount::as_u64))
            }
            (HelpRequest::Receipt(request), None) => Content::Receipt(receipt(notary, request)),
            (request, Some(stream)) => carry_out(request, &stream, allowed, &mut holds),
            (_, None) => Content::Done,
        };
        if channel.send(&Answer { number, content }, None).is_err() {
            break;
        }
    }
}

/// Carries out a step of a receipt: begins it, adds lines or signs it. Nothing is signed but what
/// the notary has stated and the lines that the session has delivered.
fn receipt(notary: Option<&dyn Notary>, request: ReceiptRequest) -> Result<ReceiptAnswer, String> {
    let notary = notary.ok_or("the session was not asked for a receipt")?;
    match request {
        ReceiptRequest::Begin { directory } => notary.begin(&directory).map(ReceiptAnswer::Begun),
        ReceiptRequest::Add(lines) => {
            notary.add(lines);
            Ok(ReceiptAnswer::Added)
        }
        ReceiptRequest::Sign { snapshot } => notary.sign(snapshot).map(ReceiptAnswer::Signed),
    }
}

/// The socket as a stream if it is one of TCP; `None` for any other descriptor.
fn tcp(socket: OwnedFd) -> Option<TcpStream> {
    let protocol = rustix::net::sockopt::socket_protocol(&socket).ok().flatten();
    (protocol == Some(rustix::net::ipproto::TCP)).then(|| TcpStream::from(socket))
}

/// Whether a socket leads to `peer`, the peer of the session: it learns nothing of other paths.
/// True if `peer` is `None`.
fn is_of(stream: &TcpStream, peer: Option<IpAddr>) -> bool {
    let address = stream.peer_addr().map(|address| address.ip().to_canonical());
    peer.is_none_or(|peer| address.is_ok_and(|address| address == peer.to_canonical()))
}

/// Carries out a request about a socket of the session; returns the answer.
fn carry_out(request: HelpRequest, stream: &TcpStream, allowed: &AllowedCongestion, holds: &mut Vec<Hold>) -> Content {
    let privileges = &Privileges::own();
    match request {
        HelpRequest::KnownPath => Content::KnownPath(known_paths::resume(stream, privileges).map(Into::into)),
        HelpRequest::RememberPath(found) => {
            known_paths::remember(stream, found.into(), privileges);
            Content::Done
        }
        HelpRequest::PrepareToSend => {
            buffers::prepare_to_send(stream, privileges);
            Content::Done
        }
        HelpRequest::Congestion { algorithm, .. } if !allowed.allows(&algorithm) => {
            Content::Congestion(Err(format!("the daemon does not load {algorithm} (icdc serve --allow-cc)")))
        }
        HelpRequest::Congestion { algorithm, known, bundle, background } => {
            let (known, bundle) = (known.map(Resumption::from), bundle.map(BundleNumber::of_number));
            let hints = PathHints { known, bundle, background };
            let taken = congestion::set_ours(stream, &algorithm, &hints);
            Content::Congestion(taken.map(|SetResult { hold, has_hints }| {
                if holds.is_empty() {
                    holds.extend(hold);
                }
                has_hints
            }))
        }
        HelpRequest::Expect(_) | HelpRequest::Reserve(_) | HelpRequest::Receipt(_) => Content::Done,
    }
}
