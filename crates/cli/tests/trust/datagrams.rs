//! Copies over datagrams (`--via udp`): what they carry, whom they let in, and what a lossy path leaves of them.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::compare::same_contents;
use crate::support::daemon::Daemon;
use crate::support::lab::{B, Lab};
use crate::support::process::eventually;
use crate::support::routes::{Route, RoutedSite};
use crate::support::{Ended, HERE, MIB, Shape, Site, Start, assert_no_leftovers, assert_same, data};

const UDP: [&str; 2] = ["--via", "udp"];

fn shape() -> Shape {
    Shape { large: vec![30 * MIB, 9 * MIB], small: 40, ..Shape::default() }
}

#[test]
fn trees_arrive_over_datagrams_from_and_at_every_far_end() {
    for route in [Route::Push, Route::Pull, Route::ToDaemon, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        let tree = data::tree(&routed.path("tree"), 5, &shape());
        let ended = routed.copy(&UDP, &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &routed.path("copy"));
        assert_eq!(ended.all("connected").count(), 8, "as many streams as have room for gaps: {ended}");
        if matches!(route, Route::Push | Route::Pull) {
            let routes: Vec<&str> = ended.all("route").map(|event| event["via"].as_str().unwrap()).collect();
            assert_eq!(routes, ["udp"], "{ended}");
        }
        let again = routed.copy(&[&UDP[..], &["--skip-equal"]].concat(), &["tree/"], "copy").expect_code(0);
        assert!(again.number("bytes_sent") < MIB, "{route:?}: {again}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn several_links_share_the_connection() {
    let routed = RoutedSite::new(Route::ToDaemon);
    data::file(&routed.path("file"), 60 * MIB, 3);
    let ended = routed.copy(&["--via", "udp", "--streams", "4"], &["file"], "copy").expect_code(0);
    assert_eq!(ended.all("connected").count(), 4, "{ended}");
    assert!(same_contents(&routed.path("file"), &routed.path("copy")), "{ended}");
}

#[test]
fn a_copy_that_was_killed_goes_on() {
    for route in [Route::Push, Route::Pull, Route::ToDaemon, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("file"), 40 * MIB, 3);
        // By one stream, as each has a block under way of which nothing is durable.
        let options = ["--via", "udp", "--streams", "1", "--rate", "80mbit", "--compress", "never"];
        let run = routed.start(&options, &["file"], "copy");
        assert!(run.wait_for_bytes(20 * MIB), "{}", run.stderr());
        run.kill();
        let ended = routed.copy(&["--via", "udp", "--compress", "never"], &["file"], "copy").expect_code(0);
        assert!(same_contents(&routed.path("file"), &routed.path("copy")), "{route:?}: {ended}");
        assert!(ended.number("bytes_sent") < 36 * MIB, "what is durable is not sent again, {route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

/// A daemon whose client's key has these options, and a file of 3 MiB.
fn scene(options: &str) -> (Site, Daemon) {
    let site = Site::new();
    site.directory("root");
    data::file(&site.path("file"), 3 * MIB, 1);
    let daemon = Daemon::named(&site, "daemon", &format!("root=\"{}\",{options}", site.path("root").display()));
    (site, daemon)
}

fn push(site: &Site, daemon: &Daemon, to: &str) -> Ended {
    site.copy(&UDP).arg(site.path("file")).arg(daemon.location(to)).run()
}

#[test]
fn who_is_let_in_is_the_same_as_over_tcp() {
    let (site, daemon) = scene("rights=rw,from=\"192.0.2.0/24\"");
    let refused = push(&site, &daemon, "copy").expect_code(3);
    assert!(refused.stderr.contains("may not be used from this address"), "{refused}");
    let (site, daemon) = scene("rights=r");
    push(&site, &daemon, "copy").expect_code(3);
    let (site, daemon) = scene("rights=rw");
    push(&site, &daemon, "copy").expect_code(0);
    for file in ["identity", "identity.pub"] {
        fs::remove_file(site.path("home/.config/icdc").join(file)).unwrap();
    }
    site.icdc(&["keygen"]).run().expect_code(0);
    let unknown = push(&site, &daemon, "other").expect_code(3);
    assert!(!site.path("root/other").exists(), "{unknown}");
    let (other, elsewhere) = (Site::new(), daemon);
    other.icdc(&["keygen"]).run().expect_code(0);
    data::file(&other.path("file"), MIB, 1);
    let stranger = push(&other, &elsewhere, "other").expect_code(3);
    assert!(stranger.stderr.contains("icdc keygen --trust"), "the daemon is not known here: {stranger}");
}

#[test]
fn what_datagrams_carry_counts_for_a_key() {
    let (site, daemon) = scene("rights=rw,quota=5MB");
    push(&site, &daemon, "a").expect_code(0);
    let used_up = push(&site, &daemon, "b").expect_code(1);
    assert!(used_up.stderr.contains("used up the bytes"), "{used_up}");
    assert!(!site.path("root/b").exists());
}

#[test]
fn a_rate_is_kept_over_datagrams() {
    let routed = RoutedSite::new(Route::ToDaemon);
    data::file(&routed.path("file"), 10 * MIB, 3);
    let begin = Instant::now();
    routed.copy(&["--via", "udp", "--rate", "40mbit", "--compress", "never"], &["file"], "copy").expect_code(0);
    // At least: ten MiB at that rate take two seconds.
    assert!(begin.elapsed() > Duration::from_millis(1800), "{:?}", begin.elapsed());
}

#[test]
fn a_port_that_takes_no_datagrams_is_told() {
    let site = Site::new();
    let (_, daemon) = scene("rights=rw");
    data::file(&site.path("file"), MIB, 1);
    site.icdc(&["keygen"]).run().expect_code(0);
    let location = daemon.location("copy");
    daemon.stop();
    let ended = site.copy(&UDP).arg(site.path("file")).arg(&location).run();
    assert!(ended.code != Some(0) && ended.stderr.contains("no answer to datagrams"), "{ended}");
}

#[test]
fn options_that_datagrams_do_not_have_are_refused() {
    let site = Site::new();
    data::file(&site.path("file"), MIB, 1);
    let bound = site.copy(&["--via", "udp", "--bind", "lo", "file", &format!("{HERE}:copy")]).run().expect_code(2);
    assert!(bound.stderr.contains("--via udp"), "{bound}");
    for option in [&["--background"][..], &["--cc", "bbr"], &["--scitags", "1.1"]] {
        let words = [&UDP[..], option, &["file"]].concat();
        let refused = site.copy(&words).arg(format!("{HERE}:copy")).run().expect_code(2);
        assert!(refused.stderr.contains(option[0]) && refused.stderr.contains("--via udp"), "{refused}");
    }
    let between = site.copy(&["--via", "udp", "one:file", "two:copy"]).run().expect_code(2);
    assert!(between.stderr.contains("between two remote hosts"), "{between}");
}

#[test]
fn a_path_that_loses_packets_carries_everything() {
    let path = ["--rate", "200mbit", "--rtt", "40ms", "--queue", "1MB", "--loss", "0.02"];
    let Some(lab) = Lab::up(&path) else { return };
    let site = Site::new();
    site.directory("root");
    let file = data::file(&site.path("file"), 20 * MIB, 3);
    let daemon = Daemon::in_lab(&lab, &site, "daemon", &format!("root=\"{}\",rights=rw", site.path("root").display()));
    let location = |name: &str| format!("icdc://{B}:{}/{name}", daemon.port());
    let mut copy = site.copy(&UDP);
    copy.arg(&file).arg(location("pushed"));
    lab.run_on("a", &copy).run().expect_code(0);
    assert!(same_contents(&file, &site.path("root/pushed")));
    let mut copy = site.copy(&UDP);
    copy.arg(location("pushed")).arg(site.path("pulled"));
    lab.run_on("a", &copy).run().expect_code(0);
    assert!(same_contents(&file, &site.path("pulled")));
    assert!(lab.status()["a_to_b"]["random_drops_packets"].as_u64().unwrap() > 0);
    assert!(eventually(|| daemon.run().sessions().is_empty()));
}
