//! Operations on the sockets of a session that need the daemon's privileges, as the session's
//! process requests them.
//!
//! Each request has a number, and its answer the same one: an answer that comes too late is not
//! taken for that to the next request.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use icdc_protocol::measure::Proof;
use icdc_rate::known_paths::Resumption;
use icdc_tcp::congestion::PathHints;
use icdc_tcp::{PrivilegedHelper, Privileges};
use icdc_transfer::Allowance;
use icdc_units::{ByteCount, Span};

use crate::channel::Channel;
use crate::messages::{Answer, Content, HelpRequest, NumberedRequest, ReceiptAnswer, ReceiptRequest};

/// Time limit for an answer: a file server that does not respond must not hold up a session for
/// long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Number of times [`PATIENCE`] that a session waits where it cannot go on without an answer.
const LONG_PATIENCE: u32 = 30;

/// Time limit for this process to end once its daemon is gone.
const ORPHAN_TIMEOUT: Span = Span::from_secs(5);

/// Reason for which a request has no answer.
enum Unanswered {
    /// The daemon has not answered in time.
    Late,
    /// The daemon has closed the channel, or is gone.
    Gone,
}

/// The daemon as the privileged helper of a session's process, which asks it over a channel.
pub(crate) struct DaemonHelper {
    channel: Channel,
    /// Number of the last request; one request is under way at a time.
    last: Mutex<u64>,
}

impl DaemonHelper {
    /// The helper that asks the daemon at the other end of `channel`.
    pub(crate) fn new(channel: Channel) -> std::io::Result<Arc<Self>> {
        channel.set_patience(PATIENCE)?;
        Ok(Arc::new(Self { channel, last: Mutex::default() }))
    }

    /// The daemon's privileges, for use on the sockets of this process.
    pub(crate) fn privileges(self: &Arc<Self>) -> Privileges {
        Privileges::of_helper(Arc::clone(self) as _)
    }

    /// Asks the daemon to hand on the data connections of a measurement that show these proofs.
    pub(crate) fn expect(&self, proofs: &[Proof]) {
        if self.ask(HelpRequest::Expect(proofs.to_vec()), None).is_none() {
            tracing::warn!("the daemon does not hand on data connections: it does not answer");
        }
    }

    /// Reserves payload that is about to move with the daemon, which counts it against the limits
    /// of the key; returns how much may move from now on. The error is a sentence for the user.
    fn reserve(&self, bytes: ByteCount) -> Result<ByteCount, String> {
        // The session cannot go on without the answer, and the daemon may be busy with another
        // request.
        let answer = self.ask_for(HelpRequest::Reserve(bytes.as_u64()), None, LONG_PATIENCE);
        if matches!(answer, Err(Unanswered::Gone)) {
            // The process ends with its daemon. A session that failed first would end the client's run, which is to
            // reconnect.
            #[expect(clippy::disallowed_methods, reason = "another thread ends the process meanwhile")]
            std::thread::sleep(ORPHAN_TIMEOUT.into());
        }
        match answer {
            Ok(Content::Reserved(reserved)) => reserved.map(ByteCount::new),
            _ => {
                Err("the daemon has not answered a request to reserve bytes of this key's limit; run the same command \
                      again"
                    .to_owned())
            }
        }
    }

    /// Has the daemon take a step of the session's receipt.
    ///
    /// # Errors
    /// A sentence for the user that tells why.
    pub(crate) fn receipt(&self, request: ReceiptRequest) -> Result<ReceiptAnswer, String> {
        match self.ask_for(HelpRequest::Receipt(request), None, LONG_PATIENCE) {
            Ok(Content::Receipt(answer)) => answer,
            _ => Err("the daemon, which signs receipts, has not answered".to_owned()),
        }
    }

    /// Asks the daemon; `None` without an answer in time.
    fn ask(&self, request: HelpRequest, socket: Option<BorrowedFd<'_>>) -> Option<Content> {
        self.ask_for(request, socket, 1).ok()
    }

    /// Asks the daemon, and waits `periods` times the channel's patience for the answer.
    fn ask_for(
        &self,
        request: HelpRequest,
        socket: Option<BorrowedFd<'_>>,
        periods: u32,
    ) -> Result<Content, Unanswered> {
        let mut left = periods;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        self.channel.send(&NumberedRequest { number: *last, request }, socket).map_err(|_| Unanswered::Gone)?;
        loop {
            match self.channel.receive::<Answer>() {
                Ok(Some((answer, _))) if answer.number == *last => return Ok(answer.content),
                Ok(Some(_)) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && left > 1 => left -= 1,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(Unanswered::Late),
                Ok(None) | Err(_) => return Err(Unanswered::Gone),
            }
        }
    }
}

impl PrivilegedHelper for DaemonHelper {
    fn set_congestion(
        &self,
        socket: BorrowedFd<'_>,
        algorithm: &str,
        hints: &PathHints,
    ) -> Option<Result<bool, String>> {
        match self.ask(HelpRequest::congestion(algorithm, hints), Some(socket))? {
            Content::Congestion(set) => Some(set),
            _ => None,
        }
    }

    fn known_path(&self, socket: BorrowedFd<'_>) -> Option<Resumption> {
        match self.ask(HelpRequest::KnownPath, Some(socket))? {
            Content::KnownPath(known) => known.map(Resumption::from),
            _ => None,
        }
    }

    fn remember_path(&self, socket: BorrowedFd<'_>, found: Resumption) {
        self.ask(HelpRequest::RememberPath(found.into()), Some(socket));
    }

    fn prepare_to_send(&self, socket: BorrowedFd<'_>) {
        self.ask(HelpRequest::PrepareToSend, Some(socket));
    }
}

/// Bytes that the daemon has reserved for a session and that have not moved yet.
pub(crate) struct Reserve {
    daemon: Arc<DaemonHelper>,
    left: Mutex<ByteCount>,
}

impl Reserve {
    /// An empty reserve: nothing is reserved yet.
    pub(crate) fn new(daemon: &Arc<DaemonHelper>) -> Self {
        Self { daemon: Arc::clone(daemon), left: Mutex::default() }
    }
}

impl Allowance for Reserve {
    fn reserve(&self, bytes: ByteCount) -> Result<(), String> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if *left < bytes {
            *left = self.daemon.reserve(bytes - *left)?.max(bytes - *left) + *left;
        }
        *left -= bytes;
        Ok(())
    }
}
