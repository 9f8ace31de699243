//! `icdc lab status`: what crossed the path, for people and as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use icdc_lab::{Gauge, Global, Heading, Lab, LabRecord, Mode, Page, Verdict, verdict};
use icdc_path::loss::Model;
use icdc_units::{ByteCount, Span};
use serde_json::{Value, json};

use crate::arguments::lab::StatusArguments;

/// Runs `icdc lab status`: prints what has crossed a lab's path.
pub(super) fn run(arguments: &StatusArguments) -> Result<()> {
    let lab = Lab::find(&arguments.name.name)?;
    let page = lab.page()?;
    if arguments.json {
        println!("{}", json(&lab.record, &page));
    } else {
        println!("{}\n{}", describe(&lab.record), table(&page));
        println!("emulator: {}", Verdict::of(&page, &lab.record.settings));
    }
    Ok(())
}

/// Properties of a lab, in a few lines.
pub(super) fn describe(record: &LabRecord) -> String {
    let settings = &record.settings;
    let mut text = format!(
        "lab {}: a 10.26.33.1 fd26:33::1, b 10.26.33.2 fd26:33::2, MTU {}",
        record.name,
        settings.forward.mtu.as_u64()
    );
    let _ = write!(text, ", {} mode", if settings.mode == Mode::Fast { "fast" } else { "exact" });
    for heading in Heading::BOTH {
        let direction = settings.direction(heading);
        let _ = write!(text, "\n  {}: {}, {} delay", heading.name(), direction.rate, direction.delay);
        if !direction.jitter.is_zero() {
            let _ = write!(text, " + up to {}", direction.jitter);
        }
        let _ = write!(text, ", {} queue", direction.queue);
        if let Some(codel) = direction.codel {
            let by = if codel.marks { ", marks" } else { "" };
            let _ = write!(text, ", CoDel ({} in {}{by})", codel.target, codel.interval);
        }
        if let Some(line) = direction.line_rate {
            let _ = write!(text, ", {line} line");
        }
        let _ = match &direction.loss {
            Model::None => Ok(()),
            Model::Random(ratio) => write!(text, ", loss {ratio:e}"),
            Model::Burst { ratio, mean_length } => write!(text, ", loss {ratio:e} in bursts of {mean_length}"),
            Model::Listed(numbers) => write!(text, ", {} packets listed for loss", numbers.len()),
        };
    }
    text
}

/// Counters of both directions of the path as a table of text.
fn table(page: &Page) -> String {
    let mut text = String::new();
    let mut row = |name: &str, values: [String; 2]| {
        let [forward, backward] = values;
        let _ = writeln!(text, "{name:<22}{forward:>16}{backward:>16}");
    };
    let each = |show: &dyn Fn(Heading) -> String| Heading::BOTH.map(show);
    row("", each(&|heading| heading.name().to_owned()));
    for (name, gauge) in [
        ("packets offered", Gauge::Offered),
        ("packets delivered", Gauge::Delivered),
        ("lost at random", Gauge::Lost),
        ("dropped at the queue", Gauge::QueueDrops),
        ("marked (ECN)", Gauge::Marked),
        ("gap frames", Gauge::GapFrames),
        ("beyond the line rate", Gauge::Overruns),
    ] {
        row(name, each(&|heading| page.gauge(heading, gauge).to_string()));
    }
    for (name, gauge) in [
        ("bytes on the wire", Gauge::DeliveredBytes),
        ("longest queue", Gauge::QueueMax),
        ("largest burst in 1 s", Gauge::BurstMax),
    ] {
        row(name, each(&|heading| ByteCount::new(page.gauge(heading, gauge)).to_string()));
    }
    row("mean burst in 1 s", each(&|heading| ByteCount::new(mean_burst(page, heading) as u64).to_string()));
    for (name, gauge) in [
        ("late by, median", Gauge::LatenessMedian),
        ("late by, 99.9 %", Gauge::Lateness999),
        ("late by, most", Gauge::LatenessMax),
    ] {
        row(name, each(&|heading| Span::from_nanos(page.gauge(heading, gauge)).to_string()));
    }
    for fault in icdc_lab::faults(page) {
        let _ = writeln!(text, "{fault}");
    }
    text.trim_end().to_owned()
}

