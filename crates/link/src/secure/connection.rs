//! State that the halves of a link over TCP share, and that any thread may read.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use icdc_tcp::{TcpInfo, clock};
use icdc_trust::PublicKey;
use icdc_units::{ByteCount, Rate, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::carrier::Carrier;
use crate::control::{Control, SendTimes};
use crate::error::LinkError;

/// Time limit for the last bytes and the peer's close when a link is closed in order.
pub(super) const FAREWELL: Span = Span::from_secs(2);

/// State that the two halves and the control of a secure link share.
pub(super) struct Connection {
    pub(super) carrier: Carrier,
    pub(super) peer: String,
    pub(super) peer_key: PublicKey,
    /// Protocol version that was agreed upon.
    pub(super) version: u32,
    pub(super) cipher: &'static str,
    /// Duration of the handshake; `None` if the peer began it.
    pub(super) handshake_time: Option<Span>,
    /// Whether the peer asked for new keys in the sending direction too.
    pub(super) key_update_wanted: AtomicBool,
    /// Whether this end has shut the connection down.
    pub(super) stopped: AtomicBool,
    /// Whether the sending half has ended its direction in order.
    pub(super) said_farewell: AtomicBool,
    /// Whether the receiving half has seen the end of its direction, of whatever kind except a peer
    /// that broke a rule of the protocol.
    pub(super) heard_end: AtomicBool,
    pub(super) encrypt_nanos: AtomicU64,
    pub(super) socket_nanos: AtomicU64,
    /// Nanoseconds for which the receiving half has waited for the peer since it last received
    /// anything, in steps of its read timeout.
    pub(super) silence_nanos: AtomicU64,
    /// Number of payload bytes that the receiving half has decrypted.
    pub(super) payload_received: AtomicU64,
    /// Number of bytes that the sending half has written and that were no payload.
    pub(super) overhead_sent: AtomicU64,
}

impl Connection {
    /// Whether this end has shut the connection down.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Link error that an error of the socket amounts to, such as a stop of this end.
    pub(super) fn io(&self, call: &'static str, error: std::io::Error) -> LinkError {
        if self.is_stopped() { LinkError::Stopped } else { LinkError::io(&self.peer, call, error) }
    }

    /// Error of a connection that has ended without an orderly close: [`LinkError::Stopped`] if
    /// this end shut it down, else [`LinkError::Cut`].
    pub(super) fn cut(&self) -> LinkError {
        if self.is_stopped() { LinkError::Stopped } else { LinkError::Cut { peer: self.peer.clone() } }
    }

    /// Ends the connection at once, without an orderly close.
    pub(super) fn abort(&self) {
        // It fails if the peer was faster, and then there is nothing left to end.
        let _ = self.carrier.shutdown(Shutdown::Both);
    }
}

impl Control for Connection {
    fn shutdown(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.abort();
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn is_hung_up(&self) -> bool {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut watched = [PollFd::new(&self.carrier, PollFlags::RDHUP)];
        poll(&mut watched, Some(&Timespec::default())).is_ok() && watched[0].revents().intersects(gone)
    }

    fn window(&self) -> Option<ByteCount> {
        self.carrier.window()
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        self.carrier.tcp_info()
    }

    fn received(&self) -> ByteCount {
        ByteCount::new(self.payload_received.load(Ordering::Relaxed))
    }

    fn delivered(&self) -> ByteCount {
        self.carrier.delivered() - ByteCount::new(self.overhead_sent.load(Ordering::Relaxed))
    }

    fn silence(&self) -> Span {
        Span::from_nanos(self.silence_nanos.load(Ordering::Relaxed))
    }

    fn set_rate(&self, rate: Option<Rate>) {
        self.carrier.set_rate(rate);
    }

    fn socket(&self) -> Option<&Arc<TcpStream>> {
        self.carrier.tcp()
    }

    fn address(&self) -> Option<SocketAddr> {
        self.carrier.address()
    }

    fn to_hand_over(&self) -> Option<BorrowedFd<'_>> {
        self.carrier.to_hand_over()
    }

    fn trust(&self) {
        self.carrier.trust();
    }

    fn carried(&self) -> ByteCount {
        self.carrier.carried()
    }

    fn finds_the_rate(&self) -> bool {
        self.carrier.finds_the_rate()
    }

    fn send_times(&self) -> SendTimes {
        SendTimes {
            encrypt: Span::from_nanos(self.encrypt_nanos.load(Ordering::Relaxed)),
            socket: Span::from_nanos(self.socket_nanos.load(Ordering::Relaxed)),
            paced: Span::ZERO,
        }
    }

    fn peer_key(&self) -> Option<PublicKey> {
        Some(self.peer_key)
    }

    fn version(&self) -> Option<u32> {
        Some(self.version)
    }

    fn handshake_time(&self) -> Option<Span> {
        self.handshake_time
    }

    fn cipher(&self) -> Option<&'static str> {
        Some(self.cipher)
    }
}

impl Drop for Connection {
    /// Closes the connection. Closing a socket that holds unread data resets it, which would take
    /// the orderly close from a peer that has not read it yet: so what still arrives after it is
    /// read and discarded, up to the peer's end.
    fn drop(&mut self) {
        if !self.said_farewell.load(Ordering::SeqCst) || self.heard_end.load(Ordering::SeqCst) || self.is_stopped() {
            return;
        }
        let end = clock::now() + FAREWELL;
        let mut scrap = [0; 16 << 10];
        loop {
            let left = end - clock::now();
            if left == Span::ZERO || self.carrier.set_read_timeout(Some(left)).is_err() {
                return;
            }
            if !matches!(self.carrier.read(&mut scrap), Ok(1..)) {
                return;
            }
        }
    }
}
