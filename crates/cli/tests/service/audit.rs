//! The audit log of real sessions.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::process::eventually;
use crate::support::{Signal, Site, Start, succeed};
use crate::{SIZE, SLOW, Scene};

fn audited() -> Scene {
    Scene::with("", |site, command| {
        command.arg("--audit").arg(site.path("audit.log"));
    })
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn events(scene: &Scene) -> Vec<(String, Value)> {
    let lines = lines(&scene.site.path("audit.log"));
    lines.into_iter().map(|line| (line["event"].as_str().unwrap().to_owned(), line)).collect()
}

fn count(scene: &Scene, event: &str) -> usize {
    events(scene).iter().filter(|(name, _)| name == event).count()
}

fn stranger(site: &Site) {
    succeed(&mut site.icdc(&["keygen", "--identity", "stranger"]));
}

#[test]
fn every_session_and_every_refusal_has_its_lines() {
    let scene = audited();
    let summary = scene.push(&[], "pushed").run().expect_code(0);
    let digest = summary.summary()["digest"].as_str().unwrap().to_owned();
    stranger(&scene.site);
    scene.push(&["--identity", "stranger"], "x").run().expect_code(3);
    scene.daemon.run().signal(Signal::HUP);
    assert!(eventually(|| count(&scene, "reload") == 1 && count(&scene, "refused") == 1));
    let events = events(&scene);
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["start", "session_start", "session_end", "refused", "reload"]);
    let (begin, end) = (&events[1].1, &events[2].1);
    assert_eq!((&begin["session"], &begin["key"], &begin["from"]), (&end["session"], &end["key"], &end["from"]));
    assert_eq!((&end["result"], &end["path"], &end["job"]), (&"complete".into(), &"/pushed".into(), &"write".into()));
    assert_eq!((&end["files"], &end["digest"]), (&1.into(), &digest.into()));
    assert_eq!(end["bytes"], SIZE);
    let refused = &events[3].1;
    assert!(refused["reason"].as_str().unwrap().contains("does not know this key"), "{refused}");
    assert_ne!(refused["key"], end["key"]);
}

#[test]
fn what_was_told_outlasts_a_killed_daemon_and_a_killed_session() {
    let scene = audited();
    let run = scene.push(&["--rate", SLOW, "--retry-for", "1ms"], "pushed").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    rustix::process::kill_process(scene.daemon.run().sessions()[0], Signal::KILL).unwrap();
    run.kill();
    assert!(eventually(|| count(&scene, "session_end") == 1));
    let end = events(&scene).into_iter().find(|(name, _)| name == "session_end").unwrap().1;
    assert!(end["result"] == "lost" && end["reason"].as_str().unwrap().contains("signal 9"), "{end}");
    let run = scene.push(&["--rate", SLOW, "--retry-for", "1ms"], "pushed").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    scene.daemon.run().signal(Signal::KILL);
    run.finish().expect_code(4);
    let names: Vec<_> = events(&scene).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["start", "session_start", "session_end", "session_start"]);
}

#[test]
fn a_log_that_cannot_be_written_lets_nobody_in_unless_the_operator_says_otherwise() {
    for (policy, code) in [("refuse", 3), ("continue", 0)] {
        let scene = Scene::with("", |_, command| {
            command.args(["--audit", "/dev/full", "--audit-full", policy]);
        });
        let ended = scene.push(&["--retry-for", "1ms"], "pushed").run();
        assert_eq!(ended.code, Some(code), "{policy}: {ended}");
        if code != 0 {
            assert!(ended.stderr.contains("cannot write its audit log"), "{ended}");
        }
        assert!(scene.log().contains("cannot write its audit log"), "{}", scene.log());
    }
}

#[test]
fn a_log_that_cannot_be_opened_is_named() {
    let site = Site::new();
    succeed(&mut site.icdc(&["keygen", "--identity", "id"]));
    fs::write(site.path("keys"), "").unwrap();
    let mut daemon = site.icdc(&["serve", "--listen", "127.0.0.1:0", "--identity", "id", "--authorized-keys", "keys"]);
    let ended = daemon.args(["--audit", "nowhere/audit.log"]).run();
    assert!(
        ended.code != Some(0) && ended.stderr.contains("the audit log nowhere/audit.log cannot be opened"),
        "{ended}"
    );
}

#[test]
fn a_log_that_was_moved_away_is_opened_again_at_a_reload() {
    let scene = audited();
    let (log, moved) = (scene.site.path("audit.log"), scene.site.path("moved"));
    fs::rename(&log, &moved).unwrap();
    scene.daemon.run().signal(Signal::HUP);
    assert!(eventually(|| log.exists() && count(&scene, "reload") == 1));
    assert_eq!(lines(&moved).len(), 1);
}
