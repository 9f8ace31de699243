//! `icdc measure --secure`: a copy without its disks.

use std::sync::Arc;

use icdc_client::{CopyOptions, Location, PipelineOptions, PipelineResult, measure_pipeline};
use icdc_stop::StopSignal;
use icdc_transfer::{Event, EventSink};
use icdc_units::Rate;
use serde_json::json;

use crate::console::Console;
use crate::copy::summary::{counted, limits, megabits, seconds};
use crate::exit;

/// Where and how a measurement of a copy without disks is shown.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) console: &'a Console,
    /// Whether it is shown as JSON, one object a line.
    pub(super) as_json: bool,
}

/// Runs `icdc measure --secure` and returns the exit code.
pub(super) fn run(
    target: &Location,
    order: &PipelineOptions,
    connection: &CopyOptions,
    shown: Shown<'_>,
    stop: &StopSignal,
) -> u8 {
    let Shown { console, as_json } = shown;
    let events: EventSink = {
        let console = console.clone();
        Arc::new(move |event| match event {
            Event::Notice { text } => console.complain(&text),
            Event::Progress(_) if as_json => {
                console.json(&json!(event).to_string());
                console.flush();
            }
            _ => {}
        })
    };
    let code = match measure_pipeline(target, order, connection, &events, stop) {
        Ok(pipeline) => {
            show(&pipeline, order.diskless.hashed, as_json, console);
            if pipeline.interrupted { exit::INTERRUPTED } else { 0 }
        }
        Err(error) => {
            console.complain(&error.to_string());
            if as_json {
                console.json(&json!({ "type": "summary", "bytes": 0, "errors": [error.to_string()] }).to_string());
            }
            exit::after(error.kind())
        }
    };
    console.flush();
    if console.has_lost_results() { code.max(exit::FAILED) } else { code }
}

/// Prints the result of the measurement; `hashed` if digests were computed in it.
fn show(pipeline: &PipelineResult, hashed: bool, as_json: bool, console: &Console) {
    let PipelineResult { bytes, time, retransmitted_segments, congestion, limited_by, max_rate, interrupted } =
        pipeline;
    let max_rate_bps = max_rate.map_or(0, Rate::as_bits_per_second);
    let goodput = if time.is_zero() { Rate::ZERO } else { *bytes / *time };
    if as_json {
        let summary = json!({
            "type": "summary",
            "seconds": time.as_secs_f64(),
            "bytes": bytes.as_u64(),
            "goodput_bps": goodput.as_bits_per_second(),
            "hashed": hashed,
            "retransmitted_segments": retransmitted_segments,
            "cc": congestion,
            "limited_by": limited_by,
            "max_rate_bps": max_rate_bps,
            "interrupted": interrupted,
            "errors": [],
        });
        console.json(&summary.to_string());
        return;
    }
    let mut parts = vec![
        format!("{bytes} in {} at {}", seconds(time.as_secs_f64()), megabits(goodput.as_bits_per_second())),
        format!("{} retransmitted", counted(*retransmitted_segments, "segment")),
    ];
    parts.extend(limits(limited_by, max_rate_bps).map(|limits| format!("limited by {limits}")));
    if *interrupted {
        parts.push("interrupted".into());
    }
    console.result(&parts.join("; "));
}
