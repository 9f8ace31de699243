//! `--to`: one copy to each of several destinations.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::daemon::{Daemon, free_port, location};
use crate::support::process::{descendants, eventually, is_running};
use crate::support::{Ended, MIB, Run, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, bytes_done, data};

/// Slow enough that a copy of 24 MiB is still running when it is stopped.
const RATE: &str = "40mbit";

/// A tree, and the daemon that it goes to besides a directory of this host.
struct Scene {
    site: Site,
    daemon: Daemon,
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        let root = site.directory("root");
        data::tree(&site.path("tree"), 1, &Shape::default());
        data::file(&site.path("tree/large"), 24 * MIB, 2);
        let daemon = Daemon::start(&site, &root, "rw");
        Self { site, daemon }
    }

    /// `--to` with each destination.
    fn destinations(&self) -> [String; 4] {
        let here = self.site.path("here").to_str().unwrap().to_owned();
        ["--to".to_owned(), self.daemon.location("there"), "--to".to_owned(), here]
    }

    fn start(&self, options: &[&str]) -> Run {
        self.site.copy(options).args(self.destinations()).arg("tree/").start()
    }

    fn copies(&self) -> [PathBuf; 2] {
        [self.site.path("root/there"), self.site.path("here")]
    }

    fn assert_complete(&self) {
        for copy in self.copies() {
            assert_same(&self.site.path("tree"), &copy);
            assert_no_leftovers(&copy);
        }
    }
}

fn destination(event: &Value) -> &str {
    event["destination"].as_str().unwrap_or_else(|| panic!("no destination: {event}"))
}

/// Summaries by their destinations.
fn summaries(ended: &Ended) -> Vec<(&str, &Value)> {
    let mut found: Vec<_> = ended.all("summary").map(|event| (destination(event), event)).collect();
    found.sort_by_key(|(destination, _)| *destination);
    found
}

#[test]
fn each_destination_gets_a_copy_and_each_event_has_its_destination() {
    let scene = Scene::new();
    let ended = scene.start(&[]).finish().expect_code(0);
    scene.assert_complete();
    let [_, there, _, here] = scene.destinations();
    let places: BTreeSet<&str> = ended.events.iter().map(destination).collect();
    assert_eq!(places, BTreeSet::from([there.as_str(), here.as_str()]));
    let summaries = summaries(&ended);
    assert_eq!(summaries.len(), 2, "{ended}");
    assert!(summaries.iter().all(|(_, summary)| summary["files"] == summaries[0].1["files"]), "{ended}");
    assert_eq!(ended.all("started").count(), 2, "{ended}");
}

#[test]
fn people_see_of_which_destination_each_line_is() {
    let scene = Scene::new();
    let words = [&["copy", "--progress", "always"][..], &["tree/"]].concat();
    let ended = scene.site.icdc(&words).args(scene.destinations()).run().expect_code(0);
    let [_, there, _, here] = scene.destinations();
    let lines: Vec<&str> = ended.text.lines().chain(ended.stderr.lines()).collect();
    let is_of = |line: &&str, place: &str| line.trim_start_matches("icdc: ").starts_with(place);
    for place in [&there, &here] {
        assert!(ended.text.lines().any(|line| is_of(&line, place) && line.contains("files")), "{place}: {ended}");
    }
    assert!(lines.iter().all(|line| is_of(line, &there) || is_of(line, &here)), "{ended}");
}

#[test]
fn one_that_fails_does_not_keep_the_others() {
    let scene = Scene::new();
    let gone = location(free_port(), "there");
    scene.daemon.trust(&scene.site, gone.split(['/', ':']).find_map(|part| part.parse().ok()).unwrap());
    let here = scene.site.path("here");
    let mut command = scene.site.copy(&["--retry-for", "1s", "--to", &gone, "--to"]);
    let ended = command.arg(&here).arg("tree/").run().expect_code(3);
    assert_same(&scene.site.path("tree"), &here);
    let summaries = summaries(&ended);
    assert!(summaries.len() == 2 && summaries.iter().any(|(to, _)| *to == gone), "{ended}");
    assert!(ended.stderr.contains(&gone), "{ended}");
}

