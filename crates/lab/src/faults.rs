//! What the machine, not the path, did to packets.

use icdc_units::Span;

use crate::settings::{Mode, Settings};
use crate::wire::page::{Gauge, Global, Page, Way};

/// A sentence for each way in which packets were lost that the path had not decided to lose.
#[must_use]
pub fn faults(page: &Page) -> Vec<String> {
    faults_but(page, |_, _| false)
}

fn faults_but(page: &Page, is_forgiven: impl Fn(Way, Gauge) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    let drops = page.global(Global::DeviceDrops);
    if drops > 0 {
        faults.push(format!("{drops} packets were dropped by the hosts' devices, not by the path"));
    }
    for way in Way::BOTH {
        for (gauge, what) in [
            (Gauge::RingOverflow, "found the ring full"),
            (Gauge::SendFailures, "were refused by the far device"),
            (Gauge::Truncated, "were longer than the ring's slots"),
        ] {
            let count = page.gauge(way, gauge);
            if count > 0 && !is_forgiven(way, gauge) {
                faults.push(format!("{count} packets {} {what}: this machine could not keep up", way.name()));
            }
        }
    }
    faults
}

/// Why a measurement must not be used, if so.
pub(crate) fn spoilt(page: &Page, settings: &Settings, tolerance: Span) -> Option<String> {
    faults(page).into_iter().next().or_else(|| mishandled(page, settings, tolerance))
}

/// The same for programs that send far more than the path carries, where the queue dropped more than found the ring full: what waits
/// in a full ring is many times what the queue holds, so the queue had dropped those packets as well.
pub(crate) fn spoilt_but_for_bursts(page: &Page, settings: &Settings, tolerance: Span) -> Option<String> {
    let is_burst = |way, gauge| {
        gauge == Gauge::RingOverflow && page.gauge(way, Gauge::RingOverflow) <= page.gauge(way, Gauge::QueueDrops)
    };
    faults_but(page, is_burst).into_iter().next().or_else(|| mishandled(page, settings, tolerance))
}

/// Packets that did not cross as the mode or the delay says.
fn mishandled(page: &Page, settings: &Settings, tolerance: Span) -> Option<String> {
    for way in Way::BOTH {
        if settings.mode == Mode::Exact && page.gauge(way, Gauge::Superpackets) > 0 {
            return Some("packets of many segments came in exact mode".to_owned());
        }
        let late = Span::from_nanos(page.gauge(way, Gauge::Lateness999));
        if late > tolerance {
            return Some(format!("one packet in a thousand was more than {late} late ({tolerance} are tolerated)"));
        }
    }
    None
}
