//! Failures say the place and the reason, each once.

use std::fs;
use std::process::Command;

use crate::support::lab::Lab;
use crate::support::{Site, succeed};

/// Asserts that `command` fails and tells `place` once and why, as the system says it, once.
fn fails(command: &mut Command, place: &str) {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{command:?}");
    assert_eq!(told.matches(place).count(), 1, "{command:?}: {told}");
    assert_eq!(told.matches("(os error ").count(), 1, "{command:?}: {told}");
}

#[test]
fn where_and_why_are_told_once() {
    let site = Site::new();
    fs::write(site.path("file"), "no directory").unwrap();
    succeed(&mut site.icdc(&["keygen", "--identity", "identity"]));
    fs::write(site.path("keys"), "").unwrap();
    let daemon = ["serve", "--identity", "identity", "--authorized-keys", "keys"];
    let cases: &[(&[&str], &str)] = &[
        (&["keygen", "--identity", "file/identity"], "file"),
        (&["keygen", "--trust", "host", "--known-hosts", "file/hosts", KEY], "file/hosts"),
        (&["serve", "--identity", "file/identity"], "file/identity"),
        (&["serve", "--identity", "identity", "--authorized-keys", "file/keys"], "file/keys"),
        (&["generate", "man", "file/pages"], "file/pages"),
        (&["copy", "--report", "file/report.html", "file", "there"], "file/report.html"),
        (&["measure", "--report", "file/report.html", "127.0.0.1"], "file/report.html"),
        (&["lab", "run", "--out", "file/record", "startup"], "file/record"),
    ];
    for (words, place) in cases {
        fails(&mut site.icdc(words), place);
    }
    fails(site.icdc(&daemon).args(["--root", "file/root"]), "file/root");
    let run = ["lab", "run", "--patience", "1s", "--out", "record", "startup"];
    for words in [&["lab", "up"] as &[_], &["lab", "down", "--all"], &run] {
        fails(site.icdc(words).env("ICDC_LABS", site.path("file/labs")), "file/labs");
    }
}

#[test]
fn a_report_that_cannot_be_written_says_where_and_why() {
    let Some(lab) = Lab::up(&[]) else { return };
    let site = Site::new();
    fs::write(site.path("file"), "no directory").unwrap();
    fails(site.icdc(&["lab", "report", "--name", &lab.name]).arg("file/path.csv"), "file/path.csv");
}

const KEY: &str = "icdc-ed25519 kJta3VjPVJb8VnskfSw8mBirg9yXb9+aHrAZtVyynnI=";
