//! When a copy is complete, as its events and `icdc ctl` predict it.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::support::process::eventually;
use crate::support::{Ended, MIB, Route, RoutedSite, Run, Site, Start, bytes_done, data};

const SIZE: u64 = 20 * MIB;
/// Slow enough that a copy of [`SIZE`] takes long enough for a prediction.
const RATE: &str = "40mbit";

/// Seconds until the end that an event of progress predicts: at least, expected, at most.
fn predicted(progress: &Value) -> Option<[f64; 3]> {
    let [low, left, high] =
        ["seconds_left_low", "seconds_left", "seconds_left_high"].map(|name| progress.get(name).expect(name).as_f64());
    assert!(low.is_some() == left.is_some() && high.is_some() == left.is_some(), "{progress}");
    Some([low?, left?, high?])
}

fn is_predicted(event: &Value) -> bool {
    event["type"] == "progress" && predicted(event).is_some()
}

/// The end is predicted after a while, not at first, and comes nearer.
fn assert_predicted(ended: &Ended, route: &str) {
    let all: Vec<_> = ended.all("progress").map(predicted).collect();
    assert_eq!(all[0], None, "{route}: {ended}");
    let told: Vec<_> = all.into_iter().flatten().collect();
    let is_ordered = |[low, left, high]: &[f64; 3]| 0.0 <= *low && low <= left && left <= high;
    assert!(told.iter().all(is_ordered), "{route}: {told:?}");
    assert!(told.len() > 1 && told[told.len() - 1][1] < told[0][1], "{route}: {told:?}\n{ended}");
    assert!(ended.all("progress").all(|event| event["behind_bytes"].is_null()), "{route}: nothing is followed");
}

#[test]
fn the_end_is_predicted_wherever_the_two_ends_are() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("source"), SIZE, 4);
        let ended = routed.copy(&["--rate", RATE], &["source"], "copy").expect_code(0);
        assert_predicted(&ended, &format!("{route:?}"));
    }
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 4);
    let mut between = site.copy(&["--ssh", &site.ssh(), "--rate", RATE]);
    let ended = between.arg(site.by_ssh("source")).arg(site.by_ssh("copy")).run().expect_code(0);
    assert_predicted(&ended, "between two hosts");
}

#[test]
fn what_need_not_travel_is_told_with_the_progress() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        routed.site.directory("tree");
        data::file(&routed.path("tree/equal"), MIB, 4);
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        data::file(&routed.path("tree/new"), SIZE, 5);
        // By so much longer than the interval of progress.
        let ended = routed.copy(&["--skip-equal", "--rate", "200mbit"], &["tree/"], "copy").expect_code(0);
        let last = ended.all("progress").last().unwrap();
        assert_eq!((&last["skipped_bytes"], &last["resumed_bytes"]), (&MIB.into(), &0.into()), "{route:?}: {ended}");
        assert!(bytes_done(last) <= SIZE, "{route:?}: {ended}");
    }
}

fn ctl(site: &Site, run: &Run, words: &[&str]) -> Ended {
    site.icdc(&["ctl", &run.pid().as_raw_nonzero().to_string()]).args(words).run().expect_code(0)
}

#[test]
fn a_copy_that_runs_is_asked_for_its_end_and_does_not_know_it_in_a_pause() {
    let routed = RoutedSite::new(Route::Push);
    data::file(&routed.path("source"), 4 * SIZE, 4);
    let run = routed.start(&["--rate", RATE], &["source"], "copy");
    assert!(run.wait_for(is_predicted), "{}", run.finish());
    let status = |words: &[&str]| ctl(&routed.site, &run, words);
    assert!(eventually(|| status(&["status"]).text.contains("complete at ")), "{}", run.finish());
    assert!(status(&["status"]).text.contains(" left"));
    status(&["pause"]);
    let paused = status(&["status", "--json"]).events[0].clone();
    assert_eq!(predicted(&paused["progress"]), None, "{paused}");
    assert!(!status(&["status"]).text.contains("complete at "));
    let seen = run.events().len();
    assert!(run.wait_for_more(seen, 5, |event| event["type"] == "progress"), "{}", run.finish());
    assert!(!run.events()[seen..].iter().any(is_predicted), "{}", run.finish());
    status(&["rate", "auto"]);
    status(&["resume"]);
    run.finish().expect_code(0);
}

#[test]
fn of_a_stream_the_end_is_not_known() {
    let site = Site::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let run = {
        let mut command = site.copy(&["--rate", RATE]);
        command.args(["-", "copy"]).stdin(Stdio::from(reader)).start()
    };
    std::thread::scope(|scope| {
        scope.spawn(move || drop(writer.write_all(&vec![7; SIZE as usize])));
        assert!(run.wait_for_bytes(SIZE / 2), "{}", run.stderr());
    });
    let ended = run.finish().expect_code(0);
    let in_between = ended.all("progress").filter(|event| (1..SIZE / 2).contains(&bytes_done(event)));
    let predictions: Vec<_> = in_between.map(predicted).collect();
    assert!(predictions.len() > 5 && predictions.iter().all(Option::is_none), "{predictions:?}\n{ended}");
}
