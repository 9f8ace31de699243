//! Several connections beside one, over the same path: one rate, and as little dropped.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::thread;

use crate::support;
use crate::support::calm::{holds, in_a_calm_moment, machine};
use crate::support::lab::{B, Lab};
use crate::support::process::eventually;
use crate::support::{Ended, ICDC, KIB, MIB, Site, Start, assert_same, data, has_program, succeed};

/// Without these root is as good as anybody.
pub(crate) const PLAIN: [&str; 5] =
    ["setpriv", "--bounding-set", "-net_admin,-bpf,-perfmon", "--inh-caps", "-net_admin,-bpf,-perfmon"];

/// A lab in which a copy can be as [`PLAIN`] as anybody's; `None`, with the reason told, where there cannot be one.
pub(crate) fn lab_for_anybody(words: &[&str]) -> Option<Lab> {
    let lab = Lab::up(words)?;
    if !has_program("setpriv") {
        support::skip("there is no setpriv");
        return None;
    }
    Some(lab)
}

/// What a copy took, and packets that the queue dropped meanwhile.
#[derive(Debug)]
struct Copied {
    seconds: f64,
    dropped: u64,
    /// Connections that were given up because they were slow.
    closed: usize,
}

/// Connections that the run has given up because they were slow.
fn closed(ended: &Ended) -> usize {
    ended.all("notice").filter(|notice| notice["text"].as_str().unwrap().contains("was closed")).count()
}

/// Copies something, with the near end on host a. `before` is what that is started by.
pub(crate) fn run(lab: &Lab, site: &Site, before: &[&str], options: &[&str], from: &OsStr, to: &OsStr) -> Ended {
    let shell = format!("{ICDC} lab exec --name {} --shell", lab.name);
    let exec = ["lab", "exec", "--name", &lab.name, "a", "--"];
    // What an earlier copy has left is sent again.
    let words = [ICDC, "copy", "--json", "--whole-file", "--ssh", &shell, "--remote-icdc", ICDC];
    let mut command = site.icdc(&[&exec[..], before, &words, options].concat());
    let ended = command.args([from, to]).start().finish().expect_code(0);
    assert_eq!(ended.summary()["verified"], true, "{ended}");
    ended
}

/// Copies `data` from host a to host b, over a path that nobody knows. `before` is what the near
/// end is started by.
fn copy(lab: &Lab, site: &Site, before: &[&str], options: &[&str]) -> Copied {
    let (copied, paths) = (site.path("copied"), site.path("home/.local/state/icdc/paths.json"));
    for old in [&copied, &paths] {
        let _ = fs::remove_file(old);
    }
    let dropped = || lab.settled_status()["a_to_b"]["queue_drops_packets"].as_u64().unwrap();
    let earlier = dropped();
    let ended = run(lab, site, before, options, &site.path("data").into_os_string(), &site.on_host(B, "copied"));
    assert_same(&site.path("data"), &copied);
    Copied {
        seconds: ended.summary()["seconds"].as_f64().unwrap(),
        dropped: dropped() - earlier,
        closed: closed(&ended),
    }
}

#[test]
fn connections_of_root_share_the_rate_that_one_finds() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "200mbit", "--rtt", "100ms", "--queue", "400KB"]) else { return };
    let site = Site::new();
    if !crate::auto::is_loadable(&site) {
        support::skip("icdc cannot be loaded here");
        return;
    }
    data::file(&site.path("data"), 48 * MIB, 1);
    in_a_calm_moment(|| {
        let one = copy(&lab, &site, &[], &["--streams", "1"]);
        for streams in ["4", "16"] {
            let many = copy(&lab, &site, &[], &["--streams", streams]);
            // 48 MiB are 35,000 packets.
            let as_good = many.seconds < 1.6 * one.seconds && many.dropped <= 2 * one.dropped + 200;
            holds(as_good, (streams, &many, &one))?;
        }
        Ok(())
    });
}

/// Settings of both hosts: receive buffers up to 6 MiB, as Linux has them, and Reno, which every kernel has.
const STOCK: [(&str, &str); 2] = [("tcp_rmem", "4096 131072 6291456"), ("tcp_congestion_control", "reno")];

#[test]
fn a_short_file_travels_over_all_connections_at_once() {
    let _machine = machine();
    let Some(lab) = lab_for_anybody(&["--rate", "1gbit", "--rtt", "200ms", "--queue", "2.5MB"]) else { return };
    for host in ["a", "b"] {
        lab.inside(host, || {
            for (name, value) in STOCK {
                fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
            }
        });
    }
    let site = Site::new();
    let seconds = |bytes| {
        data::file(&site.path("data"), bytes, 1);
        copy(&lab, &site, &PLAIN, &[])
    };
    in_a_calm_moment(|| {
        // Ten packets of each connection are 150 kB, and they double: five round trips more than for a kilobyte.
        let (least, short) = (seconds(KIB), seconds(5 * MIB));
        holds(short.seconds < 2.7 * least.seconds, (&least, &short))
    });
}

#[test]
fn connections_that_fill_their_blocks_are_not_taken_for_a_slow_disk() {
    let _machine = machine();
    let Some(lab) = lab_for_anybody(&["--rate", "200mbit", "--rtt", "40ms", "--queue", "1MB"]) else { return };
    let site = Site::new();
    data::file(&site.path("data"), 80 * MIB, 1);
    in_a_calm_moment(|| {
        let one = copy(&lab, &site, &PLAIN, &["--streams", "1"]);
        // More connections than the ring has blocks, too.
        for options in [["--streams", "16", "--ring", "256MiB"], ["--streams", "64", "--ring", "64MiB"]] {
            let many = copy(&lab, &site, &PLAIN, &options);
            holds(many.seconds < 3.0 * one.seconds, (options, &many, &one))?;
        }
        Ok(())
    });
}

