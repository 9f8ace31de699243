//! A plain algorithm in the place of one that paces (BBR) where a ceiling holds the rate, and does
//! it better there.
//!
//! ```text
//!              the window is large                  nothing was lost for sixteen round trips at a ceiling
//!   PLAIN ──────────────────────► the system's own ────────────────────────────────────────────────────► PLAIN
//!   on a long path that is known,                  ◄────────────────────────────────────────────────────
//!   from the first byte on                           a packet was retransmitted, or the window is
//!                                                    too small for a ceiling that is tried
//! ```
//!
//! BBR believes in a window that has grown before there was data only after several round trips, in
//! which a plain one doubles with each. Later it closes its window every ten seconds to look for
//! the least round-trip time, which on a path of 300 ms costs half a second, and it sends a quarter
//! less in one round trip of eight; below the ceiling that [`icdc_rate::path_ceiling`] keeps there
//! is no queue to look behind. But a plain algorithm halves its window by any loss: the first one
//! hardly shows, because the window that it takes over is twice as large as it needs, and then the
//! system's own is back.
//!
//! Where a higher ceiling is tried, BBR does not go there by itself for eight round trips, and then
//! by a quarter. So it is begun anew, which makes it look for what there is, and the ceiling holds
//! it.
//!
//! Nothing of that is done where the system's own algorithm is a plain one, or might not be had
//! back.

use std::net::TcpStream;

use icdc_rate::known_paths::Resumption;
use icdc_rate::path_ceiling::State;
use icdc_tcp::TcpInfo;
use icdc_tcp::congestion::finds_the_rate;
use icdc_units::{ByteCount, Rate, Time};

/// Minimum bandwidth-delay product of a path for which a run-up of the window is worth while.
const LONG: ByteCount = ByteCount::from_kib(256);
/// Window from which on an algorithm that paces grows as well as any, and leaves no gaps.
const LARGE: ByteCount = ByteCount::from_kib(400);
/// Number of round trips without a loss before a plain algorithm takes over at a ceiling.
const QUIET: u64 = 16;
/// Name of the plain algorithm, which every kernel has and every user may choose.
const PLAIN: &str = "reno";
/// Beginning of the names of the pacing algorithms, which close their windows for reasons of their
/// own.
const PACING: &str = "bbr";

/// Whether it is of use to let the window grow before data may flow: the path as `known` holds
/// several times what a connection may begin with, and the congestion control does not begin from
/// what is known. False for an unknown path.
pub(crate) fn gains_by_run_up(known: Option<Resumption>, congestion: &str) -> bool {
    known.is_some_and(|path| path.rate * path.round_trip > LONG) && !finds_the_rate(congestion)
}

/// Whether the algorithm would send less than the ceiling on its rate allows.
fn is_below_its_ceiling(info: &TcpInfo) -> bool {
    info.pacing_rate.is_some_and(|rate| info.max_pacing_rate.is_none_or(|most| rate < most.scaled(49, 50)))
}

/// Highest ceiling at which the plain algorithm was tried.
#[derive(Clone, Copy, Debug)]
enum Tried {
    /// A ceiling of this rate; zero if none was tried.
    UpTo(Rate),
    /// No ceiling at all.
    Unlimited,
}

impl Tried {
    /// Whether this `ceiling`, `None` for no limit, is higher.
    fn is_exceeded_by(self, ceiling: Option<Rate>) -> bool {
        match self {
            Self::UpTo(tried) => ceiling.is_none_or(|ceiling| ceiling > tried),
            Self::Unlimited => false,
        }
    }
}

/// Switch between a connection's own congestion control and a plain one that stands in for it.
#[derive(Debug, Default)]
pub(crate) struct StandIn {
    /// Name of the connection's own algorithm while the plain one replaces it; `None` otherwise.
    own: Option<String>,
    /// Number of packets retransmitted, and the time since when it has not changed outside of the
    /// climb; `None` before the first look.
    quiet: Option<(u64, Time)>,
    /// Highest ceiling at which the plain algorithm was tried since the ceiling's state was last
    /// HOLD; `None` before the first HOLD.
    tried: Option<Tried>,
}

impl StandIn {
    /// Replaces the connection's own algorithm by the plain one, or restores it, if it is time to.
    /// To be called with each sample `info`; `state` is that of the ceiling on the rate.
    pub(crate) fn update_algorithm(&mut self, stream: &TcpStream, now: Time, info: &TcpInfo, state: State) {
        let again = info.segments_retransmitted;
        let (before, since) = *self.quiet.get_or_insert((again, now));
        let was_lost = again > before;
        if was_lost || state == State::Climb {
            self.quiet = Some((again, now));
        }
        if self.own.is_some() {
            let is_done = match state {
                State::Climb => info.window() >= LARGE,
                State::Hold | State::Compete => was_lost,
                State::Probe => {
                    let is_small = |ceiling: Rate| info.window() < ceiling.scaled(9, 8) * info.rtt;
                    was_lost || info.max_pacing_rate.is_none_or(is_small)
                }
            };
            if is_done {
                self.give_back(stream);
                self.quiet = Some((again, now));
            }
        } else if state == State::Hold {
            self.tried = Some(Tried::UpTo(Rate::ZERO));
            if now - since >= info.min_rtt * QUIET {
                self.take_over(stream);
            }
        } else if self.tried.is_some_and(|tried| tried.is_exceeded_by(info.max_pacing_rate))
            && is_below_its_ceiling(info)
        {
            self.tried = Some(info.max_pacing_rate.map_or(Tried::Unlimited, Tried::UpTo));
            self.take_over(stream);
            self.give_back(stream);
        }
    }

    /// Puts the plain algorithm in place at once: for data that may flow on a path that is known
    /// and whose window has grown already.
    pub(crate) fn take_over(&mut self, stream: &TcpStream) {
        let Ok(own) = icdc_tcp::congestion(stream) else { return };
        if !own.starts_with(PACING) || !icdc_tcp::allowed_congestion().contains(&own) {
            return;
        }
        match icdc_tcp::set_congestion(stream, PLAIN) {
            Ok(()) => self.own = Some(own),
            Err(error) => tracing::debug!("{PLAIN} does not stand in for {own}: {error}"),
        }
    }

    /// Restores the connection's own algorithm, if the plain one replaces it.
    fn give_back(&mut self, stream: &TcpStream) {
        if let Some(own) = self.own.take()
            && let Err(error) = icdc_tcp::set_congestion(stream, &own)
        {
            tracing::debug!("{own} does not take the connection back: {error}");
        }
    }

    /// Name of the connection's own algorithm while the kernel names the stand-in; `None`
    /// otherwise.
    pub(crate) fn own(&self) -> Option<&str> {
        self.own.as_deref()
    }
}
