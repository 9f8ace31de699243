//! `icdc pace policy`: what sockets of a cgroup get, for how long, and what is said where it cannot
//! be.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use icdc_units::Rate;

use crate::support;
use crate::support::algorithms::Kernel;
use crate::support::calm::{holds, in_a_calm_moment};
use crate::support::cgroup::Cgroup;
use crate::support::network::Pair;
use crate::support::{Ended, ICDC, Site, Start, is_root, skip};

/// The sockets under a policy, looked at for so long; `None` where the kernel loads no BPF iterator.
fn watch(interval: &str) -> Option<Ended> {
    let words = ["pace", "policy", "watch", "--interval", interval, "--count", "1", "--json"];
    let ended = Command::new(ICDC).args(words).run();
    if ended.code == Some(1) && ended.stderr.contains("does not load the BPF iterator") {
        skip("this kernel does not load BPF iterators");
        return None;
    }
    Some(ended.expect_code(0))
}

fn add(cgroup: &Cgroup, words: &[&str]) -> Ended {
    cgroup.policy("add", words).run().expect_code(0)
}

/// A listener at an address of the loopback network.
fn listener(address: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((address.parse::<IpAddr>().unwrap(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn ceiling(stream: &TcpStream) -> Option<Rate> {
    icdc_tcp::info(stream).unwrap().max_pacing_rate
}

fn rate(text: &str) -> Option<Rate> {
    Some(text.parse().unwrap())
}

/// A connection whose connecting end belongs to the cgroup, and the other end.
fn connect(cgroup: &Cgroup, to: &str) -> (TcpStream, TcpStream) {
    let (listener, at) = listener(to);
    let stream = cgroup.within(|| TcpStream::connect(at).unwrap());
    (stream, listener.accept().unwrap().0)
}

/// Counts what comes from the next connection.
fn count(listener: TcpListener) -> Arc<AtomicU64> {
    let counted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&counted);
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut buffer = vec![0; 1 << 20];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            counter.fetch_add(length as u64, Ordering::Relaxed);
        }
    });
    counted
}

/// A program that knows nothing of all this: it sends until it is killed.
fn sender(to: SocketAddr) -> String {
    format!("exec cat /dev/zero >/dev/tcp/{}/{}", to.ip(), to.port())
}

fn near(ratio: f64, wanted: f64) -> bool {
    (ratio / wanted - 1.0).abs() < 0.1
}

#[test]
fn two_policies_give_two_rates_to_a_program_that_knows_nothing_of_them() {
    let Some(cgroup) = Cgroup::new() else { return };
    add(&cgroup, &["--to", "127.81.0.0/16", "--rate", "80mbit"]);
    add(&cgroup, &["--to", "127.82.0.0/16", "--rate", "40mbit"]);
    let ends = ["127.81.0.1", "127.82.0.1"].map(listener);
    let _programs = ends.each_ref().map(|(_, at)| cgroup.shell(&sender(*at)).start());
    let counters = ends.map(|(listener, _)| count(listener));
    // Ten segments of a loopback connection are much at these rates: they leave unpaced.
    assert!(support::process::eventually(|| counters
        .iter()
        .all(|counter| counter.load(Ordering::Relaxed) > 2_000_000)));
    let read = || counters.each_ref().map(|counter| counter.load(Ordering::Relaxed) as f64);
    in_a_calm_moment(|| {
        let before = read();
        let watch = watch("4s");
        if watch.is_none() {
            thread::sleep(Duration::from_secs(4));
        }
        let after = read();
        let sent = (after[0] - before[0]) / (after[1] - before[1]);
        let Some(watch) = watch else { return holds(near(sent, 2.0), sent) };
        let sockets = watch.events[0]["sockets"].as_array().unwrap();
        let told = ["127.81.0.0/16", "127.82.0.0/16"].map(|to| {
            let one = sockets.iter().find(|one| one["policy"]["to"] == to && one["cgroup"] == cgroup.path());
            let one = one.unwrap_or_else(|| panic!("{to} is missing in {watch}"));
            assert_eq!(one["max_pacing_rate_bps"], one["policy"]["rate_bps"], "{watch}");
            assert!(one["refused"].as_array().unwrap().is_empty(), "{watch}");
            one["rate_bps"].as_f64().unwrap()
        });
        let ratios = [sent, told[0] / told[1]];
        holds(ratios.iter().all(|ratio| near(*ratio, 2.0)), ratios)
    });
}

