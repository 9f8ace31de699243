//! Loss detection by time (RFC 8985 with the threshold of three, `net/ipv4/tcp_recovery.c`).
//!
//! ```text
//! lost: sent before the most recently sent packet that was delivered, and now ≥ sent + rtt + window
//! window = 0                           in recovery, or with three packets selectively acknowledged
//!        = min(least rtt / 4, srtt)    otherwise; checked again 2 ms after the last of them is due
//! ```
//!
//! `rtt` is that of the most recently sent packet that was delivered. Paths here never reorder, so
//! the window never grows.

use icdc_units::{Span, Time};

use super::scoreboard::{Packet, Scoreboard};

/// Number of selectively acknowledged packets that prove a loss (`tcp_reordering`).
const ENOUGH: u64 = 3;
/// Time by which a check for losses comes later than the packet is due (`TCP_TIMEOUT_MIN`).
const LEAST_WAIT: Span = Span::from_millis(2);

/// State of the loss detection by time (RFC 8985): the most recently sent packet that was
/// delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    /// Send time and number of the most recently sent packet that was delivered.
    latest: (Time, u64),
    rtt: Span,
}

/// Number of packets that one check found lost, and the time of the next check.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Number of first transmissions found lost.
    pub(super) first: u64,
    /// Number of retransmissions found lost.
    pub(super) again: u64,
    /// Time of the next check, unless an acknowledgement arrives before; `None` if none is needed.
    pub(super) check_again: Option<Time>,
}

/// Round-trip times of a connection, which bound the reordering that is waited for (RFC 8985,
/// section 6.2, step 4).
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    /// Least one so far.
    pub(super) least: Span,
    /// Smoothed one (RFC 6298).
    pub(super) smoothed: Span,
}

impl Rack {
    /// Records that a packet was delivered, and its round-trip time if no other was sent later.
    pub(super) fn advance(&mut self, now: Time, number: u64, packet: &Packet, least_rtt: Span) {
        let rtt = now - packet.sent;
        // Sooner than possible: it is the earlier transmission that arrived.
        if packet.was_resent() && rtt < least_rtt {
            return;
        }
        if self.latest <= (packet.sent, number) {
            self.latest = (packet.sent, number);
            self.rtt = rtt;
        }
    }

    /// Whether a packet has been in flight for longer than the latest delivery took.
    pub(super) fn is_overdue(&self, now: Time, packet: &Packet) -> bool {
        now >= packet.sent + self.rtt
    }

    /// Marks packets that are lost by now on the scoreboard; returns their number, and when to
    /// check the others.
    pub(super) fn detect(
        &self,
        now: Time,
        board: &mut Scoreboard,
        in_recovery: bool,
        round_trips: RoundTrips,
    ) -> Found {
        let certain = in_recovery || board.sacked() >= ENOUGH;
        let RoundTrips { least, smoothed } = round_trips;
        let window = if certain { Span::ZERO } else { (least / 4).min(smoothed) };
        let mut check_again = None;
        let (first, again) = board.judge(|number, packet| {
            if (packet.sent, number) >= self.latest {
                return false;
            }
            let due = packet.sent + self.rtt + window;
            if due > now {
                check_again = check_again.max(Some(due + LEAST_WAIT));
            }
            due <= now
        });
        Found { first, again, check_again }
    }
}
