//! The sender's single timer: its purpose and its time.

use icdc_units::Time;

/// Purpose for which the sender's timer is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Retransmission timeout.
    Retransmission,
    /// Tail loss probe.
    Probe,
    /// Check of packets that may be lost (RACK).
    Reordering,
}

/// The sender's only timer, with its purpose and its time; [`Time::MAX`] if it is not set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) kind: Kind,
    pub(super) at: Time,
    /// Number of timeouts in a row.
    pub(super) retries: u32,
}

impl Timer {
    /// A timer that is not set.
    pub(super) const OFF: Self = Self { kind: Kind::Retransmission, at: Time::MAX, retries: 0 };

    /// Sets the timer to a purpose and a time.
    pub(super) fn set(&mut self, kind: Kind, at: Time) {
        (self.kind, self.at) = (kind, at);
    }

    /// Whether the timer is set for a probe.
    pub(super) fn is_probe(&self) -> bool {
        self.kind == Kind::Probe && self.at < Time::MAX
    }

    /// Sets the timer to the timeout after the first packet was retransmitted, unless it is set for
    /// a check.
    pub(super) fn expect_retransmission(&mut self, at: Time) {
        if self.kind != Kind::Reordering {
            self.set(Kind::Retransmission, at);
        }
    }
}

/// State of the tail loss probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probing {
    /// Number of the packet that is to be sent as a probe; `None` if none is due.
    pub(super) due: Option<u64>,
    /// `snd_nxt` when a probe was sent that is not answered (`tlp_high_seq`); `None` if there is
    /// none.
    pub(super) high: Option<u64>,
    /// Whether the probe was a retransmission.
    pub(super) again: bool,
}
