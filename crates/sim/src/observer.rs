//! Observers of a simulation.

use icdc_path::Fate;
use icdc_units::{ByteCount, Span, Time};

use crate::sender::SenderState;

/// Gets the events of a simulation, in the order of time. Every method does nothing unless it is
/// implemented. Flows are numbered from 0.
pub trait Observer {
    /// Interval at which [`Self::queue`] and [`Self::state`] are called.
    fn interval(&self) -> Span {
        Span::MAX
    }

    /// A flow sends packet `number`, for the first time or, if `again`, as a retransmission; with
    /// its fate.
    fn sent(&mut self, _at: Time, _flow: usize, _number: u64, _again: bool, _fate: Fate) {}

    /// A packet arrives at the receiver of a flow; it is new or a duplicate, and the application
    /// gets this many packets by it.
    fn arrived(&mut self, _at: Time, _flow: usize, _is_new: bool, _read: u64) {}

    /// Bytes on the wire that wait at the bottleneck.
    fn queue(&mut self, _at: Time, _waiting: ByteCount) {}

    /// Whether [`Self::state`] is to be called too.
    fn wants_states(&self, _at: Time) -> bool {
        false
    }

    /// State of a flow that has started.
    fn state(&mut self, _at: Time, _flow: usize, _state: &SenderState) {}
}

/// No observer.
impl Observer for () {}
