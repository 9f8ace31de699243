//! By which routes a measurement goes, and that one port is enough.

use crate::support::daemon::{Daemon, free_port};
use crate::support::network::Pair;
use crate::support::relay::Relay;
use crate::support::system::finding;
use crate::support::{Ended, HERE, ICDC, Site, Start, has_program, skip, succeed};

const WORDS: [&str; 6] = ["--json", "--remote-icdc", ICDC, "--bytes", "5MB", "--ssh"];

#[track_caller]
fn is_whole(ended: Ended) -> Ended {
    let ended = ended.expect_code(0);
    assert_eq!(ended.number("bytes"), 5_000_000, "{ended}");
    assert!(ended.summary()["errors"].as_array().unwrap().is_empty(), "{ended}");
    ended
}

#[test]
fn a_measurement_takes_the_route_that_the_user_names() {
    let site = Site::new();
    let relay = Relay::start(&site, &["--socks5", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--allow", "to=127.0.0.0/8"]);
    let (proxy, peer) = (format!("socks5://{}", relay.address("socks5")), format!("relay:{}", relay.address("peer")));
    for (via, words) in [
        ("direct", ""),
        ("back", ""),
        ("ssh", "the data goes through ssh"),
        (&*proxy, "by way of a proxy"),
        (&*peer, "by way of a proxy"),
    ] {
        for options in [&[][..], &["--reverse", "--streams", "2"], &["--streams", "3", "--cc", "cubic"]] {
            let ssh = site.ssh();
            let words_of_command = [&["measure", "--via", via][..], &WORDS, &[&*ssh], options, &[HERE]].concat();
            let ended = is_whole(site.icdc(&words_of_command).run());
            assert!(ended.stderr.contains(words), "{via}: {ended}");
            assert!(!ended.stderr.contains("forward:"), "{via}: {ended}");
        }
    }
    // Each connection but that of ssh went by way of it.
    assert!(relay.total("accepted") >= 2 * (2 + 3 + 4), "{}", relay.status());
}

#[test]
fn one_port_is_enough() {
    let site = Site::new();
    let port = free_port().to_string();
    for options in [&[][..], &["--reverse"], &["--window", "1MiB"], &["--cc", "cubic", "--reverse"]] {
        let ssh = site.ssh();
        let words = [&["measure", "--port", &port][..], &WORDS, &[&*ssh], options, &[HERE]].concat();
        is_whole(site.icdc(&words).run());
    }
}

/// Rules for a far host to which connections pass to this port only.
fn only(port: u16) -> String {
    format!(
        "table inet test {{ chain input {{ type filter hook input priority 0; \
         iifname \"eth0\" tcp flags & (syn|ack) == syn tcp dport != {port} drop; }}; }}"
    )
}

#[test]
fn a_daemon_needs_one_port_for_measure_and_doctor_too() {
    let Some(hosts) = Pair::new() else { return };
    if !has_program("nft") {
        return skip("a firewall needs nftables");
    }
    let site = Site::new();
    let daemon = Daemon::on(&hosts.far, &site, "daemon", &format!("root={},rights=r", site.root().display()));
    succeed(hosts.far.command("nft").arg(only(daemon.port())));
    let target = daemon.location("");
    for options in [&[][..], &["--reverse", "--streams", "3"], &["--window", "1MiB"], &["--cc", "cubic", "--reverse"]] {
        let words = [&["measure", "--json", "--bytes", "5MB"][..], options, &[&*target]].concat();
        is_whole(hosts.near.run(&site.icdc(&words)).run());
    }
    let ended = hosts.near.run(&site.icdc(&["doctor", "--json", &target])).run().expect_code(0);
    let path = &ended.events[0]["path"];
    assert!(path["rtt_seconds"].is_number() && path["capacity_bps"].is_number(), "{ended}");
}

#[test]
fn with_only_the_port_of_ssh_open_measure_and_doctor_work_and_say_how() {
    let Some(hosts) = Pair::new() else { return };
    if !has_program("nft") {
        return skip("a firewall needs nftables");
    }
    let site = Site::new();
    // Answers to its own connections do not come in either.
    let rules = "table inet test { chain input { type filter hook input priority 0; iifname \"eth0\" tcp dport != 22 drop; }; }";
    succeed(hosts.far.command("nft").arg(rules));
    let ssh = site.ssh_to(&hosts.far);
    for options in [&[][..], &["--reverse"], &["--window", "1MiB"]] {
        let words = [&["measure"][..], &WORDS, &[&*ssh], options, &[hosts.far.address()]].concat();
        let ended = is_whole(hosts.near.run(&site.icdc(&words)).run());
        assert!(ended.stderr.contains("through ssh"), "{ended}");
        let [least, median] = ["min_rtt_seconds", "median_rtt_seconds"].map(|name| ended.summary()[name].as_f64());
        assert!(least.is_some() && median.is_none_or(|median| Some(median) >= least), "{ended}");
    }
    let words = ["doctor", "--json", "--remote-icdc", ICDC, "--ssh", &ssh, hosts.far.address()];
    let ended = hosts.near.run(&site.icdc(&words)).run().expect_code(0);
    let path = &ended.events[0]["path"];
    let works = |via: &str| {
        let routes = path["routes"].as_array().unwrap();
        routes.iter().find(|route| route["via"] == via).unwrap()["obstacle"].is_null()
    };
    assert!(!works("direct") && !works("back") && works("ssh"), "{ended}");
    assert!(path["capacity_bps"].is_number(), "{ended}");
    // What a channel of ssh carries is no reason to raise limits.
    let capacity = finding(&ended.events[0], "path.capacity");
    assert!(capacity["found"].as_str().unwrap().contains("through ssh"), "{capacity}");
    assert!(capacity["fix"].is_null(), "{capacity}");
    let unmeasured = finding(&ended.events[0], "path.unmeasured");
    assert!(unmeasured["why"].as_str().unwrap().contains("ssh"), "{unmeasured}");
    // The reason of what did not run stands in the report.
    let words = ["doctor", "--json", "--remote-icdc", "/no/such/icdc", "--ssh", &ssh, hosts.far.address()];
    let ended = hosts.near.run(&site.icdc(&words)).run().expect_code(3);
    let unmeasured = finding(&ended.events[0], "path.unmeasured");
    assert!(unmeasured["found"].as_str().unwrap().contains("has no `/no/such/icdc`"), "{unmeasured}");
    assert_eq!(ended.stderr.matches("trying the routes").count(), 1, "{ended}");
}
