//! Firewalls change their mind while data passes: for one connection, for new ones, for all.

use std::time::{Duration, Instant};

use icdc_protocol::limits::DEAD_AFTER;

use crate::support::network::{Host, Pair};
use crate::support::{Ended, MIB, Run, Signal, Site, Start, assert_no_leftovers, assert_same, data, has_program, skip};

const SIZE: u64 = 48 * MIB + 5;

/// Lets everything pass but what belongs to the ports of the near end in the set `cut`.
const CUTTING: &str = "table inet test { set cut { type inet_service; }; \
     chain input { type filter hook input priority 0; tcp sport @cut drop; }; \
     chain output { type filter hook output priority 0; tcp dport @cut drop; }; }";

/// Every second connection is refused.
const REFUSING: &str = "table inet test { chain input { type filter hook input priority 0; \
     tcp flags & (syn | ack) == syn numgen inc mod 2 == 1 reject with tcp reset; }; }";

/// Nothing passes any more.
const CLOSED: &str = "table inet test { chain input { type filter hook input priority 0; policy drop; }; \
     chain output { type filter hook output priority 0; policy drop; }; }";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Push,
    Pull,
}

const DIRECTIONS: [Direction; 2] = [Direction::Push, Direction::Pull];

/// Two hosts, a source on the one and its copy on the other.
struct Scene {
    site: Site,
    pair: Pair,
}

impl Scene {
    fn new() -> Option<Self> {
        let pair = Pair::new()?;
        if !has_program("nft") || !has_program("ss") {
            skip("a firewall needs nftables, and ss tells of connections");
            return None;
        }
        let site = Site::new();
        data::file(&site.path("source"), SIZE, 50);
        Some(Self { site, pair })
    }

    /// A fresh copy, begun with these options.
    fn start(&self, direction: Direction, options: &[&str]) -> Run {
        let _ = std::fs::remove_file(self.site.path("copy"));
        let far = |name| self.site.on_host(self.pair.far.address(), name);
        let mut command = self.site.copy(&["--ssh", &self.site.ssh_to(&self.pair.far)]);
        command.args(options);
        match direction {
            Direction::Push => command.arg(self.site.path("source")).arg(far("copy")),
            Direction::Pull => command.arg(far("source")).arg(self.site.path("copy")),
        };
        self.pair.near.run(&command).start()
    }

    #[track_caller]
    fn assert_copied(&self, ended: Ended) -> Ended {
        let ended = ended.expect_code(0);
        assert_same(&self.site.path("source"), &self.site.path("copy"));
        assert_no_leftovers(self.site.root());
        ended
    }

    /// Ports of the near end's connections: the first one's, and those of the others. The first one
    /// alone carries something against the data.
    fn ports(&self, direction: Direction) -> (u16, Vec<u16>) {
        let against = if direction == Direction::Push { "bytes_received:" } else { "bytes_sent:" };
        let listed = self.pair.near.command("ss").args(["-HOtni", "state", "established"]).output().unwrap();
        let mut connections: Vec<(u64, u16)> = String::from_utf8_lossy(&listed.stdout)
            .lines()
            .map(|line| {
                let local = line.split_whitespace().nth(2).unwrap().rsplit_once(':').unwrap().1;
                let bytes = line.split_whitespace().find_map(|word| word.strip_prefix(against));
                (bytes.map_or(0, |bytes| bytes.parse().unwrap()), local.parse().unwrap())
            })
            .collect();
        connections.sort_unstable();
        let mut ports: Vec<u16> = connections.into_iter().map(|(_, port)| port).collect();
        (ports.pop().expect("there is a connection"), ports)
    }
}

fn cut(host: &Host, port: u16) {
    host.firewall(&format!("add element inet test cut {{ {port} }}"));
}

#[track_caller]
fn is_one_of_four_cut(direction: Direction, first: bool) -> Option<Ended> {
    let scene = Scene::new()?;
    scene.pair.far.firewall(CUTTING);
    // All connections take blocks from the beginning.
    let run = scene.start(direction, &["--streams", "4", "--cc", "cubic", "--rate", "160mbit"]);
    assert!(run.wait_for_more(0, 4, |event| event["type"] == "connected"), "{}", run.finish());
    assert!(run.wait_for_bytes(12 * MIB), "{}", run.finish());
    let (main, others) = scene.ports(direction);
    assert_eq!(others.len(), 3);
    cut(&scene.pair.far, if first { main } else { others[1] });
    let begun = Instant::now();
    let ended = scene.assert_copied(run.finish());
    assert_eq!(ended.all("reconnecting").count(), usize::from(first), "{ended}");
    if !first {
        assert!(begun.elapsed() < DEAD_AFTER.into(), "it took {:?}: {ended}", begun.elapsed());
        let mut notices = ended.all("notice").filter_map(|event| event["text"].as_str());
        assert!(notices.any(|text| text.contains("the others carry the rest")), "{ended}");
    }
    Some(ended)
}

