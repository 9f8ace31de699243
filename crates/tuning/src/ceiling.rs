//! The ceiling of a connection whose congestion control does not find the rate of its path.

use icdc_rate::bundle::{Bundle, Member};
use icdc_rate::known_paths::Resumption;
use icdc_rate::path_ceiling::{Observation, Steering};
use icdc_tcp::TcpInfo;
use icdc_units::{Span, Time};

/// Round-trip time below which no ceiling is kept: on so short a path the kernel's own congestion
/// control fills the path at once.
const SHORT: Span = Span::from_millis(2);

/// New controller that finds the rate of a connection, beginning with what is known of its path.
#[must_use]
pub fn steering(known: Option<Resumption>) -> Steering {
    known.map_or_else(Steering::default, |known| Steering::resuming(known.rate))
}

/// New controller that finds the rate of several connections together, beginning with what is
/// known of their path; one in the `background` gives way to others.
#[must_use]
pub fn bundle(known: Option<Resumption>, background: bool) -> Bundle {
    known.map_or_else(Bundle::default, |known| Bundle::resuming(known.rate)).giving_way(background)
}

/// Converts the kernel's statistics of a connection to the state of a member of a [`Bundle`];
/// `None` where the path is too short for a ceiling.
#[must_use]
pub fn member(at: Time, info: &TcpInfo) -> Option<Member> {
    let seen = observation(at, info)?;
    // Of the same bytes that are counted as sent.
    let delivered = info.bytes_acked + info.mss * u64::from(info.sacked);
    let sent = info.bytes_sent - info.bytes_retransmitted;
    Some(Member { seen: Observation { delivered, ..seen }, sent })
}

/// Converts the kernel's statistics of a connection to an input of [`Steering`]; `None` where the
/// path is too short for a ceiling.
#[must_use]
pub fn observation(at: Time, info: &TcpInfo) -> Option<Observation> {
    (info.min_rtt >= SHORT).then(|| Observation {
        at,
        rtt: info.rtt,
        least_rtt: info.min_rtt,
        delivered: info.mss * info.segments_delivered,
        retransmitted: info.segments_retransmitted,
        packet: info.mss,
        window: info.window(),
        idle: info.application_limited,
    })
}
