//! `--bind`: data connections leave by several network devices, by name or by address.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use serde_json::Value;

use crate::support::daemon::Daemon;
use crate::support::network::{Host, Pair};
use crate::support::relay::Relay;
use crate::support::{Ended, MIB, Site, Start, assert_same, data, has_program, skip, succeed};

const SIZE: u64 = 48 * MIB + 5;
/// The far host answers nothing that it has not asked for.
const CLOSED: &str = "table inet test { chain input { type filter hook input priority 0; ct state new drop; }; }";

/// Asserts that `work` has each of the two cables carry a good share of what it moves.
#[track_caller]
fn by_both(hosts: &Pair, what: &str, work: impl FnOnce() -> Ended) -> Ended {
    let (ended, [first, second]) = carried(hosts, work);
    assert!(first * 5 >= first + second && second * 5 >= first + second, "{what}: {first} and {second}: {ended}");
    ended
}

/// What `work` has each of the two cables carry.
#[track_caller]
fn carried(hosts: &Pair, work: impl FnOnce() -> Ended) -> (Ended, [u64; 2]) {
    let before = hosts.near.carried();
    let ended = work().expect_code(0);
    let after = hosts.near.carried();
    (ended, [after[0] - before[0], after[1] - before[1]])
}

fn connections(ended: &Ended) -> usize {
    ended.all("connected").count()
}

/// What two hosts with two cables need for copies by a daemon, and a file at either.
fn daemon(hosts: &Pair, site: &Site) -> Daemon {
    data::file(&site.path("here"), SIZE, 3);
    data::file(&site.directory("root").join("there"), SIZE, 4);
    let options = format!("root=\"{}\",rights=rw", site.path("root").display());
    Daemon::on(&hosts.far, site, "daemon", &options)
}

#[test]
fn a_copy_leaves_by_each_device_and_from_each_address() {
    let Some(hosts) = Pair::with_two_cables() else { return };
    let site = Site::new();
    let daemon = daemon(&hosts, &site);
    let addresses = format!("{},{}", hosts.near.address(), Pair::SECOND_NEAR);
    for bind in [Host::DEVICES.join(","), addresses] {
        for streams in [&["--streams", "4"][..], &[]] {
            let options = [&["-W", "--rate", "400mbit", "--bind", &bind], streams].concat();
            for (from, to) in [("here", daemon.location("pushed")), (&daemon.location("there"), "pulled".to_owned())] {
                let copy = site.copy(&[&options[..], &[from, &to]].concat());
                let ended = by_both(&hosts, &format!("{bind} {streams:?} {from}"), || hosts.near.run(&copy).run());
                assert!(connections(&ended) >= 2 && (streams.is_empty() || connections(&ended) == 4), "{ended}");
            }
            assert_same(&site.path("here"), &site.path("root/pushed"));
            assert_same(&site.path("root/there"), &site.path("pulled"));
        }
    }
    // Without the option, and by one device alone.
    let by_none = hosts.near.run(&site.copy(&["here", &daemon.location("by-none")]));
    let by_one = hosts.near.run(&site.copy(&["--bind", "eth1", "--streams", "3", "here", &daemon.location("by-one")]));
    for (mut copy, used) in [(by_none, 0), (by_one, 1)] {
        let (ended, carried) = carried(&hosts, || copy.run());
        assert!(carried[used] > SIZE && carried[1 - used] < SIZE / 20, "{carried:?} of {used}: {ended}");
    }
}

#[test]
fn each_device_has_a_connection_that_finds_its_rate() {
    let Some(hosts) = Pair::with_two_cables() else { return };
    let site = Site::new();
    let daemon = daemon(&hosts, &site);
    for (host, device) in
        [&hosts.near, &hosts.far].into_iter().flat_map(|host| Host::DEVICES.map(|device| (host, device)))
    {
        let shape =
            ["qdisc", "add", "dev", device, "root", "tbf", "rate", "100mbit", "burst", "64kb", "latency", "50ms"];
        succeed(host.command("tc").args(shape));
    }
    for (from, to) in [("here", daemon.location("pushed")), (&daemon.location("there"), "pulled".to_owned())] {
        let copy = site.copy(&["-W", "--compress", "never", "--cc", "icdc", "--bind", "eth0,eth1", from, &to]);
        let ended = by_both(&hosts, from, || hosts.near.run(&copy).run());
        let first = ended.all("connected").next().unwrap()["congestion"].as_str().unwrap().to_owned();
        assert!(from != "here" || first.contains("icdc"), "{ended}");
    }
}

#[test]
fn a_far_end_that_ssh_starts_is_reached_by_each_device() {
    let Some(hosts) = Pair::with_two_cables() else { return };
    let site = Site::new();
    data::file(&site.path("here"), SIZE, 3);
    let ssh = site.ssh_to(&hosts.far);
    let to = site.on_host(hosts.far.address(), "pushed");
    let options = ["--ssh", &ssh, "--rate", "400mbit", "--bind", "eth0,eth1", "here"];
    let mut copy = site.copy(&options);
    copy.arg(&to);
    let ended = by_both(&hosts, "direct", || hosts.near.run(&copy).run());
    assert_eq!(ended.all("route").next().unwrap()["via"], "direct", "{ended}");
    assert_same(&site.path("here"), &site.path("pushed"));
    // One that nobody lets in connects back, by whatever route it has.
    if !has_program("nft") {
        return skip("a firewall needs nftables");
    }
    hosts.far.firewall(CLOSED);
    let mut copy = site.copy(&options);
    copy.arg(site.on_host(hosts.far.address(), "back"));
    let ended = hosts.near.run(&copy).run().expect_code(0);
    assert_eq!(ended.all("route").next().unwrap()["via"], "back", "{ended}");
    assert!(ended.stderr.contains("--bind has no effect"), "{ended}");
}