#[test]
fn one_further_connection_is_cut() {
    for direction in DIRECTIONS {
        is_one_of_four_cut(direction, false);
    }
}

#[test]
fn the_first_of_several_connections_is_cut() {
    for direction in DIRECTIONS {
        is_one_of_four_cut(direction, true);
    }
}

#[test]
fn one_of_several_connections_is_reset() {
    let Some(scene) = Scene::new() else { return };
    for direction in DIRECTIONS {
        let run = scene.start(direction, &["--streams", "4", "--cc", "cubic", "--rate", "160mbit"]);
        assert!(run.wait_for_more(0, 4, |event| event["type"] == "connected"), "{}", run.finish());
        assert!(run.wait_for_bytes(12 * MIB), "{}", run.finish());
        let (_, others) = scene.ports(direction);
        let port = format!(":{}", others[0]);
        let killed = scene.pair.near.command("ss").args(["-K", "-H", "-t", "sport", "=", &port]).output().unwrap();
        if !killed.status.success() || killed.stdout.is_empty() {
            return skip("this kernel cannot destroy sockets (ss -K)");
        }
        let ended = scene.assert_copied(run.finish());
        assert!(ended.all("reconnecting").next().is_none(), "one session is enough: {ended}");
    }
}

#[test]
fn a_connection_that_pauses_for_twenty_seconds_is_not_waited_for() {
    let Some(scene) = Scene::new() else { return };
    scene.pair.far.firewall(CUTTING);
    let mut run = scene.start(Direction::Push, &["--streams", "4", "--cc", "cubic", "--rate", "24mbit"]);
    assert!(run.wait_for_more(0, 4, |event| event["type"] == "connected"), "{}", run.finish());
    assert!(run.wait_for_bytes(4 * MIB), "{}", run.finish());
    let (_, others) = scene.ports(Direction::Push);
    cut(&scene.pair.far, others[2]);
    // It passes again while the copy is still under way: nothing comes twice.
    let _ = run.runs_after(Duration::from_secs(20));
    scene.pair.far.firewall("flush set inet test cut");
    let ended = scene.assert_copied(run.finish());
    assert!(ended.all("reconnecting").next().is_none(), "one session is enough: {ended}");
}

#[test]
fn half_of_the_connections_are_refused() {
    let Some(scene) = Scene::new() else { return };
    for direction in DIRECTIONS {
        scene.pair.far.firewall("flush ruleset");
        scene.pair.far.firewall(REFUSING);
        // Slow enough that all are tried before the end.
        let ended = scene.start(direction, &["--streams", "8", "--rate", "160mbit"]).finish();
        let ended = scene.assert_copied(ended);
        assert!(ended.stderr.contains("4 of 8 connections were made: ") && ended.stderr.contains("refused"), "{ended}");
        assert_eq!(ended.all("connected").count(), 4, "{ended}");
    }
}

/// Asserts that a copy ends with one error that says what to do when nothing moves any more.
#[track_caller]
fn assert_given_up(run: Run) {
    let begun = Instant::now();
    let ended = run.finish().expect_code(4);
    let told = ended.stderr.lines().filter(|line| line.contains("run the same command again")).count();
    assert_eq!(told, 1, "it says how to go on: {ended}");
    assert!(ended.all("reconnecting").next().is_some(), "it was tried again: {ended}");
    assert!(begun.elapsed() < Duration::from_secs(100), "it took {:?}: {ended}", begun.elapsed());
}

#[test]
fn where_nothing_passes_any_more_a_copy_is_given_up() {
    for direction in DIRECTIONS {
        let Some(scene) = Scene::new() else { return };
        let run = scene.start(direction, &["--streams", "4", "--rate", "80mbit", "--retry-for", "5s"]);
        assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
        scene.pair.far.firewall(CLOSED);
        assert_given_up(run);
        // What the far end still holds ends now.
        scene.pair.far.firewall("flush ruleset");
    }
}

#[test]
fn a_far_end_that_stands_still_is_given_up() {
    let Some(scene) = Scene::new() else { return };
    let run = scene.start(Direction::Push, &["--streams", "4", "--rate", "80mbit", "--retry-for", "5s"]);
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    let far = run.far_end().unwrap();
    rustix::process::kill_process(far, Signal::STOP).unwrap();
    assert_given_up(run);
    let _ = rustix::process::kill_process(far, Signal::KILL);
}
