//! Kills at any moment: nothing is missed, and nothing that was durable travels again.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::kill_process;

use crate::support::{Ended, MIB, Noise, Route, RoutedSite, Run, Signal, assert_same};
use crate::{await_followed, followed, write_aside};

/// Number of kills, of either end by turns.
const KILLS: u64 = 6;

fn write_some(directory: &Path, round: u64, noise: &mut Noise) {
    for number in 0..8 {
        let size = if number == 0 { 6 * MIB } else { 1000 * (number + 1) };
        write_aside(&directory.join(format!("r{round}-{number}")), &noise.bytes(size as usize));
    }
}

#[test]
fn a_following_that_is_killed_again_and_again_misses_nothing() {
    let routed = RoutedSite::new(Route::Push);
    let source = routed.site.directory("source");
    let mut noise = Noise::new(11);
    let options = ["--follow", "--settle", "50ms", "--final", "done", "--exclude", "*.part"];
    let mut arrived: Vec<String> = Vec::new();
    for round in 0..KILLS {
        let mut run = routed.start(&options, &["source/"], "copy");
        write_some(&source, round, &mut noise);
        // A moment that differs from round to round.
        run.runs_after(Duration::from_millis(noise.bytes(1)[0].into()));
        let ended = if round % 2 == 0 { run.kill() } else { kill_far(run) };
        arrived.extend(followed(&ended.events));
    }
    fs::write(source.join("done"), "").unwrap();
    let ended = routed.copy(&options, &["source/"], "copy").expect_code(0);
    arrived.extend(followed(&ended.events));
    assert_same(&source, &routed.path("copy"));
    arrived.sort();
    let twice = arrived.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "it was durable, and has travelled again: {ended}");
}

/// Kills the far end; the near end goes on with a new one, until it is killed as well.
fn kill_far(run: Run) -> Ended {
    if let Some(far) = run.far_end() {
        // It may have ended meanwhile.
        let _ = kill_process(far, Signal::KILL);
        // One that dies before the first session is started anew without the word "reconnecting".
        assert!(run.wait_for_more(0, 2, |event| event["type"] == "connecting") || run.has_ended());
    }
    run.kill()
}

#[test]
fn after_a_cut_only_what_is_not_durable_travels() {
    let routed = RoutedSite::new(Route::Push);
    let source = routed.site.directory("source");
    for number in 0..50 {
        fs::write(source.join(format!("f{number}")), format!("{number}")).unwrap();
    }
    let run = routed.start(&["--follow", "--settle", "50ms", "--final", "done"], &["source/"], "copy");
    for number in 0..50 {
        await_followed(&run, &format!("source/f{number}"));
    }
    let far = run.far_end().expect("a far end");
    kill_process(far, Signal::KILL).unwrap();
    assert!(run.wait_for(|event| event["type"] == "reconnecting"));
    fs::write(source.join("later"), "later").unwrap();
    await_followed(&run, "source/later");
    fs::write(source.join("done"), "").unwrap();
    let ended = run.finish().expect_code(0);
    assert_same(&source, &routed.path("copy"));
    assert_eq!((ended.number("files"), ended.number("skipped")), (52, 0), "{ended}");
}
