//! `icdc copy --metrics`: what the file tells while a copy runs and after it has ended.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::process::eventually;
use crate::support::{Signal, Site, Start};

/// The value of a sample of the only copy of a file; `None` if it is not there.
fn value(file: &Path, metric: &str, label: &str) -> Option<f64> {
    let text = std::fs::read_to_string(file).unwrap();
    let labels = if label.is_empty() { "copy=\"night\"".to_owned() } else { format!("copy=\"night\",{label}") };
    let start = format!("{metric}{{{labels}}} ");
    text.lines().find_map(|line| line.strip_prefix(&start)).map(|value| value.parse().unwrap())
}

fn result(file: &Path) -> Vec<&'static str> {
    let results = ["running", "complete", "incomplete", "failed", "unusable", "unreachable", "interrupted"];
    let is_one = |result: &&str| value(file, "icdc_copy_result", &format!("result=\"{result}\"")) == Some(1.0);
    results.into_iter().filter(is_one).collect()
}

const LAST_SUCCESS: &str = "icdc_copy_last_success_timestamp_seconds";

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// A site with a source of so many bytes, and the file that its metrics go to.
fn site(bytes: usize) -> (Site, PathBuf) {
    let site = Site::new();
    std::fs::write(site.path("source"), vec![5; bytes]).unwrap();
    let file = site.path("night.prom");
    (site, file)
}

#[test]
fn the_file_agrees_with_the_summary() {
    let (site, file) = site(9 << 20);
    let words = ["--ssh", &site.ssh(), "--metrics", "night.prom", "source"];
    let begun = now();
    let ended = site.copy(&words).arg(site.by_ssh("copied")).run().expect_code(0);
    let number = |metric: &str| value(&file, metric, "").unwrap();
    for (metric, key) in [
        ("icdc_copy_sent_bytes_total", "bytes_sent"),
        ("icdc_copy_retransmitted_segments_total", "retransmitted_segments"),
        ("icdc_copy_errors_total", "errors"),
        ("icdc_copy_resumed_bytes_total", "resumed_bytes"),
        ("icdc_copy_unchanged_bytes_total", "unchanged_bytes"),
    ] {
        assert_eq!(number(metric), ended.number(key) as f64, "{metric}");
    }
    assert_eq!(value(&file, "icdc_copy_files_total", "outcome=\"copied\""), Some(1.0));
    assert_eq!((number("icdc_copy_source_files"), number("icdc_copy_source_bytes")), (1.0, f64::from(9 << 20)));
    let summary = ended.summary();
    assert_eq!(number("icdc_copy_duration_seconds"), summary["seconds"].as_f64().unwrap());
    assert_eq!(number("icdc_copy_goodput_bytes_per_second") * 8.0, ended.number("goodput_bps") as f64);
    let stages: Vec<&str> = summary["limited_by"].as_object().unwrap().keys().map(String::as_str).collect();
    let limited = |stage: &str| value(&file, "icdc_copy_limited_seconds_total", &format!("stage=\"{stage}\"")).unwrap();
    let all: f64 = stages.iter().map(|stage| limited(stage)).sum();
    assert!(all > 0.0 && all <= number("icdc_copy_duration_seconds") + 1e-6, "{all}");
    assert_eq!(result(&file), ["complete"]);
    let last = number(LAST_SUCCESS);
    assert!(last >= begun.floor() && last <= now() && last >= number("icdc_copy_start_timestamp_seconds"), "{last}");
}

#[test]
fn a_run_that_fails_says_so_and_keeps_the_time_of_the_last_success() {
    let (site, file) = site(1000);
    let metrics = ["--metrics", "night.prom"];
    site.copy(&[&metrics[..], &["source", "copied"]].concat()).run().expect_code(0);
    let success = value(&file, LAST_SUCCESS, "").unwrap();
    // A link whose place is taken by a directory: this item fails, the rest arrives.
    std::fs::create_dir_all(site.path("tree")).unwrap();
    std::fs::write(site.path("tree/one"), "1").unwrap();
    std::fs::write(site.path("tree/two"), "2").unwrap();
    std::fs::create_dir_all(site.path("there/tree/two/full")).unwrap();
    site.copy(&[&metrics[..], &["tree", "there/"]].concat()).run().expect_code(1);
    assert_eq!(result(&file), ["incomplete"]);
    assert_eq!(value(&file, "icdc_copy_errors_total", ""), Some(1.0));
    assert_eq!(value(&file, "icdc_copy_files_total", "outcome=\"copied\""), Some(1.0));
    assert_eq!(value(&file, LAST_SUCCESS, ""), Some(success));
    let nobody = site.program("nobody", "exit 255");
    site.copy(&[&metrics[..], &["--ssh", &nobody, "source", "host:"]].concat()).run().expect_code(3);
    assert_eq!((result(&file), value(&file, LAST_SUCCESS, "")), (vec!["unreachable"], Some(success)));
    // A time that is none, or still to come, is not believed.
    let text = std::fs::read_to_string(&file).unwrap();
    for wrong in ["soon", "NaN", "-5", "99999999999"] {
        let line = format!("{LAST_SUCCESS}{{copy=\"night\"}} ");
        let changed = text.replace(&format!("{line}{success}"), &format!("{line}{wrong}"));
        let changed = changed.replace(&format!("{line}{success}.0"), &format!("{line}{wrong}"));
        std::fs::write(&file, changed).unwrap();
        site.copy(&[&metrics[..], &["--ssh", &nobody, "source", "host:"]].concat()).run().expect_code(3);
        assert_eq!(value(&file, LAST_SUCCESS, ""), None, "{wrong}");
    }
}

#[test]
fn the_file_follows_a_copy_while_it_runs() {
    // Minutes at this rate: it runs until it is interrupted.
    let (site, file) = site(64 << 20);
    let words =
        ["--metrics", "night.prom", "--metrics-interval", "50ms", "--ssh", &site.ssh(), "--rate", "4mbit", "source"];
    let run = site.copy(&words).arg(site.by_ssh("copied")).start();
    let sent = || value(&file, "icdc_copy_sent_bytes_total", "").unwrap();
    assert!(eventually(|| file.exists() && sent() > 0.0), "{}", run.stderr());
    assert_eq!(result(&file), ["running"]);
    assert_eq!(value(&file, LAST_SUCCESS, ""), None);
    let before = sent();
    assert!(eventually(|| sent() > before), "{}", run.stderr());
    assert!(eventually(|| value(&file, "icdc_copy_round_trip_time_seconds", "").is_some()));
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    assert_eq!((result(&file), value(&file, "icdc_copy_rate_bytes_per_second", "")), (vec!["interrupted"], Some(0.0)));
    let beside: Vec<_> = std::fs::read_dir(site.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!beside.iter().any(|name| name.to_string_lossy().ends_with(".new")), "{beside:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_copied() {
    let (site, _) = site(1000);
    let ended = site.copy(&["--metrics", "none/night.prom", "source", "copied"]).run().expect_code(2);
    assert!(ended.stderr.contains("--metrics: none/night.prom: the metrics cannot be written"), "{ended}");
    assert!(!site.path("copied").exists());
    let ended = site.copy(&["--metrics", "night.prom", "--dry-run", "source", "copied"]).run().expect_code(2);
    assert!(ended.stderr.contains("cannot be used with"), "{ended}");
}
