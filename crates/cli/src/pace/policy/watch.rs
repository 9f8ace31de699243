//! Sockets under a policy, look after look.

use std::collections::HashMap;

use icdc_pacer::policy::{Governed, PolicyError, Watch};
use icdc_stop::StopSignal;
use icdc_units::{ByteCount, Rate, Span};
use serde_json::{Value, json};

use super::show::{UNTOUCHED, policy_object};
use crate::arguments::pace::policy::WatchArguments;
use crate::clock::Stopwatch;
use crate::console::Console;
use crate::signals;

/// Runs `icdc pace policy watch`: prints the sockets under a policy at an interval, until stopped
/// or as often as asked.
pub(super) fn run(arguments: &WatchArguments, console: &Console) -> Result<(), PolicyError> {
    let stop = StopSignal::new();
    signals::watch_if_possible(&stop, console, "stopping");
    let (watch, clock) = (Watch::open()?, Stopwatch::start());
    let mut before = Look { at: clock.elapsed(), acknowledged: HashMap::new() };
    before.acknowledged = acknowledged(&watch.sockets()?);
    let mut looks = 0;
    while arguments.count.is_none_or(|count| looks < count) && !stop.wait(arguments.interval) {
        let (sockets, at) = (watch.sockets()?, clock.elapsed());
        let rate = |one: &Governed| before.rate(one, at);
        if arguments.json {
            let list: Vec<Value> = sockets.iter().map(|one| object(one, rate(one))).collect();
            console.json(&json!({ "type": "look", "at_seconds": at.as_secs_f64(), "sockets": list }).to_string());
        } else {
            table(console, &sockets, rate);
        }
        console.flush();
        before = Look { at, acknowledged: acknowledged(&sockets) };
        looks += 1;
    }
    Ok(())
}

/// Bytes that each socket had acknowledged at the last look, for its rate until the next one.
struct Look {
    at: Span,
    /// Bytes acknowledged so far, by the socket's cookie.
    acknowledged: HashMap<u64, ByteCount>,
}

impl Look {
    /// Mean rate of acknowledged bytes since this look; `None` for a socket that was not there.
    fn rate(&self, socket: &Governed, now: Span) -> Option<Rate> {
        let before = self.acknowledged.get(&socket.cookie)?;
        Some((socket.acknowledged - *before) / (now - self.at))
    }
}

/// Bytes acknowledged so far, by the socket's cookie.
fn acknowledged(sockets: &[Governed]) -> HashMap<u64, ByteCount> {
    sockets.iter().map(|one| (one.cookie, one.acknowledged)).collect()
}

/// Prints a table of the sockets.
fn table(console: &Console, sockets: &[Governed], rate: impl Fn(&Governed) -> Option<Rate>) {
    if sockets.is_empty() {
        console.result("no socket is under a policy");
        return;
    }
    let row = |cells: [&str; 9]| {
        let [local, remote, rate, paced, congestion, window, rtt, again, policy] = cells;
        let line = format!(
            "{local:<24} {remote:<24} {rate:>10} {paced:>10} {congestion:<15} {window:>7} {rtt:>8} {again:>6}  {policy}"
        );
        console.result(&line);
    };
    row(["local", "remote", "rate", "paced at", "cc", "window", "rtt", "again", "policy"]);
    for one in sockets {
        let mut policy = one.policy.to.to_string();
        if !one.refused.is_empty() {
            policy = format!("{policy} (refused: {})", one.refused.join(", "));
        }
        row([
            &one.local.to_string(),
            &one.remote.to_string(),
            &rate(one).map_or_else(|| UNTOUCHED.to_owned(), |rate| rate.to_string()),
            &one.pacing_rate.map_or_else(|| UNTOUCHED.to_owned(), |rate| rate.to_string()),
            &one.congestion,
            &one.window.to_string(),
            &one.rtt.to_string(),
            &one.retransmitted.to_string(),
            &policy,
        ]);
    }
    console.result("");
}

/// JSON object of a socket under a policy.
fn object(one: &Governed, rate: Option<Rate>) -> Value {
    json!({
        "local": one.local.to_string(),
        "remote": one.remote.to_string(),
        "rate_bps": rate.map(Rate::as_bits_per_second),
        "pacing_rate_bps": one.pacing_rate.map(Rate::as_bits_per_second),
        "max_pacing_rate_bps": one.ceiling.map(Rate::as_bits_per_second),
        "acknowledged_bytes": one.acknowledged.as_u64(),
        "cc": one.congestion,
        "window_segments": one.window,
        "rtt_seconds": one.rtt.as_secs_f64(),
        "retransmitted_segments": one.retransmitted,
        "policy": policy_object(&one.policy),
        "cgroup": one.cgroup.as_ref().map(|path| path.to_string_lossy()),
        "refused": one.refused,
    })
}
