//! Handle of a link that any thread may hold.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use icdc_tcp::TcpInfo;
use icdc_trust::PublicKey;
use icdc_units::{ByteCount, Rate, Span};

/// Time that the sending half of a link has spent so far, by activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendTimes {
    /// Time spent on framing and encryption.
    pub encrypt: Span,
    /// Time spent waiting for the socket to take data, and on the kernel's copy of it.
    pub socket: Span,
    /// Time spent waiting for the rate limit of a link within this process.
    pub paced: Span,
}

/// Handle by which any thread can monitor a link or end it.
#[derive(Clone)]
pub struct LinkControl(pub(crate) Arc<dyn Control>);

impl LinkControl {
    /// Ends both directions at once: calls that wait in either half return with
    /// [`LinkError::Stopped`](crate::LinkError::Stopped), the peer sees
    /// [`LinkError::Cut`](crate::LinkError::Cut). A `receive` that waits for a block wakes when its
    /// pool is closed.
    pub fn shutdown(&self) {
        self.0.shutdown();
    }

    /// Whether the peer has ended its direction, even if some of it is still to be received: it
    /// will not read an answer. False for links that are not encrypted.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        self.0.is_hung_up()
    }

    /// Kernel's TCP statistics of the connection, also of one by which another program carries the
    /// link, where they are available; `None` for links that are not TCP, or have ended.
    #[must_use]
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.0.tcp_info()
    }

    /// Payload bytes that have arrived so far, those of an incomplete frame included; zero for
    /// pipes, which carry none.
    #[must_use]
    pub fn received(&self) -> ByteCount {
        self.0.received()
    }

    /// Time for which the receiving half has been waiting for the peer, in steps of a second; zero
    /// while it waits for a block or for its reader, and for links that are not encrypted.
    #[must_use]
    pub fn silence(&self) -> Span {
        self.0.silence()
    }

    /// Payload bytes that have reached the peer's host so far; those that the program has taken,
    /// where another program carries the link over a connection that cannot be seen; those that the
    /// peer has received, for a link in memory; zero for pipes, which carry none.
    #[must_use]
    pub fn delivered(&self) -> ByteCount {
        self.0.delivered()
    }

    /// Limits the rate at which the link sends, where the carrier is TCP, another program or
    /// memory; `None` for no limit.
    pub fn set_rate(&self, rate: Option<Rate>) {
        self.0.set_rate(rate);
    }

    /// TCP socket of the link, for its options; `None` for links that are not TCP, and for those
    /// that another program carries.
    #[must_use]
    pub fn socket(&self) -> Option<&Arc<TcpStream>> {
        self.0.socket()
    }

    /// Address of the peer; `None` for links that have none, and those that another program carries.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.address()
    }

    /// Socket of the link, for a process that takes it over; `None` for links that stay in their process.
    pub(crate) fn to_hand_over(&self) -> Option<BorrowedFd<'_>> {
        self.0.to_hand_over()
    }

    /// Lets the peer send as much as the path carries: its key is admitted. Over TCP the kernel's buffers bound it anyway.
    pub fn trust(&self) {
        self.0.trust();
    }

    /// Number of bytes that the link has carried in both directions, as the kernel counts them, or the thread of this
    /// process that accepted it; zero for links of other kinds.
    #[must_use]
    pub fn carried(&self) -> ByteCount {
        self.0.carried()
    }

    /// Whether the link reaches the path's rate alone, whatever the kernel's congestion control: it goes over datagrams.
    #[must_use]
    pub fn finds_the_rate(&self) -> bool {
        self.0.finds_the_rate()
    }

    /// Maximum number of bytes that the program that carries the link has in flight per round
    /// trip; `None` if that is unknown, and for links that no program carries.
    #[must_use]
    pub fn window(&self) -> Option<ByteCount> {
        self.0.window()
    }

    /// Time that the sending half has spent by activity so far, as far as the carrier measures it.
    #[must_use]
    pub fn send_times(&self) -> SendTimes {
        self.0.send_times()
    }

    /// Public key that the peer has proved to hold; `None` for links that are not encrypted.
    #[must_use]
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.0.peer_key()
    }

    /// Protocol version that both ends have agreed upon; `None` for links without a handshake, the
    /// ends of which are of one release, or agree by their first messages.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        self.0.version()
    }

    /// Address or description of the peer, for messages.
    #[must_use]
    pub fn peer(&self) -> String {
        self.0.peer().to_owned()
    }

    /// Duration of the TLS handshake at the connecting end, which is a round trip and some
    /// computation; `None` for links without a handshake, and at the other end.
    #[must_use]
    pub fn handshake_time(&self) -> Option<Span> {
        self.0.handshake_time()
    }

    /// Name of the TLS cipher suite; `None` for links that are not encrypted.
    #[must_use]
    pub fn cipher(&self) -> Option<&'static str> {
        self.0.cipher()
    }
}

impl fmt::Debug for LinkControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LinkControl").field(&self.0.peer()).finish()
    }
}

/// Operations behind [`LinkControl`], which each carrier implements. The defaults are for carriers
/// that do not have the property.
pub(crate) trait Control: Send + Sync {
    /// Ends both directions at once and wakes calls that wait.
    fn shutdown(&self);

    /// Address or description of the peer, for messages.
    fn peer(&self) -> &str;

    /// Whether the peer has ended its direction.
    fn is_hung_up(&self) -> bool {
        false
    }

    /// Kernel's TCP statistics of the connection; `None` if there is none, or it cannot be seen.
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    /// Payload bytes that have arrived so far.
    fn received(&self) -> ByteCount {
        ByteCount::ZERO
    }

    /// Time for which the receiving half has been waiting for the peer.
    fn silence(&self) -> Span {
        Span::ZERO
    }

    /// Payload bytes that have reached the peer's host so far.
    fn delivered(&self) -> ByteCount {
        ByteCount::ZERO
    }

    /// Limits the rate of sending; `None` for no limit.
    fn set_rate(&self, _rate: Option<Rate>) {}

    fn socket(&self) -> Option<&Arc<TcpStream>> {
        None
    }

    /// Address of the peer.
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// Socket for a process that takes the link over.
    fn to_hand_over(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Lets the peer send as much as the path carries.
    fn trust(&self) {}

    /// Number of bytes carried in both directions.
    fn carried(&self) -> ByteCount {
        ByteCount::ZERO
    }

    /// Whether the carrier's own congestion control finds the path's rate.
    fn finds_the_rate(&self) -> bool {
        false
    }

    /// Most bytes that the program which carries the link has in flight; `None` if that is unknown.
    fn window(&self) -> Option<ByteCount> {
        None
    }

    /// Time that the sending half has spent so far, by activity.
    fn send_times(&self) -> SendTimes {
        SendTimes::default()
    }

    fn peer_key(&self) -> Option<PublicKey> {
        None
    }

    fn version(&self) -> Option<u32> {
        None
    }

    fn handshake_time(&self) -> Option<Span> {
        None
    }

    fn cipher(&self) -> Option<&'static str> {
        None
    }
}
