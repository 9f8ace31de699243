//! Transfers from one far end to another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use icdc_client::{CopyError, FailureKind, Location, Via};
use icdc_protocol::message::Compress;
use icdc_stop::StopSignal;
use icdc_transfer::{Event, EventSink};

use crate::daemon::Daemon;
use crate::{HERE, Scene, assert_same, by_ssh, copy};

/// The path with a trailing slash: the contents of the directory, wherever they land.
fn contents(path: &Path) -> PathBuf {
    path.join("")
}

/// Copies a tree between two far ends, each of the kind that its function makes.
fn go(scene: &Scene, from: impl Fn(&Path) -> Location, to: impl Fn(&Path) -> Location) {
    let (source, target) = (scene.tree("source"), scene.path("target"));
    let (result, events) = copy(&from(&contents(&source)), &to(&target), &scene.options());
    let summary = result.unwrap();
    assert_eq!(summary.errors, 0);
    assert!(summary.bytes > 9_000_000, "{summary:?}");
    assert_same(&source, &target);
    let connected = events.iter().filter(|event| matches!(event, Event::Connected { .. })).count();
    assert_eq!(connected, 1, "the driving end's connection, and no other");
}

fn daemon(scene: &Scene, name: &str, rights: &str) -> Daemon {
    let daemon = Daemon::start(scene, name);
    daemon.befriend(scene, &format!("root=/,rights={rights}"));
    daemon
}

#[test]
fn from_ssh_to_ssh() {
    let scene = Scene::new();
    go(&scene, by_ssh, by_ssh);
    assert_eq!(scene.pids().len(), 2);
}

#[test]
fn from_ssh_to_a_daemon() {
    let scene = Scene::new();
    let to = daemon(&scene, "to", "w");
    go(&scene, by_ssh, |path| to.at(path));
}

#[test]
fn from_a_daemon_to_ssh() {
    let scene = Scene::new();
    let from = daemon(&scene, "from", "r");
    go(&scene, |path| from.at(path), by_ssh);
}

#[test]
fn from_a_daemon_to_a_daemon() {
    let scene = Scene::new();
    let (from, to) = (daemon(&scene, "from", "r"), daemon(&scene, "to", "w"));
    go(&scene, |path| from.at(path), |path| to.at(path));
}

#[test]
fn rights_hold_for_the_driving_end_as_well() {
    let scene = Scene::new();
    let (from, to) = (daemon(&scene, "from", "w"), daemon(&scene, "to", "r"));
    let source = scene.tree("source");
    let target = scene.path("target");
    let (result, _) = copy(&from.at(&source), &by_ssh(&target), &scene.options());
    assert_eq!(result.unwrap_err().kind(), FailureKind::NotLetIn);
    let (result, _) = copy(&by_ssh(&source), &to.at(&target), &scene.options());
    assert_eq!(result.unwrap_err().kind(), FailureKind::NotLetIn);
    assert!(!target.exists());
}

#[test]
fn a_daemon_opens_no_port_for_others() {
    let scene = Scene::new();
    let from = daemon(&scene, "from", "r");
    let (source, target) = (scene.tree("source"), scene.path("target"));
    let mut options = scene.options();
    options.via = Via::Back;
    let (result, _) = copy(&from.at(&source), &by_ssh(&target), &options);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), FailureKind::NotLetIn, "{error}");
    assert!(error.to_string().contains("directly only") && !target.exists(), "{error}");
}

#[test]
fn a_destination_that_the_source_cannot_reach_is_named() {
    let unshare = "unshare --net";
    if !std::process::Command::new("sh").args(["-c", &format!("{unshare} true")]).status().unwrap().success() {
        eprintln!("skipped: a network namespace needs root");
        return;
    }
    let scene = Scene::new();
    let mut options = scene.options();
    options.ssh = format!("{unshare} {HERE}");
    let (result, _) = copy(&by_ssh(&scene.tree("source")), &by_ssh(&scene.path("target")), &options);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), FailureKind::NotLetIn, "{error}");
    assert!(error.to_string().contains("cannot reach") && error.to_string().contains("firewall"), "{error}");
}

/// Starts a slow copy and asks to stop once it runs.
fn interrupt(scene: &Scene, from: &Location, to: &Location) {
    let mut options = scene.options();
    options.send.rate = Some(icdc_units::Rate::from_bits_per_second(4_000_000));
    // What shrinks would be there before it is stopped.
    options.send.compress = Compress::Never;
    let stop = StopSignal::new();
    let events: EventSink = {
        let stop = stop.clone();
        Arc::new(move |event| {
            if matches!(event, Event::Progress(sample) if sample.bytes_total > 0) {
                stop.request();
            }
        })
    };
    let result = icdc_client::copy(std::slice::from_ref(from), to, &options, &events, &stop);
    assert!(matches!(result, Err(CopyError::Interrupted)), "{result:?}");
}

#[test]
fn an_interrupt_reaches_the_driving_end_and_the_copy_can_be_resumed() {
    let scene = Scene::new();
    let source = contents(&scene.tree("source"));
    interrupt(&scene, &by_ssh(&source), &by_ssh(&scene.path("target")));
    go(&scene, by_ssh, by_ssh);

    let scene = Scene::new();
    let (from, to) = (daemon(&scene, "from", "r"), daemon(&scene, "to", "w"));
    let source = contents(&scene.tree("source"));
    interrupt(&scene, &from.at(&source), &to.at(&scene.path("target")));
    go(&scene, |path| from.at(path), |path| to.at(path));
}
