//! SIGINT and SIGTERM: exit code 4, a word on how to go on, and nothing that has arrived travels again.

use std::fs;

use rustix::process::kill_process;

use crate::support::terminal::Terminal;
use crate::support::{BLOCK, Ended, MIB, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data};

const SIZE: u64 = 48 * MIB + 77;
const BREAK: u64 = 16 * MIB;
/// What buffers of sockets hold at the rate of these tests.
const ON_ITS_WAY: u64 = 16 * MIB;

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Push,
    Pull,
}

fn words(site: &Site, direction: Direction) -> [std::ffi::OsString; 2] {
    match direction {
        Direction::Push => [site.path("source").into(), site.by_ssh("copy")],
        Direction::Pull => [site.by_ssh("source"), site.path("copy").into()],
    }
}

fn interrupted(site: &Site, direction: Direction, signal: Signal) -> Ended {
    let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh()]).args(words(site, direction)).start();
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    run.signal(signal);
    let ended = run.finish().expect_code(4);
    assert!(ended.stderr.contains("same command"), "{ended}");
    assert!(!site.path("copy").exists(), "a file appeared before it was complete");
    ended
}

/// Interrupts a copy of one file, runs the same command again, and looks at what travelled.
fn resumes(direction: Direction, signal: Signal) {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 30);
    let first = interrupted(&site, direction, signal);
    let second = site.copy(&["--ssh", &site.ssh()]).args(words(&site, direction)).run().expect_code(0);
    assert_same(&site.path("source"), &site.path("copy"));
    assert_no_leftovers(site.root());
    let (arrived, resumed) = (first.bytes_done(), second.resumed());
    // What is complete is kept; of the block that was under way, nothing.
    assert!(
        arrived >= BREAK && resumed + BLOCK > arrived,
        "{arrived} bytes had arrived, {resumed} were left\n{first}\n{second}"
    );
    assert_eq!(second.number("bytes_sent"), SIZE - resumed, "{second}");
}

#[test]
fn an_interrupt_at_the_terminal_leaves_ssh_to_what_is_to_become_durable() {
    for direction in [Direction::Push, Direction::Pull] {
        let site = Site::new();
        data::file(&site.path("source"), SIZE, 30);
        let mut copy = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh_without_terminal()]);
        let mut terminal = Terminal::start_in_foreground(copy.args(words(&site, direction)));
        terminal.wait_for("\"progress\"");
        terminal.write("\x03");
        assert_eq!(terminal.finish().code(), Some(4));
        assert_eq!(fs::read_to_string(site.path("logins")).unwrap(), "start\n");
    }
}

#[test]
fn sigint_of_a_push() {
    resumes(Direction::Push, Signal::INT);
}

#[test]
fn sigterm_of_a_push() {
    resumes(Direction::Push, Signal::TERM);
}

#[test]
fn sigint_of_a_pull() {
    resumes(Direction::Pull, Signal::INT);
}

/// The far side is told to stop; the near one starts it again, and only what was on its way travels twice.
fn far_side_stopped(direction: Direction) {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 33);
    let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh()]).args(words(&site, direction)).start();
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    kill_process(run.far_end().unwrap(), Signal::TERM).unwrap();
    let ended = run.finish().expect_code(0);
    assert!(ended.all("reconnecting").next().is_some(), "{ended}");
    assert!(ended.stderr.contains("icdc: connected again\n"), "{ended}");
    assert_same(&site.path("source"), &site.path("copy"));
    assert_no_leftovers(site.root());
    assert!(ended.number("bytes_sent") <= SIZE + ON_ITS_WAY, "{ended}");
}

#[test]
fn the_far_side_of_a_push_is_stopped() {
    far_side_stopped(Direction::Push);
}

#[test]
fn the_far_side_of_a_pull_is_stopped() {
    far_side_stopped(Direction::Pull);
}

#[test]
fn a_tree_goes_on_with_what_is_missing() {
    let site = Site::new();
    let shape = Shape { small: 600, large: vec![24 * MIB, 12 * MIB], ..Shape::default() };
    let source = data::tree(&site.path("source"), 31, &shape);
    let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh()]).args(words(&site, Direction::Push)).start();
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    run.signal(Signal::INT);
    let first = run.finish().expect_code(4);
    let second = site.copy(&["--ssh", &site.ssh()]).args(words(&site, Direction::Push)).run().expect_code(0);
    assert_same(&source, &site.path("copy"));
    assert_no_leftovers(site.root());
    let (arrived, resumed) = (first.bytes_done(), second.resumed());
    assert!(resumed + BLOCK > arrived, "{arrived} bytes had arrived, {resumed} were left\n{first}\n{second}");
    assert!(second.number("bytes_sent") + resumed <= data::size(&source), "{second}");
}

#[test]
fn what_an_earlier_run_left_goes_without_a_trace() {
    let site = Site::new();
    let inner = site.directory("source/inner");
    let large = data::file(&inner.join("large"), SIZE, 34);
    data::file(&inner.join("small"), 100, 35);
    let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh()]).args(words(&site, Direction::Push)).start();
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    fs::remove_file(large).unwrap();
    data::age(&inner, 1_000_000_000, 1);
    site.copy(&["--ssh", &site.ssh()]).args(words(&site, Direction::Push)).run().expect_code(0);
    assert_same(&site.path("source"), &site.path("copy"));
    assert_no_leftovers(site.root());
}

#[test]
fn a_second_signal_ends_at_once_and_nothing_durable_is_lost() {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 32);
    let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh()]).args(words(&site, Direction::Push)).start();
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    run.signal(Signal::INT);
    assert!(run.wait_for_words("stop at once"), "{}", run.finish());
    // It may have ended by the first one.
    let _ = kill_process(run.pid(), Signal::INT);
    run.finish().expect_code(4);
    let second = site.copy(&["--ssh", &site.ssh()]).args(words(&site, Direction::Push)).run().expect_code(0);
    assert_same(&site.path("source"), &site.path("copy"));
    assert_no_leftovers(site.root());
    assert!(second.resumed() >= BREAK, "{second}");
}

#[test]
fn an_interrupted_copy_over_several_connections_has_lost_none_of_them() {
    for direction in [Direction::Push, Direction::Pull] {
        let site = Site::new();
        data::file(&site.path("source"), SIZE, 32);
        let options = ["--streams", "4", "--cc", "cubic", "--rate", "160mbit", "--ssh", &site.ssh()];
        let run = site.copy(&options).args(words(&site, direction)).start();
        assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
        run.signal(Signal::INT);
        let ended = run.finish().expect_code(4);
        let mut notices = ended.all("notice").filter_map(|event| event["text"].as_str());
        assert!(!notices.any(|text| text.contains("the others carry the rest")), "{ended}");
    }
}