#[test]
fn a_policy_outlasts_the_command_and_goes_when_removed() {
    let Some(cgroup) = Cgroup::new() else { return };
    let pins = cgroup.pins();
    let added = add(&cgroup, &["--to", "127.81.0.1", "--rate", "80mbit"]);
    assert!(added.text.contains("127.81.0.1") && added.text.contains("80 Mbit/s"), "{added}");
    assert!(pins.join("link").exists());
    let (early, _early_end) = connect(&cgroup, "127.81.0.1");
    assert_eq!(ceiling(&early), rate("80mbit"));
    assert_eq!(ceiling(&connect(&cgroup, "127.81.0.2").0), None, "another address");
    let (listener, at) = listener("127.81.0.1");
    assert_eq!(ceiling(&TcpStream::connect(at).unwrap()), None, "another cgroup");
    drop(listener);

    let [listed] = cgroup.policies().try_into().unwrap();
    assert_eq!((&listed["to"], &listed["rate_bps"]), (&"127.81.0.1/32".into(), &80_000_000.into()), "{listed}");
    assert_eq!((&listed["connections"], &listed["cgroup_is_gone"]), (&1.into(), &false.into()), "{listed}");
    let again = add(&cgroup, &["--to", "127.81.0.1", "--rate", "10MB/s"]);
    assert!(again.text.contains("in place of"), "{again}");
    assert_eq!(cgroup.policies().len(), 1);

    let removed = cgroup.policy("remove", &["--to", "127.81.0.1"]).run().expect_code(0);
    assert!(removed.text.contains("127.81.0.1"), "{removed}");
    assert!(!pins.exists() && cgroup.policies().is_empty());
    assert_eq!(ceiling(&connect(&cgroup, "127.81.0.1").0), None, "nothing acts any more");
    assert_eq!(ceiling(&early), rate("80mbit"), "what is connected keeps what it has");
    let missing = cgroup.policy("remove", &["--to", "127.81.0.1"]).run().expect_code(1);
    assert!(missing.stderr.contains("no policy for 127.81.0.1"), "{missing}");
}

