//! A plain algorithm in the place of one that paces (BBR) where a ceiling holds the rate, and does it better there.
//!
//! ```text
//!              the window is large                  nothing was lost for sixteen round trips at a ceiling
//!   PLAIN ──────────────────────► the system's own ────────────────────────────────────────────────────► PLAIN
//!   on a long path that is known,                  ◄────────────────────────────────────────────────────
//!   from the first byte on                           a packet was sent again
//! ```
//!
//! BBR believes in a window that has grown before there was data only after several round trips, in which a plain one
//! doubles with each. Later it closes its window every ten seconds to look for the least round-trip time, which on a path
//! of 300 ms costs half a second, and it sends a quarter less in one round trip of eight; below the ceiling that
//! [`icdc_control::steering`] keeps there is no queue to look behind. But a plain algorithm halves its window by any loss: the first
//! one hardly shows, because the window that it takes over is twice as large as it needs, and then the system's own is back.
//!
//! Nothing of that is done where the system's own algorithm is a plain one, or might not be had back.

use std::net::TcpStream;

use icdc_control::steering::State;
use icdc_tcp::TcpInfo;
use icdc_units::{ByteCount, Time};

/// From here on an algorithm that paces doubles as well as any, and leaves no gaps.
const LARGE: ByteCount = ByteCount::from_kib(400);
/// Round trips without a loss before a plain one holds.
const QUIET: u64 = 16;
/// Every kernel has it, and every user may choose it.
const PLAIN: &str = "reno";
/// Those that close their windows for reasons of their own.
const PACING: &str = "bbr";

/// Which of the two has the connection.
#[derive(Debug, Default)]
pub(crate) struct StandIn {
    /// What it stands in for, while it does.
    own: Option<String>,
    /// Packets sent again, and since when it is as many.
    quiet: Option<(u64, Time)>,
}

impl StandIn {
    /// Data may flow on a path that is known, and the window has grown already.
    pub(crate) fn begin(&mut self, stream: &TcpStream) {
        self.take_over(stream);
    }

    /// Looks whether it is time to change; `state` is that of the ceiling.
    pub(crate) fn look(&mut self, stream: &TcpStream, now: Time, info: &TcpInfo, state: State) {
        let again = info.segments_retransmitted;
        let (before, since) = *self.quiet.get_or_insert((again, now));
        let was_lost = again > before;
        if was_lost || state == State::Climb {
            self.quiet = Some((again, now));
        }
        if self.own.is_some() {
            let is_done = if state == State::Climb { info.window() >= LARGE } else { was_lost };
            if is_done {
                self.give_back(stream);
            }
        } else if state != State::Climb && now - since >= info.min_rtt * QUIET {
            self.take_over(stream);
        }
    }

    fn take_over(&mut self, stream: &TcpStream) {
        let Ok(own) = icdc_tcp::congestion(stream) else { return };
        if !own.starts_with(PACING) || !icdc_tcp::allowed_congestion().contains(&own) {
            return;
        }
        match icdc_tcp::set_congestion(stream, PLAIN) {
            Ok(()) => self.own = Some(own),
            Err(error) => tracing::debug!("{PLAIN} does not stand in for {own}: {error}"),
        }
    }

    fn give_back(&mut self, stream: &TcpStream) {
        if let Some(own) = self.own.take()
            && let Err(error) = icdc_tcp::set_congestion(stream, &own)
        {
            tracing::debug!("{own} does not take the connection back: {error}");
        }
    }

    /// The system's algorithm, where that is not what the kernel names.
    pub(crate) fn own(&self) -> Option<&str> {
        self.own.as_deref()
    }
}
