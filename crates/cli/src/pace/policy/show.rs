//! Policies in force, for people and as JSON.

use icdc_pacer::policy::{Listed, Policy};
use serde_json::{Value, json};

use crate::console::Console;

/// Text for a setting that a policy leaves as it is.
pub(super) const UNTOUCHED: &str = "-";

/// Prints the policies in force, as a table or JSON.
pub(super) fn list(console: &Console, list: &[Listed], as_json: bool) {
    if as_json {
        console.json(&list.iter().map(object).collect::<Value>().to_string());
        return;
    }
    if list.is_empty() {
        console.result("no policy is in force");
        return;
    }
    let row = |cells: [&str; 8]| {
        let [to, rate, congestion, initial, largest, burst, connections, cgroup] = cells;
        let line = format!(
            "{to:<24} {rate:>10} {congestion:<15} {initial:>7} {largest:>7} {burst:>5} {connections:>11}  {cgroup}"
        );
        console.result(&line);
    };
    row(["to", "rate", "cc", "initial", "largest", "burst", "connections", "cgroup"]);
    for one in list {
        let policy = &one.policy;
        let shown = |value: Option<String>| value.unwrap_or_else(|| UNTOUCHED.to_owned());
        let gone = if one.cgroup_is_gone { " (gone)" } else { "" };
        row([
            &policy.to.to_string(),
            &shown(policy.rate.map(|rate| rate.to_string())),
            policy.congestion.as_deref().unwrap_or(UNTOUCHED),
            &shown(policy.initial_window.map(|segments| segments.to_string())),
            &shown(policy.largest_window.map(|segments| segments.to_string())),
            &shown(policy.burst.map(|segments| segments.to_string())),
            &one.connections.to_string(),
            &format!("{}{gone}", one.cgroup.display()),
        ]);
    }
}

/// JSON object of a policy in force.
fn object(one: &Listed) -> Value {
    let mut object = policy_object(&one.policy);
    object["cgroup"] = json!(one.cgroup.to_string_lossy());
    object["cgroup_is_gone"] = json!(one.cgroup_is_gone);
    object["connections"] = json!(one.connections);
    object
}

/// A policy as JSON, with `null` for what it leaves as it is.
pub(super) fn policy_object(policy: &Policy) -> Value {
    json!({
        "to": policy.to.to_string(),
        "rate_bps": policy.rate.map(|rate| rate.as_bits_per_second()),
        "cc": policy.congestion,
        "init_window_segments": policy.initial_window,
        "max_window_segments": policy.largest_window,
        "burst_segments": policy.burst,
    })
}

/// Settings of a policy, as part of a sentence.
pub(super) fn parts(policy: &Policy) -> String {
    let Policy { rate, congestion, initial_window, largest_window, burst, .. } = policy;
    let parts = [
        rate.map(|rate| format!("at most {rate} each")),
        congestion.as_ref().map(|name| format!("congestion control {name}")),
        initial_window.map(|segments| format!("an initial window of {segments} segments")),
        largest_window.map(|segments| format!("windows of at most {segments} segments")),
        burst.map(|segments| format!("bursts of at most {segments} segments")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
