//! How the following ends.

use std::fs::{self, File};
use std::io::Write as _;

use crate::support::terminal::Terminal;
use crate::support::{Route, RoutedSite, Signal, Start, assert_same};
use crate::{await_followed, followed};

#[test]
fn it_ends_when_nothing_has_changed_for_a_while_and_a_second_run_sends_nothing() {
    let routed = RoutedSite::new(Route::Push);
    let source = routed.site.directory("source");
    for number in 0..20 {
        fs::write(source.join(format!("f{number}")), format!("{number}")).unwrap();
    }
    let options = ["--follow", "--settle", "100ms", "--idle", "500ms"];
    let ended = routed.copy(&options, &["source"], "copy").expect_code(0);
    assert_eq!(ended.number("files"), 20, "{ended}");
    assert_same(&source, &routed.path("copy/source"));
    let again = routed.copy(&options, &["source"], "copy").expect_code(0);
    assert_eq!((again.number("files"), again.number("skipped")), (0, 20), "{again}");
    assert_eq!(again.number("bytes_sent"), 0, "{again}");
}

#[test]
fn at_the_first_interrupt_what_has_settled_arrives_and_the_rest_is_named() {
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    fs::write(source.join("first"), "1").unwrap();
    let run = routed.start(&["--follow"], &["source"], "copy/");
    await_followed(&run, "source/first");
    let mut open = File::create(source.join("open")).unwrap();
    open.write_all(b"not complete").unwrap();
    fs::write(source.join("last"), "2").unwrap();
    run.signal(Signal::TERM);
    let ended = run.finish().expect_code(0);
    assert!(routed.path("copy/source/last").exists(), "it was closed: {ended}");
    assert!(!routed.path("copy/source/open").exists(), "{ended}");
    assert!(ended.stderr.contains("had not settled: source/open"), "{ended}");
}

#[test]
fn one_that_waits_for_another_ends_at_the_first_interrupt() {
    for route in [Route::Local, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        let source = routed.site.directory("source");
        fs::write(source.join("first"), "1").unwrap();
        let first = routed.start(&["--follow"], &["source"], "copy/");
        await_followed(&first, "source/first");
        let second = routed.start(&["--follow"], &["source"], "copy/");
        assert!(second.wait_for(|event| event["type"] == "running"), "{}", second.finish());
        second.signal(Signal::TERM);
        let ended = second.finish().expect_code(4);
        first.signal(Signal::TERM);
        let first = first.finish().expect_code(0);
        assert_eq!(first.number("files"), 1, "{route:?}: {first} {ended}");
    }
}

#[test]
fn an_interrupt_at_the_terminal_leaves_ssh_to_what_has_settled() {
    let routed = RoutedSite::new(Route::Push);
    let site = &routed.site;
    let source = site.directory("source");
    fs::write(source.join("first"), "1").unwrap();
    let ssh = site.ssh_without_terminal();
    let mut copy = site.copy(&["--follow", "--settle", "50ms", "--ssh", &ssh, "source/"]);
    let mut terminal = Terminal::start_in_foreground(copy.arg(site.by_ssh("copy")));
    terminal.wait_for("\"followed\"");
    for number in 0..50 {
        fs::write(source.join(format!("last{number}")), "2").unwrap();
    }
    terminal.write("\x03");
    let screen = terminal.screen();
    assert_eq!(terminal.finish().code(), Some(0), "{screen}");
    assert_same(&source, &site.path("copy"));
    assert_eq!(fs::read_to_string(site.path("logins")).unwrap(), "start\n", "{screen}");
}

#[test]
fn a_marker_that_comes_before_its_files_waits_for_them() {
    let routed = RoutedSite::new(Route::Push);
    let source = routed.site.directory("source");
    fs::write(source.join("first"), "1").unwrap();
    let run = routed.start(&["--follow", "--settle", "100ms", "--final", "/shot.done"], &["source/"], "copy");
    await_followed(&run, "source/first");
    let mut late = File::create(source.join("late")).unwrap();
    late.write_all(b"begun").unwrap();
    fs::write(source.join("shot.done"), "").unwrap();
    // What is closed later than the marker would follow it, if that did not wait.
    fs::write(source.join("next"), "2").unwrap();
    await_followed(&run, "source/next");
    assert!(!routed.path("copy/shot.done").exists());
    late.write_all(b" and complete").unwrap();
    drop(late);
    let ended = run.finish().expect_code(0);
    let paths = followed(&ended.events);
    assert_eq!(paths.last().map(String::as_str), Some("source/shot.done"), "{ended}");
    assert_same(&source, &routed.path("copy"));
}

#[test]
fn it_ends_at_a_time_and_what_cannot_be_followed_is_told() {
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    fs::write(source.join("file"), "1").unwrap();
    let ended = routed.copy(&["--follow", "--settle", "10ms", "--until", "1s"], &["source"], "copy/").expect_code(0);
    assert_eq!(ended.number("files"), 1, "{ended}");
    let refused = routed.copy(&["--follow"], &["source/file"], "copy/").expect_code(2);
    assert!(refused.stderr.contains("--follow follows directories"), "{refused}");
    for option in ["--delete", "--snapshot", "--dry-run"] {
        let refused = routed.copy(&["--follow", option], &["source"], "copy/").expect_code(2);
        assert!(refused.stderr.contains(option), "{refused}");
    }
    let stream = routed.site.copy(&["--follow", "-"]).arg(routed.path("copy")).run().expect_code(2);
    assert!(stream.stderr.contains("--follow"), "{stream}");
    let refused = routed.copy(&["--idle", "1s"], &["source"], "copy/").expect_code(2);
    assert!(refused.stderr.contains("--follow"), "{refused}");
}

#[test]
fn the_directory_that_is_followed_may_not_go() {
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    fs::write(source.join("file"), "1").unwrap();
    let run = routed.start(&["--follow", "--settle", "10ms"], &["source"], "copy/");
    await_followed(&run, "source/file");
    fs::remove_dir_all(&source).unwrap();
    let ended = run.finish().expect_code(1);
    assert!(ended.stderr.contains("was removed while it was followed"), "{ended}");
}
