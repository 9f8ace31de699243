//! One copy started twice at a time: who writes is named, and what it has published is not sent again.

use std::fs;
use std::time::Duration;

use rustix::process::kill_process;
use serde_json::Value;

use crate::support::data;
use crate::support::process::{Run, Signal, Start};
use crate::support::{Ended, MIB, Road, Way, assert_no_leftovers, assert_same};

/// Sources: a file alone, or a tree with further ones.
const SOURCES: [&str; 2] = ["large", "tree"];

fn sources(road: &Road) {
    fs::create_dir(road.path("tree")).unwrap();
    for (number, name) in ["large", "tree/large"].into_iter().enumerate() {
        data::file(&road.path(name), 24 * MIB, number as u64);
    }
    for number in 0..20 {
        fs::write(road.path("tree").join(format!("small-{number}")), format!("contents {number}")).unwrap();
    }
}

/// A copy that has begun to write and is stopped; a slower one where it was through before that.
fn stopped(road: &Road, source: &str) -> Run {
    for rate in ["80mbit", "40mbit", "20mbit", "10mbit"] {
        let run = road.start(&["--rate", rate], &[source], "copy");
        assert!(run.wait_for_bytes(4 * MIB), "{}", run.finish());
        run.signal(Signal::STOP);
        if !run.events().iter().any(|event| event["type"] == "summary") && is_unfinished(road, source) {
            return run;
        }
        run.signal(Signal::CONT);
        run.finish().expect_code(0);
        let copy = road.path("copy");
        if copy.is_dir() { fs::remove_dir_all(copy).unwrap() } else { fs::remove_file(copy).unwrap() }
    }
    panic!("{:?} {source}: no copy is slow enough", road.way);
}

/// True if an unfinished large file is where it is to be, which has a length: its writer holds its lock by then.
fn is_unfinished(road: &Road, source: &str) -> bool {
    let place = if source == "tree" { road.path("copy") } else { road.site.root().to_owned() };
    fs::read_dir(place).unwrap().map(Result::unwrap).any(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with(".icdc-") && name.ends_with(".part") && entry.metadata().is_ok_and(|file| file.len() > 0)
    })
}

fn is_running(event: &Value) -> bool {
    event["type"] == "running"
}

fn receiver(run: &Run, way: Way) -> Option<u64> {
    let pid = match way {
        Way::Local | Way::Pull | Way::FromDaemon => Some(run.pid()),
        Way::Push => run.far_end(),
        // The daemon's, or that of a session.
        Way::ToDaemon => None,
    };
    pid.and_then(|pid| u64::try_from(pid.as_raw_nonzero().get()).ok())
}

#[test]
fn who_writes_is_named_at_once_and_what_it_has_published_is_taken_over() {
    for (way, source) in Way::ALL.into_iter().flat_map(|way| SOURCES.map(|source| (way, source))) {
        let road = Road::new(way);
        sources(&road);
        let first = stopped(&road, source);
        let second = road.start(&[], &[source], "copy");
        assert!(second.wait_for(is_running), "{way:?} {source}: {}", second.finish());
        let told = second.events().into_iter().find(is_running).unwrap();
        assert_eq!(told["then"], "wait", "{way:?}: {told}");
        assert!(told["path"].as_str().unwrap().ends_with("copy"), "{way:?}: {told}");
        let pid = told["pid"].as_u64().unwrap();
        assert!(receiver(&first, way).is_none_or(|expected| pid == expected), "{way:?}: {told}");
        assert!(told["age_s"].is_u64(), "{way:?}: {told}");
        assert!(second.wait_for_words("; waiting\n"), "{way:?}");
        first.signal(Signal::CONT);
        let first = first.finish().expect_code(0);
        let second = second.finish().expect_code(0);
        let named = format!("another icdc (pid {pid}, since ");
        assert!(second.stderr.contains(&named), "{way:?}: {second}");
        assert_eq!(second.all("waited").count(), 1, "{way:?}: {second}");
        assert_eq!(second.number("bytes_sent"), 0, "{way:?} {source}: {second}");
        assert_eq!(second.number("files"), first.number("files"), "{way:?} {source}: {second}");
        assert_same(&road.path(source), &road.path("copy"));
        assert_no_leftovers(road.site.root());
    }
}

#[test]
fn the_same_copy_is_skipped_or_fails_where_that_is_asked_for() {
    for (way, source) in Way::ALL.into_iter().flat_map(|way| SOURCES.map(|source| (way, source))) {
        let road = Road::new(way);
        sources(&road);
        let first = stopped(&road, source);
        let ended = |what: &str| road.copy(&["--if-running", what], &[source], "copy");
        let check = |ended: &Ended, then: &str| {
            assert_eq!(ended.number("bytes_sent"), 0, "{way:?} {source}: {ended}");
            assert_eq!(ended.summary()["verified"], false, "{way:?} {source}: {ended}");
            assert!(ended.all("running").all(|event| event["then"] == then), "{way:?} {source}: {ended}");
            assert_eq!(ended.all("running").count(), 1, "{way:?} {source}: {ended}");
            assert_eq!(ended.all("item").count(), 0, "{way:?} {source}: {ended}");
            assert!(ended.stderr.contains("another icdc (pid "), "{way:?} {source}: {ended}");
        };
        let skipped = ended("skip").expect_code(0);
        check(&skipped, "skip");
        assert!(skipped.stderr.contains("this copy is skipped"), "{way:?} {source}: {skipped}");
        assert_eq!((skipped.number("errors"), skipped.all("failed").count()), (0, 0), "{way:?} {source}: {skipped}");
        let failed = ended("fail").expect_code(2);
        check(&failed, "fail");
        assert_eq!(failed.all("failed").count(), 1, "{way:?} {source}: {failed}");
        first.signal(Signal::CONT);
        first.finish().expect_code(0);
        assert_same(&road.path(source), &road.path("copy"));
        // Nobody is in the way any more.
        ended("fail").expect_code(0);
        assert_no_leftovers(road.site.root());
    }
}

