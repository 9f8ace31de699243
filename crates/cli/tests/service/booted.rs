//! `systemd/icdc.service` and `icdc.socket` under a systemd of their own.

use std::process::Command;

use serde_json::Value;

use crate::support::booted::Booted;
use crate::support::process::{Ended, eventually};
use crate::support::{MIB, Site, Start};

const SERVICE: &str = include_str!("../../../../systemd/icdc.service");
const SOCKET: &str = include_str!("../../../../systemd/icdc.socket");

/// Users and keys as docs/node.md has them, and something to copy. Each client's key has the name of its
/// directory: `own` is the daemon's user's, `elsewhere` and `home` are what the unit does not let it have.
const SETUP: &str = r#"
useradd --system --user-group --home-dir /var/lib/icdc --no-create-home --shell /usr/sbin/nologin icdc
useradd --user-group --create-home alice
install -d -m 0751 -g icdc /etc/icdc
icdc keygen --identity /etc/icdc/identity
chown icdc: /etc/icdc/identity
key() {
    icdc keygen --identity "/root/$1"
    install -d -m 0750 -o "$2" "$3"
    echo "root=$3,rights=rw$4 $(cat "/root/$1.pub")" >>/etc/icdc/authorized_keys
}
key own icdc /srv/own ''
key alice alice /srv/alice ,user=alice
key elsewhere alice /opt/data ,user=alice
key home alice /home/alice/data ,user=alice
chgrp icdc /etc/icdc/authorized_keys
chmod 0640 /etc/icdc/authorized_keys
icdc keygen --trust 127.0.0.1 "$(cat /etc/icdc/identity.pub)"
mkdir -p /root/tree/within
ln -s within/small /root/tree/link
echo small >/root/tree/within/small
"#;

/// What the filter refuses ends the process: nothing that icdc does is refused, be it with a fallback.
const DEADLY: &str = "SystemCallErrorNumber=kill";
/// Ends while something happens to the daemon, after all of it.
const LONG: [&str; 2] = ["--rate", "60mbit"];
const SIZE: u64 = 40 * MIB;

/// A data transfer node that is its own client.
struct Node {
    system: Booted,
    _site: Site,
}

impl Node {
    /// With these settings of the service besides. `None` where there cannot be one.
    fn new(settings: &str) -> Option<Self> {
        let site = Site::new();
        let node = Self { system: Booted::boot(&site)?, _site: site };
        node.system.shell(SETUP);
        node.system.shell(&format!("head -c {SIZE} /dev/urandom >/root/big"));
        node.system.write("/etc/systemd/system/icdc.service", SERVICE);
        node.system.write("/etc/systemd/system/icdc.socket", SOCKET);
        node.set("test", settings);
        Some(node)
    }

    /// The same, with the service running.
    fn serving(settings: &str) -> Option<Self> {
        let node = Self::new(settings)?;
        node.systemctl("start icdc.service");
        assert_eq!(node.state(), "active", "{}", node.journal());
        Some(node)
    }

    fn set(&self, name: &str, settings: &str) {
        self.system
            .write(&format!("/etc/systemd/system/icdc.service.d/{name}.conf"), &format!("[Service]\n{settings}\n"));
        self.systemctl("daemon-reload");
    }

