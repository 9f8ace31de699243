//! Faults of the machine that affect packets, as opposed to the path's.

use icdc_units::Span;

use crate::heading::Heading;
use crate::settings::{Mode, Settings};
use crate::wire::page::{Gauge, Global, Page};

/// Faults of a lab's run: one sentence for each kind of loss that the machine caused, not the path.
#[must_use]
pub fn faults(page: &Page) -> Vec<String> {
    faults_but(page, |_, _| false)
}

/// Sentences like those of [`faults`], without the counts that `is_forgiven` accepts.
fn faults_but(page: &Page, is_forgiven: impl Fn(Heading, Gauge) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    let drops = page.global(Global::DeviceDrops);
    if drops > 0 {
        faults.push(format!("{drops} packets were dropped by the hosts' devices, not by the path"));
    }
    for heading in Heading::BOTH {
        for (gauge, what) in [
            (Gauge::RingOverflow, "found the ring full"),
            (Gauge::SendFailures, "were refused by the far device"),
            (Gauge::Truncated, "were longer than the ring's slots"),
        ] {
            let count = page.gauge(heading, gauge);
            if count > 0 && !is_forgiven(heading, gauge) {
                faults.push(format!("{count} packets {} {what}: this machine could not keep up", heading.name()));
            }
        }
    }
    faults
}

/// Reason for which a measurement is invalid, `None` if it is valid: losses that the machine
/// caused, packets that crossed otherwise than the mode says, or more than one packet in a thousand
/// later than `tolerance`.
#[must_use]
pub fn spoilt(page: &Page, settings: &Settings, tolerance: Span) -> Option<String> {
    faults(page).into_iter().next().or_else(|| mishandled(page, settings, tolerance))
}

/// Like [`spoilt`], for programs that send far more than the path carries: packets lost because the
/// ring was full are tolerated where the queue dropped at least as many. A full ring holds many
/// times what the queue does, so the queue would have dropped those packets as well.
#[must_use]
pub fn spoilt_but_for_bursts(page: &Page, settings: &Settings, tolerance: Span) -> Option<String> {
    let is_burst = |heading, gauge| {
        gauge == Gauge::RingOverflow
            && page.gauge(heading, Gauge::RingOverflow) <= page.gauge(heading, Gauge::QueueDrops)
    };
    faults_but(page, is_burst).into_iter().next().or_else(|| mishandled(page, settings, tolerance))
}

/// Reason in terms of packets that did not cross as the mode or the delay says; `None` if all did.
fn mishandled(page: &Page, settings: &Settings, tolerance: Span) -> Option<String> {
    for heading in Heading::BOTH {
        if settings.mode == Mode::Exact && page.gauge(heading, Gauge::Superpackets) > 0 {
            return Some("packets of many segments came in exact mode".to_owned());
        }
        let late = Span::from_nanos(page.gauge(heading, Gauge::Lateness999));
        if late > tolerance {
            return Some(format!("one packet in a thousand was more than {late} late ({tolerance} are tolerated)"));
        }
    }
    None
}
