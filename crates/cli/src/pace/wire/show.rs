//! The classes of a wire pacer, for people, as JSON, and for Prometheus.

use std::fmt::Write as _;
use std::path::Path;

use icdc_pacer::wire::{ClassStatus, Line, Mode, Status};
use icdc_units::Rate;
use serde_json::{Value, json};

use crate::console::Console;

/// What is told when it begins.
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

/// Rate since the status before, on the wire.
fn achieved(now: &Status, before: Option<&Status>, class: &ClassStatus) -> Option<Rate> {
    let before = before?;
    let then = before.classes.iter().find(|other| other.name == class.name)?;
    (now.at > before.at).then(|| (class.counters.bytes - then.counters.bytes) / (now.at - before.at))
}

/// How many classes one is within.
fn depth(status: &Status, class: &ClassStatus) -> usize {
    let parent = |class: &&ClassStatus| {
        let name = class.parent.as_ref()?;
        status.classes.iter().find(|other| other.name == *name)
    };
    std::iter::successors(Some(class), parent).skip(1).count()
}

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

/// Writes the counters aside and puts them in place whole, as node exporters want it.
pub(super) fn write_metrics(path: &Path, device: &str, now: &Status) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    std::fs::write(&aside, metrics(device, now))?;
    std::fs::rename(&aside, path)
}

/// The text format of Prometheus.
fn metrics(device: &str, now: &Status) -> String {
    type Value = fn(&ClassStatus) -> u64;
    let of_classes: [(&str, &str, &str, Value); 6] = [
        ("packets_total", "counter", "Frames sent", |class| class.counters.packets),
        ("wire_bytes_total", "counter", "Bytes on the wire", |class| class.counters.bytes.as_u64()),
        ("dropped_packets_total", "counter", "Frames dropped", |class| class.counters.dropped),
        ("marked_packets_total", "counter", "Packets marked by ECN", |class| class.counters.marked),
        ("waiting_bytes", "gauge", "Bytes that wait", |class| class.waiting.as_u64()),
        ("burst_bytes", "gauge", "Largest burst in a second since the last time this was written", |class| {
            class.burst.as_u64()
        }),
    ];
    let mut text = String::new();
    let device = label(device);
    for (name, kind, help, value) in of_classes {
        let _ = writeln!(text, "# HELP icdc_pace_{name} {help}\n# TYPE icdc_pace_{name} {kind}");
        for class in &now.classes {
            let (value, parent) = (value(class), label(class.parent.as_deref().unwrap_or_default()));
            let class = label(&class.name);
            let _ =
                writeln!(text, "icdc_pace_{name}{{device=\"{device}\",class=\"{class}\",parent=\"{parent}\"}} {value}");
        }
    }
    for (name, help, value) in [
        ("gap_packets_total", "Gap frames sent", now.gap_frames as f64),
        ("late_seconds_total", "Time for which the pacer was kept from running", now.late.as_secs_f64()),
        ("refused_packets_total", "Frames that the device did not take", now.refused as f64),
    ] {
        let _ = writeln!(
            text,
            "# HELP icdc_pace_{name} {help}\n# TYPE icdc_pace_{name} counter\nicdc_pace_{name}{{device=\"{device}\"}} {value}"
        );
    }
    text
}

/// The value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn names_cannot_break_the_format() {
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
