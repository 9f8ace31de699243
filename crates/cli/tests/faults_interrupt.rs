//! SIGINT and SIGTERM: exit code 4, a word on how to go on, and nothing that has arrived travels again.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use rustix::process::kill_process;

use support::{Ended, MIB, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data};

const SIZE: u64 = 48 * MIB + 77;
const BREAK: u64 = 16 * MIB;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Push,
    Pull,
}

/// Whom the signal hits.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Near,
    Far,
}

fn words(site: &Site, way: Way) -> [std::ffi::OsString; 2] {
    match way {
        Way::Push => [site.path("source").into(), site.by_ssh("copy")],
        Way::Pull => [site.by_ssh("source"), site.path("copy").into()],
    }
}

fn interrupted(site: &Site, way: Way, side: Side, signal: Signal) -> Ended {
    let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh()]).args(words(site, way)).start();
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    match side {
        Side::Near => run.signal(signal),
        Side::Far => kill_process(run.far_end().unwrap(), signal).unwrap(),
    }
    let ended = run.finish().expect_code(4);
    assert!(ended.stderr.contains("same command"), "{ended}");
    assert!(!site.path("copy").exists(), "a file appeared before it was complete");
    ended
}

/// Interrupts a copy of one file, runs the same command again, and looks at what travelled.
fn resumes(way: Way, side: Side, signal: Signal) {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 30);
    let first = interrupted(&site, way, side, signal);
    let second = site.copy(&["--ssh", &site.ssh()]).args(words(&site, way)).run().expect_code(0);
    assert_same(&site.path("source"), &site.path("copy"));
    assert_no_leftovers(site.root());
    let (arrived, resumed) = (first.bytes_done(), second.resumed());
    assert!(
        arrived >= BREAK && resumed >= arrived,
        "{arrived} bytes had arrived, {resumed} were left\n{first}\n{second}"
    );
    assert_eq!(second.number("bytes_sent"), SIZE - resumed, "{second}");
}

#[test]
fn sigint_of_a_push() {
    resumes(Way::Push, Side::Near, Signal::INT);
}

#[test]
fn sigterm_of_a_push() {
    resumes(Way::Push, Side::Near, Signal::TERM);
}

#[test]
fn sigint_of_a_pull() {
    resumes(Way::Pull, Side::Near, Signal::INT);
}

#[test]
fn sigterm_at_the_far_side_of_a_push() {
    resumes(Way::Push, Side::Far, Signal::TERM);
}

#[test]
fn sigterm_at_the_far_side_of_a_pull() {
    resumes(Way::Pull, Side::Far, Signal::TERM);
}

#[test]
fn a_tree_goes_on_with_what_is_missing() {
    let site = Site::new();
    let shape = Shape { small: 600, large: vec![24 * MIB, 12 * MIB], ..Shape::default() };
    let source = data::tree(&site.path("source"), 31, &shape);
    let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh()]).args(words(&site, Way::Push)).start();
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    run.signal(Signal::INT);
    let first = run.finish().expect_code(4);
    let second = site.copy(&["--ssh", &site.ssh()]).args(words(&site, Way::Push)).run().expect_code(0);
    assert_same(&source, &site.path("copy"));
    assert_no_leftovers(site.root());
    let (arrived, resumed) = (first.bytes_done(), second.resumed());
    assert!(resumed >= arrived, "{arrived} bytes had arrived, {resumed} were left\n{first}\n{second}");
    assert!(second.number("bytes_sent") + resumed <= data::size(&source), "{second}");
}

#[test]
fn a_second_signal_ends_at_once_and_nothing_durable_is_lost() {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 32);
    let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh()]).args(words(&site, Way::Push)).start();
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    run.signal(Signal::INT);
    assert!(run.wait_for_words("stop at once"), "{}", run.finish());
    // It may have ended by the first one.
    let _ = kill_process(run.pid(), Signal::INT);
    run.finish().expect_code(4);
    let second = site.copy(&["--ssh", &site.ssh()]).args(words(&site, Way::Push)).run().expect_code(0);
    assert_same(&site.path("source"), &site.path("copy"));
    assert_no_leftovers(site.root());
    assert!(second.resumed() >= BREAK, "{second}");
}
