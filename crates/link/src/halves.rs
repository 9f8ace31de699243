//! The two halves of a link.

use icdc_disk::pool::BlockPool;

use crate::error::LinkError;
use crate::parcel::Parcel;
use crate::secure::{InletState, OutletState};

pub use icdc_protocol::limits::DEAD_AFTER;

/// The sending half of a link.
pub trait Outlet: Send {
    /// Sends a parcel. One without a payload may wait in a buffer until [`flush`](Outlet::flush) or
    /// a later payload; one with a payload is handed to the carrier, with all that waited before
    /// it, when this returns.
    ///
    /// # Errors
    /// Reason of the end of the link; every later call fails too.
    fn send(&mut self, parcel: Parcel) -> Result<(), LinkError>;

    /// Hands everything that waits to the carrier.
    ///
    /// # Errors
    /// As [`send`](Outlet::send).
    fn flush(&mut self) -> Result<(), LinkError>;

    /// Flushes everything queued to the carrier. Where the link is encrypted, also sends as much
    /// filler as a connection may begin with: for an end that has nothing to send for a round trip,
    /// so that its congestion window has doubled by then.
    ///
    /// # Errors
    /// As [`send`](Outlet::send).
    fn fill(&mut self) -> Result<(), LinkError> {
        self.flush()
    }

    /// State with which another process continues this half; `None` for a half that is bound to
    /// this process, that has unsent data, or that has failed. See
    /// [`Link::hand_over`](crate::Link::hand_over).
    #[doc(hidden)]
    fn hand_over(self: Box<Self>) -> Option<OutletState> {
        None
    }
}

/// The receiving half of a link.
pub trait Inlet: Send {
    /// Waits for the next parcel and returns it. A block is taken from `pool` (waiting, if it
    /// must) only once a payload is announced.
    ///
    /// # Errors
    /// [`LinkError::Closed`] once the peer has ended its direction in order and everything has been
    /// received; else why no more can be received. Every later call fails too.
    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError>;

    /// State with which another process continues this half; `None` for a half that is bound to
    /// this process, that is in the middle of a frame, or that has ended. See
    /// [`Link::hand_over`](crate::Link::hand_over).
    #[doc(hidden)]
    fn hand_over(self: Box<Self>) -> Option<InletState> {
        None
    }
}
