//! Observers of a simulation.

use icdc_path::Fate;
use icdc_units::{ByteCount, Span, Time};

use crate::sender::SenderState;

/// A packet as it leaves a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Number of the flow, counted from 0.
    pub flow: usize,
    /// Number of the packet in its flow, counted from 0.
    pub number: u64,
    /// Whether it is a retransmission.
    pub again: bool,
}

/// Receiver of the events of a simulation, in the order of time. Every method does nothing unless
/// it is implemented. Flows are numbered from 0.
pub trait Observer {
    /// Interval at which [`Self::queue`] is called, and [`Self::state`] where it is
    /// [wanted](Self::wants_states).
    fn interval(&self) -> Span {
        Span::MAX
    }

    /// Called when a flow sends a packet, with the packet's fate on the path.
    fn sent(&mut self, _at: Time, _transmission: Transmission, _fate: Fate) {}

    /// Called when a packet arrives at the receiver of a flow, new or as a duplicate; `_read`:
    /// number of packets that the application gets by it.
    fn arrived(&mut self, _at: Time, _flow: usize, _is_new: bool, _read: u64) {}

    /// Called each interval with the bytes on the wire that wait at the bottleneck.
    fn queue(&mut self, _at: Time, _waiting: ByteCount) {}

    /// Whether [`Self::state`] is to be called at this time too.
    fn wants_states(&self, _at: Time) -> bool {
        false
    }

    /// Called with the state of a flow that has started, also after its end.
    fn state(&mut self, _at: Time, _flow: usize, _state: &SenderState) {}
}

/// The observer that ignores all events.
impl Observer for () {}
