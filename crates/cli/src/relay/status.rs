//! `icdc relay status`: prints the status of a running relay, as text or JSON.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use icdc_units::{ByteCount, Rate, Span};
use serde_json::Value;

use super::plan::status_socket;
use crate::arguments::relay::StatusArguments;
use crate::console::Console;

/// Maximum number of connections that are shown as text.
const MAX_SHOWN: usize = 50;

/// Runs `icdc relay status`: prints the status of the relay on this host.
pub(super) fn run(arguments: &StatusArguments, console: &Console) -> Result<()> {
    let path = status_socket(&arguments.socket)
        .context("XDG_RUNTIME_DIR is not set; name the relay's socket with --status-socket PATH")?;
    let text = icdc_relay::query_status(&path).with_context(|| {
        format!("{}: no relay answers; does it run, as the same user, with this --status-socket?", path.display())
    })?;
    if arguments.json {
        console.json(text.trim_end());
    } else {
        let status: Value = serde_json::from_str(&text).context("the relay's answer cannot be read")?;
        console.result(describe(&status).trim_end());
    }
    console.flush();
    Ok(())
}

/// The relay's status as lines for people.
fn describe(status: &Value) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "relay {}, up {}", text_of(&status["id"]), seconds(&status["seconds"]));
    for listener in list(&status["listeners"]) {
        let to = listener["destination"].as_str().map(|to| format!(" to {to}")).unwrap_or_default();
        let _ = writeln!(text, "  {} {}{to}", text_of(&listener["kind"]), text_of(&listener["address"]));
    }
    let totals = &status["totals"];
    let _ = writeln!(
        text,
        "connections: {} open, {} accepted, {} rejected, {} unreachable, {} finished, {} aborted, {} timed out",
        totals["open"],
        totals["accepted"],
        totals["rejected"],
        totals["unreachable"],
        totals["finished"],
        totals["aborted"],
        totals["timed_out"]
    );
    let _ = writeln!(
        text,
        "relayed: {} up, {} down; {} buffered",
        bytes(&totals["bytes_up"]),
        bytes(&totals["bytes_down"]),
        bytes(&totals["buffered"])
    );
    let connections = list(&status["connections"]);
    for connection in connections.iter().take(MAX_SHOWN) {
        describe_connection(connection, &mut text);
    }
    if connections.len() > MAX_SHOWN {
        let _ = writeln!(text, "… and {} more; --json has all", connections.len() - MAX_SHOWN);
    }
    text
}

/// Appends the lines about a connection.
fn describe_connection(connection: &Value, text: &mut String) {
    let to = connection["destination"].as_str().unwrap_or("?");
    let via = match connection["via"].as_str() {
        None | Some("direct") => String::new(),
        Some(relay) => format!(" via {relay}"),
    };
    let _ = writeln!(
        text,
        "\n{} {} → {to}{via}: {}, {}, {} buffered",
        text_of(&connection["listener"]),
        text_of(&connection["client"]),
        text_of(&connection["stage"]),
        seconds(&connection["seconds"]),
        bytes(&connection["buffered"])
    );
    for direction in ["up", "down"] {
        let flow = &connection[direction];
        let limit = flow["limited_by"].as_str().map(|leg| format!(", limited by the {leg} leg")).unwrap_or_default();
        let _ = writeln!(text, "  {direction:<5}{}, {}{limit}", bytes(&flow["bytes"]), rate(&flow["rate"]));
    }
    for side in ["near", "far"] {
        let leg = &connection[side];
        if leg.is_null() {
            continue;
        }
        let limit = leg["limited_by"].as_str().map(|what| format!(", limited by the {what}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "  {side:<5}{}{}, {}: {}, RTT {}, window {}, queue {}, {} retransmitted{limit}",
            text_of(&leg["peer"]),
            if leg["tls"] == true { ", TLS" } else { "" },
            text_of(&leg["congestion"]),
            rate(&leg["rate"]),
            span(&leg["rtt"]),
            bytes(&leg["cwnd"]),
            bytes(&leg["queue"]),
            leg["retransmissions"]
        );
    }
}

/// Items of a JSON array; none for anything else.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Text of a JSON string; `?` for anything else.
fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Bytes from a JSON number; 0 for anything else.
fn bytes(value: &Value) -> ByteCount {
    ByteCount::new(value.as_u64().unwrap_or(0))
}

/// Rate from a JSON number of bits per second; 0 for anything else.
fn rate(value: &Value) -> Rate {
    Rate::from_bits_per_second(value.as_u64().unwrap_or(0))
}

/// Time from a JSON number of nanoseconds; 0 for anything else.
fn span(value: &Value) -> Span {
    Span::from_nanos(value.as_u64().unwrap_or(0))
}

/// Time from a JSON number of seconds; 0 for anything else.
fn seconds(value: &Value) -> Span {
    Span::from_millis((value.as_f64().unwrap_or(0.0) * 1e3) as u64)
}
