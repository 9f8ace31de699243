//! SIGKILL of either side at any moment, again and again: the copy ends identical to its source, and a kill costs
//! no more than ARCHITECTURE.md says: the ring, and at the receiver what was written since the last checkpoint.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::kill_process;
use serde_json::Value;

use crate::support::compare::differences;
use crate::support::network::Pair;
use crate::support::process::eventually;
use crate::support::{
    BLOCK, Ended, HERE, KIB, MIB, Noise, Run, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, bytes_done,
    data, leftovers, succeed,
};

const RING: u64 = 64 * MIB;
const CHECKPOINT: u64 = 64 * MIB;

/// A copy between two hosts, or by loopback where there are no namespaces.
struct Course {
    site: Site,
    pair: Option<Pair>,
    words: [OsString; 2],
    source: PathBuf,
    copy: PathBuf,
}

#[derive(Clone, Copy)]
enum Direction {
    Push,
    Pull,
}

impl Course {
    fn new(direction: Direction, make: impl FnOnce(PathBuf) -> PathBuf) -> Self {
        let site = Site::new();
        let source = make(site.path("source"));
        let copy = site.path("copy");
        let pair = Pair::new();
        let host = pair.as_ref().map_or(HERE, |pair| pair.far.address());
        let words = match direction {
            Direction::Push => [source.clone().into(), site.on_host(host, "copy")],
            Direction::Pull => [site.on_host(host, "source"), copy.clone().into()],
        };
        Self { site, pair, words, source, copy }
    }

    fn start(&self, rate: &str) -> Run {
        self.start_with(&["--rate", rate])
    }

    fn start_with(&self, options: &[&str]) -> Run {
        let ssh = self.pair.as_ref().map_or_else(|| self.site.ssh(), |pair| self.site.ssh_to(&pair.far));
        let mut command = self.site.copy(&["--ring", "64MiB", "--ssh", &ssh]);
        command.args(options);
        command.args(&self.words);
        self.on_near(command).start()
    }

    fn on_near(&self, command: Command) -> Command {
        match &self.pair {
            Some(pair) => pair.near.run(&command),
            None => command,
        }
    }

    /// Bytes that have crossed the wire towards the far side, where they can be counted.
    fn pushed(&self) -> Option<u64> {
        self.pair.as_ref().map(|pair| pair.far.received())
    }

    fn assert_complete(&self) {
        assert_same(&self.source, &self.copy);
        assert_no_leftovers(self.site.root());
    }
}

fn is_progress(event: &Value) -> bool {
    event["type"] == "progress"
}

/// Bytes that an earlier session had left, by the last event that tells.
fn resumed(events: &[Value]) -> Option<u64> {
    events.iter().rev().find(|event| event["type"] == "resumed")?["bytes"].as_u64()
}

/// Kills one side or the other `kills` times, after one to `longest` progress events each (there are ten per
/// second), then lets the copy come to its end. Answers how many bytes all kills together may have cost.
fn torment(course: &Course, noise: &mut Noise, kills: u32, longest: u64, rate: &str, single: bool) -> u64 {
    let mut run = course.start(rate);
    let mut seen = 0;
    let mut allowance = 0;
    // What had arrived at the last kill, and what that kill may have cost.
    let mut before: Option<(u64, u64)> = None;
    for kill in 1..=kills {
        let moment = 1 + noise.below(longest);
        while !run.wait_for_more(seen, moment as usize, is_progress) {
            // Killed before the first connection stood, the far side is not started again.
            let ended = run.finish();
            assert_eq!(ended.code, Some(3), "kill {kill}: {ended}");
            (run, seen) = (course.start(rate), 0);
        }
        let events = run.events();
        let done = events[seen..].iter().map(bytes_done).max().unwrap_or(0);
        if let (true, Some((done, cost)), Some(resumed)) = (single, before, resumed(&events[seen..])) {
            assert!(resumed + cost + BLOCK > done, "kill {}: of {done} bytes only {resumed} were left", kill - 1);
        }
        let near = kill == kills || noise.below(2) == 0;
        eprintln!(
            "kill {kill}: the {} side, after {moment} events, at {done} bytes",
            if near { "near" } else { "far" }
        );
        let cost = if near {
            run.kill();
            (run, seen) = (course.start(if kill == kills { "10gbit" } else { rate }), 0);
            RING + CHECKPOINT
        } else {
            let mut far = None;
            assert!(eventually(|| {
                far = run.far_end();
                far.is_some()
            }));
            seen = events.len();
            kill_process(far.unwrap(), Signal::KILL).unwrap();
            RING + CHECKPOINT
        };
        before = Some((done, cost));
        allowance += cost;
    }
    run.finish().expect_code(0);
    allowance
}

