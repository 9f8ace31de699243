//! One copy started twice at a time: who writes is named, and what it has published is not sent again.

use std::fs;
use std::time::Duration;

use rustix::process::kill_process;
use serde_json::Value;

use crate::support::data;
use crate::support::process::{Run, Signal, Start};
use crate::support::{Ended, MIB, Route, RoutedSite, assert_no_leftovers, assert_same};

/// Sources: a file alone, or a tree with further ones.
const SOURCES: [&str; 2] = ["large", "tree"];

fn sources(routed: &RoutedSite) {
    fs::create_dir(routed.path("tree")).unwrap();
    for (number, name) in ["large", "tree/large"].into_iter().enumerate() {
        data::file(&routed.path(name), 24 * MIB, number as u64);
    }
    for number in 0..20 {
        fs::write(routed.path("tree").join(format!("small-{number}")), format!("contents {number}")).unwrap();
    }
}

/// A copy that has begun to write and is stopped; a slower one where it was through before that.
fn stopped(routed: &RoutedSite, source: &str) -> Run {
    for rate in ["80mbit", "40mbit", "20mbit", "10mbit"] {
        let run = routed.start(&["--rate", rate], &[source], "copy");
        assert!(run.wait_for_bytes(4 * MIB), "{}", run.finish());
        run.signal(Signal::STOP);
        if !run.events().iter().any(|event| event["type"] == "summary") && is_unfinished(routed, source) {
            return run;
        }
        run.signal(Signal::CONT);
        run.finish().expect_code(0);
        let copy = routed.path("copy");
        if copy.is_dir() { fs::remove_dir_all(copy).unwrap() } else { fs::remove_file(copy).unwrap() }
    }
    panic!("{:?} {source}: no copy is slow enough", routed.route);
}

/// True if an unfinished large file is where it is to be, which has a length: its writer holds its lock by then.
fn is_unfinished(routed: &RoutedSite, source: &str) -> bool {
    let place = if source == "tree" { routed.path("copy") } else { routed.site.root().to_owned() };
    fs::read_dir(place).unwrap().map(Result::unwrap).any(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with(".icdc-") && name.ends_with(".part") && entry.metadata().is_ok_and(|file| file.len() > 0)
    })
}

fn is_running(event: &Value) -> bool {
    event["type"] == "running"
}

fn receiver(run: &Run, route: Route) -> Option<u64> {
    let pid = match route {
        Route::Local | Route::Pull | Route::FromDaemon => Some(run.pid()),
        Route::Push => run.far_end(),
        // The daemon's, or that of a session.
        Route::ToDaemon => None,
    };
    pid.and_then(|pid| u64::try_from(pid.as_raw_nonzero().get()).ok())
}

