//! The first round trips on a long path that is known, where the kernel's own congestion control must do.
//!
//! ```text
//! connected ── the peer answers ──► data ── the window is large ──►
//!   run-up: padding, so that       the plainest algorithm       the system's algorithm
//!   the window doubles once        doubles it exactly
//! ```
//!
//! The ceiling that [`icdc_control::steering`] sets from what is known keeps the doubling from overshooting.

use std::net::TcpStream;

use icdc_tcp::TcpInfo;
use icdc_units::ByteCount;

/// From here on an algorithm that paces doubles as well as any, and leaves no gaps.
const LARGE: ByteCount = ByteCount::from_kib(400);

/// While it is under way.
pub(crate) struct SlowStart {
    /// The algorithm that takes over.
    next: String,
}

impl SlowStart {
    /// Begins; `None` where the socket keeps its algorithm.
    pub(crate) fn lend(stream: &TcpStream) -> Option<Self> {
        let lent = icdc_tcp::lend_slow_start(stream);
        let next = lent.inspect_err(|error| tracing::debug!("slow start is the algorithm's own: {error}")).ok()??;
        Some(Self { next })
    }

    /// Whether it has done what it is for.
    pub(crate) fn is_done(info: &TcpInfo) -> bool {
        info.window() >= LARGE
    }

    /// Ends.
    pub(crate) fn end(self, stream: &TcpStream) {
        if let Err(error) = icdc_tcp::set_congestion(stream, &self.next) {
            tracing::debug!("{} does not take over from slow start: {error}", self.next);
        }
    }
}