#[test]
fn a_stop_reaches_all_and_the_same_command_completes_them() {
    // A shell and its terminal both send the last one.
    for signals in [&[Signal::INT][..], &[Signal::TERM], &[Signal::HUP, Signal::HUP]] {
        let scene = Scene::new();
        let run = scene.start(&["--rate", RATE]);
        assert!(run.wait_for(|event| bytes_done(event) > MIB), "{}", run.finish());
        for signal in signals {
            run.signal(*signal);
            assert!(run.wait_for_words("stopping"), "{}", run.finish());
        }
        let ended = run.finish().expect_code(4);
        assert_eq!(summaries(&ended).len(), 2, "{ended}");
        let again = scene.start(&[]).finish().expect_code(0);
        assert!(again.resumed() > 0, "{again}");
        scene.assert_complete();
    }
}

#[test]
fn no_copy_outlives_a_command_that_is_killed() {
    let scene = Scene::new();
    let run = scene.start(&["--rate", RATE]);
    assert!(run.wait_for(|event| bytes_done(event) > MIB), "{}", run.finish());
    let copies = descendants(run.pid());
    assert!(copies.len() >= 2, "{copies:?}");
    run.kill();
    assert!(eventually(|| !copies.iter().any(|copy| is_running(*copy))), "{copies:?}");
    scene.start(&[]).finish().expect_code(0);
    scene.assert_complete();
}

#[test]
fn files_for_results_and_names_have_the_number_of_the_destination() {
    let scene = Scene::new();
    let run = scene.start(&["--rate", RATE, "--name", "shot", "--report", "run.html", "--receipt", "receipt"]);
    assert!(run.wait_for(|event| bytes_done(event) > MIB), "{}", run.finish());
    for name in ["shot-1", "shot-2"] {
        scene.site.icdc(&["ctl", name, "status"]).run().expect_code(0);
        scene.site.icdc(&["ctl", name, "rate", "auto"]).run().expect_code(0);
    }
    run.finish().expect_code(0);
    for file in ["run-1.html", "run-2.html", "receipt-1", "receipt-2", "receipt-1.sig", "receipt-2.sig"] {
        assert!(fs::metadata(scene.site.path(file)).is_ok_and(|stat| stat.len() > 0), "{file}");
    }
}

#[test]
fn a_mirror_is_made_at_each_destination() {
    let scene = Scene::new();
    for copy in scene.copies() {
        fs::create_dir_all(&copy).unwrap();
        fs::write(copy.join("extra"), "extra").unwrap();
    }
    let mut command = scene.site.icdc(&["sync", "--json", "--delete"]);
    command.args(scene.destinations()).arg("tree/").run().expect_code(0);
    scene.assert_complete();
}

#[test]
fn what_makes_no_sense_is_refused_once() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    for (words, reason) in [
        (&["--to", "a", "--to", "a", "file"][..], "--to a: this destination is named twice"),
        (&["--to", "a", "--to", "./a/", "file"], "--to ./a/: this destination is named twice"),
        (&["--to", "icdc://127.0.0.1:1/a", "--to", "a", "--background", "file"], "--to a: --background"),
        (&["--to", "a", "file", "icdc://127.0.0.1:1/b"], "everything else that is named is a source"),
        (&["--to", "a", "--to", "-", "file"], "standard output"),
        (&["--to", "a", "--to", "b", "-"], "standard input"),
        (&["--to", "a", "--files-from", "-", "file"], "standard input"),
        (&["--to", "a", "--move", "file"], "cannot be used with"),
        (&["--to", "a", "--to", "b", "missing"], "missing"),
        (&["--to", "a", "--metrics-push", "http://127.0.0.1:1", "file"], "--metrics-push"),
        (&["file"], "where to"),
        (&["--one-of-several", "1,1,0", "--to", "a", "file"], "icdc itself"),
    ] {
        let ended = site.copy(words).run().expect_code(2);
        assert!(ended.stderr.contains(reason), "{words:?}: {ended}");
        assert_eq!(ended.stderr.matches("icdc: ").count(), 1, "{words:?}: {ended}");
    }
    assert!(!site.path("a").exists() && !site.path("b").exists());
}
