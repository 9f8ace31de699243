//! What stands between the near end and a real sshd: shapers, NATs that forget, addresses that
//! answer one way only, firewalls that close.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::sshd::Sshd;
use crate::support::network::{Host, Pair};
use crate::support::process::started_by;
use crate::support::{
    Ended, MIB, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, has_program, skip, succeed,
};

/// Only port 22 is let in, and no more than so much of it.
const THROTTLED: &str = "table inet test { chain input { type filter hook input priority 0; \
     iifname \"eth0\" tcp dport != 22 drop; \
     iifname \"eth0\" tcp dport 22 limit rate over 2 mbytes/second burst 200 kbytes drop; }; }";

/// Connections on which nothing passes for four seconds are forgotten: nothing of them passes any
/// more.
const FORGETFUL: &str = "table inet test { set flows { type inet_service; flags dynamic,timeout; timeout 4s; }; \
     chain input { type filter hook input priority 0; iifname != \"eth0\" accept; \
     tcp flags & (syn | ack) == syn update @flows { tcp sport timeout 4s } accept; \
     tcp sport @flows update @flows { tcp sport timeout 4s } accept; tcp dport != 0 drop; }; \
     chain output { type filter hook output priority 0; oifname != \"eth0\" accept; \
     tcp dport @flows update @flows { tcp dport timeout 4s } accept; tcp dport != 0 drop; }; }";

/// What is sent to the far host by IPv6 arrives; nothing comes back.
const ONE_WAY: &str = "table inet test { chain output { type filter hook output priority 0; \
     oifname \"eth0\" meta nfproto ipv6 meta l4proto tcp drop; }; }";

/// Nothing passes any more.
const CLOSED: &str = "table inet test { chain input { type filter hook input priority 0; policy drop; }; \
     chain output { type filter hook output priority 0; policy drop; }; }";

/// Two hosts, on the far one a real sshd at port 22.
struct Scene {
    site: Site,
    hosts: Pair,
    sshd: Sshd,
}

impl Scene {
    fn new() -> Option<Self> {
        let site = Site::new();
        let (hosts, sshd) = Sshd::beyond_firewalls(&site)?;
        Some(Self { site, hosts, sshd })
    }

    fn copy(&self, options: &[&str]) -> Command {
        let mut command = self.site.copy(&["--ssh", &self.sshd.command]);
        command.args(options);
        command
    }

    /// Pushes and pulls the file `source` with these options.
    #[track_caller]
    fn both_ways(&self, options: &[&str], check: impl Fn(&Ended)) {
        let (here, far) =
            (|name: &str| OsString::from(name), |name: &str| format!("far:{}", self.site.path(name).display()));
        for (source, destination) in [(here("source"), far("pushed").into()), (far("source").into(), here("pulled"))] {
            let mut command = self.copy(options);
            command.args([source, destination]);
            let ended = self.hosts.near.run(&command).run().expect_code(0);
            check(&ended);
        }
        for copy in ["pushed", "pulled"] {
            assert_same(&self.site.path("source"), &self.site.path(copy));
            fs::remove_file(self.site.path(copy)).unwrap();
        }
        assert_no_leftovers(self.site.root());
    }
}

fn in_one_session(ended: &Ended) {
    assert!(ended.all("reconnecting").next().is_none(), "{ended}");
}

#[test]
fn a_port_of_ssh_that_is_throttled_carries_a_copy() {
    let Some(scene) = Scene::new() else { return };
    scene.hosts.far.firewall(THROTTLED);
    data::file(&scene.site.path("source"), 8 * MIB, 6);
    scene.both_ways(&["--streams", "4"], |ended| {
        let route = ended.all("route").next().unwrap_or_else(|| panic!("{ended}"));
        assert_eq!(route["via"], "ssh", "{ended}");
    });
}

#[test]
fn connections_that_a_nat_would_forget_are_kept_alive() {
    let Some(scene) = Scene::new() else { return };
    scene.hosts.far.firewall(FORGETFUL);
    data::file(&scene.site.path("source"), 20 * MIB, 7);
    // The first ssh says nothing all the time, and is forgotten where it does not carry the data.
    for via in ["direct", "ssh"] {
        scene.both_ways(&["--via", via, "--streams", "4", "--rate", "16mbit"], in_one_session);
    }
}