#[test]
fn a_file_survives_twenty_kills() {
    let mut noise = Noise::logged("twenty kills");
    let size = 256 * MIB + 12_345;
    let course = Course::new(Direction::Push, |path| data::file(&path, size, 20));
    let before = course.pushed();
    let allowance = torment(&course, &mut noise, 20, 12, "120mbit", true);
    course.assert_complete();
    if let (Some(before), Some(after)) = (before, course.pushed()) {
        let sent = after - before;
        eprintln!("{size} bytes took {sent} on the wire, headers included; {allowance} were allowed for kills");
        assert!(sent <= size + size / 20 + allowance, "{sent}");
    }
}

#[test]
fn a_tree_survives_kills() {
    let mut noise = Noise::logged("a tree");
    let shape = Shape { small: 3000, largest_small: 20 * KIB, large: vec![24 * MIB, 9 * MIB + 1], oddities: true };
    let course = Course::new(Direction::Push, |path| data::tree(&path, 21, &shape));
    torment(&course, &mut noise, 10, 6, "120mbit", false);
    course.assert_complete();
}

#[test]
fn a_pull_survives_kills() {
    let mut noise = Noise::logged("pull");
    let course = Course::new(Direction::Pull, |path| data::file(&path, 160 * MIB + 1, 22));
    torment(&course, &mut noise, 8, 12, "120mbit", true);
    course.assert_complete();
}

/// What is left of `done` bytes, at least `moment`, after the far side (the receiver) was killed by SIGKILL, or
/// the near one (the sender).
fn left_after_kill(near: bool, rate: &str, moment: u64) -> (u64, u64) {
    let course = Course::new(Direction::Push, |path| data::file(&path, moment + 64 * MIB, 23));
    let mut run = course.start(rate);
    assert!(run.wait_for_bytes(moment), "{}", run.finish());
    let events = run.events();
    let (done, seen) = (events.iter().map(bytes_done).max().unwrap(), events.len());
    if near {
        run.kill();
        run = course.start("10gbit");
    } else {
        kill_process(run.far_end().unwrap(), Signal::KILL).unwrap();
    }
    let ended = run.finish().expect_code(0);
    course.assert_complete();
    (done, resumed(&ended.events[if near { 0 } else { seen }..]).unwrap_or(0))
}

#[test]
fn a_killed_receiver_costs_the_ring_and_a_checkpoint() {
    let (done, left) = left_after_kill(false, "1600mbit", 192 * MIB);
    assert!(left + RING + CHECKPOINT >= done, "{left} of {done} were left");
    assert!(left >= 64 * MIB, "{left} of {done} were left");
}

#[test]
fn a_killed_receiver_that_gets_little_in_a_second_costs_less() {
    let (done, left) = left_after_kill(false, "80mbit", 40 * MIB);
    assert!(left > 0, "of {done} nothing was left");
}

#[test]
fn a_killed_sender_costs_nothing_that_has_arrived() {
    let (done, left) = left_after_kill(true, "1600mbit", 192 * MIB);
    assert!(left + BLOCK > done, "{left} of {done} were left");
}

/// Short copies that are killed at any moment, also while they start and while they end, and started again at
/// once: the far end of the killed one is often still at work then.
fn short_copies(shape: Option<&Shape>) {
    let mut noise = Noise::logged("short copies");
    let site = Site::new();
    let source = match shape {
        Some(shape) => data::tree(&site.path("source"), 24, shape),
        None => data::file(&site.path("source"), 40 * MIB + 1, 24),
    };
    for round in 0..10 {
        let place = format!("{round}/copy");
        site.directory(format!("{round}"));
        let start = || site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh(&place)).start();
        let mut run = start();
        let moment = Duration::from_millis(noise.below(300));
        let near = noise.below(2) == 0;
        eprintln!("{round}: the {} side, after {moment:?}", if near { "near" } else { "far" });
        if run.runs_after(moment) {
            match run.far_end() {
                Some(far) if !near => {
                    // It may have ended meanwhile.
                    let _ = kill_process(far, Signal::KILL);
                    let ended = run.finish();
                    assert!(matches!(ended.code, Some(0 | 3)), "{ended}");
                    if ended.code == Some(0) {
                        // The near side knew that all had arrived; the journal goes only after that.
                        assert_same(&source, &site.path(&place));
                        let left = leftovers(&site.path(format!("{round}")));
                        assert!(left.iter().all(|path| path.extension().is_some_and(|kind| kind == "run")), "{left:?}");
                        continue;
                    }
                    start().finish().expect_code(0);
                }
                _ => {
                    let killed = run.kill();
                    if knew_all(&killed) {
                        // Whoever starts a complete copy again asks for another one.
                        continue;
                    }
                    start().finish().expect_code(0);
                }
            }
        } else {
            run.finish().expect_code(0);
        }
        assert_same(&source, &site.path(&place));
        assert_no_leftovers(&site.path(format!("{round}")));
    }
}