#[test]
fn a_connection_that_becomes_slow_does_not_hold_up_the_end() {
    let _machine = machine();
    let Some(lab) = Lab::up(&["--rate", "200mbit", "--rtt", "40ms", "--queue", "1MB"]) else { return };
    if !["setpriv", "nft", "ss"].into_iter().all(has_program) {
        support::skip("there is no setpriv, no nft, or no ss");
        return;
    }
    let site = Site::new();
    data::file(&site.path("data"), 80 * MIB, 1);
    let slow_down = || {
        let further = || {
            let told = Command::new("ss").args(["-tnHo", "state", "established", "dst", B]).output().unwrap();
            let told = String::from_utf8(told.stdout).unwrap();
            let ports =
                told.lines().filter_map(|line| line.split_whitespace().nth(2)?.rsplit_once(':')?.1.parse().ok());
            let mut ports: Vec<u16> = ports.collect();
            ports.sort_unstable();
            (ports.len() == 4).then(|| ports[3])
        };
        let mut last = None;
        assert!(
            eventually(|| {
                last = further();
                last.is_some()
            }),
            "four connections"
        );
        let port = last.unwrap();
        let has_sent = || {
            let told = Command::new("ss").args(["-tinH", "sport", "=", &format!(":{port}")]).output().unwrap();
            let told = String::from_utf8(told.stdout).unwrap();
            let sent = told.split_whitespace().find_map(|word| word.strip_prefix("bytes_sent:")?.parse().ok());
            sent.is_some_and(|bytes: u64| bytes > MIB)
        };
        assert!(eventually(has_sent), "it is handed no block");
        let rule = format!(
            "add table inet slow; add chain inet slow output {{ type filter hook output priority 0; }}; add rule \
             inet slow output tcp sport {port} limit rate over 20 kbytes/second burst 20 kbytes counter drop"
        );
        let added = Command::new("nft").arg(rule).status().unwrap();
        assert!(added.success());
    };
    in_a_calm_moment(|| {
        let even = copy(&lab, &site, &PLAIN, &["--streams", "4"]);
        let one_slow = thread::scope(|scope| {
            scope.spawn(|| lab.inside("a", slow_down));
            copy(&lab, &site, &PLAIN, &["--streams", "4"])
        });
        let rules = lab.inside("a", || {
            let rules = succeed(Command::new("nft").args(["list", "table", "inet", "slow"]));
            succeed(Command::new("nft").args(["delete", "table", "inet", "slow"]));
            rules
        });
        let was_slow = rules.contains("counter packets") && !rules.contains("counter packets 0 ");
        // A block takes the slow one forty times as long as the whole file takes all of them.
        let is_given_up = one_slow.closed == 1 && one_slow.seconds < 3.0 * even.seconds;
        holds(was_slow && is_given_up, (&one_slow, &even, &rules))
    });
}

#[test]
fn many_that_losses_keep_slow_are_not_given_up_at_the_end() {
    let _machine = machine();
    let path = ["--rate", "100mbit", "--rtt", "80ms", "--queue", "50kB", "--loss", "1e-3,0"];
    let Some(lab) = Lab::up(&path) else { return };
    if !has_program("setpriv") {
        support::skip("there is no setpriv");
        return;
    }
    let site = Site::new();
    data::file(&site.path("data"), 64 * MIB, 1);
    // Its windows, not a rate that is measured, are what losses keep small.
    lab.inside("a", || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap());
    let (here, there) = (site.path("data").into_os_string(), site.on_host(B, "copied"));
    let ended = run(&lab, &site, &PLAIN, &["--streams", "28"], &here, &there);
    assert_same(&site.path("data"), &site.path("copied"));
    // One whose last packets are lost again and again may be.
    let given_up = closed(&ended);
    assert!(given_up < 10, "{given_up} of 28: {ended}");
}

#[test]
fn losses_that_few_connections_cannot_bear_bring_more_of_them() {
    let _machine = machine();
    let path = ["--rate", "200mbit", "--rtt", "100ms", "--queue", "2MB", "--loss", "0.0005", "--seed", "7"];
    let Some(lab) = Lab::up(&path) else { return };
    if !has_program("setpriv") {
        support::skip("there is no setpriv");
        return;
    }
    for host in ["a", "b"] {
        lab.inside(host, || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap());
    }
    let site = Site::new();
    data::file(&site.path("data"), 64 * MIB, 1);
    let connections = |from: &OsStr, to: &OsStr, streams: &[&str]| {
        let ended = run(&lab, &site, &PLAIN, streams, from, to);
        ended.events.iter().filter(|event| event["type"] == "connected").count()
    };
    let (here, there) = (site.path("data").into_os_string(), site.on_host(B, "copied"));
    let named = connections(&here, &there, &["--streams", "10"]);
    assert_eq!(named, 10, "a number given by hand is obeyed");
    let (source, back) = (site.on_host(B, "data"), site.path("back").into_os_string());
    for (from, to) in [(&here, &there), (&source, &back)] {
        in_a_calm_moment(|| {
            let found = connections(from, to, &[]);
            holds(found > 5, format!("{from:?}: {found}"))
        });
    }
}