#[test]
fn connections_that_a_nat_has_forgotten_are_given_up() {
    let Some(scene) = Scene::new() else { return };
    scene.hosts.far.firewall(FORGETFUL);
    let file = scene.site.path("source");
    data::file(&file, 48 * MIB, 8);
    let mut command = scene.copy(&["--via", "direct", "--streams", "4", "--rate", "80mbit", "source"]);
    command.arg(format!("far:{}", scene.site.path("pushed").display()));
    let mut run = scene.hosts.near.run(&command).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    // As a host that is suspended.
    run.signal(Signal::STOP);
    let _ = run.runs_after(Duration::from_secs(8));
    run.signal(Signal::CONT);
    run.finish().expect_code(0);
    assert_same(&file, &scene.site.path("pushed"));
}

/// The command with a file of its own in the place of `/etc/hosts`.
fn with_hosts(host: &Host, site: &Site, command: &Command) -> Command {
    let script = format!("mount --bind '{}' /etc/hosts && exec \"$@\"", site.path("hosts").display());
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", &script, "sh"]);
    host.run(&started_by(inside, command))
}

#[test]
fn an_address_that_answers_one_way_only_is_passed_over() {
    let Some(hosts) = Pair::new() else { return };
    if !has_program("nft") || !has_program("unshare") {
        return skip("it needs nftables and unshare");
    }
    for (host, address) in [(&hosts.near, "fd77::1/64"), (&hosts.far, "fd77::2/64")] {
        succeed(host.command("ip").args(["address", "add", address, "dev", "eth0", "nodad"]));
    }
    hosts.far.firewall(ONE_WAY);
    let site = Site::new();
    fs::write(site.path("hosts"), format!("127.0.0.1 localhost\nfd77::2 far.test\n{} far.test\n", hosts.far.address()))
        .unwrap();
    let tree = data::tree(&site.path("tree"), 9, &Shape { large: vec![9 * MIB], small: 20, ..Shape::default() });
    let ssh = site.ssh_to(&hosts.far);
    let mut command = site.copy(&["--ssh", &ssh, "--streams", "4", "tree"]);
    command.arg(format!("far.test:{}", site.path("pushed").display()));
    let ended = with_hosts(&hosts.near, &site, &command).run().expect_code(0);
    assert_eq!(ended.all("route").next().unwrap()["via"], "direct", "{ended}");
    let peers: Vec<&str> = ended.all("connected").map(|event| event["peer"].as_str().unwrap()).collect();
    assert!(peers.iter().all(|peer| peer.starts_with(hosts.far.address())), "{peers:?}");
    assert_same(&tree, &site.path("pushed"));
    // IPv6 alone does not do.
    let mut command = site.copy(&["--ssh", &ssh, "-6", "--via", "direct", "tree"]);
    command.arg(format!("far.test:{}", site.path("other").display()));
    let ended = with_hosts(&hosts.near, &site, &command).run().expect_code(3);
    assert!(ended.stderr.contains("no answer") && ended.stderr.contains("--port"), "{ended}");
}

#[test]
fn where_ssh_does_not_pass_any_more_a_copy_is_given_up() {
    let Some(scene) = Scene::new() else { return };
    data::file(&scene.site.path("source"), 48 * MIB, 9);
    let mut command =
        scene.copy(&["--via", "ssh", "--streams", "4", "--rate", "80mbit", "--retry-for", "5s", "source"]);
    command.arg(format!("far:{}", scene.site.path("pushed").display()));
    let run = scene.hosts.near.run(&command).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    scene.hosts.far.firewall(CLOSED);
    let ended = run.finish();
    // What sshd still holds ends now.
    scene.hosts.far.firewall("flush ruleset");
    assert!(ended.code == Some(4) && ended.stderr.contains("run the same command again"), "{ended}");
}
