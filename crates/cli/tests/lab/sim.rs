//! `icdc lab sim`, from the real binary.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::support::Site;
use crate::support::process::eventually;

const PATH: [&str; 8] = ["--rate", "100mbit", "--rtt", "40ms", "--queue", "250kB", "--seconds", "20"];

fn sim(site: &Site, words: &[&str]) -> Output {
    site.icdc(&[&["lab", "sim"], PATH.as_slice(), words].concat()).output().unwrap()
}

fn summary(site: &Site, words: &[&str]) -> Value {
    let output = sim(site, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    // What it took is another time each time.
    for key in ["seconds", "packets_per_second"] {
        assert!(summary.as_object_mut().unwrap().remove(key).unwrap().is_number());
    }
    summary
}

#[test]
fn a_seed_gives_the_same_result_again() {
    let site = Site::new();
    let losing = |seed| summary(&site, &["--loss", "1e-3", "--seed", seed]);
    assert_eq!(losing("7"), losing("7"));
    assert_ne!(losing("7")["goodput_bps"], losing("8")["goodput_bps"]);
}

#[test]
fn codel_drops_long_before_the_queue_is_full() {
    let site = Site::new();
    let run = |aqm| {
        let words = ["lab", "sim", "--rate", "100mbit", "--rtt", "40ms", "--queue", "5MB", "--seconds", "20", "--json"];
        site.icdc(&[&words[..], &["--aqm", aqm]].concat()).output().unwrap()
    };
    let summary = |aqm| serde_json::from_slice::<Value>(&run(aqm).stdout).unwrap();
    let [alone, kept] = ["none", "codel"].map(summary);
    let of = |summary: &Value, key: &str| summary["a_to_b"][key].as_u64().unwrap();
    assert_eq!(of(&alone, "queue_drops_packets"), 0);
    assert!(of(&kept, "queue_drops_packets") > 0);
    let goodput = |summary: &Value| summary["goodput_bps"].as_f64().unwrap();
    assert!(goodput(&kept) > 0.7 * goodput(&alone));
    // Rarer, where it may wait for longer.
    let patient = summary("codel:50ms:500ms");
    assert!(of(&patient, "queue_drops_packets") < of(&kept, "queue_drops_packets"));
    for wrong in ["red", "codel:5ms", "codel:5ms:1ms", "codel:0ms:100ms"] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn a_report_stays_until_another_takes_its_place() {
    let site = Site::new();
    let report = site.path("report.html");
    fs::write(&report, "kept").unwrap();
    let words = ["lab", "sim", "--rate", "10gbit", "--rtt", "300ms", "--seconds", "86400", "--report"];
    let mut long = site.icdc(&words).arg(&report).spawn().unwrap();
    let descriptors = format!("/proc/{}/fd", long.id());
    let is_open = || {
        let open = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()).any(|file| file == report)
    };
    assert!(eventually(is_open), "the report was not opened");
    long.kill().unwrap();
    long.wait().unwrap();
    assert_eq!(fs::read_to_string(&report).unwrap(), "kept");
    // Longer than what comes.
    fs::write(&report, "x".repeat(10_000_000)).unwrap();
    assert!(sim(&site, &["--report", report.to_str().unwrap()]).status.success());
    let text = fs::read_to_string(&report).unwrap();
    assert!(text.trim_end().ends_with("</html>"), "nothing of the old one is left");
}

#[test]
fn the_numbers_agree() {
    let site = Site::new();
    let result = summary(&site, &["--flow", "reno", "--flow", "icdc_reno,start=5s,rtt=80ms,rate=30mbit,bytes=10MB"]);
    let flows = result["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2);
    let sum = |key: &str| flows.iter().map(|flow| flow[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(result["packets"], sum("sent_segments"));
    assert_eq!(result["a_to_b"]["offered_packets"], sum("sent_segments"));
    assert_eq!(result["a_to_b"]["queue_drops_packets"], sum("queue_drops_packets"));
    assert_eq!(result["bytes"], sum("bytes"));
    assert_eq!(result["retransmitted_segments"], sum("retransmitted_segments"));
    assert_eq!(result["simulated_seconds"], 20.0);
    assert_eq!(result["b_to_a"]["delay_seconds"], 0.02);
    let second = &flows[1];
    assert_eq!((&second["cc"], &second["rate_bps"]), (&"reno".into(), &30_000_000.into()));
    assert!(second["min_rtt_seconds"].as_f64().unwrap() >= 0.08 && second["start_seconds"] == 5.0);
    let goodput = result["goodput_bps"].as_u64().unwrap();
    assert!((70_000_000..94_200_000).contains(&goodput), "{goodput}");
}

#[test]
fn the_report_has_the_usual_plots() {
    let site = Site::new();
    let page = site.path("sim.html");
    let output = sim(&site, &["--cc", "reno,rate=50mbit", "--report", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("reno, at most 50 Mbit/s: ") && told.contains("packets per second"), "{told}");
    let html = fs::read_to_string(page).unwrap();
    for title in ["Throughput", "Queue", "Congestion window", "Round-trip time", "Pacing rate"] {
        assert!(html.contains(title), "{title}");
    }
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let site = Site::new();
    let cases: [(&[&str], &str); 9] = [
        (&["--cc", "warp"], "there is no algorithm \"warp\"; there are: "),
        (&["--cc", "warp"], "reno"),
        (&["--cc", "reno,speed=9"], "reno has no parameter speed"),
        (&["--cc", "reno,speed=fast"], "no whole number"),
        (&["--flow", "reno,rtt=10ms"], "shorter than the path's"),
        (&["--flow", "reno,start=5s,stop=4s"], "before it starts"),
        (&["--flow", "reno", "--cc", "reno"], "cannot be used with"),
        (&["--loss", "2"], "loss ratio"),
        (&["--flow", "reno,rtt=400y"], "unknown unit"),
    ];
    for (words, reason) in cases {
        let output = sim(&site, words);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
        assert!(message.contains(reason) && output.stdout.is_empty(), "{words:?}: {message}");
    }
}
