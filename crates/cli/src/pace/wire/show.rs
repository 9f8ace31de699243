//! The classes of a wire pacer, for people, as JSON, and for Prometheus.

use icdc_metrics::Reading;
use icdc_pacer::wire::{ClassStatus, Line, Mode, Status};
use icdc_units::Rate;
use serde_json::{Value, json};

use crate::console::Console;

/// Text printed when the pacing of a device begins.
pub(super) fn begins(line: &Line) -> String {
    let Line { device, rate, mode, lead } = line;
    match mode {
        Mode::Gap => format!(
            "{device}: {rate} line, gap mode: frames are kept apart by the line itself, as long as icdc is not kept from running for {lead}"
        ),
        Mode::Timer => format!(
            "{device}: {rate} line, timer mode: a frame leaves when the system's timer wakes icdc, and what is late leaves in one bunch"
        ),
    }
}

/// Mean rate of a class on the wire since the status before; `None` without one.
fn achieved(now: &Status, before: Option<&Status>, class: &ClassStatus) -> Option<Rate> {
    let before = before?;
    let then = before.classes.iter().find(|other| other.name == class.name)?;
    (now.at > before.at).then(|| (class.counters.bytes - then.counters.bytes) / (now.at - before.at))
}

/// Depth of a class in the tree of classes: the number of classes that contain it.
fn depth(status: &Status, class: &ClassStatus) -> usize {
    let parent = |class: &&ClassStatus| {
        let name = class.parent.as_ref()?;
        status.classes.iter().find(|other| other.name == *name)
    };
    std::iter::successors(Some(class), parent).skip(1).count()
}

/// Prints a table of the classes, with their rates since the status before.
pub(super) fn table(console: &Console, now: &Status, before: Option<&Status>) {
    let row = |cells: [&str; 9]| {
        let [name, rate, ceiling, achieved, burst, packets, dropped, marked, waiting] = cells;
        let line = format!(
            "{name:<20} {rate:>10} {ceiling:>10} {achieved:>10} {burst:>9} {packets:>12} {dropped:>9} {marked:>9} {waiting:>9}"
        );
        console.result(&line);
    };
    row(["class", "rate", "ceiling", "achieved", "burst", "packets", "dropped", "marked", "waiting"]);
    let shown = |rate: Option<Rate>| rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string());
    for class in &now.classes {
        let counters = &class.counters;
        let depth = depth(now, class);
        row([
            &format!("{:indent$}{}", "", class.name, indent = depth * 2),
            &shown(class.rate),
            &shown(class.ceiling),
            &shown(achieved(now, before, class)),
            &class.burst.to_string(),
            &counters.packets.to_string(),
            &counters.dropped.to_string(),
            &counters.marked.to_string(),
            &class.waiting.to_string(),
        ]);
    }
    if !now.late.is_zero() || now.refused > 0 {
        console.result(&format!("kept from running for {}; {} frames refused by the device", now.late, now.refused));
    }
    console.result("");
}

/// JSON object of the classes, with their rates since the status before.
pub(super) fn object(now: &Status, before: Option<&Status>) -> Value {
    let class = |class: &ClassStatus| {
        json!({
            "name": class.name,
            "parent": class.parent,
            "rate_bps": class.rate.map(Rate::as_bits_per_second),
            "ceiling_bps": class.ceiling.map(Rate::as_bits_per_second),
            "achieved_bps": achieved(now, before, class).map(Rate::as_bits_per_second),
            "packets": class.counters.packets,
            "wire_bytes": class.counters.bytes.as_u64(),
            "dropped_packets": class.counters.dropped,
            "marked_packets": class.counters.marked,
            "waiting_bytes": class.waiting.as_u64(),
            "burst_max_bytes": class.burst.as_u64(),
        })
    };
    json!({
        "type": "classes",
        "classes": now.classes.iter().map(class).collect::<Value>(),
        "gap_packets": now.gap_frames,
        "late_seconds": now.late.as_secs_f64(),
        "refused_packets": now.refused,
        "reloads": now.reloads,
    })
}

/// Metrics of the pacer of `device`, for the node exporter.
pub(super) fn reading(device: &str, now: &Status) -> Reading {
    type Read = fn(&ClassStatus) -> u64;
    let mut reading = Reading::new().with_label("device", device);
    let labels =
        |class: &ClassStatus| [("class", class.name.clone()), ("parent", class.parent.clone().unwrap_or_default())];
    let of_classes = |read: Read| now.classes.iter().map(move |class| (labels(class), read(class).into()));
    let counters: [(&str, &str, Read); 4] = [
        ("icdc_pace_packets", "Frames sent", |class| class.counters.packets),
        ("icdc_pace_wire_bytes", "Bytes on the wire", |class| class.counters.bytes.as_u64()),
        ("icdc_pace_dropped_packets", "Frames dropped", |class| class.counters.dropped),
        ("icdc_pace_marked_packets", "Packets marked by ECN", |class| class.counters.marked),
    ];
    for (name, help, read) in counters {
        reading.counter(name, help, of_classes(read));
    }
    reading.gauge("icdc_pace_waiting_bytes", "Bytes that wait", of_classes(|class| class.waiting.as_u64()));
    let burst: Read = |class| class.burst.as_u64();
    let help = "Largest burst in a second since the last time this was written";
    reading.gauge("icdc_pace_burst_bytes", help, of_classes(burst));
    reading.counter("icdc_pace_gap_packets", "Gap frames sent", [((), now.gap_frames.into())]);
    let late = now.late.as_secs_f64().into();
    reading.counter("icdc_pace_late_seconds", "Time for which the pacer was kept from running", [((), late)]);
    let help = "Frames that the device did not take";
    reading.counter("icdc_pace_refused_packets", help, [((), now.refused.into())]);
    reading.counter("icdc_pace_reloads", "Times that the classes were read anew", [((), now.reloads.into())]);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    reading.gauge("icdc_pace_build_info", "Release of the pacer", [(version, 1_u64.into())]);
    reading
}
