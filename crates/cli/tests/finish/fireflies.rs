//! `--scitags`: fireflies as they arrive at a collector, and at the other end of the connection.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::{HERE, Start};
use crate::{SIZE, SLOW, daemon, direct, push, site};

const PORT: u16 = 10514;
const REGISTRY: &str = r#"{"version": 1, "experiments": [{"expName": "atlas", "expId": 2,
    "activities": [{"activityName": "production", "activityId": 14}]}]}"#;

/// Takes fireflies.
struct Collector(UdpSocket);

impl Collector {
    fn new(address: Ipv4Addr, port: u16) -> Self {
        let socket = UdpSocket::bind((address, port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(socket)
    }

    fn name(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// The next one, which has what the specification's schema asks for and nothing else.
    fn next(&self) -> Value {
        let mut datagram = [0; 2048];
        let length = self.0.recv(&mut datagram).expect("a firefly");
        assert!(length <= 1472, "{length} bytes fit in no packet");
        let text = std::str::from_utf8(&datagram[..length]).unwrap();
        let (header, json) = text.split_at(text.find('{').unwrap());
        let words: Vec<&str> = header.split(' ').collect();
        assert_eq!(
            [words[0], words[3], words[4], words[5], words[6], words[7]],
            ["<134>1", "icdc", "-", "firefly-json", "-", ""]
        );
        check_time(words[1]);
        let firefly: Value = serde_json::from_str(json).unwrap();
        check(&firefly);
        firefly
    }

    /// All up to the end of a flow.
    fn flow(&self) -> Vec<Value> {
        let mut flow = vec![self.next()];
        while flow.last().unwrap()["flow-lifecycle"]["state"] != "end" {
            flow.push(self.next());
        }
        flow
    }
}

/// Members that are there, and perhaps others.
fn has(value: &Value, needed: &[&str], allowed: &[&str]) {
    let found: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(needed.iter().all(|name| found.contains(name)), "{needed:?} in {value}");
    assert!(found.iter().all(|name| needed.contains(name) || allowed.contains(name)), "{value}");
}

/// A date and time of RFC 3339, in UTC.
fn check_time(text: &str) {
    let shape: String = text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000000+00:00", "{text}");
}

/// `firefly.schema.json`, version 1.0.0.
fn check(firefly: &Value) {
    has(firefly, &["version", "flow-lifecycle", "flow-id", "context"], &["usage", "netlink"]);
    assert_eq!(firefly["version"], 1);
    let lifecycle = &firefly["flow-lifecycle"];
    has(lifecycle, &["state", "start-time"], &["current-time", "end-time"]);
    let state = lifecycle["state"].as_str().unwrap();
    assert!(["start", "ongoing", "end"].contains(&state), "{state}");
    assert_eq!(lifecycle.get("end-time").is_some(), state == "end", "{lifecycle}");
    let times = lifecycle.as_object().unwrap().iter().filter(|(name, _)| *name != "state");
    times.for_each(|(_, time)| check_time(time.as_str().unwrap()));
    let id = &firefly["flow-id"];
    has(id, &["afi", "src-ip", "dst-ip", "protocol", "src-port", "dst-port"], &[]);
    assert_eq!((&id["afi"], &id["protocol"]), (&"ipv4".into(), &"tcp".into()));
    assert!(["src-ip", "dst-ip"].iter().all(|name| id[name].as_str().unwrap().parse::<Ipv4Addr>().is_ok()), "{id}");
    assert!(["src-port", "dst-port"].iter().all(|name| (1..=65535).contains(&id[name].as_u64().unwrap())), "{id}");
    has(&firefly["usage"], &["received", "sent"], &[]);
    assert!(firefly["usage"]["sent"].is_u64() && firefly["usage"]["received"].is_u64(), "{firefly}");
    has(&firefly["context"], &["experiment-id", "activity-id", "application"], &[]);
}

/// An address of loopback that no other test has at the same time.
fn address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    Ipv4Addr::new(127, high | 0x80, low, NEXT.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn a_push_is_told_from_its_begin_to_its_end_to_the_far_end_and_a_collector() {
    let (site, far) = (site(), address());
    let (peer, collector) = (Collector::new(far, PORT), Collector::new(Ipv4Addr::LOCALHOST, 0));
    let options = ["--scitags", "2.14", "--scitags-collector", &collector.name(), "--scitags-interval", "1s"];
    let mut command = direct(site.copy(&options));
    // Some seconds, by one connection.
    command.args(["--rate", "24mbit", "--streams", "1", "--via", "direct", "--ssh", &site.ssh()]);
    command.arg(site.path("big")).arg(site.on_host(&far.to_string(), "copied"));
    command.run().expect_code(0);
    let told = peer.flow();
    let states: Vec<_> = told.iter().map(|firefly| firefly["flow-lifecycle"]["state"].as_str().unwrap()).collect();
    assert!(
        states[0] == "start" && states.len() > 2 && states[1..states.len() - 1].iter().all(|state| *state == "ongoing"),
        "{states:?}"
    );
    let id = &told[0]["flow-id"];
    assert_eq!(id["dst-ip"], far.to_string());
    assert!(told.iter().all(|firefly| firefly["flow-id"] == *id), "one flow");
    let sent: Vec<u64> = told.iter().map(|firefly| firefly["usage"]["sent"].as_u64().unwrap()).collect();
    assert!(sent.is_sorted() && sent[0] < SIZE && sent[sent.len() - 1] >= SIZE, "{sent:?}");
    assert!(
        told.iter().all(|firefly| firefly["context"]["experiment-id"] == 2 && firefly["context"]["activity-id"] == 14)
    );
    assert_eq!(collector.flow(), told, "both get the same");
}

#[test]
fn a_pull_has_the_far_end_as_its_source_and_names_are_those_of_a_registry() {
    let (site, collector) = (site(), Collector::new(Ipv4Addr::LOCALHOST, 0));
    let (daemon, registry) = (daemon(&site, &[]), site.path("registry"));
    fs::write(&registry, REGISTRY).unwrap();
    fs::rename(site.path("big"), site.path("root/big")).unwrap();
    let mut command = direct(site.copy(&["--streams", "1", "--scitags", "atlas.production", "--scitags-registry"]));
    command.arg(&registry).args(["--scitags-collector", &collector.name()]);
    command.arg(daemon.location("big")).arg(site.path("copied"));
    command.run().expect_code(0);
    let told = collector.flow();
    let end = &told[told.len() - 1];
    assert_eq!((&end["flow-id"]["src-ip"], &end["flow-id"]["src-port"]), (&HERE.into(), &daemon.port().into()));
    assert!(end["usage"]["sent"].as_u64().unwrap() >= SIZE, "{end}");
    assert_eq!((&end["context"]["experiment-id"], &end["context"]["activity-id"]), (&2.into(), &14.into()));
}

#[test]
fn a_daemon_tells_of_each_connection_of_its_sessions_and_of_one_that_was_cut() {
    let (site, collector) = (site(), Collector::new(Ipv4Addr::LOCALHOST, 0));
    let daemon = daemon(&site, &["--scitags", "2.14", "--scitags-collector", &collector.name()]);
    push(&site, &daemon, &["--streams", "2", "--rate", "24mbit"]).run().expect_code(0);
    let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
    while ended.len() < 2 {
        let firefly = collector.next();
        assert_eq!(firefly["flow-id"]["dst-port"], daemon.port());
        let flow = firefly["flow-id"]["src-port"].as_u64().unwrap();
        match firefly["flow-lifecycle"]["state"].as_str().unwrap() {
            "start" => begun.insert(flow),
            "end" => ended.insert(flow),
            state => panic!("{state}"),
        };
    }
    assert_eq!(begun, ended);
    let run = push(&site, &daemon, &["--streams", "1", "--no-resume", "--rate", SLOW, "--retry-for", "1ms"]).start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    run.kill();
    let told = collector.flow();
    assert!(told[told.len() - 1]["usage"]["sent"].as_u64().unwrap() > 0, "{told:?}");
}

#[test]
fn tags_that_mean_nothing_and_copies_without_connections_are_refused() {
    let site = site();
    fs::write(site.path("wrong"), "[]").unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["--scitags", "2.14"], "--scitags marks data connections of this host"),
        (&["--scitags", "atlas.production"], "--scitags-registry"),
        (&["--scitags", "2"], "EXPERIMENT.ACTIVITY"),
        (&["--scitags", "2.14", "--scitags-registry", "wrong"], "not what scitags.org publishes"),
        (&["--scitags", "2.14", "--scitags-collector", "127.0.0.1:x"], "invalid"),
    ];
    for (options, reason) in cases {
        let mut command = direct(site.copy(options));
        let far =
            if reason.starts_with("--scitags marks") { site.path("copied").into() } else { site.by_ssh("copied") };
        let ended = command.arg(site.path("big")).arg(far).run().expect_code(2);
        assert!(ended.stderr.contains(reason), "{options:?}: {ended}");
    }
}
