//! Round trips from the command to its exit, counted by how much longer the same copy takes over a
//! longer path.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::time::Instant;

use crate::support::calm::{holds, in_a_calm_moment, machine};
use crate::support::daemon::Daemon;
use crate::support::lab::{B, Lab};
use crate::support::{KIB, Site, Start, data};

/// Neither is so short that a sender spares itself what a long path needs.
const NEAR: &str = "4ms";
const FAR: &str = "204ms";
const DIFFERENCE: f64 = 0.2;

/// Of so many the fastest counts: what the machine does in between only adds.
const RUNS: usize = 3;

/// What docs/rate.md says ("Start-up cost").
const EXPECTED: [(&str, f64); 6] = [
    ("a file, pushed by daemon", 4.0),
    ("a tree, pushed by daemon", 5.0),
    ("a file, pulled by daemon", 5.0),
    ("a file, pushed by ssh", 4.0),
    ("a tree, pushed by ssh", 5.0),
    ("a file, pulled by ssh", 5.0),
];

#[test]
fn a_kilobyte_takes_as_many_round_trips_as_documented() {
    let _machine = machine();
    in_a_calm_moment(|| {
        let Some(near) = seconds(NEAR) else { return Ok(()) };
        let far = seconds(FAR).unwrap();
        let counted: Vec<f64> = far.iter().zip(near).map(|(far, near)| (far - near) / DIFFERENCE).collect();
        for ((way, expected), counted) in EXPECTED.iter().zip(&counted) {
            eprintln!("{way}: {counted:.2} round trips, expected {expected}");
        }
        let is_few = |((_, expected), counted): (&(_, f64), &f64)| *counted < expected + 0.7;
        holds(EXPECTED.iter().zip(&counted).all(is_few), &counted)
    });
}

/// How long copies of a kilobyte take over a path of this round-trip time. The lab's shell, which
/// stands for ssh, adds nothing to it. `None` where there cannot be a lab.
fn seconds(rtt: &str) -> Option<[f64; 6]> {
    let lab = Lab::up(&["--rate", "1gbit", "--rtt", rtt])?;
    let site = Site::new();
    data::file(&site.path("file"), KIB, 1);
    data::file(&site.directory("tree").join("file"), KIB, 2);
    let options = format!("root=\"{}\",rights=rw", site.root().display());
    let daemon = Daemon::in_lab(&lab, &site, "daemon", &options);
    let here = |name: &str| site.path(name).into_os_string();
    let by_daemon = |name: &str| OsString::from(daemon.location(name));
    let by_ssh = |name: &str| site.on_host(B, name);

    let number = Cell::new(0);
    let copy = |source: &OsString, destination: OsString| {
        let mut copy = lab.on_a(&site, "copy");
        copy.arg("--json").arg(source).arg(destination);
        let begin = Instant::now();
        copy.start().finish().expect_code(0);
        begin.elapsed().as_secs_f64()
    };
    let fastest = |source: OsString, place: &dyn Fn(&str) -> OsString| {
        let one = |_| {
            number.set(number.get() + 1);
            copy(&source, place(&format!("copy-{}", number.get())))
        };
        (0..RUNS).map(one).fold(f64::INFINITY, f64::min)
    };
    Some([
        fastest(here("file"), &by_daemon),
        fastest(here("tree"), &by_daemon),
        fastest(by_daemon("file"), &here),
        fastest(here("file"), &by_ssh),
        fastest(here("tree"), &by_ssh),
        fastest(by_ssh("file"), &here),
    ])
}

#[test]
fn the_far_end_hears_who_may_connect_before_it_has_said_a_word() {
    let site = Site::new();
    data::file(&site.path("file"), KIB, 1);
    // Starts nothing before there is something to read.
    let body = "shift\ndd bs=1 count=1 of=\"$0.first\" 2>/dev/null\ncat \"$0.first\" - | sh -c \"$*\"";
    let ssh = site.program("ssh-that-listens", body);
    site.copy(&["--ssh", &ssh]).arg(site.path("file")).arg(site.by_ssh("copied")).run().expect_code(0);
    assert_eq!(fs::read(site.path("copied")).unwrap(), fs::read(site.path("file")).unwrap());
}