/// Whether the near side may have known that all files had arrived.
fn knew_all(ended: &Ended) -> bool {
    let scanned = ended.all("scanned").filter(|event| event["complete"] == true).last();
    ended.all("progress").any(|event| scanned.is_some_and(|scanned| event["files_done"] == scanned["files"]))
}

#[test]
fn short_copies_of_a_file_survive_kills() {
    short_copies(None);
}

#[test]
fn short_copies_of_a_tree_survive_kills() {
    short_copies(Some(&Shape { small: 800, largest_small: 10 * KIB, large: vec![13 * MIB, 5 * MIB], oddities: true }));
}

/// Everything that a tree had before it was moved is whole at the source or at the destination. At the source it is
/// looked for first: what has gone there has been at the destination before.
fn assert_nothing_is_lost(before: &Path, source: &Path, copy: &Path) {
    for entry in fs::read_dir(before).unwrap() {
        let before = entry.unwrap().path();
        let [source, copy] = [source, copy].map(|place| place.join(before.file_name().unwrap()));
        if before.is_symlink() {
            let target = fs::read_link(&before).unwrap();
            let has = |path| fs::read_link(path).is_ok_and(|found| found == target);
            assert!(has(&source) || has(&copy), "{} is lost", before.display());
        } else if before.is_dir() {
            assert_nothing_is_lost(&before, &source, &copy);
        } else {
            let contents = fs::read(&before).unwrap();
            let has = |path| fs::read(path).is_ok_and(|found| found == contents);
            assert!(has(&source) || has(&copy), "{} is lost", before.display());
        }
    }
}

/// Moves a tree while one side or the other is killed; what is not at the source any more is at the destination.
fn torment_a_move(direction: Direction, seed: u64) {
    let mut noise = Noise::logged("a move");
    let shape = Shape { small: 3000, largest_small: 20 * KIB, large: vec![9 * MIB + 1, 24 * MIB], oddities: true };
    let course = Course::new(direction, |path| data::tree(&path, seed, &shape));
    let before = course.site.path("before");
    succeed(Command::new("cp").arg("-a").arg(&course.source).arg(&before));
    let is_told = |event: &Value| is_progress(event) || event["type"] == "removed";
    for kill in 1..=12 {
        if !course.source.exists() {
            break;
        }
        let run = course.start_with(&["--move", "--rate", "160mbit"]);
        let moment = 1 + noise.below(if kill % 2 == 0 { 8 } else { 600 });
        if !run.wait_for_more(0, moment as usize, is_told) {
            drop(run.finish());
        } else if noise.below(2) == 0 {
            drop(run.kill());
        } else {
            if let Some(far) = run.far_end() {
                kill_process(far, Signal::KILL).unwrap();
                assert_nothing_is_lost(&before, &course.source, &course.copy);
                run.wait_for_more(run.events().len(), 2, is_told);
            }
            drop(run.kill());
        }
        assert_nothing_is_lost(&before, &course.source, &course.copy);
    }
    if course.source.exists() {
        course.start_with(&["--move"]).finish().expect_code(0);
        assert_no_leftovers(&course.copy);
    }
    assert!(!course.source.exists());
    // The last run may have been killed when it had nothing more to do than to remove its journal.
    for journal in leftovers(&course.copy) {
        assert!(journal.extension().is_some_and(|kind| kind == "run"), "{}", journal.display());
        fs::remove_file(journal).unwrap();
    }
    // A kill may cost the time of the directory in which something was just removed.
    let is_time_of_directory = |difference: &String| {
        let path = difference.split(": has time").next().map(Path::new);
        difference.contains(": has time") && path.is_some_and(Path::is_dir)
    };
    let differences: Vec<String> =
        differences(&before, &course.copy).into_iter().filter(|what| !is_time_of_directory(what)).collect();
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn a_move_by_push_survives_kills_and_loses_nothing() {
    torment_a_move(Direction::Push, 31);
}

#[test]
fn a_move_by_pull_survives_kills_and_loses_nothing() {
    torment_a_move(Direction::Pull, 32);
}
