//! `icdc doctor TARGET`: the path, over an emulated one of which everything is known.

use serde_json::Value;

use crate::support::calm::machine;
use crate::support::daemon::{Daemon, Nobody};
use crate::support::lab::{B, Lab};
use crate::support::system::{System, finding};
use crate::support::{Ended, HERE, Signal, Site, Start, succeed};

/// How many times the second is in the first.
fn ratio(report: &Value, key: &str, expected: f64) -> f64 {
    report["path"][key].as_f64().unwrap_or_else(|| panic!("{key}: {report}")) / expected
}

fn examine(lab: &Lab, words: &[&str]) -> Ended {
    let site = Site::new();
    lab.on_a(&site, "doctor").args(["--json"]).args(words).arg(B).run()
}

#[test]
fn a_path_is_found_to_be_what_it_is() {
    // In flight are 300 kB, and the queue takes 150 kB.
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "60mbit", "--rtt", "40ms", "--queue", "150kB"]) else { return };
    // Of frames of 1538 bytes on the wire, 1448 are data. A machine that stalls in the few seconds
    // of a probe takes from it.
    let capacity = |ended: &Ended| ratio(&ended.events[0], "capacity_bps", 60e6 * 1448.0 / 1538.0);
    let mut ended = examine(&lab, &[]).expect_code(0);
    for _ in 0..3 {
        if capacity(&ended) < 0.85 {
            ended = examine(&lab, &[]).expect_code(0);
        }
    }
    let report = &ended.events[0];
    assert!((0.85..1.1).contains(&capacity(&ended)), "{report}");
    assert!((0.95..1.3).contains(&ratio(report, "rtt_seconds", 0.04)), "{report}");
    assert!(report["path"]["loss"]["ratio"].as_f64().unwrap() < 0.01, "{report}");
    let (tolerated, exceeded) =
        (ratio(report, "burst_tolerated_bytes", 150e3), ratio(report, "burst_exceeded_bytes", 150e3));
    assert!((0.2..1.5).contains(&tolerated) && (0.7..4.0).contains(&exceeded) && tolerated < exceeded, "{report}");
    assert_eq!(report["path"]["mtu_bytes"], 1500);
    assert_eq!(report["path"]["address"], B);
    assert_eq!(report["host"]["devices"][0]["name"], "eth0");
    assert_eq!(finding(report, "path.rtt")["group"], "path");
    // The path sets the aim.
    assert_eq!(report["aim"]["rate_bps"], report["path"]["capacity_bps"]);
    assert_eq!(report["aim"]["rtt_seconds"], report["path"]["rtt_seconds"]);
    for step in ["round-trip time", "capacity", "loss", "burst tolerance"] {
        assert!(ended.stderr.contains(&format!("icdc: measuring the {step}")), "{ended}");
    }
}

#[test]
fn loss_that_is_not_of_the_senders_making_is_found() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "40mbit", "--rtt", "4ms", "--queue", "400kB", "--loss", "0.01"]) else {
        return;
    };
    let ended = examine(&lab, &["--rate", "10mbit", "--rtt", "20ms"]).expect_code(0);
    let report = &ended.events[0];
    let loss = report["path"]["loss"]["ratio"].as_f64().unwrap();
    assert!((0.003..0.04).contains(&loss), "{report}");
    assert_ne!(finding(report, "path.loss")["severity"], "ok");
    assert_eq!(report["aim"]["rate_bps"], 10_000_000);
    assert_eq!(report["aim"]["rtt_seconds"], 0.02);
}

#[test]
fn a_daemon_is_a_target_too() {
    let site = Site::new();
    let daemon = Daemon::start(&site, &site.directory("root"), "r");
    let ended = site.icdc(&["doctor", &daemon.location("")]).run().expect_code(0);
    assert!(ended.text.contains(&format!("\npath to {HERE}\n")), "{ended}");
    assert!(ended.text.contains("round-trip time"), "{ended}");
}

#[test]
fn a_target_that_does_not_answer_is_told_and_the_host_is_examined() {
    let site = Site::new();
    let system = System::usual(&site);
    let before = system.files();
    let nobody = Nobody::new();
    let target = format!("icdc://{}", nobody.address);
    succeed(&mut site.icdc(&["keygen"]));
    let mut command = site.icdc(&["doctor", "--json", "--apply", "--system-root"]);
    let ended = command.arg(system.root()).arg(&target).run().expect_code(3);
    let report = &ended.events[0];
    assert_eq!(finding(report, "tcp.sack")["severity"], "ok");
    assert_eq!(finding(report, "path.unmeasured")["severity"], "note");
    assert!(report["path"]["rtt_seconds"].is_null() && !report["errors"].as_array().unwrap().is_empty(), "{report}");
    assert_eq!(system.files(), before, "nothing is applied for an aim that is not known");
}

#[test]
fn an_interrupt_ends_the_runs_and_what_was_found_is_told() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "20mbit", "--rtt", "200ms"]) else { return };
    let site = Site::new();
    let run = lab.on_a(&site, "doctor").args(["--json", B]).start();
    assert!(run.wait_for_words("measuring the capacity"), "{}", run.stderr());
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(4);
    let report = &ended.events[0];
    assert!(report["path"]["rtt_seconds"].is_number() && report["path"]["capacity_bps"].is_null(), "{report}");
    assert_eq!(finding(report, "tcp.sack")["group"], "host");
}