#[test]
fn everything_that_a_policy_names_is_set_at_either_end_and_by_either_family() {
    let Some(cgroup) = Cgroup::new() else { return };
    let parts = ["--rate", "80mbit", "--cc", "reno", "--init-window", "5", "--max-window", "7"];
    for to in ["127.81.0.0/16", "::1"] {
        add(&cgroup, &[&["--to", to], &parts[..]].concat());
    }
    let has_all = |stream: &TcpStream, what: &str| {
        let info = icdc_tcp::info(stream).unwrap();
        assert_eq!(ceiling(stream), rate("80mbit"), "{what}");
        assert_eq!(icdc_tcp::congestion(stream).unwrap(), "reno", "{what}");
        assert_eq!(info.cwnd, 5, "{what}");
    };
    for to in ["127.81.0.1", "::1"] {
        let (mut stream, mut far) = connect(&cgroup, to);
        has_all(&stream, to);
        assert_eq!(ceiling(&far), None, "the other end belongs to another cgroup");
        let reader = thread::spawn(move || std::io::copy(&mut far, &mut std::io::sink()).unwrap());
        stream.write_all(&vec![0; 4 << 20]).unwrap();
        let info = icdc_tcp::info(&stream).unwrap();
        assert!(info.cwnd <= 7, "{to}: the window grew to {}", info.cwnd);
        drop(stream);
        assert_eq!(reader.join().unwrap(), 4 << 20);
    }
    // An IPv6 socket that is connected by IPv4 is under the policy for IPv4.
    let (listener, at) = listener("127.81.0.1");
    let mapped = match at.ip() {
        IpAddr::V4(address) => SocketAddr::new(address.to_ipv6_mapped().into(), at.port()),
        IpAddr::V6(_) => unreachable!("the listener is one of IPv4"),
    };
    has_all(&cgroup.within(|| TcpStream::connect(mapped).unwrap()), "mapped");
    drop(listener);
    // The end that accepts belongs to the cgroup of its listener, and the other end is what the
    // prefix is about.
    let listener = cgroup.within(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let at = listener.local_addr().unwrap();
    add(&cgroup, &[&["--to", "127.0.0.1"], &parts[..]].concat());
    let _connected = TcpStream::connect(at).unwrap();
    has_all(&listener.accept().unwrap().0, "accepted");
}

#[test]
fn the_longest_prefix_and_the_innermost_cgroup_decide() {
    let Some(cgroup) = Cgroup::new() else { return };
    add(&cgroup, &["--to", "127.0.0.0/8", "--rate", "8mbit"]);
    add(&cgroup, &["--to", "127.81.0.0/16", "--rate", "16mbit"]);
    let inner = cgroup.inner();
    assert_eq!(ceiling(&connect(&inner, "127.81.0.1").0), rate("16mbit"), "a policy holds for what is within");
    add(&inner, &["--to", "127.81.0.1", "--rate", "24mbit"]);
    assert_eq!(ceiling(&connect(&inner, "127.81.0.1").0), rate("24mbit"));
    assert_eq!(ceiling(&connect(&cgroup, "127.81.0.1").0), rate("16mbit"));
    assert_eq!(ceiling(&connect(&inner, "127.82.0.1").0), rate("8mbit"));
    cgroup.policy("remove", &["--to", "127.81.0.0/16"]).run().expect_code(0);
    assert_eq!(ceiling(&connect(&cgroup, "127.81.0.1").0), rate("8mbit"));
}

#[test]
fn an_algorithm_of_ours_is_loaded_for_as_long_as_policies_may_last() {
    let Some(cgroup) = Cgroup::new() else { return };
    let Some(kernel) = Kernel::take() else { return };
    let added = add(&cgroup, &["--to", "127.81.0.1", "--cc", "highspeed"]);
    assert!(added.stderr.contains("icdc cc unload highspeed"), "{added}");
    assert_eq!(kernel.state("highspeed"), "loaded");
    assert_eq!(icdc_tcp::congestion(&connect(&cgroup, "127.81.0.1").0).unwrap(), "icdc_highspeed");
    // What is not there when a connection begins is refused to it, and told.
    Command::new(ICDC).args(["cc", "unload", "highspeed"]).run().expect_code(0);
    // The kernel lets go of it a little later.
    let mut tries = (0..1000).map(|_| connect(&cgroup, "127.81.0.1"));
    let is_without = |(stream, _): &(TcpStream, _)| icdc_tcp::congestion(stream).unwrap() != "icdc_highspeed";
    let (stream, _end) = tries.find(is_without).expect("what is unloaded is not chosen");
    let Some(watch) = watch("10ms") else { return };
    let sockets = watch.events[0]["sockets"].as_array().unwrap();
    let at = stream.local_addr().unwrap().to_string();
    let one = sockets.iter().find(|one| one["local"] == at.as_str()).unwrap_or_else(|| panic!("{watch}"));
    assert_eq!(one["refused"], serde_json::json!(["cc"]), "{watch}");
    let words = ["pace", "policy", "watch", "--interval", "10ms", "--count", "1"];
    let table = Command::new(ICDC).args(words).run().expect_code(0);
    assert!(table.text.contains("refused: cc"), "{table}");
}

#[test]
fn sockets_of_other_network_namespaces_are_under_policies_too() {
    let Some(cgroup) = Cgroup::new() else { return };
    let Some(pair) = Pair::new() else { return };
    add(&cgroup, &["--to", "10.77.0.0/24", "--rate", "80mbit"]);
    let listener = pair.far.inside(|| TcpListener::bind((pair.far.address(), 0)).unwrap());
    let at = listener.local_addr().unwrap();
    let stream = cgroup.within(|| pair.near.inside(|| TcpStream::connect(at).unwrap()));
    assert_eq!(ceiling(&stream), rate("80mbit"));
    let Some(watch) = watch("10ms") else { return };
    let sockets = watch.events[0]["sockets"].as_array().unwrap();
    let ends = |one: &serde_json::Value| one["remote"] == at.to_string() && one["cgroup"] == cgroup.path();
    assert!(sockets.iter().any(ends), "{watch}");
}

#[test]
fn bursts_are_limited_at_the_device_of_the_route_which_gets_back_what_it_had() {
    let Some(cgroup) = Cgroup::new() else { return };
    let Some(pair) = Pair::new() else { return };
    let segments = || {
        let link = support::succeed(pair.near.command("ip").args(["-d", "-o", "link", "show", "dev", "eth0"]));
        let word = link.split_whitespace().skip_while(|word| *word != "gso_max_segs").nth(1).unwrap();
        word.parse::<u32>().unwrap()
    };
    // Unlike `ip netns exec`, it leaves /sys with its cgroups and pins as it is.
    let there = |command: &Command| {
        let mut there = Command::new("nsenter");
        there.arg(format!("--net=/run/netns/{}", pair.near.name())).arg(command.get_program());
        there.args(command.get_args());
        there
    };
    let run = |command: &str, words: &[&str]| there(&cgroup.policy(command, words)).run().expect_code(0);
    let before = segments();
    // What is left of a namespace that is gone, whose file had the number that this one's has now.
    let number = pair.near.inside(|| std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
    let index = support::succeed(pair.near.command("cat").arg("/sys/class/net/eth0/ifindex"));
    let left = PathBuf::from(format!("/run/icdc/bursts/{number}-{}", index.trim()));
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "eth0 7\n99 10.77.0.0/16 1\n").unwrap();
    let added = run("add", &["--to", "10.77.0.0/24", "--rate", "80mbit", "--burst", "2"]);
    assert!(added.stderr.contains("eth0 takes packets of at most 2 segments"), "{added}");
    assert_eq!(segments(), 2);
    run("add", &["--to", "10.77.0.2", "--rate", "80mbit", "--burst", "4"]);
    assert_eq!(segments(), 2, "the least counts");
    run("remove", &["--to", "10.77.0.0/24"]);
    assert_eq!(segments(), 4);
    let mut list = Command::new(ICDC);
    list.args(["pace", "policy", "list", "--json"]);
    let listed = support::succeed(&mut there(&list));
    assert!(listed.contains("\"burst_segments\":4"), "{listed}");
    run("add", &["--to", "10.77.0.2", "--rate", "80mbit"]);
    assert_eq!(segments(), before, "another policy in its place asks for nothing");
    run("add", &["--to", "10.77.0.2", "--rate", "80mbit", "--burst", "3"]);
    run("remove", &["--to", "10.77.0.2"]);
    assert_eq!(segments(), before);
    run("add", &["--to", "10.77.0.2", "--rate", "80mbit", "--burst", "2"]);
    support::succeed(pair.near.command("ip").args(["route", "del", "10.77.0.0/24"]));
    there(&cgroup.policy("add", &["--to", "10.77.0.2", "--rate", "80mbit", "--burst", "3"])).run().expect_code(1);
    assert_eq!(segments(), 2, "what could not be done has left what was there");
    support::succeed(pair.near.command("ip").args(["route", "add", "10.77.0.0/24", "dev", "eth0"]));
    run("remove", &["--to", "10.77.0.2"]);
    assert_eq!(segments(), before);
    let nowhere = cgroup.policy("add", &["--to", "203.0.113.0/24", "--rate", "80mbit", "--burst", "2"]);
    let refused = there(&nowhere).run().expect_code(1);
    assert!(refused.stderr.contains("203.0.113"), "{refused}");
    assert_eq!(segments(), before);
    std::fs::remove_file(&left).unwrap();
}

#[test]
fn a_cgroup_that_goes_takes_its_policies_along() {
    let Some(cgroup) = Cgroup::new() else { return };
    let (path, pins) = (cgroup.path().to_owned(), cgroup.pins());
    add(&cgroup, &["--to", "127.81.0.1", "--rate", "80mbit"]);
    std::fs::remove_dir(&path).unwrap();
    let [listed] = cgroup.policies().try_into().unwrap();
    assert_eq!(listed["cgroup_is_gone"], true, "{listed}");
    // The same path, another cgroup.
    std::fs::create_dir(&path).unwrap();
    assert_ne!(cgroup.pins(), pins);
    assert_eq!(ceiling(&connect(&cgroup, "127.81.0.1").0), None);
    // The kernel takes its time over it; then the next command that changes something sweeps.
    let swept = support::process::eventually(|| {
        add(&cgroup, &["--to", "127.81.0.2", "--rate", "80mbit"]);
        !pins.exists()
    });
    assert!(swept);
    assert_eq!(cgroup.policies().len(), 1);
    if cgroup.has_company() {
        return skip("this host has policies of its own, which are not to be removed");
    }
    let all = Command::new(ICDC).args(["pace", "policy", "remove", "--all"]).run().expect_code(0);
    assert!(all.text.contains("had some: 1"), "{all}");
    assert!(cgroup.policies().is_empty() && !pins.parent().unwrap().exists());
}

#[test]
fn what_cannot_be_is_told() {
    let usage: [(&[&str], &str); 11] = [
        (&["add", "--to", "127.0.0.1"], "a policy sets something"),
        (&["add", "--to", "127.0.0.1", "--cc", "auto"], "a policy sets something"),
        (&["add", "--rate", "80mbit"], "--to"),
        (&["add", "--to", "127.0.0.1/33", "--rate", "80mbit"], "is no prefix"),
        (&["add", "--to", "127.0.0.1", "--rate", "7kbit"], "8 kbit/s"),
        (&["add", "--to", "127.0.0.1", "--rate", "100gbit"], "34.36 Gbit/s"),
        (&["add", "--to", "127.0.0.1", "--init-window", "0"], "init-window"),
        (&["add", "--to", "127.0.0.1", "--cc", "reno", "--burst", "2"], "--rate"),
        (&["add", "--to", "127.0.0.1", "--rate", "80mbit", "--burst", "0"], "burst"),
        (&["remove"], "--to"),
        (&["remove", "--all", "--to", "127.0.0.1"], "--all"),
    ];
    for (words, said) in usage {
        let ended = Command::new(ICDC).args(["pace", "policy"]).args(words).run().expect_code(2);
        assert!(ended.stderr.contains(said), "{words:?}: {ended}");
    }
    let words = ["pace", "policy", "add", "--to", "127.0.0.1", "--rate", "80mbit", "--cgroup"];
    let elsewhere = Command::new(ICDC).args(words).arg("/tmp").run().expect_code(1);
    assert!(elsewhere.stderr.contains("/tmp: not a cgroup"), "{elsewhere}");
    let Some(cgroup) = Cgroup::new() else { return };
    let unknown = cgroup.policy("add", &["--to", "127.0.0.1", "--cc", "no_such"]).run().expect_code(1);
    assert!(unknown.stderr.contains("no_such"), "{unknown}");
    assert!(cgroup.policies().is_empty() && !cgroup.pins().exists());
}

#[test]
fn without_privilege_it_says_what_is_missing() {
    const NOBODY: u32 = 65534;
    if !is_root() {
        return skip("becoming another user needs root");
    }
    let Some(cgroup) = Cgroup::new() else { return };
    let site = Site::new();
    let program = site.icdc_for_anyone();
    let rate = ["--rate", "80mbit", "--cgroup", cgroup.path()];
    let add = [&["add", "--to", "127.0.0.1"], &rate[..]].concat();
    for words in [&add[..], &["list"], &["remove", "--to", "127.0.0.1"], &["remove", "--all"], &["watch"]] {
        let mut command = site.settle(Command::new(&program));
        let ended = command.args(["pace", "policy"]).args(words).uid(NOBODY).gid(NOBODY).run().expect_code(3);
        assert!(ended.stderr.contains("CAP_BPF"), "{words:?}: {ended}");
    }
}
