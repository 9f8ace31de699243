//! `icdc copy` as people and scripts see it: output, exit codes, signals, report.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::ICDC;

/// Takes several seconds at [`SLOW`], so that there is time to interrupt it.
const LARGE: usize = 24 << 20;
const SLOW: &str = "--rate=32mbit";

/// A directory with something to copy, which is also the home.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("run")).unwrap();
        fs::write(place.path("run/one"), "one").unwrap();
        fs::write(place.path("run/two"), vec![2_u8; 5_000_000]).unwrap();
        let script = "#!/bin/sh\nshift\nexec sh -c \"$*\"\n";
        fs::write(place.path("reach"), script).unwrap();
        fs::set_permissions(place.path("reach"), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn large(&self) -> Vec<u8> {
        let data: Vec<u8> = (0..LARGE).map(|index| (index / 7 % 251) as u8).collect();
        fs::write(self.path("large"), &data).unwrap();
        data
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(ICDC);
        command.args(words).current_dir(self.0.path()).env("HOME", self.0.path()).env_remove("XDG_CONFIG_HOME");
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Starts a copy of `large` by a stand-in for ssh and waits until blocks are on their way.
    fn start_slow_copy(&self) -> Child {
        let reach = format!("--ssh={}", self.path("reach").display());
        let remote = format!("--remote-icdc={ICDC}");
        let destination = format!("127.0.0.1:{}", self.path("arrived").display());
        let words = ["copy", "--json", SLOW, "--compress=never", &reach, &remote, "large", &destination];
        let mut child = self.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while output.read_line(&mut line).unwrap() > 0 {
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["bytes_done"].as_u64().is_some_and(|bytes| bytes >= 8 << 20) {
                child.stdout = Some(output.into_inner());
                return child;
            }
            line.clear();
        }
        let output = child.wait_with_output().unwrap();
        panic!("ended too early: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn events(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn signal(child: &Child, number: i32) {
    let status = Command::new("kill").arg(format!("-{number}")).arg(child.id().to_string()).status().unwrap();
    assert!(status.success());
}

fn digest_of(path: &Path) -> String {
    blake3::hash(&fs::read(path).unwrap()).to_hex().to_string()
}

#[test]
fn a_run_is_summed_up_in_a_line_and_nothing_else_is_said() {
    let place = Place::new();
    let output = place.run(&["copy", "run", "copy"]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let told = text(&output.stdout);
    let time = told.strip_prefix("2 files, 5MB in ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    // The rate of a moment would tell nothing.
    let is_brief = time.parse::<f64>().unwrap() < 1.0;
    assert!(told.contains("Mbit/s") != is_brief && told.contains("limited by") != is_brief, "{told}");
    assert_eq!(told.lines().count(), 1);
    assert_eq!(digest_of(&place.path("copy/two")), digest_of(&place.path("run/two")));
}

#[test]
fn one_file_shows_its_digest() {
    let place = Place::new();
    let output = place.run(&["copy", "run/two", "copy"]);
    let digest = digest_of(&place.path("run/two"));
    assert_eq!(text(&output.stdout).lines().nth(1), Some(format!("BLAKE3 {digest}").as_str()));
}

#[test]
fn json_is_one_event_per_line_and_ends_with_the_summary() {
    let place = Place::new();
    let output = place.run(&["copy", "--json", "--verify", "run/two", "copy"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let events = events(&output);
    assert_eq!(events[0]["type"], "started");
    assert!(events.iter().all(|event| event["type"].is_string()));
    assert!(events.iter().any(|event| event["type"] == "item" && event["path"] == "two"));
    let summary = events.last().unwrap();
    assert_eq!(summary["type"], "summary");
    assert_eq!((&summary["files"], &summary["bytes"], &summary["errors"]), (&1.into(), &5_000_000.into(), &0.into()));
    assert_eq!(summary["verified"], true);
    assert_eq!(summary["digest"].as_str().unwrap(), digest_of(&place.path("run/two")));
    for key in ["bytes_sent", "goodput_bps", "retransmitted_segments"] {
        assert!(summary[key].is_u64(), "{key}: {summary}");
    }
    let shares: f64 = summary["limited_by"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!(summary["seconds"].as_f64().unwrap() > 0.0 && shares < 1.001, "{summary}");
    assert_eq!(events.iter().filter(|event| event["type"] == "summary").count(), 1);
}

#[test]
fn what_fails_is_named_and_does_not_end_the_run() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path("run/pipe")).status().unwrap().success());
    let output = place.run(&["copy", "--report", "r.html", "run", "copy"]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.starts_with("icdc: ") && message.contains("run/pipe"), "{message}");
    assert!(text(&output.stdout).contains("1 item FAILED"));
    assert!(place.path("copy/two").exists() && !place.path("copy/pipe").exists());
    let report = fs::read_to_string(place.path("r.html")).unwrap();
    assert!(report.contains("1 item failed") && report.contains("run/pipe"));
}

#[test]
fn a_dry_run_only_tells() {
    let place = Place::new();
    let output = place.run(&["copy", "--dry-run", "run", "copy"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("5MB  run/two") && told.contains("5MB would be sent"), "{told}");
    assert!(!place.path("copy").exists());
    // Where it fails, nothing is known of what would be sent.
    let output = place.run(&["copy", "--dry-run", "nothing", "copy"]);
    assert!(!output.status.success());
    assert!(!text(&output.stdout).contains("would be sent"), "{}", text(&output.stdout));
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_copy() {
    let place = Place::new();
    let mut child = place
        .command(&["copy", "--json", "run", "copy"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert!(place.path("copy/two").exists());
}

#[test]
fn results_that_cannot_be_written_are_a_failure() {
    let place = Place::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.command(&["copy", "run", "copy"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("standard output"));
    assert!(place.path("copy/two").exists());
}

#[test]
fn the_report_is_a_page_with_plots() {
    let place = Place::new();
    let output = place.run(&["copy", "--report", "r.html", "run", "copy"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = fs::read_to_string(place.path("r.html")).unwrap();
    for words in ["<!doctype html>", "<svg", "Goodput", "Mbit/s", "copy --report r.html run copy"] {
        assert!(page.contains(words), "{words:?} is missing");
    }
    assert!(!page.contains("https:"));
}

#[test]
fn progress_can_be_had_without_a_terminal() {
    let place = Place::new();
    let output = place.run(&["copy", "--progress", "always", "run", "copy"]);
    let shown = text(&output.stderr);
    assert!(shown.contains('%') && shown.contains("Mbit/s") && shown.contains("limited by"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn verbose_names_every_item() {
    let place = Place::new();
    let output = place.run(&["copy", "-v", "run", "copy"]);
    let shown = text(&output.stderr);
    assert!(shown.contains("icdc: copied run/one (3B)"), "{shown}");
}

#[test]
fn nobody_there_is_exit_code_3() {
    let place = Place::new();
    let output = place.run(&["copy", "--ssh", "false", "run", "nowhere:"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nowhere"));
    assert!(output.stdout.is_empty(), "there is nothing to sum up");
    assert!(place.run(&["keygen"]).status.success());
    let output = place.run(&["copy", "--json", "run", "icdc://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let events = events(&output);
    let failed = &events[events.len() - 2];
    assert_eq!((&failed["type"], &failed["exit_code"]), (&"failed".into(), &3.into()));
    assert_eq!(events.last().unwrap()["type"], "summary");
    assert_ne!(events.last().unwrap()["errors"], 0);
}

#[test]
fn an_interrupt_stops_cleanly_and_the_same_command_goes_on() {
    let place = Place::new();
    let data = place.large();
    let child = place.start_slow_copy();
    signal(&child, 2);
    let output = child.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(message.contains("icdc: stopping") && message.contains("same command"), "{message}");
    assert_eq!(events_after_interruption(&output).last().unwrap()["type"], "summary");
    assert!(!place.path("arrived").exists());

    let reach = format!("--ssh={}", place.path("reach").display());
    let remote = format!("--remote-icdc={ICDC}");
    let destination = format!("127.0.0.1:{}", place.path("arrived").display());
    let output = place.run(&["copy", "--json", &reach, &remote, "large", &destination]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = events(&output).pop().unwrap();
    assert_ne!(summary["resumed_bytes"], 0, "{summary}");
    assert!(summary["bytes_sent"].as_u64().unwrap() < LARGE as u64, "{summary}");
    assert!(fs::read(place.path("arrived")).unwrap() == data, "the file differs");
}

/// The first lines were read while the copy ran, and the first of these may begin in the middle.
fn events_after_interruption(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new();
    place.large();
    let mut child = place.start_slow_copy();
    signal(&child, 15);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("stopping"), "{line}");
    // It may have stopped cleanly by now, which is the same exit code.
    let _ = Command::new("kill").arg("-15").arg(child.id().to_string()).stderr(Stdio::null()).status();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("panicked"), "{rest}");
}

#[test]
fn a_daemon_says_what_it_lacks() {
    let place = Place::new();
    let output = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("icdc keygen"), "{}", text(&output.stderr));
}

#[test]
fn a_daemon_lets_in_whom_it_knows_and_stops_at_a_signal() {
    let place = Place::new();
    assert!(place.run(&["keygen"]).status.success());
    let public = fs::read_to_string(place.path(".config/icdc/identity.pub")).unwrap();
    fs::create_dir(place.path("root")).unwrap();
    let user = if rustix::process::geteuid().is_root() { ",user=root" } else { "" };
    let grant = format!("root={},rights=rw{user} {public}", place.path("root").display());
    let list = place.path(".config/icdc/authorized_keys");
    fs::write(&list, grant).unwrap();
    fs::set_permissions(&list, fs::Permissions::from_mode(0o600)).unwrap();
    let mut daemon = place
        .command(&["serve", "--listen", "127.0.0.1:0"])
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(daemon.stderr.take().unwrap());
    let mut line = String::new();
    let port = loop {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the daemon ended before it listened");
        if let Some((_, rest)) = line.split_once("127.0.0.1:") {
            break rest.chars().take_while(char::is_ascii_digit).collect::<String>();
        }
    };
    let key = public.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let url = format!("icdc://127.0.0.1:{port}/in/");

    let stranger = place.run(&["copy", "run", &url]);
    assert_eq!(stranger.status.code(), Some(3), "an unknown daemon was trusted");
    assert!(place.run(&["keygen", "--trust", &format!("127.0.0.1:{port}"), &key]).status.success());
    let output = place.run(&["copy", "run", &url]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(digest_of(&place.path("root/in/run/two")), digest_of(&place.path("run/two")));

    signal(&daemon, 15);
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
}