/// Mean of the largest burst of each second, in bytes. A burst is the queue that would form at the
/// second's mean rate.
fn mean_burst(page: &Page, heading: Heading) -> f64 {
    page.gauge(heading, Gauge::BurstSum) as f64 / page.gauge(heading, Gauge::BurstWindows).max(1) as f64
}

/// JSON object of a lab and what has crossed its path.
fn json(record: &LabRecord, page: &Page) -> Value {
    let [forward, backward] = Heading::BOTH.map(|heading| direction(heading, record.settings.direction(heading), page));
    let verdict = Verdict::of(page, &record.settings);
    let round_trip = record.settings.round_trip();
    json!({
        "name": record.name,
        "mode": record.settings.mode,
        "buffers": record.settings.buffers,
        "mtu_bytes": record.settings.forward.mtu.as_u64(),
        "ring_memory_bytes": icdc_lab::wire::memory(&record.settings).as_u64(),
        "user_namespace": record.user_namespace,
        "realtime": page.global(Global::Realtime) == 1,
        "wire_pid": record.wire.id,
        "device_drops_packets": page.global(Global::DeviceDrops),
        "verdict": {
            "result": verdict.word(),
            "because": verdict.because(),
            "tolerance_1ms_seconds": verdict::tolerance_of_milliseconds(round_trip).as_secs_f64(),
            "tolerance_means_seconds": verdict::tolerance_of_means(round_trip).as_secs_f64(),
        },
        "a_to_b": forward,
        "b_to_a": backward,
    })
}

/// JSON object of one direction of a lab's path.
fn direction(heading: Heading, settings: &icdc_path::Settings, page: &Page) -> Value {
    let gauge = |gauge| page.gauge(heading, gauge);
    let seconds = |gauge| page.gauge(heading, gauge) as f64 / 1e9;
    // In frames of full size, as the papers count.
    let frame = settings.largest_frame().as_u64() as f64;
    json!({
        "rate_bps": settings.rate.as_bits_per_second(),
        "delay_seconds": settings.delay.as_secs_f64(),
        "queue_limit_bytes": settings.queue.as_u64(),
        "codel": settings.codel.map(|codel| json!({
            "target_seconds": codel.target.as_secs_f64(),
            "interval_seconds": codel.interval.as_secs_f64(),
            "marks": codel.marks,
        })),
        "offered_packets": gauge(Gauge::Offered),
        "offered_bytes": gauge(Gauge::OfferedBytes),
        "delivered_packets": gauge(Gauge::Delivered),
        "delivered_bytes": gauge(Gauge::DeliveredBytes),
        "random_drops_packets": gauge(Gauge::Lost),
        "queue_drops_packets": gauge(Gauge::QueueDrops),
        "marked_packets": gauge(Gauge::Marked),
        "gap_packets": gauge(Gauge::GapFrames),
        "line_drops_packets": gauge(Gauge::Overruns),
        "queue_max_bytes": gauge(Gauge::QueueMax),
        "held_packets": gauge(Gauge::HeldPackets),
        "held_bytes": gauge(Gauge::HeldBytes),
        "burst_max_mtu": gauge(Gauge::BurstMax) as f64 / frame,
        "burst_mean_mtu": mean_burst(page, heading) / frame,
        "superpackets": gauge(Gauge::Superpackets),
        "ring_overflow_packets": gauge(Gauge::RingOverflow),
        "send_failure_packets": gauge(Gauge::SendFailures),
        "truncated_packets": gauge(Gauge::Truncated),
        "lateness_seconds": {
            "p50": seconds(Gauge::LatenessMedian),
            "p99": seconds(Gauge::Lateness99),
            "p99_9": seconds(Gauge::Lateness999),
            "max": seconds(Gauge::LatenessMax),
        },
    })
}