#[test]
fn the_connections_to_a_proxy_leave_by_each_device() {
    let Some(hosts) = Pair::with_two_cables() else { return };
    let site = Site::new();
    let daemon = daemon(&hosts, &site);
    let listen = format!("{}:0", hosts.far.address());
    let words = ["--socks5", &listen, "--peer", &listen, "--allow", "from=10.77.0.0/16,to=10.77.0.0/24"];
    let relay = Relay::launch(&site, &words, |command| hosts.far.run(&command));
    for via in [format!("socks5://{}", relay.address("socks5")), format!("relay:{}", relay.address("peer"))] {
        let options = ["--via", &via, "--rate", "400mbit", "--bind", "eth0,eth1", "here", &daemon.location("pushed")];
        let copy = site.copy(&options);
        by_both(&hosts, &via, || hosts.near.run(&copy).run());
        assert_same(&site.path("here"), &site.path("root/pushed"));
    }
    assert!(relay.total("accepted") >= 4, "{}", relay.status());
}

#[test]
fn a_measurement_leaves_by_each_device() {
    let Some(hosts) = Pair::with_two_cables() else { return };
    let site = Site::new();
    let daemon = daemon(&hosts, &site);
    let target = daemon.location("");
    // The last of them on a port of its own.
    for words in [&[][..], &["--reverse"], &["--secure"], &["--cc", "cubic"], &["--streams", "4", "--window", "1MiB"]] {
        let first = ["measure", "--json", "--bytes", "40MB", "--rate", "400mbit", "--bind", "eth0,eth1"];
        let measure = site.icdc(&[&first, words, &[&target]].concat());
        by_both(&hosts, &format!("{words:?}"), || hosts.near.run(&measure).run());
    }
}

#[test]
fn a_device_without_a_route_is_told_with_how_to_see_it() {
    let Some(hosts) = Pair::with_two_cables() else { return };
    let site = Site::new();
    let daemon = daemon(&hosts, &site);
    let copy = |bind: &str| site.copy(&["--bind", bind, "--streams", "2", "here", &daemon.location("copy")]);
    // The first connection leaves by the loopback device, or a later one.
    let ended = hosts.near.run(&copy("lo,eth0")).run().expect_code(3);
    assert!(ended.stderr.contains("by lo") && ended.stderr.contains(" oif lo`"), "{ended}");
    let ended = hosts.near.run(&copy("eth0,lo")).run().expect_code(0);
    let told = ended.all("notice").any(|event| matches!(&event["text"], Value::String(text) if text.contains("by lo")));
    assert!(told || connections(&ended) == 1, "{ended}");
    assert_same(&site.path("here"), &site.path("root/copy"));
}

#[test]
fn an_address_that_does_not_lead_there_is_told_as_the_reason() {
    let site = Site::new();
    data::file(&site.path("here"), 9 * MIB, 3);
    let reason = "has no IPv6 address";
    // The first connection cannot leave by it, and another route is taken; or a later one, and it is missing.
    for (bind, is_first) in [("::1,127.0.0.2", true), ("127.0.0.2,::1", false)] {
        let mut copy = site.copy(&["--whole-file", "--ssh", &site.ssh(), "--rate", "40mbit", "--bind", bind, "here"]);
        let ended = copy.arg(site.by_ssh("there")).run().expect_code(0);
        let told: Vec<_> = ended.all("notice").filter_map(|event| event["text"].as_str()).collect();
        let about = if is_first { "--bind has no effect (" } else { "1 of 2 connections were made" };
        let is_told = |text: &str| text.contains(about) && text.contains(reason) && text.contains("::1");
        assert!(told.iter().any(|text| is_told(text)), "{bind}: {ended}");
        assert!(ended.stderr.lines().any(is_told), "{bind}: {ended}");
        assert_same(&site.path("here"), &site.path("there"));
    }
}

#[test]
fn it_needs_no_privileges() {
    let Some(hosts) = Pair::with_two_cables() else { return };
    let site = Site::new();
    let daemon = daemon(&hosts, &site);
    let keys = site.path("home/.config/icdc");
    // Private keys are read only where they are the user's own.
    for name in ["identity", "known_hosts"] {
        fs::copy(keys.join(name), site.path(name)).unwrap();
        chown(site.path(name), Some(65534), Some(65534)).unwrap();
    }
    let words = ["measure", "--json", "--bytes", "40MB", "--rate", "400mbit", "--bind", "eth0,eth1"];
    let mut measure: Command = site.unprivileged();
    measure.args(words).args(["--identity", "identity", "--known-hosts", "known_hosts"]).arg(daemon.location(""));
    by_both(&hosts, "nobody", || hosts.near.inside(|| measure.run()));
}
