//! A path that loses more packets than TCP bears: the copy turns to datagrams, and back where these are of no use.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::streams::{PLAIN, lab_for_anybody, run};
use crate::support::calm::machine;
use crate::support::lab::{B, Lab};
use crate::support::{Ended, MIB, Site, assert_no_leftovers, assert_same, data, has_program, skip, succeed};

const PATH: [&str; 10] = ["--rate", "200mbit", "--rtt", "100ms", "--queue", "2MB", "--loss", "0.01", "--seed", "7"];

/// The lossy path, a file of so many MiB, and its names at both ends.
fn scene(mebibytes: u64) -> Option<(Lab, Site, [OsString; 2])> {
    let lab = lab_for_anybody(&PATH)?;
    for host in ["a", "b"] {
        // As on hosts of which nothing was changed; one that finds the rate needs no datagrams.
        lab.inside(host, || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap());
    }
    let site = Site::new();
    data::file(&site.path("data"), mebibytes * MIB, 1);
    let names = [site.path("data").into_os_string(), site.on_host(B, "copied")];
    Some((lab, site, names))
}

/// The routes that a copy has told of, with the reasons. Over a path that loses packets the first may be any.
fn routes(ended: &Ended) -> Vec<(String, String)> {
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    ended.all("route").map(|event| (text(event, "via"), text(event, "reason"))).collect()
}

/// Experience with datagrams that is remembered of the far end.
fn remembered(site: &Site) -> Option<String> {
    let known = fs::read_to_string(site.path("home/.local/state/icdc/losses.json")).ok()?;
    let known: Value = serde_json::from_str(&known).unwrap();
    Some(known["entries"][0]["datagrams"].as_str().unwrap().to_owned())
}

#[test]
fn losses_that_no_number_of_connections_bears_bring_datagrams() {
    let _machine = machine();
    let Some((lab, site, [here, there])) = scene(96) else { return };
    let ended = run(&lab, &site, &PLAIN, &[], &here, &there);
    assert_same(&site.path("data"), &site.path("copied"));
    let told = routes(&ended);
    assert!(told.len() == 2 && told[1].0 == "udp", "{ended}");
    assert!(told[1].1.contains("more packets are lost than TCP bears"), "{told:?}");
    assert_eq!(ended.all("reconnecting").count(), 0, "{ended}");
    assert!(ended.number("bytes_sent") < 160 * MIB, "what is durable is not sent again: {ended}");
    assert_eq!(remembered(&site).as_deref(), Some("carry"));
    let paths = fs::read_to_string(site.path("home/.local/state/icdc/paths.json")).unwrap_or_default();
    assert!(!paths.contains("rate"), "what losses left of the path is not its rate: {paths}");

    // The next one begins with them, and so does one in the other direction.
    let back = site.path("back").into_os_string();
    for (from, to) in [(&here, &there), (&there, &back)] {
        let ended = run(&lab, &site, &PLAIN, &[], from, to);
        let told = routes(&ended);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].0 == "udp" && told[0].1.contains("before"), "{told:?}");
    }
    assert_same(&site.path("data"), &site.path("back"));
    assert_no_leftovers(site.root());
}

#[test]
fn what_is_pulled_turns_to_datagrams_as_well() {
    let _machine = machine();
    let Some((lab, site, [here, there])) = scene(96) else { return };
    fs::rename(&here, site.path("copied")).unwrap();
    let ended = run(&lab, &site, &PLAIN, &[], &there, &here);
    assert_same(&site.path("copied"), &site.path("data"));
    let told = routes(&ended);
    assert!(told.len() == 2 && told[1].0 == "udp", "{ended}");
}

#[test]
fn where_datagrams_do_not_arrive_tcp_goes_on() {
    let _machine = machine();
    let Some((lab, site, [here, there])) = scene(6) else { return };
    if !has_program("nft") {
        skip("there is no nft");
        return;
    }
    let drop = "add table inet none; add chain inet none input { type filter hook input priority 0; }; add rule inet none input meta \
                l4proto udp drop";
    lab.inside("b", || succeed(Command::new("nft").arg(drop)));
    // They arrived an hour ago.
    let seen = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 3600;
    let known = site.path("home/.local/state/icdc/losses.json");
    DirBuilder::new().recursive(true).mode(0o700).create(known.parent().unwrap()).unwrap();
    fs::write(&known, format!(r#"{{"entries":[{{"place":"{B}","datagrams":"carry","seen":{seen}}}]}}"#)).unwrap();
    let ended = run(&lab, &site, &PLAIN, &[], &here, &there);
    assert_same(&site.path("data"), &site.path("copied"));
    assert!(routes(&ended).iter().all(|(via, _)| via != "udp"), "{ended}");
    assert_eq!(ended.all("reconnecting").count(), 0, "{ended}");
    assert_eq!(remembered(&site).as_deref(), Some("useless"));
}

#[test]
fn datagrams_that_are_held_to_a_low_rate_are_left_again() {
    let _machine = machine();
    let Some((lab, site, [here, there])) = scene(12) else { return };
    if !has_program("nft") {
        skip("there is no nft");
        return;
    }
    let hold = "add table inet low; add chain inet low input { type filter hook input priority 0; }; add rule inet low input meta \
                l4proto udp limit rate over 60 kbytes/second burst 60 kbytes drop";
    lab.inside("b", || succeed(Command::new("nft").arg(hold)));
    let ended = run(&lab, &site, &PLAIN, &[], &here, &there);
    assert_same(&site.path("data"), &site.path("copied"));
    let told = routes(&ended);
    assert!(told.len() >= 2 && told[1].0 == "udp", "{ended}");
    assert_eq!(remembered(&site).as_deref(), Some("useless"), "{ended}");
}

#[test]
fn who_names_a_route_or_a_number_of_connections_gets_that() {
    let _machine = machine();
    let Some((lab, site, [here, there])) = scene(6) else { return };
    for options in [&["--via", "direct"][..], &["--streams", "8"]] {
        let ended = run(&lab, &site, &PLAIN, options, &here, &there);
        assert!(routes(&ended).iter().all(|(via, _)| via != "udp"), "{options:?}: {ended}");
        assert_eq!(remembered(&site), None, "{options:?}");
    }
}