/// Whoever comes second has been looked at before the first one makes its file, or after.
#[test]
fn of_two_that_begin_at_once_one_is_skipped_or_fails() {
    let road = Road::new(Way::Push);
    sources(&road);
    for (what, code) in [("skip", 0), ("fail", 2)] {
        let mut met = 0;
        for pause in [0, 20, 40, 60, 80] {
            let start = || road.start(&["--rate", "200mbit", "--if-running", what], &["large"], "copy");
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
            assert_same(&road.path("large"), &road.path("copy"));
            fs::remove_file(road.path("copy")).unwrap();
            assert_no_leftovers(road.site.root());
        }
        assert!(met > 0, "{what}: no two were at work at a time");
    }
}

/// The first session decides whether the destination becomes the copy or has it in it: what is there is changed by the
/// run itself and by others.
#[test]
fn what_is_cut_goes_on_in_the_same_place() {
    for way in [Way::Push, Way::Pull] {
        let road = Road::new(way);
        sources(&road);
        let down = road.path("down");
        road.site.program("ssh-here", &format!("[ -e {} ] && exit 255\nshift\nexec sh -c \"$*\"", down.display()));
        let cut = |run: &Run| {
            fs::write(&down, "").unwrap();
            kill_process(run.far_end().unwrap(), Signal::KILL).unwrap();
            assert!(run.wait_for(|event| event["type"] == "reconnecting"), "{way:?}: {}", run.stderr());
        };
        let ends_well = |run: Run| {
            fs::remove_file(&down).unwrap();
            let ended = run.finish().expect_code(0);
            assert!(!road.path("copy/tree").exists(), "{way:?}: {ended}");
            assert_same(&road.path("tree"), &road.path("copy"));
            assert_no_leftovers(road.site.root());
        };
        // Another run comes to its end meanwhile.
        let first = stopped(&road, "tree");
        let second = road.start(&[], &["tree"], "copy");
        assert!(second.wait_for(is_running), "{way:?}: {}", second.finish());
        cut(&second);
        first.signal(Signal::CONT);
        first.finish().expect_code(0);
        ends_well(second);
        fs::remove_dir_all(road.path("copy")).unwrap();

        // What tells of the run goes.
        let run = road.start(&["--rate", "25mbit"], &["tree"], "copy");
        assert!(run.wait_for_bytes(3 * MIB), "{way:?}: {}", run.finish());
        cut(&run);
        road.site.icdc(&["leftovers", "--remove"]).arg(road.site.root()).run().expect_code(0);
        ends_well(run);
    }
}

/// All but one wait; each takes over what there is.
#[test]
fn several_wait_for_one_and_all_come_to_their_end() {
    let road = Road::new(Way::Push);
    sources(&road);
    let first = stopped(&road, "tree");
    let others: Vec<Run> = (0..3).map(|_| road.start(&[], &["tree"], "copy")).collect();
    assert!(others.iter().all(|run| run.wait_for(is_running)));
    first.signal(Signal::CONT);
    first.finish().expect_code(0);
    for run in others {
        let ended = run.finish().expect_code(0);
        assert_eq!(ended.number("bytes_sent"), 0, "{ended}");
    }
    assert_same(&road.path("tree"), &road.path("copy"));
    assert_no_leftovers(road.site.root());
}

/// Goes on with the unfinished file of the one that is waited for.
#[test]
fn one_that_is_killed_while_it_is_waited_for_leaves_its_blocks() {
    for (way, source) in [Way::Local, Way::Push].into_iter().flat_map(|way| SOURCES.map(|source| (way, source))) {
        let road = Road::new(way);
        sources(&road);
        let first = stopped(&road, source);
        let second = road.start(&[], &[source], "copy");
        assert!(second.wait_for(is_running), "{way:?} {source}: {}", second.finish());
        first.kill();
        let ended = second.finish().expect_code(0);
        assert_same(&road.path(source), &road.path("copy"));
        assert_eq!(ended.all("waited").count(), 1, "{way:?}: {ended}");
        assert_no_leftovers(road.site.root());
    }
}

/// A source that has changed since the first one read it is another source.
#[test]
fn what_the_other_one_has_published_of_another_source_is_sent_again() {
    for source in SOURCES {
        let road = Road::new(Way::Local);
        sources(&road);
        let large = if source == "tree" { "tree/large" } else { "large" };
        let first = stopped(&road, source);
        // The first one goes on with what it has opened.
        fs::remove_file(road.path(large)).unwrap();
        data::file(&road.path(large), 24 * MIB, 7);
        let second = road.start(&[], &[source], "copy");
        assert!(second.wait_for(is_running), "{source}: {}", second.finish());
        first.signal(Signal::CONT);
        first.finish();
        let second = second.finish().expect_code(0);
        assert!(second.number("bytes_sent") >= 24 * MIB, "{source}: {second}");
        assert_same(&road.path(source), &road.path("copy"));
        assert_no_leftovers(road.site.root());
    }
}
