//! What labs and scenarios tell: tables, pages, CSV and JSON.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real packets need real time")]

mod support;

use std::fs;
use std::thread;

use support::lab::{Lab, datagram, numbers};
use support::{Site, is_root, skip};

#[test]
fn a_report_has_every_byte_that_crossed() {
    let Some(lab) = Lab::up(&["--rate", "100mbit", "--rtt", "20ms"]) else { return };
    let site = Site::new();
    let (a, b) = lab.udp();
    let receiver = thread::spawn(move || numbers(&b));
    for number in 0..200 {
        a.send(&datagram(number, 1000)).unwrap();
    }
    receiver.join().unwrap();
    let status = lab.settled_status();
    let crossed = status["a_to_b"]["delivered_bytes"].as_u64().unwrap();
    assert_eq!(crossed, 200 * (1000 + 8 + 20 + 14 + 24));
    let write = |name: &str| {
        let path = site.path(name);
        let output = lab.icdc("report", &[path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(path).unwrap()
    };
    let csv = write("path.csv");
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = header.iter().position(|name| *name == "throughput_bps").unwrap();
    let bits: f64 = lines.filter_map(|line| line.split(',').nth(column)?.parse::<f64>().ok()).sum::<f64>() / 1000.0;
    assert!((bits / 8.0 - crossed as f64).abs() < 1.0, "{bits}");
    let json: serde_json::Value = serde_json::from_str(&write("path.json")).unwrap();
    assert_eq!(json["plots"][0]["title"], "Throughput, a to b");
    assert!(write("path.html").contains("Throughput, a to b"));
    let refused = lab.icdc("report", &[site.path("path.png").to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn a_scenario_prints_its_table_and_keeps_its_record() {
    if !is_root() {
        skip("a scenario's algorithm and buffers need root");
        return;
    }
    let site = Site::new();
    let output = site.icdc(&["lab", "run", "--quick", "--out", "record", "startup"]).output().unwrap();
    let (told, words) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // On a machine that is busy with other things, a measurement may stay invalid; it must then say so.
    assert!(output.status.success() || told.contains("invalid: "), "{told}{words}");
    assert!(told.contains("paper, s") && told.contains("100ms"), "{told}");
    assert!(fs::read_to_string(site.path("record/report.html")).unwrap().contains("about 2"));
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(site.path("record/report.json")).unwrap()).unwrap();
    assert_eq!(json["title"], "startup");
}

#[test]
fn scenarios_are_named() {
    let site = Site::new();
    let list = site.icdc(&["lab", "list"]).output().unwrap();
    let names = String::from_utf8(list.stdout).unwrap();
    for name in ["icdc-pseudo", "startup", "window"] {
        assert!(names.lines().any(|line| line.starts_with(name)), "{names}");
    }
    let unknown = site.icdc(&["lab", "run", "warp"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("icdc-pseudo, startup, window"));
}
