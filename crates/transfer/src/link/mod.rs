//! Links: duplex streams of frames between two ends.
//!
//! Everything above this module talks [`Parcel`]s; what carries them is one of three:
//!
//! | constructor | carrier | payloads |
//! |---|---|---|
//! | [`secure_client`], [`secure_server`] | TLS 1.3 over TCP, both ends known by key | yes |
//! | [`memory_pair`] | channels within one process; parcels change owner, nothing is copied | yes |
//! | [`stdio_link`] | a pair of pipes (to `ssh`, or from it) in clear | no |
//!
//! A link has two halves that share nothing but the carrier, so that a thread that sends never waits for
//! the one that receives, and a [`LinkControl`] that any thread may hold to watch the link or to end it.
//!
//! Dropping an [`Outlet`] sends what it has buffered and ends its direction in order: the peer's [`Inlet`] then reports
//! [`LinkError::Closed`]. A connection that ends in any other way, a panic of the outlet's thread included, is
//! [`LinkError::Cut`].

mod assembler;
mod error;
mod further;
mod memory;
mod secure;
mod stdio;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::TcpStream;
use std::sync::Arc;

use icdc_disk::pool::{Block, BlockPool};
use icdc_protocol::Message;
use icdc_rate::known_paths::Resumption;
use icdc_rate::path_ceiling::State;
use icdc_tcp::TcpInfo;
use icdc_trust::PublicKey;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::stand_in::{self, StandIn};

pub use error::LinkError;
pub(crate) use further::{FurtherControls, FurtherLink};
pub use memory::memory_pair;
pub use secure::{SecureSettings, secure_client, secure_client_with, secure_server, secure_server_with};
pub use stdio::stdio_link;

/// A TCP link on which not a byte arrives for so long is given up. Ends that have nothing to say send a sign of life
/// several times within it.
pub const DEAD_AFTER: Span = Span::from_secs(15);

/// One message with its payload.
#[derive(Debug)]
pub struct Parcel {
    /// The head.
    pub message: Message,
    /// The first so many bytes of the block; what follows them in the block means nothing.
    pub payload: Option<(Block, usize)>,
}

impl Parcel {
    /// Bytes of payload.
    #[must_use]
    pub fn payload_length(&self) -> usize {
        self.payload.as_ref().map_or(0, |(_, length)| *length)
    }
}

impl From<Message> for Parcel {
    fn from(message: Message) -> Self {
        Self { message, payload: None }
    }
}

/// The sending half of a link.
pub trait Outlet: Send {
    /// Sends a parcel. One without a payload may wait in a buffer until [`flush`](Outlet::flush) or a later payload;
    /// one with a payload is handed to the carrier, with all that waited before it, when this returns.
    ///
    /// # Errors
    /// Why the link does not carry any more; every later call fails too.
    fn send(&mut self, parcel: Parcel) -> Result<(), LinkError>;

    /// Hands everything that waits to the carrier.
    ///
    /// # Errors
    /// As [`send`](Outlet::send).
    fn flush(&mut self) -> Result<(), LinkError>;

    /// Hands everything that waits to the carrier, and where that is TCP as much that means nothing as a connection may begin
    /// with: for an end that has nothing to send for a round trip, so that its congestion window has doubled by then.
    ///
    /// # Errors
    /// As [`send`](Outlet::send).
    fn fill(&mut self) -> Result<(), LinkError> {
        self.flush()
    }
}

/// The receiving half of a link.
pub trait Inlet: Send {
    /// The next parcel; waits for it. A block is taken from `pool` (waiting, if it must) only once a payload is announced.
    ///
    /// # Errors
    /// [`LinkError::Closed`] once the peer has ended its direction in order and everything has been received; else why
    /// no more can be received. Every later call fails too.
    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError>;
}

/// A link: two halves and their control.
pub struct Link {
    /// Sends.
    pub outlet: Box<dyn Outlet>,
    /// Receives.
    pub inlet: Box<dyn Inlet>,
    /// Watches and ends.
    pub control: LinkControl,
}

impl Link {
    /// Hands what waits to the carrier while the peer has to answer before data can flow. On a long path that is known,
    /// where the kernel's own slow start must do, that round trip is used: see [`Outlet::fill`].
    ///
    /// # Errors
    /// As [`Outlet::send`].
    pub fn await_answer(&mut self) -> Result<(), LinkError> {
        if self.control.gains_by_run_up() { self.outlet.fill() } else { self.outlet.flush() }
    }

    fn new(outlet: impl Outlet + 'static, inlet: impl Inlet + 'static, control: Arc<dyn Control>) -> Self {
        Self {
            outlet: Box::new(Fuse { half: outlet, blown: false }),
            inlet: Box::new(Fuse { half: inlet, blown: false }),
            control: LinkControl(control),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("peer", &self.control.peer()).finish_non_exhaustive()
    }
}

/// A half that is not called again after its first error.
struct Fuse<T> {
    half: T,
    blown: bool,
}

impl<T> Fuse<T> {
    fn call<R>(&mut self, call: impl FnOnce(&mut T) -> Result<R, LinkError>) -> Result<R, LinkError> {
        if self.blown {
            return Err(LinkError::Broken);
        }
        let result = call(&mut self.half);
        self.blown = result.is_err();
        result
    }
}

impl<T: Outlet> Outlet for Fuse<T> {
    fn send(&mut self, parcel: Parcel) -> Result<(), LinkError> {
        self.call(|outlet| outlet.send(parcel))
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        self.call(Outlet::flush)
    }

