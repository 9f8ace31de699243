//! `icdc measure` between two ends: what it counts, when it ends, and what it tells.

use std::fs;

use serde_json::Value;

use crate::support;
use crate::support::calm::{holds, in_a_calm_moment};
use crate::support::network::Pair;
use crate::support::{Ended, HERE, ICDC, Run, Signal, Site, Start};

/// `icdc measure --json --ssh HERE WORDS… 127.0.0.1`
fn start(site: &Site, words: &[&str]) -> Run {
    let mut command = site.icdc(&["measure", "--json", "--remote-icdc", ICDC, "--ssh", &site.ssh()]);
    command.args(words).arg(HERE).start()
}

fn measure(site: &Site, words: &[&str]) -> Ended {
    start(site, words).finish()
}

fn series(ended: &Ended) -> u64 {
    ended.summary()["series_ms"].as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap()).sum()
}

#[test]
fn exactly_the_bytes_asked_for_arrive_in_both_directions_and_over_several_connections() {
    let site = Site::new();
    for words in [&["--bytes", "7654321"][..], &["--reverse"], &["--streams", "2"], &["--streams", "3", "--reverse"]] {
        let words = [words, &["--bytes", "7654321", "--json-series"][..]].concat();
        let words = if words[0] == "--bytes" { words[2..].to_vec() } else { words };
        let ended = measure(&site, &words).expect_code(0);
        assert_eq!(ended.number("bytes"), 7_654_321, "{ended}");
        assert_eq!(ended.summary()["errors"], Value::Array(vec![]), "{ended}");
        let streams: u64 = if words.contains(&"3") {
            3
        } else if words.contains(&"2") {
            2
        } else {
            1
        };
        assert_eq!(ended.number("streams"), streams);
        let seen: std::collections::BTreeSet<u64> =
            ended.all("sample").map(|sample| sample["stream"].as_u64().unwrap()).collect();
        assert_eq!(seen.len() as u64, streams, "{ended}");
        // Of packets, what travelled twice counts twice.
        let sum = series(&ended);
        if ended.summary()["arrivals"] == "socket" {
            assert_eq!(sum, 7_654_321);
        } else {
            assert!((7_654_321..9_000_000).contains(&sum), "{sum}");
        }
    }
}

#[test]
fn the_time_ends_it_and_the_ceiling_holds() {
    let site = Site::new();
    for reverse in [&[][..], &["--reverse"]] {
        let bytes = |rate| {
            let ended = measure(&site, &[&["--seconds", "1", "--rate", rate, "--streams", "2"], reverse].concat());
            let ended = ended.expect_code(0);
            assert_eq!(ended.summary()["seconds"], 1.0, "{ended}");
            ended.number("bytes") as f64
        };
        in_a_calm_moment(|| {
            // Each begins with a burst of its first window.
            let ratio = bytes("160mbit") / bytes("80mbit");
            holds((1.2..2.8).contains(&ratio), ratio)
        });
    }
}

#[test]
fn every_line_has_the_keys_that_are_documented() {
    let site = Site::new();
    let (csv, page) = (site.path("series.csv"), site.path("page.html"));
    let words = ["--seconds", "300ms", "--rate", "80mbit", "--window", "128KiB", "--json-series"];
    let files = ["--series", csv.to_str().unwrap(), "--report", page.to_str().unwrap()];
    let ended = measure(&site, &[&words[..], &files[..]].concat()).expect_code(0);
    let samples: Vec<&Value> = ended.all("sample").collect();
    assert!(samples.len() > 5, "{ended}");
    for key in [
        "at_seconds",
        "stream",
        "rtt_seconds",
        "min_rtt_seconds",
        "cwnd_bytes",
        "pacing_rate_bps",
        "delivery_rate_bps",
        "retransmitted_segments",
        "bytes_acked",
    ] {
        assert!(samples.last().unwrap()[key].is_number(), "{key} is no number: {}", samples.last().unwrap());
    }
    let summary = ended.summary();
    for key in [
        "seconds",
        "bytes",
        "goodput_bps",
        "retransmitted_segments",
        "streams",
        "mss_bytes",
        "window_bytes",
        "min_rtt_seconds",
        "start_up_seconds",
    ] {
        assert!(summary[key].as_f64().is_some_and(|number| number >= 0.0), "{key}: {summary}");
    }
    assert!(summary["window_bytes"].as_u64().unwrap() > 0 && summary["mss_bytes"].as_u64().unwrap() > 0);
    assert!(!summary["cc"].as_str().unwrap().is_empty());
    assert!(matches!(summary["arrivals"].as_str().unwrap(), "packets" | "socket"));
    let shares: f64 = summary["limited_by"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{summary}");

    let rows = fs::read_to_string(&csv).unwrap();
    let mut rows = rows.lines();
    assert_eq!(rows.next(), Some("time_ms,received_bytes"));
    let counted: Vec<u64> = rows.map(|row| row.split_once(',').unwrap().1.parse().unwrap()).collect();
    assert_eq!(counted.len(), 300);
    assert_eq!(counted.iter().sum::<u64>(), series(&ended));
    let page = fs::read_to_string(&page).unwrap();
    for words in ["Throughput", "1000 ms mean", "Congestion window", "Pacing rate", "Round-trip time"] {
        assert!(page.contains(words), "{words} is missing in the report");
    }
}

#[test]
fn addresses_of_ipv6_are_hosts_too() {
    let site = Site::new();
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return support::skip("no IPv6 on this host");
    }
    for words in [&["-6"][..], &["-6", "--reverse"]] {
        let mut command =
            site.icdc(&["measure", "--json", "--json-series", "--remote-icdc", ICDC, "--ssh", &site.ssh()]);
        let ended = command.args(words).args(["--bytes", "1MB", "::1"]).run().expect_code(0);
        assert_eq!(ended.number("bytes"), 1_000_000);
        assert!(series(&ended) >= 1_000_000, "{ended}");
    }
}

