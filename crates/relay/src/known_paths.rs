//! What legs have found out about the paths to other relays: the next leg begins there, where its congestion control can.
//!
//! Kept as long as the relay runs. Of several legs to one relay each knows its own share.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use icdc_control::known_paths::{KnownPaths, PathWatch, Resumption};
use icdc_tcp::algorithm::begin_anew;
use icdc_units::{Span, Time};

use crate::leg::Leg;

/// Shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Paths(Mutex<KnownPaths>);

/// What is watched of one leg.
#[derive(Debug, Default)]
pub(crate) struct LegWatch {
    path: PathWatch,
    /// For how long the other end's window has held it up.
    held_up: Span,
    noted: Option<Resumption>,
}

impl Paths {
    /// A leg to another relay is about to carry a client's data.
    pub(crate) fn begin(&self, leg: &Leg, now: Time) {
        let Some((from, to)) = ends(leg) else { return };
        let Ok(info) = icdc_tcp::info(leg.socket()) else { return };
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).resume(from, to, info.rtt, seconds(now));
        if let Some(known) = known
            && begin_anew(leg.socket(), known)
        {
            tracing::debug!(%to, rate = %known.rate, round_trip = %known.round_trip, "the leg begins from what is known");
        }
    }

    /// Looks at a leg to another relay that carries data.
    pub(crate) fn look(&self, leg: &Leg, watch: &mut LegWatch, now: Time) {
        let Ok(info) = icdc_tcp::info(leg.socket()) else { return };
        // What somebody else limits is no rate of the path.
        if info.application_limited || info.receive_window_limited != watch.held_up {
            watch.held_up = info.receive_window_limited;
            watch.path.pause();
            return;
        }
        watch.path.update(now, info.bytes_acked, info.segments_retransmitted, info.min_rtt, info.mss);
        let found = watch.path.found();
        if let Some(path) = found.filter(|_| found != watch.noted)
            && let Some((from, to)) = ends(leg)
        {
            watch.noted = found;
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remember(from, to, path, seconds(now));
        }
    }
}

fn ends(leg: &Leg) -> Option<(IpAddr, IpAddr)> {
    let (from, to) = (leg.local()?.ip(), leg.peer()?.ip());
    // Within a host there is no path.
    (!to.is_loopback()).then_some((from, to))
}

/// Ages are all that counts.
fn seconds(now: Time) -> u64 {
    (now - Time::ORIGIN).as_secs()
}
