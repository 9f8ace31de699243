//! The sender's single timer: its purpose and its time.

use icdc_units::Time;

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Retransmission,
    Probe,
    Reordering,
}

/// A timer with its purpose and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) kind: Kind,
    pub(super) at: Time,
    /// Timeouts in a row.
    pub(super) retries: u32,
}

impl Timer {
    pub(super) const OFF: Self = Self { kind: Kind::Retransmission, at: Time::MAX, retries: 0 };

    pub(super) fn set(&mut self, kind: Kind, at: Time) {
        (self.kind, self.at) = (kind, at);
    }

    pub(super) fn is_probe(&self) -> bool {
        self.kind == Kind::Probe && self.at < Time::MAX
    }

    /// The head was retransmitted.
    pub(super) fn expect_retransmission(&mut self, at: Time) {
        if self.kind != Kind::Reordering {
            self.set(Kind::Retransmission, at);
        }
    }
}

/// Probes of the tail.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probing {
    /// The packet that is to be sent as a probe.
    pub(super) due: Option<u64>,
    /// `snd_nxt` when a probe was sent that is not answered (`tlp_high_seq`).
    pub(super) high: Option<u64>,
    /// The probe was a retransmission.
    pub(super) again: bool,
}