    fn systemctl(&self, words: &str) {
        let output = self.system.command("systemctl").args(words.split(' ')).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "systemctl {words}: {said}\n{}", self.journal());
    }

    fn state(&self) -> String {
        let output = self.system.command("systemctl").args(["is-active", "icdc.service"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn property(&self, name: &str) -> String {
        self.system.shell(&format!("systemctl show --property={name} --value icdc.service"))
    }

    fn journal(&self) -> String {
        self.system.shell("journalctl --no-pager --output=cat --unit=icdc.service")
    }

    /// The lines of the audit log of these events.
    fn audit(&self, event: &str) -> Vec<Value> {
        let log = self.system.shell("cat /var/log/icdc/audit.log");
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == event).collect()
    }

    /// `icdc copy` with the key of that name.
    fn copy(&self, key: &str, options: &[&str], from: &str, to: &str) -> Command {
        let mut command = self.system.command("icdc");
        command.args(["copy", "--json", "--retry-for", "1s", "--identity", &format!("/root/{key}")]);
        command.args(options).args([from, to]);
        command
    }

    fn push(&self, key: &str, options: &[&str], name: &str) -> Command {
        self.copy(key, options, "/root/big", &format!("icdc://127.0.0.1/{name}"))
    }

    /// Whether a file is what was copied; panics if it is not.
    fn expect_copied(&self, path: &str, owner: &str) {
        assert_eq!(self.system.shell(&format!("cmp /root/big {path} && stat --format=%U {path}")), owner);
    }

    /// Nothing that happened was worth a warning, be it of the daemon, of a session or of systemd.
    fn expect_no_complaint(&self) {
        let journal = self.journal();
        for complaint in ["WARN", "ERROR", "ended without a word", "Got notification", "Killing", "ailed"] {
            assert!(!journal.contains(complaint), "{complaint}: {journal}");
        }
    }
}

#[test]
fn copies_run_as_the_users_of_their_keys_within_the_sandbox() {
    let Some(node) = Node::serving(DEADLY) else { return };
    for (key, user) in [("own", "icdc"), ("alice", "alice")] {
        let pushed = node.push(key, &[], "pushed").run().expect_code(0);
        node.expect_copied(&format!("/srv/{key}/pushed"), user);
        let end = node.audit("session_end").pop().unwrap();
        assert_eq!((&end["result"], &end["digest"]), (&"complete".into(), &pushed.summary()["digest"]), "{end}");
        let pull = node.copy(key, &["--verify"], "icdc://127.0.0.1/pushed", "/root/pulled").run().expect_code(0);
        assert_eq!(pull.summary()["read_back"], true, "{pull}");
        node.expect_copied("/root/pulled", "root");
        let everything = ["--preserve", "mode,times,links,xattr,sparse", "--verify"];
        node.copy(key, &everything, "/root/tree", "icdc://127.0.0.1/").run().expect_code(0);
        assert_eq!(node.system.shell(&format!("cat /srv/{key}/tree/link")), "small");
        let measure =
            ["measure", "--json", "--seconds", "1", "--identity", &format!("/root/{key}"), "icdc://127.0.0.1"];
        node.system.command("icdc").args(measure).run().expect_code(0);
    }
    let sessions = node.audit("session_start");
    assert!(sessions.iter().any(|session| session["user"] == "alice"), "{sessions:?}");
    assert_eq!(node.system.shell("stat --format='%a %U' /var/log/icdc/audit.log"), "640 icdc");
    assert_eq!(node.property("NRestarts"), "0");
    node.expect_no_complaint();
}

#[test]
fn data_that_the_unit_does_not_name_are_out_of_reach_until_it_does() {
    let Some(node) = Node::serving("") else { return };
    let analysis = node.system.shell("systemd-analyze --no-pager security icdc.service");
    let (_, level) = analysis.rsplit_once("icdc.service: ").unwrap();
    let level: f64 = level.split_whitespace().next().unwrap().parse().unwrap();
    assert!(level <= 2.0, "{analysis}");
    let refused = |key: &str, code: i32, setting: &str| {
        let ended: Ended = node.push(key, &[], "pushed").run().expect_code(code);
        assert!(ended.stderr.contains(setting), "{ended}");
    };
    refused("elsewhere", 2, "ReadWritePaths=");
    refused("home", 3, "ProtectHome=");
    assert_eq!(node.system.shell("find /opt/data /home/alice/data -type f"), "");
    node.set("data", "ReadWritePaths=/opt/data /home/alice/data\nProtectHome=no");
    node.systemctl("restart icdc.service");
    for (key, directory) in [("elsewhere", "/opt/data"), ("home", "/home/alice/data")] {
        node.push(key, &[], "pushed").run().expect_code(0);
        node.expect_copied(&format!("{directory}/pushed"), "alice");
    }
}

#[test]
fn a_service_that_stops_interrupts_its_copies_which_are_resumed() {
    let Some(node) = Node::serving(DEADLY) else { return };
    for (key, user) in [("own", "icdc"), ("alice", "alice")] {
        let run = node.push(key, &LONG, "pushed").start();
        assert!(run.wait_for_bytes(12 * MIB), "{}", run.stderr());
        node.systemctl("stop icdc.service");
        run.finish().expect_code(4);
        assert_eq!((node.state(), node.property("Result")), ("inactive".into(), "success".into()));
        assert_eq!(node.audit("session_end").pop().unwrap()["result"], "interrupted");
        node.systemctl("start icdc.service");
        let resumed = node.push(key, &[], "pushed").run().expect_code(0);
        assert!(resumed.resumed() > 0, "{resumed}");
        node.expect_copied(&format!("/srv/{key}/pushed"), user);
    }
    node.expect_no_complaint();
}

#[test]
fn running_copies_outlast_a_reload_and_the_next_daemon() {
    let Some(node) = Node::serving(DEADLY) else { return };
    let first = node.property("MainPID");
    let run = node.push("alice", &LONG, "running").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    node.systemctl("reload icdc.service");
    assert!(eventually(|| node.audit("reload").len() == 1 && node.state() == "active"), "{}", node.journal());
    assert_eq!(node.property("MainPID"), first);
    node.systemctl("kill --kill-whom=main --signal=SIGUSR2 icdc.service");
    assert!(eventually(|| node.property("MainPID") != first), "{}", node.journal());
    assert_eq!(node.state(), "active");
    node.push("own", &[], "second").run().expect_code(0);
    node.expect_copied("/srv/own/second", "icdc");
    run.finish().expect_code(0);
    node.expect_copied("/srv/alice/running", "alice");
    let processes = || node.system.shell("grep -c . /sys/fs/cgroup/system.slice/icdc.service/cgroup.procs");
    assert!(eventually(|| processes() == "1"), "{}", node.journal());
    assert_eq!((node.state(), node.property("NRestarts")), ("active".into(), "0".into()));
    node.push("own", &[], "third").run().expect_code(0);
    node.expect_no_complaint();
}

#[test]
fn a_service_that_stops_interrupts_the_copies_of_the_daemon_before_as_well() {
    let Some(node) = Node::serving("") else { return };
    let first = node.property("MainPID");
    let run = node.push("alice", &LONG, "pushed").start();
    assert!(run.wait_for_bytes(12 * MIB), "{}", run.stderr());
    node.systemctl("kill --kill-whom=main --signal=SIGUSR2 icdc.service");
    assert!(eventually(|| node.property("MainPID") != first), "{}", node.journal());
    node.systemctl("stop icdc.service");
    run.finish().expect_code(4);
    assert_eq!((node.state(), node.property("Result")), ("inactive".into(), "success".into()));
    assert_eq!(node.audit("session_end").pop().unwrap()["result"], "interrupted");
    node.expect_no_complaint();
}

#[test]
fn a_service_that_drains_ends_with_its_last_copy() {
    let Some(node) = Node::serving("") else { return };
    let run = node.push("alice", &LONG, "pushed").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    // To all its processes, as `systemctl kill` does where it is not told to whom.
    node.systemctl("kill --signal=SIGUSR1 icdc.service");
    run.finish().expect_code(0);
    node.expect_copied("/srv/alice/pushed", "alice");
    assert!(eventually(|| node.state() == "inactive"), "{}", node.journal());
    assert_eq!((node.property("Result"), node.property("NRestarts")), ("success".into(), "0".into()));
}

#[test]
fn a_daemon_that_hangs_is_started_anew_and_one_that_works_is_not() {
    let Some(node) = Node::serving("WatchdogSec=3") else { return };
    // Longer than the watchdog waits, by this daemon and by the next one.
    node.push("alice", &LONG, "first").run().expect_code(0);
    let first = node.property("MainPID");
    node.systemctl("kill --kill-whom=main --signal=SIGUSR2 icdc.service");
    assert!(eventually(|| node.property("MainPID") != first), "{}", node.journal());
    node.push("alice", &LONG, "second").run().expect_code(0);
    assert_eq!((node.state(), node.property("NRestarts")), ("active".into(), "0".into()));
    let hanging = node.property("MainPID");
    node.systemctl("kill --kill-whom=main --signal=SIGSTOP icdc.service");
    assert!(eventually(|| node.property("NRestarts") == "1" && node.state() == "active"), "{}", node.journal());
    assert_ne!(node.property("MainPID"), hanging);
    node.push("alice", &[], "third").run().expect_code(0);
    node.expect_copied("/srv/alice/third", "alice");
}

#[test]
fn a_connection_starts_the_service_by_its_socket() {
    let Some(node) = Node::new(DEADLY) else { return };
    node.systemctl("start icdc.socket");
    assert_eq!(node.state(), "inactive");
    node.push("alice", &[], "first").run().expect_code(0);
    assert_eq!(node.state(), "active");
    // The next daemon has the socket from this one.
    let first = node.property("MainPID");
    node.systemctl("kill --kill-whom=main --signal=SIGUSR2 icdc.service");
    assert!(eventually(|| node.property("MainPID") != first), "{}", node.journal());
    node.push("alice", &[], "second").run().expect_code(0);
    // One that drains ends with its last session, and the next connection starts one anew.
    node.systemctl("kill --kill-whom=main --signal=SIGUSR1 icdc.service");
    assert!(eventually(|| node.state() == "inactive"), "{}", node.journal());
    node.push("own", &[], "third").run().expect_code(0);
    assert_eq!(node.state(), "active");
    node.expect_copied("/srv/alice/first", "alice");
    node.expect_copied("/srv/alice/second", "alice");
    node.expect_copied("/srv/own/third", "icdc");
    node.expect_no_complaint();
}

#[test]
fn it_works_without_io_uring_and_without_any_capability() {
    let less = "SystemCallFilter=~io_uring_setup io_uring_enter io_uring_register\nAmbientCapabilities=\nCapabilityBoundingSet=";
    let Some(node) = Node::serving(less) else { return };
    node.push("own", &[], "pushed").run().expect_code(0);
    node.expect_copied("/srv/own/pushed", "icdc");
    node.copy("own", &["--verify"], "icdc://127.0.0.1/pushed", "/root/pulled").run().expect_code(0);
    node.expect_copied("/root/pulled", "root");
    node.expect_no_complaint();
    let refused = node.push("alice", &[], "pushed").run().expect_code(3);
    assert!(refused.stderr.contains("alice"), "{refused}");
}
