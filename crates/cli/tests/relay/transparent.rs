//! `icdc relay --transparent`: clients that know nothing of it, in three network namespaces.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use crate::support;
use crate::support::network::{inside, within};
use crate::support::process::eventually;
use crate::support::relay::{Relay, accept, connect, exchange, refused};
use crate::support::{Noise, Site, Start, has_program, is_root, skip};

/// A client and a server with a router between: 10.78.1.1 — 10.78.1.2, 10.78.2.2 — 10.78.2.1, and
/// the same with fd78::.
struct Street {
    names: [String; 3],
}

impl Street {
    fn new() -> Option<Self> {
        if !is_root() || !has_program("ip") || !has_program("nft") {
            skip("transparent relaying needs root, iproute2 and nftables");
            return None;
        }
        let names = ["client", "router", "server"].map(|end| format!("icdc-test-{}-street-{end}", std::process::id()));
        let street = Self { names };
        for name in &street.names {
            succeed(Command::new("ip").args(["netns", "add", name]));
            succeed(&mut street.ip(name, "link set lo up"));
        }
        let [client, router, server] = &street.names;
        for (end, number) in [(client, 1), (server, 2)] {
            succeed(&mut street.ip(router, &format!("link add to{number} type veth peer name eth0 netns {end}")));
            succeed(&mut street.ip(router, &format!("address add 10.78.{number}.2/24 dev to{number}")));
            succeed(&mut street.ip(router, &format!("address add fd78:{number}::2/64 dev to{number} nodad")));
            succeed(&mut street.ip(end, &format!("address add 10.78.{number}.1/24 dev eth0")));
            succeed(&mut street.ip(end, &format!("address add fd78:{number}::1/64 dev eth0 nodad")));
            succeed(&mut street.ip(router, &format!("link set to{number} up")));
            succeed(&mut street.ip(end, "link set eth0 up"));
            succeed(&mut street.ip(end, &format!("route add default via 10.78.{number}.2")));
            succeed(&mut street.ip(end, &format!("-6 route add default via fd78:{number}::2")));
        }
        let forwarding = "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding";
        let mut shell = Command::new("sh");
        shell.args(["-c", forwarding]);
        succeed(&mut within(router, &shell));
        Some(street)
    }

    fn ip(&self, name: &str, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["-netns", name]).args(words.split(' '));
        command
    }
}

impl Drop for Street {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

fn succeed(command: &mut Command) {
    support::succeed(command);
}

#[test]
fn clients_that_know_nothing_are_relayed_with_their_address() {
    let Some(street) = Street::new() else { return };
    let [client, router, server] = &street.names;
    let site = Site::new();
    let there = |command: Command| within(router, &command);
    let relay = Relay::launch(&site, &["--transparent", ":0", "--keep-source"], there);
    let port = relay.address("transparent").port().to_string();
    let rules = |words: &[&str]| within(router, &site.icdc(&[&["relay", "rules"], words].concat())).run();
    let ended = rules(&["apply", "--listener", &port, "--from", "10.78.1.0/24,fd78:1::/64", "--interface", "to1"]);
    if ended.stderr.contains("Operation not supported") || ended.stderr.contains("No such file") {
        skip(&format!("this kernel has no TPROXY for nftables: {}", ended.stderr));
        return;
    }
    assert_eq!(ended.code, Some(0), "{ended}");
    // Twice is as good as once.
    assert_eq!(rules(&["apply", "--listener", &port, "--interface", "to1"]).code, Some(0));

    let mut noise = Noise::logged("transparent");
    for (own, address) in [("10.78.1.1", "10.78.2.1"), ("fd78:1::1", "fd78:2::1")] {
        let ip = address.parse().unwrap();
        let listener = inside(server, || TcpListener::bind(SocketAddr::new(ip, 0)).unwrap());
        let to = listener.local_addr().unwrap();
        let bytes = noise.bytes(3 << 20);
        let stream = inside(client, || connect(to));
        assert_eq!(stream.peer_addr().unwrap(), to, "the client believes that it speaks to the server");
        let mut served = accept(&listener);
        assert_eq!(served.peer_addr().unwrap().ip().to_string(), own, "and so does the server");
        let serving = thread::spawn(move || {
            let mut got = Vec::new();
            served.read_to_end(&mut got).unwrap();
            served.write_all(&got).unwrap();
        });
        assert!(exchange(stream, bytes.clone()).unwrap() == bytes, "{address}");
        serving.join().unwrap();
        drop(listener);
        assert_eq!(inside(client, || refused(to)), ErrorKind::ConnectionReset);
    }
    assert!(eventually(|| relay.total("finished") == 2), "{}", relay.status());
    assert_eq!(relay.total("unreachable"), 2, "{}", relay.status());

    assert_eq!(rules(&["remove"]).code, Some(0));
    assert_eq!(rules(&["remove"]).code, Some(0), "nothing to remove is no error");
    let accepted = relay.total("accepted");
    let listener = inside(server, || TcpListener::bind("10.78.2.1:0").unwrap());
    let to = listener.local_addr().unwrap();
    let _direct = inside(client, || connect(to));
    accept(&listener);
    assert_eq!(relay.total("accepted"), accepted, "past the relay");
}

#[test]
fn rules_are_printed_for_other_hands() {
    let site = Site::new();
    let words = ["relay", "rules", "print", "--listener", "2635", "--port", "80,443", "--from", "10.0.0.0/8"];
    let ended = site.icdc(&words).run();
    assert_eq!(ended.code, Some(0), "{ended}");
    for words in [
        "tproxy ip to :2635",
        "ip saddr 10.0.0.0/8",
        "tcp dport { 80, 443 }",
        "ip -4 route add local",
        "ip -6 rule add",
    ] {
        assert!(ended.text.contains(words), "{words}: {ended}");
    }
    assert!(!ended.text.contains("tproxy ip6"), "clients are IPv4 only: {ended}");
}

#[test]
fn without_privilege_it_says_what_is_missing() {
    if !is_root() || !has_program("setpriv") {
        skip("giving up privileges needs root and setpriv");
        return;
    }
    let site = Site::new();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_admin,-net_raw", "--inh-caps", "-net_admin,-net_raw", "--no-new-privs"]);
    let relay = site.icdc(&["relay", "--transparent", "127.0.0.1:0", "--status-socket", "none.sock"]);
    command.arg(relay.get_program()).args(relay.get_args());
    let ended = site.settle(command).run();
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("CAP_NET_ADMIN"), "{ended}");
}