    fn fill(&mut self) -> Result<(), LinkError> {
        self.call(Outlet::fill)
    }
}

impl<T: Inlet> Inlet for Fuse<T> {
    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError> {
        self.call(|inlet| inlet.receive(pool))
    }
}

/// Where the time of an outlet went since the link began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendTimes {
    /// Framing and encryption.
    pub encrypt: Span,
    /// Waiting for the socket to take data, and the kernel's copy of it.
    pub socket: Span,
}

/// Handle for any thread to watch a link or to end it.
#[derive(Clone)]
pub struct LinkControl(Arc<dyn Control>);

impl LinkControl {
    /// Ends both directions at once: calls that wait in either half return with [`LinkError::Stopped`], the peer sees
    /// [`LinkError::Cut`]. A `receive` that waits for a block wakes when its pool is closed.
    pub fn shutdown(&self) {
        self.0.shutdown();
    }

    /// Whether the peer has ended its direction, whatever of it is still to be received: nobody is there for an answer.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        self.0.is_hung_up()
    }

    /// The kernel's view of the connection; `None` for links that are not TCP, or are gone.
    #[must_use]
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.0.tcp_info()
    }

    /// Payload that has arrived so far, that of a frame which is not complete yet included.
    #[must_use]
    pub fn received(&self) -> ByteCount {
        self.0.received()
    }

    /// Payload that the peer's host has so far.
    #[must_use]
    pub fn delivered(&self) -> ByteCount {
        self.0.delivered()
    }

    /// Caps the pace at which the kernel sends, where the carrier is TCP.
    pub fn set_rate(&self, rate: Rate) {
        self.0.set_rate(rate);
    }

    /// Prepares the sending socket: room for what is on its way, and congestion control by its name, which is loaded if it
    /// must and kept loaded for the life of the connection. Answers why it is another one, if it is. Without a name it is the best that can be had here,
    /// which is told what earlier connections knew of the path.
    ///
    /// # Errors
    /// Neither the kernel nor icdc has it; the text says what there is.
    pub fn set_congestion(&self, name: Option<&str>) -> Result<Option<String>, String> {
        self.0.set_congestion(name)
    }

    /// What was known of the path when the best congestion control was chosen.
    #[must_use]
    pub fn known_path(&self) -> Option<Resumption> {
        self.0.known_path()
    }

    /// The peer has answered, and data may flow: where the round trip before was used (see [`Link::await_answer`]), the
    /// window goes on doubling.
    pub(crate) fn begin_data(&self) {
        if self.gains_by_run_up() {
            self.0.stand_in(&mut StandIn::take_over);
        }
    }

    /// Looks which algorithm shall have the connection, whose rate is held by a ceiling in this state.
    pub(crate) fn look(&self, now: Time, info: &TcpInfo, state: State) {
        self.0.stand_in(&mut |stand_in, stream| stand_in.look(stream, now, info, state));
    }

    fn gains_by_run_up(&self) -> bool {
        stand_in::gains_by_run_up(self.known_path(), &self.congestion().unwrap_or_default())
    }

    /// Remembers for later connections what this one found of its path.
    pub fn remember_path(&self, found: Resumption) {
        self.0.remember_path(found);
    }

    /// Congestion control of the sending socket; `None` for links that are not TCP.
    #[must_use]
    pub fn congestion(&self) -> Option<String> {
        self.0.congestion()
    }

    /// Where the outlet's time went so far; zero for links that are not TCP.
    #[must_use]
    pub fn send_times(&self) -> SendTimes {
        self.0.send_times()
    }

    /// The key that the peer has proved to hold; `None` for links that are not encrypted.
    #[must_use]
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.0.peer_key()
    }

    /// Address or description of the peer, for messages.
    #[must_use]
    pub fn peer(&self) -> String {
        self.0.peer().to_owned()
    }

    /// Name of the cipher suite; `None` for links that are not encrypted.
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

/// What a carrier does for [`LinkControl`].
trait Control: Send + Sync {
    fn shutdown(&self);

    fn peer(&self) -> &str;

    fn is_hung_up(&self) -> bool {
        false
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn received(&self) -> ByteCount {
        ByteCount::ZERO
    }

    fn delivered(&self) -> ByteCount {
        ByteCount::ZERO
    }

    fn set_rate(&self, _rate: Rate) {}

    fn set_congestion(&self, _name: Option<&str>) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn known_path(&self) -> Option<Resumption> {
        None
    }

    fn stand_in(&self, _work: &mut dyn FnMut(&mut StandIn, &TcpStream)) {}

    fn remember_path(&self, _found: Resumption) {}

    fn congestion(&self) -> Option<String> {
        None
    }

    fn send_times(&self) -> SendTimes {
        SendTimes::default()
    }

    fn peer_key(&self) -> Option<PublicKey> {
        None
    }

    fn cipher(&self) -> Option<&'static str> {
        None
    }
}