#[test]
fn who_writes_is_named_at_once_and_what_it_has_published_is_taken_over() {
    for (route, source) in Route::ALL.into_iter().flat_map(|route| SOURCES.map(|source| (route, source))) {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let first = stopped(&routed, source);
        let second = routed.start(&[], &[source], "copy");
        assert!(second.wait_for(is_running), "{route:?} {source}: {}", second.finish());
        let told = second.events().into_iter().find(is_running).unwrap();
        assert_eq!(told["then"], "wait", "{route:?}: {told}");
        assert!(told["path"].as_str().unwrap().ends_with("copy"), "{route:?}: {told}");
        let pid = told["pid"].as_u64().unwrap();
        assert!(receiver(&first, route).is_none_or(|expected| pid == expected), "{route:?}: {told}");
        assert!(told["age_s"].is_u64(), "{route:?}: {told}");
        assert!(second.wait_for_words("; waiting\n"), "{route:?}");
        first.signal(Signal::CONT);
        let first = first.finish().expect_code(0);
        let second = second.finish().expect_code(0);
        let named = format!("another icdc (pid {pid}, since ");
        assert!(second.stderr.contains(&named), "{route:?}: {second}");
        assert_eq!(second.all("waited").count(), 1, "{route:?}: {second}");
        assert_eq!(second.number("bytes_sent"), 0, "{route:?} {source}: {second}");
        assert_eq!(second.number("files"), first.number("files"), "{route:?} {source}: {second}");
        assert_same(&routed.path(source), &routed.path("copy"));
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn the_same_copy_is_skipped_or_fails_where_that_is_asked_for() {
    for (route, source) in Route::ALL.into_iter().flat_map(|route| SOURCES.map(|source| (route, source))) {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let first = stopped(&routed, source);
        let ended = |what: &str| routed.copy(&["--if-running", what], &[source], "copy");
        let check = |ended: &Ended, then: &str| {
            assert_eq!(ended.number("bytes_sent"), 0, "{route:?} {source}: {ended}");
            assert_eq!(ended.summary()["verified"], false, "{route:?} {source}: {ended}");
            assert!(ended.all("running").all(|event| event["then"] == then), "{route:?} {source}: {ended}");
            assert_eq!(ended.all("running").count(), 1, "{route:?} {source}: {ended}");
            assert_eq!(ended.all("item").count(), 0, "{route:?} {source}: {ended}");
            assert!(ended.stderr.contains("another icdc (pid "), "{route:?} {source}: {ended}");
        };
        let skipped = ended("skip").expect_code(0);
        check(&skipped, "skip");
        assert!(skipped.stderr.contains("this copy is skipped"), "{route:?} {source}: {skipped}");
        assert_eq!((skipped.number("errors"), skipped.all("failed").count()), (0, 0), "{route:?} {source}: {skipped}");
        let failed = ended("fail").expect_code(2);
        check(&failed, "fail");
        assert_eq!(failed.all("failed").count(), 1, "{route:?} {source}: {failed}");
        first.signal(Signal::CONT);
        first.finish().expect_code(0);
        assert_same(&routed.path(source), &routed.path("copy"));
        // Nobody is in the way any more.
        ended("fail").expect_code(0);
        assert_no_leftovers(routed.site.root());
    }
}

/// Whoever comes second has been looked at before the first one makes its file, or after.
#[test]
fn of_two_that_begin_at_once_one_is_skipped_or_fails() {
    let routed = RoutedSite::new(Route::Push);
    sources(&routed);
    for (what, code) in [("skip", 0), ("fail", 2)] {
        let mut met = 0;
        for pause in [0, 20, 40, 60, 80] {
            let start = || routed.start(&["--rate", "200mbit", "--if-running", what], &["large"], "copy");
            let first = start();
            std::thread::sleep(Duration::from_millis(pause));
            let ended = [start().finish(), first.finish()];
            for ended in &ended {
                let is_copied = ended.summary()["verified"] == true;
                assert_eq!(ended.code, Some(if is_copied { 0 } else { code }), "{what}: {ended}");
                met += u32::from(!is_copied);
            }
            // On a busy machine one may be through when the other begins.
            assert!(
                ended.iter().any(|ended| ended.summary()["verified"] == true),
                "{what}: {}\n{}",
                ended[0],
                ended[1]
            );
            assert_same(&routed.path("large"), &routed.path("copy"));
            fs::remove_file(routed.path("copy")).unwrap();
            assert_no_leftovers(routed.site.root());
        }
        assert!(met > 0, "{what}: no two were at work at a time");
    }
}

/// The first session decides whether the destination becomes the copy or has it in it: what is there is changed by the
/// run itself and by others.
#[test]
fn what_is_cut_goes_on_in_the_same_place() {
    for route in [Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let down = routed.path("down");
        routed.site.program("ssh-here", &format!("[ -e {} ] && exit 255\nshift\nexec sh -c \"$*\"", down.display()));
        let cut = |run: &Run| {
            fs::write(&down, "").unwrap();
            kill_process(run.far_end().unwrap(), Signal::KILL).unwrap();
            assert!(run.wait_for(|event| event["type"] == "reconnecting"), "{route:?}: {}", run.stderr());
        };
        let ends_well = |run: Run| {
            fs::remove_file(&down).unwrap();
            let ended = run.finish().expect_code(0);
            assert!(!routed.path("copy/tree").exists(), "{route:?}: {ended}");
            assert_same(&routed.path("tree"), &routed.path("copy"));
            assert_no_leftovers(routed.site.root());
        };
        // Another run comes to its end meanwhile.
        let first = stopped(&routed, "tree");
        let second = routed.start(&[], &["tree"], "copy");
        assert!(second.wait_for(is_running), "{route:?}: {}", second.finish());
        cut(&second);
        first.signal(Signal::CONT);
        first.finish().expect_code(0);
        ends_well(second);
        fs::remove_dir_all(routed.path("copy")).unwrap();

        // What tells of the run goes.
        let run = routed.start(&["--rate", "25mbit"], &["tree"], "copy");
        assert!(run.wait_for_bytes(3 * MIB), "{route:?}: {}", run.finish());
        cut(&run);
        routed.site.icdc(&["leftovers", "--remove"]).arg(routed.site.root()).run().expect_code(0);
        ends_well(run);
    }
}

/// All but one wait; each takes over what there is.
#[test]
fn several_wait_for_one_and_all_come_to_their_end() {
    let routed = RoutedSite::new(Route::Push);
    sources(&routed);
    let first = stopped(&routed, "tree");
    let others: Vec<Run> = (0..3).map(|_| routed.start(&[], &["tree"], "copy")).collect();
    assert!(others.iter().all(|run| run.wait_for(is_running)));
    first.signal(Signal::CONT);
    first.finish().expect_code(0);
    for run in others {
        let ended = run.finish().expect_code(0);
        assert_eq!(ended.number("bytes_sent"), 0, "{ended}");
    }
    assert_same(&routed.path("tree"), &routed.path("copy"));
    assert_no_leftovers(routed.site.root());
}

/// Goes on with the unfinished file of the one that is waited for.
#[test]
fn one_that_is_killed_while_it_is_waited_for_leaves_its_blocks() {
    for (route, source) in
        [Route::Local, Route::Push].into_iter().flat_map(|route| SOURCES.map(|source| (route, source)))
    {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let first = stopped(&routed, source);
        let second = routed.start(&[], &[source], "copy");
        assert!(second.wait_for(is_running), "{route:?} {source}: {}", second.finish());
        first.kill();
        let ended = second.finish().expect_code(0);
        assert_same(&routed.path(source), &routed.path("copy"));
        assert_eq!(ended.all("waited").count(), 1, "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

/// A source that has changed since the first one read it is another source.
#[test]
fn what_the_other_one_has_published_of_another_source_is_sent_again() {
    for source in SOURCES {
        let routed = RoutedSite::new(Route::Local);
        sources(&routed);
        let large = if source == "tree" { "tree/large" } else { "large" };
        let first = stopped(&routed, source);
        // The first one goes on with what it has opened.
        fs::remove_file(routed.path(large)).unwrap();
        data::file(&routed.path(large), 24 * MIB, 7);
        let second = routed.start(&[], &[source], "copy");
        assert!(second.wait_for(is_running), "{source}: {}", second.finish());
        first.signal(Signal::CONT);
        first.finish();
        let second = second.finish().expect_code(0);
        assert!(second.number("bytes_sent") >= 24 * MIB, "{source}: {second}");
        assert_same(&routed.path(source), &routed.path("copy"));
        assert_no_leftovers(routed.site.root());
    }
}
