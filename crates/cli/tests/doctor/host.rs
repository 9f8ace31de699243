//! `icdc doctor` on a host: what it finds in a system that is made of files, and in this one.

use std::fs;

use serde_json::Value;

use crate::support;
use crate::support::system::{System, finding};
use crate::support::{Ended, Site, Start};

fn doctor(site: &Site, system: &System, words: &[&str]) -> Ended {
    site.icdc(&["doctor", "--system-root"]).arg(system.root()).args(words).run()
}

fn report(site: &Site, system: &System, words: &[&str]) -> Value {
    let ended = doctor(site, system, &[words, &["--json"]].concat()).expect_code(0);
    assert_eq!((ended.events.len(), ended.stderr.as_str()), (1, ""), "{ended}");
    ended.events[0].clone()
}

fn severity(report: &Value, id: &str) -> String {
    finding(report, id)["severity"].as_str().unwrap().to_owned()
}

#[test]
fn a_usual_host_is_judged_by_the_aim() {
    let site = Site::new();
    let system = System::usual(&site);
    let report_far = report(&site, &system, &["--rate", "1gbit", "--rtt", "300ms"]);
    assert_eq!(report_far["aim"]["buffer_bytes"], 112_500_000);
    let receive = finding(&report_far, "socket.rmem_max");
    assert_eq!(receive["severity"], "problem");
    assert_eq!(receive["fix"], "sysctl -w net.core.rmem_max=112500000");
    assert_eq!((&receive["by_apply"], &receive["applied"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!(finding(&report_far, "tcp.rmem")["fix"], "sysctl -w net.ipv4.tcp_rmem='4096 131072 112500000'");
    for (id, expected) in [
        ("tcp.wmem", "problem"),
        ("tcp.mem", "ok"),
        ("tcp.sack", "ok"),
        ("tcp.mtu_probing", "note"),
        ("tcp.congestion_control", "ok"),
        ("qdisc.default", "note"),
        ("device.speed", "ok"),
        ("device.mtu", "ok"),
        ("device.interrupts", "note"),
        ("clock.source", "ok"),
    ] {
        assert_eq!(severity(&report_far, id), expected, "{id}");
    }
    assert_eq!(finding(&report_far, "device.speed")["subject"], "wan0");

    let report_near = report(&site, &system, &["--rate", "10mbit", "--rtt", "10ms"]);
    for id in ["socket.rmem_max", "socket.wmem_max", "tcp.rmem", "tcp.wmem"] {
        assert_eq!(severity(&report_near, id), "ok", "{id}");
    }
    let report_fast = report(&site, &system, &["--rate", "40gbit", "--rtt", "10ms"]);
    assert_eq!(severity(&report_fast, "device.speed"), "warning");
    assert_eq!(severity(&report_fast, "device.mtu"), "note");
}

#[test]
fn the_report_has_the_keys_that_are_documented() {
    let site = Site::new();
    let system = System::usual(&site);
    let ended = doctor(&site, &system, &["--json", "--disk", site.root().to_str().unwrap()]).expect_code(0);
    let report = &ended.events[0];
    for key in ["aim", "host", "path", "findings", "errors"] {
        assert!(report.get(key).is_some(), "{key} is missing in {report}");
    }
    assert!(report["path"].is_null());
    for key in ["rate_bps", "rtt_seconds", "in_flight_bytes", "buffer_bytes"] {
        assert!(report["aim"][key].is_number(), "{key}: {report}");
    }
    let host = &report["host"];
    for key in ["sysctls", "devices", "processors", "memory_bytes", "clock", "io_uring", "ebpf", "disk"] {
        assert!(host.get(key).is_some(), "{key} is missing in {host}");
    }
    assert_eq!(host["processors"], 4);
    assert_eq!(host["memory_bytes"], 16_777_216_000_u64);
    assert_eq!(host["sysctls"]["net.core.rmem_max"], "212992");
    let device = &host["devices"][0];
    assert_eq!(device["name"], "wan0");
    assert_eq!(device["mtu_bytes"], 1500);
    assert_eq!(device["speed_bps"], 10_000_000_000_u64);
    // What only a kernel can tell is not told of files.
    assert!(device["offloads"].is_null() && host["io_uring"].is_null() && host["clock"]["synchronized"].is_null());
    for key in ["write_bps", "read_bps", "bytes"] {
        assert!(host["disk"][key].as_u64().unwrap() > 0, "{key}: {host}");
    }
    for finding in report["findings"].as_array().unwrap() {
        for key in ["id", "severity", "found", "why"] {
            assert!(finding[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {finding}");
        }
        assert!(finding["fix"].is_string() || finding["fix"].is_null(), "{finding}");
        assert_eq!(finding["applied"], false);
        assert_eq!(finding["group"], "host");
        let is_fine = finding["severity"] == "ok";
        assert!(!is_fine || finding["fix"].is_null(), "what is fine needs no fix: {finding}");
    }
}

#[test]
fn people_get_a_table_and_commands_to_paste() {
    let site = Site::new();
    let system = System::usual(&site);
    let ended = doctor(&site, &system, &[]).expect_code(0);
    assert_eq!(ended.stderr, "", "{ended}");
    let lines: Vec<&str> = ended.text.lines().collect();
    assert_eq!(lines[0], "host, for 1 Gbit/s over 300ms: 37.5MB in flight, buffers of 112.5MB");
    assert!(lines[1].starts_with("  PROBLEM  "), "{ended}");
    let sudo = if support::is_root() { "" } else { "sudo " };
    let command = format!("{:11}{sudo}sysctl -w net.core.rmem_max=112500000", "");
    assert!(lines.contains(&command.as_str()), "{ended}");
    let last = lines.last().unwrap();
    assert!(last.starts_with("4 problems, ") && last.contains("doctor --rate 1gbit --rtt 300ms --apply"), "{last}");
}

#[test]
fn garbage_is_told_and_ends_nothing() {
    let site = Site::new();
    let system = System::usual(&site);
    let values: [&[u8]; 6] = [b"", b"\xff\xfe\x00", b"-1", b"many", b"1 2 3 4 5 6", &[b'9'; 100_000]];
    let places = [
        "/proc/sys/net/core/rmem_max",
        "/proc/sys/net/ipv4/tcp_rmem",
        "/proc/sys/net/ipv4/tcp_mem",
        "/proc/sys/net/ipv4/tcp_sack",
        "/proc/meminfo",
        "/proc/net/route",
        "/proc/net/ipv6_route",
        "/sys/class/net/wan0/mtu",
        "/sys/class/net/wan0/speed",
        "/sys/devices/system/cpu/online",
    ];
    for value in values {
        for place in places {
            system.write(place, value);
        }
        let report = report(&site, &system, &[]);
        assert_eq!(severity(&report, "sysctl.strange"), "warning", "{report}");
        assert_eq!(severity(&report, "socket.wmem_max"), "problem", "{report}");
        let before = system.files();
        doctor(&site, &system, &[]).expect_code(0);
        assert_eq!(system.files(), before, "looking changes nothing");
    }
    // Control characters must not reach the terminal.
    system.write("/proc/sys/net/ipv4/tcp_congestion_control", b"\x1b[2Jred");
    assert!(!doctor(&site, &system, &[]).expect_code(0).text.contains('\x1b'));
}

#[test]
fn what_cannot_be_seen_is_said_to_be_unseen() {
    let site = Site::new();
    let system = System::usual(&site);
    for name in ["rmem_max", "wmem_max"] {
        fs::remove_file(system.path(&format!("/proc/sys/net/core/{name}"))).unwrap();
    }
    let report = report(&site, &system, &[]);
    let unseen = finding(&report, "sysctl.unseen");
    assert_eq!(unseen["severity"], "note");
    assert!(unseen["found"].as_str().unwrap().ends_with("net.core.rmem_max, net.core.wmem_max"), "{unseen}");
    assert!(report["host"]["sysctls"]["net.core.rmem_max"].is_null());
    fs::remove_dir_all(system.root()).unwrap();
    let report = self::report(&site, &system, &[]);
    assert!(report["findings"].as_array().unwrap().iter().all(|finding| finding["severity"] != "problem"), "{report}");
}

#[test]
fn a_disk_that_cannot_be_measured_is_told_and_the_rest_is_found() {
    let site = Site::new();
    let system = System::usual(&site);
    let ended = doctor(&site, &system, &["--json", "--disk", "/nonexistent/directory"]).expect_code(1);
    assert!(ended.stderr.contains("--disk /nonexistent/directory"), "{ended}");
    assert_eq!(ended.events[0]["errors"].as_array().unwrap().len(), 1);
    assert_eq!(severity(&ended.events[0], "tcp.sack"), "ok");
}

#[test]
fn a_disk_is_measured_and_nothing_is_left() {
    let site = Site::new();
    let (system, directory) = (System::usual(&site), site.directory("disk"));
    let ended = doctor(&site, &system, &["--json", "--disk", directory.to_str().unwrap()]).expect_code(0);
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
    finding(&ended.events[0], "disk.write");
    finding(&ended.events[0], "disk.read");
    assert!(ended.stderr.contains("measuring the disk"), "{ended}");
}

#[test]
fn this_host_is_examined() {
    let site = Site::new();
    let ended = site.icdc(&["doctor", "--json"]).run().expect_code(0);
    let report = &ended.events[0];
    assert!(severity(report, "tcp.sack") == "ok" || severity(report, "tcp.sack") == "problem");
    for key in ["io_uring", "ebpf"] {
        assert!(report["host"][key]["available"].is_boolean(), "{report}");
    }
    assert!(report["host"]["processors"].as_u64().unwrap() > 0);
}

#[test]
fn what_makes_no_sense_is_an_error_of_usage() {
    let site = Site::new();
    for words in [
        &["far:path"][..],
        &["--undo", "--apply"],
        &["--undo", "far"],
        &["--rate", "fast"],
        &["--rtt", "5"],
        &["--send-self", "icdc://far"],
        &["--via", "ssh", "icdc://far"],
        &["one", "two"],
    ] {
        let ended = site.icdc(&[&["doctor"], words].concat()).run();
        assert_eq!(ended.code, Some(2), "{words:?}: {ended}");
        assert!(ended.stderr.starts_with("icdc: "), "{words:?}: {ended}");
    }
}
