//! Proportional rate reduction (RFC 6937, `tcp_cwnd_reduction`): how the window comes down during
//! recovery.
//!
//! ```text
//! pipe > ssthresh   send = ⌈delivered · ssthresh / prior⌉ − out
//! otherwise         send = min(ssthresh − pipe, max(delivered − out, newly delivered) [+ 1 if una moved, none lost])
//! cwnd = pipe + send;  at least one packet goes out when recovery begins
//! ```
//!
//! `prior`: window before the loss; `delivered`, `out`: packets delivered and sent since.

/// State of a proportional rate reduction of the congestion window.
#[derive(Clone, Debug, Default)]
pub(super) struct Reduction {
    prior: u64,
    delivered: u64,
    out: u64,
}

/// Input of the reduction from one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Number of packets newly delivered.
    pub(super) delivered: u64,
    /// Number of packets newly found lost.
    pub(super) lost: u64,
    /// Whether the cumulative acknowledgement moved.
    pub(super) advanced: bool,
}

impl Reduction {
    /// A reduction that begins with a window of `prior` packets.
    pub(super) fn new(prior: u64) -> Self {
        Self { prior: prior.max(1), delivered: 0, out: 0 }
    }

    /// Records that a packet was sent, new or again.
    pub(super) fn sent(&mut self) {
        self.out += 1;
    }

    /// The congestion window in packets after an acknowledgement; `None` leaves it as it is, since
    /// nothing was delivered.
    pub(super) fn window(&mut self, progress: Progress, in_flight: u64, ssthresh: u64) -> Option<u64> {
        if progress.delivered == 0 {
            return None;
        }
        self.delivered += progress.delivered;
        let send = if in_flight > ssthresh {
            (ssthresh * self.delivered).div_ceil(self.prior).saturating_sub(self.out)
        } else {
            let bonus = u64::from(progress.advanced && progress.lost == 0);
            let wanted = self.delivered.saturating_sub(self.out).max(progress.delivered) + bonus;
            wanted.min(ssthresh - in_flight)
        };
        Some(in_flight + send.max(u64::from(self.out == 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One loss in a window of 100: acknowledgements of one packet each for the 99 others.
    #[test]
    fn one_loss_sends_half_as_much_as_is_delivered() {
        let mut reduction = Reduction::new(100);
        // Recovery begins with the third SACK; what was lost is out of the pipe.
        let mut pipe = 96;
        for _ in 0..95 {
            let progress = Progress { delivered: 1, lost: 0, advanced: false };
            let window = reduction.window(progress, pipe, 50).unwrap();
            while pipe < window {
                reduction.sent();
                pipe += 1;
            }
            pipe -= 1;
        }
        assert!((49..=51).contains(&pipe), "{pipe}");
        assert!((47..=50).contains(&reduction.out), "{}", reduction.out);
    }

    #[test]
    fn heavy_loss_is_made_up_for_by_slow_start() {
        let mut reduction = Reduction::new(100);
        let progress = Progress { delivered: 1, lost: 90, advanced: false };
        assert_eq!(reduction.window(progress, 9, 50), Some(10));
        reduction.sent();
        let progress = Progress { delivered: 4, lost: 0, advanced: true };
        assert_eq!(reduction.window(progress, 6, 50), Some(6 + 5));
        assert_eq!(reduction.window(Progress { delivered: 0, ..progress }, 6, 50), None);
    }
}