#[test]
fn people_get_lines() {
    let site = Site::new();
    let mut command = site.icdc(&["measure", "--remote-icdc", ICDC, "--ssh", &site.ssh(), "--bytes", "1MB", HERE]);
    let ended = command.run().expect_code(0);
    for words in ["1MB in", "Mbit/s", "round-trip time", "arrivals from"] {
        assert!(ended.text.contains(words), "{words} is missing: {ended}");
    }
    assert_eq!(ended.stderr, "");
}

#[test]
fn an_interrupt_ends_it_and_what_was_measured_is_told() {
    let site = Site::new();
    for words in [&["--rate", "80mbit"][..], &["--rate", "80mbit", "--reverse"]] {
        let run = start(&site, &[words, &["--seconds", "1000"]].concat());
        let acked = |event: &Value| event["bytes_acked"].as_u64().is_some_and(|bytes| bytes > 100_000);
        assert!(run.wait_for(acked), "{}", run.stderr());
        run.signal(Signal::INT);
        let ended = run.finish().expect_code(4);
        assert!(ended.number("bytes") > 0 && ended.summary()["interrupted"] == true, "{ended}");
    }
}

#[test]
fn a_far_end_that_dies_is_told() {
    let site = Site::new();
    let run = start(&site, &["--rate", "80mbit", "--seconds", "1000"]);
    assert!(run.wait_for(|event| event["type"] == "sample"), "{}", run.stderr());
    rustix::process::kill_process(run.far_end().unwrap(), Signal::KILL).unwrap();
    let ended = run.finish().expect_code(1);
    assert!(!ended.summary()["errors"].as_array().unwrap().is_empty(), "{ended}");
}

#[test]
fn what_makes_no_sense_is_an_error_of_usage() {
    let site = Site::new();
    for words in [
        &["far:path"][..],
        &["--seconds", "0", "far"],
        &["--seconds", "2d", "far"],
        &["--bytes", "0", "far"],
        &["--streams", "0", "far"],
        &["--window", "2GiB", "far"],
        &["--json-series", "far"],
        &["--via", "ssh", "icdc://far"],
        &["--series", "/nonexistent/file", "far"],
        &["--send-self", "icdc://far"],
        &["--hash", "far"],
        &["--secure", "--window", "1MiB", "far"],
        &["--secure", "--series", "a.csv", "far"],
        &["--secure", "--bytes", "9TiB", "far"],
        &[],
    ] {
        let ended = site.icdc(&[&["measure"], words].concat()).run();
        assert_eq!(ended.code, Some(2), "{words:?}: {ended}");
        assert!(ended.stderr.starts_with("icdc: "), "{words:?}: {ended}");
    }
}

#[test]
fn a_congestion_control_that_no_kernel_has_is_told_by_the_end_that_would_send() {
    let site = Site::new();
    let near = measure(&site, &["--cc", "no-such"]).expect_code(2);
    assert!(near.stderr.contains("no-such"), "{near}");
    let far = measure(&site, &["--cc", "no-such", "--reverse"]).expect_code(3);
    assert!(far.stderr.contains("no-such"), "{far}");
}

#[test]
fn between_two_hosts_the_data_goes_over_the_cable_and_packets_are_counted() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let ssh = site.ssh_to(&pair.far);
    for reverse in [&[][..], &["--reverse"]] {
        let words = ["measure", "--json", "--json-series", "--remote-icdc", ICDC, "--ssh", &ssh, "--bytes", "5MB"];
        let command = site.icdc(&[&words[..], reverse, &[pair.far.address()]].concat());
        let ended = pair.near.run(&command).run().expect_code(0);
        assert_eq!(ended.number("bytes"), 5_000_000);
        // Root may see packets.
        assert_eq!(ended.summary()["arrivals"], "packets", "{ended}");
        assert!((5_000_000..6_000_000).contains(&series(&ended)), "{}", series(&ended));
    }
    assert!(pair.far.received() > 5_000_000);
}
